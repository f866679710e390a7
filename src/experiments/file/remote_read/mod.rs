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
//! over sizes, each point weighted by the inverse square of its time, gives what a read costs however small (**intercept**) and what each
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

mod explain;
mod judge;
mod measure;
mod predict;
mod sources;

use crate::evaluate::precision::Precision;
use crate::evaluate::study::Study;
use crate::experiments::network::{quantile_of_shots, round_trip};
use crate::experiments::{Experiment, Need, Publication};
use crate::results::peer::Peer;
use crate::results::prediction::Prediction;
use crate::results::problem::Problem;
use crate::results::quantity::{Labels, Unit};
use crate::results::remote::{NfsFile, Remote, RemoteDirectory};
use crate::results::wording::quantity;
use crate::statistics::summary::median;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "file.remote_read",
    title: "Remote file read",
    measures: "reads of a file on another machine, from its memory and its disk, and the network's part",
    method_version: 1,
    precision: Precision { target: 0.2, between: 0.1 },
    source: include_str!("mod.rs"),
    needs: &[NAMED],
    uses: &["network.round_trip.time", "network.bandwidth.rate"],
    rules: judge::RULES,
    constants: predict::CONSTANTS,
    publishes: &[
        Publication::state("file.remote_read.block_time", Unit::Nanoseconds, "one read of a file on another machine")
            .in_summary_where(|labels| is_smallest(labels) && labels.get("order") == Some(RANDOM)),
        Publication::state(
            "file.remote_read.network_penalty",
            Unit::Nanoseconds,
            "what it takes more than a read of this machine's cache, both sides warm",
        )
        .in_summary_where(|labels| is_smallest(labels) && labels.get("order") == Some(RANDOM)),
        Publication::state("file.remote_read.intercept", Unit::Nanoseconds, "what a read takes however small it is"),
        Publication::state("file.remote_read.per_byte", Unit::Nanoseconds, "what each byte of a read adds"),
    ],
    every: |_| 4,
    seconds: |setup| 0.1 + 1.6 * f64::from(setup.remote_ways),
    time_out: 120.0,
    memory: |_| 32 << 20,
    predict: predict::predict,
    measure: measure::measure,
    measure_first: None,
    figures: judge::figures,
    explain: explain::explain,
};

/// A file on another machine, or a machine that lends one.
const NAMED: Need = Need {
    id: "remote_file",
    what: "a file on another machine",
    check: |setup| {
        if setup.remote_ways > 0 {
            return Ok(());
        }
        Err(Problem::new("no file on another machine is named")
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
enum RemoteAccess<'a> {
    Mount(&'a RemoteDirectory),
    Nfs(&'a NfsFile),
    Peer(&'a Peer),
}

impl RemoteAccess<'_> {
    /// The value of the label.
    fn via(self) -> &'static str {
        match self {
            RemoteAccess::Mount(_) => "mount",
            RemoteAccess::Nfs(_) => "nfs",
            RemoteAccess::Peer(_) => "peer",
        }
    }
}

/// The ways that a run has.
fn ways<'a>(peer: Option<&'a Peer>, remote: Option<&'a Remote>) -> Vec<RemoteAccess<'a>> {
    let mount = remote.and_then(|remote| remote.directory.as_ref()).map(RemoteAccess::Mount);
    let nfs = remote.and_then(|remote| remote.nfs.as_ref()).map(RemoteAccess::Nfs);
    [mount, nfs, peer.map(RemoteAccess::Peer)].into_iter().flatten().collect()
}

/// Labels of a kind of read: `server` is where the bytes come from.
fn labels(via: &str, order: &str, bytes: u32, server: &str) -> Labels {
    Labels::of([("via", via), ("order", order), ("server", server)]).with("bytes", bytes)
}

/// Labels of all cold reads of a way.
fn cold(via: &str) -> Labels {
    Labels::of([("via", via), ("server", "cold")])
}

/// Median of the empty exchanges of a way, and the fastest tenth of them.
fn exchanges(study: &Study<'_>, via: &str) -> Option<(f64, f64)> {
    let estimate = quantile_of_shots(study, "read", &Labels::of([("via", via), ("what", "exchange")]), 0.5)?;
    Some((estimate.value, estimate.quantiles?.p10))
}

/// Bytes per second that the path was seen to carry.
fn carried(study: &Study<'_>, via: &str) -> Option<f64> {
    median(&study.values("carried", &Labels::of([("via", via)])))
}

/// The round trip that a call is compared with, in words: of TCP where this run has it, else of the empty exchange.
fn trip(study: &Study<'_>, way: RemoteAccess<'_>) -> Option<(f64, &'static str)> {
    let tcp = match way {
        RemoteAccess::Peer(peer) => round_trip(study.known, peer).map(|(time, _)| (time, "a round trip of TCP")),
        _ => None,
    };
    tcp.or_else(|| exchanges(study, way.via()).map(|(time, _)| (time, "an empty exchange with the server")))
}

fn time(nanoseconds: f64) -> String {
    quantity(nanoseconds, Unit::Nanoseconds)
}

/// The median of one series in each launch, in nanoseconds.
fn medians(study: &Study<'_>, of: &Labels) -> Vec<(u32, f64)> {
    let series = study.numbered_series("read", of);
    series.into_iter().filter_map(|(launch, found)| Some((launch, study.nanoseconds(median(&found.values)?)))).collect()
}
