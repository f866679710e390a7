//! How far apart two CPUs are that work together: by the time that a cache line takes between them, right before and right after
//! each batch, and by what the work of one does to the core of the other. A host moves virtual CPUs, so the same two sit on one core
//! now, under one last cache a moment later, and then under two.

use std::collections::BTreeMap;

use crate::results::log::Launch;
use crate::results::quantity::{DISTANCE, Labels};
use crate::results::series::{Classes, Series};
use crate::statistics::modes::modes;
use crate::statistics::summary::logarithms;

use super::study::Study;
use crate::neighbour::CoreState;
use crate::neighbour::batches::LoopTurn;

/// A line takes this many times as long between CPUs that are far apart, at least: within one cache it varies by a fifth.
const FAR_OVER_NEAR: f64 = 2.0;

/// Share of the looks that either kind must have: below it are moves that a look met in the middle.
const LEAST_SHARE: f64 = 0.05;

/// How far a look may be from the middle of its kind.
const SCATTER: f64 = 1.4;

/// End of the name of a series of looks right before and right after all batches of another one.
pub const LINES: &str = ".lines";

/// Value of the label for CPUs on one core.
pub const CORE: &str = "core";

/// Value of the label for CPUs under one last cache.
pub const NEAR: &str = "near";

/// Value of the label for CPUs that are further apart.
pub const FAR: &str = "far";

/// Where two CPUs sit to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Distance {
    Core,
    Near,
    Far,
}

impl Distance {
    const ALL: [Distance; 3] = [Distance::Core, Distance::Near, Distance::Far];

    fn name(self) -> &'static str {
        match self {
            Distance::Core => CORE,
            Distance::Near => NEAR,
            Distance::Far => FAR,
        }
    }
}

/// Both kinds of looks that a pair of CPUs gave: nanoseconds of a line's way.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Distances {
    near: f64,
    far: f64,
}

impl Distances {
    /// Of all looks at one pair of CPUs; none where they are of one kind.
    fn of(looks: &[f64]) -> Option<Distances> {
        let found = modes(&logarithms(looks)?)?;
        let (near, far) = (found.lower.exp(), found.upper.exp());
        let both = (LEAST_SHARE..=1.0 - LEAST_SHARE).contains(&found.upper_share);
        (both && found.dip > found.critical && far >= FAR_OVER_NEAR * near).then_some(Distances { near, far })
    }

    /// What the looks before and after a batch say; none where they differ or lie between the kinds.
    fn class(self, looks: [f64; 2]) -> Option<Distance> {
        let one = |look: f64| {
            let is_of = |middle: f64| look > 0.0 && (look / middle).max(middle / look) <= SCATTER;
            if is_of(self.near) {
                Some(Distance::Near)
            } else if is_of(self.far) {
                Some(Distance::Far)
            } else {
                None
            }
        };
        one(looks[0]).filter(|first| one(looks[1]) == Some(*first))
    }
}

/// The pair of CPUs that a series is about: the measured one and another, which its placement names.
fn pair(series: &Series) -> &str {
    series.labels.get("placement").unwrap_or_default()
}

/// Whether both CPUs of a batch were on one core: the core was shared while the partner answered, and alone otherwise. None where
/// the looks do not show it.
fn on_one_core(turn: Option<LoopTurn>, series: &Series, index: usize) -> Option<bool> {
    let state = |widths: &[[f64; 2]]| Some(turn?.state(*widths.get(index)?));
    match (state(&series.beside_partner)?, state(&series.widths)?) {
        (CoreState::Alone, _) => Some(false),
        (CoreState::Shared, CoreState::Alone) => Some(true),
        _ => None,
    }
}

/// What distinguishes the batches of a pair of CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Told {
    distances: Option<Distances>,
    /// Whether the CPUs were on one core now and then.
    on_core: bool,
}

impl Told {
    /// Of all batches of a pair.
    fn of(turn: Option<LoopTurn>, series: &[&Series]) -> Told {
        let looks = series.iter().flat_map(|series| &series.lines).flatten().copied().filter(|&look| look > 0.0);
        let looks: Vec<f64> = looks.collect();
        let batches = series.iter().flat_map(|series| (0..series.values.len()).map(move |index| (*series, index)));
        let told: Vec<bool> = batches.filter_map(|(series, index)| on_one_core(turn, series, index)).collect();
        let on_core = told.iter().filter(|on_core| **on_core).count() as f64;
        Told {
            distances: Distances::of(&looks),
            on_core: !told.is_empty() && on_core >= LEAST_SHARE * told.len() as f64,
        }
    }

