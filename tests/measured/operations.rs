//! Published costs of operations in rows, next to plain loops of the same operations.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use memmap2::MmapMut;
use nix::fcntl::renameat;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat};
use nix::unistd::{SysconfVar, sysconf};
use serde_json::Value;

use crate::support::runs::{ended, measuring, result, sysdyno, told};
use crate::support::truth::{self, Judgement};
use sysdyno::testing::statistics::summary::quantile;

/// Operations of a batch, and batches.
const BATCH: u32 = 100;
const BATCHES: usize = 200;

/// Seconds of one operation of a plain loop: of the fastest tenth of the batches, because others only add time.
fn own(mut operation: impl FnMut()) -> f64 {
    let mut batch = || {
        let began = Instant::now();
        (0..BATCH).for_each(|_| operation());
        began.elapsed().as_secs_f64() / f64::from(BATCH)
    };
    quantile(&(0..BATCHES).map(|_| batch()).collect::<Vec<f64>>(), 0.1).unwrap()
}

/// Some bytes through a channel and back.
fn through(mut writer: impl Write, mut reader: impl Read, bytes: usize) -> f64 {
    let mut buffer = vec![0; bytes];
    own(|| {
        writer.write_all(&buffer).unwrap();
        reader.read_exact(&mut buffer).unwrap();
    })
}

/// One call of poll for counters of which the last is ready.
fn poll_of(descriptors: usize) -> f64 {
    let counters: Vec<EventFd> =
        (1..=descriptors).map(|number| EventFd::from_value(u32::from(number == descriptors)).unwrap()).collect();
    let mut entries: Vec<PollFd<'_>> =
        counters.iter().map(|counter| PollFd::new(counter.as_fd(), PollFlags::POLLIN)).collect();
    // Without a time limit the kernel queues the task at each of them, also where the last is ready.
    own(|| assert_eq!(poll(&mut entries, PollTimeout::NONE), Ok(1)))
}

/// Some pages of private memory, each of which is written.
fn map_write_unmap(pages: usize) -> f64 {
    let page = sysconf(SysconfVar::PAGE_SIZE).unwrap().unwrap() as usize;
    own(|| {
        let mut area = MmapMut::map_anon(pages * page).unwrap();
        area.chunks_mut(page).for_each(|page| page[0] = 1);
    })
}

/// One atomic addition to memory of this thread.
fn atomic_addition() -> f64 {
    const EACH: u32 = 100;
    let word = black_box(AtomicU32::new(0));
    let each = own(|| {
        (0..EACH).for_each(|_| {
            black_box(&word).fetch_add(1, Ordering::Relaxed);
        });
    });
    each / f64::from(EACH)
}

/// What some work gives while another thread of this process computes.
fn while_a_thread_runs<T>(work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let done = work();
        stop.store(true, Ordering::Relaxed);
        done
    })
}

/// Nanoseconds by which the default timer slack of a run is longer than usual.
const LONGER_SLACK: u32 = 1_000_000;

/// Late ends of sleeps of a run whose tasks have this timer slack, in nanoseconds.
fn late_sleeps(slack: u32, output: &Path) -> Result<f64, Judgement> {
    // A child begins with the slack of the thread that starts it.
    nix::sys::prctl::set_timerslack(u64::from(slack)).unwrap();
    let words = ["run", "os.sleep", "--quick", "--time", "4s", "--no-progress"];
    let ran = sysdyno(&words).arg("-o").arg(output).output();
    nix::sys::prctl::set_timerslack(0).unwrap();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{}", told(&ran));
    let labels = [("quantile", "p50"), ("requested", "1000"), ("slack", "default")];
    Ok(truth::trusted(&result(output), "os.sleep.oversleep", &labels)?["value"].as_f64().unwrap())
}

#[test]
fn sleeps_end_as_much_later_as_the_timer_slack_is_longer() {
    let _alone = measuring();
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut tries = 0;
    truth::judged("late ends of sleeps", || {
        tries += 1;
        let usual = 50_000;
        let [usual, longer] = [usual, usual + LONGER_SLACK]
            .map(|slack| late_sleeps(slack, &place.path().join(format!("{tries}-{slack}"))));
        let later = match (usual, longer) {
            (Ok(usual), Ok(longer)) => longer - usual,
            (Err(judgement), _) | (_, Err(judgement)) => return judgement,
        };
        // The kernel ends a sleep with any other timer that comes within the slack.
        if (0.8..1.15).contains(&(later / f64::from(LONGER_SLACK))) {
            return Judgement::Right;
        }
        Judgement::Wrong(format!("{later} ns later, and the slack is {LONGER_SLACK} ns longer"))
    });
}

