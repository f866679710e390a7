//! io_uring: system calls by a queue in shared memory.

use std::cell::RefCell;
use std::ffi::c_void;
use std::fs::File;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, types};

use super::file::Buffer;
use super::placed::Operation;

/// A ring that only ever carries no-operations, so many at once.
pub struct Ring {
    ring: IoUring,
    count: u32,
}

/// Entries of the submission queue: the longest batch that can be submitted at once.
pub const ENTRIES: u32 = 32;

impl Ring {
    /// Sets up a ring for so many no-operations at once, at most [`ENTRIES`]. Fails where the kernel has none, or forbids it
    /// (`kernel.io_uring_disabled`, a system-call filter).
    pub fn of(count: u32) -> std::io::Result<Self> {
        Ok(Ring { ring: IoUring::new(ENTRIES)?, count: count.min(ENTRIES) })
    }

    /// Submits its no-operations with one system call that waits for them all, and takes their completions. Returns how many completed
    /// well.
    pub fn no_operations(&mut self) -> std::io::Result<u32> {
        let entry = opcode::Nop::new().build();
        {
            let mut queue = self.ring.submission();
            for _ in 0..self.count {
                // SAFETY: a no-operation refers to no memory that would have to outlive it.
                if unsafe { queue.push(&entry) }.is_err() {
                    return Err(std::io::Error::other("the submission queue is full"));
                }
            }
        }
        self.ring.submit_and_wait(self.count as usize)?;
        Ok(self.ring.completion().filter(|completion| completion.result() == 0).count() as u32)
    }

    /// The same for [placed loops](super::placed): the answer is how many completed well.
    pub fn operation(ring: &RefCell<Ring>) -> Operation<'_> {
        extern "C" fn submit(ring: *mut c_void) -> i64 {
            // SAFETY: the operation gives the address of a ring that it borrows.
            let ring = unsafe { &*ring.cast::<RefCell<Ring>>() };
            ring.try_borrow_mut().ok().and_then(|mut ring| ring.no_operations().ok()).map_or(-1, i64::from)
        }
        let expected = i64::from(ring.borrow().count);
        // SAFETY: the function gets what it expects, for as long as it is borrowed. It returns every error.
        unsafe { Operation::function(submit, std::ptr::from_ref(ring).cast_mut().cast(), expected) }
    }
}

/// Reads of one file of which several are under way at once.
pub struct ReadRing {
    ring: IoUring,
    buffers: Vec<Buffer>,
    bytes: usize,
}

impl ReadRing {
    /// A ring that keeps at most `depth` reads of so many bytes under way, into memory aligned for reads past the cache.
    pub fn new(depth: u32, bytes: usize) -> std::io::Result<Self> {
        let ring = IoUring::new(depth.max(1))?;
        Ok(ReadRing { ring, buffers: (0..depth.max(1)).map(|_| Buffer::new(bytes)).collect(), bytes })
    }

    /// Reads at the offsets that `next` gives until it gives none, then waits for what is under way. Every read must be
    /// whole, and `check` is content with it. Returns how many there were.
    pub fn read(
        &mut self,
        file: &File,
        mut next: impl FnMut() -> Option<u64>,
        mut check: impl FnMut(&[u8], u64) -> Result<(), String>,
    ) -> Result<u64, String> {
        let mut free: Vec<usize> = (0..self.buffers.len()).collect();
        let mut offsets = vec![0; self.buffers.len()];
        let (mut more, mut done, mut wrong) = (true, 0, None);
        loop {
            while more && let Some(slot) = free.pop() {
                let Some(offset) = next() else {
                    more = false;
                    free.push(slot);
                    break;
                };
                offsets[slot] = offset;
                let place = self.buffers[slot].get().as_mut_ptr();
                let entry = opcode::Read::new(types::Fd(file.as_raw_fd()), place, self.bytes as u32)
                    .offset(offset)
                    .build()
                    .user_data(slot as u64);
                // SAFETY: the buffer of a slot belongs to this value and is neither moved nor touched until its completion was
                // taken, and this function does not return before all were; the file is borrowed for as long.
                if unsafe { self.ring.submission().push(&entry) }.is_err() {
                    wrong = wrong.or_else(|| Some("the submission queue is full".to_owned()));
                    more = false;
                    free.push(slot);
                }
            }
            if free.len() == self.buffers.len() {
                return wrong.map_or(Ok(done), Err);
            }
            match self.ring.submit_and_wait(1) {
                Err(error) if error.raw_os_error() != Some(libc::EINTR) => {
                    // What is under way may still write into the buffers: they must not be freed.
                    std::mem::forget(std::mem::take(&mut self.buffers));
                    return Err(error.to_string());
                }
                _ => {}
            }
            let finished: Vec<(usize, i32)> =
                self.ring.completion().map(|found| (found.user_data() as usize, found.result())).collect();
            for (slot, result) in finished {
                free.push(slot);
                let verdict = if result == self.bytes as i32 {
                    check(self.buffers[slot].get(), offsets[slot])
                } else if result < 0 {
                    Err(std::io::Error::from_raw_os_error(-result).to_string())
                } else {
                    Err(format!("{result} bytes instead of {}", self.bytes))
                };
                match verdict {
                    Ok(()) => done += 1,
                    Err(why) => {
                        wrong = wrong.or(Some(why));
                        more = false;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_read_of_a_ring_is_whole_and_checked() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = directory.path().join("file");
        let content: Vec<u8> = (0..64_usize).flat_map(|block| vec![block as u8; 4096]).collect();
        std::fs::write(&path, content).unwrap();
        let file = File::open(&path).unwrap();
        // A system without io_uring says so.
        let Ok(mut ring) = ReadRing::new(8, 4096) else { return };
        let mut left = (0..64_u64).collect::<Vec<_>>();
        let mut seen = [false; 64];
        let next = || left.pop().map(|block| block * 4096);
        let done = ring.read(&file, next, |read, offset| {
            seen[(offset / 4096) as usize] = read.iter().all(|&byte| u64::from(byte) == offset / 4096);
            Ok(())
        });
        assert_eq!(done, Ok(64));
        assert!(seen.iter().all(|&seen| seen));
        let mut once = Some(64 * 4096);
        let beyond = ring.read(&file, || once.take(), |_, _| Ok(()));
        assert!(beyond.unwrap_err().contains("0 bytes instead of 4096"));
        let mut few = vec![0, 4096];
        assert!(ring.read(&file, || few.pop(), |_, _| Err("refused".to_owned())).is_err());
    }
}
