//! Which of two or three machines is better at what: the costs that every reader asks for, each decided by the comparison of the two
//! best machines.

use std::collections::BTreeMap;

use super::PlacedRun;
use crate::experiments::costs;
use crate::results::across::{AcrossCost, AcrossMachines};
use crate::results::comparison::{ComparedResult, Comparison, NotCompared};
use crate::results::machines;
use crate::results::quantity::Better;

/// The costs of some sides, each the runs of one machine, from the comparisons of each two of them.
pub fn across(sides: &[Vec<PlacedRun>], pairs: &[(usize, usize, Comparison)]) -> AcrossMachines {
    let rows: Vec<AcrossCost> = costs::asked().filter_map(|asked| cost(asked.name, sides.len(), pairs)).collect();
    let mut without: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for asked in costs::asked().filter(|asked| rows.iter().all(|row| row.cost != asked.name)) {
        let is = |found: &&NotCompared| costs::name_of(&found.metric, &found.labels) == Some(asked.name);
        if let Some(found) = pairs.iter().flat_map(|(.., pair)| &pair.not_compared).find(is) {
            without.entry(found.reason.clone()).or_default().push(asked.name.to_owned());
        }
    }
    AcrossMachines { machines: sides.iter().map(|runs| name(runs)).collect(), costs: rows, without }
}

/// The machine of some runs in words.
fn name(runs: &[PlacedRun]) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let hypervisor = first.run.facts.get("Limits: hypervisor").map(|found| format!(", {found} guest"));
    format!("{}{}", machines::hardware(&first.run), hypervisor.unwrap_or_default())
}

/// A cost of all sides; none where one has it not.
fn cost(name: &str, sides: usize, pairs: &[(usize, usize, Comparison)]) -> Option<AcrossCost> {
    let row = |found: &'_ Comparison| -> Option<ComparedResult> {
        let is = |row: &&ComparedResult| costs::name_of(&row.metric, &row.labels) == Some(name);
        let mut rows: Vec<&ComparedResult> = found.rows.iter().filter(is).collect();
        // Rows are in the order of their consequence. Of several distances, the first by its labels counts on every side.
        rows.sort_by(|one, other| (!one.headline, &one.labels).cmp(&(!other.headline, &other.labels)));
        rows.first().map(|row| (*row).clone())
    };
    let rows: Vec<(usize, usize, ComparedResult)> =
        pairs.iter().filter_map(|(one, other, found)| Some((*one, *other, row(found)?))).collect();
    let value = |place: usize| {
        rows.iter().find_map(|(one, other, row)| match () {
            () if *one == place => Some(row.base.value),
            () if *other == place => Some(row.new.value),
            () => None,
        })
    };
    let values: Vec<f64> = (0..sides).map(value).collect::<Option<_>>()?;
    let (_, _, any) = rows.first()?;
    let mut order: Vec<usize> = (0..sides).collect();
    order.sort_by(|&one, &other| match any.better {
        Better::Lower => values[one].total_cmp(&values[other]),
        Better::Higher => values[other].total_cmp(&values[one]),
    });
    let [best, next, ..] = order[..] else { return None };
    let decided = |(one, other, row): &(usize, usize, ComparedResult)| {
        row.is_changed() && [*one, *other].iter().all(|place| [best, next].contains(place))
    };
    let ratio = (values[best] / values[next]).max(values[next] / values[best]);
    let best = rows.iter().any(decided).then_some(best);
    Some(AcrossCost { cost: name.to_owned(), unit: any.unit, values, best, ratio })
}
