//! A Slurm cluster on one machine: slurmctld, munged and one slurmd for each virtual node.
//!
//! A virtual node is a process with namespaces of its own: network, mounts, host name and process numbers. It has an identifier of
//! its own, and a scratch directory that no other node sees. Nothing of this machine is changed. Everything ends with
//! [`Cluster`], and also where the test is killed: the kernel ends the nodes with the process that started them, and removes
//! their networks and mounts.
//!
//! Each node is in two networks: `m0` in a flat one, by which Slurm works, and `f0` in a fabric of two leaf bridges with one link
//! between them. The first half of the nodes is on the first leaf.
#![allow(unsafe_code, reason = "a node inherits a fault from its first process")]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::runs::{PROGRAM, in_the_foreground, state, text, told, wait_until};

/// Instructions of the filter of a node: its system calls take much longer.
const INSTRUCTIONS: usize = 400;
/// Addresses: `MANAGEMENT.7` and `FABRIC.7` are those of the seventh node.
const MANAGEMENT: &str = "10.78.0";
pub const FABRIC: &str = "10.79.0";
/// The last part of the address of the head.
const HEAD: u32 = 254;

/// What makes a node another one than its siblings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeFault {
    /// A system-call filter that looks at an argument, so that the kernel cannot keep its answer.
    Filter,
    /// No transparent huge pages.
    NoHugePages,
}

impl NodeFault {
    /// Applies to this process and what it starts. Only makes system calls.
    fn apply(self, program: &libc::sock_fprog) -> std::io::Result<()> {
        // SAFETY: changes this process alone. The kernel copies the program, which outlives the call.
        let failed = unsafe {
            match self {
                NodeFault::NoHugePages => libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0,
                NodeFault::Filter => {
                    libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                        || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, std::ptr::from_ref(program))
                            != 0
                }
            }
        };
        if failed { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// A process with namespaces of its own, and everything that it started.
struct VirtualNode {
    /// `unshare`, which waits for the first process of the namespaces.
    outer: Child,
    /// The first process. All others end with it.
    first: Pid,
}

impl VirtualNode {
    /// Makes the namespaces. The command of a shell begins when the network is made.
    fn start(place: &Path, name: &str, fault: Option<NodeFault>, then: &str) -> Self {
        // What `/sys` shows of networks is that of its own namespace, but the control groups stay those of the machine.
        let setup = "set -e; mount --rbind /sys/fs/cgroup \"$0/cgroup\"; mount -t sysfs sysfs /sys\n\
             mount --rbind \"$0/cgroup\" /sys/fs/cgroup\n\
             mkdir \"$0/scratch.$1\"; mount --bind \"$0/scratch.$1\" \"$0/scratch\"\n\
             mount --bind \"$0/hosts\" /etc/hosts; mount --bind \"$0/etc\" /etc/slurm\n\
             printf '%s' \"$1\" | md5sum | cut -c1-32 >\"$0/identifier.$1\"\n\
             [ ! -e /etc/machine-id ] || mount --bind \"$0/identifier.$1\" /etc/machine-id\n\
             hostname \"$1\"; ip link set lo up; touch \"$0/ready.$1\"; read -r begin; set +e\n";
        let words = ["--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"];
        let log = fs::File::create(place.join(format!("{name}.out"))).unwrap();
        let mut command = Command::new("unshare");
        command.args(words).arg(format!("{setup}{then}")).arg(place).arg(name);
        command.env("SLURM_CONF", place.join("etc/slurm.conf")).env("XDG_STATE_HOME", state());
        command.stdin(Stdio::piped()).stdout(log.try_clone().unwrap()).stderr(log).process_group(0);
        let load = libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 16 };
        let mut filter = vec![load; INSTRUCTIONS];
        filter.push(libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x7fff_0000 });
        let prepare = move || {
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
            let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
            fault.map_or(Ok(()), |fault| fault.apply(&program))
        };
        // SAFETY: only system calls are made between fork and exec.
        unsafe { command.pre_exec(prepare) };
        let outer = command.spawn().unwrap();
        let ready = place.join(format!("ready.{name}"));
        let children = format!("/proc/{0}/task/{0}/children", outer.id());
        let first = wait_until(&format!("{name} has its namespaces"), Duration::from_secs(20), || {
            ready.exists().then(|| fs::read_to_string(&children).ok()?.trim().parse().ok()).flatten()
        });
        VirtualNode { outer, first: Pid::from_raw(first) }
    }

