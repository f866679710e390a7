//! Figures that others have published: five reports on measurements of operating systems, each figure with the section
//! that prints it, the unit it is printed in, and a doubt where it cannot be what it is called.
//!
//! The data is `published.json` next to this file. Only numbers and where they stand were taken. Every word is ours.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::document::{Document, Metric};
use super::quantity::{Labels, Unit};

/// The data, as text.
const DATA: &str = include_str!("published.json");

/// Everything that was published, grouped by operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// What this is.
    pub about: String,
    /// The reports, oldest number first.
    pub reports: Vec<Report>,
    /// Reasons for doubts and remarks, by their short names.
    pub reasons: BTreeMap<String, String>,
    /// Operations, in the order of our report.
    pub groups: Vec<PublishedGroup>,
    /// The figures, ordered by group and report.
    pub figures: Vec<PublishedFigure>,
}

/// One report and the machine that it measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Three digits.
    pub id: String,
    /// When it was written, as far as it is known.
    pub year: String,
    pub processor: String,
    pub memory: String,
    /// The disk that was read.
    pub storage: String,
    /// The network, and what was at its other end.
    pub network: String,
    /// Operating system and compiler.
    pub system: String,
}

/// An operation that reports measured, with the figure of ours that is closest to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedGroup {
    /// Short name, unique.
    pub id: String,
    /// What was measured.
    pub title: String,
    /// Unit of `value` and `predicted` of its figures.
    pub unit: Unit,
    /// Our metric for the same thing, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Labels that our figure must have.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

/// One published figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedFigure {
    pub group: String,
    pub report: String,
    /// Section or table of the report.
    pub section: String,
    /// The number and the unit as printed.
    pub printed: String,
    /// The number in the unit of the group; none where a bound, a range or a formula is printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Standard deviation over trials that the report prints, in the unit of the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
    /// How `value` follows from what is printed, where it is more than another unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computed: Option<String>,
    /// What the report predicted, in the unit of the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<f64>,
    /// Parameters: size, processes, trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Why it cannot be what it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
    /// What is wrong around it, while the measured value stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

impl Published {
    /// The data of this build.
    ///
    /// # Panics
    ///
    /// When the embedded data is broken, which a test of this file rules out.
    pub fn embedded() -> Published {
        serde_json::from_slice(DATA.as_bytes()).expect("the embedded data is valid")
    }

    /// The figures of a group.
    pub fn figures_of<'a>(&'a self, group: &'a PublishedGroup) -> impl Iterator<Item = &'a PublishedFigure> {
        self.figures.iter().filter(move |figure| figure.group == group.id)
    }

    /// Only what one report says, only groups whose id, title or metric contains a word. Empty groups are left out.
    #[must_use]
    pub fn filtered(mut self, report: Option<&str>, word: Option<&str>) -> Published {
        let word = word.map(str::to_lowercase);
        let named = |group: &PublishedGroup| {
            word.as_ref().is_none_or(|word| {
                let texts = [Some(&group.id), Some(&group.title), group.metric.as_ref()];
                texts.into_iter().flatten().any(|text| text.to_lowercase().contains(word))
            })
        };
        self.figures.retain(|figure| report.is_none_or(|report| figure.report == report));
        self.groups.retain(|group| named(group) && self.figures.iter().any(|figure| figure.group == group.id));
        self.figures.retain(|figure| self.groups.iter().any(|group| group.id == figure.group));
        self.reports.retain(|found| self.figures.iter().any(|figure| figure.report == found.id));
        let given: Vec<&String> =
            self.figures.iter().flat_map(|figure| [&figure.doubt, &figure.remark]).flatten().collect();
        self.reasons.retain(|name, _| given.contains(&name));
        self
    }

    /// The reason behind a short name.
    pub fn reason(&self, name: &str) -> &str {
        self.reasons.get(name).map_or("", String::as_str)
    }
}

