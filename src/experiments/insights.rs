//! What a user who runs programs on this machine should know. These are comparisons of figures, each only where the intervals
//! support it. Each has the reason that a fact of the machine gives, and what to do.

use crate::experiments::prelude::*;
use crate::results::document::{Grade, Highlight, HighlightKind, Section};
use crate::results::expectation::{Expectation, Ground};
use crate::results::ratio::{Order, against_prediction, scaled};
use crate::results::verdict::AgainstPrediction;
use crate::results::wording::{capital, times};

use super::models::primitives::{
    ECHO_ON_ONE_CPU, ECHO_ON_TWO_CPUS, IDLE_WAKE_UP, KERNEL_ENTRY, MEMORY_LOAD, Primitive, SWITCH, WRITE_FAULT,
};

/// Most misses of predictions among the insights.
const SURPRISES: usize = 2;

/// A sentence with its weight: about the logarithm of what it costs relative to what people expect.
pub type Weighted = (f64, Highlight);

/// The figures of a run and the machine that they are of.
struct Found<'a> {
    sections: &'a [Section],
    machine: &'a Machine,
    cpu: u32,
    expectations: &'a [Expectation],
}

/// A ratio of two costs within this factor of that of other machines is ordinary for the kind.
const ORDINARY: f64 = 1.25;
/// What is ordinary has this part of its weight: what is special about a machine comes first.
const ORDINARY_WEIGHT: f64 = 0.3;

/// The logarithm of a ratio beyond what is usual.
fn weight(ratio: &Ratio, usual: f64) -> f64 {
    (ratio.least / usual).ln().max(0.0)
}

/// Whether an insight can rest on a result.
fn is_settled(metric: &Metric) -> bool {
    matches!(metric.grade, Grade::Good | Grade::Rough)
}

fn time(metric: &Metric) -> Shown {
    metric.shown()
}

