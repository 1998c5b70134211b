//! Completions that were produced elsewhere, judged: a line at a time to tallies, in bounded memory.

mod line;

use std::collections::{HashMap, HashSet};
use std::io::BufRead;

use anyhow::{Context, Result, bail};
use rayon::prelude::*;
use tealight_datasets::lines::{BadLine, Lines};
use tealight_datasets::{Database, Dataset, Problem, Prompt, Verdict, Verifier};

use crate::evaluate::{SampleBatch, Team};
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
/// A malformed line that is not cut off at the end, a line without gold, two golds for one problem, a sample that is there
/// twice.
pub fn grade(
    input: impl BufRead,
    name: &str,
    dataset: Option<&Dataset>,
    (verifier, starts_inside): (&dyn Verifier, bool),
    team: &dyn Team,
    sink: &mut dyn FnMut(&[Sample]) -> Result<()>,
) -> Result<Graded> {
    let known: HashMap<&str, &Problem> = dataset
        .iter()
        .flat_map(|dataset| dataset.problems.iter().map(|problem| (problem.id.as_str(), problem)))
        .collect();
    let (problems, tallies, unjudged, notes) = (vec![], vec![], vec![], vec![]);
    let mut graded = Graded { problems, tallies, completions: 0, unjudged, notes };
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut drawn: Vec<usize> = Vec::new();
    let mut numbered: HashSet<(usize, usize)> = HashSet::new();
    let mut input = Lines::new(input);
    loop {
        let lines = chunk(&mut input).with_context(|| name.to_owned())?;
        if lines.is_empty() {
            break;
        }
        let read: Vec<Result<Option<Line>>> =
            lines.par_iter().map(|line| parse(&line.bytes)).collect();
        let mut work: Vec<(usize, usize, Answer)> = Vec::new();
        for (index, found) in read.into_iter().enumerate() {
            let at = || format!("{name}:{}", lines[index].number);
            let found = match found {
                Ok(Some(found)) => found,
                Ok(None) => continue,
                Err(_) if !lines[index].is_whole => {
                    graded
                        .notes
                        .push(format!("{}: the last line was cut off and is left out", at()));
                    continue;
                }
                Err(error) => return Err(error).with_context(at),
            };
            let place = match places.get(&found.id) {
                Some(place) => {
                    let problem = &graded.problems[*place];
                    if let Some(gold) = &found.gold
                        && *gold != problem.answer
                    {
                        bail!(
                            "{}: problem `{}` has the gold `{gold}` here and `{}` before: ids must be \
                             one problem's",
                            at(),
                            found.id,
                            problem.answer
                        );
                    }
                    *place
                }
                None => {
                    let problem = problem(&found, &known).with_context(at)?;
                    graded.tallies.push(Tally::new(&problem));
                    graded.problems.push(problem);
                    drawn.push(0);
                    places.insert(found.id.clone(), graded.problems.len() - 1);
                    graded.problems.len() - 1
                }
            };
            if let Some(sample) = found.sample
                && !numbered.insert((place, sample))
            {
                bail!(
                    "{}: sample {sample} of problem `{}` is there twice: a file that was joined with itself?",
                    at(),
                    found.id
                );
            }
            for mut answer in found.answers {
                answer.starts_inside |= starts_inside;
                work.push((place, drawn[place], answer));
                drawn[place] += 1;
            }
        }
        let places_of: Vec<usize> = work.iter().map(|(place, ..)| *place).collect();
        let samples = judged(work, &graded.problems, verifier, team)?;
        graded.completions += samples.len();
        for (place, sample) in places_of.iter().zip(&samples) {
            graded.tallies[*place].add(sample);
            if let (Verdict::Unjudged { why, .. }, true) =
                (&sample.verdict, graded.unjudged.len() < REASONS)
            {
                graded.unjudged.push(format!("problem `{}`: {why}", sample.problem));
            }
        }
        sink(&samples)?;
    }
    Ok(graded)
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
        // What a line says of its problem is of no account where a dataset says it.
        context: match from_dataset {
            Some(problem) => problem.context.clone(),
            None => line.context.clone().map(Database::File),
        },
        total: from_dataset.and_then(|problem| problem.total),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::Alone;
    use serde_json::json;
    use tealight_datasets::verify;

    fn run(text: &str) -> Result<Graded> {
        let verifier = verify::open("math").unwrap();
        let how = (&*verifier, false);
        grade(text.as_bytes(), "f.jsonl", None, how, &Alone, &mut |_| Ok(()))
    }

    #[test]
    fn every_form_of_line_is_counted() {
        let own = run(concat!(
            r#"{"id":"a","completion":"\\boxed{7}","gold":7}"#,
            "\n\n",
            r#"{"id":"b","completions":["it is 3","4"],"answer":"4"}"#,
            "\n",
            r#"{"id":"a","completion":"8","gold":"7"}"#,
            "\n"
        ))
        .unwrap();
        let counts: Vec<_> =
            own.tallies.iter().map(|t| (t.problem.as_str(), t.samples, t.correct)).collect();
        assert_eq!(counts, [("a", 2, 1), ("b", 2, 1)]);
        let harness =
            run(r#"{"doc_id":3,"target":"72","resps":[["72","71"],["the answer is 72"]]}"#)
                .unwrap();
        assert_eq!((harness.tallies[0].samples, harness.tallies[0].correct), (3, 2));
        let summary = |graded: &Graded| crate::Summary::new(&graded.tallies, &[1]).unwrap();
        let unknown = summary(&harness);
        assert_eq!((unknown.truncated, unknown.mean_length), (None, None), "unknown is not zero");
        let known = run(concat!(
            r#"{"id":1,"completion":"7","gold":7,"finish_reason":"length","tokens":4}"#,
            "\n",
            r#"{"id":1,"completion":"7","gold":7,"finish_reason":"stop","tokens":8}"#,
            "\n",
            r#"{"id":1,"completion":"7","gold":7}"#,
            "\n"
        ));
        let known = summary(&known.unwrap());
        assert_eq!((known.truncated, known.mean_length), (Some(0.5), Some(6.0)));
        let cut = run("{\"id\":1,\"completion\":\"7\",\"gold\":7}\n{\"id\":2,\"comp").unwrap();
        assert_eq!((cut.completions, cut.notes.len()), (1, 1));
    }

    #[test]
    fn a_chunk_ends_by_text_and_by_completions() {
        let verifier = verify::open("math").unwrap();
        let chunks = |text: &str| {
            let (how, mut sizes) = ((&*verifier, false), Vec::new());
            let mut sink = |samples: &[Sample]| {
                sizes.push(samples.len());
                Ok(())
            };
            grade(text.as_bytes(), "f.jsonl", None, how, &Alone, &mut sink).unwrap();
            sizes
        };
        let line = |completions: usize| {
            let list = vec!["\"\""; completions].join(",");
            format!("{{\"id\":1,\"gold\":7,\"completions\":[{list}]}}\n")
        };
        assert_eq!(chunks(&line(CHUNK_COMMAS).repeat(2)), [CHUNK_COMMAS; 2]);
        assert_eq!(chunks(&line(3).repeat(CHUNK + 1)), [3 * CHUNK, 3]);
        let text = format!("{}\n", "x".repeat((1 << 20) - 1)).repeat(70);
        let mut lines = Lines::new(text.as_bytes());
        assert_eq!([chunk(&mut lines), chunk(&mut lines)].map(|it| it.unwrap().len()), [65, 5]);
    }

    #[test]
    fn a_line_has_a_most_of_completions() {
        let list = vec!["\"\""; line::MAX_ANSWERS + 1].join(",");
        for list in [
            format!("{{\"id\":1,\"gold\":7,\"completions\":[{list}]}}\n"),
            format!("{{\"doc_id\":1,\"target\":7,\"resps\":[[{list}]]}}\n"),
        ] {
            let message = format!("{:#}", run(&format!("\n{list}")).err().expect("refused"));
            assert!(
                message.contains("f.jsonl:2: `1` has more than 1048576 completions"),
                "{message}"
            );
        }
    }

    #[test]
    fn samples_of_an_evaluation_are_judged_by_the_gold_and_not_by_their_own_answer() {
        let line = json!({"problem": "a", "sample": 3, "completion": "it is 8", "verdict": "wrong",
            "answer": "8", "is_finished": true, "tokens": 4, "logp": -1.0});
        let mut bare = line.clone();
        for key in ["is_finished", "tokens", "logp"] {
            bare.as_object_mut().unwrap().remove(key);
        }
        for line in [&line, &bare] {
            let message = format!("{:#}", run(&line.to_string()).err().expect("no gold"));
            assert!(
                message.contains("no gold answer for `a`: the line holds a verdict"),
                "{message}"
            );
        }
        let mut told = line.clone();
        told["gold"] = json!(7);
        let mut failed = line;
        (failed["gold"], failed["failure"]) = (json!(7), json!("the server was gone"));
        failed["sample"] = json!(4);
        let tally = &run(&format!("{told}\n{failed}\n")).unwrap().tallies[0];
        assert_eq!((tally.samples, tally.correct, tally.unjudged), (1, 0, 1));
        let message = format!("{:#}", run(&format!("{told}\n{told}\n")).err().expect("twice"));
        assert!(message.contains("f.jsonl:2: sample 3 of problem `a` is there twice"), "{message}");
    }

    #[test]
    fn bad_lines_are_refused_by_number() {
        for (text, words) in [
            ("{\"id\":\"a\",\"gold\":7}\n", "f.jsonl:1: `a` has no completion"),
            ("{\"id\":\"a\",\"completion\":\"7\"}\n", "no gold answer for `a`"),
            ("\n{oops\n", "f.jsonl:2: not JSON"),
            ("{\"completion\":\"7\",\"gold\":\"7\"}\n", "no `id`"),
            (
                "{\"id\":1,\"completion\":\"7\",\"gold\":7}\n{\"id\":1,\"completion\":\"7\",\"gold\":8}\n",
                "f.jsonl:2: problem `1` has the gold `8` here and `7` before",
            ),
            (
                r#"{"custom_id":"a","response":{"status_code":500},"error":null}"#,
                "failed in its batch",
            ),
        ] {
            let text = format!("{}\n", text.trim_end());
            let message = format!("{:#}", run(&text).err().expect("refused"));
            assert!(message.contains(words), "{message}");
        }
    }
}
