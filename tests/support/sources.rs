//! The project's own source files, split into code and string literals, for tests that read them.

use std::fs;
use std::path::Path;

use super::trees::files;

/// One source file.
pub struct Source {
    /// Path below `src/`, such as `cli/run.rs`.
    pub path: String,
    /// The whole text.
    pub text: String,
    /// The text with comments and the insides of string and character literals blanked; line breaks are kept.
    pub code: String,
    /// String literals with the lines (from 1) on which they begin.
    pub strings: Vec<(usize, String)>,
    /// Line (from 1) from which on there are only tests; past the end when there are none.
    pub tests_from: usize,
}

impl Source {
    /// First part of the path: the module of the crate that the file belongs to.
    pub fn module(&self) -> &str {
        self.path.split('/').next().unwrap_or_default().trim_end_matches(".rs")
    }

    /// Path inside the crate, such as `["cli", "run"]`; `mod.rs` is its directory.
    pub fn module_path(&self) -> Vec<&str> {
        let mut parts: Vec<&str> = self.path.trim_end_matches(".rs").split('/').collect();
        if parts.last() == Some(&"mod") {
            parts.pop();
        }
        parts
    }

    /// Lines of code without tests.
    pub fn working_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
            .take_while(|(line, _)| *line < self.tests_from)
    }
}

/// Every file under `src/`.
pub fn all() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    files(&root)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            source(path.strip_prefix(&root).unwrap().to_string_lossy().into_owned(), text)
        })
        .collect()
}

/// One file from its text.
pub fn source(path: String, text: String) -> Source {
    let (code, strings) = split(&text);
    let tests_from = code.lines().position(|line| line.trim() == "#[cfg(test)]").map_or(usize::MAX, |index| index + 1);
    Source { path, text, code, strings, tests_from }
}

/// Code with blanked comments and literals, and the string literals.
fn split(text: &str) -> (String, Vec<(usize, String)>) {
    let (mut code, mut strings, mut rest) = (String::with_capacity(text.len()), Vec::new(), text);
    let mut line = 1;
    while !rest.is_empty() {
        let taken = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some((opening, closing)) = raw_string(rest, &code) {
            let end = rest[opening..].find(&closing).map_or(rest.len(), |end| opening + end);
            strings.push((line, rest[opening..end].to_owned()));
            (end + closing.len()).min(rest.len())
        } else if let Some(literal) = rest.strip_prefix('"') {
            let end = end_of_literal(literal, '"');
            strings.push((line, literal[..end].to_owned()));
            (end + 2).min(rest.len())
        } else if is_character(rest) {
            (2 + end_of_literal(&rest[1..], '\'')).min(rest.len())
        } else {
            let letter = rest.chars().next().unwrap_or(' ');
            code.push(letter);
            line += usize::from(letter == '\n');
            rest = &rest[letter.len_utf8()..];
            continue;
        };
        line += rest[..taken].matches('\n').count();
        code.extend(rest[..taken].chars().map(|letter| if letter == '\n' { '\n' } else { ' ' }));
        rest = &rest[taken..];
    }
    (code, strings)
}

/// Length of the opening and text of the closing of a raw string that begins here.
fn raw_string(rest: &str, before: &str) -> Option<(usize, String)> {
    let inside_a_word = before.ends_with(|letter: char| letter.is_alphanumeric() && letter != 'b' || letter == '_');
    let hashes = rest.strip_prefix('r')?.chars().take_while(|&letter| letter == '#').count();
    (!inside_a_word && rest[1 + hashes..].starts_with('"')).then(|| (hashes + 2, format!("\"{}", "#".repeat(hashes))))
}

/// Bytes up to the closing quote, escapes skipped.
fn end_of_literal(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (position, letter) in rest.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if letter == quote => return position,
            _ => {}
        }
    }
    rest.len()
}

/// A character literal, not a lifetime.
fn is_character(rest: &str) -> bool {
    let mut letters = rest.chars();
    letters.next() == Some('\'') && (letters.next() == Some('\\') || letters.next() == Some('\''))
}
