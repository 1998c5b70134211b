//! The samples of one model to one problem, to the numbers that an audit needs of them: texts are read once, one
//! problem at a time, so that memory does not grow with completions.

use std::collections::BTreeMap;

use tealight_core::fnv;
use tealight_datasets::verify::math::solution;
use tealight_datasets::{Problem, Verdict, Verifier};

use super::templates::Prompts;
use crate::Sample;
use crate::contrast::CORRECT;
use crate::measure::rarefaction::distinct_of;

/// Completions whose words are counted: the first ones drawn.
const WORDED: usize = 8;

/// When two correct answers are one strategy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// The same final answer.
    Value,
    /// The same results of the equations of the working.
    Equations,
    /// The same class, which a column of the file, a function or the verifier names: its name on the page.
    Class(String),
    /// The same text but for white space.
    Text,
}

impl Way {
    /// Its name on the page.
    pub fn name(&self) -> &str {
        match self {
            Way::Value => "final answer",
            Way::Equations => "equations of the working",
            Way::Class(name) => name,
            Way::Text => "text",
        }
    }

    /// Whether it looks at the words and not at the solution.
    pub fn is_surface(&self) -> bool {
        *self == Way::Text
    }

    pub(super) fn key(&self, sample: &Sample, class: &str, value: &str) -> u64 {
        match self {
            Way::Value => fnv(value.bytes()),
            Way::Equations => fnv(solution(&sample.completion, value).bytes()),
            Way::Class(_) => fnv(class.bytes()),
            Way::Text => folded(&sample.completion),
        }
    }
}

/// Samples by class, of one model to one problem.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ByClass {
    /// Expected distinct classes among so many correct answers, where there are so many.
    pub(super) distinct: [Option<f64>; CORRECT.len()],
    /// The chance that two correct answers differ, without bias.
    pub(super) differ: Option<f64>,
}

/// The verdicts of a second rule beside those of the first.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Second {
    pub(super) samples: usize,
    pub(super) correct: usize,
    pub(super) only_first: usize,
    pub(super) only_second: usize,
}

/// A second, independent judge of the same completions.
#[derive(Clone, Copy)]
pub enum SecondJudge<'a> {
    /// Another verifier.
    Verifier(&'a dyn Verifier),
    /// The verdicts of another judge, which this column of the files has.
    Column(&'a str),
}

impl SecondJudge<'_> {
    /// Its name on the page.
    pub fn name(&self) -> String {
        match self {
            SecondJudge::Verifier(verifier) => verifier.name().to_owned(),
            SecondJudge::Column(key) => format!("column {key}"),
        }
    }

    /// Whether a sample is correct by it; none where it does not say.
    pub(super) fn accepts(&self, sample: &Sample, problem: &Problem) -> Option<bool> {
        let verifier = match self {
            SecondJudge::Column(_) => {
                return sample.other_verdict.filter(|one| one.fract() == 0.0).map(|one| one > 0.0);
            }
            _ if sample.failure.is_some() => return Some(sample.is_correct()),
            SecondJudge::Verifier(verifier) => verifier,
        };
        let verdict = sample.judged_by(problem, *verifier).verdict;
        let is_judged = !matches!(verdict, Verdict::Unjudged { .. });
        is_judged.then(|| sample.counts() && verdict.is_correct())
    }
}

/// What the samples of one model to one problem show.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    pub(super) samples: usize,
    pub(super) correct: usize,
    /// One for each way.
    pub(super) by: Vec<ByClass>,
    /// The chance that two incorrect answers differ.
    pub(super) differ_incorrect: Option<f64>,
    /// Entropy of the words of the first completions, in nats.
    pub(super) word_entropy: Option<f64>,
    /// The share of completions whose own prompt is the one that they overlap with most.
    pub(super) retrieved: Option<f64>,
    pub(super) second: Option<Second>,
}

/// What rows are made by.
pub(super) struct Reader<'a> {
    pub(super) ways: &'a [Way],
    pub(super) prompts: &'a Prompts,
    pub(super) second: Option<SecondJudge<'a>>,
}

impl Reader<'_> {
    /// The row of a problem, the one of this place, from its samples.
    pub(super) fn row(&self, place: usize, problem: &Problem, samples: &[Sample]) -> Row {
        let judged: Vec<&Sample> =
            samples.iter().filter(|one| !matches!(one.verdict, Verdict::Unjudged { .. })).collect();
        let mut correct = vec![BTreeMap::<u64, usize>::new(); self.ways.len()];
        let mut incorrect = BTreeMap::<u64, usize>::new();
        let mut row = Row { samples: judged.len(), ..Row::default() };
        for sample in &judged {
            match &sample.verdict {
                Verdict::Correct { class, value, .. } if sample.counts() => {
                    row.correct += 1;
                    for (way, classes) in self.ways.iter().zip(&mut correct) {
                        *classes.entry(way.key(sample, class, value)).or_default() += 1;
                    }
                }
                _ => *incorrect.entry(incorrect_key(sample)).or_default() += 1,
            }
        }
        row.by = correct.iter().map(by_class).collect();
        row.differ_incorrect = differ(&incorrect);
        let texts = judged.iter().filter(|one| one.failure.is_none());
        let texts: Vec<&str> = texts.map(|one| one.completion.as_str()).collect();
        row.word_entropy = word_entropy(&texts[..texts.len().min(WORDED)]);
        row.retrieved = self.prompts.retrieved(place, &texts);
        row.second = self.second.map(|judge| second(&judged, problem, judge));
        row
    }
}

