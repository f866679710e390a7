//! # Question
//!
//! What does a new process cost, by each way of making one, and how does the price grow with the memory of the parent?
//!
//! # Method
//!
//! There is no single "fork time"; each figure is named for what lies between its two clock reads.
//!
//! - **fork**: from before the call until it returns in the parent. The child may have run meanwhile or not.
//! - **fork_wait**: until a child that leaves at once has been reaped.
//! - **first_instruction**: until the child's first instruction, which stores the time in a page that both share.
//! - **vfork_wait**: as fork_wait, the child borrowing the parent's memory instead of copying it.
//! - **library_fork_wait**: as fork_wait through the C library, which adds its own handlers.
//! - **fork_exec_wait**: the child executes another image and leaves: **static**, a program of two instructions that this
//!   tool writes into memory, or **dynamic**, the system's `true` with its loader and libraries.
//! - **posix_spawn_wait**: the same through the C library's posix_spawn().
//!
//! Each is a single shot between two clock probes, one child at a time, everything made by the kernel's call directly, the
//! child running nothing but registers and system calls. Every child is reaped and its exit status checked; an image that
//! could not be executed, or a status that is not the expected one, voids the shot.
//!
//! **resident** is the size of private memory, every page written, that the parent has beside itself; its pages are written
//! again before each shot, because a second fork finds pages already write-protected by the first. **pages** says whether
//! it lies on 4 KiB or on huge pages, looked up after mapping. **child** is the CPU on which the child may run: the parent's
//! (same_cpu), or any (free). The cost per page is the slope of a line over resident sizes, fitted in each launch.
//!
//! # Prediction
//!
//! A base for a small process, plus 20 to 45 ns for every page whose table entry is copied, plus the same again for taking
//! the child's entries away when its end is waited for; huge pages have 512 times fewer entries. An image costs its new
//! tables and first faults; a dynamic one also its loader.
//!
//! # What could fool us
//!
//! - fork's return as "process creation": the child has not run, and on one CPU it may have run before the return.
//! - Children that are not reaped, and images that fail to execute, both look fast.
//! - The size of the parent is rarely stated, and a shell that forks is not a database that forks.
//! - Huge pages make resident memory nearly free to fork; whether a buffer got them must be looked up.
//! - The dynamic loader dominates `fork + exec` of ordinary programs; that is why both images are here.
//!
//! # References
//!
//! clone(2), vfork(2), posix_spawn(3), elf(5); Linux kernel/fork.c, mm/memory.c; Baumann et al., "A fork() in the road",
//! HotOS 2019.

use std::path::Path;

use crate::evaluate::estimate::Estimate;
use crate::evaluate::findings::Findings;
use crate::evaluate::gates;
use crate::evaluate::sample::Sample;
use crate::evaluate::study::Study;
use crate::experiments::constants::{
    CHILD_LIFE, Constant, DYNAMIC_LOADER, EXEC_STATIC, EXIT_PAGE, FORK_BASE, FORK_PAGE, VFORK_BASE,
};
use crate::experiments::{Effort, Experiment, Foreknowledge, Nature, Publication};
use crate::results::document::{Axis, Curve};
use crate::results::prediction::Prediction;
use crate::results::quantity::{CoreCycles, Labels, Unit};
use crate::results::trouble::Trouble;
use crate::results::verdict::{Gate, Severity};
use crate::results::wording::{number, quantity};
use crate::rig::Rig;
use crate::rig::sampler::{Expected, Sizing, Timed, Workload};
use crate::statistics::fit::least_squares;
use crate::statistics::location::launch_estimates;
use crate::statistics::summary::median;
use crate::sys::affinity;
use crate::sys::arch;
use crate::sys::child::{self, Child, Image, STATUS, Task};
use crate::sys::memory::{self, Pages, Resident, SharedNumber};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "os.process_creation",
    title: "Process creation",
    measures: "fork, vfork, fork and exec, posix_spawn, against the memory of the parent",
    method_version: 1,
    source: include_str!("process_creation.rs"),
    needs: &[],
    uses: &[],
    publishes: &[
        Publication {
            metric: "os.process_creation.time",
            unit: Unit::Nanoseconds,
            meaning: "one child, by the way of making it",
            nature: Nature::Cost,
            headline: common_way,
        },
        Publication {
            metric: "os.process_creation.per_page",
            unit: Unit::Nanoseconds,
            meaning: "what each 4 KiB page of the parent adds",
            nature: Nature::Cost,
            headline: crate::experiments::always,
        },
    ],
    effort: Effort::Expensive,
    seconds: 0.9,
    time_out: 30.0,
    predict,
    measure,
    analyze,
};

