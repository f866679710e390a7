//! Arithmetic in chains and independent. Each kernel takes its operands from memory before its loop and returns what it
//! computed: the last value of a chain, or the sum of all values without a chain.

use std::arch::naked_asm;

use crate::sys::arch::{Arithmetic, ArithmeticKernel};

/// Operations in a turn of the short kernels: a multiple of twice the twelve registers that independent operations use.
pub const ARITHMETIC_PER_TURN: u64 = 24;

/// A chain of divisions puts each quotient back to the size of a dividend, with one addition.
pub const QUOTIENTS_ARE_RESTORED: bool = true;

/// Whether the CPU has fused multiply-add.
pub fn has_fused_multiply_add() -> bool {
    std::arch::is_x86_feature_detected!("fma")
}

/// A kernel with `COUNT` operations in a turn, and `EXTRA` times what stands behind them.
macro_rules! kernel {
    ($name:ident, [$($before:literal),+], [$($turn:literal),+], [$($extra:literal),*], [$($after:literal),*]) => {
        // SAFETY: a naked function that follows the C calling convention: it reads RDI and the three numbers at RSI, saves and
        // restores RBX, overwrites only other scratch registers, writes no memory but that push, and returns with the stack as
        // it found it. No divisor is zero and no quotient too wide with the operands that its users give: both are constants.
        #[unsafe(naked)]
        extern "C" fn $name<const COUNT: usize, const EXTRA: usize>(turns: u64, operands: &[u64; 3]) -> u64 {
            naked_asm!(
                "push rbx",
                $($before,)+
                "test rdi, rdi",
                "jz 3f",
                ".p2align 6",
                "2:",
                $($turn,)+
                ".rept {extra}",
                $($extra,)*
                ".endr",
                "sub rdi, 1",
                "jnz 2b",
                "3:",
                $($after,)*
                "pop rbx",
                "ret",
                count = const COUNT,
                extra = const EXTRA,
            )
        }
    };
}

/// A chain of one line for each operation in general registers.
macro_rules! integer_chain {
    ($name:ident, $line:literal) => {
        kernel!(
            $name,
            ["mov rax, qword ptr [rsi]", "mov rbx, qword ptr [rsi + 8]"],
            [".rept {count}", $line, ".endr"],
            [],
            []
        );
    };
}

/// The same operation in eight registers. `$line` uses `\r`.
macro_rules! integers {
    ($name:ident, $line:literal) => {
        kernel!(
            $name,
            [
                "mov rax, qword ptr [rsi]",
                "mov rbx, qword ptr [rsi + 8]",
                ".irp r, rcx, rdx, r8, r9, r10, r11, rsi",
                "mov \\r, rax",
                ".endr"
            ],
            [".rept {count} / 8", ".irp r, rax, rcx, rdx, rsi, r8, r9, r10, r11", $line, ".endr", ".endr"],
            [],
            [".irp r, rcx, rdx, r8, r9, r10, r11, rsi", "add rax, \\r", ".endr"]
        );
    };
}

/// A chain of pairs of lines in a vector register.
macro_rules! double_chain {
    ($name:ident, $one:literal, $other:literal) => {
        kernel!(
            $name,
            ["movsd xmm0, qword ptr [rsi]", "movsd xmm12, qword ptr [rsi + 8]", "movsd xmm13, qword ptr [rsi + 16]"],
            [".rept {count} / 2", $one, $other, ".endr"],
            [],
            ["movq rax, xmm0"]
        );
    };
}

/// The same two operations in twelve registers. The lines use `\r`.
macro_rules! doubles {
    ($name:ident, $one:literal, $other:literal) => {
        kernel!(
            $name,
            [
                "movsd xmm0, qword ptr [rsi]",
                "movsd xmm12, qword ptr [rsi + 8]",
                "movsd xmm13, qword ptr [rsi + 16]",
                ".irp r, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11",
                "movapd xmm\\r, xmm0",
                ".endr"
            ],
            [
                ".rept {count} / 24",
                ".irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11",
                $one,
                ".endr",
                ".irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11",
                $other,
                ".endr",
                ".endr"
            ],
            [],
            [
                "movq rax, xmm0",
                ".irp r, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11",
                "movq rcx, xmm\\r",
                "add rax, rcx",
                ".endr"
            ]
        );
    };
}

integer_chain!(add_chain, "add rax, rbx");
integer_chain!(multiply_chain, "imul rax, rbx");
integers!(adds, "add \\r, rbx");
integers!(multiplies, "imul \\r, rbx");

