//! `sysdyno run`: measure, summarise, keep.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{AccessFlags, access};

use super::arguments::RunOptions;
use super::json_target::Target;
use super::{DONE, FAILED, Failure, INTERRUPTED, doctor, elsewhere, footing, peering, print, terminal_width};
use crate::conduct::directory::{self, RunDirectory};
use crate::conduct::interrupt::Interrupt;
use crate::conduct::progress::Progress;
use crate::conduct::{self, Outcome, Setting, scratch};
use crate::machine::quiet::Check;
use crate::machine::{self, Identity, Machine};
use crate::plan::{self, Others, Plan, Profile};
use crate::report::{json, terminal};
use crate::results::document::{self, Document};
use crate::results::log::{FORMAT, Header, LogWriter};
use crate::results::quantity::Unit;
use crate::results::trouble::Trouble;
use crate::results::wording::{count, duration, launches, quantity};
use crate::sys::clock::Source;
use crate::sys::{affinity, process, talk};

/// Length of the noise probe that belongs to the record of a run.
pub(super) const NOISE_SPAN: Duration = Duration::from_millis(50);

/// Begins a run and measures.
pub(super) fn begin(options: &RunOptions, command: &[String], target: Option<Target>) -> Result<u8, Failure> {
    let selected = plan::select(&options.selection)?;
    let profile = options.profile();
    let machine = look_at_machine(options)?;
    let allowed = affinity::allowed();
    let cpu = plan::choose_cpu(options.cpu, &allowed, &machine)?;
    let others = Others::of(options.peer.peer.is_some(), options.remote.ways());
    let plan = plan::plan(&selected, &machine, &profile, options.time, others)?;
    if options.dry_run {
        let elsewhere = elsewhere::foresee(&options.remote)? + &peering::foresee(&options.peer)?.unwrap_or_default();
        let filling = foresee_filling(options, &machine, &plan).into_iter().map(|line| line + "\n").collect::<String>();
        print(&(describe(&plan, &profile, cpu) + &filling + &elsewhere))?;
        return Ok(DONE);
    }
    let source = choose_source(options, &machine, cpu)?;
    let met = peering::meet(&options.peer)?;
    let remote = elsewhere::find(&options.remote)?;
    let quiet = doctor::checks(&machine, cpu, NOISE_SPAN);
    // Before the log has its first line: from then on a signal ends it politely.
    let interrupt = Interrupt::watch()?;
    let (run_directory, writer, header) = start(options, header(options, &profile, cpu, command))?;
    for warning in &plan.warnings {
        talk::line(format_args!("warning: {warning}"));
    }
    warn(&quiet, options.scratch.is_some());
    warn_of_full_cache(options, &machine, &plan);
    let peer = met.as_ref().map(peering::Met::told);
    if let Some((facts, _)) = peer.as_ref().filter(|(facts, _)| facts.is_here()) {
        talk::line(format_args!(
            "warning: the peer at {} is on this machine: what is called remote crosses no network",
            facts.address
        ));
        talk::line("hint: start it on another machine, with --listen and an address that is reached from here");
    }
    let (scratch_limit, full_cache) = (options.scratch_limit, options.full_cache());
    let setting =
        Setting { header, profile, machine, quiet, plan, allowed, peer, remote, source, scratch_limit, full_cache };
    let progress = Progress::new(!options.no_progress);
    let outcome = conduct::run(&setting, &run_directory, writer, &progress, &interrupt);
    conclude(outcome, &run_directory, target)
}

/// The first line of a log, for a run that begins now.
fn header(options: &RunOptions, profile: &Profile, cpu: u32, command: &[String]) -> Header {
    Header {
        log: FORMAT.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        id: directory::identifier(&process::host_name()),
        started: directory::now(),
        command: peering::without_secret(command),
        seed: options.seed.unwrap_or_else(|| fastrand::u64(..1 << 32)),
        profile: profile.name.to_owned(),
        cpu,
        build: build(),
        identity: Some(Identity::read(Path::new("/"))),
    }
}

