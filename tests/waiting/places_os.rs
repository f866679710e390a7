//! Bad places for the operating-system chapter: filters that deny or kill, limits on tasks and memory, one CPU, nobody's
//! rights, programs that cannot be executed, a run that is killed. What cannot be had is named with its reason, everything
//! else is measured, and no task is left.
//!
//! Control groups are made for the test and removed. Where a place cannot be made the test fails and says why, unless no version has
//! the controller.
#![allow(unsafe_code, reason = "a system-call filter is installed before the program is started")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::support::places::{Group, for_anybody, nobody};
use crate::support::runs::{ended, measuring, metrics, of_others, processes_in, program, result, told, wait_until};
use nix::unistd::Uid;
use serde_json::Value;
use sysdyno::testing::sys::affinity;
use tempfile::TempDir;

const CALLS: &str = "os.system_call";
const PROCESSES: &str = "os.process_creation";
const THREADS: &str = "os.thread_creation";

/// Words that run experiments with two launches of each.
fn quick(experiments: &[&str]) -> Vec<String> {
    let words = ["run", "--quick", "--time", "4", "--no-progress", "-o", "run"];
    words.iter().chain(experiments).map(|&word| word.to_owned()).collect()
}

/// Runs experiments to their end behind other words and takes the result.
fn run(words: &[&str], experiments: &[&str], change: impl FnOnce(&mut Command)) -> (TempDir, Value) {
    let _alone = measuring();
    let (directory, program) = for_anybody();
    let mut command = match words {
        [] => Command::new(&program),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(&program);
            command
        }
    };
    command.args(quick(experiments)).current_dir(directory.path()).stdin(Stdio::null());
    // A run under a limit has no place in the history of whoever runs these tests.
    command.env("XDG_STATE_HOME", directory.path().join("state"));
    change(&mut command);
    let output = command.output().unwrap_or_else(|error| panic!("{words:?}: {error}"));
    well(&output, directory.path());
    let found = result(&directory.path().join("run"));
    (directory, found)
}

/// It ended as it should, and left nothing.
fn well(output: &Output, directory: &Path) {
    assert!(ended(output), "{}", told(output));
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{}", told(output));
    wait_until("launches end", Duration::from_secs(5), || processes_in(directory).is_empty().then_some(()));
}

/// Whether a figure with these labels is published.
fn has(result: &Value, name: &str, labels: &[(&str, &str)]) -> bool {
    metrics(result).into_iter().any(|metric| is(metric, name, labels))
}

fn is(figure: &Value, name: &str, labels: &[(&str, &str)]) -> bool {
    figure["name"] == name && labels.iter().all(|(key, value)| figure["labels"][key] == *value)
}

/// What no place can change: a quick run leaves it out.
const OMITTED: &str = "a quick run omits it";

/// Reasons why figures with these labels are missing that a quick run should have.
fn reasons(result: &Value, name: &str, labels: &[(&str, &str)]) -> Vec<String> {
    let sections = result["experiments"].as_array().unwrap();
    let rejected = sections.iter().flat_map(|section| section["rejected"].as_array().unwrap());
    rejected
        .filter(|figure| is(figure, name, labels))
        .map(|figure| figure["reason"].as_str().unwrap().to_owned())
        .filter(|reason| !reason.contains(OMITTED))
        .collect()
}

/// Asserts that no figure with these labels is published and that every one is missing for a reason with these words.
fn assert_missing(result: &Value, name: &str, labels: &[(&str, &str)], words: &str) {
    assert!(!has(result, name, labels), "{name} {labels:?} is published");
    let reasons = reasons(result, name, labels);
    assert!(!reasons.is_empty(), "{name} {labels:?} is missing without a reason");
    assert!(reasons.iter().all(|reason| reason.contains(words)), "{name} {labels:?}: {reasons:?}");
}

