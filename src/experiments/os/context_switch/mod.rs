//! # Question
//!
//! What does it cost to hand the CPU from one task to another, and to wake a task on another CPU?
//!
//! # Method
//!
//! Two tasks pass a token to and fro. Each waits for it in the kernel, takes it, and puts it into the other's passage: a
//! byte in a pipe, a count in an eventfd, or a word with a futex. On one CPU nobody can take the token before the other has
//! gone to sleep, so every **hop** is one context switch. A batch is many round trips between two clock reads of one side;
//! the cost of a hop is the batch over twice its round trips.
//!
//! - **time** is the gross hop: putting the token in, waking the other, switching, taking the token out. Both system calls
//!   are in it.
//! - **pipe_overhead** is a task that writes and reads the same byte through a pipe of its own, where the data is always
//!   there: no waking, no waiting. It is measured in the same launch, in turns with the hops.
//! - **net** is the hop less that. It contains the switch itself, the wake-up, and the part of read() that goes to sleep.
//!   It is published where it stands out of its error by three and is at least a quarter of the hop.
//!
//! **between** tells processes from threads: threads share the page table, so the switch leaves it alone. **placement**
//! says how the CPUs of the two stand to each other. On one CPU (same_cpu) a hop is a switch. On two CPUs nothing is
//! switched away: a hop is a wake-up of a sleeping task, and **target** says whether its CPU had gone idle too, or was kept
//! awake by a task of the lowest priority. A batch in which a partner answered before the other had gone to sleep is not
//! counted.
//!
//! **Proof.** The kernel counts the switches of every task. Before and after each batch all tasks report their counters and
//! their CPU; the switches of a batch must be its hops within a hundredth, nobody may have taken a page fault, and everybody
//! must be where the label says. A batch with fewer switches is void and the figure is not published. Both kinds count: a
//! task goes to sleep (voluntary), or the one that it has just woken pushes it aside at once (involuntary); which of the two
//! happens is the scheduler's choice, and kernels since 6.6 often make the second. A batch with more switches than hops, or
//! with time on the CPU that none of the tasks had, is preempted: somebody else was there.
//!
//! **Ring.** 2 to 64 processes on one CPU pass the token around, each summing up a private working set of 0 to 256 KiB
//! before it passes the token on. Less the pipe and the same sum in a warm cache, the curve shows what a switch costs a
//! program that finds its data gone. Each launch takes one ring size, in turn. In a ring of more than two, a task that was
//! pushed aside by the one it woke must run once more to go to sleep: a hop may then be two switches.
//!
//! **Distance.** A host moves virtual CPUs. The time of a cache line to the other CPU is taken before and after each batch with
//! two CPUs; where it falls into two kinds, both have figures (near, far).
//!
//! **Cache line.** A task on each of two CPUs waits for a number in one shared word without sleeping and answers with the
//! next. Half of the round trip is what it takes to move a line from core to core.
//!
//! # Prediction
//!
//! The two system calls as measured in this run, the pipe's own work in instructions, 1000 to 2500 cycles for waking and
//! switching, and for processes the change of the page table. A wake-up on another CPU adds an interrupt, and when that
//! CPU sleeps, its way out of idle; in a guest the hypervisor has a part in both.
//!
//! # What could fool us
//!
//! - Tasks that are not pinned run side by side: the figure is then a wake-up, not a switch.
//! - A partner that polls instead of sleeping: no switch happens at all. The kernel's counts show it.
//! - Creation, first page faults, or reaping of the partner inside the interval.
//! - Half of the figure are system calls: gross and net differ, and tools rarely say which they print. A tool that prints
//!   the time of a round trip prints two hops. Ours are made in line: where the kernel leaves no return predicted (see
//!   os.system_call), a program that calls a C library pays for two unpredicted returns in each hop, a quarter more on AMD Zen 4.
//! - sched_yield() need not switch: the scheduler may run the same task again.
//! - Subtracting a pipe's cost that was measured elsewhere or under load can leave a negative switch.
//! - Mitigations that clear predictors on a switch apply to some pairs of processes only.
//!
//! # References
//!
//! pipe(7), eventfd(2), futex(2), sched(7); Ousterhout, USENIX Summer 1990; McVoy & Staelin, USENIX 1996 (lat_ctx); Linux
//! kernel/sched/core.c.

mod explain;
mod judge;
mod measure;
mod predict;

use crate::evaluate::precision::Precision;
use crate::experiments::{Experiment, Publication};
use crate::results::quantity::{Labels, Unit};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "os.context_switch",
    title: "Context switch",
    measures: "switching processes and threads, waking other CPUs, moving a cache line",
    method_version: 1,
    precision: Precision { target: 0.05, between: 0.04 },
    source: include_str!("mod.rs"),
    needs: &[],
    uses: &["cpu.cycle_time", "cpu.timer.overhead", "os.system_call.time"],
    rules: judge::RULES,
    constants: predict::CONSTANTS,
    publishes: &[
        Publication::cost("os.context_switch.time", Unit::Nanoseconds, "one hop of the token, system calls included")
            .in_summary(),
        Publication::cost("os.context_switch.net", Unit::Nanoseconds, "the hop less the passage's own cost")
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
        Publication::cost("os.cache_line_transfer.time", Unit::Nanoseconds, "a line's way from one core to another")
            .in_summary(),
    ],
    every: |_| 1,
    seconds: |_| 0.2,
    time_out: 30.0,
    memory: |setup| {
        ((RINGS[RINGS.len() - 1] * WORKING_SETS[WORKING_SETS.len() - 1]) as u64)
            .min(setup.machine.launch_memory_bytes())
    },
    predict: predict::predict,
    measure: measure::measure,
    measure_first: Some(measure::measure_first),
    figures: judge::figures,
    explain: explain::explain,
};

/// Members of the rings; each launch takes one.
const RINGS: [usize; 6] = [2, 4, 8, 16, 32, 64];

/// Bytes that each member of a ring sums up.
const WORKING_SETS: [usize; 5] = [0, 4 << 10, 16 << 10, 64 << 10, 256 << 10];

const SAME: &str = "same_cpu";

const BETWEEN: [&str; 2] = ["processes", "threads"];

const THROUGH: [&str; 3] = ["pipe", "eventfd", "futex"];

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
        self.placement == SAME && self.through != "futex"
    }
}

/// Every pairing that is measured, given the placements that the machine has.
fn pairings<'a>(placements: impl IntoIterator<Item = &'a str>) -> Vec<Pairing> {
    let mut all = Vec::new();
    let mut add = |placement: &str, target| {
        for between in BETWEEN {
            // A CPU that is kept awake shows what sleeping costs; one way of waking is enough for that.
            for through in THROUGH.into_iter().filter(|&through| target != Some("awake") || through == "pipe") {
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
        assert_eq!(labels.len(), 6 + 2 * (6 + 2));
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
