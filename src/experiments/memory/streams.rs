//! Which streams are measured with how many threads, and what rates to expect of them.

use crate::experiments::prelude::*;
use crate::machine::CoreClass;
use crate::sys::stream::{LINE, Operation};

use super::footprint::MEMORY;
use crate::experiments::constants::Constant;

constants! {
    /// Vectors that a core loads from its nearest cache in a cycle.
    VECTOR_LOADS = 2.0 in 1.8 ..= 2.05 "per cycle",
        "Agner Fog, microarchitecture: two loads per cycle on Intel since Sandy Bridge and AMD since Zen 2";
    /// The same where the core's design is not known.
    VECTOR_LOADS_UNKNOWN = 2.0 in 0.5 ..= 4.0 "per cycle",
        "Agner Fog, microarchitecture, and Arm optimisation guides: one to three loads per cycle";
    /// Vectors that a core stores in a cycle.
    VECTOR_STORES = 1.0 in 0.8 ..= 2.05 "per cycle",
        "Agner Fog, microarchitecture: one vector store per cycle, two of 256 bits on Golden Cove";
    /// Bytes that a core loads from its second cache in a cycle.
    NEAR_CACHE_READ = 36.0 in 14.0 ..= 66.0 "B/cycle",
        "Intel optimisation manual: 64 B/cycle peak, about 48 sustained. AMD optimisation guides: 32 B/cycle";
    /// Bytes that a core stores to its second cache in a cycle.
    NEAR_CACHE_WRITE = 22.0 in 6.0 ..= 40.0 "B/cycle",
        "Agner Fog, microarchitecture: 16–32 B/cycle, as evictions share the path of fills";
    /// Bytes that a core loads from the cache that cores share in a cycle.
    SHARED_CACHE_READ = 14.0 in 3.0 ..= 34.0 "B/cycle",
        "Intel optimisation manual: 5–15 B/cycle per core on meshes and rings. AMD optimisation guides: 32 B/cycle \
         peak";
    /// Bytes that a core stores to the cache that cores share in a cycle.
    SHARED_CACHE_WRITE = 10.0 in 1.5 ..= 34.0 "B/cycle",
        "fills and evictions share one path: half of the read rate to all of it";
    /// A load from memory with nothing else under way.
    MEMORY_LATENCY = 110.0 in 60.0 ..= 220.0 "ns",
        "Intel MLC and lmbench on servers and desktops since 2015: 60–150 ns, more in guests";
    /// Lines that a core has under way to or from memory at once: line-fill buffers, and what prefetchers of the second cache add.
    LINES_IN_FLIGHT = 28.0 in 10.0 ..= 80.0 "lines",
        "Intel optimisation manual: 10–16 line-fill buffers and 48 in L2. AMD Zen 2 to 4: 22–24 and up to 64 in L2";
    /// Rate of plain stores over that of loads, each line being read before it is written: half, more where whole lines are recognised.
    WRITE_OVER_READ = 0.55 in 0.3 ..= 1.0 "times", "McCalpin, STREAM: read-for-ownership doubles the traffic of stores";
    /// Rate of stores past the caches over that of loads.
    STREAMED_WRITE_OVER_READ = 0.8 in 0.35 ..= 1.3 "times",
        "McCalpin, notes on non-temporal stores: fewer write-combining buffers than line-fill buffers";
    /// Rate of copying (each byte counted once) over that of loads: a read, a read for ownership, a write.
    COPY_OVER_READ = 0.45 in 0.22 ..= 0.75 "times", "McCalpin, STREAM: three transfers for each copied byte";
    /// The same with stores past the caches: a read and a write.
    STREAMED_COPY_OVER_READ = 0.6 in 0.3 ..= 0.95 "times", "McCalpin, STREAM: two transfers for each copied byte";
    /// Share of the peak of all channels that reads reach.
    CHANNEL_EFFICIENCY = 0.82 in 0.6 ..= 0.95 "times",
        "JEDEC DDR4 and DDR5: refresh, turn-around and row misses take 5–40 %";
    /// What a second thread adds to the rate of the memory, in shares of a first.
    THREAD_SHARE = 0.75 in 0.1 ..= 1.02 "times",
        "rates add up until the channels are full, and a guest cannot see that limit";
}

/// Numbers of threads above one: powers of two, and all.
pub fn team_sizes(all: usize) -> Vec<usize> {
    let mut sizes: Vec<usize> = (1..usize::BITS).map(|power| 1 << power).take_while(|&size| size < all).collect();
    if all > 1 {
        sizes.push(all);
    }
    sizes
}

/// The same with one thread before.
pub fn sizes_from_one(all: usize) -> Vec<usize> {
    [1].into_iter().chain(team_sizes(all)).collect()
}

/// Whether an operation is measured with this many of all threads: in between, reading and writing past the caches are enough.
pub fn is_measured(operation: Operation, threads: usize, all: usize) -> bool {
    threads == 1 || threads == all || matches!(operation, Operation::Read | Operation::WriteNt)
}

/// Labels of a figure.
pub fn labels(operation: Operation, level: &str, threads: usize) -> Labels {
    Labels::of([("operation", operation.name()), ("level", level)]).with("threads", threads)
}

/// A rate in bytes per second: `(expected, low, high)` with its reason.
pub struct ExpectedRate {
    /// What it is made from.
    pub what: String,
    pub rate: (f64, f64, f64),
    /// Where it is from.
    pub basis: Basis,
}

