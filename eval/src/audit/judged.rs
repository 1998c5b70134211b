//! Strategies by a judge model: some correct answers of two models to one problem, which the judge puts into groups.
//!
//! The judge sees both models' answers together, in an order that says nothing of the model, each different text once.

use std::collections::{BTreeMap, HashSet};

use anyhow::Result;
use serde::Serialize;
use tealight_core::fnv;
use tealight_datasets::Verdict;

use super::rows::{Way, folded};
use super::{AuditInput, problem};
use crate::Sample;
use crate::inference::{Effect, paired};

/// Problems that a judge is asked about, at most: those that lie evenly among all.
const MAX_PROBLEMS: usize = 200;
/// Correct answers of each model to a problem, where enough problems have so many; else 2.
const CORRECT: usize = 4;
/// Problems that a comparison needs at least.
const LEAST: usize = 5;
/// Most characters of a prompt or an answer that the judge is shown.
const MAX_SHOWN: usize = 4000;

/// Puts answers into groups.
pub trait StrategyJudge {
    /// Its name on the page.
    fn name(&self) -> &str;

    /// The group of each text of each question; none for a reply that cannot be read.
    ///
    /// # Errors
    /// A judge that does not answer.
    fn groups(&self, questions: &[JudgeQuestion]) -> Result<Vec<Option<Vec<usize>>>>;
}

/// Correct answers to one problem.
#[derive(Debug, Clone)]
pub struct JudgeQuestion {
    /// The problem.
    pub problem: String,
    /// Its prompt, shortened.
    pub prompt: String,
    /// Different texts, shortened.
    pub texts: Vec<String>,
    /// Of both models, the text of each answer.
    answers: [Vec<usize>; 2],
    /// The class of each text by each way.
    classes: Vec<Vec<u64>>,
}

/// What a judge says of the strategies of two models.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JudgedStrategies {
    /// The judge.
    pub judge: String,
    /// Correct answers of each model to a problem.
    pub correct: usize,
    /// Problems that the judge was asked about.
    pub asked: usize,
    /// Replies that could not be read: these problems are left out.
    pub unreadable: usize,
    /// Groups among the base's answers and the tuned model's: the means; none where no reply could be read.
    pub distinct: Option<[f64; 2]>,
    /// The change.
    pub change: Option<Effect>,
    /// By each other way, the share of pairs of different texts of which it says the same as the judge.
    pub agreement: Vec<(String, f64)>,
}

impl JudgedStrategies {
    /// Asks a judge; none where too few problems have two correct answers of both models.
    pub(super) fn ask(
        input: &AuditInput<'_>,
        run: usize,
        judge: &dyn StrategyJudge,
    ) -> Result<Option<Self>> {
        let Some((correct, questions)) = questions(input, run)? else { return Ok(None) };
        let groups = judge.groups(&questions)?;
        let ways: Vec<&str> = input.ways.iter().map(Way::name).collect();
        Ok(Some(Self::new(judge.name(), correct, (&questions, &groups), &ways)))
    }

    fn new(
        judge: &str,
        correct: usize,
        (questions, groups): (&[JudgeQuestion], &[Option<Vec<usize>>]),
        ways: &[&str],
    ) -> Self {
        let read = || {
            let all = questions.iter().zip(groups);
            all.filter_map(|(question, groups)| Some((question, groups.as_deref()?)))
        };
        let count = |model: usize| -> Vec<f64> {
            let distinct = |(question, groups): (&JudgeQuestion, &[usize])| {
                let found = question.answers[model].iter().map(|text| groups[*text]);
                found.collect::<HashSet<_>>().len() as f64
            };
            read().map(distinct).collect()
        };
        let counts = [count(0), count(1)];
        let most = correct as f64 - 1.0;
        let agreement = |(way, name): (usize, &&str)| {
            let (mut pairs, mut same) = (0_usize, 0_usize);
            for (question, groups) in read() {
                let classes = &question.classes[way];
                for (i, j) in (0..groups.len()).flat_map(|i| (0..i).map(move |j| (i, j))) {
                    pairs += 1;
                    same += usize::from((groups[i] == groups[j]) == (classes[i] == classes[j]));
                }
            }
            (pairs > 0).then(|| ((*name).to_owned(), same as f64 / pairs as f64))
        };
        let is_enough = counts[0].len() >= LEAST;
        Self {
            judge: judge.to_owned(),
            correct,
            asked: questions.len(),
            unreadable: questions.len() - counts[0].len(),
            distinct: (!counts[0].is_empty()).then(|| {
                [0, 1].map(|model| counts[model].iter().sum::<f64>() / counts[model].len() as f64)
            }),
            change: is_enough.then(|| paired(&counts[1], &counts[0], most).within(-most, most)),
            agreement: ways.iter().enumerate().filter_map(agreement).collect(),
        }
    }
}