kernel!(
    divide_32_chain,
    ["mov eax, dword ptr [rsi]", "mov ebx, dword ptr [rsi + 8]", "mov ecx, dword ptr [rsi + 16]"],
    [".rept {count}", "xor edx, edx", "div ebx", "add eax, ecx", ".endr"],
    ["add eax, ecx", "sub eax, ecx"],
    []
);
kernel!(
    divide_64_chain,
    ["mov rax, qword ptr [rsi]", "mov rbx, qword ptr [rsi + 8]", "mov rcx, qword ptr [rsi + 16]"],
    [".rept {count}", "xor edx, edx", "div rbx", "add rax, rcx", ".endr"],
    ["add rax, rcx", "sub rax, rcx"],
    []
);
kernel!(
    divides_32,
    ["mov ecx, dword ptr [rsi]", "mov ebx, dword ptr [rsi + 8]", "mov eax, ecx"],
    [".rept {count}", "mov eax, ecx", "xor edx, edx", "div ebx", ".endr"],
    [],
    []
);
kernel!(
    divides_64,
    ["mov rcx, qword ptr [rsi]", "mov rbx, qword ptr [rsi + 8]", "mov rax, rcx"],
    [".rept {count}", "mov rax, rcx", "xor edx, edx", "div rbx", ".endr"],
    [],
    []
);

double_chain!(double_add_chain, "addsd xmm0, xmm12", "addsd xmm0, xmm13");
double_chain!(double_multiply_chain, "mulsd xmm0, xmm12", "mulsd xmm0, xmm13");
double_chain!(fused_chain, "vfmadd213sd xmm0, xmm12, xmm13", "vfmadd213sd xmm0, xmm12, xmm13");
double_chain!(double_divide_chain, "divsd xmm0, xmm12", "divsd xmm0, xmm13");
doubles!(double_adds, "addsd xmm\\r, xmm12", "addsd xmm\\r, xmm13");
doubles!(double_multiplies, "mulsd xmm\\r, xmm12", "mulsd xmm\\r, xmm13");
doubles!(fused, "vfmadd213sd xmm\\r, xmm12, xmm13", "vfmadd213sd xmm\\r, xmm12, xmm13");
doubles!(double_divides, "divsd xmm\\r, xmm12", "divsd xmm\\r, xmm13");
doubles!(square_roots, "sqrtsd xmm\\r, xmm12", "sqrtsd xmm\\r, xmm12");

kernel!(
    // The first root of each half of a turn waits for the last of the half before: two logical operations put the operand in place
    // of that root.
    square_root_chain,
    ["movsd xmm0, qword ptr [rsi]", "movsd xmm12, qword ptr [rsi + 8]", "xorps xmm14, xmm14"],
    [".rept 2", "andpd xmm0, xmm14", "orpd xmm0, xmm12", ".rept {count} / 2", "sqrtsd xmm0, xmm0", ".endr", ".endr"],
    [],
    ["movq rax, xmm0"]
);

const N: usize = ARITHMETIC_PER_TURN as usize;

/// The short and the long kernel with `$extra` more of what stands behind the operations in the short one.
macro_rules! pair {
    ($name:ident) => {
        pair!($name, 0)
    };
    ($name:ident, $extra:expr) => {
        [$name::<N, { $extra }> as ArithmeticKernel, $name::<{ 2 * N }, 0>]
    };
}

/// The kernels of an operation with [`ARITHMETIC_PER_TURN`] operations in a turn and with twice as many: first those of the chain,
/// then those of independent operations. In chains of divisions both have as many additions.
pub fn arithmetic(operation: Arithmetic) -> [[ArithmeticKernel; 2]; 2] {
    match operation {
        Arithmetic::IntegerAdd => [pair!(add_chain), pair!(adds)],
        Arithmetic::IntegerMultiply => [pair!(multiply_chain), pair!(multiplies)],
        Arithmetic::IntegerDivide32 => [pair!(divide_32_chain, N / 2), pair!(divides_32)],
        Arithmetic::IntegerDivide64 => [pair!(divide_64_chain, N / 2), pair!(divides_64)],
        Arithmetic::DoubleAdd => [pair!(double_add_chain), pair!(double_adds)],
        Arithmetic::DoubleMultiply => [pair!(double_multiply_chain), pair!(double_multiplies)],
        Arithmetic::FusedMultiplyAdd => [pair!(fused_chain), pair!(fused)],
        Arithmetic::DoubleDivide => [pair!(double_divide_chain), pair!(double_divides)],
        Arithmetic::SquareRoot => [pair!(square_root_chain), pair!(square_roots)],
    }
}
