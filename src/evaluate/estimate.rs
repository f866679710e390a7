//! Estimates of a figure over launches: the two locations, their intervals, and differences of two series.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::neighbour::Counts;
use crate::results::document::{ModesOf, Quantiles};
use crate::results::quantity::Unit;
use crate::statistics::change::{Steadiness, steady_state};
use crate::statistics::interval::quantile_interval;
use crate::statistics::location::{FEWEST_LAUNCHES, launch_estimates};
use crate::statistics::modes::modes;
use crate::statistics::proportion::proportion_interval;
use crate::statistics::resampling::resamplings;
use crate::statistics::summary;

use super::sample::{Account, Sample};

/// Confidence that intervals aim at.
pub const LEVEL: f64 = 0.95;

/// Resamplings of the launches behind the interval of a median of draws.
const RESAMPLINGS: u32 = 400;

/// A figure before its gates.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Unit of everything below.
    pub unit: Unit,
    /// Headline.
    pub value: f64,
    /// Interval over launches.
    pub interval: [f64; 2],
    /// Confidence it really has.
    pub level: f64,
    /// The location without preference for undisturbed batches.
    pub typical: Option<f64>,
    /// Standard deviation of the launch estimates; 0 with one launch.
    pub stddev: f64,
    /// Quantiles over clean batches.
    pub quantiles: Option<Quantiles>,
    /// In words.
    pub estimator: String,
    /// Launches behind it.
    pub launches: u32,
    /// Launches whose batches never came to rest on one level (Barrett et al., OOPSLA 2017).
    pub restless: u32,
    /// Every batch behind it.
    pub account: Account,
    /// The same with a neighbour on the core, where there were such batches.
    pub shared: Option<BesideNeighbour>,
    /// Two ways to run, where launches show them.
    pub modes: Option<TwoModes>,
    /// How far launches lie apart, where there are enough of them.
    pub over_launches: Option<OverLaunches>,
}

/// How far the launches of a figure lie apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OverLaunches {
    /// The lowest tenth ends here.
    pub lowest: f64,
    /// The highest tenth begins here.
    pub highest: f64,
    /// All of them.
    pub range: [f64; 2],
}

/// Launches below which a tenth of them is none.
const FEWEST_FOR_TENTHS: usize = 5;

fn over_launches(estimates: &[f64]) -> Option<OverLaunches> {
    let at = |share| summary::quantile(estimates, share).filter(|_| estimates.len() >= FEWEST_FOR_TENTHS);
    Some(OverLaunches { lowest: at(0.1)?, highest: at(0.9)?, range: [at(0.0)?, at(1.0)?] })
}

/// Two ways to run: what each costs, and the share that ran in the upper one, of the launches or of the batches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TwoModes {
    pub lower: f64,
    pub upper: f64,
    pub upper_share: f64,
    pub of: ModesOf,
}

/// Launches or draws below which two modes cannot be distinguished from scatter.
const FEWEST_FOR_MODES: usize = 8;
/// Share of them that the rarer mode has at least.
const RARER_MODE: f64 = 0.15;

/// Two modes (Hartigan's dip, a gap of 5 %), each with a share that matters.
fn two_modes(estimates: &[f64]) -> Option<TwoModes> {
    let found = modes(estimates).filter(|found| estimates.len() >= FEWEST_FOR_MODES && found.bimodal())?;
    let matters = (RARER_MODE..=1.0 - RARER_MODE).contains(&found.upper_share);
    matters.then_some(TwoModes {
        lower: found.lower,
        upper: found.upper,
        upper_share: found.upper_share,
        of: ModesOf::Launches,
    })
}

/// A figure from the batches with a neighbour on the core.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BesideNeighbour {
    /// Headline, in the unit of the figure.
    pub value: f64,
    /// Interval over launches.
    pub interval: [f64; 2],
    /// Launches behind it.
    pub launches: u32,
    /// Batches behind it.
    pub samples: u64,
}