/// The run directory with the beginning of its log: where it was named, or one that is named after the run.
fn start(options: &RunOptions, header: Header) -> Result<(RunDirectory, LogWriter, Header), Trouble> {
    match &options.output {
        Some(path) => RunDirectory::create(path, &header).map(|(directory, log)| (directory, log, header)),
        None => RunDirectory::create_in(Path::new("sysdyno-runs"), header),
    }
}

/// Says at once what a user can choose otherwise: a quota, a mask of CPUs, a place for scratch files that is no disk. All
/// checks are in the log, and `doctor` tells them.
pub(super) fn warn(quiet: &[Check], scratch_chosen: bool) {
    let told = |check: &&Check| {
        !check.ok
            && check.known
            && (["quota", "affinity"].contains(&check.check.as_str()) || scratch_chosen && check.check == "scratch")
    };
    for check in quiet.iter().filter(told) {
        talk::line(format_args!("warning: {}", check.detail));
        talk::line(format_args!("hint: {}", check.remedy.as_deref().unwrap_or("`sysdyno doctor` says what it spoils")));
    }
}

/// Says what filling the whole file cache does to the machine.
pub(super) fn warn_of_full_cache(options: &RunOptions, machine: &Machine, plan: &Plan) {
    if options.full_cache.is_some() {
        talk::line(
            "warning: --full-cache fills the memory of this machine with file data: what other programs have cached is evicted",
        );
        talk::line(
            "hint: they read it again from the disk afterwards; without --full-cache nothing of theirs is touched",
        );
    }
    for line in foresee_filling(options, machine, plan) {
        talk::line(line);
    }
}

/// How long filling the whole file cache may take, and whether the time of the run suffices for it.
fn foresee_filling(options: &RunOptions, machine: &Machine, plan: &Plan) -> Vec<String> {
    let needs = options.full_cache().and_then(|with| with.needs(machine));
    let Some((seconds, bytes)) = needs else { return Vec::new() };
    let (bytes, allowed) = (quantity(bytes as f64, Unit::Bytes), plan.limit_seconds - plan.first_round_seconds);
    let late = if machine.is_guest() { ", where the host gives memory late" } else { "" };
    let text = format!("filling up to {bytes} needs up to about {}{late}", duration(seconds));
    if seconds <= allowed {
        return vec![format!("note: {text}")];
    }
    let left = duration(allowed.max(0.0));
    let enough = (plan.first_round_seconds + seconds).ceil();
    vec![
        format!(
            "warning: {text}, and the time limit leaves {left}: if it does not suffice, the figure says 'at least'"
        ),
        format!("hint: allow --time {enough}s"),
    ]
}

pub(super) fn conclude(
    outcome: Result<Outcome, Trouble>,
    directory: &RunDirectory,
    target: Option<Target>,
) -> Result<u8, Failure> {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(trouble) => {
            talk::line(format_args!("what was measured is in {}", directory.path().display()));
            return Err(Failure::while_working(trouble));
        }
    };
    let document = &outcome.document;
    tell(document, target, directory)?;
    talk::line(format_args!("run directory: {}", directory.path().display()));
    if outcome.interrupted {
        talk::line(format_args!("interrupted; go on with: sysdyno run --resume {}", directory.path().display()));
        return Ok(INTERRUPTED);
    }
    Ok(if any_failed(document) { FAILED } else { DONE })
}

/// The summary, and the result as JSON where that was asked for.
pub(super) fn tell(document: &Document, target: Option<Target>, directory: &RunDirectory) -> Result<(), Failure> {
    if matches!(target, Some(Target::Stdout)) {
        talk::text(terminal::summary(document, None));
        return print(&json::render(document)?);
    }
    print(&terminal::summary(document, terminal_width()))?;
    let Some(mut target) = target else { return Ok(()) };
    target.write(&json::render(document)?).map_err(|trouble| {
        let elsewhere = format!("the same result is in {}", directory.path().join("result.json").display());
        Failure::while_working(trouble.hint(elsewhere))
    })
}

fn any_failed(document: &Document) -> bool {
    document.experiments.iter().any(|section| section.outcome == document::Outcome::Failed)
}

