//! A file system whose every read and sync takes a known time: a server of the kernel's FUSE protocol, with files in memory, so many
//! workers, and a record of every read and sync that the kernel asked for.
//!
//! It speaks just enough of the protocol (linux/fuse.h) for files to be made, written, read, renamed and removed.

#![allow(unsafe_code, reason = "mount(2), umount2(2) and the timer slack of a thread")]

use std::collections::HashMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};

/// Longest write that is taken at once.
const WRITE: u32 = 128 << 10;
/// Number of the root directory.
const ROOT: u64 = 1;

/// A read that the kernel asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    pub file: u64,
    pub offset: u64,
    pub size: u32,
    /// When a worker got it.
    pub came: Instant,
    /// How long it took from its arrival at a worker to its answer.
    pub took: Duration,
}

impl Asked {
    /// How long it took, in seconds.
    pub fn seconds(&self) -> f64 {
        self.took.as_secs_f64()
    }
}

/// A sync that the kernel asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Synced {
    pub file: u64,
    /// Whether it was of the contents alone, as fdatasync and O_DSYNC ask for it.
    pub data_only: bool,
    /// How long it took from its arrival at a worker to its answer.
    pub took: Duration,
}

enum Node {
    Directory(HashMap<Vec<u8>, u64>),
    File(Vec<u8>),
}

struct State {
    nodes: HashMap<u64, Node>,
    next: u64,
}

struct Shared {
    state: Mutex<State>,
    delay: AtomicU64,
    sync_delay: AtomicU64,
    free: u64,
    /// Bytes that files may have together, and the error that a write beyond them gets.
    quota: Mutex<Option<(u64, i32)>>,
    log: Mutex<Vec<Asked>>,
    syncs: Mutex<Vec<Synced>>,
    /// Set when the file system goes: workers that still sleep need not answer.
    over: AtomicBool,
}

/// A mounted file system. It goes with this value, and with the calling thread's own mount table in any case.
pub struct Slow {
    point: PathBuf,
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

/// Gives the calling thread, and programs that it starts, mounts of their own: they are gone when those end.
pub fn own_mounts() {
    unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace needs root");
    let (none, flags) = (std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
    // SAFETY: one C string, and nothing else is looked at for a change of propagation.
    let answer = unsafe { libc::mount(none, c"/".as_ptr(), none, flags, none.cast()) };
    assert_eq!(answer, 0, "making mounts private: {}", std::io::Error::last_os_error());
}

impl Slow {
    /// Mounts it at a directory: reads take `delay`, so many `workers` serve them, and `free` bytes are said to be free. The
    /// caller has its own mounts.
    pub fn mount(point: &Path, delay: Duration, workers: usize, free: u64) -> Self {
        let device = File::options().read(true).write(true).open("/dev/fuse").expect("/dev/fuse");
        let options =
            CString::new(format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd())).unwrap();
        let place = CString::new(point.to_str().unwrap()).unwrap();
        // SAFETY: four C strings that outlive the call.
        let answer = unsafe {
            libc::mount(
                c"slow".as_ptr(),
                place.as_ptr(),
                c"fuse.slow".as_ptr(),
                libc::MS_NOSUID | libc::MS_NODEV,
                options.as_ptr().cast(),
            )
        };
        assert_eq!(answer, 0, "mounting: {}", std::io::Error::last_os_error());
        let root = Node::Directory(HashMap::new());
        let shared = Arc::new(Shared {
            state: Mutex::new(State { nodes: HashMap::from([(ROOT, root)]), next: ROOT + 1 }),
            delay: AtomicU64::new(delay.as_nanos() as u64),
            sync_delay: AtomicU64::new(0),
            free,
            quota: Mutex::new(None),
            log: Mutex::default(),
            syncs: Mutex::default(),
            over: AtomicBool::new(false),
        });
        let device = Arc::new(device);
        let serve = |_| {
            let (shared, device) = (Arc::clone(&shared), Arc::clone(&device));
            std::thread::spawn(move || work(&shared, &device))
        };
        let workers = (0..workers).map(serve).collect();
        Slow { point: point.to_path_buf(), shared, workers }
    }

    /// Another delay from now on.
    pub fn set_delay(&self, delay: Duration) {
        self.shared.delay.store(delay.as_nanos() as u64, Ordering::SeqCst);
    }

    /// From now on each sync of a file takes this long.
    pub fn set_sync_delay(&self, delay: Duration) {
        self.shared.sync_delay.store(delay.as_nanos() as u64, Ordering::SeqCst);
    }

    /// The syncs since the last call.
    pub fn take_syncs(&self) -> Vec<Synced> {
        std::mem::take(&mut *self.shared.syncs.lock().unwrap())
    }

    /// From now on a write gets an error with which files would have more bytes than these together, whatever is said to be free.
    pub fn set_quota(&self, bytes: u64, error: i32) {
        *self.shared.quota.lock().unwrap() = Some((bytes, error));
    }

    /// The reads since the last call.
    pub fn take_log(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.shared.log.lock().unwrap())
    }

