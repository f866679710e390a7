//! Predictions of a person: from the blank form over the log of a run to its report, and reports without analysis.

use serde_json::Value;
use sysdyno::testing::assemble;
use sysdyno::testing::conduct::directory::RunDirectory;
use sysdyno::testing::experiments;
use sysdyno::testing::experiments::own_predictions::{OwnFile, Shown, form};
use sysdyno::testing::report::page::{Analysis, Page, Piece};
use sysdyno::testing::report::{content, html, json, markdown, screen, terminal, text};
use sysdyno::testing::results::document::{Block, Document, Outcome};
use sysdyno::testing::results::log::{self, Record};
use sysdyno::testing::results::own_prediction::OwnPredictions;
use sysdyno::testing::setup::Setup;

use super::description;
use super::host::quick_run_with;
use crate::support::schemas::{assert_valid, validator};

const FIELDS: &str = "value = \"\"\nlow = \"\"\nhigh = \"\"\nreason = \"\"";

/// The form of the made machine with the same numbers in each entry.
fn filled([low, value, high]: [f64; 3]) -> OwnPredictions {
    let setup = Setup { room: Ok(1 << 40), ..Setup::logged(description()) };
    let blank = form(experiments::TABLE, &setup, Shown::Costs);
    let fields = format!("value = {value:?}\nlow = {low:?}\nhigh = {high:?}\nreason = \"<b>all</b> alike\"");
    let text = blank.replace(FIELDS, &fields).replace("author = \"\"", "author = \"group 7\"");
    OwnFile::parse("mine.toml", &text).unwrap().of_machine(&setup).unwrap()
}

