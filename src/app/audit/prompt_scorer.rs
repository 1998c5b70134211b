//! A model that scores completions under the prompts of a file, for the information that they have about theirs.

use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_core::{Message, Prompt};
use tealight_eval::audit::{PromptScorer, Score, ScoreRequest};

use crate::app::settings::{ModelOptions, defaults};
use crate::formats::pretrained::Pretrained;
use crate::learn::listed::logp;
use crate::nn::device::Dtype;
use crate::nn::model::Decoder;
use crate::nn::policy::Sequence;
use crate::nn::tokenizer::Tokenizer;
use crate::system::process::Process;
use crate::system::stop::Stop;
use crate::system::telemetry::Progress;

/// Most tokens of a completion that are scored.
const MAX_TOKENS: usize = 256;

/// Options of the model that scores completions.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
pub struct ScorerOptions {
    /// Model that computes how much completions say about their prompts, in place of the words that both have: a
    /// directory in Hub layout, a .gguf file, a Hub id or an embedded model. It scores the completions of all files:
    /// name the base, or another model of the family. Scored are at most 2 completions of 128 problems of each file,
    /// 256 tokens of each, under 16 prompts.
    #[arg(long, value_name = "MODEL", help_heading = "Model")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Device of --model: auto, cpu, cuda, cuda:N or metal. Default: auto, the first GPU that this binary was built
    /// for, else the CPU.
    #[arg(long, help_heading = "Model", requires = "model")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Type of the weights of --model: float32, bfloat16, or auto, which is bfloat16 on CUDA. Log-probabilities are
    /// float32. Default: float32.
    #[arg(long, value_enum, help_heading = "Model", requires = "model")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<Dtype>,
}

impl ScorerOptions {
    /// Loads the model, where one is named.
    pub(super) fn load<'a>(&self, process: &'a Process) -> Result<Option<ModelScorer<'a>>> {
        let Some(name) = &self.model else { return Ok(None) };
        let mut options: ModelOptions = defaults();
        options.model.clone_from(name);
        options.device = self.device.clone().unwrap_or(options.device);
        options.precision.dtype = self.dtype.unwrap_or(Dtype::Float32);
        let (model, _) = options.load()?;
        let decoder = model.decoder()?;
        Ok(Some(ModelScorer { name: name.clone(), model, decoder, stop: &process.stop }))
    }
}

/// A model of ours as the scorer.
pub(super) struct ModelScorer<'a> {
    name: String,
    model: Pretrained,
    decoder: Decoder,
    stop: &'a Stop,
}

impl ModelScorer<'_> {
    /// The prompt as a user would send it to the model.
    fn encode(&self, request: &ScoreRequest<'_>) -> Result<Vec<u32>> {
        let (tokenizer, prompt) = (&self.model.tokenizer, request.prompt);
        tokenizer.encode_prompt(&match (tokenizer.has_chat_template(), &prompt.turns[..]) {
            (false, _) => Prompt::Text(prompt.prompt.clone()),
            (true, []) => Prompt::Chat(vec![Message::user(&*prompt.prompt)].into()),
            (true, turns) => Prompt::Chat(turns.to_vec().into()),
        })
    }
}

impl PromptScorer for ModelScorer<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn max_tokens(&self) -> usize {
        MAX_TOKENS.min(self.decoder.architecture().max_positions / 2)
    }

    fn score(&self, file: &str, requests: &[ScoreRequest<'_>]) -> Result<Vec<Vec<Score>>> {
        let mut bar = Progress::new(&format!("{file}, scored by {}", self.name), requests.len());
        let most = self.max_tokens();
        let context = self.decoder.architecture().max_positions;
        let one = |request: &ScoreRequest<'_>| -> Result<Vec<Score>> {
            self.stop.check()?;
            let mut prompt = self.encode(request)?;
            // The question is at the end of a long prompt, after its examples.
            prompt.drain(..prompt.len().saturating_sub(context - most));
            let row = |text: &&str| -> Result<Sequence> {
                let mut completion = self.model.tokenizer.encode_completion(text)?;
                completion.truncate(most);
                Ok(Sequence { prompt: prompt.clone(), completion })
            };
            let rows = request.completions.iter().map(row).collect::<Result<Vec<_>>>()?;
            let of_rows = logp(&self.decoder, &rows, 1.0, &mut || Ok(()))?;
            bar.advance_with(rows.iter().map(|row| row.completion.len()).sum(), String::new);
            let score =
                |(logp, row): (f64, &Sequence)| Score { logp, tokens: row.completion.len() };
            Ok(of_rows.into_iter().zip(&rows).map(score).collect())
        };
        requests.iter().map(one).collect()
    }
}
