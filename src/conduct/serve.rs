//! The other side of a launch: reads its order, measures one experiment, writes records, ends.

use std::io::{Read, Write};

use crate::experiments;
use crate::results::trouble::Trouble;
use crate::rig::order::{CANARY, Order};
use crate::rig::{Rig, canary};
use crate::sys::clock::monotonic_raw;
use crate::sys::process;

use super::interrupt::outlive_size_limit;

/// Longest order in bytes: orders are small, and standard input may be anything.
const LONGEST_ORDER: u64 = 1 << 20;

/// Carries out the order on `input`.
pub fn serve(input: impl Read, out: &mut dyn Write) -> Result<(), Trouble> {
    let started = monotonic_raw();
    let mut text = String::new();
    input
        .take(LONGEST_ORDER)
        .read_to_string(&mut text)
        .map_err(|error| Trouble::new(format!("cannot read the order: {error}")))?;
    let order: Order = serde_json::from_str(&text).map_err(|error| {
        Trouble::new(format!("this is not an order: {error}"))
            .hint("`launch` is how `run` starts its measuring processes; use `sysdyno run`")
    })?;
    if !process::die_with_parent(order.conductor) {
        return Err(Trouble::new("the conducting process is gone"));
    }
    outlive_size_limit()?;
    let mut rig = Rig::set_up(&order, started, out)?;
    if order.experiment == CANARY {
        canary::measure(&mut rig)?;
    } else {
        let experiment = experiments::find(&order.experiment)
            .ok_or_else(|| Trouble::new(format!("there is no experiment named {}", order.experiment)))?;
        (experiment.measure)(&mut rig)?;
    }
    rig.finish()
}
