//! The moments of change: what changed at the same time, between which two runs, and what else changed there.

use super::super::PlacedRun;
use super::super::facts;
use super::super::groups::{Changed, groups};
use crate::results::comparison::ChangedGroup;
use crate::results::timeline::{Moment, ResultTimeline};

/// A change with the gaps between runs that it can be at. Gap 1 is between the runs 0 and 1.
struct Placed {
    result: usize,
    change: usize,
    best: [usize; 2],
    gaps: [usize; 2],
    moment: Option<usize>,
}

impl Placed {
    fn can_be_at(&self, gap: usize) -> bool {
        (self.gaps[0]..=self.gaps[1]).contains(&gap)
    }
}

/// Gathers the changes of all results into moments, and writes into each change which moment it is of.
///
/// The gap that most changes can be at is a moment. Where several are as good, facts that changed decide, and then the best places of
/// the changes. What is left is gathered in the same way.
pub(super) fn moments(results: &mut [ResultTimeline], runs: &[PlacedRun]) -> Vec<Moment> {
    let mut placed = places(results);
    let with_facts: Vec<bool> =
        (0..runs.len()).map(|gap| gap > 0 && facts::machine_differs(&runs[gap - 1], &runs[gap])).collect();
    let mut gaps = Vec::new();
    while placed.iter().any(|change| change.moment.is_none()) {
        let open = || placed.iter().filter(|change| change.moment.is_none());
        let rank = |gap: &usize| {
            let best = open().filter(|change| (change.best[0]..=change.best[1]).contains(gap)).count();
            (open().filter(|change| change.can_be_at(*gap)).count(), with_facts[*gap], best)
        };
        let Some(gap) = (1..runs.len()).max_by_key(rank) else { break };
        for change in placed.iter_mut().filter(|change| change.moment.is_none() && change.can_be_at(gap)) {
            change.moment = Some(gap);
        }
        gaps.push(gap);
    }
    gaps.sort_unstable();
    for change in &placed {
        let moment = gaps.iter().position(|gap| Some(*gap) == change.moment).unwrap_or(0);
        results[change.result].changes[change.change].moment = moment as u32;
    }
    (0..gaps.len()).map(|place| moment(&gaps, place, results, runs)).collect()
}

fn places(results: &[ResultTimeline]) -> Vec<Placed> {
    let changes = results.iter().enumerate().flat_map(|(result, found)| {
        found.changes.iter().enumerate().map(move |(change, point)| Placed {
            result,
            change,
            best: [point.before as usize + 1, point.after as usize],
            gaps: [point.earliest as usize + 1, point.latest as usize],
            moment: None,
        })
    });
    changes.collect()
}

fn moment(gaps: &[usize], place: usize, results: &[ResultTimeline], runs: &[PlacedRun]) -> Moment {
    let gap = gaps[place];
    let from = if place == 0 { 0 } else { gaps[place - 1] };
    let to = gaps.get(place + 1).copied().unwrap_or(runs.len());
    let changes = || {
        results
            .iter()
            .flat_map(|result| result.changes.iter().map(move |change| (result, change)))
            .filter(|(_, change)| change.moment as usize == place)
    };
    let changed: Vec<Changed<'_>> = changes()
        .filter(|(result, _)| result.headline)
        .map(|(result, change)| Changed { phrase: &result.phrase, finding: change.finding, change: change.change })
        .collect();
    Moment {
        before: gap as u32 - 1,
        after: gap as u32,
        differences: facts::lasting(&runs[from..gap], &runs[gap..to]),
        groups: groups(&changed),
        results: changes().count() as u32,
    }
}

/// Headline results that drift.
pub(super) fn drifts(results: &[ResultTimeline]) -> Vec<ChangedGroup> {
    let drifting = results.iter().filter(|result| result.headline).filter_map(|result| {
        let drift = result.drift?;
        Some(Changed { phrase: &result.phrase, finding: drift.finding, change: drift.change })
    });
    groups(&drifting.collect::<Vec<_>>())
}
