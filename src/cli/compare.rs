//! `sysdyno compare`: what changed between two sides of runs.

use std::path::{Path, PathBuf};

use super::answer::Answer;
use super::answer_options::{AnswerOptions, ComparisonForm};
use super::compare_options::CompareOptions;
use super::{DONE, FOUND, Failure, INTERRUPTED, WORSE, json, quietest, runs, terminal_width};
use crate::compare::{self, PlacedRun};
use crate::conduct::interrupt::Interrupt;
use crate::conduct::live::{self, Condition, LiveRequest};
use crate::conduct::prepare;
use crate::experiments::Experiment;
use crate::plan;
use crate::report::content::comparison::{page, screen};
use crate::results::across::AcrossMachines;
use crate::results::comparison::{Alternation, ComparedResult, Comparison, Finding};
use crate::results::problem::Problem;
use crate::results::wording::{count, duration};
use crate::setup::{Profile, Setup};
use crate::sys::{affinity, talk};

pub(super) fn compare(options: &CompareOptions) -> Result<u8, Failure> {
    if options.live {
        return live(options);
    }
    if let Some(word) = options.selection.get(usize::from(options.across)) {
        return Err(Problem::new(format!("{word} is one too many to compare"))
            .hint("compare two sides, three machines with --across, or two conditions with --live")
            .into());
    }
    let [base, new] = sides(options)?;
    let [base, new] = [runs::named(&base)?, runs::named(&new)?].map(runs::each_once);
    let mut comparison = compare::compare(&base, &new, options.across)?;
    if comparison.across {
        let third = options.selection.first().map(|name| runs::named(Path::new(name))).transpose()?;
        let sides: Vec<Vec<PlacedRun>> =
            [Some(base.clone()), Some(new.clone()), third.map(runs::each_once)].into_iter().flatten().collect();
        comparison.across_machines = Some(across(&sides)?);
    }
    let shared = base.iter().find(|run| new.iter().any(|other| other.run == run.run));
    if let Some(run) = shared.filter(|_| !comparison.is_with_itself()) {
        talk::line(format_args!("{} is on both sides: a run does not differ from itself", run.place));
    }
    show(&comparison, &options.answer)?;
    Ok(exit_code(&comparison, &options.answer))
}

/// Which of some machines is better at what.
fn across(sides: &[Vec<PlacedRun>]) -> Result<AcrossMachines, Problem> {
    let mut pairs = Vec::new();
    for one in 0..sides.len() {
        for other in one + 1..sides.len() {
            pairs.push((one, other, compare::compare(&sides[one], &sides[other], true)?));
        }
    }
    Ok(compare::across::across(sides, &pairs))
}

/// The runs that are compared: the named ones, and in place of those that are not named the newest that are left.
fn sides(options: &CompareOptions) -> Result<[PathBuf; 2], Problem> {
    if let (Some(base), Some(new)) = (&options.base, &options.new) {
        return Ok([base.clone(), new.clone()]);
    }
    let new = runs::newest(options.base.as_deref())?;
    let base = options.base.clone().map_or_else(|| runs::newest(Some(&new)), Ok)?;
    talk::line(format_args!("comparing {} with {}", base.display(), new.display()));
    Ok([base, new])
}

/// Seconds of two conditions in turn, where no time is given.
const LIVE_SECONDS: f64 = 50.0;

/// Rounds that are to fit into that time.
const LIVE_ROUNDS: f64 = 8.0;
/// Launches of each experiment that must fit into a run where no experiment is named.
const LIVE_LAUNCHES: f64 = 2.0;
/// The word that selects every experiment.
const EVERYTHING: &str = "all";

/// Measures two conditions in turn, and compares them.
fn live(options: &CompareOptions) -> Result<u8, Failure> {
    let condition = |command: &Option<PathBuf>| Condition(command.clone().unwrap_or_default().display().to_string());
    let conditions = [condition(&options.base), condition(&options.new)];
    let machine = prepare::look_at_machine(None)?;
    let (cpu, words) = quietest::choose(options.cpu, &affinity::allowed(), &machine)?;
    let seconds = options.time.unwrap_or(LIVE_SECONDS);
    let setup = Setup::of(machine, cpu, affinity::allowed(), Profile::Quick);
    let chosen = choose(&options.selection, &setup, seconds)?;
    let each = run_seconds(&chosen.experiments, &setup, seconds)?;
    let fixed = ["--cpu".to_owned(), cpu.to_string(), "--time".to_owned(), format!("{each}s")];
    let request = LiveRequest {
        arguments: fixed.into_iter().chain(chosen.words).chain(options.run_options.clone()).collect(),
        seconds,
        place: options.runs.clone().unwrap_or_else(live::usual_place),
        conditions,
    };
    request.check()?;
    for line in words.into_iter().chain(chosen.remark) {
        talk::line(line);
    }
    let interrupt = Interrupt::watch()?;
    let found = request.alternate(&interrupt)?;
    if let Some(signal) = found.interrupted {
        talk::line(format_args!("ended by {signal} after {}", count(found.rounds.len() as u64, "round", "rounds")));
    }
    talk::line(format_args!("runs: {}", request.place.display()));
    if found.rounds.is_empty() {
        return Ok(INTERRUPTED);
    }
    let side = |index: usize| -> Result<Vec<PlacedRun>, Problem> {
        found.rounds.iter().map(|places| runs::one(&places[index])).collect()
    };
    let [base, new] = request.conditions.each_ref();
    let alternation = Alternation {
        base: base.0.clone(),
        new: new.0.clone(),
        rounds: found.rounds.len() as u32,
        seconds: found.seconds,
        restored: base.changes_the_machine().then(|| base.0.clone()),
    };
    let comparison = compare::live(&side(0)?, &side(1)?, alternation);
    show(&comparison, &options.answer)?;
    Ok(if found.interrupted.is_some() { INTERRUPTED } else { exit_code(&comparison, &options.answer) })
}

