//! # Question
//!
//! What does a new process cost, by each method of creation? How does the cost grow with the memory of the parent?
//!
//! # Method
//!
//! sysdyno creates one child at a time and reads the clock before the creation and after the span that names the
//! result. It calls the kernel directly, and the child uses only registers and system calls. Every child is reaped and
//! its exit status checked.
//!
//! The label **how** names the span:
//! - **fork**: until the call returns in the parent. The child may have run by then.
//! - **fork_wait**: until a child that exits at once has been reaped.
//! - **first_instruction**: until the first instruction of the child, which stores the time in a shared page.
//! - **vfork_wait**: as fork_wait, but the child borrows the memory of the parent instead of copying it.
//! - **library_fork_wait**: as fork_wait through the C library, which adds its own handlers.
//! - **fork_exec_wait**: the child executes another image and exits. A **static** image is a program of two
//!   instructions that sysdyno writes into memory. The **dynamic** image is the system's `true` with its loader and
//!   libraries. The **shell** is `/bin/sh -c 'exit 0'`.
//! - **posix_spawn_wait**: the same by posix_spawn() of the C library.
//!
//! Children of the small parent are measured in blocks, as in os.system_call: 65 536 branches in random directions,
//! 0.2 ms of children of one kind, and a batch of that kind. Forks of larger parents alternate.
//!
//! An image that fails to execute, or an unexpected status, discards the shot. A result is published only if every
//! child was reaped with the expected status, and the kernel reports no other child at the end.
//!
//! The label **resident** is the size of additional private memory of the parent. Every page is written before each
//! fork, because the previous fork left it write-protected. Such a fork begins with cold caches. Nothing is written before
//! a child that borrows the memory, which is measured in blocks like those of the small parent. The label **pages** states whether the memory is on 4 KiB
//! or on huge pages, verified after mapping. The label **child** is the CPU on which the child may run: that of the
//! parent (same_cpu) or any (free). Every second launch has 256 MiB, the others the smaller sizes. A quick run omits
//! 256 MiB, and every second launch has only the small parent. The cost per page is the slope of a line through the
//! published costs up to 64 MiB, in all runs.
//!
//! # Prediction
//!
//! - A child of a small parent: kernel entries and switches as measured in this run, and its creation and end as a number of
//!   switches. The number comes from records of other runs.
//! - Each page of a parent: its table entries cost a part of a load from memory, by the same records.
//! - A child that borrows the memory of a large parent has no such records: constants, the same as for a small parent.
//!
//! # What could fool us
//!
//! - The return of fork is not the creation of a process. The child may or may not have run by then.
//! - A loop of one kind of child finds everything warm, and so do the blocks here. Where kinds alternated, children of
//!   a small parent took 5 % longer on an AMD Zen 4 guest, and those of vfork 22 %.
//! - Memory that is written before each fork cools the caches. The cost per page contains this.
//! - The size of the parent is rarely stated. Huge pages make resident memory nearly free to fork.
//!
//! # References
//!
//! clone(2), vfork(2), posix_spawn(3), elf(5). Linux kernel/fork.c, mm/memory.c. Baumann et al., "A fork() in the
//! road", HotOS 2019.

mod explain;
mod judge;
mod measure;
mod predict;
mod ways;

use crate::experiments::prelude::*;
use ways::common_way;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "os.process_creation",
    title: "Process creation",
    measures: "fork, vfork, fork and exec, posix_spawn, by memory of the parent",
    words: &["exec", "fork", "process", "spawn", "vfork"],
    method_version: 6,
    precision: Precision { target: 0.1, between: 0.05, busy: 0.1 },
    source: heading!("mod.rs"),
    rules: judge::RULES,
    constants: predict::CONSTANTS,
    publishes: &[
        Publication::cost("os.process_creation.time", Unit::Nanoseconds, "one child, by method of creation")
            .in_summary_where(common_way),
        Publication::cost(
            "os.process_creation.per_page",
            Unit::Nanoseconds,
            "cost that each 4 KiB page of the parent adds",
        )
        .in_summary(),
    ],
    seconds: |_| 0.4,
    time_out: 30.0,
    in_quick: true,
    memory: |setup, turn| ways::most_resident(setup.profile.is_quick(), turn).min(setup.machine.launch_memory_bytes()),
    predict: predict::predict,
    measure: measure::measure,
    figures: judge::figures,
    explain: explain::explain,
    ..Experiment::DEFAULT
};

const TIME: &str = "os.process_creation.time";
const PER_PAGE: &str = "os.process_creation.per_page";

/// Size of the pages that the cost per page is about.
const SMALL_PAGE: f64 = 4096.0;
