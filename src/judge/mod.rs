//! Numbers that others measured, judged by a run: whether they agree, and which typical mistake explains a difference.
//!
//! `reading` reads them, `names` knows what they can be called, `case` is one number with everything that a mistake can be recognised by, `traps` is the table of mistakes, and
//! `signs` has what speaks for each.

mod case;
pub mod names;
mod number;
pub mod reading;
mod signs;
pub mod table;
#[cfg(test)]
mod tests;
mod traps;

use case::{Case, Run};
pub use number::Source;
use traps::{TRAPS, Trap};

use crate::results::compact::Compact;
use crate::results::judgement::{Agreement, Cause, FORMAT, JudgedNumber, JudgedSource, Judgement, OwnResult, Strength};
use crate::results::machines;

/// Programs that measure the same thing correctly differ by less than this factor. Two builds of sysdyno differ by up to 1.24, and
/// other benchmarks from it by up to 1.1 (`TRUST.md`).
const AGREE: f64 = 1.25;
/// The same where the run is one of another machine: the costs of the kernel, of memory and of caches differ by a factor of 1.5 to 5
/// between machines (`catalogue/`).
const AGREE_ELSEWHERE: f64 = 3.0;

/// What the numbers of some files are worth next to a run.
pub fn judge(sources: &[Source], place: &str, run: &Compact, other_machine: bool) -> Judgement {
    let results = Run::of(run);
    let agree_within = if other_machine { AGREE_ELSEWHERE } else { AGREE };
    Judgement {
        format: FORMAT.to_owned(),
        run: place.to_owned(),
        machine: machines::hardware(run),
        other_machine,
        agree_within,
        sources: sources.iter().map(|source| judged(source, &results, other_machine, agree_within)).collect(),
        left_aside: Vec::new(),
        left_out: Vec::new(),
    }
}

/// Every mistake that is looked for, as a table.
pub fn mistakes() -> String {
    let row = |trap: &Trap| format!("| {} | {} | {} |\n", trap.id.replace('_', " "), trap.what, trap.remedy);
    "| mistake | what happened | what to do |\n| --- | --- | --- |\n".to_owned()
        + &TRAPS.iter().map(row).collect::<String>()
}

fn judged(source: &Source, run: &Run, other_machine: bool, agree_within: f64) -> JudgedSource {
    let conversion = case::common_conversion(source);
    let cases: Vec<Case<'_>> = source
        .numbers
        .iter()
        .map(|number| Case::new(number, source, run, other_machine, agree_within, conversion))
        .collect();
    let mut found: Vec<Causes> = cases.iter().map(fitting).collect();
    for trap in TRAPS.iter().filter(|trap| trap.of_the_program) {
        spread(trap, &cases, &mut found);
    }
    let numbers = cases.iter().zip(found).map(|(case, causes)| of(case, causes)).collect();
    JudgedSource { name: source.name.clone(), numbers }
}

/// The mistakes that fit a number, the most likely one first.
struct Causes {
    causes: Vec<Cause>,
    /// Whether only another number of the same program shows them.
    by_another: bool,
}

fn fitting(case: &Case<'_>) -> Causes {
    let mut causes: Vec<Cause> = TRAPS.iter().filter_map(|trap| trap.fits(case)).collect();
    causes.sort_by_key(|cause| cause.strength);
    Causes { causes, by_another: false }
}

/// A mistake in how a program works is in all numbers that it made. Those that show nothing by themselves get the cause from the
/// number that shows it best.
fn spread(trap: &Trap, cases: &[Case<'_>], found: &mut [Causes]) {
    let strength =
        |causes: &Causes| causes.causes.iter().find(|cause| cause.trap == trap.id).map(|cause| cause.strength);
    let family = |place: usize| &cases[place].number.family;
    let most_show_it = |place: usize| {
        let compared = (0..cases.len()).filter(|other| family(*other) == family(place) && cases[*other].ours.is_some());
        let (off, all) = compared.fold((0, 0), |(off, all), other| (off + usize::from(cases[other].is_off()), all + 1));
        trap.spreads_from_typical && 3 * off >= 2 * all
    };
    let shown: Vec<(usize, Strength)> = found
        .iter()
        .enumerate()
        .filter(|(_, causes)| !causes.by_another)
        .filter_map(|(place, causes)| Some((place, strength(causes)?)))
        .filter(|(place, strength)| *strength == Strength::Shown || most_show_it(*place))
        .collect();
    for (place, causes) in found.iter_mut().enumerate().filter(|(_, causes)| causes.causes.is_empty()) {
        let best = shown.iter().filter(|(other, _)| family(*other) == family(place));
        if let Some((other, _)) = best.min_by_key(|(_, strength)| *strength) {
            let evidence = format!("the same program measured {}, which shows it", cases[*other].number.name);
            *causes = Causes { causes: vec![trap.cause(Strength::Typical, evidence)], by_another: true };
        }
    }
}

fn of(case: &Case<'_>, Causes { mut causes, by_another }: Causes) -> JudgedNumber {
    let number = case.number;
    let is_shown = by_another || causes.iter().any(|cause| cause.strength == Strength::Shown);
    let state = match case.ratio() {
        Some(_) if case.is_off() && case.is_settled() => Agreement::Off,
        Some(_) if case.is_off() && !is_shown => Agreement::Undecided,
        _ if is_shown => Agreement::Doubtful,
        None if !causes.is_empty() => Agreement::Doubtful,
        Some(_) => Agreement::Agrees,
        None => Agreement::NotCompared,
    };
    if state == Agreement::Agrees {
        // A factor of 3 between machines leaves room for a mistake that the file itself speaks for.
        causes.retain(|cause| case.other_machine && cause.strength == Strength::Matching);
    }
    JudgedNumber {
        place: number.place.clone(),
        name: number.name.clone(),
        metric: number.metric.clone(),
        labels: number.labels.clone(),
        unit: number.unit,
        value: number.value,
        written: number.written.clone(),
        deviation: number.deviation,
        trials: number.trials,
        ours: case.ours.map(|ours| OwnResult {
            labels: ours.labels.clone(),
            value: case.in_unit(ours.value),
            interval: ours.interval.map(|end| case.in_unit(end)),
            grade: ours.grade,
        }),
        ratio: case.ratio(),
        state,
        causes,
    }
}
