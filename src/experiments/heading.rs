//! The comment at the beginning of a source file, which is the methodology text of an experiment. Found while the program is
//! compiled, so that the code below it is not in the binary as text.

/// The leading `//!` comment of a source file, with its markers.
macro_rules! heading {
    ($file:literal) => {{
        const SOURCE: &str = include_str!($file);
        const HEADING: [u8; $crate::experiments::heading::length(SOURCE)] =
            $crate::experiments::heading::beginning(SOURCE);
        match std::str::from_utf8(&HEADING) {
            Ok(heading) => heading,
            Err(_) => panic!("a comment ends within a letter"),
        }
    }};
}
pub(crate) use heading;

/// Bytes of the lines that begin a source file with `//!`.
pub const fn length(source: &str) -> usize {
    let bytes = source.as_bytes();
    let mut end = 0;
    while end + 3 <= bytes.len() && bytes[end] == b'/' && bytes[end + 1] == b'/' && bytes[end + 2] == b'!' {
        while end < bytes.len() && bytes[end] != b'\n' {
            end += 1;
        }
        // The line break, which the last line of a file may lack.
        if end < bytes.len() {
            end += 1;
        }
    }
    end
}

/// The first `LENGTH` bytes of a source file, which has at least as many.
pub const fn beginning<const LENGTH: usize>(source: &str) -> [u8; LENGTH] {
    let bytes = source.as_bytes();
    let mut found = [0; LENGTH];
    let mut index = 0;
    while index < LENGTH {
        found[index] = bytes[index];
        index += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_leading_comment_is_kept() {
        for (source, heading) in [
            ("//! é\n//!\n\nuse x;\n//! y\n", "//! é\n//!\n"),
            ("//! a", "//! a"),
            ("use x;", ""),
            ("", ""),
            ("//", ""),
        ] {
            assert_eq!(&source[..length(source)], heading);
        }
        assert_eq!(beginning::<5>("//! abc"), *b"//! a");
    }

    #[test]
    fn a_file_has_its_heading() {
        let heading = heading!("heading.rs");
        assert!(
            heading.starts_with("//! The comment at the beginning") && heading.ends_with("as text.\n"),
            "{heading}"
        );
    }
}