impl<'a> Found<'a> {
    /// A result that is settled: an insight rests on no other.
    fn find(&self, wanted: Primitive) -> Option<(&'a Section, &'a Metric)> {
        let is = |metric: &&Metric| wanted.is(&metric.name, &metric.labels);
        let found = self.sections.iter().find_map(|section| Some((section, section.metrics.iter().find(is)?)));
        found.filter(|(_, metric)| is_settled(metric))
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

    /// A wake-up of another CPU over a switch on the same one.
    fn waking(&self) -> Option<Weighted> {
        const USUAL: f64 = 3.0;
        let ((section, there), (_, here)) = (self.find(IDLE_WAKE_UP)?, self.find(SWITCH)?);
        let ratio = Ratio::of(there, here, USUAL)?;
        let text = format!(
            "Waking a sleeping CPU takes {}, {} times a switch on the same CPU ({}).",
            time(there),
            ratio.text(),
            time(here)
        );
        let mut why = if self.machine.is_guest() {
            "An idle CPU of a virtual machine usually returns to the hypervisor, which has to schedule it again."
                .to_owned()
        } else {
            "An idle CPU has to leave its sleep state first.".to_owned()
        };
        if let (Some((_, one)), Some((_, two))) = (self.find(ECHO_ON_ONE_CPU), self.find(ECHO_ON_TWO_CPUS)) {
            why += &format!(
                " A TCP round trip on the loopback takes {} with both sides on one CPU and {} on two.",
                time(one),
                time(two)
            );
        }
        if let Some(quantiles) = there.quantiles.filter(|quantiles| quantiles.p99 > 1.5 * there.value) {
            let longest = Shown::of(quantiles.p99, there.unit);
            why += &format!(" In 1 % of the batches a wake-up took {longest} or more.");
        }
        let polls = self.machine.kernel.idle_driver.as_ref().is_some_and(|driver| driver.value == "haltpoll");
        if polls {
            why += " A larger guest_halt_poll_ns keeps idle CPUs awake, and that uses CPU time.";
        }
        let found =
            told(weight(&ratio, USUAL), section, text, &why, "Pin tasks that exchange messages to the same CPU.");
        Some(self.for_its_kind(["wake idle CPU", "switch, same CPU"], ratio.value, found))
    }

    /// The first write to a page over an empty system call.
    fn faults(&self) -> Option<Weighted> {
        const USUAL: f64 = 8.0;
        let ((section, write), (_, call)) = (self.find(WRITE_FAULT)?, self.find(KERNEL_ENTRY)?);
        let ratio = Ratio::of(write, call, USUAL)?;
        let text = format!(
            "The first write to a page takes {}, as long as {} empty system calls ({}).",
            time(write),
            ratio.text(),
            time(call)
        );
        let why = if self.machine.is_guest() {
            "The hypervisor's page tables probably make each fault slower."
        } else {
            "The kernel clears the page and changes the page table."
        };
        let found = told(weight(&ratio, USUAL), section, text, why, "Reuse memory.");
        Some(self.for_its_kind(["page fault", "system call"], ratio.value, found))
    }

    /// The first touch of memory with small pages over that with huge ones.
    fn huge_pages(&self) -> Option<Weighted> {
        const USUAL: f64 = 1.5;
        const MEBIBYTES: f64 = 1024.0;
        let touch = |pages| self.find(Primitive::of("memory.page_fault.first_touch", pages));
        let ((section, small), (_, huge)) = (touch(&[("pages", "4k")])?, touch(&[("pages", "huge")])?);
        let ratio = Ratio::of(small, huge, USUAL)?;
        let of_a_gibibyte = |metric: &Metric| scaled(metric, MEBIBYTES).shown();
        let text = format!(
            "The first touch of 1 GiB takes {} with 4 KiB pages and {} with huge pages, {} times less.",
            of_a_gibibyte(small),
            of_a_gibibyte(huge),
            ratio.text()
        );
        let page = if self.machine.is_guest() {
            "Each page costs a fault, which in a guest can also need work of the hypervisor."
        } else {
            "Each page costs a fault, and a huge page takes the place of many small ones."
        };
        let setting = self.machine.memory.transparent_huge_pages.as_ref().map(|fact| fact.value.as_str());
        let (here, advice) = match setting {
            Some("always") => ("", "Align large buffers to the size of a huge page."),
            Some("never") => (
                " Programs get no huge pages here (/sys/kernel/mm/transparent_hugepage/enabled).",
                "Allow huge pages: set them to madvise.",
            ),
            Some("madvise") => {
                (" Only programs that ask get huge pages here.", "Use madvise(MADV_HUGEPAGE) for large buffers.")
            }
            _ => ("", "Use madvise(MADV_HUGEPAGE) for large buffers."),
        };
        Some(told(weight(&ratio, USUAL), section, text, &format!("{page}{here}"), advice))
    }

    /// A kernel entry that is slower than its prediction, with the mitigations that are in force.
    fn entry(&self) -> Option<Weighted> {
        const BASE: f64 = 0.5;
        let (section, call) = self.find(KERNEL_ENTRY)?;
        let predicted =
            call.prediction.as_ref().filter(|found| call.interval95[0] > found.high && found.value > 0.0)?;
        let cycles = call.cycles_shown().map_or_else(String::new, |cycles| format!(" ({cycles} cycles)"));
        let text = format!(
            "An empty system call takes {}{cycles}, {} times the prediction.",
            time(call),
            times(call.value / predicted.value)
        );
        let mitigations = self.mitigations();
        let why = if mitigations.is_empty() {
            "The kernel reports no mitigation in force, so the cause is elsewhere.".to_owned()
        } else {
            format!("Mitigations in force add work at each kernel entry: {}.", mitigations.join(", "))
        };
        let batched = self.find(Primitive::of("os.system_call.time", &[("call", "io_uring_nop_batched")]));
        let gain = batched.and_then(|(_, batched)| Some((batched, Ratio::of(call, batched, 1.0)?)));
        let advice = gain.map_or_else(
            || "Combine small system calls, for example by larger buffers.".to_owned(),
            |(batched, _)| {
                format!("Combine small system calls. In a batch of io_uring an operation takes {}.", time(batched))
            },
        );
        Some(told(BASE + (call.interval95[0] / predicted.value).ln(), section, text, &why, &advice))
    }

    /// The mitigations that are in force, by the names of the kernel.
    fn mitigations(&self) -> Vec<&'a str> {
        let known = self.machine.kernel.mitigations.iter();
        let in_force = known.filter(|mitigation| mitigation.state.starts_with("Mitigation"));
        in_force.map(|mitigation| mitigation.vulnerability.as_str()).collect()
    }

