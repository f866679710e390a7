//! The connections of a launch: one after the other, each from its beginning to its end.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use socket2::{SockAddr, Socket};

use super::exchanges::{handshake_timed_out, to_connect};
use super::{
    OTHER_CPU, SAME_CPU, Watch, nobody_accepts, on_loopback, other_cpu, partner_elsewhere, record_counters,
    remark_placement,
};
use crate::experiments::prelude::*;
use crate::peer::client::Partner;
use crate::rig::shots::Looked;
use crate::sys::socket;
use crate::sys::tcp_counters::{ephemeral_ports, tcp_counters, time_wait};

/// Connections in a row that no process accepts before that is the result.
const UNACCEPTED_IN_A_ROW: u32 = 3;
/// Time for the remote connections of a launch.
const REMOTE_NANOSECONDS: f64 = 2.0e9;
/// Connections that find out how long the path is.
const PILOT: u32 = 2;
/// The metric of connections.
pub(super) const TIME: &str = "network.connection.time";
/// Share of the range of ports that may be held (G30).
pub(super) const PORT_SHARE: f64 = 0.1;

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CloseMode {
    Close,
    Orderly,
    Abort,
}

impl CloseMode {
    pub(super) fn phase(self) -> &'static str {
        match self {
            CloseMode::Close => "close",
            CloseMode::Orderly => "teardown",
            CloseMode::Abort => "abort",
        }
    }
}

/// Where connections go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConnectionPath {
    pub ipv6: bool,
    /// None on a remote path.
    pub placement: Option<&'static str>,
}

impl ConnectionPath {
    pub(super) fn labels(self, phase: &str) -> Labels {
        self.all_phases().with("phase", phase)
    }

    /// Labels that all its phases have in common.
    pub(super) fn all_phases(self) -> Labels {
        let path = if self.placement.is_some() { "loopback" } else { "remote" };
        let labels = Labels::of([("path", path), ("ip", if self.ipv6 { "6" } else { "4" })]);
        self.placement.map_or(labels.clone(), |placement| labels.with("placement", placement))
    }
}

pub(super) const LOOPBACK_PATHS: [ConnectionPath; 3] = [
    ConnectionPath { ipv6: false, placement: Some(SAME_CPU) },
    ConnectionPath { ipv6: false, placement: Some(OTHER_CPU) },
    ConnectionPath { ipv6: true, placement: Some(OTHER_CPU) },
];

/// Times of one path in a launch, phase by phase.
#[derive(Default)]
struct Times {
    phases: Vec<(&'static str, Looked)>,
    /// Handshakes in which a SYN was sent again.
    repeated: Vec<f64>,
    residences: Vec<f64>,
}

impl Times {
    fn add(&mut self, phase: &'static str, value: f64) {
        match self.phases.iter_mut().find(|(name, _)| *name == phase) {
            Some((_, looked)) => looked.values.push(value),
            None => self.phases.push((phase, Looked { values: vec![value], widths: Vec::new() })),
        }
    }

    /// The width of the core before and after what was added since the last call.
    fn saw(&mut self, widths: [f64; 2]) {
        for (_, looked) in &mut self.phases {
            looked.saw(widths);
        }
    }
}

pub(super) fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let access = rig.setup().access.as_ref();
    let (before, waiting) = (tcp_counters(), time_wait());
    let range = ephemeral_ports().unwrap_or(0) as f64;
    let count = rig.batches();
    let room = waiting.is_none_or(|waiting| waiting as f64 + f64::from(6 * holding(count)) <= PORT_SHARE * range);
    if !room {
        for end in [CloseMode::Close, CloseMode::Orderly] {
            let reason = "connections in TIME_WAIT already hold a tenth of the port range";
            rig.unavailable(TIME, &Labels::of([("phase", end.phase())]), &reason);
        }
    }
    let ends: &[CloseMode] =
        if room { &[CloseMode::Abort, CloseMode::Orderly, CloseMode::Close] } else { &[CloseMode::Abort] };
    on_loopback(rig, TIME, |rig| measure_loopback(rig, ends, count))?;
    let held = [waiting, time_wait()].map(|found| found.unwrap_or(0) as f64);
    rig.record("ports", Labels::none(), Unit::One, vec![held[0], held[1], range])?;
    if let Some(mut partner) = partner_elsewhere(access)? {
        measure_remote(rig, &mut partner, ends, count)?;
    }
    record_counters(rig, before)
}

fn measure_loopback(rig: &mut Rig<'_>, ends: &[CloseMode], count: u32) -> Result<(), Problem> {
    let other = other_cpu(rig.setup());
    remark_placement(rig, TIME, other);
    for (cpu, placement) in [(Some(rig.setup().cpu), SAME_CPU), (other, OTHER_CPU)] {
        let Some(cpu) = cpu else { continue };
        let mut partner = Partner::on_loopback(Some(cpu), &[])?;
        let watch = (placement == OTHER_CPU).then(Watch::start);
        for path in LOOPBACK_PATHS.into_iter().filter(|path| path.placement == Some(placement)) {
            let ends = if path.ipv6 { &[CloseMode::Abort] } else { ends };
            if let Err(problem) = connect_all(rig, &mut partner, path, ends, count) {
                rig.unavailable_for(TIME, &path.all_phases(), &problem);
                // A partner that was left in the middle of its work is of no more use.
                partner = Partner::on_loopback(Some(cpu), &[])?;
            }
        }
        if let Some(watch) = watch {
            watch.record(rig)?;
        }
    }
    Ok(())
}

