//! What a run launches next, and when it ends: a function of the goals that are left, the launches that each experiment had, the
//! seconds of a launch, and the seconds that are left.
//!
//! A goal is a headline result that is not good yet, or the launches that an experiment lacks. Each takes a number of launches, and
//! the costs that every reader asks for have more weight than others.
//! 1. Of each experiment, the launches that gain most weight of goals for each launch are planned, if time allows them. Disturbed
//!    results, which may stay so, wait until no other goal can be reached.
//! 2. Experiments whose planned launches gain most for each second come first, as long as all that is planned fits.
//! 3. A round has a launch of each in this order, and again, until its time is used. Then the figures are looked at again, so the
//!    launches of an experiment are spread over the run.

use crate::evaluate::gates;
use crate::evaluate::others::TAKEN_SHARE;
use crate::experiments::{self, Experiment, Nature, costs};
use crate::plan::{self, Plan};
use crate::results::document::{Grade, Metric, Section};
use crate::results::gate_numbers::GateRelation;
use crate::results::verdict::{Gate, Severity};
use crate::setup::Setup;
use crate::statistics::location::FEWEST_LAUNCHES;
use crate::statistics::summary::median;

use super::rounds::Rounds;

/// Share of the headline figures that must be good before a run ends: of all, or of each experiment where a run does not end early.
const GOOD_SHARE: f64 = 0.8;

/// Weight of a cost that every reader asks for, over that of another headline result. With it, busy runs on the made machine and
/// replayed ones have one of some 30 such costs more, and nearly as many good results. With twice the weight they have fewer.
const COST_WEIGHT: f64 = 3.0;

/// What is launched, or why nothing is.
pub(super) enum Next {
    /// The launches of a round, and seconds until all goals are reached as far as they are known.
    Round(Vec<&'static Experiment>, f64),
    /// All experiments have failed too often.
    Failed,
    /// No goal is left.
    Reached,
    /// Experiments have goals, and no more launches.
    NoLaunches,
    /// No launch fits into the time.
    NoTime,
}

/// What a run has for its next launches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Means {
    /// Seconds that are left.
    pub(super) left: f64,
    /// Seconds of a round.
    pub(super) round: f64,
    /// Launches of an experiment at most.
    pub(super) most: u32,
}

/// A result that is to be good, or launches that are lacking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Goal {
    /// Launches until it is reached. Infinite for a goal that launches do not reach.
    launches: f64,
    weight: f64,
}

/// An experiment that may be launched.
#[derive(Clone)]
pub(super) struct Candidate {
    pub(super) experiment: &'static Experiment,
    /// Launches so far.
    pub(super) had: u32,
    /// Seconds of the next launch.
    pub(super) seconds: f64,
    /// The nearest first.
    pub(super) goals: Vec<Goal>,
    /// Results that are disturbed, and may stay so.
    pub(super) hopes: Vec<Goal>,
}

/// Launches of an experiment that are planned together.
struct Planned<'a> {
    candidate: &'a Candidate,
    launches: f64,
    /// Weight of the goals that are reached, for each second.
    gain: f64,
    /// Launches of these in this round.
    given: f64,
}

impl Candidate {
    /// Launches that are possible.
    fn possible(&self, means: Means) -> f64 {
        (means.left / self.seconds).floor().min(f64::from(means.most.saturating_sub(self.had)))
    }

    fn planned(&self, launches: f64, goals: &[Goal]) -> Planned<'_> {
        let gain = goals.iter().map(|goal| goal.weight).sum::<f64>() / (launches * self.seconds);
        Planned { candidate: self, launches: launches.ceil(), gain, given: 0.0 }
    }

    /// The launches that gain most for each of them.
    fn best(&self, goals: &[Goal], means: Means) -> Option<Planned<'_>> {
        let possible = self.possible(means);
        let reachable = goals.iter().enumerate().filter(|(_, goal)| goal.launches.ceil() <= possible);
        reachable
            .map(|(place, goal)| self.planned(goal.launches, &goals[..=place]))
            .max_by(|one, other| one.gain.total_cmp(&other.gain))
    }

    /// As many launches as it had: an interval falls by 30 % where nothing else disturbs.
    fn doubled(&self, means: Means) -> Planned<'_> {
        let all: Vec<Goal> = self.goals.iter().chain(&self.hopes).copied().collect();
        self.planned(f64::from(self.had.max(1)).min(self.possible(means)), &all)
    }

    /// Seconds until its last goal.
    fn seconds_to_all(&self, means: Means) -> f64 {
        let last = self.goals.iter().chain(&self.hopes).map(|goal| goal.launches).fold(0.0, f64::max);
        last.ceil().min(f64::from(means.most.saturating_sub(self.had))) * self.seconds
    }
}

