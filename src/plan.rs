//! What will run: selection and machine become steps, each with its launches or the reason why it is skipped.

use crate::experiments::{self, Experiment, names};
use crate::machine::Machine;
use crate::results::log::{Record, Step};
use crate::results::problem::Problem;
use crate::results::wording::duration;
use crate::setup::{Profile, Setup};
use crate::statistics::location::FEWEST_LAUNCHES;

/// Seconds to start and end a launch.
const LAUNCH_SECONDS: f64 = 0.012;
/// Seconds of the interference probes of a round.
pub const PROBE_SECONDS: f64 = 0.05;
/// Seconds to calibrate the clock and to describe the machine.
pub const START_SECONDS: f64 = 0.4;
/// Launches that an experiment needs. Fewer are enough where each takes long: its time is worth more elsewhere.
const LEAST_LAUNCHES: u32 = 8;
/// Seconds of a launch that takes long.
const LONG: f64 = 0.5;
/// Rounds of a run that uses its time. With half of them, runs on the made machine and replayed ones have 80 % good results 15 s later.
/// More of them would be more chances to stop at a lucky moment.
const ROUNDS: u32 = 40;
/// Launches of an experiment at most. A first look at everything has time for fewer.
const MOST_LAUNCHES: [u32; 2] = [144, 16];
/// Batches for which the table's durations hold.
const NOMINAL_BATCHES: f64 = 30.0;
/// Launches of an experiment among which is the one that takes most memory.
const TURNS: u32 = 40;

/// What will run and what will not.
pub struct Plan {
    /// What runs, in the order of the report.
    pub running: Vec<&'static Experiment>,
    /// Everything selected, with reasons for what is skipped.
    pub steps: Vec<Step>,
    /// Rounds, if the run uses its time.
    pub rounds: u32,
    /// Launches of an experiment at most.
    pub most_launches: u32,
    /// Seconds expected.
    pub estimated_seconds: f64,
    /// Seconds expected of the start and the first round.
    pub first_round_seconds: f64,
    /// Seconds at most.
    pub limit_seconds: f64,
    /// Bytes that the largest launch takes; launches run one after the other.
    pub peak_bytes: u64,
    /// Remarks for the user, such as a limit that cuts rounds.
    pub warnings: Vec<String>,
}

impl Plan {
    /// The plan as the log has it.
    pub fn record(&self) -> Record {
        let Plan { steps, rounds, estimated_seconds, .. } = self;
        Record::Plan { steps: steps.clone(), rounds: *rounds, estimated_seconds: *estimated_seconds }
    }
}

/// The experiments that words select: experiments, chapters, words of the field, or everything when there are none.
pub fn select(words: &[String]) -> Result<Vec<&'static Experiment>, Problem> {
    if words.is_empty() {
        return Ok(experiments::TABLE.to_vec());
    }
    let mut named: Vec<&Experiment> = Vec::new();
    for word in words {
        named.extend(names::selected(word).ok_or_else(|| unknown(word))?);
    }
    Ok(experiments::TABLE.iter().copied().filter(|one| named.iter().any(|found| found.id == one.id)).collect())
}

/// The experiments of a run. Without words a quick run has those that matter most.
pub fn select_for_run(words: &[String], profile: Profile) -> Result<Vec<&'static Experiment>, Problem> {
    let mut selected = select(words)?;
    selected.retain(|experiment| !words.is_empty() || !profile.is_quick() || experiment.in_quick);
    Ok(selected)
}

fn unknown(word: &str) -> Problem {
    let near = names::like(word);
    let hint = if near.is_empty() {
        format!("chapters are {}. `sysdyno list` shows every experiment", experiments::chapters().join(", "))
    } else {
        format!("did you mean {}? `sysdyno list` shows every experiment", near.join(" or "))
    };
    Problem::new(format!("unknown experiment or chapter '{word}'")).hint(hint)
}

/// Seconds that a single launch is expected to take.
pub fn launch_seconds(experiment: &Experiment, setup: &Setup) -> f64 {
    let share = 0.3 + 0.7 * f64::from(setup.profile.batches()) / NOMINAL_BATCHES;
    LAUNCH_SECONDS + (experiment.seconds)(setup) * share
}

/// The experiments that a time has room for with this many launches of each: the longest are left out until the rest fits.
pub fn affordable(
    wanted: &[&'static Experiment],
    setup: &Setup,
    seconds: f64,
    launches: f64,
) -> Vec<&'static Experiment> {
    let able = |experiment: &&'static Experiment| experiment.unmet(setup).is_none();
    let mut chosen: Vec<&'static Experiment> = wanted.iter().copied().filter(able).collect();
    let launch = |experiment: &&'static Experiment| launch_seconds(experiment, setup);
    while launches * chosen.iter().map(launch).sum::<f64>() + START_SECONDS > seconds {
        let longest = chosen.iter().enumerate().max_by(|one, other| launch(one.1).total_cmp(&launch(other.1)));
        match longest.map(|(place, _)| place) {
            Some(place) => drop(chosen.remove(place)),
            None => break,
        }
    }
    chosen
}

/// Launches that an experiment needs whose launches take these seconds.
pub fn least_launches(seconds: f64, setup: &Setup) -> u32 {
    if setup.profile.is_quick() || seconds > LONG { FEWEST_LAUNCHES as u32 } else { LEAST_LAUNCHES }
}

