//! What children are expected to cost.

use super::ways::{ChildMethod, ForkSetting, SHELL, combinations, labels};
use super::{PER_PAGE, TIME};
use crate::experiments::prelude::*;

constants! {
    /// A child that borrows memory instead of copying it: task and switch only.
    VFORK_BASE = 30_000.0 in 6_000.0 ..= 120_000.0 "ns", "Linux kernel/fork.c with CLONE_VM";
    /// Replacing a child's memory by a static image, and its page faults.
    EXEC_STATIC = 100_000.0 in 25_000.0 ..= 400_000.0 "ns", "Linux fs/exec.c: new tables, a few page faults";
    /// A shell that starts and ends, on top of another image.
    SHELL_START = 400_000.0 in 100_000.0 ..= 3_000_000.0 "ns", "McVoy & Staelin, USENIX 1996: sh -c takes 2–4 times fork and exec";
}

pub(super) fn predict(_: &PredictionInput<'_>) -> Vec<Prediction> {
    let children = combinations().into_iter().map(|(way, setting)| predict_child(way, setting));
    let page = |how| Prediction::of(PER_PAGE, Labels::of([("how", how)]), Unit::Nanoseconds);
    children.chain(["fork", "fork_wait"].map(page)).collect()
}

fn predict_child(way: ChildMethod, setting: ForkSetting) -> Prediction {
    let prediction = Prediction::of(TIME, labels(way, setting), Unit::Nanoseconds);
    if way.image == Some(SHELL) {
        let child = VFORK_BASE.times(1.0);
        let prediction = prediction.software("a task and another image", child, VFORK_BASE.basis());
        return prediction.software(
            "loader, libraries and start of the shell",
            SHELL_START.times(1.0),
            SHELL_START.basis(),
        );
    }
    // Older records timed a child that borrows the memory of a large parent in cold caches, so none fits.
    if !way.borrows() || setting.resident == 0 {
        return prediction;
    }
    let what = "a task that borrows the memory of the parent";
    let prediction = prediction.software(what, VFORK_BASE.times(1.0), VFORK_BASE.basis());
    if way.image.is_none() {
        return prediction;
    }
    prediction.software("another image", EXEC_STATIC.times(1.0), EXEC_STATIC.basis())
}
