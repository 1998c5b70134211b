//! Attention over runs of tokens.

use std::sync::OnceLock;

use candle_core::{DType, Device, Result, Tensor, bail};

use super::{expect, launch, rows};
use crate::has_tensor_cores;
use crate::sizes::{KEYS, MAX_DIM, MMA_ROWS, QUERIES, TILE_DIM, VECTORS};
use crate::workspace::{Array, Destination, Operand, new_empty};

/// Values a head that there are kernels on tensor cores for.
pub(crate) const MMA_DIMS: [usize; 5] = [64, 80, 96, 128, 256];
/// The most of them that gradients are computed for there: more do not fit into registers.
const MMA_BACK_DIM: usize = 128;

/// The heads of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heads {
    /// H, query heads.
    pub queries: usize,
    /// K, key-value heads; divides H.
    pub keys: usize,
    /// D, values of a head.
    pub dim: usize,
}

/// The keys that the tokens of a run see: `start..start + split`, then from `rest` on, in the rows of the keys that
/// attention is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Index of the run's first token.
    pub first: usize,
    /// Number of tokens.
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

/// How the runs of a pass are shared out to the groups of a launch.
#[derive(Debug, Clone)]
pub struct Runs {
    heads: Heads,
    scale: f64,
    tokens: usize,
    /// Most rows of keys that are looked at.
    rows: usize,
    queries: Box<Groups>,
    /// Where gradients are computed: the groups of keys, and the position of every token in its sequence.
    backward: Option<Box<(Groups, Table)>>,
}

/// The groups of a launch, a row each: of the general kernels and of those on tensor cores.
#[derive(Debug, Clone)]
struct Groups {
    general: Table,
    mma: Table,
}

/// A table that goes to the device once a pass asks for it.
#[derive(Debug, Clone)]
struct Table {
    values: Vec<usize>,
    width: usize,
    table: OnceLock<Array>,
}

impl Groups {
    fn select(&self, is_mma: bool) -> &Table {
        if is_mma { &self.mma } else { &self.general }
    }
}

impl Table {
    fn new(values: Vec<usize>, width: usize) -> Self {
        Self { values, width, table: OnceLock::new() }
    }

    fn at(&self, to: Destination<'_>) -> Result<&Tensor> {
        if let Some(table) = self.table.get() {
            return Ok(table.tensor());
        }
        let table = table(&self.values, self.width, to)?;
        Ok(self.table.get_or_init(|| table).tensor())
    }
}

/// Rows of so many numbers on the device.
fn table(values: &[usize], width: usize, to: Destination<'_>) -> Result<Array> {
    let count = values.len() / width;
    let values: Vec<u32> = values.iter().map(|x| *x as u32).collect();
    to.upload(values, (count, width))
}

/// A row for every group of at most `step` tokens of a run.
fn groups_of_queries(runs: &[Run], step: usize) -> Table {
    let of_run = |run: &Run| {
        let run = *run;
        let split = run.split.min(i32::MAX as usize);
        (0..run.tokens).step_by(step).flat_map(move |at| {
            let count = step.min(run.tokens - at);
            [run.first + at, count, run.sees + at, run.start, split, run.rest]
        })
    };
    Table::new(runs.iter().flat_map(of_run).collect(), 6)
}

