//! A driver of a GPU that is made for a test: `driver.c` says what it can do.

use std::path::Path;
use std::process::{Command, Output};

use super::runs::{sysdyno, told};

/// A directory with the driver as `libcuda.so.1`.
pub struct MadeDriver(tempfile::TempDir);

impl MadeDriver {
    /// Compiles it.
    pub fn compile() -> MadeDriver {
        let place = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/driver.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]);
        let output = compiler.arg(place.path().join("libcuda.so.1")).arg(source).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        MadeDriver(place)
    }

    /// A file that is not a library has its name.
    pub fn broken() -> MadeDriver {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("libcuda.so.1"), "this is no library. ".repeat(100)).unwrap();
        MadeDriver(place)
    }

    /// Where it is.
    pub fn place(&self) -> &Path {
        self.0.path()
    }

    /// Variables of the environment with which it is loaded and does something.
    pub fn variables(&self, does: &[(&str, &str)]) -> Vec<(String, String)> {
        let library = ("LD_LIBRARY_PATH", self.place().to_str().unwrap());
        does.iter().copied().chain([library]).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Runs the program with it to its end.
    pub fn run(&self, words: &[&str], does: &[(&str, &str)]) -> Output {
        sysdyno(words).envs(self.variables(does)).current_dir(self.place()).output().unwrap()
    }
}
