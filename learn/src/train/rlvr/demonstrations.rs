//! The prompts of the teacher of self-distillation: those of a step's completions with a correct solution in them.

use std::collections::HashMap;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Map, Value};
use tealight_datasets::Prompt;
use tealight_datasets::prompting::Template;

use super::run::Run;
use crate::objective::Demonstration;
use crate::objective::demonstration::choose;
use crate::presample::PromptSamples;
use crate::rollout::Group;
use tealight_nn::generate::RngKey;
use tealight_nn::policy::Sequence;

/// Keys the choice of demonstrations apart from samples.
const DEMONSTRATION: u64 = u64::MAX - 4;
/// The teacher's text where a prompt is plain text: the solution as a worked example of the same problem.
const OF_TEXT: &str = "{{ prompt }}{{ solution }}\n{{ prompt }}";
/// The teacher's question where a prompt is a chat.
const OF_CHAT: &str = "{{ prompt }}\n\nHere is a correct solution:\n\n{{ solution }}\n\nSolve the problem in your own words.";

/// A step's completions as the teacher sees them.
pub(super) struct TeacherRows {
    /// The completions behind the teacher's prompts; behind their own where nothing is shown.
    pub(super) sequences: Vec<Sequence>,
    /// Whether the teacher is shown a solution; the loss of the others has no weight.
    pub(super) is_shown: Vec<bool>,
}

impl TeacherRows {
    /// The share of completions for which the teacher is shown a solution.
    pub(super) fn share(&self) -> f64 {
        let shown = self.is_shown.iter().filter(|shown| **shown).count();
        shown as f64 / self.is_shown.len().max(1) as f64
    }
}

/// Refuses a run that has nothing to show, and a template that is none.
///
/// # Errors
/// See above; the message says what to change.
pub(super) fn check(run: &Run<'_>) -> Result<()> {
    let Some(teacher) = run.plan.teacher() else {
        if run.config.settings.demonstration_template.is_some() {
            bail!(
                "objective `{}` shows no demonstrations: --demonstration-template has no effect",
                run.config.objective
            );
        }
        return Ok(());
    };
    let has_solution = match teacher.shown {
        Demonstration::Rollout => true,
        Demonstration::Dataset => {
            run.problems.iter().any(|problem| solution(problem.problem).is_some())
        }
        Demonstration::Base => {
            run.presamples.is_some_and(|all| all.prompts.iter().any(|one| one.correct() > 0))
        }
    };
    if !has_solution {
        bail!(
            "objective `{}`: no problem has a correct solution to show; {}",
            run.config.objective,
            match teacher.shown {
                Demonstration::Base => "raise --num-presamples, or choose easier problems",
                _ => "use a dataset with worked solutions, or demonstration=base or rollout",
            }
        );
    }
    let templates = Templates::new(run)?;
    let first = &run.problems[0].problem.prompt;
    templates.prompt(first, "1").context("--demonstration-template").map(drop)
}

/// The teacher's rows of a step; none where the plan has no teacher.
pub(super) fn rows(
    run: &Run<'_>,
    groups: &[Group],
    sequences: &[Sequence],
    step: usize,
) -> Result<Option<TeacherRows>> {
    let Some(teacher) = run.plan.teacher() else { return Ok(None) };
    let templates = Templates::new(run)?;
    let max_positions = run.policy.decoder().architecture().max_positions;
    let rng_key = RngKey { seed: run.config.seed, step: DEMONSTRATION };
    let (mut rows, mut is_shown) = (Vec::with_capacity(sequences.len()), Vec::new());
    for group in groups {
        let problem = run.problems[group.problem].problem;
        // Completions of a group often share a demonstration.
        let mut known: HashMap<String, Vec<u32>> = HashMap::new();
        let mut stream = rng_key.stream(step as u64, group.problem as u64);
        // One draw for a group: with a solution of the base all its completions share the teacher's prompt.
        let first = stream.uniform();
        for own in 0..group.rollouts.len() {
            let sequence = &sequences[rows.len()];
            let shown = match teacher.shown {
                Demonstration::Dataset => solution(problem).map(str::to_owned),
                Demonstration::Base => of_base(run, group.problem, first)?,
                Demonstration::Rollout => {
                    let correct: Vec<bool> =
                        group.rollouts.iter().map(|rollout| rollout.is_correct()).collect();
                    let chosen = choose(&correct, Some(own), stream.uniform());
                    chosen.map(|index| group.rollouts[index].text.clone())
                }
            };
            let prompt = match shown {
                None => None,
                Some(text) => Some(match known.get(&text) {
                    Some(prompt) => prompt.clone(),
                    None => {
                        let asked = templates.prompt(&problem.prompt, &text);
                        let asked = asked.with_context(|| format!("problem `{}`", problem.id))?;
                        let prompt = run.tokenizer.encode_prompt(&asked)?;
                        known.insert(text, prompt.clone());
                        prompt
                    }
                }),
            };
            // A solution that does not fit beside the completion cannot be shown.
            let prompt =
                prompt.filter(|prompt| prompt.len() + sequence.completion.len() <= max_positions);
            is_shown.push(prompt.is_some());
            rows.push(Sequence {
                prompt: prompt.unwrap_or_else(|| sequence.prompt.clone()),
                completion: sequence.completion.clone(),
            });
        }
    }
    Ok(Some(TeacherRows { sequences: rows, is_shown }))
}

/// The dataset's solution of a problem, where it has one.
fn solution(problem: &tealight_datasets::Problem) -> Option<&str> {
    problem.solution.as_deref().filter(|text| !text.trim().is_empty())
}

/// A correct pre-sample of the base, as text.
fn of_base(run: &Run<'_>, problem: usize, uniform: f64) -> Result<Option<String>> {
    let Some(prompt) = run.presamples.and_then(|all| all.prompts.get(problem)) else {
        return Ok(None);
    };
    let PromptSamples { samples, .. } = prompt;
    let correct: Vec<bool> = samples.iter().map(|sample| sample.is_correct()).collect();
    match choose(&correct, None, uniform) {
        None => Ok(None),
        Some(index) => run.tokenizer.decode(&samples[index].tokens).map(Some),
    }
}

/// How a solution is put into a prompt.
struct Templates {
    of_text: Template,
    of_chat: Template,
}

impl Templates {
    fn new(run: &Run<'_>) -> Result<Self> {
        let given = run.config.settings.demonstration_template.as_deref();
        let template = |usual| Template::new("--demonstration-template", given.unwrap_or(usual));
        Ok(Self { of_text: template(OF_TEXT)?, of_chat: template(OF_CHAT)? })
    }

    /// The prompt with the solution in it: in place of a text, or of the last question of a chat.
    fn prompt(&self, prompt: &Prompt, solution: &str) -> Result<Prompt> {
        let render = |template: &Template, question: &str| {
            let columns = [("prompt", question), ("solution", solution)];
            let columns = columns.map(|(name, text)| (name.to_owned(), Value::from(text)));
            template
                .render(&columns.into_iter().collect::<Map<_, _>>())
                .map_err(|what| anyhow!(what))
        };
        let mut prompt = prompt.clone();
        match &mut prompt {
            Prompt::Text(text) => *text = render(&self.of_text, text)?,
            Prompt::Chat(messages) => {
                let last = messages.iter_mut().rfind(|message| message.role == "user");
                let last = last.context("the prompt has no message of a user to show it in")?;
                last.content = render(&self.of_chat, &last.content)?;
            }
        }
        Ok(prompt)
    }
}
