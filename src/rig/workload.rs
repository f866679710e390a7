//! Something to be timed: the work of a batch, how many operations it has, what stands around it, and what the kernel may do
//! to it without disturbing it.

use std::rc::Rc;

use crate::results::quantity::Labels;
use crate::sys::arch::LoopKernel;
use crate::sys::counters::ThreadCounters;
use crate::sys::spinner::Spinner;

/// What a workload does for a number of iterations; an error voids the batch and says why.
pub type Work<'a> = Box<dyn FnMut(u64) -> Result<Timed, String> + 'a>;

/// Work around a batch that is not timed.
pub type Untimed<'a> = Box<dyn FnMut() -> Result<(), String> + 'a>;

/// Selects the code placement of a batch by its number.
pub type Placing<'a> = Box<dyn FnMut(u32) + 'a>;

/// Reads what the kernel counts for the other tasks that take part in a workload, without adding to it.
pub type Witnesses<'a> = Box<dyn FnMut() -> Result<Vec<Witness>, String> + 'a>;

/// What the kernel counts for another task that takes part in a workload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Witness {
    /// Its counters.
    pub counters: ThreadCounters,
    /// CPU on which it is.
    pub cpu: u32,
    /// CPU on which it must be.
    pub wanted: u32,
}

/// Which span of a batch counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timed {
    /// From the call of the work to its return.
    Whole,
    /// A span that the work found itself, in ticks: for events that another task stamps.
    Ticks(i64),
    /// The same, of a span in which no task of the work had to wait for its CPU, as the work itself found out: switches in the
    /// rest of the batch do not matter.
    Undisturbed(i64),
    /// The same, of a span in which some task of the work had to wait for its CPU.
    Preempted(i64),
}

/// How many iterations a batch of a workload has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizing {
    /// As many as make a batch long enough.
    ByTime,
    /// The same, and this many at least: for operations whose first ones in a row may cost more.
    AtLeast(u64),
    /// As many as make a batch this many times as long: for operations whose count is checked to a hundredth.
    ByTimes(u32),
    /// As many as an earlier workload of the same call, by position: for pairs whose difference is the figure.
    SameAs(usize),
    /// A multiple of an earlier workload's.
    TimesThat(u64, usize),
    /// Always this many: single shots of operations that take long enough by themselves.
    Exactly(u64),
}

/// What the kernel may do to a workload without disturbing it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expected {
    /// Page faults are part of the operation.
    pub faults: bool,
    /// The task may move between CPUs.
    pub migration: bool,
    /// The context switches of the tasks that take part.
    pub switches: Switches,
}

/// How many context switches an operation is (gate G25): voluntary ones, and those forced by the waking of the next task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Switches {
    /// None: a forced one is a disturbance.
    #[default]
    None,
    /// One.
    One,
    /// One, unless the partner on another CPU answers before this task has gone to sleep: such a batch timed something else.
    Sleep,
    /// One at least: a task that was pushed aside by the one it woke may have to run once more to go to sleep.
    OneOrMore,
}

/// Something to be timed.
pub struct Workload<'a> {
    /// Name of its series.
    pub name: String,
    /// Labels of its series.
    pub labels: Labels,
    /// Operations in one iteration.
    pub operations: u64,
    /// Batch size.
    pub sizing: Sizing,
    /// What does not count as a disturbance.
    pub expected: Expected,
    /// True when the core's clock rules the cost: only then is the sample normalised by the probes next to it, and void where
    /// they disagree.
    pub clocked: bool,
    /// True where most of its time is spent waiting, for another CPU or for memory: branch predictors do not decide its cost, and
    /// only its first block has a warm-up.
    pub waits: bool,
    /// Batches of this workload, where they shall be fewer than the launch takes of others.
    pub at_most: Option<u32>,
    /// Selects the code placement of a batch, before its warm-up.
    pub place: Option<Placing<'a>>,
    /// Done before each batch, untimed.
    pub prepare: Option<Untimed<'a>>,
    /// The work.
    pub work: Work<'a>,
    /// Done after each batch, untimed; an error voids the batch.
    pub tidy: Option<Untimed<'a>>,
    /// A partner on the other CPU that takes part. How far that CPU is from this CPU is looked at before and after each batch.
    pub across: Option<Rc<Spinner>>,
    /// The other tasks that take part, read before and after each batch, untimed.
    pub witnesses: Option<Witnesses<'a>>,
}

