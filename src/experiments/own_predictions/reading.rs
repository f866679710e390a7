//! The filled form: read whole, and refused with the line of the first fault, before a run does anything.

use std::fmt;
use std::path::Path;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::figures;
use crate::experiments::TABLE;
use crate::results::document::record;
use crate::results::own_prediction::{OwnPrediction, OwnPredictions};
use crate::results::problem::Problem;
use crate::results::quantity::{Labels, Unit};
use crate::results::wording::{some, unit_symbols};
use crate::setup::Setup;
use crate::sys::file;

/// A form of everything is far smaller.
const MOST_BYTES: u64 = 1 << 20;
/// How to get a form.
const FORM: &str = "`sysdyno predict --blank` prints a form";
/// Labels of other figures that a hint has at most.
const MOST_NAMED: usize = 3;

/// The predictions of a file whose words and numbers are checked. Which figures a machine has is open.
#[derive(Debug)]
pub struct OwnFile {
    author: Option<String>,
    filled: Vec<Filled>,
}

/// An entry that is filled in.
#[derive(Debug)]
struct Filled {
    /// File and line.
    at: String,
    /// Line of the metric.
    line: usize,
    own: OwnPrediction,
}

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    #[serde(default)]
    author: String,
    #[serde(default)]
    prediction: Vec<Entry>,
}

/// An entry as it stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    metric: Spanned<String>,
    #[serde(default)]
    labels: Labels,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    value: Field,
    #[serde(default)]
    low: Field,
    #[serde(default)]
    high: Field,
    #[serde(default)]
    reason: String,
}

/// A number, in quotation marks or not; none where it is left blank.
#[derive(Default, Clone, Copy)]
struct Field(Option<f64>);

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldVisitor)
    }
}

struct FieldVisitor;

