//! The main document: verdict and insights, the costs that every reader asks for, the machine, how it was measured, and each
//! operation on a page. Every row, term and gate is in the appendix.

use super::methodology::moved_launches;
use super::operation;
use super::run_screen::intervals;
use super::verdict::verdict;
use super::{APPENDIX, OtherPages, PUBLISHED, chapter_title, cost_ladder, why_missing};
use crate::machine::{Machine, Mark};
use crate::report::page::{Cell, Page, PagePart, Piece, Span, Table};
use crate::report::reference::ReferenceRun;
use crate::results::document::{Document, Outcome};
use crate::results::quantity::DISTANCE;
use crate::results::wording::{capital, count, duration};

/// The main document of a run, with the costs of a reference run next to its own if there is one.
pub fn brief(document: &Document, reference: Option<&ReferenceRun>, others: OtherPages) -> Page {
    let mut parts = vec![front(document, reference), costs(document, others)];
    parts.extend(super::own_predictions::part(document));
    parts.extend(super::other_machines::part(document));
    parts.extend([machine(document), method(document)]);
    let mut chapter = String::new();
    for section in document.experiments.iter().filter(|section| section.outcome == Outcome::Measured) {
        if section.chapter != chapter {
            chapter.clone_from(&section.chapter);
            parts.push(PagePart::new(&format!("chapter-{chapter}"), &chapter_title(&chapter), 2));
        }
        parts.push(operation::part(section, document, others));
    }
    parts.push(super::appendix::reproduce(document));
    super::name_drawings(&mut parts);
    Page {
        title: format!("Costs of the machine {}", super::host(document)),
        subtitle: format!("{}, {}", document.machine.summary_line(), document.run.started),
        parts,
    }
}

/// Verdict, how sure it is, what is special, the ladder of costs, what is missing.
fn front(document: &Document, reference: Option<&ReferenceRun>) -> PagePart {
    let mut part = PagePart::new("front", "At a glance", 2);
    for alarm in super::front::alarms(document) {
        part.add(Piece::Alarm(alarm));
    }
    part.add(Piece::Analysis(vec![Piece::Paragraph(vec![Span::strong("Verdict. "), Span::plain(verdict(document))])]));
    part.add(Piece::Paragraph(vec![Span::strong("Confidence. "), Span::plain(certainty(document))]));
    for (found, number) in document.highlights.iter().zip(1..) {
        let mut spans = vec![Span::strong(format!("{number}. {}", found.text))];
        for more in found.why.iter().chain(&found.advice) {
            spans.push(Span::plain(format!(" {more}")));
        }
        if !found.section.is_empty() {
            spans.push(Span::plain(" "));
            spans.push(Span::link("Details", &super::anchor(&found.section)));
        }
        part.add(Piece::Analysis(vec![Piece::Paragraph(spans)]));
    }
    if let Some(ladder) = cost_ladder::drawing(document, reference) {
        part.add(Piece::Drawing(Box::new(ladder)));
    }
    let mut without: Vec<Vec<Span>> = document
        .experiments
        .iter()
        .filter(|section| section.outcome != Outcome::Measured)
        .map(|section| {
            let word = if section.outcome == Outcome::Failed { " failed" } else { "" };
            let why = why_missing(section).replace('`', "");
            vec![Span::strong(section.title.clone()), Span::plain(format!(" ({}){word}: {why}", section.id))]
        })
        .collect();
    let rejected = document.experiments.iter().flat_map(|section| &section.rejected);
    let rejected = rejected.filter(|found| found.headline && !found.gates.is_empty());
    let not_measured = without.len();
    without.extend(rejected.map(|found| {
        vec![Span::strong(capital(&found.phrase)), Span::plain(format!(": rejected by check {}", found.reason))]
    }));
    if !without.is_empty() {
        part.head(if without.len() > not_measured { "Not measured, or rejected" } else { "Not measured" });
        part.add(Piece::List(without));
    }
    part
}

fn certainty(document: &Document) -> String {
    let mut text = format!("{} Results by grade: {}.", intervals(document), document.grades()).trim().to_owned();
    let state = document.host_state();
    text += &format!(" {}", if state.is_empty() { document.disturbed_by() } else { state.join(" ") });
    if let Some(score) = document.prediction_score(None) {
        text += &format!(" {}", score.text());
    }
    text
}

