//! One number of another program with everything that a mistake can be recognised by: our result for it, further results of the run, and
//! the other numbers of its file.

use super::number::{Number, Source};
use crate::results::compact::Compact;
use crate::results::document::Grade;
use crate::results::quantity::{Labels, Unit};

/// No core has a shorter cycle, in nanoseconds: the fastest ones reach 6.2 GHz.
pub const SHORTEST_CYCLE: f64 = 0.16;
/// Two numbers that should be equal differ by rounding alone.
const ROUNDING: f64 = 0.003;
/// Pairs that must have one ratio, or it is chance.
const LEAST_PAIRS: usize = 3;
/// Two numbers for one thing with a larger ratio are repetitions.
const REPEATED: f64 = 0.9;

/// Numbers that are further from the library's fork have more in them than the library.
const NEAR_THE_LIBRARY: f64 = 2.5;

/// A result of the run.
#[derive(Debug, Clone)]
pub struct RunResult {
    pub metric: String,
    pub labels: Labels,
    pub unit: Unit,
    pub value: f64,
    pub interval: [f64; 2],
    pub grade: Grade,
    headline: bool,
}

/// The results of a run, those of the summary first.
pub struct Run {
    results: Vec<RunResult>,
}

impl Run {
    pub fn of(run: &Compact) -> Self {
        let metrics = run.experiments.iter().flat_map(|experiment| &experiment.metrics);
        let mut results: Vec<RunResult> = metrics
            .flat_map(|metric| metric.figures.iter().map(move |figure| (metric, figure)))
            .filter_map(|(metric, figure)| {
                Some(RunResult {
                    metric: metric.name.clone(),
                    labels: Labels::parse(&figure.labels)?,
                    unit: metric.unit,
                    value: figure.value,
                    interval: figure.interval,
                    grade: figure.grade,
                    headline: figure.headline,
                })
            })
            .filter(|found| found.value > 0.0)
            .collect();
        results.sort_by_key(|found| !found.headline);
        Run { results }
    }

    /// The results of a metric.
    pub fn all<'a>(&'a self, metric: &'a str) -> impl Iterator<Item = &'a RunResult> {
        self.results.iter().filter(move |found| found.metric == metric)
    }

    /// The value of the first result with a metric and labels, given as text.
    pub fn value(&self, metric: &str, labels: &str) -> Option<f64> {
        let labels = Labels::parse(labels)?;
        self.all(metric).find(|found| found.labels.includes(&labels)).map(|found| found.value)
    }
}

/// A number to judge.
pub struct Case<'a> {
    pub number: &'a Number,
    pub source: &'a Source,
    pub run: &'a Run,
    /// Our result for the same thing.
    pub ours: Option<&'a RunResult>,
    /// Whether the run is of another machine.
    pub other_machine: bool,
    agree_within: f64,
    /// The ratio of several pairs of numbers of the file that should be equal.
    pub conversion: Option<f64>,
    /// Core cycles of the run for each nanosecond.
    core: Option<f64>,
    /// Ticks of the run's counter for each nanosecond.
    counter: Option<f64>,
}

impl<'a> Case<'a> {
    pub fn new(
        number: &'a Number,
        source: &'a Source,
        run: &'a Run,
        other_machine: bool,
        agree_within: f64,
        conversion: Option<f64>,
    ) -> Self {
        let each_nanosecond = |metric| run.value(metric, "").map(|hertz| hertz / 1e9);
        let mut case = Case {
            number,
            source,
            run,
            ours: None,
            other_machine,
            agree_within,
            conversion,
            core: each_nanosecond("cpu.frequency.core"),
            counter: each_nanosecond("cpu.frequency.tsc"),
        };
        case.ours = case.found(&number.labels).filter(|ours| case.is_comparable(ours));
        case.ours = case.by_the_library().or(case.ours);
        case
    }

