//! The CPU chapter: clock, timers, loops, procedure calls, arithmetic.

pub mod arithmetic;
mod arithmetic_costs;
mod compiled_calls;
pub mod frequency;
pub mod loop_cost;
pub mod procedure_call;
pub mod sharing;
pub mod timer;
