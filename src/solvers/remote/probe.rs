//! Whether a server has the weights that it was told to read: the log-probabilities of one short prompt say so.
//!
//! A server may answer a reload with what it remembers of an old one, or keep a second copy of an output layer that is
//! tied to the embedding. One optimizer step changes log-probabilities by less than bfloat16 rounds them, so comparing
//! them with the policy's does not show it. A server is therefore first given the same policy under other token ids:
//! the rows of embedding and output layer are exchanged among the prompt's tokens. The exchanged prompt must then get
//! the log-probabilities that the prompt gets from the policy. With an old output layer they are those of other
//! tokens, nats away, whatever the learning rate and the server's arithmetic are.

use anyhow::{Result, bail};
use candle_core::Tensor;

use tealight_nn::model::weights::Weights;

/// The tensors that have a row for each token.
const BY_TOKEN: [&str; 2] = ["model.embed_tokens.weight", "lm_head.weight"];
/// Tokens of the prompt.
const LENGTH: usize = 32;
/// Mean difference of log-probabilities, in nats a token, that no rounding makes.
const APART: f64 = 0.1;
/// The same where the policy's are compared with a server's, whose arithmetic is another.
const APART_FROM_POLICY: f64 = 0.5;
/// How much larger than the first difference a later one may be, and what is added to it.
const GROWTH: f64 = 5.0;
const FLOOR: f64 = 1e-3;
/// A server that rounds to bfloat16 differs more from a policy that has become surer: up to so much, where the first
/// difference says that it rounds at all.
const OF_ROUNDING: f64 = 0.05;

/// A prompt and how its tokens are exchanged.
pub(super) struct Probe {
    ids: Vec<u32>,
}

impl Probe {
    /// Tokens from all over a vocabulary but its last quarter, which may be padding without a text.
    pub(super) fn new(vocabulary: usize) -> Self {
        let range = (vocabulary * 3 / 4).max(1);
        let count = LENGTH.min(range);
        Self { ids: (0..count).map(|i| (i * range / count) as u32).collect() }
    }

    /// The prompt.
    pub(super) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The prompt under the other ids.
    pub(super) fn exchanged(&self) -> Vec<u32> {
        let mut ids = self.ids.clone();
        ids.rotate_left(self.ids.len() / 2);
        ids
    }

    /// The same model under the other ids.
    ///
    /// # Errors
    /// Weights without an embedding, which are an adapter's.
    pub(super) fn exchange(&self, weights: &Weights) -> Result<Weights> {
        let mut weights = weights.clone();
        let mut count = 0;
        for name in BY_TOKEN {
            let Some(tensor) = weights.get_mut(name) else { continue };
            let mut rows: Vec<u32> = (0..tensor.dim(0)? as u32).collect();
            for (id, other) in self.ids.iter().zip(self.exchanged()) {
                rows[other as usize] = *id;
            }
            let rows = Tensor::new(rows, tensor.device())?;
            *tensor = tensor.contiguous()?.index_select(&rows, 0)?;
            count += 1;
        }
        if count == 0 {
            bail!("there is no embedding whose rows could be exchanged");
        }
        Ok(weights)
    }
}

/// The mean absolute difference of two rows of log-probabilities.
fn apart(one: &[f64], other: &[f64]) -> f64 {
    let sum: f64 = one.iter().zip(other).map(|(a, b)| (a - b).abs()).sum();
    sum / one.len().max(1) as f64
}

/// Whether a difference is at most `limit`; NaN is not.
fn is_within(difference: f64, limit: f64) -> bool {
    difference <= limit
}

/// The log-probabilities of the prompt that a server gave.
pub(super) struct Served {
    /// Under the other ids.
    pub(super) exchanged: Vec<f64>,
    /// Under its own.
    pub(super) plain: Vec<f64>,
}

