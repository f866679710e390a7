//! What speaks for a mistake: each function looks at one number, and says how much speaks for it and what.

use super::case::{Case, RunResult, SHORTEST_CYCLE, is_near};
use crate::results::judgement::Strength::{self, Matching, Shown, Typical};
use crate::results::quantity::Unit;
use crate::results::wording::{factor, number as text, quantity};

/// How much speaks for a mistake, and what does, as the rest of a sentence.
pub type Evidence = (Strength, String);

/// An hour in nanoseconds. No operation of the table takes longer.
const HOUR: f64 = 3.6e12;
/// Cycles from a load to the first use of its value: at least four on every core of the published tables.
const LOAD_TO_USE: f64 = 4.0;
/// Cycles of the first level on every core of these tables, at most, with some room.
const MOST_FIRST_LEVEL: f64 = 7.0;
/// What is computed from printed numbers differs by rounding.
const ROUNDED: f64 = 0.01;
/// A result of another condition is recognised within this part.
const ALIKE: f64 = 0.35;
/// A result of another level or another size, which are further apart than conditions.
const SIBLING: f64 = 0.2;
/// A parent counts as large if its fork takes this many times as long.
const LARGE_PARENT: f64 = 2.5;
/// Digits that two numbers do not share by chance.
const MANY_DIGITS: usize = 6;

/// Nothing but the size of the difference.
pub fn size_alone(case: &Case<'_>) -> Option<Evidence> {
    let cost = case.cost()?;
    let how = if cost < 1.0 { "too fast" } else { "too slow" };
    Some((Typical, format!("it is {how} by {}", factor(cost.max(1.0 / cost)))))
}

pub fn longer_than_an_hour(case: &Case<'_>) -> Option<Evidence> {
    let found = case.nanoseconds().filter(|found| *found > HOUR)?;
    Some((Shown, format!("{} is longer than an hour", quantity(found, Unit::Nanoseconds))))
}

pub fn below_cycle(case: &Case<'_>) -> Option<Evidence> {
    let (found, cycle) = (case.nanoseconds()?, case.cycle());
    let needed = if case.number.is_of("cpu.loop.") { 0.4 } else { 0.95 };
    let is_small = found < needed * cycle && !case.number.per_byte;
    is_small.then(|| (Shown, format!("it is less than one core cycle of {}", quantity(cycle, Unit::Nanoseconds))))
}

pub fn below_round_trip(case: &Case<'_>) -> Option<Evidence> {
    if case.label("phase") != Some("setup") || case.label("path") == Some("loopback") {
        return None;
    }
    let path = case.label("path");
    let of_file = case.others("network.round_trip.time").filter(|other| other.labels.get("path") == path);
    let of_run = case.run.all("network.round_trip.time").filter(|found| {
        !case.other_machine && found.labels.get("path") == path && found.labels.get("protocol") == Some("tcp")
    });
    let round_trips = of_file.map(|other| other.value).chain(of_run.map(|found| found.value));
    let found = case.nanoseconds()?;
    let longest = round_trips.fold(0.0, f64::max);
    (found < longest * 0.97)
        .then(|| (Shown, format!("a round trip on this path takes {}", quantity(longest, Unit::Nanoseconds))))
}

pub fn two_conversions(case: &Case<'_>) -> Option<Evidence> {
    let ratio = case.conversion?;
    let number = case.number;
    let words = |other: &str| format!("{other} differs by {}, as other pairs of this file do", factor(1.0 / ratio));
    let is_partner = |value: f64, part: f64| is_near(number.value / value, ratio, part);
    let times = case.source.numbers.iter().filter(|other| other.unit == number.unit && other.value > 0.0);
    let times: Vec<_> = times.filter(|other| !std::ptr::eq(*other, number)).collect();
    let same = times.iter().find(|other| {
        other.is_same_thing(number)
            && (is_partner(other.value, ROUNDED) || is_near(other.value / number.value, ratio, ROUNDED))
    });
    if let Some(other) = same {
        return Some((Shown, words(&format!("{} in {}", other.written, other.place))));
    }
    let exact = ROUNDED / 50.0;
    let of_family: Vec<_> = times.iter().filter(|other| other.family == number.family).collect();
    let same_size = |note: &str| !note.is_empty() && note == number.note;
    if let Some(other) = of_family.iter().find(|other| same_size(&other.note) && is_partner(other.value, exact)) {
        return Some((Shown, words(&format!("{} ({})", other.written, other.name))));
    }
    if number.metric.as_ref()?.rsplit_once('.')?.1 != "net" {
        return None;
    }
    let differences = of_family.iter().flat_map(|one| of_family.iter().map(move |other| one.value - other.value));
    let difference = differences.into_iter().find(|difference| *difference > 0.0 && is_partner(*difference, exact))?;
    Some((Shown, words(&format!("the difference {} of two other numbers", text(difference)))))
}

