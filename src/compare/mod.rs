//! Runs compared with runs: result by result, with the scatter within and between runs.
//!
//! [`compare`] pairs the results of both sides by `collect`, judges each pair by `statistics::compare`, and adjusts for their number. `facts` says
//! what differs between machines and conditions, `scatter` what is known of the scatter between runs, `reasons` what explains a
//! change, `groups` sums up the changes, and `timeline` judges runs of one machine over time.

pub mod across;
mod clock;
mod collect;
mod distance;
mod facts;
mod groups;
mod reasons;
#[cfg(test)]
mod records;
mod scatter;
pub mod timeline;

use std::collections::BTreeMap;

use self::collect::pairs;
use crate::experiments::phrases::{self, phrase};
use crate::experiments::{self, Experiment};
use crate::results::compact::{Compact, CompactExperiment, CompactFigure, CompactMetric};
use crate::results::comparison::{
    Alternation, ComparedResult, ComparedRun, Comparison, FORMAT, Finding, NotCompared, SideValue,
};
use crate::results::document::Grade;
use crate::results::machines;
use crate::results::problem::Problem;
use crate::results::quantity::{Better, DISTANCE, Labels, Unit};
use crate::results::verdict::Trust;
use crate::results::wording::count;
use crate::statistics::compare::{Conclusion, LEAST_ROUNDS, Needed, Observed, Paired, Shift, Side, needed};
use crate::statistics::distribution::normal_factor;
use crate::statistics::location::FEWEST_LAUNCHES;
use crate::statistics::significance::benjamini_hochberg;

/// A run and where it was read.
#[derive(Debug, Clone)]
pub struct PlacedRun {
    /// The place as it was typed or found.
    pub place: String,
    /// The run.
    pub run: Compact,
}

/// Relative change that matters, by chapter.
const THRESHOLDS: [(&str, f64); 5] = [("cpu", 0.01), ("os", 0.03), ("memory", 0.03), ("network", 0.05), ("file", 0.05)];
/// The same for chapters that have none.
const THRESHOLD: f64 = 0.05;
/// Confidence of intervals.
const LEVEL: f64 = 0.95;
/// Label of the pages that the memory of a result has.
const PAGES: &str = "pages";
/// Its value for small pages.
const SMALL_PAGES: &str = "4k";
/// Beginning of metrics that describe the host and no cost of the machine: they are differences of the runs.
const OF_THE_HOST: &str = "cpu.sharing.";

/// How the runs of the sides belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Design {
    /// Runs at separate times.
    Apart,
    /// Each run of one side belongs to the run of the other side that was made next to it.
    Rounds,
}

