//! Panels by AVX-512, transposed in registers: of f32, and of pairs of bfloat16, which AVX512-BF16 rounds, in lines or
//! in tiles of AMX.

use std::arch::x86_64::{
    __m512, __m512bh, __m512i, __mmask16, __mmask32, _mm512_castps_si512, _mm512_castsi512_ps,
    _mm512_cvtne2ps_pbh, _mm512_mask_storeu_ps, _mm512_maskz_loadu_epi16, _mm512_maskz_loadu_ps,
    _mm512_permutex2var_epi16, _mm512_permutexvar_epi16, _mm512_setzero_si512,
    _mm512_shuffle_i32x4, _mm512_storeu_ps, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64,
    _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
};
use std::ops::Range;

use half::bf16;

/// Values of a register, and lines that are transposed at a time.
const LANES: usize = 16;

/// A value that a panel is made of, whose words hold `PLACES` places along k each: a value, or a pair of bfloat16.
pub(crate) trait Packable<const PLACES: usize>: Copy {
    /// The first `count` values side by side as 16 words; the others are zero.
    ///
    /// # Safety
    /// AVX-512 F and BW, and for pairs BF16, are there, and so many values at `at`.
    unsafe fn words(at: *const Self, count: usize) -> __m512i;

    /// A word of each of 16 columns, of values at one place and, in pairs, at the next: the first `count` of each.
    ///
    /// # Safety
    /// As above, of both places.
    unsafe fn columns(first: *const Self, next: *const Self, count: [usize; 2]) -> __m512i;
}

/// A mask of the first `count` of 16.
fn mask(count: usize) -> __mmask16 {
    if count >= LANES { __mmask16::MAX } else { (1 << count) - 1 }
}

/// The 16-bit places that interleave the halves of a register: 0, 16, 1, 17 and so on.
const INTERLEAVED: [i16; 32] = {
    let mut places = [0; 32];
    let mut at = 0;
    while at < 32 {
        places[at] = (at as i16 % 2) * 16 + at as i16 / 2;
        at += 1;
    }
    places
};

/// Values rounded: those of `low`, then those of `high`. What is subnormal becomes zero.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn rounded(low: __m512, high: __m512) -> __m512i {
    let rounded = _mm512_cvtne2ps_pbh(high, low);
    // SAFETY: registers of 512 bits, whatever they hold.
    unsafe { std::mem::transmute::<__m512bh, __m512i>(rounded) }
}

