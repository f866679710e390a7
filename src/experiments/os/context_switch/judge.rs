//! Which figures handoffs, rings and lines give, and what must hold of them.

use super::{BETWEEN, PLACED, Pairing, RINGS, SAME, THROUGH, WORKING_SETS, line_labels, pairings, ring_labels};
use crate::evaluate::sample::Sample;
use crate::experiments::os::system_call::paid;
use crate::experiments::prelude::*;
use crate::results::quantity::{CoreCycles, DISTANCE};
use std::collections::BTreeMap;

/// No kernel wakes and switches in fewer core cycles.
pub(super) const LEAST_NET: f64 = 300.0;

/// How far the two halves of a round trip may differ.
pub(super) const ASYMMETRY: f64 = 0.2;

/// Least time in nanoseconds: the sibling threads of one core share its first cache, a few cycles away.
pub(super) const LEAST_LINE: f64 = 1.5;

/// Of what one CPU does by itself. In two times ten quick runs on a Zen 4 guest, with a neighbour during 12 to 53 % and 25 to 69 %, the
/// coefficient of variation of its results is 0.4 and 0.6 % in the median, and 1.8 % at most. Machines with other caches vary more.
const ON_ONE_CPU: Precision = Precision { target: 0.05, between: 0.02, busy: 0.03 };

pub(super) fn figures(study: &Study<'_>, findings: &mut Findings) {
    let places = study.setup.places();
    for through in &THROUGH[..2] {
        if let Some(estimate) =
            passage_of_own(study, BETWEEN[0], through).as_ref().and_then(|sample| estimate(study, sample))
        {
            let name = format!("os.context_switch.{through}_overhead");
            findings.publish(study, Figure::batches(&name, Labels::none(), &estimate).of_class(ON_ONE_CPU));
        }
    }
    for pairing in pairings(places.iter().map(|place| place.placement.as_str())) {
        publish_hop(study, findings, &pairing);
    }
    for place in &places {
        publish_line(study, findings, &place.placement);
    }
    findings.curves.extend(curves(study).0);
}

/// The token through a passage of one's own, in a process like those that hand it to each other.
fn passage_of_own(study: &Study<'_>, between: &str, through: &str) -> Option<Sample> {
    let labels = Labels::of([("through", through)]);
    let labels = if is_drawn(study) { labels.with("between", between) } else { labels };
    Some(drawn(study, study.sample("own", &labels)?))
}

/// Whether each batch has a separate placement.
fn is_drawn(study: &Study<'_>) -> bool {
    study.method_version >= PLACED
}

/// A sample whose batches are draws, where they are.
fn drawn(study: &Study<'_>, sample: Sample) -> Sample {
    if is_drawn(study) { sample.by_median() } else { sample }
}

fn estimate(study: &Study<'_>, sample: &Sample) -> Option<Estimate> {
    if is_drawn(study) { Estimate::of_draws(sample) } else { Estimate::undisturbed(sample) }
}

pub(super) fn publish_hop(study: &Study<'_>, findings: &mut Findings, pairing: &Pairing) {
    for labels in study.by_distance("hop", &pairing.labels()) {
        publish_hop_at(study, findings, pairing, labels);
    }
}

