//! Names of files in directories that other processes, containers and machines may use at the same time.
//!
//! A process number alone does not name a process: two containers on one file system have the same numbers, and so have
//! two machines.

use super::process;

/// Who made a file, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Maker {
    /// Node.
    pub node: String,
    /// Namespace of process numbers.
    pub namespace: u64,
    /// Process.
    pub process: u32,
}

/// A unique name: node, namespace of process numbers, process and a random number.
pub fn unique() -> String {
    let own = Maker::here();
    format!("{}-{}-{}-{}", own.node, own.namespace, own.process, random())
}

/// A part of a name that no other process can foresee: eight hexadecimal digits.
pub fn random() -> String {
    let mut random = [0; 4];
    // Without random numbers names of one process can meet; making a file says so then.
    let _ = process::random_bytes(&mut random);
    format!("{:08x}", u32::from_ne_bytes(random))
}

/// A number for a name, the same in every process: FNV-1a, 64 bits.
pub fn number_of(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Maker {
    /// This process.
    pub fn here() -> Self {
        let safe = |letter: char| if letter.is_ascii_alphanumeric() || "-.".contains(letter) { letter } else { '_' };
        Maker {
            node: process::host_name().chars().map(safe).collect(),
            namespace: process::number_namespace().unwrap_or(0),
            process: std::process::id(),
        }
    }

    /// Who made a file of this name; none where the name is not of this form.
    pub fn of(name: &str) -> Option<Self> {
        let mut parts = name.rsplitn(4, '-');
        let random = parts.next()?;
        let (process, namespace, node) = (parts.next()?, parts.next()?, parts.next()?);
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let hexadecimal = random.len() == 8 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
        (hexadecimal && digits(process) && digits(namespace) && !node.is_empty()).then_some(())?;
        Some(Maker { node: node.to_owned(), namespace: namespace.parse().ok()?, process: process.parse().ok()? })
    }

    /// Whether it was made on this node.
    pub fn is_of_this_node(&self) -> bool {
        self.node == Maker::here().node
    }

    /// Whether its process is known to be gone: only processes of the own node and namespace can be looked for.
    pub fn is_gone(&self) -> bool {
        let here = Maker::here();
        let visible = self.node == here.node && self.namespace == here.namespace && here.namespace != 0;
        visible && !process::is_alive(self.process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_maker_and_is_nobody_elses() {
        let (one, other) = (unique(), unique());
        assert_ne!(one, other);
        assert_eq!(Maker::of(&one), Some(Maker::here()));
        assert_eq!(Maker::of("a-b-7-12-0123abcd").map(|maker| maker.node).as_deref(), Some("a-b"));
        for foreign in [
            "",
            "12",
            "node-12",
            "node-7-12-x",
            "node-7-12-0123abcg",
            "-7-12-0123abcd",
            "node--12-0123abcd",
            "node-7-99999999999-0123abcd",
        ] {
            assert_eq!(Maker::of(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn only_a_process_that_could_be_seen_can_be_gone() {
        // No process has such a number.
        let dead = Maker { process: 4_194_999, ..Maker::here() };
        assert!(dead.is_gone() && !Maker::here().is_gone());
        assert!(!Maker { node: "elsewhere".to_owned(), ..dead.clone() }.is_gone());
        assert!(!Maker { namespace: 1, ..dead }.is_gone());
    }
}