    /// Names of all that is in its root.
    pub fn names(&self) -> Vec<String> {
        let state = self.shared.state.lock().unwrap();
        match &state.nodes[&ROOT] {
            Node::Directory(entries) => entries.keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect(),
            Node::File(_) => unreachable!("the root is a directory"),
        }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        let place = CString::new(self.point.to_str().unwrap()).unwrap();
        // SAFETY: a C string that outlives the call. Without the mount the workers' reads fail and they end.
        unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH) };
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

/// Numbers out of a request.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..at + 4].try_into().unwrap())
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().unwrap())
    }

    /// A name that ends with a zero.
    fn name(&self, at: usize) -> Vec<u8> {
        self.0[at..].iter().copied().take_while(|&byte| byte != 0).collect()
    }
}

fn work(shared: &Shared, mut device: &File) {
    // SAFETY: sets a number of this thread: sleeps end when they are over and not 50 µs later.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    let mut request = vec![0; WRITE as usize + 4096];
    loop {
        let count = match device.read(&mut request) {
            Ok(count) => count,
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::ENOENT | libc::EAGAIN)) => continue,
            Err(_) => return,
        };
        let began = Instant::now();
        let head = Words(&request[..count]);
        let (operation, unique, node) = (head.u32(4), head.u64(8), head.u64(16));
        let body = Words(&request[40..count]);
        let delay = match operation {
            15 => Some(&shared.delay),
            20 => Some(&shared.sync_delay),
            _ => None,
        };
        if let Some(delay) = delay.filter(|_| !shared.over.load(Ordering::SeqCst)) {
            std::thread::sleep(Duration::from_nanos(delay.load(Ordering::SeqCst)));
        }
        let beyond = if operation == 16 { *shared.quota.lock().unwrap() } else { None };
        let answer = {
            let mut state = shared.state.lock().unwrap();
            match beyond.filter(|(most, _)| state.is_beyond(*most, node, body.u64(8) + u64::from(body.u32(16)))) {
                Some((_, error)) => Some(Err(error)),
                None => state.answer(operation, node, &body, shared.free),
            }
        };
        if let Some(answer) = answer {
            let (error, bytes) = match answer {
                Ok(bytes) => (0_i32, bytes),
                Err(error) => (-error, Vec::new()),
            };
            let mut reply = Vec::with_capacity(16 + bytes.len());
            reply.extend_from_slice(&(16 + bytes.len() as u32).to_le_bytes());
            reply.extend_from_slice(&error.to_le_bytes());
            reply.extend_from_slice(&unique.to_le_bytes());
            reply.extend_from_slice(&bytes);
            if operation == 15 {
                let asked =
                    Asked { file: node, offset: body.u64(8), size: body.u32(16), came: began, took: began.elapsed() };
                shared.log.lock().unwrap().push(asked);
            }
            if operation == 20 {
                let synced = Synced { file: node, data_only: body.u32(8) & 1 != 0, took: began.elapsed() };
                shared.syncs.lock().unwrap().push(synced);
            }
            let _ = device.write(&reply);
        }
    }
}

type Answer = Option<Result<Vec<u8>, i32>>;

