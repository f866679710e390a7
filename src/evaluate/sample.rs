//! Samples of a figure over launches: cost per operation of clean batches, and the account of all others.
//!
//! Where the run looked at the width of the core next to its batches, a cost in cycles has a picked sample. It holds only the
//! batches that were alone on their core, however few. It never holds both kinds: a figure that changed its estimator from run
//! to run would jump. Without a single one it holds those with a neighbour, and its figure is called contaminated. Single shots
//! are all kept where most launches have none that was alone.

use std::collections::BTreeMap;

use crate::neighbour::batches::LoopTurn;
use crate::neighbour::{CoreState, Counts};
use crate::results::quantity::{Labels, Unit};
use crate::results::series::{Class, Series};
use crate::statistics::location::{FEWEST_LAUNCHES, launch_estimates};
use crate::statistics::summary::{median, quantile};

use super::study::Study;

/// Share of the batches that may be shorter than a batch must be (G4): what has two paces meets the fast one now and then.
const BRIEF: f64 = 0.05;

/// What stands for the undisturbed cost of a launch, where nothing looked at the width of the core.
const LOWER_QUARTILE: f64 = 0.25;

/// Nanoseconds beyond which looks at both ends of a batch say little about its middle: neighbours come and go within them.
const TOO_LONG_TO_TELL: f64 = 4e6;

/// Where every batch went.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Account {
    /// Batches taken.
    pub taken: u64,
    /// Clean ones: the sample.
    pub clean: u64,
    /// Disturbed ones: preempted, migrated, faulted, or timed although what they count did not happen.
    pub disturbed: u64,
    /// Void: the clock went backwards.
    pub backwards: u64,
    /// Void: the probes of the core clock disagree.
    pub unsteady: u64,
    /// Void: the operation failed.
    pub wrong: u64,
    /// Batches that ended on another CPU than they began.
    pub migrated: u64,
    /// Operations in a batch (median over launches).
    pub operations: u64,
    /// Ticks that all clean batches but one in twenty last at least.
    pub brief: f64,
    /// Ticks that all clean batches but one in twenty last at most. It is 0 where no own batch is known.
    pub long: f64,
    /// Clean batches by what their core was used for during them. None where that does not choose the sample.
    pub sharing: Option<Counts>,
    /// Whether too few launches have batches alone for these to stand for all.
    pub few: bool,
}

impl Account {
    /// Counts the batches of a series.
    pub fn add(&mut self, series: &Series) {
        for index in 0..series.values.len() {
            self.taken += 1;
            match series.class(index) {
                Class::Clean => self.clean += 1,
                Class::Migrated => {
                    self.disturbed += 1;
                    self.migrated += 1;
                }
                Class::Preempted | Class::Missed | Class::Faulted => self.disturbed += 1,
                Class::Backwards => self.backwards += 1,
                Class::Unsteady => self.unsteady += 1,
                Class::Wrong => self.wrong += 1,
            }
        }
    }

    /// Batches that the sample holds.
    pub fn used(&self) -> u64 {
        match self.sharing.filter(|_| !self.few) {
            None => self.clean,
            Some(Counts { alone: 0, shared, .. }) => shared,
            Some(sharing) => sharing.alone,
        }
    }

    /// Batches without any value.
    pub fn void(&self) -> u64 {
        self.backwards + self.unsteady + self.wrong
    }

    /// Both accounts together, as for a figure that is a difference of two series.
    #[must_use]
    pub fn and(&self, other: &Account) -> Account {
        Account {
            taken: self.taken + other.taken,
            clean: self.clean + other.clean,
            disturbed: self.disturbed + other.disturbed,
            backwards: self.backwards + other.backwards,
            unsteady: self.unsteady + other.unsteady,
            wrong: self.wrong + other.wrong,
            migrated: self.migrated + other.migrated,
            operations: self.operations.max(other.operations),
            brief: self.brief.min(other.brief),
            long: self.long.max(other.long),
            sharing: match (self.sharing, other.sharing) {
                (Some(one), Some(other)) => Some(one + other),
                (one, other) => one.or(other),
            },
            few: self.few || other.few,
        }
    }
}

