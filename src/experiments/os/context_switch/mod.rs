//! # Question
//!
//! What does it cost to switch the CPU from one task to another? What does it cost to wake a task on another CPU?
//!
//! # Method
//!
//! Two tasks pass a token back and forth, through a pipe, an eventfd, a futex or (threads only) a condition variable of the Rust
//! library. Each task waits for the token in the kernel, takes it, and puts it into the channel of the other task.
//! On one CPU neither can take the token before the
//! other has gone to sleep, so every **handoff** is one context switch.
//!
//! A batch is many round trips between two clock reads of one task. The cost of a handoff is the batch divided by twice
//! its round trips. Both tasks do ordinary work between their calls, from loops at drawn places (as in os.system_call). What the
//! same work takes without the calls is taken off. On one CPU, each batch follows 65 536 branches in random directions and 0.2 ms of
//! handoffs, both untimed (blocks). The handoffs between CPUs alternate with these blocks, so that the other
//! CPU sleeps in between.
//!
//! - **time**: the gross handoff. It contains the two system calls, the wake-up and the switch.
//! - **pipe_overhead**: one task writes a byte to its own pipe and reads it, without waiting or waking. It runs in the
//!   same launch, alternately with the handoffs, in a process with one thread. In a process with several, the kernel counts the users
//!   of a file around each call. The net switch of threads is less the overhead with several.
//! - **net**: the handoff less that overhead. It contains the switch, the wake-up and the sleeping part of read(). It
//!   is published if it exceeds three times its error and a quarter of the handoff.
//!
//! The label **between** distinguishes processes from threads. Threads share the page table, so their switch does not
//! change it. The label **placement** is the relation of the two CPUs. On one CPU (same_cpu) a handoff is a switch. On
//! two CPUs it is a wake-up of a sleeping task, without a switch. The label **target** states whether the CPU of that
//! task was idle too, or kept awake by a task of the lowest priority. A batch does not count if a task received the
//! token before it had gone to sleep.
//!
//! **Proof.** Before and after each batch all tasks report their CPU and how often the kernel switched them. The
//! switches of a batch must equal its handoffs within 1 %. No task may have taken a page fault, and every task must be
//! on the CPU of the label. A batch with fewer switches is discarded, and the result is not published. Both kinds
//! count: voluntary (a task goes to sleep) and involuntary (the woken task preempts its waker, often so since kernel
//! 6.6). A batch with more switches than handoffs, or with CPU time of other tasks, is classed as preempted.
//!
//! **Ring.** 2 to 64 processes on one CPU pass the token around. Each first sums a private working set of 0 to 256 KiB.
//! The curve is the handoff less the pipe and the same sum in a warm cache, at least 300 cycles. It shows the cost of a switch to a program
//! whose data was evicted. Each launch takes one ring size. In a ring of more than two, a preempted task must run once
//! more to go to sleep. A handoff may then be two switches.
//!
//! **Distance.** A host moves virtual CPUs. The transfer time of a cache line is therefore measured before and after
//! each batch on two CPUs. If the times form two groups, both have results (near,
//! far). So do batches with both CPUs on one core.
//!
//! **Cache line.** Tasks on two CPUs poll one shared word, and each answers with the next number. Half of the round
//! trip is the time to move a line from core to core.
//!
//! # Prediction
//!
//! - A handoff on one CPU, or to one that shares the last cache: kernel entries of this run, and a number of clock system
//!   calls. The number comes from records of other runs.
//! - A wake-up on a CPU farther away: two system calls, the instructions of the pipe and of the switch, and an interrupt. A
//!   CPU that sleeps also needs its exit from idle. In a guest the hypervisor takes part in both.
//!
//! # What could fool us
//!
//! - Tasks that are not pinned run in parallel on two CPUs. The result is then a wake-up and not a switch.
//! - A partner that polls instead of sleeping causes no switch. The counters of the kernel show it.
//! - Creation, first page faults or reaping of the partner can be inside the timed interval.
//! - Half of the gross cost is system calls, and tools rarely state whether they print gross or net. A tool that prints
//!   the round trip prints two handoffs.
//! - Calls through a C library can add two mispredicted returns per handoff, where the kernel clears return predictions
//!   (see os.system_call). On AMD Zen 4 such a handoff costs a quarter more.
//! - A loop that a compiler lays out measures its own layout. Two builds of one source differed by 10 to 15 % on AMD Zen 4.
//! - A second thread in the process adds 5 to 7 % to each read and write of a pipe on AMD Zen 5.
//! - sched_yield() need not switch, because the scheduler may run the same task again.
//! - A pipe cost that was measured elsewhere or under load can make the net switch negative.
//! - Mitigations that clear predictors on a switch apply only to some pairs of processes.
//!
//! # References
//!
//! - pipe(7), eventfd(2), futex(2), sched(7)
//! - Ousterhout, USENIX Summer 1990
//! - McVoy & Staelin, USENIX 1996 (lat_ctx)
//! - Linux kernel/sched/core.c

mod explain;
mod judge;
mod measure;
mod predict;

