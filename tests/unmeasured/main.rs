//! Tests that compare no measured figures: what the commands say, what is made of stored logs, and the rules of the sources.
//!
//! One program, because every test program is linked statically and that takes seconds.

#![allow(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]

mod blocks;
mod budgets;
mod cli;
mod coefficients;
mod compact;
mod compare;
mod compressed;
mod creating;
mod documents;
mod drawings;
mod english;
mod evaluation;
mod exports;
mod fleet;
mod golden;
mod history;
mod insights;
mod judge;
mod layering;
mod limits_of_devices;
mod linearity;
mod log_contradictions;
mod machine;
mod machines;
mod machines_of_others;
mod made;
mod made_machine;
mod mesh;
mod methodology;
mod neighbours;
mod reference;
mod report;
mod report_files;
mod report_truth;
mod sampler;
mod schema;
mod script;
mod sharing;
#[path = "../support/mod.rs"]
mod support;
mod table;
mod verdict;
mod words_of_others;
