//! `sysdyno check`: is this node as its healthy siblings are?

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use super::check_options::CheckOptions;
use super::{DONE, FOUND, Failure, INTERRUPTED, WORSE, print, say};
use crate::assemble;
use crate::conduct::directory::RunDirectory;
use crate::conduct::interrupt::Interrupt;
use crate::conduct::live::{self, Condition};
use crate::conduct::prepare;
use crate::conduct::scratch::Temporary;
use crate::experiments::{self, Experiment};
use crate::fleet::check::{
    DifferingFact, LimitState, LimitedResult, accepted_model, check_facts, check_predictions, check_results,
    depends_on_reader, looks_like, other_methods, undecided_axes,
};
use crate::fleet::disturbance::{Disturbance, disturbance};
use crate::machine::Machine;
use crate::plan;
use crate::results::accepted::{Accepted, AcceptedFact, AcceptedModel};
use crate::results::compact::{self, Compact};
use crate::results::log;
use crate::results::problem::Problem;
use crate::results::wording::{count, duration, significant};
use crate::setup::{Profile, Setup};
use crate::sys::create::{self, Access};
use crate::sys::file::{open_at_once, read_open};
use crate::sys::{affinity, process};

/// Letters of the answer: what engines and pagers show of a message.
const LONGEST: usize = 80;
/// Share of the time for the first measurement. The rest is for a second one of what was beyond its limit.
const FIRST: f64 = 0.6;
/// Pause before the second measurement: another moment.
const PAUSE: Duration = Duration::from_secs(1);
/// Most bytes of a file with limits.
const MOST_BYTES: u64 = 64 << 20;
/// Exit codes of a plug-in of Nagios.
const CRITICAL: u8 = 2;

/// What was found of a node.
#[derive(Default)]
struct NodeState {
    facts: Vec<DifferingFact>,
    /// How many facts were compared.
    compared_facts: usize,
    /// A fact of the limits without an accepted value.
    open_fact: Option<String>,
    /// How many results have limits that were to be compared.
    limits: usize,
    /// An experiment whose limits come from another version of its method.
    other_method: Option<String>,
    results: Vec<LimitedResult>,
    /// Phrases of results that were beyond their limit once, and then not.
    once: Vec<String>,
    /// What others did while results were beyond their limits.
    disturbance: Option<Disturbance>,
    /// Why nothing can be decided.
    unknown: Option<String>,
}

/// Results of a measurement, and what others did during that time.
struct Measured {
    results: Vec<LimitedResult>,
    disturbance: Option<Disturbance>,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Accepted,
    Odd,
    Undecided,
}

pub(super) fn check(options: &CheckOptions) -> Result<u8, Failure> {
    if let Some(file) = options.textfile.as_deref().filter(|file| file.symlink_metadata().is_ok_and(|at| !at.is_file()))
    {
        return Err(Problem::new(format!("cannot write {}: the name is not that of a regular file", file.display()))
            .hint("choose another file with --textfile")
            .into());
    }
    let accepted = match options.accepted.as_deref().map(limits).transpose() {
        Ok(accepted) => accepted,
        Err(problem) => return without_limits(options, problem),
    };
    let interrupt = Interrupt::watch()?;
    if let Some(splay) = options.splay {
        wait(Duration::from_secs_f64(splay * fastrand::f64()), &interrupt);
    }
    let began = Instant::now();
    let mut state = NodeState::default();
    let measured = look(options, accepted.as_ref(), &mut state, &interrupt);
    if interrupt.caught().is_some() {
        return Ok(INTERRUPTED);
    }
    if let Err(problem) = measured {
        state.unknown = Some(problem.what);
    }
    let (answer, seconds) = (state.answer(), began.elapsed().as_secs_f64());
    let written = write_state(options, &state, seconds);
    print(&shown(options, &state, answer, seconds)).map_err(unheard)?;
    written.map_err(|problem| if options.nagios { unheard(problem.into()) } else { problem.into() })?;
    Ok(match answer {
        Answer::Accepted => DONE,
        Answer::Odd if options.nagios => CRITICAL,
        Answer::Odd => WORSE,
        Answer::Undecided if options.lenient => DONE,
        Answer::Undecided => FOUND,
    })
}

