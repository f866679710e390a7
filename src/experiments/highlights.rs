//! What is most worth knowing about a machine, found in its figures: contradictions between figures, disturbance, the
//! largest surprises, claims that others deny, and what costs most beside what it is compared with.

use crate::machine::Machine;
use crate::results::document::{CheckOutcome, CompositeCheck, Grade, Highlight, HighlightKind, Metric, Section};
use crate::results::quantity::Labels;
use crate::results::verdict::AgainstPrediction;
use crate::results::wording::{count, factor, quantity};

/// How many things a reader keeps in mind.
const MOST: usize = 5;
/// Share of figures that are not good beyond which that is news.
const DISTURBED: f64 = 0.1;

/// Two figures whose ratio says something about a machine: what the larger costs in units of the smaller.
struct Ratio {
    dear: (&'static str, &'static [(&'static str, &'static str)]),
    cheap: (&'static str, &'static [(&'static str, &'static str)]),
    says: &'static str,
}

const ENOSYS: (&str, &[(&str, &str)]) = ("os.system_call.time", &[("call", "enosys")]);

/// In the order in which they are told; the report's own comparisons say more.
const RATIOS: &[Ratio] = &[
    Ratio {
        dear: ("memory.latency.level", &[("level", "DRAM")]),
        cheap: ("memory.latency.level", &[("level", "L1")]),
        says: "A load that misses every cache waits as long as {} loads from the first",
    },
    Ratio {
        dear: ENOSYS,
        cheap: ("cpu.procedure_call.time", &[("args", "0"), ("chain", "throughput"), ("code", "registers")]),
        says: "Entering the kernel and leaving it again takes as long as {} procedure calls",
    },
    Ratio {
        dear: ("os.process_creation.time", &[("how", "fork_exec_wait"), ("image", "dynamic")]),
        cheap: ("os.process_creation.time", &[("how", "fork_exec_wait"), ("image", "static")]),
        says: "Starting a dynamically linked program takes {} times as long as a static one",
    },
    Ratio {
        dear: ("os.process_creation.time", &[("how", "fork_wait"), ("resident", "0")]),
        cheap: ("os.thread_creation.time", &[("how", "create_join")]),
        says: "A process is {} times as dear as a thread",
    },
    Ratio {
        dear: ("os.context_switch.time", &[("between", "processes"), ("through", "pipe")]),
        cheap: ENOSYS,
        says: "Handing a byte to another process takes as long as entering the kernel {} times",
    },
    Ratio {
        dear: ("file.read.block_time", &[("order", "random"), ("cache", "direct")]),
        cheap: ("file.read.block_time", &[("order", "random"), ("cache", "warm")]),
        says: "A block from the disk takes {} times as long as one from the file cache",
    },
    Ratio {
        dear: ("cpu.timer.overhead", &[("method", "cpuid_rdtsc")]),
        cheap: ("cpu.timer.overhead", &[("method", "rdtsc")]),
        says: "Reading the clock behind CPUID takes {} times as long as reading it alone",
    },
];

/// At most five sentences, the weightiest kinds first.
pub fn highlights(sections: &[Section], checks: &[CompositeCheck], machine: &Machine) -> Vec<Highlight> {
    // So many of each kind come first, so that one bad experiment does not hide everything else; the rest fills up.
    let kinds = [
        (2, violations(checks)),
        (1, disturbance(sections)),
        (2, surprises(sections)),
        (1, contradictions(machine)),
        (1, ratios(sections)),
    ];
    let mut found: Vec<Highlight> = kinds.iter().flat_map(|(first, kind)| kind.iter().take(*first)).cloned().collect();
    found.extend(kinds.iter().rev().flat_map(|(first, kind)| kind.iter().skip(*first)).cloned());
    found.truncate(MOST);
    found.sort_by_key(|highlight| highlight.kind);
    found
}

fn highlight(kind: HighlightKind, text: String, section: &str) -> Highlight {
    Highlight { kind, text, section: section.to_owned() }
}

fn violations(checks: &[CompositeCheck]) -> Vec<Highlight> {
    checks
        .iter()
        .filter(|check| check.outcome == CheckOutcome::Violated)
        .filter_map(|check| Some((check, check.comparisons.iter().find(|made| !made.holds)?)))
        .map(|(check, made)| {
            let text = format!(
                "Figures contradict each other ({}): {} is not {} {}.",
                check.id, made.left, made.relation, made.right
            );
            highlight(HighlightKind::Violation, text, "")
        })
        .collect()
}

