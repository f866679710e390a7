//! Passages for a token between tasks: what one side does to wake the other, and to wait for it.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use nix::fcntl::OFlag;
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::arch::{system_call, system_call_of_four};
use super::memory::SharedWords;
use super::operation::Operation;
use super::system_call::{read_byte, write_byte};

/// A one-way passage for one token between two tasks.
pub trait Passage: Send + Sync + Sized + 'static {
    /// As many passages as a circle of members has, for members that share their memory (threads) or not (processes).
    fn circle(members: usize, threads: bool) -> io::Result<Vec<Self>>;
    /// Puts the token in and wakes who waits for it; false when the kernel refuses.
    fn pass(&self) -> bool;
    /// Waits until the token is there and takes it out; false when the kernel refuses.
    fn take(&self) -> bool;
    /// The same as [`pass`](Self::pass) for [placed loops](super::placed).
    fn passing(&self) -> Operation<'_>;
    /// The same as [`take`](Self::take) for placed loops.
    fn taking(&self) -> Operation<'_>;
}

/// A byte through a pipe.
#[derive(Debug)]
pub struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

impl Passage for Pipe {
    fn circle(members: usize, _: bool) -> io::Result<Vec<Self>> {
        (0..members)
            .map(|_| {
                let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
                Ok(Pipe { read, write })
            })
            .collect()
    }

    #[inline(always)]
    fn pass(&self) -> bool {
        write_byte(self.write.as_fd(), &1) == 1
    }

    #[inline(always)]
    fn take(&self) -> bool {
        let mut byte = 0;
        read_byte(self.read.as_fd(), &mut byte) == 1 && byte == 1
    }

    fn passing(&self) -> Operation<'_> {
        Operation::write(self.write.as_fd(), 1, 1)
    }

    fn taking(&self) -> Operation<'_> {
        Operation::read(self.read.as_fd(), 1)
    }
}

/// A count of one in an eventfd(2).
#[derive(Debug)]
pub struct Event(EventFd);

impl Passage for Event {
    fn circle(members: usize, _: bool) -> io::Result<Vec<Self>> {
        (0..members).map(|_| Ok(Event(EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC)?))).collect()
    }

    #[inline(always)]
    fn pass(&self) -> bool {
        let one = 1_u64;
        let number = i64::from(std::os::fd::AsRawFd::as_raw_fd(&self.0.as_fd()));
        // SAFETY: the kernel reads the eight bytes of a local number.
        unsafe { system_call(libc::SYS_write, [number, &raw const one as i64, 8]) == 8 }
    }

    #[inline(always)]
    fn take(&self) -> bool {
        let mut count = 0_u64;
        let number = i64::from(std::os::fd::AsRawFd::as_raw_fd(&self.0.as_fd()));
        // SAFETY: the kernel writes the eight bytes of a local number.
        let answer = unsafe { system_call(libc::SYS_read, [number, &raw mut count as i64, 8]) };
        answer == 8 && count == 1
    }

    fn passing(&self) -> Operation<'_> {
        Operation::write(self.0.as_fd(), 8, 1)
    }

    fn taking(&self) -> Operation<'_> {
        Operation::read(self.0.as_fd(), 8)
    }
}

/// A word in shared memory with futex(2): 1 while the token is in it.
#[derive(Debug)]
pub struct Futex {
    words: Arc<SharedWords>,
    index: usize,
    private: bool,
}

impl Futex {
    #[inline(always)]
    fn word(&self) -> &AtomicI64 {
        self.words.at(self.index)
    }

    #[inline(always)]
    fn arguments(&self, operation: i32, value: i64) -> [i64; 4] {
        let private = if self.private { libc::FUTEX_PRIVATE_FLAG } else { 0 };
        // The kernel's word is the lower half of ours: both architectures store it first. No time limit is given.
        [std::ptr::from_ref(self.word()) as i64, i64::from(operation | private), value, 0]
    }

    #[inline(always)]
    fn call(&self, operation: i32, value: i64) -> i64 {
        // SAFETY: the place is mapped and aligned for as long as this value lives.
        unsafe { system_call_of_four(libc::SYS_futex, self.arguments(operation, value)) }
    }

    fn operation(&self, operation: i32, value: i64) -> Operation<'_> {
        let [place, operation, value, limit] = self.arguments(operation, value);
        // SAFETY: as above, and this value is borrowed for as long as the operation.
        unsafe { Operation::call(libc::SYS_futex, [place, operation, value, limit, 0, 0], 0) }
    }
}

