//! Memory to stream through, and the streams: loads and stores of whole lines in the widest vectors of this processor.

use std::num::NonZeroUsize;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};

pub use super::arch::Vectors;
use super::arch::{self, StreamKernel};
use super::memory::{Pages, page_size};
use super::numa::{self, Mapped};

/// Bytes that a turn of a kernel's loop handles: every stretch is a multiple of it.
pub const BLOCK: usize = 512;

/// Size of a cache line that byte accounting assumes where every second line is left out.
pub const LINE: usize = 64;

/// A copy's destination lies this much off a multiple of the page size from its source: stores whose addresses end like
/// those of later loads hold these up (4 KiB aliasing; Intel optimization manual, on memory disambiguation).
const SKEW: usize = 2048 + 64;

/// Huge pages of 2 MiB begin at multiples of this.
const HUGE: usize = 2 << 20;

impl Vectors {
    /// Every set that this processor and its kernel have, narrowest first.
    pub fn available() -> Vec<Vectors> {
        arch::VECTORS.iter().filter(|(_, available)| available()).map(|(vectors, _)| *vectors).collect()
    }

    /// The widest of them.
    pub fn widest() -> Vectors {
        Self::available().pop().unwrap_or(arch::VECTORS[0].0)
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

    /// Bytes that a program gets from a stretch of so many bytes: those of the lines that are touched; copied ones count once.
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

/// What the kernel says of the pages of an arena (`/proc/self/smaps`).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Backing {
    /// Share of the bytes that have pages of their own. A page that was never written has none: it is the one page of zeros.
    pub own: f64,
    /// Share of the bytes on huge pages.
    pub huge: f64,
    /// Bytes that were swapped out.
    pub swapped: u64,
}

/// Private memory that begins at a huge-page boundary, with a gap on both sides, so that the kernel keeps it as an area of
/// its own and its account is of it alone.
#[derive(Debug)]
pub struct Arena {
    mapping: NonNull<libc::c_void>,
    mapped: usize,
    start: NonNull<u8>,
    bytes: usize,
}

impl Arena {
    /// Maps `bytes` bytes (rounded up to whole pages) and writes every line of them from the calling thread: on the node of
    /// its CPU. The kernel has cleared them before, so that the host of a guest has backed them by then.
    pub fn new(bytes: usize, pages: Pages) -> std::io::Result<Self> {
        let mut arena = Arena::unwritten(bytes, pages)?;
        arena.write();
        Ok(arena)
    }

    /// The same on a node that is named, which gives it or the error.
    pub fn on_node(bytes: usize, pages: Pages, node: u32) -> std::io::Result<Self> {
        let mut arena = Arena::unwritten(bytes, pages)?;
        numa::bind(&arena, node)?;
        arena.write();
        match numa::node_of(&arena, arena.bytes / 2)? {
            found if found == node => Ok(arena),
            found => Err(std::io::Error::other(format!("asked for memory of node {node}, got node {found}"))),
        }
    }

    fn write(&mut self) {
        let all = self.bytes / BLOCK * BLOCK;
        self.run(&Vectors::widest(), Operation::Write, all, 0, all, 1);
    }

    /// The same without writing anything: reads find the page of zeros.
    pub fn unwritten(bytes: usize, pages: Pages) -> std::io::Result<Self> {
        let bytes = bytes.max(1).next_multiple_of(page_size());
        let mapped = bytes + 2 * HUGE;
        let length = NonZeroUsize::new(mapped).ok_or(std::io::ErrorKind::InvalidInput)?;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice collides with nothing.
        let mapping = unsafe { mmap_anonymous(None, length, ProtFlags::PROT_NONE, flags) }?;
        // At least one page of the mapping stays inaccessible on either side.
        let first = (mapping.as_ptr() as usize + 1).next_multiple_of(HUGE) - mapping.as_ptr() as usize;
        // SAFETY: the offset is at most HUGE, and the mapping is longer by two of them.
        let start = unsafe { mapping.cast::<u8>().add(first) };
        let arena = Arena { mapping, mapped, start, bytes };
        let advice = if pages == Pages::Huge { MmapAdvise::MADV_HUGEPAGE } else { MmapAdvise::MADV_NOHUGEPAGE };
        // SAFETY: the range is inside the new mapping, which nothing refers to yet. A kernel without huge pages refuses the
        // advice, which leaves small ones.
        unsafe {
            mprotect(start.cast(), bytes, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)?;
            let _ = madvise(start.cast(), bytes, advice);
        }
        Ok(arena)
    }

