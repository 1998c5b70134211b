//! Some columns of the state of one head, token after token, and back.

use std::ops::Range;

use super::math::dot;

/// Columns that are worked on together, where a head has as many; and else.
const WIDE: usize = 64;
const NARROW: usize = 16;
/// Tokens whose states the backward pass keeps at a time; before them it keeps one in so many.
const CHUNK: usize = 16;

/// The inputs of a head for every token: places in rows of some width.
pub(super) struct Inputs<'a> {
    pub(super) unit: &'a [f32],
    pub(super) unit_width: usize,
    pub(super) query: usize,
    pub(super) key: usize,
    pub(super) key_dim: usize,
    pub(super) mixed: &'a [f32],
    pub(super) mixed_width: usize,
    pub(super) value: usize,
    pub(super) value_dim: usize,
    pub(super) gates: &'a [f32],
    pub(super) gates_width: usize,
    pub(super) gate: usize,
}

/// The gradients of what a head read, of the tokens of one tree.
pub(super) struct InputGrads {
    /// Of queries and of keys, `[tokens, key_dim]`.
    pub(super) unit: [Vec<f32>; 2],
    /// `[tokens, value_dim]`.
    pub(super) value: Vec<f32>,
    /// Of the logarithm of the decay, and of `beta`.
    pub(super) gates: Vec<[f32; 2]>,
}

/// Rows of a state, some columns of each.
type Tile<const W: usize> = Vec<[f32; W]>;

/// The inputs of one token, for some columns.
struct Token<'a, const W: usize> {
    query: &'a [f32],
    key: &'a [f32],
    value: [f32; W],
    decay: f32,
    beta: f32,
}

impl Inputs<'_> {
    #[inline(always)]
    fn token<const W: usize>(&self, token: usize, columns: &Range<usize>) -> Token<'_, W> {
        let unit = &self.unit[token * self.unit_width..];
        let gates = &self.gates[token * self.gates_width + self.gate..][..2];
        Token {
            query: &unit[self.query..][..self.key_dim],
            key: &unit[self.key..][..self.key_dim],
            value: lanes(&self.mixed[token * self.mixed_width + self.value..], columns),
            decay: gates[0],
            beta: gates[1],
        }
    }

    /// The columns of each tile.
    fn tiles(&self, wide: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let all = self.value_dim;
        (0..all).step_by(wide).map(move |first| first..all.min(first + wide))
    }
}

/// Some values of a row; zeros where there are fewer.
#[inline(always)]
fn lanes<const W: usize>(row: &[f32], columns: &Range<usize>) -> [f32; W] {
    let mut out = [0f32; W];
    out[..columns.len()].copy_from_slice(&row[columns.clone()]);
    out
}

/// The state after a token.
#[inline(always)]
fn step<const W: usize>(token: &Token<'_, W>, state: &mut Tile<W>) {
    let (_, change) = known(token, state);
    for (row, k) in state.iter_mut().zip(token.key) {
        for j in 0..W {
            row[j] = k.mul_add(change[j], row[j]);
        }
    }
}

/// Lets the state decay; what it does not know of the value then, and that times `beta`.
#[inline(always)]
fn known<const W: usize>(token: &Token<'_, W>, state: &mut Tile<W>) -> ([f32; W], [f32; W]) {
    let mut known = [0f32; W];
    for (row, k) in state.iter_mut().zip(token.key) {
        for j in 0..W {
            row[j] *= token.decay;
            known[j] = k.mul_add(row[j], known[j]);
        }
    }
    // e = v - P^T k and beta e.
    let (mut missing, mut change) = ([0f32; W], [0f32; W]);
    for j in 0..W {
        missing[j] = token.value[j] - known[j];
        change[j] = token.beta * missing[j];
    }
    (missing, change)
}

/// The same, and what the query finds then.
#[inline(always)]
fn step_and_read<const W: usize>(token: &Token<'_, W>, state: &mut Tile<W>) -> [f32; W] {
    let (_, change) = known(token, state);
    let mut read = [0f32; W];
    for ((row, k), q) in state.iter_mut().zip(token.key).zip(token.query) {
        for j in 0..W {
            row[j] = k.mul_add(change[j], row[j]);
            // o = S^T q while the row is at hand: one pass over the state and not two.
            read[j] = q.mul_add(row[j], read[j]);
        }
    }
    read
}

