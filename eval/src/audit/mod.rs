//! The audit of a base and a tuned model from files of completions: what got better, what was lost, whether answers are
//! narrower or only cleaner, by which strategies, by templates or not, and whether the verifier is to be trusted.
//!
//! Numbers that tallies have are those of `compare` ([`crate::transition`]); the others need texts, which are read
//! once, problem by problem, into `rows`. Every interval is one of [`crate::inference`].

mod diversity;
mod lost;
mod pairing;
mod rows;
mod second_rule;
mod strategies;
mod templates;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Result, bail};
use rayon::prelude::*;
use serde::Serialize;
use tealight_core::Prompt;
use tealight_datasets::Problem;

pub use diversity::DiversityChange;
pub use lost::{Lost, LostProblem, Moved};
pub use pairing::{Pairing, pair};
pub use rows::{SecondJudge, Way};
pub use second_rule::{Disagreement, RuleChange, SecondRule};
pub use strategies::{Strategies, Strategy};
pub(crate) use templates::CANDIDATES;
pub use templates::Templates;

use crate::crossing::CrossingPoint;
use crate::inference::{Effect, Family, Tested};
use crate::number::counted;
use crate::planner::{LEAST_OBSERVED, PassRates, Plan, plans};
use crate::results::Results;
use crate::store::Index;
use crate::transition::{Aligned, Change};
use crate::{Sample, Tally};
use rows::{Reader, Row};
use templates::Prompts;

/// Lost problems whose texts are shown.
pub(crate) const SHOWN_LOST: usize = 12;
/// Longest text that is shown, in characters.
const MAX_TEXT: usize = 600;

/// The gold answers of a file by the ids of its problems.
pub type Golds<'a> = HashMap<&'a str, &'a str>;

/// The gold answers of each file, by the ids that its problems have now.
pub fn golds<'a>(files: &[&'a Results]) -> Vec<Golds<'a>> {
    let golds = |file: &&'a Results| {
        let set = &file.sets[0];
        let ids = set.problems.iter().map(|tally| tally.problem.as_str());
        ids.zip(set.questions.iter().map(|question| question.answer.as_str())).collect()
    };
    files.iter().map(golds).collect()
}

/// What an audit is made from.
pub struct AuditInput<'a> {
    /// The models, the base first.
    pub names: &'a [String],
    /// Their counts on the same problems.
    pub set: &'a Aligned<'a>,
    /// The samples of each, under the names of the problems in `set`.
    pub samples: &'a [Arc<Index>],
    /// The gold answers of each: letters of shuffled choices are those of their file.
    pub golds: &'a [Golds<'a>],
    /// How two correct answers are told apart, the one that solutions are by first.
    pub ways: &'a [Way],
    /// The first rule's name, and the second rule.
    pub second: Option<(&'a str, SecondJudge<'a>)>,
}

/// An audit: `audit.json`.
#[derive(Debug, Clone, Serialize)]
pub struct Audit {
    /// The models, the base first.
    pub models: Vec<String>,
    /// Problems that all models have.
    pub problems: usize,
    /// Each model's completions of these: all, correct, truncated, without an answer, failed, not judged.
    pub counts: Vec<Counted>,
    /// The answers to the six questions for each tuned model.
    pub tuned: Vec<TunedAudit>,
    /// Reasons to read the answers with caution: failed requests, other settings of sampling, truncated completions.
    pub warnings: Vec<String>,
    /// What was left out, repeated or paired, one sentence each.
    pub notes: Vec<String>,
}

/// The completions of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// Those that were judged.
    pub judged: usize,
    /// The correct ones.
    pub correct: usize,
    /// Those cut off.
    pub truncated: usize,
    /// Those of which nobody knows whether they were cut off.
    pub unknown_ends: usize,
    /// Those without a readable answer.
    pub no_answer: usize,
    /// Those of requests that failed, were refused or filtered.
    pub failed: usize,
    /// Those that could not be judged.
    pub unjudged: usize,
}

