//! Tests that mostly wait: peers and servers that are slow or hostile, runs that are killed, and places that others prepared.
//!
//! They compare no figures, at most they ask that none is trusted: so they run beside each other and beside a build.

#![allow(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]

mod check;
mod cli_run;
mod deadlines;
mod faults;
mod fleet_places;
mod fleet_slurm;
mod gpu;
mod history;
mod live;
mod nfs_hostile;
mod one_writer;
mod peer;
mod peer_export;
mod peer_lies;
mod peer_secrets;
mod peer_through_ssh;
mod places;
mod places_memory;
mod places_of_others;
mod places_os;
mod scratch;
mod script;
#[path = "../support/mod.rs"]
mod support;
mod trust;
