//! The system calls that are timed, made directly: no library between the caller and the kernel, no cancellation point, no
//! cache of an answer.

use std::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::arch::{align_code, system_call};
use super::placed::Operation;

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

/// getppid(2) in a separate function, as C libraries make it: one return follows each system call.
#[inline(never)]
extern "C" fn parent_number_in_function(_: *mut c_void) -> i64 {
    align_code();
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

/// sched_yield(2): gives the CPU to another task that may run; the answer is 0.
#[inline(always)]
pub fn yield_processor() -> i64 {
    // SAFETY: no argument, no memory.
    unsafe { system_call(libc::SYS_sched_yield, [0; 3]) }
}

/// System calls for [placed loops](super::placed), and the answers that they must give.
impl<'a> Operation<'a> {
    /// A call without arguments that names no memory.
    fn plain(number: i64, expected: i64) -> Self {
        // SAFETY: none of the calls below reads an argument or touches memory.
        unsafe { Operation::call(number, [0; 6], expected) }
    }

    /// A number that no system call has: the floor under every system call.
    pub fn refused() -> Self {
        Self::plain(NO_SUCH_CALL, REFUSED)
    }

    /// getpid(2).
    pub fn process_number() -> Self {
        Self::plain(libc::SYS_getpid, process_number())
    }

    /// getppid(2). The parent must not change.
    pub fn parent_number() -> Self {
        Self::plain(libc::SYS_getppid, parent_number())
    }

    /// The same in a separate function, as C libraries make it.
    pub fn parent_number_in_function() -> Self {
        // SAFETY: the function ignores its argument.
        unsafe { Operation::function(parent_number_in_function, std::ptr::null_mut(), parent_number()) }
    }

    /// gettid(2) of the calling thread.
    pub fn thread_number() -> Self {
        Self::plain(libc::SYS_gettid, thread_number())
    }

    /// sched_yield(2).
    pub fn yield_processor() -> Self {
        Self::plain(libc::SYS_sched_yield, 0)
    }

    /// read(2) of so many bytes, at most eight, which the file has.
    pub fn read(from: BorrowedFd<'a>, bytes: usize) -> Self {
        let bytes = bytes.min(size_of::<i64>()) as i64;
        let arguments = [i64::from(from.as_raw_fd()), 0, bytes, 0, 0, 0];
        // SAFETY: the kernel writes so many bytes into the memory at most. The descriptor is open for the lifetime.
        unsafe { Operation::call(libc::SYS_read, arguments, bytes).with_memory(1, size_of::<i64>(), 0) }
    }

    /// write(2) of the first bytes of a number, at most eight, which the file takes.
    pub fn write(to: BorrowedFd<'a>, bytes: usize, number: i64) -> Self {
        let bytes = bytes.min(size_of::<i64>()) as i64;
        let arguments = [i64::from(to.as_raw_fd()), 0, bytes, 0, 0, 0];
        // SAFETY: the kernel reads so many bytes from the memory. The descriptor is open for the lifetime.
        unsafe { Operation::call(libc::SYS_write, arguments, bytes).with_memory(1, size_of::<i64>(), number) }
    }

    /// getcwd(2) of a path of so many bytes at most. The answer is its length with the final zero.
    pub fn current_directory(bytes: usize) -> Self {
        let arguments = [0, bytes as i64, 0, 0, 0, 0];
        // SAFETY: the kernel writes so many bytes into the memory at most.
        let call = unsafe { Operation::call(libc::SYS_getcwd, arguments, 0).with_memory(0, bytes, 0) };
        let length = call.once();
        call.answering(length)
    }

    /// clock_gettime(2) of CLOCK_MONOTONIC. The answer is 0.
    pub fn monotonic_time() -> Self {
        let arguments = [i64::from(libc::CLOCK_MONOTONIC), 0, 0, 0, 0, 0];
        // SAFETY: the kernel writes a timespec into the memory.
        unsafe { Operation::call(libc::SYS_clock_gettime, arguments, 0).with_memory(1, size_of::<libc::timespec>(), 0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers_as_expected() {
        assert_eq!(refused(), REFUSED);
        assert_eq!(process_number(), i64::from(std::process::id()));
        for call in [Operation::refused(), Operation::process_number(), Operation::monotonic_time()] {
            assert_eq!(call.once(), call.expected());
        }
        let path = Operation::current_directory(4096);
        let right = std::env::current_dir().unwrap();
        assert!(path.memory().starts_with(right.as_os_str().as_encoded_bytes()));
        assert_eq!(path.expected() as usize, right.as_os_str().len() + 1);
    }
}
