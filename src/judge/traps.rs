//! The table of typical mistakes: what each does to a number, and how it is recognised.
//!
//! A row says for which metrics it is asked, in which range the cost must lie relative to ours, and looks for what else speaks for it.
//! Where nothing else does, the size of the difference alone makes it possible.

use super::case::Case;
use super::signs::{self, Evidence};
use crate::results::judgement::{Cause, Strength};

/// A typical mistake.
pub struct Trap {
    /// Short name, unique.
    pub id: &'static str,
    /// What happened, in one sentence.
    pub what: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
    /// Beginnings of the metrics that it happens to. Empty: any.
    of: &'static [&'static str],
    /// The number relative to our result, as a cost: below 1 where it seems too fast. None where no result of ours is needed.
    cost: Option<[f64; 2]>,
    look: fn(&Case<'_>) -> Option<Evidence>,
    /// Whether it is in all numbers that the same program made.
    pub of_the_program: bool,
    /// Whether it spreads to them where most that can be compared are off, although nothing else speaks for it.
    pub spreads_from_typical: bool,
}

impl Trap {
    const DEFAULT: Trap = Trap {
        id: "",
        what: "",
        remedy: "",
        of: &[],
        cost: None,
        look: signs::size_alone,
        of_the_program: false,
        spreads_from_typical: false,
    };

    /// The cause, where the mistake fits a number.
    pub fn fits(&self, case: &Case<'_>) -> Option<Cause> {
        if !self.of.is_empty() && !self.of.iter().any(|beginning| case.number.is_of(beginning)) {
            return None;
        }
        if let Some([low, high]) = self.cost {
            let cost = case.cost()?;
            if !(low..=high).contains(&cost) || case.other_machine && !case.is_off() {
                return None;
            }
        }
        let (strength, evidence) = (self.look)(case)?;
        Some(self.cause(strength, evidence))
    }

    /// The cause with its evidence.
    pub fn cause(&self, strength: Strength, evidence: String) -> Cause {
        Cause {
            trap: self.id.to_owned(),
            cause: self.what.to_owned(),
            strength,
            evidence,
            remedy: self.remedy.to_owned(),
        }
    }
}

/// Metrics of reads that should come from a disk or another machine.
const FILE_READS: &[&str] = &["file.read.", "file.contention.", "file.remote_read.", "memory.page_fault.time"];
/// Metrics of one task that wakes another.
const HANDOVERS: &[&str] =
    &["os.context_switch.", "os.channel.", "os.cache_line_transfer.", "network.round_trip.", "os.lock."];
/// More than any machine differs.
const FAR: f64 = 1e12;

