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
    part.head("Figures");
    part.say(
        "A sample is a batch divided by its operations. Nothing is dropped by its value: a batch is left out only for a cause \
         that the kernel or the clock names, and what was left out is counted. Undisturbed cost is the lower quartile over \
         launches of the launches' lower quartiles, because noise adds and never takes away. Where a look at the width of the core \
         stands beside the batches, only those count that were alone on it: the median over launches of their median (chapter \
         cpu) or lower quartile. Typical cost is the median over launches of the medians of all clean batches. Differences of two \
         kinds of batches are taken within a launch, then the median over launches. The interval has two parts, added as squares. \
         One is within the run: order statistics or a bootstrap over launches, never over batches, at 95 %. The other is between \
         runs: what the figure moves from one run to another.",
    );
    part.head("Verdicts");
    part.say(
        "Every prediction was written to the log before the first sample of its experiment. Figures inside the predicted range \
         are as predicted; others are faster or slower. The grade says how well a figure is known. Good: half of its interval is \
         within the target of its experiment, and all gates passed. Rough: within 2.5 times the target, or a gate doubts it. \
         Unresolved: wider, or from fewer than 5 launches. Contaminated: something else had the CPU. A figure that fails a hard gate, such as one \
         below a physical floor, is not published.",
    );
    part.add(Piece::Table(parameters(document)));
    part
}

fn repetition(document: &Document) -> String {
    let (run, practice) = (&document.run, &document.practice);
    let mut text = format!(
        "A launch is a fresh process that takes the samples of one experiment once, pinned to CPU {}. A round is one launch of \
         each experiment that is due in it (dear ones are in every fourth or sixth), in random order after the first. This run made {} of {} planned",
        run.cpu,
        count(u64::from(run.rounds), "round", "rounds"),
        practice.rounds_planned
    );
    text += &format!(", with {} that ended well", count(u64::from(practice.launches), "launch", "launches"));
    if practice.failed_launches > 0 {
        text += &format!(" and {} that did not", practice.failed_launches);
    }
    text += &format!(", in {}; it ended because: {}.", duration(run.wall_seconds), run.ended);
    if let Some(batches) = practice.batches_per_launch {
        text += &format!(" A launch took {} of each workload (median).", count(batches, "batch", "batches"));
    }
    if let Some(settled) = practice.settled_share {
        text += &format!(" {} of the launches had settled when sampling began.", percent(settled));
    }
    text
}

fn clock(document: &Document) -> String {
    let practice = &document.practice;
    let Some(clock) = &document.run.clock else {
        return "The run ended before its clock was calibrated.".to_owned();
    };
    let mut text = format!(
        "Times are read from {} at {}, calibrated against CLOCK_MONOTONIC_RAW to {} ppm; each launch checks that rate.",
        clock.source,
        quantity(clock.hertz, Unit::Hertz),
        number(clock.error_ppm)
    );
    if let Some(bias) = practice.timer_bias {
        text += &format!(
            " An empty interval takes up to {}, which is removed from every interval.",
            quantity(bias, Unit::Nanoseconds)
        );
    }
    if let Some(resolution) = practice.timer_resolution {
        text += &format!(
            " The clock moves in steps of {}; a batch lasts at least a thousand of them.",
            quantity(resolution, Unit::Nanoseconds)
        );
    }
    text
}

fn core(document: &Document) -> String {
    let practice = &document.practice;
    let Some([low, middle, high]) = practice.core_hertz else {
        return "The core clock could not be told in this run: figures are times, not cycles.".to_owned();
    };
    let mut text = format!(
        "The core's own clock is probed beside every batch by a chain of dependent instructions of known length, and costs of \
         the processor and the kernel are counted in its cycles first. Over launches it ran at {} (from {} to {}).",
        quantity(middle, Unit::Hertz),
        quantity(low, Unit::Hertz),
        quantity(high, Unit::Hertz)
    );
    if let Some(ratio) = practice.chain_ratio {
        text += &format!(
            " A multiply takes {} additions here; a chain counts as valid within 1.5 % of a whole number.",
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
    row("rounds planned, made", format!("{}, {}", practice.rounds_planned, run.rounds));
    row("rounds in which canaries deviated", run.disturbed_rounds.len().to_string());
    row("launches that ended well, failed", format!("{}, {}", practice.launches, practice.failed_launches));
    if let Some(clock) = &run.clock {
        row("slew of CLOCK_MONOTONIC", format!("{} ppm", number(clock.slew_ppm)));
    }
    let batches: Vec<String> = practice.batches.iter().map(|of| format!("{} {}", of.count, of.class)).collect();
    row("batches", if batches.is_empty() { "none".to_owned() } else { batches.join(", ") });
    let known = |share: Option<f64>| share.map_or_else(|| "not known".to_owned(), percent);
    row("time that other tasks took from launches", known(practice.delayed_share));
    row("time that the hypervisor took from launches", known(practice.stolen_share));
    row("batches with a neighbour on the core", known(practice.shared_share));
    table
}
