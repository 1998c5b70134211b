//! How much a completion says about its prompt, by a model's log-probabilities: a lower bound of their mutual
//! information.
//!
//! Of a set S of [`CANDIDATES`] prompts one, number J, was answered by y. The value of a completion is
//! `log |S| + log r(J)` with `r(j) = q(y | x_j)^t / sum_i q(y | x_i)^t`. Its expectation is at most
//! `I(J; y | S)` for whatever model q and power t, by `E KL(p(J | y, S) || r) >= 0`; the gap is 0 where t is 1
//! and q is the policy that wrote y. Since S, x_J and y are a Markov chain, `I(J; y | S)` is at most `I(x; y)`,
//! and at most `log |S|`. The first tokens of y say no more than all of them, so that only some are scored. A
//! model that finds y unlikely after all prompts says little by their differences: t is the best of [`POWERS`]
//! on the other half of the problems, so that the value stays a bound. One model scores the files of all, since
//! bounds by different models are not comparable.

use std::collections::HashSet;

use anyhow::Result;
use serde::Serialize;
use tealight_core::fnv;

use super::AuditInput;
use super::templates::CANDIDATES;
use crate::Estimate;
use crate::inference::{Effect, paired};
use crate::interval::bounded;
use crate::results::Question;

/// Most problems that are scored: those whose ids have the smallest hash.
const MAX_PROBLEMS: usize = 128;
/// Completions of a problem that are scored: the first ones drawn.
pub(crate) const COMPLETIONS: usize = 2;

/// Powers of a model's probabilities; 0 says nothing.
const POWERS: [f64; 6] = [0.0, 0.0625, 0.125, 0.25, 0.5, 1.0];

/// Completions, to be scored under one prompt.
pub struct ScoreRequest<'a> {
    /// The prompt.
    pub prompt: &'a Question,
    /// The completions.
    pub completions: Vec<&'a str>,
}

/// The log-probability of the first tokens of a completion.
#[derive(Debug, Clone, Copy, Default)]
pub struct Score {
    /// In nats.
    pub logp: f64,
    /// Tokens that were scored.
    pub tokens: usize,
}

/// A model that scores completions.
pub trait PromptScorer {
    /// The model's name.
    fn name(&self) -> &str;

    /// Most tokens of a completion that are scored.
    fn max_tokens(&self) -> usize;

