//! The header of a GGUF file, with limits: files are untrusted, and every size in one is checked against the file's
//! size before it is used.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use candle_core::quantized::GgmlDType;
use candle_core::quantized::ggml_file::qtensor_from_ggml;
use candle_core::{Device, Tensor};

use super::{ALIGNMENT, MAGIC};
pub(super) use tealight_nn::backend::int8;
use tealight_system::files::open_regular;

/// Most keys, tensors, and values of an array.
const MAX_ENTRIES: u64 = 1 << 16;
const MAX_ARRAY: u64 = 1 << 22;
/// Longest text, in bytes: chat templates are the longest there are.
const MAX_TEXT: u64 = 1 << 20;
/// Most dimensions of a tensor.
const MAX_DIMS: u32 = 4;

/// A value of the header.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A whole number of any width.
    Int(i64),
    /// A number of 32 or 64 bits.
    Float(f64),
    /// Yes or no.
    Bool(bool),
    /// Text.
    Text(String),
    /// Texts: tokens, merges.
    Texts(Vec<String>),
    /// Whole numbers: kinds of tokens.
    Ints(Vec<i64>),
    /// Numbers.
    Floats(Vec<f64>),
}

impl Value {
    /// That this is not the kind of value that `key` is to have.
    fn is_no(&self, expected: &str, key: &str) -> anyhow::Error {
        let shown = match self {
            Self::Int(number) => format!("the number {number}"),
            Self::Float(number) => format!("the number {number}"),
            Self::Bool(yes) => yes.to_string(),
            Self::Text(_) => "a text".to_owned(),
            Self::Texts(_) | Self::Ints(_) | Self::Floats(_) => "an array".to_owned(),
        };
        anyhow!("key `{key}` is {shown}, not {expected}")
    }
}

/// Where a tensor is.
#[derive(Debug, Clone)]
struct Info {
    /// Rows first, as tensors are elsewhere.
    shape: Vec<usize>,
    dtype: GgmlDType,
    /// From the beginning of the file.
    offset: u64,
}

/// An opened file.
#[derive(Debug)]
pub struct Gguf {
    path: PathBuf,
    values: BTreeMap<String, Value>,
    tensors: BTreeMap<String, Info>,
}

/// A file that is read from its beginning, and how much of it is left.
struct Reader {
    inner: BufReader<File>,
    left: u64,
}

impl Reader {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        ensure!(self.left >= N as u64, "the file ends within its header");
        let mut bytes = [0; N];
        self.inner.read_exact(&mut bytes)?;
        self.left -= N as u64;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    /// A number of entries, each of at least `least` bytes.
    fn count(&mut self, most: u64, least: u64, what: &str) -> Result<usize> {
        let count = self.u64()?;
        ensure!(count <= most, "{count} {what}, above {most}, the most that is supported");
        ensure!(count.saturating_mul(least) <= self.left, "{count} {what} do not fit the file");
        Ok(count as usize)
    }

    fn text(&mut self) -> Result<String> {
        let length = self.count(MAX_TEXT, 1, "bytes of text")?;
        let mut bytes = vec![0; length];
        self.inner.read_exact(&mut bytes)?;
        self.left -= length as u64;
        String::from_utf8(bytes).context("text that is not UTF-8")
    }

    /// A value of a kind; the numbers are the format's.
    fn value(&mut self, kind: u32) -> Result<Value> {
        Ok(match kind {
            8 => Value::Text(self.text()?),
            9 => self.array()?,
            6 => Value::Float(f64::from(f32::from_le_bytes(self.take()?))),
            12 => Value::Float(f64::from_le_bytes(self.take()?)),
            7 => Value::Bool(self.take::<1>()?[0] != 0),
            _ => Value::Int(self.int(kind)?),
        })
    }

    fn int(&mut self, kind: u32) -> Result<i64> {
        Ok(match kind {
            0 => i64::from(self.take::<1>()?[0]),
            1 => i64::from(i8::from_le_bytes(self.take()?)),
            2 => i64::from(u16::from_le_bytes(self.take()?)),
            3 => i64::from(i16::from_le_bytes(self.take()?)),
            4 => i64::from(self.u32()?),
            5 => i64::from(i32::from_le_bytes(self.take()?)),
            10 => i64::try_from(self.u64()?).context("a number above 2^63")?,
            11 => i64::from_le_bytes(self.take()?),
            _ => bail!("a value of the unknown kind {kind}"),
        })
    }