/// How many figures are not good, and what was seen most often.
fn disturbance(sections: &[Section]) -> Vec<Highlight> {
    let metrics: Vec<&Metric> = sections.iter().flat_map(|section| &section.metrics).collect();
    let unclean: Vec<&&Metric> = metrics.iter().filter(|metric| metric.grade != Grade::Good).collect();
    if metrics.is_empty() || (unclean.len() as f64) < DISTURBED * metrics.len() as f64 {
        return Vec::new();
    }
    let reason = unclean.iter().max_by_key(|metric| metric.grade).and_then(|worst| {
        let gate = worst.verdict.failures().first().copied()?;
        Some(format!(" For example {}: {}.", worst.title(), gate.evidence))
    });
    let text = format!(
        "{} of {} are not good.{}",
        unclean.len(),
        count(metrics.len() as u64, "figure", "figures"),
        reason.unwrap_or_default()
    );
    vec![highlight(HighlightKind::Disturbance, text, "")]
}

/// The figures farthest outside their predicted ranges, one of each metric.
fn surprises(sections: &[Section]) -> Vec<Highlight> {
    let mut found: Vec<(f64, Highlight, &str)> = Vec::new();
    for section in sections {
        for metric in &section.metrics {
            let Some((far, text)) = surprise(metric) else { continue };
            let entry = (far, highlight(HighlightKind::Surprise, text, &section.id), metric.name.as_str());
            match found.iter_mut().find(|(.., name)| *name == metric.name) {
                Some(other) if other.0 < far => *other = entry,
                Some(_) => {}
                None => found.push(entry),
            }
        }
    }
    found.sort_by(|one, other| other.0.total_cmp(&one.0));
    found.into_iter().map(|(_, highlight, _)| highlight).collect()
}

/// How far a figure lies outside its range, as a logarithm, and the sentence.
fn surprise(metric: &Metric) -> Option<(f64, String)> {
    let prediction = metric.prediction.as_ref()?;
    let verdict = metric.verdict.against_prediction;
    if !matches!(verdict, AgainstPrediction::Faster | AgainstPrediction::Slower) {
        return None;
    }
    let end = if metric.value < prediction.low { prediction.low } else { prediction.high };
    let far = (metric.value / end).ln().abs();
    let text = format!(
        "{} is {} than predicted: {} against {} ({}).",
        metric.title(),
        verdict.word(),
        metric.text(),
        quantity(prediction.value, prediction.unit),
        factor(metric.value / prediction.value)
    );
    far.is_finite().then_some((far, text))
}

fn contradictions(machine: &Machine) -> Vec<Highlight> {
    machine
        .contradictions()
        .iter()
        .map(|found| {
            let claims: Vec<String> =
                found.claims.iter().map(|claim| format!("{} ({})", claim.value, claim.source)).collect();
            let article = if found.question.starts_with("whether") { "" } else { "the " };
            let text = format!("Sources disagree on {article}{}: {}.", found.question, claims.join(" ≠ "));
            highlight(HighlightKind::Contradiction, text, "")
        })
        .collect()
}

fn ratios(sections: &[Section]) -> Vec<Highlight> {
    let find = |(name, labels): (&str, &[(&str, &str)])| {
        let wanted = labels.iter().fold(Labels::none(), |labels, (key, value)| labels.with(key, value));
        sections.iter().find_map(|section| {
            let metric =
                section.metrics.iter().find(|metric| metric.name == name && metric.labels.includes(&wanted))?;
            Some((section, metric))
        })
    };
    RATIOS
        .iter()
        .filter_map(|ratio| {
            let ((section, dear), (_, cheap)) = (find(ratio.dear)?, find(ratio.cheap)?);
            (dear.value > cheap.value && dear.unit == cheap.unit).then(|| {
                let times = dear.value / cheap.value;
                // Two digits: the figures of a ratio have their own intervals.
                let times = if times < 10.0 { format!("{times:.1}") } else { format!("{times:.0}") };
                let text = format!("{} ({} against {}).", ratio.says.replace("{}", &times), dear.text(), cheap.text());
                highlight(HighlightKind::Bottleneck, text, &section.id)
            })
        })
        .collect()
}