/// The label and its value, and seconds of a plain loop.
type Own = (&'static str, Vec<(&'static str, &'static str)>, f64);

fn plain_loops(place: &Path) -> Vec<Own> {
    let channel = |through, bytes, seconds| ("os.channel.time", vec![("bytes", bytes), ("through", through)], seconds);
    let pipe = |bytes| {
        let (reader, writer) = io::pipe().unwrap();
        through(writer, reader, bytes)
    };
    let stream = |bytes| {
        let (one, other) = UnixStream::pair().unwrap();
        through(one, other, bytes)
    };
    // By the open directory, because each part of a path costs.
    let at = File::open(place).unwrap();
    // A change looks through the entries of its directory, so both directories have a hundred.
    (1..100).for_each(|number| drop(File::create_new(place.join(format!("entry-{number}"))).unwrap()));
    let file = File::create_new(place.join("there")).unwrap();
    let lock = own(|| {
        file.lock().unwrap();
        file.unlock().unwrap();
    });
    let names = |how, seconds| ("file.metadata.time", vec![("how", how)], seconds);
    let mapping = |pages, others, seconds| {
        let labels = vec![("other_threads", others), ("pages", pages), ("what", "map_write_unmap")];
        ("memory.map.time", labels, seconds)
    };
    vec![
        channel("pipe", "1", pipe(1)),
        channel("pipe", "4096", pipe(4096)),
        channel("pipe", "65536", pipe(65536)),
        channel("unix_stream", "1", stream(1)),
        channel("unix_stream", "65536", stream(65536)),
        ("os.lock.time", vec![("what", "file_lock")], lock),
        ("os.poll.time", vec![("by", "poll"), ("descriptors", "100")], poll_of(100)),
        ("os.poll.per_descriptor", vec![("by", "poll")], (poll_of(500) - poll_of(1)) / 499.0),
        mapping("1", "0", map_write_unmap(1)),
        mapping("64", "0", map_write_unmap(64)),
        mapping("1", "1", while_a_thread_runs(|| map_write_unmap(1))),
        names(
            "rename",
            own(|| {
                renameat(&at, "there", &at, "new").unwrap();
                renameat(&at, "new", &at, "there").unwrap();
            }) / 2.0,
        ),
        names(
            "chmod",
            own(|| fchmodat(&at, "there", Mode::S_IRUSR | Mode::S_IWUSR, FchmodatFlags::FollowSymlink).unwrap()),
        ),
    ]
}

/// Runs experiments, and compares their results with plain loops before and after the run.
fn judge_by_loops(what: &str, experiments: &[&str], loops: impl Fn(&Path) -> Vec<Own>) {
    let _alone = measuring();
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut tries = 0;
    truth::judged(what, || {
        tries += 1;
        let loops = || loops(tempfile::tempdir_in(place.path()).unwrap().path());
        let before = loops();
        let output = place.path().join(format!("run-{tries}"));
        let ran = sysdyno(&["run", "--quick", "--time", "12s", "--no-progress"])
            .args(experiments)
            .arg("--scratch")
            .arg(place.path())
            .arg("-o")
            .arg(&output)
            .output()
            .unwrap();
        assert!(ended(&ran), "{}", told(&ran));
        let result = result(&output);
        // A neighbour that is there before the run may be gone after it.
        let pairs = before.into_iter().zip(loops());
        let faster = pairs.map(|((metric, labels, one), (.., other))| (metric, labels, one.min(other)));
        faster.collect::<Vec<Own>>().iter().find_map(|own| compared(&result, own).err()).unwrap_or(Judgement::Right)
    });
}

/// A loop has other code and paths around its operations, and others on the core slow it down to half its pace. A wrong unit or number of
/// bytes is further away.
#[test]
fn operations_cost_what_plain_loops_of_them_take() {
    let experiments = ["os.channel", "os.poll", "os.lock", "file.metadata", "memory.map"];
    judge_by_loops("channels, locks, names and mappings", &experiments, plain_loops);
}

#[test]
fn additions_to_separate_lines_cost_what_a_plain_loop_of_them_takes() {
    judge_by_loops("additions to separate lines", &["memory.shared_line"], |_| {
        let of = |threads, seconds| ("memory.shared_line.time", vec![("apart", "256"), ("threads", threads)], seconds);
        vec![of("1", atomic_addition()), of("2", while_a_thread_runs(atomic_addition))]
    });
}

#[test]
fn tasks_that_share_nothing_pay_what_a_plain_loop_pays() {
    judge_by_loops("calls of one thread and of two processes", &["os.scaling"], |place| {
        let file = File::create_new(place.join("locked")).unwrap();
        let lock = own(|| {
            file.lock().unwrap();
            file.unlock().unwrap();
        });
        let (reader, writer) = io::pipe().unwrap();
        let of = |tasks, what, seconds| ("os.scaling.time", vec![tasks, ("what", what)], seconds);
        let (one, two) = (("threads", "1"), ("processes", "2"));
        vec![of(one, "file_lock", lock), of(two, "file_lock", lock), of(one, "pipe", through(writer, reader, 1))]
    });
}

fn compared(result: &Value, (metric, labels, own): &Own) -> Result<(), Judgement> {
    let published = truth::trusted(result, metric, labels)?["value"].as_f64().unwrap() / 1e9;
    if (0.35..2.0).contains(&(published / own)) {
        return Ok(());
    }
    Err(Judgement::Wrong(format!("{metric} {labels:?}: {published} s, and a plain loop takes {own} s")))
}