/// One result: its labels, and what each side has, by the number of the run.
struct Pair<'a> {
    labels: Labels,
    facts: MetricFacts,
    base: Vec<(usize, &'a CompactFigure)>,
    new: Vec<(usize, &'a CompactFigure)>,
    /// Words for the memory of both sides, where they measured in other amounts of it.
    remark: Option<String>,
    /// Words for the pages of the base, where it has the result with other pages only.
    instead: Option<String>,
}

/// What is the same for all results of a metric.
#[derive(Clone, Copy)]
struct MetricFacts {
    experiment: &'static Experiment,
    unit: Unit,
    better: Better,
}

/// Compares the runs of two sides. Runs of different machines, peers or method versions are refused, unless asked for.
pub fn compare(base: &[PlacedRun], new: &[PlacedRun], across: bool) -> Result<Comparison, Problem> {
    let unlike = facts::unlike(base, new);
    if let Some(unlike) = unlike.first().filter(|_| !across) {
        return Err(Problem::new(format!("the runs cannot be compared as runs of one machine: {unlike}"))
            .hint("to compare different machines, peers or methods, add --across"));
    }
    Ok(compared(base, new, Design::Apart, !unlike.is_empty()))
}

/// Compares two conditions whose runs were made in turn: the first run of one side in the same round as the first of the other. What
/// counts is the difference within rounds, so that what changes from round to round is in neither.
pub fn live(base: &[PlacedRun], new: &[PlacedRun], alternation: Alternation) -> Comparison {
    Comparison { alternation: Some(alternation), ..compared(base, new, Design::Rounds, false) }
}

fn compared(base: &[PlacedRun], new: &[PlacedRun], design: Design, across: bool) -> Comparison {
    let differences = facts::differences(base, new);
    let (mut rows, mut cycles, mut not_compared) = (Vec::new(), Vec::new(), Vec::new());
    for (metric, pairs) in pairs(base, new) {
        for pair in pairs {
            // Between machines the clock is a part of the answer.
            let clock = clock::of_base(&pair).filter(|_| !across);
            match row(&metric, &pair, design, clock) {
                Ok(row) => {
                    rows.push(row);
                    cycles.push(clock::in_cycles(&pair));
                }
                Err(reason) => not_compared.push(NotCompared { metric: metric.clone(), labels: pair.labels, reason }),
            }
        }
    }
    if rows.is_empty() && not_compared.is_empty() {
        not_compared = without_results(base.iter().chain(new));
    }
    judge(&mut rows, design);
    for (row, cycles) in rows.iter_mut().zip(cycles) {
        if row.is_changed() && row.explanation.is_none() {
            row.explanation = reasons::explanation(row, cycles, &differences);
        }
    }
    // Only now: a cut interval must decide nothing.
    rows.iter_mut().for_each(ComparedResult::cut);
    rows.sort_by(|one, other| consequence(other).total_cmp(&consequence(one)));
    Comparison {
        format: FORMAT.to_owned(),
        base: base.iter().map(compared_run).collect(),
        new: new.iter().map(compared_run).collect(),
        across,
        core_hz: clock::of_sides(base, new).filter(|_| !across),
        alternation: None,
        differences,
        groups: groups::groups(&groups::Changed::of(&rows)),
        rows,
        not_compared,
        across_machines: None,
    }
}

/// Experiments that have no result in any run, with the reason of the first.
fn without_results<'a>(runs: impl Iterator<Item = &'a PlacedRun>) -> Vec<NotCompared> {
    let mut reasons: BTreeMap<&str, &str> = BTreeMap::new();
    for found in runs.flat_map(|placed| &placed.run.experiments).filter(|found| found.metrics.is_empty()) {
        reasons.entry(&found.id).or_insert_with(|| found.reason.as_deref().unwrap_or("it has no result"));
    }
    let entry = |(id, reason): (&str, &str)| NotCompared {
        metric: id.to_owned(),
        labels: Labels::none(),
        reason: reason.to_owned(),
    };
    reasons.into_iter().map(entry).collect()
}

fn compared_run(placed: &PlacedRun) -> ComparedRun {
    let run = &placed.run.run;
    ComparedRun {
        place: placed.place.clone(),
        machine: machines::hardware(&placed.run),
        id: run.id.clone(),
        started: run.started.clone(),
        profile: run.profile.clone(),
        seconds: run.seconds,
        cpu: run.cpu,
        shared_share: placed.run.practice.shared_share,
    }
}

/// The pages of a result in words.
fn page_words(metric: &str, labels: &Labels) -> String {
    phrases::label(metric, PAGES, labels.get(PAGES).unwrap_or_default())
}

/// The results of a run whose experiment this build knows.
fn figures(run: &Compact) -> impl Iterator<Item = (MetricFacts, &CompactMetric, &CompactFigure)> {
    let known = |found: &CompactExperiment| experiments::find(&found.id);
    run.experiments.iter().filter_map(move |found| Some((known(found)?, found))).flat_map(|(experiment, found)| {
        let costs = found.metrics.iter().filter(|metric| !metric.name.starts_with(OF_THE_HOST));
        costs.flat_map(move |metric| {
            let facts = MetricFacts { experiment, unit: metric.unit, better: metric.better };
            metric.figures.iter().map(move |figure| (facts, metric, figure))
        })
    })
}

