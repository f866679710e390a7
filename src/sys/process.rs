//! Processes: what a launch and its parent need of each other.

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid};

/// Has the kernel kill this process when its parent dies, so that a killed run leaves no launch behind. Returns false
/// when the parent is already gone.
pub fn die_with_parent(parent: u32) -> bool {
    let armed = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).is_ok();
    // Between the fork and the line above the parent may have died; its signal would never come.
    armed && nix::unistd::getppid() == Pid::from_raw(parent as i32)
}

/// Kills a process group: a launch and everything it started.
pub fn kill_group(leader: u32) {
    // The group may be gone already: that is the outcome asked for.
    let _ = killpg(Pid::from_raw(leader as i32), Signal::SIGKILL);
}

/// How a trial in a child process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// The code returned true.
    Worked,
    /// The code returned false.
    Refused,
    /// The child was killed by a signal: a system-call filter does so.
    Killed(Signal),
}

/// Tries code in a child process first, because a system-call filter may kill who makes a call.
///
/// The calling process must have one thread only; the code must not allocate, print, or take locks.
pub fn try_in_child(code: impl FnOnce() -> bool) -> std::io::Result<Trial> {
    // SAFETY: launches have one thread, so the child finds every lock as it was; it runs the given code and leaves with
    // _exit(2), which runs nothing of the parent's.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Child => {
            let worked = code();
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(i32::from(!worked)) }
        }
        ForkResult::Parent { child } => Ok(match waitpid(child, None)? {
            WaitStatus::Exited(_, 0) => Trial::Worked,
            WaitStatus::Signaled(_, signal, _) => Trial::Killed(signal),
            _ => Trial::Refused,
        }),
    }
}

/// Name of this host.
pub fn host_name() -> String {
    nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_else(|| "unknown".to_owned())
}

/// True when a system-call filter is installed (`Seccomp` in `/proc/self/status`), or when that cannot be told.
pub fn is_filtered() -> bool {
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|text| text.lines().find_map(|line| line.strip_prefix("Seccomp:")).map(|mode| mode.trim() != "0"))
        .unwrap_or(true)
}
