//! Memory for a measurement: its amount limited, its pages taken before they are read and looked up before anything is timed, with an
//! account in the record that the figures are judged by.

use crate::experiments::prelude::*;
use crate::sys::arena::{Arena, Backing};
use crate::sys::memory::{self, HUGE_PAGES_OFF};
use crate::sys::numa;

use super::footprint::{self, OVER_LAST_CACHE};

/// Least share of memory with its own pages, in the record of a launch.
const OWN_PAGES: f64 = 0.99;
/// Share of memory that was asked for on huge pages which must lie on them.
const HUGE_SHARE: f64 = 0.95;

rules! {
    OWN: "zero page" Hard "`memory.bandwidth`, `memory.loaded_latency`",
        "at least {} of the pages of a footprint are private", share(OWN_PAGES);
    ON_SMALL: "pages" Hard "`memory.bandwidth`", "results on 4 KiB pages have at most {} of their memory on huge pages",
        share(1.0 - HUGE_SHARE);
    ON_HUGE: "pages" Remark "`memory.bandwidth`, `memory.loaded_latency`",
        "other results have at least {} of their memory on huge pages", share(HUGE_SHARE);
    SWAPPED: "swap" Hard "`memory.bandwidth`, `memory.loaded_latency`", "no memory was swapped out";
    BEYOND_CACHES: "G18" Hard "`memory.bandwidth`, `memory.loaded_latency`",
        "a footprint named DRAM is at least {} times the sum of the last-level caches of its CPUs",
        plain(OVER_LAST_CACHE as f64);
}

/// Whether a launch keeps so much memory on huge pages while it uses as much on small ones. A host takes back what its guest frees,
/// and takes seconds to give it again, so a guest keeps it where there is room for both.
pub fn keeps_huge(is_guest: bool, bytes: u64, allowed: u64) -> bool {
    is_guest && 2 * bytes <= allowed
}

/// Takes memory as [`take_either`] does and puts its account into the record, under labels that include the kind of pages asked
/// for. The inner error is why it cannot be had.
pub fn obtain(
    rig: &mut Rig<'_>,
    bytes: usize,
    pages: Pages,
    labels: &Labels,
) -> Result<Result<(Pages, Arena), String>, Problem> {
    let taken = take_either(bytes as u64, pages, None, rig.memory());
    if let Ok((_, arena)) = &taken
        && let Ok(found) = arena.backing()
    {
        let share = |part: u64| part as f64 / arena.bytes() as f64;
        rig.record("own_pages", labels.clone(), Unit::One, vec![share(found.anonymous)])?;
        rig.record("huge_pages", labels.clone(), Unit::One, vec![share(found.huge)])?;
        rig.record("swapped", labels.clone(), Unit::Bytes, vec![found.swapped as f64])?;
    }
    Ok(taken)
}

/// Takes memory on the pages asked for, or on small ones where the kernel gives no huge ones, and says which they are.
pub fn take_either(bytes: u64, pages: Pages, node: Option<u32>, allowed: u64) -> Result<(Pages, Arena), String> {
    match take(bytes, pages, node, allowed) {
        Err(_) if pages == Pages::Huge => Ok((Pages::Small, take(bytes, Pages::Small, node, allowed)?)),
        taken => Ok((pages, taken?)),
    }
}

/// Takes memory of one kind of pages, from one node where one is named, and all of its pages at once.
///
/// `allowed` is the most that the launch may take. The reason for a refusal names the numbers: too much, not to be had, not
/// on the pages asked for, on another node, swapped out.
pub fn take(bytes: u64, pages: Pages, node: Option<u32>, allowed: u64) -> Result<Arena, String> {
    let size = |bytes: u64| quantity(bytes as f64, Unit::Bytes);
    if bytes > allowed {
        return Err(format!(
            "{} exceed the limit of {} for a launch, a quarter of the available memory",
            size(bytes),
            size(allowed)
        ));
    }
    let cannot = |error: std::io::Error| format!("cannot allocate {}: {error}", size(bytes));
    let mut arena = Arena::map(bytes as usize, pages).map_err(cannot)?;
    if let Some(node) = node {
        numa::bind(&arena, node).map_err(|error| format!("cannot allocate memory on node {node}: {error}"))?;
    }
    arena.populate();
    // A page that is swapped out between now and the end shows as a fault within a batch.
    arena.lock();
    check(&arena, pages)?;
    if let Some(node) = node {
        let found = numa::node_of(&arena, arena.bytes() / 2)
            .map_err(|error| format!("cannot look up the node of the memory: {error}"))?;
        if found != node {
            return Err(format!("requested memory on node {node}, got node {found}"));
        }
    }
    Ok(arena)
}

/// Whether an arena is what a measurement needs: every page written, resident, and of the kind that was asked for.
pub fn check(arena: &Arena, pages: Pages) -> Result<(), String> {
    let backing =
        arena.backing().map_err(|error| format!("cannot look up the memory's pages in /proc/self/smaps: {error}"))?;
    let accepted = accept(backing, arena.bytes() as u64, pages);
    if pages == Pages::Huge && memory::huge_pages_are_off() {
        return accepted.map_err(|why| format!("{why}: {HUGE_PAGES_OFF}"));
    }
    accepted
}

