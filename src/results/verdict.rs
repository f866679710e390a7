//! Whether a figure can be trusted, and the gates that decide it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::gate_numbers::GateNumbers;

/// How far a figure can be trusted, from evidence taken during that figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    /// Every gate passed and neighbours left no trace.
    Clean,
    /// The figure holds, but its spread is larger than an undisturbed machine shows.
    Noisy,
    /// Something else used the CPU while it was measured; the figure comes from the batches it left alone.
    Contaminated,
    /// A hard gate failed: not a result. Such figures are never published as values.
    Impossible,
}

impl Trust {
    /// The word in tables.
    pub fn word(self) -> &'static str {
        match self {
            Trust::Clean => "clean",
            Trust::Noisy => "noisy",
            Trust::Contaminated => "contaminated",
            Trust::Impossible => "impossible",
        }
    }
}

/// The measurement compared with its prediction. Computed, never prose (gate G39).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AgainstPrediction {
    /// Inside the predicted range.
    #[serde(rename = "as predicted")]
    AsPredicted,
    /// Better than the range (a shorter time, a higher rate).
    #[serde(rename = "faster")]
    Faster,
    /// Worse than the range.
    #[serde(rename = "slower")]
    Slower,
    /// The range is so wide that it says nothing: it counts as not predicted.
    #[serde(rename = "not predicted")]
    TooWide,
    /// Nothing was predicted.
    #[serde(rename = "none")]
    None,
}

impl AgainstPrediction {
    /// The word in tables.
    pub fn word(self) -> &'static str {
        match self {
            AgainstPrediction::AsPredicted => "as predicted",
            AgainstPrediction::Faster => "faster",
            AgainstPrediction::Slower => "slower",
            AgainstPrediction::TooWide => "not predicted",
            AgainstPrediction::None => "none",
        }
    }
}

/// What a failed gate does to a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The figure is not published.
    Hard,
    /// The figure is published and called contaminated.
    Contaminates,
    /// The figure is published and called disturbed: others took the CPU for part of the time.
    Disturbs,
    /// The figure is published and called noisy.
    Noisy,
    /// The figure is published with the remark; its trust is unchanged.
    Remark,
}

/// One rule that a figure had to pass, with the numbers that decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gate {
    /// Identifier in the gate catalogue of docs/reference.md, such as `G8`.
    pub id: String,
    /// Whether the rule held.
    pub pass: bool,
    /// What a failure does.
    pub severity: Severity,
    /// The rule and the numbers on both of its sides.
    pub evidence: String,
    /// The numbers of the evidence, where the rule compares one number with a bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers: Option<GateNumbers>,
    /// Its rule. This is not published.
    #[serde(skip)]
    pub rule: RulePath,
}

/// Path of a rule in the sources. All are equal, because a gate that is read back has none.
#[derive(Debug, Clone, Copy, Default)]
pub struct RulePath(pub &'static str);

impl PartialEq for RulePath {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The verdict on one figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// How far it can be trusted.
    pub trust: Trust,
    /// How it compares with its prediction.
    pub against_prediction: AgainstPrediction,
    /// Every gate that was applied.
    pub gates: Vec<Gate>,
}

impl Verdict {
    /// The worst consequence of any failed gate.
    pub fn from_gates(gates: Vec<Gate>, against_prediction: AgainstPrediction) -> Self {
        let trust = gates
            .iter()
            .filter(|gate| !gate.pass)
            .map(|gate| match gate.severity {
                Severity::Hard => Trust::Impossible,
                Severity::Contaminates | Severity::Disturbs => Trust::Contaminated,
                Severity::Noisy => Trust::Noisy,
                Severity::Remark => Trust::Clean,
            })
            .max()
            .unwrap_or(Trust::Clean);
        Verdict { trust, against_prediction, gates }
    }

    /// The gates that failed, worst first.
    pub fn failures(&self) -> Vec<&Gate> {
        let mut failed: Vec<&Gate> = self.gates.iter().filter(|gate| !gate.pass).collect();
        failed.sort_by_key(|gate| match gate.severity {
            Severity::Hard => 0,
            Severity::Contaminates => 1,
            Severity::Disturbs => 2,
            Severity::Noisy => 3,
            Severity::Remark => 4,
        });
        failed
    }

    /// Whether the only reason not to trust the figure is that others took the CPU for part of the time.
    pub fn is_only_disturbed(&self) -> bool {
        self.trust == Trust::Contaminated && self.failures().iter().all(|gate| gate.severity != Severity::Contaminates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(severity: Severity, pass: bool) -> Gate {
        Gate {
            id: "G0".to_owned(),
            pass,
            severity,
            evidence: "for the test".to_owned(),
            numbers: None,
            rule: RulePath::default(),
        }
    }

    #[test]
    fn the_worst_failure_decides() {
        let trust = |gates: Vec<Gate>| Verdict::from_gates(gates, AgainstPrediction::None).trust;
        assert_eq!(trust(vec![]), Trust::Clean);
        assert_eq!(trust(vec![gate(Severity::Hard, true)]), Trust::Clean);
        assert_eq!(trust(vec![gate(Severity::Noisy, false), gate(Severity::Remark, false)]), Trust::Noisy);
        assert_eq!(trust(vec![gate(Severity::Contaminates, false), gate(Severity::Noisy, false)]), Trust::Contaminated);
        assert_eq!(trust(vec![gate(Severity::Hard, false), gate(Severity::Noisy, false)]), Trust::Impossible);
        assert_eq!(trust(vec![gate(Severity::Disturbs, false)]), Trust::Contaminated);
    }

    #[test]
    fn time_that_others_took_is_another_reason_than_a_neighbour() {
        let disturbed = |gates: Vec<Gate>| Verdict::from_gates(gates, AgainstPrediction::None).is_only_disturbed();
        assert!(disturbed(vec![gate(Severity::Disturbs, false), gate(Severity::Contaminates, true)]));
        assert!(disturbed(vec![gate(Severity::Disturbs, false), gate(Severity::Noisy, false)]));
        assert!(!disturbed(vec![gate(Severity::Disturbs, false), gate(Severity::Contaminates, false)]));
        assert!(!disturbed(vec![gate(Severity::Noisy, false)]));
    }
}
