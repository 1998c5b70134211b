//! A function for each kernel. Outputs are tensors that are written in place; every one must be contiguous, and
//! as large as is said here, which is checked.
//!
//! N tokens, H query heads, K key-value heads, D values a head, V vocabulary. Activations are f32 or bf16, sums and
//! log-probabilities f32, numbers of tokens u32.

use candle_core::{DType, Device, Result, Tensor, bail};

use crate::{BLOCK, Call, Params, empty};

/// Values that a group of an elementwise kernel works on.
const ELEMENTS: usize = 4 * BLOCK;
/// Rows of a part of a sum over tokens.
const PART: usize = 64;
/// Query vectors that a group of attention holds, their values, and keys of a group of its gradient.
const VECTORS: usize = 16;
const QUERIES: usize = 1024;
const KEYS: usize = 16;
const MAX_DIM: usize = 128;

fn suffix(tensor: &Tensor) -> Result<&'static str> {
    match tensor.dtype() {
        DType::F32 => Ok("_f32"),
        DType::BF16 => Ok("_bf16"),
        other => bail!("kernels know float32 and bfloat16, not {other:?}"),
    }
}

/// Launches a kernel whose name ends with the type of `of`, or with nothing.
fn launch(
    name: &str,
    of: Option<&Tensor>,
    groups: usize,
    tensors: &[&Tensor],
    ints: &[usize],
    floats: &[f64],
) -> Result<()> {
    let mut params = Params::default();
    for (place, value) in params.n.iter_mut().zip(ints) {
        let Ok(value) = i32::try_from(*value) else {
            bail!("{name}: {value} values are too many for one launch; use smaller micro-batches")
        };
        *place = value;
    }
    params.f.iter_mut().zip(floats).for_each(|(place, value)| *place = *value as f32);
    let name = format!("{name}{}", of.map(suffix).transpose()?.unwrap_or(""));
    Call { name, groups, tensors, params }.run()
}

/// Refuses a tensor of another type or another number of values.
fn expect(tensor: &Tensor, dtype: DType, count: usize, what: &str) -> Result<()> {
    if tensor.dtype() != dtype || tensor.elem_count() != count {
        bail!(
            "{what}: {:?} of {:?} where {count} of {dtype:?} are needed",
            tensor.shape(),
            tensor.dtype()
        );
    }
    Ok(())
}

/// The number of rows of `width` values that `x` has.
fn rows(x: &Tensor, width: usize, what: &str) -> Result<usize> {
    if width == 0 || !x.elem_count().is_multiple_of(width) {
        bail!("{what}: {:?} is not rows of {width}", x.shape());
    }
    Ok(x.elem_count() / width)
}

/// Of `x` plus `more`, where there is any, the sum and its root-mean-square norm over rows as wide as `weight`.
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn add_norm(
    x: &Tensor,
    more: Option<&Tensor>,
    weight: &Tensor,
    eps: f64,
) -> Result<(Tensor, Tensor)> {
    let width = weight.elem_count();
    let rows = rows(x, width, "add_norm")?;
    expect(weight, x.dtype(), width, "add_norm")?;
    let out = empty(x.shape(), x.dtype(), x.device())?;
    let stream = match more {
        Some(more) => {
            expect(more, x.dtype(), x.elem_count(), "add_norm")?;
            empty(x.shape(), x.dtype(), x.device())?
        }
        None => x.clone(),
    };
    let tensors = [x, more.unwrap_or(x), &stream, weight, &out];
    launch("add_norm", Some(x), rows, &tensors, &[width, usize::from(more.is_some())], &[eps])?;
    Ok((stream, out))
}

/// Adds `y` to `x`.
///
/// # Errors
/// Sizes that do not fit, the device's.
pub fn add(x: &Tensor, y: &Tensor) -> Result<()> {
    let count = x.elem_count();
    expect(y, x.dtype(), count, "add")?;
    launch("add", Some(x), count.div_ceil(ELEMENTS), &[x, y], &[count], &[])
}

/// Adds `bias` to every row of `x`.
///
/// # Errors
/// Sizes that do not fit, the device's.
pub fn add_bias(x: &Tensor, bias: &Tensor) -> Result<()> {
    let width = bias.elem_count();
    expect(bias, x.dtype(), width, "add_bias")?;
    launch("add_bias", Some(x), rows(x, width, "add_bias")?, &[x, bias], &[width], &[])
}