pub fn copied(case: &Case<'_>) -> Option<Evidence> {
    let digits = |written: &str| {
        let digits: String = written.chars().filter(char::is_ascii_digit).collect();
        digits.trim_matches('0').len()
    };
    let number = case.number;
    let is_it = |other: &&super::number::Number| {
        other.value.total_cmp(&number.value).is_eq()
            && other.written == number.written
            && other.unit == number.unit
            && other.name != number.name
            && !other.is_same_thing(number)
    };
    let other = case.source.numbers.iter().find(is_it).filter(|_| digits(&number.written) >= MANY_DIGITS)?;
    Some((Shown, format!("{} has the same number", other.name)))
}

pub fn one_trial(case: &Case<'_>) -> Option<Evidence> {
    let number = case.number;
    let is_median = |note: &str| note.contains("median");
    if number.is_single() || is_median(&number.note) {
        return None;
    }
    if let Some(deviation) = number.deviation.filter(|deviation| *deviation > number.value && number.value > 0.0) {
        return Some((Shown, format!("the deviation of {} is larger", quantity(deviation, number.unit))));
    }
    let is_same = |other: &&super::number::Number| {
        (&other.metric, &other.labels, &other.name) == (&number.metric, &number.labels, &number.name)
    };
    let medians = case.source.numbers.iter().filter(|other| is_same(other) && is_median(&other.note));
    let median = medians.map(|other| other.value).find(|median| number.value > 3.0 * median)?;
    Some((Shown, format!("the median in the same file is {}", quantity(median, number.unit))))
}

pub fn latency_by_byte(case: &Case<'_>) -> Option<Evidence> {
    let number = case.number;
    let is_latency = number.is_of("memory.latency.") || number.is_of("memory.page_fault.") || number.family == "fault";
    if !number.per_byte || !is_latency {
        return None;
    }
    let whole = case.source.numbers.iter().filter(|other| other.family == number.family && !other.per_byte);
    let sizes = [4.0, 8.0, 64.0, 4096.0];
    let product = whole.flat_map(|other| sizes.map(|size| (other, size)));
    let found = product.into_iter().find(|(other, size)| case.is_near(other.value / size, ROUNDED));
    Some(match found {
        Some((other, size)) => (Shown, format!("it is {} divided by {size} bytes", other.written)),
        None => (Matching, "it is given for each byte".to_owned()),
    })
}

pub fn decimal_point(case: &Case<'_>) -> Option<Evidence> {
    let number = case.number;
    if number.per_byte && number.unit == Unit::Nanoseconds {
        // A time for each byte next to the rate of the same thing.
        let rates = case.source.numbers.iter().filter(|other| other.unit == Unit::BytesPerSecond);
        let of_rates = rates.map(|rate| (rate, 1e9 / rate.value));
        let found = of_rates.into_iter().find(|(_, each)| is_near(number.value / each, 10.0, ROUNDED))?;
        return Some((Shown, format!("{} are {} for each byte", found.0.written, quantity(found.1, number.unit))));
    }
    let ratio = case.ratio().filter(|_| case.is_off())?;
    let powers = [1e-9, 1e-6, 1e-3, 1e-1, 1e1, 1e3, 1e6, 1e9];
    let power = powers.into_iter().find(|power| (power / 1.1..=power * 1.1).contains(&ratio))?;
    // Machines differ by ten times, too.
    let tells = !case.other_machine || !(1e-2..1e2).contains(&power);
    // A single call is wrong by any factor.
    let strength = if number.is_single() { Typical } else { Matching };
    tells.then(|| (strength, format!("it is {} of our result, and {} is a power of ten", factor(ratio), factor(power))))
}

