//! What the kernel's NFS client counts for each mount (`/proc/self/mountstats`): reads, their bytes, and how long they waited.

/// Reads of one mount since it was mounted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reads {
    pub calls: u64,
    /// Bytes that the server sent in answers, heads included.
    pub bytes: u64,
    /// Milliseconds in all that calls waited in a queue of the client.
    pub queued: u64,
    /// Milliseconds in all from a call's leaving to its answer.
    pub answered: u64,
    /// Milliseconds in all from a call's making to its end.
    pub executed: u64,
}

impl Reads {
    /// What was added since an earlier reading.
    #[must_use]
    pub fn since(&self, before: &Reads) -> Reads {
        Reads {
            calls: self.calls.saturating_sub(before.calls),
            bytes: self.bytes.saturating_sub(before.bytes),
            queued: self.queued.saturating_sub(before.queued),
            answered: self.answered.saturating_sub(before.answered),
            executed: self.executed.saturating_sub(before.executed),
        }
    }
}

/// The reads of the mount at a place; none where no NFS is mounted there.
pub fn reads(mount_point: &str) -> Option<Reads> {
    parse(&std::fs::read_to_string("/proc/self/mountstats").ok()?, mount_point)
}

/// Finds the mount in the text of the file, the last one where several lie over each other, and the line of its reads.
fn parse(text: &str, mount_point: &str) -> Option<Reads> {
    let mut found = None;
    let mut here = false;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("device ") {
            // `device SERVER:/PATH mounted on POINT with fstype nfs4 statvers=1.1`
            let point = rest.split_once(" mounted on ").and_then(|(_, rest)| rest.split_once(" with fstype "));
            here = point.is_some_and(|(point, kind)| point == mount_point && kind.starts_with("nfs"));
        } else if here && let Some(counts) = line.trim().strip_prefix("READ: ") {
            // Calls, transmissions, time-outs, bytes sent, bytes received, queued, answered, executed, and errors.
            let counts: Vec<u64> = counts.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            let [calls, _, _, _, bytes, queued, answered, executed, ..] = counts[..] else { continue };
            found = Some(Reads { calls, bytes, queued, answered, executed });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded, shortened to two mounts and a few procedures.
    const RECORDED: &str = "\
device proc mounted on /proc with fstype proc
device nas:/export/home mounted on /home with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,rsize=1048576,wsize=1048576,namlen=255,acregmin=3,hard,proto=tcp,nconnect=4,timeo=600
\tage:\t86400
\tcaps:\tcaps=0xfffbc0bf,wtmult=512,dtsize=1048576,bsize=0,namlen=255
\tsec:\tflavor=1,pseudoflavor=1
\tevents:\t5202 112 7 39 5116 16 5311 140 0 2 0 1 96 0 8 4 0 42 0 0 0 0 0 0 0 0 0
\tbytes:\t1182433 912 0 0 8121 912 5 1
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\txprt:\ttcp 0 0 2 0 11 5201 5201 0 5203 0 2 3 1
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 0 0 0
\t        READ: 240 240 0 49920 31498240 12 480 500 0
\t       WRITE: 3 3 0 3456 468 0 7 7 0
device nas:/export/old mounted on /old with fstype nfs statvers=1.1
\tRPC iostats version: 1.1  p/v: 100003/3 (nfs)
\tper-op statistics
\t        READ: 7 7 0 812 28672 0 21 22
";

    #[test]
    fn the_reads_of_each_mount_are_found() {
        let home = parse(RECORDED, "/home").unwrap();
        assert_eq!(home, Reads { calls: 240, bytes: 31_498_240, queued: 12, answered: 480, executed: 500 });
        // Kernels before 5.3 have no count of errors.
        assert_eq!(parse(RECORDED, "/old").unwrap().answered, 21);
        assert_eq!(parse(RECORDED, "/proc"), None);
        assert_eq!(parse(RECORDED, "/ho"), None);
        assert_eq!(parse("", "/home"), None);
        assert_eq!(parse("device a mounted on /home with fstype nfs\n READ: 1 2", "/home"), None);
    }

    #[test]
    fn differences_never_go_below_nothing() {
        let home = parse(RECORDED, "/home").unwrap();
        let later = Reads { calls: 250, answered: 500, ..home };
        assert_eq!(later.since(&home), Reads { calls: 10, answered: 20, ..Reads::default() });
        assert_eq!(home.since(&later), Reads::default());
    }
}
