//! Where `--json` writes: looked at before anything is measured, written when there is a result.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::write_file;
use crate::results::problem::Problem;
use crate::sys::create::{self, Access};

/// A place for the result as JSON.
#[derive(Debug)]
pub(super) enum Target {
    /// Standard output.
    Stdout,
    /// A file, which is made or overwritten.
    File(PathBuf),
    /// A pipe with a reader.
    Pipe(PathBuf, File),
}

impl Target {
    /// The place of that name; `-` is standard output. Nothing is left there yet.
    pub(super) fn of(name: &Path) -> Result<Self, Problem> {
        if name.as_os_str() == "-" {
            return Ok(Target::Stdout);
        }
        let unwritable = |error: std::io::Error| refused(name, &error.to_string());
        if let Err(error) = name.symlink_metadata() {
            if error.kind() != ErrorKind::NotFound {
                return Err(unwritable(error));
            }
            create::file(name, Access::Shared).map_err(unwritable)?;
            // Only a try: the result is written when there is one.
            let _ = std::fs::remove_file(name);
            return Ok(Target::File(name.to_path_buf()));
        }
        match name.metadata() {
            // It stays open: the reader would take its closing for the end.
            Ok(found) if found.file_type().is_fifo() => {
                Ok(Target::Pipe(name.to_path_buf(), create::reach(name).map_err(unwritable)?))
            }
            Ok(_) => {
                create::reach(name).map_err(unwritable)?;
                Ok(Target::File(name.to_path_buf()))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Err(refused(name, "it is a dangling link")),
            Err(error) => Err(unwritable(error)),
        }
    }

    /// Writes the result.
    pub(super) fn write(&mut self, text: &str) -> Result<(), Problem> {
        match self {
            Target::Stdout => Ok(()),
            Target::File(name) => write_file(name, text, "--json"),
            Target::Pipe(name, pipe) => pipe
                .write_all(text.as_bytes())
                .map_err(|error| Problem::new(format!("cannot write {}: {error}", name.display()))),
        }
    }
}

fn refused(name: &Path, why: &str) -> Problem {
    Problem::new(format!("cannot write {}: {why}", name.display()))
        .hint("choose another file with --json FILE, or - for standard output")
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;

    use nix::fcntl::{FcntlArg, OFlag, fcntl};

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn looking_leaves_no_file_and_takes_no_link_away() {
        let keep = tempfile::tempdir().unwrap();
        let (fresh, link) = (keep.path().join("fresh"), keep.path().join("link"));
        Target::of(&fresh).unwrap();
        assert!(!fresh.exists());
        std::os::unix::fs::symlink(&fresh, &link).unwrap();
        assert!(Target::of(&link).unwrap_err().what.contains("a dangling link"));
        assert!(link.is_symlink() && !fresh.exists());
        std::fs::write(&fresh, "before").unwrap();
        let mut target = Target::of(&link).unwrap();
        assert_eq!(std::fs::read(&fresh).unwrap(), b"before", "looking changes nothing");
        target.write("after").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&fresh).unwrap(), b"after");
    }

    #[test]
    fn a_pipe_without_a_reader_is_refused_and_one_with_a_reader_gets_everything() {
        let keep = tempfile::tempdir().unwrap();
        let pipe = keep.path().join("pipe");
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        assert!(Target::of(&pipe).unwrap_err().what.contains("no process reads"));
        let mut reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&pipe).unwrap();
        let mut target = Target::of(&pipe).unwrap();
        fcntl(&reader, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
        // More than a pipe holds.
        let text = "x".repeat(200_000);
        let writer = std::thread::spawn(move || target.write(&text));
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        writer.join().unwrap().unwrap();
        assert_eq!(read.len(), 200_000);
    }
}
