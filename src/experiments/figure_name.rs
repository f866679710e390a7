//! How tables name figures: a metric, and labels that the figure has among others, as `os.system_call.time call=enosys`.

use crate::experiments::prelude::*;

/// A figure of any experiment. Of two distances it is the usual one, which stands first among the figures of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FigureName {
    text: &'static str,
    /// Further labels, as most records have them.
    usual: &'static str,
}

/// Keys and values in a text.
fn pairs(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    text.split(' ').filter_map(|word| word.split_once('='))
}

impl FigureName {
    /// The figure with a metric and labels.
    pub const fn of(text: &'static str) -> Self {
        FigureName { text, usual: "" }
    }

    /// With the labels that most records have besides.
    pub(super) const fn with(self, usual: &'static str) -> Self {
        FigureName { usual, ..self }
    }

    /// Its metric.
    pub fn metric(&self) -> &'static str {
        self.text.split_once(' ').map_or(self.text, |(metric, _)| metric)
    }

    /// Its labels, keys with values.
    pub fn pairs(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        pairs(self.text)
    }

    /// All labels that it has in most records.
    pub(super) fn usual_labels(&self) -> Labels {
        self.pairs().chain(pairs(self.usual)).fold(Labels::none(), |labels, (key, value)| labels.with(key, value))
    }

    /// Whether a figure has this name.
    pub fn is(&self, metric: &str, labels: &Labels) -> bool {
        metric == self.metric() && self.has_labels(labels)
    }

    pub(super) fn has_labels(&self, labels: &Labels) -> bool {
        self.pairs().all(|(key, value)| labels.get(key) == Some(value))
    }

    /// The first figure with this name.
    pub fn find<'a>(&self, figures: impl IntoIterator<Item = &'a Metric>) -> Option<&'a Metric> {
        figures.into_iter().find(|metric| self.is(&metric.name, &metric.labels))
    }
}
