//! What was typed about the peer of a run, and its secret.

use std::io::Read;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;

use super::arguments::PeerChoice;
use crate::conduct::other_machines::{PeerTarget, addresses};
use crate::peer::authentication::{LONGEST_SECRET, Secret};
use crate::peer::resolve;
use crate::peer::ssh;
use crate::results::problem::Problem;

/// Where the secret may stand in the environment.
pub(super) const VARIABLE: &str = "SYSDYNO_PEER_SECRET";

/// Understands what was typed. No name is resolved, and the peer is not spoken to.
pub(super) fn target(choice: &PeerChoice) -> Result<Option<PeerTarget>, Problem> {
    let Some(wanted) = &choice.peer else {
        return if choice.peer_secret.is_some() || choice.peer_secret_file.is_some() {
            Err(Problem::new("you gave a secret but no peer").hint("name the peer with --peer HOST:PORT"))
        } else {
            Ok(None)
        };
    };
    if let Some(host) = wanted.strip_prefix("ssh://") {
        let host = host.trim_end_matches('/');
        ssh::check_host(host)?;
        return Ok(Some(PeerTarget::Ssh(host.to_owned())));
    }
    let secret = secret(choice)?;
    let (host, port) = resolve::split(wanted)?;
    Ok(Some(PeerTarget::At(host, port, secret)))
}

/// What a dry run says of the peer: names are resolved, but it is not spoken to.
pub(super) fn foresee(target: &PeerTarget) -> Result<String, Problem> {
    let at = match target {
        PeerTarget::Ssh(host) => format!("would be copied to {host} and started through ssh"),
        PeerTarget::At(host, port, _) => format!("at {}", any_of(&addresses(host, *port)?)),
    };
    Ok(format!("peer: {at}. Not contacted in a dry run\n"))
}

/// Addresses as alternatives.
pub(super) fn any_of(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<String>>().join(" or ")
}

fn secret(choice: &PeerChoice) -> Result<Secret, Problem> {
    if let Some(text) = &choice.peer_secret {
        return Secret::of(text);
    }
    given_secret(choice.peer_secret_file.as_deref().map(Path::new))?.ok_or_else(|| {
        Problem::new("the peer requires a secret").hint(format!(
            "give the secret that the peer printed with --peer-secret, --peer-secret-file, or {VARIABLE}"
        ))
    })
}

/// A secret from a file, else from the environment, if there is one.
pub(super) fn given_secret(file: Option<&Path>) -> Result<Option<Secret>, Problem> {
    if let Some(file) = file {
        return read_secret(file).map(Some);
    }
    let wrong = |problem: Problem| Problem { what: format!("{VARIABLE}: {}", problem.what), ..problem };
    std::env::var(VARIABLE).ok().map(|text| Secret::of(&text).map_err(wrong)).transpose()
}

/// The command as typed, for the record, without the secret.
pub(super) fn without_secret(command: &[String]) -> Vec<String> {
    const FLAG: &str = "--peer-secret";
    let mut hidden = false;
    command
        .iter()
        .map(|word| {
            let hide = std::mem::replace(&mut hidden, word == FLAG);
            match word.split_once('=') {
                _ if hide => "…".to_owned(),
                Some((FLAG, _)) => format!("{FLAG}=…"),
                _ => word.clone(),
            }
        })
        .collect()
}

/// A secret from a file, or the first line of standard input. Not a byte more is read: the rest of the input is the
/// lifeline.
pub(super) fn read_secret(file: &Path) -> Result<Secret, Problem> {
    let cannot = |error: std::io::Error| {
        Problem::new(format!("cannot read the secret from {}: {error}", file.display()))
            .hint("give a file that contains only the secret, or - for standard input")
    };
    if file.as_os_str() != "-" {
        let mut text = String::new();
        std::fs::File::open(file)
            .and_then(|opened| opened.take(2 * LONGEST_SECRET as u64).read_to_string(&mut text))
            .map_err(cannot)?;
        return Secret::of(&text);
    }
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() <= LONGEST_SECRET {
        let count = nix::unistd::read(std::io::stdin().as_fd(), &mut byte).map_err(|error| cannot(error.into()))?;
        if count == 0 || byte[0] == b'\n' {
            break;
        }
        line.push(byte[0]);
    }
    Secret::of(&String::from_utf8_lossy(&line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_written_down() {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<String>>();
        let typed = words(&["sysdyno", "run", "--peer-secret", "hush", "--peer", "a:1"]);
        assert_eq!(without_secret(&typed), words(&["sysdyno", "run", "--peer-secret", "…", "--peer", "a:1"]));
        assert_eq!(without_secret(&words(&["--peer-secret=hush"])), words(&["--peer-secret=…"]));
        assert_eq!(without_secret(&words(&["--peer-secret-file", "f"])), words(&["--peer-secret-file", "f"]));
    }
}