/// Makes the plan; refuses a time limit that does not allow a single round.
pub fn plan(selected: &[&'static Experiment], setup: &Setup, time: Option<f64>) -> Result<Plan, Problem> {
    let profile = setup.profile;
    let skipped: Vec<Option<Problem>> = selected.iter().map(|experiment| experiment.unmet(setup)).collect();
    let running: Vec<&'static Experiment> = selected
        .iter()
        .zip(&skipped)
        .filter(|(_, skipped)| skipped.is_none())
        .map(|(experiment, _)| *experiment)
        .collect();
    let launch = |experiment: &Experiment| launch_seconds(experiment, setup);
    let first_round_seconds =
        START_SECONDS + PROBE_SECONDS + running.iter().map(|experiment| launch(experiment)).sum::<f64>();
    let needed = |experiment: &Experiment| f64::from(least_launches(launch(experiment), setup)) * launch(experiment);
    let estimated_seconds = START_SECONDS + running.iter().map(|experiment| needed(experiment)).sum::<f64>();
    let limit_seconds = time.unwrap_or(profile.limit_seconds());
    if first_round_seconds > limit_seconds && !running.is_empty() {
        return Err(Problem::new(format!(
            "a time limit of {} is too short, because one round of this plan takes about {}",
            duration(limit_seconds),
            duration(first_round_seconds)
        ))
        .hint(format!("allow --time {}s or more, or select fewer experiments", first_round_seconds.ceil())));
    }
    let mut warnings = Vec::new();
    if estimated_seconds > limit_seconds && !running.is_empty() {
        warnings.push(format!(
            "the time limit of {} is less than the {} that all experiments need, so some intervals will be wider",
            duration(limit_seconds),
            duration(estimated_seconds)
        ));
    }
    let of_turns = |experiment: &&Experiment| (0..TURNS).map(|turn| (experiment.memory)(setup, turn)).max();
    let peak_bytes = running.iter().filter_map(of_turns).max().unwrap_or(0);
    Ok(Plan {
        steps: selected
            .iter()
            .zip(skipped)
            .map(|(experiment, skipped)| Step {
                experiment: experiment.id.to_owned(),
                method_version: experiment.method_version,
                launches: if skipped.is_some() { 0 } else { least_launches(launch(experiment), setup) },
                skipped,
            })
            .collect(),
        running,
        rounds: ROUNDS,
        peak_bytes,
        // Where a user chose the experiments, no other needs the time.
        most_launches: MOST_LAUNCHES[usize::from(profile.is_quick() && selected.len() == experiments::TABLE.len())],
        estimated_seconds: estimated_seconds.min(limit_seconds),
        first_round_seconds,
        limit_seconds,
        warnings,
    })
}

/// The CPU to measure on: the one asked for, else one that interrupts and other work are likely to spare.
pub fn choose_cpu(asked: Option<u32>, allowed: &[u32], machine: &Machine) -> Result<u32, Problem> {
    let list = || allowed.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    match asked {
        Some(cpu) if allowed.contains(&cpu) => Ok(cpu),
        Some(cpu) => Err(Problem::new(format!("CPU {cpu} does not exist or this process may not use it"))
            .hint(format!("CPUs allowed here: {}", list()))),
        None => {
            let fastest = |cpu: &u32| machine.maximum_core_hertz(*cpu).map_or(0.0, |found| found.value);
            let top = allowed.iter().map(fastest).fold(0.0, f64::max);
            // The last of the fastest: the first CPU takes most interrupts.
            allowed.iter().copied().rfind(|cpu| fastest(cpu) >= top * 0.99).ok_or_else(|| {
                Problem::new("cannot read the affinity mask of this process").hint("name a CPU with --cpu N")
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn a_chapter_selects_its_experiments_in_the_order_of_the_table() {
        let ids: Vec<&str> = select(&words(&["cpu.timer", "cpu"])).unwrap().iter().map(|found| found.id).collect();
        assert_eq!(ids[..2], ["cpu.frequency", "cpu.timer"]);
        assert_eq!(select(&[]).unwrap().len(), experiments::TABLE.len());
    }

    #[test]
    fn a_quick_run_of_everything_has_what_matters_most() {
        let number = |typed: &[&str], profile| select_for_run(&words(typed), profile).unwrap().len();
        let all = experiments::TABLE.len();
        assert!((10..all).contains(&number(&[], Profile::Quick)));
        assert_eq!(number(&[], Profile::Default), all);
        assert_eq!(number(&["os.scaling"], Profile::Quick), 1);
    }

    #[test]
    fn an_unknown_name_is_answered_with_near_ones() {
        let problem = select(&words(&["cpu.tmier"])).err().unwrap();
        assert!(problem.hint.unwrap().contains("cpu.timer"));
        let problem = select(&words(&["procedure_cal"])).err().unwrap();
        assert!(problem.hint.unwrap().contains("cpu.procedure_call"));
        let problem = select(&words(&["zzz"])).err().unwrap();
        assert!(problem.hint.unwrap().contains("chapters are cpu"));
    }

    #[test]
    fn a_first_look_at_chosen_experiments_goes_on_until_they_are_good() {
        let machine = crate::machine::detect(std::path::Path::new("/proc/nonexistent"), std::path::Path::new("/"));
        let setup = Setup::of(machine, 0, vec![0], Profile::Quick);
        let most = |words: &[&str]| {
            let selected = select(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>()).unwrap();
            plan(&selected, &setup, Some(100.0)).map(|plan| plan.most_launches).unwrap()
        };
        assert_eq!((most(&["os.system_call"]), most(&["cpu", "os"])), (MOST_LAUNCHES[0], MOST_LAUNCHES[0]));
        assert_eq!(most(&[]), MOST_LAUNCHES[1], "each of all has its part of the time");
    }
}
