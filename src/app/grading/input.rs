//! What is graded: a file of completions, or the folder of an evaluation with its samples and problems.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tealight_core::display::shortened;
use tealight_core::{names, regular};
use tealight_datasets::{Dataset, Verifier, verify};
use tealight_eval::comparable::{PROMPTING, SAMPLING};
use tealight_eval::grade::Source;
use tealight_eval::results::{Results, SetResult};

use super::GradingOptions;
use crate::app::folder_settings::is_built_in;

/// Most characters of a verifier that are shown: a stranger's file names it, and the user may repeat it.
const SHOWN: usize = 300;

/// A file of completions, with what the evaluation says of it that it is the samples of.
pub(crate) struct Input {
    /// The file; `-` for standard input.
    pub(crate) file: String,
    evaluation: Option<Evaluation>,
}

/// An evaluation whose folder was named.
struct Evaluation {
    /// Its problems, unless --dataset names others.
    dataset: Option<Dataset>,
    model: String,
    temperature: Option<f64>,
    /// The settings of its samples.
    settings: Vec<(&'static str, Value)>,
}

impl Input {
    /// The problems, where a folder was named and --dataset names no others.
    pub(crate) fn dataset(&self) -> Option<&Dataset> {
        self.evaluation.as_ref()?.dataset.as_ref()
    }

    /// Opens the file, or standard input. What the user names may be a pipe, what a folder names may not.
    pub(crate) fn source(&self) -> Result<Source<'static>> {
        match self.file.as_str() {
            file if self.evaluation.is_some() => Source::open_regular(file),
            "-" => Source::new(std::io::stdin().lock(), "standard input"),
            file => Source::open(file),
        }
    }

    /// Gives results what is known of how the completions were sampled.
    pub(crate) fn describe(&self, results: &mut Results) {
        let Some(evaluation) = &self.evaluation else { return };
        results.model.clone_from(&evaluation.model);
        results.sets.iter_mut().for_each(|set| set.temperature = evaluation.temperature);
        for (key, value) in &evaluation.settings {
            results.config[*key] = value.clone();
        }
    }
}

impl GradingOptions {
    /// The file that `named` is, or the samples of the evaluation in the folder `named`.
    pub(crate) fn input(&self, named: &str) -> Result<Input> {
        let folder = Path::new(named);
        if !folder.join("results.json").is_file() {
            return Ok(Input { file: named.to_owned(), evaluation: None });
        }
        let results = Results::load(folder)?;
        let [set] = results.sets.as_slice() else {
            // What the file says is a path only by this rule.
            let of_set = |set: &SetResult| names::inside(folder, set.samples.as_ref()?).ok();
            let such = results.sets.iter().find_map(of_set);
            let such = such.map_or(String::new(), |path| format!(", such as {},", path.display()));
            bail!(
                "{named}: an evaluation of {} sets: name the samples of one{such} and its --dataset",
                results.sets.len()
            );
        };
        let Some(samples) = &set.samples else {
            bail!("{named}: an evaluation that kept no samples; evaluate again with --output");
        };
        let path = names::inside(folder, samples).with_context(|| format!("{named}: samples"))?;
        let path = regular::own(folder, &path).with_context(|| path.display().to_string())?;
        let dataset = match self.dataset {
            Some(_) => None,
            None => Some(self.stored(named, &results, set)?),
        };
        let keys = SAMPLING.into_iter().chain(PROMPTING).chain(["seed"]);
        let settings = keys.map(|key| (key, results.config[key].clone())).collect();
        let (model, temperature) = (results.model.clone(), set.temperature);
        let evaluation = Some(Evaluation { dataset, model, temperature, settings });
        Ok(Input { file: path.display().to_string(), evaluation })
    }

    /// The problems of a set with the verifier that judged it, which --verifier replaces.
    fn stored(&self, named: &str, results: &Results, set: &SetResult) -> Result<Dataset> {
        let ids = set.problems.iter().map(|tally| tally.problem.as_str());
        Ok(Dataset {
            name: set.dataset.clone(),
            problems: ids.zip(&set.questions).map(|(id, asked)| asked.to_problem(id)).collect(),
            verifier: self.stored_verifier(named, results, set)?,
            notes: Vec::new(),
            unusable: set.unusable.clone(),
            answers: None,
            spellings: None,
            outputs: None,
            instruction: None,
            has_answer_texts: false,
        })
    }

    fn stored_verifier(
        &self,
        named: &str,
        results: &Results,
        set: &SetResult,
    ) -> Result<Arc<dyn Verifier>> {
        let rewards = self.rewards.rewards();
        let given = &results.config["verifier"];
        let is_of_data =
            given.as_array().is_none_or(Vec::is_empty) && results.config["suite"].is_null();
        let spec = match given {
            Value::String(spec) => Some(spec.as_str()),
            _ if is_of_data || set.verifier == "math" => Some(set.verifier.as_str()),
            // One of a suite may have an argument, which is not in its name.
            _ => None,
        };
        match spec.filter(|spec| is_built_in(spec)) {
            Some(spec) => Ok(rewards.classed(verify::open(spec)?)?),
            None if !rewards.verifiers.is_empty() => Ok(verify::open("math")?),
            None => bail!(
                "{named}: was judged by {}, which is not built in or has settings: repeat it with --verifier",
                shortened(spec.unwrap_or(&set.verifier), SHOWN)
            ),
        }
    }
}