    /// Bytes that can be used.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

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
        assert!(footprint <= self.bytes && offset.is_multiple_of(BLOCK) && bytes.is_multiple_of(BLOCK));
        assert!(offset + bytes <= Arena::stretch(operation, footprint), "the stretch leaves the footprint");
        let away = if operation.copies() { Self::away(footprint) } else { 0 };
        // SAFETY: both ranges lie inside the arena: offset + bytes + away ≤ footprint ≤ bytes of the arena. Those of a copy do
        // not overlap, because a stretch is at most what the footprint has beyond `away`, which is more than half of it. All
        // is aligned to lines, which is more than the kernels need, and `vectors` are of those that this processor has.
        unsafe {
            let from = self.start.as_ptr().add(offset);
            (vectors.kernel(operation))(from.add(away), from, bytes, passes);
        }
    }

    /// What the kernel says of its pages; none where it does not say.
    pub fn backing(&self) -> Option<Backing> {
        let text = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let head = format!("{:x}-", self.start.as_ptr() as usize);
        let area = text.lines().skip_while(|line| !line.starts_with(&head)).skip(1);
        let (mut own, mut huge, mut swapped) = (None, None, 0);
        for line in area {
            let mut words = line.split_whitespace();
            let (Some(key), Some(value)) = (words.next(), words.next()) else { break };
            match (key, value.parse::<u64>()) {
                ("Anonymous:", Ok(kibibytes)) => own = Some(kibibytes * 1024),
                ("AnonHugePages:", Ok(kibibytes)) => huge = Some(kibibytes * 1024),
                ("Swap:", Ok(kibibytes)) => swapped = kibibytes * 1024,
                ("VmFlags:", _) => break,
                _ => {}
            }
        }
        let share = |bytes: u64| bytes as f64 / self.bytes as f64;
        Some(Backing { own: share(own?), huge: share(huge.unwrap_or(0)), swapped })
    }
}

impl Mapped for Arena {
    fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own and nothing refers to it any more.
        let _ = unsafe { munmap(self.mapping, self.mapped) };
    }
}

/// A stream that goes on from where it stopped: every byte of the footprint is passed before any is passed again, so what a
/// step finds in the caches is what a footprint of that size leaves there.
#[derive(Debug, Clone, Copy)]
pub struct Walk {
    vectors: Vectors,
    operation: Operation,
    footprint: usize,
    stretch: usize,
    chunk: usize,
    at: usize,
}

