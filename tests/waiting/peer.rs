//! The peer among strangers: scans, browsers, noise, idle connections and wrong secrets leave it serving, and as small as it
//! was. The real program listens; nothing is sent beyond the loopback.
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::namespaces::Serving;
use crate::support::runs::{output, sysdyno, told, wait_until};
use proptest::prelude::*;
use sysdyno::testing::peer::authentication::Secret;
use sysdyno::testing::peer::channel::{Channel, Side};
use sysdyno::testing::peer::client::Partner;
use sysdyno::testing::peer::handshake::{self, Admission};
use sysdyno::testing::peer::protocol::PeerRequest;

/// Most memory of its own of a peer that nobody asks anything, in KiB. Pages of the program's file come on top: up to 4 MiB
/// of the release build, twice that of a build for tests.
const MOST_KIB: u64 = 2 << 10;
/// Growth of its memory that is no growth.
const SLACK_KIB: u64 = 256;

fn peer(words: &[&str]) -> Serving {
    let mut command = sysdyno(&[&["peer"], words].concat());
    Serving::start(command.stdout(Stdio::piped()).process_group(0))
}

fn address(peer: &Serving) -> SocketAddr {
    peer.address.parse().unwrap()
}

/// Resident memory of the listening process in KiB, without pages of files: which of those are mapped is the kernel's choice.
fn resident(peer: &Serving) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", peer.process.id())).unwrap();
    let kibibytes = |line: &str| line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap();
    status.lines().filter(|line| line.starts_with("RssAnon:") || line.starts_with("RssShmem:")).map(kibibytes).sum()
}

/// Children of the listening process.
fn children(peer: &Serving) -> usize {
    let path = format!("/proc/{0}/task/{0}/children", peer.process.id());
    std::fs::read_to_string(path).unwrap().split_whitespace().count()
}

/// Ticks of CPU time that the listening process has used.
fn cpu_ticks(peer: &Serving) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", peer.process.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// A client that knows the secret is served.
fn serves(peer: &Serving) {
    let secret = Secret::of(&peer.secret).unwrap();
    let began = Instant::now();
    let mut partner = Partner::elsewhere(address(peer), &secret).unwrap();
    let (version, machine) = partner.describe().unwrap();
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    assert!(!machine.fingerprint.is_empty());
    assert!(began.elapsed() < Duration::from_secs(5));
}

/// Does something to a peer a hundred times and more; it must go on serving and stay as small.
fn survives(what: &str, peer: &Serving, mut attack: impl FnMut(u32)) {
    serves(peer);
    for number in 0..20 {
        attack(number);
    }
    let before = resident(peer);
    for number in 20..150 {
        attack(number);
    }
    serves(peer);
    let after = resident(peer);
    assert!(after <= before + SLACK_KIB, "{what}: from {before} to {after} KiB");
    assert!(after < MOST_KIB, "{what}: {after} KiB");
    wait_until("children end", Duration::from_secs(15), || (children(peer) == 0).then_some(()));
}

#[test]
fn an_idle_peer_is_small_and_sleeps() {
    let peer = peer(&[]);
    serves(&peer);
    wait_until("the session ends", Duration::from_secs(5), || (children(&peer) == 0).then_some(()));
    let before = cpu_ticks(&peer);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(cpu_ticks(&peer), before, "an idle peer uses no CPU");
    assert!(resident(&peer) < MOST_KIB, "{} KiB", resident(&peer));
}

#[test]
fn a_port_scan_a_browser_and_noise_are_nothing() {
    let peer = peer(&[]);
    let to = address(&peer);
    survives("port scan", &peer, |_| drop(TcpStream::connect(to).unwrap()));
    survives("browser", &peer, |_| {
        let mut stream = TcpStream::connect(to).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: peer.example\r\nUser-Agent: Mozilla/5.0\r\n\r\n").unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut answer = Vec::new();
        // The end may come as a reset: the peer has closed without reading everything.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "a stranger is told nothing: {answer:?}");
    });
    let mut random = fastrand::Rng::with_seed(5);
    survives("noise", &peer, |_| {
        let mut stream = TcpStream::connect(to).unwrap();
        let bytes: Vec<u8> = (0..random.usize(1..5000)).map(|_| random.u8(..)).collect();
        let _ = stream.write_all(&bytes);
    });
}

#[test]
fn two_hundred_idle_connections_do_not_keep_a_client_out() {
    let peer = peer(&[]);
    serves(&peer);
    let before = resident(&peer);
    let idle: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(address(&peer)).unwrap()).collect();
    serves(&peer);
    assert!(children(&peer) <= 24, "{} children", children(&peer));
    assert!(resident(&peer) <= before + SLACK_KIB, "from {before} to {} KiB", resident(&peer));
    drop(idle);
    wait_until("children end", Duration::from_secs(15), || (children(&peer) == 0).then_some(()));
    serves(&peer);
}