/// Cost per operation, launch by launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Core cycles where every batch had its clock probes, else nanoseconds.
    pub unit: Unit,
    /// Clean batches of each launch; a launch without any is left out.
    pub launches: Vec<Vec<f64>>,
    /// Number of each of these launches, ascending in the order of the log.
    pub numbers: Vec<u32>,
    /// All batches.
    pub account: Account,
    /// What the batches were picked from, where only those count that were alone on their core.
    pub picked: Option<Picked>,
}

/// What a sample of batches that were alone on their core was picked from.
#[derive(Debug, Clone, PartialEq)]
pub struct Picked {
    /// Quantile of the batches of a launch that stands for it.
    pub within: f64,
    /// Which of the clean batches the sample holds.
    pub kept: Kept,
    /// Clean batches of each launch, whatever their core was used for.
    pub whole: Vec<Vec<f64>>,
    /// Clean batches with a neighbour, by the number of the launch.
    pub shared: BTreeMap<u32, Vec<f64>>,
}

/// Which clean batches a sample holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kept {
    /// Those that were alone on their core.
    Alone,
    /// Those with a neighbour on the core, because none was alone.
    Shared,
    /// All, because few launches have any that was alone.
    All,
}

/// Whether `alone` launches with shots alone on their core stand for all launches with shots. What a shot takes depends on more than a
/// neighbour, such as where the host runs the CPUs, and a few launches do not show that.
fn stand_for_all(alone: usize, all: usize) -> bool {
    alone >= FEWEST_LAUNCHES.min(all.div_ceil(2))
}

/// Batches of both by launch.
fn merged(mut one: BTreeMap<u32, Vec<f64>>, other: &BTreeMap<u32, Vec<f64>>) -> BTreeMap<u32, Vec<f64>> {
    for (number, launch) in other {
        one.entry(*number).or_default().extend(launch);
    }
    one
}

impl Picked {
    /// What the core was used for during the batches of the sample, as words behind them.
    pub fn which(&self) -> &'static str {
        match self.kept {
            Kept::Alone => "without a neighbour",
            Kept::Shared => "with a neighbour on the core",
            Kept::All => "with and without a neighbour on the core",
        }
    }

    fn and(&self, other: &Picked) -> Picked {
        Picked {
            within: self.within,
            kept: self.kept.max(other.kept),
            whole: self.whole.iter().chain(&other.whole).cloned().collect(),
            shared: merged(self.shared.clone(), &other.shared),
        }
    }
}

impl Sample {
    /// Several samples of one figure as one: what a launch has of each stands together. None without any, or when their units
    /// differ.
    pub fn joined<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Option<Sample> {
        let mut samples = samples.into_iter();
        let first = samples.next()?;
        let mut joined = first.clone();
        let mut by_launch = first.by_launch();
        for sample in samples {
            if sample.unit != first.unit {
                return None;
            }
            joined.account = joined.account.and(&sample.account);
            joined.picked = joined.picked.zip(sample.picked.as_ref()).map(|(one, other)| one.and(other));
            by_launch = merged(by_launch, &sample.by_launch());
        }
        (joined.numbers, joined.launches) = by_launch.into_iter().unzip();
        Some(joined)
    }

    fn by_launch(&self) -> BTreeMap<u32, Vec<f64>> {
        self.numbers.iter().copied().zip(self.launches.iter().cloned()).collect()
    }

    /// Quantile of the batches of a launch that stands for its undisturbed cost.
    pub fn within(&self) -> f64 {
        self.picked.as_ref().map_or(LOWER_QUARTILE, |picked| picked.within)
    }

    /// The same with the median of the batches of a launch for the launch.
    #[must_use]
    pub fn by_median(&self) -> Sample {
        let picked = self.picked.clone().map(|picked| Picked { within: 0.5, ..picked });
        Sample { picked, ..self.clone() }
    }

    /// The undisturbed cost in each launch.
    pub fn estimates(&self) -> Vec<f64> {
        launch_estimates(&self.launches, self.within())
    }

    /// Whether it was picked, and holds batches with a neighbour because too few were alone.
    pub fn is_beside_a_neighbour(&self) -> bool {
        self.picked.as_ref().is_some_and(|picked| picked.kept != Kept::Alone)
    }