impl PublishedGroup {
    /// Our figure for the same operation, if the run has it.
    pub fn ours<'a>(&self, document: &'a Document) -> Option<&'a Metric> {
        let name = self.metric.as_ref()?;
        document
            .experiments
            .iter()
            .flat_map(|section| &section.metrics)
            .find(|metric| metric.name == *name && metric.unit == self.unit && metric.labels.includes(&self.labels))
    }
}

impl PublishedFigure {
    /// The reason for a doubt or remark of this figure, as text.
    pub fn caveat<'a>(&self, published: &'a Published) -> Option<&'a str> {
        self.doubt.as_ref().or(self.remark.as_ref()).map(|name| published.reason(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_is_whole() {
        let published = Published::embedded();
        assert_eq!(published.reports.len(), 5);
        assert!(published.figures.len() > 400, "{}", published.figures.len());
        for figure in &published.figures {
            assert!(published.groups.iter().any(|group| group.id == figure.group), "{}", figure.group);
            assert!(published.reports.iter().any(|report| report.id == figure.report), "{}", figure.report);
            assert!(figure.value.is_none_or(|value| value.is_finite() && value > 0.0), "{}", figure.printed);
            assert!(figure.deviation.is_none_or(|deviation| deviation >= 0.0 && figure.value.is_some()));
            assert!(figure.doubt.is_none() || figure.remark.is_none(), "{}: one or the other", figure.printed);
            for name in [&figure.doubt, &figure.remark].into_iter().flatten() {
                assert!(published.reason(name).len() > 20, "{name} has no reason");
            }
        }
        for group in &published.groups {
            assert!(published.figures_of(group).next().is_some(), "{} has no figure", group.id);
            assert_eq!(published.groups.iter().filter(|other| other.id == group.id).count(), 1, "{}", group.id);
        }
        for name in published.reasons.keys() {
            let used =
                |figure: &PublishedFigure| figure.doubt.as_ref() == Some(name) || figure.remark.as_ref() == Some(name);
            assert!(published.figures.iter().any(used), "nobody needs the reason {name}");
        }
    }

    #[test]
    fn a_deviation_is_in_the_unit_of_its_value() {
        // 13.70 ns and 0.59 ns, as the section prints them.
        let printed = |report: &str, section: &str, group: &str| {
            let published = Published::embedded();
            let mut found = published.figures.into_iter().filter(|figure| {
                figure.deviation.is_some()
                    && (&*figure.report, &*figure.section, &*figure.group) == (report, section, group)
            });
            let figure = found.next().expect("a figure with a deviation");
            (figure.value, figure.deviation)
        };
        assert_eq!(printed("000", "3.1.3", "timer"), (Some(13.7), Some(0.59)));
        let published = Published::embedded();
        assert!(published.figures.iter().filter(|figure| figure.deviation.is_some()).count() > 200);
    }

    #[test]
    fn every_chapter_is_there() {
        let published = Published::embedded();
        for chapter in ["cpu.", "os.", "memory.", "network.", "file."] {
            let found = published.groups.iter().filter_map(|group| group.metric.as_ref());
            assert!(found.into_iter().any(|metric| metric.starts_with(chapter)), "{chapter}");
        }
    }

    #[test]
    fn a_filter_keeps_what_it_names() {
        let one = Published::embedded().filtered(Some("003"), Some("BANDWIDTH"));
        assert!(!one.figures.is_empty() && one.figures.iter().all(|figure| figure.report == "003"));
        assert!(one.groups.iter().all(|group| group.id.contains("bandwidth")), "{:?}", one.groups);
        assert_eq!(one.reports.len(), 1);
        assert!(one.reasons.len() < 3, "{:?}", one.reasons);
        assert!(Published::embedded().filtered(None, Some("no such thing")).figures.is_empty());
    }

    #[test]
    fn an_impossible_figure_is_doubted() {
        let published = Published::embedded();
        let longest = published
            .figures
            .iter()
            .filter(|figure| figure.group == "connect.setup.remote")
            .max_by(|one, other| one.value.partial_cmp(&other.value).expect("values are finite"))
            .expect("connections were published");
        assert!(longest.doubt.is_some(), "{longest:?}");
    }
}
