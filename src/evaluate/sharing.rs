//! Who shared the core with a batch. A core runs two hardware threads, and in a virtual machine the second one can belong to
//! another tenant. A loop of one branch a turn is timed right before and right after each batch: alone on the core a turn takes
//! one cycle, beside a busy sibling thread 1.5 to 2. The multiply chain that gives the cycles is bound by latency and hardly
//! changes.

use crate::results::series::Series;

/// Cycles of a turn while nothing else uses the core. Below, the chain that gives the cycles was disturbed. The upper end may be
/// anything from 1.02 to 1.2.
const ALONE: [f64; 2] = [0.9, 1.04];
/// Cycles of a turn beside a neighbour, at least.
const SHARED: f64 = 1.2;
/// Cores that take two branches in a cycle have turns of half a cycle: below this, a tenth of all turns shows them.
const TWO_A_CYCLE: f64 = 0.75;

/// How many batches had the core for themselves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sharing {
    /// Nobody was on the core before and after them.
    pub alone: u64,
    /// A neighbour was there before and after them.
    pub shared: u64,
    /// A neighbour came or went, or a probe was disturbed.
    pub mixed: u64,
}

impl Sharing {
    /// Counts batches; none where the widths of none are known.
    pub fn of(series: &[&Series]) -> Option<Sharing> {
        let widths = || series.iter().flat_map(|series| &series.widths).copied().filter(|pair| is_known(*pair));
        let mut turns: Vec<f64> = widths().flatten().collect();
        turns.sort_by(f64::total_cmp);
        let alone = if *turns.get(turns.len() / 10)? < TWO_A_CYCLE { 0.5 } else { 1.0 };
        let mut sharing = Sharing::default();
        for pair in widths() {
            let [before, after] = pair.map(|width| width / alone);
            if [before, after].iter().all(|width| (ALONE[0]..ALONE[1]).contains(width)) {
                sharing.alone += 1;
            } else if before > SHARED && after > SHARED {
                sharing.shared += 1;
            } else {
                sharing.mixed += 1;
            }
        }
        Some(sharing)
    }

    /// Share of the batches beside which a neighbour used the core: those with one at one end count half.
    pub fn share(&self) -> f64 {
        let all = self.alone + self.shared + self.mixed;
        (self.shared as f64 + self.mixed as f64 / 2.0) / all.max(1) as f64
    }
}

fn is_known([before, after]: [f64; 2]) -> bool {
    before > 0.0 && after > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::quantity::{Labels, Unit};

    fn series(widths: &[[f64; 2]]) -> Series {
        let mut series = Series::plain("load", Labels::none(), Unit::Ticks, vec![1.0; widths.len()]);
        series.widths = widths.to_vec();
        series
    }

    #[test]
    fn batches_are_alone_shared_or_between() {
        let one = series(&[[1.01, 1.02], [1.6, 1.9], [1.01, 1.7], [0.0, 0.0], [1.01, 1.01], [0.5, 1.01]]);
        let found = Sharing::of(&[&one]).unwrap();
        assert_eq!(found, Sharing { alone: 2, shared: 1, mixed: 2 });
        assert!((found.share() - 0.4).abs() < 1e-12);
    }

    #[test]
    fn two_branches_in_a_cycle_are_alone_at_half_a_cycle() {
        let fast = series(&[[0.51, 0.51], [0.5, 0.505], [0.9, 0.95]]);
        assert_eq!(Sharing::of(&[&fast]), Some(Sharing { alone: 2, shared: 1, mixed: 0 }));
    }

    #[test]
    fn without_widths_nothing_is_known() {
        assert_eq!(Sharing::of(&[&series(&[]), &series(&[[0.0, 0.0]])]), None);
    }
}
