//! What an analysis returns, and how an estimate becomes a published figure or a rejected one.

use crate::results::document::{Block, Curve, FigureModes, Grade, HostLoad, Metric, Rejected, SharedCore};
use crate::results::drawing_note::DrawingNote;
use crate::results::prediction::Prediction;
use crate::results::quantity::{Better, CoreCycles, Hertz, Labels, Unit};
use crate::results::score::Standings;
use crate::results::verdict::{AgainstPrediction, Gate, Severity, Trust, Verdict};
use crate::results::wording::{self, Shown};

use super::estimate::Estimate;
use super::figure::Figure;
use super::gate::{Number, rules};
use super::gates;
use super::others;
use super::study::Study;

rules! {
    POSITIVE: "G8" Hard "all", "finite and above zero";
}

/// Launches further apart than this show the host's load.
const LOADED: f64 = 1.1;

/// Launches from which on a tenth of them is one.
const FEWEST_FOR_A_TENTH: u32 = 10;

/// Figures whose host load is reported: those that it moves most.
const MOST_LOADED: usize = 3;

/// The head of a column, and what stands in it in the row of an item; none where that is not known.
pub type Column<'a, T> = (&'a str, &'a dyn Fn(&T) -> Option<String>);

/// A table with a row for each item; none without items.
pub fn pivot<T>(caption: &str, items: impl IntoIterator<Item = T>, columns: &[Column<'_, T>]) -> Option<Block> {
    let cell = |item: &T, of: &dyn Fn(&T) -> Option<String>| of(item).unwrap_or_else(|| "–".to_owned());
    let row = |item: T| columns.iter().map(|(_, of)| cell(&item, *of)).collect();
    let rows: Vec<Vec<String>> = items.into_iter().map(row).collect();
    let columns = columns.iter().map(|(head, _)| (*head).to_owned()).collect();
    (!rows.is_empty()).then(|| Block::Table { caption: caption.to_owned(), columns, rows })
}

/// Figures, curves and text of one experiment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// Published figures.
    pub metrics: Vec<Metric>,
    /// Figures that failed a hard gate.
    pub rejected: Vec<Rejected>,
    pub curves: Vec<Curve>,
    /// What drawings of the curves should show next to their points.
    pub figures: Vec<DrawingNote>,
    /// What it means.
    pub analysis: Vec<Block>,
}

impl Findings {
    /// Publishes a figure, or refuses it: its gates decide.
    pub fn publish(&mut self, study: &Study<'_>, figure: Figure) {
        let Some((estimate, mut gates, precision)) = figure.judged(study) else { return };
        let is_clocked = figure.is_clocked();
        let Figure { name, labels, gross, at_least, .. } = figure;
        // Cycles and the time that is shown for them are costs alike.
        let better = figure.better.unwrap_or(estimate.unit.better());
        let (shown, core) = in_time(study, &estimate);
        // The interval over few launches has a known confidence, which holds for that interval alone.
        let published = estimate.clone().with_what_few_launches_show();
        let interval = in_time(study, &published).0.interval;
        // Cycles are what repeats from run to run. Times also move with the clock of the core.
        let clock_share = if core.is_some() || is_clocked { study.clock_share } else { 0.0 };
        // What is predicted is where a pair of CPUs usually is.
        let is_usual = study.is_usual(&labels);
        let prediction = study.prediction(&name, &labels).filter(|_| is_usual).cloned();
        // An infinite value is also above zero.
        let value = if shown.value.is_finite() { shown.value } else { f64::NAN };
        gates.push(Gate::more_than(&POSITIVE, Number::of(value, shown.unit).named("{}"), 0.0));
        gates.extend(gates::emulated(study));
        gates.extend(others::gates(study, &labels, &gates, estimate.account.long));
        let mut verdict = Verdict::from_gates(gates, against(&shown, better, prediction.as_ref()));
        if verdict.trust == Trust::Impossible {
            let failed = verdict.failures().into_iter().filter(|gate| gate.severity == Severity::Hard);
            let reasons: Vec<String> = failed.map(|gate| format!("{}: {}", gate.id, gate.evidence)).collect();
            let reason = reasons.join("; ");
            self.rejected.push(Rejected::of(name, labels, reason, verdict.gates));
            return;
        }
        // A lower bound within its predicted range or below shows nothing about it.
        if at_least && prediction.as_ref().is_some_and(|found| shown.value <= found.high) {
            verdict.against_prediction = AgainstPrediction::None;
        }
        let cycles = core.map(|_| &estimate);
        let relative = precision.relative(shown.value, interval);
        let grade = match precision.grade(verdict.trust, relative, shown.launches) {
            Grade::Contaminated if verdict.is_only_disturbed() => Grade::Disturbed,
            grade => grade,
        };
        self.metrics.push(Metric {
            phrase: String::new(),
            unit: shown.unit,
            better,
            headline: is_usual,
            value: shown.value,
            at_least,
            interval95: above_nothing(precision.with(clock_share).total(shown.value, interval)),
            within_run: Some(above_nothing(shown.interval)),
            between_share: precision.between,
            clock_share,
            interval_level: shown.level,
            typical: shown.typical,
            stddev: shown.stddev,
            quantiles: shown.quantiles,
            cycles: cycles.map(|found| found.value),
            cycles_interval95: cycles.map(|found| precision.total(found.value, published.interval)),
            at_core_hz: core,
            estimator: shown.estimator.clone(),
            launches: shown.launches,
            samples: shown.account.used(),
            operations_per_batch: shown.account.operations,
            void: shown.account.void(),
            disturbed: shown.account.disturbed,
            prediction,
            own_prediction: None,
            shared: shared(&shown),
            modes: shown.modes.map(|found| FigureModes {
                lower: found.lower,
                upper: found.upper,
                upper_share: found.upper_share,
                of: found.of,
            }),
            host_load: host_load(&name, &estimate),
            gross: gross.map(|gross| core.map_or(gross, |core| CoreCycles(gross).at(Hertz(core)).0)),
            grade,
            between_runs: study.between_runs(&name, &labels),
            name,
            labels,
            verdict,
        });
    }

