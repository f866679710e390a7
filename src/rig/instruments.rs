//! What the sampler reads: the clock, the core clock probe, the kernel's counters. A trait, so that sampling is tested on
//! a scripted clock; [`Live`] is the real thing.

use super::request::Request;
use crate::results::problem::Problem;
use crate::statistics::summary::{clock_step, mean_of_uninterrupted, median};
use crate::sys::arch::{self, CHAIN_CYCLES, LoopKernel, Stamp};
use crate::sys::clock::Source;
use crate::sys::counters::{self, ThreadCounters};

/// Readings that a batch needs.
pub trait Instruments {
    /// Time and CPU.
    fn stamp(&mut self) -> Stamp;
    /// The same at the beginning of an interval.
    fn opening(&mut self) -> Stamp {
        self.stamp()
    }
    /// Ticks per core cycle right now; none where no chain of known latency validates.
    fn probe(&mut self) -> Option<f64>;
    /// Ticks of a turn of the loop that shows a neighbour ([`arch::core_loop`]) right now, which a neighbour on the other hardware thread of the core lengthens. Zero
    /// where it is not known.
    fn width(&mut self) -> f64 {
        0.0
    }
    /// Core cycles of an iteration of the multiply chain; none where it does not validate.
    fn chain_cycles(&self) -> Option<f64> {
        None
    }
    /// The kernel's counters of this thread.
    fn counters(&mut self) -> ThreadCounters;
    /// Ticks of an empty interval, removed from every interval.
    fn bias(&self) -> f64;
    /// Smallest step of the clock, in ticks.
    fn resolution(&self) -> f64;
    /// Ticks in a second.
    fn hertz(&self) -> f64;
    /// CPU on which every batch must begin and end.
    fn cpu(&self) -> u32;
}

/// Duration of one probe. Shorter ones drown in the clock's resolution, longer ones cost more than the batches.
const PROBE_NANOSECONDS: f64 = 10_000.0;

/// Iterations of the chain before each probe, not timed. After a batch that goes through much memory its code has to be
/// fetched again, through several levels of page tables in a guest: up to half a microsecond, 5 % of a probe.
const WARMING_ITERATIONS: u64 = 4;

/// Turns of the loop that shows a neighbour on the core: about a microsecond.
const WIDTH_TURNS: u64 = 3000;

/// Turns of that loop before it is timed: after a batch its code has to be fetched again.
const WARMING_TURNS: u64 = 16;

/// Ratio of two chains: how far from an integer it may be and still show that both have their known latency.
const INTEGER_TOLERANCE: f64 = 0.015;

/// Tries of the validation: each takes about 200 µs.
const VALIDATION_TRIES: u32 = 20;

/// The real instruments of a launch.
#[derive(Debug)]
pub struct Live {
    source: Source,
    hertz: f64,
    cpu: u32,
    bias: f64,
    resolution: f64,
    chain: Option<MultiplyChain>,
    ratio: Option<f64>,
}

/// The multiply chain, validated.
#[derive(Debug, Clone, Copy)]
struct MultiplyChain {
    iterations: u64,
    cycles_per_iteration: f64,
}

impl Live {
    /// Finds bias and resolution of the clock and validates the chains.
    pub fn start(request: &Request) -> Result<Self, Problem> {
        Ok(Live::on(request.setup.cpu, request.source()?, request.clock.hertz))
    }

    /// The same on a CPU that this thread is pinned to, with a clock of that rate.
    pub fn on(cpu: u32, source: Source, hertz: f64) -> Self {
        let mut live = Live { source, hertz, cpu, bias: 0.0, resolution: 1.0, chain: None, ratio: None };
        live.find_bias();
        live.validate_chains();
        live
    }

    fn find_bias(&mut self) {
        let differences: Vec<f64> = (0..1000)
            .map(|_| {
                let start = self.source.opening();
                (self.source.stamp().ticks - start.ticks) as f64
            })
            .collect();
        // A mean: with a clock of coarse steps the median could only be one step or another.
        self.bias = mean_of_uninterrupted(&differences).unwrap_or(0.0);
        let readings: Vec<i64> = (0..1000)
            .map(|index| {
                // At even distances the distance would show as the step of the clock.
                (0..index * 7 % 61).for_each(|turn| {
                    std::hint::black_box(turn);
                });
                self.source.stamp().ticks
            })
            .collect();
        self.resolution = clock_step(&readings).unwrap_or(1) as f64;
    }

    /// The best of a few runs of a chain, in ticks per iteration.
    fn time_chain(&mut self, chain: LoopKernel, iterations: u64) -> f64 {
        (0..5).map(|_| self.time(chain, iterations)).fold(f64::INFINITY, f64::min)
    }

