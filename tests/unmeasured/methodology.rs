//! docs/reference.md has the tables of targets, gates, composite checks and constants that the code has, docs/judging.md that of
//! mistakes, and docs/course.md the costs of the catalogue.
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use sysdyno::testing::catalogue::{Entry, built_in};
use sysdyno::testing::experiments::{catalogue, consistency, costs::asked};
use sysdyno::testing::judge;
use sysdyno::testing::machine::detect;
use sysdyno::testing::results::quantity::Unit;
use sysdyno::testing::results::wording::rough;

/// Set to write the tables instead of comparing them.
const REGENERATE: &str = "SYSDYNO_WRITE_METHODOLOGY";

/// Every composite check, a row each.
fn checks() -> String {
    let machine = detect(Path::new("/proc/nonexistent"), Path::new("/"));
    let mut text = "| id | rule |\n| --- | --- |\n".to_owned();
    for check in consistency::checks(&[], &machine) {
        text += &format!("| {} | {} |\n", check.id, check.rule);
    }
    text
}

/// Costs of the catalogue, a row each, with a column for each core design: the value, or the least and the largest of its machines.
fn costs_by_design() -> String {
    let mut designs: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for entry in built_in() {
        designs.entry(&entry.kind.design).or_default().push(entry);
    }
    let mut text = format!("| cost | {} |\n", designs.keys().copied().collect::<Vec<_>>().join(" | "));
    text += &format!("|{}\n", " --- |".repeat(designs.len() + 1));
    let cell = |machines: &Vec<&Entry>, cost: &str| {
        let mut found: Vec<(Unit, f64)> =
            machines.iter().filter_map(|entry| entry.shown(cost)).map(|(unit, [_, value, _])| (unit, value)).collect();
        found.sort_by(|one, other| one.1.total_cmp(&other.1));
        let (Some(&(unit, least)), Some(&(_, most))) = (found.first(), found.last()) else { return "–".to_owned() };
        let [least, most] = [least, most].map(|value| rough(value, unit));
        if least == most { least } else { format!("{least} to {most}") }
    };
    for cost in asked().filter(|cost| designs.values().any(|machines| cell(machines, cost.name) != "–")) {
        let cells: Vec<String> = designs.values().map(|machines| cell(machines, cost.name)).collect();
        text += &format!("| {} | {} |\n", cost.name, cells.join(" | "));
    }
    text
}

#[test]
fn the_tables_are_what_the_code_says() {
    let tables = [
        ("targets", catalogue::targets()),
        ("gates", catalogue::gates()),
        ("checks", checks()),
        ("constants", catalogue::constants()),
    ];
    compare("docs/reference.md", &tables);
    compare("docs/judging.md", &[("mistakes", judge::mistakes())]);
    compare("docs/course.md", &[("costs", costs_by_design())]);
}

/// Whether a page has these tables, each between its marks.
fn compare(page: &str, tables: &[(&str, String)]) {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let mut text = fs::read_to_string(&place).unwrap();
    let before = text.clone();
    for (name, table) in tables {
        let [begin, end] = ["begin", "end"].map(|side| format!("<!-- {name}: {side} -->"));
        let from = text.find(&begin).unwrap_or_else(|| panic!("no {begin}")) + begin.len();
        let to = text.find(&end).unwrap_or_else(|| panic!("no {end}"));
        text.replace_range(from..to, &format!("\n{table}"));
    }
    if std::env::var_os(REGENERATE).is_some() {
        fs::write(&place, &text).unwrap();
        return;
    }
    let hint = format!("If the change is meant: {REGENERATE}=1 cargo test --test unmeasured methodology");
    assert!(before == text, "{page} has other tables than the code. {hint}");
}
