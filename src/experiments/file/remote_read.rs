//! # Question
//!
//! What does a read of a file on another machine take, from that machine's memory and from its disk, and which part of it is
//! the network?
//!
//! # Method
//!
//! Between the two clock reads lie one read and the check of its bytes: one at a time, nothing read ahead, past the cache of
//! this machine. There are three ways (**via**); a run takes those that it is given:
//!
//! - **mount** (`--remote-dir`): a file that the launch writes through the mount, whose name it removes at once, is read with
//!   O_DIRECT. A directory on a local file system is refused.
//! - **nfs** (`--nfs`): a file that is there is read over NFS version 3 from user space. Nothing is mounted or written, and no
//!   cache of this machine is in between.
//! - **peer** (`--peer`): the same from a nameless file of random bytes that the peer writes and serves for this session alone.
//!
//! Reads are random or sequential, of 4 KiB to 1 MiB. **server=warm**: within the first 4 MiB of the file, which are read
//! before; the figure is the median. **server=cold**: parts that no launch of this run has read. The peer drops its file
//! from its page cache first and says what is left; of another server nobody here knows what it has in memory, so cold
//! means no more than first touch there. Sequential cold reads are served ahead by the other machine: their figure is the
//! mean. Every block carries a stamp, which is compared; in a file of somebody else a block of zeros is refused, because a
//! hole would be one.
//!
//! The **penalty** is the median from the other machine's memory less the median of reads of the same size and order from
//! this machine's page cache, taken in the same turns. So are empty exchanges with the server. A line through the medians
//! over sizes, each point weighted by its own size, gives what a read costs however small (**intercept**) and what each
//! byte adds (**per_byte**). The first stands beside the round trip, the second beside the inverse of the rate that the
//! same launch sees with several reads under way (peer: with a plain flow).
//!
//! # Prediction
//!
//! A round trip for each call that a read takes, the bytes at the rate of the path, the server's software, and the copies
//! on this side. Cold reads add a read of the other machine's disk. Round trip and rate are this run's figures where it
//! measured the path, else what interfaces say.
//!
//! # What could fool us
//!
//! - **Caches.** A read through the page cache of this machine is a local read. O_DIRECT goes past it; a file system that
//!   refuses O_DIRECT is not measured.
//! - **Unlike things compared.** A large remote block less a small local one, or a cold remote read less a warm local one, is
//!   not the network's penalty (G36).
//! - **Mount options.** `sync` is about writes, `noac` and `actimeo` about attributes; none of them turns data caching off.
//! - **Read-ahead.** A sequential pass through a mount measures how much is read ahead, up to the rate of the path. What
//!   one read costs shows only when it is waited for.
//! - **A slow start.** A long read over a distant path takes several round trips until the sender's window is open.
//! - **The server's memory.** A file that was just written is in it; a first touch elsewhere need not be cold.
//! - A server in user space, as the peer is, answers later than one in the kernel; its own share is reported.
//!
//! # References
//!
//! RFC 1813 (NFS version 3), RFC 5531 (ONC RPC); nfs(5), open(2) on O_DIRECT, proc_pid_mountstats(5).

mod expectation;
mod judgement;
mod measuring;
mod sources;

use std::path::{Path, PathBuf};

use crate::evaluate::findings::Findings;
use crate::evaluate::study::Study;
use crate::experiments::network::partner_elsewhere;
use crate::experiments::{Experiment, Nature, Need, Publication};
use crate::machine::Medium;
use crate::machine::mountstats::{self, Reads};
use crate::peer::client::Partner;
use crate::peer::nfs::{Place, Reader};
use crate::results::peer::Peer;
use crate::results::prediction::Prediction;
use crate::results::quantity::{Labels, Unit};
use crate::results::remote::{NfsFile, Remote, RemoteDirectory};
use crate::results::trouble::Trouble;
use crate::rig::Rig;
use measuring::{AT_ONCE, Piece};
use sources::{GROUP, GROUPS, Local, Mounted, Nfs, Proof, SLOT, Source, WARM_SLOTS};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "file.remote_read",
    title: "Remote file read",
    measures: "reads of a file on another machine, from its memory and its disk, and the network's part",
    method_version: 1,
    source: include_str!("remote_read.rs"),
    needs: &[NAMED],
    uses: &["network.round_trip.time", "network.bandwidth.rate"],
    rules: judgement::RULES,
    constants: expectation::CONSTANTS,
    publishes: &[
        Publication {
            metric: "file.remote_read.block_time",
            unit: Unit::Nanoseconds,
            meaning: "one read of a file on another machine",
            nature: Nature::State,
            headline: |labels| is_smallest(labels) && labels.get("order") == Some(RANDOM),
        },
        Publication {
            metric: "file.remote_read.network_penalty",
            unit: Unit::Nanoseconds,
            meaning: "what it takes more than a read of this machine's cache, both sides warm",
            nature: Nature::State,
            headline: |labels| is_smallest(labels) && labels.get("order") == Some(RANDOM),
        },
        Publication {
            metric: "file.remote_read.intercept",
            unit: Unit::Nanoseconds,
            meaning: "what a read takes however small it is",
            nature: Nature::State,
            headline: crate::experiments::never,
        },
        Publication {
            metric: "file.remote_read.per_byte",
            unit: Unit::Nanoseconds,
            meaning: "what each byte of a read adds",
            nature: Nature::State,
            headline: crate::experiments::never,
        },
    ],
    every: |_| 4,
    seconds: |setup| 0.1 + 1.6 * f64::from(setup.remote_ways),
    time_out: 120.0,
    memory: |_| 32 << 20,
    predict: expectation::predict,
    measure,
    figures,
    explain: judgement::explain,
};

