//! Which CPU a launch measures on: that of the run or, while a neighbour computes on its core, an equal one. A neighbour that is there
//! when a launch begins mostly stays until it ends, and then few batches of it are undisturbed.

use super::instruments::{Instruments, Live};
use super::request::Request;
use crate::neighbour::width::may_be_alone;
use crate::sys::{affinity, arch, counters};

/// Looks at each CPU, of some 12 µs each: a neighbour that comes and goes leaves the core alone for half a millisecond.
const LOOKS: usize = 150;
/// Looks with a neighbour, or without an answer, up to which a core counts as alone.
const FEW: usize = LOOKS / 10;
/// Nanoseconds of waiting for a CPU beyond which another task runs there: moving there takes some 20 µs, a task's turn 3 ms.
const WAITED: f64 = 200_000.0;
/// CPUs that are looked at, at most: one that is alone takes 2 ms, others less than one.
const MOST: usize = 16;

/// CPUs of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Where it measures.
    pub cpu: u32,
    /// A CPU for a partner task whose core no neighbour uses, if one was found among two or more equal CPUs.
    pub partner: Option<u32>,
    /// Whether the usual CPU was alone; none where nothing shows it.
    pub usual_alone: Option<bool>,
}

/// Looks at the CPU of the setup and at equal ones. Leaves this thread on the last one that it looked at, mostly the chosen one: a
/// virtual CPU that sleeps may wake up on another core.
pub fn choose(request: &Request) -> Choice {
    let usual = request.setup.cpu;
    let source = request.source().ok().filter(|_| request.clock.source == arch::COUNTER);
    let Some(source) = source else { return Choice { cpu: usual, partner: None, usual_alone: None } };
    let mut equal = request.setup.equal_cpus.clone();
    fastrand::Rng::with_seed(request.seed).shuffle(&mut equal);
    equal.truncate(MOST);
    choose_by(usual, &equal, |cpu| {
        let before = counters::run_delay();
        affinity::restrict(&[cpu]).ok()?;
        let alone = looks_alone(&mut Live::on(cpu, source, request.clock.hertz));
        let waited = counters::run_delay().zip(before).map(|(now, before)| now - before);
        waited.is_none_or(|waited| waited <= WAITED).then_some(alone)
    })
}

/// The usual CPU if it is alone on its core, or else the first equal one that is, or the one that was alone in most looks. Another one
/// that is alone has the partner. CPUs without looks are not taken: another task uses them, or they are not allowed.
fn choose_by(usual: u32, equal: &[u32], mut look: impl FnMut(u32) -> Option<usize>) -> Choice {
    let mut left = equal.iter().copied();
    let mut most = (usual, 0);
    let mut is_alone = |cpu: u32| {
        let alone = look(cpu)?;
        if alone > most.1 {
            most = (cpu, alone);
        }
        Some(alone >= LOOKS - FEW)
    };
    // The CPU of the partner is found first. The launch then begins right after the look at its own. A single equal CPU leaves no choice.
    let partner = if equal.len() > 1 { left.find(|&cpu| is_alone(cpu) == Some(true)) } else { None };
    let usual_alone = is_alone(usual);
    if usual_alone == Some(true) {
        return Choice { cpu: usual, partner, usual_alone };
    }
    match left.find(|&cpu| is_alone(cpu) == Some(true)) {
        Some(cpu) => Choice { cpu, partner, usual_alone },
        None => Choice { cpu: partner.unwrap_or(most.0), partner: None, usual_alone },
    }
}

/// Looks that may be of a core alone. No more than needed: a core that is shared shows it in the first few.
fn looks_alone(instruments: &mut impl Instruments) -> usize {
    let (mut alone, mut others) = (0, 0);
    while others <= FEW && alone + others < LOOKS {
        let per_cycle = instruments.probe().filter(|per_cycle| *per_cycle > 0.0);
        let is_alone = per_cycle.is_some_and(|per_cycle| may_be_alone(instruments.width() / per_cycle));
        alone += usize::from(is_alone);
        others += usize::from(!is_alone);
    }
    alone
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::arch::Stamp;
    use crate::sys::counters::ThreadCounters;

    /// What is chosen where CPU 3 is the usual one, by the looks at CPUs 0 to 3 that were alone, and how many CPUs were looked at.
    fn chosen(alone: [usize; 4], equal: &[u32]) -> (Choice, usize) {
        let mut looked_at = 0;
        let choice = choose_by(3, equal, |cpu| {
            looked_at += 1;
            Some(alone[cpu as usize]).filter(|alone| *alone > 0)
        });
        (choice, looked_at)
    }

    #[test]
    fn the_usual_cpu_is_taken_while_it_is_alone() {
        let choice = |partner| Choice { cpu: 3, partner, usual_alone: Some(true) };
        assert_eq!(chosen([150, 150, 0, 135], &[0]), (choice(None), 1));
        assert_eq!(chosen([0, 150, 80, 150], &[0, 2, 1]), (choice(Some(1)), 4));
        assert_eq!(chosen([0, 10, 80, 150], &[0, 2, 1]), (choice(None), 4));
    }

    #[test]
    fn a_neighbour_moves_the_launch() {
        let choice = |cpu, partner| Choice { cpu, partner, usual_alone: Some(false) };
        assert_eq!(chosen([140, 150, 150, 60], &[0]), (choice(0, None), 2));
        assert_eq!(chosen([0, 150, 140, 60], &[0, 2, 1]), (choice(1, Some(2)), 4));
        assert_eq!(chosen([0, 134, 140, 60], &[0, 2, 1]), (choice(2, None), 4));
    }

    #[test]
    fn where_none_is_alone_the_least_shared_one_is_taken() {
        let choice = |cpu, usual_alone| Choice { cpu, partner: None, usual_alone };
        assert_eq!(chosen([30, 90, 15, 60], &[0, 2, 1]).0, choice(1, Some(false)));
        assert_eq!(chosen([0; 4], &[0, 2, 1]).0, choice(3, None));
    }

    #[test]
    fn a_cpu_that_another_task_uses_is_not_taken() {
        // Zero stands for one without an answer.
        let choice = |cpu, usual_alone| Choice { cpu, partner: None, usual_alone };
        assert_eq!(chosen([0, 150, 150, 60], &[0]).0, choice(3, Some(false)));
        assert_eq!(chosen([150, 150, 150, 0], &[0]).0, choice(0, None));
    }

    /// A core whose looks are known beforehand.
    struct Core {
        widths: Vec<f64>,
        looks: usize,
    }

    impl Instruments for Core {
        fn stamp(&mut self) -> Stamp {
            Stamp { ticks: 0, cpu: 3 }
        }
        fn probe(&mut self) -> Option<f64> {
            Some(2.0)
        }
        fn width(&mut self) -> f64 {
            self.looks += 1;
            2.0 * self.widths[self.looks - 1]
        }
        fn counters(&mut self) -> ThreadCounters {
            ThreadCounters::default()
        }
        fn bias(&self) -> f64 {
            0.0
        }
        fn resolution(&self) -> f64 {
            1.0
        }
        fn hertz(&self) -> f64 {
            1e9
        }
        fn cpu(&self) -> u32 {
            3
        }
    }

    #[test]
    fn a_shared_core_shows_itself_in_few_looks() {
        for (width, looks, alone) in [(2.0, FEW + 1, 0), (1.01, LOOKS, LOOKS)] {
            let mut core = Core { widths: vec![width; LOOKS], looks: 0 };
            assert_eq!((looks_alone(&mut core), core.looks), (alone, looks), "{width}");
        }
    }
}
