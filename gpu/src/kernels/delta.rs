//! The gated delta rule and the convolution before it.

use std::ops::Range;

use candle_core::{DType, Device, Result, Tensor, bail};

use super::{expect, launch, rows};
use crate::empty;
use crate::sizes::BLOCK;

/// Most rows, and columns, of a state.
pub const MAX_STATE: usize = BLOCK;
/// Tokens whose states the backward pass keeps at a time, as the kernels have it.
const CHUNK: usize = 16;
/// Most taps, as the kernels have it.
const MAX_TAPS: usize = 64;
/// Values of scratch that exist at once: 1 GiB.
const MOST_SCRATCH: usize = 256 << 20;
/// Added to the squared length of queries and keys.
const EPS: f64 = 1e-6;
/// No token, no state.
const NONE: i32 = -1;

/// Tokens that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeltaRun {
    /// Their places.
    pub tokens: Range<usize>,
    /// The run whose state they go on from; those that do follow it, one after the other.
    pub after: Option<usize>,
    /// Whether they go on from what the cache has in the row with this run's number.
    pub goes_on: bool,
}

/// Which tokens a convolution reads: tables on the device.
#[derive(Debug)]
pub struct Taps {
    count: usize,
    tokens: usize,
    /// Of every token its predecessors, the nearest first.
    sources: Tensor,
    /// Of every run the last tokens, the oldest first: what the cache holds afterwards.
    ends: Tensor,
    /// Where each token's readers begin, and the readers: their places, and how far before each it is.
    starts: Tensor,
    readers: Tensor,
    has_cache: bool,
}

impl Taps {
    /// The tables of `runs` over so many tokens for a convolution of `count` taps; with a cache each run is a row of
    /// it.
    ///
    /// # Errors
    /// Too many taps, runs that go on from others where there is a cache, no memory.
    pub fn new(
        runs: &[DeltaRun],
        tokens: usize,
        count: usize,
        has_cache: bool,
        device: &Device,
    ) -> Result<Self> {
        if !(2..=MAX_TAPS).contains(&count) {
            bail!("a convolution of {count} taps; kernels know 2 to {MAX_TAPS}");
        }
        if has_cache && runs.iter().any(|run| run.after.is_some()) {
            bail!("a cache of states takes whole sequences or what continues them");
        }
        // What is `back` tokens before token `inside` of a run, or before the one that would follow its last.
        let before = |index: usize, inside: usize, back: usize| -> i32 {
            let run = &runs[index];
            if back <= inside {
                return (run.tokens.start + inside - back) as i32;
            }
            let beyond = back - inside;
            match run.after.map(|after| &runs[after].tokens) {
                Some(prefix) if beyond <= prefix.len() => (prefix.end - beyond) as i32,
                None if run.goes_on => -2 - ((index + 1) * (count - 1) - beyond) as i32,
                _ => NONE,
            }
        };
        let mut sources = vec![NONE; tokens * (count - 1)];
        let mut read_by = vec![Vec::new(); tokens];
        let mut ends = Vec::with_capacity(runs.len() * (count - 1));
        for (index, run) in runs.iter().enumerate() {
            for (inside, token) in run.tokens.clone().enumerate() {
                for back in 0..count {
                    let source = before(index, inside, back);
                    if back > 0 {
                        sources[token * (count - 1) + back - 1] = source;
                    }
                    if let Ok(source) = usize::try_from(source) {
                        read_by[source].push([token as i32, back as i32]);
                    }
                }
            }
            ends.extend((1..count).rev().map(|back| before(index, run.tokens.len(), back)));
        }
        let mut starts = vec![0i32];
        for readers in &read_by {
            starts.push(starts[starts.len() - 1] + readers.len() as i32);
        }
        Ok(Self {
            count,
            tokens,
            sources: table(&sources, device)?,
            ends: table(&ends, device)?,
            starts: table(&starts, device)?,
            readers: table(&read_by.concat().concat(), device)?,
            has_cache,
        })
    }
}

/// Numbers as kernels read them; those below zero keep their bits.
fn table(values: &[i32], device: &Device) -> Result<Tensor> {
    let bits: Vec<u32> = values.iter().map(|value| *value as u32).collect();
    let count = bits.len();
    Tensor::from_vec(bits, count, device)
}

