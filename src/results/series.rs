//! Raw samples as one launch recorded them, and the class of every batch.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::quantity::{Labels, Unit};

/// What happened to a batch while it was timed. Nothing is dropped by its value, only by such a cause (gate G9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Nothing disturbed it that the operating system or the clock would show.
    Clean,
    /// The scheduler took the CPU away (involuntary context switch).
    Preempted,
    /// It began and ended on different CPUs.
    Migrated,
    /// The event that it counts did not happen, such as a wake-up of a task that was still awake.
    Missed,
    /// It took page faults although the operation should take none.
    Faulted,
    /// Void: the clock went backwards (gate G1).
    Backwards,
    /// Void: the clock probes before and after differ by more than 1 %, so its cycles are unknown (methods: gate G14).
    Unsteady,
    /// Void: the operation failed or returned the wrong answer (gate G6).
    Wrong,
}

impl Class {
    /// Every class, in the order in which counts are printed.
    pub const ALL: [Class; 8] = [
        Class::Clean,
        Class::Preempted,
        Class::Migrated,
        Class::Missed,
        Class::Faulted,
        Class::Backwards,
        Class::Unsteady,
        Class::Wrong,
    ];

    /// One letter per batch in the log.
    pub fn letter(self) -> char {
        match self {
            Class::Clean => 'c',
            Class::Preempted => 'p',
            Class::Migrated => 'm',
            Class::Missed => 'n',
            Class::Faulted => 'f',
            Class::Backwards => 'b',
            Class::Unsteady => 'u',
            Class::Wrong => 'w',
        }
    }

    /// The word that a reader sees.
    pub fn word(self) -> &'static str {
        match self {
            Class::Clean => "clean",
            Class::Preempted => "preempted",
            Class::Migrated => "migrated",
            Class::Missed => "did not happen",
            Class::Faulted => "faulted",
            Class::Backwards => "clock went backwards",
            Class::Unsteady => "core clock changed",
            Class::Wrong => "wrong result",
        }
    }

    fn from_letter(letter: char) -> Option<Class> {
        Class::ALL.into_iter().find(|class| class.letter() == letter)
    }
}

/// Classes of consecutive batches; serialised as a string with one letter per batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Classes(pub Vec<Class>);

impl Serialize for Classes {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&self.0.iter().map(|class| class.letter()).collect::<String>())
    }
}

impl<'de> Deserialize<'de> for Classes {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let letters = String::deserialize(input)?;
        letters
            .chars()
            .map(|letter| {
                Class::from_letter(letter)
                    .ok_or_else(|| serde::de::Error::custom(format!("unknown batch class '{letter}'")))
            })
            .collect::<Result<Vec<_>, _>>()
            .map(Classes)
    }
}

impl JsonSchema for Classes {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Classes".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^[cpmnfbuw]*$",
            "description": "One letter per batch: c clean, p preempted, m migrated, n did not happen, f faulted. Also b clock went backwards, u core clock changed, w wrong result"
        })
    }
}

/// Named raw samples of one launch. `values[i]`, `clock[i]`, `widths[i]`, `lines[i]` and `classes[i]` describe the same batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Name within the experiment, such as `call`.
    pub name: String,
    /// Parameters of this series.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Unit of `values`.
    pub unit: Unit,
    /// Operations in each batch; a value divided by it is the cost of one operation. At least 1.
    pub operations: u64,
    /// One value per batch, in the order in which the batches ran.
    pub values: Vec<f64>,
    /// Clock ticks per core cycle around each batch (mean of the probe before and the probe after). Empty where the series is not
    /// normalised.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clock: Vec<f64>,
    /// Core cycles of a turn of the shortest loop right before and right after each batch: 1 alone on the core, 1.2 and more with a
    /// neighbour on its other hardware thread. Zero where no chain of known latency validates. Empty where samples are not batches,
    /// and in logs of versions that did not look.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub widths: Vec<[f64; 2]>,
    /// Nanoseconds that a cache line took between the two CPUs of a batch right before and right after it: it shows where a host
    /// has put them. Zero where the partner did not answer; empty where one CPU is measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<[f64; 2]>,
    /// The same widths on the CPU of the partner, by its own clock. Zero where it could not look; empty where one CPU is measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partner_widths: Vec<[f64; 2]>,
    /// The same widths at the measured CPU while its partner answers, right before and right after each batch: where only these show
    /// a neighbour, both CPUs are on one core. Zero where it could not look; empty where one CPU is measured, and in older logs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside_partner: Vec<[f64; 2]>,
    /// Time of a batch over that of half as many operations, the median of a few such pairs of the warm-up: 2 where time follows
    /// the operations (gate G7). None where batches have their own size or that of another series.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linearity: Option<f64>,
    /// What happened to each batch; empty where samples are not batches.
    #[serde(default, skip_serializing_if = "no_classes")]
    pub classes: Classes,
}

fn no_classes(classes: &Classes) -> bool {
    classes.0.is_empty()
}

impl Series {
    /// A series of plain values that are not frequency-normalised batches.
    pub fn plain(name: &str, labels: Labels, unit: Unit, values: Vec<f64>) -> Self {
        Series {
            name: name.to_owned(),
            labels,
            unit,
            operations: 1,
            values,
            clock: Vec::new(),
            widths: Vec::new(),
            lines: Vec::new(),
            partner_widths: Vec::new(),
            beside_partner: Vec::new(),
            linearity: None,
            classes: Classes::default(),
        }
    }

    /// The class of batch `index`; samples that carry no class are clean.
    pub fn class(&self, index: usize) -> Class {
        self.classes.0.get(index).copied().unwrap_or(Class::Clean)
    }

    /// How many batches fell into each class, classes without any left out.
    pub fn class_counts(&self) -> Vec<(Class, usize)> {
        Class::ALL
            .into_iter()
            .map(|class| (class, (0..self.values.len()).filter(|&index| self.class(index) == class).count()))
            .filter(|&(_, count)| count > 0)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_survive_the_log() {
        let classes = Classes(Class::ALL.to_vec());
        let text = serde_json::to_string(&classes).unwrap();
        assert_eq!(text, "\"cpmnfbuw\"");
        assert_eq!(serde_json::from_str::<Classes>(&text).unwrap(), classes);
        assert!(serde_json::from_str::<Classes>("\"cx\"").is_err());
    }

    #[test]
    fn samples_without_a_class_are_clean() {
        let series = Series::plain("capacity", Labels::none(), Unit::Bytes, vec![1.0, 2.0]);
        assert_eq!(series.class_counts(), vec![(Class::Clean, 2)]);
    }
}
