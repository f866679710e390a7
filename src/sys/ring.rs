//! io_uring: system calls by a queue in shared memory.

use io_uring::{IoUring, opcode};

/// A ring that only ever carries no-operations.
pub struct Ring {
    ring: IoUring,
}

/// Entries of the submission queue: the longest batch that can be submitted at once.
pub const ENTRIES: u32 = 32;

impl Ring {
    /// Sets up a ring; fails where the kernel has none, or forbids it (`kernel.io_uring_disabled`, a system-call filter).
    pub fn new() -> std::io::Result<Self> {
        IoUring::new(ENTRIES).map(|ring| Ring { ring })
    }

    /// Submits a number of no-operations (at most [`ENTRIES`]) with one system call that waits for them all, and takes
    /// their completions. Returns how many completed well.
    pub fn no_operations(&mut self, count: u32) -> std::io::Result<u32> {
        let entry = opcode::Nop::new().build();
        {
            let mut queue = self.ring.submission();
            for _ in 0..count {
                // SAFETY: a no-operation refers to no memory that would have to outlive it.
                if unsafe { queue.push(&entry) }.is_err() {
                    return Err(std::io::Error::other("the submission queue is full"));
                }
            }
        }
        self.ring.submit_and_wait(count as usize)?;
        Ok(self.ring.completion().filter(|completion| completion.result() == 0).count() as u32)
    }
}
