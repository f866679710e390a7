//! Numbers of other programs: read from a table (CSV), from `sysdyno published --json`, or from the `node.json` of a run.

use serde::Deserialize;
use serde_json::Value;

use crate::experiments::{TABLE, costs};
use crate::results::compact::Compact;
use crate::results::problem::Problem;
use crate::results::published::{Published, PublishedFigure, PublishedGroup};
use crate::results::quantity::{Labels, Unit};
use crate::results::wording::quantity;

/// Most numbers of a file: a run of everything has a tenth of it.
const MOST_NUMBERS: usize = 10_000;
/// Columns of a table that can be left out.
const OPTIONAL: [&str; 4] = ["labels", "deviation", "trials", "note"];
/// Columns that it must have.
const NEEDED: [&str; 3] = ["name", "value", "unit"];
/// Names that resemble an unknown one are shown from this likeness on.
const LIKE: f64 = 0.75;

/// The numbers of one file.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// Name of the file, or of the report.
    pub name: String,
    pub numbers: Vec<Number>,
}

/// A number of another program.
#[derive(Debug, Clone, PartialEq)]
pub struct Number {
    /// Where it stands in its file.
    pub place: String,
    /// What the file calls it.
    pub name: String,
    /// Numbers of one family were made by one program: the experiment of its metric, or the first word of its group.
    pub family: String,
    /// Our metric for the same thing, and the labels that its result must have.
    pub metric: Option<String>,
    pub labels: Labels,
    /// Unit of the value and of the deviation.
    pub unit: Unit,
    pub value: f64,
    /// As it is written.
    pub written: String,
    pub deviation: Option<f64>,
    pub trials: Option<u32>,
    /// What else is written next to it.
    pub note: String,
    /// True where it is one for each byte of something.
    pub per_byte: bool,
}

impl Number {
    /// Whether its metric begins so.
    pub fn is_of(&self, beginning: &str) -> bool {
        self.metric.as_ref().is_some_and(|metric| metric.starts_with(beginning))
    }

    /// Whether another number is for the same thing, with the same remark.
    pub fn is_same_thing(&self, other: &Number) -> bool {
        (&self.metric, &self.labels, self.unit) == (&other.metric, &other.labels, other.unit)
            && (self.metric.is_some() || self.name == other.name)
            && (&self.note, self.per_byte) == (&other.note, other.per_byte)
    }
}

/// The sources in the bytes of a file.
pub fn read(name: &str, bytes: &[u8]) -> Result<Vec<Source>, Problem> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Problem::new(format!("{name} is not text in UTF-8")).hint("save it as CSV in UTF-8"))?;
    let text = text.trim_start_matches('\u{feff}');
    let sources = if text.trim_start().starts_with('{') { json(name, text)? } else { vec![table(name, text)?] };
    match sources.iter().map(|source| source.numbers.len()).sum::<usize>() {
        0 => {
            Err(Problem::new(format!("{name} has no number")).hint("`sysdyno judge --blank` prints a table to fill in"))
        }
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

/// A table with a line of column names. Lines that begin with `#` are remarks. Lines without a value are left out.
fn table(name: &str, text: &str) -> Result<Source, Problem> {
    let wrong = |place: String, why: String| {
        Problem::new(format!("{name}, {place}: {why}"))
            .hint("`sysdyno judge --blank` prints a table with every column to fill in")
    };
    let mut reader =
        csv::ReaderBuilder::new().comment(Some(b'#')).flexible(true).trim(csv::Trim::All).from_reader(text.as_bytes());
    let heads = reader.headers().map_err(|error| wrong("line 1".to_owned(), error.to_string()))?.clone();
    for needed in NEEDED {
        if !heads.iter().any(|head| head == needed) {
            return Err(wrong("line 1".to_owned(), format!("the column {needed} is missing")));
        }
    }
    if let Some(head) = heads.iter().find(|head| !NEEDED.contains(head) && !OPTIONAL.contains(head)) {
        let known = [&NEEDED[..], &OPTIONAL[..]].concat().join(", ");
        return Err(wrong("line 1".to_owned(), format!("'{head}' is not a known column. The columns are {known}")));
    }
    let mut numbers = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| wrong("a line".to_owned(), error.to_string()))?;
        let place = format!("line {}", record.position().map_or(0, csv::Position::line));
        let cell = |head: &str| {
            let column = heads.iter().position(|found| found == head);
            column.and_then(|column| record.get(column)).unwrap_or_default()
        };
        if cell("value").is_empty() {
            continue;
        }
        numbers.push(row(&place, cell).map_err(|why| wrong(place.clone(), why))?);
    }
    Ok(Source { name: name.to_owned(), numbers })
}

