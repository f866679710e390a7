//! Files with numbers: a table (CSV, see `table`), what `sysdyno published --json` prints, or the `node.json` of a run.

use serde::Deserialize;
use serde_json::Value;

use super::names::Names;
use super::number::{Number, Source, experiment_of};
use super::table;
use crate::experiments::costs;
use crate::results::compact::Compact;
use crate::results::problem::Problem;
use crate::results::published::{Published, PublishedFigure, PublishedGroup};
use crate::results::quantity::Labels;
use crate::results::wording::quantity;

/// Most numbers of a file: a run of everything has a tenth of it.
const MOST_NUMBERS: usize = 10_000;
/// What a file needs.
const BLANK: &str = "`sysdyno judge --blank` prints a table to fill in";

/// The sources in the bytes of a file.
pub fn read(name: &str, bytes: &[u8], names: &Names) -> Result<Vec<Source>, Problem> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Problem::new(format!("{name} is not text in UTF-8")).hint("save it as CSV in UTF-8"))?;
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Err(Problem::new(format!("{name} is empty")).hint(BLANK));
    }
    let sources =
        if text.trim_start().starts_with('{') { json(name, text)? } else { vec![table::read(name, text, names)?] };
    match sources.iter().map(|source| source.numbers.len()).sum::<usize>() {
        0 => Err(Problem::new(format!("{name} has no number")).hint(BLANK)),
        count if count > MOST_NUMBERS => {
            Err(Problem::new(format!("{name} has {count} numbers, and at most {MOST_NUMBERS} are judged"))
                .hint("judge a part of them"))
        }
        _ => Ok(sources),
    }
}

/// The published form, or the compact form of a run.
fn json(name: &str, text: &str) -> Result<Vec<Source>, Problem> {
    let wrong = |why: String| {
        Problem::new(format!("cannot read {name}: {why}")).hint(
            "numbers stand in a CSV table, in the output of `sysdyno published --json`, or in the node.json of a run",
        )
    };
    let value: Value = serde_json::from_str(text).map_err(|error| wrong(format!("it is not JSON: {error}")))?;
    if value.get("figures").is_some() {
        let published = Published::deserialize(value).map_err(|error| wrong(error.to_string()))?;
        return Ok(of_published(&published));
    }
    let run = Compact::parse(text.as_bytes()).map_err(wrong)?;
    Ok(vec![Source { name: name.to_owned(), numbers: of_run(&run) }])
}

/// The numbers of published reports, a source for each report. Results without a number are left out.
pub fn of_published(published: &Published) -> Vec<Source> {
    let of = |figure: &PublishedFigure, group: &PublishedGroup| {
        let detail = figure.detail.clone().unwrap_or_default();
        Some(Number {
            place: format!("section {}", figure.section),
            name: group.title.clone(),
            family: group.id.split('.').next().unwrap_or_default().to_owned(),
            metric: group.metric.clone(),
            labels: group.labels.clone(),
            unit: group.unit,
            value: figure.value?,
            written: figure.printed.clone(),
            deviation: None,
            trials: None,
            per_byte: detail.contains("per byte"),
            note: detail,
        })
    };
    let figures = |report: &str| {
        let of_group = |group: &PublishedGroup| {
            let figures = published.figures_of(group).filter(|figure| figure.report == report);
            figures.filter_map(|figure| of(figure, group)).collect::<Vec<Number>>()
        };
        published.groups.iter().flat_map(of_group).collect()
    };
    let sources = published
        .reports
        .iter()
        .map(|report| Source { name: format!("report {}", report.id), numbers: figures(&report.id) });
    sources.filter(|source| !source.numbers.is_empty()).collect()
}

