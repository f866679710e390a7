//! What children are expected to cost.

use super::ways::{ChildMethod, ForkSetting, combinations, labels};
use super::{PER_PAGE, TIME};
use crate::experiments::prelude::*;

constants! {
    /// A child that borrows memory instead of copying it: task and switch only.
    VFORK_BASE = 30_000.0 in 6_000.0 ..= 120_000.0 "ns", "Linux kernel/fork.c with CLONE_VM";
    /// Replacing a child's memory by a static image, and its page faults.
    EXEC_STATIC = 100_000.0 in 25_000.0 ..= 400_000.0 "ns", "Linux fs/exec.c: new tables, a few page faults";
}

pub(super) fn predict(_: &PredictionInput<'_>) -> Vec<Prediction> {
    let children = combinations().into_iter().map(|(way, setting)| predict_child(way, setting));
    let page = |how| Prediction::of(PER_PAGE, Labels::of([("how", how)]), Unit::Nanoseconds);
    children.chain(["fork", "fork_wait"].map(page)).collect()
}

fn predict_child(way: ChildMethod, setting: ForkSetting) -> Prediction {
    let prediction = Prediction::of(TIME, labels(way, setting), Unit::Nanoseconds);
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