/// A file on another machine, or a machine that lends one.
const NAMED: Need = Need {
    id: "remote_file",
    what: "a file on another machine",
    check: |setup| {
        if setup.remote_ways > 0 {
            return Ok(());
        }
        Err(Trouble::new("no file on another machine is named")
            .hint("give --remote-dir DIR, --nfs nfs://HOST/path, or --peer HOST:PORT with a `sysdyno peer` there"))
    },
};

const TIME: &str = "file.remote_read.block_time";
const PENALTY: &str = "file.remote_read.network_penalty";
/// Orders of reads.
const RANDOM: &str = "random";
const SEQUENTIAL: &str = "sequential";
const ORDERS: [&str; 2] = [RANDOM, SEQUENTIAL];
/// Bytes of a read.
const SIZES: [u32; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Bytes of a cold read, from the shortest to the longest.
const COLD_SIZES: [u32; 3] = [4 << 10, 64 << 10, 1 << 20];

/// Whether a figure is one of the shortest reads.
fn is_smallest(labels: &Labels) -> bool {
    labels.get("bytes") == Some("4096")
}

/// A way to files on another machine.
#[derive(Debug, Clone, Copy)]
enum Way<'a> {
    Mount(&'a RemoteDirectory),
    Nfs(&'a NfsFile),
    Peer(&'a Peer),
}

impl Way<'_> {
    /// The value of the label.
    fn via(self) -> &'static str {
        match self {
            Way::Mount(_) => "mount",
            Way::Nfs(_) => "nfs",
            Way::Peer(_) => "peer",
        }
    }
}

/// The ways that a run has.
fn ways<'a>(peer: Option<&'a Peer>, remote: Option<&'a Remote>) -> Vec<Way<'a>> {
    let mount = remote.and_then(|remote| remote.directory.as_ref()).map(Way::Mount);
    let nfs = remote.and_then(|remote| remote.nfs.as_ref()).map(Way::Nfs);
    [mount, nfs, peer.map(Way::Peer)].into_iter().flatten().collect()
}

/// Labels of a kind of read: `server` is where the bytes come from.
fn labels(via: &str, order: &str, bytes: u32, server: &str) -> Labels {
    Labels::of([("via", via), ("order", order), ("server", server)]).with("bytes", bytes)
}

/// Labels of all cold reads of a way.
fn cold(via: &str) -> Labels {
    Labels::of([("via", via), ("server", "cold")])
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Trouble> {
    let remote = rig.setup().remote.clone().unwrap_or_default();
    let access = rig.setup().access.as_ref();
    let local = compared(rig);
    let mut outcomes = Vec::new();
    if let Some(directory) = &remote.directory {
        outcomes.push(("mount", measure_mount(rig, directory, local.as_ref())));
    }
    if let Some(file) = &remote.nfs {
        outcomes.push(("nfs", measure_nfs(rig, file, local.as_ref())));
    }
    if access.is_some() {
        let partner = partner_elsewhere(access);
        let outcome = partner.and_then(|partner| match partner {
            Some(partner) => measure_peer(rig, partner, local.as_ref()),
            None => Ok(()),
        });
        outcomes.push(("peer", outcome));
    }
    let none = outcomes.iter().all(|(_, outcome)| outcome.is_err());
    let mut failed = None;
    for (via, outcome) in outcomes {
        if let Err(trouble) = outcome {
            rig.unavailable(TIME, &Labels::of([("via", via)]), &trouble.what);
            failed.get_or_insert(trouble);
        }
    }
    // One way that fails leaves the others their figures.
    match failed {
        Some(trouble) if none => Err(trouble),
        _ => Ok(()),
    }
}

/// The file to compare with, in the scratch directory.
fn compared(rig: &mut Rig<'_>) -> Option<Local> {
    let scratch = rig
        .setup()
        .machine
        .scratch()
        .and_then(|storage| storage.mount.as_ref())
        .map(|mount| PathBuf::from(&mount.directory));
    let identity = rig.random().u64(..);
    let local = rig.allows_file(Local::BYTES).and_then(|()| {
        let directory = scratch.ok_or("nothing is known of the scratch directory")?;
        Local::make(&directory, identity)
    });
    local.map_err(|why| rig.unavailable(PENALTY, &Labels::none(), &why)).ok()
}

fn as_source(local: Option<&Local>) -> Option<&dyn Source> {
    local.map(|local| local as &dyn Source)
}

fn measure_mount(rig: &mut Rig<'_>, at: &RemoteDirectory, local: Option<&Local>) -> Result<(), Trouble> {
    let file = Mounted::make(Path::new(&at.directory))?;
    measuring::warm(&file)?;
    let before = mountstats::reads(&at.mount_point);
    measuring::shoot_warm(rig, "mount", &file, as_source(local), None)?;
    let after = mountstats::reads(&at.mount_point);
    if let (Some(before), Some(after)) = (before, after) {
        let Reads { calls, bytes, queued, answered, executed } = after.since(&before);
        let counts = [calls, bytes, queued, answered, executed].map(|count| count as f64);
        rig.record("client", Labels::of([("via", "mount")]), Unit::One, counts.to_vec())?;
    }
    rig.unavailable(TIME, &cold("mount"), &"the file was just written, so the other machine still has it in memory");
    let readers = (0..AT_ONCE).map(|_| file.reader().map(|read| Box::new(read) as Piece));
    let readers = readers.collect::<Result<Vec<Piece>, String>>().map_err(Trouble::new)?;
    measuring::stream(rig, "mount", readers)
}

fn measure_nfs(rig: &mut Rig<'_>, file: &NfsFile, local: Option<&Local>) -> Result<(), Trouble> {
    let server = file.server.parse().map_err(|_| Trouble::new(format!("{} is no address", file.server)))?;
    let place = Place { server, port: file.port, mount_port: file.mount_port, path: file.path.clone() };
    let reader = Reader::open(&place)?;
    let bytes = reader.bytes;
    if bytes < WARM_SLOTS * SLOT {
        let needed = WARM_SLOTS * SLOT;
        return Err(Trouble::new(format!("{} has {bytes} bytes, {needed} at least are read", file.path))
            .hint("name a larger file, best of 64 MiB and more"));
    }
    let source = Nfs::new(reader, Proof::NoHoles);
    match sources::untouched(bytes, rig.run_number(), rig.turn() as usize) {
        Some(groups) => measuring::shoot_cold(rig, "nfs", &source, &groups, |_| Ok(true))?,
        None => rig.unavailable(TIME, &cold("nfs"), &"the file has no parts left that this run has not read"),
    }
    measuring::warm(&source)?;
    measuring::shoot_warm(rig, "nfs", &source, as_source(local), Some(&source))?;
    let mut readers: Vec<Piece> = Vec::new();
    for _ in 0..AT_ONCE {
        let mut reader = Reader::open(&place)?;
        readers.push(Box::new(move |offset, bytes| reader.read(offset, bytes, |_, _| Ok(()))));
    }
    measuring::stream(rig, "nfs", readers)
}

fn measure_peer(rig: &mut Rig<'_>, mut partner: Partner, local: Option<&Local>) -> Result<(), Trouble> {
    let bytes = (WARM_SLOTS + GROUP * GROUPS as u64) * SLOT;
    let lent = partner.export(partner.is_ipv6(), bytes)?;
    let source = Nfs::new(Reader::open(&lent.place)?, Proof::Stamps(lent.identity));
    let mount = lent.storage.as_ref().and_then(|storage| storage.mount.as_ref());
    if let Some(mount) = mount {
        rig.remark("peer.file_system", &mount.file_system.value);
    }
    if mount.is_some_and(|mount| mount.medium == Medium::Memory) {
        rig.unavailable(
            TIME,
            &cold("peer"),
            &"the peer's file is in its memory: choose a disk with `sysdyno peer --scratch DIR`",
        );
    } else {
        let mut groups: Vec<u64> = (0..GROUPS as u64).map(|group| (WARM_SLOTS + group * GROUP) * SLOT).collect();
        rig.random().shuffle(&mut groups);
        let forget = |order: &str| Ok(partner.forget(order == SEQUENTIAL)? == 0);
        measuring::shoot_cold(rig, "peer", &source, &groups, forget)?;
    }
    measuring::warm(&source)?;
    measuring::shoot_warm(rig, "peer", &source, as_source(local), Some(&source))?;
    drop(source);
    let exported = partner.end_export()?;
    if let Some(residence) = exported.residence {
        rig.record("residence", Labels::of([("via", "peer")]), Unit::Nanoseconds, vec![residence as f64])?;
    }
    measuring::flow(rig, "peer", &mut partner)
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    for way in ways(study.setup.peer.as_ref(), study.setup.remote.as_ref()) {
        judgement::publish(study, findings, way);
    }
}

fn predict_labels(via: &str) -> Vec<(Labels, u32)> {
    let kinds = |sizes: &'static [u32], server: &'static str| {
        ORDERS.into_iter().flat_map(move |order| sizes.iter().map(move |&bytes| (order, bytes, server)))
    };
    kinds(&SIZES, "warm")
        .chain(kinds(&COLD_SIZES, "cold"))
        .map(|(order, bytes, server)| (labels(via, order, bytes, server), bytes))
        .collect()
}
