//! aarch64: the virtual counter, chains of known latency, loops, procedure calls.
//!
//! Sources: Arm Architecture Reference Manual (CNTVCT_EL0, ISB, DC CIVAC); Arm AAPCS64; software optimisation guides of
//! the Neoverse and Cortex cores for latencies.

pub mod arithmetic;
pub mod branches;
#[cfg(test)]
mod decoded;
pub mod pieces;
pub mod stream;
pub mod system_call;

use std::arch::{asm, naked_asm};

use super::{ClockReader, Reading, Stamp, reader};
use crate::sys::affinity::current;

/// Name of the counter in logs.
pub const COUNTER: &str = "cntvct";

/// Integer arguments that the calling convention passes in registers (AAPCS64, section 6.8.2).
pub const REGISTER_ARGUMENTS: usize = 8;

/// Reads the counter and then the CPU number, ordered: earlier instructions have executed, later ones have not begun.
#[inline(always)]
pub fn stamp() -> Stamp {
    let ticks = Fenced::read();
    Stamp { ticks, cpu: current() }
}

/// A stamp that begins an interval. It reads the CPU number first: that is a call of the C library, and a system call where the kernel
/// keeps no number for each thread.
#[inline(always)]
pub fn opening() -> Stamp {
    let cpu = current();
    Stamp { ticks: Fenced::read(), cpu }
}

/// Linux always lets user space read the virtual counter.
pub fn counter_permitted() -> bool {
    true
}

/// Code of the smallest program: exit_group(42).
pub const EXIT_CODE: &[u8] = &[0x40, 0x05, 0x80, 0xd2, 0xc8, 0x0b, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4];

/// Number of this architecture in an ELF header (EM_AARCH64).
pub const ELF_MACHINE: u16 = 183;

/// Removes the line that holds `place` from every cache level. Later loads wait for that only after [`fence`].
#[inline(always)]
pub fn flush_line<T>(place: &T) {
    // SAFETY: DC CIVAC cleans and invalidates the line of a valid address, which changes no data (Linux enables it for user
    // space, SCTLR_EL1.UCI).
    unsafe { asm!("dc civac, {place}", place = in(reg) std::ptr::from_ref(place), options(nostack)) };
}

/// Lets later loads wait for earlier flushes.
#[inline(always)]
pub fn fence() {
    // SAFETY: DSB SY only orders.
    unsafe { asm!("dsb sy", options(nostack)) };
}

/// Lets no later instruction begin before all earlier ones have completed.
#[inline(always)]
pub fn serialise() {
    // SAFETY: ISB only orders and fetches what follows again.
    unsafe { asm!("isb", options(nostack)) };
}

/// The chain of the serialisation self-test: 100 dependent multiplies, 300 cycles where one takes 3, no memory.
#[inline(always)]
pub fn self_test_chain() {
    // SAFETY: works on two registers that the compiler hands over and takes back.
    unsafe {
        asm!(".rept 100", "mul {value}, {value}, {factor}", ".endr", value = inout(reg) 3_u64 => _, factor = in(reg) 5_u64, options(nostack));
    };
}

