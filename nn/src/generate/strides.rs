//! How much a sampler computes at a time: tokens of prompts in a pass, and tokens of rows before the host looks.

use anyhow::{Result, bail};

use super::SampleRequest;

/// Tokens of prompts that one pass computes: its activations are bounded by it, and the values of a product stay far
/// below the 2^31 that a kernel counts to. A longer prompt is computed in pieces.
pub const PREFILL_TOKENS: usize = 8192;

/// Most tokens that a GPU decodes of every row before the host looks which rows have ended.
const MOST_AHEAD: usize = 8;

/// How much is computed at a time.
#[derive(Clone, Copy)]
pub(super) struct Strides {
    /// Most tokens of prompts in a pass.
    pub(super) prefill_tokens: usize,
    /// Most tokens of a row on a GPU between two looks at them.
    pub(super) ahead: usize,
}

impl Strides {
    /// For completions of so many tokens. Rows that have ended are decoded on until the host looks. Where completions
    /// are short it looks more often: after every 32nd part of their length.
    pub(super) fn for_length(max_new_tokens: usize) -> Self {
        let ahead = (max_new_tokens / 32).clamp(1, MOST_AHEAD);
        Self { prefill_tokens: PREFILL_TOKENS, ahead }
    }
}

/// One past the last of the requests from `from` on whose prompts one pass computes: those that fill so many free rows,
/// as far as its tokens go.
pub(super) fn end_of_pass(
    requests: &[SampleRequest],
    from: usize,
    mut free: usize,
    most_tokens: usize,
) -> Result<usize> {
    let (mut next, mut tokens) = (from, 0);
    while free > 0 && next < requests.len() {
        let request = &requests[next];
        if request.prompt.is_empty() {
            bail!("a prompt must have at least one token");
        }
        tokens += request.prompt.len();
        if tokens > most_tokens && next > from {
            break;
        }
        free = free.saturating_sub(request.count);
        next += 1;
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_tokens_of_a_pass_are_limited() {
        let request = |key| SampleRequest { prompt: vec![1; 100], first: 0, count: 3, key };
        let requests: Vec<SampleRequest> = (0..300).map(request).collect();
        let (mut from, mut largest) = (0, 0);
        while from < requests.len() {
            let next = end_of_pass(&requests, from, usize::MAX, 1000).expect("a pass");
            assert!(next > from);
            largest = largest.max(100 * (next - from));
            from = next;
        }
        assert_eq!(largest, 1000);
        assert_eq!(end_of_pass(&requests, 0, usize::MAX, 99).expect("a pass"), 1, "one at least");
        assert_eq!(end_of_pass(&requests, 290, 6, 1000).expect("a pass"), 292, "rows are filled");
    }

    #[test]
    fn tokens_ahead_are_at_most_eight() {
        let ahead = [1, 24, 64, 200, 256, 4096].map(|most| Strides::for_length(most).ahead);
        assert_eq!(ahead, [1, 1, 2, 6, 8, 8]);
    }
}
