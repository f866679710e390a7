//! Reports: what they print is what the records say, and a page is one file that asks for nothing.
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use crate::support::runs::{finished_run, output, told};
use html5gum::{Token, Tokenizer};
use sysdyno::testing::report::page::Analysis;
use sysdyno::testing::report::{content, csv, html, json, markdown, screen, terminal, text};
use sysdyno::testing::results::document::{CheckOutcome, Document, Grade, Metric, Outcome};
use sysdyno::testing::results::log::{self, Log};
use sysdyno::testing::results::prediction::{Basis, Prediction};
use sysdyno::testing::results::published::Published;
use sysdyno::testing::results::quantity::{Labels, Unit};
use sysdyno::testing::results::verdict::AgainstPrediction;
use sysdyno::testing::results::wording::{factor, measured, percent, quantity, rough};
use sysdyno::testing::{assemble, experiments::consistency};

/// A real run of every experiment that there was.
pub(crate) fn record() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(|| {
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("records/guest-zen4-2cpu-chapters/log.jsonl");
        log::read(&place).unwrap()
    })
}

pub(crate) fn real() -> &'static Document {
    static DOCUMENT: OnceLock<Document> = OnceLock::new();
    DOCUMENT.get_or_init(|| assemble::document(record()))
}

pub(crate) fn golden(name: &str) -> Document {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.jsonl"));
    assemble::document(&log::read(&place).unwrap())
}

fn page_of(document: &Document) -> String {
    html::render(&content::page(document))
}

// Form.

/// Elements without an end tag.
const VOID: [&str; 5] = ["meta", "link", "br", "hr", "img"];
/// Attributes that make a browser ask for something.
const FETCHES: [&str; 8] = ["src", "srcset", "data", "poster", "action", "background", "xlink:href", "formaction"];

/// Ends cells and rows whose end tag HTML lets be left out: before the tag of a name.
fn close_what_ends_by_itself(open: &mut Vec<String>, next: &str) {
    let ends: &[&str] = match next {
        "td" | "th" => &["td", "th"],
        "tr" | "tbody" | "thead" | "table" => &["td", "th", "tr"],
        _ => &[],
    };
    // A table inside a cell would begin here; there is none.
    while open.last().is_some_and(|last| ends.contains(&last.as_str())) {
        open.pop();
    }
}

/// Reads a page strictly: every tag closed in order, every anchor there, nothing fetched.
pub(crate) fn assert_sound(page: &str) {
    let mut open: Vec<String> = Vec::new();
    let (mut ids, mut links) = (Vec::new(), Vec::new());
    let mut last_heading = 0;
    for token in Tokenizer::new(page) {
        match token.unwrap() {
            Token::StartTag(tag) => {
                let name = String::from_utf8(tag.name.to_vec()).unwrap();
                close_what_ends_by_itself(&mut open, &name);
                for (key, value) in &tag.attributes {
                    let key = String::from_utf8(key.to_vec()).unwrap();
                    let value = String::from_utf8(value.to_vec()).unwrap();
                    assert!(!FETCHES.contains(&key.as_str()), "<{name} {key}={value}> fetches");
                    assert!(!key.starts_with("on"), "<{name} {key}>: behaviour belongs to the script");
                    match key.as_str() {
                        "id" => ids.push(value),
                        "href" if value.starts_with('#') => links.push(value[1..].to_owned()),
                        "href" if value.split('#').next() == Some("appendix.html") || value == "published.html" => {}
                        "href" => assert_eq!(value, "data:,", "<{name}> leads out of the file"),
                        _ => {}
                    }
                }
                if let Some(level) = name.strip_prefix('h').and_then(|level| level.parse::<u8>().ok()) {
                    assert!(level <= last_heading + 1, "h{level} follows h{last_heading}");
                    last_heading = level;
                }
                if !tag.self_closing && !VOID.contains(&name.as_str()) {
                    open.push(name);
                }
            }
            Token::EndTag(tag) => {
                let name = String::from_utf8(tag.name.to_vec()).unwrap();
                close_what_ends_by_itself(&mut open, &name);
                assert_eq!(open.pop().as_deref(), Some(name.as_str()), "</{name}> closes another element");
            }
            Token::Error(error) => panic!("the page has an error: {}", error.value),
            _ => {}
        }
    }
    assert!(open.is_empty(), "not closed: {open:?}");
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count, "anchors are unique");
    for link in links {
        assert!(ids.contains(&link), "nothing is at #{link}");
    }
    for request in ["url(", "@import", "fetch(", "XMLHttpRequest", "import(", "sendBeacon", "WebSocket"] {
        assert!(!page.contains(request), "the page has {request}");
    }
}