/// All of them. Of several that are equally likely, the first in this order.
pub const TRAPS: &[Trap] = &[
    Trap {
        id: "wrapped",
        what: "The clock seemed to run backwards, and an unsigned difference became huge.",
        remedy: "Subtract as signed numbers, look at single trials, and pin the program to one CPU.",
        look: signs::longer_than_an_hour,
        ..Trap::DEFAULT
    },
    Trap {
        id: "oversubtracted",
        what: "More overhead was subtracted than the operation cost, or the compiler removed the operation.",
        remedy: "Time many operations at once, use their results, and measure the empty loop in the same way.",
        of: &["cpu.procedure_call.time", "cpu.loop.", "os.", "memory.latency.", "cpu.timer.overhead"],
        look: signs::below_cycle,
        ..Trap::DEFAULT
    },
    Trap {
        id: "below_round_trip",
        what: "connect() returned, or was timed, before one round trip to the other machine was over.",
        remedy: "Time a blocking connect() to an open port of the machine that the round trip was measured to.",
        of: &["network.connection.time"],
        look: signs::below_round_trip,
        ..Trap::DEFAULT
    },
    Trap {
        id: "two_conversions",
        what: "Ticks became nanoseconds by two clock rates in one file.",
        remedy: "Measure the rate of the counter once, and convert every number by it.",
        look: signs::two_conversions,
        ..Trap::DEFAULT
    },
    Trap {
        id: "copied",
        what: "This is the number of another row.",
        remedy: "Look the number up in the output of the program.",
        look: signs::copied,
        ..Trap::DEFAULT
    },
    Trap {
        id: "one_trial",
        what: "One trial that something else disturbed decides the mean.",
        remedy: "Report the median, and say how many trials were far away from it.",
        look: signs::one_trial,
        ..Trap::DEFAULT
    },
    Trap {
        id: "latency_by_byte",
        what: "A latency was divided by a number of bytes. The first byte costs as much as all of them.",
        remedy: "Report the latency of one access, and the rate of many as bandwidth.",
        look: signs::latency_by_byte,
        ..Trap::DEFAULT
    },
    Trap {
        id: "decimal_point",
        what: "The number is wrong by a power of ten: a prefix or the decimal point.",
        remedy: "Convert the number again, with its unit at every step.",
        look: signs::decimal_point,
        ..Trap::DEFAULT
    },
    Trap {
        id: "independent_loads",
        what: "The loads did not wait for each other, so several were under way at once. This is throughput.",
        remedy: "Let each load give the address of the next one.",
        of: &["memory.latency."],
        look: signs::overlapping_loads,
        of_the_program: true,
        ..Trap::DEFAULT
    },
    Trap {
        id: "prefetched",
        what: "A constant stride lets the prefetcher load the data before they are needed.",
        remedy: "Follow a chain through all lines of the array in random order.",
        of: &["memory.latency."],
        cost: Some([0.0, 0.75]),
        look: signs::beyond_the_first_level,
        ..Trap::DEFAULT
    },
    Trap {
        id: "other_level",
        what: "The array does not have the size of the level that the number is named after.",
        remedy: "Use an array of half the level's size, and all of its lines.",
        of: &["memory.latency.level"],
        look: signs::other_level,
        ..Trap::DEFAULT
    },
    Trap {
        id: "translation",
        what: "Loads on small pages in random order also wait for address translation.",
        remedy: "Use huge pages, or report the number with the size of the pages.",
        of: &["memory.latency.level"],
        cost: Some([1.25, 4.0]),
        look: signs::beyond_the_first_level,
        ..Trap::DEFAULT
    },
    Trap {
        id: "ticks_as_cycles",
        what: "Ticks of the time-stamp counter were taken for core cycles. The counter runs at a fixed rate.",
        remedy: "Measure the core clock by a chain of dependent instructions, or report ticks as time.",
        look: signs::ticks_as_cycles,
        ..Trap::DEFAULT
    },
    Trap {
        id: "read_ahead",
        what: "The kernel read the following blocks before they were asked for.",
        remedy: "Open with O_DIRECT for the time of one block, or report the rate of large reads.",
        of: FILE_READS,
        cost: Some([0.0, 0.6]),
        look: signs::read_ahead,
        ..Trap::DEFAULT
    },
    Trap {
        id: "page_cache",
        what: "The data came from the page cache, not from the disk or the other machine.",
        remedy: "Open with O_DIRECT, or drop the file from the page cache and check that it is gone.",
        of: FILE_READS,
        cost: Some([0.0, 0.6]),
        look: signs::cached_read,
        ..Trap::DEFAULT
    },
    Trap {
        id: "never_written",
        what: "The file has holes, or was allocated and never written. Such blocks hold no data to read.",
        remedy: "Write the whole file with data, call fsync(), and then read it.",
        of: &["file.read.", "file.contention.", "file.remote_read."],
        cost: Some([0.0, 0.6]),
        of_the_program: true,
        spreads_from_typical: true,
        ..Trap::DEFAULT
    },
    Trap {
        id: "already_mapped",
        what: "The pages were in memory or mapped around an earlier fault, so most touches caused no fault.",
        remedy: "Count the faults with getrusage(), and divide by their number.",
        of: &["memory.page_fault.time"],
        cost: Some([0.0, 0.6]),
        ..Trap::DEFAULT
    },
    Trap {
        id: "zero_page",
        what: "Memory that was never written is one page of zeros, which stays in the cache.",
        remedy: "Write every page of the array before the measurement.",
        of: &["memory.bandwidth.", "memory.latency.", "memory.page_fault.time"],
        cost: Some([0.0, 0.7]),
        look: signs::reads_of_memory,
        ..Trap::DEFAULT
    },
    Trap {
        id: "in_a_cache",
        what: "The array fits into a cache, so the memory is not used.",
        remedy: "Use an array of at least four times the last cache.",
        of: &["memory.bandwidth."],
        cost: Some([0.0, 0.7]),
        look: signs::rate_of_a_cache,
        ..Trap::DEFAULT
    },
    Trap {
        id: "copy_counted",
        what: "A copy moves each byte twice, and it was counted once, or half of it was taken for one direction.",
        remedy: "Measure reads and writes by themselves, and say which bytes a copy counts.",
        of: &["memory.bandwidth."],
        cost: Some([0.4, 2.4]),
        look: signs::half_or_twice,
        ..Trap::DEFAULT
    },
    Trap {
        id: "narrow_loads",
        what: "The loop moves one small word at a time or was compiled without optimisation.",
        remedy: "Compile with -O2, move 32 bytes or more at a time, and use several sums.",
        of: &["memory.bandwidth."],
        cost: Some([1.25, 20.0]),
        ..Trap::DEFAULT
    },
    Trap {
        id: "bits_and_bytes",
        what: "Bits were taken for bytes, or bytes for bits.",
        remedy: "Write B for bytes and bit for bits, and convert by 8.",
        of: &["network.bandwidth.", "memory.bandwidth.", "file.read.rate"],
        cost: Some([0.1, 10.0]),
        look: signs::eight_times,
        ..Trap::DEFAULT
    },
    Trap {
        id: "library_answered",
        what: "The C library or the vDSO answered, and no system call was made.",
        remedy: "Count the calls with strace, and use syscall() for calls that the library keeps.",
        of: &["os.system_call.time"],
        cost: Some([0.0, 0.7]),
        look: signs::no_kernel_entry,
        ..Trap::DEFAULT
    },
    Trap {
        id: "clock_inside",
        what: "The cost of reading the clock is in the number.",
        remedy: "Time many operations between two readings, or subtract the cost of a reading.",
        of: &["cpu.", "os.system_call.", "os.signal.", "memory.latency."],
        cost: Some([1.2, FAR]),
        look: signs::clock_inside,
        ..Trap::DEFAULT
    },
    Trap {
        id: "clock_step",
        what: "The clock has steps that are larger than the operation, so the number is a multiple of a step.",
        remedy: "Use clock_gettime() or the counter, and time many operations at once.",
        cost: Some([1.2, FAR]),
        look: signs::whole_steps,
        ..Trap::DEFAULT
    },
    Trap {
        id: "inlined",
        what: "The compiler inlined the call, removed it, or the overhead of the loop was subtracted twice.",
        remedy: "Forbid the compiler to inline the function, use its result, and look at the machine code.",
        of: &["cpu.procedure_call.time"],
        cost: Some([0.0, 0.75]),
        ..Trap::DEFAULT
    },
    Trap {
        id: "unoptimised",
        what: "The program was compiled without optimisation, so each step goes through memory.",
        remedy: "Compile with -O2, and use the result of the work, so that the compiler keeps it.",
        of: &["cpu.loop.", "cpu.procedure_call.", "memory.latency.level"],
        cost: Some([1.4, 20.0]),
        look: signs::unoptimised,
        ..Trap::DEFAULT
    },
    Trap {
        id: "another_clock",
        what: "The core ran at another clock rate, or all numbers were converted by another one.",
        remedy: "Measure the core clock next to the numbers, and compare core cycles.",
        of: &["cpu.", "os.", "memory.latency."],
        cost: Some([0.3, 4.0]),
        look: signs::one_factor_for_all,
        ..Trap::DEFAULT
    },
    Trap {
        id: "whole_round_trip",
        what: "A round trip was taken for one way: there are two handovers in it.",
        remedy: "Divide the round trip by two, or say that it is one.",
        of: HANDOVERS,
        cost: Some([1.6, 2.5]),
        look: signs::half_or_twice,
        ..Trap::DEFAULT
    },
    Trap {
        id: "half_round_trip",
        what: "Half of a round trip was reported where the whole one was asked for.",
        remedy: "Report the round trip, or say that it is halved.",
        of: HANDOVERS,
        cost: Some([0.4, 0.62]),
        look: signs::half_or_twice,
        ..Trap::DEFAULT
    },
    Trap {
        id: "end_of_process_inside",
        what: "The end of a process and its collection are in the number.",
        remedy: "Hand over many times between two tasks that stay alive.",
        of: &["os.context_switch."],
        cost: Some([4.0, FAR]),
        look: signs::end_of_process,
        ..Trap::DEFAULT
    },
    Trap {
        id: "not_collected",
        what: "Children were not collected in the loop, so dead processes piled up.",
        remedy: "Wait for each child before the next fork().",
        of: &["os.process_creation."],
        cost: Some([1.25, 6.0]),
        look: signs::without_a_wait,
        ..Trap::DEFAULT
    },
    Trap {
        id: "dynamic_parent",
        what: "The parent is dynamically linked, so fork() copies more areas of memory.",
        remedy: "Link it with -static, or report the number with the way it is linked.",
        of: &["os.process_creation."],
        cost: Some([1.2, 2.5]),
        look: signs::fork_of_small_parent,
        ..Trap::DEFAULT
    },
    Trap {
        id: "large_parent",
        what: "The parent had much memory. fork() copies its page tables.",
        remedy: "Fork from a small program, or report the resident memory with the number.",
        of: &["os.process_creation."],
        cost: Some([1.25, FAR]),
        look: signs::large_parent,
        ..Trap::DEFAULT
    },
    Trap {
        id: "unpinned",
        what: "The tasks ran on two CPUs or moved between them, so an idle CPU had to wake up.",
        remedy: "Pin both tasks to one CPU with sched_setaffinity().",
        of: &[
            "os.context_switch.",
            "os.channel.",
            "os.lock.",
            "network.round_trip.",
            "os.process_creation.",
            "os.thread_creation.",
        ],
        cost: Some([1.25, 60.0]),
        look: signs::other_placement,
        ..Trap::DEFAULT
    },
    Trap {
        id: "other_way",
        what: "This is the cost of another way to do it.",
        remedy: "Say where the interval begins and ends: at the return, in the child, or after its collection.",
        of: &["os.process_creation.", "os.thread_creation.", "memory.page_fault.time", "network.connection."],
        cost: Some([0.0, FAR]),
        look: signs::other_variant,
        ..Trap::DEFAULT
    },
    Trap {
        id: "cold_start",
        what: "The first accesses are in the mean, or the program was not warm.",
        remedy: "Repeat until the number is steady, and leave the first repetitions out.",
        of: &["file.read.", "cpu.", "os.system_call.", "network.connection."],
        cost: Some([2.0, FAR]),
        look: signs::cold,
        ..Trap::DEFAULT
    },
    Trap {
        id: "nagle",
        what: "Small writes waited for the delayed acknowledgement of the receiver (Nagle).",
        remedy: "Set TCP_NODELAY, or send a request in one write.",
        of: &["network."],
        cost: Some([5.0, FAR]),
        look: signs::delayed_acknowledgement,
        ..Trap::DEFAULT
    },
    Trap {
        id: "loopback",
        what: "The packets did not leave the machine.",
        remedy: "Use the address of the other machine, and check the route with `ip route get`.",
        of: &["network.", "file.remote_read."],
        look: signs::like_loopback,
        ..Trap::DEFAULT
    },
    Trap {
        id: "close_returns",
        what: "close() returned before the connection was gone. The kernel ends it later.",
        remedy: "Time from close() until the other side has seen the end.",
        of: &["network.connection.time"],
        cost: Some([0.0, 0.75]),
        look: signs::close_alone,
        ..Trap::DEFAULT
    },
    Trap {
        id: "buffered_send",
        what: "send() returned while data were still in the socket buffer.",
        remedy: "Count at the receiver, or wait for its answer before the clock is read.",
        of: &["network.bandwidth."],
        cost: Some([0.0, 0.75]),
        ..Trap::DEFAULT
    },
    Trap {
        id: "small_messages",
        what: "Each call moved few bytes, so the number is the cost of the calls.",
        remedy: "Send 128 KiB or more with each call.",
        of: &["network.bandwidth."],
        cost: Some([1.25, FAR]),
        look: signs::rate_of_small_messages,
        ..Trap::DEFAULT
    },
    Trap {
        id: "seek_inside",
        what: "The number is the sum of lseek() and read().",
        remedy: "Read at an offset in one call, or measure lseek() and subtract it.",
        of: &["file.read.block_time"],
        cost: Some([1.02, 2.0]),
        look: signs::another_call_inside,
        ..Trap::DEFAULT
    },
    Trap {
        id: "all_processes",
        what: "The time of all processes together was taken for that of one, or divided by their number.",
        remedy: "Measure in each process how long its own reads take.",
        of: &["file.contention."],
        cost: Some([0.0, FAR]),
        look: signs::number_of_processes,
        ..Trap::DEFAULT
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_row_says_what_to_do() {
        for (place, trap) in TRAPS.iter().enumerate() {
            assert!(TRAPS[..place].iter().all(|other| other.id != trap.id), "{}", trap.id);
            for text in [trap.what, trap.remedy] {
                assert!(text.len() > 25 && text.ends_with('.'), "{}: {text}", trap.id);
            }
            assert!(trap.cost.is_none_or(|[low, high]| low < high), "{}", trap.id);
        }
    }
}
