//! Timed loops with random code placement.
//!
//! The cost of a short operation depends on the code around it, because branch predictors use addresses and earlier branches. A compiled
//! loop has one layout in each build, and its time includes the effect of that layout. A [`PlacedLoop`] is composed at run time, in
//! executable memory, of pieces of assembly ([`Piece`]). They are work with branches, calls and returns, and the operations between them.
//! Each loop has several placements, and a caller measures all of them.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, munmap};

use super::arch::{NOTHING, PIECES, Piece, branch_back, see_new_code};
use super::memory::page_size;
use super::operation::{Kind, Operation, Row};

/// Most operations in one turn of a loop.
const MOST_OPERATIONS: usize = 2;
/// Length of the array that the work reads. The pieces mask their index with it.
const NUMBERS: usize = 1024;
/// Period of the data in this array. Branch predictors learn a short period, as they learn the data of a program.
const PERIOD: std::ops::Range<usize> = 16..128;
/// Inverse probability that a branch on the data takes its rarer direction.
const RARE: u32 = 4;
/// Number of pieces of work on each side of the operations. A turn takes 40 to 340 cycles without the operations on Intel Golden Cove.
const WORK: std::ops::Range<usize> = 4..16;
/// Most pieces of code between the end of a loop and its return, and their number before and after the loop.
const NEIGHBOURS: usize = 8;
/// Alignment of a loop in bytes, the same that compilers give to functions.
const ALIGNED: usize = 16;

/// Code around the operations of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Around {
    /// Ordinary work before and after them.
    Work,
    /// None. The operations repeat.
    Nothing,
}

/// State of a loop in memory, in the layout that the pieces of assembly read and write.
#[repr(C)]
#[derive(Clone, Copy)]
struct Control {
    turns: u64,
    skip: u64,
    exit: *const u8,
    data: *mut u32,
    stop: *const AtomicI64,
    state: [u64; 2],
    wrong: i64,
    rows: [Row; MOST_OPERATIONS],
}

/// Code that may be executed.
#[derive(Debug)]
struct Executable {
    start: NonNull<c_void>,
    length: NonZeroUsize,
}

impl Executable {
    /// Memory with this content. Some systems refuse to make written memory executable, and allow it for a file in memory.
    fn of(content: &[u8]) -> io::Result<Self> {
        let length =
            NonZeroUsize::new(content.len().next_multiple_of(page_size())).ok_or(io::ErrorKind::InvalidInput)?;
        let made = Self::anonymous(content, length)
            .or_else(|refused| Self::from_file(content, length).map_err(|_| refused))?;
        // SAFETY: the mapping is as long as that and readable.
        see_new_code(unsafe { std::slice::from_raw_parts(made.start.as_ptr().cast::<u8>(), length.get()) });
        Ok(made)
    }

    fn anonymous(content: &[u8], length: NonZeroUsize) -> io::Result<Self> {
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice collides with nothing.
        let start = unsafe { mmap_anonymous(None, length, protection, MapFlags::MAP_PRIVATE) }?;
        let made = Executable { start, length };
        // SAFETY: the mapping is new, writable and at least as long. Small pages, so that every launch has them.
        unsafe {
            let _ = madvise(start, length.get(), MmapAdvise::MADV_NOHUGEPAGE);
            start.cast::<u8>().as_ptr().copy_from_nonoverlapping(content.as_ptr(), content.len());
            mprotect(start, length.get(), ProtFlags::PROT_READ | ProtFlags::PROT_EXEC)?;
        }
        Ok(made)
    }

    fn from_file(content: &[u8], length: NonZeroUsize) -> io::Result<Self> {
        let mut file = super::create::in_memory(c"code")?;
        io::Write::write_all(&mut file, content)?;
        file.set_len(length.get() as u64)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_EXEC;
        // SAFETY: a new mapping at an address of the kernel's choice collides with nothing. No other process has the file.
        let start = unsafe { mmap(None, length, protection, MapFlags::MAP_PRIVATE, &file, 0) }?;
        Ok(Executable { start, length })
    }

