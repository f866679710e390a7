//! How good the predictions of a run were.

use super::document::{Document, Grade, Metric};
use super::prediction::Prediction;
use super::verdict::AgainstPrediction;
use super::wording::{count, factor, percent};
use crate::statistics::location::FEWEST_LAUNCHES;
use crate::statistics::summary::median;

/// Share of the figures that a range is meant to hold, as interval scores have it.
const NOMINAL: f64 = 0.9;

/// How good predictions were.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PredictionScore {
    /// Figures that are compared with a prediction.
    pub figures: usize,
    /// Those whose range spans a factor of 4 at most: the others are not predicted.
    pub predicted: usize,
    /// Share of these inside their ranges.
    pub inside: f64,
    /// Median factor between these and their predictions.
    pub error: f64,
    /// Median width of their ranges: upper end over lower end.
    pub width: f64,
    /// Interval score on the scale of logarithms: the width, and for each miss twenty times its distance. Less is better.
    pub interval_score: f64,
}

impl PredictionScore {
    /// Of some figures; none where nothing is predicted.
    pub fn of<'a>(metrics: impl Iterator<Item = &'a Metric>) -> Option<PredictionScore> {
        let compared = |metric: &'a Metric| {
            let prediction =
                metric.prediction.as_ref().filter(|found| found.unit == metric.unit && !metric.at_least)?;
            (prediction.value > 0.0 && metric.value > 0.0).then_some((metric, prediction))
        };
        let compared: Vec<_> = metrics.filter_map(compared).collect();
        let predicted: Vec<_> = compared.iter().filter(|(_, prediction)| prediction.says_something()).collect();
        let each = |of: &dyn Fn(f64, [f64; 3]) -> f64| -> Vec<f64> {
            let ends = |(metric, found): &&(&Metric, &Prediction)| {
                of(metric.value.ln(), [found.low.ln(), found.value.ln(), found.high.ln()])
            };
            predicted.iter().copied().map(|one| ends(&one)).collect()
        };
        let inside = each(&|value, [low, _, high]| f64::from(u8::from((low..=high).contains(&value))));
        let scores = each(&|value, [low, _, high]| {
            high - low + 2.0 / (1.0 - NOMINAL) * ((low - value).max(0.0) + (value - high).max(0.0))
        });
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        Some(PredictionScore {
            figures: compared.len(),
            predicted: predicted.len(),
            inside: mean(&inside),
            error: median(&each(&|value, [_, middle, _]| (value - middle).abs()))?.exp(),
            width: median(&each(&|_, [low, _, high]| high - low))?.exp(),
            interval_score: mean(&scores),
        })
    }

    /// In a sentence.
    pub fn text(&self) -> String {
        format!(
            "{} of {} predictions have a range of at most a factor of 4. {} of these results are inside their ranges, \
             whose median width is {}. The median error is {}.",
            self.predicted,
            self.figures,
            percent(self.inside),
            factor(self.width),
            factor(self.error),
        )
    }
}

/// How a result stands to its prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Inside the predicted range.
    Inside,
    /// Better than the range.
    Faster,
    /// Worse than the range.
    Slower,
    /// Not judged: it may be inside the range or outside.
    Unresolved,
    /// Not judged: nothing was predicted, or a range that says nothing, or the result is a lower bound within its range.
    NotPredicted,
}

impl Metric {
    /// How it stands to its prediction. A result without an interval of about 95 %, or that was disturbed, is not judged. An unresolved
    /// result is judged only if its whole interval is outside the range.
    pub fn standing(&self) -> Standing {
        let against = self.verdict.against_prediction;
        let prediction = self.prediction.as_ref().filter(|found| found.says_something());
        let Some(prediction) = prediction.filter(|_| against != AgainstPrediction::None) else {
            return Standing::NotPredicted;
        };
        let overlaps = self.interval95[0] <= prediction.high && self.interval95[1] >= prediction.low;
        let known = self.has_level() && !self.grade.has_foreign_part();
        match against {
            _ if !known || self.grade == Grade::Unresolved && overlaps => Standing::Unresolved,
            AgainstPrediction::Faster => Standing::Faster,
            AgainstPrediction::Slower => Standing::Slower,
            AgainstPrediction::AsPredicted => Standing::Inside,
            AgainstPrediction::TooWide | AgainstPrediction::None => Standing::NotPredicted,
        }
    }