const MIB: usize = 1 << 20;
/// Size of the pages that the cost per page is about.
const SMALL_PAGE: f64 = 4096.0;
/// Resident sizes of the parent with how many shots each: the cost of a shot grows with the size.
const SIZES: [(usize, u32); 3] = [(16 * MIB, 16), (64 * MIB, 8), (256 * MIB, 4)];
/// Size at which ways that should not depend on it are compared.
const COMPARED: usize = 64 * MIB;
/// The ways, in the order of the report.
const WAYS: [Way; 9] = [
    Way { how: "fork", image: None },
    Way { how: "first_instruction", image: None },
    Way { how: "fork_wait", image: None },
    Way { how: "library_fork_wait", image: None },
    Way { how: "vfork_wait", image: None },
    Way { how: "fork_exec_wait", image: Some("static") },
    Way { how: "fork_exec_wait", image: Some("dynamic") },
    Way { how: "posix_spawn_wait", image: Some("static") },
    Way { how: "posix_spawn_wait", image: Some("dynamic") },
];
/// Where the dynamic program is looked for.
const DYNAMIC: [&str; 2] = ["/bin/true", "/usr/bin/true"];
/// Physical floors in nanoseconds.
const FORK_FLOOR: f64 = 5_000.0;
const WAIT_FLOOR: f64 = 10_000.0;
const EXEC_FLOOR: f64 = 50_000.0;
/// Least share of the variance that a line over resident sizes must explain.
const LINEAR: f64 = 0.97;

/// A way of making a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Way {
    how: &'static str,
    image: Option<&'static str>,
}

/// The parent's memory and the child's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Setting {
    resident: usize,
    pages: &'static str,
    child: &'static str,
}

const BASE: Setting = Setting { resident: 0, pages: "4k", child: "same_cpu" };

