//! Published measurements of other machines, by the design of their core: `catalogue/published.json`. They come from dumps of InstLatX64
//! and sbc-bench, and for costs of the kernel from published runs of UnixBench and lmbench. Methods differ somewhat from those here.
//! Last caches of Intel designs are left out: those of servers take up to twice as long as those of clients.

use std::sync::OnceLock;

use serde::Deserialize;

use crate::results::quantity::Unit;

/// A cost as others published it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Core design; empty for any x86-64 core.
    pub design: String,
    /// `bare metal`, `guest`, or empty for both.
    pub environment: String,
    /// Short name of the cost.
    pub cost: String,
    /// Unit of the numbers.
    pub unit: Unit,
    /// The least of the models.
    pub low: f64,
    /// The median of the models.
    pub value: f64,
    /// The largest of the models.
    pub high: f64,
    /// Models that were measured.
    pub models: u32,
    /// Where the numbers are from.
    pub source: String,
}

/// All of them.
pub fn published() -> &'static [Published] {
    static FOUND: OnceLock<Vec<Published>> = OnceLock::new();
    #[allow(clippy::expect_used, reason = "a test reads the file")]
    FOUND.get_or_init(|| {
        serde_json::from_str(include_str!("../../catalogue/published.json")).expect("a table of published costs")
    })
}
