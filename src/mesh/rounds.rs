//! Who measures with whom: rounds of disjoint pairs by the circle method, in an order that a seed decides.
//!
//! One place of the circle stays, the others turn by one place a round: after N − 1 rounds everyone has met everyone. With an odd
//! number of members one sits out in each round.

/// Pairs of places, each of them at most once.
pub type Round = Vec<(u32, u32)>;

/// The first rounds of all that there are, of `size` members; all without a limit. The first of a pair calls.
pub fn rounds(size: u32, most: Option<u32>, seed: u64) -> Vec<Round> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut labels: Vec<u32> = (0..size).collect();
    random.shuffle(&mut labels);
    let even = size + size % 2;
    let count = even.saturating_sub(1);
    let mut turns: Vec<u32> = (0..count).collect();
    random.shuffle(&mut turns);
    turns.truncate(most.map_or(usize::MAX, |most| most as usize));
    let label = |place: u32| labels.get(place as usize).copied();
    let round = |turn: u32| -> Round {
        // The place on the rim that a turn has at a distance from the pair of the centre.
        let rim = |distance: u32| (turn + distance) % count;
        let centre = (even - 1, rim(0));
        let pairs = std::iter::once(centre).chain((1..even / 2).map(|step| (rim(step), rim(count - step))));
        // The place without a label is that of the member that sits out.
        pairs.filter_map(|(one, other)| Some((label(one)?, label(other)?))).collect()
    };
    let mut rounds: Vec<Round> = turns.into_iter().map(round).collect();
    // Otherwise the centre would call in all of its pairs.
    for pair in rounds.iter_mut().flatten().filter(|_| random.bool()) {
        *pair = (pair.1, pair.0);
    }
    rounds
}

/// Every pair in a separate round, in a random order.
pub fn alone(rounds: &[Round], seed: u64) -> Vec<Round> {
    let mut pairs: Vec<Round> = rounds.iter().flatten().map(|pair| vec![*pair]).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut pairs);
    pairs
}

/// Pairs in as few rounds as a simple rule finds.
pub fn disjoint(pairs: &[(u32, u32)]) -> Vec<Round> {
    let mut rounds: Vec<Round> = Vec::new();
    for pair in pairs {
        let meets = |round: &Round| {
            round.iter().any(|taken| [taken.0, taken.1].iter().any(|rank| [pair.0, pair.1].contains(rank)))
        };
        match rounds.iter_mut().find(|round| !meets(round)) {
            Some(round) => round.push(*pair),
            None => rounds.push(vec![*pair]),
        }
    }
    rounds
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn unordered((one, other): (u32, u32)) -> (u32, u32) {
        (one.min(other), one.max(other))
    }

    #[test]
    fn everyone_meets_everyone_once() {
        for size in 2..40 {
            let rounds = rounds(size, None, u64::from(size));
            assert_eq!(rounds.len() as u32, size + size % 2 - 1, "{size}");
            for round in &rounds {
                let ranks: BTreeSet<u32> = round.iter().flat_map(|pair| [pair.0, pair.1]).collect();
                assert_eq!((ranks.len(), round.len() as u32), (2 * round.len(), size / 2), "{size}: {round:?}");
            }
            let met: BTreeSet<(u32, u32)> = rounds.iter().flatten().map(|pair| unordered(*pair)).collect();
            assert_eq!(met.len() as u32, size * (size - 1) / 2, "{size}");
            assert_eq!(alone(&rounds, 1).len(), met.len());
        }
    }

    #[test]
    fn fewer_rounds_and_seeds_are_kept_to() {
        let eight = rounds(512, Some(8), 7);
        assert_eq!((eight.len(), eight[0].len()), (8, 256));
        assert_eq!(eight, rounds(512, Some(8), 7));
        assert_ne!(eight, rounds(512, Some(8), 8));
        assert_eq!(rounds(4, Some(8), 0).len(), 3);
        assert_eq!(rounds(0, None, 0).len() + rounds(1, None, 0).iter().flatten().count(), 0);
        let calls = eight.iter().flatten().filter(|pair| pair.0 < pair.1).count();
        assert!((800..1250).contains(&calls), "{calls}");
    }

    #[test]
    fn pairs_that_share_a_member_are_apart() {
        let rounds = disjoint(&[(0, 1), (1, 2), (2, 3), (4, 5), (0, 2)]);
        assert_eq!(rounds, [vec![(0, 1), (2, 3), (4, 5)], vec![(1, 2)], vec![(0, 2)]]);
    }
}
