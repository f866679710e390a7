//! Colour: a few words on a screen are highlighted, where a terminal shows it and the user has not turned it off.

use std::io::IsTerminal;

use clap::ValueEnum;

use crate::report::page::{Cell, Tone};
use crate::report::screen::{Line, plain};
use crate::sys::foreign;

/// When to use colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ColourChoice {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Everywhere
    Always,
    /// Nowhere
    Never,
}

impl ColourChoice {
    /// Whether standard output is coloured.
    fn on_stdout(self) -> bool {
        let unwanted = || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        match self {
            ColourChoice::Always => true,
            ColourChoice::Never => false,
            ColourChoice::Auto => std::io::stdout().is_terminal() && !unwanted() && !dumb(),
        }
    }
}

/// The lines of a screen for standard output. Words of others are made harmless before colours are added.
pub(super) fn painted(lines: &[Line], choice: ColourChoice) -> String {
    if !choice.on_stdout() {
        return foreign::shown(&plain(lines)).into_owned();
    }
    let piece = |cell: &Cell| {
        let text = foreign::shown(&cell.text);
        match code(cell.tone) {
            Some(code) if !text.trim().is_empty() => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            _ => text.into_owned(),
        }
    };
    lines.iter().map(|line| line.iter().map(piece).collect::<String>().trim_end().to_owned() + "\n").collect()
}

/// The parameter of the terminal's order for a tone.
fn code(tone: Tone) -> Option<&'static str> {
    match tone {
        Tone::Plain => None,
        Tone::Strong => Some("1"),
        Tone::Faint => Some("2"),
        Tone::Good => Some("32"),
        Tone::Doubt => Some("33"),
        Tone::Bad => Some("31"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_others_give_no_orders_to_the_terminal() {
        let lines = vec![vec![Cell::toned("a\u{1b}[31mb", Tone::Strong), Cell::of(" c")]];
        assert_eq!(painted(&lines, ColourChoice::Always), "\u{1b}[1ma\u{fffd}[31mb\u{1b}[0m c\n");
        assert_eq!(painted(&lines, ColourChoice::Never), "a\u{fffd}[31mb c\n");
    }
}
