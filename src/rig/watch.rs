//! A watch over cores: a thread on each CPU looks at the width of its core at random moments, a look of about 13 µs.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::clock;
use super::instruments::{Instruments, Live};
use crate::neighbour::width::WidthLook;
use crate::results::problem::Problem;
use crate::sys::clock::Source;
use crate::sys::{arch, counters, system_call};

/// What was seen of a CPU since it was asked last.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenOfCpu {
    pub cpu: u32,
    pub looks: Vec<WidthLook>,
    /// Nanoseconds that its thread ran, and that it was runnable and waited; none where the kernel does not account them.
    pub times: Option<[f64; 2]>,
}

/// Threads that look at cores until this value ends.
pub struct CoreWatch {
    watchers: Vec<Watcher>,
    shared: Arc<WatchState>,
}

struct Watcher {
    cpu: u32,
    looks: Looks,
    number: i64,
    /// Its times when it was asked last.
    times: Option<[f64; 2]>,
    thread: Option<JoinHandle<()>>,
}

type Looks = Arc<Mutex<Vec<WidthLook>>>;

/// What all threads of a watch read.
struct WatchState {
    began: Instant,
    hertz: f64,
    stop: AtomicBool,
    /// Microseconds between two looks, on average.
    pause: AtomicU64,
}

/// Tries to open a CPU: a change of frequency or a neighbour spoils the check of the chains now and then.
const OPENINGS: u32 = 10;
const BETWEEN_OPENINGS: Duration = Duration::from_millis(20);

/// Longest pause between two looks in microseconds.
const LONGEST_PAUSE: u64 = 100_000;

impl CoreWatch {
    /// Starts a thread on each CPU. The counter ticks at `hertz`; `pause` is the time between two looks, on average. Returns when
    /// all of them look.
    pub fn start(cpus: &[u32], hertz: f64, pause: Duration) -> Result<CoreWatch, Problem> {
        let shared = Arc::new(WatchState {
            began: Instant::now(),
            hertz,
            stop: AtomicBool::new(false),
            pause: AtomicU64::new(pause.as_micros() as u64),
        });
        // Threads that have begun end with this value, also where another one fails.
        let mut watch = CoreWatch { watchers: Vec::new(), shared };
        let (say, opened) = channel();
        for &cpu in cpus {
            let (looks, shared, say) = (Looks::default(), Arc::clone(&watch.shared), say.clone());
            let own = Arc::clone(&looks);
            let thread = std::thread::Builder::new()
                .name(format!("looks at CPU {cpu}"))
                .spawn(move || watch_one(cpu, &shared, &own, say))
                .map_err(|error| {
                    Problem::new(format!("cannot start a thread for CPU {cpu}: {error}"))
                        .hint("allow this process more threads (ulimit -u, pids.max), or watch fewer CPUs")
                })?;
            watch.watchers.push(Watcher { cpu, looks, number: 0, times: None, thread: Some(thread) });
        }
        drop(say);
        for (cpu, outcome) in opened {
            let number = outcome?;
            if let Some(watcher) = watch.watchers.iter_mut().find(|watcher| watcher.cpu == cpu) {
                watcher.number = number;
            }
        }
        // What was seen while others still opened belongs to no span.
        watch.take();
        Ok(watch)
    }

    /// What was seen of each CPU since the last call, in the order of the CPUs.
    pub fn take(&mut self) -> Vec<SeenOfCpu> {
        let seen = |watcher: &mut Watcher| {
            let now = counters::times_of_thread(watcher.number);
            let before = std::mem::replace(&mut watcher.times, now);
            let times = now.zip(before).map(|(now, before)| [now[0] - before[0], now[1] - before[1]]);
            let looks = std::mem::take(&mut *watcher.looks.lock().unwrap_or_else(PoisonError::into_inner));
            SeenOfCpu { cpu: watcher.cpu, looks, times }
        };
        self.watchers.iter_mut().map(seen).collect()
    }

    /// Has looks come rarer, or more often again: the pause becomes this many times as long.
    pub fn stretch(&self, factor: f64, shortest: Duration) {
        let pause = self.shared.pause.load(Ordering::Relaxed) as f64 * factor;
        let least = (shortest.as_micros() as u64).min(LONGEST_PAUSE);
        self.shared.pause.store((pause as u64).clamp(least, LONGEST_PAUSE), Ordering::Relaxed);
    }
}