/// One result, not yet judged; why not, if it cannot be compared.
fn row(metric: &str, pair: &Pair<'_>, design: Design, clock: Option<f64>) -> Result<ComparedResult, String> {
    let (labels, facts) = (&pair.labels, pair.facts);
    let threshold = threshold(facts.experiment);
    let sided = match design {
        Design::Apart => apart(pair, scatter::between(metric, labels), threshold, clock),
        Design::Rounds => in_rounds(pair, threshold, clock),
    }?;
    let Sided { base, new, shift, wanted } = sided;
    let value = |side: &Side| {
        let (value, interval) = side.value()?;
        Some(SideValue { value, interval: [interval.low, interval.high], launches: side.launches, runs: side.runs })
    };
    let (Some(base_value), Some(new_value)) = (value(&base), value(&new)) else { return Err(TOO_LARGE.to_owned()) };
    let publication = facts.experiment.publication(metric);
    Ok(ComparedResult {
        experiment: facts.experiment.id.to_owned(),
        metric: metric.to_owned(),
        labels: labels.clone(),
        phrase: match (&pair.instead, &pair.remark) {
            (Some(pages), _) => format!("{} (base: {pages})", phrase(metric, labels)),
            (None, Some(remark)) => format!("{} ({remark})", phrase(metric, labels)),
            (None, None) => phrase(metric, labels),
        },
        unit: facts.unit,
        better: facts.better,
        headline: publication.is_some_and(|publication| (publication.headline)(labels)),
        base: base_value,
        new: new_value,
        change: shift.shift.exp_m1(),
        interval: [shift.interval.low.exp_m1(), shift.interval.high.exp_m1()],
        threshold,
        p: shift.p,
        adjusted_p: shift.p,
        finding: Finding::Inconclusive,
        launches_needed: wanted
            .and_then(|wanted| if let Needed::Launches(count) = wanted { Some(count) } else { None }),
        runs_needed: wanted.and_then(|wanted| if let Needed::Runs(count) = wanted { Some(count) } else { None }),
        explanation: pair.instead.as_ref().map(|pages| format!("the base has this with {pages} only")),
    })
}

/// Numbers whose logarithms or exponentials are not finite.
const TOO_LARGE: &str = "the numbers are too large or too small to compare";

/// A result of both sides, and what separates them.
struct Sided {
    base: Side,
    new: Side,
    shift: Shift,
    wanted: Option<Needed>,
}

/// What the runs of a side say of a result; why nothing, if they do not.
fn side(figures: &[(usize, &CompactFigure)], floor: f64, clock: Option<f64>, name: &str) -> Result<Side, String> {
    if figures.is_empty() {
        return Err(format!("missing in {name}"));
    }
    let usable: Vec<Observed> = figures.iter().filter_map(|(_, figure)| observed(figure, floor, clock)).collect();
    if usable.is_empty() {
        let why = if figures.iter().all(|(_, figure)| figure.at_least) {
            "lower bound"
        } else if figures.iter().all(|(_, figure)| figure.trust >= Trust::Contaminated) {
            "contaminated"
        } else {
            "too few launches for an interval"
        };
        return Err(format!("{why} in {name}"));
    }
    Side::of(&usable).ok_or_else(|| format!("not a positive number in {name}"))
}

/// Runs at separate times.
fn apart(pair: &Pair<'_>, floor: f64, threshold: f64, clock: Option<f64>) -> Result<Sided, String> {
    let (base, new) = (side(&pair.base, floor, clock, "the base")?, side(&pair.new, floor, clock, "the new runs")?);
    let shift = Shift::between(&base, &new).ok_or(TOO_LARGE)?;
    Ok(Sided { wanted: needed(&base, &new, threshold), base, new, shift })
}

