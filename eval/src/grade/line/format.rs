//! A record of a program to the name and the reader of its format.

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

/// The keys by which a record is recognised: the first row that fits decides, and [`Format::Own`] where none does.
const KEYS: [(&[&str], Format); 16] = [
    (&["problem", "sample", "completion", "verdict"], Format::Tealight),
    (&["custom_id", "result"], Format::AnthropicBatch),
    (&["custom_id"], Format::Batch),
    (&["resps"], Format::LmEval),
    (&["doc_id", "arguments"], Format::LmEval),
    (&["doc", "model_response"], Format::Lighteval),
    (&["sample_score"], Format::EvalscopeReview),
    (&["index", "model_output"], Format::EvalscopePrediction),
    (&["target"], Format::Inspect),
    (&["origin_prompt", "prediction"], Format::OpenCompass),
    (&["convo"], Format::SimpleEvals),
    (&["output", "gts"], Format::Verl),
    (&["code", "gt"], Format::QwenMath),
    (&["example_id", "completion", "reward"], Format::Verifiers),
    (&["traces", "task"], Format::VerifiersEpisode),
    (&["prompt", "completion", "advantage"], Format::Trl),
];

/// Lists of a document whose items are records, and the key that says so where all of it stands on one line.
pub(in crate::grade) const LISTS: [(&str, &str); 2] = [("samples", "eval"), ("convos", "convos")];

impl Format {
    /// The format of a record.
    fn of(value: &Value) -> Self {
        let fits = |(keys, format): &&(&[&str], Self)| has(value, keys) && format.fits(value);
        KEYS.iter().find(fits).map_or(Self::Own, |(_, format)| *format)
    }

    /// Whether a record with the format's keys is one of it, where that does not tell.
    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Inspect => {
                value["output"].get("choices").is_some() || has(value, &["id", "epoch", "input"])
            }
            Self::QwenMath => value["code"].is_array(),
            Self::VerifiersEpisode => value["traces"].is_array() && value["task"].is_object(),
            _ => true,
        }
    }

    /// What a file of the format is called in messages.
    pub(in crate::grade) fn name(self) -> &'static str {
        match self {
            Self::Tealight => "a samples file of Tealight",
            Self::AnthropicBatch => "the output of an Anthropic batch",
            Self::Batch => "the output of an OpenAI batch",
            Self::LmEval => "an lm-eval samples file",
            Self::Lighteval => "a lighteval details file",
            Self::EvalscopeReview => "an evalscope reviews file",
            Self::EvalscopePrediction => "an evalscope predictions file",
            Self::Inspect => "an Inspect log",
            Self::OpenCompass => "an OpenCompass predictions file",
            Self::SimpleEvals => "a simple-evals file",
            Self::Verl => "a verl rollout file",
            Self::QwenMath => "an output file of Qwen2.5-Math",
            Self::Verifiers => "a results file of verifiers",
            Self::VerifiersEpisode => "a traces file of verifiers",
            Self::Trl => "a TRL completions file",
            Self::Own => "a file of completions",
        }
    }

    /// Whether its records are read as those that people write.
    pub(super) fn is_own(self) -> bool {
        matches!(self, Self::Own | Self::Trl | Self::Verifiers | Self::Tealight)
    }

    /// Whether its ids count the problems from 0.
    pub(in crate::grade) fn counts_from_zero(self) -> bool {
        matches!(
            self,
            Self::LmEval
                | Self::EvalscopeReview
                | Self::EvalscopePrediction
                | Self::OpenCompass
                | Self::QwenMath
        )
    }

    /// Reads a record in the format that its keys tell, with its own key where it stands in an object.
    pub(super) fn read(value: &Value, key: Option<&str>) -> Result<Line> {
        let format = Self::of(value);
        let mut line = match format {
            Self::Tealight => own::tealight(value),
            Self::AnthropicBatch => servers::anthropic(value),
            Self::Batch => servers::openai(value),
            Self::LmEval => harnesses::lm_eval(value),
            Self::Lighteval => harnesses::lighteval(value),
            Self::EvalscopeReview => harnesses::evalscope_review(value),
            Self::EvalscopePrediction => harnesses::evalscope_prediction(value),
            Self::Inspect => harnesses::inspect(value),
            Self::OpenCompass => harnesses::opencompass(value, key),
            Self::SimpleEvals => harnesses::simple_evals(value),
            Self::Verl => harnesses::verl(value),
            Self::QwenMath => harnesses::qwen_math(value),
            Self::Verifiers => own::verifiers(value),
            Self::VerifiersEpisode => harnesses::verifiers_episode(value),
            Self::Trl | Self::Own => own::own(value, key),
        }?;
        line.format = format;
        Ok(line)
    }
}

fn has(value: &Value, keys: &[&str]) -> bool {
    keys.iter().all(|key| fields::get(value, key).is_some())
}
