//! Sampling in blocks: for operations whose cost depends on what ran before.

use super::{PAIRS, Sampled, Sampler, Taken, WARM_UP_SHARE, Workload, paired};
use crate::rig::instruments::Instruments;
use crate::sys::branches::RandomBranches;

/// What comes before a batch, untimed: this much time or this many operations, whichever is less, and a batch at least.
#[derive(Debug, Clone, Copy)]
struct WarmUp {
    nanoseconds: f64,
    operations: u64,
}

/// In the first block of an operation: its size and its pace are found there.
const FIRST_WARM_UP: WarmUp = WarmUp { nanoseconds: 1e6, operations: 5000 };

/// In its later blocks. On AMD Zen 4 the branch predictors have learned a system call after a hundred.
const LATER_WARM_UP: WarmUp = WarmUp { nanoseconds: 2e5, operations: 500 };

/// Blocks of an operation in a launch. More would not narrow an interval: launches differ by more than their batches.
pub const MOST_BLOCKS: u32 = 8;

/// Bound on the batches of a warm-up, for a clock that stands still: several times what 1 ms is of the shortest batches.
const BLOCK_WARM_UP_BATCHES: usize = 200;

/// What the untimed repeats before the first batch of a block gave.
struct Settling {
    /// Ticks of the shortest repeat.
    shortest: f64,
    /// Repeats over half as many operations.
    ratios: Vec<f64>,
    /// Repeats.
    batches: u64,
}

impl<I: Instruments> Sampler<'_, I> {
    /// Sizes all workloads and samples each by itself: in a block the branch predictors forget what ran before, then comes some of the
    /// operation, untimed, and one batch. Operations that wait have the batch alone. Every round has a block of each workload. From the
    /// second on, their order is drawn by lot.
    pub fn run_in_blocks(&mut self, mut workloads: Vec<Workload<'_>>) -> Sampled {
        let mut taken = Taken::none(workloads.len());
        let mut iterations = self.size_all(&mut workloads, &mut taken);
        let is_paired = paired(&workloads);
        let mut order: Vec<usize> = (0..workloads.len()).collect();
        let mut branches = RandomBranches::with_seed(self.random.u32(..));
        'rounds: for round in 0..self.settings.batches {
            // A workload with the size of an earlier one comes after it in the round that finds their sizes.
            if round > 0 {
                self.random.shuffle(&mut order);
            }
            for &index in &order {
                if round > 0 && self.is_past(1.0) {
                    break 'rounds;
                }
                let workload = &mut workloads[index];
                let most = if workload.waits { u32::MAX } else { MOST_BLOCKS };
                if round >= workload.at_most.unwrap_or(most).min(most) {
                    continue;
                }
                if let Some(place) = &mut workload.place {
                    place(round);
                }
                if !workload.waits {
                    branches.forget();
                }
                if round == 0 {
                    let settling = self.settle(workload, iterations[index], is_paired[index]);
                    taken.warm_up_batches += settling.batches;
                    taken.ratios[index] = settling.ratios;
                    iterations[index] = self.lengthened(workload, index, &iterations, settling.shortest);
                } else if !workload.waits {
                    let operations = iterations[index] * workload.operations;
                    self.spend(LATER_WARM_UP, operations, 1, 1.0, |sampler| {
                        taken.warm_up_batches += 1;
                        sampler.time(workload, iterations[index]).0 - sampler.instruments.bias()
                    });
                }
                let mut boundary = self.boundary();
                let batch = self.batch(workload, iterations[index], &mut boundary, &mut taken.reasons[index]);
                taken.batches[index].push(batch);
            }
        }
        taken.sampled(&workloads, &iterations)
    }

    /// Repeats a workload, untimed, before its first batch.
    fn settle(&mut self, workload: &mut Workload<'_>, iterations: u64, is_paired: bool) -> Settling {
        let mut settling = Settling { shortest: f64::INFINITY, ratios: Vec::new(), batches: 0 };
        self.spend(FIRST_WARM_UP, iterations * workload.operations, PAIRS, WARM_UP_SHARE, |sampler| {
            let ticks = (sampler.time(workload, iterations).0 - sampler.instruments.bias()).max(1.0);
            settling.shortest = settling.shortest.min(ticks);
            settling.batches += 1;
            if !is_paired {
                return ticks;
            }
            settling.ratios.extend(sampler.doubling(workload, iterations, ticks));
            ticks * 1.5
        });
        // Only the last ones are settled.
        let unsettled = settling.ratios.len().saturating_sub(PAIRS);
        settling.ratios.drain(..unsettled);
        settling
    }

    /// Repeats work of `operations` operations, which gives its ticks, for a warm-up: at least `least` times, within a share of the
    /// time for sampling.
    fn spend(
        &mut self,
        warm_up: WarmUp,
        operations: u64,
        least: usize,
        share: f64,
        mut work: impl FnMut(&mut Self) -> f64,
    ) {
        let mut left = warm_up.nanoseconds * self.instruments.hertz() / 1e9;
        let most = usize::try_from(warm_up.operations.div_ceil(operations.max(1))).unwrap_or(usize::MAX).max(least);
        for times in 0..most.min(BLOCK_WARM_UP_BATCHES) {
            if left <= 0.0 && times >= least || times > 0 && self.is_past(share) {
                break;
            }
            left -= work(self).max(1.0);
        }
    }
}