impl Visitor<'_> for FieldVisitor {
    type Value = Field;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a number, or \"\" for none")
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Field, E> {
        Ok(Field(Some(value as f64)))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Field, E> {
        Ok(Field(Some(value)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Field, E> {
        match text.trim() {
            "" => Ok(Field(None)),
            text => text.parse().map(|value| Field(Some(value))).map_err(|_| {
                E::custom(format!(
                    "'{text}' is not a number. Write digits with a point, as in 1.5, and the unit in `unit`"
                ))
            }),
        }
    }
}

impl OwnFile {
    /// Reads a file.
    pub fn read(place: &Path) -> Result<Self, Problem> {
        let name = place.display().to_string();
        let unreadable =
            |why: &dyn fmt::Display| Problem::new(format!("cannot read the predictions {name}: {why}")).hint(FORM);
        let bytes = file::open_at_once(place).and_then(|file| file::read_open(file, MOST_BYTES));
        let text = String::from_utf8(bytes.map_err(|error| unreadable(&error))?).map_err(|error| unreadable(&error))?;
        OwnFile::parse(&name, &text)
    }

    /// Checks the text of a file with this name.
    pub fn parse(name: &str, text: &str) -> Result<Self, Problem> {
        let line = |position: usize| text.bytes().take(position).filter(|&byte| byte == b'\n').count() + 1;
        let form: Form = toml::from_str(text).map_err(|error| {
            let place = error.span().map_or_else(String::new, |span| format!(", line {}", line(span.start)));
            Problem::new(format!("{name}{place}: {}", error.message().replace('\n', ", "))).hint(format!(
                "a number is value = 50, a blank field value = \"\", and a text stands in quotation marks. {FORM}"
            ))
        })?;
        let mut filled = Vec::new();
        for entry in form.prediction {
            let line = line(entry.metric.span().start);
            if let Some(own) = entry.filled_at(&format!("{name}, line {line}"))? {
                filled.push(Filled { at: format!("{name}, line {line}"), line, own });
            }
        }
        if filled.is_empty() {
            return Err(Problem::new(format!("{name} has no prediction, because each entry is blank"))
                .hint(format!("fill in value, low, high and reason of a figure. {FORM}")));
        }
        let author = one_line(&form.author);
        Ok(OwnFile { author: (!author.is_empty()).then_some(author), filled })
    }

    /// The predictions with all labels of their figures. Figures of a peer or of remote files are known only when these are.
    pub fn of_machine(self, setup: &Setup) -> Result<OwnPredictions, Problem> {
        let known = figures(setup);
        let not_asked = setup.has_peer && setup.peer.is_none() || setup.remote_ways > 0 && setup.remote.is_none();
        let mut predictions: Vec<OwnPrediction> = Vec::new();
        let mut lines: Vec<usize> = Vec::new();
        for Filled { at, line, mut own } in self.filled {
            let title = record(&own.metric, &own.labels);
            let of_metric: Vec<_> = known.iter().filter(|(_, found)| found.metric == own.metric).collect();
            let wanted = own.labels.without_conditions();
            let mut fitting: Vec<_> = of_metric.iter().filter(|(labels, _)| labels.includes(&wanted)).collect();
            if let Some(exact) = fitting.iter().position(|(labels, _)| *labels == wanted) {
                fitting = vec![fitting[exact]];
            }
            let least = match fitting.as_slice() {
                [(labels, found)] => {
                    own.labels.clone_from(labels);
                    found.low
                }
                [] if not_asked => f64::MIN_POSITIVE,
                others => {
                    let all: Vec<String> = of_metric.iter().map(|(labels, _)| labels.to_string()).collect();
                    let (what, hint) = match others {
                        [] if all.is_empty() => ("is not predicted on this machine", "leave it blank".to_owned()),
                        [] => ("is not a figure of this machine", format!("it has {}", some(&all, MOST_NAMED))),
                        several => {
                            let labels: Vec<String> = several.iter().map(|(labels, _)| labels.to_string()).collect();
                            ("names several figures", format!("add labels of one of {}", some(&labels, MOST_NAMED)))
                        }
                    };
                    return Err(Problem::new(format!("{at}: {title} {what}"))
                        .hint(format!("{hint}. `sysdyno predict --blank --all` lists every figure")));
                }
            };
            // Shares, and differences whose range reaches 0, can be nothing.
            if own.low <= 0.0 && least > 0.0 && own.unit != Unit::One {
                return Err(Problem::new(format!("{at}: {title}: a number that is not above 0"))
                    .hint("this cost cannot be 0 or less. Give low, value and high above 0"));
            }
            if let Some(place) = predictions.iter().position(|other| other.is_for(&own.metric, &own.labels)) {
                return Err(Problem::new(format!("{at}: {title} is predicted in line {} already", lines[place]))
                    .hint("keep one of both entries"));
            }
            predictions.push(own);
            lines.push(line);
        }
        Ok(OwnPredictions { author: self.author, predictions })
    }
}

impl Entry {
    /// The prediction; none where the entry is blank.
    fn filled_at(self, at: &str) -> Result<Option<OwnPrediction>, Problem> {
        let metric = self.metric.into_inner();
        let title = record(&metric, &self.labels);
        let reason = one_line(&self.reason);
        let refuse = |why: &str, hint: &str| Err(Problem::new(format!("{at}: {title}: {why}")).hint(hint));
        let (value, low, high) = match [self.value, self.low, self.high].map(|Field(number)| number) {
            [None, None, None] if reason.is_empty() => return Ok(None),
            [None, ..] => {
                return refuse("a range or a reason without a value", "give a value, or leave all fields blank");
            }
            [Some(value), Some(low), Some(high)] => (value, low, high),
            _ => {
                return refuse(
                    "a value without a range",
                    "give low and high, between which you expect the result at 90 %",
                );
            }
        };
        if reason.is_empty() {
            return refuse("a value without a reason", "say in a few words what the value consists of");
        }
        let Some(unit) = TABLE.iter().find_map(|found| found.publication(&metric)).map(|found| found.unit) else {
            let metrics = TABLE.iter().flat_map(|experiment| experiment.publishes).map(|found| found.metric);
            let like = |name: &str| strsim::jaro_winkler(name, &metric);
            let near = metrics.max_by(|one, other| like(one).total_cmp(&like(other))).unwrap_or_default();
            return Err(Problem::new(format!("{at}: unknown figure '{metric}'"))
                .hint(format!("did you mean {near}? `sysdyno predict --blank --all` lists every figure")));
        };
        let symbols = format!("write one of {}", unit_symbols(unit).join(", "));
        let factor = match Unit::read(&self.unit) {
            Some((found, factor)) if found == unit => factor,
            Some(_) => return refuse(&format!("'{}' is a unit of another kind", self.unit), &symbols),
            None => return refuse(&format!("unknown unit '{}'", self.unit), &symbols),
        };
        let [value, low, high] = [value, low, high].map(|number| number * factor);
        let own = OwnPrediction { metric, labels: self.labels, unit, value, low, high, reason };
        if ![low, value, high].iter().all(|number| number.is_finite()) {
            return refuse("a number that is not finite", "give numbers such as 50 or 1.5e3");
        }
        if !own.is_ordered() {
            return refuse("the value is outside its range", "low is at most the value, and high at least the value");
        }
        Ok(Some(own))
    }
}

/// Words without breaks of lines.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::own_predictions::{Shown, form};
    use crate::results::peer::Peer;

    fn setup() -> Setup {
        let machine = crate::machine::detect(Path::new("/proc/nonexistent"), Path::new("/"));
        Setup::of(machine, 0, vec![0], crate::setup::Profile::Default)
    }

    fn entry(metric: &str, rest: &str) -> String {
        format!("[[prediction]]\nmetric = \"{metric}\"\n{rest}\n")
    }

    const CLOCK: &str = "labels = { method = \"clock_gettime\" }\nunit = \"ns\"\n";
    const RANGE: &str = "value = 50\nlow = 30.5\nhigh = \"80\"\nreason = \"a call\"";

    fn clock(rest: &str) -> String {
        entry("cpu.timer.overhead", &format!("{CLOCK}{rest}"))
    }

    fn read(text: &str) -> Result<OwnPredictions, Problem> {
        OwnFile::parse("mine.toml", text)?.of_machine(&setup())
    }

    #[test]
    fn a_filled_entry_is_read_in_its_unit_and_blank_ones_are_skipped() {
        let blank = clock("value = \"\"\nlow = \" \"\nhigh = \"\"\nreason = \"\"");
        let disk = "unit = \"GB/s\"\nvalue = 1\nlow = 0.5\nhigh = 2\nreason = \"\"\"a\n copy\"\"\"";
        let text = format!(
            "author = \" group  7\"\n{blank}{}{}{}",
            clock(RANGE),
            entry("nothing.at_all", ""),
            entry(
                "memory.bandwidth.rate",
                &format!("labels = {{ level = \"64MiB\", operation = \"copy\", threads = \"1\" }}\n{disk}")
            ),
        );
        let read = read(&text).unwrap();
        assert_eq!(read.author.as_deref(), Some("group 7"));
        let found: Vec<_> =
            read.predictions.iter().map(|own| (own.unit, own.low, own.value, own.high, own.reason.as_str())).collect();
        let expected =
            [(Unit::Nanoseconds, 30.5, 50.0, 80.0, "a call"), (Unit::BytesPerSecond, 0.5e9, 1e9, 2e9, "a copy")];
        assert_eq!(found, expected);
    }

    #[test]
    fn each_fault_is_refused_with_its_line_and_a_hint() {
        let twice = format!("{}{}", clock(RANGE), clock(RANGE));
        let numbers = |value: &str, low: &str, high: &str| {
            clock(&format!("value = {value}\nlow = {low}\nhigh = {high}\nreason = \"r\""))
        };
        let with_unit = |unit: &str| clock(RANGE).replace("\"ns\"", &format!("\"{unit}\""));
        for (text, line, what) in [
            (String::new(), 0, "each entry is blank"),
            (clock("value = \"\""), 0, "each entry is blank"),
            ("author = group\n".to_owned(), 1, ""),
            (clock("value =\n"), 5, ""),
            (clock("value = \"fifty\""), 5, "'fifty' is not a number"),
            (clock("value = \"50 ns\""), 5, "'50 ns' is not a number"),
            (clock("valeu = 50"), 5, "unknown field `valeu`"),
            ("figure = 1\n".to_owned(), 1, "unknown field `figure`"),
            (entry("cpu.timer.overheat", RANGE), 2, "unknown figure 'cpu.timer.overheat'"),
            (clock(RANGE).replace("clock_gettime", "sundial"), 2, "is not a figure of this machine"),
            (entry("cpu.timer.overhead", &format!("unit = \"ns\"\n{RANGE}")), 2, "names several figures"),
            (with_unit("hours"), 2, "unknown unit 'hours'"),
            (with_unit("fortnights"), 2, "unknown unit 'fortnights'"),
            (with_unit(""), 2, "unknown unit ''"),
            (with_unit("GB/s"), 2, "'GB/s' is a unit of another kind"),
            (with_unit("cycles"), 2, "'cycles' is a unit of another kind"),
            (clock("value = 50\nreason = \"r\""), 2, "a value without a range"),
            (clock("value = 50\nlow = 40\nreason = \"r\""), 2, "a value without a range"),
            (clock("low = 40\nhigh = 60"), 2, "without a value"),
            (clock("reason = \"r\""), 2, "without a value"),
            (clock(&RANGE.replace("a call", " ")), 2, "a value without a reason"),
            (numbers("90", "30", "80"), 2, "the value is outside its range"),
            (numbers("50", "80", "30"), 2, "the value is outside its range"),
            (numbers("inf", "30", "inf"), 2, "a number that is not finite"),
            (numbers("nan", "30", "80"), 2, "a number that is not finite"),
            (numbers("50", "30", "\"NaN\""), 2, "a number that is not finite"),
            (numbers("1e308", "1", "1e308").replace("\"ns\"", "\"s\""), 2, "a number that is not finite"),
            (numbers("50", "0", "80"), 2, "a number that is not above 0"),
            (numbers("-5", "-9", "-1"), 2, "a number that is not above 0"),
            (twice, 10, "is predicted in line 2 already"),
        ] {
            let problem = read(&text).expect_err(&text);
            let place = if line == 0 { "mine.toml".to_owned() } else { format!("mine.toml, line {line}: ") };
            assert!(problem.what.starts_with(&place) && problem.what.contains(what), "{text}\n{problem}");
            assert!(problem.hint.is_some_and(|hint| hint.len() > 10), "{text}");
        }
    }

    #[test]
    fn every_entry_of_a_form_is_a_figure_of_its_machine_and_none_is_there_twice() {
        for (shown, least) in [(Shown::Costs, 25), (Shown::All, 200)] {
            let blank = form(TABLE, &setup(), shown);
            let filled = blank.replace("value = \"\"\nlow = \"\"\nhigh = \"\"\nreason = \"\"", RANGE);
            let read = read(&filled).unwrap();
            assert!(read.predictions.len() >= least, "{}", read.predictions.len());
            assert_eq!((read.predictions.len(), read.author), (blank.matches("[[prediction]]").count(), None));
        }
    }

    #[test]
    fn figures_of_a_peer_are_open_until_it_answers() {
        let peer = entry(
            "network.round_trip.time",
            &format!("labels = {{ path = \"remote\", protocol = \"tcp\" }}\nunit = \"us\"\n{RANGE}"),
        );
        assert!(read(&peer).is_err(), "none is named");
        let named = Setup { has_peer: true, ..setup() };
        let of = |setup: &Setup| OwnFile::parse("mine.toml", &peer)?.of_machine(setup);
        assert!((of(&named).unwrap().predictions[0].value - 50e3).abs() < 1e-9);
        let peer_facts = Peer {
            address: "192.0.2.7".to_owned(),
            port: 7,
            local_address: "192.0.2.1".to_owned(),
            interface: None,
            on_link: true,
            started: "by hand".to_owned(),
            version: "0.1.0".to_owned(),
            machine: setup().machine,
        };
        let answered = Setup { has_peer: true, peer: Some(peer_facts), ..setup() };
        assert!(of(&answered).unwrap_err().what.contains("names several figures"));
    }
}
