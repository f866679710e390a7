//! The English of everything that people read: documents, explain pages, help, and every message in the sources.
//!
//! A sentence has at most 25 words and no semicolon. Words that have a plainer one in the style of the project are refused, and so
//! is every word that neither the dictionary nor `tests/words.txt` has.
use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use sysdyno::testing::assemble;
use sysdyno::testing::report::content;
use sysdyno::testing::report::page::{Page, Piece, Span};
use sysdyno::testing::results::log;

use crate::support::runs::{output, text};
use crate::support::sources;
use crate::support::trees::files;

/// Most words of a sentence.
const MOST_WORDS: usize = 25;
/// Words of the dictionary, one a line (Debian: wbritish-large).
const DICTIONARY: &str = "/usr/share/dict/british-english-large";
/// Literals with fewer words are names and formats.
const LEAST_WORDS: usize = 4;
/// What stands for a piece of code: one word that every rule accepts.
const CODE: &str = "code";

/// Words and groups of words that have a plainer one, with it.
const PLAINER: &[(&str, &str)] = &[
    ("dear", "expensive"),
    ("dearer", "more expensive"),
    ("dearest", "most expensive"),
    ("told", "measured, reported or given"),
    ("told apart", "distinguished"),
    ("mend", "fix"),
    ("mended", "fixed"),
    ("canary", "interference probe"),
    ("canaries", "interference probes"),
    ("of its own", "own, separate"),
    ("of their own", "own, separate"),
    ("in store", "cached"),
    ("all the same", "(nothing)"),
    ("indeed", "(nothing)"),
    ("at all", "(nothing)"),
    ("so many", "(the number)"),
    ("that one", "(the noun)"),
    ("this one", "(the noun)"),
    ("whoever", "(the noun)"),
    ("newborn", "new"),
    ("nobody", "no process"),
    ("somebody", "another process"),
    ("everybody", "every process"),
    ("beside", "next to, in addition to, during"),
    ("as well", "also"),
    ("meanwhile", "(nothing)"),
    ("to and fro", "back and forth"),
    ("hop", "handoff"),
    ("hops", "handoffs"),
    ("stands out", "exceeds"),
    ("stand out", "exceed"),
    ("thereby", "(nothing)"),
    ("wherein", "where"),
    ("whereby", "by which"),
    ("behold", "see"),
    ("what is more", "(nothing)"),
];

/// The dictionary and the words of the field.
fn words_that_exist() -> &'static HashSet<String> {
    static WORDS: OnceLock<HashSet<String>> = OnceLock::new();
    WORDS.get_or_init(|| {
        let dictionary = fs::read_to_string(DICTIONARY)
            .unwrap_or_else(|error| panic!("{DICTIONARY}: {error}\nhint: apt-get install wbritish-large"));
        let of_the_field = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/words.txt");
        let of_the_field = fs::read_to_string(of_the_field).unwrap();
        [dictionary, of_the_field].iter().flat_map(|list| list.lines()).map(|word| word.trim().to_lowercase()).collect()
    })
}

/// What is wrong with a paragraph of prose, without markup. A word alone is a name.
fn faults(paragraph: &str) -> Vec<String> {
    let mut found = Vec::new();
    if !paragraph.trim().contains(' ') {
        return found;
    }
    for sentence in sentences(paragraph) {
        let words: Vec<&str> =
            sentence.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).collect();
        if words.len() > MOST_WORDS {
            found.push(format!("{} words, at most {MOST_WORDS}: {sentence}", words.len()));
        }
        if sentence.contains(';') {
            found.push(format!("a semicolon: {sentence}"));
        }
        found.extend(words_with_plainer_ones(sentence));
    }
    found.extend(misspelt(paragraph).map(|word| format!("\"{word}\" is in no dictionary: {paragraph}")));
    found
}

/// Words that have a plainer one.
fn words_with_plainer_ones(sentence: &str) -> impl Iterator<Item = String> {
    let words = sentence.split_whitespace();
    let bare = words.map(|word| word.trim_matches(|letter: char| !letter.is_alphanumeric()).to_lowercase());
    let bare = format!(" {} ", bare.collect::<Vec<String>>().join(" "));
    let found = PLAINER.iter().filter(move |(word, _)| bare.contains(&format!(" {word} ")));
    found.map(move |(word, plainer)| format!("\"{word}\", better {plainer}: {sentence}"))
}

