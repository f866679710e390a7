//! Where a series of costs changes its level, and whether it settles (Barrett et al., "Virtual machine warmup blows hot
//! and cold", OOPSLA 2017): a fixed number of discarded batches is never enough to assume a steady state.

use std::ops::Range;

use super::fit::theil_sen;
use super::segmentation::{noise_around_levels, penalty, segments};
use super::summary::{median, usable};

/// Penalty of a change in units of `ln(n)·σ²`: the 15 of Barrett et al. It is high on purpose, a real change of level is
/// many standard deviations.
const PENALTY: f64 = 15.0;

/// Fewest batches of a level. With five, two wild batches side by side are never a level.
const SHORTEST_LEVEL: usize = 5;

/// Levels that differ by less are one level: the accuracy to which warm-up is asked to have ended.
const SAME_LEVEL: f64 = 0.01;

/// Share of the series that the last level must hold to count as a steady state.
const STEADY_SHARE: f64 = 1.0 / 3.0;

/// Batches in a window of the warm-up rule.
pub const WARM_UP_WINDOW: usize = 8;

/// Confidence of the slope in the warm-up rule.
const SLOPE_LEVEL: f64 = 0.95;

/// How a series of costs (smaller is better) ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steadiness {
    /// One level from the first batch to the last.
    Flat,
    /// The last level is the lowest, and starts at this batch.
    WarmUp {
        /// First batch of the steady state.
        from: usize,
    },
    /// The last level is steady, starts at this batch, and is *not* the lowest that was seen.
    SlowDown {
        /// First batch of the steady state.
        from: usize,
    },
    /// The level still changes within the last third of the series.
    NoSteadyState,
}

/// A part of a series with one level.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// Its places.
    pub range: Range<usize>,
    /// Its median.
    pub median: f64,
}

/// The levels of a series, in order; neighbours differ by more than one percent.
///
/// Assumes noise that does not depend on its neighbours; positive dependence makes for more levels than there are. Wants
/// ten values (two levels of five).
pub fn levels(series: &[f64]) -> Option<Vec<Level>> {
    if series.len() < 2 * SHORTEST_LEVEL {
        return None;
    }
    let deviation = noise_around_levels(series)?;
    let pieces = segments(series, penalty(PENALTY, series.len(), deviation), SHORTEST_LEVEL)?;
    let mut levels: Vec<Level> = Vec::with_capacity(pieces.len());
    for range in pieces {
        let level = Level { median: median(&series[range.clone()])?, range };
        match levels.last_mut() {
            Some(last) if same_level(last.median, level.median) => {
                last.range.end = level.range.end;
                last.median = median(&series[last.range.clone()])?;
            }
            _ => levels.push(level),
        }
    }
    Some(levels)
}

/// First places of all levels but the first; see [`levels`].
pub fn change_points(series: &[f64]) -> Option<Vec<usize>> {
    Some(levels(series)?.iter().skip(1).map(|level| level.range.start).collect())
}

/// Whether a series of costs settles, and how; see [`levels`] for what it wants.
pub fn steady_state(series: &[f64]) -> Option<Steadiness> {
    let levels = levels(series)?;
    let (last, earlier) = levels.split_last()?;
    if earlier.is_empty() {
        return Some(Steadiness::Flat);
    }
    let from = last.range.start;
    if (last.range.len() as f64) < STEADY_SHARE * series.len() as f64 {
        return Some(Steadiness::NoSteadyState);
    }
    let lowest = earlier.iter().all(|level| last.median < level.median || same_level(last.median, level.median));
    Some(if lowest { Steadiness::WarmUp { from } } else { Steadiness::SlowDown { from } })
}

/// True when the medians of the last two windows of `window` values differ by less than `tolerance`, relative to the later
/// one. `None` when there are not two windows, or the later median is zero.
pub fn windows_agree(series: &[f64], window: usize, tolerance: f64) -> Option<bool> {
    let start = series.len().checked_sub(window.checked_mul(2)?)?;
    let (earlier, later) = series[start..].split_at(window);
    let (earlier, later) = (median(earlier)?, median(later)?);
    let difference = ((later - earlier) / later).abs();
    difference.is_finite().then_some(difference < tolerance)
}

/// The rule that ends a warm-up: the medians of the last two windows of [`WARM_UP_WINDOW`] batches differ by less than one
/// percent, and the Theil–Sen slope over both cannot be told from zero. `None` while there are not two windows.
pub fn warmed_up(series: &[f64]) -> Option<bool> {
    let agree = windows_agree(series, WARM_UP_WINDOW, SAME_LEVEL)?;
    let last = &series[series.len() - 2 * WARM_UP_WINDOW..];
    let places: Vec<f64> = (0..last.len()).map(|place| place as f64).collect();
    Some(agree && theil_sen(&places, last, SLOPE_LEVEL)?.slope_interval.contains(0.0))
}