/// Rotates `x` `[N, heads * D]` head by head by the angles `[N, D / 2]` of `cos` and `sin`, or, `back`, by their
/// inverse, which is the gradient.
///
/// # Errors
/// Sizes that do not fit, the device's.
pub fn rope(x: &Tensor, cos: &Tensor, sin: &Tensor, back: bool) -> Result<()> {
    let (tokens, half) = cos.dims2()?;
    let heads = rows(x, 2 * half * tokens.max(1), "rope")?;
    expect(cos, DType::F32, tokens * half, "rope")?;
    expect(sin, DType::F32, tokens * half, "rope")?;
    let direction = if back { -1.0 } else { 1.0 };
    launch("rope", Some(x), tokens, &[x, cos, sin], &[heads, half], &[direction])
}

/// `silu(gate) * up`.
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    let count = gate.elem_count();
    expect(up, gate.dtype(), count, "swiglu")?;
    let out = empty(gate.shape(), gate.dtype(), gate.device())?;
    launch("swiglu", Some(gate), count.div_ceil(ELEMENTS), &[gate, up, &out], &[count], &[])?;
    Ok(out)
}

/// Puts in place of `gate` and `up` their gradients for that of [`swiglu`]'s result.
///
/// # Errors
/// Sizes that do not fit, the device's.
pub fn swiglu_back(gate: &Tensor, up: &Tensor, grad: &Tensor) -> Result<()> {
    let count = gate.elem_count();
    expect(up, gate.dtype(), count, "swiglu_back")?;
    expect(grad, gate.dtype(), count, "swiglu_back")?;
    let tensors = [gate, up, grad];
    launch("swiglu_back", Some(gate), count.div_ceil(ELEMENTS), &tensors, &[count], &[])
}

/// Copies the rows of `x` `[N, width]` to those rows of `out` that `places` `[N]` names: each must be one.
///
/// # Errors
/// Sizes that do not fit, the device's.
pub fn store_rows(x: &Tensor, out: &Tensor, places: &Tensor) -> Result<()> {
    let count = places.elem_count();
    expect(places, DType::U32, count, "store_rows")?;
    let width = rows(x, count, "store_rows")?;
    expect(out, x.dtype(), rows(out, width, "store_rows")? * width, "store_rows")?;
    launch("store_rows", Some(x), count, &[x, out, places], &[width], &[])
}

/// `x` with values dropped: value `i` is zero where the upper half of SplitMix64's hash of `key + i` is below
/// `limit`, and times `kept` where it is not.
///
/// # Errors
/// No memory, the device's.
pub fn drop_values(x: &Tensor, key: u64, limit: u32, kept: f32) -> Result<Tensor> {
    let out = empty(x.shape(), x.dtype(), x.device())?;
    let count = x.elem_count();
    let mut params = Params::default();
    let Ok(values) = i32::try_from(count) else { bail!("drop: {count} values are too many") };
    // Bits, not numbers.
    params.n[..4].copy_from_slice(&[values, key as i32, (key >> 32) as i32, limit as i32]);
    params.f[0] = kept;
    let name = format!("drop{}", suffix(x)?);
    Call { name, groups: count.div_ceil(ELEMENTS), tensors: &[x, &out], params }.run()?;
    Ok(out)
}

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

/// What the tokens of a run see: keys `start..start + split`, then keys from `rest` on, in the rows of the keys
/// that attention is given.
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
    /// The token before which every token from this run's first on sees what this run's tokens may see.
    pub until: usize,
}

