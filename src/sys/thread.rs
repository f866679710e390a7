//! Ways of making a thread: by the C library, with a stack that it keeps or must map anew, and by the kernel's call alone.

use std::ffi::{CStr, c_void};
use std::io::Error;
use std::num::NonZeroUsize;
use std::ptr;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};

use super::arch;
use super::clock::Source;

/// Bytes of the stack of a bare thread, which needs none but for a signal or a call.
const BARE_STACK: usize = 64 << 10;

/// Bytes of a stack that the C library never keeps: glibc keeps stacks up to 40 MiB together (tunable
/// glibc.pthread.stack_cache_size). Address space only; no page of it is touched but the first.
const LARGE_STACK: usize = 64 << 20;

/// Longest wait for a thread to be gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a thread does: stores when and where its first instruction ran, computes for a while, ends. It lives as long as
/// the process, because nothing else is sure to outlive a thread.
#[derive(Debug)]
pub struct Body {
    began: AtomicI64,
    cpu: AtomicI64,
    spin: u64,
    source: Source,
}

impl Body {
    /// A body that stamps by a source, and then runs `spin` iterations of [`arch::multiply_chain`].
    pub fn new(source: Source, spin: u64) -> &'static Body {
        Box::leak(Box::new(Body { began: AtomicI64::new(0), cpu: AtomicI64::new(-1), spin, source }))
    }

    /// When the last thread with this body began, in ticks of its source. To be asked after the thread has ended.
    pub fn began(&self) -> i64 {
        self.began.load(Ordering::Acquire)
    }

    /// The CPU on which it began, where that is known.
    pub fn cpu(&self) -> Option<u32> {
        u32::try_from(self.cpu.load(Ordering::Acquire)).ok()
    }
}

/// First instructions of a thread of the C library.
extern "C" fn enter(body: *mut c_void) -> *mut c_void {
    // SAFETY: `create` passes a body that lives as long as the process.
    let body = unsafe { &*body.cast::<Body>() };
    let stamp = body.source.stamp();
    body.began.store(stamp.ticks, Ordering::Release);
    body.cpu.store(i64::from(stamp.cpu), Ordering::Release);
    if body.spin > 0 {
        arch::multiply_chain(body.spin);
    }
    ptr::null_mut()
}

/// Attributes for threads of the C library.
#[derive(Debug)]
pub struct Attributes(libc::pthread_attr_t);

impl Attributes {
    /// A stack of usual size: from the second thread on, the library has one cached.
    pub fn usual() -> std::io::Result<Self> {
        let mut attributes = std::mem::MaybeUninit::uninit();
        // SAFETY: pthread_attr_init() fills the attributes that the pointer is valid for; on success they are initialised.
        unsafe {
            refused(libc::pthread_attr_init(attributes.as_mut_ptr()))?;
            Ok(Attributes(attributes.assume_init()))
        }
    }

    /// A stack too large for the library's store: mapped for each thread and unmapped after it.
    pub fn large() -> std::io::Result<Self> {
        let mut attributes = Attributes::usual()?;
        // SAFETY: the attributes are initialised.
        refused(unsafe { libc::pthread_attr_setstacksize(&raw mut attributes.0, LARGE_STACK) })?;
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised, and nothing uses it any more.
        unsafe { libc::pthread_attr_destroy(&raw mut self.0) };
    }
}

fn refused(error: i32) -> std::io::Result<()> {
    if error == 0 { Ok(()) } else { Err(Error::from_raw_os_error(error)) }
}

/// A thread of the C library that has not been joined.
#[derive(Debug)]
#[must_use = "a thread that is not joined keeps its stack"]
pub struct Thread(libc::pthread_t);

