//! METHODOLOGY.md has the tables of gates and constants that the code has.
use std::fs;
use std::path::Path;

use sysdyno::testing::experiments::catalogue;

/// Set to write the tables instead of comparing them.
const REGENERATE: &str = "SYSDYNO_WRITE_METHODOLOGY";

#[test]
fn the_tables_are_what_the_code_says() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("METHODOLOGY.md");
    let mut text = fs::read_to_string(&place).unwrap();
    let before = text.clone();
    let tables =
        [("gates", catalogue::gates()), ("targets", catalogue::targets()), ("constants", catalogue::constants())];
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
    assert!(before == text, "METHODOLOGY.md has other tables than the code. {hint}");
}
