//! What kind of machine it is: the facts that decide what its costs are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The kind of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// Design of the core, as in `AMD Zen 4`; empty where it is not known.
    pub design: String,
    /// What it runs on, as in `KVM guest` or `bare metal`.
    pub environment: String,
    /// The kernel's line, as in `6.18`.
    pub kernel: String,
    /// What the kernel does on its way in and out against flaws of the processor.
    pub mitigations: String,
    /// CPUs.
    pub cpus: u32,
    /// Memory in words.
    pub memory: String,
    /// The disk that files are read from, in words.
    pub disk: String,
}

/// How alike two kinds of machines are, the most alike first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Core design, environment, kernel line and mitigations.
    Alike,
    /// Core design and environment.
    Environment,
    /// Core design.
    Design,
    /// Vendor, environment, kernel line and mitigations.
    VendorAlike,
    /// Vendor and environment.
    Vendor,
    /// Environment.
    Any,
}

impl Level {
    pub const ALL: [Level; 6] =
        [Level::Alike, Level::Environment, Level::Design, Level::VendorAlike, Level::Vendor, Level::Any];

    /// What machines have in common; none where it is not known.
    pub fn key(self, kind: &Kind) -> Option<String> {
        let Kind { design, environment, kernel, mitigations, .. } = kind;
        let vendor = design.split(' ').next().unwrap_or_default();
        (!design.is_empty() || self == Level::Any).then(|| match self {
            Level::Alike => format!("{design}, {environment}, {kernel}, {mitigations}"),
            Level::Environment => format!("{design}, {environment}"),
            Level::Design => design.clone(),
            Level::VendorAlike => format!("{vendor}, {environment}, {kernel}, {mitigations}"),
            Level::Vendor => format!("{vendor}, {environment}"),
            Level::Any => environment.clone(),
        })
    }

    /// The machines in words, as in `AMD Zen 4, KVM guest`.
    pub fn machines(self, kind: &Kind) -> String {
        let Kind { design, environment, .. } = kind;
        match self {
            Level::Alike | Level::Environment => format!("{design}, {environment}"),
            Level::Design => format!("{design} in other environments"),
            Level::VendorAlike | Level::Vendor => {
                format!("other {} designs, {environment}", design.split(' ').next().unwrap_or_default())
            }
            Level::Any => format!("other designs, {environment}"),
        }
    }
}

/// Words in the state of a vulnerability that a way into the kernel pays for, and their short names.
const PAID: [(&str, &str); 9] = [
    ("meltdown: Mitigation: PTI", "page-table isolation"),
    ("spectre_v2: Mitigation: Retpolines", "retpolines"),
    ("spectre_v2: Mitigation: Enhanced", "enhanced IBRS"),
    ("spectre_v2: Mitigation: IBRS", "IBRS"),
    ("spec_rstack_overflow: Mitigation: Safe RET", "safe RET"),
    ("spec_rstack_overflow: Vulnerable: Safe RET", "safe RET"),
    ("retbleed: Mitigation: untrained", "untrained returns"),
    ("mds: Mitigation", "cleared buffers"),
    ("its: Mitigation: Aligned", "aligned branches"),
];

impl Kind {
    /// Of the facts of a machine, as a run lists them.
    pub fn of(facts: &BTreeMap<String, String>) -> Kind {
        let fact = |name: &str| facts.get(name).map_or("", String::as_str);
        let before = |text: &str, mark: &str| text.split(mark).next().unwrap_or_default().trim().to_owned();
        let design = before(fact("Processor: microarchitecture"), " (");
        let environment = match before(fact("Limits: hypervisor"), " (").as_str() {
            "" => "bare metal".to_owned(),
            "unnamed" => "guest".to_owned(),
            name => format!("{name} guest"),
        };
        let release: Vec<&str> = fact("Kernel: release").split(['.', '-']).take(2).collect();
        let states: Vec<String> = facts
            .iter()
            .filter_map(|(name, state)| Some(format!("{}: {state}", name.strip_prefix("Kernel: ")?)))
            .collect();
        let is_paid = |(state, _): &&(&str, &str)| states.iter().any(|found| found.starts_with(state));
        let mut paid: Vec<&str> = PAID.iter().filter(is_paid).map(|(_, name)| *name).collect();
        paid.dedup();
        let disk = facts.iter().find(|(name, _)| name.starts_with("Storage: its disk")).map(|(_, text)| {
            let (_, what) = text.split_once(", ").unwrap_or(("", text));
            what.to_owned()
        });
        Kind {
            design: if design == "unknown" { String::new() } else { design },
            environment,
            kernel: release.join("."),
            mitigations: if paid.is_empty() { "none".to_owned() } else { paid.join(", ") },
            cpus: fact("Processor: CPUs").split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0),
            memory: fact("Memory: total").to_owned(),
            disk: disk.unwrap_or_default(),
        }
    }

    /// The same in few words.
    pub fn short_name(&self) -> String {
        format!("{}, {} CPU, {}", self.design, self.cpus, self.environment.trim_end_matches(" guest"))
    }

    /// The machine in words: design, CPUs, environment.
    pub fn name(&self) -> String {
        let design = if self.design.is_empty() { "unknown core" } else { &self.design };
        let cpus = if self.cpus == 1 { "CPU" } else { "CPUs" };
        format!("{design}, {} {cpus}, {}", self.cpus, self.environment)
    }
}
