//! x86_64: streams of loads and stores in each width of vectors.
//!
//! Sources: Intel SDM volume 2 (MOVAPS, VMOVDQA64, VMOVNTDQ, SFENCE, VZEROUPPER), AMD APM volume 4; Intel optimization
//! manual on mixing vector widths. A block is [`BLOCK`](crate::sys::stream::BLOCK) bytes whatever the width, so that a turn
//! of the loop costs the same overhead per byte; loads and stores are aligned, and every address is a register and a constant.

use crate::sys::arch::Vectors;

/// The sets of kernels, narrowest vectors first; each with a test of whether this processor (and kernel) has them.
pub const VECTORS: [(Vectors, fn() -> bool); 3] = [
    // SSE2 belongs to every x86_64.
    (sse2::VECTORS, || true),
    (avx2::VECTORS, || std::arch::is_x86_feature_detected!("avx2")),
    (avx512::VECTORS, || std::arch::is_x86_feature_detected!("avx512f")),
];

/// A kernel: for each of `passes`, a loop over `bytes` (a multiple of the block) from the beginning of both ranges. The body
/// handles one line of 64 bytes, at RAX + `line` (source) and R9 + `line` (destination); `lines` are those of a block.
macro_rules! kernel {
    ($(#[$about:meta])* $name:ident, fill $fill:expr, lines $lines:literal, body [$($line:expr),+], end $end:literal, leave $leave:literal) => {
        $(#[$about])*
        // SAFETY: a naked function that follows the C calling convention: it reads RDI, RSI, RDX and RCX, overwrites these,
        // RAX, R8, R9, R10 and vector registers (all scratch), and returns with the stack as it found it. What it loads and
        // stores lies in the ranges that the caller vouches for.
        #[unsafe(naked)]
        unsafe extern "C" fn $name(to: *mut u8, from: *const u8, bytes: usize, passes: u64) {
            naked_asm!(
                $fill,
                "mov r10d, 1",
                "test rcx, rcx",
                "jz 4f",
                "test rdx, rdx",
                "jz 4f",
                "2:",
                "mov rax, rsi",
                "mov r9, rdi",
                "lea r8, [rsi + rdx]",
                ".p2align 6",
                "3:",
                concat!(".irp line, ", $lines),
                $($line,)+
                ".endr",
                "add rax, 512",
                "add r9, 512",
                "cmp rax, r8",
                "jb 3b",
                $end,
                "sub rcx, r10",
                "jnz 2b",
                "4:",
                $leave,
                "ret",
            )
        }
    };
}

/// The kernels of one width: `parts` number the vectors of a line; `r` is the letter of the registers; then the
/// instructions that load, store, and store past the caches, and the one that fills register 0 with ones.
macro_rules! width {
    ($module:ident, $width:literal, parts $parts:literal, $r:literal, $load:literal, $store:literal, $stream:literal, $fill:literal, $leave:literal) => {
        mod $module {
            use std::arch::naked_asm;

            use super::Vectors;

            kernel!(
                /// Loads every byte; nothing depends on what was loaded.
                read, fill "", lines "0, 64, 128, 192, 256, 320, 384, 448",
                body [
                    concat!(".irp part, ", $parts),
                    concat!($load, " ", $r, "mm\\part, [rax + \\line + \\part * ", $width, "]"),
                    ".endr"
                ],
                end "", leave $leave
            );
            kernel!(
                /// Loads every byte of every second line.
                read_half, fill "", lines "0, 128, 256, 384",
                body [
                    concat!(".irp part, ", $parts),
                    concat!($load, " ", $r, "mm\\part, [rax + \\line + \\part * ", $width, "]"),
                    ".endr"
                ],
                end "", leave $leave
            );
            kernel!(
                /// Stores every byte. The pattern is not zero: some cores do not write zeros over zeros.
                write, fill $fill, lines "0, 64, 128, 192, 256, 320, 384, 448",
                body [
                    concat!(".irp part, ", $parts),
                    concat!($store, " [r9 + \\line + \\part * ", $width, "], ", $r, "mm0"),
                    ".endr"
                ],
                end "", leave $leave
            );
            kernel!(
                /// Stores every byte past the caches; the fence belongs to the work.
                write_nt, fill $fill, lines "0, 64, 128, 192, 256, 320, 384, 448",
                body [
                    concat!(".irp part, ", $parts),
                    concat!($stream, " [r9 + \\line + \\part * ", $width, "], ", $r, "mm0"),
                    ".endr"
                ],
                end "sfence", leave $leave
            );
            kernel!(
                /// Loads every byte of one range and stores it to the other.
                copy, fill "", lines "0, 64, 128, 192, 256, 320, 384, 448",
                body [
                    concat!(".irp part, ", $parts),
                    concat!($load, " ", $r, "mm\\part, [rax + \\line + \\part * ", $width, "]"),
                    ".endr",
                    concat!(".irp part, ", $parts),
                    concat!($store, " [r9 + \\line + \\part * ", $width, "], ", $r, "mm\\part"),
                    ".endr"
                ],
                end "", leave $leave
            );
            kernel!(
                /// Loads every byte of one range and stores it past the caches to the other.
                copy_nt, fill "", lines "0, 64, 128, 192, 256, 320, 384, 448",
                body [
                    concat!(".irp part, ", $parts),
                    concat!($load, " ", $r, "mm\\part, [rax + \\line + \\part * ", $width, "]"),
                    ".endr",
                    concat!(".irp part, ", $parts),
                    concat!($stream, " [r9 + \\line + \\part * ", $width, "], ", $r, "mm\\part"),
                    ".endr"
                ],
                end "sfence", leave $leave
            );

            pub(super) const VECTORS: Vectors =
                Vectors { name: stringify!($module), bytes: $width, read, read_half, write, write_nt, copy, copy_nt };
        }
    };
}

width!(sse2, 16, parts "0, 1, 2, 3", "x", "movaps", "movaps", "movntps", "pcmpeqd xmm0, xmm0", "");
width!(avx2, 32, parts "0, 1", "y", "vmovaps", "vmovaps", "vmovntps", "vpcmpeqd ymm0, ymm0, ymm0", "vzeroupper");
width!(avx512, 64, parts "0", "z", "vmovaps", "vmovaps", "vmovntps", "vpternlogd zmm0, zmm0, zmm0, 255", "vzeroupper");
