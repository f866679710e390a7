//! Names of results that every form permits, and text that cannot end the line or the element that it is in.

use std::fmt::Write;

use crate::results::quantity::Labels;
use crate::sys::foreign;

/// A result: its metric, and each label after a slash. Letters that are not plain are percent-encoded, so two results never share
/// a name and nothing of it is special to a form.
pub(super) fn name(metric: &str, labels: &str) -> String {
    let mut name = encoded(metric);
    for (key, value) in pairs(labels) {
        // Writing to a string cannot fail.
        let _ = write!(name, "/{}={}", encoded(&key), encoded(&value));
    }
    name
}

/// The pairs of a text of labels. Text that is none is one label.
pub(super) fn pairs(labels: &str) -> Vec<(String, String)> {
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    match Labels::parse(labels) {
        Some(labels) => labels.pairs().map(owned).collect(),
        None => vec![owned(("label", labels))],
    }
}

/// Text of letters and digits, full stops, underlines and, not at its beginning, hyphens. Everything else is percent-encoded.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for (position, byte) in text.bytes().enumerate() {
        if byte.is_ascii_alphanumeric() || b"._".contains(&byte) || (byte == b'-' && position > 0) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Text in one line, without letters that a terminal obeys.
pub(super) fn one_line(text: &str) -> String {
    foreign::shown(text).replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_differ() {
        assert_eq!(name("cpu.timer.overhead", ""), "cpu.timer.overhead");
        assert_eq!(name("a.b_c", "args=3 chain=latency"), "a.b_c/args=3/chain=latency");
        assert_eq!(name("a", "size=1.5MiB path=near-far"), "a/path=near-far/size=1.5MiB", "ordered by key");
        let hostile =
            ["a=b/c=d", "a=b%2Fc%3Dd", "a=b c=d", "a=b c", "a=b\nc=d", "a=\"b", "a=b,c", "=1", "a=", "a=-1", "ä=µ"];
        let names: std::collections::BTreeSet<String> = hostile.iter().map(|labels| name("m", labels)).collect();
        assert_eq!(names.len(), hostile.len(), "{names:?}");
        for name in names {
            assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-%/=".contains(&byte)), "{name}");
        }
        assert_eq!(encoded("=HYPERLINK()"), "%3DHYPERLINK%28%29");
        assert_eq!(encoded("-1-2"), "%2D1-2");
    }

    #[test]
    fn blanks_belong_to_values() {
        let owned = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(pairs("a=b c d=e"), [owned("a", "b c"), owned("d", "e")]);
        assert_eq!(pairs("word"), [owned("label", "word")]);
        assert_eq!(pairs(""), []);
    }

    #[test]
    fn a_line_stays_one_line() {
        assert_eq!(one_line("a\nb\tc\u{1b}[2J\r\u{2028}"), "a b c\u{fffd}[2J\u{fffd}\u{fffd}");
    }
}
