//! The files of a class: which ones `sysdyno judge` reads, and short names that distinguish them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::results::problem::Problem;

/// Most files of a class.
const MOST_FILES: usize = 1000;
/// Directories below the one that was named, in which files are looked for.
const MOST_DEPTH: usize = 6;
/// Endings of files with numbers in a directory.
const ENDINGS: [&str; 2] = ["csv", "json"];
/// What a run of sysdyno writes. Next to a table they are measurements of the tool, and no numbers of a student.
const OF_A_RUN: [&str; 2] = ["node.json", "result.json"];

/// The files to judge.
#[derive(Debug, Default)]
pub(super) struct HandIns {
    /// Each with a name that no other one has.
    pub files: Vec<(PathBuf, String)>,
    /// Names of files of runs, which lie next to a table.
    pub left_out: Vec<String>,
}

/// A file, and how many of the last parts of its path name it.
struct Found {
    place: PathBuf,
    parts: usize,
    is_left_out: bool,
}

/// The files that were named, and those in the directories that were named, in the order of their paths.
pub(super) fn find(named: &[PathBuf]) -> Result<HandIns, Problem> {
    let mut all = Vec::new();
    for place in named {
        if place.is_dir() {
            let before = all.len();
            look(place, 1, false, &mut all)?;
            if all.len() == before {
                return Err(Problem::new(format!("{} has no CSV and no JSON file", place.display()))
                    .hint("name the directory with the files of the class, or with a directory for each student"));
            }
        } else {
            all.push(Found { place: place.clone(), parts: 1, is_left_out: false });
        }
    }
    let count = all.iter().filter(|found| !found.is_left_out).count();
    if count > MOST_FILES {
        return Err(Problem::new(format!("{count} files are too many, at most {MOST_FILES} are judged"))
            .hint("judge them in several calls"));
    }
    distinguish(&mut all);
    let mut found = HandIns::default();
    for one in all {
        let name = one.name();
        if one.is_left_out {
            found.left_out.push(name);
        } else {
            found.files.push((one.place, name));
        }
    }
    Ok(found)
}

/// Adds the files of a directory and of those below it. Below a table, also the files of a run are left out.
fn look(directory: &Path, depth: usize, below_table: bool, all: &mut Vec<Found>) -> Result<(), Problem> {
    let cannot = |error| Problem::new(format!("cannot read {}: {error}", directory.display()));
    let mut entries: Vec<_> = directory.read_dir().map_err(cannot)?.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    let is_hidden = |place: &Path| place.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let places = || entries.iter().map(std::fs::DirEntry::path).filter(|place| !is_hidden(place));
    let ends = |place: &Path, known: &str| place.extension().is_some_and(|ending| ending.eq_ignore_ascii_case(known));
    let has_table = places().any(|place| ends(&place, "csv") && place.is_file());
    for place in places().filter(|place| ENDINGS.iter().any(|known| ends(place, known)) && place.is_file()) {
        let is_of_run = OF_A_RUN.iter().any(|name| place.file_name().is_some_and(|found| found == *name));
        all.push(Found { is_left_out: is_of_run && (has_table || below_table), parts: depth, place });
    }
    if depth > MOST_DEPTH {
        return Ok(());
    }
    // The tables of a whole class in one directory say nothing of the directories next to them.
    let below_table = depth > 1 && (has_table || below_table);
    for entry in entries.iter().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        if !is_hidden(&entry.path()) {
            look(&entry.path(), depth + 1, below_table, all)?;
        }
    }
    Ok(())
}

impl Found {
    /// The last parts of its path.
    fn name(&self) -> String {
        let parts: Vec<_> = self.place.components().collect();
        let shown: PathBuf = parts[parts.len().saturating_sub(self.parts)..].iter().collect();
        shown.display().to_string()
    }
}

/// Adds parts of paths until no two files have one name, or nothing is left to add.
fn distinguish(all: &mut [Found]) {
    loop {
        let mut places: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (place, found) in all.iter().enumerate() {
            places.entry(found.name()).or_default().push(place);
        }
        let longer: Vec<usize> = places
            .into_values()
            .filter(|places| places.iter().any(|place| all[*place].place != all[places[0]].place))
            .flatten()
            .filter(|place| all[*place].parts < all[*place].place.components().count())
            .collect();
        if longer.is_empty() {
            return;
        }
        for place in longer {
            all[place].parts += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Names of what is read and of what is left out, of these files in a directory and of these places in it.
    fn names(files: &[&str], named: &[&str]) -> (Vec<String>, Vec<String>) {
        let keep = tempfile::tempdir().unwrap();
        for file in files {
            let place = keep.path().join(file);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, "").unwrap();
        }
        let named: Vec<PathBuf> = named.iter().map(|name| keep.path().join(name)).collect();
        let found = find(&named).unwrap();
        (found.files.into_iter().map(|(_, name)| name).collect(), found.left_out)
    }

    #[test]
    fn a_hand_in_is_a_directory_with_a_table_and_its_run_is_left_out() {
        let files = [
            "class/student-1/mine.csv",
            "class/student-1/node.json",
            "class/student-1/right.c",
            "class/student-2/mine.csv",
            "class/student-2/run/node.json",
            "class/student-3/node.json",
            "class/.trash/mine.csv",
            "class/extra.CSV",
        ];
        let (read, left_out) = names(&files, &["class"]);
        assert_eq!(read, ["extra.CSV", "student-1/mine.csv", "student-2/mine.csv", "student-3/node.json"]);
        assert_eq!(left_out, ["student-1/node.json", "student-2/run/node.json"]);
    }

    #[test]
    fn names_are_the_shortest_that_distinguish() {
        let files = ["a/1/mine.csv", "a/2/mine.csv", "b/2/mine.csv", "b/2/other.csv"];
        let all: Vec<&str> = files.to_vec();
        assert_eq!(names(&files, &all).0, ["1/mine.csv", "a/2/mine.csv", "b/2/mine.csv", "other.csv"]);
        assert_eq!(names(&files, &["a", "b"]).0, ["1/mine.csv", "a/2/mine.csv", "b/2/mine.csv", "2/other.csv"]);
        assert_eq!(names(&files, &["a/1/mine.csv", "a/1/mine.csv"]).0, ["mine.csv", "mine.csv"], "one file twice");
        assert_eq!(names(&files, &["b/2/mine.csv"]).0, ["mine.csv"]);
    }

    #[test]
    fn a_directory_without_files_is_refused() {
        let keep = tempfile::tempdir().unwrap();
        fs::create_dir(keep.path().join("sub")).unwrap();
        let problem = find(&[keep.path().to_owned()]).unwrap_err();
        assert!(problem.what.contains("no CSV and no JSON file") && problem.hint.is_some(), "{problem}");
    }
}
