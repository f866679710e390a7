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
//!   libraries.
//! - **posix_spawn_wait**: the same by posix_spawn() of the C library.
//!
//! An image that fails to execute, or an unexpected status, discards the shot. A result is published only if every
//! child was reaped with the expected status, and the kernel reports no other child at the end.
//!
//! The label **resident** is the size of additional private memory of the parent. Every page is written before each
//! shot, because the previous fork left it write-protected. The label **pages** states whether the memory is on 4 KiB
//! or on huge pages, verified after mapping. The label **child** is the CPU on which the child may run: that of the
//! parent (same_cpu) or any (free). Launches alternate between the resident sizes. The cost per page is the slope of a
//! line through the published costs over resident sizes.
//!
//! # Prediction
//!
//! - A base, and 20 to 45 ns for each page whose table entry is copied. About as much to remove the entries of the child,
//!   where the parent waits for its end. In a guest both double, because table entries and page records are behind two
//!   levels of tables.
//! - A huge page has one entry instead of 512, but the kernel reserves a table in case the page is split.
//! - An image costs its new tables and first page faults. A dynamic image also costs its loader.
//!
//! # What could fool us
//!
//! - The return of fork is not the creation of a process. The child may or may not have run by then.
//! - A loop of one kind of child finds everything warm. Programs with such a loop showed up to a quarter less for small
//!   children. Here the kinds alternate, which most likely leaves the code and data of a small child partly cold.
//! - Memory that is written before each shot cools the caches: vfork copies nothing and still takes longer there.
//! - The size of the parent is rarely stated. Huge pages make resident memory nearly free to fork.
//!
//! # References
//!
//! clone(2), vfork(2), posix_spawn(3), elf(5). Linux kernel/fork.c, mm/memory.c. Baumann et al., "A fork() in the
//! road", HotOS 2019.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use super::children;
use super::sweep::Sweep;
use crate::evaluate::estimate::Estimate;
use crate::evaluate::figure::Figure;
use crate::evaluate::findings::Findings;
use crate::evaluate::gate::rules;
use crate::evaluate::gates;
use crate::evaluate::precision::Precision;
use crate::evaluate::study::Study;
use crate::experiments::constants::{self, Constant, constants};
use crate::experiments::{Experiment, PredictionInput, Publication};
use crate::results::document::{Axis, Curve};
use crate::results::prediction::Prediction;
use crate::results::problem::Problem;
use crate::results::quantity::{Labels, Unit};
use crate::results::ratio::Order;
use crate::results::verdict::Gate;
use crate::results::wording::{number, significant};
use crate::rig::Rig;
use crate::rig::sampler::{Expected, Sizing, Timed, Workload};
use crate::sys::affinity;
use crate::sys::arch;
use crate::sys::child::{self, Child, Image, Ledger, STATUS, Task};
use crate::sys::memory::{self, HUGE_PAGES_OFF, Pages, Resident, SharedNumber};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "os.process_creation",
    title: "Process creation",
    measures: "fork, vfork, fork and exec, posix_spawn, by memory of the parent",
    method_version: 3,
    precision: Precision { target: 0.1, between: 0.05 },
    source: include_str!("process_creation.rs"),
    needs: &[],
    uses: &[],
    rules: RULES,
    constants: CONSTANTS,
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
    every: |_| 1,
    seconds: |_| 0.4,
    time_out: 30.0,
    memory: |setup, _| (SIZES[SIZES.len() - 1] as u64).min(setup.machine.launch_memory_bytes()),
    predict,
    measure,
    measure_first: None,
    figures,
    explain,
};

const TIME: &str = "os.process_creation.time";
const PER_PAGE: &str = "os.process_creation.per_page";

