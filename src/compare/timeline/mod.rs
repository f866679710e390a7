//! Runs of one machine over time: which of them belong together, what each result does over them, and the moments of change.
//!
//! A series of runs is judged by `statistics::steps`. The p values of all results are adjusted together, and `moments` gathers what
//! changed at the same time.

mod moments;

use std::collections::{BTreeMap, BTreeSet};

use super::collect::{Collected, Footprints, collected};
use super::{LEVEL, PlacedRun, clock, compared_run, observed, scatter, threshold};
use crate::experiments::phrases::phrase;
use crate::results::compact::Compact;
use crate::results::comparison::{Finding, NotCompared};
use crate::results::machines;
use crate::results::quantity::Labels;
use crate::results::timeline::{
    BegunAnew, ChangePoint, FORMAT, LevelOfRuns, ResultTimeline, RunPoint, SlowDrift, Timeline,
};
use crate::results::wording::count;
use crate::statistics::compare::Observed;
use crate::statistics::distribution::normal_factor;
use crate::statistics::significance::cutoff;
use crate::statistics::steps::{LEAST_RUNS, RunSeries, SeriesShape};

/// Expected share of false change points among all, and so the probability of any where nothing changed.
const FALSE_ALARMS: f64 = 0.01;
/// Beginnings of metrics that depend on another machine, and the label of results that do.
const OF_FAR_FILES: &str = "file.remote_read.";
const OF_A_PEER: (&str, &str) = ("path", "remote");

/// A result with the runs that it is judged by.
struct Judged<'a> {
    metric: String,
    of: Collected<'a>,
    runs: Vec<usize>,
    observed: Vec<Observed>,
    series: RunSeries,
}

/// What runs in order of time show. `left_aside` says which runs were found and could not be read.
pub fn timeline(all: Vec<PlacedRun>, mut left_aside: Vec<String>) -> Timeline {
    let (runs, machine) = of_one_kind(all, &mut left_aside);
    let (mut judged, mut not_judged, mut begun_anew) = (Vec::new(), Vec::new(), BTreeMap::new());
    for (metric, results) in collected(runs.iter(), Footprints::Apart) {
        for mut of in results {
            if let Some(anew) = newest_series(&metric, &mut of, &runs) {
                begun_anew.entry(anew.experiment.clone()).or_insert(anew);
            }
            match series(&metric, of) {
                Ok(found) => judged.push(found),
                Err(reason) => not_judged.push(reason),
            }
        }
    }
    let p_values: Vec<f64> = judged.iter().map(|found| found.series.p()).collect();
    let alpha = cutoff(&p_values, FALSE_ALARMS);
    let mut results: Vec<ResultTimeline> = judged.iter().filter_map(|found| result(found, alpha)).collect();
    let moments = moments::moments(&mut results, &runs);
    let drifts = moments::drifts(&results);
    results.sort_by(|one, other| consequence(other).total_cmp(&consequence(one)));
    Timeline {
        format: FORMAT.to_owned(),
        machine,
        runs: runs.iter().map(compared_run).collect(),
        left_aside,
        begun_anew: begun_anew.into_values().collect(),
        runs_needed: LEAST_RUNS as u32,
        false_alarms: FALSE_ALARMS,
        moments,
        drifts,
        results,
        not_judged,
    }
}

/// The runs of the machine that has most of them, on the hardware of its newest run, with the profile that most of these have, each
/// once.
fn of_one_kind(all: Vec<PlacedRun>, left_aside: &mut Vec<String>) -> (Vec<PlacedRun>, String) {
    let mut seen = BTreeSet::new();
    let found = all.len();
    let (mut runs, mut others) = (all, Vec::new());
    runs.retain(|placed| seen.insert(placed.run.mark()));
    if runs.len() < found {
        others.push(count((found - runs.len()) as u64, "copy of a run", "copies of runs"));
    }
    let identity = |run: &Compact| format!("{:?}", machines::identity(run));
    let usual = most(&runs, &identity);
    let all = runs.len();
    runs.retain(|placed| identity(&placed.run) == usual);
    if runs.len() < all {
        others.push(count((all - runs.len()) as u64, "run of other machines", "runs of other machines"));
    }
    let newest = runs.last().map(|placed| placed.run.clone());
    let machine = newest.as_ref().map_or_else(String::new, machines::title);
    let (same, changed): (Vec<PlacedRun>, Vec<PlacedRun>) = runs
        .into_iter()
        .partition(|placed| newest.as_ref().is_some_and(|newest| machines::is_same(newest, &placed.run)));
    runs = same;
    others.extend(other_hardware(&changed, newest.as_ref()));
    let profile = most(&runs, &|run| run.run.profile.clone());
    let all = runs.len();
    runs.retain(|placed| placed.run.run.profile == profile);
    if runs.len() < all {
        others.push(count((all - runs.len()) as u64, "run of another profile", "runs of other profiles"));
    }
    left_aside.extend(others);
    (runs, machine)
}