/// The causal convolution of every column of `x` `[N, C]` with its own `kernel` `[C, 1, taps]`, through SiLU. With
/// `past` `[rows, (taps - 1) * C]` runs that go on read what is there, and leave what the next will read.
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn convolution(
    x: &Tensor,
    kernel: &Tensor,
    taps: &Taps,
    past: Option<&Tensor>,
) -> Result<Tensor> {
    let width = checked(x, kernel, taps, "convolution")?;
    let kept = taps.ends.elem_count() * width;
    if past.is_some() != taps.has_cache {
        bail!("convolution: a pass with a cache and one without");
    }
    if let Some(past) = past
        && (past.dtype() != x.dtype() || past.elem_count() < kept)
    {
        bail!("convolution: {:?} has no room for {kept} values", past.shape());
    }
    let out = empty(x.shape(), x.dtype(), x.device())?;
    let sizes = [width, taps.count];
    let tensors = [x, kernel, &taps.sources, past.unwrap_or(x), &out];
    launch("convolution", Some(x), taps.tokens, &tensors, &sizes, &[])?;
    if let Some(past) = past {
        let runs = taps.ends.elem_count() / (taps.count - 1);
        launch("convolution_past", Some(x), runs, &[x, &taps.ends, past], &sizes, &[])?;
    }
    Ok(out)
}

/// The gradient of [`convolution`]'s `x` for that of its result, without a cache; the kernel's is added to `sums`.
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn convolution_back(
    x: &Tensor,
    kernel: &Tensor,
    taps: &Taps,
    grad: &Tensor,
    sums: Option<&Tensor>,
) -> Result<Tensor> {
    let width = checked(x, kernel, taps, "convolution_back")?;
    expect(grad, x.dtype(), x.elem_count(), "convolution_back")?;
    if taps.has_cache {
        bail!("convolution_back: a pass with a cache has no gradient");
    }
    let sizes = [width, taps.count, taps.tokens];
    let slopes = empty(x.shape(), DType::F32, x.device())?;
    let tensors = [x, kernel, &taps.sources, grad, &slopes];
    launch("convolution_slopes", Some(x), taps.tokens, &tensors, &sizes, &[])?;
    let dx = empty(x.shape(), x.dtype(), x.device())?;
    let tensors = [&slopes, kernel, &taps.starts, &taps.readers, &dx];
    launch("convolution_inputs", Some(x), taps.tokens, &tensors, &sizes, &[])?;
    if let Some(sums) = sums {
        expect(sums, DType::F32, kernel.elem_count(), "convolution_back")?;
        let tensors = [&slopes, x, &taps.sources, sums];
        let groups = width.div_ceil(BLOCK);
        launch("convolution_weights", Some(x), groups, &tensors, &sizes, &[])?;
    }
    Ok(dx)
}

/// The number of columns.
fn checked(x: &Tensor, kernel: &Tensor, taps: &Taps, what: &str) -> Result<usize> {
    let width = rows(kernel, taps.count, what)?;
    expect(kernel, x.dtype(), width * taps.count, what)?;
    expect(x, x.dtype(), width * taps.tokens, what)?;
    Ok(width)
}

/// A gated delta rule: its sizes, and the weights of its decay, `A_log` and `dt_bias`.
#[derive(Debug, Clone, Copy)]
pub struct Delta<'a> {
    /// Heads of queries, and of keys.
    pub key_heads: usize,
    /// Heads of values; a multiple of the others.
    pub value_heads: usize,
    /// Values of a key, [`MAX_STATE`] at most.
    pub key_dim: usize,
    /// Values of a value, [`MAX_STATE`] at most.
    pub value_dim: usize,
    /// `[value_heads]` each.
    pub weights: [&'a Tensor; 2],
}

/// What every token gives, in f32.
struct Unit {
    /// Queries and keys of length 1.
    unit: Tensor,
    /// Decay and `beta`.
    gates: Tensor,
}

