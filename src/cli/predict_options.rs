//! What can be typed after `predict`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(super) struct PredictOptions {
    /// Experiments or chapters (default: the most common costs)
    #[arg(value_name = "EXPERIMENT|CHAPTER")]
    pub selection: Vec<String>,
    /// Print every prediction with its terms
    #[arg(long)]
    pub all: bool,
    /// Predict from the results of this run (default: the newest run in sysdyno-runs), and show how good its predictions were
    #[arg(long, value_name = "RUN", num_args = 0..=1, conflicts_with = "claims")]
    pub from: Option<Vec<PathBuf>>,
    /// Predict from what the machine claims, the literature, and records of other runs, without measuring
    #[arg(long)]
    pub claims: bool,
    /// Print a form for your own predictions instead, which `sysdyno run --predictions FILE` scores (--all: of every figure)
    #[arg(long, conflicts_with_all = ["from", "claims", "json"])]
    pub blank: bool,
    /// Predict for this CPU (default: the CPU that `run` would choose)
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub cpu: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
