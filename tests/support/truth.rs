//! Comparisons with a truth that the test made.
#![allow(dead_code, reason = "each test program uses its own part")]

/// Tries a comparison several times: a machine that others use spoils one, not all.
pub fn holds(tries: u32, what: &str, mut compare: impl FnMut() -> Result<(), String>) {
    let mut last = String::new();
    for _ in 0..tries {
        match compare() {
            Ok(()) => return,
            Err(why) => last = why,
        }
    }
    panic!("{what}, {tries} times: {last}");
}

/// Content where a figure lies between two others.
pub fn within(found: f64, low: f64, high: f64) -> Result<(), String> {
    if (low..=high).contains(&found) { Ok(()) } else { Err(format!("{found} is not in {low}..{high}")) }
}
