//! The file that a peer lends: read by this tool's client and by an independent one, and by nobody who may not, in no way
//! that it is not meant for. The real program listens; nothing is sent beyond the loopback.
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::support::namespaces::Serving;
use crate::support::runs::{sysdyno, told, wait_until};
use socket2::{Domain, Socket, Type};
use sysdyno::testing::peer::authentication::Secret;
use sysdyno::testing::peer::client::{Lent, Partner};
use sysdyno::testing::peer::export::blocks::{BLOCK, is_stamped};
use sysdyno::testing::peer::nfs::Reader;

/// Bytes of the file that is exported.
const BYTES: u64 = 2 << 20;
/// Programs.
const NFS: u32 = 100_003;
const MOUNT: u32 = 100_005;
/// Words of the protocol (RFC 1813, 2.6).
const NOENT: u32 = 2;
const NOTDIR: u32 = 20;
const ISDIR: u32 = 21;
const ROFS: u32 = 30;
const BADHANDLE: u32 = 10001;
/// Statuses of an accepted call (RFC 5531, 9).
const PROGRAM_UNAVAILABLE: u32 = 1;
const PROGRAM_MISMATCH: u32 = 2;
const PROCEDURE_UNAVAILABLE: u32 = 3;
const GARBAGE_ARGUMENTS: u32 = 4;

fn peer(words: &[&str]) -> Serving {
    let mut command = sysdyno(&[&["peer"], words].concat());
    Serving::start(command.stdout(Stdio::piped()).process_group(0))
}

/// A session with a peer that exports a file.
fn exporting(peer: &Serving) -> (Partner, Lent) {
    let secret = Secret::of(&peer.secret).unwrap();
    let mut partner = Partner::elsewhere(peer.address.parse().unwrap(), &secret).unwrap();
    let lent = partner.export(false, BYTES).unwrap();
    (partner, lent)
}

/// True when bytes read at an offset carry the stamps of their blocks.
fn stamped(bytes: &[u8], offset: u64, identity: u64) -> bool {
    let first = offset / BLOCK as u64;
    bytes.chunks(BLOCK).enumerate().all(|(place, block)| is_stamped(block, identity, first + place as u64))
}

#[test]
fn a_peer_lends_a_file_and_keeps_nothing() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let peer = peer(&["--scratch", directory.path().to_str().unwrap()]);
    let (mut partner, lent) = exporting(&peer);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "the file has no name");
    let mut reader = Reader::open(&lent.place).unwrap();
    assert_eq!(reader.bytes, BYTES);
    assert_eq!(partner.forget(true).unwrap(), 0, "nothing of it is left in the cache");
    reader.exchange().unwrap();
    let mut seen = 0;
    for (offset, bytes) in [(0, 1 << 20), (1 << 20, 1 << 20), (8 * 4096, 4096), (BYTES - 65536, 65536)] {
        let take = |offset, found: &[u8]| {
            seen += found.len() as u64;
            if stamped(found, offset, lent.identity) { Ok(()) } else { Err(format!("a foreign block at {offset}")) }
        };
        reader.read(offset, bytes, take).unwrap();
    }
    assert_eq!(seen, BYTES + 4096 + 65536);
    let beyond = reader.read(BYTES - 4096, 8192, |_, _| Ok(())).unwrap_err();
    assert!(beyond.contains("4096 of 8192 bytes"), "{beyond}");
    let ended = partner.end_export().unwrap();
    assert_eq!(
        (ended.reads, ended.bytes, ended.refused),
        (5, seen + 4096, 1),
        "the path of the file is no directory to mount"
    );
    assert!(ended.residence.is_some_and(|nanoseconds| nanoseconds > 0));
    assert!(reader.exchange().is_err(), "the export is over");
    assert!(Reader::open(&lent.place).is_err());
    assert!(partner.forget(true).is_err() && partner.end_export().is_err());
    // A session that is gone takes its export with it, and the peer serves on.
    let lent = partner.export(false, BYTES).unwrap();
    drop(partner);
    wait_until("the export ends", Duration::from_secs(5), || Reader::open(&lent.place).err());
    exporting(&peer);
}

fn nfs(program: &str, words: &[&str]) -> Output {
    Command::new(program).args(words).output().unwrap_or_else(|error| panic!("{program} of libnfs-utils: {error}"))
}

