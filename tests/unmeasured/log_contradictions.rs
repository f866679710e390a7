//! Logs that no run writes: put together from several, changed by hand, in another order. Each is refused, with the number of
//! the line and what it contradicts; what a run that died and went on writes is read.
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sysdyno::testing::results::log::{self, Log};
use sysdyno::testing::results::problem::Problem;

fn within(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The records of a stored run that was complete.
fn complete() -> Vec<Value> {
    let text = fs::read_to_string(within("tests/golden/complete.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn read(lines: &[Value]) -> Result<Log, Problem> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = lines.iter().fold(String::new(), |text, line| text + &line.to_string() + "\n");
    fs::write(file.path(), text).unwrap();
    log::read(file.path())
}

#[test]
fn a_last_line_without_its_line_break_does_not_count() {
    // Whoever goes on with the run cuts it off: it must not have been read before.
    let lines = complete();
    let clock = first(&lines, "clock");
    for (end, line_break) in [(clock, true), (clock, false), (clock + 1, true)] {
        let mut text: Vec<String> = lines[..end].iter().map(Value::to_string).collect();
        if !line_break {
            text.push(lines[clock].to_string());
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text.join("\n") + if line_break { "\n" } else { "" }).unwrap();
        let found = log::read(file.path()).unwrap();
        assert_eq!(found.clock.is_some(), end > clock);
        assert_eq!(found.damage.is_some(), !line_break);
    }
}

/// The place of the first record of a kind.
fn first(lines: &[Value], kind: &str) -> usize {
    lines.iter().position(|line| line["record"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

/// A changed log is refused, by the number of the line (from 1) and in these words.
fn refuses(change: impl FnOnce(&mut Vec<Value>) -> usize, words: &str) {
    let mut lines = complete();
    let at = change(&mut lines);
    let refused = read(&lines).expect_err(words);
    let place = format!("line {}: ", at + 1);
    assert!(refused.what.contains(&place) && refused.what.contains(words), "{place}{words}: {refused}");
    assert!(refused.hint.is_some());
}

/// Says a record a second time, right behind itself.
fn again(kind: &'static str) -> impl FnOnce(&mut Vec<Value>) -> usize {
    move |lines| {
        let at = first(lines, kind);
        lines.insert(at + 1, lines[at].clone());
        at + 1
    }
}

/// Changes a field of the first record of a kind.
fn changed(kind: &'static str, field: &'static str, value: Value) -> impl FnOnce(&mut Vec<Value>) -> usize {
    move |lines| {
        let at = first(lines, kind);
        lines[at][field] = value;
        at
    }
}

#[test]
fn every_stored_log_is_read() {
    let mut stored: Vec<PathBuf> = Vec::new();
    for place in ["tests/golden", "records"] {
        for entry in fs::read_dir(within(place)).unwrap() {
            let path = entry.unwrap().path();
            let log = if path.is_dir() { path.join("log.jsonl") } else { path };
            if log.extension().is_some_and(|found| found == "jsonl") && log.exists() {
                stored.push(log);
            }
        }
    }
    assert!(stored.len() >= 8, "{stored:?}");
    for log in stored {
        log::read(&log).unwrap_or_else(|problem| panic!("{}: {problem}", log.display()));
    }
}

#[test]
fn what_a_log_says_once_is_not_said_twice() {
    for kind in ["run", "machine", "plan", "clock"] {
        refuses(again(kind), "a second ");
    }
    refuses(again("prediction"), "a second prediction of cpu.frequency.tsc");
    refuses(again("evidence"), "a second evidence of launch 1");
    refuses(again("launch_end"), "launch 1, which is not running");
    refuses(again("finish"), "the run had ended");
}

/// A record of earlier runs, with figures of this one metric.
fn earlier(runs: u32, figures: &[(u32, f64)]) -> Value {
    let figure =
        |(runs, relative): &(u32, f64)| json!({"metric": "cpu.cycle_time", "runs": runs, "relative": relative});
    json!({"record": "history", "runs": runs, "figures": figures.iter().map(figure).collect::<Vec<_>>()})
}

#[test]
fn earlier_runs_are_told_once_before_the_first_launch_and_are_possible() {
    let with = |record: Value, before: &'static str| {
        move |lines: &mut Vec<Value>| {
            let at = first(lines, before);
            lines.insert(at, record);
            at
        }
    };
    let good = || earlier(7, &[(5, 0.01)]);
    let mut lines = complete();
    with(good(), "plan")(&mut lines);
    assert_eq!(read(&lines).unwrap().history.map(|history| history.runs), Some(7));
    let twice = |lines: &mut Vec<Value>| {
        with(good(), "plan")(lines);
        with(good(), "plan")(lines)
    };
    refuses(twice, "a second account");
    refuses(with(good(), "launch_end"), "earlier runs after the first launch");
    refuses(with(earlier(7, &[(5, 0.01), (6, 0.02)]), "plan"), "a second scatter of cpu.cycle_time{}");
    refuses(with(earlier(7, &[(4, 0.01)]), "plan"), "in 4 of 7 earlier runs");
    refuses(with(earlier(7, &[(8, 0.01)]), "plan"), "in 8 of 7 earlier runs");
    refuses(with(earlier(7, &[(5, -0.01)]), "plan"), "a scatter of -0.01");
}

#[test]
fn logs_that_were_joined_are_refused() {
    let joined = |lines: &mut Vec<Value>| {
        let end = lines.len();
        lines.extend(lines.clone());
        end
    };
    refuses(joined, "the run had ended");
    let without_end = |lines: &mut Vec<Value>| {
        lines.pop();
        joined(lines)
    };
    refuses(without_end, "a second start of a run");
    let launches_alone = |lines: &mut Vec<Value>| {
        lines.pop();
        let (from, end) = (first(lines, "launch"), lines.len());
        let again: Vec<Value> = lines[from..].iter().filter(|line| line["record"] != "prediction").cloned().collect();
        lines.extend(again);
        end
    };
    refuses(launches_alone, "a second launch 1");
}

#[test]
fn records_belong_to_the_launch_that_is_under_way() {
    refuses(changed("series", "launch", json!(2)), "launch 2, which is not running");
    refuses(changed("evidence", "launch", json!(9)), "launch 9, which is not running");
    refuses(changed("series", "experiment", json!("cpu.loop")), "which belongs to another experiment");
    let late = |lines: &mut Vec<Value>| {
        let (at, end) = (first(lines, "series"), first(lines, "launch_end"));
        let series = lines.remove(at);
        lines.insert(end, series);
        end
    };
    refuses(late, "which is not running");
    let endless = |lines: &mut Vec<Value>| {
        lines.remove(first(lines, "launch_end"));
        first(lines, "launch_end") - 12
    };
    let mut lines = complete();
    endless(&mut lines);
    let refused = read(&lines).unwrap_err();
    assert!(refused.what.contains("launch 2 begins before launch 1 has ended"), "{refused}");
}

#[test]
fn a_prediction_stands_before_the_samples_of_its_experiment() {
    let behind = |lines: &mut Vec<Value>| {
        let prediction = lines.remove(first(lines, "prediction"));
        let at = first(lines, "launch_end");
        lines.insert(at + 1, prediction);
        at + 1
    };
    refuses(behind, "a prediction of cpu.frequency after its first samples");
    // That of an experiment that was not launched yet stands behind launches of others: every run writes it there.
    assert!(first(&complete(), "series") < complete().iter().rposition(|line| line["record"] == "prediction").unwrap());
    // Without samples nothing is known yet: a launch that failed at once leaves the experiment its prediction.
    let mut lines = complete();
    let prediction = lines.remove(first(&lines, "prediction"));
    let launch = first(&lines, "launch");
    let failed = |record: &str| json!({"record": record, "launch": 99, "experiment": "cpu.frequency"});
    let mut begun = failed("launch");
    (begun["round"], begun["at"]) = (json!(1), json!(0.0));
    let mut ended = failed("launch_end");
    (ended["seconds"], ended["failed"]) = (json!(0.1), json!({"what": "broke"}));
    lines.splice(launch..launch, [begun, ended, prediction]);
    read(&lines).unwrap();
}

#[test]
fn evidence_is_not_negative() {
    for field in ["wall", "cpu_time", "run_delay", "steal", "timer_bias", "timer_resolution", "own_share"] {
        refuses(changed("evidence", field, json!(-1e18)), &format!("evidence {field} of -1000000000000000000"));
    }
    refuses(changed("evidence", "involuntary_switches", json!(-3)), "evidence involuntary_switches of -3");
    refuses(changed("launch_end", "seconds", json!(-1.0)), "a duration of -1");
    // Hypervisors that take a tick back exist: it was no time that they had taken.
    let mut lines = complete();
    changed("evidence", "steal", json!(-1e7))(&mut lines);
    let log = read(&lines).unwrap();
    assert_eq!(log.launches[0].evidence.as_ref().unwrap().steal, Some(0.0));
}

#[test]
fn what_is_known_of_each_value_is_known_of_all() {
    let short = |lines: &mut Vec<Value>| {
        let at = first(lines, "series");
        let classes = lines[at]["classes"].as_str().unwrap().to_owned();
        lines[at]["classes"] = json!(classes[1..]);
        at
    };
    refuses(short, " classes of ");
    refuses(changed("series", "clock", json!([0.7])), "1 clock probes of ");
    refuses(changed("series", "widths", json!([[1.0, 1.0]])), "1 widths of ");
    refuses(changed("series", "lines", json!([[30.0, 31.0]])), "1 lines of ");
    refuses(changed("series", "partner_widths", json!([[1.0, 1.1]])), "1 partner widths of ");
    refuses(changed("series", "beside_partner", json!([[1.0, 1.1]])), "1 widths next to the partner of ");
}

/// The stored run as on a machine that states the rate of its counter.
fn stating(hertz: f64, lines: &mut [Value]) {
    let at = first(lines, "machine");
    lines[at]["machine"]["cpu"]["counter_hertz"] = json!([{"value": hertz, "source": "/dev/kmsg"}]);
}

#[test]
fn a_clock_runs_at_the_rate_that_the_machine_states() {
    let mut lines = complete();
    stating(2_596_148_000.0, &mut lines);
    read(&lines).unwrap();
    let ten_times = |lines: &mut Vec<Value>| {
        stating(2_596_148_000.0, lines);
        let at = first(lines, "clock");
        lines[at]["hertz"] = json!(lines[at]["hertz"].as_f64().unwrap() * 10.0);
        at
    };
    refuses(ten_times, "the machine states 2596148000 Hz for its counter");
    // An ordinary user cannot read /dev/kmsg.
    let ten_times_alone = |lines: &mut Vec<Value>| {
        let at = first(lines, "clock");
        lines[at]["hertz"] = json!(lines[at]["hertz"].as_f64().unwrap() * 10.0);
        at
    };
    refuses(ten_times_alone, "a clock of 25961478374.42461 Hz, although the machine states 2000000000 Hz");
    refuses(changed("clock", "hertz", json!(-2.0)), "a clock of -2 Hz");
    let nanoseconds = |lines: &mut Vec<Value>| {
        let at = first(lines, "clock");
        lines[at]["source"] = json!("monotonic_raw");
        at
    };
    refuses(nanoseconds, "the machine states 1000000000 Hz");
}

#[test]
fn a_run_that_died_within_a_launch_and_went_on_is_read() {
    let mut lines = complete();
    let launch = lines.iter().position(|line| line["record"] == "launch" && line["launch"] == 5).unwrap();
    let end = lines.iter().position(|line| line["record"] == "launch_end" && line["launch"] == 5).unwrap();
    let resumed = json!({"record": "resumed", "at": "2026-01-01T13:00:00Z", "command": [], "cut_bytes": 7});
    let quiet = lines[first(&lines, "quiet")].clone();
    // Launch 5 dies after its first series; the launches behind it have other numbers.
    lines.splice(launch + 2..=end, [resumed, quiet]);
    let log = read(&lines).unwrap();
    assert_eq!((log.resumed, log.launches.iter().filter(|launch| !launch.succeeded()).count()), (1, 1));
    // The same of a log that could not be written for a while: it ends within a launch, and goes on.
    let at = first(&lines, "resumed");
    let finish = json!({"record": "finish", "at": "2026-01-01T12:30:00Z", "complete": false, "reason": "no space left", "seconds": 1.0});
    lines.insert(at, finish);
    assert_eq!(read(&lines).unwrap().resumed, 1);
}

#[test]
fn own_predictions_stand_once_before_the_first_launch_and_agree_with_themselves() {
    let own = |value: f64| {
        let metric = "cpu.loop.overhead";
        let labels = json!({"code": "registers"});
        json!({"metric": metric, "labels": labels, "unit": "ns", "value": value, "low": 1.0, "high": 3.0, "reason": "r"})
    };
    let record =
        |predictions: Value| json!({"record": "own_predictions", "author": "group 7", "predictions": predictions});
    let insert = |lines: &mut Vec<Value>, place: usize, predictions: Value| {
        lines.insert(place, record(predictions));
        place
    };
    let mut lines = complete();
    let clock = first(&lines, "clock");
    insert(&mut lines, clock, json!([own(2.0)]));
    let read_back = read(&lines).unwrap().own_predictions.unwrap();
    assert_eq!((read_back.author.as_deref(), read_back.predictions[0].value), (Some("group 7"), 2.0));
    assert_eq!(read(&complete()).unwrap().own_predictions, None, "an older log has none");
    refuses(
        |lines| {
            let place = first(lines, "launch") + 1;
            insert(lines, place, json!([own(2.0)]))
        },
        "own predictions after the first launch",
    );
    refuses(
        |lines| {
            insert(lines, clock, json!([own(2.0)]));
            insert(lines, clock, json!([own(2.0)])) + 1
        },
        "a second list of own predictions",
    );
    refuses(|lines| insert(lines, clock, json!([own(2.0), own(2.5)])), "a second own prediction");
    refuses(|lines| insert(lines, clock, json!([own(4.0)])), "range is not in order");
}
