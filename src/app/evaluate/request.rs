//! The settings of an evaluation, kept beside its samples: a run goes on only where it would draw the same.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tealight_core::{fnv, json_file};
use tealight_datasets::{Dataset, Problem};
use tealight_eval::results::MAX_RESULTS;

use crate::app::directory::{self, Existing};
use tealight_nn::device::Precision;
use tealight_nn::generate::Filters;
use tealight_nn::tokenizer::TemplateDate;
use tealight_system::claim::Claim;
use tealight_system::files::{writable_subfolder, write_atomic};

/// The settings that decide samples: two runs that agree in them draw the same.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EvaluationSpec {
    pub(crate) model: String,
    /// A checksum of all files that decide the samples of a model of ours.
    pub(crate) model_checksum: Option<String>,
    pub(crate) engine: Option<String>,
    pub(crate) engine_model: Option<String>,
    #[serde(flatten)]
    pub(crate) precision: Precision,
    pub(crate) filters: Filters,
    pub(crate) max_completion_length: usize,
    pub(crate) seed: u64,
    /// How the problems are put, where that was chosen.
    pub(crate) prompts: Value,
    /// The chat template in place of the model's own.
    pub(crate) chat_template: Option<String>,
    /// The date in prompts, where the chat template writes it.
    pub(crate) template_date: Option<TemplateDate>,
    /// Variables of the chat template in all prompts.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(crate) template_kwargs: Map<String, Value>,
    /// The sets by the names of their samples files.
    pub(crate) sets: BTreeMap<String, SetSpec>,
}

/// The settings that decide the samples of one file: the temperature, and a hash of the prompt of each problem.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SetSpec {
    temperature: f64,
    prompts: BTreeMap<String, u64>,
}

impl SetSpec {
    pub(crate) fn new(dataset: &Dataset, temperature: f64) -> Result<Self> {
        let prompt = |problem: &Problem| -> Result<(String, u64)> {
            let text = serde_json::to_string(&problem.prompt)?;
            Ok((problem.id.clone(), fnv(text.bytes())))
        };
        let prompts = dataset.problems.iter().map(prompt).collect::<Result<_>>()?;
        Ok(Self { temperature, prompts })
    }
}

/// Makes the directory, or checks that what it holds was drawn in the same way; then its samples are
/// known.
pub(crate) fn prepare(
    claim: &Claim,
    output: &Path,
    mut request: EvaluationSpec,
    existing: Existing,
) -> Result<bool> {
    let path = output.join("request.json");
    if existing == Existing::Replace {
        directory::check(output, existing)?;
        directory::refuse_run(output, existing)?;
    }
    let is_free = existing == Existing::Replace || directory::is_free(output);
    let is_known = path.exists() && !is_free;
    if is_known {
        let before: EvaluationSpec = json_file::read(&path, MAX_RESULTS).with_context(|| {
            format!("{}: not readable by this version of Tealight", path.display())
        })?;
        let changed = changes(&before, &request)?;
        if !changed.is_empty() {
            bail!(
                "{}: contains samples with other settings ({}); choose another --output, or replace the samples \
                 with --overwrite",
                output.display(),
                changed.join("; ")
            );
        }
        if let (Some(was), Some(is)) = (&before.engine, &request.engine)
            && was != is
        {
            tracing::warn!(
                "{}: contains samples from {was}; new samples come from {is}, which must serve the same model",
                output.display()
            );
        }
        // Sets and problems that this run leaves out keep their samples.
        for (name, set) in before.sets {
            request.sets.entry(name).or_insert(set.clone()).prompts.extend(set.prompts);
        }
    } else if !is_free {
        bail!(
            "{}: contains files that are not an evaluation; choose another --output, or replace what Tealight wrote \
             with --overwrite",
            output.display()
        );
    }
    directory::begin(Some(claim), output, existing)?;
    writable_subfolder(&output.join("samples"))?;
    write_atomic(&path, serde_json::to_string_pretty(&request)?.as_bytes())?;
    Ok(is_known)
}

/// The differences between the two in samples of the sets and problems that both have.
fn changes(before: &EvaluationSpec, now: &EvaluationSpec) -> Result<Vec<String>> {
    let mut changed = Vec::new();
    for (name, set) in &now.sets {
        let Some(was) = before.sets.get(name) else { continue };
        if was.temperature != set.temperature {
            changed.push(format!("temperature was {}, is {}", was.temperature, set.temperature));
        }
        let other = |(id, hash): &(&String, &u64)| was.prompts.get(*id).is_some_and(|h| h != *hash);
        if let Some((id, _)) = set.prompts.iter().find(other) {
            changed.push(format!("the prompt of problem `{id}` of {name} has changed"));
        }
    }
    let (mut was, mut is) = (serde_json::to_value(before)?, serde_json::to_value(now)?);
    // A server's address is not what makes its samples.
    let is_moved = before.engine.is_some() && now.engine.is_some();
    let no_setting = [("sets", true), ("engine", is_moved)];
    let is_setting = |key: &String| !no_setting.iter().any(|(out, is_out)| *is_out && key == out);
    for one in [&mut was, &mut is].into_iter().filter_map(Value::as_object_mut) {
        one.retain(|key, _| is_setting(key));
    }
    changed.extend(tealight_core::changes::changes(&was, &is));
    Ok(changed)
}
