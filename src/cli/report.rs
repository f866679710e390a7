//! `sysdyno report`: a run again, from its log.

use std::path::{Path, PathBuf};

use super::answer::Answer;
use super::arguments::{Format, ReportOptions};
use super::{DONE, Failure, runs, say, terminal_width, write_file};
use crate::assemble;
use crate::conduct::directory::{COMPACT, RunDirectory};
use crate::conduct::figures;
use crate::report::content::stored::Shown;
use crate::report::content::{OtherPages, run_screen};
use crate::report::exports::{self, Form, Scope};
use crate::report::page::Page;
use crate::report::reference::ReferenceRun;
use crate::report::{compact, content, csv, html, json, markdown, terminal, text};
use crate::results::compact::Compact;
use crate::results::document::Document;
use crate::results::problem::Problem;
use crate::results::published::Published;
use crate::sys::talk;

/// A compact form is far smaller.
const MOST_BYTES: u64 = 16 << 20;

pub(super) fn report(options: &ReportOptions) -> Result<u8, Failure> {
    let run = runs::or_newest(options.run.as_deref())?;
    let document = || document_of(&run);
    if options.reference.is_some() && !shows_costs(options.format) {
        let problem = Problem::new("this format shows no reference run")
            .hint("use --format text, summary, html or markdown. `sysdyno compare` compares two runs as data");
        return Err(Failure::from(problem));
    }
    if let Some(text) = of_compact(options, &run)? {
        return put(options, text);
    }
    if options.screen.hide_analysis && !shows_costs(options.format) {
        let problem = Problem::new("this format has data, and --hide-analysis is for reports")
            .hint("use --format text, summary, html or markdown, or leave the option out");
        return Err(Failure::from(problem));
    }
    let page = |document: &Document| -> Result<Page, Problem> {
        let page = if options.published {
            content::published_page(document, &Published::embedded())
        } else if options.full {
            content::page(document)
        } else {
            // Next to a page that goes to a file are those that it links.
            let is_linked = options.format == Format::Html && file(options).is_some();
            let others = if is_linked { OtherPages::Beside } else { OtherPages::OnDemand };
            content::brief(document, reference(options, document)?.as_ref(), others)
        };
        Ok(page.with(options.screen.analysis()))
    };
    let text = match options.format {
        Format::Text => text::render(&page(&document()?)?, terminal_width()),
        Format::Summary if options.screen.all => terminal::summary(&document()?, terminal_width()),
        Format::Summary => {
            let document = document()?;
            let reference = reference(options, &document)?;
            let lines = run_screen::screen(&document, terminal_width(), reference.as_ref(), options.screen.analysis());
            return Answer::Screen(lines, options.screen.color).show(options.output.as_deref()).map(|()| DONE);
        }
        Format::Html => {
            let document = document()?;
            let page = page(&document)?;
            write_linked(options, &document, &page)?;
            html::render(&page)
        }
        Format::Markdown => {
            let page = page(&document()?)?;
            write_drawings(options, &page)?;
            markdown::render(&page)
        }
        Format::Json => json::render(&document()?)?,
        Format::Compact => compact::render(&document()?)?,
        Format::Csv => csv::render(&document()?)?,
        Format::GoogleBenchmark => export(options, &run, Form::GoogleBenchmark)?,
        Format::Go => export(options, &run, Form::Go)?,
        Format::Bencher => export(options, &run, Form::Bencher)?,
        Format::GithubActionBenchmark => export(options, &run, Form::GithubActionBenchmark)?,
        Format::Otava => export(options, &run, Form::Otava)?,
        Format::OpenMetrics => export(options, &run, Form::OpenMetrics)?,
        Format::Junit => export(options, &run, Form::Junit)?,
    };
    put(options, text)
}

/// Writes a report to where it was asked for.
fn put(options: &ReportOptions, text: String) -> Result<u8, Failure> {
    Answer::Text(text).show(options.output.as_deref()).map(|()| DONE)
}

/// The report of a run without a log, in a format for people. None for a run with a log, and for other formats.
fn of_compact(options: &ReportOptions, run: &Path) -> Result<Option<String>, Failure> {
    let stored = if shows_costs(options.format) { stored(&without_log(run))? } else { None };
    let Some(found) = stored else { return Ok(None) };
    if options.published || options.reference.is_some() {
        let problem = Problem::new(format!("{} has no log, which this page needs", run.display()))
            .hint("give the run directory or the log in it. `sysdyno compare` compares node.json files");
        return Err(problem.into());
    }
    let shown = match options.format {
        _ if options.full || options.screen.all => Shown::Everything,
        Format::Summary => Shown::Headlines,
        _ => Shown::Page,
    };
    let page = content::stored::page(&found, shown);
    Ok(Some(match options.format {
        Format::Html => html::render(&page),
        Format::Markdown => markdown::render(&page),
        _ => text::render(&page, terminal_width()),
    }))
}