use crate::experiments::prelude::*;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "os.context_switch",
    title: "Context switch",
    measures: "switching processes and threads, waking other CPUs, moving a cache line",
    words: &["ctx", "futex", "pipe", "switch", "wakeup"],
    method_version: 5,
    precision: Precision { target: 0.15, between: 0.04, busy: 0.1 },
    source: heading!("mod.rs"),
    uses: &["cpu.cycle_time", "cpu.timer.overhead", "os.system_call.time"],
    rules: judge::RULES,
    constants: predict::CONSTANTS,
    publishes: &[
        Publication::cost(
            "os.context_switch.time",
            Unit::Nanoseconds,
            "one handoff of the token, system calls included",
        )
        .in_summary(),
        Publication::cost("os.context_switch.net", Unit::Nanoseconds, "the handoff less the cost of its channel")
            .in_summary(),
        Publication::cost(
            "os.context_switch.pipe_overhead",
            Unit::Nanoseconds,
            "a byte written to and read from a pipe by one task",
        )
        .in_summary(),
        Publication::cost(
            "os.context_switch.eventfd_overhead",
            Unit::Nanoseconds,
            "a count written to and read from an eventfd by one task",
        ),
        Publication::cost(
            "os.cache_line_transfer.time",
            Unit::Nanoseconds,
            "transfer of a cache line from one core to another",
        )
        .in_summary(),
    ],
    seconds: |_| 0.35,
    time_out: 30.0,
    in_quick: true,
    memory: |setup, _| {
        ((RINGS[RINGS.len() - 1] * WORKING_SETS[WORKING_SETS.len() - 1]) as u64)
            .min(setup.machine.launch_memory_bytes())
    },
    predict: predict::predict,
    measure: measure::measure,
    measure_first: Some(measure::measure_first),
    figures: judge::figures,
    explain: explain::explain,
    ..Experiment::DEFAULT
};

/// Members of the rings; each launch takes one.
const RINGS: [usize; 6] = [2, 4, 8, 16, 32, 64];

/// Bytes that each member of a ring sums up.
const WORKING_SETS: [usize; 5] = [0, 4 << 10, 16 << 10, 64 << 10, 256 << 10];

/// The method version from which the code of handoffs is placed by lot, in ordinary work.
const PLACED: u32 = 4;

const SAME: &str = "same_cpu";

const BETWEEN: [&str; 2] = ["processes", "threads"];

const THROUGH: [&str; 4] = ["pipe", "eventfd", "futex", CONDITION];
/// A passage that only threads have.
const CONDITION: &str = "condition_variable";

/// One figure: who passes the token to whom, how and where.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pairing {
    between: &'static str,
    through: &'static str,
    placement: String,
    /// Whether the CPUs sleep while nothing runs there; none on one CPU, where one of the tasks always runs.
    target: Option<&'static str>,
}

impl Pairing {
    fn labels(&self) -> Labels {
        let labels =
            Labels::of([("between", self.between), ("through", self.through)]).with("placement", &self.placement);
        self.target.map_or(labels.clone(), |target| labels.with("target", target))
    }

    /// On one CPU the passage's own cost stands before and after the switch, so it may be taken off.
    fn has_net(&self) -> bool {
        self.placement == SAME && ["pipe", "eventfd"].contains(&self.through)
    }
}

/// Every pairing that is measured, given the placements that the machine has.
fn pairings<'a>(placements: impl IntoIterator<Item = &'a str>) -> Vec<Pairing> {
    let mut all = Vec::new();
    let mut add = |placement: &str, target| {
        for between in BETWEEN {
            // A CPU that is kept awake shows what sleeping costs; one way of waking is enough for that.
            let is_wanted = |through: &&str| target != Some("awake") || *through == "pipe";
            let is_possible = |through: &&str| *through != CONDITION || between == BETWEEN[1];
            for through in THROUGH.into_iter().filter(is_wanted).filter(is_possible) {
                all.push(Pairing { between, through, placement: placement.to_owned(), target });
            }
        }
    };
    add(SAME, None);
    for placement in placements {
        add(placement, Some("idle"));
        add(placement, Some("awake"));
    }
    all
}

/// Labels of a ring's series; a member alone is its sum in a warm cache with the pipe's own cost.
fn ring_labels(members: usize, bytes: usize) -> Labels {
    Labels::none().with("processes", members).with("working_set", bytes)
}

/// Labels of the way of a cache line between the measured CPU and another.
fn line_labels(placement: &str) -> Labels {
    Labels::of([("placement", placement)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairings_have_labels_of_their_own() {
        let all = pairings(["sibling", "same_cache"]);
        let mut labels: Vec<String> = all.iter().map(|pairing| pairing.labels().to_string()).collect();
        assert_eq!(labels.len(), 7 + 2 * (7 + 2));
        labels.sort();
        labels.dedup();
        assert_eq!(labels.len(), all.len());
    }

    #[test]
    fn only_one_cpu_and_a_serial_passage_have_a_net_cost() {
        let net: Vec<String> = pairings(["same_cache"])
            .iter()
            .filter(|pairing| pairing.has_net())
            .map(|pairing| format!("{} {}", pairing.between, pairing.through))
            .collect();
        assert_eq!(net, ["processes pipe", "processes eventfd", "threads pipe", "threads eventfd"]);
    }
}