impl Counted {
    fn new(tallies: &[Tally]) -> Self {
        tallies.iter().fold(Self::default(), |sum, tally| Self {
            judged: sum.judged + tally.samples,
            correct: sum.correct + tally.correct,
            truncated: sum.truncated + tally.truncated,
            unknown_ends: sum.unknown_ends + tally.unknown_ends,
            no_answer: sum.no_answer + tally.no_answer,
            failed: sum.failed + tally.failed,
            unjudged: sum.unjudged + tally.unjudged,
        })
    }
}

/// The six answers about one tuned model.
#[derive(Debug, Clone, Serialize)]
pub struct TunedAudit {
    /// The model.
    pub model: String,
    /// 1: Pass@k, the crossing, and everything else that `compare` says.
    pub change: Change,
    /// 1: what would settle Pass@1, and who is ahead at the largest k, where the data do not.
    pub plans: Vec<Plan>,
    /// 2: what was lost and gained.
    pub lost: Option<Lost>,
    /// 3: narrower, or only cleaner.
    pub diversity: Option<DiversityChange>,
    /// 4: distinct correct answers by every way of telling them apart.
    pub strategies: Strategies,
    /// 5: how much completions say about their prompts, by words that both have.
    pub templates: Option<Templates>,
    /// 6: a second rule.
    pub second_rule: Option<SecondRule>,
    /// The headline of each question, tested together with those of the other tuned models (Holm).
    pub findings: Vec<(String, Tested)>,
}

/// Names of the findings.
pub(crate) mod finding {
    /// Problems lost beyond chance, a problem.
    pub(crate) const LOST: &str = "share of problems lost beyond chance";
    /// The part of diversity of correct answers that became alike.
    pub(crate) const ALIKE: &str = "diversity of correct answers";
    /// The part of diversity of incorrect answers that went away.
    pub(crate) const GONE: &str = "diversity through the number of incorrect answers";
    /// Retrieval of the prompt.
    pub(crate) const TEMPLATES: &str = "share of completions that point to their prompt";
}

/// Audits tuned models against a base.
///
/// # Errors
/// Samples that cannot be read, a file without a verdict under the second judge's key.
pub fn audit(input: &AuditInput<'_>) -> Result<Audit> {
    let set = input.set;
    let prompts = Prompts::new(set.questions.iter().map(|question| question.prompt.as_str()));
    let reader =
        Reader { ways: input.ways, prompts: &prompts, second: input.second.map(|(_, rule)| rule) };
    let problems: Vec<&str> = set.runs[0].iter().map(|tally| tally.problem.as_str()).collect();
    let row = |(place, id): (usize, &&str), samples: &Index, golds: &Golds<'_>| -> Result<Row> {
        Ok(reader.row(place, &own_problem(set, golds, place), &samples.samples(id)?))
    };
    let of_model = |(samples, golds): (&Arc<Index>, &Golds<'_>)| {
        problems.par_iter().enumerate().map(|at| row(at, samples, golds)).collect()
    };
    let rows: Vec<Vec<Row>> =
        input.samples.iter().zip(input.golds).map(of_model).collect::<Result<_>>()?;
    if let Some((_, SecondJudge::Column(key))) = input.second {
        let has_verdicts =
            |rows: &[Row]| rows.iter().any(|row| row.second.is_some_and(|one| one.samples > 0));
        if let Some(run) = rows.iter().position(|rows| !has_verdicts(rows)) {
            bail!(
                "{}: no record has a verdict of each completion under the key `{key}` (--verdict-key)",
                input.names[run]
            );
        }
    }
    let mut tuned: Vec<TunedAudit> =
        (1..set.runs.len()).map(|run| one(input, &rows, run)).collect::<Result<_>>()?;
    test_together(&mut tuned, set.most());
    Ok(Audit {
        models: input.names.to_vec(),
        problems: problems.len(),
        counts: set.runs.iter().map(|run| Counted::new(run)).collect(),
        tuned,
        warnings: nothing_correct(input)
            .into_iter()
            .chain(second_rule::caution(input, &rows))
            .collect(),
        notes: Vec::new(),
    })
}

