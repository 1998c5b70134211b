//! A model in Hub layout as a GGUF file, as llama.cpp and Ollama read it.

use std::fs::File;
use std::io::{BufWriter, Seek, Write};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Tensor};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::names::{self, Order};
use super::{ALIGNMENT, FAMILIES, GEMMA_FILE, GEMMA_PATTERN, Gguf, MAGIC, Value, tokenizer};
use tealight_nn::model::weights::Weights;
use tealight_nn::model::{Activation, Architecture, LayerKind, Rope, RopeScaling};

/// The type of matrices in a file; norms and biases are f32 in all. K-quants need rows of a multiple of 256 values,
/// which many small models have not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum GgufType {
    /// 32 bits, as trained.
    F32,
    /// 16 bits.
    F16,
    /// 16 bits with the range of f32.
    Bf16,
    /// 8 bits, with a 16-bit scale for every 32 values.
    Q8_0,
}

/// What others call a type.
struct Row {
    /// Candle's type.
    dtype: GgmlDType,
    /// Its number in files.
    number: u32,
    /// llama.cpp's `general.file_type` for a file of mostly this type.
    file_type: i64,
}

impl GgufType {
    fn row(self) -> Row {
        match self {
            GgufType::F32 => Row { dtype: GgmlDType::F32, number: 0, file_type: 0 },
            GgufType::F16 => Row { dtype: GgmlDType::F16, number: 1, file_type: 1 },
            GgufType::Bf16 => Row { dtype: GgmlDType::BF16, number: 30, file_type: 32 },
            GgufType::Q8_0 => Row { dtype: GgmlDType::Q8_0, number: 8, file_type: 7 },
        }
    }

    /// The smallest weight that rounds to infinity: itself in f16, by the scale of its block in q8_0; infinity
    /// for types with the range of f32.
    pub fn overflow(self) -> f64 {
        match self {
            GgufType::F32 | GgufType::Bf16 => f64::INFINITY,
            GgufType::F16 => 65_520.0,
            GgufType::Q8_0 => 65_520.0 * 127.0,
        }
    }

    /// The file's name for a model.
    pub fn file_name(self) -> String {
        let word = self.to_possible_value();
        format!("model-{}.gguf", word.expect("no type is skipped").get_name())
    }
}

/// The divisor of each RoPE frequency, where RoPE is scaled.
pub(super) fn divisors(architecture: &Architecture) -> Vec<f32> {
    let (rope, dim) = (&architecture.ropes[0], architecture.rotary_dim);
    let plain = Rope { scaling: None, ..rope.clone() };
    let frequencies = tealight_nn::model::inverse_frequencies;
    frequencies(&plain, dim)
        .iter()
        .zip(frequencies(rope, dim))
        .map(|(plain, scaled)| plain / scaled)
        .collect()
}

/// One tensor of a file.
struct Entry {
    name: String,
    tensor: Tensor,
    kind: GgufType,
}

/// Writes a model to `path`; `config` and `tokenizer` are its `config.json` and `tokenizer.json`, `settings` its
/// `tokenizer_config.json` with the chat template in it.
///
/// # Errors
/// A family or a tokenizer that files have no name for, a model that GGUF cannot describe, a disk that is full.
pub fn write(
    path: &Path,
    (architecture, weights): (&Architecture, &Weights),
    (config, tokenizer, settings): (&Json, &Json, &Json),
    kind: GgufType,
) -> Result<()> {
    let family = config["model_type"].as_str().unwrap_or_default();
    let Some((file_family, _)) = FAMILIES.iter().find(|(_, hub)| *hub == family) else {
        bail!("GGUF export supports {}, not `{family}`", FAMILIES.map(|(_, hub)| hub).join(", "));
    };
    refuse(file_family, architecture)?;
    let mut values = header(file_family, architecture, kind);
    let parts = (config, tokenizer, settings);
    values.extend(tokenizer::values(architecture.vocab_size, parts)?);
    let entries = entries(file_family, architecture, weights, kind)?;
    tealight_system::files::write_atomic_by(path, |temporary| {
        let mut out = BufWriter::with_capacity(1 << 20, File::create(temporary)?);
        put(&mut out, &values, &entries)?;
        out.flush()?;
        refuse_other(&Gguf::open(temporary)?, architecture)
    })
}

/// Refuses a file that reads back as another architecture; the error names the first field that differs.
fn refuse_other(file: &Gguf, written: &Architecture) -> Result<()> {
    let config = file
        .config()
        .context("the written GGUF file does not describe a model that Tealight reads")?;
    let mut read = Architecture::from_config(&config)?;
    // No numbers of the model itself.
    (read.output_size, read.initializer_range) = (written.output_size, written.initializer_range);
    // Numbers that files hold in 32 bits, and divisors that several scalings have.
    read.rms_norm_eps = written.rms_norm_eps;
    read.ropes[0].theta = written.ropes[0].theta;
    if let (Some(read), Some(written)) = (&mut read.ropes[0].scaling, &written.ropes[0].scaling) {
        read.clone_from(written);
    }
    if read == *written {
        return Ok(());
    }
    let [read, written] = [&read, written].map(|one| format!("{one:?}"));
    let same = read.bytes().zip(written.bytes()).take_while(|(a, b)| a == b).count();
    let name = read[..same].rsplit_once(": ").and_then(|(before, _)| before.rsplit(' ').next());
    bail!(
        "a GGUF file of this family cannot record the model's `{}`, and would be read as another model: export \
         safetensors (without --gguf)",
        name.unwrap_or_default()
    )
}