fn measure_remote(rig: &mut Rig<'_>, partner: &mut Partner, ends: &[CloseMode], most: u32) -> Result<(), Problem> {
    let path = ConnectionPath { ipv6: partner.is_ipv6(), placement: None };
    let began = crate::sys::clock::monotonic_raw();
    connections(rig, partner, path, ends, PILOT)?;
    let each = (crate::sys::clock::monotonic_raw() - began) as f64 / f64::from(PILOT) / ends.len() as f64;
    let count = (REMOTE_NANOSECONDS / (each * ends.len() as f64).max(1.0)) as u32;
    connect_all(rig, partner, path, ends, count.clamp(2, most))
}

/// Makes `count` connections for each end and records their times.
fn connect_all(
    rig: &mut Rig<'_>,
    partner: &mut Partner,
    path: ConnectionPath,
    ends: &[CloseMode],
    count: u32,
) -> Result<(), Problem> {
    let times = connections(rig, partner, path, ends, count)?;
    for (phase, looked) in times.phases {
        rig.record_looked("connection", path.labels(phase), Unit::Ticks, looked)?;
    }
    rig.record("repeated", path.labels("setup"), Unit::Ticks, times.repeated)?;
    rig.record("residence", path.labels("teardown"), Unit::Nanoseconds, times.residences)
}

/// Connections of each kind that hold a port afterwards: fewer, because a run has many launches and a port is held long.
fn holding(count: u32) -> u32 {
    (count / 3).max(2)
}

fn connections(
    rig: &mut Rig<'_>,
    partner: &mut Partner,
    path: ConnectionPath,
    ends: &[CloseMode],
    count: u32,
) -> Result<Times, Problem> {
    let times = |end: &CloseMode| if *end == CloseMode::Abort { count } else { holding(count) };
    let mut order: Vec<CloseMode> =
        ends.iter().flat_map(|end| std::iter::repeat_n(*end, times(end) as usize)).collect();
    rig.random().shuffle(&mut order);
    let port = partner.accept(path.ipv6, order.len() as u32)?;
    let to = SocketAddr::new(partner.address(path.ipv6), port);
    let mut times = Times::default();
    let mut unaccepted = 0;
    let before = tcp_counters();
    for (number, end) in order.into_iter().enumerate() {
        if one(rig, partner, path, to, end, number as u32, &mut times)? {
            unaccepted = 0;
        } else {
            unaccepted += 1;
            if unaccepted >= UNACCEPTED_IN_A_ROW {
                return Err(nobody_accepts(to, unaccepted, before));
            }
        }
    }
    let counters = partner.accepted()?;
    if path.placement.is_none() {
        for (name, value) in counters {
            rig.record("peer.counter", Labels::of([("name", &name)]), Unit::One, vec![value as f64])?;
        }
    }
    Ok(times)
}

/// One connection from its beginning to its end. False when no process answered on it.
fn one(
    rig: &mut Rig<'_>,
    partner: &mut Partner,
    path: ConnectionPath,
    to: SocketAddr,
    end: CloseMode,
    number: u32,
    times: &mut Times,
) -> Result<bool, Problem> {
    let cannot = |error: io::Error| Problem::new(format!("cannot prepare a connection: {error}"));
    let spread = (path.placement.is_some() && !path.ipv6).then_some(number);
    let socket = to_connect(path.ipv6, spread).map_err(cannot)?;
    let address = SockAddr::from(to);
    // What the path costs elsewhere has nothing to do with this core.
    let is_local = path.placement.is_some();
    let before = if is_local { rig.width() } else { 0.0 };
    let (setup, connected) = rig.timed(|| socket.connect(&address));
    match connected {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            return Err(Problem::new(format!("the connection to {to} was refused because no process listens there")));
        }
        // Its SYN was dropped again and again: the queue of the listener is full.
        Err(error) if handshake_timed_out(&error) => {
            return Ok(false);
        }
        Err(error) => return Err(Problem::new(format!("cannot connect to {to}: {error}"))),
    }
    let info = socket::tcp_info(socket.as_fd()).map_err(cannot)?;
    let (answer, answered) = rig.timed(|| {
        let mut byte = [7];
        socket::write_all(socket.as_fd(), &byte).and_then(|()| socket::read_all(socket.as_fd(), &mut byte))
    });
    match answered {
        Ok(()) => {}
        Err(error) if socket::timed_out(&error) => return Ok(false),
        Err(error) => return Err(Problem::new(format!("a new connection failed: {error}"))),
    }
    if info.retransmissions > 0 {
        times.repeated.push(setup);
    } else {
        times.add("setup", setup);
        times.add("first_byte", setup + answer);
    }
    let closing = Instant::now();
    finish(rig, socket, end, times)?;
    if is_local {
        times.saw([before, rig.width()]);
    }
    let (residence, _) = partner.closed(closing)?;
    if end == CloseMode::Orderly {
        times.residences.push(residence as f64);
    }
    Ok(true)
}

/// Ends a connection and times that.
fn finish(rig: &mut Rig<'_>, socket: Socket, end: CloseMode, times: &mut Times) -> Result<(), Problem> {
    let broke = |error: io::Error| Problem::new(format!("cannot end a connection: {error}"));
    match end {
        CloseMode::Close => {
            let (time, ()) = rig.timed(|| drop(socket));
            times.add(end.phase(), time);
        }
        CloseMode::Abort => {
            socket.set_linger(Some(Duration::ZERO)).map_err(broke)?;
            let (time, ()) = rig.timed(|| drop(socket));
            times.add(end.phase(), time);
        }
        CloseMode::Orderly => {
            let (time, ended) = rig.timed(|| {
                socket.shutdown(Shutdown::Write)?;
                socket::answered(socket::read(socket.as_fd(), &mut [0]))
            });
            match ended.map_err(broke)? {
                0 => times.add(end.phase(), time),
                _ => return Err(Problem::new("bytes arrived after the end of a connection")),
            }
        }
    }
    Ok(())
}