impl Packable<1> for f32 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn words(at: *const Self, count: usize) -> __m512i {
        // SAFETY: as the caller promises; addresses behind a mask of zero are not touched.
        unsafe { _mm512_castps_si512(_mm512_maskz_loadu_ps(mask(count), at)) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn columns(first: *const Self, _: *const Self, count: [usize; 2]) -> __m512i {
        // SAFETY: as above.
        unsafe { <Self as Packable<1>>::words(first, count[0]) }
    }
}

impl Packable<2> for f32 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn words(at: *const Self, count: usize) -> __m512i {
        // SAFETY: as the caller promises; addresses behind a mask of zero are not touched.
        unsafe {
            let low = _mm512_maskz_loadu_ps(mask(count), at);
            let next = at.wrapping_add(LANES);
            rounded(low, _mm512_maskz_loadu_ps(mask(count.saturating_sub(LANES)), next))
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn columns(first: *const Self, next: *const Self, count: [usize; 2]) -> __m512i {
        // SAFETY: as the caller promises.
        unsafe {
            let both = rounded(
                _mm512_maskz_loadu_ps(mask(count[0]), first),
                _mm512_maskz_loadu_ps(mask(count[1]), next),
            );
            let places = std::mem::transmute::<[i16; 32], __m512i>(INTERLEAVED);
            _mm512_permutexvar_epi16(places, both)
        }
    }
}

impl Packable<2> for bf16 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn words(at: *const Self, count: usize) -> __m512i {
        let mask = if count >= 32 { __mmask32::MAX } else { (1 << count) - 1 };
        // SAFETY: as the caller promises.
        unsafe { _mm512_maskz_loadu_epi16(mask, at.cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn columns(first: *const Self, next: *const Self, count: [usize; 2]) -> __m512i {
        // SAFETY: as the caller promises.
        unsafe {
            let [first, next] = [(first, count[0]), (next, count[1])].map(|(at, count)| {
                _mm512_maskz_loadu_epi16(__mmask32::from(mask(count)), at.cast())
            });
            // Value i of the second register is place 32 + i of both.
            let mut places = INTERLEAVED;
            for place in &mut places {
                *place += if *place >= 16 { 16 } else { 0 };
            }
            let places = std::mem::transmute::<[i16; 32], __m512i>(places);
            _mm512_permutex2var_epi16(first, places, next)
        }
    }
}

/// The columns `first..first + width` of an operand `[k, n]`, of which so many are `there`, for the places `range`
/// along k, which in pairs begin with the first of one.
pub(crate) struct PanelPart {
    pub(crate) first: usize,
    pub(crate) width: usize,
    pub(crate) there: usize,
    pub(crate) range: Range<usize>,
}

/// How an operand's values stand in memory, in lines of so many.
#[derive(Clone, Copy)]
pub(crate) enum InputLines {
    AlongK(usize),
    AlongColumns(usize),
}

impl PanelPart {
    /// The panel's lines of f32.
    ///
    /// # Safety
    /// AVX-512 F and BW are there.
    ///
    /// # Panics
    /// Where `data` or `out` is too short.
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(crate) unsafe fn singles(&self, data: &[f32], lines: InputLines, out: &mut [f32]) {
        // SAFETY: as the caller promises.
        unsafe { self.fill::<f32, 1>(data, lines, out) }
    }

    /// The same of pairs of bfloat16.
    ///
    /// # Safety
    /// AVX-512 F, BW and BF16 are there.
    ///
    /// # Panics
    /// See [`Self::singles`].
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    pub(crate) unsafe fn pairs<T: Packable<2>>(
        &self,
        data: &[T],
        lines: InputLines,
        out: &mut [f32],
    ) {
        // SAFETY: as the caller promises.
        unsafe { self.fill(data, lines, out) }
    }

    /// 16 columns in tiles `[columns][pairs]` of AMX, one after the other along k. What is past the end is zero.
    ///
    /// # Safety
    /// AVX-512 F, BW and BF16 are there.
    ///
    /// # Panics
    /// See [`Self::singles`]; and where the width is not 16.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    pub(crate) unsafe fn tiles(&self, data: &[f32], lines: InputLines, out: &mut [f32]) {
        let Self { first, width, there, ref range } = *self;
        assert!(width == LANES && there <= width && self.end(lines) <= data.len());
        let (tiles, _) = out.as_chunks_mut::<{ LANES * LANES }>();
        assert!(tiles.len() >= range.len().div_ceil(2 * LANES));
        for (start, tile) in range.clone().step_by(2 * LANES).zip(tiles) {
            let left = range.end - start;
            let mut block = [_mm512_setzero_si512(); LANES];
            match lines {
                InputLines::AlongK(stride) => {
                    for (column, block) in block.iter_mut().enumerate().take(there) {
                        // SAFETY: the values of the column up to the end of the range are there.
                        *block = unsafe {
                            let at = data.as_ptr().add((first + column) * stride + start);
                            <f32 as Packable<2>>::words(at, left)
                        };
                    }
                }
                InputLines::AlongColumns(stride) => {
                    for (pair, block) in block.iter_mut().enumerate().take(left.div_ceil(2)) {
                        let next = if 2 * pair + 1 < left { there } else { 0 };
                        let at = data.as_ptr().wrapping_add((start + 2 * pair) * stride + first);
                        // SAFETY: so many values of both lines are there.
                        *block = unsafe {
                            <f32 as Packable<2>>::columns(
                                at,
                                at.wrapping_add(stride),
                                [there, next],
                            )
                        };
                    }
                    block = transposed(block);
                }
            }
            for (words, out) in block.into_iter().zip(tile.chunks_exact_mut(LANES)) {
                // SAFETY: so many values are in a chunk.
                unsafe { _mm512_storeu_ps(out.as_mut_ptr(), _mm512_castsi512_ps(words)) };
            }
        }
    }

    /// The values that there must be of an operand for the part to lie within it.
    fn end(&self, lines: InputLines) -> usize {
        let Self { first, there, ref range, .. } = *self;
        match lines {
            _ if there == 0 || range.is_empty() => 0,
            InputLines::AlongK(stride) => (first + there - 1) * stride + range.end,
            InputLines::AlongColumns(stride) => (range.end - 1) * stride + first + there,
        }
    }

    /// The words `[lines][width]` of the panel.
    ///
    /// # Safety
    /// Inlined where AVX-512 F and BW, and for pairs BF16, are there.
    ///
    /// # Panics
    /// Where `data` or `out` is too short.
    #[inline(always)]
    unsafe fn fill<T: Packable<P>, const P: usize>(
        &self,
        data: &[T],
        lines: InputLines,
        out: &mut [f32],
    ) {
        let Self { width, there, ref range, .. } = *self;
        assert!(there <= width && out.len() >= range.len().div_ceil(P) * width);
        assert!(self.end(lines) <= data.len());
        // SAFETY: both are as long as they must be, and the instructions are there.
        unsafe {
            match lines {
                InputLines::AlongK(stride) => self.along_k(data.as_ptr(), stride, out),
                InputLines::AlongColumns(stride) => self.along_columns(data.as_ptr(), stride, out),
            }
        }
    }

    /// Where columns stand in lines of `stride` values along k.
    ///
    /// # Safety
    /// See [`Self::fill`], which has checked the lengths.
    #[inline(always)]
    unsafe fn along_k<T: Packable<P>, const P: usize>(
        &self,
        data: *const T,
        stride: usize,
        out: &mut [f32],
    ) {
        let Self { first, width, there, ref range } = *self;
        for start in range.clone().step_by(P * LANES) {
            let lines = (range.end - start).div_ceil(P).min(LANES);
            let out = &mut out[(start - range.start) / P * width..][..lines * width];
            for from in (0..width).step_by(LANES) {
                // SAFETY: the caller has the instructions.
                let mut block = unsafe { [_mm512_setzero_si512(); LANES] };
                for (column, block) in (from..there).zip(&mut block) {
                    // SAFETY: the values of the column up to the end of the range are there.
                    unsafe {
                        let at = data.add((first + column) * stride + start);
                        *block = T::words(at, range.end - start);
                    }
                }
                let mask = mask(width - from);
                // SAFETY: as above.
                let block = unsafe { transposed(block) };
                for (line, words) in block.into_iter().enumerate().take(lines) {
                    // SAFETY: the line has `width` values, of which the mask leaves out what is past the last.
                    unsafe {
                        let at = out.as_mut_ptr().add(line * width + from);
                        _mm512_mask_storeu_ps(at, mask, _mm512_castsi512_ps(words));
                    }
                }
            }
        }
    }

    /// Where they stand in lines of `stride` values along the columns.
    ///
    /// # Safety
    /// See [`Self::along_k`].
    #[inline(always)]
    unsafe fn along_columns<T: Packable<P>, const P: usize>(
        &self,
        data: *const T,
        stride: usize,
        out: &mut [f32],
    ) {
        let Self { first, width, there, ref range } = *self;
        for (line, place) in range.clone().step_by(P).enumerate() {
            for from in (0..width).step_by(LANES) {
                let count = there.saturating_sub(from);
                let next = if place + 1 < range.end { count } else { 0 };
                let at = data.wrapping_add(place * stride + first + from);
                // SAFETY: so many values of both lines are there, and of the panel's line what the mask leaves.
                unsafe {
                    let words = T::columns(at, at.wrapping_add(stride), [count, next]);
                    let at = out.as_mut_ptr().add(line * width + from);
                    _mm512_mask_storeu_ps(at, mask(width - from), _mm512_castsi512_ps(words));
                }
            }
        }
    }
}

/// Rows and columns of 16 x 16 words exchanged.
#[inline]
#[target_feature(enable = "avx512f")]
fn transposed(rows: [__m512i; LANES]) -> [__m512i; LANES] {
    let mut out = rows;
    // Words of two rows, then pairs of words, then quarters of registers, twice.
    for at in 0..8 {
        let (a, b) = (rows[2 * at], rows[2 * at + 1]);
        (out[2 * at], out[2 * at + 1]) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    }
    let words = out;
    for at in 0..4 {
        for half in 0..2 {
            let (a, b) = (words[4 * at + half], words[4 * at + 2 + half]);
            out[4 * at + 2 * half] = _mm512_unpacklo_epi64(a, b);
            out[4 * at + 2 * half + 1] = _mm512_unpackhi_epi64(a, b);
        }
    }
    // Register 4 r + c has column c of each quarter of rows 4 r to 4 r + 3.
    let quarters = out;
    for column in 0..4 {
        let [a, b, c, d] = [0, 4, 8, 12].map(|at| quarters[at + column]);
        let (even_ab, odd_ab) =
            (_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0xdd>(a, b));
        let (even_cd, odd_cd) =
            (_mm512_shuffle_i32x4::<0x88>(c, d), _mm512_shuffle_i32x4::<0xdd>(c, d));
        out[column] = _mm512_shuffle_i32x4::<0x88>(even_ab, even_cd);
        out[column + 4] = _mm512_shuffle_i32x4::<0x88>(odd_ab, odd_cd);
        out[column + 8] = _mm512_shuffle_i32x4::<0xdd>(even_ab, even_cd);
        out[column + 12] = _mm512_shuffle_i32x4::<0xdd>(odd_ab, odd_cd);
    }
    out
}