/// An answer that does not arrive is none. The codes 1, and 2 of a plug-in, would say that the node is bad.
fn unheard(failure: Failure) -> Failure {
    Failure { code: FOUND, ..failure }
}

/// A file without limits is a wrong command. A plug-in of Nagios and a reader of the text file learn that the state is unknown: the
/// exit code 2 of a plug-in would say that the node is bad, and an old file that it is good.
fn without_limits(options: &CheckOptions, problem: Problem) -> Result<u8, Failure> {
    let state = NodeState { unknown: Some(problem.what.clone()), ..NodeState::default() };
    write_state(options, &state, 0.0)?;
    if !options.nagios {
        return Err(problem.into());
    }
    print(&shown(options, &state, state.answer(), 0.0))?;
    say(format_args!("error: {problem}"));
    Ok(FOUND)
}

fn write_state(options: &CheckOptions, state: &NodeState, seconds: f64) -> Result<(), Problem> {
    let Some(file) = &options.textfile else { return Ok(()) };
    create::whole(file, Access::Shared, &open_metrics(state, state.answer(), seconds)).map_err(|error| {
        Problem::new(format!("cannot write {}: {error}", file.display()))
            .hint(create::hint(&error, "choose another file with --textfile"))
    })
}

/// Facts first, then results, then what was beyond its limit a second time. Each stage ends it if it finds something. A result
/// counts only where the interference probes between the rounds show that nothing disturbed the node.
fn look(
    options: &CheckOptions,
    accepted: Option<&Accepted>,
    state: &mut NodeState,
    interrupt: &Interrupt,
) -> Result<(), Problem> {
    let scratch = options.scratch.clone().unwrap_or_else(std::env::temp_dir);
    let machine = prepare::look_at_machine(Some(&scratch))?;
    let model = match accepted {
        None => None,
        Some(accepted) => Some(accepted_model(accepted, &machine.fingerprint).ok_or_else(|| {
            Problem::new(format!("the limits know no machine of this model ({})", machine.fingerprint))
        })?),
    };
    if let Some(model) = model {
        let has_values = |fact: &&AcceptedFact| !fact.values.is_empty();
        state.compared_facts = model.facts.iter().filter(has_values).count();
        state.facts = check_facts(model, &compact::facts(&machine));
        let differing = state.facts.len();
        let is_root = process::effective_user() == 0;
        state.facts.retain(|fact| !depends_on_reader(fact, is_root));
        state.compared_facts = state.compared_facts.saturating_sub(differing - state.facts.len());
        state.limits = if options.facts { 0 } else { model.limits.len() };
        let open = model.facts.iter().find(|fact| fact.values.is_empty());
        state.open_fact = open.map(|fact| fact.fact.clone());
    }
    if !state.facts.is_empty() || options.facts {
        return Ok(());
    }
    let setup = setup(machine);
    let place = Temporary::for_runs()?;
    let measure = |wanted: &[&'static Experiment], seconds: f64, name: &str| -> Result<Option<Measured>, Problem> {
        let chosen = plan::affordable(wanted, &setup, seconds, LAUNCHES);
        if chosen.is_empty() {
            return Ok(Some(Measured { results: Vec::new(), disturbance: None }));
        }
        let scratch_word = scratch.to_string_lossy().into_owned();
        let fixed = ["--time", &format!("{seconds:.1}s"), "--scratch", &scratch_word].map(str::to_owned);
        let words: Vec<String> =
            fixed.into_iter().chain(chosen.iter().map(|experiment| experiment.id.to_owned())).collect();
        let place = place.join(name);
        let ended = live::run_into(&Condition::none(), &words, &place, interrupt)?;
        if ended.is_some() {
            return Ok(None);
        }
        let log = log::read(&RunDirectory::open(&place)?.log())?;
        let results = judged(model, Compact::of(&assemble::document(&log)));
        Ok(Some(Measured { results, disturbance: disturbance(&log.launches, &log.others_cpus) }))
    };
    let wanted = wanted(model);
    if plan::affordable(&wanted, &setup, options.time * FIRST, LAUNCHES).is_empty() {
        return Err(Problem::new(format!("no experiment fits into {}", duration(options.time))));
    }
    let Some(first) = measure(&wanted, options.time * FIRST, "first")? else { return Ok(()) };
    state.results = first.results;
    state.other_method = model.and_then(|model| {
        let others = of_other_methods(model);
        state.results.iter().map(|result| &result.experiment).find(|id| others.contains(id.as_str())).cloned()
    });
    let crossed: BTreeSet<String> = state.beyond().map(|result| result.experiment.clone()).collect();
    if crossed.is_empty() {
        return Ok(());
    }
    wait(PAUSE, interrupt);
    let again: Vec<&'static Experiment> =
        wanted.into_iter().filter(|experiment| crossed.contains(experiment.id) || is_clock(experiment)).collect();
    let left = options.time * (1.0 - FIRST) - PAUSE.as_secs_f64();
    let Some(second) = measure(&again, left.max(0.0), "second")? else { return Ok(()) };
    state.confirm(first.disturbance, &second);
    Ok(())
}

