//! An operation that is measured in ordinary work, as a row of a table.

use std::io;
use std::path::Path;

use crate::experiments::constants::Constant;
use crate::rig::sampler::Workload;
use crate::sys::operation::Operation;
use crate::sys::process::{self, Trial};

/// What an operation consists of: in words, number of times, and constant.
pub(in crate::experiments) type Parts = &'static [(&'static str, f64, Constant)];

/// An operation of a set.
pub(in crate::experiments) struct Row {
    /// Value of the label that distinguishes the operations.
    pub name: &'static str,
    /// Its size as a label: `bytes` that it transfers, or `pages`. None where it has no size.
    pub size: Option<(&'static str, u64)>,
    /// Its name in sentences.
    pub phrase: &'static str,
    /// What the kernel does for it.
    pub what: &'static str,
    /// Instructions of that, counted roughly or estimated from the cost on one host, for the prediction. Its range is from half
    /// to twice the pace of instructions.
    pub instructions: f64,
    /// What else it consists of.
    pub parts: Parts,
    /// Kernel entries of one operation: 2 for a pair of calls, less than 1 where an entry serves several operations.
    pub entries: f64,
    /// Operations in one turn of a loop.
    pub operations: u64,
    /// How it is made.
    pub make: Make,
    /// A number, and by how much each operation must raise it. A batch in which it does not is discarded.
    pub count: Option<(fn() -> u64, u64)>,
    /// Page faults of one operation, and their kind.
    pub faults: Option<(f64, &'static str)>,
    /// How often one operation must reach all CPUs on which a thread of the process runs. Above 0, it is also made with such threads.
    pub shootdowns: f64,
    /// Whether it is made once before it is measured. What a filter may refuse is tried in any case.
    pub is_tried: bool,
    /// What to do where it cannot be prepared.
    pub hint: &'static str,
}

/// Prepares what an operation works on, and gives what a turn of a loop executes, with the answers that it must give.
#[derive(Clone, Copy)]
pub(in crate::experiments) enum Make {
    /// One call, or one function.
    One(fn() -> io::Result<Operation<'static>>),
    /// Two in a row.
    Two(fn() -> io::Result<[Operation<'static>; 2]>),
    /// A call or a function, in the scratch directory of the run.
    InScratch(fn(&Path) -> io::Result<Operation<'static>>),
}

impl Make {
    /// What a turn executes.
    fn made(self, scratch: Option<&Path>) -> io::Result<Vec<Operation<'static>>> {
        match self {
            Make::One(make) => make().map(|operation| vec![operation]),
            Make::Two(make) => make().map(Vec::from),
            Make::InScratch(make) => make(scratch.ok_or(io::ErrorKind::NotFound)?).map(|operation| vec![operation]),
        }
    }
}

impl Row {
    /// A system call, of the kernel's work for it in instructions.
    pub const fn call(
        name: &'static str,
        phrase: &'static str,
        what: &'static str,
        instructions: f64,
        make: fn() -> io::Result<Operation<'static>>,
    ) -> Row {
        Row {
            name,
            size: None,
            phrase,
            what,
            instructions,
            parts: &[],
            entries: 1.0,
            operations: 1,
            make: Make::One(make),
            count: None,
            faults: None,
            shootdowns: 0.0,
            is_tried: true,
            hint: "",
        }
    }

    /// Two system calls.
    pub const fn pair(
        name: &'static str,
        phrase: &'static str,
        what: &'static str,
        instructions: f64,
        make: fn() -> io::Result<[Operation<'static>; 2]>,
    ) -> Row {
        let one = Row::call(name, phrase, what, instructions, || Ok(Operation::refused()));
        Row { entries: 2.0, make: Make::Two(make), ..one }
    }

    /// A change of names in the scratch directory of the run, by a number of calls.
    pub const fn in_scratch(
        name: &'static str,
        phrase: &'static str,
        entries: f64,
        make: fn(&Path) -> io::Result<Operation<'static>>,
    ) -> Row {
        let one = Row::call(name, phrase, "", 0.0, || Ok(Operation::refused()));
        Row { entries, make: Make::InScratch(make), ..one }
    }

    /// The operation, tried in a child process where a filter might kill the process that makes it.
    ///
    /// # Errors
    ///
    /// Why it cannot be measured here.
    pub fn usable(&self, is_filtered: bool, scratch: Option<&Path>) -> Result<Vec<Operation<'static>>, String> {
        if is_filtered {
            match process::try_in_child(|| self.make.made(scratch).is_ok_and(|made| Operation::work(&made))) {
                Ok(Trial::Worked | Trial::Refused) => {}
                Ok(Trial::Killed(signal)) => {
                    return Err(format!("a system-call filter kills a process that makes it ({signal})"));
                }
                Err(error) => return Err(format!("cannot try it in a child process: {error}")),
            }
        }
        let made = self.make.made(scratch).map_err(|error| format!("cannot be prepared: {error}{}", self.hint))?;
        if !is_filtered && !self.is_tried || Operation::work(&made) {
            Ok(made)
        } else {
            Err(format!("{} refuses it", if is_filtered { "a system-call filter" } else { "the kernel" }))
        }
    }

    /// The same workload, whose batches are discarded unless the number rose as much as it must.
    pub fn counted<'a>(&self, workload: Workload<'a>) -> Workload<'a> {
        let Some((count, each)) = self.count else { return workload };
        let expected = self.operations * each;
        let Workload { mut work, .. } = workload;
        let checked = move |turns: u64| {
            let before = count();
            let timed = work(turns)?;
            match count() - before {
                counted if counted == turns * expected => Ok(timed),
                counted => Err(format!("{turns} turns must count {}, and {counted} were counted", turns * expected)),
            }
        };
        Workload { work: Box::new(checked), ..workload }
    }
}

/// The name of an operation in sentences: by the value of its label.
pub(in crate::experiments) fn phrase(rows: &[Row], value: &str) -> Option<&'static str> {
    rows.iter().find(|row| row.name == value).map(|row| row.phrase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::quantity::Labels;
    use crate::rig::sampler::Timed;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_batch_whose_operations_are_not_counted_is_discarded() {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let row = Row {
            count: Some((|| COUNT.load(Ordering::Relaxed), 3)),
            ..Row::call("", "", "", 0.0, || Ok(Operation::refused()))
        };
        let after = |turns: u64, counted: u64, work: Result<Timed, String>| {
            let mut work = Some(work);
            let timed = move |_| {
                COUNT.fetch_add(counted, Ordering::Relaxed);
                work.take().unwrap_or(Ok(Timed::Whole))
            };
            (row.counted(Workload::self_timed("operation", Labels::none(), 1, timed)).work)(turns)
        };
        assert!(after(2, 6, Ok(Timed::Whole)).is_ok());
        assert!(after(2, 5, Ok(Timed::Whole)).is_err());
        assert!(after(1, 3, Err("refused".to_owned())).is_err());
    }
}
