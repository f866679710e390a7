//! Changed, equivalent or inconclusive: the comparison of one result between two sides of runs.
//!
//! Everything is done on logarithms, where a difference is a ratio. A p value alone never decides: a change must be proven and
//! large enough to matter, and "no change found" differs from "no change".

use super::distribution::{normal_quantile, student_factor, student_two_sided};
use super::interval::Interval;
use super::location::FEWEST_LAUNCHES;

/// Adjusted p value up to which a change counts as proven.
const PROVEN: f64 = 0.05;
/// Confidence of the interval that decides.
const LEVEL: f64 = 0.95;
/// Rounds from which a result of two conditions is judged.
pub const LEAST_ROUNDS: usize = 4;
/// Probability with which the change that matters is to be found.
const POWER: f64 = 0.8;
/// As many runs are behind what is assumed of the scatter between runs. More runs of one side than that outweigh it.
const PRIOR_RUNS: f64 = 8.0;

/// A result of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observed {
    /// The value, above 0.
    pub value: f64,
    /// Relative standard error within the run.
    pub within: f64,
    /// Launches behind it.
    pub launches: u32,
    /// Relative standard deviation between runs, as far as it is known beforehand.
    pub between: f64,
}

/// The results of one side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Side {
    /// Mean of the logarithms.
    pub centre: f64,
    /// Variance of that mean.
    pub variance: f64,
    /// Degrees of freedom of that variance.
    pub degrees: f64,
    /// Runs.
    pub runs: u32,
    /// Launches of all runs.
    pub launches: u32,
    /// The part of the variance that more launches of the same runs would make smaller.
    pub of_launches: f64,
}

impl Side {
    /// The runs of one side; none without a run, or where a value is not positive.
    ///
    /// The variance of one run is what its launches show and what is known of the scatter between runs. From two runs on, their
    /// own scatter counts too, with a weight that grows with their number.
    pub fn of(runs: &[Observed]) -> Option<Self> {
        let proper = |run: &Observed| {
            run.value > 0.0
                && [run.value, run.within, run.between].iter().all(|number| number.is_finite() && *number >= 0.0)
        };
        if runs.is_empty() || !runs.iter().all(proper) {
            return None;
        }
        let count = runs.len() as f64;
        let logarithms: Vec<f64> = runs.iter().map(|run| run.value.ln()).collect();
        let centre = logarithms.iter().sum::<f64>() / count;
        let mean = |part: fn(&Observed) -> f64| runs.iter().map(part).sum::<f64>() / count;
        let (within, between) = (mean(|run| run.within.powi(2)), mean(|run| run.between.powi(2)));
        let squares: f64 = logarithms.iter().map(|value| (value - centre).powi(2)).sum();
        let own = count - 1.0;
        let single = (PRIOR_RUNS * (within + between) + squares) / (PRIOR_RUNS + own);
        let launches: u32 = runs.iter().map(|run| run.launches).sum();
        Some(Side {
            centre,
            variance: single / count,
            degrees: PRIOR_RUNS + own,
            runs: runs.len() as u32,
            launches,
            of_launches: within / count,
        })
    }

    /// The value in the unit of the runs, with its interval.
    pub fn value(&self) -> Option<(f64, Interval)> {
        let reach = student_factor(LEVEL, self.degrees)? * self.variance.sqrt();
        let interval = Interval::new((self.centre - reach).exp(), (self.centre + reach).exp(), LEVEL)?;
        Some((self.centre.exp(), interval))
    }
}

/// What a comparison says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    /// The interval excludes zero, the shift reaches the threshold, and the adjusted p value is at most 0.05.
    Changed,
    /// The whole interval lies within the threshold: two one-sided tests (Schuirmann, Journal of Pharmacokinetics and
    /// Biopharmaceutics 15, 1987).
    Equivalent,
    /// Neither: the data do not decide.
    Inconclusive,
}

/// The ratio of two sides on the log scale: a shift of 0.01 is a ratio of 1.01.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// `ln(new / base)`.
    pub shift: f64,
    /// Its 95 % interval.
    pub interval: Interval,
    /// Two-sided p value, not adjusted for the number of results.
    pub p: f64,
    /// Its standard error.
    pub error: f64,
}

impl Shift {
    /// The new side against the base (Welch 1947, with the degrees of freedom of Satterthwaite).
    pub fn between(base: &Side, new: &Side) -> Option<Self> {
        let shift = new.centre - base.centre;
        let variance = base.variance + new.variance;
        let error = variance.sqrt();
        if error == 0.0 {
            let p = if shift == 0.0 { 1.0 } else { 0.0 };
            return Some(Shift { shift, interval: Interval::new(shift, shift, LEVEL)?, p, error });
        }
        let parts = base.variance.powi(2) / base.degrees + new.variance.powi(2) / new.degrees;
        let degrees = variance.powi(2) / parts;
        let reach = student_factor(LEVEL, degrees)? * error;
        let interval = Interval::new(shift - reach, shift + reach, LEVEL)?;
        Some(Shift { shift, interval, p: student_two_sided(shift / error, degrees)?, error })
    }

