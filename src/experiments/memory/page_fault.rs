//! # Question
//!
//! How long does a program wait when it first touches a page, depending on what the kernel must do for that page?
//!
//! # Method
//!
//! A batch touches one byte in each of many unmapped pages, with mapping and unmapping outside the two clock reads.
//! The cost is the batch time divided by the **page faults** that the kernel counted, because one fault may map many
//! pages. A batch whose count is not the expected one is discarded. A second metric is the number of pages that a
//! fault maps.
//!
//! - **anonymous_write**: the first write to a private page. The kernel finds a page, clears it and maps it.
//! - **anonymous_read**: the first read of a private page. The kernel maps its shared page of zeros.
//! - **file_cached**: the first read of a mapped file in the page cache. The kernel also maps the pages around it.
//! - **file_cached_single**: the same where the kernel can map only one page. Every page is a separate mapping, in
//!   descending order of the file.
//! - **file_cold**: the page is not in memory, and a **major** fault waits for the device.
//! - **copy_on_write**: a write to a page that a sleeping fork(2) child shares.
//! - **huge_anonymous**: anonymous_write where the kernel provides a huge page, verified after every batch.
//!
//! Before each batch of file_cold, sysdyno drops the file from the cache until the kernel reports none of its pages
//! there. Read-ahead is off (MADV_RANDOM), and the pages are in random order. After the batch, the kernel must have
//! counted one major fault per page. Devices must have read at least the bytes of these pages for the process, and
//! the cache must hold no other pages of the file.
//!
//! Each launch creates a file of 4 MiB of random bytes in the scratch directory, without a name, so that nothing
//! remains of it. **direct_read** reads 4 KiB of this file past the cache at random offsets. A cold fault must cost
//! one direct read plus one minor fault.
//!
//! # Prediction
//!
//! An exception, a page from the allocator, its clearing or copying, and a page-table entry, from the constants
//! table. A major fault: one read from a device of this kind and one minor fault.
//!
//! # What could fool us
//!
//! - One fault may map many pages: 64 KiB around the address, or a whole large folio. The pages per fault are
//!   counted, not assumed.
//! - The file may still be cached. The kernel does not drop pages that are mapped or not yet written to the device.
//! - Files on tmpfs, and files that were allocated but never written, wait for no device.
//! - A file of 4 MiB that was just written often comes from the memory of a virtual disk's host, or from a disk's own
//!   cache.
//! - In a guest, the first use of memory also costs an exit to the host. The pages here are reused, and the first
//!   iteration is not counted.
//! - The cost of a fault divided by the page size is not a latency. It is the cost per byte if the program uses all
//!   bytes, so compare it with a bandwidth.
//!
//! # References
//!
//! mmap(2), madvise(2), cachestat(2), mincore(2), proc(5). Linux `mm/memory.c`, `mm/filemap.c` (fault-around,
//! read-ahead), `mm/huge_memory.c`. Linux `Documentation/admin-guide/mm/transhuge.rst`.

use std::cell::RefCell;
use std::fs::File;
use std::rc::Rc;

