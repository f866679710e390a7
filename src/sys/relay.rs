//! Tasks that hand a token around in a circle: the caller is one member, processes or threads are the others.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid};

use super::arch::{multiply_chain, opening, stamp};
use super::counters::{self, ThreadCounters};
use super::memory::SharedWords;
use super::placed::{Around, PlacedLoop};
use super::token::Passage;
use super::{affinity, process};

/// What the circle is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circle {
    /// CPU of each member; the first is the caller's.
    pub cpus: Vec<u32>,
    /// Whether the other members are threads of this process, or separate processes.
    pub threads: bool,
    /// What each member does while it has the token.
    pub burden: Burden,
    /// Seed and number of the random placements of the loops, for two members without a burden. None for compiled loops.
    pub placed: Option<(u64, usize)>,
}

/// Work of a member between taking the token and passing it on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Burden {
    /// Bytes of private memory that it has; it sums up as many of them as [`Relay::work_on`] says, all to begin with.
    pub working_set: usize,
    /// Iterations of the multiply chain, of [`super::arch::CHAIN_CYCLES`] core cycles each.
    pub spin: u64,
}

/// What the kernel counts for a member, and where it ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemberState {
    /// Counters, without the switches of reporting them.
    pub counters: ThreadCounters,
    /// CPU on which it reported.
    pub cpu: u32,
}

/// A burden ready to be carried.
#[derive(Debug)]
pub struct Load {
    numbers: Vec<u64>,
    spin: u64,
}

impl Load {
    /// Takes the memory and writes it.
    pub fn new(burden: Burden) -> Self {
        Load { numbers: (0..(burden.working_set / size_of::<u64>()) as u64).collect(), spin: burden.spin }
    }

    /// Does the work once, on the first bytes of the memory.
    #[inline(always)]
    pub fn carry(&self, bytes: usize) {
        if self.spin > 0 {
            multiply_chain(self.spin);
        }
        if bytes > 0 {
            let part = &self.numbers[..self.numbers.len().min(bytes / size_of::<u64>())];
            std::hint::black_box(part.iter().fold(0_u64, |sum, &number| sum.wrapping_add(number)));
        }
    }
}

/// A circle at work. Its members sleep in the kernel until the token reaches them, and end when it is dropped.
#[derive(Debug)]
pub struct Relay<P: Passage> {
    passages: Arc<Vec<P>>,
    control: Arc<Control>,
    load: Load,
    processes: Vec<Pid>,
    threads: Vec<JoinHandle<()>>,
    reports: std::cell::Cell<i64>,
    loops: Option<RefCell<Loops>>,
}

/// The loop of the caller, and a copy of the other member's loop, whose work takes as long.
struct Loops {
    own: PlacedLoop<'static>,
    other: PlacedLoop<'static>,
}

impl std::fmt::Debug for Loops {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Loops")
    }
}

impl Loops {
    fn draw<P: Passage>(passages: &Arc<Vec<P>>, control: &Arc<Control>, placed: (u64, usize)) -> io::Result<Self> {
        let (to, from) = (&passages[0], &passages[passages.len() - 1]);
        // SAFETY: the operations borrow from the passages, which are held.
        let operations =
            [to.passing(), from.taking()].map(|operation| unsafe { operation.holding(Arc::clone(passages) as _) });
        let mut random = fastrand::Rng::with_seed(placed.0);
        let own = PlacedLoop::draw(&mut random, operations.to_vec(), Around::Work, placed.1)?;
        Ok(Loops { own, other: member_loop(passages, control, 1, placed)? })
    }
}

/// The loop of a member. It ends after it has taken the token if the mode is not the plain one.
fn member_loop<P: Passage>(
    passages: &Arc<Vec<P>>,
    control: &Arc<Control>,
    member: usize,
    (seed, places): (u64, usize),
) -> io::Result<PlacedLoop<'static>> {
    let (from, to) = (&passages[member - 1], &passages[member]);
    // SAFETY: the operations borrow from the passages, which are held with the control words.
    let operations = [from.taking(), to.passing()]
        .map(|operation| unsafe { operation.holding(Arc::new((Arc::clone(passages), Arc::clone(control)))) });
    let mut random = fastrand::Rng::with_seed(seed.wrapping_add(member as u64));
    // SAFETY: the word lives as long as the control words, which the operations hold.
    unsafe { PlacedLoop::stopping(&mut random, operations.to_vec(), std::ptr::from_ref(control.mode()), places) }
}

