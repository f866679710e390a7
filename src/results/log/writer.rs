//! Writing a log: one process at a time, whole lines only.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::Record;
use crate::results::problem::Problem;
use crate::sys::create::{self, Access};
use crate::sys::lock::{self, Locking};

/// Appends records; every line is on its way to the disk before the call returns. It holds the lock of the log, so that no
/// other process writes it.
#[derive(Debug)]
pub struct LogWriter {
    file: File,
}

/// Why a log cannot be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// Another process is writing it, or it already contains a run.
    Taken(Problem),
    /// The file system does not allow it.
    Unwritable(Problem),
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Problem {
        match refused {
            Refused::Taken(problem) | Refused::Unwritable(problem) => problem,
        }
    }
}

impl LogWriter {
    /// Creates a log. One that exists is refused, unless it is empty and no process holds it. A run that was killed before its
    /// first line leaves such a log.
    pub fn create(path: &Path) -> Result<Self, Refused> {
        let uncreatable = |error: std::io::Error| {
            Refused::Unwritable(
                Problem::new(format!("cannot create the log {}: {error}", path.display()))
                    .hint("choose another directory with --output DIR"),
            )
        };
        match create::file(path, Access::Shared) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(uncreatable(error)),
            _ => {}
        }
        let file = create::existing(path).map_err(uncreatable)?;
        let writer = LogWriter::locked(file, path)?;
        if writer.file.metadata().map_err(uncreatable)?.len() > 0 {
            return Err(Refused::Taken(taken(path)));
        }
        Ok(writer)
    }

    /// Opens a log to go on with it. Nothing is changed yet.
    pub fn reopen(path: &Path) -> Result<Self, Refused> {
        create::existing(path)
            .map_err(|error| Refused::Unwritable(unwritable(path, &error)))
            .and_then(|file| LogWriter::locked(file, path))
    }

    fn locked(file: File, path: &Path) -> Result<Self, Refused> {
        match lock::take(&file) {
            // Where files cannot be locked, a second writer cannot be known.
            Locking::Mine | Locking::Impossible => Ok(LogWriter { file }),
            Locking::Taken(by) => {
                let by = by.map_or_else(|| "another process".to_owned(), |number| format!("process {number}"));
                Err(Refused::Taken(
                    Problem::new(format!(
                        "the run in {} is still in progress, and {by} is writing its log",
                        directory(path)
                    ))
                    .hint("wait until it ends, or end it with SIGINT. For a parallel run choose another directory"),
                ))
            }
        }
    }

    /// Cuts off an unfinished last line, which a run that died leaves. Returns the number of bytes cut.
    pub fn cut_unfinished(&mut self) -> Result<u64, Problem> {
        let cannot = |error: std::io::Error| Problem::new(format!("cannot resume the log: {error}"));
        let mut text = Vec::new();
        self.file.seek(SeekFrom::Start(0)).map_err(cannot)?;
        self.file.read_to_end(&mut text).map_err(cannot)?;
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |position| position + 1);
        if whole < text.len() {
            self.file.set_len(whole as u64).map_err(cannot)?;
        }
        Ok((text.len() - whole) as u64)
    }

    /// Writes one record as one line. After an error nothing of the line remains, so the log stays valid.
    pub fn write(&mut self, record: &Record) -> Result<(), Problem> {
        let mut line = serde_json::to_vec(record).map_err(|error| Problem::new(format!("cannot encode: {error}")))?;
        line.push(b'\n');
        let before = self.file.metadata().map(|facts| facts.len());
        self.file.write_all(&line).and_then(|()| self.file.flush()).map_err(|error| {
            if let Ok(length) = before {
                // Best effort: the reader also copes with an unfinished last line.
                let _ = self.file.set_len(length);
            }
            Problem::new(format!("cannot write the log: {error}"))
                .hint("the log keeps what was measured. Free space, then resume with --resume DIR, or with the same --into DIR")
        })
    }
}

/// Why no run begins where a log is.
pub fn taken(path: &Path) -> Problem {
    Problem::new(format!("{} already contains a run", directory(path)))
        .hint("choose another directory with --output DIR, or resume that run: --resume DIR")
}

fn unwritable(path: &Path, error: &std::io::Error) -> Problem {
    Problem::new(format!("cannot append to the log {}: {error}", path.display()))
        .hint("the run directory must be writable to resume")
}

/// The run directory of a log, in words.
fn directory(log: &Path) -> String {
    let directory = log.parent().filter(|parent| !parent.as_os_str().is_empty());
    directory.unwrap_or(Path::new(".")).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(round: u32) -> Record {
        Record::RoundEnd { round, disturbed: Vec::new(), others_cpus: None }
    }

    #[test]
    fn one_process_at_a_time_writes_a_log() {
        let keep = tempfile::tempdir().unwrap();
        let place = keep.path().join("log.jsonl");
        let mut writer = LogWriter::create(&place).unwrap();
        writer.write(&round(1)).unwrap();
        for refused in [LogWriter::create(&place), LogWriter::reopen(&place)] {
            let Err(Refused::Taken(problem)) = refused else { panic!("a second writer") };
            assert!(problem.what.contains("is still in progress"), "{problem}");
        }
        drop(writer);
        let Err(Refused::Taken(problem)) = LogWriter::create(&place) else { panic!("a second run") };
        assert!(problem.what.contains("already contains a run"), "{problem}");
        LogWriter::reopen(&place).unwrap().write(&round(2)).unwrap();
        assert_eq!(std::fs::read_to_string(&place).unwrap().lines().count(), 2);
    }

    #[test]
    fn an_unfinished_line_is_cut_off_and_no_other() {
        let keep = tempfile::tempdir().unwrap();
        let place = keep.path().join("log.jsonl");
        std::fs::write(&place, "{}\n{\"rec").unwrap();
        let mut writer = LogWriter::reopen(&place).unwrap();
        assert_eq!(std::fs::metadata(&place).unwrap().len(), 8, "opening changes nothing");
        assert_eq!(writer.cut_unfinished().unwrap(), 5);
        assert_eq!(writer.cut_unfinished().unwrap(), 0);
        writer.write(&round(1)).unwrap();
        assert_eq!(std::fs::read_to_string(&place).unwrap().lines().count(), 2);
    }

    #[test]
    fn an_empty_log_of_nobody_is_begun_and_links_are_not_followed() {
        let keep = tempfile::tempdir().unwrap();
        let (place, target) = (keep.path().join("log.jsonl"), keep.path().join("target"));
        std::fs::write(&place, "").unwrap();
        LogWriter::create(&place).unwrap().write(&round(1)).unwrap();
        std::fs::remove_file(&place).unwrap();
        std::fs::write(&target, "").unwrap();
        std::os::unix::fs::symlink(&target, &place).unwrap();
        for refused in [LogWriter::create(&place), LogWriter::reopen(&place)] {
            assert!(matches!(refused, Err(Refused::Unwritable(_))));
        }
        assert_eq!(std::fs::read(&target).unwrap(), b"");
    }
}
