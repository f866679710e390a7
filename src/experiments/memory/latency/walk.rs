//! What is walked: the patterns, the footprints, and which of them take part in which launch.

use super::patterns::{Pattern, RECIPES};
use crate::experiments::memory::buffer;
use crate::experiments::memory::footprint::{self, BYTES_PER_LOAD, OVER_LAST_CACHE, UNKNOWN_LAST_CACHE};
use crate::experiments::memory::selection::{MOST_NODES, Selection};
use crate::experiments::prelude::*;
use crate::sys::arena::Arena;
use crate::sys::chain::{Chain, Fault, word_of_line};
use std::collections::BTreeSet;

const KIB: u64 = 1 << 10;

const MIB: u64 = 1 << 20;

/// Points to the octave up to [`NEAR`].
const POINTS_PER_OCTAVE: f64 = 4.0;

/// Points to the octave within half an octave of a size that the kernel claims: they give the end of a cache to 6 %.
const POINTS_PER_OCTAVE_AT_CLAIMS: f64 = 12.0;

/// Footprints up to here cost next to nothing: every launch.
const NEAR: u64 = MIB;

/// Footprints up to here cost some milliseconds: they take turns, every launch a part of them.
const MIDDLE: u64 = 16 * MIB;

/// Where memory is further away, a first look has no points between here and there, and neither have strides, nor random walks
/// on pages that do not decide.
const FIRST_LOOK: u64 = 4 * MIDDLE;

/// A first look goes more rarely to memory of more than this, and on the pages that decide alone: it takes seconds to be had.
const SOON_TAKEN: u64 = 256 * MIB;

/// The buffer on which other tools' rules are compared.
const RULES_FOOTPRINT: u64 = 1024 * MIB;

/// Launches from one walk by other tools' rules to the next, where it takes seconds. Those walks stand in launches that do not go
/// far otherwise.
const RULES_EVERY: u32 = 18;

/// Most pages of the translation pattern: beyond every second-level translation buffer known (3072 entries).
const MOST_PAGES: u64 = 8192;

/// Window of the page-blocked pattern: larger than first-level data caches of most cores, so that a neighbouring line that
/// was fetched along is gone from there again, and few enough pages for any translation buffer.
const BLOCK: u64 = 64 * KIB;

/// Window of multichase's default: 64 pages of 4 KiB.
const WINDOW: u64 = 256 * KIB;

/// Strides of the classical curve.
const STRIDES: [u64; 7] = [64, 128, 256, 512, 1024, 2048, 4096];

/// Strides that take part in one launch.
const STRIDES_PER_LAUNCH: usize = 2;

/// Nodes that a long pattern has at least: more than a prefetcher that learns sequences is known to remember.
const LONG_NODES: u64 = 1 << 18;

/// Most visits of a line in one period of the long pattern: words in a line of 64 bytes.
const MOST_PASSES: u64 = 8;

/// Footprints up to here are walked once load by load before sampling; larger ones by many walkers at a time.
const WALKED_SINGLY: u64 = MIB;

/// Bytes that a launch has in addition to its buffer: the program, its records.
const BESIDE: u64 = 8 * MIB;

/// Bytes of a pair of numbers for each line: the order of a walk, and successors.
const NUMBERS_PER_LINE: u64 = 8;

/// Ends footprints with the top; those right below it would cost as much and show the same.
fn crowned(footprints: &mut Vec<u64>, top: u64) {
    footprints.retain(|&bytes| bytes <= top / 3 * 2);
    footprints.push(top);
}

/// One walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Walk {
    pub(super) pattern: Pattern,
    pub(super) pages: Pages,
    /// Footprint in bytes: for the translation pattern that of the pages.
    pub(super) bytes: u64,
}

impl Walk {
    /// Labels of its curve.
    pub(super) fn curve(&self) -> Labels {
        curve(self.pattern, self.pages)
    }

    /// Labels of its series.
    pub(super) fn labels(&self) -> Labels {
        self.curve().with("bytes", self.bytes)
    }
}