    fn at(&self, offset: usize) -> *const u8 {
        debug_assert!(offset < self.length.get());
        // SAFETY: the offset lies inside the mapping.
        unsafe { self.start.cast::<u8>().as_ptr().add(offset) }
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and who runs the code holds it.
        let _ = unsafe { munmap(self.start, self.length.get()) };
    }
}

/// Offsets of a loop's entry and exit in the code, and of its control block and data in their pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    entry: usize,
    exit: usize,
    control: usize,
    data: usize,
}

/// Memory for a value at any offset within a page. Loads wait for earlier stores to the same offset in another page, so offsets decide
/// costs, and an allocator gives the same ones in every run of a build.
struct Shifting<T> {
    memory: Box<[MaybeUninit<T>]>,
    offset: usize,
}

impl<T: Copy> Shifting<T> {
    fn of(value: T) -> Self {
        let values = 2 + page_size().div_ceil(size_of::<T>());
        let mut made: Self = Shifting { memory: Box::new_uninit_slice(values), offset: 0 };
        // SAFETY: the memory is as large as the value.
        unsafe { made.at().write(value) };
        made
    }

    /// Moves the value to an offset, which is aligned for it.
    fn shift(&mut self, offset: usize) {
        let value = *self.get();
        self.offset = offset % page_size();
        // SAFETY: the memory has a page more than the value needs.
        unsafe { self.at().write(value) };
    }

    fn at(&mut self) -> *mut T {
        // SAFETY: the offset is less than a page.
        unsafe { self.memory.as_mut_ptr().byte_add(self.offset).cast() }
    }

    fn get(&mut self) -> &mut T {
        // SAFETY: there is a value, since `of`.
        unsafe { &mut *self.at() }
    }
}

/// Appends drawn pieces of work.
fn add_work(code: &mut Vec<u8>, random: &mut fastrand::Rng, count: usize) {
    let first = PIECES.iter().position(|&piece| piece == Piece::Mix).unwrap_or(0);
    for _ in 0..count {
        code.extend(PIECES[random.usize(first..PIECES.len())].code());
    }
}

/// Appends a loop among drawn neighbours.
fn add_loop(code: &mut Vec<u8>, random: &mut fastrand::Rng, kinds: &[Kind], around: Around, stops: bool) -> Place {
    let start = (code.len() + random.usize(0..page_size())).next_multiple_of(ALIGNED);
    while code.len() < start {
        code.extend(NOTHING);
    }
    add_work(code, random, NEIGHBOURS);
    while !code.len().is_multiple_of(ALIGNED) {
        code.extend(NOTHING);
    }
    let entry = code.len();
    let work = |code: &mut Vec<u8>, random: &mut fastrand::Rng| {
        if around == Around::Work {
            let count = random.usize(WORK);
            add_work(code, random, count);
        }
    };
    code.extend(Piece::Entry.code());
    let top = code.len();
    code.extend(Piece::Top.code());
    work(code, random);
    for (index, kind) in kinds.iter().enumerate() {
        code.extend(kind.piece().code());
        if stops && index == 0 {
            code.extend(Piece::Stop.code());
        }
    }
    work(code, random);
    code.extend(Piece::Count.code());
    let distance = code.len() - top;
    code.extend(branch_back(distance));
    let count = random.usize(0..NEIGHBOURS);
    add_work(code, random, count);
    let exit = code.len();
    code.extend(Piece::Exit.code());
    add_work(code, random, NEIGHBOURS);
    let mut offset = || random.usize(0..page_size() / ALIGNED) * ALIGNED;
    Place { entry, exit, control: offset(), data: offset() }
}

/// A loop around operations, at one of several places.
pub struct PlacedLoop<'a> {
    code: Executable,
    places: Vec<Place>,
    control: Shifting<Control>,
    /// Array that the work reads, followed by two numbers that it writes.
    data: Shifting<[u32; NUMBERS + 64]>,
    place: usize,
    /// Default stop word, and the operations, which own memory that the code uses.
    _held: (Arc<AtomicI64>, Vec<Operation<'a>>),
}

