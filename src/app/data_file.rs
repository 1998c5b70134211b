//! Untrusted data files to problems or rows, with bounds on memory and time by the size of the file: a small file may
//! hold gigabytes, and a library that reads it may panic.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tealight_core::guard;
use tealight_datasets::read::Columns;
use tealight_datasets::{Dataset, SOURCES};

use tealight_eval::number::counted;
use tealight_formats::hub::dataset::{Fetched, HubDataset};
use tealight_system::budget;
use tealight_system::machine;

pub(crate) const DATASET_HELP: &str = "\
Dataset: a generated task, a dataset of the Hub, or a .jsonl, .json, .csv or .parquet
file (text also as .gz or .zst).
  countdown  four numbers, a target, many correct expressions: countdown/train (the default;
             countdown/test for eval), valid, test (no problem has the numbers of a training
             problem), sft
  TASK       a task that tealight tasks lists, such as colouring: colouring/train, valid,
             test, sft; parameters follow the split (colouring/test-n7-m9)
  TASK/sft,TASK/sft,...  for tealight sft: several endless streams in equal shares
  OWNER/NAME[/CONFIG][@REVISION][:SPLIT]  a dataset on the Hub, its files found as `datasets`
             finds them: openai/gsm8k/main:test. Without SPLIT the only split, or train
  hub:OWNER/NAME[@REVISION]:FILE  one file of such a dataset
  FILE       columns are detected (question/answer, problem/solution, messages,
             choices, nums/target, ...) and printed with the first problem; name
             others with --prompt-column and --answer-column.
             Spider and BIRD files (db_id, question, query) find their databases beside them";

/// Whether `spec` names a source of Tealight's own.
pub(crate) fn is_source(spec: &str) -> bool {
    let name = spec.trim().split('/').next().unwrap_or_default();
    SOURCES.iter().any(|source| source.name == name)
}

/// Opens a named source, a file, or a dataset on the Hub.
pub(crate) fn open(spec: &str, columns: &Columns, limit: Option<usize>) -> Result<Dataset> {
    let (name, columns) = (spec.to_owned(), columns.clone());
    let hub = if is_source(spec) { None } else { HubDataset::parse(spec)? };
    let Some(dataset) = hub else {
        let files = [PathBuf::from(spec)];
        return bounded(spec, &files, move || Ok(tealight_datasets::open(&name, &columns, limit)?));
    };
    let Fetched { files, note } =
        dataset.fetch().with_context(|| match spec.starts_with("hub:") {
            true => format!("dataset `{spec}`"),
            false => format!(
                "dataset `{spec}`, which was looked up on the Hub: no file or built-in source has this name"
            ),
        })?;
    let of_files = files.clone();
    let open = move || Ok(tealight_datasets::open_files(&name, &of_files, &columns, limit)?);
    let mut dataset = bounded(spec, &files, open)?;
    dataset.notes.splice(0..0, note);
    Ok(dataset)
}

/// Reads `files` by `work`; a named source has none that is there.
fn bounded<R: Send + 'static>(
    spec: &str,
    files: &[PathBuf],
    work: impl FnOnce() -> Result<R> + Send + 'static,
) -> Result<R> {
    const TIME: Duration = Duration::from_secs(1800);
    let size_of = |path: &PathBuf| std::fs::metadata(path).map_or(0, |kind| kind.len());
    let size = files.iter().map(size_of).fold(0, u64::saturating_add);
    budget::within_time(spec, allowed(guard::memory_for(size)), TIME, work)
}

/// So many bytes, or what the machine has.
fn allowed(bytes: u64) -> usize {
    let free = machine::available_memory().map_or(u64::MAX, |free| free / 4 * 3);
    usize::try_from(bytes.min(free)).unwrap_or(usize::MAX)
}

/// Makes the budget of this program the guard of every reader of untrusted files, in other crates too.
pub(crate) fn install_guard() {
    guard::install(|what, bytes, time, work| {
        let work = move || {
            work();
            Ok(())
        };
        budget::within_time(what, allowed(bytes), time, work).map_err(|error| format!("{error:#}"))
    });
}

/// Problems that are both trained and tested on would flatter every number.
pub(crate) fn refuse_overlap(train: &Dataset, test: &Dataset, option: &str) -> Result<()> {
    let trained: HashSet<_> = train.problems.iter().map(|problem| problem.prompt.plain()).collect();
    let shared = test.problems.iter().filter(|problem| trained.contains(&problem.prompt.plain()));
    match shared.count() {
        0 => Ok(()),
        count => bail!(
            "{} of {} in {} too; choose a {option} that is held out",
            counted(count, "problem"),
            test.name,
            train.name
        ),
    }
}