/// The grade of a result in which something else has a part; none of any other. Older runs know one such grade.
fn foreign(figure: &CompactFigure) -> Option<Grade> {
    let grade = if figure.grade == Grade::Disturbed { Grade::Disturbed } else { Grade::Contaminated };
    (figure.trust >= Trust::Contaminated).then_some(grade)
}

/// Runs in rounds: only rounds count in which both sides have the result. Disturbed and contaminated results count where too few rounds
/// are left without them, in rounds in which both sides have the same grade: what disturbs now one condition and now the other is in the
/// scatter of the differences. A result with a neighbour against one without does not show what the conditions do.
fn in_rounds(pair: &Pair<'_>, threshold: f64, clock: Option<f64>) -> Result<Sided, String> {
    let new: BTreeMap<usize, &CompactFigure> = pair.new.iter().copied().collect();
    let both = |grade: Option<Grade>| {
        let usable = |figure: &CompactFigure| {
            let (half_width, level) = figure.half_width();
            // One launch or two have no interval. The scatter of the rounds decides alone then.
            let within = normal_factor(level).map_or(0.0, |factor| half_width / factor);
            let found = Observed { value: clock::at(clock, figure), within, launches: figure.launches, between: 0.0 };
            (foreign(figure) == grade && !figure.at_least).then_some(found)
        };
        let rounds = pair.base.iter().filter_map(|(number, base)| Some((usable(base)?, usable(new.get(number)?)?)));
        rounds.collect::<Vec<(Observed, Observed)>>()
    };
    let mut rounds = both(None);
    if rounds.len() < LEAST_ROUNDS {
        rounds.extend([Grade::Disturbed, Grade::Contaminated].into_iter().flat_map(|grade| both(Some(grade))));
    }
    if rounds.len() < LEAST_ROUNDS {
        let side = match () {
            () if pair.base.is_empty() => only_in(pair, &pair.new, ["the base", "the new runs"]),
            () if pair.new.is_empty() => only_in(pair, &pair.base, ["the new runs", "the base"]),
            () => format!(
                "{} have it on both sides, undisturbed or disturbed on both, and at least {LEAST_ROUNDS} must",
                count(rounds.len() as u64, "round", "rounds")
            ),
        };
        return Err(side);
    }
    let paired = Paired::of(&rounds).ok_or(TOO_LARGE)?;
    Ok(Sided { wanted: paired.needed(threshold), base: paired.base, new: paired.new, shift: paired.shift })
}

/// Why only one side has a result: the CPUs of a pair can be near to each other in one round, and far apart in the others.
fn only_in(pair: &Pair<'_>, found: &[(usize, &CompactFigure)], [without, with]: [&str; 2]) -> String {
    let Some(distance) = pair.labels.get(DISTANCE) else { return format!("missing in {without}") };
    let numbers: Vec<String> = found.iter().map(|(number, _)| (number + 1).to_string()).collect();
    let rounds = if numbers.len() == 1 { "round" } else { "rounds" };
    let words = phrases::label("", DISTANCE, distance);
    format!("missing in {without}, because the two CPUs were {words} only in {rounds} {} of {with}", numbers.join(", "))
}

/// The result of one run, if it says what it costs on an undisturbed machine. The scatter between runs is what the run says of it, or
/// what records say where that is more.
fn observed(figure: &CompactFigure, floor: f64, clock: Option<f64>) -> Option<Observed> {
    let usable = figure.trust < Trust::Contaminated && !figure.at_least;
    let (half_width, level) = figure.half_width();
    let within = half_width / normal_factor(level)?;
    let between = (figure.between / normal_factor(LEVEL)?).max(floor);
    usable.then_some(Observed { value: clock::at(clock, figure), within, launches: figure.launches, between })
}

fn threshold(experiment: &Experiment) -> f64 {
    THRESHOLDS.iter().find(|(chapter, _)| *chapter == experiment.chapter()).map_or(THRESHOLD, |(_, found)| *found)
}