/// A prefix and what continues it, to `out` `[tokens, value_dim]`, whose first token is `first`. A state `[key_dim,
/// value_dim]` is that before the tokens where there are some, and becomes that after them.
#[inline(always)]
pub(super) fn run_forward(
    inputs: &Inputs<'_>,
    (prefix, rows): (&Range<usize>, impl Iterator<Item = Range<usize>> + Clone),
    (mut state, goes_on): (Option<&mut [f32]>, bool),
    (out, first): (&mut [f32], usize),
) {
    let state = &mut state;
    if inputs.value_dim >= WIDE {
        for columns in inputs.tiles(WIDE) {
            let parts = (state.as_deref_mut(), goes_on);
            tile_forward::<WIDE>(inputs, columns, (prefix, rows.clone()), parts, (out, first));
        }
    } else {
        for columns in inputs.tiles(NARROW) {
            let parts = (state.as_deref_mut(), goes_on);
            tile_forward::<NARROW>(inputs, columns, (prefix, rows.clone()), parts, (out, first));
        }
    }
}

#[inline(always)]
fn tile_forward<const W: usize>(
    inputs: &Inputs<'_>,
    columns: Range<usize>,
    (prefix, rows): (&Range<usize>, impl Iterator<Item = Range<usize>>),
    (mut state, goes_on): (Option<&mut [f32]>, bool),
    (out, first): (&mut [f32], usize),
) {
    let mut begin: Tile<W> = vec![[0f32; W]; inputs.key_dim];
    if let Some(state) = state.as_deref().filter(|_| goes_on) {
        let rows = state.chunks_exact(inputs.value_dim);
        begin.iter_mut().zip(rows).for_each(|(tile, row)| *tile = lanes(row, &columns));
    }
    read(inputs, &columns, prefix.clone(), &mut begin, (out, first));
    let mut rows = rows.peekable();
    while let Some(row) = rows.next() {
        // Most have nobody beside them who begins alike.
        let mut tile = match rows.peek() {
            Some(_) => begin.clone(),
            None => std::mem::take(&mut begin),
        };
        read(inputs, &columns, row, &mut tile, (out, first));
        if let Some(state) = state.as_deref_mut() {
            let rows = state.chunks_exact_mut(inputs.value_dim);
            for (row, tile) in rows.zip(&tile) {
                row[columns.clone()].copy_from_slice(&tile[..columns.len()]);
            }
        }
    }
}

/// The results of some tokens' queries.
#[inline(always)]
fn read<const W: usize>(
    inputs: &Inputs<'_>,
    columns: &Range<usize>,
    tokens: Range<usize>,
    tile: &mut Tile<W>,
    (out, first): (&mut [f32], usize),
) {
    for token in tokens {
        let read = step_and_read(&inputs.token(token, columns), tile);
        let out = &mut out[(token - first) * inputs.value_dim..][columns.clone()];
        out.copy_from_slice(&read[..columns.len()]);
    }
}

/// The gradients of a prefix and of what continues it, for those of the results: columns of rows of some width, from a
/// place on.
#[inline(always)]
pub(super) fn run_back(
    inputs: &Inputs<'_>,
    (prefix, rows): (&Range<usize>, &[Range<usize>]),
    tokens: Range<usize>,
    grad: (&[f32], usize, usize),
) -> InputGrads {
    let zeros = |width: usize| vec![0f32; tokens.len() * width];
    let mut input_grads = InputGrads {
        unit: [zeros(inputs.key_dim), zeros(inputs.key_dim)],
        value: zeros(inputs.value_dim),
        gates: vec![[0f32; 2]; tokens.len()],
    };
    let first = tokens.start;
    if inputs.value_dim >= WIDE {
        for columns in inputs.tiles(WIDE) {
            Back::<WIDE> { inputs, columns, grad, first, input_grads: &mut input_grads }
                .tree(prefix, rows);
        }
    } else {
        for columns in inputs.tiles(NARROW) {
            Back::<NARROW> { inputs, columns, grad, first, input_grads: &mut input_grads }
                .tree(prefix, rows);
        }
    }
    input_grads
}

/// The way back through some columns.
struct Back<'a, const W: usize> {
    inputs: &'a Inputs<'a>,
    columns: Range<usize>,
    grad: (&'a [f32], usize, usize),
    /// The first token of `input_grads`.
    first: usize,
    input_grads: &'a mut InputGrads,
}

/// The values that a token's backward step reads.
struct StepState<const W: usize> {
    /// The state before, decayed.
    decayed: Tile<W>,
    missing: [f32; W],
    change: [f32; W],
}

