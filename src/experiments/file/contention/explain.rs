//! How times grow with the readers, and how even their shares are.

use super::super::Order;
use super::judge::of_order;
use super::{
    CPU_BOUND, CPU_SHARE, FAIRNESS, KNEE, MOST_FILES, PER_READER, PROCESSES, RATE, TIME, cpu_shares, labels, rate,
};
use crate::experiments::prelude::*;
use crate::results::ratio::in_brackets;
use crate::results::wording::factor;
use crate::statistics::summary;

pub(super) fn shown(value: f64) -> String {
    quantity(value, Unit::Nanoseconds)
}

/// Nanoseconds of a read above which it met a pause, because waiting for 15 other readers takes less.
const PAUSE: f64 = 1e7;
/// How many times the longest read of a single reader it takes at least.
const PAUSE_TIMES: f64 = 5.0;

/// What the longest read among many says, if it is far longer than the longest of one reader.
fn pause(one: f64, all: f64, processes: usize) -> Option<String> {
    (all > PAUSE && all > PAUSE_TIMES * one).then(|| {
        format!(
            "The longest read among {processes} takes {}, and the longest of one reader {} (medians over launches). The \
             device or the host probably stops the readers for that time. A host can limit the CPU time of this guest and its disk \
             together.",
            shown(all),
            shown(one),
        )
    })
}

pub(super) fn explain(study: &Study<'_>, findings: &mut Findings) {
    let of = |metric: &str, at: &(Order, usize)| findings.metric(metric, &labels(at.0, at.1));
    let value = |metric: &str, at: &(Order, usize)| Some(number(of(metric, at)?.value));
    let all = Order::ALL.into_iter().flat_map(|order| PROCESSES.map(|processes| (order, processes)));
    let table = pivot(
        "Processes that read at the same time, each from its own file",
        all.clone().filter(|at| of(TIME, at).is_some() && of(RATE, at).is_some()),
        &[
            ("order", &|(order, _)| Some(order.name().to_owned())),
            ("processes", &|(_, processes)| Some(processes.to_string())),
            ("median", &|at| Some(of(TIME, at)?.text())),
            ("p99", &|&(order, processes)| {
                let sample = study.plain_sample("times", &labels(order, processes))?;
                summary::quantile(&sample.launches.concat(), 0.99).map(shown)
            }),
            ("together", &|at| Some(of(RATE, at)?.text())),
            ("over one process", &|at| Some(factor(of(RATE, at)?.value / rate(study, at.0, 1)?.value))),
            ("fairness", &|at| value(FAIRNESS, at)),
            ("CPU share", &|at| value(CPU_SHARE, at)),
            ("device queue", &|at| median(&study.values("in_flight", &labels(at.0, at.1))).map(number)),
        ],
    );
    if table.is_none() {
        return;
    }
    findings.analysis.extend(table);
    say_growth(findings);
    let is_measured = |processes: &usize| findings.metric(RATE, &labels(Order::Random, *processes)).is_some();
    let most = PROCESSES.into_iter().rfind(is_measured).unwrap_or(1);
    let pair = |processes| findings.metric(TIME, &labels(Order::Random, processes)).cloned();
    if let (Some(one), Some(all)) = (pair(1), pair(most)) {
        // By rates, which are sums: medians of waits that differ would not give them.
        let rate = |processes| findings.metric(RATE, &labels(Order::Random, processes)).cloned();
        let together = match (rate(1), rate(most)) {
            (Some(one), Some(all)) => format!(
                " Together {most} readers get {}, and one reader gets {}{}.",
                all.shown(),
                one.shown(),
                in_brackets(&all, &one)
            ),
            _ => String::new(),
        };
        findings.say(format!(
            "A random read takes {} alone and {} among {most}{}.{together}",
            one.shown(),
            all.shown(),
            in_brackets(&all, &one),
        ));
    }
    let longest = |processes| median(&study.values("longest", &labels(Order::Random, processes)));
    if let Some(text) = longest(1).zip(longest(MOST_FILES)).and_then(|(one, all)| pause(one, all, MOST_FILES)) {
        findings.say(text);
    }
    let bound: Vec<String> = all
        .filter(|&(order, processes)| {
            median(&cpu_shares(study, order, processes)).is_some_and(|share| share >= CPU_BOUND)
        })
        .map(|(order, processes)| format!("{} by {processes}", order.name()))
        .collect();
    if !bound.is_empty() {
        findings.say(format!("The CPU, not the device, limits these results (CPU-bound): {}.", bound.join(", ")));
    }
}

/// What the fit of random reads says.
fn say_growth(findings: &mut Findings) {
    let of = |metric| findings.metric(metric, &of_order(Order::Random)).cloned();
    if let (Some(slope), Some(knee)) = (of(PER_READER), of(KNEE)) {
        let alone = match knee.value.round() as u64 {
            0 | 1 => String::new(),
            served => format!("A read by one of {served} processes takes as long as alone. "),
        };
        findings.say(format!("{alone}Each further process adds {} to a read.", slope.shown()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_far_longer_than_a_read_of_one() {
        let said = pause(1.2e6, 2.6e7, 16).expect("a pause");
        assert!(said.contains("among 16 takes 26") && said.contains("1.2"), "{said}");
        assert_eq!(pause(1.2e6, 8e6, 16), None, "a wait for others");
        assert_eq!(pause(1.2e7, 3e7, 16), None, "a slow device");
    }
}
