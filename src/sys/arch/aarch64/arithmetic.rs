//! Arithmetic in chains and independent. Each kernel takes its operands from memory before its loop and returns what it
//! computed: the last value of a chain, or the sum of all values without a chain.

use std::arch::naked_asm;

use crate::sys::arch::{Arithmetic, ArithmeticKernel};

/// Operations in a turn of the short kernels: a multiple of twice the sixteen registers that independent operations use.
pub const ARITHMETIC_PER_TURN: u64 = 32;

/// A chain of divisions passes each quotient on as the next divisor: no quotient is restored.
pub const QUOTIENTS_ARE_RESTORED: bool = false;

/// Every core of this architecture has fused multiply-add.
pub fn has_fused_multiply_add() -> bool {
    true
}

/// A kernel with `COUNT` operations in a turn.
macro_rules! kernel {
    ($name:ident, [$($before:literal),+], [$($turn:literal),+], [$($after:literal),*]) => {
        // SAFETY: a naked function that follows AAPCS64: it reads X0 and the three numbers at X1, overwrites only scratch registers
        // (X0 to X15, D0 to D7, D16 to D31), writes no memory and returns with the stack as it found it.
        #[unsafe(naked)]
        extern "C" fn $name<const COUNT: usize>(turns: u64, operands: &[u64; 3]) -> u64 {
            naked_asm!(
                "mov x15, x0",
                "mov x14, x1",
                $($before,)+
                "cbz x15, 3f",
                ".p2align 6",
                "2:",
                $($turn,)+
                "subs x15, x15, #1",
                "b.ne 2b",
                "3:",
                $($after,)*
                "ret",
                count = const COUNT,
            )
        }
    };
}

/// A chain of one line for each operation in general registers.
macro_rules! integer_chain {
    ($name:ident, $line:literal) => {
        kernel!($name, ["ldr x0, [x14]", "ldr x13, [x14, #8]"], [".rept {count}", $line, ".endr"], []);
    };
}

/// A chain of divisions of the first number, by the second and then by each quotient.
macro_rules! divisor_chain {
    ($name:ident, $line:literal) => {
        kernel!($name, ["ldr x13, [x14]", "ldr x0, [x14, #8]"], [".rept {count}", $line, ".endr"], []);
    };
}

/// The same operation in eight registers. `$line` uses `\r`.
macro_rules! integers {
    ($name:ident, $line:literal) => {
        kernel!(
            $name,
            ["ldr x0, [x14]", "ldr x13, [x14, #8]", ".irp r, 1, 2, 3, 4, 5, 6, 7", "mov x\\r, x0", ".endr"],
            [".rept {count} / 8", ".irp r, 0, 1, 2, 3, 4, 5, 6, 7", $line, ".endr", ".endr"],
            [".irp r, 1, 2, 3, 4, 5, 6, 7", "add x0, x0, x\\r", ".endr"]
        );
    };
}

/// Independent divisions of two numbers, whose quotient is the result. The lines use `\r`.
macro_rules! divisions {
    ($name:ident, $line:literal) => {
        kernel!(
            $name,
            ["ldr x12, [x14]", "ldr x13, [x14, #8]", "mov x0, x12"],
            [".rept {count} / 8", ".irp r, 1, 2, 3, 4, 5, 6, 7, 0", $line, ".endr", ".endr"],
            []
        );
    };
}

/// A chain of pairs of lines in a vector register.
macro_rules! double_chain {
    ($name:ident, $one:literal, $other:literal) => {
        kernel!(
            $name,
            ["ldr d0, [x14]", "ldr d24, [x14, #8]", "ldr d25, [x14, #16]"],
            [".rept {count} / 2", $one, $other, ".endr"],
            ["fmov x0, d0"]
        );
    };
}

