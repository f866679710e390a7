//! Numbers of others next to the results of a run, on one screen and as a page. Several files are a class: who is off, where, and by
//! which mistake.

use std::collections::BTreeMap;

use crate::report::page::{Cell, Page, PagePart, Piece, Span, Table, Tone};
use crate::report::screen::{Line, PAGE, Screen};
use crate::results::judgement::{Agreement, Cause, JudgedNumber, JudgedSource, Judgement};
use crate::results::wording::{count, factor, quantity, some};

/// Causes of a number that are shown.
const CAUSES: usize = 2;
/// Bad numbers on a screen.
const NUMBERS: usize = 6;
/// Files on a screen.
const FILES: usize = 6;
/// Mistakes on a screen.
const MISTAKES: usize = 4;

/// The answer on one screen. With `all`, every number.
pub fn screen(judgement: &Judgement, width: Option<u16>, all: bool) -> Vec<Line> {
    let mut screen = Screen::new(width, all);
    screen.say(&verdict(judgement), Tone::Strong, screen.most(2));
    if judgement.sources.len() > 1 && !all {
        add_class(&mut screen, judgement);
    } else {
        add_numbers(&mut screen, judgement);
    }
    screen.list("not read", &judgement.left_aside, 1, Tone::Doubt);
    if let Some(text) = left_out(judgement) {
        screen.entry("left out", &text, Tone::Faint);
    }
    screen.entry("by", &basis(judgement), Tone::Faint);
    if all {
        return screen.lines;
    }
    let mut end = Screen::new(width, all);
    end.entry("", &format!("All: --all. {PAGE}"), Tone::Faint);
    screen.ended(end.lines)
}

/// The bad numbers with their causes. Where everything is shown, also the others.
fn add_numbers(screen: &mut Screen, judgement: &Judgement) {
    let bad: Vec<(&str, &JudgedNumber)> = judgement.bad().collect();
    let shown = screen.most(NUMBERS).min(bad.len());
    let is_class = judgement.sources.len() > 1;
    for (place, (file, number)) in bad[..shown].iter().enumerate() {
        let rest = if place + 1 == shown { bad.len() - shown } else { 0 };
        let of = if is_class { format!("{file}, ") } else { String::new() };
        let text = format!("{of}{}", compared(number));
        screen.entry(number.state.word(), &screen.counted(&text, rest), tone(number.state));
        for cause in number.causes.iter().take(CAUSES) {
            screen.entry("", &in_words(cause), Tone::Plain);
        }
        if number.causes.is_empty() {
            screen.entry("", "No typical mistake fits.", Tone::Faint);
        }
    }
    let others: &[Agreement] =
        if screen.all { &[Agreement::Undecided, Agreement::Agrees, Agreement::NotCompared] } else { &[] };
    for &state in others {
        let numbers = judgement.sources.iter().flat_map(|source| &source.numbers);
        for number in numbers.filter(|number| number.state == state) {
            screen.entry(state.word(), &compared(number), tone(state));
        }
    }
}

/// Files and mistakes of a class.
fn add_class(screen: &mut Screen, judgement: &Judgement) {
    let mut files: Vec<&JudgedSource> = judgement.sources.iter().filter(|source| bad(source) > 0).collect();
    files.sort_by_key(|source| std::cmp::Reverse(bad(source)));
    let of_file = |source: &&JudgedSource| {
        let all = count(source.numbers.len() as u64, "number", "numbers");
        format!("{}: {} of {all} off or doubtful. {}", source.name, bad(source), mistakes_of(source))
    };
    screen.list("file", &files.iter().map(of_file).collect::<Vec<_>>(), FILES, Tone::Bad);
    let of_mistake = |(cause, files): &(&Cause, Vec<&str>)| {
        format!("{}: {}", count(files.len() as u64, "file", "files"), cause.cause)
    };
    let mistakes: Vec<String> = mistakes(judgement).iter().map(of_mistake).collect();
    screen.list("mistake", &mistakes, MISTAKES, Tone::Doubt);
    let of_number = |(name, files): &(&str, Vec<&str>)| format!("{name}: {}", some(files, 4));
    let numbers: Vec<String> = hardest(judgement).iter().map(of_number).collect();
    screen.list("number", &numbers, MISTAKES, Tone::Doubt);
}