fn labels(way: Way, setting: Setting) -> Labels {
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
fn combinations() -> Vec<(Way, Setting)> {
    let mut all: Vec<(Way, Setting)> = WAYS.into_iter().map(|way| (way, BASE)).collect();
    all.extend(
        WAYS.into_iter()
            .filter(|way| ["fork", "fork_wait"].contains(&way.how) || way.image == Some("static"))
            .map(|way| (way, Setting { child: "free", ..BASE })),
    );
    for pages in ["4k", "huge"] {
        for (resident, _) in SIZES.into_iter().filter(|(resident, _)| pages == "4k" || *resident >= COMPARED) {
            let setting = Setting { resident, pages, ..BASE };
            all.extend(ways_with_memory(resident, pages).into_iter().map(|way| (way, setting)));
        }
    }
    all
}

/// The ways that are measured from a parent with memory.
fn ways_with_memory(resident: usize, pages: &str) -> Vec<Way> {
    let unmoved = resident == COMPARED && pages == "4k";
    WAYS.into_iter()
        .filter(|way| {
            ["fork", "fork_wait"].contains(&way.how)
                || unmoved && (way.how == "vfork_wait" || way.how == "posix_spawn_wait" && way.image == Some("static"))
        })
        .collect()
}

fn predict(_: &Foreknowledge<'_>) -> Vec<Prediction> {
    let mut predictions: Vec<Prediction> =
        combinations().into_iter().map(|(way, setting)| predict_child(way, setting)).collect();
    for how in ["fork", "fork_wait"] {
        let prediction = Prediction::of("os.process_creation.per_page", Labels::of([("how", how)]), Unit::Nanoseconds)
            .software("copying the page's table entry", FORK_PAGE.times(1.0), FORK_PAGE.basis());
        predictions.push(if how == "fork" {
            prediction
        } else {
            prediction.software("taking it away from the child", EXIT_PAGE.times(1.0), EXIT_PAGE.basis())
        });
    }
    predictions
}

fn predict_child(way: Way, setting: Setting) -> Prediction {
    let pages = setting.resident as f64 / SMALL_PAGE / if setting.pages == "huge" { 512.0 } else { 1.0 };
    let add = |prediction: Prediction, what: &str, constant: Constant, count: f64| {
        if count > 0.0 { prediction.software(what, constant.times(count), constant.basis()) } else { prediction }
    };
    let copies = !["vfork_wait", "posix_spawn_wait"].contains(&way.how);
    let lives = way.how != "fork";
    let prediction = Prediction::of("os.process_creation.time", labels(way, setting), Unit::Nanoseconds);
    let prediction = if copies {
        let prediction = add(prediction, "task and tables of a small child", FORK_BASE, 1.0);
        add(prediction, "table entries of the parent's pages", FORK_PAGE, pages)
    } else {
        add(prediction, "a task that borrows the parent's memory", VFORK_BASE, 1.0)
    };
    let prediction = match way.how {
        "fork" => prediction,
        "first_instruction" => add(prediction, "the way to the child's first instruction", CHILD_LIFE, 0.2),
        _ if copies => {
            let prediction = add(prediction, "the child's life and its reaping", CHILD_LIFE, 1.0);
            add(prediction, "taking the child's pages away", EXIT_PAGE, pages)
        }
        _ => prediction,
    };
    let prediction = add(prediction, "another image", EXEC_STATIC, f64::from(u8::from(way.image.is_some() && lives)));
    add(prediction, "the dynamic loader", DYNAMIC_LOADER, f64::from(u8::from(way.image == Some("dynamic"))))
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Trouble> {
    let cannot = |error: std::io::Error| Trouble::new(format!("cannot prepare children: {error}"));
    let images = Images::find().map_err(cannot)?;
    let stamp = SharedNumber::new().map_err(cannot)?;
    for reason in &images.missing {
        rig.remark("cannot.dynamic", reason);
    }
    let kit = Kit { images: &images, stamp: &stamp };
    rig.sample(kit.workloads(&WAYS, BASE, None))?;
    if rig.allowed().len() > 1 && affinity::restrict(rig.allowed()).is_ok() {
        let ways: Vec<Way> =
            combinations().into_iter().filter(|(_, setting)| setting.child == "free").map(|(way, _)| way).collect();
        let sampled = rig.sample(kit.workloads(&ways, Setting { child: "free", ..BASE }, None));
        affinity::restrict(&[rig.cpu()]).map_err(cannot)?;
        sampled?;
    } else {
        rig.remark("cannot.free", &"only one CPU is allowed");
    }
    for pages in ["4k", "huge"] {
        for (resident, shots) in SIZES {
            measure_with_memory(rig, &kit, Setting { resident, pages, ..BASE }, shots)?;
        }
    }
    Ok(())
}

/// All ways that are measured with memory, if there is enough of it and it has the pages asked for.
fn measure_with_memory(rig: &mut Rig<'_>, kit: &Kit<'_>, setting: Setting, shots: u32) -> Result<(), Trouble> {
    if setting.pages == "huge" && setting.resident < COMPARED {
        return Ok(());
    }
    let what = format!("cannot.{}.{}", setting.resident, setting.pages);
    if setting.resident as u64 > rig.memory() {
        rig.remark(&what, &"it would take more than a quarter of the available memory");
        return Ok(());
    }
    let pages = if setting.pages == "huge" { Pages::Huge } else { Pages::Small };
    let before = memory::huge_bytes().unwrap_or(0);
    let mut resident = match Resident::new(setting.resident, pages) {
        Ok(resident) => resident,
        Err(error) => {
            rig.remark(&what, &format!("the memory could not be had: {error}"));
            return Ok(());
        }
    };
    let huge = memory::huge_bytes().unwrap_or(0).saturating_sub(before) as f64 / setting.resident as f64;
    if (pages == Pages::Huge && huge < 0.9) || (pages == Pages::Small && huge > 0.01) {
        rig.remark(&what, &format!("{:.0} % of the memory lies on huge pages", huge * 100.0));
        return Ok(());
    }
    let ways = ways_with_memory(setting.resident, setting.pages);
    let resident = std::cell::RefCell::new(&mut resident);
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

/// The programs that children execute.
struct Images {
    smallest: Image,
    dynamic: Option<Image>,
    missing: Vec<String>,
}

impl Images {
    fn find() -> std::io::Result<Self> {
        let smallest = Image::smallest()?;
        let found = DYNAMIC.into_iter().find(|path| Path::new(path).exists() && child::is_dynamic(path));
        let dynamic = found.and_then(|path| Image::file(path, 0).ok());
        let missing = if dynamic.is_some() {
            Vec::new()
        } else {
            vec![format!("no dynamically linked program at {}", DYNAMIC.join(" or "))]
        };
        Ok(Images { smallest, dynamic, missing })
    }
}

/// What shots are made from.
#[derive(Clone, Copy)]
struct Kit<'a> {
    images: &'a Images,
    stamp: &'a SharedNumber,
}

impl<'a> Kit<'a> {
    fn workloads<'b>(self, ways: &[Way], setting: Setting, shots: Option<u32>) -> Vec<Workload<'b>>
    where
        'a: 'b,
    {
        ways.iter().filter_map(|&way| self.workload(way, setting, shots)).collect()
    }

    fn workload<'b>(self, way: Way, setting: Setting, shots: Option<u32>) -> Option<Workload<'b>>
    where
        'a: 'b,
    {
        let image = match way.image {
            None => None,
            Some("static") => Some(&self.images.smallest),
            Some(_) => Some(self.images.dynamic.as_ref()?),
        };
        let task = Task { image, ..Task::default() };
        let expected_status = image.map_or(STATUS, |image| image.status);
        let name = "child";
        let workload = match way.how {
            // The child is reaped after the clock has been read.
            "fork" => {
                let left: std::rc::Rc<std::cell::Cell<Option<Child>>> = std::rc::Rc::default();
                let made = std::rc::Rc::clone(&left);
                Workload::of(name, labels(way, setting), 1, move |_| {
                    made.set(Some(child::fork(task).map_err(|error| error.to_string())?));
                    Ok(())
                })
                .tidied(move || left.take().map_or(Ok(()), |child| reap(child, STATUS)))
            }
            "first_instruction" => Workload::self_timed(name, labels(way, setting), 1, move |_| {
                let began = arch::stamp().ticks;
                let child = child::fork(Task { stamp: Some(self.stamp), ..Task::default() });
                reap(child.map_err(|error| error.to_string())?, STATUS)?;
                Ok(Timed::Ticks(self.stamp.get() - began))
            }),
            how => Workload::of(name, labels(way, setting), 1, move |_| {
                let made = match how {
                    "library_fork_wait" => child::library_fork(),
                    "vfork_wait" => child::vfork(task),
                    "posix_spawn_wait" => child::spawn(image.unwrap_or(&self.images.smallest)),
                    _ => child::fork(task),
                };
                reap(made.map_err(|error| error.to_string())?, expected_status)
            }),
        };
        let workload =
            workload.sized(Sizing::Exactly(1)).expecting(Expected { faults: true, migration: setting.child == "free" });
        Some(match shots {
            Some(shots) => workload.at_most(shots),
            None => workload,
        })
    }
}

/// Waits for a child and checks how it left.
fn reap(child: Child, expected: i32) -> Result<(), String> {
    match child.reap()? {
        status if status == expected => Ok(()),
        127 => Err("the image could not be executed".to_owned()),
        status => Err(format!("a child left with status {status} instead of {expected}")),
    }
}

fn analyze(study: &Study<'_>) -> Findings {
    let mut findings = Findings::default();
    for (way, setting) in combinations() {
        let labels = labels(way, setting);
        let Some(estimate) = study.sample("child", &labels).as_ref().and_then(Estimate::undisturbed) else {
            if let Some(reason) = why_missing(study, way, setting) {
                findings.cannot("os.process_creation.time", labels, &reason);
            }
            continue;
        };
        let own = child_gates(study, way, setting, &estimate);
        findings.publish(study, "os.process_creation.time", labels, &estimate, own);
    }
    for how in ["fork", "fork_wait"] {
        publish_per_page(study, &mut findings, how);
        findings.curves.extend(curve(study, how));
    }
    explain_figures(&mut findings);
    findings.say_predictions();
    findings
}

fn why_missing(study: &Study<'_>, way: Way, setting: Setting) -> Option<String> {
    let said = |what: &str| study.remarks(what).first().map(|&reason| reason.to_owned());
    if way.image == Some("dynamic") {
        return said("cannot.dynamic");
    }
    if setting.child == "free" {
        return said("cannot.free");
    }
    said(&format!("cannot.{}.{}", setting.resident, setting.pages)).or_else(|| said("wrong.child"))
}

fn child_gates(study: &Study<'_>, way: Way, setting: Setting, estimate: &Estimate) -> Vec<Gate> {
    let floor = match (way.how, way.image) {
        ("fork" | "first_instruction", _) => FORK_FLOOR,
        (_, None) => WAIT_FLOOR,
        _ => EXEC_FLOOR,
    };
    let mut gates = vec![gates::floor_in_time(study, estimate, floor, "a task cannot be made in less")];
    let mut not_above = |other: Way, slack: f64, why: &str| {
        if let Some(other) = study.sample("child", &labels(other, setting)).as_ref().and_then(Estimate::undisturbed) {
            gates.push(Gate::of(
                "G20",
                Severity::Noisy,
                estimate.value <= other.value * slack,
                format!("{} against {} {}: {why}", number(estimate.value), number(other.value), estimate.unit),
            ));
        }
    };
    match way.how {
        "fork" => not_above(WAYS[2], 1.05, "fork returns before its child is reaped"),
        "vfork_wait" if setting.resident >= COMPARED => not_above(WAYS[2], 1.05, "borrowed memory is not copied"),
        _ => {}
    }
    gates
}

/// A resident size in small pages, with the lower quartile of each launch.
type CostsOfSize = (f64, Vec<f64>);

/// The costs of a way over resident sizes on small pages.
fn costs_by_size(study: &Study<'_>, how: &str) -> Option<(Unit, Vec<CostsOfSize>)> {
    let way = WAYS.into_iter().find(|way| way.how == how)?;
    let sizes = std::iter::once(0).chain(SIZES.into_iter().map(|(resident, _)| resident));
    let samples: Vec<(f64, Sample)> = sizes
        .filter_map(|resident| {
            let setting = Setting { resident, ..BASE };
            Some((resident as f64 / SMALL_PAGE, study.sample("child", &labels(way, setting))?))
        })
        .collect();
    let unit = samples.first()?.1.unit;
    let by_size = samples.iter().map(|(pages, sample)| (*pages, launch_estimates(&sample.launches, 0.25))).collect();
    Some((unit, by_size))
}

fn publish_per_page(study: &Study<'_>, findings: &mut Findings, how: &str) {
    let Some((unit, by_size)) = costs_by_size(study, how).filter(|(_, by_size)| by_size.len() >= 3) else { return };
    let launches = by_size.iter().map(|(_, costs)| costs.len()).min().unwrap_or(0);
    let x: Vec<f64> = by_size.iter().map(|(pages, _)| *pages).collect();
    let lines: Vec<_> = (0..launches)
        .filter_map(|launch| least_squares(&x, &by_size.iter().map(|(_, costs)| costs[launch]).collect::<Vec<f64>>()))
        .collect();
    let slopes: Vec<f64> = lines.iter().map(|line| line.slope).collect();
    let Some(estimate) =
        Estimate::over_launches(&slopes, unit, "median over launches of the slope over resident pages")
    else {
        return;
    };
    let explained = median(&lines.iter().filter_map(|line| line.explained).collect::<Vec<f64>>()).unwrap_or(0.0);
    let gates = vec![
        Gate::of(
            "linear",
            Severity::Hard,
            explained >= LINEAR,
            format!("a line explains {explained:.4} of the variance over sizes; at least {LINEAR}"),
        ),
        gates::resolved(&estimate),
    ];
    findings.publish_derived(study, "os.process_creation.per_page", Labels::of([("how", how)]), &estimate, gates);
}

fn curve(study: &Study<'_>, how: &str) -> Option<Curve> {
    let (unit, by_size) = costs_by_size(study, how)?;
    let scale = match (unit, study.core) {
        (Unit::Cycles, Some(core)) => CoreCycles(1.0).at(core).0,
        _ => 1.0,
    };
    let points = by_size
        .iter()
        .filter_map(|(pages, costs)| {
            let low = costs.iter().copied().reduce(f64::min)?;
            let high = costs.iter().copied().reduce(f64::max)?;
            Some([pages * SMALL_PAGE, median(costs)? * scale, low * scale, high * scale])
        })
        .collect();
    Some(Curve {
        name: "os.process_creation.by_resident_size".to_owned(),
        labels: Labels::of([("how", how)]),
        x: Axis { label: "resident memory of the parent".to_owned(), unit: Unit::Bytes },
        y: Axis { label: "one child".to_owned(), unit: Unit::Nanoseconds },
        points,
    })
}

fn explain_figures(findings: &mut Findings) {
    let time = |findings: &Findings, way: Way, setting: Setting| {
        findings.metric("os.process_creation.time", &labels(way, setting)).map(|found| found.value)
    };
    let nanoseconds = |value| quantity(value, Unit::Nanoseconds);
    if let (Some(fork), Some(wait), Some(vfork)) =
        (time(findings, WAYS[0], BASE), time(findings, WAYS[2], BASE), time(findings, WAYS[4], BASE))
    {
        findings.say(format!(
            "From a small parent fork returns after {}; until its child has run and is reaped it takes {}. A child that borrows the parent's memory takes {}.",
            nanoseconds(fork),
            nanoseconds(wait),
            nanoseconds(vfork),
        ));
    }
    if let (Some(plain), Some(loaded)) = (time(findings, WAYS[5], BASE), time(findings, WAYS[6], BASE)) {
        findings.say(format!(
            "Executing the smallest static program takes {} from fork to reaping, a dynamic one {}: the difference of {} is the loader's.",
            nanoseconds(plain),
            nanoseconds(loaded),
            nanoseconds(loaded - plain),
        ));
    }
    let per_page =
        findings.metric("os.process_creation.per_page", &Labels::of([("how", "fork")])).map(|found| found.value);
    if let Some(per_page) = per_page {
        let gibibyte = per_page * f64::from(1 << 30) / SMALL_PAGE;
        findings.say(format!(
            "Each 4 KiB page of the parent adds {} to fork: a process with 1 GiB of such pages stands still for about {} whenever it forks.",
            nanoseconds(per_page),
            nanoseconds(gibibyte),
        ));
    }
    let at = |pages| Setting { resident: 256 * MIB, pages, ..BASE };
    if let (Some(small), Some(huge)) = (time(findings, WAYS[2], at("4k")), time(findings, WAYS[2], at("huge"))) {
        findings.say(format!(
            "With 256 MiB on 4 KiB pages fork_wait takes {}, on huge pages {}: {} times less, because there are 512 times fewer table entries.",
            nanoseconds(small),
            nanoseconds(huge),
            number(small / huge),
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

    #[test]
    fn a_child_with_the_wrong_status_is_refused() {
        let child = child::fork(Task::default()).unwrap();
        assert!(reap(child, 0).is_err());
        let missing = Image::file("/nonexistent", 0).unwrap();
        let child = child::fork(Task { image: Some(&missing), ..Task::default() }).unwrap();
        assert_eq!(reap(child, 0).unwrap_err(), "the image could not be executed");
    }
}
