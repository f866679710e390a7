//! The state of the host during a run, in sentences: who used what the run measured.

use super::document::{Document, Grade, Metric, Practice};
use super::quantity::Better;
use super::wording::{factor, number, percent};
use crate::statistics::summary::median;

/// Share of batches with a neighbour on the core from which on it is said.
const NEIGHBOURS: f64 = 0.01;

/// Share of the time in which other tasks had the measured CPU from which on it is said: launches wait for their own tasks, too.
const DELAYED: f64 = 0.03;

/// Share of the time in which the hypervisor ran something else from which on it is said.
const STOLEN: f64 = 0.01;

/// CPUs that other processes used from which on it is said: kernels do a little for every run.
const OTHERS: f64 = 0.1;

/// Figures of a chapter that have a tax, for its median to be said.
const FEWEST_TAXES: usize = 3;

impl Practice {
    /// Who was on the core beside the measurement, in a sentence; none where it is not known or hardly anybody was.
    fn neighbours(&self) -> Option<String> {
        let share = self.shared_share.filter(|&share| share >= NEIGHBOURS)?;
        Some(format!("A neighbour used the same core during {} of the batches.", percent(share)))
    }
}

impl Document {
    /// Who disturbed the run, and what that costs: one sentence or two for each kind. Empty where nobody did that shows.
    pub fn host_state(&self) -> Vec<String> {
        [self.quota(), self.other_tasks(), self.stolen(), self.other_processes(), self.neighbours()]
            .into_iter()
            .flatten()
            .collect()
    }

    fn quota(&self) -> Option<String> {
        let quota = self.machine.limits.cpu_quota.as_ref()?;
        let usable = self.machine.usable_cpus().len() as f64;
        (quota.value < usable).then(|| {
            format!(
                "A CPU quota ({}) allows {} of {} CPUs, and an exhausted quota stops the run until the next period.",
                quota.source,
                number(quota.value),
                number(usable)
            )
        })
    }

    fn other_tasks(&self) -> Option<String> {
        let share = self.practice.delayed_share.filter(|&share| share >= DELAYED)?;
        Some(format!("Launches waited for their CPU for {} of the time, while other tasks had it.", percent(share)))
    }

    fn stolen(&self) -> Option<String> {
        let share = self.practice.stolen_share.filter(|&share| share >= STOLEN)?;
        Some(format!("The hypervisor ran something else for {} of the time (steal).", percent(share)))
    }

    fn other_processes(&self) -> Option<String> {
        let cpus = self.practice.others_cpus.filter(|&cpus| cpus >= OTHERS)?;
        Some(format!(
            "Other processes of this machine used {} CPUs during the run. Memory, last-level caches and results with \
             several CPUs are affected.",
            number(cpus)
        ))
    }

    /// Who was on the core beside the measurement, and what it costs; none where it is not known or hardly anybody was.
    pub fn neighbours(&self) -> Option<String> {
        let mut text = self.practice.neighbours()?;
        let taxes: Vec<String> = self
            .experiments
            .chunk_by(|one, other| one.chapter == other.chapter)
            .filter_map(|chapter| {
                // A rate falls as the time of the same work rises.
                let in_time = |metric: &Metric| {
                    metric.tax().map(|tax| if metric.better == Better::Higher { 1.0 / tax } else { tax })
                };
                let taxes: Vec<f64> = chapter.iter().flat_map(|section| &section.metrics).filter_map(in_time).collect();
                (taxes.len() >= FEWEST_TAXES).then_some(())?;
                Some(format!("{} {}", chapter[0].chapter, factor(median(&taxes)?)))
            })
            .collect();
        if !taxes.is_empty() {
            text += &format!(
                " {} A neighbour changes the time of the same work: {} (medians).",
                self.alone_sentence("Results"),
                taxes.join(", ")
            );
        }
        Some(text)
    }

    /// That results, called so, are for a core without a neighbour, as far as they are.
    pub fn alone_sentence(&self, results: &str) -> String {
        let contaminated = self.metrics().any(|metric| metric.headline && metric.grade == Grade::Contaminated);
        let exception = if contaminated { ", except the contaminated ones" } else { "" };
        format!("{results} are for a core without a neighbour{exception}.")
    }
}
