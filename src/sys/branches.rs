//! What branch predictors remember of earlier code, erased.
//!
//! The cost of kernel work depends on it. Code that runs again and again keeps the predictions that it began with, right or wrong, for
//! as long as nothing else needs their place.

use super::arch::{RANDOM_BRANCHES, random_branches};

/// Branches of one [`forget`](RandomBranches::forget): twice as many as AMD Zen 4 needs.
const BRANCHES: u32 = 1 << 16;

/// Conditional branches whose directions nothing can predict.
#[derive(Debug)]
pub struct RandomBranches {
    state: u32,
}

impl RandomBranches {
    /// Directions that continue from a seed.
    pub fn with_seed(seed: u32) -> Self {
        RandomBranches { state: seed }
    }

    /// Runs enough of them that the predictors of this core remember nothing else: a quarter of a millisecond.
    pub fn forget(&mut self) {
        for _ in 0..BRANCHES / RANDOM_BRANCHES {
            self.state = random_branches(self.state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_branch_advances_the_generator_once() {
        let mut expected = 7_u32;
        for _ in 0..BRANCHES {
            expected = expected.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        }
        let mut branches = RandomBranches::with_seed(7);
        branches.forget();
        assert_eq!(branches.state, expected);
    }
}
