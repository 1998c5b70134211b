//! One set of an evaluation: samples that are known judged again, the others drawn, all of them to estimates.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use anyhow::{Context, Result};
use tealight_datasets::names;
use tealight_eval::results::{Question, SetResult};
use tealight_eval::{Sample, Summary, Tally, store};

use super::jobs::Job;
use super::{EvalOptions, Sampling};
use crate::app::session::Evaluating;
use crate::process::Process;
use crate::train::rlvr::LENGTH;

/// What was found on a set.
pub(super) fn set_result(
    options: &EvalOptions,
    job: &Job<'_>,
    sample: &Sampling<'_>,
    output: &Path,
    is_known: bool,
    process: &Process,
) -> Result<SetResult> {
    let name = job.file.clone();
    let mut tallies = draw(options, job, sample, output, is_known, process, None)?;
    if !options.no_greedy && job.temperature > 0.0 {
        let greedy = draw(options, job, sample, output, is_known, process, Some("greedy"))?;
        for (tally, greedy) in tallies.iter_mut().zip(greedy) {
            tally.greedy = Some(greedy.correct > 0);
        }
    }
    Ok(SetResult {
        name: job.name.clone(),
        dataset: job.dataset.name.clone(),
        domain: job.set.domain.map(|domain| format!("{domain:?}").to_lowercase()),
        verifier: job.dataset.verifier.name().into(),
        temperature: Some(job.temperature),
        summary: Summary::new(&tallies, &options.k).with_context(|| job.name.clone())?,
        questions: Question::all(job.dataset),
        problems: tallies,
        unusable: job.dataset.unusable.clone(),
        samples: Some(format!("samples/{name}.jsonl")),
    })
}

/// The samples of a set, or with `greedy` the one at temperature 0: those that are known judged again,
/// the others drawn.
fn draw(
    options: &EvalOptions,
    job: &Job<'_>,
    sample: &Sampling<'_>,
    output: &Path,
    is_known: bool,
    process: &Process,
    greedy: Option<&str>,
) -> Result<Vec<Tally>> {
    let base = job.file.clone();
    let (n, temperature, name) = match greedy {
        Some(suffix) => (1, 0.0, format!("{base}.{suffix}")),
        None => (options.n, job.temperature, base),
    };
    let file = names::inside(&output.join("samples"), &format!("{name}.jsonl"))?;
    let (mut stored, ranks) = (HashMap::new(), &process.ranks);
    if ranks.first(|| Ok(is_known && file.exists()))? {
        let found = store::read(&file)?;
        found.notes.iter().for_each(|note| tracing::info!("  {note}"));
        stored = found.problems;
        ranks.wait()?;
        // What was half drawn must leave the file, or it would stand there twice.
        ranks.first(|| store::write_in_order(&file, job.dataset, &stored))?;
    }
    let asked: HashSet<&String> = job.dataset.problems.iter().map(|p| &p.id).collect();
    let mut known: HashMap<String, Vec<Sample>> = stored
        .iter()
        .filter(|(id, _)| asked.contains(id))
        .map(|(id, all)| (id.clone(), all.clone()))
        .collect();
    let length = options.decoding.max_completion_length.unwrap_or(LENGTH);
    let params = options.decoding.params(temperature, length, &[0]);
    params.check()?;
    let label = format!("{}{}", job.name, greedy.map_or("", |_| " greedy"));
    let draw = options.draw(n, &params);
    let evaluating =
        Evaluating { label: &label, is_silent: false, stop: &process.stop, ranks: &process.ranks };
    let tallies = sample(job.dataset, &draw, &evaluating, &file, &mut known)?;
    // In the dataset's order, whatever order they came in; what was known has its new verdicts, and what an earlier
    // call drew beyond this one's n stays.
    for (id, mut judged) in known {
        let all = stored.entry(id).or_default();
        judged.extend(all.drain(judged.len().min(all.len())..));
        *all = judged;
    }
    ranks.first(|| store::write_in_order(&file, job.dataset, &stored))?;
    Ok(tallies)
}
