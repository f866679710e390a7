//! Limits that the machine sets on a device or an interface, next to the rates that were measured.

use super::file::file_system::FileSystem;
use crate::experiments::prelude::*;
use crate::machine::{LimitedWork, Mounted, Shaper};
use crate::sys::create::FILE_SIZE;

/// Share of a limit from which on it is taken for what sets a rate: headers take a twentieth, and small buckets up to a fifth.
const BINDING: f64 = 0.75;

/// Times a limit from which on a burst must have hidden it.
const HIDDEN: f64 = 1.1;

rules! {
    BINDS: "G34" Remark "`file.read`, `file.write`, `file.contention`, `memory.page_fault`, `network.bandwidth`",
        "a rate is below {} times each limit that the machine sets on the device or interface", plain(BINDING);
    HIDES: "G34" Noisy "`file.read`, `file.write`, `file.contention`, `memory.page_fault`, `network.bandwidth`",
        "a rate is at most {} times such a limit. Above it a burst hid the limit", plain(HIDDEN);
}

/// How a rate stands to a limit, which is named with its source.
fn gates(limit: f64, found: f64, named: &str) -> [Gate; 2] {
    let binding = if found < BINDING * limit { "does not set this rate" } else { "sets this rate" };
    let hidden = if found > HIDDEN * limit {
        "does not hold for so short a measurement: its burst hid the limit, and longer work gets no more than the limit"
    } else {
        "holds for this rate"
    };
    let is_hidden = found > HIDDEN * limit;
    let binds = Gate::holds(&BINDS, found < BINDING * limit || is_hidden, format!("{named} {binding}"));
    [binds, Gate::holds(&HIDES, !is_hidden, format!("{named} {hidden}"))]
}

/// The gates of reads from the disk of the scratch directory: reads per second, where each is a request of the device, and bytes per
/// second.
pub fn of_reads(machine: &Machine, reads: Option<f64>, bytes: f64) -> Vec<Gate> {
    of_work(machine, |work| match work {
        LimitedWork::Reads => reads,
        LimitedWork::ReadBytes => Some(bytes),
        LimitedWork::Writes | LimitedWork::WrittenBytes => None,
    })
}

/// The same of writes.
pub fn of_writes(machine: &Machine, writes: Option<f64>, bytes: f64) -> Vec<Gate> {
    of_work(machine, |work| match work {
        LimitedWork::Writes => writes,
        LimitedWork::WrittenBytes => Some(bytes),
        LimitedWork::Reads | LimitedWork::ReadBytes => None,
    })
}

fn of_work(machine: &Machine, rate: impl Fn(LimitedWork) -> Option<f64>) -> Vec<Gate> {
    let device = machine.scratch().and_then(|storage| storage.device.as_ref());
    let limits = device.into_iter().flat_map(|device| &device.limits);
    let found = limits.filter_map(|limit| {
        Some(gates(limit.per_second as f64, rate(limit.work)?, &format!("the limit of {}", limit.text())))
    });
    found.flatten().collect()
}

/// The gates of bytes per second that left through an interface.
pub fn of_sending(shaper: Option<&Shaper>, name: &str, bytes: f64) -> Vec<Gate> {
    let limit = shaper.and_then(|shaper| Some((shaper, shaper.bits_per_second?)));
    let limit =
        limit.map(|(shaper, bits)| gates(bits as f64 / 8.0, bytes, &format!("the limit of {}", shaper.text(name))));
    limit.into_iter().flatten().collect()
}

/// What readers of file results should know of the place of the files: one sentence each.
pub fn of_place(machine: &Machine) -> Vec<String> {
    let Some(storage) = machine.scratch() else { return Vec::new() };
    let ground = FileSystem::of_storage(storage);
    let place = format!("The test files are on {}", ground.file_system);
    let mut told: Vec<String> = ground.caveats.iter().map(|caveat| format!("{place}: {}.", caveat.text())).collect();
    let limits = storage.device.iter().flat_map(|device| &device.limits);
    told.extend(limits.map(|limit| format!("The device has a limit of {}.", limit.text())));
    let polite = storage.mount.as_ref().map_or(0, Mounted::polite_bytes);
    told.extend(machine.limits.file_bytes().filter(|most| *most < polite).map(|most| {
        format!("All test files together have at most {} ({FILE_SIZE}).", quantity(most as f64, Unit::Bytes))
    }));
    told
}
