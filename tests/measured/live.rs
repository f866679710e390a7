//! Two conditions measured in turn: a change that a test makes is found with its size and nothing else is, and the first condition
//! is restored, whatever happens. And the check of a node: what is beyond its limit is found. And the odd nodes of a cluster.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use sysdyno::testing::statistics::summary::quantile;
use sysdyno::testing::sys::{arch, system_call};

use crate::support::filter;
use crate::support::runs::{measuring, output, program, sysdyno, text, told};
use crate::support::truth::{Judgement, judged};

/// Command that a filtered process runs, and the length of its filter.
const COMMAND: &str = "SYSDYNO_TEST_COMMAND";
const LENGTH: &str = "SYSDYNO_TEST_INSTRUCTIONS";

#[test]
#[ignore = "the inner half of the tests of filters"]
fn inner_filtered() {
    let command = std::env::var(COMMAND).unwrap();
    filter::install(std::env::var(LENGTH).unwrap().parse().unwrap());
    panic!("{}", Command::new("sh").args(["-c", &command]).exec());
}

/// A condition of `--live`: each run behind a filter of so many instructions.
fn behind_filter(instructions: usize) -> String {
    let exe = std::env::current_exe().unwrap();
    format!("{LENGTH}={instructions} {COMMAND}=\"{{}}\" '{}' --ignored --exact live::inner_filtered", exe.display())
}

/// Time of a system call behind a filter of so many instructions, in the time of a chain of multiplies beside it: the core clock
/// takes no part.
fn parent_in_chains(instructions: usize) -> f64 {
    in_chains(instructions, system_call::parent_number)
}

/// The same of a call that the kernel refuses.
fn refused_in_chains(instructions: usize) -> f64 {
    in_chains(instructions, system_call::refused)
}

fn in_chains(instructions: usize, call: fn() -> i64) -> f64 {
    let time = move || {
        filter::install(instructions);
        let chain = || {
            let before = arch::stamp().ticks;
            arch::multiply_chain(100);
            (arch::stamp().ticks - before) as f64
        };
        let ratio = || {
            let before = chain();
            let began = arch::stamp().ticks;
            for _ in 0..200 {
                std::hint::black_box(call());
            }
            let ticks = (arch::stamp().ticks - began) as f64;
            2.0 * ticks / (before + chain())
        };
        let ratios: Vec<f64> = (0..600).map(|_| ratio()).collect();
        quantile(&ratios, 0.25).unwrap()
    };
    std::thread::spawn(time).join().unwrap()
}

/// The least time of a call behind each of two filters, timed in turns. A neighbour on the core makes a call longer by a third, for
/// longer than a timing lasts.
fn undisturbed(time: fn(usize) -> f64, instructions: [usize; 2]) -> [f64; 2] {
    let timed = (0..24).map(|_| instructions.map(time));
    timed.fold([f64::INFINITY; 2], |[least, other], [one, two]| [least.min(one), other.min(two)])
}

/// The answer as JSON of a comparison of two conditions, with its exit code.
fn live(root: &Path, conditions: [&str; 2], more: &[&str]) -> (Value, Output) {
    let place = root.join("runs");
    let _ = fs::remove_dir_all(&place);
    let fixed = ["compare", "--live", conditions[0], conditions[1], "--format", "json", "--runs"];
    let words: Vec<&str> = fixed.into_iter().chain([place.to_str().unwrap()]).chain(more.iter().copied()).collect();
    let output = output(&words);
    (serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", told(&output))), output)
}

/// The compared results of a metric.
fn rows<'a>(comparison: &'a Value, metric: &str) -> Vec<&'a Value> {
    comparison["rows"].as_array().unwrap().iter().filter(|row| row["metric"] == metric).collect()
}

