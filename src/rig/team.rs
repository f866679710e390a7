//! A team: threads that work at the same time, each pinned to a separate CPU.
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
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use super::workload::Timed;
use crate::sys::clock::Source;
use crate::sys::{affinity, arch, counters};

/// Does one pass of a job and returns its bytes or operations.
pub type Pass = Box<dyn FnMut(usize) -> u64>;

/// Makes what a member needs, in the member's own thread, on its CPU: memory lies on that CPU's node.
type Equip = dyn Fn(usize) -> Result<Pass, String> + Send + Sync;

/// Share of a window that a member may wait for its CPU, be stopped, or be alone, before the window is called disturbed.
const DISTURBED: f64 = 0.02;

/// A member was stopped between two readings where its bytes took more than this many times their median time. A
/// hypervisor that takes the CPU away leaves such a gap, and the kernel of the guest does not see it.
const STOPPED: f64 = 1.5;

/// Why a window is disturbed in which members did not work at the same time.
const APART: &str = "the threads never worked at the same time";

/// Why a window is disturbed in which a member was stopped.
const WAS_STOPPED: &str = "a thread was stopped for a while";

/// Readings of the clock that are kept for one turn are at least this share of it apart.
const READINGS: i64 = 4096;

/// Nanoseconds between kept readings in a turn whose end is not known.
const OPEN_SPACING: f64 = 100_000.0;

/// Threads on separate CPUs.
pub struct Team {
    /// The calling thread's part, where it is a member.
    own: Option<(u32, Pass)>,
    members: Vec<Member>,
    source: Source,
    turn: Option<Arc<StartGate>>,
}

struct Member {
    cpu: u32,
    orders: Option<Sender<Turn>>,
    tracks: Receiver<MemberProgress>,
    thread: Option<JoinHandle<()>>,
}

/// What a member is asked to do.
#[derive(Clone)]
struct Turn {
    job: usize,
    /// Ticks that it lasts; none until the gate says stop.
    lasts: Option<i64>,
    /// Ticks between kept readings.
    spacing: i64,
    gate: Arc<StartGate>,
}

struct StartGate {
    missing: AtomicUsize,
    stop: AtomicBool,
}

/// What a member did in one turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemberProgress {
    /// Ticks, and bytes done until then; the first reading is the start, and they rise.
    pub readings: Vec<(i64, u64)>,
    /// Readings taken on another CPU than the member's own.
    pub strays: u64,
    /// Nanoseconds that it was ready and waited for its CPU, if the kernel says so.
    pub waited: Option<f64>,
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

impl MemberProgress {
    /// Ticks for which the member made no progress: what the slowest stretches took above the median time of their bytes.
    fn stopped(&self) -> f64 {
        let stretches = || {
            let pairs = self.readings.windows(2).filter(|pair| pair[1].1 > pair[0].1);
            pairs.map(|pair| ((pair[1].0 - pair[0].0) as f64, (pair[1].1 - pair[0].1) as f64))
        };
        let mut paces: Vec<f64> = stretches().map(|(ticks, bytes)| ticks / bytes).collect();
        paces.sort_unstable_by(f64::total_cmp);
        let Some(&median) = paces.get(paces.len() / 2) else { return 0.0 };
        let over = stretches().map(|(ticks, bytes)| (ticks, bytes * median));
        over.filter(|(ticks, usual)| *ticks > STOPPED * usual).map(|(ticks, usual)| ticks - usual).sum()
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
        cpus: &[u32],
        source: Source,
        equip: impl Fn(usize) -> Result<Pass, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let (first, others) = cpus.split_first().ok_or("the threads of a team need at least one CPU")?;
        if others.contains(first) {
            return Err(format!("threads of a team must be on separate CPUs, not on {cpus:?}"));
        }
        let equip = Arc::new(equip);
        let of_others = Arc::clone(&equip);
        let mut team = Team::beside(others, source, move |index| of_others(index + 1))?;
        team.own = Some((*first, equip(0)?));
        Ok(team)
    }

