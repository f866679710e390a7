//! Single shots: operations of many microseconds that are timed one by one, because their distribution is the figure.
//!
//! A volley fires several kinds of shots in turns of random order, a burst of each at a time, so that neighbours and drift
//! hit all alike. Nothing is dropped by its value. A shot that gets no answer has no time: it is counted as lost.

use std::time::{Duration, Instant};

use super::Rig;
use super::instruments::Instruments;
use super::line;
use crate::results::problem::Problem;
use crate::results::quantity::{Labels, Unit};
use crate::results::series::{Class, Classes, Series};
use crate::sys::spinner::Spinner;

/// Shots of one kind that may get lost in a row before the other side is believed to be absent.
const LOST_IN_A_ROW: u32 = 3;

/// How a shot ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// With its answer.
    Came,
    /// Without one.
    Lost,
}

/// One kind of shot.
pub struct Shot<'a> {
    /// Labels of its series.
    pub labels: Labels,
    /// Whether it goes to the CPU of the volley's partner.
    pub across: bool,
    /// Fires once and waits for the answer; an error ends the launch.
    pub fire: Box<dyn FnMut() -> Result<Answer, String> + 'a>,
}

/// How a volley is fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interleaved {
    /// Name of the series.
    pub name: &'static str,
    /// Shots of each kind that count.
    pub shots: u32,
    /// Shots of one kind in a row that count.
    pub burst: u32,
    /// Shots before each burst that do not count: they belong to the change from another kind.
    pub lead: u32,
    /// Pause before each shot.
    pub gap: Option<Duration>,
    /// When it ends, finished or not; one turn is always fired.
    pub within: Duration,
    /// Whether the width of the core is looked at between the bursts.
    pub looks: bool,
}

/// Values with the width of the core before and after each of them, where that was looked at.
#[derive(Debug, Default)]
pub struct Looked {
    /// What was measured.
    pub values: Vec<f64>,
    /// Core cycles of a turn of the shortest loop; zero where they are not known.
    pub widths: Vec<[f64; 2]>,
}

impl Looked {
    /// The widths before and after all values that have none yet.
    pub fn saw(&mut self, widths: [f64; 2]) {
        self.widths.resize(self.values.len(), widths.map(in_log));
    }
}

/// Digits beyond the clock's resolution only make logs longer.
fn in_log(width: f64) -> f64 {
    (width * 1e3).round() / 1e3
}

/// A look between two bursts.
#[derive(Debug, Clone, Copy)]
struct BetweenBursts {
    /// Width of the core, where that is looked at.
    width: Option<f64>,
    /// What the partner shows, where there is one.
    partner: Option<line::Look>,
}

/// What became of the shots of one kind.
#[derive(Debug, Default)]
struct Fired {
    shots: Looked,
    classes: Vec<Class>,
    lines: Vec<[f64; 2]>,
    partner_widths: Vec<[f64; 2]>,
    beside_partner: Vec<[f64; 2]>,
    lost: u32,
    lost_in_a_row: u32,
}

impl Fired {
    /// What stood around the shots of a burst.
    fn saw(&mut self, before: BetweenBursts, after: BetweenBursts, across: bool) {
        let count = self.shots.values.len();
        let looks = before.width.zip(after.width);
        if let Some((before, after)) = looks {
            self.shots.saw([before, after]);
        }
        if let Some((before, after)) = before.partner.zip(after.partner).filter(|_| across) {
            self.lines.resize(count, [before.line, after.line]);
            if looks.is_some() {
                self.partner_widths.resize(count, [before.width, after.width].map(in_log));
                self.beside_partner.resize(count, [before.beside, after.beside].map(in_log));
            }
        }
    }
}

