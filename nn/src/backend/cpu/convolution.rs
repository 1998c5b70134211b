//! The causal convolution of every column with its own kernel, through SiLU, and its gradient.

use tealight_matmul::vectorized;

use super::super::packed::KeyRow;
use super::by_rows;
use super::math::exp;

/// The convolution of a pass over `width` columns.
pub(super) struct Convolution<'a> {
    /// The sources of each token: runs of tokens, each after a prefix or after the cached tokens of its row.
    pub(super) runs: Vec<KeyRow>,
    /// The run of every token.
    run_of: Vec<usize>,
    /// `[taps, width]`, the last tap the token's own.
    kernel: Vec<f32>,
    taps: usize,
    width: usize,
    x: &'a [f32],
    /// `[rows, taps - 1, width]`, what came before each run.
    past: Option<&'a [f32]>,
}

impl<'a> Convolution<'a> {
    /// Of `x` `[N, width]` with a kernel `[width, taps]`. With a past, runs are its rows.
    pub(super) fn new(
        runs: Vec<KeyRow>,
        (kernel, width): (&[f32], usize),
        x: &'a [f32],
        past: Option<&'a [f32]>,
    ) -> Self {
        let taps = kernel.len() / width;
        // [width, taps] to [taps, width]: all columns of a tap side by side, as rows of x are.
        let mut by_tap = vec![0f32; kernel.len()];
        for (column, taps_of_column) in kernel.chunks_exact(taps).enumerate() {
            taps_of_column
                .iter()
                .enumerate()
                .for_each(|(tap, x)| by_tap[tap * width + column] = *x);
        }
        let mut run_of = vec![0; x.len() / width];
        for (index, run) in runs.iter().enumerate() {
            run_of[run.tokens.clone()].fill(index);
        }
        Self { runs, run_of, kernel: by_tap, taps, width, x, past }
    }

    fn row(&self, token: usize) -> &[f32] {
        &self.x[token * self.width..][..self.width]
    }

    fn tap(&self, tap: usize) -> &[f32] {
        &self.kernel[tap * self.width..][..self.width]
    }

    /// The input `back` tokens before `token`; none before the beginning of a sequence.
    fn before(&self, token: usize, back: usize) -> Option<&[f32]> {
        let index = self.run_of[token];
        let KeyRow { prefix, tokens, past } = &self.runs[index];
        let inside = token - tokens.start;
        if back <= inside {
            return Some(self.row(token - back));
        }
        let beyond = back - inside;
        if beyond <= prefix.len() {
            return Some(self.row(prefix.end - beyond));
        }
        let cached = self.past.filter(|_| *past > 0 && prefix.is_empty())?;
        let at = (index + 1) * (self.taps - 1) - beyond;
        Some(&cached[at * self.width..][..self.width])
    }

    /// The sum over taps of one token.
    #[inline(always)]
    fn sum(&self, token: usize, out: &mut [f32]) {
        out.fill(0.0);
        for tap in 0..self.taps {
            if let Some(x) = self.before(token, self.taps - 1 - tap) {
                for ((out, x), w) in out.iter_mut().zip(x).zip(self.tap(tap)) {
                    *out = w.mul_add(*x, *out);
                }
            }
        }
    }

    /// To `out` `[N, width]`.
    pub(super) fn forward(&self, out: &mut [f32], parallel: bool) {
        by_rows(parallel, out, self.width, |first, part| {
            vectorized(
                #[inline(always)]
                || {
                    for (index, out) in part.chunks_exact_mut(self.width).enumerate() {
                        self.sum(first + index, out);
                        for x in out {
                            *x /= 1.0 + exp(-*x);
                        }
                    }
                },
            );
        });
    }

    /// The tokens that the next ones of each run need: the last of each, `[rows, taps - 1, width]`.
    pub(super) fn next_past(&self) -> Vec<f32> {
        let mut next = vec![0f32; self.runs.len() * (self.taps - 1) * self.width];
        let size = (self.taps - 1) * self.width;
        for (run, next) in self.runs.iter().zip(next.chunks_exact_mut(size.max(1))) {
            let Some(last) = run.tokens.clone().last() else { continue };
            for (back, next) in next.rchunks_exact_mut(self.width).enumerate() {
                if let Some(x) = self.before(last, back) {
                    next.copy_from_slice(x);
                }
            }
        }
        next
    }

    /// The gradient of `x` for that of the result to `dx`, with those of the taps `[taps, width]`.
    pub(super) fn backward(&self, grad: &[f32], slopes: &mut [f32], dx: &mut [f32]) -> Vec<f32> {
        let width = self.width;
        // The gradient of the sums: SiLU's slope is s (1 + z (1 - s)).
        by_rows(true, slopes, width, |first, part| {
            vectorized(
                #[inline(always)]
                || {
                    for (index, out) in part.chunks_exact_mut(width).enumerate() {
                        let token = first + index;
                        self.sum(token, out);
                        for (z, grad) in out.iter_mut().zip(&grad[token * width..][..width]) {
                            let s = 1.0 / (1.0 + exp(-*z));
                            *z = grad * s * (1.0 + *z * (1.0 - s));
                        }
                    }
                },
            );
        });
        let slopes = &*slopes;
        let slope = |token: usize| &slopes[token * width..][..width];
        by_rows(true, dx, width, |first, part| {
            vectorized(
                #[inline(always)]
                || {
                    for (index, out) in part.chunks_exact_mut(width).enumerate() {
                        out.fill(0.0);
                        // x_t is read by the tokens t..t + taps - 1: dx_t = sum_back w[taps - 1 - back] dz_{t + back},
                        // gathered and not scattered, so that rows can be shared out to threads.
                        for (reader, back) in self.readers(first + index) {
                            let tap = self.tap(self.taps - 1 - back);
                            for ((out, w), slope) in out.iter_mut().zip(tap).zip(slope(reader)) {
                                *out = w.mul_add(*slope, *out);
                            }
                        }
                    }
                },
            );
        });
        let mut d_kernel = vec![0f32; self.kernel.len()];
        by_rows(true, &mut d_kernel, width, |first, part| {
            vectorized(
                #[inline(always)]
                || {
                    for (index, sums) in part.chunks_exact_mut(width).enumerate() {
                        // dw[tap] = sum_t x_{t - (taps - 1 - tap)} dz_t.
                        for token in 0..self.run_of.len() {
                            let Some(x) = self.before(token, self.taps - 1 - first - index) else {
                                continue;
                            };
                            for ((sum, x), slope) in sums.iter_mut().zip(x).zip(slope(token)) {
                                *sum = x.mul_add(*slope, *sum);
                            }
                        }
                    }
                },
            );
        });
        d_kernel
    }

    /// The tokens that read `token`, and how far before each it is.
    fn readers(&self, token: usize) -> impl Iterator<Item = (usize, usize)> {
        let suffix = &self.runs[self.run_of[token]].tokens;
        let left = suffix.end - token;
        let inside_run =
            (token..suffix.end.min(token + self.taps)).map(move |reader| (reader, reader - token));
        let runs = self.runs.iter().filter(move |run| left < self.taps && run.prefix == *suffix);
        let beyond = runs.flat_map(move |run| {
            let inside = 0..run.tokens.len().min(self.taps - left);
            inside.map(move |inside| (run.tokens.start + inside, left + inside))
        });
        inside_run.chain(beyond)
    }
}
