//! What the machine and the kernel offer to a measuring program: clocks, timed code, processes, counters.
//!
//! The only place with unsafe code and assembly. Vocabulary without policy: how often, how long and whether to believe
//! the outcome is decided elsewhere.
#![allow(unsafe_code)]

pub mod affinity;
pub mod arch;
pub mod arena;
pub mod branches;
pub mod chain;
pub mod child;
pub mod clock;
pub mod counters;
pub mod create;
pub mod fault;
pub mod file;
pub mod foreign;
pub mod gpu;
pub mod lock;
pub mod locking;
pub mod mapping;
pub mod memory;
pub mod metadata;
pub mod naming;
pub mod numa;
pub mod operation;
pub mod placed;
pub mod process;
pub mod queueing;
pub mod relay;
pub mod ring;
pub mod signal;
pub mod socket;
pub mod socket_calls;
pub mod spinner;
pub mod stream;
pub mod system_call;
pub mod talk;
pub mod tcp_counters;
pub mod thread;
pub mod token;
