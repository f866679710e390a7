//! A path that loses, repeats or swaps some datagrams, and notes what it did with each.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use sysdyno::testing::sys::affinity;

use super::namespaces::beside_the_measured_cpu;
use super::tap::Headers;

/// Bytes of a token and of the number behind it.
const TOKEN: usize = 16;
const NUMBER: usize = 4;
/// Bytes of the smallest datagram of a flow. What is shorter shows a token.
const SMALLEST: usize = 64;
/// Packets of one direction that are carried before the other has its turn.
const TURN: usize = 64;
/// A packet that waits for the next one waits no longer.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// What happens to every so many-th datagram of a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    Lose(u64),
    Repeat(u64),
    /// It changes places with the one after it.
    Swap(u64),
}

/// What the path saw of one flow of datagrams.
#[derive(Debug, Clone, Default)]
pub struct Carried {
    token: [u8; TOKEN],
    /// Payload of a datagram.
    pub bytes: usize,
    /// Datagrams that came.
    pub came: u64,
    /// Datagrams that the fault kept.
    pub kept: u64,
    /// Numbers in the order in which they left.
    pub left: Vec<u32>,
}

impl Carried {
    /// Different numbers that left, repetitions, and those that left after a higher one.
    pub fn counts(&self) -> [u64; 3] {
        let mut seen = std::collections::HashSet::new();
        let (mut repeated, mut reordered, mut highest) = (0, 0, None);
        for &number in &self.left {
            if !seen.insert(number) {
                repeated += 1;
            } else if highest.is_some_and(|highest| number < highest) {
                reordered += 1;
            } else {
                highest = Some(number);
            }
        }
        [seen.len() as u64, repeated, reordered]
    }
}

/// Carries packets between two tunnels until it is dropped.
pub struct FaultyPath {
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    carried: Arc<Mutex<Vec<Carried>>>,
}

impl FaultyPath {
    /// Begins to carry.
    pub fn start(near: File, far: File, fault: Fault) -> Self {
        let ending = Arc::new(AtomicBool::new(false));
        let carried = Arc::new(Mutex::new(Vec::new()));
        let (is_ending, notes) = (Arc::clone(&ending), Arc::clone(&carried));
        let thread = std::thread::spawn(move || {
            let _ = affinity::restrict(&beside_the_measured_cpu());
            let mut ways = [Way::new(fault), Way::new(fault)];
            let ends = [near, far];
            while !is_ending.load(Ordering::Relaxed) {
                let came = [0, 1].map(|side| ways[side].carry(&ends[side], &ends[1 - side], &notes));
                if came == [false; 2] {
                    let mut waited = ends.each_ref().map(|end| PollFd::new(end.as_fd(), PollFlags::POLLIN));
                    let _ = poll(&mut waited, PollTimeout::from(1_u8));
                }
            }
        });
        FaultyPath { ending, thread: Some(thread), carried }
    }

    /// Every flow so far, in the order in which they began.
    pub fn flows(&self) -> Vec<Carried> {
        self.carried.lock().unwrap().clone()
    }
}

impl Drop for FaultyPath {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One direction.
struct Way {
    fault: Fault,
    datagrams: u64,
    waiting: Option<(Vec<u8>, Instant)>,
}

impl Way {
    fn new(fault: Fault) -> Self {
        Way { fault, datagrams: 0, waiting: None }
    }

    /// Carries what has come, a bounded number of packets; whether there was any.
    fn carry(&mut self, from: &File, to: &File, notes: &Mutex<Vec<Carried>>) -> bool {
        let mut bytes = [0_u8; 2048];
        if self.waiting.as_ref().is_some_and(|(_, since)| since.elapsed() > LONGEST_WAIT) {
            let (packet, _) = self.waiting.take().unwrap();
            leave(to, &packet, notes);
        }
        for packet in 0..TURN {
            let length = match { from }.read(&mut bytes) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return packet > 0,
                Err(_) => return false,
            };
            self.treat(to, &bytes[..length], notes);
        }
        true
    }

    fn treat(&mut self, to: &File, packet: &[u8], notes: &Mutex<Vec<Carried>>) {
        let Some((token, payload, _)) = datagram(packet) else {
            let _ = { to }.write(packet);
            return;
        };
        note(notes, token, payload, |carried| carried.came += 1);
        self.datagrams += 1;
        let is_due = |every: u64| self.datagrams.is_multiple_of(every);
        match self.fault {
            Fault::Lose(every) if is_due(every) => note(notes, token, payload, |carried| carried.kept += 1),
            Fault::Repeat(every) if is_due(every) => {
                leave(to, packet, notes);
                leave(to, packet, notes);
            }
            Fault::Swap(every) if is_due(every) && self.waiting.is_none() => {
                self.waiting = Some((packet.to_vec(), Instant::now()));
            }
            _ => {
                leave(to, packet, notes);
                if let Some((packet, _)) = self.waiting.take() {
                    leave(to, &packet, notes);
                }
            }
        }
    }
}

/// Token, payload and number of a datagram of a flow.
fn datagram(packet: &[u8]) -> Option<([u8; TOKEN], usize, u32)> {
    let headers = Headers::of(packet).filter(|headers| headers.protocol == 17 && headers.payload >= SMALLEST)?;
    let payload = packet.get(packet.len().checked_sub(headers.payload)?..)?;
    let number = u32::from_ne_bytes(payload[TOKEN..TOKEN + NUMBER].try_into().ok()?);
    Some((payload[..TOKEN].try_into().ok()?, headers.payload, number))
}

/// A datagram leaves, and is noted if the device takes it.
fn leave(to: &File, packet: &[u8], notes: &Mutex<Vec<Carried>>) {
    let (token, payload, number) = datagram(packet).unwrap();
    if { to }.write(packet).is_ok() {
        note(notes, token, payload, |carried| carried.left.push(number));
    }
}

fn note(notes: &Mutex<Vec<Carried>>, token: [u8; TOKEN], bytes: usize, what: impl FnOnce(&mut Carried)) {
    let mut flows = notes.lock().unwrap();
    // A flow that waits for its last datagram can be one before the last.
    if let Some(found) = flows.iter_mut().rev().find(|flow| flow.token == token) {
        return what(found);
    }
    flows.push(Carried { token, bytes, ..Carried::default() });
    what(flows.last_mut().unwrap());
}
