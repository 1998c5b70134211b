//! A GGUF file as what a model in Hub layout is made of.

use std::collections::{BTreeMap, HashSet};

use anyhow::{Context, Result, bail, ensure};
use candle_core::Tensor;
use serde_json::{Map, Value as Json, json};

use super::names::{self, Order};
use super::tokenizer::STOPS;
use super::{FAMILIES, GEMMA, GEMMA_FILE, GEMMA_PATTERN, Gguf, Value};
use tealight_nn::device::Placement;
use tealight_nn::model::Architecture;
use tealight_nn::model::weights::Weights;

/// Most ids that end a completion.
const MAX_STOPS: usize = 64;

/// Keys of models that multiply or limit what no decoder here does.
const OTHER_SCALES: [&str; 8] = [
    "attention.scale",
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "logit_scale",
    "embedding_scale",
    "residual_scale",
];

/// The parts of a model in Hub layout.
pub struct HubModel {
    /// `config.json`.
    pub config: Json,
    /// Other files by name: tokenizer and generation settings.
    pub files: BTreeMap<&'static str, Vec<u8>>,
}

impl HubModel {
    /// A folder with the files of the tokenizer.
    pub fn unpacked(&self) -> Result<tempfile::TempDir> {
        let folder = tempfile::tempdir()
            .context("no room for the tokenizer of a GGUF file in the temporary folder (TMPDIR)")?;
        for (file, bytes) in &self.files {
            tealight_system::files::write_atomic(&folder.path().join(file), bytes)?;
        }
        Ok(folder)
    }
}

/// Original contexts of stretchings as in Llama 3: powers of two, from and to. Files have the divisors of single
/// frequencies instead.
const ORIGINALS: std::ops::RangeInclusive<u32> = 4..=21;

impl Gguf {
    fn architecture(&self) -> Result<(&str, &'static str)> {
        let name = self.text("general.architecture")?.context("no `general.architecture`")?;
        match FAMILIES.iter().find(|(file, _)| *file == name) {
            Some((_, hub)) => Ok((name, hub)),
            None => {
                let known = FAMILIES.map(|(file, _)| file).join(", ");
                bail!("architecture `{name}` is not supported; {known} are")
            }
        }
    }

    /// Everything but the weights.
    ///
    /// # Errors
    /// An architecture, a tokenizer or a setting that is not supported; the message names it.
    pub fn to_hub(&self) -> Result<HubModel> {
        let model = self.hub_files();
        model.with_context(|| self.path().display().to_string())
    }

    fn hub_files(&self) -> Result<HubModel> {
        let config = self.config()?;
        let (tokenizer, settings) = self.tokenizer()?;
        let mut generation = Map::new();
        for key in ["bos_token_id", "eos_token_id", "pad_token_id"] {
            if let Some(id) = config.get(key) {
                generation.insert(key.to_owned(), id.clone());
            }
        }
        let stops = self.stop_ids()?;
        if stops.len() > 1 {
            generation.insert("eos_token_id".into(), json!(stops));
        }
        let files = BTreeMap::from([
            ("tokenizer.json", serde_json::to_vec(&tokenizer)?),
            ("tokenizer_config.json", serde_json::to_vec(&settings)?),
            ("generation_config.json", serde_json::to_vec(&generation)?),
        ]);
        Ok(HubModel { config, files })
    }

    /// The ids that end a completion, each once: of a sequence, a turn, a message, and those of our own key.
    fn stop_ids(&self) -> Result<Vec<i64>> {
        let mut ids = Vec::new();
        for name in ["eos", "eot", "eom"] {
            ids.extend(self.int(&format!("tokenizer.ggml.{name}_token_id"))?);
        }
        if let Some(Value::Ints(more)) = self.get(STOPS) {
            ids.extend(more.iter().take(MAX_STOPS));
        }
        let mut seen = HashSet::new();
        ids.retain(|id| u32::try_from(*id).is_ok() && seen.insert(*id));
        Ok(ids)
    }

