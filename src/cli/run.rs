//! `sysdyno run`: measure, summarise, keep.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{AccessFlags, access};

use super::arguments::RunOptions;
use super::{DONE, FAILED, Failure, INTERRUPTED, doctor, elsewhere, peering, pinned, print, terminal_width};
use crate::conduct::directory::{self, RunDirectory};
use crate::conduct::progress::Progress;
use crate::conduct::{self, Outcome, Setting, scratch};
use crate::machine::quiet::Check;
use crate::machine::{self, Machine};
use crate::plan::{self, Others, Plan, Profile};
use crate::report::{json, terminal};
use crate::results::document::{self, Document};
use crate::results::log::{FORMAT, Header, Log};
use crate::results::quantity::Unit;
use crate::results::remote::Remote;
use crate::results::trouble::Trouble;
use crate::results::wording::{count, duration, launches, quantity};
use crate::rig::clock;
use crate::rig::order::CANARY;
use crate::sys::clock::Source;
use crate::sys::{affinity, process};

/// Length of the noise probe that belongs to the record of a run.
const NOISE_SPAN: Duration = Duration::from_millis(50);

pub(super) fn run(options: &RunOptions, command: &[String]) -> Result<u8, Failure> {
    if let Some(file) = options.json.as_deref().filter(|file| file.as_os_str() != "-") {
        check_writable(file)?;
    }
    match &options.resume {
        Some(run) => resume(options, run, command),
        None => begin(options, command),
    }
}

fn begin(options: &RunOptions, command: &[String]) -> Result<u8, Failure> {
    let selected = plan::select(&options.selection)?;
    let profile = options.profile();
    let machine = look_at_machine(options)?;
    let allowed = affinity::allowed();
    let cpu = plan::choose_cpu(options.cpu, &allowed, &machine)?;
    let others = Others::of(options.peer.peer.is_some(), options.remote.ways());
    let plan = plan::plan(&selected, &machine, &profile, options.time, others)?;
    if options.dry_run {
        let elsewhere = elsewhere::foresee(&options.remote)? + &peering::foresee(&options.peer)?.unwrap_or_default();
        print(&(describe(&plan, &profile, cpu) + &elsewhere))?;
        return Ok(DONE);
    }
    let source = choose_source(options, &machine, cpu)?;
    let met = peering::meet(&options.peer)?;
    let remote = elsewhere::find(&options.remote)?;
    let identifier = directory::identifier(&process::host_name());
    let path = options.output.clone().unwrap_or_else(|| Path::new("sysdyno-runs").join(&identifier));
    let run_directory = RunDirectory::create(&path)?;
    for warning in &plan.warnings {
        eprintln!("warning: {warning}");
    }
    let header = Header {
        log: FORMAT.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        id: identifier,
        started: directory::now(),
        command: peering::without_secret(command),
        seed: options.seed.unwrap_or_else(|| fastrand::u64(..1 << 32)),
        profile: profile.name.to_owned(),
        cpu,
        build: build(),
    };
    let quiet = doctor::checks(&machine, cpu, NOISE_SPAN);
    warn(&quiet, options.scratch.is_some());
    warn_of_full_cache(options);
    let peer = met.as_ref().map(peering::Met::told);
    if let Some((facts, _)) = peer.as_ref().filter(|(facts, _)| facts.is_here()) {
        eprintln!(
            "warning: the peer at {} is on this machine: what is called remote crosses no network",
            facts.address
        );
        eprintln!("hint: start it on another machine, with --listen and an address that is reached from here");
    }
    let (scratch_limit, full_cache) = (options.scratch_limit, options.full_cache());
    let setting =
        Setting { header, profile, machine, quiet, plan, allowed, peer, remote, source, scratch_limit, full_cache };
    let progress = Progress::new(!options.no_progress);
    let outcome = conduct::run(&setting, &run_directory, &progress);
    conclude(options, outcome, &run_directory)
}

