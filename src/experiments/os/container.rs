//! # Question
//!
//! What does a new process cost if it also gets namespaces, as the first process of a container does?
//!
//! # Method
//!
//! sysdyno creates one child at a time with clone(2) in new namespaces. The child exits at once. The time is until it has been
//! reaped, as fork_wait in os.process_creation. The label **new** names the namespaces:
//!
//! - **pid**, **mount**, **network**, **ipc**, **user**: one kind.
//! - **container**: pid, mount, network, ipc and host name together, as a container of a privileged engine has them.
//! - **rootless_container**: the same and user, which needs no privileges where the kernel allows it.
//! - **root**: mounts, and a separate root. The child mounts an empty file system in memory, makes it the root with pivot_root(2), and
//!   lets go of the old root.
//! - **control_group**: none, and the child joins a control group by writing to its cgroup.procs.
//!
//! Children are measured in blocks, as in os.process_creation. The same launch creates children without new namespaces, as the lower
//! limit. A child with a network waits 50 ms before it begins, and launches take turns with the three kinds that have one.
//! Every child is reaped and its exit status checked. The namespaces and mounts end with their child. The control group is inside of that of
//! the launch, which removes it. Under version 1 it is a group of the memory controller.
//!
//! # Prediction
//!
//! A child of a small parent as measured in this run (os.process_creation). For each namespace a constant.
//!
//! # What could fool us
//!
//! - A container engine also prepares file systems and network devices, and starts helper programs. That takes tens to hundreds of
//!   milliseconds. This is the part of the kernel.
//! - To join a control group, the kernel waits until no task of the system is in fork or exit. The first to join in a while waits
//!   longer, for a grace period of RCU. Under version 1 of control groups, an engine joins a group of each controller, some ten in all.
//! - The kernel removes a network namespace in the background, after its last process has ended. It takes the CPU for that, up to
//!   some 20 ms later. Programs that make many in a row pay for it too.
//! - A child after a pause finds colder caches. A plain child can take twice as long after 50 ms as in a row.
//! - A mount namespace copies each mount of the parent. A host with hundreds of mounts pays more.
//! - Without privileges only a user namespace can be made, and some distributions refuse that too.
//!
//! # References
//!
//! - namespaces(7), clone(2), user_namespaces(7), pivot_root(2), cgroups(7)
//! - Linux kernel/nsproxy.c, net/core/net_namespace.c, fs/namespace.c, kernel/cgroup/cgroup.c
//! - Oakes et al., USENIX ATC 2018 (cost of containers)

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use super::children;
use crate::experiments::constants::Constant;
use crate::experiments::figure_name::FigureName;
use crate::experiments::file::control_group::EmptyGroup;
use crate::experiments::prelude::*;
use crate::rig::sampler::Expected;
use crate::sys::child::{self, Child, Ledger, Namespaces, STATUS, Task};
use crate::sys::process::{self, Trial};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "os.container",
    title: "Containers",
    measures: "a process in new namespaces, with a root and a control group",
    words: &["namespaces", "containers"],
    method_version: 1,
    precision: Precision { target: 0.25, between: 0.2, busy: 0.25 },
    source: heading!("container.rs"),
    uses: &["os.process_creation.time"],
    words_of: |key, value| {
        if key != "new" {
            return None;
        }
        KINDS.iter().find(|kind| kind.new == value).map(|kind| kind.phrase)
    },
    constants: CONSTANTS,
    rules: RULES,
    publishes: &[
        Publication::cost(TIME, Unit::Nanoseconds, "one child in new namespaces, until it is reaped").in_summary()
    ],
    seconds: |_| 0.7,
    time_out: 30.0,
    predict,
    measure,
    figures,
    explain,
    ..Experiment::DEFAULT
};

const TIME: &str = "os.container.time";
/// Series of the children.
const CHILD: &str = "child";
/// Most children of each kind in a launch.
const MOST: u32 = 8;
/// The same of those with a network.
const MOST_WITH_NETWORK: u32 = 4;
/// Time in which the kernel removes the network of an earlier child. It does so on any CPU, also on that of the launch. In a C
/// program, of 320 children 58 were preempted by that after 2 ms, 37 after 20 ms and 7 after 50 ms.
const REMOVAL: Duration = Duration::from_millis(50);
/// A child in new namespaces takes this share of the time of another, at least.
const SLACK: f64 = 0.9;
/// A child without new namespaces.
const PLAIN: FigureName = FigureName::of("os.process_creation.time how=fork_wait resident=0 child=same_cpu");

