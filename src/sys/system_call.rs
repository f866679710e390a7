//! The system calls that are timed, made directly: no library between the caller and the kernel, no cancellation point, no
//! cache of an answer.

use std::any::Any;
use std::ffi::{CStr, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use super::arch::{align_code, system_call};
use super::operation::Operation;
use super::placed::{Around, PlacedLoop};

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

/// openat(2) and close(2). The descriptor is known only when the file is open, so both are in a function.
#[inline(never)]
extern "C" fn open_and_close(path: *mut c_void) -> i64 {
    align_code();
    let flags = i64::from(libc::O_RDONLY | libc::O_CLOEXEC);
    // SAFETY: the caller gives a path that ends with a zero.
    close(unsafe { system_call(libc::SYS_openat, [i64::from(libc::AT_FDCWD), path as i64, flags]) })
}

/// dup(2) and close(2).
#[inline(never)]
extern "C" fn duplicate_and_close(of: *mut c_void) -> i64 {
    align_code();
    // SAFETY: no memory. What has no descriptor is refused.
    close(unsafe { system_call(libc::SYS_dup, [of as i64, 0, 0]) })
}

/// times(2). The answer is 0 instead of the time, or a negative error number.
#[inline(never)]
extern "C" fn times(_: *mut c_void) -> i64 {
    align_code();
    let mut times = [0_i64; size_of::<libc::tms>() / size_of::<i64>()];
    // SAFETY: the kernel writes the times of a process into the memory.
    unsafe { system_call(libc::SYS_times, [times.as_mut_ptr() as i64, 0, 0]) }.min(0)
}

/// close(2) of a new descriptor, or the error number that stands for it.
#[inline(always)]
pub(super) fn close(descriptor: i64) -> i64 {
    if descriptor < 0 {
        return descriptor;
    }
    // SAFETY: the descriptor is new, and nothing else knows it.
    unsafe { system_call(libc::SYS_close, [descriptor, 0, 0]) }
}

/// An answer to expect from a call that is granted. No call gives the one that stands for a refused call.
fn granted(answer: i64) -> i64 {
    if answer < 0 { i64::MIN } else { answer }
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

/// Descriptors that select(2) is asked for.
struct Selected {
    set: libc::fd_set,
    most: i32,
    _files: Box<dyn Any + Send + Sync>,
}

extern "C" fn select_copy(selected: *mut c_void) -> i64 {
    // SAFETY: the operation gives the address of such a value, which it holds.
    let selected = unsafe { &*selected.cast::<Selected>() };
    let (mut set, none) = (selected.set, std::ptr::null_mut());
    // SAFETY: the set is a copy, which the kernel overwrites. One of its descriptors is ready, so the call does not wait.
    i64::from(unsafe { libc::select(selected.most + 1, &raw mut set, none, none, std::ptr::null_mut()) }) - 1
}

/// System calls for [placed loops](super::placed), and the answers that they must give.
impl<'a> Operation<'a> {
    /// A call without arguments that names no memory.
    fn plain(number: i64, expected: i64) -> Self {
        // SAFETY: none of the calls below reads an argument or touches memory.
        unsafe { Operation::call(number, [0; 6], expected) }
    }

    /// Whether operations in a row give the answers that they must give.
    pub fn work(operations: &[Operation<'a>]) -> bool {
        PlacedLoop::draw(&mut fastrand::Rng::new(), operations.to_vec(), Around::Nothing, 1)
            .is_ok_and(|mut placed| placed.run(1).is_ok())
    }

    /// A number that no system call has: the floor under every system call.
    pub fn refused() -> Self {
        Self::plain(NO_SUCH_CALL, REFUSED)
    }

    /// getpid(2).
    pub fn process_number() -> Self {
        Self::plain(libc::SYS_getpid, granted(process_number()))
    }

    /// getppid(2). The parent must not change.
    pub fn parent_number() -> Self {
        Self::plain(libc::SYS_getppid, granted(parent_number()))
    }

    /// The same in a separate function, as C libraries make it.
    pub fn parent_number_in_function() -> Self {
        // SAFETY: the function ignores its argument.
        unsafe { Operation::function(parent_number_in_function, std::ptr::null_mut(), granted(parent_number())) }
    }

    /// gettid(2) of the calling thread.
    pub fn thread_number() -> Self {
        Self::plain(libc::SYS_gettid, granted(thread_number()))
    }

    /// sched_yield(2).
    pub fn yield_processor() -> Self {
        Self::plain(libc::SYS_sched_yield, 0)
    }

    /// read(2) of this many bytes, which the file has.
    pub fn read(from: BorrowedFd<'a>, bytes: usize) -> Self {
        let arguments = [i64::from(from.as_raw_fd()), 0, bytes as i64, 0, 0, 0];
        // SAFETY: the kernel writes at most `bytes` bytes into the memory. The descriptor is open for the lifetime.
        unsafe { Self::filling(libc::SYS_read, arguments, 1, bytes, bytes as i64) }
    }

    /// write(2) of this many zeros, which the file takes.
    pub fn write_zeros(to: BorrowedFd<'a>, bytes: usize) -> Self {
        let arguments = [i64::from(to.as_raw_fd()), 0, bytes as i64, 0, 0, 0];
        // SAFETY: the kernel reads `bytes` bytes from the memory. The descriptor is open for the lifetime.
        unsafe { Self::filling(libc::SYS_write, arguments, 1, bytes, bytes as i64) }
    }

    /// write(2) of the first bytes of a number, at most eight, which the file takes.
    pub fn write(to: BorrowedFd<'a>, bytes: usize, number: i64) -> Self {
        let bytes = bytes.min(size_of::<i64>()) as i64;
        let arguments = [i64::from(to.as_raw_fd()), 0, bytes, 0, 0, 0];
        // SAFETY: the kernel reads `bytes` bytes from the memory. The descriptor is open for the lifetime.
        unsafe { Operation::call(libc::SYS_write, arguments, bytes).with_words(1, &[number]) }
    }

    /// getcwd(2) of a path of at most this many bytes. The answer is its length with the final zero.
    pub fn current_directory(bytes: usize) -> Self {
        let arguments = [0, bytes as i64, 0, 0, 0, 0];
        // SAFETY: the kernel writes at most `bytes` bytes into the memory.
        unsafe { Self::filling(libc::SYS_getcwd, arguments, 0, bytes, 0) }.answering_as_now()
    }

    /// A call that uses this many bytes of memory, zeros at first, to which one of its arguments points.
    ///
    /// # Safety
    ///
    /// As for [`Operation::call`]. The kernel must stay within the memory.
    unsafe fn filling(number: i64, mut arguments: [i64; 6], argument: usize, bytes: usize, expected: i64) -> Self {
        arguments[argument] = 0;
        // SAFETY: by the contract of this function.
        unsafe { Operation::call(number, arguments, expected).with_words(argument, &vec![0; bytes.div_ceil(8).max(1)]) }
    }

    /// The same operation with the answer that the kernel gives now. A call that is refused works at no time.
    fn answering_as_now(self) -> Self {
        let answer = self.once();
        self.answering(granted(answer))
    }

    /// fstat(2).
    pub fn status(of: BorrowedFd<'a>) -> Self {
        let arguments = [i64::from(of.as_raw_fd()), 0, 0, 0, 0, 0];
        // SAFETY: the kernel writes a status into the memory. The descriptor is open for the lifetime.
        unsafe { Self::filling(libc::SYS_fstat, arguments, 1, size_of::<libc::stat>(), 0) }
    }

    /// newfstatat(2) of a path. The answer is 0, or an error number where nothing has that name.
    pub fn status_of_path(path: &'static CStr, expected: i64) -> Self {
        let arguments = [i64::from(libc::AT_FDCWD), path.as_ptr() as i64, 0, 0, 0, 0];
        // SAFETY: the kernel reads the path, which is static, and writes a status into the memory.
        unsafe { Self::filling(libc::SYS_newfstatat, arguments, 2, size_of::<libc::stat>(), expected) }
    }

    /// statx(2) of the basic facts of a path.
    pub fn extended_status(path: &'static CStr) -> Self {
        let basic = i64::from(libc::STATX_BASIC_STATS);
        let arguments = [i64::from(libc::AT_FDCWD), path.as_ptr() as i64, 0, basic, 0, 0];
        // SAFETY: the kernel reads the path, which is static, and writes a status into the memory.
        unsafe { Self::filling(libc::SYS_statx, arguments, 4, size_of::<libc::statx>(), 0) }
    }

    /// faccessat(2): whether a path can be read.
    pub fn access(path: &'static CStr) -> Self {
        let arguments = [i64::from(libc::AT_FDCWD), path.as_ptr() as i64, i64::from(libc::R_OK), 0, 0, 0];
        // SAFETY: the kernel reads the path, which is static.
        unsafe { Operation::call(libc::SYS_faccessat, arguments, 0) }
    }

    /// openat(2) of a path for reading, and close(2). The answer is 0.
    pub fn open_and_close(path: &'static CStr) -> Self {
        // SAFETY: the path is static.
        unsafe { Operation::function(open_and_close, path.as_ptr().cast_mut().cast(), 0) }
    }

    /// dup(2) and close(2). The answer is 0.
    pub fn duplicate_and_close(of: BorrowedFd<'a>) -> Self {
        // SAFETY: the function takes the argument for a number. The descriptor is open for the lifetime.
        unsafe {
            Operation::function(duplicate_and_close, std::ptr::without_provenance_mut(of.as_raw_fd() as usize), 0)
        }
    }

    /// lseek(2) to the beginning of a file.
    pub fn seek(of: BorrowedFd<'a>) -> Self {
        // SAFETY: no memory. The descriptor is open for the lifetime.
        unsafe { Operation::call(libc::SYS_lseek, [i64::from(of.as_raw_fd()), 0, 0, 0, 0, 0], 0) }
    }

    /// fcntl(2) that gets the status flags of a file.
    pub fn status_flags(of: BorrowedFd<'a>) -> Self {
        let arguments = [i64::from(of.as_raw_fd()), i64::from(libc::F_GETFL), 0, 0, 0, 0];
        // SAFETY: no memory. The descriptor is open for the lifetime.
        unsafe { Operation::call(libc::SYS_fcntl, arguments, 0) }.answering_as_now()
    }

    /// fcntl(2) that sets the status flags of a file to what they are.
    pub fn set_status_flags(of: BorrowedFd<'a>) -> Self {
        let flags = Operation::status_flags(of).expected();
        let arguments = [i64::from(of.as_raw_fd()), i64::from(libc::F_SETFL), flags, 0, 0, 0];
        // SAFETY: no memory. The descriptor is open for the lifetime.
        unsafe { Operation::call(libc::SYS_fcntl, arguments, 0) }
    }

    /// chdir(2) to the working directory.
    pub fn same_directory() -> Self {
        // SAFETY: the kernel reads the path, which is static.
        unsafe { Operation::call(libc::SYS_chdir, [c".".as_ptr() as i64, 0, 0, 0, 0, 0], 0) }
    }

    /// writev(2) of this many buffers of one byte, which the file takes.
    pub fn write_buffers(to: BorrowedFd<'a>, buffers: usize) -> Self {
        static BYTE: u8 = 0;
        let words = [(&raw const BYTE) as i64, 1].repeat(buffers);
        let arguments = [i64::from(to.as_raw_fd()), 0, buffers as i64, 0, 0, 0];
        // SAFETY: the kernel reads the addresses and lengths from the memory, and a static byte for each. The descriptor is open for
        // the lifetime.
        unsafe { Operation::call(libc::SYS_writev, arguments, buffers as i64).with_words(1, &words) }
    }

    /// times(2) of this process. The answer is 0.
    pub fn process_times() -> Self {
        // SAFETY: the function does not use its argument.
        unsafe { Operation::function(times, std::ptr::null_mut(), 0) }
    }

    /// ioctl(2) that asks a file that is not a terminal for its terminal settings, as isatty(3) does.
    pub fn is_terminal(of: BorrowedFd<'a>) -> Self {
        let arguments = [i64::from(of.as_raw_fd()), libc::TCGETS as i64, 0, 0, 0, 0];
        // SAFETY: the kernel writes the settings of a terminal into the memory, which is larger.
        unsafe { Self::filling(libc::SYS_ioctl, arguments, 2, 256, -i64::from(libc::ENOTTY)) }
    }

    /// pread64(2) of this many bytes from the beginning of a file, which has them.
    pub fn read_at(from: BorrowedFd<'a>, bytes: usize) -> Self {
        let arguments = [i64::from(from.as_raw_fd()), 0, bytes as i64, 0, 0, 0];
        // SAFETY: the kernel writes at most `bytes` bytes into the memory. The descriptor is open for the lifetime.
        unsafe { Self::filling(libc::SYS_pread64, arguments, 1, bytes, bytes as i64) }
    }

    /// pwrite64(2) of this many zeros to the beginning of a file.
    pub fn write_at(to: BorrowedFd<'a>, bytes: usize) -> Self {
        let arguments = [i64::from(to.as_raw_fd()), 0, bytes as i64, 0, 0, 0];
        // SAFETY: the kernel reads `bytes` bytes from the memory. The descriptor is open for the lifetime.
        unsafe { Self::filling(libc::SYS_pwrite64, arguments, 1, bytes, bytes as i64) }
    }

    /// getrandom(2) of 16 bytes.
    pub fn random_bytes() -> Self {
        // SAFETY: the kernel writes 16 bytes into the memory.
        unsafe { Self::filling(libc::SYS_getrandom, [0, 16, 0, 0, 0, 0], 0, 16, 16) }
    }

    /// uname(2).
    pub fn system_name() -> Self {
        // SAFETY: the kernel writes its names into the memory.
        unsafe { Self::filling(libc::SYS_uname, [0; 6], 0, size_of::<libc::utsname>(), 0) }
    }

    /// getrusage(2) of this process.
    pub fn resource_usage() -> Self {
        let arguments = [i64::from(libc::RUSAGE_SELF), 0, 0, 0, 0, 0];
        // SAFETY: the kernel writes the usage into the memory.
        unsafe { Self::filling(libc::SYS_getrusage, arguments, 1, size_of::<libc::rusage>(), 0) }
    }

    /// rt_sigprocmask(2) that gets the mask of blocked signals.
    pub fn signal_mask() -> Self {
        let arguments = [i64::from(libc::SIG_BLOCK), 0, 0, 8, 0, 0];
        // SAFETY: the kernel writes a mask of eight bytes into the memory, and changes none.
        unsafe { Self::filling(libc::SYS_rt_sigprocmask, arguments, 2, 8, 0) }
    }

    /// futex(2) that wakes the waiters of a word that has none.
    pub fn wake_without_waiters() -> Self {
        let arguments = [0, i64::from(libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG), 1, 0, 0, 0];
        // SAFETY: the word is in the memory. The kernel does not change it.
        unsafe { Self::filling(libc::SYS_futex, arguments, 0, 8, 0) }
    }

    /// futex(2) that would wait for a word with another value, and returns at once.
    pub fn wait_without_need() -> Self {
        let arguments = [0, i64::from(libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG), 1, 0, 0, 0];
        // SAFETY: the word is in the memory. The kernel reads it.
        unsafe { Self::filling(libc::SYS_futex, arguments, 0, 8, -i64::from(libc::EAGAIN)) }
    }

    /// futex(2) that would move the waiters of a word to another one. It has none.
    pub fn requeue_without_waiters() -> Self {
        let arguments = [0, i64::from(libc::FUTEX_CMP_REQUEUE | libc::FUTEX_PRIVATE_FLAG), 1, 1, 0, 0];
        // SAFETY: both words are in the memory. The kernel compares the first one with zero, and changes none.
        unsafe { Operation::call(libc::SYS_futex, arguments, 0).with_words(0, &[0, 0]).pointing(4, 1) }
    }

    /// epoll_ctl(2) that changes for which events a set waits of a descriptor: none.
    pub fn change_events(set: BorrowedFd<'a>, of: BorrowedFd<'a>) -> Self {
        let [set, of] = [set, of].map(|file| i64::from(file.as_raw_fd()));
        // SAFETY: the kernel reads an event from the memory. The descriptors are open for the lifetime.
        unsafe {
            Self::filling(
                libc::SYS_epoll_ctl,
                [set, i64::from(libc::EPOLL_CTL_MOD), of, 0, 0, 0],
                3,
                size_of::<libc::epoll_event>(),
                0,
            )
        }
    }

    /// epoll_pwait(2) of a set in which one descriptor is ready.
    pub fn ready_event(set: BorrowedFd<'a>) -> Self {
        let arguments = [i64::from(set.as_raw_fd()), 0, 1, 0, 0, 8];
        // SAFETY: the kernel writes one event into the memory. The descriptor is open for the lifetime.
        unsafe { Self::filling(libc::SYS_epoll_pwait, arguments, 1, size_of::<libc::epoll_event>(), 1) }
    }

    /// ppoll(2) of some entries, each a descriptor and whether it is the ready one. The answer is the number of ready entries.
    pub fn poll(entries: &[(BorrowedFd<'a>, bool)]) -> Self {
        Operation::poll_within(entries, std::ptr::null())
    }

    /// The same with a time limit of zero.
    pub fn poll_at_once(entries: &[(BorrowedFd<'a>, bool)]) -> Self {
        static NO_TIME: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        Operation::poll_within(entries, &raw const NO_TIME)
    }

    /// With a time limit that lives as long as the process, or none.
    fn poll_within(entries: &[(BorrowedFd<'a>, bool)], limit: *const libc::timespec) -> Self {
        let entry = |(of, _): &(BorrowedFd<'a>, bool)| i64::from(of.as_raw_fd()) | i64::from(libc::POLLIN) << 32;
        let words: Vec<i64> = entries.iter().map(entry).collect();
        let ready = entries.iter().filter(|(_, ready)| *ready).count() as i64;
        let arguments = [0, words.len() as i64, limit as i64, 0, 0, 0];
        // SAFETY: the kernel reads and writes as many entries of eight bytes as the memory has. The descriptors are open for the
        // lifetime. It reads the limit, and does not write to one of zero. Without a limit it waits for a ready one, and one is ready.
        unsafe { Operation::call(libc::SYS_ppoll, arguments, ready).with_words(0, &words) }
    }

    /// pselect6(2) of a descriptor that is ready. The answer is 1.
    pub fn select(ready: BorrowedFd<'a>) -> Self {
        let number = ready.as_raw_fd() as usize;
        let mut words = [0; libc::FD_SETSIZE / 64];
        words[number / 64] = 1 << (number % 64);
        // SAFETY: the kernel reads and writes the set in the memory up to the descriptor, which is open for the lifetime.
        unsafe { Operation::call(libc::SYS_pselect6, [number as i64 + 1, 0, 0, 0, 0, 0], 1).with_words(1, &words) }
    }

    /// select(2) of some descriptors, of which only the last is ready. Each call copies the set, which the kernel overwrites. The answer is 0.
    ///
    /// # Errors
    ///
    /// The number of a descriptor is too large for a set.
    pub fn select_of_many<T: AsFd + Send + Sync + 'static>(files: Vec<T>) -> io::Result<Operation<'static>> {
        let numbers = || files.iter().map(|file| file.as_fd().as_raw_fd());
        let most = numbers().max().filter(|&most| most < libc::FD_SETSIZE as i32).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: an empty set is all zeros.
        let mut set: libc::fd_set = unsafe { std::mem::zeroed() };
        // SAFETY: each number fits into a set.
        numbers().for_each(|number| unsafe { libc::FD_SET(number, &raw mut set) });
        // SAFETY: the function takes such a value, whose files stay open with it.
        Ok(unsafe { Operation::on_value(Selected { set, most, _files: Box::new(files) }, select_copy) })
    }

    /// ioctl(2) that asks how many bytes of a file can be read.
    pub fn readable_bytes(of: BorrowedFd<'a>) -> Self {
        let arguments = [i64::from(of.as_raw_fd()), libc::FIONREAD as i64, 0, 0, 0, 0];
        // SAFETY: the kernel writes a number into the memory. The descriptor is open for the lifetime.
        unsafe { Self::filling(libc::SYS_ioctl, arguments, 2, 8, 0) }
    }

    /// timerfd_gettime(2).
    pub fn timer_state(timer: BorrowedFd<'a>) -> Self {
        let arguments = [i64::from(timer.as_raw_fd()), 0, 0, 0, 0, 0];
        // SAFETY: the kernel writes a timer's state into the memory. The descriptor is open for the lifetime.
        unsafe { Self::filling(libc::SYS_timerfd_gettime, arguments, 1, size_of::<libc::itimerspec>(), 0) }
    }

    /// membarrier(2) among the threads of this process.
    ///
    /// # Errors
    ///
    /// The kernel cannot do it.
    pub fn memory_barrier() -> io::Result<Self> {
        let call = |command: libc::c_int| {
            // SAFETY: no memory.
            unsafe { Operation::call(libc::SYS_membarrier, [i64::from(command), 0, 0, 0, 0, 0], 0) }
        };
        match call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED).once() {
            0 => Ok(call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)),
            refused => Err(io::Error::from_raw_os_error(-refused as i32)),
        }
    }

    /// An operation on a file, which it keeps open.
    pub fn on_file(
        file: impl AsFd + Send + Sync + 'static,
        make: impl for<'f> Fn(BorrowedFd<'f>) -> Operation<'f>,
    ) -> Operation<'static> {
        Self::on_files(file, |file| make(file.as_fd()))
    }

    /// An operation on several files, which it keeps open.
    pub fn on_files<T: Send + Sync + 'static>(
        files: T,
        make: impl for<'f> Fn(&'f T) -> Operation<'f>,
    ) -> Operation<'static> {
        let files = Arc::new(files);
        // SAFETY: the operation borrows the files alone.
        unsafe { make(&files).holding(files.clone()) }
    }

    /// Two operations on several files, which both keep open.
    pub fn two_on_files<T: Send + Sync + 'static>(
        files: T,
        make: impl for<'f> Fn(&'f T) -> [Operation<'f>; 2],
    ) -> [Operation<'static>; 2] {
        let files = Arc::new(files);
        // SAFETY: the operations borrow the files alone.
        make(&files).map(|operation| unsafe { operation.holding(files.clone()) })
    }

    /// clock_gettime(2) of CLOCK_MONOTONIC. The answer is 0.
    pub fn monotonic_time() -> Self {
        let arguments = [i64::from(libc::CLOCK_MONOTONIC), 0, 0, 0, 0, 0];
        // SAFETY: the kernel writes a timespec into the memory.
        unsafe { Self::filling(libc::SYS_clock_gettime, arguments, 1, size_of::<libc::timespec>(), 0) }
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