/// The page: the verdict, files and mistakes where there are several files, and every number.
pub fn page(judgement: &Judgement) -> Page {
    let mut front = PagePart::new("glance", "At a glance", 2);
    front.add(Piece::Paragraph(vec![Span::strong(verdict(judgement))]));
    front.say(basis(judgement));
    if let Some(text) = left_out(judgement) {
        front.say(format!("Left out: {text}"));
    }
    let mut parts = vec![front];
    if judgement.sources.len() > 1 {
        parts.extend([files(judgement), table_of_mistakes(judgement)]);
    }
    for (place, source) in judgement.sources.iter().enumerate() {
        let mut part = PagePart::new(&format!("file-{place}"), &source.name, 2);
        part.add(Piece::Table(table(source)));
        parts.push(part);
    }
    if !judgement.left_aside.is_empty() {
        let mut part = PagePart::new("aside", "Files that could not be read", 2);
        part.add(Piece::List(judgement.left_aside.iter().map(|text| vec![Span::plain(text)]).collect()));
        parts.push(part);
    }
    let title = if judgement.sources.len() > 1 { "Whose numbers are right?" } else { "Are these numbers right?" };
    Page { title: title.to_owned(), subtitle: format!("by {} on {}", judgement.run, judgement.machine), parts }
}

/// How many of all numbers are in which state.
fn verdict(judgement: &Judgement) -> String {
    let of = |state| judgement.sources.iter().map(|source| source.count(state)).sum::<usize>();
    let all: usize = judgement.sources.iter().map(|source| source.numbers.len()).sum();
    let files = match judgement.sources.len() {
        1 => String::new(),
        files => format!(" in {}", count(files as u64, "file", "files")),
    };
    let [off, doubtful, undecided, agree, open] =
        [Agreement::Off, Agreement::Doubtful, Agreement::Undecided, Agreement::Agrees, Agreement::NotCompared].map(of);
    let undecided = match undecided {
        0 => String::new(),
        _ => format!(" {undecided} undecided, because other work disturbed the run or its results are not resolved."),
    };
    format!(
        "{}{files}: {agree} agree, {off} off, {doubtful} doubtful, {open} without a result to compare.{undecided}",
        count(all as u64, "number", "numbers")
    )
}

/// What they are judged by.
fn basis(judgement: &Judgement) -> String {
    let machine = if judgement.other_machine { "another machine" } else { "the same machine" };
    format!(
        "{}, {}. Numbers of {machine} agree within {}. Doubtful numbers contradict their own file or the hardware.",
        judgement.run,
        judgement.machine,
        factor(judgement.agree_within)
    )
}

/// Which files of runs are not judged.
fn left_out(judgement: &Judgement) -> Option<String> {
    let names: Vec<&str> = judgement.left_out.iter().map(String::as_str).collect();
    (!names.is_empty()).then(|| {
        let runs = count(names.len() as u64, "run", "runs");
        format!("{runs} of sysdyno next to a CSV file: {}.", some(&names, 2))
    })
}

/// The files with the number of bad numbers, the worst first.
fn files(judgement: &Judgement) -> PagePart {
    let mut part = PagePart::new("files", "Files", 2);
    let heads = ["file", ">numbers", ">agree", ">off", ">doubtful", ">undecided", ">no result", "mistakes that fit"];
    let mut table = Table::new("", &heads);
    let mut order: Vec<&JudgedSource> = judgement.sources.iter().collect();
    order.sort_by_key(|source| std::cmp::Reverse(bad(source)));
    for source in order {
        let number = |state| Cell::of(source.count(state).to_string());
        table.row(vec![
            Cell::of(&source.name),
            Cell::of(source.numbers.len().to_string()),
            number(Agreement::Agrees),
            number(Agreement::Off),
            number(Agreement::Doubtful),
            number(Agreement::Undecided),
            number(Agreement::NotCompared),
            Cell::of(mistakes_of(source)),
        ]);
    }
    part.add(Piece::Table(table));
    part
}

/// The mistakes with their files, the most frequent first, and the numbers that most files have wrong.
fn table_of_mistakes(judgement: &Judgement) -> PagePart {
    let mut part = PagePart::new("mistakes", "Mistakes", 2);
    let mut table =
        Table::new("Only the most likely cause of a number counts.", &["mistake", ">files", "which", "what to do"]);
    for (cause, files) in mistakes(judgement) {
        table.row(vec![
            Cell::of(&cause.cause),
            Cell::of(files.len().to_string()),
            Cell::of(files.join(", ")),
            Cell::of(&cause.remedy),
        ]);
    }
    part.add(Piece::Table(table));
    let mut numbers = Table::new("Numbers that are off or doubtful", &["number", ">files", "which"]);
    for (name, files) in hardest(judgement) {
        numbers.row(vec![Cell::of(name), Cell::of(files.len().to_string()), Cell::of(files.join(", "))]);
    }
    part.add(Piece::Table(numbers));
    part
}

