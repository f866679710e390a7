//! The members of a [team](super::team): threads of this process, or processes.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::sys::clock::Source;
use crate::sys::memory::SharedWords;
use crate::sys::process::{self, Forked};
use crate::sys::{affinity, counters};

/// Does one pass of a job and returns its bytes or operations.
pub type Pass = Box<dyn FnMut(usize) -> u64>;

/// Makes what a member needs, in the member's own thread, on its CPU: memory lies on that CPU's node.
pub(super) type Equip = dyn Fn(usize) -> Result<Pass, String> + Send + Sync;

/// A member was stopped between two readings where its bytes took more than this many times their median time. A
/// hypervisor that takes the CPU away leaves such a gap, and the kernel of the guest does not see it.
const STOPPED: f64 = 1.5;

/// Readings of the clock that are kept for one turn are at least this share of it apart.
pub(super) const READINGS: i64 = 4096;

/// What the members of a team share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Members {
    /// Threads of this process: its memory and its table of files.
    Threads,
    /// Processes: nothing but the gate.
    Processes,
}

impl Members {
    /// The label of a result that has their number.
    pub fn label(self) -> &'static str {
        match self {
            Members::Threads => "threads",
            Members::Processes => "processes",
        }
    }
}

/// What a member is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    pub job: usize,
    /// Ticks that it lasts. None until the gate is stopped.
    pub lasts: Option<i64>,
    /// Ticks between kept readings.
    pub spacing: i64,
}

/// Where members wait for each other. Threads and processes share it.
pub(super) struct StartGate(SharedWords);

impl StartGate {
    const MISSING: usize = 0;
    const STOP: usize = 1;

    pub fn new() -> Result<Self, String> {
        SharedWords::new(2).map(StartGate).map_err(|error| format!("no memory to share: {error}"))
    }

    /// Closes it until this number of members has arrived.
    pub fn close(&self, members: usize) {
        self.0.at(Self::STOP).store(0, Ordering::Release);
        self.0.at(Self::MISSING).store(members as i64, Ordering::Release);
    }

    pub fn arrive(&self) {
        self.0.at(Self::MISSING).fetch_sub(1, Ordering::AcqRel);
    }

    pub fn is_open(&self) -> bool {
        self.0.at(Self::MISSING).load(Ordering::Acquire) <= 0
    }

    /// Ends the turn of all members.
    pub fn stop(&self) {
        self.0.at(Self::STOP).store(1, Ordering::Release);
    }

