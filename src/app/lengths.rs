//! How long completions may be beside the prompts of a dataset, which prompts are too long, and which the model cannot
//! read.

use anyhow::{Context, Result, bail};
use rayon::prelude::*;
use tealight_datasets::{Dataset, Problem, task};

use tealight_eval::number::counted;
use tealight_learn::rollout::Encoded;
use tealight_learn::train::rlvr::LENGTH;
use tealight_nn::tokenizer::{HubTokenizer, Tokenizer};

/// Most prompts that are read for a warning.
const PROMPTS: usize = 64;

/// Most tokens of a completion: what was asked for, or what the context leaves beside the longest prompt, up to
/// [`LENGTH`].
pub(crate) fn completion_length<'a>(
    requested: Option<usize>,
    datasets: impl IntoIterator<Item = &'a Dataset>,
    (tokenizer, context): (&HubTokenizer, usize),
) -> Result<usize> {
    if let Some(requested) = requested {
        return Ok(requested);
    }
    // With room for one token, which is the least that makes sense.
    let longest = longest_prompt(datasets, 1, (tokenizer, context))?;
    let length = (context - longest).min(LENGTH);
    if length < LENGTH {
        tracing::info!(
            "completions of up to {}: the rest of the model's context of {context} tokens after the longest prompt; \
             --max-completion-length sets another limit",
            counted(length, "token")
        );
    }
    Ok(length)
}

/// Tokens of the longest prompt; each must leave room for `room` tokens in the context.
pub(crate) fn longest_prompt<'a>(
    datasets: impl IntoIterator<Item = &'a Dataset>,
    room: usize,
    (tokenizer, context): (&HubTokenizer, usize),
) -> Result<usize> {
    let mut longest = 0;
    for dataset in datasets {
        let encoded = Encoded::all(&dataset.problems, tokenizer, context, room);
        let encoded = encoded.with_context(|| dataset.name.clone())?;
        longest = encoded.iter().map(|problem| problem.prompt.len()).fold(longest, usize::max);
    }
    Ok(longest)
}

/// Leaves out the problems whose prompt and completion do not fit the context together, and says how many those are.
/// Unless a length of completions is `requested`, there must be room for [`LENGTH`] tokens, or for half the context
/// where that is shorter.
pub(crate) fn filter_overlong(
    dataset: &mut Dataset,
    requested: Option<usize>,
    (tokenizer, context): (&HubTokenizer, usize),
) -> Result<()> {
    let length = requested.unwrap_or(LENGTH.min(context / 2));
    let fits = |problem: &Problem| -> Result<bool> {
        Ok(tokenizer.encode_prompt(&problem.prompt)?.len() + length <= context)
    };
    keep(dataset, fits, &format!("a prompt with a completion of {length} tokens"), context)
}

/// Warns where many tokens of the first prompts are unknown to the tokenizer, as those of the embedded models know the
/// letters of their tasks alone.
pub(crate) fn warn_of_unknown(dataset: &Dataset, tokenizer: &HubTokenizer) {
    /// The share of unknown tokens above which a prompt is no longer what it says.
    const MANY: f64 = 0.05;
    let Some(unknown) = tokenizer.unknown_token() else { return };
    let prompts = dataset.problems.iter().take(PROMPTS);
    // A prompt that cannot be tokenized is refused later, with its name.
    let tokens: Vec<u32> =
        prompts.flat_map(|problem| tokenizer.encode_prompt(&problem.prompt)).flatten().collect();
    let share = tokens.iter().filter(|id| **id == unknown).count() as f64 / tokens.len() as f64;
    if share > MANY {
        let mend = match task::find(dataset.verifier.name()).is_some() {
            true => "give --model tasks, which knows every task of `tealight tasks`",
            false => "use a pretrained model, such as --model HuggingFaceTB/SmolLM2-135M-Instruct",
        };
        tracing::warn!(
            "{}: {:.0} % of the tokens of the prompts are unknown to this model, which cannot read them; {mend}",
            dataset.name,
            100.0 * share
        );
    }
}

/// Warns where the chat template leaves out what one of the first prompts says, or the thought of a solution that
/// `is_learned`, and where a sampled answer begins otherwise than a learned one.
pub(crate) fn warn_of_dropped(dataset: &Dataset, tokenizer: &HubTokenizer, is_learned: bool) {
    let left_out = |problem: &Problem| {
        let solution = problem.solution.as_deref().filter(|_| is_learned).unwrap_or_default();
        let reply = problem.reply.as_ref().filter(|_| is_learned);
        let (what, file) = tokenizer.left_out(&problem.prompt, solution, reply)?;
        tracing::warn!(
            "{}: the chat template ({file}) {what}, as in problem `{}`; another template is given with \
             --chat-template",
            dataset.name,
            problem.id
        );
        Some(())
    };
    // The first one says it.
    let _ = dataset.problems.iter().take(PROMPTS).find_map(left_out);
}

/// Keeps the problems that fit a context, and says how many do not.
pub(crate) fn keep(
    dataset: &mut Dataset,
    fits: impl Fn(&Problem) -> Result<bool> + Send + Sync,
    what: &str,
    context: usize,
) -> Result<()> {
    let all = dataset.problems.len();
    let retained: Vec<Result<bool>> = dataset.problems.par_iter().map(fits).collect();
    let mut retained = retained.into_iter().collect::<Result<Vec<bool>>>()?.into_iter();
    dataset.problems.retain(|_| retained.next().unwrap_or(true));
    let left_out = all - dataset.problems.len();
    if dataset.problems.is_empty() {
        bail!(
            "{}: no row is short enough: {what} exceeds the model's context of {context}",
            dataset.name
        );
    }
    if left_out > 0 {
        tracing::info!(
            "{}: {left_out} of {all} rows left out: {what} exceeds the model's context of {context}",
            dataset.name
        );
    }
    Ok(())
}