    /// Whether it was picked, and holds only batches that were alone on their core.
    pub fn is_alone(&self) -> bool {
        self.picked.as_ref().is_some_and(|picked| picked.kept == Kept::Alone)
    }

    /// The batches with a neighbour as a separate sample. None where their core is not known.
    pub fn beside_a_neighbour(&self) -> Option<Sample> {
        let picked = self.picked.as_ref()?;
        let (numbers, launches) = picked.shared.clone().into_iter().unzip();
        let picked = Picked { within: picked.within, kept: Kept::Shared, whole: Vec::new(), shared: BTreeMap::new() };
        Some(Sample { launches, numbers, picked: Some(picked), ..self.clone() })
    }

    /// The launches that another sample also has: differences are taken within a launch.
    #[must_use]
    pub fn shared_with(&self, other: &Sample) -> Sample {
        let shared = |number: &u32| other.numbers.contains(number);
        Sample {
            unit: self.unit,
            launches: self
                .numbers
                .iter()
                .zip(&self.launches)
                .filter(|(number, _)| shared(number))
                .map(|(_, launch)| launch.clone())
                .collect(),
            numbers: self.numbers.iter().copied().filter(shared).collect(),
            account: self.account,
            picked: self.picked.clone(),
        }
    }

    /// Costs as rates: `numerator` over each of them, in another unit.
    #[must_use]
    pub fn as_rates(&self, numerator: f64, unit: Unit) -> Sample {
        let rates = |launch: &Vec<f64>| launch.iter().map(|cost| numerator / cost).collect();
        let all = |launches: &[Vec<f64>]| launches.iter().map(rates).collect();
        let picked = self.picked.as_ref().map(|picked| Picked {
            within: 1.0 - picked.within,
            kept: picked.kept,
            whole: all(&picked.whole),
            shared: picked.shared.iter().map(|(number, launch)| (*number, rates(launch))).collect(),
        });
        Sample { unit, launches: all(&self.launches), picked, ..self.clone() }
    }
}

/// Ticks of every clean batch.
fn clean_ticks(series: &[(u32, &Series)]) -> Vec<f64> {
    let of = |series: &'_ Series| -> Vec<f64> {
        let clean = (0..series.values.len()).filter(|&index| series.class(index) == Class::Clean);
        clean.map(|index| series.values[index]).collect()
    };
    series.iter().flat_map(|(_, series)| of(series)).collect()
}

/// How batches that were alone on their core are picked.
#[derive(Debug, Clone, Copy)]
struct Picking {
    /// The turn of the core.
    turn: LoopTurn,
    /// The quantile that stands for a launch.
    within: f64,
    /// Whether launches with such batches must be enough to stand for all.
    enough: bool,
}

/// The sample of one series over launches. With a picking, it holds only batches that were alone on their core.
fn sample_of_series(
    series: &[(u32, &Series)],
    unit: Unit,
    picking: Option<Picking>,
    convert: impl Fn(f64, f64) -> f64,
) -> Option<Sample> {
    let mut account = Account::default();
    for (_, series) in series {
        account.add(series);
    }
    let operations: Vec<f64> = series.iter().map(|(_, series)| series.operations as f64).collect();
    account.operations = median(&operations)? as u64;
    let ticks = clean_ticks(series);
    [account.brief, account.long] = [BRIEF, 1.0 - BRIEF].map(|share| quantile(&ticks, share).unwrap_or(0.0));
    let cost = |series: &Series, index: usize| {
        let clock = series.clock.get(index).copied().unwrap_or(f64::NAN);
        convert(series.values[index] / series.operations as f64, clock)
    };
    let state =
        |series: &Series, index: usize| picking.map_or(CoreState::Unknown, |by| by.turn.state_of(series, index));
    let clean = |series: &'_ Series| -> Vec<usize> {
        (0..series.values.len()).filter(|&index| series.class(index) == Class::Clean).collect()
    };
    let by_state = |wanted: Option<CoreState>| -> (Vec<u32>, Vec<Vec<f64>>) {
        let of = |series: &Series| -> Vec<f64> {
            let among = clean(series).into_iter();
            let among = among.filter(|&index| wanted.is_none_or(|wanted| state(series, index) == wanted));
            among.map(|index| cost(series, index)).collect()
        };
        series.iter().map(|(number, series)| (*number, of(series))).filter(|(_, values)| !values.is_empty()).unzip()
    };
    let Some(Picking { within, enough, .. }) = picking else {
        let (numbers, launches) = by_state(None);
        return (!launches.is_empty()).then_some(Sample { unit, launches, numbers, account, picked: None });
    };
    let states = series.iter().flat_map(|(_, series)| clean(series).into_iter().map(|index| state(series, index)));
    let (all_numbers, whole) = by_state(None);
    let (alone_numbers, alone) = by_state(Some(CoreState::Alone));
    let (shared_numbers, shared) = by_state(Some(CoreState::Shared));
    let kept = match alone.len() {
        0 => Kept::Shared,
        found if enough && !stand_for_all(found, whole.len()) => Kept::All,
        _ => Kept::Alone,
    };
    account.sharing = Some(states.collect());
    account.few = kept == Kept::All;
    let (numbers, launches) = match kept {
        Kept::Alone => (alone_numbers, alone),
        Kept::Shared => (shared_numbers.clone(), shared.clone()),
        Kept::All => (all_numbers, whole.clone()),
    };
    let shared = shared_numbers.into_iter().zip(shared).collect();
    let picked = Some(Picked { within, kept, whole, shared });
    (!launches.is_empty()).then_some(Sample { unit, launches, numbers, account, picked })
}

