//! How good the predictions of a person were, next to those of the tool for the same figures.

use super::document::{Document, Metric};
use super::expected::Fit;
use super::own_prediction::OwnPrediction;
use super::prediction::{Prediction, Term, WIDEST};
use super::wording::{count, factor};
use crate::statistics::summary::median;

/// A figure that a person predicted.
#[derive(Debug, Clone, Copy)]
pub struct OwnScored<'a> {
    /// The result.
    pub metric: &'a Metric,
    /// What the person said of it.
    pub own: &'a OwnPrediction,
}

/// Predictions of some figures, counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RangeScore {
    /// Those whose range holds the result.
    pub inside: usize,
    /// Those whose result is known well enough to say so, and whose range says something.
    pub judged: usize,
    /// Those whose range is too wide to say something, as [`WIDEST`] has it. They are in no other number.
    pub wide: usize,
    /// Median factor between the judged results and the predictions; none where nothing is judged, or a number is not above 0.
    pub error: Option<f64>,
    /// Median width of their ranges: upper end over lower end.
    pub width: Option<f64>,
}

/// The factor between two numbers, at least 1; none where one of them is not above 0.
fn factor_between(one: f64, other: f64) -> Option<f64> {
    (one > 0.0 && other > 0.0).then(|| (one / other).max(other / one))
}

impl RangeScore {
    /// Of values, low ends, and high ends next to results.
    fn of<'a>(ranges: impl Iterator<Item = (&'a Metric, [f64; 3])>) -> Self {
        let known = ranges.filter(|(metric, range)| fit(metric, *range) != Fit::Open);
        let (judged, wide): (Vec<_>, Vec<_>) = known.partition(|(_, range)| says_something(*range));
        let each = |of: &dyn Fn(&Metric, [f64; 3]) -> Option<f64>| -> Vec<f64> {
            judged.iter().filter_map(|(metric, range)| of(metric, *range)).collect()
        };
        RangeScore {
            inside: judged.iter().filter(|(metric, range)| fit(metric, *range) == Fit::Within).count(),
            judged: judged.len(),
            wide: wide.len(),
            error: median(&each(&|metric, [_, value, _]| factor_between(metric.value, value))),
            width: median(&each(&|_, [low, _, high]| factor_between(low, high))),
        }
    }

    /// The counts, and both medians behind these words.
    fn text(&self, error: &str, width: &str) -> String {
        let wide = match self.wide {
            0 => String::new(),
            wide => format!(", {wide} not counted (wider than {})", factor(WIDEST)),
        };
        if self.judged == 0 {
            let none = if self.wide > 0 { "no range counts" } else { "no result is decided" };
            return format!("{none}{wide}");
        }
        let of =
            |word: &str, number: Option<f64>| number.map_or_else(String::new, |by| format!(", {word}{}", factor(by)));
        format!("{} of {} inside{}{}{wide}", self.inside, self.judged, of(error, self.error), of(width, self.width))
    }
}

/// Whether a range says where a result lies.
fn says_something([low, _, high]: [f64; 3]) -> bool {
    low > 0.0 && high / low <= WIDEST
}

fn fit(metric: &Metric, [low, _, high]: [f64; 3]) -> Fit {
    metric.fit([metric.interval95[0], metric.value, metric.interval95[1]], [low, high])
}

impl<'a> OwnScored<'a> {
    fn own_range(&self) -> (&'a Metric, [f64; 3]) {
        (self.metric, [self.own.low, self.own.value, self.own.high])
    }

    fn range_of_the_tool(&self) -> Option<(&'a Metric, [f64; 3])> {
        self.prediction().map(|found| (self.metric, [found.low, found.value, found.high]))
    }

    /// What the tool predicted.
    pub fn prediction(&self) -> Option<&'a Prediction> {
        self.metric.prediction.as_ref().filter(|found| found.unit == self.metric.unit)
    }

    /// How the result stands to the range of the person.
    pub fn fit(&self) -> Fit {
        let (metric, range) = self.own_range();
        fit(metric, range)
    }

    /// Whether the range of the person is narrow enough to count.
    pub fn counts(&self) -> bool {
        says_something(self.own_range().1)
    }

    /// The factor between the result and what the person expected.
    pub fn error(&self) -> Option<f64> {
        factor_between(self.metric.value, self.own.value)
    }

    /// The same of the tool.
    pub fn error_of_the_tool(&self) -> Option<f64> {
        factor_between(self.metric.value, self.prediction()?.value)
    }

    /// The term that the tool's prediction is made of most.
    pub fn largest_term(&self) -> Option<&'a Term> {
        self.prediction()?.terms.iter().max_by(|one, other| one.value.abs().total_cmp(&other.value.abs()))
    }
}

