//! What can be typed to verbs that answer from several runs: the form of the answer, and what to make of it.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::paint::ColourChoice;

/// The form of an answer, and its exit code.
#[derive(Debug, Args)]
pub(super) struct AnswerOptions {
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = ComparisonForm::Text, value_name = "FORM")]
    pub format: ComparisonForm,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Show everything, not only headline results that changed
    #[arg(long)]
    pub all: bool,
    /// Judge only by changes for the worse of at least this size: worse:10% (slower:10% is the same)
    #[arg(long, value_name = "CHANGE", value_parser = parse_change)]
    pub fail_on: Option<f64>,
    /// End with exit code 0 instead of 3
    #[arg(long)]
    pub lenient: bool,
    /// When to use colour
    #[arg(long, value_enum, default_value_t = ColourChoice::Auto, value_name = "WHEN")]
    pub color: ColourChoice,
}

impl AnswerOptions {
    /// The smallest change for the worse that counts, as a relative number.
    pub fn least(&self) -> f64 {
        self.fail_on.unwrap_or(0.0)
    }
}

/// Forms of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ComparisonForm {
    /// One screen
    Text,
    /// A page that a browser shows
    Html,
    /// For a pull request
    Markdown,
    /// For programs
    Json,
}

/// A relative change: 0.1 from `worse:10%`.
fn parse_change(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}' is not a change. Examples: worse:10%, slower:2.5%");
    let (word, size) = text.split_once(':').ok_or_else(wrong)?;
    let size: f64 = size.trim().strip_suffix('%').ok_or_else(wrong)?.trim().parse().map_err(|_| wrong())?;
    let known = ["worse", "slower"].contains(&word);
    if known && size >= 0.0 && size.is_finite() { Ok(size / 100.0) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read() {
        assert_eq!(parse_change("worse:10%"), Ok(0.1));
        assert_eq!(parse_change("slower:2.5 %"), Ok(0.025));
        for wrong in ["10%", "worse:10", "worse:-1%", "better:3%", "worse:NaN%", "worse:inf%"] {
            assert!(parse_change(wrong).is_err(), "{wrong}");
        }
    }
}
