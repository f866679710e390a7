//! Which of two or three machines is better at what: on one screen, and as a part of a page.

use super::fact;
use crate::report::page::{PagePart, Piece, Span, Table, Tone};
use crate::report::screen::{Line, PAGE, Screen, cut, row};
use crate::results::across::{AcrossCost, AcrossMachines};
use crate::results::comparison::Difference;
use crate::results::wording::{significant, some};

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

/// The screen, with what else differs between the machines.
pub fn screen(found: &AcrossMachines, differences: &[Difference], width: Option<u16>) -> Vec<Line> {
    let mut screen = Screen::new(width, false);
    for (place, machine) in found.machines.iter().enumerate() {
        screen.cut(&format!("{}  {machine}", AcrossMachines::letter(place)), Tone::Strong);
    }
    for found in differences.iter().take(FACTS).filter(|_| found.machines.len() == 2) {
        screen.cut(&format!("differs: {}", fact(&found.fact, &found.base, &found.new)), Tone::Faint);
    }
    let each = NAME + VALUE * found.machines.len() + ANSWER + 1;
    let across = (screen.wide / each).clamp(1, 2);
    let rows = found.costs.len().div_ceil(across);
    let letters: Vec<String> =
        (0..found.machines.len()).map(|place| AcrossMachines::letter(place).to_string()).collect();
    let head = cells("", &letters, "better", [Tone::Faint; 2]);
    screen.lines.push(vec![head; across].concat());
    for row in 0..rows {
        let costs = (0..across).filter_map(|column| found.costs.get(column * rows + row));
        screen.lines.push(costs.flat_map(cost_cells).collect());
    }
    for sentence in [better(found), uses(found), without(found)] {
        screen.say(&sentence, Tone::Plain, 5);
    }
    screen.say(&format!("= is not decided by these runs. All results: --all. {PAGE}"), Tone::Faint, 2);
    screen.lines
}

fn cost_cells(cost: &AcrossCost) -> Line {
    let values: Vec<String> = cost.values.iter().map(|value| significant(*value, cost.unit, 3)).collect();
    let tone = if cost.best.is_some() { Tone::Good } else { Tone::Faint };
    cells(&cost.cost, &values, &answer(cost), [Tone::Plain, tone])
}

/// A name, a text of each machine, and the answer, with the tones of both.
fn cells(name: &str, texts: &[String], answer: &str, [of_texts, of_answer]: [Tone; 2]) -> Line {
    let texts = texts.iter().map(|text| (text.as_str(), VALUE, of_texts));
    let end = [(answer, ANSWER, of_answer), (" ", 1, Tone::Plain)];
    row(&cut(name, NAME - 1), NAME, &texts.chain(end).collect::<Vec<_>>())
}

/// Which machine is better at what.
pub(super) fn part(found: &AcrossMachines) -> PagePart {
    let mut part = PagePart::new("machines", "Which machine is better at what", 2);
    let letters = found.machines.iter().enumerate();
    let names = letters.map(|(place, name)| vec![Span::plain(format!("{}: {name}", AcrossMachines::letter(place)))]);
    part.add(Piece::List(names.collect()));
    for text in [better(found), uses(found), without(found)] {
        part.say(text);
    }
    let letters: Vec<String> =
        (0..found.machines.len()).map(|place| format!(">{}", AcrossMachines::letter(place))).collect();
    let heads: Vec<&str> = ["cost"].into_iter().chain(letters.iter().map(String::as_str)).chain([">better"]).collect();
    let row = |cost: &AcrossCost| {
        let values = cost.values.iter().map(|value| significant(*value, cost.unit, 3));
        [cost.cost.clone()].into_iter().chain(values).chain([answer(cost)]).collect()
    };
    part.add(Piece::Table(Table::of_texts("", &heads, found.costs.iter().map(row))));
    part
}

/// Which machine is better at a cost, and by how much.
fn answer(cost: &AcrossCost) -> String {
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
fn better(found: &AcrossMachines) -> String {
    let one = |place: usize| {
        let costs = found.better_at(place);
        let named: Vec<String> = costs.iter().map(|cost| format!("{} {}", cost.cost, times(cost.ratio))).collect();
        let letter = AcrossMachines::letter(place);
        if named.is_empty() {
            format!("{letter} is better at none.")
        } else {
            format!("{letter} is better at {}.", some(&named, NAMED))
        }
    };
    (0..found.machines.len()).map(one).collect::<Vec<String>>().join(" ")
}

/// What could not be compared, by reasons.
fn without(found: &AcrossMachines) -> String {
    let reasons: Vec<String> =
        found.without.iter().map(|(reason, costs)| format!("{} ({reason})", costs.join(", "))).collect();
    if reasons.is_empty() { String::new() } else { format!("Not compared: {}.", reasons.join(", ")) }
}

/// Which one suits which use.
fn uses(found: &AcrossMachines) -> String {
    let one = |(work, costs): &(&str, &[&str])| {
        let (best, ratio) = found.best_for(costs)?;
        let answer =
            if ratio < EVEN { "even".to_owned() } else { format!("{} {}", AcrossMachines::letter(best), times(ratio)) };
        Some(format!("{work} {answer}"))
    };
    let found: Vec<String> = USES.iter().filter_map(one).collect();
    if found.is_empty() { String::new() } else { format!("By the mean of its costs, for {}.", found.join(", ")) }
}
