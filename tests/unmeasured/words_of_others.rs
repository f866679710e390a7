//! Words of others on a terminal: of a log that was mailed, of a peer, of an address that was typed in. None of them moves the
//! cursor, sets a title or turns the writing direction, in no form of a report and in no message.
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use crate::support::runs::{edit_log, lines, output, text, told};
use serde_json::{Value, json};
use sysdyno::testing::peer::authentication::Secret;
use sysdyno::testing::peer::channel::Channel;
use sysdyno::testing::peer::client::Partner;
use sysdyno::testing::peer::handshake::{self, Admission};
use sysdyno::testing::peer::protocol::{PeerRequest, Reply};

/// Sets a title, clears the screen by a one-letter introducer, turns the direction, hides.
const ORDERS: &str = "\u{1b}]0;title\u{7}\u{9b}2J\u{202e}\u{200b}\u{7f}\r";
const SECRET: &str = "a secret of some length";

/// Letters that no output may have; lines and tabs are the layout's.
fn order_in(words: &str) -> Option<char> {
    let bad =
        |letter: char| letter.is_control() && letter != '\n' && letter != '\t' || "\u{202e}\u{200b}".contains(letter);
    words.chars().find(|&letter| bad(letter))
}

/// Puts orders behind every word that is free in a record.
fn spoil(value: &mut Value, spoilt: &mut u32) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                let free = ["detail", "what", "reason", "hint", "source", "version", "id", "build", "model_name"];
                match field {
                    Value::String(words) if free.contains(&key.as_str()) => {
                        words.push_str(ORDERS);
                        *spoilt += 1;
                    }
                    other => spoil(other, spoilt),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| spoil(item, spoilt)),
        _ => {}
    }
}

fn stored() -> tempfile::TempDir {
    let run = tempfile::tempdir().unwrap();
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("records/guest-zen4-2cpu-chapters/log.jsonl");
    std::fs::copy(log, run.path().join("log.jsonl")).unwrap();
    run
}

#[test]
fn no_report_of_a_log_gives_orders() {
    let run = stored();
    let spoilt = std::cell::Cell::new(0);
    edit_log(run.path(), |line| {
        let mut count = 0;
        // A prediction's basis and its numbers are told apart by their kind; its words are free as well.
        match line["record"].as_str() {
            Some("series") => line["labels"]["more"] = json!(ORDERS),
            _ => spoil(line, &mut count),
        }
        spoilt.set(spoilt.get() + count);
    });
    assert!(spoilt.get() > 100, "{} words", spoilt.get());
    for format in ["text", "summary", "markdown", "html", "csv", "json"] {
        let report = output(&["report", run.path().to_str().unwrap(), "--format", format]);
        assert!(report.status.success(), "{format}: {}", told(&report));
        assert_eq!(order_in(&text(&report.stdout)), None, "{format}");
        assert_eq!(order_in(&text(&report.stderr)), None, "{format}");
    }
}

#[test]
fn no_message_about_a_log_gives_orders() {
    let run = stored();
    let format = format!("sysdyno-log/1{ORDERS}");
    edit_log(run.path(), |line| {
        if line["record"] == "run" {
            line["log"] = json!(format);
        }
    });
    let refused = output(&["report", run.path().to_str().unwrap()]);
    let said = text(&refused.stderr);
    assert_eq!((refused.status.code(), order_in(&said)), (Some(2), None), "{said:?}");
    assert!(said.contains("title"), "the words themselves are told: {said}");
}

#[test]
fn no_cell_is_a_formula() {
    let run = stored();
    edit_log(run.path(), |line| {
        if line["record"] == "run" {
            line["id"] = json!("=HYPERLINK(\"http://x.example\",\"y\")");
        }
    });
    let report = output(&["report", run.path().to_str().unwrap(), "--format", "csv"]);
    let shown = text(&report.stdout);
    assert!(shown.contains("'=HYPERLINK") && !shown.contains("\n\"=") && !shown.contains("\n="), "{}", &shown[..500]);
    let stands = lines(run.path())[0]["id"].as_str().unwrap().to_owned();
    let json = output(&["report", run.path().to_str().unwrap(), "--format", "json"]);
    let document: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(document["run"]["id"], stands.as_str(), "JSON says what the log says");
}

/// A peer that knows the secret and answers every request with the same.
fn peer_that_says(reply: Reply) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            stream.set_nonblocking(true).unwrap();
            let secret = Secret::of(SECRET).unwrap();
            let met = handshake::answer(stream.into(), &secret, Duration::from_secs(5), || Admission::Welcome, || {});
            let Some(mut channel) = met else { continue };
            while answer(&mut channel, &reply) {}
        }
    });
    address
}

fn answer(channel: &mut Channel, reply: &Reply) -> bool {
    let asked = channel.receive::<PeerRequest>(Duration::from_secs(5));
    asked.is_ok() && channel.send(reply, Duration::from_secs(5)).is_ok()
}

#[test]
fn no_word_of_a_peer_gives_orders() {
    let address = peer_that_says(Reply::Cannot { reason: format!("words{ORDERS}") });
    let run = tempfile::tempdir().unwrap();
    let place = run.path().join("run");
    let words = ["run", "network", "--quick", "--no-progress", "-o", place.to_str().unwrap()];
    let refused = output(&[&words[..], &["--peer", &address, "--peer-secret", SECRET]].concat());
    assert_eq!(refused.status.code(), Some(1), "{}", told(&refused));
    let said = told(&refused);
    assert!(said.contains("the other side cannot do this: words") && order_in(&said).is_none(), "{said:?}");
}

#[test]
fn a_peer_does_not_send_its_client_to_a_service_of_its_system() {
    let secret = Secret::of(SECRET).unwrap();
    let exporting = Reply::Exporting { port: 22, path: "/x".to_owned(), identity: 1, storage: None };
    let mut partner = Partner::elsewhere(peer_that_says(exporting).parse().unwrap(), &secret).unwrap();
    let refused = partner.export(false, 2 << 20).unwrap_err();
    assert!(refused.what.contains("port 22"), "{refused}");
    for (tcp, udp) in [(vec![25], None), (vec![40_000], Some(53))] {
        let listening = Reply::Listening { tcp, udp, token: "0".repeat(32) };
        let mut partner = Partner::elsewhere(peer_that_says(listening).parse().unwrap(), &secret).unwrap();
        let refused = partner.echo(false, &[64], true).map(|_| ()).unwrap_err();
        assert!(refused.what.contains("belongs to a service"), "{refused}");
    }
}