#[test]
fn an_independent_client_reads_what_is_lent_and_nothing_else() {
    let peer = peer(&["--scratch", env!("CARGO_TARGET_TMPDIR")]);
    let (_partner, lent) = exporting(&peer);
    let port = lent.place.port;
    let url = |path: &str| format!("nfs://127.0.0.1{path}?nfsport={port}&mountport={port}&version=3");
    let read = nfs("nfs-cat", &[&url(&lent.place.path)]);
    assert!(read.status.success(), "{}", told(&read));
    assert_eq!(read.stdout.len() as u64, BYTES);
    assert!(stamped(&read.stdout, 0, lent.identity));
    let directory = lent.place.path.strip_suffix("/blocks").unwrap();
    let listed = nfs("nfs-ls", &[&url(directory)]);
    let lines = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.status.success(), "{}", told(&listed));
    assert!(lines.lines().count() == 1 && lines.contains("-r--r--r--") && lines.contains("blocks"), "{lines}");
    for path in [format!("{directory}/nothing"), "/etc/passwd".to_owned(), "/blocks".to_owned()] {
        let refused = nfs("nfs-cat", &[&url(&path)]);
        assert!(!refused.status.success() && refused.stdout.is_empty(), "{path}: {}", told(&refused));
    }
    let source = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(source.path(), [1; 5000]).unwrap();
    let copied = nfs("nfs-cp", &[source.path().to_str().unwrap(), &url(&format!("{directory}/new"))]);
    assert!(!copied.status.success() || told(&copied).contains("ROFS"), "{}", told(&copied));
    let listed = nfs("nfs-ls", &[&url(directory)]);
    assert_eq!(String::from_utf8_lossy(&listed.stdout), lines, "nothing has changed");
}

/// Words as bytes.
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

/// Sends bytes with the word of a whole call before them; what comes back behind number, kind and verifier, none when the
/// connection is closed instead.
fn send(stream: &mut TcpStream, body: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = words(&[0x8000_0000 | body.len() as u32]);
    bytes.extend(body);
    stream.write_all(&bytes).ok()?;
    let mut head = [0; 4];
    stream.read_exact(&mut head).ok()?;
    let mut answer = vec![0; (u32::from_be_bytes(head) & 0x7fff_ffff) as usize];
    assert!(answer.len() <= (1 << 20) + 256, "an answer of {} bytes", answer.len());
    stream.read_exact(&mut answer).ok()?;
    assert_eq!(answer[..4], [0, 0, 0, 5], "the number of the call");
    Some(answer.split_off(20))
}

fn call(stream: &mut TcpStream, (program, version, procedure): (u32, u32, u32), arguments: &[u8]) -> Option<Vec<u8>> {
    let mut body = words(&[5, 0, 2, program, version, procedure, 0, 0, 0, 0]);
    body.extend(arguments);
    send(stream, &body)
}

/// A call that is accepted: its own status, and what follows.
fn accepted(stream: &mut TcpStream, call_of: (u32, u32, u32), arguments: &[u8]) -> (u32, Vec<u8>) {
    let answer = call(stream, call_of, arguments).unwrap();
    assert_eq!(word(&answer, 0), 0, "{call_of:?} was not accepted");
    (word(&answer, 1), answer[8..].to_vec())
}

/// The word at a place of an answer.
fn word(answer: &[u8], place: usize) -> u32 {
    u32::from_be_bytes(answer[4 * place..4 * place + 4].try_into().unwrap())
}

/// The bytes with their length before them at the head of an answer.
fn handle(answer: &[u8]) -> Vec<u8> {
    answer[4..4 + word(answer, 0) as usize].to_vec()
}

