//! `sysdyno machine`: the description of a machine.

use std::path::Path;

use super::arguments::MachineOptions;
use super::{DONE, Failure, cut, json, print, terminal_width};
use crate::machine::{self, Machine, Mark};
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
    print(&match (options.json, options.all) {
        (true, _) => json(&machine)?,
        (_, true) => describe(&machine),
        _ => in_brief(&machine),
    })?;
    Ok(DONE)
}

/// Lines of facts that fit one screen.
const LINES: usize = 19;

/// The machine on one screen.
fn in_brief(machine: &Machine) -> String {
    let rows: Vec<_> = machine.sections().into_iter().flat_map(|section| section.rows).collect();
    let brief = rows.iter().filter(|row| row.marks.contains(&Mark::Screen)).take(LINES);
    let lines = brief.map(|row| cut(&format!("{:<26}{}", row.name, row.value)) + "\n");
    let summary = cut(&machine.summary_line());
    format!(
        "{summary}\nfingerprint {}\n{}All {} facts with their sources: --all.\n",
        machine.fingerprint,
        lines.collect::<String>(),
        rows.len()
    )
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
