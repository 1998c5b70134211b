//! The keys of records that people and trainers write, by what they mean.

use tealight_core::names::list;

/// Keys of one completion, of several, and of the prompt.
pub(super) const ONE: [&str; 9] = list(
    "completion|response|output|generated_text|generation|prediction|model_response|output_response|pred_answer",
);
pub(super) const SEVERAL: [&str; 6] =
    list("completions|responses|outputs|generated_texts|generations|predictions");
/// Those of an answer that a program may have taken out of a completion.
pub(super) const EXTRACTED: [&str; 8] =
    list("prediction|predictions|pred_answer|pred|preds|predict|model_answer|model_answers");
/// Keys of a completion that mean other things elsewhere, each behind a key by which its program is known: `solution`
/// of a task, SGLang, llama.cpp, Ollama.
pub(super) const BESIDE: [(&str, &str); 5] = [
    ("task_id", "solution"),
    ("meta_info", "text"),
    ("stop_type", "content"),
    ("stopped_limit", "content"),
    ("done", "message"),
];
/// The same, where a record has none of those: names that mean other things elsewhere.
pub(super) const ONE_ELSE: [&str; 6] =
    list("model_output|pred|predict|model_answer|generated_solution|text");
pub(super) const SEVERAL_ELSE: [&str; 8] =
    list("samples|rollouts|candidates|texts|model_outputs|preds|solutions|model_answers");
pub(super) const PROMPTS: [&str; 8] =
    list("prompt|question|messages|instruction|input|query|input_prompt|conversations");
/// Keys of the gold answer, those first that can mean nothing else; others are known by their words. The `answer` of a
/// line that somebody has judged, or that has such a key, is what the completion said.
pub(super) const GOLDS: [&str; 15] = list(
    "gold|ground_truth|reward_model.ground_truth|env_extras.reward_spec.ground_truth|gt|gts|gt_answer|\
    expected_answer|example_answer|correct_answer|reference_answer|target|answer|label|solution",
);
/// How many of them can mean nothing else.
pub(super) const SURE_GOLDS: usize = 11;
/// Keys that say which sample of its problem a line is. A seed alone does not: it may be that of the whole run.
pub(super) const SAMPLES: [&str; 6] =
    ["sample", "sample_index", "sample_idx", "generation_index", "repeat", "request_id"];
/// Keys of the solution class of a completion, or of each.
pub(super) const CLASSES: [&str; 3] = ["class", "solution_class", "classes"];
/// Keys of the step of training that a record is of.
pub(super) const STEPS: [&str; 4] = ["step", "global_step", "training_step", "checkpoint_step"];
/// A list of verdicts, one for each completion.
pub(super) const VERDICT_LIST: &str = "is_corrects";
