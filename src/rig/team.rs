//! A team: threads or processes that work at the same time, each pinned to a separate CPU.
//!
//! ```text
//! member 0   ──wake─┤gate├─pass─┼─pass─┼─pass─┼─pass─┼─┤
//! member 1   ───wake┤gate├pass┼pass┼pass┼pass┼pass┼pass┤
//!                          │← all of them work: counted →│
//! ```
//!
//! Members meet at a gate, where they spin, then work in passes and read the clock after each. What counts is the span in
//! which all of them work: from the latest start to the earliest end. Passes that begin or end outside of it count by the
//! share of their time inside. So the rate of a team is the sum of what its members did in one and the same time, and a
//! member that starts late or ends early neither adds a moment of quiet nor drags the rate down.
//!
//! Between turns the members sleep. In a team that works together the calling thread is the first member: another thread on
//! its CPU would have to take that from it. In a team that works next to the calling thread, all members are others.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::member::{ENDED, Equip, Member, MemberProgress, Members, Pass, READINGS, StartGate, Turn, work};
use super::workload::Timed;
use crate::sys::arch;
use crate::sys::clock::Source;

/// Share of a window that a member may wait for its CPU, be stopped, or be alone, before the window is called disturbed.
const DISTURBED: f64 = 0.02;

/// Why a window is disturbed in which members did not work at the same time.
const APART: &str = "the tasks never worked at the same time";

/// Why a window is disturbed in which a member was stopped.
const WAS_STOPPED: &str = "a task was stopped for a while";

/// Nanoseconds between kept readings in a turn whose end is not known.
const OPEN_SPACING: f64 = 100_000.0;

/// Threads or processes on separate CPUs.
pub struct Team {
    /// The calling thread's part, where it is a member.
    own: Option<(u32, Pass)>,
    members: Vec<Member>,
    source: Source,
    gate: Arc<StartGate>,
}

/// What a team did in the span in which all its members worked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Together {
    /// Length of the span in ticks. If the members did not meet, it is from the first start to the last end.
    pub ticks: f64,
    /// Bytes that all did in it.
    pub bytes: f64,
    /// Whether the kernel says of every member how long it waited for its CPU.
    pub known: bool,
    /// Whether a member waited for its CPU for too long.
    pub waited: bool,
    /// Why the span is not what it should be, if it is not.
    pub disturbed: Option<&'static str>,
}

/// Times that a disturbed window is repeated. Its value plays no part in that.
const REPEATS: u32 = 3;

/// Windows of a team as batches.
pub struct Windows<'t> {
    team: &'t mut Team,
    /// Length of a window in ticks.
    ticks: f64,
    hertz: f64,
    /// Whether members wait for each other. A member without progress then does not disturb the window.
    waits: bool,
    /// Why windows were repeated, and how many.
    repeated: BTreeMap<&'static str, u32>,
}

impl<'t> Windows<'t> {
    /// Windows of this many nanoseconds, with a clock of this rate.
    pub fn of(team: &'t mut Team, nanoseconds: f64, hertz: f64) -> Self {
        Windows { team, ticks: nanoseconds * hertz / 1e9, hertz, waits: false, repeated: BTreeMap::new() }
    }

    /// Of members that wait for each other.
    #[must_use]
    pub fn waiting(self) -> Self {
        Windows { waits: true, ..self }
    }

    fn window(&mut self, job: usize) -> Result<Together, String> {
        let found = self.team.window(job, self.ticks, self.hertz)?;
        let disturbed = found.disturbed.filter(|why| !self.waits || *why != WAS_STOPPED);
        Ok(Together { disturbed, ..found })
    }

    /// The time in which all members together do a number of bytes of a job, by a window that is repeated if it is disturbed.
    ///
    /// # Errors
    ///
    /// The members did not work at the same time.
    pub fn timed(&mut self, job: usize, bytes: u64) -> Result<Timed, String> {
        let mut found = self.window(job)?;
        for _ in 0..REPEATS {
            let Some(why) = found.disturbed else { break };
            *self.repeated.entry(why).or_default() += 1;
            found = self.window(job)?;
        }
        let ticks = (found.ticks * bytes as f64 / found.bytes) as i64;
        Ok(match (found.disturbed, found.known) {
            (Some(_), _) => Timed::Preempted(ticks),
            (None, true) => Timed::Undisturbed(ticks),
            (None, false) => Timed::Ticks(ticks),
        })
    }

