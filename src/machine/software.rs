//! The software around the kernel's settings: distribution, C library, scheduler.

use super::fact::Fact;
use super::tree::{Tree, value_of};

/// The distribution, by the file that each one has (os-release(5)).
pub(super) fn distribution(tree: &Tree) -> Option<Fact<String>> {
    ["/etc/os-release", "/usr/lib/os-release"].into_iter().find_map(|path| {
        let text = tree.text(path)?;
        let name = value_of(&text, "PRETTY_NAME").or_else(|| value_of(&text, "NAME"))?;
        let name = name.trim_matches(['"', '\'']).trim();
        (!name.is_empty()).then(|| Fact::new(name.to_owned(), path))
    })
}

/// The C library that dynamically linked programs load. The GNU one has its version in its text.
pub(super) fn c_library(tree: &Tree) -> Option<Fact<String>> {
    let names = tree.names("/lib");
    let triples = names.iter().filter(|name| name.contains("-linux-gnu")).map(|name| format!("/lib/{name}"));
    let directories = triples.chain(["/lib64", "/usr/lib64", "/usr/lib", "/lib"].map(str::to_owned));
    let gnu = directories.map(|directory| format!("{directory}/libc.so.6")).find_map(|path| {
        let version = gnu_version(&tree.bytes(&path)?)?;
        Some(Fact::new(format!("glibc {version}"), path))
    });
    let is_musl = |name: &&String| name.starts_with("ld-musl-");
    gnu.or_else(|| names.iter().find(is_musl).map(|name| Fact::new("musl".to_owned(), format!("/lib/{name}"))))
}

/// The version in the text that the GNU C library prints when it is executed.
fn gnu_version(library: &[u8]) -> Option<String> {
    const BEFORE: &[u8] = b"release version ";
    let name = library.windows(BEFORE.len()).position(|window| window == BEFORE)?;
    let rest = library[name + BEFORE.len()..].iter();
    let version: String = rest.map(|&byte| char::from(byte)).take_while(|&c| c.is_ascii_digit() || c == '.').collect();
    Some(version.trim_end_matches('.').to_owned()).filter(|version| !version.is_empty())
}

/// The scheduler of usual tasks: one that was loaded or patched in, or that of the kernel's release.
pub(super) fn scheduler(tree: &Tree, release: Option<&Fact<String>>) -> Option<Fact<String>> {
    const LOADED: &str = "/sys/kernel/sched_ext";
    const PATCHED: &str = "/proc/sys/kernel/sched_bore";
    let loaded = || {
        tree.trimmed(&format!("{LOADED}/state")).filter(|state| state == "enabled")?;
        Some(tree.fact(&format!("{LOADED}/root/ops"))?.map(|name| format!("sched_ext: {name}")))
    };
    let patched = || tree.trimmed(PATCHED).filter(|on| on == "1").map(|_| Fact::new("BORE".to_owned(), PATCHED));
    let of_release = || {
        let release = release?;
        let mut numbers = release.value.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
        let version = (numbers.next()?, numbers.next()?);
        let name = if version >= (6, 6) { "EEVDF" } else { "CFS" };
        Some(Fact::new(name.to_owned(), format!("{}: EEVDF since Linux 6.6", release.source)))
    };
    loaded().or_else(patched).or_else(of_release)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn each_source_of_the_software_is_read() {
        let keep = tempfile::tempdir().unwrap();
        let tree = Tree::at(keep.path());
        let put = |path: &str, text: &str| {
            let place = keep.path().join(path);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, text).unwrap();
        };
        let value = |fact: Option<Fact<String>>| fact.map(|fact| fact.value);
        assert_eq!((distribution(&tree), c_library(&tree), scheduler(&tree, None)), (None, None, None));
        put("usr/lib/os-release", "NAME=\"Some\"\nPRETTY_NAME=\"Some Linux 7 (x)\"\n");
        assert_eq!(value(distribution(&tree)).as_deref(), Some("Some Linux 7 (x)"));
        put("lib/ld-musl-x86_64.so.1", "\0");
        assert_eq!(value(c_library(&tree)).as_deref(), Some("musl"));
        put(
            "lib/x86_64-linux-gnu/libc.so.6",
            "\0GNU C Library (X GLIBC 2.36-9) stable release version 2.36.\nCopyright",
        );
        assert_eq!(value(c_library(&tree)).as_deref(), Some("glibc 2.36"));
        let of = |release: &str| value(scheduler(&tree, Some(&Fact::new(release.to_owned(), "for the test"))));
        assert_eq!(of("6.5.0-rc1").as_deref(), Some("CFS"));
        assert_eq!(of("6.6-arch1").as_deref(), Some("EEVDF"));
        assert_eq!(of("odd"), None);
        put("proc/sys/kernel/sched_bore", "1\n");
        assert_eq!(of("6.12.1").as_deref(), Some("BORE"));
        put("sys/kernel/sched_ext/state", "enabled\n");
        put("sys/kernel/sched_ext/root/ops", "rusty\n");
        assert_eq!(of("6.12.1").as_deref(), Some("sched_ext: rusty"));
    }
}