/// Asserts that a figure was measured.
fn assert_there(result: &Value, name: &str, labels: &[(&str, &str)]) {
    let reasons = reasons(result, name, labels);
    let measured = has(result, name, labels) || reasons.iter().any(|reason| of_others(reason));
    assert!(measured, "{name} {labels:?}: {reasons:?}");
}

const CALL: &str = "os.system_call.time";
const CHILD: &str = "os.process_creation.time";
const THREAD: &str = "os.thread_creation.time";
const PER_PAGE: &str = "os.process_creation.per_page";

/// What a filter looks for: a call, and optionally bits of its first argument that must have a value.
#[derive(Clone, Copy)]
struct Rule {
    call: i64,
    bits: Option<(u32, u32)>,
    answer: u32,
}

const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;

fn deny(error: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | error as u32
}

fn rule(call: i64, answer: u32) -> Rule {
    Rule { call, bits: None, answer }
}

/// Has a command install a filter right before it becomes the program.
fn filtered(command: &mut Command, rules: &[Rule]) {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code: u16, jf: u8, k: u32| libc::sock_filter { code, jt: 0, jf, k };
    let mut program = Vec::new();
    for rule in rules {
        program.push(step(LOAD, 0, 0));
        program.push(step(EQUAL, if rule.bits.is_some() { 4 } else { 1 }, rule.call as u32));
        if let Some((mask, value)) = rule.bits {
            // The lower half of the first argument, on a machine whose lower half comes first.
            program.extend([step(LOAD, 0, 16), step(AND, 0, mask), step(EQUAL, 1, value)]);
        }
        program.push(step(RETURN, 0, rule.answer));
    }
    program.push(step(RETURN, 0, libc::SECCOMP_RET_ALLOW));
    let install = move || {
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
        // SAFETY: the first call gives up privileges of the new process only; the second copies the program, which the
        // closure owns.
        let failed = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) != 0
        };
        if failed { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: between fork and exec it makes two system calls and touches no lock and no heap.
    unsafe { command.pre_exec(install) };
}

#[test]
fn calls_that_a_filter_denies_or_kills_are_named_and_the_others_timed() {
    for (answer, words) in [(deny(libc::EPERM), "filter refuses"), (KILL, "filter kills")] {
        let calls = [libc::SYS_getcwd, libc::SYS_clock_gettime, libc::SYS_sched_yield];
        let rules = calls.map(|call| rule(call, answer));
        let (_keep, found) = run(&[], &[CALLS], |command| filtered(command, &rules));
        for call in ["getcwd", "clock_gettime", "sched_yield"] {
            assert_missing(&found, CALL, &[("call", call)], words);
        }
        for call in ["enosys", "getpid", "getppid", "read_dev_zero", "write_dev_null", "clock_gettime_vdso"] {
            assert_there(&found, CALL, &[("call", call)]);
        }
    }
}

#[test]
fn without_io_uring_the_rest_is_timed() {
    for (answer, words) in [
        (deny(libc::EPERM), "Operation not permitted"),
        (deny(libc::ENOSYS), "not implemented"),
        (KILL, "filter kills"),
    ] {
        let (_keep, found) = run(&[], &[CALLS], |command| filtered(command, &[rule(libc::SYS_io_uring_setup, answer)]));
        for call in ["io_uring_nop", "io_uring_nop_batched"] {
            assert_missing(&found, CALL, &[("call", call)], words);
        }
        assert_there(&found, CALL, &[("call", "getcwd")]);
    }
}

/// Launches are started with shared memory until they execute; a child by fork shares none.
const FORK: Rule = Rule {
    call: libc::SYS_clone,
    bits: Some((libc::CLONE_VM as u32, 0)),
    answer: libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
};

