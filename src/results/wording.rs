//! Numbers as people read them. Every rendering uses these, so that a figure never has two spellings (gate G3).

use std::fmt;

use super::quantity::Unit;

/// Digits that a figure is printed with at most. Runs differ by more than the interval of one of them says, so no run would confirm
/// a fifth digit.
const MOST_DIGITS: i32 = 4;

/// A figure with its unit: with two digits of half its interval (GUM 7.2.6), and with two to four digits in all.
pub fn measured(value: f64, interval: [f64; 2], unit: Unit) -> String {
    let (factor, symbol) = scale(value, unit);
    let text = with_decimals(value / factor, decimals(value / factor, interval.map(|end| end / factor)));
    if symbol.is_empty() { text } else { format!("{text} {symbol}") }
}

/// The interval of a figure, both ends in the scale and with the decimals of the figure.
pub fn measured_interval(value: f64, interval: [f64; 2], unit: Unit) -> String {
    let (factor, symbol) = scale(value, unit);
    let scaled = interval.map(|end| end / factor);
    let places = decimals(value / factor, scaled);
    let text = format!("{} … {}", with_decimals(scaled[0], places), with_decimals(scaled[1], places));
    if symbol.is_empty() { text } else { format!("{text} {symbol}") }
}

/// A figure without a unit, with the digits that its interval supports.
pub fn measured_number(value: f64, interval: [f64; 2]) -> String {
    with_decimals(value, decimals(value, interval))
}

/// A measure of spread: no more than two or three of its digits are known.
pub fn rough(value: f64, unit: Unit) -> String {
    measured(value, [value * 0.85, value * 1.15], unit)
}

/// Decimals of a number that moves within an interval; negative ones round before the point.
fn decimals(value: f64, interval: [f64; 2]) -> i32 {
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    let half_width = (interval[1] - interval[0]).abs() / 2.0;
    let magnitude = value.abs().log10().floor() as i32;
    let digits = if half_width > 0.0 && half_width.is_finite() {
        (magnitude - half_width.log10().floor() as i32 + 2).clamp(2, MOST_DIGITS)
    } else {
        MOST_DIGITS
    };
    // A number that is known to its last printed digit keeps all that stand before the point.
    let places = if digits == MOST_DIGITS { (digits - 1 - magnitude).max(0) } else { digits - 1 - magnitude };
    // Rounding may carry into a new digit (9.9996 → 10.000): one decimal less then.
    let rounded = (value.abs() * 10_f64.powi(places)).round() / 10_f64.powi(places);
    if rounded >= 10_f64.powi(magnitude + 1) && places != 0 { places - 1 } else { places }
}

fn with_decimals(value: f64, places: i32) -> String {
    if places > 12 || value.abs() >= 1e12 {
        return format!("{value:.3e}");
    }
    if places >= 0 {
        return format!("{value:.0$}", places as usize);
    }
    // Digits before the point that are not known are zeros.
    let step = 10_f64.powi(-places);
    format!("{:.0}", (value / step).round() * step)
}

/// Factor and symbol of the scale in which a number is read best.
fn scale(value: f64, unit: Unit) -> (f64, &'static str) {
    let scales = scales(unit);
    // 999.96 of one unit prints as 1000 with four digits: it belongs to the next.
    scales.iter().rev().find(|(scale, _)| value.abs() >= scale * 0.999_95).copied().unwrap_or(scales[0])
}

/// The scales of a unit, from the smallest.
fn scales(unit: Unit) -> &'static [(f64, &'static str)] {
    match unit {
        Unit::Nanoseconds => &TIMES,
        Unit::Hertz => &FREQUENCIES,
        Unit::Bytes => &SIZES,
        Unit::BytesPerSecond => &RATES,
        Unit::Cycles => &[(1.0, "cycles")],
        Unit::Ticks => &[(1.0, "ticks")],
        Unit::One => &[(1.0, "")],
    }
}

