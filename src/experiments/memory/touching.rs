//! Batches that touch pages to make the kernel take faults, and what proves what they did: counted faults, and for pages
//! that come from a device the state of the page cache before and after.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::Duration;

use crate::experiments::prelude::*;
use crate::rig::sampler::{Expected, Timed};
use crate::sys::counters;
use crate::sys::fault::{self, HUGE_PAGE, Untouched};
use crate::sys::memory::{self, HUGE_PAGES_OFF};

/// Batches: the first touch of what was given back is expensive to prepare, and the variance is between launches.
const BATCHES: u32 = 20;
/// Tries of dropping a file from the cache, and the pause between them.
const DROPS: u32 = 20;
const DROP_PAUSE: Duration = Duration::from_millis(20);
/// One fault in this many may be another's (of a stack after a fork, of a library), at least one and at most `MOST_SURPLUS`.
const SURPLUS: i64 = 64;
const MOST_SURPLUS: i64 = 8;

/// A value that the parts of a workload share.
pub type Shared<T> = Rc<RefCell<T>>;

/// Faults of the batches of one kind, and the small pages that a batch maps.
#[derive(Debug, Default)]
pub struct Tally {
    kinds: Vec<(&'static str, usize, Shared<Vec<f64>>)>,
}

impl Tally {
    /// A place for the counts of a kind whose batches map `pages` small pages.
    pub fn open(&mut self, kind: &'static str, pages: usize) -> Shared<Vec<f64>> {
        let counts: Shared<Vec<f64>> = Rc::default();
        self.kinds.push((kind, pages, Rc::clone(&counts)));
        counts
    }

    /// Records the counts of every kind.
    pub fn record(self, rig: &mut Rig<'_>) -> Result<(), Problem> {
        for (kind, pages, counts) in self.kinds {
            rig.record("faults", labels(kind), Unit::One, counts.take())?;
            rig.record("pages", labels(kind), Unit::One, vec![pages as f64])?;
        }
        Ok(())
    }
}

/// Labels of a kind.
pub fn labels(kind: &str) -> Labels {
    Labels::of([("kind", kind)])
}

/// Page faults of the calling thread so far.
fn all_faults() -> i64 {
    let now = counters::thread();
    now.minor_faults + now.major_faults
}

/// Page faults of the calling thread while it works.
pub fn count(work: impl FnOnce()) -> i64 {
    let before = all_faults();
    work();
    all_faults() - before
}

/// Gate G22: whether this many faults are what was claimed.
pub fn counted(faults: i64, claimed: i64) -> Result<(), String> {
    let surplus = (claimed / SURPLUS).clamp(1, MOST_SURPLUS);
    if (claimed..=claimed + surplus).contains(&faults) {
        Ok(())
    } else {
        Err(format!("{faults} page faults instead of {claimed}"))
    }
}

/// Batches that touch new mappings each time, in `faults` faults; `check` looks at them before they go.
pub fn touching<'a, M: 'a>(
    kind: &'static str,
    faults: usize,
    counts: Shared<Vec<f64>>,
    map: impl FnMut() -> Result<M, String> + 'a,
    touch: impl Fn(&mut M) -> Result<Timed, String> + 'a,
    check: impl Fn(&M) -> Result<(), String> + 'a,
) -> Workload<'a> {
    let check = move |mapping: &M, found| counted(found, faults as i64).and_then(|()| check(mapping));
    touching_anyhow(("fault", labels(kind), faults), counts, map, touch, check)
}

/// Batches of a series with a number of operations that touch new mappings each time. `check` looks at each mapping and at the
/// number of faults before the mapping goes.
pub fn touching_anyhow<'a, M: 'a>(
    (series, labels, operations): (&'static str, Labels, usize),
    counts: Shared<Vec<f64>>,
    mut map: impl FnMut() -> Result<M, String> + 'a,
    touch: impl Fn(&mut M) -> Result<Timed, String> + 'a,
    check: impl Fn(&M, i64) -> Result<(), String> + 'a,
) -> Workload<'a> {
    let mapped: Shared<(Option<M>, i64)> = Rc::new(RefCell::new((None, 0)));
    let (touched, gone) = (Rc::clone(&mapped), Rc::clone(&mapped));
    Workload::self_timed(series, labels, operations as u64, move |_| {
        let mut mapped = touched.borrow_mut();
        mapped.0.as_mut().map_or_else(|| Err("the memory is not mapped".to_owned()), &touch)
    })
    .prepared(move || {
        let new = map()?;
        let mut mapped = mapped.borrow_mut();
        // Where a child shares this process's pages, the page of this value is copied before the faults are counted.
        mapped.0 = Some(new);
        mapped.1 = all_faults();
        Ok(())
    })
    .tidied(move || {
        let now = all_faults();
        let (mapping, before) = gone.replace((None, 0));
        let checked = mapping.as_ref().map_or(Ok(()), |mapping| check(mapping, now - before));
        drop(mapping);
        counts.borrow_mut().push((now - before) as f64);
        checked
    })
    .sized(Sizing::Exactly(1))
    .expecting(Expected { faults: true, ..Expected::default() })
    .at_most(BATCHES)
}

