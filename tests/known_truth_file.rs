//! Known truth for the file chapter: a file system whose every read takes a known time and is counted, a device that is
//! throttled, a device that is memory, and places that must be refused.
//!
//! These need root, as the machinery of the kernel that they use does; whoever runs them without is told so.
#![allow(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]

mod support;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::fuse::{Asked, Slow, own_mounts};
use support::runs::{measuring, sysdyno, told};
use support::truth;
use sysdyno::rig::files::{BLOCK, Stamped};
use sysdyno::statistics::summary::median;
use sysdyno::sys::file::{self, Advice, Buffer};

const MIB: u64 = 1 << 20;
/// What a system may take in a read beside the time of the device.
const BESIDE: Duration = Duration::from_micros(500);
/// Whole measurements until a truth is given up: neighbours take the CPUs now and then.
const TRIES: u32 = 3;

/// A directory on the disk of the build directory, with a mount point in it. It goes with the value.
fn place() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Offsets of blocks of a file in random order.
fn random_places(bytes: u64, count: usize, seed: u64) -> Vec<u64> {
    let mut places: Vec<u64> = (0..bytes / BLOCK as u64).map(|block| block * BLOCK as u64).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut places);
    places.truncate(count);
    places
}

/// Reads blocks one by one; the time of each.
fn times_of(stamped: &Stamped, from: &File, places: &[u64]) -> Vec<f64> {
    let mut buffer = Buffer::new(BLOCK);
    let mut times = Vec::new();
    for &at in places {
        let began = Instant::now();
        stamped.read(from, &mut buffer, at).unwrap();
        times.push(began.elapsed().as_secs_f64());
    }
    times
}

fn run(words: &[&str], scratch: &Path, output: &Path) -> Output {
    let mut all = vec!["run"];
    all.extend(words);
    all.extend(["--quick", "--seed", "7", "--no-progress"]);
    sysdyno(&all).arg("--scratch").arg(scratch).arg("-o").arg(output).output().unwrap()
}

fn result(output: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(output.join("result.json")).unwrap()).unwrap()
}

/// Figures of a name in a result, with their labels.
fn figures(result: &Value, name: &str) -> Vec<(Value, f64)> {
    let sections = result["experiments"].as_array().unwrap();
    sections
        .iter()
        .flat_map(|section| section["metrics"].as_array().unwrap())
        .filter(|metric| metric["name"] == name)
        .map(|metric| (metric["labels"].clone(), metric["value"].as_f64().unwrap()))
        .collect()
}

/// Tries a whole measurement a few times.
fn holds(what: &str, try_once: impl Fn() -> Result<(), String>) {
    let _alone = measuring();
    truth::holds(TRIES, what, try_once);
}

#[test]
fn cold_and_direct_reads_take_the_time_of_the_device_and_are_as_many_as_asked_for() {
    own_mounts();
    let place = place();
    let (delay, reads) = (Duration::from_millis(2), 60);
    let slow = Slow::mount(place.path(), Duration::ZERO, 2, 8 << 30);
    let stamped = Stamped::write(&place.path().join("file"), 8 * MIB, 1).unwrap();
    let sound = stamped.sound().unwrap();
    assert_eq!(sound.extents, None, "a program tells no extents");
    let (buffered, direct) = (stamped.buffered().unwrap(), stamped.direct().unwrap());
    file::advise(&buffered, Advice::Random).unwrap();
    holds("reads of a device that takes 2 ms", || {
        slow.set_delay(delay);
        for (how, from) in [("cold", &buffered), ("direct", &direct)] {
            stamped.evict().unwrap();
            slow.take_log();
            let places = random_places(8 * MIB, reads, 3);
            let time = median(&times_of(&stamped, from, &places)).unwrap();
            let log = slow.take_log();
            let asked: Vec<u64> = log.iter().map(|asked| asked.offset).collect();
            // Exactly these reads, in this order, and of a block each: nothing read ahead, nothing from a cache.
            assert_eq!(asked, places, "{how}");
            assert!(log.iter().all(|asked| asked.size == BLOCK as u32), "{how}: {log:?}");
            let cached = stamped.cached_pages().unwrap();
            assert_eq!(cached, if how == "cold" { reads as u64 } else { 0 }, "{how}");
            let range = delay.as_secs_f64()..(delay + BESIDE).as_secs_f64();
            if !range.contains(&time) {
                return Err(format!("{how}: {time} s"));
            }
        }
        slow.set_delay(Duration::ZERO);
        stamped.warm().unwrap();
        slow.take_log();
        slow.set_delay(delay);
        times_of(&stamped, &buffered, &random_places(8 * MIB, reads, 4));
        assert_eq!(slow.take_log(), Vec::<Asked>::new(), "a warm file asks nobody");
        Ok(())
    });
}

