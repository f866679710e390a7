//! Servers of other makers on the far side of a pair of namespaces.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::disk::Disk;
use super::namespaces::{FAR, Namespaces, off_the_measured_cpu};
use super::runs::wait_until;

/// Ports of the server of files.
pub const NFS_PORT: u16 = 20490;
const MOUNT_PORT: u16 = 20491;
/// Bytes of the file that is read over NFS.
const BYTES: usize = 24 << 20;

/// Something in a process group of its own, which ends with this value.
pub struct Daemon {
    pub process: Child,
    pub directory: TempDir,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = killpg(Pid::from_raw(self.process.id() as i32), Signal::SIGKILL);
        let _ = self.process.wait();
    }
}

/// Waits until somebody listens at a port on the far side.
pub fn listens(namespaces: &Namespaces, port: u16) {
    wait_until(&format!("something listens at port {port}"), Duration::from_secs(30), || {
        let words = ["-H", "-t", "-l", "-n", "sport", "=", &format!(":{port}")].map(str::to_owned);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let found = Namespaces::command(&namespaces.far, "ss", &words).output().unwrap();
        (!found.stdout.is_empty()).then_some(())
    });
}

/// nfs-ganesha on the far side with one file, the disk that it is on, and the address of that file. It cannot serve every file
/// system: an overlay has no handles of files.
pub fn ganesha(namespaces: &Namespaces) -> ((Daemon, Disk), String) {
    let disk = Disk::make();
    let file = disk.place().join("export/file");
    let export = file.parent().unwrap();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let mut bytes = vec![0; BYTES];
    fastrand::Rng::with_seed(1).fill(&mut bytes);
    fs::create_dir(export).unwrap();
    fs::write(&file, &bytes).unwrap();
    let configuration = format!(
        "NFS_CORE_PARAM {{ Protocols = 3; NFS_Port = {NFS_PORT}; MNT_Port = {MOUNT_PORT}; Enable_NLM = false; \
         Enable_RQUOTA = false; }}\nNFS_KRB5 {{ Active_krb5 = false; }}\nEXPORT {{ Export_Id = 1; Path = {0}; Pseudo = /x; \
         Protocols = 3; Access_Type = RO; Squash = No_Root_Squash; Transports = TCP; SecType = sys; FSAL {{ Name = VFS; }} }}\n",
        export.display()
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
    off_the_measured_cpu(&mut command);
    let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let url = format!("nfs://{FAR}:{NFS_PORT}{}?mountport={MOUNT_PORT}", file.display());
    let daemon = Daemon { process, directory };
    listens(namespaces, NFS_PORT);
    ((daemon, disk), url)
}
