//! Completions that were produced elsewhere, judged: a line at a time to tallies, in bounded memory.
//!
//! Three forms of line are read. Tealight's own: `{"id", "completion" or "completions", "gold"}`, where
//! `problem`, `answer` and `target` are also understood, and with a dataset the gold may be left out.
//! lm-evaluation-harness's samples: `{"doc_id", "target", "resps"}`. OpenAI's batch output:
//! `{"custom_id", "response": {"body": {"choices"}}}`, with the gold from a dataset.

use std::collections::HashMap;
use std::io::BufRead;

use anyhow::{Context, Result, bail};
use rayon::prelude::*;
use serde_json::Value;
use tealight_datasets::lines::Lines;
use tealight_datasets::{Database, Dataset, Problem, Prompt, Verdict, Verifier};

use crate::evaluate::{DrawnSink, Team};
use crate::{Answer, Sample, Tally};

/// Lines that are judged at a time.
const CHUNK: usize = 4096;

/// Completions that are judged one after the other.
const BLOCK: usize = 16;

/// Largest size of a log-probability, in nats: servers write -9999 for none.
const MAX_LOGP: f64 = 1e9;

/// Reasons that are kept of completions that could not be judged.
const REASONS: usize = 3;

/// A line, read.
struct Line {
    id: String,
    gold: Option<String>,
    prompt: Option<String>,
    /// The name of a database.
    context: Option<String>,
    answers: Vec<Answer>,
}

/// What grading found.
pub struct Graded {
    /// The problems, in the order they first stood in.
    pub problems: Vec<Problem>,
    /// Their counts.
    pub tallies: Vec<Tally>,
    /// Completions that were judged.
    pub completions: usize,
    /// The first completions that could not be judged, each with its problem and the reason.
    pub unjudged: Vec<String>,
    /// What was left out, and said.
    pub notes: Vec<String>,
}

/// Judges every line of `input`, called `name` in messages. The gold answer is the line's, or that of
/// `dataset`'s problem with its id. With `starts_inside` all completions begin in a thought that their prompts opened.
/// `sink` receives the samples in order. A team judges them together: every member reads all of the input.
///
/// # Errors
/// A malformed line that is not cut off at the end, a line without gold, two golds for one problem.
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
    let mut input = Lines::new(input);
    loop {
        let lines: Vec<_> = input
            .by_ref()
            .take(CHUNK)
            .collect::<Result<_, _>>()
            .with_context(|| name.to_owned())?;
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
    let places: Vec<usize> = (0..blocks.len()).collect();
    let mut found: Vec<Vec<Sample>> = vec![Vec::new(); blocks.len()];
    let mut judge = |own: &[usize], sink: &mut DrawnSink<'_>| {
        let own: Vec<(usize, Vec<_>)> =
            own.iter().map(|block| (*block, std::mem::take(&mut blocks[*block]))).collect();
        let one = |(place, number, answer): (usize, usize, Answer)| {
            Sample::of(&problems[place], verifier, number, answer)
        };
        let judged: Vec<(usize, Vec<Sample>)> = own
            .into_par_iter()
            .map(|(block, work)| (block, work.into_iter().map(one).collect()))
            .collect();
        judged.into_iter().try_for_each(sink)
    };
    team.divide(&places, &mut judge, &mut |(block, samples)| {
        found[block] = samples;
        Ok(())
    })?;
    Ok(found.into_iter().flatten().collect())
}

