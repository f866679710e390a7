//! A pager for what is longer than the screen.

use std::io::{IsTerminal, Write};
use std::process::{Command, Stdio};

/// What `less` is asked where nothing else is set: end where one screen suffices, leave colours and the screen as they are.
const OPTIONS: &str = "FRX";

/// Whether the reader saw the text in a pager. Only a terminal has one, and only for text that is longer than its screen. PAGER names
/// it, `less` is the one without that; an empty PAGER or `cat` means none.
pub(super) fn show(text: &str) -> bool {
    let rows = terminal_size::terminal_size().map_or(usize::MAX, |(_, rows)| usize::from(rows.0));
    if !std::io::stdout().is_terminal() || text.lines().count() < rows {
        return false;
    }
    let Some(command) = command(std::env::var("PAGER").ok()) else { return false };
    through(&command, text)
}

/// The words of the pager's command; none where the reader wants none.
fn command(said: Option<String>) -> Option<Vec<String>> {
    let words: Vec<String> =
        said.unwrap_or_else(|| "less".to_owned()).split_whitespace().map(ToOwned::to_owned).collect();
    let wanted = words.first().is_some_and(|program| program != "cat");
    wanted.then_some(words)
}

/// Whether a pager could be started with the text. A reader that quits before the end has seen what was wanted.
fn through(command: &[String], text: &str) -> bool {
    let mut pager = Command::new(&command[0]);
    pager.args(&command[1..]).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        pager.env("LESS", OPTIONS);
    }
    let Ok(mut running) = pager.spawn() else { return false };
    if let Some(mut input) = running.stdin.take() {
        let _ = input.write_all(text.as_bytes());
    }
    running.wait().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reader_chooses_the_pager() {
        let words = |said: Option<&str>| command(said.map(ToOwned::to_owned)).map(|words| words.join(" "));
        assert_eq!(words(None).as_deref(), Some("less"));
        assert_eq!(words(Some("more -s")).as_deref(), Some("more -s"));
        assert_eq!((words(Some("")), words(Some("cat"))), (None, None));
    }

    #[test]
    fn text_goes_through_and_a_missing_pager_is_none() {
        assert!(through(&["true".to_owned()], "one\ntwo\n"));
        assert!(!through(&["/no/such/pager".to_owned()], "one\n"));
    }
}