pub fn overlapping_loads(case: &Case<'_>) -> Option<Evidence> {
    let cycles = case.nanoseconds()? / case.cycle();
    if case.label("level") == Some("L1") && cycles < 0.75 * LOAD_TO_USE && !case.number.per_byte {
        let words = format!("a load takes {} cycles, and no core needs fewer than {LOAD_TO_USE}", text(cycles));
        return Some((Shown, words));
    }
    let cost = case.cost().filter(|cost| *cost < 0.75 && (case.is_off() || !case.other_machine))?;
    Some((Typical, format!("it is too fast by {}", factor(1.0 / cost))))
}

/// The size of the difference, beyond the first level.
pub fn beyond_the_first_level(case: &Case<'_>) -> Option<Evidence> {
    case.nanoseconds().filter(|_| case.label("level") != Some("L1")).and_then(|_| size_alone(case))
}

pub fn other_level(case: &Case<'_>) -> Option<Evidence> {
    let level = case.label("level")?;
    if case.number.is_of("memory.latency.level_size") {
        let ratio = case.ratio().filter(|ratio| *ratio > 3.5 && case.is_off())?;
        return Some((Typical, format!("the size is {} times that of the level", text(ratio))));
    }
    if case.number.per_byte {
        return None;
    }
    let found = case.nanoseconds()?;
    if let Some(other) = level_like(case).filter(|_| case.is_off() && !case.other_machine) {
        let name = other.labels.get("level").unwrap_or_default();
        return Some((Matching, format!("{name} takes {} in this run", quantity(other.value, other.unit))));
    }
    let cost = case.cost().filter(|cost| *cost > 1.4)?;
    let levels = ["L1", "L2", "L3", "DRAM"];
    let place = levels.iter().position(|found| *found == level)?;
    let next = levels.get(place + 1).and_then(|next| case.run.value("memory.latency.level", &format!("level={next}")));
    // Nearer to the next level than to its own, by their ratios.
    if let Some(next) = next.filter(|next| cost * found > *next && found < 1.5 * next) {
        return Some((Matching, format!("the next level takes {}", quantity(next, Unit::Nanoseconds))));
    }
    let cycles = found / case.cycle();
    let is_known = case.cycle() > SHORTEST_CYCLE && place == 0 && cycles > MOST_FIRST_LEVEL;
    is_known.then(|| (Matching, format!("it is {} cycles, and a first level has at most 6", text(cycles))))
}

/// The level of the run that a number is most like, other than the level that it is named after.
fn level_like<'a>(case: &Case<'a>) -> Option<&'a RunResult> {
    let ours = case.ours?;
    let others = case.run.all("memory.latency.level");
    let others = others.filter(|found| found.labels.get("level") != ours.labels.get("level"));
    nearest(case, others, SIBLING)
}

/// The result that a number is most like, within a part of it.
fn nearest<'a>(case: &Case<'a>, results: impl Iterator<Item = &'a RunResult>, part: f64) -> Option<&'a RunResult> {
    let far = |found: &RunResult| (case.number.value / case.in_unit(found.value)).ln().abs();
    let alike = results.filter(|found| case.is_near(case.in_unit(found.value), part));
    alike.min_by(|one, other| far(one).total_cmp(&far(other)))
}

pub fn large_parent(case: &Case<'_>) -> Option<Evidence> {
    // Huge pages make a large parent cheap: such a result is like many others.
    let is_large = |found: &&RunResult| case.ours.is_some_and(|ours| found.value > LARGE_PARENT * ours.value);
    let large = case.with_another("resident").filter(is_large);
    match nearest(case, large, SIBLING).filter(|_| !case.other_machine) {
        Some(found) => {
            let bytes = found.labels.get("resident").and_then(|bytes| bytes.parse().ok()).unwrap_or_default();
            let (memory, time) = (quantity(bytes, Unit::Bytes), quantity(found.value, found.unit));
            Some((Matching, format!("from a parent with {memory} it takes {time}")))
        }
        None => size_alone(case),
    }
}

/// Where the number has no wait for the child in it.
pub fn without_a_wait(case: &Case<'_>) -> Option<Evidence> {
    if case.label("how").is_some_and(|how| how.ends_with("_wait")) { None } else { size_alone(case) }
}

pub fn fork_of_small_parent(case: &Case<'_>) -> Option<Evidence> {
    let is_fork = ["fork", "fork_wait", "library_fork_wait"].contains(&case.label("how")?);
    if is_fork && case.label("resident") == Some("0") { size_alone(case) } else { None }
}

