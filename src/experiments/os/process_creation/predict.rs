//! What children are expected to cost: a base, and what each page of the parent adds.

use super::ways::{ChildMethod, ForkSetting, combinations, labels};
use super::{PER_PAGE, SMALL_PAGE, TIME};
use crate::experiments::constants::{self, Constant};
use crate::experiments::prelude::*;

/// Size of huge pages, for predictions: 2 MiB where small ones have 4 KiB.
const HUGE_PAGE: f64 = 2_097_152.0;

constants! {
    /// Copying the entry of a huge page: a table is made for it, should it be split later.
    FORK_HUGE_PAGE = 600.0 in 60.0 ..= 2500.0 "ns",
        "Linux mm/huge_memory.c, copy_huge_pmd: allocates and clears one page-table page";
    /// Taking a huge page of a child away, and its table.
    EXIT_HUGE_PAGE = 400.0 in 40.0 ..= 2000.0 "ns", "Linux mm/huge_memory.c, zap_huge_pmd: frees the page-table page";
    /// Making a child that has nothing: task, tables, areas of a small process.
    FORK_BASE = 45_000.0 in 12_000.0 ..= 150_000.0 "ns",
        "Linux kernel/fork.c: copies of task, files, signals and memory areas, 20–60 µs on bare metal, more in guests";
    /// Running a child to its end and reaping it.
    CHILD_LIFE = 45_000.0 in 8_000.0 ..= 200_000.0 "ns", "two switches, a few copied pages, exit and wait";
    /// A child that borrows memory instead of copying it: task and switch only.
    VFORK_BASE = 30_000.0 in 6_000.0 ..= 120_000.0 "ns", "Linux kernel/fork.c with CLONE_VM";
    /// Replacing a child's memory by a static image, and its page faults.
    EXEC_STATIC = 100_000.0 in 25_000.0 ..= 400_000.0 "ns", "Linux fs/exec.c: new tables, a few page faults";
    /// What a dynamic loader adds: mapping and relocating the C library.
    DYNAMIC_LOADER = 400_000.0 in 150_000.0 ..= 1_200_000.0 "ns", "ld.so(8): about 60 page faults and 20 system calls";
}

pub(super) fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let small = constants::page_of_child(by);
    let mut predictions: Vec<Prediction> = combinations()
        .into_iter()
        .map(|(way, setting)| {
            let page = if setting.pages == "huge" { (FORK_HUGE_PAGE, EXIT_HUGE_PAGE) } else { small };
            predict_child(way, setting, page)
        })
        .collect();
    for how in ["fork", "fork_wait"] {
        let prediction = Prediction::of(PER_PAGE, Labels::of([("how", how)]), Unit::Nanoseconds).software(
            "copying the page-table entry of the page",
            small.0.times(1.0),
            small.0.basis(),
        );
        predictions.push(if how == "fork" {
            prediction
        } else {
            prediction.software("removing it from the child", small.1.times(1.0), small.1.basis())
        });
    }
    predictions
}

fn predict_child(way: ChildMethod, setting: ForkSetting, (copied, removed): (Constant, Constant)) -> Prediction {
    let pages = setting.resident as f64 / if setting.pages == "huge" { HUGE_PAGE } else { SMALL_PAGE };
    let add = |prediction: Prediction, what: &str, constant: Constant, count: f64| {
        if count > 0.0 { prediction.software(what, constant.times(count), constant.basis()) } else { prediction }
    };
    let copies = !way.borrows();
    let lives = way.how != "fork";
    let prediction = Prediction::of(TIME, labels(way, setting), Unit::Nanoseconds);
    let prediction = if copies {
        let prediction = add(prediction, "task and tables of a small child", FORK_BASE, 1.0);
        add(prediction, "page-table entries of the parent", copied, pages)
    } else {
        add(prediction, "a task that borrows the memory of the parent", VFORK_BASE, 1.0)
    };
    let prediction = match way.how {
        "fork" => prediction,
        "first_instruction" => add(prediction, "the path to the first instruction of the child", CHILD_LIFE, 0.2),
        _ if copies => {
            let prediction = add(prediction, "running, ending and reaping the child", CHILD_LIFE, 1.0);
            add(prediction, "removing the pages of the child", removed, pages)
        }
        _ => prediction,
    };
    let prediction = add(prediction, "another image", EXEC_STATIC, f64::from(u8::from(way.image.is_some() && lives)));
    add(prediction, "the dynamic loader", DYNAMIC_LOADER, f64::from(u8::from(way.image == Some("dynamic"))))
}
