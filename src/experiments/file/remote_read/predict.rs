//! What a read from another machine should take: round trips, bytes at the rate of the path, software on both sides, and the
//! other machine's disk where it has to be asked.

use super::{COLD_SIZES, ORDERS, Prediction, RemoteAccess, SIZES, labels, ways};
use crate::experiments::constants::{
    COPY_BYTE, DISK_READ_UNKNOWN, LINK_CROSSING, PATH_BEYOND_LINK, RADIO_CROSSING, disk_read,
};
use crate::experiments::network::{remote_rate, round_trip};
use crate::experiments::prelude::*;
use crate::machine::InterfaceKind;

pub(super) fn predict_labels(via: &str) -> Vec<(Labels, u32)> {
    let kinds = |sizes: &'static [u32], server: &'static str| {
        ORDERS.into_iter().flat_map(move |order| sizes.iter().map(move |&bytes| (order, bytes, server)))
    };
    kinds(&SIZES, "warm")
        .chain(kinds(&COLD_SIZES, "cold"))
        .map(|(order, bytes, server)| (labels(via, order, bytes, server), bytes))
        .collect()
}

constants! {
    /// What a server does for one read, in addition to the disk.
    SERVER_READ = 35_000.0 in 5_000.0 ..= 150_000.0 "ns", "20–50 µs: a wake-up, the parsing of a call, a file lookup, \
                                                           an answer. More in user space";
    /// A program between a file system and the network (FUSE), both ways.
    PROGRAM_BETWEEN = 80_000.0 in 15_000.0 ..= 400_000.0 "ns", "Vangoor et al., FAST 2017: two handoffs to the program \
                                                                and two back, and the program's own work";
    /// Encrypting a byte and decrypting it again.
    CIPHER_BYTE = 2.0 in 0.5 ..= 8.0 "ns", "openssl speed: AES-GCM 1–5 GB/s, ChaCha20-Poly1305 0.5–2 GB/s, and the copies of ssh";
    /// One byte on a path of which nothing is known.
    BYTE_ON_PATH = 8.5 in 0.1 ..= 800.0 "ns", "1 Gbit/s carries 117 MB/s. Range: 10 Mbit/s to 100 Gbit/s";
    /// One byte read from a disk, where reads are long.
    STORED_BYTE = 2.0 in 0.1 ..= 15.0 "ns", "data sheets: 7 GB/s of NVMe, 0.5 GB/s of SATA, 70–250 MB/s of rotating \
                                             disks";
}

/// Passes over every byte on this side: out of the kernel, and through the client library's buffers.
const PASSES: f64 = 4.0;

/// A number with its range and where it is from.
type Known = ((f64, f64, f64), Basis);

/// What is known of a way.
struct PathCosts {
    round_trip: Known,
    byte: Known,
    /// Longest read that is one call.
    longest: u32,
}

pub(super) fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let mut predictions = Vec::new();
    for way in ways(by.setup.peer.as_ref(), by.setup.remote.as_ref()) {
        let path = PathCosts::known(by, way);
        let via = way.via();
        for (labels, bytes) in predict_labels(via) {
            let cold = labels.get("server") == Some("cold");
            let ahead = labels.get("order") == Some(super::SEQUENTIAL);
            if cold && via == "mount" {
                continue;
            }
            let prediction = Prediction::of("file.remote_read.block_time", labels, Unit::Nanoseconds);
            let prediction = path.read(way, f64::from(bytes), prediction);
            predictions.push(if cold { stored(way, f64::from(bytes), ahead, prediction) } else { prediction });
        }
        for order in ORDERS {
            let of = Labels::of([("via", via), ("order", order)]);
            for bytes in SIZES {
                let labels = of.clone().with("bytes", bytes);
                let prediction = Prediction::of("file.remote_read.network_penalty", labels, Unit::Nanoseconds);
                predictions.push(path.read(way, f64::from(bytes), prediction));
            }
            let intercept = Prediction::of("file.remote_read.intercept", of.clone(), Unit::Nanoseconds);
            predictions.push(path.call(way, 1.0, intercept));
            let per_byte = Prediction::of("file.remote_read.per_byte", of, Unit::Nanoseconds);
            predictions.push(path.bytes(way, 1.0, per_byte));
        }
    }
    predictions
}