/// The report without blanks and line breaks of its layout.
fn brief(document: &Document, analysis: Analysis) -> String {
    let page = content::brief(document, None, content::OtherPages::OnDemand).with(analysis);
    text::render(&page, Some(240)).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn own_predictions_go_from_the_form_to_the_report() {
    let place = tempfile::tempdir().unwrap();
    let own = filled([1e-6, 1.0, 1e9]);
    let document = quick_run_with(&place.path().join("run"), own.clone());
    let path = RunDirectory::open(&place.path().join("run")).unwrap().log();
    let log = log::read(&path).unwrap();
    assert_eq!(log.own_predictions.as_ref(), Some(&own));
    assert_eq!(document.own_predictions.as_ref(), Some(&own));
    let record = serde_json::to_value(Record::OwnPredictions(own.clone())).unwrap();
    assert_valid(&validator("log.schema.json"), &record, "the record");
    let scored: Vec<_> = document.own_scored().collect();
    assert!(scored.len() > 7, "{}", scored.len());
    assert_eq!(scored.len() + document.own_unmet().count(), own.predictions.len());
    for (chapter, least) in [("cpu.", 5), ("os.", 2), ("memory.", 0)] {
        let of_chapter = scored.iter().filter(|found| found.metric.name.starts_with(chapter)).count();
        assert!(of_chapter >= least && (of_chapter > 0) == (least > 0), "{chapter} {of_chapter}");
    }
    let [mine, tool] = document.own_scores().unwrap();
    assert_eq!((mine.inside, mine.judged, mine.width), (0, 0, None), "ranges that hold anything do not count");
    assert!(mine.wide > 4 && tool.judged > 4 && tool.inside <= tool.judged, "{mine:?} {tool:?}");

    let value: Value = serde_json::from_str(&json::render(&document).unwrap()).unwrap();
    assert_valid(&validator("result.schema.json"), &value, "the result");
    let metrics = value["experiments"].as_array().unwrap().iter().flat_map(|one| one["metrics"].as_array().unwrap());
    let with_own = metrics.filter(|metric| metric["own_prediction"]["reason"] == "<b>all</b> alike").count();
    assert_eq!((with_own, &value["own_predictions"]["author"]), (scored.len(), &Value::from("group 7")));

    let words = brief(&document, Analysis::Shown);
    let summary = document.own_score_text().unwrap();
    assert!(words.contains("Your predictions (group 7)") && words.contains(&summary), "{words}");
    assert_eq!(words.matches("Your reason: <b>all</b> alike").count(), scored.len());
    assert!(!words.contains("Where your predictions differ"), "each is inside");
    let page = content::brief(&document, None, content::OtherPages::OnDemand);
    assert!(html::render(&page).contains("Your reason: &lt;b&gt;all&lt;/b&gt; alike"));
    assert!(markdown::render(&page).contains("Your reason: \\<b\\>all"));
    assert!(terminal::summary(&document, None).contains(&summary));
    let line = document.own_score_line().unwrap();
    assert!(screen::plain(&screen::screen(&document, Some(160), None, Analysis::Hidden)).contains(&line));

    // The same run with predictions that are far off.
    let low = Some(filled([1e-6, 2e-6, 3e-6]));
    let low = assemble::document(&log::Log { own_predictions: low, ..log });
    let [mine, tool] = low.own_scores().unwrap();
    assert_eq!((mine.inside, mine.wide, mine.width.map(f64::round)), (0, 0, Some(3.0)));
    assert!(mine.judged > 4 && mine.error > tool.error, "{mine:?} {tool:?}");
    let words = brief(&low, Analysis::Shown);
    let (_, differences) = words.split_once("Where your predictions differ").unwrap();
    let call = ". You: 0.00000200 ns. sysdyno: ";
    for part in [call, " (kernel entry and exit", " The largest part is ", " Measured: "] {
        assert!(differences.contains(part), "{part}: {differences}");
    }
    let hidden = brief(&low, Analysis::Hidden);
    assert!(hidden.contains(&low.own_score_text().unwrap()) && hidden.contains("outside, too low"), "{hidden}");
    assert!(!hidden.contains("The largest part is"), "{hidden}");
}

#[test]
fn a_report_without_analysis_has_every_number_and_no_sentence_of_it() {
    let document = assemble::document(&super::run(description()));
    assert!(document.experiments.iter().all(|section| section.outcome == Outcome::Measured));
    let sentences: Vec<&String> = document
        .experiments
        .iter()
        .flat_map(|section| &section.analysis)
        .filter_map(|block| if let Block::Paragraph(text) = block { Some(text) } else { None })
        .chain(document.experiments.iter().flat_map(|section| &section.misses))
        .chain(document.highlights.iter().map(|found| &found.text))
        .chain(document.highlights.iter().flat_map(|found| found.why.iter().chain(&found.advice)))
        .collect();
    assert!(sentences.len() > 60 && document.highlights.len() > 3, "{}", sentences.len());
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let tables = |page: &Page| {
        let pieces = page.parts.iter().flat_map(|part| &part.pieces);
        pieces.filter(|piece| matches!(piece, Piece::Table(_) | Piece::Drawing(_) | Piece::Folded { .. })).count()
    };
    let of = [content::brief(&document, None, content::OtherPages::OnDemand), content::page(&document)];
    for page in of {
        let shown = plain(&text::render(&page, None));
        let hidden_page = page.clone().with(Analysis::Hidden);
        let hidden = plain(&text::render(&hidden_page, None));
        assert!(tables(&page) > 20);
        assert_eq!(tables(&page), tables(&hidden_page));
        let found = |text: &str| sentences.iter().filter(|sentence| text.contains(&plain(sentence))).count();
        assert!(found(&shown) > 30, "{}", found(&shown));
        let left: Vec<_> = sentences.iter().filter(|sentence| hidden.contains(&plain(sentence))).collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(!hidden.contains("times the prediction.") && !hidden.contains("Verdict. "), "{hidden}");
        assert!(!hidden.contains("judged times") && !hidden.contains("Main findings"), "{hidden}");
    }
    let of = |analysis: Analysis| plain(&screen::plain(&screen::screen(&document, None, None, analysis)));
    let [shown, hidden] = [of(Analysis::Shown), of(Analysis::Hidden)];
    let verdict = plain(&screen::verdict(&document));
    assert!(shown.contains(&verdict[..40]) && !hidden.contains(&verdict[..40]), "{hidden}");
    assert!(document.highlights.iter().all(|found| !hidden.contains(&found.text[..30])), "{hidden}");
    assert!(hidden.contains("Typical 95 % intervals") && hidden.contains("system call"), "{hidden}");
}
