//! Places without privileges.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use nix::unistd::Uid;
use tempfile::TempDir;

use super::runs::PROGRAM;

/// A directory that anybody may write to, with a copy of the program that anybody may start.
pub fn for_anybody() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let program = directory.path().join("sysdyno");
    fs::copy(PROGRAM, &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    (directory, program)
}

/// Words before a command that take every privilege away. The user has no other process on this machine.
pub fn nobody() -> Vec<&'static str> {
    if Uid::effective().is_root() {
        vec!["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "--inh-caps=-all", "--no-new-privs"]
    } else {
        vec!["env"]
    }
}