/// The ways to write a unit, from the smallest.
pub fn unit_symbols(unit: Unit) -> Vec<&'static str> {
    let symbols = scales(unit).iter().map(|(_, symbol)| *symbol);
    symbols.map(|symbol| if symbol.is_empty() { unit.symbol() } else { symbol }).collect()
}

const KIB: f64 = 1024.0;
const TIMES: [(f64, &str); 4] = [(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")];
const FREQUENCIES: [(f64, &str); 4] = [(1.0, "Hz"), (1e3, "kHz"), (1e6, "MHz"), (1e9, "GHz")];
const SIZES: [(f64, &str); 5] =
    [(1.0, "B"), (KIB, "KiB"), (KIB * KIB, "MiB"), (KIB * KIB * KIB, "GiB"), (KIB * KIB * KIB * KIB, "TiB")];
const RATES: [(f64, &str); 5] = [(1.0, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s"), (1e12, "TB/s")];

/// What stands where a number would, when there is none: the least of no values, a share of nothing.
const NOTHING: &str = "no value";

/// A number with its unit, scaled to a readable size: four significant digits, decimal prefixes for times, frequencies and
/// rates, binary ones for sizes.
pub fn quantity(value: f64, unit: Unit) -> String {
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    let (factor, symbol) = scale(value, unit);
    if symbol.is_empty() { number(value) } else { format!("{} {symbol}", number(value / factor)) }
}

/// An interval with its unit: `35.02 … 35.14 ns`. Ends that are read best in different scales have their own.
pub fn interval(ends: [f64; 2], unit: Unit) -> String {
    let (factor, symbol) = scale(ends[1], unit);
    if factor > 1.0 && ends[0] > 0.0 && ends[0] < 0.5 * factor && ends[1].is_finite() {
        return format!("{} … {}", quantity(ends[0], unit), quantity(ends[1], unit));
    }
    let text = format!("{} … {}", number(ends[0] / factor), number(ends[1] / factor));
    if symbol.is_empty() { text } else { format!("{text} {symbol}") }
}

/// A number with its unit and this many significant digits.
pub fn significant(value: f64, unit: Unit, digits: i32) -> String {
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    let (text, _, symbol) = rounded(value, unit, digits);
    if symbol.is_empty() { text } else { format!("{text} {symbol}") }
}

/// A number in its scale with this many significant digits. Then the factor and the symbol of the scale.
fn rounded(value: f64, unit: Unit, digits: i32) -> (String, f64, &'static str) {
    let (mut factor, mut symbol) = scale(value, unit);
    let places = |value: f64| if value == 0.0 { 0 } else { digits - 1 - value.abs().log10().floor() as i32 };
    let round = |value: f64| {
        let text = with_decimals(value, places(value));
        // Rounding may carry into a new digit (9.96 → 10.0): one decimal less then.
        let carried = text.parse::<f64>().is_ok_and(|rounded| rounded != 0.0 && places(rounded) < places(value));
        if carried { with_decimals(value, places(value) - 1) } else { text }
    };
    // Rounding may carry into the next scale: 999.6 ns are 1.00 µs.
    if round(value / factor).parse().is_ok_and(|rounded: f64| rounded.abs() >= 1000.0) {
        (factor, symbol) = scale(value * 1.001, unit);
    }
    (round(value / factor), factor, symbol)
}

/// Half of an interval over its value from which on a sentence shows two digits instead of three.
const WIDE: f64 = 0.05;

/// A number as a sentence shows it: three significant digits, two where its interval is wide. `value` is the number that is shown.
/// What the same sentence computes from it therefore agrees with what a reader computes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shown {
    pub value: f64,
    unit: Unit,
    digits: i32,
    at_least: bool,
    doubt: Option<Doubt>,
}

/// Why a reader must not rely on a number in a sentence, said behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// Something else used what was measured.
    Contaminated,
    /// Others took the CPU for part of the time.
    Disturbed,
    /// So few launches have it that its interval says little.
    Launches(u32),
}

impl fmt::Display for Doubt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::Disturbed => write!(out, "disturbed"),
            Doubt::Contaminated => write!(out, "contaminated"),
            Doubt::Launches(launches) => write!(out, "{}", count(u64::from(*launches), "launch", "launches")),
        }
    }
}