    /// The `config.json` that its header and the shapes of its tensors say.
    pub(super) fn config(&self) -> Result<Json> {
        let (prefix, family) = self.architecture()?;
        let class = match family {
            "qwen2" => "Qwen2ForCausalLM",
            "qwen3" => "Qwen3ForCausalLM",
            GEMMA => "Gemma3ForCausalLM",
            _ => "LlamaForCausalLM",
        };
        let key = |name: &str| format!("{prefix}.{name}");
        let size = |name: &str| {
            let value = self.int(&key(name))?.filter(|size| *size > 0);
            value.with_context(|| format!("no size at key `{}`", key(name)))
        };
        for name in OTHER_SCALES {
            if let Some(value) = self.float(&key(name))?.filter(|value| *value != 0.0) {
                bail!("{} = {value} is not supported", key(name));
            }
        }
        let table = self.shape("token_embd.weight").context("no tensor `token_embd.weight`")?;
        let heads = size("attention.head_count")?;
        let mut config = json!({
            "architectures": [class],
            "model_type": family,
            "vocab_size": table.first(),
            "hidden_size": size("embedding_length")?,
            "intermediate_size": size("feed_forward_length")?,
            "num_hidden_layers": size("block_count")?,
            "num_attention_heads": heads,
            "num_key_value_heads": self.int(&key("attention.head_count_kv"))?.unwrap_or(heads),
            "max_position_embeddings": size("context_length")?,
            "rms_norm_eps": self.float(&key("attention.layer_norm_rms_epsilon"))?.unwrap_or(1e-5),
            "rope_theta": self.float(&key("rope.freq_base"))?.unwrap_or(10_000.0),
            "tie_word_embeddings": self.shape("output.weight").is_none(),
            "hidden_act": "silu",
            "torch_dtype": "float32",
        });
        if let Some(dim) = self.int(&key("attention.key_length"))? {
            config["head_dim"] = json!(dim);
        }
        if family == "llama" && self.shape("blk.0.attn_q.bias").is_some() {
            config["attention_bias"] = json!(true);
        }
        for (name, id) in [("bos", "bos"), ("eos", "eos"), ("padding", "pad")] {
            if let Some(token) = self.int(&format!("tokenizer.ggml.{name}_token_id"))? {
                config[format!("{id}_token_id")] = json!(token);
            }
        }
        if family == GEMMA {
            self.add_gemma(&mut config)?;
        }
        // As llama.cpp reads them: a factor without a type is linear, and older files have another key.
        let factor = match self.float(&key("rope.scaling.factor"))? {
            None => self.float(&key("rope.scale_linear"))?,
            factor => factor,
        };
        let factor = factor.filter(|factor| *factor != 0.0 && *factor != 1.0);
        match self.text(&key("rope.scaling.type"))?.or(factor.map(|_| "linear")) {
            None | Some("none") => {}
            Some("linear") => {
                let factor = factor.unwrap_or(1.0);
                config["rope_scaling"] = json!({"rope_type": "linear", "factor": factor});
            }
            Some(kind) => bail!("rope scaling `{kind}` is not supported"),
        }
        self.refuse_other_heads(prefix, &config)?;
        if self.shape("rope_freqs.weight").is_some() {
            config["rope_scaling"] = self.stretching(&config)?;
        }
        Ok(config)
    }

    /// Refuses sizes that no decoder here follows: positions on a part of a head, values of another width, experts.
    fn refuse_other_heads(&self, prefix: &str, config: &Json) -> Result<()> {
        let number = |name: &str| config[name].as_u64().unwrap_or(0);
        let width = number("hidden_size") / number("num_attention_heads").max(1);
        let dim = config["head_dim"].as_u64().unwrap_or(width);
        for name in ["rope.dimension_count", "attention.value_length"] {
            let key = format!("{prefix}.{name}");
            if let Some(value) = self.int(&key)?.filter(|value| u64::try_from(*value) != Ok(dim)) {
                bail!("{key} = {value} is not supported: heads have {dim} values");
            }
        }
        for name in ["expert_count", "expert_used_count"] {
            let key = format!("{prefix}.{name}");
            if let Some(value) = self.int(&key)?.filter(|value| *value != 0) {
                bail!("{key} = {value}: mixtures of experts are not supported");
            }
        }
        Ok(())
    }

    /// Keys of Gemma 3 alone; llama.cpp knows by the number of layers which of its models scales queries by the width
    /// of the model.
    fn add_gemma(&self, config: &mut Json) -> Result<()> {
        const LARGEST: i64 = 62;
        let key = |name: &str| format!("gemma3.{name}");
        let dim = self.int(&key("attention.key_length"))?.unwrap_or(256);
        let wide = config["hidden_size"].as_f64().zip(config["num_attention_heads"].as_f64());
        let scalar = match wide.filter(|_| config["num_hidden_layers"] == LARGEST) {
            Some((hidden, heads)) => hidden / heads,
            None => dim as f64,
        };
        let float_or = |name: &str, other: f64| {
            Ok::<_, anyhow::Error>(self.float(&key(name))?.unwrap_or(other))
        };
        config["head_dim"] = json!(dim);
        config["query_pre_attn_scalar"] = json!(scalar);
        config["hidden_activation"] = json!("gelu_pytorch_tanh");
        config["rope_theta"] = json!(float_or("rope.freq_base", 1e6)?);
        config["rope_local_base_freq"] = json!(float_or("rope.freq_base_swa", 1e4)?);
        config["sliding_window_pattern"] = json!(GEMMA_PATTERN);
        if let Some(window) = self.int(&key("attention.sliding_window"))? {
            config["sliding_window"] = json!(window);
        }
        config.as_object_mut().map(|config| config.remove("hidden_act"));
        Ok(())
    }

