//! G16 over whole launches: which share of the time others had the CPUs that a figure was measured on.
//!
//! A launch whose one thread computes says so itself: it was ready to run and waited. A launch that sleeps, or whose own tasks take
//! turns on one CPU, also waits for its own, and says nothing. Then the interference probes of the same rounds speak: one thread that does
//! nothing but compute, on the same CPU, and on the other CPUs that partners use. Time that interrupts take is not waiting of any
//! task: the interference probes alone see it. Unknown is never taken for nothing.

use crate::results::evidence::Evidence;
use crate::results::quantity::Labels;
use crate::results::verdict::{Gate, Severity};
use crate::rig::interference;
use crate::statistics::summary::{mean, median};

use super::gate::{Number, rules};
use super::study::Study;

/// Share of the time that others may take before a figure is called contaminated.
pub const TAKEN_SHARE: f64 = 0.05;

/// Share of the batches that may have met a gap in which others had the CPU: as many as may be disturbed otherwise.
const MET_SHARE: f64 = 0.2;

/// Nanoseconds after a gap in which caches fill again: a private cache of 1 MiB at 10 GB/s.
const REFILL: f64 = 100_000.0;

/// Levels of the memory that several CPUs share.
const SHARED_LEVELS: [&str; 2] = ["L3", "DRAM"];

/// Share of its time that a launch must have wanted the CPU for its own waiting to show how busy that CPU was.
const WANTED_SHARE: f64 = 0.5;

/// Interference probes of which the highest does not count.
const BURST_AMONG: usize = 4;

rules! {
    MEASURED_CPU: "G16" Disturbs "all", "other programs had the CPU for at most {} of the launches' time \
                                             (run-queue delay in `/proc/self/schedstat`, steal in `/proc/stat`). The \
                                             interference probes of the rounds also judge launches that sleep for half \
                                             of their time or whose own tasks alternate on one CPU", share(TAKEN_SHARE);
    UNKNOWN: "G16" Noisy "all", "the kernel reports how long other programs had the CPU";
    LOST_TIME: "G16" Disturbs "all", "the median interference probe lost at most {} of its time, or at most {} of the batches \
                                      come within {} of a gap", share(TAKEN_SHARE), share(MET_SHARE), time(REFILL);
    PARTNERS: "G16" Disturbs "placements other than `same_cpu`, several processes or threads, a child that may run \
                                  on any CPU", "the CPUs of partners lost at most {} of the time to tasks, interrupts and \
                                  the hypervisor (interference probes of the rounds)", share(TAKEN_SHARE);
    SHARED_LEVEL: "G16" Noisy "levels that several CPUs share (L3, DRAM)", "the other CPUs lost at most {} of the time to \
                                  tasks, interrupts and the hypervisor (interference probes of the rounds)", share(TAKEN_SHARE);
}

/// What is asked of every figure, whatever own gates it has. Nearly all of its batches last at most `long` ticks. It is
/// 0 where that is unknown.
pub fn gates(study: &Study<'_>, labels: &Labels, there: &[Gate], long: f64) -> Vec<Gate> {
    // Looks at the core answer too: tasks of one launch that take turns wait for each other, and not for others.
    let answers = |gate: &&Gate| matches!(gate.severity, Severity::Contaminates | Severity::Disturbs);
    let answered = there.iter().filter(answers).any(|gate| gate.id == "G16");
    // An own answer comes from launches that sleep most of the time: the interference probes are also asked.
    let here = if answered { of_probes(study) } else { Some(of_measured_cpu(study)) };
    [here, of_lost_time(study, long), of_other_cpus(study, labels)].into_iter().flatten().collect()
}

/// Other tasks on the measured CPU in the interference probes alone.
fn of_probes(study: &Study<'_>) -> Option<Gate> {
    let share = waited_in_probes(study)?;
    let share = Number::share(share).named(
        "other tasks had the CPU for {} of the time in the interference probes of \
                                            the rounds",
    );
    Some(Gate::at_most(&MEASURED_CPU, share, TAKEN_SHARE))
}

/// Time that the measured CPU lost to whatever there is, interrupts included: the median over the interference probes, because a burst in
/// one of them says nothing about the launches. It comes in gaps. Batches that are much shorter than the time between two gaps lie
/// between them, and a quantile of them does not contain the rest.
fn of_lost_time(study: &Study<'_>, long: f64) -> Option<Gate> {
    let here = |placement: &str| placement == interference::SAME_CPU;
    let shares = lost(study, here);
    let share = median(&shares)?;
    let what = "the CPU lost {} of the time to tasks, interrupts and the hypervisor in the median interference probe \
                of the rounds";
    // Interference probes of an older version, before a run was resumed, did not count the gaps in what they lost.
    let gaps = in_probes(study, interference::GAPS, here);
    let gaps = median(&gaps).filter(|_| long > 0.0 && gaps.len() == shares.len());
    let met = gaps.map(|gaps| gaps * (study.nanoseconds(long) + REFILL) / 1e9);
    if let Some(met) = met.filter(|met| share > TAKEN_SHARE && *met <= MET_SHARE) {
        let [share, met] = [share, met].map(|share| Number::share(share).text());
        let between = format!("{}, and at most {met} of the batches can have met a gap", what.replace("{}", &share));
        return Some(Gate::holds(&LOST_TIME, true, between));
    }
    Some(Gate::at_most(&LOST_TIME, Number::share(share).named(what), TAKEN_SHARE))
}