/// Experiments of every run.
struct LiveChoice {
    experiments: Vec<&'static Experiment>,
    /// The arguments that select them.
    words: Vec<String>,
    /// Says what is left out.
    remark: Option<String>,
}

/// The experiments that were named. Without names, those that the time has room for.
fn choose(selection: &[String], setup: &Setup, seconds: f64) -> Result<LiveChoice, Problem> {
    if let [word] = selection
        && word == EVERYTHING
    {
        return Ok(LiveChoice { experiments: plan::select(&[])?, words: Vec::new(), remark: None });
    }
    let named = plan::select(selection)?;
    if !selection.is_empty() {
        return Ok(LiveChoice { experiments: named, words: selection.to_vec(), remark: None });
    }
    let chosen = plan::affordable(&named, setup, seconds / (2.0 * LIVE_ROUNDS), LIVE_LAUNCHES);
    if chosen.is_empty() {
        return Err(Problem::new(format!("{} are too short for any experiment", duration(seconds)))
            .hint("give more --time, or name one experiment"));
    }
    let able = named.iter().filter(|experiment| experiment.unmet(setup).is_none());
    let left_out: Vec<&str> =
        able.map(|experiment| experiment.id).filter(|id| chosen.iter().all(|found| found.id != *id)).collect();
    let remark = format!(
        "{} fit into {}. Not measured: {}. To measure everything, add the word {EVERYTHING}",
        count(chosen.len() as u64, "experiment", "experiments"),
        duration(seconds),
        left_out.join(", ")
    );
    let words = chosen.iter().map(|experiment| experiment.id.to_owned()).collect();
    Ok(LiveChoice { experiments: chosen, words, remark: (!left_out.is_empty()).then_some(remark) })
}

/// Seconds of one run: as many as the rounds leave room for, and enough for two launches of everything. More rounds decide more
/// than longer runs do.
fn run_seconds(selected: &[&'static Experiment], setup: &Setup, seconds: f64) -> Result<f64, Problem> {
    let plan = plan::plan(selected, setup, None)?;
    Ok((seconds / (2.0 * LIVE_ROUNDS)).max(2.0 * plan.first_round_seconds).ceil())
}

fn show(comparison: &Comparison, options: &AnswerOptions) -> Result<(), Failure> {
    let lines = || screen(comparison, terminal_width(), options.all);
    let answer = match options.format {
        ComparisonForm::Text => Answer::of_screen(lines(), options.all, options.color),
        ComparisonForm::Html => Answer::Html(page(comparison)),
        ComparisonForm::Markdown => Answer::Markdown(page(comparison)),
        ComparisonForm::Json => Answer::Text(json(comparison)?),
    };
    answer.show(options.output.as_deref())
}

/// 1 where a headline result is worse, 3 where the data leave that open, 0 otherwise.
fn exit_code(comparison: &Comparison, options: &AnswerOptions) -> u8 {
    let least = options.least();
    let worse = |row: &ComparedResult| row.finding == Finding::Worse && row.worsening() >= least;
    let open = |row: &ComparedResult| row.finding == Finding::Inconclusive && row.worst() >= least.max(row.threshold);
    match () {
        () if comparison.headline().any(worse) => WORSE,
        () if !options.lenient && (comparison.headline().next().is_none() || comparison.headline().any(open)) => FOUND,
        () => DONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_names_what_fits_is_measured() {
        let machine = crate::machine::detect(std::path::Path::new("/proc/nonexistent"), std::path::Path::new("/"));
        let setup = Setup::of(machine, 0, vec![0], Profile::Quick);
        let chosen = |words: &[&str], seconds: f64| {
            choose(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), &setup, seconds)
        };
        let [some, more, all] = [chosen(&[], 50.0), chosen(&[], 200.0), chosen(&["all"], 50.0)].map(Result::unwrap);
        assert!(5 < some.experiments.len() && some.experiments.len() < more.experiments.len());
        assert!(more.experiments.len() <= all.experiments.len() && all.words.is_empty());
        assert_eq!(some.words.len(), some.experiments.len());
        assert!(some.remark.unwrap().contains("Not measured: ") && all.remark.is_none());
        let named = chosen(&["cpu"], 50.0).unwrap();
        assert_eq!((named.words, named.remark), (vec!["cpu".to_owned()], None));
        assert!(chosen(&[], 3.0).is_err() && chosen(&["cpu.lop"], 50.0).is_err());
    }
}
