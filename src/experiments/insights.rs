//! What a user who runs programs on this machine should know. These are comparisons of figures, each only where the intervals
//! support it. Each has the reason that a fact of the machine gives, and what to do.

use crate::experiments::prelude::*;
use crate::results::document::{Grade, Highlight, HighlightKind, Section};
use crate::results::expectation::{Expectation, Ground};
use crate::results::ratio::{Order, against_prediction, scaled};
use crate::results::verdict::AgainstPrediction;
use crate::results::wording::{capital, times};

use super::consistency::{Evaluated, Operand};
use super::figure_name::FigureName;
use super::models::primitives::{
    ECHO_ON_ONE_CPU, ECHO_ON_TWO_CPUS, IDLE_WAKE_UP, KERNEL_ENTRY, MEMORY_LOAD, SWITCH, WRITE_FAULT,
};
use super::os::system_call::mitigations;

/// Most misses of predictions among the insights.
const SURPRISES: usize = 2;

/// A sentence with its weight: about the logarithm of what it costs relative to what people expect.
pub type Weighted = (f64, Highlight);

/// The figures of a run and the machine that they are of.
struct Found<'a> {
    sections: &'a [Section],
    metrics: Vec<&'a Metric>,
    machine: &'a Machine,
    cpu: u32,
    expectations: &'a [Expectation],
}

/// A ratio of two costs within this factor of that of other machines is ordinary for the kind.
const ORDINARY: f64 = 1.25;
/// What is ordinary has this part of its weight: what is special about a machine comes first.
const ORDINARY_WEIGHT: f64 = 0.3;

