//! The secret of a peer: where it comes from, what is printed of it, and what guessing it costs.
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::runs::{Leashed, output, sysdyno, told};
use sysdyno::testing::peer::authentication::Secret;
use sysdyno::testing::peer::client::Partner;

const SECRET: &str = "a secret of some length";
const VARIABLE: &str = "SYSDYNO_PEER_SECRET";
/// Wrong secrets that are tried one after the other.
const GUESSES: u32 = 10;

/// A peer with its address and the line that it gives to be typed on the other side.
fn start(command: &mut Command) -> (Leashed, SocketAddr, String) {
    let mut process: Child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let ready = lines.next().unwrap().unwrap();
    let paste = lines.next().unwrap().unwrap();
    (Leashed(process), ready.strip_prefix("peer ready at ").unwrap().parse().unwrap(), paste)
}

fn meets(at: SocketAddr, secret: &str) -> bool {
    Partner::elsewhere(at, &Secret::of(secret).unwrap()).is_ok()
}

#[test]
fn a_secret_that_was_given_is_taken_and_not_printed() {
    let (_process, at, paste) = start(sysdyno(&["peer"]).env(VARIABLE, SECRET));
    assert!(meets(at, SECRET));
    assert!(!paste.contains(SECRET) && paste.contains(VARIABLE), "{paste}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "another secret, as long\n").unwrap();
    let path = file.path().to_str().unwrap();
    let (_process, at, paste) = start(sysdyno(&["peer", "--secret-file", path]).env(VARIABLE, SECRET));
    assert!(meets(at, "another secret, as long") && !meets(at, SECRET), "what was typed goes before the environment");
    assert!(paste.ends_with(&format!("--peer-secret-file {path}")) && !paste.contains("another"), "{paste}");
    let (_process, at, paste) = start(sysdyno(&["peer"]).env_remove(VARIABLE));
    let fresh = paste.rsplit_once("--peer-secret ").unwrap().1;
    assert!(meets(at, fresh));
    let refused = Command::new(env!("CARGO_BIN_EXE_sysdyno")).arg("peer").env(VARIABLE, "short").output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", told(&refused));
    assert!(told(&refused).contains(VARIABLE) && told(&refused).contains("hint: "), "{}", told(&refused));
    assert!(told(&output(&["peer", "--help"])).contains(VARIABLE));
}

#[test]
fn guessing_costs_time_and_is_told_once_while_the_owner_is_served() {
    let (mut process, at, _) = start(sysdyno(&["peer"]).env(VARIABLE, SECRET));
    let began = Instant::now();
    assert!((0..GUESSES).all(|_| !meets(at, "another secret, as long")));
    assert!(began.elapsed() >= GUESSES * Duration::from_millis(100), "{:?}", began.elapsed());
    // Strangers that guess on many connections at once keep nobody out.
    std::thread::scope(|scope| {
        let until = Instant::now() + Duration::from_secs(3);
        for _ in 0..4 {
            scope.spawn(move || {
                while Instant::now() < until {
                    meets(at, "another secret, as long");
                }
            });
        }
        let mut served = 0;
        while Instant::now() < until {
            if let Err(problem) = Partner::elsewhere(at, &Secret::of(SECRET).unwrap()) {
                panic!("after {served} times: {problem}");
            }
            served += 1;
        }
        assert!(served > 3, "{served}");
    });
    let _ = process.0.kill();
    let told: Vec<String> = BufReader::new(process.0.stderr.take().unwrap()).lines().map_while(Result::ok).collect();
    assert_eq!(told, ["warning: wrong secret from 127.0.0.1"]);
}