fn resume(options: &RunOptions, run: &Path, command: &[String]) -> Result<u8, Failure> {
    let run_directory = RunDirectory::open(run)?;
    let log = crate::results::log::read(&run_directory.log())?;
    let machine = look_at_machine(options)?;
    let allowed = affinity::allowed();
    let met = peering::meet_again(&options.peer, log.peer.as_deref())?;
    let remote = elsewhere::find_again(&options.remote, log.remote.as_deref())?;
    let (plan, profile) = plan_of(&log, &machine, &allowed, options.time)?;
    if log.finish.as_ref().is_some_and(|(_, complete, _)| *complete) {
        eprintln!("{} is complete: there is nothing to go on with", log.header.id);
        print(&terminal::summary(&crate::assemble::document(&log), terminal_width()))?;
        return Ok(DONE);
    }
    let source = log.clock.as_ref().and_then(|clock| Source::named(&clock.source)).unwrap_or(Source::Counter);
    if source == Source::Counter {
        counter_usable(log.header.cpu)?;
    }
    eprintln!(
        "resuming {}: {} and {} are there{}",
        log.header.id,
        count(u64::from(log.rounds), "round", "rounds"),
        count(log.launches.iter().filter(|launch| launch.experiment != CANARY).count() as u64, "launch", "launches"),
        log.damage.as_ref().map_or_else(String::new, |damage| format!("; {damage}, that line is cut off"))
    );
    let quiet = doctor::checks(&machine, log.header.cpu, NOISE_SPAN);
    warn(&quiet, options.scratch.is_some());
    warn_of_full_cache(options);
    let peer = met.as_ref().map(peering::Met::told);
    let (header, scratch_limit, full_cache) = (log.header, options.scratch_limit, options.full_cache());
    let setting =
        Setting { header, profile, machine, quiet, plan, allowed, peer, remote, source, scratch_limit, full_cache };
    let progress = Progress::new(!options.no_progress);
    let outcome = conduct::resume(&setting, &run_directory, &progress, &peering::without_secret(command));
    conclude(options, outcome, &run_directory)
}

/// Says at once what a user can choose otherwise: a quota, a mask of CPUs, a place for scratch files that is no disk. All
/// checks are in the log, and `doctor` tells them.
fn warn(quiet: &[Check], scratch_chosen: bool) {
    let told = |check: &&Check| {
        !check.ok
            && check.known
            && (["quota", "affinity"].contains(&check.check.as_str()) || scratch_chosen && check.check == "scratch")
    };
    for check in quiet.iter().filter(told) {
        eprintln!("warning: {}", check.detail);
        eprintln!("hint: {}", check.remedy.as_deref().unwrap_or("`sysdyno doctor` says what it spoils"));
    }
}

/// Says what filling the whole file cache does to the machine.
fn warn_of_full_cache(options: &RunOptions) {
    if options.full_cache.is_some() {
        eprintln!(
            "warning: --full-cache fills the memory of this machine with file data: what other programs have cached is evicted"
        );
        eprintln!(
            "hint: they read it again from the disk afterwards; without --full-cache nothing of theirs is touched"
        );
    }
}

/// The plan of a log, if this machine and this version can go on with it.
fn plan_of(log: &Log, machine: &Machine, allowed: &[u32], time: Option<f64>) -> Result<(Plan, Profile), Trouble> {
    if log.machine.fingerprint != machine.fingerprint {
        return Err(Trouble::new(format!(
            "this run was begun on another machine ({}), this one is {}",
            log.machine.fingerprint, machine.fingerprint
        ))
        .hint("figures of two machines do not belong into one run: start a new one"));
    }
    let wanted: Vec<String> = log.steps.iter().map(|step| step.experiment.clone()).collect();
    if wanted.is_empty() {
        return Err(Trouble::new("the run died before it had a plan").hint("start a new run"));
    }
    let selected = plan::select(&wanted)?;
    for (step, experiment) in log.steps.iter().zip(&selected) {
        if step.method_version != experiment.method_version {
            return Err(Trouble::new(format!(
                "{} was measured with method version {}, this build has version {}",
                step.experiment, step.method_version, experiment.method_version
            ))
            .hint("go on with the version of sysdyno that began the run, or start a new one"));
        }
    }
    plan::choose_cpu(Some(log.header.cpu), allowed, machine)?;
    let profile =
        plan::PROFILES.into_iter().find(|profile| profile.name == log.header.profile).unwrap_or(plan::DEFAULT);
    let plan = plan::plan(
        &selected,
        machine,
        &profile,
        time,
        Others::of(log.peer.is_some(), log.remote.as_deref().map_or(0, Remote::ways)),
    )?;
    Ok((plan, profile))
}

