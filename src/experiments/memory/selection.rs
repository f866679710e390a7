//! Which places of a footprint a chain visits. A chain through every line of gigabytes takes longer to lay than to measure, and a
//! launch visits only some ten thousand lines. So a chain has a limited number of nodes, spread evenly over the footprint.

use std::ops::Range;

use crate::sys::arena::Arena;
use crate::sys::chain::{Chain, Fault, word_of_line};

/// Most nodes of a chain: far more than a launch visits, so that no walk comes back to a line.
pub const MOST_NODES: u64 = 1 << 18;

/// Units of a footprint (lines, or windows of lines), and those among them that a chain visits: one of each stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selection {
    /// Bytes from node to node within a unit.
    spacing: u64,
    /// Nodes of a unit.
    per_unit: u64,
    /// Units of the footprint, and how many of them are visited.
    units: u64,
    chosen: u64,
    nodes: u32,
}

impl Selection {
    /// Nodes of a footprint that are `spacing` bytes apart, in units of `per_unit` nodes (a power of two) that stay together.
    pub fn of(bytes: u64, spacing: u64, per_unit: u64) -> Self {
        let all = bytes / spacing;
        if all <= MOST_NODES {
            return Selection::whole(bytes, spacing);
        }
        debug_assert!(per_unit.is_power_of_two());
        let (units, chosen) = (all / per_unit, MOST_NODES / per_unit);
        Selection { spacing, per_unit, units, chosen, nodes: (chosen * per_unit) as u32 }
    }

    /// All nodes of a footprint.
    pub fn whole(bytes: u64, spacing: u64) -> Self {
        let nodes = bytes / spacing;
        Selection { spacing, per_unit: 1, units: nodes, chosen: nodes, nodes: nodes as u32 }
    }

    /// The first nodes of a footprint: for ascending addresses, which have no gaps.
    pub fn first(bytes: u64, spacing: u64) -> Self {
        Selection::whole(bytes.min(MOST_NODES * spacing), spacing)
    }

    /// Nodes of the chain.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Whether every node of the footprint is visited.
    pub fn is_whole(&self) -> bool {
        self.units == self.chosen
    }

    /// Number of a node among all of the footprint.
    #[inline(always)]
    pub fn number(&self, node: u32) -> usize {
        if self.is_whole() {
            return node as usize;
        }
        // Powers of two: shifts are cheaper than divisions, for millions of nodes.
        let unit = u64::from(node) >> self.per_unit.trailing_zeros();
        let within = u64::from(node) & (self.per_unit - 1);
        let stretch = self.stretch(unit);
        // A fixed scatter, so that the distances between nodes differ.
        let scatter = ((unit.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) * (stretch.end - stretch.start)) >> 32;
        ((stretch.start + scatter) * self.per_unit + within) as usize
    }

    /// The units of which one is visited.
    #[inline(always)]
    fn stretch(&self, unit: u64) -> Range<u64> {
        let shift = self.chosen.trailing_zeros();
        (unit * self.units) >> shift..((unit + 1) * self.units) >> shift
    }

    /// Loads every line of the footprint once, unit by unit in the order of the chain: the caches are then as after one walk
    /// through a chain of all lines.
    pub fn tour(&self, chain: &Chain<'_>, order: &[u32], offset: usize, line: usize) {
        let mut last = None;
        for &node in order {
            let unit = u64::from(node) >> self.per_unit.trailing_zeros();
            if last.replace(unit) == Some(unit) {
                continue;
            }
            let stretch = self.stretch(unit);
            let bytes = |unit: u64| offset + (unit * self.per_unit * self.spacing) as usize;
            chain.load(bytes(stretch.start)..bytes(stretch.end), line);
        }
    }
}

/// A chain in random order through the lines of the first bytes of an arena, or through as many of them as it may have.
pub struct Scattered<'a> {
    chain: Chain<'a>,
    lines: Selection,
    line: usize,
}

impl<'a> Scattered<'a> {
    /// Lays it.
    pub fn lay(arena: &'a mut Arena, bytes: usize, line: usize, random: &mut fastrand::Rng) -> Result<Self, Fault> {
        let lines = Selection::of(bytes as u64, line as u64, 1);
        let mut order: Vec<u32> = (0..lines.nodes()).collect();
        random.shuffle(&mut order);
        let place = |node| word_of_line(lines.number(node), line);
        Ok(Scattered { chain: arena.lay(&order, &mut Vec::new(), place)?, lines, line })
    }

    /// Removes its lines from every cache, then loads `loads` others that the walk does not reach, for the address translation.
    pub fn prepare(&mut self, loads: usize) {
        let (lines, line) = (self.lines, self.line);
        self.chain.evict((0..lines.nodes()).map(|node| word_of_line(lines.number(node), line)));
        self.chain.warm(loads);
    }

    /// Walks on from where the last walk stopped.
    #[inline(always)]
    pub fn walk(&mut self, turns: u64) {
        self.chain.walk(turns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_footprint_is_visited_whole() {
        for (bytes, spacing, unit) in [(4096, 64, 1), (100 << 10, 64, 1024), (MOST_NODES * 64, 64, 1)] {
            let whole = Selection::of(bytes, spacing, unit);
            assert!(whole.is_whole());
            assert_eq!(u64::from(whole.nodes()), bytes / spacing);
            assert!((0..whole.nodes()).all(|node| whole.number(node) == node as usize));
        }
    }

    #[test]
    fn a_large_footprint_is_visited_evenly_and_no_place_twice() {
        for (bytes, spacing, unit) in [(1920 << 20, 64, 1), (1 << 30, 64, 1024), ((1 << 30) + 12_288, 64, 4096)] {
            let some = Selection::of(bytes, spacing, unit);
            assert!(!some.is_whole());
            assert_eq!(u64::from(some.nodes()), MOST_NODES);
            let numbers: Vec<usize> = (0..some.nodes()).map(|node| some.number(node)).collect();
            assert!(numbers.is_sorted_by(|one, next| one < next), "{bytes}");
            assert!((numbers[numbers.len() - 1] as u64) < bytes / spacing);
            let tenth = |part: u64| {
                let to = bytes / spacing / 10 * part;
                numbers.partition_point(|&number| (number as u64) < to) as f64 / numbers.len() as f64
            };
            assert!((1..10).all(|part| (tenth(part) - part as f64 / 10.0).abs() < 0.01), "{bytes}");
        }
    }

    #[test]
    fn windows_stay_whole() {
        let some = Selection::of(2 << 30, 64, 1024);
        let numbers: Vec<usize> = (0..4096).map(|node| some.number(node)).collect();
        for window in numbers.chunks(1024) {
            assert!(window[0].is_multiple_of(1024) && window.windows(2).all(|pair| pair[1] == pair[0] + 1));
        }
    }

    #[test]
    fn ascending_addresses_are_the_first_of_the_footprint() {
        let first = Selection::first(1 << 30, 64);
        assert!(first.is_whole());
        assert_eq!(u64::from(first.nodes()), MOST_NODES);
        assert_eq!(Selection::first(1 << 30, 4096).nodes(), 1 << 18);
        assert_eq!(u64::from(Selection::whole(1 << 30, 64).nodes()), (1 << 30) / 64);
    }
}