    fn begin(&mut self) {
        self.outer.stdin.take().unwrap().write_all(b"begin\n").unwrap();
    }

    /// A command inside, in a directory.
    fn command(&self, directory: &Path, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.first.to_string(), "--net", "--uts", "--mount", "--pid", "sh", "-c"]);
        // Another namespace of mounts has another current directory.
        command.arg("cd \"$0\" && exec \"$@\"").arg(directory).args(words);
        command
    }

    /// A command in its network alone. It names other processes as this test does.
    fn in_network(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.first.to_string(), "--net"]).args(words);
        command
    }

    /// Runs commands of `ip` inside, one a line.
    fn network(&self, commands: &str) {
        let mut command = self.in_network(&["ip", "-batch", "-"]);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(commands.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{commands}\n{}", told(&output));
    }

    /// Lets no more than a rate out of a device.
    fn shape(&self, device: &str, megabits: u32) {
        let (rate, burst) = (format!("{megabits}mbit"), (megabits * 600).max(20_000).to_string());
        let words = ["tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", &rate, "burst", &burst];
        let output = self.in_network(&[&words[..], &["latency", "60ms"]].concat()).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
    }

    /// Ends it and everything in it at once, as a loss of power does.
    fn kill(&mut self) {
        let _ = kill(self.first, Signal::SIGKILL);
        // It ends after the last process inside.
        let _ = self.outer.wait();
    }
}

/// A cluster with nodes `n1`, `n2`, …, all idle.
pub struct Cluster {
    head: VirtualNode,
    nodes: Vec<VirtualNode>,
    /// After the nodes: they use it until they end.
    place: TempDir,
}

impl Cluster {
    /// Starts it. `more` are lines of `slurm.conf`. Needs root.
    pub fn start(nodes: u32, faults: &[(u32, NodeFault)], more: &str) -> Self {
        assert!(nix::unistd::Uid::effective().is_root(), "namespaces are made here: this test needs root");
        in_the_foreground();
        // The path of a socket is short, so this is not next to the builds.
        let place = tempfile::Builder::new().prefix("sysdyno-cluster-").tempdir().unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["etc", "state", "scratch", "cgroup", "work place"] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        configure(place.path(), nodes, more);
        let munge = "munged --foreground --force --num-threads=2 --key-file=\"$0/munge.key\" --socket=\"$0/munge.socket\" \
             --pid-file=\"$0/munge.pid\" --log-file=\"$0/munge.log\" --seed-file=\"$0/munge.seed\" &\n\
             until [ -S \"$0/munge.socket\" ]; do sleep 0.02; done\nslurmctld -D -i";
        let mut head = VirtualNode::start(place.path(), "head", None, munge);
        let started = (1..=nodes).map(|number| {
            let fault = faults.iter().find(|(of, _)| *of == number).map(|(_, fault)| *fault);
            VirtualNode::start(place.path(), &format!("n{number}"), fault, "slurmd -D -N \"$1\"")
        });
        let mut cluster_nodes: Vec<VirtualNode> = started.collect();
        connect(&head, &cluster_nodes);
        head.begin();
        cluster_nodes.iter_mut().for_each(VirtualNode::begin);
        let cluster = Cluster { head, nodes: cluster_nodes, place };
        wait_until("all nodes are idle", Duration::from_mins(1), || {
            let found = cluster.head(&["sinfo", "-h", "-o", "%D %T"]).output().unwrap();
            (text(&found.stdout).trim() == format!("{nodes} idle")).then_some(())
        });
        cluster
    }

    /// A directory that all nodes share. Its name has a space.
    pub fn work(&self) -> PathBuf {
        self.place.path().join("work place")
    }

    /// The directory of each node for temporary files, under one name.
    pub fn scratch(&self) -> PathBuf {
        self.place.path().join("scratch")
    }

