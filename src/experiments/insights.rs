//! What somebody who runs programs on this machine should know: comparisons of figures, each only where the intervals support it,
//! with the reason that a fact of the machine gives, and what to do.

use crate::machine::Machine;
use crate::results::document::{Grade, Highlight, HighlightKind, Metric, Section};
use crate::results::prediction::Prediction;
use crate::results::quantity::Unit;
use crate::results::ratio::{Ratio, against_prediction, scaled};
use crate::results::verdict::AgainstPrediction;
use crate::results::wording::{Shown, capital};

use super::models::primitives::{
    DIRECT_READ, ECHO_ON_ONE_CPU, ECHO_ON_TWO_CPUS, IDLE_WAKE_UP, KERNEL_ENTRY, MEMORY_LOAD, Primitive, SWITCH,
    WRITE_FAULT,
};

/// Most misses of predictions among the insights.
const SURPRISES: usize = 2;

/// A sentence with its weight: about the logarithm of what it costs beside what people expect.
pub type Weighted = (f64, Highlight);

/// The figures of a run and the machine that they are of.
struct Found<'a> {
    sections: &'a [Section],
    machine: &'a Machine,
    cpu: u32,
}

/// The logarithm of a ratio beyond what is usual.
fn weight(ratio: &Ratio, usual: f64) -> f64 {
    (ratio.least / usual).ln().max(0.0)
}

fn time(metric: &Metric) -> Shown {
    metric.shown()
}

impl<'a> Found<'a> {
    fn find(&self, wanted: Primitive) -> Option<(&'a Section, &'a Metric)> {
        let is = |metric: &&Metric| wanted.is(&metric.name, &metric.labels);
        self.sections.iter().find_map(|section| Some((section, section.metrics.iter().find(is)?)))
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
        Some(told(weight(&ratio, USUAL), section, text, &why, "Pin tasks that exchange messages to the same CPU."))
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
        let huge =
            self.find(Primitive::of("memory.page_fault.time", &[("kind", "huge_anonymous")])).and_then(|(_, huge)| {
                let gain = Ratio::of(&scaled(write, 512.0), huge, 1.5)?;
                Some(format!(" Huge pages need {} times less time for the same bytes.", gain.text()))
            });
        let advice = format!("Reuse memory.{}", huge.unwrap_or_default());
        Some(told(weight(&ratio, USUAL), section, text, why, &advice))
    }

    /// What a fork costs for each GiB of the parent.
    fn fork(&self) -> Option<Weighted> {
        const USUAL: f64 = 10e6;
        const PAGES: f64 = 262_144.0;
        let (section, page) = self.find(Primitive::of("os.process_creation.per_page", &[("how", "fork_wait")]))?;
        if page.interval95[0] * PAGES < USUAL || page.grade == Grade::Contaminated {
            return None;
        }
        let text = format!(
            "fork and wait take {} longer for each GiB of memory in the parent ({} per 4 KiB page).",
            scaled(page, PAGES).shown(),
            time(page)
        );
        let spawn = self.find(Primitive::of(
            "os.process_creation.time",
            &[("how", "posix_spawn_wait"), ("image", "static"), ("resident", "67108864")],
        ));
        let spawn = spawn.map_or_else(String::new, |(_, spawn)| {
            format!(" posix_spawn from a parent of 64 MiB takes {}.", time(spawn))
        });
        let why = format!("The kernel copies the page table of the parent.{spawn}");
        let weight = (page.interval95[0] * PAGES / USUAL).ln();
        Some(told(weight, section, text, &why, "Use posix_spawn in large processes."))
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
            "The dynamic loader maps libraries and resolves symbols, and most of this causes page faults.",
            "Link tools that run often and briefly statically, or keep them running.",
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
        if least < USUAL || size.grade == Grade::Contaminated {
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
        let (_, one) = self.find(DIRECT_READ)?;
        let (section, many) = self.find(Primitive::of("file.read.depth_rate", &[("depth", "32")]))?;
        // One read after the other, as a rate.
        let of_one = |nanoseconds: f64| 4096.0 / nanoseconds * 1e9;
        let [low, high] = one.interval95;
        let single = Metric {
            value: of_one(one.value),
            interval95: [of_one(high), of_one(low)],
            unit: many.unit,
            ..one.clone()
        };
        let gain = Ratio::of(many, &single, USUAL)?;
        let text = format!(
            "The device serves 32 concurrent reads {} times as fast as one read at a time ({} each).",
            gain.text(),
            time(one)
        );
        Some(told(
            0.5 * weight(&gain, USUAL),
            section,
            text,
            "A single reader waits each time for the whole path to the device.",
            "Keep several reads in flight: io_uring, threads, or read-ahead.",
        ))
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
            for metric in section.metrics.iter().filter(|metric| metric.headline && metric.grade != Grade::Contaminated)
            {
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

/// What figures say, the weightiest first.
pub fn insights(sections: &[Section], machine: &Machine, cpu: u32) -> Vec<Weighted> {
    let found = Found { sections, machine, cpu };
    let single = [
        found.waking(),
        found.faults(),
        found.fork(),
        found.linking(),
        found.memory(),
        found.translation(),
        found.caches(),
        found.device(),
        found.clock(),
    ];
    let mut all: Vec<Weighted> = single.into_iter().flatten().chain(found.surprises()).collect();
    all.sort_by(|one, other| other.0.total_cmp(&one.0));
    all
}
