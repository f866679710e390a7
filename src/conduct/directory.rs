//! The run directory: where a log and everything computed from it lie.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::figures;
use crate::report::content::OtherPages;
use crate::report::page::{Analysis, Page};
use crate::report::{compact, content, csv, html, json, markdown};
use crate::results::document::Document;
use crate::results::log::{self, Header, LogWriter, Record};
use crate::results::problem::Problem;
use crate::results::published::Published;
use crate::sys::create::{self, Access};
use crate::sys::{file, process};

/// Directory of runs that have no other place, below the current one.
pub const RUNS: &str = "sysdyno-runs";

/// Files that are computed from the log, and the folder of drawings.
const RESULT: &str = "result.json";
pub const COMPACT: &str = "node.json";
/// Name of the log in a run directory.
const LOG: &str = "log.jsonl";
/// Name of the log of a complete run.
const COMPRESSED: &str = "log.jsonl.gz";
const METRICS: &str = "metrics.csv";
const PAGE: &str = "report.html";
/// Every row, term and gate.
const APPENDIX: &str = "appendix.html";
/// Published figures next to those of the run.
const PUBLISHED: &str = "published.html";
const FIGURES: &str = "figures";

/// What to do where one of them cannot be written.
const RENDER_LATER: &str = "the log is complete. Free space, then write the rest with `sysdyno run --resume DIR`, or render it with `sysdyno \
     report DIR`";

/// What to do where the log cannot be compressed.
const COMPRESS_LATER: &str =
    "log.jsonl is complete and stays. Free space, then compress it with `sysdyno run --resume DIR`";

/// Which files stay of a run that is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// The compressed log, `node.json`, `report.html` and `metrics.csv`.
    Report,
    /// Everything that is computed from the log, and the log.
    All,
    /// The log and `node.json`.
    Log,
    /// `node.json` alone.
    Node,
}

/// A directory with one run in it.
#[derive(Debug, Clone)]
pub struct RunDirectory {
    path: PathBuf,
    kept: Kept,
    /// Whether its pages have the sentences that explain their numbers.
    analysis: Analysis,
}

/// Now, RFC 3339 in UTC with whole seconds.
pub fn now() -> String {
    Timestamp::now().round(jiff::Unit::Second).unwrap_or_else(|_| Timestamp::now()).to_string()
}