const MIB: usize = 1 << 20;
/// Size of the pages that the cost per page is about.
const SMALL_PAGE: f64 = 4096.0;
/// Size of huge pages, for predictions: 2 MiB where small ones have 4 KiB.
const HUGE_PAGE: f64 = 2_097_152.0;
/// Resident sizes of the parent.
const SIZES: [usize; 3] = [16 * MIB, 64 * MIB, 256 * MIB];
/// Parents with memory that a launch measures, in turns over launches: resident size, pages, and shots, whose cost grows with the
/// size. To write the pages again before each shot takes most of the time.
const TURNS: [&[(usize, &str, u32)]; 4] = [
    &[(16 * MIB, "4k", 6)],
    &[(64 * MIB, "4k", 4)],
    &[(256 * MIB, "4k", 2)],
    &[(64 * MIB, "huge", 4), (256 * MIB, "huge", 3)],
];
/// Size at which ways that should not depend on it are compared.
const COMPARED: usize = 64 * MIB;
/// The ways, in the order of the report.
const WAYS: [ChildMethod; 9] = [
    ChildMethod { how: "fork", image: None },
    ChildMethod { how: "first_instruction", image: None },
    ChildMethod { how: "fork_wait", image: None },
    ChildMethod { how: "library_fork_wait", image: None },
    ChildMethod { how: "vfork_wait", image: None },
    ChildMethod { how: "fork_exec_wait", image: Some("static") },
    ChildMethod { how: "fork_exec_wait", image: Some("dynamic") },
    ChildMethod { how: "posix_spawn_wait", image: Some("static") },
    ChildMethod { how: "posix_spawn_wait", image: Some("dynamic") },
];
/// Where the dynamic program is looked for.
const DYNAMIC: [&str; 2] = ["/bin/true", "/usr/bin/true"];
/// Physical floors in nanoseconds.
const FORK_FLOOR: f64 = 5_000.0;
const WAIT_FLOOR: f64 = 10_000.0;
const EXEC_FLOOR: f64 = 50_000.0;
/// Slack of comparisons.
const SLACK: f64 = 1.05;

constants! {
    /// Copying the entry of a huge page: a table is made for it, should it be split later.
    FORK_HUGE_PAGE = 600.0 in 60.0 ..= 2500.0 "ns",
        "Linux mm/huge_memory.c, copy_huge_pmd: allocates and clears one page-table page";
    /// Taking a huge page of a child away, and its table.
    EXIT_HUGE_PAGE = 400.0 in 40.0 ..= 2000.0 "ns", "Linux mm/huge_memory.c, zap_huge_pmd: frees the page-table page";
    /// Making a child that has nothing: task, tables, areas of a small process.
    FORK_BASE = 45_000.0 in 12_000.0 ..= 150_000.0 "ns",
        "Linux kernel/fork.c: copies of task, files, signals and memory areas, 20–60 µs on bare metal, more in guests";
    /// Running a child to its end and reaping it.
    CHILD_LIFE = 45_000.0 in 8_000.0 ..= 200_000.0 "ns", "two switches, a few copied pages, exit and wait";
    /// A child that borrows memory instead of copying it: task and switch only.
    VFORK_BASE = 30_000.0 in 6_000.0 ..= 120_000.0 "ns", "Linux kernel/fork.c with CLONE_VM";
    /// Replacing a child's memory by a static image, and its page faults.
    EXEC_STATIC = 100_000.0 in 25_000.0 ..= 400_000.0 "ns", "Linux fs/exec.c: new tables, a few page faults";
    /// What a dynamic loader adds: mapping and relocating the C library.
    DYNAMIC_LOADER = 400_000.0 in 150_000.0 ..= 1_200_000.0 "ns", "ld.so(8): about 60 page faults and 20 system calls";
}

rules! {
    FLOOR: "G8" Hard "`os.process_creation.time`",
        "a child takes at least {}, at least {} until it is reaped, at least {} with another image",
        time(FORK_FLOOR), time(WAIT_FLOOR), time(EXEC_FLOOR);
    ORDER: "G20" Noisy "`os.process_creation.time`",
        "at most {} times as long: fork until it returns as until its child is reaped, borrowed as copied memory",
        plain(SLACK);
}

/// A way of making a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ChildMethod {
    how: &'static str,
    image: Option<&'static str>,
}

/// The parent's memory and the child's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ForkSetting {
    resident: usize,
    pages: &'static str,
    child: &'static str,
}

const BASE: ForkSetting = ForkSetting { resident: 0, pages: "4k", child: "same_cpu" };

fn labels(way: ChildMethod, setting: ForkSetting) -> Labels {
    let labels = Labels::of([("how", way.how), ("child", setting.child)]).with("resident", setting.resident);
    let labels = if setting.resident > 0 { labels.with("pages", setting.pages) } else { labels };
    way.image.map_or(labels.clone(), |image| labels.with("image", image))
}