    /// Differences of pairs, at least two: their mean against their own scatter (Student 1908), or against what their intervals say of
    /// its error where that is more. A few differences can agree by chance.
    fn of_pairs(differences: &[f64], least_error: f64) -> Option<Self> {
        let count = differences.len() as f64;
        let shift = differences.iter().sum::<f64>() / count;
        let squares: f64 = differences.iter().map(|difference| (difference - shift).powi(2)).sum();
        let error = (squares / (count - 1.0) / count).sqrt().max(least_error);
        if !error.is_finite() {
            return None;
        }
        if error == 0.0 {
            let p = if shift == 0.0 { 1.0 } else { 0.0 };
            return Some(Shift { shift, interval: Interval::new(shift, shift, LEVEL)?, p, error });
        }
        let reach = student_factor(LEVEL, count - 1.0)? * error;
        let interval = Interval::new(shift - reach, shift + reach, LEVEL)?;
        Some(Shift { shift, interval, p: student_two_sided(shift / error, count - 1.0)?, error })
    }

    /// The verdict. `adjusted_p` is the p value after [`benjamini_hochberg`](super::significance::benjamini_hochberg) over all
    /// results; `threshold` is the relative change that matters (0.01 for one per cent).
    pub fn verdict(&self, adjusted_p: f64, threshold: f64) -> Conclusion {
        let limit = threshold.ln_1p();
        if !self.interval.contains(0.0) && adjusted_p <= PROVEN && self.shift.abs() >= limit {
            Conclusion::Changed
        } else if self.interval.strictly_inside(-limit, limit) {
            Conclusion::Equivalent
        } else {
            Conclusion::Inconclusive
        }
    }
}

/// What would decide a comparison that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    /// This many launches of each side, in the same number of runs.
    Launches(u64),
    /// This many runs of each side.
    Runs(u64),
}

/// Two conditions measured in rounds, one run of each in a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Paired {
    /// The base, with the scatter of its runs over the rounds.
    pub base: Side,
    /// The new condition, likewise.
    pub new: Side,
    /// The mean difference within rounds.
    pub shift: Shift,
}

impl Paired {
    /// The runs of each round; none for fewer than two rounds, or where a value is not positive.
    pub fn of(rounds: &[(Observed, Observed)]) -> Option<Self> {
        let side = |of: fn(&(Observed, Observed)) -> Observed| -> Option<Side> {
            let runs: Vec<Observed> = rounds.iter().map(of).collect();
            let logarithms: Vec<f64> = runs.iter().map(|run| run.value.ln()).collect();
            let scatter = Shift::of_pairs(&logarithms, 0.0)?;
            Some(Side {
                centre: scatter.shift,
                variance: scatter.error.powi(2),
                degrees: runs.len() as f64 - 1.0,
                runs: runs.len() as u32,
                launches: runs.iter().map(|run| run.launches).sum(),
                of_launches: 0.0,
            })
        };
        let differences: Vec<f64> = rounds.iter().map(|(base, new)| (new.value / base.value).ln()).collect();
        let squares: f64 = rounds.iter().map(|(base, new)| base.within.powi(2) + new.within.powi(2)).sum();
        let least_error = squares.sqrt() / rounds.len() as f64;
        (rounds.len() > 1)
            .then(|| {
                Some(Paired {
                    base: side(|round| round.0)?,
                    new: side(|round| round.1)?,
                    shift: Shift::of_pairs(&differences, least_error)?,
                })
            })
            .flatten()
    }

    /// Rounds that find a change of the threshold four times in five.
    pub fn needed(&self, threshold: f64) -> Option<Needed> {
        let wanted = threshold.ln_1p() / found_at()?;
        let of_one = self.shift.error.powi(2) * f64::from(self.base.runs);
        (wanted > 0.0).then(|| Needed::Runs((of_one / wanted.powi(2)).ceil() as u64))
    }
}

/// A change is found four times in five where it has this many standard errors.
fn found_at() -> Option<f64> {
    Some(normal_quantile(f64::midpoint(1.0, LEVEL))? + normal_quantile(POWER)?)
}

