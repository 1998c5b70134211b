//! Weights between models: means, and points on a straight line.

use anyhow::{Result, bail};
use candle_core::{DType, Tensor};

use super::weights::Weights;

/// The mean of several models' weights, in f32.
///
/// # Errors
/// Weights of other names or shapes.
pub fn mean(models: &[Weights]) -> Result<Weights> {
    let Some((first, others)) = models.split_first() else { bail!("there is nothing to average") };
    let share = 1.0 / models.len() as f64;
    let one = |(name, tensor): (&String, &Tensor)| -> Result<(String, Tensor)> {
        // In f32: sums of bfloat16 lose what is below 1 / 256 of them.
        let mut sum = tensor.to_dtype(DType::F32)?;
        for other in others {
            let Some(tensor) = other.get(name).filter(|_| other.len() == first.len()) else {
                bail!(
                    "weight `{name}` is not in every model: only models of one architecture have a mean"
                );
            };
            if tensor.shape() != sum.shape() {
                bail!("weight `{name}` is {:?} and {:?}", sum.dims(), tensor.dims());
            }
            sum = (sum + tensor.to_dtype(DType::F32)?)?;
        }
        Ok((name.clone(), (sum * share)?))
    };
    first.iter().map(one).collect()
}

/// Weights on the straight line from one model to another, in f32: `from` at 0, `to` at 1.
///
/// # Errors
/// Weights of other names or shapes.
pub fn between(from: &Weights, to: &Weights, share: f64) -> Result<Weights> {
    let one = |(name, start): (&String, &Tensor)| -> Result<(String, Tensor)> {
        let Some(end) = to.get(name).filter(|end| end.shape() == start.shape()) else {
            bail!("weight `{name}` is not of one shape in both models");
        };
        let (start, end) = (start.to_dtype(DType::F32)?, end.to_dtype(DType::F32)?);
        Ok((name.clone(), ((start * (1.0 - share))? + (end * share)?)?))
    };
    from.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Tensor};

    use super::*;

    #[test]
    fn averages_lie_on_the_line_from_the_base_to_the_run() {
        let weights = |values: [f32; 2]| -> Weights {
            let tensor = Tensor::new(&values, &Device::Cpu).expect("a tensor");
            Weights::from([("w".to_owned(), tensor)])
        };
        let values =
            |weights: &Weights| -> Vec<f32> { weights["w"].to_vec1().expect("values of a tensor") };
        let (base, run) = (weights([1.0, -2.0]), weights([3.0, 4.0]));
        assert_eq!(values(&between(&base, &run, 0.25).expect("an average")), [1.5, -0.5]);
        let half = between(&base, &run, 0.5).expect("an average");
        assert_eq!(values(&half), values(&mean(&[base.clone(), run]).expect("a mean")));
        let other = Weights::from([("v".to_owned(), base["w"].clone())]);
        assert!(between(&base, &other, 0.5).is_err());
    }
}