/// Labels of a curve.
pub(super) fn curve(pattern: Pattern, pages: Pages) -> Labels {
    let labels = |name: &str| Labels::of([("pattern", name), ("pages", pages_label(pages))]);
    match pattern {
        Pattern::Random => labels("random"),
        Pattern::PageBlocked => labels("page_blocked"),
        Pattern::Long => labels("long"),
        Pattern::Translation => labels("tlb"),
        Pattern::Stride(stride) => labels("stride").with("stride", stride),
        Pattern::Window(line) => labels("window").with("line", line),
    }
}

/// The label of a kind of pages.
pub(super) fn pages_label(pages: Pages) -> &'static str {
    match pages {
        Pages::Small => "4k",
        Pages::Huge => "huge",
    }
}

/// What is known before anything is walked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scope {
    /// Sizes that the kernel claims for the caches of the measured CPU, by level.
    pub(super) claims: Vec<(u32, u64)>,
    /// The largest size that anything claims for the last cache: too large a footprint is a smaller error than one that a
    /// cache still holds.
    last: u64,
    /// Line size in bytes.
    pub(super) line: u64,
    /// Bytes that a launch may take.
    memory: u64,
    /// False for a first look.
    thorough: bool,
    /// Whether a host provides the memory.
    is_guest: bool,
}

impl Scope {
    /// From the facts of a run, for launches that may take so much memory.
    pub(super) fn of(setup: &Setup, memory: u64) -> Self {
        let caches: Vec<_> = (1..=4).filter_map(|level| setup.machine.data_cache(setup.cpu, level)).collect();
        let claims = caches.iter().filter_map(|cache| Some((cache.level, cache.size_bytes.best()?.value))).collect();
        let last = footprint::last_caches(&setup.machine.caches, &[setup.cpu]).unwrap_or(UNKNOWN_LAST_CACHE);
        let thorough = !setup.profile.is_quick();
        let is_guest = setup.machine.is_guest();
        Scope { claims, last, line: footprint::line_bytes(setup), memory, thorough, is_guest }
    }

    /// Size claimed for the last cache.
    pub(super) fn last_cache(&self) -> u64 {
        self.last
    }

    /// Size claimed for the second-level cache.
    pub(super) fn second_cache(&self) -> u64 {
        self.claims.iter().find(|(level, _)| *level == 2).map_or(NEAR, |(_, size)| *size)
    }

    /// Largest footprint that memory allows, in whole huge pages.
    pub(super) fn most(&self) -> u64 {
        let bytes = self.memory.saturating_sub(BESIDE) / (self.line + NUMBERS_PER_LINE) * self.line;
        let step = if bytes > 32 * MIB { 2 * MIB } else { 4 * KIB };
        bytes / step * step
    }

    /// Footprint that is memory and no cache, as far as memory allows.
    pub(super) fn memory_footprint(&self) -> u64 {
        footprint::beyond(self.last, !self.thorough).min(self.most())
    }

    /// Footprint on which other tools' rules are compared.
    pub(super) fn rules_footprint(&self) -> u64 {
        if self.thorough { RULES_FOOTPRINT.min(self.most()) } else { self.memory_footprint() }
    }

    /// Bytes that a launch takes.
    pub(super) fn peak(&self, turn: u32) -> u64 {
        let [small, huge] = [Pages::Small, Pages::Huge].map(|pages| self.largest(pages, turn));
        let arenas = if self.keeps_huge(huge) { small + huge } else { small.max(huge) };
        arenas + (small.max(huge) / self.line).min(MOST_NODES) * NUMBERS_PER_LINE + BESIDE
    }

    /// Bytes of the largest walk of a launch on one kind of pages, whichever decides.
    pub(super) fn largest(&self, pages: Pages, turn: u32) -> u64 {
        self.walks(pages, turn, true).iter().map(|walk| walk.bytes).max().unwrap_or(0)
    }

    /// Whether a launch that walks so much memory on huge pages has it while it walks small pages. What is little costs little again.
    pub(super) fn keeps_huge(&self, bytes: u64) -> bool {
        bytes > MIDDLE && buffer::keeps_huge(self.is_guest, bytes + MIDDLE, self.memory)
    }