    fn time(&mut self, chain: LoopKernel, iterations: u64) -> f64 {
        let start = self.source.opening();
        chain(iterations);
        let end = self.source.stamp();
        ((end.ticks - start.ticks) as f64 - self.bias) / iterations as f64
    }

    /// Three chains whose times must stand in integer ratios: 20 multiplies, 60 additions, and both mixed. Then the
    /// addition takes one cycle, the multiply the integer number found, and ticks convert to core cycles.
    fn validate_chains(&mut self) {
        // About 1 GHz at least: enough to find out how many iterations a probe really needs.
        let pilot = self.time_chain(arch::multiply_chain, 50).max(1e-3);
        let probe_ticks = (PROBE_NANOSECONDS * self.hertz / 1e9).max(400.0 * self.resolution);
        let iterations = ((probe_ticks / pilot) as u64).clamp(20, 100_000);
        // An interrupt or a change of frequency between two chains spoils their ratio, not the chains: try again.
        for _ in 0..VALIDATION_TRIES {
            let multiply = self.time_chain(arch::multiply_chain, 2 * iterations);
            let add = self.time_chain(arch::add_chain, 2 * iterations);
            let mixed = self.time_chain(arch::mixed_chain, 2 * iterations);
            let latency = 3.0 * multiply / add;
            self.ratio = Some(latency);
            if let Some(whole) = whole_latency(latency, mixed / add) {
                let cycles_per_iteration = CHAIN_CYCLES as f64 / 3.0 * whole;
                self.chain = Some(MultiplyChain { iterations, cycles_per_iteration });
                return;
            }
        }
    }

    /// Latency of the multiply over latency of the addition, as measured.
    pub fn chain_ratio(&self) -> Option<f64> {
        self.ratio
    }

    /// A probe for the whole launch: longer than those next to batches, and the median of five.
    pub fn steady_probe(&mut self) -> Option<f64> {
        let chain = self.chain?;
        let probes: Vec<f64> = (0..5)
            .map(|_| self.time(arch::multiply_chain, 5 * chain.iterations) / chain.cycles_per_iteration)
            .collect();
        median(&probes)
    }
}

/// Cycles of a multiply, when the ratios of three chains agree on a whole number: multiply over addition, and the mixture
/// (10 multiplies and 30 additions) over 60 additions.
fn whole_latency(multiply_over_add: f64, mixed_over_add: f64) -> Option<f64> {
    let whole = multiply_over_add.round();
    let mixed_expected = (10.0 * whole + 30.0) / 60.0;
    ((1.0..=10.0).contains(&whole)
        && (multiply_over_add / whole - 1.0).abs() < INTEGER_TOLERANCE
        && (mixed_over_add / mixed_expected - 1.0).abs() < INTEGER_TOLERANCE)
        .then_some(whole)
}

impl Instruments for Live {
    fn stamp(&mut self) -> Stamp {
        self.source.stamp()
    }

    fn opening(&mut self) -> Stamp {
        self.source.opening()
    }

    fn probe(&mut self) -> Option<f64> {
        let chain = self.chain?;
        // What ran before may have pushed the chain out of the caches: fetching it again does not change the clock.
        self.time(arch::multiply_chain, WARMING_ITERATIONS);
        Some(self.time(arch::multiply_chain, chain.iterations) / chain.cycles_per_iteration)
    }

    fn width(&mut self) -> f64 {
        if self.chain.is_none() {
            return 0.0;
        }
        // One copy of the loop for all: at another address a turn can take twice as long.
        let turns = arch::core_loop();
        self.time(turns, WARMING_TURNS);
        self.time(turns, WIDTH_TURNS)
    }

    fn chain_cycles(&self) -> Option<f64> {
        self.chain.map(|chain| chain.cycles_per_iteration)
    }

    fn counters(&mut self) -> ThreadCounters {
        counters::thread()
    }

    fn bias(&self) -> f64 {
        self.bias
    }

    fn resolution(&self) -> f64 {
        self.resolution
    }

    fn hertz(&self) -> f64 {
        self.hertz
    }

    fn cpu(&self) -> u32 {
        self.cpu
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_known_latency_has_whole_ratios() {
        assert_eq!(whole_latency(3.01, 1.003), Some(3.0));
        assert_eq!(whole_latency(4.0, 70.0 / 60.0), Some(4.0));
        // Additions executed in the renamer: six in a cycle.
        assert_eq!(whole_latency(17.7, 3.4), None);
        // A whole ratio by accident, which the mixture gives away.
        assert_eq!(whole_latency(3.0, 0.8), None);
        assert_eq!(whole_latency(2.5, 0.917), None);
        assert_eq!(whole_latency(f64::NAN, 1.0), None);
    }
}