/// The core clock, by which limits in cycles are taken.
fn is_clock(experiment: &Experiment) -> bool {
    experiment.publishes.iter().any(|found| found.metric == "cpu.frequency.core")
}

fn setup(machine: Machine) -> Setup {
    let allowed = affinity::allowed();
    let cpu = plan::choose_cpu(None, &allowed, &machine).unwrap_or_default();
    Setup::of(machine, cpu, allowed, Profile::Quick)
}

/// Experiments of the limits, or all.
fn wanted(model: Option<&AcceptedModel>) -> Vec<&'static Experiment> {
    let has = |experiment: &Experiment, metric: &str| experiment.publishes.iter().any(|found| found.metric == metric);
    let needed = |experiment: &&Experiment| {
        model
            .is_none_or(|model| is_clock(experiment) || model.limits.iter().any(|limit| has(experiment, &limit.metric)))
    };
    experiments::TABLE.iter().copied().filter(needed).collect()
}

/// Launches of each experiment that must fit.
const LAUNCHES: f64 = 3.0;

fn judged(model: Option<&AcceptedModel>, run: Compact) -> Vec<LimitedResult> {
    let experiment = |metric: &str| {
        let has = |found: &&&Experiment| found.publishes.iter().any(|row| row.metric == metric);
        experiments::TABLE.iter().find(has).map(|found| found.id)
    };
    match model {
        Some(model) => {
            let mut results = check_results(model, run, experiment);
            // A limit of another method does not apply to this method.
            let others = of_other_methods(model);
            let of_others = |result: &&mut LimitedResult| others.contains(result.experiment.as_str());
            results.iter_mut().filter(of_others).for_each(|result| result.state = LimitState::Unknown);
            results
        }
        None => check_predictions(&run),
    }
}

fn of_other_methods(model: &AcceptedModel) -> BTreeSet<&str> {
    let version = |id: &str| Some(experiments::TABLE.iter().find(|found| found.id == id)?.method_version);
    other_methods(model, version)
}

impl NodeState {
    fn beyond(&self) -> impl Iterator<Item = &LimitedResult> {
        self.results.iter().filter(|result| result.state == LimitState::Crossed)
    }

    /// A result is beyond its limit if it was twice, while nothing disturbed the node. A result that was once is not, and is named.
    /// A result that is within its limit as soon as nothing disturbs the node any more is within it.
    fn confirm(&mut self, first: Option<Disturbance>, second: &Measured) {
        let NodeState { results, once, disturbance, .. } = self;
        for result in results.iter_mut().filter(|result| result.state == LimitState::Crossed) {
            let again = second.results.iter().find(|other| other.phrase == result.phrase);
            let state = again.map_or(LimitState::Unknown, |again| again.state);
            match (first.or(second.disturbance), state) {
                (None, LimitState::Crossed) => {}
                (None, _) => {
                    result.state = LimitState::Unknown;
                    once.push(result.phrase.clone());
                }
                (Some(_), LimitState::Within) if second.disturbance.is_none() => {
                    if let Some(again) = again {
                        *result = again.clone();
                    }
                }
                (found, _) => {
                    result.state = LimitState::Unknown;
                    *disturbance = found;
                }
            }
        }
    }

