//! Weights that a policy takes over, and the checksum that is left of them.

use anyhow::Result;
use candle_core::{DType, Device};

use super::Pretrained;
pub(super) use tealight_nn::backend::cpu::with_values;
pub(super) use tealight_nn::backend::int8;
use tealight_nn::policy::Policy;

impl Pretrained {
    /// A policy of all weights that starts here and takes the weights with it, so that there is one copy of them.
    pub fn take_policy(&mut self) -> Result<Policy> {
        self.keep_fingerprint()?;
        Ok(Policy::in_place_of(&self.architecture, std::mem::take(&mut self.weights))?)
    }

    /// Computes the checksum now, for when the weights are gone.
    pub fn keep_fingerprint(&mut self) -> Result<()> {
        self.fingerprint = Some(self.fingerprint()?);
        Ok(())
    }

    /// The checksum, if it was kept.
    pub fn kept_fingerprint(&self) -> Option<&str> {
        self.fingerprint.as_deref()
    }

    /// A checksum of all that decides what the model answers, to tell models of one name apart: weights, configuration,
    /// tokenizer, chat template, stop tokens, adapter.
    pub fn fingerprint(&self) -> Result<String> {
        if let Some(fingerprint) = &self.fingerprint {
            return Ok(fingerprint.clone());
        }
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(format!("{}{:?}", self.config, self.generation_stops.0).as_bytes());
        for (name, bytes) in self.tokenizer_files.contents() {
            hasher.update(name.as_bytes());
            hasher.update(bytes);
        }
        let adapter = self.adapter.iter().flat_map(|adapter| adapter.weights.values());
        if let Some(adapter) = &self.adapter {
            hasher.update(format!("{:?}", adapter.scaling).as_bytes());
        }
        for tensor in self.weights.values().chain(adapter) {
            let values = int8::widened(tensor)?.flatten_all()?.to_dtype(DType::F32)?;
            let values = values.to_device(&Device::Cpu)?;
            with_values(&values, |values| {
                let bytes = |x: &f32| x.to_le_bytes();
                for part in values.chunks(1 << 16) {
                    hasher.update(&part.iter().flat_map(bytes).collect::<Vec<u8>>());
                }
                Ok(())
            })?;
        }
        Ok(format!("{:08x}", hasher.finalize()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub;
    use tealight_nn::device::Precision;

    #[test]
    fn a_policy_takes_the_weights_and_leaves_their_checksum() {
        let load = || Pretrained::load(hub::EMBEDDED, Precision::default(), &Device::Cpu).unwrap();
        let (mut base, other) = (load(), load());
        let checksum = base.fingerprint().unwrap();
        let policy = base.take_policy().unwrap();
        assert!(base.weights.is_empty() && base.fingerprint().unwrap() == checksum);
        // The same policy as one beside the base, of the same bits.
        let separate = other.policy(None).unwrap();
        let (tensors, others) = (policy.tensors(), separate.tensors());
        assert_eq!(tensors.keys().collect::<Vec<_>>(), others.keys().collect::<Vec<_>>());
        for (name, weight) in &tensors {
            let values =
                |x: &candle_core::Tensor| x.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            assert_eq!(values(weight), values(&others[name]), "{name}");
            assert_eq!(values(weight), values(&other.weights[name]), "{name}");
        }
        // A clone is the same policy.
        let clone = policy.clone();
        let name = tensors.keys().next().unwrap();
        let zero = tensors[name].zeros_like().unwrap();
        policy.weights()[name].set(&zero).unwrap();
        let sum = clone.tensors()[name].abs().unwrap().sum_all().unwrap();
        assert_eq!(sum.to_scalar::<f32>().unwrap(), 0.0);
    }
}
