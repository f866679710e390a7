//! aarch64: accesses to one byte of each of many pages.
//!
//! Sources: Arm Architecture Reference Manual (LDRB, STRB).

use std::arch::asm;

use crate::sys::arch::GAP;

/// Reads one byte at every `step` bytes from `place`, `count` times, in a loop that begins a line of code. No other branch follows for
/// [`GAP`](crate::sys::arch::GAP) bytes, as behind [`repeated_call`](super::system_call::repeated_call): an exception returns like a call.
///
/// # Safety
///
/// Each of the bytes must be valid to read.
#[inline(never)]
pub unsafe fn read_bytes(place: *const u8, step: usize, count: usize) {
    if count > 0 {
        // SAFETY: the loop accesses exactly the bytes that the caller promised. The labels are local to the one copy of this function.
        unsafe {
            asm!(
                ".p2align 6",
                "2:",
                "ldrb {value:w}, [{place}]",
                "add {place}, {place}, {step}",
                "subs {count}, {count}, #1",
                "b.ne 2b",
                ".rept {gap} / 4\nnop\n.endr",
                gap = const GAP,
                step = in(reg) step,
                value = out(reg) _,
                place = inout(reg) place => _,
                count = inout(reg) count => _,
                options(nostack)
            );
        }
    }
}

/// Writes one byte at every `step` bytes from `place`, `count` times, in a loop that begins a line of code. No other branch follows for
/// [`GAP`](crate::sys::arch::GAP) bytes, as behind [`repeated_call`](super::system_call::repeated_call): an exception returns like a call.
///
/// # Safety
///
/// Each of the bytes must be valid to write.
#[inline(never)]
pub unsafe fn write_bytes(place: *mut u8, step: usize, count: usize) {
    if count > 0 {
        // SAFETY: the loop accesses exactly the bytes that the caller promised. The labels are local to the one copy of this function.
        unsafe {
            asm!(
                ".p2align 6",
                "2:",
                "strb {value:w}, [{place}]",
                "add {place}, {place}, {step}",
                "subs {count}, {count}, #1",
                "b.ne 2b",
                ".rept {gap} / 4\nnop\n.endr",
                gap = const GAP,
                step = in(reg) step,
                value = in(reg) 7_u64,
                place = inout(reg) place => _,
                count = inout(reg) count => _,
                options(nostack)
            );
        }
    }
}
