//! The constants table: numbers that predictions take from the literature, each with its range and its source.
//!
//! A prediction prefers a fact of this machine or a figure of this run; a constant is what is left. All are overridden by
//! measurement as soon as an experiment publishes the quantity.

use crate::machine::CoreClass;
use crate::results::prediction::Basis;
use crate::results::quantity::{Labels, Nanoseconds};

use super::Foreknowledge;

/// One number with its range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constant {
    /// Name in prediction terms.
    pub name: &'static str,
    /// Expected value, in `unit`.
    pub value: f64,
    /// Lowest value that would not surprise; at most `value`.
    pub low: f64,
    /// Highest value that would not surprise; at least `value`.
    pub high: f64,
    /// Unit: `cycles` or `ns`.
    pub unit: &'static str,
    /// Where it is from.
    pub source: &'static str,
}

macro_rules! constants {
    ($($(#[$about:meta])* $name:ident = $value:literal in $low:literal ..= $high:literal $unit:literal, $source:literal;)+) => {
        $($(#[$about])* pub const $name: Constant = Constant {
            name: stringify!($name), value: $value, low: $low, high: $high, unit: $unit, source: $source,
        };)+
        /// Every constant, in the order of this file.
        pub const ALL: &[Constant] = &[$($name),+];
    };
}

constants! {
    /// One reading of the time-stamp counter, back to back.
    COUNTER_READING = 30.0 in 15.0 ..= 60.0 "cycles", "uops.info: RDTSC, Intel 18–42, AMD Zen 35–41 cycles";
    /// The same on AMD Zen.
    COUNTER_READING_ZEN = 36.0 in 30.0 ..= 45.0 "cycles", "uops.info: RDTSC, AMD Zen 35–41 cycles";
    /// What RDTSCP adds to RDTSC: waiting for earlier instructions, reading TSC_AUX.
    ORDERED_READING = 18.0 in 2.0 ..= 45.0 "cycles", "uops.info: RDTSCP against RDTSC";
    /// An LFENCE with nothing in flight but the instruction before it.
    LOAD_FENCE = 15.0 in 4.0 ..= 40.0 "cycles", "uops.info: LFENCE; grows with what is in flight";
    /// CPUID on the hardware itself.
    CPUID = 120.0 in 70.0 ..= 250.0 "cycles", "Agner Fog, instruction tables: CPUID 100–250 cycles";
    /// CPUID in a guest: an exit to the hypervisor and back.
    CPUID_EXIT = 3000.0 in 1200.0 ..= 40_000.0 "cycles", "Intel SDM vol. 3, 26.1.2: CPUID exits unconditionally; exit round trips of 1000–3000 cycles, many times that under nested virtualisation";
    /// Arithmetic of the vDSO clock around its counter reading: sequence check, scale, add.
    VDSO_ARITHMETIC = 25.0 in 8.0 ..= 60.0 "cycles", "Linux lib/vdso/gettimeofday.c: about 40 instructions";
    /// The coarse clock: the same without a counter reading.
    VDSO_COARSE = 12.0 in 4.0 ..= 40.0 "cycles", "Linux lib/vdso/gettimeofday.c, do_coarse";
    /// Entering and leaving the kernel.
    KERNEL_ROUND_TRIP = 120.0 in 60.0 ..= 1500.0 "cycles", "70–150 cycles without page-table isolation; 200–400 more with it, and more again under nested virtualisation";
    /// What the kernel does for clock_gettime between entry and exit.
    KERNEL_CLOCK_SERVICE = 120.0 in 50.0 ..= 400.0 "cycles", "Linux kernel/time/posix-timers.c: counter reading, copy to user space";
    /// Step of the time-stamp counter on AMD Zen: the counter is a reference clock of 100 MHz times a whole number.
    COUNTER_STEP_ZEN = 10.0 in 0.2 ..= 10.5 "ns", "AMD PPR, P0 frequency in units of the reference clock; seen as steps of 22 to 38 ticks";
    /// Step of the time-stamp counter on Intel: interpolated from a crystal to single ticks or pairs of them.
    COUNTER_STEP_INTEL = 0.7 in 0.2 ..= 45.0 "ns", "Intel SDM vol. 3B, 19.7.3: crystal of 19.2 to 38.4 MHz, scaled";
    /// Step of a counter of which nothing else is known.
    COUNTER_STEP_UNKNOWN = 10.0 in 0.2 ..= 60.0 "ns", "Arm generic timers of 25 MHz to 1 GHz";
    /// Finest step that the kernel's clocks express.
    NANOSECOND = 1.0 in 1.0 ..= 1.0 "ns", "clock_gettime(2): struct timespec counts nanoseconds";
    /// Step of the coarse clocks: one tick of the kernel.
    KERNEL_TICK = 4_000_000.0 in 1_000_000.0 ..= 10_000_000.0 "ns", "Linux kernel/Kconfig.hz: HZ of 100 to 1000";
    /// Conversion of a timespec into an Instant and a difference.
    INSTANT_ARITHMETIC = 8.0 in 0.0 ..= 30.0 "cycles", "Rust std, sys/pal/unix/time.rs: checks and a 128-bit sum";
    /// A taken branch, predicted.
    TAKEN_BRANCH = 1.0 in 0.5 ..= 2.0 "cycles", "Agner Fog, microarchitecture: one taken branch per 1–2 cycles, two in the newest cores for short loops";
    /// A register addition.
    ADDITION = 1.0 in 0.9 ..= 1.1 "cycles", "Agner Fog, instruction tables: ADD r, r";
    /// A store whose value is loaded right back, forwarded by the store buffer.
    STORE_FORWARD = 4.5 in 3.5 ..= 6.0 "cycles", "Agner Fog, microarchitecture: 4–6 cycles";
    /// The same on a core that renames memory: the load takes its value from the store's register.
    STORE_FORWARD_RENAMED = 0.5 in 0.0 ..= 1.5 "cycles", "Agner Fog, microarchitecture: 0–1 cycles on Zen 2 and later, Golden Cove and later";
    /// The same where the core's design is not known.
    STORE_FORWARD_UNKNOWN = 4.0 in 0.0 ..= 6.0 "cycles", "Agner Fog, microarchitecture: 0–6 cycles over all cores";
    /// A call and its return, both predicted, of a function that does nothing.
    CALL_AND_RETURN = 2.0 in 1.0 ..= 3.0 "cycles", "Agner Fog, instruction tables: two taken branches of 1–2 cycles each";
    /// The same where the core's design is not known.
    CALL_AND_RETURN_UNKNOWN = 2.5 in 1.0 ..= 5.0 "cycles", "Agner Fog, instruction tables, over all cores";
    /// The same on AMD Zen: CALL and RET are 2 cycles each.
    CALL_AND_RETURN_ZEN = 4.0 in 2.0 ..= 5.0 "cycles", "Agner Fog, instruction tables, Zen 1–4: CALL near 2, RET near 2";
    /// One micro-operation of a full pipeline.
    PIPELINE_SLOT = 0.2 in 0.12 ..= 0.34 "cycles", "issue width 3 to 8";
    /// One store of a full pipeline.
    STORE_SLOT = 0.75 in 0.5 ..= 1.1 "cycles", "one or two stores per cycle";
    /// A 64-bit multiply.
    MULTIPLY = 3.0 in 3.0 ..= 4.0 "cycles", "Agner Fog: IMUL r64, 3 cycles (Intel since Nehalem, AMD since Zen), 4 before";
    /// One instruction of kernel code that is in the caches.
    KERNEL_INSTRUCTION = 0.5 in 0.25 ..= 1.5 "cycles", "two instructions per cycle; less with mitigations at indirect calls";
    /// Copying one entry of a page table for a child, and taking it away again from the parent's writable ones.
    FORK_PAGE = 30.0 in 5.0 ..= 60.0 "ns", "Linux mm/memory.c, copy_page_range: 20–45 ns for a mapped page of 4 KiB";
    /// Taking one page of a child away at its end.
    EXIT_PAGE = 35.0 in 5.0 ..= 80.0 "ns", "Linux mm/memory.c, zap_pte_range: 20–60 ns for a mapped page";
    /// Making a child that has nothing: task, tables, areas of a small process.
    FORK_BASE = 60_000.0 in 15_000.0 ..= 150_000.0 "ns", "Linux kernel/fork.c: copies of task, files, signals and areas; 20–60 µs on bare metal, more in guests";
    /// Running a child to its end and reaping it.
    CHILD_LIFE = 60_000.0 in 8_000.0 ..= 200_000.0 "ns", "two switches, a few copied pages, exit and wait";
    /// A child that borrows memory instead of copying it: task and switch only.
    VFORK_BASE = 40_000.0 in 8_000.0 ..= 120_000.0 "ns", "Linux kernel/fork.c with CLONE_VM";
    /// Replacing a child's memory by a static image, and its page faults.
    EXEC_STATIC = 150_000.0 in 40_000.0 ..= 400_000.0 "ns", "Linux fs/exec.c: new tables, a handful of faults";
    /// What a dynamic loader adds: mapping and relocating the C library.
    DYNAMIC_LOADER = 400_000.0 in 150_000.0 ..= 1_200_000.0 "ns", "ld.so(8): some 60 faults and 20 system calls";
    /// Core clock when nothing about this machine says what it is.
    CORE_CYCLE = 0.33 in 0.16 ..= 1.0 "ns", "cores of servers, desktops and laptops since 2010: 1–6 GHz";
}

impl Constant {
    /// The basis of a term that uses this constant.
    pub fn basis(&self) -> Basis {
        Basis::constant(self.name, self.source)
    }

    /// `(value, low, high)` times a number.
    pub fn times(&self, count: f64) -> (f64, f64, f64) {
        (self.value * count, self.low * count, self.high * count)
    }
}

/// What forwarding a store to a load costs on this core.
pub fn store_forwarding(by: &Foreknowledge<'_>) -> Constant {
    match by.machine.core_class(by.cpu) {
        CoreClass::AmdZen2
        | CoreClass::AmdZen3
        | CoreClass::AmdZen4
        | CoreClass::AmdZen5
        | CoreClass::IntelGoldenCove
        | CoreClass::IntelRedwoodCove
        | CoreClass::IntelLionCove => STORE_FORWARD_RENAMED,
        CoreClass::Unknown => STORE_FORWARD_UNKNOWN,
        _ => STORE_FORWARD,
    }
}

/// What a reading of the counter costs on this processor.
pub fn counter_reading(by: &Foreknowledge<'_>) -> Constant {
    match by.machine.cpu.vendor.as_ref().map(|vendor| vendor.value.as_str()) {
        Some("AuthenticAMD" | "HygonGenuine") => COUNTER_READING_ZEN,
        _ => COUNTER_READING,
    }
}

/// Step of the counter on this processor.
pub fn counter_step(by: &Foreknowledge<'_>) -> Constant {
    match by.machine.cpu.vendor.as_ref().map(|vendor| vendor.value.as_str()) {
        Some("AuthenticAMD" | "HygonGenuine") => COUNTER_STEP_ZEN,
        Some("GenuineIntel") => COUNTER_STEP_INTEL,
        _ => COUNTER_STEP_UNKNOWN,
    }
}

/// What a call and its return cost on this core.
pub fn call_and_return(by: &Foreknowledge<'_>) -> Constant {
    match by.machine.core_class(by.cpu) {
        CoreClass::AmdZen1 | CoreClass::AmdZen2 | CoreClass::AmdZen3 | CoreClass::AmdZen4 => CALL_AND_RETURN_ZEN,
        CoreClass::Unknown => CALL_AND_RETURN_UNKNOWN,
        _ => CALL_AND_RETURN,
    }
}

/// Duration of a core cycle, with its range and where it is from.
#[derive(Debug, Clone, PartialEq)]
pub struct CycleTime {
    /// Expected.
    pub value: Nanoseconds,
    /// Shortest.
    pub low: Nanoseconds,
    /// Longest.
    pub high: Nanoseconds,
    /// Where it is from.
    pub basis: Basis,
}

impl CycleTime {
    /// The best that is known: this run's figure, else the machine's claims, else the constant.
    pub fn known(by: &Foreknowledge<'_>) -> Self {
        if let Some(metric) = by.metric("cpu.cycle_time", &Labels::none()) {
            // The clock wanders between the first round and the last: 3 % is what turbo bins do within minutes.
            let range = |factor: f64| Nanoseconds(metric.value * factor);
            return CycleTime {
                value: range(1.0),
                low: range(0.97),
                high: range(1.03),
                basis: Basis::metric("cpu.cycle_time"),
            };
        }
        let period = |hertz: f64| Nanoseconds(1e9 / hertz);
        match (by.machine.maximum_core_hertz(by.cpu), by.machine.nominal_core_hertz(by.cpu)) {
            (Some(maximum), nominal) => CycleTime {
                value: period(maximum.value),
                low: period(maximum.value * 1.02),
                high: period(nominal.map_or(maximum.value * 0.5, |found| found.value.min(maximum.value) * 0.98)),
                basis: Basis::machine(&maximum.source),
            },
            // A nominal clock is a floor on most machines: turbo adds up to two thirds.
            (None, Some(nominal)) => CycleTime {
                value: period(nominal.value * 1.2),
                low: period(nominal.value * 1.7),
                high: period(nominal.value * 0.98),
                basis: Basis::guess(&format!(
                    "a fifth above the nominal {:.3} GHz of {}, for turbo",
                    nominal.value / 1e9,
                    nominal.source
                )),
            },
            (None, None) => CycleTime {
                value: Nanoseconds(CORE_CYCLE.value),
                low: Nanoseconds(CORE_CYCLE.low),
                high: Nanoseconds(CORE_CYCLE.high),
                basis: CORE_CYCLE.basis(),
            },
        }
    }

    /// Cycles `(value, low, high)` as nanoseconds, the ranges of both multiplied.
    pub fn of(&self, (value, low, high): (f64, f64, f64)) -> (f64, f64, f64) {
        (value * self.value.0, low * self.low.0, high * self.high.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_has_an_ordered_range_a_known_unit_and_a_source() {
        for constant in ALL {
            assert!(constant.low <= constant.value && constant.value <= constant.high, "{}", constant.name);
            assert!(["cycles", "ns"].contains(&constant.unit), "{}", constant.name);
            assert!(constant.source.len() > 10, "{}", constant.name);
        }
    }
}