/// Sentences end with a stop or a colon before a capital letter, a digit, or code.
fn sentences(paragraph: &str) -> Vec<&str> {
    let (mut sentences, mut start) = (Vec::new(), 0);
    for (position, _) in paragraph.match_indices(['.', '!', '?', ':']) {
        let rest = paragraph[position + 1..].trim_start_matches([')', '"', '”']);
        let next = rest.trim_start();
        let begins = next
            .starts_with(|letter: char| letter.is_uppercase() || letter.is_numeric() || "(\"“".contains(letter))
            || next.starts_with(CODE);
        if rest.len() > next.len() && begins {
            sentences.push(paragraph[start..paragraph.len() - rest.len()].trim());
            start = paragraph.len() - next.len();
        }
    }
    sentences.push(paragraph[start..].trim());
    sentences
}

/// Words that no list has. Names with digits, capitals inside, underscores, dots or slashes are not words.
fn misspelt(paragraph: &str) -> impl Iterator<Item = &str> {
    let edges = |letter: char| "()[]\"“”‘’'.,:;!?…*".contains(letter);
    paragraph
        .split_whitespace()
        .map(move |word| word.trim_matches(edges))
        .filter(|word| !word.starts_with("--"))
        .filter(|word| word.chars().all(|letter| letter.is_ascii_alphabetic() || "-'’".contains(letter)))
        .flat_map(|word| word.split('-'))
        .filter(|part| part.len() > 2 && part[1..].chars().all(|letter| !letter.is_uppercase()))
        .filter(|part| {
            let word = part.to_lowercase().replace('’', "'");
            let exists = words_that_exist();
            !exists.contains(&word) && !exists.contains(word.trim_end_matches("'s"))
        })
}

/// The paragraphs, items and cells of a Markdown document, without code.
fn paragraphs(document: &str) -> Vec<String> {
    let (mut found, mut current, mut in_code) = (Vec::new(), String::new(), false);
    for event in Parser::new_ext(document, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => in_code = true,
            Event::End(TagEnd::CodeBlock) => in_code = false,
            Event::Start(Tag::Item | Tag::Paragraph | Tag::TableCell | Tag::Heading { .. })
            | Event::End(TagEnd::Item | TagEnd::Paragraph | TagEnd::TableCell | TagEnd::Heading(_)) => {
                found.push(std::mem::take(&mut current));
            }
            Event::Text(words) if !in_code => current.push_str(&words),
            Event::Code(_) => current.push_str(CODE),
            Event::SoftBreak | Event::HardBreak => current.push(' '),
            _ => {}
        }
    }
    found.push(current);
    found.retain(|paragraph| !paragraph.trim().is_empty());
    found
}

/// A string literal of the sources as somebody reads it: escapes resolved, what is inserted as one number.
fn as_read(literal: &str) -> String {
    let (mut read, mut letters) = (String::new(), literal.chars().peekable());
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('\n') => while letters.next_if(|letter| letter.is_whitespace()).is_some() {},
                Some('n' | 't') => read.push(' '),
                Some(other) => read.push(other),
                None => {}
            },
            '{' if letters.peek() != Some(&'{') => {
                let _ = letters.by_ref().find(|&letter| letter == '}');
                read.push('1');
            }
            '{' | '}' => {}
            '`' => {
                let _ = letters.by_ref().find(|&letter| letter == '`');
                read.push_str(CODE);
            }
            other => read.push(other),
        }
    }
    read
}

/// Fails with everything that was found.
fn expect_none(found: &[(String, String)]) {
    let mut list = String::new();
    for (place, fault) in found {
        let _ = writeln!(list, "{place}: {fault}");
    }
    assert!(found.is_empty(), "{} faults of English:\n{list}", found.len());
}

