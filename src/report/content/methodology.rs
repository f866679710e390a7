//! The methodology that all sections share, with the parameters that this run really had.

use crate::report::page::{Cell, PagePart, Piece, Table};
use crate::results::document::Document;
use crate::results::quantity::Unit;
use crate::results::wording::{count, duration, number, percent, quantity};

pub(super) fn part(document: &Document) -> PagePart {
    let mut part = PagePart::new("methodology", "Shared methodology", 2);
    part.head("Repetition");
    part.say(repetition(document));
    part.head("Clock");
    part.say(clock(document));
    part.head("Core cycles");
    part.say(core(document));
    part.head("Results");
    part.say(
        "A sample is the time of a batch divided by its operations. sysdyno drops no batch because of its value. It \
         leaves out a batch only for a cause that the kernel or the clock reports, and it counts these batches. The \
         undisturbed cost is the lower quartile over launches of the launches' lower quartiles, because noise only \
         adds time. Where sysdyno checked the core for a neighbour, only batches without one count. The result is then \
         the median over launches of their median (chapter cpu) or lower quartile. The typical cost is the median over \
         launches of the medians of all clean batches. A difference of two kinds of batches is taken within a launch. \
         Its result is the median over launches. The interval is the root of the sum of two squared parts. The part \
         within the run comes from order statistics or a bootstrap over launches (not over batches) at 95 %. The part \
         between runs is the usual change of the result from run to run. It does not contain changes of the core clock.",
    );
    part.head("Verdicts");
    part.say(
        "sysdyno wrote every prediction to the log before the first sample of its experiment. Results inside the \
         predicted range are as predicted. Others are faster or slower. The grade states how certain a result is. \
         Good: half of its interval is within the target of its experiment, and all gates passed. Rough: within 2.5 \
         times the target, or a gate doubts it. Unresolved: wider, or from fewer than 5 launches. Contaminated: \
         another program had the CPU. A result that fails a hard gate, such as a physical floor, is not published.",
    );
    part.add(Piece::Table(parameters(document)));
    part
}

fn repetition(document: &Document) -> String {
    let (run, practice) = (&document.run, &document.practice);
    let mut text = format!(
        "A launch is a new process, pinned to CPU {}, that takes the samples of one experiment once. The first \
         round launches each experiment. Later rounds have the launches that make most results good, in random order. \
         This run made {}",
        run.cpu,
        count(u64::from(run.rounds), "round", "rounds")
    );
    text += &format!(", with {}", count(u64::from(practice.launches), "successful launch", "successful launches"));
    if practice.failed_launches > 0 {
        text += &format!(" and {} that failed", practice.failed_launches);
    }
    text += &format!(", in {}. It ended because: {}.", duration(run.wall_seconds), run.ended);
    text += &moved_launches(document);
    if let Some(batches) = practice.batches_per_launch {
        text += &format!(" A launch took {} of each workload (median).", count(batches, "batch", "batches"));
    }
    if let Some(settled) = practice.settled_share {
        text += &format!(" {} of the launches had settled when sampling began.", percent(settled));
    }
    text
}

/// A sentence about launches that measured on another CPU than that of the run, after a space; empty where none did.
pub(super) fn moved_launches(document: &Document) -> String {
    let practice = &document.practice;
    let (Some(shared), Some(moved)) = (practice.shared_at_start, practice.moved_launches.filter(|moved| *moved > 0))
    else {
        return String::new();
    };
    format!(
        " {} of the launches began with a neighbour on the core of CPU {}. {moved} of these measured on another CPU of the \
         same kind.",
        percent(shared),
        document.run.cpu
    )
}

fn clock(document: &Document) -> String {
    let practice = &document.practice;
    let Some(clock) = &document.run.clock else {
        return "The run ended before its clock was calibrated.".to_owned();
    };
    let mut text = format!(
        "sysdyno reads times from {} at {}, calibrated against CLOCK_MONOTONIC_RAW to {} ppm. Each launch checks that \
         rate.",
        clock.source,
        quantity(clock.hertz, Unit::Hertz),
        number(clock.error_ppm)
    );
    if let Some(bias) = practice.timer_bias {
        text += &format!(
            " An empty interval takes up to {}, which sysdyno subtracts from every interval.",
            quantity(bias, Unit::Nanoseconds)
        );
    }
    if let Some(resolution) = practice.timer_resolution {
        text += &format!(
            " The clock advances in steps of {}, and a batch lasts at least a thousand steps.",
            quantity(resolution, Unit::Nanoseconds)
        );
    }
    text
}

fn core(document: &Document) -> String {
    let practice = &document.practice;
    let Some([low, middle, high]) = practice.core_hertz else {
        return "This run could not measure the core clock, so results are times, not cycles.".to_owned();
    };
    let mut text = format!(
        "A chain of dependent instructions of known length measures the core clock with every batch. Costs of the \
         processor and the kernel are first counted in its cycles. Over launches the core ran at {} (from {} to {}).",
        quantity(middle, Unit::Hertz),
        quantity(low, Unit::Hertz),
        quantity(high, Unit::Hertz)
    );
    if let Some(ratio) = practice.chain_ratio {
        text += &format!(
            " A multiply takes {} additions here. A chain is valid within 1.5 % of a whole number.",
            number(ratio)
        );
    }
    text
}

fn parameters(document: &Document) -> Table {
    let (run, practice) = (&document.run, &document.practice);
    let mut table = Table::new("Parameters of this run", &["parameter", "value"]);
    let mut row = |name: &str, value: String| table.row(vec![Cell::of(name), Cell::of(value)]);
    row("profile", run.profile.clone());
    row("seed of every random choice", run.seed.to_string());
    row("rounds", run.rounds.to_string());
    row("rounds with deviating interference probes", run.disturbed_rounds.len().to_string());
    row("launches successful, failed", format!("{}, {}", practice.launches, practice.failed_launches));
    if let Some(clock) = &run.clock {
        row("slew of CLOCK_MONOTONIC", format!("{} ppm", number(clock.slew_ppm)));
    }
    let batches: Vec<String> = practice.batches.iter().map(|of| format!("{} {}", of.count, of.class)).collect();
    row("batches", if batches.is_empty() { "none".to_owned() } else { batches.join(", ") });
    let known = |share: Option<f64>| share.map_or_else(|| "unknown".to_owned(), percent);
    row("time that other tasks took from launches", known(practice.delayed_share));
    row("time that the hypervisor took from launches", known(practice.stolen_share));
    row("batches with a neighbour on the core", known(practice.shared_share));
    table
}
