//! The sizes that kernels and their callers share: `program` and the build script put them before the kernels' text.

/// Threads of a group.
pub(crate) const BLOCK: usize = 256;
/// Values that a group of an elementwise kernel works on.
pub(crate) const ELEMENTS: usize = 4 * BLOCK;
/// Values that a group of the kernel of squares sums.
pub(crate) const SQUARES: usize = 16 * BLOCK;
/// Query vectors that a group of attention holds.
pub(crate) const VECTORS: usize = 16;
/// Their values.
pub(crate) const QUERIES: usize = 1024;
/// Keys that a group of attention loads at a time.
pub(crate) const TILE: usize = 32;
/// Keys of a group of attention's gradient.
pub(crate) const KEYS: usize = 16;
/// Most values a head.
pub(crate) const MAX_DIM: usize = 128;
/// Rows of a part of a sum over tokens.
pub(crate) const PART: usize = 64;

/// All of them by name.
pub(crate) const ALL: [(&str, usize); 9] = [
    ("BLOCK", BLOCK),
    ("ELEMENTS", ELEMENTS),
    ("SQUARES", SQUARES),
    ("VECTORS", VECTORS),
    ("QUERIES", QUERIES),
    ("TILE", TILE),
    ("KEYS", KEYS),
    ("MAX_DIM", MAX_DIM),
    ("PART", PART),
];