    /// The result with these labels.
    fn found(&self, labels: &Labels) -> Option<&'a RunResult> {
        let metric = self.number.metric.as_deref().filter(|_| !self.number.per_byte)?;
        self.run.results.iter().find(|found| found.metric == metric && found.labels.includes(labels))
    }

    /// Whether the run has what converts its result into the unit of the number.
    fn is_comparable(&self, ours: &RunResult) -> bool {
        let is_counted = match self.number.unit {
            Unit::Cycles => self.core.is_some(),
            Unit::Ticks => self.counter.is_some(),
            _ => false,
        };
        ours.unit == self.number.unit || ours.unit == Unit::Nanoseconds && is_counted
    }

    /// The result of the same operation by the C library, where the number is nearer to it. A program in C has no other way.
    fn by_the_library(&self) -> Option<&'a RunResult> {
        let ours = self.ours.filter(|ours| ours.labels.get("how") == Some("fork_wait"))?;
        let library = self.found(&ours.labels.without_conditions().with("how", "library_fork_wait"))?;
        let ratio = |found: &RunResult| self.number.value / self.scaled(ours.unit, found.value);
        let is_nearer = ratio(library).ln().abs() < ratio(ours).ln().abs();
        (is_nearer && ratio(library) < NEAR_THE_LIBRARY).then_some(library)
    }

    /// A value of the run's result in the unit of the number: cycles where it counts those.
    pub fn in_unit(&self, value: f64) -> f64 {
        self.ours.map_or(value, |ours| self.scaled(ours.unit, value))
    }

    /// A value in a unit of the run in the unit of the number.
    fn scaled(&self, unit: Unit, value: f64) -> f64 {
        match (unit, self.number.unit) {
            (Unit::Nanoseconds, Unit::Cycles) => value * self.core.unwrap_or(1.0),
            (Unit::Nanoseconds, Unit::Ticks) => value * self.counter.unwrap_or(1.0),
            _ => value,
        }
    }

    /// The number in nanoseconds, where it is a time.
    pub fn nanoseconds(&self) -> Option<f64> {
        match self.number.unit {
            Unit::Nanoseconds => Some(self.number.value),
            Unit::Cycles => Some(self.number.value / self.core?),
            Unit::Ticks => Some(self.number.value / self.counter?),
            _ => None,
        }
    }

    /// The number divided by our result.
    pub fn ratio(&self) -> Option<f64> {
        self.ours.map(|ours| self.number.value / self.in_unit(ours.value))
    }

    /// How many times our cost the number is: a rate that is half of ours costs twice as much.
    pub fn cost(&self) -> Option<f64> {
        let ratio = self.ratio()?;
        Some(if self.number.unit == Unit::BytesPerSecond { 1.0 / ratio } else { ratio })
    }

    /// Whether number and result differ by more than correct programs do, and by more than the result is unsure of.
    pub fn is_off(&self) -> bool {
        let (Some(ours), Some(cost)) = (self.ours, self.cost()) else { return false };
        let [low, high] = ours.interval.map(|end| self.in_unit(end));
        // A disk or a network of another machine can be slower by any factor.
        let most = if self.other_machine && self.is_of_a_device() { f64::INFINITY } else { self.agree_within };
        let differs = !(1.0 / self.agree_within..=most).contains(&cost);
        differs && !(low..=high).contains(&self.number.value)
    }

    /// Whether our result is known well enough to call a number wrong: other work has no part in it, and it is resolved.
    pub fn is_settled(&self) -> bool {
        self.ours.is_some_and(|ours| matches!(ours.grade, Grade::Good | Grade::Rough))
    }

    fn is_of_a_device(&self) -> bool {
        self.number.is_of("file.")
            || self.label("kind") == Some("file_cold")
            || self.label("path").is_some_and(|path| path != "loopback")
    }

    /// A label of the number, or else of our result.
    pub fn label(&self, key: &str) -> Option<&'a str> {
        self.number.labels.get(key).or_else(|| self.ours?.labels.get(key))
    }

    /// Other results of the metric, which have the labels of our result but for one.
    pub fn with_another(&self, key: &'a str) -> impl Iterator<Item = &'a RunResult> {
        let ours = self.ours;
        let all = ours.into_iter().flat_map(|ours| self.run.all(&ours.metric));
        all.filter(move |found| {
            ours.is_some_and(|ours| {
                found.labels.get(key).is_some()
                    && found.labels.get(key) != ours.labels.get(key)
                    && found.labels.without_conditions().without(key).pairs().all(|(other, value)| {
                        let same = ours.labels.get(other);
                        same.is_none() || same == Some(value)
                    })
            })
        })
    }

    /// Whether the number is near a value in its own unit.
    pub fn is_near(&self, value: f64, part: f64) -> bool {
        is_near(self.number.value, value, part)
    }

    /// Other numbers of the file for a metric that begins so.
    pub fn others(&self, beginning: &'a str) -> impl Iterator<Item = &'a Number> {
        let number = self.number;
        self.source.numbers.iter().filter(move |other| other.is_of(beginning) && !std::ptr::eq(*other, number))
    }

    /// The core cycle of the machine of the number, in nanoseconds: by its own file, or by the run, or the shortest of any machine.
    pub fn cycle(&self) -> f64 {
        let own = self.source.numbers.iter().find(|other| other.is_of("cpu.cycle_time"));
        let of_run = self.run.value("cpu.cycle_time", "").filter(|_| !self.other_machine);
        own.filter(|own| own.unit == Unit::Nanoseconds).map(|own| own.value).or(of_run).unwrap_or(SHORTEST_CYCLE)
    }

    /// The tick of the time-stamp counter of the machine of the number, in nanoseconds.
    pub fn tick(&self) -> Option<f64> {
        let own = self.source.numbers.iter().find(|other| other.is_of("cpu.frequency.tsc")).map(|other| other.value);
        let of_run = self.run.value("cpu.frequency.tsc", "").filter(|_| !self.other_machine);
        own.or(of_run).map(|hertz| 1e9 / hertz)
    }
}

pub fn is_near(one: f64, other: f64, part: f64) -> bool {
    other > 0.0 && (one / other - 1.0).abs() <= part
}

/// The ratio that several pairs of numbers have in common, although each pair is for the same thing.
pub fn common_conversion(source: &Source) -> Option<f64> {
    let mut ratios = Vec::new();
    for (place, one) in source.numbers.iter().enumerate() {
        for other in source.numbers[place + 1..].iter().filter(|other| one.is_same_thing(other)) {
            let ratio = (one.value / other.value).min(other.value / one.value);
            if ratio > 0.0 && ratio < REPEATED {
                ratios.push((ratio, &one.name));
            }
        }
    }
    let alike = |ratio: f64| {
        let mut names: Vec<&String> =
            ratios.iter().filter(|(other, _)| is_near(*other, ratio, ROUNDING)).map(|(_, name)| *name).collect();
        names.sort();
        names.dedup();
        names.len()
    };
    let best = ratios.iter().max_by_key(|(ratio, _)| alike(*ratio));
    best.filter(|(ratio, _)| alike(*ratio) >= LEAST_PAIRS).map(|(ratio, _)| *ratio)
}