#[test]
fn the_experiment_on_reads_finds_the_time_of_the_device() {
    own_mounts();
    let (place, output) = (place(), place());
    let slow = Slow::mount(place.path(), Duration::from_millis(2), 4, 300 * MIB);
    holds("file.read on a device that takes 2 ms", || {
        let output = output.path().join(format!("run-{}", slow.take_log().len()));
        let ended = run(&["file.read"], place.path(), &output);
        assert!(ended.status.success(), "{}", told(&ended));
        assert!(slow.names().is_empty(), "left behind: {:?}", slow.names());
        let result = result(&output);
        let mut seen = 0;
        for (labels, value) in figures(&result, "file.read.block_time") {
            let device = labels["cache"] == "direct" || labels["cache"] == "cold" && labels["order"] == "random";
            let range = if device { 2e6..2e6 + BESIDE.as_nanos() as f64 } else { 0.0..2e6 };
            seen += u32::from(device);
            if !range.contains(&value) {
                return Err(format!("{labels}: {value} ns"));
            }
        }
        assert!(seen >= 6, "{seen} figures of the device");
        // Four workers: four times as many reads in the same time at most. The kernel may serve them one by one: it enters a
        // program's file system while it takes the requests.
        for (labels, value) in figures(&result, "file.read.depth_rate") {
            let depth: f64 = labels["depth"].as_str().unwrap().parse().unwrap();
            let (least, most) = (0.75 * BLOCK as f64 / 2e-3, depth.min(4.0) * BLOCK as f64 / 2e-3);
            if !(least..=most * 1.01).contains(&value) {
                return Err(format!("{labels}: {value} B/s, {least} to {most}"));
            }
        }
        Ok(())
    });
}

/// Readers of a device with so many workers: N·D/w, by the service time that the server itself saw.
fn contend(workers: usize) {
    own_mounts();
    let (place, output) = (place(), place());
    let slow = Slow::mount(place.path(), Duration::from_millis(4), workers, 7 << 30);
    let tries = std::cell::Cell::new(0);
    holds("contention for a device that takes 4 ms", || {
        tries.set(tries.get() + 1);
        slow.take_log();
        let output = output.path().join(format!("run-{}", tries.get()));
        let ended = run(&["file.contention"], place.path(), &output);
        assert!(ended.status.success(), "{}", told(&ended));
        let log = slow.take_log();
        let served: Vec<f64> =
            log.iter().filter(|asked| asked.size == 4096).map(|asked| asked.took.as_nanos() as f64).collect();
        let service = median(&served).unwrap();
        let found = figures(&result(&output), "file.contention.block_time");
        assert_eq!(found.len(), 10, "{found:?}");
        for (labels, value) in found {
            let processes: f64 = labels["processes"].as_str().unwrap().parse().unwrap();
            let expected = service * (processes / workers as f64).max(1.0);
            // Between an answer and the next request the process wakes up and asks again: once for each line of N.
            let beside = BESIDE.as_nanos() as f64 * (processes / workers as f64).max(1.0);
            if value < expected * 0.98 || value > (expected * 1.02).max(expected + beside.min(0.04 * expected)) {
                return Err(format!("{labels}: {value} ns, expected {expected} ns"));
            }
        }
        for metric in result(&output)["experiments"][0]["metrics"].as_array().unwrap() {
            let rises = metric["name"] == "file.contention.fairness" || metric["name"] == "file.contention.rate";
            assert_eq!(metric["better"], if rises { "higher" } else { "lower" }, "{metric}");
        }
        for (labels, value) in figures(&result(&output), "file.contention.fairness") {
            if value < 0.95 {
                return Err(format!("{labels}: fairness {value}"));
            }
        }
        Ok(())
    });
}

#[test]
fn readers_of_a_device_that_serves_one_at_a_time_stand_in_line() {
    contend(1);
}

#[test]
fn readers_of_a_device_that_serves_four_at_a_time_stand_in_four_lines() {
    contend(4);
}

/// The number of the whole disk that holds a file: throttles are for disks, not for their partitions.
fn disk_of(file: &File) -> String {
    let number = file::device_number(file).unwrap();
    let link = std::fs::canonicalize(format!("/sys/dev/block/{number}"))
        .unwrap_or_else(|_| panic!("no block device {number} is behind {}", env!("CARGO_TARGET_TMPDIR")));
    let disk = if link.join("partition").exists() { link.parent().unwrap().to_path_buf() } else { link };
    std::fs::read_to_string(disk.join("dev")).unwrap().trim().to_owned()
}

/// A control group in which this thread may read so often from a disk. It is left and removed with the value.
struct Throttle(PathBuf);