    /// Results that were compared with their limits.
    fn compared(&self) -> usize {
        self.results.iter().filter(|result| result.state != LimitState::Unknown).count()
    }

    /// Whether there is nothing to base an answer on: nothing was compared, or no result although results have limits.
    fn has_not_looked(&self) -> bool {
        self.compared() == 0 && (self.limits > 0 || self.compared_facts == 0)
    }

    fn answer(&self) -> Answer {
        let is_open = || {
            self.open_fact.is_some()
                || self.disturbance.is_some()
                || !self.once.is_empty()
                || self.has_not_looked()
                || !undecided_axes(&self.results).is_empty()
        };
        match () {
            () if !self.facts.is_empty() => Answer::Odd,
            // What failed may be the second measurement of a result that was beyond its limit once.
            () if self.unknown.is_some() => Answer::Undecided,
            () if self.beyond().next().is_some() => Answer::Odd,
            () if is_open() => Answer::Undecided,
            () => Answer::Accepted,
        }
    }

    /// The answer in a line that may be too long.
    fn line(&self, answer: Answer, seconds: f64) -> String {
        let compared = self.compared() as u64;
        match answer {
            Answer::Accepted => {
                let results = count(compared, "result", "results");
                let facts = count(self.compared_facts as u64, "fact", "facts");
                let what = match (compared, self.compared_facts) {
                    (0, _) => facts,
                    (_, 0) => format!("{results} near their predictions or better"),
                    _ => format!("{results} and {facts} as accepted"),
                };
                format!("ok, {what}, {}", duration(seconds))
            }
            Answer::Odd => self.oddest().unwrap_or_default(),
            Answer::Undecided => match (&self.unknown, self.disturbance, self.once.first()) {
                (Some(why), ..) => format!("undecided, {why}"),
                (None, Some(disturbance), _) => format!("undecided, {disturbance}"),
                (None, None, Some(once)) => format!("undecided, {once} was beyond its limit once"),
                (None, None, None) if self.open_fact.is_some() => {
                    format!(
                        "undecided, the limits accept no value of {}",
                        self.open_fact.as_deref().unwrap_or_default()
                    )
                }
                (None, None, None) if self.results.is_empty() => "undecided, nothing was compared".to_owned(),
                (None, None, None) if self.other_method.is_some() => {
                    let experiment = self.other_method.as_deref().unwrap_or_default();
                    format!("undecided, the limits are of another method of {experiment}")
                }
                (None, None, None) => {
                    let unknown = self.results.len() as u64 - compared;
                    format!("undecided, {unknown} of {} results missing or contaminated", self.results.len())
                }
            },
        }
    }

    fn oddest(&self) -> Option<String> {
        if let Some(first) = self.facts.first() {
            let more =
                if self.facts.len() > 1 { format!(" (and {} more)", self.facts.len() - 1) } else { String::new() };
            return Some(format!("{} is {}, not {}{more}", first.fact, first.value, first.accepted.join(" or ")));
        }
        let worst = self
            .beyond()
            .max_by(|one, other| one.ratio.unwrap_or_default().total_cmp(&other.ratio.unwrap_or_default()))?;
        let like = looks_like(&self.results).map_or_else(String::new, |like| format!(", {like}?"));
        Some(format!("{}{like}", against(worst)))
    }
}

/// A result and its limit.
fn against(result: &LimitedResult) -> String {
    let shown = |value: f64| significant(value, result.unit, 3);
    let value = result.value.map_or_else(|| "missing".to_owned(), shown);
    format!("{} {value}, limit {}", result.phrase, shown(result.limit))
}

