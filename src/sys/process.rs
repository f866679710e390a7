//! Processes: what a launch and its parent need of each other.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{ForkResult, Pid};

/// Lets this process have a number of open files, as far as its hard limit allows it. The usual limit is 1024.
pub fn allow_files(wanted: u64) {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // Where the limit stays, what opens more files is refused and says so.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, soft.max(wanted.min(hard)), hard);
    }
}

/// Sets the timer slack of the calling thread to a nanosecond, which is the least.
pub fn least_timer_slack() -> std::io::Result<()> {
    Ok(nix::sys::prctl::set_timerslack(1)?)
}

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

/// Asks a process group to end.
pub fn terminate_group(leader: u32) {
    // The group may have ended already: that is the outcome asked for.
    let _ = killpg(Pid::from_raw(leader as i32), Signal::SIGTERM);
}

/// Whether there is still a process in a group.
pub fn has_group(leader: u32) -> bool {
    killpg(Pid::from_raw(leader as i32), None) != Err(nix::errno::Errno::ESRCH)
}

/// Asks the kernel to end this process by SIGTERM when its parent ends.
pub fn end_with_parent() {
    // Where that is refused, this process ends by itself later.
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGTERM);
}

/// Whether a child is stopped because it is in the background and wants to use the terminal.
pub fn waits_for_terminal(child: u32) -> bool {
    let look = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    let found = waitid(Id::Pid(Pid::from_raw(child as i32)), look);
    matches!(found, Ok(WaitStatus::Stopped(_, Signal::SIGTTIN | Signal::SIGTTOU)))
}

/// Whether this process ignores a signal, as one does that was started by nohup or in the background of a script.
pub fn ignores(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: no new action is given, and the pointer is valid for the present one, which the kernel writes whole.
    let answer = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeros are a valid value, and the kernel wrote another where it answered.
    answer == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Whether there is a process of this number, of whomever.
pub fn is_alive(number: u32) -> bool {
    let outcome = i32::try_from(number).map(|number| nix::sys::signal::kill(Pid::from_raw(number), None));
    matches!(outcome, Ok(Ok(()) | Err(nix::errno::Errno::EPERM)))
}

/// The namespace that process numbers of this process belong to; none where the kernel does not report it.
pub fn number_namespace() -> Option<u64> {
    let link = std::fs::read_link("/proc/self/ns/pid").ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

/// When a process began, in ticks since boot: with its number it distinguishes a process from all others of this boot.
pub fn start(number: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The name before may contain anything, spaces and brackets included (proc_pid_stat(5): field 22).
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// The user whose rights this process has.
pub fn effective_user() -> u32 {
    nix::unistd::Uid::effective().as_raw()
}

/// The user and the group who called sudo, where this process has root's rights through it.
pub fn sudo_user() -> Option<(u32, u32)> {
    let number = |name| std::env::var(name).ok()?.parse().ok();
    (effective_user() == 0).then_some(())?;
    Some((number("SUDO_UID")?, number("SUDO_GID")?))
}

/// The home of root, where this process has root's rights. It is read from the file: what a C library asks beyond that would be
/// loaded at run time, which a static program cannot rely on.
pub fn home_of_root() -> Option<std::path::PathBuf> {
    let users = std::fs::read_to_string("/etc/passwd").ok().filter(|_| effective_user() == 0)?;
    let root =
        users.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| fields.get(2) == Some(&"0"))?;
    root.get(5).map(std::path::PathBuf::from)
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

/// Lets every other task of this CPU go first (SCHED_IDLE); needs no privilege. Returns false when the kernel refuses.
pub fn lowest_priority() -> bool {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters outlive the call, which reads them.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) == 0 }
}

/// Class and level of this thread's input and output (`ioprio_get(2)`); none where the kernel does not say.
pub fn io_priority() -> Option<(u32, u32)> {
    const WHO_PROCESS: libc::c_int = 1;
    /// Behind them stands the class.
    const LEVEL_BITS: u32 = 13;
    /// Behind these stand hints to the device.
    const LEVELS: u32 = 7;
    // SAFETY: the call takes numbers only.
    let found = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0) };
    u32::try_from(found).ok().map(|found| (found >> LEVEL_BITS, found & LEVELS))
}

/// Runs code in a child process, which ends with the returned status. The child is this process again, with its memory and
/// its open files; it must be reaped.
///
/// The calling process must have one thread only.
pub fn fork_running(code: impl FnOnce() -> i32) -> std::io::Result<Forked> {
    // SAFETY: one thread, so the child finds every lock as it was; it never returns from here.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Child => {
            // Where a panic unwinds it must not run into the parent's code.
            let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(code)).unwrap_or(PANICKED);
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(status) }
        }
        ForkResult::Parent { child } => Ok(Forked { number: child }),
    }
}

