//! Known truth for reads of files on another machine: real servers behind paths whose delay and rate a test makes. A read
//! that waits for its answer takes as much longer as the path does, and a long one as much as its bytes at the rate.
//!
//! The servers are nfs-ganesha, a real sshd under sshfs, and the program as a peer; they run in network namespaces that are
//! removed again. Needs root. The relay runs on the same CPUs as what it delays: a comparison is tried again a few times.
#![allow(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]

mod support;

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use support::namespaces::{FAR, Namespaces, Serving, must};
use support::runs::{PROGRAM, ended, measuring, of_others, output, result, text, told, wait_until};
use support::truth;
use tempfile::TempDir;

/// Ports of the servers of these tests.
const NFS_PORT: &str = "20490";
const MOUNT_PORT: &str = "20491";
const SSH_PORT: &str = "2222";
/// Bytes of the file that is read over NFS.
const BYTES: usize = 24 << 20;

/// Something in a process group of its own, which ends with this value.
struct Daemon {
    process: Child,
    _directory: TempDir,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = killpg(Pid::from_raw(self.process.id() as i32), Signal::SIGKILL);
        let _ = self.process.wait();
    }
}

/// Waits until somebody listens at a port on the far side.
fn listens(namespaces: &Namespaces, port: &str) {
    wait_until(&format!("something listens at port {port}"), Duration::from_secs(30), || {
        let words = ["-H", "-t", "-l", "-n", "sport", "=", &format!(":{port}")].map(str::to_owned);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let found = Namespaces::command(&namespaces.far, "ss", &words).output().unwrap();
        (!found.stdout.is_empty()).then_some(())
    });
}

/// nfs-ganesha on the far side with one file, and the address of that file.
fn ganesha(namespaces: &Namespaces) -> (Daemon, String) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let mut bytes = vec![0; BYTES];
    fastrand::Rng::with_seed(1).fill(&mut bytes);
    fs::create_dir(at("export")).unwrap();
    fs::write(at("export/file"), &bytes).unwrap();
    let configuration = format!(
        "NFS_CORE_PARAM {{ Protocols = 3; NFS_Port = {NFS_PORT}; MNT_Port = {MOUNT_PORT}; Enable_NLM = false; \
         Enable_RQUOTA = false; }}\nNFS_KRB5 {{ Active_krb5 = false; }}\nEXPORT {{ Export_Id = 1; Path = {0}; Pseudo = /x; \
         Protocols = 3; Access_Type = RO; Squash = No_Root_Squash; Transports = TCP; SecType = sys; FSAL {{ Name = VFS; }} }}\n",
        at("export")
    );
    fs::write(at("configuration"), configuration).unwrap();
    // In the foreground it ends with this process group.
    // The port mapper keeps a lock and a socket in /run: its own here, so that one of the system is not in the way.
    let script = format!(
        "mount -t tmpfs none /run; rpcbind -w -f & until [ -S /run/rpcbind.sock ]; do sleep 0.02; done; exec ganesha.nfsd -F -f {} -L {} -p /run/ganesha.pid",
        at("configuration"),
        at("log")
    );
    let mut command = Namespaces::command(&namespaces.far, "sh", &["-c", &script]);
    let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let url = format!("nfs://{FAR}:{NFS_PORT}{}?mountport={MOUNT_PORT}", at("export/file"));
    let daemon = Daemon { process, _directory: directory };
    listens(namespaces, NFS_PORT);
    (daemon, url)
}

/// Runs the experiment in the near namespace, once more where no launch read anything.
fn run(namespaces: &Namespaces, words: &[&str]) -> Value {
    let first = run_once(namespaces, words);
    let measured = !first["experiments"][0]["metrics"].as_array().unwrap().is_empty();
    if measured { first } else { run_once(namespaces, words) }
}

fn run_once(namespaces: &Namespaces, words: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("run");
    let fixed = ["run", "file.remote_read", "--quick", "--no-progress", "-o", place.to_str().unwrap()];
    let output = Namespaces::command(&namespaces.near, PROGRAM, &[&fixed[..], words].concat()).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    result(&place)
}

fn with_peer(peer: &Serving) -> [&str; 4] {
    ["--peer", &peer.address, "--peer-secret", &peer.secret]
}

/// Milliseconds of a random read from memory.
fn random_read(result: &Value, via: &str, bytes: u32) -> f64 {
    let bytes = bytes.to_string();
    let wanted = [("via", via), ("order", "random"), ("server", "warm"), ("bytes", &bytes)];
    figure(result, "file.remote_read.block_time", &wanted) / 1e6
}

