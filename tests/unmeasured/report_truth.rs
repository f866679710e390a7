//! No sentence says what the evidence does not: logs of every experiment are bent in every direction, and what comes out is read
//! again.
use std::cell::{Cell, RefCell};

use crate::report::{assert_sound, golden, real, record};
use sysdyno::testing::assemble;
use sysdyno::testing::report::page::Analysis;
use sysdyno::testing::report::{content, html, markdown, screen, terminal, text};
use sysdyno::testing::results::document::{Block, Document, Grade, Metric, Outcome};
use sysdyno::testing::results::score::Standing;
use sysdyno::testing::results::verdict::AgainstPrediction;
use sysdyno::testing::results::wording::capital;

/// Changes every raw value of the real log.
fn bent(change: impl Fn(&str, usize, f64) -> f64) -> Document {
    let mut log = record().clone();
    for launch in &mut log.launches {
        for series in &mut launch.series {
            for (index, value) in series.values.iter_mut().enumerate() {
                *value = change(&launch.experiment, index, *value);
            }
        }
    }
    assemble::document(&log)
}

/// Every computed sentence, with the section that says it.
fn sentences(document: &Document) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for section in &document.experiments {
        for block in &section.analysis {
            if let Block::Paragraph(text) = block {
                found.extend(split(text).into_iter().map(|sentence| (section.id.clone(), sentence)));
            }
        }
        for text in &section.misses {
            found.extend(split(text).into_iter().map(|sentence| (section.id.clone(), sentence)));
        }
    }
    for highlight in &document.highlights {
        found.push(("highlights".to_owned(), highlight.text.clone()));
    }
    found
}

/// Sentences end with a full stop before a blank and a capital letter, or with the text.
fn split(text: &str) -> Vec<String> {
    let mut sentences = vec![String::new()];
    let letters: Vec<char> = text.chars().collect();
    for (index, letter) in letters.iter().enumerate() {
        sentences.last_mut().unwrap().push(*letter);
        let ends = *letter == '.' && letters.get(index + 1) == Some(&' ');
        if ends {
            sentences.push(String::new());
        }
    }
    sentences.iter().map(|sentence| sentence.trim().to_owned()).filter(|sentence| !sentence.is_empty()).collect()
}