/// The line, and with `--all` what is behind it.
fn shown(options: &CheckOptions, state: &NodeState, answer: Answer, seconds: f64) -> String {
    let line = state.line(answer, seconds);
    let mut text = if options.nagios {
        let word = match answer {
            Answer::Accepted => "OK",
            Answer::Odd => "CRITICAL",
            Answer::Undecided => "UNKNOWN",
        };
        let unknown = state.results.iter().filter(|result| result.state == LimitState::Unknown).count();
        let data = format!(
            "results={} beyond={} unknown={unknown} facts={} time={seconds:.1}s",
            state.results.len(),
            state.beyond().count(),
            state.facts.len()
        );
        // A bar begins the performance data.
        format!("{} | {data}\n", cut(&format!("SYSDYNO {word} - {}", line.replace('|', "/"))))
    } else {
        cut(&format!("sysdyno: {line}")) + "\n"
    };
    if options.all {
        for fact in &state.facts {
            text += &format!("fact    {} is {}, not {}\n", fact.fact, fact.value, fact.accepted.join(" or "));
        }
        for result in state.results.iter().filter(|result| result.state != LimitState::Within) {
            let word = if result.state == LimitState::Crossed { "beyond " } else { "unknown" };
            text += &format!("{word} {}\n", against(result));
        }
    }
    text
}