fn figure(result: &Value, metric: &str, wanted: &[(&str, &str)]) -> f64 {
    let section = &result["experiments"][0];
    let found =
        section["metrics"].as_array().unwrap().iter().find(|found| {
            found["name"] == metric && wanted.iter().all(|(label, value)| found["labels"][label] == *value)
        });
    let found = found.unwrap_or_else(|| panic!("{metric} {wanted:?} is not there: {}", section["rejected"]));
    found["value"].as_f64().unwrap()
}

/// Tries a comparison a few times.
fn holds(what: &str, compare: impl FnMut() -> Result<(), String>) {
    truth::holds(4, what, compare);
}

/// Two figures over relays of two delays must be apart by the difference of their round trips, within 3 %.
fn apart(what: &str, [short, long]: [f64; 2], [from, to]: [f64; 2]) -> Result<(), String> {
    let (slope, above) = ((long - short) / (2.0 * (to - from)), short - 2.0 * from);
    println!("{what}: {short} ms, {long} ms, slope {slope}");
    if (slope - 1.0).abs() <= 0.03 && above > 0.0 {
        Ok(())
    } else {
        Err(format!("{what}: {short} ms over {from} ms each way, {long} over {to}: a slope of {slope}"))
    }
}

#[test]
fn a_read_waits_for_exactly_one_round_trip_over_nfs_and_from_a_peer() {
    let _alone = measuring();
    let delays = [1.0, 6.0];
    let measure = |delay: f64| {
        let namespaces = Namespaces::new();
        let _relay = namespaces.relay(Duration::from_secs_f64(delay / 1e3));
        let (_server, url) = ganesha(&namespaces);
        let peer = namespaces.peer(&["--scratch", env!("CARGO_TARGET_TMPDIR")]);
        run(&namespaces, &[&["--nfs", &url][..], &with_peer(&peer)].concat())
    };
    holds("relays of 1 and 6 ms", || {
        let results = delays.map(measure);
        for via in ["nfs", "peer"] {
            apart(via, results.each_ref().map(|result| random_read(result, via, 4096)), delays)?;
            let of = |result: &Value| {
                figure(
                    result,
                    "file.remote_read.network_penalty",
                    &[("via", via), ("order", "random"), ("bytes", "4096")],
                )
            };
            apart(&format!("penalty via {via}"), results.each_ref().map(|result| of(result) / 1e6), delays)?;
        }
        let section = &results[1]["experiments"][0];
        let said = section["analysis"].to_string();
        for words in ["Over NFS:", "From the peer at", "proven to be out of the peer's page cache"] {
            assert!(said.contains(words), "{words} is missing: {said}");
        }
        assert!(section["series"].as_array().unwrap().iter().any(|curve| curve["name"] == "file.remote_read.by_size"));
        Ok(())
    });
}

/// Milliseconds by which a read of a mebibyte is longer than one of a quarter behind a token bucket of so many bits per second:
/// what the bucket counts for the payload of full segments. Its credit is in both reads alike.
fn longer_at(bits_per_second: f64) -> f64 {
    f64::from((1 << 20) - (256 << 10)) * 8.0 / bits_per_second * (1500.0 + 14.0) / (1500.0 - 52.0) * 1e3
}

