//! Known truth for reads of files on another machine: real servers behind paths whose delay and rate a test makes. A read
//! that waits for its answer takes as much longer as the path does, and a long one as much as its bytes at the rate. What the
//! relay notes of each packet and what the token bucket counts is the truth, not what they were asked to do.
//!
//! The servers are nfs-ganesha, a real sshd under sshfs, and the program as a peer; they run in network namespaces that are
//! removed again. Needs root.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use crate::support::namespaces::{FAR, Namespaces, Passed, Relay, Serving, must, off_the_measured_cpu};
use crate::support::runs::{PROGRAM, ended, measuring, of_others, output, result, text, told};
use crate::support::servers::{Daemon, NFS_PORT, ganesha, listens};
use crate::support::tap::{Exchange, Tap, answered};
use crate::support::truth::{self, Found, Judgement};
use serde_json::Value;

/// Port of the server that sshfs reaches.
const SSH_PORT: u16 = 2222;

/// Runs the experiment in the near namespace.
fn run(namespaces: &Namespaces, words: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("run");
    let fixed = ["run", "file.remote_read", "--quick", "--time", "17s", "--no-progress", "-o", place.to_str().unwrap()];
    let output = Namespaces::command(&namespaces.near, PROGRAM, &[&fixed[..], words].concat()).output().unwrap();
    assert!(ended(&output), "{}", told(&output));
    result(&place)
}

fn with_peer(peer: &Serving) -> [&str; 4] {
    ["--peer", &peer.address, "--peer-secret", &peer.secret]
}

/// Milliseconds of a figure that the tool trusts.
fn milliseconds(result: &Value, metric: &str, wanted: &[(&str, &str)]) -> Result<Found, Judgement> {
    truth::trusted(result, metric, wanted).map(|found| Found::of(found, 1e-6))
}

/// Milliseconds of a random read from memory.
fn random_read(result: &Value, via: &str, bytes: u32) -> Result<Found, Judgement> {
    let bytes = bytes.to_string();
    let wanted = [("via", via), ("order", "random"), ("server", "warm"), ("bytes", &bytes)];
    milliseconds(result, "file.remote_read.block_time", &wanted)
}

/// What a random read of 4 KiB takes more than one of a local file, in milliseconds.
fn penalty(result: &Value, via: &str) -> Result<Found, Judgement> {
    let wanted = [("via", via), ("order", "random"), ("bytes", "4096")];
    milliseconds(result, "file.remote_read.network_penalty", &wanted)
}

/// Compares figures of whole runs.
fn judged(what: &str, mut compare: impl FnMut() -> Result<(), Judgement>) {
    truth::judged(what, || compare().err().unwrap_or(Judgement::Right));
}

fn wrong(why: String) -> Judgement {
    Judgement::Wrong(why)
}

/// Milliseconds that a relay held a call and the beginning of its answer. The later parts of long answers wait for each other.
fn held(relay: &Relay) -> f64 {
    relay.held(|note| note.protocol == 6 && note.payload > 0 && note.first)
}

/// Milliseconds from a call for a block of 4 KiB that goes through the device to its answer that comes, for the servers on one
/// port or on all others: what the relay holds, the work of the server and every late wake-up on that side.
fn away(exchanges: &[Exchange], ports: impl Fn(u16) -> bool) -> f64 {
    answered(exchanges, |exchange| ports(exchange.port) && (4096..4096 + 512).contains(&exchange.answered))
}

/// Two figures over relays of two delays have the same rest above the time beyond the device, within their intervals and 3 % of
/// what those times are apart. The rest is the work of the tool's own side.
fn apart(what: &str, [short, long]: [Found; 2], [away_short, away_long]: [f64; 2]) -> Result<(), Judgement> {
    let (rest, other) = (short.above(away_short), long.above(away_long));
    let said = format!("{what}: {short:?} ms, {away_short} of it beyond the device; {long:?}, {away_long} of it");
    println!("{said}");
    // Reads whose server had to fetch the block are among those that the tap saw.
    let possible = rest.high > -0.01 * away_short && rest.low < 0.25 * away_short;
    if other.agrees(rest, 0.03 * (away_long - away_short)) && possible { Ok(()) } else { Err(wrong(said)) }
}