    /// Footprints of a curve, ascending.
    fn footprints(&self, from: u64, to: u64, points_per_octave: f64) -> Vec<u64> {
        let mut all: BTreeSet<u64> = BTreeSet::new();
        let mut add = |low: f64, high: f64, points: f64| {
            let steps = ((high / low).log2() * points).round().max(0.0) as u32;
            all.extend((0..=steps).map(|step| low * (f64::from(step) / points).exp2()).filter_map(|bytes| {
                let line = self.line as f64;
                let bytes = ((bytes / line).round() * line) as u64;
                (bytes >= from && bytes <= to).then_some(bytes)
            }));
        };
        add(KIB as f64, MIDDLE as f64, points_per_octave);
        add(MIDDLE as f64, 4.0 * MIDDLE as f64, if self.thorough { 2.0_f64.min(points_per_octave) } else { 1.0 });
        add(4.0 * MIDDLE as f64, to.max(4 * MIDDLE) as f64, 1.0);
        if self.thorough && points_per_octave >= POINTS_PER_OCTAVE {
            // Far away the grid is what it is: each point costs as much as all near ones together.
            for (_, claim) in self.claims.iter().filter(|(_, claim)| *claim <= MIDDLE / 2) {
                let half = std::f64::consts::SQRT_2;
                add(*claim as f64 / half, *claim as f64 * half, POINTS_PER_OCTAVE_AT_CLAIMS);
            }
        }
        all.into_iter().collect()
    }

    /// Whether walks go to memory beyond the caches on pages that decide where the levels are, or on the others.
    pub(super) fn has_memory(&self, decides: bool) -> bool {
        decides || self.thorough || self.memory_footprint() <= SOON_TAKEN
    }

    /// Every walk on one kind of pages, whatever the launch.
    fn all(&self, pages: Pages, decides: bool) -> Vec<Walk> {
        let top = self.memory_footprint();
        let most = |limit: u64| limit.min(self.most());
        let walk = |pattern: Pattern| move |bytes: u64| Walk { pattern, pages, bytes };
        let mut random = self.footprints(KIB, top, POINTS_PER_OCTAVE);
        if !(self.thorough && decides) {
            random.retain(|&bytes| bytes <= FIRST_LOOK);
        }
        if self.has_memory(decides) {
            crowned(&mut random, top);
        }
        let mut walks: Vec<Walk> = random.into_iter().map(walk(Pattern::Random)).collect();
        // On the pages that decide about capacities in full, on the others for comparison.
        let (points, to) = if decides { (POINTS_PER_OCTAVE, 2 * self.last_cache().max(MIDDLE)) } else { (2.0, MIDDLE) };
        let mut blocked = self.footprints(4 * KIB, most(to), points);
        if !self.thorough {
            blocked.retain(|&bytes| bytes <= FIRST_LOOK);
        }
        if decides {
            crowned(&mut blocked, top);
        }
        walks.extend(blocked.into_iter().map(walk(Pattern::PageBlocked)));
        let mapped = page_size() as u64 / self.line;
        walks.extend(
            self.footprints(16 * self.line, (self.second_cache() / 2).min(MOST_PAGES * self.line), POINTS_PER_OCTAVE)
                .into_iter()
                .filter(|bytes| bytes * mapped <= most(4 * MIDDLE))
                .map(|bytes| bytes * mapped)
                .map(walk(Pattern::Translation)),
        );
        if pages == Pages::Huge {
            let long = self.footprints(4 * KIB, most(MIDDLE), 2.0);
            walks.extend(long.into_iter().map(walk(Pattern::Long)));
        } else {
            let top = if self.thorough { top } else { top.min(FIRST_LOOK) };
            for stride in STRIDES {
                let mut sizes = self.footprints(KIB.max(4 * stride), top.min(FIRST_LOOK), 1.0);
                crowned(&mut sizes, top);
                walks.extend(sizes.into_iter().map(walk(Pattern::Stride(stride))));
            }
        }
        walks
    }

    /// Number of this launch among those that walk far footprints, from 0; none when it is not one of them.
    pub(super) fn far_turn(&self, turn: u32) -> Option<u32> {
        let every = match (self.thorough, self.memory_footprint()) {
            (true, _) | (false, ..=SOON_TAKEN) => 3,
            // Once in a first look.
            (false, _) => u32::MAX,
        };
        turn.is_multiple_of(every).then_some(turn / every)
    }