impl Shown {
    /// A number without an interval.
    pub fn of(value: f64, unit: Unit) -> Shown {
        Shown::with_digits(value, unit, 3)
    }

    /// A number with its interval.
    pub fn measured(value: f64, interval: [f64; 2], unit: Unit) -> Shown {
        let half_width = (interval[1] - interval[0]).abs() / 2.0 / value.abs();
        // Two digits of a number that begins with 1 or 2 would be off by up to 5 %.
        let (text, ..) = rounded(value, unit, 3);
        let begins_low = text.trim_start_matches(['-', '−']).starts_with(['1', '2']);
        Shown::with_digits(value, unit, if half_width > WIDE && !begins_low { 2 } else { 3 })
    }

    /// The same number as a lower bound.
    #[must_use]
    pub fn at_least(self, at_least: bool) -> Shown {
        Shown { at_least, ..self }
    }

    /// The same number with a doubt behind it.
    #[must_use]
    pub fn doubted(self, doubt: Option<Doubt>) -> Shown {
        Shown { doubt, ..self }
    }

    /// Another number with as many digits as this number.
    #[must_use]
    pub fn alike(self, value: f64) -> Shown {
        Shown::with_digits(value, self.unit, self.digits)
    }

    fn with_digits(value: f64, unit: Unit, digits: i32) -> Shown {
        let shown = if value.is_finite() {
            let (text, factor, _) = rounded(value, unit, digits);
            text.parse::<f64>().map_or(value, |number| number * factor)
        } else {
            value
        };
        Shown { value: shown, unit, digits, at_least: false, doubt: None }
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = if self.at_least { "at least " } else { "" };
        if !self.value.is_finite() {
            return write!(out, "{NOTHING}");
        }
        let (text, _, symbol) = rounded(self.value, self.unit, self.digits);
        // Sizes are mostly whole.
        let whole = self.unit == Unit::Bytes && text.contains('.');
        let text = if whole { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        write!(out, "{bound}{text}{}{symbol}", if symbol.is_empty() { "" } else { " " })?;
        self.doubt.map_or(Ok(()), |doubt| write!(out, " ({doubt})"))
    }
}

/// How many times one number is another, as a sentence says it: two digits, and two decimals near one.
pub fn times(ratio: f64) -> String {
    if (0.9..1.1).contains(&ratio) { format!("{ratio:.2}") } else { significant(ratio, Unit::One, 2) }
}

/// The same behind a sign: `×1.7`.
pub fn by_times(ratio: f64) -> String {
    format!("×{}", times(ratio))
}

/// A number along an axis, with as few digits as it needs: `64 KiB`, `2.5 µs`.
pub fn mark(value: f64, unit: Unit) -> String {
    let (factor, symbol) = scale(value, unit);
    // A size that is no round number of KiB is read best in bytes, such as that of a packet: 1400 B.
    let quarters = value / factor * 4.0;
    if unit == Unit::Bytes && value < 1e5 && (quarters - quarters.round()).abs() > 1e-9 {
        return format!("{value} B");
    }
    let short = format!("{}", (value / factor * 1e6).round() / 1e6);
    if symbol.is_empty() { short } else { format!("{short} {symbol}") }
}

/// Four significant digits, without an exponent where people would not use one.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor() as i32;
    if !(-4..12).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let decimals = (3 - magnitude).max(0) as usize;
    let text = format!("{value:.decimals$}");
    // Rounding may have carried into a new digit (9.9996 → 10.000): one decimal less then.
    let digits = text.chars().filter(char::is_ascii_digit).collect::<String>();
    if digits.trim_start_matches('0').len() > 4 && decimals > 0 {
        let fewer = decimals - 1;
        return format!("{value:.fewer$}");
    }
    text
}

