//! The system calls that are timed, made directly: no library between the caller and the kernel, no cancellation point, no
//! cache of an answer.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::arch::system_call;

/// Number that no system call has: the kernel refuses it with ENOSYS after entry and before anything else.
const NO_SUCH_CALL: i64 = -1;

/// What the kernel answers to a number that no call has.
pub const REFUSED: i64 = -(libc::ENOSYS as i64);

/// Enters the kernel, is refused, and returns: the floor under every system call.
#[inline(always)]
pub fn refused() -> i64 {
    // SAFETY: the kernel refuses the number without looking at the arguments.
    unsafe { system_call(NO_SUCH_CALL, [0; 3]) }
}

/// getpid(2): the number of this process.
#[inline(always)]
pub fn process_number() -> i64 {
    // SAFETY: no argument, no memory.
    unsafe { system_call(libc::SYS_getpid, [0; 3]) }
}

/// getppid(2): the number of the parent; it follows a pointer that may change, so it takes a read lock.
#[inline(always)]
pub fn parent_number() -> i64 {
    // SAFETY: no argument, no memory.
    unsafe { system_call(libc::SYS_getppid, [0; 3]) }
}

/// getppid(2) in a function of its own, as C libraries make it: one return follows each system call.
#[inline(never)]
pub extern "C" fn parent_number_in_function() -> i64 {
    parent_number()
}

/// gettid(2): the number of this thread.
#[inline(always)]
pub fn thread_number() -> i64 {
    // SAFETY: no argument, no memory.
    unsafe { system_call(libc::SYS_gettid, [0; 3]) }
}

/// read(2) of one byte; the answer is the number of bytes read, or a negative error number.
#[inline(always)]
pub fn read_byte(from: BorrowedFd<'_>, into: &mut u8) -> i64 {
    // SAFETY: the pointer is valid for the one byte that the kernel may write.
    unsafe { system_call(libc::SYS_read, [i64::from(from.as_raw_fd()), std::ptr::from_mut(into) as i64, 1]) }
}

/// write(2) of one byte; the answer is the number of bytes written, or a negative error number.
#[inline(always)]
pub fn write_byte(to: BorrowedFd<'_>, byte: &u8) -> i64 {
    // SAFETY: the pointer is valid for the one byte that the kernel reads.
    unsafe { system_call(libc::SYS_write, [i64::from(to.as_raw_fd()), std::ptr::from_ref(byte) as i64, 1]) }
}

/// getcwd(2): the answer is the length of the path with its final zero, or a negative error number.
#[inline(always)]
pub fn current_directory(into: &mut [u8]) -> i64 {
    // SAFETY: the kernel writes at most as many bytes as it is told there are.
    unsafe { system_call(libc::SYS_getcwd, [into.as_mut_ptr() as i64, into.len() as i64, 0]) }
}

/// clock_gettime(2) of CLOCK_MONOTONIC as a real system call; the answer is 0 or a negative error number.
#[inline(always)]
pub fn monotonic_time() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for the one timespec that the kernel writes.
    unsafe { system_call(libc::SYS_clock_gettime, [i64::from(libc::CLOCK_MONOTONIC), &raw mut time as i64, 0]) }
}

/// sched_yield(2): gives the CPU to another task that may run; the answer is 0.
#[inline(always)]
pub fn yield_processor() -> i64 {
    // SAFETY: no argument, no memory.
    unsafe { system_call(libc::SYS_sched_yield, [0; 3]) }
}
