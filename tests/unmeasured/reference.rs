//! A reference run next to the costs of a report: what it shows, and which runs it refuses.
use std::fs;
use std::path::Path;

use crate::report::{golden, real};
use crate::support::runs::{output, text, told};
use sysdyno::testing::assemble;
use sysdyno::testing::report::page::{Analysis, Piece};
use sysdyno::testing::report::reference::ReferenceRun;
use sysdyno::testing::report::{content, html, markdown, screen};
use sysdyno::testing::results::compact::Compact;
use sysdyno::testing::results::document::{Document, Grade, Metric};
use sysdyno::testing::results::log;

fn record(name: &str) -> Document {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("records").join(name).join("log.jsonl");
    assemble::document(&log::read(&place).unwrap())
}

#[test]
fn a_reference_of_another_machine_is_on_the_screen_and_in_the_ladder() {
    let other = record("guest-golden-cove-2cpu");
    let reference = ReferenceRun::of(&Compact::of(&other), real()).unwrap();
    assert!(reference.name().starts_with(&other.run.id) && reference.name().contains("another machine"));
    let shown = screen::plain(&screen::screen(real(), None, Some(&reference), Analysis::Shown));
    assert!(shown.lines().count() <= 20, "{shown}");
    // Both measured main memory, in other amounts of it.
    assert!(!shown.lines().any(|line| line.starts_with("memory ") && line.ends_with('–')), "{shown}");
    let load = real().metrics().find(|metric| metric.labels.get("level") == Some("DRAM")).unwrap();
    assert!(reference.value(load).is_some());
    let page = content::brief(real(), Some(&reference), content::OtherPages::Beside);
    let ladder = page.parts.iter().flat_map(|part| &part.pieces).find_map(|piece| match piece {
        Piece::Drawing(drawing) if drawing.id == "costs" => Some(drawing),
        _ => None,
    });
    let rows: Vec<String> = ladder.unwrap().values.rows.iter().map(|row| format!("{row:?}")).collect();
    assert!(rows.len() > 5, "{rows:?}");
    let (_, drawing) = markdown::drawings(&page).into_iter().find(|(name, _)| name.starts_with("costs")).unwrap();
    // One diamond for each cost that the reference has, and one in the legend.
    let known = real().costs.iter().filter_map(|cost| real().metric(&cost.metric, &cost.labels));
    let known = known.filter(|metric| metric.unit.symbol() == "ns" && reference.value(metric).is_some()).count();
    assert!(known > 5, "{known}");
    assert_eq!(drawing.matches("class=\"f s3\"").count(), known + 1);
    assert!(drawing.contains(&format!("reference: {}", reference.name())), "the legend names the run");
    let plain = html::render(&content::brief(real(), None, content::OtherPages::Beside));
    assert!(!plain.contains("reference:"), "a report without a reference has no legend of one");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("screen_with_reference", shown));
}

#[test]
fn a_clone_of_this_machine_is_not_this_machine() {
    let records = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("records")).unwrap();
    let runs = records.filter_map(|entry| fs::read(entry.unwrap().path().join("node.json")).ok());
    let mut clones = 0;
    for run in runs.map(|bytes| Compact::parse(&bytes).unwrap()) {
        let mut document = real().clone();
        let identity = document.run.identity.get_or_insert_default();
        (identity.node, identity.machine) = (run.node.name.clone().unwrap(), run.node.machine.clone());
        let is_clone = run.node.fingerprint != document.machine.fingerprint;
        if let Some(reference) = ReferenceRun::of(&run, &document).ok().filter(|_| is_clone) {
            clones += 1;
            assert!(reference.name().contains("another machine: "), "{}", reference.name());
        }
        document.machine.fingerprint.clone_from(&run.node.fingerprint);
        if let Ok(reference) = ReferenceRun::of(&run, &document) {
            assert!(reference.name().contains("(this machine)"), "{}", reference.name());
        }
    }
    assert!(clones > 3, "{clones}");
}

#[test]
fn the_columns_of_a_cost_never_touch() {
    let cost = real().costs.iter().find(|cost| cost.name == "memory read").unwrap();
    let with = |value: f64, id: &str| {
        let mut document = real().clone();
        document.run.id = id.to_owned();
        let is_cost = |metric: &&mut Metric| metric.name == cost.metric && metric.labels.same_figure(&cost.labels);
        let metric = document.experiments.iter_mut().flat_map(|section| &mut section.metrics).find(is_cost).unwrap();
        (metric.value, metric.grade, metric.interval_level) = (value, Grade::Rough, 0.95);
        metric.interval95 = [value * 0.78, value * 1.22];
        document
    };
    let (own, other) = (with(2.48e9, "one"), with(2.45e9, "other"));
    let reference = ReferenceRun::of(&Compact::of(&other), &own).unwrap();
    for reference in [None, Some(&reference)] {
        let shown = screen::plain(&screen::screen(&own, Some(160), reference, Analysis::Shown));
        let row = shown.split("memory read").nth(1).unwrap();
        let words: Vec<&str> = row.split_whitespace().take(4).collect();
        assert_eq!(words[..3], ["2.48", "GB/s", "22"], "{shown}");
        assert!(reference.is_none() || words[3].parse::<f64>().is_ok_and(|value| value < 2.6), "{shown}");
    }
}

#[test]
fn results_that_cannot_be_compared_are_no_reference() {
    let mut other = Compact::of(&record("guest-golden-cove-2cpu"));
    for experiment in &mut other.experiments {
        experiment.method_version += 1;
    }
    let refused = ReferenceRun::of(&other, real()).unwrap_err();
    assert!(refused.what.contains("no result of this run") && refused.hint.is_some(), "{refused}");
    let refused = ReferenceRun::of(&Compact::of(real()), real()).unwrap_err();
    assert!(refused.what.contains("is the reported run itself") && refused.hint.is_some(), "{refused}");
}

#[test]
fn the_command_takes_one_other_run() {
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/complete.jsonl");
    let run = log.to_str().unwrap();
    let refused = |reference: &str, more: &[&str], why: &str| {
        let words = [&["report", run, "--reference", reference], more].concat();
        let output = output(&words);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(why) && said.contains("hint: "), "{}", told(&output));
    };
    refused(run, &[], "is the reported run itself");
    refused("/proc/nonexistent", &[], "does not exist");
    let own = golden("complete").run.id;
    let several = tempfile::tempdir().unwrap();
    for name in ["one", "two"] {
        let place = several.path().join(name);
        fs::create_dir(&place).unwrap();
        fs::write(place.join("log.jsonl"), fs::read_to_string(&log).unwrap().replace(&own, name)).unwrap();
    }
    refused(several.path().to_str().unwrap(), &[], "has 2 runs");
    let other = several.path().join("one");
    let other = other.to_str().unwrap();
    refused(other, &["--format", "csv"], "shows no reference run");
    let output = output(&["report", run, "--reference", other, "--format", "summary"]);
    let said = text(&output.stdout);
    assert!(output.status.success() && said.contains("ref.: one ("), "{}", told(&output));
}