/// The rule behind [`check`].
pub fn accept(backing: Backing, bytes: u64, pages: Pages) -> Result<(), String> {
    let size = |bytes: u64| quantity(bytes as f64, Unit::Bytes);
    if backing.swapped > 0 {
        return Err(format!("{} of the memory are swapped out", size(backing.swapped)));
    }
    if backing.anonymous < bytes {
        return Err(format!(
            "only {} of {} are private pages, and the kernel serves reads of unwritten memory from one shared page \
             of zeros",
            size(backing.anonymous),
            size(bytes)
        ));
    }
    let share = backing.huge as f64 / bytes as f64;
    match pages {
        Pages::Huge if share < HUGE_SHARE => Err(format!(
            "the kernel put {} of the memory on huge pages (at least {} needed)",
            percent(share),
            percent(HUGE_SHARE)
        )),
        Pages::Small if backing.huge > 0 => {
            Err(format!("{} of the memory are on huge pages although small ones were asked for", percent(share)))
        }
        _ => Ok(()),
    }
}

/// What the arenas with these labels were: memory with its own pages, of the kind asked for, nothing of it swapped out.
pub fn account_gates(study: &Study<'_>, about: &Labels) -> Vec<Gate> {
    let worst = |name: &str, start: f64, pick: fn(f64, f64) -> f64| {
        let values = study.values(name, about);
        (!values.is_empty()).then(|| values.into_iter().fold(start, pick))
    };
    let mut gates = Vec::new();
    if let Some(own) = worst("own_pages", 1.0, f64::min) {
        let own = Number::share(own).named("{} of the memory has private pages");
        gates.push(Gate::at_least(&OWN, own, OWN_PAGES));
    }
    let small = about.get("pages") == Some("4k");
    let shared = if small { worst("huge_pages", 0.0, f64::max) } else { worst("huge_pages", 1.0, f64::min) };
    if let Some(huge) = shared {
        let share = Number::share(huge).named("{} of the memory is on huge pages");
        gates.push(match (small, study.setup.machine.memory.refused_huge_pages()) {
            (true, _) => Gate::at_most(&ON_SMALL, share, 1.0 - HUGE_SHARE),
            (false, false) => Gate::at_least(&ON_HUGE, share, HUGE_SHARE),
            (false, true) => Gate::at_least(&ON_HUGE, share, HUGE_SHARE).because(HUGE_PAGES_OFF),
        });
    }
    if let Some(swapped) = worst("swapped", 0.0, f64::max) {
        gates.push(Gate::at_most(&SWAPPED, Number::bytes(swapped).named("{} were swapped out"), 0.0));
    }
    gates
}

/// G18: the name DRAM needs a footprint of four last-level caches.
pub fn footprint_gate(study: &Study<'_>, about: &Labels, threads: usize) -> Gate {
    let cpus = footprint::cpus_of(study.setup);
    let caches = footprint::last_caches(&study.setup.machine.caches, &cpus[..threads.min(cpus.len())]);
    let needed = caches.map(|bytes| (OVER_LAST_CACHE * bytes) as f64);
    match (footprint::recorded(study, about), needed) {
        (Some(footprint), Some(needed)) => {
            let reason = format!("{OVER_LAST_CACHE} times the last-level caches");
            Gate::at_least(&BEYOND_CACHES, Number::bytes(footprint).named("footprint"), needed).because(reason)
        }
        (_, None) => Gate::holds(&BEYOND_CACHES, false, "the size of the last-level cache is unknown"),
        (None, _) => Gate::holds(&BEYOND_CACHES, false, "no launch recorded the footprint"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::sys::stream::{Operation, Stream, Vectors};

    const MIB: u64 = 1 << 20;

    fn backing(anonymous: u64, huge: u64, swapped: u64) -> Backing {
        Backing { anonymous: anonymous * MIB, huge: huge * MIB, swapped: swapped * MIB }
    }

    #[test]
    fn only_what_was_asked_for_is_accepted() {
        let refused = |backing, pages| accept(backing, 100 * MIB, pages).unwrap_err();
        assert_eq!(accept(backing(100, 0, 0), 100 * MIB, Pages::Small), Ok(()));
        assert_eq!(accept(backing(100, 100, 0), 100 * MIB, Pages::Huge), Ok(()));
        assert_eq!(accept(backing(101, 96, 0), 100 * MIB, Pages::Huge), Ok(()));
        assert!(refused(backing(100, 94, 0), Pages::Huge).contains("94 %"));
        assert!(refused(backing(100, 2, 0), Pages::Small).contains("small ones were asked for"));
        assert!(refused(backing(99, 0, 1), Pages::Small).contains("swapped out"));
        assert!(refused(backing(99, 0, 0), Pages::Small).contains("page of zeros"));
    }

    #[test]
    fn more_than_is_allowed_is_refused_before_it_is_taken() {
        let refused = take(2 * MIB, Pages::Small, None, MIB).unwrap_err();
        assert!(refused.contains("2.000 MiB") && refused.contains("1.000 MiB"), "{refused}");
        assert!(take(MIB, Pages::Small, None, MIB).is_ok());
    }

    #[test]
    fn memory_that_was_never_written_is_refused() {
        let mut arena = Arena::map(8 << 20, Pages::Small).unwrap();
        let mut walk = Stream::new(Vectors::widest(), Operation::Read, arena.bytes(), arena.bytes());
        walk.step(&mut arena);
        assert!(check(&arena, Pages::Small).unwrap_err().contains("page of zeros"));
        arena.populate();
        assert!(check(&arena, Pages::Small).is_ok());
    }
}