fn table(source: &JudgedSource) -> Table {
    let heads =
        ["place", "number", "written", ">in units of sysdyno", ">this run", ">ratio", "state", "causes that fit"];
    let mut table = Table::new("", &heads);
    for number in &source.numbers {
        let ours = number.ours.as_ref().map_or_else(Cell::none, |ours| Cell::of(quantity(ours.value, number.unit)));
        let causes: Vec<String> = number.causes.iter().take(CAUSES).map(in_words).collect();
        table.row(vec![
            Cell::of(&number.place),
            Cell::of(&number.name),
            Cell::of(&number.written),
            Cell::of(quantity(number.value, number.unit)),
            ours,
            number.ratio.map_or_else(Cell::none, |ratio| Cell::of(factor(ratio))),
            Cell::toned(number.state.word(), tone(number.state)),
            if causes.is_empty() { Cell::none() } else { Cell::of(causes.join(" ")) },
        ]);
    }
    table
}

/// A number, our result and the ratio.
fn compared(number: &JudgedNumber) -> String {
    let yours = format!("{} {}", number.name, quantity(number.value, number.unit));
    match (&number.ours, number.ratio) {
        (Some(ours), Some(ratio)) => {
            let how = if ours.labels.get("how") == Some("library_fork_wait") { " by the C library" } else { "" };
            format!("{yours}, this run {}{how} ({})", quantity(ours.value, number.unit), factor(ratio))
        }
        _ => yours,
    }
}

/// A cause with what speaks for it.
fn in_words(cause: &Cause) -> String {
    format!("{}: {} ({})", cause.strength.word(), cause.cause, cause.evidence)
}

fn tone(state: Agreement) -> Tone {
    match state {
        Agreement::Off => Tone::Bad,
        Agreement::Doubtful | Agreement::Undecided => Tone::Doubt,
        Agreement::Agrees => Tone::Good,
        Agreement::NotCompared => Tone::Faint,
    }
}

fn bad(source: &JudgedSource) -> usize {
    source.numbers.iter().filter(|number| number.state.is_bad()).count()
}

/// The most likely causes of a file's bad numbers, by their short names.
fn mistakes_of(source: &JudgedSource) -> String {
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for number in source.numbers.iter().filter(|number| number.state.is_bad()) {
        *found.entry(number.causes.first().map_or("unexplained", |cause| cause.trap.as_str())).or_default() += 1;
    }
    let mut found: Vec<(&str, usize)> = found.into_iter().collect();
    found.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    let words = |(trap, times): (&str, usize)| {
        let name = trap.replace('_', " ");
        if times > 1 { format!("{name} ({times})") } else { name }
    };
    found.into_iter().map(words).collect::<Vec<_>>().join(", ")
}

/// The most likely causes of all bad numbers, each with its files.
fn mistakes(judgement: &Judgement) -> Vec<(&Cause, Vec<&str>)> {
    let mut found: BTreeMap<&str, (&Cause, Vec<&str>)> = BTreeMap::new();
    for (file, number) in judgement.bad() {
        if let Some(cause) = number.causes.first() {
            found.entry(&cause.trap).or_insert((cause, Vec::new())).1.push(file);
        }
    }
    most_files_first(found.into_values())
}

/// The names of bad numbers, each with the files that have it wrong.
fn hardest(judgement: &Judgement) -> Vec<(&str, Vec<&str>)> {
    let mut found: BTreeMap<&str, (&str, Vec<&str>)> = BTreeMap::new();
    for (file, number) in judgement.bad() {
        found.entry(&number.name).or_insert((&number.name, Vec::new())).1.push(file);
    }
    most_files_first(found.into_values())
}

fn most_files_first<'a, T>(found: impl Iterator<Item = (T, Vec<&'a str>)>) -> Vec<(T, Vec<&'a str>)> {
    let mut found: Vec<(T, Vec<&str>)> = found.collect();
    for (_, files) in &mut found {
        files.dedup();
    }
    found.sort_by_key(|(_, files)| std::cmp::Reverse(files.len()));
    found
}
