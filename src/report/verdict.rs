//! What a run found, in a few sentences: how its results agree with their predictions, or what a first look settled.

use crate::results::document::{Document, Grade, HighlightKind, Metric, Outcome};
use crate::results::score::{Standing, Standings};
use crate::results::wording::{count, factor};
use crate::setup::Profile;

/// A result beyond its range by less than this is not worth a word.
const FAR: f64 = 1.1;
/// Results beyond their ranges that are named.
const NAMED: usize = 3;

/// Whether the results agree with each other, with numbers that add up, and what is slower than predicted. A quick run says what it
/// settled, and what a default run adds.
pub fn verdict(document: &Document) -> String {
    let counts = Standings::of(headlines(document));
    if counts.all() == 0 {
        return "Nothing was measured.".to_owned();
    }
    let broken = document.highlights.iter().any(|found| found.kind == HighlightKind::Violation);
    if Profile::named(&document.run.profile).is_some_and(Profile::is_quick) {
        return first_look(document, &counts, broken);
    }
    let word = if broken { "Contradictory" } else { counts.word() };
    format!("{word}. Of {}{}", counts.text("headline result", "headline results"), slower(document, &counts))
}

/// The verdict of a quick run. Nothing is called settled that a longer run may find to be otherwise.
fn first_look(document: &Document, counts: &Standings, broken: bool) -> String {
    let all = counts.all();
    let settled = headlines(document).filter(|metric| is_settled(metric)).count();
    let of_all = count(all as u64, "headline result", "headline results");
    let mut text = if broken { "Contradictory. ".to_owned() } else { String::new() };
    text += &match settled {
        0 if all == 1 => "First value of 1 headline result, not settled.".to_owned(),
        0 => format!("First values of {of_all}, none of them settled."),
        _ => {
            let good = headlines(document).filter(|metric| is_settled(metric) && metric.grade == Grade::Good).count();
            let number = if settled == all { "all".to_owned() } else { format!("{settled} of") };
            let others = if good < settled { format!(", {} more as predicted", settled - good) } else { String::new() };
            format!("Settled: {number} {of_all} ({good} good{others}){}.", chapters(document))
        }
    };
    if counts.are_decided() && !broken {
        text += &format!(" {}.", counts.word());
    }
    text += &match (counts.faster, counts.slower) {
        (0, 0) => String::new(),
        (faster, 0) => format!(" {faster} faster than predicted."),
        (0, slower) => format!(" {slower} slower than predicted."),
        (faster, slower) => format!(" {faster} faster and {slower} slower than predicted."),
    };
    text + &slower(document, counts) + &more(document, all - settled, all)
}

/// A result whose interval is within its target, or that agrees with its prediction. What is unresolved or disturbed is neither.
fn is_settled(metric: &Metric) -> bool {
    let known = metric.interval_level > 0.0 && matches!(metric.grade, Grade::Good | Grade::Rough);
    known && (metric.grade == Grade::Good || metric.standing() == Standing::Inside)
}

fn headlines(document: &Document) -> impl Iterator<Item = &Metric> {
    document.metrics().filter(|metric| metric.headline)
}

/// The chapters with all or most of their results settled; empty where no chapter has, or there is only one.
fn chapters(document: &Document) -> String {
    let (mut whole, mut most, mut known) = (Vec::new(), Vec::new(), 0);
    for chapter in document.experiments.chunk_by(|one, other| one.chapter == other.chapter) {
        let of: Vec<&Metric> =
            chapter.iter().flat_map(|section| &section.metrics).filter(|metric| metric.headline).collect();
        let settled = of.iter().filter(|metric| is_settled(metric)).count();
        known += usize::from(!of.is_empty());
        let list = if of.is_empty() || 2 * settled <= of.len() {
            continue;
        } else if settled == of.len() {
            &mut whole
        } else {
            &mut most
        };
        list.push(chapter[0].chapter.as_str());
    }
    let named = [("all of", whole), ("most of", most)];
    let named: Vec<String> = named
        .iter()
        .filter(|(_, of)| !of.is_empty())
        .map(|(share, of)| format!("{share} {}", enumeration(of)))
        .collect();
    if known < 2 || named.is_empty() { String::new() } else { format!(", {}", named.join(", ")) }
}

