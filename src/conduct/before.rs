//! A run that was interrupted, as its directory shows it, and whether this machine and this build can resume it.

use std::path::Path;

use super::Recording;
use super::directory::{self, RunDirectory};
use crate::experiments::Experiment;
use crate::machine::{Identity, Machine, MachineRelation};
use crate::plan;
use crate::results::log::{self, Log, LogWriter, Refused};
use crate::results::peer::Peer;
use crate::results::problem::Problem;
use crate::results::remote::Remote;
use crate::results::wording::count;
use crate::rig::request::INTERFERENCE;
use crate::sys::clock::Source;
use crate::sys::talk;

/// The run before this sitting.
pub struct Before {
    /// Its directory.
    pub directory: RunDirectory,
    /// What it has recorded.
    pub log: Log,
    writer: Result<LogWriter, Refused>,
}

impl Before {
    /// Opens a run. One that another process is measuring is refused.
    pub fn open(run: &Path) -> Result<Self, Problem> {
        let directory = RunDirectory::open(run)?;
        directory::own(directory.path(), "--output DIR")?;
        let writer = match LogWriter::reopen(&directory.log()) {
            Err(Refused::Taken(problem)) => return Err(problem),
            found => found,
        };
        let log = log::read(&directory.log())?;
        Ok(Before { directory, log, writer })
    }

    /// Whether everything was measured.
    pub fn is_complete(&self) -> bool {
        self.log.finish.as_ref().is_some_and(|(_, complete, _)| *complete)
    }

    /// Whether the command that began the run leaves out the sentences that explain results.
    pub fn hides_analysis(&self) -> bool {
        self.log.header.command.iter().any(|word| word == "--hide-analysis")
    }

    /// The clock that the run began with.
    pub fn source(&self) -> Source {
        self.log.clock.as_ref().and_then(|clock| Source::named(&clock.source)).unwrap_or(Source::Counter)
    }

    /// The experiments of the run, if this machine and this build can resume it.
    pub fn experiments(&self, machine: &Machine) -> Result<Vec<&'static Experiment>, Problem> {
        if !self.is_complete() {
            self.same_machine(machine)?;
        }
        if self.log.machine.differs_from(machine) {
            return Err(Problem::new(format!(
                "this run was begun on another machine ({}), and this machine is {}",
                self.log.machine.fingerprint, machine.fingerprint
            ))
            .hint(START_ANOTHER));
        }
        let wanted: Vec<String> = self.log.steps.iter().map(|step| step.experiment.clone()).collect();
        if wanted.is_empty() {
            return Err(Problem::new("the run ended before it had a plan").hint("start a new run"));
        }
        let selected = plan::select(&wanted)?;
        for (step, experiment) in self.log.steps.iter().zip(&selected) {
            if step.method_version != experiment.method_version {
                return Err(Problem::new(format!(
                    "{} was measured with method version {}, and this build has version {}",
                    step.experiment, step.method_version, experiment.method_version
                ))
                .hint("resume with the version of sysdyno that began the run, or start a new run"));
            }
        }
        Ok(selected)
    }

    /// Refuses a log that another machine of the same model began, or that this machine began with another kernel.
    fn same_machine(&self, machine: &Machine) -> Result<(), Problem> {
        let Some(begun) = &self.log.header.identity else { return Ok(()) };
        let here = Identity::read(Path::new("/"));
        let relation = begun.relation_to(&here);
        if relation == MachineRelation::Other {
            return Err(Problem::new(format!(
                "this run was begun on another machine of the same model: on {}, and this machine is {}",
                begun.node,
                if begun.node == here.node { "another machine of that name" } else { &here.node }
            ))
            .hint(START_ANOTHER));
        }
        let release = |machine: &Machine| machine.kernel.release.as_ref().map(|fact| fact.value.clone());
        if let (Some(then), Some(now)) = (release(&self.log.machine), release(machine))
            && then != now
        {
            return Err(Problem::new(format!(
                "this run was begun with the kernel {then}, and the kernel is now {now}"
            ))
            .hint("results of two kernels must not be mixed in one run. Start a new run"));
        }
        if relation == MachineRelation::Restarted {
            talk::line(
                "warning: this machine was restarted since the run began. Results may differ from one boot to the next",
            );
        }
        Ok(())
    }

    /// Whether a peer is named where the run had one, before it is contacted.
    pub fn peer_is_named(&self, named: bool) -> Result<(), Problem> {
        match &self.log.peer {
            Some(before) if !named => {
                Err(Problem::new(format!("this run was measured against a peer at {}", before.address))
                    .hint("start `sysdyno peer` there again and give --peer HOST:PORT with its secret"))
            }
            None if named => {
                Err(Problem::new("this run was begun without a peer").hint("resume without --peer, or start a new run"))
            }
            _ => Ok(()),
        }
    }

    /// Whether the peer is the machine that it was.
    pub fn same_peer(&self, peer: &Peer) -> Result<(), Problem> {
        match &self.log.peer {
            Some(before) if before.machine.differs_from(&peer.machine) => Err(Problem::new(format!(
                "this run was begun with another peer ({}), and this peer is {}",
                before.machine.fingerprint, peer.machine.fingerprint
            ))
            .hint("results of two paths must not be mixed in one run. Start a new run")),
            _ => Ok(()),
        }
    }

    /// Whether the files on another machine are those that the run was begun with.
    pub fn same_remote(&self, found: Option<&Remote>) -> Result<(), Problem> {
        let names = |remote: Option<&Remote>| {
            let nfs = remote.and_then(|remote| remote.nfs.as_ref()).map(|nfs| nfs.url.clone());
            (nfs, remote.and_then(|remote| remote.directory.as_ref()).map(|directory| directory.directory.clone()))
        };
        let before = names(self.log.remote.as_deref());
        if names(found) == before {
            return Ok(());
        }
        let hint = match before {
            (None, None) => "resume without --nfs and --remote-dir, or start a new run".to_owned(),
            (nfs, directory) => {
                let directory = directory.map(|place| format!("--remote-dir {place}"));
                let flags = [nfs.map(|url| format!("--nfs {url}")), directory];
                format!("give {}", flags.into_iter().flatten().collect::<Vec<_>>().join(" "))
            }
        };
        Err(Problem::new("this run was begun with other files on another machine").hint(hint))
    }

    /// Goes on with the log.
    pub fn reopen(self, command: Vec<String>) -> Result<Recording, Problem> {
        let Before { directory, log, writer } = self;
        let place = directory.log();
        if log::is_compressed(&place) {
            return Err(Problem::new(format!("{} is compressed, and the run is incomplete", place.display()))
                .hint("only a plain log can go on. Decompress it with `gunzip`, and resume again"));
        }
        let launches = log.launches.iter().filter(|launch| launch.experiment != INTERFERENCE).count() as u64;
        let recording = Recording {
            directory,
            writer: writer?,
            resumed: Some((command, log.clock)),
            history: None,
            own_predictions: None,
        };
        talk::line(format_args!(
            "resuming {}: {} and {} are complete{}",
            log.header.id,
            count(u64::from(log.rounds), "round", "rounds"),
            count(launches, "launch", "launches"),
            log.damage.as_ref().map_or_else(String::new, |damage| format!(", {damage}, and that line is removed"))
        ));
        Ok(recording)
    }
}

const START_ANOTHER: &str = "results of two machines must not be mixed in one run. Start a new run";