/// What a member does with the token besides its burden.
const PLAIN: i64 = 0;
const REPORT: i64 = 1;
const STAMP: i64 = 2;
const STOP: i64 = 3;
const MOVE: i64 = 4;

/// Numbers that members share: the mode, the bytes to work on, the placement, then these of each member.
const MODE: usize = 0;
const WORKED_ON: usize = 1;
const PLACE: usize = 2;
const SHARED: usize = 3;
const FIELDS: usize = 7;
const READY: usize = 0;
const VOLUNTARY: usize = 1;
const INVOLUNTARY: usize = 2;
const FAULTS: usize = 3;
const CPU: usize = 4;
const STAMPED: usize = 5;
const CPU_TIME: usize = 6;

/// How long a member may take to begin.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct Control(SharedWords);

impl Control {
    fn mode(&self) -> &std::sync::atomic::AtomicI64 {
        self.0.at(MODE)
    }

    fn field(&self, member: usize, field: usize) -> &std::sync::atomic::AtomicI64 {
        self.0.at(SHARED + member * FIELDS + field)
    }

    fn report(&self, member: usize) {
        let now = counters::thread();
        let set = |field, value| self.field(member, field).store(value, Ordering::Release);
        set(VOLUNTARY, now.voluntary_switches);
        set(INVOLUNTARY, now.involuntary_switches);
        set(FAULTS, now.minor_faults + now.major_faults);
        set(CPU_TIME, now.cpu_time);
        set(CPU, i64::from(affinity::current()));
    }
}

/// Takes, works, passes on, until the mode asks a member to stop.
fn serve<P: Passage>(
    passages: &[P],
    control: &Control,
    member: usize,
    load: &Load,
    mut placed: Option<PlacedLoop<'_>>,
) {
    let (from, to) = (&passages[member - 1], &passages[member]);
    let mut take = || match &mut placed {
        None => from.take(),
        Some(placed) => {
            placed.place(control.0.at(PLACE).load(Ordering::Relaxed) as usize);
            placed.run(u64::MAX).is_ok()
        }
    };
    while take() {
        let mode = control.mode().load(Ordering::Relaxed);
        match mode {
            PLAIN | MOVE => {}
            STAMP => control.field(member, STAMPED).store(stamp().ticks, Ordering::Relaxed),
            REPORT => control.report(member),
            _ => {
                to.pass();
                return;
            }
        }
        load.carry(control.0.at(WORKED_ON).load(Ordering::Relaxed) as usize);
        if !to.pass() {
            return;
        }
    }
}

/// A member's life: settles on its CPU, says so, and serves with its burden, from a loop at drawn places or not.
fn live<P: Passage>(
    passages: &Arc<Vec<P>>,
    control: &Arc<Control>,
    member: usize,
    cpu: u32,
    (burden, placed): (Burden, Option<(u64, usize)>),
) {
    let load = Load::new(burden);
    let placed = placed.map(|placed| member_loop(passages, control, member, placed)).transpose();
    let settled = placed.and_then(|placed| affinity::restrict(&[cpu]).map(|()| placed));
    control.field(member, READY).store(if settled.is_ok() { 1 } else { -1 }, Ordering::Release);
    // The caller gives up where a member does not settle, and ends it.
    serve(passages, control, member, &load, settled.ok().flatten());
}