/// Name of a run: host and start, such as `alder-20260131T120000Z`.
pub fn identifier(host: &str) -> String {
    let safe: String =
        host.chars().map(|letter| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' }).collect();
    format!("{safe}-{}", compact_now())
}

/// Now, such as `20260131T120000Z`.
pub fn compact_now() -> String {
    Timestamp::now().to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// The log in a directory, if it has one. A plain one is the newer.
pub fn log_in(directory: &Path) -> Option<PathBuf> {
    [LOG, COMPRESSED].into_iter().map(|name| directory.join(name)).find(|log| log.is_file())
}

/// Whether a file has the name of a log.
pub fn is_log_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.ends_with(b".jsonl") || name.ends_with(b".jsonl.gz")
}

/// The option that names a run directory.
const OUTPUT: &str = "--output DIR";

/// Most names that are tried for a directory that was not named.
const NAMES: u32 = 100;

impl RunDirectory {
    fn at(path: PathBuf) -> Self {
        RunDirectory { path, kept: Kept::Report, analysis: Analysis::Shown }
    }

    /// The same directory, with other files that stay of a complete run.
    #[must_use]
    pub fn keeping(self, kept: Option<Kept>) -> Self {
        RunDirectory { kept: kept.unwrap_or(self.kept), ..self }
    }

    /// The same directory, whose pages explain their numbers or do not.
    #[must_use]
    pub fn with(self, analysis: Analysis) -> Self {
        RunDirectory { analysis, ..self }
    }

    /// Creates a directory of that name for a new run and begins its log. One that holds a run already, or that belongs to
    /// another user, is refused, and nothing is changed then.
    pub fn create(path: &Path, header: &Header) -> Result<(Self, LogWriter), Problem> {
        own(path, OUTPUT)?;
        RunDirectory::at(path.to_path_buf()).begin(header)
    }

    /// Creates a directory for a new run in a place, named after the run: a free name, whatever began in the same second.
    pub fn create_in(place: &Path, mut header: Header) -> Result<(Self, LogWriter), Problem> {
        own(place, OUTPUT)?;
        let name = header.id.clone();
        for number in 1..=NAMES {
            if number > 1 {
                header.id = format!("{name}-{number}");
            }
            let path = place.join(&header.id);
            match create::directory(&path, Access::Shared) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    let what = format!("cannot create the run directory {}: {error}", path.display());
                    return Err(Problem::new(what).hint("choose a writable place with --output DIR"));
                }
                Ok(()) => return RunDirectory::at(path).begin(&header),
            }
        }
        Err(Problem::new(format!("every candidate name for a run directory in {} exists", place.display()))
            .hint("choose another with --output DIR"))
    }

    /// Writes the first line of the log. Finding out only after minutes of measuring that nothing can be written would waste
    /// them.
    fn begin(self, header: &Header) -> Result<(Self, LogWriter), Problem> {
        let place = self.path.join(LOG);
        let mut log = LogWriter::create(&place)?;
        // It has no line: nothing that anybody wrote is lost. A directory with other files stays.
        let undo = || {
            let _ = std::fs::remove_file(&place);
            let _ = std::fs::remove_dir(&self.path);
        };
        if self.path.join(COMPRESSED).symlink_metadata().is_ok() {
            undo();
            return Err(log::taken(&place));
        }
        log.write(&Record::Run(header.clone())).map_err(|problem| {
            undo();
            Problem::new(format!("{} in {}", problem.what, self.path.display()))
                .hint("free some space there, or choose another place with --output DIR or --into DIR")
        })?;
        Ok((self, log))
    }

    /// The directory of a run that exists: its directory, or the log in it.
    pub fn open(path: &Path) -> Result<Self, Problem> {
        let directory = if path.is_file() { path.parent().unwrap_or(Path::new(".")) } else { path };
        // A run that goes on keeps the files that it has.
        let kept = if directory.join(RESULT).exists() { Kept::All } else { Kept::Report };
        let directory = RunDirectory { kept, ..RunDirectory::at(directory.to_path_buf()) };
        if log_in(&directory.path).is_some() {
            Ok(directory)
        } else {
            Err(Problem::new(format!(
                "'{}' is not a run directory: it has no log.jsonl.gz or log.jsonl",
                path.display()
            ))
            .hint("`sysdyno run` prints the directory that it writes. By default it is under sysdyno-runs/"))
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its log.
    pub fn log(&self) -> PathBuf {
        log_in(&self.path).unwrap_or_else(|| self.path.join(LOG))
    }

    /// Whether a complete run keeps its report.
    pub fn has_report(&self) -> bool {
        matches!(self.kept, Kept::Report | Kept::All)
    }

    /// Writes what is kept of all that is computed from the log. Each file is whole, or it is not written. The log of an incomplete
    /// run always stays as it is, because the run can be resumed from it.
    pub fn write_result(&self, document: &Document) -> Result<(), Problem> {
        self.write_whole(COMPACT, &compact::render(document)?)?;
        match self.kept {
            Kept::Node if document.run.complete => return self.remove_logs(),
            Kept::Log | Kept::Node => return Ok(()),
            Kept::Report | Kept::All => {}
        }
        self.write_whole(METRICS, &csv::render(document)?)?;
        if self.kept == Kept::Report {
            let page = content::brief(document, None, OtherPages::OnDemand);
            self.write_whole(PAGE, &html::render(&page.with(self.analysis)))?;
            return if document.run.complete { self.compress() } else { Ok(()) };
        }
        self.write_whole(RESULT, &json::render(document)?)?;
        for (name, page) in pages(document) {
            let page = page.with(self.analysis);
            self.write_whole(name, &html::render(&page))?;
            figures::write(&self.path, &page)?;
        }
        Ok(())
    }

    fn remove_logs(&self) -> Result<(), Problem> {
        while let Some(log) = log_in(&self.path) {
            std::fs::remove_file(&log).map_err(|error| {
                Problem::new(format!("cannot remove {}: {error}", log.display()))
                    .hint("node.json is complete. Remove the log by hand")
            })?;
        }
        Ok(())
    }

    /// Puts a compressed log in the place of the plain one. Whatever goes wrong, one of them is whole.
    fn compress(&self) -> Result<(), Problem> {
        let (plain, place) = (self.path.join(LOG), self.path.join(COMPRESSED));
        if !plain.is_file() {
            return Ok(());
        }
        let cannot = |why: String| {
            Problem::new(format!("cannot compress the log {}: {why}", plain.display())).hint(COMPRESS_LATER)
        };
        log::compressed(&plain)
            .and_then(|bytes| create::whole_on_disk(&place, Access::Shared, &bytes))
            .map_err(|error| cannot(error.to_string()))?;
        let [text, again] = [&plain, &place].map(|log| log::checksum(log));
        if text.map_err(|problem| cannot(problem.what))? != again.map_err(|problem| cannot(problem.what))? {
            return Err(cannot(format!("{} has another text", place.display())));
        }
        std::fs::remove_file(&plain).map_err(|error| {
            Problem::new(format!("cannot remove {}: {error}", plain.display()))
                .hint("log.jsonl.gz has the same text. Remove log.jsonl by hand")
        })
    }

    /// Whether everything that is computed from the log is there, whole.
    pub fn has_results(&self, document: &Document) -> bool {
        let read = |name: &str| file::read_regular(&self.path.join(name), MOST_BYTES).unwrap_or_default();
        let is_page = |name: &str| read(name).trim_ascii_end().ends_with(b"</html>");
        let is_compact = is_json(&read(COMPACT));
        let has_table = || !read(METRICS).is_empty();
        is_compact
            && match self.kept {
                Kept::Log | Kept::Node => true,
                Kept::Report => has_table() && is_page(PAGE) && !self.path.join(LOG).exists(),
                Kept::All => {
                    let drawings = |page: &Page| markdown::drawings(page);
                    let is_drawn = |name: &str| !read(&format!("{FIGURES}/{name}")).is_empty();
                    is_json(&read(RESULT))
                        && has_table()
                        && pages(document)
                            .iter()
                            .all(|(name, page)| is_page(name) && drawings(page).iter().all(|(name, _)| is_drawn(name)))
                }
            }
    }

    fn write_whole(&self, name: &str, text: &str) -> Result<(), Problem> {
        let place = self.path.join(name);
        create::whole(&place, Access::Shared, text)
            .map_err(|error| Problem::new(format!("cannot write {}: {error}", place.display())).hint(RENDER_LATER))
    }
}

fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok()
}