impl Drop for CoreWatch {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.watchers.iter_mut().filter_map(|watcher| watcher.thread.take()) {
            // One that panicked has also ended.
            let _ = thread.join();
        }
    }
}

/// The life of a thread: opens its CPU, says so, and looks until it is stopped.
fn watch_one(cpu: u32, shared: &WatchState, looks: &Looks, say: Sender<(u32, Result<i64, Problem>)>) {
    let mut live = match open(cpu, shared) {
        Ok(live) => live,
        // Where no thread listens any more, another CPU has failed before.
        Err(problem) => return drop(say.send((cpu, Err(problem)))),
    };
    let _ = say.send((cpu, Ok(system_call::thread_number())));
    // Who waits for all threads waits until no sender is left.
    drop(say);
    let mut random = fastrand::Rng::new();
    while !shared.stop.load(Ordering::Relaxed) {
        let look = look(&mut live, shared);
        looks.lock().unwrap_or_else(PoisonError::into_inner).push(look);
        let pause = shared.pause.load(Ordering::Relaxed);
        if pause > 0 {
            // Random, so that nothing that comes at even distances is always met, or never.
            std::thread::sleep(Duration::from_micros(random.u64(around(pause))));
        }
    }
}

/// Pauses of a third more or less.
fn around(pause: u64) -> Range<u64> {
    pause - pause / 3..pause + pause / 3 + 1
}

/// Pins the thread and validates the chains.
fn open(cpu: u32, shared: &WatchState) -> Result<Live, Problem> {
    clock::counter_usable(cpu).map_err(|problem| {
        Problem::new(format!("CPU {cpu}: {}", problem.what))
            .hint("a look lasts a microsecond and needs the counter. On virtual machines the host can enable it")
    })?;
    for _ in 0..OPENINGS {
        let mut live = Live::on(cpu, Source::Counter, shared.hertz);
        if live.probe().is_some() {
            return Ok(live);
        }
        if shared.stop.load(Ordering::Relaxed) {
            break;
        }
        std::thread::sleep(BETWEEN_OPENINGS);
    }
    Err(Problem::new(format!(
        "no chain of known latency is valid on CPU {cpu}, so the {} cannot be converted into core cycles",
        arch::COUNTER
    ))
    .hint("try again when the machine is less busy, or watch other CPUs"))
}

fn look(live: &mut Live, shared: &WatchState) -> WidthLook {
    let at = shared.began.elapsed().as_secs_f64();
    // Not counted: after a pause the code is in no cache, and the first turns take longer.
    live.width();
    let per_cycle = live.probe().unwrap_or(0.0);
    let turn = live.width();
    let here = live.stamp().cpu == live.cpu();
    let (width, hertz) =
        if per_cycle > 0.0 && here { (turn / per_cycle, live.hertz() / per_cycle) } else { (0.0, 0.0) };
    WidthLook { at, width, hertz }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::affinity;

    #[test]
    fn pauses_scatter_around_their_mean() {
        assert_eq!(around(15_000), 10_000..20_001);
        assert_eq!(around(1), 1..2);
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_refused() {
        let problem = CoreWatch::start(&[60_000], 1e9, Duration::from_millis(15)).err().unwrap();
        assert!(problem.what.contains("CPU 60000") && problem.hint.is_some(), "{problem}");
    }

    #[test]
    fn what_was_seen_is_seen_once() {
        let allowed = affinity::allowed();
        // Where no chain validates there is nothing to see, and a reason.
        let Ok(mut watch) = CoreWatch::start(&allowed[..1], 1e9, Duration::from_millis(1)) else { return };
        std::thread::sleep(Duration::from_millis(50));
        let (first, second) = (watch.take(), watch.take());
        assert_eq!(first[0].cpu, allowed[0]);
        assert!(!first[0].looks.is_empty() && second[0].looks.len() < first[0].looks.len().max(3));
        assert!(first[0].looks.windows(2).all(|pair| pair[0].at < pair[1].at));
        assert_eq!(affinity::allowed(), allowed, "the caller is not pinned");
    }
}
