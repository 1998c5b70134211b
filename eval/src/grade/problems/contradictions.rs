//! What records say of problems that does not go together: gold answers, prompts, ids.

use std::collections::HashSet;

use anyhow::{Result, bail};
use tealight_datasets::Problem;
use tealight_datasets::verify::math;

use super::super::line::{Line, short};
use super::super::sample_ids::before_number;
use super::{MANY_GOLDS, Problems, is_equal};
use crate::number::counted;

/// Refuses a dataset whose letter of the right choice is not that of a file with an order of its own.
pub(super) fn check_choices(line: &Line, problem: &Problem) -> Result<()> {
    let (Some(_), Some(letter)) = (&line.choice, line.golds.first()) else { return Ok(()) };
    let gold = math::gold(&problem.answer);
    let is_letter = gold.trim_matches(['(', ')', '.', ' ']).len() == 1;
    if is_letter && !is_equal(letter, &gold) {
        bail!(
            "the choices of {} are in another order than in the dataset: `{}` is correct here, and `{}` there; leave \
             --dataset out",
            line.shown(),
            short(letter),
            short(&gold)
        );
    }
    Ok(())
}

impl Problems<'_> {
    /// Notes where a document of lm-eval has another prompt than before.
    pub(super) fn compare_prompts(&mut self, line: &Line, index: usize) {
        let before = &self.list[index].problem;
        if let Some(prompt) = &line.prompt
            && prompt.plain().trim() != before.prompt.plain().trim()
        {
            self.other_prompts.note(|| before.id.clone());
        }
    }

    /// Notes where a file has another gold answer than the dataset, which decides.
    pub(super) fn compare_golds(
        &mut self,
        line: &Line,
        problem: &Problem,
        at: &dyn Fn() -> String,
    ) {
        let (Some(gold), Some(dataset)) = (line.golds.first(), &self.dataset) else { return };
        let is_of_id = line.prompt.is_none();
        self.compared_by_id += usize::from(is_of_id);
        if line.golds.iter().any(|gold| is_equal(gold, &problem.answer)) {
            return;
        }
        let shown = || {
            format!(
                "{}: `{}` in the record, `{}` in {}",
                at(),
                short(gold),
                short(&math::gold(&problem.answer)),
                dataset.name
            )
        };
        self.other_golds.note(shown);
        if is_of_id {
            self.other_by_id.note(shown);
        }
    }

    /// Refuses ids that seem to name other problems of the dataset than the file's: most gold answers differ.
    pub(in crate::grade) fn check_golds_of_ids(&self) -> Result<()> {
        let (compared, other) = (self.compared_by_id, &self.other_by_id);
        if let (Some(dataset), Some(example)) = (&self.dataset, &other.first)
            && other.count > MANY_GOLDS
            && 2 * other.count > compared
        {
            bail!(
                "{} of {} that ids alone name have other gold answers in {}, so these ids seem to name other problems \
                 there: {example}; give the records their prompts, or leave --dataset out",
                other.count,
                counted(compared, "problem"),
                dataset.name
            );
        }
        Ok(())
    }

    /// What prompts say that stand beside several gold answers, of which each makes a problem.
    pub(in crate::grade) fn several_golds(&self, has_gold_key: bool) -> Result<Option<String>> {
        if self.judged > 0 && self.gold_answers > 0 {
            bail!(
                "{} with a verdict, so that their `answer` is what the completion said, stand beside {} without one, whose `answer` \
                 would be the gold answer: say --gold-key answer if it is the gold answer in all, or name the dataset \
                 with --dataset",
                counted(self.judged, "record"),
                self.gold_answers
            );
        }
        let several: Vec<&Vec<usize>> =
            self.of_prompt.values().filter(|problems| problems.len() > 1).collect();
        let Some(first) = several.iter().min_by_key(|problems| problems[0]) else {
            return Ok(None);
        };
        let shown = |index: usize| short(&self.list[index].problem.answer);
        let example = format!(
            "the prompt `{}` has the gold answers `{}` and `{}`",
            short(self.list[first[0]].problem.prompt.plain().trim()),
            shown(first[0]),
            shown(first[1])
        );
        let is_most = several.len() >= MANY_GOLDS && 2 * several.len() >= self.of_prompt.len();
        if is_most && !has_gold_key && !self.has_row_ids {
            bail!(
                "{} of {} stand beside several gold answers in this file: {example}. If that is what the completions \
                 said, name the key of the gold answer with --gold-key, or the dataset with --dataset; otherwise give \
                 each problem an \"id\"",
                several.len(),
                counted(self.of_prompt.len(), "prompt")
            );
        }
        Ok(Some(format!(
            "{example} ({} in all): each gold answer is taken for a problem of its own",
            counted(several.len(), "prompt")
        )))
    }

    /// That the ids seem to be those of samples: each has a number at its end, and what is before it comes twice or
    /// more on average.
    pub(in crate::grade) fn seem_samples(&self) -> Option<String> {
        let ids = self.list.iter().map(|target| target.problem.id.as_str());
        let stems: Vec<&str> = ids.filter_map(before_number).collect();
        let distinct = stems.iter().collect::<HashSet<_>>().len();
        let is_so = stems.len() == self.list.len() && distinct > 1 && 2 * distinct <= stems.len();
        is_so.then(|| {
            format!(
                "every id has a number at its end, as that of a sample: `{}`. If it is one, give the problem of each record \
                 as \"problem_id\", or its \"prompt\"; otherwise ignore this",
                self.list[0].problem.id
            )
        })
    }
}
