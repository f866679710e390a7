//! Streams through memory: loads and stores of whole lines in the widest vectors of this processor.

pub use super::arch::Vectors;
use super::arch::{self, StreamKernel};
use super::arena::Arena;

/// Bytes that a turn of a kernel's loop handles: every stretch is a multiple of it.
pub const BLOCK: usize = 512;

/// Size of a cache line that byte accounting assumes where every second line is left out.
pub const LINE: usize = 64;

/// A copy's destination lies this much off a multiple of the page size from its source: stores whose addresses end like
/// those of later loads hold these up (4 KiB aliasing; Intel optimization manual, on memory disambiguation).
const SKEW: usize = 2048 + 64;

/// Every set of any architecture: its name and the bytes of a vector.
const NAMED: [(&str, usize); 4] = [("neon", 16), ("sse2", 16), ("avx2", 32), ("avx512", 64)];

impl Vectors {
    /// Every set that this processor and its kernel have, narrowest first.
    pub fn available() -> Vec<Vectors> {
        arch::VECTORS.iter().filter(|(_, available)| available()).map(|(vectors, _)| *vectors).collect()
    }

    /// The widest of them.
    pub fn widest() -> Vectors {
        Self::available().pop().unwrap_or(arch::VECTORS[0].0)
    }

    /// Bytes of a vector of a set with this name, which can be one of another machine.
    pub fn bytes_of(name: &str) -> Option<usize> {
        NAMED.iter().find(|(named, _)| *named == name).map(|(_, bytes)| *bytes)
    }

    fn kernel(&self, operation: Operation) -> StreamKernel {
        match operation {
            Operation::Read => self.read,
            Operation::ReadHalf => self.read_half,
            Operation::Write => self.write,
            Operation::WriteNt => self.write_nt,
            Operation::Copy => self.copy,
            Operation::CopyNt => self.copy_nt,
        }
    }
}

/// What a stream does with every line that it passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Loads it.
    Read,
    /// Loads every second line and leaves the others alone: known truth for tests.
    ReadHalf,
    /// Stores it.
    Write,
    /// Stores it past the caches.
    WriteNt,
    /// Loads it and stores it elsewhere.
    Copy,
    /// Loads it and stores it elsewhere past the caches.
    CopyNt,
}

impl Operation {
    /// The operations of the report, in its order.
    pub const ALL: [Operation; 5] =
        [Operation::Read, Operation::Write, Operation::WriteNt, Operation::Copy, Operation::CopyNt];

    /// Label.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::ReadHalf => "read_half",
            Operation::Write => "write",
            Operation::WriteNt => "write_nt",
            Operation::Copy => "copy",
            Operation::CopyNt => "copy_nt",
        }
    }

    /// The operation with a label.
    pub fn named(name: &str) -> Option<Operation> {
        Operation::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// True when it needs two ranges.
    pub fn copies(self) -> bool {
        matches!(self, Operation::Copy | Operation::CopyNt)
    }

    /// Bytes that a program gets from a stretch of this many bytes: those of the lines that are touched. Copied ones count once.
    pub fn application_bytes(self, stretch: usize) -> usize {
        if self == Operation::ReadHalf { stretch / 2 } else { stretch }
    }

    /// Bytes that cross the memory bus for each application byte, where every touched line misses and is written back in the
    /// end: a stored line is read first to be owned, unless it is stored past the caches.
    pub fn bus_factor(self) -> f64 {
        match self {
            Operation::Read | Operation::ReadHalf | Operation::WriteNt => 1.0,
            Operation::Write | Operation::CopyNt => 2.0,
            Operation::Copy => 3.0,
        }
    }
}

impl Arena {
    /// Longest stretch that an operation can cover within a footprint, a multiple of [`BLOCK`]: a copy needs room for both
    /// of its ranges.
    pub fn stretch(operation: Operation, footprint: usize) -> usize {
        let room = if operation.copies() { footprint.saturating_sub(Self::away(footprint)) } else { footprint };
        room / BLOCK * BLOCK
    }

    /// From a copy's source to its destination: a little more than half of the footprint.
    fn away(footprint: usize) -> usize {
        footprint / 2 / 4096 * 4096 + SKEW
    }

    /// Runs an operation `passes` times over `bytes` bytes from `offset` on, within the first `footprint` bytes of the arena.
    /// A copy goes from the first half of the footprint to the second.
    pub fn run(
        &mut self,
        vectors: &Vectors,
        operation: Operation,
        footprint: usize,
        offset: usize,
        bytes: usize,
        passes: u64,
    ) {
        assert!(footprint <= self.bytes() && offset.is_multiple_of(BLOCK) && bytes.is_multiple_of(BLOCK));
        assert!(offset + bytes <= Arena::stretch(operation, footprint), "the stretch leaves the footprint");
        let away = if operation.copies() { Self::away(footprint) } else { 0 };
        // SAFETY: both ranges lie inside the arena: offset + bytes + away ≤ footprint ≤ bytes of the arena. Those of a copy do
        // not overlap, because a stretch is at most what the footprint has beyond `away`, which is more than half of it. All
        // is aligned to lines, which is more than the kernels need, and `vectors` are of those that this processor has.
        unsafe {
            let from = self.start().add(offset);
            (vectors.kernel(operation))(from.add(away), from, bytes, passes);
        }
    }
}