/// A text that begins with a capital letter.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A share as a percentage: `0.4 %`.
pub fn percent(share: f64) -> String {
    if !share.is_finite() {
        return NOTHING.to_owned();
    }
    format!(
        "{} %",
        if share.abs() < 0.0995 { format!("{:.2}", share * 100.0) } else { format!("{:.0}", share * 100.0) }
    )
}

/// A share in a sentence: two digits, of which a zero behind the point is left out.
pub fn share(part: f64) -> String {
    if !part.is_finite() {
        return NOTHING.to_owned();
    }
    let text = significant(part * 100.0, Unit::One, 2);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} %")
}

/// A factor between two figures: `×1.13`.
pub fn factor(ratio: f64) -> String {
    format!("×{}", if ratio >= 100.0 { format!("{ratio:.0}") } else { format!("{ratio:.2}") })
}

/// A duration in seconds, as people say it: `0.8 s`, `42 s`, `3 min 10 s`.
pub fn duration(seconds: f64) -> String {
    if seconds < 9.95 {
        format!("{seconds:.1} s")
    } else if seconds < 179.5 {
        format!("{seconds:.0} s")
    } else {
        let whole = seconds.round() as u64;
        format!("{} min {} s", whole / 60, whole % 60)
    }
}

/// A number of launches, such as `1 launch` or `30 launches`.
pub fn launches(number: usize) -> String {
    count(number as u64, "launch", "launches")
}

/// The first names of a list, and how many more there are: `a, b and 3 more`.
pub fn some<S: AsRef<str>>(names: &[S], most: usize) -> String {
    let shown: Vec<&str> = names.iter().take(most).map(AsRef::as_ref).collect();
    let rest = names.len() - shown.len();
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    shown.join(", ") + &more
}

