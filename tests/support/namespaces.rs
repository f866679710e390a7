//! Networks that a test makes and removes: two network namespaces, joined by a virtual pair or by a relay that delays every
//! packet.

#![allow(unsafe_code, reason = "a tunnel device is opened, and a thread gets real-time priority")]

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sched::{CloneFlags, setns};

use sysdyno::testing::sys::affinity;

use super::faults::{Fault, FaultyPath};
use super::runs::{PROGRAM, in_the_foreground, state};
use super::tap::Headers;

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

/// Runs a command that must succeed; what it said.
pub fn must(words: &[&str]) -> String {
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap_or_else(|error| panic!("{words:?}: {error}"));
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
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
        let [near, far] = self.tunnels();
        Relay::start(near, far, delay)
    }

    /// Joins them by a path that treats some datagrams badly.
    pub fn faulty(&self, fault: Fault) -> FaultyPath {
        let [near, far] = self.tunnels();
        FaultyPath::start(near, far, fault)
    }

    fn tunnels(&self) -> [File; 2] {
        let tunnels = [tunnel(&self.near), tunnel(&self.far)];
        for (name, address) in [(&self.near, NEAR), (&self.far, FAR)] {
            must(&["ip", "-n", name, "address", "add", &format!("{address}/24"), "dev", "t0"]);
            must(&["ip", "-n", name, "link", "set", "t0", "up"]);
        }
        tunnels
    }

    /// Joins them by virtual pairs to a bridge in a third namespace, which lets no more than a rate through to each of them, and drops
    /// the rest. What a sender sends does not wait for the bridge, as on a path with a narrow link behind the first one.
    pub fn join_by_narrow_bridge(&self, megabits: u32) -> Bridge {
        let between = self.near.replace("near", "between");
        must(&["ip", "netns", "add", &between]);
        let bridge = Bridge { between };
        let between = &bridge.between;
        must(&["ip", "-n", between, "link", "add", "b0", "type", "bridge"]);
        must(&["ip", "-n", between, "link", "set", "b0", "up"]);
        for (name, port, address) in [(&self.near, NEAR_PORT, NEAR), (&self.far, FAR_PORT, FAR)] {
            must(&["ip", "-n", name, "link", "add", "v0", "type", "veth", "peer", "name", port, "netns", between]);
            must(&["ip", "-n", name, "address", "add", &format!("{address}/24"), "dev", "v0"]);
            must(&["ip", "-n", between, "link", "set", port, "master", "b0"]);
            must(&["ip", "-n", between, "link", "set", port, "up"]);
            must(&["ip", "-n", name, "link", "set", "v0", "up"]);
            let words = ["tc", "-n", between, "qdisc", "replace", "dev", port, "root", "tbf", "rate"];
            let rate = [&format!("{megabits}mbit"), "burst", "20000", "limit", "60000"];
            must(&[&words[..], &rate[..]].concat());
        }
        bridge
    }

    /// A command inside a namespace, in a process group of its own.
    pub fn command(name: &str, program: &str, words: &[&str]) -> Command {
        in_the_foreground();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", name, program]).args(words);
        command
            .env("XDG_STATE_HOME", state())
            .current_dir(env!("CARGO_TARGET_TMPDIR"))
            .stdin(Stdio::null())
            .process_group(0);
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
        off_the_measured_cpu(&mut command);
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

/// Ports of a bridge to the near and to the far side.
const NEAR_PORT: &str = "n0";
const FAR_PORT: &str = "f0";

/// A bridge in its namespace, which is removed with this value.
pub struct Bridge {
    between: String,
}

impl Bridge {
    /// Packets that it dropped on the way to the far side, and to the near one.
    pub fn dropped(&self) -> [u64; 2] {
        [FAR_PORT, NEAR_PORT].map(|port| {
            let text = must(&["tc", "-n", &self.between, "-s", "-j", "qdisc", "show", "dev", port]);
            let found: serde_json::Value = serde_json::from_str(&text).unwrap();
            found.as_array().unwrap().iter().find(|queue| queue["kind"] == "tbf").unwrap()["drops"].as_u64().unwrap()
        })
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.between]).status();
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

/// Carries packets between two tunnels, each after the same delay, and notes how long it really held each of them. Cuts the way
/// when told to; ends with this value.
pub struct Relay {
    ending: Arc<AtomicBool>,
    cut: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    notes: Arc<Mutex<Vec<Note>>>,
}

/// One packet that the relay carried.
#[derive(Debug, Clone, Copy)]
pub struct Note {
    /// From the near side to the far one.
    pub outward: bool,
    /// Of the IP header: 1 is ICMP, 6 TCP, 17 UDP.
    pub protocol: u8,
    /// Bytes behind the headers of IP and of the transport.
    pub payload: usize,
    /// A packet of TCP that begins a connection, there or back.
    pub begins: bool,
    /// It came when nothing else was on its way in its direction: no later part of a long message.
    pub first: bool,
    /// Milliseconds from reading it to writing it.
    pub held: f64,
}

/// A packet on its way.
struct Packet {
    came: Instant,
    due: Instant,
    first: bool,
    bytes: Vec<u8>,
}

/// Packets on their way, the first due first.
type Queue = std::collections::VecDeque<Packet>;

impl Relay {
    fn start(near: File, far: File, delay: Duration) -> Self {
        let (ending, cut) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (is_ending, is_cut) = (Arc::clone(&ending), Arc::clone(&cut));
        let notes = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&notes);
        let thread = std::thread::spawn(move || {
            // A sleep ends when it is due, not when it suits the kernel.
            let _ = nix::sys::prctl::set_timerslack(1);
            let _ = affinity::restrict(&beside_the_measured_cpu());
            hurry();
            let mut ends = [(near, Queue::new()), (far, Queue::new())];
            while !is_ending.load(Ordering::Relaxed) {
                carry(&mut ends, delay, is_cut.load(Ordering::Relaxed), &noted);
            }
        });
        Relay { ending, cut, thread: Some(thread), notes }
    }

    /// From now on every packet is lost.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }

    /// Milliseconds that the relay held packets of a kind there and back: the sum of the medians of both directions.
    pub fn held(&self, kind: impl Fn(&Note) -> bool) -> f64 {
        self.held_at(0.5, kind)
    }

    /// The same for another quantile of each direction.
    pub fn held_at(&self, probability: f64, kind: impl Fn(&Note) -> bool) -> f64 {
        let notes = self.notes.lock().unwrap();
        let one_way = |outward: bool| {
            let held: Vec<f64> =
                notes.iter().filter(|note| note.outward == outward && kind(note)).map(|note| note.held).collect();
            sysdyno::testing::statistics::summary::quantile(&held, probability)
                .unwrap_or_else(|| panic!("the relay carried no such packet"))
        };
        one_way(true) + one_way(false)
    }
}