/// The report, its appendix and the published figures, by the names of their files.
fn pages(document: &Document) -> [(&'static str, Page); 3] {
    [
        (PAGE, content::brief(document, None, OtherPages::Beside)),
        (APPENDIX, content::page(document)),
        (PUBLISHED, content::published_page(document, &Published::embedded())),
    ]
}

/// Most bytes of a file that is computed from a log: more is none of ours.
const MOST_BYTES: u64 = 1 << 30;

/// A directory for runs, made where it is missing. One of another user is refused.
pub fn own(path: &Path, option: &str) -> Result<(), Problem> {
    create::own_directory(path).map_err(|error| {
        let choose = format!("choose a new directory with {option}");
        let hint = if error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_none() {
            format!("{choose}, or change the owner: `chown -R {} {}`", process::effective_user(), path.display())
        } else {
            create::hint(&error, &choose)
        };
        Problem::new(format!("cannot use the directory {} for runs: {error}", path.display())).hint(hint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::log::FORMAT;

    fn header() -> Header {
        Header { log: FORMAT.to_owned(), id: "alder-20260131T120000Z".to_owned(), started: now(), ..Header::default() }
    }

    #[test]
    fn two_runs_of_one_second_have_two_names() {
        let keep = tempfile::tempdir().unwrap();
        let (first, _log) = RunDirectory::create_in(keep.path(), header()).unwrap();
        let (second, _other) = RunDirectory::create_in(keep.path(), header()).unwrap();
        assert!(first.path().ends_with("alder-20260131T120000Z"));
        assert!(second.path().ends_with("alder-20260131T120000Z-2"));
        assert!(std::fs::read_to_string(second.log()).unwrap().contains("120000Z-2"));
    }
}
