//! Packed bytes (gzip, Zstandard, the members of a zip archive) unpacked within a limit: a small file that unpacks to a
//! huge one is refused.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use flate2::read::MultiGzDecoder;

/// Bytes that any file may unpack to.
const FREE: u64 = 1 << 30;
/// Beyond that, most unpacked bytes for each packed one. Completions that repeat themselves reach fifty.
const MAX_RATIO: u64 = 200;

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
mod tests {
    use super::*;

    #[test]
    fn a_bomb_is_refused_before_it_is_unpacked() {
        // More than a GiB of zeros, unpacked a buffer at a time.
        let mut packed = flate2::read::GzEncoder::new(
            io::repeat(0).take(1100 << 20),
            flate2::Compression::best(),
        );
        let mut bytes = Vec::new();
        packed.read_to_end(&mut bytes).unwrap();
        let mut reader = Packing::Gzip.unpack(&bytes[..]).unwrap();
        let error = io::copy(&mut reader, &mut io::sink()).unwrap_err().to_string();
        assert!(error.contains("more than 200 times its size"), "{error}");
    }
}