impl Estimate {
    /// Undisturbed cost, with the typical cost in addition. Of batches that were alone on their core: the median over launches of the
    /// launches' quantiles. Otherwise the lower quartile of their lower quartiles.
    pub fn undisturbed(sample: &Sample) -> Option<Estimate> {
        let Some(picked) = &sample.picked else {
            let what = if sample.unit == Unit::Cycles { "frequency-normalised batches" } else { "batches" };
            return Self::located(sample, [0.25; 2], &format!("p25/p25 of {what}"));
        };
        let estimator = format!("median over launches of p{:.0} of batches {}", picked.within * 100.0, picked.which());
        let mut estimate = Self::located(sample, [picked.within, 0.5], &estimator)?;
        estimate.typical = summary::median(&launch_estimates(&picked.whole, 0.5));
        estimate.shared = beside(sample, Self::undisturbed);
        Some(estimate)
    }

    /// The undisturbed cost of what settles anew before each batch, on one of several levels. Every batch is a draw: the result is the
    /// median of the draws of all launches, its interval that of resampled launches, and the modes are those of the draws.
    /// Wants a sample [by median](Sample::by_median), whose launches differences use too.
    pub fn of_draws(sample: &Sample) -> Option<Estimate> {
        let mut estimate = Self::undisturbed(sample)?;
        let draws = sample.launches.concat();
        estimate.modes = two_modes(&draws).map(|found| TwoModes { of: ModesOf::Batches, ..found });
        // Levels change between the draws of every launch, so none counts as one that did not settle.
        estimate.restless = 0;
        let Some(picked) = sample.picked.as_ref().filter(|_| sample.launches.len() >= FEWEST_LAUNCHES) else {
            return Some(estimate);
        };
        estimate.value = summary::median(&draws)?;
        let launches: Vec<&Vec<f64>> = sample.launches.iter().collect();
        let medians: Vec<f64> = resamplings(&launches, RESAMPLINGS, launches.len() as u64)
            .filter_map(|set| summary::median(&set.into_iter().flatten().copied().collect::<Vec<_>>()))
            .collect();
        let outside = (1.0 - LEVEL) / 2.0;
        let (low, high) = (summary::quantile(&medians, outside)?, summary::quantile(&medians, 1.0 - outside)?);
        estimate.interval = [low.min(estimate.value), high.max(estimate.value)];
        estimate.estimator = format!("median of the batches of all launches {}", picked.which());
        Some(estimate)
    }

    /// Undisturbed rate: noise lowers rates, so the upper quartiles are what the lower ones are for costs.
    pub fn undisturbed_rate(sample: &Sample) -> Option<Estimate> {
        if sample.picked.is_some() {
            Self::undisturbed(sample)
        } else {
            Self::located(sample, [0.75; 2], "p75/p75 of batches")
        }
    }

    /// Middle: median over launches of the launches' medians.
    pub fn median(sample: &Sample) -> Option<Estimate> {
        Self::located(sample, [0.5; 2], "median/median")
    }

    /// A quantile over launches of a quantile within them.
    fn located(sample: &Sample, [within, over]: [f64; 2], estimator: &str) -> Option<Estimate> {
        let estimates = launch_estimates(&sample.launches, within);
        let value = summary::quantile(&estimates, over)?;
        let (interval, level) = interval_of(&estimates, over, value);
        let all: Vec<f64> = sample.launches.iter().flatten().copied().collect();
        Some(Estimate {
            unit: sample.unit,
            value,
            interval,
            level,
            typical: summary::median(&launch_estimates(&sample.launches, 0.5)),
            stddev: summary::standard_deviation(&estimates).unwrap_or(0.0),
            quantiles: quantiles(&all),
            estimator: estimator.to_owned(),
            launches: estimates.len() as u32,
            restless: sample.launches.iter().filter(|launch| restless(launch)).count() as u32,
            account: sample.account,
            shared: None,
            modes: two_modes(&estimates),
            over_launches: over_launches(&estimates),
        })
    }

