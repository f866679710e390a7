//! Rank 0: calls the roll, orders rounds, waits for each of them with an end, and writes down what came.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::meeting::Posted;
use super::member::{MemberSetting, Rendezvous, take_part};
use super::pair::PLANNED;
use super::roll_call::{self, Arrived};
use super::{ALIKE, MeshFailure, STILL, networks, prepare};
use crate::conduct::directory;
use crate::conduct::interrupt::Interrupt;
use crate::conduct::other_machines::addresses;
use crate::machine::engine::{Engine, is_node_name};
use crate::mesh::{self, rounds};
use crate::peer::authentication::Secret;
use crate::peer::channel::Channel;
use crate::peer::protocol::{Joining, PairOrder, PairResult, PeerRequest, Reply, brief};
use crate::results::mesh::{FORMAT, MOST_PAIRS, Mesh, MeshMember, MeshMode, MeshPair, MeshPlan, MeshVerdict};
use crate::results::node_names::fold;
use crate::results::problem::Problem;
use crate::results::wording::{count, duration};
use crate::sys::process::{self, Forked};
use crate::sys::talk;

/// A member says that it is there within this time.
const BARRIER: Duration = Duration::from_secs(5);
/// A pair takes this much longer than planned at most.
const GRACE: Duration = Duration::from_secs(10);
/// Time for a message whose beginning has come, and to send one.
const MESSAGE: Duration = Duration::from_secs(2);
/// Longest wait until it is looked for signals, in milliseconds.
const LOOK: u64 = 200;
/// Failed pairs that are measured again. Where more fail, the network is the reason and not the hour.
const MOST_AGAIN: usize = 64;
/// Files that are open in addition to the connections of members.
const OTHER_FILES: u64 = 512;

/// What rank 0 is to do.
#[derive(Debug)]
pub struct LeadSetting {
    /// Directory of the result.
    pub directory: PathBuf,
    /// Its part as a member.
    pub member: MemberSetting,
    /// Where the others find it.
    pub at: Rendezvous,
    pub alone: bool,
    /// Most rounds; all without a number.
    pub rounds: Option<u32>,
    pub seed: u64,
    pub streams: u8,
}

/// Leads a mesh. What was measured until a signal came is returned with the name of the signal. The calling process must have one
/// thread.
pub fn lead(setting: &LeadSetting) -> Result<(Mesh, Option<&'static str>), MeshFailure> {
    let began = Instant::now();
    let started = directory::now();
    let size = setting.member.seat.size;
    let planned = planned(setting)?;
    prepare(&setting.directory).map_err(MeshFailure::Wrong)?;
    process::allow_files(u64::from(size) + OTHER_FILES);
    let listener = listen(setting)?;
    // Before there is a file that a signal would leave behind.
    let interrupt = Interrupt::watch().map_err(MeshFailure::Lost)?;
    let address = listener.local_addr().map_err(|error| unusable(&error))?;
    let (secret, posted) = match &setting.at {
        Rendezvous::File(path) => {
            let secret = Secret::fresh().map_err(MeshFailure::Lost)?;
            let posted = Posted::write(path.clone(), address, &secret).map_err(MeshFailure::Wrong)?;
            (secret, Some(posted))
        }
        Rendezvous::At(_, _, secret) => (secret.clone(), None),
    };
    // Before there are threads: it is a member like any other.
    let own = own_member(setting, address, &secret)?;
    let (ending, (arrived, arrivals)) = (Arc::new(AtomicBool::new(false)), mpsc::channel());
    let greeting =
        roll_call::greet(listener, secret, Arc::clone(&ending), arrived).map_err(|error| unusable(&error))?;
    let mut lead = Lead {
        seats: BTreeMap::new(),
        members: absent(size),
        pairs: Vec::new(),
        most_rate: setting.member.rate,
        interrupt,
        said: Instant::now(),
    };
    let called = lead.call_roll(&arrivals, setting.member.patience);
    ending.store(true, Ordering::Relaxed);
    // A thread that greets ends by itself; a panic there was said already.
    let _ = greeting.join();
    drop(posted);
    let outcome = called.and_then(|signal| lead.measure(&planned, setting, signal));
    // Where a signal ended it, the others notice that rank 0 is gone.
    if matches!(outcome, Ok(None)) {
        lead.tell_all(&PeerRequest::End { refused: None });
    }
    own.kill();
    let signal = outcome?;
    Ok((lead.written(setting, &planned, started, began), signal))
}

fn nothing_measured(signal: &str) -> MeshFailure {
    MeshFailure::Interrupted(Problem::new(format!("interrupted by {signal}, nothing was measured")))
}

