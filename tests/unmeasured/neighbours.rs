//! The monitor of neighbours, by the real program: what it prints, writes and refuses, and how it ends. How large a share is does
//! not matter here.
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::runs::{output, sysdyno, text, told, wait_until};
use crate::support::truth;
use sysdyno::testing::sys::affinity;

/// Notes why there is nothing to look at, where no look is possible on this machine. That ends with a reason and a hint.
fn looks(what: &str, output: &Output) -> bool {
    let said = text(&output.stderr);
    let impossible = said.contains("no chain of known latency") || said.contains("cannot be used");
    if impossible {
        assert!(output.status.code() == Some(1) && said.contains("\nhint: "), "{}", told(output));
        truth::not_judged(what, &said);
    }
    !impossible
}

/// The families of an exposition by name, each with its samples by labels. Panics where it breaks the rules of OpenMetrics that
/// this program can break: `# EOF` last, metadata once and before its samples, families in one piece, names that end in their unit,
/// counters that end in `_total`, no label twice, numbers that are numbers.
fn exposition(text: &str) -> BTreeMap<String, BTreeMap<String, f64>> {
    assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1, "{text}");
    let mut families: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
    let mut kinds: BTreeMap<String, String> = BTreeMap::new();
    let mut current = String::new();
    for line in text.trim_end_matches("# EOF\n").lines() {
        if let Some(metadata) = line.strip_prefix("# ") {
            let [what, name, value] = metadata.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            match what {
                "TYPE" => {
                    assert!(["gauge", "counter"].contains(&value), "{line}");
                    assert!(kinds.insert(name.to_owned(), value.to_owned()).is_none(), "{line}");
                    name.clone_into(&mut current);
                }
                "UNIT" => assert!(name == current && name.ends_with(&format!("_{value}")), "{line}"),
                "HELP" => assert!(name == current && value.ends_with('.'), "{line}"),
                _ => panic!("{line}"),
            }
            continue;
        }
        let (name, rest) = line.split_once('{').unwrap_or_else(|| panic!("{line}"));
        let (labels, value) = rest.split_once("} ").unwrap_or_else(|| panic!("{line}"));
        let expected = if kinds[&current] == "counter" { format!("{current}_total") } else { current.clone() };
        assert_eq!(name, expected, "{line}");
        let mut keys = BTreeSet::new();
        for label in labels.split(',') {
            let (key, value) = label.split_once('=').unwrap_or_else(|| panic!("{line}"));
            assert!(keys.insert(key) && value.len() > 2 && value.starts_with('"') && value.ends_with('"'), "{line}");
        }
        let value: f64 = value.parse().unwrap();
        assert!(value.is_finite() && value >= 0.0, "{line}");
        let before = families.entry(current.clone()).or_default().insert(labels.to_owned(), value);
        assert!(before.is_none(), "twice: {line}");
    }
    families
}

#[test]
fn the_checker_knows_the_format() {
    let fine = "# TYPE a_ratio gauge\n# UNIT a_ratio ratio\n# HELP a_ratio A.\na_ratio{cpu=\"0\"} 0.5\n# EOF\n";
    assert_eq!(exposition(fine)["a_ratio"].get("cpu=\"0\""), Some(&0.5));
    for (from, to) in [
        ("# EOF\n", ""),
        ("gauge", "gage"),
        ("UNIT a_ratio ratio", "UNIT a_ratio seconds"),
        ("0.5\n", "NaN\n"),
        ("0.5\n", "0.5\na_ratio{cpu=\"0\"} 0.6\n"),
        ("gauge", "counter"),
    ] {
        let broken = fine.replace(from, to);
        assert!(std::panic::catch_unwind(|| exposition(&broken)).is_err(), "{broken}");
    }
}

