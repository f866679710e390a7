//! What a watch has seen so far: of every CPU the last interval and the whole time, and what watching cost.

use std::path::Path;
use std::time::Instant;

use jiff::Zoned;

use crate::machine::quiet::{CpuTicks, StatSample};
use crate::neighbour::Counts;
use crate::neighbour::presence::Presence;
use crate::rig::watch::SeenOfCpu;
use crate::statistics::summary::median;
use crate::sys::clock::process_cpu_time;

/// Most of a CPU that a watch may cost, all included, for each CPU that is watched.
pub(super) const MOST_COST: f64 = 0.002;
/// Looks come rarer where they cost more than this, and more often again below: a margin to the most.
const WANTED_COST: f64 = 0.75 * MOST_COST;
/// Seconds of an interval whose cost is judged: the rest before the end may be a moment in which only the table was made.
const SHORTEST: f64 = 0.4;
/// Bounds of one correction.
const CORRECTIONS: [f64; 2] = [0.8, 2.0];

/// Everything that is reported.
pub(super) struct CpuAccount {
    /// When the watch began, and the last interval ended.
    pub began: Zoned,
    pub ended: Zoned,
    /// Seconds of all intervals.
    pub span: f64,
    pub cores: Vec<Core>,
    /// Share of a CPU that this process cost for each watched one: of all the time, of the last interval, and of the worst.
    pub cost: f64,
    last_cost: f64,
    pub worst_cost: f64,
    /// Nanoseconds of CPU time until the watch began.
    pub start_cost: i64,
    clock: Instant,
    cpu_time: i64,
}

/// What is known of one CPU.
pub(super) struct Core {
    pub cpu: u32,
    pub presence: Presence,
    pub last: WatchedSpan,
    /// Lowest and highest frequency of an interval in hertz.
    pub hertz: Option<[f64; 2]>,
    /// Stolen share of all the time.
    pub steal: Option<f64>,
    /// Nanoseconds that the thread ran and waited for the CPU, in all.
    times: Option<[f64; 2]>,
    /// The kernel's account at the beginning and now.
    ticks: [Option<CpuTicks>; 2],
}

/// What was seen of a CPU in one interval. None is what no source reports.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WatchedSpan {
    pub count: Counts,
    /// Share of the time that the hypervisor took.
    pub steal: Option<f64>,
    /// Nanoseconds that the thread waited for the CPU before a look, on average.
    pub delay: Option<f64>,
    /// Frequency of the core in hertz.
    pub hertz: Option<f64>,
    /// Share of the time that the thread ran.
    pub own: Option<f64>,
}

impl CpuAccount {
    /// Nothing yet.
    pub fn begin(cpus: &[u32]) -> Self {
        let stat = StatSample::read(Path::new("/"));
        let ticks = |cpu: &u32| stat.as_ref().and_then(|stat| stat.each.get(cpu).copied());
        let core = |cpu: &u32| Core {
            cpu: *cpu,
            presence: Presence::default(),
            last: WatchedSpan::default(),
            hertz: None,
            steal: None,
            times: None,
            ticks: [ticks(cpu); 2],
        };
        CpuAccount {
            began: Zoned::now(),
            ended: Zoned::now(),
            span: 0.0,
            cores: cpus.iter().map(core).collect(),
            cost: 0.0,
            last_cost: 0.0,
            worst_cost: 0.0,
            start_cost: process_cpu_time(),
            clock: Instant::now(),
            cpu_time: process_cpu_time(),
        }
    }

    /// Adds an interval that ends now: what was seen of each CPU, in their order.
    pub fn add(&mut self, seen: &[SeenOfCpu]) {
        let (now, cpu_time) = (Instant::now(), process_cpu_time());
        let interval = now.duration_since(self.clock).as_secs_f64();
        let ran = (cpu_time - self.cpu_time) as f64;
        self.ended = Zoned::now();
        (self.clock, self.cpu_time) = (now, cpu_time);
        self.add_interval(interval, ran, StatSample::read(Path::new("/")).as_ref(), seen);
    }

    /// Adds an interval of some seconds in which this process ran for some nanoseconds.
    fn add_interval(&mut self, interval: f64, ran: f64, stat: Option<&StatSample>, seen: &[SeenOfCpu]) {
        self.last_cost = ran * 1e-9 / interval / self.cores.len().max(1) as f64;
        self.cost = (self.cost * self.span + self.last_cost * interval) / (self.span + interval);
        if interval >= SHORTEST {
            self.worst_cost = self.worst_cost.max(self.last_cost);
        }
        self.span += interval;
        for (core, seen) in self.cores.iter_mut().zip(seen) {
            let ticks = stat.and_then(|stat| stat.each.get(&core.cpu).copied());
            core.add(seen, ticks, interval);
        }
    }

    /// How many times as long the pause between two looks should become, so that the cost stays below its bound.
    pub fn correction(&self) -> f64 {
        (self.last_cost / WANTED_COST).clamp(CORRECTIONS[0], CORRECTIONS[1])
    }
}

