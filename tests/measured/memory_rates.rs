//! Known truth for bandwidth and page faults: work whose size a test knows, and devices whose delay a test makes.
//!
//! Comparisons are ratios within one process on one CPU and are tried again; no absolute speed is asserted.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::support::disk::{Disk, Throttle};
use crate::support::truth::{self, Judgement, timed, within};
use sysdyno::testing::experiments::memory::buffer;
use sysdyno::testing::experiments::memory::loaded_latency::readers;
use sysdyno::testing::experiments::memory::touching::{Cold, count};
use sysdyno::testing::rig::team::{Pass, Team};
use sysdyno::testing::sys::affinity;
use sysdyno::testing::sys::arena::Arena;
use sysdyno::testing::sys::clock::Source;
use sysdyno::testing::sys::fault::{self, Untouched};
use sysdyno::testing::sys::memory::{Pages, page_size};
use sysdyno::testing::sys::stream::{Operation, Stream, Vectors};

/// Half of the smallest first cache that anybody has.
const FOOTPRINT: usize = 16 << 10;
/// More than most caches hold.
const BYTES: usize = 64 << 20;

/// Cold faults of the throttled process, and how many of them come first without being timed.
const COLD_READS: u32 = 240;
const SAVED_UP: usize = 40;

/// Measurements take turns: on few CPUs two at once would measure each other.
static TURN: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let cpu = *affinity::allowed().last().unwrap();
    affinity::restrict(&[cpu]).unwrap();
    turn
}

/// Written memory.
fn written(bytes: usize, pages: Pages) -> Arena {
    let mut arena = Arena::map(bytes, pages).unwrap();
    arena.fill();
    arena
}

/// Runs between looks at the core.
const RUNS_PER_LOOK: u32 = 5;