#[test]
fn where_fork_is_denied_vfork_is_timed() {
    const LEFT: [&str; 2] = ["vfork_wait", "posix_spawn_wait"];
    let measured = || run(&[], &[PROCESSES], |command| filtered(command, &[FORK]));
    let has_all = |found: &Value| LEFT.iter().all(|how| has(found, CHILD, &[("how", how)]));
    // A neighbour can make a clock read so slow that one child is too short for it (G4).
    let (_keep, found) = (0..3).map(|_| measured()).find(|(_, found)| has_all(found)).unwrap_or_else(measured);
    for how in ["fork", "fork_wait", "first_instruction", "library_fork_wait", "fork_exec_wait"] {
        assert_missing(&found, CHILD, &[("how", how)], "Operation not permitted");
    }
    for how in LEFT {
        assert_there(&found, CHILD, &[("how", how)]);
    }
    for how in ["fork", "fork_wait"] {
        assert_missing(&found, PER_PAGE, &[("how", how)], "resident sizes");
    }
}

#[test]
fn threads_by_any_call_that_is_left() {
    let thread = Some((libc::CLONE_THREAD as u32, libc::CLONE_THREAD as u32));
    // As container engines do where they cannot look into the arguments of clone3.
    let no_clone3 = rule(libc::SYS_clone3, deny(libc::ENOSYS));
    let (_keep, found) = run(&[], &[THREADS], |command| filtered(command, &[no_clone3]));
    for by in ["pthread", "pthread_fresh", "kernel"] {
        assert_there(&found, THREAD, &[("by", by), ("how", "create_join")]);
    }
    let told = found["experiments"][0]["analysis"].to_string();
    let compared = has(&found, THREAD, &[("how", "create_join"), ("by", "kernel")]);
    assert!(!compared || told.contains("clone; clone3:") && told.contains("not implemented"), "{told}");
    for (answer, words) in [(deny(libc::EPERM), "Operation not permitted"), (KILL, "filter kills")] {
        let no_clone = Rule { call: libc::SYS_clone, bits: thread, answer };
        let (_keep, found) = run(&[], &[THREADS, CALLS], |command| filtered(command, &[no_clone3, no_clone]));
        for by in ["pthread", "pthread_fresh", "kernel"] {
            assert_missing(&found, THREAD, &[("by", by)], words);
        }
        assert_there(&found, CALL, &[("call", "getpid")]);
    }
}

