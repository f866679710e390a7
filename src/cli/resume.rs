//! `sysdyno run --resume`: go on with a run that was interrupted, on the machine that began it.

use std::path::Path;

use super::arguments::RunOptions;
use super::json_target::Target;
use super::run::{NOISE_SPAN, conclude, look_at_machine, tell, warn, warn_of_full_cache};
use super::{DONE, Failure, doctor, elsewhere, peering};
use crate::conduct::directory::RunDirectory;
use crate::conduct::interrupt::Interrupt;
use crate::conduct::progress::Progress;
use crate::conduct::{self, Outcome, Setting};
use crate::machine::{Identity, Machine, Relation};
use crate::plan::{self, Others, Plan, Profile};
use crate::results::log::{Log, LogWriter, Refused};
use crate::results::remote::Remote;
use crate::results::trouble::Trouble;
use crate::results::wording::count;
use crate::rig::order::CANARY;
use crate::sys::clock::Source;
use crate::sys::{affinity, talk};

/// Goes on with a run.
pub(super) fn resume(
    options: &RunOptions,
    run: &Path,
    command: &[String],
    target: Option<Target>,
) -> Result<u8, Failure> {
    let run_directory = RunDirectory::open(run)?;
    let writer = match LogWriter::reopen(&run_directory.log()) {
        Err(Refused::Taken(trouble)) => return Err(trouble.into()),
        found => found,
    };
    let log = crate::results::log::read(&run_directory.log())?;
    let machine = look_at_machine(options)?;
    let allowed = affinity::allowed();
    if !is_complete(&log) {
        same_machine(&log, &machine)?;
    }
    let (plan, profile) = plan_of(&log, &machine, &allowed, options.time)?;
    if is_complete(&log) {
        return complete(&log, &run_directory, target);
    }
    let met = peering::meet_again(&options.peer, log.peer.as_deref())?;
    let remote = elsewhere::find_again(&options.remote, log.remote.as_deref())?;
    let writer = writer.map_err(Trouble::from)?;
    let interrupt = Interrupt::watch()?;
    let source = log.clock.as_ref().and_then(|clock| Source::named(&clock.source)).unwrap_or(Source::Counter);
    if source == Source::Counter {
        doctor::counter_usable(log.header.cpu)?;
    }
    talk::line(format_args!(
        "resuming {}: {} and {} are there{}",
        log.header.id,
        count(u64::from(log.rounds), "round", "rounds"),
        count(log.launches.iter().filter(|launch| launch.experiment != CANARY).count() as u64, "launch", "launches"),
        log.damage.as_ref().map_or_else(String::new, |damage| format!("; {damage}, that line is cut off"))
    ));
    let quiet = doctor::checks(&machine, log.header.cpu, NOISE_SPAN);
    warn(&quiet, options.scratch.is_some());
    warn_of_full_cache(options, &machine, &plan);
    let peer = met.as_ref().map(peering::Met::told);
    let (header, scratch_limit, full_cache) = (log.header, options.scratch_limit, options.full_cache());
    let setting =
        Setting { header, profile, machine, quiet, plan, allowed, peer, remote, source, scratch_limit, full_cache };
    let progress = Progress::new(!options.no_progress);
    let outcome =
        conduct::resume(&setting, &run_directory, writer, &progress, &interrupt, &peering::without_secret(command));
    conclude(outcome, &run_directory, target)
}

fn is_complete(log: &Log) -> bool {
    log.finish.as_ref().is_some_and(|(_, complete, _)| *complete)
}

/// A run that is complete needs no measuring. Results that could not be written when it ended are written now.
fn complete(log: &Log, directory: &RunDirectory, target: Option<Target>) -> Result<u8, Failure> {
    let document = crate::assemble::document_of(&directory.log())?;
    if directory.has_results(&document) {
        talk::line(format_args!("{} is complete: there is nothing to go on with", log.header.id));
        tell(&document, target, directory)?;
        return Ok(DONE);
    }
    talk::line(format_args!(
        "{} is complete, but not all of its results are there: they are written now",
        log.header.id
    ));
    directory.write_result(&document).map_err(Failure::while_working)?;
    conclude(Ok(Outcome { document, interrupted: false }), directory, target)
}

/// Refuses a log that another machine of the same model began, or this one with another kernel.
fn same_machine(log: &Log, machine: &Machine) -> Result<(), Trouble> {
    let another = "figures of two machines do not belong into one run: start a new one";
    let Some(begun) = &log.header.identity else { return Ok(()) };
    let here = Identity::read(Path::new("/"));
    let relation = begun.relation_to(&here);
    if relation == Relation::Other {
        return Err(Trouble::new(format!(
            "this run was begun on another machine of the same model: on {}, this one is {}",
            begun.node,
            if begun.node == here.node { "another of that name" } else { &here.node }
        ))
        .hint(another));
    }
    let release = |machine: &Machine| machine.kernel.release.as_ref().map(|fact| fact.value.clone());
    if let (Some(then), Some(now)) = (release(&log.machine), release(machine))
        && then != now
    {
        return Err(Trouble::new(format!("this run was begun with the kernel {then}, this one is {now}"))
            .hint("figures of two kernels do not belong into one run: start a new one"));
    }
    if relation == Relation::Restarted {
        talk::line(
            "warning: this machine was restarted since the run began; figures may differ from one boot to the next",
        );
    }
    Ok(())
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
