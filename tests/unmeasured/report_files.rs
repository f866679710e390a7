//! Files that a report writes: where they lie is the tool's choice, whatever a log says, and links that somebody put there lead
//! nowhere.
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::support::runs::{edit_log, output, text, told};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A label that leads out of a directory, where it is a part of a path.
const WAY_OUT: &str = "/../../../../escaped";

/// A run directory with the stored log of a run with curves, of which some have this label.
fn run_with(label: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("a/b/run");
    fs::create_dir_all(&run).unwrap();
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("records/guest-zen4-2cpu-chapters/log.jsonl");
    fs::copy(stored, run.join("log.jsonl")).unwrap();
    edit_log(&run, |line| {
        if line["record"] == "series" && line["experiment"] == "memory.latency" {
            rename(&mut line["labels"], label);
        }
    });
    (directory, run)
}

fn rename(labels: &mut Value, label: &str) {
    if labels["pattern"] == "tlb" {
        labels["pattern"] = json!(label);
    }
}

/// Every file and directory below a place.
fn below(place: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(place).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(below(&path));
        }
        found.push(path);
    }
    found
}

fn names(folder: &Path) -> Vec<String> {
    below(folder).iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn no_label_leads_out_of_the_folder() {
    for label in [WAY_OUT, "..", "", "a b\n\u{1b}[2J", &"long".repeat(100), "<script>", "ünï"] {
        let (directory, run) = run_with(label);
        // What such a name would need to lead anywhere.
        fs::create_dir_all(run.join("figures/memory-latency-curve-pattern-")).unwrap();
        let file = run.join("r.md");
        let made = output(&["report", run.to_str().unwrap(), "--format", "markdown", "-o", file.to_str().unwrap()]);
        assert!(made.status.success(), "{label}: {}", told(&made));
        let escaped: Vec<PathBuf> =
            below(directory.path()).into_iter().filter(|path| path.is_file() && !path.starts_with(&run)).collect();
        assert!(escaped.is_empty(), "{label}: {escaped:?}");
        let figures = names(&run.join("figures"));
        assert!(figures.len() > 10, "{figures:?}");
        for name in &figures {
            let chosen = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
            assert!(name.chars().all(chosen) && name.len() < 160 && !name.starts_with(['.', '-']), "{label}: {name}");
        }
        // What the text links is there.
        let links = fs::read_to_string(&file).unwrap();
        for link in links.split("](figures/").skip(1) {
            let name = link.split(')').next().unwrap();
            assert!(figures.contains(&name.to_owned()), "{label}: nothing is at {name}");
        }
    }
}

#[test]
fn planted_links_are_not_followed() {
    let (directory, run) = run_with("random");
    let victim = directory.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    let report = |run: &Path| {
        let file = run.join("r.md");
        output(&["report", run.to_str().unwrap(), "--format", "markdown", "-o", file.to_str().unwrap()])
    };
    assert!(report(&run).status.success());
    let figures = run.join("figures");
    for name in names(&figures) {
        for planted in [name.clone(), format!(".{name}.partial")] {
            let _ = fs::remove_file(figures.join(&planted));
            symlink(&victim, figures.join(&planted)).unwrap();
        }
    }
    let made = report(&run);
    assert!(made.status.success(), "{}", told(&made));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    assert!(names(&figures).iter().all(|name| fs::symlink_metadata(figures.join(name)).unwrap().is_file()));
    // A folder that is a link would take all of them elsewhere.
    let elsewhere = directory.path().join("elsewhere");
    fs::rename(&figures, &elsewhere).unwrap();
    let before = names(&elsewhere).len();
    fs::remove_dir_all(&elsewhere).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, &figures).unwrap();
    let refused = report(&run);
    assert!(
        before > 10 && !refused.status.success() && text(&refused.stderr).contains("it is a link"),
        "{}",
        told(&refused)
    );
    assert!(names(&elsewhere).is_empty());
}

#[test]
fn every_record_can_be_looked_at() {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("records");
    let found = fs::read_dir(records).unwrap().map(|entry| entry.unwrap().path().join("node.json"));
    let found: Vec<PathBuf> = found.filter(|file| file.is_file()).collect();
    assert!(found.len() > 10, "{} records have a node.json", found.len());
    for file in &found {
        let node: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        let experiments = node["experiments"].as_array().unwrap();
        let metrics = experiments.iter().filter_map(|experiment| experiment["metrics"].as_array().cloned());
        let headline = metrics.flatten().find(|metric| metric["figures"][0]["headline"] == true);
        for format in ["summary", "text", "html", "markdown"] {
            let output = output(&["report", file.to_str().unwrap(), "--format", format]);
            assert!(output.status.success(), "{}: {}", file.display(), told(&output));
            let page = text(&output.stdout);
            let name = headline.as_ref().map_or("no results", |metric| metric["name"].as_str().unwrap());
            assert!(page.contains(name), "{}: {page}", file.display());
            assert_eq!(page.contains("The machine"), format != "summary", "{format}: {page}");
        }
    }
    let refused = output(&["report", found[0].to_str().unwrap(), "--published"]);
    assert_eq!(refused.status.code(), Some(2), "{}", told(&refused));
    assert!(text(&refused.stderr).contains("has no log"), "{}", told(&refused));
}