fn unusable(error: &std::io::Error) -> MeshFailure {
    MeshFailure::Lost(Problem::new(format!("cannot listen for the other tasks: {error}")))
}

/// The rounds, if their result fits into a file.
fn planned(setting: &LeadSetting) -> Result<Vec<rounds::Round>, MeshFailure> {
    let rounds = rounds::rounds(setting.member.seat.size, setting.rounds, setting.seed);
    let pairs: usize = rounds.iter().map(Vec::len).sum();
    if pairs > MOST_PAIRS {
        let what = format!("{pairs} pairs are too many for one result, which holds {MOST_PAIRS}");
        return Err(MeshFailure::Wrong(Problem::new(what).hint("measure fewer rounds with --rounds N")));
    }
    Ok(if setting.alone { rounds::alone(&rounds, setting.seed) } else { rounds })
}

/// The listener on the network that was chosen, or else on the one that members know.
fn listen(setting: &LeadSetting) -> Result<TcpListener, MeshFailure> {
    let own = networks::own();
    let wrong = MeshFailure::Wrong;
    let link = match (&setting.member.network, &setting.at) {
        (Some(choice), _) => networks::chosen(choice, &own).map_err(wrong)?,
        (None, Rendezvous::At(host, port, _)) => {
            let named: Vec<IpAddr> =
                addresses(host, *port).unwrap_or_default().iter().map(|found| found.ip().to_canonical()).collect();
            let found = own.iter().find(|link| named.contains(&link.address)).cloned();
            found.map_or_else(|| networks::usual(&own), Ok).map_err(wrong)?
        }
        (None, Rendezvous::File(_)) => networks::usual(&own).map_err(wrong)?,
    };
    let port = if let Rendezvous::At(_, port, _) = &setting.at { *port } else { 0 };
    let at = SocketAddr::new(link.address, port);
    TcpListener::bind(at).map_err(|error| {
        MeshFailure::Wrong(
            Problem::new(format!("cannot listen at {at}: {error}")).hint("choose a free port of this node"),
        )
    })
}

/// The member of rank 0, in a child.
fn own_member(setting: &LeadSetting, address: SocketAddr, secret: &Secret) -> Result<Forked, MeshFailure> {
    let at = Rendezvous::At(address.ip().to_string(), address.port(), secret.clone());
    let parent = std::process::id();
    process::fork_running(|| {
        if !process::die_with_parent(parent) {
            return 1;
        }
        match take_part(&setting.member, &at) {
            Ok(()) => 0,
            Err(MeshFailure::Wrong(problem) | MeshFailure::Lost(problem) | MeshFailure::Interrupted(problem)) => {
                talk::line(format_args!("error: the member of rank 0: {problem}"));
                1
            }
        }
    })
    .map_err(|error| unusable(&error))
}

fn absent(size: u32) -> Vec<MeshMember> {
    let member = |rank: u32| MeshMember {
        rank,
        node: format!("rank-{rank}"),
        out: Some("it did not come".to_owned()),
        ..MeshMember::default()
    };
    (0..size).map(member).collect()
}

struct Seated {
    channel: Channel,
    server: SocketAddr,
}

struct Lead {
    seats: BTreeMap<u32, Seated>,
    members: Vec<MeshMember>,
    pairs: Vec<MeshPair>,
    /// Most bytes per second of a flow that was asked for.
    most_rate: Option<u64>,
    interrupt: Interrupt,
    /// When all members last got the message that rank 0 is there.
    said: Instant,
}

/// The signal that ended something.
type Signal = Option<&'static str>;