impl PathCosts {
    fn known(by: &PredictionInput<'_>, way: RemoteAccess<'_>) -> Self {
        let (interface, on_link, longest) = match way {
            RemoteAccess::Peer(peer) => (peer.interface.as_deref(), peer.on_link, 1 << 20),
            RemoteAccess::Nfs(file) => (file.interface.as_deref(), file.on_link, file.longest_read),
            RemoteAccess::Mount(mount) => (None, false, longest_of(&mount.options)),
        };
        let facts = interface.and_then(|name| by.setup.machine.network.iter().find(|found| found.name == name));
        let rate = facts.and_then(|found| found.bits_per_second);
        let radio = facts.is_some_and(|found| found.kind == InterfaceKind::Wireless);
        let measured = match way {
            RemoteAccess::Peer(peer) => (round_trip(by.known, peer), remote_rate(by.known)),
            _ => (None, None),
        };
        let round_trip = measured.0.map_or_else(
            || {
                let crossing = if radio { RADIO_CROSSING } else { LINK_CROSSING };
                let distance = PATH_BEYOND_LINK.times(1.0);
                let (value, low, high) = crossing.times(2.0);
                if on_link {
                    ((value, low, high), crossing.basis())
                } else {
                    ((value + distance.0, low + distance.1, high + distance.2), PATH_BEYOND_LINK.basis())
                }
            },
            |(time, name)| ((time, 0.7 * time, 1.8 * time), Basis::metric(&name)),
        );
        let byte = match (measured.1, rate) {
            (Some((rate, name)), _) => {
                let each = 1e9 / rate;
                ((each, 0.6 * each, 2.0 * each), Basis::metric(&name))
            }
            (None, Some(rate)) => {
                let each = 8e9 / rate as f64;
                ((each, 0.9 * each, 6.0 * each), Basis::machine("link rate in /sys/class/net"))
            }
            _ => (BYTE_ON_PATH.times(1.0), BYTE_ON_PATH.basis()),
        };
        PathCosts { round_trip, byte, longest: longest.max(4096) }
    }

    /// What each call takes, however few its bytes.
    fn call(&self, way: RemoteAccess<'_>, calls: f64, prediction: Prediction) -> Prediction {
        let (range, basis) = &self.round_trip;
        let prediction = prediction
            .hardware("a round trip for each call", times(*range, calls), basis.clone())
            .software("the server's work for each call", SERVER_READ.times(calls), SERVER_READ.basis());
        if through_program(way) {
            prediction.software("the file system's program", PROGRAM_BETWEEN.times(calls), PROGRAM_BETWEEN.basis())
        } else {
            prediction
        }
    }

    /// What bytes add.
    fn bytes(&self, way: RemoteAccess<'_>, bytes: f64, prediction: Prediction) -> Prediction {
        let (range, basis) = &self.byte;
        let prediction = prediction.hardware("the bytes on the path", times(*range, bytes), basis.clone()).software(
            "copies on this side",
            COPY_BYTE.times(PASSES * bytes),
            COPY_BYTE.basis(),
        );
        if matches!(way, RemoteAccess::Mount(mount) if mount.file_system == "fuse.sshfs") {
            prediction.software("encryption on both sides", CIPHER_BYTE.times(bytes), CIPHER_BYTE.basis())
        } else {
            prediction
        }
    }

    fn read(&self, way: RemoteAccess<'_>, bytes: f64, prediction: Prediction) -> Prediction {
        let calls = (bytes / f64::from(self.longest)).ceil();
        self.bytes(way, bytes, self.call(way, calls, prediction))
    }
}

/// The longest read of a mount that is one call, by its options.
fn longest_of(options: &str) -> u32 {
    let stated = options.split(',').find_map(|option| {
        ["rsize=", "max_read="].iter().find_map(|name| option.strip_prefix(name)?.parse::<u32>().ok())
    });
    stated.unwrap_or(128 << 10)
}

fn through_program(way: RemoteAccess<'_>) -> bool {
    matches!(way, RemoteAccess::Mount(mount) if mount.file_system.starts_with("fuse"))
}

/// The other machine's disk: its own where it is known, and perhaps its memory where it is not.
fn stored(way: RemoteAccess<'_>, bytes: f64, ahead: bool, prediction: Prediction) -> Prediction {
    let device = match way {
        RemoteAccess::Peer(peer) => disk_read(&peer.machine),
        _ => None,
    };
    let known = device.is_some();
    let device = device.unwrap_or(DISK_READ_UNKNOWN);
    let (value, low, high) = device.times(1.0);
    // Read ahead, several reads share one wait for the disk. It is not known what a stranger's server has in memory.
    let low = if ahead || !known { 0.0 } else { low };
    let byte = STORED_BYTE.times(bytes);
    prediction
        .hardware("the other machine's disk", (if ahead { value / 4.0 } else { value }, low, high), device.basis())
        .hardware("the bytes from its disk", (byte.0, if known { byte.1 } else { 0.0 }, byte.2), STORED_BYTE.basis())
}

fn times(range: (f64, f64, f64), count: f64) -> (f64, f64, f64) {
    (range.0 * count, range.1 * count, range.2 * count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_read_of_a_mount_is_in_its_options() {
        assert_eq!(longest_of("rw,vers=4.2,rsize=1048576,wsize=262144"), 1 << 20);
        assert_eq!(longest_of("rw,user_id=0,max_read=65536"), 65536);
        assert_eq!(longest_of("rw,relatime"), 128 << 10);
    }
}
