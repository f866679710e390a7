//! Fitting the coefficients on records, and how good predictions by them are for records that they were not fitted on.

use std::collections::{BTreeMap, BTreeSet};

use super::coefficients::{Coefficients, Host, Ratio, Row, Score, design};
use super::families::model;
use super::key;
use super::model::Range;
use super::primitives::PRIMITIVES;
use crate::experiments::figure_name::FigureName;
use crate::experiments::prelude::*;
use crate::statistics::summary::quantile;

/// A run that was kept.
#[derive(Debug, Clone)]
pub struct Record {
    /// Its name.
    pub name: String,
    /// Its host.
    pub host: Host,
    /// Runs of one machine in one hour are one session: they say little about another.
    pub session: String,
    /// Metric, labels and value of its figures.
    pub figures: Vec<(String, Labels, f64)>,
}

/// Least factor of a range: what runs differ by on one machine.
const LEAST_SPREAD: f64 = 1.08;

/// Beyond the furthest session that was left out: few sessions have seen little.
const BEYOND: f64 = 1.6;

/// Sessions below which a design does not have its own spread.
const FEWEST_SESSIONS: usize = 2;

/// Sessions below which a design borrows what sessions of other designs differ by: few hours of a machine resemble each other.
const ENOUGH_SESSIONS: usize = 8;

/// Least factor of a range for other designs, where one design alone has the figure. By `records/`, the cost of a system call over that of a
/// clock read differs between designs by up to this.
const ONE_DESIGN: f64 = 2.0;

/// The current labels of a figure. System calls of older records are repeated calls, without the label `after`.
fn surrounded(metric: &str, labels: Labels) -> Labels {
    if metric != "os.system_call.time" || labels.get("after").is_some() {
        return labels;
    }
    match (labels.get("order"), labels.get("call")) {
        (Some(_), Some(call)) => Labels::of([("after", "other_calls"), ("call", call)]),
        _ => labels.with("after", "same_call"),
    }
}

impl Record {
    /// Reads a record as `scripts/keep-record` writes it; none where it is not one.
    pub fn parse(name: &str, text: &str) -> Option<Record> {
        let head = |key: &str| text.lines().find_map(|line| line.strip_prefix(&format!("# {key} ")));
        let body = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<&str>>().join("\n");
        let mut rows = csv::Reader::from_reader(body.as_bytes());
        let figure = |row: csv::StringRecord| {
            let (metric, labels) = (row.get(0)?.to_owned(), Labels::parse(row.get(1)?)?);
            let labels = surrounded(&metric, labels);
            Some((metric, labels, row.get(2)?.parse::<f64>().ok()?))
        };
        let figures = rows.records().map(|row| figure(row.ok()?)).collect::<Option<Vec<_>>>()?;
        let hypervisor = head("hypervisor").unwrap_or_default();
        let host = Host {
            design: design(head("design")?).to_owned(),
            kernel: head("kernel")?.to_owned(),
            hypervisor: hypervisor.to_owned(),
        };
        let session = head("session").unwrap_or(name).to_owned();
        Some(Record { name: name.to_owned(), host, session, figures })
    }

    fn find(&self, primitive: &FigureName) -> Option<f64> {
        let is_it =
            |metric: &str, labels: &Labels| primitive.is(metric, labels) && labels.get("distance") != Some("far");
        self.figures.iter().find(|(metric, labels, _)| is_it(metric, labels)).map(|(_, _, value)| *value)
    }

    /// Ratio, counted part and scale of every figure that a model reaches.
    fn ratios(&self) -> Vec<Reached<'_>> {
        // Calls were measured among others before they were measured in blocks: another question.
        let in_blocks = self.figures.iter().any(|(_, labels, _)| labels.get("after") == Some("other_calls"));
        // Children that borrow the memory of a large parent were measured in cold caches: another question too.
        let borrows = |labels: &Labels| {
            let how = labels.get("how").unwrap_or_default();
            ["vfork_wait", "posix_spawn_wait"].contains(&how) && labels.get("resident") != Some("0")
        };
        let answers = |metric: &str, labels: &Labels| {
            !borrows(labels)
                && (in_blocks || !metric.starts_with("os.system_call."))
                && labels.get("distance") != Some("far")
        };
        let asked = self.figures.iter().filter(|(metric, labels, _)| answers(metric, labels));
        asked.filter_map(|(metric, labels, value)| self.reached(metric, labels, *value)).collect()
    }

    fn reached<'a>(&self, metric: &'a str, labels: &'a Labels, value: f64) -> Option<Reached<'a>> {
        let (counted, scale) = model(metric, labels)?.known(&|primitive| self.find(primitive))?;
        let ratio = (value - counted) / scale;
        ratio.is_finite().then(|| Reached {
            key: key(metric, labels),
            metric,
            labels,
            fit: Fit { ratio, counted, scale, value },
        })
    }
}