/// The node.json of a directory that has no log, else the place itself.
fn without_log(run: &Path) -> PathBuf {
    let alone = run.join(COMPACT);
    if RunDirectory::open(run).is_err() && alone.is_file() { alone } else { run.to_path_buf() }
}

fn document_of(run: &Path) -> Result<Document, Problem> {
    if stored(run)?.is_some() {
        return Err(Problem::new(format!("{} is a node.json, which cannot make this format", run.display()))
            .hint("give the run directory or the log in it, or a format for other programs, such as --format go"));
    }
    let document = assemble::document_of(&place(run)?)?;
    if let Some(damage) = &document.run.damage {
        say(format_args!("warning: {damage}. Everything before it is used"));
    }
    Ok(document)
}

/// Whether a format has the costs of a run for people.
fn shows_costs(format: Format) -> bool {
    matches!(format, Format::Text | Format::Summary | Format::Html | Format::Markdown)
}

/// The run whose costs are shown next to those of a document.
fn reference(options: &ReportOptions, document: &Document) -> Result<Option<ReferenceRun>, Problem> {
    let Some(name) = &options.reference else { return Ok(None) };
    let runs = runs::named(name)?;
    let [placed] = runs.as_slice() else {
        return Err(Problem::new(format!("{} has {} runs, and a reference is one run", name.display(), runs.len()))
            .hint("name one of its run directories. `sysdyno compare` compares groups of runs"));
    };
    ReferenceRun::of(&placed.run, document).map(Some)
}

/// The run in a form for another program.
fn export(options: &ReportOptions, run: &Path, form: Form) -> Result<String, Problem> {
    let run = match stored(&without_log(run))? {
        Some(stored) => stored,
        None => Compact::of(&document_of(run)?),
    };
    exports::render(form, &run, if options.full { Scope::All } else { Scope::Headlines })
}

/// A file with the compact form of a run. None where it is something else.
fn stored(place: &Path) -> Result<Option<Compact>, Problem> {
    #[derive(serde::Deserialize)]
    struct Format {
        #[serde(rename = "format")]
        _format: String,
    }
    if !std::fs::metadata(place).is_ok_and(|found| found.is_file() && found.len() <= MOST_BYTES) {
        return Ok(None);
    }
    let unreadable = |error: String| {
        Problem::new(format!("cannot read {}: {error}", place.display()))
            .hint("give a run directory, its log, or its node.json")
    };
    let bytes = std::fs::read(place).map_err(|error| unreadable(error.to_string()))?;
    // A log is many values and none of them has a format.
    if serde_json::from_slice::<Format>(&bytes).is_err() {
        return Ok(None);
    }
    Compact::parse(&bytes).map(Some).map_err(unreadable)
}

/// The log of a run directory, or the log itself.
pub(super) fn place(run: &Path) -> Result<PathBuf, Problem> {
    if run.is_file() { Ok(run.to_path_buf()) } else { Ok(RunDirectory::open(run)?.log()) }
}

fn file(options: &ReportOptions) -> Option<&Path> {
    options.output.as_deref().filter(|file| file.as_os_str() != "-")
}

/// A page links others by their names: a file outside the run directory needs them next to it. Files that exist stay.
fn write_linked(options: &ReportOptions, document: &Document, page: &Page) -> Result<(), Failure> {
    let Some(file) = file(options) else { return Ok(()) };
    for name in ["appendix.html", "published.html"] {
        let place = file.with_file_name(name);
        if place != file && page.links_to(name) && !place.exists() {
            let other = match name {
                "appendix.html" => content::page(document),
                _ => content::published_page(document, &Published::embedded()),
            };
            write_file(&place, &html::render(&other.with(options.screen.analysis())), "--output")?;
            talk::line(format_args!("note: the page links to {}, which is new", place.display()));
        }
    }
    Ok(())
}

/// Markdown names its figures as files. Without an output file there is no place for them.
fn write_drawings(options: &ReportOptions, page: &Page) -> Result<(), Failure> {
    let Some(file) = file(options) else {
        talk::line("note: the figures are separate files. -o FILE writes them to figures/");
        return Ok(());
    };
    figures::write(file.parent().unwrap_or(Path::new("")), page).map_err(Failure::from)
}
