//! The layers: reads the sources and holds them to the ranks that `src/lib.rs` documents.
//!
//! A module imports only modules of a lower rank. No files import each other in a circle. Unsafe code and assembly stand in
//! `sys` alone. No renderer knows an experiment, and only an experiment itself asks which experiment this is. Files stay
//! short and have names that say something.
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::support::sources::{self, Source};
use crate::support::trees;
use sysdyno::testing::experiments;

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

/// Paths inside the crate that a file names, with lines: by `crate::…`, by `sysdyno::…`, by `self::…` and `super::…`.
fn imports(source: &Source) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for root in ["crate::", "sysdyno::", "self::", "super::"] {
        for (position, _) in source.code.match_indices(root) {
            if is_inside_a_word(&source.code, position) || source.code[..position].ends_with("super::") {
                continue;
            }
            let line = line_of(&source.code, position);
            let mut base: Vec<String> = match root {
                "crate::" | "sysdyno::" => Vec::new(),
                _ => source.module_path().iter().map(ToString::to_string).collect(),
            };
            // The tests of a file are a module below it.
            if !base.is_empty() && line >= source.tests_from {
                base.push("tests".to_owned());
            }
            let mut rest = &source.code[position..];
            while let Some(above) = rest.strip_prefix("super::") {
                rest = above;
                base.pop();
            }
            let rest = rest.strip_prefix(root).unwrap_or(rest);
            found.extend(paths(rest).into_iter().map(|path| (line, [base.clone(), path].concat())));
        }
    }
    found
}

/// The paths at the beginning of a text: one, or one for each branch of a group.
fn paths(text: &str) -> Vec<Vec<String>> {
    let text = text.trim_start();
    if let Some(group) = text.strip_prefix('{') {
        return branches(group).into_iter().flat_map(paths).collect();
    }
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len());
    let (name, rest) = (text[..end].to_owned(), text[end..].strip_prefix("::").map_or_else(Vec::new, paths));
    match (name.is_empty(), rest.is_empty()) {
        (true, _) => Vec::new(),
        (false, true) => vec![vec![name]],
        (false, false) => rest.into_iter().map(|path| [vec![name.clone()], path].concat()).collect(),
    }
}

/// The branches of a group, up to its closing brace.
fn branches(group: &str) -> Vec<&str> {
    let (mut level, mut branches, mut start) = (0_i32, Vec::new(), 0);
    for (position, letter) in group.char_indices() {
        let ends = level == 0 && (letter == ',' || letter == '}');
        if ends {
            branches.push(&group[start..position]);
            start = position + 1;
        }
        match letter {
            '{' => level += 1,
            '}' if ends => break,
            '}' => level -= 1,
            _ => {}
        }
    }
    branches
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
        library.code.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';')).collect();
    declared.sort_unstable();
    let ranks = ranks(&library.text);
    let ranked: Vec<&str> = ranks.keys().map(String::as_str).collect();
    assert_eq!(declared, ranked, "the picture in src/lib.rs and its `mod` lines name the same modules");
    assert!(ranks["sys"] == 0 && ranks["cli"] > ranks["experiments"], "{ranks:?}");
}

