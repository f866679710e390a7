//! What is lost, and where.

use super::super::path_sentence;
use super::judge::DROPS;
use super::{Case, Counts, OFFERED, Offered, RATE, cases};
use crate::experiments::prelude::*;
use crate::statistics::proportion::proportion_interval;

/// Confidence of the upper ends of losses.
const CONFIDENCE: f64 = 0.95;

pub(super) fn explain(study: &Study<'_>, findings: &mut Findings) {
    if let Some(peer) = study.setup.peer.as_ref() {
        findings.say(path_sentence(study, peer));
    }
    for (remark, whose) in [("receive_buffer", "this machine"), ("receive_buffer_there", "the other side")] {
        if let Some(bytes) = study.remarks(remark).first() {
            findings.say(format!("The receive buffer of {whose} has {bytes} bytes."));
        }
    }
    let rate = |case: Case| Some((case, findings.metric(RATE, &case.labels())?.value));
    let rates: Vec<(Case, f64)> = cases(study.setup).into_iter().filter_map(rate).collect();
    let table = pivot(
        "Datagrams that arrive, and what limits them",
        rates.clone(),
        &[
            ("flow", &|(case, _)| Some(case.labels().to_string())),
            ("datagrams per second", &|&(case, rate)| Some(number(rate / f64::from(case.bytes)))),
            ("payload", &|(_, rate)| Some(quantity(*rate, Unit::BytesPerSecond))),
            ("limit", &|(case, _)| limit(study, *case)),
        ],
    );
    findings.analysis.extend(table);
    let flows = rates.into_iter().flat_map(|(case, _)| OFFERED.map(|offered| (case, offered)));
    let table = pivot(
        "Datagrams that are lost, reordered and repeated",
        flows.filter_map(|(case, offered)| Some((case, offered, Losses::of(study, case, offered)?))),
        &[
            ("flow", &|(case, offered, _)| Some(case.offered(*offered).to_string())),
            ("sent", &|(.., losses)| Some(losses.sum.sent.to_string())),
            ("lost", &|(.., losses)| Some(losses.text())),
            ("of these, dropped by the receiver", &|(.., losses)| Some(losses.sum.dropped?.to_string())),
            ("refused by the sender", &|(.., losses)| Some(losses.sum.refused.to_string())),
            ("reordered", &|(.., losses)| Some(losses.sum.reordered.to_string())),
            ("repeated", &|(.., losses)| Some(losses.sum.repeated.to_string())),
        ],
    );
    findings.analysis.extend(table);
}

/// What was lost of flows of one kind.
struct Losses {
    sum: Counts,
    /// The share is at most this.
    most: f64,
}

impl Losses {
    fn of(study: &Study<'_>, case: Case, offered: Offered) -> Option<Self> {
        let all = Counts::by_launch(study, case, offered);
        let parts: Vec<(f64, f64)> = all.iter().map(|found| (found.lost(), found.sent)).collect();
        Some(Losses { sum: Counts::sum(&all), most: proportion_interval(&parts, CONFIDENCE)?.high })
    }

    fn text(&self) -> String {
        match self.sum.lost() {
            0.0 => format!("0, at most {}", part(self.most)),
            lost => format!("{lost}, {}", part(lost / self.sum.sent)),
        }
    }
}

/// A share in words, also a small one.
fn part(share: f64) -> String {
    if share < 0.001 { format!("{} of a million", number(share * 1e6)) } else { percent(share) }
}

/// What sets the rate of a case, in words.
fn limit(study: &Study<'_>, case: Case) -> Option<String> {
    let sum = Counts::sum(&Counts::by_launch(study, case, Offered::Full));
    let dropped = sum.dropped.unwrap_or(0.0).min(sum.lost());
    let parts = [
        (dropped / sum.sent, "the receiver, whose full buffer drops"),
        ((sum.lost() - dropped) / sum.sent, "the path, which loses"),
        (sum.refused / (sum.sent + sum.refused), "a queue of the sender, which refuses"),
    ];
    let (share, what) = parts.into_iter().max_by(|one, other| one.0.total_cmp(&other.0))?;
    Some(if share > DROPS { format!("{what} {}", percent(share)) } else { "the sender".to_owned() })
}
