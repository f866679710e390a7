//! Predictions composed from primitives of the same run: a figure is some primitives, each so many times, and one more times a
//! coefficient without unit. Coefficients are fitted on records of other runs; where there is no primitive, or no record, the
//! prediction from the constants table stands.

pub mod coefficients;
pub mod fit;

use crate::results::prediction::{Basis, Part, Prediction};
use crate::results::quantity::{DISTANCE, FOOTPRINT, Labels, PATH_DEPTH};

use super::{Experiment, PredictionInput};
use crate::setup::Setup;
use coefficients::{Host, table};

/// A figure that others are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Primitive {
    metric: &'static str,
    /// Labels that it has among others.
    labels: &'static [(&'static str, &'static str)],
}

const CYCLE: Primitive = Primitive { metric: "cpu.cycle_time", labels: &[] };
const CLOCK_CALL: Primitive =
    Primitive { metric: "cpu.timer.overhead", labels: &[("method", "clock_gettime_syscall")] };
const KERNEL_ENTRY: Primitive = Primitive { metric: "os.system_call.time", labels: &[("call", "enosys")] };
const SWITCH: Primitive = Primitive {
    metric: "os.context_switch.time",
    labels: &[("between", "processes"), ("through", "pipe"), ("placement", "same_cpu")],
};
const IDLE_WAKE_UP: Primitive = Primitive {
    metric: "os.context_switch.time",
    labels: &[("between", "processes"), ("through", "pipe"), ("target", "idle")],
};
const AWAKE_WAKE_UP: Primitive = Primitive {
    metric: "os.context_switch.time",
    labels: &[("between", "processes"), ("through", "pipe"), ("target", "awake")],
};
const MEMORY_LOAD: Primitive =
    Primitive { metric: "memory.latency.level", labels: &[("level", "DRAM"), ("pages", "huge")] };
const DIRECT_READ: Primitive = Primitive {
    metric: "file.read.block_time",
    labels: &[("cache", "direct"), ("order", "random"), ("bytes", "16777216")],
};
const READ_FAULT: Primitive = Primitive { metric: "memory.page_fault.time", labels: &[("kind", "anonymous_read")] };
const WRITE_FAULT: Primitive = Primitive { metric: "memory.page_fault.time", labels: &[("kind", "anonymous_write")] };
const ECHO_ON_ONE_CPU: Primitive = Primitive {
    metric: "network.round_trip.time",
    labels: &[("protocol", "tcp"), ("bytes", "1"), ("ip", "4"), ("placement", "same_cpu"), ("quantile", "p50")],
};
const ECHO_ON_TWO_CPUS: Primitive = Primitive {
    metric: "network.round_trip.time",
    labels: &[
        ("protocol", "tcp"),
        ("bytes", "1"),
        ("ip", "4"),
        ("placement", "other_cpu"),
        ("pacing", "back_to_back"),
        ("quantile", "p50"),
    ],
};

/// All of them, each after those that it is predicted from.
const PRIMITIVES: [Primitive; 12] = [
    CYCLE,
    CLOCK_CALL,
    KERNEL_ENTRY,
    SWITCH,
    IDLE_WAKE_UP,
    AWAKE_WAKE_UP,
    MEMORY_LOAD,
    DIRECT_READ,
    READ_FAULT,
    WRITE_FAULT,
    ECHO_ON_ONE_CPU,
    ECHO_ON_TWO_CPUS,
];

/// Launches of an experiment with a primitive before others are predicted.
const LAUNCHES_FIRST: u32 = 5;

/// Seconds of a launch that is short.
const SHORT: f64 = 1.0;

/// Whether a figure of an experiment is a primitive, or follows from the same samples.
fn is_primitive(experiment: &Experiment, labels: &Labels) -> bool {
    PRIMITIVES
        .iter()
        .any(|primitive| experiment.publication(primitive.metric).is_some() && primitive.has_labels(labels))
}

/// Experiments that measure what most others follow from, in a few seconds.
pub fn in_seconds() -> Vec<&'static Experiment> {
    let needed = [CYCLE, CLOCK_CALL, KERNEL_ENTRY, SWITCH, MEMORY_LOAD, READ_FAULT, DIRECT_READ];
    let has = |experiment: &&&'static Experiment| {
        needed.iter().any(|primitive| experiment.publication(primitive.metric).is_some())
    };
    super::TABLE.iter().filter(has).copied().collect()
}

