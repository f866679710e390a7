//! The memory chapter: how far memory is, how much can be moved, what a page fault costs.

pub mod bandwidth;
pub mod buffer;
pub mod footprint;
pub mod latency;
pub mod loaded_latency;
pub mod page_fault;
pub mod pinned_threads;
pub mod selection;
pub mod streams;
pub mod touching;
