//! aarch64: the pieces that [placed loops](crate::sys::placed) are composed of.
//!
//! Registers: X19 the [`Control`](crate::sys::placed::Control), X20 the operation that is next, X21 and X22 the state of the work, X23 its
//! data, X24 the wrong answers. Everything else is scratch. A piece refers to nothing outside itself.

use std::arch::asm;

pieces! {
    Entry:
        "stp x29, x30, [sp, #-64]!" "stp x19, x20, [sp, #16]" "stp x21, x22, [sp, #32]" "stp x23, x24, [sp, #48]"
        "mov x19, x0" "ldr x23, [x19, #24]" "ldp x21, x22, [x19, #40]" "mov x24, #0";
    Top:
        "add x20, x19, #64";
    Call:
        "ldr x9, [x19, #8]" "cbnz x9, 9f"
        "ldr x8, [x20]" "ldp x0, x1, [x20, #8]" "ldp x2, x3, [x20, #24]" "ldp x4, x5, [x20, #40]"
        "svc 0"
        "ldr x9, [x20, #56]" "eor x9, x9, x0" "orr x24, x24, x9"
        "9:" "add x20, x20, #72";
    Function:
        "ldr x9, [x19, #8]" "cbnz x9, 9f"
        "ldp x9, x0, [x20]"
        "blr x9"
        "ldr x9, [x20, #56]" "eor x9, x9, x0" "orr x24, x24, x9"
        "9:" "add x20, x20, #72";
    Wake:
        "ldr x9, [x19, #8]" "cbnz x9, 9f"
        "ldr x9, [x20, #64]" "mov x10, #1" "stlr x10, [x9]"
        "ldr x8, [x20]" "ldp x0, x1, [x20, #8]" "ldp x2, x3, [x20, #24]"
        "svc 0"
        "asr x9, x0, #63" "orr x24, x24, x9"
        "9:" "add x20, x20, #72";
    Wait:
        "ldr x9, [x19, #8]" "cbnz x9, 9f"
        "1:" "ldr x9, [x20, #64]" "ldar x10, [x9]" "cbnz x10, 2f"
        "ldr x8, [x20]" "ldp x0, x1, [x20, #8]" "ldp x2, x3, [x20, #24]"
        "svc 0"
        "tbz x0, #63, 1b" "cmn x0, #11" "b.eq 1b" "cmn x0, #4" "b.eq 1b"
        "orr x24, x24, x0" "b 9f"
        "2:" "str xzr, [x9]"
        "9:" "add x20, x20, #72";
    Ring:
        "ldr x9, [x19, #8]" "cbnz x9, 9f"
        "ldr x9, [x20, #64]" "ldp x10, x11, [x9]" "ldr x12, [x9, #16]" "ldr w13, [x10]" "ldr w14, [x20, #16]"
        "1:" "and w15, w13, w11" "add x15, x12, x15, lsl #6"
        "stp xzr, xzr, [x15]" "stp xzr, xzr, [x15, #16]" "stp xzr, xzr, [x15, #32]" "stp xzr, xzr, [x15, #48]"
        "add w13, w13, #1" "subs w14, w14, #1" "b.ne 1b" "stlr w13, [x10]"
        "ldr x8, [x20]" "ldp x0, x1, [x20, #8]" "ldp x2, x3, [x20, #24]" "ldp x4, x5, [x20, #40]"
        "svc 0"
        "ldr x9, [x20, #56]" "eor x9, x9, x0" "orr x24, x24, x9"
        "ldr x9, [x20, #64]" "ldp x10, x11, [x9, #24]" "ldp x12, x13, [x9, #40]" "ldr w14, [x10]" "ldar w15, [x11]"
        "sub w9, w15, w14" "ldr x11, [x20, #16]" "eor x9, x9, x11" "orr x24, x24, x9"
        "2:" "cmp w14, w15" "b.eq 3f" "and w9, w14, w12" "add x9, x13, x9, lsl #4" "ldrsw x9, [x9, #8]" "orr x24, x24, x9"
        "add w14, w14, #1" "b 2b"
        "3:" "stlr w14, [x10]"
        "9:" "add x20, x20, #72";
    Stop:
        "ldr x9, [x19, #32]" "ldr x9, [x9]" "orr x9, x9, x24" "cbz x9, 6f" "ldr x9, [x19, #16]" "br x9" "6:";
    Count:
        "ldr x9, [x19]" "subs x9, x9, #1" "str x9, [x19]";
    Exit:
        "stp x21, x22, [x19, #40]" "str x24, [x19, #56]"
        "ldp x19, x20, [sp, #16]" "ldp x21, x22, [sp, #32]" "ldp x23, x24, [sp, #48]" "ldp x29, x30, [sp], #64" "ret";
    // Work, from here to the end. Each piece begins with a number of the data and adds its result, so that pieces overlap. The lowest
    // five bits of a number decide branches and turns.
    Mix:
        "ldr w9, [x23, x21, lsl #2]" "eor x9, x9, x9, lsr #7" "add x9, x9, x9, lsl #2" "mov w10, #0xf491" "movk w10, #0x2545, lsl #16"
        "mul x10, x9, x10" "add x22, x22, x10, lsr #32";
    RareBranch:
        "add w21, w21, #1" "and w21, w21, #1023" "ldr w9, [x23, x21, lsl #2]" "add x22, x22, x9" "tbz w9, #0, 2f" "ror x9, x9, #5"
        "eor x22, x22, x9" "2:";
    EitherOr:
        "add w21, w21, #1" "and w21, w21, #1023" "ldr w9, [x23, x21, lsl #2]" "tbnz w9, #1, 3f" "add x10, x9, x9, lsl #1"
        "sub x10, x10, #7" "b 4f" "3:" "mvn x10, x9" "4:" "add x22, x22, x10";
    Leaf:
        "ldr w0, [x23, x21, lsl #2]" "bl 5f" "add x22, x22, x0" "b 6f" "5:" "lsl x9, x0, #3" "sub x9, x9, x0" "add x0, x9, #1" "ret" "6:";
    FourTurns:
        "mov w9, #4" "ldr w10, [x23, x21, lsl #2]" "1:" "add x10, x10, x10, lsl #1" "add x10, x10, #1" "subs w9, w9, #1" "b.ne 1b"
        "add x22, x22, x10";
    StoreAndLoad:
        "ldr w9, [x23, x21, lsl #2]" "str x9, [x23, #4096]" "ldr x10, [x23, #4104]" "add x10, x10, x9" "str x10, [x23, #4104]";
    TwoLevels:
        "ldr w0, [x23, x21, lsl #2]" "bl 1f" "add x22, x22, x0" "b 3f" "1:" "stp x30, x0, [sp, #-16]!" "add x0, x0, #1" "bl 2f"
        "ldp x30, x9, [sp], #16" "add x0, x0, x9" "ret" "2:" "add x0, x0, x0, lsl #3" "ror x0, x0, #11" "ret" "3:";
    SomeTurns:
        "add w21, w21, #1" "and w21, w21, #1023" "ldr w10, [x23, x21, lsl #2]" "ubfx w9, w10, #2, #3" "add w9, w9, #1"
        "mov w11, #403" "movk w11, #256, lsl #16" "1:" "mul x10, x10, x11" "subs w9, w9, #1" "b.ne 1b" "add x22, x22, x10";
    ThreeLoads:
        "ldr w9, [x23, x21, lsl #2]" "ubfx x9, x9, #8, #10" "ldr w9, [x23, x9, lsl #2]" "ubfx x9, x9, #8, #10"
        "ldr w9, [x23, x9, lsl #2]" "add x22, x22, x9";
    Hash:
        "add x9, x23, x21, lsl #2" "mov w10, #0x9dc5" "movk w10, #0x811c, lsl #16" "mov w11, #403" "movk w11, #256, lsl #16"
        "mov w12, #8" "1:" "ldrb w13, [x9], #1" "eor w10, w10, w13" "mul w10, w10, w11" "subs w12, w12, #1" "b.ne 1b"
        "add x22, x22, x10";
    Search:
        "ldr w9, [x23, x21, lsl #2]" "mov w10, #1" "1:" "ldr w11, [x23, x10, lsl #2]" "cmp w11, w9" "cset w12, lo"
        "add w10, w12, w10, lsl #1" "cmp w10, #32" "b.lo 1b" "add x22, x22, x10";
}

/// A branch back to the beginning of a loop, `distance` bytes before it, unless the count before it came to zero.
pub fn branch_back(distance: usize) -> Vec<u8> {
    // B.NE with a displacement of 19 bits in instructions.
    let instructions = (-(distance as i32) / 4) as u32 & 0x7_ffff;
    (0x5400_0001 | instructions << 5).to_le_bytes().to_vec()
}

/// Code that does nothing, for the bytes between pieces.
pub const NOTHING: &[u8] = &[0x1f, 0x20, 0x03, 0xd5];

/// Lets the processor see new code: writes it to where instructions are fetched from, and drops what was fetched before.
pub fn see_new_code(code: &[u8]) {
    // The smallest line that the architecture allows.
    for line in code.chunks(16) {
        // SAFETY: both instructions work on the line of an address that is valid to read, and change no data.
        unsafe {
            asm!("dc cvau, {line}", "dsb ish", "ic ivau, {line}", line = in(reg) line.as_ptr(), options(nostack));
        };
    }
    // SAFETY: both only order.
    unsafe { asm!("dsb ish", "isb", options(nostack)) };
}
