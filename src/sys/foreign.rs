//! Words that come from elsewhere: a log that was mailed, another machine, a server, the name of a mount. On a terminal a word can
//! be an order: clear the screen, change the title, answer as if the user had typed. A letter that is such an order, or that
//! turns the direction of what follows, is replaced wherever text reaches a terminal.

use std::borrow::Cow;
use std::fmt::Write;

/// What stands in the place of a letter that is none.
const REPLACED: char = '\u{fffd}';

/// Text as a terminal may show it. Lines and tabs stay, as the layout needs them; so do all letters of all scripts.
pub fn shown(text: &str) -> Cow<'_, str> {
    if text.chars().all(|letter| letter == '\n' || letter == '\t' || !is_order(letter)) {
        return Cow::Borrowed(text);
    }
    let safe = |letter| if letter == '\n' || letter == '\t' || !is_order(letter) { letter } else { REPLACED };
    Cow::Owned(text.chars().map(safe).collect())
}

/// The same of JSON, where nothing gets lost: such letters stand in strings only, and have escapes there.
pub fn escaped(json: &str) -> Cow<'_, str> {
    let is_plain = |letter: char| letter.is_ascii_whitespace() || !is_order(letter);
    if json.chars().all(is_plain) {
        return Cow::Borrowed(json);
    }
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        if is_plain(letter) {
            text.push(letter);
        } else {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
    }
    Cow::Owned(text)
}

/// Whether a letter is an order to the program that shows it. Such are controls (C0, DEL, C1), marks and turns of the writing
/// direction, and separators that break lines where the layout has none. Invisible letters that hide in a name are such, too.
fn is_order(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{061c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_to_a_terminal_are_replaced() {
        for order in [
            "\u{1b}]0;title\u{7}",
            "\u{1b}[2J",
            "\u{9b}31m",
            "a\u{8}b",
            "\rover",
            "\u{7f}",
            "\u{90}q",
            "\u{202e}txt",
            "\u{2066}x",
            "\u{200b}",
            "\u{feff}",
        ] {
            let safe = shown(order);
            assert!(!safe.chars().any(is_order) && safe.contains(REPLACED), "{order:?}: {safe:?}");
        }
    }

    #[test]
    fn words_lines_and_scripts_stay() {
        for plain in ["", "a b\n\tc", "µs … ×1.13 ═─·", "größer 機械 машина", "क्‍ष", "👩‍💻"]
        {
            assert!(matches!(shown(plain), Cow::Borrowed(same) if same == plain), "{plain}");
        }
    }

    #[test]
    fn json_keeps_what_it_says() {
        let value = serde_json::json!({"a\u{9b}": "b\u{7f}\u{202e}\u{1b}\u{e0001}\nc"});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let safe = escaped(&text);
        assert!(safe.chars().all(|letter| letter.is_ascii_whitespace() || !is_order(letter)), "{safe:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
    }
}