/// A number from the cells of a line.
fn row<'a>(place: &str, cell: impl Fn(&str) -> &'a str) -> Result<Number, String> {
    let (name, written) = (cell("name"), cell("value"));
    let read = |what: &str, text: &str| -> Result<f64, String> {
        let plain: String = text.chars().filter(|letter| !"_ \u{a0}".contains(*letter)).collect();
        let found = plain.parse().ok().filter(|value: &f64| value.is_finite());
        found.ok_or_else(|| format!("'{text}' is not a {what}. Write it as 1234.5"))
    };
    let (symbol, per_byte) = match cell("unit").strip_suffix("/B").or_else(|| cell("unit").strip_suffix("/byte")) {
        Some(symbol) => (symbol, true),
        None => (cell("unit"), false),
    };
    let (unit, factor) = Unit::read(symbol).ok_or_else(|| {
        format!(
            "'{symbol}' is no known unit. Units are ns, µs, ms, s, cycles, B, KiB, MB/s, Gbit/s, GHz and their like"
        )
    })?;
    let further = Labels::parse(cell("labels"))
        .ok_or_else(|| format!("'{}' are not labels. Labels are pairs, as in level=L2 pages=4k", cell("labels")))?;
    let (metric, labels) = figure_of(name)?;
    let labels = further.pairs().fold(labels, |labels, (key, value)| labels.with(key, value));
    let deviation = Some(cell("deviation")).filter(|text| !text.is_empty());
    let trials = Some(cell("trials")).filter(|text| !text.is_empty());
    let number = Number {
        place: place.to_owned(),
        name: name.to_owned(),
        family: experiment_of(&metric),
        labels,
        unit,
        value: read("number", written)? * factor,
        written: format!("{written} {}", cell("unit")),
        deviation: deviation.map(|text| read("deviation", text).map(|found| found * factor)).transpose()?,
        trials: trials
            .map(|text| text.parse().map_err(|_| format!("'{text}' is not a number of trials")))
            .transpose()?,
        note: cell("note").to_owned(),
        per_byte,
        metric: Some(metric),
    };
    fits(&number)?;
    Ok(number)
}

/// Whether the unit is one that the metric can have.
fn fits(number: &Number) -> Result<(), String> {
    let name = number.metric.as_deref().unwrap_or_default();
    let found = TABLE.iter().find_map(|experiment| experiment.publication(name));
    let Some(unit) = found.map(|publication| publication.unit) else { return Ok(()) };
    let is_counted = unit == Unit::Nanoseconds && [Unit::Cycles, Unit::Ticks].contains(&number.unit);
    if number.unit == unit || is_counted || number.per_byte {
        Ok(())
    } else {
        Err(format!("{} is a number in {}, and {} is not", number.name, unit.symbol(), number.written))
    }
}

/// The experiment of a metric.
fn experiment_of(metric: &str) -> String {
    metric.rsplit_once('.').map_or(metric, |(experiment, _)| experiment).to_owned()
}