#[test]
fn a_page_is_one_sound_file_that_asks_for_nothing() {
    let page = page_of(real());
    assert_sound(&page);
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    for name in ["complete", "died", "failed_launch", "skipped_step", "truncated"] {
        assert_sound(&page_of(&golden(name)));
    }
}

#[test]
fn published_figures_have_a_page_and_the_appendix_links_it() {
    let page = content::published_page(real(), &Published::embedded());
    let text = html::render(&page);
    assert_sound(&text);
    let appendix = page_of(real());
    let figure = "451.775 ns";
    assert!(text.contains(figure) && text.contains("doubtful: ") && !appendix.contains(figure));
    assert!(appendix.contains("href=\"published.html\""), "the appendix links the page");
    // The authors' predictions, counted from the data by hand.
    let row = text.split("all reports<").nth(1).unwrap();
    let row = &row[..row.find("<tr").unwrap()];
    assert!(["131", "×1.56", "×1054"].iter().all(|number| row.contains(number)), "{row}");
    // One doubted value of 34 days, and no axis that reaches it.
    for (name, drawing) in markdown::drawings(&page) {
        assert!(!drawing.contains(">1000000 s<") && !drawing.contains(">10000 s<"), "{name}");
    }
}

#[test]
fn drawings_are_files_of_their_own_and_markdown_links_them_all() {
    let page = content::page(real());
    let text = markdown::render(&page);
    let drawings = markdown::drawings(&page);
    assert!(drawings.len() > 15, "{} drawings", drawings.len());
    for (name, svg) in &drawings {
        assert!(text.contains(&format!("](figures/{name})")), "{name} is not linked");
        assert_sound(&svg.replace(" xmlns=\"http://www.w3.org/2000/svg\"", ""));
        assert!(svg.starts_with("<svg xmlns=") && svg.contains("<title>") && !svg.contains("NaN"), "{name}");
    }
    assert_eq!(text.matches("](figures/").count(), drawings.len());
}

#[test]
fn a_drawing_of_its_own_needs_nothing_that_converters_lack() {
    let pages = [
        content::page(real()),
        content::brief(real(), None, content::OtherPages::Beside),
        content::published_page(real(), &Published::embedded()),
    ];
    for (name, svg) in pages.iter().flat_map(markdown::drawings) {
        let (style, rest) = svg.split_once("</style>").unwrap();
        for lacking in ["var(", "--", "@", "font:", "outline", "currentColor"] {
            assert!(!style.split_once("<style>").unwrap().1.contains(lacking), "{name} has {lacking}");
        }
        for lacking in [" style=", "var(", "currentColor", "foreignObject", "href="] {
            assert!(!rest.contains(lacking), "{name} has {lacking}");
        }
        // A white ground below everything, and each class with a rule.
        assert!(rest.starts_with("<rect class=\"ground\"") && style.contains(".drawing .ground{fill:#fff}"), "{name}");
        let classes =
            rest.split(" class=\"").skip(1).filter_map(|after| after.split_once('"')).flat_map(|(of, _)| of.split(' '));
        for series in classes.filter(|class| class.len() == 2 && class.starts_with('s')) {
            assert!(style.contains(&format!(".l.{series}{{stroke:#")), "{name} has no colour for {series}");
        }
    }
}

