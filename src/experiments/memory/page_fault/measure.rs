//! Touches pages of each kind, and counts the faults.

use std::cell::RefCell;
use std::fs::File;
use std::rc::Rc;

use crate::experiments::memory::touching::{
    Cold, PROOFS, Shared, Tally, count, counted, drop_from_cache, huge_pages_work, labels, read_past, scratch_file,
    touching, touching_anyhow,
};
use crate::experiments::prelude::*;
use crate::machine::Medium;
use crate::rig::placed::no_place;
use crate::rig::sampler::{Expected, MOST_BLOCKS, Timed};
use crate::sys::child::{self, Child, Task};
use crate::sys::fault::{Access, HUGE_PAGE, Touches, Untouched};
use crate::sys::file;
use crate::sys::memory::{self, SharedNumber};
use crate::sys::system_call;

use super::{
    BATCH, CACHED, CHILD_SLEEP, COLD, COLD_BATCHES, COLD_PAGES, COPY, DIRECT, FILE, FIRST_TOUCH, HUGE, HUGE_PAGES,
    LARGE, MAPPINGS, MEBIBYTE, READ, SINGLE, SYSTEM, TIME, TOUCH, WRITE, touch_labels,
};

pub(super) fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
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
pub(super) fn measure_first(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let mut tally = Tally::default();
    let workloads = small_anonymous(rig, &mut tally)?;
    rig.sample_in_blocks(workloads)?;
    tally.record(rig)
}

/// Loops that touch pages, which a workload and what moves them share.
fn touches(rig: &mut Rig<'_>, access: Access) -> Result<Shared<Touches>, Problem> {
    let touches = Touches::draw(rig.random(), access, MOST_BLOCKS as usize);
    touches.map(|touches| Rc::new(RefCell::new(touches))).map_err(|error| no_place(&error))
}

/// Touches of one mapping or several, without the work between them.
fn touch<M: AsMut<[Untouched]> + AsRef<[Untouched]>>(
    rig: &Rig<'_>,
    touches: &Shared<Touches>,
    step: usize,
) -> Result<impl Fn(&mut M) -> Result<Timed, String> + use<M>, Problem> {
    let (touched, rest) = (Rc::clone(touches), Rc::clone(touches));
    rig.less_rest(
        move |maps: &mut M| {
            let mut touches = touched.borrow_mut();
            maps.as_mut().iter_mut().try_for_each(|mapped| touches.touch(mapped, step))
        },
        move |maps| {
            let mut touches = rest.borrow_mut();
            maps.as_ref().iter().for_each(|mapped| touches.rest(mapped, step));
        },
    )
}

/// A workload whose loops have a separate place in each block.
fn moving<'a>(workload: Workload<'a>, touches: &Shared<Touches>) -> Workload<'a> {
    let touches = Rc::clone(touches);
    workload.placed(move |block| touches.borrow_mut().place(block as usize))
}

fn small_anonymous<'a>(rig: &mut Rig<'_>, tally: &mut Tally) -> Result<Vec<Workload<'a>>, Problem> {
    let map = || {
        Untouched::anonymous(BATCH * page_size(), Pages::Small)
            .map(|memory| [memory])
            .map_err(|error| error.to_string())
    };
    let workload = |(kind, access)| {
        let (touches, counts) = (touches(rig, access)?, tally.open(kind, BATCH));
        let touch = touch(rig, &touches, page_size())?;
        Ok(moving(touching(kind, BATCH, counts, map, touch, |_| Ok(())), &touches))
    };
    [(WRITE, Access::Write), (READ, Access::Read)].into_iter().map(workload).collect()
}

fn measure_anonymous(rig: &mut Rig<'_>, tally: &mut Tally) -> Result<(), Problem> {
    let page = page_size();
    let mut workloads = small_anonymous(rig, tally)?;
    match huge_pages_work() {
        Ok(()) => workloads.push(huge(tally.open(HUGE, HUGE_PAGES * HUGE_PAGE / page))),
        Err(reason) => {
            rig.unavailable(TIME, &labels(HUGE), &reason);
            rig.unavailable(FIRST_TOUCH, &touch_labels(LARGE), &reason);
        }
    }
    match unadvised(tally) {
        Ok(workload) => workloads.push(workload),
        Err(reason) => rig.unavailable(FIRST_TOUCH, &touch_labels(SYSTEM), &reason),
    }
    rig.sample_in_blocks(workloads)?;
    // A fork leaves all of this process's pages to be copied or taken back when they are written next: by itself, and last.
    let touches = touches(rig, Access::Write)?;
    let touch = touch(rig, &touches, page)?;
    let copying = copying(&touches, touch, tally.open(COPY, BATCH))?;
    rig.sample_in_blocks(vec![copying])
}

