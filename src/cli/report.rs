//! `sysdyno report`: a run again, from its log.

use super::arguments::{Format, ReportOptions};
use super::{DONE, Failure, print, terminal_width};
use crate::assemble;
use crate::conduct::directory::RunDirectory;
use crate::report::{json, terminal};
use crate::results::log;
use crate::results::trouble::Trouble;

pub(super) fn report(options: &ReportOptions) -> Result<u8, Failure> {
    let place = if options.run.is_file() { options.run.clone() } else { RunDirectory::open(&options.run)?.log() };
    let log = log::read(&place)?;
    if let Some(damage) = &log.damage {
        eprintln!("warning: {damage}; everything before that is kept");
    }
    let document = assemble::document(&log);
    let text = match options.format {
        Format::Terminal => terminal::full(&document, terminal_width()),
        Format::Summary => terminal::summary(&document, terminal_width()),
        Format::Json => json::render(&document)?,
    };
    match &options.output {
        Some(file) if file.as_os_str() != "-" => std::fs::write(file, text).map_err(|error| {
            Failure::from(
                Trouble::new(format!("cannot write {}: {error}", file.display()))
                    .hint("choose another file with --output"),
            )
        })?,
        _ => print(&text)?,
    }
    Ok(DONE)
}
