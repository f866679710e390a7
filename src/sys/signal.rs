//! Signals to the calling thread: the handler, its installing, and the sending.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use super::arch;
use super::memory::page_size;
use super::operation::Operation;

/// The signal that is installed and sent: nothing else in this program uses it.
const SIGNAL: i32 = libc::SIGUSR1;

/// A signal handler, which gets the signal's number.
pub type Handler = extern "C" fn(i32);

static DELIVERED: AtomicU64 = AtomicU64::new(0);

/// A handler that counts in [`delivered`] and does nothing else.
pub extern "C" fn count(_signal: i32) {
    // Signals to one thread do not interrupt their own handler, so a load and a store are enough.
    DELIVERED.store(DELIVERED.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Signals that [`count`] has handled in this process.
pub fn delivered() -> u64 {
    DELIVERED.load(Ordering::Relaxed)
}

/// The signal has a handler, and the calling thread does not block it, until this value ends. Then both are as before.
pub struct Handled {
    action: libc::sigaction,
    before: libc::sigaction,
    mask: libc::sigset_t,
    process: i64,
    thread: i64,
}

impl Handled {
    /// Installs a handler for the calling thread's signals to itself.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    ///
    /// # Safety
    ///
    /// The handler must do only what signal-safety(7) allows.
    pub unsafe fn by(handler: Handler) -> io::Result<Self> {
        // SAFETY: all zeros is a valid action: no flags and an empty mask.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = handler as libc::sighandler_t;
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        let mut ours = MaybeUninit::<libc::sigset_t>::zeroed();
        let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: every pointer is valid for what is read or written through it. The caller answers for the handler.
        let made = unsafe {
            libc::sigemptyset(ours.as_mut_ptr());
            libc::sigaddset(ours.as_mut_ptr(), SIGNAL);
            libc::sigaction(SIGNAL, &raw const action, before.as_mut_ptr()) == 0
                && libc::pthread_sigmask(libc::SIG_UNBLOCK, ours.as_ptr(), mask.as_mut_ptr()) == 0
        };
        if !made {
            return Err(io::Error::last_os_error());
        }
        Ok(Handled {
            action,
            // SAFETY: both calls succeeded and have filled them.
            before: unsafe { before.assume_init() },
            // SAFETY: as above.
            mask: unsafe { mask.assume_init() },
            process: super::system_call::process_number(),
            thread: super::system_call::thread_number(),
        })
    }

    /// Installs [`count`].
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn counted() -> io::Result<Self> {
        // SAFETY: it reads and writes one atomic number.
        unsafe { Handled::by(count) }
    }

    /// Installs the same handler once more (sigaction(2)). The answer is 0.
    pub fn install(&self) -> Operation<'_> {
        extern "C" fn install(action: *mut c_void) -> i64 {
            // SAFETY: the operation gives the address of a valid action, whose handler is the one that is installed.
            i64::from(unsafe { libc::sigaction(SIGNAL, action.cast::<libc::sigaction>(), std::ptr::null_mut()) })
        }
        // SAFETY: the action is borrowed for as long as the operation. The function only reads it.
        unsafe { Operation::function(install, (&raw const self.action).cast_mut().cast(), 0) }
    }

    /// Sends the signal to the thread that installed the handler (tgkill(2)). If that thread calls, the handler has run when the call
    /// returns. The answer is 0.
    pub fn send(&self) -> Operation<'_> {
        // SAFETY: the signal has a handler as long as this value lives.
        unsafe { Operation::call(libc::SYS_tgkill, [self.process, self.thread, i64::from(SIGNAL), 0, 0, 0], 0) }
    }
}

impl Operation<'_> {
    /// Installs [`count`] once more, as [`Handled::install`] does. The handler stays until the process ends.
    ///
    /// # Errors
    ///
    /// What the kernel answered to the first installation.
    pub fn install_handler() -> io::Result<Operation<'static>> {
        Ok(installed()?.install())
    }

    /// Sends the signal to the calling thread, as [`Handled::send`] does. The handler stays until the process ends.
    ///
    /// # Errors
    ///
    /// As for [`install_handler`](Self::install_handler).
    pub fn signal_to_itself() -> io::Result<Operation<'static>> {
        Ok(installed()?.send())
    }
}

/// The handler [`count`], which stays installed.
fn installed() -> io::Result<&'static Handled> {
    static INSTALLED: OnceLock<Handled> = OnceLock::new();
    if let Some(found) = INSTALLED.get() {
        return Ok(found);
    }
    let made = Handled::counted()?;
    Ok(INSTALLED.get_or_init(|| made))
}

static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Writes to a page without permission that a handler has skipped in this process.
pub fn refused_writes() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

/// A page that may only be read. It stays until the process ends.
static READ_ONLY: OnceLock<ReadOnly> = OnceLock::new();

struct ReadOnly(NonNull<c_void>);

// SAFETY: nothing can be written there, and any thread may try.
unsafe impl Send for ReadOnly {}
// SAFETY: as above.
unsafe impl Sync for ReadOnly {}

/// A handler of SIGSEGV that goes on after a write to [`READ_ONLY`]. Any other fault is repeated without a handler, and ends the process.
extern "C" fn skip_write(_signal: i32, information: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO the addresses of both.
    let (address, context) = unsafe { ((*information).si_addr(), &mut *context.cast::<libc::ucontext_t>()) };
    if READ_ONLY.get().is_none_or(|page| page.0.as_ptr() != address) {
        // SAFETY: the default action needs no handler.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        return;
    }
    *arch::program_counter(context) += arch::WRITE_LENGTH;
    REFUSED.store(REFUSED.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Writes to the page. The answer is 0.
extern "C" fn write_to_page(page: *mut c_void) -> i64 {
    // SAFETY: the handler skips the write.
    unsafe { arch::write_one(page.cast()) };
    0
}

impl Operation<'_> {
    /// A write to a page without permission, which a handler of SIGSEGV skips and counts. The handler stays until the process ends.
    ///
    /// # Errors
    ///
    /// The kernel refuses the page or the handler.
    pub fn refused_write() -> io::Result<Operation<'static>> {
        if READ_ONLY.get().is_none() {
            let length = NonZeroUsize::new(page_size()).ok_or(io::ErrorKind::InvalidInput)?;
            // SAFETY: a new mapping at an address of the kernel's choice collides with nothing.
            let page = unsafe { mmap_anonymous(None, length, ProtFlags::PROT_READ, MapFlags::MAP_PRIVATE) }?;
            let _ = READ_ONLY.set(ReadOnly(page));
        }
        let page = READ_ONLY.get().ok_or(io::ErrorKind::NotFound)?.0;
        let action = SigAction::new(SigHandler::SigAction(skip_write), SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler does only what signal-safety(7) allows.
        unsafe { sigaction(Signal::SIGSEGV, &action) }?;
        // SAFETY: the function takes the page, whose handler is installed.
        Ok(unsafe { Operation::function(write_to_page, page.as_ptr(), 0) })
    }
}

impl Drop for Handled {
    fn drop(&mut self) {
        // SAFETY: both were filled by the kernel. Handlers of this thread's signals have returned.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.mask, std::ptr::null_mut());
            libc::sigaction(SIGNAL, &raw const self.before, std::ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_writes_are_skipped_and_counted() {
        let operations = [Operation::refused_write().unwrap(), Operation::refused_write().unwrap()];
        let before = refused_writes();
        assert!(Operation::work(&operations));
        assert_eq!(refused_writes() - before, 2);
    }
}
