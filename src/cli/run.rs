//! `sysdyno run`: measure, summarise, keep.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::answer::Answer;
use super::arguments::{FailOn, KeptChoice, PathChoice, RunOptions};
use super::json_target::Target;
use super::{
    DONE, FAILED, FOUND, Failure, INTERRUPTED, doctor, footing, peer_options, print, quiet_wait, quietest,
    remote_options, say, terminal_width,
};
use crate::conduct::before::Before;
use crate::conduct::directory::{self, RunDirectory};
use crate::conduct::fleet_place::FleetRequest;
use crate::conduct::history::{self, Store};
use crate::conduct::interrupt::Interrupt;
use crate::conduct::live::FOLLOWED;
use crate::conduct::other_machines::{self, Connected};
use crate::conduct::progress::Progress;
use crate::conduct::{self, Recording, RunOutcome, prepare, scratch};
use crate::experiments::Experiment;
use crate::experiments::gpu;
use crate::experiments::own_predictions::OwnFile;
use crate::machine::Identity;
use crate::machine::engine::Engine;
use crate::machine::quiet::Check;
use crate::plan::{self, Plan};
use crate::report::content::run_screen;
use crate::report::screen::plain;
use crate::report::{compact, json, terminal};
use crate::results::document::{self, Document, Grade, Metric};
use crate::results::log::{FORMAT, Header};
use crate::results::own_prediction::OwnPredictions;
use crate::results::problem::Problem;
use crate::results::quantity::Unit;
use crate::results::wording::{count, duration, launches, quantity};
use crate::setup::Setup;
use crate::sys::{affinity, process, talk};

/// Length of the noise probe that belongs to the record of a run.
const NOISE_SPAN: Duration = Duration::from_millis(50);

pub(super) fn run(options: &RunOptions, command: &[String]) -> Result<u8, Failure> {
    footing::has_proc()?;
    if std::env::var_os(FOLLOWED).is_some() {
        process::end_with_parent();
    }
    let own = options.predictions.as_deref().map(OwnFile::read).transpose()?;
    let target = options.json.first().map(|place| Target::of(place)).transpose()?;
    let identity = Identity::read(Path::new("/"));
    let before = earlier_part(options, &identity)?;
    let options = &as_begun(options, before.as_ref());
    let (mut setup, selected, of_the_cpu) = describe_run(options, before.as_ref())?;
    let plan = plan::plan(&selected, &setup, options.time)?;
    if options.dry_run {
        let own = own.map(|own| own.of_machine(&setup)).transpose()?;
        print(&(foresee(options, &setup, &plan)? + &own.map_or_else(String::new, |own| foresee_own(&own, &plan))))?;
        return Ok(DONE);
    }
    if let Some(before) = before.as_ref().filter(|before| before.is_complete()) {
        return complete(before, target, options);
    }
    let asked = before.as_ref().map_or(options.clock.source(), |before| Some(before.source()));
    let source = prepare::clock_source(asked, &setup)?;
    // A peer that was brought along ends with this value.
    let _peer = find_others(options, before.as_ref(), &mut setup)?;
    let own_predictions = own.map(|own| own.of_machine(&setup)).transpose()?;
    let quiet = doctor::checks(&setup.machine, setup.cpu, NOISE_SPAN);
    // Before the log has its first line: from then on a signal ends it politely.
    let interrupt = Interrupt::watch()?;
    let command = peer_options::without_secret(command);
    let begins = before.is_none();
    let mut recording = if let Some(before) = before {
        if own_predictions.is_some() {
            talk::line("note: this run goes on with the predictions that it began with, and --predictions is not used");
        }
        before.reopen(command)?
    } else {
        let header = header(&setup, command, &identity, options);
        Recording { own_predictions, ..start(place(options, &selected, &identity)?.as_deref(), header)? }
    };
    recording.directory = kept(recording.directory, options);
    let store = if options.no_history { None } else { earlier_runs(begins, &setup, &plan, &identity, &mut recording) };
    for words in of_the_cpu {
        talk::line(words);
    }
    for warning in &plan.warnings {
        say(format_args!("warning: {warning}"));
    }
    // On the nodes of an engine the current directory is often on a file server that all of them share.
    warn(&quiet, options.scratch.is_some() || Engine::here().is_some());
    warn_of_full_cache(&setup, &plan);
    warn_of_own_peer(&setup);
    let progress = Progress::new(!options.no_progress, terminal_width(), !options.screen.hide_analysis);
    let directory = recording.directory.clone();
    let outcome = conduct::run(&setup, &plan, &quiet, source, recording, &progress, &interrupt);
    if let (Some(store), Ok(outcome)) = (&store, &outcome) {
        keep(store, outcome);
    }
    conclude(outcome, &directory, target, options)
}

