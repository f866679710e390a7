//! The size of the sources: `tests/budgets.txt` has the most lines, files, constants and public types of each folder of `src/`.
//!
//! Growth beyond one per cent changes that file, so that it is seen and has a reason. Savings lower the budget, so that they last.
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::sources::{self, Source};

/// Set to write the budgets instead of comparing them.
const REGENERATE: &str = "SYSDYNO_WRITE_BUDGETS";
/// What a folder has a budget of. Comments and blank lines are free: a budget must not cost an explanation.
const COUNTED: [&str; 4] = ["lines of code", "files", "scalar constants", "public types"];
/// Types of constants with one value that an author chose.
const SCALARS: [&str; 15] =
    ["u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32", "f64", "Duration"];
/// Words that begin a type.
const TYPES: [&str; 5] = ["struct", "enum", "union", "trait", "type"];

type Counts = BTreeMap<String, [u64; COUNTED.len()]>;

fn place() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/budgets.txt")
}

/// The folder that a file counts to: a module, or a folder of `experiments`. Files of no folder are one entry.
fn folder(source: &Source) -> String {
    let parts: Vec<&str> = source.path.split('/').collect();
    let folders = &parts[..parts.len() - 1];
    match folders {
        [] => ".".to_owned(),
        ["experiments", part, ..] => format!("experiments/{part}"),
        [module, ..] => (*module).to_owned(),
    }
}

/// What a file adds to its folder. Tests are free.
fn counts(source: &Source) -> [u64; COUNTED.len()] {
    let texts = source.text.lines().take(source.tests_from.saturating_sub(1)).map(str::trim);
    let lines = texts.filter(|text| !text.is_empty() && !text.starts_with("//")).count();
    let code: Vec<&str> = source.working_lines().map(|(_, line)| line).collect();
    let constants = code.iter().filter(|line| {
        let declared = line.split_once("const ").and_then(|(_, rest)| rest.split_once(": "));
        declared.and_then(|(_, rest)| rest.split([' ', ';']).next()).is_some_and(|name| SCALARS.contains(&name))
    });
    let types = code.iter().filter(|line| {
        let mut words = line.split_whitespace();
        words.next().is_some_and(|word| word == "pub" || word.starts_with("pub("))
            && words.find(|word| *word != "unsafe").is_some_and(|word| TYPES.contains(&word))
    });
    [lines as u64, 1, constants.count() as u64, types.count() as u64]
}

fn today() -> Counts {
    let mut sums = Counts::new();
    for source in sources::all() {
        let sum = sums.entry(folder(&source)).or_default();
        for (sum, count) in sum.iter_mut().zip(counts(&source)) {
            *sum += count;
        }
    }
    sums
}

/// One per cent above a count. A small count has no room.
fn budget(count: u64) -> u64 {
    count + count / 100
}

/// Most that a budget may be for a count: five per cent above it, and one at least.
fn loose(count: u64) -> u64 {
    count + count.div_ceil(20).max(1)
}

/// The file of budgets for these counts.
fn written(counts: &Counts) -> String {
    let mut text = format!("# Budgets of each folder of src: {}. Test code is not counted.\n", COUNTED.join(", "));
    for (folder, counts) in counts {
        text += &format!("{folder:<24}");
        text += &counts.map(|count| format!("{:>7}", budget(count))).concat();
        text.push('\n');
    }
    text
}

fn read(text: &str) -> Counts {
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| {
        let mut words = row.split_whitespace();
        let folder = words.next().unwrap().to_owned();
        let numbers: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
        (folder, numbers.try_into().unwrap())
    })
    .collect()
}

/// Every count above its budget, and every budget far above its count.
fn faults(counts: &Counts, budgets: &Counts) -> Vec<String> {
    let folders: BTreeSet<&String> = counts.keys().chain(budgets.keys()).collect();
    let mut found = Vec::new();
    for folder in folders {
        let of = |table: &Counts| table.get(folder).copied().unwrap_or_default();
        for ((what, count), budget) in COUNTED.iter().zip(of(counts)).zip(of(budgets)) {
            if count > budget {
                found.push(format!("src/{folder} has {count} {what}, and its budget is {budget}"));
            } else if budget > loose(count) {
                found.push(format!("src/{folder} has only {count} {what}, so its budget of {budget} is lowered"));
            }
        }
    }
    found
}

#[test]
fn the_sources_are_within_their_budgets() {
    let counts = today();
    if std::env::var_os(REGENERATE).is_some() {
        fs::write(place(), written(&counts)).unwrap();
    }
    let found = faults(&counts, &read(&fs::read_to_string(place()).unwrap_or_default()));
    assert!(
        found.is_empty(),
        "\n{}\n\nFirst look for what the change makes superfluous. A commit that raises a budget changes tests/budgets.txt, and \
         its message says what the growth buys:\n{REGENERATE}=1 cargo test --test unmeasured budgets\n",
        found.join("\n")
    );
}

#[test]
fn growth_and_savings_change_a_budget() {
    let of = |lines: u64, files: u64| Counts::from([("rig".to_owned(), [lines, files, 0, 0])]);
    let budgets = read(&written(&of(1000, 10)));
    assert_eq!(budgets, of(1010, 10), "one per cent, and no room for a small count");
    for (lines, files, faulty) in [
        (1010, 10, false),
        (1011, 10, true),
        (1000, 11, true),
        (961, 10, false),
        (960, 10, true),
        (1000, 9, false),
        (1000, 8, true),
    ] {
        assert_eq!(!faults(&of(lines, files), &budgets).is_empty(), faulty, "{lines} lines, {files} files");
    }
    assert_eq!(faults(&of(1, 0), &Counts::new()), ["src/rig has 1 lines of code, and its budget is 0"]);
    assert!(!faults(&Counts::new(), &budgets).is_empty(), "a folder that is gone has no budget");
}

#[test]
fn code_is_counted_and_comments_and_tests_are_not() {
    let text = "//! A comment.\n\n/// A bound.\nconst MOST: f64 = 2.0;\npub const WAIT: Duration = LONG;\nconst NAME: &str = \"\n\
                const TEXT: u32 = 1;\";\nconst ALL: [u32; 2] = [1, 2];\npub struct Shown(u8);\nstruct Hidden;\n    pub(super) enum Way {}\n\
                pub unsafe trait Plain {}\npub fn pass() {}\n#[cfg(test)]\nmod tests {\n    const NONE: u64 = 0;\n}\n";
    let source = |path: &str| sources::source(path.to_owned(), text.to_owned());
    assert_eq!(counts(&source("rig/watch.rs")), [10, 1, 2, 3]);
    let folder = |path: &str| folder(&source(path));
    assert_eq!(folder("plan.rs"), ".");
    assert_eq!(folder("sys/arch/aarch64/mod.rs"), "sys");
    assert_eq!(folder("experiments/costs.rs"), "experiments");
    assert_eq!(folder("experiments/file/read/judge.rs"), "experiments/file");
}
