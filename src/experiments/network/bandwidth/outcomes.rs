//! What becomes of flows: each that has no figure has its own reason, and takes no other with it.

use super::{Case, RATE};
use crate::experiments::prelude::*;

/// What became of a case.
pub(super) type CaseResult = Result<(), (Case, Problem)>;

/// Notes why cases have no figure. The launch fails only where none has one.
pub(super) fn keep(rig: &mut Rig<'_>, outcomes: Vec<CaseResult>) -> Result<(), Problem> {
    let none = outcomes.iter().all(Result::is_err);
    let failed: Vec<(Case, Problem)> = outcomes.into_iter().filter_map(Result::err).collect();
    for (case, problem) in &failed {
        rig.unavailable_for(RATE, &case.labels(), problem);
    }
    match failed.into_iter().next() {
        Some((_, problem)) if none => Err(problem),
        _ => Ok(()),
    }
}
