//! Flat columns of token values, and where each completion begins in them: on the host, and on the device of a loss.

use std::ops::Range;

use candle_core::{Device, Result, Tensor};

/// Where completions begin in a flat column: completion `i` has the tokens `offsets[i]..offsets[i + 1]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offsets(Vec<usize>);

impl Offsets {
    /// Of completions of so many tokens each.
    pub fn new(lengths: impl IntoIterator<Item = usize>) -> Self {
        let mut end = 0;
        let ends = lengths.into_iter().map(|length| {
            end += length;
            end
        });
        Self(std::iter::once(0).chain(ends).collect())
    }

    /// Number of completions.
    pub fn completions(&self) -> usize {
        self.0.len() - 1
    }

    /// Tokens of each completion.
    pub fn lengths(&self) -> Vec<usize> {
        self.0.windows(2).map(|ends| ends[1] - ends[0]).collect()
    }

    /// The tokens of consecutive completions.
    pub fn span(&self, completions: Range<usize>) -> Range<usize> {
        self.0[completions.start]..self.0[completions.end]
    }

    /// The offsets of consecutive completions, from 0 on.
    #[must_use]
    pub fn slice(&self, completions: Range<usize>) -> Self {
        let first = self.0[completions.start];
        Self(self.0[completions.start..=completions.end].iter().map(|end| end - first).collect())
    }

    /// The offsets of some completions, in the order given.
    #[must_use]
    pub fn select(&self, completions: &[usize]) -> Self {
        Self::new(completions.iter().map(|i| self.0[i + 1] - self.0[*i]))
    }

    /// The values of each completion.
    pub fn split<'a, T>(&'a self, column: &'a [T]) -> impl Iterator<Item = &'a [T]> + Clone {
        self.0.windows(2).map(|ends| &column[ends[0]..ends[1]])
    }

    /// The values of some completions, in the order given.
    pub fn gather<T: Copy>(&self, column: &[T], completions: &[usize]) -> Vec<T> {
        let values = completions.iter().flat_map(|i| &column[self.0[*i]..self.0[i + 1]]);
        values.copied().collect()
    }

    /// A column with the value of its completion at every token.
    pub fn spread<T: Copy>(&self, values: &[T]) -> Vec<T> {
        let tokens = values.iter().zip(self.0.windows(2));
        tokens.flat_map(|(value, ends)| std::iter::repeat_n(*value, ends[1] - ends[0])).collect()
    }
}

/// Which completion each packed token belongs to.
#[derive(Debug, Clone)]
pub struct Completions {
    /// Tokens of each completion, B of them.
    lengths: Vec<usize>,
    /// The completion of each token, `[N]`.
    owner: Tensor,
}

impl Completions {
    /// Of completions with so many tokens each.
    pub fn new(lengths: Vec<usize>, device: &Device) -> Result<Self> {
        let owner = lengths.iter().enumerate();
        let owner: Vec<u32> =
            owner.flat_map(|(row, length)| std::iter::repeat_n(row as u32, *length)).collect();
        let count = owner.len();
        Ok(Self { lengths, owner: Tensor::from_vec(owner, count, device)? })
    }

    /// Sums `[B]` of the tokens of each completion, of `x` `[N]`.
    pub fn sum(&self, x: &Tensor) -> Result<Tensor> {
        let zeros = Tensor::zeros(self.lengths.len(), x.dtype(), x.device())?;
        // By index and not by a mask [B, N], which would be quadratic in the completions.
        zeros.index_add(&self.owner, x, 0)
    }

    /// Means `[B]` of the tokens of each completion.
    pub fn mean(&self, x: &Tensor) -> Result<Tensor> {
        let lengths = self.lengths.iter().map(|length| *length as f64).collect();
        let lengths = Tensor::from_vec(lengths, self.lengths.len(), &Device::Cpu)?;
        self.sum(x)? / lengths.to_dtype(x.dtype())?.to_device(x.device())?
    }

    /// `[N]` with the value of its completion at every token, of `x` `[B]`.
    pub fn spread(&self, x: &Tensor) -> Result<Tensor> {
        x.index_select(&self.owner, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_split_gathered_and_spread_by_completion() {
        let offsets = Offsets::new([2, 0, 3]);
        assert_eq!((offsets.completions(), offsets.span(0..3)), (3, 0..5));
        let column = [1, 2, 3, 4, 5];
        let parts: Vec<&[i32]> = offsets.split(&column).collect();
        assert_eq!(parts, [&[1, 2][..], &[], &[3, 4, 5]]);
        assert_eq!(offsets.gather(&column, &[2, 0]), [3, 4, 5, 1, 2]);
        assert_eq!(offsets.select(&[2, 0]), Offsets::new([3, 2]));
        assert_eq!(offsets.slice(1..3), Offsets::new([0, 3]));
        assert_eq!((offsets.span(1..3), offsets.lengths()), (2..5, vec![2, 0, 3]));
        assert_eq!(offsets.spread(&[7, 8, 9]), [7, 7, 9, 9, 9]);
        assert_eq!(Offsets::new([]).completions(), 0);
    }
}