/// The CPUs that a run does not measure on by itself: all but the last, where there are several. What belongs to the rig stays
/// there, so that it is no neighbour of what it is the truth for.
pub fn beside_the_measured_cpu() -> Vec<u32> {
    let allowed = affinity::allowed();
    if allowed.len() > 1 { allowed[..allowed.len() - 1].to_vec() } else { allowed }
}

/// Keeps a process of the rig away from the CPU that is measured.
pub fn off_the_measured_cpu(command: &mut Command) {
    let cpus = beside_the_measured_cpu();
    // SAFETY: only a system call is made between fork and exec.
    unsafe { command.pre_exec(move || affinity::restrict(&cpus)) };
}

/// The relay must be awake when a packet comes or is due, whoever else computes on its CPU. Where real-time priority is
/// refused, it is late more often, and notes that.
fn hurry() {
    let priority = libc::sched_param { sched_priority: 10 };
    // SAFETY: changes the scheduling of the calling thread; the parameter outlives the call.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) };
}

/// What the relay notes of a packet; nothing of what has no header of IPv4.
fn note_of(packet: &Packet, outward: bool, held: Duration) -> Option<Note> {
    let Headers { protocol, payload, begins, .. } = Headers::of(&packet.bytes)?;
    Some(Note { outward, protocol, payload, begins, first: packet.first, held: held.as_secs_f64() * 1e3 })
}

