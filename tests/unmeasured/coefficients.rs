//! The coefficients of predictions: what is committed is what the records give, and predictions of records that were left out are
//! as narrow and as right as they have to be.

use std::fs;
use std::path::Path;

use sysdyno::testing::experiments::models::coefficients::{Coefficients, Score, table};
use sysdyno::testing::experiments::models::fit::{Judged, Record, fit, left_out};

const RECORDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/records/fit");
const COEFFICIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/experiments/models/coefficients.json");
const SCORES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/records/predictions.md");

fn records() -> Vec<Record> {
    let mut paths: Vec<_> = fs::read_dir(RECORDS).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: &Path| {
        let name = path.file_stem().unwrap().to_str().unwrap();
        Record::parse(name, &fs::read_to_string(path).unwrap())
            .unwrap_or_else(|| panic!("{} is a record", path.display()))
    };
    paths.iter().map(|path| read(path)).collect()
}

fn fitted(records: &[Record]) -> Coefficients {
    let judged = all(&left_out(records, false, &|_| true));
    let digits = |value: f64| (value * 1e4).round() / 1e4;
    let score = Score::of(&judged).map(|score| Score {
        error: digits(score.error),
        width: digits(score.width),
        inside: digits(score.inside),
        within_two: digits(score.within_two),
        ..score
    });
    Coefficients { left_out: score, ..fit(&records.iter().collect::<Vec<_>>()) }
}

/// One line for each row: the binary contains this text.
fn lines(mut found: Coefficients) -> String {
    let row = |(name, row): (String, _)| {
        format!("{}:{}", serde_json::to_string(&name).unwrap(), serde_json::to_string(&row).unwrap())
    };
    let rows: Vec<String> = std::mem::take(&mut found.rows).into_iter().map(row).collect();
    let rest = serde_json::to_string(&found).unwrap();
    rest.replace("\"rows\":{}", &format!("\"rows\":{{\n{}\n}}", rows.join(",\n"))) + "\n"
}

#[test]
fn the_committed_coefficients_are_what_the_records_give() {
    let found = fitted(&records());
    if std::env::var_os("SYSDYNO_WRITE_COEFFICIENTS").is_some() {
        fs::write(COEFFICIENTS, lines(found)).unwrap();
        fs::write(SCORES, scores()).unwrap();
        return;
    }
    let message = "SYSDYNO_WRITE_COEFFICIENTS=1 cargo test --release --test unmeasured coefficients";
    assert!(found == *table(), "the records give other coefficients: {message}");
    assert!(fs::read_to_string(SCORES).unwrap() == scores(), "the records give other scores: {message}");
}

fn all(of: &[(String, Vec<Judged>)]) -> Vec<Judged> {
    of.iter().flat_map(|(_, judged)| judged.clone()).collect()
}

#[test]
fn predictions_of_sessions_that_were_left_out_are_narrow_and_hold() {
    let score = Score::of(&all(&left_out(&records(), false, &|_| true))).unwrap();
    assert!(score.count > 1000, "{score:?}");
    assert!(score.width <= 2.5, "{score:?}");
    assert!((0.85..=0.98).contains(&score.inside), "{score:?}");
    assert!(score.error <= 1.25, "{score:?}");
    assert!(score.within_two >= 0.95, "{score:?}");
}

/// What `predict --claims` predicts: primitives that are predicted themselves make ranges wider, and not wrong.
#[test]
fn predictions_without_measured_primitives_hold() {
    let score = Score::of(&all(&left_out(&records(), false, &is_cycle))).unwrap();
    assert!(score.count > 1000 && (0.85..=1.0).contains(&score.inside), "{score:?}");
    assert!(score.width <= 6.0 && score.error <= 1.5, "{score:?}");
}

const UNSEEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/records/unseen");
/// A wider range counts as no prediction.
const WIDEST: f64 = 4.0;

/// The primitive that is known before anything is measured.
fn is_cycle(metric: &str) -> bool {
    metric == "cpu.cycle_time"
}

