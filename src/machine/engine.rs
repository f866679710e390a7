//! The engine that started this process, where one did: Slurm, Kubernetes, PBS or LSF. Its environment names node, job and task.
//!
//! Only the variables below are read. The environment of a job also has credentials.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An engine that starts tasks on nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// Slurm.
    Slurm,
    /// Kubernetes.
    Kubernetes,
    /// PBS Professional, OpenPBS or Torque.
    Pbs,
    /// IBM Spectrum LSF.
    Lsf,
}

/// What an engine says of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Engine {
    /// Which engine.
    pub kind: EngineKind,
    /// Its words about the task, by name: `job`, `step`, `rank`, `size`, `topology` and others.
    pub facts: BTreeMap<String, String>,
}

/// Variables of engines and the names of what they say.
const VARIABLES: [(EngineKind, &str, &str); 26] = [
    (EngineKind::Slurm, "SLURM_JOB_ID", "job"),
    (EngineKind::Slurm, "SLURM_ARRAY_JOB_ID", "array_job"),
    (EngineKind::Slurm, "SLURM_ARRAY_TASK_ID", "array_task"),
    (EngineKind::Slurm, "SLURM_STEP_ID", "step"),
    (EngineKind::Slurm, "SLURM_PROCID", "rank"),
    (EngineKind::Slurm, "SLURM_NTASKS", "size"),
    (EngineKind::Slurm, "SLURM_NODEID", "node_number"),
    (EngineKind::Slurm, "SLURMD_NODENAME", NODE),
    (EngineKind::Slurm, "SLURM_JOB_NODELIST", "nodes"),
    (EngineKind::Slurm, "SLURM_JOB_PARTITION", "partition"),
    (EngineKind::Slurm, "SLURM_JOB_RESERVATION", "reservation"),
    (EngineKind::Slurm, "SLURM_CLUSTER_NAME", "cluster"),
    (EngineKind::Slurm, "SLURM_TOPOLOGY_ADDR", TOPOLOGY),
    (EngineKind::Slurm, "SLURM_CPU_BIND", "cpu_bind"),
    (EngineKind::Slurm, "SLURM_CPUS_ON_NODE", "cpus"),
    (EngineKind::Slurm, "SLURM_MEM_PER_NODE", "memory"),
    (EngineKind::Slurm, "SLURM_CPU_FREQ_REQ", "frequency"),
    (EngineKind::Slurm, "SLURM_RESTART_COUNT", "restarts"),
    (EngineKind::Kubernetes, "NODE_NAME", NODE),
    (EngineKind::Kubernetes, "POD_NAME", "pod"),
    (EngineKind::Kubernetes, "JOB_COMPLETION_INDEX", "rank"),
    (EngineKind::Pbs, "PBS_JOBID", "job"),
    (EngineKind::Pbs, "PBS_QUEUE", "partition"),
    (EngineKind::Lsf, "LSB_JOBID", "job"),
    (EngineKind::Lsf, "LSB_JOBINDEX", "array_task"),
    (EngineKind::Lsf, "LSB_QUEUE", "partition"),
];
/// The name of the node, and where it is in the network: switches and the node, with dots between.
const NODE: &str = "node";
const TOPOLOGY: &str = "topology";
/// Variables that show an engine. `NODE_NAME` and others can be set for any reason.
const SIGNS: [(EngineKind, &str); 4] = [
    (EngineKind::Slurm, "SLURM_JOB_ID"),
    (EngineKind::Kubernetes, "KUBERNETES_SERVICE_HOST"),
    (EngineKind::Pbs, "PBS_JOBID"),
    (EngineKind::Lsf, "LSB_JOBID"),
];
/// Most bytes of a value.
const MOST_BYTES: usize = 512;

impl Engine {
    /// The engine that started this process, if one did.
    pub fn here() -> Option<Self> {
        Engine::of(&|name| std::env::var(name).ok())
    }

    fn of(variable: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        let (kind, _) = SIGNS.into_iter().find(|(_, sign)| variable(sign).is_some())?;
        let said = VARIABLES.iter().filter(|(of, ..)| *of == kind).filter_map(|(_, name, fact)| {
            let value = variable(name).filter(|value| !value.is_empty() && value.len() <= MOST_BYTES)?;
            Some(((*fact).to_owned(), value))
        });
        Some(Engine { kind, facts: said.collect() })
    }

    /// The engine's name of this node, if it can be the name of a directory.
    pub fn node(&self) -> Option<&str> {
        self.facts.get(NODE).map(String::as_str).filter(|name| is_node_name(name))
    }

    /// The rack as the network's topology has it: the last switch above the node.
    pub fn rack(&self) -> Option<&str> {
        self.facts.get(TOPOLOGY)?.rsplit('.').nth(1).filter(|rack| !rack.is_empty())
    }
}

/// Whether a text can be the name of a node: letters, digits, dots, hyphens and underscores, not a hidden file, at most 255 bytes.
pub fn is_node_name(text: &str) -> bool {
    (1..=255).contains(&text.len())
        && !text.starts_with(['.', '-'])
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(variables: &[(&str, &str)]) -> Option<Engine> {
        Engine::of(&|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn slurm_names_node_job_and_rack() {
        let variables = [
            ("SLURM_JOB_ID", "17"),
            ("SLURMD_NODENAME", "n3"),
            ("SLURM_TOPOLOGY_ADDR", "spine.leaf1.n3"),
            ("SLURM_JOB_USER", "somebody"),
            ("SLURM_PROCID", ""),
        ];
        let found = engine(&variables).unwrap();
        assert_eq!((found.kind, found.node(), found.rack()), (EngineKind::Slurm, Some("n3"), Some("leaf1")));
        assert_eq!(found.facts["job"], "17");
        // Neither empty nor unknown variables are kept.
        assert_eq!(found.facts.len(), 3);
    }

    #[test]
    fn variables_without_an_engine_mean_nothing() {
        assert_eq!(engine(&[("NODE_NAME", "n3"), ("SLURM_PROCID", "1")]), None);
        let pod = engine(&[("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("NODE_NAME", "worker-2")]).unwrap();
        assert_eq!((pod.node(), pod.rack()), (Some("worker-2"), None));
    }

    #[test]
    fn names_of_nodes_are_no_paths() {
        for wrong in ["", ".", "..", ".hidden", "a/b", "a b", "-rf", "ä", &"n".repeat(256)] {
            assert!(!is_node_name(wrong), "{wrong}");
            assert_eq!(engine(&[("SLURM_JOB_ID", "1"), ("SLURMD_NODENAME", wrong)]).unwrap().node(), None);
        }
        assert!(is_node_name("rack-12.node_3"));
    }
}