/// What is wrong with a server after its first reloads; the difference from the policy where nothing is.
pub(super) fn verdict(served: &Served, policy: &[f64]) -> Result<f64> {
    let (exchanged, difference) =
        (apart(&served.exchanged, &served.plain), apart(&served.plain, policy));
    if !is_within(exchanged, APART) {
        bail!(
            "its output layer or its embedding did not change when it was told to read all weights again (a probe's \
             log-probabilities are {exchanged:.2} nats a token away): train an adapter (--use-peft), which it reads \
             anew at every step, or use another server"
        );
    }
    if !is_within(difference, APART_FROM_POLICY) {
        bail!(
            "it read all weights again, but its log-probabilities of a probe are {difference:.2} nats a token from the \
             policy's: it serves another model, or kept a part of its old weights"
        );
    }
    Ok(difference)
}

/// Refuses a server whose difference from the policy has grown since the first reload.
pub(super) fn check(served: &[f64], policy: &[f64], first: f64) -> Result<()> {
    let difference = apart(served, policy);
    let rounding = OF_ROUNDING.min(10.0 * GROWTH * first);
    if !is_within(difference, (GROWTH * first + FLOOR).max(rounding)) {
        bail!(
            "it was told to read all weights again, but its log-probabilities of a probe are {difference:.4} nats a \
             token from the policy's, where the first weights of this run were {first:.4} away: it kept old weights"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    #[test]
    fn rows_go_with_the_ids_of_their_tokens() {
        for vocabulary in [1, 2, 5, 40, 1000] {
            let probe = Probe::new(vocabulary);
            let table = Tensor::arange(0, vocabulary as i64, &Device::Cpu).unwrap();
            let table = table.reshape((vocabulary, 1)).unwrap();
            let weights = Weights::from([
                (BY_TOKEN[0].to_owned(), table.clone()),
                ("model.norm.weight".to_owned(), table.clone()),
            ]);
            let exchanged = probe.exchange(&weights).unwrap();
            let rows: Vec<i64> = exchanged[BY_TOKEN[0]].flatten_all().unwrap().to_vec1().unwrap();
            for (id, other) in probe.ids().iter().zip(probe.exchanged()) {
                assert_eq!(rows[other as usize], i64::from(*id), "of {vocabulary}");
            }
            let mut sorted = rows.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..vocabulary as i64).collect::<Vec<_>>(), "every row once");
            let norm: Vec<i64> =
                exchanged["model.norm.weight"].flatten_all().unwrap().to_vec1().unwrap();
            assert_eq!(norm, (0..vocabulary as i64).collect::<Vec<_>>());
            if vocabulary > 2 {
                assert_ne!(probe.exchanged(), probe.ids());
            }
        }
        assert!(Probe::new(4).exchange(&Weights::new()).is_err());
    }

    #[test]
    fn a_difference_beyond_rounding_is_refused() {
        let served = |exchanged: f64, plain: f64| Served {
            exchanged: vec![exchanged; 3],
            plain: vec![plain; 3],
        };
        let policy = [-2.0; 3];
        assert!((verdict(&served(-2.01, -2.02), &policy).unwrap() - 0.02).abs() < 1e-9);
        let error = |served: &Served| verdict(served, &policy).unwrap_err().to_string();
        assert!(error(&served(-4.0, -2.0)).contains("did not change"));
        assert!(error(&served(f64::NAN, -2.0)).contains("did not change"));
        assert!(error(&served(-3.0, -3.0)).contains("another model"));
        assert!(check(&[-2.05; 3], &policy, 0.02).is_ok());
        assert!(check(&[-2.007; 3], &policy, 5e-7).is_err());
        assert!(check(&[-2.04; 3], &policy, 2e-3).is_ok());
        assert!(check(&[-2.06; 3], &policy, 2e-3).is_err());
        assert!(check(&[-2.009; 3], &policy, 2e-4).is_ok());
        assert!(check(&[-2.011; 3], &policy, 2e-4).is_err());
        assert!(check(&[f64::NAN; 3], &policy, 0.02).is_err());
    }
}