    /// How many windows were repeated, with the reasons.
    pub fn repeated(&self) -> String {
        let reasons = self.repeated.iter().map(|(why, number)| format!("{number} ({why})"));
        if self.repeated.is_empty() { "0".to_owned() } else { reasons.collect::<Vec<_>>().join(", ") }
    }
}

/// Multiplications in a row that a computing thread makes between two looks at the clock.
const COMPUTED: u64 = 1000;

/// A team next to the calling thread whose members only compute.
pub fn computing(cpus: &[u32], source: Source) -> Result<Team, String> {
    Team::beside(cpus, source, |_| {
        Ok(Box::new(|_| {
            arch::multiply_chain(COMPUTED);
            1
        }))
    })
}

impl Team {
    /// A team whose first member is the calling thread, which must be pinned to the first of the CPUs.
    pub fn with_caller(
        members: Members,
        cpus: &[u32],
        source: Source,
        equip: impl Fn(usize) -> Result<Pass, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let (first, others) = cpus.split_first().ok_or("the members of a team need at least one CPU")?;
        distinct(cpus)?;
        let equip = Arc::new(equip);
        let of_others = Arc::clone(&equip);
        let mut team = Team::of(members, others, source, move |index| of_others(index + 1))?;
        team.own = Some((*first, equip(0)?));
        Ok(team)
    }

    /// A team next to the calling thread: starts a thread on each CPU and equips it.
    pub fn beside(
        cpus: &[u32],
        source: Source,
        equip: impl Fn(usize) -> Result<Pass, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        Team::of(Members::Threads, cpus, source, equip)
    }

    fn of(
        members: Members,
        cpus: &[u32],
        source: Source,
        equip: impl Fn(usize) -> Result<Pass, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        distinct(cpus)?;
        let (equip, gate): (Arc<Equip>, _) = (Arc::new(equip), Arc::new(StartGate::new()?));
        let start = |(index, &cpu): (usize, &u32)| {
            let equip = Arc::clone(&equip);
            Member::start(members, cpu, source, &gate, move || equip(index))
        };
        let mut started: Vec<Member> = cpus.iter().enumerate().map(start).collect::<Result<_, _>>()?;
        started.iter_mut().try_for_each(Member::wait_until_ready)?;
        Ok(Team { own: None, members: started, source, gate })
    }

    /// CPUs of the members.
    pub fn cpus(&self) -> Vec<u32> {
        self.own.iter().map(|(cpu, _)| *cpu).chain(self.members.iter().map(|member| member.cpu)).collect()
    }

    /// Has all members do a job for a number of ticks.
    pub fn window(&mut self, job: usize, ticks: f64, hertz: f64) -> Result<Together, String> {
        let lasts = (ticks as i64).max(1);
        let turn = Turn { job, lasts: Some(lasts), spacing: lasts / READINGS };
        self.order(turn)?;
        let own = self.own.as_mut().map(|(cpu, pass)| work(pass, *cpu, self.source, &self.gate, turn));
        self.collect(own, hertz)
    }

