//! An answer on one screen of a terminal: text behind marks, lists that say how much more there is, rows of columns. A line is a row
//! of the cells that pages have, and the verb paints their tones.

use super::page::{Cell, Tone};
use super::terminal;

/// Columns where the width is unknown.
pub const WIDTH: u16 = 80;
/// Columns that a screen has at least, or its columns would have no room.
const LEAST_WIDTH: usize = 60;
/// Lines of a screen.
const LINES: usize = 24;
/// Columns of the word before an entry.
const MARK: usize = 11;
/// How to see more.
pub const PAGE: &str = "A page: --format html -o FILE";

/// A line in pieces.
pub type Line = Vec<Cell>;

/// A screen that is being filled.
#[derive(Debug, Clone)]
pub struct Screen {
    /// Columns.
    pub wide: usize,
    /// Whether every line and entry is shown, however long the screen becomes.
    pub all: bool,
    /// The lines so far, from the top.
    pub lines: Vec<Line>,
}

impl Screen {
    /// An empty screen.
    pub fn new(width: Option<u16>, all: bool) -> Self {
        Screen { wide: usize::from(width.unwrap_or(WIDTH)).max(LEAST_WIDTH), all, lines: Vec::new() }
    }

    /// The number of entries that are shown: this many at most, or all.
    pub fn most(&self, most: usize) -> usize {
        if self.all { usize::MAX } else { most }
    }

    /// Text in this many lines at most.
    pub fn say(&mut self, text: &str, tone: Tone, most: usize) {
        self.lines.extend(folded(text, self.wide, "", tone, most));
    }

    /// Text in one line, cut at its end.
    pub fn cut(&mut self, text: &str, tone: Tone) {
        self.lines.push(vec![Cell::toned(cut(text, self.wide), tone)]);
    }

    /// Text behind a mark: cut to a line, or folded where everything is shown.
    pub fn entry(&mut self, mark: &str, text: &str, tone: Tone) {
        self.entry_in(mark, text, tone, self.most(1));
    }

    /// The same in this many lines at most.
    pub fn entry_in(&mut self, mark: &str, text: &str, tone: Tone, most: usize) {
        let room = self.wide - MARK;
        let texts = match most {
            1 => vec![vec![Cell::of(cut(text, room))]],
            most => folded(text, room, "", Tone::Plain, most),
        };
        for (number, text) in texts.into_iter().enumerate() {
            let mark = if number == 0 { mark } else { "" };
            self.lines.push([vec![Cell::toned(format!("{mark:<MARK$}"), tone)], text].concat());
        }
    }

    /// The first entries of a kind. The last of them says how many more there are.
    pub fn list(&mut self, mark: &str, texts: &[String], most: usize, tone: Tone) {
        let shown = self.most(most).min(texts.len());
        for (number, text) in texts[..shown].iter().enumerate() {
            let rest = if number + 1 == shown { texts.len() - shown } else { 0 };
            self.entry(mark, &self.counted(text, rest), tone);
        }
    }

    /// An entry that says how many more there are.
    pub fn counted(&self, text: &str, rest: usize) -> String {
        if rest == 0 { text.to_owned() } else { cut_before(text, &format!(" (+{rest} more)"), self.wide - MARK) }
    }

    /// The lines, the last of which are these: what has no room above them is left out.
    pub fn ended(mut self, end: Vec<Line>) -> Vec<Line> {
        self.lines.truncate(self.most(LINES.saturating_sub(end.len())));
        self.lines.extend(end);
        self.lines
    }
}

/// A name in this many columns, and texts that stand on the right of their columns. A text that is too long moves the others.
pub fn row(name: &str, width: usize, columns: &[(&str, usize, Tone)]) -> Line {
    let of_column = |(text, width, tone): &(&str, usize, Tone)| Cell::toned(format!("{text:>width$}"), *tone);
    let name = Cell::of(format!("{:<width$}", cut(name, width)));
    [name].into_iter().chain(columns.iter().map(of_column)).collect()
}

/// The lines as plain text.
pub fn plain(lines: &[Line]) -> String {
    let text = |line: &Line| line.iter().map(|cell| cell.text.as_str()).collect::<String>();
    lines.iter().map(|line| text(line).trim_end().to_owned() + "\n").collect()
}

/// A text and an end in this many columns: the text is cut, the end is not.
pub fn cut_before(text: &str, end: &str, width: usize) -> String {
    format!("{}{end}", cut(text, width.saturating_sub(end.chars().count())))
}

/// Text of at most this many letters.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(std::iter::once('…')).collect()
}

/// Text folded into at most this many lines, the first behind a mark and the others below it.
pub fn folded(text: &str, width: usize, mark: &str, tone: Tone, most: usize) -> Vec<Line> {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut lines = terminal::hung(&words, width, mark);
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            *last = cut(&format!("{last}……"), width.min(last.chars().count() + 1));
        }
    }
    // A path may be longer than a line.
    lines.into_iter().map(|line| vec![Cell::toned(cut(&line, width), tone)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_folded_and_cut() {
        let lines = folded("one two three four five six", 9, "1 ", Tone::Plain, 2);
        assert_eq!(plain(&lines), "1 one two\n  three…\n");
        assert_eq!(cut("abcdef", 4), "abc…");
    }

    #[test]
    fn the_last_entry_says_how_many_more_there_are() {
        let texts = ["one", "two", "three"].map(str::to_owned);
        let shown = |all: bool| {
            let mut screen = Screen::new(None, all);
            screen.list("odd", &texts, 2, Tone::Bad);
            plain(&screen.lines)
        };
        assert_eq!(shown(false), "odd        one\nodd        two (+1 more)\n");
        assert_eq!(shown(true), "odd        one\nodd        two\nodd        three\n");
    }
}
