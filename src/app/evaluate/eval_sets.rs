//! The parts of one evaluation: sets of problems, each at every temperature, with files of their own.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Result, bail};
use tealight_core::names;
use tealight_datasets::Dataset;
use tealight_datasets::suite::SuiteSet;

/// One set to evaluate at one temperature.
pub(crate) struct EvalSet<'a> {
    pub(crate) name: String,
    /// The stem of its files' names.
    pub(crate) file: String,
    pub(crate) set: &'a SuiteSet,
    pub(crate) dataset: &'a Dataset,
    pub(crate) temperature: f64,
}

/// Every set at every temperature, each with a file of its own.
pub(crate) fn eval_sets<'a>(
    sets: &'a [SuiteSet],
    datasets: &'a [Dataset],
    temperatures: &[f64],
) -> Result<Vec<EvalSet<'a>>> {
    let at = |name: &str, temperature: f64| match temperatures {
        [_] => name.to_owned(),
        _ => format!("{name}@t{temperature}"),
    };
    let pairs = sets.iter().zip(datasets);
    let mut all: Vec<EvalSet<'_>> = pairs
        .flat_map(|(set, dataset)| {
            temperatures.iter().map(move |temperature| EvalSet {
                name: at(&dataset.name, *temperature),
                file: names::file_name(&at(&stem(&dataset.name), *temperature)),
                set,
                dataset,
                temperature: *temperature,
            })
        })
        .collect();
    let mut files = HashSet::new();
    if !all.iter().all(|set| files.insert(set.file.clone())) {
        // Two folders may have a file of one name.
        all.iter_mut().for_each(|set| set.file = names::file_name(&set.name));
    }
    let mut files = HashSet::new();
    if let Some(twice) = all.iter().find(|set| !files.insert(&set.file)) {
        bail!("`{}` occurs twice among the sets and temperatures", twice.name);
    }
    Ok(all)
}

/// The stem of a dataset's files: of its own file's name, not of the path.
fn stem(name: &str) -> String {
    let stem = Path::new(name).file_stem().filter(|_| Path::new(name).is_file());
    stem.map_or(name.to_owned(), |stem| stem.to_string_lossy().into_owned())
}
