//! A table with one row for Apache Otava: the time of the run, what the run was, and a column for each result.
//!
//! Otava looks for changes along a column and needs a number in every row. A result that cannot be compared has no column: a
//! number that stands for none would hide every change of the column.

use super::{Scope, comparable};
use crate::report::csv::word;
use crate::results::compact::Compact;
use crate::results::problem::Problem;

/// The file.
pub(super) fn render(run: &Compact, scope: Scope) -> Result<String, Problem> {
    let known = |text: &Option<String>| word(text.as_deref().unwrap_or_default()).replace(['\n', '\t'], " ");
    let cell = |text: &str| word(text).replace(['\n', '\t'], " ");
    let (mut heads, mut row): (Vec<String>, Vec<String>) = [
        ("time", cell(&run.run.started)),
        ("run", cell(&run.run.id)),
        ("node", known(&run.node.name)),
        ("kernel", known(&run.node.kernel)),
        ("version", cell(&run.run.version)),
    ]
    .map(|(head, cell)| (head.to_owned(), cell))
    .into_iter()
    .unzip();
    for entry in comparable(run, scope) {
        heads.push(entry.name());
        row.push(entry.figure.value.to_string());
    }
    let cannot = |error: &dyn std::fmt::Display| Problem::new(format!("cannot encode the results: {error}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    for record in [heads, row] {
        writer.write_record(&record).map_err(|error| cannot(&error))?;
    }
    let bytes = writer.into_inner().map_err(|error| cannot(&error))?;
    String::from_utf8(bytes).map_err(|error| cannot(&error))
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    #[test]
    fn a_run_is_a_row() {
        let mut run = run();
        "=1\n2".clone_into(&mut run.run.id);
        let text = render(&run, Scope::Headlines).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].starts_with("time,run,node,kernel,version,cpu.timer.overhead/clock=tsc,"), "{text}");
        assert!(lines[1].starts_with("2026-11-23T13:30:25Z,'=1 2,vm,6.18.44,0.1.0,12.5,"), "{text}");
        assert_eq!(lines[0].split(',').count(), lines[1].split(',').count());
    }
}
