//! The judged files of an audit: their problems under one name, and whether they may be compared.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Error, Result, bail};
use tealight_core::Prompt;
use tealight_datasets::{Problem, Verifier, judge};
use tealight_eval::audit::{self, Pairing};
use tealight_eval::grade::several_models;
use tealight_eval::results::Results;
use tealight_eval::store::Index;
use tealight_eval::transition::{Aligned, align};
use tealight_eval::{comparable, report};
use tempfile::TempDir;

use super::SECOND_DRAW;
use crate::app::evaluate::{Doubtful, outcome};
use crate::app::grading::{DRAFT, GradedFile};
use tealight_system::files::writable_subfolder;

/// A file that was judged: its samples are in a folder of their own until all files have been accepted.
pub(super) struct JudgedFile {
    pub(super) name: String,
    pub(super) results: Results,
    pub(super) index: Arc<Index>,
    unjudged: Vec<String>,
    folder: TempDir,
}

impl JudgedFile {
    pub(super) fn new(name: &str, graded: GradedFile, folder: TempDir) -> Result<Self> {
        let GradedFile { results, index, unjudged, models, .. } = graded;
        if models.len() > 1 {
            bail!("{}: {}", results.sets[0].dataset, several_models(&models));
        }
        let index = index.context("samples were written")?;
        Ok(Self { name: name.to_owned(), results, index, unjudged, folder })
    }

    /// Why its numbers are not to be relied on.
    pub(super) fn doubt(&self, verifier: &dyn Verifier, most: f64) -> Option<Doubtful> {
        let doubt = outcome::doubt(&self.results, std::iter::once(verifier), &self.unjudged, most);
        let reason = self.unjudged.first().filter(|_| doubt.is_some());
        reason.inspect(|reason| tracing::info!("  {reason}"));
        doubt
    }

    /// Gives its problems the base's names.
    fn rename(&mut self, pairing: &Pairing) {
        self.results.sets.iter_mut().for_each(|set| pairing.apply(set));
        if let Pairing::ByPrompt(names) = pairing
            && let Some(index) = Arc::get_mut(&mut self.index)
        {
            index.rename(names);
        }
    }

    /// Moves its samples to where the results name them.
    pub(super) fn save(&self, output: &Path) -> Result<()> {
        writable_subfolder(&output.join("samples"))?;
        for set in &self.results.sets {
            let Some(samples) = &set.samples else { continue };
            let path = output.join(samples);
            std::fs::rename(self.folder.path().join(DRAFT), &path)
                .with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}

/// Gives the problems of all files the names that they have in the first.
pub(super) fn pair(
    judged: &mut [JudgedFile],
    verifier: &dyn Verifier,
    notes: &mut Vec<String>,
) -> Result<()> {
    let Some((base, others)) = judged.split_first_mut() else { return Ok(()) };
    let set = &base.results.sets[0];
    let same_gold = |place: usize, gold: &str| {
        let question = &set.questions[place];
        let prompt = Prompt::Text(question.prompt.clone());
        let problem = Problem::new(&*set.problems[place].problem, prompt, &*question.answer);
        judge::verify(verifier, &problem, gold).is_correct()
    };
    for file in others {
        let pairing =
            audit::pair((&base.name, set), (&file.name, &file.results.sets[0]), &same_gold)?;
        if let Pairing::ByPrompt(names) = &pairing {
            let note = format!(
                "{}: problems are paired with {}'s by their prompts ({}), since ids differ",
                file.name,
                base.name,
                names.len()
            );
            tracing::info!("{note}");
            notes.push(note);
        }
        file.rename(&pairing);
    }
    Ok(())
}

/// The share of failed requests from which a change may be theirs.
const MANY_FAILED: f64 = 0.05;

/// The counts of all files on the same problems, what is to be said of them, and reasons for caution.
pub(super) fn aligned<'a>(
    models: &'a [JudgedFile],
    second: Option<&'a JudgedFile>,
    intersects: bool,
) -> Result<(Aligned<'a>, Vec<String>, Vec<String>)> {
    let named = |file: &'a JudgedFile| (file.name.clone(), &file.results);
    let runs: Vec<(String, &Results)> = models.iter().map(named).collect();
    let (sets, mut notes) = align(&runs, second.map(named).as_ref(), intersects)?;
    notes.extend(comparable::identical(&runs));
    notes.extend(sets.iter().flat_map(|set| audit::limits(&runs, set)));
    let (base, others) = models.split_first().context("a base")?;
    if let Some(second) = second {
        let file = second.results.config["file"].as_str().unwrap_or(SECOND_DRAW);
        comparable::check_second_draw((file, &second.results), &runs).map_err(Error::msg)?;
    }
    let mut warnings = report::warnings(&runs);
    for file in models {
        let summary = &file.results.sets[0].summary;
        let share = summary.failed as f64 / summary.completions.max(1) as f64;
        if share > MANY_FAILED {
            warnings.push(format!(
                "{}: {:.0} % of the completions failed, were refused or have no text and count as incorrect: they may \
                 explain a change (--failed unjudged excludes them)",
                file.name,
                100.0 * share
            ));
        }
    }
    for other in others {
        let sets = [&base.results.sets[0], &other.results.sets[0]];
        for difference in
            comparable::differences((&base.results, sets[0]), (&other.results, sets[1]))
        {
            let ([a, b], key) = (&difference.values, difference.key);
            if key == "truncated" {
                bail!(
                    "truncated completions: {a} in {}, {b} in {}. The same completion would be judged by \
                     two rules; --truncated judged judges all by their texts",
                    base.name,
                    other.name
                );
            }
            let differ = format!("different {key}: {a} in {}, {b} in {}", base.name, other.name);
            match key {
                "n" | "prompts" => notes.push(differ),
                _ => warnings
                    .push(format!("{differ}: a change may be its effect, not that of training")),
            }
        }
    }
    Ok((sets.into_iter().next().context("one set")?, notes, warnings))
}