/// The same for a child that ends with this process, and keeps no file open but the standard ones and those named.
pub fn fork_keeping(kept: &[std::os::fd::RawFd], code: impl FnOnce() -> i32) -> std::io::Result<Forked> {
    let parent = std::process::id();
    fork_running(|| {
        if !die_with_parent(parent) {
            return 1;
        }
        close_all_but(kept);
        code()
    })
}

/// Closes every open file of this process but the standard ones and those named: what a child does with what it inherited
/// and has no use for, so that ends of connections are not held open by it.
fn close_all_but(kept: &[std::os::fd::RawFd]) {
    let mut kept_in_order: Vec<i32> = kept.iter().copied().filter(|number| *number > 2).collect();
    kept_in_order.sort_unstable();
    let ends = kept_in_order.iter().map(|number| number - 1).chain([i32::MAX]);
    let begins = [2].into_iter().chain(kept_in_order.iter().copied()).map(|before| before + 1);
    // SAFETY: as below. Linux has this call since 5.9.
    let close = |first: i32, last: i32| unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0;
    if begins.zip(ends).all(|(first, last)| first > last || close(first, last)) {
        return;
    }
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<i32> = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in open.into_iter().filter(|number| *number > 2 && !kept.contains(number)) {
        // SAFETY: the caller is a child that leaves without running destructors, so nothing closes these again. An error only means
        // that the descriptor is closed already.
        unsafe { libc::close(number) };
    }
}

/// Exit status of a child that panicked, as the standard library has it.
const PANICKED: i32 = 101;

/// A child process that runs this program's code.
#[derive(Debug)]
pub struct Forked {
    number: Pid,
}

impl Forked {
    /// Whether it has ended; reaps it then.
    pub fn ended(&self) -> bool {
        waitpid(self.number, Some(WaitPidFlag::WNOHANG)) != Ok(WaitStatus::StillAlive)
    }

    /// Kills it and reaps it.
    pub fn kill(self) {
        // It may have ended already: that is the outcome asked for.
        let _ = nix::sys::signal::kill(self.number, Signal::SIGKILL);
        let _ = waitpid(self.number, None);
    }
}

/// Has the kernel end this process with a signal after this many seconds, whatever it does then.
pub fn end_after(seconds: u32) {
    nix::unistd::alarm::set(seconds.max(1));
}

/// Fills a buffer with random bytes of the kernel (getrandom(2)).
pub fn random_bytes(into: &mut [u8]) -> std::io::Result<()> {
    let mut filled = 0;
    while filled < into.len() {
        let rest = &mut into[filled..];
        // SAFETY: the kernel writes at most as many bytes as are left.
        let count = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        if let Ok(count) = usize::try_from(count) {
            filled += count;
            continue;
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(())
}

/// Name of this host.
pub fn host_name() -> String {
    nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_else(|| "unknown".to_owned())
}

/// True when a system-call filter is installed (`Seccomp` in `/proc/self/status`), or when that is not known.
pub fn is_filtered() -> bool {
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|text| text.lines().find_map(|line| line.strip_prefix("Seccomp:")).map(|mode| mode.trim() != "0"))
        .unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_child_closes_what_it_does_not_keep_also_without_proc() {
        let files = [(); 3].map(|()| File::open("/dev/null").unwrap());
        let numbers = files.each_ref().map(AsRawFd::as_raw_fd);
        let is_open = |number: i32| {
            // SAFETY: it only asks whether the number is an open file.
            unsafe { libc::fcntl(number, libc::F_GETFD) >= 0 }
        };
        let child = fork_running(|| {
            // Only root can hide /proc, and only there the kernel's call alone can do it.
            // SAFETY: the paths are strings that end with zero, and the mount is in a namespace of this child.
            unsafe {
                if libc::unshare(libc::CLONE_NEWNS) == 0 {
                    libc::mount(
                        c"none".as_ptr(),
                        c"/".as_ptr(),
                        std::ptr::null(),
                        libc::MS_REC | libc::MS_PRIVATE,
                        std::ptr::null(),
                    );
                    libc::mount(c"none".as_ptr(), c"/proc".as_ptr(), c"tmpfs".as_ptr(), 0, std::ptr::null());
                }
            }
            close_all_but(&numbers[1..2]);
            i32::from(numbers.map(is_open) != [false, true, false])
        });
        assert_eq!(
            waitpid(child.unwrap().number, None).map(|found| matches!(found, WaitStatus::Exited(_, 0))),
            Ok(true)
        );
    }
}