use crate::evaluate::estimate::Estimate;
use crate::evaluate::figure::Figure;
use crate::evaluate::findings::Findings;
use crate::evaluate::gate::{Number, rules};
use crate::evaluate::gates;
use crate::evaluate::precision::Precision;
use crate::evaluate::study::Study;
use crate::experiments::constants::{
    Constant, CycleTime, EXCEPTION, FILE_PAGE_LOOKUP, FLUSH_ENTRY, PAGE_ALLOCATION, PAGE_CLEAR, PAGE_COPY,
    PAGE_TABLE_ENTRY, PAGES_AROUND, disk_read,
};
use crate::experiments::memory::footprint::MEMORY;
use crate::experiments::memory::streams;
use crate::experiments::memory::touching::{
    Cold, PROOFS, Shared, Tally, count, counted, drop_from_cache, huge_pages_work, labels, read_past, scratch_file,
    touching,
};
use crate::experiments::{Experiment, PredictionInput, Publication};
use crate::machine::Medium;
use crate::results::prediction::Prediction;
use crate::results::problem::Problem;
use crate::results::quantity::{Labels, Unit};
use crate::results::verdict::Gate;
use crate::results::wording::{number, quantity};
use crate::rig::Rig;
use crate::rig::sampler::{Expected, Sizing, Workload};
use crate::statistics::summary::median;
use crate::sys::child::{self, Child, Task};
use crate::sys::fault::{self, HUGE_PAGE, Untouched};
use crate::sys::memory::{self, Pages, SharedNumber, page_size};
use crate::sys::stream::Operation;
use crate::sys::system_call;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "memory.page_fault",
    title: "Page faults",
    measures: "time of the first access to a page, by the work that the kernel does for it",
    method_version: 1,
    precision: Precision { target: 0.05, between: 0.04 },
    source: include_str!("page_fault.rs"),
    needs: &[],
    uses: &["cpu.cycle_time"],
    rules: RULES,
    constants: &[],
    publishes: &[
        Publication::cost(TIME, Unit::Nanoseconds, "one page fault, for any number of pages that it maps").in_summary(),
        Publication::state(PAGES, Unit::One, "small pages that each fault maps"),
    ],
    every: |_| 1,
    seconds: |_| 0.2,
    time_out: 60.0,
    memory: |_| 2 * (HUGE_PAGES * HUGE_PAGE) as u64,
    predict,
    measure,
    measure_first: Some(measure_first),
    figures,
    explain,
};

const TIME: &str = "memory.page_fault.time";
const PAGES: &str = "memory.page_fault.pages_per_fault";

/// The kinds, in the order of the report.
const KINDS: [&str; 7] = [WRITE, READ, CACHED, SINGLE, COLD, COPY, HUGE];
const WRITE: &str = "anonymous_write";
const READ: &str = "anonymous_read";
const CACHED: &str = "file_cached";
const SINGLE: &str = "file_cached_single";
const COLD: &str = "file_cold";
const COPY: &str = "copy_on_write";
const HUGE: &str = "huge_anonymous";
/// Reading past the cache: not a fault, but what a major one consists of.
const DIRECT: &str = "direct_read";

/// Small pages of a batch: some hundred microseconds, in which the scheduler rarely steps in.
const BATCH: usize = 256;
/// Small pages of the file.
const FILE: usize = 1024;
/// Mappings of the cached file in a batch.
const MAPPINGS: usize = 16;
/// Cold pages of a batch.
const COLD_PAGES: usize = 32;
/// Huge pages of a batch.
const HUGE_PAGES: usize = 4;
/// Batches of what waits for a device.
const COLD_BATCHES: u32 = 3;
/// Longest sleep of a child that holds pages: if all else fails, it ends by itself.
const CHILD_SLEEP: i64 = 60;
/// Physical floors: cycles of a minor fault, nanoseconds of a major one.
const MINOR_FLOOR: f64 = 250.0;
const MAJOR_FLOOR: f64 = 5_000.0;
/// How far a major fault may be from the sum of its parts.
const PARTS: f64 = 0.25;
/// Clearing a page may cost so many times what copying one does.
const CLEAR_SLACK: f64 = 1.05;
/// A fault maps a page at least; a count may be off by a tenth.
const LEAST_PAGES: f64 = 0.9;

rules! {
    MINOR: "G8" Hard "`memory.page_fault`", "a minor fault takes at least {}", cycles(MINOR_FLOOR);
    MAJOR: "G8" Hard "`memory.page_fault` kind=file_cold", "a major fault takes at least {}", time(MAJOR_FLOOR);
    ORDER: "G20" Noisy "`memory.page_fault`",
        "a page of zeros costs less than a new page, clearing at most {} times copying, a huge page less than its \
         small pages", plain(CLEAR_SLACK);
    COUNTED: "G22" Hard "`memory.page_fault`",
        "the kernel counted the expected number of faults, or up to a 64th more (1 to 8)";
    PROVEN: "G23" Hard "`memory.page_fault` kind=file_cold",
        "no page of the file was cached before and no other page after, with one major fault and a device read per \
         page";
    PER_FAULT: "G24" Hard "`memory.page_fault`", "a cost is per fault and has the number of pages per fault next to it";
    SUM: "G40" Noisy "`memory.page_fault` kind=file_cold",
        "a cold fault costs a direct read plus a minor fault, within {}", share(PARTS);
}

fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let cycle = CycleTime::known(by);
    let of = |constant: Constant, count: f64| {
        let range = constant.times(count);
        if constant.unit == "cycles" { cycle.of(range) } else { range }
    };
    let small_per_huge = HUGE_PAGE as f64 / page_size() as f64;
    let mut all = Vec::new();
    for kind in KINDS {
        let parts: Vec<(&str, Constant, f64)> = match kind {
            WRITE => vec![
                ("a page from the allocator", PAGE_ALLOCATION, 1.0),
                ("clearing it", PAGE_CLEAR, 1.0),
                ("mapping it", PAGE_TABLE_ENTRY, 1.0),
            ],
            READ => vec![("mapping the page of zeros", PAGE_TABLE_ENTRY, 1.0)],
            CACHED => vec![
                ("finding the page in the cache", FILE_PAGE_LOOKUP, 1.0),
                ("mapping the surrounding pages", PAGES_AROUND, 1.0),
            ],
            SINGLE => {
                vec![("finding the page in the cache", FILE_PAGE_LOOKUP, 1.0), ("mapping it", PAGE_TABLE_ENTRY, 1.0)]
            }
            COPY => vec![
                ("a page from the allocator", PAGE_ALLOCATION, 1.0),
                ("copying into it", PAGE_COPY, 1.0),
                ("mapping it instead of the shared one", PAGE_TABLE_ENTRY, 1.0),
                ("flushing the old entry", FLUSH_ENTRY, 1.0),
            ],
            COLD => match disk_read(&by.setup.machine) {
                Some(read) => vec![
                    ("reading 4 KiB from the device", read, 1.0),
                    ("a page from the allocator, and finding it in the cache", FILE_PAGE_LOOKUP, 2.0),
                    ("mapping it", PAGE_TABLE_ENTRY, 1.0),
                ],
                None => continue,
            },
            _ => vec![
                ("a huge page from the allocator", PAGE_ALLOCATION, 3.0),
                ("clearing it", PAGE_CLEAR, small_per_huge),
                ("mapping it", PAGE_TABLE_ENTRY, 1.0),
            ],
        };
        let prediction = Prediction::of(TIME, labels(kind), Unit::Nanoseconds).hardware(
            "exception entry and exit",
            of(EXCEPTION, 1.0),
            EXCEPTION.basis(),
        );
        let add = |prediction: Prediction, (what, constant, count): (&str, Constant, f64)| {
            let hardware = [PAGE_CLEAR, PAGE_COPY].contains(&constant) || constant.name.starts_with("DISK");
            let (range, basis) = (of(constant, count), constant.basis());
            if hardware { prediction.hardware(what, range, basis) } else { prediction.software(what, range, basis) }
        };
        all.push(parts.into_iter().fold(prediction, add));
    }
    all
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    if rig.memory() < 2 * (HUGE_PAGES * HUGE_PAGE) as u64 {
        return Err(Problem::new("the available memory is too small for a batch of pages")
            .hint("free memory, or raise the memory limit of the container"));
    }
    let mut tally = Tally::default();
    measure_anonymous(rig, &mut tally)?;
    match scratch_file(rig, FILE) {
        Ok(file) => {
            measure_cached(rig, &file, &mut tally)?;
            measure_cold(rig, &file, &mut tally)?;
        }
        Err(reason) => {
            for kind in [CACHED, SINGLE, COLD] {
                rig.unavailable(TIME, &labels(kind), &reason);
            }
        }
    }
    tally.record(rig)
}

/// Mapping the page of zeros, and providing a page.
fn measure_first(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let mut tally = Tally::default();
    let workloads = small_anonymous(&mut tally);
    rig.sample(workloads)?;
    tally.record(rig)
}

fn small_anonymous<'a>(tally: &mut Tally) -> Vec<Workload<'a>> {
    let page = page_size();
    let map = || Untouched::anonymous(BATCH * page_size(), Pages::Small).map_err(|error| error.to_string());
    let (written, read) = (tally.open(WRITE, BATCH), tally.open(READ, BATCH));
    vec![
        touching(WRITE, BATCH, written, map, move |memory| memory.write_every(page), |_| Ok(())),
        touching(READ, BATCH, read, map, move |memory| memory.read_every(page), |_| Ok(())),
    ]
}