#[test]
fn five_per_cent_of_a_system_call_are_found_and_nothing_else() {
    /// Instructions of the shorter filter: with any filter the kernel takes another path, so both sides have one.
    const BASE: usize = 200;
    let _turn = measuring();
    let keep = tempfile::tempdir().unwrap();
    judged("five per cent of a system call", || {
        let [before, twice] = undisturbed(parent_in_chains, [BASE, 2 * BASE]);
        let more = (0.05 * before / (twice - before) * BASE as f64).round() as usize;
        // A filter does not take the same for each instruction, so the two are timed themselves, in turns.
        let both = [BASE, BASE + more];
        let timed = || {
            let calls = [undisturbed(parent_in_chains, both), undisturbed(refused_in_chains, both)];
            calls.map(|[before, after]| after / before - 1.0)
        };
        let first = timed();
        if !(0.03..0.08).contains(&first[0]) {
            return Judgement::Disturbed(format!("{more} instructions for 5 % add {}", first[0]));
        }
        let conditions = [BASE, BASE + more].map(behind_filter);
        // A launch of forty calls takes a second: half of the time leaves four rounds, which decide little.
        let measured = ["os.system_call", "cpu.loop", "memory.page_fault", "--time", "40s"];
        let (comparison, output) = live(keep.path(), [&conditions[0], &conditions[1]], &measured);
        // Timings of one filter that disagree are no truth: a call has modes, and the least time of one side can be another's.
        let second = timed();
        let agree = |one: f64, other: f64| (0.8..1.25).contains(&(one / other));
        if !(agree(first[0], second[0]) && agree(first[1], second[1])) {
            return Judgement::Disturbed(format!("{more} instructions add {first:?}, and later {second:?}"));
        }
        let others = comparison["rows"].as_array().unwrap().iter();
        let others =
            others.filter(|row| ["cpu.loop", "memory.page_fault"].contains(&row["experiment"].as_str().unwrap()));
        if let Some(row) = others.clone().find(|row| row["finding"] == "worse" || row["finding"] == "better") {
            return Judgement::Wrong(format!("it makes no system call: {row}"));
        }
        let calls = rows(&comparison, "os.system_call.time");
        let plain = ["enosys", "getpid", "getppid", "clock_gettime", "read_dev_zero", "write_dev_null"];
        let calls = calls.into_iter().filter(|row| {
            // Other code around a call can give it another level.
            plain.contains(&row["labels"]["call"].as_str().unwrap()) && row["labels"]["after"] == "work"
        });
        let base = |call: &str| {
            let found = rows(&comparison, "os.system_call.time");
            let row =
                found.into_iter().find(|row| row["labels"]["call"] == call && row["labels"]["after"] == "work")?;
            row["base"]["value"].as_f64()
        };
        let Some((parent, refused)) = base("getppid").zip(base("enosys")) else {
            return Judgement::Disturbed(format!("no call is compared: {}", told(&output)));
        };
        // On some cores the same instructions add more to one call than to another: on an AMD Zen 5, 9.4 ns to the first and 6.6 ns to
        // the second of these. Other calls are between them.
        let added = [first[0] * parent, second[0] * parent, first[1] * refused, second[1] * refused];
        let least = added.into_iter().fold(f64::INFINITY, f64::min);
        let most = added.into_iter().fold(0.0, f64::max);
        let mut found = 0;
        for row in calls {
            let [_, low, high] = change_and_ends(row);
            let expected = [least, most].map(|added| added / row["base"]["value"].as_f64().unwrap());
            let right = match row["finding"].as_str().unwrap() {
                // What the test itself times is right to a seventh.
                "worse" => low < 1.15 * expected[1] && 0.85 * expected[0] < high,
                // Less than the change that matters.
                "equivalent" => expected[0] < 0.033,
                finding => finding == "inconclusive",
            };
            if !right {
                return Judgement::Wrong(format!("{expected:?} is expected: {row}"));
            }
            found += u32::from(row["finding"] == "worse");
        }
        println!("{found} of {} calls are worse by {more} instructions, which take {added:?} ns", plain.len());
        // A call that costs twice as much as the cheapest changes by less than matters.
        if found < 3 {
            Judgement::Disturbed(format!("{found} calls are worse: {}", told(&output)))
        } else {
            Judgement::Right
        }
    });
}

