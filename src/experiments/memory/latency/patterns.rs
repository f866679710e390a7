//! The orders in which walks go through memory, and the rules by which other tools measure what they call memory latency.

use crate::experiments::prelude::*;

/// In which order a walk goes through its footprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Pattern {
    /// All lines in random order.
    Random,
    /// All lines of a window of 64 KiB in random order, then those of the next; windows in random order.
    PageBlocked,
    /// Lines in random order several times over, each time in another order, before the walk repeats itself.
    Long,
    /// One line of every page, pages in random order.
    Translation,
    /// Ascending addresses, this many bytes apart.
    Stride(u64),
    /// Nodes this many bytes apart, random within windows of 64 pages of 4 KiB.
    Window(u64),
}

/// A rule by which other tools measure what they call memory latency.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recipe {
    pub(super) pattern: Pattern,
    pub(super) pages: Pages,
    /// The rule in words.
    pub(super) what: &'static str,
    /// Why it gives what it gives.
    pub(super) why: &'static str,
}

/// The rules, cheapest first.
pub(super) const RECIPES: [Recipe; 5] = [
    Recipe {
        pattern: Pattern::Stride(128),
        pages: Pages::Small,
        what: "every 128 bytes, ascending (lat_mem_rd with its default stride)",
        why: "prefetchers detect the stride and load ahead",
    },
    Recipe {
        pattern: Pattern::Window(64),
        pages: Pages::Small,
        what: "every 64-byte line, random within 64 pages",
        why: "neighbouring lines are prefetched, and the TLB covers 64 pages",
    },
    Recipe {
        pattern: Pattern::Window(256),
        pages: Pages::Small,
        what: "every 256 bytes, random within 64 pages (multichase)",
        why: "no neighbouring line is prefetched, and the TLB covers 64 pages",
    },
    Recipe {
        pattern: Pattern::Random,
        pages: Pages::Huge,
        what: "every line, random over the buffer, huge pages",
        why: "no prefetching, and few TLB misses if the hardware uses whole huge pages",
    },
    Recipe {
        pattern: Pattern::Random,
        pages: Pages::Small,
        what: "every line, random over the buffer, 4 KiB pages (tinymembench, lat_mem_rd -t)",
        why: "nearly every load also needs a page-table walk",
    },
];