fn publish_hop_at(study: &Study<'_>, findings: &mut Findings, pairing: &Pairing, labels: Labels) {
    // Between CPUs it is the other CPU that decides, and not where the code stands.
    let on_one = pairing.placement == SAME;
    let Some(sample) = study.sample("hop", &labels) else { return };
    let sample = if on_one { drawn(study, sample) } else { sample };
    let gross = if on_one { estimate(study, &sample) } else { Estimate::undisturbed(&sample) };
    let Some(gross) = gross else { return };
    let mut own = vec![proof(study, &pairing.labels(), &gross)];
    own.extend(two_calls(study, &gross, pairing));
    own.extend(symmetry(study, pairing));
    let mut figure = Figure::batches("os.context_switch.time", labels.clone(), &gross).gates(own);
    if pairing.placement == SAME {
        figure = figure.of_class(ON_ONE_CPU);
    }
    findings.publish(study, figure);
    if !pairing.has_net() {
        return;
    }
    let passage = passage_of_own(study, pairing.between, pairing.through);
    let net = passage.and_then(|passage| Estimate::net_of(&sample, &passage, |sample| estimate(study, sample)));
    if let Some(net) = net {
        let mut own = vec![proof(study, &pairing.labels(), &gross), gates::net_resolved(&net, gross.value)];
        if net.unit == Unit::Cycles {
            own.push(gates::floor(&NET_FLOOR, &net, LEAST_NET).because("no kernel switches tasks faster"));
        }
        let figure = Figure::batches("os.context_switch.net", labels, &net).of_gross(gross.value).gates(own);
        // Only one CPU has a net cost.
        findings.publish(study, figure.of_class(ON_ONE_CPU));
    }
}

rules! {
    TWO_CALLS: "G8" Hard "`os.context_switch.time` on one CPU", "a handoff takes at least two system calls";
    NET_FLOOR: "G8" Hard "`os.context_switch.net`", "a net switch takes at least {}", cycles(LEAST_NET);
    LINE_FLOOR: "G8" Hard "`os.cache_line_transfer.time`", "at least {}", time(LEAST_LINE);
    LINE_FASTER: "G20" Hard "`os.cache_line_transfer.time`",
        "the transfer of a cache line is faster than the wake-up of a task on that CPU";
    SWITCHES: "G25" Hard "`os.context_switch`",
        "the kernel counts one switch, voluntary or involuntary, for every handoff within 1 %, no page fault, and \
         every task on the CPU of the label";
    SYMMETRY: "halves" Noisy "`os.context_switch.time` on one CPU",
        "the token takes equally long in both directions, within {} and two system calls", share(ASYMMETRY);
}

/// G25: every handoff is a switch that the kernel counted, every task on the CPU of the label.
pub(super) fn proof(study: &Study<'_>, labels: &Labels, gross: &Estimate) -> Gate {
    let wrong = gross.account.wrong;
    let why =
        study.remarks(&format!("wrong.hop {labels}")).first().map_or_else(String::new, |reason| format!(": {reason}"));
    Gate::holds(
        &SWITCHES,
        wrong == 0,
        if wrong == 0 {
            "the kernel counted one switch for every handoff, on the CPUs of the label".to_owned()
        } else {
            format!("in {wrong} of {} batches the switches did not match the handoffs{why}", gross.account.taken)
        },
    )
}

/// G8: a handoff contains two system calls.
pub(super) fn two_calls(study: &Study<'_>, gross: &Estimate, pairing: &Pairing) -> Option<Gate> {
    let floor = paid(study.known, "getppid")?;
    let cycles = floor.cycles.filter(|_| gross.unit == Unit::Cycles);
    (pairing.placement == SAME)
        .then(|| gates::floor(&TWO_CALLS, gross, 2.0 * cycles.unwrap_or(floor.value)).because("two system calls"))
}

/// The token takes as long there as back: otherwise something else is in one half. Where the woken task preempts its waker in one
/// direction only, the other has the waker's call that waits: a system call that goes to sleep, which takes as long as two that do not.
pub(super) fn symmetry(study: &Study<'_>, pairing: &Pairing) -> Option<Gate> {
    let half = |direction: &str| {
        let values = study.values("half", &pairing.labels().with("direction", direction));
        crate::statistics::summary::median(&values)
    };
    let (there, back) = (half("there")?, half("back")?);
    let call = paid(study.known, "getppid");
    let waiting = 2.0 * call.map_or(0.0, |call| call.value);
    let difference = (study.nanoseconds((there - back).abs()) - waiting).max(0.0);
    let share = difference / study.nanoseconds(f64::midpoint(there, back));
    let measured = Number::share(share).named("the two directions differ by two system calls and {}");
    Some(Gate::at_most(&SYMMETRY, measured, ASYMMETRY))
}

