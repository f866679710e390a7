//! Files on another machine that a run reads: where they are and how they are reached.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The ways to files on another machine that a run was given, in addition to a peer's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Remote {
    /// A file on an NFS server, read from user space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nfs: Option<NfsFile>,
    /// A directory of a mounted file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<RemoteDirectory>,
}

/// A file on an NFS server, as the run found it when it began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NfsFile {
    /// The address as it was typed.
    pub url: String,
    /// Address of the server as a number.
    pub server: String,
    /// Port of NFS.
    pub port: u16,
    /// Port of the mount service; none where the server's port mapper is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_port: Option<u16>,
    /// Path of the file.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Longest read that the server answers at once, in bytes.
    pub longest_read: u32,
    /// Address of this machine on the path.
    pub local_address: String,
    /// Interface that has this address; none where the kernel does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// True when the server is on the same link: no router is in between.
    pub on_link: bool,
}

/// A directory of a file system that is mounted from another machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemoteDirectory {
    /// The directory.
    pub directory: String,
    /// Where the file system is mounted.
    pub mount_point: String,
    /// Its type, such as `nfs4` or `fuse.sshfs`.
    pub file_system: String,
    /// Options of the mount.
    pub options: String,
    /// What is mounted: as a rule a server and its path.
    pub what: String,
}

impl Remote {
    /// How many ways there are.
    pub fn ways(&self) -> u32 {
        u32::from(self.nfs.is_some()) + u32::from(self.directory.is_some())
    }
}
