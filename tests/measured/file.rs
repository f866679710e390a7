//! Known truth for the file chapter: a file system whose every read is counted and notes how long it took, a device that is
//! throttled and counts what it lets through, a device that is memory, and places that must be refused.
//!
//! What the server was asked to take is no truth: it may wake up late. Figures are compared with its notes.
//!
//! These need root, as the machinery of the kernel that they use does; whoever runs them without is told so.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use crate::support::disk::{Disk, Loop, Throttle, counted};
use crate::support::fuse::{Asked, Slow, own_mounts};
use crate::support::namespaces::must;
use crate::support::runs::{ended, measuring, metrics, result, sysdyno, told};
use crate::support::truth::{self, Judgement};
use serde_json::Value;
use sysdyno::testing::experiments::file::stamped_file::{BLOCK, Stamped};
use sysdyno::testing::statistics::summary::{median, quantile};
use sysdyno::testing::sys::file::{self, Advice, Buffer};

const MIB: u64 = 1 << 20;

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
    all.extend(["--quick", "--time", "10s", "--seed", "7", "--no-progress"]);
    sysdyno(&all).arg("--scratch").arg(scratch).arg("-o").arg(output).output().unwrap()
}

/// Figures of a name in a result, with their labels; the first that the tool does not trust ends it.
fn figures(result: &Value, name: &str) -> Result<Vec<(Value, f64)>, Judgement> {
    let sections = result["experiments"].as_array().unwrap();
    let all = sections.iter().flat_map(|section| ["metrics", "rejected"].map(|list| section[list].as_array().unwrap()));
    let found = all.flatten().filter(|figure| figure["name"] == name);
    found
        .map(|figure| {
            let all: std::collections::BTreeMap<String, String> =
                serde_json::from_value(figure["labels"].clone()).unwrap();
            let labels: Vec<(&str, &str)> = all.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            let metric = truth::trusted(result, name, &labels)?;
            Ok((metric["labels"].clone(), metric["value"].as_f64().unwrap()))
        })
        .collect()
}

/// Compares figures of whole runs.
fn judged(what: &str, mut compare: impl FnMut() -> Result<(), Judgement>) {
    let _alone = measuring();
    truth::judged(what, || compare().err().unwrap_or(Judgement::Right));
}

fn wrong(why: String) -> Judgement {
    Judgement::Wrong(why)
}

/// Low and high quantiles of how long the server took, in seconds.
fn spread(log: &[Asked]) -> [f64; 2] {
    let took: Vec<f64> = log.iter().map(Asked::seconds).collect();
    [0.02, 0.98].map(|part| quantile(&took, part).expect("the server was asked"))
}

/// Seconds that this machine needs beside the server for a read: to wake up the server and then the reader.
fn beside(times: &[f64], log: &[Asked]) -> f64 {
    let rests: Vec<f64> = times.iter().zip(log).map(|(time, asked)| time - asked.seconds()).collect();
    median(&rests).unwrap()
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
    let _alone = measuring();
    truth::timed("reads of a device that takes 2 ms", || {
        slow.set_delay(delay);
        for (how, from) in [("cold", &buffered), ("direct", &direct)] {
            stamped.evict().unwrap();
            slow.take_log();
            let places = random_places(8 * MIB, reads, 3);
            let times = times_of(&stamped, from, &places);
            let log = slow.take_log();
            let asked: Vec<u64> = log.iter().map(|asked| asked.offset).collect();
            // Exactly these reads, in this order, and of a block each: nothing read ahead, nothing from a cache.
            assert_eq!(asked, places, "{how}");
            assert!(log.iter().all(|asked| asked.size == BLOCK as u32), "{how}: {log:?}");
            // The kernel can take back pages at any time, and never has more than were read.
            let (cached, expected) = (stamped.cached_pages().unwrap(), if how == "cold" { reads as u64 } else { 0 });
            assert!(cached <= expected, "{how}: {cached} pages are cached");
            if cached < expected {
                return Err(format!("{how}: the kernel has taken back {} of {expected} pages", expected - cached));
            }
            // Each read waited for its own answer, and most of its time was the server's.
            for (time, asked) in times.iter().zip(&log) {
                assert!(*time >= asked.seconds(), "{how}: {time} s, the server took {asked:?}");
            }
            let (time, rest) = (median(&times).unwrap(), beside(&times, &log));
            if rest > time / 2.0 {
                return Err(format!("{how}: of {time} s, {rest} s are not the server's"));
            }
        }
        slow.set_delay(Duration::ZERO);
        stamped.warm().unwrap();
        slow.take_log();
        slow.set_delay(delay);
        times_of(&stamped, &buffered, &random_places(8 * MIB, reads, 4));
        let (log, gone) = (slow.take_log(), stamped.pages() - stamped.cached_pages().unwrap());
        if log.is_empty() { Ok(()) } else { Err(format!("a warm file asks: {log:?}, {gone} pages are not cached")) }
    });
}