/// Creates a thread by pthread_create(3).
#[inline(always)]
pub fn create(attributes: &Attributes, body: &'static Body) -> std::io::Result<Thread> {
    let mut thread = std::mem::MaybeUninit::uninit();
    // SAFETY: the attributes are initialised; the body lives as long as the process and its fields are atomic or never
    // change; `enter` has the signature of a thread's first function.
    unsafe {
        refused(libc::pthread_create(
            thread.as_mut_ptr(),
            &raw const attributes.0,
            enter,
            ptr::from_ref(body).cast_mut().cast(),
        ))?;
        Ok(Thread(thread.assume_init()))
    }
}

impl Thread {
    /// Waits until the thread has ended, by pthread_join(3).
    #[inline(always)]
    pub fn join(self) -> std::io::Result<()> {
        // SAFETY: the thread was created joinable, and is joined once, because this takes it.
        refused(unsafe { libc::pthread_join(self.0, ptr::null_mut()) })
    }
}

/// Which call makes bare threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloneCall {
    /// clone3(2).
    Clone3,
    /// clone(2), for kernels before 5.3 and system-call filters that refuse what they cannot read.
    Clone,
}

impl CloneCall {
    /// Name of the call.
    pub fn name(self) -> &'static str {
        match self {
            CloneCall::Clone3 => "clone3",
            CloneCall::Clone => "clone",
        }
    }
}

/// Threads made by the kernel's call alone, one at a time, on a stack that is there already: no library, no separate storage,
/// no signal mask. What such a thread runs is a few instructions of assembly.
#[derive(Debug)]
pub struct Bare {
    call: CloneCall,
    body: &'static Body,
    /// The number of the running thread; the kernel clears it when the thread is gone, and wakes who waits.
    running: &'static AtomicU32,
    stack: u64,
    arguments: libc::clone_args,
}

impl Bare {
    /// Prepares stack and arguments.
    pub fn new(call: CloneCall, body: &'static Body) -> std::io::Result<Self> {
        let length = NonZeroUsize::new(BARE_STACK).ok_or(std::io::ErrorKind::InvalidInput)?;
        // SAFETY: a new private mapping at an address of the kernel's choice collides with nothing. It is never unmapped, so
        // that it outlives any thread.
        let stack = unsafe {
            mmap_anonymous(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE)
        }?;
        let running: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
        let stack = stack.as_ptr() as u64;
        // SAFETY: all fields of the structure are numbers, for which zero is valid.
        let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
        arguments.flags = FLAGS as u64;
        arguments.child_tid = ptr::from_ref(running) as u64;
        arguments.parent_tid = arguments.child_tid;
        arguments.stack = stack;
        arguments.stack_size = BARE_STACK as u64;
        Ok(Bare { call, body, running, stack, arguments })
    }

    /// Creates a thread; refused while the last one runs.
    #[inline(always)]
    pub fn create(&mut self) -> std::io::Result<()> {
        if self.running.load(Ordering::Acquire) != 0 {
            return Err(Error::from(std::io::ErrorKind::ResourceBusy));
        }
        let arguments = match self.call {
            CloneCall::Clone3 => [ptr::from_ref(&self.arguments) as i64, size_of::<libc::clone_args>() as i64, 0, 0, 0],
            CloneCall::Clone => {
                let word = ptr::from_ref(self.running) as i64;
                // The place of the storage pointer and of the word that is cleared differ by architecture; the former is
                // ignored without CLONE_SETTLS.
                [FLAGS, (self.stack + BARE_STACK as u64) as i64, word, word, word]
            }
        };
        let number = match self.call {
            CloneCall::Clone3 => libc::SYS_clone3,
            CloneCall::Clone => libc::SYS_clone,
        };
        let stamp = if self.body.source == Source::Counter { self.body.began.as_ptr() } else { ptr::null_mut() };
        // SAFETY: stack, word and body are never freed; nothing else runs on the stack, because the word was clear.
        let answer = unsafe { arch::clone_thread(number, arguments, stamp, self.body.spin) };
        if answer < 0 { Err(Error::from_raw_os_error(-answer as i32)) } else { Ok(()) }
    }

