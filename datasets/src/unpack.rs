//! Packed bytes (gzip, Zstandard, the members of a zip archive) unpacked within a limit: a small file that unpacks to a
//! huge one is refused.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::rc::Rc;

use flate2::read::MultiGzDecoder;

/// Bytes that any file may unpack to: so much of the shortest rows takes about 150 MB of memory.
const FREE: u64 = 4 << 20;
/// Beyond that, most unpacked bytes for each packed one. Text reaches thirty, completions that repeat themselves fifty
/// and generated rows that differ in a number a hundred.
const MAX_RATIO: u64 = 200;

/// Bytes of the start of a file that say what it is.
const START: u64 = 512;
/// The first bytes of files that are no text, what they are, and how they become readable.
const NO_TEXT: [(&[u8], &str); 16] = [
    (b"PK\x03\x04", "an archive: unpack it, or export a sheet as CSV"),
    (b"PAR1", "a Parquet file: name it .parquet"),
    (b"BZh", "compressed with bzip2: unpack it with bunzip2"),
    (b"\xfd7zXZ", "compressed with xz: unpack it with unxz"),
    (b"\xff\xfe", "UTF-16: save it as UTF-8"),
    (b"\xfe\xff", "UTF-16: save it as UTF-8"),
    (b"ARROW1", ARROW),
    (b"\xff\xff\xff\xff", ARROW),
    (b"\x80\x02", PICKLE),
    (b"\x80\x03", PICKLE),
    (b"\x80\x04", PICKLE),
    (b"\x80\x05", PICKLE),
    (b"\x93NUMPY", "a NumPy array: write it as JSON lines, CSV or Parquet"),
    (b"<!doctype html", PAGE),
    (b"<html", PAGE),
    (b"<?xml", PAGE),
];
const ARROW: &str = "an Arrow file: write it as JSON lines, CSV or Parquet";
const PICKLE: &str = "a Python pickle, which may run code: write it as JSON lines, CSV or Parquet";
const PAGE: &str =
    "an HTML or XML page, perhaps a server's error or login page: download the file itself";

/// A text that was opened: its start, and all of it.
pub type Opened<'a> = (Vec<u8>, Box<dyn BufRead + 'a>);

/// Opens a text, packed or not, without a byte-order mark.
///
/// # Errors
/// The outer error is of reading or unpacking; the inner one says why the file is refused (packed twice).
pub fn opened<'a>(reader: impl BufRead + 'a) -> io::Result<Result<Opened<'a>, &'static str>> {
    let (mut start, mut rest) = peeked(Box::new(reader))?;
    if let Some(packing) = Packing::detect(&start) {
        (start, rest) = peeked(packing.unpack(Cursor::new(start).chain(rest))?)?;
        if Packing::detect(&start).is_some() {
            return Ok(Err("packed twice: unpack it once"));
        }
    }
    if start.starts_with(b"\xef\xbb\xbf") {
        start.drain(..3);
    }
    Ok(Ok((start.clone(), Box::new(Cursor::new(start).chain(rest)))))
}

/// The start of a text, and what follows it.
fn peeked<'a>(mut reader: Box<dyn BufRead + 'a>) -> io::Result<Opened<'a>> {
    let mut start = Vec::new();
    reader.by_ref().take(START).read_to_end(&mut start)?;
    Ok((start, reader))
}

/// What a file is that begins so and is no text, and what to do.
pub fn no_text(start: &[u8]) -> Option<&'static str> {
    let lower = start.trim_ascii_start().to_ascii_lowercase();
    let is_it =
        |magic: &[u8]| start.starts_with(magic) || magic[0] == b'<' && lower.starts_with(magic);
    if start.get(257..262) == Some(b"ustar") {
        return Some("a tar archive: unpack it");
    }
    NO_TEXT.iter().find(|(magic, _)| is_it(magic)).map(|(_, what)| *what)
}

/// A kind of packing, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// `.gz`, one or several members.
    Gzip,
    /// `.zst`, one or several frames.
    Zstandard,
}