/// The summary shows every way from a small parent, and fork_wait from larger ones.
fn common_way(labels: &Labels) -> bool {
    let small = labels.get("resident") == Some("0");
    labels.get("child") == Some("same_cpu") && (small || labels.get("how") == Some("fork_wait"))
}

/// Every combination that is measured, small parent first.
fn combinations() -> Vec<(ChildMethod, ForkSetting)> {
    let mut all: Vec<(ChildMethod, ForkSetting)> = WAYS.into_iter().map(|way| (way, BASE)).collect();
    all.extend(
        WAYS.into_iter()
            .filter(|way| ["fork", "fork_wait"].contains(&way.how) || way.image == Some("static"))
            .map(|way| (way, ForkSetting { child: "free", ..BASE })),
    );
    for pages in ["4k", "huge"] {
        for resident in SIZES.into_iter().filter(|resident| pages == "4k" || *resident >= COMPARED) {
            let setting = ForkSetting { resident, pages, ..BASE };
            all.extend(ways_with_memory(resident, pages).into_iter().map(|way| (way, setting)));
        }
    }
    all
}

/// The ways that are measured from a parent with memory.
fn ways_with_memory(resident: usize, pages: &str) -> Vec<ChildMethod> {
    let unmoved = resident == COMPARED && pages == "4k";
    WAYS.into_iter()
        .filter(|way| {
            ["fork", "fork_wait"].contains(&way.how)
                || unmoved && (way.how == "vfork_wait" || way.how == "posix_spawn_wait" && way.image == Some("static"))
        })
        .collect()
}

fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let small = constants::page_of_child(by);
    let mut predictions: Vec<Prediction> = combinations()
        .into_iter()
        .map(|(way, setting)| {
            let page = if setting.pages == "huge" { (FORK_HUGE_PAGE, EXIT_HUGE_PAGE) } else { small };
            predict_child(way, setting, page)
        })
        .collect();
    for how in ["fork", "fork_wait"] {
        let prediction = Prediction::of(PER_PAGE, Labels::of([("how", how)]), Unit::Nanoseconds).software(
            "copying the page-table entry of the page",
            small.0.times(1.0),
            small.0.basis(),
        );
        predictions.push(if how == "fork" {
            prediction
        } else {
            prediction.software("removing it from the child", small.1.times(1.0), small.1.basis())
        });
    }
    predictions
}

fn predict_child(way: ChildMethod, setting: ForkSetting, (copied, removed): (Constant, Constant)) -> Prediction {
    let pages = setting.resident as f64 / if setting.pages == "huge" { HUGE_PAGE } else { SMALL_PAGE };
    let add = |prediction: Prediction, what: &str, constant: Constant, count: f64| {
        if count > 0.0 { prediction.software(what, constant.times(count), constant.basis()) } else { prediction }
    };
    let copies = !["vfork_wait", "posix_spawn_wait"].contains(&way.how);
    let lives = way.how != "fork";
    let prediction = Prediction::of(TIME, labels(way, setting), Unit::Nanoseconds);
    let prediction = if copies {
        let prediction = add(prediction, "task and tables of a small child", FORK_BASE, 1.0);
        add(prediction, "page-table entries of the parent", copied, pages)
    } else {
        add(prediction, "a task that borrows the memory of the parent", VFORK_BASE, 1.0)
    };
    let prediction = match way.how {
        "fork" => prediction,
        "first_instruction" => add(prediction, "the path to the first instruction of the child", CHILD_LIFE, 0.2),
        _ if copies => {
            let prediction = add(prediction, "running, ending and reaping the child", CHILD_LIFE, 1.0);
            add(prediction, "removing the pages of the child", removed, pages)
        }
        _ => prediction,
    };
    let prediction = add(prediction, "another image", EXEC_STATIC, f64::from(u8::from(way.image.is_some() && lives)));
    add(prediction, "the dynamic loader", DYNAMIC_LOADER, f64::from(u8::from(way.image == Some("dynamic"))))
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let cannot = |error: std::io::Error| Problem::new(format!("cannot prepare children: {error}"));
    let images = Images::find().map_err(cannot)?;
    let stamp = SharedNumber::new().map_err(cannot)?;
    if images.dynamic.is_none() {
        let reason = format!("no dynamically linked program at {}", DYNAMIC.join(" or "));
        rig.unavailable(TIME, &Labels::of([("image", "dynamic")]), &reason);
    }
    let books = RefCell::default();
    if !rig.counts_ticks() {
        rig.unavailable(
            TIME,
            &Labels::of([("how", "first_instruction")]),
            &"a child can read the time only from the counter, which is not the clock of this run",
        );
    }
    let kit = ChildShotInputs { counts_ticks: rig.counts_ticks(), images: &images, stamp: &stamp, books: &books };
    rig.sample(kit.workloads(&WAYS, BASE, None))?;
    if rig.setup().allowed.len() > 1 && affinity::restrict(&rig.setup().allowed).is_ok() {
        let ways: Vec<ChildMethod> =
            combinations().into_iter().filter(|(_, setting)| setting.child == "free").map(|(way, _)| way).collect();
        let sampled = rig.sample(kit.workloads(&ways, ForkSetting { child: "free", ..BASE }, None));
        affinity::restrict(&[rig.setup().cpu]).map_err(cannot)?;
        sampled?;
    } else {
        rig.unavailable(TIME, &Labels::of([("child", "free")]), &"only one CPU is allowed");
    }
    for &(resident, pages, shots) in TURNS[rig.turn() as usize % TURNS.len()] {
        measure_with_memory(rig, &kit, ForkSetting { resident, pages, ..BASE }, shots)?;
    }
    if child::some_left() {
        rig.remark(children::LEFT, &"some children were not reaped");
    }
    books
        .take()
        .into_iter()
        .try_for_each(|(labels, book)| rig.record(children::SERIES, labels, Unit::One, book.counts()))
}