#[test]
fn a_run_writes_all_of_it() {
    let run = finished_run();
    assert_sound(&fs::read_to_string(run.join("report.html")).unwrap());
    assert_sound(&fs::read_to_string(run.join("appendix.html")).unwrap());
    assert_sound(&fs::read_to_string(run.join("published.html")).unwrap());
    assert!(fs::read_to_string(run.join("metrics.csv")).unwrap().lines().count() > 1);
    assert!(fs::read_dir(run.join("figures")).unwrap().count() > 3);
    let sum = log::checksum(&run.join("log.jsonl")).unwrap();
    assert!(fs::read_to_string(run.join("report.html")).unwrap().contains(&sum), "the page names its log");
}

// G3: a number is its record.

/// Every `<data>` of a page: record, value, text.
fn data(page: &str) -> Vec<(String, f64, String)> {
    let mut found: Vec<(String, f64, String)> = Vec::new();
    let mut inside = false;
    // The figure that a row of a table names for all its cells.
    let mut row: Option<String> = None;
    for token in Tokenizer::new(page) {
        match token.unwrap() {
            Token::StartTag(tag) if [&b"data"[..], b"tr"].contains(&tag.name.as_slice()) => {
                let attribute = |name: &[u8]| {
                    let (_, value) = tag.attributes.iter().find(|(key, _)| key.as_slice() == name)?;
                    Some(String::from_utf8(value.to_vec()).unwrap())
                };
                if tag.name.as_slice() == b"tr" {
                    row = attribute(b"data-of");
                    continue;
                }
                let record = attribute(b"data-record").unwrap();
                let record = row.as_ref().map_or(record.clone(), |figure| format!("{figure}.{record}"));
                found.push((record, attribute(b"value").unwrap().parse().unwrap(), String::new()));
                inside = true;
            }
            Token::EndTag(tag) if **tag.name == *b"tr" => row = None,
            Token::EndTag(tag) if **tag.name == *b"data" => inside = false,
            Token::String(text) if inside => {
                found.last_mut().unwrap().2 += std::str::from_utf8(&text).unwrap();
            }
            _ => {}
        }
    }
    found
}

/// What a field of a figure is, and how it is written.
fn field(metric: &Metric, field: &str) -> (f64, String) {
    let prediction = metric.prediction.as_ref();
    let part = |of: fn(&sysdyno::testing::results::prediction::Prediction) -> f64| {
        let value = of(prediction.unwrap());
        (value, quantity(value, metric.unit))
    };
    match field {
        "value" => (metric.value, metric.text()),
        "cycles" => (metric.cycles.unwrap(), metric.cycles_text().unwrap()),
        "typical" => (metric.typical.unwrap(), measured(metric.typical.unwrap(), metric.interval95, metric.unit)),
        "stddev" => (metric.stddev, rough(metric.stddev, metric.unit)),
        "ratio" => (metric.ratio().unwrap(), factor(metric.ratio().unwrap())),
        "half_width" => (metric.relative_half_width(), percent(metric.relative_half_width())),
        "prediction.value" => part(|found| found.value),
        "prediction.base_hardware" => part(|found| found.base_hardware),
        "prediction.software_overhead" => part(|found| found.software_overhead),
        other => panic!("a page names the unknown field {other}"),
    }
}

#[test]
fn every_number_of_a_page_is_its_record() {
    for document in [real().clone(), golden("complete"), golden("failed_launch")] {
        let found = data(&page_of(&document));
        assert!(found.len() > document.metrics().count() * 3, "{} numbers", found.len());
        for (record, value, text) in &found {
            let (name, rest) = record.split_once('{').unwrap();
            let (labels, of) = rest.split_once("}.").unwrap();
            let metric = document.metrics().find(|metric| metric.name == name && metric.labels.to_string() == labels);
            let (exact, words) = field(metric.unwrap_or_else(|| panic!("no record {record}")), of);
            assert!((exact - value).abs() <= exact.abs() * 1e-15, "{record}: {value} is not {exact}");
            let shown = text.trim_end_matches('?').trim_start_matches("predicted: ");
            assert_eq!(
                shown.split(" (gross").next().and_then(|text| text.split(" (at").next()).unwrap(),
                words,
                "{record}"
            );
        }
        for metric in document.metrics() {
            let record = format!("{}{{{}}}.value", metric.name, metric.labels);
            assert!(found.iter().any(|(of, ..)| *of == record), "{record} is not on the page");
        }
    }
}

