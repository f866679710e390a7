//! A compressed log is the same log: the same document, the same checksum, the same comparison. One that is damaged is refused.
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::support::runs::{finished_run, output, refused, text, told};
use flate2::Compression;
use flate2::write::GzEncoder;
use sysdyno::testing::results::log;
use tempfile::TempDir;

const RECORDED: &str = "records/guest-zen4-2cpu-chapters/log.jsonl";

fn compressed(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// A run directory with a file of that name.
fn directory(name: &str, bytes: &[u8]) -> (TempDir, PathBuf) {
    let keep = tempfile::tempdir().unwrap();
    let place = keep.path().join(name);
    fs::write(&place, bytes).unwrap();
    (keep, place)
}

fn of(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn said(words: &[&str]) -> Vec<u8> {
    let output = output(words);
    assert!(output.status.success(), "{}", told(&output));
    output.stdout
}

#[test]
fn a_compressed_log_is_the_same_log() {
    let plain = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(RECORDED)).unwrap();
    let (old, old_log) = directory("log.jsonl", &plain);
    let (new, new_log) = directory("log.jsonl.gz", &compressed(&plain));
    assert_eq!(log::checksum(&old_log).unwrap(), log::checksum(&new_log).unwrap());
    assert_eq!(log::read(&old_log).unwrap(), log::read(&new_log).unwrap());
    for form in ["json", "compact"] {
        let document = said(&["report", of(old.path()), "--format", form]);
        for run in [new.path(), &new_log] {
            assert!(document == said(&["report", of(run), "--format", form]), "{form} of {}", run.display());
        }
    }
    let compared = |side: &Path| {
        let output = output(&["compare", of(side), of(side), "--lenient"]);
        assert!(output.status.success(), "{}", told(&output));
        [&output.stdout, &output.stderr].map(|said| text(said).replace(of(side), "SIDE"))
    };
    assert_eq!(compared(new.path()), compared(old.path()));
    assert_eq!(compared(&new_log), compared(&old_log));
}

#[test]
fn a_damaged_compressed_log_is_refused() {
    let plain = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(RECORDED)).unwrap();
    let whole = compressed(&plain);
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 0x10;
    let behind = [&whole[..], b"more"].concat();
    // Zeros: a line without an end.
    let bomb = compressed(&vec![0; 200 << 20]);
    let cases = [
        (&whole[..whole.len() / 2], "is damaged: it ends too early"),
        (&whole[..whole.len() - 1], "is damaged: it ends too early"),
        (&whole[..5], "is damaged: it ends too early"),
        (&changed, "is damaged: "),
        (&behind, "is damaged: "),
        (&bomb, "a line of 64 MiB or more"),
    ];
    assert!(bomb.len() < 1 << 20);
    for (bytes, words) in cases {
        let (run, place) = directory("log.jsonl.gz", bytes);
        for words_of in [&["report"][..], &["report", "--format", "json"], &["predict", "--from"], &["run", "--resume"]]
        {
            let complaint = refused(&output(&[words_of, &[of(run.path())]].concat()));
            assert!(complaint.contains(words), "{words_of:?}: {complaint}");
        }
        refused(&output(&["compare", of(&place), of(run.path())]));
        assert_eq!(fs::read(&place).unwrap(), bytes, "a refusal changes nothing");
    }
}

#[test]
fn a_directory_with_a_compressed_log_is_taken() {
    let (run, place) = directory("log.jsonl.gz", &compressed(b"{}\n"));
    let complaint = refused(&output(&["run", "cpu.loop", "--quick", "-o", of(run.path())]));
    assert!(complaint.contains("already contains a run") && complaint.contains("--resume"), "{complaint}");
    assert_eq!(fs::read_dir(run.path()).unwrap().count(), 1);
    assert!(place.exists());
}

fn names(place: &Path) -> Vec<String> {
    let entries = fs::read_dir(place).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const FOUR: [&str; 4] = ["log.jsonl.gz", "metrics.csv", "node.json", "report.html"];

#[test]
fn a_run_that_was_killed_before_its_plain_log_was_removed_is_finished_by_resuming() {
    let plain = fs::read(finished_run().join("log.jsonl")).unwrap();
    // What was compressed may also be half written by another program.
    for other in [compressed(&plain), compressed(b"{}")] {
        let (run, place) = directory("log.jsonl.gz", &other);
        fs::write(run.path().join("log.jsonl"), &plain).unwrap();
        let result = said(&["report", of(run.path()), "--format", "json"]);
        let resume = || {
            let output = output(&["run", "--resume", of(run.path())]);
            assert!(output.status.success(), "{}", told(&output));
            text(&output.stderr)
        };
        assert!(resume().contains("Writing them now"));
        assert_eq!(names(run.path()), FOUR);
        assert_eq!(fs::read(&place).unwrap(), compressed(&plain));
        assert!(result == said(&["report", of(run.path()), "--format", "json"]), "the same text, the same result");
        assert!(resume().contains("no launch is left to do"));
        fs::remove_file(run.path().join("report.html")).unwrap();
        assert!(resume().contains("Writing them now"));
        assert_eq!(names(run.path()), FOUR);
    }
}

#[test]
fn an_old_directory_stays_as_it_is() {
    let keep = tempfile::tempdir().unwrap();
    for name in ["log.jsonl", "result.json"] {
        fs::copy(finished_run().join(name), keep.path().join(name)).unwrap();
    }
    said(&["run", "--resume", of(keep.path())]);
    assert_eq!(names(keep.path()), names(finished_run()));
}

#[test]
fn an_incomplete_run_goes_on_from_a_plain_log_only() {
    let plain = fs::read_to_string(finished_run().join("log.jsonl")).unwrap();
    let begun: Vec<&str> = plain.split_inclusive('\n').filter(|line| !line.contains("\"finish\"")).collect();
    let (run, place) = directory("log.jsonl.gz", &compressed(begun.concat().as_bytes()));
    let before = fs::read(&place).unwrap();
    let complaint = refused(&output(&["run", "--resume", of(run.path())]));
    assert!(complaint.contains("is compressed") && complaint.contains("gunzip"), "{complaint}");
    assert_eq!(fs::read(&place).unwrap(), before, "a refusal changes nothing");
}