/// Workers of the device that the experiment reads from.
const WORKERS: usize = 4;

/// The most requests that were in service at one time.
fn at_once(log: &[Asked]) -> usize {
    let is_open = |asked: &Asked, at| asked.came <= at && at < asked.came + asked.took;
    log.iter().map(|asked| log.iter().filter(|other| is_open(other, asked.came)).count()).max().unwrap_or(0)
}

#[test]
fn the_experiment_on_reads_finds_the_time_of_the_device() {
    own_mounts();
    let (place, output) = (place(), place());
    let slow = Slow::mount(place.path(), Duration::from_millis(2), WORKERS, 300 * MIB);
    let mut tries = 0;
    judged("file.read on a device that takes 2 ms", || {
        tries += 1;
        // What reads have beside the server at this time, by reads of the same kind.
        let stamped = Stamped::write(&place.path().join("own"), MIB, 1).unwrap();
        slow.take_log();
        let own = times_of(&stamped, &stamped.direct().unwrap(), &random_places(MIB, 60, 3));
        let rest = beside(&own, &slow.take_log());
        stamped.warm().unwrap();
        // First from memory, then from caches of the processor.
        let pass = || median(&times_of(&stamped, &stamped.buffered().unwrap(), &random_places(MIB, 256, 4))).unwrap();
        let passes: Vec<f64> = (0..20).map(|_| pass()).collect();
        let [fastest, slowest] = [f64::min, f64::max].map(|chosen| passes.iter().copied().reduce(chosen).unwrap());
        std::fs::remove_file(place.path().join("own")).unwrap();
        let output = output.path().join(format!("run-{tries}"));
        let ran = run(&["file.read"], place.path(), &output);
        assert!(ended(&ran), "{}", told(&ran));
        assert!(slow.names().is_empty(), "left behind: {:?}", slow.names());
        let (log, ahead): (Vec<Asked>, Vec<Asked>) =
            slow.take_log().into_iter().partition(|asked| asked.size == BLOCK as u32);
        let [least, most] = spread(&log);
        // Blocks that the server gave at once to a reader ahead of its reads, by all workers.
        let largest = ahead.iter().map(|asked| asked.size).max().unwrap_or(BLOCK as u32);
        let given = f64::from(largest) / BLOCK as f64 * WORKERS as f64;
        let longest = (most + 2.0 * rest).max(most * 1.05);
        let result = result(&output);
        let mut seen = 0;
        for (labels, value) in figures(&result, "file.read.block_time")? {
            let device = labels["cache"] == "direct" || labels["cache"] == "cold" && labels["order"] == "random";
            let range = match labels["cache"].as_str() {
                _ if device => least..longest,
                Some("warm") => fastest / 3.0..slowest * 5.0,
                _ => least / given..least,
            };
            seen += u32::from(device);
            if !range.contains(&(value / 1e9)) {
                return Err(wrong(format!(
                    "{labels}: {value} ns, {range:?} s; the server took {least} to {most} s, others {rest} s"
                )));
            }
        }
        if seen < 6 {
            return Err(wrong(format!("{seen} figures of the device")));
        }
        // Workers serve as many reads in the same time as were in service at once. The kernel may give them one by one: it enters a
        // program's file system while it takes the requests.
        let served = at_once(&log) as f64;
        for (labels, value) in figures(&result, "file.read.depth_rate")? {
            let depth: f64 = labels["depth"].as_str().unwrap().parse().unwrap();
            let (least, most) = (BLOCK as f64 / longest * 0.95, depth.min(served) * BLOCK as f64 / least * 1.01);
            if !(least..=most).contains(&value) {
                return Err(wrong(format!("{labels}: {value} B/s, {least} to {most}")));
            }
        }
        Ok(())
    });
}