#[test]
fn documents_are_plain() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut documents: Vec<_> = ["README", "METHODOLOGY", "LIMITS", "CONTRIBUTING", "CHANGELOG"]
        .map(|name| root.join(name).with_extension("md"))
        .to_vec();
    documents.extend(files(&root.join("docs")));
    let mut found = Vec::new();
    for place in documents {
        let name = place.strip_prefix(root).unwrap().display().to_string();
        let document = fs::read_to_string(&place).unwrap();
        for paragraph in paragraphs(&document) {
            found.extend(faults(&paragraph).into_iter().map(|fault| (name.clone(), fault)));
        }
    }
    expect_none(&found);
}

#[test]
fn explain_pages_and_help_are_plain() {
    let mut found = Vec::new();
    for experiment in sysdyno::testing::experiments::TABLE {
        let page = experiment.source.lines().map_while(|line| line.strip_prefix("//!"));
        let page = page.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n");
        for paragraph in paragraphs(&page) {
            found.extend(faults(&paragraph).into_iter().map(|fault| (experiment.id.to_owned(), fault)));
        }
    }
    let commands = text(&output(&["help"]).stdout);
    let verbs = commands.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let verbs = verbs.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("    "));
    for verb in verbs.filter_map(|line| line.split_whitespace().next()) {
        let help = text(&output(&["help", verb]).stdout);
        let help = help.split("\nExamples:").next().unwrap_or_default();
        // Options and what they mean are apart by layout alone.
        for paragraph in help.split("\n\n") {
            let lines = paragraph.lines().filter(|line| !line.trim_start().starts_with(['-', '[', '<']));
            let paragraph = lines.filter(|line| !line.starts_with("Usage:")).collect::<Vec<_>>().join(" ");
            found.extend(faults(&paragraph).into_iter().map(|fault| (format!("help {verb}"), fault)));
        }
    }
    expect_none(&found);
}

#[test]
fn messages_are_plain() {
    let mut found = Vec::new();
    for source in sources::all().iter().filter(|source| !source.path.starts_with("sys/arch/")) {
        for (line, literal) in source.strings.iter().filter(|(line, _)| *line < source.tests_from) {
            let read = as_read(literal);
            let words =
                read.split_whitespace().filter(|word| word.chars().filter(|letter| letter.is_alphabetic()).count() > 1);
            // Scripts for a shell are not prose.
            if words.count() >= LEAST_WORDS && !literal.contains("$(") {
                let place = format!("src/{}:{line}", source.path);
                found.extend(faults(&read).into_iter().map(|fault| (place.clone(), fault)));
            }
        }
    }
    expect_none(&found);
}

/// Paragraphs of the comments in a script. What is indented is code, or a variable with its use.
fn comments(script: &str) -> Vec<String> {
    let (mut found, mut current) = (Vec::new(), String::new());
    for line in script.lines().map(str::trim_start) {
        let comment =
            line.strip_prefix('#').filter(|rest| !rest.starts_with(['!', 'S']) && !rest.contains("shellcheck"));
        let words = comment.unwrap_or_default();
        let variable = words.trim_start().strip_prefix("SYSDYNO").and_then(|rest| rest.split_once(' '));
        if let Some(prose) = words.strip_prefix(' ').filter(|rest| !rest.starts_with(' ')) {
            current += prose;
            current.push(' ');
        } else {
            found.push(std::mem::take(&mut current));
            found.extend(variable.map(|(_, usage)| usage.trim().to_owned()));
        }
    }
    found.push(current);
    let code = |text: &str| {
        text.split('`').enumerate().map(|(place, part)| if place % 2 == 1 { CODE } else { part }).collect()
    };
    found.iter().map(|paragraph| code(paragraph)).collect()
}

#[test]
fn comments_of_scripts_are_plain() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/scripts");
    let (mut found, mut paragraphs) = (Vec::new(), 0);
    for file in files(&place) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        for paragraph in comments(&fs::read_to_string(&file).unwrap()) {
            paragraphs += 1;
            found.extend(faults(&paragraph).into_iter().map(|fault| (name.clone(), fault)));
        }
    }
    assert!(paragraphs > 50, "{paragraphs} paragraphs were read");
    expect_none(&found);
}

/// A comment of a line of Rust.
fn comment_of(line: &str) -> Option<&str> {
    let whole = line.trim_start().strip_prefix("//").map(|text| text.trim_start_matches(['/', '!']));
    whole.or_else(|| line.split_once(" // ").map(|(_, text)| text))
}

