//! Where time buys most: which experiments have reached their targets, and what one more launch of the others would gain for
//! each second that it takes.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::evaluate::gates;
use crate::evaluate::others::TAKEN_SHARE;
use crate::experiments::{self, Experiment, Nature};
use crate::results::document::{Grade, Metric, Outcome, Section};
use crate::results::gate_numbers::GateRelation;
use crate::results::verdict::{Gate, Severity};
use crate::setup::Setup;
use crate::statistics::location::FEWEST_LAUNCHES;
use crate::statistics::summary::median;

/// Share of an experiment's headline figures that must be good before it rests.
const REACHED_SHARE: f64 = 0.8;

/// Launches before an experiment may rest, of one that takes part in every round and of one that does so seldom.
const LEAST_LAUNCHES: [u32; 2] = [8, 5];

/// A figure that is further from its target than this many times counts the less, the further it is: it may have reasons that no
/// launch removes.
const HOPELESS: f64 = 3.0;

/// Launches for each that a figure has, beyond which the figure has few launches because of disturbances. No figure takes turns more
/// seldom.
const SELDOM: f64 = 3.0;

/// Share of the time that is left in which the launches that a disturbed figure may need must fit: it may stay disturbed.
const HOPE_SHARE: f64 = 0.25;

/// Share of the headline figures of all experiments that must be good before a run ends, if each experiment has its launches.
const ENOUGH_SHARE: f64 = REACHED_SHARE;

/// Share of that at which a run is close to its end.
const NEARLY: f64 = 0.9;

/// A round takes this part of its usual time close to the end, so that the run does not go on for long when it has enough.
const SHORTER: f64 = 0.5;

/// Rounds among which the time of a run is divided, once time goes to where it buys most.
const SLICES: f64 = 40.0;

/// Launches of one experiment in a round at most, so that the figures are looked at again before long.
const MOST_IN_A_ROUND: u32 = 4;

/// No launch counts less.
const LEAST_SECONDS: f64 = 1e-3;

/// What the figures so far say about the launches to come.
#[derive(Debug, Default)]
pub struct Worth {
    /// Experiments that have reached their targets.
    reached: BTreeSet<String>,
    /// What launches of an experiment gain.
    gains: BTreeMap<String, Gain>,
    /// Figures that are asked of all experiments, and how many of them are good.
    asked: usize,
    good: usize,
    /// Launches that experiments need before a run ends.
    least: BTreeMap<String, u32>,
    /// Whether the run ends when it has enough.
    ends_early: bool,
}

/// What the launches of a round have to do with: how many each experiment had and may have, and seconds.
#[derive(Debug, Clone, Copy)]
pub struct Budget<'a> {
    /// Launches of each experiment so far.
    pub launches: &'a BTreeMap<String, u32>,
    /// Launches of an experiment at most.
    pub most: u32,
    /// Seconds of the run.
    pub limit: f64,
    /// Seconds that are left of them.
    pub left: f64,
}

/// What launches of an experiment gain.
#[derive(Debug, Clone, Default)]
struct Gain {
    /// Launches so far, without those of a part of the experiment that others are predicted from.
    launches: u32,
    /// For each figure that has too few launches: how many more of the experiment give it enough. Not each launch has each figure.
    missing: Vec<f64>,
    /// For each figure that is contaminated, or has few undisturbed launches: in how many more launches enough may be undisturbed.
    hoped: Vec<f64>,
    /// For each figure that launches bring to its target: how many more of the experiment that takes, by the number of launches.
    near: Vec<f64>,
    /// The squares of the distances of its figures from their targets, which fall with the number of launches.
    squares: f64,
}

/// How much one more launch is worth for each second that it takes. What resolves a figure comes first.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
enum Value {
    /// The fall of the squares of distances.
    Sharper(f64),
    /// Figures that reach their targets, or may get enough undisturbed launches.
    Reached(f64),
    /// Figures that get enough launches.
    Resolved(f64),
}

