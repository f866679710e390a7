//! Where a series of runs changes its level, and how sure that is.
//!
//! Everything is done on logarithms. A cut of the series, or a stretch inside it, is a step if Student's t of the two levels holds
//! against the number of places that it was searched at. Levels are found from the whole series downwards, as in circular binary
//! segmentation (Olshen et al., Biostatistics 5, 2004), so that runs that alternate between two states count as scatter.
//!
//! No single run makes a step: a wild one takes no part, and each step has to hold without any one run. A straight line that
//! describes the series better than its levels is a drift, and then there are no steps.

mod scatter;

use std::ops::Range;

use super::compare::Observed;
use super::distribution::{normal_quantile, student_quantile};
use super::fit::coefficients;
use super::interval::Interval;
use super::segmentation::noise_around_levels;
use super::summary::{finite, mean, median};
use scatter::{LEAST_DEGREES, Spread, blended, wild};

/// Fewest runs of a series that can show a step: two of each level.
pub const LEAST_RUNS: usize = 4;
/// Fewest runs of a level: two bad runs in a row are not rare. In a series of few runs they are two at its ends.
const SHORTEST: usize = 3;
const SHORTEST_OF_FEW: usize = 2;
const FEW: usize = 8;
/// A step, a stretch and a drift share the probability of a false alarm.
const QUESTIONS: f64 = 3.0;
/// Share of the standard error within runs that runs scatter by at least: their intervals are wide, but not by more than this.
const BELIEVED: f64 = 0.25;
/// Two-sided level at which a step holds without any one of its runs.
const WITHOUT_ONE: f64 = 0.05;
/// Confidence of intervals.
const LEVEL: f64 = 0.95;
/// Squared standard deviations by which the fit at a plausible place may be worse: 95 % of χ² with one degree.
const PLAUSIBLE: f64 = 3.841_458_820_694_124;
/// Probability with which a step of the stated size is found, and the size in standard deviations from which its place is.
const POWER: f64 = 0.9;
const PLACED: f64 = 2.5;

/// Runs in order of time, as logarithms.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSeries {
    /// The logarithms of the runs that take part.
    logarithms: Vec<f64>,
    /// Their places among the runs that were given.
    places: Vec<usize>,
    /// Places of the runs that do not take part.
    deviating: Vec<usize>,
    /// Variance of one run that is assumed before the series is looked at.
    assumed: f64,
    /// Variance below which no scatter of runs is believed.
    floor: f64,
    /// Fewest runs of a level at an end.
    shortest: usize,
}

/// What a series shows: one level, several levels with steps between them, or a line.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesShape {
    /// Levels in order of time, at least one.
    pub levels: Vec<RunLevel>,
    /// Steps between them, one fewer.
    pub steps: Vec<LevelStep>,
    /// The line, where that describes the series better. There is one level then.
    pub drift: Option<Drift>,
    /// Places of single runs far from their neighbours, which take no part.
    pub deviating: Vec<usize>,
    /// Standard deviation of one run around its level, of the logarithm.
    pub deviation: f64,
}

/// A stretch of runs with one level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunLevel {
    /// Places of its first and last run.
    pub ends: [usize; 2],
    /// Runs that take part; at least 2.
    pub runs: usize,
    /// Mean of the logarithms.
    pub centre: f64,
    /// Its 95 % interval.
    pub interval: Interval,
}

/// A change of level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelStep {
    /// Places of the last run before it and of the first run after it.
    pub between: [usize; 2],
    /// The same for the earliest and the latest place that fit nearly equally (95 %).
    pub earliest: [usize; 2],
    pub latest: [usize; 2],
    /// `ln(after / before)`.
    pub shift: f64,
    /// Its 95 % interval.
    pub interval: Interval,
    /// p value, adjusted for the places that were searched.
    pub p: f64,
}

/// A slow trend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// `ln(last / first)` on the line.
    pub shift: f64,
    /// Its 95 % interval.
    pub interval: Interval,
    /// p value.
    pub p: f64,
}

/// A split of a range: the places inside against the others.
#[derive(Debug, Clone, PartialEq)]
struct Split {
    inside: Range<usize>,
    /// Sum of squares that it explains.
    gain: f64,
}

