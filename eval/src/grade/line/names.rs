//! The keys of records that people and trainers write, by what they mean.

/// Keys of one completion, of several, and of the prompt.
pub(super) const ONE: [&str; 9] = [
    "completion",
    "response",
    "output",
    "generated_text",
    "generation",
    "prediction",
    "model_response",
    "output_response",
    "pred_answer",
];
pub(super) const SEVERAL: [&str; 6] =
    ["completions", "responses", "outputs", "generated_texts", "generations", "predictions"];
pub(super) const PROMPTS: [&str; 7] =
    ["prompt", "question", "messages", "instruction", "input", "query", "input_prompt"];
/// Keys of the gold answer, those first that can mean nothing else. The `answer` of a line that somebody has judged, or
/// that has such a key, is what the completion said.
pub(super) const GOLDS: [&str; 14] = [
    "gold",
    "ground_truth",
    "reward_model.ground_truth",
    "env_extras.reward_spec.ground_truth",
    "gt",
    "gts",
    "expected_answer",
    "example_answer",
    "correct_answer",
    "reference_answer",
    "target",
    "answer",
    "label",
    "solution",
];
/// Keys that say which sample of its problem a line is. A seed alone does not: it may be that of the whole run.
pub(super) const SAMPLES: [&str; 6] =
    ["sample", "sample_index", "sample_idx", "generation_index", "repeat", "request_id"];
/// Keys of the solution class of a completion, or of each.
pub(super) const CLASSES: [&str; 3] = ["class", "solution_class", "classes"];
/// Keys of the model that a record is of.
pub(super) const MODELS: [&str; 4] = ["model", "model_name", "model_id", "checkpoint"];
