//! Signals to the calling thread: the handler, its installing, and the sending.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::placed::Operation;

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

impl Drop for Handled {
    fn drop(&mut self) {
        // SAFETY: both were filled by the kernel. Handlers of this thread's signals have returned.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.mask, std::ptr::null_mut());
            libc::sigaction(SIGNAL, &raw const self.before, std::ptr::null_mut());
        }
    }
}
