//! `sysdyno machines`: what costs are on other machines, and the entry of a machine for the catalogue.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{DONE, Failure, json, print, runs, terminal_width, write_file};
use crate::catalogue::built_in::built_in;
use crate::catalogue::entry::Entry;
use crate::catalogue::page;
use crate::experiments::costs;
use crate::report::terminal::plain_table;
use crate::results::wording::significant;

/// The catalogue of machines.
#[derive(Debug, Args)]
#[command(
    after_help = "A run names the machines of its kind in its verdict. `sysdyno compare --across A B` compares two of your own runs.",
    args_conflicts_with_subcommands = true
)]
pub(super) struct MachinesOptions {
    #[command(subcommand)]
    pub verb: Option<MachinesVerb>,
    /// Write one page that sorts, filters and compares machines, and takes a run of your own
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print the entries as JSON
    #[arg(long, conflicts_with = "html")]
    pub json: bool,
    /// Print every cost of each machine
    #[arg(long, conflicts_with_all = ["html", "json"])]
    pub all: bool,
}

/// What to do with the catalogue.
#[derive(Debug, Subcommand)]
pub(super) enum MachinesVerb {
    /// Make the entry of a machine from its runs. It prints every byte that the file has
    Add {
        /// Runs of one machine: run directories, node.json files, or directories of runs
        #[arg(value_name = "RUN", required = true)]
        runs: Vec<PathBuf>,
        /// Who measured it, as the entry names its source
        #[arg(long, value_name = "WORDS", default_value = "runs of sysdyno")]
        source: String,
        /// Write to this file instead of standard output
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// Costs of the list, by their short names.
const LISTED: [&str; 4] = ["system call", "switch, same CPU", "memory load", "memory read"];

pub(super) fn machines(options: &MachinesOptions) -> Result<u8, Failure> {
    if let Some(MachinesVerb::Add { runs, source, output }) = &options.verb {
        return add(runs, source, output.as_ref());
    }
    let entries = built_in();
    if let Some(file) = &options.html {
        let text = page::page(entries);
        if file.as_os_str() == "-" { print(&text)? } else { write_file(file, &text, "--html")? }
    } else if options.json {
        print(&json(&entries)?)?;
    } else if options.all {
        print(&whole(entries))?;
    } else {
        print(&listed(entries))?;
    }
    Ok(DONE)
}

fn add(names: &[PathBuf], source: &str, output: Option<&PathBuf>) -> Result<u8, Failure> {
    let mut found = Vec::new();
    for name in names {
        found.extend(runs::named(name)?);
    }
    let runs: Vec<_> = runs::each_once(found).into_iter().map(|placed| placed.run).collect();
    let text = Entry::of(&runs, source)?.text();
    print(&text)?;
    if let Some(file) = output.filter(|file| file.as_os_str() != "-") {
        write_file(file, &text, "--output")?;
    }
    Ok(DONE)
}

fn cell(entry: &Entry, cost: &str) -> String {
    entry.shown(cost).map_or_else(|| "–".to_owned(), |(unit, [_, value, _])| significant(value, unit, 3))
}

fn listed(entries: &[Entry]) -> String {
    let row = |entry: &Entry| {
        let costs = LISTED.iter().map(|cost| cell(entry, cost));
        [entry.kind.short_name(), entry.runs.len().to_string()].into_iter().chain(costs).collect()
    };
    let head = ["machine", "runs", "syscall", "switch", "memory", "read"];
    let table = plain_table(&head, entries.iter().map(row).collect(), terminal_width());
    format!("{table}\n\nAll costs: --all. One page to compare machines: --html FILE. Add yours: machines add RUN.\n")
}

fn whole(entries: &[Entry]) -> String {
    let mut text = String::new();
    for entry in entries {
        text += &format!("{}\n{}\n", entry.kind.name(), entry.about());
        for name in costs::asked().map(|asked| asked.name).filter(|name| entry.cost(name).is_some()) {
            text += &format!("  {name:<18}{:>12}\n", cell(entry, name));
        }
        text += "\n";
    }
    text
}