/// A part of a reason or of advice.
#[derive(Clone, Copy)]
enum Clause {
    Always(&'static str),
    Guest(&'static str),
    NoGuest(&'static str),
    When(fn(&Machine) -> bool, &'static str),
    /// Where these figures are settled. They stand in it by their places, as `{0}`.
    With(&'static str, &'static [FigureName]),
    By(fn(&Found<'_>) -> Option<String>),
}
use Clause::{Always, By, Guest, NoGuest, When, With};

/// A comparison that is told where its ratio is not the usual one.
struct Insight {
    /// What is compared, the first over the second, and what else its sentence names.
    of: &'static [Operand],
    /// A ratio that nobody has to be told of.
    usual: f64,
    /// It is told of the usual ratio too.
    always: bool,
    /// Its weight, and by how much the logarithm of the ratio beyond the usual adds to that.
    weight: [f64; 2],
    /// The operands stand in it by their places, as `{0}`, and the ratio as `{ratio}`.
    text: &'static str,
    why: &'static [Clause],
    advice: &'static [Clause],
    /// The costs by which the ratio of its last two operands is known of other machines.
    kind: Option<[&'static str; 2]>,
    /// Only where the row before it is not told.
    otherwise: bool,
}

const ROW: Insight = Insight {
    of: &[],
    usual: 1.0,
    always: false,
    weight: [0.0, 1.0],
    text: "",
    why: &[],
    advice: &[],
    kind: None,
    otherwise: false,
};

const BATCHED_CALL: FigureName = FigureName::of("os.system_call.time call=io_uring_nop_batched");
const MEMORY_READS: FigureName = FigureName::of("memory.bandwidth.rate level=DRAM operation=read");
const MEMORY_READ: FigureName = FigureName::of("memory.bandwidth.rate level=DRAM operation=read threads=1");
const CACHE_SIZE: FigureName = FigureName::of("memory.latency.level_size");
const OWN_CPU: FigureName = FigureName::of("cpu.sharing.share beside=own_cpu state=shared");
const FORK_SLOPE: FigureName = FigureName::of("os.process_creation.per_page how=fork_wait");
const SPAWN: FigureName =
    FigureName::of("os.process_creation.time how=posix_spawn_wait image=static resident=67108864");
const SMALL_FORK: Operand = Operand::of("os.process_creation.time how=fork_wait resident=0 child=same_cpu");
const LEAST_SLACK: FigureName = FigureName::of("os.sleep.oversleep requested=100000 quantile=p50 slack=least");
const FORK: Insight = Insight {
    // The pages of a gibibyte, over 10 ms.
    of: &[
        Operand::Figure(262_144.0, FORK_SLOPE),
        Operand::Number(10e6, Unit::Nanoseconds),
        Operand::of("os.process_creation.time how=fork_wait resident=268435456 pages=4k"),
        SMALL_FORK,
    ],
    text: "fork and wait take {2} in a parent with 256 MiB on 4 KiB pages, and {3} in a small one.",
    why: &[
        Always("fork copies the page table of the parent, and the exit of the child removes it."),
        With(" Up to 64 MiB, that takes {0} for each page.", &[FORK_SLOPE]),
        With(" posix_spawn from a parent of 64 MiB takes {0}.", &[SPAWN]),
    ],
    advice: &[Always("Use posix_spawn in large processes.")],
    kind: Some(["fork, 256 MiB", "fork + wait"]),
    ..ROW
};

const ROWS: &[Insight] = &[
    Insight {
        of: &[Operand::one(IDLE_WAKE_UP), Operand::one(SWITCH)],
        usual: 3.0,
        text: "Waking a sleeping CPU takes {0}, {ratio} times a switch on the same CPU ({1}).",
        why: &[
            Guest(
                "An idle CPU of a virtual machine usually returns to the hypervisor, which has to schedule it again.",
            ),
            NoGuest("An idle CPU has to leave its sleep state first."),
            With(
                " A TCP round trip on the loopback takes {0} with both sides on one CPU and {1} on two.",
                &[ECHO_ON_ONE_CPU, ECHO_ON_TWO_CPUS],
            ),
            By(slow_wake_ups),
            When(
                |machine| machine.kernel.idle_driver.as_ref().is_some_and(|driver| driver.value == "haltpoll"),
                " A larger guest_halt_poll_ns keeps idle CPUs awake, and that uses CPU time.",
            ),
        ],
        advice: &[Always("Pin tasks that exchange messages to the same CPU.")],
        kind: Some(["wake idle CPU", "switch, same CPU"]),
        ..ROW
    },
    // Of 1 GiB.
    Insight {
        of: &[
            Operand::Figure(1024.0, FigureName::of("memory.page_fault.first_touch pages=4k")),
            Operand::Figure(1024.0, FigureName::of("memory.page_fault.first_touch pages=huge")),
        ],
        usual: 1.5,
        text: "The first touch of 1 GiB takes {0} with 4 KiB pages and {1} with huge pages, {ratio} times less.",
        why: &[
            Guest("Each page costs a fault, which in a guest can also need work of the hypervisor."),
            NoGuest("Each page costs a fault, and a huge page takes the place of many small ones."),
            When(no_huge_pages, " Programs get no huge pages here (/sys/kernel/mm/transparent_hugepage/enabled)."),
            When(|machine| huge_pages(machine) == Some("madvise"), " Only programs that ask get huge pages here."),
        ],
        advice: &[
            When(always_huge_pages, "Align large buffers to the size of a huge page."),
            When(no_huge_pages, "Allow huge pages: set them to madvise."),
            When(
                |machine| !always_huge_pages(machine) && !no_huge_pages(machine),
                "Use madvise(MADV_HUGEPAGE) for large buffers.",
            ),
        ],
        ..ROW
    },
    Insight {
        of: &[Operand::one(WRITE_FAULT), Operand::one(KERNEL_ENTRY)],
        usual: 8.0,
        text: "The first write to a page takes {0}, as long as {ratio} empty system calls ({1}).",
        why: &[
            Guest("The hypervisor's page tables probably make each fault slower."),
            NoGuest("The kernel clears the page and changes the page table."),
        ],
        advice: &[Always("Reuse memory.")],
        kind: Some(["page fault", "system call"]),
        otherwise: true,
        ..ROW
    },
    Insight {
        of: &[
            Operand::of("file.read.block_time cache=cold order=random bytes=67108864"),
            Operand::of("file.read.block_time cache=cold order=sequential bytes=67108864"),
        ],
        usual: 5.0,
        weight: [0.0, 0.5],
        text: "Reading 4 KiB that are not cached takes {0} in random order and {1} in sequential order.",
        why: &[Always("In sequential order the kernel reads"), By(read_ahead), Always(" ahead.")],
        advice: &[Always(
            "Read files in order, or announce random reads with posix_fadvise and keep several in flight.",
        )],
        ..ROW
    },
    Insight {
        of: &[
            Operand::of("memory.bandwidth.rate level=DRAM operation=write_nt threads=1"),
            Operand::of("memory.bandwidth.rate level=DRAM operation=write threads=1"),
        ],
        usual: 1.5,
        text: "One CPU writes {1} to memory, and {0} with stores that bypass the caches ({ratio} times).",
        why: &[Always("An ordinary store reads its cache line first, so it needs the memory twice.")],
        advice: &[Always("Use non-temporal stores for large data that is not read again soon.")],
        ..ROW
    },
    // Over the timer slack that the kernel gives a task (man 2 prctl, PR_SET_TIMERSLACK).
    Insight {
        of: &[
            Operand::of("os.sleep.oversleep requested=100000 quantile=p50 slack=default"),
            Operand::Number(50_000.0, Unit::Nanoseconds),
        ],
        text: "A sleep of 100 µs ends {0} late.",
        why: &[
            Always("The kernel adds a timer slack, and an idle CPU takes time to wake."),
            With(" With the least slack it ends {0} late.", &[LEAST_SLACK]),
        ],
        advice: &[Always(
            "Set a smaller slack with prctl(PR_SET_TIMERSLACK), and wait for events in place of short sleeps.",
        )],
        ..ROW
    },
    Insight {
        of: &[
            Operand::of("os.channel.time through=unix_stream bytes=1"),
            Operand::of("os.channel.time through=pipe bytes=1"),
        ],
        usual: 1.5,
        weight: [0.0, 0.5],
        text: "A byte through a UNIX stream socket takes {0}, {ratio} times as long as through a pipe ({1}).",
        why: &[Always(
            "A socket makes a buffer for each message and accounts for it. A pipe writes into a page that it keeps.",
        )],
        advice: &[Always("Use a pipe between two processes of one machine, or send many small messages in one call.")],
        ..ROW
    },
    FORK,
    Insight {
        of: &[
            FORK.of[0],
            FORK.of[1],
            Operand::of("os.process_creation.time how=fork_wait resident=67108864 pages=4k"),
            SMALL_FORK,
        ],
        text: "fork and wait take {2} in a parent with 64 MiB on 4 KiB pages, and {3} in a small one.",
        kind: None,
        otherwise: true,
        ..FORK
    },
    Insight {
        of: &[
            Operand::of("os.process_creation.time how=fork_exec_wait image=dynamic child=same_cpu"),
            Operand::of("os.process_creation.time how=fork_exec_wait image=static child=same_cpu"),
        ],
        usual: 2.0,
        weight: [0.0, 0.6],
        text: "Starting a dynamically linked program takes {0}, {ratio} times as long as a static one ({1}).",
        why: &[Always(
            "The loader maps libraries and resolves symbols, and libraries start up. The static program has two instructions.",
        )],
        advice: &[Always("Statically link tools that run often and briefly, or keep them running.")],
        ..ROW
    },
    Insight {
        of: &[Operand::one(MEMORY_LOAD), Operand::of("memory.latency.level level=L1")],
        usual: 100.0,
        always: true,
        weight: [0.3, 1.0],
        text: "A load from memory takes {0}, as long as {ratio} L1 loads ({1}).",
        why: &[Always("The load misses every cache level.")],
        advice: &[Always("Keep data that is used together in the same cache lines, and working sets in the caches.")],
        ..ROW
    },
    Insight {
        of: &[Operand::of("memory.latency.level level=DRAM pages=4k"), Operand::one(MEMORY_LOAD)],
        usual: 1.15,
        weight: [0.0, 2.0],
        text: "Huge pages make random loads from memory {ratio} times faster ({1} against {0}).",
        why: &[Always("With 4 KiB pages most loads also miss the TLB.")],
        advice: &[Always("Use madvise(MADV_HUGEPAGE) for large heaps with random access.")],
        ..ROW
    },
    Insight {
        of: &[Operand::of("file.read.depth_rate depth=32"), Operand::of("file.read.depth_rate depth=1")],
        usual: 2.0,
        weight: [0.0, 0.5],
        text: "The device serves 32 concurrent reads {ratio} times as fast as one read at a time ({0}, not {1}).",
        why: &[Always("A single reader waits each time for the whole path to the device.")],
        advice: &[Always("Keep several reads in flight: io_uring, threads, or read-ahead.")],
        ..ROW
    },
    Insight {
        of: &[
            Operand::of("cpu.timer.overhead method=clock_gettime"),
            Operand::of("cpu.timer.overhead method=clock_gettime_syscall"),
        ],
        usual: 0.5,
        weight: [1.0, 1.0],
        text: "Reading the clock takes {0}, about as long as a system call.",
        why: &[Always("Usually the kernel does not trust the time-stamp counter, so the vDSO cannot answer.")],
        advice: &[Always(
            "Check /sys/devices/system/clocksource/clocksource0/current_clocksource, and choose tsc if it is reliable.",
        )],
        ..ROW
    },
];

/// What a wake-up takes at its worst, where that is far from its middle.
fn slow_wake_ups(found: &Found<'_>) -> Option<String> {
    let there = found.settled(IDLE_WAKE_UP)?;
    let quantiles = there.quantiles.filter(|quantiles| quantiles.p99 > 1.5 * there.value)?;
    Some(format!(" In 1 % of the batches a wake-up took {} or more.", Shown::of(quantiles.p99, there.unit)))
}

fn read_ahead(found: &Found<'_>) -> Option<String> {
    let bytes = found.machine.scratch()?.device.as_ref()?.read_ahead_bytes?;
    Some(format!(" up to {}", Shown::of(bytes as f64, Unit::Bytes)))
}

/// The setting of transparent huge pages.
fn huge_pages(machine: &Machine) -> Option<&str> {
    machine.memory.transparent_huge_pages.as_ref().map(|fact| fact.value.as_str())
}

fn no_huge_pages(machine: &Machine) -> bool {
    huge_pages(machine) == Some("never")
}

fn always_huge_pages(machine: &Machine) -> bool {
    huge_pages(machine) == Some("always")
}

/// The logarithm of a ratio beyond what is usual.
fn weight(ratio: &Ratio, usual: f64) -> f64 {
    (ratio.least / usual).ln().max(0.0)
}

/// Whether an insight can rest on a result.
fn is_settled(metric: &Metric) -> bool {
    matches!(metric.grade, Grade::Good | Grade::Rough)
}

/// A sentence with values at their places.
fn fill(text: &str, values: impl IntoIterator<Item = Shown>) -> String {
    let numbered = values.into_iter().enumerate();
    numbered.fold(text.to_owned(), |text, (place, value)| text.replace(&format!("{{{place}}}"), &value.to_string()))
}

/// The figure of an operand with its factor.
fn whole(part: &Evaluated<'_>) -> Option<Metric> {
    part.figure.map(|figure| scaled(figure, part.value / figure.value))
}

/// The first over the second.
fn ratio(large: &Evaluated<'_>, small: &Evaluated<'_>, at_least: f64) -> Option<Ratio> {
    match (whole(large), whole(small)) {
        (Some(large), Some(small)) => Ratio::of(&large, &small, at_least),
        _ => Ratio::between((large.value, large.interval), (small.value, small.interval), at_least),
    }
}

impl<'a> Found<'a> {
    /// A result that is settled: an insight rests on no other.
    fn settled(&self, wanted: FigureName) -> Option<&'a Metric> {
        wanted.find(self.metrics.iter().copied()).filter(|metric| is_settled(metric))
    }

    fn all_settled(&self) -> impl Iterator<Item = &'a Metric> {
        self.metrics.iter().copied().filter(|metric| is_settled(metric))
    }

    /// The words of clauses that hold here.
    fn words(&self, clauses: &[Clause]) -> String {
        let text = |clause: &Clause| match *clause {
            Always(text) => Some(text.to_owned()),
            Guest(text) => self.machine.is_guest().then(|| text.to_owned()),
            NoGuest(text) => (!self.machine.is_guest()).then(|| text.to_owned()),
            When(holds, text) => holds(self.machine).then(|| text.to_owned()),
            With(text, of) => {
                let values: Option<Vec<Shown>> = of.iter().map(|of| self.settled(*of).map(Metric::shown)).collect();
                Some(fill(text, values?))
            }
            By(of) => of(self),
        };
        clauses.iter().filter_map(text).collect()
    }

    /// A sentence on a figure.
    fn say(&self, weight: f64, of: &Metric, text: String, why: String, advice: String) -> Weighted {
        let section =
            self.sections.iter().find(|section| section.metrics.iter().any(|metric| std::ptr::eq(metric, of)));
        let section = section.map_or_else(String::new, |section| section.id.clone());
        let kind = HighlightKind::Bottleneck;
        (weight, Highlight { kind, text, section, why: Some(why), advice: Some(advice) })
    }

    /// What a row says of this run.
    fn told(&self, row: &Insight) -> Option<Weighted> {
        let of = |operand: &Operand| operand.evaluate(&self.metrics, self.machine).ok();
        let parts = row.of.iter().map(of).collect::<Option<Vec<Evaluated<'_>>>>()?;
        let [large, small, rest @ ..] = &parts[..] else { return None };
        let found = ratio(large, small, if row.always { 1.0 } else { row.usual })?;
        if !parts.iter().filter_map(|part| part.figure).all(is_settled) {
            return None;
        }
        let shown = |part| whole(part).map_or_else(|| Shown::of(0.0, Unit::One), |figure| figure.shown());
        let text = fill(&row.text.replace("{ratio}", &found.text()), parts.iter().map(shown));
        let weight = row.weight[0] + row.weight[1] * weight(&found, row.usual);
        let told = self.say(weight, large.figure?, text, self.words(row.why), self.words(row.advice));
        let Some(costs) = row.kind else { return Some(told) };
        let of_costs = if let [large, small] = rest { large.value / small.value } else { found.value };
        Some(self.for_its_kind(costs, of_costs, told))
    }

    /// The ratio of two costs on machines of this kind, and these machines; none where they are not known.
    fn of_kind(&self, [over, under]: [&str; 2]) -> Option<(f64, &'a str)> {
        let of = |cost: &str| {
            let is = |found: &&Expectation| found.ground == Ground::Kind && found.cost == cost;
            self.expectations.iter().find(is)
        };
        let (over, under) = (of(over)?, of(under)?);
        (over.unit == under.unit).then(|| (over.value / under.value, over.machines.as_str()))
    }

    /// An insight about the ratio of two costs: lighter where other machines of the kind have the same, which its reason then says.
    fn for_its_kind(&self, costs: [&str; 2], ratio: f64, (weight, mut found): Weighted) -> Weighted {
        let Some((usual, machines)) = self.of_kind(costs) else { return (weight, found) };
        let is_ordinary = (ratio / usual).ln().abs() <= ORDINARY.ln();
        if let Some(why) = &mut found.why {
            *why += &format!(" Machines of the kind ({machines}) have a ratio of {}.", times(usual));
        }
        (if is_ordinary { ORDINARY_WEIGHT * weight } else { weight + (ratio / usual).ln().abs() }, found)
    }

    /// A kernel entry that is slower than its prediction, with the mitigations that are in force.
    fn entry(&self) -> Option<Weighted> {
        let call = self.settled(KERNEL_ENTRY)?;
        let predicted =
            call.prediction.as_ref().filter(|found| call.interval95[0] > found.high && found.value > 0.0)?;
        let cycles = call.cycles_shown().map_or_else(String::new, |cycles| format!(" ({cycles} cycles)"));
        let over = times(call.value / predicted.value);
        let text = format!("An empty system call takes {}{cycles}, {over} times the prediction.", call.shown());
        let mitigations = mitigations(self.machine);
        let why = if mitigations.is_empty() {
            "The kernel reports no mitigation in force, so the cause is elsewhere.".to_owned()
        } else {
            format!("Mitigations in force add work at each kernel entry: {}.", mitigations.join(", "))
        };
        let batched = self.settled(BATCHED_CALL).filter(|batched| Ratio::of(call, batched, 1.0).is_some());
        let advice = match batched {
            Some(_) => {
                With("Combine small system calls. In a batch of io_uring an operation takes {0}.", &[BATCHED_CALL])
            }
            None => Always("Combine small system calls, for example by larger buffers."),
        };
        let weight = 0.5 + (call.interval95[0] / predicted.value).ln();
        Some(self.say(weight, call, text, why, self.words(&[advice])))
    }

    /// Several CPUs that read no more from memory than one does.
    fn one_cpu_fills_memory(&self) -> Option<Weighted> {
        /// Most times that several CPUs read more: a smaller gain is within the usual intervals of bandwidth.
        const ALIKE: f64 = 1.2;
        let threads = |metric: &Metric| metric.labels.get("threads").and_then(|count| count.parse::<u32>().ok());
        let reads = self.all_settled().filter(|metric| MEMORY_READS.is(&metric.name, &metric.labels));
        let several = reads.max_by_key(|metric| threads(metric))?;
        let count = threads(several).filter(|&count| count > 1)?;
        let one = self.settled(MEMORY_READ)?;
        let most = several.interval95[1] / one.interval95[0];
        if Order::of(several, one) == Order::Open || most > ALIKE {
            return None;
        }
        let (one, together) = (one.shown(), several.shown());
        let text = format!("One CPU reads {one} from memory, and {count} CPUs read {together} together.");
        let why = "One CPU already uses the memory bandwidth that these CPUs get together.";
        let advice = "Expect no gain from threads in work that streams through memory. Make its data smaller.";
        let weight = 0.5 * (f64::from(count) / most).ln().max(0.0);
        Some(self.say(weight, several, text, why.to_owned(), advice.to_owned()))
    }

    /// What costs most more while another guest uses the core.
    fn neighbour(&self) -> Option<Weighted> {
        const USUAL: f64 = 1.1;
        let timed = self.all_settled().filter(|metric| metric.headline && metric.unit == Unit::Nanoseconds);
        let slowed = timed.filter_map(|metric| {
            metric.tax()?;
            let beside = metric.shared?;
            let ratio = Ratio::between((beside.value, beside.interval95), (metric.value, metric.interval95), USUAL)?;
            Some((metric, beside, ratio))
        });
        let (metric, beside, ratio) = slowed.max_by(|one, other| one.2.least.total_cmp(&other.2.least))?;
        let text = format!(
            "A neighbour on the core slows programs down: {} takes {} with one and {} alone.",
            metric.phrase,
            Shown::measured(beside.value, beside.interval95, metric.unit),
            metric.shown()
        );
        let why = format!(
            "The two hardware threads of a core share its units. A neighbour was there in {} of the batches of this result.",
            percent(beside.share)
        );
        let advice = "Use a machine whose cores are not shared with others, or expect times between these two.";
        Some(self.say(weight(&ratio, USUAL), metric, text, why, advice.to_owned()))
    }

    /// A cache that ends earlier than is claimed.
    fn caches(&self) -> Option<Weighted> {
        const USUAL: f64 = 1.5;
        let last = self.machine.last_level_cache(self.cpu)?;
        let claim = last.size_bytes.best()?.value as f64;
        let name = format!("L{}", last.level);
        let is = |metric: &&&Metric| {
            metric.labels.get("level") == Some(name.as_str()) && CACHE_SIZE.is(&metric.name, &metric.labels)
        };
        let size = self.metrics.iter().find(is).filter(|size| is_settled(size))?;
        let least = claim / size.interval95[1];
        if least < USUAL {
            return None;
        }
        let claim = Shown::of(claim, Unit::Bytes);
        let text = format!("The {name} cache ends at {}, not at the claimed {claim}.", size.shown());
        let why = self.words(&[
            Guest("Other tenants of the host also use it, or the hypervisor gives this machine a part of it."),
            NoGuest("Other CPUs also use it, or it is divided into parts."),
        ]);
        let advice = format!("Size working sets for {}.", Shown::of(size.interval95[0], Unit::Bytes));
        Some(self.say((least / USUAL).ln(), size, text, why, advice))
    }

    /// Another CPU of this machine on the core of the measured one, where no sibling is visible.
    fn own_cpus(&self) -> Option<Weighted> {
        /// Neighbours that come and leave make no more than this.
        const LEAST: f64 = 0.05;
        let all = self.metrics.iter().filter(|metric| OWN_CPU.is(&metric.name, &metric.labels));
        let known = all.filter(|metric| !metric.grade.has_foreign_part());
        let metric = known.max_by(|one, other| one.value.total_cmp(&other.value))?;
        if metric.value < LEAST {
            return None;
        }
        let text = format!(
            "Another CPU of this machine was on the core of CPU {} for {} of the time, although no sibling is visible.",
            self.cpu,
            percent(metric.value)
        );
        let why =
            "The host moves virtual CPUs between the threads of its cores. Two tasks on one core share its speed.";
        let advice = "Expect work on two CPUs to vary, and ask the provider whether dedicated cores are available.";
        // From 0.7 for a twentieth of the time to 3.0 for all of it.
        Some(self.say((1.0 + metric.value / LEAST).ln(), metric, text, why.to_owned(), advice.to_owned()))
    }

    /// The headline figures outside of their predicted ranges, farthest first, one of each metric.
    fn surprises(&self) -> Vec<Weighted> {
        let far = |metric: &'a Metric| {
            let against = metric.verdict.against_prediction;
            let is_outside = matches!(against, AgainstPrediction::Faster | AgainstPrediction::Slower);
            let predicted = metric.prediction.as_ref().filter(|_| metric.headline && is_outside)?;
            // The whole interval lies outside of the range.
            let [low, high] = metric.interval95;
            let far = (metric.ratio()?.ln().abs(), metric);
            (far.0.is_finite() && (high < predicted.low || low > predicted.high)).then_some(far)
        };
        let mut found: Vec<(f64, &Metric)> = self.all_settled().filter_map(far).collect();
        found.sort_by(|one, other| other.0.total_cmp(&one.0));
        let mut told: Vec<&str> = Vec::new();
        found.retain(|(_, metric)| {
            let is_first = !told.contains(&metric.name.as_str());
            told.push(&metric.name);
            is_first
        });
        found.into_iter().take(SURPRISES).filter_map(|(far, metric)| self.surprise(far, metric)).collect()
    }

    fn surprise(&self, far: f64, metric: &Metric) -> Option<Weighted> {
        let text = format!("{}.", capital(&against_prediction(&metric.phrase, metric)?));
        let (weight, told) = self.say(0.8 * far, metric, text, String::new(), String::new());
        Some((weight, Highlight { kind: HighlightKind::Surprise, why: None, advice: None, ..told }))
    }
}

/// What settled figures say, the weightiest first. Misses of predictions are last: they say least about what to do.
pub fn insights(sections: &[Section], machine: &Machine, cpu: u32, expectations: &[Expectation]) -> Vec<Weighted> {
    let metrics = sections.iter().flat_map(|section| &section.metrics).collect();
    let found = Found { sections, metrics, machine, cpu, expectations };
    let others = [Found::entry, Found::one_cpu_fills_memory, Found::neighbour, Found::own_cpus, Found::caches];
    let mut all: Vec<Weighted> = others.iter().filter_map(|of| of(&found)).collect();
    let mut before = false;
    for row in ROWS {
        let told = if row.otherwise && before { None } else { found.told(row) };
        before = told.is_some();
        all.extend(told);
    }
    all.sort_by(|one, other| other.0.total_cmp(&one.0));
    all.extend(found.surprises());
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::TABLE;

    #[test]
    fn sentences_name_operands_that_exist() {
        for row in ROWS {
            for (place, operand) in row.of.iter().enumerate() {
                let Operand::Figure(_, figure) = operand else { continue };
                let metric = figure.metric();
                assert!(TABLE.iter().any(|experiment| experiment.publication(metric).is_some()), "{metric}");
                assert!(place < 2 || row.text.contains(&format!("{{{place}}}")), "{}", row.text);
            }
            let shown = fill(&row.text.replace("{ratio}", "2"), row.of.iter().map(|_| Shown::of(1.0, Unit::One)));
            assert!(!shown.contains(['{', '}']), "{shown}");
        }
    }
}