    /// Cost of what a long body has more than a short one: (times · long − short) / (times − 1), where a long batch holds
    /// `times` as many operations as a short one and both costs are per operation.
    ///
    /// The undisturbed cost of each series is taken first, because noise is one-sided in each of them but not in their
    /// difference; the difference is taken within a launch, so that what a launch does to both cancels; and the median is
    /// taken over launches, because what is left is noise to both sides. A launch in which nothing clean is left of one
    /// body stands aside.
    pub fn difference(long: &Sample, short: &Sample, times: f64) -> Option<Estimate> {
        let cost = |long: f64, short: f64| (times * long - short) / (times - 1.0);
        let estimator = format!("median over launches of the difference of p{:.0}", long.within() * 100.0);
        let mut estimate = Self::of_pair(long, short, &estimator, &cost)?;
        let (long, short) = (long.shared_with(short), short.shared_with(long));
        let launches = || long.launches.iter().zip(&short.launches);
        let pairs =
            launches().flat_map(|(long, short)| long.iter().zip(short)).map(|(long, short)| cost(*long, *short));
        estimate.quantiles = quantiles(&pairs.collect::<Vec<f64>>());
        estimate.restless = launches().filter(|(long, short)| restless(long) || restless(short)).count() as u32;
        Some(estimate)
    }

    /// What a gross cost has above an overhead that stands before or after it, never in parallel with it. Gate G5 decides whether
    /// it may be published.
    ///
    /// Of batches that were alone on their core it is the difference of the two figures as they are published. Its interval
    /// comes of the differences within the launches that have both. Otherwise it is the median of those differences.
    pub fn net(gross: &Sample, overhead: &Sample) -> Option<Estimate> {
        Self::net_of(gross, overhead, Self::undisturbed)
    }

    /// The same of two results that another estimator gave.
    pub fn net_of(
        gross: &Sample,
        overhead: &Sample,
        published: impl Fn(&Sample) -> Option<Estimate>,
    ) -> Option<Estimate> {
        let percent = gross.within() * 100.0;
        let estimator = format!("median over launches of gross p{percent:.0} minus overhead p{percent:.0}");
        let net = Self::of_pair(gross, overhead, &estimator, &|gross, overhead| gross - overhead)?;
        if gross.is_alone() && overhead.is_alone() {
            let value = published(gross)?.value - published(overhead)?.value;
            return Some(net.of_published(value));
        }
        Some(net)
    }

    /// A difference over launches as the difference of the two published figures, which its interval contains.
    #[must_use]
    pub fn of_published(self, difference: f64) -> Estimate {
        Estimate {
            value: difference,
            interval: [self.interval[0].min(difference), self.interval[1].max(difference)],
            estimator: "difference of the published results, with the interval of the differences over launches"
                .to_owned(),
            ..self
        }
    }

    /// The median over launches of a function of the undisturbed costs of two samples in each launch that has both.
    fn of_pair(one: &Sample, other: &Sample, estimator: &str, cost: &dyn Fn(f64, f64) -> f64) -> Option<Estimate> {
        if one.unit != other.unit {
            return None;
        }
        // Both of the same kind: what a neighbour costs is no part of a difference.
        match (one.is_beside_a_neighbour(), other.is_beside_a_neighbour()) {
            (true, false) => return Self::of_pair(one, &other.beside_a_neighbour()?, estimator, cost),
            (false, true) => return Self::of_pair(&one.beside_a_neighbour()?, other, estimator, cost),
            _ => {}
        }
        let (one, other) = (&one.shared_with(other), &other.shared_with(one));
        let at = |within: [f64; 2]| -> Vec<f64> {
            let of = |sample: &Sample, within| launch_estimates(&sample.launches, within);
            of(one, within[0]).iter().zip(&of(other, within[1])).map(|(one, other)| cost(*one, *other)).collect()
        };
        let mut estimate = Self::over_launches(&at([one.within(), other.within()]), one.unit, estimator)?;
        let whole = |sample: &Sample| summary::median(&launch_estimates(&sample.picked.as_ref()?.whole, 0.5));
        let typical = whole(one).zip(whole(other)).map(|(one, other)| cost(one, other));
        estimate.typical = typical.or_else(|| summary::median(&at([0.5; 2])));
        estimate.account = one.account.and(&other.account);
        estimate = estimate.made_of([one, other]);
        if let Some(shared) = other.beside_a_neighbour() {
            estimate.shared = beside(one, |one| Self::of_pair(one, &shared, estimator, cost));
        }
        Some(estimate)
    }

