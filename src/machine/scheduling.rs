//! How the kernel treats this process among others: policy, priorities, timer slack, utilisation clamps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fact::Fact;
use super::row::{FactRow, facts};
use super::tree::{Tree, value_of};
use crate::sys::process;

const STAT: &str = "/proc/self/stat";
const SLACK: &str = "/proc/self/timerslack_ns";
const DETAILS: &str = "/proc/self/sched";

/// What a shell or a service manager sets for the processes that it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Scheduling {
    /// Policy, such as `SCHED_OTHER`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Fact<String>>,
    /// Nice value, from -20 (first) to 19 (last).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nice: Option<Fact<i32>>,
    /// Class and level of input and output; live machine only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_class: Option<Fact<String>>,
    /// Nanoseconds by which timers may fire late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer_slack_ns: Option<Fact<u64>>,
    /// Lowest utilisation that the frequency governor assumes, 0 to 1024.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clamp_low: Option<Fact<u32>>,
    /// Highest utilisation that the frequency governor assumes, 0 to 1024.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clamp_high: Option<Fact<u32>>,
}

/// Policy of processes for which none was set.
pub(super) const USUAL_POLICY: &str = "SCHED_OTHER";
/// Timer slack of processes for which none was set, in nanoseconds.
pub const USUAL_SLACK: u64 = 50_000;
/// Utilisation of a CPU that is always busy.
pub(super) const FULL: u32 = 1024;

facts! {
    scheduling: Scheduling, tree: &Tree;
    policy = policy(tree), "scheduling policy";
    nice = field(tree, 19).filter(|nice| (-20..20).contains(&nice.value)), "nice value";
    io_class = io_class(tree), "I/O class";
    timer_slack_ns = tree.parsed(SLACK), "timer slack", |slack: &u64| format!("{} µs", *slack as f64 / 1e3);
    clamp_low = clamp(tree, "min");
    clamp_high = clamp(tree, "max") => scheduling.clamp_low.as_ref().zip(scheduling.clamp_high.as_ref()).map(|(low, high)| {
        FactRow::new("utilisation clamps", format!("{} to {}", low.value, high.value), high.source.as_str())
    });
}

/// A field of the statistics of this process, by the number in its manual.
fn field(tree: &Tree, number: usize) -> Option<Fact<i32>> {
    let stat = tree.text(STAT)?;
    // The name in brackets may contain anything. The state behind it is the third field.
    let value = stat.rsplit_once(')')?.1.split_whitespace().nth(number - 3)?.parse().ok()?;
    Some(Fact::new(value, format!("{STAT} field {number}")))
}

fn policy(tree: &Tree) -> Option<Fact<String>> {
    let priority = field(tree, 40)?.value;
    field(tree, 41)?.filter_map(|number| policy_name(number, priority))
}

/// The class of input and output has no file, and the call for it is made where no filter may kill the caller.
fn io_class(tree: &Tree) -> Option<Fact<String>> {
    let (class, level) = (tree.is_live() && !tree.is_filtered()).then(process::io_priority).flatten()?;
    Some(Fact::new(io_class_name(class, level)?, "ioprio_get"))
}

/// A group's clamp can be narrower than the process's own.
fn clamp(tree: &Tree, end: &str) -> Option<Fact<u32>> {
    let name = format!("effective uclamp.{end}");
    let value = value_of(&tree.text(DETAILS)?, &name)?.parse().ok().filter(|value| *value <= FULL)?;
    Some(Fact::new(value, format!("{DETAILS} {name}")))
}

/// The policy in the words of `sched(7)`, with the priority of those that have one.
fn policy_name(number: i32, priority: i32) -> Option<String> {
    const NAMES: [&str; 8] =
        [USUAL_POLICY, "SCHED_FIFO", "SCHED_RR", "SCHED_BATCH", "", "SCHED_IDLE", "SCHED_DEADLINE", "SCHED_EXT"];
    let name = NAMES.get(usize::try_from(number).ok()?).filter(|name| !name.is_empty())?;
    Some(if priority > 0 { format!("{name} {priority}") } else { (*name).to_owned() })
}

/// The class in the words of `ionice(1)`. Without one the nice value decides.
fn io_class_name(class: u32, level: u32) -> Option<String> {
    match class {
        0 => Some("none".to_owned()),
        1 => Some(format!("real-time {level}")),
        2 => Some(format!("best-effort {level}")),
        3 => Some("idle".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_process_tell_its_priority() {
        let keep = tempfile::tempdir().unwrap();
        let place = keep.path().join("proc/self");
        std::fs::create_dir_all(&place).unwrap();
        // Fields 4 to 41 behind the state: 18 is the priority, 19 the nice value, 40 and 41 are priority and policy.
        let fields: Vec<String> = (4..=52)
            .map(|number| if number == 19 { "5".to_owned() } else { ["0", "5"][usize::from(number == 41)].to_owned() })
            .collect();
        std::fs::write(place.join("stat"), format!("7 (a ) b) R {}\n", fields.join(" "))).unwrap();
        std::fs::write(place.join("timerslack_ns"), "50000\n").unwrap();
        let sched = "uclamp.min   :    0\neffective uclamp.min   :    128\neffective uclamp.max   :   512\n";
        std::fs::write(place.join("sched"), sched).unwrap();
        let found = Scheduling::read(&Tree::at(keep.path()));
        assert_eq!(found.policy.unwrap().value, "SCHED_IDLE");
        assert_eq!((found.nice.unwrap().value, found.timer_slack_ns.unwrap().value), (5, 50_000));
        assert_eq!((found.clamp_low.unwrap().value, found.clamp_high.unwrap().value), (128, 512));
        assert_eq!(found.io_class, None, "a captured tree");
    }

    #[test]
    fn priorities_have_the_names_of_the_manuals() {
        assert_eq!(policy_name(1, 10).as_deref(), Some("SCHED_FIFO 10"));
        assert_eq!((policy_name(4, 0), policy_name(-1, 0), policy_name(99, 0)), (None, None, None));
        assert_eq!(io_class_name(2, 4).as_deref(), Some("best-effort 4"));
        assert_eq!(io_class_name(7, 0), None);
    }
}