impl Core {
    fn add(&mut self, seen: &SeenOfCpu, ticks: Option<CpuTicks>, seconds: f64) {
        let hertz: Vec<f64> = seen.looks.iter().map(|look| look.hertz).filter(|hertz| *hertz > 0.0).collect();
        let hertz = median(&hertz);
        let looks = seen.looks.len().max(1) as f64;
        self.last = WatchedSpan {
            count: self.presence.add(&seen.looks),
            steal: self.ticks[1].zip(ticks).and_then(|(before, now)| stolen(before, now)),
            delay: seen.times.map(|[_, waited]| waited / looks),
            hertz,
            own: seen.times.map(|[ran, _]| ran * 1e-9 / seconds),
        };
        self.hertz = match (self.hertz, hertz) {
            (Some([low, high]), Some(new)) => Some([low.min(new), high.max(new)]),
            (known, new) => known.or(new.map(|new| [new; 2])),
        };
        self.times = match (self.times, seen.times) {
            (Some(all), Some(new)) => Some([all[0] + new[0], all[1] + new[1]]),
            (known, new) => known.or(new),
        };
        self.ticks[1] = ticks.or(self.ticks[1]);
        self.steal = self.ticks[0].zip(self.ticks[1]).and_then(|(first, last)| stolen(first, last));
    }

    /// Nanoseconds that the thread waited before a look, on average over all the time.
    pub fn delay(&self) -> Option<f64> {
        let total = self.presence.total();
        self.times.map(|[_, waited]| waited / (total.decided() + total.open()).max(1) as f64)
    }

    /// Share of all the time that the thread ran.
    pub fn own(&self, seconds: f64) -> Option<f64> {
        self.times.map(|[ran, _]| ran * 1e-9 / seconds)
    }
}

/// Share of the time between two accounts that the hypervisor took. Some take stolen time back: then it is nothing.
fn stolen(before: CpuTicks, now: CpuTicks) -> Option<f64> {
    let all = now.wanted() + now.idle - before.wanted() - before.idle;
    (all > 0).then(|| ((now.steal - before.steal) as f64 / all as f64).clamp(0.0, 1.0))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::neighbour::width::WidthLook;

    /// Two CPUs: the first with a neighbour for a third of the looks, the second asleep.
    pub fn scripted() -> CpuAccount {
        let mut account = CpuAccount::begin(&[0, 3]);
        for second in 0..6 {
            let look = |index: u32| WidthLook {
                at: f64::from(second) + f64::from(index) * 0.015,
                width: [1.01, 1.7, 1.0][index as usize / 20],
                hertz: 3e9 + f64::from(second) * 1e6,
            };
            let looks: Vec<WidthLook> = (0..60).map(look).collect();
            let first = SeenOfCpu { cpu: 0, looks, times: Some([1e6, 180_000.0]) };
            let second_cpu = SeenOfCpu { cpu: 3, looks: Vec::new(), times: None };
            account.add_interval(1.0, 2e6, None, &[first, second_cpu]);
        }
        account
    }

    #[test]
    fn an_account_adds_intervals() {
        let account = scripted();
        let [first, second] = &account.cores[..] else { panic!("two CPUs") };
        assert_eq!(first.last.count, Counts { alone: 40, shared: 20, ..Counts::default() });
        assert_eq!(first.presence.total().shared, 120);
        assert_eq!((first.last.delay, first.delay()), (Some(3000.0), Some(3000.0)));
        assert_eq!(first.hertz, Some([3e9, 3.005e9]));
        assert_eq!(first.own(6.0), Some(1e-3));
        assert_eq!((second.last.count.share_of_decided(), second.delay(), second.hertz), (None, None, None));
        assert_eq!(first.last.own, Some(1e-3));
        assert!((account.span - 6.0).abs() < 1e-9 && (account.cost - 1e-3).abs() < 1e-9);
        assert!((account.worst_cost - 1e-3).abs() < 1e-9);
    }

    #[test]
    fn steal_is_a_share_of_the_time() {
        let ticks = |user: i64, idle: i64, steal: i64| CpuTicks { user, idle, steal, ..CpuTicks::default() };
        assert_eq!(stolen(ticks(10, 10, 0), ticks(40, 60, 20)), Some(0.2));
        assert_eq!(stolen(ticks(10, 10, 5), ticks(40, 60, 0)), Some(0.0), "taken back");
        assert_eq!(stolen(ticks(1, 1, 1), ticks(1, 1, 1)), None);
    }

    #[test]
    fn looks_come_rarer_where_they_cost_too_much() {
        let mut account = CpuAccount::begin(&[0]);
        account.last_cost = 2.0 * MOST_COST;
        assert!(account.correction() > 1.5);
        account.last_cost = 0.1 * MOST_COST;
        assert!(account.correction() < 1.0);
    }
}
