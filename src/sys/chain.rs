//! Chains of pointers through memory of known pages: each node holds the address of the next, so that no load can begin
//! before the one before it has ended.

use std::fmt;

use super::arch;
use super::arena::Arena;

/// Loads in one turn of [`Chain::walk`].
pub const LOADS_PER_TURN: u64 = 64;

/// Walkers that go through a chain together: as many loads as a core keeps in flight, so that a tour takes a fraction of a walk.
const WALKERS: usize = 16;

/// Size of a node: one address.
const NODE: usize = size_of::<usize>();

/// Where the node of a line begins, in bytes from the first line: the word moves through the line, so that no figure hangs on
/// one place in it. Lines are powers of two.
#[inline(always)]
pub fn word_of_line(number: usize, line: usize) -> usize {
    number * line + (number & (line / NODE - 1)) * NODE
}

/// A closed chain, proven to be one cycle through all of its nodes when it was laid.
#[derive(Debug)]
pub struct Chain<'a> {
    arena: &'a mut Arena,
    start: *const usize,
    at: *const usize,
    nodes: usize,
    /// Starting points of the walkers of a tour, [`Self::segment`] steps apart.
    marks: Vec<*const usize>,
}

/// A chain that is not one cycle through all of its nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken {
    /// Steps after which the walk was back at its start; none when it was not after as many as there are nodes.
    pub back_after: Option<usize>,
    /// Nodes that were to be visited.
    pub nodes: usize,
}

impl fmt::Display for Broken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.back_after {
            Some(steps) => write!(out, "the walk is back at its start after {steps} of {} steps", self.nodes),
            None => write!(out, "the walk is not back at its start after {} steps", self.nodes),
        }
    }
}

/// What can be wrong with a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It has no nodes.
    Empty,
    /// It is not one cycle.
    NotOneCycle(Broken),
    /// A node does not hold what was written there: two nodes share a place.
    Overwritten(usize),
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Empty => out.write_str("a chain without nodes"),
            Fault::NotOneCycle(broken) => broken.fmt(out),
            Fault::Overwritten(node) => write!(out, "node {node} shares its place with another"),
        }
    }
}

impl Arena {
    /// Where the node at an offset is.
    #[inline(always)]
    fn node(&self, offset: usize) -> *mut usize {
        assert!(offset.is_multiple_of(NODE) && offset + NODE <= self.bytes(), "no node at {offset}");
        // SAFETY: the place lies inside the mapping; it is aligned for an address, since mappings begin at pages.
        unsafe { self.start().add(offset) }.cast()
    }

    /// Lays a chain through the first lines of the arena, each once, in random order.
    ///
    /// # Panics
    ///
    /// When the arena has fewer bytes.
    pub fn lay_random(&mut self, bytes: usize, line: usize, random: &mut fastrand::Rng) -> Result<Chain<'_>, Fault> {
        let mut order: Vec<u32> = (0..(bytes / line) as u32).collect();
        random.shuffle(&mut order);
        self.lay(&order, &mut Vec::new(), |node| word_of_line(node as usize, line))
    }

    /// Lays a chain that visits the nodes in the given order, node `n` at the offset `place(n)`: a multiple of eight.
    ///
    /// The chain is walked once before it is laid, as numbers in `successors` (memory that callers keep from chain to
    /// chain): the walk must be back at its start after exactly as many steps as there are nodes. Then it is written,
    /// and every node is read again and compared. All this goes through the arena in ascending order, so that it takes
    /// seconds where a walk through the arena itself takes minutes.
    ///
    /// # Panics
    ///
    /// When the order names a node that is not below its length, or when a place lies outside.
    pub fn lay(
        &mut self,
        order: &[u32],
        successors: &mut Vec<u32>,
        place: impl Fn(u32) -> usize,
    ) -> Result<Chain<'_>, Fault> {
        let (Some(&first), Some(&last)) = (order.first(), order.last()) else { return Err(Fault::Empty) };
        successors.clear();
        successors.resize(order.len(), first);
        for pair in order.windows(2) {
            successors[pair[0] as usize] = pair[1];
        }
        successors[last as usize] = first;
        let segment = segment(order.len());
        let marks: Vec<u32> = order.iter().copied().step_by(segment).collect();
        prove(successors, &marks, segment).map_err(Fault::NotOneCycle)?;
        for (node, &next) in (0..).zip(successors.iter()) {
            let (here, there) = (self.node(place(node)), self.node(place(next)));
            // SAFETY: both are places for nodes in this arena.
            unsafe { here.write(there as usize) };
        }
        for (node, &next) in (0..).zip(successors.iter()) {
            // SAFETY: as above.
            let holds = unsafe { self.node(place(node)).read_volatile() };
            if holds != self.node(place(next)) as usize {
                return Err(Fault::Overwritten(node as usize));
            }
        }
        let marks: Vec<*const usize> = marks.into_iter().map(|node| self.node(place(node)).cast_const()).collect();
        Ok(Chain { start: marks[0], at: marks[0], nodes: order.len(), marks, arena: self })
    }
}

