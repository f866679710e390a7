//! `sysdyno compare`: what changed between two sides of runs.

use std::path::Path;

use super::answer::{self, Answer};
use super::compare_options::CompareOptions;
use super::{DONE, FOUND, Failure, INTERRUPTED, WORSE, json, quietest, runs, terminal_width};
use crate::compare::{self, PlacedRun};
use crate::conduct::interrupt::Interrupt;
use crate::conduct::live::{self, Condition, LiveRequest};
use crate::conduct::prepare;
use crate::experiments::Experiment;
use crate::plan;
use crate::report::comparison_screen;
use crate::report::content::comparison::page;
use crate::results::comparison::{Alternation, ComparedResult, Comparison, Finding};
use crate::results::problem::Problem;
use crate::results::wording::count;
use crate::setup::{Profile, Setup};
use crate::sys::{affinity, talk};

pub(super) fn compare(options: &CompareOptions) -> Result<u8, Failure> {
    if options.live {
        return live(options);
    }
    let (base, new) = (runs::named(&options.base)?, runs::named(&options.new)?);
    let comparison = compare::compare(&base, &new, options.across)?;
    show(&comparison, options)?;
    Ok(exit_code(&comparison, options))
}

/// Seconds of two conditions in turn, where nobody says how long.
const LIVE_SECONDS: f64 = 50.0;

/// Rounds that are to fit into that time.
const LIVE_ROUNDS: f64 = 8.0;

/// Measures two conditions in turn, and compares them.
fn live(options: &CompareOptions) -> Result<u8, Failure> {
    let selected = plan::select(&options.selection)?;
    let condition = |command: &Path| Condition(command.to_string_lossy().into_owned());
    let conditions = [condition(&options.base), condition(&options.new)];
    let machine = prepare::look_at_machine(None)?;
    let (cpu, words) = quietest::choose(options.cpu, &affinity::allowed(), &machine)?;
    let seconds = options.time.unwrap_or(LIVE_SECONDS);
    let each = run_seconds(&selected, &Setup::of(machine, cpu, affinity::allowed(), Profile::Quick), seconds)?;
    let fixed = ["--cpu".to_owned(), cpu.to_string(), "--time".to_owned(), format!("{each}s")];
    let request = LiveRequest {
        arguments: fixed.into_iter().chain(options.selection.clone()).chain(options.run_options.clone()).collect(),
        seconds,
        place: options.runs.clone().unwrap_or_else(live::usual_place),
        conditions,
    };
    request.check()?;
    for line in words {
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
    show(&comparison, options)?;
    Ok(if found.interrupted.is_some() { INTERRUPTED } else { exit_code(&comparison, options) })
}

/// Seconds of one run: so many that the rounds fit, and enough for two launches of everything. More rounds decide more than longer
/// runs do.
fn run_seconds(selected: &[&'static Experiment], setup: &Setup, seconds: f64) -> Result<f64, Problem> {
    let plan = plan::plan(selected, setup, None)?;
    Ok((seconds / (2.0 * LIVE_ROUNDS)).max(2.0 * plan.first_round_seconds).ceil())
}

fn show(comparison: &Comparison, options: &CompareOptions) -> Result<(), Failure> {
    answer::show(&Answer {
        screen: &|| comparison_screen::screen(comparison, terminal_width(), options.all),
        page: &|| page(comparison),
        json: &|| json(comparison),
        form: options.format,
        output: options.output.as_deref(),
        all: options.all,
        colour: options.color,
    })
}

/// 1 where a headline result is worse, 3 where the data leave that open, 0 otherwise.
fn exit_code(comparison: &Comparison, options: &CompareOptions) -> u8 {
    let least = options.fail_on.unwrap_or(0.0);
    let worse = |row: &ComparedResult| row.finding == Finding::Worse && row.worsening() >= least;
    let open = |row: &ComparedResult| row.finding == Finding::Inconclusive && row.worst() >= least.max(row.threshold);
    match () {
        () if comparison.headline().any(worse) => WORSE,
        () if !options.lenient && comparison.headline().any(open) => FOUND,
        () => DONE,
    }
}