/// Seconds of 8 MiB in large writes of a new file and its fdatasync.
fn own_pass(place: &Path) -> f64 {
    let (path, bytes) = (place.join("own"), vec![7; MIB as usize]);
    let file = File::create_new(&path).unwrap();
    let pass = || {
        let began = Instant::now();
        (0..8).for_each(|number| file.write_all_at(&bytes, number * MIB).unwrap());
        file.sync_data().unwrap();
        began.elapsed().as_secs_f64()
    };
    pass();
    let median = median(&(0..9).map(|_| pass()).collect::<Vec<f64>>()).unwrap();
    std::fs::remove_file(path).unwrap();
    median
}

#[test]
fn a_write_waits_for_its_sync_and_no_other_write_does() {
    own_mounts();
    let (place, output) = (place(), place());
    let slow = Slow::mount(place.path(), Duration::ZERO, 2, 300 * MIB);
    slow.set_sync_delay(Duration::from_millis(4));
    let mut tries = 0;
    judged("file.write on a file system whose syncs take 4 ms", || {
        tries += 1;
        let before = own_pass(place.path());
        slow.take_syncs();
        let output = output.path().join(format!("run-{tries}"));
        let ran = run(&["file.write"], place.path(), &output);
        assert!(ended(&ran), "{}", told(&ran));
        assert!(slow.names().is_empty(), "left behind: {:?}", slow.names());
        let syncs = slow.take_syncs();
        let result = result(&output);
        // Two ways ask for the contents alone, and two for all. A launch has two more of the contents, and the first two of all.
        let launches = result["experiments"][0]["launches"].as_u64().unwrap() as usize;
        let data_only = syncs.iter().filter(|sync| sync.data_only).count();
        let of_all = syncs.len() - data_only;
        assert_eq!(
            data_only - 2 * launches,
            of_all - 2,
            "{data_only} of contents, {of_all} of all, {launches} launches"
        );
        assert!(of_all >= 2 * 6 * launches);
        let took: Vec<f64> = syncs.iter().map(|sync| sync.took.as_secs_f64()).collect();
        let [least, most] = [0.02, 0.98].map(|part| quantile(&took, part).unwrap());
        let found = figures(&result, "file.write.time")?;
        let middle: Vec<(&str, f64)> = found
            .iter()
            .filter(|(labels, _)| labels["quantile"] == "p50")
            .map(|(labels, value)| (labels["how"].as_str().unwrap(), value / 1e9))
            .collect();
        let of = |wanted: &str| middle.iter().find(|(how, _)| *how == wanted).map(|(_, value)| *value);
        let (Some(overwrite), Some(append)) = (of("overwrite"), of("append")) else {
            return Err(wrong(format!("{middle:?}")));
        };
        for (how, value) in &middle {
            let plain = if how.starts_with("append") { append } else { overwrite };
            let range =
                if how.contains("sync") { least..(most + 3.0 * plain).max(1.05 * most) } else { 0.0..least / 2.0 };
            if !range.contains(value) {
                return Err(wrong(format!("{how}: {value} s, {range:?} s. A sync took {least} to {most} s")));
            }
        }
        if middle.iter().filter(|(how, _)| how.contains("sync")).count() != 4 {
            return Err(wrong(format!("{middle:?}")));
        }
        let own = [before, own_pass(place.path())];
        let rates = figures(&result, "file.write.rate")?;
        let [(_, rate)] = &rates[..] else { return Err(wrong(format!("{rates:?}"))) };
        let (time, [fastest, slowest]) = ((8 * MIB) as f64 / rate, [f64::min, f64::max].map(|of| of(own[0], own[1])));
        if time < least || !(fastest / 2.0..slowest * 2.0).contains(&time) {
            return Err(wrong(format!("a pass of {time} s, own passes of {own:?} s, syncs of {least} s")));
        }
        Ok(())
    });
}

