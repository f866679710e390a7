//! How two CPUs stand to each other: what they share decides what a task on one costs a task on the other.

use serde::{Deserialize, Serialize};

use super::Machine;

/// A CPU for a partner task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// How it stands to the measured CPU: `sibling` (threads of one core), `same_cache` (one last-level cache), `same_socket` (one
    /// package, separate caches), or `other_socket`. It is `other_cpu` where the kernel does not say. `_other_type` follows where
    /// its core is of another type.
    pub placement: String,
    pub cpu: u32,
}

impl Machine {
    /// One CPU of each way in which the allowed CPUs stand to one of them, nearest first.
    pub fn places(&self, cpu: u32, allowed: &[u32]) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::new();
        for &other in allowed.iter().filter(|&&other| other != cpu) {
            let placement = self.placement(cpu, other);
            if !places.iter().any(|place| place.placement == placement) {
                places.push(Place { placement, cpu: other });
            }
        }
        places.sort_by_key(|place| ORDER.iter().position(|&name| place.placement.starts_with(name)));
        places
    }

    /// Other allowed CPUs on which the same work costs the same, one of each core: cores of the same type and speed, with the same
    /// last-level cache. Empty where the kernel does not say what CPUs share.
    pub fn equal_cpus(&self, cpu: u32, allowed: &[u32]) -> Vec<u32> {
        let speed = |cpu: u32| self.maximum_core_hertz(cpu).map_or(0.0, |found| found.value);
        let same = |other: u32| (speed(other) - speed(cpu)).abs() <= 0.01 * speed(cpu);
        let mut equal: Vec<u32> = Vec::new();
        for &other in allowed.iter().filter(|&&other| other != cpu) {
            let same_core = equal.iter().any(|&one| self.share_core(one, other));
            if !same_core && same(other) && self.placement(cpu, other) == ORDER[1] {
                equal.push(other);
            }
        }
        equal
    }

    fn placement(&self, one: u32, other: u32) -> String {
        let package = |cpu| self.cpu(cpu).and_then(|entry| entry.package_id);
        let shared = if self.share_core(one, other) {
            ORDER[0]
        } else if self.share_last_level_cache(one, other) {
            ORDER[1]
        } else if self.share_package(one, other) {
            ORDER[2]
        } else if package(one).is_some() && package(other).is_some() {
            ORDER[3]
        } else {
            ORDER[4]
        };
        if self.same_core_type(one, other) { shared.to_owned() } else { format!("{shared}_other_type") }
    }
}

const ORDER: [&str; 5] = ["sibling", "same_cache", "same_socket", "other_socket", "other_cpu"];