fn measure_anonymous(rig: &mut Rig<'_>, tally: &mut Tally) -> Result<(), Problem> {
    let page = page_size();
    let mut workloads = small_anonymous(tally);
    match huge_pages_work() {
        Ok(()) => workloads.push(huge(tally.open(HUGE, HUGE_PAGES * HUGE_PAGE / page))),
        Err(reason) => rig.unavailable(TIME, &labels(HUGE), &reason),
    }
    rig.sample(workloads)?;
    // A fork leaves all of this process's pages to be copied or taken back when they are written next: by itself, and last.
    rig.sample(vec![copying(tally.open(COPY, BATCH))?])
}

/// A mapping all pages of which a sleeping child shares.
fn copying<'a>(counts: Shared<Vec<f64>>) -> Result<Workload<'a>, Problem> {
    let cannot = |error: std::io::Error| Problem::new(format!("cannot prepare a child: {error}"));
    let page = page_size();
    let mut stamp = SharedNumber::new().map_err(cannot)?;
    let holder: Shared<Option<Child>> = Rc::default();
    let leaving = Rc::clone(&holder);
    let map = move || {
        let mut memory = Untouched::anonymous(BATCH * page, Pages::Small).map_err(|error| error.to_string())?;
        memory.write_every(page);
        stamp.set(0);
        let nap = libc::timespec { tv_sec: CHILD_SLEEP, tv_nsec: 0 };
        let task = Task { stamp: Some(&stamp), nap: Some(&nap), image: None };
        *holder.borrow_mut() = Some(child::fork(task).map_err(|error| error.to_string())?);
        // Until the child has run and sleeps: it stamps the clock and then does nothing else.
        while stamp.get() == 0 {
            system_call::yield_processor();
        }
        for _ in 0..4 {
            system_call::yield_processor();
        }
        Ok(memory)
    };
    let mut workload = touching(COPY, BATCH, counts, map, move |memory| memory.write_every(page), |_| Ok(()));
    let mut tidy = workload.tidy.take();
    Ok(workload.tidied(move || {
        let counted = tidy.as_mut().map_or(Ok(()), |tidy| tidy());
        leaving.take().map_or(Ok(()), Child::kill).and(counted)
    }))
}

fn huge<'a>(counts: Shared<Vec<f64>>) -> Workload<'a> {
    let before: Shared<u64> = Rc::default();
    let after = Rc::clone(&before);
    let map = move || {
        *before.borrow_mut() = memory::huge_bytes().unwrap_or(0);
        Untouched::anonymous(HUGE_PAGES * HUGE_PAGE, Pages::Huge).map_err(|error| error.to_string())
    };
    let touch = |memory: &mut Untouched| memory.write_every(HUGE_PAGE);
    touching(HUGE, HUGE_PAGES, counts, map, touch, move |_| {
        // As many faults would be counted if each had given a small page.
        let got = memory::huge_bytes().unwrap_or(0).saturating_sub(*after.borrow());
        let wanted = (HUGE_PAGES * HUGE_PAGE) as u64;
        if got == wanted { Ok(()) } else { Err(format!("{got} bytes on huge pages instead of {wanted}")) }
    })
}

fn measure_cached(rig: &mut Rig<'_>, file: &File, tally: &mut Tally) -> Result<(), Problem> {
    let page = page_size();
    let mut workloads = Vec::new();
    // Where the kernel maps a whole large folio in one fault, a file of this size takes two of them: several mappings make a
    // batch that is long enough.
    let map = || {
        let maps = (0..MAPPINGS).map(|_| Untouched::file(file, FILE * page, false));
        maps.collect::<Result<Vec<Untouched>, _>>().map_err(|error| error.to_string())
    };
    let touch = |maps: &mut Vec<Untouched>| maps.iter().for_each(|mapped| mapped.read_every(page));
    // How many faults the file takes is the kernel's choice; that it takes as many every time is checked.
    match map().map(|mut mapped| count(|| touch(&mut mapped)).max(1) as usize) {
        Ok(faults) => {
            let counts = tally.open(CACHED, MAPPINGS * FILE);
            workloads.push(touching(CACHED, faults, counts, map, touch, |_| Ok(())));
        }
        Err(reason) => rig.unavailable(TIME, &labels(CACHED), &reason),
    }
    let map = || Untouched::file_page_by_page(file, BATCH).map_err(|error| error.to_string());
    let counts = tally.open(SINGLE, BATCH);
    workloads.push(touching(SINGLE, BATCH, counts, map, |mapped| mapped.read_every(page), |_| Ok(())));
    rig.sample(workloads)
}

