//! Values of options: durations, intervals, labels, CPUs, bytes.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};

use crate::conduct::mesh::networks::NetworkChoice;
use crate::machine::CpuList;

/// Longest time limit: a day, in seconds.
const LONGEST: f64 = 86_400.0;

/// Seconds in `90`, `90s`, `5m`, `1h`.
pub(super) fn parse_duration(text: &str) -> Result<f64, String> {
    let (digits, unit) = match text.find(|letter: char| letter.is_ascii_alphabetic()) {
        Some(end) => text.split_at(end),
        None => (text, "s"),
    };
    let factor = match unit {
        "ms" => 1e-3,
        "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("'{unit}' is not a valid unit of time. Use s, m or h, as in 90s or 5m")),
    };
    match digits.trim().parse::<f64>() {
        Ok(number) if number > 0.0 && number * factor <= LONGEST => Ok(number * factor),
        Ok(number) if number > 0.0 => Err("a time limit is at most 24h".to_owned()),
        _ => Err("a time limit is a positive number of seconds, or one with s, m or h, as in 90s or 5m".to_owned()),
    }
}

/// Intervals of a monitor in seconds. Shorter ones hold few looks, and reporting costs more than looking. All looks of an interval
/// are kept until it ends, so longer ones would take much memory.
const INTERVALS: RangeInclusive<f64> = 0.5..=600.0;

pub(super) fn parse_interval(text: &str) -> Result<f64, String> {
    let seconds = parse_duration(text)?;
    INTERVALS.contains(&seconds).then_some(seconds).ok_or_else(|| "an interval is 500ms to 10m".to_owned())
}

/// Names of formats, which are typed where a directory is expected.
const FORMATS: [&str; 7] = ["json", "html", "markdown", "text", "csv", "compact", "junit"];

/// A directory that is written to. `-` and the name of a format are meant for another option. `instead` is the sentence that names it.
pub(super) fn new_directory(instead: &'static str) -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(move |place| match place.to_str() {
        Some(name) if name == "-" || FORMATS.contains(&name) => {
            Err(format!("a directory is written. {instead} For a directory of this name write ./{name}"))
        }
        _ => Ok(place),
    })
}

/// A label of a node: `rack=r12`.
pub(super) fn parse_label(text: &str) -> Result<(String, String), String> {
    let is_key = |key: &str| {
        (1..=32).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
    };
    let is_value = |value: &str| (1..=128).contains(&value.len()) && !value.contains(char::is_control);
    text.split_once('=')
        .filter(|(key, value)| is_key(key) && is_value(value))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or_else(|| "a label is a key and a value, such as rack=r12".to_owned())
}

/// A network of this node.
pub(super) fn parse_network(text: &str) -> Result<NetworkChoice, String> {
    NetworkChoice::of(text)
}

pub(super) fn parse_cpus(text: &str) -> Result<CpuList, String> {
    CpuList::parse(text).filter(|list| !list.is_empty()).ok_or_else(|| "a list of CPUs, such as 0 or 0-3,8".to_owned())
}

/// Bytes in `4096`, `500M`, `10G`: decimal prefixes, as rates of networks have them.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let (digits, factor) =
        match text.trim_end_matches('B').split_at_checked(text.trim_end_matches('B').len().saturating_sub(1)) {
            Some((digits, "k" | "K")) => (digits, 1_000),
            Some((digits, "M")) => (digits, 1_000_000),
            Some((digits, "G")) => (digits, 1_000_000_000),
            _ => (text, 1),
        };
    let number = digits.parse::<u64>().ok().filter(|&number| number > 0);
    number
        .and_then(|number| number.checked_mul(factor))
        .ok_or_else(|| "a number of bytes, such as 500M or 10G".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::*;

    #[test]
    fn a_directory_is_not_standard_output_and_not_a_format() {
        let parse = |name: &str| {
            let command =
                Command::new("sysdyno").arg(Arg::new("DIR").value_parser(new_directory("Did you mean `--json -`?")));
            command.try_get_matches_from(["sysdyno", name]).map_err(|error| error.to_string())
        };
        for wrong in ["-", "json", "html"] {
            let why = parse(wrong).unwrap_err();
            assert!(why.contains("Did you mean `--json -`?") && why.contains(&format!("./{wrong}")), "{why}");
        }
        for right in ["./-", "./json", "runs", "json-runs"] {
            assert!(parse(right).is_ok(), "{right}");
        }
    }

    #[test]
    fn bytes_have_prefixes() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("500M"), Ok(500_000_000));
        assert_eq!(parse_bytes("10GB"), Ok(10_000_000_000));
        for wrong in ["", "0", "G", "1T", "-1", "99999999999G"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn intervals_and_lists_of_cpus_are_checked() {
        assert_eq!(parse_interval("500ms"), Ok(0.5));
        assert_eq!(parse_interval("10m"), Ok(600.0));
        for wrong in ["100ms", "11m", "0", "x", "-1s"] {
            assert!(parse_interval(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_cpus("0-1,4").unwrap().len(), 3);
        for wrong in ["", ",", "x", "-1", "3-1"] {
            assert!(parse_cpus(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(parse_duration("90"), Ok(90.0));
        assert_eq!(parse_duration("1.5m"), Ok(90.0));
        assert_eq!(parse_duration("2h"), Ok(7200.0));
        assert!(parse_duration("0s").is_err());
        assert!(parse_duration("25h").is_err());
        assert!(parse_duration("1e300").is_err());
        assert!(parse_duration("5 parsecs").is_err());
        assert!(parse_duration("").is_err());
    }
}
