//! What a user who runs programs on this machine should know. These are comparisons of figures, each only where the intervals
//! support it. Each has the reason that a fact of the machine gives, and what to do.

mod table;

use crate::experiments::prelude::*;
use crate::results::document::{Grade, Highlight, HighlightKind, Section};
use crate::results::expectation::{Expectation, Ground};
use crate::results::ratio::{Order, against_prediction, scaled};
use crate::results::verdict::AgainstPrediction;
use crate::results::wording::{capital, times};

use super::consistency::{Evaluated, Operand};
use super::figure_name::FigureName;
use super::models::primitives::KERNEL_ENTRY;
use super::os::system_call::mitigations;

/// Most misses of predictions among the insights.
const SURPRISES: usize = 2;

/// A sentence with its weight: about the logarithm of what it costs relative to what people expect.
pub type Weighted = (f64, Highlight);

/// The figures of a run and the machine that they are of.
struct Found<'a> {
    sections: &'a [Section],
    metrics: Vec<&'a Metric>,
    machine: &'a Machine,
    cpu: u32,
    expectations: &'a [Expectation],
}

/// A smaller change of a cost makes no insight.
const NOTABLE: f64 = 1.1;
/// A ratio of two costs within this factor of that of other machines is ordinary for the kind.
const ORDINARY: f64 = 1.25;
/// What is ordinary has this part of its weight: what is special about a machine comes first.
const ORDINARY_WEIGHT: f64 = 0.3;

