//! x86_64: branches in random directions.

use std::arch::asm;

use crate::sys::arch::RANDOM_BRANCHES;

/// Passes once through [`RANDOM_BRANCHES`] conditional branches of 16 bytes each. The generator of the directions continues from
/// `state`; the result is its new state.
#[inline(never)]
pub fn random_branches(state: u32) -> u32 {
    let mut state = state;
    // SAFETY: works on one register. Each branch leads to the next block, whether taken or not.
    unsafe {
        asm!(
            ".rept {count}",
            ".p2align 4",
            "imul {state:e}, {state:e}, 1664525",
            "add {state:e}, 1013904223",
            "js 2f",
            "nop",
            "2:",
            ".endr",
            count = const RANDOM_BRANCHES,
            state = inout(reg) state,
            options(nomem, nostack)
        );
    }
    state
}