/// A step of the first round.
#[derive(Clone, Copy)]
pub struct Step {
    /// What is predicted and launched.
    pub experiment: &'static Experiment,
    /// Whether only its primitives are.
    pub first: bool,
    /// How often it is launched before the next step.
    pub launches: u32,
}

impl Step {
    /// Whether a prediction belongs to this step.
    pub fn asks(&self, prediction: &Prediction) -> bool {
        !self.first || is_primitive(self.experiment, &prediction.labels)
    }
}

/// The steps of the first round. What others are predicted from comes first, in the order of the primitives, and more than once:
/// experiments with short launches as they are, of others the primitives alone. Then everything else.
pub fn first_round(running: &[&'static Experiment], setup: &Setup) -> Vec<Step> {
    let whole = |experiment: &'static Experiment, launches: u32| Step { experiment, first: false, launches };
    if let [only] = running {
        return vec![whole(only, 1)];
    }
    let mut steps: Vec<Step> = Vec::new();
    for primitive in PRIMITIVES {
        let measures = |experiment: &&&'static Experiment| experiment.publication(primitive.metric).is_some();
        let Some(experiment) = running.iter().find(measures).copied() else { continue };
        if steps.iter().any(|step| step.experiment.id == experiment.id) {
            continue;
        }
        if experiment.measure_first.is_some() {
            steps.push(Step { experiment, first: true, launches: LAUNCHES_FIRST });
        } else if (experiment.seconds)(setup) <= SHORT {
            steps.push(whole(experiment, LAUNCHES_FIRST));
        }
    }
    let begun = |experiment: &Experiment| steps.iter().any(|step| step.experiment.id == experiment.id && !step.first);
    let others: Vec<Step> =
        running.iter().filter(|experiment| !begun(experiment)).map(|experiment| whole(experiment, 1)).collect();
    steps.extend(others);
    steps
}

/// A term whose count is known: so many of a primitive.
#[derive(Debug, Clone, Copy)]
struct Counted {
    what: &'static str,
    part: Part,
    primitive: Primitive,
    count: f64,
}

const MINOR_FAULT: Counted = Counted {
    what: "the exception, and mapping the page",
    part: Part::SoftwareOverhead,
    primitive: READ_FAULT,
    count: 1.0,
};

/// How the last term goes with its primitive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scaling {
    /// A cost: as the primitive.
    With,
    /// A rate: as one over the primitive.
    Against,
}

/// How a figure is composed.
#[derive(Debug, Clone)]
pub struct Model {
    counted: Vec<Counted>,
    what: &'static str,
    part: Part,
    primitive: Primitive,
    scaling: Scaling,
}

impl Model {
    const fn of(what: &'static str, part: Part, primitive: Primitive) -> Model {
        Model { counted: Vec::new(), what, part, primitive, scaling: Scaling::With }
    }

    /// A rate.
    fn rate(self) -> Model {
        Model { scaling: Scaling::Against, ..self }
    }

    /// With the ways into the kernel and out of it.
    fn entering(self, times: f64) -> Model {
        let what = match times as u32 {
            1 => "entering and leaving the kernel",
            2 => "entering and leaving the kernel twice",
            _ => "entering and leaving the kernel for every call",
        };
        let entry = Counted { what, part: Part::BaseHardware, primitive: KERNEL_ENTRY, count: times };
        Model { counted: vec![entry], ..self }
    }

    /// With one more counted term.
    fn and(mut self, term: Counted) -> Model {
        self.counted.push(term);
        self
    }

    /// What the counted terms come to, and what the last term is times one, by figures that are known; none where one is missing
    /// that the figure needs.
    fn known(&self, find: &impl Fn(&Primitive) -> Option<f64>) -> Option<(f64, f64)> {
        let counted: Option<f64> =
            self.counted.iter().map(|term| Some(find(&term.primitive)? * term.count)).sum::<Option<f64>>();
        let primitive = find(&self.primitive).filter(|value| *value > 0.0)?;
        let scale = if self.scaling == Scaling::With { primitive } else { 1.0 / primitive };
        Some((counted?, scale))
    }
}