impl<P: Passage> Relay<P> {
    /// Starts the other members. Processes must be started before threads are: a forked child has one thread only.
    pub fn start(circle: &Circle) -> io::Result<Self> {
        let members = circle.cpus.len();
        if members < 2 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a circle has at least two members"));
        }
        let mut relay = Relay {
            passages: Arc::new(P::circle(members, circle.threads)?),
            control: Arc::new(Control(SharedWords::new(SHARED + members * FIELDS)?)),
            load: Load::new(circle.burden),
            processes: Vec::new(),
            threads: Vec::new(),
            reports: std::cell::Cell::new(0),
            loops: None,
        };
        if let Some(placed) = circle.placed {
            relay.loops = Some(RefCell::new(Loops::draw(&relay.passages, &relay.control, placed)?));
        }
        relay.work_on(circle.burden.working_set);
        for (member, &cpu) in circle.cpus.iter().enumerate().skip(1) {
            if circle.threads {
                relay.start_thread(member, cpu, circle)?;
            } else {
                relay.start_process(member, cpu, circle)?;
            }
        }
        relay.wait_for_members(members)?;
        Ok(relay)
    }

    fn start_process(&mut self, member: usize, cpu: u32, circle: &Circle) -> io::Result<()> {
        let parent = std::process::id();
        // SAFETY: the child serves on memory that it shares or copied, and leaves with _exit(2), which runs nothing of the
        // parent's.
        match unsafe { nix::unistd::fork() }? {
            ForkResult::Parent { child } => self.processes.push(child),
            ForkResult::Child => {
                if process::die_with_parent(parent) {
                    live(&self.passages, &self.control, member, cpu, (circle.burden, circle.placed));
                }
                // SAFETY: ends this process at once.
                unsafe { libc::_exit(0) }
            }
        }
        Ok(())
    }

    fn start_thread(&mut self, member: usize, cpu: u32, circle: &Circle) -> io::Result<()> {
        let (passages, control) = (Arc::clone(&self.passages), Arc::clone(&self.control));
        let has = (circle.burden, circle.placed);
        self.threads.push(std::thread::Builder::new().spawn(move || live(&passages, &control, member, cpu, has))?);
        Ok(())
    }

    fn wait_for_members(&self, members: usize) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        for member in 1..members {
            loop {
                match self.control.field(member, READY).load(Ordering::Acquire) {
                    1 => break,
                    0 if Instant::now() < deadline => std::thread::sleep(Duration::from_micros(200)),
                    0 => return Err(io::Error::new(io::ErrorKind::TimedOut, "a member of the circle did not begin")),
                    _ => return Err(io::Error::other("a member of the circle may not run on its CPU")),
                }
            }
        }
        Ok(())
    }

    /// Says how many bytes of its memory each member sums up.
    pub fn work_on(&self, bytes: usize) {
        self.control.0.at(WORKED_ON).store(bytes as i64, Ordering::Release);
    }

    /// Sends the token round a number of times; the caller carries its burden like every other member.
    #[inline(always)]
    pub fn laps(&self, count: u64) -> Result<(), String> {
        let (to, from) = (&self.passages[0], &self.passages[self.passages.len() - 1]);
        let bytes = self.control.0.at(WORKED_ON).load(Ordering::Relaxed) as usize;
        for _ in 0..count {
            self.load.carry(bytes);
            if !(to.pass() && from.take()) {
                return Err("the kernel refused to pass the token".to_owned());
            }
        }
        Ok(())
    }

    /// The same by the placed loops, with the work of each member around its operations.
    pub fn placed_laps(&self, count: u64) -> Result<(), String> {
        self.loops.as_ref().ok_or("the loops are not placed")?.borrow_mut().own.run(count)
    }

    /// The work of this many [`placed_laps`](Self::placed_laps) without the token.
    pub fn rest(&self, count: u64) {
        if let Some(loops) = &self.loops {
            let mut loops = loops.borrow_mut();
            loops.own.rest(count);
            loops.other.rest(count);
        }
    }

    /// Goes to one of the placements, on both sides.
    pub fn place(&self, index: usize) -> Result<(), String> {
        let Some(loops) = &self.loops else { return Ok(()) };
        let mut both = loops.borrow_mut();
        both.own.place(index);
        both.other.place(index);
        self.control.0.at(PLACE).store(index as i64, Ordering::Release);
        self.lap_in(MOVE)
    }

    /// What the kernel counted for every other member so far: one more lap, whose switches are not in the figures.
    pub fn states(&self) -> Result<Vec<MemberState>, String> {
        self.lap_in(REPORT)?;
        self.reports.set(self.reports.get() + 1);
        let value = |member, field| self.control.field(member, field).load(Ordering::Acquire);
        Ok((1..self.passages.len())
            .map(|member| MemberState {
                counters: ThreadCounters {
                    voluntary_switches: value(member, VOLUNTARY) - self.reports.get(),
                    involuntary_switches: value(member, INVOLUNTARY),
                    minor_faults: value(member, FAULTS),
                    cpu_time: value(member, CPU_TIME),
                    ..ThreadCounters::default()
                },
                cpu: value(member, CPU) as u32,
            })
            .collect())
    }

    /// One lap's way from the caller to the next member and the rest of the way back, in ticks of the counter.
    pub fn halves(&self) -> Result<(i64, i64), String> {
        let left = opening().ticks;
        self.lap_in(STAMP)?;
        let back = stamp().ticks;
        let arrived = self.control.field(1, STAMPED).load(Ordering::Relaxed);
        Ok((arrived - left, back - arrived))
    }

    fn lap_in(&self, mode: i64) -> Result<(), String> {
        self.control.mode().store(mode, Ordering::Release);
        let lapped = self.laps(1);
        self.control.mode().store(PLAIN, Ordering::Release);
        lapped
    }
}

