//! The book of children that a launch keeps: made, reaped, left as expected.

use crate::experiments::prelude::*;
use crate::results::wording::launches;

rules! {
    REAPED: "G26" Hard "`os.process_creation.time`, `os.container.time`",
        "every child was reaped with the expected status, and no launch had other children at its end";
}

/// Name of the series of the children of a figure: made, reaped, left as expected.
pub const SERIES: &str = "children";

/// Name of the remark of a launch that had children left which it did not know of.
pub const LEFT: &str = "children.left";

/// G26: every child that was made was reaped and left as expected, in all launches.
pub fn gate(study: &Study<'_>, labels: &Labels) -> Gate {
    let mut sums = [0.0; 3];
    for series in study.series(SERIES, labels) {
        sums.iter_mut().zip(&series.values).for_each(|(sum, count)| *sum += count);
    }
    let [made, reaped, expected] = sums;
    let left = study.remarks(LEFT).len();
    Gate::holds(
        &REAPED,
        made > 0.0 && (made - reaped).abs() < 0.5 && (made - expected).abs() < 0.5 && left == 0,
        format!(
            "{made} children created, {reaped} reaped, {expected} with the expected status, {} with other children",
            launches(left)
        ),
    )
}
