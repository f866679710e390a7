//! Who shared the core with a batch, by its width right before and right after (see [`Branches`]).

use super::width::Branches;
use super::{CoreState, Counts};
use crate::results::log::Launch;
use crate::results::series::Series;

/// What shows the state of a batch: how the core takes its branches, a property of its design.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoopTurn(Branches);

impl LoopTurn {
    /// From all looks of a run; none without any.
    pub fn of<'a>(series: impl Iterator<Item = &'a Series>) -> Option<LoopTurn> {
        let branches = Branches::of(series.flat_map(|series| &series.widths).flatten().copied());
        (branches.known() > 0).then_some(LoopTurn(branches))
    }

    /// What all looks next to a batch of a series say, at its core and at that of its partner.
    pub fn state_of(self, series: &Series, index: usize) -> CoreState {
        let at = |widths: &[[f64; 2]]| widths.get(index).map_or(CoreState::Unknown, |widths| self.state(*widths));
        at(&series.widths).and(at(&series.partner_widths))
    }

    /// What the looks before and after a batch say.
    pub fn state(self, widths: [f64; 2]) -> CoreState {
        match widths.map(|width| self.0.state(width)) {
            [CoreState::Unknown, _] | [_, CoreState::Unknown] => CoreState::Unknown,
            [before, after] if before == after => before,
            _ => CoreState::Mixed,
        }
    }
}

/// Share of the batches during which a neighbour used the core. None where nothing looked.
pub fn shared_share(launches: &[&Launch]) -> Option<f64> {
    let series = || launches.iter().flat_map(|launch| &launch.series);
    let turn = LoopTurn::of(series())?;
    let states = series().flat_map(|series| &series.widths).map(|widths| turn.state(*widths));
    Some(states.collect::<Counts>().share())
}

/// Share of the launches at whose start a neighbour used the core of the run's CPU. None where they measure there in any case.
pub fn shared_at_start(launches: &[&Launch]) -> Option<f64> {
    let began: Vec<bool> =
        launches.iter().filter_map(|launch| launch.evidence.as_ref()?.began_alone).map(|alone| !alone).collect();
    (!began.is_empty()).then(|| began.iter().filter(|shared| **shared).count() as f64 / began.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::quantity::{Labels, Unit};

    fn found(widths: &[[f64; 2]]) -> Option<Counts> {
        let mut series = Series::plain("load", Labels::none(), Unit::Ticks, vec![1.0; widths.len()]);
        series.widths = widths.to_vec();
        let turn = LoopTurn::of(std::iter::once(&series))?;
        Some(widths.iter().map(|pair| turn.state(*pair)).collect())
    }

    #[test]
    fn batches_are_alone_shared_or_between() {
        let found = found(&[[1.01, 1.02], [1.6, 1.9], [1.01, 1.7], [0.0, 0.0], [1.01, 1.01], [0.8, 1.01]]).unwrap();
        assert_eq!(found, Counts { alone: 2, shared: 1, mixed: 2, unknown: 1 });
        assert!((found.share() - 0.4).abs() < 1e-12);
    }

    #[test]
    fn a_batch_on_two_cores_is_alone_where_both_are() {
        use CoreState::{Alone, Mixed, Shared, Unknown};
        for (one, other, both) in [
            (Alone, Alone, Alone),
            (Alone, Shared, Shared),
            (Shared, Shared, Shared),
            (Shared, Mixed, Mixed),
            (Alone, Unknown, Alone),
            (Unknown, Unknown, Unknown),
        ] {
            assert_eq!((one.and(other), other.and(one)), (both, both));
        }
    }

    #[test]
    fn two_branches_in_a_cycle_are_alone_at_half_a_cycle() {
        let found = found(&[[0.51, 0.51], [0.5, 0.505], [0.9, 0.95]]);
        assert_eq!(found, Some(Counts { alone: 2, shared: 1, ..Counts::default() }));
    }

    #[test]
    fn a_core_whose_branches_have_a_beat_is_alone_at_each() {
        let found = found(&[
            [1.13, 1.14],
            [1.253, 1.135],
            [1.43, 1.253],
            [1.43, 1.43],
            [1.253, 1.25],
            [1.255, 1.9],
            [2.0, 1.9],
        ]);
        assert_eq!(found, Some(Counts { alone: 5, shared: 1, mixed: 1, unknown: 0 }));
    }

    #[test]
    fn without_looks_nothing_is_known() {
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[[0.0, 0.0]]), None);
    }
}
