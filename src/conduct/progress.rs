//! Progress on standard error: one line with the remaining time, only on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::report::screen;
use crate::results::document::Highlight;
use crate::results::wording::duration;
use crate::sys::foreign;
use crate::sys::talk;

/// Seconds of which no part is shown: `7 s`, `3 min 10 s`.
fn whole_seconds(seconds: f64) -> String {
    let whole = seconds.max(0.0).ceil();
    if whole < 60.0 { format!("{whole} s") } else { duration(whole) }
}

/// Shows how far a run is. It draws only between launches: nothing ticks while one measures.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    /// Columns of the terminal, if they are known.
    width: Option<u16>,
}

impl Progress {
    /// Progress that is shown, if standard error is a terminal and it is wanted. `width` is the terminal's, in columns.
    pub fn new(wanted: bool, width: Option<u16>) -> Self {
        let target = if wanted { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(1), target);
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} rounds  {msg}") {
            bar.set_style(style.progress_chars("━╸─"));
        }
        Progress { bar, width }
    }

    /// Shows the state before a launch: rounds that ended, rounds planned, what is launched, seconds left.
    pub fn show(&self, ended: u32, planned: u32, experiment: &str, seconds_left: f64) {
        self.bar.set_length(u64::from(planned.max(ended)));
        self.bar.set_position(u64::from(ended));
        self.bar.set_message(format!("{experiment:<20} at most {} left", whole_seconds(seconds_left)));
    }

    /// Says something above the bar; on a stream other than a terminal, as a plain line.
    pub fn say(&self, line: &str) {
        let line = foreign::shown(line);
        if self.bar.is_hidden() {
            talk::line(line);
        } else {
            self.bar.println(line);
        }
    }

    /// Whether a person can see the bar.
    pub fn is_shown(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// Shows the first insight of a run above the bar. Other streams than terminals get no part of the result early.
    pub fn show_insight(&self, found: &Highlight) {
        if self.is_shown() {
            for line in screen::first_insight(found, self.width).lines() {
                self.bar.println(foreign::shown(line));
            }
        }
    }

    /// Takes the bar away.
    pub fn done(&self) {
        self.bar.finish_and_clear();
    }
}