/// The counter if it can be used, else the kernel's clock, as asked.
fn choose_source(options: &RunOptions, machine: &Machine, cpu: u32) -> Result<Source, Trouble> {
    match options.clock.source() {
        Some(Source::MonotonicRaw) => Ok(Source::MonotonicRaw),
        Some(Source::Counter) => doctor::counter_usable(cpu).map(|()| Source::Counter),
        None => {
            if let Some(why) = machine.counter_doubt() {
                talk::line(format_args!("warning: {why}; CLOCK_MONOTONIC_RAW is used instead"));
                return Ok(Source::MonotonicRaw);
            }
            Ok(match doctor::counter_usable(cpu) {
                Ok(()) => Source::Counter,
                Err(trouble) => {
                    talk::line(format_args!("warning: {trouble}"));
                    Source::MonotonicRaw
                }
            })
        }
    }
}

/// Where files go. What was named is looked at before anything is measured; of the current directory, which nobody named, the
/// experiments say what they miss.
fn scratch_directory(options: &RunOptions) -> Result<PathBuf, Trouble> {
    let Some(directory) = &options.scratch else { return Ok(PathBuf::from(".")) };
    let here = directory.display();
    // Logs are text: another name would stand in them for this one.
    if std::fs::canonicalize(directory).is_ok_and(|place| place.to_str().is_none()) {
        return Err(Trouble::new(format!("the name of the scratch directory {here} is not UTF-8"))
            .hint("choose a directory whose whole path is UTF-8 with --scratch DIR"));
    }
    match std::fs::metadata(directory) {
        Ok(found) if !found.is_dir() => {
            Err(Trouble::new(format!("{here} is no directory")).hint("choose one for files with --scratch DIR"))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Trouble::new(format!("the scratch directory {here} does not exist"))
                .hint("create it, or choose another with --scratch DIR"))
        }
        Err(error) => Err(Trouble::new(format!("cannot look at the scratch directory {here}: {error}"))
            .hint("choose another with --scratch DIR")),
        Ok(_) => {
            access(directory, AccessFlags::W_OK | AccessFlags::X_OK).map(|()| directory.clone()).map_err(|error| {
                Trouble::new(format!("no files can be made in the scratch directory {here}: {}", error.desc()))
                    .hint("choose a directory that you may write to with --scratch DIR")
            })
        }
    }
}

/// Describes this machine, whose scratch directory must have room for what was allowed.
pub(super) fn look_at_machine(options: &RunOptions) -> Result<Machine, Trouble> {
    let machine = machine::detect(Path::new("/"), &scratch_directory(options)?);
    footing::has_room(&machine)?;
    if options.scratch_limit.is_some() {
        scratch::room(&machine, options.scratch_limit)?;
    }
    Ok(machine)
}

/// The plan in words, for `--dry-run`.
fn describe(plan: &Plan, profile: &Profile, cpu: u32) -> String {
    let mut text = String::new();
    for step in &plan.steps {
        text += &match &step.skipped {
            None => format!("{:<24} {}\n", step.experiment, launches(step.launches as usize)),
            Some(trouble) => format!("{:<24} skipped: {}\n", step.experiment, trouble.what),
        };
    }
    text += &format!(
        "\n{} profile: {} on CPU {cpu}, each launch with {} batches of every workload; about {}, at most {}; up to {} of memory.\n",
        profile.name,
        count(u64::from(plan.rounds), "round", "rounds"),
        profile.batches,
        duration(plan.estimated_seconds),
        duration(plan.limit_seconds),
        quantity(plan.peak_bytes as f64, Unit::Bytes)
    );
    for warning in &plan.warnings {
        text += &format!("warning: {warning}\n");
    }
    text
}

/// How this binary was built: part of every record, because the compiler shapes the compiled kernels.
fn build() -> String {
    format!(
        "{} {} {}",
        env!("SYSDYNO_RUSTC"),
        if cfg!(debug_assertions) { "unoptimised" } else { "optimised" },
        env!("SYSDYNO_TARGET")
    )
}
