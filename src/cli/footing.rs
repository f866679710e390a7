//! What a run needs to stand on, looked at before anything is measured: a run that ends in the middle for want of it has
//! wasted its time.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use crate::machine::Machine;
use crate::results::problem::Problem;
use crate::results::quantity::Unit;
use crate::results::wording::quantity;

/// Least stack of the main thread in bytes. Launches have the same: one in a thread of another stack would not lie where those
/// of other runs lie.
const LEAST_STACK: u64 = 512 << 10;

/// Least memory of a control group in bytes: a quick run of everything ends well in it, with reasons for what does not fit.
const LEAST_MEMORY: u64 = 32 << 20;

/// Launches are this program again, and the kernel's files say what it may use.
pub(super) fn has_proc() -> Result<(), Problem> {
    std::fs::read_link("/proc/self/exe").map(drop).map_err(|error| {
        Problem::new(format!("cannot read /proc/self/exe: {error}. Without it no launch can start"))
            .hint("mount it first: mount -t proc proc /proc")
    })
}

/// A stack that suffices, looked at before anything else: no message is possible once it has overflowed.
pub(super) fn has_stack() -> Result<(), Problem> {
    let (soft, _) = getrlimit(Resource::RLIMIT_STACK).unwrap_or((RLIM_INFINITY, RLIM_INFINITY));
    if soft >= LEAST_STACK {
        return Ok(());
    }
    Err(Problem::new(format!("the stack limit is {} KiB, and sysdyno needs {} KiB", soft >> 10, LEAST_STACK >> 10))
        .hint(format!("raise the limit first: ulimit -s {}", LEAST_STACK >> 10)))
}

/// A limit of memory under which a run would be killed in the middle.
pub(super) fn has_room(machine: &Machine) -> Result<(), Problem> {
    let bytes = |bytes: u64| quantity(bytes as f64, Unit::Bytes);
    if let Some(memory) = machine.limits.memory_bytes.as_ref().filter(|memory| memory.value < LEAST_MEMORY) {
        return Err(Problem::new(format!(
            "the control groups allow {} of memory ({}). A run needs {}, and the kernel would kill it",
            bytes(memory.value),
            memory.source,
            bytes(LEAST_MEMORY)
        ))
        .hint("raise the limit of the group, or run in another group"));
    }
    Ok(())
}