    fn tells(self) -> bool {
        self.on_core || self.distances.is_some()
    }

    /// Where both CPUs of a batch were; none where its looks differ or lie between the kinds.
    fn class(self, turn: Option<LoopTurn>, series: &Series, index: usize) -> Option<Distance> {
        if self.on_core && on_one_core(turn, series, index)? {
            return Some(Distance::Core);
        }
        let looks = series.lines.get(index)?;
        self.distances.map_or(Some(Distance::Near), |distances| distances.class(*looks))
    }
}

/// A launch in which looks around all batches of a series, recorded as a separate series, stand next to each batch.
fn with_lines(launch: &Launch) -> Launch {
    let mut launch = launch.clone();
    let looks = |of: &Series| {
        let is_it = |series: &&Series| series.name.strip_suffix(LINES) == Some(&of.name) && series.labels == of.labels;
        let found = launch.series.iter().find(is_it)?;
        found.values[..].try_into().ok()
    };
    let lines: Vec<Option<[f64; 2]>> = launch.series.iter().map(looks).collect();
    for (series, lines) in launch.series.iter_mut().zip(lines) {
        series.lines.extend(lines.into_iter().flat_map(|lines| vec![lines; series.values.len()]));
    }
    launch.series.retain(|series| !series.name.ends_with(LINES));
    launch
}

/// The launches of an experiment. A series whose batches had CPUs at several distances becomes one series for each distance, with a
/// label that names it. Batches during which a CPU moved are left out. None if no series has several distances.
pub fn told_apart(launches: &[Launch], experiment: &str) -> Option<Vec<Launch>> {
    let own = || launches.iter().filter(|launch| launch.experiment == experiment && launch.succeeded());
    if own().flat_map(|launch| &launch.series).any(|series| series.name.ends_with(LINES)) {
        return told_apart(&own().map(with_lines).collect::<Vec<Launch>>(), experiment);
    }
    let all = || own().flat_map(|launch| &launch.series);
    let turn = LoopTurn::of(all());
    let mut pairs: BTreeMap<&str, Vec<&Series>> = BTreeMap::new();
    for series in all().filter(|series| !series.lines.is_empty()) {
        pairs.entry(pair(series)).or_default().push(series);
    }
    let told: BTreeMap<&str, Told> = pairs
        .into_iter()
        .map(|(pair, series)| (pair, Told::of(turn, &series)))
        .filter(|(_, told)| told.tells())
        .collect();
    if told.is_empty() {
        return None;
    }
    let split = |launch: &Launch| {
        let mut launch = launch.clone();
        let apart = |series: Series| match told.get(pair(&series)) {
            Some(told) if !series.lines.is_empty() => {
                let of = |class| only(&series, class, |index| told.class(turn, &series, index));
                Distance::ALL.map(of).into_iter().collect()
            }
            _ => vec![series],
        };
        launch.series = launch.series.into_iter().flat_map(apart).filter(|series| !series.values.is_empty()).collect();
        launch
    };
    Some(own().map(split).collect())
}

/// What stands at some places.
fn those<T: Clone>(kept: &[usize], of: &[T]) -> Vec<T> {
    kept.iter().filter_map(|&index| of.get(index).cloned()).collect()
}

/// The batches of one class.
fn only(series: &Series, class: Distance, class_of: impl Fn(usize) -> Option<Distance>) -> Series {
    let kept: Vec<usize> = (0..series.values.len()).filter(|&index| class_of(index) == Some(class)).collect();
    Series {
        labels: series.labels.clone().with(DISTANCE, class.name()),
        values: those(&kept, &series.values),
        clock: those(&kept, &series.clock),
        widths: those(&kept, &series.widths),
        lines: those(&kept, &series.lines),
        partner_widths: those(&kept, &series.partner_widths),
        beside_partner: those(&kept, &series.beside_partner),
        classes: Classes(those(&kept, &series.classes.0)),
        ..series.clone()
    }
}

