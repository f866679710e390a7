//! The tables of gates and constants, as `sysdyno explain` prints them and docs/reference.md has them.

use super::constants::{self, Constant};
use super::memory::{buffer, streams};
use super::{TABLE, file, limits, network, os};
use crate::evaluate::gate::Rule;
use crate::evaluate::{findings, linearity, missing, others};
use crate::experiments::prelude::*;
use crate::results::verdict::Severity;

/// Rules that more than one experiment applies, and those of each experiment in the order of the report.
pub fn rules() -> Vec<&'static Rule> {
    let common = [gates::RULES, linearity::RULES, others::RULES, findings::RULES, missing::RULES];
    let shared =
        [os::children::RULES, os::operation::RULES, os::sweep::RULES, buffer::RULES, network::RULES, limits::RULES];
    let own = TABLE.iter().map(|experiment| experiment.rules);
    common.into_iter().chain(shared).chain(own).flatten().copied().collect()
}

/// Constants that more than one experiment uses, and those of each experiment in the order of the report.
pub fn all_constants() -> Vec<&'static Constant> {
    let shared = [constants::CONSTANTS, streams::CONSTANTS, network::CONSTANTS, file::CONSTANTS];
    let own = TABLE.iter().map(|experiment| experiment.constants);
    shared.into_iter().chain(own).flatten().collect()
}

/// Every rule with its constants, a row each.
pub fn gates() -> String {
    let mut text = "| id | rule | results | a failure |\n| --- | --- | --- | --- |\n".to_owned();
    for rule in rules() {
        let failure = match rule.severity {
            Severity::Hard => "hard",
            Severity::Contaminates => "contaminates",
            Severity::Disturbs => "disturbs",
            Severity::Noisy => "noisy",
            Severity::Remark => "remark",
        };
        text += &format!("| {} | {} | {} | {failure} |\n", rule.id, rule.demand(), rule.figures);
    }
    text
}

/// What is asked of the figures of each experiment, and how far they move between runs, a row each.
pub fn targets() -> String {
    let mut text =
        "| experiment | half of the interval of a good result, at most | between runs | with a neighbour all the time |\n\
         | --- | --- | --- | --- |\n"
            .to_owned();
    for experiment in TABLE {
        let of = experiment.precision;
        let [target, between, busy] = [of.target, of.between, of.busy].map(percent);
        text += &format!("| `{}` | {target} | {between} | {busy} |\n", experiment.id);
    }
    text
}

/// Every constant with its range and its source, a row each.
pub fn constants() -> String {
    let mut text = "| name | value | range | unit | source |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for Constant { name, value, low, high, unit, source } in all_constants() {
        let [value, low, high] = [value, low, high].map(|number| grouped(*number));
        text += &format!("| {name} | {value} | {low} to {high} | {unit} | {source} |\n");
    }
    text
}

/// A number whose digits stand in groups of three where it has five or more before the point.
fn grouped(number: f64) -> String {
    let text = number.to_string();
    if number < 10_000.0 {
        return text;
    }
    let digits = text.len();
    let spaced = text.char_indices().map(|(place, digit)| match (digits - place) % 3 {
        0 if place > 0 => format!(" {digit}"),
        _ => digit.to_string(),
    });
    spaced.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_are_grouped() {
        let texts = [0.35, 8000.0, 40_000.0, 1_200_000.0].map(grouped);
        assert_eq!(texts, ["0.35", "8000", "40 000", "1 200 000"]);
    }

    #[test]
    fn every_rule_says_all_its_constants() {
        for rule in rules() {
            assert_eq!(rule.demands.matches("{}").count(), rule.bounds.len(), "{}", rule.demands);
            assert!(!rule.demands.contains('|') && !rule.figures.is_empty(), "{}", rule.demands);
        }
    }
}