impl Gain {
    /// By the figures that are asked of an experiment, which needs at least `least` launches. `taken` is the share of the time that
    /// others take from its launches to come.
    fn of(launches: u32, asked: &[&Metric], least: u32, target: f64, taken: f64) -> Gain {
        // How many it has, and how many it lacks. At most half of the launches have those that take turns: enough is the least for them.
        let has = |metric: &Metric| f64::from(metric.launches);
        let lacks = |metric: &Metric| {
            let enough = if 2 * metric.launches <= launches { FEWEST_LAUNCHES as u32 } else { least };
            f64::from(enough.saturating_sub(metric.launches))
        };
        let all = f64::from(launches);
        let (disturbed, others): (Vec<&Metric>, Vec<&Metric>) = asked.iter().copied().partition(|metric| {
            let has_all = lacks(metric) == 0.0;
            if has_all { metric.grade.has_foreign_part() } else { all > SELDOM * has(metric).max(1.0) }
        });
        // Others may take less from the launches to come. Any of them may be undisturbed, although none was yet. The chance is one
        // in the number of launches plus two, by the rule of succession.
        let hope = |metric: &Metric| match lacks(metric) {
            0.0 => {
                launches_until_little_is_taken(metric, launches, taken).unwrap_or(FEWEST_LAUNCHES as f64 * (all + 2.0))
            }
            lacks => lacks * (all + 2.0) / (has(metric) + 1.0),
        };
        let missing = |metric: &Metric| lacks(metric) * all / has(metric).max(1.0);
        Gain {
            launches,
            hoped: disturbed.into_iter().map(hope).collect(),
            near: asked.iter().filter_map(|metric| launches_to_target(metric, launches, target)).collect(),
            // The experiment itself needs its launches too: the run waits for them.
            missing: others
                .into_iter()
                .map(missing)
                .chain((launches < least).then(|| f64::from(least - launches)))
                .filter(|&launches| launches > 0.0)
                .collect(),
            squares: asked
                .iter()
                .map(|metric| {
                    // What a part of the launches has gains by that part of them.
                    let share = (f64::from(metric.launches) / f64::from(launches.max(1))).min(1.0);
                    share * square_of_distance(metric, target)
                })
                .sum(),
        }
    }

    /// What a launch that takes some seconds is worth after some more of them, where this many launches are still possible.
    fn value(&self, seconds: f64, more: u32, possible: f64) -> Value {
        let more = f64::from(more);
        // What comes too late resolves nothing.
        let resolved_of = |launches: &[f64], possible: f64| -> f64 {
            let left = launches.iter().map(|launches| launches - more);
            left.filter(|left| *left > 0.0 && *left <= possible).map(|left| 1.0 / left).sum()
        };
        let resolved = resolved_of(&self.missing, possible);
        if resolved > 0.0 {
            return Value::Resolved(resolved / seconds);
        }
        // The run ends when enough figures are good: what is nearest comes first.
        let reached = resolved_of(&self.near, possible) + resolved_of(&self.hoped, possible * HOPE_SHARE);
        if reached > 0.0 {
            return Value::Reached(reached / seconds);
        }
        let had = f64::from(self.launches.max(1));
        let has = had + more;
        Value::Sharper(self.squares * had / (has * (has + 1.0)) / seconds)
    }
}

