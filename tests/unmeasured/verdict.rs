//! What the verdict of a quick run calls settled, over made results.
use crate::report::golden;
use sysdyno::testing::report::screen;
use sysdyno::testing::results::document::{Document, Grade, Highlight, HighlightKind, Metric, Outcome, Section};
use sysdyno::testing::results::prediction::{Basis, Prediction};
use sysdyno::testing::results::quantity::{Labels, Unit};
use sysdyno::testing::results::verdict::AgainstPrediction;

/// A headline result without a prediction.
fn example() -> Metric {
    let mut metric = golden("complete").metrics().next().unwrap().clone();
    metric.headline = true;
    metric.prediction = None;
    metric.interval_level = 0.95;
    metric.unit = Unit::Nanoseconds;
    (metric.value, metric.interval95) = (50.0, [49.0, 51.0]);
    metric.verdict.against_prediction = AgainstPrediction::None;
    metric
}

fn result(grade: Grade) -> Metric {
    Metric { grade, ..example() }
}

/// A rough result of 50 with a range from 40 to 60, and how its value compares with that.
fn rough(against: AgainstPrediction) -> Metric {
    let range = (50.0, 40.0, 60.0);
    let prediction =
        Prediction::of("a.b", Labels::none(), Unit::Nanoseconds).hardware("entry", range, Basis::guess("a test"));
    let mut metric = Metric { interval95: [45.0, 55.0], prediction: Some(prediction), ..result(Grade::Rough) };
    metric.verdict.against_prediction = against;
    metric
}

/// A quick run whose chapters have these results.
fn quick(chapters: &[(&str, Vec<Metric>)]) -> Document {
    let mut document = golden("complete");
    assert_eq!(document.run.profile, "quick");
    let like = document.experiments[0].clone();
    document.highlights.clear();
    document.costs.clear();
    document.experiments = chapters
        .iter()
        .map(|(chapter, metrics)| Section {
            id: format!("{chapter}.made"),
            chapter: (*chapter).to_owned(),
            metrics: metrics.clone(),
            ..like.clone()
        })
        .collect();
    document
}

fn several(number: usize, metric: &Metric) -> Vec<Metric> {
    vec![metric.clone(); number]
}

#[test]
fn a_quick_run_says_what_it_settled_and_what_more_there_is() {
    let unresolved = result(Grade::Unresolved);
    let predicted = rough(AgainstPrediction::AsPredicted);
    let os = [several(3, &result(Grade::Good)), several(1, &unresolved)].concat();
    let mut document = quick(&[("cpu", several(6, &predicted)), ("os", os), ("file", several(2, &unresolved))]);
    let mut left_out = document.experiments[0].clone();
    left_out.id = "memory.made".to_owned();
    left_out.chapter = "memory".to_owned();
    left_out.metrics.clear();
    left_out.outcome = Outcome::Skipped;
    left_out.hint = Some("run without --quick".to_owned());
    document.experiments.push(left_out);
    assert_eq!(
        screen::verdict(&document),
        "Settled: 9 of 12 headline results (3 good, 6 more as predicted), all of cpu, most of os. Consistent with \
         its own primitives. A run without --quick measures the other 3 longer and adds memory.made."
    );
    document.run.profile = "default".to_owned();
    let whole = "Consistent with its own primitives. Of 12 headline results: 6 as predicted, 6 without a prediction.";
    assert_eq!(screen::verdict(&document), whole, "other runs are not a first look");
}

#[test]
fn one_experiment_whose_predictions_miss_is_named() {
    let verdict = |missed: [usize; 2]| {
        let of = |missed: usize| {
            let inside = several(20 - missed, &rough(AgainstPrediction::AsPredicted));
            [inside, several(missed, &rough(AgainstPrediction::Faster))].concat()
        };
        let mut document = quick(&[("cpu", of(missed[0])), ("os", of(missed[1]))]);
        document.run.profile = "default".to_owned();
        screen::verdict(&document)
    };
    let id = &quick(&[("os", Vec::new())]).experiments[0].id;
    assert!(verdict([2, 2]).starts_with("Consistent with its own primitives. Of 40"));
    let one = verdict([1, 9]);
    assert!(one.starts_with(&format!("Consistent with its own primitives except in {id}. Of 40")), "{one}");
    let both = verdict([3, 9]);
    assert!(both.starts_with("Not consistent with its own primitives. Of 40"), "{both}");
}

#[test]
fn a_quick_run_on_a_busy_host_calls_no_doubtful_result_settled() {
    use Grade::{Contaminated, Disturbed, Unresolved};
    let doubtful =
        [Unresolved, Disturbed, Contaminated].map(|grade| Metric { grade, ..rough(AgainstPrediction::AsPredicted) });
    let without = Metric { interval_level: 0.0, ..result(Grade::Good) };
    let few = [doubtful.to_vec(), vec![result(Grade::Good), rough(AgainstPrediction::Slower)]].concat();
    let document = quick(&[("cpu", few), ("os", vec![without.clone(), result(Grade::Unresolved)])]);
    assert_eq!(
        screen::verdict(&document),
        "Settled: 1 of 7 headline results (1 good). 1 slower than predicted. Slower: time-stamp counter. A run without --quick measures the \
         other 6 longer."
    );
    let none = quick(&[("cpu", doubtful.to_vec()), ("os", vec![without])]);
    let text = screen::verdict(&none);
    assert_eq!(
        text,
        "First values of 4 headline results, none of them settled. A run without --quick measures them longer."
    );
    let one = quick(&[("cpu", vec![result(Grade::Unresolved)])]);
    assert!(screen::verdict(&one).ends_with("A run without --quick measures it longer."), "{}", screen::verdict(&one));
}

#[test]
fn a_quick_run_with_everything_settled_or_contradictory_says_so() {
    let mut document = quick(&[("cpu", several(3, &result(Grade::Good)))]);
    let text = "Settled: all 3 headline results (3 good). A run without --quick is longer, for narrower intervals.";
    assert_eq!(screen::verdict(&document), text);
    document.highlights.push(Highlight {
        kind: HighlightKind::Violation,
        text: String::new(),
        section: String::new(),
        why: None,
        advice: None,
    });
    assert!(screen::verdict(&document).starts_with("Contradictory. Settled: all 3"), "{}", screen::verdict(&document));
    document.experiments.clear();
    assert_eq!(screen::verdict(&document), "Nothing was measured.");
}
