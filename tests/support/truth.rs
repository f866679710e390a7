//! Comparisons with a truth that the test made, and what becomes of them on a machine that others use.
//!
//! A figure of the tool is compared by [`judged`]: a figure that the tool trusts and that is wrong fails at once. A figure that
//! the tool itself calls contaminated is measured again. After [`TRIES`] tries the test ends as *not judged*, with that verdict.
//! After each such try the test itself looks at the core. So a tool that calls everything contaminated is not excused by its own
//! verdict: `scripts/test` allows few tests without a judgement on a quiet core, and more while other work used the core.
//!
//! Code that the test itself times has no verdict of the tool. [`timed`] looks at the core while it is timed: a neighbour on a
//! sibling hardware thread widens a loop of additions and leaves a chain of multiplies alone. A comparison that fails on such a
//! core, or on a CPU that others used, is tried again like a contaminated figure.
//!
//! Everything that was tried again or not judged is written to the file that `SYSDYNO_TEST_NOTES` names.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::Value;
use sysdyno::testing::statistics::summary::median;
use sysdyno::testing::sys::{arch, counters};

/// Tries of a comparison until it is not judged, where `SYSDYNO_TEST_TRIES` names no other number.
const TRIES: u32 = 4;

fn tries() -> u32 {
    std::env::var("SYSDYNO_TEST_TRIES").map_or(TRIES, |tries| tries.parse().expect("SYSDYNO_TEST_TRIES is a number"))
}

/// Tries of code that the test times itself, until it is not judged or has failed.
const TIMED_TRIES: u32 = 25;

/// Comparisons of timed code that fail on a quiet core until the test fails.
const QUIET_FAILURES: u32 = 4;

/// What one try of a comparison came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// The figure agrees with the truth.
    Right,
    /// The tool trusts the figure, and it is wrong.
    Wrong(String),
    /// The tool does not trust the figure: its verdict.
    Disturbed(String),
}

impl Judgement {
    /// Right, or wrong with a reason.
    pub fn of(outcome: Result<(), String>) -> Self {
        outcome.map_or_else(Judgement::Wrong, |()| Judgement::Right)
    }

    /// The first that is not right.
    #[must_use]
    pub fn and(self, other: impl FnOnce() -> Judgement) -> Self {
        if self == Judgement::Right { other() } else { self }
    }
}

/// Compares figures of the tool with a truth. Wrong fails at once; disturbed is tried again and then noted as not judged.
pub fn judged(what: &str, mut compare: impl FnMut() -> Judgement) {
    let (mut verdict, mut witnessed) = (String::new(), None);
    for attempt in 1..=tries() {
        match compare() {
            Judgement::Right => return noted_tries(attempt),
            Judgement::Wrong(why) => {
                note(&format!("wrong\t{}\t{what}: {why}", test_name()));
                panic!("{what}: {why}");
            }
            Judgement::Disturbed(why) => verdict = why,
        }
        witnessed = witness().or(witnessed);
    }
    note_not_judged(what, &verdict, witnessed.as_deref());
}

/// Compares code that the test times with a truth. It is right when more tries are right than wrong on a quiet core. Wrong on a quiet
/// core fails after a few tries, wrong on a core that others used is noted as not judged.
pub fn timed(what: &str, mut compare: impl FnMut() -> Result<(), String>) {
    let (mut right, mut quiet) = (0, Vec::new());
    let (mut why, mut disturbed) = (String::new(), String::new());
    for attempt in 1..=TIMED_TRIES {
        LOOKS.with_borrow_mut(|looks| *looks = Looks::default());
        watch();
        let outcome = compare();
        watch();
        let Err(wrong) = outcome else {
            right += 1;
            if right > quiet.len() {
                return noted_tries(attempt);
            }
            continue;
        };
        match LOOKS.with_borrow(Looks::disturbance) {
            Some(others) => (why, disturbed) = (wrong, others),
            None => quiet.push(wrong),
        }
        assert!(quiet.len() < QUIET_FAILURES as usize, "{what}, on a quiet core: {}", quiet.join("; "));
    }
    note_not_judged(what, &why, Some(&disturbed));
}

/// Content where a figure lies between two others.
pub fn within(found: f64, low: f64, high: f64) -> Result<(), String> {
    if (low..=high).contains(&found) { Ok(()) } else { Err(format!("{found} is not in {low}..{high}")) }
}

/// Whether labels of a figure include all of some others.
pub fn labelled(metric: &Value, labels: &[(&str, &str)]) -> bool {
    labels.iter().all(|(key, value)| metric["labels"][key] == *value)
}

