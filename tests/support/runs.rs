//! Runs of the real program: commands, one run that several tests look at, logs as JSON, and what must not be left behind.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT};
use signal_hook::flag;

#[allow(unused_imports, reason = "each test program uses its own part")]
pub use super::truth::of_others;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_sysdyno");

/// Programs that are started from now on get signals that ask to end, even where these tests were started in the background of a
/// script, whose programs ignore them: a signal that is caught is not ignored by what is executed.
pub fn in_the_foreground() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in [SIGINT, SIGHUP] {
            flag::register_conditional_default(signal, Arc::new(AtomicBool::new(true))).unwrap();
        }
    });
}

/// The program, which leaves the history of whoever runs these tests alone.
pub fn program() -> Command {
    let mut command = Command::new(PROGRAM);
    command.env("XDG_STATE_HOME", state());
    command
}

/// The state directory of all runs of this test program: of the runs that are kept there nobody else sees any.
pub fn state() -> &'static Path {
    static STATE: OnceLock<PathBuf> = OnceLock::new();
    STATE.get_or_init(|| place_of_this_process().join("state"))
}

/// A command of the program, in a directory where nothing of value is.
pub fn sysdyno(words: &[&str]) -> Command {
    in_the_foreground();
    let mut command = program();
    command.args(words).current_dir(env!("CARGO_TARGET_TMPDIR")).stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub fn output(words: &[&str]) -> Output {
    sysdyno(words).output().unwrap()
}

/// Runs a shell script in a directory, with the program as `$PROGRAM`.
pub fn script(directory: &Path, words: &str) -> Output {
    let mut command = Command::new("bash");
    command
        .args(["-euc", words])
        .env("PROGRAM", PROGRAM)
        .env("XDG_STATE_HOME", state())
        .current_dir(directory)
        .stdin(Stdio::null());
    command.output().unwrap()
}

/// How the program ended and what it said, for a failing assertion.
pub fn told(output: &Output) -> String {
    format!("{}\nstdout: {}\nstderr: {}", output.status, text(&output.stdout), text(&output.stderr))
}

/// Output as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Two runs at once would disturb each other: whoever measures holds this.
pub fn measuring() -> MutexGuard<'static, ()> {
    static MEASURING: Mutex<()> = Mutex::new(());
    MEASURING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs in a fresh place under `root`, again (at most six times) while the host spoils every figure, as one does that changes the
/// clock all the time: the gates then refuse them rightly, but there is nothing to look at.
pub fn unspoilt(root: &Path, mut run: impl FnMut(&Path) -> Output) -> (Output, PathBuf) {
    for attempt in 1.. {
        let place = root.join(format!("run-{attempt}"));
        let output = run(&place);
        let looked_at = place.join("node.json").exists().then(|| metrics(&result(&place)).is_empty());
        if attempt == 6 || looked_at != Some(true) {
            return (output, place);
        }
    }
    unreachable!("the last attempt returns")
}

/// Whether a run ended as it should: with figures, or with none because neighbours spoilt every one, which is an end, too.
pub fn ended(output: &Output) -> bool {
    // The screen is on standard error where standard output has the result.
    let says =
        [&output.stdout, &output.stderr].into_iter().any(|said| text(said).contains("every result failed a gate"));
    output.status.success() || output.status.code() == Some(1) && says
}

/// How many figures a result accounts for: those published and those refused by a gate.
pub fn accounted(result: &Value) -> usize {
    let count = |section: &Value, key: &str| section[key].as_array().unwrap().len();
    let sections = result["experiments"].as_array().unwrap();
    sections.iter().map(|section| count(section, "metrics") + count(section, "rejected")).sum()
}

/// One quick run of `cpu.loop` with all files, which tests may read but not change.
pub fn finished_run() -> &'static Path {
    static RUN: OnceLock<PathBuf> = OnceLock::new();
    RUN.get_or_init(|| {
        let root = place_of_this_process();
        let _alone = measuring();
        let (output, place) = unspoilt(&root, |place| {
            let place = place.to_str().unwrap();
            output(&["run", "cpu.loop", "--quick", "--time=3s", "--seed", "11", "--keep", "all", "-o", place])
        });
        assert!(output.status.success(), "{}", told(&output));
        place
    })
}

/// A directory in the build directory that is swept up by the next test program.
fn place_of_this_process() -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for entry in fs::read_dir(root).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let dead = name.strip_prefix("process-").is_some_and(|number| !Path::new("/proc").join(number).exists());
        if dead {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let place = root.join(format!("process-{}", std::process::id()));
    fs::create_dir_all(&place).unwrap();
    place
}

/// A copy of the finished run, for tests that change it.
pub fn copy_of_finished_run() -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["log.jsonl", "result.json"] {
        fs::copy(finished_run().join(name), copy.path().join(name)).unwrap();
    }
    copy
}

/// The text of a log, plain or compressed. Empty where there is none.
pub fn log_text(run: &Path) -> String {
    fs::read_to_string(run.join("log.jsonl")).unwrap_or_else(|_| {
        let mut text = String::new();
        let compressed = fs::read(run.join("log.jsonl.gz")).unwrap_or_default();
        if !compressed.is_empty() {
            GzDecoder::new(&compressed[..]).read_to_string(&mut text).unwrap();
        }
        text
    })
}

/// Every line of a log.
pub fn lines(run: &Path) -> Vec<Value> {
    let text = log_text(run);
    assert!(!text.is_empty(), "{} has no log", run.display());
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// The records of one kind.
pub fn records<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["record"] == kind).collect()
}

/// The result of a run.
pub fn result(run: &Path) -> Value {
    let printed = output(&["report", run.to_str().unwrap(), "--format", "json"]);
    serde_json::from_slice(&printed.stdout).unwrap_or_else(|error| panic!("{error}: {}", told(&printed)))
}

/// All published figures of a result.
pub fn metrics(result: &Value) -> Vec<&Value> {
    result["experiments"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|section| section["metrics"].as_array().unwrap())
        .collect()
}

/// Rewrites one line of a log.
pub fn edit_log(run: &Path, change: impl Fn(&mut Value)) {
    let mut lines = lines(run);
    lines.iter_mut().for_each(change);
    let texts: Vec<String> = lines.iter().map(Value::to_string).collect();
    fs::write(run.join("log.jsonl"), texts.join("\n") + "\n").unwrap();
}

/// Launches of the runs that were started in a directory.
pub fn launches_in(directory: &Path) -> Vec<i32> {
    let is_launch = |process: &i32| {
        let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        words.split(|&byte| byte == 0).nth(1) == Some(b"launch")
    };
    processes_in(directory).into_iter().filter(is_launch).collect()
}

/// Processes that were started in a directory of a test, which no other test and no other user of the machine has.
pub fn processes_in(directory: &Path) -> Vec<i32> {
    let directory = directory.canonicalize().unwrap();
    let numbers = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_there = |process: &i32| fs::read_link(format!("/proc/{process}/cwd")).is_ok_and(|found| found == directory);
    numbers.filter(is_there).collect()
}

/// Waits until something is so; fails with the reason when it is not in time.
pub fn wait_until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {limit:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A process that is killed at the end of a test, however that ends.
pub struct Leashed(pub Child);

impl Drop for Leashed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The complaint of a refusal: an error with a hint, and nothing on standard output.
pub fn refused(output: &Output) -> String {
    let complaint = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{}", told(output));
    assert!(output.stdout.is_empty(), "{}", told(output));
    assert!(complaint.starts_with("error: ") && complaint.contains("\nhint: "), "{}", told(output));
    complaint
}
