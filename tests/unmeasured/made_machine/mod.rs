//! A made machine: a description of true costs, and the log of a run on a machine that has them.
//!
//! The description is `tests/made/machine.jsonl`, a log with one launch of each experiment and one value for each series. It comes from
//! logs of real runs: `SYSDYNO_WRITE_MADE="LOG…" cargo test --test unmeasured made_machine`.

mod breakers;
mod calibration;
mod described;
mod host;
mod own_predictions;
mod proofs;
mod suites;
mod truths;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use sysdyno::testing::results::evidence::Evidence;
use sysdyno::testing::results::log::{self, Launch, Log};
use sysdyno::testing::results::quantity::{Labels, Unit};
use sysdyno::testing::results::series::{Class, Classes, Series};
use sysdyno::testing::statistics::summary::median;

/// Launches of each experiment.
const LAUNCHES: u32 = 12;
/// Batches of a series, and single shots.
const BATCHES: usize = 13;
const SHOTS: usize = 101;
/// Values of a series lie evenly between the true one less and plus this share.
const SPREAD: f64 = 0.01;
/// Nanoseconds of a cache line to the other CPU.
const LINE: f64 = 30.0;
/// Parts per million by which each launch finds another clock than the run.
const DEVIATION: f64 = 0.1;

fn place() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/made/machine.jsonl")
}

/// The description.
pub fn description() -> &'static Log {
    static READ: OnceLock<Log> = OnceLock::new();
    READ.get_or_init(|| log::read(&place()).unwrap())
}

/// Ticks of the clock in a core cycle.
fn ticks_per_cycle(log: &Log) -> f64 {
    let found = log.launches.iter().filter_map(|launch| launch.evidence.as_ref()?.ticks_per_cycle_after);
    median(&found.collect::<Vec<f64>>()).unwrap()
}

/// Whether a series is a list of times of single operations, of which quantiles are published.
fn is_of_shots(experiment: &str, series: &Series) -> bool {
    match experiment {
        "network.round_trip" => series.name == "exchange",
        "network.connection" => series.name == "connection",
        "os.sleep" => series.name == "sleep",
        "file.write" => series.name == "write",
        "file.read" | "file.remote_read" => ["read", "pass", "depth"].contains(&series.name.as_str()),
        "file.contention" => series.name == "times",
        "cpu.sharing" => series.name == "stretch",
        _ => false,
    }
}

/// A permutation of the numbers below `count` without a trend.
fn mixed(count: usize) -> impl Iterator<Item = usize> {
    let step = if count == SHOTS { 38 } else { 4 };
    (0..count).map(move |index| index * step % count)
}

/// The series of a launch: the described value, spread evenly over batches or shots.
fn spread(experiment: &str, described: &Series, clock: f64) -> Series {
    let is_batches = !described.classes.0.is_empty();
    let count = match (is_of_shots(experiment, described), is_batches) {
        (true, _) => SHOTS,
        (false, true) => BATCHES,
        _ => return described.clone(),
    };
    let at = |index: usize| 1.0 + SPREAD * (2.0 * index as f64 / (count - 1) as f64 - 1.0);
    let again = |pairs: &Vec<[f64; 2]>| pairs.first().map_or_else(Vec::new, |pair| vec![*pair; count]);
    Series {
        values: mixed(count).map(|index| described.values[0] * at(index)).collect(),
        clock: if described.clock.is_empty() { Vec::new() } else { vec![clock; count] },
        widths: again(&described.widths),
        lines: again(&described.lines),
        partner_widths: again(&described.partner_widths),
        beside_partner: again(&described.beside_partner),
        classes: if is_batches { Classes(vec![Class::Clean; count]) } else { Classes::default() },
        ..described.clone()
    }
}

/// The log of a run on the machine of a description, without noise.
pub fn run(description: &Log) -> Log {
    let clock = ticks_per_cycle(description);
    let mut log = description.clone();
    let mut number = 0;
    log.launches.clear();
    for round in 1..=LAUNCHES {
        for described in description.launches.iter().filter(|launch| !launch.first) {
            number += 1;
            let series = described.series.iter().map(|series| spread(&described.experiment, series, clock)).collect();
            log.launches.push(Launch { number, round, series, ..described.clone() });
        }
    }
    (log.rounds, log.rounds_planned) = (LAUNCHES, LAUNCHES);
    log
}