/// The figure with a name and labels in a result, or why there is none to judge: contaminated or refused because of others is
/// disturbed, missing for any other reason is wrong.
pub fn trusted<'a>(result: &'a Value, name: &str, labels: &[(&str, &str)]) -> Result<&'a Value, Judgement> {
    let all = |list: &str| -> Vec<&'a Value> {
        let sections = result["experiments"].as_array().unwrap().iter();
        let figures = sections.flat_map(|section| section[list].as_array().unwrap());
        figures.filter(|figure| figure["name"] == name && labelled(figure, labels)).collect()
    };
    let title = || format!("{name} {labels:?}");
    if let Some(&metric) = all("metrics").first() {
        if metric["verdict"]["trust"] != "contaminated" {
            return Ok(metric);
        }
        let gates = metric["verdict"]["gates"].as_array().unwrap().iter();
        let contaminating = |gate: &&Value| ["contaminates", "disturbs"].iter().any(|word| gate["severity"] == *word);
        let failed = gates.filter(|gate| gate["pass"] == false).filter(contaminating);
        let evidence: Vec<String> = failed.map(|gate| format!("{}: {}", gate["id"], gate["evidence"])).collect();
        return Err(Judgement::Disturbed(format!("{} is contaminated: {}", title(), evidence.join("; "))));
    }
    let Some(refused) = all("rejected").first().and_then(|figure| figure["reason"].as_str()) else {
        return Err(Judgement::Wrong(format!("{} is missing: {}", title(), reasons(result))));
    };
    if of_others(refused) {
        Err(Judgement::Disturbed(format!("{} is refused: {refused}", title())))
    } else {
        Err(Judgement::Wrong(format!("{} is refused: {refused}", title())))
    }
}

/// A figure of the tool, with the interval that the tool gives for it.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Found {
    /// Of a metric of a result, in its unit times `scale`.
    pub fn of(metric: &Value, scale: f64) -> Self {
        let number = |value: &Value| value.as_f64().unwrap() * scale;
        let interval = &metric["interval95"];
        Found { value: number(&metric["value"]), low: number(&interval[0]), high: number(&interval[1]) }
    }

    /// What it has above a time.
    #[must_use]
    pub fn above(self, time: f64) -> Self {
        Found { value: self.value - time, low: self.low - time, high: self.high - time }
    }

    /// Whether it is the same as another within their intervals and a tolerance.
    pub fn agrees(self, other: Self, tolerance: f64) -> bool {
        self.low - other.high <= tolerance && other.low - self.high <= tolerance
    }
}

/// Whether a figure is missing because others used the CPU while it was measured. That is noted: its value is not checked then.
pub fn of_others(reason: &str) -> bool {
    let is_so = reason.starts_with("G16:") || reason.starts_with("G14:");
    if is_so {
        note(&format!("spoiled\t{}\t{reason}", test_name()));
    }
    is_so
}

/// What the sections of a result say of themselves.
fn reasons(result: &Value) -> String {
    let sections = result["experiments"].as_array().unwrap();
    let said = |section: &Value| format!("{} {} {}", section["id"], section["outcome"], section["reason"]);
    sections.iter().map(said).collect::<Vec<String>>().join("; ")
}

/// Notes that a comparison could not be made, and why. The test looks at the core first.
pub fn not_judged(what: &str, verdict: &str) {
    note_not_judged(what, verdict, witness().as_deref());
}

/// Notes that a comparison could not be made, why, and what the test itself saw of other work on the core.
fn note_not_judged(what: &str, verdict: &str, witnessed: Option<&str>) {
    let (kind, saw) = witnessed.map_or(("not judged", "the core is quiet"), |saw| ("disturbed", saw));
    println!("not judged: {what}: {verdict}; {saw}");
    note(&format!("{kind}\t{}\t{what}: {saw}: {verdict}", test_name()));
}

/// Looks at the core for a while, and says what other work did there, if any.
pub fn witness() -> Option<String> {
    LOOKS.with_borrow_mut(|looks| *looks = Looks::default());
    for _ in 0..WITNESS_LOOKS {
        watch();
    }
    LOOKS.with_borrow(Looks::disturbance)
}

fn noted_tries(attempt: u32) {
    if attempt > 1 {
        note(&format!("tried again\t{}\t{attempt} tries", test_name()));
    }
}

/// The test harness names the thread of each test by the test.
fn test_name() -> String {
    std::thread::current().name().unwrap_or("a test").to_owned()
}

