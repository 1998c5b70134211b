//! Safetensors files, whole or sharded, to tensors and back.
//!
//! Tensors are read one at a time from the file, so the peak is the model as it is stored plus its largest tensor.
//! The entries of a header are checked against the configuration and the file before anything is read. Files are
//! written beside their final place, synced and renamed, so that a crash leaves the old file or the new one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use candle_core::{DType, Device, Tensor};
use half::{bf16, f16};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;
use safetensors::tensor::{Metadata, TensorInfo};
use tealight_matmul::huge_page_zeros;

use super::{Architecture, text_part, unread};
use crate::device::Placement;
use tealight_system::files::{inside, open_regular, read_json};
use tealight_system::keys_once;

/// Largest header of a safetensors file, in bytes, as the format has it.
const MAX_HEADER: u64 = 100_000_000;
/// Largest index of shards, in bytes.
const MAX_INDEX: u64 = 64 << 20;

/// Values that are read from a file at a time, and those of them that a thread widens at a time.
const PART: usize = 1 << 20;
const PIECE: usize = 1 << 16;

/// Weights by name.
pub type Weights = BTreeMap<String, Tensor>;

/// The file that holds all weights of a model that is not sharded.
pub const WHOLE: &str = "model.safetensors";
/// The file that says which shard holds which weight.
pub const INDEX: &str = "model.safetensors.index.json";

/// The weight of an output layer of its own.
pub(super) const HEAD: &str = "lm_head.weight";
/// The embedding, which is the output layer too where they are tied.
pub(super) const EMBEDDING: &str = "model.embed_tokens.weight";

/// Reads the weights of the model in `directory`.
///
/// # Errors
/// No weights, a truncated or malformed file, a tensor that is missing, unexpected or of another
/// shape than `config.json` says; the message names file, tensor and shapes.
pub fn load(
    directory: &Path,
    architecture: &Architecture,
    placement: Placement<'_>,
) -> Result<Weights> {
    let mut expected: HashMap<_, _> = architecture.tensors().into_iter().collect();
    let (mut shards, mut skipped) = (Vec::new(), 0);
    // A head under that name alone, where it is the embedding too.
    let mut head = None;
    for path in files(directory)? {
        let shard = Shard::open(&path)?;
        let mut wanted = Vec::new();
        for (stored, info) in shard.infos() {
            let name = text_part::name(&stored).unwrap_or_else(|| stored.clone());
            // A decoder that was saved without its output layer.
            let prefixed = format!("model.{name}");
            let name = if expected.contains_key(&prefixed) { prefixed } else { name };
            let Some(shape) = expected.remove(&name) else {
                // A tied head is sometimes stored all the same; old files hold rotary tables.
                let is_known = name.ends_with("rotary_emb.inv_freq")
                    || (name == HEAD && architecture.tied_embeddings);
                if is_known {
                    if name == HEAD {
                        head = Some((shards.len(), stored, info));
                    }
                    continue;
                }
                if text_part::is_other_part(&stored) {
                    skipped += 1;
                    continue;
                }
                let is_known = architecture.tensors().iter().any(|(known, _)| *known == name);
                let why = unread::why_unexpected(&stored, is_known);
                bail!("{}: unexpected tensor `{name}` {:?}{why}", path.display(), info.shape);
            };
            if info.shape != shape {
                bail!(
                    "{}: tensor `{name}` has shape {:?}, but config.json makes it {shape:?}",
                    path.display(),
                    info.shape,
                );
            }
            shard.check(&name, &info)?;
            wanted.push((stored, name, info));
        }
        shards.push((shard, wanted));
    }
    if skipped > 0 {
        tracing::warn!(
            "{}: the text part alone is used; {skipped} weights of other parts (images, heads for several tokens, a \
             value head) are left out, and what is saved is a model of text",
            directory.display()
        );
    }
    if let Some((place, stored, info)) = head
        && let Some((shard, wanted)) = shards.get_mut(place)
        && expected.get(EMBEDDING).is_some_and(|shape| info.shape == *shape)
    {
        shard.check(EMBEDDING, &info)?;
        expected.remove(EMBEDDING);
        wanted.push((stored, EMBEDDING.to_owned(), info));
    }
    if let Some(name) = expected.keys().min() {
        bail!("{}: tensor `{name}` is missing", directory.display());
    }
    let mut weights = Weights::new();
    for (mut shard, wanted) in shards {
        for (stored, name, info) in wanted {
            let tensor = shard.tensor(&stored, &info)?;
            weights.insert(name, placement.place(&tensor)?);
        }
    }
    Ok(weights)
}

/// Every tensor of the model in `directory`, whatever its architecture.
///
/// # Errors
/// No weights, a truncated or malformed file, a tensor that is not floating-point.
pub fn load_all(directory: &Path, placement: Placement<'_>) -> Result<Weights> {
    let mut weights = Weights::new();
    for path in files(directory)? {
        let mut shard = Shard::open(&path)?;
        for (name, info) in shard.infos() {
            let tensor = placement.place(&shard.tensor(&name, &info)?)?;
            if weights.insert(name.clone(), tensor).is_some() {
                bail!("{}: tensor `{name}` is in another file too", path.display());
            }
        }
    }
    Ok(weights)
}

