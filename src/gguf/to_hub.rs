//! A GGUF file as what a model in Hub layout is made of.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use candle_core::Tensor;
use serde_json::{Map, Value as Json, json};

use super::names::{self, Order};
use super::{FAMILIES, Gguf, TOKEN_CONTROL, TOKEN_USER_DEFINED, Value, pre};
use crate::device::Placement;
use crate::model::Architecture;
use crate::model::weights::Weights;

/// The parts of a model in Hub layout.
pub struct HubModel {
    /// `config.json`.
    pub config: Json,
    /// Other files by name: tokenizer and generation settings.
    pub files: BTreeMap<&'static str, Vec<u8>>,
}

impl HubModel {
    /// A folder with the files of the tokenizer.
    ///
    /// # Errors
    /// A full disk.
    pub fn unpacked(&self) -> Result<tempfile::TempDir> {
        let folder = tempfile::tempdir().context("no room for the tokenizer of a GGUF file")?;
        for (file, bytes) in &self.files {
            crate::files::write_atomic(&folder.path().join(file), bytes)?;
        }
        Ok(folder)
    }
}

/// The stretchings of Llama 3.x: factor and original context. Files have the divisors of single frequencies instead.
const STRETCHED: [(f64, f64); 2] = [(8.0, 8192.0), (32.0, 8192.0)];

impl Gguf {
    fn architecture(&self) -> Result<(&str, &'static str)> {
        let own = self.text("general.architecture").context("no `general.architecture`")?;
        match FAMILIES.iter().find(|(file, _)| *file == own) {
            Some((_, hub)) => Ok((own, hub)),
            None => {
                let known = FAMILIES.map(|(file, _)| file).join(", ");
                bail!("architecture `{own}` is not supported; {known} are")
            }
        }
    }

    /// Everything but the weights.
    ///
    /// # Errors
    /// An architecture, a tokenizer or a setting that is not supported; the message names it.
    pub fn to_hub(&self) -> Result<HubModel> {
        let found = self.hub_files();
        found.with_context(|| self.path().display().to_string())
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
        let files = BTreeMap::from([
            ("tokenizer.json", serde_json::to_vec(&tokenizer)?),
            ("tokenizer_config.json", serde_json::to_vec(&settings)?),
            ("generation_config.json", serde_json::to_vec(&generation)?),
        ]);
        Ok(HubModel { config, files })
    }