/// A chain of dependent instructions; see the x86_64 file for why the loop counter is decremented by a register.
macro_rules! chain {
    ($(#[$about:meta])* $name:ident, $($line:literal),+) => {
        $(#[$about])*
        // SAFETY: a naked function that follows AAPCS64: it reads X0, overwrites X0 and X9 to X11 (scratch registers), touches
        // no memory and returns with the stack as it found it.
        #[unsafe(naked)]
        pub extern "C" fn $name(iterations: u64) {
            naked_asm!(
                "mov x9, #3",
                "mov x10, #5",
                "mov x11, #1",
                "cbz x0, 3f",
                ".p2align 6",
                "2:",
                $($line,)+
                "subs x0, x0, x11",
                "b.ne 2b",
                "3:",
                "ret",
            )
        }
    };
}

chain!(
    /// 20 dependent multiplies per iteration: 60 cycles where one takes 3.
    multiply_chain,
    ".rept 20",
    "mul x9, x9, x10",
    ".endr"
);
chain!(
    /// 60 dependent register additions per iteration: 60 cycles.
    add_chain,
    ".rept 60",
    "add x9, x9, x10",
    ".endr"
);
chain!(
    /// 10 multiplies and 30 additions in one dependent chain: 60 cycles where a multiply takes 3.
    mixed_chain,
    ".rept 10",
    "mul x9, x9, x10",
    "add x9, x9, x10",
    "add x9, x9, x10",
    "add x9, x9, x10",
    ".endr"
);

/// Follows a chain of addresses from `place`: 64 dependent loads per turn; see the x86_64 file.
///
/// # Safety
///
/// `place` and every address that is reached from it must be valid to read an address from.
// SAFETY: a naked function that follows AAPCS64: it reads X0 and X1, overwrites X0, X1, X9 and X10 (scratch registers),
// reads only what the caller promised, and returns with the stack as it found it.
#[unsafe(naked)]
pub unsafe extern "C" fn chase<const MULTIPLIES: usize>(place: *const usize, turns: u64) -> *const usize {
    naked_asm!(
        "mov x9, #1",
        "mov x10, #1",
        "cbz x1, 3f",
        ".p2align 6",
        "2:",
        ".rept 64",
        "ldr x0, [x0]",
        ".rept {multiplies}",
        "mul x0, x0, x9",
        ".endr",
        ".endr",
        "subs x1, x1, x10",
        "b.ne 2b",
        "3:",
        "ret",
        multiplies = const MULTIPLIES,
    )
}

/// The loop that shows a neighbour on the core: taken branches, of which the threads of a core share one in a cycle.
pub fn core_loop() -> super::LoopKernel {
    register_loop::<0, 0>
}

/// The shortest loop: one register subtraction and one taken branch, starting `OFFSET` bytes into a 64-byte block. It has `ADDS`
/// more dependent additions on a separate chain.
// SAFETY: a naked function that follows AAPCS64: it reads X0, overwrites X0 and X9 to X11, touches no memory and returns
// with the stack as it found it.
#[unsafe(naked)]
pub extern "C" fn register_loop<const OFFSET: usize, const ADDS: usize>(iterations: u64) {
    naked_asm!(
        "mov x9, #3",
        "mov x10, #5",
        "mov x11, #1",
        "cbz x0, 3f",
        ".p2align 6",
        ".rept {offset} / 4",
        "nop",
        ".endr",
        "2:",
        ".rept {adds}",
        "add x9, x9, x10",
        ".endr",
        "subs x0, x0, x11",
        "b.ne 2b",
        "3:",
        "ret",
        offset = const OFFSET,
        adds = const ADDS,
    )
}

/// A loop whose counter and limit live in memory, as gcc emits `for (i = 0; i < n; i++)` without optimisation.
// SAFETY: a naked function that follows AAPCS64: it reads X0, overwrites X9 and X10, uses 16 bytes below the stack pointer it was
// given and returns with the stack as it found it.
#[unsafe(naked)]
pub extern "C" fn memory_loop(iterations: u64) {
    naked_asm!(
        "sub sp, sp, #16",
        "str xzr, [sp, #8]",
        "str x0, [sp]",
        "cbz x0, 3f",
        ".p2align 6",
        "2:",
        "ldr x9, [sp, #8]",
        "add x9, x9, #1",
        "str x9, [sp, #8]",
        "ldr x9, [sp, #8]",
        "ldr x10, [sp]",
        "cmp x9, x10",
        "b.lt 2b",
        "3:",
        "add sp, sp, #16",
        "ret",
    )
}

/// `UNROLL` calls per iteration of a callee with `ARGS` integer arguments; see the x86_64 file for the parameters. All
/// seven arguments are in registers here.
// SAFETY: a naked function that follows AAPCS64: X19 and X20 (saved by the callee) and the link register are saved and
// restored, everything else that it overwrites is scratch; the inner callee uses 64 bytes of stack that it takes and gives
// back.
#[unsafe(naked)]
pub extern "C" fn calls<
    const ARGS: usize,
    const SPILLED: usize,
    const CHAIN: usize,
    const UNROLL: usize,
    const MULTIPLIES: usize,
    const NOPS: usize,
>(
    iterations: u64,
) {
    naked_asm!(
        "stp x29, x30, [sp, #-32]!",
        "stp x19, x20, [sp, #16]",
        "mov x19, x0",
        "mov x20, #7",
        "mov x0, #7",
        "mov x10, #1",
        "mov x11, #1",
        "cbz x19, 5f",
        "b 2f",
        // The callee, at the start of a page, so that predictors and caches of code see the same addresses in every build.
        ".p2align 12",
        "4:",
        ".if {spilled}",
        "sub sp, sp, #64",
        ".if {args} > 0", "str x0, [sp, #0]", ".endif",
        ".if {args} > 1", "str x1, [sp, #8]", ".endif",
        ".if {args} > 2", "str x2, [sp, #16]", ".endif",
        ".if {args} > 3", "str x3, [sp, #24]", ".endif",
        ".if {args} > 4", "str x4, [sp, #32]", ".endif",
        ".if {args} > 5", "str x5, [sp, #40]", ".endif",
        ".if {args} > 6", "str x6, [sp, #48]", ".endif",
        ".if {args} > 0", "ldr x0, [sp, #0]", ".endif",
        ".if {args} > 1", "ldr x1, [sp, #8]", ".endif",
        ".if {args} > 2", "ldr x2, [sp, #16]", ".endif",
        ".if {args} > 3", "ldr x3, [sp, #24]", ".endif",
        ".if {args} > 4", "ldr x4, [sp, #32]", ".endif",
        ".if {args} > 5", "ldr x5, [sp, #40]", ".endif",
        ".if {args} > 6", "ldr x6, [sp, #48]", ".endif",
        "add sp, sp, #64",
        ".endif",
        ".if {chain}", "mul x0, x0, x10", ".endif",
        ".rept {multiplies}", "mul x0, x0, x10", ".endr",
        ".rept {nops}", "nop", ".endr",
        "ret",
        // The caller. The result and the first argument share a register, so a chain needs no move for the first.
        ".p2align 6",
        "2:",
        ".rept {unroll}",
        ".if {chain}",
        ".if {args} > 1", "mov x1, x0", ".endif",
        ".if {args} > 2", "mov x2, x0", ".endif",
        ".if {args} > 3", "mov x3, x0", ".endif",
        ".if {args} > 4", "mov x4, x0", ".endif",
        ".if {args} > 5", "mov x5, x0", ".endif",
        ".if {args} > 6", "mov x6, x0", ".endif",
        ".else",
        ".if {args} > 0", "mov x0, x20", ".endif",
        ".if {args} > 1", "mov x1, x20", ".endif",
        ".if {args} > 2", "mov x2, x20", ".endif",
        ".if {args} > 3", "mov x3, x20", ".endif",
        ".if {args} > 4", "mov x4, x20", ".endif",
        ".if {args} > 5", "mov x5, x20", ".endif",
        ".if {args} > 6", "mov x6, x20", ".endif",
        ".endif",
        "bl 4b",
        ".endr",
        "subs x19, x19, x11",
        "b.ne 2b",
        "5:",
        "ldp x19, x20, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "ret",
        args = const ARGS,
        spilled = const SPILLED,
        chain = const CHAIN,
        unroll = const UNROLL,
        multiplies = const MULTIPLIES,
        nops = const NOPS,
    )
}

struct Cntvct;
impl Reading for Cntvct {
    #[inline(always)]
    fn read() -> i64 {
        let ticks: i64;
        // SAFETY: reading the virtual counter changes nothing; it is ordered with nothing.
        unsafe { asm!("mrs {ticks}, cntvct_el0", ticks = out(reg) ticks, options(nostack)) };
        ticks
    }
}

struct IsbCntvct;
impl Reading for IsbCntvct {
    #[inline(always)]
    fn read() -> i64 {
        let ticks: i64;
        // SAFETY: ISB completes earlier instructions before the counter is read.
        unsafe { asm!("isb", "mrs {ticks}, cntvct_el0", ticks = out(reg) ticks, options(nostack)) };
        ticks
    }
}

struct Fenced;
impl Reading for Fenced {
    #[inline(always)]
    fn read() -> i64 {
        let ticks: i64;
        // SAFETY: ISB completes earlier instructions and fetches later ones again. Linux allows user space to read CNTVCT_EL0, which
        // changes nothing.
        unsafe { asm!("isb", "mrs {ticks}, cntvct_el0", "isb", ticks = out(reg) ticks, options(nostack)) };
        ticks
    }
}

/// The idioms of reading the virtual counter, weakest order first.
pub const COUNTER_READERS: [ClockReader; 3] = [
    reader!("cntvct", Cntvct, ticks true, order false, "MRS CNTVCT_EL0 alone"),
    reader!("isb_cntvct", IsbCntvct, ticks true, order false, "ISB; MRS CNTVCT_EL0"),
    reader!("fenced", Fenced, ticks true, order true, "ISB; MRS CNTVCT_EL0; ISB at both ends"),
];