pub fn ticks_as_cycles(case: &Case<'_>) -> Option<Evidence> {
    let number = case.number;
    let core = case.run.value("cpu.frequency.core", "").filter(|_| !case.other_machine);
    if number.is_of("cpu.cycle_time") || number.is_of("cpu.frequency.core") {
        let tick = case.tick()?;
        let is_period = number.unit == Unit::Nanoseconds && case.is_near(tick, ROUNDED);
        let is_rate = number.unit == Unit::Hertz && case.is_near(1e9 / tick, ROUNDED);
        let differs = core.is_none_or(|core| !is_near(core * tick, 1e9, 2.0 * ROUNDED));
        return ((is_period || is_rate) && differs).then(|| {
            (Matching, format!("the time-stamp counter has a tick of {}", quantity(tick, Unit::Nanoseconds)))
        });
    }
    let cycle = 1e9 / core?;
    let of_tick = cycle / case.tick()?;
    let is_it = number.unit == Unit::Cycles && is_near(case.ratio()?, of_tick, 3.0 * ROUNDED);
    (is_it && !is_near(of_tick, 1.0, 2.0 * ROUNDED))
        .then(|| (Matching, format!("it is {} of our cycles, as a tick is", factor(of_tick))))
}

pub fn cached_read(case: &Case<'_>) -> Option<Evidence> {
    if case.label("kind").is_some_and(|kind| kind != "file_cold") || case.label("cache") == Some("warm") {
        return None;
    }
    let warm = ["file.read.rate", "file.read.block_time"].into_iter().find_map(|metric| {
        let is_rate = case.number.unit == Unit::BytesPerSecond;
        case.run.value(metric, "cache=warm").filter(|_| is_rate == metric.ends_with("rate"))
    });
    let is_warm = |warm: f64| (warm / 6.0..=warm * 6.0).contains(&case.number.value);
    match warm.filter(|warm| is_warm(*warm)) {
        Some(warm) => Some((Matching, format!("a read of cached data is {}", quantity(warm, case.number.unit)))),
        None => size_alone(case),
    }
}

pub fn read_ahead(case: &Case<'_>) -> Option<Evidence> {
    if case.label("order") != Some("sequential") {
        return None;
    }
    let mut others = case.with_another("cache").filter(|found| found.labels.get("cache") == Some("cold"));
    let found = others.find(|found| case.is_near(found.value, ALIKE))?;
    Some((Matching, format!("reads through the page cache in this order are {}", quantity(found.value, found.unit))))
}

pub fn close_alone(case: &Case<'_>) -> Option<Evidence> {
    if case.label("phase") == Some("close") { size_alone(case) } else { None }
}

pub fn reads_of_memory(case: &Case<'_>) -> Option<Evidence> {
    if case.number.unit == Unit::Bytes {
        return None;
    }
    let is_read = match case.number.metric.as_deref()? {
        metric if metric.starts_with("memory.bandwidth.") => case.label("operation") == Some("read"),
        metric if metric.starts_with("memory.page_fault.") => {
            case.label("kind").is_some_and(|kind| kind.contains("anonymous"))
        }
        _ => case.label("level").is_some_and(|level| level != "L1"),
    };
    if is_read { size_alone(case) } else { None }
}

pub fn rate_of_a_cache(case: &Case<'_>) -> Option<Evidence> {
    let level = case.with_another("level").find(|found| case.is_near(found.value, ALIKE));
    match level.and_then(|found| Some((found.labels.get("level")?, found.value))) {
        Some((level, rate)) => Some((Matching, format!("{level} gives {}", quantity(rate, Unit::BytesPerSecond)))),
        None => size_alone(case),
    }
}

/// A factor of two.
pub fn half_or_twice(case: &Case<'_>) -> Option<Evidence> {
    let cost = case.cost()?;
    let twice = cost.max(1.0 / cost);
    if !(1.6..=2.5).contains(&twice) {
        return None;
    }
    let strength = if is_near(twice, 2.0, 0.12) { Matching } else { Typical };
    Some((strength, format!("it is {} of our result", factor(case.ratio()?))))
}

pub fn eight_times(case: &Case<'_>) -> Option<Evidence> {
    let cost = case.cost()?;
    let is_it = is_near(cost.max(1.0 / cost), 8.0, 0.15);
    is_it.then(|| (Matching, format!("it is {} of our result", factor(cost.max(1.0 / cost)))))
}

