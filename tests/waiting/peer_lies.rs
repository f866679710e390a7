//! A peer whose clock is wrong, or that lies: what it reports must fit into the time that passed on this side, or no figure is
//! made of it. The real program listens, on the loopback or in a namespace of its own.
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use crate::support::namespaces::{Namespaces, Serving};
use crate::support::runs::{PROGRAM, edit_log, measuring, output, result, sysdyno, told};
use serde_json::{Value, json};
use sysdyno::testing::peer::authentication::Secret;
use sysdyno::testing::peer::client::Partner;
use sysdyno::testing::peer::nfs::Reader;
use sysdyno::testing::peer::plausible;
use sysdyno::testing::peer::protocol::{DatagramOrder, Direction, FlowOrder};
use sysdyno::testing::results::problem::Problem;

/// A peer on the loopback that holds every echo, and whose clock shows so many percent of the time.
fn peer(percent: &str) -> Serving {
    let pretend = format!("hold=100,clock={percent}");
    let words = ["peer", "--scratch", env!("CARGO_TARGET_TMPDIR"), "--pretend", &pretend];
    Serving::start(sysdyno(&words).stdout(Stdio::piped()).process_group(0))
}

fn partner(peer: &Serving) -> Partner {
    Partner::elsewhere(peer.address.parse().unwrap(), &Secret::of(&peer.secret).unwrap()).unwrap()
}

/// What each clock makes of a question; the one that is right has to be believed.
fn judged(ask: impl Fn(&mut Partner) -> Result<(), Problem>, lies: &[&str]) {
    ask(&mut partner(&peer("100"))).unwrap();
    for lie in lies {
        let refused = ask(&mut partner(&peer(lie))).expect_err(lie);
        assert!(refused.what.contains("the peer reports an impossible value"), "{lie}: {refused}");
    }
}

#[test]
fn a_flow_has_to_fit_into_the_time_that_it_took() {
    let order =
        FlowOrder { ipv6: false, direction: Direction::Send, streams: 1, message: 1024, milliseconds: 300, window: 20 };
    let ask = |partner: &mut Partner| {
        let (_, theirs, lasted) = partner.flow(&order)?;
        plausible::flow(&order, &theirs, lasted)
    };
    judged(ask, &["10", "1000", "-100", "80"]);
}

#[test]
fn datagrams_have_to_fit_into_the_time_that_they_took() {
    let order =
        DatagramOrder { ipv6: false, direction: Direction::Send, bytes: 64, rate: 2_000, milliseconds: 300, port: 0 };
    judged(|partner| partner.datagrams(&order).map(|_| ()), &["10", "1000", "-100", "60"]);
    // What the peer sends is counted here. A clock that shows too long a time is refused there too.
    let order = DatagramOrder { direction: Direction::Receive, ..order };
    judged(|partner| partner.datagrams(&order).map(|_| ()), &["10", "1000", "-100"]);
}

#[test]
fn a_residence_is_neither_negative_nor_longer_than_the_closing_took() {
    let ask = |partner: &mut Partner| {
        let port = partner.accept(false, 1)?;
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(b"x").unwrap();
        let closing = Instant::now();
        drop(stream);
        partner.closed(closing).map(|_| ())
    };
    judged(ask, &["-1000000", "1000000"]);
}

#[test]
fn echoes_stay_no_longer_than_their_services_were_open() {
    let ask = |partner: &mut Partner| {
        let mut lines = partner.echo(false, &[64], false)?;
        let mut stream = TcpStream::from(lines.tcp.pop().unwrap().1);
        for _ in 0..200 {
            let mut bytes = [7; 64];
            stream.write_all(&bytes).unwrap();
            std::io::Read::read_exact(&mut stream, &mut bytes).unwrap();
        }
        drop(stream);
        partner.end_echo().map(|_| ())
    };
    judged(ask, &["-100", "1000000"]);
}

#[test]
fn an_export_keeps_its_calls_no_longer_than_it_was_open() {
    let ask = |partner: &mut Partner| {
        let lent = partner.export(false, 2 << 20)?;
        let mut reader = Reader::open(&lent.place)?;
        for _ in 0..100 {
            reader.read(0, 65_536, |_, _| Ok(())).unwrap();
        }
        partner.end_export().map(|_| ())
    };
    judged(ask, &["-100", "1000000"]);
}

#[test]
fn a_net_figure_above_its_gross_one_is_no_figure() {
    let run = tempfile::tempdir().unwrap();
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("records/guest-zen4-2cpu-chapters/log.jsonl");
    std::fs::copy(log, run.path().join("log.jsonl")).unwrap();
    let published = || {
        let report = output(&["report", run.path().to_str().unwrap(), "--format", "json"]);
        let document: Value = serde_json::from_slice(&report.stdout).unwrap();
        let sections = document["experiments"].as_array().unwrap();
        let found = sections.iter().flat_map(|section| section["metrics"].as_array().unwrap());
        found.filter(|metric| metric["name"] == "network.connection.net").count()
    };
    assert!(published() > 0);
    edit_log(run.path(), |line| {
        if line["experiment"] == "network.connection" && line["name"] == "residence" {
            line["values"] = line["values"].as_array().unwrap().iter().map(|_| json!(-1e9)).collect();
        }
    });
    assert_eq!(published(), 0);
}

/// Figures and reasons of a metric that are remote or not.
fn figures<'a>(result: &'a Value, list: &str, path: &str) -> Vec<&'a Value> {
    let section = &result["experiments"][0];
    section[list].as_array().unwrap().iter().filter(|found| found["labels"]["path"] == path).collect()
}

/// Runs an experiment in the near namespace against a peer on the far side.
fn run(namespaces: &Namespaces, experiment: &str, lie: &[&str]) -> Value {
    let peer = namespaces.peer(lie);
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("run");
    let words = ["run", experiment, "--quick", "--time", "15s", "--no-progress", "-o", place.to_str().unwrap()];
    let to = ["--peer", &peer.address, "--peer-secret", &peer.secret];
    let output = Namespaces::command(&namespaces.near, PROGRAM, &[&words[..], &to[..]].concat()).output().unwrap();
    assert!(place.join("node.json").exists(), "{}", told(&output));
    result(&place)
}

#[test]
fn a_run_makes_no_figure_of_what_a_wrong_clock_timed() {
    let _alone = measuring();
    let namespaces = Namespaces::new();
    namespaces.join();
    let found = run(&namespaces, "network.bandwidth", &["--pretend", "clock=10"]);
    let remote = figures(&found, "metrics", "remote");
    let directions: Vec<&str> = remote.iter().filter_map(|figure| figure["labels"]["direction"].as_str()).collect();
    assert_eq!(directions, ["receive"], "what arrives here is timed here");
    assert!(figures(&found, "metrics", "loopback").len() > 3, "the loopback has its figures");
    let text = found["experiments"][0].to_string();
    assert!(text.contains("its rate would be too high"), "{text}");
    let found = run(&namespaces, "network.connection", &["--pretend", "clock=-1000000"]);
    assert!(figures(&found, "metrics", "remote").is_empty());
    let text = found["experiments"][0]["failed_launches"].to_string();
    assert!(text.contains("a residence of -"), "{text}");
}