#[test]
fn a_read_waits_for_exactly_one_round_trip_over_nfs_and_from_a_peer() {
    let _alone = measuring();
    let measure = |delay: u64| {
        let namespaces = Namespaces::new();
        let _relay = namespaces.relay(Duration::from_millis(delay));
        let tap = Tap::watch(&namespaces.near);
        let (_server, url) = ganesha(&namespaces);
        let peer = namespaces.peer(&["--scratch", env!("CARGO_TARGET_TMPDIR")]);
        let result = run(&namespaces, &[&["--nfs", &url][..], &with_peer(&peer)].concat());
        let exchanges = tap.exchanges();
        (result, [away(&exchanges, |port| port == NFS_PORT), away(&exchanges, |port| port != NFS_PORT)])
    };
    judged("relays of 5 and 10 ms", || {
        let [(short, away_short), (long, away_long)] = [5, 10].map(measure);
        for (way, via) in ["nfs", "peer"].into_iter().enumerate() {
            let away = [away_short[way], away_long[way]];
            apart(via, [random_read(&short, via, 4096)?, random_read(&long, via, 4096)?], away)?;
            apart(&format!("penalty via {via}"), [penalty(&short, via)?, penalty(&long, via)?], away)?;
        }
        let section = &long["experiments"][0];
        let said = section["analysis"].to_string();
        for words in ["Over NFS:", "From the peer at", "proven to be outside the peer's page cache"] {
            assert!(said.contains(words), "{words} is missing: {said}");
        }
        assert!(section["series"].as_array().unwrap().iter().any(|curve| curve["name"] == "file.remote_read.by_size"));
        Ok(())
    });
}

/// What a token bucket may let through in a second, in bits.
const RATE: f64 = 100e6;

/// Milliseconds by which a read of a mebibyte is longer than one of a quarter behind a token bucket of so many bits per second:
/// what the bucket counts for the payload of full segments. Its credit is in both reads alike.
fn longer_at(bits_per_second: f64) -> f64 {
    f64::from((1 << 20) - (256 << 10)) * 8.0 / bits_per_second * (1500.0 + 14.0) / (1500.0 - 52.0) * 1e3
}

/// Compares how much longer a long read takes with what the bucket keeps to and with what it counted, within a tolerance. It
/// counts less where the path was idle now and then.
fn takes_its_bytes(what: &str, result: &Value, via: &str, counted: f64, tolerance: f64) -> Result<(), Judgement> {
    let found = random_read(result, via, 1 << 20)?.value - random_read(result, via, 256 << 10)?.value;
    let (least, most) = (longer_at(RATE), longer_at((counted * 8.0).min(RATE)));
    println!("{what}: {found} ms, the shaper {least} to {most}");
    truth::within(found, least * (1.0 - tolerance), most * (1.0 + tolerance)).map_err(|why| {
        wrong(format!("{what}: 768 KiB more take so many ms: {why}; the shaper let {counted} B/s through"))
    })
}

#[test]
fn a_long_read_takes_its_bytes_at_the_rate_of_the_path() {
    let _alone = measuring();
    let namespaces = Namespaces::new();
    namespaces.join();
    namespaces.shape((RATE / 1e6) as u32);
    let (_server, url) = ganesha(&namespaces);
    let peer = namespaces.peer(&["--scratch", env!("CARGO_TARGET_TMPDIR")]);
    judged("100 Mbit/s", || {
        let passed = Passed::watch(&namespaces.far);
        let result = run(&namespaces, &[&["--nfs", &url][..], &with_peer(&peer)].concat());
        let counted = passed.rate();
        for via in ["nfs", "peer"] {
            takes_its_bytes(via, &result, via, counted, 0.03)?;
        }
        Ok(())
    });
}