    /// Waits until the kernel has cleared the number of the thread.
    #[inline(always)]
    pub fn join(&mut self) {
        loop {
            let number = self.running.load(Ordering::Acquire);
            if number == 0 {
                return;
            }
            // The kernel wakes as if processes shared the word, so this waits without FUTEX_PRIVATE_FLAG.
            // SAFETY: the word is valid for ever; the kernel only compares it. An interrupted or late wait is tried again.
            unsafe {
                libc::syscall(libc::SYS_futex, self.running.as_ptr(), libc::FUTEX_WAIT, number, ptr::null::<()>())
            };
        }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.join();
    }
}

/// A thread of this process, whose number the kernel stores at once and clears at the end.
const FLAGS: i64 = (libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_PARENT_SETTID
    | libc::CLONE_CHILD_CLEARTID) as i64;

/// Waits until threads are really gone. Joining ends when the kernel has cleared a thread's number; the rest of its end
/// still takes the CPU.
#[derive(Debug, Clone, Copy)]
pub struct Alone(Option<libc::nlink_t>);

impl Alone {
    /// Remembers how many threads the process has now.
    pub fn now() -> Self {
        Alone(links())
    }

    /// Waits until there are as many again.
    pub fn wait(self) -> Result<(), String> {
        let mut since = None;
        while links() != self.0 {
            if since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                return Err(format!("a thread did not end within {} s", PATIENCE.as_secs()));
            }
            // Asleep, not yielding: the kernel counts a yield as an involuntary switch, which would look like a disturbance.
            std::thread::sleep(Duration::from_micros(1));
        }
        Ok(())
    }
}

/// Links to `/proc/self/task`, which are two more than the threads of this process; none where that cannot be asked.
fn links() -> Option<libc::nlink_t> {
    nix::sys::stat::stat(c"/proc/self/task").ok().map(|found| found.st_nlink)
}

/// The C library that this program is linked with.
pub fn library() -> String {
    #[cfg(target_env = "gnu")]
    let name = {
        // SAFETY: returns a pointer to a constant string.
        let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
        format!("glibc {}", version.to_string_lossy())
    };
    #[cfg(not(target_env = "gnu"))]
    let name = option_env!("CARGO_CFG_TARGET_ENV").unwrap_or("a C library that does not name itself").to_owned();
    let linked = if cfg!(target_feature = "crt-static") { "statically" } else { "dynamically" };
    format!("{name}, linked {linked}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_every_kind_begin_between_creation_and_join() {
        let body = Body::new(Source::Counter, 0);
        for attributes in [Attributes::usual().unwrap(), Attributes::large().unwrap()] {
            let before = arch::stamp().ticks;
            create(&attributes, body).unwrap().join().unwrap();
            assert!(body.began() > before && body.began() < arch::stamp().ticks);
            assert!(body.cpu().is_some());
        }
        for call in [CloneCall::Clone3, CloneCall::Clone] {
            let body = Body::new(Source::Counter, 10);
            let mut bare = Bare::new(call, body).unwrap();
            for _ in 0..3 {
                let before = arch::stamp().ticks;
                bare.create().unwrap();
                bare.join();
                assert!(body.began() > before && body.began() < arch::stamp().ticks, "{call:?}");
            }
        }
    }

    #[test]
    fn one_bare_thread_at_a_time() {
        // Millions of iterations of 60 cycles: still running when the next one is asked for.
        let mut bare = Bare::new(CloneCall::Clone, Body::new(Source::Counter, 2_000_000)).unwrap();
        bare.create().unwrap();
        assert_eq!(bare.create().unwrap_err().kind(), std::io::ErrorKind::ResourceBusy);
        bare.join();
        bare.create().unwrap();
    }

    #[test]
    fn the_library_names_itself() {
        assert!(library().contains("linked") && library().len() > 12, "{}", library());
    }
}