pub fn no_kernel_entry(case: &Case<'_>) -> Option<Evidence> {
    let found = case.nanoseconds()?;
    let entry = case.run.value("os.system_call.time", "call=enosys")?;
    if found < 0.6 * entry {
        let words = format!("the kernel alone takes {} to enter and leave", quantity(entry, Unit::Nanoseconds));
        return Some((if case.other_machine { Matching } else { Shown }, words));
    }
    size_alone(case)
}

pub fn clock_inside(case: &Case<'_>) -> Option<Evidence> {
    let over = case.nanoseconds()? - case.ours.filter(|ours| ours.unit == Unit::Nanoseconds)?.value;
    if case.number.is_of("cpu.timer.") || case.other_machine {
        return None;
    }
    let excess = quantity(over, Unit::Nanoseconds);
    let method = |reading: &RunResult| reading.labels.get("method").unwrap_or("the clock").to_owned();
    let twice = |reading: &RunResult| {
        format!("2 readings by {} take 2 × {}", method(reading), quantity(reading.value, Unit::Nanoseconds))
    };
    let readings = || case.run.all("cpu.timer.overhead");
    for reading in readings() {
        if is_near(over, reading.value, 0.15) {
            let cost = quantity(reading.value, Unit::Nanoseconds);
            return Some((
                Matching,
                format!("the excess is {excess}, and 1 reading by {} takes {cost}", method(reading)),
            ));
        }
        if is_near(over, 2.0 * reading.value, 0.1) {
            return Some((Matching, format!("the excess is {excess}, and {}", twice(reading))));
        }
    }
    // A single call has a reading before it and one after it, whatever else is in the number.
    let usual = readings().find(|reading| reading.labels.get("method") == Some("clock_gettime"));
    let reading = usual.filter(|reading| case.number.is_single() && over > reading.value)?;
    Some((Matching, format!("it is one call with an excess of {excess}, and {}", twice(reading))))
}

pub fn whole_steps(case: &Case<'_>) -> Option<Evidence> {
    let found = case.nanoseconds()?;
    let ours = case.ours.filter(|ours| ours.unit == Unit::Nanoseconds)?.value;
    let steps = [1e7, 4e6, 1e6, 1e3];
    let step = steps
        .into_iter()
        .find(|step| ours < *step && found >= *step && is_near(found / step, (found / step).round(), 1e-9))?;
    case.is_off().then(|| (Matching, format!("it is a whole multiple of {}", quantity(step, Unit::Nanoseconds))))
}

pub fn unoptimised(case: &Case<'_>) -> Option<Evidence> {
    let memory = case
        .with_another("code")
        .find(|found| found.labels.get("code") == Some("memory") && case.is_near(case.in_unit(found.value), ALIKE));
    match memory {
        Some(found) => {
            let words = format!("code that keeps its variables in memory takes {}", quantity(found.value, found.unit));
            Some((Matching, words))
        }
        None => size_alone(case),
    }
}

pub fn one_factor_for_all(case: &Case<'_>) -> Option<Evidence> {
    let ratio = case.ratio().filter(|ratio| !is_near(*ratio, 1.0, 0.08))?;
    let is_by_core = |metric: &str| {
        metric.starts_with("cpu.") || metric.starts_with("os.system_call.") || metric == "memory.latency.level"
    };
    let mut others: Vec<f64> = Vec::new();
    for other in
        case.source.numbers.iter().filter(|other| other.metric.as_deref().is_some_and(is_by_core) && !other.per_byte)
    {
        let ours = case.run.all(other.metric.as_deref()?).find(|found| found.labels.includes(&other.labels));
        others.extend(ours.filter(|ours| ours.unit == other.unit).map(|ours| other.value / ours.value));
    }
    let alike = others.iter().filter(|other| is_near(**other, ratio, 0.06)).count();
    let is_it = alike >= 4 && 3 * alike >= 2 * others.len();
    is_it.then(|| (Matching, format!("{alike} numbers of the file differ by this factor of {}", factor(ratio))))
}

pub fn end_of_process(case: &Case<'_>) -> Option<Evidence> {
    let whole = case.run.value("os.process_creation.time", "how=fork_wait")?;
    let found = case.nanoseconds()?;
    (whole / 2.5..=whole * 2.5).contains(&found).then(|| {
        (
            Matching,
            format!("a process that is created, ends and is collected takes {}", quantity(whole, Unit::Nanoseconds)),
        )
    })
}

