//! Networks that a test makes and removes: two network namespaces, joined by a virtual pair or by a relay that delays every
//! packet.

#![allow(unsafe_code, reason = "a tunnel device is opened")]

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sched::{CloneFlags, setns};

use super::runs::PROGRAM;

/// Address of the side that measures.
pub const NEAR: &str = "10.77.0.1";
/// Address of the side with the peer.
pub const FAR: &str = "10.77.0.2";
/// The same of joined ones in IPv6.
pub const FAR6: &str = "fd77::2";

/// Two network namespaces. They are removed with this value, and everything in them with them.
pub struct Namespaces {
    pub near: String,
    pub far: String,
}

/// Runs a command that must succeed.
pub fn must(words: &[&str]) {
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap_or_else(|error| panic!("{words:?}: {error}"));
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Namespaces {
    /// Makes them, with their loopbacks up; needs root.
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        assert!(nix::unistd::Uid::effective().is_root(), "network namespaces are made here: this test needs root");
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = |side| format!("sysdyno-{}-{number}-{side}", std::process::id());
        let made = Namespaces { near: name("near"), far: name("far") };
        for name in [&made.near, &made.far] {
            must(&["ip", "netns", "add", name]);
            must(&["ip", "-n", name, "link", "set", "lo", "up"]);
        }
        made
    }

    /// Joins them by a virtual pair, `v0` on both sides, with IPv6 addresses as well.
    pub fn join(&self) {
        must(&["ip", "-n", &self.near, "link", "add", "v0", "type", "veth", "peer", "name", "v0", "netns", &self.far]);
        for (name, address, address6) in [(&self.near, NEAR, "fd77::1"), (&self.far, FAR, FAR6)] {
            must(&["ip", "-n", name, "address", "add", &format!("{address}/24"), "dev", "v0"]);
            must(&["ip", "-n", name, "address", "add", &format!("{address6}/64"), "dev", "v0", "nodad"]);
            must(&["ip", "-n", name, "link", "set", "v0", "up"]);
        }
    }

    /// Lets no more than a rate through the pair, in both directions.
    pub fn shape(&self, megabits: u32) {
        for name in [&self.near, &self.far] {
            let (rate, burst) = (format!("{megabits}mbit"), format!("{}", (megabits * 600).max(20_000)));
            let words =
                ["tc", "-n", name, "qdisc", "replace", "dev", "v0", "root", "tbf", "rate", &rate, "burst", &burst];
            must(&[&words[..], &["latency", "60ms"]].concat());
        }
    }

    /// Joins them by a relay that holds every packet for a time, each way.
    pub fn relay(&self, delay: Duration) -> Relay {
        let (near, far) = (tunnel(&self.near), tunnel(&self.far));
        for (name, address) in [(&self.near, NEAR), (&self.far, FAR)] {
            must(&["ip", "-n", name, "address", "add", &format!("{address}/24"), "dev", "t0"]);
            must(&["ip", "-n", name, "link", "set", "t0", "up"]);
        }
        Relay::start(near, far, delay)
    }

    /// A command inside a namespace, in a process group of its own.
    pub fn command(name: &str, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", name, program]).args(words);
        command.current_dir(env!("CARGO_TARGET_TMPDIR")).stdin(Stdio::null()).process_group(0);
        command
    }

    /// The program as a peer on the far side.
    pub fn peer(&self, words: &[&str]) -> Serving {
        self.peer_at(FAR, words)
    }

    /// The same at another of its addresses.
    pub fn peer_at(&self, address: &str, words: &[&str]) -> Serving {
        let listen = if address.contains(':') { format!("[{address}]:0") } else { format!("{address}:0") };
        let mut command = Namespaces::command(&self.far, PROGRAM, &[&["peer", "--listen", &listen], words].concat());
        Serving::start(command.stdout(Stdio::piped()))
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in [&self.near, &self.far] {
            let _ = Command::new("ip").args(["netns", "delete", name]).status();
        }
    }
}

/// A peer that runs, with what it said.
pub struct Serving {
    pub process: Child,
    pub address: String,
    pub secret: String,
}

