//! Drivers of a GPU that are missing, broken, without a device, slow for ever, killed in a call, or that lie: nothing is trusted, the
//! reason is named, and no process is left.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use sysdyno::testing::sys::clock::Source;
use sysdyno::testing::sys::gpu::{Direction, Driver, HostMemory, Task, Why};

use crate::support::driver::MadeDriver;
use crate::support::runs::{Leashed, measuring, metrics, result, sysdyno, told, wait_until};

const SOON: Duration = Duration::from_secs(20);

/// A short run of experiments of the chapter with a driver. Nothing is left of it.
fn run(driver: &MadeDriver, experiment: &str, does: &[(&str, &str)]) -> Value {
    let _alone = measuring();
    let (calls, place) = (driver.place().join("calls"), driver.place().join("run"));
    let logged = [does, &[("CUDA_FAKE_LOG", calls.to_str().unwrap())]].concat();
    let words = ["run", experiment, "--quick", "--time", "20s", "--no-progress", "-o", place.to_str().unwrap()];
    let output = driver.run(&words, &logged);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", told(&output));
    let found = result(&place);
    fs::remove_dir_all(&place).unwrap();
    all_have_ended(&calls);
    found
}

/// All processes that called the driver have ended.
fn all_have_ended(calls: &Path) {
    let text = fs::read_to_string(calls).unwrap_or_default();
    for process in text.lines().filter_map(|line| line.split(' ').next()) {
        let place = Path::new("/proc").join(process).join("cmdline");
        let is_it = || fs::read(&place).is_ok_and(|words| words.starts_with(b"sysdyno-gpu"));
        wait_until("the program that loads the driver ends", SOON, || (!is_it()).then_some(()));
    }
}

fn section<'a>(found: &'a Value, id: &str) -> &'a Value {
    found["experiments"].as_array().unwrap().iter().find(|section| section["id"] == id).unwrap()
}

/// It is skipped, for a reason with a part, and says what to do.
fn skipped(found: &Value, reason: &str) {
    let section = section(found, "gpu.launch");
    assert_eq!(section["outcome"], "skipped", "{section}");
    assert!(section["reason"].to_string().contains(reason), "{section}");
    assert!(metrics(found).is_empty());
}

#[test]
fn a_library_that_cannot_be_loaded_is_a_reason() {
    let found = run(&MadeDriver::broken(), "gpu", &[]);
    skipped(&found, "the driver of an NVIDIA GPU cannot be loaded: ");
    skipped(&found, "invalid ELF header");
}

#[test]
fn a_driver_without_a_device_is_a_reason() {
    skipped(&run(&MadeDriver::compile(), "gpu", &[("CUDA_FAKE_DEVICES", "0")]), "the driver finds no GPU");
}

#[test]
fn a_call_that_fails_is_named_with_its_error() {
    let driver = MadeDriver::compile();
    let found = run(&driver, "gpu", &[("CUDA_FAKE_FAILS", "cuInit")]);
    skipped(&found, "the driver's call cuInit failed with error 999 (CUDA_ERROR_UNKNOWN)");
    let found = run(&driver, "gpu.copy", &[("CUDA_FAKE_FAILS", "cuMemAllocHost_v2"), ("CUDA_FAKE_ERROR", "2")]);
    let of_copies = section(&found, "gpu.copy");
    assert_eq!(of_copies["outcome"], "failed", "{of_copies}");
    assert!(
        of_copies["reason"].to_string().contains("cuMemAllocHost_v2 failed with error 2 (CUDA_ERROR_OUT_OF_MEMORY)")
    );
    assert!(metrics(&found).is_empty());
}

#[test]
fn a_driver_that_does_nothing_or_something_else_is_refused() {
    let driver = MadeDriver::compile();
    let says = "the driver reported success, and the memory has another content";
    for (experiment, does, call) in [
        ("gpu.launch", "CUDA_FAKE_LIES", "cuLaunchKernel"),
        ("gpu.copy", "CUDA_FAKE_LIES", "cuMemcpyHtoD_v2"),
        ("gpu.copy", "CUDA_FAKE_SPOILS", "cuMemcpyDtoH_v2"),
    ] {
        let found = run(&driver, experiment, &[(does, call)]);
        assert!(metrics(&found).is_empty(), "{call}: {:?}", metrics(&found));
        let section = section(&found, experiment);
        assert!(
            section["outcome"] == "failed" && section["reason"].as_str().unwrap().contains(says),
            "{call}: {section}"
        );
    }
}

