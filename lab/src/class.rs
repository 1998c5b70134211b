//! Policy classes: tables of next-token logits, one row for each context that the class can tell
//! apart. What a class cannot tell apart is its misspecification.
//!
//! Letters: X prompts, Y outputs, L tokens of each, C contexts, V tokens. Rows of tensors are pairs
//! of prompt and output, prompt by prompt. Everything is f64.

use std::collections::BTreeMap;
use std::fmt;

use candle_core::{D, Device, Result, Tensor, Var};
use candle_nn::ops::log_softmax;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::World;

/// The class of a policy: the context that its next-token distribution depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// The next token depends on no token before.
    Unigram,
    /// The next token depends on the token before.
    Bigram,
    /// The next token depends on the two tokens before.
    Trigram,
    /// The next token depends on the prompt and all tokens before: every policy.
    Full,
}

impl fmt::Display for Class {
    /// The name that `--class` takes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Unigram => "unigram",
            Class::Bigram => "bigram",
            Class::Trigram => "trigram",
            Class::Full => "full",
        })
    }
}

impl Class {
    fn context(self, prompt: usize, before: &[usize]) -> Vec<usize> {
        let last = |count: usize| before[before.len().saturating_sub(count)..].to_vec();
        match self {
            Class::Unigram => vec![],
            Class::Bigram => last(1),
            Class::Trigram => last(2),
            Class::Full => [&[prompt], before].concat(),
        }
    }
}

/// A policy of a class.
pub struct Table {
    /// Logits `[C, V]`, a row a context.
    pub logits: Var,
    /// The context of every token, `X Y L` of them.
    contexts: Tensor,
    /// The cell `context V + token` of every token.
    cells: Tensor,
    shape: (usize, usize),
}

impl Table {
    /// The member of `class` nearest to the distributions `towards` (one a prompt) in forward KL:
    /// its rows are their expected counts of transitions, normalised.
    pub fn project(world: &World, class: Class, towards: &[Vec<f64>]) -> Result<Self> {
        let mut known: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        let (mut contexts, mut cells) = (Vec::new(), Vec::new());
        let mut counts: Vec<f64> = Vec::new();
        for (prompt, towards) in towards.iter().enumerate() {
            for (output, chance) in world.outputs.iter().zip(towards) {
                for (place, token) in output.iter().enumerate() {
                    let next = known.len();
                    let key = class.context(prompt, &output[..place]);
                    let context = *known.entry(key).or_insert(next);
                    counts.resize(known.len() * world.vocabulary, 0.0);
                    // max_theta E_p[log pi] of a table is reached at the expected counts of transitions, normalised:
                    // moment matching.
                    counts[context * world.vocabulary + token] += chance;
                    contexts.push(context as u32);
                    cells.push((context * world.vocabulary + token) as u32);
                }
            }
        }
        // A context that never occurs has no say; the floor keeps its logits finite.
        let logits: Vec<f64> = counts.iter().map(|count| (count + 1e-300).ln()).collect();
        let shape = (towards.len() * world.outputs.len(), world.length());
        let device = &Device::Cpu;
        let count = contexts.len();
        let logits = Tensor::from_vec(logits, (known.len(), world.vocabulary), device)?;
        Ok(Self {
            logits: Var::from_tensor(&log_softmax(&logits, D::Minus1)?)?,
            contexts: Tensor::from_vec(contexts, count, device)?,
            cells: Tensor::from_vec(cells, count, device)?,
            shape,
        })
    }

    /// The base as a member of `class`, the same on every prompt.
    pub fn base(world: &World, class: Class) -> Result<Self> {
        Self::project(world, class, &vec![world.base.clone(); world.is_right.len()])
    }

    /// Log-probability of every token of every output, `[X Y, L]`, with a gradient in the logits.
    pub fn token_logp(&self) -> Result<Tensor> {
        let all = log_softmax(self.logits.as_tensor(), D::Minus1)?.flatten_all()?;
        all.index_select(&self.cells, 0)?.reshape(self.shape)
    }

    /// The next-token distribution at every token's position, `[X Y L, V]`.
    pub fn next_logp(&self) -> Result<Tensor> {
        log_softmax(self.logits.as_tensor(), D::Minus1)?.index_select(&self.contexts, 0)
    }

    /// The cell `context V + token` of every token of every row.
    pub(super) fn cell_rows(&self) -> Result<Vec<Vec<u32>>> {
        self.cells.reshape(self.shape)?.to_vec2()
    }

    /// `(X Y, L)`: pairs of prompt and output, tokens of each.
    pub fn shape(&self) -> (usize, usize) {
        self.shape
    }

    /// The probability of every output, prompt by prompt.
    pub fn distributions(&self, world: &World) -> Result<Vec<Vec<f64>>> {
        let logp = self.token_logp()?.detach().sum(1)?.exp()?.to_vec1::<f64>()?;
        Ok(logp.chunks(world.outputs.len()).map(<[f64]>::to_vec).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_is_in_every_class_that_sees_enough() {
        for (name, first) in
            [("ends", Class::Bigram), ("dyck", Class::Bigram), ("strategies", Class::Unigram)]
        {
            let world = World::named(name).unwrap();
            for class in [first, Class::Trigram, Class::Full] {
                let q = Table::base(&world, class).unwrap().distributions(&world).unwrap();
                for (q, a) in q[0].iter().zip(&world.base) {
                    assert!((q - a).abs() < 1e-12, "{name} {class:?}");
                }
            }
        }
    }
}