impl Rig<'_> {
    /// Records values with what was seen of the core next to them.
    pub fn record_looked(&mut self, name: &str, labels: Labels, unit: Unit, looked: Looked) -> Result<(), Problem> {
        let mut series = Series::plain(name, labels, unit, looked.values);
        series.widths = looked.widths;
        self.record_series(series)
    }

    /// Fires a volley and records two series for each kind: its times in ticks, and `lost`, how many were lost and fired.
    pub fn shoot(&mut self, kinds: &mut [Shot<'_>], interleaved: &Interleaved) -> Result<(), Problem> {
        self.shoot_across(None, kinds, interleaved)
    }

    /// The same with a partner on the CPU of the other side. How far that CPU is from this CPU is looked at between the bursts.
    pub fn shoot_across(
        &mut self,
        partner: Option<&Spinner>,
        kinds: &mut [Shot<'_>],
        interleaved: &Interleaved,
    ) -> Result<(), Problem> {
        let look = |rig: &mut Self| BetweenBursts {
            width: interleaved.looks.then(|| rig.width()),
            partner: partner.map(|partner| line::look(&mut rig.instruments, partner)),
        };
        let mut before = look(self);
        let mut fired: Vec<Fired> = kinds.iter().map(|_| Fired::default()).collect();
        let end = Instant::now() + interleaved.within;
        let mut order: Vec<usize> = (0..kinds.len()).collect();
        let mut left = interleaved.shots;
        while left > 0 {
            let burst = interleaved.burst.min(left);
            self.random.shuffle(&mut order);
            for &index in &order {
                for number in 0..interleaved.lead + burst {
                    self.fire(&mut kinds[index], &mut fired[index], interleaved, number >= interleaved.lead)?;
                }
                let after = look(self);
                fired[index].saw(before, after, kinds[index].across);
                before = after;
            }
            left -= burst;
            if Instant::now() >= end {
                break;
            }
        }
        for (kind, fired) in kinds.iter().zip(fired) {
            let total = fired.shots.values.len() as f64 + f64::from(fired.lost);
            let lost = Series::plain("lost", kind.labels.clone(), Unit::One, vec![f64::from(fired.lost), total]);
            if !fired.shots.values.is_empty() {
                let mut series = Series::plain(interleaved.name, kind.labels.clone(), Unit::Ticks, fired.shots.values);
                series.classes = Classes(fired.classes);
                series.widths = fired.shots.widths;
                series.lines = fired.lines;
                series.partner_widths = fired.partner_widths;
                series.beside_partner = fired.beside_partner;
                self.record_series(series)?;
            }
            self.record_series(lost)?;
        }
        Ok(())
    }

    fn fire(
        &mut self,
        kind: &mut Shot<'_>,
        fired: &mut Fired,
        interleaved: &Interleaved,
        counts: bool,
    ) -> Result<(), Problem> {
        if let Some(gap) = interleaved.gap {
            std::thread::sleep(gap);
        }
        let start = self.instruments.opening();
        let answer = (kind.fire)();
        let stop = self.instruments.stamp();
        match answer {
            Ok(Answer::Came) => fired.lost_in_a_row = 0,
            Ok(Answer::Lost) => {
                fired.lost_in_a_row += 1;
                fired.lost += u32::from(counts);
                if fired.lost_in_a_row >= LOST_IN_A_ROW {
                    return Err(Problem::new(format!(
                        "{LOST_IN_A_ROW} exchanges in a row were not answered ({})",
                        kind.labels
                    ))
                    .hint("check that the other side still runs and that the path does not drop its packets"));
                }
                return Ok(());
            }
            Err(why) => return Err(Problem::new(format!("{why} ({})", kind.labels))),
        }
        if counts {
            let ticks = stop.ticks - start.ticks;
            let class = if ticks < 0 {
                Class::Backwards
            } else if start.cpu != stop.cpu || stop.cpu != self.instruments.cpu() {
                Class::Migrated
            } else {
                Class::Clean
            };
            fired.shots.values.push(ticks as f64 - self.instruments.bias());
            fired.classes.push(class);
        }
        Ok(())
    }

    /// An interval of the run's clock, in ticks, with the bias of the timing pair removed.
    pub fn timed<T>(&mut self, work: impl FnOnce() -> T) -> (f64, T) {
        let start = self.instruments.opening();
        let outcome = work();
        let stop = self.instruments.stamp();
        ((stop.ticks - start.ticks) as f64 - self.instruments.bias(), outcome)
    }

    /// A number that all launches of a run share and no other run has: what a run has read before it knows by it.
    pub fn run_number(&self) -> u64 {
        u64::from(self.request.conductor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_belong_to_what_came_between_them() {
        let mut looked = Looked { values: vec![5.0, 6.0], widths: Vec::new() };
        looked.saw([1.012_34, 1.7]);
        looked.values.push(7.0);
        looked.saw([1.7, 1.01]);
        assert_eq!(looked.widths, [[1.012, 1.7], [1.012, 1.7], [1.7, 1.01]]);
    }
}