    pub fn is_stopped(&self) -> bool {
        self.0.at(Self::STOP).load(Ordering::Acquire) != 0
    }
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

impl MemberProgress {
    /// Ticks for which the member made no progress: what the slowest stretches took above the median time of their bytes.
    pub(super) fn stopped(&self) -> f64 {
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

/// A member other than the calling thread. It ends when this is dropped.
pub(super) struct Member {
    pub cpu: u32,
    link: Link,
}

enum Link {
    Thread {
        ready: Receiver<Result<(), String>>,
        orders: Option<Sender<Turn>>,
        progress: Receiver<MemberProgress>,
        thread: Option<JoinHandle<()>>,
    },
    Process {
        orders: PipeWriter,
        progress: PipeReader,
        process: Option<Forked>,
    },
}

/// Why a member gives no progress.
pub(super) const ENDED: &str = "a member of the team has ended";

impl Member {
    /// Starts a member on a CPU, which then prepares its work.
    pub fn start(
        members: Members,
        cpu: u32,
        source: Source,
        gate: &Arc<StartGate>,
        equip: impl FnOnce() -> Result<Pass, String> + Send + 'static,
    ) -> Result<Member, String> {
        let gate = Arc::clone(gate);
        let prepare = move || {
            affinity::restrict(&[cpu]).map_err(|error| format!("CPU {cpu}: {error}"))?;
            equip()
        };
        let link = match members {
            Members::Threads => Link::thread(prepare, move |pass, turn| work(pass, cpu, source, &gate, turn)),
            Members::Processes => Link::process(prepare, move |pass, turn| work(pass, cpu, source, &gate, turn)),
        };
        Ok(Member { cpu, link: link? })
    }

    /// Waits until it has prepared its work.
    pub fn wait_until_ready(&mut self) -> Result<(), String> {
        match &mut self.link {
            Link::Thread { ready, .. } => ready.recv().map_err(|_| ENDED.to_owned())?,
            Link::Process { progress, .. } => {
                let length = read_words::<1>(progress).map_err(|_| ENDED.to_owned())?[0];
                let mut reason = vec![0; length as usize];
                progress.read_exact(&mut reason).map_err(|_| ENDED.to_owned())?;
                if reason.is_empty() { Ok(()) } else { Err(String::from_utf8_lossy(&reason).into_owned()) }
            }
        }
    }

    /// Gives it an order. False if it has ended.
    pub fn order(&mut self, turn: Turn) -> bool {
        match &mut self.link {
            Link::Thread { orders, .. } => orders.as_ref().is_some_and(|orders| orders.send(turn).is_ok()),
            Link::Process { orders, .. } => {
                write_words(orders, &[turn.job as i64, turn.lasts.unwrap_or(UNLIMITED), turn.spacing]).is_ok()
            }
        }
    }

    /// Waits for what it did in its turn.
    pub fn progress(&mut self) -> Result<MemberProgress, String> {
        match &mut self.link {
            Link::Thread { progress, .. } => progress.recv().map_err(|_| ENDED.to_owned()),
            Link::Process { progress, .. } => read_progress(progress).map_err(|_| ENDED.to_owned()),
        }
    }

    /// Whether it has ended before its time.
    pub fn has_ended(&self) -> bool {
        match &self.link {
            Link::Thread { thread, .. } => thread.as_ref().is_none_or(JoinHandle::is_finished),
            Link::Process { process, .. } => process.as_ref().is_none_or(Forked::ended),
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        match &mut self.link {
            Link::Thread { orders, thread, .. } => {
                *orders = None;
                if let Some(thread) = thread.take() {
                    let _ = thread.join();
                }
            }
            Link::Process { process, .. } => {
                if let Some(process) = process.take() {
                    process.kill();
                }
            }
        }
    }
}

impl Link {
    fn thread(
        prepare: impl FnOnce() -> Result<Pass, String> + Send + 'static,
        work: impl Fn(&mut Pass, Turn) -> MemberProgress + Send + 'static,
    ) -> Result<Link, String> {
        let (orders, ordered) = channel();
        let (done, progress) = channel();
        let (say_ready, ready) = channel();
        let thread = std::thread::Builder::new().spawn(move || match prepare() {
            Ok(mut pass) => {
                let _ = say_ready.send(Ok(()));
                while let Ok(turn) = ordered.recv() {
                    if done.send(work(&mut pass, turn)).is_err() {
                        return;
                    }
                }
            }
            Err(reason) => drop(say_ready.send(Err(reason))),
        });
        let thread = thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Link::Thread { ready, orders: Some(orders), progress, thread: Some(thread) })
    }

    fn process(
        prepare: impl FnOnce() -> Result<Pass, String>,
        work: impl Fn(&mut Pass, Turn) -> MemberProgress,
    ) -> Result<Link, String> {
        let cannot = |error: io::Error| format!("cannot start a process: {error}");
        let (mut ordered, orders) = io::pipe().map_err(cannot)?;
        let (progress, mut done) = io::pipe().map_err(cannot)?;
        let kept = [ordered.as_raw_fd(), done.as_raw_fd()];
        let serve = move || -> io::Result<()> {
            let made = prepare();
            let reason = made.as_ref().err().map_or("", String::as_str);
            write_words(&mut done, &[reason.len() as i64])?;
            done.write_all(reason.as_bytes())?;
            let Ok(mut pass) = made else { return Ok(()) };
            loop {
                let [job, lasts, spacing] = read_words(&mut ordered)?;
                let lasts = Some(lasts).filter(|lasts| *lasts != UNLIMITED);
                write_progress(&mut done, &work(&mut pass, Turn { job: job as usize, lasts, spacing }))?;
            }
        };
        let process = process::fork_keeping(&kept, || i32::from(serve().is_err())).map_err(cannot)?;
        Ok(Link::Process { orders, progress, process: Some(process) })
    }
}

/// Stands for a turn without an end.
const UNLIMITED: i64 = -1;

fn write_words(to: &mut PipeWriter, words: &[i64]) -> io::Result<()> {
    to.write_all(&words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>())
}

fn read_words<const N: usize>(from: &mut PipeReader) -> io::Result<[i64; N]> {
    let mut words = [0; N];
    for word in &mut words {
        let mut bytes = [0; size_of::<i64>()];
        from.read_exact(&mut bytes)?;
        *word = i64::from_ne_bytes(bytes);
    }
    Ok(words)
}

fn write_progress(to: &mut PipeWriter, done: &MemberProgress) -> io::Result<()> {
    let waited = done.waited.unwrap_or(f64::NAN).to_bits() as i64;
    let head = [done.strays as i64, waited, done.readings.len() as i64];
    let readings = done.readings.iter().flat_map(|(ticks, bytes)| [*ticks, *bytes as i64]);
    write_words(to, &head.into_iter().chain(readings).collect::<Vec<i64>>())
}

fn read_progress(from: &mut PipeReader) -> io::Result<MemberProgress> {
    let [strays, waited, count] = read_words(from)?;
    let waited = Some(f64::from_bits(waited as u64)).filter(|waited| !waited.is_nan());
    let mut bytes = vec![0; count as usize * 2 * size_of::<i64>()];
    from.read_exact(&mut bytes)?;
    let words = bytes.as_chunks::<{ size_of::<i64>() }>().0.iter().map(|bytes| i64::from_ne_bytes(*bytes));
    let words: Vec<i64> = words.collect();
    let readings = words.as_chunks::<2>().0.iter().map(|[ticks, bytes]| (*ticks, *bytes as u64)).collect();
    Ok(MemberProgress { readings, strays: strays as u64, waited })
}

/// One turn of one member.
pub(super) fn work(pass: &mut Pass, cpu: u32, source: Source, gate: &StartGate, turn: Turn) -> MemberProgress {
    // Memory that was written before: a page fault would count as work.
    let mut track = MemberProgress { readings: vec![(0, 0); 2 * READINGS as usize], ..MemberProgress::default() };
    track.readings.clear();
    // The first pass of a job finds caches of another; it is done before the gate and not counted.
    pass(turn.job);
    let waited = counters::thread_run_delay();
    gate.arrive();
    while !gate.is_open() && !gate.is_stopped() {
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
        let over = turn.lasts.is_some_and(|lasts| now.ticks - start.ticks >= lasts) || gate.is_stopped();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_passes_a_pipe_unchanged() {
        let (mut from, mut to) = io::pipe().unwrap();
        let progress = |waited| MemberProgress { readings: vec![(-5, 0), (1 << 40, 7)], strays: 3, waited };
        for waited in [Some(0.25), None] {
            write_progress(&mut to, &progress(waited)).unwrap();
            assert_eq!(read_progress(&mut from).unwrap(), progress(waited));
        }
        drop(to);
        assert!(read_progress(&mut from).is_err());
    }

    #[test]
    fn a_member_that_cannot_begin_says_why() {
        let cpu = affinity::allowed()[0];
        for members in [Members::Threads, Members::Processes] {
            let gate = Arc::new(StartGate::new().unwrap());
            let refuse = || Err("no files".to_owned());
            let mut member = Member::start(members, cpu, Source::MonotonicRaw, &gate, refuse).unwrap();
            assert_eq!(member.wait_until_ready(), Err("no files".to_owned()));
            assert!(member.progress().is_err());
        }
    }
}
