//! What an experiment is: a row of the table, the metrics that it publishes, and what a run must have for it.

use crate::evaluate::findings::Findings;
use crate::evaluate::gate::Rule;
use crate::evaluate::precision::Precision;
use crate::evaluate::study::Study;
use crate::results::document::Metric;
use crate::results::prediction::Prediction;
use crate::results::problem::Problem;
use crate::results::quantity::{Labels, Unit};
use crate::rig::Rig;
use crate::setup::Setup;

/// One number with its range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constant {
    /// Name in prediction terms.
    pub name: &'static str,
    /// Expected value, in `unit`.
    pub value: f64,
    /// Lowest value that would not surprise; at most `value`.
    pub low: f64,
    /// Highest value that would not surprise; at least `value`.
    pub high: f64,
    /// Unit: `cycles`, `ns`, or a count: `lines`, `per cycle`, `B/cycle`, `times`.
    pub unit: &'static str,
    /// Where it is from.
    pub source: &'static str,
}

/// One row of the table.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// Identifier: chapter, dot, name.
    pub id: &'static str,
    /// Title of its section.
    pub title: &'static str,
    /// What it measures, in half a line.
    pub measures: &'static str,
    /// Words of the field that select it, besides its identifier and the second half of that.
    pub words: &'static [&'static str],
    /// Version of the method. A change that moves figures raises it: they are then a new series.
    pub method_version: u32,
    /// What is asked of its figures, and how far they move from run to run.
    pub precision: Precision,
    /// The leading `//!` comment of its source file: the methodology text.
    pub source: &'static str,
    /// What the run must have.
    pub needs: &'static [Need],
    /// Metrics of earlier experiments that its prediction uses when they are there.
    pub uses: &'static [&'static str],
    /// A label of its metrics in words, by key and value. None where the table of words has it.
    pub words_of: fn(&str, &str) -> Option<&'static str>,
    /// Rules that its figures must pass, in addition to those of every experiment.
    pub rules: &'static [&'static Rule],
    /// Numbers from the literature that only its predictions use.
    pub constants: &'static [Constant],
    /// Metrics that it publishes.
    pub publishes: &'static [Publication],
    /// Duration of one default launch on a machine of 3 GHz, in seconds: for the plan only.
    pub seconds: fn(&Setup) -> f64,
    /// A launch that takes longer than this many seconds has hung.
    pub time_out: f64,
    /// Whether a quick run without a selection has it: ten of all, those with the costs that most readers ask for first. One launch of
    /// each experiment takes longer than such a run.
    pub in_quick: bool,
    /// Bytes of memory that a launch takes at most, by the number of launches before it.
    pub memory: fn(&Setup, u32) -> u64,
    /// Bytes of these that it takes on huge pages, where it also takes others on small ones.
    pub huge_memory: Option<fn(&Setup, u32) -> u64>,
    /// Says what will be measured.
    pub predict: fn(&PredictionInput<'_>) -> Vec<Prediction>,
    /// Measures, in a separate launch.
    pub measure: Measuring,
    /// Measures only what its other figures are predicted from, in a separate short launch. None where no figure is.
    pub measure_first: Option<Measuring>,
    /// Turns what was logged into figures and curves.
    pub figures: fn(&Study<'_>, &mut Findings),
    /// Says what the figures mean, in words, tables and notes on drawings.
    pub explain: fn(&Study<'_>, &mut Findings),
}

/// The timed part of an experiment.
pub type Measuring = fn(&mut Rig<'_>) -> Result<(), Problem>;

impl Experiment {
    /// A row with what most experiments share. The table's test refuses a row that keeps its empty texts.
    pub const DEFAULT: Experiment = Experiment {
        id: "",
        title: "",
        measures: "",
        words: &[],
        method_version: 1,
        precision: Precision { target: 0.0, between: 0.0, busy: 0.0 },
        source: "",
        needs: &[],
        uses: &[],
        words_of: |_, _| None,
        rules: &[],
        constants: &[],
        publishes: &[],
        seconds: |_| 0.0,
        time_out: 0.0,
        in_quick: false,
        memory: little_memory,
        huge_memory: None,
        predict: |_| Vec::new(),
        measure: |_| Ok(()),
        measure_first: None,
        figures: |_, _| (),
        explain: |_, _| (),
    };

    /// The chapter: the part of the identifier before the dot.
    pub fn chapter(&self) -> &'static str {
        self.id.split_once('.').map_or(self.id, |(chapter, _)| chapter)
    }

    /// The first of its needs that a run does not have, and why.
    pub fn unmet(&self, setup: &Setup) -> Option<Problem> {
        self.needs.iter().find_map(|need| (need.check)(setup).err())
    }

    /// The publication of a metric.
    pub fn publication(&self, metric: &str) -> Option<&'static Publication> {
        self.publishes.iter().find(|publication| publication.metric == metric)
    }

    /// The methodology text, without the markers of a comment.
    pub fn methodology(&self) -> String {
        let mut text = String::new();
        for line in self.source.lines().map_while(|line| line.strip_prefix("//!")) {
            text.push_str(line.strip_prefix(' ').unwrap_or(line));
            text.push('\n');
        }
        text
    }
}

/// Something that a run must have for an experiment to take part in it.
pub struct Need {
    /// Which need it is.
    pub id: &'static str,
    /// In words, for `list`.
    pub what: &'static str,
    /// Whether this run has it; if not, why and what to do.
    pub check: fn(&Setup) -> Result<(), Problem>,
    /// What a reader of the results should know of it, one sentence each.
    pub caveats: fn(&Setup) -> Vec<String>,
}

/// The caveats of a need that has none.
pub fn no_caveats(_: &Setup) -> Vec<String> {
    Vec::new()
}

/// A metric that an experiment publishes.
pub struct Publication {
    /// Name.
    pub metric: &'static str,
    /// Unit.
    pub unit: Unit,
    /// What it means, for `list` and the report.
    pub meaning: &'static str,
    /// A cost that more launches pin down, or a state of the machine that they only watch.
    pub nature: Nature,
    /// Which of its figures stand in the summary table.
    pub headline: fn(&Labels) -> bool,
}

/// Whether repeating a measurement makes a figure more certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    /// What an operation costs: its interval shrinks with launches, and the stopping rule waits for that.
    Cost,
    /// What the machine happened to do, such as its clock: launches watch it, they do not settle it.
    State,
}