    /// A team next to the calling thread: starts a thread on each CPU and equips it.
    pub fn beside(
        cpus: &[u32],
        source: Source,
        equip: impl Fn(usize) -> Result<Pass, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let mut distinct = cpus.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() != cpus.len() {
            return Err(format!("threads of a team must be on separate CPUs, not on {cpus:?}"));
        }
        let equip: Arc<Equip> = Arc::new(equip);
        let mut team = Team { own: None, members: Vec::new(), source, turn: None };
        let mut ready = Vec::new();
        for (index, &cpu) in cpus.iter().enumerate() {
            let (orders, ordered) = channel();
            let (done, tracks) = channel();
            let (say_ready, is_ready) = channel();
            let equip = Arc::clone(&equip);
            let thread = std::thread::Builder::new()
                .spawn(move || {
                    let pinned = affinity::restrict(&[cpu]).map_err(|error| format!("CPU {cpu}: {error}"));
                    match pinned.and_then(|()| equip(index)) {
                        Ok(pass) => {
                            let _ = say_ready.send(Ok(()));
                            serve(pass, cpu, source, &ordered, &done);
                        }
                        Err(reason) => drop(say_ready.send(Err(reason))),
                    }
                })
                .map_err(|error| format!("cannot start a thread: {error}"))?;
            ready.push(is_ready);
            team.members.push(Member { cpu, orders: Some(orders), tracks, thread: Some(thread) });
        }
        for ready in ready {
            ready.recv().map_err(|_| "a thread ended while it prepared its memory".to_owned())??;
        }
        Ok(team)
    }

    /// CPUs of the members.
    pub fn cpus(&self) -> Vec<u32> {
        self.own.iter().map(|(cpu, _)| *cpu).chain(self.members.iter().map(|member| member.cpu)).collect()
    }

    /// Has all members do a job for a number of ticks.
    pub fn window(&mut self, job: usize, ticks: f64, hertz: f64) -> Result<Together, String> {
        let lasts = (ticks as i64).max(1);
        let turn = self.order(job, Some(lasts), lasts / READINGS)?;
        let own = self.own.as_mut().map(|(cpu, pass)| work(pass, *cpu, self.source, &turn));
        self.collect(own, hertz)
    }