    /// Random reads of a file that is not cached over sequential ones.
    fn order(&self) -> Option<Weighted> {
        const USUAL: f64 = 5.0;
        let of = |labels| self.find(Primitive::of("file.read.block_time", labels));
        let (section, random) = of(&[("cache", "cold"), ("order", "random"), ("bytes", "67108864")])?;
        let (_, sequential) = of(&[("cache", "cold"), ("order", "sequential"), ("bytes", "67108864")])?;
        let ratio = Ratio::of(random, sequential, USUAL)?;
        let text = format!(
            "Reading 4 KiB that are not cached takes {} in random order and {} in sequential order.",
            time(random),
            time(sequential)
        );
        let ahead = self.machine.storage.iter().find(|found| found.scratch);
        let ahead = ahead.and_then(|found| found.device.as_ref()?.read_ahead_bytes);
        let why = ahead.map_or_else(
            || "In sequential order the kernel reads ahead.".to_owned(),
            |bytes| {
                format!("In sequential order the kernel reads up to {} ahead.", Shown::of(bytes as f64, Unit::Bytes))
            },
        );
        let advice = "Read files in order, or announce random reads with posix_fadvise and keep several in flight.";
        Some(told(0.5 * weight(&ratio, USUAL), section, text, &why, advice))
    }

    /// Stores to memory that bypass the caches over ordinary ones.
    fn stores(&self) -> Option<Weighted> {
        const USUAL: f64 = 1.5;
        let of = |labels| self.find(Primitive::of("memory.bandwidth.rate", labels));
        let (section, bypassing) = of(&[("level", "DRAM"), ("operation", "write_nt"), ("threads", "1")])?;
        let (_, ordinary) = of(&[("level", "DRAM"), ("operation", "write"), ("threads", "1")])?;
        let ratio = Ratio::of(bypassing, ordinary, USUAL)?;
        let text = format!(
            "One CPU writes {} to memory, and {} with stores that bypass the caches ({} times).",
            time(ordinary),
            time(bypassing),
            ratio.text()
        );
        Some(told(
            weight(&ratio, USUAL),
            section,
            text,
            "An ordinary store reads its cache line first, so it needs the memory twice.",
            "Use non-temporal stores for large data that is not read again soon.",
        ))
    }

    /// Several CPUs that read no more from memory than one does.
    fn one_cpu_fills_memory(&self) -> Option<Weighted> {
        /// Most times that several CPUs read more: a smaller gain is within the usual intervals of bandwidth.
        const ALIKE: f64 = 1.2;
        const ONE: Primitive =
            Primitive::of("memory.bandwidth.rate", &[("level", "DRAM"), ("operation", "read"), ("threads", "1")]);
        let wanted = Primitive::of("memory.bandwidth.rate", &[("level", "DRAM"), ("operation", "read")]);
        let threads = |metric: &Metric| metric.labels.get("threads").and_then(|count| count.parse::<u32>().ok());
        let all = self.sections.iter().flat_map(|section| section.metrics.iter().map(move |metric| (section, metric)));
        let reads = all.filter(|(_, metric)| wanted.is(&metric.name, &metric.labels) && is_settled(metric));
        let (section, several) = reads.max_by_key(|(_, metric)| threads(metric))?;
        let count = threads(several).filter(|&count| count > 1)?;
        let (_, one) = self.find(ONE)?;
        let most = several.interval95[1] / one.interval95[0];
        if Order::of(several, one) == Order::Open || most > ALIKE {
            return None;
        }
        let text =
            format!("One CPU reads {} from memory, and {count} CPUs read {} together.", time(one), time(several));
        let why = "One CPU already uses the memory bandwidth that these CPUs get together.";
        let advice = "Expect no gain from threads in work that streams through memory. Make its data smaller.";
        Some(told(0.5 * (f64::from(count) / most).ln().max(0.0), section, text, why, advice))
    }