/// The same two operations in sixteen registers. The lines use `\r`.
macro_rules! doubles {
    ($name:ident, $one:literal, $other:literal) => {
        kernel!(
            $name,
            [
                "ldr d0, [x14]",
                "ldr d24, [x14, #8]",
                "ldr d25, [x14, #16]",
                ".irp r, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23",
                "fmov d\\r, d0",
                ".endr"
            ],
            [
                ".rept {count} / 32",
                ".irp r, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23",
                $one,
                ".endr",
                ".irp r, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23",
                $other,
                ".endr",
                ".endr"
            ],
            [
                "fmov x0, d0",
                ".irp r, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23",
                "fmov x1, d\\r",
                "add x0, x0, x1",
                ".endr"
            ]
        );
    };
}

integer_chain!(add_chain, "add x0, x0, x13");
integer_chain!(multiply_chain, "mul x0, x0, x13");
divisor_chain!(divide_32_chain, "udiv w0, w13, w0");
divisor_chain!(divide_64_chain, "udiv x0, x13, x0");
integers!(adds, "add x\\r, x\\r, x13");
integers!(multiplies, "mul x\\r, x\\r, x13");
divisions!(divides_32, "udiv w\\r, w12, w13");
divisions!(divides_64, "udiv x\\r, x12, x13");

double_chain!(double_add_chain, "fadd d0, d0, d24", "fadd d0, d0, d25");
double_chain!(double_multiply_chain, "fmul d0, d0, d24", "fmul d0, d0, d25");
double_chain!(fused_chain, "fmadd d0, d0, d24, d25", "fmadd d0, d0, d24, d25");
double_chain!(double_divide_chain, "fdiv d0, d0, d24", "fdiv d0, d0, d25");
doubles!(double_adds, "fadd d\\r, d\\r, d24", "fadd d\\r, d\\r, d25");
doubles!(double_multiplies, "fmul d\\r, d\\r, d24", "fmul d\\r, d\\r, d25");
doubles!(fused, "fmadd d\\r, d\\r, d24, d25", "fmadd d\\r, d\\r, d24, d25");
doubles!(double_divides, "fdiv d\\r, d\\r, d24", "fdiv d\\r, d\\r, d25");
doubles!(square_roots, "fsqrt d\\r, d24", "fsqrt d\\r, d24");

kernel!(
    // The first root of each half of a turn waits for the last of the half before: two logical operations put the operand in place
    // of that root.
    square_root_chain,
    ["ldr d0, [x14]", "ldr d24, [x14, #8]", "movi v26.16b, #0"],
    [
        ".rept 2",
        "and v0.8b, v0.8b, v26.8b",
        "orr v0.8b, v0.8b, v24.8b",
        ".rept {count} / 2",
        "fsqrt d0, d0",
        ".endr",
        ".endr"
    ],
    ["fmov x0, d0"]
);

const N: usize = ARITHMETIC_PER_TURN as usize;

macro_rules! pair {
    ($name:ident) => {
        [$name::<N> as ArithmeticKernel, $name::<{ 2 * N }>]
    };
}

/// The kernels of an operation with [`ARITHMETIC_PER_TURN`] operations in a turn and with twice as many: first those of the chain,
/// then those of independent operations.
pub fn arithmetic(operation: Arithmetic) -> [[ArithmeticKernel; 2]; 2] {
    match operation {
        Arithmetic::IntegerAdd => [pair!(add_chain), pair!(adds)],
        Arithmetic::IntegerMultiply => [pair!(multiply_chain), pair!(multiplies)],
        Arithmetic::IntegerDivide32 => [pair!(divide_32_chain), pair!(divides_32)],
        Arithmetic::IntegerDivide64 => [pair!(divide_64_chain), pair!(divides_64)],
        Arithmetic::DoubleAdd => [pair!(double_add_chain), pair!(double_adds)],
        Arithmetic::DoubleMultiply => [pair!(double_multiply_chain), pair!(double_multiplies)],
        Arithmetic::FusedMultiplyAdd => [pair!(fused_chain), pair!(fused)],
        Arithmetic::DoubleDivide => [pair!(double_divide_chain), pair!(double_divides)],
        Arithmetic::SquareRoot => [pair!(square_root_chain), pair!(square_roots)],
    }
}