impl Study<'_> {
    /// The labels under which a series is found: its own, or one for each distance where they are distinguished, the usual one first.
    pub fn by_distance(&self, name: &str, labels: &Labels) -> Vec<Labels> {
        let usual = self.usual_distance();
        let mut classes = Distance::ALL;
        classes.sort_by_key(|class| class.name() != usual);
        let apart = classes.map(|class| labels.clone().with(DISTANCE, class.name()));
        let found: Vec<Labels> =
            apart.into_iter().filter(|labels| !self.numbered_series(name, labels).is_empty()).collect();
        if found.is_empty() { vec![labels.clone()] } else { found }
    }

    /// Whether figures with these labels hold for where the CPUs usually were. A state that hardly occurred stands next to them.
    pub fn is_usual(&self, labels: &Labels) -> bool {
        labels.get(DISTANCE).is_none_or(|distance| distance == self.usual_distance())
    }

    /// The distance of most batches that were distinguished.
    fn usual_distance(&self) -> &'static str {
        let batches = |class: Distance| -> usize {
            let series = self.launches.iter().flat_map(|launch| &launch.series);
            let of = series.filter(|series| series.labels.get(DISTANCE) == Some(class.name()));
            of.map(|series| series.values.len()).sum()
        };
        // Of equals the nearer one between two cores.
        let classes = [Distance::Core, Distance::Far, Distance::Near];
        classes.into_iter().max_by_key(|class| batches(*class)).map_or(NEAR, Distance::name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::quantity::Unit;

    fn scattered(random: &mut fastrand::Rng, middle: f64) -> f64 {
        middle * (0.95 + 0.1 * random.f64())
    }

    fn looks(count: usize, far: usize) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(7);
        (0..count).map(|index| scattered(&mut random, if index < far { 160.0 } else { 28.0 })).collect()
    }

    #[test]
    fn two_kinds_of_looks_are_told_apart_and_one_is_not() {
        let found = Distances::of(&looks(200, 60)).unwrap();
        assert!((26.0..30.0).contains(&found.near) && (150.0..170.0).contains(&found.far), "{found:?}");
        assert_eq!(Distances::of(&looks(200, 0)), None);
        assert_eq!(Distances::of(&looks(200, 4)), None, "a few looks met a move");
        assert_eq!(found.class([27.0, 29.0]), Some(Distance::Near));
        assert_eq!(found.class([155.0, 170.0]), Some(Distance::Far));
        assert_eq!(found.class([27.0, 170.0]), None);
        assert_eq!(found.class([80.0, 80.0]), None);
        assert_eq!(found.class([0.0, 28.0]), None);
    }

    #[test]
    fn a_series_keeps_only_the_batches_of_its_class() {
        let found = Distances::of(&looks(200, 60)).unwrap();
        let mut series =
            Series::plain("hop", Labels::of([("placement", "same_cache")]), Unit::Ticks, vec![1.0, 5.0, 2.0, 9.0]);
        series.lines = vec![[28.0, 28.0], [160.0, 160.0], [27.0, 28.5], [28.0, 160.0]];
        series.classes = Classes(vec![crate::results::series::Class::Clean; 4]);
        let told = Told { distances: Some(found), on_core: false };
        let of = |class| only(&series, class, |index| told.class(None, &series, index));
        let near = of(Distance::Near);
        assert_eq!((near.values, near.classes.0.len()), (vec![1.0, 2.0], 2));
        assert_eq!(near.labels.get(DISTANCE), Some("near"));
        assert_eq!(of(Distance::Far).values, [5.0]);
        assert!(of(Distance::Core).values.is_empty());
    }

    #[test]
    fn cpus_are_on_one_core_where_only_the_partner_lengthens_a_turn() {
        let mut series =
            Series::plain("hop", Labels::of([("placement", "same_cache")]), Unit::Ticks, vec![1.0, 2.0, 3.0, 4.0, 5.0]);
        series.lines = vec![[29.0, 29.0], [42.0, 43.0], [42.0, 42.0], [29.0, 42.0], [41.0, 42.0]];
        series.widths = vec![[1.0, 1.0], [1.0, 1.0], [1.9, 1.9], [1.0, 1.0], [1.8, 1.0]];
        series.beside_partner = vec![[1.9, 1.8], [1.01, 1.0], [1.9, 1.9], [1.9, 1.0], [1.0, 1.01]];
        let turn = LoopTurn::of([&series].into_iter());
        let found: Vec<Option<bool>> = (0..5).map(|index| on_one_core(turn, &series, index)).collect();
        // With another process on the core, and where a CPU moved, nothing is known.
        assert_eq!(found, [Some(true), Some(false), None, None, Some(false)]);
        let told = Told::of(turn, &[&series]);
        assert_eq!(told, Told { distances: None, on_core: true });
        let of = |class| only(&series, class, |index| told.class(turn, &series, index)).values;
        assert_eq!(Distance::ALL.map(of), [vec![1.0], vec![2.0, 5.0], vec![]]);
        // A log without looks shows nothing.
        series.beside_partner = Vec::new();
        assert!(!Told::of(turn, &[&series]).tells());
    }
}