    /// Sleeps that end late.
    fn sleeping(&self) -> Option<Weighted> {
        /// The timer slack that the kernel gives a task, in nanoseconds (man 2 prctl, PR_SET_TIMERSLACK).
        const SLACK: f64 = 50_000.0;
        let of = |labels| self.find(Primitive::of("os.sleep.oversleep", labels));
        let (section, late) = of(&[("requested", "100000"), ("quantile", "p50"), ("slack", "default")])?;
        let least = of(&[("requested", "100000"), ("quantile", "p50"), ("slack", "least")]);
        let ratio = Ratio::between((late.value, late.interval95), (SLACK, [SLACK; 2]), 1.0)?;
        let text = format!("A sleep of 100 µs ends {} late.", time(late));
        let least = least.map(|(_, least)| format!(" With the least slack it ends {} late.", time(least)));
        let why =
            format!("The kernel adds a timer slack, and an idle CPU takes time to wake.{}", least.unwrap_or_default());
        let advice = "Set a smaller slack with prctl(PR_SET_TIMERSLACK), and wait for events in place of short sleeps.";
        Some(told(weight(&ratio, 1.0), section, text, &why, advice))
    }

    /// A byte through a socket over one through a pipe.
    fn channels(&self) -> Option<Weighted> {
        const USUAL: f64 = 1.5;
        let of = |labels| self.find(Primitive::of("os.channel.time", labels));
        let (section, socket) = of(&[("through", "unix_stream"), ("bytes", "1")])?;
        let (_, pipe) = of(&[("through", "pipe"), ("bytes", "1")])?;
        let ratio = Ratio::of(socket, pipe, USUAL)?;
        let text = format!(
            "A byte through a UNIX stream socket takes {}, {} times as long as through a pipe ({}).",
            time(socket),
            ratio.text(),
            time(pipe)
        );
        let why =
            "A socket makes a buffer for each message and accounts for it. A pipe writes into a page that it keeps.";
        let advice = "Use a pipe between two processes of one machine, or send many small messages in one call.";
        Some(told(0.5 * weight(&ratio, USUAL), section, text, why, advice))
    }

    /// What costs most more while another guest uses the core.
    fn neighbour(&self) -> Option<Weighted> {
        const USUAL: f64 = 1.1;
        let all = self.sections.iter().flat_map(|section| section.metrics.iter().map(move |metric| (section, metric)));
        let timed = all.filter(|(_, metric)| metric.headline && metric.unit == Unit::Nanoseconds && is_settled(metric));
        let slowed = timed.filter_map(|(section, metric)| {
            metric.tax()?;
            let beside = metric.shared?;
            let ratio = Ratio::between((beside.value, beside.interval95), (metric.value, metric.interval95), USUAL)?;
            Some((section, metric, beside, ratio))
        });
        let (section, metric, beside, ratio) = slowed.max_by(|one, other| one.3.least.total_cmp(&other.3.least))?;
        let text = format!(
            "A neighbour on the core slows programs down: {} takes {} with one and {} alone.",
            metric.phrase,
            Shown::measured(beside.value, beside.interval95, metric.unit),
            time(metric)
        );
        let why = format!(
            "The two hardware threads of a core share its units. A neighbour was there in {} of the batches of this result.",
            percent(beside.share)
        );
        let advice = "Use a machine whose cores are not shared with others, or expect times between these two.";
        Some(told(weight(&ratio, USUAL), section, text, &why, advice))
    }