/// Takes what has come, gives what is due, sleeps until shortly before the next is.
fn carry(ends: &mut [(File, Queue); 2], delay: Duration, cut: bool, notes: &Mutex<Vec<Note>>) {
    /// A wake-up is late by less than this, mostly; the rest is waited for by looking.
    const EARLY: Duration = Duration::from_micros(150);
    // The tunnels carry packets of an Ethernet.
    let mut bytes = [0_u8; 2048];
    for (tunnel, queue) in ends.iter_mut() {
        loop {
            match tunnel.read(&mut bytes) {
                Ok(length) if !cut => {
                    let (came, first) = (Instant::now(), queue.is_empty());
                    queue.push_back(Packet { came, due: came + delay, first, bytes: bytes[..length].to_vec() });
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return,
            }
        }
    }
    let mut next: Option<Instant> = None;
    for side in 0..2 {
        while ends[side].1.front().is_some_and(|packet| packet.due <= Instant::now()) {
            let packet = ends[side].1.pop_front().unwrap();
            // A full queue of the device loses packets, as a network does.
            let _ = ends[1 - side].0.write(&packet.bytes);
            let note = note_of(&packet, side == 0, packet.came.elapsed());
            notes.lock().unwrap().extend(note);
        }
        if let Some(packet) = ends[side].1.front() {
            next = Some(next.map_or(packet.due, |next| next.min(packet.due)));
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

/// Watches what the token bucket of a namespace lets through, as the kernel counts it.
pub struct Passed {
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<(Instant, f64)>>>,
}

impl Passed {
    /// Begins to watch the pair's end in a namespace.
    pub fn watch(namespace: &str) -> Self {
        const BETWEEN: Duration = Duration::from_millis(200);
        let ending = Arc::new(AtomicBool::new(false));
        let (is_ending, namespace) = (Arc::clone(&ending), namespace.to_owned());
        let thread = std::thread::spawn(move || {
            let _ = affinity::restrict(&beside_the_measured_cpu());
            let mut readings: Vec<(Instant, f64)> = Vec::new();
            while !is_ending.load(Ordering::Relaxed) {
                readings.extend(bytes_sent(&namespace).map(|bytes| (Instant::now(), bytes)));
                std::thread::sleep(BETWEEN);
            }
            readings
        });
        Passed { ending, thread: Some(thread) }
    }

    /// Bytes per second over the longest stretch in which the shaper was busy.
    pub fn rate(self) -> f64 {
        let longest = self.stretches().into_iter().max_by_key(Vec::len).expect("the shaper was busy");
        rate(&longest[0], &longest[longest.len() - 1])
    }

    /// The lowest and the highest rate of all seconds in which the shaper was busy: they differ where it was woken too late. A
    /// flow counts for longer than a second, so its rate is between them.
    pub fn rates(self) -> [f64; 2] {
        const SECOND: usize = 6;
        let stretches = self.stretches();
        let rates: Vec<f64> = stretches
            .iter()
            .flat_map(|stretch| stretch.windows(SECOND.min(stretch.len())))
            .map(|second| rate(&second[0], &second[second.len() - 1]))
            .collect();
        assert!(!rates.is_empty(), "the shaper was never busy for four readings");
        [rates.iter().copied().fold(f64::INFINITY, f64::min), rates.iter().copied().fold(0.0, f64::max)]
    }

    /// Readings in which more than half of the highest rate passed, without the first and the last of each stretch.
    fn stretches(mut self) -> Vec<Vec<(Instant, f64)>> {
        self.ending.store(true, Ordering::Relaxed);
        let readings = self.thread.take().unwrap().join().unwrap();
        let most = readings.windows(2).map(|pair| rate(&pair[0], &pair[1])).fold(0.0, f64::max);
        let stretches = readings.chunk_by(|from, to| rate(from, to) > most / 2.0);
        let inner = stretches.filter_map(|stretch| match stretch {
            [_, inner @ .., _] if inner.len() > 1 => Some(inner.to_vec()),
            _ => None,
        });
        inner.collect()
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
    }
}

/// Bytes per second between two readings.
fn rate(from: &(Instant, f64), to: &(Instant, f64)) -> f64 {
    (to.1 - from.1) / (to.0 - from.0).as_secs_f64()
}

/// Bytes that the token bucket has let through, with the headers that it counts.
fn bytes_sent(namespace: &str) -> Option<f64> {
    let output = Command::new("tc").args(["-n", namespace, "-s", "-j", "qdisc", "show", "dev", "v0"]).output().ok()?;
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    found.as_array()?.iter().find(|queue| queue["kind"] == "tbf")?["bytes"].as_f64()
}