    /// The scores of the completions of each request; `file` says whose completions they are.
    ///
    /// # Errors
    /// A model that cannot be computed, a process that was asked to stop.
    fn score(&self, file: &str, requests: &[ScoreRequest<'_>]) -> Result<Vec<Vec<Score>>>;
}

/// What a model's log-probabilities say of a base's and a tuned model's completions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PromptInformation {
    /// The model that scored both.
    pub scorer: String,
    /// Prompts that each completion is scored under, its own among them.
    pub candidates: usize,
    /// Problems.
    pub problems: usize,
    /// Most completions of a problem, and most tokens of each.
    pub limits: [usize; 2],
    /// Lower bound of the mutual information of prompt and completion under the base, in nats: at most the logarithm of
    /// `candidates`.
    pub base: Estimate,
    /// The same under the tuned model.
    pub tuned: Estimate,
    /// The difference.
    pub change: Effect,
    /// Of both, per token.
    pub per_token: [f64; 2],
    /// Mean log-probability per token under the own prompt, of both.
    pub own_logp: [f64; 2],
    /// The same under the other prompts.
    pub other_logp: [f64; 2],
}

/// The means over the completions of a problem.
#[derive(Debug, Clone, Copy, Default)]
struct ProblemScore {
    information: f64,
    per_token: f64,
    own_logp: f64,
    other_logp: f64,
}

/// The problems of a model that were scored, the same in all models.
pub(super) struct ModelScores(Vec<ProblemScore>);

impl PromptInformation {
    /// Of the base's and a tuned model's scores.
    pub(super) fn new(scorer: &dyn PromptScorer, base: &ModelScores, tuned: &ModelScores) -> Self {
        let most = (CANDIDATES as f64).ln();
        let values = |of: fn(&ProblemScore) -> f64| {
            [base, tuned].map(|scores| scores.0.iter().map(of).collect::<Vec<f64>>())
        };
        let means = |of: fn(&ProblemScore) -> f64| {
            values(of).map(|all| all.iter().sum::<f64>() / all.len() as f64)
        };
        let information = values(|score| score.information);
        // A problem may be below 0, where a model takes a completion for another prompt's.
        let estimate = |all: &[f64]| bounded(all, all.iter().copied().fold(0.0, f64::min), most);
        let [of_base, of_tuned] = &information;
        Self {
            scorer: scorer.name().to_owned(),
            candidates: CANDIDATES,
            problems: of_base.len(),
            limits: [COMPLETIONS, scorer.max_tokens()],
            base: estimate(of_base),
            tuned: estimate(of_tuned),
            change: paired(of_tuned, of_base, most),
            per_token: means(|score| score.per_token),
            own_logp: means(|score| score.own_logp),
            other_logp: means(|score| score.other_logp),
        }
    }
}

/// Scores the completions of every model; none where fewer prompts than [`CANDIDATES`] differ.
pub(super) fn scores(
    input: &AuditInput<'_>,
    scorer: &dyn PromptScorer,
) -> Result<Option<Vec<ModelScores>>> {
    let set = input.set;
    let mut order: Vec<usize> = (0..set.questions.len()).collect();
    order.sort_by_key(|place| {
        let id = &set.runs[0][*place].problem;
        (fnv(fnv(id.bytes()).to_le_bytes()), id)
    });
    let mut prompts = HashSet::new();
    let mut questions = Vec::new();
    let mut texts: Vec<Vec<Vec<String>>> = vec![Vec::new(); input.samples.len()];
    for place in order {
        let (question, id) = (&set.questions[place], &set.runs[0][place].problem);
        if questions.len() == MAX_PROBLEMS || question.prompt.trim().is_empty() {
            continue;
        }
        let of_model = |samples: &crate::store::Index| -> Result<Vec<String>> {
            let all = samples.samples(id)?.into_iter().map(|sample| sample.completion);
            Ok(all.filter(|text| !text.trim().is_empty()).take(COMPLETIONS).collect())
        };
        let of_all = input.samples.iter().map(|samples| of_model(samples));
        let of_all = of_all.collect::<Result<Vec<_>>>()?;
        if of_all.iter().any(Vec::is_empty) || !prompts.insert(question.prompt.trim()) {
            continue;
        }
        questions.push(question);
        texts.iter_mut().zip(of_all).for_each(|(all, one)| all.push(one));
    }
    if questions.len() < CANDIDATES {
        return Ok(None);
    }
    let of_model = |(name, texts): (&String, &Vec<Vec<String>>)| {
        let requests = requests(&questions, texts);
        Ok(ModelScores::new(&read(&scorer.score(name, &requests)?, texts)))
    };
    input.names.iter().zip(&texts).map(of_model).collect::<Result<_>>().map(Some)
}

/// A request for each prompt: the completions of its own problem and of the next problems, in a circle, so that each
/// completion is scored under [`CANDIDATES`] prompts and no prompt is computed twice.
fn requests<'a>(questions: &[&'a Question], texts: &'a [Vec<String>]) -> Vec<ScoreRequest<'a>> {
    let request = |(number, prompt): (usize, &&'a Question)| {
        let problems = (0..CANDIDATES).map(|step| (number + step) % texts.len());
        let completions = problems.flat_map(|problem| &texts[problem]).map(String::as_str);
        ScoreRequest { prompt, completions: completions.collect() }
    };
    questions.iter().enumerate().map(request).collect()
}

/// The scores of a completion: under its own prompt, then under the others.
type Scores = Vec<Score>;

/// The completions of each problem, from the scores of [`requests`].
fn read(scores: &[Vec<Score>], texts: &[Vec<String>]) -> Vec<Vec<Scores>> {
    let count = texts.len();
    let completion = |problem: usize, number: usize| -> Scores {
        let under = |step: usize| {
            let prompt = (problem + count - step) % count;
            let before = (0..step).map(|other| texts[(prompt + other) % count].len());
            scores[prompt][before.sum::<usize>() + number]
        };
        (0..CANDIDATES).map(under).collect()
    };
    let of_problem = |problem: usize| {
        (0..texts[problem].len()).map(|number| completion(problem, number)).collect()
    };
    (0..count).map(of_problem).collect()
}