/// A figure of a record that a model reaches.
struct Reached<'a> {
    key: String,
    metric: &'a str,
    labels: &'a Labels,
    fit: Fit,
}

/// What a record says of a coefficient.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Fit {
    /// The coefficient that gives the figure.
    ratio: f64,
    /// What the counted terms come to.
    counted: f64,
    /// What the coefficient multiplies.
    scale: f64,
    /// The figure.
    value: f64,
}

impl Fit {
    /// Measured over predicted with a coefficient; none where nothing positive is predicted.
    fn off(&self, ratio: f64) -> Option<f64> {
        let predicted = self.counted + ratio * self.scale;
        (predicted > 0.0 && self.value > 0.0).then(|| self.value / predicted)
    }
}

/// What runs say, by their session.
fn by_session<'a>(found: impl Iterator<Item = &'a (String, Fit)>) -> Vec<Vec<Fit>> {
    let mut sessions: BTreeMap<&str, Vec<Fit>> = BTreeMap::new();
    for (session, fit) in found {
        sessions.entry(session).or_default().push(*fit);
    }
    sessions.into_values().collect()
}

/// The median of the medians of some sessions.
fn middle<'a>(sessions: impl Iterator<Item = &'a Vec<Fit>>) -> Option<f64> {
    let median_of = |runs: &Vec<Fit>| median(&runs.iter().map(|run| run.ratio).collect::<Vec<f64>>());
    median(&sessions.filter_map(median_of).collect::<Vec<f64>>())
}

/// Logarithms of what each run is away from what the sessions other than its own predict.
fn distances(sessions: &[Vec<Fit>]) -> Vec<f64> {
    let of_one = |(index, runs): (usize, &Vec<Fit>)| {
        let others = sessions.iter().enumerate().filter(|(at, _)| *at != index).map(|(_, runs)| runs);
        let middle = middle(others);
        let off = |run: &Fit| Some(run.off(middle?)?.ln().abs());
        runs.iter().filter_map(off).collect::<Vec<f64>>()
    };
    sessions.iter().enumerate().flat_map(of_one).collect()
}

/// A new session deviates from the middle of some, which deviates itself.
fn few(sessions: usize) -> f64 {
    (1.0 + 1.0 / sessions as f64).sqrt()
}

/// The coefficient of some sessions, with the factor within which nine of ten runs lie of what the sessions other than their own
/// predict. `lent` are such distances of other designs, for a design of few sessions. None where it would take something away.
fn ratio_of(sessions: &[Vec<Fit>], lent: &[f64]) -> Option<Ratio> {
    if sessions.len() < FEWEST_SESSIONS {
        return None;
    }
    let own = distances(sessions);
    let borrows = sessions.len() < ENOUGH_SESSIONS;
    let known: Vec<f64> = own.iter().chain(lent.iter().filter(|_| borrows)).copied().collect();
    let furthest = quantile(&own, 0.9)?.max(quantile(&known, 0.9)?);
    let spread = (furthest * few(sessions.len()) * BEYOND).exp().max(LEAST_SPREAD);
    let ratio = four_digits(middle(sessions.iter())?);
    (ratio > 0.0).then(|| Ratio { ratio, spread: four_digits(spread), records: own.len() as u32 })
}

/// Share by which the core clock of each design moves between runs, by records of enough sessions.
fn clocks(records: &[&Record]) -> BTreeMap<String, f64> {
    let mut designs: BTreeMap<&str, Vec<(&str, f64)>> = BTreeMap::new();
    for record in records {
        let clock = record.figures.iter().find(|(metric, ..)| metric == "cpu.frequency.core");
        let of = designs.entry(&record.host.design).or_default();
        of.extend(clock.map(|(.., hertz)| (record.session.as_str(), *hertz)));
    }
    let moves = |found: &[(&str, f64)]| {
        let sessions = found.iter().map(|(session, _)| session).collect::<BTreeSet<_>>().len();
        let middle = median(&found.iter().map(|(_, hertz)| *hertz).collect::<Vec<f64>>())?;
        let off: Vec<f64> = found.iter().map(|(_, hertz)| (hertz / middle).ln().abs()).collect();
        let furthest = quantile(&off, 0.95).filter(|_| sessions >= ENOUGH_SESSIONS)?;
        Some(four_digits(furthest * few(sessions) * BEYOND))
    };
    designs.into_iter().filter_map(|(design, found)| Some((design.to_owned(), moves(&found)?))).collect()
}

