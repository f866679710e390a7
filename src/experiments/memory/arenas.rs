//! The memory that streams and chases go through: had, accounted for in the record, and judged by that account.

use crate::evaluate::gate::{Number, rules};
use crate::evaluate::study::Study;
use crate::results::quantity::{Labels, Unit};
use crate::results::trouble::Trouble;
use crate::results::verdict::Gate;
use crate::results::wording::percent;
use crate::rig::Rig;
use crate::sys::memory::{HUGE_PAGES_OFF, Pages};
use crate::sys::stream::Arena;

use super::streams::{self, OVER_LAST_CACHE};

/// Least share of an arena with pages of its own.
const OWN_PAGES: f64 = 0.99;
/// Share of an arena on huge pages from which it is said to lie on them.
const HUGE_PAGES: f64 = 0.95;

rules! {
    OWN: "zero page" Hard "`memory.bandwidth`, `memory.loaded_latency`", "at least {} of the pages of a footprint are its own", share(OWN_PAGES);
    ON_SMALL: "pages" Hard "`memory.bandwidth`", "figures on 4 KiB pages lie on them: at most {} on huge pages", share(1.0 - HUGE_PAGES);
    ON_HUGE: "pages" Remark "`memory.bandwidth`, `memory.loaded_latency`", "others lie on huge pages: at least {}", share(HUGE_PAGES);
    SWAPPED: "swap" Hard "`memory.bandwidth`, `memory.loaded_latency`", "nothing was swapped out";
    BEYOND_CACHES: "G18" Hard "`memory.bandwidth`, `memory.loaded_latency`", "a footprint called DRAM is at least {} times the last caches of the CPUs that use it", plain(OVER_LAST_CACHE as f64);
}

/// Written memory with its account in the record, under labels that include the kind of pages asked for; the inner error is
/// why it cannot be had or is not what it should be.
pub fn obtain(
    rig: &mut Rig<'_>,
    bytes: usize,
    pages: Pages,
    labels: &Labels,
) -> Result<Result<Arena, String>, Trouble> {
    let arena = match Arena::new(bytes, pages) {
        Ok(arena) => arena,
        Err(error) => return Ok(Err(format!("the memory could not be had: {error}"))),
    };
    if let Some(found) = arena.backing() {
        rig.record("own_pages", labels.clone(), Unit::One, vec![found.own])?;
        rig.record("huge_pages", labels.clone(), Unit::One, vec![found.huge])?;
        rig.record("swapped", labels.clone(), Unit::Bytes, vec![found.swapped as f64])?;
    }
    Ok(refuse_unwritten(arena))
}

/// Reading memory without pages of its own reads one page of zeros again and again, out of the nearest cache.
pub fn refuse_unwritten(arena: Arena) -> Result<Arena, String> {
    match arena.backing() {
        Some(found) if found.own < OWN_PAGES => Err(format!(
            "only {} of the memory has pages of its own: the rest is one page of zeros",
            percent(found.own)
        )),
        _ => Ok(arena),
    }
}

/// True when an arena lies on huge pages.
pub fn is_huge(arena: &Arena) -> bool {
    arena.backing().is_some_and(|found| found.huge >= HUGE_PAGES)
}

/// What the arenas with these labels were: memory with pages of its own, of the kind asked for, nothing of it swapped out.
pub fn account_gates(study: &Study<'_>, about: &Labels) -> Vec<Gate> {
    let worst = |name: &str, start: f64, pick: fn(f64, f64) -> f64| {
        let values = study.values(name, about);
        (!values.is_empty()).then(|| values.into_iter().fold(start, pick))
    };
    let mut gates = Vec::new();
    if let Some(own) = worst("own_pages", 1.0, f64::min) {
        let own = Number::share(own).named("{} of the memory has pages of its own");
        gates.push(Gate::at_least(&OWN, own, OWN_PAGES));
    }
    let small = about.get("pages") == Some("4k");
    let shared = if small { worst("huge_pages", 0.0, f64::max) } else { worst("huge_pages", 1.0, f64::min) };
    if let Some(huge) = shared {
        let share = Number::share(huge).named("{} of the memory lies on huge pages");
        gates.push(match (small, study.setup.machine.memory.refused_huge_pages()) {
            (true, _) => Gate::at_most(&ON_SMALL, share, 1.0 - HUGE_PAGES),
            (false, false) => Gate::at_least(&ON_HUGE, share, HUGE_PAGES),
            (false, true) => Gate::at_least(&ON_HUGE, share, HUGE_PAGES).because(HUGE_PAGES_OFF),
        });
    }
    if let Some(swapped) = worst("swapped", 0.0, f64::max) {
        gates.push(Gate::at_most(&SWAPPED, Number::bytes(swapped).named("{} were swapped out"), 0.0));
    }
    gates
}

/// G18: the name DRAM needs a footprint of four last-level caches.
pub fn footprint_gate(study: &Study<'_>, about: &Labels, threads: usize) -> Gate {
    let footprint = study.values("footprint", about).into_iter().reduce(f64::min);
    let cpus = streams::cpus_of(study.setup);
    let caches = streams::last_caches(&study.setup.machine.caches, &cpus[..threads.min(cpus.len())]);
    let needed = caches.map(|bytes| (OVER_LAST_CACHE * bytes) as f64);
    match (footprint, needed) {
        (Some(footprint), Some(needed)) => {
            let reason = format!("{OVER_LAST_CACHE} times the last caches");
            Gate::at_least(&BEYOND_CACHES, Number::bytes(footprint).named("footprint"), needed).because(reason)
        }
        (_, None) => Gate::holds(&BEYOND_CACHES, false, "the size of the last cache is not known"),
        (None, _) => Gate::holds(&BEYOND_CACHES, false, "no launch recorded the footprint"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::stream::{Operation, Vectors, Walk};

    #[test]
    fn memory_that_was_never_written_is_refused() {
        let mut arena = Arena::unwritten(8 << 20, Pages::Small).unwrap();
        let mut walk = Walk::new(Vectors::widest(), Operation::Read, arena.bytes(), arena.bytes());
        walk.step(&mut arena);
        assert!(refuse_unwritten(arena).unwrap_err().contains("page of zeros"));
        assert!(refuse_unwritten(Arena::new(8 << 20, Pages::Small).unwrap()).is_ok());
    }
}