impl Serving {
    /// Starts it and reads its two lines.
    pub fn start(command: &mut Command) -> Self {
        use std::io::BufRead;
        let mut process = command.spawn().unwrap();
        let mut lines = std::io::BufReader::new(process.stdout.take().unwrap()).lines();
        let address = lines.next().unwrap().unwrap().strip_prefix("peer ready at ").unwrap().to_owned();
        let paste = lines.next().unwrap().unwrap();
        let secret = paste.rsplit_once(' ').unwrap().1.to_owned();
        Serving { process, address, secret }
    }

    /// Sends a signal to it and its sessions.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::killpg(nix::unistd::Pid::from_raw(self.process.id() as i32), signal).unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let group = nix::unistd::Pid::from_raw(self.process.id() as i32);
        let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
        let _ = self.process.wait();
    }
}

/// Opens the tunnel device `t0` of a namespace.
fn tunnel(namespace: &str) -> File {
    let path = format!("/run/netns/{namespace}");
    std::thread::spawn(move || {
        // Only this thread enters the namespace, and it ends right after.
        setns(File::open(path).unwrap(), CloneFlags::CLONE_NEWNET).unwrap();
        let device = File::options().read(true).write(true).open("/dev/net/tun").unwrap();
        let mut request = [0_u8; 40];
        request[..2].copy_from_slice(b"t0");
        let flags = libc::IFF_TUN | libc::IFF_NO_PI;
        request[16..18].copy_from_slice(&(flags as u16).to_ne_bytes());
        // SAFETY: the request is as large as struct ifreq and outlives the call.
        let answer = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, request.as_mut_ptr()) };
        assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
        // SAFETY: sets a flag of a descriptor that is open.
        unsafe { libc::fcntl(device.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        device
    })
    .join()
    .unwrap()
}

/// Carries packets between two tunnels, each after the same delay. Cuts the way when told to; ends with this value.
pub struct Relay {
    ending: Arc<AtomicBool>,
    cut: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Packets on their way, with the time at which they are due.
type Queue = std::collections::VecDeque<(Instant, Vec<u8>)>;

impl Relay {
    fn start(near: File, far: File, delay: Duration) -> Self {
        let (ending, cut) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (is_ending, is_cut) = (Arc::clone(&ending), Arc::clone(&cut));
        let thread = std::thread::spawn(move || {
            // A sleep ends when it is due, not when it suits the kernel.
            let _ = nix::sys::prctl::set_timerslack(1);
            let mut ends = [(near, Queue::new()), (far, Queue::new())];
            while !is_ending.load(Ordering::Relaxed) {
                carry(&mut ends, delay, is_cut.load(Ordering::Relaxed));
            }
        });
        Relay { ending, cut, thread: Some(thread) }
    }

    /// From now on every packet is lost.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }
}

/// Takes what has come, gives what is due, sleeps until shortly before the next is.
fn carry(ends: &mut [(File, Queue); 2], delay: Duration, cut: bool) {
    /// A wake-up is late by less than this, mostly; the rest is waited for by looking.
    const EARLY: Duration = Duration::from_micros(150);
    // The tunnels carry packets of an Ethernet.
    let mut packet = [0_u8; 2048];
    for (tunnel, queue) in ends.iter_mut() {
        loop {
            match tunnel.read(&mut packet) {
                Ok(length) if !cut => queue.push_back((Instant::now() + delay, packet[..length].to_vec())),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return,
            }
        }
    }
    let mut next: Option<Instant> = None;
    for side in 0..2 {
        while ends[side].1.front().is_some_and(|(due, _)| *due <= Instant::now()) {
            let (_, bytes) = ends[side].1.pop_front().unwrap();
            // A full queue of the device loses packets, as a network does.
            let _ = ends[1 - side].0.write(&bytes);
        }
        if let Some((due, _)) = ends[side].1.front() {
            next = Some(next.map_or(*due, |next| next.min(*due)));
        }
    }
    let sleep = next.map_or(Duration::from_millis(20), |next| next.saturating_duration_since(Instant::now() + EARLY));
    if !sleep.is_zero() {
        let mut waited = [0, 1].map(|side| PollFd::new(ends[side].0.as_fd(), PollFlags::POLLIN));
        let _ = ppoll(&mut waited, Some(nix::sys::time::TimeSpec::from(sleep)), None);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