fn connect(lent: &Lent) -> TcpStream {
    let stream = TcpStream::connect(SocketAddr::new(lent.place.server, lent.place.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// Handles of the directory and of the file.
fn handles(stream: &mut TcpStream, lent: &Lent) -> (Vec<u8>, Vec<u8>) {
    let path = lent.place.path.strip_suffix("/blocks").unwrap();
    let (status, answer) = accepted(stream, (MOUNT, 3, 1), &opaque(path.as_bytes()));
    assert_eq!(status, 0);
    let directory = handle(&answer);
    let (status, answer) = accepted(stream, (NFS, 3, 3), &[opaque(&directory), opaque(b"blocks")].concat());
    assert_eq!(status, 0);
    (directory, handle(&answer))
}

#[test]
fn paths_names_and_handles_that_are_none_open_nothing() {
    let peer = peer(&["--scratch", env!("CARGO_TARGET_TMPDIR")]);
    let (mut partner, lent) = exporting(&peer);
    let mut stream = connect(&lent);
    let path = lent.place.path.strip_suffix("/blocks").unwrap();
    for wrong in
        ["", "/", "/etc", "..", &path[..path.len() - 1], &format!("{path}/.."), &format!("{path}/blocks"), "\0"]
    {
        let (status, _) = accepted(&mut stream, (MOUNT, 3, 1), &opaque(wrong.as_bytes()));
        assert_eq!(status, NOENT, "{wrong}");
    }
    // What is exported and who has it is not told.
    for list in [2, 5] {
        assert_eq!(accepted(&mut stream, (MOUNT, 3, list), &[]), (0, Vec::new()));
    }
    let (directory, file) = handles(&mut stream, &lent);
    for name in ["..", "../..", "/", "/etc/passwd", "blocks/..", "blocks\0", "Blocks", ""] {
        let (status, _) = accepted(&mut stream, (NFS, 3, 3), &[opaque(&directory), opaque(name.as_bytes())].concat());
        assert_eq!(status, NOENT, "{name}");
    }
    let (status, _) = accepted(&mut stream, (NFS, 3, 3), &[opaque(&file), opaque(b"..")].concat());
    assert_eq!(status, NOTDIR);
    let mut other = file.clone();
    other[7] ^= 1;
    for wrong in [&other[..], &file[..15], &[], &[0; 64], &[file.clone(), vec![0]].concat()] {
        let (status, _) = accepted(&mut stream, (NFS, 3, 6), &[opaque(wrong), words(&[0, 0, 4096])].concat());
        assert_eq!(status, BADHANDLE, "{wrong:?}");
    }
    let (status, _) = accepted(&mut stream, (NFS, 3, 6), &[opaque(&directory), words(&[0, 0, 4096])].concat());
    assert_eq!(status, ISDIR);
    // What asks for more than there is gets what there is, and never more than a megabyte at once.
    let read = |stream: &mut TcpStream, offset: u64, count: u32| {
        let place = words(&[(offset >> 32) as u32, offset as u32, count]);
        let (status, answer) = accepted(stream, (NFS, 3, 6), &[opaque(&file), place].concat());
        assert_eq!(status, 0);
        // Attributes follow a word that says so: 21 words.
        (word(&answer, 22), word(&answer, 23), word(&answer, 24))
    };
    assert_eq!(read(&mut stream, 0, u32::MAX), (1 << 20, 0, 1 << 20));
    assert_eq!(read(&mut stream, BYTES - 10, 4096), (10, 1, 10));
    assert_eq!(read(&mut stream, BYTES, 4096), (0, 1, 0));
    assert_eq!(read(&mut stream, u64::MAX, u32::MAX), (0, 1, 0));
    assert!(partner.end_export().unwrap().refused >= 22);
}

#[test]
fn nothing_can_be_written() {
    let peer = peer(&["--scratch", env!("CARGO_TARGET_TMPDIR")]);
    let (_partner, lent) = exporting(&peer);
    let mut stream = connect(&lent);
    let (directory, file) = handles(&mut stream, &lent);
    let (entry, nothing) = ([opaque(&directory), opaque(b"new")].concat(), words(&[0; 8]));
    // SETATTR, WRITE, CREATE, MKDIR, SYMLINK, MKNOD, REMOVE, RMDIR, RENAME, LINK, COMMIT, with the words of their refusals.
    let write = [opaque(&file), words(&[0, 0, 4, 2]), opaque(b"gone")].concat();
    for (procedure, arguments, length) in [
        (2, [opaque(&file), nothing.clone()].concat(), 8),
        (7, write, 8),
        (8, [entry.clone(), nothing.clone()].concat(), 8),
        (9, [entry.clone(), nothing.clone()].concat(), 8),
        (10, [entry.clone(), nothing.clone(), opaque(b"/etc/passwd")].concat(), 8),
        (11, [entry.clone(), nothing].concat(), 8),
        (12, [opaque(&directory), opaque(b"blocks")].concat(), 8),
        (13, [opaque(&directory), opaque(b"blocks")].concat(), 8),
        (14, [entry.clone(), entry.clone()].concat(), 16),
        (15, [opaque(&file), entry].concat(), 12),
        (21, [opaque(&file), words(&[0; 3])].concat(), 8),
    ] {
        let (status, rest) = accepted(&mut stream, (NFS, 3, procedure), &arguments);
        assert_eq!((status, rest.len()), (ROFS, length), "procedure {procedure}");
    }
    let mut reader = Reader::open(&lent.place).unwrap();
    let take = |offset, found: &[u8]| {
        assert!(stamped(found, offset, lent.identity), "the file is as it was");
        Ok(())
    };
    reader.read(0, 1 << 20, take).unwrap();
}

/// The process that serves an export: the only grandchild of the peer.
fn server(peer: &Serving) -> Option<u32> {
    let children = |process: u32| -> Vec<u32> {
        let text = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
        text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    children(peer.process.id()).into_iter().flat_map(children).next()
}

/// Resident and largest memory of a process in KiB.
fn memory(process: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let of = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    (of("VmRSS:"), of("VmHWM:"))
}

#[test]
fn garbage_floods_and_lengths_without_bounds_cost_nothing() {
    let peer = peer(&["--scratch", env!("CARGO_TARGET_TMPDIR")]);
    let (mut partner, lent) = exporting(&peer);
    let server = server(&peer).unwrap();
    // Calls that are none of ours are answered in the words of the protocol.
    let mut stream = connect(&lent);
    for (of, status) in [
        ((100_000, 2, 3), PROGRAM_UNAVAILABLE),
        ((NFS, 4, 0), PROGRAM_MISMATCH),
        ((MOUNT, 1, 0), PROGRAM_MISMATCH),
        ((NFS, 3, 99), PROCEDURE_UNAVAILABLE),
        ((MOUNT, 3, 99), PROCEDURE_UNAVAILABLE),
        ((NFS, 3, 1), GARBAGE_ARGUMENTS),
        ((NFS, 3, 6), GARBAGE_ARGUMENTS),
        ((MOUNT, 3, 1), GARBAGE_ARGUMENTS),
    ] {
        assert_eq!(word(&call(&mut stream, of, &[]).unwrap(), 0), status, "{of:?}");
    }
    // A handle of four gibibytes, in a call of a few bytes.
    assert_eq!(word(&call(&mut stream, (NFS, 3, 1), &words(&[u32::MAX])).unwrap(), 0), GARBAGE_ARGUMENTS);
    // Bytes that are not a call end their connection.
    for bytes in [words(&[5, 1, 0, 0, 0, 0]), words(&[5, 0, 9, NFS, 3, 0, 0, 0, 0, 0]), vec![0; 64], vec![7; 5]] {
        assert_eq!(send(&mut connect(&lent), &bytes), None, "{bytes:?}");
    }
    let credentials = [words(&[5, 0, 2, NFS, 3, 0, 1, u32::MAX]), vec![0; 400]].concat();
    assert_eq!(send(&mut connect(&lent), &credentials), None, "credentials without bounds");
    let before = memory(server).0;
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..200 {
        let mut stream = connect(&lent);
        let mut bytes: Vec<u8> = (0..random.usize(1..3000)).map(|_| random.u8(..)).collect();
        if random.bool() {
            bytes.splice(0..0, words(&[0xffff_ffff]));
        }
        // The other side may have closed already.
        let _ = stream.write_all(&bytes);
    }
    let idle: Vec<TcpStream> = (0..50).map(|_| connect(&lent)).collect();
    let mut reader = Reader::open(&lent.place).unwrap();
    reader.read(0, 1 << 20, |_, _| Ok(())).unwrap();
    drop(idle);
    let (now, most) = memory(server);
    assert!(now <= before + (2 << 10) && most < 16 << 10, "from {before} to {now} KiB, at most {most}");
    assert!(partner.end_export().unwrap().refused > 200);
}

#[test]
fn only_the_client_is_heard_and_only_within_its_bounds() {
    let peer = peer(&["--scratch", env!("CARGO_TARGET_TMPDIR"), "--bytes", "3M"]);
    let (mut partner, lent) = exporting(&peer);
    // The session's client is 127.0.0.1; this is another.
    let stranger = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    stranger.bind(&SocketAddr::new(IpAddr::from([127, 0, 0, 9]), 0).into()).unwrap();
    stranger.connect(&SocketAddr::new(lent.place.server, lent.place.port).into()).unwrap();
    stranger.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert_eq!(call(&mut stranger.into(), (NFS, 3, 0), &[]), None, "a stranger is not answered");
    let mut reader = Reader::open(&lent.place).unwrap();
    for _ in 0..2 {
        reader.read(0, 1 << 20, |_, _| Ok(())).unwrap();
    }
    assert!(reader.read(0, 1 << 20, |_, _| Ok(())).is_err(), "a session has its bytes and no more");
    assert_eq!(partner.end_export().unwrap().refused, 2, "the stranger, and the mount of the path of the file");
    // More than the peer's file system has to spare, or than any request may ask.
    for bytes in [0, 1 << 40] {
        assert!(partner.export(false, bytes).unwrap_err().what.contains("bounds"));
    }
    drop(partner);
    let full = crate::support::namespaces::must;
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    full(&["mount", "-t", "tmpfs", "-o", "size=4m", "none", place]);
    let small = peer_in(place);
    let refused = Partner::elsewhere(small.address.parse().unwrap(), &Secret::of(&small.secret).unwrap())
        .unwrap()
        .export(false, BYTES)
        .unwrap_err();
    drop(small);
    full(&["umount", place]);
    assert!(refused.what.contains("a tenth of what is free"), "{refused}");
}

fn peer_in(directory: &str) -> Serving {
    peer(&["--scratch", directory])
}
