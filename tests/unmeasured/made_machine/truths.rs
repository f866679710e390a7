//! The truth of each published result on the made machine, from its description alone. The formulas are those of METHODOLOGY.md.

use std::collections::BTreeSet;
use std::path::Path;

use crate::report_truth::assert_true;
use crate::support::trees::{MACHINES, tree};
use sysdyno::testing::results::document::{Document, Metric, Outcome};
use sysdyno::testing::results::quantity::{Labels, Unit};
use sysdyno::testing::{assemble, experiments, machine};

use super::{Costs, DEVIATION, description, in_parallel, recorded, run};

/// The true value of a result with these labels, in its published unit.
type Truth = fn(&Costs<'_>, &Labels) -> Option<f64>;

/// The truth of each metric.
const TRUTHS: &[(&str, Truth)] = &[
    ("cpu.frequency.tsc", |made, _| Some(made.hertz() * (1.0 + DEVIATION / 1e6))),
    ("cpu.frequency.core", |made, _| Some(made.core())),
    ("cpu.frequency.core_by_chain", |made, labels| {
        let cycles = match labels.get("chain")? {
            "multiply" => 3.0,
            "add" => 1.0,
            _ => (10.0 * 3.0 + 30.0) / 40.0,
        };
        Some(cycles * 1e9 / made.middle("chain", labels)?)
    }),
    ("cpu.cycle_time", |made, _| Some(1e9 / made.core())),
    ("cpu.timer.overhead", |made, labels| made.calm("readings", labels)),
    ("cpu.timer.bias", |made, labels| made.listed("pair", &labels.clone().with("chain", "nowhere"), 0)),
    ("cpu.timer.resolution", |made, labels| made.listed("step", labels, 0)),
    ("cpu.loop.overhead", |made, labels| Some(2.0 * made.calm("long", labels)? - made.calm("short", labels)?)),
    ("cpu.procedure_call.time", procedure_call),
    ("cpu.procedure_call.per_argument", |made, labels| Some(line(&in_registers(made, labels)?)?.slope)),
    ("cpu.procedure_call.seventh_argument", |made, labels| {
        let line = line(&in_registers(made, labels)?)?;
        Some(procedure_call(made, &labels.clone().with("args", 7))? - line.intercept - 7.0 * line.slope)
    }),
    ("cpu.arithmetic.time", procedure_call),
    ("cpu.sharing.share", |made, labels| {
        let about = labels.without("state");
        let share = if labels.get("beside")? == "own_cpu" {
            let pairs = made.list("pairs", &about)?;
            (pairs[0] - pairs[1]) / (pairs[0] + pairs[1] + pairs[2])
        } else {
            let looks = made.list("looks", &about)?;
            looks[1] / (looks[0] + looks[1])
        };
        Some(if labels.get("state")? == "shared" { share } else { 1.0 - share })
    }),
    ("cpu.sharing.stretch", |made, labels| made.at(quantile(labels)?, "stretch", &labels.without("quantile"))),
    ("os.system_call.time", |made, labels| {
        let labels = labels.without("path_depth");
        if labels.get("after")? == "other_calls" { made.calm("call", &labels) } else { made.middle("call", &labels) }
    }),
    ("os.system_call.service", |made, labels| {
        let in_work = |call: &str| made.middle("call", &Labels::of([("after", "work"), ("call", call)]));
        Some(in_work(labels.get("call")?)? - in_work("enosys")?)
    }),
    ("os.process_creation.time", |made, labels| made.calm("child", labels)),
    ("os.process_creation.per_page", |made, labels| {
        let child = |resident: f64| {
            let labels = labels.clone().with("child", "same_cpu").with("resident", resident);
            made.calm("child", &if resident > 0.0 { labels.with("pages", "4k") } else { labels })
        };
        let mebibytes = [0.0, 16.0, 64.0].map(|size| size * 1024.0 * 1024.0);
        let points = mebibytes.map(|bytes| Some((bytes / 4096.0, child(bytes)?, 1.0)));
        Some(line(&points.into_iter().collect::<Option<Vec<_>>>()?)?.slope)
    }),
    ("os.container.time", |made, labels| made.calm("child", labels)),
    ("os.thread_creation.time", |made, labels| made.calm("thread", labels)),
    ("os.context_switch.time", |made, labels| {
        if labels.get("placement")? == "same_cpu" { made.middle("hop", labels) } else { made.calm("hop", labels) }
    }),
    ("os.context_switch.net", |made, labels| {
        let own = labels.without("placement").without("target");
        Some(made.middle("hop", labels)? - made.middle("own", &own)?)
    }),
    ("os.context_switch.pipe_overhead", |made, _| made.middle("own", &passage("pipe"))),
    ("os.context_switch.eventfd_overhead", |made, _| made.middle("own", &passage("eventfd"))),
    ("os.cache_line_transfer.time", |made, labels| made.calm("line", labels)),
    ("os.signal.time", |made, labels| made.middle("operation", labels)),
    ("os.channel.time", |made, labels| made.middle("operation", labels)),
    ("os.poll.time", |made, labels| made.middle("operation", labels)),
    ("os.poll.per_descriptor", |made, labels| {
        let most = if labels.get("by")? == "select" { 500.0 } else { 1000.0 };
        let call = |descriptors: f64| made.calm("operation", &labels.clone().with("descriptors", descriptors));
        Some((call(most)? - call(1.0)?) / (most - 1.0))
    }),
    ("os.lock.time", |made, labels| made.middle("operation", labels)),
    ("os.scaling.time", |made, labels| made.middle("operation", labels)),
    ("os.sleep.oversleep", |made, labels| {
        let requested: f64 = labels.get("requested")?.parse().ok()?;
        Some(made.at(quantile(labels)?, "sleep", &labels.without("quantile"))? - requested)
    }),
    ("file.metadata.time", |made, labels| made.middle("operation", labels)),
    ("memory.map.time", |made, labels| made.middle("operation", labels)),
    ("memory.shared_line.time", |made, labels| made.middle("operation", labels)),
    ("memory.shared_line.size", |_, _| Some(64.0)),
    ("memory.latency.level", level),
    ("memory.latency.level_size", |made, labels| {
        let size = match labels.get("level")? {
            "L1" => 48.0 * 1024.0,
            "L2" => 1024.0 * 1024.0,
            _ => 32.0 * 1024.0 * 1024.0,
        };
        Some(around(made, size, "page_blocked", "huge"))
    }),
    ("memory.latency.translation", |made, labels| {
        let cycle = 1e9 / made.core();
        Some(if labels.get("found_in")? == "second" { 0.995 * 7.0 * cycle } else { 110.0 - 95.0 })
    }),
    ("memory.latency.translation_reach", |made, labels| {
        Some(around(made, if labels.get("buffer")? == "first" { 96.0 * 4096.0 } else { 2048.0 * 4096.0 }, "tlb", "4k"))
    }),
    ("memory.latency.by_rule", |made, labels| made.middle("load", labels)),
    ("memory.latency.node", |made, labels| made.middle("node", labels)),
    ("memory.bandwidth.rate", |made, labels| Some(1e9 / stream(made, labels)?)),
    ("memory.bandwidth.bus_rate", |made, labels| {
        // A store reads its line first, unless it goes past the caches.
        let moved = match labels.get("operation")? {
            "read" | "write_nt" => 1.0,
            "write" | "copy_nt" => 2.0,
            _ => 3.0,
        };
        Some(moved * 1e9 / stream(made, labels)?)
    }),
    ("memory.bandwidth.node", |made, labels| Some(1e9 / made.middle("node", labels)?)),
    ("memory.loaded_latency.time", |made, labels| made.middle("chase", &labels.without("footprint"))),
    ("memory.page_fault.time", |made, labels| fault(made, labels.get("kind")?)),
    ("memory.page_fault.pages_per_fault", |made, labels| {
        Some(made.listed("pages", labels, 0)? / made.listed("faults", labels, 0)?)
    }),
    ("memory.page_fault.first_touch", |made, labels| match labels.get("pages")? {
        "4k" => Some(256.0 * fault(made, "anonymous_write")?),
        "huge" => Some(0.5 * fault(made, "huge_anonymous")?),
        _ => made.calm("touch", labels),
    }),
    ("network.round_trip.time", |made, labels| made.at(quantile(labels)?, "exchange", &labels.without("quantile"))),
    ("network.round_trip.net", |made, labels| Some(exchange(made, labels, &REMOTE)? - residence(made, labels)?)),
    ("network.round_trip.network_share", |made, labels| {
        Some(exchange(made, labels, &REMOTE)? - exchange(made, labels, &HERE)?)
    }),
    ("network.bandwidth.rate", |made, labels| made.listed("rate", labels, 0)),
    ("network.datagrams.rate", |made, labels| made.listed("rate", labels, 0)),
    ("network.datagrams.delivered", |made, labels| {
        let [sent, _, received, _, _, dropped] = *made.list("count", &labels.without("to"))? else { return None };
        Some(if labels.get("to")? == "socket" { received + dropped } else { received } / sent)
    }),
    ("network.datagrams.in_order", |made, labels| {
        let of = |offered: &str| made.list("count", &labels.clone().with("offered", offered));
        let flows = ["full", "0.9", "0.5"].map(of).into_iter().collect::<Option<Vec<&[f64]>>>()?;
        let sum = |place: usize| flows.iter().map(|counts| counts[place]).sum::<f64>();
        Some(1.0 - sum(4) / sum(2))
    }),
    ("network.connection.time", |made, labels| made.middle("connection", labels)),
    ("network.connection.net", |made, labels| {
        Some(made.middle("connection", labels)? - middle_of(made.list("residence", labels)?))
    }),
    ("file.cache_size.bytes", |made, labels| {
        let limit: f64 = labels.get("limit")?.parse().ok()?;
        let (read, resident) = (made.list("read", labels)?, made.list("resident", labels)?);
        let beyond = read.iter().zip(resident).filter(|(read, _)| **read >= 1.05 * limit);
        Some(middle_of(&beyond.map(|(_, resident)| *resident).collect::<Vec<f64>>()))
    }),
    ("file.read.block_time", |made, labels| read_time(made, labels, 4096.0)),
    ("file.read.rate", |made, labels| {
        let request = if labels.get("order")? == "random" { 4096.0 } else { 1024.0 * 1024.0 };
        Some(request * 1e9 / read_time(made, labels, request)?)
    }),
    ("file.read.depth_rate", |made, labels| Some(4096.0 * 1e9 / made.middle("depth", labels)?)),
    ("file.write.time", |made, labels| made.at(quantile(labels)?, "write", &labels.without("quantile"))),
    ("file.write.rate", |made, labels| {
        let bytes: f64 = labels.get("bytes")?.parse().ok()?;
        Some(bytes * 1e9 / made.listed("pass", labels, 0)?)
    }),
    ("file.contention.block_time", |made, labels| made.middle("times", labels)),
    ("file.contention.rate", |made, labels| {
        let blocks: f64 = made.list("reads", labels)?.iter().sum();
        Some(blocks * 4096.0 * 1e9 / made.listed("window", labels, 0)?)
    }),
    ("file.contention.per_reader", |made, labels| Some((reads(made, labels, 16)? - reads(made, labels, 8)?) / 8.0)),
    ("file.contention.knee", |made, labels| {
        let slope = (reads(made, labels, 16)? - reads(made, labels, 8)?) / 8.0;
        Some(16.0 - (reads(made, labels, 16)? - reads(made, labels, 1)?) / slope)
    }),
    ("file.contention.fairness", |made, labels| {
        let reads = made.list("reads", labels)?;
        let (sum, squares) = reads.iter().fold((0.0, 0.0), |(sum, squares), one| (sum + one, squares + one * one));
        Some(sum * sum / (reads.len() as f64 * squares))
    }),
    ("file.contention.cpu_share", |made, labels| {
        let processes: f64 = labels.get("processes")?.parse().ok()?;
        let cpus = made.listed("cpus", &Labels::none(), 0)?.min(processes);
        Some(made.listed("cpu_time", labels, 0)? / made.listed("cpu_time", labels, 1)? / cpus)
    }),
    ("gpu.launch.time", |made, labels| {
        let none = Labels::none();
        if labels.get("how")? == "launch_wait" {
            return made.middle("waited", &none);
        }
        Some(2.0 * made.calm("long", &none)? - made.calm("short", &none)?)
    }),
    ("gpu.copy.time", |made, labels| made.middle("copy", labels)),
    ("gpu.copy.rate", |made, labels| {
        Some(labels.get("bytes")?.parse::<f64>().ok()? * 1e9 / made.middle("copy", labels)?)
    }),
    ("file.remote_read.block_time", |made, labels| made.middle("read", labels)),
    ("file.remote_read.network_penalty", |made, labels| {
        let from = |server: &str| made.middle("read", &labels.clone().with("server", server));
        Some(from("warm")? - from("here")?)
    }),
    ("file.remote_read.intercept", |made, labels| Some(by_bytes(made, labels)?.intercept)),
    ("file.remote_read.per_byte", |made, labels| Some(by_bytes(made, labels)?.slope)),
];

fn quantile(labels: &Labels) -> Option<f64> {
    Some(labels.get("quantile")?.strip_prefix('p')?.parse::<f64>().ok()? / 100.0)
}

fn middle_of(values: &[f64]) -> f64 {
    let mut ordered = values.to_vec();
    ordered.sort_by(f64::total_cmp);
    let half = ordered.len() / 2;
    if ordered.len() % 2 == 1 { ordered[half] } else { f64::midpoint(ordered[half - 1], ordered[half]) }
}

struct Line {
    slope: f64,
    intercept: f64,
}

/// The line of least squares through points `(x, y, weight)`.
fn line(points: &[(f64, f64, f64)]) -> Option<Line> {
    let sum = |of: &dyn Fn(&(f64, f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let weights = sum(&|point| point.2);
    let (x, y) = (sum(&|point| point.2 * point.0) / weights, sum(&|point| point.2 * point.1) / weights);
    let spread = sum(&|point| point.2 * (point.0 - x).powi(2));
    let slope = sum(&|point| point.2 * (point.0 - x) * (point.1 - y)) / spread;
    (spread > 0.0).then_some(Line { slope, intercept: y - slope * x })
}

fn procedure_call(made: &Costs<'_>, labels: &Labels) -> Option<f64> {
    Some(2.0 * made.calm("long", labels)? - made.calm("short", labels)?)
}

/// Calls whose arguments all fit into registers.
fn in_registers(made: &Costs<'_>, labels: &Labels) -> Option<Vec<(f64, f64, f64)>> {
    (0..=6)
        .map(|count| Some((f64::from(count), procedure_call(made, &labels.clone().with("args", count))?, 1.0)))
        .collect()
}

fn passage(through: &str) -> Labels {
    Labels::of([("between", "processes"), ("through", through)])
}

fn level(made: &Costs<'_>, labels: &Labels) -> Option<f64> {
    let cycle = 1e9 / made.core();
    Some(match (labels.get("level")?, labels.get("pages")?) {
        ("L1", _) => 0.995 * 4.0 * cycle,
        ("L2", _) => 0.995 * 14.0 * cycle,
        ("L3", _) => 50.0 * cycle,
        (_, "4k") => 110.0,
        _ => 95.0,
    })
}

/// The geometric mean of the footprints on both sides of a step.
fn around(made: &Costs<'_>, step: f64, pattern: &str, pages: &str) -> f64 {
    let walks = made.launch.series.iter().filter(|series| {
        series.name == "load" && series.labels.includes(&Labels::of([("pattern", pattern), ("pages", pages)]))
    });
    let footprints: Vec<f64> = walks.filter_map(|series| series.labels.get("bytes")?.parse().ok()).collect();
    let below = footprints.iter().copied().filter(|bytes| *bytes <= step).fold(0.0, f64::max);
    let above = footprints.iter().copied().filter(|bytes| *bytes > step).fold(f64::INFINITY, f64::min);
    (below * above).sqrt()
}

/// Nanoseconds of a byte of a stream. What the core clocks is undisturbed, what is shared with others is the median.
fn stream(made: &Costs<'_>, labels: &Labels) -> Option<f64> {
    let labels = labels.without("footprint");
    if made.series("stream", &labels)?.clock.is_empty() {
        made.middle("stream", &labels)
    } else {
        made.calm("stream", &labels)
    }
}

fn fault(made: &Costs<'_>, kind: &str) -> Option<f64> {
    let labels = Labels::of([("kind", kind)]);
    if kind == "huge_anonymous" { made.calm("fault", &labels) } else { made.middle("fault", &labels) }
}

const REMOTE: [(&str, &str); 1] = [("path", "remote")];
const HERE: [(&str, &str); 2] = [("path", "loopback"), ("placement", "other_cpu")];

fn reads(made: &Costs<'_>, labels: &Labels, processes: u32) -> Option<f64> {
    made.middle("times", &labels.clone().with("processes", processes))
}

fn exchange(made: &Costs<'_>, labels: &Labels, further: &[(&str, &str)]) -> Option<f64> {
    let labels = labels.clone().with("ip", 4).with("pacing", "back_to_back");
    made.middle("exchange", &further.iter().fold(labels, |labels, (key, value)| labels.with(key, value)))
}

/// How long the peer kept what it answers. It cannot tell for single datagrams.
fn residence(made: &Costs<'_>, labels: &Labels) -> Option<f64> {
    let is_udp = labels.get("protocol")? == "udp";
    let labels = if is_udp { labels.without("bytes").with("bytes", 0) } else { labels.clone() };
    made.listed("peer.residence", &labels, 0)
}

fn read_time(made: &Costs<'_>, labels: &Labels, request: f64) -> Option<f64> {
    let with = labels.clone().with("request", request);
    match (labels.get("order")?, labels.get("cache")?) {
        (_, "warm") => made.calm("warm", &with),
        ("random", _) => made.middle("read", labels),
        _ => made.middle("pass", &with),
    }
}

/// The line through the times of remote reads, which weighs relative deviations.
fn by_bytes(made: &Costs<'_>, labels: &Labels) -> Option<Line> {
    let time = |bytes: f64| made.middle("read", &labels.clone().with("bytes", bytes).with("server", "warm"));
    let sizes = [4.0, 16.0, 64.0, 256.0, 1024.0].map(|kib| kib * 1024.0);
    let points = sizes.iter().map(|&bytes| Some((bytes, time(bytes)?, time(bytes)?.powi(-2))));
    line(&points.collect::<Option<Vec<_>>>()?)
}

/// The true value of a result.
pub fn truth_of(made: &Costs<'_>, metric: &Metric) -> Option<f64> {
    let (_, truth) = TRUTHS.iter().find(|(name, _)| *name == metric.name)?;
    truth(made, &metric.labels)
}

fn metrics(document: &Document) -> impl Iterator<Item = (&str, &Metric)> {
    document.experiments.iter().flat_map(|section| section.metrics.iter().map(|metric| (section.id.as_str(), metric)))
}

/// How far a published value may be from the true one.
const TOLERANCE: f64 = 1e-6;

#[test]
fn every_published_value_is_the_true_one() {
    let described = description();
    let document = assemble::document(&run(described));
    let mut wrong = Vec::new();
    for (experiment, metric) in metrics(&document) {
        let costs = Costs::of(described, experiment);
        // Cycles and what stands beside the value are the same result.
        let in_time =
            metric.cycles.filter(|_| metric.unit == Unit::Nanoseconds).map(|cycles| cycles * 1e9 / costs.core());
        let is_one = in_time.is_none_or(|time| (time / metric.value - 1.0).abs() <= TOLERANCE)
            && metric.interval95[0] <= metric.value
            && metric.value <= metric.interval95[1];
        match truth_of(&costs, metric) {
            Some(truth) if is_one && (metric.value / truth - 1.0).abs() <= TOLERANCE => {}
            truth => wrong.push(format!("{} {}: {} instead of {truth:?}", metric.name, metric.labels, metric.value)),
        }
    }
    let count = metrics(&document).count();
    recorded("truths", &[format!("{} metrics with {count} results have the true value.", TRUTHS.len())]);
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_point_of_the_latency_curves_is_the_true_one() {
    let described = description();
    let document = assemble::document(&run(described));
    let costs = Costs::of(described, "memory.latency");
    let sections = document.experiments.iter().filter(|section| section.id == "memory.latency");
    let mut count = 0;
    for curve in sections.flat_map(|section| &section.series).filter(|curve| curve.name == "memory.latency.curve") {
        for [bytes, latency, ..] in &curve.points {
            let labels = curve.labels.clone().with("bytes", bytes);
            let truth = costs.middle("load", &labels).unwrap();
            assert!((latency / truth - 1.0).abs() <= TOLERANCE, "{labels}: {latency} instead of {truth}");
            count += 1;
        }
    }
    assert!(count >= 100, "{count} points");
}

#[test]
fn every_metric_is_published_on_the_made_machine() {
    let document = assemble::document(&run(description()));
    let found: BTreeSet<&str> = metrics(&document).map(|(_, metric)| metric.name.as_str()).collect();
    let of_table =
        experiments::TABLE.iter().flat_map(|experiment| experiment.publishes).map(|published| published.metric);
    let missing: Vec<&str> = of_table.filter(|name| !found.contains(name)).collect();
    let rejected = document.experiments.iter().flat_map(|section| &section.rejected);
    let rejected: Vec<String> =
        rejected.map(|found| format!("{} {}: {}", found.name, found.labels, found.reason)).collect();
    assert!(missing.is_empty() && rejected.is_empty(), "missing {missing:?}\nrejected:\n{}", rejected.join("\n"));
}

/// What a machine says of its caches decides which levels its walks have.
fn depends_on_claims(metric: &Metric) -> bool {
    metric.name.starts_with("memory.latency.") || metric.name == "memory.loaded_latency.time"
}

#[test]
fn other_machines_have_the_same_truth_and_whole_documents() {
    let described = description();
    in_parallel(&MACHINES, |name| {
        let mut log = run(described);
        log.machine = machine::detect(&tree(name), Path::new("/home"));
        log.header.cpu = log.machine.usable_cpus().iter().next().unwrap();
        let document = assemble::document(&log);
        assert_true(&document, name);
        for (experiment, metric) in metrics(&document).filter(|(_, metric)| !depends_on_claims(metric)) {
            let truth = truth_of(&Costs::of(described, experiment), metric).unwrap();
            assert!(
                (metric.value / truth - 1.0).abs() <= TOLERANCE,
                "{name}: {} is {}, not {truth}",
                metric.title(),
                metric.value
            );
        }
        let chapters: BTreeSet<&str> = document
            .experiments
            .iter()
            .filter(|section| section.outcome == Outcome::Measured)
            .map(|section| section.chapter.as_str())
            .collect();
        assert_eq!(chapters.len(), 6, "{name}: {chapters:?}");
    });
}