    /// Has all members begin a job, and returns when they have. Only for a team next to the calling thread.
    pub fn begin(&mut self, job: usize, hertz: f64) -> Result<(), String> {
        if self.own.is_some() {
            return Err("the calling thread cannot work and continue".to_owned());
        }
        self.order(Turn { job, lasts: None, spacing: (OPEN_SPACING * hertz / 1e9) as i64 })?;
        while !self.gate.is_open() {
            if self.members.iter().any(Member::has_ended) {
                return Err(ENDED.to_owned());
            }
            // A member may be on the CPU of this thread.
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Has all members end the job that they began.
    pub fn end(&mut self, hertz: f64) -> Result<Together, String> {
        self.gate.stop();
        self.collect(None, hertz)
    }

    fn order(&mut self, turn: Turn) -> Result<(), String> {
        self.gate.close(self.members.len() + usize::from(self.own.is_some()));
        for member in &mut self.members {
            if !member.order(turn) {
                // The members that wait at the gate must not wait for ever.
                self.gate.stop();
                return Err(ENDED.to_owned());
            }
        }
        Ok(())
    }

    fn collect(&mut self, own: Option<MemberProgress>, hertz: f64) -> Result<Together, String> {
        let others: Result<Vec<MemberProgress>, String> = self.members.iter_mut().map(Member::progress).collect();
        let all: Vec<MemberProgress> = own.into_iter().chain(others?).collect();
        together(&all, hertz)
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        // A member in a turn without an end must leave it before it can end.
        self.gate.stop();
    }
}

/// Refuses two members on one CPU.
fn distinct(cpus: &[u32]) -> Result<(), String> {
    let mut distinct = cpus.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() == cpus.len() {
        Ok(())
    } else {
        Err(format!("members of a team must be on separate CPUs, not on {cpus:?}"))
    }
}

/// What several members did in the span that their tracks share.
pub fn together(tracks: &[MemberProgress], hertz: f64) -> Result<Together, String> {
    let ends = |track: &MemberProgress| Some((track.readings.first()?.0, track.readings.last()?.0));
    let spans: Option<Vec<(i64, i64)>> = tracks.iter().map(ends).collect();
    let spans = spans.filter(|spans| !spans.is_empty()).ok_or("a task has no clock reading")?;
    let began = spans.iter().map(|span| span.0).max().unwrap_or(0);
    let ended = spans.iter().map(|span| span.1).min().unwrap_or(0);
    if tracks.iter().any(|track| track.readings.windows(2).any(|pair| pair[1].0 < pair[0].0)) {
        return Err("the clock went backwards in a task".to_owned());
    }
    if tracks.iter().any(|track| track.strays > 0) {
        return Err("a task was not on its own CPU".to_owned());
    }
    let known = tracks.iter().all(|track| track.waited.is_some());
    if ended <= began {
        let (first, last) = (spans.iter().map(|span| span.0).min(), spans.iter().map(|span| span.1).max());
        let ticks = (last.unwrap_or(0) - first.unwrap_or(0)) as f64;
        let bytes = tracks.iter().map(|track| done_by(track, i64::MAX)).sum();
        return Ok(Together { ticks, bytes, known, waited: true, disturbed: Some(APART) });
    }
    let ticks = (ended - began) as f64;
    let longest = spans.iter().map(|span| span.1 - span.0).max().unwrap_or(0) as f64;
    let waited = tracks.iter().filter_map(|track| track.waited).fold(0.0, f64::max);
    let waited = waited > DISTURBED * ticks / hertz * 1e9;
    let disturbed = if waited {
        Some("a task waited for its CPU")
    } else if ticks < (1.0 - DISTURBED) * longest {
        Some("tasks began or ended at different times")
    } else if tracks.iter().any(|track| track.stopped() > DISTURBED * ticks) {
        Some(WAS_STOPPED)
    } else {
        None
    };
    let bytes = tracks.iter().map(|track| done_by(track, ended) - done_by(track, began)).sum();
    Ok(Together { ticks, bytes, known, waited, disturbed })
}

/// Bytes that a member had done at a moment, between two readings in proportion to the time.
fn done_by(track: &MemberProgress, moment: i64) -> f64 {
    let after = track.readings.partition_point(|reading| reading.0 <= moment);
    match (after.checked_sub(1).map(|before| track.readings[before]), track.readings.get(after)) {
        (Some(before), Some(after)) => {
            let share = (moment - before.0) as f64 / (after.0 - before.0) as f64;
            before.1 as f64 + share * (after.1 - before.1) as f64
        }
        (Some(last), None) => last.1 as f64,
        (None, _) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::affinity;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn track(readings: &[(i64, u64)]) -> MemberProgress {
        MemberProgress { readings: readings.to_vec(), ..MemberProgress::default() }
    }

    #[test]
    fn only_the_common_span_counts() {
        // The first works from 0 to 1000 at 1 byte per tick, the second from 100 to 1100 at 2.
        let one = track(&[(0, 0), (400, 400), (1000, 1000)]);
        let other = track(&[(100, 0), (300, 400), (1100, 2000)]);
        let found = together(&[one, other], 1e9).unwrap();
        assert!((found.ticks - 900.0).abs() < 1e-9);
        assert!((found.bytes - (900.0 + 1800.0)).abs() < 1e-9, "{found:?}");
        assert_eq!(found.disturbed, Some("tasks began or ended at different times"));
    }

    #[test]
    fn tracks_that_do_not_meet_are_disturbed() {
        let found = together(&[track(&[(0, 0), (100, 10)]), track(&[(200, 0), (300, 10)])], 1e9).unwrap();
        let expected = Together { ticks: 300.0, bytes: 20.0, known: false, waited: true, disturbed: Some(APART) };
        assert_eq!(found, expected);
    }

    #[test]
    fn tracks_that_go_back_or_stray_are_refused() {
        let one = track(&[(0, 0), (100, 10)]);
        assert!(together(&[track(&[(0, 0), (100, 5), (50, 10), (120, 20)])], 1e9).is_err());
        assert!(together(&[MemberProgress { strays: 1, ..one.clone() }], 1e9).is_err());
        assert!(together(&[], 1e9).is_err());
        assert_eq!(together(&[one], 1e9).unwrap().disturbed, None);
    }

    #[test]
    fn waiting_for_the_cpu_disturbs_a_window() {
        let waited = MemberProgress { waited: Some(50.0), ..track(&[(0, 0), (1000, 10)]) };
        assert_eq!(together(&[waited], 1e9).unwrap().disturbed, Some("a task waited for its CPU"));
    }

    #[test]
    fn a_member_that_is_stopped_disturbs_a_window() {
        let steady: Vec<(i64, u64)> = (0..=100).map(|pass| (pass * 100, pass as u64)).collect();
        assert_eq!(together(&[track(&steady)], 1e9).unwrap().disturbed, None);
        let stopped = |ticks: i64| -> Vec<(i64, u64)> {
            steady.iter().map(|&(tick, pass)| (if tick > 5000 { tick + ticks } else { tick }, pass)).collect()
        };
        let found = |ticks: i64| together(&[track(&stopped(ticks))], 1e9).unwrap().disturbed;
        assert_eq!(found(150), None, "1.5 % of the window");
        assert_eq!(found(250), Some("a task was stopped for a while"));
    }

    #[test]
    fn a_team_works_on_distinct_cpus_and_ends() {
        let cpus = affinity::allowed();
        let equip = |_| -> Result<Pass, String> { Ok(Box::new(|job| job as u64 + 1)) };
        let mut team = Team::beside(&cpus, Source::MonotonicRaw, equip).unwrap();
        // Other tests use these CPUs: a member may get one of them late.
        let mut works = || team.window(2, 2e6, 1e9).is_ok_and(|window| window.ticks > 0.0 && window.bytes > 0.0);
        assert!((0..50).any(|_| works()));
        let mut meet = || {
            team.begin(0, 1e9).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(2));
            team.end(1e9).is_ok_and(|met| met.ticks > 1e6)
        };
        assert!((0..50).any(|_| meet()));
        assert!(Team::beside(&[0, 0], Source::MonotonicRaw, equip).is_err());
        assert!(Team::beside(&cpus, Source::MonotonicRaw, |_| Err("no memory".to_owned())).is_err());
    }

    #[test]
    fn processes_do_a_job_with_memory_that_they_do_not_share() {
        static PASSES: AtomicU64 = AtomicU64::new(0);
        let cpus = affinity::allowed();
        let equip = |_| -> Result<Pass, String> {
            Ok(Box::new(|job| {
                PASSES.fetch_add(1, Ordering::Relaxed);
                job as u64 + 1
            }))
        };
        for members in [Members::Processes, Members::Threads] {
            let mut team = Team::of(members, &cpus, Source::MonotonicRaw, equip).unwrap();
            for job in [2, 0] {
                // Other tests use these CPUs.
                let mut works = || team.window(job, 2e6, 1e9).is_ok_and(|found| found.ticks > 0.0 && found.bytes > 0.0);
                assert!((0..50).any(|_| works()));
            }
            assert_eq!(PASSES.load(Ordering::Relaxed) > 0, members == Members::Threads);
        }
        let refused = Team::of(Members::Processes, &cpus, Source::MonotonicRaw, |_| Err("no memory".to_owned()));
        assert_eq!(refused.err().as_deref(), Some("no memory"));
    }

    #[test]
    fn a_team_that_is_given_up_in_the_middle_ends_too() {
        let equip = |_| -> Result<Pass, String> { Ok(Box::new(|_| 1)) };
        let mut team = Team::beside(&affinity::allowed()[..1], Source::MonotonicRaw, equip).unwrap();
        team.begin(0, 1e9).unwrap();
        drop(team);
    }
}
