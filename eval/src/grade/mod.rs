//! Completions that were produced elsewhere, judged: a line at a time to tallies, in bounded memory.

mod line;

use std::collections::{HashMap, HashSet};
use std::io::BufRead;

use anyhow::{Context, Result, bail};
use rayon::prelude::*;
use tealight_datasets::lines::{BadLine, Lines};
use tealight_datasets::{Database, Dataset, Problem, Prompt, Verdict, Verifier};

use crate::team::{SampleBatch, Team};
use crate::{Answer, Sample, Tally};
use line::{Line, parse};
pub use line::{plausible_logp, token_count};

/// Most lines that are judged at a time.
const CHUNK: usize = 4096;

/// Most bytes of text that are judged at a time, beyond one line.
const CHUNK_BYTES: usize = 64 << 20;

/// Most commas in what is judged at a time, beyond one line: no line has more completions than that by more than one,
/// and an empty completion takes some hundreds of bytes while it is judged.
const CHUNK_COMMAS: usize = 1 << 18;

/// Completions that are judged one after the other.
const BLOCK: usize = 16;

/// Reasons that are kept of completions that could not be judged.
const REASONS: usize = 3;

/// The result of grading.
#[derive(Default)]
pub struct Graded {
    /// The problems, in the order of their first lines.
    pub problems: Vec<Problem>,
    /// Their counts.
    pub tallies: Vec<Tally>,
    /// Completions that were judged.
    pub completions: usize,
    /// The first completions that could not be judged, each with its problem and the reason.
    pub unjudged: Vec<String>,
    /// Lines that were left out, each with the reason.
    pub notes: Vec<String>,
}

/// Judges every line of `input`, called `name` in messages. The gold answer is the line's, or that of
/// `dataset`'s problem with its id. With `starts_inside` all completions begin in a thought that their prompts opened.
/// `sink` receives the samples in order. A team judges them together: every member reads all of the input.
///
/// # Errors
/// A malformed line that is not cut off at the end, a line without gold, two golds for one problem, a sample that is
/// there twice.
pub fn grade(
    input: impl BufRead,
    name: &str,
    dataset: Option<&Dataset>,
    (verifier, starts_inside): (&dyn Verifier, bool),
    team: &dyn Team,
    sink: &mut dyn FnMut(&[Sample]) -> Result<()>,
) -> Result<Graded> {
    let mut grading = Grading::new(dataset);
    let mut input = Lines::new(input);
    loop {
        let lines = chunk(&mut input).with_context(|| name.to_owned())?;
        if lines.is_empty() {
            break;
        }
        let work = grading.work(name, &lines, starts_inside)?;
        let problems: Vec<usize> = work.iter().map(|(problem, ..)| *problem).collect();
        let samples = judged(work, &grading.graded.problems, verifier, team)?;
        grading.count(&problems, &samples);
        sink(&samples)?;
    }
    Ok(grading.graded)
}

/// The lines that were read so far.
struct Grading<'a> {
    graded: Graded,
    dataset: HashMap<&'a str, &'a Problem>,
    /// Indices of problems, by id.
    indices: HashMap<String, usize>,
    /// Answers of each problem.
    answers: Vec<usize>,
    /// Problems and samples of lines that number their sample.
    numbered: HashSet<(usize, usize)>,
}

impl<'a> Grading<'a> {
    fn new(dataset: Option<&'a Dataset>) -> Self {
        let problems = dataset.iter().flat_map(|dataset| &dataset.problems);
        Self {
            graded: Graded::default(),
            dataset: problems.map(|problem| (problem.id.as_str(), problem)).collect(),
            indices: HashMap::new(),
            answers: Vec::new(),
            numbered: HashSet::new(),
        }
    }

    /// The answers of some lines, each with the indices of its problem and sample.
    fn work(
        &mut self,
        name: &str,
        lines: &[tealight_datasets::lines::Line],
        starts_inside: bool,
    ) -> Result<Vec<(usize, usize, Answer)>> {
        let parsed: Vec<Result<Option<Line>>> =
            lines.par_iter().map(|line| parse(&line.bytes)).collect();
        let mut work = Vec::new();
        for (line, parsed) in lines.iter().zip(parsed) {
            let at = || format!("{name}:{}", line.number);
            let parsed = match parsed {
                Ok(Some(parsed)) => parsed,
                Ok(None) => continue,
                Err(_) if !line.is_whole => {
                    let note = format!("{}: the last line was cut off and is left out", at());
                    self.graded.notes.push(note);
                    continue;
                }
                Err(error) => return Err(error).with_context(at),
            };
            let problem = self.problem(&parsed).with_context(at)?;
            if let Some(sample) = parsed.sample
                && !self.numbered.insert((problem, sample))
            {
                bail!(
                    "{}: sample {sample} of problem `{}` is there twice: a file that was joined with itself?",
                    at(),
                    parsed.id
                );
            }
            for mut answer in parsed.answers {
                answer.starts_inside |= starts_inside;
                work.push((problem, self.answers[problem], answer));
                self.answers[problem] += 1;
            }
        }
        Ok(work)
    }

