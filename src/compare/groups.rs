//! Changes of headline results by what was measured: the first lines of an answer.

use crate::results::comparison::{ChangedGroup, ComparedResult, Finding};

/// A result that changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Changed<'a> {
    /// Its name in plain words.
    pub phrase: &'a str,
    /// Worse or better.
    pub finding: Finding,
    /// Relative change.
    pub change: f64,
}

impl<'a> Changed<'a> {
    /// Headline results of a comparison that changed.
    pub fn of(rows: &'a [ComparedResult]) -> Vec<Self> {
        let changed = rows.iter().filter(|row| row.headline && row.is_changed());
        changed.map(|row| Changed { phrase: &row.phrase, finding: row.finding, change: row.change }).collect()
    }
}

/// Changes of one kind and direction together, the largest change first.
pub(super) fn groups(changed: &[Changed<'_>]) -> Vec<ChangedGroup> {
    let mut groups: Vec<ChangedGroup> = Vec::new();
    for &Changed { phrase, finding, change } in changed {
        let what = phrase.split(", ").next().unwrap_or(phrase).to_owned();
        if let Some(group) = groups.iter_mut().find(|group| group.what == what && group.finding == finding) {
            group.range = [group.range[0].min(change), group.range[1].max(change)];
            group.results += 1;
        } else {
            groups.push(ChangedGroup { what, finding, range: [change, change], results: 1 });
        }
    }
    // One result says it in full.
    for group in groups.iter_mut().filter(|group| group.results == 1) {
        let is_it =
            |one: &&Changed<'_>| one.finding == group.finding && one.phrase.split(", ").next() == Some(&group.what);
        if let Some(only) = changed.iter().find(is_it) {
            only.phrase.clone_into(&mut group.what);
        }
    }
    let size = |group: &ChangedGroup| group.range.map(|end| end.ln_1p().abs()).into_iter().fold(0.0, f64::max);
    groups.sort_by(|one, other| one.finding.cmp(&other.finding).then(size(other).total_cmp(&size(one))));
    groups
}