#[test]
fn modules_import_lower_ranks_only() {
    let sources = sources::all();
    let ranks = ranks(&sources.iter().find(|source| source.path == "lib.rs").unwrap().text);
    let mut violations = Vec::new();
    let mut seen = 0;
    for source in sources.iter().filter(|source| !["lib", "main", "testing"].contains(&source.module())) {
        for (line, path) in imports(source) {
            let imported = path[0].as_str();
            let (own, other) = (ranks[source.module()], ranks.get(imported));
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

/// A file imports the files of the modules that it declares and those that its paths lead to. An import of a file that it is
/// below does not count: a part of a module may use what the module declares, as an inner scope may.
#[test]
fn files_do_not_import_each_other_in_circles() {
    let sources = sources::all();
    let inside = |source: &&Source| !["lib", "main", "testing"].contains(&source.module());
    let files: BTreeSet<String> = sources.iter().filter(inside).map(|source| source.module_path().join("::")).collect();
    let mut importers = BTreeMap::new();
    for source in sources.iter().filter(inside) {
        let own: Vec<String> = source.module_path().iter().map(ToString::to_string).collect();
        let declared = source.working_lines().filter_map(|(_, line)| {
            let name = line.rsplit_once("mod ")?.1.strip_suffix(';')?;
            Some([own.clone(), vec![name.to_owned()]].concat())
        });
        let named = imports(source).into_iter().filter(|(line, _)| *line < source.tests_from).map(|(_, path)| path);
        let imported: BTreeSet<String> = declared
            .chain(named)
            .filter_map(|path| {
                (1..=path.len()).rev().map(|end| path[..end].join("::")).find(|name| files.contains(name))
            })
            .filter(|name| !format!("{}::", own.join("::")).starts_with(&format!("{name}::")))
            .collect();
        importers.insert(own.join("::"), imported);
    }
    let imports: usize = importers.values().map(BTreeSet::len).sum();
    assert!(imports > 500, "only {imports} imports were found: the test does not see them any more");
    let circles = in_circles(importers);
    complain(&circles.iter().map(|(file, imported)| format!("{file} imports {imported:?}")).collect::<Vec<String>>());
}

/// What is left when files that import nothing, or that nothing imports, are taken away again and again.
fn in_circles(mut importers: BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, BTreeSet<String>> {
    loop {
        let before = importers.len();
        let imported: BTreeSet<String> = importers.values().flatten().cloned().collect();
        importers.retain(|file, imports| !imports.is_empty() && imported.contains(file));
        let left: BTreeSet<String> = importers.keys().cloned().collect();
        for imports in importers.values_mut() {
            imports.retain(|file| left.contains(file));
        }
        if importers.len() == before {
            return importers;
        }
    }
}

#[test]
fn circles_are_found() {
    let graph = |edges: &[(&str, &[&str])]| -> BTreeMap<String, BTreeSet<String>> {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        edges.iter().map(|(file, imports)| ((*file).to_owned(), names(imports))).collect()
    };
    assert!(in_circles(graph(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])).is_empty());
    let found = in_circles(graph(&[("a", &["b"]), ("b", &["c"]), ("c", &["b", "d"]), ("d", &[])]));
    assert_eq!(found, graph(&[("b", &["c"]), ("c", &["b"])]));
}

/// What the façade shows is hidden from the compiler's search for dead code, so it shows no more than the tests use.
#[test]
fn the_facade_shows_what_tests_use_and_nothing_else() {
    let sources = sources::all();
    let facade = &sources.iter().find(|source| source.path == "testing.rs").unwrap().code;
    let tests = trees::files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"));
    let texts: Vec<String> = tests
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let used: BTreeSet<&str> = texts.iter().flat_map(|text| words(text)).collect();
    let shown = facade.match_indices("pub use ").flat_map(|(position, found)| paths(&facade[position + found.len()..]));
    let shown: Vec<String> = shown.filter_map(|path| path.last().cloned()).collect();
    assert!(shown.len() > 100, "only {} names were found: the test does not see them any more", shown.len());
    let unused = shown.iter().filter(|name| !used.contains(name.as_str()));
    complain(&unused.map(|name| format!("src/testing.rs: no test uses {name}")).collect::<Vec<String>>());
}

/// Below `/proc` no program can make a file. Anywhere else one can: a home directory is made where it is missing.
#[test]
fn a_path_that_must_not_exist_is_one_that_no_program_can_make() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut violations = Vec::new();
    for folder in ["src", "tests"] {
        for path in
            trees::files(&root.join(folder)).iter().filter(|path| path.extension().is_some_and(|end| end == "rs"))
        {
            let text = fs::read_to_string(path).unwrap();
            let strings = sources::source(String::new(), text).strings;
            let found = strings.iter().filter(|(_, literal)| literal.starts_with(concat!("/", "nonexistent")));
            violations.extend(found.map(|(line, _)| format!("{}:{line}: begin it with /proc/", path.display())));
        }
    }
    complain(&violations);
}

#[test]
fn the_binary_calls_the_command_line_and_nothing_else() {
    let sources = sources::all();
    let named = |path: &str| imports(sources.iter().find(|source| source.path == path).unwrap());
    assert!(named("main.rs").iter().all(|(_, path)| path == &["main"]), "{:?}", named("main.rs"));
    assert!(sources.iter().any(|source| source.path == "lib.rs" && source.code.contains("pub use cli::main;")));
}

#[test]
fn the_reading_of_imports_sees_every_form() {
    let text = "use crate::sys::{clock, arch};\nuse crate::{machine::Cpu, rig::{self, order}};\nfn f() { $crate::plan::x() }\n\
                // use crate::cli;\nconst T: &str = \"crate::report\";\nuse self::gates;\nuse super::statistics;\nuse super::super::conduct;\n\
                #[cfg(test)]\nmod tests { use super::*; use super::super::super::assemble; }\n";
    let source = sources::source("evaluate/study/mod.rs".to_owned(), text.to_owned());
    let found: Vec<String> = imports(&source).into_iter().map(|(_, path)| path.join("::")).collect();
    let expected = [
        "sys::clock",
        "sys::arch",
        "machine::Cpu",
        "rig::self",
        "rig::order",
        "plan::x",
        "evaluate::study::gates",
        "evaluate::statistics",
        "conduct",
        "assemble",
    ];
    assert_eq!(found, expected);
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
fn shared_folders_know_no_experiment() {
    let names: Vec<&str> = experiments::TABLE
        .iter()
        .flat_map(|experiment| experiment.publishes.iter().map(|publication| publication.metric).chain([experiment.id]))
        .collect();
    let mut violations = Vec::new();
    let shared = ["report", "evaluate", "rig", "conduct", "statistics", "sys"];
    for source in sources::all().iter().filter(|source| shared.contains(&source.module())) {
        for (line, literal) in source.strings.iter().filter(|(line, _)| *line < source.tests_from) {
            if let Some(name) = names.iter().find(|name| literal.contains(*name)) {
                violations.push(format!("src/{}:{line}: {name} is the business of the experiments", source.path));
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
            if let Some(experiment) = named.filter(|experiment| !source.text.starts_with(experiment.source)) {
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
