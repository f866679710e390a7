//! The text of a log: plain while a run is in progress, compressed in the directory of a complete one. The first bytes show which.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

use crate::results::problem::Problem;

/// First bytes of compressed text (RFC 1952).
const MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Most bytes of text that a compressed log may become, in GiB.
const MOST_GIB: u64 = 4;
/// Most bytes of a line, in MiB: those of a run have less than one.
const MOST_LINE_MIB: u64 = 64;

/// Text that is read from a file.
pub(super) struct Text {
    path: PathBuf,
    reader: BufReader<Box<dyn Read>>,
    is_compressed: bool,
}

/// One line.
pub(super) struct Line {
    /// Its bytes, without the line break.
    pub bytes: Vec<u8>,
    /// Whether it has its line break.
    pub whole: bool,
}

impl Text {
    pub fn open(path: &Path) -> Result<Self, Problem> {
        let mut file = File::open(path).map(BufReader::new).map_err(|error| unreadable(path, &error))?;
        let is_compressed = file.fill_buf().map_err(|error| unreadable(path, &error))?.starts_with(&MAGIC);
        let reader: Box<dyn Read> = if is_compressed {
            Box::new(Bounded { inner: MultiGzDecoder::new(file), left: MOST_GIB << 30 })
        } else {
            Box::new(file)
        };
        Ok(Text { path: path.to_path_buf(), reader: BufReader::new(reader), is_compressed })
    }

    /// The next line. None at the end.
    pub fn line(&mut self) -> Result<Option<Line>, Problem> {
        let mut bytes = Vec::new();
        let most = MOST_LINE_MIB << 20;
        let length =
            (&mut self.reader).take(most).read_until(b'\n', &mut bytes).map_err(|error| self.problem(&error))?;
        let whole = bytes.last() == Some(&b'\n');
        if !whole && length as u64 == most {
            return Err(self.too_large(&format!("a line of {MOST_LINE_MIB} MiB or more")));
        }
        if whole {
            bytes.pop();
        }
        Ok((length > 0).then_some(Line { bytes, whole }))
    }

    /// Hands every piece of the text on.
    pub fn each_piece(mut self, mut take: impl FnMut(&[u8])) -> Result<(), Problem> {
        loop {
            let piece = match self.reader.fill_buf() {
                Ok(piece) => piece,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.problem(&error)),
            };
            let length = piece.len();
            if length == 0 {
                return Ok(());
            }
            take(piece);
            self.reader.consume(length);
        }
    }

    fn problem(&self, error: &io::Error) -> Problem {
        match error.kind() {
            ErrorKind::FileTooLarge => self.too_large(&format!("more than {MOST_GIB} GiB of text")),
            ErrorKind::UnexpectedEof if self.is_compressed => self.damaged("it ends too early"),
            ErrorKind::InvalidInput | ErrorKind::InvalidData if self.is_compressed => self.damaged(&error.to_string()),
            _ => unreadable(&self.path, error),
        }
    }

    fn damaged(&self, why: &str) -> Problem {
        Problem::new(format!("the compressed log {} is damaged: {why}", self.path.display()))
            .hint("restore the file from a copy. The node.json of the run also has its results")
    }

    fn too_large(&self, what: &str) -> Problem {
        Problem::new(format!("the log {} is not read, because it has {what}", self.path.display()))
            .hint("a run does not write such a log. Restore the file from a copy")
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Problem {
    Problem::new(format!("cannot read the log {}: {error}", path.display()))
        .hint("give a run directory of `sysdyno run`, or the log in it")
}

/// A reader of at most this many bytes. More are an error.
struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(into)?;
        self.left = self.left.checked_sub(length as u64).ok_or(ErrorKind::FileTooLarge)?;
        Ok(length)
    }
}

/// Whether a log is compressed: nothing can be appended to it then.
pub fn is_compressed(path: &Path) -> bool {
    let mut first = [0; MAGIC.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok() && first == MAGIC
}

/// The compressed bytes of a plain log: the same for the same text.
pub fn compressed(path: &Path) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    io::copy(&mut File::open(path)?, &mut encoder)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn compressed_text_is_the_same_text() {
        let keep = tempfile::tempdir().unwrap();
        let [plain, small] = ["log.jsonl", "log.jsonl.gz"].map(|name| keep.path().join(name));
        let text = "one\n\ntwo\nthree";
        fs::write(&plain, text).unwrap();
        fs::write(&small, compressed(&plain).unwrap()).unwrap();
        assert_eq!(compressed(&plain).unwrap(), fs::read(&small).unwrap(), "the same each time");
        assert_eq!(fs::read(&small).unwrap()[4..8], [0; 4], "no time");
        assert!(is_compressed(&small) && !is_compressed(&plain) && !is_compressed(keep.path()));
        for place in [&plain, &small] {
            let mut read = Text::open(place).unwrap();
            let mut lines = Vec::new();
            while let Some(line) = read.line().unwrap() {
                lines.push((String::from_utf8(line.bytes).unwrap(), line.whole));
            }
            let expected = [("one", true), ("", true), ("two", true), ("three", false)];
            assert_eq!(lines, expected.map(|(line, whole)| (line.to_owned(), whole)));
            let mut all = Vec::new();
            Text::open(place).unwrap().each_piece(|piece| all.extend_from_slice(piece)).unwrap();
            assert_eq!(all, text.as_bytes());
        }
    }

    #[test]
    fn more_than_a_bound_is_an_error_and_no_end() {
        let text = [b'x'; 100];
        let mut read = Vec::new();
        Bounded { inner: &text[..], left: 100 }.read_to_end(&mut read).unwrap();
        assert_eq!(read, text);
        let error = Bounded { inner: &text[..], left: 99 }.read_to_end(&mut Vec::new()).unwrap_err();
        let keep = tempfile::tempdir().unwrap();
        let place = keep.path().join("log.jsonl");
        fs::write(&place, "").unwrap();
        let problem = Text::open(&place).unwrap().problem(&error);
        assert!(problem.what.contains("more than 4 GiB of text") && problem.hint.is_some(), "{problem}");
    }
}