    /// What a fork costs in a parent with memory.
    fn fork(&self) -> Option<Weighted> {
        const USUAL: f64 = 10e6;
        const PAGES_PER_GIBIBYTE: f64 = 262_144.0;
        let (section, page) = self.find(Primitive::of("os.process_creation.per_page", &[("how", "fork_wait")]))?;
        let slope = page.interval95[0] * PAGES_PER_GIBIBYTE;
        let of = |labels| self.find(Primitive::of("os.process_creation.time", labels));
        let of_256 = || of(&[("how", "fork_wait"), ("resident", "268435456"), ("pages", "4k")]);
        let of_64 = || of(&[("how", "fork_wait"), ("resident", "67108864"), ("pages", "4k")]);
        let (size, (_, large)) = of_256().map(|found| ("256 MiB", found)).or_else(|| Some(("64 MiB", of_64()?)))?;
        let (_, small) = of(&[("how", "fork_wait"), ("resident", "0"), ("child", "same_cpu")])?;
        if slope < USUAL {
            return None;
        }
        let text = format!(
            "fork and wait take {} in a parent with {size} on 4 KiB pages, and {} in a small one.",
            time(large),
            time(small)
        );
        let spawn = self.find(Primitive::of(
            "os.process_creation.time",
            &[("how", "posix_spawn_wait"), ("image", "static"), ("resident", "67108864")],
        ));
        let spawn = spawn.map_or_else(String::new, |(_, spawn)| {
            format!(" posix_spawn from a parent of 64 MiB takes {}.", time(spawn))
        });
        let why = format!(
            "fork copies the page table of the parent, and the exit of the child removes it. Up to 64 MiB, that takes {} for \
             each page.{spawn}",
            time(page)
        );
        let weight = (slope / USUAL).ln();
        let found = told(weight, section, text, &why, "Use posix_spawn in large processes.");
        let ratio = large.value / small.value;
        Some(if size == "256 MiB" { self.for_its_kind(["fork, 256 MiB", "fork + wait"], ratio, found) } else { found })
    }

    /// A dynamically linked program over a static one.
    fn linking(&self) -> Option<Weighted> {
        const USUAL: f64 = 2.0;
        let of = |image| self.find(Primitive::of("os.process_creation.time", image));
        let (section, dynamic) = of(&[("how", "fork_exec_wait"), ("image", "dynamic"), ("child", "same_cpu")])?;
        let (_, fixed) = of(&[("how", "fork_exec_wait"), ("image", "static"), ("child", "same_cpu")])?;
        let ratio = Ratio::of(dynamic, fixed, USUAL)?;
        let text = format!(
            "Starting a dynamically linked program takes {}, {} times as long as a static one ({}).",
            time(dynamic),
            ratio.text(),
            time(fixed)
        );
        Some(told(
            0.6 * weight(&ratio, USUAL),
            section,
            text,
            "The loader maps libraries and resolves symbols, and libraries start up. The static program has two instructions.",
            "Statically link tools that run often and briefly, or keep them running.",
        ))
    }

    /// A load from memory over one from the first cache.
    fn memory(&self) -> Option<Weighted> {
        const USUAL: f64 = 100.0;
        let ((section, far), (_, near)) =
            (self.find(MEMORY_LOAD)?, self.find(Primitive::of("memory.latency.level", &[("level", "L1")]))?);
        let ratio = Ratio::of(far, near, 1.0)?;
        let text =
            format!("A load from memory takes {}, as long as {} L1 loads ({}).", time(far), ratio.text(), time(near));
        Some(told(
            0.3 + weight(&ratio, USUAL),
            section,
            text,
            "The load misses every cache level.",
            "Keep data that is used together in the same cache lines, and working sets in the caches.",
        ))
    }

