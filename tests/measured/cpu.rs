//! Known truth, measured: timed code whose cost is known beforehand must be found to cost just that.
//!
//! All figures are ratios of best-of-many times taken in turns in one process on one CPU, because noise only adds time
//! and drift of the clock hits neighbours in time alike. Nothing here is an absolute speed.

use crate::support::truth;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sysdyno::testing::machine;
use sysdyno::testing::results::log::Clock;
use sysdyno::testing::results::problem::Problem;
use sysdyno::testing::results::quantity::Labels;
use sysdyno::testing::results::series::Class;
use sysdyno::testing::rig::clock::{calibrate, counter_usable};
use sysdyno::testing::rig::instruments::{Instruments, Live};
use sysdyno::testing::rig::request::Request;
use sysdyno::testing::rig::sampler::{Sampler, Settings, Sizing, Workload};
use sysdyno::testing::setup::{Profile, Setup};
use sysdyno::testing::statistics::summary;
use sysdyno::testing::sys::affinity;
use sysdyno::testing::sys::arch::{
    self, ARITHMETIC_PER_TURN, Arithmetic, CALLS_PER_ITERATION, COUNTER_READERS, CallKernel, ChainAt, LoopKernel,
};
use sysdyno::testing::sys::clock::Source;

/// Turns that every piece of timed code takes; the best of them counts.
const TURNS: usize = 300;
/// Ticks of a clock of some GHz in a batch that few interrupts hit.
const BATCH_NANOSECONDS: f64 = 40_000.0;

/// Turns between looks at the core.
const TURNS_PER_LOOK: usize = 4;

/// Runs on the last allowed CPU, alone among the tests of this program.
fn measured(check: impl Fn(&mut Bench) -> Result<(), String>) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let allowed = affinity::allowed();
    let mut bench = Bench::new();
    truth::timed("known work", || check(&mut bench));
    affinity::restrict(&allowed).unwrap();
}

/// Fails with both numbers unless the relative distance is within the tolerance.
fn close(what: &str, found: f64, expected: f64, tolerance: f64) -> Result<(), String> {
    if (found / expected - 1.0).abs() <= tolerance {
        Ok(())
    } else {
        Err(format!("{what}: {found:.5}, expected {expected} ± {} %", tolerance * 100.0))
    }
}

/// A pinned thread with the tool's own clock.
struct Bench {
    source: Source,
    request: Request,
    live: Live,
}

impl Bench {
    fn new() -> Self {
        let cpu = *affinity::allowed().last().unwrap();
        affinity::restrict(&[cpu]).unwrap();
        let source = if counter_usable(cpu).is_ok() { Source::Counter } else { Source::MonotonicRaw };
        let clock: Clock = calibrate(source, Duration::from_millis(50)).unwrap();
        let setup = Setup::of(machine::detect(Path::new("/"), Path::new("/")), cpu, vec![cpu], Profile::Default);
        let request = Request {
            setup,
            clock,
            space: Err(Problem::new("no files here")),
            experiment: String::new(),
            launch: 1,
            first: false,
            turn: 0,
            fill_seconds: None,
            batches: 30,
            sampling_seconds: 10.0,
            seed: 1,
            conductor: 0,
        };
        // A neighbour on the core spoils the check of the chains now and then.
        let mut live = Live::start(&request).unwrap();
        for _ in 0..50 {
            if live.steady_probe().is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
            live = Live::start(&request).unwrap();
        }
        Bench { source, request, live }
    }

    fn ticks(&self, kernel: LoopKernel, iterations: u64) -> f64 {
        let start = self.source.opening();
        kernel(iterations);
        (self.source.stamp().ticks - start.ticks) as f64 - self.live.bias()
    }

    /// Iterations that fill a batch.
    fn size(&self, kernel: LoopKernel) -> u64 {
        let target = BATCH_NANOSECONDS * self.request.clock.hertz / 1e9;
        let mut iterations = 16;
        while self.ticks(kernel, iterations).min(self.ticks(kernel, iterations)) < target {
            iterations = iterations * 5 / 4;
        }
        iterations
    }

    /// Lowest ticks of each piece of code, taken in turns.
    fn best(&self, code: &[(LoopKernel, u64)]) -> Vec<f64> {
        let mut best = vec![f64::INFINITY; code.len()];
        for turn in 0..TURNS {
            if turn.is_multiple_of(TURNS_PER_LOOK) {
                truth::look();
            }
            for (lowest, &(kernel, iterations)) in best.iter_mut().zip(code) {
                *lowest = lowest.min(self.ticks(kernel, iterations));
            }
        }
        best
    }

    /// Core cycles of one iteration of each kernel; the multiply chain beside them tells the core's clock.
    fn cycles(&self, kernels: &[LoopKernel]) -> Vec<f64> {
        let sized = |kernel: LoopKernel| (kernel, self.size(kernel));
        let mut code = vec![sized(arch::multiply_chain)];
        code.extend(kernels.iter().copied().map(sized));
        let best = self.best(&code);
        let cycle = best[0] / code[0].1 as f64 / self.chain_cycles();
        best[1..].iter().zip(&code[1..]).map(|(ticks, (_, iterations))| ticks / *iterations as f64 / cycle).collect()
    }

