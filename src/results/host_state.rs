//! The state of the host during a run, in sentences: who used what the run measured.

use super::document::{Document, Grade, Metric};
use super::quantity::Better;
use super::wording::{factor, percent};
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

/// Chapter whose figures are work of the kernel.
const KERNEL: &str = "os";

/// Chapters with results of what all CPUs share, whose batches are not divided by neighbours.
const UNDIVIDED: [&str; 3] = ["memory", "network", "file"];

/// Something that used what the run measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disturbance {
    /// In a few words, as part of a list: "steal (4.04 % of the time)".
    pub brief: String,
    /// What happened, in a sentence.
    pub sentence: String,
    /// What follows from it, in sentences; empty where nothing does.
    pub consequence: String,
}

impl Disturbance {
    fn new(brief: impl Into<String>, sentence: impl Into<String>) -> Disturbance {
        Disturbance { brief: brief.into(), sentence: sentence.into(), consequence: String::new() }
    }

    fn with(self, consequence: impl Into<String>) -> Disturbance {
        Disturbance { consequence: consequence.into(), ..self }
    }
}

/// A number of CPUs with two decimals at most.
fn hundredths(cpus: f64) -> String {
    ((cpus * 100.0).round() / 100.0).to_string()
}

impl Document {
    /// Who disturbed the run, and what that costs, in the order of what a reader should do something about. Empty where no
    /// disturbance shows.
    pub fn disturbances(&self) -> Vec<Disturbance> {
        [self.quota(), self.other_tasks(), self.neighbours(), self.other_processes(), self.stolen()]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Who disturbed the run in a sentence, each in a few words, and what other work on the core costs.
    pub fn disturbed_by(&self) -> String {
        let briefs: Vec<String> = self.disturbances().into_iter().map(|found| found.brief).collect();
        match briefs.split_last() {
            None => "No disturbance of the run was visible.".to_owned(),
            Some((last, [])) => format!("Disturbed by {last}.{}", self.with_other_work()),
            Some((last, others)) => format!("Disturbed by {} and {last}.{}", others.join(", "), self.with_other_work()),
        }
    }

    /// What work of the kernel takes with other work on the core, behind a sentence. Empty where that is not known.
    fn with_other_work(&self) -> String {
        let taxes = self.taxes();
        let longer = taxes.iter().find(|(chapter, tax)| *chapter == KERNEL && *tax > 1.0).map(|(_, tax)| tax - 1.0);
        let exception = if self.has_contaminated_headlines() { ", except those marked !" } else { "" };
        longer.filter(|_| self.neighbours().is_some()).map_or_else(String::new, |longer| {
            format!(
                " With such work, the kernel takes {} longer. Costs of the core are without it{exception}.",
                percent(longer)
            )
        })
    }

    /// Who disturbed the run, and what that costs: one sentence or more for each kind. Empty where no disturbance shows.
    pub fn host_state(&self) -> Vec<String> {
        let text = |found: Disturbance| format!("{} {}", found.sentence, found.consequence).trim_end().to_owned();
        self.disturbances().into_iter().map(text).collect()
    }

    fn quota(&self) -> Option<Disturbance> {
        let quota = self.machine.limits.cpu_quota.as_ref()?;
        let usable = self.machine.usable_cpus().len();
        let allowed = (quota.value < usable as f64).then(|| hundredths(quota.value))?;
        let sentence = format!(
            "A CPU quota ({}) allows {allowed} of {usable} CPUs, and an exhausted quota stops the run until the next \
             period.",
            quota.source
        );
        Some(Disturbance::new(format!("a CPU quota ({allowed} of {usable} CPUs)"), sentence))
    }

    fn other_tasks(&self) -> Option<Disturbance> {
        let share = percent(self.practice.delayed_share.filter(|&share| share >= DELAYED)?);
        let sentence = format!("Launches waited for their CPU for {share} of the time, while other tasks had it.");
        Some(Disturbance::new(format!("other tasks on its CPU ({share} of the time)"), sentence))
    }

    fn stolen(&self) -> Option<Disturbance> {
        let share = percent(self.practice.stolen_share.filter(|&share| share >= STOLEN)?);
        let sentence = format!("The hypervisor ran something else for {share} of the time (steal).");
        Some(Disturbance::new(format!("steal ({share} of the time)"), sentence))
    }

    fn other_processes(&self) -> Option<Disturbance> {
        let cpus = hundredths(self.practice.others_cpus.filter(|&cpus| cpus >= OTHERS)?);
        let sentence = format!("Other processes of this machine used {cpus} CPUs during the run.");
        let consequence = "Memory, last-level caches and results with several CPUs are affected.";
        Some(Disturbance::new(format!("other processes ({cpus} CPUs)"), sentence).with(consequence))
    }

    /// Who was on the core during the measurement, and what it costs. None where it is not known, or where hardly any neighbour was there.
    pub fn neighbours(&self) -> Option<Disturbance> {
        let share = percent(self.practice.shared_share.filter(|&share| share >= NEIGHBOURS)?);
        let sentence = format!("A neighbour used the same core during {share} of the batches.");
        let taxes = self.taxes();
        let found = Disturbance::new(format!("other work on the same core ({share} of the batches)"), sentence);
        if taxes.is_empty() {
            return Some(found);
        }
        let taxes: Vec<String> = taxes.iter().map(|(chapter, tax)| format!("{chapter} {}", factor(*tax))).collect();
        Some(found.with(format!(
            "{} A neighbour changes the time of the same work: {} (medians).",
            self.alone_sentence("Results"),
            taxes.join(", ")
        )))
    }

    /// What a neighbour makes of the time of the same work, by chapter: medians.
    fn taxes(&self) -> Vec<(&str, f64)> {
        self.experiments
            .chunk_by(|one, other| one.chapter == other.chapter)
            .filter_map(|chapter| {
                // A rate falls as the time of the same work rises.
                let in_time = |metric: &Metric| {
                    metric.tax().map(|tax| if metric.better == Better::Higher { 1.0 / tax } else { tax })
                };
                let taxes: Vec<f64> = chapter.iter().flat_map(|section| &section.metrics).filter_map(in_time).collect();
                (taxes.len() >= FEWEST_TAXES).then_some(())?;
                Some((chapter[0].chapter.as_str(), median(&taxes)?))
            })
            .collect()
    }

    fn has_contaminated_headlines(&self) -> bool {
        self.metrics().any(|metric| metric.headline && metric.grade == Grade::Contaminated)
    }

    /// That results, called so, are for a core without a neighbour, as far as they are.
    pub fn alone_sentence(&self, results: &str) -> String {
        let exception = if self.has_contaminated_headlines() { ", except the contaminated ones" } else { "" };
        let undivided = self.experiments.iter().any(|section| UNDIVIDED.contains(&section.chapter.as_str()));
        let others = if undivided { " Results of L3, DRAM, devices and throughput include all batches." } else { "" };
        format!("{results} that depend on the core are for one without a neighbour{exception}.{others}")
    }
}