impl State {
    /// Whether all files together have more than so many bytes once one of them ends there. What was removed counts no more.
    fn is_beyond(&self, most: u64, number: u64, end: u64) -> bool {
        let named = |node: &Node| match node {
            Node::Directory(entries) => entries.values().copied().collect(),
            Node::File(_) => Vec::new(),
        };
        let length = |number: &u64| match self.nodes.get(number) {
            Some(Node::File(bytes)) => bytes.len() as u64,
            _ => 0,
        };
        let others = self.nodes.values().flat_map(named).filter(|&other| other != number);
        others.map(|other| length(&other)).sum::<u64>() + end.max(length(&number)) > most
    }

    fn answer(&mut self, operation: u32, node: u64, body: &Words<'_>, free: u64) -> Answer {
        let done = || Some(Ok(Vec::new()));
        match operation {
            1 => Some(self.look_up(node, &body.name(0))),
            // Forgotten nodes and interruptions need no answer.
            2 | 36 | 42 => None,
            3 => Some(self.attributes(node).map(|found| reply_attributes(&found))),
            4 => Some(self.change(node, body).map(|found| reply_attributes(&found))),
            9 => Some(self.make(node, body.name(8), Node::Directory(HashMap::new()))),
            10 | 11 => Some(self.remove(node, &body.name(0))),
            12 | 45 => {
                let names = if operation == 12 { 8 } else { 16 };
                let old = body.name(names);
                let new = body.name(names + old.len() + 1);
                Some(self.rename(node, &old, body.u64(0), new))
            }
            14 | 27 => Some(Ok(reply_open())),
            15 => Some(self.read(node, body.u64(8), body.u32(16))),
            16 => Some(self.write(node, body.u64(8), &body.0[40..40 + body.u32(16) as usize])),
            17 => Some(Ok(reply_space(free))),
            18 | 20 | 25 | 29 | 30 | 34 => done(),
            26 => Some(Ok(reply_init(body))),
            28 => Some(self.list(node, body.u64(8))),
            35 => Some(self.make(node, body.name(16), Node::File(Vec::new())).map(|mut entry| {
                entry.extend(reply_open());
                entry
            })),
            _ => Some(Err(libc::ENOSYS)),
        }
    }

    /// `struct fuse_attr`.
    fn attributes(&self, number: u64) -> Result<Vec<u8>, i32> {
        let (mode, size) = match self.nodes.get(&number).ok_or(libc::ENOENT)? {
            Node::Directory(_) => (libc::S_IFDIR | 0o755, 0),
            Node::File(bytes) => (libc::S_IFREG | 0o600, bytes.len() as u64),
        };
        let mut found = Vec::new();
        for word in [number, size, size.div_ceil(512), 0, 0, 0] {
            found.extend_from_slice(&word.to_le_bytes());
        }
        for word in [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0] {
            found.extend_from_slice(&word.to_le_bytes());
        }
        Ok(found)
    }

    /// `struct fuse_entry_out`.
    fn entry(&self, number: u64) -> Result<Vec<u8>, i32> {
        let mut entry = Vec::new();
        for word in [number, 0, 3600, 3600, 0] {
            entry.extend_from_slice(&word.to_le_bytes());
        }
        entry.extend(self.attributes(number)?);
        Ok(entry)
    }

    fn directory(&mut self, number: u64) -> Result<&mut HashMap<Vec<u8>, u64>, i32> {
        match self.nodes.get_mut(&number) {
            Some(Node::Directory(entries)) => Ok(entries),
            _ => Err(libc::ENOTDIR),
        }
    }

    fn look_up(&mut self, parent: u64, name: &[u8]) -> Result<Vec<u8>, i32> {
        let number = *self.directory(parent)?.get(name).ok_or(libc::ENOENT)?;
        self.entry(number)
    }

    fn make(&mut self, parent: u64, name: Vec<u8>, node: Node) -> Result<Vec<u8>, i32> {
        let number = self.next;
        self.next += 1;
        self.directory(parent)?.insert(name, number);
        self.nodes.insert(number, node);
        self.entry(number)
    }

    fn remove(&mut self, parent: u64, name: &[u8]) -> Result<Vec<u8>, i32> {
        // The node stays until the end: somebody may have it open.
        self.directory(parent)?.remove(name).map(|_| Vec::new()).ok_or(libc::ENOENT)
    }