    fn config(&self) -> Result<Json> {
        let (own, family) = self.architecture()?;
        let class = match family {
            "qwen2" => "Qwen2ForCausalLM",
            "qwen3" => "Qwen3ForCausalLM",
            _ => "LlamaForCausalLM",
        };
        let key = |name: &str| format!("{own}.{name}");
        let size = |name: &str| {
            let value = self.int(&key(name)).filter(|size| *size > 0);
            value.with_context(|| format!("no size at key `{}`", key(name)))
        };
        if let Some(kind) = self.text(&key("rope.scaling.type")).filter(|kind| *kind != "none") {
            bail!("rope scaling `{kind}` is not supported");
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
            "num_key_value_heads": self.int(&key("attention.head_count_kv")).unwrap_or(heads),
            "max_position_embeddings": size("context_length")?,
            "rms_norm_eps": self.float(&key("attention.layer_norm_rms_epsilon")).unwrap_or(1e-5),
            "rope_theta": self.float(&key("rope.freq_base")).unwrap_or(10_000.0),
            "tie_word_embeddings": self.shape("output.weight").is_none(),
            "hidden_act": "silu",
            "torch_dtype": "float32",
        });
        if let Some(dim) = self.int(&key("attention.key_length")) {
            config["head_dim"] = json!(dim);
        }
        for (name, id) in [("bos", "bos"), ("eos", "eos"), ("padding", "pad")] {
            if let Some(token) = self.int(&format!("tokenizer.ggml.{name}_token_id")) {
                config[format!("{id}_token_id")] = json!(token);
            }
        }
        if self.shape("rope_freqs.weight").is_some() {
            config["rope_scaling"] = self.stretching(&config)?;
        }
        Ok(config)
    }

    /// Llama 3's stretching, found again by what it does to the frequencies.
    fn stretching(&self, config: &Json) -> Result<Json> {
        let divisors: Vec<f32> = self.tensor("rope_freqs.weight")?.flatten_all()?.to_vec1()?;
        for (factor, original) in STRETCHED {
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
        bail!("its frequencies of positions are stretched in a way that is not supported")
    }

    /// `tokenizer.json` and `tokenizer_config.json`.
    fn tokenizer(&self) -> Result<(Json, Json)> {
        let kind = self.text("tokenizer.ggml.model").context("the file has no tokenizer")?;
        ensure!(
            kind == "gpt2",
            "a tokenizer of the kind `{kind}` is not supported (`gpt2`, byte-level BPE, is)"
        );
        let name = self.text("tokenizer.ggml.pre").unwrap_or("gpt-2");
        let Some(pre) = pre::named(name) else {
            bail!("the pre-tokenizer `{name}` is not supported; {} are", pre::names());
        };
        let tokens = self.texts("tokenizer.ggml.tokens").context("the tokenizer has no tokens")?;
        let merges = self.texts("tokenizer.ggml.merges").context("the tokenizer has no merges")?;
        let kinds = match self.get("tokenizer.ggml.token_type") {
            Some(Value::Ints(kinds)) if kinds.len() == tokens.len() => kinds.as_slice(),
            None => &[],
            Some(_) => bail!("there are not as many kinds of tokens as tokens"),
        };
        let mut vocabulary = Map::new();
        for (id, token) in tokens.iter().enumerate() {
            vocabulary.entry(token.clone()).or_insert(json!(id));
        }
        let kinds = kinds.iter().zip(tokens).enumerate();
        let added: Vec<Json> = kinds
            .filter(|(_, (kind, _))| [TOKEN_CONTROL, TOKEN_USER_DEFINED].contains(kind))
            .map(|(id, (kind, token))| {
                json!({"id": id, "content": token, "single_word": false, "lstrip": false,
                    "rstrip": false, "normalized": false, "special": *kind == TOKEN_CONTROL})
            })
            .collect();
        let merges: Option<Vec<_>> = merges.iter().map(|merge| merge.split_once(' ')).collect();
        let merges = merges.context("a merge that is not two parts")?;
        let token = |name: &str| -> Result<Option<&String>> {
            let key = format!("tokenizer.ggml.{name}_token_id");
            let Some(id) = self.int(&key) else { return Ok(None) };
            let token = usize::try_from(id).ok().and_then(|id| tokens.get(id));
            token.map(Some).with_context(|| format!("`{key}` is {id}, which is no token"))
        };
        let (bos, eos, pad) = (token("bos")?, token("eos")?, token("padding")?);
        let begins = self.get("tokenizer.ggml.add_bos_token") == Some(&Value::Bool(true));
        let after = match (begins, bos) {
            (true, Some(bos)) => {
                let id = self.int("tokenizer.ggml.bos_token_id");
                json!({"type": "TemplateProcessing",
                    "single": [{"SpecialToken": {"id": bos, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                    "special_tokens": {bos: {"id": bos, "ids": [id], "tokens": [bos]}}})
            }
            _ => Json::Null,
        };
        let tokenizer = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
            "normalizer": pre.normalizer(), "pre_tokenizer": pre.pre_tokenizer(), "post_processor": after,
            "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
            "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                "ignore_merges": pre.ignores_merges, "vocab": vocabulary, "merges": merges},
        });
        let mut settings = json!({"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false});
        for (name, token) in [("bos_token", bos), ("eos_token", eos), ("pad_token", pad)] {
            if let Some(token) = token {
                settings[name] = json!(token);
            }
        }
        if let Some(template) = self.text("tokenizer.chat_template") {
            settings["chat_template"] = json!(template);
        }
        Ok((tokenizer, settings))
    }

    /// The weights under the Hub's names; what is Q8_0 in the file and is to be of 8 bits keeps its bytes.
    ///
    /// # Errors
    /// A tensor that is missing, unexpected or of another shape than the architecture says, no memory.
    pub fn weights(
        &self,
        architecture: &Architecture,
        placement: Placement<'_>,
    ) -> Result<Weights> {
        let is_llama = self.architecture()?.0 == "llama";
        let mut left: Vec<&str> = self.tensor_names().collect();
        let mut weights = Weights::new();
        for (name, shape) in architecture.tensors() {
            let own =
                names::in_file(&name).with_context(|| format!("no GGUF name for `{name}`"))?;
            let found = self.shape(&own);
            let found = found
                .with_context(|| format!("{}: tensor `{own}` is missing", self.path().display()))?;
            ensure!(
                found == shape,
                "{}: tensor `{own}` has shape {found:?}, but the header makes it {shape:?}",
                self.path().display(),
            );
            left.retain(|name| *name != own);
            let tensor = match self.blocks(&own)?.filter(|_| placement.is_int8(&shape)) {
                Some(blocks) => blocks,
                None => placement.place(&self.tensor(&own)?)?,
            };
            let tensor = self.ordered(&name, tensor, architecture, is_llama)?;
            weights.insert(name, tensor);
        }
        left.retain(|name| *name != "rope_freqs.weight");
        ensure!(
            left.is_empty(),
            "{}: unexpected tensors: {}",
            self.path().display(),
            left[..left.len().min(3)].join(", ")
        );
        Ok(weights)
    }

    fn ordered(
        &self,
        name: &str,
        tensor: Tensor,
        architecture: &Architecture,
        is_llama: bool,
    ) -> Result<Tensor> {
        let heads = match name {
            name if name.contains("self_attn.q_proj") => architecture.num_heads,
            name if name.contains("self_attn.k_proj") => architecture.num_kv_heads,
            _ => return Ok(tensor),
        };
        match is_llama {
            true => Ok(names::permuted(&tensor, heads, Order::ToHub)?),
            false => Ok(tensor),
        }
    }
}