impl Packing {
    /// The packing of a file that begins so; none where it is not packed.
    pub fn detect(start: &[u8]) -> Option<Self> {
        match start {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstandard),
            _ => None,
        }
    }

    /// The bytes that `reader` unpacks to. A bomb, or a file that was cut off, ends them with an error.
    ///
    /// # Errors
    /// A decoder that cannot be made.
    pub fn unpack<'a>(self, reader: impl Read + 'a) -> io::Result<Box<dyn BufRead + 'a>> {
        let count = Rc::new(Cell::new(0));
        let packed = Counted { reader, count: count.clone() };
        let reader: Box<dyn Read + 'a> = match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(packed)),
            Self::Zstandard => Box::new(zstd::stream::read::Decoder::new(packed)?),
        };
        Ok(Box::new(BufReader::with_capacity(
            1 << 20,
            Bounded { reader, packed: count, unpacked: 0 },
        )))
    }
}

/// Whether this many packed bytes may unpack to so many.
///
/// # Errors
/// They may not: what unpacks to so much is a bomb.
pub fn check(packed: u64, unpacked: u64) -> io::Result<()> {
    if unpacked > FREE && unpacked / MAX_RATIO > packed {
        let why = format!(
            "unpacks to more than {MAX_RATIO} times its size, as a decompression bomb does: unpack it yourself"
        );
        return Err(io::Error::other(why));
    }
    Ok(())
}

/// Counts the bytes that are read of it.
struct Counted<R> {
    reader: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.count.set(self.count.get() + count as u64);
        Ok(count)
    }
}

/// Ends with an error where too much is unpacked.
struct Bounded<R> {
    reader: R,
    packed: Rc<Cell<u64>>,
    unpacked: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer).map_err(|error| {
            let why = format!(
                "{error}: the packed file is damaged or was cut off; copy it again, or unpack what can be read yourself"
            );
            io::Error::new(error.kind(), why)
        })?;
        self.unpacked += count as u64;
        check(self.packed.get(), self.unpacked)?;
        Ok(count)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn gzip(text: impl Read) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut packed = flate2::read::GzEncoder::new(text, flate2::Compression::default());
        packed.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_bomb_is_refused_before_it_is_unpacked() {
        let packed = |size: u64| gzip(io::repeat(0).take(size));
        let small = packed(FREE);
        let mut reader = Packing::Gzip.unpack(&small[..]).unwrap();
        assert_eq!(io::copy(&mut reader, &mut io::sink()).unwrap(), FREE);
        let large = packed(3 * FREE);
        let mut reader = Packing::Gzip.unpack(&large[..]).unwrap();
        let mut seen = 0;
        let error = loop {
            match reader.fill_buf() {
                Ok(bytes) => {
                    let count = bytes.len();
                    assert!(count > 0, "the end of a bomb");
                    seen += count as u64;
                    reader.consume(count);
                }
                Err(error) => break error.to_string(),
            }
        };
        assert!(seen <= FREE && error.contains("more than 200 times its size"), "{seen}: {error}");
    }

    #[test]
    fn generated_rows_that_differ_in_numbers_are_unpacked() {
        // Packed, they are 58 to 79 times smaller.
        let row = |i: u64| {
            let words = "What is the sum of the numbers from one to this one, as a whole number? "
                .repeat(8);
            format!("{{\"question\": \"{words}{i}\", \"answer\": \"{}\"}}\n", i * (i + 1) / 2)
        };
        let text: String = (0..80_000).map(row).collect();
        assert!(text.len() as u64 > FREE);
        for (packing, bytes) in [
            (Packing::Zstandard, zstd::encode_all(text.as_bytes(), 3).unwrap()),
            (Packing::Gzip, gzip(text.as_bytes())),
        ] {
            let times = text.len() / bytes.len();
            let mut reader = packing.unpack(&bytes[..]).unwrap();
            let count = io::copy(&mut reader, &mut io::sink());
            let count = count.unwrap_or_else(|error| panic!("{packing:?}, {times} times: {error}"));
            assert_eq!(count, text.len() as u64);
        }
    }
}