impl Planned<'_> {
    fn seconds(&self) -> f64 {
        self.launches * self.candidate.seconds
    }
}

/// The next round, or why there is none.
pub(super) fn next(candidates: &[Candidate], means: Means) -> Next {
    let open: Vec<&Candidate> =
        candidates.iter().filter(|one| !one.goals.is_empty() || !one.hopes.is_empty()).collect();
    let able: Vec<&Candidate> = open.iter().copied().filter(|one| one.possible(means) >= 1.0).collect();
    match (open.is_empty(), able.is_empty()) {
        _ if candidates.is_empty() => return Next::Failed,
        (true, _) => return Next::Reached,
        (_, true) if open.iter().all(|one| one.had >= means.most) => return Next::NoLaunches,
        (_, true) => return Next::NoTime,
        _ => (),
    }
    let mut planned: Vec<Planned<'_>> = able.iter().filter_map(|one| one.best(&one.goals, means)).collect();
    if planned.is_empty() {
        planned = able.iter().filter_map(|one| one.best(&one.hopes, means)).collect();
    }
    if planned.is_empty() {
        planned = able.iter().map(|one| one.doubled(means)).collect();
    }
    planned.sort_by(|one, other| other.gain.total_cmp(&one.gain));
    let mut seconds = 0.0;
    planned.retain(|one| {
        let fits = seconds + one.seconds() <= means.left;
        seconds += if fits { one.seconds() } else { 0.0 };
        fits
    });
    let (mut order, mut filled) = (Vec::new(), 0.0);
    while filled < means.round {
        let waiting = planned.iter_mut().filter(|one| one.given < one.launches);
        // Of those with the fewest launches in this round the first, which gains most.
        let Some(one) = waiting.min_by(|one, other| one.given.total_cmp(&other.given)) else { break };
        one.given += 1.0;
        filled += one.candidate.seconds;
        order.push(one.candidate.experiment);
    }
    let to_all: f64 = open.iter().map(|one| one.seconds_to_all(means)).sum();
    Next::Round(order, to_all.min(means.left))
}

/// The experiments of a run that have not failed too often, with their goals. Where enough figures are good, these are the launches that
/// experiments lack.
pub(super) fn candidates(plan: &Plan, setup: &Setup, state: &Rounds, asked: &[Asked<'_>]) -> Vec<Candidate> {
    let taken = usually_taken(asked);
    let of_all: Vec<&Metric> = asked.iter().flat_map(|(_, figures)| figures.iter().copied()).collect();
    let is_enough =
        if setup.profile.ends_early() { are_good(&of_all) } else { asked.iter().all(|(_, figures)| are_good(figures)) };
    // The experiments of a quick run are chosen for these costs already.
    let of_cost = if setup.profile.is_quick() { 1.0 } else { COST_WEIGHT };
    let candidate = |experiment: &'static Experiment| {
        let figures = asked.iter().find(|(id, _)| *id == experiment.id).map_or(&[][..], |(_, figures)| figures);
        let had = state.launches.get(experiment.id).copied().unwrap_or(0);
        let seconds = state.expected(experiment, setup);
        let lacks = plan::least_launches(seconds, setup).saturating_sub(had);
        // An experiment with nearly all figures good only needs launches for those that have too few.
        let rests = are_good(figures);
        let is_open = |metric: &&Metric| metric.grade != Grade::Good && !(rests && has_enough(metric));
        let open = figures.iter().copied().filter(|metric| !is_enough && is_open(metric));
        let (hoped, open): (Vec<&Metric>, Vec<&Metric>) =
            open.partition(|metric| metric.grade.has_foreign_part() && has_enough(metric));
        let goals_of = |figures: Vec<&Metric>| -> Vec<Goal> {
            let of = |metric: &Metric| Goal {
                launches: launches_to_goal(metric, had, experiment.precision.target, taken),
                weight: costs::name_of(&metric.name, &metric.labels).map_or(1.0, |_| of_cost),
            };
            figures.into_iter().map(of).collect()
        };
        let (mut goals, mut hopes) = (goals_of(open), goals_of(hoped));
        goals.extend((lacks > 0).then_some(Goal { launches: f64::from(lacks), weight: 1.0 }));
        for goals in [&mut goals, &mut hopes] {
            goals.sort_by(|one, other| one.launches.total_cmp(&other.launches));
        }
        Candidate { experiment, had, seconds, goals, hopes }
    };
    plan.running.iter().copied().filter(|experiment| !state.given_up(experiment.id)).map(candidate).collect()
}