/// Steps between starting points of walkers.
fn segment(nodes: usize) -> usize {
    nodes.div_ceil(WALKERS)
}

/// Walks a cycle of numbers: walkers start at the marks, `segment` steps apart, and each must arrive where the next one
/// started, so that together they make one walk. Its start may be met once, at its end: then the cycle is not shorter.
fn prove(successors: &[u32], marks: &[u32], segment: usize) -> Result<(), Broken> {
    let start = marks[0];
    let rest = successors.len() - (marks.len() - 1) * segment;
    let mut places = marks.to_vec();
    let mut met = 0;
    for step in 0..segment {
        let walking = if step < rest { places.len() } else { places.len() - 1 };
        for place in &mut places[..walking] {
            *place = successors[*place as usize];
            met += usize::from(*place == start);
        }
    }
    let arrived = places.iter().zip(marks.iter().cycle().skip(1)).all(|(place, mark)| place == mark);
    if arrived && met == 1 {
        return Ok(());
    }
    let mut at = start;
    let back_after = (1..=successors.len()).find(|_| {
        at = successors[at as usize];
        at == start
    });
    Err(Broken { back_after, nodes: successors.len() })
}

impl Chain<'_> {
    /// Nodes.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Walks through all nodes once, load by load, and holds the chain to being back at its start then and not before. The walk
    /// ends where it began.
    pub fn round(&mut self) -> Result<(), Broken> {
        let mut at = self.start;
        let mut met = 0;
        let mut back_after = None;
        for step in 1..=self.nodes {
            at = follow(at);
            if at == self.start {
                met += 1;
                back_after = back_after.or(Some(step));
            }
        }
        self.at = self.start;
        if met == 1 && at == self.start { Ok(()) } else { Err(Broken { back_after, nodes: self.nodes }) }
    }

    /// Loads every node once with many walkers at a time: faster than [`Self::round`] by what a core keeps in flight. The walk is
    /// back at its start then.
    pub fn tour(&mut self) {
        self.wander(0, segment(self.nodes));
        self.at = self.start;
    }

    /// Loads this many nodes of the second half of the chain, at most all of it, and goes back to the start. What translates
    /// addresses is in the caches then, as it is far within a long walk, and the lines that come are not.
    pub fn warm(&mut self, loads: usize) {
        let walkers = self.marks.len().div_ceil(2);
        self.wander(self.marks.len() - walkers, loads.div_ceil(walkers).min(segment(self.nodes)));
        self.at = self.start;
    }

    /// Goes back to the start.
    pub fn rewind(&mut self) {
        self.at = self.start;
    }

    /// Removes the lines of this many next nodes from every cache level.
    pub fn flush(&self, nodes: usize) {
        let mut at = self.at;
        for _ in 0..nodes {
            let next = follow(at);
            // SAFETY: a node of this chain, inside the arena that it borrows.
            arch::flush_line(unsafe { &*at });
            arch::fence();
            at = next;
        }
    }

    /// Loads one word of every line of a range of the arena, which leaves the walk where it is.
    ///
    /// # Panics
    ///
    /// When the range does not lie inside the arena.
    pub fn load(&self, range: std::ops::Range<usize>, line: usize) {
        for offset in range.step_by(line) {
            // SAFETY: the place is inside the mapping and aligned, and every byte of a laid arena may be read.
            std::hint::black_box(unsafe { self.arena.node(offset).read_volatile() });
        }
    }

    /// Removes the lines of some places of the arena from every cache level, without loading them.
    ///
    /// # Panics
    ///
    /// When a place is not one for a node.
    pub fn evict(&self, places: impl Iterator<Item = usize>) {
        for offset in places {
            // SAFETY: the place is inside the mapping and aligned; a flush changes no content.
            arch::flush_line(unsafe { &*self.arena.node(offset) });
        }
        arch::fence();
    }

    /// Lets the walkers from number `from` on take this many steps from their marks.
    fn wander(&self, from: usize, steps: usize) {
        let marks = &self.marks[from..];
        // Fixed numbers, so that the compiler keeps them all in flight; the last segments overlap a little.
        match (<[_; WALKERS]>::try_from(marks), <[_; WALKERS / 2]>::try_from(marks)) {
            (Ok(places), _) => together::<WALKERS>(places, steps),
            (_, Ok(places)) => together::<{ WALKERS / 2 }>(places, steps),
            _ => marks.iter().for_each(|&mark| together([mark], steps)),
        }
    }

    /// Walks on from where the last walk stopped: [`LOADS_PER_TURN`] dependent loads per turn.
    #[inline(always)]
    pub fn walk(&mut self, turns: u64) {
        self.walk_multiplying::<0>(turns);
    }

    /// The same with dependent multiplications by one after each load: known truth for tests.
    #[inline(always)]
    pub fn walk_multiplying<const MULTIPLIES: usize>(&mut self, turns: u64) {
        // SAFETY: every node holds the address of a node (see `Arena::lay`), and nothing else can write the arena during the walk.
        self.at = unsafe { arch::chase::<MULTIPLIES>(self.at, turns) };
    }

    /// Lets two nodes, given by their offsets, exchange their successors, which cuts one cycle in two: known truth for tests.
    ///
    /// # Panics
    ///
    /// When an offset is not a place for a node.
    pub fn exchange(&mut self, one: usize, other: usize) {
        // SAFETY: both places are inside the mapping, aligned, and owned by this value; what they hold are nodes.
        unsafe { std::ptr::swap(self.arena.node(one), self.arena.node(other)) };
    }
}

