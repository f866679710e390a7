//! Known truth for the operating-system chapter: costs that a test makes and the tool's primitives must show.
//!
//! Every comparison is a ratio or a difference of best-of-many within one process on one CPU, and is tried again: noise only
//! adds time. No absolute speed is asserted.
#![allow(unsafe_code, reason = "signal handlers are installed on threads of the test")]

use crate::support::{filter, truth};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::support::truth::{timed, within};
use sysdyno::testing::sys::child::{self, Image, STATUS, Task};
use sysdyno::testing::sys::clock::Source;
use sysdyno::testing::sys::memory::{Pages, Resident};
use sysdyno::testing::sys::placed::{Around, PlacedLoop};
use sysdyno::testing::sys::signal::{self, Handled};
use sysdyno::testing::sys::system_call;
use sysdyno::testing::sys::thread::{self, Attributes, Bare, Body, CloneCall};
use sysdyno::testing::sys::{affinity, arch};

/// Measurements take turns: on few CPUs two at once would measure each other.
static TURN: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let cpu = *affinity::allowed().last().unwrap();
    affinity::restrict(&[cpu]).unwrap();
    turn
}

/// Runs between looks at the core.
const RUNS_PER_LOOK: u32 = 5;

/// Lowest duration in nanoseconds of a number of runs.
fn lowest_time(runs: u32, mut work: impl FnMut()) -> f64 {
    (0..runs).map(|_| timed_once(&mut work)).fold(f64::INFINITY, f64::min)
}

fn timed_once(work: &mut impl FnMut()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_nanos() as f64
}

/// Multiplications of the chain beside each run: some microseconds, by which the core clock is seen.
const CLOCK_CHAIN: u64 = 2_000;

/// Chains beside a run that differ by more than this had different core clocks, or an interrupt.
const CLOCK_AGREEMENT: f64 = 0.01;

/// Lowest duration of a number of runs, in steps of a chain of multiplications: the core clock differs from run to run. Runs
/// between two clocks do not count, unless there are no others.
fn lowest(runs: u32, mut work: impl FnMut()) -> f64 {
    let chain = || timed_once(&mut || arch::multiply_chain(CLOCK_CHAIN)) / CLOCK_CHAIN as f64;
    let mut of_all = f64::INFINITY;
    let mut of_steady = f64::INFINITY;
    for run in 0..runs {
        if run.is_multiple_of(RUNS_PER_LOOK) {
            truth::look();
        }
        let before = chain();
        let spent = timed_once(&mut work);
        let after = chain();
        let steps = spent / before.min(after);
        of_all = of_all.min(steps);
        if (before - after).abs() < CLOCK_AGREEMENT * before {
            of_steady = of_steady.min(steps);
        }
    }
    if of_steady.is_finite() { of_steady } else { of_all }
}

/// Eight calls in a row, without a branch between them: kernels clear the predictors of branches, so that a loop around each call
/// would cost a misprediction of its own.
fn eight_calls() {
    std::hint::black_box(system_call::parent_number());
    std::hint::black_box(system_call::parent_number());
    std::hint::black_box(system_call::parent_number());
    std::hint::black_box(system_call::parent_number());
    std::hint::black_box(system_call::parent_number());
    std::hint::black_box(system_call::parent_number());
    std::hint::black_box(system_call::parent_number());
    std::hint::black_box(system_call::parent_number());
}

#[test]
fn two_calls_cost_twice_as_much_as_one() {
    let _turn = alone();
    // The same code in both: what a call costs depends on the branches before it (its mode), and these must be the same.
    let calls = |turns: u32| lowest(200, || (0..turns).for_each(|_| eight_calls()));
    timed("two calls against one", || within(calls(50) / calls(25), 1.96, 2.04));
}

/// Iterations of a chain in a handler: long against what a core does ahead of it.
const HANDLER_CHAIN: u64 = 100;

/// Iterations of a longer one. Their difference has no part of what a core needs to get going in a handler.
const LONGER_CHAIN: u64 = 400;

/// A handler that counts and computes.
extern "C" fn computes(number: i32) {
    signal::count(number);
    arch::multiply_chain(HANDLER_CHAIN);
}

