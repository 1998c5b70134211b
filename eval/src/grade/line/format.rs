//! A record of a program to the name and the reader of its format.
//!
//! To add a format, add a variant, its row of [`FORMATS`] and the function that reads it; then a file of it in
//! `tests/fixtures/grade`, its counts in `grade/tests/formats.rs`, and a row of docs/how-to/grade.md.

use anyhow::Result;
use serde_json::Value;

use super::{Line, fields, harnesses, own, servers};

/// The program that wrote a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::grade) enum Format {
    #[default]
    Own,
    Tealight,
    Batch,
    AnthropicBatch,
    LmEval,
    Inspect,
    EvalscopeReview,
    EvalscopePrediction,
    Lighteval,
    OpenCompass,
    SimpleEvals,
    QwenMath,
    Verl,
    Verifiers,
    VerifiersEpisode,
    Trl,
}

/// What is known of a format.
struct Row {
    format: Format,
    /// What a file of it is called in messages.
    name: &'static str,
    /// Whether its ids count the problems from 0.
    counts_from_zero: bool,
    /// Recognises a record by its keys.
    is: fn(&Value) -> bool,
    /// Reads a record, with its own key where it stands in an object.
    read: fn(&Value, Option<&str>) -> Result<Line>,
}

/// The formats; the first that recognises a record reads it.
const FORMATS: [Row; 16] = [
    Row {
        format: Format::Tealight,
        name: "a samples file of Tealight",
        counts_from_zero: false,
        is: |value| all(value, &["problem", "sample", "completion", "verdict"]),
        read: |value, _| own::tealight(value),
    },
    Row {
        format: Format::AnthropicBatch,
        name: "the output of an Anthropic batch",
        counts_from_zero: false,
        is: |value| all(value, &["custom_id", "result"]),
        read: |value, _| servers::anthropic(value),
    },
    Row {
        format: Format::Batch,
        name: "the output of an OpenAI batch",
        counts_from_zero: false,
        is: |value| all(value, &["custom_id"]),
        read: |value, _| servers::openai(value),
    },
    Row {
        format: Format::LmEval,
        name: "an lm-eval samples file",
        counts_from_zero: true,
        is: |value| all(value, &["resps"]) || all(value, &["doc_id", "arguments"]),
        read: |value, _| harnesses::lm_eval(value),
    },
    Row {
        format: Format::Lighteval,
        name: "a lighteval details file",
        counts_from_zero: false,
        is: |value| all(value, &["doc", "model_response"]),
        read: |value, _| harnesses::lighteval(value),
    },
    Row {
        format: Format::EvalscopeReview,
        name: "an evalscope reviews file",
        counts_from_zero: true,
        is: |value| all(value, &["sample_score"]),
        read: |value, _| harnesses::evalscope_review(value),
    },
    Row {
        format: Format::EvalscopePrediction,
        name: "an evalscope predictions file",
        counts_from_zero: true,
        is: |value| all(value, &["index", "model_output"]),
        read: |value, _| harnesses::evalscope_prediction(value),
    },
    Row {
        format: Format::Inspect,
        name: "an Inspect log",
        counts_from_zero: false,
        is: |value| {
            let has_choices = value["output"].get("choices").is_some();
            has_choices && all(value, &["target"])
                || all(value, &["id", "epoch", "input", "target"])
        },
        read: |value, _| harnesses::inspect(value),
    },
    Row {
        format: Format::OpenCompass,
        name: "an OpenCompass predictions file",
        counts_from_zero: true,
        is: |value| all(value, &["origin_prompt", "prediction"]),
        read: harnesses::opencompass,
    },
    Row {
        format: Format::SimpleEvals,
        name: "a simple-evals file",
        counts_from_zero: false,
        is: |value| all(value, &["convo"]),
        read: |value, _| harnesses::simple_evals(value),
    },
    Row {
        format: Format::Verl,
        name: "a verl rollout file",
        counts_from_zero: false,
        is: |value| all(value, &["output", "gts"]),
        read: |value, _| harnesses::verl(value),
    },
    Row {
        format: Format::QwenMath,
        name: "an output file of Qwen2.5-Math",
        counts_from_zero: true,
        is: |value| value["code"].is_array() && all(value, &["gt"]),
        read: |value, _| harnesses::qwen_math(value),
    },
    Row {
        format: Format::Verifiers,
        name: "a results file of verifiers",
        counts_from_zero: false,
        is: |value| all(value, &["example_id", "completion", "reward"]),
        read: |value, _| own::verifiers(value),
    },
    Row {
        format: Format::VerifiersEpisode,
        name: "a traces file of verifiers",
        counts_from_zero: false,
        is: |value| value["traces"].is_array() && value["task"].is_object(),
        read: |value, _| harnesses::verifiers_episode(value),
    },
    Row {
        format: Format::Trl,
        name: "a TRL completions file",
        counts_from_zero: false,
        is: |value| all(value, &["prompt", "completion", "advantage"]),
        read: own::own,
    },
    Row {
        format: Format::Own,
        name: "a file of completions",
        counts_from_zero: false,
        is: |_| true,
        read: own::own,
    },
];

fn all(value: &Value, keys: &[&str]) -> bool {
    keys.iter().all(|key| fields::get(value, key).is_some())
}

impl Format {
    fn row(self) -> &'static Row {
        FORMATS.iter().find(|row| row.format == self).expect("every format has a row")
    }

    /// What a file of the format is called in messages.
    pub(in crate::grade) fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether its ids count the problems from 0.
    pub(in crate::grade) fn counts_from_zero(self) -> bool {
        self.row().counts_from_zero
    }

    /// Reads a record in the format that its keys tell.
    pub(super) fn read(value: &Value, key: Option<&str>) -> Result<Line> {
        let row =
            FORMATS.iter().find(|row| (row.is)(value)).expect("the last row is of any record");
        Ok(Line { format: row.format, ..(row.read)(value, key)? })
    }
}