/// All ways that are measured with memory, if there is enough of it and it has the pages asked for.
fn measure_with_memory(
    rig: &mut Rig<'_>,
    kit: &ChildShotInputs<'_>,
    setting: ForkSetting,
    shots: u32,
) -> Result<(), Problem> {
    let mut resident = match resident(rig, setting) {
        Ok(resident) => resident,
        Err(reason) => {
            let labels = Labels::of([("pages", setting.pages)]).with("resident", setting.resident);
            rig.unavailable(TIME, &labels, &reason);
            return Ok(());
        }
    };
    let ways = ways_with_memory(setting.resident, setting.pages);
    let resident = RefCell::new(&mut resident);
    let workloads = kit
        .workloads(&ways, setting, Some(shots))
        .into_iter()
        .map(|workload| {
            let resident = &resident;
            workload.prepared(move || {
                resident.borrow_mut().dirty();
                Ok(())
            })
        })
        .collect();
    rig.sample(workloads)
}

/// Memory of a parent, on the pages asked for; or why there is none.
fn resident(rig: &Rig<'_>, setting: ForkSetting) -> Result<Resident, String> {
    if setting.resident as u64 > rig.memory() {
        return Err("it would take more than a quarter of the available memory".to_owned());
    }
    let pages = if setting.pages == "huge" { Pages::Huge } else { Pages::Small };
    let before = memory::huge_bytes().unwrap_or(0);
    let resident = Resident::new(setting.resident, pages)
        .map_err(|error| format!("the memory could not be allocated: {error}"))?;
    let huge = memory::huge_bytes().unwrap_or(0).saturating_sub(before) as f64 / setting.resident as f64;
    if (pages == Pages::Huge && huge < 0.9) || (pages == Pages::Small && huge > 0.01) {
        let off = (pages == Pages::Huge && memory::huge_pages_are_off()).then_some(HUGE_PAGES_OFF);
        let off = off.map_or_else(String::new, |off| format!(": {off}"));
        return Err(format!("{:.0} % of the memory is on huge pages{off}", huge * 100.0));
    }
    Ok(resident)
}

/// The programs that children execute.
struct Images {
    smallest: Image,
    dynamic: Option<Image>,
}

impl Images {
    fn find() -> std::io::Result<Self> {
        let smallest = Image::smallest()?;
        let found = DYNAMIC.into_iter().find(|path| Path::new(path).exists() && child::is_dynamic(path));
        let dynamic = found.and_then(|path| Image::file(path, 0).ok());
        Ok(Images { smallest, dynamic })
    }
}