impl RunSeries {
    /// Runs in order of time. None with fewer than four, or where a number is not finite or a value not positive.
    pub fn of(runs: &[Observed]) -> Option<Self> {
        let proper = |run: &Observed| {
            run.value > 0.0
                && [run.value, run.within, run.between].iter().all(|number| number.is_finite() && *number >= 0.0)
        };
        if runs.len() < LEAST_RUNS || !runs.iter().all(proper) {
            return None;
        }
        let squares =
            |part: fn(&Observed) -> f64| median(&runs.iter().map(|run| part(run).powi(2)).collect::<Vec<_>>());
        let within = squares(|run| run.within)?;
        let floor = within * BELIEVED * BELIEVED;
        let assumed = finite(within + squares(|run| run.between)?)?;
        let logarithms: Vec<f64> = runs.iter().map(|run| run.value.ln()).collect();
        let noise = noise_around_levels(&logarithms)?.powi(2);
        let degrees = logarithms.len() as f64 - 2.0;
        let spread = blended(noise * degrees, degrees, assumed, floor);
        let deviating = wild(&logarithms, spread.variance.sqrt());
        let places: Vec<usize> = (0..runs.len()).filter(|place| !deviating.contains(place)).collect();
        let logarithms = places.iter().map(|&place| logarithms[place]).collect();
        let shortest = if runs.len() < FEW { SHORTEST_OF_FEW } else { SHORTEST };
        Some(RunSeries { logarithms, places, deviating, assumed, floor, shortest })
    }

    /// p value of the hypothesis that the series has one level and no drift, adjusted for every place that is searched.
    pub fn p(&self) -> f64 {
        let whole = 0..self.logarithms.len();
        let split = self.best_split(&whole).map_or(1.0, |(_, p)| p);
        split.min(self.line().map_or(1.0, |(drift, _)| drift.p))
    }

    /// What it shows. `alpha` is the p value up to which a step counts, `least` the smallest step, of the logarithm.
    pub fn shape(&self, alpha: f64, least: f64) -> Option<SeriesShape> {
        let mut cuts = Vec::new();
        self.split(0..self.logarithms.len(), alpha, &mut cuts);
        cuts.sort_unstable();
        let cuts = self.lasting(cuts, alpha, least);
        if let Some(drift) = self.drift(&cuts, alpha, least) {
            let (_, rest) = self.line()?;
            let spread = blended(rest, self.logarithms.len() as f64 - 2.0, self.assumed, self.floor);
            return self.described(&[], spread, Some(drift));
        }
        self.described(&cuts, self.spread(&cuts), None)
    }

    /// The smallest relative step that is found nine times in ten and at the right run ±1, with half of the runs on either side.
    pub fn detectable(&self, alpha: f64, shape: &SeriesShape) -> Option<f64> {
        let count = self.logarithms.len() as f64;
        let degrees = (count - shape.levels.len() as f64 - 1.0).max(LEAST_DEGREES);
        let cuts = (count + 1.0 - 2.0 * self.shortest as f64).max(1.0);
        let proven = student_quantile(1.0 - alpha / 2.0 / QUESTIONS / cuts, degrees)?;
        // The variances, of this series and of the next, are estimates (Johnson and Welch, Biometrika 31, 1940).
        let reach = proven + normal_quantile(POWER)? * (1.0 + proven * proven / 2.0 / degrees).sqrt();
        let half = (count / 2.0).floor();
        let deviation = shape.deviation * (1.0 + normal_quantile(POWER)? / (2.0 * degrees).sqrt());
        let error = deviation * (1.0 / half + 1.0 / (count - half)).sqrt();
        finite((reach * error).max(PLACED * deviation).exp_m1())
    }

    /// Searches a range for its best split, and what that leaves again.
    fn split(&self, range: Range<usize>, alpha: f64, cuts: &mut Vec<usize>) {
        let Some((split, p)) = self.best_split(&range) else { return };
        if p > alpha {
            return;
        }
        let ends = [range.start, split.inside.start, split.inside.end, range.end];
        for pair in ends.windows(2).filter(|pair| pair[0] < pair[1]) {
            if pair[0] > range.start {
                cuts.push(pair[0]);
            }
            self.split(pair[0]..pair[1], alpha, cuts);
        }
    }