impl Study<'_> {
    /// The cost per operation of a series of batches, in core cycles where its batches have their clock probes, else in
    /// nanoseconds; none when no launch has a clean batch of it.
    pub fn sample(&self, name: &str, labels: &Labels) -> Option<Sample> {
        self.cycles_or_time(self.numbered_series(name, labels), true)
    }

    /// The times of single shots in nanoseconds: of those that were alone on their core, where looks next to them show it and enough
    /// launches have some.
    pub fn shots(&self, name: &str, labels: &Labels) -> Option<Sample> {
        let series = self.numbered_series(name, labels);
        let picking = self.alone(&series).map(|picking| Picking { enough: true, ..picking });
        sample_of_series(&series, Unit::Nanoseconds, picking, |ticks, _| self.nanoseconds(ticks))
    }

    /// A sample in another unit: `convert` gets the ticks per operation of a batch and the ticks per core cycle around it
    /// (not a number where the series has no probes).
    pub fn sample_of(
        &self,
        name: &str,
        labels: &Labels,
        unit: Unit,
        convert: impl Fn(f64, f64) -> f64,
    ) -> Option<Sample> {
        sample_of_series(&self.numbered_series(name, labels), unit, None, convert)
    }

    /// The cost per operation of every series of batches with a name, by its labels: in core cycles where they have
    /// their clock probes and `cycles` says so, else in nanoseconds. One pass over the log, for experiments of hundreds of series.
    pub fn samples(&self, name: &str, cycles: impl Fn(&Labels) -> bool) -> BTreeMap<&Labels, Sample> {
        let mut by_labels: BTreeMap<&Labels, Vec<(u32, &Series)>> = BTreeMap::new();
        for launch in &self.launches {
            for series in launch.series.iter().filter(|series| series.name == name) {
                by_labels.entry(&series.labels).or_default().push((launch.number, series));
            }
        }
        by_labels
            .into_iter()
            .filter_map(|(labels, series)| Some((labels, self.cycles_or_time(series, cycles(labels))?)))
            .collect()
    }

    /// In core cycles, if they are wanted and any launch has the clock probes for it, else in nanoseconds. A launch without them
    /// among others with them had its self-check disturbed, and has no cost in cycles: it is left out.
    fn cycles_or_time(&self, series: Vec<(u32, &Series)>, cycles: bool) -> Option<Sample> {
        let probed =
            |(_, series): &(u32, &Series)| !series.clock.is_empty() && series.clock.len() == series.values.len();
        if cycles && series.iter().any(probed) {
            let series: Vec<(u32, &Series)> = series.into_iter().filter(probed).collect();
            sample_of_series(&series, Unit::Cycles, self.alone(&series), |ticks, clock| ticks / clock)
        } else {
            sample_of_series(&series, Unit::Nanoseconds, None, |ticks, _| self.nanoseconds(ticks))
        }
    }

    /// The clean batches of a series, where none was alone on its core and none had a neighbour all along.
    pub fn only_mixed(&self, name: &str, labels: &Labels) -> Option<Counts> {
        let series = self.numbered_series(name, labels);
        let Picking { turn, .. } = self.alone(&series)?;
        let clean = |series: &&Series, index: usize| series.class(index) == Class::Clean;
        let states = series.iter().filter(|(_, series)| !series.clock.is_empty()).flat_map(|(_, series)| {
            let looked = (0..series.widths.len()).filter(move |index| clean(series, *index));
            looked.map(move |index| turn.state_of(series, index))
        });
        let found: Counts = states.collect();
        (found.decided() == 0 && found.known() > 0).then_some(found)
    }

    /// The turn of the core and the quantile within a launch, where looks next to the batches show which were alone on it: they
    /// were taken, and the batches are short enough.
    fn alone(&self, series: &[(u32, &Series)]) -> Option<Picking> {
        let looked = series.iter().any(|(_, series)| !series.widths.is_empty());
        let short = median(&clean_ticks(series)).is_some_and(|ticks| self.nanoseconds(ticks) < TOO_LONG_TO_TELL);
        self.turn.filter(|_| looked && short).map(|turn| Picking { turn, within: self.within, enough: false })
    }

    /// The sample of plain values: one launch, one vector; the account counts them all as clean.
    pub fn plain_sample(&self, name: &str, labels: &Labels) -> Option<Sample> {
        let series = self.numbered_series(name, labels);
        let unit = series.first()?.1.unit;
        let (numbers, launches): (Vec<u32>, Vec<Vec<f64>>) = series
            .into_iter()
            .filter(|(_, series)| !series.values.is_empty())
            .map(|(number, series)| (number, series.values.clone()))
            .unzip();
        let taken = launches.iter().map(Vec::len).sum::<usize>() as u64;
        let account = Account { taken, clean: taken, operations: 1, ..Account::default() };
        (!launches.is_empty()).then_some(Sample { unit, launches, numbers, account, picked: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Launches of four shots with a neighbour, of which `with_some_alone` have two more without one.
    fn shots(launches: u32, with_some_alone: u32) -> Sample {
        let (alone, shared) = ([1.01; 2], [1.9; 2]);
        let of = |number: u32| {
            let some = if number <= with_some_alone { 2 } else { 0 };
            let widths = [vec![alone; some], vec![shared; 4]].concat();
            let mut series = Series::plain("exchange", Labels::none(), Unit::Ticks, vec![39.0; some]);
            series.values.resize(widths.len(), 58.0);
            (series.operations, series.widths) = (1, widths);
            series
        };
        let all: Vec<Series> = (1..=launches).map(of).collect();
        let numbered: Vec<(u32, &Series)> = (1..).zip(&all).collect();
        let turn = LoopTurn::of(all.iter()).expect("looks");
        let picking = Picking { turn, within: 0.5, enough: true };
        sample_of_series(&numbered, Unit::Nanoseconds, Some(picking), |ticks, _| ticks).expect("clean shots")
    }

    #[test]
    fn a_few_launches_with_shots_alone_do_not_stand_for_all() {
        for (launches, with_some_alone, kept) in [
            (14, 0, Kept::Shared),
            (14, 1, Kept::All),
            (14, 4, Kept::All),
            (14, 5, Kept::Alone),
            (4, 1, Kept::All),
            (4, 2, Kept::Alone),
            (1, 1, Kept::Alone),
        ] {
            let sample = shots(launches, with_some_alone);
            let found = sample.picked.as_ref().expect("looks").kept;
            assert_eq!(found, kept, "{with_some_alone} of {launches}");
            let held = if kept == Kept::Alone { with_some_alone } else { launches };
            assert_eq!(sample.launches.len(), held as usize, "{with_some_alone} of {launches}");
            assert_eq!(sample.is_beside_a_neighbour(), kept != Kept::Alone);
        }
        assert_eq!(shots(14, 1).account.used(), 14 * 4 + 2, "all clean shots");
    }
}
