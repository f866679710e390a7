//! The forms of a run for other programs: each is read back by the program that it is for, also where words of a log try to break
//! out of the form.
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::readers::{python, reader};
use crate::support::runs::{output, text, told};

const FORMS: [&str; 7] =
    ["google-benchmark", "go", "bencher", "github-action-benchmark", "otava", "openmetrics", "junit"];

/// The log of a stored run.
const RECORDED: &str = "records/guest-zen4-2cpu-chapters/log.jsonl";

/// What ends a line, a string, an element, a cell or a comment somewhere, or gives an order to a terminal.
const HOSTILE: &str =
    "</testcase><failure/>\"'\\ ]]>&amp;\n# EOF\r\nBenchmarkFake 1 1 ns/op\u{1b}[2J\u{0}{},;=1%/µ\u{2028}";

fn place(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name).to_str().unwrap().to_owned()
}

/// A run in a form.
fn export(run: &str, form: &str, more: &[&str]) -> String {
    let made = output(&[&["report", run, "--format", form], more].concat());
    assert!(made.status.success(), "{form}: {}", told(&made));
    text(&made.stdout)
}

/// A directory with a run in every form, in files with the names of the forms.
fn every_form(run: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for form in FORMS {
        fs::write(directory.path().join(form), export(run, form, &["--full"])).unwrap();
    }
    directory
}

/// The compact form of a stored run, with results of all units.
fn record() -> Value {
    static RECORD: OnceLock<Value> = OnceLock::new();
    let made = || serde_json::from_str(&export(&place(RECORDED), "compact", &[])).unwrap();
    RECORD.get_or_init(made).clone()
}

/// The compact form with hostile words wherever a log can have words.
fn hostile() -> Value {
    let mut run: Value = serde_json::from_str(&fs::read_to_string(place("tests/exports/node.json")).unwrap()).unwrap();
    for place in ["/run/id", "/run/version", "/run/build", "/run/profile", "/run/started", "/node/name", "/node/kernel"]
    {
        *run.pointer_mut(place).unwrap() = json!(HOSTILE);
    }
    run["facts"]["Processor: model"] = json!(HOSTILE);
    run["experiments"][2]["reason"] = json!(HOSTILE);
    run["experiments"][0]["absent"][0]["reason"] = json!(HOSTILE);
    run["experiments"][0]["id"] = json!(HOSTILE);
    run["experiments"][0]["metrics"][0]["name"] = json!(HOSTILE);
    run["experiments"][0]["metrics"][0]["figures"][0]["labels"] =
        json!(format!("{HOSTILE}={HOSTILE} le=1 le=1 __name__=x"));
    run["experiments"][1]["metrics"][1]["name"] = json!("=1+1");
    run
}

fn stored(run: &Value) -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("node.json");
    fs::write(&file, run.to_string()).unwrap();
    let file = file.to_str().unwrap().to_owned();
    (directory, file)
}

/// How many results a compact form has that can be compared.
fn comparable(run: &Value) -> usize {
    let experiments = run["experiments"].as_array().unwrap().iter();
    let metrics = experiments.flat_map(|experiment| experiment["metrics"].as_array().into_iter().flatten());
    let figures = metrics.flat_map(|metric| metric["figures"].as_array().unwrap());
    figures.filter(|figure| figure["trust"] != "contaminated" && figure["at_least"] != true).count()
}

/// Both runs with a directory of their forms.
fn runs() -> [(Value, TempDir); 2] {
    [record(), hostile()].map(|run| {
        let (_keep, file) = stored(&run);
        let forms = every_form(&file);
        (run, forms)
    })
}

#[test]
fn a_log_and_its_compact_form_give_the_same() {
    let log = place(RECORDED);
    let (_keep, file) = stored(&record());
    for form in FORMS {
        for more in [&[][..], &["--full"]] {
            assert!(export(&log, form, more) == export(&file, form, more), "{form} {more:?}");
        }
    }
}

