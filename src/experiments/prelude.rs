//! What nearly every experiment uses.

pub(super) use crate::evaluate::estimate::Estimate;
pub(super) use crate::evaluate::figure::Figure;
pub(super) use crate::evaluate::findings::{Findings, pivot};
pub(super) use crate::evaluate::gate::{Number, rules};
pub(super) use crate::evaluate::gates;
pub(super) use crate::evaluate::precision::Precision;
pub(super) use crate::evaluate::study::Study;
pub(super) use crate::experiments::constants::{CycleTime, constants};
pub(super) use crate::experiments::experiment::{Experiment, Need, PredictionInput, Publication};
pub(super) use crate::experiments::heading::heading;
pub(super) use crate::machine::Machine;
pub(super) use crate::results::document::{Axis, Curve, Metric};
pub(super) use crate::results::prediction::{Basis, Prediction};
pub(super) use crate::results::problem::Problem;
pub(super) use crate::results::quantity::{Labels, Unit};
pub(super) use crate::results::ratio::Ratio;
pub(super) use crate::results::verdict::Gate;
pub(super) use crate::results::wording::{Shown, number, percent, quantity};
pub(super) use crate::rig::Rig;
pub(super) use crate::rig::sampler::{Sizing, Workload};
pub(super) use crate::setup::Setup;
pub(super) use crate::statistics::summary::median;
pub(super) use crate::sys::memory::{Pages, page_size};
