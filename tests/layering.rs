//! The layers: reads the sources and holds them to the ranks that `src/lib.rs` documents.
//!
//! A module imports only modules of a lower rank; unsafe code and assembly stand in `sys` alone; no renderer knows an
//! experiment; nobody but an experiment itself asks which experiment this is; files stay short and have names that say
//! something.
#![allow(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]

mod support;

use std::collections::BTreeMap;

use support::sources::{self, Source};
use sysdyno::experiments;

/// A file longer than this is two files.
const MOST_LINES: usize = 600;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 9] = ["utils", "util", "common", "helpers", "helper", "manager", "misc", "shared", "tools"];

/// Rank of every module, from the picture in `src/lib.rs`: `rank N`, then names and last a description, two blanks between.
fn ranks(library: &str) -> BTreeMap<String, u32> {
    let mut ranks = BTreeMap::new();
    for line in library.lines().filter_map(|line| line.strip_prefix("//! rank ")) {
        let (rank, rest) = line.split_once(' ').unwrap();
        let columns: Vec<&str> = rest.split("  ").map(str::trim).filter(|column| !column.is_empty()).collect();
        for name in &columns[..columns.len() - 1] {
            ranks.insert((*name).to_owned(), rank.parse().unwrap());
        }
    }
    ranks
}

/// Modules of the crate that a file names, with lines: by `crate::…`, by `sysdyno::…` and by climbing with `super::…`.
fn imports(source: &Source) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for root in ["crate::", "sysdyno::"] {
        for (position, _) in source.code.match_indices(root) {
            if !is_inside_a_word(&source.code, position) {
                let line = line_of(&source.code, position);
                found.extend(heads(&source.code[position + root.len()..]).into_iter().map(|head| (line, head)));
            }
        }
    }
    found.extend(climbs(source));
    found
}

/// `super::` repeated often enough to reach the root of the crate.
fn climbs(source: &Source) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let depth = source.module_path().len();
    let mut after = 0;
    for (position, _) in source.code.match_indices("super::") {
        if position < after || is_inside_a_word(&source.code, position) {
            continue;
        }
        let mut rest = &source.code[position..];
        let mut levels = 0;
        while let Some(next) = rest.strip_prefix("super::") {
            rest = next;
            levels += 1;
        }
        after = source.code.len() - rest.len();
        let line = line_of(&source.code, position);
        // The tests of a file are a module below it.
        let here = depth + usize::from(line >= source.tests_from);
        if levels >= here {
            found.extend(heads(rest).into_iter().map(|head| (line, head)));
        }
    }
    found
}

/// First names of a path: one, or one for each branch of a group.
fn heads(path: &str) -> Vec<String> {
    let name =
        |text: &str| text.trim().chars().take_while(|&letter| letter.is_alphanumeric() || letter == '_').collect();
    let Some(group) = path.strip_prefix('{') else { return vec![name(path)] };
    let (mut level, mut names, mut start) = (0_i32, Vec::new(), 0);
    for (position, letter) in group.char_indices() {
        match letter {
            '{' => level += 1,
            '}' if level == 0 => {
                names.push(name(&group[start..position]));
                break;
            }
            '}' => level -= 1,
            ',' if level == 0 => {
                names.push(name(&group[start..position]));
                start = position + 1;
            }
            _ => {}
        }
    }
    names.into_iter().filter(|name: &String| !name.is_empty()).collect()
}

fn is_inside_a_word(code: &str, position: usize) -> bool {
    code[..position].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_')
}

