//! Costs of a GPU: kernels that are launched, and bytes that are copied.

pub mod copy;
pub mod launch;

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Duration;

use crate::experiments::experiment::no_caveats;
use crate::experiments::prelude::*;
use crate::machine::Gpu;
use crate::rig::sampler::Timed;
use crate::sys::gpu::{self, Driver, Task, Why};

/// A driver that finds a device.
pub const GPU: Need = Need {
    id: "gpu",
    what: "an NVIDIA GPU with its driver",
    check: |setup| if setup.machine.gpu.is_some() { Ok(()) } else { look().clone().map(drop) },
    caveats: no_caveats,
};

/// Time for the driver to begin. With many devices that no daemon keeps awake it takes more than ten seconds.
const BEGINNING: Duration = Duration::from_secs(30);
/// Time for a batch. The longest takes some 0.1 s.
const BATCH: Duration = Duration::from_secs(10);

/// What the driver says of the first device. It is asked once.
pub fn look() -> &'static Result<Gpu, Problem> {
    static FOUND: OnceLock<Result<Gpu, Problem>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let found = Driver::load(&gpu::environment()).and_then(|mut driver| driver.describe(BEGINNING));
        found.map(|device| Gpu::of(&device)).map_err(|why| problem(&why))
    })
}

/// Describes the GPU of a setup whose experiments need one.
pub fn describe(setup: &mut Setup, experiments: &[&Experiment]) {
    let needs = |experiment: &&Experiment| experiment.needs.iter().any(|need| need.id == GPU.id);
    if experiments.iter().any(needs) {
        setup.machine.gpu = look().as_ref().ok().cloned().map(Box::new);
        setup.driver_variables = gpu::environment();
    }
}

/// The reason with what to do about it.
fn problem(why: &Why) -> Problem {
    // The device of AMD's driver for computations.
    let is_amd = matches!(why, Why::NoLibrary(_)) && Path::new("/dev/kfd").exists();
    let hint = match why {
        Why::NoLibrary(_) if is_amd => {
            return Problem::new("sysdyno does not measure GPUs of AMD, because no test of their driver exists")
                .hint("use rocm_bandwidth_test of AMD instead");
        }
        Why::NotBuilt => "build sysdyno with a linker for the GNU C library of this architecture",
        Why::NotStarted(_) => "allow programs in memory (sysctl vm.memfd_noexec=0), on a system with the GNU C library",
        Why::NoLibrary(_) => {
            "if this machine has a GPU of NVIDIA, install its driver, or name the directory of libcuda.so.1 in LD_LIBRARY_PATH"
        }
        Why::NoDevice => "look at CUDA_VISIBLE_DEVICES, and give the container a device",
        Why::Refused { .. } | Why::Silent(_) | Why::Ended(_) | Why::Wrong(_) => {
            "look at the output of `nvidia-smi`, and for NVRM in the messages of the kernel (dmesg)"
        }
    };
    Problem::new(why.to_string()).hint(hint)
}

/// A driver that several workloads of a launch use, and why it failed.
struct Used {
    driver: Driver,
    failed: Option<Why>,
}

type Shared = Rc<RefCell<Used>>;

/// Loads the driver, with memory for copies of at most some bytes, or with a kernel.
fn begin(rig: &mut Rig<'_>, most_bytes: u64) -> Result<Shared, Problem> {
    // The driver has the CPU while this launch waits.
    rig.has_partners();
    let mut driver = Driver::load(&rig.setup().driver_variables).map_err(|why| problem(&why))?;
    driver.prepare(most_bytes, BEGINNING).map_err(|why| problem(&why))?;
    Ok(Rc::new(RefCell::new(Used { driver, failed: None })))
}

/// Takes the samples of workloads. What the driver did not do ends the launch, so that none of its results counts.
fn sample(rig: &mut Rig<'_>, used: &Shared, workloads: Vec<Workload<'_>>) -> Result<(), Problem> {
    rig.sample(workloads)?;
    used.borrow().failed.as_ref().map_or(Ok(()), |why| Err(problem(why)))
}

/// Some operations of the device as a workload.
fn workload<'a>(rig: &Rig<'_>, name: &str, labels: Labels, used: &Shared, task: Task) -> Result<Workload<'a>, Problem> {
    let (source, used) = (rig.source()?, Rc::clone(used));
    let time = move |used: &mut Used, count| {
        let began = source.opening().ticks;
        let batch = used.driver.time(task, count, source, BATCH)?;
        // Both sides read the same clock.
        if batch.ticks > source.stamp().ticks - began {
            return Err(Why::Wrong("the program that loads the driver measured a longer time than passed"));
        }
        Ok(batch)
    };
    let work = move |count| {
        let used = &mut *used.borrow_mut();
        // A driver that failed once would fail again, after a long time perhaps.
        if used.failed.is_none() {
            match time(used, count) {
                Ok(batch) if batch.preempted => return Ok(Timed::Preempted(batch.ticks)),
                Ok(batch) => return Ok(Timed::Undisturbed(batch.ticks)),
                Err(why) => used.failed = Some(why),
            }
        }
        Err("the driver failed".to_owned())
    };
    Ok(Workload::self_timed(name, labels, 1, work).unclocked().waiting())
}