/// Lowest duration in seconds of a number of runs.
fn lowest<T>(runs: u32, mut work: impl FnMut() -> T) -> f64 {
    (0..runs)
        .map(|run| {
            if run.is_multiple_of(RUNS_PER_LOOK) {
                truth::look();
            }
            let began = Instant::now();
            std::hint::black_box(work());
            began.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}

#[test]
fn half_of_the_lines_are_half_of_the_bytes() {
    let _turn = alone();
    for vectors in Vectors::available() {
        timed(&format!("{}: every second line", vectors.name), || {
            // Each try has memory of its own, so that no single place decides.
            let mut arena = written(FOOTPRINT, Pages::Small);
            let mut seconds_and_bytes = |operation| {
                let mut walk = Stream::new(vectors, operation, FOOTPRINT, FOOTPRINT);
                let bytes = walk.bytes();
                (lowest(200, || walk.steps(&mut arena, 200)), bytes)
            };
            let ((whole, all), (half, some)) =
                (seconds_and_bytes(Operation::Read), seconds_and_bytes(Operation::ReadHalf));
            assert_eq!(all, 2 * some);
            // Half of the loads take half of the time (a short loop of four loads may be held up by its branch), and the rate by
            // touched lines stays what it was.
            within(half / whole, 0.45, 0.85)?;
            within((some as f64 / half) / (all as f64 / whole), 0.55, 1.15)
        });
    }
}

#[test]
fn twice_the_passes_take_twice_the_time() {
    let _turn = alone();
    let mut arena = written(FOOTPRINT, Pages::Small);
    for operation in [Operation::Read, Operation::Write, Operation::Copy] {
        let mut walk = Stream::new(Vectors::widest(), operation, FOOTPRINT, FOOTPRINT);
        let mut time = |passes| lowest(200, || walk.steps(&mut arena, passes));
        timed(operation.name(), || within(time(400) / time(200), 1.95, 2.05));
    }
}

#[test]
fn levels_are_ordered_where_the_machine_has_them() {
    let _turn = alone();
    let mut arena = written(128 << 20, Pages::Huge);
    timed("16 KiB against 128 MiB", || {
        let mut rate = |footprint: usize| {
            let mut walk = Stream::new(Vectors::widest(), Operation::Read, footprint, footprint);
            let passes = ((32 << 20) / footprint).max(1) as u64;
            walk.bytes() as f64 * passes as f64 / lowest(5, || walk.steps(&mut arena, passes))
        };
        within(rate(16 << 10) / rate(128 << 20), 1.5, 200.0)
    });
}

#[test]
fn memory_that_was_never_written_is_fast_and_refused() {
    let _turn = alone();
    let read = |mut arena: Arena| {
        let mut walk = Stream::new(Vectors::widest(), Operation::Read, BYTES, BYTES);
        walk.step(&mut arena);
        let seconds = lowest(5, || walk.step(&mut arena));
        (seconds, buffer::check(&arena, Pages::Small))
    };
    let (_, refused) = read(Arena::map(BYTES, Pages::Small).unwrap());
    assert!(refused.unwrap_err().contains("zeros"));
    let (_, taken) = read(written(BYTES, Pages::Small));
    assert!(taken.is_ok());
}

#[test]
fn a_team_is_as_fast_as_its_members_are_long() {
    let _turn = alone();
    // Each pass lasts at least 100 µs of the clock and claims 1000 bytes: so many members, so many times the rate.
    let equip = |_: usize| -> Result<Pass, String> {
        Ok(Box::new(|_| {
            let began = Instant::now();
            while began.elapsed().as_nanos() < 100_000 {
                std::hint::spin_loop();
            }
            1000
        }))
    };
    let cpus = online();
    let mut team = Team::beside(&cpus, Source::MonotonicRaw, equip).unwrap();
    let most = cpus.len() as f64 * 1000.0 / 100_000.0;
    // Other tasks take members away: such windows are short of it, and the team says so. None has more.
    truth::judged("the rate of a team", || {
        let windows: Vec<(f64, Option<&str>)> = (0..60)
            .filter_map(|_| {
                std::thread::sleep(Duration::from_millis(10));
                team.window(0, 10e6, 1e9).ok()
            })
            .map(|found| (found.bytes / found.ticks / most, found.disturbed))
            .collect();
        let undisturbed = || windows.iter().filter(|(_, why)| why.is_none());
        if windows.iter().any(|(share, _)| *share > 1.001) || undisturbed().any(|(share, _)| *share < 0.9) {
            return Judgement::Wrong(format!("{windows:?}"));
        }
        if undisturbed().count() == 0 {
            return Judgement::Disturbed(format!("every window is disturbed: {:?}", windows.first()));
        }
        Judgement::Right
    });
}

/// CPUs of this machine that a thread can be put on.
fn online() -> Vec<u32> {
    let found: Vec<u32> =
        std::thread::spawn(|| (0..64).filter(|&cpu| affinity::restrict(&[cpu]).is_ok()).collect()).join().unwrap();
    assert!(!found.is_empty());
    found
}

#[test]
fn a_reader_that_pauses_reads_half_as_much_at_most() {
    let _turn = alone();
    timed("readers that pause against readers that do not", || {
        let pass = readers(Source::MonotonicRaw, 8 << 20, 1 << 30);
        let mut pass = pass(0).unwrap();
        let mut rate = |job: usize| {
            let (mut bytes, began) = (0, Instant::now());
            while began.elapsed() < Duration::from_millis(20) {
                bytes += pass(job);
            }
            bytes as f64 / began.elapsed().as_secs_f64()
        };
        // A read that begins anew after each pause is slower than one that goes on, and by how much is the machine's. It is
        // not faster, so a pause as long as the read leaves half of the rate at most.
        within(rate(1) / rate(2), 0.1, 0.6)
    });
}

#[test]
fn the_kernel_counts_the_faults_that_are_made() {
    let _turn = alone();
    let page = page_size();
    for pages in [1, 7, 100, 1009] {
        let mut memory = Untouched::anonymous(pages * page, Pages::Small).unwrap();
        let found = count(|| memory.write_one_by_one(page));
        assert!((pages as i64..=pages as i64 + 2).contains(&found), "{found} for {pages}");
    }
}

#[test]
fn cached_pages_are_no_cold_ones() {
    let _turn = alone();
    let disk = Disk::make();
    let page = page_size();
    let file = fault::nameless_file(disk.place(), &vec![5; 64 * page]).unwrap();
    let cold = Cold::make(&file, 64 * page).unwrap();
    let mapped = Untouched::file(&file, 64 * page, true).unwrap();
    mapped.read_pages(&[1, 9, 30], page);
    assert!(cold.prove(&file, 3).is_ok());
    // The same pages again, in a new mapping: nothing comes from the device.
    drop(mapped);
    let again = Cold::make(&file, 64 * page).unwrap();
    let mapped = Untouched::file(&file, 64 * page, true).unwrap();
    mapped.read_pages(&[1, 9, 30], page);
    drop(mapped);
    let mapped = Untouched::file(&file, 64 * page, true).unwrap();
    mapped.read_pages(&[1, 9, 30], page);
    assert!(again.prove(&file, 6).unwrap_err().contains("3 major faults"));
    // A mapped page cannot be dropped, and that is said.
    assert!(Cold::make(&file, 64 * page).unwrap_err().contains("stay in memory"));
}

/// Runs in a process of its own, inside the control group: takes cold faults and prints their number and mean duration.
#[test]
#[ignore = "the inner half of a_throttled_disk_gives_its_delay"]
fn inner_cold_faults() {
    let [place, group] = ["SYSDYNO_DISK", "SYSDYNO_GROUP"].map(|name| PathBuf::from(std::env::var(name).unwrap()));
    let page = page_size();
    let pages: Vec<u32> = (0..COLD_READS).map(|index| index * 17 % 1024).collect();
    let file = fault::nameless_file(&place, &vec![5; 1024 * page]).unwrap();
    let cold = Cold::make(&file, 1024 * page).unwrap();
    let mapped = Untouched::file(&file, 1024 * page, true).unwrap();
    fs::write(group, std::process::id().to_string()).unwrap();
    // The group may have saved up a slice of reads, which pass at once; later ones come in bursts, slice by slice.
    mapped.read_pages(&pages[..SAVED_UP], page);
    let began = Instant::now();
    mapped.read_pages(&pages[SAVED_UP..], page);
    let mean = began.elapsed().as_secs_f64() / (pages.len() - SAVED_UP) as f64;
    let proof = cold.prove(&file, pages.len()).unwrap();
    println!("inner: {} {mean}", proof[0]);
}

/// Mean duration of the cold faults of a process of its own in the group, in seconds.
fn cold_fault(disk: &Disk, throttle: &Throttle) -> Result<f64, String> {
    let before = throttle.reads().0;
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "memory_rates::inner_cold_faults", "--ignored", "--nocapture"])
        .env("SYSDYNO_DISK", disk.place())
        .env("SYSDYNO_GROUP", throttle.processes())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.split_once("inner: ").map(|(_, rest)| rest.to_owned()));
    let line = line.ok_or_else(|| format!("{text}{}", String::from_utf8_lossy(&output.stderr)))?;
    let (faults, mean) = line.split_once(' ').unwrap();
    let (faults, mean): (f64, f64) = (faults.parse().unwrap(), mean.trim().parse().unwrap());
    assert!((faults - f64::from(COLD_READS)).abs() < 0.5, "{faults} faults");
    // The group's count is the device's word: one read for each fault, and nothing read ahead.
    let reads = f64::from(COLD_READS);
    within((throttle.reads().0 - before) as f64, reads, reads + 2.0).map(|()| mean)
}

#[test]
fn a_throttled_disk_gives_its_delay_and_the_number_of_its_reads() {
    let _turn = alone();
    let disk = Disk::make();
    // One read at a time: 5 ms each, then 10 ms.
    let Some(throttle) = Throttle::of(&disk, 200) else { return };
    timed("faults from a disk that may serve 200 and 100 reads in a second", || {
        throttle.limit(200);
        let fast = cold_fault(&disk, &throttle)?;
        throttle.limit(100);
        let slow = cold_fault(&disk, &throttle)?;
        // The kernel never lets more through in the long run; slices at both ends are some hundredths of the whole.
        within(slow / fast, 1.85, 2.15)?;
        within(fast * 200.0, 0.9, f64::INFINITY)
    });
}
