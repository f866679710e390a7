//! What several test programs need: captured trees of other machines, and runs of the real program.
#![allow(dead_code, reason = "each test program uses its own part")]
#![allow(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]

pub mod cluster;
pub mod disk;
pub mod driver;
pub mod faults;
pub mod filter;
pub mod fuse;
pub mod namespaces;
pub mod places;
pub mod readers;
pub mod runs;
pub mod schemas;
pub mod servers;
pub mod sources;
pub mod tap;
pub mod trees;
pub mod truth;
