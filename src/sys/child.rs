//! Ways of making a child process: by the kernel's call, by the C library's, with and without another image.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_void};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;

use nix::sys::memfd::{MFdFlags, memfd_create};

use super::arch::{self, ChildTask};
use super::memory::SharedNumber;

/// Exit status of every child that did what it should.
pub const STATUS: i32 = 42;

/// A child that has not been reaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Child {
    number: i32,
}

/// What a child does before it leaves with [`STATUS`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Task<'a> {
    /// Stores a reading of the counter first.
    pub stamp: Option<&'a SharedNumber>,
    /// Sleeps then.
    pub nap: Option<&'a libc::timespec>,
    /// Executes this image then.
    pub image: Option<&'a Image>,
}

impl Task<'_> {
    fn raw(&self) -> ChildTask {
        ChildTask {
            stamp: self.stamp.map_or(std::ptr::null_mut(), SharedNumber::place),
            nap: self.nap.map_or(std::ptr::null(), std::ptr::from_ref),
            image: self.image.map_or(std::ptr::null(), |image| &raw const *image.words),
            status: STATUS,
        }
    }
}

fn made(answer: i64) -> std::io::Result<Child> {
    if answer < 0 {
        Err(std::io::Error::from_raw_os_error(-answer as i32))
    } else {
        Ok(Child { number: answer as i32 })
    }
}

/// Namespaces that a child gets for itself (namespaces(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespaces(libc::c_int);

impl Namespaces {
    pub const NONE: Namespaces = Namespaces(0);
    pub const PROCESSES: Namespaces = Namespaces(libc::CLONE_NEWPID);
    pub const MOUNTS: Namespaces = Namespaces(libc::CLONE_NEWNS);
    pub const NETWORK: Namespaces = Namespaces(libc::CLONE_NEWNET);
    pub const USERS: Namespaces = Namespaces(libc::CLONE_NEWUSER);
    pub const IPC: Namespaces = Namespaces(libc::CLONE_NEWIPC);
    pub const NAMES: Namespaces = Namespaces(libc::CLONE_NEWUTS);

    /// These and others.
    #[must_use]
    pub const fn and(self, other: Namespaces) -> Namespaces {
        Namespaces(self.0 | other.0)
    }
}

/// A child with a copy of this process's memory: what fork(2) does, without the C library's handlers.
#[inline(always)]
pub fn fork(task: Task<'_>) -> std::io::Result<Child> {
    fork_into(task, Namespaces::NONE)
}

/// The same in new namespaces, which end with the child.
#[inline(always)]
pub fn fork_into(task: Task<'_>, new: Namespaces) -> std::io::Result<Child> {
    // SAFETY: the child has a copy of this memory, so every pointer in the task stays valid in it; it never returns here.
    made(unsafe { arch::clone_child(i64::from(libc::SIGCHLD | new.0), &task.raw()) })
}

/// A child with a copy of this process's memory, in new namespaces, which does something before it leaves. It leaves with [`STATUS`] if that
/// succeeds, and with 1 if not. It may make system calls, and nothing that needs another thread.
pub fn fork_doing(new: Namespaces, what: impl FnOnce() -> bool) -> std::io::Result<Child> {
    // SAFETY: the child has a copy of this memory and of the stack, and ends here.
    match unsafe { arch::system_call_of_four(libc::SYS_clone, [i64::from(libc::SIGCHLD | new.0), 0, 0, 0]) } {
        // SAFETY: ends the child.
        0 => unsafe { libc::_exit(if what() { STATUS } else { 1 }) },
        answer => made(answer),
    }
}

/// Makes an empty file system in memory the root of this process, which must be in a mount namespace that no other process is in.
/// True if nothing of the old root is left in sight.
pub fn change_root() -> bool {
    // A directory of the old root that every system has.
    const ANY: &CStr = c"/proc";
    let (here, none) = (c".".as_ptr(), std::ptr::null());
    // SAFETY: every path is static. The old root stays with the processes outside of the namespace.
    unsafe {
        libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast()) == 0
            && libc::mount(c"root".as_ptr(), ANY.as_ptr(), c"tmpfs".as_ptr(), 0, none.cast()) == 0
            && libc::chdir(ANY.as_ptr()) == 0
            && libc::syscall(libc::SYS_pivot_root, here, here) == 0
            && libc::umount2(here, libc::MNT_DETACH) == 0
            && libc::access(ANY.as_ptr(), libc::F_OK) != 0
    }
}

