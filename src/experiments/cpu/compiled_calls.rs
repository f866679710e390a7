//! Calls that this tool's own compiler makes: callees that it may not inline, called through a pointer that it cannot see through.

use std::hint::black_box;

use crate::sys::arch::{self, CallKernel};

/// Most arguments measured.
pub(super) const MOST_ARGUMENTS: usize = 7;

/// Callees of the compiled kind: the first argument times an odd constant that the compiler cannot turn into shifts, the
/// others only passed.
macro_rules! callees {
    ($($name:ident($($argument:ident),*);)+) => {
        $(#[inline(never)]
        extern "C" fn $name(first: i64 $(, $argument: i64)*) -> i64 {
            $(let _ = $argument;)*
            first.wrapping_mul(0x9E37_79B9)
        })+
    };
}

callees! {
    one(); two(b); three(b, c); four(b, c, d); five(b, c, d, e); six(b, c, d, e, f); seven(b, c, d, e, f, g);
}

#[inline(never)]
extern "C" fn none() -> i64 {
    0
}

/// Copies of a statement: a loop around one would be in both kernels alike and stay in the difference.
macro_rules! spaced {
    ($($body:tt)*) => {
        arch::align_call();
        $($body)*;
    };
}
macro_rules! eight {
    ($($body:tt)*) => {
        spaced!($($body)*); spaced!($($body)*); spaced!($($body)*); spaced!($($body)*);
        spaced!($($body)*); spaced!($($body)*); spaced!($($body)*); spaced!($($body)*);
    };
}
macro_rules! thirty_two {
    ($($body:tt)*) => {
        eight!($($body)*); eight!($($body)*); eight!($($body)*); eight!($($body)*);
    };
}

/// A function that runs a statement 32 or 64 times per turn.
macro_rules! kernel {
    ($name:ident, $state:ident = $initial:expr, $callee:ident = $pointer:expr; $($body:tt)*) => {
        extern "C" fn $name(turns: u64) {
            let $callee = black_box($pointer);
            let mut $state = black_box($initial);
            arch::align_code();
            for _ in 0..turns {
                $($body)*
            }
            $state = black_box($state);
            let _ = $state;
        }
    };
}

/// Kernels of one compiled callee: independent calls and chained calls.
macro_rules! compiled {
    ($callee:ident as $type:ty, $value:ident: $($argument:expr),+) => {{
        kernel!(independent_short, $value = 7_i64, callee = $callee as $type; thirty_two!(callee($($argument),+)););
        kernel!(independent_long, $value = 7_i64, callee = $callee as $type;
            thirty_two!(callee($($argument),+)); thirty_two!(callee($($argument),+)););
        kernel!(chained_short, $value = 7_i64, callee = $callee as $type;
            thirty_two!($value = callee($($argument),+)););
        kernel!(chained_long, $value = 7_i64, callee = $callee as $type;
            thirty_two!($value = callee($($argument),+)); thirty_two!($value = callee($($argument),+)););
        [
            CallKernel { short: independent_short, long: independent_long },
            CallKernel { short: chained_short, long: chained_long },
        ]
    }};
}

/// Without arguments only the function itself can depend on the last result: it is chosen by it from two equal ones.
fn compiled_without_arguments() -> [CallKernel; 2] {
    type Callee = extern "C" fn() -> i64;
    kernel!(independent_short, value = 0_i64, callee = none as Callee; thirty_two!(callee()););
    kernel!(independent_long, value = 0_i64, callee = none as Callee; thirty_two!(callee()); thirty_two!(callee()););
    kernel!(chained_short, value = 0_i64, callees = [none, none] as [Callee; 2];
        thirty_two!(value = callees[(value & 1) as usize]()););
    kernel!(chained_long, value = 0_i64, callees = [none, none] as [Callee; 2];
        thirty_two!(value = callees[(value & 1) as usize]()); thirty_two!(value = callees[(value & 1) as usize]()););
    [
        CallKernel { short: independent_short, long: independent_long },
        CallKernel { short: chained_short, long: chained_long },
    ]
}

/// `[independent, chained]` kernels of compiled callees by number of arguments.
pub(super) fn kernels() -> [[CallKernel; 2]; MOST_ARGUMENTS + 1] {
    [
        compiled_without_arguments(),
        compiled!(one as extern "C" fn(i64) -> i64, v: v),
        compiled!(two as extern "C" fn(i64, i64) -> i64, v: v, v),
        compiled!(three as extern "C" fn(i64, i64, i64) -> i64, v: v, v, v),
        compiled!(four as extern "C" fn(i64, i64, i64, i64) -> i64, v: v, v, v, v),
        compiled!(five as extern "C" fn(i64, i64, i64, i64, i64) -> i64, v: v, v, v, v, v),
        compiled!(six as extern "C" fn(i64, i64, i64, i64, i64, i64) -> i64, v: v, v, v, v, v, v),
        compiled!(seven as extern "C" fn(i64, i64, i64, i64, i64, i64, i64) -> i64, v: v, v, v, v, v, v, v),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiled_callees_depend_on_their_first_argument_only() {
        assert_eq!(seven(3, 1, 1, 1, 1, 1, 1), seven(3, 2, 2, 2, 2, 2, 2));
        assert_ne!(seven(3, 1, 1, 1, 1, 1, 1), seven(4, 1, 1, 1, 1, 1, 1));
    }
}
