//! Memory for a measurement: taken politely, written before it is read, its pages looked up before anything is timed.

use crate::results::quantity::Unit;
use crate::results::wording::{percent, quantity};
use crate::sys::chase::{Arena, Backing};
use crate::sys::memory::{self, HUGE_PAGES_OFF, Pages};
use crate::sys::numa;

/// Share of memory that was asked for on huge pages which must lie on them.
const HUGE_SHARE: f64 = 0.95;

/// Takes memory of one kind of pages, from one node where one is named, and writes all of it.
///
/// `allowed` is what the launch may take at all. The reason for a refusal names the numbers: too much, not to be had, not
/// on the pages asked for, on another node, swapped out.
pub fn take(bytes: u64, pages: Pages, node: Option<u32>, allowed: u64) -> Result<Arena, String> {
    let size = |bytes: u64| quantity(bytes as f64, Unit::Bytes);
    if bytes > allowed {
        return Err(format!(
            "{} are more than the {} that a launch may take, a quarter of what is available here",
            size(bytes),
            size(allowed)
        ));
    }
    let cannot = |error: std::io::Error| format!("{} could not be had: {error}", size(bytes));
    let mut arena = Arena::map(bytes as usize, pages).map_err(cannot)?;
    if let Some(node) = node {
        numa::bind(&arena, node).map_err(|error| format!("node {node} gives no memory: {error}"))?;
    }
    arena.write();
    // A page that is swapped out between now and the end shows as a fault within a batch.
    arena.lock();
    check(&arena, pages)?;
    if let Some(node) = node {
        let found =
            numa::node_of(&arena, arena.bytes() / 2).map_err(|error| format!("cannot find the node: {error}"))?;
        if found != node {
            return Err(format!("asked for memory of node {node}, got node {found}"));
        }
    }
    Ok(arena)
}

/// Whether an arena is what a measurement needs: every page written, resident, and of the kind that was asked for.
pub fn check(arena: &Arena, pages: Pages) -> Result<(), String> {
    let backing = arena
        .backing()
        .map_err(|error| format!("what is behind the memory cannot be looked up in /proc/self/smaps: {error}"))?;
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
        return Err(format!("{} of it are swapped out", size(backing.swapped)));
    }
    if backing.anonymous < bytes {
        return Err(format!(
            "only {} of {} are pages of its own: reads of unwritten memory are served by the one page of zeros",
            size(backing.anonymous),
            size(bytes)
        ));
    }
    let share = backing.huge as f64 / bytes as f64;
    match pages {
        Pages::Huge if share < HUGE_SHARE => Err(format!(
            "the kernel gave {} of it on huge pages; at least {} are needed",
            percent(share),
            percent(HUGE_SHARE)
        )),
        Pages::Small if backing.huge > 0 => {
            Err(format!("{} of it lie on huge pages although small ones were asked for", percent(share)))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
