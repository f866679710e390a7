//! How good the predictions of a run were.

use super::document::{Document, Metric};
use super::prediction::Prediction;
use super::verdict::AgainstPrediction;
use super::wording::{factor, percent};
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

impl Metric {
    /// Whether its prediction counts: a lower bound within its range is not judged, nor is a range that says nothing, whether the
    /// figure is inside of it or not.
    pub fn is_judged(&self) -> bool {
        self.verdict.against_prediction != AgainstPrediction::None
            && self.prediction.as_ref().is_some_and(Prediction::says_something)
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
