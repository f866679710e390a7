//! Operations that several threads make at the same time.

use std::cell::RefCell;
use std::rc::Rc;

use crate::results::problem::Problem;
use crate::results::quantity::Labels;
use crate::sys::spinner::Spinner;

use super::Rig;
use super::team::{Pass, Team, Windows};
use super::workload::{Expected, Sizing, Workload};

/// Nanoseconds of a window for each thread: an operation takes longer with more threads.
const WINDOW: f64 = 1_000_000.0;
/// Batches of the profile for each window of one or two threads. More threads have longer windows, and fewer.
const BATCHES_PER_WINDOW: u32 = 2;
/// Windows of a job, at least.
const LEAST_WINDOWS: u32 = 2;
/// Operations for which the time of a window is recorded: windows hold different numbers, a series has one.
const NOMINAL: u64 = 100_000;

/// What threads do together.
pub struct TeamOperations<'a> {
    /// The metric of their costs, and the series.
    pub metric: &'a str,
    pub series: &'a str,
    /// A thread for each.
    pub cpus: &'a [u32],
    /// Labels of each job.
    pub jobs: Vec<Labels>,
    /// Says how far apart the two CPUs of a pair are.
    pub partner: Option<&'a Rc<Spinner>>,
    /// Whether a window counts, after it.
    pub check: &'a dyn Fn() -> Result<(), String>,
}

impl Rig<'_> {
    /// Samples what one operation costs a thread while all threads make it. They can wait for each other.
    ///
    /// # Errors
    ///
    /// The launch cannot measure.
    pub fn sample_together(
        &mut self,
        of: TeamOperations<'_>,
        equip: impl Fn(usize) -> Result<Pass, String> + Send + Sync + 'static,
    ) -> Result<(), Problem> {
        let threads = of.cpus.len();
        let mut team = match Team::with_caller(of.cpus, self.source()?, equip) {
            Ok(team) => team,
            Err(reason) => {
                self.unavailable(of.metric, &Labels::none().with("threads", threads), &reason);
                return Ok(());
            }
        };
        let windows = RefCell::new(Windows::of(&mut team, WINDOW * threads as f64, self.ticks(1e9)).waiting());
        let most = (self.batches() / BATCHES_PER_WINDOW / threads.div_ceil(2) as u32).max(LEAST_WINDOWS);
        // The record of a window takes new memory before the threads begin.
        let expected = Expected { faults: true, ..Expected::default() };
        let workload = |(job, labels): (usize, Labels)| {
            let windows = &windows;
            let work = move |_| {
                let timed = windows.borrow_mut().timed(job, NOMINAL * threads as u64)?;
                (of.check)().map(|()| timed)
            };
            let workload = Workload::self_timed(of.series, labels, NOMINAL, work).sized(Sizing::Exactly(1));
            let workload = workload.unclocked().waiting().at_most(most).expecting(expected);
            match of.partner {
                Some(partner) => workload.across(partner),
                None => workload,
            }
        };
        self.sample(of.jobs.into_iter().enumerate().map(workload).collect())?;
        self.remark(&format!("repeated.{threads}"), &windows.borrow().repeated());
        Ok(())
    }
}