#[test]
fn a_wrong_secret_is_refused_each_time() {
    let peer = peer(&[]);
    let wrong = Secret::of("a secret of somebody else").unwrap();
    survives("wrong secret", &peer, |_| {
        let problem = Partner::elsewhere(address(&peer), &wrong).err().unwrap();
        // With many at once the oldest makes room, and sees only that it was closed.
        assert!(problem.what.contains("refuses the secret") || problem.what.contains("closed"), "{problem}");
    });
}

#[test]
fn more_clients_than_sessions_are_told_to_wait() {
    let peer = peer(&["--sessions", "2"]);
    let secret = Secret::of(&peer.secret).unwrap();
    let first = Partner::elsewhere(address(&peer), &secret).unwrap();
    let _second = Partner::elsewhere(address(&peer), &secret).unwrap();
    let problem = Partner::elsewhere(address(&peer), &secret).err().unwrap();
    assert!(problem.what.contains("busy") && problem.hint.unwrap().contains("again"));
    // A place that becomes free while somebody asks for one is given to that client.
    let leaves = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        drop(first);
    });
    let third = Partner::elsewhere(address(&peer), &secret);
    assert!(third.is_ok(), "{}", third.err().unwrap());
    leaves.join().unwrap();
}

#[test]
fn silent_clients_and_long_sessions_end() {
    let peer = peer(&["--idle", "1s", "--session-time", "3s"]);
    let secret = Secret::of(&peer.secret).unwrap();
    let _silent = Partner::elsewhere(address(&peer), &secret).unwrap();
    wait_until("the silent session ends", Duration::from_secs(5), || (children(&peer) == 0).then_some(()));
    let mut busy = Partner::elsewhere(address(&peer), &secret).unwrap();
    let began = Instant::now();
    while busy.describe().is_ok() {
        assert!(began.elapsed() < Duration::from_secs(10), "a session lasts as long as it was granted");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn commands_about_peers_that_cannot_be_met_say_why() {
    for (words, code, said) in [
        (&["run", "network", "--peer", "nonsense"][..], 2, "requires a secret"),
        (
            &["run", "network", "--peer", "nonsense", "--peer-secret", "0123456789abcdef"],
            2,
            "not a valid address of a peer",
        ),
        (&["run", "network", "--peer", "127.0.0.1:1", "--peer-secret", "short"], 2, "16 to 1024 characters"),
        (&["run", "network", "--peer", "127.0.0.1:1", "--peer-secret", "0123456789abcdef"], 1, "cannot reach"),
        (&["run", "network", "--peer", "ssh://-oProxyCommand=x"], 2, "not a valid ssh host"),
        (&["run", "cpu", "--peer-secret", "0123456789abcdef"], 2, "no peer"),
        (&["peer", "--listen", "192.0.2.1:0"], 2, "cannot listen"),
        (&["peer", "--secret-file", "/proc/nonexistent"], 2, "cannot read the secret"),
        (&["peer", "--pretend", "burn"], 2, "hold=MICROSECONDS"),
    ] {
        let output = output(words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", told(&output));
        assert!(told(&output).contains(said), "{words:?}: {}", told(&output));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever comes instead of a request breaks nothing, and whatever is a request is within its bounds.
    #[test]
    fn no_content_breaks_the_parser(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        if let Ok(request) = serde_json::from_slice::<PeerRequest>(&bytes) {
            let _ = request.check();
        }
    }

    /// Requests with any numbers are parsed or refused, and refused beyond their bounds.
    #[test]
    fn numbers_beyond_the_bounds_are_refused(streams in any::<u8>(), message in any::<u32>(), time in any::<u32>(), window in any::<u32>()) {
        let text = format!(
            "{{\"ask\":\"flow\",\"ipv6\":false,\"direction\":\"send\",\"streams\":{streams},\"message\":{message},\"milliseconds\":{time},\"window\":{window}}}"
        );
        let request: PeerRequest = serde_json::from_str(&text).unwrap();
        let bounded = (1..=16).contains(&streams)
            && (1..=1 << 20).contains(&message)
            && (1..=120_000).contains(&time)
            && window >= 1
            && window <= time
            && time / window.max(1) <= 10_000;
        prop_assert_eq!(request.check().is_ok(), bounded);
    }

    /// Bytes instead of sealed messages are refused in time, whatever they are.
    #[test]
    fn no_bytes_break_the_channel(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let (mut one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        one.write_all(&bytes).unwrap();
        drop(one);
        let mut channel = Channel::new(other.into(), [0; 32], Side::Peer);
        prop_assert!(channel.receive::<PeerRequest>(Duration::from_millis(200)).is_err());
    }

    /// The same for the handshake, with and without the right beginning.
    #[test]
    fn no_bytes_pass_the_handshake(bytes in proptest::collection::vec(any::<u8>(), 0..200), begins in any::<bool>()) {
        let (mut one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        if begins {
            one.write_all(b"sysdyno\n\x02\x00").unwrap();
        }
        one.write_all(&bytes).unwrap();
        one.shutdown(std::net::Shutdown::Write).unwrap();
        let secret = Secret::of("a secret of some length").unwrap();
        let answered =
            handshake::answer(other.into(), &secret, Duration::from_millis(200), || Admission::Welcome, || {});
        prop_assert!(answered.is_none());
    }
}
