//! Checks between figures of different experiments (gate G40): what must hold on every machine, whichever experiment measured it.
//!
//! An experiment cannot see the figures after it, so these are applied to the finished report. Each check prints both of
//! its sides with the names of their records. A violation says that at least one figure is not what it is called; it does
//! not say which one. A check whose figures are not there says what is missing.

mod table;

use crate::experiments::phrases::phrase;
use crate::experiments::prelude::*;
use crate::results::document::{CheckOutcome, Comparison, CompositeCheck};

/// One rule and the comparisons that it consists of.
pub struct Invariant {
    /// Number.
    pub id: &'static str,
    /// In words.
    pub rule: &'static str,
    /// What is compared.
    pub pairs: &'static [Requirement],
}

/// Two sides and what must hold between them.
pub struct Requirement {
    left: &'static [Operand],
    relation: Relation,
    right: &'static [Operand],
}

/// What must hold between two sides.
enum Relation {
    /// Left is at least right, less a share of right.
    AtLeast(f64),
    /// Left is less than right.
    Below,
    /// Left is right within a share of right, or their intervals meet: what the figures themselves leave open does not count.
    Near(f64),
}

/// A part of a side; a side is the sum of its parts.
enum Operand {
    /// A factor times a figure.
    Figure(f64, FigureName),
    /// A factor times a figure in core cycles.
    Cycles(f64, FigureName),
    /// A factor times the time that a number of bytes takes at a rate.
    Transfer(f64, f64, FigureName),
    /// The rate at which a number of bytes passes in the time of a figure.
    Rate(f64, FigureName),
    /// A factor times the period of a frequency.
    Period(f64, FigureName),
    Number(f64, Unit),
    /// A fact about the machine.
    Machine(&'static str, fn(&Machine) -> Option<f64>),
}

/// A figure: its name and labels that it must have.
struct FigureName(&'static str, &'static [(&'static str, &'static str)]);

/// One side with its value.
struct CheckedSide {
    value: f64,
    /// What the intervals of its figures leave open.
    low: f64,
    high: f64,
    unit: Unit,
    text: String,
}

/// Every rule, applied to the figures of a run.
pub fn checks(metrics: &[&Metric], machine: &Machine) -> Vec<CompositeCheck> {
    table::RULES.iter().map(|rule| apply(rule, metrics, machine)).collect()
}

fn apply(rule: &Invariant, metrics: &[&Metric], machine: &Machine) -> CompositeCheck {
    let mut comparisons = Vec::new();
    let mut missing: Vec<String> = Vec::new();
    for pair in rule.pairs {
        match (side(pair.left, metrics, machine), side(pair.right, metrics, machine)) {
            (Ok(left), Ok(right)) => comparisons.push(compare(&left, &pair.relation, &right)),
            (left, right) => {
                for what in [left.err(), right.err()].into_iter().flatten() {
                    if !missing.contains(&what) {
                        missing.push(what);
                    }
                }
            }
        }
    }
    let outcome = if comparisons.iter().any(|made| !made.holds) {
        CheckOutcome::Violated
    } else if comparisons.is_empty() {
        CheckOutcome::NotApplicable
    } else {
        CheckOutcome::Holds
    };
    CompositeCheck { id: rule.id.to_owned(), rule: rule.rule.to_owned(), outcome, comparisons, missing }
}

fn compare(left: &CheckedSide, relation: &Relation, right: &CheckedSide) -> Comparison {
    let (holds, word) = match relation {
        Relation::AtLeast(slack) if *slack > 0.0 => {
            (left.value >= right.value * (1.0 - slack), format!("≥ (less {})", percent(*slack)))
        }
        Relation::AtLeast(_) => (left.value >= right.value, "≥".to_owned()),
        Relation::Below => (left.value < right.value, "<".to_owned()),
        Relation::Near(share) => {
            let near = (left.value - right.value).abs() <= share * right.value.abs();
            let meet = left.low <= right.high && right.low <= left.high;
            (near || meet, format!("≈ (±{}, or intervals overlap)", percent(*share)))
        }
    };
    let holds = holds && left.unit == right.unit;
    Comparison { left: left.text.clone(), relation: word, right: right.text.clone(), holds }
}

/// The sum of the parts, or the first figure that is not there.
fn side(parts: &[Operand], metrics: &[&Metric], machine: &Machine) -> Result<CheckedSide, String> {
    let mut texts = Vec::new();
    let (mut sum, mut below, mut above) = (0.0, 0.0, 0.0);
    let mut unit = Unit::One;
    let single = parts.len() == 1;
    for part in parts {
        let (value, of, text) = evaluate(part, metrics, machine)?;
        sum += value;
        let (less, more) = left_open(part, value, metrics);
        below += less;
        above += more;
        unit = of;
        texts.push(text);
    }
    // A figure that stands alone is written as everywhere.
    let alone = parts.first().filter(|_| single).and_then(|part| match part {
        Operand::Figure(1.0, wanted) => Some(wanted.find(metrics).ok()?.text()),
        _ => None,
    });
    let shown = alone.unwrap_or_else(|| quantity(sum, unit));
    let plain = single && texts.first().is_some_and(|text| *text == shown);
    let text = if plain { shown } else { format!("{} = {shown}", texts.join(" + ").replace("+ −", "− ")) };
    Ok(CheckedSide { value: sum, low: sum - below, high: sum + above, unit, text })
}

/// How far below and above its value a part may lie by the interval of its figure; nothing for what is not a figure by itself.
fn left_open(part: &Operand, value: f64, metrics: &[&Metric]) -> (f64, f64) {
    let (Operand::Figure(_, wanted) | Operand::Cycles(_, wanted)) = part else { return (0.0, 0.0) };
    let Ok(metric) = wanted.find(metrics) else { return (0.0, 0.0) };
    let share = |end: f64| (end / metric.value - 1.0) * value;
    let ends = metric.interval95.map(share);
    (-ends[0].min(ends[1]), ends[0].max(ends[1]))
}

fn evaluate(part: &Operand, metrics: &[&Metric], machine: &Machine) -> Result<(f64, Unit, String), String> {
    let times = |factor: f64, text: String| match factor {
        f if (f - 1.0).abs() < f64::EPSILON => text,
        f if (f + 1.0).abs() < f64::EPSILON => format!("−{text}"),
        f => format!("{f} × {text}"),
    };
    Ok(match part {
        Operand::Figure(factor, wanted) => {
            let metric = wanted.find(metrics)?;
            (factor * metric.value, metric.unit, times(*factor, named(&metric.name, &metric.labels)))
        }
        Operand::Cycles(factor, wanted) => {
            let metric = wanted.find(metrics)?;
            let cycles = metric.cycles.ok_or_else(|| format!("{} in cycles", named(&metric.name, &metric.labels)))?;
            (factor * cycles, Unit::Cycles, times(*factor, named(&metric.name, &metric.labels)))
        }
        Operand::Transfer(factor, bytes, wanted) => {
            let metric = wanted.find(metrics)?;
            let text = format!("{} / {}", quantity(*bytes, Unit::Bytes), named(&metric.name, &metric.labels));
            (factor * bytes / metric.value * 1e9, Unit::Nanoseconds, times(*factor, text))
        }
        Operand::Rate(bytes, wanted) => {
            let metric = wanted.find(metrics)?;
            let text = format!("{} / {}", quantity(*bytes, Unit::Bytes), named(&metric.name, &metric.labels));
            (bytes / metric.value * 1e9, Unit::BytesPerSecond, text)
        }
        Operand::Period(factor, wanted) => {
            let metric = wanted.find(metrics)?;
            (
                factor * 1e9 / metric.value,
                Unit::Nanoseconds,
                times(*factor, format!("1 / {}", named(&metric.name, &metric.labels))),
            )
        }
        Operand::Number(value, unit) => (*value, *unit, quantity(*value, *unit)),
        Operand::Machine(what, of) => {
            let value = of(machine).ok_or_else(|| (*what).to_owned())?;
            (value, Unit::Bytes, (*what).to_owned())
        }
    })
}

/// A figure in words, in quotation marks, because it can be a part of a sum.
fn named(metric: &str, labels: &Labels) -> String {
    format!("'{}'", phrase(metric, labels))
}

impl FigureName {
    /// The first figure with the name and at least the labels; its words where there is none.
    fn find<'a>(&self, metrics: &[&'a Metric]) -> Result<&'a Metric, String> {
        let wanted = self.1.iter().fold(Labels::none(), |labels, (key, value)| labels.with(key, value));
        metrics
            .iter()
            .find(|metric| metric.name == self.0 && metric.labels.includes(&wanted))
            .copied()
            .ok_or_else(|| named(self.0, &wanted))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn between(low: f64, value: f64, high: f64) -> CheckedSide {
        CheckedSide { value, low, high, unit: Unit::Nanoseconds, text: String::new() }
    }

    #[test]
    fn checks_name_results_in_words() {
        let machine = crate::machine::detect(Path::new("/proc/nonexistent"), Path::new("/"));
        let missing: Vec<String> = checks(&[], &machine).into_iter().flat_map(|check| check.missing).collect();
        assert!(missing.iter().any(|words| words == "'context switch without its system calls, same CPU, pipe'"));
        for words in missing {
            let key = words.split([' ', '(', ')', ',', '\'']).find(|word| word.matches('.').count() > 1);
            assert_eq!(key, None, "{words}");
        }
    }

    #[test]
    fn what_is_far_apart_is_a_violation_unless_the_intervals_meet() {
        let holds = |left: &CheckedSide, right: &CheckedSide| compare(left, &Relation::Near(0.1), right).holds;
        let right = between(95.0, 100.0, 105.0);
        assert!(holds(&between(91.0, 91.0, 91.0), &right), "within the share");
        assert!(!holds(&between(75.0, 80.0, 94.0), &right));
        assert!(holds(&between(75.0, 80.0, 96.0), &right), "the intervals meet");
        assert!(
            !compare(&between(75.0, 80.0, 96.0), &Relation::AtLeast(0.0), &right).holds,
            "no other relation is softened"
        );
    }
}