/// What shots are made from.
#[derive(Clone, Copy)]
struct ChildShotInputs<'a> {
    counts_ticks: bool,
    images: &'a Images,
    stamp: &'a SharedNumber,
    /// Children of each figure.
    books: &'a RefCell<Vec<(Labels, Rc<Ledger>)>>,
}

impl<'a> ChildShotInputs<'a> {
    fn workloads<'b>(self, ways: &[ChildMethod], setting: ForkSetting, shots: Option<u32>) -> Vec<Workload<'b>>
    where
        'a: 'b,
    {
        ways.iter().filter_map(|&way| self.workload(way, setting, shots)).collect()
    }

    fn workload<'b>(self, way: ChildMethod, setting: ForkSetting, shots: Option<u32>) -> Option<Workload<'b>>
    where
        'a: 'b,
    {
        if way.how == "first_instruction" && !self.counts_ticks {
            return None;
        }
        let image = match way.image {
            None => None,
            Some("static") => Some(&self.images.smallest),
            Some(_) => Some(self.images.dynamic.as_ref()?),
        };
        let task = Task { image, ..Task::default() };
        let book = Rc::new(Ledger::default());
        self.books.borrow_mut().push((labels(way, setting), Rc::clone(&book)));
        let expected_status = image.map_or(STATUS, |image| image.status);
        let name = "child";
        let workload = match way.how {
            // The child is reaped after the clock has been read.
            "fork" => {
                let left: Rc<Cell<Option<Child>>> = Rc::default();
                let made = Rc::clone(&left);
                let opened = Rc::clone(&book);
                Workload::of(name, labels(way, setting), 1, move |_| {
                    made.set(Some(opened.enter(child::fork(task))?));
                    Ok(())
                })
                .tidied(move || left.take().map_or(Ok(()), |child| book.reap(child, STATUS)))
            }
            "first_instruction" => Workload::self_timed(name, labels(way, setting), 1, move |_| {
                let began = arch::stamp().ticks;
                let child = book.enter(child::fork(Task { stamp: Some(self.stamp), ..Task::default() }))?;
                book.reap(child, STATUS)?;
                Ok(Timed::Ticks(self.stamp.get() - began))
            }),
            how => Workload::of(name, labels(way, setting), 1, move |_| {
                let made = match how {
                    "library_fork_wait" => child::library_fork(),
                    "vfork_wait" => child::vfork(task),
                    "posix_spawn_wait" => child::spawn(image.unwrap_or(&self.images.smallest)),
                    _ => child::fork(task),
                };
                book.reap(book.enter(made)?, expected_status)
            }),
        };
        let workload = workload.sized(Sizing::Exactly(1)).expecting(Expected {
            faults: true,
            migration: setting.child == "free",
            ..Expected::default()
        });
        Some(match shots {
            Some(shots) => workload.at_most(shots),
            None => workload,
        })
    }
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    for (way, setting) in combinations() {
        let labels = labels(way, setting);
        let Some(estimate) = study.sample("child", &labels).as_ref().and_then(Estimate::undisturbed) else { continue };
        let own = child_gates(study, way, setting, &estimate);
        findings.publish(study, Figure::batches(TIME, labels, &estimate).gates(own));
    }
    for how in ["fork", "fork_wait"] {
        publish_by_size(study, findings, how);
    }
}

fn child_gates(study: &Study<'_>, way: ChildMethod, setting: ForkSetting, estimate: &Estimate) -> Vec<Gate> {
    let floor = match (way.how, way.image) {
        ("fork" | "first_instruction", _) => FORK_FLOOR,
        (_, None) => WAIT_FLOOR,
        _ => EXEC_FLOOR,
    };
    let mut gates = vec![
        gates::floor_in_time(&FLOOR, study, estimate, floor).because("no kernel creates a task faster"),
        children::gate(study, &labels(way, setting)),
    ];
    let mut not_above = |other: ChildMethod, why: &str| {
        if let Some(other) = study.sample("child", &labels(other, setting)).as_ref().and_then(Estimate::undisturbed) {
            let reason = format!("{SLACK} times {}: {why}", number(other.value));
            gates.push(Gate::at_most(&ORDER, estimate.named("{}"), other.value * SLACK).because(reason));
        }
    };
    match way.how {
        "fork" => not_above(WAYS[2], "fork returns before its child is reaped"),
        "vfork_wait" if setting.resident >= COMPARED => not_above(WAYS[2], "borrowed memory is not copied"),
        _ => {}
    }
    gates
}