/// A handler that counts and computes more.
extern "C" fn computes_more(number: i32) {
    signal::count(number);
    arch::multiply_chain(LONGER_CHAIN);
}

/// Nanoseconds of some signals to the calling thread, all of which are handled.
fn signals(handler: signal::Handler, number: u64) -> f64 {
    // SAFETY: the handlers of these tests count and compute.
    let handled = unsafe { Handled::by(handler) }.unwrap();
    let send = handled.send();
    lowest(200, || {
        let before = signal::delivered();
        for _ in 0..number {
            assert_eq!(send.once(), 0);
        }
        assert_eq!(signal::delivered() - before, number);
    })
}

#[test]
fn a_handler_that_computes_is_longer_by_just_that() {
    let _turn = alone();
    timed("a chain in a handler", || {
        let chain = |length| lowest(200, || (0..50).for_each(|_| arch::multiply_chain(length)));
        let longer = chain(LONGER_CHAIN) - chain(HANDLER_CHAIN);
        within((signals(computes_more, 50) - signals(computes, 50)) / longer, 0.98, 1.02)
    });
}

#[test]
fn twice_the_signals_cost_twice_as_much() {
    let _turn = alone();
    timed("100 signals against 50", || within(signals(signal::count, 100) / signals(signal::count, 50), 1.96, 2.04));
}

#[test]
fn a_signal_is_as_before_when_its_handler_is_gone() {
    let _turn = alone();
    let action = || {
        let mut now = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: the action is written by the kernel; all zeros is a valid one.
        let (answer, now) =
            unsafe { (libc::sigaction(libc::SIGUSR1, std::ptr::null(), now.as_mut_ptr()), now.assume_init()) };
        assert_eq!(answer, 0);
        now.sa_sigaction
    };
    let before = action();
    let handled = Handled::counted().unwrap();
    assert_eq!(action(), signal::count as *const () as libc::sighandler_t);
    let mut random = fastrand::Rng::with_seed(1);
    PlacedLoop::draw(&mut random, vec![handled.install()], Around::Nothing, 1).unwrap().run(1).unwrap();
    assert_eq!(action(), signal::count as *const () as libc::sighandler_t);
    drop(handled);
    assert_eq!(action(), before);
}

#[test]
fn a_longer_filter_makes_calls_dearer() {
    let _turn = alone();
    let cost = |instructions: Option<usize>| {
        std::thread::spawn(move || {
            if let Some(instructions) = instructions {
                filter::install(instructions);
            }
            lowest(300, || {
                for _ in 0..100 {
                    std::hint::black_box(system_call::parent_number());
                }
            })
        })
        .join()
        .unwrap()
    };
    timed("filters of 0, 50, 400 and 2000 instructions", || {
        let costs = [cost(None), cost(Some(50)), cost(Some(400)), cost(Some(2000))];
        if costs.windows(2).all(|pair| pair[0] < pair[1]) { Ok(()) } else { Err(format!("{costs:?}")) }
    });
}

#[test]
fn a_child_that_sleeps_is_in_the_wait_and_not_in_the_return() {
    let _turn = alone();
    let nap = libc::timespec { tv_sec: 0, tv_nsec: 5_000_000 };
    let wait = |nap| {
        lowest_time(15, || {
            let child = child::fork(Task { nap, ..Task::default() }).unwrap();
            assert_eq!(child.reap().unwrap(), STATUS);
        })
    };
    let returns = |nap| {
        (0..15)
            .map(|_| {
                let began = Instant::now();
                let child = child::fork(Task { nap, ..Task::default() }).unwrap();
                let took = began.elapsed().as_nanos() as f64;
                assert_eq!(child.reap().unwrap(), STATUS);
                took
            })
            .fold(f64::INFINITY, f64::min)
    };
    // How long the sleep really takes here.
    let slept = || lowest_time(15, || std::thread::sleep(Duration::from_nanos(nap.tv_nsec as u64)));
    timed("sleep in fork and wait", || within((wait(Some(&nap)) - wait(None)) / slept(), 0.97, 1.03));
    timed("sleep in fork's return", || within((returns(Some(&nap)) - returns(None)) / slept(), -0.02, 0.02));
}

