//! What limited the flows.

use super::super::{SAME_CPU, path_sentence};
use super::{Case, PLAIN, RATE, cases, limit};
use crate::evaluate::findings::Findings;
use crate::evaluate::study::Study;
use crate::results::quantity::Unit;
use crate::results::wording::quantity;

pub(super) fn explain(study: &Study<'_>, findings: &mut Findings) {
    if let Some(peer) = study.setup.peer.as_ref() {
        findings.say(path_sentence(study, peer));
    }
    let mut rows = Vec::new();
    for case in cases(study.setup.peer.as_ref()) {
        let Some(metric) = findings.metric(RATE, &case.labels()) else { continue };
        let Some(limit) = limit(study, case) else { continue };
        rows.push(vec![case.labels().to_string(), quantity(metric.value, Unit::BytesPerSecond), limit]);
    }
    if !rows.is_empty() {
        findings.tabulate("What holds each flow back", &["flow", "payload", "limit"], rows);
    }
    let rate = |findings: &Findings, case: Case| findings.metric(RATE, &case.labels()).map(|metric| metric.value);
    let (two, one) = (rate(findings, PLAIN), rate(findings, Case { placement: Some(SAME_CPU), ..PLAIN }));
    if let (Some(two), Some(one)) = (two, one) {
        findings.say(format!(
            "The loopback moves {} with both sides on two CPUs and {} on one; a tool that leaves the placement to the kernel may show either.",
            quantity(two, Unit::BytesPerSecond),
            quantity(one, Unit::BytesPerSecond)
        ));
    }
    if let Some(name) = study.remarks("congestion_control").first() {
        findings.say(format!("Congestion control of this machine's senders: {name}."));
    }
}
