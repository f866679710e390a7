//! The run directory: where a log and everything computed from it lie.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::report::{content, csv, html, json, markdown};
use crate::results::document::Document;
use crate::results::published::Published;
use crate::results::trouble::Trouble;

/// A directory with one run in it.
#[derive(Debug, Clone)]
pub struct RunDirectory {
    path: PathBuf,
}

/// Now, RFC 3339 in UTC with whole seconds.
pub fn now() -> String {
    Timestamp::now().round(jiff::Unit::Second).unwrap_or_else(|_| Timestamp::now()).to_string()
}

/// Name of a run: host and start, such as `alder-20260131T120000Z`.
pub fn identifier(host: &str) -> String {
    let now = Timestamp::now().to_zoned(TimeZone::UTC);
    let safe: String =
        host.chars().map(|letter| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' }).collect();
    format!("{safe}-{}", now.strftime("%Y%m%dT%H%M%SZ"))
}

impl RunDirectory {
    /// Creates the directory for a new run; one that holds a run already is refused.
    pub fn create(path: &Path) -> Result<Self, Trouble> {
        let directory = RunDirectory { path: path.to_path_buf() };
        if directory.log().exists() {
            return Err(Trouble::new(format!("{} holds a run already", path.display()))
                .hint("choose another directory with --output DIR, or go on with that run: --resume DIR"));
        }
        std::fs::create_dir_all(path).map_err(|error| {
            Trouble::new(format!("cannot create the run directory {}: {error}", path.display()))
                .hint("choose a place that you can write to with --output DIR")
        })?;
        // Finding out only after minutes of measuring that nothing can be written would be a poor joke.
        let probe = path.join(".writable");
        std::fs::write(&probe, b"sysdyno\n").and_then(|()| std::fs::remove_file(&probe)).map_err(|error| {
            Trouble::new(format!("cannot write to the run directory {}: {error}", path.display()))
                .hint("choose a place that you can write to with --output DIR")
        })?;
        Ok(directory)
    }

    /// The directory of a run that exists: its directory, or the log in it.
    pub fn open(path: &Path) -> Result<Self, Trouble> {
        let directory = if path.is_file() { path.parent().unwrap_or(Path::new(".")) } else { path };
        let directory = RunDirectory { path: directory.to_path_buf() };
        if directory.log().is_file() {
            Ok(directory)
        } else {
            Err(Trouble::new(format!("{} is no run directory: it has no log.jsonl", path.display()))
                .hint("`sysdyno run` names the directory it writes; by default it is under sysdyno-runs/"))
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The log.
    pub fn log(&self) -> PathBuf {
        self.path.join("log.jsonl")
    }

    /// Writes everything that is computed from the log, each file whole or not at all: `result.json`, `metrics.csv`,
    /// `report.html` and its figures.
    pub fn write_result(&self, document: &Document) -> Result<(), Trouble> {
        self.write_whole("result.json", &json::render(document)?)?;
        self.write_whole("metrics.csv", &csv::render(document)?)?;
        let page = content::page(document, &Published::embedded());
        self.write_whole("report.html", &html::render(&page))?;
        let folder = self.path.join("figures");
        std::fs::create_dir_all(&folder).map_err(|error| {
            Trouble::new(format!("cannot create {}: {error}", folder.display()))
                .hint("the log is complete: `sysdyno report` renders it when there is room")
        })?;
        let drawings = markdown::drawings(&page);
        drawings.iter().try_for_each(|(name, svg)| self.write_whole(&format!("figures/{name}"), svg))
    }

    fn write_whole(&self, name: &str, text: &str) -> Result<(), Trouble> {
        let place = self.path.join(name);
        let file = place.file_name().map_or_else(String::new, |file| file.to_string_lossy().into_owned());
        let partial = place.with_file_name(format!(".{file}.partial"));
        std::fs::write(&partial, text).and_then(|()| std::fs::rename(&partial, &place)).map_err(|error| {
            // Nothing half-written stays; the log has everything that the file would say.
            let _ = std::fs::remove_file(&partial);
            Trouble::new(format!("cannot write {}: {error}", place.display()))
                .hint("the log is complete: `sysdyno report` renders it when there is room")
        })
    }
}