/// True when two medians differ by less than [`SAME_LEVEL`], relative to the larger.
fn same_level(one: f64, other: f64) -> bool {
    debug_assert!(usable(&[one, other]));
    (one - other).abs() <= SAME_LEVEL * one.abs().max(other.abs())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::synthetic::normal;
    use super::*;

    /// Noise of one percent around levels, given as (level, batches).
    fn series(random: &mut fastrand::Rng, levels: &[(f64, usize)]) -> Vec<f64> {
        levels.iter().flat_map(|(level, batches)| normal(random, *batches, *level, 0.01 * level)).collect()
    }

    #[test]
    fn the_four_ways_to_end() {
        let mut random = fastrand::Rng::with_seed(25);
        let mut classify = |levels: &[(f64, usize)]| steady_state(&series(&mut random, levels)).unwrap();
        assert_eq!(classify(&[(100.0, 60)]), Steadiness::Flat);
        assert_eq!(classify(&[(150.0, 10), (100.0, 40)]), Steadiness::WarmUp { from: 10 });
        assert_eq!(classify(&[(200.0, 8), (130.0, 12), (100.0, 40)]), Steadiness::WarmUp { from: 20 });
        assert_eq!(classify(&[(100.0, 20), (120.0, 40)]), Steadiness::SlowDown { from: 20 });
        assert_eq!(classify(&[(100.0, 50), (120.0, 10)]), Steadiness::NoSteadyState);
    }

    #[test]
    fn a_flat_series_is_called_flat() {
        let mut random = fastrand::Rng::with_seed(26);
        let flat =
            (0..500).filter(|_| steady_state(&series(&mut random, &[(100.0, 30)])) == Some(Steadiness::Flat)).count();
        assert!(flat >= 490, "{flat}");
        assert_eq!(steady_state(&[7.0; 30]), Some(Steadiness::Flat));
    }

    #[test]
    fn wild_batches_are_no_levels() {
        let mut noisy = series(&mut fastrand::Rng::with_seed(27), &[(100.0, 40)]);
        for place in [5, 17, 18, 31] {
            noisy[place] *= 20.0;
        }
        assert_eq!(steady_state(&noisy), Some(Steadiness::Flat));
    }

    #[test]
    fn a_change_below_one_percent_is_none() {
        let mut steps = vec![100.0; 20];
        steps.extend([100.5; 20]);
        assert_eq!(change_points(&steps), Some(vec![]));
        steps.extend([103.0; 20]);
        assert_eq!(change_points(&steps), Some(vec![40]));
    }

    #[test]
    fn the_warm_up_rule() {
        let mut random = fastrand::Rng::with_seed(28);
        let settled = series(&mut random, &[(200.0, 10), (100.0, 16)]);
        assert_eq!(warmed_up(&settled[..15]), None);
        assert_eq!(warmed_up(&settled[..20]), Some(false));
        assert_eq!(windows_agree(&settled, 8, 0.01), Some(true));
        // A slow descent has neighbouring windows within one percent, and a slope.
        let descent: Vec<f64> = (0..16).map(|place| 100.0 - 0.1 * f64::from(place)).collect();
        assert_eq!(windows_agree(&descent, 8, 0.01), Some(true));
        assert_eq!(warmed_up(&descent), Some(false));
        assert_eq!(warmed_up(&[5.0; 16]), Some(true));
    }

    #[test]
    fn what_has_no_answer_is_none() {
        assert_eq!(steady_state(&[1.0; 9]), None);
        assert_eq!(steady_state(&[f64::NAN; 20]), None);
        assert_eq!(windows_agree(&[0.0; 16], 8, 0.01), None);
        assert_eq!(windows_agree(&[1.0; 16], 0, 0.01), None);
        assert_eq!(windows_agree(&[1.0; 16], usize::MAX, 0.01), None);
    }

    proptest! {
        #[test]
        fn levels_cover_the_series(values in prop::collection::vec(1.0..1e6_f64, 10..80)) {
            let levels = levels(&values).unwrap();
            prop_assert_eq!(levels[0].range.start, 0);
            prop_assert_eq!(levels[levels.len() - 1].range.end, values.len());
            prop_assert!(levels.windows(2).all(|pair| pair[0].range.end == pair[1].range.start));
        }
    }
}
