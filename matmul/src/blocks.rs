//! Right operands of 8 bits, widened while a product goes on.

use std::ops::Range;

use half::f16;

/// Values of a block, which share a scale.
pub const BLOCK: usize = 32;
/// Bytes of a block: the scale in f16, then a signed byte a value.
pub const BLOCK_BYTES: usize = 2 + BLOCK;

/// A matrix in blocks of 8 bits along its rows, as GGUF's Q8_0: value `i` of a block is `scale * byte[i]`, in f32.
#[derive(Debug, Clone, Copy)]
pub struct Blocks<'a> {
    bytes: &'a [u8],
    rows: usize,
    columns: usize,
    is_transposed: bool,
}

impl<'a> Blocks<'a> {
    /// Row after row.
    ///
    /// # Panics
    /// Where rows are not whole blocks or `bytes` are not as many as that makes.
    pub fn new(bytes: &'a [u8], rows: usize, columns: usize) -> Self {
        assert!(columns.is_multiple_of(BLOCK), "rows of {columns} in blocks of {BLOCK}");
        assert_eq!(bytes.len(), rows * columns / BLOCK * BLOCK_BYTES, "{rows} x {columns}");
        Self { bytes, rows, columns, is_transposed: false }
    }

    /// Some of its rows.
    ///
    /// # Panics
    /// Where it has fewer.
    #[must_use]
    pub fn rows(self, rows: Range<usize>) -> Self {
        let line = self.line();
        Self { bytes: &self.bytes[rows.start * line..rows.end * line], rows: rows.len(), ..self }
    }

    /// The same with rows and columns exchanged as an operand; nothing moves.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self { is_transposed: !self.is_transposed, ..self }
    }

    /// Bytes of a row.
    fn line(&self) -> usize {
        self.columns / BLOCK * BLOCK_BYTES
    }

    /// Its sizes as an operand `[k, n]`.
    pub(super) fn sizes(&self) -> (usize, usize) {
        if self.is_transposed { (self.columns, self.rows) } else { (self.rows, self.columns) }
    }

    pub(super) fn is_transposed(&self) -> bool {
        self.is_transposed
    }

    /// Values of a row of the matrix as it is stored, from column `start` on, to `out`.
    ///
    /// # Panics
    /// Where the row has no such values.
    #[inline(always)]
    pub fn widen(&self, row: usize, start: usize, out: &mut [f32]) {
        let line = &self.bytes[row * self.line()..][..self.line()];
        let (mut at, mut rest) = (start, out);
        while !rest.is_empty() {
            let block = &line[at / BLOCK * BLOCK_BYTES..][..BLOCK_BYTES];
            let scale = f16::from_le_bytes([block[0], block[1]]).to_f32();
            let values = &block[2 + at % BLOCK..];
            let (values_of_block, others) = rest.split_at_mut(values.len().min(rest.len()));
            for (out, byte) in values_of_block.iter_mut().zip(values) {
                *out = scale * f32::from(byte.cast_signed());
            }
            at += values_of_block.len();
            rest = others;
        }
    }
}
