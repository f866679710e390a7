//! Bounds of numbers in files that other machines wrote. A number that no machine has is the mark of a broken or forged file,
//! and one that overflows where it is used would stand in a report as `inf`.

/// Larger than any quantity of a machine: a zetta of bytes, hertz or nanoseconds.
const MOST: f64 = 1e21;

/// A number that a machine can have. The error names it.
pub fn number(what: &str, value: f64) -> Result<(), String> {
    if value.is_finite() && value.abs() <= MOST {
        Ok(())
    } else {
        Err(format!("{what} is {value:?}, which is impossible"))
    }
}

/// A value that is divided by: 0, or so large that no quotient of two overflows. The error names it.
pub fn divisor(what: &str, value: f64) -> Result<(), String> {
    number(what, value)?;
    if value == 0.0 || value.abs() >= 1.0 / MOST {
        Ok(())
    } else {
        Err(format!("{what} is {value:?}, which is impossible"))
    }
}

/// A number within two others. The error names all three.
pub fn within(what: &str, value: f64, [low, high]: [f64; 2]) -> Result<(), String> {
    [low, high].into_iter().try_for_each(|value| number(what, value))?;
    divisor(what, value)?;
    let is_inside = low <= value && value <= high;
    if is_inside { Ok(()) } else { Err(format!("{what} is {value:?}, and its interval is [{low:?}, {high:?}]")) }
}

/// A share of something. The error names it.
pub fn share(what: &str, value: f64) -> Result<(), String> {
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(format!("{what} is {value:?}, which is not a share")) }
}

/// At most this many entries. The error says how many there are.
pub fn at_most(what: &str, count: usize, most: usize) -> Result<(), String> {
    if count <= most { Ok(()) } else { Err(format!("it has {count} {what}, and at most {most} are read")) }
}