impl Throttle {
    fn of(disk: &str, reads_per_second: u32) -> Self {
        let root = Path::new("/sys/fs/cgroup/blkio");
        let group = root.join(format!("sysdyno-test-{}", std::process::id()));
        std::fs::create_dir(&group).unwrap_or_else(|error| {
            panic!("this test needs the blkio controller (cgroup v1) at {}: {error}", root.display())
        });
        let throttle = Throttle(group);
        std::fs::write(throttle.0.join("blkio.throttle.read_iops_device"), format!("{disk} {reads_per_second}"))
            .unwrap();
        std::fs::write(throttle.0.join("tasks"), nix::unistd::gettid().to_string()).unwrap();
        throttle
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        let _ = std::fs::write("/sys/fs/cgroup/blkio/tasks", nix::unistd::gettid().to_string());
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_throttled_disk_gives_its_reads_at_the_set_pace() {
    let place = place();
    let stamped = Stamped::write(&place.path().join("file"), 16 * MIB, 9).unwrap();
    let (buffered, direct) = (stamped.buffered().unwrap(), stamped.direct().unwrap());
    file::advise(&buffered, Advice::Random).unwrap();
    let disk = disk_of(stamped.file());
    holds("reads of a disk that may serve 200 in a second", || {
        for (how, from) in [("direct", &direct), ("cold", &buffered)] {
            stamped.evict().unwrap();
            let throttle = Throttle::of(&disk, 200);
            let times = times_of(&stamped, from, &random_places(16 * MIB, 400, 5));
            drop(throttle);
            // The first slices of the throttle are free.
            let mut passed = 0.0;
            let late: Vec<f64> = times
                .into_iter()
                .filter(|time| {
                    passed += time;
                    passed > 0.5
                })
                .collect();
            let mean = late.iter().sum::<f64>() / late.len() as f64;
            if (mean / 5e-3 - 1.0).abs() > 0.06 {
                return Err(format!("{how}: {} reads took {mean} s each", late.len()));
            }
        }
        Ok(())
    });
}

/// Runs a command that must succeed; what it said.
fn must(words: &[&str]) -> String {
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap_or_else(|error| panic!("{words:?}: {error}"));
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A loop device; it is detached with the value.
struct Loop(String);

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_device_that_is_memory_is_called_served_by_a_cache() {
    own_mounts();
    let (place, output) = (place(), place());
    let (memory, mounted) = (place.path().join("memory"), place.path().join("mounted"));
    std::fs::create_dir(&memory).unwrap();
    std::fs::create_dir(&mounted).unwrap();
    must(&["mount", "-t", "tmpfs", "-o", "size=512m", "memory", memory.to_str().unwrap()]);
    let image = memory.join("image");
    File::create_new(&image).unwrap().set_len(400 * MIB).unwrap();
    let device = Loop(must(&["losetup", "--find", "--show", image.to_str().unwrap()]));
    must(&["mkfs.ext4", "-q", "-E", "nodiscard", &device.0]);
    must(&["mount", &device.0, mounted.to_str().unwrap()]);
    let _alone = measuring();
    let output = output.path().join("run");
    let ended = run(&["file.read"], &mounted, &output);
    must(&["umount", mounted.to_str().unwrap()]);
    assert!(ended.status.success(), "{}", told(&ended));
    let text = result(&output)["experiments"][0].to_string();
    assert!(text.contains("served by a cache below the kernel or by memory"), "{text}");
    assert!(text.contains("on tmpfs"), "{text}");
    drop(device);
}

/// The reason for which an experiment was skipped.
fn skipped(result: &Value) -> String {
    let section = &result["experiments"][0];
    assert_eq!(section["outcome"], "skipped", "{section}");
    format!("{} {}", section["reason"], section["hint"])
}

#[test]
fn places_without_a_disk_of_this_machine_are_refused_by_name() {
    own_mounts();
    let (place, output) = (place(), place());
    let inside = place.path().to_str().unwrap();
    for experiment in ["file.read", "file.contention"] {
        must(&["mount", "-t", "tmpfs", "memory", inside]);
        let told_to = output.path().join(experiment);
        let ended = run(&[experiment], place.path(), &told_to);
        must(&["umount", inside]);
        assert!(ended.status.success(), "{}", told(&ended));
        let reason = skipped(&result(&told_to));
        assert!(reason.contains("in memory (tmpfs)") && reason.contains("--scratch"), "{reason}");
    }
    must(&["mount", "--bind", inside, inside]);
    must(&["mount", "-o", "remount,bind,ro", inside]);
    let told_to = output.path().join("read-only");
    let ended = run(&["file.read"], place.path(), &told_to);
    must(&["umount", inside]);
    assert_eq!(ended.status.code(), Some(2), "{}", told(&ended));
    assert!(told(&ended).contains("Read-only file system") && !told_to.exists(), "{}", told(&ended));
}
