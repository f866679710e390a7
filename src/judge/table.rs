//! A table of numbers as a student writes it: every fault of it, each with its line, or all of its numbers.

use super::names::Names;
use super::number::{Number, Source, experiment_of};
use crate::experiments::{TABLE, costs};
use crate::results::problem::Problem;
use crate::results::quantity::{Labels, Unit};

/// Columns of a table that can be left out.
const OPTIONAL: [&str; 4] = ["labels", "deviation", "trials", "note"];
/// Columns that it must have.
const NEEDED: [&str; 3] = ["name", "value", "unit"];
/// Most faults that are written out.
const MOST_FAULTS: usize = 8;

/// A line and what is wrong with it.
type Fault = (u64, String);

/// A table with a line of column names. Lines that begin with `#` are remarks. Lines without a value are left out.
pub fn read(name: &str, text: &str, names: &Names) -> Result<Source, Problem> {
    let mut faults = Vec::new();
    let lines = closed(text, &mut faults);
    let numbers = match rows(&lines, names, &mut faults) {
        Ok(numbers) => numbers,
        Err(fault) => {
            // Without columns no line has a meaning.
            faults = vec![fault];
            Vec::new()
        }
    };
    if faults.is_empty() {
        return Ok(Source { name: name.to_owned(), numbers });
    }
    faults.sort();
    let mut what = format!("{name}, ");
    for (place, (line, why)) in faults.iter().take(MOST_FAULTS).enumerate() {
        let end = if place == 0 {
            "line"
        } else if what.ends_with('?') {
            " Line"
        } else {
            ". Line"
        };
        what += &format!("{end} {line}: {why}");
    }
    if faults.len() > MOST_FAULTS {
        what += &format!(". {} more lines have faults", faults.len() - MOST_FAULTS);
    }
    Err(Problem::new(what).hint("`sysdyno judge --blank` prints a table with every column to fill in"))
}

/// The lines, without those in which a quotation mark is not closed: a name or a note has one line.
fn closed(text: &str, faults: &mut Vec<Fault>) -> String {
    let mut kept = String::new();
    for (line, number) in text.lines().zip(1..) {
        if !line.starts_with('#') && is_open(line) {
            faults.push((number, "a quotation mark is not closed".to_owned()));
        } else {
            kept += line;
        }
        kept.push('\n');
    }
    kept
}

/// Whether a cell begins with a quotation mark that nothing closes. A mark inside of a cell without quotes is a letter.
fn is_open(line: &str) -> bool {
    let (mut quoted, mut at_start) = (false, true);
    for letter in line.chars() {
        match letter {
            '"' if quoted || at_start => quoted = !quoted,
            ',' if !quoted => {
                at_start = true;
                continue;
            }
            ' ' if at_start => continue,
            _ => {}
        }
        // Two marks in a row inside of quotes are one that is a letter: the second one opens again.
        at_start = letter == '"' && !quoted;
    }
    quoted
}

/// The numbers of all lines without a fault. The error is a fault of the head.
fn rows(text: &str, names: &Names, faults: &mut Vec<Fault>) -> Result<Vec<Number>, Fault> {
    let mut reader =
        csv::ReaderBuilder::new().comment(Some(b'#')).flexible(true).trim(csv::Trim::All).from_reader(text.as_bytes());
    let heads = reader.headers().map_err(|error| (1, error.to_string()))?.clone();
    let line = heads.position().map_or(1, csv::Position::line);
    check_heads(&heads).map_err(|why| (line, why))?;
    let mut numbers = Vec::new();
    for record in reader.records() {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                faults.push((error.position().map_or(0, csv::Position::line), error.to_string()));
                continue;
            }
        };
        let line = record.position().map_or(0, csv::Position::line);
        let cell = |head: &str| {
            let column = heads.iter().position(|found| found == head);
            column.and_then(|column| record.get(column)).unwrap_or_default()
        };
        if let Some(why) = torn(&record, &heads, names) {
            faults.push((line, why));
        } else if !cell("value").is_empty() {
            match row(&format!("line {line}"), names, cell) {
                Ok(number) => numbers.push(number),
                Err(why) => faults.push((line, why)),
            }
        }
    }
    Ok(numbers)
}

/// What is wrong with the names of the columns.
fn check_heads(heads: &csv::StringRecord) -> Result<(), String> {
    let known = [&NEEDED[..], &OPTIONAL[..]].concat();
    let all = known.join(", ");
    if let [head] = heads.iter().collect::<Vec<&str>>()[..] {
        for (mark, word) in [(';', "semicolons"), ('\t', "tabs")] {
            if head.contains(mark) {
                return Err(format!("its columns are separated by {word}. Separate them by commas, and write 1234.5"));
            }
        }
    }
    if !heads.iter().any(|head| known.contains(&head)) {
        return Err("the names of the columns are missing. Write name,value,unit above the numbers".to_owned());
    }
    if let Some(needed) = NEEDED.iter().find(|needed| !heads.iter().any(|head| head == **needed)) {
        return Err(format!("the column {needed} is missing. The columns are {all}"));
    }
    match heads.iter().find(|head| !known.contains(head)) {
        Some(head) => Err(format!("'{head}' is not a known column. The columns are {all}")),
        None => Ok(()),
    }
}

/// What a comma has torn into two cells.
fn torn(record: &csv::StringRecord, heads: &csv::StringRecord, names: &Names) -> Option<String> {
    let column = heads.iter().position(|head| head == "name")?;
    let whole = format!("{}, {}", record.get(column)?, record.get(column + 1)?);
    if names.is_plain(&whole) {
        return Some(format!("the name '{whole}' has a comma. Write it in quotation marks: \"{whole}\""));
    }
    let is_longer = record.iter().skip(heads.len()).any(|cell| !cell.is_empty());
    is_longer.then(|| {
        format!(
            "it has {} cells, and the table has {} columns. A cell with a comma stands in quotation marks",
            record.len(),
            heads.len()
        )
    })
}

/// A number from the cells of a line.
fn row<'a>(place: &str, names: &Names, cell: impl Fn(&str) -> &'a str) -> Result<Number, String> {
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
            "'{symbol}' is not a known unit. Units are ns, µs, ms, s, cycles, B, KiB, MB/s, Gbit/s, GHz and their like"
        )
    })?;
    let further = Labels::parse(cell("labels"))
        .ok_or_else(|| format!("'{}' are not labels. Labels are pairs, as in level=L2 pages=4k", cell("labels")))?;
    let (metric, labels) = names.figure(name)?;
    let labels = further.pairs().fold(labels, |labels, (key, value)| labels.with(key, value));
    names.check(&metric, &labels)?;
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