/// The usual costs of a run as numbers of another program.
fn of_run(run: &Compact) -> Vec<Number> {
    let all = || run.experiments.iter().flat_map(|experiment| &experiment.metrics);
    let of = |asked: costs::AskedCost| {
        let metric = all().find(|metric| metric.name == asked.figure.metric())?;
        let mut figures = metric.figures.iter().filter_map(|figure| Some((Labels::parse(&figure.labels)?, figure)));
        let (labels, figure) = figures.find(|(labels, _)| asked.figure.is(&metric.name, labels))?;
        Some(Number {
            place: metric.name.clone(),
            name: asked.name.to_owned(),
            family: experiment_of(&metric.name),
            metric: Some(metric.name.clone()),
            labels: labels.without_conditions(),
            unit: metric.unit,
            value: figure.value,
            written: quantity(figure.value, metric.unit),
            deviation: None,
            trials: Some(figure.launches),
            note: String::new(),
            per_byte: false,
        })
    };
    costs::asked().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::table::blank;
    use crate::results::quantity::Unit;

    fn read(name: &str, bytes: &[u8]) -> Result<Vec<Source>, Problem> {
        let run = include_bytes!("../../records/guest-golden-cove-2cpu-searches/node.json");
        super::read(name, bytes, &Names::of(None, &Compact::parse(run).unwrap(), false))
    }

    fn one(text: &str) -> Number {
        let found = read("mine.csv", format!("name,value,unit,labels,deviation,trials,note\n{text}\n").as_bytes());
        found.unwrap().remove(0).numbers.remove(0)
    }

    #[test]
    fn a_table_has_plain_names_metrics_and_units() {
        let number = one("system call,1 234.5,us,,0.5,10,warm");
        assert_eq!(number.metric.as_deref(), Some("os.system_call.time"));
        assert_eq!(number.labels.get("call"), Some("enosys"));
        assert!((number.value - 1_234_500.0).abs() < 1e-6 && number.deviation == Some(500.0), "{number:?}");
        assert_eq!((number.trials, number.family.as_str()), (Some(10), "os.system_call"));
        let number = one("memory.latency.level level=L2,14,cycles,pages=4k,,,");
        assert_eq!(number.labels, Labels::of([("level", "L2"), ("pages", "4k")]));
        assert_eq!(number.unit, Unit::Cycles);
        assert!(one("\"Load latency, L1\",2,ns/byte,,,,").per_byte);
    }

    #[test]
    fn what_cannot_be_read_says_where_and_why() {
        for (text, part) in [
            ("name,value\n", "the column unit is missing"),
            ("name,value,unit,colour\n", "'colour' is not a known column"),
            (
                "name,value,unit\nsystem cal,1,ns\n",
                "line 2: 'system cal' is not a known name. Did you mean 'system call'",
            ),
            ("name,value,unit\nsystem call,1,parsec\n", "'parsec' is not a known unit"),
            ("name,value,unit\nsystem call,1,GB/s\n", "system call is a number in ns"),
            ("name,value,unit\nsystem call,fast,ns\n", "'fast' is not a number"),
            ("name,value,unit\nsystem call,inf,ns\n", "'inf' is not a number"),
            ("name,value,unit,labels\nsystem call,1,ns,quick\n", "'quick' are not labels"),
            ("name,value,unit\nsystem call,,ns\n", "has no number"),
            ("name;value;unit\nsystem call;80;ns\n", "line 1: its columns are separated by semicolons"),
            ("", "mine.csv is empty"),
            (" \n\n", "mine.csv is empty"),
            ("system call,80,ns\nL1 load,1,ns\n", "the names of the columns are missing"),
            ("name,value,unit\n\"system call,80,ns\n\"L1 load\",1,ns\n", "line 2: a quotation mark is not closed"),
            ("name,value,unit,note\nswitch, same CPU,2700,ns\n", "the name 'switch, same CPU' has a comma"),
            ("name,value,unit\nsystem call,80,ns,,101\n", "it has 5 cells, and the table has 3 columns"),
            (
                "name,value,unit\nsystem cal,1,ns\n# a remark\n\nL1 load,1,ns\nsystem call,1,parsec\n",
                "line 2: 'system cal' is not a known name. Did you mean 'system call'? Line 6: 'parsec' is not a known unit",
            ),
            ("{\"a\":1}", "node.json"),
            ("{", "it is not JSON"),
        ] {
            let problem = read("mine.csv", text.as_bytes()).unwrap_err();
            assert!(problem.what.contains(part), "{}", problem.what);
            assert!(problem.hint.is_some(), "{}", problem.what);
        }
    }

    #[test]
    fn marks_inside_of_cells_are_letters() {
        for note in ["5\" disk", "\"5\"\" disk\"", "\"a, b\"", "\"\""] {
            assert_eq!(one(&format!("system call,80,ns,,,,{note}")).value.to_string(), "80", "{note}");
        }
    }

    #[test]
    fn every_fault_of_a_table_is_named_up_to_a_limit() {
        let rows: String = (0..20).map(|_| "nothing like it,1,ns\n").collect();
        let what = read("mine.csv", format!("name,value,unit\n{rows}").as_bytes()).unwrap_err().what;
        assert!(
            what.matches("is not a known name").count() == 8 && what.ends_with("12 more lines have faults"),
            "{what}"
        );
    }

    #[test]
    fn the_blank_table_is_one_that_is_read() {
        let filled = blank().replace("\"system call\",,ns", "\"system call\",80,ns");
        let sources = read("blank.csv", filled.as_bytes()).unwrap();
        assert_eq!(sources[0].numbers.len(), 1);
    }

    #[test]
    fn published_reports_and_runs_are_sources() {
        let published = serde_json::to_string(&Published::embedded()).unwrap();
        let sources = read("published.json", published.as_bytes()).unwrap();
        assert_eq!(sources.len(), 5);
        assert!(sources.iter().map(|source| source.numbers.len()).sum::<usize>() > 400);
        let run = include_bytes!("../../records/guest-zen4-2cpu-quiet-hour/node.json");
        let sources = read("node.json", run).unwrap();
        assert!(sources[0].numbers.len() > 20, "{}", sources[0].numbers.len());
    }
}
