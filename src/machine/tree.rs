//! The reader of files under a root: the live machine, or a captured copy of another one.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::cpu_list::CpuList;
use super::fact::Fact;
use crate::sys::file;

/// The longest prefix of a file that is read: `/proc/cpuinfo` of 512 CPUs is below 1 MiB, and a captured tree must not
/// be able to fill the memory.
const LARGEST_READ: u64 = 8 << 20;

/// Files under one root. Every path given to it is absolute as the described machine sees it (`/proc/cpuinfo`).
#[derive(Debug, Clone)]
pub struct Tree {
    root: PathBuf,
    live: bool,
}

/// Whether a file can be read, and if not why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It opens for reading.
    Readable,
    /// It exists and the kernel refuses to open it.
    Denied,
    /// It does not exist.
    Absent,
}

impl Tree {
    /// The tree under `root`; `/` is the live machine.
    pub fn at(root: &Path) -> Tree {
        let root = fs::canonicalize(root).unwrap_or_else(|_| root.to_path_buf());
        let live = root == Path::new("/");
        Tree { root, live }
    }

    /// True for the running machine: only then may anything but files be asked.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// True where a filter looks at the system calls of this process: it may kill who makes a call that it does not know.
    pub fn is_filtered(&self) -> bool {
        let status = self.text("/proc/self/status").unwrap_or_default();
        value_of(&status, "Seccomp").is_some_and(|mode| mode != "0")
    }

    /// Where a path of the described machine lies. A symbolic link in a captured tree that points outside of it would
    /// silently answer with the live machine's facts, so it counts as absent.
    fn locate(&self, path: &str) -> Option<PathBuf> {
        let joined = self.root.join(path.trim_start_matches('/'));
        if self.live {
            return Some(joined);
        }
        fs::canonicalize(joined).ok().filter(|resolved| resolved.starts_with(&self.root))
    }

    /// The bytes of a regular file; `None` when it cannot be read for whatever reason.
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let location = self.locate(path)?;
        // A FIFO or a device would block the reader for ever.
        if !fs::metadata(&location).ok()?.is_file() {
            return None;
        }
        let mut content = Vec::new();
        File::open(location).ok()?.take(LARGEST_READ).read_to_end(&mut content).ok()?;
        Some(content)
    }

    /// The text of a file; bytes that are not UTF-8 are replaced.
    pub fn text(&self, path: &str) -> Option<String> {
        self.bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The text of a file without surrounding white space; `None` when nothing is left. Only its begin where it is longer than any
    /// that a kernel writes: a table folds it letter by letter.
    pub fn trimmed(&self, path: &str) -> Option<String> {
        const MOST_LETTERS: usize = 1 << 16;
        let text = self.text(path)?;
        let text: String = text.trim().trim_matches('\0').chars().take(MOST_LETTERS).collect();
        Some(text).filter(|text| !text.is_empty())
    }

    /// The trimmed text of a file as a fact.
    pub fn fact(&self, path: &str) -> Option<Fact<String>> {
        self.trimmed(path).map(|text| Fact::new(text, path))
    }

    /// The one value that a file holds, as a fact.
    pub fn parsed<T: FromStr>(&self, path: &str) -> Option<Fact<T>> {
        self.trimmed(path).and_then(|text| text.parse().ok()).map(|value| Fact::new(value, path))
    }

    /// The CPU list that a file holds.
    pub fn cpu_list(&self, path: &str) -> Option<CpuList> {
        CpuList::parse(&self.text(path)?)
    }

    /// The CPU list that a file holds, or else the mask that another file holds.
    pub fn cpu_list_or_mask(&self, list: &str, mask: &str) -> Option<CpuList> {
        self.cpu_list(list).or_else(|| CpuList::parse_mask(&self.text(mask)?))
    }

    /// The choice in brackets of a file such as `always [madvise] never`; the whole text when there are no brackets.
    pub fn chosen(&self, path: &str) -> Option<Fact<String>> {
        self.fact(path).map(|fact| fact.map(|text| bracketed(&text).to_owned()))
    }

    /// The names in a directory, sorted; empty when it cannot be read.
    pub fn names(&self, directory: &str) -> Vec<String> {
        let Some(location) = self.locate(directory) else { return Vec::new() };
        let Ok(entries) = fs::read_dir(location) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The numbers behind `prefix` among the names in a directory, ascending: `cpu0 cpu1 cpufreq` gives 0 and 1.
    pub fn numbered(&self, directory: &str, prefix: &str) -> Vec<u32> {
        let mut numbers: Vec<u32> = self
            .names(directory)
            .iter()
            .filter_map(|name| name.strip_prefix(prefix))
            .filter_map(|rest| rest.parse().ok())
            .collect();
        numbers.sort_unstable();
        numbers
    }

    /// True when the path exists, whatever it is.
    pub fn exists(&self, path: &str) -> bool {
        self.locate(path).is_some_and(|location| fs::metadata(location).is_ok())
    }

    /// Whether a file can be opened for reading.
    pub fn access(&self, path: &str) -> Access {
        let Some(location) = self.locate(path) else { return Access::Absent };
        // Opening must not wait either: the path may be a FIFO.
        match file::open_at_once(&location) {
            Ok(_) => Access::Readable,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Access::Denied,
            Err(_) => Access::Absent,
        }
    }

    /// The absolute path of `path` on the described machine, links resolved where it lives here. A path that does not
    /// exist yet is resolved from its nearest existing ancestor.
    pub fn absolute(&self, path: &Path) -> PathBuf {
        if !self.live {
            return Path::new("/").join(path);
        }
        // Not by getcwd(2): it is among the calls that are timed, and a system-call filter may kill who makes it.
        let here = fs::read_link("/proc/self/cwd").unwrap_or_default();
        let absolute = here.join(path);
        for ancestor in absolute.ancestors() {
            if let Ok(resolved) = fs::canonicalize(ancestor) {
                return match absolute.strip_prefix(ancestor) {
                    Ok(rest) if !rest.as_os_str().is_empty() => resolved.join(rest),
                    _ => resolved,
                };
            }
        }
        absolute
    }
}

/// The word in brackets, or the whole text.
pub(super) fn bracketed(text: &str) -> &str {
    text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text, |(chosen, _)| chosen)
}

