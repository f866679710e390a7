//! The machine in words: rows that a terminal or a report prints without knowing what they are about.

use std::fmt::Display;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fact::{Claims, Fact};
use super::wording::bytes;
use super::{Machine, contradiction};

mod place;
mod processor;
mod system;

/// A titled group of rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FactSection {
    /// What the rows are about.
    pub title: String,
    /// The rows, in order of reading.
    pub rows: Vec<FactRow>,
}

/// One fact in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FactRow {
    /// What it is.
    pub name: String,
    /// The value with its unit.
    pub value: String,
    /// Who states it; empty for a remark.
    pub source: String,
    /// What to keep in mind.
    pub note: Option<String>,
}

impl FactRow {
    /// A row without a note.
    pub(super) fn new(name: &str, value: impl Display, source: impl Into<String>) -> FactRow {
        FactRow { name: name.to_owned(), value: value.to_string(), source: source.into(), note: None }
    }

    /// A row for a fact, if it is known.
    pub(super) fn of<T>(name: &str, fact: Option<&Fact<T>>, write: impl Fn(&T) -> String) -> Option<FactRow> {
        fact.map(|fact| FactRow::new(name, write(&fact.value), fact.source.clone()))
    }

    /// A row for a fact of text or number, if it is known.
    pub(super) fn plain<T: Display>(name: &str, fact: Option<&Fact<T>>) -> Option<FactRow> {
        FactRow::of(name, fact, ToString::to_string)
    }

    /// A row for the best claim, with the other claims as its note.
    pub(super) fn claims<T>(name: &str, claims: &Claims<T>, write: impl Fn(&T) -> String) -> Option<FactRow> {
        let texts = claims.texts(write);
        let (best, others) = texts.split_first()?;
        let others: Vec<String> = others.iter().map(|fact| format!("{} ({})", fact.value, fact.source)).collect();
        let note = (!others.is_empty()).then(|| format!("also: {}", others.join("; ")));
        Some(FactRow::new(name, &best.value, best.source.clone()).with_note(note))
    }

    /// The row with a note, if there is one.
    pub(super) fn with_note(mut self, note: Option<String>) -> FactRow {
        self.note = note.or(self.note);
        self
    }
}

impl Machine {
    /// The whole description, section by section.
    pub fn sections(&self) -> Vec<FactSection> {
        let section = |title: &str, rows: Vec<FactRow>| FactSection { title: title.to_owned(), rows };
        let sections = vec![
            section("Processor", processor::processor(self)),
            section("Caches", processor::caches(self)),
            section("Memory", system::memory(&self.memory)),
            section("Storage", place::storage(&self.storage)),
            section("Network", place::network(&self.network)),
            section("Kernel", system::kernel(&self.kernel)),
            section("Limits", place::limits(&self.limits)),
            section("Contradictions", contradictions(self)),
        ];
        sections.into_iter().filter(|section| !section.rows.is_empty()).collect()
    }

    /// The same in about 55 letters: names without marks and build numbers.
    pub fn short_line(&self) -> String {
        let name = self.processor_name();
        let name = ["(R)", "(TM)", "(tm)", " Processor"].iter().fold(name, |name, mark| name.replace(mark, ""));
        let mut parts = vec![name, format!("{} CPUs", self.cpu.topology().logical)];
        parts.extend(self.memory.total_bytes.as_ref().map(|fact| bytes(fact.value)));
        parts.extend(self.kernel.name(true));
        parts.extend(self.limits.hypervisor.best().map(|name| match name.value.as_str() {
            "unnamed" => "guest".to_owned(),
            name => format!("{name} guest"),
        }));
        parts.extend(self.cpu.emulator.as_ref().map(|fact| fact.value.clone()));
        parts.join(", ")
    }

    /// The machine in one line: processor, CPUs, memory, kernel, what stands in between.
    pub fn summary_line(&self) -> String {
        let topology = self.cpu.topology();
        let mut parts = vec![self.processor_name()];
        parts.extend(
            self.cpu
                .architecture
                .as_ref()
                .filter(|_| !self.cpu.is_supported())
                .map(|name| format!("architecture {} (not supported)", name.value)),
        );
        let usable = self.available_cpus();
        let restricted = usable < topology.logical as f64;
        parts.push(format!(
            "{} CPUs{}",
            topology.logical,
            if restricted { format!(" ({usable} usable)") } else { String::new() }
        ));
        parts.extend(self.memory.total_bytes.as_ref().map(|fact| bytes(fact.value)));
        parts.extend(self.kernel.name(false));
        parts.push(match self.limits.hypervisor.best() {
            Some(name) if name.value == "unnamed" => "virtual machine".to_owned(),
            Some(name) => format!("virtual machine ({})", name.value),
            None => "no hypervisor seen".to_owned(),
        });
        parts.extend(self.limits.container.best().map(|fact| format!("container ({})", fact.value)));
        parts.extend(self.cpu.emulator.as_ref().map(|fact| fact.value.clone()));
        parts.extend((!self.hidden.is_empty()).then(|| "facts are hidden".to_owned()));
        parts.join(", ")
    }
}

fn contradictions(machine: &Machine) -> Vec<FactRow> {
    let joined = |texts: Vec<&str>, separator: &str| texts.join(separator);
    contradiction::all(machine)
        .iter()
        .map(|found| {
            let answers = joined(found.claims.iter().map(|claim| claim.value.as_str()).collect(), " ≠ ");
            let sources = joined(found.claims.iter().map(|claim| claim.source.as_str()).collect(), "; ");
            FactRow::new(&found.question, answers, sources)
        })
        .collect()
}
