//! Clocks: the architecture's counter and the kernel's.

use std::ffi::c_void;
use std::time::Instant;

use super::arch::{self, ClockReader, Reading, Stamp, reader};
use super::operation::Operation;

/// Source of the ticks of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The architecture's counter: the time-stamp counter, or CNTVCT.
    Counter,
    /// CLOCK_MONOTONIC_RAW in nanoseconds, where the counter cannot be used.
    MonotonicRaw,
}

impl Source {
    /// Name in logs.
    pub fn name(self) -> &'static str {
        match self {
            Source::Counter => arch::COUNTER,
            Source::MonotonicRaw => "monotonic_raw",
        }
    }

    /// The source with a name.
    pub fn named(name: &str) -> Option<Source> {
        [Source::Counter, Source::MonotonicRaw].into_iter().find(|source| source.name() == name)
    }

    /// A reading with the CPU that took it.
    #[inline(always)]
    pub fn stamp(self) -> Stamp {
        match self {
            Source::Counter => arch::stamp(),
            Source::MonotonicRaw => Stamp { ticks: monotonic_raw(), cpu: super::affinity::current() },
        }
    }

    /// A reading that begins an interval. It reads the clock last.
    #[inline(always)]
    pub fn opening(self) -> Stamp {
        match self {
            Source::Counter => arch::opening(),
            Source::MonotonicRaw => {
                let cpu = super::affinity::current();
                Stamp { ticks: monotonic_raw(), cpu }
            }
        }
    }
}

#[inline(always)]
fn gettime(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for one timespec; the clocks used here exist on every Linux, so the call cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

#[inline(always)]
fn gettime_by_system_call(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above; the system call is made directly instead of through the kernel's user-space library.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// CLOCK_MONOTONIC_RAW in nanoseconds: not adjusted by time synchronisation.
#[inline(always)]
pub fn monotonic_raw() -> i64 {
    gettime(libc::CLOCK_MONOTONIC_RAW)
}

/// CLOCK_MONOTONIC in nanoseconds: slewed by time synchronisation by up to 500 ppm (adjtimex(2)).
#[inline(always)]
pub fn monotonic() -> i64 {
    gettime(libc::CLOCK_MONOTONIC)
}

/// A reading of [`monotonic`] for [placed loops](super::placed). The answer is 1 where the clock stepped back, else 0.
pub fn monotonic_operation() -> Operation<'static> {
    extern "C" fn read(last: *mut c_void) -> i64 {
        let last = last.cast::<i64>();
        let now = monotonic();
        // SAFETY: the operation gives the address of a number that it owns.
        i64::from(unsafe { last.replace(now) } > now)
    }
    // SAFETY: the function stays within the eight bytes of its memory.
    unsafe { Operation::function(read, std::ptr::null_mut(), 0).with_words(0, &[0]) }
}

/// CPU time of this process, all its threads, in nanoseconds.
pub fn process_cpu_time() -> i64 {
    gettime(libc::CLOCK_PROCESS_CPUTIME_ID)
}

struct Monotonic;
impl Reading for Monotonic {
    #[inline(always)]
    fn read() -> i64 {
        monotonic()
    }
}

struct MonotonicRaw;
impl Reading for MonotonicRaw {
    #[inline(always)]
    fn read() -> i64 {
        monotonic_raw()
    }
}

struct MonotonicCoarse;
impl Reading for MonotonicCoarse {
    #[inline(always)]
    fn read() -> i64 {
        gettime(libc::CLOCK_MONOTONIC_COARSE)
    }
}

struct SystemCall;
impl Reading for SystemCall {
    #[inline(always)]
    fn read() -> i64 {
        gettime_by_system_call(libc::CLOCK_MONOTONIC)
    }
}

/// What a Rust program calls. Differences are taken inside, so a reading is nanoseconds since the first one.
struct StandardInstant;
impl Reading for StandardInstant {
    #[inline(always)]
    fn read() -> i64 {
        static ORIGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        let now = Instant::now();
        now.duration_since(*ORIGIN.get_or_init(|| now)).as_nanos() as i64
    }
}

/// The kernel's clocks, as programs read them.
pub const KERNEL_READERS: [ClockReader; 5] = [
    reader!("clock_gettime", Monotonic, ticks false, order false, "clock_gettime(CLOCK_MONOTONIC), usually without entering the kernel"),
    reader!("clock_gettime_raw", MonotonicRaw, ticks false, order false, "clock_gettime(CLOCK_MONOTONIC_RAW)"),
    reader!("clock_gettime_coarse", MonotonicCoarse, ticks false, order false, "clock_gettime(CLOCK_MONOTONIC_COARSE): the time of the last tick"
    ),
    reader!("clock_gettime_syscall", SystemCall, ticks false, order false, "clock_gettime(CLOCK_MONOTONIC) by a real system call"),
    reader!("instant_now", StandardInstant, ticks false, order false, "std::time::Instant::now() and the difference to a fixed origin"),
];
