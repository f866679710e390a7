//! Timed code in assembly, one file per architecture with identical signatures.
//!
//! Each kernel takes the number of iterations of its loop. What an iteration contains is stated where the kernel is, and
//! a known-truth test holds it to that.

use std::arch::asm;
use std::sync::OnceLock;

/// The pieces of code that are given by name: their text between labels, and a table of where each begins.
macro_rules! pieces {
    ($($name:ident: $($line:literal)+;)+) => {
        /// A piece of code that can run at any place.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Piece { $(#[doc = stringify!($name)] $name),+ }

        /// All pieces in order.
        pub const PIECES: &[Piece] = &[$(Piece::$name),+];

        std::arch::global_asm!(
            ".pushsection .text.sysdyno_pieces, \"ax\", %progbits",
            ".globl sysdyno_pieces", ".hidden sysdyno_pieces", ".p2align 4",
            "sysdyno_pieces:",
            $(concat!(".Lsysdyno_", stringify!($name), ":"), $($line,)+)+
            ".Lsysdyno_end:",
            ".popsection",
            ".pushsection .rodata.sysdyno_piece_offsets, \"a\", %progbits",
            ".globl sysdyno_piece_offsets", ".hidden sysdyno_piece_offsets", ".p2align 2",
            "sysdyno_piece_offsets:",
            $(concat!(".long .Lsysdyno_", stringify!($name), " - sysdyno_pieces"),)+
            ".long .Lsysdyno_end - sysdyno_pieces",
            ".popsection",
        );

        impl Piece {
            /// Its code.
            pub fn code(self) -> &'static [u8] {
                unsafe extern "C" {
                    static sysdyno_pieces: u8;
                    static sysdyno_piece_offsets: u32;
                }
                // SAFETY: the table has an offset for each piece and one for the end, and the text lies between them.
                unsafe {
                    let at = |index: usize| (&raw const sysdyno_piece_offsets).add(index).read() as usize;
                    let (start, end) = (at(self as usize), at(self as usize + 1));
                    std::slice::from_raw_parts((&raw const sysdyno_pieces).add(start), end - start)
                }
            }
        }
    };
}

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
use aarch64 as native;
#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
use x86_64 as native;

pub use native::arithmetic::{ARITHMETIC_PER_TURN, QUOTIENTS_ARE_RESTORED, arithmetic, has_fused_multiply_add};
pub use native::branches::random_branches;
pub(super) use native::pieces::{NOTHING, PIECES, Piece, branch_back, see_new_code};
pub(super) use native::stream::VECTORS;
pub(super) use native::system_call::{WRITE_LENGTH, program_counter, write_one};
pub use native::system_call::{clone_child, clone_thread, system_call, system_call_of_four};
pub use native::{
    COUNTER, COUNTER_READERS, ELF_MACHINE, EXIT_CODE, REGISTER_ARGUMENTS, add_chain, chase, counter_permitted, fence,
    flush_line, memory_loop, mixed_chain, multiply_chain, opening, serialise, stamp,
};
use native::{calls, register_loop, self_test_chain};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("sysdyno knows the timed code of x86_64 and aarch64 only");

/// Timed code: runs its loop for a number of iterations.
pub type LoopKernel = extern "C" fn(iterations: u64);

/// Timed arithmetic: runs its loop for a number of turns on three operands, and returns what it computed.
pub type ArithmeticKernel = extern "C" fn(turns: u64, operands: &[u64; 3]) -> u64;

/// An operation that [`arithmetic`] has kernels for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Arithmetic {
    IntegerAdd,
    IntegerMultiply,
    IntegerDivide32,
    IntegerDivide64,
    DoubleAdd,
    DoubleMultiply,
    FusedMultiplyAdd,
    DoubleDivide,
    SquareRoot,
}

impl Arithmetic {
    /// All of them in order.
    pub const ALL: [Arithmetic; 9] = [
        Arithmetic::IntegerAdd,
        Arithmetic::IntegerMultiply,
        Arithmetic::IntegerDivide32,
        Arithmetic::IntegerDivide64,
        Arithmetic::DoubleAdd,
        Arithmetic::DoubleMultiply,
        Arithmetic::FusedMultiplyAdd,
        Arithmetic::DoubleDivide,
        Arithmetic::SquareRoot,
    ];
}

/// Puts what follows in its function at the beginning of a 64-byte block, and with it all of the function: where its branches
/// fall into blocks is then the same in every build, whatever else is in the binary. Executed once, before a loop.
#[inline(always)]
pub fn align_code() {
    // SAFETY: the directive makes no-operations, which change nothing.
    unsafe { asm!(".p2align 6", options(nomem, nostack, preserves_flags)) };
}

/// Branches of one pass of [`random_branches`]: more than the branch target buffers of AMD Zen 4 hold.
pub const RANDOM_BRANCHES: u32 = 8192;

/// Puts what follows at the beginning of a 16-byte block. Calls without arguments take two bytes each: without a distance between
/// them, more calls share a line than branch predictors have entries for, which programs do not do.
#[inline(always)]
pub fn align_call() {
    // SAFETY: the directive makes no-operations, which change nothing.
    unsafe { asm!(".p2align 4", options(nomem, nostack, preserves_flags)) };
}

