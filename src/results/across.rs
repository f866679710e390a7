//! Which of two or three machines is better at what.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantity::Unit;

/// The costs of some machines next to each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AcrossMachines {
    /// The machines in words, in the order in which they were named.
    pub machines: Vec<String>,
    /// One row for each cost that all of them have, in the order of the report.
    pub costs: Vec<AcrossCost>,
    /// Costs that are not compared, by reasons.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub without: BTreeMap<String, Vec<String>>,
}

/// A cost of some machines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AcrossCost {
    /// Short name.
    pub cost: String,
    /// Unit of the values.
    pub unit: Unit,
    /// One value for each machine.
    pub values: Vec<f64>,
    /// The index of the machine that is better than the next best one; absent where the runs do not decide it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<usize>,
    /// By how many times the best one is better than the next best one; at least 1.
    pub ratio: f64,
}

impl AcrossMachines {
    /// The letter of a machine.
    pub fn letter(place: usize) -> char {
        char::from(b'A' + u8::try_from(place.min(25)).unwrap_or_default())
    }

    /// What each machine is better at, the largest ratio first.
    pub fn better_at(&self, place: usize) -> Vec<&AcrossCost> {
        let mut found: Vec<&AcrossCost> = self.costs.iter().filter(|cost| cost.best == Some(place)).collect();
        found.sort_by(|one, other| other.ratio.total_cmp(&one.ratio));
        found
    }

    /// For a kind of use, the machine whose mean over the costs of that use is best, and by how many times it is better than the next
    /// best one; none where fewer than two of the costs are known.
    pub fn best_for(&self, costs: &[&str]) -> Option<(usize, f64)> {
        let known: Vec<&AcrossCost> = self.costs.iter().filter(|found| costs.contains(&found.cost.as_str())).collect();
        if known.len() < 2 {
            return None;
        }
        // Logarithms of costs: less is better.
        let cost = |place: usize| {
            let sign = |found: &AcrossCost| match found.unit.better() {
                super::quantity::Better::Lower => 1.0,
                super::quantity::Better::Higher => -1.0,
            };
            known.iter().map(|found| sign(found) * found.values[place].ln()).sum::<f64>() / known.len() as f64
        };
        let mut order: Vec<(usize, f64)> = (0..self.machines.len()).map(|place| (place, cost(place))).collect();
        order.sort_by(|(_, one), (_, other)| one.total_cmp(other));
        let [(best, least), (_, next), ..] = order[..] else { return None };
        Some((best, (next - least).exp()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_costs_and_rates_decides_a_use() {
        let row = |cost: &str, unit: Unit, values: [f64; 2], best: usize, ratio: f64| AcrossCost {
            cost: cost.to_owned(),
            unit,
            values: values.to_vec(),
            best: Some(best),
            ratio,
        };
        let found = AcrossMachines {
            machines: vec!["one".to_owned(), "other".to_owned()],
            costs: vec![
                row("memory load", Unit::Nanoseconds, [100.0, 200.0], 0, 2.0),
                row("memory read", Unit::BytesPerSecond, [1e9, 8e9], 1, 8.0),
                row("signal", Unit::Nanoseconds, [3.0, 1.0], 1, 3.0),
            ],
            without: BTreeMap::new(),
        };
        let (best, ratio) = found.best_for(&["memory load", "memory read"]).unwrap();
        assert!(best == 1 && (ratio - 2.0).abs() < 1e-9, "{ratio}");
        assert_eq!(found.best_for(&["memory load", "thread"]), None);
        let names: Vec<&str> = found.better_at(1).iter().map(|cost| cost.cost.as_str()).collect();
        assert_eq!(names, ["memory read", "signal"]);
        assert_eq!((AcrossMachines::letter(0), AcrossMachines::letter(2)), ('A', 'C'));
    }
}