/// Shares of the time that CPUs lost in the interference probes, of those placements that are wanted.
fn lost(study: &Study<'_>, wanted: impl Fn(&str) -> bool) -> Vec<f64> {
    in_probes(study, interference::OTHERS, wanted)
}

/// Values of a series of the interference probes, of those placements that are wanted.
fn in_probes(study: &Study<'_>, name: &str, wanted: impl Fn(&str) -> bool) -> Vec<f64> {
    let series = study.probes.iter().flat_map(|launch| &launch.series);
    let of_cpus = series.filter(|series| series.name == name);
    let found = of_cpus.filter(|series| series.labels.get("placement").is_some_and(&wanted));
    found.flat_map(|series| series.values.iter().copied()).collect()
}

/// Others on the measured CPU.
fn of_measured_cpu(study: &Study<'_>) -> Gate {
    let launches: Vec<&Evidence> = study.evidence().collect();
    let wall: f64 = launches.iter().map(|found| found.wall).sum::<f64>().max(1.0);
    let stolen = launches.iter().filter_map(|found| found.steal).sum::<f64>() / wall;
    let wanted: f64 = launches.iter().map(|found| found.cpu_time + found.run_delay.unwrap_or(0.0)).sum();
    let own = waited(&launches).map(|share| (share, "in the launches"));
    let seen = waited_in_probes(study).map(|share| (share, "in the interference probes of the rounds"));
    let found = match own {
        Some(_) if wanted >= WANTED_SHARE * wall => own,
        // The worse of two witnesses: each sees only what meets it.
        _ => own.into_iter().chain(seen).max_by(|one, other| one.0.total_cmp(&other.0)),
    };
    let Some((delayed, witness)) = found else {
        let unknown = "the kernel does not report how long other tasks had the CPU";
        let stolen = Number::share(stolen).text();
        return Gate::holds(&UNKNOWN, false, format!("{unknown}, and the hypervisor had it for {stolen}"));
    };
    let [tasks, hypervisor] = [delayed, stolen].map(|share| Number::share(share).text());
    let share = Number::share(delayed + stolen).named("other programs had the CPU for {} of the time");
    Gate::at_most(&MEASURED_CPU, share, TAKEN_SHARE)
        .because(format!("other tasks {tasks} {witness}, hypervisor {hypervisor}"))
}

/// Share of their time for which launches waited for the CPU; none where the kernel says it of none of them.
fn waited(evidence: &[&Evidence]) -> Option<f64> {
    let known: Vec<(f64, f64)> = evidence.iter().filter_map(|found| Some((found.run_delay?, found.wall))).collect();
    let wall: f64 = known.iter().map(|(_, wall)| wall).sum();
    (!known.is_empty()).then(|| known.iter().map(|(delay, _)| delay).sum::<f64>() / wall.max(1.0))
}

/// Share of the time for which interference probes waited for the measured CPU; none where the kernel says it of none of them.
fn waited_in_probes(study: &Study<'_>) -> Option<f64> {
    let probes = study.probes.iter().filter_map(|probe| probe.evidence.as_ref());
    without_burst(probes.filter_map(|probe| waited(&[probe])).collect())
}

/// Others on other CPUs that a figure is measured on, where its labels say that there are some: those of partners contaminate,
/// those that only share caches and memory make it noisy.
fn of_other_cpus(study: &Study<'_>, labels: &Labels) -> Option<Gate> {
    let placement = labels.get("placement").filter(|&placement| placement != interference::SAME_CPU);
    let several = |key: &str| labels.get(key).is_some_and(|count| count != "1");
    let partners =
        placement.is_some() || several("processes") || several("threads") || labels.get("child") == Some("free");
    let shares_memory = labels.get("level").is_some_and(|level| SHARED_LEVELS.contains(&level));
    if !partners && !shares_memory {
        return None;
    }
    let exact = placement.map(|placement| lost(study, |found| found == placement)).unwrap_or_default();
    // A figure that names no way of standing to each other may have used any of them.
    let found = if exact.is_empty() { lost(study, |found| found != interference::SAME_CPU) } else { exact };
    let share = without_burst(found)?;
    let rule = if partners { &PARTNERS } else { &SHARED_LEVEL };
    let what = "the other CPUs lost {} of the time to tasks, interrupts and the hypervisor (interference probes of the \
                rounds)";
    Some(Gate::at_most(rule, Number::share(share).named(what), TAKEN_SHARE))
}

/// The mean of several shares without the highest, because a burst in one interference probe says nothing about the launches. A median would
/// miss a task that computes for a third of the time.
fn without_burst(mut shares: Vec<f64>) -> Option<f64> {
    if shares.len() >= BURST_AMONG {
        shares.sort_by(f64::total_cmp);
        shares.pop();
    }
    mean(&shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_burst_says_nothing_and_a_task_that_comes_back_does() {
        let lost = |shares: &[f64]| without_burst(shares.to_vec()).unwrap();
        assert!(lost(&[0.04, 0.035, 0.11, 0.037]) < TAKEN_SHARE);
        assert!(lost(&[0.0, 1.0, 0.0, 0.0, 0.4, 0.0]) > TAKEN_SHARE, "a third of the time");
        assert!(lost(&[0.04, 0.035, 0.11]) > TAKEN_SHARE, "of a few each counts");
        assert_eq!(without_burst(Vec::new()), None);
    }
}
