//! io_uring: system calls by a queue in shared memory.

use std::ffi::c_void;
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use io_uring::{IoUring, opcode, types};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::file::Buffer;
use super::operation::Operation;

/// Entries of the submission queue: the longest batch that can be submitted at once.
pub const ENTRIES: u32 = 32;

/// Parameters of io_uring_setup(2), which the kernel completes.
#[repr(C)]
#[derive(Default)]
struct Parameters {
    submissions: u32,
    completions: u32,
    others: [u32; 8],
    submission: Offsets,
    completion: Offsets,
}

/// Offsets in the mapping of a queue: those of head, tail and mask first, then by the indices below.
#[repr(C)]
#[derive(Default)]
struct Offsets {
    head: u32,
    tail: u32,
    mask: u32,
    others: [u32; 7],
}

/// Index of the submission queue's array of indices in [`Offsets::others`].
const INDICES: usize = 3;
/// Index of the completion queue's entries there.
const COMPLETIONS: usize = 2;

/// The queues of a ring, in the layout that the pieces of assembly read.
#[repr(C)]
struct Queues {
    submission_tail: *mut c_void,
    submission_mask: u64,
    submissions: *mut c_void,
    completion_head: *mut c_void,
    completion_tail: *mut c_void,
    completion_mask: u64,
    completions: *mut c_void,
}

/// A mapping of a part of a ring.
struct Mapping {
    start: NonNull<c_void>,
    length: NonZeroUsize,
}

impl Mapping {
    fn of(ring: &OwnedFd, offset: i64, bytes: usize) -> std::io::Result<Self> {
        let length = NonZeroUsize::new(bytes).ok_or(std::io::ErrorKind::InvalidInput)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice collides with nothing.
        let start = unsafe { mmap(None, length, protection, flags, ring, offset) }?;
        Ok(Mapping { start, length })
    }

    fn at(&self, offset: u32) -> *mut c_void {
        debug_assert!((offset as usize) < self.length.get());
        // SAFETY: the kernel gave the offset, which lies inside the mapping.
        unsafe { self.start.as_ptr().byte_add(offset as usize) }
    }

    fn number(&self, offset: u32) -> u64 {
        // SAFETY: there is an aligned number, which the kernel wrote before it gave the offset.
        u64::from(unsafe { self.at(offset).cast::<u32>().read_volatile() })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own.
        let _ = unsafe { munmap(self.start, self.length.get()) };
    }
}

/// A ring that only ever carries no-operations, a fixed number of them at once.
pub struct Ring {
    queues: Queues,
    count: u32,
    _mapped: [Mapping; 3],
    ring: OwnedFd,
}

impl Ring {
    /// Sets up a ring for this many no-operations at once, at most [`ENTRIES`]. Fails where the kernel has none, or forbids it
    /// (`kernel.io_uring_disabled`, a system-call filter).
    pub fn of(count: u32) -> std::io::Result<Self> {
        let mut parameters = Parameters::default();
        // SAFETY: the kernel writes within the parameters.
        let made = unsafe { libc::syscall(libc::SYS_io_uring_setup, ENTRIES, &raw mut parameters) };
        let made = nix::errno::Errno::result(made)?;
        // SAFETY: the kernel made this descriptor for this value alone.
        let ring = unsafe { OwnedFd::from_raw_fd(made as i32) };
        let Parameters { submissions, completions, submission, completion, .. } = parameters;
        let (indices, entries) = (submission.others[INDICES], completion.others[COMPLETIONS]);
        // Offsets of io_uring(7), and lengths of an index, a completion and a submission in bytes.
        let first = Mapping::of(&ring, 0, (indices + 4 * submissions) as usize)?;
        let second = Mapping::of(&ring, 0x800_0000, (entries + 16 * completions) as usize)?;
        let third = Mapping::of(&ring, 0x1000_0000, 64 * submissions as usize)?;
        for index in 0..submissions {
            // SAFETY: the array of indices has one for each submission.
            unsafe { first.at(indices + 4 * index).cast::<u32>().write_volatile(index) };
        }
        let queues = Queues {
            submission_tail: first.at(submission.tail),
            submission_mask: first.number(submission.mask),
            submissions: third.at(0),
            completion_head: second.at(completion.head),
            completion_tail: second.at(completion.tail),
            completion_mask: second.number(completion.mask),
            completions: second.at(entries),
        };
        Ok(Ring { queues, count: count.min(ENTRIES), _mapped: [first, second, third], ring })
    }

    /// Submits its no-operations with one system call that waits for them all, and takes their completions.
    pub fn operation(&self) -> Operation<'_> {
        const GET_EVENTS: i64 = 1;
        let count = i64::from(self.count);
        let arguments = [i64::from(self.ring.as_raw_fd()), count, count, GET_EVENTS, 0, 0];
        // SAFETY: the call refers to no memory but that of the ring, which the operation borrows and no other thread can use.
        unsafe {
            let call = Operation::call(libc::SYS_io_uring_enter, arguments, count);
            call.on_ring((&raw const self.queues).cast())
        }
    }

    /// The same, which keeps the ring.
    pub fn into_operation(self) -> Operation<'static> {
        struct Held {
            ring: Ring,
        }
        // SAFETY: nothing uses the ring but the one thread that makes the operation. Any thread may unmap and close it.
        unsafe impl Send for Held {}
        // SAFETY: as above.
        unsafe impl Sync for Held {}
        let held = Arc::new(Held { ring: self });
        // SAFETY: the operation borrows the ring alone.
        unsafe { held.ring.operation().holding(held.clone()) }
    }
}

/// Reads of one file of which several are under way at once.
pub struct ReadRing {
    ring: IoUring,
    buffers: Vec<Buffer>,
    bytes: usize,
}

impl ReadRing {
    /// A ring that keeps at most `depth` reads of this many bytes under way, into memory aligned for reads past the cache.
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
    use super::super::placed::{Around, PlacedLoop};
    use super::*;

    #[test]
    fn no_operations_complete_at_every_place() {
        // A system without io_uring gives the reason.
        let Ok(ring) = Ring::of(5) else { return };
        assert!(Operation::work(&[Ring::of(1).unwrap().into_operation()]));
        let mut random = fastrand::Rng::with_seed(9);
        let operation = ring.operation();
        let mut placed = PlacedLoop::draw(&mut random, vec![operation.clone()], Around::Work, 4).unwrap();
        for place in 0..4 {
            placed.place(place);
            placed.run(100).unwrap();
            placed.rest(100);
        }
        drop(placed);
        let mut wrong = PlacedLoop::draw(&mut random, vec![operation.answering(4)], Around::Nothing, 1).unwrap();
        assert!(wrong.run(1).is_err());
        drop(wrong);
        // SAFETY: the tail is a number of the ring, which this thread alone uses.
        let submitted = unsafe { ring.queues.submission_tail.cast::<u32>().read_volatile() };
        assert_eq!(submitted, 5 * 401);
    }

    #[test]
    fn every_read_of_a_ring_is_whole_and_checked() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = directory.path().join("file");
        let content: Vec<u8> = (0..64_usize).flat_map(|block| vec![block as u8; 4096]).collect();
        std::fs::write(&path, content).unwrap();
        let file = File::open(&path).unwrap();
        // A system without io_uring gives the reason.
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