/// Refuses what files of these families cannot describe, or llama.cpp would not read there.
fn refuse(file_family: &str, architecture: &Architecture) -> Result<()> {
    match &architecture.ropes[0].scaling {
        None => {}
        Some(RopeScaling::Llama3 { .. }) if file_family == "llama" => {}
        Some(RopeScaling::Linear { .. }) if file_family == GEMMA_FILE => {}
        Some(_) => bail!(
            "GGUF export supports `rope_scaling` of type `llama3` in `llama` models and `linear` in Gemma 3 only"
        ),
    }
    let usual = if file_family == GEMMA_FILE { Activation::GeluTanh } else { Activation::Silu };
    if architecture.activation != usual {
        bail!("GGUF export does not support this `hidden_act` in `{file_family}` models");
    }
    // Queries, keys and values have biases in all `qwen2` models; in `llama` models their tensors say so.
    let may_have_bias =
        file_family == "llama" || file_family == "qwen2" && !architecture.output_bias;
    if architecture.qkv_bias && !may_have_bias {
        bail!("GGUF export does not support `attention_bias` in `{file_family}` models");
    }
    if file_family == GEMMA_FILE {
        return refuse_gemma(architecture);
    }
    let plain = LayerKind::Attention { window: None, rope: Some(0) };
    if architecture.layers.iter().any(|layer| *layer != plain) {
        bail!(
            "GGUF export does not support layers with a sliding window, without positions or with the delta rule"
        );
    }
    Ok(())
}

/// Refuses what llama.cpp takes for granted of Gemma 3.
fn refuse_gemma(a: &Architecture) -> Result<()> {
    let is_usual = |(layer, kind): (usize, &LayerKind)| {
        (kind.window().is_none()) == (layer + 1).is_multiple_of(GEMMA_PATTERN)
    };
    let scale = (a.head_dim as f64).powf(-0.5);
    if a.num_layers == 62 || (a.attention_scale - scale).abs() > 1e-9 {
        bail!(
            "GGUF export supports Gemma 3 only with queries scaled by the head dimension (270M to 12B)"
        );
    }
    if !a.layers.iter().enumerate().all(is_usual) {
        bail!("GGUF export supports Gemma 3 only with full attention in every sixth layer");
    }
    if a.ropes.get(1).is_none_or(|local| local.theta != 1e4 || local.scaling.is_some()) {
        bail!("GGUF export supports Gemma 3 only with rope_local_base_freq = 10000");
    }
    Ok(())
}

fn header(file_family: &str, a: &Architecture, kind: GgufType) -> Vec<(String, Value)> {
    let int = |number: usize| Value::Int(number as i64);
    let mut values = vec![
        ("general.architecture".to_owned(), Value::Text(file_family.to_owned())),
        ("general.file_type".to_owned(), Value::Int(kind.row().file_type)),
        ("general.quantization_version".to_owned(), Value::Int(2)),
    ];
    let mut add = |name: &str, value| values.push((format!("{file_family}.{name}"), value));
    add("context_length", int(a.max_positions));
    add("embedding_length", int(a.hidden_size));
    add("block_count", int(a.num_layers));
    add("feed_forward_length", int(a.intermediate_size));
    add("attention.head_count", int(a.num_heads));
    add("attention.head_count_kv", int(a.num_kv_heads));
    add("attention.layer_norm_rms_epsilon", Value::Float(a.rms_norm_eps));
    add("attention.key_length", int(a.head_dim));
    add("attention.value_length", int(a.head_dim));
    add("rope.dimension_count", int(a.head_dim));
    add("rope.freq_base", Value::Float(a.ropes[0].theta));
    if file_family == GEMMA_FILE {
        if let Some(window) = a.layers.iter().find_map(|kind| kind.window()) {
            add("attention.sliding_window", int(window));
        }
        if let Some(RopeScaling::Linear { factor }) = a.ropes[0].scaling {
            add("rope.scaling.type", Value::Text("linear".into()));
            add("rope.scaling.factor", Value::Float(factor));
        }
    }
    add("vocab_size", int(a.vocab_size));
    values
}

