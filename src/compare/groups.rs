//! Changes of headline results by what was measured: the first lines of an answer.

use crate::results::comparison::{ChangedGroup, ComparedResult};

/// Headline results that changed, those of one kind and direction together, the largest change first.
pub(super) fn groups(rows: &[ComparedResult]) -> Vec<ChangedGroup> {
    let mut groups: Vec<ChangedGroup> = Vec::new();
    for row in rows.iter().filter(|row| row.headline && row.is_changed()) {
        let what = row.phrase.split(", ").next().unwrap_or(&row.phrase).to_owned();
        if let Some(group) = groups.iter_mut().find(|group| group.what == what && group.finding == row.finding) {
            group.range = [group.range[0].min(row.change), group.range[1].max(row.change)];
            group.results += 1;
        } else {
            let range = [row.change, row.change];
            groups.push(ChangedGroup { what, finding: row.finding, range, results: 1 });
        }
    }
    // One result says it in full.
    for group in groups.iter_mut().filter(|group| group.results == 1) {
        let only = rows.iter().find(|row| row.headline && row.is_changed() && row.phrase.starts_with(&group.what));
        if let Some(only) = only {
            group.what.clone_from(&only.phrase);
        }
    }
    let size = |group: &ChangedGroup| group.range.map(|end| end.ln_1p().abs()).into_iter().fold(0.0, f64::max);
    groups.sort_by(|one, other| one.finding.cmp(&other.finding).then(size(other).total_cmp(&size(one))));
    groups
}