    /// Llama 3's RoPE scaling, recovered from the divisors of the frequencies: the largest is its factor.
    fn stretching(&self, config: &Json) -> Result<Json> {
        let divisors: Vec<f32> = self.tensor("rope_freqs.weight")?.flatten_all()?.to_vec1()?;
        let largest = divisors.iter().copied().fold(1.0, f32::max);
        let factor = f64::from((largest * 1000.0).round()) / 1000.0;
        for original in ORIGINALS.map(|exponent| 1_u64 << exponent) {
            let scaling = json!({"rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": original});
            let mut config = config.clone();
            config["rope_scaling"] = scaling.clone();
            let ours = super::write::divisors(&Architecture::from_config(&config)?);
            let is_close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-3 * b.abs();
            if ours.len() == divisors.len() && ours.iter().zip(&divisors).all(is_close) {
                return Ok(scaling);
            }
        }
        bail!(
            "`rope_freqs.weight` is not Llama 3's RoPE scaling with low_freq_factor 1, high_freq_factor 4 and a power \
             of two as original_max_position_embeddings"
        )
    }

    /// The weights under the Hub's names; what is Q8_0 in the file and is to be of 8 bits keeps its bytes.
    ///
    /// # Errors
    /// A tensor that is missing, unexpected or of another shape than the architecture says.
    pub fn weights(
        &self,
        architecture: &Architecture,
        placement: Placement<'_>,
    ) -> Result<Weights> {
        let (file, _) = self.architecture()?;
        let mut weights = Weights::new();
        for (name, stored, shape) in self.checked_tensors(architecture)? {
            let tensor = match self.blocks(&stored)?.filter(|_| placement.is_int8(&shape)) {
                Some(blocks) => blocks,
                None => placement.place(&self.tensor(&stored)?)?,
            };
            let tensor = self.ordered(&name, tensor, architecture, file)?;
            weights.insert(name, tensor);
        }
        Ok(weights)
    }

    /// The tensors of an architecture: the Hub's name, the file's, the shape. All are there, and no others.
    ///
    /// # Errors
    /// A tensor that is missing, unexpected or of another shape than the architecture says.
    pub fn checked_tensors(
        &self,
        architecture: &Architecture,
    ) -> Result<Vec<(String, String, Vec<usize>)>> {
        let (file, _) = self.architecture()?;
        let mut left: HashSet<&str> = self.tensor_names().collect();
        let mut tensors = Vec::new();
        for (name, shape) in architecture.tensors() {
            let stored = names::in_file(&name, file)
                .with_context(|| format!("no GGUF name for `{name}`"))?;
            let dims = self.shape(&stored).with_context(|| {
                format!("{}: tensor `{stored}` is missing", self.path().display())
            })?;
            ensure!(
                dims == shape,
                "{}: tensor `{stored}` has shape {dims:?}, but the header makes it {shape:?}",
                self.path().display(),
            );
            left.remove(stored.as_str());
            tensors.push((name, stored, shape));
        }
        left.retain(|name| *name != "rope_freqs.weight");
        ensure!(
            left.is_empty(),
            "{}: unexpected tensors: {}",
            self.path().display(),
            left.into_iter().take(3).collect::<Vec<_>>().join(", ")
        );
        Ok(tensors)
    }

    fn ordered(
        &self,
        name: &str,
        tensor: Tensor,
        architecture: &Architecture,
        file: &str,
    ) -> Result<Tensor> {
        if file == GEMMA_FILE && names::is_norm(name) {
            // Gemma's norms multiply by 1 + weight on the Hub; files hold the sum.
            return Ok((tensor - 1.0)?);
        }
        let heads = match name {
            name if name.contains("self_attn.q_proj") => architecture.num_heads,
            name if name.contains("self_attn.k_proj") => architecture.num_kv_heads,
            _ => return Ok(tensor),
        };
        match file == "llama" {
            true => Ok(names::permuted(&tensor, heads, Order::ToHub)?),
            false => Ok(tensor),
        }
    }
}