impl Worth {
    /// By the figures of the experiments, and the launches of each so far.
    pub fn of(sections: &[Section], setup: &Setup, launches: &BTreeMap<String, u32>) -> Worth {
        let mut worth = Worth { ends_early: setup.profile.ends_early(), ..Worth::default() };
        let taken = usually_taken(sections.iter().map(|section| section.metrics.as_slice()));
        for section in sections {
            let Some(experiment) = experiments::find(&section.id) else { continue };
            let asked = asked(experiment, section);
            // Those of a part of the experiment that others are predicted from do not count.
            let launches = launches.get(&section.id).copied().unwrap_or(0);
            if launches >= least_launches(experiment, setup) && has_reached(&asked) {
                worth.reached.insert(section.id.clone());
            }
            let least =
                if setup.profile.is_quick() { FEWEST_LAUNCHES as u32 } else { least_launches(experiment, setup) };
            let gain = Gain::of(launches, &asked, least, experiment.precision.target, taken);
            worth.gains.insert(section.id.clone(), gain);
            if section.outcome == Outcome::Measured {
                worth.least.insert(section.id.clone(), least);
            }
            worth.asked += asked.len();
            worth.good += asked.iter().filter(|metric| metric.grade == Grade::Good).count();
        }
        worth
    }

    /// Whether a run has what it needs, given the launches of each experiment: enough of them, and enough good figures.
    pub fn is_enough(&self, launches: &BTreeMap<String, u32>) -> bool {
        self.has_good(ENOUGH_SHARE) && !self.lacks(launches)
    }

    /// Whether a run may have what it needs after another round or two.
    pub fn is_nearly_enough(&self, launches: &BTreeMap<String, u32>) -> bool {
        self.has_good(NEARLY * ENOUGH_SHARE) && !self.lacks(launches)
    }

    /// Whether the run may end early, and this share of the figures is good.
    fn has_good(&self, share: f64) -> bool {
        self.ends_early && self.good as f64 >= share * self.asked as f64
    }

    /// Whether an experiment has too few launches.
    fn lacks(&self, launches: &BTreeMap<String, u32>) -> bool {
        self.least.keys().any(|id| self.needs(id, launches.get(id).copied().unwrap_or(0)))
    }

    /// Whether an experiment with this many launches needs more before the run ends.
    fn needs(&self, experiment: &str, had: u32) -> bool {
        self.least.get(experiment).is_some_and(|least| had < *least)
    }

    /// Whether an experiment has reached its targets.
    pub fn rests(&self, experiment: &str) -> bool {
        self.reached.contains(experiment)
    }

    /// The launches for which the time of a round is best spent, given the seconds of a launch of each experiment. What gains most for
    /// each second comes first, until the round's share of the time is filled. One launch at least, if any fits. Where enough figures
    /// are good, only the launches that the run waits for.
    pub fn best(
        &self,
        among: &[&'static Experiment],
        budget: Budget<'_>,
        seconds: impl Fn(&Experiment) -> f64,
    ) -> Vec<&'static Experiment> {
        let Budget { launches, most, limit, left } = budget;
        let mut chosen: Vec<&'static Experiment> = Vec::new();
        let mut filled = 0.0;
        let round = limit / SLICES * if self.is_nearly_enough(launches) { SHORTER } else { 1.0 };
        let waits_for = |experiment: &Experiment| {
            let had = launches.get(experiment.id).copied().unwrap_or(0);
            self.needs(experiment.id, had) && seconds(experiment) <= left
        };
        let waits = self.has_good(ENOUGH_SHARE) && among.iter().any(|experiment| waits_for(experiment));
        while filled < round {
            let now = |experiment: &Experiment| chosen.iter().filter(|other| other.id == experiment.id).count() as u32;
            let had = |experiment: &Experiment| launches.get(experiment.id).copied().unwrap_or(0) + now(experiment);
            let value = |experiment: &Experiment| {
                let Some(gain) = self.gains.get(experiment.id) else { return Value::Resolved(f64::INFINITY) };
                let seconds = seconds(experiment).max(LEAST_SECONDS);
                let possible = ((left - filled) / seconds).min(f64::from(most - had(experiment)));
                gain.value(seconds, had(experiment).saturating_sub(gain.launches), possible)
            };
            let fits = |experiment: &Experiment| {
                now(experiment) < MOST_IN_A_ROUND
                    && had(experiment) < most
                    && filled + seconds(experiment) <= left
                    && (!waits || self.needs(experiment.id, had(experiment)))
            };
            // Of equals the first.
            let among = among.iter().copied().filter(|experiment| fits(experiment)).rev();
            let by_value = |one: &&'static Experiment, other: &&'static Experiment| {
                value(one).partial_cmp(&value(other)).unwrap_or(Ordering::Equal)
            };
            let Some(next) = among.max_by(by_value) else { break };
            filled += seconds(next);
            chosen.push(next);
        }
        chosen
    }
}

