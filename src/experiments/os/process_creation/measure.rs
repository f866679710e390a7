//! The children of a launch: every way from a small parent, and some ways from larger ones.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;

use super::TIME;
use super::ways::{self, BASE, COMPARED, ChildMethod, ForkSetting, WAYS, combinations, labels, ways_with_memory};
use crate::experiments::os::children;
use crate::experiments::prelude::*;
use crate::rig::sampler::{Expected, Timed};
use crate::sys::affinity;
use crate::sys::arch;
use crate::sys::child::{self, Child, Image, Ledger, STATUS, Task};
use crate::sys::memory::{self, HUGE_PAGES_OFF, Resident, SharedNumber};

/// Where the dynamic program is looked for.
const DYNAMIC: [&str; 2] = ["/bin/true", "/usr/bin/true"];

pub(super) fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let cannot = |error: std::io::Error| Problem::new(format!("cannot prepare children: {error}"));
    let images = Images::find().map_err(cannot)?;
    let stamp = SharedNumber::new().map_err(cannot)?;
    if images.dynamic.is_none() {
        let reason = format!("no dynamically linked program at {}", DYNAMIC.join(" or "));
        rig.unavailable(TIME, &Labels::of([("image", "dynamic")]), &reason);
    }
    if images.shell.is_none() {
        rig.unavailable(
            TIME,
            &Labels::of([("image", ways::SHELL)]),
            &format!("there is no {}", child::SHELL.to_string_lossy()),
        );
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
    rig.sample_in_blocks(kit.workloads(&WAYS, BASE, None))?;
    if rig.setup().allowed.len() > 1 && affinity::restrict(&rig.setup().allowed).is_ok() {
        let ways: Vec<ChildMethod> =
            combinations().into_iter().filter(|(_, setting)| setting.child == "free").map(|(way, _)| way).collect();
        let sampled = rig.sample_in_blocks(kit.workloads(&ways, ForkSetting { child: "free", ..BASE }, None));
        affinity::restrict(&[rig.setup().cpu]).map_err(cannot)?;
        sampled?;
    } else {
        rig.unavailable(TIME, &Labels::of([("child", "free")]), &"only one CPU is allowed");
    }
    let quick = rig.setup().profile.is_quick();
    for (_, setting) in combinations().into_iter().filter(|(_, setting)| quick && setting.resident > COMPARED) {
        let labels = Labels::of([("pages", setting.pages)]).with("resident", setting.resident);
        rig.unavailable(TIME, &labels, &"a quick run omits it, because writing all pages again and again takes long");
    }
    for &(resident, pages, shots) in ways::parents(quick, rig.turn()) {
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
    let (borrowing, copying): (Vec<ChildMethod>, Vec<ChildMethod>) =
        ways_with_memory(setting.resident, setting.pages).into_iter().partition(|way| way.borrows());
    // Nothing protects borrowed memory from writes. To write it would only empty the caches.
    rig.sample_in_blocks(kit.workloads(&borrowing, setting, None))?;
    let resident = RefCell::new(&mut resident);
    let workloads = kit
        .workloads(&copying, setting, Some(shots))
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
    shell: Option<Image>,
}

impl Images {
    fn find() -> std::io::Result<Self> {
        let smallest = Image::smallest()?;
        let found = DYNAMIC.into_iter().find(|path| Path::new(path).exists() && child::is_dynamic(path));
        let dynamic = found.and_then(|path| Image::file(path, 0).ok());
        let shell = child::SHELL.to_str().is_ok_and(|path| Path::new(path).exists()).then(Image::shell);
        Ok(Images { smallest, dynamic, shell })
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
            Some(ways::SHELL) => Some(self.images.shell.as_ref()?),
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
                let began = arch::opening().ticks;
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
