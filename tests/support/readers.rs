//! Programs that read what sysdyno writes for them: a Python environment with exact versions, and benchstat.
//!
//! `scripts/test` makes both with `scripts/readers` and says where they are. A test that is started by hand makes them itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use super::runs::told;

/// Names the directory that `scripts/readers` filled.
const PLACE: &str = "SYSDYNO_TEST_READERS";
/// Set by `scripts/test`, where a missing environment is a fault.
const WHOLE: &str = "SYSDYNO_TEST_NOTES";

/// The directory, filled.
fn place() -> &'static Path {
    static PLACES: OnceLock<PathBuf> = OnceLock::new();
    PLACES.get_or_init(|| {
        if let Some(place) = std::env::var_os(PLACE) {
            return PathBuf::from(place);
        }
        assert!(
            std::env::var_os(WHOLE).is_none(),
            "{PLACE} is not set\nhint: scripts/readers DIR makes the directory that it names"
        );
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../readers");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/readers");
        let made = Command::new(script).arg(&place).output().unwrap();
        assert!(made.status.success(), "{}", told(&made));
        place
    })
}

/// A program of the directory with its words, in a directory.
pub fn reader(name: &str, words: &[&str], directory: &Path) -> Output {
    let program = place().join("python/bin").join(name);
    assert!(
        program.exists(),
        "{} is not there\nhint: scripts/readers {} makes it",
        program.display(),
        place().display()
    );
    Command::new(program)
        .args(words)
        .current_dir(directory)
        .env_remove("PYTHONPATH")
        .env("OTAVA_CONFIG", "otava.yaml")
        .output()
        .unwrap()
}

/// What a Python program prints, in a directory. Its failure is the test's.
pub fn python(program: &str, directory: &Path) -> String {
    let output = reader("python", &["-c", program], directory);
    assert!(output.status.success(), "{program}\n{}", told(&output));
    super::runs::text(&output.stdout)
}
