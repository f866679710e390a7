//! What the kernel counts for this thread.

use nix::sys::resource::{UsageWho, getrusage};

/// Counters of the calling thread since it began (getrusage(2) with RUSAGE_THREAD).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadCounters {
    /// Context switches by blocking.
    pub voluntary_switches: i64,
    /// Context switches forced by the scheduler.
    pub involuntary_switches: i64,
    /// Page faults without a device.
    pub minor_faults: i64,
    /// Page faults with a device.
    pub major_faults: i64,
    /// CPU time, user and system, in nanoseconds (grain: a microsecond).
    pub cpu_time: i64,
}

/// Reads the counters: one system call.
pub fn thread() -> ThreadCounters {
    getrusage(UsageWho::RUSAGE_THREAD).map_or_else(
        |_| ThreadCounters::default(),
        |usage| ThreadCounters {
            voluntary_switches: usage.voluntary_context_switches(),
            involuntary_switches: usage.involuntary_context_switches(),
            minor_faults: usage.minor_page_faults(),
            major_faults: usage.major_page_faults(),
            cpu_time: microseconds(usage.user_time()) + microseconds(usage.system_time()),
        },
    )
}

/// Page faults without a device of this process, of all its threads that run or have ended.
pub fn process_faults() -> i64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| usage.minor_page_faults())
}

/// Blocks of 512 bytes that block devices read for this process (`ru_inblock`).
pub fn blocks_in() -> i64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| usage.block_reads())
}

fn microseconds(time: nix::sys::time::TimeVal) -> i64 {
    (time.tv_sec() * 1_000_000 + time.tv_usec()) * 1_000
}

/// Nanoseconds that this process was runnable and waited for a CPU: second field of `/proc/self/schedstat`; none where
/// the kernel does not account it.
pub fn run_delay() -> Option<f64> {
    schedule_times("/proc/self/schedstat").map(|[_, waited]| waited)
}

/// The same of the calling thread alone.
pub fn thread_run_delay() -> Option<f64> {
    schedule_times("/proc/thread-self/schedstat").map(|[_, waited]| waited)
}

/// Nanoseconds that a thread of this process has run, and that it was runnable and waited for a CPU.
pub fn times_of_thread(number: i64) -> Option<[f64; 2]> {
    schedule_times(&format!("/proc/self/task/{number}/schedstat"))
}

fn schedule_times(file: &str) -> Option<[f64; 2]> {
    let text = std::fs::read_to_string(file).ok()?;
    let mut fields = text.split_whitespace();
    Some([fields.next()?.parse().ok()?, fields.next()?.parse().ok()?])
}

/// Nanoseconds that the hypervisor took from one CPU since boot: `steal` in `/proc/stat`, in ticks of USER_HZ.
pub fn steal(cpu: u32) -> Option<f64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let name = format!("cpu{cpu}");
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(&name))?;
    let ticks: f64 = line.split_whitespace().nth(8)?.parse().ok()?;
    let hertz = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten()?;
    Some(ticks * 1e9 / hertz as f64)
}
