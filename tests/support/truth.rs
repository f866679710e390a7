//! Comparisons with a truth that the test made.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Tries a comparison several times: a machine that others use spoils one, not all. A comparison that panics, as one does whose
/// figure the gates refused, has failed like any other.
pub fn holds(tries: u32, what: &str, mut compare: impl FnMut() -> Result<(), String>) {
    let mut reasons = Vec::new();
    for attempt in 1..=tries {
        match catch_unwind(AssertUnwindSafe(&mut compare)) {
            Ok(Ok(())) => return,
            Ok(Err(why)) => reasons.push(why),
            Err(panic) if attempt == tries => resume_unwind(panic),
            Err(_) => reasons.push("panicked, as told above".to_owned()),
        }
    }
    panic!("{what}, {tries} times: {}", reasons.join("; "));
}

/// Content where a figure lies between two others.
pub fn within(found: f64, low: f64, high: f64) -> Result<(), String> {
    if (low..=high).contains(&found) { Ok(()) } else { Err(format!("{found} is not in {low}..{high}")) }
}
