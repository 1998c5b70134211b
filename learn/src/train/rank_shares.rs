//! A step divided among ranks: the micro-batches of each, and the sum of their gradients.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, Result};
use candle_core::{DType, Var};

use super::micro_batches::micro_batches;
use tealight_core::ranks::Ranks;
use tealight_nn::policy::{GradAccumulator, Sequence};

/// Consecutive rows for each of so many ranks, of about as many tokens; some have none where rows are few.
fn shares<S: Borrow<Sequence>>(rows: &[S], ranks: usize) -> Vec<Range<usize>> {
    let rows: Vec<&Sequence> = rows.iter().map(S::borrow).collect();
    let mut sum = 0;
    let ends = rows.iter().enumerate().map(|(index, row)| {
        // A prompt that neighbours share is computed once, and costs once.
        let shares = index > 0 && rows[index - 1].prompt == row.prompt;
        sum += row.completion.len() + if shares { 0 } else { row.prompt.len() };
        sum
    });
    let ends: Vec<usize> = ends.collect();
    // The first row that begins at or after a share's part of all tokens is the next one's.
    let begin = |rank: usize| ends.partition_point(|end| end * ranks <= sum * rank);
    (0..ranks)
        .map(|rank| begin(rank)..if rank + 1 == ranks { rows.len() } else { begin(rank + 1) })
        .collect()
}

/// The micro-batches of this rank's rows.
pub(super) fn rank_passes<S: Borrow<Sequence>>(
    rows: &[S],
    tokens: usize,
    ranks: &Ranks,
) -> Vec<Range<usize>> {
    let share = shares(rows, ranks.size()).swap_remove(ranks.rank());
    let passes = micro_batches(&rows[share.clone()], tokens);
    passes.into_iter().map(|pass| share.start + pass.start..share.start + pass.end).collect()
}

/// Replaces gradients by their sums over all ranks; a rank without a gradient of a weight adds nothing to the sum.
pub(super) fn sum_gradients(
    grads: &mut GradAccumulator,
    weights: &BTreeMap<String, Var>,
    ranks: &Ranks,
) -> Result<()> {
    // A rank without rows has no gradients: all must still sum the same weights in the same order.
    let has: Vec<u8> = weights.keys().map(|name| u8::from(grads.get(name).is_some())).collect();
    let all = ranks.gather_numbers(has)?;
    let is_given = |place: usize| all.iter().any(|has| has[place] == 1);
    let given = weights.iter().enumerate().filter(|(place, _)| is_given(*place));
    let given: Vec<(&str, &Var)> =
        given.map(|(_, (name, weight))| (name.as_str(), weight)).collect();
    grads.change(&given, &mut |sums| ranks.sum(sums))
}

/// Fails where the ranks' weights differ: they have taken the same steps from the same start.
pub(super) fn check_weights(weights: &BTreeMap<String, Var>, ranks: &Ranks) -> Result<()> {
    if ranks.size() == 1 {
        return Ok(());
    }
    let mut sum = 0;
    for weight in weights.values() {
        let values: Vec<f32> = weight.flatten_all()?.to_dtype(DType::F32)?.to_vec1()?;
        sum = crc32c::crc32c_append(sum, bytemuck::cast_slice(&values));
    }
    ranks
        .agree(sum.into(), "weights")
        .context("the weights of the ranks differ: all processors, or GPUs, must be of one kind")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(lengths: &[(u32, usize)]) -> Vec<Sequence> {
        let row = |(prompt, length): &(u32, usize)| Sequence {
            prompt: vec![*prompt; 3],
            completion: vec![1; *length],
        };
        lengths.iter().map(row).collect()
    }

    #[test]
    fn shares_cover_all_rows_in_order_and_are_about_equal() {
        let all: Vec<(u32, usize)> = (0..24).map(|i| (i / 4, 5 + (i as usize * 7) % 11)).collect();
        let rows = rows(&all);
        for ranks in [1, 2, 3, 5, 30] {
            let shares = shares(&rows, ranks);
            assert_eq!(shares.len(), ranks);
            assert_eq!((shares[0].start, shares[ranks - 1].end), (0, 24));
            assert!(shares.windows(2).all(|two| two[0].end == two[1].start));
            if ranks <= 5 {
                let tokens = |share: &Range<usize>| -> usize {
                    rows[share.clone()].iter().map(|row| row.completion.len()).sum()
                };
                let counts: Vec<usize> = shares.iter().map(tokens).collect();
                let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
                assert!(most - least <= 30, "{counts:?}");
            }
        }
        assert_eq!(super::shares::<Sequence>(&[], 2), [0..0, 0..0]);
    }

    #[test]
    fn every_row_has_one_pass() {
        let rows = rows(&[(1, 4), (1, 9), (2, 2), (2, 6), (3, 8), (4, 1)]);
        let mut seen = vec![0; rows.len()];
        for ranks in tealight_core::ranks::threads(3) {
            rank_passes(&rows, 12, &ranks).into_iter().flatten().for_each(|row| seen[row] += 1);
        }
        assert_eq!(seen, [1; 6]);
    }
}