impl<P: Passage> Drop for Relay<P> {
    fn drop(&mut self) {
        for &member in &self.processes {
            // A member that is gone already is what is wanted.
            let _ = kill(member, Signal::SIGKILL);
        }
        for &member in &self.processes {
            let _ = waitpid(member, None);
        }
        if !self.threads.is_empty() && self.wait_for_members(self.threads.len() + 1).is_ok() {
            let _ = self.lap_in(STOP);
        }
        for member in self.threads.drain(..) {
            let _ = member.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::token::{Event, Futex, Pipe};

    fn circle(members: usize, threads: bool) -> Circle {
        let cpu = affinity::allowed()[0];
        Circle { cpus: vec![cpu; members], threads, burden: Burden { working_set: 1 << 12, spin: 1 }, placed: None }
    }

    fn switches<P: Passage>(members: usize, threads: bool) {
        affinity::restrict(&[affinity::allowed()[0]]).unwrap();
        let relay = Relay::<P>::start(&circle(members, threads)).unwrap();
        relay.laps(20).unwrap();
        let before = relay.states().unwrap();
        relay.laps(200).unwrap();
        let after = relay.states().unwrap();
        assert_eq!(after.len(), members - 1);
        for (before, after) in before.iter().zip(&after) {
            let counted = |counters: &ThreadCounters| counters.voluntary_switches + counters.involuntary_switches;
            let found = counted(&after.counters) - counted(&before.counters);
            // In a circle of more than two, who was pushed aside by the one it woke runs once more to go to sleep.
            let most = if members == 2 { 220 } else { 420 };
            assert!((200..=most).contains(&found), "{found} switches in 200 laps");
        }
        let (there, back) = relay.halves().unwrap();
        assert!(there > 0 && back > 0);
    }

    #[test]
    fn every_member_switches_in_every_lap() {
        switches::<Pipe>(2, false);
        switches::<Event>(2, true);
        switches::<Futex>(3, false);
        switches::<Futex>(3, true);
    }

    #[test]
    fn placed_laps_switch_as_often_and_the_placement_moves() {
        fn switches<P: Passage>(threads: bool) {
            affinity::restrict(&[affinity::allowed()[0]]).unwrap();
            let relay =
                Relay::<P>::start(&Circle { placed: Some((9, 3)), burden: Burden::default(), ..circle(2, threads) })
                    .unwrap();
            for place in 0..3 {
                relay.place(place).unwrap();
                let before = relay.states().unwrap()[0].counters;
                relay.placed_laps(100).unwrap();
                relay.rest(100);
                let after = relay.states().unwrap()[0].counters;
                let found = after.voluntary_switches + after.involuntary_switches
                    - before.voluntary_switches
                    - before.involuntary_switches;
                assert!((100..=120).contains(&found), "{found} switches in 100 laps");
            }
        }
        switches::<Pipe>(false);
        switches::<Event>(true);
        switches::<Futex>(false);
        switches::<Futex>(true);
    }

    #[test]
    fn members_end_with_the_relay() {
        let relay = Relay::<Pipe>::start(&circle(4, false)).unwrap();
        let members = relay.processes.clone();
        drop(relay);
        assert!(members.iter().all(|&member| kill(member, None).is_err()));
    }

    #[test]
    fn a_member_that_may_not_run_on_its_cpu_is_an_error() {
        let mut circle = circle(2, false);
        circle.cpus[1] = 1000;
        assert!(Relay::<Pipe>::start(&circle).is_err());
    }
}
