//! Bytes that Zstandard packed.

use std::io::{Read, Result};

pub(super) fn unpacked<'a>(packed: impl Read + 'a) -> Result<Box<dyn Read + 'a>> {
    Ok(Box::new(zstd::stream::read::Decoder::new(packed)?))
}