    /// An estimate over a sample, with what the sample was picked from. That is the same of all shots and of those with a
    /// neighbour, where looks at the core picked any.
    #[must_use]
    pub fn picked_from(mut self, sample: &Sample, estimate: impl Fn(&Sample) -> Option<Estimate>) -> Estimate {
        if let Some(picked) = &sample.picked {
            let whole = Sample { launches: picked.whole.clone(), picked: None, ..sample.clone() };
            self.typical = estimate(&whole).map(|found| found.value);
            self.shared = beside(sample, estimate);
            self.estimator = format!("{} of shots {}", self.estimator, picked.which());
        }
        self
    }

    /// A figure with one value per launch that was computed from samples: it is as alone on its core as they are.
    #[must_use]
    pub fn made_of<'a>(mut self, samples: impl IntoIterator<Item = &'a Sample>) -> Estimate {
        let Account { long, few, .. } = &mut self.account;
        let counted = samples.into_iter().filter_map(|sample| {
            *long = long.max(sample.account.long);
            let sharing = sample.account.sharing?;
            *few |= sample.account.few;
            Some(if sample.is_beside_a_neighbour() { Counts { alone: 0, ..sharing } } else { sharing })
        });
        // One that was never alone makes all of it so.
        self.account.sharing = counted.reduce(|one, other| {
            let sum = one + other;
            Counts { alone: if one.alone == 0 || other.alone == 0 { 0 } else { sum.alone }, ..sum }
        });
        self
    }

    /// This figure less a value that was measured on its own, with both ends of both intervals: wider than it would have to
    /// be, never narrower.
    #[must_use]
    pub fn less(&self, value: f64, interval: [f64; 2], estimator: &str) -> Estimate {
        Estimate {
            value: self.value - value,
            interval: [self.interval[0] - interval[1], self.interval[1] - interval[0]],
            typical: self.typical.map(|typical| typical - value),
            quantiles: None,
            estimator: estimator.to_owned(),
            shared: None,
            modes: None,
            over_launches: None,
            ..self.clone()
        }
    }

    /// A figure with one value per launch: the median over launches.
    pub fn over_launches(values: &[f64], unit: Unit, estimator: &str) -> Option<Estimate> {
        let launches: Vec<Vec<f64>> = values.iter().map(|&value| vec![value]).collect();
        let count = values.len() as u64;
        let account = Account { taken: count, clean: count, operations: 1, ..Account::default() };
        let numbers = (1..=values.len() as u32).collect();
        let mut estimate = Self::median(&Sample { unit, launches, numbers, account, picked: None })?;
        estimator.clone_into(&mut estimate.estimator);
        estimate.typical = None;
        Some(estimate)
    }

    /// A share of a whole, from the part and the whole that each launch counted: all parts over all wholes.
    pub fn of_counts(counts: &[(f64, f64)], estimator: &str) -> Option<Estimate> {
        let interval = proportion_interval(counts, LEVEL)?;
        let (part, whole) = counts.iter().fold((0.0, 0.0), |sum, found| (sum.0 + found.0, sum.1 + found.1));
        let shares: Vec<f64> = counts.iter().filter(|count| count.1 > 0.0).map(|count| count.0 / count.1).collect();
        Some(Estimate {
            value: part / whole,
            interval: [interval.low, interval.high],
            level: interval.level,
            quantiles: None,
            modes: None,
            over_launches: None,
            ..Self::over_launches(&shares, Unit::One, estimator)?
        })
    }

    /// The same figure in another unit.
    #[must_use]
    pub fn scaled(&self, by: f64, unit: Unit) -> Estimate {
        Estimate {
            unit,
            value: self.value * by,
            interval: self.interval.map(|end| end * by),
            typical: self.typical.map(|value| value * by),
            stddev: self.stddev * by,
            quantiles: self.quantiles.map(|found| Quantiles {
                p10: found.p10 * by,
                p50: found.p50 * by,
                p90: found.p90 * by,
                p99: found.p99 * by,
            }),
            shared: self.shared.map(|found| BesideNeighbour {
                value: found.value * by,
                interval: found.interval.map(|end| end * by),
                ..found
            }),
            over_launches: self.over_launches.map(|found| OverLaunches {
                lowest: found.lowest * by,
                highest: found.highest * by,
                range: found.range.map(|end| end * by),
            }),
            modes: self.modes.map(|found| TwoModes { lower: found.lower * by, upper: found.upper * by, ..found }),
            ..self.clone()
        }
    }

    /// The interval of too few launches for an interval of confidence: it also holds the middle eight tenths of what these launches
    /// took, and their typical cost.
    #[must_use]
    pub fn with_what_few_launches_show(mut self) -> Estimate {
        if (self.launches as usize) < FEWEST_LAUNCHES {
            let quantiles = self.quantiles.map(|found| [found.p10, found.p90]);
            for seen in quantiles.into_iter().flatten().chain(self.typical) {
                self.interval = [self.interval[0].min(seen), self.interval[1].max(seen)];
            }
        }
        self
    }

    /// Standard error of the headline, from the width of its interval; 0 where there is none.
    pub fn standard_error(&self) -> f64 {
        // 95 % of a normal distribution lie within 1.96 standard errors; narrower levels only make this larger.
        (self.interval[1] - self.interval[0]) / (2.0 * 1.96)
    }
}