#[test]
fn every_form_spells_a_figure_alike() {
    let document = real();
    let page = content::page(document);
    let (wide, marked) = (text::render(&page, Some(250)), markdown::render(&page));
    let summary = terminal::summary(document, Some(250));
    for metric in document.metrics() {
        let label = if metric.labels.is_empty() { metric.name.clone() } else { metric.labels.to_string() };
        // An interval that no launches support is not printed.
        let interval = if metric.interval_level > 0.0 { metric.interval_text() } else { String::new() };
        let cells = [metric.text(), interval, metric.cycles_text().unwrap_or_default(), metric.verdict_text()];
        let row = |text: &str, label: &str| {
            text.lines().any(|line| line.contains(label) && cells.iter().all(|cell| line.contains(cell.as_str())))
        };
        assert!(row(&wide, &label), "text: {} {cells:?}", metric.title());
        assert!(row(&marked, &label.replace('_', "\\_")), "Markdown: {} {cells:?}", metric.title());
        if metric.headline {
            // Labels that all figures of a metric share stand once, above them.
            let own = |line: &str| {
                label.is_empty() || label.split(' ').any(|pair| line.contains(pair)) || line.contains(&label)
            };
            let in_summary = |line: &str| own(line) && line.contains(&metric.text());
            assert!(summary.lines().any(in_summary), "summary: {} {}", metric.title(), metric.text());
        }
    }
}

#[test]
fn the_table_of_figures_has_every_figure_in_full() {
    let text = csv::render(real()).unwrap();
    let mut lines = text.lines();
    let heads: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| heads.iter().position(|head| *head == name).unwrap();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), real().metrics().count());
    for (row, metric) in rows.iter().zip(real().metrics()) {
        assert_eq!(
            (row[column("name")], row[column("labels")]),
            (metric.name.as_str(), metric.labels.to_string().as_str())
        );
        assert_eq!(row[column("value")].parse::<f64>().unwrap().to_bits(), metric.value.to_bits());
        assert_eq!(row[column("trust")], metric.verdict.trust.word());
    }
}

#[test]
fn the_report_is_small_and_its_appendix_has_the_rest() {
    let brief = html::render(&content::brief(real(), None, content::OtherPages::Beside));
    let full = html::render(&content::page(real()));
    assert_sound(&brief);
    // A number stays with its unit.
    assert!(brief.contains("\u{a0}ns"), "units stay with their numbers");
    let elements = |page: &str| page.matches('<').count() - page.matches("</").count();
    assert!(brief.len() < 800_000 && elements(&brief) < 12_000, "{} bytes, {}", brief.len(), elements(&brief));
    assert!(full.len() > 2 * brief.len());
    // A stop for the keyboard at each table and drawing, and at none of their points.
    let stops = brief.matches("tabindex").count();
    let places = brief.matches("<table").count() + brief.matches("<svg").count() + brief.matches("<pre").count();
    assert!(stops <= places, "{stops} stops, {places} places");
    for cost in &real().costs {
        let metric = real().metric(&cost.metric, &cost.labels).unwrap();
        assert!(brief.contains(metric.phrase.as_str()), "{} is in the summary of costs", metric.phrase);
    }
    for section in real().experiments.iter().filter(|section| section.outcome == Outcome::Measured) {
        assert!(brief.contains(section.title.as_str()), "{} has a section", section.id);
    }
}

#[test]
fn the_screen_leaves_room_for_its_place_and_a_prompt_at_every_width() {
    for width in [40, 60, 80, 100, 120, 160, 200] {
        let shown = screen::plain(&screen::screen(real(), Some(width), None, Analysis::Shown));
        let lines: Vec<&str> = shown.lines().collect();
        assert!((9..=20).contains(&lines.len()), "{width}: {} lines\n{shown}", lines.len());
        assert!(lines.iter().all(|line| line.chars().count() <= usize::from(width)), "{width}:\n{shown}");
        assert!(shown.contains("--all"), "{shown}");
    }
}

