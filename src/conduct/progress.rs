//! Progress on standard error: one line with the remaining time, only on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::report::content::run_screen;
use crate::results::document::Highlight;
use crate::results::wording::duration;
use crate::sys::foreign;
use crate::sys::talk;

/// Steps of the bar.
const STEPS: u32 = 1000;

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
    /// Whether a finding is shown.
    insights: bool,
}

impl Progress {
    /// Progress that is shown, if standard error is a terminal and it is wanted. `width` is the terminal's, in columns. `insights` says whether
    /// findings are wanted.
    pub fn new(wanted: bool, width: Option<u16>, insights: bool) -> Self {
        let target = if wanted { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(u64::from(STEPS)), target);
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {msg}") {
            bar.set_style(style.progress_chars("━╸─"));
        }
        Progress { bar, width, insights }
    }

    /// Shows the state before a launch: what is launched, seconds of the run so far and those to come, as far as they are known. The bar is the share of the
    /// time, and never goes back.
    pub fn show(&self, experiment: &str, elapsed: f64, left: f64) {
        let done = (f64::from(STEPS) * elapsed / (elapsed + left).max(elapsed).max(f64::MIN_POSITIVE)) as u64;
        self.bar.set_position(done.max(self.bar.position()));
        self.bar.set_message(format!("{experiment:<20} about {} left", whole_seconds(left)));
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

    /// Whether a person can see the bar, and a finding above it.
    pub fn shows_insights(&self) -> bool {
        self.insights && !self.bar.is_hidden()
    }

    /// Shows the first insight of a run above the bar. Other streams than terminals get no part of the result early.
    pub fn show_insight(&self, found: &Highlight) {
        if self.shows_insights() {
            for line in run_screen::first_insight(found, self.width).lines() {
                self.bar.println(foreign::shown(line));
            }
        }
    }

    /// Takes the bar away.
    pub fn done(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_follows_the_time_and_never_goes_back() {
        let progress = Progress::new(false, None, true);
        let shown = |elapsed: f64, left: f64| {
            progress.show("cpu.loop", elapsed, left);
            progress.bar.position()
        };
        assert_eq!(shown(0.0, 0.0), 0);
        assert_eq!(shown(0.0, 20.0), 0);
        assert_eq!(shown(10.0, 10.0), 500, "half of the time, although no round has ended");
        assert_eq!(shown(11.0, 14.0), 500, "the rest takes longer than it seemed");
        assert_eq!(shown(18.0, 2.0), 900);
        assert_eq!(shown(21.0, 0.0), 1000);
    }
}
