//! aarch64: branches in random directions.

use std::arch::asm;

use crate::sys::arch::RANDOM_BRANCHES;

/// Passes once through [`RANDOM_BRANCHES`] conditional branches of 16 bytes each. The generator of the directions continues from
/// `state`; the result is its new state.
#[inline(never)]
pub fn random_branches(state: u32) -> u32 {
    let mut state = state;
    // SAFETY: works on registers that the compiler hands over. Each branch leads to the next block, whether taken or not.
    unsafe {
        asm!(
            ".rept {count}",
            "madd {state:w}, {state:w}, {factor:w}, {addend:w}",
            "tbnz {state:w}, #31, 2f",
            "nop",
            "2:",
            "nop",
            ".endr",
            count = const RANDOM_BRANCHES,
            state = inout(reg) state,
            factor = in(reg) 1_664_525_u32,
            addend = in(reg) 1_013_904_223_u32,
            options(nomem, nostack)
        );
    }
    state
}