/// What a completion says about its prompt, in nats.
fn information(scores: &[Score], power: f64) -> f64 {
    let logps = || scores.iter().map(|score| power * score.logp);
    let top = logps().fold(f64::NEG_INFINITY, f64::max);
    let mass: f64 = logps().map(|logp| (logp - top).exp()).sum();
    power * scores[0].logp - top - (mass / scores.len() as f64).ln()
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

impl ModelScores {
    fn new(problems: &[Vec<Scores>]) -> Self {
        let of_problem = |problem: &Vec<Scores>, power: f64| {
            mean(problem.iter().map(|scores| information(scores, power)))
        };
        let best = |half: usize| {
            let sum = |power: f64| -> f64 {
                problems.iter().skip(half).step_by(2).map(|one| of_problem(one, power)).sum()
            };
            let all = POWERS.map(|power| (power, sum(power)));
            all.into_iter().reduce(|best, one| if one.1 > best.1 { one } else { best })
        };
        let powers = [best(1), best(0)].map(|best| best.map_or(0.0, |(power, _)| power));
        let score = |(place, problem): (usize, &Vec<Scores>)| {
            let tokens = |scores: &Scores| scores[0].tokens.max(1) as f64;
            let power = powers[place % 2];
            let other = |scores: &Scores| mean(scores[1..].iter().map(|score| score.logp));
            ProblemScore {
                information: of_problem(problem, power),
                per_token: mean(problem.iter().map(|s| information(s, power) / tokens(s))),
                own_logp: mean(problem.iter().map(|s| s[0].logp / tokens(s))),
                other_logp: mean(problem.iter().map(|s| other(s) / tokens(s))),
            }
        };
        Self(problems.iter().enumerate().map(score).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::question;

    /// A policy that writes a template with chance `1 - copies`, else the number of its prompt.
    struct Policy {
        copies: f64,
    }

    impl PromptScorer for Policy {
        fn name(&self) -> &'static str {
            "policy"
        }

        fn max_tokens(&self) -> usize {
            1
        }

        fn score(&self, _: &str, requests: &[ScoreRequest<'_>]) -> Result<Vec<Vec<Score>>> {
            let score = |prompt: &str, text: &str| {
                let chance = match text {
                    "template" => 1.0 - self.copies,
                    text if text == prompt => self.copies,
                    _ => 1e-9,
                };
                Score { logp: chance.ln(), tokens: 1 }
            };
            let of_request = |request: &ScoreRequest<'_>| {
                request.completions.iter().map(|text| score(&request.prompt.prompt, text)).collect()
            };
            Ok(requests.iter().map(of_request).collect())
        }
    }

    fn measured(copies: f64, write: &dyn Fn(usize, usize) -> String) -> PromptInformation {
        let questions: Vec<Question> = (0..40).map(|i| question(&i.to_string(), "")).collect();
        // Problems have one completion or two.
        let texts: Vec<Vec<String>> =
            (0..40).map(|i| (0..1 + i % 2).map(|j| write(i, j)).collect()).collect();
        let questions: Vec<&Question> = questions.iter().collect();
        let policy = Policy { copies };
        let scores = policy.score("", &requests(&questions, &texts)).unwrap();
        let scores = ModelScores::new(&read(&scores, &texts));
        PromptInformation::new(&policy, &scores, &scores)
    }

    #[test]
    fn a_template_says_nothing_of_its_prompt_and_a_copy_all_that_can_be_told() {
        let most = (CANDIDATES as f64).ln();
        let template = measured(0.0, &|_, _| "template".into());
        assert!(template.base.value.abs() < 1e-12 && template.base.high > 0.0, "{template:?}");
        assert!((template.own_logp[0] - template.other_logp[0]).abs() < 1e-12);
        let copies = measured(1.0 - 1e-12, &|i, _| i.to_string());
        assert!((copies.base.value - most).abs() < 1e-6, "{copies:?}");
        assert!(copies.base.high <= most + 1e-9 && copies.base.low < copies.base.value);
        assert!((copies.per_token[0] - copies.base.value).abs() < 1e-9);
        assert!(copies.own_logp[0] > copies.other_logp[0] + 10.0);
        assert!(copies.change.value.abs() < 1e-12);
    }

    #[test]
    fn a_model_that_is_not_the_policy_gives_no_more_than_there_is() {
        // Half of the completions are copies: I(J; y | S) is half of log 16.
        let write = |i: usize, _| if i % 4 < 2 { i.to_string() } else { "template".into() };
        let truth = measured(0.5, &write).base.value;
        assert!((truth - (CANDIDATES as f64).ln() / 2.0).abs() < 0.02, "{truth}");
        // Completions that the model takes for copies of another prompt: it says nothing.
        let wrong = measured(0.5, &|i, _| ((i + 39) % 40).to_string());
        assert_eq!(wrong.base.value, 0.0, "{wrong:?}");
        assert!(wrong.own_logp[0] < wrong.other_logp[0]);
    }
}