/// A stream that goes on from where it stopped: every byte of the footprint is passed before any is passed again, so what a
/// step finds in the caches is what a footprint of that size leaves there.
#[derive(Debug, Clone, Copy)]
pub struct Stream {
    vectors: Vectors,
    operation: Operation,
    footprint: usize,
    stretch: usize,
    chunk: usize,
    at: usize,
}

impl Stream {
    /// A walk in steps of about `chunk` bytes through the first `footprint` bytes of an arena.
    pub fn new(vectors: Vectors, operation: Operation, footprint: usize, chunk: usize) -> Self {
        let stretch = Arena::stretch(operation, footprint);
        // Even steps: a short rest that no step covers would keep part of the footprint out of the walk.
        let steps = stretch.div_ceil(chunk.clamp(BLOCK, stretch));
        let chunk = (stretch / steps / BLOCK * BLOCK).max(BLOCK);
        Stream { vectors, operation, footprint, stretch, chunk, at: 0 }
    }

    /// Application bytes of a step.
    pub fn bytes(&self) -> u64 {
        self.operation.application_bytes(self.chunk) as u64
    }

    /// Goes on from the same place with other vectors.
    pub fn turn_to(&mut self, vectors: Vectors) {
        self.vectors = vectors;
    }

    /// Does a step and returns its application bytes.
    pub fn step(&mut self, arena: &mut Arena) -> u64 {
        self.steps(arena, 1)
    }

    /// Does a step a number of times over the same bytes where a step is the whole footprint, else that many steps on.
    pub fn steps(&mut self, arena: &mut Arena, count: u64) -> u64 {
        if self.chunk == self.stretch {
            arena.run(&self.vectors, self.operation, self.footprint, 0, self.chunk, count);
        } else {
            for _ in 0..count {
                if self.at + self.chunk > self.stretch {
                    self.at = 0;
                }
                arena.run(&self.vectors, self.operation, self.footprint, self.at, self.chunk, 1);
                self.at += self.chunk;
            }
        }
        count * self.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::Pages;
    use super::*;

    #[test]
    fn sets_of_other_machines_have_a_width() {
        for (vectors, _) in &arch::VECTORS {
            assert_eq!(Vectors::bytes_of(vectors.name), Some(vectors.bytes), "{}", vectors.name);
        }
        assert_eq!((Vectors::bytes_of("neon"), Vectors::bytes_of("avx512")), (Some(16), Some(64)));
        assert_eq!(Vectors::bytes_of("mmx"), None);
    }

    fn bytes(arena: &Arena) -> &[u8] {
        // SAFETY: the arena is mapped, written, and borrowed for as long as the slice.
        unsafe { std::slice::from_raw_parts(arena.start(), arena.bytes()) }
    }

    fn fill(arena: &mut Arena) {
        // No stretch of it looks like another, so that a copy is found where it is and nowhere else.
        let mut random = fastrand::Rng::with_seed(1);
        for place in 0..arena.bytes() {
            // SAFETY: inside the arena, which is borrowed for writing. Stores write 0xff, so the pattern has none.
            unsafe { arena.start().add(place).write(random.u8(..0xff)) };
        }
    }

    #[test]
    fn every_width_copies_and_writes_exactly_what_it_should() {
        const FOOTPRINT: usize = 1 << 16;
        for vectors in Vectors::available() {
            for operation in Operation::ALL {
                let mut arena = Arena::map(2 * FOOTPRINT, Pages::Small).unwrap();
                fill(&mut arena);
                let before = bytes(&arena).to_vec();
                let stretch = Arena::stretch(operation, FOOTPRINT) - 2 * BLOCK;
                arena.run(&vectors, operation, FOOTPRINT, BLOCK, stretch, 2);
                let after = bytes(&arena);
                let changed: Vec<usize> = (0..after.len()).filter(|&place| after[place] != before[place]).collect();
                let name = format!("{} {}", vectors.name, operation.name());
                match operation {
                    Operation::Read | Operation::ReadHalf => assert!(changed.is_empty(), "{name}"),
                    Operation::Write | Operation::WriteNt => {
                        assert!(after[BLOCK..BLOCK + stretch].iter().all(|&byte| byte == 0xff), "{name}");
                        assert!(changed.iter().all(|place| (BLOCK..BLOCK + stretch).contains(place)), "{name}");
                    }
                    Operation::Copy | Operation::CopyNt => {
                        let to = (BLOCK..FOOTPRINT).find(|&place| {
                            place + stretch <= FOOTPRINT
                                && after[place..place + stretch] == before[BLOCK..BLOCK + stretch]
                                && place != BLOCK
                        });
                        let to = to.unwrap_or_else(|| panic!("{name}: there is no copy"));
                        assert!(to >= BLOCK + stretch && (to - BLOCK) % 4096 == SKEW, "{name}: {to}");
                        assert!(changed.iter().all(|place| (to..to + stretch).contains(place)), "{name}");
                    }
                }
            }
        }
    }
}
