//! NFS servers that state lengths and sizes of their choice, or that take their time: neither the memory nor the time of a run is
//! theirs, and their words give no orders to a terminal. The servers are threads of these tests, on the loopback.
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::support::runs::{PROGRAM, measuring, output, result, state, text, told};
use sysdyno::testing::peer::nfs::{FileLocation, Reader};

/// A length far beyond what the whole answer has.
const BEYOND: u32 = 0x7fff_fff0;
/// Virtual memory of a run in KiB: enough for it, and not for such a length.
const MEMORY: u32 = 1_500_000;

/// Calls by program and procedure.
const MNT: (u32, u32) = (100_005, 1);
const GETATTR: (u32, u32) = (100_003, 1);
const LOOKUP: (u32, u32) = (100_003, 3);
const READ: (u32, u32) = (100_003, 6);
const LIST: (u32, u32) = (100_003, 17);
const FSINFO: (u32, u32) = (100_003, 19);

/// How a server behaves.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Manner {
    /// The size that it states.
    bytes: u64,
    /// The path is a directory with one file.
    directory: bool,
    /// The call whose answer states a length without bounds; none of this number for the head of every answer.
    beyond: Option<(u32, u32)>,
    /// Mounts are denied.
    denies: bool,
    /// Time before every answer.
    before: Duration,
    /// Time between its bytes.
    between: Duration,
}

const HONEST: Manner = Manner {
    bytes: 64 << 20,
    directory: false,
    beyond: None,
    denies: false,
    before: Duration::ZERO,
    between: Duration::ZERO,
};
/// The head of every answer.
const HEAD: (u32, u32) = (0, 0);
/// The list of ways to authenticate that follows a mount's handle.
const WAYS: (u32, u32) = (0, 1);
/// Name of the file in the directory.
const NAME: &str = "\u{1b}]0;title\u{7}\u{9b}31mfile";

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Bytes with their length before and padding behind.
fn opaque(bytes: &[u8]) -> Vec<u8> {
    let mut packed = words(&[bytes.len() as u32]);
    packed.extend(bytes);
    packed.resize(4 + bytes.len().next_multiple_of(4), 0);
    packed
}

fn attributes(kind: u32, bytes: u64) -> Vec<u8> {
    let size = bytes.to_be_bytes();
    [words(&[kind, 0o444, 1, 0, 0]), size.to_vec(), size.to_vec(), words(&[0; 12])].concat()
}

/// What follows the head of an answer.
fn answer(manner: Manner, call: (u32, u32), arguments: &[u8]) -> Vec<u8> {
    let word = |place: usize| u32::from_be_bytes(arguments[place..place + 4].try_into().unwrap());
    let beyond = manner.beyond == Some(call);
    let handle = |kind: &[u8]| if beyond { words(&[BEYOND, 0, 0]) } else { opaque(kind) };
    match call {
        MNT if manner.denies => words(&[13]),
        MNT => {
            let ways = if manner.beyond == Some(WAYS) { words(&[u32::MAX, 1]) } else { words(&[1, 1]) };
            [words(&[0]), handle(b"directory"), ways].concat()
        }
        GETATTR => [words(&[0]), attributes(if manner.directory { 2 } else { 1 }, manner.bytes)].concat(),
        LOOKUP => [words(&[0]), handle(b"file"), words(&[0, 0])].concat(),
        FSINFO => [words(&[0, 0]), words(&[1 << 20; 7]), words(&[0, u32::MAX, 0, 1, 0])].concat(),
        READ => {
            let count = word(arguments.len() - 4);
            let data = if beyond { words(&[BEYOND, 7, 7]) } else { opaque(&vec![7; count as usize]) };
            [words(&[0, 0, count, 0]), data].concat()
        }
        LIST => {
            let name = if beyond { words(&[BEYOND, 7, 7]) } else { opaque(NAME.as_bytes()) };
            let facts = [words(&[1]), attributes(1, manner.bytes), words(&[1]), opaque(b"file")].concat();
            [words(&[0, 0, 0, 0, 1, 0, 1]), name, words(&[0, 1]), facts, words(&[0, 1])].concat()
        }
        _ => Vec::new(),
    }
}