/// Timed code: passes of a stream over a stretch of memory.
pub type StreamKernel = unsafe extern "C" fn(to: *mut u8, from: *const u8, bytes: usize, passes: u64);

/// Kernels that move vectors of one width.
#[derive(Debug, Clone, Copy)]
pub struct Vectors {
    /// Name of the instruction set in the record.
    pub name: &'static str,
    /// Bytes of a vector.
    pub bytes: usize,
    pub(crate) read: StreamKernel,
    pub(crate) read_half: StreamKernel,
    pub(crate) write: StreamKernel,
    pub(crate) write_nt: StreamKernel,
    pub(crate) copy: StreamKernel,
    pub(crate) copy_nt: StreamKernel,
}

/// Core cycles in one iteration of [`multiply_chain`], [`add_chain`] and [`mixed_chain`] where a multiply takes 3 cycles
/// and an add 1: the same for all three, so that their times can be compared directly.
pub const CHAIN_CYCLES: u64 = 60;

/// The shortest register loop at its four alignments in a 64-byte block: 0, 16, 32 and 48 bytes.
pub const REGISTER_LOOPS: [LoopKernel; 4] =
    [register_loop::<0, 0>, register_loop::<16, 0>, register_loop::<32, 0>, register_loop::<48, 0>];

/// The loop that shows a neighbour on the core. A turn takes one cycle while nothing else uses the core, and longer with a busy
/// hardware thread next to it. It differs by design, and is chosen at the first call.
pub fn core_loop() -> LoopKernel {
    static CHOSEN: OnceLock<LoopKernel> = OnceLock::new();
    *CHOSEN.get_or_init(native::core_loop)
}

/// Register loops with 0, 1, 2, 4 and 8 dependent additions injected: max(1, additions) cycles per iteration.
pub const REGISTER_LOOPS_WITH_ADDITIONS: [(u64, LoopKernel); 5] = [
    (0, register_loop::<0, 0>),
    (1, register_loop::<0, 1>),
    (2, register_loop::<0, 2>),
    (4, register_loop::<0, 4>),
    (8, register_loop::<0, 8>),
];

/// Calls in one iteration of the short kernel of a [`CallKernel`]; the long one has twice as many.
pub const CALLS_PER_ITERATION: u64 = 32;

/// Two kernels that differ only in how many calls an iteration holds, so that their difference is calls and nothing else.
#[derive(Debug, Clone, Copy)]
pub struct CallKernel {
    /// [`CALLS_PER_ITERATION`] calls per iteration.
    pub short: LoopKernel,
    /// Twice as many.
    pub long: LoopKernel,
}

macro_rules! call_kernels {
    ($spilled:literal, $chain:literal; $($args:literal)+) => {
        [$(CallKernel {
            short: calls::<$args, $spilled, $chain, 32, 0, 0>,
            long: calls::<$args, $spilled, $chain, 64, 0, 0>,
        }),+]
    };
}

/// Independent calls with 0…7 arguments in registers.
pub const CALLS_IN_REGISTERS: [CallKernel; 8] = call_kernels!(0, 0; 0 1 2 3 4 5 6 7);
/// Chained calls with 0…7 arguments in registers.
pub const CHAINED_CALLS_IN_REGISTERS: [CallKernel; 8] = call_kernels!(0, 1; 0 1 2 3 4 5 6 7);
/// Independent calls whose callee stores and reloads its 0…7 arguments.
pub const CALLS_THROUGH_MEMORY: [CallKernel; 8] = call_kernels!(1, 0; 0 1 2 3 4 5 6 7);
/// Chained calls whose callee stores and reloads its 0…7 arguments.
pub const CHAINED_CALLS_THROUGH_MEMORY: [CallKernel; 8] = call_kernels!(1, 1; 0 1 2 3 4 5 6 7);

/// Chained one-argument calls with 0, 4 and 16 dependent multiplies injected into the callee: known truth for tests.
pub const CHAINED_CALLS_WITH_MULTIPLIES: [(u64, CallKernel); 3] = [
    (0, CallKernel { short: calls::<1, 0, 1, 32, 0, 0>, long: calls::<1, 0, 1, 64, 0, 0> }),
    (4, CallKernel { short: calls::<1, 0, 1, 32, 4, 0>, long: calls::<1, 0, 1, 64, 4, 0> }),
    (16, CallKernel { short: calls::<1, 0, 1, 32, 16, 0>, long: calls::<1, 0, 1, 64, 16, 0> }),
];

/// Independent calls with 0, 32 and 64 no-operations injected into the callee: known truth for tests.
pub const CALLS_WITH_NOPS: [(u64, CallKernel); 3] = [
    (0, CallKernel { short: calls::<0, 0, 0, 32, 0, 0>, long: calls::<0, 0, 0, 64, 0, 0> }),
    (32, CallKernel { short: calls::<0, 0, 0, 32, 0, 32>, long: calls::<0, 0, 0, 64, 0, 32> }),
    (64, CallKernel { short: calls::<0, 0, 0, 32, 0, 64>, long: calls::<0, 0, 0, 64, 0, 64> }),
];