    /// Notes a figure that this machine cannot give, and why.
    pub fn cannot(&mut self, name: &str, labels: Labels, reason: &str) {
        let (name, reason) = (name.to_owned(), reason.to_owned());
        self.rejected.push(Rejected::of(name, labels, reason, Vec::new()));
    }

    /// The published figure with a name and labels.
    pub fn metric(&self, name: &str, labels: &Labels) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == name && metric.labels.same_figure(labels))
    }

    /// Points of curves that are published figures have the intervals of these.
    pub fn settle_curves(&mut self) {
        for curve in &mut self.curves {
            let settled = |point: [f64; 4]| match curve.metric_at(point[1], &self.metrics) {
                Some(metric) => [point[0], point[1], metric.interval95[0], metric.interval95[1]],
                None => point,
            };
            curve.points = curve.points.iter().map(|point| settled(*point)).collect();
        }
    }

    /// The remarks on the drawing of the curves of a name: caption, scales, knees, plateaus.
    pub fn figure(&mut self, curve: &str) -> &mut DrawingNote {
        let position = self.figures.iter().position(|note| note.curve == curve).unwrap_or_else(|| {
            self.figures.push(DrawingNote::of(curve));
            self.figures.len() - 1
        });
        &mut self.figures[position]
    }

    /// Adds a paragraph.
    pub fn say(&mut self, text: impl Into<String>) {
        self.analysis.push(Block::Paragraph(text.into()));
    }

    /// Adds a table of rows that are unlike each other, where there are any.
    pub fn tabulate(&mut self, caption: &str, columns: &[&str], rows: Vec<Vec<String>>) {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        if !rows.is_empty() {
            self.analysis.push(Block::Table { caption: caption.to_owned(), columns, rows });
        }
    }

    /// Says which figures have two modes: a cost between them is what no launch has.
    pub fn say_modes(&mut self) {
        let told: Vec<String> = self
            .metrics
            .iter()
            .enumerate()
            .filter(|(place, metric)| !metric.repeats_modes_of(&self.metrics[..*place]))
            .filter_map(|(_, metric)| {
                let FigureModes { lower, upper, upper_share, of } = metric.modes?;
                let [lower, upper] = [lower, upper].map(|value| Shown::of(value, metric.unit));
                Some(format!(
                    "{}: {lower}, or {upper} in {} {}.",
                    wording::capital(&metric.phrase),
                    wording::percent(upper_share),
                    of.text()
                ))
            })
            .collect();
        if !told.is_empty() {
            self.say(format!("These results have two levels. {}", told.join(" ")));
        }
    }

    /// Says how far launches lie apart where other tenants of the host use the same part, and what it gives without them.
    pub fn say_host_load(&mut self) {
        let loads = self.metrics.iter().filter_map(|metric| Some((metric, metric.host_load?)));
        let mut moved: Vec<(&Metric, HostLoad)> = loads.filter(|(_, load)| load.times() > LOADED).collect();
        moved.sort_by(|(_, one), (_, other)| other.times().total_cmp(&one.times()));
        // Two results of the same launches, such as the rate of a program and that of the bus, say the same.
        moved.dedup_by(|(_, one), (_, other)| one == other);
        let told = moved.iter().take(MOST_LOADED).map(|(metric, load)| {
            let [low, high, least] =
                [load.range[0], load.range[1], load.least_loaded].map(|value| Shown::of(value, metric.unit));
            let limit = if metric.better == Better::Higher { "at most" } else { "at least" };
            let tenth = if metric.launches >= FEWEST_FOR_A_TENTH {
                format!(", and nine of ten launches had {limit} {least}")
            } else {
                String::new()
            };
            format!("{} was between {low} and {high} over the launches{tenth}.", wording::capital(&metric.phrase))
        });
        let told: Vec<String> = told.collect();
        if !told.is_empty() {
            let figures = wording::count(moved.len() as u64, "result", "results");
            self.say(format!(
                "All users of the host share its memory, and probes of a core do not show them. {figures} moved by more than \
                 a tenth over the launches. {}",
                told.join(" ")
            ));
        }
    }

    /// Says how many predictions held.
    pub fn say_predictions(&mut self) {
        let is_wide = |metric: &&Metric| {
            metric.verdict.against_prediction != AgainstPrediction::None
                && metric.prediction.as_ref().is_some_and(|found| !found.says_something())
        };
        let wide = self.metrics.iter().filter(is_wide).count();
        if wide > 0 {
            let (have, counts) = if wide == 1 { ("has a range", "counts") } else { ("have ranges", "count") };
            let figures = wording::count(wide as u64, "result", "results");
            self.say(format!("{figures} {have} wider than a factor of 4 and {counts} as not predicted."));
        }
        let counts = Standings::of(&self.metrics);
        let text = match (counts.all(), counts.inside, counts.outside()) {
            (1, 1, _) => "The result is inside its predicted range.".to_owned(),
            (1, _, 1) => "The result is outside its predicted range.".to_owned(),
            (all, ..) if all == counts.not_predicted => return,
            _ => counts.text("result", "results"),
        };
        self.say(text);
    }
}