/// What finds a change of the threshold four times in five; none where the threshold is 0. Launches are never fewer than a verdict takes.
pub fn needed(base: &Side, new: &Side, threshold: f64) -> Option<Needed> {
    let wanted = (threshold.ln_1p() / found_at()?).powi(2);
    if wanted <= 0.0 {
        return None;
    }
    let of_launches = base.of_launches + new.of_launches;
    let rest = (base.variance + new.variance - of_launches).max(0.0);
    let launches = base.launches.min(new.launches).max(1);
    let least = launches.max(FEWEST_LAUNCHES as u32);
    // More than ten times as many launches is no advice.
    let times = of_launches / (wanted - rest);
    if rest < wanted && times <= 10.0 {
        return Some(Needed::Launches((f64::from(launches) * times).ceil().max(f64::from(least)) as u64));
    }
    let of_one = base.variance * f64::from(base.runs) + new.variance * f64::from(new.runs);
    Some(Needed::Runs((of_one / wanted).ceil() as u64))
}

#[cfg(test)]
mod tests {
    use super::super::significance::benjamini_hochberg;
    use super::super::summary::median;
    use super::super::synthetic::{assert_close, measured_run, normal_draw};
    use super::*;

    const BETWEEN: f64 = 0.01;

    fn side(random: &mut fastrand::Rng, runs: usize, factor: f64) -> Side {
        Side::of(&(0..runs).map(|_| measured_run(random, factor, BETWEEN)).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_machine_against_itself_raises_few_false_alarms() {
        let mut random = fastrand::Rng::with_seed(34);
        for runs in [1, 3, 6] {
            let found: Vec<Shift> = (0..1000)
                .map(|_| Shift::between(&side(&mut random, runs, 1.0), &side(&mut random, runs, 1.0)).unwrap())
                .collect();
            let alarms = found.iter().filter(|shift| shift.p <= 0.05).count();
            assert!((20..=80).contains(&alarms), "{runs} runs: {alarms} false alarms in 1000");
            // After the adjustment over tables of a hundred results, hardly any are left.
            let changed: usize = found
                .chunks(100)
                .map(|table| {
                    let adjusted = benjamini_hochberg(&table.iter().map(|shift| shift.p).collect::<Vec<_>>()).unwrap();
                    let verdicts = table.iter().zip(adjusted).map(|(shift, p)| shift.verdict(p, 0.01));
                    verdicts.filter(|verdict| *verdict == Conclusion::Changed).count()
                })
                .sum();
            assert!(changed <= 5, "{runs} runs: {changed}");
        }
    }

    #[test]
    fn changes_are_found_as_often_as_promised_and_with_the_right_sign() {
        let mut random = fastrand::Rng::with_seed(35);
        for runs in [1, 3, 6] {
            // The effect that the error of such sides promises to find four times in five.
            let errors: Vec<f64> = (0..200)
                .map(|_| Shift::between(&side(&mut random, runs, 1.0), &side(&mut random, runs, 1.0)).unwrap().error)
                .collect();
            let effect = median(&errors).unwrap() * (1.96 + 0.8416);
            let (mut found, mut wrong) = (0, 0);
            for _ in 0..400 {
                let base = side(&mut random, runs, 1.0);
                let once = Shift::between(&base, &side(&mut random, runs, effect.exp())).unwrap();
                found += u32::from(once.p <= 0.05);
                let thrice = Shift::between(&base, &side(&mut random, runs, (3.0 * effect).exp())).unwrap();
                wrong += u32::from(thrice.verdict(thrice.p, 0.001) != Conclusion::Changed || thrice.shift <= 0.0);
            }
            assert!((280..=370).contains(&found), "{runs} runs: {found} of 400");
            assert_eq!(wrong, 0, "{runs} runs");
        }
    }

    /// Rounds of two conditions: a drift that both runs of a round share, and what each run has alone.
    fn rounds(random: &mut fastrand::Rng, count: usize, factor: f64) -> Vec<(Observed, Observed)> {
        let mut drift = 0.0;
        (0..count)
            .map(|_| {
                drift += 0.02 * normal_draw(random);
                let shared = f64::exp(drift);
                (measured_run(random, shared, BETWEEN), measured_run(random, shared * factor, BETWEEN))
            })
            .collect()
    }

    #[test]
    fn rounds_raise_few_false_alarms_and_find_what_they_promise() {
        let mut random = fastrand::Rng::with_seed(36);
        for count in [4, 8, 20] {
            let found = |random: &mut fastrand::Rng, factor: f64| Paired::of(&rounds(random, count, factor)).unwrap();
            let alarms = (0..1000).filter(|_| found(&mut random, 1.0).shift.p <= 0.05).count();
            // Fewer than one in twenty: no error is below what the intervals of the runs say.
            assert!((5..=80).contains(&alarms), "{count} rounds: {alarms} false alarms in 1000");
            // The scatter of a run alone, and the number of rounds that it asks for.
            let change = 0.03;
            let runs: Vec<f64> = (0..100)
                .filter_map(|_| match found(&mut random, 1.0).needed(change)? {
                    Needed::Runs(runs) => Some(runs as f64),
                    Needed::Launches(_) => None,
                })
                .collect();
            let needed = median(&runs).unwrap().max(4.0) as usize;
            let caught = (0..400).filter(|_| {
                let paired = Paired::of(&rounds(&mut random, needed, 1.0 + change)).unwrap();
                paired.shift.p <= 0.05 && paired.shift.shift > 0.0
            });
            let caught = caught.count();
            assert!((200..=385).contains(&caught), "{needed} rounds: {caught} of 400");
        }
    }

    #[test]
    fn a_drift_that_rounds_share_is_in_no_difference() {
        let pairs: Vec<(Observed, Observed)> = (0..6)
            .map(|round| {
                let drift = 1.2_f64.powi(round);
                (observed(100.0 * drift, 1e-6, 0.0), observed(105.0 * drift, 1e-6, 0.0))
            })
            .collect();
        let paired = Paired::of(&pairs).unwrap();
        assert_close(paired.shift.shift.exp_m1(), 0.05, 1e-9);
        assert!(paired.shift.p < 1e-9, "{}", paired.shift.p);
        // Each side alone scatters with the drift.
        assert!(paired.base.variance > 0.01, "{}", paired.base.variance);
        assert_eq!(Paired::of(&pairs[..1]), None);
        assert_eq!(Paired::of(&[(observed(0.0, 0.1, 0.0), observed(1.0, 0.1, 0.0)); 4]), None);
    }

    fn observed(value: f64, within: f64, between: f64) -> Observed {
        Observed { value, within, launches: 20, between }
    }

    #[test]
    fn differences_that_agree_by_chance_are_no_surer_than_their_runs() {
        let pairs = |within: f64| {
            [0.29, 0.33, 0.30, 0.32]
                .map(|change: f64| (observed(230.0, within, 0.0), observed(230.0 * change.exp(), within, 0.0)))
        };
        assert!(Paired::of(&pairs(0.001)).unwrap().shift.p < 1e-3);
        let unsure = Paired::of(&pairs(0.2)).unwrap().shift;
        assert!(unsure.p > 0.05 && unsure.interval.contains(0.0), "{unsure:?}");
    }

    #[test]
    fn the_three_verdicts() {
        let of = |value: f64, within: f64| Side::of(&[observed(value, within, 0.001)]).unwrap();
        let changed = Shift::between(&of(100.0, 0.002), &of(105.0, 0.002)).unwrap();
        assert_eq!(changed.verdict(changed.p, 0.01), Conclusion::Changed);
        assert_eq!(changed.verdict(changed.p, 0.2), Conclusion::Equivalent);
        assert_eq!(changed.verdict(0.2, 0.01), Conclusion::Inconclusive);
        assert_close(changed.shift.exp_m1(), 0.05, 1e-9);
        let noisy = Shift::between(&of(100.0, 0.05), &of(101.0, 0.05)).unwrap();
        assert_eq!(noisy.verdict(noisy.p, 0.01), Conclusion::Inconclusive);
        assert_eq!(Shift::between(&of(5.0, 0.0), &of(5.0, 0.0)).unwrap().verdict(1.0, 0.01), Conclusion::Equivalent);
    }

    #[test]
    fn the_scatter_of_many_runs_outweighs_what_was_assumed() {
        let spread: Vec<Observed> =
            (0..40).map(|index| observed(100.0 * 1.1_f64.powi(index % 2), 0.001, 0.001)).collect();
        let side = Side::of(&spread).unwrap();
        assert!(side.variance * 40.0 > 0.0015, "{}", side.variance * 40.0);
        let steady = Side::of(&[observed(100.0, 0.001, 0.05); 40]).unwrap();
        assert!(steady.variance * 40.0 < 0.0006, "{}", steady.variance * 40.0);
    }

    #[test]
    fn what_would_decide() {
        let of = |within: f64, between: f64| Side::of(&[observed(100.0, within, between)]).unwrap();
        let Some(Needed::Launches(launches)) = needed(&of(0.01, 0.0), &of(0.01, 0.0), 0.02) else { panic!("launches") };
        assert!((30..=100).contains(&launches), "{launches}");
        let Some(Needed::Runs(runs)) = needed(&of(0.001, 0.05), &of(0.001, 0.05), 0.03) else { panic!("runs") };
        assert!((30..=60).contains(&runs), "{runs}");
        assert_eq!(needed(&of(0.01, 0.0), &of(0.01, 0.0), 0.0), None);
    }

    #[test]
    fn what_has_no_answer_is_none() {
        assert_eq!(Side::of(&[]), None);
        assert_eq!(Side::of(&[observed(0.0, 0.1, 0.1)]), None);
        assert_eq!(Side::of(&[observed(f64::NAN, 0.1, 0.1)]), None);
        assert_eq!(Side::of(&[observed(1.0, f64::INFINITY, 0.1)]), None);
    }
}