impl<const W: usize> Back<'_, W> {
    #[inline(always)]
    fn tree(&mut self, prefix: &Range<usize>, rows: &[Range<usize>]) {
        let zeros = || vec![[0f32; W]; self.inputs.key_dim];
        let (mut state, mut state_grad) = (zeros(), zeros());
        // All rows start from the state after the prefix, whose gradient is the sum of theirs.
        let of_prefix = self.checkpoints(prefix.clone(), &mut state);
        for row in rows {
            let mut row_state = state.clone();
            let marks = self.checkpoints(row.clone(), &mut row_state);
            let mut of_row = zeros();
            self.run(row.clone(), marks, &mut of_row);
            for (sum, x) in state_grad.iter_mut().zip(&of_row) {
                for j in 0..W {
                    sum[j] += x[j];
                }
            }
        }
        self.run(prefix.clone(), of_prefix, &mut state_grad);
    }

    /// The state before every chunk; it ends as that after all.
    #[inline(always)]
    fn checkpoints(&self, tokens: Range<usize>, state: &mut Tile<W>) -> Vec<Tile<W>> {
        let mut marks = Vec::with_capacity(tokens.len().div_ceil(CHUNK));
        for (index, token) in tokens.enumerate() {
            if index % CHUNK == 0 {
                marks.push(state.clone());
            }
            step(&self.inputs.token(token, &self.columns), state);
        }
        marks
    }

    /// `state_grad` goes in as the gradient of the state after the tokens and comes out as that of the state before.
    #[inline(always)]
    fn run(&mut self, tokens: Range<usize>, marks: Vec<Tile<W>>, state_grad: &mut Tile<W>) {
        for (index, mut state) in marks.into_iter().enumerate().rev() {
            let start = tokens.start + index * CHUNK;
            let chunk = start..tokens.end.min(start + CHUNK);
            // The states of a chunk again from the one before it: L / 16 + 16 states are held instead of L.
            let mut saved = Vec::with_capacity(CHUNK);
            for token in chunk.clone() {
                let token = self.inputs.token(token, &self.columns);
                let mut decayed = state.clone();
                let (missing, change) = known(&token, &mut decayed);
                for ((row, before), k) in state.iter_mut().zip(&decayed).zip(token.key) {
                    for j in 0..W {
                        row[j] = k.mul_add(change[j], before[j]);
                    }
                }
                saved.push(StepState { decayed, missing, change });
            }
            for (token, saved) in chunk.zip(saved).rev() {
                self.step(token, &saved, state_grad);
            }
        }
    }

    #[inline(always)]
    fn step(&mut self, token: usize, saved: &StepState<W>, state_grad: &mut Tile<W>) {
        let StepState { decayed, missing, change } = saved;
        let Token { query, key, decay, beta, .. } = self.inputs.token::<W>(token, &self.columns);
        let (grad, width, at) = self.grad;
        let grad: [f32; W] = lanes(&grad[token * width + at..], &self.columns);
        let at = token - self.first;
        let range = at * key.len()..(at + 1) * key.len();
        let [of_query, of_key] = &mut self.input_grads.unit;
        let (of_query, of_key) = (&mut of_query[range.clone()], &mut of_key[range]);
        // The state after is what was left and k change^T.
        let along = dot(change, &grad);
        let mut of_change = [0f32; W];
        for i in 0..key.len() {
            let row = &mut state_grad[i];
            for j in 0..W {
                // o = S^T q: dS += q do^T. S = P + k c^T, c = beta e: dc = dS^T k.
                row[j] = query[i].mul_add(grad[j], row[j]);
                of_change[j] = key[i].mul_add(row[j], of_change[j]);
            }
            // dq = S do = P do + k (c . do): S itself is not kept. dk has dS c, and P d(P^T k) below.
            of_query[i] += key[i].mul_add(along, dot(&decayed[i], &grad));
            of_key[i] += dot(row, change);
        }
        let mut of_known = [0f32; W];
        for j in 0..W {
            // e = v - P^T k: d(P^T k) = -beta dc = -dv.
            of_known[j] = -beta * of_change[j];
        }
        let value = &mut self.input_grads.value[at * self.inputs.value_dim..][self.columns.clone()];
        value.iter_mut().zip(&of_known).for_each(|(value, x)| *value = -x);
        let mut of_decay = [0f32; W];
        for i in 0..key.len() {
            let row = &mut state_grad[i];
            of_key[i] += dot(&decayed[i], &of_known);
            for j in 0..W {
                // dP = dS + k d(P^T k)^T. With P = alpha S', d(log alpha) = sum dP P and dS' = alpha dP.
                let whole = key[i].mul_add(of_known[j], row[j]);
                of_decay[j] = whole.mul_add(decayed[i][j], of_decay[j]);
                row[j] = decay * whole;
            }
        }
        let gates = &mut self.input_grads.gates[at];
        gates[0] += of_decay.iter().sum::<f32>();
        gates[1] += dot(&of_change, missing);
    }
}
