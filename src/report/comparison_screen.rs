//! The answer to a comparison on one screen: what changed, what else differs, and what would decide the rest.

use super::across_screen;
use super::content::comparison::{
    advice, clocks, machine, not_compared, of_both_signs, range, rounds, signed, verdict, visible,
};
use super::screen::{Ink, Line, cut, cut_before, folded};
use crate::results::comparison::{ComparedResult, ComparedRun, Comparison, Finding};
use crate::results::wording::{count, measured};

/// Width where there is no terminal.
const WIDTH: u16 = 80;
/// Most groups of changes, differences and results.
const GROUPS: usize = 6;
const DIFFERENCES: usize = 4;
const RESULTS: usize = 10;
/// Widths of the columns of results: change, base and new.
const NUMBERS: usize = 38;

/// The screen; with `all`, every result.
pub fn screen(comparison: &Comparison, width: Option<u16>, all: bool) -> Vec<Line> {
    if let Some(found) = comparison.across_machines.as_ref().filter(|_| !all) {
        return across_screen::screen(found, comparison, width);
    }
    let wide = usize::from(width.unwrap_or(WIDTH)).max(60);
    let mut lines = folded(&verdict(comparison), wide, "", Ink::Strong, 2);
    let [base, new] = match &comparison.alternation {
        None => [&comparison.base, &comparison.new].map(|runs| match machine(comparison, runs) {
            Some(machine) => format!("{machine}: {}", side(runs)),
            None => side(runs),
        }),
        Some(conditions) => [conditions.base.clone(), conditions.new.clone()],
    };
    for (name, side) in [("base", base), ("new ", new)] {
        lines.push(vec![(cut(&format!("{name}  {side}"), wide), Ink::Faint)]);
    }
    if let Some(conditions) = &comparison.alternation {
        lines.push(vec![(cut(&format!("      {}.", rounds(conditions)), wide), Ink::Faint)]);
    }
    if comparison.across {
        lines.extend(folded("The runs are not of one machine, one peer and one method.", wide, "", Ink::Bad, 2));
    }
    for difference in comparison.differences.iter().take(if all { usize::MAX } else { DIFFERENCES }) {
        let text = format!("differs: {}: {} → {}", difference.fact, difference.base, difference.new);
        lines.extend(folded(&text, wide, "", Ink::Plain, 2));
    }
    if comparison.differences.is_empty() {
        lines.push(vec![(
            "Machine, kernel and conditions are the same, as far as the records say.".to_owned(),
            Ink::Plain,
        )]);
    }
    if let Some(clocks) = clocks(comparison) {
        lines.extend(folded(&clocks, wide, "", Ink::Plain, 2));
    }
    for group in of_both_signs(comparison.groups.iter().collect(), GROUPS, |group| group.finding) {
        let results = count(u64::from(group.results), "result", "results");
        let ink = if group.finding == Finding::Worse { Ink::Bad } else { Ink::Notable };
        let word = if group.finding == Finding::Worse { "worse " } else { "better" };
        lines.push(vec![
            (format!("{word}  "), ink),
            (cut_before(&group.what, &format!(": {} ({results})", range(group.range)), wide - 8), Ink::Plain),
        ]);
    }
    let wanted = |row: &&ComparedResult| all || row.headline && row.is_changed();
    let rows: Vec<&ComparedResult> = comparison.rows.iter().filter(wanted).collect();
    let rows = if all { rows } else { of_both_signs(rows, RESULTS, |row| row.finding) };
    if !rows.is_empty() {
        lines.push(heading(wide));
        lines.extend(rows.iter().map(|row| line(row, wide)));
    }
    if let Some(visible) = visible(comparison) {
        lines.extend(folded(&visible, wide, "", Ink::Faint, 2));
    }
    if let Some(advice) = advice(comparison) {
        lines.extend(folded(&advice, wide, "", Ink::Faint, 2));
    }
    if !comparison.not_compared.is_empty() && all {
        lines.push(vec![(format!("{} not compared:", comparison.not_compared.len()), Ink::Plain)]);
        for found in &comparison.not_compared {
            let text = format!("  {} {}: {}", found.metric, found.labels, found.reason);
            lines.push(vec![(cut(&text, wide), Ink::Faint)]);
        }
    }
    if !all {
        let apart = not_compared(comparison).map(|apart| format!(" {apart}.")).unwrap_or_default();
        let text = match comparison.rows.len() as u64 {
            0 if apart.is_empty() => String::new(),
            0 => format!("{} All of them: --all", apart.trim_start()),
            results => {
                format!("All {}: --all.{apart} A page: --format html -o FILE", count(results, "result", "results"))
            }
        };
        lines.extend(folded(&text, wide, "", Ink::Faint, 3));
    }
    lines
}

fn side(runs: &[ComparedRun]) -> String {
    match runs {
        [run] => format!("{} ({}, {}, CPU {})", run.place, run.started, run.profile, run.cpu),
        [first, .., last] => {
            format!("{}, {} … {}", count(runs.len() as u64, "run", "runs"), first.place, last.place)
        }
        [] => String::new(),
    }
}

fn heading(wide: usize) -> Line {
    let name = wide.saturating_sub(NUMBERS);
    vec![(format!("{:name$}{:>10} {:>11}{:>9}", "", "base", "new", "change"), Ink::Faint)]
}

fn line(row: &ComparedResult, wide: usize) -> Line {
    let name = wide.saturating_sub(NUMBERS);
    let value = |side: &crate::results::comparison::SideValue| measured(side.value, side.interval, row.unit);
    let (ink, mark) = match row.finding {
        Finding::Worse => (Ink::Bad, "worse"),
        Finding::Better => (Ink::Notable, "better"),
        Finding::Inconclusive => (Ink::Faint, "?"),
        Finding::Equivalent => (Ink::Plain, "="),
    };
    vec![
        (
            format!(
                "{:name$}{:>10} {:>11}",
                cut(&row.phrase, name.saturating_sub(1)),
                value(&row.base),
                value(&row.new)
            ),
            Ink::Plain,
        ),
        (format!("{:>9} {mark}", signed(row.change)), ink),
    ]
}