#[test]
fn a_link_of_half_the_rate_has_half_the_throughput() {
    let _turn = measuring();
    let keep = tempfile::tempdir().unwrap();
    // A loopback of its own: that of the machine stays as it is. A flow counts for 40 ms there, and the trains of 128 KiB at both ends
    // of that decide 6 % of what arrives at 400 Mbit/s, but 1 to 3 % at these rates. The burst lasts for some ms of a late wake-up.
    let rate = |rate: &str| format!("tc qdisc replace dev lo root tbf rate {rate} burst 1m latency 100ms");
    judged("half of the rate", || {
        let place = keep.path().join("runs");
        let _ = fs::remove_dir_all(&place);
        let (fast, slow) = (rate("2gbit"), rate("1gbit"));
        let place_word = place.to_str().unwrap().to_owned();
        let words = ["compare", "--live", &fast, &slow, "--format", "json", "--time", "16s", "--runs", &place_word];
        let script = "ip link set lo up && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", script, "sh"]).arg(program().get_program()).args(words);
        command.arg("network.bandwidth").current_dir(keep.path()).stdin(Stdio::null());
        let output = command.env("XDG_STATE_HOME", keep.path()).output().unwrap();
        let comparison: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", told(&output)));
        let found = rows(&comparison, "network.bandwidth.rate");
        let one_way = |row: &&&Value| row["labels"]["direction"] == "send" && row["labels"]["streams"] == "1";
        let found: Vec<[f64; 3]> = found.into_iter().filter(|row| one_way(&row)).map(change_and_ends).collect();
        if found.is_empty() || found.iter().any(|[_, low, high]| high - low > WIDEST) {
            return Judgement::Disturbed(format!("no rate is compared, or with a wide interval: {}", told(&output)));
        }
        // Several intervals of 95 % do not all hold at once: half of each is added at its ends.
        let holds = |&[change, low, high]: &[f64; 3]| (change + 0.5).abs() < 0.02 + 0.75 * (high - low);
        if found.iter().all(holds) && output.status.code() == Some(1) {
            Judgement::Right
        } else {
            Judgement::Wrong(format!("{found:?}, {}", told(&output)))
        }
    });
}

/// The widest interval of a change that still says something of a half.
const WIDEST: f64 = 0.1;

/// The change of a row, and the ends of its interval.
fn change_and_ends(row: &Value) -> [f64; 3] {
    [&row["change"], &row["interval"][0], &row["interval"][1]].map(|value| value.as_f64().unwrap())
}

/// Conditions that write a word into a file, and what stands there.
fn setting(keep: &Path) -> (std::path::PathBuf, [String; 2]) {
    let file = keep.join("setting");
    let commands = ["first", "second"].map(|word| format!("echo {word} >>'{}'", file.display()));
    (file, commands)
}

#[test]
fn the_first_condition_is_restored_at_the_end_and_rounds_alternate() {
    let _turn = measuring();
    let keep = tempfile::tempdir().unwrap();
    let (file, commands) = setting(keep.path());
    let (comparison, output) = live(keep.path(), [&commands[0], &commands[1]], &["cpu.loop", "--time", "2s"]);
    assert!([Some(0), Some(3)].contains(&output.status.code()), "nothing changed: {}", told(&output));
    let found = fs::read_to_string(file).unwrap();
    let found: Vec<&str> = found.lines().collect();
    assert_eq!(found[..5], ["first", "second", "second", "first", "first"], "{found:?}");
    assert_eq!(found.last(), Some(&"first"), "{found:?}");
    let rounds = comparison["alternation"]["rounds"].as_u64().unwrap();
    assert!(rounds >= 4, "{comparison}");
    assert_eq!(comparison["alternation"]["restored"], Value::from(commands[0].clone()));
    assert_eq!(comparison["base"].as_array().unwrap().len() as u64, rounds);
}

#[test]
fn the_first_condition_is_restored_after_a_failure_and_a_signal() {
    let _turn = measuring();
    let keep = tempfile::tempdir().unwrap();
    let (file, commands) = setting(keep.path());
    let runs = keep.path().join("runs");
    let words = |second: &str| {
        let words = ["compare", "--live", &commands[0], second, "cpu.loop", "--runs", runs.to_str().unwrap()];
        words.map(str::to_owned)
    };
    // A second condition that fails half-way: the machine may be changed.
    let failing = format!("{}; exit 7", commands[1]);
    let failed = sysdyno(&words(&failing).each_ref().map(String::as_str)).output().unwrap();
    assert_eq!(failed.status.code(), Some(2), "{}", told(&failed));
    assert!(text(&failed.stderr).contains("exit 7' failed"), "{}", told(&failed));
    assert_eq!(fs::read_to_string(&file).unwrap(), "first\nsecond\nfirst\n");

    // A signal in the middle of the second run.
    fs::remove_dir_all(&runs).unwrap();
    fs::remove_file(&file).unwrap();
    let mut running = sysdyno(&words(&commands[1]).each_ref().map(String::as_str));
    let running = running.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while !fs::read_to_string(&file).is_ok_and(|text| text.contains("second")) {
        assert!(began.elapsed() < Duration::from_mins(1), "the second condition never came");
        std::thread::sleep(Duration::from_millis(20));
    }
    let running_id = nix::unistd::Pid::from_raw(running.id() as i32);
    nix::sys::signal::kill(running_id, nix::sys::signal::Signal::SIGTERM).unwrap();
    let ended = running.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", told(&ended));
    assert!(text(&ended.stderr).contains("ended by SIGTERM"), "{}", told(&ended));
    assert_eq!(fs::read_to_string(&file).unwrap().lines().last(), Some("first"));
}

