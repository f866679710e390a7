//! Which of two or three machines is better at what, on one screen.

use super::screen::{Ink, Line, cut, folded};
use crate::results::across::{AcrossCost, AcrossMachines};
use crate::results::comparison::Comparison;
use crate::results::wording::significant;

/// Width where there is no terminal.
const WIDTH: u16 = 80;
/// Columns of the name of a cost, of a value, and of the answer.
const NAME: usize = 17;
const VALUE: usize = 10;
const ANSWER: usize = 9;
/// Facts that are named, and costs of a machine in the last sentence.
const FACTS: usize = 4;
const NAMED: usize = 5;
/// Ratios below this are even.
const EVEN: f64 = 1.05;

/// What machines are used for, and the costs that such work has most of.
const USES: [(&str, &[&str]); 4] = [
    ("a database", &["system call", "memory load", "TCP, 2 CPUs", "4 KiB from disk", "disk, 32 deep"]),
    ("many small processes", &["fork + wait", "fork + exec", "page fault", "switch, same CPU"]),
    ("computation in caches", &["loop iteration", "function call", "L1 load", "L2 load", "L3 load"]),
    ("streams of data", &["memory read", "TCP throughput", "4 KiB cached"]),
];

/// The screen.
pub fn screen(found: &AcrossMachines, comparison: &Comparison, width: Option<u16>) -> Vec<Line> {
    let wide = usize::from(width.unwrap_or(WIDTH)).max(60);
    let mut lines: Vec<Line> = Vec::new();
    for (place, machine) in found.machines.iter().enumerate() {
        lines.push(vec![(cut(&format!("{}  {machine}", AcrossMachines::letter(place)), wide), Ink::Strong)]);
    }
    let facts = comparison.differences.iter().take(FACTS);
    let facts: Vec<String> = facts.map(|found| format!("{}: {} → {}", found.fact, found.base, found.new)).collect();
    for fact in facts.iter().filter(|_| found.machines.len() == 2) {
        lines.push(vec![(cut(&format!("differs: {fact}"), wide), Ink::Faint)]);
    }
    let each = NAME + VALUE * found.machines.len() + ANSWER + 1;
    let across = (wide / each).clamp(1, 2);
    let rows = found.costs.len().div_ceil(across);
    let letters: Vec<String> =
        (0..found.machines.len()).map(|place| format!("{:>VALUE$}", AcrossMachines::letter(place))).collect();
    let head = letters.concat();
    let head = format!("{:NAME$}{head}{:>ANSWER$} ", "", "better");
    lines.push(vec![(head.repeat(across).trim_end().to_owned(), Ink::Faint)]);
    for row in 0..rows {
        let cells = (0..across).filter_map(|column| found.costs.get(column * rows + row));
        lines.push(cells.flat_map(cell).collect());
    }
    for sentence in [better(found), uses(found), without(found)] {
        lines.extend(folded(&sentence, wide, "", Ink::Plain, 5));
    }
    let end = "= is not decided by these runs. All results: --all. A page: --format html -o FILE";
    lines.extend(folded(end, wide, "", Ink::Faint, 2));
    lines
}

fn cell(cost: &AcrossCost) -> Line {
    let values: Vec<String> =
        cost.values.iter().map(|value| format!("{:>VALUE$}", significant(*value, cost.unit, 3))).collect();
    let (answer, ink) = (answer(cost), if cost.best.is_some() { Ink::Notable } else { Ink::Faint });
    vec![
        (format!("{:NAME$}", cut(&cost.cost, NAME - 1)), Ink::Plain),
        (values.concat(), Ink::Plain),
        (format!("{answer:>ANSWER$} "), ink),
    ]
}

/// Which machine is better at a cost, and by how much.
pub fn answer(cost: &AcrossCost) -> String {
    match cost.best {
        None => "=".to_owned(),
        Some(place) => format!("{} {}", AcrossMachines::letter(place), times(cost.ratio)),
    }
}

/// A ratio with two digits behind the point, or one from 10 on.
fn times(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.2}×") } else { format!("{ratio:.0}×") }
}

/// What each machine is better at.
pub fn better(found: &AcrossMachines) -> String {
    let one = |place: usize| {
        let costs = found.better_at(place);
        let named: Vec<String> =
            costs.iter().take(NAMED).map(|cost| format!("{} {}", cost.cost, times(cost.ratio))).collect();
        let more = if costs.len() > NAMED { format!(" and {} more", costs.len() - NAMED) } else { String::new() };
        let letter = AcrossMachines::letter(place);
        if named.is_empty() {
            format!("{letter} is better at none.")
        } else {
            format!("{letter} is better at {}{more}.", named.join(", "))
        }
    };
    (0..found.machines.len()).map(one).collect::<Vec<String>>().join(" ")
}

/// What could not be compared, by reasons.
pub fn without(found: &AcrossMachines) -> String {
    let reasons: Vec<String> =
        found.without.iter().map(|(reason, costs)| format!("{} ({reason})", costs.join(", "))).collect();
    if reasons.is_empty() { String::new() } else { format!("Not compared: {}.", reasons.join(", ")) }
}

/// Which one suits which use.
pub fn uses(found: &AcrossMachines) -> String {
    let one = |(work, costs): &(&str, &[&str])| {
        let (best, ratio) = found.best_for(costs)?;
        let answer =
            if ratio < EVEN { "even".to_owned() } else { format!("{} {}", AcrossMachines::letter(best), times(ratio)) };
        Some(format!("{work} {answer}"))
    };
    let found: Vec<String> = USES.iter().filter_map(one).collect();
    if found.is_empty() { String::new() } else { format!("By the mean of its costs, for {}.", found.join(", ")) }
}
