//! The system calls that are timed, made directly: no library between the caller and the kernel, no cancellation point, no
//! cache of an answer.

use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::arch::{align_code, repeated_call, repeated_function, system_call};

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
pub extern "C" fn parent_number_in_function() -> i64 {
    align_code();
    parent_number()
}

/// Calls [`parent_number_in_function`] so many times and sums up the answers.
pub fn parent_numbers_in_function(times: u64) -> i64 {
    NonZeroU64::new(times).map_or(0, |times| repeated_function(parent_number_in_function, times))
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

/// A system call that is made again and again, with the memory that it reads or writes.
#[derive(Debug)]
pub struct RepeatableCall<'a> {
    number: i64,
    arguments: [i64; 3],
    memory: Box<[u8]>,
    /// Which argument points to the memory.
    pointer: Option<usize>,
    descriptor: PhantomData<BorrowedFd<'a>>,
}

impl<'a> RepeatableCall<'a> {
    fn plain(number: i64) -> Self {
        RepeatableCall { number, arguments: [0; 3], memory: Box::default(), pointer: None, descriptor: PhantomData }
    }

    fn with_memory(number: i64, arguments: [i64; 3], pointer: usize, bytes: usize) -> Self {
        let memory = vec![0; bytes].into_boxed_slice();
        RepeatableCall { arguments, memory, pointer: Some(pointer), ..Self::plain(number) }
    }

    /// A number that no system call has: the floor under every system call.
    pub fn refused() -> Self {
        Self::plain(NO_SUCH_CALL)
    }

    /// getpid(2).
    pub fn process_number() -> Self {
        Self::plain(libc::SYS_getpid)
    }

    /// getppid(2).
    pub fn parent_number() -> Self {
        Self::plain(libc::SYS_getppid)
    }

    /// gettid(2).
    pub fn thread_number() -> Self {
        Self::plain(libc::SYS_gettid)
    }

    /// sched_yield(2).
    pub fn yield_processor() -> Self {
        Self::plain(libc::SYS_sched_yield)
    }

    /// read(2) of one byte.
    pub fn read_byte(from: BorrowedFd<'a>) -> Self {
        Self::with_memory(libc::SYS_read, [i64::from(from.as_raw_fd()), 0, 1], 1, 1)
    }

    /// write(2) of one byte.
    pub fn write_byte(to: BorrowedFd<'a>) -> Self {
        Self::with_memory(libc::SYS_write, [i64::from(to.as_raw_fd()), 0, 1], 1, 1)
    }

    /// getcwd(2) of a path of so many bytes at most; the answer is its length with the final zero.
    pub fn current_directory(bytes: usize) -> Self {
        Self::with_memory(libc::SYS_getcwd, [0, bytes as i64, 0], 0, bytes)
    }

    /// clock_gettime(2) of CLOCK_MONOTONIC; the answer is 0.
    pub fn monotonic_time() -> Self {
        let arguments = [i64::from(libc::CLOCK_MONOTONIC), 0, 0];
        Self::with_memory(libc::SYS_clock_gettime, arguments, 1, size_of::<libc::timespec>())
    }

    /// What it read, wrote or got.
    pub fn memory(&self) -> &[u8] {
        &self.memory
    }

    /// Makes it so many times, in a loop within a line of code and without another branch near. The sum of the answers, of which an
    /// error is negative.
    pub fn repeat(&mut self, times: u64) -> i64 {
        let Some(times) = NonZeroU64::new(times) else { return 0 };
        if let Some(pointer) = self.pointer {
            self.arguments[pointer] = self.memory.as_mut_ptr() as i64;
        }
        // SAFETY: the constructors give the kernel the length of the memory, which is borrowed here, or no memory at all. The descriptor
        // is open for as long as this value lives.
        unsafe { repeated_call(self.number, self.arguments, times) }
    }
}