fn problem(line: &Line, known: &HashMap<&str, &Problem>) -> Result<Problem> {
    let from_dataset = known.get(line.id.as_str());
    let answer = match (&line.gold, from_dataset) {
        (Some(gold), _) => gold.clone(),
        (None, Some(problem)) => problem.answer.clone(),
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

/// A line of any of the forms; none for an empty one.
fn parse(line: &[u8]) -> Result<Option<Line>> {
    let text = std::str::from_utf8(line).context("not UTF-8")?.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let value: Value = serde_json::from_str(text).context("not JSON")?;
    let line = if value.get("custom_id").is_some() {
        batch(&value)?
    } else if value.get("resps").is_some() {
        harness(&value)?
    } else {
        own(&value)?
    };
    if line.answers.is_empty() {
        bail!("`{}` has no completion", line.id);
    }
    Ok(Some(line))
}

/// A text or a number as text.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A count of tokens that a stranger gives; sums of such counts do not overflow.
pub fn token_count(value: &Value) -> usize {
    value.as_u64().map_or(0, |count| u32::try_from(count).unwrap_or(u32::MAX) as usize)
}

/// A log-probability that a stranger gives, unless sums of such would not be finite.
pub fn plausible_logp(logp: f64) -> Option<f64> {
    Some(logp).filter(|logp| logp.abs() <= MAX_LOGP)
}

fn first(value: &Value, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| text_of(value.get(*name)?))
}

fn own(value: &Value) -> Result<Line> {
    let id = first(value, &["id", "problem", "prompt_id", "problem_id"])
        .context("no `id` (nor `custom_id`, nor `resps`): which problem is this?")?;
    let is_finished =
        value.get("finish_reason").and_then(Value::as_str).is_none_or(|r| r == "stop")
            && value.get("is_finished").and_then(Value::as_bool).unwrap_or(true);
    let answer = |text: &str| Answer {
        text: text.into(),
        is_finished,
        tokens: token_count(&value["tokens"]),
        logp: value["logp"].as_f64().and_then(plausible_logp),
        ..Answer::default()
    };
    let mut answers = Vec::new();
    if let Some(text) = first(value, &["completion", "response", "output", "generated_text"]) {
        answers.push(answer(&text));
    }
    for name in ["completions", "responses", "outputs"] {
        for item in value.get(name).and_then(Value::as_array).into_iter().flatten() {
            let text = item.as_str().context("a completion that is no text")?;
            answers.push(answer(text));
        }
    }
    Ok(Line {
        id,
        gold: first(value, &["gold", "answer", "target", "ground_truth"]),
        prompt: first(value, &["prompt", "question"]),
        context: first(value, &["context", "db_id"]),
        answers,
    })
}

fn harness(value: &Value) -> Result<Line> {
    let id = first(value, &["doc_id"]).context("`resps` without `doc_id`")?;
    let mut texts: Vec<&Value> = Vec::new();
    for item in value["resps"].as_array().context("`resps` is no list")? {
        match item {
            Value::Array(items) => texts.extend(items),
            other => texts.push(other),
        }
    }
    let answers = texts.into_iter().map(|text| {
        let text = text.as_str().context("a response that is no text")?;
        Ok(Answer { text: text.into(), is_finished: true, tokens: 0, ..Answer::default() })
    });
    Ok(Line {
        id,
        gold: first(value, &["target"]),
        prompt: text_of(&value["arguments"]["gen_args_0"]["arg_0"]),
        context: None,
        answers: answers.collect::<Result<_>>()?,
    })
}

fn batch(value: &Value) -> Result<Line> {
    let id = first(value, &["custom_id"]).context("`custom_id` is no text")?;
    let status = value["response"]["status_code"].as_u64();
    if !value["error"].is_null() || status.is_some_and(|status| status != 200) {
        bail!("`{id}` failed in its batch ({}); leave the line out", value["error"]);
    }
    let choices = value["response"]["body"]["choices"].as_array().context("no choices")?;
    let answers = choices.iter().map(|choice| {
        let text = choice["message"]["content"].as_str().or_else(|| choice["text"].as_str());
        Ok(Answer {
            text: text.context("a choice without text")?.into(),
            is_finished: choice["finish_reason"].as_str().is_none_or(|reason| reason == "stop"),
            tokens: 0,
            logp: None,
            ..Answer::default()
        })
    });
    let answers = answers.collect::<Result<_>>()?;
    Ok(Line { id, gold: None, prompt: None, context: None, answers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::Alone;
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
        let cut = run("{\"id\":1,\"completion\":\"7\",\"gold\":7}\n{\"id\":2,\"comp").unwrap();
        assert_eq!((cut.completions, cut.notes.len()), (1, 1));
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