/// A child that borrows this process's memory until it leaves or executes an image: what vfork(2) does.
#[inline(always)]
pub fn vfork(task: Task<'_>) -> std::io::Result<Child> {
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the parent sleeps until the child has left or executed an image, so the task outlives its use; the child
    // writes nothing but the stamp and uses no stack.
    made(unsafe { arch::clone_child(i64::from(flags), &task.raw()) })
}

/// A child by the C library's fork(), which runs handlers and updates the library's state on both sides.
pub fn library_fork() -> std::io::Result<Child> {
    // SAFETY: launches have one thread; the child leaves at once with _exit(2).
    match unsafe { libc::fork() } {
        // SAFETY: ends the child.
        0 => unsafe { libc::_exit(STATUS) },
        answer if answer < 0 => Err(std::io::Error::last_os_error()),
        number => Ok(Child { number }),
    }
}

/// A child that executes an image, by the C library's posix_spawn().
pub fn spawn(image: &Image) -> std::io::Result<Child> {
    let mut number = 0;
    // SAFETY: the path, the argument list and the environment are owned by the image, end with zero, and outlive the call;
    // no attributes and no file actions are given.
    let error = unsafe {
        libc::posix_spawn(
            &raw mut number,
            image.path.as_ptr(),
            std::ptr::null(),
            std::ptr::null(),
            image.arguments.as_ptr(),
            image.environment.as_ptr(),
        )
    };
    if error == 0 { Ok(Child { number }) } else { Err(std::io::Error::from_raw_os_error(error)) }
}

impl Child {
    /// Kills the child and reaps it.
    pub fn kill(self) -> Result<(), String> {
        // SAFETY: a signal to a child that was not reaped yet, so its number is still its own.
        unsafe { libc::kill(self.number, libc::SIGKILL) };
        match self.reap() {
            // It had ended by itself before the signal came.
            Ok(_) => Ok(()),
            Err(reason) if reason.contains("signal 9") => Ok(()),
            Err(reason) => Err(reason),
        }
    }

    /// Waits for the child and takes its exit status; a child that was killed is an error.
    #[inline(always)]
    pub fn reap(self) -> Result<i32, String> {
        self.wait().and_then(exit_status)
    }

    /// Waits for the child and takes its status as the kernel encodes it.
    #[inline(always)]
    fn wait(self) -> Result<libc::c_int, String> {
        let mut status = 0;
        loop {
            // SAFETY: the pointer is valid for the status; the number is a child that was not reaped yet.
            let answer = unsafe { libc::waitpid(self.number, &raw mut status, 0) };
            if answer == self.number {
                return Ok(status);
            }
            let error = std::io::Error::last_os_error();
            if error.kind() != std::io::ErrorKind::Interrupted {
                return Err(format!("waiting for a child: {error}"));
            }
        }
    }
}

fn exit_status(status: libc::c_int) -> Result<i32, String> {
    if libc::WIFEXITED(status) {
        Ok(libc::WEXITSTATUS(status))
    } else {
        Err(format!("a child was killed by signal {}", libc::WTERMSIG(status)))
    }
}

/// True when this process has a child that was not reaped, whether it runs or has ended.
pub fn some_left() -> bool {
    let mut found = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the pointer is valid for what the kernel writes; with WNOWAIT no child is reaped.
    unsafe { libc::waitid(libc::P_ALL, 0, found.as_mut_ptr(), flags) == 0 }
}

/// How many children a series of shots made, reaped, and found to have left as expected.
#[derive(Debug, Default)]
pub struct Ledger {
    made: Cell<u64>,
    reaped: Cell<u64>,
    expected: Cell<u64>,
}

impl Ledger {
    /// Enters a new child, or says why there is none.
    #[inline(always)]
    pub fn enter(&self, made: std::io::Result<Child>) -> Result<Child, String> {
        let child = made.map_err(|error| format!("no child could be made: {error}"))?;
        self.made.set(self.made.get() + 1);
        Ok(child)
    }

    /// Waits for a child and checks that it left with a status.
    #[inline(always)]
    pub fn reap(&self, child: Child, expected: i32) -> Result<(), String> {
        let status = child.wait()?;
        self.reaped.set(self.reaped.get() + 1);
        match exit_status(status)? {
            status if status == expected => {
                self.expected.set(self.expected.get() + 1);
                Ok(())
            }
            127 => Err("the image could not be executed".to_owned()),
            status => Err(format!("a child left with status {status} instead of {expected}")),
        }
    }