/// How the runs of a pass are shared out to the groups of a launch: tables on the device.
#[derive(Debug, Clone)]
pub struct Runs {
    heads: Heads,
    tokens: usize,
    /// Most rows of keys that are looked at.
    rows: usize,
    queries: Tensor,
    keys: Tensor,
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
    /// The tables of `runs`.
    ///
    /// # Errors
    /// Heads that are not known, no memory.
    pub fn new(runs: &[Run], heads: Heads, device: &Device) -> Result<Self> {
        if !heads.are_known() {
            bail!("attention on a GPU does not know {heads:?}");
        }
        let share = heads.queries / heads.keys;
        let step = (VECTORS / share).min(QUERIES / (share * heads.dim)).max(1);
        let (mut queries, mut keys) = (Vec::new(), Vec::new());
        let (mut tokens, mut last) = (0, 0);
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
            for at in (0..run.tokens).step_by(KEYS) {
                keys.extend([run.first + at, KEYS.min(run.tokens - at), run.until]);
            }
        }
        let table = |values: Vec<usize>, width: usize| {
            let count = values.len() / width;
            let values: Vec<u32> = values.into_iter().map(|x| x as u32).collect();
            Tensor::from_vec(values, (count, width), device)
        };
        let (queries, keys) = (table(queries, 6)?, table(keys, 3)?);
        Ok(Self { heads, tokens, rows: last, queries, keys })
    }

    fn groups(&self, table: &Tensor) -> Result<usize> {
        Ok(table.dim(0)? * self.heads.keys)
    }

    fn numbers(&self) -> [usize; 3] {
        [self.heads.queries, self.heads.keys, self.heads.dim]
    }

    fn scale(&self) -> f64 {
        1.0 / (self.heads.dim as f64).sqrt()
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

/// Causal attention of `q` `[N, H * D]` over rows of keys and values `[.., K * D]`; with it the logarithm of the
/// sum of every query's weights, `[N, H]`.
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn attention(q: &Tensor, k: &Tensor, v: &Tensor, runs: &Runs) -> Result<(Tensor, Tensor)> {
    runs.check(q, k, v)?;
    let out = empty(q.shape(), q.dtype(), q.device())?;
    let sums = empty((runs.tokens, runs.heads.queries), DType::F32, q.device())?;
    let tensors = [q, k, v, &out, &sums, &runs.queries];
    let groups = runs.groups(&runs.queries)?;
    launch("attention", Some(q), groups, &tensors, &runs.numbers(), &[runs.scale()])?;
    Ok((out, sums))
}

/// The gradients of queries, keys and values for that of [`attention`]'s result, where the rows of keys are the
/// tokens themselves.
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn attention_back(
    [q, k, v]: [&Tensor; 3],
    (out, sums): (&Tensor, &Tensor),
    grad: &Tensor,
    runs: &Runs,
) -> Result<[Tensor; 3]> {
    runs.check(q, k, v)?;
    for tensor in [out, grad] {
        expect(tensor, q.dtype(), q.elem_count(), "attention_back")?;
    }
    expect(k, q.dtype(), runs.tokens * runs.heads.keys * runs.heads.dim, "attention_back")?;
    expect(sums, DType::F32, runs.tokens * runs.heads.queries, "attention_back")?;
    let like = |x: &Tensor| empty(x.shape(), x.dtype(), x.device());
    let (dq, dk, dv, pulls) = (like(q)?, like(k)?, like(v)?, like(sums)?);
    let (numbers, scale) = (runs.numbers(), [runs.scale()]);
    let tensors = [q, k, v, out, grad, sums, &dq, &pulls, &runs.queries];
    let groups = runs.groups(&runs.queries)?;
    launch("attention_queries", Some(q), groups, &tensors, &numbers, &scale)?;
    let tensors = [q, k, v, grad, sums, &pulls, &dk, &dv, &runs.keys];
    launch("attention_keys", Some(q), runs.groups(&runs.keys)?, &tensors, &numbers, &scale)?;
    Ok([dq, dk, dv])
}

/// Adds to `dx` the gradient of a norm's input `x`, and to `sums`, where there are any, that of its weight, for
/// the gradient `grad` of its result.
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn norm_back(
    x: &Tensor,
    weight: &Tensor,
    grad: &Tensor,
    dx: &Tensor,
    sums: Option<&Tensor>,
    eps: f64,
) -> Result<()> {
    let width = weight.elem_count();
    let rows = rows(x, width, "norm_back")?;
    expect(weight, x.dtype(), width, "norm_back")?;
    expect(grad, x.dtype(), x.elem_count(), "norm_back")?;
    expect(dx, x.dtype(), x.elem_count(), "norm_back")?;
    let scales = empty(rows, DType::F32, x.device())?;
    launch("norm_inputs", Some(x), rows, &[x, weight, grad, dx, &scales], &[width], &[eps])?;
    let Some(sums) = sums else { return Ok(()) };
    let parts = empty((rows.div_ceil(PART), width), DType::F32, x.device())?;
    let tensors = [x, grad, &scales, &parts];
    launch("norm_weights", Some(x), rows.div_ceil(PART), &tensors, &[width, rows], &[])?;
    sum_parts(&parts, sums)
}

/// Adds the sums of the columns of `x` to `sums` `[width]`.
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn column_sums(x: &Tensor, sums: &Tensor) -> Result<()> {
    let width = sums.elem_count();
    let rows = rows(x, width, "column_sums")?;
    let parts = empty((rows.div_ceil(PART), width), DType::F32, x.device())?;
    launch("column_sums", Some(x), rows.div_ceil(PART), &[x, &parts], &[width, rows], &[])?;
    sum_parts(&parts, sums)
}

fn sum_parts(parts: &Tensor, sums: &Tensor) -> Result<()> {
    let (count, width) = parts.dims2()?;
    expect(sums, DType::F32, width, "sum_parts")?;
    launch("sum_parts", None, width.div_ceil(BLOCK), &[parts, sums], &[width, count], &[])
}

/// Adds the rows of `dx` `[N, width]` to the rows `ids` of `sums` `[V, width]`.
///
/// # Errors
/// Ids beyond the rows, sizes that do not fit, no memory, the device's.
pub fn embedding_back(dx: &Tensor, ids: &[u32], sums: &Tensor) -> Result<()> {
    let width = rows(dx, ids.len(), "embedding_back")?;
    let vocabulary = rows(sums, width, "embedding_back")?;
    expect(sums, DType::F32, vocabulary * width, "embedding_back")?;
    let mut order: Vec<u32> = (0..ids.len() as u32).collect();
    order.sort_by_key(|token| ids[*token as usize]);
    let (mut unique, mut starts) = (Vec::new(), Vec::new());
    for (at, token) in order.iter().enumerate() {
        let id = ids[*token as usize];
        if id as usize >= vocabulary {
            bail!("token {id} is beyond the vocabulary of {vocabulary}");
        }
        if unique.last() != Some(&id) {
            unique.push(id);
            starts.push(at as u32);
        }
    }
    starts.push(order.len() as u32);
    let groups = unique.len();
    let table = |values: Vec<u32>| {
        let count = values.len();
        Tensor::from_vec(values, count, dx.device())
    };
    let (order, unique, starts) = (table(order)?, table(unique)?, table(starts)?);
    let tensors = [dx, &order, sums, &unique, &starts];
    launch("embedding_back", Some(dx), groups, &tensors, &[width], &[])
}

/// Adds `x` to the f32 `sums`.
///
/// # Errors
/// Sizes that do not fit, the device's.
pub fn add_to(sums: &Tensor, x: &Tensor) -> Result<()> {
    let count = x.elem_count();
    expect(sums, DType::F32, count, "add_to")?;
    launch("add_to", Some(x), count.div_ceil(ELEMENTS), &[sums, x], &[count], &[])
}

/// Writes the f32 values of `x` to `out`.
///
/// # Errors
/// Sizes that do not fit, the device's.
pub fn narrow(x: &Tensor, out: &Tensor) -> Result<()> {
    let count = x.elem_count();
    expect(x, DType::F32, count, "narrow")?;
    expect(out, out.dtype(), count, "narrow")?;
    launch("narrow", Some(out), count.div_ceil(ELEMENTS), &[x, out], &[count], &[])
}

/// What is known of rows of logits, `[N]` each.
#[derive(Debug, Clone)]
pub struct RowSums {
    /// Natural log-probability of the target.
    pub logp: Tensor,
    /// Entropy in nats.
    pub entropy: Tensor,
    /// Logarithm of the sum of `exp(logit / temperature)`.
    pub sums: Tensor,
}

/// Log-probabilities of `targets` `[N]` under `softmax(logits / temperature)`, of f32 logits `[N, V]`.
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn logp(logits: &Tensor, targets: &Tensor, temperature: f64) -> Result<RowSums> {
    let (rows, width) = logits.dims2()?;
    expect(logits, DType::F32, rows * width, "logp")?;
    expect(targets, DType::U32, rows, "logp")?;
    let row = || empty(rows, DType::F32, logits.device());
    let found = RowSums { logp: row()?, entropy: row()?, sums: row()? };
    let tensors = [logits, targets, &found.logp, &found.entropy, &found.sums];
    launch("logp", None, rows, &tensors, &[width], &[1.0 / temperature])?;
    Ok(found)
}

/// The gradient `[N, V]`, in `dtype`, of the logits for the gradient `grad` `[N]` of [`logp`]'s.
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn slopes(
    logits: &Tensor,
    targets: &Tensor,
    (sums, grad): (&Tensor, &Tensor),
    temperature: f64,
    dtype: DType,
) -> Result<Tensor> {
    let (rows, width) = logits.dims2()?;
    expect(logits, DType::F32, rows * width, "slopes")?;
    expect(targets, DType::U32, rows, "slopes")?;
    expect(sums, DType::F32, rows, "slopes")?;
    expect(grad, DType::F32, rows, "slopes")?;
    let out = empty((rows, width), dtype, logits.device())?;
    let tensors = [logits, targets, sums, grad, &out];
    launch("slopes", Some(&out), rows, &tensors, &[width], &[1.0 / temperature])?;
    Ok(out)
}

/// Draws a token for every row of f32 logits `[N, V]` by inverse CDF of `uniform` `[N]` (24 bits of it count), or
/// takes the most likely one at temperature 0: tokens `[N]`, `u32::MAX` where logits are not finite, and their
/// log-probabilities `[N]` at the temperature (at 1 where that is 0).
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn sample(logits: &Tensor, uniform: &Tensor, temperature: f64) -> Result<(Tensor, Tensor)> {
    let (rows, width) = logits.dims2()?;
    expect(logits, DType::F32, rows * width, "sample")?;
    expect(uniform, DType::F32, rows, "sample")?;
    let tokens = empty(rows, DType::U32, logits.device())?;
    let logp = empty(rows, DType::F32, logits.device())?;
    let is_greedy = temperature == 0.0;
    let inverse = if is_greedy { 1.0 } else { 1.0 / temperature };
    let tensors = [logits, uniform, &tokens, &logp];
    launch("sample", None, rows, &tensors, &[width, usize::from(is_greedy)], &[inverse])?;
    Ok((tokens, logp))
}

/// The numbers of a step of AdamW, in the order in which they are used.
#[derive(Debug, Clone, Copy)]
pub struct AdamW {
    /// What the gradient is scaled by.
    pub scale: f32,
    /// Shares of the old and the new mean.
    pub beta1: [f32; 2],
    /// Shares of the old and the new mean square.
    pub beta2: [f32; 2],
    /// The learning rate over the mean's correction.
    pub rate: f32,
    /// One over the mean square's correction.
    pub correct_2: f32,
    /// Added to the root of the mean square.
    pub epsilon: f32,
    /// What weights are scaled by first.
    pub keep: f32,
}

/// One step on f32 `weight` with its moments and its gradient, all of one size, in place.
///
/// # Errors
/// Sizes that do not fit, the device's.
pub fn adamw(step: AdamW, weight: &Tensor, moments: [&Tensor; 2], gradient: &Tensor) -> Result<()> {
    let count = weight.elem_count();
    let [mean, square] = moments;
    for tensor in [weight, mean, square, gradient] {
        expect(tensor, DType::F32, count, "adamw")?;
    }
    let AdamW { scale, beta1, beta2, rate, correct_2, epsilon, keep } = step;
    let floats = [scale, beta1[0], beta1[1], beta2[0], beta2[1], rate, correct_2, epsilon, keep]
        .map(f64::from);
    let tensors = [weight, mean, square, gradient];
    launch("adamw", None, count.div_ceil(ELEMENTS), &tensors, &[count], &floats)
}

/// The sum of the squares of all `tensors`, f32 on one device; parts are added up in f64, in order.
///
/// # Errors
/// Types that are not f32, no memory, the device's.
pub fn sum_of_squares(tensors: &[&Tensor]) -> Result<f64> {
    let groups = |x: &Tensor| x.elem_count().div_ceil(16 * BLOCK);
    let Some(first) = tensors.first() else { return Ok(0.0) };
    let parts =
        empty(tensors.iter().map(|x| groups(x)).sum::<usize>(), DType::F32, first.device())?;
    let mut at = 0;
    for x in tensors {
        expect(x, DType::F32, x.elem_count(), "squares")?;
        launch("squares", None, groups(x), &[x, &parts], &[x.elem_count(), at], &[])?;
        at += groups(x);
    }
    Ok(parts.to_vec1::<f32>()?.into_iter().map(f64::from).sum())
}