/// The interval of a quantile over launches, and the confidence it has; the value itself where there are too few.
fn interval_of(estimates: &[f64], over: f64, value: f64) -> ([f64; 2], f64) {
    match quantile_interval(estimates, over, LEVEL) {
        Some(interval) => ([interval.low, interval.high], interval.level),
        None => ([value, value], 0.0),
    }
}

/// What an estimator makes of the batches of a sample with a neighbour. None with fewer than two launches that have any.
fn beside(sample: &Sample, estimate: impl Fn(&Sample) -> Option<Estimate>) -> Option<BesideNeighbour> {
    let shared = sample.beside_a_neighbour()?;
    let samples = shared.launches.iter().map(Vec::len).sum::<usize>() as u64;
    let Estimate { value, interval, launches, .. } = estimate(&shared)?;
    (launches >= 2).then_some(BesideNeighbour { value, interval, launches, samples })
}

thread_local! {
    /// What was found of batches, by their number and a hash. A run looks at its growing log many times, and a figure at the batches of
    /// others.
    static KNOWN: RefCell<HashMap<(usize, u64), bool>> = RefCell::default();
}

/// Whether the batches of a launch never settle on one level.
fn restless(batches: &[f64]) -> bool {
    let mut hasher = DefaultHasher::new();
    for batch in batches {
        batch.to_bits().hash(&mut hasher);
    }
    let key = (batches.len(), hasher.finish());
    let find = || steady_state(batches) == Some(Steadiness::NoSteadyState);
    KNOWN.with_borrow_mut(|known| *known.entry(key).or_insert_with(find))
}

