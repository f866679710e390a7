//! What a run found, in a few sentences: how its results agree with their predictions, or what a first look settled.

use crate::results::document::{Document, Grade, HighlightKind, Metric, Outcome, Section};
use crate::results::expectation::Ground;
use crate::results::expected::{Expected, Fit};
use crate::results::score::{Standing, Standings};
use crate::results::verdict::AgainstPrediction;
use crate::results::wording::{count, factor};
use crate::setup::Profile;

/// A ratio of less than this is not worth a number.
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
    let word = if broken { "Contradictory".to_owned() } else { agreement(document, &counts) };
    let text = counts.text("headline result", "headline results");
    format!("{}{word}. Of {text}{}", on_other_machines(document), slower(document, &counts))
}

/// How the results agree with their predictions. One experiment that alone decides against it is named: its coefficients are wrong, and
/// not the run.
fn agreement(document: &Document, counts: &Standings) -> String {
    let of = |section: &Section| Standings::of(section.metrics.iter().filter(|metric| metric.headline));
    let worst = document.experiments.iter().max_by_key(|section| of(section).outside());
    let without = |worst: &Section| {
        let others = document.experiments.iter().filter(|section| section.id != worst.id);
        Standings::of(others.flat_map(|section| &section.metrics).filter(|metric| metric.headline))
    };
    match worst {
        Some(worst) if counts.are_decided() && !counts.are_consistent() && without(worst).are_consistent() => {
            format!("{} except in {}", without(worst).word(), worst.id)
        }
        _ => counts.word().to_owned(),
    }
}

/// Shares of the costs inside of the usual range from which a machine is usual, and mostly so.
const USUAL: f64 = 0.9;
const MOSTLY: f64 = 0.7;

/// How the costs stand to those of machines of the same kind, and to what is published of the design. Empty where the log has no
/// expectations.
fn on_other_machines(document: &Document) -> String {
    if document.expectations.is_empty() {
        return String::new();
    }
    let known = |ground: Ground| -> Vec<Expected<'_>> {
        document.expected(ground).into_iter().filter(|found| found.fit != Fit::Open).collect()
    };
    let (kind, design) = (known(Ground::Kind), known(Ground::Design));
    let mut text = usual(&kind).unwrap_or_else(|| match document.expected(Ground::Kind).first() {
        Some(open) => format!("No cost is known well enough to compare with {}. ", open.expectation.machines),
        // The catalogue has costs only, and a run of few experiments has none.
        None if document.costs.is_empty() => String::new(),
        None => "No machine of this kind is in the catalogue. ".to_owned(),
    });
    if !design.is_empty() {
        let within = design.iter().filter(|found| found.fit == Fit::Within).count();
        let far = [named(&design, Fit::Worse, "slow"), named(&design, Fit::Better, "fast")].concat();
        text += &format!("As published: {within} of {}{far}. ", design.len());
    }
    text
}

/// The costs next to those of the machines that most of them are known of. The others are compared with machines that are less alike.
fn usual(kind: &[Expected<'_>]) -> Option<String> {
    let of = |found: &Expected<'_>| (found.expectation.machines.clone(), found.expectation.basis.clone());
    let mut grounds: Vec<((String, String), usize)> = Vec::new();
    for ground in kind.iter().map(of) {
        match grounds.iter_mut().find(|(known, _)| *known == ground) {
            Some((_, times)) => *times += 1,
            None => grounds.push((ground, 1)),
        }
    }
    let ((machines, basis), _) = grounds.into_iter().max_by_key(|(_, times)| *times)?;
    let (alike, others): (Vec<_>, Vec<_>) = kind.iter().partition(|found| found.expectation.machines == machines);
    let within = |of: &[&Expected<'_>]| of.iter().filter(|found| found.fit == Fit::Within).count();
    let share = within(&alike) as f64 / alike.len() as f64;
    let word = match share {
        share if share >= USUAL => "Usual",
        share if share >= MOSTLY => "Mostly usual",
        _ => "Unusual",
    };
    let wider = match others.len() {
        0 => String::new(),
        all => format!(", and {} of {all} for wider kinds", within(&others)),
    };
    let far = [named(kind, Fit::Worse, "slower"), named(kind, Fit::Better, "faster")].concat();
    Some(format!("{word} for {machines} ({basis}): {} of {} costs{wider}{far}. ", within(&alike), alike.len()))
}

/// The costs outside of their ranges on one side, the furthest first, each with its factor.
fn named(found: &[Expected<'_>], fit: Fit, word: &str) -> String {
    let mut far: Vec<(&str, f64)> = found
        .iter()
        .filter(|found| found.fit == fit)
        .map(|found| (found.cost.name.as_str(), found.ratio.max(1.0 / found.ratio)))
        .collect();
    far.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let more = if far.len() > NAMED { ", …" } else { "" };
    let names: Vec<String> = far.iter().take(NAMED).map(|(name, by)| format!("{name} {}", factor(*by))).collect();
    if names.is_empty() { String::new() } else { format!(", {word}: {}{more}", names.join(", ")) }
}

/// The verdict of a quick run. Nothing is called settled that a longer run may find to be otherwise.
fn first_look(document: &Document, counts: &Standings, broken: bool) -> String {
    let all = counts.all();
    let settled = headlines(document).filter(|metric| is_settled(metric)).count();
    let of_all = count(all as u64, "headline result", "headline results");
    let mut text = on_other_machines(document);
    text += if broken { "Contradictory. " } else { "" };
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
        text += &format!(" {}.", agreement(document, counts));
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

/// What a run without `--quick` does beyond this run. It promises no grade: that depends on the host.
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
    let adds = match (document.run.left_out, &*left_out) {
        (Some(others), ids) => format!(" and adds {} experiments (`sysdyno list`)", others as usize + ids.len()),
        (None, []) => String::new(),
        (None, ids) => format!(" and adds {}", enumeration(ids)),
    };
    format!(" A run without --quick {longer}{adds}.")
}

/// The results that are slower than predicted, each with its ratio: first those among the costs of the screen. A size or a share has
/// its word.
fn slower(document: &Document, counts: &Standings) -> String {
    let costs = &document.costs;
    let of_costs = costs.iter().filter_map(|cost| Some((&cost.name, document.metric(&cost.metric, &cost.labels)?)));
    let others = headlines(document).filter(|metric| !document.is_cost(metric)).map(|metric| (&metric.phrase, metric));
    let slow = of_costs.chain(others).filter(|(_, metric)| metric.standing() == Standing::Slower);
    let slower = AgainstPrediction::Slower.word();
    let named = |(name, metric): (&String, &Metric)| {
        let ratio = metric.ratio()?;
        let word = Some(metric.against_word()).filter(|word| *word != slower).map(str::to_owned);
        let far = (ratio.max(1.0 / ratio) >= FAR).then(|| factor(ratio));
        let by: Vec<String> = word.into_iter().chain(far).collect();
        Some(if by.is_empty() { name.clone() } else { format!("{name} ({})", by.join(", ")) })
    };
    let named: Vec<String> = slow.filter_map(named).take(NAMED).collect();
    let word = if named.len() < counts.slower { "Slower, among others" } else { "Slower" };
    if named.is_empty() { String::new() } else { format!(" {word}: {}.", named.join(", ")) }
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
    use super::*;

    #[test]
    fn names_are_enumerated_as_in_a_sentence() {
        assert_eq!(enumeration(&["cpu"]), "cpu");
        assert_eq!(enumeration(&["cpu", "os", "file"]), "cpu, os and file");
    }
}