/// One line in the file of notes.
fn note(line: &str) {
    let Some(path) = std::env::var_os("SYSDYNO_TEST_NOTES") else { return };
    let mut file = File::options().append(true).create(true).open(path).unwrap();
    file.write_all(format!("{}\n", line.replace('\n', " ")).as_bytes()).unwrap();
}

/// Turns of the loop of a look: about a microsecond.
const LOOK_TURNS: u64 = 3000;
/// Turns of the chain that a look is compared with: twenty multiplies each.
const LOOK_CHAIN: u64 = 50;
/// A loop of additions takes this many times as long where another thread issues instructions on the core. Alone it takes 1.00
/// to 1.03, beside a neighbour 1.4 to 2.
const SHARED: f64 = 1.15;
/// Share of the looks, or of the time, beyond which a failed comparison is the neighbours'.
const DISTURBED: f64 = 0.02;

/// How long a comparison is preceded and followed by computing alone, to see who else wants the CPU. Work that hands the CPU to
/// its own tasks waits for those as well, so waiting in between says nothing.
const WATCHED: Duration = Duration::from_millis(10);

/// Times that long a test looks at the core itself, after a try that the tool calls contaminated.
const WITNESS_LOOKS: u32 = 20;

thread_local! {
    static LOOKS: RefCell<Looks> = RefCell::new(Looks::default());
}

/// What a thread saw of its core during one try.
#[derive(Default)]
struct Looks {
    /// Ticks of the loop over ticks of the chain.
    ratios: Vec<f64>,
    /// Nanoseconds of computing alone, and of them those in which others had the CPU.
    watched: f64,
    waited: f64,
}

impl Looks {
    /// Who used the core, if somebody did.
    fn disturbance(&self) -> Option<String> {
        // A turn of the loop depends on the one before by one addition: one cycle. A turn of the chain is twenty multiplies.
        let alone = LOOK_TURNS as f64 / (LOOK_CHAIN as f64 * 20.0 * multiply_cycles());
        let wide = self.ratios.iter().filter(|&&ratio| ratio > SHARED * alone).count() as f64;
        let share = wide / self.ratios.len().max(1) as f64;
        let waited = self.waited / self.watched.max(1.0);
        (share > DISTURBED || waited > DISTURBED).then(|| {
            format!(
                "the core was shared in {:.0} % of {} looks, others had the CPU for {:.1} %",
                share * 100.0,
                self.ratios.len(),
                waited * 100.0
            )
        })
    }
}

/// Computes alone for a while, looks at the core, and counts the waiting for the CPU.
pub fn watch() {
    let (began, before) = (Instant::now(), counters::thread_run_delay());
    let mut spans = Vec::new();
    while began.elapsed() < WATCHED {
        let start = Instant::now();
        look();
        spans.push(start.elapsed().as_nanos() as f64);
    }
    let waited = counters::thread_run_delay().zip(before).map_or(0.0, |(now, before)| now - before);
    // What a hypervisor takes is in no counter of a thread: looks that are much longer than most were interrupted.
    let usual = median(&spans).unwrap_or(0.0);
    let lost: f64 = spans.iter().filter(|&&span| span > 2.0 * usual).map(|span| span - usual).sum();
    LOOKS.with_borrow_mut(|looks| {
        looks.watched += began.elapsed().as_nanos() as f64;
        looks.waited += waited.max(lost);
    });
}

/// Cycles of a multiply on this core, a whole number: three times the chain of multiplies over the chain of additions.
fn multiply_cycles() -> f64 {
    static CYCLES: std::sync::OnceLock<f64> = std::sync::OnceLock::new();
    *CYCLES.get_or_init(|| {
        let least = |chain: arch::LoopKernel| {
            (0..200)
                .map(|_| {
                    let before = arch::stamp().ticks;
                    chain(500);
                    (arch::stamp().ticks - before) as f64
                })
                .fold(f64::INFINITY, f64::min)
        };
        (3.0 * least(arch::multiply_chain) / least(arch::add_chain)).round()
    })
}

/// Looks at the core: to be called in turn with what is timed.
pub fn look() {
    arch::REGISTER_LOOPS[0](16);
    let start = arch::stamp().ticks;
    arch::REGISTER_LOOPS[0](LOOK_TURNS);
    let between = arch::stamp().ticks;
    arch::multiply_chain(LOOK_CHAIN);
    let end = arch::stamp().ticks;
    LOOKS.with_borrow_mut(|looks| looks.ratios.push((between - start) as f64 / (end - between).max(1) as f64));
}