fn quantiles(values: &[f64]) -> Option<Quantiles> {
    summary::quantiles(values).map(|found| Quantiles { p10: found.p10, p50: found.p50, p90: found.p90, p99: found.p99 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(launches: Vec<Vec<f64>>) -> Sample {
        let taken = launches.iter().map(Vec::len).sum::<usize>() as u64;
        let account = Account { taken, clean: taken, operations: 32, brief: 1e5, ..Account::default() };
        let numbers = (1..=launches.len() as u32).collect();
        Sample { unit: Unit::Cycles, launches, numbers, account, picked: None }
    }

    #[test]
    fn undisturbed_is_below_typical_on_one_sided_noise() {
        let launches =
            (0..30).map(|launch| (0..30).map(|batch| 300.0 + f64::from(launch * batch % 7)).collect()).collect();
        let estimate = Estimate::undisturbed(&sample(launches)).unwrap();
        assert!(estimate.value < estimate.typical.unwrap());
        assert!(estimate.interval[0] <= estimate.value && estimate.value <= estimate.interval[1]);
        assert_eq!(estimate.launches, 30);
    }

    #[test]
    fn a_difference_removes_what_both_bodies_share() {
        // 32 operations of 4 cycles and 20 cycles around them; twice as many operations in the long body.
        let short = sample((0..12).map(|_| vec![(32.0 * 4.0 + 20.0) / 32.0; 10]).collect());
        let long = sample((0..12).map(|_| vec![(64.0 * 4.0 + 20.0) / 64.0; 10]).collect());
        let estimate = Estimate::difference(&long, &short, 2.0).unwrap();
        assert!((estimate.value - 4.0).abs() < 1e-12);
        assert!((estimate.typical.unwrap() - 4.0).abs() < 1e-12);
    }

    #[test]
    fn a_difference_of_unlike_samples_is_refused() {
        let short = sample(vec![vec![1.0]; 3]);
        let long = Sample { unit: Unit::Nanoseconds, ..short.clone() };
        assert_eq!(Estimate::difference(&long, &short, 2.0), None);
    }

    #[test]
    fn a_difference_is_taken_within_launches_that_have_both() {
        let long = Sample { numbers: vec![1, 3, 4], ..sample(vec![vec![3.0], vec![30.0], vec![5.0]]) };
        let short = Sample { numbers: vec![1, 2, 4], ..sample(vec![vec![1.0], vec![900.0], vec![2.0]]) };
        let estimate = Estimate::difference(&long, &short, 2.0).unwrap();
        // 2 · 3 − 1 and 2 · 5 − 2; the second and the third launch lack one body.
        assert!((estimate.value - 6.5).abs() < 1e-12 && estimate.launches == 2, "{estimate:?}");
    }

    #[test]
    fn a_net_cost_is_the_difference_of_the_published_ones_whatever_launches_each_has() {
        use crate::evaluate::sample::{Kept, Picked};
        let alone = |sample: Sample| {
            let picked = Picked { within: 0.5, kept: Kept::Alone, whole: sample.launches.clone(), shared: [].into() };
            Sample { picked: Some(picked), ..sample }
        };
        let gross = alone(Sample { numbers: vec![1, 3, 4], ..sample(vec![vec![30.0], vec![31.0], vec![39.0]]) });
        let overhead = alone(Sample { numbers: vec![1, 2, 4], ..sample(vec![vec![10.0], vec![12.0], vec![11.0]]) });
        let net = Estimate::net(&gross, &overhead).unwrap();
        let published = |sample: &Sample| Estimate::undisturbed(sample).unwrap().value;
        assert!((net.value - (published(&gross) - published(&overhead))).abs() < 1e-12, "{net:?}");
        // 20 and 28 in the launches that have both.
        assert!(net.launches == 2 && net.interval[0] <= 20.0 && net.interval[1] >= 28.0, "{net:?}");
    }

    /// Launches of eight draws without a neighbour: `upper` of ten run on the upper of two levels, within half a percent.
    fn draws(launches: usize, upper: u32, seed: u64) -> Sample {
        use crate::evaluate::sample::{Kept, Picked};
        let mut random = fastrand::Rng::with_seed(seed);
        let mut draw = || if random.u32(0..10) < upper { 724.0 } else { 586.0 } * (1.0 + 0.005 * (random.f64() - 0.5));
        let sample = sample((0..launches).map(|_| (0..8).map(|_| draw()).collect()).collect());
        let picked = Picked { within: 0.25, kept: Kept::Alone, whole: sample.launches.clone(), shared: [].into() };
        Sample { picked: Some(picked), ..sample }.by_median()
    }

    #[test]
    fn draws_give_the_level_of_most_with_both_as_modes() {
        let seeds = 0..200;
        let estimates: Vec<Estimate> = seeds.map(|seed| Estimate::of_draws(&draws(8, 7, seed)).unwrap()).collect();
        // The draws of a level lie within a quarter of a percent.
        let on_level = |value: f64| (value / 724.0 - 1.0).abs() < 0.003;
        let near = estimates.iter().filter(|found| on_level(found.value) && on_level(found.interval[1])).count();
        assert!(near >= 198, "{near} of 200");
        // The rarer level has fewer than 15 % of the draws now and then.
        let modes: Vec<TwoModes> = estimates.iter().filter_map(|found| found.modes).collect();
        assert!(modes.len() >= 180, "{} of 200", modes.len());
        for found in modes {
            assert!((found.lower / 586.0 - 1.0).abs() < 0.003 && on_level(found.upper), "{found:?}");
            assert!((0.5..=0.85).contains(&found.upper_share) && found.of == ModesOf::Batches, "{found:?}");
        }
        assert_eq!(estimates[0].restless, 0);
    }

    #[test]
    fn balanced_draws_have_an_interval_over_both_levels() {
        let wide = (0..50).filter(|&seed| {
            let [low, high] = Estimate::of_draws(&draws(8, 5, seed)).unwrap().interval;
            low < 600.0 && high > 700.0
        });
        assert!(wide.count() >= 40);
    }

    #[test]
    fn draws_of_few_launches_have_the_interval_of_the_launches() {
        let few = draws(4, 7, 3);
        let [found, launches] = [Estimate::of_draws(&few).unwrap(), Estimate::undisturbed(&few).unwrap()];
        assert_eq!((found.value, found.interval, found.level), (launches.value, launches.interval, launches.level));
        assert!(found.level < 0.9);
    }

    #[test]
    fn one_launch_has_the_range_of_its_batches_without_confidence() {
        let batches: Vec<f64> = (0..=10).map(f64::from).collect();
        let found = |launches: usize| {
            Estimate::undisturbed(&sample(vec![batches.clone(); launches])).unwrap().with_what_few_launches_show()
        };
        let one = found(1);
        assert!(one.level.abs() < 1e-12 && (one.value - 2.5).abs() < 1e-12, "{one:?}");
        let near = |[low, high]: [f64; 2], ends: [f64; 2]| (low - ends[0]).abs() + (high - ends[1]).abs() < 1e-9;
        assert!(near(one.interval, [1.0, 9.0]), "from p10 to p90: {:?}", one.interval);
        assert!(near(found(FEWEST_LAUNCHES).interval, [2.5; 2]), "enough launches speak for themselves");
    }

    #[test]
    fn what_is_left_after_a_subtraction_has_its_own_typical_cost() {
        let gross = Estimate::undisturbed(&sample(vec![vec![49.0, 50.0, 50.0, 51.0]; 6])).unwrap();
        let net = gross.less(30.0, [29.0, 31.0], "the rest");
        let typical = gross.typical.unwrap();
        assert!((net.typical.unwrap() - (typical - 30.0)).abs() < 1e-12, "{:?} of {typical}", net.typical);
    }
}
