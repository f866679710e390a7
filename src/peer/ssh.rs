//! A peer that is brought along: copied through ssh, started there, gone afterwards.
//!
//! One ssh connection carries everything: the program, the secret, and the life of the peer, which ends when the
//! connection does, however that comes about. The program's file is removed as soon as the peer runs. Measured traffic
//! does not pass through ssh; it goes straight to the address at which ssh reached the machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::results::problem::Problem;

use super::authentication::Secret;

/// Time for ssh to connect, for the program to be copied, and for the peer to start.
const PATIENCE: Duration = Duration::from_mins(2);
/// Before the address in the peer's first line.
pub const ANNOUNCEMENT: &str = "peer ready at ";
/// Beginning of the directory that a copy lies in; nothing else is ever removed.
pub const DIRECTORY: &str = "sysdyno-peer.";

/// A peer on the other end of an ssh connection. It ends when this is dropped.
#[derive(Debug)]
pub struct Brought {
    ssh: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// The secret that it was given.
    pub secret: Secret,
}

/// What the shell there does. `head` takes exactly the program from the stream, and the rest of it is the peer's. A connection that
/// breaks ends the stream early, and `head` calls that a success.
fn script(bytes: u64) -> String {
    format!(
        "umask 077; d=$(mktemp -d \"${{TMPDIR:-/tmp}}/{DIRECTORY}XXXXXX\") || exit 9; \
         trap 'rm -rf \"$d\"' EXIT; trap 'exit 9' HUP INT TERM PIPE; \
         head -c {bytes} > \"$d/sysdyno\" && test $(wc -c < \"$d/sysdyno\") -eq {bytes} && chmod 700 \"$d/sysdyno\" || exit 9; \
         set -- $SSH_CONNECTION; case \"$3\" in *:*) a=\"[$3]:0\";; *) a=\"$3:0\";; esac; \
         \"$d/sysdyno\" peer --listen \"$a\" --secret-file - --until-input-ends --remove-program"
    )
}

/// Refuses what ssh would take for something else than a host: above all an option of ssh that runs a command.
pub fn check_host(text: &str) -> Result<(), Problem> {
    let (user, host) = text.rsplit_once('@').unwrap_or(("user", text));
    let is_option = |word: &str| word.is_empty() || word.starts_with('-');
    if is_option(text) || is_option(user) || is_option(host) {
        let what =
            Problem::new(format!("'{text}' is not a valid ssh host. A host is not empty and does not begin with '-'"));
        return Err(what.hint("give ssh://HOST, ssh://USER@HOST or ssh://USER@HOST:PORT"));
    }
    Ok(())
}

/// Copies this very program to a host and starts it there as a peer.
pub fn bring(host: &str) -> Result<Brought, Problem> {
    check_host(host)?;
    let program = std::fs::read("/proc/self/exe")
        .map_err(|error| Problem::new(format!("cannot read this program to copy it: {error}")))?;
    let secret = Secret::fresh()?;
    let (target, port) = match host.rsplit_once(':') {
        Some((target, port)) if port.parse::<u16>().is_ok() => (target, Some(port)),
        _ => (host, None),
    };
    let mut command = Command::new("ssh");
    command.args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5"]);
    command.args(port.map(|port| ["-p", port]).into_iter().flatten());
    let mut ssh = command
        .arg(target)
        .arg(format!("sh -c '{}'", script(program.len() as u64).replace('\'', "'\\''")))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // An interrupt from the terminal is for the run, which then ends this connection in an orderly way.
        .process_group(0)
        .spawn()
        .map_err(|error| {
            Problem::new(format!("cannot start ssh: {error}"))
                .hint("install an ssh client, or start `sysdyno peer` there and use --peer HOST:PORT")
        })?;
    let outcome = start(&mut ssh, &program, &secret);
    match outcome {
        Ok(address) => Ok(Brought { ssh, address, secret }),
        Err(problem) => {
            let _ = ssh.kill();
            let _ = ssh.wait();
            Err(problem)
        }
    }
}

/// Sends program and secret and waits for the announcement.
fn start(ssh: &mut Child, program: &[u8], secret: &Secret) -> Result<SocketAddr, Problem> {
    let (Some(output), Some(complaints)) = (ssh.stdout.take(), ssh.stderr.take()) else {
        return Err(Problem::new("ssh has no output"));
    };
    // Reading waits for the other machine, which may never answer: a thread does it, and is left behind if need be.
    let (said, heard) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = BufReader::new(output.take(4096)).read_line(&mut line);
        let mut complaint = String::new();
        if !line.starts_with(ANNOUNCEMENT) {
            let _ = complaints.take(4096).read_to_string(&mut complaint);
        }
        let _ = said.send((line, complaint));
    });
    let sent = ssh.stdin.as_mut().map(|input| {
        input.write_all(program).and_then(|()| writeln!(input, "{}", secret.text())).and_then(|()| input.flush())
    });
    let (line, complaint) = heard.recv_timeout(PATIENCE).map_err(|_| {
        Problem::new("the peer behind ssh did not start in time")
            .hint("run `ssh HOST true` to see whether it asks a question")
    })?;
    let complaint = complaint.lines().last().unwrap_or("without a message").to_owned();
    let failed = || {
        Problem::new(format!("cannot start the peer through ssh: {complaint}")).hint(
            "run `ssh HOST true`. It must succeed without a question, and the other machine must have this \
                   machine's architecture",
        )
    };
    if !matches!(sent, Some(Ok(()))) {
        return Err(failed());
    }
    line.strip_prefix(ANNOUNCEMENT).and_then(|rest| rest.split_whitespace().next()?.parse().ok()).ok_or_else(failed)
}

impl Drop for Brought {
    fn drop(&mut self) {
        // The end of its input ends the peer, which ends the shell, which ends ssh.
        drop(self.ssh.stdin.take());
        for _ in 0..40 {
            if matches!(self.ssh.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.ssh.kill();
        let _ = self.ssh.wait();
    }
}

/// Removes the copy that this process runs from, if it lies where a copy lies.
pub fn remove_own_copy() {
    let Ok(program) = std::env::current_exe() else { return };
    let Some(directory) = program.parent() else { return };
    let is_copy = directory.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(DIRECTORY));
    if is_copy {
        // What cannot be removed here is removed by the shell when the peer ends.
        let _ = std::fs::remove_file(&program);
        let _ = std::fs::remove_dir(directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the script of a program of this many bytes with what comes of it. Nothing reads what it says. Its exit status, and what
    /// is left.
    fn left(bytes: u64, comes: &str) -> (Option<i32>, Vec<std::path::PathBuf>) {
        let keep = tempfile::tempdir().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", &script(bytes)]).current_dir(keep.path()).env("TMPDIR", keep.path());
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop((shell.stdout.take(), shell.stderr.take()));
        shell.stdin.take().unwrap().write_all(comes.as_bytes()).unwrap();
        let status = shell.wait().unwrap().code();
        (status, keep.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect())
    }

    #[test]
    fn a_copy_that_breaks_off_is_not_started_and_nothing_is_left() {
        let program = "#!/bin/sh\necho ran >ran\n";
        assert_eq!(left(program.len() as u64 + 1, program), (Some(9), Vec::new()));
    }

    #[test]
    fn a_program_that_crashes_leaves_nothing_where_nobody_hears_of_it() {
        let program = "#!/bin/sh\nkill -SEGV $$\n";
        assert_eq!(left(program.len() as u64, program).1, Vec::<std::path::PathBuf>::new());
    }
}