impl<'a> Workload<'a> {
    /// Work given as a closure.
    pub fn of(
        name: &str,
        labels: Labels,
        operations: u64,
        mut work: impl FnMut(u64) -> Result<(), String> + 'a,
    ) -> Self {
        Workload::self_timed(name, labels, operations, move |iterations| work(iterations).map(|()| Timed::Whole))
    }

    /// Work that says itself which span counts.
    pub fn self_timed(
        name: &str,
        labels: Labels,
        operations: u64,
        work: impl FnMut(u64) -> Result<Timed, String> + 'a,
    ) -> Self {
        Workload {
            name: name.to_owned(),
            labels,
            operations,
            sizing: Sizing::ByTime,
            expected: Expected::default(),
            clocked: true,
            waits: false,
            at_most: None,
            place: None,
            prepare: None,
            work: Box::new(work),
            tidy: None,
            across: None,
            witnesses: None,
        }
    }

    /// Timed code that cannot fail.
    pub fn kernel(name: &str, labels: Labels, operations: u64, kernel: LoopKernel) -> Self {
        Workload::of(name, labels, operations, move |iterations| {
            kernel(iterations);
            Ok(())
        })
    }

    /// Work given as a plain function that cannot fail.
    pub fn function(name: &str, labels: Labels, operations: u64, function: fn(u64)) -> Self {
        Workload::of(name, labels, operations, move |iterations| {
            function(iterations);
            Ok(())
        })
    }

    /// Another batch size.
    #[must_use]
    pub fn sized(mut self, sizing: Sizing) -> Self {
        self.sizing = sizing;
        self
    }

    /// What shall not count as a disturbance.
    #[must_use]
    pub fn expecting(mut self, expected: Expected) -> Self {
        self.expected = expected;
        self
    }

    /// For costs that another clock rules than the core's: memory, devices.
    #[must_use]
    pub fn unclocked(mut self) -> Self {
        self.clocked = false;
        self
    }

    /// Most of its time is spent waiting.
    #[must_use]
    pub fn waiting(mut self) -> Self {
        self.waits = true;
        self
    }

    /// Fewer batches than the launch takes of others.
    #[must_use]
    pub fn at_most(mut self, batches: u32) -> Self {
        self.at_most = Some(batches);
        self
    }

    /// Sets the function that selects a code placement.
    #[must_use]
    pub fn placed(mut self, place: impl FnMut(u32) + 'a) -> Self {
        self.place = Some(Box::new(place));
        self
    }

    /// Work before each batch that is not timed.
    #[must_use]
    pub fn prepared(mut self, prepare: impl FnMut() -> Result<(), String> + 'a) -> Self {
        self.prepare = Some(Box::new(prepare));
        self
    }

    /// Other tasks that take part: what happens to them happens to the batch.
    #[must_use]
    pub fn witnessed(mut self, read: impl FnMut() -> Result<Vec<Witness>, String> + 'a) -> Self {
        self.witnesses = Some(Box::new(read));
        self
    }

    /// Between this CPU and that of a partner, which sleeps during that time.
    #[must_use]
    pub fn across(mut self, partner: &Rc<Spinner>) -> Self {
        self.across = Some(Rc::clone(partner));
        self
    }

    /// Work after each batch that is not timed.
    #[must_use]
    pub fn tidied(mut self, tidy: impl FnMut() -> Result<(), String> + 'a) -> Self {
        self.tidy = Some(Box::new(tidy));
        self
    }
}
