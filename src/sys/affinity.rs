//! Which CPU code runs on.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// CPUs that this thread may run on (sched_getaffinity(2)); empty when the kernel does not say.
pub fn allowed() -> Vec<u32> {
    sched_getaffinity(Pid::from_raw(0))
        .map(|set| (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).map(|cpu| cpu as u32).collect())
        .unwrap_or_default()
}

/// Restricts this thread, and every process it starts from now on, to the given CPUs.
pub fn restrict(cpus: &[u32]) -> Result<(), std::io::Error> {
    Ok(sched_setaffinity(Pid::from_raw(0), &set_of(cpus)?)?)
}

fn set_of(cpus: &[u32]) -> Result<CpuSet, std::io::Error> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu as usize)?;
    }
    Ok(set)
}

/// Restricts the first thread of another process of this user to the given CPUs.
pub fn restrict_process(process: u32, cpus: &[u32]) -> Result<(), std::io::Error> {
    Ok(sched_setaffinity(Pid::from_raw(process as i32), &set_of(cpus)?)?)
}

/// The CPU that executes this call.
pub fn current() -> u32 {
    nix::sched::sched_getcpu().map_or(0, |cpu| cpu as u32)
}

/// The outcome of work that may pin this thread to a CPU. Afterwards the thread may run where it could before. The work runs in
/// this thread: a filter may forbid a new thread, or kill the process that asks for one.
pub fn restored<T>(work: impl FnOnce() -> T) -> T {
    let before = allowed();
    let outcome = work();
    // The mask was this thread's own a moment ago. If it cannot be had again, measuring says so when it pins itself.
    let _ = restrict(&before);
    outcome
}
