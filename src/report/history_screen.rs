//! The answer to a history on one screen: what changed between which runs, what else changed there, and what would be found.

use super::content::comparison::{range, signed};
use super::content::history::{about, begun_anew, deviating, drift, moment_name, reach, verdict};
use super::screen::{Ink, Line, cut, cut_before, folded};
use crate::results::comparison::{ChangedGroup, Finding};
use crate::results::timeline::{Moment, ResultTimeline, Timeline};
use crate::results::wording::{count, measured};

/// Lines of a screen, and its width where there is no terminal.
const LINES: usize = 24;
const WIDTH: u16 = 80;
/// Most moments, facts of one, groups of one, and drifts.
const MOMENTS: usize = 3;
const FACTS: usize = 3;
const GROUPS: usize = 3;
/// Widths of the columns of results: latest level, change, smallest step.
const NUMBERS: usize = 39;

/// The screen; with `all`, every moment and every result.
pub fn screen(timeline: &Timeline, width: Option<u16>, all: bool) -> Vec<Line> {
    let wide = usize::from(width.unwrap_or(WIDTH)).max(60);
    let most = |number: usize| if all { usize::MAX } else { number };
    let mut lines = folded(&verdict(timeline), wide, "", Ink::Strong, 3);
    lines.push(vec![(cut(&about(timeline), wide), Ink::Faint)]);
    for text in timeline.left_aside.iter().take(most(2)) {
        lines.extend(folded(&format!("Left aside: {text}."), wide, "", Ink::Faint, 2));
    }
    for text in begun_anew(timeline).iter().take(most(2)) {
        lines.extend(folded(text, wide, "", Ink::Faint, 2));
    }
    // The newest first: it is what a reader can still act on.
    let shown: Vec<&Moment> = timeline.moments.iter().rev().filter(|moment| all || !moment.groups.is_empty()).collect();
    for moment in shown.iter().take(most(MOMENTS)) {
        lines.extend(moment_lines(timeline, moment, wide, most(FACTS), most(GROUPS)));
    }
    if shown.len() > most(MOMENTS) {
        let more = (shown.len() - MOMENTS) as u64;
        lines.push(vec![(format!("{}: --all", count(more, "earlier moment", "earlier moments")), Ink::Faint)]);
    }
    lines.extend(timeline.drifts.iter().take(most(GROUPS)).map(|group| group_line(group, "drifts ", wide)));
    if let Some(text) = deviating(timeline) {
        lines.extend(folded(&text, wide, "", Ink::Plain, 2));
    }
    if all {
        lines.extend(table(timeline, wide));
        return lines;
    }
    let mut end: Vec<Line> = reach(timeline).map_or_else(Vec::new, |text| folded(&text, wide, "", Ink::Faint, 2));
    if !timeline.is_too_short() {
        let apart = timeline.not_judged.len();
        let apart = if apart == 0 { String::new() } else { format!(" {apart} have too few runs.") };
        let results = count(timeline.results.len() as u64, "result", "results");
        let text = format!("All {results}: --all.{apart} A page: --format html -o FILE");
        end.extend(folded(&text, wide, "", Ink::Faint, 2));
    }
    lines.truncate(LINES.saturating_sub(end.len()));
    lines.extend(end);
    lines
}

fn moment_lines(timeline: &Timeline, moment: &Moment, wide: usize, facts: usize, groups: usize) -> Vec<Line> {
    let mut lines = folded(&moment_name(timeline, moment), wide, "", Ink::Strong, 2);
    for found in moment.differences.iter().take(facts) {
        let text = format!("{}: {} → {}", found.fact, found.base, found.new);
        lines.extend(folded(&text, wide, "  ", Ink::Plain, 2));
    }
    if moment.differences.is_empty() {
        lines.push(vec![("  No fact changed here, as far as the records say.".to_owned(), Ink::Plain)]);
    }
    lines.extend(moment.groups.iter().take(groups).map(|group| group_line(group, "", wide)));
    let others = moment.groups.iter().skip(groups).map(|group| u64::from(group.results)).sum::<u64>();
    if others > 0 {
        let text = format!("  and {}", count(others, "more headline result", "more headline results"));
        lines.push(vec![(text, Ink::Faint)]);
    }
    lines
}

fn group_line(group: &ChangedGroup, begin: &str, wide: usize) -> Line {
    let (word, ink) = if group.finding == Finding::Worse { ("worse", Ink::Bad) } else { ("better", Ink::Notable) };
    let results = count(u64::from(group.results), "result", "results");
    let name = format!("  {begin}{word:<6}  ");
    let room = wide.saturating_sub(name.chars().count());
    let end = format!(": {} ({results})", range(group.range));
    vec![(name, ink), (cut_before(&group.what, &end, room), Ink::Plain)]
}

/// Every result in a line.
fn table(timeline: &Timeline, wide: usize) -> Vec<Line> {
    let name = wide.saturating_sub(NUMBERS);
    let mut lines = vec![vec![(format!("{:name$}{:>12}{:>10}{:>10}", "", "now", "change", "finds"), Ink::Faint)]];
    lines.extend(timeline.results.iter().map(|result| line(result, name)));
    if !timeline.not_judged.is_empty() {
        lines.push(vec![(format!("{} not judged:", timeline.not_judged.len()), Ink::Plain)]);
        for found in &timeline.not_judged {
            let text = format!("  {} {}: {}", found.metric, found.labels, found.reason);
            lines.push(vec![(cut(&text, wide), Ink::Faint)]);
        }
    }
    lines
}

fn line(result: &ResultTimeline, name: usize) -> Line {
    let now = result.levels.last().map_or_else(String::new, |level| measured(level.value, level.interval, result.unit));
    let (ink, mark) = match result.finding {
        Finding::Worse => (Ink::Bad, "worse"),
        Finding::Better => (Ink::Notable, "better"),
        Finding::Inconclusive => (Ink::Faint, "?"),
        Finding::Equivalent => (Ink::Plain, "="),
    };
    let last = result.changes.last().map(|change| signed(change.change));
    let change = last.or_else(|| drift(result)).unwrap_or_else(|| "–".to_owned());
    let finds = result.detectable.filter(|_| !result.is_changed()).map_or_else(|| "–".to_owned(), signed);
    vec![
        (format!("{:name$}{now:>12}", cut(&result.phrase, name.saturating_sub(1))), Ink::Plain),
        (format!("{change:>10}"), ink),
        (format!("{finds:>10} {mark}"), ink),
    ]
}