fn line_of(code: &str, position: usize) -> usize {
    code[..position].matches('\n').count() + 1
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

fn complain(violations: &[String]) {
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
}

#[test]
fn every_module_of_the_crate_has_its_rank() {
    let sources = sources::all();
    let library = sources.iter().find(|source| source.path == "lib.rs").unwrap();
    let mut declared: Vec<&str> =
        library.code.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    declared.sort_unstable();
    let ranks = ranks(&library.text);
    let ranked: Vec<&str> = ranks.keys().map(String::as_str).collect();
    assert_eq!(declared, ranked, "the picture in src/lib.rs and its `pub mod` lines name the same modules");
    assert!(ranks["sys"] == 0 && ranks["cli"] > ranks["experiments"], "{ranks:?}");
}

#[test]
fn modules_import_lower_ranks_only() {
    let sources = sources::all();
    let ranks = ranks(&sources.iter().find(|source| source.path == "lib.rs").unwrap().text);
    let mut violations = Vec::new();
    let mut seen = 0;
    for source in sources.iter().filter(|source| !["lib", "main"].contains(&source.module())) {
        for (line, imported) in imports(source) {
            let (own, other) = (ranks[source.module()], ranks.get(&imported));
            seen += 1;
            if imported != source.module() && other.is_none_or(|&other| other >= own) {
                violations.push(format!(
                    "src/{}:{line}: {} (rank {own}) imports {imported} (rank {})",
                    source.path,
                    source.module(),
                    other.map_or_else(|| "none: import the module, not the crate's root".to_owned(), u32::to_string),
                ));
            }
        }
    }
    assert!(seen > 100, "only {seen} imports were found: the test does not see them any more");
    complain(&violations);
}

#[test]
fn the_binary_calls_the_command_line_and_nothing_else() {
    let sources = sources::all();
    let main = sources.iter().find(|source| source.path == "main.rs").unwrap();
    assert!(imports(main).iter().all(|(_, module)| module == "cli"), "{:?}", imports(main));
}

#[test]
fn the_reading_of_imports_sees_every_form() {
    let text = "use crate::sys::{clock, arch};\nuse crate::{machine::Cpu, rig::{self, order}};\nfn f() { $crate::plan::x() }\n\
                // use crate::cli;\nconst T: &str = \"crate::report\";\nuse super::statistics;\nuse super::super::conduct;\n\
                #[cfg(test)]\nmod tests { use super::*; use super::super::assemble; }\n";
    let source = sources::source("evaluate/mod.rs".to_owned(), text.to_owned());
    let found: Vec<String> = imports(&source).into_iter().map(|(_, module)| module).collect();
    assert_eq!(found, ["sys", "machine", "rig", "plan", "statistics", "conduct", "assemble"]);
}

#[test]
fn unsafe_code_and_assembly_stand_in_sys_only() {
    let mut violations = Vec::new();
    for source in sources::all().iter().filter(|source| source.module() != "sys") {
        for (index, line) in source.code.lines().enumerate() {
            let forbidden = ["unsafe", "unsafe_code", "asm", "naked_asm", "global_asm", "naked", "transmute"];
            if let Some(word) = words(line).find(|word| forbidden.contains(word)) {
                violations.push(format!("src/{}:{}: {word}", source.path, index + 1));
            }
        }
    }
    complain(&violations);
}

#[test]
fn no_renderer_knows_an_experiment() {
    let names: Vec<&str> = experiments::TABLE
        .iter()
        .flat_map(|experiment| experiment.publishes.iter().map(|publication| publication.metric).chain([experiment.id]))
        .collect();
    let mut violations = Vec::new();
    for source in sources::all().iter().filter(|source| source.module() == "report") {
        for (line, literal) in source.strings.iter().filter(|(line, _)| *line < source.tests_from) {
            if let Some(name) = names.iter().find(|name| literal.contains(*name)) {
                violations.push(format!("src/{}:{line}: a renderer mentions {name}", source.path));
            }
        }
    }
    complain(&violations);
}

#[test]
fn nobody_asks_which_experiment_this_is() {
    let mut violations = Vec::new();
    for source in sources::all() {
        for (line, literal) in source.strings.iter().filter(|(line, _)| *line < source.tests_from) {
            let named = experiments::TABLE.iter().find(|experiment| experiment.id == literal);
            if let Some(experiment) = named.filter(|experiment| experiment.source != source.text) {
                violations.push(format!("src/{}:{line}: \"{}\" outside its own file", source.path, experiment.id));
            }
        }
    }
    complain(&violations);
}

#[test]
fn files_are_short_and_have_names_that_say_something() {
    let mut violations = Vec::new();
    for source in sources::all() {
        let lines = source.text.lines().count();
        if lines > MOST_LINES {
            violations.push(format!("src/{}: {lines} lines; more than {MOST_LINES} are two files", source.path));
        }
        if let Some(name) = source.module_path().iter().find(|name| EMPTY_NAMES.contains(name)) {
            violations.push(format!("src/{}: {name} says nothing about what is inside", source.path));
        }
        if !source.text.starts_with("//!") {
            violations.push(format!("src/{}: no comment at its top says what it is for", source.path));
        }
    }
    complain(&violations);
}
