//! The output of an evaluation: results.json and its other forms, the report.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Arc;

use anyhow::{Result, anyhow};
use tealight_core::names;
use tealight_datasets::Verifier;
use tealight_eval::results::{Results, SetResult};
use tealight_eval::store::Index;
use tealight_eval::{Summary, Tally, export, note_unjudged, report};

use crate::app::directory::Destination;
use tealight_system::files::{write_atomic, write_atomic_by};

/// Results, and why they are not to be relied on, where that is so.
pub struct Judged {
    /// The results: `results.json`.
    pub results: Results,
    /// Too much could not be judged.
    pub doubt: Option<Doubtful>,
}

/// Writes every form of `results`, and warns of what makes its numbers mean little; where nothing is kept it only
/// warns. `indices` say where the samples of each set are that keeps them; without them the files are read to find
/// out. Returns the reasons of completions that could not be judged, which it has shown.
pub(crate) fn write(
    results: &Results,
    indices: Option<Vec<Option<Arc<Index>>>>,
    destination: &Destination,
) -> Result<Vec<String>> {
    let output = destination.path();
    let open = |set: &SetResult| -> Result<Option<Arc<Index>>> {
        let is_read = destination.is_saved() || set.summary.unjudged > 0;
        let Some(samples) = set.samples.as_ref().filter(|_| is_read) else { return Ok(None) };
        Ok(Some(Arc::new(Index::open(&names::inside(output, samples)?)?)))
    };
    let indices = match indices {
        Some(indices) => indices,
        None => results.sets.iter().map(open).collect::<Result<_>>()?,
    };
    let warn = || -> Result<Vec<String>> {
        let mut all = Vec::new();
        for (set, index) in results.sets.iter().zip(&indices) {
            set.cautions(&set.name, results.truncated())
                .iter()
                .for_each(|note| tracing::warn!("{note}"));
            let Some(index) = index.as_ref().filter(|_| set.summary.unjudged > 0) else { continue };
            let reasons = reasons(index)?;
            reasons.iter().for_each(|reason| tracing::info!("  {reason}"));
            all.extend(reasons);
        }
        Ok(all)
    };
    if !destination.is_saved() {
        let reasons = warn()?;
        tracing::info!(
            "nothing was saved; --output DIR saves the results, a report and the samples"
        );
        return Ok(reasons);
    }
    write_atomic_by(&output.join("results.json"), |path| {
        let mut out = BufWriter::new(File::create(path)?);
        serde_json::to_writer_pretty(&mut out, results)?;
        Ok(out.flush()?)
    })?;
    write_atomic(&output.join("results.csv"), export::csv(results).as_bytes())?;
    write_atomic(&output.join("results.md"), export::markdown(results).as_bytes())?;
    report::write_indexed(results, &indices, output)?;
    let reasons = warn()?;
    tracing::info!("results, report.html and samples in {}", output.display());
    Ok(reasons)
}

/// More completions than allowed could not be judged; the results are written, and count the others alone.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Doubtful {
    message: String,
}

impl Doubtful {
    /// The exit status of a command whose results are doubtful.
    pub const STATUS: u8 = 3;
}

/// Says how much could not be judged, and what failed unless `shown` has said so; more than `most` of all completions
/// is no result to rely on.
pub(crate) fn doubt<'a>(
    results: &Results,
    verifiers: impl Iterator<Item = &'a dyn Verifier>,
    shown: &[String],
    most: f64,
) -> Option<Doubtful> {
    let mut warned = HashSet::new();
    for complaint in verifiers.filter_map(|verifier| verifier.complaint()) {
        let is_shown = shown.iter().any(|reason| reason.ends_with(&complaint));
        if !is_shown && warned.insert(complaint.clone()) {
            tracing::warn!("the verifier failed: {complaint}");
        }
    }
    let count = |value: fn(&Tally) -> usize| -> usize {
        results.sets.iter().flat_map(|set| &set.problems).map(value).sum()
    };
    let (unjudged, all) = (count(|tally| tally.unjudged), count(Tally::num_samples));
    let share = unjudged as f64 / all.max(1) as f64;
    (share > most).then(|| Doubtful {
        message: format!(
            "{unjudged} of {all} completions ({:.1} %) could not be judged, more than --max-unjudged {most}; the results \
             are written, and count the others alone; another --verifier may judge them, such as \
             exact:ignore-case where completions are bare answers",
            share * 100.0
        ),
    })
}

/// The summary of tallies; where nothing could be judged, the error has `reason`.
pub(crate) fn summary(
    tallies: &[Tally],
    ks: &[usize],
    reason: impl FnOnce() -> Option<String>,
) -> Result<Summary> {
    let is_judged = tallies.iter().any(|tally| tally.samples > 0);
    Summary::new(tallies, ks).map_err(|error| match (!is_judged).then(reason).flatten() {
        Some(reason) => anyhow!("{error}: {reason}"),
        None => error,
    })
}

/// The first reasons why samples in a file could not be judged, each with a problem.
pub(super) fn reasons(stored: &Index) -> Result<Vec<String>> {
    let mut ids: Vec<&String> = stored.problems().collect();
    ids.sort();
    let mut reasons = Vec::new();
    for id in ids {
        note_unjudged(&stored.samples(id)?, &mut reasons);
    }
    Ok(reasons)
}