fn four_digits(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// The coefficients of some records.
pub fn fit(records: &[&Record]) -> Coefficients {
    /// Session of each record and what it says, by design.
    type Found = BTreeMap<String, Vec<(String, Fit)>>;
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    for record in records {
        for reached in record.ratios() {
            let of = found.entry(reached.key).or_default().entry(record.host.design.clone()).or_default();
            of.push((record.session.clone(), reached.fit));
        }
    }
    let row = |designs: Found| {
        let mut all = ratio_of(&by_session(designs.values().flatten()), &[])?;
        if designs.len() == 1 {
            all.spread = all.spread.max(ONE_DESIGN);
        }
        let sessions: Vec<(String, Vec<Vec<Fit>>)> =
            designs.into_iter().map(|(design, found)| (design, by_session(found.iter()))).collect();
        let ratio = |(design, own): &(String, Vec<Vec<Fit>>)| {
            let others = sessions.iter().filter(|(other, _)| other != design);
            let lent: Vec<f64> = others.flat_map(|(_, sessions)| distances(sessions)).collect();
            Some((design.clone(), ratio_of(own, &lent)?))
        };
        let designs = sessions.iter().filter_map(ratio).collect();
        Some(Row { all, designs })
    };
    Coefficients {
        records: records.iter().map(|record| record.name.clone()).collect(),
        kernels: records.iter().map(|record| record.host.kernel.clone()).collect(),
        hypervisors: records.iter().map(|record| record.host.hypervisor.clone()).collect(),
        left_out: None,
        clocks: clocks(records),
        rows: found.into_iter().filter_map(|(key, designs)| Some((key, row(designs)?))).collect(),
    }
}

/// A prediction of a figure that it was not fitted on.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Its metric.
    pub metric: String,
    /// Measured over predicted.
    pub off: f64,
    /// Upper end of the range over its lower end.
    pub width: f64,
    /// Whether the range holds the measurement.
    pub inside: bool,
}

/// Predicts every figure of a record by the coefficients of others. Primitives that are not known are predicted by those before them.
pub fn judge(record: &Record, by: &Coefficients, is_known: &dyn Fn(&str) -> bool) -> Vec<Judged> {
    let mut primitives: Vec<(FigureName, Range)> = Vec::new();
    for primitive in PRIMITIVES {
        let found = if is_known(primitive.metric()) {
            record.find(&primitive).map(|value| (value, value, value))
        } else {
            predicted(primitive.metric(), &primitive.usual_labels(), &record.host, by, &primitives)
        };
        primitives.extend(found.map(|range| (primitive, range)));
    }
    let judged = |reached: Reached<'_>| {
        let (value, low, high) = predicted(reached.metric, reached.labels, &record.host, by, &primitives)?;
        let measured = reached.fit.value;
        let inside = (low..=high).contains(&measured);
        let off = (value > 0.0 && measured > 0.0).then(|| measured / value)?;
        Some(Judged { metric: reached.metric.to_owned(), off, width: high / low, inside })
    };
    record.ratios().into_iter().filter_map(judged).collect()
}

/// The range of a figure by its primitives and a coefficient; none where one is missing.
fn predicted(
    metric: &str,
    labels: &Labels,
    host: &Host,
    by: &Coefficients,
    primitives: &[(FigureName, Range)],
) -> Option<Range> {
    let found = by.find(&key(metric, labels), host)?;
    let of = |primitive: &FigureName| Some(primitives.iter().find(|(known, _)| known == primitive)?.1);
    let (counted, last) = model(metric, labels)?.ranges(found.ratio, found.spread, &of)?;
    let sum = |sum: Range, range: &Range| (sum.0 + range.0, sum.1 + range.1, sum.2 + range.2);
    Some(counted.iter().fold(last, sum))
}

