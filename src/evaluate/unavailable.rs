//! Figures that launches could not take. The launches noted the reason while they measured.

use crate::results::document::Rejected;
use crate::results::evidence::Remark;
use crate::results::quantity::Labels;

use super::findings::Findings;
use super::study::Study;

/// What the sampler's remarks on failed operations begin with: a dot, the name of the series and its labels follow.
const FAILED: &str = "wrong.";
/// What reasons in logs of older versions begin with.
const OLD: &str = "cannot.";

/// Names every figure that is neither published nor refused and for which launches gave a reason. The first reason counts.
pub fn name_unavailable(study: &Study<'_>, findings: &mut Findings) {
    for remark in study.evidence().flat_map(|evidence| &evidence.remarks) {
        if let Some((metric, labels)) = remark.unavailable_figures() {
            let predicted: Vec<&Labels> = study
                .predictions
                .iter()
                .filter(|prediction| prediction.metric == metric && prediction.labels.includes(&labels))
                .map(|prediction| &prediction.labels)
                .collect();
            let figures = if predicted.is_empty() { vec![&labels] } else { predicted };
            for labels in figures {
                refuse(findings, metric, labels, remark);
            }
        } else if let Some(series) = remark.what.strip_prefix(FAILED) {
            let (_, labels) = series.split_once(' ').unwrap_or((series, ""));
            for prediction in study.predictions.iter().filter(|prediction| prediction.labels.to_string() == labels) {
                refuse(findings, &prediction.metric, &prediction.labels, remark);
            }
        } else if let Some(part) = remark.what.strip_prefix(OLD).filter(|part| !is_published(findings, part)) {
            let experiment = study.launches.first().map_or("", |launch| launch.experiment.as_str());
            refuse(findings, experiment, &Labels::of([("part", part)]), remark);
        }
    }
}

/// Adds a reason for a figure, unless it or one with more labels is published or refused already.
fn refuse(findings: &mut Findings, metric: &str, labels: &Labels, remark: &Remark) {
    let published = findings.metrics.iter().map(|found| (&found.name, &found.labels));
    let refused = findings.rejected.iter().map(|found| (&found.name, &found.labels));
    if !published.chain(refused).any(|(name, of)| name == metric && of.includes(labels)) {
        let reason = Rejected::of(metric.to_owned(), labels.clone(), remark.value.clone(), Vec::new());
        findings.rejected.push(Rejected { hint: remark.hint.clone(), ..reason });
    }
}

/// Older versions named parts of an experiment by values of labels, such as `warm.1048576`: whether a published figure has them.
fn is_published(findings: &Findings, part: &str) -> bool {
    let words = part.split(['.', ' ']).map(|word| word.rsplit('=').next().unwrap_or(word));
    let has = |labels: &Labels, word: &str| labels.pairs().any(|(_, value)| value == word);
    findings.metrics.iter().any(|metric| words.clone().all(|word| has(&metric.labels, word)))
}