/// An sshd on the far side, and the options with which sshfs reaches it.
fn sshd(namespaces: &Namespaces) -> (Daemon, String, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for key in ["host", "user"] {
        must(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", at(key).to_str().unwrap()]);
    }
    fs::copy(at("user.pub"), at("authorized")).unwrap();
    fs::create_dir(at("files")).unwrap();
    fs::create_dir(at("mounted")).unwrap();
    // Where sshd separates its privileges; a system that runs one has it.
    fs::create_dir_all("/run/sshd").unwrap();
    let configuration = format!(
        "Port {SSH_PORT}\nListenAddress {FAR}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\n\
         PermitRootLogin yes\nPasswordAuthentication no\nSubsystem sftp internal-sftp\n",
        at("host").display(),
        at("authorized").display(),
    );
    fs::write(at("configuration"), configuration).unwrap();
    let program = ["/usr/sbin/sshd", "/usr/bin/sshd"].into_iter().find(|path| Path::new(path).exists());
    let program = program.expect("sshd is needed here: apt-get install openssh-server");
    let mut command =
        Namespaces::command(&namespaces.far, program, &["-D", "-f", at("configuration").to_str().unwrap()]);
    off_the_measured_cpu(&mut command);
    let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    listens(namespaces, SSH_PORT);
    let options = format!(
        "-p {SSH_PORT} -o IdentityFile={} -o IdentitiesOnly=yes -o StrictHostKeyChecking=no \
         -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR {FAR}:{}",
        at("user").display(),
        at("files").display()
    );
    let mounted = at("mounted");
    (Daemon { process, directory }, options, mounted)
}

/// Runs the experiment on an sshfs that is mounted for this and gone afterwards.
fn run_on_sshfs(namespaces: &Namespaces, options: &str, mounted: &Path) -> Output {
    let (place, here) = (mounted.with_file_name("run"), mounted.display());
    let script = format!(
        "sshfs {options} {here} && {PROGRAM} run file.remote_read --quick --time 10s --no-progress -o {} --remote-dir {here}; status=$?; \
         ls -A {here} > {}; umount {here}; exit $status",
        place.display(),
        mounted.with_file_name("left").display()
    );
    Namespaces::command(&namespaces.near, "sh", &["-c", &script]).output().unwrap()
}

#[test]
fn a_long_read_through_a_mount_takes_its_bytes_at_the_rate_of_the_path() {
    let _alone = measuring();
    let namespaces = Namespaces::new();
    namespaces.join();
    namespaces.shape((RATE / 1e6) as u32);
    let (_server, options, mounted) = sshd(&namespaces);
    judged("100 Mbit/s", || {
        let place = mounted.with_file_name("run");
        let _ = fs::remove_dir_all(&place);
        let passed = Passed::watch(&namespaces.far);
        let output = run_on_sshfs(&namespaces, &options, &mounted);
        let counted = passed.rate();
        assert!(ended(&output), "{}", told(&output));
        // The kernel asks for a read in pieces, and ssh wraps each.
        takes_its_bytes("sshfs", &result(&place), "mount", counted, 0.05)
    });
}

#[test]
fn a_read_through_a_mount_waits_for_exactly_one_round_trip() {
    let _alone = measuring();
    let measure = |delay: u64| {
        let namespaces = Namespaces::new();
        let _relay = namespaces.relay(Duration::from_millis(delay));
        let tap = Tap::watch(&namespaces.near);
        let (_server, options, mounted) = sshd(&namespaces);
        let output = run_on_sshfs(&namespaces, &options, &mounted);
        assert!(ended(&output), "{}", told(&output));
        let left = fs::read_to_string(mounted.with_file_name("left")).unwrap();
        assert_eq!(left, "", "the file on the other machine is gone");
        (result(&mounted.with_file_name("run")), away(&tap.exchanges(), |_| true))
    };
    judged("relays of 5 and 10 ms", || {
        let [(short, away_short), (long, away_long)] = [5, 10].map(measure);
        let met = &short["remote"]["directory"];
        assert_eq!(met["file_system"], "fuse.sshfs", "{met}");
        assert!(short["experiments"][0]["rejected"].to_string().contains("just written"));
        let found = [random_read(&short, "mount", 4096)?, random_read(&long, "mount", 4096)?];
        apart("sshfs", found, [away_short, away_long])
    });
}

/// A figure of a result; none where neighbours spoilt it.
fn unless_spoilt(section: &Value, metric: &str, wanted: &[(&str, &str)]) -> Option<f64> {
    let is_it = |found: &&Value| {
        found["name"] == metric && wanted.iter().all(|(label, value)| found["labels"][label] == *value)
    };
    if let Some(found) = section["metrics"].as_array().unwrap().iter().find(is_it) {
        return found["value"].as_f64();
    }
    let refused = section["rejected"].as_array().unwrap().iter().find(is_it);
    let reason = refused.and_then(|refused| refused["reason"].as_str());
    assert!(reason.is_some_and(of_others), "{metric} {wanted:?}: {reason:?}");
    None
}

#[test]
fn all_ways_in_one_run_stand_beside_local_files() {
    let _alone = measuring();
    let namespaces = Namespaces::new();
    let relay = namespaces.relay(Duration::from_millis(2));
    let (_nfs, url) = ganesha(&namespaces);
    let (_sshd, options, mounted) = sshd(&namespaces);
    let peer = namespaces.peer(&["--scratch", env!("CARGO_TARGET_TMPDIR")]);
    let keep = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (scratch, place, left) = (keep.path().join("files"), keep.path().join("run"), keep.path().join("left"));
    fs::create_dir(&scratch).unwrap();
    let words = with_peer(&peer).join(" ");
    let (files, run, here) = (scratch.display(), place.display(), mounted.display());
    let script = format!(
        "sshfs {options} {here} && {PROGRAM} run file --quick --no-progress --scratch {files} -o {run} --remote-dir {here} \
         --nfs '{url}' {words}; status=$?; ls -AU {here} {files} > {}; umount {here}; exit $status",
        left.display()
    );
    let output = Namespaces::command(&namespaces.near, "sh", &["-c", &script]).output().unwrap();
    assert!(ended(&output), "{}", told(&output));
    assert_eq!(fs::read_to_string(left).unwrap(), format!("{here}:\n\n{files}:\n"), "files are gone on both sides");
    let result = result(&place);
    let round_trip = held(&relay) * 1e6;
    let section = |id: &str| {
        let sections = result["experiments"].as_array().unwrap();
        sections.iter().find(|section| section["id"] == id).unwrap_or_else(|| panic!("{id} is not there"))
    };
    for (id, metric) in [("file.read", "file.read.block_time"), ("file.contention", "file.contention.block_time")] {
        unless_spoilt(section(id), metric, &[("order", "random")]);
    }
    let remote = section("file.remote_read");
    let said = remote["analysis"].to_string();
    let mut whole = true;
    for (via, words) in [("mount", "Through the mount:"), ("nfs", "Over NFS:"), ("peer", "From the peer at")] {
        assert!(said.contains(words), "{words} is missing: {said}");
        for metric in ["file.remote_read.block_time", "file.remote_read.network_penalty"] {
            let mut wanted = vec![("via", via), ("order", "random"), ("bytes", "4096")];
            wanted.extend((metric == "file.remote_read.block_time").then_some(("server", "warm")));
            match unless_spoilt(remote, metric, &wanted) {
                // Nothing comes over the relay in less, and a local read in no time takes nothing of note from it.
                Some(time) => assert!(time >= 0.95 * round_trip, "{metric} {wanted:?}: {time} ns"),
                None => whole = false,
            }
        }
        let curve = |curve: &&Value| curve["name"] == "file.remote_read.by_size" && curve["labels"]["via"] == via;
        assert!(remote["series"].as_array().unwrap().iter().any(|found| curve(&found)), "a curve via {via}");
        assert!(!whole || said.contains(&format!("(via {via}) from the memory of the other machine")), "{said}");
    }
    let compared = ["A random block takes ", "more through the mount, ", "more over NFS, ", "more from the peer."];
    assert!(!whole || compared.iter().all(|words| said.contains(words)), "{said}");
}

#[test]
fn what_is_no_file_on_another_machine_is_said() {
    // A port that is bound refuses connections while no task listens there, and no other program gets it.
    let bound = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    bound.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let free = bound.local_addr().unwrap().as_socket().unwrap();
    assert!(TcpStream::connect(free).is_err());
    let nowhere = format!("nfs://{free}/export/file?mountport={}", free.port());
    for (words, code, said) in [
        (&["--remote-dir", "/"][..], 2, "not of another machine"),
        (&["--remote-dir", "/proc/nonexistent"], 2, "cannot inspect"),
        (&["--nfs", "server:/export"], 2, "does not begin with nfs://"),
        (&["--nfs", "nfs://server"], 2, "has no path"),
        (&["--nfs", &nowhere], 1, "cannot reach"),
    ] {
        let output = output(&[&["run", "file.remote_read", "--quick", "--no-progress"], words].concat());
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", told(&output));
        assert!(told(&output).contains(said), "{words:?}: {}", told(&output));
    }
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("run");
    let output = output(&["run", "file.remote_read", "--quick", "--no-progress", "-o", place.to_str().unwrap()]);
    assert!(output.status.success(), "{}", told(&output));
    let section = &result(&place)["experiments"][0];
    assert_eq!(section["outcome"], "skipped");
    assert!(section["hint"].as_str().unwrap().contains("--remote-dir DIR"), "{section}");
    assert!(
        text(&output.stdout).contains("file.remote_read") || told(&output).contains("skipped"),
        "{}",
        told(&output)
    );
}
