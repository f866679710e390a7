//! Processes that spin on their CPU while an order lasts, and sleep otherwise: one keeps a CPU awake, one answers a word
//! of shared memory.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid};

use super::arch::{self, LoopKernel};
use super::memory::SharedWords;
use super::system_call::{read_byte, write_byte};
use super::{affinity, process};

/// What a spinner does while it is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// Nothing, at the lowest priority (SCHED_IDLE): everything else on the CPU goes first, but the CPU never sleeps.
    KeepAwake,
    /// Answers every odd number in a shared word with the next even one.
    Answer,
}

/// A process that spins while it is active. It ends when this value is dropped.
#[derive(Debug)]
pub struct Spinner {
    process: Pid,
    start: OwnedFd,
    started: OwnedFd,
    words: SharedWords,
}

/// Number of the order that holds: odd ones to spin, even ones to sleep.
const ORDER: usize = 0;
const WORD: usize = 1;
/// Where a partner notes what the multiply chain and the shortest loop took on its CPU, in ticks of the counter.
const CHAIN: usize = 2;
const LOOP: usize = 3;

/// Iterations of the chain and turns of the loop of a partner's look at its own core: about a microsecond each.
pub const CHAIN_ITERATIONS: u64 = 100;
pub const LOOP_TURNS: u64 = 3000;

/// The same before each, not timed: their code has to be fetched again.
const WARMING: u64 = 8;

/// Empty intervals, of which the shortest is what a look takes by itself.
const EMPTY_INTERVALS: usize = 4;

/// Turns after which a partner that does not answer is given up: seconds, far beyond any time slice.
const PATIENCE: u64 = 1 << 32;

impl Spinner {
    /// Starts a sleeping spinner on a CPU.
    pub fn new(cpu: u32, duty: Duty) -> io::Result<Self> {
        let words = SharedWords::new(4)?;
        let (wait, start) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        let (started, ready) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        let parent = std::process::id();
        // Chosen here, so that the child only reads it.
        arch::core_loop();
        // SAFETY: the child uses shared memory and system calls only, and leaves with _exit(2).
        match unsafe { nix::unistd::fork() }? {
            ForkResult::Parent { child } => Ok(Spinner { process: child, start, started, words }),
            ForkResult::Child => {
                // The child must see the end of the pipe when its parent is gone.
                drop((start, started));
                let set = process::die_with_parent(parent) && affinity::restrict(&[cpu]).is_ok();
                if set && (duty == Duty::Answer || process::lowest_priority()) {
                    while read_byte(wait.as_fd(), &mut 0) == 1 {
                        // The side that knows that the order was taken may give the next one at once.
                        let order = words.at(ORDER).load(Ordering::Acquire);
                        if duty == Duty::Answer && arch::counter_permitted() {
                            look_at_core(&words);
                        }
                        if write_byte(ready.as_fd(), &1) != 1 {
                            break;
                        }
                        spin(&words, order, duty);
                    }
                }
                // SAFETY: ends this process at once.
                unsafe { libc::_exit(0) }
            }
        }
    }

    /// Wakes it; returns when it has begun to spin.
    pub fn start(&self) -> Result<(), String> {
        self.words.at(ORDER).fetch_add(1, Ordering::AcqRel);
        let woken = write_byte(self.start.as_fd(), &1) == 1 && read_byte(self.started.as_fd(), &mut 0) == 1;
        if woken { Ok(()) } else { Err("a spinning process has ended".to_owned()) }
    }

    /// Ticks of the multiply chain and of the shortest loop on its own CPU when it was woken last; zero where it could not look.
    pub fn core(&self) -> [i64; 2] {
        [CHAIN, LOOP].map(|place| self.words.at(place).load(Ordering::Acquire))
    }

    /// Sends it back to sleep, once for each start.
    pub fn stop(&self) {
        self.words.at(ORDER).fetch_add(1, Ordering::AcqRel);
    }

    /// Has it answer a number of times: the cache line of the word goes there and back each time.
    pub fn round_trips(&self, count: u64) -> Result<(), String> {
        let word = self.words.at(WORD);
        let mut value = word.load(Ordering::Relaxed);
        for _ in 0..count {
            word.store(value + 1, Ordering::Release);
            value += 2;
            let mut turns = 0;
            while word.load(Ordering::Acquire) != value {
                std::hint::spin_loop();
                turns += 1;
                if turns == PATIENCE {
                    return Err("the partner does not answer".to_owned());
                }
            }
        }
        Ok(())
    }
}

/// Times the chain that gives the clock of this core, and the loop that a neighbour on it lengthens, each less an empty interval. With
/// it, a loop of a microsecond read 3 % longer on an empty core, and half of the looks were above the limit for one.
fn look_at_core(words: &SharedWords) {
    let timed = |kernel: LoopKernel, turns: u64| {
        let began = arch::opening().ticks;
        kernel(turns);
        arch::stamp().ticks - began
    };
    let empty = (0..EMPTY_INTERVALS).map(|_| timed(arch::multiply_chain, 0)).min().unwrap_or(0);
    let looks = [(CHAIN, arch::multiply_chain as LoopKernel, CHAIN_ITERATIONS), (LOOP, arch::core_loop(), LOOP_TURNS)];
    for (place, kernel, turns) in looks {
        kernel(WARMING);
        words.at(place).store(timed(kernel, turns) - empty, Ordering::Release);
    }
}

/// Spins for as long as an order holds. The next order to spin has another number, so that it is not taken for the same order when
/// it follows at once.
fn spin(words: &SharedWords, held: i64, duty: Duty) {
    let (order, word) = (words.at(ORDER), words.at(WORD));
    let active = || order.load(Ordering::Acquire) == held;
    match duty {
        Duty::KeepAwake => {
            while active() {
                std::hint::spin_loop();
            }
        }
        Duty::Answer => {
            while active() {
                // Many looks at the word for one at the order to stop, which lies on another line.
                for _ in 0..64 {
                    let value = word.load(Ordering::Acquire);
                    if value % 2 == 1 {
                        word.store(value + 1, Ordering::Release);
                    }
                }
            }
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        // A spinner that is gone already is what is wanted.
        let _ = kill(self.process, Signal::SIGKILL);
        let _ = waitpid(self.process, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partner_answers_only_while_it_is_active() {
        let cpus = affinity::allowed();
        let spinner = Spinner::new(*cpus.last().unwrap(), Duty::Answer).unwrap();
        for _ in 0..3 {
            spinner.start().unwrap();
            spinner.round_trips(100).unwrap();
            assert!(!arch::counter_permitted() || spinner.core().iter().all(|&ticks| ticks > 0));
            spinner.stop();
        }
    }

    #[test]
    fn a_spinner_of_the_lowest_priority_starts_and_stops() {
        let cpus = affinity::allowed();
        let spinner = Spinner::new(*cpus.last().unwrap(), Duty::KeepAwake).unwrap();
        for _ in 0..3 {
            spinner.start().unwrap();
            spinner.stop();
        }
        let process = spinner.process;
        drop(spinner);
        assert!(kill(process, None).is_err());
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_an_error() {
        let spinner = Spinner::new(1000, Duty::Answer).unwrap();
        assert!(spinner.start().is_err());
    }
}