impl Delta<'_> {
    fn sizes(&self) -> [usize; 4] {
        [self.key_heads, self.value_heads, self.key_dim, self.value_dim]
    }

    fn mixed(&self) -> usize {
        2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
    }

    /// Values of the states of a sequence.
    fn state(&self) -> usize {
        self.value_heads * self.key_dim * self.value_dim
    }

    /// Refuses what kernels do not know; returns the number of tokens.
    fn check(&self, [mixed, b, a]: [&Tensor; 3], what: &str) -> Result<usize> {
        if self.key_dim.max(self.value_dim) > MAX_STATE {
            bail!(
                "our kernels do not know states of {} by {} values; use --device cpu",
                self.key_dim,
                self.value_dim
            );
        }
        if self.key_heads == 0 || !self.value_heads.is_multiple_of(self.key_heads) {
            bail!("{what}: {} value heads over {} key heads", self.value_heads, self.key_heads);
        }
        let (tokens, dtype) = (rows(mixed, self.mixed(), what)?, mixed.dtype());
        expect(b, dtype, tokens * self.value_heads, what)?;
        expect(a, dtype, tokens * self.value_heads, what)?;
        for weight in self.weights {
            expect(weight, dtype, self.value_heads, what)?;
        }
        Ok(tokens)
    }

    fn unit(&self, [mixed, b, a]: [&Tensor; 3], tokens: usize) -> Result<Unit> {
        let (both, device) = (2 * self.key_heads * self.key_dim, mixed.device());
        let unit = empty((tokens, both), DType::F32, device)?;
        let gates = empty((tokens, 2 * self.value_heads), DType::F32, device)?;
        let tensors = [mixed, b, a, self.weights[0], self.weights[1], &unit, &gates];
        launch("delta_unit", Some(mixed), tokens, &tensors, &self.sizes(), &[EPS])?;
        Ok(Unit { unit, gates })
    }

    /// Runs the rule over some runs of a table.
    fn forward(
        &self,
        Unit { unit, gates }: &Unit,
        mixed: &Tensor,
        runs: &[[i32; 6]],
        states: &Tensor,
        out: &Tensor,
    ) -> Result<()> {
        let table = table(&runs.concat(), mixed.device())?;
        let tensors = [unit, mixed, gates, &table, states, out];
        let groups = runs.len() * self.value_heads;
        launch("delta_rule", Some(mixed), groups, &tensors, &self.sizes(), &[])
    }
}

/// The table of runs, `[first, tokens, from, to, pulls from, how many]`: those that begin, and those that go on from
/// them.
fn tables(runs: &[DeltaRun], tokens: usize) -> Result<[Vec<[i32; 6]>; 2]> {
    let mut tables = [vec![], vec![]];
    for (index, run) in runs.iter().enumerate() {
        if run.tokens.end > tokens || run.after.is_some_and(|after| after >= index) {
            bail!("delta_rule: runs of other tokens");
        }
        let from = match run.after {
            Some(after) => after as i32,
            None if run.goes_on => index as i32,
            None => NONE,
        };
        let others = runs[index + 1..].iter();
        let suffixes = others.take_while(|other| other.after == Some(index)).count();
        let row = [
            run.tokens.start as i32,
            run.tokens.len() as i32,
            from,
            index as i32,
            index as i32 + 1,
            suffixes as i32,
        ];
        tables[usize::from(run.after.is_some())].push(row);
    }
    Ok(tables)
}

/// The gated delta rule of queries, keys and values `[N, mixed]`, `b` and `a` `[N, value_heads]`, to `[N, value_heads *
/// value_dim]`. With `states` `[rows, value_heads * key_dim * value_dim]` in f32 runs that go on begin with what is
/// there, and all leave theirs.
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn delta_rule(
    rule: Delta<'_>,
    inputs: [&Tensor; 3],
    runs: &[DeltaRun],
    states: Option<&Tensor>,
) -> Result<Tensor> {
    let tokens = rule.check(inputs, "delta_rule")?;
    let [begin, go_on] = tables(runs, tokens)?;
    let (mixed, device) = (inputs[0], inputs[0].device());
    let count = runs.len() * rule.state();
    let states = match states {
        Some(states) if !go_on.is_empty() || states.elem_count() < count => {
            bail!("delta_rule: {:?} is no cache of {} sequences", states.shape(), runs.len())
        }
        Some(states) => states.clone(),
        None if runs.iter().any(|run| run.goes_on) => bail!("delta_rule: there is no cache"),
        None => empty(count, DType::F32, device)?,
    };
    let unit = rule.unit(inputs, tokens)?;
    let out = empty((tokens, rule.value_heads * rule.value_dim), mixed.dtype(), device)?;
    rule.forward(&unit, mixed, &begin, &states, &out)?;
    rule.forward(&unit, mixed, &go_on, &states, &out)?;
    Ok(out)
}

