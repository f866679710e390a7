//! How well a figure is known: its uncertainty within a run and between runs, and the grade that follows.

use crate::results::between::with_part;
use crate::results::document::Grade;
use crate::results::verdict::Trust;
use crate::statistics::location::FEWEST_LAUNCHES;

/// Times the target beyond which a figure is unresolved.
const ROUGH: f64 = 2.5;

/// What is asked of the figures of an experiment, and how far they move from run to run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Precision {
    /// Half of the interval over the value that a good figure has at most.
    pub target: f64,
    /// Half-width of what a figure moves between runs of the same machine, over its value, at 95 %: other pages, another hour,
    /// another state of the host. No single run shows it.
    pub between: f64,
    /// The same where a neighbour uses the core all the time: a host with so much work changes more.
    pub busy: f64,
}

/// Share of the batches with a neighbour on the core up to which a host is calm.
const CALM: f64 = 0.1;

impl Precision {
    /// Of what a device answers: its state and that of its host change within minutes.
    pub const OF_DEVICES: Precision = Precision { target: 0.2, between: 0.1, busy: 0.2 };

    /// Of loads from the caches of one core: the design decides them. In ten tables of repeated runs (`records/*/repeat.md`), the
    /// coefficient of variation is 0.01 to 0.51 % in 39 of 40 rows.
    pub const OF_PRIVATE_CACHES: Precision = Precision { target: 0.05, between: 0.01, busy: 0.01 };

    /// Of what passes between two CPUs of a guest: the host chooses a pair of cores, some pairs take two thirds longer than others,
    /// and a pair is kept for minutes.
    pub const OF_PLACES: Precision = Precision { target: 0.3, between: 0.25, busy: 0.25 };

    /// On a host where a neighbour was on the core during this share of the batches. The part between runs lies between that of a calm
    /// host and that of a busy one.
    #[must_use]
    pub fn beside(self, shared: f64) -> Precision {
        let busy = ((shared - CALM) / (1.0 - CALM)).clamp(0.0, 1.0);
        Precision { between: self.between + (self.busy - self.between) * busy, ..self }
    }

    /// With another part between runs, such as that of the core clock in a time.
    #[must_use]
    pub fn with(self, other: f64) -> Precision {
        Precision { between: self.between.hypot(other), ..self }
    }

    /// Both parts as one interval: each end's distances from the value, added as squares.
    pub fn total(self, value: f64, within: [f64; 2]) -> [f64; 2] {
        with_part(value, within, self.between)
    }

    /// Half of both parts over the value.
    pub fn relative(self, value: f64, within: [f64; 2]) -> f64 {
        let [low, high] = self.total(value, within);
        (high - low) / 2.0 / value.abs()
    }

    /// The grade of a figure that is published.
    pub fn grade(self, trust: Trust, relative: f64, launches: u32) -> Grade {
        match trust {
            Trust::Contaminated | Trust::Impossible => Grade::Contaminated,
            Trust::Clean => Grade::Good,
            Trust::Noisy if relative > ROUGH * self.target || (launches as usize) < FEWEST_LAUNCHES => {
                Grade::Unresolved
            }
            Trust::Noisy => Grade::Rough,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLS: Precision = Precision { target: 0.02, between: 0.012, busy: 0.03 };

    #[test]
    fn both_parts_are_in_the_interval() {
        let [low, high] = CALLS.total(100.0, [99.5, 100.9]);
        assert!((low - 98.7).abs() < 1e-9 && (high - 101.5).abs() < 1e-9, "{low} {high}");
        let fact = Precision { between: 0.0, ..CALLS };
        assert_eq!(fact.total(100.0, [99.0, 103.0]).map(f64::to_bits), [99.0, 103.0].map(f64::to_bits));
    }

    #[test]
    fn a_busy_host_moves_figures_more() {
        let between = |shared: f64| CALLS.beside(shared).between;
        for (shared, expected) in [(0.0, 0.012), (0.1, 0.012), (0.55, 0.021), (1.0, 0.03)] {
            assert!((between(shared) - expected).abs() < 1e-12, "{shared}");
        }
    }

    #[test]
    fn the_grade_follows_from_the_width_and_the_number_of_launches() {
        assert_eq!(CALLS.grade(Trust::Clean, 0.01, 9), Grade::Good);
        assert_eq!(CALLS.grade(Trust::Noisy, 0.04, 9), Grade::Rough);
        assert_eq!(CALLS.grade(Trust::Noisy, 0.06, 9), Grade::Unresolved);
        assert_eq!(CALLS.grade(Trust::Noisy, 0.01, 4), Grade::Unresolved);
        assert_eq!(CALLS.grade(Trust::Contaminated, 0.01, 9), Grade::Contaminated);
    }
}
