//! Free memory and free disk where there is no system to ask: in WebAssembly.

use std::path::Path;

/// Bytes of memory that this process may still take: not known.
pub fn available_memory() -> Option<u64> {
    None
}

/// Free bytes of the disk that a path is on: not known.
pub fn free_space(_: &Path) -> Option<u64> {
    None
}