constants! {
    /// A small child, where this run has none.
    CHILD_BASE = 80_000.0 in 20_000.0 ..= 400_000.0 "ns", "Linux kernel/fork.c: a copy of a small address space";
    /// A number space of processes, with its allocator and its first process.
    PID_SPACE = 15_000.0 in 1_000.0 ..= 100_000.0 "ns", "Linux kernel/pid_namespace.c: a table, a cache of objects, and its removal";
    /// A copy of the tree of mounts.
    MOUNT_TREE = 60_000.0 in 5_000.0 ..= 1_000_000.0 "ns", "Linux fs/namespace.c: 1 to 3 µs for each mount, and 20 to 300 mounts";
    /// A network stack with its loopback device and tables.
    NETWORK_STACK = 400_000.0 in 50_000.0 ..= 10_000_000.0 "ns",
        "Oakes, USENIX ATC 2018: milliseconds, and a queue of stacks to be removed makes them longer";
    /// Message queues and semaphores of a namespace, with a mount for the queues.
    IPC_SPACE = 30_000.0 in 3_000.0 ..= 500_000.0 "ns", "Linux ipc/namespace.c: three tables and a mount";
    /// A file system in memory, mounted and made the root, and the old root let go.
    NEW_ROOT = 60_000.0 in 5_000.0 ..= 1_000_000.0 "ns", "Linux fs/namespace.c: a mount, and 1 to 3 µs for each of the old mounts";
    /// Joining a control group.
    GROUP = 30_000.0 in 2_000.0 ..= 20_000_000.0 "ns",
        "Linux kernel/cgroup/cgroup.c: a lock that all forks share. It can take a grace period of RCU, which is 5 to 20 ms";
    /// A space of users.
    USER_SPACE = 15_000.0 in 1_000.0 ..= 200_000.0 "ns", "Linux kernel/user_namespace.c: counters and two sets of keys";
}

rules! {
    NOT_CHEAPER: "G20" Noisy "`os.container.time`", "at least {} times as long as a child without new namespaces", plain(SLACK);
}

/// What a child gets.
struct Kind {
    new: &'static str,
    phrase: &'static str,
    namespaces: Namespaces,
    /// What the child does before it exits.
    then: Then,
    /// What it costs in addition to a child.
    parts: &'static [(&'static str, Constant)],
}

/// What a child does before it exits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Nothing,
    /// It changes its root.
    Root,
    /// It joins a control group.
    Join,
}

const PID: (&str, Constant) = ("namespace of processes", PID_SPACE);
const MOUNT: (&str, Constant) = ("namespace of mounts", MOUNT_TREE);
const NETWORK: (&str, Constant) = ("namespace of the network", NETWORK_STACK);
const IPC: (&str, Constant) = ("namespace of message queues", IPC_SPACE);
const USER: (&str, Constant) = ("namespace of users", USER_SPACE);
const ALL: Namespaces =
    Namespaces::PROCESSES.and(Namespaces::MOUNTS).and(Namespaces::NETWORK).and(Namespaces::IPC).and(Namespaces::NAMES);

const KINDS: [Kind; 9] = [
    kind("pid", "new process numbers", Namespaces::PROCESSES, &[PID]),
    kind("mount", "new mounts", Namespaces::MOUNTS, &[MOUNT]),
    kind("network", "new network", Namespaces::NETWORK, &[NETWORK]),
    kind("ipc", "new message queues", Namespaces::IPC, &[IPC]),
    kind("user", "new users", Namespaces::USERS, &[USER]),
    kind("container", "all but users", ALL, &[PID, MOUNT, NETWORK, IPC]),
    kind("rootless_container", "all with users", ALL.and(Namespaces::USERS), &[PID, MOUNT, NETWORK, IPC, USER]),
    Kind {
        then: Then::Root,
        ..kind(ROOT, "new mounts and root", Namespaces::MOUNTS, &[MOUNT, ("separate root", NEW_ROOT)])
    },
    Kind { then: Then::Join, ..kind(JOINED, "control group", Namespaces::NONE, &[("joining a control group", GROUP)]) },
];
const ROOT: &str = "root";
const JOINED: &str = "control_group";

impl Kind {
    fn has_network(&self) -> bool {
        self.parts.iter().any(|(what, _)| *what == NETWORK.0)
    }
}

const fn kind(
    new: &'static str,
    phrase: &'static str,
    namespaces: Namespaces,
    parts: &'static [(&'static str, Constant)],
) -> Kind {
    Kind { new, phrase, namespaces, then: Then::Nothing, parts }
}

fn labels(new: &str) -> Labels {
    Labels::of([("new", new)])
}

fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let (child, basis) = match PLAIN.find(by.known) {
        Some(plain) => (
            (plain.value, plain.value * 0.85, plain.value * 1.3),
            Basis::metric("os.process_creation.time how=fork_wait"),
        ),
        None => (CHILD_BASE.times(1.0), CHILD_BASE.basis()),
    };
    let of = |kind: &Kind| {
        let prediction = Prediction::of(TIME, labels(kind.new), Unit::Nanoseconds);
        let prediction = prediction.software("a child that exits at once", child, basis.clone());
        kind.parts.iter().fold(prediction, |prediction, (what, constant)| {
            prediction.software(what, constant.times(1.0), constant.basis())
        })
    };
    KINDS.iter().map(of).collect()
}

/// A child as a kind has it.
fn begin(namespaces: Namespaces, then: Then, group: Option<&EmptyGroup>) -> io::Result<Child> {
    match then {
        Then::Nothing => child::fork_into(Task::default(), namespaces),
        Then::Root => child::fork_doing(namespaces, child::change_root),
        Then::Join => child::fork_doing(namespaces, || group.is_some_and(EmptyGroup::join)),
    }
}