fn conclude(options: &RunOptions, outcome: Result<Outcome, Trouble>, directory: &RunDirectory) -> Result<u8, Failure> {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(trouble) => {
            eprintln!("what was measured is in {}", directory.path().display());
            return Err(Failure::while_working(trouble));
        }
    };
    let document = &outcome.document;
    let to_stdout = options.json.as_ref().is_some_and(|file| file.as_os_str() == "-");
    if to_stdout {
        eprint!("{}", terminal::summary(document, None));
        print(&json::render(document)?)?;
    } else {
        print(&terminal::summary(document, terminal_width()))?;
    }
    if let (Some(file), false) = (&options.json, to_stdout) {
        std::fs::write(file, json::render(document)?).map_err(|error| {
            Failure::while_working(
                Trouble::new(format!("cannot write {}: {error}", file.display()))
                    .hint(format!("the same result is in {}", directory.path().join("result.json").display())),
            )
        })?;
    }
    eprintln!("run directory: {}", directory.path().display());
    if outcome.interrupted {
        eprintln!("interrupted; go on with: sysdyno run --resume {}", directory.path().display());
        return Ok(INTERRUPTED);
    }
    Ok(if any_failed(document) { FAILED } else { DONE })
}

fn any_failed(document: &Document) -> bool {
    document.experiments.iter().any(|section| section.outcome == document::Outcome::Failed)
}

/// The counter if it can be used, else the kernel's clock, as asked.
fn choose_source(options: &RunOptions, machine: &Machine, cpu: u32) -> Result<Source, Trouble> {
    match options.clock.source() {
        Some(Source::MonotonicRaw) => Ok(Source::MonotonicRaw),
        Some(Source::Counter) => counter_usable(cpu).map(|()| Source::Counter),
        None => {
            if let Some(why) = machine.counter_doubt() {
                eprintln!("warning: {why}; CLOCK_MONOTONIC_RAW is used instead");
                return Ok(Source::MonotonicRaw);
            }
            Ok(match counter_usable(cpu) {
                Ok(()) => Source::Counter,
                Err(trouble) => {
                    eprintln!("warning: {trouble}");
                    Source::MonotonicRaw
                }
            })
        }
    }
}

/// Whether the counter can be used on a CPU, tried there.
pub(super) fn counter_usable(cpu: u32) -> Result<(), Trouble> {
    pinned(|| clock::counter_usable(cpu))
}

/// Where files go. What was named is looked at before anything is measured; of the current directory, which nobody named, the
/// experiments say what they miss.
fn scratch_directory(options: &RunOptions) -> Result<PathBuf, Trouble> {
    let Some(directory) = &options.scratch else { return Ok(PathBuf::from(".")) };
    let here = directory.display();
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
fn look_at_machine(options: &RunOptions) -> Result<Machine, Trouble> {
    let machine = machine::detect(Path::new("/"), &scratch_directory(options)?);
    if options.scratch_limit.is_some() {
        scratch::room(&machine, options.scratch_limit)?;
    }
    Ok(machine)
}

/// Finding out at the end that the result cannot be written would waste the run.
fn check_writable(file: &Path) -> Result<(), Trouble> {
    let there = file.exists();
    let tried = std::fs::OpenOptions::new().append(true).create(true).open(file);
    if tried.is_ok() && !there {
        // Only a try: the result is written when there is one.
        let _ = std::fs::remove_file(file);
    }
    tried.map(drop).map_err(|error| {
        Trouble::new(format!("cannot write {}: {error}", file.display()))
            .hint("choose another file with --json FILE, or - for standard output")
    })
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