impl<'a> PlacedLoop<'a> {
    /// A loop around one or two operations, with a number of random placements.
    ///
    /// # Errors
    ///
    /// The system allows no executable memory.
    pub fn draw(
        random: &mut fastrand::Rng,
        operations: Vec<Operation<'a>>,
        around: Around,
        places: usize,
    ) -> io::Result<Self> {
        let never = Arc::new(AtomicI64::new(0));
        let stop = Arc::as_ptr(&never);
        Self::with(random, (never, operations), stop, (around, places), false)
    }

    /// The same with a stop word. The loop ends after the first operation of a turn if the word differs from 0.
    ///
    /// # Errors
    ///
    /// As for [`draw`](Self::draw).
    ///
    /// # Safety
    ///
    /// The word must be valid for as long as the loop.
    pub(super) unsafe fn stopping(
        random: &mut fastrand::Rng,
        operations: Vec<Operation<'a>>,
        stop: *const AtomicI64,
        places: usize,
    ) -> io::Result<Self> {
        Self::with(random, (Arc::new(AtomicI64::new(0)), operations), stop, (Around::Work, places), true)
    }

    fn with(
        random: &mut fastrand::Rng,
        held: (Arc<AtomicI64>, Vec<Operation<'a>>),
        stop: *const AtomicI64,
        (around, places): (Around, usize),
        stops: bool,
    ) -> io::Result<Self> {
        let operations = &held.1;
        if operations.is_empty() || operations.len() > MOST_OPERATIONS || places == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let kinds: Vec<Kind> = operations.iter().map(|operation| operation.kind).collect();
        let mut code = Vec::new();
        let places = (0..places).map(|_| add_loop(&mut code, random, &kinds, around, stops)).collect();
        let code = Executable::of(&code)?;
        let period: Vec<u32> = (0..random.usize(PERIOD)).map(|_| drawn_number(random)).collect();
        let data = Shifting::of(std::array::from_fn(|index| period[index % period.len()]));
        let rows = [operations[0].row, operations[operations.len() - 1].row];
        let control = Control {
            turns: 0,
            skip: 0,
            exit: std::ptr::null(),
            data: std::ptr::null_mut(),
            stop,
            state: [random.u64(0..NUMBERS as u64), random.u64(..)],
            wrong: 0,
            rows,
        };
        let mut made = PlacedLoop { code, places, control: Shifting::of(control), data, place: 0, _held: held };
        made.place(0);
        Ok(made)
    }

    /// Selects a placement, by its number modulo the number of placements.
    pub fn place(&mut self, index: usize) {
        self.place = index % self.places.len();
        let Place { exit, control, data, .. } = self.places[self.place];
        self.data.shift(data);
        self.control.shift(control);
        (self.control.get().exit, self.control.get().data) = (self.code.at(exit), self.data.at().cast());
    }

    /// Runs a number of turns with the operations.
    ///
    /// # Errors
    ///
    /// Some answer was wrong.
    pub fn run(&mut self, turns: u64) -> Result<(), String> {
        self.enter(turns, false);
        match self.control.get().wrong {
            0 => Ok(()),
            wrong => Err(format!("an answer differs from the expected one in the bits {wrong:#x}")),
        }
    }

    /// Runs the same turns without the operations. Only the work runs.
    pub fn rest(&mut self, turns: u64) {
        self.enter(turns, true);
    }

    fn enter(&mut self, turns: u64, skip: bool) {
        if turns == 0 {
            self.control.get().wrong = 0;
            return;
        }
        (self.control.get().turns, self.control.get().skip) = (turns, u64::from(skip));
        let entry = self.code.at(self.places[self.place].entry);
        // SAFETY: a loop begins there, composed of pieces that keep the C calling convention. It reads and writes the control block, the
        // data that this value holds, and what its operations may, by their contracts. There is a row for each piece with an operation.
        unsafe {
            let enter: extern "C" fn(*mut Control) = std::mem::transmute(entry);
            enter(self.control.at());
        }
    }
}

/// A number of the data: rare in the two lowest bits, which decide branches.
fn drawn_number(random: &mut fastrand::Rng) -> u32 {
    let rare = |bit: u32, random: &mut fastrand::Rng| u32::from(random.u32(0..RARE) == 0) << bit;
    let bits = rare(0, random) | rare(1, random);
    random.u32(..) & !3 | bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    extern "C" fn count(argument: *mut c_void) -> i64 {
        // SAFETY: the tests give the address of a number that lives as long as the loop.
        unsafe { *argument.cast::<i64>() += 1 };
        7
    }

    fn counting(calls: &mut i64) -> Operation<'static> {
        // SAFETY: the number outlives the loop in each test.
        unsafe { Operation::function(count, std::ptr::from_mut(calls).cast(), 7) }
    }