/// A reading of the architecture's counter and the CPU it was taken on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Ticks of the clock.
    pub ticks: i64,
    /// CPU that executed the reading.
    pub cpu: u32,
}

/// What a child made by [`clone_child`] does, in this order, before it leaves.
#[derive(Debug, Clone, Copy)]
pub struct ChildTask {
    /// Where it stores a reading of the counter first; null for nowhere.
    pub stamp: *mut i64,
    /// How long it sleeps then. Null for no sleep.
    pub nap: *const libc::timespec,
    /// Path, arguments and environment of the image that it executes; null for none.
    pub image: *const [*const libc::c_void; 3],
    /// Its exit status; 127 when the image could not be executed.
    pub status: i32,
}

/// Where the chain of known latency stands relative to a pair of readings, in the serialisation self-test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainAt {
    /// No chain: the pair alone.
    Nowhere,
    /// Between the readings: the interval must grow by the whole chain.
    Between,
    /// Before the first reading: the interval must not grow.
    Before,
    /// After the second reading: the interval must not grow.
    After,
}

/// Core cycles of the chain in the serialisation self-test: 100 dependent multiplies of 3 cycles.
pub const SELF_TEST_CYCLES: f64 = 300.0;

/// An idiom of reading the time.
#[derive(Debug, Clone, Copy)]
pub struct ClockReader {
    /// Name in labels, such as `lfence_rdtsc`.
    pub name: &'static str,
    /// What it consists of.
    pub what: &'static str,
    /// True when the readings are ticks of the architecture's counter, false when they are nanoseconds.
    pub ticks: bool,
    /// True when the idiom claims to keep earlier and later work out of the interval.
    pub claims_order: bool,
    /// Takes 16 readings per iteration and drops them.
    pub repeat: fn(iterations: u64),
    /// Fills the buffer with the differences of back-to-back pairs, the chain placed as requested.
    pub pairs: fn(differences: &mut [i64], chain: ChainAt),
    /// Fills the buffer with readings at uneven distances.
    pub readings: fn(values: &mut [i64]),
}

/// Readings in one iteration of [`ClockReader::repeat`].
pub const READINGS_PER_ITERATION: u64 = 16;

/// One way to read a clock, monomorphised into the loops of a [`ClockReader`].
pub(crate) trait Reading {
    /// One reading: ticks or nanoseconds.
    fn read() -> i64;
    /// The reading that closes an interval, where it differs from the one that opens it.
    fn read_end() -> i64 {
        Self::read()
    }
}

pub(crate) fn repeat<R: Reading>(iterations: u64) {
    for _ in 0..iterations {
        for _ in 0..READINGS_PER_ITERATION {
            std::hint::black_box(R::read());
        }
    }
}

pub(crate) fn pairs<R: Reading>(differences: &mut [i64], chain: ChainAt) {
    // One loop per placement: a test of the placement inside the loop would stand in the interval.
    match chain {
        ChainAt::Nowhere => differences.iter_mut().for_each(|difference| {
            let start = R::read();
            *difference = R::read_end() - start;
        }),
        ChainAt::Between => differences.iter_mut().for_each(|difference| {
            let start = R::read();
            self_test_chain();
            *difference = R::read_end() - start;
        }),
        ChainAt::Before => differences.iter_mut().for_each(|difference| {
            self_test_chain();
            let start = R::read();
            *difference = R::read_end() - start;
        }),
        ChainAt::After => differences.iter_mut().for_each(|difference| {
            let start = R::read();
            let end = R::read_end();
            self_test_chain();
            *difference = end - start;
        }),
    }
}

pub(crate) fn readings<R: Reading>(values: &mut [i64]) {
    for (index, value) in values.iter_mut().enumerate() {
        // Readings at even distances would show the distance as the step of the clock: make the distances uneven.
        for turn in 0..index * 7 % 61 {
            std::hint::black_box(turn);
        }
        *value = R::read();
    }
}

/// A row of a table of readers.
macro_rules! reader {
    ($name:literal, $reading:ty, ticks $ticks:literal, order $claims_order:literal, $what:literal) => {
        $crate::sys::arch::ClockReader {
            name: $name,
            what: $what,
            ticks: $ticks,
            claims_order: $claims_order,
            repeat: $crate::sys::arch::repeat::<$reading>,
            pairs: $crate::sys::arch::pairs::<$reading>,
            readings: $crate::sys::arch::readings::<$reading>,
        }
    };
}
pub(crate) use reader;

/// Differences of back-to-back readings of the tool's own timing pair.
pub fn own_pairs(differences: &mut [i64]) {
    struct Own;
    impl Reading for Own {
        #[inline(always)]
        fn read() -> i64 {
            opening().ticks
        }

        #[inline(always)]
        fn read_end() -> i64 {
            stamp().ticks
        }
    }
    pairs::<Own>(differences, ChainAt::Nowhere);
}
