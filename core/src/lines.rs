//! Lines of a file or a pipe, each with a limit: a stranger's file may be one line of many gigabytes.

use std::io::{self, BufRead, ErrorKind, Read};

/// Longest line that is read, in bytes.
pub const MAX_LINE: usize = 64 << 20;

/// A line of a file, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Counted from 1.
    pub number: usize,
    /// How many bytes stand before it.
    pub offset: u64,
    /// Its bytes, without the line feed and, at the start of a file, without a byte-order mark.
    pub bytes: Vec<u8>,
    /// Whether a line feed ended it; the last line of a file that a crash cut off has none.
    pub is_whole: bool,
}

/// A line that cannot be read: its number, counted from 1, and the reason.
#[derive(Debug, thiserror::Error)]
#[error("{number}: {why}")]
pub struct BadLine {
    /// Line number, counted from 1.
    pub number: usize,
    /// Why it cannot be read.
    pub why: String,
}

impl BadLine {
    fn unreadable(number: usize, error: &io::Error) -> Self {
        Self { number, why: format!("cannot be read: {error}") }
    }
}

/// Reads lines one by one.
pub struct Lines<R> {
    reader: R,
    number: usize,
    offset: u64,
    limit: usize,
}

impl<R: BufRead> Lines<R> {
    /// Lines of `reader`, of at most [`MAX_LINE`] bytes.
    pub fn new(reader: R) -> Self {
        Self::limited(reader, MAX_LINE)
    }

    /// Lines of `reader`, of at most `limit` bytes.
    pub fn limited(reader: R, limit: usize) -> Self {
        Self { reader, number: 0, offset: 0, limit }
    }

    /// The next line that has bytes. Those before it are counted but not made: a small packed file may hold a thousand
    /// million of them.
    pub fn next_filled(&mut self) -> Option<Result<Line, BadLine>> {
        loop {
            let empty = match self.reader.fill_buf() {
                Ok(bytes) => bytes.iter().take_while(|byte| **byte == b'\n').count(),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Some(Err(BadLine::unreadable(self.number + 1, &error))),
            };
            if empty == 0 {
                return self.next();
            }
            self.reader.consume(empty);
            self.number += empty;
            self.offset += empty as u64;
        }
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<Line, BadLine>;

    fn next(&mut self) -> Option<Self::Item> {
        let number = self.number + 1;
        let bad = |why: String| Some(Err(BadLine { number, why }));
        let mut bytes = Vec::new();
        let mut limited = self.reader.by_ref().take(self.limit as u64 + 1);
        match limited.read_until(b'\n', &mut bytes) {
            Ok(0) => return None,
            Ok(count) => self.offset += count as u64,
            Err(error) => return Some(Err(BadLine::unreadable(number, &error))),
        }
        self.number = number;
        let mut offset = self.offset - bytes.len() as u64;
        let is_whole = bytes.pop_if(|last| *last == b'\n').is_some();
        if bytes.len() > self.limit {
            // Nothing behind it is read either.
            self.limit = 0;
            return bad(format!("a line of more than {} bytes, the limit", bytes.len() - 1));
        }
        if number == 1 && bytes.starts_with(b"\xef\xbb\xbf") {
            bytes.drain(..3);
            offset += 3;
        }
        Some(Ok(Line { number, offset, bytes, is_whole }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_and_limited() {
        let read = |text: &'static [u8]| Lines::limited(text, 4).collect::<Vec<_>>();
        let lines = read(b"\xef\xbb\xbfa\n\nbcd");
        let seen: Vec<_> = lines
            .iter()
            .map(|line| {
                let line = line.as_ref().unwrap();
                (line.number, line.offset, &*line.bytes, line.is_whole)
            })
            .collect();
        assert_eq!(seen, [(1, 3, &b"a"[..], true), (2, 5, b"", true), (3, 6, b"bcd", false)]);
        assert_eq!(read(b"abcd\n").len(), 1);
        let mut filled = Lines::limited(&b"\n\nab\n\n\n\nc\n\n"[..], 4);
        for (number, offset, bytes) in [(3, 2, &b"ab"[..]), (7, 8, b"c")] {
            let line = filled.next_filled().unwrap().unwrap();
            assert_eq!((line.number, line.offset, &*line.bytes), (number, offset, bytes));
        }
        assert!(filled.next_filled().is_none());
        let lines = read(b"a\nbcdefgh\nc");
        let error = lines[1].as_ref().unwrap_err().to_string();
        assert!(error.starts_with("2: a line of more than 4 bytes"), "{error}");
    }
}
