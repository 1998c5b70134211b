//! Thoughts in tokens: whether a prompt opens one, and how long it is.

use anyhow::Result;
use tealight_datasets::thinking::{self, closings, parts};

use tealight_nn::tokenizer::Tokenizer;

/// Tokens that the opening tag and white space behind it may take.
const TAIL: usize = 16;

/// Whether a prompt ends with the tag that opens a thought, as templates of reasoning models write it.
pub(crate) fn opens(tokenizer: &dyn Tokenizer, prompt: &[u32]) -> Result<bool> {
    let text = tokenizer.decode(&prompt[prompt.len().saturating_sub(TAIL)..])?;
    Ok(thinking::opens(&text))
}

/// Tokens of a completion up to the end of its last thought: all where that was not finished, none without a thought.
pub fn tokens(
    tokenizer: &dyn Tokenizer,
    completion: &[u32],
    text: &str,
    starts_inside: bool,
) -> Result<usize> {
    match parts(text, starts_inside).is_finished {
        None => return Ok(0),
        Some(false) => return Ok(completion.len()),
        Some(true) => {}
    }
    let all = closings(text);
    // The shortest beginning that holds the last closing tag.
    let (mut short, mut long) = (0, completion.len());
    while long - short > 1 {
        let middle = short + (long - short) / 2;
        let has_all = closings(&tokenizer.decode(&completion[..middle])?) == all;
        if has_all { long = middle } else { short = middle }
    }
    Ok(long)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tealight_core::Prompt;
    use tealight_nn::tokenizer::HubTokenizer;

    #[test]
    fn thoughts_are_found_among_tokens() {
        let folder =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/conformance/micro-qwen2");
        let tokenizer = HubTokenizer::load(std::path::Path::new(folder)).unwrap();
        let ids = |text: &str| tokenizer.encode_prompt(&Prompt::Text(text.into())).unwrap();
        assert!(opens(&tokenizer, &ids("What is 2 + 2?\n<think>\n")).unwrap());
        assert!(!opens(&tokenizer, &ids("What is <think>?")).unwrap());
        let (thought, answer) = (ids("2 and 2</think>"), ids("4, or </ four"));
        let count = |ids: &[u32], starts_inside| {
            let text = tokenizer.decode(ids).unwrap();
            tokens(&tokenizer, ids, &text, starts_inside).unwrap()
        };
        assert_eq!(count(&[&thought[..], &answer].concat(), true), thought.len());
        assert_eq!(count(&answer, true), answer.len());
        assert_eq!(count(&answer, false), 0);
    }
}