/// Adjusts the p values over the whole table, and says what the data say.
fn judge(rows: &mut [ComparedResult], design: Design) {
    let (judged, open): (Vec<_>, Vec<_>) = rows.iter_mut().partition(|row| has_launches(row, design));
    let p_values: Vec<f64> = judged.iter().map(|row| row.p).collect();
    let adjusted = benjamini_hochberg(&p_values).unwrap_or(p_values);
    for (row, adjusted_p) in judged.into_iter().zip(adjusted) {
        row.adjusted_p = adjusted_p;
        row.finding = match conclusion(row) {
            Conclusion::Changed if row.worsening() > 0.0 => Finding::Worse,
            Conclusion::Changed => Finding::Better,
            Conclusion::Equivalent => Finding::Equivalent,
            Conclusion::Inconclusive => Finding::Inconclusive,
        };
        if row.finding != Finding::Inconclusive {
            (row.launches_needed, row.runs_needed) = (None, None);
        }
    }
    for row in open {
        (row.adjusted_p, row.finding) = (1.0, Finding::Inconclusive);
    }
}

/// Whether both sides have launches enough for a verdict. Two launches agree by chance, however far the runs are apart. In rounds the
/// scatter of the rounds decides, whatever the number of launches.
fn has_launches(row: &ComparedResult, design: Design) -> bool {
    design == Design::Rounds || row.base.launches.min(row.new.launches) as usize >= FEWEST_LAUNCHES
}

fn conclusion(row: &ComparedResult) -> Conclusion {
    let logarithms = row.interval.map(f64::ln_1p);
    let interval = crate::statistics::interval::Interval::new(logarithms[0], logarithms[1], LEVEL);
    interval.map_or(Conclusion::Inconclusive, |interval| {
        let shift = Shift { shift: row.change.ln_1p(), interval, p: row.p, error: 0.0 };
        shift.verdict(row.adjusted_p, row.threshold)
    })
}

