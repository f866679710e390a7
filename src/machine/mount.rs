//! The mount table: what is mounted where.

use std::path::{Path, PathBuf};

use super::tree::Tree;

/// The mount table of the process that reads it.
pub(super) const MOUNTS: &str = "/proc/self/mountinfo";

/// One mount (`proc_pid_mountinfo(5)`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// `major:minor` of the file system.
    pub device: String,
    /// Directory of the file system that is visible.
    pub root: String,
    pub point: PathBuf,
    pub options: String,
    pub file_system: String,
    pub source: String,
    pub super_options: String,
}

/// All mounts in the order of the table. Lines that cannot be understood are left out.
pub(super) fn read(tree: &Tree) -> Vec<Mount> {
    tree.text(MOUNTS).unwrap_or_default().lines().filter_map(parse).collect()
}

fn parse(line: &str) -> Option<Mount> {
    let (before, behind) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(2);
    let mut behind = behind.split(' ');
    Some(Mount {
        device: before.next()?.to_owned(),
        root: unescape(before.next()?),
        point: PathBuf::from(unescape(before.next()?)),
        options: before.next()?.to_owned(),
        file_system: behind.next()?.to_owned(),
        source: unescape(behind.next()?),
        super_options: behind.next().unwrap_or_default().to_owned(),
    })
}

/// The mount that a path lies on: the deepest mount point above it, and of several at one point the last one, which hides
/// the others.
pub(super) fn holding<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    mounts.iter().filter(|mount| path.starts_with(&mount.point)).max_by_key(|mount| mount.point.components().count())
}

/// Replaces `\040` and the like: the kernel writes space, tab, newline and backslash in octal.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let octal = behind.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(byte);
            rest = &behind[3..];
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_optional_fields_and_escapes() {
        let line = r"36 35 98:0 /mnt1 /mnt\040two rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue";
        let mount = parse(line).unwrap();
        assert_eq!((mount.device.as_str(), mount.root.as_str()), ("98:0", "/mnt1"));
        assert_eq!(mount.point, Path::new("/mnt two"));
        assert_eq!((mount.file_system.as_str(), mount.source.as_str()), ("ext3", "/dev/root"));
        assert_eq!(parse("36 35 98:0 / /"), None);
    }

    #[test]
    fn the_deepest_and_last_mount_holds_a_path() {
        let table =
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:5 / /data rw - tmpfs a rw\n3 1 0:6 / /data rw - xfs b rw";
        let mounts: Vec<Mount> = table.lines().filter_map(parse).collect();
        assert_eq!(holding(&mounts, Path::new("/data/x")).unwrap().file_system, "xfs");
        assert_eq!(holding(&mounts, Path::new("/database")).unwrap().file_system, "ext4");
    }

    #[test]
    fn a_backslash_without_octal_digits_stays() {
        assert_eq!(unescape(r"a\b\04"), r"a\b\04");
        assert_eq!(unescape(r"\134\777"), r"\\777");
    }
}
