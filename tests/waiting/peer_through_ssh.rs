//! A peer that is brought along through ssh, to a real sshd in a network namespace: it comes up, is measured, and leaves
//! nothing behind, also when the run is interrupted or killed. Needs root, for the namespaces and for sshd.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::namespaces::{FAR, NEAR, Namespaces, must};
use crate::support::places::executable;
use crate::support::runs::{Leashed, PROGRAM, log_text, measuring, result, sysdyno, told, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// Port of the sshd of the test.
const PORT: &str = "2222";

/// An sshd in the far namespace, and an `ssh` that knows how to reach it and nothing else.
struct Sshd {
    namespaces: Namespaces,
    daemon: Child,
    directory: TempDir,
}

impl Sshd {
    fn start() -> Self {
        let namespaces = Namespaces::new();
        namespaces.join();
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for key in ["host", "user"] {
            must(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", at(key).to_str().unwrap()]);
        }
        fs::copy(at("user.pub"), at("authorized")).unwrap();
        // Where sshd separates its privileges; a system that runs one has it.
        fs::create_dir_all("/run/sshd").unwrap();
        fs::create_dir(at("scratch")).unwrap();
        let configuration = format!(
            "Port {PORT}\nListenAddress {FAR}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\n\
             PermitRootLogin yes\nPasswordAuthentication no\nSetEnv TMPDIR={}\n",
            at("host").display(),
            at("authorized").display(),
            at("scratch").display()
        );
        fs::write(at("sshd_config"), configuration).unwrap();
        let program = ["/usr/sbin/sshd", "/usr/bin/sshd"].into_iter().find(|path| Path::new(path).exists());
        let program = program.expect("sshd is needed here: apt-get install openssh-server");
        let configured = at("sshd_config");
        let words = ["-D", "-e", "-f", configured.to_str().unwrap()];
        let mut command = Namespaces::command(&namespaces.far, program, &words);
        let daemon = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let wrapper = format!(
            "#!/bin/sh\nexec /usr/bin/ssh -i {} -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
             -o LogLevel=ERROR -p {PORT} \"$@\"\n",
            at("user").display()
        );
        fs::create_dir(at("bin")).unwrap();
        executable(&at("bin/ssh"), wrapper.as_bytes());
        let sshd = Sshd { namespaces, daemon, directory };
        wait_until("sshd listens", Duration::from_secs(10), || {
            let probe = sshd.near("/usr/bin/env", &["ssh", FAR, "true"]).output().unwrap();
            probe.status.success().then_some(())
        });
        sshd
    }

    fn near(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Namespaces::command(&self.namespaces.near, program, words);
        let path = format!("{}:{}", self.directory.path().join("bin").display(), std::env::var("PATH").unwrap());
        command.env("PATH", path);
        command
    }

    fn run(&self, place: &Path, words: &[&str]) -> Command {
        let peer = format!("ssh://{FAR}");
        let fixed = ["run", "--no-progress", "--peer", &peer, "-o", place.to_str().unwrap()];
        self.near(PROGRAM, &[&fixed[..], words].concat())
    }

    /// Peers that run from a copy, and what is left of copies.
    fn left(&self) -> (usize, Vec<PathBuf>) {
        let processes = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
            let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).contains(&format!("{}/sysdyno-peer.", self.scratch().display()))
        });
        let files = fs::read_dir(self.scratch()).unwrap().flatten().map(|entry| entry.path()).collect();
        (processes.count(), files)
    }

    fn scratch(&self) -> PathBuf {
        self.directory.path().join("scratch")
    }

    fn assert_nothing_left(&self, when: &str) {
        wait_until(&format!("nothing is left {when}"), Duration::from_secs(15), || {
            let (processes, files) = self.left();
            (processes == 0 && files.is_empty()).then_some(())
        });
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = nix::sys::signal::killpg(Pid::from_raw(self.daemon.id() as i32), Signal::SIGKILL);
        let _ = self.daemon.wait();
    }
}

#[test]
fn a_peer_through_ssh_measures_and_leaves_nothing_behind() {
    let _alone = measuring();
    let sshd = Sshd::start();
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("run");
    let output = sshd.run(&place, &["network.connection", "--quick", "--time=3s"]).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let result = result(&place);
    assert_eq!((&result["peer"]["started"], &result["peer"]["address"]), (&"ssh".into(), &FAR.into()));
    let metrics = result["experiments"][0]["metrics"].as_array().unwrap();
    assert!(metrics.iter().any(|metric| metric["labels"]["path"] == "remote"), "{metrics:?}");
    sshd.assert_nothing_left("after a run");
}

#[test]
fn an_interrupted_or_killed_run_leaves_nothing_behind_either() {
    let _alone = measuring();
    let sshd = Sshd::start();
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("run");
        let mut command = sshd.run(&place, &["network.connection"]);
        let mut child = Leashed(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        wait_until("the run measures", Duration::from_mins(1), || {
            let log = log_text(&place);
            (log.matches("\"record\":\"launch_end\"").count() >= 2).then_some(())
        });
        assert!(sshd.left().0 > 0, "a peer runs there");
        kill(Pid::from_raw(child.0.id() as i32), signal).unwrap();
        let status = wait_until("the run ends", Duration::from_secs(30), || child.0.try_wait().unwrap());
        if signal == Signal::SIGINT {
            assert_eq!(status.code(), Some(130));
        }
        sshd.assert_nothing_left(&format!("after {signal}"));
    }
}

#[test]
fn a_host_that_cannot_be_reached_by_ssh_is_said() {
    let sshd = Sshd::start();
    fs::write(sshd.directory.path().join("authorized"), "").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let output =
        sshd.run(&directory.path().join("run"), &["network.connection", "--quick", "--time=3s"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(
        told(&output).contains("Permission denied") && told(&output).contains("hint: run `ssh HOST true`"),
        "{}",
        told(&output)
    );
}

#[test]
fn the_script_for_ssh_measures_a_node_and_leaves_nothing_there() {
    let _alone = measuring();
    let sshd = Sshd::start();
    let directory = tempfile::tempdir().unwrap();
    let script = sysdyno(&["script", "ssh"]).output().unwrap();
    fs::write(directory.path().join("measure-nodes"), &script.stdout).unwrap();
    // At the near address no sshd listens.
    let mut command = sshd.near("bash", &["measure-nodes", FAR, NEAR]);
    command.current_dir(directory.path()).env("SYSDYNO", PROGRAM);
    let output = command.env("SYSDYNO_OPTIONS", "--quick --time 1s cpu.loop").output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    let said = told(&output);
    assert!(said.contains(&format!("missing    1 node: {NEAR}")) && said.contains("Connection refused"), "{said}");
    let results = directory.path().join("sysdyno-fleet").read_dir().unwrap().map(|entry| entry.unwrap().path());
    let [result] = results.collect::<Vec<PathBuf>>().try_into().unwrap();
    let node: serde_json::Value = serde_json::from_slice(&fs::read(result).unwrap()).unwrap();
    assert_eq!(node["experiments"][0]["id"], "cpu.loop", "{said}");
    sshd.assert_nothing_left("after the script");
}