/// Takes this many steps from each place, side by side.
fn together<const NUMBER: usize>(mut places: [*const usize; NUMBER], steps: usize) {
    for _ in 0..steps {
        for place in &mut places {
            *place = follow(*place);
        }
    }
    std::hint::black_box(places);
}

/// The node behind a node.
#[inline(always)]
fn follow(place: *const usize) -> *const usize {
    // SAFETY: called with nodes of a closed chain only; each holds the address of another (see `Arena::lay`).
    unsafe { place.read() as *const usize }
}

#[cfg(test)]
mod tests {
    use super::super::memory::Pages;
    use super::*;

    fn arena(bytes: usize) -> Arena {
        let mut arena = Arena::map(bytes, Pages::Small).unwrap();
        arena.populate();
        arena
    }

    fn ascending(arena: &mut Arena, nodes: u32) -> Chain<'_> {
        let order: Vec<u32> = (0..nodes).collect();
        arena.lay(&order, &mut Vec::new(), |node| node as usize * 64).unwrap()
    }

    #[test]
    fn one_cycle_is_proven_whatever_its_length() {
        let mut arena = arena(1 << 20);
        let mut random = fastrand::Rng::with_seed(3);
        for nodes in [1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 129, 1000, 4096, 16_384] {
            let mut order: Vec<u32> = (0..nodes).collect();
            random.shuffle(&mut order);
            let mut chain = arena.lay(&order, &mut Vec::new(), |node| node as usize * 64).unwrap();
            assert_eq!((chain.round(), chain.nodes()), (Ok(()), nodes as usize));
            chain.tour();
            assert_eq!(chain.at, chain.start);
            chain.walk(1);
            chain.warm(WALKERS * 3);
            assert_eq!((chain.at, chain.round()), (chain.start, Ok(())));
        }
    }

    #[test]
    fn two_cycles_are_found() {
        let mut arena = arena(1 << 20);
        for nodes in [8_u32, 100, 1000, 16_384] {
            let half = nodes as usize / 2;
            let broken = |back| Err(Broken { back_after: Some(back), nodes: nodes as usize });
            // The first half closes on itself.
            let mut chain = ascending(&mut arena, nodes);
            chain.exchange((half - 1) * 64, (nodes as usize - 1) * 64);
            assert_eq!(chain.round(), broken(half));
            // A cut elsewhere leaves the start in the longer part.
            let mut chain = ascending(&mut arena, nodes);
            chain.exchange(64, 128);
            assert_eq!(chain.round(), broken(nodes as usize - 1));
            // The same as numbers.
            let mut successors: Vec<u32> = (0..nodes).map(|node| (node + 1) % nodes).collect();
            successors.swap(half - 1, nodes as usize - 1);
            let segment = segment(nodes as usize);
            let marks: Vec<u32> = (0..nodes).step_by(segment).collect();
            assert_eq!(prove(&successors, &marks, segment), broken(half));
        }
    }

    #[test]
    fn a_node_visited_twice_is_refused() {
        let mut arena = arena(1 << 16);
        let twice = arena.lay(&[0, 1, 2, 0, 4, 5], &mut Vec::new(), |node| node as usize * 64).map(drop);
        assert_eq!(twice, Err(Fault::NotOneCycle(Broken { back_after: Some(3), nodes: 6 })));
        let shared = arena.lay(&[0, 1, 2, 3], &mut Vec::new(), |node| node as usize / 2 * 64).map(drop);
        assert_eq!(shared, Err(Fault::Overwritten(0)));
        assert_eq!(arena.lay(&[], &mut Vec::new(), |_| 0).map(drop), Err(Fault::Empty));
    }

    #[test]
    fn a_walk_goes_on_where_the_last_one_stopped() {
        let mut arena = arena(1 << 16);
        let mut chain = ascending(&mut arena, 100);
        let start = chain.at;
        chain.walk(1);
        assert_eq!(chain.at as usize, start as usize + 64 * 64);
        chain.walk_multiplying::<2>(1);
        assert_eq!(chain.at as usize, start as usize + 28 * 64);
        chain.walk(0);
        assert_eq!(chain.at as usize, start as usize + 28 * 64);
    }

    #[test]
    fn a_random_chain_goes_through_every_line_and_survives_a_flush() {
        let mut arena = arena(1 << 16);
        let mut chain = arena.lay_random(1 << 16, 64, &mut fastrand::Rng::with_seed(1)).unwrap();
        assert_eq!((chain.nodes(), chain.round()), (1024, Ok(())));
        chain.walk(1);
        chain.flush(100);
        chain.load(0..1 << 16, 64);
        chain.evict((0..1024).map(|node| word_of_line(node, 64)));
        chain.rewind();
        assert_eq!((chain.at, chain.round()), (chain.start, Ok(())));
    }

    #[test]
    #[should_panic(expected = "no node at")]
    fn a_node_outside_is_refused() {
        let _ = arena(4096).lay(&[0], &mut Vec::new(), |_| 4096);
    }
}
