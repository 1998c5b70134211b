//! Attention over runs of tokens.

use candle_core::{DType, Result, Tensor, bail};

use super::{expect, launch, rows};
use crate::sizes::{KEYS, MAX_DIM, QUERIES, TILE_DIM, VECTORS};
use crate::workspace::{Array, Destination, Operand, beside};

/// The heads of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heads {
    /// H.
    pub queries: usize,
    /// K; divides H.
    pub keys: usize,
    /// D.
    pub dim: usize,
}

/// The keys that the tokens of a run see: `start..start + split`, then from `rest` on, in the rows of the keys that
/// attention is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Its first token.
    pub first: usize,
    /// How many.
    pub tokens: usize,
    /// Keys that its first token sees, its own included.
    pub sees: usize,
    /// The first row of keys.
    pub start: usize,
    /// How many of them, before those from `rest` on.
    pub split: usize,
    /// The first row of the others.
    pub rest: usize,
    /// One past the last token that may see this run's keys: the run's own end, or that of the last run that continues
    /// it. Gradients of its keys are gathered from the tokens up to there.
    pub until: usize,
}

/// How the runs of a pass are shared out to the groups of a launch: tables on the device.
#[derive(Debug, Clone)]
pub struct Runs {
    heads: Heads,
    scale: f64,
    tokens: usize,
    /// Most rows of keys that are looked at.
    rows: usize,
    queries: Array,
    /// Where gradients are computed: the groups of keys, and the position of every token in its sequence.
    backward: Option<[Array; 2]>,
}

/// Rows of so many numbers on the device.
fn table(values: Vec<usize>, width: usize, to: Destination<'_>) -> Result<Array> {
    let count = values.len() / width;
    let values: Vec<u32> = values.into_iter().map(|x| x as u32).collect();
    to.upload(values, (count, width))
}

impl Heads {
    /// Whether attention knows such heads.
    pub fn are_known(&self) -> bool {
        let share = self.queries.checked_div(self.keys).unwrap_or(0);
        let fits = (1..=VECTORS).contains(&share) && share * self.dim <= QUERIES;
        fits && self.dim <= MAX_DIM && self.queries == share * self.keys
    }
}

impl Runs {
    /// The tables of `runs`; products of queries and keys are multiplied by `scale`.
    pub fn new<'a>(
        runs: &[Run],
        heads: Heads,
        scale: f64,
        to: impl Into<Destination<'a>>,
    ) -> Result<Self> {
        let to = to.into();
        let mut all = Self::forward_only(runs, heads, scale, to)?;
        let keys_of_group = if heads.dim > TILE_DIM { KEYS / 2 } else { KEYS };
        let (mut keys, mut positions) = (Vec::new(), vec![0; all.tokens]);
        for run in runs {
            for at in (0..run.tokens).step_by(keys_of_group) {
                keys.extend([run.first + at, keys_of_group.min(run.tokens - at), run.until]);
            }
            for at in 0..run.tokens {
                positions[run.first + at] = run.sees - 1 + at;
            }
        }
        all.backward = Some([table(keys, 3, to)?, table(positions, 1, to)?]);
        Ok(all)
    }

    /// The same for a pass without a gradient.
    ///
    /// # Errors
    /// Heads that are not known.
    pub fn forward_only<'a>(
        runs: &[Run],
        heads: Heads,
        scale: f64,
        to: impl Into<Destination<'a>>,
    ) -> Result<Self> {
        if !heads.are_known() {
            bail!("attention on a GPU does not know {heads:?}");
        }
        let share = heads.queries / heads.keys;
        let step = (VECTORS / share).min(QUERIES / (share * heads.dim)).max(1);
        let (mut queries, mut tokens, mut last) = (Vec::new(), 0, 0);
        for run in runs.iter().filter(|run| run.tokens > 0) {
            tokens = tokens.max(run.first + run.tokens);
            let seen = run.sees + run.tokens - 1;
            last = last.max(run.start + seen.min(run.split));
            if seen > run.split {
                last = last.max(run.rest + seen - run.split);
            }
            for at in (0..run.tokens).step_by(step) {
                let count = step.min(run.tokens - at);
                let split = run.split.min(i32::MAX as usize);
                queries.extend([run.first + at, count, run.sees + at, run.start, split, run.rest]);
            }
        }
        let queries = table(queries, 6, to.into())?;
        Ok(Self { heads, scale, tokens, rows: last, queries, backward: None })
    }

    fn groups(&self, table: &Array) -> Result<usize> {
        Ok(table.tensor().dim(0)? * self.heads.keys)
    }

    fn numbers(&self, window: Option<usize>) -> [usize; 4] {
        // No sequence is as long as what stands for no window.
        let window = window.unwrap_or(usize::MAX).min(i32::MAX as usize / 2);
        [self.heads.queries, self.heads.keys, self.heads.dim, window]
    }

    fn check(&self, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<()> {
        let Heads { queries, keys, dim } = self.heads;
        expect(q, q.dtype(), self.tokens * queries * dim, "attention")?;
        expect(v, q.dtype(), k.elem_count(), "attention")?;
        expect(k, q.dtype(), rows(k, keys * dim, "attention")? * keys * dim, "attention")?;
        if k.elem_count() < self.rows * keys * dim {
            bail!("attention: {:?} has not {} rows of keys", k.shape(), self.rows);
        }
        Ok(())
    }
}