    /// The index of a line's problem, which is added where it is new.
    fn problem(&mut self, line: &Line) -> Result<usize> {
        let Some(index) = self.indices.get(&line.id).copied() else {
            let problem = problem(line, &self.dataset)?;
            self.graded.tallies.push(Tally::new(&problem));
            self.graded.problems.push(problem);
            self.answers.push(0);
            let index = self.graded.problems.len() - 1;
            self.indices.insert(line.id.clone(), index);
            return Ok(index);
        };
        let answer = &self.graded.problems[index].answer;
        match &line.gold {
            Some(gold) if gold != answer => bail!(
                "problem `{}` has the gold `{gold}` here and `{answer}` before: ids must be one problem's",
                line.id
            ),
            _ => Ok(index),
        }
    }

    /// Adds samples to the tallies of their problems.
    fn count(&mut self, problems: &[usize], samples: &[Sample]) {
        let graded = &mut self.graded;
        graded.completions += samples.len();
        for (problem, sample) in problems.iter().zip(samples) {
            graded.tallies[*problem].add(sample);
            if let Verdict::Unjudged { why, .. } = &sample.verdict
                && graded.unjudged.len() < REASONS
            {
                graded.unjudged.push(format!("problem `{}`: {why}", sample.problem));
            }
        }
    }
}

/// The lines that are judged next: what is held of them has a limit, however many completions a line has.
fn chunk(input: &mut Lines<impl BufRead>) -> Result<Vec<tealight_datasets::lines::Line>, BadLine> {
    let (mut lines, mut bytes, mut commas) = (Vec::new(), 0, 0);
    while lines.len() < CHUNK && bytes < CHUNK_BYTES && commas < CHUNK_COMMAS {
        let Some(line) = input.next().transpose()? else { break };
        bytes += line.bytes.len();
        commas += line.bytes.iter().filter(|byte| **byte == b',').count();
        lines.push(line);
    }
    Ok(lines)
}

/// Judges answers, each to a problem and with its number; of a team every member judges a part.
fn judged(
    work: Vec<(usize, usize, Answer)>,
    problems: &[Problem],
    verifier: &dyn Verifier,
    team: &dyn Team,
) -> Result<Vec<Sample>> {
    let (mut work, mut blocks) = (work.into_iter(), Vec::new());
    loop {
        let block: Vec<_> = work.by_ref().take(BLOCK).collect();
        if block.is_empty() {
            break;
        }
        blocks.push(block);
    }
    let all: Vec<usize> = (0..blocks.len()).collect();
    let mut judged: Vec<Vec<Sample>> = vec![Vec::new(); blocks.len()];
    for share in team.shares(&all, BLOCK) {
        let work: Vec<(usize, Vec<_>)> =
            share.iter().map(|block| (*block, std::mem::take(&mut blocks[*block]))).collect();
        let judge = |(place, number, answer): (usize, usize, Answer)| {
            Sample::judged(&problems[place], verifier, number, answer)
        };
        let batches = work.into_par_iter().map(|(index, block)| SampleBatch {
            index,
            samples: block.into_iter().map(judge).collect(),
        });
        for batch in team.gather(batches.collect())? {
            judged[batch.index] = batch.samples;
        }
    }
    Ok(judged.into_iter().flatten().collect())
}

fn problem(line: &Line, known: &HashMap<&str, &Problem>) -> Result<Problem> {
    let from_dataset = known.get(line.id.as_str());
    let answer = match (&line.gold, from_dataset) {
        (Some(gold), _) => gold.clone(),
        (None, Some(problem)) => problem.answer.clone(),
        (None, None) if line.is_judged => bail!(
            "no gold answer for `{}`: the line holds a verdict, and its `answer` is what the completion said; name the \
             dataset that holds this id with --dataset, or give the gold answer as \"gold\"",
            line.id
        ),
        (None, None) => bail!(
            "no gold answer for `{}`: give it as \"gold\", or name the dataset that holds this id with \
             --dataset",
            line.id
        ),
    };
    let prompt = match (&line.prompt, from_dataset) {
        (Some(prompt), _) => Prompt::Text(prompt.clone()),
        (None, Some(problem)) => problem.prompt.clone(),
        (None, None) => Prompt::Text(String::new()),
    };
    Ok(Problem {
        id: line.id.clone(),
        prompt,
        answer,
        solution: None,
        // The dataset's context wins over the line's.
        context: match from_dataset {
            Some(problem) => problem.context.clone(),
            None => line.context.clone().map(Database::File),
        },
        total: from_dataset.and_then(|problem| problem.total),
    })
}

#[cfg(test)]
mod tests;