    /// The best of all cuts and of all stretches of a range, with its p value.
    fn best_split(&self, range: &Range<usize>) -> Option<(Split, f64)> {
        let count = range.len();
        if count < 2 * self.shortest {
            return None;
        }
        let centre = mean(&self.logarithms[range.clone()])?;
        let centred: Vec<f64> = self.logarithms[range.clone()].iter().map(|value| value - centre).collect();
        let total: f64 = centred.iter().map(|value| value * value).sum();
        let mut sums = vec![0.0; count + 1];
        for (place, value) in centred.iter().enumerate() {
            sums[place + 1] = sums[place] + value;
        }
        let gain = |from: usize, to: usize| {
            let (inside, size): (f64, usize) = (sums[to] - sums[from], to - from);
            inside * inside * count as f64 / (size * (count - size)) as f64
        };
        let cuts = (self.shortest..=count - self.shortest).map(|cut| (cut, count));
        let stretches =
            (self.shortest..count).flat_map(|from| (from + SHORTEST..=count - self.shortest).map(move |to| (from, to)));
        let best = |tried: &mut dyn Iterator<Item = (usize, usize)>| {
            let (mut best, mut number) = (None::<Split>, 0.0);
            for (from, to) in tried {
                number += 1.0;
                let gain = gain(from, to);
                if best.as_ref().is_none_or(|best| gain > best.gain) {
                    best = Some(Split { inside: range.start + from..range.start + to, gain });
                }
            }
            let split = best?;
            let spread = blended((total - split.gain).max(0.0), count as f64 - 2.0, self.assumed, self.floor);
            let p = (QUESTIONS * number * spread.p(split.gain)).min(1.0);
            Some((split, p))
        };
        let found = [best(&mut cuts.into_iter()), best(&mut stretches.into_iter())];
        found.into_iter().flatten().min_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// The cuts that stay: each moved to its best place between its neighbours, and the weakest removed until all of them hold.
    fn lasting(&self, mut cuts: Vec<usize>, alpha: f64, least: f64) -> Vec<usize> {
        loop {
            self.settle(&mut cuts);
            let spread = self.spread(&cuts);
            let weakness = |index: usize| {
                let (shift, p) = self.step_at(&cuts, index, spread);
                let holds = p <= alpha && shift.abs() >= least && self.holds_without_one(&cuts, index, spread);
                (!holds).then_some((index, p, shift.abs()))
            };
            let weak = (0..cuts.len()).filter_map(weakness);
            let weakest = weak.max_by(|one, other| one.1.total_cmp(&other.1).then(other.2.total_cmp(&one.2)));
            match weakest {
                Some((index, ..)) => cuts.remove(index),
                None => return cuts,
            };
        }
    }

    /// Moves every cut to the place between its neighbours that fits best.
    fn settle(&self, cuts: &mut [usize]) {
        for _ in 0..cuts.len() {
            let before = cuts.to_vec();
            for index in 0..cuts.len() {
                let around = self.around(cuts, index);
                let best = self
                    .places_of(&around)
                    .min_by(|&one, &other| self.squares(&around, one).total_cmp(&self.squares(&around, other)));
                cuts[index] = best.unwrap_or(cuts[index]);
            }
            if before == cuts {
                return;
            }
        }
    }

    /// The two levels at a cut as one range.
    fn around(&self, cuts: &[usize], index: usize) -> Range<usize> {
        let from = if index == 0 { 0 } else { cuts[index - 1] };
        from..cuts.get(index + 1).copied().unwrap_or(self.logarithms.len())
    }

    /// Where a range can be cut.
    fn places_of(&self, around: &Range<usize>) -> Range<usize> {
        around.start + self.shortest..(around.end + 1).saturating_sub(self.shortest)
    }

    /// Sum of squares around the two levels of a range.
    fn squares(&self, around: &Range<usize>, cut: usize) -> f64 {
        self.squares_of(around.start..cut) + self.squares_of(cut..around.end)
    }

    fn squares_of(&self, range: Range<usize>) -> f64 {
        let centre = self.centre(&range);
        self.logarithms[range].iter().map(|value| (value - centre).powi(2)).sum()
    }

    fn centre(&self, range: &Range<usize>) -> f64 {
        mean(&self.logarithms[range.clone()]).unwrap_or(0.0)
    }

    fn levels(&self, cuts: &[usize]) -> Vec<Range<usize>> {
        let ends: Vec<usize> = [0].into_iter().chain(cuts.iter().copied()).chain([self.logarithms.len()]).collect();
        ends.windows(2).map(|pair| pair[0]..pair[1]).collect()
    }

    /// The variance of one run around the levels.
    fn spread(&self, cuts: &[usize]) -> Spread {
        let squares: f64 = self.levels(cuts).into_iter().map(|level| self.squares_of(level)).sum();
        let degrees = self.logarithms.len() as f64 - cuts.len() as f64 - 1.0;
        blended(squares, degrees, self.assumed, self.floor)
    }

    /// Shift at a cut, and its p value with regard to the places where it could be.
    fn step_at(&self, cuts: &[usize], index: usize, spread: Spread) -> (f64, f64) {
        let (around, cut) = (self.around(cuts, index), cuts[index]);
        let (before, after) = (around.start..cut, cut..around.end);
        let shift = self.centre(&after) - self.centre(&before);
        let factor = 1.0 / before.len() as f64 + 1.0 / after.len() as f64;
        let number = self.places_of(&around).count() as f64;
        (shift, (QUESTIONS * number * spread.p(shift * shift / factor)).min(1.0))
    }

    /// Whether the levels at a cut still differ, in the same direction, when any one run is left out.
    fn holds_without_one(&self, cuts: &[usize], index: usize, spread: Spread) -> bool {
        let (around, cut) = (self.around(cuts, index), cuts[index]);
        let (shift, _) = self.step_at(cuts, index, spread);
        around.clone().all(|left_out| {
            let side = |range: Range<usize>| -> Vec<f64> {
                range.filter(|&place| place != left_out).map(|place| self.logarithms[place]).collect()
            };
            let (before, after) = (side(around.start..cut), side(cut..around.end));
            let Some((one, other)) = mean(&before).zip(mean(&after)) else { return false };
            let factor = 1.0 / before.len() as f64 + 1.0 / after.len() as f64;
            (other - one) * shift > 0.0 && spread.p((other - one).powi(2) / factor) <= WITHOUT_ONE
        })
    }

    /// The least-squares line over the runs, and the sum of squares around it.
    fn line(&self) -> Option<(Drift, f64)> {
        let places: Vec<f64> = self.places.iter().map(|&place| place as f64).collect();
        let (slope, _) = coefficients(&places, &self.logarithms)?;
        let middle = mean(&places)?;
        let width: f64 = places.iter().map(|place| (place - middle).powi(2)).sum();
        let rest = (self.squares_of(0..self.logarithms.len()) - slope * slope * width).max(0.0);
        let spread = blended(rest, places.len() as f64 - 2.0, self.assumed, self.floor);
        let length = places.last()? - places.first()?;
        let p = (QUESTIONS * spread.p(slope * slope * width)).min(1.0);
        let interval = spread.interval(slope * length, length * length / width)?;
        Some((Drift { shift: slope * length, interval, p }, rest))
    }

    /// The line, if it is proven, large enough, and describes the series better than its levels (Schwarz, Annals of Statistics 6,
    /// 1978).
    fn drift(&self, cuts: &[usize], alpha: f64, least: f64) -> Option<Drift> {
        let (drift, rest) = self.line()?;
        let count = self.logarithms.len() as f64;
        let score = |squares: f64, numbers: f64| {
            count * (squares / count + self.floor).max(f64::MIN_POSITIVE).ln() + numbers * count.ln()
        };
        let of_levels: f64 = self.levels(cuts).into_iter().map(|level| self.squares_of(level)).sum();
        let better = score(rest, 2.0) < score(of_levels, 2.0 * cuts.len() as f64 + 1.0);
        (drift.p <= alpha && drift.shift.abs() >= least && better).then_some(drift)
    }

    /// Levels and steps at cuts, in places of the runs that were given.
    fn described(&self, cuts: &[usize], spread: Spread, drift: Option<Drift>) -> Option<SeriesShape> {
        let levels = self.levels(cuts).into_iter().map(|range| {
            let (centre, runs) = (self.centre(&range), range.len());
            let ends = [self.places[range.start], self.places[range.end - 1]];
            Some(RunLevel { ends, runs, centre, interval: spread.interval(centre, 1.0 / runs as f64)? })
        });
        let steps = (0..cuts.len()).map(|index| {
            let (around, cut) = (self.around(cuts, index), cuts[index]);
            let (shift, p) = self.step_at(cuts, index, spread);
            let factor = 1.0 / (cut - around.start) as f64 + 1.0 / (around.end - cut) as f64;
            let best = self.squares(&around, cut);
            let fits = |&place: &usize| self.squares(&around, place) - best <= PLAUSIBLE * spread.variance;
            let gap = |cut: usize| [self.places[cut - 1], self.places[cut]];
            let (first, last) = (around.start + self.shortest, (around.end - self.shortest).max(cut));
            let earliest = (first..=cut).rev().take_while(fits).last().unwrap_or(cut);
            let latest = (cut..=last).take_while(fits).last().unwrap_or(cut);
            Some(LevelStep {
                between: gap(cut),
                earliest: gap(earliest),
                latest: gap(latest),
                shift,
                interval: spread.interval(shift, factor)?,
                p,
            })
        });
        Some(SeriesShape {
            levels: levels.collect::<Option<_>>()?,
            steps: steps.collect::<Option<_>>()?,
            drift,
            deviating: self.deviating.clone(),
            deviation: spread.variance.sqrt(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::significance::cutoff;
    use super::super::synthetic::{measured_run, normal_draw};
    use super::*;

    /// False alarms over a table.
    const Q: f64 = 0.01;
    /// What a single series is judged by in a table of two hundred.
    const ALPHA: f64 = Q / 200.0;
    const BETWEEN: f64 = 0.01;

    fn observed(value: f64) -> Observed {
        Observed { value, within: 0.002, launches: 20, between: BETWEEN }
    }

    /// Runs with launches of two modes and an effect of each run; one run in fifty is wild.
    fn runs(random: &mut fastrand::Rng, factors: impl Iterator<Item = f64>) -> Vec<Observed> {
        let wild = |random: &mut fastrand::Rng| if random.f64() < 0.02 { 1.0 + random.f64() } else { 1.0 };
        factors
            .map(|factor| {
                let times = wild(random);
                measured_run(random, factor * times, BETWEEN)
            })
            .collect()
    }

    /// Runs as simple as that: a level, normal noise.
    fn simple(random: &mut fastrand::Rng, levels: impl Iterator<Item = f64>) -> Vec<Observed> {
        levels.map(|level| observed((level + BETWEEN * normal_draw(random)).exp())).collect()
    }

    fn shape(runs: &[Observed]) -> SeriesShape {
        RunSeries::of(runs).unwrap().shape(ALPHA, 0.01).unwrap()
    }

    #[test]
    fn a_machine_that_did_not_change_raises_few_alarms() {
        let mut random = fastrand::Rng::with_seed(51);
        let table: Vec<RunSeries> = (0..200)
            .map(|number| RunSeries::of(&runs(&mut random, std::iter::repeat_n(1.0, 12 + number % 29))).unwrap())
            .collect();
        let p: Vec<f64> = table.iter().map(RunSeries::p).collect();
        // Adjusted for its places, a series alone has at most its nominal share.
        assert!(p.iter().filter(|p| **p <= 0.05).count() <= 10, "{p:?}");
        let alpha = cutoff(&p, Q);
        let changed = table.iter().map(|series| series.shape(alpha, 0.01).unwrap());
        assert_eq!(changed.filter(|shape| !shape.steps.is_empty() || shape.drift.is_some()).count(), 0);
    }

    /// Tables of 200 series of 4 to 39 runs of one level: series that stand alone at 5 %, tables with an alarm, alarms.
    fn tables(random: &mut fastrand::Rng, number: usize, wild: f64) -> [usize; 3] {
        let mut found = [0; 3];
        for _ in 0..number {
            let table: Vec<RunSeries> = (0..200)
                .map(|number| {
                    let level = |random: &mut fastrand::Rng| if random.f64() < wild { 0.3 } else { 0.0 };
                    let levels: Vec<f64> = (0..4 + number % 36).map(|_| level(random)).collect();
                    RunSeries::of(&simple(random, levels.into_iter())).unwrap()
                })
                .collect();
            let p: Vec<f64> = table.iter().map(RunSeries::p).collect();
            let alpha = cutoff(&p, Q);
            let shapes = table.iter().map(|series| series.shape(alpha, 0.01).unwrap());
            let alarms = shapes.filter(|shape| !shape.steps.is_empty() || shape.drift.is_some()).count();
            found[0] += p.iter().filter(|p| **p <= 0.05).count();
            found[1] += usize::from(alarms > 0);
            found[2] += alarms;
        }
        found
    }

    #[test]
    fn many_tables_that_did_not_change_have_hardly_an_alarm() {
        let mut random = fastrand::Rng::with_seed(52);
        let [alone, with, alarms] = tables(&mut random, 100, 0.0);
        assert!(alone <= 1000 && with <= 2, "{alone} of 20000 alone, {alarms} alarms in {with} of 100 tables");
        // Two or three wild runs in a row of the same height are what a step looks like.
        let [alone, with, alarms] = tables(&mut random, 100, 0.02);
        assert!(alone <= 1000 && alarms <= 30, "{alone} of 20000 alone, {alarms} alarms in {with} of 100 tables");
    }

    #[test]
    fn a_step_of_the_stated_size_is_found_at_its_run_with_its_sign() {
        let mut random = fastrand::Rng::with_seed(53);
        for count in [6, 12, 24, 40] {
            let (mut found, mut covered) = (0, 0);
            for round in 0..200 {
                let flat = runs(&mut random, std::iter::repeat_n(1.0, count));
                let series = RunSeries::of(&flat).unwrap();
                let size = series.detectable(ALPHA, &series.shape(ALPHA, 0.01).unwrap()).unwrap();
                let factor = if round % 2 == 0 { 1.0 + size } else { 1.0 / (1.0 + size) };
                let stepped = |place: usize| if place < count / 2 { 1.0 } else { factor };
                let after = shape(&runs(&mut random, (0..count).map(stepped)));
                let Some(step) = after.steps.first() else { continue };
                assert!((step.shift > 0.0) == (factor > 1.0), "{after:?}");
                found += u32::from(after.steps.len() == 1 && step.between[1].abs_diff(count / 2) <= 1);
                covered += u32::from(step.interval.contains(factor.ln()));
            }
            assert!(found >= 160, "{count} runs: {found} of 200");
            assert!(covered * 10 >= found * 8, "{count} runs: {covered} of {found}");
        }
    }

    #[test]
    fn one_wild_run_is_no_step() {
        let mut random = fastrand::Rng::with_seed(54);
        for count in [4, 5, 6, 9, 14, 30] {
            for place in 0..count {
                for factor in [0.1, 0.5, 1.3, 2.0, 50.0] {
                    let mut wild = simple(&mut random, std::iter::repeat_n(0.0, count));
                    wild[place].value *= factor;
                    let found = shape(&wild);
                    assert!(found.steps.is_empty() && found.drift.is_none(), "{count} {place} {factor}: {found:?}");
                    assert!(count < 14 || found.deviating.contains(&place), "{count} {place} {factor}: {found:?}");
                }
            }
        }
        // It does not hide a step either.
        let mut both = simple(&mut random, (0..20).map(|place| if place < 10 { 0.0 } else { 0.08 }));
        both[4].value *= 3.0;
        let found = shape(&both);
        assert!(
            found.steps.len() == 1 && found.steps[0].between == [9, 10] && found.deviating.contains(&4),
            "{found:?}"
        );
    }

    #[test]
    fn a_slow_trend_is_a_drift_and_a_staircase_is_steps() {
        let mut random = fastrand::Rng::with_seed(55);
        let (mut drifts, mut stairs, mut back) = (0, 0, 0);
        for _ in 0..100 {
            let ramp = shape(&simple(&mut random, (0..40).map(|place| 0.004 * f64::from(place))));
            assert!(ramp.steps.is_empty(), "{ramp:?}");
            drifts += u32::from(ramp.drift.is_some_and(|drift| drift.interval.contains(0.156)));
            let stair = shape(&simple(&mut random, (0..39).map(|place| 0.08 * f64::from(place / 13))));
            stairs += u32::from(stair.drift.is_none() && stair.steps.len() == 2);
            let there = |place| if (12..20).contains(&place) { 0.08 } else { 0.0 };
            let there_and_back = shape(&simple(&mut random, (0..32).map(there)));
            let places: Vec<usize> = there_and_back.steps.iter().map(|step| step.between[1]).collect();
            back += u32::from(places == [12, 20]);
        }
        assert!(drifts >= 85 && stairs >= 95 && back >= 95, "{drifts} {stairs} {back}");
    }

    #[test]
    fn two_states_of_a_machine_are_scatter() {
        let mut random = fastrand::Rng::with_seed(56);
        let alarms = (0..1000).filter(|number| {
            let states: Vec<f64> = (0..12 + number % 29).map(|_| if random.f64() < 0.3 { 0.1 } else { 0.0 }).collect();
            !shape(&simple(&mut random, states.into_iter())).steps.is_empty()
        });
        let alarms = alarms.count();
        assert!(alarms <= 20, "{alarms} of 1000");
    }

    #[test]
    fn what_was_assumed_of_the_scatter_gives_way_to_the_series() {
        let assumed = |between: f64| {
            let run = |place: u32| Observed {
                value: if place < 8 { 1.0 } else { 1.2 } + 0.001 * f64::from(place % 3),
                within: 0.002,
                launches: 9,
                between,
            };
            RunSeries::of(&(0..16).map(run).collect::<Vec<_>>()).unwrap().p()
        };
        assert!((assumed(0.5) / assumed(0.001) - 1.0).abs() < 1e-9 && assumed(0.5) < 1e-6);
        let few = |between: f64| {
            let run =
                |place: u32| Observed { value: if place < 2 { 1.0 } else { 1.2 }, within: 0.002, launches: 9, between };
            RunSeries::of(&(0..4).map(run).collect::<Vec<_>>()).unwrap().p()
        };
        assert!(few(0.5) > 0.5 && few(0.001) < 1e-4, "{} {}", few(0.5), few(0.001));
    }

    #[test]
    fn what_has_no_answer_is_none() {
        assert_eq!(RunSeries::of(&[observed(1.0); 3]), None);
        assert_eq!(RunSeries::of(&[observed(1.0), observed(1.0), observed(0.0), observed(1.0)]), None);
        assert_eq!(RunSeries::of(&[observed(f64::NAN); 5]), None);
        let constant = [Observed { value: 5.0, within: 0.0, launches: 1, between: 0.0 }; 9];
        let found = RunSeries::of(&constant).unwrap();
        assert!(found.p() >= 1.0 && found.shape(ALPHA, 0.01).unwrap().steps.is_empty());
    }

    proptest! {
        #[test]
        fn levels_cover_the_series(values in prop::collection::vec(1e-3..1e6_f64, 4..50)) {
            let runs: Vec<Observed> = values.iter().map(|&value| observed(value)).collect();
            let found = RunSeries::of(&runs).unwrap().shape(0.05, 0.01).unwrap();
            prop_assert_eq!(found.levels.len(), found.steps.len() + 1);
            let taking_part: usize = found.levels.iter().map(|level| level.runs).sum();
            prop_assert_eq!(taking_part + found.deviating.len(), values.len());
            for step in &found.steps {
                prop_assert!(step.earliest[1] <= step.between[1] && step.between[1] <= step.latest[1]);
                prop_assert!(step.interval.contains(step.shift) && (0.0..=0.05).contains(&step.p));
            }
        }
    }
}