    /// Made, reaped, left as expected.
    pub fn counts(&self) -> Vec<f64> {
        [&self.made, &self.reaped, &self.expected].map(|count| count.get() as f64).to_vec()
    }
}

/// A program to execute.
#[derive(Debug)]
pub struct Image {
    path: CString,
    arguments: Vec<*mut libc::c_char>,
    environment: Vec<*mut libc::c_char>,
    /// Path, arguments, environment: what a child hands to execve(2).
    words: Box<[*const c_void; 3]>,
    /// Exit status of the program.
    pub status: i32,
    /// Keeps a program alive that exists in memory only.
    _memory: Option<File>,
}

impl Image {
    /// A program in a file; `status` is what it exits with.
    pub fn file(path: &str, status: i32) -> Result<Self, String> {
        let path = CString::new(path).map_err(|error| error.to_string())?;
        Ok(Image::of(path, &[], status, None))
    }

    /// The shell, which ends by its own command.
    pub fn shell() -> Self {
        Image::of(SHELL.to_owned(), &[c"-c", c"exit 0"], 0, None)
    }

    /// The smallest static program, written by this process into memory: one segment, two instructions, exit status
    /// [`STATUS`].
    pub fn smallest() -> std::io::Result<Self> {
        let memory = memfd_create(c"sysdyno-image", MFdFlags::empty())?;
        let mut memory = File::from(memory);
        memory.write_all(&smallest_elf())?;
        let path = CString::new(format!("/proc/self/fd/{}", memory.as_raw_fd()))?;
        Ok(Image::of(path, &[], STATUS, Some(memory)))
    }

