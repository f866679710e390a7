//! `sysdyno script`: a ready script or configuration for an engine that starts runs and checks on nodes.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{DONE, Failure, print, write_file};

/// A script and where it goes.
#[derive(Debug, Args)]
#[command(
    after_help = "The first lines of each script describe its use, its environment variables and the files that it leaves.\n\
See docs/fleets.md for all steps from the first run to the odd nodes."
)]
pub(super) struct ScriptOptions {
    /// Script (default: list them)
    #[arg(value_enum, value_name = "SCRIPT")]
    pub script: Option<EngineScript>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE", requires = "script")]
    pub output: Option<PathBuf>,
}

/// What can be printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum EngineScript {
    /// Slurm: a job that measures its nodes and names the odd ones
    Slurm,
    /// Slurm: a job that measures the network between its nodes
    SlurmMesh,
    /// Slurm: a HealthCheckProgram that drains and resumes a node
    SlurmHealth,
    /// Any host with ssh: copy, measure, gather, name the odd nodes
    Ssh,
    /// Kubernetes: a Job with one pod on each node
    Kubernetes,
    /// Node Health Check (NHC): a check function
    Nhc,
    /// node-problem-detector: a configuration of its custom plug-in monitor
    Npd,
    /// systemd: a service that checks this node for Prometheus
    Prometheus,
    /// systemd: the timer of that service
    PrometheusTimer,
}

impl EngineScript {
    fn text(self) -> &'static str {
        match self {
            EngineScript::Slurm => include_str!("scripts/slurm.sh"),
            EngineScript::SlurmMesh => include_str!("scripts/slurm-mesh.sh"),
            EngineScript::SlurmHealth => include_str!("scripts/slurm-health.sh"),
            EngineScript::Ssh => include_str!("scripts/ssh.sh"),
            EngineScript::Kubernetes => include_str!("scripts/kubernetes.yaml"),
            EngineScript::Nhc => include_str!("scripts/check_sysdyno.nhc"),
            EngineScript::Npd => include_str!("scripts/npd.json"),
            EngineScript::Prometheus => include_str!("scripts/sysdyno-check.service"),
            EngineScript::PrometheusTimer => include_str!("scripts/sysdyno-check.timer"),
        }
    }
}

pub(super) fn script(options: &ScriptOptions) -> Result<u8, Failure> {
    let Some(script) = options.script else {
        print(&listing())?;
        return Ok(DONE);
    };
    match options.output.as_deref().filter(|file| file.as_os_str() != "-") {
        None => print(script.text())?,
        Some(file) => write_file(file, script.text(), "--output")?,
    }
    Ok(DONE)
}

/// Each script with what it is for.
fn listing() -> String {
    let values = EngineScript::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    let lines = values.map(|value| {
        let help = value.get_help().map(ToString::to_string).unwrap_or_default();
        format!("{:<17} {help}\n", value.get_name())
    });
    lines.chain(["\nPrint one: sysdyno script slurm. Write it: -o FILE\n".to_owned()]).collect()
}
