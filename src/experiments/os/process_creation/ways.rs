//! The ways of making a child that are measured, and the parents that make them.

use crate::experiments::prelude::*;

/// Value of the label of an image that is the shell.
pub(super) const SHELL: &str = "shell";
const MIB: usize = 1 << 20;
/// Resident sizes of the parent.
pub(super) const SIZES: [usize; 3] = [16 * MIB, 64 * MIB, 256 * MIB];
/// Parents with memory that a launch measures: resident size, pages, and shots, whose cost grows with the size. To write the pages
/// again before each shot takes most of the time.
type Parents = &'static [(usize, &'static str, u32)];
const SMALLER: Parents = &[(16 * MIB, "4k", 4), (COMPARED, "4k", 3), (COMPARED, "huge", 3)];
/// Those of every second launch. A quick run has no memory in such launches, so that more of them fit.
const LARGER: Parents = &[(256 * MIB, "4k", 2), (256 * MIB, "huge", 2)];
/// Size at which ways that should not depend on it are compared, and up to which the cost per page is a line.
pub(super) const COMPARED: usize = 64 * MIB;
/// The ways, in the order of the report.
pub(super) const WAYS: [ChildMethod; 10] = [
    ChildMethod { how: "fork", image: None },
    ChildMethod { how: "first_instruction", image: None },
    ChildMethod { how: "fork_wait", image: None },
    ChildMethod { how: "library_fork_wait", image: None },
    ChildMethod { how: "vfork_wait", image: None },
    ChildMethod { how: "fork_exec_wait", image: Some("static") },
    ChildMethod { how: "fork_exec_wait", image: Some("dynamic") },
    ChildMethod { how: "fork_exec_wait", image: Some(SHELL) },
    ChildMethod { how: "posix_spawn_wait", image: Some("static") },
    ChildMethod { how: "posix_spawn_wait", image: Some("dynamic") },
];
/// A way of making a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChildMethod {
    pub(super) how: &'static str,
    pub(super) image: Option<&'static str>,
}

impl ChildMethod {
    /// Whether the child borrows the memory of the parent, so that the size of that memory costs nothing.
    pub(super) fn borrows(self) -> bool {
        ["vfork_wait", "posix_spawn_wait"].contains(&self.how)
    }
}

/// The parent's memory and the child's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ForkSetting {
    pub(super) resident: usize,
    pub(super) pages: &'static str,
    pub(super) child: &'static str,
}

pub(super) const BASE: ForkSetting = ForkSetting { resident: 0, pages: "4k", child: "same_cpu" };

pub(super) fn labels(way: ChildMethod, setting: ForkSetting) -> Labels {
    let labels = Labels::of([("how", way.how), ("child", setting.child)]).with("resident", setting.resident);
    let labels = if setting.resident > 0 { labels.with("pages", setting.pages) } else { labels };
    way.image.map_or(labels.clone(), |image| labels.with("image", image))
}

/// The summary shows every way from a small parent, and fork_wait from larger ones.
pub(super) fn common_way(labels: &Labels) -> bool {
    let small = labels.get("resident") == Some("0");
    labels.get("child") == Some("same_cpu") && (small || labels.get("how") == Some("fork_wait"))
}

/// Every combination that is measured, small parent first.
pub(super) fn combinations() -> Vec<(ChildMethod, ForkSetting)> {
    let mut all: Vec<(ChildMethod, ForkSetting)> = WAYS.into_iter().map(|way| (way, BASE)).collect();
    all.extend(
        WAYS.into_iter()
            .filter(|way| ["fork", "fork_wait"].contains(&way.how) || way.image == Some("static"))
            .map(|way| (way, ForkSetting { child: "free", ..BASE })),
    );
    for pages in ["4k", "huge"] {
        for resident in SIZES.into_iter().filter(|resident| pages == "4k" || *resident >= COMPARED) {
            let setting = ForkSetting { resident, pages, ..BASE };
            all.extend(ways_with_memory(resident, pages).into_iter().map(|way| (way, setting)));
        }
    }
    all
}

/// The ways that are measured from a parent with memory.
pub(super) fn ways_with_memory(resident: usize, pages: &str) -> Vec<ChildMethod> {
    let unmoved = resident == COMPARED && pages == "4k";
    WAYS.into_iter()
        .filter(|way| {
            ["fork", "fork_wait"].contains(&way.how) || unmoved && way.borrows() && way.image != Some("dynamic")
        })
        .collect()
}

/// The parents with memory that a launch measures, given how many launches there were before it.
pub(super) fn parents(quick: bool, turn: u32) -> Parents {
    match (turn.is_multiple_of(2), quick) {
        (true, _) => SMALLER,
        (false, false) => LARGER,
        (false, true) => &[],
    }
}

/// Resident bytes of the largest of them.
pub(super) fn most_resident(quick: bool, turn: u32) -> u64 {
    parents(quick, turn).iter().map(|(resident, ..)| *resident as u64).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_have_labels_of_their_own() {
        let mut all: Vec<String> =
            combinations().into_iter().map(|(way, setting)| labels(way, setting).to_string()).collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
