//! Full-vocabulary terms of losses, a block of the vocabulary at a time: divergences of rows from another model's,
//! entropies, and the gradients of both in the logits.
//!
//! N tokens, V vocabulary.

use rayon::prelude::*;
use tealight_matmul::vectorized;

use super::math::{LANES, exp, fold};
use super::vocabulary::{Block, Head, Layer, RowSums, blocks};
use tealight_divergence::elementary::ln;
use tealight_divergence::formula::{Formula, TILE, Tile};
use tealight_divergence::{Divergence, MAX_LOG_RATIO, MIN_LOG_RATIO};

/// Another model at the same positions.
#[derive(Clone, Copy)]
pub(crate) struct Base<'a> {
    pub(super) layer: Layer<'a>,
    /// The logarithm of the sum of `exp(x / temperature)`, `[N]`.
    pub(super) log_mass: &'a [f32],
    pub(super) divergence: Divergence,
}

/// The gradient of the divergence from it.
#[derive(Clone, Copy)]
pub(crate) struct DivergenceTerm<'a> {
    pub(super) base: Base<'a>,
    /// Sums `[N]` over the vocabulary of `a u f'(u)`.
    pub(super) slopes: &'a [f32],
    /// Gradient of the divergences, `[N]`.
    pub(super) grad: &'a [f32],
}

/// The gradients of the outputs of every row.
pub(crate) struct OutputGrads<'a> {
    /// Of the log-probability of the target, `[N]`.
    pub(super) logp: &'a [f32],
    /// Of the entropy, `[N]`.
    pub(super) entropy: Option<&'a [f32]>,
    /// Of the divergence from another model.
    pub(super) divergence: Option<DivergenceTerm<'a>>,
}

impl Head<'_> {
    /// `D_f` `[N]` of every row from another model's, and the sums of `a u f'(u)` that its gradient reads.
    pub(super) fn divergences(&self, sums: &[RowSums], base: Base<'_>) -> (Vec<f32>, Vec<f32>) {
        let rows = self.targets.len();
        let (mut values, mut slopes) = (vec![0f32; rows], vec![0f32; rows]);
        blocks([self.layer, base.layer], rows, |block, [logits, others]| {
            let Block { row, count, .. } = block;
            let totals = values[row..].par_iter_mut().zip(&mut slopes[row..]);
            let rows = logits.par_chunks(count).zip(others.par_chunks(count));
            let known = sums[row..].par_iter().zip(&base.log_mass[row..]);
            let all = rows.zip(known).zip(totals).with_min_len(1 + 4096 / count);
            all.for_each(|(((logits, others), (sums, log_mass)), (value, slope))| {
                // D = sum_v a_v f(u_v) and sum_v a_v u_v f'(u_v), u = p / a: the second is what the gradient subtracts
                // from each token.
                let row = Row::new(sums, self.inverse, *log_mass);
                let [more, steeper] = match base.divergence {
                    Divergence::Formula(formula) => vectorized(
                        #[inline(always)]
                        || row.formula_sums(formula, logits, others),
                    ),
                    named => named.constant(
                        #[inline(always)]
                        |divergence| {
                            vectorized(
                                #[inline(always)]
                                || row.sums(divergence, logits, others),
                            )
                        },
                    ),
                };
                *value += more;
                *slope += steeper;
            });
        });
        (values, slopes)
    }
}

/// The sums that turn logits of a row, and of another model's, into log-probabilities.
#[derive(Clone, Copy)]
struct Row {
    top: f32,
    log_mass: f32,
    other_log_mass: f32,
    inverse: f32,
}

impl Row {
    fn new(sums: &RowSums, inverse: f32, other_log_mass: f32) -> Self {
        Self { top: sums.top, log_mass: ln(sums.mass), other_log_mass, inverse }
    }

    #[inline(always)]
    fn logp(&self, logit: f32) -> f32 {
        (logit - self.top) * self.inverse - self.log_mass
    }

    #[inline(always)]
    fn other_logp(&self, logit: f32) -> f32 {
        logit.mul_add(self.inverse, -self.other_log_mass)
    }

    /// `a f(u)` and `a u f'(u)` at a token.
    #[inline(always)]
    fn terms(&self, divergence: Divergence, logit: f32, other: f32) -> [f32; 2] {
        let other = self.other_logp(other);
        let (ratio, share) = (self.logp(logit) - other, exp(other));
        // Above the upper limit the loss is flat. The lower one keeps f finite only: a lost token keeps its slope.
        let cut = ratio.clamp(MIN_LOG_RATIO, MAX_LOG_RATIO as f32);
        let slope = if ratio > MAX_LOG_RATIO as f32 { 0.0 } else { share * divergence.slope(cut) };
        [share * divergence.f(cut), slope]
    }

    /// The sums of both.
    #[inline(always)]
    fn sums(&self, divergence: Divergence, logits: &[f32], others: &[f32]) -> [f32; 2] {
        let (mut values, mut slopes) = ([0f32; LANES], [0f32; LANES]);
        let (blocks, other_blocks) = (logits.chunks_exact(LANES), others.chunks_exact(LANES));
        let tail = blocks.remainder().iter().zip(other_blocks.remainder());
        for (block, others) in blocks.zip(other_blocks) {
            for lane in 0..LANES {
                let [value, slope] = self.terms(divergence, block[lane], others[lane]);
                values[lane] += value;
                slopes[lane] += slope;
            }
        }
        for (logit, other) in tail {
            let [value, slope] = self.terms(divergence, *logit, *other);
            values[0] += value;
            slopes[0] += slope;
        }
        [fold(values), fold(slopes)]
    }