/// How a figure is composed; none where nothing is known that it follows from.
pub fn model(metric: &str, labels: &Labels) -> Option<Model> {
    use Part::{BaseHardware, SoftwareOverhead};
    let is = |key: &str, value: &str| labels.get(key) == Some(value);
    let in_cache = ["L1", "L2", "L3"].iter().any(|level| is("level", level));
    Some(match metric {
        "cpu.timer.overhead"
        | "cpu.loop.overhead"
        | "cpu.procedure_call.time"
        | "cpu.procedure_call.per_argument"
        | "cpu.procedure_call.seventh_argument" => Model::of("cycles of this core's design", BaseHardware, CYCLE),
        "os.system_call.time" if labels.get("call").is_some_and(|call| call.contains("vdso")) => {
            Model::of("a call that stays in user code", SoftwareOverhead, CYCLE)
        }
        "os.system_call.time" if is("call", "enosys") => {
            Model::of("entering and leaving the kernel, by a clock call", BaseHardware, CLOCK_CALL)
        }
        "os.system_call.time" | "os.system_call.service" => {
            Model::of("the call, by the pace of a clock call", SoftwareOverhead, CLOCK_CALL)
        }
        "os.context_switch.time" if SWITCH.has_labels(labels) => {
            Model::of("waking, switching, passing the token", SoftwareOverhead, CLOCK_CALL).entering(2.0)
        }
        "os.context_switch.time" if is("placement", "same_cpu") => {
            Model::of("waking, switching, passing the token, by the pace of a pipe", SoftwareOverhead, SWITCH)
        }
        "os.context_switch.time" if IDLE_WAKE_UP.has_labels(labels) || AWAKE_WAKE_UP.has_labels(labels) => {
            Model::of("an interrupt to the other CPU, and its way out of idle", SoftwareOverhead, CLOCK_CALL)
                .entering(2.0)
        }
        "os.context_switch.time" => {
            let wake_up = if is("target", "awake") { AWAKE_WAKE_UP } else { IDLE_WAKE_UP };
            Model::of("a wake-up of the other CPU, by the pace of a pipe", SoftwareOverhead, wake_up)
        }
        "os.context_switch.net" => Model::of("waking and switching", SoftwareOverhead, CLOCK_CALL),
        "os.context_switch.pipe_overhead" | "os.context_switch.eventfd_overhead" => {
            Model::of("file layer, lock, one datum in and out", SoftwareOverhead, CLOCK_CALL).entering(2.0)
        }
        "os.cache_line_transfer.time" => Model::of("the way between two cores of this design", BaseHardware, CYCLE),
        "os.signal.time" => Model::of("signal handling, by the pace of a switch", SoftwareOverhead, SWITCH),
        "os.thread_creation.time" if is("child", "free") => {
            Model::of("a thread on another CPU, by the pace of a wake-up there", SoftwareOverhead, IDLE_WAKE_UP)
        }
        "os.thread_creation.time" => Model::of("a thread's life, by the pace of a switch", SoftwareOverhead, SWITCH),
        "os.process_creation.per_page" => {
            Model::of("copying a page's table entry, by the pace of memory", SoftwareOverhead, MEMORY_LOAD)
        }
        "os.process_creation.time" => Model::of("a process's life, by the pace of a switch", SoftwareOverhead, SWITCH),
        "memory.latency.level" | "memory.latency.translation" => {
            Model::of("cycles of this core's design", BaseHardware, CYCLE)
        }
        "memory.bandwidth.rate" | "memory.bandwidth.bus_rate" if in_cache => {
            Model::of("bytes in a cycle of this core's design", BaseHardware, CYCLE).rate()
        }
        "memory.bandwidth.rate" | "memory.bandwidth.bus_rate" => {
            Model::of("lines under way in the time of a load", BaseHardware, MEMORY_LOAD).rate()
        }
        "memory.loaded_latency.time" => Model::of("a load that waits behind others", BaseHardware, MEMORY_LOAD),
        "memory.page_fault.time" if is("kind", "file_cold") => {
            Model::of("reading the page from the device", BaseHardware, DIRECT_READ).and(MINOR_FAULT)
        }
        "memory.page_fault.time" if READ_FAULT.has_labels(labels) || WRITE_FAULT.has_labels(labels) => {
            Model::of("exception, page, table entry, by the pace of the kernel", SoftwareOverhead, KERNEL_ENTRY)
        }
        "memory.page_fault.time" if is("kind", "huge_anonymous") => {
            Model::of("clearing a huge page, by the pace of small ones", BaseHardware, WRITE_FAULT)
        }
        "memory.page_fault.time" if is("kind", "copy_on_write") => {
            Model::of("copying a page instead of clearing one", SoftwareOverhead, WRITE_FAULT)
        }
        "memory.page_fault.time" => {
            Model::of("finding pages in the cache, by the pace of the page of zeros", SoftwareOverhead, READ_FAULT)
        }
        "network.round_trip.time" if is("path", "loopback") && is("pacing", "idle") => {
            Model::of("wake-ups of CPUs that sleep, and the protocol", SoftwareOverhead, IDLE_WAKE_UP)
        }
        "network.round_trip.time" if is("path", "loopback") && is("placement", "other_cpu") => {
            Model::of("two wake-ups of another CPU, and the protocol", SoftwareOverhead, AWAKE_WAKE_UP)
        }
        "network.round_trip.time" if is("path", "loopback") => {
            Model::of("switches and the protocol, by the pace of a switch", SoftwareOverhead, SWITCH)
        }
        "network.connection.time" if is("path", "loopback") => {
            let echo = if is("placement", "same_cpu") { ECHO_ON_ONE_CPU } else { ECHO_ON_TWO_CPUS };
            Model::of("packets of a handshake or an end, by the pace of an echo", SoftwareOverhead, echo)
        }
        "network.bandwidth.rate" if is("path", "loopback") => {
            Model::of("bytes moved in the time of a switch", SoftwareOverhead, SWITCH).rate()
        }
        "file.read.block_time" if is("cache", "warm") => {
            Model::of("copying from the page cache, by the pace of a switch", SoftwareOverhead, SWITCH)
        }
        "file.read.rate" if is("cache", "warm") => {
            Model::of("bytes copied in the time of a switch", SoftwareOverhead, SWITCH).rate()
        }
        "file.read.block_time" | "file.read.rate" if DIRECT_READ.has_labels(labels) => return None,
        "file.read.block_time" => {
            Model::of("a block from the device, by the pace of one alone", BaseHardware, DIRECT_READ)
        }
        "file.read.rate" | "file.read.depth_rate" => {
            Model::of("bytes from the device, by the pace of one read alone", BaseHardware, DIRECT_READ).rate()
        }
        "file.contention.block_time" => Model::of("reads that wait for each other", BaseHardware, DIRECT_READ),
        "file.contention.rate" => Model::of("reads in the time of one alone", BaseHardware, DIRECT_READ).rate(),
        _ => return None,
    })
}

