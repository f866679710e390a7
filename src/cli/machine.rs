//! `sysdyno machine`: the description of a machine.

use std::path::Path;

use super::arguments::MachineOptions;
use super::{DONE, Failure, json, print, terminal_width};
use crate::machine::{self, Machine};
use crate::report::terminal::plain_table;
use crate::results::problem::Problem;

pub(super) fn machine(options: &MachineOptions) -> Result<u8, Failure> {
    if !options.root.is_dir() {
        return Err(Problem::new(format!("{} is not a directory", options.root.display()))
            .hint("give --root a directory with copies of a machine's /proc, /sys and /etc")
            .into());
    }
    let scratch = options.scratch.as_deref().unwrap_or(Path::new("."));
    let machine = machine::detect(&options.root, scratch);
    print(&if options.json { json(&machine)? } else { describe(&machine) })?;
    Ok(DONE)
}

fn describe(machine: &Machine) -> String {
    let mut text = format!("{}\nfingerprint {}\n", machine.summary_line(), machine.fingerprint);
    for section in machine.sections() {
        let rows = section
            .rows
            .into_iter()
            .map(|row| {
                let value = row.note.map_or(row.value.clone(), |note| format!("{} ({note})", row.value));
                vec![row.name, value, row.source]
            })
            .collect();
        text +=
            &format!("\n{}\n{}\n", section.title, plain_table(&["fact", "value", "source"], rows, terminal_width()));
    }
    text
}