/// Has a command enter the group before it becomes the program.
fn enter(group: &Group, command: &mut Command) {
    let tasks = std::ffi::CString::new(group.place.join("cgroup.procs").to_str().unwrap()).unwrap();
    let enter = move || {
        // SAFETY: opens, writes and closes a file by a path that the closure owns; no lock, no heap.
        let written = unsafe {
            let file = libc::open(tasks.as_ptr(), libc::O_WRONLY);
            let written = libc::write(file, c"0".as_ptr().cast(), 1);
            libc::close(file);
            written
        };
        if written == 1 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: as said above.
    unsafe { command.pre_exec(enter) };
}

/// Room for the run and its launch, and for nothing that the launch would make.
fn assert_no_room(found: &Value) {
    assert_missing(found, CHILD, &[], "temporarily unavailable");
    assert_missing(found, THREAD, &[], "temporarily unavailable");
    assert_there(found, CALL, &[("call", "getpid")]);
}

#[test]
fn twenty_tasks_are_enough_and_two_leave_no_room() {
    let Some(few) = Group::of_tasks(20) else { return };
    let (_keep, found) = run(&[], &[PROCESSES, THREADS], |command| enter(&few, command));
    assert_there(&found, CHILD, &[("how", "fork_exec_wait"), ("image", "dynamic")]);
    assert_there(&found, THREAD, &[("how", "create_join"), ("by", "kernel")]);
    for name in [CHILD, THREAD] {
        let reasons = reasons(&found, name, &[]);
        assert!(reasons.iter().all(|reason| of_others(reason)), "{name}: {reasons:?}");
    }
    let Some(two) = Group::of_tasks(2) else { return };
    let (_keep, found) = run(&[], &[CALLS, PROCESSES, THREADS], |command| enter(&two, command));
    assert_no_room(&found);
}

#[test]
fn a_user_without_rights_gets_everything_and_at_the_limit_of_tasks_the_rest() {
    let (_keep, found) = run(&nobody(), &[CALLS, PROCESSES, THREADS], |_| ());
    for (name, labels) in [
        (CALL, ("call", "io_uring_nop")),
        (CHILD, ("how", "posix_spawn_wait")),
        (CHILD, ("resident", "67108864")),
        (THREAD, ("by", "pthread_fresh")),
    ] {
        assert_there(&found, name, &[labels]);
    }
    let words = [nobody(), vec!["prlimit", "--nproc=2"]].concat();
    let (_keep, found) = run(&words, &[CALLS, PROCESSES, THREADS], |_| ());
    assert_no_room(&found);
}

#[test]
fn little_address_space_leaves_the_small_parents() {
    // The largest parent of a quick run has 64 MiB, and so has the large stack.
    let (_keep, found) = run(&["prlimit", "--as=60000000"], &[PROCESSES], |_| ());
    assert_there(&found, CHILD, &[("how", "fork_wait"), ("resident", "16777216")]);
    assert_missing(&found, CHILD, &[("resident", "67108864")], "Cannot allocate memory");
    let (_keep, found) = run(&["prlimit", "--as=60000000"], &[THREADS], |_| ());
    assert_missing(&found, THREAD, &[("by", "pthread_fresh")], "no thread could be made");
    assert_there(&found, THREAD, &[("by", "pthread")]);
    assert_there(&found, THREAD, &[("by", "kernel")]);
}

#[test]
fn one_cpu_leaves_out_what_is_free_to_move() {
    let cpu = affinity::allowed().last().unwrap().to_string();
    let (_keep, found) = run(&["taskset", "-c", &cpu], &[PROCESSES, THREADS], |_| ());
    for name in [CHILD, THREAD] {
        assert_missing(&found, name, &[("child", "free")], "only one CPU is allowed");
        assert_there(&found, name, &[("child", "same_cpu")]);
    }
}

#[test]
fn a_program_that_cannot_be_executed_is_no_fast_process() {
    let (directory, _) = for_anybody();
    let unexecutable = directory.path().join("true");
    fs::copy("/bin/true", &unexecutable).unwrap();
    fs::set_permissions(&unexecutable, fs::Permissions::from_mode(0o644)).unwrap();
    let hide = format!(
        "for place in /bin/true /usr/bin/true; do [ ! -e $place ] || mount --bind {} $place; done; exec \"$0\" \"$@\"",
        unexecutable.display()
    );
    let unshare: &[&str] =
        if Uid::effective().is_root() { &["--mount", "--"] } else { &["--mount", "--map-root-user", "--"] };
    let words = [&["unshare"], unshare, &["bash", "-euc", &hide]].concat();
    let (_keep, found) = run(&words, &[PROCESSES], |_| ());
    assert_missing(&found, CHILD, &[("how", "fork_exec_wait"), ("image", "dynamic")], "could not be executed");
    assert_missing(&found, CHILD, &[("how", "posix_spawn_wait"), ("image", "dynamic")], "Permission denied");
    assert_there(&found, CHILD, &[("image", "static"), ("how", "fork_exec_wait")]);
}

#[test]
fn a_run_that_is_killed_leaves_no_task() {
    let _alone = measuring();
    let directory = tempfile::tempdir().unwrap();
    for experiment in [PROCESSES, THREADS, CALLS] {
        for milliseconds in [450, 600, 750, 1000] {
            let place = directory.path().join(format!("{experiment}-{milliseconds}"));
            let mut run = program()
                .args(["run", experiment, "--quick", "--time=4s", "--no-progress", "-o"])
                .arg(&place)
                .current_dir(directory.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_millis(milliseconds));
            run.kill().unwrap();
            run.wait().unwrap();
            wait_until("every task ends", Duration::from_secs(5), || {
                processes_in(directory.path()).is_empty().then_some(())
            });
        }
    }
}