    /// The verdict in words: trust where there is reason to doubt, then the comparison with the prediction where it is decided.
    pub fn verdict_text(&self) -> String {
        let against = self.against_word();
        let doubt = match self.grade {
            Grade::Good => return against.to_owned(),
            Grade::Unresolved if (self.launches as usize) < FEWEST_LAUNCHES => {
                format!("UNRESOLVED ({})", count(u64::from(self.launches), "launch", "launches"))
            }
            doubted => doubted.word().to_uppercase(),
        };
        if self.standing() == Standing::Unresolved { doubt } else { format!("{doubt}, {against}") }
    }

    /// Whether it is outside the predicted range.
    pub fn is_outside(&self) -> bool {
        matches!(self.standing(), Standing::Faster | Standing::Slower)
    }
}

/// How many results stand how to their predictions. The numbers add up to all results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standings {
    /// Inside their ranges.
    pub inside: usize,
    /// Better than their ranges.
    pub faster: usize,
    /// Worse than their ranges.
    pub slower: usize,
    /// Not judged, because they are not resolved.
    pub unresolved: usize,
    /// Not judged, because nothing useful was predicted.
    pub not_predicted: usize,
}

impl Standings {
    /// Of some results.
    pub fn of<'a>(metrics: impl IntoIterator<Item = &'a Metric>) -> Standings {
        let mut found = Standings::default();
        for metric in metrics {
            *match metric.standing() {
                Standing::Inside => &mut found.inside,
                Standing::Faster => &mut found.faster,
                Standing::Slower => &mut found.slower,
                Standing::Unresolved => &mut found.unresolved,
                Standing::NotPredicted => &mut found.not_predicted,
            } += 1;
        }
        found
    }

    /// Results that are compared with their predictions.
    pub fn judged(&self) -> usize {
        self.inside + self.outside()
    }

    /// Results outside their ranges.
    pub fn outside(&self) -> usize {
        self.faster + self.slower
    }

    /// All of them.
    pub fn all(&self) -> usize {
        self.judged() + self.unresolved + self.not_predicted
    }

    /// Whether most of the results are judged.
    pub fn are_decided(&self) -> bool {
        2 * self.judged() >= self.all()
    }

    /// In a word or some: whether the results agree with what is predicted from other results of the run. That needs most of the
    /// results, and a range is meant to hold nine of ten.
    pub fn word(&self) -> &'static str {
        if !self.are_decided() {
            "Mostly undecided"
        } else if self.are_consistent() {
            "Consistent with its own primitives"
        } else {
            "Not consistent with its own primitives"
        }
    }

    /// Whether most of the results are judged, and nine of ten of these are inside their ranges.
    pub fn are_consistent(&self) -> bool {
        self.are_decided() && 10 * self.outside() <= self.judged()
    }

    /// All numbers in a sentence that begins with the kind of results.
    pub fn text(&self, one: &str, several: &str) -> String {
        let parts = [
            (self.faster, "faster"),
            (self.slower, "slower"),
            (self.not_predicted, "without a prediction"),
            (self.unresolved, "not resolved"),
        ];
        let others = parts.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!(", {number} {what}"));
        format!(
            "{}: {} as predicted{}.",
            count(self.all() as u64, one, several),
            self.inside,
            others.collect::<String>()
        )
    }
}