#[test]
fn what_cannot_be_compared_in_turn_is_refused() {
    for (words, expected) in [
        (vec![":", "echo 1 >/nowhere", "cpu.loop"], "does not change it back"),
        (vec!["{}", "{}", "cpu.lop"], "did you mean cpu.loop"),
        (vec!["{}", "nice {", "cpu.loop"], "does not change it back"),
        (vec!["{}", "{} --no-such-option", "cpu.loop"], "unexpected argument '--no-such-option'"),
        (vec!["exit 3", "{}", "cpu.loop"], "the command 'exit 3' failed"),
    ] {
        let keep = tempfile::tempdir().unwrap();
        let place = keep.path().join("runs");
        let fixed = ["compare", "--live", "--runs", place.to_str().unwrap()];
        let words: Vec<&str> = fixed.into_iter().chain(words).collect();
        let output = output(&words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", told(&output));
        assert!(text(&output.stderr).contains(expected), "{words:?}: {}", told(&output));
    }
}

/// Limits with one result: the loop in registers may take `factor` times what it takes here.
fn limits(node: &Value, factor: f64) -> Option<Value> {
    let metric =
        node["experiments"][0]["metrics"].as_array()?.iter().find(|found| found["name"] == "cpu.loop.overhead")?;
    let figure = &metric["figures"][0];
    let pairs = figure["labels"].as_str()?.split(' ').filter_map(|pair| pair.split_once('='));
    let labels: serde_json::Map<String, Value> =
        pairs.map(|(key, value)| (key.to_owned(), Value::from(value))).collect();
    let high = figure["value"].as_f64()? * factor;
    let limit = serde_json::json!({
        "axis": "core", "metric": "cpu.loop.overhead", "labels": labels, "unit": "ns", "better": "lower",
        "low": high / 4.0, "median": high / 2.0, "high": high,
    });
    let model = serde_json::json!({
        "fingerprint": node["node"]["fingerprint"], "model": "", "profile": "quick", "build": "", "methods": "", "nodes": 20,
        "limits": [limit], "facts": [],
    });
    Some(serde_json::json!({"format": "sysdyno-accepted/1", "models": [model]}))
}

#[test]
fn a_result_beyond_its_limit_twice_is_odd_and_one_within_is_accepted() {
    let _turn = measuring();
    let keep = tempfile::tempdir().unwrap();
    let (file, textfile) = (keep.path().join("accepted.json"), keep.path().join("sysdyno.prom"));
    let place = keep.path().join("run");
    judged("a loop against its limits", || {
        let _ = fs::remove_dir_all(&place);
        let run =
            sysdyno(&["run", "--quick", "--json", "node", "-", "cpu.loop", "--output"]).arg(&place).output().unwrap();
        let node: Value = serde_json::from_slice(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", told(&run)));
        for (factor, code, word) in [(3.0, 0, "ok, 1 result"), (0.3, 1, "loop iteration")] {
            let Some(limits) = limits(&node, factor) else {
                return Judgement::Disturbed("the loop has no result".to_owned());
            };
            fs::write(&file, limits.to_string()).unwrap();
            let fixed = ["check", "--time", "4s", "--all", "--accepted", file.to_str().unwrap()];
            let found = output(&[&fixed[..], &["--textfile", textfile.to_str().unwrap()]].concat());
            if found.status.code() == Some(3) {
                return Judgement::Disturbed(told(&found));
            }
            let said = text(&found.stdout);
            let exposed = fs::read_to_string(&textfile).unwrap();
            let right = found.status.code() == Some(code)
                && said.starts_with("sysdyno: ")
                && said.contains(word)
                && said.contains("\nbeyond  ") == (code == 1)
                && exposed.contains(&format!("sysdyno_check_status {code}\n"))
                && exposed.contains("sysdyno_axis_ratio{axis=\"core work in cycles\"}")
                && exposed.ends_with("# EOF\n");
            if !right {
                return Judgement::Wrong(format!("factor {factor}: {}\n{exposed}", told(&found)));
            }
        }
        let critical = output(&["check", "--time", "4s", "--nagios", "--accepted", file.to_str().unwrap()]);
        match critical.status.code() {
            Some(3) => Judgement::Disturbed(told(&critical)),
            Some(2) if text(&critical.stdout).starts_with("SYSDYNO CRITICAL - ") => Judgement::Right,
            _ => Judgement::Wrong(told(&critical)),
        }
    });
}