    fn rename(&mut self, from: u64, old: &[u8], to: u64, new: Vec<u8>) -> Result<Vec<u8>, i32> {
        let number = self.directory(from)?.remove(old).ok_or(libc::ENOENT)?;
        self.directory(to)?.insert(new, number);
        Ok(Vec::new())
    }

    fn file(&mut self, number: u64) -> Result<&mut Vec<u8>, i32> {
        match self.nodes.get_mut(&number) {
            Some(Node::File(bytes)) => Ok(bytes),
            _ => Err(libc::EISDIR),
        }
    }

    /// Only lengths are changed (`FATTR_SIZE`).
    fn change(&mut self, number: u64, body: &Words<'_>) -> Result<Vec<u8>, i32> {
        if body.u32(0) & 8 != 0 {
            self.file(number)?.resize(body.u64(16) as usize, 0);
        }
        self.attributes(number)
    }

    fn read(&mut self, number: u64, offset: u64, size: u32) -> Result<Vec<u8>, i32> {
        let bytes = self.file(number)?;
        let first = (offset as usize).min(bytes.len());
        Ok(bytes[first..(first + size as usize).min(bytes.len())].to_vec())
    }

    fn write(&mut self, number: u64, offset: u64, new: &[u8]) -> Result<Vec<u8>, i32> {
        let bytes = self.file(number)?;
        let end = offset as usize + new.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(new);
        Ok([(new.len() as u32).to_le_bytes(), [0; 4]].concat())
    }

    fn list(&mut self, number: u64, offset: u64) -> Result<Vec<u8>, i32> {
        let mut listed = Vec::new();
        if offset > 0 {
            return Ok(listed);
        }
        let entries: Vec<(Vec<u8>, u64)> =
            self.directory(number)?.iter().map(|(name, number)| (name.clone(), *number)).collect();
        for (name, number) in entries {
            let kind = if matches!(self.nodes[&number], Node::Directory(_)) { 4_u32 } else { 8 };
            listed.extend_from_slice(&number.to_le_bytes());
            listed.extend_from_slice(&1_u64.to_le_bytes());
            listed.extend_from_slice(&(name.len() as u32).to_le_bytes());
            listed.extend_from_slice(&kind.to_le_bytes());
            listed.extend_from_slice(&name);
            listed.resize(listed.len().next_multiple_of(8), 0);
        }
        Ok(listed)
    }
}

/// `struct fuse_attr_out`.
fn reply_attributes(found: &[u8]) -> Vec<u8> {
    let mut reply = [3600_u64.to_le_bytes(), [0; 8]].concat();
    reply.extend_from_slice(found);
    reply
}

/// `struct fuse_open_out`: what is cached stays valid from one opening to the next.
fn reply_open() -> Vec<u8> {
    const KEEP_CACHE: u32 = 2;
    [0_u64.to_le_bytes().to_vec(), KEEP_CACHE.to_le_bytes().to_vec(), vec![0; 4]].concat()
}

/// `struct fuse_statfs_out`.
fn reply_space(free: u64) -> Vec<u8> {
    let mut reply = Vec::new();
    for word in [free / 2048, free / 4096, free / 4096, 1 << 20, 1 << 20] {
        reply.extend_from_slice(&u64::to_le_bytes(word));
    }
    for word in [4096_u32, 255, 4096] {
        reply.extend_from_slice(&word.to_le_bytes());
    }
    reply.resize(80, 0);
    reply
}

/// `struct fuse_init_out`.
fn reply_init(body: &Words<'_>) -> Vec<u8> {
    /// FUSE_ASYNC_READ, FUSE_BIG_WRITES.
    const FLAGS: u32 = 1 | 1 << 5;
    let mut reply = Vec::new();
    for word in [7, 31, body.u32(8), FLAGS] {
        reply.extend_from_slice(&u32::to_le_bytes(word));
    }
    // Requests in the background, and when that is many: never here.
    for half in [1024_u16, 1024] {
        reply.extend_from_slice(&half.to_le_bytes());
    }
    for word in [WRITE, 1] {
        reply.extend_from_slice(&word.to_le_bytes());
    }
    reply.resize(64, 0);
    reply
}