/// Cold pages, and beside them the same number of pages read past the cache.
fn measure_cold(rig: &mut Rig<'_>, file: &File, tally: &mut Tally) -> Result<(), Problem> {
    let (page, bytes) = (page_size(), FILE * page_size());
    let medium = rig.setup().machine.scratch().and_then(|storage| storage.mount.as_ref()).map(|mount| mount.medium);
    let random = RefCell::new(fastrand::Rng::with_seed(rig.random().u64(..)));
    let some_pages = || {
        let mut pages: Vec<u32> = (0..FILE as u32).collect();
        random.borrow_mut().shuffle(&mut pages);
        pages.truncate(COLD_PAGES);
        pages
    };
    let map = || Untouched::file(file, bytes, true).map_err(|error| error.to_string());
    let tried = if medium == Some(Medium::Memory) {
        Err("the scratch directory is in memory, so a fault waits for no device (choose a disk with --scratch DIR)"
            .to_owned())
    } else {
        Cold::make(file, bytes).and_then(|cold| {
            let mapped = map()?;
            mapped.read_pages(&some_pages(), page);
            cold.prove(file, COLD_PAGES)
        })
    };
    if let Err(reason) = tried {
        rig.unavailable(TIME, &labels(COLD), &reason);
        return Ok(());
    }
    let (counts, proofs) = (tally.open(COLD, COLD_PAGES), RefCell::new(Vec::new()));
    let ready: RefCell<Option<(Untouched, Vec<u32>, Cold)>> = RefCell::new(None);
    let no_mapping = || "the memory is not mapped".to_owned();
    let cold = Workload::of("fault", labels(COLD), COLD_PAGES as u64, |_| {
        let ready = ready.borrow();
        ready.as_ref().map(|(mapped, pages, _)| mapped.read_pages(pages, page)).ok_or_else(no_mapping)
    })
    .prepared(|| {
        let cold = Cold::make(file, bytes)?;
        *ready.borrow_mut() = Some((map()?, some_pages(), cold));
        Ok(())
    })
    .tidied(|| {
        let (mapped, _, cold) = ready.take().ok_or_else(no_mapping)?;
        let found = cold.prove(file, COLD_PAGES)?;
        drop(mapped);
        proofs.borrow_mut().push(found);
        counts.borrow_mut().push(found[0]);
        Ok(())
    });
    let direct = fault::opened_directly(file);
    let mut workloads = vec![cold];
    match &direct {
        Ok(direct) => {
            let reads = Workload::of(DIRECT, Labels::none(), COLD_PAGES as u64, |_| read_past(direct, &some_pages()));
            workloads.push(reads.prepared(|| drop_from_cache(file, bytes)));
        }
        Err(error) => rig.remark(DIRECT, &format!("cannot read the file past the cache: {error}")),
    }
    let expected = Expected { faults: true, ..Expected::default() };
    let workloads = workloads
        .into_iter()
        .map(|workload| workload.sized(Sizing::Exactly(1)).expecting(expected).unclocked().at_most(COLD_BATCHES))
        .collect();
    rig.sample(workloads)?;
    for (index, (name, unit)) in PROOFS.into_iter().enumerate() {
        let values = proofs.borrow().iter().map(|proof: &[f64; 3]| proof[index]).collect();
        rig.record(name, labels(COLD), unit, values)?;
    }
    Ok(())
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    for kind in KINDS {
        let Some(estimate) = estimate_of(study, kind) else { continue };
        let own = fault_gates(study, kind, &estimate);
        findings.publish(study, Figure::batches(TIME, labels(kind), &estimate).gates(own));
        if let Some(pages) = pages_per_fault(study, kind) {
            findings.publish(study, Figure::fact(PAGES, labels(kind), &pages));
        }
    }
}

