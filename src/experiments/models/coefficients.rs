//! The table of coefficients: for each figure its ratio to its primitive, by design of the core and over all, with how far records
//! that were left out lie from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::experiments::prelude::*;

/// What a coefficient may depend on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Host {
    /// Design of the core.
    pub design: String,
    /// First two numbers of the kernel's release.
    pub kernel: String,
    /// The hypervisor; empty on bare metal.
    pub hypervisor: String,
}

/// What coefficients call a design. Thousands name one, so it is without the products in brackets.
pub fn design(name: &str) -> &str {
    name.split_once(" (").map_or(name, |(name, _)| name)
}

impl Host {
    /// Of a machine and the CPU that is measured.
    pub fn of(machine: &Machine, cpu: u32) -> Host {
        let release = machine.kernel.release.as_ref().map_or("", |found| found.value.as_str());
        Host {
            design: design(machine.core_class(cpu).name()).to_owned(),
            kernel: release.split('.').take(2).collect::<Vec<_>>().join("."),
            hypervisor: machine.hypervisor_name().unwrap_or_default(),
        }
    }
}

/// A ratio over some records.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(into = "(f64, f64, u32)")]
pub struct Ratio {
    /// Figure over primitive, or their product for rates: the median over sessions.
    pub ratio: f64,
    /// Factor within which records lie that were left out; above 1.
    pub spread: f64,
    /// Records behind it.
    pub records: u32,
}

/// The file has thousands of them, each as a list without names.
impl From<Ratio> for (f64, f64, u32) {
    fn from(found: Ratio) -> Self {
        (found.ratio, found.spread, found.records)
    }
}

/// The ratios of a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Over all records.
    pub all: Ratio,
    /// By design of the core, where sessions suffice for a spread.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub designs: BTreeMap<String, Ratio>,
}

/// All coefficients.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Coefficients {
    /// Names of the records that they are fitted on.
    pub records: Vec<String>,
    /// Kernel series among them.
    pub kernels: BTreeSet<String>,
    /// Hypervisors among them.
    pub hypervisors: BTreeSet<String>,
    /// How good such predictions are for records that they were not fitted on.
    #[serde(default)]
    pub left_out: Option<Score>,
    /// Share by which the core clock of a design moves between runs (half-width at 95 %), where sessions suffice.
    #[serde(default)]
    pub clocks: BTreeMap<String, f64>,
    /// By figure.
    pub rows: BTreeMap<String, Row>,
}

/// How good predictions are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// How many were judged.
    pub count: usize,
    /// Median factor between prediction and measurement.
    pub error: f64,
    /// Median width of the ranges: upper end over lower end.
    pub width: f64,
    /// Share of the measurements inside.
    pub inside: f64,
    /// Share within a factor of two.
    pub within_two: f64,
}

/// A host that is unlike all records in some way is further away by this factor.
pub const UNSEEN: f64 = 1.25;

impl Coefficients {
    /// The ratio of a figure on a host, with the range that its likeness to the records allows.
    pub fn find(&self, figure: &str, host: &Host) -> Option<Ratio> {
        let row = self.rows.get(figure)?;
        let same = row.designs.get(&host.design).copied();
        let mut found = same.unwrap_or(Ratio { spread: row.all.spread * UNSEEN, ..row.all });
        if !self.kernels.contains(&host.kernel) || !self.hypervisors.contains(&host.hypervisor) {
            found.spread *= UNSEEN;
        }
        Some(found)
    }
}

/// The committed coefficients.
pub fn table() -> &'static Coefficients {
    static TABLE: OnceLock<Coefficients> = OnceLock::new();
    // A test reads the same text: it is a table.
    TABLE.get_or_init(|| serde_json::from_slice(include_bytes!("coefficients.json")).unwrap_or_default())
}
