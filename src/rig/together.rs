//! Operations that several threads make at the same time.

use std::cell::RefCell;
use std::rc::Rc;

use crate::results::problem::Problem;
use crate::results::quantity::Labels;
use crate::sys::spinner::{Duty, Spinner};

use super::Rig;
use super::member::{Members, Pass};
use super::team::{Team, Windows};
use super::workload::{Expected, Sizing, Workload};

/// Nanoseconds of a window for each thread: an operation takes longer with more threads.
const WINDOW: f64 = 1_000_000.0;
/// Batches of the profile for each window of one or two threads. More threads have longer windows, and fewer.
const BATCHES_PER_WINDOW: u32 = 2;
/// Windows of a job, at least.
const LEAST_WINDOWS: u32 = 2;
/// Operations for which the time of a window is recorded: windows hold different numbers, a series has one.
const NOMINAL: u64 = 100_000;

/// What a number of threads or processes do together.
pub struct TeamJobs {
    /// Labels of each job.
    pub labels: Vec<Labels>,
    /// Makes the jobs of a member, in that member.
    pub equip: Box<dyn Fn(usize) -> Result<Pass, String> + Send + Sync>,
    /// Whether a window counts, after it.
    pub check: Box<dyn Fn() -> Result<(), String>>,
}

impl Rig<'_> {
    /// Samples what one operation costs a member of a team while all members make it, for each team. They can wait for each
    /// other. The CPUs are those of the largest team, and `jobs` gets a source of random numbers and the team.
    ///
    /// # Errors
    ///
    /// The launch cannot measure.
    pub fn sample_together(
        &mut self,
        (metric, series): (&str, &str),
        cpus: &[u32],
        teams: &[(Members, usize)],
        jobs: impl Fn(&mut fastrand::Rng, Members, usize) -> TeamJobs,
    ) -> Result<(), Problem> {
        // A host can move either CPU of a pair. Before any team, because only a task without threads is copied whole.
        let partner = cpus.get(1).and_then(|&other| Spinner::new(other, Duty::Answer).ok()).map(Rc::new);
        for &(members, size) in teams {
            let jobs = jobs(self.random(), members, size);
            let partner = partner.as_ref().filter(|_| size == 2);
            self.sample_team((metric, series), members, &cpus[..size], jobs, partner)?;
        }
        Ok(())
    }

    fn sample_team(
        &mut self,
        (metric, series): (&str, &str),
        members: Members,
        cpus: &[u32],
        TeamJobs { labels, equip, check }: TeamJobs,
        partner: Option<&Rc<Spinner>>,
    ) -> Result<(), Problem> {
        let size = cpus.len();
        let mut team = match Team::with_caller(members, cpus, self.source()?, equip) {
            Ok(team) => team,
            Err(reason) => {
                self.unavailable(metric, &Labels::none().with(members.label(), size), &reason);
                return Ok(());
            }
        };
        let windows = RefCell::new(Windows::of(&mut team, WINDOW * size as f64, self.ticks(1e9)).waiting());
        let most = (self.batches() / BATCHES_PER_WINDOW / size.div_ceil(2) as u32).max(LEAST_WINDOWS);
        // The record of a window takes new memory before the members begin.
        let expected = Expected { faults: true, ..Expected::default() };
        let workload = |(job, labels): (usize, Labels)| {
            let (windows, check) = (&windows, &check);
            let work = move |_| {
                let timed = windows.borrow_mut().timed(job, NOMINAL * size as u64)?;
                check().map(|()| timed)
            };
            let workload = Workload::self_timed(series, labels, NOMINAL, work).sized(Sizing::Exactly(1));
            let workload = workload.unclocked().waiting().at_most(most).expecting(expected);
            match partner {
                Some(partner) => workload.across(partner),
                None => workload,
            }
        };
        self.sample(labels.into_iter().enumerate().map(workload).collect())?;
        self.remark(&format!("repeated.{}.{size}", members.label()), &windows.borrow().repeated());
        Ok(())
    }
}