/// The verdicts of a second rule on samples.
fn second(judged: &[&Sample], problem: &Problem, judge: SecondJudge<'_>) -> Second {
    let mut counts = Second::default();
    // Completions of which a column has the mean: how many the first rule accepts, and how many the column.
    let (mut means, mut first, mut mean) = (0, 0, 0.0);
    for sample in judged {
        let share = sample.other_verdict.filter(|one| one.fract() > 0.0);
        if let (SecondJudge::Column(_), Some(share)) = (judge, share) {
            (means, mean) = (means + 1, mean + share);
            first += usize::from(sample.is_correct());
            continue;
        }
        let Some(is_correct) = judge.accepts(sample, problem) else { continue };
        counts.samples += 1;
        counts.correct += usize::from(is_correct);
        counts.only_first += usize::from(sample.is_correct() && !is_correct);
        counts.only_second += usize::from(!sample.is_correct() && is_correct);
    }
    // Which of them the column accepts is not known: at the least they differ in the number.
    let accepted = mean.round() as usize;
    counts.samples += means;
    counts.correct += accepted;
    counts.only_first += first.saturating_sub(accepted);
    counts.only_second += accepted.saturating_sub(first);
    counts
}

/// What makes two incorrect answers the same: the answer that was given, or that none was.
fn incorrect_key(sample: &Sample) -> u64 {
    match &sample.verdict {
        _ if !sample.counts() => fnv("truncated".bytes()),
        Verdict::Wrong { answer: Some(answer), .. } => fnv(answer.bytes().chain([0])),
        Verdict::Unparsable { found } => fnv(found.bytes().chain([1])),
        Verdict::NoAnswer => fnv("no answer".bytes()),
        _ => folded(&sample.completion),
    }
}

fn folded(text: &str) -> u64 {
    fnv(text.split_whitespace().flat_map(|word| word.bytes().chain([b' '])))
}

fn by_class(classes: &BTreeMap<u64, usize>) -> ByClass {
    let counts: Vec<usize> = classes.values().copied().collect();
    ByClass { distinct: CORRECT.map(|r| distinct_of(&counts, r)), differ: differ(classes) }
}

/// The chance that two answers, drawn without replacement, are of different classes.
fn differ(classes: &BTreeMap<u64, usize>) -> Option<f64> {
    let all: usize = classes.values().sum();
    let same: usize = classes.values().map(|count| count * (count - 1)).sum();
    (all > 1).then(|| 1.0 - same as f64 / (all * (all - 1)) as f64)
}

/// Shannon's entropy of the words of texts together: what a look at the surface says of diversity.
fn word_entropy(texts: &[&str]) -> Option<f64> {
    let mut words = BTreeMap::<&str, usize>::new();
    for word in texts.iter().flat_map(|text| text.split_whitespace()) {
        *words.entry(word).or_default() += 1;
    }
    let all: usize = words.values().sum();
    let part = |count: &usize| {
        let share = *count as f64 / all as f64;
        -share * share.ln()
    };
    (all > 0).then(|| words.values().map(part).sum())
}

#[cfg(test)]
mod tests {
    use tealight_core::Prompt;
    use tealight_datasets::verify;

    use super::*;
    use crate::completion::{Ending, Reading};

    #[test]
    fn a_column_of_means_gives_numbers_and_the_fewest_disagreements() {
        let problem = Problem::new("p", Prompt::Text("q".into()), "7");
        let verifier = verify::open("math").unwrap();
        let counted = |verdicts: [Option<f64>; 4]| {
            let sample = |(number, (text, verdict)): (usize, (&str, Option<f64>))| {
                let answer = Reading::from_text(Some(text.to_owned()), Ending::Unknown).completion;
                let sample = Sample::judged(&problem, &*verifier, number, answer);
                Sample { other_verdict: verdict, ..sample }
            };
            let texts = ["7", "7", "8", "8"].into_iter().zip(verdicts);
            let samples: Vec<Sample> = texts.enumerate().map(sample).collect();
            let found =
                second(&samples.iter().collect::<Vec<_>>(), &problem, SecondJudge::Column("c"));
            [found.samples, found.correct, found.only_first, found.only_second]
        };
        assert_eq!(counted([Some(0.25); 4]), [4, 1, 1, 0]);
        assert_eq!(counted([Some(0.5); 4]), [4, 2, 0, 0]);
        assert_eq!(counted([Some(0.75); 4]), [4, 3, 0, 1]);
        assert_eq!(counted([Some(0.0); 4]), [4, 0, 2, 0]);
        assert_eq!(counted([Some(0.0), None, Some(1.0), None]), [2, 1, 1, 1]);
        assert_eq!(counted([None; 4]), [0; 4]);
    }
}