/// A mapping all pages of which a sleeping child shares.
fn copying<'a>(
    touches: &Shared<Touches>,
    touch: impl Fn(&mut [Untouched; 1]) -> Result<Timed, String> + 'a,
    counts: Shared<Vec<f64>>,
) -> Result<Workload<'a>, Problem> {
    let cannot = |error: std::io::Error| Problem::new(format!("cannot prepare a child: {error}"));
    let page = page_size();
    let own = Rc::clone(touches);
    let mut stamp = SharedNumber::new().map_err(cannot)?;
    let holder: Shared<Option<Child>> = Rc::default();
    let leaving = Rc::clone(&holder);
    let map = move || {
        let mut memory = Untouched::anonymous(BATCH * page, Pages::Small).map_err(|error| error.to_string())?;
        memory.write_one_by_one(page);
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
        // The child shares what the loop writes too.
        own.borrow_mut().rest(&memory, page);
        Ok([memory])
    };
    let mut workload = moving(touching(COPY, BATCH, counts, map, touch, |_| Ok(())), touches);
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
    let touch = |memory: &mut Untouched| {
        memory.write_one_by_one(HUGE_PAGE);
        Ok(Timed::Whole)
    };
    touching(HUGE, HUGE_PAGES, counts, map, touch, move |_| {
        // As many faults would be counted if each had given a small page.
        let got = memory::huge_bytes().unwrap_or(0).saturating_sub(*after.borrow());
        let wanted = (HUGE_PAGES * HUGE_PAGE) as u64;
        if got == wanted { Ok(()) } else { Err(format!("{got} bytes on huge pages instead of {wanted}")) }
    })
}

/// Memory of which the kernel chooses the pages. A batch is no longer than it has to be.
fn unadvised<'a>(tally: &mut Tally) -> Result<Workload<'a>, String> {
    let page = page_size();
    let map = |bytes| Untouched::unadvised(bytes).map_err(|error| error.to_string());
    let mut tried = map(HUGE_PAGE)?;
    let small = count(|| tried.write_one_by_one(page)) >= (HUGE_PAGE / page) as i64;
    let bytes = if small { BATCH * page } else { HUGE_PAGE };
    let pages = bytes / page;
    let series = (TOUCH, touch_labels(SYSTEM), bytes / MEBIBYTE);
    let touch = move |memory: &mut Untouched| {
        memory.write_one_by_one(page);
        Ok(Timed::Whole)
    };
    let counts = tally.open(TOUCH, pages);
    Ok(touching_anyhow(
        series,
        counts,
        move || map(bytes),
        touch,
        move |_, faults| {
            let fewer = !small && (1..pages as i64).contains(&faults);
            if fewer { Ok(()) } else { counted(faults, pages as i64) }
        },
    ))
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
    let read = |maps: &[Untouched], step: usize| maps.iter().for_each(|mapped| mapped.read_one_by_one(step));
    // How many faults the file takes is the kernel's choice; that it takes as many every time is checked.
    let faults = |step: usize| map().map(|mapped| count(|| read(&mapped, step)).max(1) as usize);
    let touches = touches(rig, Access::Read)?;
    match faults(page) {
        Ok(all) => {
            // One access for each fault, if every fault maps as many pages.
            let step = (MAPPINGS * FILE + all / 2) / all * page;
            let one_each = faults(step).ok().filter(|found| found.abs_diff(all) <= all / 64);
            let (faults, step) = one_each.map_or((all, page), |found| (found.min(all), step));
            let counts = tally.open(CACHED, MAPPINGS * FILE);
            let touch = touch(rig, &touches, step)?;
            workloads.push(moving(touching(CACHED, faults, counts, map, touch, |_| Ok(())), &touches));
        }
        Err(reason) => rig.unavailable(TIME, &labels(CACHED), &reason),
    }
    let map = || Untouched::file_page_by_page(file, BATCH).map(|mapped| [mapped]).map_err(|error| error.to_string());
    let (counts, touch) = (tally.open(SINGLE, BATCH), touch(rig, &touches, page)?);
    workloads.push(moving(touching(SINGLE, BATCH, counts, map, touch, |_| Ok(())), &touches));
    rig.sample_in_blocks(workloads)
}

/// Cold pages, and next to them the same number of pages read past the cache.
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
    let direct = file::reopened(file, true);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_shares_besides_the_batch_is_copied_before_faults_are_counted() {
        let counts: Shared<Vec<f64>> = Rc::default();
        let touches = Touches::draw(&mut fastrand::Rng::with_seed(1), Access::Write, 1).unwrap();
        let touches = Rc::new(RefCell::new(touches));
        let touched = Rc::clone(&touches);
        let touch = move |memory: &mut [Untouched; 1]| {
            touched.borrow_mut().touch(&mut memory[0], page_size()).map(|()| Timed::Whole)
        };
        let mut workload = copying(&touches, touch, Rc::clone(&counts)).unwrap();
        for _ in 0..5 {
            (workload.prepare.as_mut().unwrap())().unwrap();
            (workload.work)(1).unwrap();
            (workload.tidy.as_mut().unwrap())().unwrap();
        }
        assert!(counts.borrow().contains(&(BATCH as f64)), "{counts:?}");
    }
}