#[test]
fn twice_the_pages_cost_twice_as_much_above_the_base() {
    let _turn = alone();
    let fork = |resident: &mut Option<Resident>| {
        if let Some(resident) = resident {
            resident.dirty();
        }
        let began = Instant::now();
        let child = child::fork(Task::default()).unwrap();
        let took = began.elapsed().as_nanos() as f64;
        assert_eq!(child.reap().unwrap(), STATUS);
        took
    };
    // Mapped anew in every comparison: which page tables and counters share sets of a cache is luck. In turns, so that a slow
    // moment of the host meets all sizes. The kernel's 64 bytes for each page stay within a second-level cache: beyond it, from
    // some 32 MiB on, a page costs up to twice as much.
    timed("16 MiB against 8 MiB", || {
        let mut least = [f64::INFINITY; 3];
        for _ in 0..16 {
            for (least, mebibytes) in least.iter_mut().zip([0, 8, 16]) {
                let mut resident = (mebibytes > 0).then(|| Resident::new(mebibytes << 20, Pages::Small).unwrap());
                *least = least.min(fork(&mut resident)).min(fork(&mut resident));
            }
        }
        within((least[2] - least[0]) / (least[1] - least[0]), 1.75, 2.3)
    });
}

#[test]
fn an_image_that_cannot_be_executed_is_no_fast_process() {
    let plain = tempfile::NamedTempFile::new().unwrap();
    for path in ["/proc/nonexistent/program", plain.path().to_str().unwrap()] {
        let image = Image::file(path, 0).unwrap();
        let status = child::fork(Task { image: Some(&image), ..Task::default() }).unwrap().reap().unwrap();
        assert_eq!(status, 127, "{path}");
        assert!(child::spawn(&image).is_err(), "{path}");
    }
}

#[test]
fn a_thread_that_computes_is_longer_by_just_that() {
    let _turn = alone();
    let iterations = [0_u64, 2_000, 4_000];
    // What the computation takes on this CPU right now, in a thread's place.
    let computing = |spin: u64| lowest(40, || arch::multiply_chain(spin));
    let joined = |spin: u64| {
        let body = Body::new(Source::Counter, spin);
        let attributes = Attributes::usual().unwrap();
        lowest(60, || thread::create(&attributes, body).unwrap().join().unwrap())
    };
    let bare = |spin: u64| {
        let mut bare = Bare::new(CloneCall::Clone3, Body::new(Source::Counter, spin)).unwrap();
        lowest(60, || {
            bare.create().unwrap();
            bare.join();
        })
    };
    let slope = |cost: &dyn Fn(u64) -> f64| {
        let (base, work) = (cost(iterations[0]), computing(iterations[2]));
        let whole = (cost(iterations[2]) - base) / work;
        let half = (cost(iterations[1]) - base) / computing(iterations[1]);
        within(whole, 0.98, 1.02).and(within(half, 0.98, 1.02))
    };
    timed("a thread of the library", || slope(&joined));
    timed("a bare thread", || slope(&bare));
}

#[test]
fn a_thread_that_computes_is_created_and_begins_as_fast() {
    let _turn = alone();
    let attributes = Attributes::usual().unwrap();
    // The lowest times until the call returns and until the first instruction, in ticks.
    let early = |spin: u64| {
        let body = Body::new(Source::Counter, spin);
        let spans = (0..60).map(|_| {
            let before = arch::stamp().ticks;
            let made = thread::create(&attributes, body).unwrap();
            let created = arch::stamp().ticks - before;
            made.join().unwrap();
            [created as f64, (body.began() - before) as f64]
        });
        spans.fold([f64::INFINITY; 2], |least, span| [least[0].min(span[0]), least[1].min(span[1])])
    };
    timed("a computing thread's creation and first instruction", || {
        let (idle, computing) = (early(0), early(4_000));
        within(computing[0] / idle[0], 0.9, 1.1).and(within(computing[1] / idle[1], 0.9, 1.1))
    });
}
