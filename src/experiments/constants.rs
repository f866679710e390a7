//! The constants table: numbers that predictions take from the literature, each with its range and its source.
//!
//! A prediction prefers a fact of this machine or a figure of this run; a constant is what is left. All are overridden by
//! measurement as soon as an experiment publishes the quantity.

use crate::machine::{CoreClass, Machine, Medium};
use crate::results::prediction::Basis;
use crate::results::quantity::{Labels, Nanoseconds};

pub use super::experiment::Constant;
use super::experiment::PredictionInput;

/// Declares the constants of a file: `NAME = value in low ..= high "unit", "where it is from";`.
macro_rules! constants {
    ($($(#[$about:meta])* $name:ident = $value:literal in $low:literal ..= $high:literal $unit:literal, $source:literal;)+) => {
        $($(#[$about])* pub const $name: $crate::experiments::constants::Constant = $crate::experiments::constants::Constant {
            name: stringify!($name), value: $value, low: $low, high: $high, unit: $unit, source: $source,
        };)+
        /// The constants of this file.
        pub const CONSTANTS: &[$crate::experiments::constants::Constant] = &[$($name),+];
    };
}

pub(crate) use constants;

constants! {
    /// One reading of the time-stamp counter, back to back, where the design of the core is not known.
    COUNTER_READING = 30.0 in 15.0 ..= 60.0 "cycles", "uops.info: RDTSC, Intel 18–42, AMD Zen 35–41 cycles";
    /// The same on AMD Zen.
    COUNTER_READING_ZEN = 36.0 in 30.0 ..= 45.0 "cycles", "InstLatX64, 30 models of Zen to Zen 5: medians of 35–38 cycles";
    /// The same on AMD Bulldozer to Excavator.
    COUNTER_READING_BULLDOZER = 62.0 in 40.0 ..= 88.0 "cycles", "InstLatX64, 12 models: 42–44 and 80–86 cycles";
    /// The same on large Intel cores.
    COUNTER_READING_CORE = 26.0 in 23.0 ..= 31.0 "cycles",
        "InstLatX64, 64 models from Nehalem to Lion Cove: medians of 24–28 cycles by design";
    /// The same on small Intel cores.
    COUNTER_READING_SMALL = 27.0 in 19.0 ..= 36.0 "cycles",
        "InstLatX64, 16 models from Silvermont to Skymont: medians of 20–33 cycles by design";
    /// CPUID on the hardware itself.
    CPUID = 120.0 in 70.0 ..= 250.0 "cycles", "Agner Fog, instruction tables: CPUID 100–250 cycles";
    /// Entering and leaving the kernel.
    KERNEL_ROUND_TRIP = 120.0 in 60.0 ..= 1500.0 "cycles",
        "70–150 cycles, 200–400 more with page-table isolation, and even more under nested virtualisation";
    /// Part of a clock read by real system call that entering and leaving the kernel takes: what slows the way in, such as
    /// mitigations, slows the way through the kernel too, so the part is steadier than the difference.
    KERNEL_ENTRY_SHARE = 0.35 in 0.15 ..= 0.7 "times",
        "refused calls of 60–100 ns and clock_gettime calls of 170–300 ns with mitigations. Nearer two thirds without";
    /// Step of the time-stamp counter on AMD Zen: the counter is a reference clock of 100 MHz times a whole number.
    COUNTER_STEP_ZEN = 10.0 in 0.2 ..= 10.5 "ns",
        "AMD PPR, P0 frequency in units of the reference clock (steps of 22–38 ticks)";
    /// Step of the time-stamp counter on Intel: interpolated from a crystal to single ticks or pairs of them.
    COUNTER_STEP_INTEL = 0.7 in 0.2 ..= 45.0 "ns", "Intel SDM vol. 3B, 19.7.3: crystal of 19.2–38.4 MHz, scaled";
    /// Step of a counter of which nothing else is known.
    COUNTER_STEP_UNKNOWN = 10.0 in 0.2 ..= 60.0 "ns", "Arm generic timers of 25 MHz to 1 GHz";
    /// One instruction of kernel code that is in the caches.
    KERNEL_INSTRUCTION = 0.5 in 0.25 ..= 1.5 "cycles",
        "two instructions per cycle, fewer with mitigations at indirect calls";
    /// Leaving a guest for its hypervisor and coming back.
    GUEST_EXIT = 1200.0 in 300.0 ..= 12_000.0 "ns",
        "exit round trips of 1000–3000 cycles, many times more under nested virtualisation";
    /// A page from the allocator, charged to its control group.
    PAGE_ALLOCATION = 450.0 in 150.0 ..= 1800.0 "cycles",
        "Linux mm/page_alloc.c, mm/memcontrol.c: per-CPU lists and charges";
    /// Copying a page of 4 KiB.
    PAGE_COPY = 130.0 in 40.0 ..= 400.0 "ns", "4096 bytes at 10 to 100 GB/s: Linux arch/x86/lib/copy_page_64.S";
    /// Finding a page of a file in the page cache, with its locks and references.
    FILE_PAGE_LOOKUP = 500.0 in 120.0 ..= 2000.0 "cycles", "Linux mm/filemap.c: filemap_fault";
    /// A read of 4 KiB, one at a time, from an NVMe disk.
    DISK_READ_NVME = 80_000.0 in 8_000.0 ..= 250_000.0 "ns",
        "data sheets: flash 60–100 µs, Optane and a drive cache 10 µs";
    /// The same from a solid-state disk behind another interface.
    DISK_READ_SOLID = 120_000.0 in 40_000.0 ..= 500_000.0 "ns", "data sheets: SATA 80–150 µs";
    /// The same from a disk that turns, or from its cache.
    DISK_READ = 4_000_000.0 in 60_000.0 ..= 25_000_000.0 "ns",
        "data sheets: seek 4–10 ms and half a rotation of 2–4 ms, less within the disk's cache";
    /// The same from a disk that a hypervisor provides.
    DISK_READ_VIRTUAL = 100_000.0 in 8_000.0 ..= 3_000_000.0 "ns",
        "two exits and the host's cache 10–30 µs, network storage of clouds 0.2–2 ms";
    /// The same from a place of which nothing is known.
    DISK_READ_UNKNOWN = 200_000.0 in 5_000.0 ..= 30_000_000.0 "ns", "anything from a host's memory to a rotating disk";
    /// A byte of a long transfer from an NVMe disk.
    DISK_BYTE_NVME = 0.3 in 0.06 ..= 1.0 "ns", "data sheets: 1–14 GB/s, PCIe 3.0 x2 to 5.0 x4";
    /// The same from a solid-state disk behind another interface.
    DISK_BYTE_SOLID = 1.9 in 1.6 ..= 5.0 "ns", "data sheets: SATA 3 moves 600 MB/s at most, 540 in practice";
    /// The same from a disk that turns.
    DISK_BYTE = 6.0 in 3.0 ..= 20.0 "ns", "data sheets: 80–280 MB/s, from inner to outer tracks";
    /// The same from a disk that a hypervisor provides.
    DISK_BYTE_VIRTUAL = 1.0 in 0.1 ..= 20.0 "ns", "the host's memory 2–8 GB/s, network storage of clouds from 50 MB/s";
    /// The same from a place of which nothing is known.
    DISK_BYTE_UNKNOWN = 2.0 in 0.06 ..= 40.0 "ns", "anything from memory to a rotating disk";
    /// Making, queueing and completing a request to a block device, and the interrupt at its end.
    BLOCK_LAYER = 4_000.0 in 1_000.0 ..= 12_000.0 "ns",
        "Linux block/blk-mq.c and fs/iomap/direct-io.c: 2–5 µs, plus one or two exits in a guest";
    /// Handing a token from one process to another on the same CPU: a wake-up, a switch, a read and a write.
    CONTEXT_SWITCH = 2_000.0 in 600.0 ..= 6_000.0 "ns",
        "McVoy and Staelin, USENIX 1996, and lmbench results since: 1–5 µs for a pipe token";
    /// What TCP and IP do for one small message, from the write of one side to the read of the other on loopback.
    STACK_TCP = 3_500.0 in 1_000.0 ..= 8_000.0 "ns",
        "Linux net/ipv4/tcp_output.c and tcp_input.c: one segment, its checks and its acknowledgement";
    /// Copying one byte between a program and the kernel, including the share of its buffer's making.
    COPY_BYTE = 0.12 in 0.03 ..= 0.35 "ns", "3–30 GB/s for copies of some KiB, cache to cache or CPU to CPU";
    /// An interface, its interrupt and the driver, one way.
    LINK_CROSSING = 12_000.0 in 2_000.0 ..= 60_000.0 "ns",
        "5–20 µs on wired interfaces, less on virtual ones, more with interrupt moderation";
    /// The same for a radio, with its contention for the air.
    RADIO_CROSSING = 1_000_000.0 in 300_000.0 ..= 4_000_000.0 "ns",
        "IEEE 802.11: 0.5–2 ms for backoff, frame and acknowledgement";
    /// The way there and back through routers, where nothing is known of the distance.
    PATH_BEYOND_LINK = 10_000_000.0 in 100_000.0 ..= 300_000_000.0 "ns",
        "light in glass: 10 µs per kilometre and back. 0.1 ms within a site, 150 ms across an ocean";
    /// Core clock when nothing about this machine says what it is.
    CORE_CYCLE = 0.33 in 0.16 ..= 1.0 "ns", "server, desktop and laptop cores since 2010: 1–6 GHz";
}

/// Units of constants.
pub const UNITS: [&str; 6] = ["cycles", "ns", "lines", "per cycle", "B/cycle", "times"];

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

/// What a reading of the counter costs on this processor.
pub fn counter_reading(by: &PredictionInput<'_>) -> Constant {
    match by.setup.machine.core_class(by.setup.cpu) {
        CoreClass::AmdZen1 | CoreClass::AmdZen2 | CoreClass::AmdZen3 | CoreClass::AmdZen4 | CoreClass::AmdZen5 => {
            COUNTER_READING_ZEN
        }
        CoreClass::AmdBulldozer => COUNTER_READING_BULLDOZER,
        CoreClass::IntelNehalem
        | CoreClass::IntelSandyBridge
        | CoreClass::IntelHaswell
        | CoreClass::IntelSkylake
        | CoreClass::IntelIceLake
        | CoreClass::IntelTigerLake
        | CoreClass::IntelGoldenCove
        | CoreClass::IntelRedwoodCove
        | CoreClass::IntelLionCove => COUNTER_READING_CORE,
        CoreClass::IntelSilvermont
        | CoreClass::IntelGoldmont
        | CoreClass::IntelTremont
        | CoreClass::IntelGracemont
        | CoreClass::IntelCrestmont
        | CoreClass::IntelSkymont => COUNTER_READING_SMALL,
        _ => COUNTER_READING,
    }
}

/// Step of the counter on this processor.
pub fn counter_step(by: &PredictionInput<'_>) -> Constant {
    match by.setup.machine.cpu.vendor.as_ref().map(|vendor| vendor.value.as_str()) {
        Some("AuthenticAMD" | "HygonGenuine") => COUNTER_STEP_ZEN,
        Some("GenuineIntel") => COUNTER_STEP_INTEL,
        _ => COUNTER_STEP_UNKNOWN,
    }
}

/// What leaving a guest for its hypervisor and coming back costs, in nanoseconds: from CPUID, which does nothing else there,
/// where this run has timed it.
pub fn guest_exit(by: &PredictionInput<'_>) -> ((f64, f64, f64), Basis) {
    match by.metric("cpu.timer.overhead", &Labels::of([("method", "cpuid_rdtsc")])) {
        Some(timed) => (
            (timed.value, timed.value * 0.5, timed.value * 2.0),
            Basis::metric("cpu.timer.overhead method=cpuid_rdtsc"),
        ),
        None => (GUEST_EXIT.times(1.0), GUEST_EXIT.basis()),
    }
}

/// What a read of 4 KiB takes from a device like the one behind the scratch directory; none where none is behind it.
pub fn disk_read(machine: &Machine) -> Option<Constant> {
    let storage = machine.scratch()?;
    if storage.mount.as_ref().is_some_and(|mount| mount.medium == Medium::Memory) {
        return None;
    }
    Some(match &storage.device {
        Some(device) if device.is_virtual => DISK_READ_VIRTUAL,
        Some(device) if device.name.starts_with("nvme") => DISK_READ_NVME,
        Some(device) if device.rotational == Some(true) => DISK_READ,
        Some(device) if device.rotational == Some(false) => DISK_READ_SOLID,
        _ => DISK_READ_UNKNOWN,
    })
}

/// What a byte of a long transfer takes from a device like the one behind the scratch directory.
pub fn disk_byte(by: &PredictionInput<'_>) -> Constant {
    match by.setup.machine.scratch().and_then(|storage| storage.device.as_ref()) {
        Some(device) if device.is_virtual => DISK_BYTE_VIRTUAL,
        Some(device) if device.name.starts_with("nvme") => DISK_BYTE_NVME,
        Some(device) if device.rotational == Some(true) => DISK_BYTE,
        Some(device) if device.rotational == Some(false) => DISK_BYTE_SOLID,
        _ => DISK_BYTE_UNKNOWN,
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
    pub fn known(by: &PredictionInput<'_>) -> Self {
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
        match (by.setup.machine.maximum_core_hertz(by.setup.cpu), by.setup.machine.nominal_core_hertz(by.setup.cpu)) {
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
                    "20 % above the nominal {:.3} GHz of {}, for turbo",
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
        for constant in CONSTANTS {
            assert!(constant.low <= constant.value && constant.value <= constant.high, "{}", constant.name);
            assert!(UNITS.contains(&constant.unit), "{}", constant.name);
            assert!(constant.source.len() > 10, "{}", constant.name);
        }
    }
}
