//! Micro-batches: the rows of one forward and backward pass.

use std::borrow::Borrow;
use std::ops::Range;

use tealight_nn::policy::Sequence;

/// Ranges of rows whose tokens, prompts that neighbours share counted once, stay within `tokens`. Rows of one prompt
/// stay together where they fit; a longer row stands alone.
pub(super) fn micro_batches<S: Borrow<Sequence>>(rows: &[S], tokens: usize) -> Vec<Range<usize>> {
    let rows: Vec<&Sequence> = rows.iter().map(S::borrow).collect();
    let mut batches: Vec<Range<usize>> = Vec::new();
    let (mut count, mut end) = (0, 0);
    for group in rows.chunk_by(|row, next| row.prompt == next.prompt) {
        let prompt = group[0].prompt.len();
        let group_tokens = prompt + group.iter().map(|row| row.completion.len()).sum::<usize>();
        // Completions that stay in one batch: the group, or else each row.
        let parts =
            if group_tokens <= tokens { group.chunks(group.len()) } else { group.chunks(1) };
        let mut is_first = true;
        for part in parts {
            let part_tokens: usize = part.iter().map(|row| row.completion.len()).sum();
            let more = if is_first { prompt + part_tokens } else { part_tokens };
            match batches.last_mut() {
                Some(batch) if count + more <= tokens => {
                    batch.end += part.len();
                    count += more;
                }
                _ => {
                    batches.push(end..end + part.len());
                    count = prompt + part_tokens;
                }
            }
            end += part.len();
            is_first = false;
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn micro_batches_cover_every_row_once_within_the_budget() {
        let row = |length: usize| Sequence { prompt: vec![1], completion: vec![2; length - 1] };
        let rows: Vec<_> = [3, 3, 9, 2, 2, 2, 30, 1].map(row).into();
        // One prompt token for all of a batch: 1 + 2 + 2 + 8 + 1, 1 + 1 + 1, and what is too long alone.
        let batches = micro_batches(&rows, 14);
        assert_eq!(batches, [0..4, 4..6, 6..7, 7..8]);
        let groups: Vec<_> = [1, 1, 1, 2, 2, 2, 3]
            .map(|prompt| Sequence { prompt: vec![prompt; 2], completion: vec![5; 4] })
            .into();
        assert_eq!(micro_batches(&groups, 20), [0..3, 3..7], "14 tokens a group stay together");
        assert_eq!(micro_batches(&groups, 10), [0..2, 2..3, 3..5, 5..6, 6..7], "or row by row");
        assert_eq!(micro_batches(&rows, 1000).len(), 1);
        assert!(micro_batches::<Sequence>(&[], 10).is_empty());
    }
}