pub fn other_placement(case: &Case<'_>) -> Option<Evidence> {
    let others = ["placement", "child", "target"]
        .into_iter()
        .flat_map(|key| case.with_another(key).map(move |found| (key, found)));
    let mut others = others.filter(|(_, found)| case.is_near(case.in_unit(found.value), ALIKE));
    match others.next() {
        Some((key, found)) => {
            let where_to = found.labels.get(key).unwrap_or_default().replace('_', " ");
            Some((Matching, format!("with {key} {where_to} it takes {}", quantity(found.value, found.unit))))
        }
        None => size_alone(case),
    }
}

pub fn other_variant(case: &Case<'_>) -> Option<Evidence> {
    let keys = ["how", "by", "kind", "phase", "resident"];
    // More memory has a mistake that names it.
    let has_less = case.cost().is_some_and(|cost| cost < 1.0);
    let keys = keys.into_iter().filter(|key| *key != "resident" || has_less);
    let others = keys.flat_map(|key| case.with_another(key).map(move |found| (key, found)));
    let is_it = |found: f64| case.is_near(case.in_unit(found), 0.12);
    let (key, found) = others.into_iter().find(|(_, found)| is_it(found.value)).filter(|_| case.is_off())?;
    let value = found.labels.get(key).unwrap_or_default();
    Some((Matching, format!("{key}={value} takes {}", quantity(found.value, found.unit))))
}

pub fn cold(case: &Case<'_>) -> Option<Evidence> {
    let mut others = case.with_another("cache");
    let cold = others.find(|found| found.labels.get("cache") != Some("warm") && case.is_near(found.value, ALIKE));
    match cold {
        Some(found) => {
            Some((Matching, format!("reads that are not cached take {}", quantity(found.value, found.unit))))
        }
        None if case.number.is_single() => Some((Matching, "it is a single call".to_owned())),
        None if case.number.trials.is_some_and(|trials| trials <= 3) => {
            Some((Matching, "there are at most three trials".to_owned()))
        }
        None => size_alone(case),
    }
}

pub fn delayed_acknowledgement(case: &Case<'_>) -> Option<Evidence> {
    let found = case.nanoseconds()? / 1e6;
    let delays = [38.0..=48.0, 190.0..=215.0];
    let is_it = delays.iter().any(|delay| delay.contains(&found));
    is_it.then(|| (Matching, "Linux delays acknowledgements by 40 ms, and other systems by 200 ms".to_owned()))
}

pub fn like_loopback(case: &Case<'_>) -> Option<Evidence> {
    let path = case.number.labels.get("path").filter(|path| *path != "loopback")?;
    let labels = case.number.labels.without("path").with("path", "loopback");
    let mut results = case.run.all(case.number.metric.as_deref()?);
    let ours = results.find(|found| found.labels.includes(&labels) && case.is_near(found.value, ALIKE))?;
    let words = format!("the loopback gives {}, and the path is {path}", quantity(ours.value, ours.unit));
    (!case.other_machine).then_some((Matching, words))
}

pub fn rate_of_small_messages(case: &Case<'_>) -> Option<Evidence> {
    let is_small = |bytes: &str| bytes.parse::<u64>().is_ok_and(|bytes| bytes < 16_384);
    let mut others = case.with_another("bytes").filter(|found| found.labels.get("bytes").is_some_and(is_small));
    match others.find(|found| case.is_near(found.value, ALIKE)) {
        Some(found) => Some((Matching, format!("small messages reach {}", quantity(found.value, found.unit)))),
        None => size_alone(case),
    }
}

pub fn another_call_inside(case: &Case<'_>) -> Option<Evidence> {
    let over = case.nanoseconds()? - case.ours.filter(|ours| ours.unit == Unit::Nanoseconds)?.value;
    let entry = case.run.value("os.system_call.time", "call=enosys")?;
    (over > 0.7 * entry && over < 2.5 * entry)
        .then(|| (Matching, format!("the excess is one more system call: {}", quantity(over, Unit::Nanoseconds))))
}

pub fn number_of_processes(case: &Case<'_>) -> Option<Evidence> {
    let processes: f64 = case.label("processes")?.parse().ok().filter(|count| *count > 1.0)?;
    let cost = case.cost()?;
    is_near(cost.max(1.0 / cost), processes, 0.25)
        .then(|| (Matching, format!("it is {} of our result for {processes} processes", factor(cost))))
}
