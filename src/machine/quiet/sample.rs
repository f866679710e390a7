//! Where the CPU time went, between two readings of `/proc/stat`.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::tree::Tree;

/// One reading of `/proc/stat` (`proc_stat(5)`): totals since boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatSample {
    /// All CPUs together.
    pub total: CpuTicks,
    /// Each CPU by its number.
    pub each: BTreeMap<u32, CpuTicks>,
    /// Context switches.
    pub context_switches: i64,
    /// Tasks that run or are ready to run, the reader included.
    pub running: u32,
    /// Tasks that wait for a disk.
    pub blocked: u32,
}

/// CPU time in ticks of USER_HZ (10 ms on every Linux that people run). Differences are signed: the kernel's idle and
/// waiting times can go backwards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuTicks {
    /// Programs, nice ones and guests included.
    pub user: i64,
    /// The kernel for programs.
    pub system: i64,
    /// Nothing to do, or waiting for a disk.
    pub idle: i64,
    /// Interrupts.
    pub interrupts: i64,
    /// The hypervisor ran something else while this CPU had work.
    pub steal: i64,
}

impl CpuTicks {
    /// The time in which there was work: done, or stolen.
    pub fn wanted(self) -> i64 {
        self.user + self.system + self.interrupts + self.steal
    }

    /// Stolen part of the time in which there was work, 0 to 1; `None` when there was none. An idle CPU cannot be stolen
    /// from, so the part of all time would say little.
    pub fn stolen(self) -> Option<f64> {
        (self.wanted() > 0).then(|| self.steal.max(0) as f64 / self.wanted() as f64)
    }
}

impl StatSample {
    /// Reads `/proc/stat` under `root`; `None` when it cannot be understood.
    pub fn read(root: &Path) -> Option<StatSample> {
        StatSample::parse(&Tree::at(root).text("/proc/stat")?)
    }

    /// Reads the text of `/proc/stat`.
    pub fn parse(text: &str) -> Option<StatSample> {
        let mut sample = StatSample::default();
        let mut found = false;
        for line in text.lines() {
            let Some((key, rest)) = line.split_once(' ') else { continue };
            match key {
                "cpu" => {
                    sample.total = parse_ticks(rest)?;
                    found = true;
                }
                "ctxt" => sample.context_switches = rest.trim().parse().unwrap_or(0),
                "procs_running" => sample.running = rest.trim().parse().unwrap_or(0),
                "procs_blocked" => sample.blocked = rest.trim().parse().unwrap_or(0),
                _ => {
                    let number = key.strip_prefix("cpu").and_then(|number| number.parse().ok());
                    if let (Some(number), Some(ticks)) = (number, parse_ticks(rest)) {
                        sample.each.insert(number, ticks);
                    }
                }
            }
        }
        found.then_some(sample)
    }
}

/// `user nice system idle iowait irq softirq steal …`; guest times are part of user time. Kernels before 2.6.11 end earlier.
fn parse_ticks(text: &str) -> Option<CpuTicks> {
    /// A thousand CPUs for a thousand years; sums of eight such numbers still fit.
    const MOST_TICKS: i64 = 1 << 52;
    let fields: Option<Vec<i64>> = text
        .split_whitespace()
        .map(|field| field.parse().ok().filter(|ticks| (0..MOST_TICKS).contains(ticks)))
        .collect();
    let fields = fields.filter(|fields| fields.len() >= 4)?;
    let field = |position: usize| fields.get(position).copied().unwrap_or(0);
    Some(CpuTicks {
        user: field(0) + field(1),
        system: field(2),
        idle: field(3) + field(4),
        interrupts: field(5) + field(6),
        steal: field(7),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn steal_is_a_part_of_the_time_in_which_there_was_work() {
        let text = "cpu  60 0 10 85 0 0 0 30 0 0\ncpu0 60 0 10 85 0 0 0 30 0 0\nctxt 400\nprocs_running 3\n";
        let sample = StatSample::parse(text).unwrap();
        assert_eq!(sample.total, CpuTicks { user: 60, system: 10, idle: 85, interrupts: 0, steal: 30 });
        assert_eq!(sample.total.stolen(), Some(0.3));
        assert_eq!((sample.context_switches, sample.running), (400, 3));
        assert_eq!(StatSample::parse("cpu 0 0 0 7").unwrap().total.stolen(), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(cpu[0-9]{0,2} [-0-9 ]{0,60}\n|.{0,30}\n){0,6}") {
            if let Some(sample) = StatSample::parse(&text) {
                let _ = sample.total.stolen();
            }
        }
    }
}