/// The undisturbed cost of what the kernel does alone; the middle of what a device does.
fn estimate_of(study: &Study<'_>, kind: &str) -> Option<Estimate> {
    let sample = study.sample("fault", &labels(kind))?;
    if kind == COLD { Estimate::median(&sample) } else { Estimate::undisturbed(&sample) }
}

/// Small pages that a fault of a kind maps: those of a batch over its counted faults, launch by launch.
fn pages_per_fault(study: &Study<'_>, kind: &str) -> Option<Estimate> {
    let faults = study.numbered_series("faults", &labels(kind));
    let per_fault: Vec<f64> = faults
        .iter()
        .zip(study.numbered_series("pages", &labels(kind)))
        .filter_map(|((_, faults), (_, pages))| Some(pages.values.first()? / median(&faults.values)?))
        .collect();
    Estimate::over_launches(&per_fault, Unit::One, "median over launches of the pages divided by the counted faults")
}

fn fault_gates(study: &Study<'_>, kind: &str, estimate: &Estimate) -> Vec<Gate> {
    let in_nanoseconds = |estimate: &Estimate| match (estimate.unit, study.core) {
        (Unit::Cycles, Some(core)) => estimate.value * core.period().0,
        _ => estimate.value,
    };
    let time = |kind: &str| estimate_of(study, kind).as_ref().map(in_nanoseconds);
    let own = in_nanoseconds(estimate);
    let claimed = estimate.account.operations as f64;
    let faults = study.values("faults", &labels(kind));
    let (least, most) =
        faults.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), &found| (least.min(found), most.max(found)));
    let pages = pages_per_fault(study, kind).map(|found| found.value);
    let mut gates = vec![
        Gate::holds(
            &COUNTED,
            !faults.is_empty()
                && counted(least as i64, claimed as i64).is_ok()
                && counted(most as i64, claimed as i64).is_ok(),
            if faults.is_empty() {
                "no launch recorded its counted faults".to_owned()
            } else {
                format!("{} to {} faults counted in batches of {}", number(least), number(most), number(claimed))
            },
        ),
        pages.map_or_else(
            || Gate::holds(&PER_FAULT, false, "the number of pages per fault is unknown"),
            |pages| {
                let what = "the cost is per fault, and a fault maps {} small pages";
                Gate::more_than(&PER_FAULT, Number::plain(pages).named(what), LEAST_PAGES)
            },
        ),
    ];
    if kind == COLD {
        gates.push(gates::floor(&MAJOR, estimate, MAJOR_FLOOR).because("no device answers faster through the kernel"));
        gates.extend(cold_gates(study, own, time(SINGLE)));
    } else if estimate.unit == Unit::Cycles {
        gates.push(
            gates::floor(&MINOR, estimate, MINOR_FLOOR).because("an exception and a page-table entry take longer"),
        );
    }
    let mut below = |other: &str, factor: f64, what: &str| {
        if let Some(other) = time(other) {
            gates.push(Gate::at_most(&ORDER, Number::time(own).named("{}"), other * factor).because(what));
        }
    };
    match kind {
        READ => below(WRITE, 1.0, "mapping the page of zeros costs less than providing a page"),
        WRITE => below(COPY, CLEAR_SLACK, "clearing a page costs no more than copying one"),
        HUGE => below(WRITE, HUGE_PAGE as f64 / page_size() as f64, "a huge page costs less than its small pages"),
        _ => {}
    }
    gates
}