/// What a run without `--quick` does beyond this one. It promises no grade: that depends on the host.
fn more(document: &Document, open: usize, all: usize) -> String {
    let left_out = document.experiments.iter().filter(|section| {
        section.outcome == Outcome::Skipped && section.hint.as_ref().is_some_and(|hint| hint.contains("--quick"))
    });
    let left_out: Vec<&str> = left_out.map(|section| section.id.as_str()).collect();
    let longer = match (open, open == all) {
        (0, _) => "is longer, for narrower intervals".to_owned(),
        (1, true) => "measures it longer".to_owned(),
        (_, true) => "measures them longer".to_owned(),
        (1, false) => "measures the other one longer".to_owned(),
        _ => format!("measures the other {open} longer"),
    };
    let adds = if left_out.is_empty() { String::new() } else { format!(" and adds {}", enumeration(&left_out)) };
    format!(" A run without --quick {longer}{adds}.")
}

/// The costs that are slower than predicted, each with its ratio.
fn slower(document: &Document, counts: &Standings) -> String {
    let slow: Vec<String> = document
        .costs
        .iter()
        .filter_map(|cost| {
            let metric = document.metric(&cost.metric, &cost.labels)?;
            let slower = metric.standing() == Standing::Slower;
            let ratio = metric.ratio().filter(|ratio| slower && ratio.max(1.0 / ratio) >= FAR)?;
            Some(format!("{} ({})", cost.name, factor(ratio)))
        })
        .take(NAMED)
        .collect();
    let word = if slow.len() < counts.slower { "Slower, among others" } else { "Slower" };
    if slow.is_empty() { String::new() } else { format!(" {word}: {}.", slow.join(", ")) }
}

/// Names as in a sentence: `cpu`, `cpu and os`, `cpu, os and file`.
fn enumeration(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::assemble;
    use crate::results::document::{Highlight, Section};
    use crate::results::log;
    use crate::results::prediction::{Basis, Prediction};
    use crate::results::quantity::{Labels, Unit};
    use crate::results::verdict::AgainstPrediction;

    fn result(grade: Grade) -> Metric {
        Metric { grade, ..Metric::example() }
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
        let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/complete.jsonl");
        let mut document = assemble::document(&log::read(&log).unwrap());
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
            verdict(&document),
            "Settled: 9 of 12 headline results (3 good, 6 more as predicted), all of cpu, most of os. Consistent with \
             its own primitives. A run without --quick measures the other 3 longer and adds memory.made."
        );
        document.run.profile = "default".to_owned();
        let whole =
            "Consistent with its own primitives. Of 12 headline results: 6 as predicted, 6 without a prediction.";
        assert_eq!(verdict(&document), whole, "other runs are not a first look");
    }

    #[test]
    fn a_quick_run_on_a_busy_host_calls_no_doubtful_result_settled() {
        use Grade::{Contaminated, Disturbed, Unresolved};
        let doubtful = [Unresolved, Disturbed, Contaminated]
            .map(|grade| Metric { grade, ..rough(AgainstPrediction::AsPredicted) });
        let without = Metric { interval_level: 0.0, ..result(Grade::Good) };
        let few = [doubtful.to_vec(), vec![result(Grade::Good), rough(AgainstPrediction::Slower)]].concat();
        let document = quick(&[("cpu", few), ("os", vec![without.clone(), result(Grade::Unresolved)])]);
        assert_eq!(
            verdict(&document),
            "Settled: 1 of 7 headline results (1 good). 1 slower than predicted. A run without --quick measures the \
             other 6 longer."
        );
        let none = quick(&[("cpu", doubtful.to_vec()), ("os", vec![without])]);
        let text = verdict(&none);
        assert_eq!(
            text,
            "First values of 4 headline results, none of them settled. A run without --quick measures them longer."
        );
        let one = quick(&[("cpu", vec![result(Grade::Unresolved)])]);
        assert!(verdict(&one).ends_with("A run without --quick measures it longer."), "{}", verdict(&one));
    }

    #[test]
    fn a_quick_run_with_everything_settled_or_contradictory_says_so() {
        let mut document = quick(&[("cpu", several(3, &result(Grade::Good)))]);
        let text = "Settled: all 3 headline results (3 good). A run without --quick is longer, for narrower intervals.";
        assert_eq!(verdict(&document), text);
        document.highlights.push(Highlight {
            kind: HighlightKind::Violation,
            text: String::new(),
            section: String::new(),
            why: None,
            advice: None,
        });
        assert!(verdict(&document).starts_with("Contradictory. Settled: all 3"), "{}", verdict(&document));
        document.experiments.clear();
        assert_eq!(verdict(&document), "Nothing was measured.");
    }

    #[test]
    fn names_are_enumerated_as_in_a_sentence() {
        assert_eq!(enumeration(&["cpu"]), "cpu");
        assert_eq!(enumeration(&["cpu", "os", "file"]), "cpu, os and file");
    }
}
