//! Figures that neighbours left nothing of: every batch of a series behind them was disturbed or void. They are named like any
//! other figure that failed a gate, so that none goes missing without a reason.

use std::collections::{BTreeMap, BTreeSet};

use crate::results::document::Rejected;
use crate::results::quantity::Labels;
use crate::results::verdict::Gate;

use super::findings::Findings;
use super::gate::rules;
use super::sample::Account;
use super::study::Study;

rules! {
    NONE_STEADY: "G14" Hard "all", "each series of a result has a batch in which the core clock did not change";
    NONE_TOLD: "G16" Hard "all results in cycles", "each series of a result has a batch that ran entirely without or entirely \
                                            with a neighbour on its core";
    NONE_UNDISTURBED: "G16" Hard "all", "each series of a result has a clean batch";
}

/// Names every predicted figure that is neither published nor refused yet, where there are series without a clean batch.
pub fn name_missing(study: &Study<'_>, findings: &mut Findings) {
    let Some(gate) = nothing_told(study).or_else(|| nothing_clean(study)) else {
        return;
    };
    for prediction in &study.predictions {
        let told = findings.metric(&prediction.metric, &prediction.labels).is_some()
            || findings.rejected.iter().any(|found| prediction.is_for(&found.name, &found.labels));
        if !told {
            let reason = format!("{}: {}", gate.id, gate.evidence);
            let (name, labels) = (prediction.metric.clone(), prediction.labels.clone());
            findings.rejected.push(Rejected::of(name, labels, reason, vec![gate.clone()]));
        }
    }
}

/// Names a figure that is a difference of two series where each has batches that count, but no launch has them of both.
pub fn name_unpaired(study: &Study<'_>, findings: &mut Findings, metric: &str, labels: &Labels, series: [&str; 2]) {
    if series.iter().all(|name| study.sample(name, labels).is_some()) {
        findings.cannot(metric, labels.clone(), "no launch has undisturbed batches of both loops that it is made from");
    }
}

/// The number of series whose clean batches all saw a neighbour come or go. None if there is no such series.
fn nothing_told(study: &Study<'_>) -> Option<Gate> {
    let names: BTreeSet<(&str, &Labels)> = study
        .launches
        .iter()
        .flat_map(|launch| &launch.series)
        .map(|series| (series.name.as_str(), &series.labels))
        .collect();
    let beside = names.iter().filter_map(|(name, labels)| study.only_mixed(name, labels)).collect::<Vec<_>>();
    let batches: u64 = beside.iter().map(|found| found.known()).sum();
    (!beside.is_empty()).then(|| {
        Gate::holds(
            &NONE_TOLD,
            false,
            format!(
                "a neighbour appeared or left during all {batches} clean batches of {} series that the result may need",
                beside.len()
            ),
        )
    })
}

/// What became of the batches of all series that have no clean one in any launch; none where every series has one. A series whose
/// operation failed has its own reason elsewhere.
fn nothing_clean(study: &Study<'_>) -> Option<Gate> {
    let mut accounts: BTreeMap<(&str, &Labels), Account> = BTreeMap::new();
    for series in study.launches.iter().flat_map(|launch| &launch.series) {
        accounts.entry((&series.name, &series.labels)).or_default().add(series);
    }
    let spoilt: Vec<Account> = accounts
        .into_values()
        .filter(|account| account.taken > 0 && account.clean == 0 && account.wrong == 0)
        .collect();
    let all = spoilt.iter().copied().reduce(|one, other| one.and(&other))?;
    let rule = if all.unsteady > all.disturbed { &NONE_STEADY } else { &NONE_UNDISTURBED };
    Some(Gate::holds(
        rule,
        false,
        format!(
            "{} series of the result have no clean batch. Of {} batches {} were disturbed, the core clock changed \
             within {}, and time went backwards in {}",
            spoilt.len(),
            all.taken,
            all.disturbed,
            all.unsteady,
            all.backwards
        ),
    ))
}
