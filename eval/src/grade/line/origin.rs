//! What a record says of its model and of how it was sampled.

use serde_json::Value;

use super::fields::{get, id_of};
use super::harnesses::sampling;
use super::names::STEPS;
use super::parts::models_in;

/// The model and the step of training that a record is of.
pub(super) fn model_of(value: &Value) -> Option<String> {
    let is_trl = get(value, "advantage").is_some();
    let step = STEPS.iter().find_map(|key| id_of(get(value, key)?)).filter(|_| !is_trl);
    let step = step.map(|step| format!("step {step}"));
    match (models_in(value), step) {
        (Some(model), Some(step)) => Some(format!("{model}, {step}")),
        (model, step) => model.or(step),
    }
}

/// The settings of sampling that a record names itself, or in an object of them.
pub(super) fn sampling_of(value: &Value) -> Vec<(&'static str, String)> {
    let objects = ["sampling_params", "sampling_parameters", "generation_config", "gen_kwargs"];
    let objects = objects.into_iter().filter_map(|key| get(value, key));
    objects.chain([value]).flat_map(sampling).collect()
}