#[test]
fn comments_of_sources_use_the_words_of_the_documents() {
    let mut found = Vec::new();
    for source in sources::all() {
        let comments = source.text.lines().filter_map(comment_of);
        found.extend(comments.flat_map(words_with_plainer_ones).map(|fault| (source.path.clone(), fault)));
    }
    expect_none(&found);
}

/// Records and shortened logs whose reports are read.
const LOGS: [&str; 4] = [
    "tests/golden/complete.jsonl",
    "tests/golden/failed_launch.jsonl",
    "tests/golden/skipped_step.jsonl",
    "records/guest-zen4-2cpu-chapters/log.jsonl",
];

/// The prose of a page that sysdyno composed: paragraphs, items, alarms and captions. Identifiers are code.
fn composed(page: &Page) -> Vec<String> {
    let mut found = Vec::new();
    let mut pieces: Vec<&Piece> = page.parts.iter().flat_map(|part| &part.pieces).collect();
    while let Some(piece) = pieces.pop() {
        let joined = |spans: &[Span]| spans.iter().map(|span| span.text.as_str()).collect::<String>();
        match piece {
            Piece::Paragraph(spans) => found.push(joined(spans)),
            Piece::List(items) => found.extend(items.iter().map(|item| joined(item))),
            Piece::Alarm(words) => found.push(words.clone()),
            Piece::Table(table) => found.push(table.caption.clone()),
            Piece::Drawing(drawing) => found.extend([drawing.caption.clone(), drawing.alt.clone()]),
            Piece::Analysis(inside) | Piece::Folded { pieces: inside, .. } => pieces.extend(inside),
            Piece::Heading(_) | Piece::Prose(_) | Piece::Literal(_) => {}
        }
    }
    let is_identifier = |word: &str| {
        let bare = word.trim_matches(|letter: char| "(),.:;".contains(letter));
        bare.contains(['=', '_', '/'])
            || bare.split('.').count() > 1
                && bare.split('.').all(|part| part.starts_with(|one: char| one.is_ascii_lowercase()))
    };
    let readable = |word: &str| {
        let end = word.trim_end_matches(|letter: char| ").,:;".contains(letter)).len();
        if is_identifier(word) { format!("{CODE}{}", &word[end..]) } else { word.to_owned() }
    };
    // A sum of terms is a formula.
    let prose = found.iter().map(|text| match (text.split_once(" Predicted: "), text.split_once(" Measured: ")) {
        (Some((before, _)), Some((_, after))) => format!("{before} Measured: {after}"),
        _ => text.clone(),
    });
    prose.map(|text| text.split_whitespace().map(readable).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn composed_reports_are_plain() {
    let mut found = Vec::new();
    for name in LOGS {
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let mut document = assemble::document(&log::read(&place).unwrap());
        // The version that measured wrote these words.
        document.quiet.clear();
        for page in [content::brief(&document, None, content::OtherPages::OnDemand), content::page(&document)] {
            for paragraph in composed(&page) {
                found.extend(faults(&paragraph).into_iter().map(|fault| (name.to_owned(), fault)));
            }
        }
    }
    found.sort();
    found.dedup();
    expect_none(&found);
}

#[test]
fn a_fault_is_found() {
    for (wrong, why) in [
        ("A fork is dear.", "expensive"),
        ("It waits; it wakes.", "semicolon"),
        ("The kernel swithces tasks.", "dictionary"),
        ("The tasks can be told apart.", "distinguished"),
        (&"word ".repeat(26), "26 words"),
    ] {
        assert!(faults(wrong).iter().any(|fault| fault.contains(why)), "{wrong}: {:?}", faults(wrong));
    }
    assert_eq!(faults("The kernel wakes the task. It takes 25 µs: code says so."), Vec::<String>::new());
    assert_eq!(sentences("One. Two e.g. three. code four"), ["One.", "Two e.g. three.", "code four"]);
    assert_eq!(paragraphs("# One\n\n- two `x` three\n- four\n\n| a | b |\n|---|---|\n| c | d |\n").len(), 7);
    assert_eq!(as_read("{} of {total} say `x`\\n\\\n   more"), "1 of 1 say code more");
}
