//! docs/reference.md has the tables of targets, gates, composite checks and constants that the code has, and docs/judging.md that of
//! mistakes.
use std::fs;
use std::path::Path;

use sysdyno::testing::experiments::{catalogue, consistency};
use sysdyno::testing::judge;
use sysdyno::testing::machine::detect;

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