fn entries(
    file_family: &str,
    architecture: &Architecture,
    weights: &Weights,
    kind: GgufType,
) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for (name, _) in architecture.tensors() {
        let tensor = weights.get(&name).with_context(|| format!("no weight `{name}`"))?;
        let tensor = tensor.to_device(&candle_core::Device::Cpu)?.to_dtype(DType::F32)?;
        let heads = match name.as_str() {
            name if name.contains("self_attn.q_proj") => Some(architecture.num_heads),
            name if name.contains("self_attn.k_proj") => Some(architecture.num_kv_heads),
            _ => None,
        };
        let tensor = match heads.filter(|_| file_family == "llama") {
            Some(heads) => names::permuted(&tensor, heads, Order::ToFile)?,
            None => tensor,
        };
        let tensor = match file_family == GEMMA_FILE && names::is_norm(&name) {
            true => (tensor + 1.0)?,
            false => tensor,
        };
        let kind = if tensor.rank() == 2 { kind } else { GgufType::F32 };
        let block = kind.row().dtype.block_size();
        let row = tensor.dims().last().copied().unwrap_or(1);
        ensure!(
            row.is_multiple_of(block),
            "tensor `{name}`: rows of {row} values do not divide into blocks of {block}; choose f16 or bf16"
        );
        let name = names::in_file(&name, file_family)
            .with_context(|| format!("no GGUF name for `{name}`"))?;
        entries.push(Entry { name, tensor, kind });
    }
    if file_family == "llama" && architecture.ropes[0].scaling.is_some() {
        let divisors = divisors(architecture);
        let count = divisors.len();
        let tensor = Tensor::from_vec(divisors, count, &candle_core::Device::Cpu)?;
        entries.push(Entry { name: "rope_freqs.weight".into(), tensor, kind: GgufType::F32 });
    }
    Ok(entries)
}

fn put<W: Write + Seek>(out: &mut W, values: &[(String, Value)], entries: &[Entry]) -> Result<()> {
    out.write_all(&MAGIC)?;
    out.write_all(&3u32.to_le_bytes())?;
    out.write_all(&(entries.len() as u64).to_le_bytes())?;
    out.write_all(&(values.len() as u64).to_le_bytes())?;
    for (name, value) in values {
        put_text(out, name)?;
        put_value(out, value)?;
    }
    let mut offset = 0u64;
    for Entry { name, tensor, kind } in entries {
        let Row { dtype, number, .. } = kind.row();
        put_text(out, name)?;
        out.write_all(&(tensor.rank() as u32).to_le_bytes())?;
        for size in tensor.dims().iter().rev() {
            out.write_all(&(*size as u64).to_le_bytes())?;
        }
        out.write_all(&number.to_le_bytes())?;
        out.write_all(&offset.to_le_bytes())?;
        let bytes = tensor.elem_count() / dtype.block_size() * dtype.type_size();
        // Offsets count from where data begins, which is aligned too: as `pad` below will place it.
        offset = (offset + bytes as u64).next_multiple_of(ALIGNMENT);
    }
    let pad = |out: &mut W| -> Result<()> {
        let at = out.stream_position()?;
        let count = at.next_multiple_of(ALIGNMENT) - at;
        Ok(out.write_all(&vec![0; count as usize])?)
    };
    pad(out)?;
    for Entry { tensor, kind, .. } in entries {
        out.write_all(&QTensor::quantize(tensor, kind.row().dtype)?.data()?)?;
        pad(out)?;
    }
    Ok(())
}

fn put_text(out: &mut impl Write, text: &str) -> Result<()> {
    out.write_all(&(text.len() as u64).to_le_bytes())?;
    Ok(out.write_all(text.as_bytes())?)
}

/// Whole numbers as u32, numbers as f32, kinds of tokens as i32: what llama.cpp asks for.
fn put_value(out: &mut impl Write, value: &Value) -> Result<()> {
    let mut kind = |number: u32| out.write_all(&number.to_le_bytes());
    match value {
        Value::Int(number) => {
            kind(4)?;
            out.write_all(&u32::try_from(*number)?.to_le_bytes())?;
        }
        Value::Float(number) => {
            kind(6)?;
            out.write_all(&(*number as f32).to_le_bytes())?;
        }
        Value::Bool(is_so) => {
            kind(7)?;
            out.write_all(&[u8::from(*is_so)])?;
        }
        Value::Text(text) => {
            kind(8)?;
            put_text(out, text)?;
        }
        Value::Texts(texts) => {
            kind(9)?;
            kind(8)?;
            out.write_all(&(texts.len() as u64).to_le_bytes())?;
            texts.iter().try_for_each(|text| put_text(out, text))?;
        }
        Value::Ints(numbers) => {
            kind(9)?;
            kind(5)?;
            out.write_all(&(numbers.len() as u64).to_le_bytes())?;
            for number in numbers {
                out.write_all(&i32::try_from(*number)?.to_le_bytes())?;
            }
        }
        Value::Floats(numbers) => {
            kind(9)?;
            kind(6)?;
            out.write_all(&(numbers.len() as u64).to_le_bytes())?;
            for number in numbers {
                out.write_all(&(*number as f32).to_le_bytes())?;
            }
        }
    }
    Ok(())
}