/// The costs that every reader asks for, one line each.
fn costs(document: &Document, others: OtherPages) -> PagePart {
    let mut part = PagePart::new("costs", "Summary of costs", 2);
    let heads = ["cost", ">measured", ">±", ">predicted", ">ratio", "verdict"];
    let caption = "Measured and predicted costs. ± is half of the 95 % interval, or both of its ends if one side is more than \
                   twice the other. The interval covers the launches of this run and the usual change between runs. Its level \
                   is in brackets where fewer than five launches give less than 95 %.";
    let mut table = Table::new(caption, &heads);
    let mut chapter = "";
    for cost in &document.costs {
        let Some(metric) = document.metric(&cost.metric, &cost.labels) else { continue };
        let own = metric.name.split('.').next().unwrap_or_default();
        if own != chapter {
            table.group(&chapter_title(own));
        }
        chapter = own;
        super::add_line(&mut table, metric, &[]);
    }
    if table.is_empty() {
        part.say("This run published no cost of this list.");
    } else {
        part.add(Piece::Table(table));
    }
    name_other_pages(&mut part, others);
    part
}

fn name_other_pages(part: &mut PagePart, others: OtherPages) {
    let linked = |text: &str, page: &str| match others {
        OtherPages::Beside => Span::elsewhere(text, page),
        OtherPages::OnDemand => Span::plain(text),
    };
    part.add(Piece::Paragraph(vec![
        Span::plain("All results are in the "),
        linked("appendix", APPENDIX),
        Span::plain(". Another page has the "),
        linked("results of published reports", PUBLISHED),
        Span::plain(" next to these."),
    ]));
    if others == OtherPages::OnDemand {
        part.say("These commands write both pages. RUN is the run directory:");
        part.add(Piece::Literal(format!(
            "sysdyno report RUN --format html --full -o {APPENDIX}\nsysdyno report RUN --format html --published -o {PUBLISHED}"
        )));
    }
}

/// The machine on half a page: the first facts of each part of its description.
fn machine(document: &Document) -> PagePart {
    let mut part = PagePart::new("machine", "The machine", 2);
    let caption = "What the machine reports about itself. The appendix has every fact with its source.";
    part.add(Piece::Table(facts(&document.machine, caption)));
    if let Some(peer) = &document.peer {
        part.head("The other machine");
        part.add(Piece::Table(facts(&peer.machine, "What the machine of the peer reports about itself.")));
    }
    let spoils: Vec<Vec<Span>> = document
        .quiet
        .iter()
        .filter(|check| !check.ok && check.known)
        .map(|check| {
            let remedy = check.remedy.as_ref().map_or_else(String::new, |remedy| format!(" Fix: {remedy}"));
            vec![Span::strong(format!("{}: ", check.check)), Span::plain(format!("{}.{remedy}", check.detail))]
        })
        .collect();
    if !spoils.is_empty() {
        part.head("What disturbs measurements here");
        part.add(Piece::List(spoils));
    }
    part
}

fn facts(machine: &Machine, caption: &str) -> Table {
    let mut table = Table::new(caption, &["fact", "value"]);
    for section in machine.sections() {
        for fact in section.rows.into_iter().filter(|fact| fact.marks.contains(&Mark::Report)) {
            table.row(vec![Cell::of(format!("{}: {}", section.title, fact.name)), Cell::of(fact.value)]);
        }
    }
    table
}

/// How it was measured, in a paragraph.
fn method(document: &Document) -> PagePart {
    let (run, practice) = (&document.run, &document.practice);
    let mut part = PagePart::new("method", "How it was measured", 2);
    part.say(format!(
        "The run took {} on CPU {}: {} with {}. It ended because {}. A launch is a new process that repeats the operations of \
         one experiment in batches that are long enough for the clock. The first round has a launch of each experiment, and \
         later rounds have those by which results gain most. Most results are medians over launches of the undisturbed \
         batches. The 95 % interval covers the launches and the usual change from run to run. Times of work in the core are \
         for the core clock of this run. Another run can have another clock.{}",
        duration(run.wall_seconds),
        run.cpu,
        count(u64::from(run.rounds), "round", "rounds"),
        count(u64::from(practice.launches), "launch", "launches"),
        run.ended,
        moved_launches(document),
    ));
    part.say(
        "sysdyno measured a few primitive costs first and predicted most other results from them. It wrote each \
         prediction to the log before the first sample of its result. Base hardware is the part that the processor or device needs. \
         Software overhead is the part that the kernel and libraries add.",
    );
    if document.metrics().any(|metric| metric.labels.get(DISTANCE).is_some()) {
        part.say(
            "The host moves virtual CPUs between cores. Results with two CPUs are near when a cache line passed between them \
             quickly at that moment, and far when it passed slowly. They are on one core when work on one CPU slowed the other. \
             Near CPUs can share a cache and its path to memory, so what needs both can cost more than on far ones.",
        );
    }
    part.say(
        "Each result has a grade. A good result has an interval within the target of its experiment, and no check \
         doubts it. `sysdyno explain --gates` lists the targets. A rough result is within 2.5 times the target, or a check doubts it. An unresolved result is less \
         certain or comes from too few launches. While a disturbed result was measured, others took the CPU for part of the \
         time. While a contaminated result was measured, a neighbour used the core all the time, or the CPU or its clock changed.",
    );
    part
}