/// What is to be said where next to nothing is correct in any file.
fn nothing_correct(input: &AuditInput<'_>) -> Option<String> {
    let counts = input.set.runs.iter().map(|run| Counted::new(run));
    let [judged, correct] =
        counts.fold([0; 2], |[all, right], one| [all + one.judged, right + one.correct]);
    (judged >= 50 && 50 * correct < judged).then(|| {
        format!(
            "{correct} of {} are correct in all files together: are these the right gold answers (ids, --dataset, \
             --gold-key) and the right --verifier?",
            counted(judged, "completion")
        )
    })
}

/// The problem at a place of a set, as verifiers are given it: with the gold answer of a model's own file.
fn own_problem(set: &Aligned<'_>, golds: &Golds<'_>, place: usize) -> Problem {
    let (id, question) = (set.runs[0][place].problem.as_str(), set.questions.get(place));
    let (prompt, answer) = question.map_or(("", ""), |q| (q.prompt.as_str(), q.answer.as_str()));
    let answer = golds.get(id).copied().unwrap_or(answer);
    Problem::new(id, Prompt::Text(prompt.to_owned()), answer)
}

fn one(input: &AuditInput<'_>, rows: &[Vec<Row>], run: usize) -> Result<TunedAudit> {
    let set = input.set;
    let change = set.change(run);
    let (base, tuned) = (rows[0].as_slice(), rows[run].as_slice());
    let mut lost = Lost::new(set, run);
    for one in lost.iter_mut().flat_map(|lost| &mut lost.listed).take(SHOWN_LOST) {
        one.texts = [
            text(&input.samples[0], &one.problem, &|sample| sample.is_correct())?,
            text(&input.samples[run], &one.problem, &|_| true)?,
        ];
    }
    let way = input.ways.first().map_or("", Way::name);
    let rules = |(first, second): (&str, SecondJudge<'_>)| [first.to_owned(), second.name()];
    let mut second_rule =
        input.second.and_then(|second| SecondRule::new(set, (base, tuned), rules(second)));
    if let (Some(found), Some((_, rule))) = (&mut second_rule, input.second) {
        found.examples = second_rule::disputed(input, rule, [(0, base), (run, tuned)])?;
    }
    Ok(TunedAudit {
        model: input.names[run].clone(),
        plans: unsettled(set, run, &change),
        change,
        lost,
        diversity: DiversityChange::new(base, tuned, (0, way)),
        strategies: Strategies::new(base, tuned, input.ways),
        templates: Templates::new(base, tuned),
        second_rule,
        findings: Vec::new(),
    })
}

impl TunedAudit {
    /// The headline of each question.
    fn headlines(&self, most: usize) -> Vec<(String, Option<Effect>)> {
        let mut all = vec![];
        let pass = |k: usize| self.change.contrast.pass.iter().find(|(at, _)| *at == k);
        for k in if most > 1 { vec![1, most] } else { vec![1] } {
            all.push((format!("pass@{k}"), pass(k).map(|(_, effect)| *effect)));
        }
        let named = |name: &str, effect| (name.to_owned(), effect);
        all.push(named(finding::LOST, self.lost.as_ref().map(|lost| lost.lost.beyond)));
        let diversity = self.diversity.as_ref();
        all.push(named(finding::GONE, diversity.map(|change| change.incorrect_gone)));
        all.push(named(finding::ALIKE, diversity.map(|change| change.correct_alike)));
        all.push(named(finding::TEMPLATES, self.templates.as_ref().map(|found| found.change)));
        all
    }

    /// A finding by its name.
    pub fn finding(&self, name: &str) -> Option<&Tested> {
        self.findings.iter().find(|(known, _)| known == name).map(|(_, tested)| tested)
    }
}

/// Tests the headlines of all tuned models as one family: of ten equal models one would otherwise seem to differ.
fn test_together(tuned: &mut [TunedAudit], most: usize) {
    let headlines: Vec<_> = tuned.iter().map(|one| one.headlines(most)).collect();
    let mut family = Family::new(true);
    for (run, all) in headlines.iter().enumerate() {
        all.iter().for_each(|(name, effect)| family.add((run + 1, 0), name, *effect));
    }
    let tested = family.tested();
    for (run, (one, all)) in tuned.iter_mut().zip(headlines).enumerate() {
        let names = all.into_iter().map(|(name, _)| name);
        let found = names.filter_map(|name| Some((name.clone(), tested.get((run + 1, 0), &name)?)));
        one.findings = found.collect();
    }
}

/// The problem of each model that limits k, where others have more samples.
pub fn limits(runs: &[(String, &Results)], set: &Aligned<'_>) -> Vec<String> {
    let limit = |((name, _), tallies): (&(String, &Results), &Cow<'_, [Tally]>)| {
        let most = tallies.iter().map(Tally::num_samples).max()?;
        let fewest = Tally::with_fewest(tallies).filter(|one| one.num_samples() < most)?;
        let (samples, problem) = (counted(fewest.num_samples(), "sample"), &fewest.problem);
        Some(format!(
            "{name}: {samples} of the problem `{problem}` limit k; others have up to {most}"
        ))
    };
    runs.iter().zip(&set.runs).filter_map(limit).collect()
}

/// What would settle Pass@1 and who is ahead at the largest k, as far as the data do not.
fn unsettled(set: &Aligned<'_>, run: usize, change: &Change) -> Vec<Plan> {
    let contrast = &change.contrast;
    let (most, first) = (set.most(), contrast.pass.first().map(|(_, effect)| effect));
    let is_open = first.is_none_or(|effect| !effect.excludes_zero());
    let crossing = contrast.crossing;
    let never = CrossingPoint::Never;
    let is_unsure = crossing.at != CrossingPoint::Equal
        && ((crossing.at == never) != (crossing.low == never)
            || (crossing.at == never) != (crossing.high == never));
    if (!is_open && !is_unsure) || set.runs[0].len() < LEAST_OBSERVED {
        return Vec::new();
    }
    let rates = PassRates::fit(&set.runs[0], &set.runs[run]);
    let n = set.summaries.iter().map(|summary| summary.n).min().unwrap_or(1).max(1);
    let mut all = Vec::new();
    if is_open {
        let mut samples = vec![n.div_ceil(4), n, 4 * n];
        samples.dedup();
        all.extend(plans(&rates, 1, &samples));
    }
    if is_unsure && most > 1 {
        all.extend(plans(&rates, most, &[n, 4 * n]));
    }
    // What was observed has not settled it.
    let is_more = |plan: &Plan| {
        plan.samples > n || plan.problems.is_none_or(|problems| problems > set.runs[0].len())
    };
    all.retain(is_more);
    all
}

/// The first text of a problem that is asked for.
fn text(samples: &Index, id: &str, wants: &dyn Fn(&Sample) -> bool) -> Result<String> {
    let all = samples.samples(id)?;
    Ok(all.iter().find(|one| wants(one)).map(|one| shown(&one.completion)).unwrap_or_default())
}

/// A text as it is shown.
fn shown(text: &str) -> String {
    ending(text.trim(), MAX_TEXT)
}

/// The last `most` characters of a longer text, where its answer is.
pub(crate) fn ending(text: &str, most: usize) -> String {
    let count = text.chars().count();
    match text.char_indices().nth(count.saturating_sub(most)) {
        Some((at, _)) if at > 0 => format!("... {}", &text[at..]),
        _ => text.to_owned(),
    }
}