fn converse(manner: Manner, mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        let mut head = [0; 4];
        stream.read_exact(&mut head)?;
        let mut call = vec![0; (u32::from_be_bytes(head) & 0x7fff_ffff) as usize];
        stream.read_exact(&mut call)?;
        let word = |number: usize| u32::from_be_bytes(call[4 * number..4 * number + 4].try_into().unwrap());
        // Number, kind, version, program, its version, procedure; then credentials and a verifier.
        let credentials = (word(7) as usize).next_multiple_of(4);
        let arguments = &call[40 + credentials..];
        let verifier = if manner.beyond == Some(HEAD) { BEYOND } else { 0 };
        let body = [words(&[word(0), 1, 0, 0, verifier, 0]), answer(manner, (word(3), word(5)), arguments)].concat();
        let whole = [words(&[0x8000_0000 | body.len() as u32]), body].concat();
        std::thread::sleep(manner.before);
        if manner.between.is_zero() {
            stream.write_all(&whole)?;
        } else {
            for byte in whole {
                stream.write_all(&[byte])?;
                std::thread::sleep(manner.between);
            }
        }
    }
}

/// Starts a server; its port. Its threads end with the test.
fn server(manner: Manner) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that closes ends its conversation.
            std::thread::spawn(move || drop(converse(manner, stream)));
        }
    });
    port
}

fn place(port: u16, path: &str) -> FileLocation {
    FileLocation { server: IpAddr::from([127, 0, 0, 1]), port, mount_port: Some(port), path: path.to_owned() }
}

/// A run against a server, with bounded memory.
fn run(manner: Manner) -> (Output, tempfile::TempDir) {
    let port = server(manner);
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let run = directory.path().join("run");
    let script = format!(
        "ulimit -v {MEMORY} && exec {PROGRAM} run file.remote_read --quick --no-progress -o {} \
         --nfs 'nfs://127.0.0.1:{port}/a/b?mountport={port}'",
        run.display()
    );
    (Command::new("sh").args(["-c", &script]).env("XDG_STATE_HOME", state()).output().unwrap(), directory)
}

#[test]
fn an_honest_server_is_read() {
    let reader = Reader::open(&place(server(HONEST), "/a/b")).unwrap();
    assert_eq!((reader.bytes, reader.path.as_str()), (64 << 20, "/a/b"));
    let mut reader = Reader::open(&place(server(Manner { directory: true, ..HONEST }), "/a/b")).unwrap();
    assert_eq!(reader.path, format!("/a/b/{NAME}"));
    let mut came = 0;
    let take = |_, found: &[u8]| {
        came += found.len();
        Ok(())
    };
    reader.read(4096, 100_000, take).unwrap();
    assert_eq!(came, 100_000);
    reader.exchange().unwrap();
}

#[test]
fn lengths_without_bounds_take_no_memory() {
    let _alone = measuring();
    // A mount that gives nothing but the root leaves names to be looked up.
    for (beyond, directory) in [(MNT, false), (WAYS, false), (HEAD, false), (LIST, true), (READ, false)] {
        let (ended, _directory) = run(Manner { beyond: Some(beyond), directory, ..HONEST });
        let said = told(&ended);
        assert_eq!(ended.status.code(), Some(1), "{beyond:?}: {said}");
        assert!(!said.contains("memory allocation"), "{beyond:?}: {said}");
        assert!(
            said.contains("does not answer")
                || said.contains("cannot use the NFS server")
                || said.contains("not answered")
        );
    }
}

#[test]
fn a_size_without_bounds_takes_no_memory() {
    let _alone = measuring();
    for bytes in [1 << 50, u64::MAX] {
        let (ended, directory) = run(Manner { bytes, directory: true, ..HONEST });
        let run = directory.path().join("run");
        assert!(run.join("node.json").exists(), "{bytes}: {}", told(&ended));
        let found = result(&run);
        let section = &found["experiments"][0];
        assert!(section["failed_launches"].as_array().is_none_or(Vec::is_empty), "{bytes}: {section}");
        assert!(!section["metrics"].as_array().unwrap().is_empty(), "{bytes}: {section}");
        // The name of its file is in the report, and gives no orders.
        for format in ["text", "summary", "markdown", "csv", "json", "html"] {
            let report = output(&["report", run.to_str().unwrap(), "--format", format]);
            let shown = text(&report.stdout);
            assert!(report.status.success() && shown.contains("file"), "{format}");
            let orders = shown.chars().find(|letter| letter.is_control() && !"\n\t".contains(*letter));
            assert_eq!(orders, None, "{format}");
        }
    }
}

#[test]
fn an_answer_in_drops_is_not_waited_for() {
    let began = Instant::now();
    let slow = Manner { between: Duration::from_millis(700), ..HONEST };
    let refused = Reader::open(&place(server(slow), "/a")).unwrap_err();
    assert!(refused.what.contains("was incomplete"), "{refused}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn a_conversation_of_slow_answers_ends() {
    let began = Instant::now();
    let slow = Manner { before: Duration::from_secs(3), denies: true, ..HONEST };
    let refused = Reader::open(&place(server(slow), "/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p")).unwrap_err();
    assert!(refused.what.contains("too slow"), "{refused}");
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
}