/// Bytes of the widest vectors of the CPU, as its features say.
fn vector_bytes(by: &PredictionInput<'_>) -> f64 {
    let has = |feature: &str| by.setup.machine.cpu.has_feature(feature);
    match (has("avx512f"), has("avx2")) {
        (true, _) => 64.0,
        (false, true) => 32.0,
        _ => 16.0,
    }
}

/// Widest path between a core and its nearest cache, in bytes: Zen moved wider vectors in halves until its fifth generation.
fn path_bytes(by: &PredictionInput<'_>) -> f64 {
    match by.setup.machine.core_class(by.setup.cpu) {
        CoreClass::AmdZen1 => 16.0,
        CoreClass::AmdZen2 | CoreClass::AmdZen3 | CoreClass::AmdZen4 => 32.0,
        _ => 64.0,
    }
}

/// What one thread is expected to move at a level of cache.
pub fn expected_in_cache(by: &PredictionInput<'_>, level: &str, operation: Operation) -> ExpectedRate {
    let cycle = CycleTime::known(by);
    let wide = vector_bytes(by).min(path_bytes(by));
    let per_cycle = |constant: Constant, bytes: f64| {
        let (value, low, high) = constant.times(bytes);
        let rate = (value / cycle.value.0 * 1e9, low / cycle.high.0 * 1e9, high / cycle.low.0 * 1e9);
        (rate, constant.basis())
    };
    let known = by.setup.machine.core_class(by.setup.cpu) != CoreClass::Unknown;
    let loads = if known { VECTOR_LOADS } else { VECTOR_LOADS_UNKNOWN };
    let reads = operation == Operation::Read;
    let ((rate, basis), what) = match (level, reads) {
        ("L1", true) => (per_cycle(loads, wide), "vectors loaded per cycle × their width × the core clock"),
        ("L1", false) => (per_cycle(VECTOR_STORES, wide), "vectors stored per cycle × their width × the core clock"),
        ("L2", true) => (per_cycle(NEAR_CACHE_READ, 1.0), "the path from the L2 cache × the core clock"),
        ("L2", false) => (per_cycle(NEAR_CACHE_WRITE, 1.0), "the path to the L2 cache × the core clock"),
        (_, true) => (per_cycle(SHARED_CACHE_READ, 1.0), "the path from the shared cache × the core clock"),
        (_, false) => (per_cycle(SHARED_CACHE_WRITE, 1.0), "the path to the shared cache × the core clock"),
    };
    ExpectedRate { what: what.to_owned(), rate, basis }
}

/// The latency of a load from memory: this run's figure on huge pages where there is one, else the constant.
fn memory_latency(by: &PredictionInput<'_>) -> ((f64, f64, f64), Basis) {
    match by.metric("memory.latency.level", &Labels::of([("level", MEMORY), ("pages", "huge")])) {
        Some(metric) => {
            ((metric.value, metric.value * 0.85, metric.value * 1.2), Basis::metric("memory.latency.level"))
        }
        None => (MEMORY_LATENCY.times(1.0), MEMORY_LATENCY.basis()),
    }
}

/// What `threads` threads are expected to move to and from main memory. By Little's law lines in flight × line / latency for
/// one, for several what each adds, and never more than the channels carry where these are known.
pub fn expected_in_memory(by: &PredictionInput<'_>, operation: Operation, threads: usize) -> ExpectedRate {
    let ((latency, least, most), basis) = memory_latency(by);
    let line = LINE as f64 * 1e9;
    let lines = LINES_IN_FLIGHT;
    let reads = (lines.value * line / latency, lines.low * line / most, lines.high * line / least);
    let share = match operation {
        Operation::Read | Operation::ReadHalf => (1.0, 1.0, 1.0),
        Operation::Write => WRITE_OVER_READ.times(1.0),
        Operation::WriteNt => STREAMED_WRITE_OVER_READ.times(1.0),
        Operation::Copy => COPY_OVER_READ.times(1.0),
        Operation::CopyNt => STREAMED_COPY_OVER_READ.times(1.0),
    };
    let more = THREAD_SHARE.times((threads - 1) as f64);
    let race = (1.0 + more.0, 1.0 + more.1, 1.0 + more.2);
    let product = |one: (f64, f64, f64), other: (f64, f64, f64)| (one.0 * other.0, one.1 * other.1, one.2 * other.2);
    let mut rate = product(product(reads, share), race);
    let mut what = format!("{} lines in flight × {LINE} B / latency", lines.value);
    if threads > 1 {
        what += " for the first thread, plus what the others add";
    }
    let text = format!("{}; {}", lines.basis().text(), basis.text());
    let mut basis = Basis::guess(&format!("Little's law with {text}"));
    if let Some(peak) = &by.setup.machine.memory.peak_bytes_per_second {
        let carried = CHANNEL_EFFICIENCY.times(peak.value as f64);
        let top = peak.value as f64 * 1.02;
        rate = (rate.0.min(carried.0), rate.1.min(carried.1), rate.2.min(top));
        basis = Basis::machine(&format!("{}, and {}", peak.source, basis.text()));
        what += ", at most the rate of the channels";
    }
    ExpectedRate { what, rate, basis }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn teams_grow_by_powers_of_two() {
        assert_eq!(team_sizes(1), Vec::<usize>::new());
        assert_eq!(team_sizes(2), [2]);
        assert_eq!(team_sizes(6), [2, 4, 6]);
    }
}
