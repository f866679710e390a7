//! The file chapter: the cache, local reads and writes, reads from another machine, and several readers at once.

pub mod cache_size;
pub mod contention;
pub mod control_group;
pub mod file_system;
pub mod metadata;
pub mod parallel_readers;
pub mod read;
pub mod remote_read;
pub mod stamped_file;
pub mod write;

use super::constants::{
    BLOCK_LAYER, CONTEXT_SWITCH, CycleTime, DISK_READ, DISK_READ_UNKNOWN, KERNEL_ROUND_TRIP, constants, disk_read,
};
use super::{Need, PredictionInput, limits, no_caveats};
use crate::experiments::os::system_call::paid;
use crate::experiments::prelude::*;
use crate::machine::Mounted;
use file_system::FileSystem;

constants! {
    /// A read of 4 KiB behind another: from the buffer of a disk that turns, or a turn later.
    DISK_NEXT = 200_000.0 in 30_000.0 ..= 12_000_000.0 "ns", "drives read ahead into their buffer. A late request \
                                                              waits for a rotation of 8 ms";
}

/// A directory for files: an experiment with this need gets one from the run.
pub const PLACE: Need = Need {
    id: "place",
    what: "a writable directory for files",
    check: |setup| {
        let mount = setup.machine.scratch().and_then(|storage| storage.mount.as_ref());
        match mount {
            None => Err(Problem::new("the storage of the scratch directory is unknown")
                .hint("choose a place with --scratch DIR")),
            Some(mount) if mount.is_read_only() => {
                Err(Problem::new(format!("the file system at {} is mounted read-only", mount.mount_point))
                    .hint("choose a writable place with --scratch DIR"))
            }
            Some(Mounted { directory, no_files: Some(why), .. }) => {
                Err(Problem::new(format!("cannot make files in {directory}: {why}"))
                    .hint("choose a writable directory with --scratch DIR"))
            }
            Some(_) => Ok(()),
        }
    },
    caveats: |setup| limits::of_place(&setup.machine),
};

/// A disk of this machine below that directory.
pub const DISK: Need = Need {
    id: "disk",
    what: "a local disk below it",
    check: |setup| setup.machine.scratch().map_or(Ok(()), |storage| FileSystem::of_storage(storage).is_local()),
    caveats: no_caveats,
};

/// Bytes of a block: what a figure of block time reads at once.
pub const BLOCK: u64 = stamped_file::BLOCK as u64;

/// In which order blocks are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// In that of the file.
    Sequential,
    /// By a random permutation, none twice.
    Random,
}

impl Order {
    /// Both.
    pub const ALL: [Order; 2] = [Order::Sequential, Order::Random];

    /// Its label.
    pub fn name(self) -> &'static str {
        match self {
            Order::Sequential => "sequential",
            Order::Random => "random",
        }
    }
}

/// What kind of device is behind the scratch directory, for its floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceClass {
    /// A solid-state disk on PCIe.
    Nvme,
    /// A solid-state disk behind another interface.
    Solid,
    /// A disk that turns.
    Turning,
    /// A disk that a hypervisor provides.
    Virtual,
    /// A device that is itself in memory, or a file of another file system.
    Stacked,
    /// Not known.
    Unknown,
}

impl DeviceClass {
    /// By what the machine says of the device.
    pub fn of(machine: &Machine) -> Self {
        let Some(device) = machine.scratch().and_then(|storage| storage.device.as_ref()) else {
            return DeviceClass::Unknown;
        };
        let named = |prefix: &str| device.name.starts_with(prefix);
        if ["loop", "zram", "ram", "brd", "pmem"].iter().any(|prefix| named(prefix)) {
            DeviceClass::Stacked
        } else if device.is_virtual {
            DeviceClass::Virtual
        } else if named("nvme") {
            DeviceClass::Nvme
        } else {
            match device.rotational {
                Some(true) => DeviceClass::Turning,
                Some(false) => DeviceClass::Solid,
                None => DeviceClass::Unknown,
            }
        }
    }

    /// Nanoseconds below which a random read of a block was answered by something other than such a device, and what that
    /// something is; none where nothing is expected of the device.
    pub fn floor(self) -> Option<(f64, &'static str)> {
        match self {
            DeviceClass::Turning => Some((1_000_000.0, "no head moves that fast, so the drive's own buffer answered")),
            DeviceClass::Solid => {
                Some((40_000.0, "no flash behind SATA answers that fast, so the drive's own buffer answered"))
            }
            DeviceClass::Nvme => Some((
                20_000.0,
                "no flash answers that fast, so the drive's own buffer answered, or the drive has no \
                                 flash",
            )),
            DeviceClass::Virtual => {
                Some((40_000.0, "no flash behind a hypervisor answers that fast, so the host's memory answered"))
            }
            DeviceClass::Stacked => Some((
                f64::INFINITY,
                "the device is not hardware, and memory or a file is behind \
                                                          it",
            )),
            DeviceClass::Unknown => None,
        }
    }

