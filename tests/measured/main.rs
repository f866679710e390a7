//! Known truth, measured: costs that a test makes, sets or counts itself, and the results that the program has for them.
//!
//! Two measurements at once would disturb each other, so these tests run one after the other, beside nothing else.

#![allow(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]

mod course;
mod cpu;
mod datagrams;
mod documents;
mod file;
mod file_cache;
mod fleet_slurm;
mod gpu;
mod live;
mod memory;
mod memory_rates;
mod mesh;
mod network;
mod operations;
mod os;
mod remote_file;
#[path = "../support/mod.rs"]
mod support;
mod switch;
