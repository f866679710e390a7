//! What switching is expected to cost: the system calls of this run, instructions, and the constants table.

use super::{CONDITION, Pairing, SAME, pairings};
use crate::experiments::constants::{Constant, KERNEL_ROUND_TRIP, guest_exit};
use crate::experiments::os::kernel_work;
use crate::experiments::os::system_call::paid;
use crate::experiments::prelude::*;

constants! {
    /// An interrupt from one CPU to another.
    RESCHEDULE_INTERRUPT = 600.0 in 150.0 ..= 2500.0 "ns",
        "Linux arch/x86/kernel/smp.c: interrupts between cores take 0.3–1 µs";
    /// A CPU's way out of its shallow idle state.
    IDLE_EXIT = 1500.0 in 100.0 ..= 60_000.0 "ns",
        "Linux drivers/idle: exit latencies of 1–2 µs for C1, up to 100 µs and more for deep states";
    /// A cache line's way between two threads of one core.
    LINE_SIBLING = 8.0 in 2.0 ..= 40.0 "ns",
        "first-level cache of the same core: some tens of cycles with memory ordering";
    /// A cache line's way between two cores that share a last-level cache.
    LINE_SAME_CACHE = 50.0 in 10.0 ..= 150.0 "ns",
        "published core-to-core latencies: 20–30 ns in one complex of AMD Zen, 40–90 ns on rings and meshes";
    /// A cache line's way between cores that share none.
    LINE_OTHER_SOCKET = 150.0 in 50.0 ..= 400.0 "ns",
        "published core-to-core latencies: 80–120 ns between complexes, 130–300 ns between sockets";
}

/// What the kernel does in a passage in addition to entering and leaving: instructions of both calls together.
const PIPE_INSTRUCTIONS: f64 = 1000.0;

const EVENTFD_INSTRUCTIONS: f64 = 500.0;

const FUTEX_INSTRUCTIONS: f64 = 600.0;

/// With two locks and unlocks of the mutex in user mode.
const CONDITION_INSTRUCTIONS: f64 = 800.0;

/// Going to sleep, waking, choosing the next task, changing registers and stack: 1000 to 2500 cycles on bare metal.
const SWITCH_INSTRUCTIONS: f64 = 2800.0;

/// Places whose switches and wake-ups are in records.
const IN_RECORDS: [&str; 2] = [SAME, "same_cache"];

pub(super) fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let cost = Cost { cycle: CycleTime::known(by), by };
    let places = by.setup.places();
    let of = |name: &str, labels: Labels| Prediction::of(name, labels, Unit::Nanoseconds);
    let passage = |through| of(&format!("os.context_switch.{through}_overhead"), Labels::none());
    let mut all = ["pipe", "eventfd"].map(passage).to_vec();
    for pairing in pairings(places.iter().map(|place| place.placement.as_str())) {
        let hop = of("os.context_switch.time", pairing.labels());
        let is_in_records = IN_RECORDS.contains(&pairing.placement.as_str()) && pairing.through != CONDITION;
        all.push(if is_in_records { hop } else { cost.handoff(hop, &pairing) });
        if pairing.has_net() {
            all.push(of("os.context_switch.net", pairing.labels()));
        }
    }
    all.extend(places.iter().map(|place| Cost::line(&place.placement)));
    all
}

struct Cost<'a> {
    cycle: CycleTime,
    by: &'a PredictionInput<'a>,
}

impl Cost<'_> {
    /// Entering and leaving the kernel a number of times: as measured, else from the constants table.
    fn entries(&self, prediction: Prediction, times: f64) -> Prediction {
        let measured = paid(self.by.known, "enosys");
        let (range, basis) = match measured {
            Some(floor) => (
                // Other calls than the floor leave the kernel by the same way, some of them less straight.
                (floor.value * times, floor.value * times * 0.9, floor.value * times * 1.3),
                Basis::metric("os.system_call.time call=enosys"),
            ),
            None => (self.cycle.of(KERNEL_ROUND_TRIP.times(times)), KERNEL_ROUND_TRIP.basis()),
        };
        prediction.hardware("entering and leaving the kernel twice", range, basis)
    }

    fn instructions(&self, prediction: Prediction, what: &str, count: f64) -> Prediction {
        let (cost, basis) = kernel_work(self.by, count);
        prediction.software(what, cost, basis)
    }

    fn constant(prediction: Prediction, what: &str, constant: &Constant) -> Prediction {
        prediction.software(what, constant.times(1.0), constant.basis())
    }

    /// A token through a condition, or to a CPU that shares no cache with the measured CPU.
    fn handoff(&self, prediction: Prediction, pairing: &Pairing) -> Prediction {
        let called = self.entries(prediction, 2.0);
        let passed = self.instructions(called, "writing and reading the token", instructions_of(pairing.through));
        let switched = self.instructions(passed, "waking one task and switching from the other", SWITCH_INSTRUCTIONS);
        if pairing.placement == SAME {
            return switched;
        }
        let interrupted = Self::constant(switched, "an interrupt to the other CPU", &RESCHEDULE_INTERRUPT);
        let woken = if pairing.target == Some("idle") {
            Self::constant(interrupted, "exit of the other CPU from idle", &IDLE_EXIT)
        } else {
            interrupted
        };
        if !self.by.setup.machine.is_guest() {
            return woken;
        }
        // Sending an interrupt and taking it each leave the guest; so do halting, being woken, and setting the timer anew.
        let (exits, what) = match pairing.target {
            Some("idle") => (5.0, "exits to the hypervisor: interrupt, halt, wake-up, timer"),
            _ => (2.0, "exits to the hypervisor: sending and receiving the interrupt"),
        };
        let ((value, low, high), basis) = guest_exit(self.by);
        // With hardware for interrupts in guests no exit may be left.
        woken.software(what, (value * exits, low * exits * 0.2, high * exits), basis)
    }

    fn line(placement: &str) -> Prediction {
        let constant = match placement {
            name if name.starts_with("sibling") => &LINE_SIBLING,
            name if name.starts_with("same_cache") => &LINE_SAME_CACHE,
            _ => &LINE_OTHER_SOCKET,
        };
        let labels = Labels::of([("placement", placement)]);
        Prediction::of("os.cache_line_transfer.time", labels, Unit::Nanoseconds).hardware(
            "transfer of the line between the caches of two cores",
            constant.times(1.0),
            constant.basis(),
        )
    }
}

fn instructions_of(through: &str) -> f64 {
    match through {
        "pipe" => PIPE_INSTRUCTIONS,
        "eventfd" => EVENTFD_INSTRUCTIONS,
        CONDITION => CONDITION_INSTRUCTIONS,
        _ => FUTEX_INSTRUCTIONS,
    }
}