    /// Random loads with small pages over those with huge ones.
    fn translation(&self) -> Option<Weighted> {
        const USUAL: f64 = 1.15;
        let (section, small) =
            self.find(Primitive::of("memory.latency.level", &[("level", "DRAM"), ("pages", "4k")]))?;
        let (_, huge) = self.find(MEMORY_LOAD)?;
        let ratio = Ratio::of(small, huge, USUAL)?;
        let text = format!(
            "Huge pages make random loads from memory {} times faster ({} against {}).",
            ratio.text(),
            time(huge),
            time(small)
        );
        Some(told(
            2.0 * weight(&ratio, USUAL),
            section,
            text,
            "With 4 KiB pages most loads also miss the TLB.",
            "Use madvise(MADV_HUGEPAGE) for large heaps with random access.",
        ))
    }

    /// A cache that ends earlier than is claimed.
    fn caches(&self) -> Option<Weighted> {
        const USUAL: f64 = 1.5;
        let last = self.machine.last_level_cache(self.cpu)?;
        let claim = last.size_bytes.best()?.value as f64;
        let name = format!("L{}", last.level);
        let (section, size) = self.sections.iter().find_map(|section| {
            let is = |metric: &&Metric| {
                metric.name == "memory.latency.level_size" && metric.labels.get("level") == Some(name.as_str())
            };
            Some((section, section.metrics.iter().find(is)?))
        })?;
        let least = claim / size.interval95[1];
        if least < USUAL || !is_settled(size) {
            return None;
        }
        let text =
            format!("The {name} cache ends at {}, not at the claimed {}.", size.shown(), Shown::of(claim, Unit::Bytes));
        let why = if self.machine.is_guest() {
            "Other tenants of the host also use it, or the hypervisor gives this machine a part of it."
        } else {
            "Other CPUs also use it, or it is divided into parts."
        };
        let advice = format!("Size working sets for {}.", Shown::of(size.interval95[0], Unit::Bytes));
        Some(told((least / USUAL).ln(), section, text, why, &advice))
    }

    /// What parallel reads gain over a single one.
    fn device(&self) -> Option<Weighted> {
        const USUAL: f64 = 2.0;
        let (section, many) = self.find(Primitive::of("file.read.depth_rate", &[("depth", "32")]))?;
        let (_, one) = self.find(Primitive::of("file.read.depth_rate", &[("depth", "1")]))?;
        let gain = Ratio::of(many, one, USUAL)?;
        let text = format!(
            "The device serves 32 concurrent reads {} times as fast as one read at a time ({}, not {}).",
            gain.text(),
            many.shown(),
            one.shown()
        );
        Some(told(
            0.5 * weight(&gain, USUAL),
            section,
            text,
            "A single reader waits each time for the whole path to the device.",
            "Keep several reads in flight: io_uring, threads, or read-ahead.",
        ))
    }

    /// Another CPU of this machine on the core of the measured one, where no sibling is visible.
    fn own_cpus(&self) -> Option<Weighted> {
        /// Neighbours that come and leave make no more than this.
        const LEAST: f64 = 0.05;
        let wanted = Primitive::of("cpu.sharing.share", &[("beside", "own_cpu"), ("state", "shared")]);
        let is = |metric: &&Metric| wanted.is(&metric.name, &metric.labels) && !metric.grade.has_foreign_part();
        let found =
            self.sections.iter().flat_map(|section| section.metrics.iter().map(move |metric| (section, metric)));
        let of_share = |one: &(&Section, &Metric), other: &(&Section, &Metric)| one.1.value.total_cmp(&other.1.value);
        let (section, metric) = found.filter(|(_, metric)| is(metric)).max_by(of_share)?;
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
        Some(told((1.0 + metric.value / 0.05).ln(), section, text, why, advice))
    }

