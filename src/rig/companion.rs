//! A thread of this process on another CPU that computes or sleeps, as it is asked. It shows whether a host that hides which of its
//! virtual CPUs share a core has put two of them on one: looks here see a neighbour while the thread computes, and none while it
//! sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::results::problem::Problem;
use crate::sys::{affinity, arch};

/// What a companion does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Nothing, so that its CPU halts. A thread that pauses in a loop would still take its part of the core.
    Sleep,
    /// The loop that shows neighbours.
    Compute,
}

impl Order {
    fn number(self) -> u32 {
        match self {
            Order::Sleep => 1,
            Order::Compute => 2,
        }
    }
}

/// The thread has not begun, has ended, or shall end.
const NONE: u32 = 0;
/// The thread could not be moved to its CPU.
const FAILED: u32 = 3;

/// Turns of the loop between two looks at the order: a third of a microsecond.
const TURNS: u64 = 1000;
/// How long an order may take: the first one waits for the thread, later ones for a CPU that others have.
const PATIENCE: Duration = Duration::from_millis(20);

/// The thread, until this value ends.
#[derive(Debug)]
pub struct Companion {
    orders: Arc<Orders>,
    thread: Option<JoinHandle<()>>,
}

/// What is asked, and what the thread does.
#[derive(Debug, Default)]
struct Orders {
    asked: AtomicU32,
    obeyed: AtomicU32,
}

impl Companion {
    /// Starts a thread on a CPU. It sleeps until it is asked.
    pub fn on(cpu: u32) -> Result<Companion, Problem> {
        let orders = Arc::new(Orders::default());
        orders.asked.store(Order::Sleep.number(), Ordering::Relaxed);
        let its = Arc::clone(&orders);
        let thread = std::thread::Builder::new()
            .name(format!("companion on CPU {cpu}"))
            .spawn(move || obey(cpu, &its))
            .map_err(|error| {
                Problem::new(format!("cannot start a thread for CPU {cpu}: {error}"))
                    .hint("allow this process more threads (ulimit -u, pids.max)")
            })?;
        Ok(Companion { orders, thread: Some(thread) })
    }

    fn ask(&self, number: u32) {
        self.orders.asked.store(number, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Has the thread do something. True when it does, false where it could not begin in time.
    pub fn does(&self, order: Order) -> bool {
        self.ask(order.number());
        let began = Instant::now();
        loop {
            match self.orders.obeyed.load(Ordering::Acquire) {
                FAILED => return false,
                obeyed if obeyed == order.number() => return true,
                _ if began.elapsed() > PATIENCE => return false,
                _ => std::hint::spin_loop(),
            }
        }
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.ask(NONE);
        if let Some(thread) = self.thread.take() {
            // One that panicked has also ended.
            let _ = thread.join();
        }
    }
}

fn obey(cpu: u32, orders: &Orders) {
    if affinity::restrict(&[cpu]).is_err() {
        orders.obeyed.store(FAILED, Ordering::Release);
        return;
    }
    let compute = arch::core_loop();
    loop {
        let asked = orders.asked.load(Ordering::Acquire);
        if asked == NONE {
            return;
        }
        orders.obeyed.store(asked, Ordering::Release);
        if asked == Order::Compute.number() {
            compute(TURNS);
        } else {
            // An order that came in between ends this at once.
            std::thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_companion_does_what_it_is_asked_until_it_ends() {
        let cpus = affinity::allowed();
        let companion = Companion::on(*cpus.last().unwrap()).unwrap();
        for order in [Order::Compute, Order::Sleep, Order::Compute] {
            // A machine that others use may have no time for it within the patience of one order.
            assert!((0..100).any(|_| companion.does(order)), "{order:?}");
        }
        drop(companion);
    }

    #[test]
    fn a_cpu_that_does_not_exist_has_no_companion() {
        let companion = Companion::on(1000).unwrap();
        assert!(!companion.does(Order::Compute));
    }
}
