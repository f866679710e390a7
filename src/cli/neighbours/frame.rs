//! What `neighbours` shows on a terminal: for each CPU a bar of the last interval and the heights of those before, redrawn in place.

use std::collections::VecDeque;
use std::io::IsTerminal;

use super::super::terminal_width;
use super::account::CpuAccount;
use super::table;
use crate::report::screen;
use crate::results::wording::duration;

/// Intervals that are shown of each CPU: a minute, where an interval lasts a second.
const SHOWN: usize = 60;
/// Cells of a bar.
const BAR: usize = 3;
/// CPUs above which lines are printed instead: a frame must fit the terminal.
const MOST_CPUS: usize = 18;
/// Heights of an interval: 0, and each eighth of the time that has begun.
const HEIGHTS: [char; 9] = ['▁', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The shares of the last intervals of each CPU.
pub(super) struct Frame {
    last: Vec<VecDeque<Option<f64>>>,
    drawn: bool,
}

impl Frame {
    /// For a terminal that has room for all CPUs. A line that is folded there could not be replaced.
    pub(super) fn of(account: &CpuAccount) -> Option<Self> {
        let cpus = account.cores.len();
        let is_wide = terminal_width().is_some_and(|width| width >= screen::WIDTH);
        let fits = std::io::stdout().is_terminal() && is_wide && cpus <= MOST_CPUS;
        fits.then(|| Frame { last: vec![VecDeque::new(); cpus], drawn: false })
    }

    /// What stands above the lines.
    pub(super) fn head(interval: f64) -> String {
        format!("Neighbours on the cores now, and in the last intervals of {}:\n", duration(interval))
    }

    /// The text of the next interval. After the first one it goes up and replaces the one before.
    pub(super) fn next(&mut self, account: &CpuAccount) -> String {
        let mut text = if self.drawn { format!("\x1b[{}A", self.last.len()) } else { String::new() };
        self.drawn = true;
        for (core, last) in account.cores.iter().zip(&mut self.last) {
            let share = core.last.count.share_of_decided();
            last.push_back(share);
            if last.len() > SHOWN {
                last.pop_front();
            }
            let heights: String = last.iter().map(|share| height(*share)).collect();
            text += &format!("\x1b[KCPU {:<4}{} {:>6} {heights}\n", core.cpu, bar(share), table::share(share));
        }
        text
    }
}

/// A share as a bar.
fn bar(share: Option<f64>) -> String {
    let full = (share.unwrap_or(0.0) * BAR as f64).round() as usize;
    format!("{}{}", "█".repeat(full.min(BAR)), "░".repeat(BAR.saturating_sub(full)))
}

/// A share as the height of one character. A blank where no look was clear.
fn height(share: Option<f64>) -> char {
    share.map_or(' ', |share| HEIGHTS[((share * 8.0).ceil() as usize).min(8)])
}

#[cfg(test)]
mod tests {
    use super::super::account::tests::scripted;
    use super::*;

    #[test]
    fn each_cpu_has_a_line_that_is_replaced() {
        let account = scripted();
        let mut frame = Frame { last: vec![VecDeque::new(); account.cores.len()], drawn: false };
        let first = frame.next(&account);
        assert_eq!(first.lines().count(), 2, "{first:?}");
        assert!(first.starts_with("\x1b[KCPU 0   █░░   33 % ▃\n"), "{first:?}");
        assert!(first.contains("CPU 3   ░░░      –  \n"), "{first:?}");
        let mut later = String::new();
        (0..2 * SHOWN).for_each(|_| later = frame.next(&account));
        assert!(later.starts_with("\x1b[2A\x1b[K") && later.contains(&"▃".repeat(SHOWN)), "{later:?}");
        let width = |line: &str| line.trim_start_matches("\x1b[2A").trim_start_matches("\x1b[K").chars().count();
        assert!(later.lines().all(|line| width(line) <= 79), "{later:?}");
    }

    #[test]
    fn shares_have_heights_and_bars() {
        let shares = [None, Some(0.0), Some(0.01), Some(0.5), Some(1.0)];
        assert_eq!(shares.map(height), [' ', '▁', '▁', '▄', '█']);
        assert_eq!(bar(Some(1.0)), "█".repeat(BAR));
    }
}