/// Every number with a unit in a text, in ns, bytes per second or bytes.
fn quantities(text: &str) -> Vec<f64> {
    const UNITS: [(&str, f64); 14] = [
        ("ns", 1.0),
        ("µs", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("MHz", 1e6),
        ("GHz", 1e9),
        ("B/s", 1.0),
        ("kB/s", 1e3),
        ("MB/s", 1e6),
        ("GB/s", 1e9),
        ("B", 1.0),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
    ];
    let words: Vec<&str> = text.split_whitespace().map(|word| word.trim_matches(['(', ',', ')', '.'])).collect();
    let of = |pair: &[&str]| {
        let (_, scale) = UNITS.iter().find(|(unit, _)| *unit == pair[1])?;
        Some(pair[0].parse::<f64>().ok()? * scale)
    };
    words.windows(2).filter_map(of).collect()
}

/// What no sentence may say, and what each that compares must be able to show.
pub fn assert_true(document: &Document, how: &str) {
    for (section, sentence) in sentences(document) {
        let at = format!("{how}, {section}: {sentence}");
        for nonsense in ["NaN", "inf ", "inf.", " -0", "−0 ", " 0 ns", "×0.00)", "None", "Some("] {
            assert!(!sentence.contains(nonsense), "{at}");
        }
        for (word, verdict) in [("faster", AgainstPrediction::Faster), ("slower", AgainstPrediction::Slower)] {
            let Some((title, rest)) = sentence.split_once(&format!(": {word} than predicted, ")) else { continue };
            assert!(!title.starts_with(char::is_lowercase), "{at}: a small letter");
            let named = |metric: &&Metric| title == capital(&metric.phrase);
            let metric =
                document.metrics().find(|metric| named(metric) && sentence.contains(&metric.shown().to_string()));
            let metric = metric.unwrap_or_else(|| panic!("{at}: no such figure"));
            assert_eq!(metric.verdict.against_prediction, verdict, "{at}");
            let predicted = metric.shown().alike(metric.prediction.as_ref().unwrap().value);
            assert!(rest.starts_with(&format!("{} against {predicted} (×", metric.shown())), "{at}");
            assert_eq!(quantities(rest.split(" (×").next().unwrap()).len(), 2, "{at}");
        }
        // Two numbers and their ratio are what a reader would compute.
        for (position, _) in sentence.match_indices(" (×") {
            let ratio: f64 = sentence[position..].trim_start_matches(" (×").split(')').next().unwrap().parse().unwrap();
            let found = quantities(&sentence[..position]);
            let [.., one, other] = found[..] else { panic!("{at}: a ratio of what?") };
            let near = |computed: f64| (computed / ratio - 1.0).abs() < 0.051;
            assert!(near(one / other) || near(other / one), "{at}: {one} and {other}");
            // The read times of the cache are no results; a miss is judged by its range.
            if section != "file.cache_size" && !sentence.contains(" than predicted, ") {
                let of = |metric: &&Metric| sentence.contains(&metric.shown().to_string());
                let named: Vec<&Metric> = document.metrics().filter(of).collect();
                let apart = |one: &Metric| named.iter().any(|other| one.interval95[0] > other.interval95[1]);
                assert!(named.iter().any(|one| apart(one)), "{at}: the intervals overlap");
            }
        }
        if sentence.contains(" as predicted") {
            let of = document.experiments.iter().find(|other| other.id == section).unwrap();
            let numbers: Vec<usize> = sentence
                .split(|letter: char| !letter.is_ascii_digit())
                .filter_map(|number| number.parse().ok())
                .collect();
            assert_eq!(numbers[0], of.metrics.len(), "{at}");
            assert_eq!(numbers[1..].iter().sum::<usize>(), numbers[0], "{at}");
            let inside = of.metrics.iter().filter(|metric| metric.standing() == Standing::Inside);
            assert_eq!(inside.count(), numbers[1], "{at}");
        }
        if let Some((before, _)) = sentence.split_once(" times less") {
            let times: f64 = before.rsplit(' ').next().unwrap().parse().unwrap();
            assert!(times > 1.0, "{at}");
        }
        if let Some((_, rest)) = sentence.split_once("the difference of ") {
            assert!(!rest.starts_with('-') && !rest.starts_with('0'), "{at}");
        }
    }
    for metric in document.metrics() {
        assert!(metric.value.is_finite() && metric.value > 0.0, "{how}: {} is {}", metric.title(), metric.value);
    }
    // Every form can be made of it, and none of them shows what is no number.
    let page = content::page(document);
    for text in [
        html::render(&page),
        markdown::render(&page),
        text::render(&page, None),
        terminal::summary(document, None),
        screen::plain(&screen::screen(document, None, None, Analysis::Shown)),
        html::render(&content::brief(document, None, content::OtherPages::Beside)),
    ] {
        let nonsense = text.lines().find(|line| line.contains("NaN") || line.contains(" inf "));
        assert!(nonsense.is_none(), "{how}: {nonsense:?}");
    }
    assert_sound(&html::render(&page));
}

#[test]
fn faster_and_slower_machines_get_true_sentences() {
    for times in [0.02, 0.3, 3.0, 50.0] {
        let document = bent(|_, _, value| value * times);
        assert_true(&document, &format!("everything takes {times} times as long"));
    }
}

#[test]
fn one_experiment_that_went_wild_is_not_hidden_by_the_others() {
    for section in &real().experiments {
        for times in [0.05, 20.0] {
            let document = bent(|experiment, _, value| if experiment == section.id { value * times } else { value });
            assert_true(&document, &format!("{} takes {times} times as long", section.id));
        }
    }
}

#[test]
fn noise_makes_noisy_figures_and_true_sentences() {
    // A fixed seed, so that a failure comes again. Whole launches differ as well: what only batches do, quantiles take out.
    let random = RefCell::new(fastrand::Rng::with_seed(11));
    let noise = || 1.0 + 2.0 * random.borrow_mut().f64().powi(2);
    let of_launch = Cell::new(1.0);
    let mut document = bent(|_, index, value| {
        if index == 0 {
            of_launch.set(noise());
        }
        value * of_launch.get() * noise()
    });
    assert_true(&document, "batches vary threefold");
    assert!(document.count(Grade::Good) < real().count(Grade::Good) / 2, "{} good", document.count(Grade::Good));
    let shown = screen::verdict(&document);
    assert!(!shown.contains("onsistent with its own primitives"), "{shown}");
    document.run.profile = "default".to_owned();
    let shown = screen::verdict(&document);
    assert!(shown.starts_with("Mostly undecided. Of "), "{shown}");
}

#[test]
fn impossible_evidence_is_not_published() {
    let document = bent(|_, _, _| 0.0);
    assert_true(&document, "nothing takes any time");
    let negative = bent(|_, _, value| -value);
    assert_true(&negative, "time runs backwards");
    // Clocks that are not made of batches aside, nothing is left.
    let left: Vec<String> = negative.metrics().filter(|metric| metric.samples > 100).map(Metric::title).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn missing_series_leave_gaps_and_no_lies() {
    for keep in [0, 1, 2, 5] {
        let mut log = record().clone();
        for launch in &mut log.launches {
            let mut number = 0;
            launch.series.retain(|_| {
                number += 1;
                number % 6 == keep
            });
        }
        assert_true(&assemble::document(&log), &format!("only every sixth series is there ({keep})"));
    }
    let mut log = record().clone();
    log.predictions.clear();
    let document = assemble::document(&log);
    assert_true(&document, "nothing was predicted");
    assert!(document.metrics().all(|metric| metric.verdict.against_prediction == AgainstPrediction::None));
}

#[test]
fn nothing_but_skips_is_a_report_too() {
    let mut log = record().clone();
    log.launches.clear();
    log.predictions.clear();
    for step in &mut log.steps {
        step.skipped =
            Some(sysdyno::testing::results::problem::Problem::new("this machine lacks it").hint("buy another"));
    }
    let document = assemble::document(&log);
    assert_true(&document, "everything was skipped");
    assert!(document.experiments.iter().all(|section| section.outcome == Outcome::Skipped));
    let page = content::page(&document);
    for text in [html::render(&page), markdown::render(&page), text::render(&page, None)] {
        assert!(text.contains("This run published no result."), "the front says so");
        assert!(text.matches("this machine lacks it").count() >= document.experiments.len());
        assert!(text.contains("buy another"));
    }
}

#[test]
fn broken_logs_say_what_is_broken_in_every_form() {
    for (name, says) in [
        ("truncated", "The log is damaged: line"),
        ("died", "The run is not complete: its log has no last line"),
        ("failed_launch", "the launch was killed by SIGKILL"),
        ("skipped_step", "this machine has no loop"),
    ] {
        let document = golden(name);
        assert_true(&document, name);
        let page = content::page(&document);
        for text in [html::render(&page), markdown::render(&page), text::render(&page, None)] {
            // Lines of text are folded where they are long.
            let joined = text.replace('\n', " ");
            assert!(joined.contains(says), "{name} does not say: {says}");
        }
    }
}
