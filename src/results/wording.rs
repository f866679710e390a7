//! Numbers as people read them. Every rendering uses these, so that one figure never has two spellings (gate G3).

use super::quantity::Unit;

/// A number with its unit, scaled to a readable size: four significant digits, decimal prefixes for times, frequencies and
/// rates, binary ones for sizes.
pub fn quantity(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Nanoseconds => scaled(value, &[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")]),
        Unit::Hertz => scaled(value, &[(1.0, "Hz"), (1e3, "kHz"), (1e6, "MHz"), (1e9, "GHz")]),
        Unit::Bytes => {
            const KIB: f64 = 1024.0;
            scaled(value, &[(1.0, "B"), (KIB, "KiB"), (KIB * KIB, "MiB"), (KIB * KIB * KIB, "GiB")])
        }
        Unit::BytesPerSecond => scaled(value, &[(1.0, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s")]),
        Unit::Cycles => format!("{} cycles", number(value)),
        Unit::Ticks => format!("{} ticks", number(value)),
        Unit::One => number(value),
    }
}

/// An interval with its unit, both ends in the scale of the larger one: `35.02 … 35.14 ns`.
pub fn interval(ends: [f64; 2], unit: Unit) -> String {
    let high = quantity(ends[1], unit);
    let Some((number_high, symbol)) = high.split_once(' ') else { return format!("{} … {high}", number(ends[0])) };
    let factor = if ends[1].abs() > 0.0 { ends[1] / number_high.parse::<f64>().unwrap_or(ends[1]) } else { 1.0 };
    // The factor is a power of ten or of two up to the rounding of the printed digits.
    let exact = quantity_factor(factor, unit);
    format!("{} … {} {symbol}", number(ends[0] / exact), number(ends[1] / exact))
}

fn quantity_factor(near: f64, unit: Unit) -> f64 {
    let base: f64 = if unit == Unit::Bytes { 1024.0 } else { 1000.0 };
    base.powi((near.max(1.0).ln() / base.ln()).round() as i32)
}

fn scaled(value: f64, scales: &[(f64, &str)]) -> String {
    // 999.96 of one unit prints as 1000 with four digits: it belongs to the next.
    let found = scales.iter().rev().find(|(scale, _)| value.abs() >= scale * 0.999_95).unwrap_or(&scales[0]);
    format!("{} {}", number(value / found.0), found.1)
}

/// Four significant digits, without an exponent where people would not use one.
pub fn number(value: f64) -> String {
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

/// A share as a percentage: `0.4 %`.
pub fn percent(share: f64) -> String {
    format!(
        "{} %",
        if share.abs() < 0.0995 { format!("{:.2}", share * 100.0) } else { format!("{:.0}", share * 100.0) }
    )
}

/// A factor between two figures: `×1.13`.
pub fn factor(ratio: f64) -> String {
    format!("×{}", if ratio >= 100.0 { format!("{ratio:.0}") } else { format!("{ratio:.2}") })
}

/// A duration in seconds, as people say it: `0.8 s`, `42 s`, `3 min 10 s`.
pub fn duration(seconds: f64) -> String {
    if seconds < 9.95 {
        format!("{seconds:.1} s")
    } else if seconds < 119.5 {
        format!("{seconds:.0} s")
    } else {
        format!("{} min {} s", (seconds / 60.0) as u64, (seconds % 60.0) as u64)
    }
}

/// A count with its noun: `1 launch`, `30 launches`.
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn words_for_shares_durations_and_counts() {
        assert_eq!(percent(0.004), "0.40 %");
        assert_eq!(percent(0.5), "50 %");
        assert_eq!(duration(0.83), "0.8 s");
        assert_eq!(duration(190.0), "3 min 10 s");
        assert_eq!(count(1, "launch", "launches"), "1 launch");
        assert_eq!(factor(1.126), "×1.13");
    }

    #[test]
    fn carried_digits_lose_a_decimal() {
        assert_eq!(number(9.99996), "10.00");
        assert_eq!(number(0.0), "0");
        assert_eq!(number(-3.25), "-3.250");
    }
}
