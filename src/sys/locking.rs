//! Locks that no other task wants: in memory, of the kernel, and of files.

use std::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, RwLock};

use super::operation::Operation;

/// Adds 1 to a number, and takes it away again.
extern "C" fn add_and_subtract(number: *mut c_void) -> i64 {
    // SAFETY: the operation gives the address of an atomic number, which it holds.
    let number = unsafe { &*number.cast::<AtomicI64>() };
    number.fetch_add(1, Ordering::SeqCst);
    number.fetch_sub(1, Ordering::SeqCst) - 1
}

/// Locks and unlocks a mutex. The answer is 0.
extern "C" fn lock_mutex(mutex: *mut c_void) -> i64 {
    // SAFETY: the operation gives the address of a mutex, which it holds.
    let mutex = unsafe { &*mutex.cast::<Mutex<()>>() };
    drop(mutex.lock());
    0
}

/// Locks and unlocks a lock for reading. The answer is 0.
extern "C" fn lock_to_read(lock: *mut c_void) -> i64 {
    // SAFETY: the operation gives the address of a lock, which it holds.
    let lock = unsafe { &*lock.cast::<RwLock<()>>() };
    drop(lock.read());
    0
}

impl<'a> Operation<'a> {
    /// A function of a value in memory, whose address is its argument. The answer is 0.
    ///
    /// # Safety
    ///
    /// The function must be sound with the address of the value any number of times. It must not unwind.
    pub(super) unsafe fn on_value<T: Send + Sync + 'static>(
        value: T,
        function: extern "C" fn(*mut c_void) -> i64,
    ) -> Operation<'static> {
        // SAFETY: by the contract of this function. The value lives as long as the operation.
        Operation::on_files(value, |value| unsafe {
            Operation::function(function, std::ptr::from_ref(value).cast_mut().cast(), 0)
        })
    }

    /// An atomic addition and an atomic subtraction.
    pub fn atomic_additions() -> Operation<'static> {
        // SAFETY: the function takes an atomic number.
        unsafe { Operation::on_value(AtomicI64::new(0), add_and_subtract) }
    }

    /// Locking and unlocking a mutex (a futex, see [`Mutex`]).
    pub fn mutex() -> Operation<'static> {
        // SAFETY: the function takes such a mutex.
        unsafe { Operation::on_value(Mutex::new(()), lock_mutex) }
    }

    /// Locking and unlocking a lock of readers and writers, as a reader (a futex, see [`RwLock`]).
    pub fn reader_lock() -> Operation<'static> {
        // SAFETY: the function takes such a lock.
        unsafe { Operation::on_value(RwLock::new(()), lock_to_read) }
    }

    /// futex(2): takes a lock whose holder inherits the priority of its waiters, and gives it back. The kernel does both.
    pub fn inheriting_lock() -> [Operation<'static>; 2] {
        Operation::two_on_files(AtomicI64::new(0), |word| {
            [libc::FUTEX_LOCK_PI, libc::FUTEX_UNLOCK_PI].map(|how| {
                let how = i64::from(how | libc::FUTEX_PRIVATE_FLAG);
                // SAFETY: the kernel changes the word, which lives as long as the operation. Without a time limit it reads no other memory.
                unsafe { Operation::call(libc::SYS_futex, [std::ptr::from_ref(word) as i64, how, 0, 0, 0, 0], 0) }
            })
        })
    }

    /// flock(2): takes the lock of a file, and gives it back.
    pub fn lock_of_file(file: BorrowedFd<'a>) -> [Operation<'a>; 2] {
        [libc::LOCK_EX | libc::LOCK_NB, libc::LOCK_UN].map(|how| {
            let arguments = [i64::from(file.as_raw_fd()), i64::from(how), 0, 0, 0, 0];
            // SAFETY: no memory. The descriptor is open for the lifetime.
            unsafe { Operation::call(libc::SYS_flock, arguments, 0) }
        })
    }

    /// fcntl(2): takes a lock of the first byte of a file for the process, and gives it back.
    pub fn lock_of_range(file: BorrowedFd<'a>) -> [Operation<'a>; 2] {
        [libc::F_WRLCK, libc::F_UNLCK].map(|how| {
            // The type and the base, the start, the length, and the process.
            let words = [i64::from(how) | i64::from(libc::SEEK_SET) << 16, 0, 1, 0];
            let arguments = [i64::from(file.as_raw_fd()), i64::from(libc::F_SETLK), 0, 0, 0, 0];
            // SAFETY: the kernel reads a lock of four words from the memory. The descriptor is open for the lifetime.
            unsafe { Operation::call(libc::SYS_fcntl, arguments, 0).with_words(2, &words) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_in_words_is_that_of_the_system() {
        assert_eq!(size_of::<libc::flock>(), 32);
        assert_eq!(std::mem::offset_of!(libc::flock, l_whence), 2);
        assert_eq!(std::mem::offset_of!(libc::flock, l_start), 8);
        assert_eq!(std::mem::offset_of!(libc::flock, l_len), 16);
    }

    #[test]
    fn locks_that_no_other_task_wants_are_taken() {
        let file = crate::sys::create::in_memory(c"lock").unwrap();
        let file = std::os::fd::AsFd::as_fd(&file);
        assert!(Operation::work(&Operation::lock_of_file(file)));
        assert!(Operation::work(&Operation::lock_of_range(file)));
        assert!(Operation::work(&Operation::inheriting_lock()));
        for operation in [Operation::atomic_additions(), Operation::mutex(), Operation::reader_lock()] {
            assert!(Operation::work(&[operation]));
        }
    }
}