    /// The walks of one launch on one kind of pages, each once; `decides` where their page-blocked curve shows the levels.
    pub(super) fn walks(&self, pages: Pages, turn: u32, decides: bool) -> Vec<Walk> {
        let far_turn = self.far_turn(turn);
        let far = far_turn.is_some();
        // A few strides in each launch; far ones turn with the few launches that walk far footprints.
        let in_turn = |stride: u64, far: bool| {
            let turn = if far { far_turn.unwrap_or(0) } else { turn } as usize;
            let each = if self.thorough { STRIDES_PER_LAUNCH } else { STRIDES.len() };
            let place = STRIDES.iter().position(|&other| other == stride).unwrap_or(0);
            (0..each).any(|extra| (turn * each + extra) % STRIDES.len() == place)
        };
        let takes_part = |walk: &Walk| {
            let in_turn = match walk.pattern {
                Pattern::Stride(stride) => in_turn(stride, walk.bytes > NEAR),
                _ => true,
            };
            in_turn
                && match walk.bytes {
                    ..=NEAR => true,
                    // All of them in the same launches: neighbours that come and go would bend the curve otherwise.
                    bytes if bytes <= MIDDLE => match walk.pattern {
                        Pattern::Stride(_) => far,
                        _ => far || turn.is_multiple_of(3),
                    },
                    _ => far,
                }
        };
        let rules = self.rules(pages, turn);
        // A gibibyte is enough for one launch.
        let alone = self.thorough && (self.has_rules(Pages::Small, turn) || self.has_rules(Pages::Huge, turn));
        let mut walks = if alone { Vec::new() } else { self.all(pages, decides) };
        walks.retain(takes_part);
        walks.extend(rules);
        walks.sort_by_key(|walk| (walk.pattern, walk.bytes));
        walks.dedup();
        walks
    }

    fn has_rules(&self, pages: Pages, turn: u32) -> bool {
        match (self.thorough, pages) {
            (false, _) => self.far_turn(turn).is_some() && self.memory_footprint() <= SOON_TAKEN,
            (true, Pages::Small) => turn % RULES_EVERY == 4,
            (true, Pages::Huge) => turn % RULES_EVERY == RULES_EVERY - 4,
        }
    }

    /// The rules that other tools follow, in the launches that can afford them: a gibibyte takes seconds, which a first look
    /// does not have.
    fn rules(&self, pages: Pages, turn: u32) -> Vec<Walk> {
        let rules = if self.has_rules(pages, turn) { RECIPES.as_slice() } else { &[] };
        let bytes = self.rules_footprint();
        rules
            .iter()
            .filter(|rule| rule.pages == pages)
            .map(|rule| Walk { pattern: rule.pattern, pages, bytes })
            .collect()
    }

    /// Whether a walk's cost depends on who else uses a cache or the memory: its batches are a fixed number of loads, since
    /// a search for a number might be done at another moment's speed. What prefetchers make fast is sized by time.
    pub(super) fn is_shared(&self, walk: &Walk) -> bool {
        walk.bytes > NEAR.max(2 * self.second_cache())
            && !matches!(walk.pattern, Pattern::Stride(_) | Pattern::Translation)
    }

    /// Whether a walk is one of those that a figure of memory comes from: they get more batches, and shorter ones.
    pub(super) fn is_memory(&self, walk: &Walk) -> bool {
        walk.bytes >= self.memory_footprint().min(self.rules_footprint())
    }
}

/// Numbers that are kept from chain to chain: orders and successors.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    order: Vec<u32>,
    blocks: Vec<u32>,
    successors: Vec<u32>,
}

