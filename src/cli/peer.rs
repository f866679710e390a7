//! `sysdyno peer`: the other machine's side.

use std::io::Write;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use signal_hook::flag;

use super::arguments::PeerOptions;
use super::peer_options::{VARIABLE, read_secret};
use super::{DONE, Failure, print};
use crate::conduct::interrupt::signals_that_end;
use crate::peer::authentication::Secret;
use crate::peer::limits::SessionLimits;
use crate::peer::server::Server;
use crate::peer::ssh;
use crate::results::problem::Problem;
use crate::sys::process;

pub(super) fn peer(options: &PeerOptions) -> Result<u8, Failure> {
    let (secret, how) = secret(options)?;
    let limits = SessionLimits {
        sessions: usize::from(options.sessions),
        session_time: Duration::from_secs_f64(options.session_time),
        idle: Duration::from_secs_f64(options.idle),
        bytes: options.bytes,
        rate: options.rate,
    };
    let scratch = options.scratch.clone().unwrap_or_else(writable);
    let server =
        Server::listen(options.listen, secret.clone(), limits, options.pretend.unwrap_or_default(), Some(scratch))?;
    let address = server.address()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in signals_that_end() {
        flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::while_working(Problem::new(format!("cannot watch for signals: {error}"))))?;
    }
    if options.remove_program {
        ssh::remove_own_copy();
    }
    let host = if address.ip().is_unspecified() {
        format!("{}:{}", process::host_name(), address.port())
    } else {
        address.to_string()
    };
    print(&format!("{}{address}\nsysdyno run network --peer {host} {how}\n", ssh::ANNOUNCEMENT))?;
    let input = std::io::stdin();
    // The owner may have closed standard error: then warnings have no reader.
    let say = |line: &str| drop(writeln!(std::io::stderr(), "warning: {line}"));
    server.serve(&stop, options.until_input_ends.then(|| input.as_fd()), &say);
    Ok(DONE)
}

/// The secret and the words of the command on the other side that give it: from a file, from the environment, or a fresh one. One
/// that was given is not printed.
fn secret(options: &PeerOptions) -> Result<(Secret, String), Failure> {
    if let Some(file) = &options.secret_file {
        return Ok((read_secret(file)?, format!("--peer-secret-file {}", file.display())));
    }
    if let Ok(text) = std::env::var(VARIABLE) {
        let wrong = |problem: Problem| Problem { what: format!("{VARIABLE}: {}", problem.what), ..problem };
        let secret = Secret::of(&text).map_err(wrong)?;
        return Ok((secret, format!("# with the same {VARIABLE}")));
    }
    let secret = Secret::fresh()?;
    let how = format!("--peer-secret {}", secret.text());
    Ok((secret, how))
}

/// Where a file can be written that is on a disk as a rule: the current directory, else the system's for files that stay.
fn writable() -> PathBuf {
    let here = PathBuf::from(".");
    let allowed = nix::unistd::access(&here, nix::unistd::AccessFlags::W_OK).is_ok();
    if allowed { here } else { PathBuf::from("/var/tmp") }
}