#[test]
fn a_long_read_takes_its_bytes_at_the_rate_of_the_path() {
    let _alone = measuring();
    let namespaces = Namespaces::new();
    namespaces.join();
    namespaces.shape(100);
    let (_server, url) = ganesha(&namespaces);
    let peer = namespaces.peer(&["--scratch", env!("CARGO_TARGET_TMPDIR")]);
    let truth = longer_at(100e6);
    holds("100 Mbit/s", || {
        let result = run(&namespaces, &[&["--nfs", &url][..], &with_peer(&peer)].concat());
        for via in ["nfs", "peer"] {
            let found = random_read(&result, via, 1 << 20) - random_read(&result, via, 256 << 10);
            println!("{via}: {found} ms, the shaper {truth}");
            if (found / truth - 1.0).abs() > 0.03 {
                return Err(format!("{via}: 768 KiB more take {found} ms, the shaper {truth}"));
            }
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
    let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    listens(namespaces, SSH_PORT);
    let options = format!(
        "-p {SSH_PORT} -o IdentityFile={} -o IdentitiesOnly=yes -o StrictHostKeyChecking=no \
         -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR {FAR}:{}",
        at("user").display(),
        at("files").display()
    );
    let mounted = at("mounted");
    (Daemon { process, _directory: directory }, options, mounted)
}

/// Runs the experiment on an sshfs that is mounted for this and gone afterwards.
fn run_on_sshfs(namespaces: &Namespaces, options: &str, mounted: &Path) -> Output {
    let (place, here) = (mounted.with_file_name("run"), mounted.display());
    let script = format!(
        "sshfs {options} {here} && {PROGRAM} run file.remote_read --quick --no-progress -o {} --remote-dir {here}; status=$?; \
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
    namespaces.shape(100);
    let (_server, options, mounted) = sshd(&namespaces);
    let truth = longer_at(100e6);
    holds("100 Mbit/s", || {
        let place = mounted.with_file_name("run");
        let _ = fs::remove_dir_all(&place);
        let output = run_on_sshfs(&namespaces, &options, &mounted);
        assert!(output.status.success(), "{}", told(&output));
        let result = result(&place);
        let found = random_read(&result, "mount", 1 << 20) - random_read(&result, "mount", 256 << 10);
        println!("sshfs: {found} ms, the shaper {truth}");
        // The kernel asks for a read in pieces, and ssh wraps each.
        if (found / truth - 1.0).abs() > 0.05 {
            return Err(format!("768 KiB more take {found} ms, the shaper {truth}"));
        }
        Ok(())
    });
}

#[test]
fn a_read_through_a_mount_waits_for_exactly_one_round_trip() {
    let _alone = measuring();
    let delays = [1.0, 6.0];
    let measure = |delay: f64| {
        let namespaces = Namespaces::new();
        let _relay = namespaces.relay(Duration::from_secs_f64(delay / 1e3));
        let (_server, options, mounted) = sshd(&namespaces);
        let output = run_on_sshfs(&namespaces, &options, &mounted);
        assert!(output.status.success(), "{}", told(&output));
        let left = fs::read_to_string(mounted.with_file_name("left")).unwrap();
        assert_eq!(left, "", "the file on the other machine is gone");
        result(&mounted.with_file_name("run"))
    };
    holds("relays of 1 and 6 ms", || {
        let results = delays.map(measure);
        let met = &results[0]["remote"]["directory"];
        assert_eq!(met["file_system"], "fuse.sshfs", "{met}");
        assert!(results[0]["experiments"][0]["rejected"].to_string().contains("just written"));
        apart("sshfs", results.each_ref().map(|result| random_read(result, "mount", 4096)), delays)
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
    let round_trip = 4e6;
    let namespaces = Namespaces::new();
    let _relay = namespaces.relay(Duration::from_millis(2));
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
        assert!(!whole || said.contains(&format!("(via {via}) from the other machine's memory")), "{said}");
    }
    let compared = ["A random block takes ", "more through the mount, ", "more over NFS, ", "more from the peer."];
    assert!(!whole || compared.iter().all(|words| said.contains(words)), "{said}");
}

#[test]
fn what_is_no_file_on_another_machine_is_said() {
    // Nobody listens there: a port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(TcpStream::connect(free).is_err());
    let nowhere = format!("nfs://{free}/export/file?mountport={}", free.port());
    for (words, code, said) in [
        (&["--remote-dir", "/"][..], 2, "not a remote one"),
        (&["--remote-dir", "/nonexistent"], 2, "cannot look at"),
        (&["--nfs", "server:/export"], 2, "does not begin with nfs://"),
        (&["--nfs", "nfs://server"], 2, "has no path"),
        (&["--nfs", &nowhere], 1, "cannot be reached"),
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

#[test]
fn an_export_that_does_not_answer_ends_in_time() {
    let namespaces = Namespaces::new();
    let relay = namespaces.relay(Duration::from_millis(3));
    let (server, url) = ganesha(&namespaces);
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("run");
    let words = ["run", "file.remote_read", "--no-progress", "-o", place.to_str().unwrap(), "--nfs", &url];
    let mut command: Command = Namespaces::command(&namespaces.near, PROGRAM, &words);
    let mut child = support::runs::Leashed(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait_until("a launch reads", Duration::from_mins(1), || {
        let log = fs::read_to_string(place.join("log.jsonl")).unwrap_or_default();
        log.contains("\"record\":\"launch\"").then_some(())
    });
    std::thread::sleep(Duration::from_millis(300));
    relay.cut();
    wait_until("the run ends", Duration::from_mins(1), || child.0.try_wait().unwrap());
    let result = result(&place);
    let failed = result["experiments"][0]["failed_launches"].to_string();
    assert!(failed.contains("not answered") || failed.contains("cannot be"), "{failed}");
    drop(server);
}