#[test]
fn benchstat_reads_go() {
    for (run, forms) in runs() {
        let read = reader("benchstat", &["-format", "csv", "go"], forms.path());
        assert!(read.status.success(), "{}", told(&read));
        let table = text(&read.stdout);
        // The unit at the head of each column says what a row is. Cycles repeat results that are there as times.
        let (mut rows, mut counts) = (0, true);
        for line in table.lines() {
            match line.strip_prefix(',') {
                Some(unit) => counts = !unit.starts_with("cycles/op") && !unit.starts_with("go"),
                None if counts && line.contains(',') && !line.starts_with("geomean") && !line.contains(": ") => {
                    rows += 1;
                }
                None => {}
            }
        }
        assert_eq!(rows, comparable(&run), "{table}\n{}", text(&read.stderr));
        assert!(!table.contains("Fake,"), "{table}");
        assert!(!text(&read.stderr).contains("go:"), "{}", text(&read.stderr));
    }
}

#[test]
fn google_benchmark_has_what_its_comparison_reads() {
    for (run, forms) in runs() {
        let file: Value =
            serde_json::from_str(&fs::read_to_string(forms.path().join("google-benchmark")).unwrap()).unwrap();
        for (field, is) in [
            ("date", Value::is_string as fn(&Value) -> bool),
            ("host_name", Value::is_string),
            ("executable", Value::is_string),
            ("num_cpus", Value::is_u64),
            ("mhz_per_cpu", Value::is_u64),
            ("library_build_type", Value::is_string),
        ] {
            assert!(is(&file["context"][field]), "{field}: {}", file["context"]);
        }
        let mut names = std::collections::BTreeSet::new();
        for found in file["benchmarks"].as_array().unwrap() {
            let name = found["name"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{name} is there twice");
            assert!(!name.contains(char::is_whitespace) && found["run_name"] == name, "{name}");
            assert!(found["real_time"].as_f64().unwrap() > 0.0 && found["cpu_time"] == found["real_time"], "{found}");
            assert!(found["iterations"].as_u64().unwrap() > 0, "{found}");
            assert_eq!((&found["time_unit"], &found["run_type"]), (&json!("ns"), &json!("iteration")));
        }
        let timed = export_units(&run, &["ns", "B/s"]);
        assert_eq!(names.len(), timed);
    }
}

/// Results that can be compared and have one of these units.
fn export_units(run: &Value, units: &[&str]) -> usize {
    let mut run = run.clone();
    for experiment in run["experiments"].as_array_mut().unwrap() {
        if let Some(metrics) = experiment["metrics"].as_array_mut() {
            metrics.retain(|metric| units.contains(&metric["unit"].as_str().unwrap()));
        }
    }
    comparable(&run)
}

#[test]
fn prometheus_reads_openmetrics_and_so_does_the_older_format() {
    let program = "
from prometheus_client.openmetrics.parser import text_string_to_metric_families as strict
from prometheus_client.parser import text_string_to_metric_families as older
text = open('openmetrics', newline='').read()
families = list(strict(text))
assert all(family.type == 'gauge' for family in families), families
assert all(family.name.endswith(family.unit) for family in families if family.unit), families
samples = [sample for family in families for sample in family.samples]
assert all(sample.timestamp is None for sample in samples)
def key(sample): return (sample.name, tuple(sorted(sample.labels.items())), sample.value)
assert sorted(map(key, samples)) == sorted(key(s) for f in older(text) for s in f.samples)
values = {(s.name, tuple(sorted(s.labels.items()))): s.value for s in samples}
units = {family.name: family.unit for family in families}
count = 0
for (name, labels), value in values.items():
    stem = name[:-len(units[name]) - 1] if units[name] else name
    if stem.startswith('sysdyno_run') or stem == 'sysdyno_result_uncertainty' or stem.endswith(('_low', '_high')):
        continue
    low, high = (values[f'{stem}_{end}_{units[name]}', labels] for end in ('low', 'high'))
    assert low <= value <= high, (name, labels)
    count += 1
print(count)
";
    for (run, forms) in runs() {
        let count = python(program, forms.path());
        assert_eq!(count.trim(), comparable(&run).to_string());
    }
}

#[test]
fn otava_finds_a_change_in_a_history_of_runs() {
    let directory = tempfile::tempdir().unwrap();
    for (number, forms) in (0..12).map(|number| (number, record())) {
        let mut run = forms;
        run["run"]["started"] = json!(format!("2026-11-{:02}T13:30:25Z", number + 1));
        let slower = if number < 6 { 1.0 } else { 1.5 } + f64::from(number % 3) * 1e-3;
        let figure = &mut run["experiments"][0]["metrics"][0]["figures"][0];
        figure["headline"] = json!(true);
        for number in ["/value", "/interval/0", "/interval/1"] {
            let value = figure.pointer_mut(number).unwrap();
            *value = json!(value.as_f64().unwrap() * slower);
        }
        // One result has no value in one run.
        if number == 3 {
            run["experiments"][1]["metrics"][0]["figures"][0]["trust"] = json!("contaminated");
        }
        let (_keep, file) = stored(&run);
        fs::write(directory.path().join(format!("{number:02}.csv")), export(&file, "otava", &[])).unwrap();
    }
    fs::write(directory.path().join("node.json"), record().to_string()).unwrap();
    // The commands of docs/exports.md.
    let document = fs::read_to_string(place("docs/exports.md")).unwrap();
    let program = document.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    python(program, directory.path());
    let made = reader("otava", &["analyze", "sysdyno", "--since", "2026-01-01", "--output", "json"], directory.path());
    assert!(made.status.success(), "{}", told(&made));
    let printed = text(&made.stdout);
    let found: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    let changes = found["sysdyno"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{printed}");
    assert_eq!(
        (&changes[0]["attributes"]["run"], changes[0]["changes"].as_array().unwrap().len()),
        (&record()["run"]["id"], 1)
    );
}

#[test]
fn duckdb_and_pandas_read_tables_and_json() {
    let program = "
import csv, json, duckdb, pandas
rows = duckdb.sql(\"from read_csv('otava', header = true, delim = ',', quote = '\\\"')\")
frame = pandas.read_csv('otava')
assert rows.shape == frame.shape and rows.shape[0] == 1, (rows.shape, frame.shape)
assert list(rows.columns) == list(frame.columns)
assert not any(isinstance(cell, str) and cell[:1] in '=+-@' for cell in frame.iloc[0]), frame
count = duckdb.sql(\"select count(*) from (select unnest(benchmarks) from read_json('google-benchmark', maximum_object_size = 100000000))\")
assert count.fetchall()[0][0] == len(json.load(open('google-benchmark'))['benchmarks'])
print(rows.shape[1] - 5)
";
    for (run, forms) in runs() {
        assert_eq!(python(program, forms.path()).trim(), comparable(&run).to_string());
    }
}

#[test]
fn duckdb_and_pandas_read_the_metrics_of_a_run() {
    let directory = tempfile::tempdir().unwrap();
    let table = export(&place(RECORDED), "csv", &[]);
    fs::write(directory.path().join("metrics.csv"), &table).unwrap();
    let program = "
import duckdb, pandas
rows = duckdb.sql(\"select name, labels, value, low, high from 'metrics.csv' where unit = 'ns' and trust <> 'contaminated'\")
frame = pandas.read_csv('metrics.csv')
part = frame[(frame.unit == 'ns') & (frame.trust != 'contaminated')]
assert rows.shape[0] == len(part) > 100, (rows.shape, len(part))
assert abs(sum(row[2] for row in rows.fetchall()) / part.value.sum() - 1) < 1e-9
duckdb.sql(\"copy (from 'metrics.csv') to 'metrics.parquet'\")
assert duckdb.sql(\"from 'metrics.parquet'\").shape == frame.shape
";
    python(program, directory.path());
}

#[test]
fn junitparser_reads_junit() {
    let program = "
import junitparser
whole = junitparser.JUnitXml.fromfile('junit')
said = (whole.tests, whole.failures, whole.errors, whole.skipped)
cases = [case for suite in whole for case in suite]
kinds = [type(result).__name__ for case in cases for result in case.result]
assert said == (len(cases), kinds.count('Failure'), kinds.count('Error'), kinds.count('Skipped')), (said, kinds)
assert all(case.name and case.classname for case in cases)
assert len({(case.classname, case.name) for case in cases}) == len(cases)
print(*said)
";
    let [(record, of_record), (_, of_hostile)] = runs();
    let said = python(program, of_record.path());
    let tests: usize = said.split(' ').next().unwrap().parse().unwrap();
    assert!(tests > comparable(&record), "{said}");
    assert_eq!(python(program, of_hostile.path()).trim(), "11 1 0 3");
}

#[test]
fn bencher_and_the_github_action_get_what_they_document() {
    // https://bencher.dev/docs/reference/bencher-metric-format: names, measures, and three numbers of which one is required.
    let number = json!({"type": "number"});
    let measured = json!({
        "type": "object", "required": ["value"], "additionalProperties": false,
        "properties": {"value": number, "lower_value": number, "upper_value": number},
    });
    let measures = json!({
        "type": "object", "minProperties": 1, "additionalProperties": measured,
        "propertyNames": {"pattern": "^[a-z][a-z-]*[a-z]$", "maxLength": 64},
    });
    let bencher = json!({
        "type": "object", "additionalProperties": measures, "propertyNames": {"minLength": 1, "maxLength": 1024},
    });
    // The README of benchmark-action/github-action-benchmark: name, unit and value, and two texts.
    let word = json!({"type": "string", "minLength": 1});
    let action = json!({
        "type": "array",
        "items": {
            "type": "object", "required": ["name", "unit", "value"], "additionalProperties": false,
            "properties": {"name": word, "unit": word, "value": number, "range": word, "extra": word},
        },
    });
    for (run, forms) in runs() {
        for (form, schema, count) in [
            ("bencher", &bencher, comparable(&run)),
            ("github-action-benchmark", &action, export_units(&run, &["ns", "B/s"])),
        ] {
            let value: Value = serde_json::from_str(&fs::read_to_string(forms.path().join(form)).unwrap()).unwrap();
            let validator = jsonschema::validator_for(schema).unwrap();
            let errors: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{form}: {errors:?}");
            let found = value.as_array().map_or_else(|| value.as_object().unwrap().len(), Vec::len);
            assert_eq!(found, count, "{form}");
        }
    }
}

#[test]
fn what_is_no_run_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("node.json");
    let mut newer = hostile();
    newer["format"] = json!("sysdyno-node/9");
    for (content, said) in [
        (newer.to_string(), "it has format sysdyno-node/9"),
        (json!({"format": "sysdyno-node/1"}).to_string(), "missing field"),
        ("{}".to_owned(), "is not a sysdyno log"),
        (String::new(), "it is empty"),
    ] {
        fs::write(&file, &content).unwrap();
        let refused = output(&["report", file.to_str().unwrap(), "--format", "go"]);
        assert_eq!(refused.status.code(), Some(2), "{}", told(&refused));
        let talk = text(&refused.stderr);
        assert!(talk.contains(said) && talk.contains("hint: ") && refused.stdout.is_empty(), "{said}: {talk}");
    }
    // Pages show what others wrote, and obey none of it.
    fs::write(&file, hostile().to_string()).unwrap();
    for format in ["text", "summary", "html", "markdown"] {
        let shown = output(&["report", file.to_str().unwrap(), "--format", format]);
        assert!(shown.status.success(), "{}", told(&shown));
        let page = text(&shown.stdout);
        assert!(!page.contains('\x1b'), "{format}: {page:?}");
        assert!(!page.contains("<failure/>") || !["html", "markdown"].contains(&format), "{format}: {page}");
    }
}