impl Publication {
    /// What an operation costs, outside of the summary table.
    pub const fn cost(metric: &'static str, unit: Unit, meaning: &'static str) -> Self {
        Publication { metric, unit, meaning, nature: Nature::Cost, headline: |_| false }
    }

    /// What the machine happened to do, outside of the summary table.
    pub const fn state(metric: &'static str, unit: Unit, meaning: &'static str) -> Self {
        Publication { nature: Nature::State, ..Publication::cost(metric, unit, meaning) }
    }

    /// All of its figures stand in the summary table.
    #[must_use]
    pub const fn in_summary(self) -> Self {
        self.in_summary_where(|_| true)
    }

    /// Figures with some labels stand in the summary table.
    #[must_use]
    pub const fn in_summary_where(self, headline: fn(&Labels) -> bool) -> Self {
        Publication { headline, ..self }
    }
}

/// What an experiment takes that needs memory for nothing but its records.
pub fn little_memory(_: &Setup, _: u32) -> u64 {
    1 << 20
}

/// What a prediction may be made from.
pub struct PredictionInput<'a> {
    /// What is known of the run before anything is timed.
    pub setup: &'a Setup,
    /// Figures of earlier experiments of this run.
    pub known: &'a [Metric],
}

impl PredictionInput<'_> {
    /// The earlier figure with a name and labels.
    pub fn metric(&self, name: &str, labels: &Labels) -> Option<&Metric> {
        self.known.iter().find(|metric| metric.name == name && metric.labels.same_figure(labels))
    }
}
