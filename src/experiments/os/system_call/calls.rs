//! The calls that are measured, a row for each.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::eventfd::EventFd;
use nix::sys::timerfd::{ClockId, TimerFd, TimerFlags};

use crate::experiments::os::row::Row;
use crate::sys::operation::Operation;
use crate::sys::ring::{self, Ring};
use crate::sys::{clock, create};

/// The floor, which no call has.
pub(super) const FLOOR: &str = "enosys";
/// getppid in a separate function.
pub(super) const FUNCTION: &str = "getppid_in_function";
pub(super) const VDSO: &str = "clock_gettime_vdso";
pub(super) const RING: &str = "io_uring_nop";
pub(super) const RING_BATCHED: &str = "io_uring_nop_batched";
pub(super) const YIELD: &str = "sched_yield";

/// Hint for a machine without io_uring.
const RING_HINT: &str = " (see sysctl kernel.io_uring_disabled)";

/// A file that every system has. Its path has two parts.
const EXISTS: &CStr = c"/dev/null";
/// A name that no file has.
const MISSING: &CStr = c"/sysdyno-has-no-such-file";
/// Bytes of a page on most machines, and of a usual buffer.
const BLOCK: usize = 4096;
/// Longest path of a working directory (PATH_MAX).
const LONGEST_PATH: usize = 4096;

/// A file in memory with a block of zeros.
fn block() -> io::Result<File> {
    let file = create::in_memory(c"block")?;
    file.set_len(BLOCK as u64)?;
    io::copy(&mut io::repeat(0).take(BLOCK as u64), &mut &file)?;
    Ok(file)
}

/// An operation on such a file.
fn on_block(make: impl for<'f> Fn(BorrowedFd<'f>) -> Operation<'f>) -> io::Result<Operation<'static>> {
    Ok(Operation::on_file(block()?, make))
}

/// Calls of the sweep, the first of the table. More calls in between would be another "among other calls".
pub(super) const IN_SWEEP: usize = 13;

