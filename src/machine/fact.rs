//! Facts with their sources, and claims that may contradict each other (gate G12).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One statement about the machine, and who makes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fact<T> {
    /// What is stated.
    pub value: T,
    /// Who states it: a file of the kernel (`/proc/cpuinfo cpu MHz`), or an instruction (`CPUID leaf 15h`).
    pub source: String,
}

impl<T> Fact<T> {
    /// A statement and its source.
    pub fn new(value: T, source: impl Into<String>) -> Fact<T> {
        Fact { value, source: source.into() }
    }

    /// The same statement in another form.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Fact<U> {
        Fact { value: change(self.value), source: self.source }
    }

    /// The same statement in another form, when it has one.
    pub fn filter_map<U>(self, change: impl FnOnce(T) -> Option<U>) -> Option<Fact<U>> {
        let source = self.source;
        change(self.value).map(|value| Fact { value, source })
    }
}

/// Everything that is claimed in answer to one question, the most credible claim first. Nothing is averaged and nothing
/// is dropped: a contradiction is itself a fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Claims<T>(Vec<Fact<T>>);

impl<T> Default for Claims<T> {
    fn default() -> Self {
        Claims(Vec::new())
    }
}

impl<T> Claims<T> {
    /// The claims that exist among these, most credible first.
    pub fn of(claims: impl IntoIterator<Item = Option<Fact<T>>>) -> Claims<T> {
        Claims(claims.into_iter().flatten().collect())
    }

    /// Adds a claim that is less credible than those before it, if there is one.
    pub fn add(&mut self, claim: Option<Fact<T>>) {
        self.0.extend(claim);
    }

    /// The most credible claim.
    pub fn best(&self) -> Option<&Fact<T>> {
        self.0.first()
    }

    /// All claims, most credible first.
    pub fn all(&self) -> &[Fact<T>] {
        &self.0
    }

    /// True when no source answers the question.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: PartialEq> Claims<T> {
    /// True when two claims are not equal.
    pub fn differ(&self) -> bool {
        self.0.windows(2).any(|pair| pair[0].value != pair[1].value)
    }
}

impl Claims<f64> {
    /// True when two claims lie further apart than `tolerance`, a ratio of the larger one (0.02 is 2 %).
    pub fn contradictory(&self, tolerance: f64) -> bool {
        let values = || self.0.iter().map(|fact| fact.value);
        let largest = values().fold(f64::NEG_INFINITY, f64::max);
        let smallest = values().fold(f64::INFINITY, f64::min);
        self.0.len() > 1 && largest - smallest > tolerance * largest.abs()
    }
}

/// An answer with its sources: of one source, or of several that can differ.
pub(super) trait Stated<T> {
    /// All statements, the most credible first.
    fn facts(&self) -> &[Fact<T>];

    /// The statements with their values as text. Equal ones are one claim of several sources.
    fn texts(&self, write: impl Fn(&T) -> String) -> Vec<Fact<String>> {
        let mut texts: Vec<Fact<String>> = Vec::new();
        for fact in self.facts() {
            let text = write(&fact.value);
            match texts.iter_mut().find(|known| known.value == text) {
                Some(known) => known.source += &format!(", {}", fact.source),
                None => texts.push(Fact::new(text, fact.source.clone())),
            }
        }
        texts
    }
}

impl<T> Stated<T> for Option<Fact<T>> {
    fn facts(&self) -> &[Fact<T>] {
        self.as_slice()
    }
}

impl<T> Stated<T> for Claims<T> {
    fn facts(&self) -> &[Fact<T>] {
        &self.0
    }
}

/// A question to which the sources give answers that cannot all be true, or that do not mean the same to a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Contradiction {
    /// What is asked, such as "number of CPUs".
    pub question: String,
    /// The answers as text, each with its source, most credible first; at least two.
    pub claims: Vec<Fact<String>>,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: ", self.question)?;
        for (position, claim) in self.claims.iter().enumerate() {
            let separator = if position > 0 { "; " } else { "" };
            write!(out, "{separator}{} ({})", claim.value, claim.source)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(values: &[f64]) -> Claims<f64> {
        Claims::of(values.iter().map(|value| Some(Fact::new(*value, "test"))))
    }

    #[test]
    fn claims_contradict_beyond_the_tolerance_only() {
        assert!(!claims(&[]).contradictory(0.01));
        assert!(!claims(&[2.0e9]).contradictory(0.01));
        assert!(!claims(&[2.0e9, 1.99e9]).contradictory(0.01));
        assert!(claims(&[2.0e9, 2.6e9, 2.0e9]).contradictory(0.01));
    }

    #[test]
    fn the_first_claim_is_the_best_and_none_is_lost() {
        let claims = Claims::of([None, Some(Fact::new(64, "cpuinfo")), Some(Fact::new(4, "affinity"))]);
        assert_eq!(claims.best().map(|fact| fact.value), Some(64));
        assert_eq!(claims.all().len(), 2);
        assert!(claims.differ());
    }

    #[test]
    fn equal_claims_are_written_once() {
        let texts = claims(&[2.0, 3.0, 2.0]).texts(ToString::to_string);
        assert_eq!(texts, [Fact::new("2".to_owned(), "test, test"), Fact::new("3".to_owned(), "test")]);
    }
}