/// Names the hardware of earlier runs: what changed is the processor, and a series belongs to one.
fn other_hardware(runs: &[PlacedRun], newest: Option<&Compact>) -> Option<String> {
    let newest = newest.filter(|_| !runs.is_empty())?;
    let designs: BTreeSet<String> = runs.iter().map(|placed| machines::hardware(&placed.run)).collect();
    let designs = designs.into_iter().collect::<Vec<_>>().join(" or ");
    let runs = count(runs.len() as u64, "run", "runs");
    Some(format!("{runs} with another processor or other memory: {designs}, now {}", machines::hardware(newest)))
}

/// What most of the runs have, and the latest of those where as many have something else.
fn most(runs: &[PlacedRun], of: &dyn Fn(&Compact) -> String) -> String {
    let mut counted: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (place, placed) in runs.iter().enumerate() {
        let entry = counted.entry(of(&placed.run)).or_default();
        *entry = (entry.0 + 1, place);
    }
    counted.into_iter().max_by_key(|(_, rank)| *rank).map_or_else(String::new, |(value, _)| value)
}

/// Leaves the results of the newest method, and of the newest far side where there is one. Says so if others were there.
fn newest_series(metric: &str, of: &mut Collected<'_>, runs: &[PlacedRun]) -> Option<BegunAnew> {
    let experiment = of.facts.experiment.id;
    let far = is_far(metric, &of.labels);
    let version = |run: usize| {
        runs[run].run.experiments.iter().find(|found| found.id == experiment).map_or(0, |found| found.method_version)
    };
    let side = |run: usize| {
        let run = &runs[run].run.run;
        if far { run.peer.iter().chain(&run.remote).cloned().collect::<Vec<_>>().join(", ") } else { String::new() }
    };
    let newest = of.figures.last()?.0;
    let (method, place) = (version(newest), side(newest));
    let all: Vec<usize> = of.figures.iter().map(|(run, _)| *run).collect();
    let before = all.iter().rev().find(|&&run| version(run) != method || side(run) != place).copied()?;
    let reason = if version(before) == method {
        "the other machine or its files changed".to_owned()
    } else {
        format!("the method changed from version {} to {method}", version(before))
    };
    of.figures.retain(|(run, _)| *run > before);
    Some(BegunAnew {
        experiment: experiment.to_owned(),
        from: of.figures.first()?.0 as u32,
        earlier: all.iter().filter(|&&run| run <= before).count() as u32,
        reason,
    })
}

/// Whether a result depends on another machine.
fn is_far(metric: &str, labels: &Labels) -> bool {
    metric.starts_with(OF_FAR_FILES) || labels.get(OF_A_PEER.0) == Some(OF_A_PEER.1)
}

/// The runs that say what a result costs on an undisturbed machine, if they are enough.
fn series<'a>(metric: &str, of: Collected<'a>) -> Result<Judged<'a>, NotCompared> {
    let floor = scatter::between(metric, &of.labels);
    let clock = clock::of_runs(of.facts.unit, &of.figures);
    let usable = of.figures.iter().filter_map(|(run, figure)| Some((*run, observed(figure, floor, clock)?)));
    let (runs, observed): (Vec<usize>, Vec<Observed>) = usable.filter(|(_, found)| found.value > 0.0).unzip();
    if let Some(series) = RunSeries::of(&observed) {
        return Ok(Judged { metric: metric.to_owned(), of, runs, observed, series });
    }
    let reason = if runs.len() < LEAST_RUNS {
        let all = count(of.figures.len() as u64, "run", "runs");
        format!("{} of {all} can be used, and {LEAST_RUNS} are needed", runs.len())
    } else {
        "the numbers are too large or too small".to_owned()
    };
    Err(NotCompared { metric: metric.to_owned(), labels: of.labels, reason })
}

