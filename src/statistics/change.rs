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
    if let Some(middle) = only_level(series) {
        return Some(vec![Level { range: 0..series.len(), median: middle }]);
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

/// The median of a series that has one level however it is cut: no piece has a median below the third lowest value or above the third
/// highest, and these are one level.
fn only_level(series: &[f64]) -> Option<f64> {
    if !usable(series) {
        return None;
    }
    let mut ordered = series.to_vec();
    ordered.sort_by(f64::total_cmp);
    let beyond = SHORTEST_LEVEL / 2;
    same_level(ordered[beyond], ordered[ordered.len() - 1 - beyond]).then(|| median(&ordered))?
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

/// True when two medians differ by less than [`SAME_LEVEL`], relative to the larger.
fn same_level(one: f64, other: f64) -> bool {
    debug_assert!(usable(&[one, other]));
    (one - other).abs() <= SAME_LEVEL * one.abs().max(other.abs())
}

/// Whether values in a row neither rise nor fall: the interval of the Theil–Sen line contains zero, or what it rises over all of
/// them is less than a share of their median. Wants three values.
pub fn shows_no_slope(values: &[f64], level: f64, small: f64) -> bool {
    let places: Vec<f64> = (0..values.len()).map(|place| place as f64).collect();
    let Some((line, middle)) = theil_sen(&places, values, level).zip(median(values)) else { return false };
    line.slope_interval.contains(0.0) || line.slope.abs() * (values.len() as f64) < small * middle.abs()
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
    fn scatter_has_no_slope_and_a_ramp_has_one() {
        assert!(shows_no_slope(&[5.0, 9.0, 4.0, 8.0, 6.0, 7.0, 5.5, 8.5], 0.95, 0.01));
        assert!(shows_no_slope(&[7.0; 8], 0.95, 0.01));
        assert!(!shows_no_slope(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], 0.95, 0.01));
        assert!(
            shows_no_slope(&[100.0, 100.01, 100.02, 100.03, 100.04, 100.05, 100.06, 100.07], 0.95, 0.01),
            "too small"
        );
        assert!(!shows_no_slope(&[1.0, 2.0], 0.95, 0.01));
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
        assert_eq!(levels(&steps).unwrap().len(), 1);
        steps.extend([103.0; 20]);
        assert_eq!(levels(&steps).unwrap()[1].range, 40..60);
    }

    #[test]
    fn what_has_no_answer_is_none() {
        assert_eq!(steady_state(&[1.0; 9]), None);
        assert_eq!(steady_state(&[f64::NAN; 20]), None);
    }

    #[test]
    fn what_is_within_one_percent_has_one_level_however_it_is_cut() {
        let mut steps = [vec![100.0; 10], vec![100.9; 10]].concat();
        assert_eq!(only_level(&steps), Some(100.45));
        steps[3] = 500.0;
        steps[12] = 1.0;
        assert!(only_level(&steps).is_some(), "two wild batches do not make a level");
        steps[4] = 500.0;
        steps[5] = 500.0;
        assert_eq!(only_level(&steps), None, "three of five make one");
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
