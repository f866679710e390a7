//! How times grow with the readers, and how even their shares are.

use super::super::Order;
use super::{CPU_BOUND, CPU_SHARE, FAIRNESS, PROCESSES, RATE, TIME, cpu_shares, labels, rate};
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
    let mut rows = Vec::new();
    for order in Order::ALL {
        let alone = rate(study, order, 1).map(|found| found.value);
        for processes in PROCESSES {
            let own = labels(order, processes);
            let (Some(time), Some(rate)) = (findings.metric(TIME, &own), findings.metric(RATE, &own)) else { continue };
            let tail = study.plain_sample("times", &own).and_then(|sample| {
                summary::quantile(&sample.launches.iter().flatten().copied().collect::<Vec<f64>>(), 0.99)
            });
            let value = |metric: &str| {
                findings.metric(metric, &own).map_or_else(|| "–".to_owned(), |found| number(found.value))
            };
            let queue = median(&study.values("in_flight", &own)).map_or_else(|| "–".to_owned(), number);
            rows.push(vec![
                order.name().to_owned(),
                processes.to_string(),
                time.text(),
                tail.map_or_else(|| "–".to_owned(), shown),
                rate.text(),
                alone.map_or_else(|| "–".to_owned(), |alone| factor(rate.value / alone)),
                value(FAIRNESS),
                value(CPU_SHARE),
                queue,
            ]);
        }
    }
    if rows.is_empty() {
        return;
    }
    findings.tabulate(
        "Processes that read at the same time, each from its own file",
        &[
            "order",
            "processes",
            "median",
            "p99",
            "together",
            "over one process",
            "fairness",
            "CPU share",
            "device queue",
        ],
        rows,
    );
    let most = PROCESSES[PROCESSES.len() - 1];
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
    if let Some(text) = longest(1).zip(longest(most)).and_then(|(one, all)| pause(one, all, most)) {
        findings.say(text);
    }
    let bound: Vec<String> = Order::ALL
        .into_iter()
        .flat_map(|order| PROCESSES.map(|processes| (order, processes)))
        .filter(|&(order, processes)| {
            median(&cpu_shares(study, order, processes)).is_some_and(|share| share >= CPU_BOUND)
        })
        .map(|(order, processes)| format!("{} by {processes}", order.name()))
        .collect();
    if !bound.is_empty() {
        findings.say(format!("The CPU, not the device, limits these results (CPU-bound): {}.", bound.join(", ")));
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
