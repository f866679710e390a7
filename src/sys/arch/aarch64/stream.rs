//! aarch64: streams of loads and stores in 128-bit vectors; see the x86_64 file.
//!
//! Sources: Arm Architecture Reference Manual (LDP, STP, STNP of SIMD registers; DMB); software optimisation guides of the
//! Neoverse cores.

use std::arch::naked_asm;

use crate::sys::arch::Vectors;

/// The sets of kernels: every aarch64 of Linux has Advanced SIMD.
pub const VECTORS: [(Vectors, fn() -> bool); 1] =
    [(Vectors { name: "neon", bytes: 16, read, read_half, write, write_nt, copy, copy_nt }, || true)];

/// A kernel: for each of `passes`, a loop over `bytes` (a multiple of the block) from the beginning of both ranges; the body
/// handles one block at X9 (source) and X10 (destination).
macro_rules! kernel {
    ($(#[$about:meta])* $name:ident, body [$($line:literal),+], end $end:literal) => {
        $(#[$about])*
        // SAFETY: a naked function that follows AAPCS64: it reads X0 to X3, overwrites X3, X9 to X12 and V0 to V7 (all
        // scratch), and returns with the stack as it found it. What it loads and stores lies in the ranges that the caller
        // vouches for.
        #[unsafe(naked)]
        unsafe extern "C" fn $name(to: *mut u8, from: *const u8, bytes: usize, passes: u64) {
            naked_asm!(
                "movi v0.16b, #0xff",
                "movi v1.16b, #0xff",
                "mov x12, #1",
                "cbz x3, 4f",
                "cbz x2, 4f",
                "2:",
                "mov x9, x1",
                "mov x10, x0",
                "add x11, x1, x2",
                ".p2align 6",
                "3:",
                $($line,)+
                "add x9, x9, #512",
                "add x10, x10, #512",
                "cmp x9, x11",
                "b.lo 3b",
                $end,
                "subs x3, x3, x12",
                "b.ne 2b",
                "4:",
                "ret",
            )
        }
    };
}

kernel!(
    /// Loads every byte; nothing depends on what was loaded.
    read,
    body [
        ".irp place, 0, 64, 128, 192, 256, 320, 384, 448",
        "ldp q0, q1, [x9, #\\place]",
        "ldp q2, q3, [x9, #\\place + 32]",
        ".endr"
    ],
    end ""
);
kernel!(
    /// Loads every byte of every second line of 64 bytes.
    read_half,
    body [
        ".irp place, 0, 128, 256, 384",
        "ldp q0, q1, [x9, #\\place]",
        "ldp q2, q3, [x9, #\\place + 32]",
        ".endr"
    ],
    end ""
);
kernel!(
    /// Stores every byte. The pattern is not zero: some cores do not write zeros over zeros.
    write,
    body [
        ".irp place, 0, 64, 128, 192, 256, 320, 384, 448",
        "stp q0, q1, [x10, #\\place]",
        "stp q0, q1, [x10, #\\place + 32]",
        ".endr"
    ],
    end ""
);
kernel!(
    /// Stores every byte with the hint that it will not be used again; the barrier belongs to the work.
    write_nt,
    body [
        ".irp place, 0, 64, 128, 192, 256, 320, 384, 448",
        "stnp q0, q1, [x10, #\\place]",
        "stnp q0, q1, [x10, #\\place + 32]",
        ".endr"
    ],
    end "dmb ishst"
);
kernel!(
    /// Loads every byte of one range and stores it to the other.
    copy,
    body [
        ".irp place, 0, 64, 128, 192, 256, 320, 384, 448",
        "ldp q0, q1, [x9, #\\place]",
        "ldp q2, q3, [x9, #\\place + 32]",
        "stp q0, q1, [x10, #\\place]",
        "stp q2, q3, [x10, #\\place + 32]",
        ".endr"
    ],
    end ""
);
kernel!(
    /// Loads every byte of one range and stores it to the other with the hint that it will not be used again.
    copy_nt,
    body [
        ".irp place, 0, 64, 128, 192, 256, 320, 384, 448",
        "ldp q0, q1, [x9, #\\place]",
        "ldp q2, q3, [x9, #\\place + 32]",
        "stnp q0, q1, [x10, #\\place]",
        "stnp q2, q3, [x10, #\\place + 32]",
        ".endr"
    ],
    end "dmb ishst"
);
