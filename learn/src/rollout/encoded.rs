//! Problems with their prompts as token ids, checked once against the model's context.

use anyhow::{Context, Result, bail};
use rayon::prelude::*;
use tealight_datasets::Problem;

use super::thinking;
use tealight_nn::tokenizer::Tokenizer;

/// A problem and the token ids of its prompt.
pub struct Encoded<'a> {
    /// The problem that the prompt asks.
    pub problem: &'a Problem,
    /// Its prompt, at least one token.
    pub prompt: Vec<u32>,
    /// Whether the prompt ends with the tag that opens a thought.
    pub opens_thought: bool,
}

impl<'a> Encoded<'a> {
    /// Tokenizes every prompt.
    ///
    /// # Errors
    /// A prompt that cannot be encoded, is empty, or leaves no room for `new_tokens` in a context
    /// of `context` tokens; the message names the problem.
    pub fn all(
        problems: impl IntoIterator<Item = &'a Problem>,
        tokenizer: &dyn Tokenizer,
        context: usize,
        new_tokens: usize,
    ) -> Result<Vec<Self>> {
        let problems: Vec<&Problem> = problems.into_iter().collect();
        let one = |problem: &&'a Problem| Self::one(problem, tokenizer, context, new_tokens);
        let encoded: Vec<Result<Self>> = problems.par_iter().map(one).collect();
        // The error is that of the first problem that has one.
        encoded.into_iter().collect()
    }

    fn one(
        problem: &'a Problem,
        tokenizer: &dyn Tokenizer,
        context: usize,
        new_tokens: usize,
    ) -> Result<Self> {
        let prompt = tokenizer
            .encode_prompt(&problem.prompt)
            .with_context(|| format!("problem `{}`", problem.id))?;
        if prompt.is_empty() {
            bail!("problem `{}`: the prompt has no token", problem.id);
        }
        if prompt.len() >= context {
            bail!(
                "problem `{}`: a prompt of {} tokens does not fit the model's context of {context}; \
                 choose another --model, or leave such rows out with --filter-overlong-prompts",
                problem.id,
                prompt.len(),
            );
        }
        if prompt.len() + new_tokens > context {
            bail!(
                "problem `{}`: a prompt of {} tokens and {new_tokens} new ones do not fit the \
                 model's context of {context}; lower --max-completion-length, or leave \
                 such rows out with --filter-overlong-prompts",
                problem.id,
                prompt.len(),
            );
        }
        let opens_thought = thinking::opens(tokenizer, &prompt)?;
        Ok(Self { problem, prompt, opens_thought })
    }
}
