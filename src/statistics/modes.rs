//! Two modes in a sample: whether there are two, and where they lie.

use super::dip::{critical_dip, dip};
use super::summary::{mean, median, sorted};

/// Gap between two modes, relative to the lower, below which they do not matter: what the verdict of a figure tolerates.
const GAP_THAT_MATTERS: f64 = 0.05;

/// Evidence for or against two modes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Modes {
    /// Hartigan's dip.
    pub dip: f64,
    /// The dip that a unimodal sample of this size exceeds with one percent.
    pub critical: f64,
    /// Median of the lower group.
    pub lower: f64,
    /// Median of the upper group; at least `lower`.
    pub upper: f64,
    /// Share of the values in the upper group, in `(0, 1)`.
    pub upper_share: f64,
}

impl Modes {
    /// True when the sample is not unimodal and the two groups are more than five percent apart. The second half matters: a
    /// coarse clock gives atoms, and atoms a dip, without any second way to run.
    pub fn bimodal(&self) -> bool {
        self.dip > self.critical && self.upper - self.lower > GAP_THAT_MATTERS * self.lower.abs()
    }
}

/// Looks for two modes: the dip for significance, and the two groups with the least variance inside (Otsu, IEEE Transactions
/// on Systems, Man and Cybernetics 9, 1979) for size. Assumes independent values: those of one launch, or launch estimates,
/// not a pool of both. Wants four values that are not all equal.
pub fn modes(values: &[f64]) -> Option<Modes> {
    let ordered = sorted(values)?;
    let dip = dip(&ordered)?;
    let split = best_split(&ordered)?;
    Some(Modes {
        dip,
        critical: critical_dip(ordered.len()),
        lower: median(&ordered[..split])?,
        upper: median(&ordered[split..])?,
        upper_share: (ordered.len() - split) as f64 / ordered.len() as f64,
    })
}

/// Size of the lower group when the squared distance between the group means, weighted by both sizes, is largest.
fn best_split(ordered: &[f64]) -> Option<usize> {
    let count = ordered.len() as f64;
    let centre = mean(ordered)?;
    let mut below = 0.0;
    let mut best = (0.0, None);
    for split in 1..ordered.len() {
        below += ordered[split - 1] - centre;
        // With the centre at zero the weighted distance is the square of one sum over both sizes.
        let separation = below * below / (split as f64 * (count - split as f64));
        if separation > best.0 && ordered[split - 1] < ordered[split] {
            best = (separation, Some(split));
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{assert_close, normal};
    use super::*;

    #[test]
    fn two_modes_and_one() {
        let mut random = fastrand::Rng::with_seed(38);
        let one = normal(&mut random, 90, 100.0, 3.0);
        assert!(!modes(&one).unwrap().bimodal());
        let mut two = one[..60].to_vec();
        two.extend(normal(&mut random, 30, 130.0, 3.0));
        let found = modes(&two).unwrap();
        assert!(found.bimodal());
        assert_close(found.lower, 100.0, 0.02);
        assert_close(found.upper, 130.0, 0.02);
        assert_close(found.upper_share, 1.0 / 3.0, 1e-12);
        let coarse: Vec<f64> = (0..90).map(|place| f64::from(1000 + place % 2)).collect();
        assert!(!modes(&coarse).unwrap().bimodal());
        assert_eq!(modes(&[7.0; 10]), None);
    }
}
