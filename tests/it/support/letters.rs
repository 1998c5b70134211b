//! Problems about letters, with a tokenizer and a verifier for them.

use tealight::nn::tokenizer::Tokenizer;
use tealight_core::Prompt;
use tealight_datasets::{Problem, Verdict, Verifier};

/// Tokens are letters; token 0 ends. Other characters have no tokens.
pub(crate) struct Letters;

impl Tokenizer for Letters {
    fn encode_prompt(&self, prompt: &Prompt) -> anyhow::Result<Vec<u32>> {
        self.encode_completion(&prompt.plain())
    }

    fn encode_completion(&self, text: &str) -> anyhow::Result<Vec<u32>> {
        let letters = text.bytes().filter(u8::is_ascii_lowercase);
        Ok(letters.map(|byte| u32::from(byte - b'a') + 1).collect())
    }

    fn decode(&self, ids: &[u32]) -> anyhow::Result<String> {
        let letters = ids.iter().filter(|id| **id > 0);
        Ok(letters.map(|id| char::from(b'a' + (*id - 1) as u8)).collect())
    }

    fn eos(&self) -> &[u32] {
        &[0]
    }
}

/// Right is what starts with the letter of the prompt.
pub(crate) struct StartsAlike;

impl Verifier for StartsAlike {
    fn name(&self) -> &'static str {
        "starts-alike"
    }

    fn verify(&self, problem: &Problem, completion: &str) -> Verdict {
        match completion.starts_with(&problem.answer) {
            true => Verdict::correct(completion, completion),
            false => Verdict::wrong(),
        }
    }
}

pub(crate) fn problems() -> Vec<Problem> {
    ["a", "b", "c", "d"]
        .map(|letter| Problem {
            solution: Some(letter.repeat(2)),
            ..Problem::new(letter, Prompt::Text(letter.into()), letter)
        })
        .into()
}
