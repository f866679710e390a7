//! Checks between figures of different experiments (gate G40): what must hold on every machine, whichever experiment measured it.
//!
//! An experiment cannot see the figures after it, so these are applied to the finished report. Each check prints both of
//! its sides with the names of their records. A violation says that at least one figure is not what it is called; it does
//! not say which one. A check whose figures are not there says what is missing.

mod table;

use crate::experiments::figure_name::FigureName;
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
#[derive(Debug, Clone, Copy)]
pub enum Operand {
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
    /// A number.
    Number(f64, Unit),
    /// A fact about the machine, in bytes.
    Machine(&'static str, fn(&Machine) -> Option<f64>),
}

/// A part, or a side, with its value.
pub struct Evaluated<'a> {
    /// Its value.
    pub value: f64,
    /// What the intervals of its figures leave open. The value alone for what is not a figure by itself.
    pub interval: [f64; 2],
    unit: Unit,
    text: String,
    /// The figure that it is of.
    pub figure: Option<&'a Metric>,
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

fn compare(left: &Evaluated<'_>, relation: &Relation, right: &Evaluated<'_>) -> Comparison {
    let (holds, word) = match relation {
        Relation::AtLeast(slack) if *slack > 0.0 => {
            (left.value >= right.value * (1.0 - slack), format!("≥ (less {})", percent(*slack)))
        }
        Relation::AtLeast(_) => (left.value >= right.value, "≥".to_owned()),
        Relation::Below => (left.value < right.value, "<".to_owned()),
        Relation::Near(share) => {
            let near = (left.value - right.value).abs() <= share * right.value.abs();
            let meet = left.interval[0] <= right.interval[1] && right.interval[0] <= left.interval[1];
            (near || meet, format!("≈ (±{}, or intervals overlap)", percent(*share)))
        }
    };
    let holds = holds && left.unit == right.unit;
    Comparison { left: left.text.clone(), relation: word, right: right.text.clone(), holds }
}

/// The sum of the parts, or the first figure that is not there.
fn side<'a>(parts: &[Operand], metrics: &[&'a Metric], machine: &Machine) -> Result<Evaluated<'a>, String> {
    let parts = parts.iter().map(|part| Ok((part, part.evaluate(metrics, machine)?)));
    let parts = parts.collect::<Result<Vec<_>, String>>()?;
    let sum = |of: fn(&Evaluated<'_>) -> f64| parts.iter().map(|(_, part)| of(part)).sum::<f64>();
    let (value, interval) = (sum(|part| part.value), [sum(|part| part.interval[0]), sum(|part| part.interval[1])]);
    let unit = parts.last().map_or(Unit::One, |(_, part)| part.unit);
    // A figure that stands alone is written as everywhere.
    let shown = match &parts[..] {
        [(Operand::Figure(1.0, _), Evaluated { figure: Some(figure), .. })] => figure.text(),
        _ => quantity(value, unit),
    };
    let texts: Vec<&str> = parts.iter().map(|(_, part)| part.text.as_str()).collect();
    let text =
        if texts == [&shown] { shown } else { format!("{} = {shown}", texts.join(" + ").replace("+ −", "− ")) };
    Ok(Evaluated { value, interval, unit, text, figure: None })
}

impl Operand {
    /// A figure by itself.
    pub const fn one(figure: FigureName) -> Self {
        Operand::Figure(1.0, figure)
    }

    /// A figure by itself, by its name.
    pub const fn of(figure: &'static str) -> Self {
        Operand::one(FigureName::of(figure))
    }

    /// Its value, or what is not there.
    pub fn evaluate<'a>(&self, metrics: &[&'a Metric], machine: &Machine) -> Result<Evaluated<'a>, String> {
        let exact = |value, unit, text| Evaluated { value, interval: [value; 2], unit, text, figure: None };
        let (factor, wanted) = match *self {
            Operand::Number(value, unit) => return Ok(exact(value, unit, quantity(value, unit))),
            Operand::Machine(what, of) => {
                let value = of(machine).ok_or_else(|| what.to_owned())?;
                return Ok(exact(value, Unit::Bytes, what.to_owned()));
            }
            Operand::Rate(_, wanted) => (1.0, wanted),
            Operand::Figure(factor, wanted)
            | Operand::Cycles(factor, wanted)
            | Operand::Transfer(factor, _, wanted)
            | Operand::Period(factor, wanted) => (factor, wanted),
        };
        let figure = wanted.find(metrics.iter().copied());
        let figure = figure.ok_or_else(|| named(wanted.metric(), &wanted.usual_labels()))?;
        let name = named(&figure.name, &figure.labels);
        let over = |bytes| (bytes / figure.value * 1e9, format!("{} / {name}", quantity(bytes, Unit::Bytes)));
        let ((value, text), unit) = match *self {
            Operand::Cycles(..) => {
                let cycles = figure.cycles.ok_or_else(|| format!("{name} in cycles"))?;
                ((cycles, name), Unit::Cycles)
            }
            Operand::Transfer(_, bytes, _) => (over(bytes), Unit::Nanoseconds),
            Operand::Rate(bytes, _) => (over(bytes), Unit::BytesPerSecond),
            Operand::Period(..) => ((1e9 / figure.value, format!("1 / {name}")), Unit::Nanoseconds),
            _ => ((figure.value, name), figure.unit),
        };
        let text = match factor {
            1.0 => text,
            -1.0 => format!("−{text}"),
            _ => format!("{factor} × {text}"),
        };
        let value = factor * value;
        let interval = match self {
            Operand::Figure(..) | Operand::Cycles(..) => figure.interval95.map(|end| end / figure.value * value),
            _ => [value; 2],
        };
        let interval = [interval[0].min(interval[1]), interval[0].max(interval[1])];
        Ok(Evaluated { value, interval, unit, text, figure: Some(figure) })
    }
}

/// A figure in words, in quotation marks, because it can be a part of a sum.
fn named(metric: &str, labels: &Labels) -> String {
    format!("'{}'", phrase(metric, labels))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn between(low: f64, value: f64, high: f64) -> Evaluated<'static> {
        Evaluated { value, interval: [low, high], unit: Unit::Nanoseconds, text: String::new(), figure: None }
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
        let holds = |left: &Evaluated<'_>, right: &Evaluated<'_>| compare(left, &Relation::Near(0.1), right).holds;
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