/// The questions to ask of a tuned model, and how many correct answers of each model each has.
fn questions(input: &AuditInput<'_>, run: usize) -> Result<Option<(usize, Vec<JudgeQuestion>)>> {
    let set = input.set;
    let having = |least: usize| -> Vec<usize> {
        let has = |run: usize, place: usize| set.runs[run][place].correct >= least;
        (0..set.runs[0].len()).filter(|place| has(0, *place) && has(run, *place)).collect()
    };
    let choices = [CORRECT, 2].map(|correct| (correct, having(correct)));
    let Some((correct, places)) = choices.into_iter().find(|(_, all)| all.len() >= LEAST) else {
        return Ok(None);
    };
    let count = places.len().min(MAX_PROBLEMS);
    let some = (0..count).map(|i| places[i * places.len() / count]);
    let question = |place: usize| -> Result<JudgeQuestion> {
        let problem = problem(set, place);
        let first = |run: usize| -> Result<Vec<Sample>> {
            let all = input.samples[run].samples(&problem.id)?;
            Ok(all.into_iter().filter(Sample::is_correct).take(correct).collect())
        };
        let prompt = set.questions.get(place).map_or("", |question| question.prompt.as_str());
        Ok(JudgeQuestion::new(&problem.id, prompt, [first(0)?, first(run)?], input.ways))
    };
    Ok(Some((correct, some.map(question).collect::<Result<_>>()?)))
}

impl JudgeQuestion {
    fn new(problem: &str, prompt: &str, samples: [Vec<Sample>; 2], ways: &[Way]) -> Self {
        let mut different = BTreeMap::<u64, &Sample>::new();
        for sample in samples.iter().flatten() {
            different.entry(order(sample)).or_insert(sample);
        }
        let keys: Vec<u64> = different.keys().copied().collect();
        let place = |sample: &Sample| keys.binary_search(&order(sample)).unwrap_or_default();
        let class = |way: &Way, sample: &Sample| match &sample.verdict {
            Verdict::Correct { class, value, .. } => way.key(sample, class, value),
            _ => 0,
        };
        let classes = |way: &Way| different.values().map(|one| class(way, one)).collect();
        Self {
            problem: problem.to_owned(),
            prompt: shortened(prompt),
            texts: different.values().map(|one| shortened(&one.completion)).collect(),
            answers: [0, 1].map(|model: usize| samples[model].iter().map(place).collect()),
            classes: ways.iter().map(classes).collect(),
        }
    }
}

/// A text's place among others: by its hash, mixed, which knows nothing of models.
fn order(sample: &Sample) -> u64 {
    fnv(folded(&sample.completion).to_le_bytes())
}

/// The begin and the end of a long text: its method, and its answer.
fn shortened(text: &str) -> String {
    let count = text.chars().count();
    if count <= MAX_SHOWN {
        return text.to_owned();
    }
    let half = MAX_SHOWN / 2;
    let begin: String = text.chars().take(half).collect();
    let end: String = text.chars().skip(count - half).collect();
    format!("{begin}\n[...]\n{end}")
}
