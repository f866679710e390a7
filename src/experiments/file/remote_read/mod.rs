//! # Question
//!
//! How long does a read of a file on another machine take, from that machine's memory and from its disk? Which part of
//! that time is the network?
//!
//! # Method
//!
//! sysdyno times single reads of a file on another machine: one read and the check of its bytes, between two clock
//! reads. No read-ahead is active on this machine, and the reads bypass its page cache. Reads with **server=warm** come
//! from the server's memory. Reads with **server=cold** cover parts that no launch of this run has read. A run takes
//! each path (**via**) that you name:
//!
//! - **mount** (`--remote-dir`): the launch writes a file through the mount, removes its name at once, and reads it
//!   with O_DIRECT. A directory on a local file system is refused.
//! - **nfs** (`--nfs`): sysdyno reads an existing file over NFS version 3 from user space. It mounts and writes
//!   nothing, and this machine has no cache in the path.
//! - **peer** (`--peer`): the same protocol. The peer writes an unlinked file of random bytes and serves it to this
//!   session only.
//!
//! Reads are random or sequential, of 4 KiB to 1 MiB. Warm reads stay within the first 4 MiB of the file, which sysdyno
//! reads beforehand. Their result is the median. Before cold reads the peer drops its file from its page cache and
//! reports what remains. Another server does not report its cache, so cold there means only a first touch. The server
//! reads ahead of sequential cold reads, so their result is the mean.
//!
//! Every block of a file that sysdyno or the peer writes carries a stamp, which each read compares. In another server's
//! file sysdyno refuses a block of zeros, because it could be a hole.
//!
//! The **penalty** is the remote median (from the server's memory) minus the median of local reads. Local reads have
//! the same size and order and hit this machine's page cache. They alternate with the remote reads and with empty
//! exchanges with the server.
//!
//! A line through the medians over sizes gives two results. Each point has the inverse square of its time as weight.
//! The **intercept** is the fixed cost of a read and is compared with the round trip. The result **per_byte** is the
//! cost of each byte. It is compared with the inverse of the rate that the same launch measures with several reads in
//! flight (peer: with a plain flow).
//!
//! # Prediction
//!
//! The sum of four parts: a round trip for each call, the bytes at the rate of the path, the server's software, local
//! copies. Cold reads add a read of the other machine's disk. Round trip and rate are results of this run where it
//! measured the path. Otherwise they come from what the interfaces claim.
//!
//! # What could fool us
//!
//! - **Caches.** A read that hits this machine's page cache is a local read. O_DIRECT bypasses that cache. A file
//!   system that refuses O_DIRECT is not measured.
//! - **Unequal comparisons.** A large remote block minus a small local one is not the network's penalty (G36). Neither
//!   is a cold remote read minus a warm local one.
//! - **Mount options.** `sync` applies to writes, `noac` and `actimeo` to attributes. None of them disables data
//!   caching.
//! - **Read-ahead.** A sequential pass through a mount measures the read-ahead, up to the rate of the path. Only a read
//!   that the program waits for shows the cost of one read.
//! - **Slow start.** A long read over a distant path takes several round trips until the sender's window is open.
//! - **The server's memory.** It holds a file that was just written. A first touch on another server is not always
//!   cold.
//! - A server in user space, such as the peer, answers later than one in the kernel. Its share is reported.
//!
//! # References
//!
//! RFC 1813 (NFS version 3), RFC 5531 (ONC RPC). nfs(5), open(2) on O_DIRECT, proc_pid_mountstats(5).

mod explain;
mod judge;
mod measure;
mod predict;
mod sources;

use crate::experiments::network::{quantile_of_shots, round_trip};
use crate::experiments::no_caveats;
use crate::experiments::prelude::*;
use crate::results::peer::Peer;
use crate::results::remote::{NfsFile, Remote, RemoteDirectory};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "file.remote_read",
    title: "Remote file read",
    measures: "reads of a file on another machine (its memory, its disk), and the network's share",
    words: &["nfs", "sshfs"],
    method_version: 1,
    precision: Precision::OF_DEVICES,
    source: heading!("mod.rs"),
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
            "remote read minus a read from this machine's cache, both sides warm",
        )
        .in_summary_where(|labels| is_smallest(labels) && labels.get("order") == Some(RANDOM)),
        Publication::state("file.remote_read.intercept", Unit::Nanoseconds, "fixed cost of a read"),
        Publication::state("file.remote_read.per_byte", Unit::Nanoseconds, "cost of each byte of a read"),
    ],
    seconds: |setup| 0.1 + 1.6 * f64::from(setup.remote_ways),
    time_out: 120.0,
    memory: |_, _| 32 << 20,
    predict: predict::predict,
    measure: measure::measure,
    figures: judge::figures,
    explain: explain::explain,
    ..Experiment::DEFAULT
};

/// A file on another machine, or a machine that lends one.
const NAMED: Need = Need {
    id: "remote_file",
    what: "a file on another machine",
    check: |setup| {
        if setup.remote_ways > 0 {
            return Ok(());
        }
        Err(Problem::new("you named no file on another machine")
            .hint("give --remote-dir DIR, --nfs nfs://HOST/path, or --peer HOST:PORT with a `sysdyno peer` there"))
    },
    caveats: no_caveats,
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
        RemoteAccess::Peer(peer) => round_trip(study.known, peer).map(|(time, _)| (time, "a TCP round trip")),
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
