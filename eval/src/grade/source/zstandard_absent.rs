//! Bytes that Zstandard packed, where its C library does not compile: in WebAssembly. None are unpacked.

use std::io::{Error, Read, Result};

/// Refuses `packed`.
pub(super) fn unpacked<'a>(_: impl Read + 'a) -> Result<Box<dyn Read + 'a>> {
    Err(Error::other("this build does not unpack Zstandard"))
}