/// What comes first: changes of headline results for the worse, the largest first, then other changes, then what is open.
fn consequence(row: &ComparedResult) -> f64 {
    let class = match row.finding {
        Finding::Worse => 6.0,
        Finding::Better => 4.0,
        Finding::Inconclusive => 2.0,
        Finding::Equivalent => 0.0,
    };
    let size = row.change.ln_1p().abs().min(9.0) / 10.0;
    class + f64::from(u8::from(row.headline)) + size
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::compact::Absent;
    use crate::results::quantity::DISTANCE;

    const RECORD: &[u8] = include_bytes!("../../records/guest-zen4-2cpu-quiet-hour/node.json");

    fn run(keep: impl Fn(&str) -> bool) -> PlacedRun {
        let mut run = Compact::parse(RECORD).unwrap();
        for metric in run.experiments.iter_mut().flat_map(|found| &mut found.metrics) {
            metric.figures.retain(|figure| keep(&figure.labels));
        }
        PlacedRun { place: "run".to_owned(), run }
    }

    #[test]
    fn small_pages_stand_in_where_the_base_has_no_huge_ones() {
        let (without, with) = ([run(|labels| !labels.contains("pages=huge"))], [run(|_| true)]);
        let found = compare(&without, &with, false).unwrap();
        let huge = |found: &Comparison| -> Vec<ComparedResult> {
            found.rows.iter().filter(|row| row.labels.get(PAGES) == Some("huge")).cloned().collect()
        };
        let rows = huge(&found);
        assert!(!rows.is_empty() && rows.iter().all(|row| row.phrase.ends_with("(base: 4 KiB pages)")), "{rows:?}");
        let level = |row: &&ComparedResult| row.labels.get("level") == Some("DRAM");
        assert!(rows.iter().find(level).unwrap().change < -0.05, "huge pages save translations");
        // Nothing stands in for a result that failed a check.
        let mut refused = run(|labels| !labels.contains("pages=huge"));
        for row in &rows {
            let experiment = refused.run.experiments.iter_mut().find(|found| found.id == row.experiment).unwrap();
            experiment.absent.push(Absent {
                name: row.metric.clone(),
                labels: row.labels.to_string(),
                reason: "G22: 7 faults".to_owned(),
                headline: true,
                refused: true,
            });
        }
        assert!(huge(&compare(&[refused], &with, false).unwrap()).is_empty());
        // Nothing stands in for a result that the new runs lack, or where neither side lacks one.
        assert!(huge(&compare(&with, &without, false).unwrap()).is_empty());
        assert!(huge(&compare(&with, &with, false).unwrap()).iter().all(|row| !row.phrase.contains("base:")));
    }

    #[test]
    fn a_run_that_saw_one_distance_is_compared_at_it() {
        let line = |labels: &str, value: f64| -> PlacedRun {
            let mut run = run(|_| true);
            for metric in run.run.experiments.iter_mut().flat_map(|found| &mut found.metrics) {
                let is_line = metric.name == "os.cache_line_transfer.time";
                let Some(one) = metric.figures.first().cloned() else { continue };
                metric.figures = labels
                    .split(',')
                    .filter(|_| is_line)
                    .map(|labels| CompactFigure {
                        labels: labels.trim().to_owned(),
                        value: if labels.contains("far") { 4.5 * value } else { value },
                        interval: [0.9 * value, 5.0 * value],
                        ..one.clone()
                    })
                    .collect();
            }
            run
        };
        let both = [line("distance=near placement=same_cache,distance=far placement=same_cache", 40.0)];
        let compared = |value: f64| {
            let only = [line("placement=same_cache", value)];
            let found = [compare(&only, &both, false), compare(&both, &only, false)];
            found.map(|found| {
                let rows = found.unwrap().rows;
                rows.iter().map(|row| row.labels.get(DISTANCE).unwrap_or("none").to_owned()).collect::<Vec<_>>()
            })
        };
        assert_eq!(compared(45.0), [["near"], ["near"]]);
        assert_eq!(compared(170.0), [["far"], ["far"]]);
        assert_eq!(compared(85.0), [[""; 0]; 2], "between both");
    }

    #[test]
    fn two_launches_that_agree_decide_nothing() {
        let with = |launches: u32, factor: f64| {
            let mut changed = run(|_| true);
            let metrics = changed.run.experiments.iter_mut().flat_map(|found| &mut found.metrics);
            for figure in metrics.flat_map(|metric| &mut metric.figures) {
                figure.launches = launches;
                figure.value *= factor;
                figure.cycles = figure.cycles.map(|cycles| factor * cycles);
                figure.interval = [0.999 * figure.value, 1.001 * figure.value];
            }
            [changed]
        };
        let enough = FEWEST_LAUNCHES as u32;
        let found = |launches: u32, factor: f64| compare(&with(enough, 1.0), &with(launches, factor), false).unwrap();
        let changed = found(enough, 2.0);
        assert!(changed.rows.iter().filter(|row| row.is_changed()).count() > 100, "{} rows", changed.rows.len());
        for factor in [1.0, 2.0] {
            let open = found(2, factor);
            assert_eq!(open.rows.len(), changed.rows.len());
            let undecided = |row: &ComparedResult| row.finding == Finding::Inconclusive;
            assert!(open.rows.iter().all(undecided), "{factor}");
            assert!(open.rows.iter().all(|row| row.launches_needed.is_none_or(|needed| needed >= enough.into())));
            assert!(open.rows.iter().any(|row| row.launches_needed.is_some()));
        }
        // Three runs of two launches have as many as one run needs.
        let thrice = |factor: f64| [(); 3].map(|()| with(2, factor)).concat();
        assert!(compare(&thrice(1.0), &thrice(2.0), false).unwrap().rows.iter().any(ComparedResult::is_changed));
    }

    #[test]
    fn rounds_of_runs_without_intervals_are_compared() {
        // Two launches have no interval.
        let brief = || {
            let mut brief = run(|_| true);
            let metrics = brief.run.experiments.iter_mut().flat_map(|found| &mut found.metrics);
            metrics.flat_map(|metric| &mut metric.figures).for_each(|figure| figure.level = Some(0.0));
            brief
        };
        let rounds = [(); LEAST_ROUNDS].map(|()| brief());
        let found = compared(&rounds, &rounds, Design::Rounds, false);
        let lacks = |left_out: &&NotCompared| left_out.reason.contains("round");
        assert!(found.rows.len() > 100, "{}: {:?}", found.rows.len(), found.not_compared.iter().find(lacks));
    }

    #[test]
    fn a_distance_of_one_round_is_a_reason() {
        let rounds = [(); LEAST_ROUNDS].map(|()| run(|_| true));
        let mut moved = rounds.clone();
        let metrics = moved[1].run.experiments.iter_mut().flat_map(|found| &mut found.metrics);
        for figure in metrics.flat_map(|metric| &mut metric.figures) {
            figure.labels = figure.labels.replace("distance=near", "distance=core");
        }
        let found = compared(&rounds, &moved, Design::Rounds, false).not_compared;
        let why = "missing in the base, because the two CPUs were on one core only in round 2 of the new runs";
        assert!(found.iter().any(|left_out| left_out.reason == why), "{found:?}");
    }

    #[test]
    fn a_result_that_is_contaminated_on_one_side_only_is_not_compared() {
        let graded = |(trust, grade): (Trust, Grade)| {
            let mut changed = run(|_| true);
            let metrics = changed.run.experiments.iter_mut().flat_map(|found| &mut found.metrics);
            for figure in metrics.flat_map(|metric| &mut metric.figures) {
                (figure.trust, figure.grade) = (trust, grade);
            }
            changed
        };
        let rounds = |of: (Trust, Grade)| [(); LEAST_ROUNDS].map(|()| graded(of));
        let rows = |base, new| compared(&rounds(base), &rounds(new), Design::Rounds, false).rows.len();
        let [clean, noisy] = [(Trust::Clean, Grade::Good), (Trust::Noisy, Grade::Rough)];
        let [disturbed, contaminated] =
            [Grade::Disturbed, Grade::Contaminated].map(|grade| (Trust::Contaminated, grade));
        assert!(rows(contaminated, contaminated) > 100 && rows(disturbed, disturbed) > 100);
        for (base, new) in [(clean, contaminated), (contaminated, noisy), (disturbed, clean)] {
            assert_eq!((rows(base, new), rows(new, base)), (0, 0));
        }
        // One was measured without a neighbour, the other with one.
        assert_eq!((rows(disturbed, contaminated), rows(contaminated, disturbed)), (0, 0));
    }

    #[test]
    fn a_faster_clock_makes_no_change_of_what_costs_as_many_cycles() {
        let (base, mut new) = (run(|_| true), run(|_| true));
        let metrics = new.run.experiments.iter_mut().flat_map(|found| &mut found.metrics);
        let figures = metrics.filter(|metric| metric.unit == Unit::Nanoseconds).flat_map(|metric| &mut metric.figures);
        for figure in figures.filter(|figure| figure.cycles.is_some()) {
            figure.value *= 0.8;
            figure.interval = figure.interval.map(|end| end * 0.8);
        }
        let (base, new) = ([base], [new]);
        let call = |found: Comparison| -> f64 {
            let row = found.rows.into_iter().find(|row| row.labels.get("call") == Some("getppid"));
            row.unwrap().change
        };
        let found = compared(&base, &new, Design::Apart, false);
        let [before, after] = found.core_hz.unwrap();
        assert!((after / before - 1.25).abs() < 1e-9, "{before} {after}");
        assert!(call(found).abs() < 1e-4, "six digits of the cycles are stored");
        let across = compared(&base, &new, Design::Apart, true);
        assert_eq!(across.core_hz, None);
        assert!((call(across) + 0.2).abs() < 1e-4);
    }
}