pub(super) fn publish_line(study: &Study<'_>, findings: &mut Findings, placement: &str) {
    let wake_up =
        Pairing { between: "threads", through: "futex", placement: placement.to_owned(), target: Some("idle") };
    for labels in study.by_distance("line", &line_labels(placement)) {
        let Some(estimate) = study.sample("line", &labels).as_ref().and_then(Estimate::undisturbed) else { continue };
        let mut own = vec![
            gates::floor_in_time(&LINE_FLOOR, study, &estimate, LEAST_LINE)
                .because("no two cores exchange a line faster"),
        ];
        let distance = labels.get(DISTANCE);
        let there = distance.map_or(wake_up.labels(), |distance| wake_up.labels().with(DISTANCE, distance));
        if let Some(wake_up) = study.sample("hop", &there).as_ref().and_then(Estimate::undisturbed) {
            own.push(Gate::at_most(&LINE_FASTER, estimate.named("{}"), wake_up.value).because("a wake-up on that CPU"));
        }
        let mut figure = Figure::batches("os.cache_line_transfer.time", labels, &estimate).gates(own);
        if study.setup.machine.is_guest() {
            figure = figure.of_class(Precision::OF_PLACES);
        }
        findings.publish(study, figure);
    }
}

/// One curve for each ring: what a handoff costs above the pipe and the same sum in a warm cache, over working sets. And how many
/// points are below the switch without data. All are published where they can be scatter: those that scatter upwards alone would make
/// the curve too high. A curve with a point of less than half of that in each launch is impossible, and is left out.
pub(super) fn curves(study: &Study<'_>) -> (Vec<Curve>, usize) {
    let (mut curves, mut below) = (Vec::new(), 0);
    for &members in &RINGS {
        let points: Vec<[f64; 4]> = WORKING_SETS.iter().filter_map(|&bytes| point(study, members, bytes)).collect();
        let Some(bare) = points.first().filter(|first| first[0] == 0.0).copied() else { continue };
        below += points.iter().filter(|point| point[1] < bare[1]).count();
        if points.iter().any(|point| point[3] < 0.5 * bare[2]) {
            continue;
        }
        curves.push(Curve {
            name: "os.context_switch.by_working_set".to_owned(),
            labels: Labels::none().with("processes", members),
            words: BTreeMap::new(),
            x: Axis { label: "working set of each process".to_owned(), unit: Unit::Bytes },
            y: Axis { label: "switch, with refill of the caches".to_owned(), unit: Unit::Nanoseconds },
            points,
        });
    }
    (curves, below)
}

/// The difference of handoff and own cost within each launch, and its range over launches. Nothing is below the floor of a switch.
fn point(study: &Study<'_>, members: usize, bytes: usize) -> Option<[f64; 4]> {
    let hops = study.sample("hop", &ring_labels(members, bytes))?;
    let alone = study.sample("own", &ring_labels(1, bytes))?;
    if hops.is_beside_a_neighbour() != alone.is_beside_a_neighbour() {
        return None;
    }
    let (hops, alone) = (hops.shared_with(&alone), alone.shared_with(&hops));
    let nanoseconds = |cycles: f64| study.core.map_or(cycles, |core| CoreCycles(cycles).at(core).0);
    let scale = if hops.unit == Unit::Cycles { nanoseconds(1.0) } else { 1.0 };
    let floor = nanoseconds(LEAST_NET);
    let costs: Vec<f64> =
        hops.estimates().iter().zip(alone.estimates()).map(|(hop, alone)| ((hop - alone) * scale).max(floor)).collect();
    let low = costs.iter().copied().reduce(f64::min)?;
    let high = costs.iter().copied().reduce(f64::max)?;
    Some([bytes as f64, median(&costs)?, low, high])
}
