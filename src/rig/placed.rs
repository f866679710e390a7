//! Workloads of operations whose code is placed by lot.

use std::cell::RefCell;
use std::rc::Rc;

use crate::results::problem::Problem;
use crate::results::quantity::Labels;
use crate::sys::placed::{Around, Operation, PlacedLoop};

use super::Rig;
use super::sampler::{MOST_BLOCKS, Timed, Workload};

/// A batch in ordinary work is so many times as long as others: its operations are a part of it.
pub const WORK_LONGER: u32 = 4;

/// A loop that a workload and what surrounds it share.
pub type SharedLoop<'a> = Rc<RefCell<PlacedLoop<'a>>>;

/// Code cannot be placed by lot.
pub fn no_place(error: &std::io::Error) -> Problem {
    Problem::new(format!("cannot place code in executable memory: {error}"))
        .hint("a security policy forbids code in written memory: allow it for sysdyno, or run outside of that policy")
}

impl Rig<'_> {
    /// A loop around operations, at a place of its own for each block of a launch. Drawn by the launch's seed.
    pub fn placed_loop<'a>(
        &mut self,
        operations: Vec<Operation<'a>>,
        around: Around,
    ) -> Result<SharedLoop<'a>, Problem> {
        let placed = PlacedLoop::draw(self.random(), operations, around, MOST_BLOCKS as usize);
        Ok(Rc::new(RefCell::new(placed.map_err(|error| no_place(&error))?)))
    }

    /// A workload of turns of a loop. Its time is that of the operations: in work, what the same work takes without them is taken off.
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

    /// Times work on something, and takes off what a part of that work takes by itself.
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
            // A part that takes longer than the whole was interrupted.
            Ok(if own > 0 { Timed::Ticks(own) } else { Timed::Preempted(0) })
        })
    }
}