/// G23, and G40: a major fault is a read of the device and a minor fault.
fn cold_gates(study: &Study<'_>, own: f64, minor: Option<f64>) -> Vec<Gate> {
    let proof = |name: &str| study.values(name, &labels(COLD));
    let pages = COLD_PAGES as f64;
    let [major, read, cached] = PROOFS.map(|(name, _)| proof(name));
    let proven = !major.is_empty()
        && major.iter().all(|&count| (count - pages).abs() < 0.5)
        && cached.iter().all(|&count| count <= pages)
        && read.iter().all(|&bytes| bytes >= pages * page_size() as f64);
    let mut gates = vec![Gate::holds(
        &PROVEN,
        proven,
        format!(
            "{} batches: no page of the file cached before, {COLD_PAGES} major faults, at least {} read by devices, \
             at most {COLD_PAGES} pages cached after",
            major.len(),
            quantity(read.iter().copied().fold(f64::INFINITY, f64::min), Unit::Bytes)
        ),
    )];
    let direct = study.sample(DIRECT, &Labels::none()).as_ref().and_then(Estimate::median).map(|found| found.value);
    if let (Some(direct), Some(minor)) = (direct, minor) {
        let [read, fault] = [direct, minor].map(|value| quantity(value, Unit::Nanoseconds));
        let reason = format!("a direct read takes {read} and a minor fault {fault}");
        gates.push(Gate::near(&SUM, Number::time(own).named("{}"), direct + minor, PARTS).because(reason));
    }
    gates
}

fn explain(study: &Study<'_>, findings: &mut Findings) {
    let time = |findings: &Findings, kind: &str| findings.metric(TIME, &labels(kind)).map(|metric| metric.value);
    let pages = |findings: &Findings, kind: &str| findings.metric(PAGES, &labels(kind)).map(|metric| metric.value);
    let shown = |value| quantity(value, Unit::Nanoseconds);
    let page = page_size() as f64;
    let rate = study.metric("memory.bandwidth.rate", &streams::labels(Operation::Read, MEMORY, 1));
    let mut rows = Vec::new();
    for kind in KINDS {
        let (Some(own), Some(mapped)) = (time(findings, kind), pages(findings, kind)) else { continue };
        let moved = rate.map(|rate| mapped * page / rate.value * 1e9);
        rows.push(vec![
            kind.to_owned(),
            shown(own),
            number(mapped),
            shown(own / mapped),
            number(own / mapped / page),
            moved.map_or_else(|| "–".to_owned(), |moved| number(own / moved)),
        ]);
    }
    let columns = [
        "kind",
        "one fault",
        "pages",
        "one page",
        "ns per byte, if all are used",
        "× time to read the same bytes from memory",
    ];
    findings.tabulate(
        "Cost of a fault, and the pages that it maps. The last two columns hold for programs that use every mapped \
         byte, so compare them with a bandwidth. A program that touches one byte waits for one fault.",
        &columns,
        rows,
    );
    if let (Some(around), Some(mapped), Some(single)) =
        (time(findings, CACHED), pages(findings, CACHED), time(findings, SINGLE))
    {
        findings.say(format!(
            "A fault on a cached file maps {} pages and takes {}, or {} per page. A fault that can map only one page \
             takes {}.",
            number(mapped),
            shown(around),
            shown(around / mapped),
            shown(single)
        ));
    }
    if let (Some(small), Some(huge)) = (time(findings, WRITE), time(findings, HUGE)) {
        let small_ones = HUGE_PAGE as f64 / page * small;
        findings.say(format!(
            "A fault for a huge page takes {}, and faults for the small pages of the same 2 MiB take {}, {} times as \
             long. A program that touches only one byte still waits for the whole huge page.",
            shown(huge),
            shown(small_ones),
            number(small_ones / huge)
        ));
    }
    let direct = study.sample(DIRECT, &Labels::none()).as_ref().and_then(Estimate::median);
    if let (Some(cold), Some(direct), Some(single)) = (time(findings, COLD), direct, time(findings, SINGLE)) {
        findings.say(format!(
            "A major fault takes {}. A read of one of the same pages past the cache takes {} and a minor fault {}, \
             together {}.",
            shown(cold),
            shown(direct.value),
            shown(single),
            shown(direct.value + single)
        ));
    }
    let device = study.setup.machine.scratch().and_then(|storage| storage.device.as_ref());
    if let Some(device) = device.filter(|device| device.is_virtual && time(findings, COLD).is_some()) {
        findings.say(format!(
            "The disk {} is virtual. The checks prove only that this kernel had nothing cached. The host may have \
             answered from its memory.",
            device.name
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        let mut kinds = KINDS.to_vec();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), KINDS.len());
        assert!(!KINDS.contains(&DIRECT));
    }
}