    fn array(&mut self) -> Result<Value> {
        let kind = self.u32()?;
        let least = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            8 | 10..=12 => 8,
            _ => 4,
        };
        let count = self.count(MAX_ARRAY, least, "values of an array")?;
        Ok(match kind {
            8 => Value::Texts(self.many(count, Self::text)?),
            6 => Value::Floats(self.many(count, |x| Ok(f64::from(f32::from_le_bytes(x.take()?))))?),
            12 => Value::Floats(self.many(count, |x| Ok(f64::from_le_bytes(x.take()?)))?),
            7 => Value::Ints(self.many(count, |x| Ok(i64::from(x.take::<1>()?[0] != 0)))?),
            _ => Value::Ints(self.many(count, |x| x.int(kind))?),
        })
    }

    fn many<T>(&mut self, count: usize, one: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        (0..count).map(|_| one(self)).collect()
    }
}

/// Candle's type for one of the format's.
fn dtype(number: u32) -> Option<GgmlDType> {
    Some(match number {
        0 => GgmlDType::F32,
        1 => GgmlDType::F16,
        2 => GgmlDType::Q4_0,
        3 => GgmlDType::Q4_1,
        6 => GgmlDType::Q5_0,
        7 => GgmlDType::Q5_1,
        8 => GgmlDType::Q8_0,
        9 => GgmlDType::Q8_1,
        10 => GgmlDType::Q2K,
        11 => GgmlDType::Q3K,
        12 => GgmlDType::Q4K,
        13 => GgmlDType::Q5K,
        14 => GgmlDType::Q6K,
        15 => GgmlDType::Q8K,
        30 => GgmlDType::BF16,
        _ => return None,
    })
}

impl Gguf {
    /// Reads the header of a file.
    ///
    /// # Errors
    /// A file that cannot be read, is not GGUF 2 or 3, is cut off, or has types that cannot be read; the message
    /// names it.
    pub fn open(path: &Path) -> Result<Self> {
        Self::parse(path)
            .with_context(|| format!("{}: not a GGUF file that can be read", path.display()))
    }

    fn parse(path: &Path) -> Result<Self> {
        let file = open_regular(path)?;
        let size = file.metadata()?.len();
        let mut reader = Reader { inner: BufReader::new(file), left: size };
        ensure!(reader.take()? == MAGIC, "it does not begin with GGUF");
        let version = reader.u32()?;
        ensure!((2..=3).contains(&version), "version {version}; 2 and 3 are known");
        let tensors = reader.count(MAX_ENTRIES, 24, "tensors")?;
        let keys = reader.count(MAX_ENTRIES, 13, "keys")?;
        let mut values = BTreeMap::new();
        for _ in 0..keys {
            let name = reader.text()?;
            let kind = reader.u32()?;
            let value = reader.value(kind).with_context(|| format!("key `{name}`"))?;
            ensure!(values.insert(name.clone(), value).is_none(), "key `{name}` twice");
        }
        let mut infos = BTreeMap::new();
        for _ in 0..tensors {
            let (name, info) = Self::info(&mut reader)?;
            ensure!(infos.insert(name.clone(), info).is_none(), "tensor `{name}` twice");
        }
        let alignment = match values.get("general.alignment") {
            Some(Value::Int(bytes)) if (1..=1 << 20).contains(bytes) => *bytes as u64,
            None => ALIGNMENT,
            Some(_) => bail!("`general.alignment` is not a number from 1 to {}", 1 << 20),
        };
        let start = (size - reader.left).next_multiple_of(alignment);
        let mut places = Vec::new();
        for (name, info) in &mut infos {
            info.offset = info.offset.saturating_add(start);
            let end = info.offset.saturating_add(info.bytes() as u64);
            ensure!(
                end <= size,
                "tensor `{name}` ends at byte {end} of {size}: the file is cut off"
            );
            places.push((info.offset, end, name.as_str()));
        }
        // A small file whose tensors share their bytes would be a large model.
        places.sort_unstable();
        let is_shared = |pair: &&[(u64, u64, &str)]| pair[1].0 < pair[0].1;
        if let Some([(.., one), (.., other)]) = places.windows(2).find(is_shared) {
            bail!("tensors `{one}` and `{other}` overlap: the file is damaged");
        }
        Ok(Self { path: path.to_owned(), values, tensors: infos })
    }