/// The name of a figure among records: without conditions, which differ from run to run.
pub fn key(metric: &str, labels: &Labels) -> String {
    let mut text = metric.to_owned();
    for (name, value) in labels.pairs().filter(|(name, _)| ![FOOTPRINT, PATH_DEPTH, DISTANCE].contains(name)) {
        text.push_str(&format!(" {name}={value}"));
    }
    text
}

/// A prediction by primitives and coefficients; the one that is given where they do not reach.
pub fn composed(by: &PredictionInput<'_>, plain: Prediction) -> Prediction {
    let find = |primitive: &Primitive| by.known.iter().find(|metric| primitive.is(&metric.name, &metric.labels));
    let known = |primitive: &Primitive| find(primitive).map(|metric| metric.value);
    let Some(model) = model(&plain.metric, &plain.labels) else { return plain };
    let Some((_, scale)) = model.known(&known) else { return plain };
    let host = Host::of(&by.setup.machine, by.setup.cpu);
    let Some(found) = table().find(&key(&plain.metric, &plain.labels), &host) else { return plain };
    let range = |value: f64| (value, value / found.spread, value * found.spread);
    let mut composed = Prediction::of(&plain.metric, plain.labels, plain.unit);
    let mut add = |what: &str, part: Part, value: f64, basis: Basis| {
        let so_far = std::mem::replace(&mut composed, Prediction::of("", Labels::none(), plain.unit));
        composed = match part {
            Part::BaseHardware => so_far.hardware(what, range(value), basis),
            Part::SoftwareOverhead => so_far.software(what, range(value), basis),
        };
    };
    for term in &model.counted {
        let Some(metric) = find(&term.primitive) else { continue };
        add(term.what, term.part, metric.value * term.count, Basis::metric(&metric.title()));
    }
    let basis = find(&model.primitive).map_or_else(String::new, crate::results::document::Metric::title);
    let basis = Basis::fitted(&basis, found.ratio, model.scaling == Scaling::Against, found.records);
    add(model.what, model.part, found.ratio * scale, basis);
    composed
}

impl Primitive {
    /// Whether a figure is this one. Of two distances the near one is.
    fn is(&self, metric: &str, labels: &Labels) -> bool {
        metric == self.metric && self.has_labels(labels)
    }

    fn has_labels(&self, labels: &Labels) -> bool {
        self.labels.iter().all(|(key, value)| labels.get(key) == Some(value)) && labels.get(DISTANCE) != Some("far")
    }
}
