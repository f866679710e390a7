//! Workloads with random code placement.

use std::cell::RefCell;
use std::rc::Rc;

use crate::results::problem::Problem;
use crate::results::quantity::Labels;
use crate::sys::operation::Operation;
use crate::sys::placed::{Around, PlacedLoop};

use super::Rig;
use super::sampler::{MOST_BLOCKS, Timed, Workload};

/// Factor by which a batch in ordinary work is longer than other batches, because only a part of its time belongs to the operations.
pub const WORK_LONGER: u32 = 4;

/// A loop that the closures of a workload share.
pub type SharedLoop<'a> = Rc<RefCell<PlacedLoop<'a>>>;

/// The problem of a system that allows no executable memory.
pub fn no_place(error: &std::io::Error) -> Problem {
    Problem::new(format!("cannot place code in executable memory: {error}"))
        .hint("a security policy forbids code in written memory: allow it for sysdyno, or run outside of that policy")
}

impl Rig<'_> {
    /// A loop around operations, with one placement for each block of a launch. The launch's seed decides the placements.
    pub fn placed_loop<'a>(
        &mut self,
        operations: Vec<Operation<'a>>,
        around: Around,
    ) -> Result<SharedLoop<'a>, Problem> {
        let placed = PlacedLoop::draw(self.random(), operations, around, MOST_BLOCKS as usize);
        Ok(Rc::new(RefCell::new(placed.map_err(|error| no_place(&error))?)))
    }

    /// A workload of turns of a loop. In ordinary work, its time is the difference of the same turns with and without the operations.
    pub fn in_loop<'a>(
        &self,
        name: &str,
        labels: Labels,
        operations: u64,
        placed: &SharedLoop<'a>,
        around: Around,
    ) -> Result<Workload<'a>, Problem> {
        let (timed, rest, moved) = (Rc::clone(placed), Rc::clone(placed), Rc::clone(placed));
        let run = move |turns: &mut u64| timed.borrow_mut().run(*turns);
        let workload = match around {
            Around::Nothing => Workload::of(name, labels, operations, move |mut turns| run(&mut turns)),
            Around::Work => {
                let work = self.less_rest(run, move |turns| rest.borrow_mut().rest(*turns))?;
                Workload::self_timed(name, labels, operations, move |mut turns| work(&mut turns))
            }
        };
        Ok(workload.placed(move |block| moved.borrow_mut().place(block as usize)))
    }

    /// A function that times `run` and then `rest`, and returns the difference in ticks.
    pub fn less_rest<A, Run, Rest>(
        &self,
        run: Run,
        rest: Rest,
    ) -> Result<impl Fn(&mut A) -> Result<Timed, String> + use<A, Run, Rest>, Problem>
    where
        Run: Fn(&mut A) -> Result<(), String>,
        Rest: Fn(&A),
    {
        let (source, bias) = (self.source()?, self.timer_bias());
        Ok(move |on: &mut A| {
            let began = source.stamp().ticks;
            run(on)?;
            let between = source.stamp().ticks;
            rest(on);
            let rest = source.stamp().ticks - between;
            // The sampler takes the bias of one interval off, and here are two.
            let own = between - began - rest + bias.round() as i64;
            // If the rest takes longer than the whole, it was interrupted.
            Ok(if own > 0 { Timed::Ticks(own) } else { Timed::Preempted(0) })
        })
    }
}