/// An interval without what no cost can be. The differences of launches can scatter below.
fn above_nothing(interval: [f64; 2]) -> [f64; 2] {
    interval.map(|end| end.max(0.0))
}

/// What launches show of the host's load: of parts outside of the core, where no clock of the core rules the cost.
fn host_load(name: &str, estimate: &Estimate) -> Option<HostLoad> {
    let outside = name.starts_with("memory.") && estimate.unit != Unit::Cycles;
    let found = estimate.over_launches.filter(|_| outside)?;
    let least_loaded = match estimate.unit {
        Unit::BytesPerSecond => found.highest,
        Unit::Nanoseconds => found.lowest,
        _ => return None,
    };
    Some(HostLoad { least_loaded, range: found.range })
}

/// The figure with a neighbour on the core.
fn shared(shown: &Estimate) -> Option<SharedCore> {
    let (found, sharing) = (shown.shared?, shown.account.sharing?);
    Some(SharedCore {
        value: found.value,
        interval95: found.interval,
        launches: found.launches,
        samples: found.samples,
        share: sharing.share(),
    })
}

/// Cycles become nanoseconds by the run's reference frequency; everything else stays as it is.
fn in_time(study: &Study<'_>, estimate: &Estimate) -> (Estimate, Option<f64>) {
    match (estimate.unit, study.core) {
        (Unit::Cycles, Some(core)) => (estimate.scaled(CoreCycles(1.0).at(core).0, Unit::Nanoseconds), Some(core.0)),
        _ => (estimate.clone(), None),
    }
}

/// The verdict on a prediction: inside its range, or on which side.
fn against(shown: &Estimate, better: Better, prediction: Option<&Prediction>) -> AgainstPrediction {
    let Some(prediction) = prediction.filter(|prediction| prediction.unit == shown.unit) else {
        return AgainstPrediction::None;
    };
    let lower_is_better = better == Better::Lower;
    if !prediction.says_something() {
        AgainstPrediction::TooWide
    } else if shown.value < prediction.low {
        if lower_is_better { AgainstPrediction::Faster } else { AgainstPrediction::Slower }
    } else if shown.value > prediction.high {
        if lower_is_better { AgainstPrediction::Slower } else { AgainstPrediction::Faster }
    } else {
        AgainstPrediction::AsPredicted
    }
}
