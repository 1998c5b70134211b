//! The gated delta rule.

use std::ops::Range;

use candle_core::{DType, Result, Tensor, bail};

use super::{expect, launch, rows};
use crate::empty;
use crate::sizes::BLOCK;
use crate::workspace::{Array, Destination, Operand, new_empty};

/// Most rows, and columns, of a state.
pub const MAX_STATE: usize = BLOCK;
/// Tokens whose states the backward pass keeps at a time, as the kernels have it.
const CHUNK: usize = 16;
/// Values of scratch that exist at once: 1 GiB.
const MOST_SCRATCH: usize = 256 << 20;
/// Added to the squared length of queries and keys.
const EPS: f64 = 1e-6;
/// No token, no state.
pub(super) const NONE: i32 = -1;

/// Tokens that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeltaRun {
    /// Indices of the tokens in the pass.
    pub tokens: Range<usize>,
    /// The run whose state they go on from; those that do follow it, one after the other.
    pub after: Option<usize>,
    /// Whether they go on from what the cache has in the row with this run's number.
    pub goes_on: bool,
}

/// Numbers as kernels read them; those below zero keep their bits.
pub(super) fn table(values: &[i32], to: Destination<'_>) -> Result<Array> {
    if values.is_empty() {
        bail!("a table without numbers: a device has no memory of no bytes");
    }
    let bits: Vec<u32> = values.iter().map(|value| *value as u32).collect();
    let count = bits.len();
    to.upload(bits, count)
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
    /// `A_log` and `dt_bias`, `[value_heads]` each.
    pub weights: [&'a Tensor; 2],
}

/// Unit vectors and gates of every token, in f32.
struct Unit {
    /// Queries and keys of length 1.
    unit: Array,
    /// Decay and `beta`.
    gates: Array,
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

    fn unit(&self, inputs: [&dyn Operand; 3], tokens: usize) -> Result<Unit> {
        let both = 2 * self.key_heads * self.key_dim;
        let unit = new_empty(inputs[0], (tokens, both), DType::F32)?;
        let gates = new_empty(inputs[0], (tokens, 2 * self.value_heads), DType::F32)?;
        let [mixed, b, a] = inputs.map(|x| x.tensor());
        let [a_log, bias] = self.weights;
        let tensors = [mixed, b, a, a_log, bias, unit.tensor(), gates.tensor()];
        launch("delta_unit", Some(mixed), tokens, &tensors, &self.sizes(), &[EPS])?;
        Ok(Unit { unit, gates })
    }

    /// Runs the rule over some runs of a table.
    fn forward(
        &self,
        Unit { unit, gates }: &Unit,
        mixed: &dyn Operand,
        runs: &[[i32; 6]],
        states: &Tensor,
        out: &Tensor,
    ) -> Result<()> {
        if runs.is_empty() {
            return Ok(());
        }
        let (table, mixed) = (table(&runs.concat(), Destination::like(mixed))?, mixed.tensor());
        let tensors = [unit.tensor(), mixed, gates.tensor(), table.tensor(), states, out];
        let groups = runs.len() * self.value_heads;
        launch("delta_rule", Some(mixed), groups, &tensors, &self.sizes(), &[])
    }
}

/// The table of runs, `[first, tokens, from, to, gradients from, how many]`: those that begin, and those that go on
/// from them.
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
pub fn delta_rule(
    rule: Delta<'_>,
    inputs: [&dyn Operand; 3],
    runs: &[DeltaRun],
    states: Option<&Tensor>,
) -> Result<Array> {
    let tokens = rule.check(inputs.map(|x| x.tensor()), "delta_rule")?;
    let [begin, go_on] = tables(runs, tokens)?;
    let mixed = inputs[0];
    let count = runs.len() * rule.state();
    let states = match states {
        Some(states) if !go_on.is_empty() || states.elem_count() < count => {
            bail!("delta_rule: {:?} is no cache of {} sequences", states.shape(), runs.len())
        }
        Some(states) => states.clone(),
        None if runs.iter().any(|run| run.goes_on) => bail!("delta_rule: there is no cache"),
        None => empty(count, DType::F32, mixed.tensor().device())?,
    };
    let unit = rule.unit(inputs, tokens)?;
    let width = rule.value_heads * rule.value_dim;
    let out = new_empty(mixed, (tokens, width), mixed.tensor().dtype())?;
    rule.forward(&unit, mixed, &begin, &states, out.tensor())?;
    rule.forward(&unit, mixed, &go_on, &states, out.tensor())?;
    Ok(out)
}

/// The gradients of [`delta_rule`]'s inputs for that of its result, without a cache, and what is to be added to
/// those of its weights.
pub fn delta_back(
    rule: Delta<'_>,
    inputs: [&dyn Operand; 3],
    runs: &[DeltaRun],
    grad: &dyn Operand,
) -> Result<([Array; 3], [Tensor; 2])> {
    let ([mixed, b, a], grad) = (inputs.map(|x| x.tensor()), grad.tensor());
    let (tokens, heads) = (rule.check([mixed, b, a], "delta_back")?, rule.value_heads);
    let (dtype, device) = (mixed.dtype(), mixed.device());
    expect(grad, dtype, tokens * heads * rule.value_dim, "delta_back")?;
    if runs.iter().any(|run| run.goes_on) {
        bail!("delta_back: a pass with a cache has no gradient");
    }
    let [begin, go_on] = tables(runs, tokens)?;
    let unit = rule.unit(inputs, tokens)?;
    let states = empty(runs.len() * rule.state(), DType::F32, device)?;
    let state_grads = empty(runs.len() * rule.state(), DType::F32, device)?;
    // The states that others go on from.
    let shared: Vec<[i32; 6]> = begin.iter().filter(|run| run[5] > 0).copied().collect();
    let unread = empty(grad.shape(), dtype, device)?;
    rule.forward(&unit, mixed, &shared, &states, &unread)?;
    let [unit, gates] = [unit.unit.tensor(), unit.gates.tensor()];
    let of_unit = empty((tokens, 2 * heads * rule.key_dim), DType::F32, device)?;
    let rest = empty((tokens, heads * (rule.value_dim + 2)), DType::F32, device)?;
    let longest = runs.iter().map(|run| run.tokens.len()).max().unwrap_or(0);
    let marks = longest.div_ceil(CHUNK);
    let size = rule.key_dim * rule.value_dim;
    // Gradient checkpointing along the sequence: one state every 16 tokens, and those of the chunk in hand.
    let scratch = (marks + CHUNK) * size + 2 * CHUNK * rule.value_dim;
    // Runs that go on first: their state gradients add up to that of the run before them.
    for runs in [go_on, begin].into_iter().filter(|runs| !runs.is_empty()) {
        let groups = runs.len() * heads;
        let at_once = (MOST_SCRATCH / scratch).clamp(1, groups.max(1));
        let table = table(&runs.concat(), device.into())?;
        let scratch = empty(at_once * scratch, DType::F32, device)?;
        for first in (0..groups).step_by(at_once) {
            let tensors = [
                unit,
                mixed,
                gates,
                table.tensor(),
                &states,
                &state_grads,
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
    let tensors = [mixed, &of_unit, &rest, unit, gates, &d_mixed, &ba, &sums, a, &weights];
    launch("delta_inputs", Some(mixed), tokens, &tensors, &rule.sizes(), &[EPS])?;
    let part = |x: &Tensor, at: usize| x.narrow(1, at, heads)?.contiguous();
    let sums = sums.sum_keepdim(0)?;
    let of_weights = [part(&sums, 0)?.flatten_all()?, part(&sums, heads)?.flatten_all()?];
    let d_inputs = [d_mixed, part(&ba, 0)?, part(&ba, heads)?].map(Array::from);
    Ok((d_inputs, of_weights))
}