    /// Has all members begin a job, and returns when they have. Only for a team next to the calling thread.
    pub fn begin(&mut self, job: usize, hertz: f64) -> Result<(), String> {
        if self.own.is_some() {
            return Err("the calling thread cannot work and continue".to_owned());
        }
        let turn = self.order(job, None, (OPEN_SPACING * hertz / 1e9) as i64)?;
        while turn.gate.missing.load(Ordering::Acquire) > 0 {
            if self.members.iter().any(|member| member.thread.as_ref().is_none_or(JoinHandle::is_finished)) {
                return Err("a thread of the team has ended".to_owned());
            }
            // A member may be on the CPU of this thread.
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Has all members end the job that they began.
    pub fn end(&mut self, hertz: f64) -> Result<Together, String> {
        if let Some(gate) = self.turn.take() {
            gate.stop.store(true, Ordering::Release);
        }
        self.collect(None, hertz)
    }

    fn order(&mut self, job: usize, lasts: Option<i64>, spacing: i64) -> Result<Turn, String> {
        let all = self.members.len() + usize::from(self.own.is_some());
        let gate = Arc::new(StartGate { missing: AtomicUsize::new(all), stop: AtomicBool::new(false) });
        self.turn = lasts.is_none().then(|| Arc::clone(&gate));
        let turn = Turn { job, lasts, spacing, gate };
        for member in &self.members {
            let sent = member.orders.as_ref().is_some_and(|orders| orders.send(turn.clone()).is_ok());
            if !sent {
                // Who waits at the gate must not wait for ever.
                turn.gate.stop.store(true, Ordering::Release);
                return Err("a thread of the team has ended".to_owned());
            }
        }
        Ok(turn)
    }

    fn collect(&self, own: Option<MemberProgress>, hertz: f64) -> Result<Together, String> {
        let others = self.members.iter().map(|member| member.tracks.recv());
        let others: Vec<MemberProgress> =
            others.collect::<Result<_, _>>().map_err(|_| "a thread of the team has ended".to_owned())?;
        let tracks: Vec<MemberProgress> = own.into_iter().chain(others).collect();
        together(&tracks, hertz)
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        if let Some(gate) = self.turn.take() {
            gate.stop.store(true, Ordering::Release);
        }
        for member in &mut self.members {
            member.orders = None;
        }
        for member in &mut self.members {
            if let Some(thread) = member.thread.take() {
                let _ = thread.join();
            }
        }
    }
}

/// A member's life: turn after turn until no orders come any more.
fn serve(mut pass: Pass, cpu: u32, source: Source, orders: &Receiver<Turn>, done: &Sender<MemberProgress>) {
    while let Ok(turn) = orders.recv() {
        if done.send(work(&mut pass, cpu, source, &turn)).is_err() {
            return;
        }
    }
}

/// One turn of one member.
fn work(pass: &mut Pass, cpu: u32, source: Source, turn: &Turn) -> MemberProgress {
    // Memory that was written before: a page fault would count as work.
    let mut track = MemberProgress { readings: vec![(0, 0); 2 * READINGS as usize], ..MemberProgress::default() };
    track.readings.clear();
    // The first pass of a job finds caches of another; it is done before the gate and not counted.
    pass(turn.job);
    let waited = counters::thread_run_delay();
    turn.gate.missing.fetch_sub(1, Ordering::AcqRel);
    while turn.gate.missing.load(Ordering::Acquire) > 0 && !turn.gate.stop.load(Ordering::Acquire) {
        std::hint::spin_loop();
    }
    let start = source.stamp();
    let mut bytes = 0;
    track.readings.push((start.ticks, 0));
    track.strays += u64::from(start.cpu != cpu);
    loop {
        bytes += pass(turn.job);
        let now = source.stamp();
        track.strays += u64::from(now.cpu != cpu);
        let last = track.readings.last().map_or(start.ticks, |reading| reading.0);
        let over =
            turn.lasts.is_some_and(|lasts| now.ticks - start.ticks >= lasts) || turn.gate.stop.load(Ordering::Acquire);
        if over || now.ticks - last >= turn.spacing {
            track.readings.push((now.ticks, bytes));
        }
        if over {
            break;
        }
    }
    track.waited = counters::thread_run_delay().zip(waited).map(|(now, before)| now - before);
    track
}

/// What several members did in the span that their tracks share.
pub fn together(tracks: &[MemberProgress], hertz: f64) -> Result<Together, String> {
    let ends = |track: &MemberProgress| Some((track.readings.first()?.0, track.readings.last()?.0));
    let spans: Option<Vec<(i64, i64)>> = tracks.iter().map(ends).collect();
    let spans = spans.filter(|spans| !spans.is_empty()).ok_or("a thread has no clock reading")?;
    let began = spans.iter().map(|span| span.0).max().unwrap_or(0);
    let ended = spans.iter().map(|span| span.1).min().unwrap_or(0);
    if tracks.iter().any(|track| track.readings.windows(2).any(|pair| pair[1].0 < pair[0].0)) {
        return Err("the clock went backwards in a thread".to_owned());
    }
    if tracks.iter().any(|track| track.strays > 0) {
        return Err("a thread was not on its own CPU".to_owned());
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
        Some("a thread waited for its CPU")
    } else if ticks < (1.0 - DISTURBED) * longest {
        Some("threads began or ended at different times")
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
        assert_eq!(found.disturbed, Some("threads began or ended at different times"));
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
        assert_eq!(together(&[waited], 1e9).unwrap().disturbed, Some("a thread waited for its CPU"));
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
        assert_eq!(found(250), Some("a thread was stopped for a while"));
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
    fn a_team_that_is_given_up_in_the_middle_ends_too() {
        let equip = |_| -> Result<Pass, String> { Ok(Box::new(|_| 1)) };
        let mut team = Team::beside(&affinity::allowed()[..1], Source::MonotonicRaw, equip).unwrap();
        team.begin(0, 1e9).unwrap();
        drop(team);
    }
}