/// Whether such a child can be made, or why not.
fn usable(kind: &Kind, group: Option<&EmptyGroup>) -> Result<(), String> {
    let begin = || begin(kind.namespaces, kind.then, group);
    if process::is_filtered() {
        match process::try_in_child(|| begin().is_ok_and(|child| child.reap() == Ok(STATUS))) {
            Ok(Trial::Worked) => return Ok(()),
            Ok(Trial::Killed(signal)) => {
                return Err(format!("a system-call filter kills a process that makes it ({signal})"));
            }
            Ok(Trial::Refused) => {}
            Err(error) => return Err(format!("cannot try it in a child process: {error}")),
        }
    }
    let child = begin()
        .map_err(|error| format!("the kernel refuses such a child: {error}. Root may make it, and the kernel limits its number (/proc/sys/user)"))?;
    match child.reap()? {
        STATUS => Ok(()),
        _ => Err("the kernel refuses what the child does before it exits".to_owned()),
    }
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let books: RefCell<Vec<(Labels, Rc<Ledger>)>> = RefCell::default();
    let group = EmptyGroup::make(rig.conductor());
    let joined = group.as_ref().ok();
    let workload = |labels: Labels, namespaces: Namespaces, then: Then, has_network: bool| {
        let book = Rc::new(Ledger::default());
        books.borrow_mut().push((labels.clone(), Rc::clone(&book)));
        let make = move |_| book.reap(book.enter(begin(namespaces, then, joined))?, STATUS);
        let workload = Workload::of(CHILD, labels, 1, make)
            .sized(Sizing::Exactly(1))
            .expecting(Expected { faults: true, ..Expected::default() });
        if !has_network {
            return workload.at_most(MOST);
        }
        workload.at_most(MOST_WITH_NETWORK).prepared(|| {
            std::thread::sleep(REMOVAL);
            Ok(())
        })
    };
    let mut workloads = Vec::new();
    let with_network: Vec<&str> = KINDS.iter().filter(|kind| kind.has_network()).map(|kind| kind.new).collect();
    let of_turn = with_network[rig.turn() as usize % with_network.len()];
    for kind in KINDS.iter().filter(|kind| !kind.has_network() || of_turn == kind.new) {
        let usable = match &group {
            Err(problem) if kind.then == Then::Join => Err(problem.to_string()),
            _ => usable(kind, joined),
        };
        match usable {
            Ok(()) => workloads.push(workload(labels(kind.new), kind.namespaces, kind.then, kind.has_network())),
            Err(reason) => rig.unavailable(TIME, &labels(kind.new), &reason),
        }
    }
    if workloads.is_empty() {
        return Ok(());
    }
    workloads.insert(0, workload(Labels::none(), Namespaces::NONE, Then::Nothing, false));
    rig.sample_in_blocks(workloads)?;
    // The next launch must not meet the removal of the last network.
    std::thread::sleep(REMOVAL);
    if child::some_left() {
        rig.remark(children::LEFT, &"some children were not reaped");
    }
    books
        .take()
        .into_iter()
        .try_for_each(|(labels, book)| rig.record(children::SERIES, labels, Unit::One, book.counts()))
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    let estimate = |labels: &Labels| study.sample(CHILD, labels).as_ref().and_then(Estimate::undisturbed);
    let plain = estimate(&Labels::none());
    for kind in &KINDS {
        let labels = labels(kind.new);
        let Some(found) = estimate(&labels) else { continue };
        let least = plain.iter().filter(|plain| plain.unit == found.unit).map(|plain| {
            let least = Gate::at_least(&NOT_CHEAPER, found.named("{}"), plain.value * SLACK);
            least.because("a child without new namespaces")
        });
        let own = least.chain([children::gate(study, &labels)]).collect::<Vec<_>>();
        findings.publish(study, Figure::batches(TIME, labels, &found).gates(own));
    }
}

fn explain(study: &Study<'_>, findings: &mut Findings) {
    let time = |new: &str| findings.metric(TIME, &labels(new)).cloned();
    let (Some(all), Some(network)) = (time("container"), time("network")) else { return };
    let (root, joined, mounts) = (time(ROOT), time(JOINED), time("mount"));
    findings.say(format!(
        "The namespaces of a container and its first process cost {}. With a new network alone it is {}.",
        all.shown(),
        network.shown()
    ));
    let plain = study.sample(CHILD, &Labels::none()).as_ref().and_then(Estimate::undisturbed);
    let (Some(root), Some(joined), Some(mounts), Some(plain)) = (root, joined, mounts, plain) else { return };
    let doubt = [&all, &root, &joined, &mounts].iter().find_map(|metric| metric.doubt());
    let (root, joined) = (root.value - mounts.value, joined.value - plain.value);
    if root > 0.0 && joined > 0.0 {
        findings.say(format!(
            "The start of a minimal container costs {}: these namespaces, {} for a separate root, and {} to join a control group.",
            Shown::of(all.value + root + joined, Unit::Nanoseconds).doubted(doubt),
            Shown::of(root, Unit::Nanoseconds),
            Shown::of(joined, Unit::Nanoseconds)
        ));
    }
}