    #[test]
    fn every_turn_makes_each_operation_once_at_every_place() {
        let mut random = fastrand::Rng::with_seed(3);
        for around in [Around::Work, Around::Nothing] {
            let (mut first, mut second) = (0, 0);
            let operations = vec![counting(&mut first), counting(&mut second)];
            let mut placed = PlacedLoop::draw(&mut random, operations, around, 50).unwrap();
            for place in 0..50 {
                placed.place(place);
                placed.run(place as u64).unwrap();
                placed.rest(1000);
            }
            drop(placed);
            assert_eq!((first, second), (49 * 25, 49 * 25), "{around:?}");
        }
    }

    #[test]
    fn the_work_alone_is_the_work_around_the_operations() {
        let mut random = fastrand::Rng::with_seed(8);
        let mut calls = 0;
        let mut placed = PlacedLoop::draw(&mut random, vec![counting(&mut calls)], Around::Work, 20).unwrap();
        for place in 0..20 {
            placed.place(place);
            let begun = placed.control.get().state;
            placed.run(100).unwrap();
            let with = std::mem::replace(&mut placed.control.get().state, begun);
            placed.rest(100);
            assert_eq!(placed.control.get().state, with);
            assert_ne!(with, begun);
        }
    }

    #[test]
    fn a_wrong_answer_is_an_error_once() {
        let mut random = fastrand::Rng::with_seed(4);
        let mut calls = 0;
        let operation = counting(&mut calls).answering(6);
        let mut placed = PlacedLoop::draw(&mut random, vec![operation], Around::Work, 1).unwrap();
        assert!(placed.run(3).unwrap_err().contains("0x1"));
        placed.rest(3);
        assert!(placed.run(0).is_ok());
    }

    #[test]
    fn system_calls_give_their_answers() {
        let mut random = fastrand::Rng::with_seed(5);
        // SAFETY: it has no argument and touches no memory.
        let parent = unsafe { Operation::call(libc::SYS_getppid, [0; 6], 0) };
        let right = parent.once();
        let mut placed = PlacedLoop::draw(&mut random, vec![parent.clone().answering(right)], Around::Work, 3).unwrap();
        placed.run(100).unwrap();
        let mut wrong = PlacedLoop::draw(&mut random, vec![parent.answering(right + 1)], Around::Nothing, 3).unwrap();
        assert!(wrong.run(100).is_err());
    }

    #[test]
    fn a_word_ends_a_loop_after_its_first_operation() {
        let mut random = fastrand::Rng::with_seed(6);
        let stop = AtomicI64::new(1);
        let (mut first, mut second) = (0, 0);
        let operations = vec![counting(&mut first), counting(&mut second)];
        // SAFETY: the word outlives the loop.
        let mut placed = unsafe { PlacedLoop::stopping(&mut random, operations, &raw const stop, 2) }.unwrap();
        placed.run(1000).unwrap();
        stop.store(0, Ordering::Relaxed);
        placed.place(1);
        placed.run(10).unwrap();
        drop(placed);
        assert_eq!((first, second), (11, 10));
    }

    #[test]
    fn placements_differ() {
        let mut code = Vec::new();
        let mut random = fastrand::Rng::with_seed(7);
        let places: Vec<Place> =
            (0..100).map(|_| add_loop(&mut code, &mut random, &[Kind::Call], Around::Work, false)).collect();
        let mut lengths: Vec<usize> = places.iter().map(|place| place.exit - place.entry).collect();
        lengths.sort_unstable();
        assert!(lengths[10] + 100 < lengths[90], "{lengths:?}");
        let offsets: std::collections::BTreeSet<usize> = places.iter().map(|place| place.entry % 4096).collect();
        assert!(offsets.len() > 60);
        assert!(places.iter().all(|place| place.entry.is_multiple_of(ALIGNED)));
    }
}