    /// Cycles of one turn of the multiply chain on this core.
    fn chain_cycles(&self) -> f64 {
        20.0 * self.multiply_cycles()
    }

    fn multiply_cycles(&self) -> f64 {
        self.live.chain_ratio().unwrap().round()
    }

    /// Core cycles of one call of each kernel: what twice the calls cost more.
    fn calls(&self, kernels: &[CallKernel]) -> Vec<f64> {
        let both: Vec<LoopKernel> = kernels.iter().flat_map(|kernel| [kernel.short, kernel.long]).collect();
        let cycles = self.cycles(&both);
        cycles.chunks(2).map(|pair| (pair[1] - pair[0]) / CALLS_PER_ITERATION as f64).collect()
    }
}

#[test]
fn chains_of_multiplies_and_additions_stand_in_whole_ratios() {
    measured(|bench| {
        let kernels = [arch::multiply_chain, arch::add_chain, arch::mixed_chain];
        let found = bench.cycles(&kernels);
        let multiply = (3.0 * found[0] / found[1]).round();
        assert!((1.0..=10.0).contains(&multiply), "a multiply of {multiply} cycles");
        close("multiply / addition", found[0] / found[1], multiply / 3.0, 0.015)?;
        close("mixed / addition", found[2] / found[1], (10.0 * multiply + 30.0) / 60.0, 0.015)
    });
}

#[test]
fn twice_the_work_takes_twice_the_time() {
    measured(|bench| {
        for kernel in [arch::multiply_chain as LoopKernel, arch::add_chain, arch::mixed_chain] {
            let once = bench.size(kernel);
            let best = bench.best(&[(kernel, once), (kernel, 2 * once)]);
            close("T(2N) / T(N)", best[1] / best[0], 2.0, 0.002)?;
        }
        Ok(())
    });
}

#[test]
fn a_loop_costs_as_many_cycles_as_it_has_dependent_additions() {
    measured(|bench| {
        let (additions, kernels): (Vec<u64>, Vec<LoopKernel>) = arch::REGISTER_LOOPS_WITH_ADDITIONS.into_iter().unzip();
        for (additions, cycles) in additions.into_iter().zip(bench.cycles(&kernels)) {
            close(&format!("a loop with {additions} additions"), cycles, additions.max(1) as f64, 0.03)?;
        }
        Ok(())
    });
}

#[test]
fn multiplies_injected_into_a_chained_call_lengthen_it_by_their_latency() {
    measured(|bench| {
        let (counts, kernels): (Vec<u64>, Vec<CallKernel>) = arch::CHAINED_CALLS_WITH_MULTIPLIES.into_iter().unzip();
        assert_eq!(counts, [0, 4, 16]);
        let found = bench.calls(&kernels);
        close("12 more multiplies", found[2] - found[1], 12.0 * bench.multiply_cycles(), 0.02)?;
        // The bare call may be slower than its one multiply, so the first four may hide behind it in part.
        if found[1] > found[0] { Ok(()) } else { Err(format!("4 multiplies cost nothing: {found:?}")) }
    });
}

#[test]
fn instructions_injected_into_independent_calls_lower_their_rate() {
    measured(|bench| {
        let (counts, kernels): (Vec<u64>, Vec<CallKernel>) = arch::CALLS_WITH_NOPS.into_iter().unzip();
        assert_eq!(counts, [0, 32, 64]);
        let found = bench.calls(&kernels);
        // The first no-operations may run beside the call; the last cannot: no core retires 16 instructions in a cycle.
        let last = (found[2] - found[1]) / 32.0;
        if found[0] <= found[1] * 1.02 && (1.0 / 16.0..=2.0).contains(&last) {
            Ok(())
        } else {
            Err(format!("calls with 0, 32 and 64 no-operations take {found:?} cycles"))
        }
    });
}

#[test]
fn a_call_with_more_arguments_never_costs_less_than_its_two_branches() {
    measured(|bench| {
        for kernels in [arch::CALLS_IN_REGISTERS, arch::CALLS_THROUGH_MEMORY] {
            let found = bench.calls(&kernels);
            if let Some(cycles) = found.iter().find(|&&cycles| cycles < 0.97) {
                return Err(format!("a call and a return in {cycles} cycles"));
            }
        }
        Ok(())
    });
}

/// Three odd numbers, so that no product becomes zero.
const ODD: [u64; 3] = [3, 5, 7];
/// The same as doubles: products with the second and the third undo each other.
const DOUBLES: [u64; 3] = [1.234_567_f64.to_bits(), 1.6_f64.to_bits(), 0.625_f64.to_bits()];

