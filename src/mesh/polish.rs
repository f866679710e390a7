//! Median polish: what senders, receivers and groups of pairs have in common, and what is left of each value.
//!
//! value = overall + sender + receiver + group + rest. Medians, not means: a tenth of wild values moves nothing. Half of the values
//! of a sender must be low before the sender is.

use crate::statistics::summary::median;

/// Most rounds of the polish, and the change at which it ends.
const MOST_ROUNDS: usize = 30;
const STILL: f64 = 1e-5;

/// One value, as a logarithm.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Places of its sender, its receiver and its group.
    pub from: usize,
    pub to: usize,
    pub group: usize,
    pub value: f64,
}

/// The parts of all values.
#[derive(Debug, Clone)]
pub struct Polished {
    pub overall: f64,
    pub senders: Vec<f64>,
    pub receivers: Vec<f64>,
    pub groups: Vec<f64>,
    /// What is left of each value, in the order of the entries.
    pub rest: Vec<f64>,
}

/// Places of the entries of each member of a dimension.
fn places(count: usize, keys: impl Iterator<Item = usize>) -> Vec<Vec<usize>> {
    let mut places = vec![Vec::new(); count];
    for (place, key) in keys.enumerate() {
        places[key].push(place);
    }
    places
}

/// Moves the medians of the rest into the effects. Returns the largest change.
fn sweep(rest: &mut [f64], places: &[Vec<usize>], effects: &mut [f64]) -> f64 {
    let mut most = 0.0_f64;
    let mut values = Vec::new();
    for (effect, places) in effects.iter_mut().zip(places) {
        values.clear();
        values.extend(places.iter().map(|&place| rest[place]));
        let Some(shift) = median(&values) else { continue };
        *effect += shift;
        for &place in places {
            rest[place] -= shift;
        }
        most = most.max(shift.abs());
    }
    most
}

/// Makes the median of those effects zero that have entries. Returns it.
fn centre(effects: &mut [f64], places: &[Vec<usize>]) -> f64 {
    let with: Vec<f64> =
        effects.iter().zip(places).filter(|(_, places)| !places.is_empty()).map(|(effect, _)| *effect).collect();
    let middle = median(&with).unwrap_or(0.0);
    for effect in effects {
        *effect -= middle;
    }
    middle
}

/// Polishes values of this many members and groups.
pub fn polish(entries: &[Entry], members: usize, groups: usize) -> Polished {
    let values: Vec<f64> = entries.iter().map(|entry| entry.value).collect();
    let overall = median(&values).unwrap_or(0.0);
    let mut found = Polished {
        overall,
        senders: vec![0.0; members],
        receivers: vec![0.0; members],
        groups: vec![0.0; groups],
        rest: values.iter().map(|value| value - overall).collect(),
    };
    let by_sender = places(members, entries.iter().map(|entry| entry.from));
    let by_receiver = places(members, entries.iter().map(|entry| entry.to));
    let by_group = places(groups, entries.iter().map(|entry| entry.group));
    for _ in 0..MOST_ROUNDS {
        // Groups first: what racks have in common is no affair of their members.
        let change = sweep(&mut found.rest, &by_group, &mut found.groups)
            .max(sweep(&mut found.rest, &by_sender, &mut found.senders))
            .max(sweep(&mut found.rest, &by_receiver, &mut found.receivers));
        found.overall += centre(&mut found.senders, &by_sender) + centre(&mut found.receivers, &by_receiver);
        if change < STILL {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_exact_sums_are_found_and_a_wild_value_is_left_over() {
        let (senders, receivers) = ([0.0, 0.1, 0.0, -0.7, 0.0], [0.2, 0.0, 0.0, 0.0, -0.3]);
        let mut entries = Vec::new();
        for (from, to) in (0..5).flat_map(|from| (0..5).map(move |to| (from, to))).filter(|(from, to)| from != to) {
            entries.push(Entry { from, to, group: 0, value: 5.0 + senders[from] + receivers[to] });
        }
        entries[1].value -= 2.0;
        let found = polish(&entries, 5, 1);
        for place in 0..5 {
            assert!((found.senders[place] - senders[place]).abs() < 0.02, "{:?}", found.senders);
            assert!((found.receivers[place] - receivers[place]).abs() < 0.02, "{:?}", found.receivers);
        }
        assert!((found.rest[1] + 2.0).abs() < 0.1, "{:?}", found.rest);
        let sum = |place: usize| {
            let Entry { from, to, group, .. } = entries[place];
            found.overall + found.senders[from] + found.receivers[to] + found.groups[group] + found.rest[place]
        };
        assert!((0..entries.len()).all(|place| (sum(place) - entries[place].value).abs() < 1e-9));
    }

    #[test]
    fn nothing_gives_nothing() {
        let found = polish(&[], 3, 1);
        assert!(found.overall.abs() < 1e-12 && found.rest.is_empty() && found.senders.len() == 3);
    }
}