impl Passage for Futex {
    fn circle(members: usize, threads: bool) -> io::Result<Vec<Self>> {
        let words = Arc::new(SharedWords::new(members)?);
        Ok((0..members).map(|index| Futex { words: Arc::clone(&words), index, private: threads }).collect())
    }

    #[inline(always)]
    fn pass(&self) -> bool {
        self.word().store(1, Ordering::Release);
        self.call(libc::FUTEX_WAKE, 1) >= 0
    }

    #[inline(always)]
    fn take(&self) -> bool {
        while self.word().load(Ordering::Acquire) == 0 {
            let answer = self.call(libc::FUTEX_WAIT, 0);
            if answer < 0 && answer != -i64::from(libc::EAGAIN) && answer != -i64::from(libc::EINTR) {
                return false;
            }
        }
        self.word().store(0, Ordering::Relaxed);
        true
    }

    fn passing(&self) -> Operation<'_> {
        // SAFETY: the word lives as long as this value, which is borrowed.
        unsafe { self.operation(libc::FUTEX_WAKE, 1).waking(std::ptr::from_ref(self.word())) }
    }

    fn taking(&self) -> Operation<'_> {
        // SAFETY: as above.
        unsafe { self.operation(libc::FUTEX_WAIT, 0).waiting(std::ptr::from_ref(self.word())) }
    }
}

/// A condition variable of the Rust library (a futex, see [`Condvar`]), with the token under a mutex. Threads only.
#[derive(Debug, Default)]
pub struct Condition {
    // On the heap, because loops hold its address.
    place: Box<(Mutex<bool>, Condvar)>,
}

/// Puts the token of a condition in. The answer is 0.
extern "C" fn pass_condition(place: *mut c_void) -> i64 {
    // SAFETY: the operation gives the address of such a value, which it borrows.
    let (token, changed) = unsafe { &*place.cast::<(Mutex<bool>, Condvar)>() };
    *token.lock().unwrap_or_else(PoisonError::into_inner) = true;
    changed.notify_one();
    0
}

/// Takes the token of a condition out. The answer is 0.
extern "C" fn take_condition(place: *mut c_void) -> i64 {
    // SAFETY: as above.
    let (token, changed) = unsafe { &*place.cast::<(Mutex<bool>, Condvar)>() };
    let token = token.lock().unwrap_or_else(PoisonError::into_inner);
    *changed.wait_while(token, |token| !*token).unwrap_or_else(PoisonError::into_inner) = false;
    0
}

impl Condition {
    fn address(&self) -> *mut c_void {
        std::ptr::from_ref(&*self.place).cast_mut().cast()
    }
}

impl Passage for Condition {
    fn circle(members: usize, threads: bool) -> io::Result<Vec<Self>> {
        if threads {
            Ok((0..members).map(|_| Condition::default()).collect())
        } else {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn pass(&self) -> bool {
        pass_condition(self.address()) == 0
    }

    fn take(&self) -> bool {
        take_condition(self.address()) == 0
    }

    fn passing(&self) -> Operation<'_> {
        // SAFETY: the function takes such a value, which is borrowed for as long as the operation.
        unsafe { Operation::function(pass_condition, self.address(), 0) }
    }

    fn taking(&self) -> Operation<'_> {
        // SAFETY: as above.
        unsafe { Operation::function(take_condition, self.address(), 0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own<P: Passage>() {
        for passage in P::circle(3, true).unwrap() {
            assert!(passage.pass());
            assert!(passage.take());
        }
    }

    #[test]
    fn a_token_comes_out_where_it_went_in() {
        own::<Pipe>();
        own::<Event>();
        own::<Futex>();
        own::<Condition>();
        assert!(Condition::circle(2, false).is_err(), "processes do not share it");
    }

    #[test]
    fn a_taker_waits_for_the_token() {
        fn waits<P: Passage>() {
            let passages = Arc::new(P::circle(2, true).unwrap());
            let theirs = Arc::clone(&passages);
            let other = std::thread::spawn(move || (0..100).all(|_| theirs[0].take() && theirs[1].pass()));
            assert!((0..100).all(|_| passages[0].pass() && passages[1].take()));
            assert!(other.join().unwrap());
        }
        waits::<Pipe>();
        waits::<Event>();
        waits::<Futex>();
        waits::<Condition>();
    }
}