/// The figures that decide when an experiment rests. States of the machine, such as its clock, are waited for only where there is
/// nothing else. What all launches of the run decide, as they do the clock, gains nothing by separate launches.
fn asked<'a>(experiment: &Experiment, section: &'a Section) -> Vec<&'a Metric> {
    let is_cost =
        |metric: &&Metric| experiment.publication(&metric.name).is_none_or(|found| found.nature == Nature::Cost);
    let (costs, states): (Vec<&Metric>, Vec<&Metric>) = section
        .metrics
        .iter()
        .filter(|metric| metric.headline && metric.launches <= section.launches)
        .partition(is_cost);
    if costs.is_empty() { states } else { costs }
}

fn least_launches(experiment: &Experiment, setup: &Setup) -> u32 {
    LEAST_LAUNCHES[usize::from((experiment.every)(setup) > 1)]
}

/// Whether nearly all figures of an experiment are good.
fn has_reached(asked: &[&Metric]) -> bool {
    let good = asked.iter().filter(|metric| metric.grade == Grade::Good).count() as f64;
    good >= REACHED_SHARE * asked.len() as f64
}

/// What is asked of a figure: half of its interval over its value.
fn target_of(metric: &Metric, usual: f64) -> f64 {
    let mut asked = metric.verdict.gates.iter().filter(|gate| gate.id == gates::INTERVAL.id);
    asked.find_map(|gate| gate.numbers.as_ref()?.bounds.first().copied()).unwrap_or(usual)
}

/// Launches of an experiment after which a figure is likely to be within its target, where the interval within the run falls with the
/// root of its launches. None of a good one, and of one that launches do not bring there.
fn launches_to_target(metric: &Metric, launches: u32, target: f64) -> Option<f64> {
    let open = matches!(metric.grade, Grade::Rough | Grade::Unresolved);
    // Another gate that failed may fail after more launches too.
    let only_wide = metric
        .verdict
        .gates
        .iter()
        .all(|gate| gate.pass || gate.severity == Severity::Remark || gate.id == gates::INTERVAL.id);
    if !open || !only_wide || (metric.launches as usize) < FEWEST_LAUNCHES {
        return None;
    }
    let [low, high] = metric.within_run?;
    let target = target_of(metric, target);
    // What the part between runs leaves of the target.
    let room = target.powi(2) - metric.between_share.powi(2);
    let distance = ((high - low) / 2.0 / metric.value).powi(2) / room;
    // Where it is within the target, a gate is the reason.
    (room > 0.0 && distance > 1.0).then(|| (f64::from(launches) * (distance - 1.0)).max(1.0))
}

/// Shares of the time that others took while a figure was measured, by the rules that limit them.
fn taken(metric: &Metric) -> impl Iterator<Item = f64> + Clone {
    let limits = |gate: &&Gate| gate.severity == Severity::Disturbs;
    metric.verdict.gates.iter().filter(limits).filter_map(|gate| {
        let numbers = gate.numbers.as_ref()?;
        (numbers.relation == GateRelation::AtMost && numbers.bounds == [TAKEN_SHARE]).then_some(numbers.value)
    })
}

/// The share of the time that others take from an experiment: of half of the experiments it is less.
fn usually_taken<'a>(experiments: impl Iterator<Item = &'a [Metric]>) -> f64 {
    let worst = |metrics: &[Metric]| metrics.iter().flat_map(taken).reduce(f64::max);
    median(&experiments.filter_map(worst).collect::<Vec<_>>()).unwrap_or(0.0)
}