#[test]
fn a_run_that_is_killed_leaves_no_program_with_a_driver() {
    let driver = MadeDriver::compile();
    let _alone = measuring();
    let (calls, place) = (driver.place().join("calls"), driver.place().join("run"));
    let mut command = sysdyno(&["run", "gpu.copy", "--quick", "--no-progress", "-o", place.to_str().unwrap()]);
    let variables = driver.variables(&[("CUDA_FAKE_LOG", calls.to_str().unwrap())]);
    let mut run = Leashed(command.envs(variables).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait_until("copies begin", Duration::from_mins(2), || {
        fs::read_to_string(&calls).is_ok_and(|text| text.contains("cuMemcpyHtoD_v2")).then_some(())
    });
    run.0.kill().unwrap();
    all_have_ended(&calls);
}

/// What the driver does with requests of a test that does not wait long.
fn asked(driver: &MadeDriver, does: &[(&str, &str)]) -> Why {
    let calls = driver.place().join("calls");
    let logged = [does, &[("CUDA_FAKE_LOG", calls.to_str().unwrap())]].concat();
    let ask = || {
        let mut made = Driver::load(&driver.variables(&logged))?;
        made.describe(SOON)?;
        made.prepare(0, Duration::from_millis(300))?;
        made.time(Task::Launch, 3, Source::MonotonicRaw, SOON).map(drop)
    };
    let why = ask().unwrap_err();
    all_have_ended(&calls);
    why
}

#[test]
fn a_driver_that_hangs_is_killed_when_its_time_is_up() {
    let began = Instant::now();
    let why = asked(&MadeDriver::compile(), &[("CUDA_FAKE_HANGS", "cuModuleLoadData")]);
    assert_eq!(why, Why::Silent(Duration::from_millis(300)));
    assert!(began.elapsed() < SOON);
}

#[test]
fn a_run_ends_with_a_driver_that_hangs() {
    skipped(
        &run(&MadeDriver::compile(), "gpu", &[("CUDA_FAKE_HANGS", "cuInit")]),
        "the driver did not answer within 30 s",
    );
}

#[test]
fn a_driver_that_is_killed_is_named() {
    let why = asked(&MadeDriver::compile(), &[("CUDA_FAKE_DIES", "cuModuleLoadData")]);
    assert_eq!(why.to_string(), "the program that loads the driver ended: signal 11 killed it.");
}

#[test]
fn a_driver_does_what_it_is_asked() {
    let driver = MadeDriver::compile();
    let mut made = Driver::load(&driver.variables(&[])).unwrap();
    let device = made.describe(SOON).unwrap();
    assert_eq!((device.name.as_str(), device.version, device.count), ("Pretended GPU 100", 12040, 1));
    assert_eq!(device.address, "ffff:fe:1f.0");
    made.prepare(1 << 20, SOON).unwrap();
    for direction in [Direction::ToDevice, Direction::FromDevice] {
        for memory in [HostMemory::Pinned, HostMemory::Pageable] {
            for bytes in [4, 4096, 1 << 20] {
                let batch = made.time(Task::Copy(direction, memory, bytes), 2, Source::Counter, SOON).unwrap();
                assert!(batch.ticks > 0);
            }
        }
    }
    for bytes in [0, 6, (1 << 20) + 4] {
        let task = Task::Copy(Direction::ToDevice, HostMemory::Pinned, bytes);
        assert!(made.time(task, 1, Source::Counter, SOON).is_err(), "{bytes} bytes");
    }
    assert!(made.time(Task::Launch, 1, Source::Counter, SOON).is_err(), "there is no kernel");
}

#[test]
fn the_description_of_the_machine_names_the_device() {
    let found = run(&MadeDriver::compile(), "gpu.launch", &[]);
    assert_eq!(found["machine"]["gpu"]["name"], "Pretended GPU 100");
    assert_eq!(found["machine"]["gpu"]["cuda"], "12.4");
}