    /// The same of a formula, which is run over a tile of tokens at a time.
    #[inline(always)]
    fn formula_sums(&self, formula: Formula, logits: &[f32], others: &[f32]) -> [f32; 2] {
        let (mut values, mut slopes) = ([0f32; LANES], [0f32; LANES]);
        let mut registers = Vec::new();
        for (logits, others) in logits.chunks(TILE).zip(others.chunks(TILE)) {
            let [value, slope] = self.formula_terms(formula, logits, others, &mut registers);
            for (value, slope) in value.chunks_exact(LANES).zip(slope.chunks_exact(LANES)) {
                for lane in 0..LANES {
                    values[lane] += value[lane];
                    slopes[lane] += slope[lane];
                }
            }
        }
        [fold(values), fold(slopes)]
    }

    /// `a f(u)` and `a u f'(u)` at the tokens of a tile, 0 beyond them.
    #[inline(always)]
    fn formula_terms(
        &self,
        formula: Formula,
        logits: &[f32],
        others: &[f32],
        registers: &mut Vec<Tile>,
    ) -> [[f32; TILE]; 2] {
        let (mut ratios, mut shares) = ([0f32; TILE], [0f32; TILE]);
        for (index, (logit, other)) in logits.iter().zip(others).enumerate() {
            let other = self.other_logp(*other);
            ratios[index] = self.logp(*logit) - other;
            shares[index] = exp(other);
        }
        let [Tile(mut values), Tile(mut slopes)] = formula.tile(&Tile(ratios), registers);
        for index in 0..TILE {
            let inside = if ratios[index] > MAX_LOG_RATIO as f32 { 0.0 } else { shares[index] };
            values[index] *= shares[index];
            slopes[index] *= inside;
        }
        [values, slopes]
    }
}

impl OutputGrads<'_> {
    /// Puts in place of the logits of a block their gradient, where nothing is compared.
    pub(super) fn slopes(
        &self,
        head: &Head<'_>,
        sums: &[RowSums],
        block: Block,
        logits: &mut [f32],
    ) {
        let rows = logits.par_chunks_mut(block.count).zip(&sums[block.row..]).enumerate();
        rows.with_min_len(1 + 4096 / block.count).for_each(|(index, (logits, sums))| {
            let row = block.row + index;
            let grad_sum = self.logp[row];
            vectorized(
                #[inline(always)]
                || {
                    // (onehot - p) grad / temperature.
                    let scale = -grad_sum * head.inverse / sums.mass;
                    match self.entropy {
                        None => {
                            for x in logits.iter_mut() {
                                *x = exp((*x - sums.top) * head.inverse) * scale;
                            }
                        }
                        // And -p (log p + entropy) grad / temperature.
                        Some(entropy) => {
                            let more = entropy[row] * (-head.inverse / sums.mass);
                            let rest = sums.entropy() - ln(sums.mass);
                            for x in logits.iter_mut() {
                                let scaled = (*x - sums.top) * head.inverse;
                                *x = exp(scaled) * more.mul_add(scaled + rest, scale);
                            }
                        }
                    }
                },
            );
            self.at_target(head, row, block.token, logits);
        });
    }

    /// The same where rows are compared with another model's.
    pub(super) fn slopes_from(
        &self,
        head: &Head<'_>,
        sums: &[RowSums],
        apart: DivergenceTerm<'_>,
        block: Block,
        (logits, others): (&mut [f32], &[f32]),
    ) {
        let rows = logits.par_chunks_mut(block.count).zip(others.par_chunks(block.count));
        let rows = rows.zip(&sums[block.row..]).enumerate().with_min_len(1 + 4096 / block.count);
        rows.for_each(|(index, ((logits, others), sums))| {
            let row = block.row + index;
            let policy = Row::new(sums, head.inverse, apart.base.log_mass[row]);
            let far = apart.grad[row];
            // dD / dz_v = (a_v u_v f'(u_v) - p_v sum_w a_w u_w f'(u_w)) / temperature: all that multiplies -p_v is one
            // factor.
            let grad_sum = self.logp[row] + far * apart.slopes[row];
            let (more, entropy) = (self.entropy.map_or(0.0, |grad| grad[row]), sums.entropy());
            if let Divergence::Formula(formula) = apart.base.divergence {
                vectorized(
                    #[inline(always)]
                    || {
                        let mut registers = Vec::new();
                        for (logits, others) in logits.chunks_mut(TILE).zip(others.chunks(TILE)) {
                            let [_, slopes] =
                                policy.formula_terms(formula, logits, others, &mut registers);
                            for (x, slope) in logits.iter_mut().zip(slopes) {
                                let logp = policy.logp(*x);
                                let grad_sum = more.mul_add(logp + entropy, grad_sum);
                                *x = head.inverse * (far * slope - exp(logp) * grad_sum);
                            }
                        }
                    },
                );
                return self.at_target(head, row, block.token, logits);
            }
            apart.base.divergence.constant(
                #[inline(always)]
                |divergence| {
                    vectorized(
                        #[inline(always)]
                        || {
                            for (x, other) in logits.iter_mut().zip(others) {
                                let [_, slope] = policy.terms(divergence, *x, *other);
                                let logp = policy.logp(*x);
                                let grad_sum = more.mul_add(logp + entropy, grad_sum);
                                *x = head.inverse * (far * slope - exp(logp) * grad_sum);
                            }
                        },
                    );
                },
            );
            self.at_target(head, row, block.token, logits);
        });
    }

    /// Adds the gradient of the target's log-probability to a row's gradient.
    fn at_target(&self, head: &Head<'_>, row: usize, first: usize, slopes: &mut [f32]) {
        let at = (head.targets[row] as usize).checked_sub(first);
        if let Some(slope) = at.and_then(|at| slopes.get_mut(at)) {
            *slope += self.logp[row] * head.inverse;
        }
    }
}