/// The short and the long kernel of an operation as plain loops: dependent, then independent.
macro_rules! plain {
    ($operation:expr, $operands:expr) => {{
        extern "C" fn run<const CHAIN: usize, const LENGTH: usize>(turns: u64) {
            std::hint::black_box(arch::arithmetic($operation)[CHAIN][LENGTH](turns, &$operands));
        }
        [run::<0, 0> as LoopKernel, run::<0, 1>, run::<1, 0>, run::<1, 1>]
    }};
}

#[test]
fn arithmetic_takes_the_cycles_that_other_chains_of_it_take() {
    measured(|bench| {
        let multiply = bench.multiply_cycles();
        let kernels = [
            plain!(Arithmetic::IntegerAdd, ODD),
            plain!(Arithmetic::IntegerMultiply, ODD),
            plain!(Arithmetic::DoubleAdd, DOUBLES),
            plain!(Arithmetic::DoubleMultiply, DOUBLES),
        ];
        let cycles = bench.cycles(&kernels.concat());
        let found: Vec<f64> = cycles.chunks(2).map(|pair| (pair[1] - pair[0]) / ARITHMETIC_PER_TURN as f64).collect();
        // The chains of the clock probes are other code with the same operations.
        close("an addition", found[0], 1.0, 0.02)?;
        close("a multiplication", found[2], multiply, 0.02)?;
        for (what, latency) in [("an addition of doubles", found[4]), ("a multiplication of doubles", found[6])] {
            close(what, latency, latency.round().max(1.0), 0.03)?;
        }
        // Independent operations overlap, and no core begins a dozen in a cycle.
        let overlaps = found.chunks(2).all(|pair| (1.0 / 12.0..pair[0] * 1.02).contains(&pair[1]));
        if overlaps { Ok(()) } else { Err(format!("dependent and independent operations take {found:?} cycles")) }
    });
}

/// Lowest mean interval of an idiom in core cycles, with the chain at a place.
fn interval(bench: &mut Bench, pairs: fn(&mut [i64], ChainAt), chain: ChainAt) -> f64 {
    let mut differences = vec![0_i64; 400];
    (0..40)
        .map(|_| {
            truth::look();
            let before = bench.live.steady_probe().unwrap();
            pairs(&mut differences, chain);
            let values: Vec<f64> = differences.iter().map(|&difference| difference as f64).collect();
            summary::trimmed_mean(&values).unwrap() / before
        })
        .fold(f64::INFINITY, f64::min)
}

#[test]
fn the_tools_own_pair_sees_the_whole_chain_and_nothing_outside() {
    let own = COUNTER_READERS.into_iter().rfind(|reader| ["rdtscp_lfence", "fenced"].contains(&reader.name)).unwrap();
    for reader in COUNTER_READERS.into_iter().filter(|reader| reader.name == own.name || reader.name == "rdtscp_lfence")
    {
        measured(|bench| {
            let mut at = |place| interval(bench, reader.pairs, place);
            let empty = at(ChainAt::Nowhere);
            let (between, before, after) = (at(ChainAt::Between), at(ChainAt::Before), at(ChainAt::After));
            let chain = arch::SELF_TEST_CYCLES / 3.0 * bench.multiply_cycles();
            // The whole chain is inside, and the readings around it are hidden by it in part only.
            let slack = chain / 50.0;
            if between < chain - slack || between > chain + empty + slack {
                return Err(format!(
                    "{}: {between:.1} cycles with a chain of {chain}, {empty:.1} without",
                    reader.name
                ));
            }
            for (what, growth) in [("before", before - empty), ("after", after - empty)] {
                if growth.abs() > slack {
                    return Err(format!("{}: the chain {what} adds {growth:.1} cycles", reader.name));
                }
            }
            Ok(())
        });
    }
}

#[test]
fn the_live_rig_finds_the_cost_of_known_work_in_cycles() {
    measured(|bench| {
        let settings = Settings::of(&bench.request, &bench.live);
        let mut random = fastrand::Rng::with_seed(3);
        let workloads = vec![
            Workload::kernel("add", Labels::none(), 60, arch::add_chain),
            Workload::kernel("twice", Labels::none(), 60, arch::add_chain).sized(Sizing::TimesThat(2, 0)),
            Workload::kernel("mixed", Labels::none(), 40, arch::mixed_chain),
        ];
        let sampled = Sampler::new(&mut bench.live, &settings, &mut random).run(workloads);
        let mixed = (10.0 * bench.multiply_cycles() + 30.0) / 40.0;
        assert_eq!(sampled.series[1].operations, 2 * sampled.series[0].operations);
        for (series, expected) in sampled.series.iter().zip([1.0, 1.0, mixed]) {
            let cycles = |index: usize| series.values[index] / series.clock[index] / series.operations as f64;
            let clean: Vec<f64> =
                (0..series.values.len()).filter(|&index| series.class(index) == Class::Clean).map(cycles).collect();
            if clean.len() < 10 {
                return Err(format!("{}: {} clean batches", series.name, clean.len()));
            }
            close(&series.name, summary::quantile(&clean, 0.25).unwrap(), expected, 0.01)?;
        }
        Ok(())
    });
}
