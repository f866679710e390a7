//! Pure functions on numbers: no units, no files, no clock, and nothing of the rest of the crate.
//!
//! Samples come as `&[f64]`; replicated samples come as launches, `&[Vec<f64>]` or `&[&[f64]]`, one inner slice for
//! each fresh process. The launch is the unit of replication: samples inside a launch depend on one another, launches
//! do not, so every interval that is published is computed over launch estimates.
//!
//! One contract holds in every file: a function returns `None` when its answer does not exist (too few values, a value
//! that is not finite, an argument outside its legal domain). No function returns NaN, none panics, none deletes data,
//! and none draws random numbers except from a seed that the caller gives.
//!
//! | file | question |
//! | --- | --- |
//! | [`summary`] | what one sample looks like: quantiles, means, spread |
//! | [`distribution`] | tails and quantiles of the normal, Student and binomial distributions |
//! | [`interval`] | how far an estimate can be trusted, by order statistics |
//! | [`proportion`] | how far a proportion can be trusted, where its parts come in clusters |
//! | [`location`] | one estimate for each launch |
//! | [`fit`] | lines through points, least squares and robust |
//! | [`step`] | a line with a step at a known place, fitted over launches |
//! | [`monotone`] | the closest non-decreasing curve |
//! | [`segmentation`] | the best cut of a sequence into pieces of constant level |
//! | [`resampling`] | sets drawn again from the same values |
//! | [`change`] | the levels of a series, and whether it settles |
//! | [`knee`] | the levels of a latency curve and the capacities between them |
//! | [`outlier`] | values far from the rest |
//! | [`modes`] | two modes in a sample |
//! | [`dip`] | the dip statistic behind the test for two modes |
//! | [`significance`] | many tests at once |
//! | [`signed_rank`] | paired samples |
//! | [`compare`] | changed, equivalent or inconclusive |
//! | [`steps`] | where a series of runs changes its level, or drifts |

pub mod change;
pub mod compare;
#[cfg(test)]
mod contract;
pub mod dip;
pub mod distribution;
pub mod fit;
pub mod interval;
pub mod knee;
pub mod location;
pub mod modes;
pub mod monotone;
pub mod outlier;
pub mod proportion;
pub mod resampling;
pub mod segmentation;
pub mod signed_rank;
pub mod significance;
pub mod step;
pub mod steps;
pub mod summary;
#[cfg(test)]
pub mod synthetic;