    fn of(path: CString, words: &[&'static CStr], status: i32, memory: Option<File>) -> Self {
        // The lists point into the path's heap allocation, which does not move with the value.
        let name = path.as_ptr().cast_mut();
        let more = words.iter().map(|word| word.as_ptr().cast_mut());
        let arguments: Vec<*mut libc::c_char> =
            std::iter::once(name).chain(more).chain([std::ptr::null_mut()]).collect();
        let environment: Vec<*mut libc::c_char> = vec![std::ptr::null_mut()];
        let words: Box<[*const c_void; 3]> =
            Box::new([path.as_ptr().cast(), arguments.as_ptr().cast(), environment.as_ptr().cast()]);
        Image { path, arguments, environment, words, status, _memory: memory }
    }
}

/// The shell of the C library's system(3).
pub const SHELL: &CStr = c"/bin/sh";

/// An ELF file of one loadable segment that leaves with status 42 (System V ABI, chapter 4; elf(5)).
fn smallest_elf() -> Vec<u8> {
    const BASE: u64 = 0x0040_0000;
    const HEADERS: u64 = 64 + 56;
    let length = HEADERS + arch::EXIT_CODE.len() as u64;
    let mut elf = Vec::with_capacity(length as usize);
    elf.extend_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    elf.extend_from_slice(&2_u16.to_le_bytes()); // an executable
    elf.extend_from_slice(&arch::ELF_MACHINE.to_le_bytes());
    elf.extend_from_slice(&1_u32.to_le_bytes()); // version
    elf.extend_from_slice(&(BASE + HEADERS).to_le_bytes()); // entry
    elf.extend_from_slice(&64_u64.to_le_bytes()); // program headers
    elf.extend_from_slice(&0_u64.to_le_bytes()); // no section headers
    elf.extend_from_slice(&0_u32.to_le_bytes()); // flags
    for half in [64_u16, 56, 1, 64, 0, 0] {
        elf.extend_from_slice(&half.to_le_bytes()); // sizes and counts of headers
    }
    elf.extend_from_slice(&1_u32.to_le_bytes()); // loadable
    elf.extend_from_slice(&5_u32.to_le_bytes()); // readable, executable
    for word in [0, BASE, BASE, length, length, 0x1000] {
        elf.extend_from_slice(&word.to_le_bytes()); // offset, addresses, sizes, alignment
    }
    elf.extend_from_slice(arch::EXIT_CODE);
    elf
}

/// True when a file is an ELF program that needs a dynamic loader (it has a PT_INTERP segment).
pub fn is_dynamic(path: &str) -> bool {
    let Ok(bytes) = std::fs::read(path) else { return false };
    let half = |at: usize| bytes.get(at..at + 2).map(|found| u16::from_le_bytes([found[0], found[1]]));
    if bytes.get(..5) != Some(&[0x7f, b'E', b'L', b'F', 2]) {
        return false;
    }
    let (Some(size), Some(count)) = (half(54), half(56)) else { return false };
    (0..usize::from(count)).any(|index| bytes.get(64 + index * usize::from(size)).copied() == Some(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_program_runs_and_is_small() {
        assert!(smallest_elf().len() < 1024);
        let image = Image::smallest().unwrap();
        for make in [fork, vfork] {
            let child = make(Task { image: Some(&image), ..Task::default() }).unwrap();
            assert_eq!(child.reap().unwrap(), STATUS);
        }
        assert_eq!(spawn(&image).unwrap().reap().unwrap(), STATUS);
    }

    #[test]
    fn a_missing_image_shows_in_the_status() {
        let image = Image::file("/proc/nonexistent/program", 0).unwrap();
        assert_eq!(fork(Task { image: Some(&image), ..Task::default() }).unwrap().reap().unwrap(), 127);
        assert_eq!(vfork(Task { image: Some(&image), ..Task::default() }).unwrap().reap().unwrap(), 127);
        assert!(spawn(&image).is_err());
    }

    #[test]
    fn a_child_has_the_new_namespaces_and_no_others() {
        let all = [
            ("pid", Namespaces::PROCESSES),
            ("mnt", Namespaces::MOUNTS),
            ("net", Namespaces::NETWORK),
            ("user", Namespaces::USERS),
            ("ipc", Namespaces::IPC),
            ("uts", Namespaces::NAMES),
        ];
        let nap = libc::timespec { tv_sec: 10, tv_nsec: 0 };
        for (name, new) in all {
            // Without privileges the kernel refuses some or all of them.
            let Ok(child) = fork_into(Task { nap: Some(&nap), ..Task::default() }, new) else { continue };
            let link = |process: &str, of: &str| std::fs::read_link(format!("/proc/{process}/ns/{of}"));
            let number = child.number.to_string();
            let differ: Vec<&str> =
                all.iter().map(|(of, _)| *of).filter(|of| link(&number, of).ok() != link("self", of).ok()).collect();
            child.kill().unwrap();
            assert_eq!(differ, [name]);
        }
    }

    #[test]
    fn a_child_gets_a_root_of_its_own_and_leaves_the_old_one_alone() {
        let mounts = || std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let before = mounts();
        // Without privileges the kernel refuses the namespace.
        let Ok(child) = fork_doing(Namespaces::MOUNTS, change_root) else { return };
        assert_eq!(child.reap(), Ok(STATUS));
        assert_eq!(mounts(), before);
        assert_eq!(fork_doing(Namespaces::NONE, || false).unwrap().reap(), Ok(1));
    }

    #[test]
    fn a_ledger_tells_children_apart() {
        let ledger = Ledger::default();
        let image = Image::file("/proc/nonexistent/program", 0).unwrap();
        let child = ledger.enter(fork(Task::default())).unwrap();
        ledger.reap(child, STATUS).unwrap();
        let child = ledger.enter(fork(Task::default())).unwrap();
        assert!(ledger.reap(child, 0).unwrap_err().contains("42 instead of 0"));
        let child = ledger.enter(fork(Task { image: Some(&image), ..Task::default() })).unwrap();
        assert_eq!(ledger.reap(child, 0).unwrap_err(), "the image could not be executed");
        assert!(ledger.enter(spawn(&image)).unwrap_err().contains("No such file"));
        assert_eq!(ledger.counts(), [3.0, 3.0, 1.0]);
    }

    #[test]
    fn children_stamp_the_clock_and_sleep() {
        let stamp = SharedNumber::new().unwrap();
        let before = arch::stamp().ticks;
        let nap = libc::timespec { tv_sec: 0, tv_nsec: 2_000_000 };
        let began = std::time::Instant::now();
        let child = fork(Task { stamp: Some(&stamp), nap: Some(&nap), image: None }).unwrap();
        assert_eq!(child.reap().unwrap(), STATUS);
        assert!(began.elapsed().as_micros() >= 2_000);
        assert!(stamp.get() > before && stamp.get() < arch::stamp().ticks);
        assert_eq!(library_fork().unwrap().reap().unwrap(), STATUS);
    }
}
