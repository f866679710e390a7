//! Trust beside a task of others: whatever is measured on a CPU that somebody else uses half of the time is called contaminated.
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::support::runs::{Leashed, ended, measuring, metrics, output, result, told};
use crate::support::truth;
use serde_json::Value;
use sysdyno::testing::experiments;
use sysdyno::testing::machine::{Machine, detect};
use sysdyno::testing::sys::affinity;

/// A quick run of everything that this machine allows, beside a task that computes on a CPU for all of it. A machine on which a
/// launch does not end in its time beside that is too busy for this test: none.
fn beside_a_spinner(cpu: u32, selection: &[&str], place: &Path) -> Option<Value> {
    let mut spinner = Command::new("taskset");
    spinner.args(["-c", &cpu.to_string(), "bash", "-c", "while :; do :; done"]);
    let _spinner = Leashed(spinner.spawn().unwrap());
    let words = ["run", "--quick", "--no-progress", "-o", place.to_str().unwrap()];
    let output = output(&[&words[..], selection].concat());
    if told(&output).contains("the launch exceeded its time limit") {
        truth::not_judged("trust beside a spinner", "a launch did not end in its time");
        return None;
    }
    assert!(ended(&output), "{}", told(&output));
    Some(result(place))
}

/// Figures that a test must not find trusted, in words.
fn trusted<'a>(found: impl Iterator<Item = &'a &'a Value>) -> Vec<String> {
    found
        .filter(|metric| metric["verdict"]["trust"] != "contaminated")
        .map(|metric| format!("{} {} {}", metric["name"], metric["labels"], metric["verdict"]))
        .collect()
}

#[test]
fn no_experiment_trusts_what_it_measured_beside_a_spinner() {
    let _alone = measuring();
    let keep = tempfile::tempdir().unwrap();
    let cpu = *affinity::allowed().last().unwrap();
    // By the names of all chapters: a quick run without a selection leaves some experiments out.
    let (chapters, place) = (experiments::chapters(), cpu.to_string());
    let selection = [&chapters[..], &["--time", "25s", "--cpu", &place]].concat();
    let Some(found) = beside_a_spinner(cpu, &selection, &keep.path().join("run")) else { return };
    let published = metrics(&found);
    assert_eq!(trusted(published.iter()), Vec::<String>::new());
    // Every experiment of the table has been judged: it has contaminated figures, or it says why it has none.
    let judged: BTreeSet<&str> = published.iter().map(|metric| metric["name"].as_str().unwrap()).collect();
    for experiment in experiments::TABLE {
        let section = found["experiments"].as_array().unwrap().iter().find(|section| section["id"] == experiment.id);
        let section = section.unwrap_or_else(|| panic!("{} is not in the result", experiment.id));
        let has = judged.iter().any(|name| name.starts_with(&format!("{}.", experiment.id)));
        // Beside more neighbours than the spinner, the gates refuse what is left, and say that it was others.
        let refused = section["rejected"].as_array().unwrap();
        let of_others = |figure: &Value| truth::of_others(figure["reason"].as_str().unwrap());
        assert!(
            has || section["outcome"] == "skipped" || !refused.is_empty() && refused.iter().all(of_others),
            "{}: {} {}",
            experiment.id,
            section["outcome"],
            section["reason"]
        );
    }
}

#[test]
fn a_spinner_on_the_cpu_of_the_partners_is_seen_too() {
    let _alone = measuring();
    let allowed = affinity::allowed();
    assert!(allowed.len() > 1, "this test needs two CPUs");
    let (other, cpu) = (allowed[allowed.len() - 2], allowed[allowed.len() - 1].to_string());
    let keep = tempfile::tempdir().unwrap();
    let selection = ["os.context_switch", "network.round_trip", "network.bandwidth", "--cpu", &cpu, "--time", "12s"];
    let Some(found) = beside_a_spinner(other, &selection, &keep.path().join("run")) else { return };
    let published = metrics(&found);
    let elsewhere = |metric: &&&Value| metric["labels"]["placement"].as_str().is_some_and(|found| found != "same_cpu");
    assert!(published.iter().any(|metric| elsewhere(&metric)), "there are figures with partners on another CPU");
    assert_eq!(trusted(published.iter().filter(elsewhere)), Vec::<String>::new());
}

/// Two allowed CPUs that are hardware threads of one core, where this machine shows some.
fn siblings(machine: &Machine) -> Option<[u32; 2]> {
    let allowed = affinity::allowed();
    let other = |cpu: u32| allowed.iter().copied().find(|&other| other != cpu && machine.share_core(cpu, other));
    allowed.iter().find_map(|&cpu| Some([cpu, other(cpu)?]))
}

#[test]
fn a_spinner_on_the_sibling_is_a_neighbour() {
    let _alone = measuring();
    let what = "a neighbour on the sibling";
    let Some([watched, sibling]) = siblings(&detect(Path::new("/"), Path::new("/tmp"))) else {
        return truth::not_judged(what, "this machine shows no two CPUs of one core");
    };
    let mut spinner = Command::new("taskset");
    spinner.args(["-c", &sibling.to_string(), "bash", "-c", "while :; do :; done"]);
    let _spinner = Leashed(spinner.spawn().unwrap());
    std::thread::sleep(std::time::Duration::from_millis(200));
    let keep = tempfile::tempdir().unwrap();
    let place = keep.path().join("x.prom");
    let words = ["neighbours", "--for", "3s", "--interval", "3s", "--cpu", &watched.to_string(), "--textfile"];
    let output = output(&[&words[..], &[place.to_str().unwrap()]].concat());
    if told(&output).contains("no chain of known latency") || told(&output).contains("cannot be used") {
        return truth::not_judged(what, &told(&output));
    }
    assert!(output.status.success(), "{}", told(&output));
    let metrics = std::fs::read_to_string(&place).unwrap();
    let share = metrics.lines().find_map(|line| line.strip_prefix("sysdyno_neighbour_ratio{")?.rsplit(' ').next());
    let share: f64 = share.unwrap().parse().unwrap();
    assert!(share > 0.9, "the sibling was busy all the time: {metrics}");
    assert!(told(&output).contains("may be your own task"), "{}", told(&output));
}