/// The gradients of [`delta_rule`]'s inputs for that of its result, without a cache, and what is to be added to
/// those of its weights.
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn delta_back(
    rule: Delta<'_>,
    inputs: [&Tensor; 3],
    runs: &[DeltaRun],
    grad: &Tensor,
) -> Result<([Tensor; 3], [Tensor; 2])> {
    let tokens = rule.check(inputs, "delta_back")?;
    let (heads, [mixed, _, a]) = (rule.value_heads, inputs);
    let (dtype, device) = (mixed.dtype(), mixed.device());
    expect(grad, dtype, tokens * heads * rule.value_dim, "delta_back")?;
    if runs.iter().any(|run| run.goes_on) {
        bail!("delta_back: a pass with a cache has no gradient");
    }
    let [begin, go_on] = tables(runs, tokens)?;
    let unit = rule.unit(inputs, tokens)?;
    let states = empty(runs.len() * rule.state(), DType::F32, device)?;
    let pulls = empty(runs.len() * rule.state(), DType::F32, device)?;
    // The states that others go on from.
    let shared: Vec<[i32; 6]> = begin.iter().filter(|run| run[5] > 0).copied().collect();
    let unread = empty(grad.shape(), dtype, device)?;
    rule.forward(&unit, mixed, &shared, &states, &unread)?;
    let of_unit = empty((tokens, 2 * heads * rule.key_dim), DType::F32, device)?;
    let rest = empty((tokens, heads * (rule.value_dim + 2)), DType::F32, device)?;
    let longest = runs.iter().map(|run| run.tokens.len()).max().unwrap_or(0);
    let marks = longest.div_ceil(CHUNK);
    let size = rule.key_dim * rule.value_dim;
    let scratch = (marks + CHUNK) * size + 2 * CHUNK * rule.value_dim;
    for runs in [go_on, begin] {
        let groups = runs.len() * heads;
        let at_once = (MOST_SCRATCH / scratch).clamp(1, groups.max(1));
        let table = table(&runs.concat(), device)?;
        let scratch = empty(at_once * scratch, DType::F32, device)?;
        for first in (0..groups).step_by(at_once) {
            let tensors = [
                &unit.unit,
                mixed,
                &unit.gates,
                &table,
                &states,
                &pulls,
                &scratch,
                grad,
                &of_unit,
                &rest,
            ];
            let [key_heads, heads, key_dim, value_dim] = rule.sizes();
            let sizes = [key_heads, heads, key_dim, value_dim, first, marks];
            let count = at_once.min(groups - first);
            launch("delta_back", Some(mixed), count, &tensors, &sizes, &[])?;
        }
    }
    let d_mixed = empty(mixed.shape(), dtype, device)?;
    let ba = empty((tokens, 2 * heads), dtype, device)?;
    let sums = empty((tokens, 2 * heads), DType::F32, device)?;
    let weights = Tensor::cat(&rule.weights, 0)?;
    let tensors =
        [mixed, &of_unit, &rest, &unit.unit, &unit.gates, &d_mixed, &ba, &sums, a, &weights];
    launch("delta_inputs", Some(mixed), tokens, &tensors, &rule.sizes(), &[EPS])?;
    let part = |x: &Tensor, at: usize| x.narrow(1, at, heads)?.contiguous();
    let sums = sums.sum_keepdim(0)?;
    let of_weights = [part(&sums, 0)?.flatten_all()?, part(&sums, heads)?.flatten_all()?];
    Ok(([d_mixed, part(&ba, 0)?, part(&ba, heads)?], of_weights))
}
