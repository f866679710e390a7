//! The other side of a launch: reads its request, measures one experiment, writes records, ends.

use std::io::{Read, Write};

use crate::experiments;
use crate::results::problem::Problem;
use crate::rig::request::{INTERFERENCE, Request};
use crate::rig::{Rig, interference, quieter};
use crate::sys::clock::monotonic_raw;
use crate::sys::{affinity, process};

use super::interrupt::outlive_size_limit;

/// Longest request in bytes: hundreds of CPUs are described in less than one mebibyte, and standard input may be anything.
const LONGEST_REQUEST: u64 = 16 << 20;

/// Carries out the request on `input`.
pub fn serve(input: impl Read, out: &mut dyn Write) -> Result<(), Problem> {
    let started = monotonic_raw();
    let mut text = String::new();
    input
        .take(LONGEST_REQUEST)
        .read_to_string(&mut text)
        .map_err(|error| Problem::new(format!("cannot read the request: {error}")))?;
    let mut request: Request = serde_json::from_slice(text.as_bytes()).map_err(|error| {
        Problem::new(format!("the request is invalid: {error}"))
            .hint("`run` starts its measuring processes with `launch`. Use `sysdyno run`")
    })?;
    if !process::die_with_parent(request.conductor) {
        return Err(Problem::new("the conductor process has ended"));
    }
    outlive_size_limit()?;
    let mut began_alone = None;
    if !request.setup.equal_cpus.is_empty() {
        let chosen = quieter::choose(&request);
        began_alone = chosen.usual_alone;
        request.setup.cpu = chosen.cpu;
        request.setup.partner = chosen.partner;
        // The conductor sleeps nearly all the time. It may wake up on any CPU but the measured one.
        let others: Vec<u32> = request.setup.allowed.iter().copied().filter(|&cpu| cpu != request.setup.cpu).collect();
        let _ = affinity::restrict_process(request.conductor, &others);
    }
    let mut rig = Rig::set_up(&request, started, out)?;
    rig.began_alone(began_alone);
    if request.experiment == INTERFERENCE {
        interference::measure(&mut rig)?;
    } else {
        let experiment = experiments::find(&request.experiment)
            .ok_or_else(|| Problem::new(format!("unknown experiment {}", request.experiment)))?;
        let measure = experiment.measure_first.filter(|_| request.first).unwrap_or(experiment.measure);
        measure(&mut rig)?;
    }
    rig.finish()
}