    fn info(reader: &mut Reader) -> Result<(String, Info)> {
        let name = reader.text()?;
        let dims = reader.u32()?;
        ensure!(dims <= MAX_DIMS, "tensor `{name}`: {dims} dimensions");
        let mut shape = Vec::new();
        let mut count = 1u64;
        for _ in 0..dims {
            let size = reader.u64()?;
            count = count.saturating_mul(size);
            shape.push(usize::try_from(size)?);
        }
        shape.reverse();
        let number = reader.u32()?;
        let Some(dtype) = dtype(number) else {
            bail!(
                "tensor `{name}`: its type, number {number}, cannot be read (IQ and MXFP4 types are not)"
            );
        };
        ensure!(count < 1 << 40, "tensor `{name}`: {count} values");
        let block = dtype.block_size() as u64;
        let row = shape.last().copied().unwrap_or(1) as u64;
        ensure!(row.is_multiple_of(block), "tensor `{name}`: rows of {row} in blocks of {block}");
        Ok((name, Info { shape, dtype, offset: reader.u64()? }))
    }

    /// The path it was opened at.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A value of the header.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// Whole numbers, numbers and texts of the header, where they are there; another kind of value is refused.
    pub(super) fn int(&self, key: &str) -> Result<Option<i64>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Int(number)) => Ok(Some(*number)),
            Some(other) => Err(other.is_no("a whole number", key)),
        }
    }

    pub(super) fn float(&self, key: &str) -> Result<Option<f64>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Float(number)) if number.is_finite() => Ok(Some(*number)),
            Some(Value::Int(number)) => Ok(Some(*number as f64)),
            Some(other) => Err(other.is_no("a finite number", key)),
        }
    }

    pub(super) fn bool(&self, key: &str) -> Result<Option<bool>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(yes)) => Ok(Some(*yes)),
            Some(other) => Err(other.is_no("a yes or no", key)),
        }
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<&str>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => Err(other.is_no("a text", key)),
        }
    }

    pub(super) fn texts(&self, key: &str) -> Result<Option<&[String]>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Texts(texts)) => Ok(Some(texts)),
            Some(other) => Err(other.is_no("an array of texts", key)),
        }
    }

    /// The shape of a tensor, where there is one.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|info| info.shape.as_slice())
    }

    /// Names of all tensors, in the order of the file.
    pub fn tensor_names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The values of a tensor in f32, on the CPU.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let info = self.info_of(name)?;
        let bytes = self.bytes(name, info)?;
        let values = qtensor_from_ggml(info.dtype, &bytes, info.shape.clone(), &Device::Cpu);
        let values = values.and_then(|values| values.dequantize(&Device::Cpu));
        values.with_context(|| self.shown(name))
    }

    /// The blocks of a matrix of Q8_0, as the file has them; none where it is of another type.
    pub(super) fn blocks(&self, name: &str) -> Result<Option<Tensor>> {
        let info = self.info_of(name)?;
        match info.shape[..] {
            [out, inner] if info.dtype == GgmlDType::Q8_0 => {
                Ok(Some(int8::of_bytes(&self.bytes(name, info)?, (out, inner))?))
            }
            _ => Ok(None),
        }
    }

    fn shown(&self, name: &str) -> String {
        format!("{}: tensor `{name}`", self.path.display())
    }

    fn info_of(&self, name: &str) -> Result<&Info> {
        self.tensors.get(name).with_context(|| format!("{} is missing", self.shown(name)))
    }

    fn bytes(&self, name: &str, info: &Info) -> Result<Vec<u8>> {
        let read = || -> Result<Vec<u8>> {
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(info.offset))?;
            let mut bytes = vec![0u8; info.bytes()];
            file.read_exact(&mut bytes)?;
            Ok(bytes)
        };
        read().with_context(|| self.shown(name))
    }
}

impl Info {
    fn bytes(&self) -> usize {
        let count: usize = self.shape.iter().product();
        count / self.dtype.block_size() * self.dtype.type_size()
    }
}
