//! Groups of pairs by their racks: pairs within a rack, and pairs between two racks, which share an uplink.

use std::collections::BTreeMap;

use crate::results::mesh::{BestOfPair, MeshMember};

/// Fewest flows between two racks that are a separate group: a median of fewer would be the flows themselves.
const LEAST: u32 = 6;
/// The group of pairs within a rack, or without one.
pub const WITHIN: usize = 0;
/// The group of pairs between racks with few flows.
const OTHERS: usize = 1;

/// The groups.
pub struct RackGroups {
    numbers: BTreeMap<[String; 2], usize>,
    /// The racks of each group from number 2 on.
    pub names: Vec<[String; 2]>,
}

/// The racks of a pair, in the order of their names; none within a rack.
fn racks_of(members: &[MeshMember], (one, other): (u32, u32)) -> Option<[String; 2]> {
    let rack = |rank: u32| members.get(rank as usize)?.rack.clone();
    let mut racks = [rack(one)?, rack(other)?];
    racks.sort();
    (racks[0] != racks[1]).then_some(racks)
}

impl RackGroups {
    /// The groups of measured pairs.
    pub fn of(members: &[MeshMember], best: &BTreeMap<(u32, u32), BestOfPair>) -> Self {
        let mut flows: BTreeMap<[String; 2], u32> = BTreeMap::new();
        for racks in best.keys().filter_map(|ranks| racks_of(members, *ranks)) {
            *flows.entry(racks).or_default() += 2;
        }
        let names: Vec<[String; 2]> =
            flows.into_iter().filter(|(_, flows)| *flows >= LEAST).map(|(racks, _)| racks).collect();
        let numbers = names.iter().cloned().enumerate().map(|(number, racks)| (racks, number + 2)).collect();
        RackGroups { numbers, names }
    }

    /// Number of groups.
    pub fn count(&self) -> usize {
        2 + self.names.len()
    }

    /// The group of a pair.
    pub fn group(&self, members: &[MeshMember], ranks: (u32, u32)) -> usize {
        racks_of(members, ranks).map_or(WITHIN, |racks| self.numbers.get(&racks).copied().unwrap_or(OTHERS))
    }

    /// Groups of each rack.
    pub fn by_rack(&self) -> BTreeMap<&str, Vec<usize>> {
        let mut racks: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, names) in self.names.iter().enumerate() {
            for name in names {
                racks.entry(name).or_default().push(number + 2);
            }
        }
        racks
    }
}
