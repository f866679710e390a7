//! Samples of a figure over launches: cost per operation of clean batches, and the account of all others.

use std::collections::BTreeMap;

use crate::results::quantity::{Labels, Unit};
use crate::results::series::{Class, Series};
use crate::statistics::summary::{median, quantile};

use super::study::Study;

/// Share of the batches that may be shorter than a batch must be (G4): what has two paces meets the fast one now and then.
const BRIEF: f64 = 0.05;

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
}

impl Sample {
    /// Several samples of one figure as one: what a launch has of each stands together. None without any, or when their units
    /// differ.
    pub fn joined<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Option<Sample> {
        let mut samples = samples.into_iter();
        let first = samples.next()?;
        let mut account = first.account;
        let mut by_launch: BTreeMap<u32, Vec<f64>> =
            first.numbers.iter().copied().zip(first.launches.iter().cloned()).collect();
        for sample in samples {
            if sample.unit != first.unit {
                return None;
            }
            account = account.and(&sample.account);
            for (number, launch) in sample.numbers.iter().zip(&sample.launches) {
                by_launch.entry(*number).or_default().extend(launch);
            }
        }
        let (numbers, launches) = by_launch.into_iter().unzip();
        Some(Sample { unit: first.unit, launches, numbers, account })
    }

    /// The launches that another sample has as well: differences are taken within a launch.
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
        }
    }

    /// Costs as rates: `numerator` over each of them, in another unit.
    #[must_use]
    pub fn as_rates(&self, numerator: f64, unit: Unit) -> Sample {
        let rates = |launch: &Vec<f64>| launch.iter().map(|cost| numerator / cost).collect();
        Sample { unit, launches: self.launches.iter().map(rates).collect(), ..self.clone() }
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

/// The sample of one series over launches.
fn sample_of_series(series: Vec<(u32, &Series)>, unit: Unit, convert: impl Fn(f64, f64) -> f64) -> Option<Sample> {
    let mut account = Account::default();
    for (_, series) in &series {
        account.add(series);
    }
    let operations: Vec<f64> = series.iter().map(|(_, series)| series.operations as f64).collect();
    account.operations = median(&operations)? as u64;
    account.brief = quantile(&clean_ticks(&series), BRIEF).unwrap_or(0.0);
    let clean = |series: &Series| -> Vec<f64> {
        (0..series.values.len())
            .filter(|&index| series.class(index) == Class::Clean)
            .map(|index| {
                let clock = series.clock.get(index).copied().unwrap_or(f64::NAN);
                convert(series.values[index] / series.operations as f64, clock)
            })
            .collect()
    };
    let (numbers, launches): (Vec<u32>, Vec<Vec<f64>>) = series
        .into_iter()
        .map(|(number, series)| (number, clean(series)))
        .filter(|(_, values)| !values.is_empty())
        .unzip();
    (!launches.is_empty()).then_some(Sample { unit, launches, numbers, account })
}

impl Study<'_> {
    /// The cost per operation of a series of batches, in core cycles where its batches have their clock probes, else in
    /// nanoseconds; none when no launch has a clean batch of it.
    pub fn sample(&self, name: &str, labels: &Labels) -> Option<Sample> {
        self.cycles_or_time(self.numbered_series(name, labels), true)
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
        sample_of_series(self.numbered_series(name, labels), unit, convert)
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
    /// beside others with them had its self-check disturbed, and cannot be told in cycles: it stands aside.
    fn cycles_or_time(&self, series: Vec<(u32, &Series)>, cycles: bool) -> Option<Sample> {
        let probed =
            |(_, series): &(u32, &Series)| !series.clock.is_empty() && series.clock.len() == series.values.len();
        if cycles && series.iter().any(probed) {
            let series = series.into_iter().filter(probed).collect();
            sample_of_series(series, Unit::Cycles, |ticks, clock| ticks / clock)
        } else {
            sample_of_series(series, Unit::Nanoseconds, |ticks, _| self.nanoseconds(ticks))
        }
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
        (!launches.is_empty()).then_some(Sample { unit, launches, numbers, account })
    }
}
