//! Sizes and frequencies in words.

/// Bytes with a binary unit: exact multiples without decimals, others with one.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let Some(power) = (count >= 1024).then(|| (count.ilog2() / 10) as usize) else { return format!("{count} B") };
    let unit = UNITS[power - 1];
    let size = 1u64 << (10 * power);
    if count.is_multiple_of(size) {
        format!("{} {unit}", count / size)
    } else {
        format!("{:.1} {unit}", count as f64 / size as f64)
    }
}

/// A frequency in GHz or MHz, to a kilohertz.
pub(super) fn hertz(hertz: f64) -> String {
    let (scaled, unit, decimals) = if hertz >= 1e9 { (hertz / 1e9, "GHz", 6) } else { (hertz / 1e6, "MHz", 3) };
    let text = format!("{scaled:.decimals$}");
    // Two decimals always stay, as in the names of products.
    let shortest = text.find('.').map_or(text.len(), |point| point + 3);
    let trimmed = text.trim_end_matches('0').len().max(shortest);
    format!("{} {unit}", &text[..trimmed])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (4096, "4 KiB"),
            (48 << 10, "48 KiB"),
            (1280 << 10, "1.2 MiB"),
            (16 << 30, "16 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn frequencies_keep_two_decimals_at_least() {
        for (value, text) in [(2.6e9, "2.60 GHz"), (2_591_998_000.0, "2.591998 GHz"), (25e6, "25.00 MHz")] {
            assert_eq!(hertz(value), text);
        }
    }
}