/// Whether nearly all figures are good.
fn are_good(figures: &[&Metric]) -> bool {
    let good = figures.iter().filter(|metric| metric.grade == Grade::Good).count() as f64;
    good >= GOOD_SHARE * figures.len() as f64
}

/// Whether a figure has the launches that resolve it.
fn has_enough(metric: &Metric) -> bool {
    metric.launches as usize >= FEWEST_LAUNCHES
}

/// Launches of an experiment until a figure that is not good may be. Launches to come have it, and have it undisturbed, as seldom as those
/// so far. `taken` is the share of the time that others take from launches to come. Infinite where launches do not help.
fn launches_to_goal(metric: &Metric, had: u32, target: f64, taken: f64) -> f64 {
    let lacks = f64::from((FEWEST_LAUNCHES as u32).saturating_sub(metric.launches));
    if lacks > 0.0 {
        return lacks * f64::from(had) / f64::from(metric.launches.max(1));
    }
    if metric.grade.has_foreign_part() {
        return launches_until_little_is_taken(metric, had, taken).unwrap_or(f64::from(had) * FEWEST_LAUNCHES as f64);
    }
    launches_to_target(metric, had, target).unwrap_or(f64::INFINITY)
}

/// The figures of an experiment that decide when a run ends, with its identifier.
pub(super) type Asked<'a> = (&'a str, Vec<&'a Metric>);

