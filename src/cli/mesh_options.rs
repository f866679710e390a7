//! What can be typed after `sysdyno mesh`.

use std::path::PathBuf;

use clap::Args;

use super::paint::ColourChoice;
use super::values::{new_directory, parse_bytes, parse_duration, parse_label, parse_network};
use crate::conduct::mesh::networks::NetworkChoice;
use crate::peer::protocol::MOST_STREAMS;

/// Who takes part, where the tasks meet, and what they measure.
#[derive(Debug, Args)]
#[command(
    after_help = "Every task of a job runs this command, one on each node. Rank 0 writes the result to DIR, and prints it.\n\
Rank and size come from SLURM_PROCID, PMIX_RANK, PMI_RANK, OMPI_COMM_WORLD_RANK or JOB_COMPLETION_INDEX.\n\
All rounds fill the network: use --alone or --rate where other jobs need it.\n\n\
  srun --ntasks-per-node=1 sysdyno mesh FLEET/mesh --network 10.1.0.0/16\n\n\
Exit codes: 0 nothing is odd, 1 a sender, receiver or link is odd, 2 wrong command, 3 pairs are missing or too few,\n\
130 interrupted."
)]
pub(super) struct MeshOptions {
    /// Directory of the result, which all tasks share
    #[arg(value_name = "DIR", value_parser = new_directory("Name the directory of a fleet."))]
    pub directory: PathBuf,
    /// Rank of this task, from 0 (default: from the engine)
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub rank: Option<u32>,
    /// Number of all tasks (default: from the engine)
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub size: Option<u32>,
    /// Network to measure: its addresses, such as 10.1.0.0/16, or an interface (default: the one that faces rank 0)
    #[arg(long, value_name = "CIDR|INTERFACE", value_parser = parse_network)]
    pub network: Option<NetworkChoice>,
    /// Address of rank 0, for nodes without a shared directory. Needs a secret of 16 or more characters
    #[arg(long, value_name = "HOST:PORT")]
    pub meet: Option<String>,
    /// File that contains only the secret (or SYSDYNO_PEER_SECRET)
    #[arg(long, value_name = "FILE", requires = "meet")]
    pub peer_secret_file: Option<PathBuf>,
    /// Measure all pairs
    #[arg(long, conflicts_with = "rounds")]
    pub all: bool,
    /// Measure this many rounds of disjoint pairs
    #[arg(long, value_name = "N", default_value_t = 8, allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Measure one pair at a time, not all pairs of a round at once
    #[arg(long)]
    pub alone: bool,
    /// Limit of each flow in bytes per second, such as 500M
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, allow_negative_numbers = true)]
    pub rate: Option<u64>,
    /// Connections of a flow
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=i64::from(MOST_STREAMS)))]
    pub streams: u8,
    /// Seed of the order of the pairs (default: random, recorded in the result)
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Longest wait for the other tasks
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration, allow_negative_numbers = true)]
    pub patience: f64,
    /// Label of this node. rack=NAME says which rack it is in (default: from SLURM_TOPOLOGY_ADDR)
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label)]
    pub label: Vec<(String, String)>,
    /// When to use colour
    #[arg(long, value_enum, default_value_t = ColourChoice::Auto, value_name = "WHEN")]
    pub color: ColourChoice,
}