/// What runs predicted of themselves in hours that no coefficient was fitted on: their names, predictions, and how many more were
/// too wide to count.
fn unseen() -> Vec<(String, Vec<Judged>, usize)> {
    let mut paths: Vec<_> = fs::read_dir(UNSEEN).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let judge = |row: csv::StringRecord| {
        let number = |column: usize| row[column].parse::<f64>().unwrap();
        let (value, predicted, low, high) = (number(2), number(3), number(4), number(5));
        let inside = (low..=high).contains(&value);
        Judged { metric: row[0].to_owned(), off: value / predicted, width: high / low, inside }
    };
    let read = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        let body: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let body = body.join("\n");
        let all: Vec<Judged> =
            csv::Reader::from_reader(body.as_bytes()).records().map(|row| judge(row.unwrap())).collect();
        let count = all.len();
        let narrow: Vec<Judged> = all.into_iter().filter(|one| one.width <= WIDEST).collect();
        let wide = count - narrow.len();
        (path.file_stem().unwrap().to_str().unwrap().to_owned(), narrow, wide)
    };
    paths.iter().map(|path| read(path)).collect()
}

#[test]
fn runs_in_hours_that_no_coefficient_knows_were_predicted() {
    let known: Vec<Option<String>> =
        fs::read_dir(RECORDS).unwrap().map(|entry| session(&entry.unwrap().path())).collect();
    for (name, judged, wide) in unseen() {
        let session = session(&Path::new(UNSEEN).join(format!("{name}.csv")));
        assert!(session.is_some() && !known.contains(&session), "{name}: {session:?} is fitted on");
        let score = Score::of(&judged).unwrap();
        assert!(score.count > 100 && wide < score.count / 2, "{name}: {wide} too wide, {score:?}");
        assert!(score.width <= 2.5 && score.inside >= 0.85, "{name}: {score:?}");
        assert!(score.error <= 1.25 && score.within_two >= 0.95, "{name}: {score:?}");
    }
}

/// Day and hour of a record.
fn session(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).unwrap();
    let found = text.lines().find_map(|line| line.strip_prefix("# session "))?;
    Some(found.split(' ').next().unwrap().to_owned())
}

/// The tables of `records/predictions.md`.
fn scores() -> String {
    let records = records();
    let row = |name: &str, judged: &[Judged]| {
        Score::of(judged).map_or_else(String::new, |score| {
            format!(
                "| {name} | {} | ×{:.2} | ×{:.2} | {:.1} % | {:.1} % |\n",
                score.count,
                score.error,
                score.width,
                score.inside * 100.0,
                score.within_two * 100.0
            )
        })
    };
    let mut text = "# Predictions of what they were not fitted on\n\n\
        Each row predicts figures of some records by coefficients that are fitted on the others. Runs of one session, one machine in one \
        hour, are left out together. The primitives are those of the record itself.\n\n\
        error: median factor between prediction and measurement. width: upper end of the range over its lower end, median.\n"
        .to_owned();
    let head = "| | figures | error | width | inside | within 2× |\n| --- | --: | --: | --: | --: | --: |\n";
    let (sessions, designs) = (left_out(&records, false, &|_| true), left_out(&records, true, &|_| true));
    text += &format!("\n## By record, its session left out\n\n{head}");
    for (name, judged) in &sessions {
        text += &row(name, judged);
    }
    text += &row("all", &all(&sessions));
    text += &format!("\n## By record, its whole design left out\n\n{head}");
    for (name, judged) in &designs {
        text += &row(name, judged);
    }
    text += &row("all", &all(&designs));
    text += &format!("\n## From the cycle time alone\n\nAll other primitives are predicted, too.\n\n{head}");
    text += &row("its session left out", &all(&left_out(&records, false, &is_cycle)));
    text += &row("its whole design left out", &all(&left_out(&records, true, &is_cycle)));
    text += "\n## Runs in hours that no coefficient was fitted on\n\n\
        By the run's own predictions, from its first launches. Ranges wider than a factor of 4 count as not predicted.\n\n";
    text += head;
    for (name, judged, wide) in &unseen() {
        text += &row(&format!("{name} ({wide} not predicted)"), judged);
    }
    text += &format!("\n## By metric, sessions left out\n\n{head}");
    let judged = all(&sessions);
    let mut metrics: Vec<&str> = judged.iter().map(|one| one.metric.as_str()).collect();
    metrics.sort_unstable();
    metrics.dedup();
    for metric in metrics {
        let of: Vec<Judged> = judged.iter().filter(|one| one.metric == metric).cloned().collect();
        text += &row(&format!("`{metric}`"), &of);
    }
    text
}
