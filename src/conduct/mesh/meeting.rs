//! Where members meet: one file that rank 0 writes and the others wait for. It has address and secret of this mesh alone.

use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::machine::engine::{Engine, is_node_name};
use crate::peer::authentication::Secret;
use crate::results::problem::Problem;
use crate::sys::create::{self, Access};
use crate::sys::file;

/// Version of the format.
const FORMAT: &str = "sysdyno-meet/1";
/// Most bytes of the file.
pub const MOST_BYTES: u64 = 4096;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MeetingFile {
    format: String,
    address: SocketAddr,
    secret: String,
}

/// Name of the file: jobs that share a directory do not meet each other.
pub fn name(engine: Option<&Engine>) -> String {
    let fact = |name: &str| engine?.facts.get(name).filter(|value| is_node_name(value));
    match (fact("job"), fact("step")) {
        (Some(job), Some(step)) => format!("meet-{job}.{step}.json"),
        (Some(job), None) => format!("meet-{job}.json"),
        (None, _) => "meet.json".to_owned(),
    }
}

/// A file that was written. It is removed with this value, unless another mesh has replaced it.
#[derive(Debug)]
pub struct Posted {
    path: PathBuf,
    content: String,
}

impl Posted {
    /// Writes the file whole, in the place of one that a dead mesh has left.
    pub fn write(path: PathBuf, address: SocketAddr, secret: &Secret) -> Result<Self, Problem> {
        let cannot = |error: std::io::Error| {
            Problem::new(format!("cannot write the meeting file {}: {error}", path.display())).hint(create::hint(
                &error,
                "choose a directory that all tasks share, or use --meet HOST:PORT with a secret",
            ))
        };
        let file = MeetingFile { format: FORMAT.to_owned(), address, secret: secret.text().to_owned() };
        let content = serde_json::to_string(&file).map_err(|error| cannot(error.into()))? + "\n";
        create::whole(&path, Access::Private, &content).map_err(cannot)?;
        Ok(Posted { path, content })
    }
}

impl Drop for Posted {
    fn drop(&mut self) {
        if text(&self.path).is_ok_and(|found| found == self.content) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn text(path: &Path) -> Result<String, String> {
    let bytes = file::read_own(path, MOST_BYTES).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => {
            format!("{} is not a meeting file: it has more than {MOST_BYTES} bytes", path.display())
        }
        _ => format!("cannot read {}: {error}", path.display()),
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Address and secret from the file, if it is there.
pub fn look(path: &Path) -> Result<(SocketAddr, Secret), String> {
    let wrong = || format!("{} is not a meeting file", path.display());
    let file: MeetingFile = serde_json::from_slice(text(path)?.as_bytes()).map_err(|_| wrong())?;
    let secret = Secret::of(&file.secret).map_err(|_| wrong())?;
    if file.format == FORMAT { Ok((file.address, secret)) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::machine::engine::EngineKind;

    #[test]
    fn the_file_is_private_whole_and_gone_at_the_end() {
        let keep = tempfile::tempdir().unwrap();
        let path = keep.path().join("meet.json");
        fs::write(&path, "{\"format\":").unwrap();
        assert!(look(&path).unwrap_err().contains("not a meeting file"));
        fs::write(&path, " ".repeat(MOST_BYTES as usize + 1)).unwrap();
        assert!(look(&path).unwrap_err().contains("more than 4096 bytes"));
        let address: SocketAddr = "10.0.0.1:4000".parse().unwrap();
        let secret = Secret::fresh().unwrap();
        let posted = Posted::write(path.clone(), address, &secret).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(look(&path).unwrap(), (address, secret));
        assert_eq!(fs::read_dir(keep.path()).unwrap().count(), 1, "nothing else is left there");
        drop(posted);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_of_another_mesh_stays() {
        let keep = tempfile::tempdir().unwrap();
        let path = keep.path().join("meet.json");
        let write = || Posted::write(path.clone(), "10.0.0.1:1".parse().unwrap(), &Secret::fresh().unwrap()).unwrap();
        let first = write();
        let second = write();
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
        let link = keep.path().join("link.json");
        std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
        assert!(look(&link).is_err());
        let foreign = write();
        // Only root can give a file away.
        if std::os::unix::fs::chown(&path, Some(54_321), None).is_ok() {
            assert!(look(&path).unwrap_err().ends_with("it belongs to user 54321"));
        }
        drop(foreign);
    }

    #[test]
    fn jobs_have_files_of_their_own() {
        let engine = |facts: &[(&str, &str)]| Engine {
            kind: EngineKind::Slurm,
            facts: facts
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect::<BTreeMap<_, _>>(),
        };
        assert_eq!(name(None), "meet.json");
        assert_eq!(name(Some(&engine(&[("job", "17"), ("step", "0")]))), "meet-17.0.json");
        assert_eq!(name(Some(&engine(&[("job", "17")]))), "meet-17.json");
        assert_eq!(name(Some(&engine(&[("job", "../x")]))), "meet.json");
    }
}