impl Numbers {
    /// Lays the chain of a walk at an offset in an arena and loads all of it once.
    pub(super) fn lay<'a>(
        &mut self,
        walk: &Walk,
        scope: &Scope,
        arena: &'a mut Arena,
        offset: usize,
        random: &mut fastrand::Rng,
    ) -> Result<Chain<'a>, String> {
        let (page, line) = (page_size() as u64, scope.line);
        let is_memory = walk.bytes >= OVER_LAST_CACHE * scope.last_cache();
        let places = match walk.pattern {
            Pattern::Random | Pattern::Long => Selection::of(walk.bytes, line, 1),
            Pattern::PageBlocked => Selection::of(walk.bytes, line, BLOCK / line),
            Pattern::Window(spacing) => Selection::of(walk.bytes, spacing, WINDOW / spacing),
            Pattern::Translation => Selection::of(walk.bytes, page, 1),
            Pattern::Stride(spacing) if is_memory => Selection::first(walk.bytes, spacing),
            Pattern::Stride(spacing) => Selection::whole(walk.bytes, spacing),
        };
        let nodes = places.nodes();
        self.arrange(walk, nodes, line, random);
        let order = &self.order;
        let (line, page) = (line as usize, page as usize);
        // Powers of two: masks are cheaper than divisions, for millions of nodes.
        let (last_word, last_line) = (line / 8 - 1, page / line - 1);
        let place = |node: u32| {
            offset
                + match walk.pattern {
                    Pattern::Random | Pattern::PageBlocked => word_of_line(places.number(node), line),
                    Pattern::Long => {
                        let (place, pass) = ((node % nodes) as usize, (node / nodes) as usize);
                        place * line + ((place + pass) & last_word) * 8
                    }
                    // The line moves through the page, so that the lines fill all sets of the first-level cache.
                    Pattern::Translation => node as usize * page + (node as usize & last_line) * line,
                    Pattern::Stride(spacing) | Pattern::Window(spacing) => places.number(node) * spacing as usize,
                }
        };
        let mut chain: Chain<'a> =
            arena.lay(order, &mut self.successors, place).map_err(|fault: Fault| fault.to_string())?;
        if walk.bytes <= WALKED_SINGLY {
            chain.round().map_err(|broken| broken.to_string())?;
        } else if is_memory {
            // What laying the chain left in the caches would be met there.
            chain.evict((0..nodes).map(place));
            chain.warm((walk.bytes / BYTES_PER_LOAD) as usize);
        } else if places.is_whole() {
            chain.tour();
        } else {
            places.tour(&chain, order, offset, line);
        }
        Ok(chain)
    }

    /// The order in which the nodes are visited.
    fn arrange(&mut self, walk: &Walk, nodes: u32, line: u64, random: &mut fastrand::Rng) {
        self.order.clear();
        match walk.pattern {
            Pattern::Random | Pattern::Translation => {
                self.order.extend(0..nodes);
                random.shuffle(&mut self.order);
            }
            Pattern::Stride(_) => self.order.extend(0..nodes),
            Pattern::PageBlocked => self.arrange_blocks(nodes, (BLOCK / line) as u32, random),
            Pattern::Window(spacing) => self.arrange_blocks(nodes, (WINDOW / spacing) as u32, random),
            Pattern::Long => {
                let passes = (LONG_NODES / u64::from(nodes)).clamp(2, MOST_PASSES.min(line / 8)) as u32;
                for pass in 0..passes {
                    let begin = self.order.len();
                    self.order.extend(pass * nodes..(pass + 1) * nodes);
                    random.shuffle(&mut self.order[begin..]);
                }
            }
        }
    }

    fn arrange_blocks(&mut self, nodes: u32, block: u32, random: &mut fastrand::Rng) {
        self.blocks.clear();
        self.blocks.extend(0..nodes.div_ceil(block));
        random.shuffle(&mut self.blocks);
        for &number in &self.blocks {
            let begin = self.order.len();
            self.order.extend(number * block..((number + 1) * block).min(nodes));
            random.shuffle(&mut self.order[begin..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn scope(claims: &[(u32, u64)], memory: u64, thorough: bool) -> Scope {
        let last = claims.last().map_or(UNKNOWN_LAST_CACHE, |(_, size)| *size);
        Scope { claims: claims.to_vec(), last, line: 64, memory, thorough, is_guest: true }
    }

    const SERVER: [(u32, u64); 3] = [(1, 48 * KIB), (2, 2 * MIB), (3, 105 * MIB)];
    const GUEST: [(u32, u64); 3] = [(1, 32 * KIB), (2, MIB), (3, 32 * MIB)];

    #[test]
    fn memory_is_four_times_the_last_cache_as_far_as_there_is_memory() {
        assert_eq!(scope(&GUEST, 6 << 30, false).memory_footprint(), 128 * MIB);
        assert_eq!(scope(&GUEST, 6 << 30, true).memory_footprint(), 256 * MIB);
        assert_eq!(scope(&SERVER, 6 << 30, true).memory_footprint(), 420 * MIB);
        assert_eq!(scope(&[], 6 << 30, false).memory_footprint(), 128 * MIB);
        assert_eq!(scope(&GUEST, 6 << 30, true).rules_footprint(), 1024 * MIB);
        for memory in [0, 4 * MIB, 64 * MIB, 512 * MIB, 8 << 30] {
            let scope = scope(&SERVER, memory, true);
            assert!(scope.peak(0) <= memory.max(BESIDE), "{memory}: {}", scope.peak(0));
            let most = scope.walks(Pages::Small, 2, true).iter().map(|walk| walk.bytes).max().unwrap_or(0);
            assert!(most <= scope.most(), "{memory}");
        }
    }

    #[test]
    fn every_walk_takes_part_in_the_launches_of_a_run() {
        for (claims, thorough) in [(&GUEST, false), (&GUEST, true), (&SERVER, true), (&SERVER, false)] {
            let scope = scope(claims, 6 << 30, thorough);
            for pages in [Pages::Small, Pages::Huge] {
                let launches = if thorough { 30 } else { 6 };
                let walked: HashSet<Walk> = (0..launches).flat_map(|turn| scope.walks(pages, turn, true)).collect();
                for walk in scope.all(pages, true) {
                    assert!(walked.contains(&walk), "{walk:?}");
                }
                for rule in RECIPES.iter().filter(|rule| rule.pages == pages) {
                    let walk = Walk { pattern: rule.pattern, pages, bytes: scope.rules_footprint() };
                    let is_affordable = thorough || scope.memory_footprint() <= SOON_TAKEN;
                    assert_eq!(walked.contains(&walk), is_affordable || walk.pattern == Pattern::Random, "{walk:?}");
                }
            }
        }
    }

    #[test]
    fn no_walk_stands_twice_in_a_launch_and_labels_tell_them_apart() {
        let scope = scope(&GUEST, 6 << 30, true);
        for turn in 0..30 {
            let mut seen = HashSet::new();
            for pages in [Pages::Small, Pages::Huge] {
                for walk in scope.walks(pages, turn, true) {
                    assert!(seen.insert(walk.labels()), "{walk:?} in launch {turn}");
                }
            }
        }
    }

    #[test]
    fn a_dense_grid_surrounds_what_is_claimed() {
        let scope = scope(&GUEST, 6 << 30, true);
        let near = |claim: u64| {
            let near = |walk: &&Walk| walk.pattern == Pattern::PageBlocked && walk.bytes.abs_diff(claim) < claim / 3;
            scope.all(Pages::Huge, true).iter().filter(near).count()
        };
        assert!(near(32 * KIB) > 8 && near(MIB) > 8, "{} {}", near(32 * KIB), near(MIB));
        assert!(near(32 * KIB) < 20);
    }

    #[test]
    fn every_pattern_is_one_cycle_within_its_footprint() {
        let mut arena = Arena::map(4 * MIB as usize, Pages::Small).unwrap();
        arena.populate();
        let mut random = fastrand::Rng::with_seed(7);
        let patterns = [
            Pattern::Random,
            Pattern::PageBlocked,
            Pattern::Long,
            Pattern::Translation,
            Pattern::Stride(64),
            Pattern::Stride(4096),
            Pattern::Window(64),
            Pattern::Window(256),
        ];
        let mut scratch = Numbers::default();
        for pattern in patterns {
            for bytes in [64 * KIB, 100 * KIB, MIB] {
                let walk = Walk { pattern, pages: Pages::Small, bytes };
                let chain =
                    scratch.lay(&walk, &scope(&GUEST, 0, true), &mut arena, 3 * MIB as usize, &mut random).unwrap();
                let expected = match pattern {
                    Pattern::Long => bytes / 64 * (LONG_NODES / (bytes / 64)).clamp(2, 8),
                    Pattern::Translation | Pattern::Stride(4096) => bytes / 4096,
                    Pattern::Window(256) => bytes / 256,
                    _ => bytes / 64,
                };
                assert_eq!(chain.nodes() as u64, expected, "{walk:?}");
            }
        }
    }
}