/// A row for every group of at most `step` keys of a run.
fn groups_of_keys(runs: &[Run], step: usize) -> Table {
    let of_run = |run: &Run| {
        let run = *run;
        let keys = (0..run.tokens).step_by(step);
        keys.flat_map(move |at| [run.first + at, step.min(run.tokens - at), run.until])
    };
    Table::new(runs.iter().flat_map(of_run).collect(), 3)
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
    pub fn new(runs: &[Run], heads: Heads, scale: f64) -> Result<Self> {
        let mut all = Self::forward_only(runs, heads, scale)?;
        let keys_of_group = if heads.dim > TILE_DIM { KEYS / 2 } else { KEYS };
        let mut positions = vec![0; all.tokens];
        for run in runs {
            for at in 0..run.tokens {
                positions[run.first + at] = run.sees - 1 + at;
            }
        }
        let (general, mma) = (groups_of_keys(runs, keys_of_group), groups_of_keys(runs, MMA_ROWS));
        all.backward = Some(Box::new((Groups { general, mma }, Table::new(positions, 1))));
        Ok(all)
    }

    /// The same for a pass without a gradient.
    ///
    /// # Errors
    /// Heads that are not known.
    pub fn forward_only(runs: &[Run], heads: Heads, scale: f64) -> Result<Self> {
        if !heads.are_known() {
            bail!("attention on a GPU does not know {heads:?}");
        }
        // A group holds its queries' accumulators on chip: VECTORS of them, and QUERIES values, at most.
        let share = heads.queries / heads.keys;
        let step = (VECTORS / share).min(QUERIES / (share * heads.dim)).max(1);
        let (mut tokens, mut last) = (0, 0);
        for run in runs.iter().filter(|run| run.tokens > 0) {
            tokens = tokens.max(run.first + run.tokens);
            let seen = run.sees + run.tokens - 1;
            last = last.max(run.start + seen.min(run.split));
            if seen > run.split {
                last = last.max(run.rest + seen - run.split);
            }
        }
        let general = groups_of_queries(runs, step);
        let mma = groups_of_queries(runs, MMA_ROWS / share);
        let queries = Box::new(Groups { general, mma });
        Ok(Self { heads, scale, tokens, rows: last, queries, backward: None })
    }

    /// Sends the table for a pass without a gradient of queries of this type to the device, before a launch asks for
    /// it.
    ///
    /// # Errors
    /// No memory, the device's.
    pub fn upload(&self, dtype: DType, to: Destination<'_>) -> Result<()> {
        let is_mma = self.are_known_to_tensor_cores(dtype, to.device);
        self.queries.select(is_mma).at(to).map(|_| ())
    }

    fn are_known_to_tensor_cores(&self, dtype: DType, device: &Device) -> bool {
        let is_known = MMA_DIMS.contains(&self.heads.dim) && self.scale > 0.0;
        dtype == DType::BF16 && is_known && has_tensor_cores(device)
    }

    /// Whether kernels on tensor cores are the ones for these tensors: bf16, heads that they are compiled for, at
    /// addresses that they copy 16 bytes from.
    fn are_on_tensor_cores(&self, tensors: &[&Tensor]) -> bool {
        let is_aligned = |x: &&Tensor| x.layout().start_offset().is_multiple_of(8);
        let (dtype, device) = (tensors[0].dtype(), tensors[0].device());
        self.are_known_to_tensor_cores(dtype, device) && tensors.iter().all(is_aligned)
    }

    fn launches(&self, table: &Tensor) -> Result<usize> {
        Ok(table.dim(0)? * self.heads.keys)
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
/// all; with it the logarithm of the sum of every query's weights, `[N, H]`. On tensor cores where they are known: see
/// [`crate::has_tensor_cores`].
pub fn attention(
    q: &dyn Operand,
    k: &dyn Operand,
    v: &dyn Operand,
    runs: &Runs,
    window: Option<usize>,
) -> Result<(Array, Array)> {
    runs.check(q.tensor(), k.tensor(), v.tensor())?;
    let out = new_empty(q, q.tensor().shape(), q.tensor().dtype())?;
    let sums = new_empty(q, (runs.tokens, runs.heads.queries), DType::F32)?;
    let to = Destination::like(q);
    let [q, k, v] = [q, k, v].map(|x| x.tensor());
    let is_mma = runs.are_on_tensor_cores(&[q, k, v]);
    let queries = runs.queries.select(is_mma).at(to)?;
    let name = match is_mma {
        true => format!("attention_mma_{}", runs.heads.dim),
        false => "attention".to_owned(),
    };
    let tensors = [q, k, v, out.tensor(), sums.tensor(), queries];
    let groups = runs.launches(queries)?;
    launch(&name, Some(q), groups, &tensors, &runs.numbers(window), &[runs.scale])?;
    Ok((out, sums))
}

/// The gradients of queries, keys and values for that of [`attention`]'s result, where the rows of keys are the
/// tokens themselves.
pub fn attention_back(
    qkv: [&dyn Operand; 3],
    [out, sums]: [&dyn Operand; 2],
    grad: &dyn Operand,
    runs: &Runs,
    window: Option<usize>,
) -> Result<[Array; 3]> {
    let like = |x: &dyn Operand| new_empty(x, x.tensor().shape(), x.tensor().dtype());
    let ([dq, dk, dv], out_dot_grad) = ([like(qkv[0])?, like(qkv[1])?, like(qkv[2])?], like(sums)?);
    let to = Destination::like(qkv[0]);
    let [q, k, v] = qkv.map(|x| x.tensor());
    let [out, sums, grad] = [out, sums, grad].map(|x| x.tensor());
    runs.check(q, k, v)?;
    let Some((of_keys, positions)) = runs.backward.as_deref() else {
        bail!("attention_back: the tables are those of a pass without a gradient")
    };
    for tensor in [out, grad] {
        expect(tensor, q.dtype(), q.elem_count(), "attention_back")?;
    }
    expect(k, q.dtype(), runs.tokens * runs.heads.keys * runs.heads.dim, "attention_back")?;
    expect(sums, DType::F32, runs.tokens * runs.heads.queries, "attention_back")?;
    let (numbers, scale) = (runs.numbers(window), [runs.scale]);
    let dim = runs.heads.dim;
    let is_mma = dim <= MMA_BACK_DIM && runs.are_on_tensor_cores(&[q, k, v, out, grad]);
    let (kind, suffix) = match is_mma {
        true => ("attention_mma", format!("_{dim}")),
        false => ("attention", String::new()),
    };
    let (queries, keys) = (runs.queries.select(is_mma).at(to)?, of_keys.select(is_mma).at(to)?);
    let positions = positions.at(to)?;
    let tensors = [q, k, v, out, grad, sums, dq.tensor(), out_dot_grad.tensor(), queries];
    // Two passes: dq of each group of queries, which leaves out . grad = sum_j p_j dp_j of the softmax's Jacobian, then
    // dk and dv of each group of keys from the queries that see it. No atomic additions: sums have one order.
    let name = format!("{kind}_queries{suffix}");
    launch(&name, Some(q), runs.launches(queries)?, &tensors, &numbers, &scale)?;
    let (out_dot_grad, dk_to, dv_to) = (out_dot_grad.tensor(), dk.tensor(), dv.tensor());
    let tensors = [q, k, v, grad, sums, out_dot_grad, dk_to, dv_to, keys, positions];
    let name = format!("{kind}_keys{suffix}");
    launch(&name, Some(q), runs.launches(keys)?, &tensors, &numbers, &scale)?;
    Ok([dq, dk, dv])
}
