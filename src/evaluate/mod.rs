//! From series to figures: normalise, estimate, apply gates, give a verdict.
//!
//! An experiment's `figures` and `explain` receive a [`study::Study`] (the launches of one experiment, read from a log) and add to
//! its [`findings::Findings`]. Everything here is a pure function of what the log says, so an old log gets a better report
//! whenever these rules improve.

pub mod between;
pub mod distance;
pub mod estimate;
pub mod figure;
pub mod findings;
pub mod gate;
pub mod gates;
pub mod linearity;
pub mod missing;
pub mod others;
pub mod precision;
pub mod sample;
pub mod study;
pub mod unavailable;