impl Lead {
    /// Waits for all members, or until patience is over.
    fn call_roll(&mut self, arrivals: &Receiver<Arrived>, patience: Duration) -> Result<Signal, MeshFailure> {
        let deadline = Instant::now() + patience;
        while self.seats.len() < self.members.len() && Instant::now() < deadline {
            if let Some(signal) = self.interrupt.caught() {
                return Ok(Some(signal));
            }
            self.still();
            match arrivals.recv_timeout(Duration::from_millis(LOOK)) {
                Ok(arrived) => self.seat(arrived)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        for (rank, member) in self.members.iter_mut().enumerate() {
            if !self.seats.contains_key(&(rank as u32)) {
                member.out = Some(format!("it did not come within {:.0} s", patience.as_secs_f64()));
            }
        }
        if self.seats.len() < 2 {
            let what = format!("no other task came within {:.0} s", patience.as_secs_f64());
            let hint =
                "start the tasks at the same time, such as with srun. All need the same directory, or the same --meet";
            return Err(MeshFailure::Lost(Problem::new(what).hint(hint)));
        }
        Ok(None)
    }

    /// Gives a member its seat. One that contradicts the others ends the mesh: all were started by the same mistake.
    fn seat(&mut self, arrived: Arrived) -> Result<(), MeshFailure> {
        let Arrived { who, mut channel, clock } = arrived;
        let Err(reason) = self.check(&who).map_err(|reason| brief(&reason)) else {
            let member = &mut self.members[who.rank as usize];
            let server = SocketAddr::new(who.link.address, who.port);
            *member = MeshMember {
                rank: who.rank,
                node: who.node,
                rack: who.rack,
                link: Some(who.link),
                others: who.others,
                clock_offset: clock,
                ..MeshMember::default()
            };
            self.seats.insert(who.rank, Seated { channel, server });
            return Ok(());
        };
        let refused = PeerRequest::End { refused: Some(reason.clone()) };
        let _ = channel.send(&refused, MESSAGE);
        self.tell_all(&refused);
        Err(MeshFailure::Wrong(Problem::new(reason).hint(ALIKE)))
    }

    fn check(&self, who: &Joining) -> Result<(), String> {
        let size = self.members.len();
        let version = env!("CARGO_PKG_VERSION");
        let has_other = |seat: &Seated| !seat.channel.is_waiting();
        if who.version != version {
            return Err(format!("rank {} runs version {}, and rank 0 version {version}", who.rank, who.version));
        }
        if who.size as usize != size || who.rank as usize >= size {
            return Err(format!("a task is rank {} of {}, and rank 0 expects {size} tasks", who.rank, who.size));
        }
        // A seat whose connection is closed is free: its task was started again.
        if self.seats.get(&who.rank).is_some_and(has_other) {
            return Err(format!("two tasks are rank {}", who.rank));
        }
        if !is_node_name(&who.node) || !who.rack.as_deref().is_none_or(is_node_name) {
            return Err(format!(
                "the name of the node or of the rack of rank {} has other characters than names have",
                who.rank
            ));
        }
        let same = |(rank, seat): (&u32, &Seated)| *rank != who.rank && seat.server.ip() == who.link.address;
        if let Some((rank, _)) = self.seats.iter().find(|found| same(*found)) {
            return Err(format!("ranks {rank} and {} are on one node, {} ({})", who.rank, who.node, who.link.address));
        }
        Ok(())
    }

    /// Measures all rounds, and what is doubtful once more. Returns the signal that ended it.
    fn measure(
        &mut self,
        planned: &[rounds::Round],
        setting: &LeadSetting,
        signal: Signal,
    ) -> Result<Signal, MeshFailure> {
        if let Some(signal) = signal {
            return Err(nothing_measured(signal));
        }
        self.name_members();
        let pairs: usize = planned.iter().map(Vec::len).sum();
        let seconds = (planned.len() as f64) * (PLANNED.as_secs_f64() + 0.2);
        talk::line(format_args!(
            "mesh: {}, {}, about {}",
            count(self.seats.len() as u64, "member", "members"),
            count(pairs as u64, "pair", "pairs"),
            duration(seconds)
        ));
        let mut number = 0;
        let mut ended = None;
        for round in planned {
            number += 1;
            if ended.is_none() {
                ended = self.round(number, round, setting, false);
            } else {
                self.skip(number, round, ended);
            }
        }
        for _ in 0..mesh::AGAIN {
            let again = rounds::disjoint(&self.again(setting, planned));
            let again = if setting.alone { rounds::alone(&again, setting.seed) } else { again };
            for round in &again {
                number += 1;
                ended = ended.or_else(|| self.round(number, round, setting, true));
            }
        }
        if self.pairs.iter().all(|pair| !pair.is_measured()) {
            if let Some(signal) = ended {
                return Err(nothing_measured(signal));
            }
            let reason = self.pairs.iter().find_map(|pair| pair.reason.clone()).unwrap_or_default();
            let hint = "check that firewalls leave ephemeral ports open between the nodes";
            return Err(MeshFailure::Lost(Problem::new(format!("no pair was measured: {reason}")).hint(hint)));
        }
        Ok(ended)
    }

    /// Pairs that differ from the others, and pairs that failed although both members are there.
    fn again(&self, setting: &LeadSetting, planned: &[rounds::Round]) -> Vec<(u32, u32)> {
        let sketch = self.sketch(setting, planned);
        let failed = sketch.missing().into_iter().map(|(ranks, _)| ranks).take(MOST_AGAIN);
        let mut again: Vec<(u32, u32)> = failed.chain(mesh::doubtful(&sketch)).collect();
        again.retain(|(one, other)| self.seats.contains_key(one) && self.seats.contains_key(other));
        again
    }

    /// Members on nodes of one name have their rank at its end.
    fn name_members(&mut self) {
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        for member in &self.members {
            *seen.entry(member.node.clone()).or_default() += 1;
        }
        for member in self.members.iter_mut().filter(|member| seen[&member.node] > 1) {
            member.node = format!("{}-{}", member.node, member.rank);
        }
    }

    fn skip(&mut self, number: u32, round: &rounds::Round, signal: Signal) {
        for pair in round {
            let reason = format!("interrupted by {}", signal.unwrap_or("a signal"));
            self.record(number, *pair, &Err(reason), false);
        }
    }

    /// Writes down a pair of a round: what it measured, or why not.
    fn record(&mut self, round: u32, (caller, callee): (u32, u32), outcome: &Result<PairResult, String>, again: bool) {
        let blank = || MeshPair { round, caller, callee, again, ..MeshPair::default() };
        let failed = |reason: &str| MeshPair { reason: Some(brief(reason)), ..blank() };
        let pair = match outcome {
            Ok(found) => MeshPair {
                there: Some(found.there),
                back: Some(found.back),
                round_trip: Some(found.round_trip),
                fast_round_trip: Some(found.fast_round_trip),
                slow_round_trip: Some(found.slow_round_trip),
                ..blank()
            },
            Err(reason) => failed(reason),
        };
        self.pairs.push(match pair.is_possible(self.most_rate) {
            Ok(()) => pair,
            Err(why) => failed(&format!("it reports {why}")),
        });
    }

    /// One round. Returns the signal that ended it.
    fn round(&mut self, number: u32, round: &rounds::Round, setting: &LeadSetting, again: bool) -> Signal {
        let there = |lead: &Self| -> Vec<(u32, u32)> {
            round
                .iter()
                .copied()
                .filter(|(one, other)| lead.seats.contains_key(one) && lead.seats.contains_key(other))
                .collect()
        };
        let members: BTreeSet<u32> = there(self).iter().flat_map(|pair| [pair.0, pair.1]).collect();
        self.tell(members.iter().map(|rank| (*rank, PeerRequest::Clock {})));
        let mut signal = self.gather(members, BARRIER, |_, reply| matches!(reply, Reply::Clock { .. }));
        let pairs = if signal.is_none() { there(self) } else { Vec::new() };
        let mut results: BTreeMap<u32, Result<PairResult, String>> = BTreeMap::new();
        let order = |to| PeerRequest::Pair(PairOrder { to, streams: setting.streams });
        let orders: BTreeMap<u32, PeerRequest> = pairs
            .into_iter()
            .filter_map(|(caller, callee)| Some((caller, order(self.seats.get(&callee)?.server))))
            .collect();
        let asked = orders.keys().copied().collect();
        self.tell(orders);
        signal = signal.or_else(|| {
            self.gather(asked, PLANNED + GRACE, |rank, reply| {
                let outcome = match reply {
                    Reply::Pair(found) => Ok(found),
                    Reply::Cannot { reason } => Err(reason),
                    _ => return false,
                };
                results.insert(rank, outcome);
                true
            })
        });
        for &(caller, callee) in round {
            let outcome = results.remove(&caller).unwrap_or_else(|| Err(self.why_not(caller, callee, signal)));
            self.record(number, (caller, callee), &outcome, again);
        }
        signal
    }

    fn why_not(&self, caller: u32, callee: u32, signal: Signal) -> String {
        let out = [caller, callee].into_iter().find_map(|rank| {
            let member = &self.members[rank as usize];
            Some(format!("{} is out: {}", member.node, member.out.as_ref()?))
        });
        let signal = || signal.map(|signal| format!("interrupted by {signal}"));
        out.or_else(signal).unwrap_or_else(|| "not measured".to_owned())
    }

    fn tell(&mut self, requests: impl IntoIterator<Item = (u32, PeerRequest)>) {
        for (rank, request) in requests {
            if let Some(seat) = self.seats.get_mut(&rank) {
                // A member that cannot be reached does not answer, and that is noticed.
                let _ = seat.channel.send(&request, MESSAGE);
            }
        }
    }

    fn tell_all(&mut self, request: &PeerRequest) {
        for seat in self.seats.values_mut() {
            let _ = seat.channel.send(request, MESSAGE);
        }
    }

    /// Says now and then that rank 0 is there.
    fn still(&mut self) {
        if self.said.elapsed() > STILL {
            self.said = Instant::now();
            self.tell_all(&PeerRequest::Still {});
        }
    }

    /// Waits for an answer of each of some members. Those that are lost, or silent at the end, are out.
    fn gather(
        &mut self,
        mut awaited: BTreeSet<u32>,
        within: Duration,
        mut take: impl FnMut(u32, Reply) -> bool,
    ) -> Signal {
        let deadline = Instant::now() + within;
        while !awaited.is_empty() && Instant::now() < deadline {
            if let Some(signal) = self.interrupt.caught() {
                return Some(signal);
            }
            self.still();
            for rank in self.ready(&awaited) {
                let Some(seat) = self.seats.get_mut(&rank) else { continue };
                match seat.channel.receive(MESSAGE) {
                    Ok(reply) => {
                        if take(rank, reply) {
                            awaited.remove(&rank);
                        }
                    }
                    Err(silence) => {
                        awaited.remove(&rank);
                        self.out(rank, &silence.words());
                    }
                }
            }
        }
        for rank in awaited {
            self.out(rank, &format!("it did not answer within {:.1} s", within.as_secs_f64()));
        }
        None
    }

    /// Members of whom something has come, waiting a little for it.
    fn ready(&self, awaited: &BTreeSet<u32>) -> Vec<u32> {
        let seats: Vec<(u32, &Seated)> =
            awaited.iter().filter_map(|rank| Some((*rank, self.seats.get(rank)?))).collect();
        let mut ends: Vec<PollFd<'_>> =
            seats.iter().map(|(_, seat)| PollFd::new(seat.channel.stream().as_fd(), PollFlags::POLLIN)).collect();
        // An error is an interrupted wait.
        if poll(&mut ends, PollTimeout::from(LOOK as u16)).is_err() {
            return Vec::new();
        }
        let came = ends.iter().map(|end| end.any().unwrap_or(true));
        seats.iter().zip(came).filter(|(_, came)| *came).map(|((rank, _), _)| *rank).collect()
    }

    fn out(&mut self, rank: u32, reason: &str) {
        let member = &mut self.members[rank as usize];
        talk::line(format_args!("warning: {} (rank {rank}) is out: {reason}", member.node));
        member.out = Some(reason.to_owned());
        self.seats.remove(&rank);
    }

    fn sketch(&self, setting: &LeadSetting, planned: &[rounds::Round]) -> Mesh {
        let seat = setting.member.seat;
        Mesh {
            format: FORMAT.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: String::new(),
            seconds: 0.0,
            plan: MeshPlan {
                size: seat.size,
                mode: if setting.alone { MeshMode::Alone } else { MeshMode::Together },
                rounds: if setting.alone {
                    rounds::rounds(seat.size, setting.rounds, setting.seed).len()
                } else {
                    planned.len()
                } as u32,
                seed: setting.seed,
                streams: setting.streams,
                most_bytes_per_second: setting.member.rate,
                network: setting.member.network.as_ref().map(networks::NetworkChoice::text),
            },
            engine: Engine::here(),
            verdict: MeshVerdict::Incomplete,
            findings: Vec::new(),
            undecided: Vec::new(),
            warnings: self.warnings(),
            typical: None,
            members: self.members.clone(),
            uplinks: Vec::new(),
            pairs: self.pairs.clone(),
        }
    }

    fn written(&self, setting: &LeadSetting, planned: &[rounds::Round], started: String, began: Instant) -> Mesh {
        let seconds = (began.elapsed().as_secs_f64() * 10.0).round() / 10.0;
        let mut mesh = Mesh { started, seconds, ..self.sketch(setting, planned) };
        mesh::judge(&mut mesh);
        mesh
    }

    /// Networks that the nodes also have, each with its nodes.
    fn warnings(&self) -> Vec<String> {
        let mut networks: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
        for member in &self.members {
            let Some(used) = &member.link else { continue };
            for other in &member.others {
                let speed =
                    other.bits_per_second.map_or_else(String::new, |bits| format!(", {} Gbit/s", bits as f64 / 1e9));
                let key = (
                    format!("{} ({})", used.network(), used.interface),
                    format!("{} ({}{speed})", other.network(), other.interface),
                );
                networks.entry(key).or_default().push(&member.node);
            }
        }
        let words = |((used, other), nodes): ((String, String), Vec<&str>)| {
            format!("the mesh uses {used}. {} also have {other}. Choose with --network", fold(nodes))
        };
        networks.into_iter().map(words).collect()
    }
}
