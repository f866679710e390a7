//! The operating-system chapter: system calls, processes, threads, switches.

pub mod process_creation;
pub mod system_call;