    /// What to call it.
    pub fn word(self) -> &'static str {
        match self {
            DeviceClass::Virtual => "virtual disk",
            DeviceClass::Stacked => "stacked device",
            DeviceClass::Unknown => "device",
            _ => "disk",
        }
    }
}

/// What a read or a write of a cached block takes above a refused system call at least (nanoseconds).
pub const COPY_FLOOR: f64 = 40.0;

/// Below this nothing was asked of any device (nanoseconds).
pub const NO_DEVICE: f64 = 2_000.0;

/// What one read of a block past the cache is expected to take: parts of hardware and of software.
pub fn predict_direct(by: &PredictionInput<'_>, order: Order, prediction: Prediction) -> Prediction {
    let fault =
        |kind: &str| by.metric("memory.page_fault.time", &Labels::of([("kind", kind)])).map(|found| found.value);
    if let (Some(cold), Some(cached)) = (fault("file_cold"), fault("file_cached_single"))
        && cold > cached
    {
        let device = cold - cached;
        let least = if order == Order::Sequential { 0.2 } else { 0.6 };
        return prediction.hardware(
            "a page from the device, including the system's share",
            (device, device * least, device * 2.0),
            Basis::metric("memory.page_fault.time kind=file_cold, less kind=file_cached_single"),
        );
    }
    let device = match (order, disk_read(&by.setup.machine)) {
        (Order::Sequential, Some(DISK_READ)) => DISK_NEXT,
        (_, Some(found)) => found,
        (_, None) => DISK_READ_UNKNOWN,
    };
    let least = if order == Order::Sequential { 0.3 } else { 1.0 };
    let (value, low, high) = device.times(1.0);
    entered(by, prediction)
        .hardware("the device's answer", (value, low * least, high), device.basis())
        .software("request and interrupt", BLOCK_LAYER.times(1.0), BLOCK_LAYER.basis())
        .software("switch back to the process", CONTEXT_SWITCH.times(1.0), CONTEXT_SWITCH.basis())
}

/// The way into the kernel and back.
pub fn entered(by: &PredictionInput<'_>, prediction: Prediction) -> Prediction {
    if let Some(found) = paid(by.known, "enosys") {
        let range = (found.value, found.value * 0.8, found.value * 1.5);
        return prediction.software("kernel entry and exit", range, Basis::metric("os.system_call.time call=enosys"));
    }
    let range = CycleTime::known(by).of(KERNEL_ROUND_TRIP.times(1.0));
    prediction.software("kernel entry and exit", range, KERNEL_ROUND_TRIP.basis())
}

/// The share of the time that other tasks and the hypervisor took from the launches of a study.
pub fn taken(study: &Study<'_>) -> f64 {
    let wall: f64 = study.evidence().map(|found| found.wall).sum::<f64>().max(1.0);
    let lost: f64 = study.evidence().map(|found| found.run_delay.unwrap_or(0.0) + found.steal.unwrap_or(0.0)).sum();
    lost / wall
}

/// A number of bytes over a range of times in nanoseconds, as a range of rates.
pub fn as_rate(bytes: f64, (value, low, high): (f64, f64, f64)) -> (f64, f64, f64) {
    (bytes * 1e9 / value, bytes * 1e9 / high, bytes * 1e9 / low.max(f64::MIN_POSITIVE))
}

/// A predicted time as a predicted rate: one term that names the parts of the time.
pub fn rate_of(time: &Prediction, bytes: u64, labels: Labels, metric: &str) -> Prediction {
    let what: Vec<&str> = time.terms.iter().map(|term| term.what.as_str()).collect();
    let rate = as_rate(bytes as f64, (time.value, time.low, time.high));
    let basis = time.terms.iter().max_by(|one, other| one.value.total_cmp(&other.value)).map(|term| term.basis.clone());
    Prediction::of(metric, labels, Unit::BytesPerSecond).hardware(
        &format!("{bytes} bytes in the time of: {}", what.join(", ")),
        rate,
        basis.unwrap_or_else(|| Basis::guess("no part is known")),
    )
}