    /// A clock that needs a system call.
    fn clock(&self) -> Option<Weighted> {
        const USUAL: f64 = 0.5;
        let (section, clock) = self.find(Primitive::of("cpu.timer.overhead", &[("method", "clock_gettime")]))?;
        let (_, call) = self.find(Primitive::of("cpu.timer.overhead", &[("method", "clock_gettime_syscall")]))?;
        let ratio = Ratio::of(clock, call, USUAL)?;
        let text = format!("Reading the clock takes {}, about as long as a system call.", time(clock));
        Some(told(
            1.0 + weight(&ratio, USUAL),
            section,
            text,
            "Usually the kernel does not trust the time-stamp counter, so the vDSO cannot answer.",
            "Check /sys/devices/system/clocksource/clocksource0/current_clocksource, and choose tsc if it is reliable.",
        ))
    }

    /// The headline figures outside of their predicted ranges, farthest first, one of each metric.
    fn surprises(&self) -> Vec<Weighted> {
        let mut found: Vec<(f64, &Section, &Metric)> = Vec::new();
        for section in self.sections {
            for metric in section.metrics.iter().filter(|metric| metric.headline && is_settled(metric)) {
                let against = metric.verdict.against_prediction;
                if !matches!(against, AgainstPrediction::Faster | AgainstPrediction::Slower) {
                    continue;
                }
                // The whole interval lies outside of the range.
                let outside =
                    |found: &Prediction| metric.interval95[1] < found.low || metric.interval95[0] > found.high;
                if !metric.prediction.as_ref().is_some_and(outside) {
                    continue;
                }
                let Some(far) = metric.ratio().map(|ratio| ratio.ln().abs()).filter(|far| far.is_finite()) else {
                    continue;
                };
                match found.iter_mut().find(|(_, _, other)| other.name == metric.name) {
                    Some(other) if other.0 < far => *other = (far, section, metric),
                    Some(_) => {}
                    None => found.push((far, section, metric)),
                }
            }
        }
        found.sort_by(|one, other| other.0.total_cmp(&one.0));
        found.into_iter().take(SURPRISES).filter_map(|(far, section, metric)| surprise(far, section, metric)).collect()
    }
}

fn surprise(far: f64, section: &Section, metric: &Metric) -> Option<Weighted> {
    let text = format!("{}.", capital(&against_prediction(&metric.phrase, metric)?));
    let highlight =
        Highlight { kind: HighlightKind::Surprise, text, section: section.id.clone(), why: None, advice: None };
    Some((0.8 * far, highlight))
}

fn told(weight: f64, section: &Section, text: String, why: &str, advice: &str) -> Weighted {
    let highlight = Highlight {
        kind: HighlightKind::Bottleneck,
        text,
        section: section.id.clone(),
        why: Some(why.to_owned()),
        advice: Some(advice.to_owned()),
    };
    (weight, highlight)
}

/// What settled figures say, the weightiest first. Misses of predictions are last: they say least about what to do.
pub fn insights(sections: &[Section], machine: &Machine, cpu: u32, expectations: &[Expectation]) -> Vec<Weighted> {
    let found = Found { sections, machine, cpu, expectations };
    let single = [
        found.waking(),
        found.huge_pages().or_else(|| found.faults()),
        found.entry(),
        found.order(),
        found.stores(),
        found.one_cpu_fills_memory(),
        found.sleeping(),
        found.channels(),
        found.neighbour(),
        found.own_cpus(),
        found.fork(),
        found.linking(),
        found.memory(),
        found.translation(),
        found.caches(),
        found.device(),
        found.clock(),
    ];
    let mut all: Vec<Weighted> = single.into_iter().flatten().collect();
    all.sort_by(|one, other| other.0.total_cmp(&one.0));
    all.extend(found.surprises());
    all
}
