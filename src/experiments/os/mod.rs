//! The operating-system chapter: system calls, processes, threads, switches.

pub mod context_switch;
pub mod process_creation;
pub mod system_call;
pub mod thread_creation;