impl Score {
    /// Of some predictions; none without any.
    pub fn of(judged: &[Judged]) -> Option<Score> {
        let errors: Vec<f64> = judged.iter().map(|one| one.off.ln().abs()).collect();
        let share = |is: &dyn Fn(&Judged) -> bool| {
            judged.iter().filter(|one| is(one)).count() as f64 / judged.len().max(1) as f64
        };
        Some(Score {
            count: judged.len(),
            error: median(&errors)?.exp(),
            width: median(&judged.iter().map(|one| one.width).collect::<Vec<f64>>())?,
            inside: share(&|one| one.inside),
            within_two: share(&|one| one.off.ln().abs() <= std::f64::consts::LN_2),
        })
    }
}

/// Predictions of each record by the others: those of its session are left out with it, or all of its design. `is_known` says
/// which primitives the record itself gives, by their metric.
pub fn left_out(records: &[Record], whole_design: bool, is_known: &dyn Fn(&str) -> bool) -> Vec<(String, Vec<Judged>)> {
    records
        .iter()
        .map(|record| {
            let is_other = |other: &&Record| {
                if whole_design { other.host.design != record.host.design } else { other.session != record.session }
            };
            let others: Vec<&Record> = records.iter().filter(is_other).collect();
            (record.name.clone(), judge(record, &fit(&others), is_known))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, design: &str, switch: f64, signal: f64) -> Record {
        let text = format!(
            "# design {design}\n# kernel 6.18\n# hypervisor KVM\nname,labels,value\n\
             os.context_switch.time,between=processes placement=same_cpu through=pipe,{switch}\n\
             os.signal.time,how=install,{signal}\n"
        );
        Record::parse(name, &text).unwrap()
    }

    #[test]
    fn a_figure_that_goes_with_its_primitive_is_predicted_on_a_new_host() {
        let records =
            [record("a", "one", 1000.0, 100.0), record("b", "one", 2000.0, 210.0), record("c", "two", 4000.0, 400.0)];
        let all: Vec<&Record> = records.iter().collect();
        let fitted = fit(&all);
        let row = &fitted.rows["os.signal.time how=install"];
        assert!((row.all.ratio - 0.1).abs() < 1e-9 && row.all.records == 3, "{row:?}");
        assert!(row.designs.contains_key("one") && !row.designs.contains_key("two"));
        let new = record("d", "two", 8000.0, 820.0);
        let judged = judge(&new, &fitted, &|_| true);
        assert!(judged.len() == 1 && judged[0].inside && (judged[0].off - 1.025).abs() < 1e-9, "{judged:?}");
        let score = Score::of(&judged).unwrap();
        assert!(score.inside > 0.99 && score.within_two > 0.99 && score.width < 2.5, "{score:?}");
    }

    #[test]
    fn a_figure_of_one_design_says_little_of_others() {
        let records = [record("a", "one", 1000.0, 100.0), record("b", "one", 1000.0, 101.0)];
        let row = &fit(&records.iter().collect::<Vec<_>>()).rows["os.signal.time how=install"];
        assert!(row.designs["one"].spread < 1.1 && row.all.spread > 1.9, "{row:?}");
    }

    #[test]
    fn a_design_of_few_sessions_borrows_what_others_differ_by() {
        let spread = |records: &[Record]| {
            let fitted = fit(&records.iter().collect::<Vec<_>>());
            fitted.rows["os.signal.time how=install"].designs["new"].spread
        };
        let alike = [record("x", "new", 1000.0, 100.0), record("y", "new", 1000.0, 101.0)];
        let known = [record("a", "one", 1000.0, 100.0), record("b", "one", 1000.0, 150.0)];
        let borrowed = [alike.as_slice(), known.as_slice()].concat();
        assert!(spread(&alike) < 1.1 && spread(&borrowed) > 1.5, "{} {}", spread(&alike), spread(&borrowed));
        // Of many sessions it knows itself.
        let many: Vec<Record> = (0..8).map(|number| record(&format!("m{number}"), "new", 1000.0, 100.0)).collect();
        assert!(spread(&[many.as_slice(), known.as_slice()].concat()) < 1.1);
    }

    #[test]
    fn an_unseen_kernel_widens_the_range() {
        let records = [record("a", "one", 1000.0, 100.0), record("b", "one", 2000.0, 210.0)];
        let fitted = fit(&records.iter().collect::<Vec<_>>());
        let host = records[0].host.clone();
        let near = fitted.find("os.signal.time how=install", &host).unwrap();
        let far = fitted.find("os.signal.time how=install", &Host { kernel: "5.15".to_owned(), ..host }).unwrap();
        assert!(far.spread > 1.2 * near.spread);
    }

    #[test]
    fn a_text_that_is_no_record_is_none() {
        assert!(Record::parse("x", "name,labels,value\n").is_none());
    }
}