/// The floor, then the set in the order of the report.
#[expect(clippy::redundant_closure, reason = "the functions themselves are not general in the lifetime of the file")]
pub(in crate::experiments) static CALLS: [Row; 53] = [
    Row::call(FLOOR, "empty (ENOSYS)", "refuse a number without a call", 0.0, || Ok(Operation::refused())),
    Row::call("getpid", "getpid", "return a number", 40.0, || Ok(Operation::process_number())),
    Row::call("getppid", "getppid", "follow a pointer under a read lock and return a number", 60.0, || {
        Ok(Operation::parent_number())
    }),
    Row::call(
        FUNCTION,
        "getppid through a function",
        "follow a pointer under a read lock and return a number",
        60.0,
        || Ok(Operation::parent_number_in_function()),
    ),
    Row::call("gettid", "gettid", "return a number", 40.0, || Ok(Operation::thread_number())),
    Row::call("read_dev_zero", "read of /dev/zero", "file layer, clear one byte of user memory", 260.0, || {
        Ok(Operation::on_file(File::open("/dev/zero")?, |zero| Operation::read(zero, 1)))
    }),
    Row::call("write_dev_null", "write to /dev/null", "file layer, discard one byte", 180.0, || {
        Ok(Operation::on_file(File::options().write(true).open("/dev/null")?, |null| Operation::write(null, 1, 1)))
    }),
    Row::call("getcwd", "getcwd", "follow the path of the working directory and copy it", 600.0, || {
        Ok(Operation::current_directory(LONGEST_PATH))
    }),
    Row::call("clock_gettime", "clock_gettime", "read the clock and copy 16 bytes", CLOCK_INSTRUCTIONS, || {
        Ok(Operation::monotonic_time())
    }),
    Row {
        entries: 0.0,
        ..Row::call(VDSO, "clock_gettime in user mode (vDSO)", "read the clock without the kernel", 40.0, || {
            Ok(clock::monotonic_operation())
        })
    },
    // A yield may hand the CPU over, so it is tried only where a filter may refuse it.
    Row {
        is_tried: false,
        ..Row::call(YIELD, "sched_yield", "ask the scheduler, find no other task", 500.0, || {
            Ok(Operation::yield_processor())
        })
    },
    Row {
        hint: RING_HINT,
        ..Row::call(
            RING,
            "no-operation through io_uring",
            "one no-operation through the ring and one system call",
            800.0,
            || Ok(Ring::of(1)?.into_operation()),
        )
    },
    Row {
        entries: 1.0 / ring::ENTRIES as f64,
        operations: ring::ENTRIES as u64,
        hint: RING_HINT,
        ..Row::call(
            RING_BATCHED,
            "32 no-operations through io_uring, each",
            "one of 32 no-operations in a system call",
            150.0,
            || Ok(Ring::of(ring::ENTRIES)?.into_operation()),
        )
    },
    Row::call("stat", "stat", "walk a path of two parts and copy the status of a file", 2100.0, || {
        Ok(Operation::status_of_path(EXISTS, 0))
    }),
    Row::call("stat_missing", "stat of a missing file", "walk a path to a name that no file has", 950.0, || {
        Ok(Operation::status_of_path(MISSING, -i64::from(libc::ENOENT)))
    }),
    Row::call("fstat", "fstat", "copy the status of an open file", 600.0, || {
        on_block(|block| Operation::status(block))
    }),
    Row::call("statx", "statx", "walk a path of two parts and copy the extended status of a file", 2200.0, || {
        Ok(Operation::extended_status(EXISTS))
    }),
    Row::call("access", "access", "walk a path of two parts and check the permissions of a file", 1800.0, || {
        Ok(Operation::access(EXISTS))
    }),
    Row {
        entries: 2.0,
        ..Row::call(
            "open_close",
            "open and close",
            "walk a path of two parts, make an open file and free it",
            5400.0,
            || Ok(Operation::open_and_close(EXISTS)),
        )
    },
    Row {
        entries: 2.0,
        ..Row::call("dup_close", "dup and close", "find a free descriptor, install a file and remove it", 600.0, || {
            on_block(|block| Operation::duplicate_and_close(block))
        })
    },
    Row::call("lseek", "lseek", "set the position of an open file", 150.0, || on_block(|block| Operation::seek(block))),
    Row::call("fcntl_getfl", "fcntl (F_GETFL)", "return the status flags of an open file", 180.0, || {
        on_block(|block| Operation::status_flags(block))
    }),
    Row::call(
        "isatty",
        "ioctl (isatty)",
        "ask an open file for terminal settings, which it does not have",
        200.0,
        || on_block(|block| Operation::is_terminal(block)),
    ),
    Row::call("pread_1", "pread of 1 byte", "copy one byte from the page cache", 800.0, || {
        on_block(|block| Operation::read_at(block, 1))
    }),
    Row::call("pread_4096", "pread of 4 KiB", "copy 4096 bytes from the page cache", 900.0, || {
        on_block(|block| Operation::read_at(block, BLOCK))
    }),
    Row::call("pwrite_1", "pwrite of 1 byte", "copy one byte to the page cache", 1100.0, || {
        on_block(|block| Operation::write_at(block, 1))
    }),
    Row::call("pwrite_4096", "pwrite of 4 KiB", "copy 4096 bytes to the page cache", 1200.0, || {
        on_block(|block| Operation::write_at(block, BLOCK))
    }),
    Row::call("getrandom_16", "getrandom of 16 bytes", "make 16 random bytes", 550.0, || Ok(Operation::random_bytes())),
    Row::call("uname", "uname", "copy the names of the system", 250.0, || Ok(Operation::system_name())),
    Row::call("getrusage", "getrusage", "sum the resource usage of the threads and copy it", 1250.0, || {
        Ok(Operation::resource_usage())
    }),
    Row::call("sigprocmask", "sigprocmask", "copy the mask of blocked signals", 100.0, || Ok(Operation::signal_mask())),
    Row::call("futex_wake", "futex wake without waiters", "look for waiters of a word that has none", 300.0, || {
        Ok(Operation::wake_without_waiters())
    }),
    Row::call("futex_mismatch", "futex wait that returns at once", "find that a word has another value", 500.0, || {
        Ok(Operation::wait_without_need())
    }),
    Row::call(
        "epoll_wait_ready",
        "epoll_wait with a ready descriptor",
        "return one ready descriptor of a set",
        700.0,
        || Ok(Operation::on_file(ready_set()?, |set| Operation::ready_event(set))),
    ),
    Row::call("poll_1", "poll of 1 descriptor", "ask a descriptor whether it is ready, which it is", 800.0, || poll(1)),
    Row::call(
        "poll_100",
        "poll of 100 descriptors",
        "ask 100 descriptors, of which the last is ready",
        52_000.0,
        || poll(100),
    ),
    Row::call(
        "select_1",
        "select of 1 descriptor",
        "ask a descriptor in a set whether it is ready, which it is",
        1_200.0,
        || Ok(Operation::on_file(EventFd::from_value(1)?, |event| Operation::select(event))),
    ),
    Row::call("ioctl_fionread", "ioctl (FIONREAD)", "return how many bytes of a pipe can be read", 320.0, || {
        let (reader, writer) = io::pipe()?;
        Ok(Operation::on_file(Both(reader, writer), |pipe| Operation::readable_bytes(pipe)))
    }),
    Row::call("timerfd_gettime", "timerfd_gettime", "return the state of a timer", 450.0, || {
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC)?;
        Ok(Operation::on_file(timer, |timer| Operation::timer_state(timer)))
    }),
    Row::call("membarrier", "membarrier", "order the memory accesses of the threads of the process", 600.0, || {
        Operation::memory_barrier()
    }),
    Row::call("chdir", "chdir", "walk a path of one part and take the directory", 900.0, || {
        Ok(Operation::same_directory())
    }),
    Row::call("fcntl_setfl", "fcntl (F_SETFL)", "set the status flags of an open file", 170.0, || {
        on_block(|block| Operation::set_status_flags(block))
    }),
    Row::call(
        "writev_10",
        "writev of 10 buffers",
        "copy the list of 10 buffers, discard a byte of each",
        500.0,
        || {
            let null = File::options().write(true).open("/dev/null")?;
            Ok(Operation::on_file(null, |null| Operation::write_buffers(null, 10)))
        },
    ),
    Row::call("times", "times", "sum the times of the threads and copy them", 800.0, || Ok(Operation::process_times())),
    Row::call("epoll_ctl", "epoll_ctl", "change for which events a set waits of a descriptor", 450.0, || {
        Ok(Operation::on_files(ready_set()?, |set| Operation::change_events(set.as_fd(), set.1.as_fd())))
    }),
    Row::call(
        "futex_requeue",
        "futex that moves no waiters",
        "look for waiters of two words without any",
        550.0,
        || Ok(Operation::requeue_without_waiters()),
    ),
    Row {
        entries: 2.0,
        ..Row::call("socket_close", "socket and close (TCP)", "make a TCP socket and free it", 7000.0, || {
            Ok(Operation::open_socket_and_close())
        })
    },
    Row {
        entries: 3.0,
        ..Row::call(
            "socket_bind_close",
            "socket, bind and close (UDP)",
            "make a UDP socket, find a free port, and free both",
            9500.0,
            || Ok(Operation::bind_socket_and_close()),
        )
    },
    Row {
        entries: 3.0,
        ..Row::call(
            "socketpair_close",
            "pair of sockets and two closes",
            "make two connected UNIX sockets and free them",
            13_000.0,
            || Ok(Operation::open_pair_and_close()),
        )
    },
    Row::call("listen", "listen", "set the queue of a socket that listens", 320.0, || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        Ok(Operation::on_file(listener, |listener| Operation::listen_again(listener)))
    }),
    Row::call("setsockopt", "setsockopt", "set an option of a socket", 450.0, || {
        Ok(Operation::on_file(connected()?, |socket| Operation::set_option(socket)))
    }),
    Row::call("getsockname", "getsockname", "copy the address of a socket", 480.0, || {
        Ok(Operation::on_file(connected()?, |socket| Operation::own_address(socket)))
    }),
    Row::call("getpeername", "getpeername", "copy the address of the other socket", 480.0, || {
        Ok(Operation::on_file(connected()?, |socket| Operation::peer_address(socket)))
    }),
];

/// A UDP socket that is connected with itself. Nothing is sent.
fn connected() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(socket.local_addr()?)?;
    Ok(socket)
}

/// poll(2) of this many entries. The last one is a descriptor that is ready, and all others are one that is not.
fn poll(entries: usize) -> io::Result<Operation<'static>> {
    let both = Both(EventFd::from_value(0)?, EventFd::from_value(1)?);
    Ok(Operation::on_files(both, |both| {
        let mut all = vec![(both.0.as_fd(), false); entries - 1];
        all.push((both.1.as_fd(), true));
        Operation::poll(&all)
    }))
}

/// A set in which a descriptor is ready.
fn ready_set() -> io::Result<Both<OwnedFd, EventFd>> {
    let event = EventFd::from_value(1)?;
    let set = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    set.add(&event, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
    Ok(Both(set.0, event))
}

/// A descriptor that is used, with another one that stays open.
struct Both<T, U>(T, U);

impl<T: AsFd, U> AsFd for Both<T, U> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Instructions of a clock read between entry and exit.
pub(super) const CLOCK_INSTRUCTIONS: f64 = 300.0;