/// The first letters of a line.
fn cut(line: &str) -> String {
    let line: String = line.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if line.chars().count() <= LONGEST {
        return line;
    }
    line.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// The state for Prometheus (OpenMetrics 1.0).
fn open_metrics(state: &NodeState, answer: Answer, seconds: f64) -> String {
    let status = match answer {
        Answer::Accepted => 0,
        Answer::Odd => 1,
        Answer::Undecided => 3,
    };
    let mut text = String::new();
    let mut gauge = |name: &str, help: &str, lines: Vec<String>| {
        text += &format!("# TYPE {name} gauge\n# HELP {name} {help}\n");
        for line in lines {
            text += &format!("{name}{line}\n");
        }
    };
    gauge("sysdyno_check_status", "0 as accepted, 1 not accepted, 3 undecided.", vec![format!(" {status}")]);
    gauge("sysdyno_check_time_seconds", "Duration of the check.", vec![format!(" {seconds:.3}")]);
    gauge("sysdyno_check_differing_facts", "Facts that are not accepted.", vec![format!(" {}", state.facts.len())]);
    let axes: BTreeSet<&str> = state.results.iter().filter_map(|result| Some(result.axis?.name())).collect();
    let ratio = |axis: &str| {
        let of_axis = state.results.iter().filter(|result| result.axis.is_some_and(|found| found.name() == axis));
        of_axis.filter_map(|result| result.ratio).reduce(f64::max)
    };
    let lines = axes.into_iter().filter_map(|axis| Some(format!("{{axis=\"{axis}\"}} {:.4}", ratio(axis)?)));
    gauge(
        "sysdyno_axis_ratio",
        "Worst result of an axis over the median of healthy nodes, above 1 is worse.",
        lines.collect(),
    );
    text + "# EOF\n"
}

/// The limits in a file.
fn limits(file: &Path) -> Result<Accepted, Problem> {
    let cannot = |why: String| {
        Problem::new(format!("cannot read the limits in {}: {why}", file.display()))
            .hint("write them with `sysdyno fleet DIR --accepted FILE`")
    };
    let bytes = open_at_once(file).and_then(|opened| read_open(opened, MOST_BYTES));
    Accepted::parse(&bytes.map_err(|error| cannot(error.to_string()))?).map_err(cannot)
}

/// Sleeps, unless a signal comes.
fn wait(time: Duration, interrupt: &Interrupt) {
    let end = Instant::now() + time;
    while interrupt.caught().is_none() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::disturbance::scripted::probe;
    use crate::results::quantity::Unit;

    fn result(state: LimitState) -> LimitedResult {
        LimitedResult {
            axis: None,
            experiment: "an experiment".to_owned(),
            phrase: "a load".to_owned(),
            unit: Unit::Nanoseconds,
            value: Some(200.0),
            limit: 100.0,
            ratio: Some(2.0),
            state,
        }
    }

    /// The answer to two measurements of a result, by the share of the CPU that the probes lost in each.
    fn answer(lost: [f64; 2], second: LimitState) -> (Answer, String) {
        let [first, later] = lost.map(|lost| disturbance(&[probe(lost, 700.0), probe(lost, 700.0)], &[]));
        let mut state = NodeState { results: vec![result(LimitState::Crossed)], ..NodeState::default() };
        state.confirm(first, &Measured { results: vec![result(second)], disturbance: later });
        let answer = state.answer();
        (answer, state.line(answer, 9.0))
    }

    #[test]
    fn a_disturbed_result_is_never_odd() {
        use LimitState::{Crossed, Unknown, Within};
        let (found, line) = answer([0.0, 0.0], Crossed);
        assert_eq!((found, line.as_str()), (Answer::Odd, "a load 200 ns, limit 100 ns"));
        let taken = "undecided, other tasks took 48 % of the CPU";
        for lost in [[0.48, 0.0], [0.0, 0.48], [0.48, 0.48]] {
            for second in [Crossed, Unknown] {
                let (found, line) = answer(lost, second);
                assert_eq!((found, line.as_str()), (Answer::Undecided, taken), "{lost:?} {second:?}");
            }
        }
        assert_eq!(answer([0.0, 0.0], Within).1, "undecided, a load was beyond its limit once");
        assert_eq!(answer([0.48, 0.0], Within).0, Answer::Accepted, "it is within its limit on a quiet node");
        assert_eq!(answer([0.0, 0.48], Within).1, taken);
    }

    #[test]
    fn an_answer_without_a_look_is_undecided() {
        let within = || vec![result(LimitState::Within)];
        let fact = || Some("Kernel: release".to_owned());
        let crossed = || vec![result(LimitState::Crossed)];
        for (state, expected, line) in [
            (NodeState::default(), Answer::Undecided, "undecided, nothing was compared"),
            (NodeState { limits: 171, ..NodeState::default() }, Answer::Undecided, "undecided, nothing was compared"),
            (
                NodeState { limits: 171, compared_facts: 7, ..NodeState::default() },
                Answer::Undecided,
                "undecided, nothing was compared",
            ),
            (NodeState { compared_facts: 7, ..NodeState::default() }, Answer::Accepted, "ok, 7 facts, 9.0 s"),
            (
                NodeState { limits: 1, results: within(), ..NodeState::default() },
                Answer::Accepted,
                "ok, 1 result near their predictions or better, 9.0 s",
            ),
            (
                NodeState { limits: 1, results: within(), open_fact: fact(), ..NodeState::default() },
                Answer::Undecided,
                "undecided, the limits accept no value of Kernel: release",
            ),
            (
                NodeState { results: crossed(), unknown: Some("no space".to_owned()), ..NodeState::default() },
                Answer::Undecided,
                "undecided, no space",
            ),
        ] {
            let answer = state.answer();
            assert_eq!((answer, state.line(answer, 9.0).as_str()), (expected, line));
            let status = if expected == Answer::Accepted { 0 } else { 3 };
            let text = open_metrics(&state, answer, 9.0);
            assert!(text.contains(&format!("sysdyno_check_status {status}\n")), "{text}");
        }
    }

    #[test]
    fn reasons_fit_into_the_line() {
        let kinds = [
            Disturbance::Tasks,
            Disturbance::Hypervisor,
            Disturbance::Neighbour,
            Disturbance::Memory,
            Disturbance::Programs,
        ];
        for kind in kinds {
            let state = NodeState { disturbance: Some(kind(2.1234)), ..NodeState::default() };
            let line = format!("SYSDYNO UNKNOWN - {}", state.line(state.answer(), 18.0));
            assert_eq!(cut(&line), line);
        }
    }
}
