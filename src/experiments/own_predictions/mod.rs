//! Predictions of a person, such as a student who predicts before a run measures: the form to fill in, and the filled form.

mod form;
mod reading;

use super::TABLE;
use super::experiment::PredictionInput;
use crate::results::prediction::Prediction;
use crate::results::quantity::Labels;
use crate::setup::{Profile, Setup};

pub use form::{Shown, form};
pub use reading::OwnFile;

/// The figures that a run of any profile predicts, each once, by metric and labels without conditions.
fn figures(setup: &Setup) -> Vec<(Labels, Prediction)> {
    let mut found: Vec<(Labels, Prediction)> = Vec::new();
    for profile in [Profile::Default, Profile::Quick, Profile::Rigorous] {
        let setup = Setup { profile, ..setup.clone() };
        let by = PredictionInput { setup: &setup, known: &[] };
        for prediction in TABLE.iter().flat_map(|experiment| experiment.predictions(&by)) {
            let labels = prediction.labels.without_conditions();
            if !found.iter().any(|(known, other)| *known == labels && other.metric == prediction.metric) {
                found.push((labels, prediction));
            }
        }
    }
    found
}

/// The names of these figures: metric, and labels without conditions.
pub fn named_figures(setup: &Setup) -> Vec<(String, Labels)> {
    figures(setup).into_iter().map(|(labels, prediction)| (prediction.metric, labels)).collect()
}
