//! What the runs of a node say on each axis, and of the node.

use super::axes;
use super::scores::{AxisScores, Score, decided, mean, scale};
use crate::results::fleet::{AxisState, AxisSummary, NodeAxis, NodeVerdict};
use crate::statistics::summary::median;

/// One run is suspect from this many deviations on.
const SUSPECT: f64 = 4.0;
/// Several runs show a difference from this many deviations of their mean on.
const CONFIRMED: f64 = 4.5;
/// And from this many on a further run has to decide.
const OPEN: f64 = 3.5;
/// Each of several runs that confirm a difference shows it with this many.
const EACH: f64 = 2.0;
/// A round with fewer decided nodes takes the scatter of the round with most.
const FEWEST: usize = 30;

/// The scatter between runs of one machine counts as much as that of this number of siblings. Few siblings agree closely by chance, and
/// they differ no less than two runs of one machine do.
const WEIGHT_OF_RUNS: f64 = 10.0;

/// The scatter of an axis between siblings.
struct Scatter {
    /// Centre and standard deviation, for each round.
    rounds: Vec<(f64, f64)>,
    /// Standard deviation of means over several runs.
    means: f64,
    /// Of the round with most nodes.
    single: f64,
}

fn scatter(scores: &AxisScores, rounds: usize) -> Scatter {
    let values: Vec<Vec<f64>> =
        (0..rounds).map(|round| scores.round(round).into_iter().map(|(_, value)| value).collect()).collect();
    let most = values.iter().max_by_key(|values| values.len());
    let scatter_of = |values: &Vec<f64>| {
        let siblings = values.len() as f64;
        let variance = siblings * scale(values).powi(2) + WEIGHT_OF_RUNS * scores.between.powi(2);
        (variance / (siblings + WEIGHT_OF_RUNS)).sqrt()
    };
    let single = most.map_or(1.0, scatter_of);
    let of_all = most.and_then(|values| median(values)).unwrap_or(0.0);
    let of_round = |values: &Vec<f64>| {
        if values.len() >= FEWEST { (median(values).unwrap_or(of_all), scatter_of(values)) } else { (of_all, single) }
    };
    let rounds: Vec<(f64, f64)> = values.iter().map(of_round).collect();
    let centred = |runs: &Vec<Score>| -> Vec<f64> {
        let of = |(round, score): (usize, &Score)| Some(score.value()? - rounds[round].0);
        runs.iter().enumerate().filter_map(of).collect()
    };
    let several = scores.scores.iter().map(centred).filter(|values| values.len() > 1);
    let means: Vec<f64> = several.filter_map(|values| mean(&values)).collect();
    let least = single / 2.0_f64.sqrt();
    let means = if means.len() >= FEWEST { scale(&means).max(least) } else { single };
    Scatter { rounds, means, single }
}

/// An axis of each node, and of the group.
pub fn judge(scores: &AxisScores, rounds: usize) -> (Vec<NodeAxis>, AxisSummary) {
    let scatter = scatter(scores, rounds);
    let least = axes::least(scores.axis);
    let nodes: Vec<NodeAxis> = scores.scores.iter().map(|runs| node(scores, runs, &scatter, least)).collect();
    let undecided = nodes.iter().filter(|node| node.runs == 0).count();
    let summary = AxisSummary {
        axis: scores.axis,
        results: scores.keys.clone(),
        scatter: scatter.single.exp_m1(),
        least: least.exp_m1(),
        decided: (nodes.len() - undecided) as u32,
        undecided: undecided as u32,
    };
    (nodes, summary)
}

fn node(scores: &AxisScores, runs: &[Score], scatter: &Scatter, least: f64) -> NodeAxis {
    let of = |(round, score): (usize, &Score)| {
        let (centre, scale) = scatter.rounds[round];
        let effect = score.value()? - centre;
        Some((effect, effect / scale))
    };
    let found: Vec<(f64, f64)> = runs.iter().enumerate().filter_map(of).collect();
    let count = decided(runs).len() as u32;
    let mut axis =
        NodeAxis { axis: scores.axis, state: AxisState::Undecided, effect: None, z: None, runs: count, reason: None };
    match found.as_slice() {
        [] => {
            axis.reason = Some(reason(runs).to_owned());
        }
        [(effect, z)] => {
            // Where a second run was made and does not decide, less is enough for a third.
            let limit = if runs.len() > 1 { OPEN } else { SUSPECT };
            let differs = z.abs() > limit && effect.abs() >= least;
            axis.state = if differs { AxisState::Suspect } else { AxisState::Usual };
            (axis.effect, axis.z) = (Some(effect.exp_m1()), Some(*z));
        }
        several => {
            let effects: Vec<f64> = several.iter().map(|(effect, _)| *effect).collect();
            // The median of three or more runs: one bad hour decides nothing.
            let effect = if effects.len() > 2 { median(&effects) } else { mean(&effects) }.unwrap_or(0.0);
            let z = effect / scatter.means;
            let shown = several.iter().filter(|(_, z)| z.abs() > EACH && z.signum() == effect.signum()).count();
            let each = 3 * shown >= 2 * several.len() && shown >= 2;
            axis.state = match () {
                () if effect.abs() < least || !each => AxisState::Usual,
                () if z.abs() > CONFIRMED => AxisState::Odd,
                () if z.abs() > OPEN => AxisState::Suspect,
                () => AxisState::Usual,
            };
            (axis.effect, axis.z) = (Some(effect.exp_m1()), Some(z));
        }
    }
    axis
}

/// Why no run decides: what a further run could change is named first.
fn reason(runs: &[Score]) -> &'static str {
    match () {
        () if runs.contains(&Score::Contaminated) => "contaminated",
        () if runs.contains(&Score::Refused) => "refused",
        () if runs.contains(&Score::Incomparable) => "not comparable",
        () => "missing",
    }
}

/// What all axes of a node say together; `absent` and `slow` are findings that no axis has, and `confirmed` that several runs
/// have them.
pub fn verdict(axes: &[NodeAxis], other_finding: bool, confirmed: bool) -> NodeVerdict {
    let any = |state: AxisState| axes.iter().any(|axis| axis.state == state);
    match () {
        () if any(AxisState::Odd) || other_finding && confirmed => NodeVerdict::Odd,
        () if any(AxisState::Suspect) || other_finding => NodeVerdict::Suspect,
        // Without an axis nothing was compared.
        () if axes.is_empty() || any(AxisState::Undecided) => NodeVerdict::Undecided,
        () => NodeVerdict::Healthy,
    }
}