/// Every tensor of one safetensors file, in the order of the file.
///
/// # Errors
/// A truncated or malformed file, a tensor that is not floating-point.
pub fn read_all(path: &Path, device: &Device) -> Result<Vec<(String, Tensor)>> {
    let mut all = Vec::new();
    read_each(path, &mut |name, tensor| {
        all.push((name, tensor.to_device(device)?));
        Ok(())
    })?;
    Ok(all)
}

/// The same one after the other, on the CPU, for `each`.
pub fn read_each(path: &Path, each: &mut dyn FnMut(String, Tensor) -> Result<()>) -> Result<()> {
    let mut shard = Shard::open(path)?;
    for (name, info) in shard.infos() {
        let tensor = shard.tensor(&name, &info)?;
        each(name, tensor)?;
    }
    Ok(())
}

/// Fresh weights: normal with the configured deviation, norms what leaves their input as it is, biases 0,
/// decays of the delta rule of all speeds.
pub fn random(architecture: &Architecture, seed: u64, device: &Device) -> Result<Weights> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut weights = Weights::new();
    for (name, shape) in architecture.tensors() {
        let count: usize = shape.iter().product();
        let values = if name.ends_with("dt_bias") || name.ends_with("linear_attn.norm.weight") {
            vec![1.0; count]
        } else if name.ends_with("A_log") {
            // Decays of all speeds, as their authors draw them.
            (0..count).map(|_| (0.01 + 15.99 * uniform(&mut rng)).ln() as f32).collect()
        } else if name.ends_with("bias") {
            vec![0.0; count]
        } else if name.contains("norm") {
            vec![1.0 - architecture.norm_offset as f32; count]
        } else {
            (0..count).map(|_| normal(&mut rng) * architecture.initializer_range as f32).collect()
        };
        weights.insert(name, Tensor::from_vec(values, shape, device)?);
    }
    Ok(weights)
}

/// A number in (0, 1).
fn uniform(rng: &mut ChaCha8Rng) -> f64 {
    (f64::from(rng.next_u32()) + 0.5) / 4_294_967_296.0
}

/// A standard normal number, by Box and Muller.
fn normal(rng: &mut ChaCha8Rng) -> f32 {
    let mut uniform = || uniform(rng);
    let (radius, angle) = ((-2.0 * uniform().ln()).sqrt(), std::f64::consts::TAU * uniform());
    (radius * angle.cos()) as f32
}

/// Writes `tensors` to `path` with the metadata that transformers asks for.
///
/// # Errors
/// A full disk, a directory that cannot be written; `path` is then as it was.
pub fn save(tensors: &BTreeMap<String, Tensor>, path: &Path) -> Result<()> {
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    // Tensor by tensor, so that the file never stands in memory as a whole.
    tealight_system::files::write_atomic_by(path, |temporary| {
        Ok(safetensors::serialize_to_file(
            tensors.iter().map(|(name, x)| (name, x.clone())),
            Some(metadata),
            temporary,
        )?)
    })
}

/// The files that hold the weights of the model in `directory`.
pub(super) fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    Ok(file_names(directory)?.iter().map(|name| directory.join(name)).collect())
}

/// Their names in `directory`.
///
/// # Errors
/// No weights, an index that cannot be read or names something else.
pub fn file_names(directory: &Path) -> Result<Vec<String>> {
    let index = directory.join(INDEX);
    if directory.join(WHOLE).exists() {
        return Ok(vec![WHOLE.into()]);
    }
    if !index.exists() {
        unread::refuse_pickles(directory)?;
        bail!("{}: no {WHOLE} and no {INDEX}: no weights to load", directory.display());
    }
    let names = shard_names(&index)?;
    match names.iter().find(|name| !directory.join(name).exists()) {
        None => Ok(names),
        Some(name) => bail!(
            "{}: {name} is missing, which {INDEX} names: the download is not complete; download the model again",
            directory.display()
        ),
    }
}

/// The shards that an index file names, each once: plain names in its own folder.
///
/// # Errors
/// The file cannot be read, is not an index, or names something else.
pub fn shard_names(index: &Path) -> Result<Vec<String>> {
    let value = read_json(index, MAX_INDEX)?;
    let map = value.get("weight_map").and_then(|map| map.as_object());
    let map = map.with_context(|| format!("{}: no `weight_map`", index.display()))?;
    let mut shards = BTreeSet::new();
    for (tensor, shard) in map {
        let name = shard.as_str().with_context(|| {
            format!("{}: tensor `{tensor}` is in no named file", index.display())
        })?;
        inside(Path::new(""), name).with_context(|| index.display().to_string())?;
        if !name.ends_with(".safetensors") {
            bail!("{}: `{name}` is no safetensors file", index.display());
        }
        shards.insert(name.to_owned());
    }
    Ok(shards.into_iter().collect())
}