/// The metric and the labels behind a name: a metric with or without labels, a short name, or the name of a published result.
fn figure_of(name: &str) -> Result<(String, Labels), String> {
    let (metric, labels) = name.split_once(' ').unwrap_or((name, ""));
    if TABLE.iter().any(|experiment| experiment.publication(metric).is_some())
        && let Some(labels) = Labels::parse(labels)
    {
        return Ok((metric.to_owned(), labels));
    }
    let known = names();
    let is = |found: &&(String, String, Labels)| found.0.eq_ignore_ascii_case(name);
    if let Some((_, metric, labels)) = known.iter().find(is) {
        return Ok((metric.clone(), labels.clone()));
    }
    let like = |found: &str| strsim::jaro_winkler(&found.to_lowercase(), &name.to_lowercase());
    let mut near: Vec<&str> =
        known.iter().map(|(found, ..)| found.as_str()).filter(|found| like(found) > LIKE).collect();
    near.sort_by(|one, other| like(other).total_cmp(&like(one)));
    near.dedup();
    near.truncate(3);
    let meant = if near.is_empty() { String::new() } else { format!(". Did you mean {}?", near.join(" or ")) };
    Err(format!("'{name}' is no known name{meant}"))
}

/// Every plain name with its metric and labels: those of the usual costs, and those of published results.
fn names() -> Vec<(String, String, Labels)> {
    let of_costs = costs::asked().map(|asked| {
        let labels = asked.figure.pairs().fold(Labels::none(), |labels, (key, value)| labels.with(key, value));
        (asked.name.to_owned(), asked.figure.metric().to_owned(), labels)
    });
    let groups = Published::embedded().groups;
    let of_groups = groups.into_iter().filter_map(|group| Some((group.id, group.title, group.metric?, group.labels)));
    let both = of_groups
        .flat_map(|(id, title, metric, labels)| [id, title].map(|name| (name, metric.clone(), labels.clone())));
    of_costs.chain(both).collect()
}

/// A table to fill in: the usual costs in the order of the report.
pub fn blank() -> String {
    let unit_of = |metric: &str| {
        let found = TABLE.iter().find_map(|experiment| experiment.publication(metric));
        found.map_or("", |publication| publication.unit.symbol())
    };
    let rows = costs::asked().map(|asked| format!("\"{}\",,{},,,\n", asked.name, unit_of(asked.figure.metric())));
    "# One number a line. Lines without a value are left out. Units are ns, µs, ms, s, cycles, B, KiB and MB/s.\n\
     # A name can be a metric with labels, as in \"os.system_call.time call=getppid\".\n\
     name,value,unit,deviation,trials,note\n"
        .to_owned()
        + &rows.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("name,value,unit\nsystem cal,1,ns\n", "line 2: 'system cal' is no known name. Did you mean system call"),
            ("name,value,unit\nsystem call,1,parsec\n", "'parsec' is no known unit"),
            ("name,value,unit\nsystem call,1,GB/s\n", "system call is a number in ns"),
            ("name,value,unit\nsystem call,fast,ns\n", "'fast' is not a number"),
            ("name,value,unit\nsystem call,inf,ns\n", "'inf' is not a number"),
            ("name,value,unit,labels\nsystem call,1,ns,quick\n", "'quick' are not labels"),
            ("name,value,unit\nsystem call,,ns\n", "has no number"),
            ("{\"a\":1}", "node.json"),
            ("{", "it is not JSON"),
        ] {
            let problem = read("mine.csv", text.as_bytes()).unwrap_err();
            assert!(problem.what.contains(part), "{}", problem.what);
            assert!(problem.hint.is_some(), "{}", problem.what);
        }
    }

    #[test]
    fn the_blank_table_is_one_that_is_read() {
        let filled = blank().replace("\"system call\",,ns", "\"system call\",80,ns");
        let sources = read("blank.csv", filled.as_bytes()).unwrap();
        assert_eq!(sources[0].numbers.len(), 1);
        for asked in costs::asked() {
            assert!(figure_of(asked.name).is_ok(), "{}", asked.name);
        }
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