/// Seconds between an answer and the next request of a reader that was alone: it wakes up, asks, and wakes up a worker.
fn between(log: &[Asked]) -> f64 {
    let mut log: Vec<&Asked> = log.iter().collect();
    log.sort_by_key(|asked| asked.came);
    // A longer pause than one read is one between windows.
    let longest = log.iter().map(|asked| asked.took).min().expect("the server was asked");
    let gaps: Vec<f64> = log
        .windows(2)
        .filter(|pair| pair[0].file == pair[1].file)
        .filter_map(|pair| pair[1].came.checked_duration_since(pair[0].came + pair[0].took))
        .filter(|gap| *gap < longest)
        .map(|gap| gap.as_secs_f64())
        .collect();
    quantile(&gaps, 0.75).expect("a reader that was alone")
}

/// Readers of a device with so many workers: N·D/w, by the times that the server itself noted.
fn contend(workers: usize) {
    own_mounts();
    let (place, output) = (place(), place());
    let slow = Slow::mount(place.path(), Duration::from_millis(4), workers, 7 << 30);
    let mut tries = 0;
    judged("contention for a device that takes 4 ms", || {
        tries += 1;
        slow.take_log();
        let output = output.path().join(format!("run-{tries}"));
        let ran = run(&["file.contention"], place.path(), &output);
        assert!(ended(&ran), "{}", told(&ran));
        let log: Vec<Asked> = slow.take_log().into_iter().filter(|asked| asked.size == 4096).collect();
        let ([least, most], between) = (spread(&log), between(&log));
        let result = result(&output);
        let found = figures(&result, "file.contention.block_time")?;
        if found.len() != 7 {
            return Err(wrong(format!("{found:?}")));
        }
        for (labels, value) in found {
            let processes: f64 = labels["processes"].as_str().unwrap().parse().unwrap();
            // Between an answer and the next request the process wakes up and asks again: once for each line of N.
            let lines = (processes / workers as f64).max(1.0);
            if value / 1e9 < least * lines * 0.98 || value / 1e9 > (most + between) * lines * 1.02 {
                return Err(wrong(format!(
                    "{labels}: {value} ns; the server took {least} to {most} s and waited {between} s for a reader"
                )));
            }
        }
        for (_, slope) in figures(&result, "file.contention.per_reader")? {
            let ([least, most], lines) = ([least, most + between].map(|time| time * 1e9), workers as f64);
            if slope < 0.97 * least / lines || slope > 1.03 * most / lines {
                return Err(wrong(format!(
                    "{slope} ns for each further reader of a server that takes {least} to {most} ns"
                )));
            }
        }
        for (_, knee) in figures(&result, "file.contention.knee")? {
            if (knee / workers as f64 - 1.0).abs() > 0.1 {
                return Err(wrong(format!("the line begins at {knee} readers of a server with {workers} workers")));
            }
        }
        for metric in metrics(&result) {
            let rises = ["fairness", "rate", "knee"].map(|name| format!("file.contention.{name}"));
            let rises = rises.iter().any(|name| metric["name"] == **name);
            assert_eq!(metric["better"], if rises { "higher" } else { "lower" }, "{metric}");
        }
        // The server takes requests in the order in which they come.
        for (labels, value) in figures(&result, "file.contention.fairness")? {
            if value < 0.95 {
                return Err(wrong(format!("{labels}: fairness {value}")));
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

#[test]
fn cached_pages_of_an_overlay_are_those_of_the_file_below() {
    let disk = Disk::make();
    let [lower, upper, work, merged] = ["lower", "upper", "work", "merged"].map(|name| disk.place().join(name));
    for directory in [&lower, &upper, &work, &merged] {
        std::fs::create_dir(directory).unwrap();
    }
    let [lower, upper, work] = [lower, upper, work].map(|layer| layer.display().to_string());
    let layers = format!("lowerdir={lower},upperdir={upper},workdir={work}");
    must(&["mount", "-t", "overlay", "-o", &layers, "overlay", merged.to_str().unwrap()]);
    let stamped = Stamped::write(&merged.join("file"), MIB, 1).unwrap();
    let buffered = stamped.buffered().unwrap();
    file::advise(&buffered, Advice::Random).unwrap();
    stamped.evict().unwrap();
    times_of(&stamped, &buffered, &random_places(MIB, 9, 3));
    let cached = stamped.cached_pages().unwrap();
    drop((stamped, buffered));
    must(&["umount", merged.to_str().unwrap()]);
    assert_eq!(cached, 9);
}

#[test]
fn the_counters_of_both_versions_of_control_groups_are_read() {
    let old = "7:1 Read 400\n7:1 Write 3\n7:1 Total 403\n7:10 Read 9\nTotal 412\n";
    assert_eq!(
        [counted(old, "7:1", "Read="), counted(old, "7:10", "Read="), counted(old, "7:2", "Read=")],
        [400, 9, 0]
    );
    let new = "7:10 rbytes=9 rios=1\n7:1 rbytes=1638400 wbytes=5 rios=400 wios=1 dbytes=0 dios=0\n";
    assert_eq!([counted(new, "7:1", "rios="), counted(new, "7:1", "rbytes=")], [400, 1_638_400]);
}

#[test]
fn a_throttled_disk_is_asked_for_each_read_and_its_pace_is_theirs() {
    const PACE: u32 = 200;
    let disk = Disk::make();
    let stamped = Stamped::write(&disk.place().join("file"), 16 * MIB, 9).unwrap();
    let (buffered, direct) = (stamped.buffered().unwrap(), stamped.direct().unwrap());
    file::advise(&buffered, Advice::Random).unwrap();
    let Some(throttle) = Throttle::of(&disk, PACE) else { return };
    throttle.enter();
    judged("reads of a disk that may serve 200 in a second", || {
        for (how, from) in [("direct", &direct), ("cold", &buffered)] {
            stamped.evict().unwrap();
            let before = throttle.reads();
            let places = random_places(16 * MIB, 400, 5);
            let began = Instant::now();
            let times = times_of(&stamped, from, &places);
            let elapsed = began.elapsed().as_secs_f64();
            // The throttle's own account: each read went through it, and nothing else.
            let after = throttle.reads();
            let (reads, bytes) = (after.0 - before.0, after.1 - before.1);
            if (reads, bytes) != (400, 400 * BLOCK as u64) {
                return Err(wrong(format!("{how}: the throttle counts {reads} reads of {bytes} bytes")));
            }
            // All of the time is that of reads, at no more than the pace that the kernel keeps. Its first slices are free.
            let together: f64 = times.iter().sum();
            let least = (reads as f64 / f64::from(PACE)) * 0.94 - 0.5;
            if together < least || together > elapsed || together < elapsed * 0.98 {
                return Err(wrong(format!("{how}: reads took {together} s of {elapsed} s, {least} s at the pace")));
            }
        }
        Ok(())
    });
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
    let device = Loop::of(&image);
    must(&["mount", &device.0, mounted.to_str().unwrap()]);
    let _alone = measuring();
    let output = output.path().join("run");
    let ended = run(&["file.read"], &mounted, &output);
    must(&["umount", mounted.to_str().unwrap()]);
    assert!(ended.status.success(), "{}", told(&ended));
    let text = result(&output)["experiments"][0].to_string();
    assert!(text.contains("A cache below the kernel or memory served these reads"), "{text}");
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
