//! How the shared methodology was carried out, read from the log: no number of the report's method chapter is a default.

use crate::evaluate::study::core_frequency_of;
use crate::experiments::models::coefficients;
use crate::neighbour::batches::{shared_at_start, shared_share};
use crate::results::evidence::Evidence;
use crate::results::log::{Launch, Log};
use crate::results::practice::{BatchCount, Practice};
use crate::results::series::Class;
use crate::rig::request::INTERFERENCE;
use crate::statistics::summary::median;

/// The actual parameters of a run.
pub(super) fn practice(log: &Log) -> Practice {
    let launches: Vec<&Launch> = log.launches.iter().filter(|launch| launch.experiment != INTERFERENCE).collect();
    let well: Vec<&Launch> = launches.iter().copied().filter(|launch| launch.succeeded()).collect();
    let evidence: Vec<&Evidence> = well.iter().filter_map(|launch| launch.evidence.as_ref()).collect();
    let lengths: Vec<f64> = well
        .iter()
        .flat_map(|launch| &launch.series)
        .filter(|series| !series.classes.0.is_empty())
        .map(|series| series.values.len() as f64)
        .collect();
    let wall: f64 = evidence.iter().map(|found| found.wall).sum();
    let share = |of: fn(&Evidence) -> Option<f64>| {
        let known: Vec<f64> = evidence.iter().filter_map(|found| of(found)).collect();
        (!known.is_empty() && wall > 0.0).then(|| known.iter().sum::<f64>() / wall)
    };
    let nanoseconds = |of: fn(&Evidence) -> f64| {
        let hertz = log.clock.as_ref()?.hertz;
        let most = evidence.iter().map(|found| of(found)).fold(0.0, f64::max);
        (most > 0.0).then(|| most / hertz * 1e9)
    };
    Practice {
        rounds_planned: log.rounds_planned,
        launches: well.len() as u32,
        failed_launches: (launches.len() - well.len()) as u32,
        batches_per_launch: median(&lengths).map(|length| length as u64),
        batches: batches(&well),
        timer_bias: nanoseconds(|found| found.timer_bias),
        timer_resolution: nanoseconds(|found| found.timer_resolution),
        core_hertz: core_hertz(log, &evidence),
        chain_ratio: median(&evidence.iter().filter_map(|found| found.chain_ratio).collect::<Vec<_>>()),
        delayed_share: share(|found| found.run_delay),
        stolen_share: share(|found| found.steal),
        shared_share: shared_share(&well),
        shared_at_start: shared_at_start(&well),
        moved_launches: (!log.header.equal_cpus.is_empty())
            .then(|| evidence.iter().filter(|found| moved(found, log.header.cpu)).count() as u32),
        others_cpus: (!log.others_cpus.is_empty())
            .then(|| log.others_cpus.iter().sum::<f64>() / log.others_cpus.len() as f64),
        // A log without primitives was predicted from the constants table.
        records_score: coefficients::table()
            .left_out
            .filter(|_| log.predictions.iter().any(|(_, found)| found.is_fitted()))
            .map(|score| [score.error, score.width, score.inside]),
        settled_share: (!evidence.is_empty())
            .then(|| evidence.iter().filter(|found| found.settled).count() as f64 / evidence.len() as f64),
    }
}

/// Whether a neighbour on the core of the run's CPU made a launch measure elsewhere.
fn moved(evidence: &Evidence, cpu: u32) -> bool {
    evidence.began_alone == Some(false) && evidence.cpu != cpu
}

/// Lowest, median and highest core frequency over launches.
fn core_hertz(log: &Log, evidence: &[&Evidence]) -> Option<[f64; 3]> {
    let clock = log.clock.as_ref()?;
    let found: Vec<f64> = evidence.iter().filter_map(|evidence| core_frequency_of(clock, evidence)).collect();
    let ends = found.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), &one| (low.min(one), high.max(one)));
    Some([ends.0, median(&found)?, ends.1])
}

/// The batches of launches by what happened to them, most frequent first.
pub(super) fn batches(launches: &[&Launch]) -> Vec<BatchCount> {
    let mut counts: Vec<(Class, u64)> = Class::ALL.into_iter().map(|class| (class, 0)).collect();
    for series in launches.iter().flat_map(|launch| &launch.series).filter(|series| !series.classes.0.is_empty()) {
        for (class, count) in series.class_counts() {
            if let Some(entry) = counts.iter_mut().find(|(of, _)| *of == class) {
                entry.1 += count as u64;
            }
        }
    }
    counts.retain(|(_, count)| *count > 0);
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.into_iter().map(|(class, count)| BatchCount { class: class.word().to_owned(), count }).collect()
}