/// The costs of a way over resident sizes on small pages, and what a page adds.
fn publish_by_size(study: &Study<'_>, findings: &mut Findings, how: &str) {
    let Some(way) = WAYS.into_iter().find(|way| way.how == how) else { return };
    let sizes = std::iter::once(0).chain(SIZES);
    let points = sizes.map(|resident| (resident as f64 / SMALL_PAGE, labels(way, ForkSetting { resident, ..BASE })));
    let labels = Labels::of([("how", how)]);
    let sweep = Sweep::of(study, "child", points);
    let Some((sweep, (estimate, linear))) =
        sweep.and_then(|sweep| Some((sweep.clone(), sweep.slope("resident pages")?)))
    else {
        findings.cannot(PER_PAGE, labels, "fewer than three resident sizes could be measured");
        return;
    };
    let gates = vec![linear, gates::resolved(&estimate)];
    findings.publish(study, Figure::derived(PER_PAGE, labels.clone(), &estimate).gates(gates));
    findings.curves.push(Curve {
        name: "os.process_creation.by_resident_size".to_owned(),
        labels,
        words: BTreeMap::new(),
        x: Axis { label: "resident memory of the parent".to_owned(), unit: Unit::Bytes },
        y: Axis { label: "one child".to_owned(), unit: Unit::Nanoseconds },
        points: sweep.curve(study, SMALL_PAGE),
    });
}

fn explain(_: &Study<'_>, findings: &mut Findings) {
    let time = |findings: &Findings, way: ChildMethod, setting: ForkSetting| {
        findings.metric(TIME, &labels(way, setting)).cloned()
    };
    if let (Some(fork), Some(wait), Some(vfork)) =
        (time(findings, WAYS[0], BASE), time(findings, WAYS[2], BASE), time(findings, WAYS[4], BASE))
    {
        findings.say(format!(
            "From a small parent fork returns after {}, and its child has run and is reaped after {}. A child that \
             borrows the memory of the parent takes {}.",
            fork.shown(),
            wait.shown(),
            vfork.shown(),
        ));
    }
    if let (Some(plain), Some(loaded)) = (time(findings, WAYS[5], BASE), time(findings, WAYS[6], BASE)) {
        let (fixed, dynamic) = (plain.shown(), loaded.shown());
        let difference = match Order::of(&loaded, &plain) {
            Order::Larger(_) => {
                let loader = significant(dynamic.value - fixed.value, Unit::Nanoseconds, 2);
                format!(". The difference of {loader} is the loader")
            }
            Order::Alike => ". The intervals do not show a cost of the loader".to_owned(),
            Order::Smaller(_) | Order::Open => String::new(),
        };
        findings.say(format!(
            "The smallest static program takes {fixed} from fork to reaping, a dynamic program {dynamic}{difference}."
        ));
    }
    let per_page = findings.metric(PER_PAGE, &Labels::of([("how", "fork")])).cloned();
    if let Some(per_page) = per_page {
        let gibibyte = per_page.shown().value * f64::from(1 << 30) / SMALL_PAGE;
        findings.say(format!(
            "Each 4 KiB page of the parent adds {} to fork. A process with 1 GiB of such pages stops for about {} \
             whenever it forks.",
            per_page.shown(),
            significant(gibibyte, Unit::Nanoseconds, 2),
        ));
    }
    let at = |pages| ForkSetting { resident: 256 * MIB, pages, ..BASE };
    if let (Some(small), Some(huge)) = (time(findings, WAYS[2], at("4k")), time(findings, WAYS[2], at("huge"))) {
        let why = match Order::of(&small, &huge) {
            Order::Larger(ratio) => {
                format!(". The ratio is {}, because a huge page needs one table entry instead of 512", ratio.text())
            }
            Order::Alike => ". The intervals do not show a gain from huge pages".to_owned(),
            Order::Smaller(_) | Order::Open => String::new(),
        };
        findings.say(format!(
            "With 256 MiB on 4 KiB pages fork_wait takes {}, and on huge pages {}{why}.",
            small.shown(),
            huge.shown(),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_have_labels_of_their_own() {
        let mut all: Vec<String> =
            combinations().into_iter().map(|(way, setting)| labels(way, setting).to_string()).collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