impl Walk {
    /// A walk in steps of about `chunk` bytes through the first `footprint` bytes of an arena.
    pub fn new(vectors: Vectors, operation: Operation, footprint: usize, chunk: usize) -> Self {
        let stretch = Arena::stretch(operation, footprint);
        // Even steps: a short rest that no step covers would keep part of the footprint out of the walk.
        let steps = stretch.div_ceil(chunk.clamp(BLOCK, stretch));
        let chunk = (stretch / steps / BLOCK * BLOCK).max(BLOCK);
        Walk { vectors, operation, footprint, stretch, chunk, at: 0 }
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

/// A cycle of pointers through every line of an arena, in an order that no prefetcher follows.
#[derive(Debug)]
pub struct Cycle {
    arena: Arena,
    place: *const u8,
    lines: u64,
}

impl Cycle {
    /// Links all lines of the arena.
    ///
    /// The order is a bijection of the numbers below a power of two made of steps that can each be undone (exclusive-or with a
    /// shifted copy, multiplication by an odd number, modulo a power of two), numbers beyond the arena left out. So the cycle
    /// goes through every line once by construction, and building it needs no table beside it: the successor of a line is found
    /// from its number, and lines are written in the order of their addresses.
    pub fn new(arena: Arena, seed: u64) -> Self {
        let lines = (arena.bytes() / LINE).max(1) as u64;
        let numbers = lines.next_power_of_two();
        let bits = numbers.trailing_zeros();
        let start = arena.start.as_ptr();
        let pointers = arena.start.cast::<*const u8>().as_ptr();
        for line in 0..lines {
            let number = number_of(line, bits, seed);
            let mut after = (1..=numbers).map(|step| mixed((number + step) & (numbers - 1), bits, seed));
            // The line itself comes last.
            let next = after.find(|&next| next < lines).unwrap_or(line);
            let (here, there) = (line as usize * LINE, next as usize * LINE);
            // SAFETY: both offsets are multiples of the line below `lines` lines, which the arena has; it is aligned to
            // pages, so a pointer fits at the beginning of each line.
            unsafe { pointers.add(here / size_of::<*const u8>()).write(start.add(there)) };
        }
        Cycle { place: start, arena, lines }
    }

    /// Lines of the cycle.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Goes on by `turns` times [`Cycle::STEPS`] dependent loads from where the last walk ended; returns the number of the
    /// line where this one ends.
    pub fn walk(&mut self, turns: u64) -> u64 {
        // SAFETY: every pointer of the cycle points to a line of the arena that holds the next one.
        self.place = unsafe { arch::plain_chase(self.place, turns) };
        (self.place as usize - self.arena.start.as_ptr() as usize) as u64 / LINE as u64
    }

    /// Loads in one turn of a walk.
    pub const STEPS: u64 = 32;
}

/// Odd numbers whose products mix well (the constants of splitmix64).
const MULTIPLIERS: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];

/// The numbers that undo them.
const INVERSES: [u64; 3] = [inverse(MULTIPLIERS[0]), inverse(MULTIPLIERS[1]), inverse(MULTIPLIERS[2])];

/// A bijection of the numbers of `bits` bits.
fn mixed(number: u64, bits: u32, seed: u64) -> u64 {
    if bits == 0 {
        return 0;
    }
    let mask = (1_u64 << bits) - 1;
    let half = bits.div_ceil(2);
    let mut value = (number ^ seed) & mask;
    for odd in MULTIPLIERS {
        value = value.wrapping_mul(odd) & mask;
        value ^= value >> half;
    }
    value
}

/// The number that [`mixed`] makes to a value: its steps undone, the last one first.
fn number_of(value: u64, bits: u32, seed: u64) -> u64 {
    if bits == 0 {
        return 0;
    }
    let mask = (1_u64 << bits) - 1;
    let half = bits.div_ceil(2);
    let mut number = value;
    for inverse in INVERSES.into_iter().rev() {
        // Shifted by at least half of the bits, the exclusive-or undoes itself.
        number ^= number >> half;
        number = number.wrapping_mul(inverse) & mask;
    }
    (number ^ seed) & mask
}

/// The number that times an odd one is one, modulo 2⁶⁴: every step of Newton's method doubles the right bits, of which an odd
/// number is its own inverse in three.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut right = 3;
    while right < u64::BITS {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        right *= 2;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(arena: &Arena) -> &[u8] {
        // SAFETY: the arena is mapped, written, and borrowed for as long as the slice.
        unsafe { std::slice::from_raw_parts(arena.start.as_ptr(), arena.bytes) }
    }

    fn fill(arena: &mut Arena) {
        // No stretch of it looks like another, so that a copy is found where it is and nowhere else.
        let mut random = fastrand::Rng::with_seed(1);
        for place in 0..arena.bytes {
            // SAFETY: inside the arena, which is borrowed for writing. Stores write 0xff, so the pattern has none.
            unsafe { arena.start.as_ptr().add(place).write(random.u8(..0xff)) };
        }
    }

    #[test]
    fn every_width_copies_and_writes_exactly_what_it_should() {
        const FOOTPRINT: usize = 1 << 16;
        for vectors in Vectors::available() {
            for operation in Operation::ALL {
                let mut arena = Arena::new(2 * FOOTPRINT, Pages::Small).unwrap();
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

    #[test]
    fn a_cycle_goes_through_every_line_once() {
        for size in [4096, 12 << 10, 1 << 16, 100 << 10, 1 << 20] {
            let mut cycle = Cycle::new(Arena::new(size, Pages::Small).unwrap(), 12345);
            assert_eq!(cycle.lines(), size as u64 / 64);
            let first = cycle.walk(0);
            let mut seen = std::collections::HashSet::new();
            // The number of lines is a multiple of 32: the walk comes back after exactly lines / 32 turns.
            for _ in 0..cycle.lines() / Cycle::STEPS {
                assert!(seen.insert(cycle.walk(1)), "a shorter cycle");
            }
            assert!(seen.contains(&first));
        }
        for bits in 0..14 {
            let all: std::collections::HashSet<u64> = (0..1 << bits).map(|number| mixed(number, bits, 99)).collect();
            assert_eq!(all.len(), 1 << bits);
            assert!((0..1 << bits).all(|number| number_of(mixed(number, bits, 99), bits, 99) == number));
        }
    }

    #[test]
    fn memory_that_was_never_written_has_no_pages_of_its_own() {
        let mut arena = Arena::unwritten(1 << 22, Pages::Small).unwrap();
        let stretch = arena.bytes() / BLOCK * BLOCK;
        arena.run(&Vectors::widest(), Operation::Read, stretch, 0, stretch, 1);
        assert!(arena.backing().unwrap().own < 0.01);
        assert!(Arena::new(1 << 22, Pages::Small).unwrap().backing().unwrap().own > 0.99);
    }
}