/// A part of a reason or of advice.
#[derive(Clone, Copy)]
enum Clause {
    Always(&'static str),
    Guest(&'static str),
    NoGuest(&'static str),
    When(fn(&Machine) -> bool, &'static str),
    /// Where these figures are settled. They stand in it by their places, as `{0}`.
    With(&'static str, &'static [FigureName]),
    By(fn(&Found<'_>) -> Option<String>),
}
use Clause::{Always, By, Guest, NoGuest, When, With};

/// A comparison that is stated where its ratio is not the usual one.
struct Insight {
    /// What is compared, the first over the second, and what else its sentence names.
    of: &'static [Operand],
    /// A ratio that needs no statement.
    usual: f64,
    /// It is stated at the usual ratio too.
    always: bool,
    /// Its weight, and by how much the logarithm of the ratio beyond the usual adds to that.
    weight: [f64; 2],
    /// The operands stand in it by their places, as `{0}`, and the ratio as `{ratio}`.
    text: &'static str,
    why: &'static [Clause],
    advice: &'static [Clause],
    /// The costs by which the ratio of its last two operands is known of other machines.
    kind: Option<[&'static str; 2]>,
    /// Only where the row before it is not stated.
    otherwise: bool,
}

const BATCHED_CALL: FigureName = FigureName::of("os.system_call.time call=io_uring_nop_batched");
const MEMORY_READS: FigureName = FigureName::of("memory.bandwidth.rate level=DRAM operation=read");
const MEMORY_READ: FigureName = FigureName::of("memory.bandwidth.rate level=DRAM operation=read threads=1");
const WRITES: FigureName =
    FigureName::of("network.bandwidth.rate direction=send path=loopback placement=other_cpu streams=1 ip=4");
const CACHE_SIZE: FigureName = FigureName::of("memory.latency.level_size");
const OWN_CPU: FigureName = FigureName::of("cpu.sharing.share beside=own_cpu state=shared");

const ROW: Insight = Insight {
    of: &[],
    usual: 1.0,
    always: false,
    weight: [0.0, 1.0],
    text: "",
    why: &[],
    advice: &[],
    kind: None,
    otherwise: false,
};

/// The logarithm of a ratio beyond what is usual.
fn weight(ratio: &Ratio, usual: f64) -> f64 {
    (ratio.least / usual).ln().max(0.0)
}

/// Whether an insight can rest on a result.
fn is_settled(metric: &Metric) -> bool {
    matches!(metric.grade, Grade::Good | Grade::Rough)
}

/// A sentence with values at their places.
fn fill(text: &str, values: impl IntoIterator<Item = Shown>) -> String {
    let numbered = values.into_iter().enumerate();
    numbered.fold(text.to_owned(), |text, (place, value)| text.replace(&format!("{{{place}}}"), &value.to_string()))
}

/// The figure of an operand with its factor.
fn whole(part: &Evaluated<'_>) -> Option<Metric> {
    part.figure.map(|figure| scaled(figure, part.value / figure.value))
}

/// The first over the second.
fn ratio(large: &Evaluated<'_>, small: &Evaluated<'_>, at_least: f64) -> Option<Ratio> {
    match (whole(large), whole(small)) {
        (Some(large), Some(small)) => Ratio::of(&large, &small, at_least),
        _ => Ratio::between((large.value, large.interval), (small.value, small.interval), at_least),
    }
}

impl<'a> Found<'a> {
    /// A result that is settled: an insight rests on no other.
    fn settled(&self, wanted: FigureName) -> Option<&'a Metric> {
        wanted.find(self.metrics.iter().copied()).filter(|metric| is_settled(metric))
    }

    fn all_settled(&self) -> impl Iterator<Item = &'a Metric> {
        self.metrics.iter().copied().filter(|metric| is_settled(metric))
    }

    /// Settled results by the number that a label has.
    fn by_number(&self, wanted: FigureName, label: &str) -> Vec<(u32, &'a Metric)> {
        let number = |metric: &Metric| metric.labels.get(label)?.parse().ok();
        let found = self.all_settled().filter(|metric| wanted.is(&metric.name, &metric.labels));
        found.filter_map(|metric| Some((number(metric)?, metric))).collect()
    }

    /// The words of clauses that hold here.
    fn words(&self, clauses: &[Clause]) -> String {
        let text = |clause: &Clause| match *clause {
            Always(text) => Some(text.to_owned()),
            Guest(text) => self.machine.is_guest().then(|| text.to_owned()),
            NoGuest(text) => (!self.machine.is_guest()).then(|| text.to_owned()),
            When(holds, text) => holds(self.machine).then(|| text.to_owned()),
            With(text, of) => {
                let values: Option<Vec<Shown>> = of.iter().map(|of| self.settled(*of).map(Metric::shown)).collect();
                Some(fill(text, values?))
            }
            By(of) => of(self),
        };
        clauses.iter().filter_map(text).collect()
    }

    /// A sentence on a figure.
    fn say(&self, weight: f64, of: &Metric, text: String, why: String, advice: String) -> Weighted {
        let section =
            self.sections.iter().find(|section| section.metrics.iter().any(|metric| std::ptr::eq(metric, of)));
        let section = section.map_or_else(String::new, |section| section.id.clone());
        let kind = HighlightKind::Bottleneck;
        (weight, Highlight { kind, text, section, why: Some(why), advice: Some(advice) })
    }

    /// What a row says of this run.
    fn stated(&self, row: &Insight) -> Option<Weighted> {
        let of = |operand: &Operand| operand.evaluate(&self.metrics, self.machine).ok();
        let parts = row.of.iter().map(of).collect::<Option<Vec<Evaluated<'_>>>>()?;
        let [large, small, rest @ ..] = &parts[..] else { return None };
        let found = ratio(large, small, if row.always { 1.0 } else { row.usual })?;
        if !parts.iter().filter_map(|part| part.figure).all(is_settled) {
            return None;
        }
        let shown = |part| whole(part).map_or_else(|| Shown::of(0.0, Unit::One), |figure| figure.shown());
        let text = fill(&row.text.replace("{ratio}", &found.text()), parts.iter().map(shown));
        let weight = row.weight[0] + row.weight[1] * weight(&found, row.usual);
        let stated =
            self.say(weight, large.figure.or(small.figure)?, text, self.words(row.why), self.words(row.advice));
        let Some(costs) = row.kind else { return Some(stated) };
        let of_costs = if let [large, small] = rest { large.value / small.value } else { found.value };
        Some(self.for_its_kind(costs, of_costs, stated))
    }

    /// The ratio of two costs on machines of this kind, and these machines; none where they are not known.
    fn of_kind(&self, [over, under]: [&str; 2]) -> Option<(f64, &'a str)> {
        let of = |cost: &str| {
            let is = |found: &&Expectation| found.ground == Ground::Kind && found.cost == cost;
            self.expectations.iter().find(is)
        };
        let (over, under) = (of(over)?, of(under)?);
        (over.unit == under.unit).then(|| (over.value / under.value, over.machines.as_str()))
    }

    /// An insight about the ratio of two costs: lighter where other machines of the kind have the same, which its reason then says.
    fn for_its_kind(&self, costs: [&str; 2], ratio: f64, (weight, mut found): Weighted) -> Weighted {
        let Some((usual, machines)) = self.of_kind(costs) else { return (weight, found) };
        let is_ordinary = (ratio / usual).ln().abs() <= ORDINARY.ln();
        if let Some(why) = &mut found.why {
            *why += &format!(" Machines of the kind ({machines}) have a ratio of {}.", times(usual));
        }
        (if is_ordinary { ORDINARY_WEIGHT * weight } else { weight + (ratio / usual).ln().abs() }, found)
    }

    /// A kernel entry that is slower than its prediction, with the mitigations that are in force.
    fn entry(&self) -> Option<Weighted> {
        let call = self.settled(KERNEL_ENTRY)?;
        let predicted =
            call.prediction.as_ref().filter(|found| call.interval95[0] > found.high && found.value > 0.0)?;
        let cycles = call.cycles_shown().map_or_else(String::new, |cycles| format!(" ({cycles} cycles)"));
        let over = times(call.value / predicted.value);
        let text = format!("An empty system call takes {}{cycles}, {over} times the prediction.", call.shown());
        let mitigations = mitigations(self.machine);
        let why = if mitigations.is_empty() {
            "The kernel reports no mitigation in force, so the cause is elsewhere.".to_owned()
        } else {
            format!("Mitigations in force add work at each kernel entry: {}.", mitigations.join(", "))
        };
        let batched = self.settled(BATCHED_CALL).filter(|batched| Ratio::of(call, batched, 1.0).is_some());
        let advice = match batched {
            Some(_) => {
                With("Combine small system calls. In a batch of io_uring an operation takes {0}.", &[BATCHED_CALL])
            }
            None => Always("Combine small system calls, for example by larger buffers."),
        };
        let weight = 0.5 + (call.interval95[0] / predicted.value).ln();
        Some(self.say(weight, call, text, why, self.words(&[advice])))
    }

    /// Several CPUs that read no more from memory than one does.
    fn one_cpu_fills_memory(&self) -> Option<Weighted> {
        /// Most times that several CPUs read more: a smaller gain is within the usual intervals of bandwidth.
        const ALIKE: f64 = 1.2;
        let reads = self.by_number(MEMORY_READS, "threads");
        let (count, several) = reads.into_iter().max_by_key(|&(count, _)| count).filter(|&(count, _)| count > 1)?;
        let one = self.settled(MEMORY_READ)?;
        let most = several.interval95[1] / one.interval95[0];
        if Order::of(several, one) == Order::Open || most > ALIKE {
            return None;
        }
        let (one, together) = (one.shown(), several.shown());
        let text = format!("One CPU reads {one} from memory, and {count} CPUs read {together} together.");
        let why = "One CPU already uses the memory bandwidth that these CPUs get together.";
        let advice = "Expect no gain from threads in work that streams through memory. Make its data smaller.";
        let weight = 0.5 * (f64::from(count) / most).ln().max(0.0);
        Some(self.say(weight, several, text, why.to_owned(), advice.to_owned()))
    }

    /// Writes to a TCP connection that move less than smaller ones do.
    fn slow_writes(&self) -> Option<Weighted> {
        let rates = self.by_number(WRITES, "bytes");
        let pairs = rates.iter().flat_map(|small| rates.iter().map(move |large| (small, large)));
        let larger = pairs.filter(|(small, large)| small.0 < large.0);
        let losses = larger.filter_map(|(small, large)| Some((Ratio::of(small.1, large.1, NOTABLE)?, small, large)));
        let (loss, small, large) = losses.max_by(|one, other| one.0.least.total_cmp(&other.0.least))?;
        let best = rates.iter().max_by(|one, other| one.1.value.total_cmp(&other.1.value))?;
        let bytes = |size: u32| Shown::of(f64::from(size), Unit::Bytes);
        let text = format!(
            "A TCP connection on the loopback moves {} with writes of {}, and only {} with writes of {}.",
            small.1.shown(),
            bytes(small.0),
            large.1.shown(),
            bytes(large.0)
        );
        let why = "Larger writes need fewer system calls. But the two CPUs can wait longer for each other, and data can leave \
                   their caches before it is read.";
        let advice = format!("Try writes of {} between processes of this machine.", bytes(best.0));
        Some(self.say(weight(&loss, NOTABLE), large.1, text, why.to_owned(), advice))
    }

    /// What costs most more while another guest uses the core.
    fn neighbour(&self) -> Option<Weighted> {
        let timed = self.all_settled().filter(|metric| metric.headline && metric.unit == Unit::Nanoseconds);
        let slowed = timed.filter_map(|metric| {
            metric.tax()?;
            let beside = metric.shared?;
            let ratio = Ratio::between((beside.value, beside.interval95), (metric.value, metric.interval95), NOTABLE)?;
            Some((metric, beside, ratio))
        });
        let (metric, beside, ratio) = slowed.max_by(|one, other| one.2.least.total_cmp(&other.2.least))?;
        let text = format!(
            "A neighbour on the core slows programs down. The largest change: {} takes {} with one and {} alone.",
            metric.phrase,
            Shown::measured(beside.value, beside.interval95, metric.unit),
            metric.shown()
        );
        let why = format!(
            "The two hardware threads of a core share its units. A neighbour was there in {} of the batches of this result.",
            percent(beside.share)
        );
        let advice = "Use a machine whose cores are not shared with others, or expect times between these two.";
        Some(self.say(weight(&ratio, NOTABLE), metric, text, why, advice.to_owned()))
    }

    /// A cache that ends earlier than is claimed.
    fn caches(&self) -> Option<Weighted> {
        const USUAL: f64 = 1.5;
        let last = self.machine.last_level_cache(self.cpu)?;
        let claim = last.size_bytes.best()?.value as f64;
        let name = format!("L{}", last.level);
        let is = |metric: &&&Metric| {
            metric.labels.get("level") == Some(name.as_str()) && CACHE_SIZE.is(&metric.name, &metric.labels)
        };
        let size = self.metrics.iter().find(is).filter(|size| is_settled(size))?;
        let least = claim / size.interval95[1];
        if least < USUAL {
            return None;
        }
        let claim = Shown::of(claim, Unit::Bytes);
        let text = format!("The {name} cache ends at {}, not at the claimed {claim}.", size.shown());
        let why = self.words(&[
            Guest("Other tenants of the host also use it, or the hypervisor gives this machine a part of it."),
            NoGuest("Other CPUs also use it, or it is divided into parts."),
        ]);
        let advice = format!("Size working sets for {}.", Shown::of(size.interval95[0], Unit::Bytes));
        Some(self.say((least / USUAL).ln(), size, text, why, advice))
    }

    /// Another CPU of this machine on the core of the measured one, where no sibling is visible.
    fn own_cpus(&self) -> Option<Weighted> {
        /// Neighbours that come and leave make no more than this.
        const LEAST: f64 = 0.05;
        let all = self.metrics.iter().filter(|metric| OWN_CPU.is(&metric.name, &metric.labels));
        let known = all.filter(|metric| is_settled(metric));
        let metric = known.max_by(|one, other| one.value.total_cmp(&other.value))?;
        if metric.value < LEAST {
            return None;
        }
        let text = format!(
            "Another CPU of this machine was on the core of CPU {} for {} of the time, although no sibling is visible.",
            self.cpu,
            percent(metric.value)
        );
        let why =
            "The host moves virtual CPUs between the threads of its cores. Two tasks on one core share its speed.";
        let advice = "Expect work on two CPUs to vary, and ask the provider whether dedicated cores are available.";
        // From 0.7 for a twentieth of the time to 3.0 for all of it.
        Some(self.say((1.0 + metric.value / LEAST).ln(), metric, text, why.to_owned(), advice.to_owned()))
    }

    /// The headline figures outside of their predicted ranges, farthest first, one of each metric.
    fn surprises(&self) -> Vec<Weighted> {
        let far = |metric: &'a Metric| {
            let against = metric.verdict.against_prediction;
            let is_outside = matches!(against, AgainstPrediction::Faster | AgainstPrediction::Slower);
            let predicted = metric.prediction.as_ref().filter(|_| metric.headline && is_outside)?;
            // The whole interval lies outside of the range.
            let [low, high] = metric.interval95;
            let far = (metric.ratio()?.ln().abs(), metric);
            (far.0.is_finite() && (high < predicted.low || low > predicted.high)).then_some(far)
        };
        let mut found: Vec<(f64, &Metric)> = self.all_settled().filter_map(far).collect();
        found.sort_by(|one, other| other.0.total_cmp(&one.0));
        let mut told: Vec<&str> = Vec::new();
        found.retain(|(_, metric)| {
            let is_first = !told.contains(&metric.name.as_str());
            told.push(&metric.name);
            is_first
        });
        found.into_iter().take(SURPRISES).filter_map(|(far, metric)| self.surprise(far, metric)).collect()
    }

    fn surprise(&self, far: f64, metric: &Metric) -> Option<Weighted> {
        let text = format!("{}.", capital(&against_prediction(&metric.phrase, metric)?));
        let (weight, told) = self.say(0.8 * far, metric, text, String::new(), String::new());
        Some((weight, Highlight { kind: HighlightKind::Surprise, why: None, advice: None, ..told }))
    }
}

/// What settled figures say, the weightiest first. Misses of predictions are last: they say least about what to do.
pub fn insights(sections: &[Section], machine: &Machine, cpu: u32, expectations: &[Expectation]) -> Vec<Weighted> {
    let metrics = sections.iter().flat_map(|section| &section.metrics).collect();
    let found = Found { sections, metrics, machine, cpu, expectations };
    let others = [
        Found::entry,
        Found::one_cpu_fills_memory,
        Found::slow_writes,
        Found::neighbour,
        Found::own_cpus,
        Found::caches,
    ];
    let mut all: Vec<Weighted> = others.iter().filter_map(|of| of(&found)).collect();
    let mut before = false;
    for row in table::ROWS {
        let stated = if row.otherwise && before { None } else { found.stated(row) };
        before = stated.is_some();
        all.extend(stated);
    }
    all.sort_by(|one, other| other.0.total_cmp(&one.0));
    all.extend(found.surprises());
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::TABLE;

    #[test]
    fn sentences_name_operands_that_exist() {
        for row in table::ROWS {
            for (place, operand) in row.of.iter().enumerate() {
                let Operand::Figure(_, figure) = operand else { continue };
                let metric = figure.metric();
                assert!(TABLE.iter().any(|experiment| experiment.publication(metric).is_some()), "{metric}");
                assert!(place < 2 || row.text.contains(&format!("{{{place}}}")), "{}", row.text);
            }
            let shown = fill(&row.text.replace("{ratio}", "2"), row.of.iter().map(|_| Shown::of(1.0, Unit::One)));
            assert!(!shown.contains(['{', '}']), "{shown}");
        }
    }
}
