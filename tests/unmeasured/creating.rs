//! What is made and started goes through one place: files and directories through `src/sys/create.rs`, where no link is followed, and no
//! child has the user's standard input.

use crate::support::sources::{self, Source};

/// Ways to make a file or a directory, or to open one for writing.
const WAYS: [&str; 9] = [
    "fs::write",
    "fs::copy",
    "fs::hard_link",
    "File::create",
    "File::options",
    "OpenOptions::",
    "DirBuilder",
    "create_dir",
    "create_new",
];

/// Files that may, with the reason.
const ALLOWED: [(&str, &str); 5] = [
    ("sys/create.rs", "it is that place"),
    ("sys/metadata.rs", "it gives names to files, which is what is measured"),
    ("sys/file.rs", "it opens to read, and what is open already"),
    ("experiments/file/control_group.rs", "a control group is a directory of the kernel, and its files exist"),
    ("experiments/os/system_call/calls.rs", "the measured call writes to /dev/null"),
];

/// Lines that make or open for writing.
fn ways(source: &Source) -> Vec<String> {
    let found = source.working_lines().filter(|(_, line)| WAYS.iter().any(|way| line.contains(way)));
    found.map(|(number, line)| format!("src/{}:{number}: {}", source.path, line.trim())).collect()
}

#[test]
fn files_and_directories_are_made_in_one_place() {
    let sources = sources::all();
    let (allowed, others): (Vec<&Source>, Vec<&Source>) =
        sources.iter().partition(|source| ALLOWED.iter().any(|(path, _)| *path == source.path));
    for source in &allowed {
        assert!(!ways(source).is_empty(), "src/{} needs no exception", source.path);
    }
    assert_eq!(allowed.len(), ALLOWED.len());
    let found: Vec<String> = others.into_iter().flat_map(ways).collect();
    assert!(found.is_empty(), "use src/sys/create.rs:\n{}", found.join("\n"));
}

#[test]
fn no_child_has_the_standard_input_of_the_user() {
    let (mut started, mut found) = (0, Vec::new());
    for source in sources::all() {
        let count = |what: &str| source.working_lines().map(|(_, line)| line.matches(what).count()).sum::<usize>();
        let (children, inputs) = (count("Command::new("), count(".stdin("));
        started += children;
        if inputs != children {
            found.push(format!("src/{}: {children} commands, {inputs} inputs", source.path));
        }
    }
    assert!(started > 3, "only {started} commands were found: the test does not see them any more");
    assert!(found.is_empty(), "{}", found.join("\n"));
}