/// Launches after which others have taken no more than they may from a contaminated figure, if they take a usual share of the launches
/// to come. None where that is too much, and where something else contaminates the figure.
fn launches_until_little_is_taken(metric: &Metric, launches: u32, usual: f64) -> Option<f64> {
    let contaminates =
        |gate: &&Gate| !gate.pass && matches!(gate.severity, Severity::Contaminates | Severity::Disturbs);
    let reasons = metric.verdict.gates.iter().filter(contaminates).count();
    let worst = taken(metric).filter(|&share| share > TAKEN_SHARE);
    if worst.clone().count() < reasons || usual >= TAKEN_SHARE {
        return None;
    }
    let share = worst.reduce(f64::max)?;
    Some((f64::from(launches) * (share - TAKEN_SHARE) / (TAKEN_SHARE - usual)).max(1.0))
}

/// The square of a figure's distance from its target. One with too few launches has none: it is resolved first, or never.
fn square_of_distance(metric: &Metric, target: f64) -> f64 {
    let target = target_of(metric, target);
    let distance = match metric.grade {
        // None of the launches of a contaminated one counts.
        Grade::Good | Grade::Disturbed | Grade::Contaminated => return 0.0,
        _ if (metric.launches as usize) < FEWEST_LAUNCHES => return 0.0,
        Grade::Rough | Grade::Unresolved => {
            let [low, high] = metric.within_run.unwrap_or(metric.interval95);
            let distance = (high - low) / 2.0 / metric.value.abs() / target;
            if distance > HOPELESS { HOPELESS * HOPELESS / distance } else { distance }
        }
    };
    distance * distance
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::gate::{Number, Rule};
    use crate::results::verdict::{AgainstPrediction, Verdict};

    fn gain(launches: u32, missing: &[f64], squares: f64) -> Gain {
        Gain { launches, missing: missing.to_vec(), squares, ..Gain::default() }
    }

    fn worth(gains: &[(&str, Gain)]) -> Worth {
        let gains = gains.iter().map(|(id, gain)| ((*id).to_owned(), gain.clone())).collect();
        Worth { gains, ..Worth::default() }
    }

    /// The launches of a round of a run of four seconds, a tenth of a second of launches in each.
    fn best(worth: &Worth, ids: &[&str], left: f64) -> Vec<&'static str> {
        let seconds = |experiment: &Experiment| match experiment.id {
            "cpu.loop" => 0.01,
            "os.signal" | "os.system_call" => 0.05,
            _ => 2.0,
        };
        let among: Vec<_> = ids.iter().filter_map(|id| experiments::find(id)).collect();
        let launches = worth.gains.iter().map(|(id, gain)| (id.clone(), gain.launches)).collect();
        worth
            .best(&among, Budget { launches: &launches, most: 99, limit: 4.0, left }, seconds)
            .iter()
            .map(|experiment| experiment.id)
            .collect()
    }

    /// A figure with this many launches, whose interval is `distance` times as wide as its target of 10 %.
    fn figure(launches: u32, distance: f64, grade: Grade) -> Metric {
        let interval95 = [1.0 - 0.1 * distance, 1.0 + 0.1 * distance];
        Metric { interval95, launches, grade, ..Metric::example() }
    }

    #[test]
    fn what_an_experiment_lacks_is_missing_even_where_all_its_figures_are_good() {
        let good = [figure(10, 0.5, Grade::Good), figure(5, 0.5, Grade::Good)];
        let of = |launches: u32, figures: &[Metric]| {
            let figures: Vec<&Metric> = figures.iter().collect();
            Gain::of(launches, &figures, 8, 0.1, 0.0)
        };
        // Five launches besides those that others are predicted from: three more of the experiment, and of its second figure.
        assert_eq!(of(5, &good).missing, [3.0, 3.0]);
        assert!(of(8, &[figure(8, 0.5, Grade::Good)]).missing.is_empty());
        // A figure that a launch lost needs eight nevertheless. One that takes turns needs five, in three times the launches.
        assert_eq!(of(8, &[figure(7, 0.5, Grade::Good)]).missing, [8.0 / 7.0]);
        assert_eq!(of(9, &[figure(3, 2.0, Grade::Unresolved)]).missing, [6.0]);
    }

    #[test]
    fn what_is_far_from_its_target_gains_less_the_further_it_is() {
        let square =
            |launches: u32, distance: f64, grade: Grade| square_of_distance(&figure(launches, distance, grade), 0.1);
        let [near, edge, far, hopeless] = [1.5, 3.0, 6.0, 30.0].map(|distance| square(8, distance, Grade::Unresolved));
        assert!(near < edge && edge > far && far > hopeless, "{near} {edge} {far} {hopeless}");
        assert!((edge - 9.0).abs() < 1e-9 && hopeless < 0.1, "{edge} {hopeless}");
        // One that was disturbed in each of eight launches needs five undisturbed ones, of which every tenth may be one.
        let disturbed = figure(8, 0.5, Grade::Contaminated);
        let hopes = Gain::of(8, &[&disturbed], 8, 0.1, 0.0);
        assert!(hopes.missing.is_empty() && hopes.hoped == [50.0]);
        // One that was undisturbed in one of ten launches needs four more of which every sixth may be one, and waits for what is certain.
        let seldom =
            Gain::of(10, &[&figure(1, 0.5, Grade::Unresolved), &figure(4, 0.5, Grade::Unresolved)], 8, 0.1, 0.0);
        assert_eq!((seldom.hoped.as_slice(), seldom.missing.as_slice()), (&[24.0][..], &[2.5][..]));
        // They must fit into a quarter of the time, because it may be disturbed in all of them.
        assert_eq!(hopes.value(0.1, 0, 200.0), Value::Reached(1.0 / 50.0 / 0.1));
        assert_eq!(hopes.value(0.1, 0, 199.0), Value::Sharper(0.0));
        assert!(square(8, 2.0, Grade::Contaminated) == 0.0);
        // Too few launches are resolved first, and a good figure gains nothing.
        assert!(square(4, 2.0, Grade::Unresolved) == 0.0 && square(8, 2.0, Grade::Good) == 0.0);
        // A figure of half of the launches gains half.
        let sum = |launches: u32| Gain::of(8, &[&figure(launches, 2.0, Grade::Rough)], 8, 0.1, 0.0).squares;
        assert!((sum(8) - 4.0).abs() < 1e-9 && (sum(6) - 3.0).abs() < 1e-9, "{} {}", sum(8), sum(6));
    }

    #[test]
    fn a_burst_of_others_is_waited_out_and_others_that_stay_are_not() {
        let with = |shares: &[(&'static str, f64, f64)]| {
            let gates = shares.iter().map(|&(id, share, bound)| {
                let rule = Rule { path: "", id, severity: Severity::Disturbs, figures: "", demands: "", bounds: &[] };
                Gate::at_most(&rule, Number::share(share).named("{}"), bound)
            });
            let verdict = Verdict::from_gates(gates.collect(), AgainstPrediction::None);
            Metric { verdict, ..figure(8, 0.5, Grade::Disturbed) }
        };
        let needed = |metric: &Metric, usual: f64| launches_until_little_is_taken(metric, 8, usual);
        // Three per cent too much in eight launches, and three per cent less than may be in each of eight more.
        let burst = with(&[("G16", 0.08, 0.05), ("G16", 0.01, 0.05)]);
        assert!((needed(&burst, 0.02).unwrap() - 8.0).abs() < 1e-9);
        assert!((needed(&with(&[("G16", 0.051, 0.05)]), 0.0).unwrap() - 1.0).abs() < 1e-9, "one at least");
        assert_eq!(needed(&burst, 0.05), None, "they stay");
        assert_eq!(needed(&with(&[("G16", 0.08, 0.05), ("stalls", 0.9, 0.5)]), 0.02), None, "something else");
        assert_eq!(Gain::of(8, &[&burst], 8, 0.1, 0.02).hoped.len(), 1);
        // What others take from most experiments.
        let experiments = [0.02, 0.3, 0.01].map(|share| [with(&[("G16", share, 0.05)])]);
        let usual = usually_taken(experiments.iter().map(<[Metric; 1]>::as_slice));
        assert!((usual - 0.02).abs() < 1e-12, "{usual}");
    }

    #[test]
    fn what_is_nearest_to_its_target_comes_first() {
        let with = |within: f64, between_share: f64, grade: Grade| Metric {
            within_run: Some([1.0 - within, 1.0 + within]),
            between_share,
            ..figure(8, 2.0, grade)
        };
        let needed = |metric: &Metric| launches_to_target(metric, 16, 0.1);
        // Twice too wide needs four times the launches: three times as many more. A part between runs leaves less room.
        assert!((needed(&with(0.2, 0.0, Grade::Unresolved)).unwrap() - 48.0).abs() < 1e-9);
        assert!((needed(&with(0.16, 0.06, Grade::Rough)).unwrap() - 48.0).abs() < 1e-9);
        assert!((needed(&with(0.101, 0.0, Grade::Rough)).unwrap() - 1.0).abs() < 1e-9, "one at least");
        for none in [with(0.2, 0.1, Grade::Rough), with(0.05, 0.0, Grade::Rough), with(0.2, 0.0, Grade::Good)] {
            assert_eq!(needed(&none), None);
        }
        let near = |near: &[f64], squares: f64| Gain { near: near.to_vec(), ..gain(8, &[], squares) };
        let worth = worth(&[("cpu.loop", near(&[60.0], 900.0)), ("os.signal", near(&[2.0], 1.0))]);
        // A launch of the loop brings a sixtieth of a figure in 0.01 s, and one of the signal half of a figure in 0.05 s.
        assert_eq!(best(&worth, &["cpu.loop", "os.signal"], 4.0)[..2], ["os.signal"; 2]);
        assert_eq!(best(&worth, &["cpu.loop", "os.signal"], 0.04).first(), Some(&"cpu.loop"), "what fits");
    }

    #[test]
    fn time_goes_to_where_it_buys_most() {
        let worth = worth(&[
            ("cpu.loop", gain(8, &[], 80.0)),
            ("os.signal", gain(8, &[], 240.0)),
            ("file.read", gain(8, &[], 240.0)),
            ("memory.latency", gain(8, &[], 0.0)),
        ]);
        // Each launch of the loop gains less than the one before it, and the fourth less than the first of the signal.
        assert_eq!(best(&worth, &["file.read", "os.signal", "cpu.loop"], 4.0)[..3], ["cpu.loop"; 3]);
        assert_eq!(best(&worth, &["file.read", "os.signal", "cpu.loop"], 4.0).last(), Some(&"os.signal"));
        // What is begun is done.
        assert_eq!(best(&worth, &["memory.latency", "file.read"], 4.0), ["file.read"]);
        assert_eq!(best(&worth, &["os.signal", "cpu.timer"], 4.0), ["cpu.timer"], "nothing is known of one of them");
        assert_eq!(best(&worth, &["memory.latency"], 4.0), ["memory.latency"], "one at least");
        assert_eq!(best(&worth, &["file.read", "os.signal"], 1.0), ["os.signal"; 2], "what fits");
        assert!(best(&worth, &["file.read"], 1.0).is_empty());
    }

    #[test]
    fn what_resolves_a_figure_comes_first() {
        let worth = worth(&[
            ("cpu.loop", gain(8, &[], 80.0)),
            ("os.signal", gain(4, &[1.0], 0.0)),
            ("os.system_call", gain(3, &[2.0; 3], 0.0)),
            ("file.read", gain(4, &[1.0; 9], 0.0)),
            ("memory.latency", gain(4, &[80.0], 9.0)),
        ]);
        assert_eq!(best(&worth, &["cpu.loop", "os.signal", "os.system_call"], 4.0), ["os.system_call"; 2]);
        assert_eq!(best(&worth, &["cpu.loop"], 4.0).len() as u32, MOST_IN_A_ROUND);
        assert_eq!(best(&worth, &["cpu.loop", "os.signal", "file.read"], 4.0), ["os.signal", "file.read"]);
        assert_eq!(best(&worth, &["cpu.loop", "memory.latency"], 4.0).first(), Some(&"cpu.loop"), "out of reach");
        // Launches since the figures were looked at.
        let started = [("os.system_call".to_owned(), 5)].into();
        let among: Vec<_> = ["cpu.loop", "os.system_call"].iter().filter_map(|id| experiments::find(id)).collect();
        let budget = Budget { launches: &started, most: 99, limit: 0.1, left: 4.0 };
        assert_eq!(worth.best(&among, budget, |_| 0.01)[0].id, "cpu.loop");
        // No more than may be.
        let among = [experiments::find("os.signal").unwrap()];
        let launches = [("os.signal".to_owned(), 4)].into();
        let budget = Budget { launches: &launches, most: 6, limit: 4.0, left: 4.0 };
        assert_eq!(worth.best(&among, budget, |_| 0.01).len(), 2);
    }

    #[test]
    fn a_run_has_enough_when_four_of_five_are_good_and_nothing_lacks_launches() {
        let worth = |good: usize| Worth {
            gains: [("cpu.loop".to_owned(), gain(8, &[], 80.0)), ("file.read".to_owned(), gain(3, &[2.0], 0.0))].into(),
            least: [("cpu.loop".to_owned(), 8), ("file.read".to_owned(), 5)].into(),
            asked: 100,
            good,
            ends_early: true,
            ..Worth::default()
        };
        let had = |reads: u32| BTreeMap::from([("cpu.loop".to_owned(), 8), ("file.read".to_owned(), reads)]);
        let enough = |reads: u32, good: usize| worth(good).is_enough(&had(reads));
        assert!(enough(5, 80) && !enough(5, 79) && !enough(4, 100));
        let nearly = |reads: u32, good: usize| worth(good).is_nearly_enough(&had(reads));
        assert!(nearly(5, 73) && !nearly(5, 71) && !nearly(4, 100));
        assert!(!Worth { ends_early: false, ..worth(100) }.is_enough(&had(5)));
        // With enough good figures a round has what the run waits for, and nothing else.
        let among: Vec<_> = ["cpu.loop", "file.read"].iter().filter_map(|id| experiments::find(id)).collect();
        let ids = |good: usize, reads: u32| -> Vec<&str> {
            let budget = Budget { launches: &had(reads), most: 99, limit: 4.0, left: 4.0 };
            worth(good).best(&among, budget, |_| 0.03).iter().map(|experiment| experiment.id).collect()
        };
        assert_eq!(ids(80, 3), ["file.read", "file.read"]);
        assert_eq!(ids(79, 3), ["file.read", "file.read", "cpu.loop", "cpu.loop"]);
        let late = Budget { launches: &had(3), most: 99, limit: 4.0, left: 0.02 };
        let small = |experiment: &Experiment| if experiment.id == "file.read" { 0.03 } else { 0.01 };
        assert_eq!(worth(80).best(&among, late, small).len(), 2, "what the run waits for does not fit");
        assert_eq!(ids(80, 5), ["cpu.loop", "cpu.loop"], "a short round, and then the figures are looked at");
    }
}
