//! Where the launches of a run are made: on this machine, or on a made one in tests.

use std::time::{Duration, Instant};

use crate::experiments::file::control_group;
use crate::results::log::Record;
use crate::rig::request::Request;

use super::interrupt::Interrupt;
use super::launch::{self, Ended};

/// What makes the launches of a run, and its clock.
pub trait Host {
    /// Makes a launch, or ends it when its time is up. Returns its records either way.
    fn launch(&mut self, request: &Request, time_out: Duration) -> (Ended, Vec<Record>);

    /// Seconds since the run began.
    fn elapsed(&self) -> f64;
}

/// Launches are child processes on this machine.
pub(super) struct ThisMachine<'a> {
    began: Instant,
    interrupt: &'a Interrupt,
}

impl<'a> ThisMachine<'a> {
    /// For a run that begins now.
    pub(super) fn now(interrupt: &'a Interrupt) -> Self {
        ThisMachine { began: Instant::now(), interrupt }
    }
}

impl Host for ThisMachine<'_> {
    fn launch(&mut self, request: &Request, time_out: Duration) -> (Ended, Vec<Record>) {
        let made = launch::launch(request, time_out, self.interrupt);
        // A launch that was killed could not do this itself.
        control_group::remove_own();
        made
    }

    fn elapsed(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }
}