/// What was asked for, and what a run that goes on was begun with.
fn as_begun(options: &RunOptions, before: Option<&Before>) -> RunOptions {
    let mut options = options.clone();
    options.screen.hide_analysis |= before.is_some_and(Before::hides_analysis);
    options
}

/// The beginning of this run, where it goes on: the run that was named, or the unfinished one of this node in a fleet.
fn earlier_part(options: &RunOptions, identity: &Identity) -> Result<Option<Before>, Problem> {
    if let Some(fleet) = options.into.as_deref().filter(|_| !options.dry_run) {
        let selected = plan::select_for_run(&options.selection, options.profile())?;
        return FleetRequest { fleet, profile: options.profile(), selected: &selected }.unfinished(identity);
    }
    options.resume.as_deref().map(Before::open).transpose()
}

/// The directory for a run that begins, where one was named.
fn place(
    options: &RunOptions,
    selected: &[&'static Experiment],
    identity: &Identity,
) -> Result<Option<PathBuf>, Problem> {
    match &options.into {
        None => Ok(options.output.clone()),
        Some(fleet) => FleetRequest { fleet, profile: options.profile(), selected }.place(identity).map(Some),
    }
}

/// A setup, the experiments of a run, and what its user should know of the CPU.
type Described = (Setup, Vec<&'static Experiment>, Vec<String>);

/// What is known of a run before any other machine is asked, and its experiments. A run that is resumed keeps what it was begun
/// with.
fn describe_run(options: &RunOptions, before: Option<&Before>) -> Result<Described, Failure> {
    let machine = prepare::look_at_machine(options.scratch.as_deref())?;
    footing::has_room(&machine)?;
    let room = scratch::room(&machine, options.scratch_limit);
    if options.scratch_limit.is_some() {
        room.clone()?;
    }
    let selected = match before {
        Some(before) => before.experiments(&machine)?,
        None => plan::select_for_run(&options.selection, options.profile())?,
    };
    let allowed = affinity::allowed();
    let cpu = before.map_or(options.cpu, |before| Some(before.log.header.cpu));
    let (cpu, words) = if options.dry_run {
        (plan::choose_cpu(cpu, &allowed, &machine)?, Vec::new())
    } else {
        if let Some(limit) = options.wait_for_quiet {
            quiet_wait::wait(limit, plan::choose_cpu(cpu, &allowed, &machine)?);
        }
        quietest::choose(cpu, &allowed, &machine)?
    };
    let has_peer = options.peer.peer.is_some();
    let equal_cpus = if options.cpu.is_some() { Vec::new() } else { machine.equal_cpus(cpu, &allowed) };
    let begun = match before {
        Some(before) => Setup { machine, allowed, ..Setup::logged(&before.log) },
        None => Setup {
            seed: options.seed.unwrap_or_else(|| fastrand::u64(..1 << 32)),
            has_peer,
            remote_only: options.peer.path == PathChoice::Remote,
            remote_ways: options.remote.ways() + u32::from(has_peer),
            equal_cpus,
            ..Setup::of(machine, cpu, allowed, options.profile())
        },
    };
    let mut setup = Setup { room, full_cache: options.full_cache(), ..begun };
    gpu::describe(&mut setup, &selected);
    Ok((setup, selected, words))
}

/// Finds the other machines that were named. For a run that is resumed they have to be those that it was begun with.
fn find_others(options: &RunOptions, before: Option<&Before>, setup: &mut Setup) -> Result<Option<Connected>, Failure> {
    let target = peer_options::target(&options.peer)?;
    if let Some(before) = before {
        before.peer_is_named(target.is_some())?;
    }
    let peer = target.as_ref().map(other_machines::connect).transpose().map_err(Failure::while_working)?;
    setup.peer = peer.as_ref().map(|peer| peer.facts.clone());
    setup.access = peer.as_ref().map(|peer| peer.access.clone());
    if let (Some(before), Some(peer)) = (before, &setup.peer) {
        before.same_peer(peer)?;
    }
    setup.remote = remote_options::find(&options.remote)?;
    if let Some(before) = before {
        before.same_remote(setup.remote.as_ref())?;
    }
    Ok(peer)
}

/// The first line of a log, for a run that begins now.
fn header(setup: &Setup, command: Vec<String>, identity: &Identity, options: &RunOptions) -> Header {
    Header {
        log: FORMAT.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        id: directory::identifier(&identity.node),
        started: directory::now(),
        command,
        seed: setup.seed,
        profile: setup.profile.name().to_owned(),
        cpu: setup.cpu,
        equal_cpus: setup.equal_cpus.clone(),
        build: build(),
        identity: Some(identity.clone()),
        binary: Identity::of_binary(),
        engine: Engine::here(),
        labels: options.labels.iter().cloned().collect(),
        remote_only: setup.remote_only,
    }
}

/// The run directory with the beginning of its log: where it was named, or one that is named after the run.
fn start(output: Option<&Path>, header: Header) -> Result<Recording, Problem> {
    let (directory, writer) = match output {
        Some(path) => RunDirectory::create(path, &header)?,
        None => RunDirectory::create_in(Path::new(directory::RUNS), header)?,
    };
    Ok(Recording { directory, writer, resumed: None, history: None, own_predictions: None })
}

/// The directory with what was asked of its files.
fn kept(directory: RunDirectory, options: &RunOptions) -> RunDirectory {
    directory.keeping(options.keep.map(KeptChoice::kept)).with(options.screen.analysis())
}

/// The place for runs of this machine, where it can be used. What the runs there say goes into the record of a run that begins.
fn earlier_runs(
    begins: bool,
    setup: &Setup,
    plan: &Plan,
    identity: &Identity,
    recording: &mut Recording,
) -> Option<Store> {
    let store = Store::of(identity)?;
    let found = match store.read() {
        Ok(found) => found,
        Err(error) => {
            say(format_args!("warning: the history {} is not used: {error}", store.place().display()));
            return None;
        }
    };
    if let Some(what) = found.left_aside {
        say(format_args!("warning: in the history {}: {what}", store.place().display()));
    }
    recording.history = begins.then(|| history::look_back(found.runs, setup, plan, identity));
    Some(store)
}

/// Adds a run to the history, if it is whole and has figures.
fn keep(store: &Store, outcome: &RunOutcome) {
    let document = &outcome.document;
    if !outcome.interrupted
        && document.run.complete
        && document.metrics().next().is_some()
        && let Err(why) = store.keep(document)
    {
        say(format_args!("warning: this run is not added to the history {}: {why}", store.place().display()));
    }
}

/// A run that is complete needs no measuring. Results that could not be written when it ended are written now.
fn complete(before: &Before, target: Option<Target>, options: &RunOptions) -> Result<u8, Failure> {
    let (directory, id) = (&kept(before.directory.clone(), options), &before.log.header.id);
    let document = crate::assemble::document_of(&directory.log())?;
    if directory.has_results(&document) {
        talk::line(format_args!("{id} is complete, so no launch is left to do"));
        tell(&document, target, directory, options)?;
        return Ok(verdict(&document, options));
    }
    talk::line(format_args!("{id} is complete, but some of its result files are missing. Writing them now"));
    directory.write_result(&document).map_err(Failure::while_working)?;
    conclude(Ok(RunOutcome { document, interrupted: false }), directory, target, options)
}

/// Says at once what a user can choose otherwise: a quota, a mask of CPUs, a place for scratch files other than a disk. All
/// checks are in the log, and `doctor` prints them.
fn warn(quiet: &[Check], scratch_chosen: bool) {
    let told = |check: &&Check| {
        !check.ok
            && check.known
            && (["quota", "affinity"].contains(&check.check.as_str()) || scratch_chosen && check.check == "scratch")
    };
    for check in quiet.iter().filter(told) {
        say(format_args!("warning: {}", check.detail));
        say(format_args!("hint: {}", check.remedy.as_deref().unwrap_or("`sysdyno doctor` shows its effect")));
    }
}

/// Says what filling the whole file cache does to the machine.
fn warn_of_full_cache(setup: &Setup, plan: &Plan) {
    if setup.full_cache.is_some() {
        say(
            "warning: --full-cache fills the memory of this machine with file data and evicts what other programs have \
             cached",
        );
        say("hint: these programs then read it again from the disk. Without --full-cache their cached data stays");
    }
    for line in foresee_filling(setup, plan) {
        talk::line(line);
    }
}

/// How long filling the whole file cache may take, and whether the time of the run suffices for it.
fn foresee_filling(setup: &Setup, plan: &Plan) -> Vec<String> {
    let needs = setup.full_cache.and_then(|with| with.needs(&setup.machine));
    let Some((seconds, bytes)) = needs else { return Vec::new() };
    let (bytes, allowed) = (quantity(bytes as f64, Unit::Bytes), plan.limit_seconds - plan.first_round_seconds);
    let late = if setup.machine.is_guest() { ", because the host provides memory late" } else { "" };
    let text = format!("filling up to {bytes} needs up to about {}{late}", duration(seconds));
    if seconds <= allowed {
        return vec![format!("note: {text}")];
    }
    let left = duration(allowed.max(0.0));
    let enough = (plan.first_round_seconds + seconds).ceil();
    vec![
        format!("warning: {text}, and the time limit leaves {left}. If that is too short, the result is 'at least'"),
        format!("hint: allow --time {enough}s"),
    ]
}

/// Says that a path to a peer is none.
fn warn_of_own_peer(setup: &Setup) {
    let Some(peer) = setup.peer.as_ref().filter(|peer| peer.is_here()) else { return };
    say(format_args!(
        "warning: the peer at {} is on this machine, so results called remote cross no network",
        peer.address
    ));
    say("hint: start it on another machine, with --listen and an address that this machine can reach");
}

fn conclude(
    outcome: Result<RunOutcome, Problem>,
    directory: &RunDirectory,
    target: Option<Target>,
    options: &RunOptions,
) -> Result<u8, Failure> {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(problem) => {
            talk::line(format_args!("the log keeps what was measured: {}", directory.path().display()));
            return Err(Failure::while_working(problem));
        }
    };
    let document = &outcome.document;
    tell(document, target, directory, options)?;
    if options.into.is_none() {
        let report = if directory.has_report() { " (report.html)" } else { "" };
        talk::line(format_args!("run directory: {}{report}", directory.path().display()));
    }
    if outcome.interrupted {
        let again = match &options.into {
            Some(_) => "the same command on this node".to_owned(),
            None => format!("sysdyno run --resume {}", directory.path().display()),
        };
        talk::line(format_args!("interrupted. Resume with: {again}"));
        return Ok(INTERRUPTED);
    }
    Ok(verdict(document, options))
}

/// How a run that ended by itself went.
fn verdict(document: &Document, options: &RunOptions) -> u8 {
    let is = |metric: &Metric, state: &FailOn| match state {
        FailOn::Contaminated => metric.grade.has_foreign_part(),
        FailOn::Unresolved => metric.grade == Grade::Unresolved,
        FailOn::Outside => metric.is_outside(),
    };
    let headlines = document.metrics().filter(|metric| metric.headline);
    let found = headlines.filter(|metric| options.fail_on.iter().any(|state| is(metric, state))).count();
    if any_failed(document) {
        return FAILED;
    }
    if !options.fail_on.is_empty() && document.metrics().all(|metric| !metric.headline) {
        say("error: the run has no headline result, so --fail-on has nothing to judge");
        say("hint: the screen names the reason of each missing result");
        return FOUND;
    }
    if found > 0 {
        let figures = count(found as u64, "headline result is", "headline results are");
        say(format_args!("error: {figures} in a state that --fail-on names"));
        say("hint: list them with --all. Measure again at a quieter time, or with more --time");
        return FOUND;
    }
    DONE
}

/// The screen, and the result as JSON where that was asked for.
fn tell(
    document: &Document,
    target: Option<Target>,
    directory: &RunDirectory,
    options: &RunOptions,
) -> Result<(), Failure> {
    let rendered = || if options.json_node { compact::render(document) } else { json::render(document) };
    if options.into.is_some() && target.is_none() {
        return print(&format!("{}\n", run_screen::in_one_line(document, directory.path())));
    }
    let options = &options.screen;
    let lines = |width| run_screen::screen(document, width, None, options.analysis());
    if matches!(target, Some(Target::Stdout)) {
        let summary = if options.all { terminal::summary(document, None) } else { plain(&lines(None)) };
        talk::text(summary);
        return print(&rendered()?);
    }
    if options.all {
        print(&terminal::summary(document, terminal_width()))?;
    } else {
        Answer::Screen(lines(terminal_width()), options.color).show(None)?;
    }
    let Some(mut target) = target else { return Ok(()) };
    target.write(&rendered()?).map_err(|problem| {
        let again = format!("`sysdyno report {} --format json` prints the same result", directory.path().display());
        Failure::while_working(problem.hint(again))
    })
}

fn any_failed(document: &Document) -> bool {
    document.experiments.iter().any(|section| section.outcome == document::Outcome::Failed)
}

/// What a dry run says: the plan, and what was named.
fn foresee(options: &RunOptions, setup: &Setup, plan: &Plan) -> Result<String, Failure> {
    let mut text = describe(plan, setup);
    if let Some(limit) = options.wait_for_quiet {
        text += &format!("Before that, it waits at most {} for a quiet machine.\n", duration(limit));
    }
    for line in foresee_filling(setup, plan) {
        text += &(line + "\n");
    }
    text += &remote_options::foresee(&options.remote)?;
    if let Some(target) = peer_options::target(&options.peer)? {
        text += &peer_options::foresee(&target).map_err(Failure::while_working)?;
    }
    Ok(text)
}

/// What a dry run says of predictions that it has read.
fn foresee_own(own: &OwnPredictions, plan: &Plan) -> String {
    let is_measured = |metric: &str| plan.running.iter().any(|experiment| experiment.publication(metric).is_some());
    let others = own.predictions.iter().filter(|own| !is_measured(&own.metric)).count();
    let all = count(own.predictions.len() as u64, "prediction", "predictions");
    format!("{all} in the file of --predictions, {others} not measured by this run\n")
}

/// The plan in words, for `--dry-run`.
fn describe(plan: &Plan, setup: &Setup) -> String {
    let mut text = String::new();
    for step in &plan.steps {
        text += &match &step.skipped {
            None => format!("{:<24} {} or more\n", step.experiment, launches(step.launches as usize)),
            Some(problem) => format!("{:<24} skipped: {}\n", step.experiment, problem.what),
        };
    }
    text += &format!(
        "\n{} profile on CPU {}, each launch with {} batches of every workload. About {} or more, at most {}. Up to {} of \
         memory.\n",
        setup.profile.name(),
        setup.cpu,
        setup.profile.batches(),
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