impl Document {
    /// The published figures that a person predicted, in the order of the report.
    pub fn own_scored(&self) -> impl Iterator<Item = OwnScored<'_>> {
        let of = |metric| Metric::own_prediction(metric).map(|own| OwnScored { metric, own });
        self.metrics().filter_map(of)
    }

    /// What a person predicted and this run has no result of.
    pub fn own_unmet(&self) -> impl Iterator<Item = &OwnPrediction> {
        let own = self.own_predictions.iter().flat_map(|own| &own.predictions);
        own.filter(|own| !self.own_scored().any(|found| found.own == *own))
    }

    /// The score of a person, and that of the tool for the same figures. None without predictions of a person.
    pub fn own_scores(&self) -> Option<[RangeScore; 2]> {
        self.own_predictions.as_ref()?;
        let of_the_tool = self.own_scored().filter_map(|found| found.range_of_the_tool());
        Some([RangeScore::of(self.own_scored().map(|found| found.own_range())), RangeScore::of(of_the_tool)])
    }

    /// The scores in a sentence for each side, and what has no score.
    pub fn own_score_text(&self) -> Option<String> {
        let [own, tool] = self.own_scores()?.map(|score| score.text("median error ", "median width "));
        let open = self.own_scored().filter(|found| found.fit() == Fit::Open).count();
        let unmet = self.own_unmet().count();
        let mut text = format!("You: {own}. sysdyno: {tool}.");
        for (number, what) in [(open, "not decided"), (unmet, "without a result")] {
            if number > 0 {
                text += &format!(" {} {what}.", count(number as u64, "prediction is", "predictions are"));
            }
        }
        Some(text)
    }

    /// The scores in a line of a screen.
    pub fn own_score_line(&self) -> Option<String> {
        let [own, tool] = self.own_scores()?;
        Some(format!("You: {}. sysdyno: {}.", own.text("error ", "width "), tool.text("", "")))
    }
}

impl Metric {
    /// What a person predicted, in the unit of the result.
    fn own_prediction(&self) -> Option<&OwnPrediction> {
        self.own_prediction.as_ref().filter(|own| own.unit == self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::document::Grade;
    use crate::results::prediction::Basis;
    use crate::results::quantity::{Labels, Unit};

    /// A good result with an interval of 2 %, a prediction of the tool of 100 in 80 to 120, and that of a person.
    fn metric(value: f64, [low, expected, high]: [f64; 3]) -> Metric {
        let guess = || Basis::guess("for the test");
        let prediction = Prediction::of("a.b", Labels::none(), Unit::Nanoseconds)
            .hardware("the core", (15.0, 10.0, 20.0), guess())
            .software("the kernel", (85.0, 70.0, 100.0), guess());
        let own = OwnPrediction {
            metric: "a.b".to_owned(),
            labels: Labels::none(),
            unit: Unit::Nanoseconds,
            value: expected,
            low,
            high,
            reason: "a guess".to_owned(),
        };
        Metric {
            value,
            interval95: [value * 0.99, value * 1.01],
            grade: Grade::Good,
            prediction: Some(prediction),
            own_prediction: Some(own),
            ..Metric::example()
        }
    }

    fn scored(metric: &Metric) -> OwnScored<'_> {
        OwnScored { metric, own: metric.own_prediction().unwrap() }
    }

    #[test]
    fn errors_are_factors_and_the_largest_term_is_named() {
        let found = metric(110.0, [30.0, 50.0, 80.0]);
        let found = scored(&found);
        assert_eq!((found.fit(), found.error(), found.error_of_the_tool()), (Fit::Worse, Some(2.2), Some(1.1)));
        assert_eq!(found.largest_term().unwrap().what, "the kernel");
        assert_eq!(scored(&metric(25.0, [30.0, 50.0, 80.0])).error(), Some(2.0), "below as above");
        assert_eq!(scored(&metric(25.0, [-1.0, 0.0, 80.0])).error(), None, "0 has no factor");
    }

    #[test]
    fn what_is_not_known_is_not_judged() {
        let fit = |metric: Metric| scored(&metric).fit();
        let range = [30.0, 50.0, 80.0];
        let unresolved =
            |value: f64| Metric { grade: Grade::Unresolved, interval95: [75.0, 130.0], ..metric(value, range) };
        assert_eq!(fit(unresolved(100.0)), Fit::Open);
        assert_eq!(fit(Metric { interval95: [81.0, 130.0], ..unresolved(100.0) }), Fit::Worse, "wholly outside");
        assert_eq!(fit(Metric { grade: Grade::Contaminated, ..metric(60.0, range) }), Fit::Open);
        let bound = |value: f64| fit(Metric { at_least: true, ..metric(value, range) });
        assert_eq!([bound(20.0), bound(60.0), bound(90.0)], [Fit::Open, Fit::Open, Fit::Worse], "lower bounds");
    }

    #[test]
    fn scores_are_counts_and_medians_of_what_is_judged() {
        let metrics = [
            metric(100.0, [50.0, 100.0, 200.0]),
            metric(100.0, [10.0, 50.0, 80.0]),
            metric(150.0, [25.0, 50.0, 100.0]),
            Metric { grade: Grade::Contaminated, ..metric(900.0, [1.0, 1.0, 1.0]) },
        ];
        let own = RangeScore::of(metrics.iter().map(|metric| scored(metric).own_range()));
        assert_eq!(own, RangeScore { inside: 1, judged: 2, wide: 1, error: Some(2.0), width: Some(4.0) });
        let text = "1 of 2 inside, error ×2.00, width ×4.00, 1 not counted (wider than ×4.00)";
        assert_eq!(own.text("error ", "width "), text);
        let tool = RangeScore::of(metrics.iter().filter_map(|metric| scored(metric).range_of_the_tool()));
        assert_eq!(tool, RangeScore { inside: 2, judged: 3, wide: 0, error: Some(1.0), width: Some(1.5) });
        let wide = metric(100.0, [1.0, 100.0, 194.0]);
        assert_eq!((scored(&wide).fit(), scored(&wide).counts()), (Fit::Within, false), "inside of anything");
        let wide = RangeScore::of(std::iter::once(scored(&wide).own_range()));
        assert_eq!(wide.text("error ", "width "), "no range counts, 1 not counted (wider than ×4.00)");
        let none = RangeScore::of(std::iter::empty());
        assert_eq!(none.text("error ", "width "), "no result is decided");
    }
}
