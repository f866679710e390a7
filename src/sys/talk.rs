//! Talk on standard error. A user who redirected it to a full disk or closed it wants no talk: a failed write ends nothing. Words
//! of others in it cannot give orders to the terminal.

use std::fmt::Display;
use std::io::Write;

use super::foreign;

/// Says one line.
pub fn line(words: impl Display) {
    text(format_args!("{words}\n"));
}

/// Says text as it is, line breaks included.
pub fn text(words: impl Display) {
    // One write: lines of several processes on one stream do not mix.
    let _ = std::io::stderr().write_all(foreign::shown(&words.to_string()).as_bytes());
}