/// A count with its noun: `1 launch`, `30 launches`.
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_names_say_how_many_follow() {
        assert_eq!(some(&["a", "b", "c"], 2), "a, b and 1 more");
        assert_eq!(some(&["a", "b"], 2), "a, b");
    }

    #[test]
    fn four_digits_and_a_prefix() {
        assert_eq!(quantity(104.93, Unit::Nanoseconds), "104.9 ns");
        assert_eq!(quantity(0.2711, Unit::Nanoseconds), "0.2711 ns");
        assert_eq!(quantity(34_912.0, Unit::Nanoseconds), "34.91 µs");
        assert_eq!(quantity(2_599_998_000.0, Unit::Hertz), "2.600 GHz");
        assert_eq!(quantity(32768.0, Unit::Bytes), "32.00 KiB");
        assert_eq!(quantity(12.4e9, Unit::BytesPerSecond), "12.40 GB/s");
        assert_eq!(quantity(999.99, Unit::Nanoseconds), "1.000 µs");
        assert_eq!(quantity(4.0, Unit::Cycles), "4.000 cycles");
        assert_eq!(quantity(13_339.0, Unit::Cycles), "13339 cycles");
    }

    #[test]
    fn both_ends_of_an_interval_share_a_scale() {
        assert_eq!(interval([35.02, 35.14], Unit::Nanoseconds), "35.02 … 35.14 ns");
        assert_eq!(interval([990.0, 1010.0], Unit::Nanoseconds), "0.9900 … 1.010 µs");
        assert_eq!(interval([3.0, 3.0], Unit::Cycles), "3.000 … 3.000 cycles");
        assert_eq!(interval([1e6, 2e6], Unit::Hertz), "1.000 … 2.000 MHz");
    }

    #[test]
    fn sentences_begin_with_a_capital() {
        assert_eq!((capital("a trip").as_str(), capital("").as_str()), ("A trip", ""));
    }

    #[test]
    fn words_for_shares_durations_and_counts() {
        assert_eq!(percent(0.004), "0.40 %");
        assert_eq!(percent(0.5), "50 %");
        assert_eq!([0.05, 0.0443, 0.0001, 0.88, 1.0].map(share), ["5 %", "4.4 %", "0.01 %", "88 %", "100 %"]);
        assert_eq!(duration(0.83), "0.8 s");
        assert_eq!(duration(120.3), "120 s");
        assert_eq!(duration(179.9), "3 min 0 s");
        assert_eq!(duration(190.0), "3 min 10 s");
        assert_eq!(count(1, "launch", "launches"), "1 launch");
        assert_eq!(factor(1.126), "×1.13");
    }

    #[test]
    fn digits_follow_the_interval() {
        let ns = Unit::Nanoseconds;
        assert_eq!(measured(104.932, [104.930, 104.934], ns), "104.9 ns", "never more than four");
        assert_eq!(measured(104.93, [104.88, 104.98], ns), "104.9 ns");
        assert_eq!(measured(104.9, [99.9, 109.9], ns), "104.9 ns");
        assert_eq!(measured(374.0, [300.0, 440.0], ns), "374 ns");
        assert_eq!(measured(2.596e9, [2.596e9, 2.596e9], Unit::Hertz), "2.596 GHz", "no width, four digits");
        assert_eq!(measured(9.9996, [9.0, 11.0], ns), "10 ns");
        assert_eq!(measured(13_339.0, [13_300.0, 13_380.0], Unit::Cycles), "13339 cycles");
        assert_eq!(measured(13_339.0, [11_300.0, 15_380.0], Unit::Cycles), "13300 cycles");
        assert_eq!(measured_interval(104.9, [99.9, 109.9], ns), "99.9 … 109.9 ns");
        assert_eq!(measured_interval(33_512.0, [33_400.0, 33_600.0], ns), "33.40 … 33.60 µs");
        assert_eq!(measured_number(1.8992, [1.8990, 1.8995]), "1.899");
        assert_eq!(measured(0.0, [0.0, 0.0], ns), "0 ns");
    }

    #[test]
    fn sentences_show_two_or_three_digits() {
        let ns = Unit::Nanoseconds;
        let shown = |value, interval, unit| Shown::measured(value, interval, unit).to_string();
        assert_eq!(shown(31_832.0, [31_000.0, 32_600.0], ns), "31.8 µs");
        assert_eq!(shown(31_832.0, [28_000.0, 35_600.0], ns), "32 µs");
        assert_eq!(shown(154.6, [140.0, 170.0], ns), "155 ns");
        assert_eq!(shown(3.694e9, [3.694e9, 3.694e9], Unit::Hertz), "3.69 GHz");
        assert_eq!(Shown::of(13_339.0, Unit::Cycles).to_string(), "13300 cycles");
        assert_eq!(Shown::of(67_108_864.0, Unit::Bytes).to_string(), "64 MiB");
        assert_eq!(Shown::of(66_771_353.0, Unit::Bytes).to_string(), "63.7 MiB");
        assert_eq!(Shown::of(999.7, ns).to_string(), "1.00 µs");
        assert_eq!(Shown::of(9.996, ns).to_string(), "10.0 ns");
        assert_eq!(Shown::of(0.0, ns).to_string(), "0 ns");
        assert_eq!(Shown::of(31_832.0, ns).at_least(true).to_string(), "at least 31.8 µs");
        let (large, small) = (Shown::of(31_832.0, ns), Shown::of(18_963.0, ns));
        assert_eq!((large.value, small.value), (31_800.0, 19_000.0));
        assert_eq!(by_times(large.value / small.value), "×1.7");
        assert_eq!([0.231, 0.96, 1.04, 1.1, 9.96, 168.0].map(times), ["0.23", "0.96", "1.04", "1.1", "10", "170"]);
    }

    #[test]
    fn marks_on_axes_are_short() {
        assert_eq!(mark(65536.0, Unit::Bytes), "64 KiB");
        assert_eq!(mark(2500.0, Unit::Nanoseconds), "2.5 µs");
        assert_eq!(mark(3.0, Unit::One), "3");
        assert_eq!(mark(0.1 + 0.2, Unit::Nanoseconds), "0.3 ns");
    }

    #[test]
    fn carried_digits_lose_a_decimal() {
        assert_eq!(number(9.99996), "10.00");
        assert_eq!(number(0.0), "0");
        assert_eq!(number(-3.25), "-3.250");
    }
}