/// Counters of a launch that nothing disturbed.
fn calm(clock: f64, own: &Evidence) -> Evidence {
    Evidence {
        wall: 1e8,
        cpu_time: 1e8,
        run_delay: own.run_delay.map(|_| 0.0),
        steal: own.steal.map(|_| 0.0),
        involuntary_switches: 0,
        ticks_per_cycle_before: Some(clock),
        ticks_per_cycle_after: Some(clock),
        clock_deviation_ppm: Some(DEVIATION),
        clock_deviation_bound_ppm: Some(0.5),
        settled: true,
        ..own.clone()
    }
}

/// The costs of one experiment on a machine.
pub struct Costs<'a> {
    log: &'a Log,
    launch: &'a Launch,
}

impl<'a> Costs<'a> {
    pub fn of(log: &'a Log, experiment: &str) -> Self {
        Costs {
            log,
            launch: log.launches.iter().find(|launch| launch.experiment == experiment && !launch.first).unwrap(),
        }
    }

    fn series(&self, name: &str, labels: &Labels) -> Option<&'a Series> {
        self.launch.series.iter().find(|series| series.name == name && series.labels == *labels)
    }

    fn hertz(&self) -> f64 {
        self.log.clock.as_ref().unwrap().hertz
    }

    /// Core cycles in a second.
    fn core(&self) -> f64 {
        self.hertz() / ticks_per_cycle(self.log)
    }

    /// A recorded value: in nanoseconds where it is in ticks.
    fn value(&self, series: &Series, index: usize) -> Option<f64> {
        let scale = if series.unit == Unit::Ticks { 1e9 / self.hertz() } else { 1.0 };
        Some(series.values.get(index)? * scale)
    }

    /// One of the values of a list.
    fn listed(&self, name: &str, labels: &Labels, index: usize) -> Option<f64> {
        self.value(self.series(name, labels)?, index)
    }

    /// All values of a list.
    fn list(&self, name: &str, labels: &Labels) -> Option<&'a [f64]> {
        Some(&self.series(name, labels)?.values)
    }

    /// Nanoseconds of one operation, at a quantile of the batches or shots of a launch.
    fn at(&self, quantile: f64, name: &str, labels: &Labels) -> Option<f64> {
        let series = self.series(name, labels)?;
        let one = self.value(series, 0)? / series.operations as f64;
        Some(one * (1.0 + SPREAD * (2.0 * quantile - 1.0)))
    }

    /// The same at the median.
    fn middle(&self, name: &str, labels: &Labels) -> Option<f64> {
        self.at(0.5, name, labels)
    }

    /// The quantile of an undisturbed cost: batches without a neighbour scatter to both sides alike in user code. Elsewhere,
    /// disturbances only add time.
    fn calm(&self, name: &str, labels: &Labels) -> Option<f64> {
        let is_alone = !self.series(name, labels)?.widths.is_empty();
        self.at(if is_alone && self.launch.experiment.starts_with("cpu.") { 0.5 } else { 0.25 }, name, labels)
    }
}

/// Does work on all CPUs and returns the results in order.
fn in_parallel<In: Sync, Out: Send>(work: &[In], run: impl Fn(&In) -> Out + Sync) -> Vec<Out> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let run = &run;
        let done = |part| scope.spawn(move || <[In]>::iter(part).map(run).collect::<Vec<Out>>());
        let parts: Vec<_> = work.chunks(work.len().div_ceil(threads).max(1)).map(done).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    })
}

/// Compares lines with those of a table of TRUST.md. `SYSDYNO_WRITE_TRUST=1` writes them.
fn recorded(name: &str, lines: &[String]) {
    static WRITING: Mutex<()> = Mutex::new(());
    let _one = WRITING.lock();
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("TRUST.md");
    let text = fs::read_to_string(&place).unwrap();
    let [begin, end] = ["begin", "end"].map(|side| format!("<!-- {name}: {side} -->\n"));
    let from = text.find(&begin).unwrap_or_else(|| panic!("no {begin}")) + begin.len();
    let to = text.find(&end).unwrap_or_else(|| panic!("no {end}"));
    let lines = format!("{}\n", lines.join("\n"));
    if std::env::var_os("SYSDYNO_WRITE_TRUST").is_some() {
        fs::write(&place, format!("{}{lines}{}", &text[..from], &text[to..])).unwrap();
        return;
    }
    assert_eq!(text[from..to], lines, "SYSDYNO_WRITE_TRUST=1 cargo test --release --test unmeasured made_machine");
}