/// The value of a `Key: value` or `KEY=value` line.
pub(super) fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.strip_prefix(key))
        .find_map(|rest| rest.trim_start().strip_prefix([':', '=']))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_leaves_a_captured_tree_is_absent() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("proc")).unwrap();
        std::os::unix::fs::symlink("/proc/cpuinfo", directory.path().join("proc/cpuinfo")).unwrap();
        let tree = Tree::at(directory.path());
        assert_eq!(tree.text("/proc/cpuinfo"), None);
        assert_eq!(tree.access("/proc/cpuinfo"), Access::Absent);
        assert!(tree.text("/../../../../../../etc/passwd").is_none());
    }

    #[test]
    fn a_value_without_end_is_cut() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("cmdline"), "é".repeat(1 << 20)).unwrap();
        let found = Tree::at(directory.path()).trimmed("/cmdline").unwrap();
        assert_eq!(found, "é".repeat(1 << 16));
    }

    #[test]
    fn a_directory_or_a_device_is_never_read_as_a_file() {
        let live = Tree::at(Path::new("/"));
        assert_eq!(live.bytes("/dev/zero"), None);
        assert_eq!(live.bytes("/proc"), None);
    }

    #[test]
    fn numbered_names_are_in_order_of_their_number() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["cpu10", "cpu2", "cpufreq", "cpu0"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        assert_eq!(Tree::at(directory.path()).numbered("/", "cpu"), [0, 2, 10]);
    }

    #[test]
    fn the_chosen_word_stands_in_brackets() {
        assert_eq!(bracketed("always [madvise] never"), "madvise");
        assert_eq!(bracketed("none"), "none");
    }

    #[test]
    fn a_value_stands_behind_a_colon_or_an_equals_sign() {
        assert_eq!(value_of("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n", "Seccomp"), Some("2"));
        assert_eq!(value_of("DRIVER=virtio_net\n", "DRIVER"), Some("virtio_net"));
        assert_eq!(value_of("MemTotal", "MemTotal"), None);
    }
}