/// The headline costs of each experiment. States of the machine, such as its clock, are waited for only where there is nothing else.
/// What all launches of the run decide, as they do the clock, gains nothing by separate launches.
pub(super) fn asked(sections: &[Section]) -> Vec<Asked<'_>> {
    let known = sections.iter().filter_map(|section| Some((experiments::find(&section.id)?, section)));
    known
        .map(|(experiment, section)| {
            let is_cost = |metric: &&Metric| {
                experiment.publication(&metric.name).is_none_or(|found| found.nature == Nature::Cost)
            };
            let own = section.metrics.iter().filter(|metric| metric.headline && metric.launches <= section.launches);
            let (costs, states): (Vec<&Metric>, Vec<&Metric>) = own.partition(is_cost);
            (section.id.as_str(), if costs.is_empty() { states } else { costs })
        })
        .collect()
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
    if !open || !only_wide || !has_enough(metric) {
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
fn usually_taken(asked: &[Asked<'_>]) -> f64 {
    let worst = |figures: &[&Metric]| figures.iter().flat_map(|metric| taken(metric)).reduce(f64::max);
    median(&asked.iter().filter_map(|(_, figures)| worst(figures)).collect::<Vec<_>>()).unwrap_or(0.0)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::gate::{Number, Rule};
    use crate::results::verdict::{AgainstPrediction, Verdict};
    use crate::setup::Profile;

    /// A figure with this many launches, whose interval is `distance` times as wide as its target of 10 %.
    fn figure(launches: u32, distance: f64, grade: Grade) -> Metric {
        let interval95 = [1.0 - 0.1 * distance, 1.0 + 0.1 * distance];
        Metric { interval95, within_run: Some(interval95), between_share: 0.0, launches, grade, ..Metric::example() }
    }

    /// Goals after these launches.
    fn alike(launches: &[f64]) -> Vec<Goal> {
        launches.iter().map(|&launches| Goal { launches, weight: 1.0 }).collect()
    }

    fn candidate(id: &str, had: u32, seconds: f64, goals: &[f64]) -> Candidate {
        let goals = alike(goals);
        Candidate { experiment: experiments::find(id).unwrap(), had, seconds, goals, hopes: Vec::new() }
    }

    /// The launches of a round of 4 s, or why there is none.
    fn round(candidates: &[Candidate], left: f64) -> Result<Vec<&'static str>, &'static str> {
        match next(candidates, Means { left, round: 4.0, most: 100 }) {
            Next::Round(order, _) => Ok(order.iter().map(|experiment| experiment.id).collect()),
            Next::Failed => Err("failed"),
            Next::Reached => Err("reached"),
            Next::NoLaunches => Err("no launches"),
            Next::NoTime => Err("no time"),
        }
    }

    fn launches(candidates: &[Candidate], left: f64) -> Vec<(&'static str, usize)> {
        let order = round(candidates, left).unwrap();
        let of = |one: &Candidate| order.iter().filter(|id| **id == one.experiment.id).count();
        candidates.iter().map(|one| (one.experiment.id, of(one))).filter(|(_, launches)| *launches > 0).collect()
    }

    #[test]
    fn what_reaches_most_goals_for_each_second_comes_first_where_time_is_short() {
        let cheap = candidate("cpu.loop", 5, 0.1, &[2.0]);
        let many = candidate("os.signal", 5, 0.5, &[2.0; 20]);
        let all = [candidate("file.read", 5, 2.0, &[2.0, 2.0]), cheap, many];
        assert_eq!(launches(&all, 1.1), [("os.signal", 2)], "no time is left for the others");
        assert_eq!(launches(&all, 1.3), [("cpu.loop", 2), ("os.signal", 2)]);
        assert_eq!(launches(&all, 60.0), [("file.read", 2), ("cpu.loop", 2), ("os.signal", 2)]);
        // More launches reach more goals. Those that reach most for each launch are planned.
        assert_eq!(launches(&[candidate("cpu.loop", 5, 0.1, &[2.0, 3.0, 3.0, 20.0])], 60.0), [("cpu.loop", 3)]);
    }

    #[test]
    fn costs_that_readers_ask_for_come_before_as_many_others() {
        let others = candidate("os.signal", 5, 0.5, &[2.0; 2]);
        let mut costs = candidate("memory.latency", 5, 0.5, &[2.0]);
        assert_eq!(launches(&[others.clone(), costs.clone()], 1.1), [("os.signal", 2)]);
        costs.goals[0].weight = COST_WEIGHT;
        assert_eq!(launches(&[others, costs], 1.1), [("memory.latency", 2)]);
    }

    #[test]
    fn launches_of_an_experiment_are_spread_until_the_round_is_full() {
        let [most, least] =
            [("cpu.loop", 4), ("os.signal", 3)].map(|(id, goals)| candidate(id, 2, 1.0, &vec![3.0; goals]));
        assert_eq!(
            round(&[least.clone(), most.clone()], 60.0).unwrap(),
            ["cpu.loop", "os.signal", "cpu.loop", "os.signal"]
        );
        assert_eq!(
            round(std::slice::from_ref(&most), 60.0).unwrap().len(),
            3,
            "the figures are looked at when a goal may be reached"
        );
        assert_eq!(round(&[least, most], 3.5).unwrap(), ["cpu.loop"; 3], "what does not fit is not begun");
    }

    #[test]
    fn goals_that_launches_do_not_reach_get_the_time_that_is_left() {
        let far = candidate("os.signal", 4, 0.5, &[f64::INFINITY; 3]);
        let near = candidate("cpu.loop", 5, 0.1, &[2.0]);
        assert_eq!(launches(&[far.clone(), near], 60.0), [("cpu.loop", 2)]);
        assert_eq!(launches(std::slice::from_ref(&far), 60.0), [("os.signal", 4)], "as many as it had");
        assert_eq!(launches(&[far], 1.2), [("os.signal", 2)], "what fits");
        assert_eq!(launches(&[candidate("os.signal", 0, 0.5, &[500.0])], 60.0), [("os.signal", 1)], "one at least");
    }

    #[test]
    fn disturbed_results_wait_for_all_others() {
        let hopes = Candidate { hopes: alike(&[2.0; 9]), ..candidate("os.signal", 8, 0.1, &[]) };
        let lacks = candidate("file.read", 4, 2.0, &[1.0]);
        assert_eq!(launches(&[hopes.clone(), lacks], 60.0), [("file.read", 1)]);
        let far = candidate("cpu.loop", 8, 0.1, &[f64::INFINITY]);
        assert_eq!(launches(&[far, hopes], 60.0), [("os.signal", 2)]);
    }

    #[test]
    fn a_run_ends_without_goals_without_launches_and_without_time() {
        assert_eq!(round(&[], 60.0), Err("failed"));
        let done = candidate("cpu.loop", 8, 0.1, &[]);
        assert_eq!(round(std::slice::from_ref(&done), 60.0), Err("reached"));
        let open = candidate("os.signal", 8, 0.5, &[2.0]);
        assert_eq!(round(&[done.clone(), open], 0.4), Err("no time"));
        assert_eq!(round(&[done, candidate("os.signal", 100, 0.5, &[2.0])], 60.0), Err("no launches"));
    }

    #[test]
    fn the_time_that_is_left_is_that_of_all_goals() {
        let seconds =
            |candidates: &[Candidate], left: f64| match next(candidates, Means { left, round: 4.0, most: 100 }) {
                Next::Round(_, seconds) => seconds,
                _ => panic!("no round"),
            };
        let two = [candidate("cpu.loop", 5, 0.1, &[2.0, 3.5]), candidate("os.signal", 5, 0.5, &[6.0])];
        assert!((seconds(&two, 60.0) - 3.4).abs() < 1e-9);
        assert!((seconds(&two, 2.0) - 2.0).abs() < 1e-9, "no more than the limit");
        assert!((seconds(&[candidate("cpu.loop", 98, 0.1, &[f64::INFINITY])], 60.0) - 0.2).abs() < 1e-9);
    }

    #[test]
    fn a_figure_needs_launches_as_seldom_as_it_got_them() {
        let needs = |metric: &Metric, had: u32| launches_to_goal(metric, had, 0.1, 0.0);
        let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
        // Two are missing, and it gets each third launch.
        assert!(near(needs(&figure(3, 2.0, Grade::Unresolved), 9), 6.0));
        assert!(near(needs(&figure(0, 2.0, Grade::Unresolved), 9), 45.0));
        // One that was disturbed in each of eight launches.
        assert!(near(needs(&figure(8, 0.5, Grade::Contaminated), 8), 40.0));
        // Twice too wide needs four times the launches. A part between runs leaves less room.
        assert!(near(needs(&figure(8, 2.0, Grade::Unresolved), 16), 48.0));
        let apart = Metric { between_share: 0.06, ..figure(8, 1.6, Grade::Rough) };
        assert!(near(needs(&apart, 16), 48.0));
        assert!(near(needs(&figure(8, 1.01, Grade::Rough), 16), 1.0), "one at least");
        for hopeless in [Metric { between_share: 0.1, ..figure(8, 2.0, Grade::Rough) }, figure(8, 0.5, Grade::Rough)] {
            assert!(needs(&hopeless, 16).is_infinite());
        }
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
        assert!((launches_to_goal(&burst, 8, 0.1, 0.02) - 8.0).abs() < 1e-9);
        // What others take from most experiments.
        let experiments = [0.02, 0.3, 0.01].map(|share| with(&[("G16", share, 0.05)]));
        let usual = usually_taken(&experiments.each_ref().map(|metric| ("", vec![metric])));
        assert!((usual - 0.02).abs() < 1e-12, "{usual}");
    }

    /// Launches until the goals of the loop and the reads after a number of launches, where figures of the loop have these grades.
    fn goals(profile: Profile, had: [u32; 2], grades: &[Grade]) -> Vec<Vec<f64>> {
        let machine = crate::machine::detect(std::path::Path::new("/proc/nonexistent"), std::path::Path::new("/"));
        let setup = Setup::of(machine, 0, vec![0], profile);
        let running: Vec<&'static Experiment> =
            ["cpu.loop", "file.read"].iter().filter_map(|id| experiments::find(id)).collect();
        let plan = Plan { running: running.clone(), ..plan::plan(&running[..1], &setup, None).unwrap() };
        let launches = running.iter().zip(had).map(|(one, had)| (one.id.to_owned(), had)).collect();
        let state = Rounds { launches, ..Rounds::default() };
        let metrics: Vec<Metric> = grades.iter().map(|grade| figure(had[0], 2.0, *grade)).collect();
        let found = candidates(&plan, &setup, &state, &[("cpu.loop", metrics.iter().collect())]);
        found.iter().map(|one| one.goals.iter().map(|goal| goal.launches).collect()).collect()
    }

    #[test]
    fn a_run_has_enough_with_its_launches_and_four_of_five_good_figures() {
        let grades = |good: usize| [vec![Grade::Good; good], vec![Grade::Rough; 5 - good]].concat();
        let none: [Vec<f64>; 2] = [vec![], vec![]];
        for profile in [Profile::Default, Profile::Rigorous] {
            assert_eq!(goals(profile, [8, 5], &grades(4)), none);
            assert_eq!(goals(profile, [7, 4], &grades(4)), [[1.0], [1.0]], "it waits for launches that are lacking");
            let open: Vec<usize> = goals(profile, [8, 5], &grades(3)).iter().map(Vec::len).collect();
            assert_eq!(open, [2, 0], "each figure that is not good is a goal");
        }
        assert_eq!(goals(Profile::Quick, [5, 5], &grades(5)), none, "five are enough for a first look");
    }
}