#[test]
fn the_screen_says_what_a_mark_means_where_it_is() {
    let with = |named: &dyn Fn(&Metric) -> bool| {
        let mut document = golden("complete");
        let metrics = document.experiments.iter_mut().flat_map(|section| &mut section.metrics);
        metrics.filter(|metric| named(metric)).for_each(|metric| metric.grade = Grade::Disturbed);
        screen::plain(&screen::screen(&document, None, None, Analysis::Shown))
    };
    let marks = |shown: &str| (shown.contains("  !"), shown.replace('\n', " ").contains("! disturbed"));
    assert_eq!(marks(&with(&|_| false)), (false, false));
    assert_eq!(marks(&with(&|metric| metric.headline)), (true, true));
    // No line of its own.
    assert_eq!(marks(&with(&|metric| !metric.headline)), (false, false));
    // A headline result that is no cost of everybody.
    let document = golden("complete");
    let alone = document.metrics().find(|metric| metric.headline && !document.is_cost(metric)).unwrap().clone();
    let shown = with(&|metric| (&metric.name, &metric.labels) == (&alone.name, &alone.labels));
    assert_eq!(marks(&shown), (true, true), "{shown}");
}

#[test]
fn the_numbers_of_a_verdict_add_up_to_the_headline_results() {
    let documents = vec![real().clone(), golden("complete"), golden("failed_launch"), golden("skipped_step")];
    for mut document in documents {
        let all = document.metrics().filter(|metric| metric.headline).count();
        // What a quick run settled, and the rest.
        let shown = screen::verdict(&document);
        let numbers: Vec<usize> =
            shown.split(|letter: char| !letter.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect();
        let whole = numbers.iter().position(|&number| number == all).unwrap();
        assert!(shown.starts_with("Settled: ") || shown.starts_with("First values of "), "{shown}");
        let good = document.metrics().filter(|metric| metric.headline && metric.grade == Grade::Good).count();
        assert!(whole <= 1 && (whole == 0 || numbers[0] < all && numbers[2] <= good), "{shown}");
        let page = html::render(&content::brief(&document, None, content::OtherPages::Beside));
        assert!(page.contains(shown.split(" A run").next().unwrap()), "the report has the same verdict: {shown}");
        document.run.profile = "default".to_owned();
        let shown = screen::verdict(&document);
        let (word, rest) = shown.split_once(". Of ").unwrap();
        let counts = rest.split('.').next().unwrap();
        let numbers: Vec<usize> =
            counts.split(|letter: char| !letter.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect();
        assert_eq!((numbers[0], numbers[1..].iter().sum::<usize>()), (all, all), "{shown}");
        assert!(!word.contains("Healthy"), "{shown}");
        let page = html::render(&content::brief(&document, None, content::OtherPages::Beside));
        assert!(page.contains(&format!("{word}. ")), "the report has the same verdict: {shown}");
    }
}

#[test]
fn a_verdict_names_what_is_slower_and_calls_no_doubtful_result_predicted() {
    let changed = |change: &dyn Fn(&mut Metric)| {
        let mut document = real().clone();
        document.run.profile = "default".to_owned();
        document.highlights.clear();
        document.experiments.iter_mut().flat_map(|section| &mut section.metrics).for_each(change);
        screen::verdict(&document)
    };
    let inside = |metric: &mut Metric, range: [f64; 2]| {
        metric.grade = Grade::Good;
        metric.interval_level = 0.95;
        let found = metric.prediction.get_or_insert_with(|| {
            Prediction::of("a.b", Labels::none(), metric.unit).hardware(
                "for the test",
                (1.0, 1.0, 1.0),
                Basis::guess("it"),
            )
        });
        (found.low, found.high) = (range[0] * metric.value, range[1] * metric.value);
        found.value = f64::midpoint(found.low, found.high);
        metric.verdict.against_prediction = AgainstPrediction::AsPredicted;
    };
    let good = changed(&|metric| inside(metric, [0.9, 1.1]));
    assert!(good.starts_with("Consistent with its own primitives. Of ") && !good.contains("Slower"), "{good}");
    let slow = changed(&|metric| {
        inside(metric, [0.4, 0.6]);
        metric.interval95 = [metric.value * 0.99, metric.value * 1.01];
        metric.verdict.against_prediction = AgainstPrediction::Slower;
    });
    assert!(slow.starts_with("Not consistent with its own primitives. Of ") && slow.contains("Slower"), "{slow}");
    let without = changed(&|metric| {
        inside(metric, [0.9, 1.1]);
        metric.interval_level = 0.0;
    });
    assert!(without.starts_with("Mostly undecided. Of ") && without.contains(" 0 as predicted, "), "{without}");
}

// Checks between experiments.

/// The real figures with one of them changed.
fn with(name: &str, label: (&str, &str), times: f64) -> Document {
    let mut document = real().clone();
    let metrics = document.experiments.iter_mut().flat_map(|section| &mut section.metrics);
    for metric in metrics.filter(|metric| metric.name == name && metric.labels.get(label.0) == Some(label.1)) {
        metric.value *= times;
    }
    document.checks = consistency::checks(&document.metrics().collect::<Vec<_>>(), &document.machine);
    document
}

#[test]
fn a_broken_rule_is_never_silent() {
    let document = with("os.system_call.time", ("call", "enosys"), 0.01);
    let broken: Vec<&str> = document
        .checks
        .iter()
        .filter(|check| check.outcome == CheckOutcome::Violated)
        .map(|check| check.id.as_str())
        .collect();
    assert_eq!(broken, ["C1"]);
    let page = content::page(&document);
    let summary = terminal::summary(&document, None);
    assert!(summary.contains("BROKEN C1: 'system call, empty (ENOSYS)'"), "{summary}");
    for text in [html::render(&page), text::render(&page, None), markdown::render(&page)] {
        assert!(text.contains("C1 is broken") && text.contains("Results contradict each other"));
    }
}

#[test]
fn what_cannot_be_checked_says_what_is_missing() {
    assert!(real().checks.iter().all(|check| check.outcome != CheckOutcome::Violated), "{:?}", real().checks);
    let check = real().checks.iter().find(|check| check.id == "C1").unwrap();
    assert_eq!(check.outcome, CheckOutcome::Holds);
    for check in &real().checks {
        match check.outcome {
            CheckOutcome::NotApplicable => {
                assert!(!check.missing.is_empty() && check.comparisons.is_empty(), "{}", check.id);
            }
            _ => assert!(!check.comparisons.is_empty(), "{}", check.id),
        }
        for made in &check.comparisons {
            assert!(made.left.contains(|letter: char| letter.is_ascii_digit()) && !made.right.is_empty(), "{made:?}");
        }
    }
    let empty = consistency::checks(&[], &real().machine);
    assert!(empty.iter().all(|check| check.outcome == CheckOutcome::NotApplicable));
}

#[test]
fn the_catalogue_of_checks_is_what_the_rules_say() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference.md");
    let text = fs::read_to_string(place).unwrap();
    for check in &real().checks {
        let row = format!("| {} | {} |", check.id, check.rule);
        assert!(text.contains(&row), "docs/reference.md lacks: {row}");
    }
}

#[test]
fn rules_about_coming_experiments_become_active_with_their_figures() {
    let mut made_up = real().metrics().next().unwrap().clone();
    let figure = |name: &str, labels: &[(&str, &str)], unit: Unit, value: f64| {
        let mut metric = made_up.clone();
        metric.name = name.to_owned();
        metric.labels =
            labels.iter().fold(sysdyno::testing::results::quantity::Labels::none(), |all, (key, of)| all.with(key, of));
        (metric.unit, metric.value) = (unit, value);
        metric.interval95 = [value, value];
        metric
    };
    let latency = |level: &str, value| {
        figure("memory.latency.level", &[("level", level), ("pages", "4k")], Unit::Nanoseconds, value)
    };
    let right = [latency("L1", 1.0), latency("L2", 4.0), latency("L3", 15.0), latency("DRAM", 90.0)];
    let wrong = [latency("L1", 1.0), latency("L2", 4.0), latency("L3", 95.0), latency("DRAM", 90.0)];
    for (metrics, outcome) in [(&right, CheckOutcome::Holds), (&wrong, CheckOutcome::Violated)] {
        let all: Vec<&Metric> = metrics.iter().collect();
        let checks = consistency::checks(&all, &real().machine);
        assert_eq!(checks.iter().find(|check| check.id == "C2").unwrap().outcome, outcome);
    }
    made_up.value = 1.0;
}

// Published figures.

#[test]
fn published_figures_are_told_with_their_doubts() {
    let all = output(&["published"]);
    assert!(all.status.success(), "{}", told(&all));
    let told_all = String::from_utf8(all.stdout).unwrap();
    assert!(told_all.contains("451.775 ns") && told_all.contains("doubtful: "), "figures as printed, with reasons");
    let one = output(&["published", "003", "--operation", "bandwidth", "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&one.stdout).unwrap();
    let figures = value["figures"].as_array().unwrap();
    assert!(!figures.is_empty() && figures.iter().all(|figure| figure["report"] == "003"), "{value}");
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("records/guest-zen4-2cpu-chapters");
    let beside = output(&["published", "--operation", "loop", "--run", run.to_str().unwrap(), "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&beside.stdout).unwrap();
    let ours = value["groups"].as_array().unwrap().iter().find_map(|group| group.get("ours")).unwrap();
    assert_eq!(ours["name"], "cpu.loop.overhead");
    assert!(ours["value"].as_f64().unwrap() > 0.0);
}

#[test]
fn wrong_words_for_published_figures_are_refused_with_a_hint() {
    for words in [["published", "999"].as_slice(), &["published", "--operation", "no such thing"]] {
        let refused = output(words);
        assert_eq!(refused.status.code(), Some(2), "{}", told(&refused));
        assert!(String::from_utf8(refused.stderr).unwrap().contains("hint: "));
    }
}

#[test]
fn a_report_goes_where_it_is_asked_to() {
    let directory = tempfile::tempdir().unwrap();
    let run = finished_run().to_str().unwrap();
    for (form, name) in
        [("html", "a.html"), ("markdown", "a.md"), ("text", "a.txt"), ("csv", "a.csv"), ("json", "a.json")]
    {
        let file = directory.path().join(name);
        let made = output(&["report", run, "--format", form, "-o", file.to_str().unwrap()]);
        assert!(made.status.success() && made.stdout.is_empty(), "{form}: {}", told(&made));
        assert!(fs::metadata(&file).unwrap().len() > 500, "{form}");
    }
    let text = fs::read_to_string(directory.path().join("a.md")).unwrap();
    for link in text.split("](figures/").skip(1) {
        let name = link.split(')').next().unwrap();
        assert!(directory.path().join("figures").join(name).is_file(), "{name}");
    }
    let result = fs::read_to_string(directory.path().join("a.json")).unwrap();
    assert_eq!(
        result,
        fs::read_to_string(finished_run().join("result.json")).unwrap(),
        "the same log, the same result"
    );
    assert!(json::render(real()).unwrap().contains("\"checks\""));
}

#[test]
fn the_other_machine_is_described_in_its_own_table() {
    let alone = golden("complete");
    let machine = serde_json::to_value(&real().machine).unwrap();
    let peer = serde_json::json!({
        "address": "192.0.2.7", "port": 4711, "local_address": "192.0.2.1", "on_link": true, "started": "by hand",
        "version": "0.1.0", "machine": machine,
    });
    let with_peer = Document { peer: Some(serde_json::from_value(peer).unwrap()), ..alone.clone() };
    let brief = |document| html::render(&content::brief(document, None, content::OtherPages::Beside));
    let texts = [&alone, &with_peer].map(brief);
    let titles = texts.each_ref().map(|text| text.matches("The other machine").count());
    assert_eq!(titles, [0, 1]);
    let (_, table) = texts[1].split_once("The other machine").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
    let design = |document: &Document| {
        let rows = document.machine.sections().into_iter().flat_map(|section| section.rows);
        rows.into_iter().find(|row| row.name == "microarchitecture").unwrap().value
    };
    assert!(table.contains(&design(real())) && design(real()) != design(&alone), "{table}");
}