impl Document {
    /// How good the predictions of the run were, of all chapters or of one.
    pub fn prediction_score(&self, chapter: Option<&str>) -> Option<PredictionScore> {
        let sections =
            self.experiments.iter().filter(|section| chapter.is_none_or(|chapter| section.chapter == chapter));
        PredictionScore::of(sections.flat_map(|section| &section.metrics))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::prediction::Basis;
    use crate::results::quantity::{Labels, Unit};

    /// A result of 50 with a range from 40 to 60, and how its value compares with that.
    fn result(against: AgainstPrediction, grade: Grade, interval95: [f64; 2]) -> Metric {
        let prediction = Prediction::of("a.b", Labels::none(), Unit::Nanoseconds).hardware(
            "entry",
            (50.0, 40.0, 60.0),
            Basis::guess("for the test"),
        );
        let mut metric = Metric { grade, interval95, prediction: Some(prediction), ..Metric::example() };
        metric.verdict.against_prediction = against;
        metric
    }

    #[test]
    fn what_is_not_resolved_is_not_as_predicted() {
        use AgainstPrediction::{AsPredicted, Slower};
        let standing = |against, grade, interval95| result(against, grade, interval95).standing();
        for grade in [Grade::Good, Grade::Rough] {
            assert_eq!(standing(AsPredicted, grade, [45.0, 55.0]), Standing::Inside);
            assert_eq!(standing(Slower, grade, [59.0, 70.0]), Standing::Slower);
        }
        assert_eq!(standing(AsPredicted, Grade::Unresolved, [30.0, 70.0]), Standing::Unresolved);
        assert_eq!(standing(Slower, Grade::Unresolved, [60.0, 90.0]), Standing::Unresolved);
        assert_eq!(standing(Slower, Grade::Unresolved, [60.1, 90.0]), Standing::Slower, "wholly outside");
        assert_eq!(standing(AsPredicted, Grade::Contaminated, [45.0, 55.0]), Standing::Unresolved);
        for level in [0.0, 0.5, 0.875] {
            let few = Metric { interval_level: level, ..result(Slower, Grade::Unresolved, [65.0, 70.0]) };
            assert_eq!(few.standing(), Standing::Unresolved, "the interval of few launches covers {level}");
        }
        assert_eq!(standing(AgainstPrediction::None, Grade::Good, [45.0, 55.0]), Standing::NotPredicted);
        let unpredicted = Metric { prediction: None, ..result(AsPredicted, Grade::Unresolved, [45.0, 55.0]) };
        assert_eq!(unpredicted.standing(), Standing::NotPredicted);
    }

    #[test]
    fn a_word_needs_most_results_and_nine_of_ten_inside() {
        let of = |inside, slower, unresolved| Standings { inside, slower, unresolved, ..Standings::default() };
        for (counts, word) in [
            (of(90, 10, 0), "Consistent with its own primitives"),
            (of(89, 11, 0), "Not consistent with its own primitives"),
            (of(50, 0, 50), "Consistent with its own primitives"),
            (of(50, 0, 51), "Mostly undecided"),
            (of(10, 40, 51), "Mostly undecided"),
            (of(0, 0, 1), "Mostly undecided"),
        ] {
            assert_eq!(counts.word(), word, "{counts:?}");
        }
    }

    #[test]
    fn the_numbers_of_a_sentence_add_up() {
        let metrics = [
            result(AgainstPrediction::AsPredicted, Grade::Good, [45.0, 55.0]),
            result(AgainstPrediction::Faster, Grade::Good, [30.0, 35.0]),
            result(AgainstPrediction::Slower, Grade::Rough, [65.0, 70.0]),
            result(AgainstPrediction::Slower, Grade::Contaminated, [65.0, 70.0]),
            result(AgainstPrediction::None, Grade::Good, [65.0, 70.0]),
        ];
        let counts = Standings::of(&metrics);
        assert_eq!((counts.all(), counts.judged(), counts.outside()), (5, 3, 2));
        let text = "5 results: 1 as predicted, 1 faster, 1 slower, 1 without a prediction, 1 not resolved.";
        assert_eq!(counts.text("result", "results"), text);
        assert_eq!(Standings::of(&metrics[..1]).text("result", "results"), "1 result: 1 as predicted.");
    }
}