/// One open safetensors file.
pub(super) struct Shard {
    path: PathBuf,
    file: File,
    metadata: Metadata,
    data_start: u64,
    length: u64,
    /// The last tensor that was read.
    buffer: Vec<u8>,
}

impl Shard {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let mut file = open_regular(path)?;
        let length = file.metadata()?.len();
        let broken =
            || format!("{}: not a safetensors file, or truncated in its header", path.display());
        let mut prefix = [0u8; 8];
        file.read_exact(&mut prefix).with_context(broken)?;
        let header = u64::from_le_bytes(prefix);
        if header > length.saturating_sub(8) {
            bail!(broken());
        }
        if header > MAX_HEADER {
            bail!("{}: a header of {header} bytes; the format allows {MAX_HEADER}", path.display());
        }
        let mut bytes = vec![0; header as usize];
        file.read_exact(&mut bytes).with_context(broken)?;
        keys_once::check(&bytes).with_context(broken)?;
        let metadata: Metadata = serde_json::from_slice(&bytes).with_context(broken)?;
        Ok(Self {
            path: path.into(),
            file,
            metadata,
            data_start: 8 + header,
            length,
            buffer: Vec::new(),
        })
    }

    /// Its tensors, in the order of the file: read in one sweep, and the same complaint every time.
    pub(super) fn infos(&self) -> Vec<(String, TensorInfo)> {
        let tensors = self.metadata.tensors();
        let mut infos: Vec<_> =
            tensors.into_iter().map(|(name, info)| (name, info.clone())).collect();
        infos.sort_by_key(|(_, info)| info.data_offsets.0);
        infos
    }

    /// Whether the file holds what its header says of a tensor.
    pub(super) fn check(&self, name: &str, info: &TensorInfo) -> Result<DType> {
        let (start, end) = info.data_offsets;
        if (end as u64).saturating_add(self.data_start) > self.length {
            bail!(
                "{}: truncated: tensor `{name}` {:?} ends at byte {}, the file at byte {}; download it again",
                self.path.display(),
                info.shape,
                (end as u64).saturating_add(self.data_start),
                self.length,
            );
        }
        let dtype = match info.dtype {
            safetensors::Dtype::F32 => DType::F32,
            safetensors::Dtype::BF16 => DType::BF16,
            safetensors::Dtype::F16 => DType::F16,
            safetensors::Dtype::F64 => DType::F64,
            other => bail!(
                "{}: tensor `{name}` is {other:?}; only floating-point weights of 16, 32 or 64 bits are supported",
                self.path.display()
            ),
        };
        let count =
            info.shape.iter().try_fold(dtype.size_in_bytes(), |bytes, dim| bytes.checked_mul(*dim));
        if end.checked_sub(start) != count {
            bail!(
                "{}: tensor `{name}` {:?} has the wrong number of bytes",
                self.path.display(),
                info.shape
            );
        }
        Ok(dtype)
    }

    /// A tensor's bytes as they are stored.
    pub(super) fn bytes(&mut self, info: &TensorInfo) -> Result<Vec<u8>> {
        let (start, end) = info.data_offsets;
        self.file.seek(SeekFrom::Start(self.data_start + start as u64))?;
        let mut bytes = vec![0; end - start];
        self.file.read_exact(&mut bytes).with_context(|| self.path.display().to_string())?;
        Ok(bytes)
    }

    /// A tensor on the CPU, of 16 bits or 32 in f32: every value of theirs is one.
    fn tensor(&mut self, name: &str, info: &TensorInfo) -> Result<Tensor> {
        let dtype = self.check(name, info)?;
        if dtype == DType::F64 {
            let bytes = self.bytes(info)?;
            return Ok(Tensor::from_raw_buffer(&bytes, dtype, &info.shape, &Device::Cpu)?);
        }
        let (start, end) = info.data_offsets;
        self.file.seek(SeekFrom::Start(self.data_start + start as u64))?;
        let size = dtype.size_in_bytes();
        let mut values = huge_page_zeros((end - start) / size);
        self.buffer.resize(values.len().min(PART) * size, 0);
        for values in values.chunks_mut(PART) {
            let bytes = &mut self.buffer[..values.len() * size];
            self.file.read_exact(bytes).with_context(|| self.path.display().to_string())?;
            let parts = values.par_chunks_mut(PIECE).zip(bytes.par_chunks(PIECE * size));
            parts.for_each(|(values, bytes)| widen(dtype, bytes, values));
        }
        Ok(Tensor::from_vec(values, info.shape.as_slice(), &Device::Cpu)?)
    }
}

/// Values as a file has them to f32.
fn widen(dtype: DType, bytes: &[u8], values: &mut [f32]) {
    match dtype {
        DType::BF16 => each(bytes, values, |x| bf16::from_le_bytes(x).to_f32()),
        DType::F16 => each(bytes, values, |x| f16::from_le_bytes(x).to_f32()),
        _ => each(bytes, values, f32::from_le_bytes),
    }
}

fn each<const N: usize>(bytes: &[u8], values: &mut [f32], read: impl Fn([u8; N]) -> f32) {
    for (value, bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
        *value = read(*bytes);
    }
}