/// A result with its levels. Moments are not known yet.
fn result(found: &Judged<'_>, alpha: f64) -> Option<ResultTimeline> {
    let facts = found.of.facts;
    let threshold = threshold(facts.experiment);
    let shape = found.series.shape(alpha, threshold.ln_1p())?;
    let run = |place: usize| found.runs[place] as u32;
    let adjusted = |p: f64| (p * FALSE_ALARMS / alpha.max(f64::MIN_POSITIVE)).min(1.0);
    let finding =
        |shift: f64| if facts.better.worsening(shift.exp_m1()) > 0.0 { Finding::Worse } else { Finding::Better };
    let ends = |interval: crate::statistics::interval::Interval| [interval.low, interval.high];
    let changes = shape.steps.iter().map(|step| ChangePoint {
        moment: 0,
        before: run(step.between[0]),
        after: run(step.between[1]),
        earliest: run(step.earliest[0]),
        latest: run(step.latest[1]),
        change: step.shift.exp_m1(),
        interval: ends(step.interval).map(f64::exp_m1),
        p: step.p,
        adjusted_p: adjusted(step.p),
        finding: finding(step.shift),
    });
    let drift = shape.drift.map(|drift| SlowDrift {
        change: drift.shift.exp_m1(),
        interval: ends(drift.interval).map(f64::exp_m1),
        p: drift.p,
        adjusted_p: adjusted(drift.p),
        finding: finding(drift.shift),
    });
    let levels = shape.levels.iter().map(|level| LevelOfRuns {
        from: run(level.ends[0]),
        to: run(level.ends[1]),
        runs: level.runs as u32,
        value: level.centre.exp(),
        interval: ends(level.interval).map(f64::exp),
    });
    let publication = facts.experiment.publication(&found.metric);
    let mut result = ResultTimeline {
        experiment: facts.experiment.id.to_owned(),
        metric: found.metric.clone(),
        labels: found.of.labels.clone(),
        phrase: phrase(&found.metric, &found.of.labels),
        unit: facts.unit,
        better: facts.better,
        headline: publication.is_some_and(|publication| (publication.headline)(&found.of.labels)),
        threshold,
        points: points(found, &shape)?,
        levels: levels.collect(),
        changes: changes.collect(),
        drift,
        scatter: shape.deviation.exp_m1(),
        detectable: found.series.detectable(alpha, &shape),
        finding: Finding::Inconclusive,
    };
    result.finding = at_the_end(&result);
    Some(result)
}

fn points(found: &Judged<'_>, shape: &SeriesShape) -> Option<Vec<RunPoint>> {
    let factor = normal_factor(LEVEL)?;
    let point = |(place, (&run, observed)): (usize, (&usize, &Observed))| RunPoint {
        run: run as u32,
        value: observed.value,
        within: observed.within * factor,
        deviates: shape.deviating.contains(&place),
    };
    Some(found.runs.iter().zip(&found.observed).enumerate().map(point).collect())
}

/// The latest level against those before it.
fn at_the_end(result: &ResultTimeline) -> Finding {
    // A change has at least the size of the threshold. So has a level that is worse than the first one.
    if result.is_changed() && result.worsening() >= 0.999 * result.threshold {
        Finding::Worse
    } else if result.is_changed() {
        Finding::Better
    } else if result.detectable.is_some_and(|least| least <= result.threshold) {
        Finding::Equivalent
    } else {
        Finding::Inconclusive
    }
}

/// What comes first: headline results that are worse now, the largest change first, then other changes, then what is open.
fn consequence(result: &ResultTimeline) -> f64 {
    let class = match result.finding {
        Finding::Worse => 6.0,
        Finding::Better => 4.0,
        Finding::Inconclusive => 2.0,
        Finding::Equivalent => 0.0,
    };
    let size = result.worsening().ln_1p().abs().min(9.0) / 10.0;
    class + f64::from(u8::from(result.headline)) + size
}