/// Drops the first `bytes` bytes of a file from the page cache until the kernel says that nothing of them is there.
pub fn drop_from_cache(file: &File, bytes: usize) -> Result<(), String> {
    let mut left = 0;
    for turn in 0..DROPS {
        if turn > 0 {
            std::thread::sleep(DROP_PAUSE);
        }
        fault::forget_cached(file).map_err(|error| error.to_string())?;
        left = fault::cached_pages(file, bytes).map_err(|error| error.to_string())?;
        if left == 0 {
            return Ok(());
        }
    }
    Err(format!("{left} pages of the file stay in memory although the kernel was asked to drop them"))
}

/// Counters before a batch of cold pages (gate G23).
#[derive(Debug, Clone, Copy)]
pub struct Cold {
    bytes: usize,
    major_faults: i64,
    device_bytes: u64,
}

/// What proves that pages came from a device: names and units of what [`Cold::prove`] returns.
pub const PROOFS: [(&str, Unit); 3] =
    [("major_faults", Unit::One), ("device_bytes", Unit::Bytes), ("cached_after", Unit::One)];

impl Cold {
    /// Makes the first `bytes` bytes of a file cold, and notes the counters.
    pub fn make(file: &File, bytes: usize) -> Result<Self, String> {
        drop_from_cache(file, bytes)?;
        let device_bytes = fault::device_bytes_read().ok_or("the kernel does not count the bytes that devices read")?;
        Ok(Cold { bytes, major_faults: counters::thread().major_faults, device_bytes })
    }

    /// The counts that prove that exactly `pages` pages came from a device, one by one; or why they do not.
    pub fn prove(self, file: &File, pages: usize) -> Result<[f64; 3], String> {
        let major = counters::thread().major_faults - self.major_faults;
        let read = fault::device_bytes_read().unwrap_or(0).saturating_sub(self.device_bytes);
        let cached = fault::cached_pages(file, self.bytes).map_err(|error| error.to_string())?;
        // A kernel may take pages back before they are counted. More pages than faults would have been read ahead.
        if major != pages as i64 || read < (pages * page_size()) as u64 || cached > pages as u64 {
            return Err(format!(
                "{major} major faults, {read} bytes read by devices and {cached} cached pages for {pages} cold pages"
            ));
        }
        Ok([major as f64, read as f64, cached as f64])
    }
}

/// Whether the kernel provides huge pages on the first touch.
pub fn huge_pages_work() -> Result<(), String> {
    let before = memory::huge_bytes().ok_or("the kernel does not report which memory is on huge pages")?;
    if memory::huge_pages_are_off() {
        return Err(HUGE_PAGES_OFF.to_owned());
    }
    let mut tried = Untouched::anonymous(HUGE_PAGE, Pages::Huge).map_err(|error| error.to_string())?;
    tried.write_one_by_one(HUGE_PAGE);
    if memory::huge_bytes().unwrap_or(0) >= before + HUGE_PAGE as u64 {
        Ok(())
    } else {
        Err("the kernel gave no huge page on request (see /sys/kernel/mm/transparent_hugepage)".to_owned())
    }
}

/// A nameless file of `pages` pages in the scratch directory, of bytes that no device can leave out or compress.
pub fn scratch_file(rig: &mut Rig<'_>, pages: usize) -> Result<File, String> {
    let mount = rig.setup().machine.scratch().and_then(|storage| storage.mount.as_ref());
    let directory =
        mount.map(|mount| mount.directory.clone()).ok_or("no facts about the scratch directory are available")?;
    rig.allows_file((pages * page_size()) as u64)?;
    let mut content = vec![0; pages * page_size()];
    rig.random().fill(&mut content);
    fault::nameless_file(directory.as_ref(), &content)
        .map_err(|error| format!("cannot create a file in {directory}: {error} (choose a place with --scratch DIR)"))
}

/// Reads pages of a file that was opened past the cache, each by a system call, into memory aligned as that needs.
pub fn read_past(direct: &File, pages: &[u32]) -> Result<(), String> {
    let page = page_size();
    let mut buffer = vec![0_u8; 2 * page];
    let first = buffer.as_ptr().align_offset(page);
    let place = &mut buffer[first..first + page];
    for &number in pages {
        let got = direct.read_at(place, u64::from(number) * page as u64).map_err(|error| error.to_string())?;
        if got != page {
            return Err(format!("got {got} bytes instead of a page"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_counts_are_exact_but_for_a_few() {
        assert!(counted(1024, 1024).is_ok() && counted(1032, 1024).is_ok());
        assert!(counted(1033, 1024).is_err() && counted(1023, 1024).is_err());
        assert!(counted(5, 4).is_ok() && counted(6, 4).is_err() && counted(3, 4).is_err());
    }
}