    /// What a node has in its directory for temporary files.
    pub fn left_on(&self, node: u32) -> Vec<PathBuf> {
        let place = self.place.path().join(format!("scratch.n{node}"));
        place.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    /// A command on the head, where users submit jobs: with the program in `PATH`.
    pub fn head(&self, words: &[&str]) -> Command {
        self.with_environment(self.head.command(&self.work(), words))
    }

    /// A command on a node, outside of any job.
    pub fn on(&self, node: u32, words: &[&str]) -> Command {
        let mut command = self.with_environment(self.nodes[node as usize - 1].command(&self.work(), words));
        command.env("SLURMD_NODENAME", format!("n{node}"));
        command
    }

    fn with_environment(&self, mut command: Command) -> Command {
        let directory = Path::new(PROGRAM).parent().unwrap().display();
        command
            .env("PATH", format!("{directory}:{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap()))
            .env("SLURM_CONF", self.place.path().join("etc/slurm.conf"))
            .env("XDG_STATE_HOME", state())
            .env("TMPDIR", self.scratch())
            .env("COLUMNS", "80")
            .stdin(Stdio::null());
        command
    }

    /// Runs a line of a shell on the head, waits until no job is left, and returns how the line ended.
    pub fn line(&self, line: &str, environment: &[(&str, &str)]) -> Output {
        let output = self.head(&["bash", "-c", line]).envs(environment.iter().copied()).output().unwrap();
        self.wait_for_jobs(&format!("{line}: {}", told(&output)));
        output
    }

    /// Waits until no job is left.
    pub fn wait_for_jobs(&self, what: &str) {
        wait_until(&format!("jobs end: {what}"), Duration::from_mins(3), || {
            let queue = self.head(&["squeue", "-h"]).output().unwrap();
            std::thread::sleep(Duration::from_millis(50));
            (queue.status.success() && queue.stdout.is_empty()).then_some(())
        });
    }

    /// The state of a node and the reason that it has, as Slurm names them.
    pub fn state(&self, node: u32) -> (String, String) {
        let name = format!("n{node}");
        let found = self.head(&["sinfo", "-h", "-n", &name, "-o", "%T|%E"]).output().unwrap();
        let line = text(&found.stdout);
        let (state, reason) = line.trim().split_once('|').unwrap_or_else(|| panic!("{}", told(&found)));
        (state.to_owned(), reason.to_owned())
    }

    /// Ends a node at once, as a loss of power does.
    pub fn kill(&mut self, node: u32) {
        self.nodes[node as usize - 1].kill();
    }

    /// Lets no more than a rate into the fabric from a node and to it, in each direction.
    pub fn shape(&self, node: u32, megabits: u32) {
        self.nodes[node as usize - 1].shape("f0", megabits);
        self.head.shape(&format!("f{node}"), megabits);
    }

    /// Lets no more than a rate into the fabric from a node, and leaves what comes to it.
    pub fn shape_sender(&self, node: u32, megabits: u32) {
        self.nodes[node as usize - 1].shape("f0", megabits);
    }

    /// Lets no more than a rate through the link between the leaves, in each direction.
    pub fn shape_uplink(&self, megabits: u32) {
        self.head.shape("up1", megabits);
        self.head.shape("up2", megabits);
    }

    /// The end of the logs of Slurm and of the nodes, for a failing assertion.
    pub fn logs(&self) -> String {
        let mut names: Vec<PathBuf> =
            self.place.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        names.retain(|path| path.extension().is_some_and(|extension| extension == "log" || extension == "out"));
        names.sort();
        names.iter().fold(String::new(), |mut all, path| {
            let log = fs::read_to_string(path).unwrap_or_default();
            let lines: Vec<&str> = log.lines().rev().take(12).collect();
            let _ = writeln!(all, "== {}", path.file_name().unwrap().to_string_lossy());
            for line in lines.into_iter().rev() {
                let _ = writeln!(all, "{line}");
            }
            all
        })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.logs());
        }
        self.nodes.iter_mut().for_each(VirtualNode::kill);
        self.head.kill();
    }
}

/// Joins all nodes by both networks.
fn connect(head: &VirtualNode, nodes: &[VirtualNode]) {
    let mut commands = format!(
        "link add mgmt type bridge\naddress add {MANAGEMENT}.{HEAD}/24 dev mgmt\nlink set mgmt up\n\
         link add leaf1 type bridge\nlink set leaf1 up\nlink add leaf2 type bridge\nlink set leaf2 up\n\
         link add up1 type veth peer name up2\nlink set up1 master leaf1 up\nlink set up2 master leaf2 up\n"
    );
    for (number, node) in (1..).zip(nodes) {
        let leaf = if number <= nodes.len().div_ceil(2) { "leaf1" } else { "leaf2" };
        let other = node.outer.id();
        for (device, master) in [("m", "mgmt"), ("f", leaf)] {
            let _ = writeln!(
                commands,
                "link add {device}{number} type veth peer name {device}0 netns {other}\nlink set {device}{number} master {master} up"
            );
        }
    }
    head.network(&commands);
    for (number, node) in (1..).zip(nodes) {
        node.network(&format!(
            "address add {MANAGEMENT}.{number}/24 dev m0\naddress add {FABRIC}.{number}/24 dev f0\nlink set m0 up\nlink set f0 up\n"
        ));
    }
}

/// Writes the files of Slurm, the key of munge and the names of the nodes.
fn configure(place: &Path, nodes: u32, more: &str) {
    let at = place.display();
    let half = nodes.div_ceil(2);
    let configuration = format!(
        "ClusterName=truth\nSlurmctldHost=head({MANAGEMENT}.{HEAD})\nSlurmUser=root\nSlurmdUser=root\n\
         AuthType=auth/munge\nAuthInfo=socket={at}/munge.socket\nCredType=cred/munge\nStateSaveLocation={at}/state\n\
         SlurmdSpoolDir={at}/spool.%n\nSlurmctldPidFile={at}/slurmctld.pid\nSlurmdPidFile={at}/slurmd.%n.pid\n\
         SlurmctldLogFile={at}/slurmctld.log\nSlurmdLogFile={at}/slurmd.%n.log\nProctrackType=proctrack/linuxproc\n\
         TaskPlugin=task/affinity\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nTopologyPlugin=topology/tree\n\
         SlurmdParameters=config_overrides\nMpiDefault=none\nReturnToService=2\nKillWait=5\nSlurmdTimeout=10\n\
         BatchStartTimeout=10\nMessageTimeout=5\nJobAcctGatherType=jobacct_gather/none\n{more}\n\
         NodeName=n[1-{nodes}] NodeAddr={MANAGEMENT}.[1-{nodes}] CPUs=2 RealMemory=1000\n\
         PartitionName=all Nodes=ALL Default=YES OverSubscribe=EXCLUSIVE MaxTime=60 State=UP\n"
    );
    fs::write(place.join("etc/slurm.conf"), configuration).unwrap();
    // None of these plugins uses control groups. That of version 2 asks systemd for one, and that of version 1 needs nothing.
    fs::write(place.join("etc/cgroup.conf"), "CgroupPlugin=cgroup/v1\n").unwrap();
    let leaves = if nodes > half {
        format!("SwitchName=leaf2 Nodes=n[{}-{nodes}]\nSwitchName=spine Switches=leaf[1-2]\n", half + 1)
    } else {
        String::new()
    };
    fs::write(place.join("etc/topology.conf"), format!("SwitchName=leaf1 Nodes=n[1-{half}]\n{leaves}")).unwrap();
    let mut key = [0_u8; 1024];
    fastrand::fill(&mut key);
    fs::write(place.join("munge.key"), key).unwrap();
    fs::set_permissions(place.join("munge.key"), fs::Permissions::from_mode(0o400)).unwrap();
    let mut hosts = format!("127.0.0.1 localhost\n{MANAGEMENT}.{HEAD} head\n");
    for number in 1..=nodes {
        let _ = writeln!(hosts, "{MANAGEMENT}.{number} n{number}");
    }
    fs::write(place.join("hosts"), hosts).unwrap();
}