#[test]
fn wrong_words_are_refused_with_advice() {
    let keep = tempfile::tempdir().unwrap();
    let link = keep.path().join("link.prom");
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    for (words, said) in [
        (&["--interval", "100ms"][..], "500ms to 10m"),
        (&["--interval", "1h"], "500ms to 10m"),
        (&["--interval", "0"], "positive"),
        (&["--for", "5parsecs"], "90s"),
        (&["--for", "-1"], "positive"),
        (&["--cpu", "x"], "0-3,8"),
        (&["--cpu", ""], "0-3,8"),
        (&["--cpu", "60000"], "hint: CPUs allowed here"),
        (&["--textfile", "/dev/null"], "hint: choose another file"),
        (&["--textfile", "/no/such/directory/x.prom"], "hint: choose another file"),
        (&["--textfile", "/"], "hint: choose another file"),
        (&["--textfile", link.to_str().unwrap()], "hint: choose another file"),
        (&["everything"], "--help"),
    ] {
        let output = output(&[&["neighbours"], words].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", told(&output));
        assert!(output.stdout.is_empty() && text(&output.stderr).contains(said), "{words:?}: {}", told(&output));
    }
    assert!(link.is_symlink());
}

#[test]
fn it_prints_lines_and_a_summary_and_writes_metrics() {
    let keep = tempfile::tempdir().unwrap();
    let place = keep.path().join("sysdyno.prom");
    let words = ["neighbours", "--for", "1s", "--interval", "500ms", "--textfile", place.to_str().unwrap()];
    let output = sysdyno(&words).current_dir(keep.path()).output().unwrap();
    if !looks("lines of a watch", &output) {
        return;
    }
    assert!(output.status.success() && output.stderr.is_empty(), "{}", told(&output));
    let (said, cpus) = (text(&output.stdout), affinity::allowed());
    let (lines, summary) = said.split_once("\n\n").unwrap();
    let lines: Vec<Vec<&str>> = lines.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(lines[0].ends_with(&["steal", "delay", "clock", "own"]), "{said}");
    for cpu in &cpus {
        let own = lines[1..].iter().filter(|line| line[2] == cpu.to_string()).count();
        assert!((1..=3).contains(&own), "CPU {cpu} in {said}");
    }
    for word in ["95 %", "longest", "Watching", "of a CPU each", "CPU"] {
        assert!(summary.contains(word), "{word} in {said}");
    }
    let families = exposition(&fs::read_to_string(&place).unwrap());
    assert_eq!(families["sysdyno_looks"].len(), 3 * cpus.len());
    assert!(families["sysdyno_looks"].values().sum::<f64>() > 0.0);
    for (family, bound) in [("sysdyno_neighbour_ratio", 1.0), ("sysdyno_core_frequency_hertz", 1e11)] {
        let values = &families[family];
        assert!(values.len() <= cpus.len() && values.values().all(|value| *value <= bound), "{family}: {values:?}");
    }
    assert_eq!(fs::read_dir(keep.path()).unwrap().count(), 1, "nothing stands beside the file");
}

#[test]
fn a_signal_ends_it_with_a_summary() {
    let cpu = affinity::allowed()[0].to_string();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut child = sysdyno(&["neighbours", "--interval", "500ms", "--cpu", &cpu])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The first line stands there once everything looks.
        let mut first = [0_u8; 1];
        let began = child.stdout.as_mut().unwrap().read_exact(&mut first).is_ok();
        if began {
            kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        }
        let asked = Instant::now();
        let output = child.wait_with_output().unwrap();
        if !looks("a signal to a watch", &output) {
            return;
        }
        assert!(output.status.success() && text(&output.stdout).contains("Watching 1 CPU"), "{}", told(&output));
        assert!(asked.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let mut child =
        sysdyno(&["neighbours", "--interval", "500ms"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0_u8; 1];
    let _ = child.stdout.as_mut().unwrap().read_exact(&mut first);
    drop(child.stdout.take());
    wait_until("it ends", Duration::from_secs(10), || child.try_wait().unwrap());
    let output = child.wait_with_output().unwrap();
    if looks("a reader that goes away", &output) {
        assert!(output.status.success() && output.stderr.is_empty(), "{}", told(&output));
    }
}