/// Causal attention of `q` `[N, H * D]` over rows of keys and values `[.., K * D]`, to the last `window` tokens or to
/// all; with it the logarithm of the sum of every query's weights, `[N, H]`.
pub fn attention(
    q: &dyn Operand,
    k: &dyn Operand,
    v: &dyn Operand,
    (runs, window): (&Runs, Option<usize>),
) -> Result<(Array, Array)> {
    runs.check(q.tensor(), k.tensor(), v.tensor())?;
    let out = beside(q, q.tensor().shape(), q.tensor().dtype())?;
    let sums = beside(q, (runs.tokens, runs.heads.queries), DType::F32)?;
    let [q, k, v] = [q, k, v].map(|x| x.tensor());
    let tensors = [q, k, v, out.tensor(), sums.tensor(), runs.queries.tensor()];
    let groups = runs.groups(&runs.queries)?;
    launch("attention", Some(q), groups, &tensors, &runs.numbers(window), &[runs.scale])?;
    Ok((out, sums))
}

/// The gradients of queries, keys and values for that of [`attention`]'s result, where the rows of keys are the
/// tokens themselves.
pub fn attention_back(
    qkv: [&dyn Operand; 3],
    (out, sums): (&dyn Operand, &dyn Operand),
    grad: &dyn Operand,
    (runs, window): (&Runs, Option<usize>),
) -> Result<[Array; 3]> {
    let like = |x: &dyn Operand| beside(x, x.tensor().shape(), x.tensor().dtype());
    let ([dq, dk, dv], pulls) = ([like(qkv[0])?, like(qkv[1])?, like(qkv[2])?], like(sums)?);
    let [q, k, v] = qkv.map(|x| x.tensor());
    let [out, sums, grad] = [out, sums, grad].map(|x| x.tensor());
    runs.check(q, k, v)?;
    let Some([of_keys, positions]) = &runs.backward else {
        bail!("attention_back: the tables are those of a pass without a gradient")
    };
    for tensor in [out, grad] {
        expect(tensor, q.dtype(), q.elem_count(), "attention_back")?;
    }
    expect(k, q.dtype(), runs.tokens * runs.heads.keys * runs.heads.dim, "attention_back")?;
    expect(sums, DType::F32, runs.tokens * runs.heads.queries, "attention_back")?;
    let (numbers, scale) = (runs.numbers(window), [runs.scale]);
    let queries = runs.queries.tensor();
    let tensors = [q, k, v, out, grad, sums, dq.tensor(), pulls.tensor(), queries];
    let groups = runs.groups(&runs.queries)?;
    launch("attention_queries", Some(q), groups, &tensors, &numbers, &scale)?;
    let (to, tables) = ([dk.tensor(), dv.tensor()], [of_keys.tensor(), positions.tensor()]);
    let tensors = [q, k, v, grad, sums, pulls.tensor(), to[0], to[1], tables[0], tables[1]];
    launch("attention_keys", Some(q), runs.groups(of_keys)?, &tensors, &numbers, &scale)?;
    Ok([dq, dk, dv])
}
