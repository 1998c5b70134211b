//! The sizes that kernels and their callers share: `program` and the build script put them before the kernels' text.

/// Threads of a group.
pub(crate) const BLOCK: usize = 256;
/// Values that a group of an elementwise kernel works on.
pub(crate) const ELEMENTS: usize = 4 * BLOCK;
/// Values that a group of the kernel of squares sums.
pub(crate) const SQUARES: usize = 16 * BLOCK;
/// Query vectors that a group of attention holds.
pub(crate) const VECTORS: usize = 16;
/// Values of all query vectors that a group of attention holds.
pub(crate) const QUERIES: usize = 1024;
/// Keys that a group of attention loads at a time, of heads of up to `TILE_DIM` values; half as many of larger ones.
pub(crate) const TILE: usize = 32;
/// Keys of a group of attention's gradient, of such heads.
pub(crate) const KEYS: usize = 16;
/// Values a head that `TILE` and `KEYS` are for.
pub(crate) const TILE_DIM: usize = 128;
/// Most values a head.
pub(crate) const MAX_DIM: usize = 256;
/// Query vectors of a group of attention on tensor cores: 16 of every warp.
pub(crate) const MMA_ROWS: usize = BLOCK / 32 * 16;
/// Rows of a part of a sum over tokens.
pub(crate) const PART: usize = 64;

/// All of them by name.
pub(crate) const ALL: [(&str, usize); 11] = [
    ("BLOCK", BLOCK),
    ("ELEMENTS", ELEMENTS),
    ("SQUARES", SQUARES),
    ("VECTORS", VECTORS),
    ("QUERIES", QUERIES),
    ("TILE", TILE),
    ("KEYS", KEYS),
    ("TILE_DIM", TILE_DIM),
    ("MAX_DIM", MAX_DIM),
    ("MMA_ROWS", MMA_ROWS),
    ("PART", PART),
];
