//! The gated delta rule (Yang et al., arXiv 2412.06464), as Qwen3.5 has it.
//!
//! A head keeps a state `S` `[key_dim, value_dim]`. Of every token it takes a query and a key, both of length 1, the
//! query then divided by the root of `key_dim`, a value, `beta` in (0, 1) and a decay `alpha` in (0, 1):
//!
//! ```text
//! P = alpha S'                what is left of the state before
//! e = v - P^T k               what it does not know of the value yet
//! S = P + k (beta e)^T
//! o = S^T q
//! ```
//!
//! with `beta = sigmoid(b)` and `alpha = exp(-exp(A_log) softplus(a + dt_bias))`. Each column of a state is computed by
//! itself, token after token, in sampling and in training alike.

use super::Parameter;

/// The sizes of the gated delta rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeltaSizes {
    /// Heads of queries, and of keys.
    pub key_heads: usize,
    /// Heads of values, each with a state of its own; a multiple of the others.
    pub value_heads: usize,
    /// Values of a key.
    pub key_dim: usize,
    /// Values of a value.
    pub value_dim: usize,
    /// Tokens that the convolution before it reads.
    pub kernel: usize,
}

impl DeltaSizes {
    /// Values of a token's queries, and as many of its keys.
    pub(crate) fn keys(&self) -> usize {
        self.key_heads * self.key_dim
    }

    /// Values of a token's values.
    pub fn values(&self) -> usize {
        self.value_heads * self.value_dim
    }

    /// The width of the convolution's input: queries, keys and values.
    pub fn mixed(&self) -> usize {
        2 * self.keys() + self.values()
    }

    /// Value heads that share a key head.
    pub(crate) fn group(&self) -> usize {
        self.value_heads / self.key_heads
    }

    /// Values of a sequence's state, and those that the convolution still needs of its past.
    pub fn state(&self) -> [usize; 2] {
        [self.value_heads * self.key_dim * self.value_dim, (self.kernel - 1) * self.mixed()]
    }
}

/// The parameters of the delta rule in a layer.
#[derive(Debug, Clone)]
pub(crate) struct Delta {
    pub(crate) sizes: DeltaSizes,
    /// Logarithm of the decay rate of each value head, `[value_heads]`.
    pub(crate) a_log: Parameter,
    /// Bias of the decay's input, `[value_heads]`.
    pub(crate) dt_bias: Parameter,
}
