//! A step's completions as a Parquet file, in TRL's columns and ours.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

/// One completion of a training step.
#[derive(Debug, Clone, PartialEq)]
pub struct Logged {
    /// The problem's id.
    pub problem: String,
    /// The prompt as the model saw it.
    pub prompt: String,
    /// The gold answer.
    pub gold: String,
    /// The model's text.
    pub completion: String,
    /// Reward that the verifier gave.
    pub reward: f64,
    /// The advantage of its first token.
    pub advantage: f64,
    /// The verdict: correct, wrong, no-answer or unparsable.
    pub verdict: String,
    /// Whether it ended by itself.
    pub is_finished: bool,
    /// Number of tokens.
    pub tokens: usize,
}

const SCHEMA: &str = "message completions {
    required int64 step;
    required binary problem (UTF8);
    required binary prompt (UTF8);
    required binary gold (UTF8);
    required binary completion (UTF8);
    required double reward;
    required double advantage;
    required binary verdict (UTF8);
    required int64 is_finished;
    required int64 tokens;
}";

/// Where the completions of `step` go, under the directory of a run.
pub fn place(output: &Path, step: usize) -> std::path::PathBuf {
    output.join("completions").join(format!("completions_{step:05}.parquet"))
}

/// Writes the completions of `step`, beside their place and renamed.
pub fn write(output: &Path, step: usize, rows: &[Logged]) -> Result<()> {
    let path = place(output, step);
    crate::files::writable_subfolder(path.parent().context("a file in a directory")?)?;
    let bytes = encoded(step, rows).with_context(|| path.display().to_string())?;
    crate::files::write_atomic(&path, &bytes)
}

fn encoded(step: usize, rows: &[Logged]) -> parquet::errors::Result<Vec<u8>> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    let texts = |pick: fn(&Logged) -> &str| -> Vec<ByteArray> {
        rows.iter().map(|row| ByteArray::from(pick(row))).collect()
    };
    let integers = |pick: fn(&Logged) -> i64| -> Vec<i64> { rows.iter().map(pick).collect() };
    let floats = |pick: fn(&Logged) -> f64| -> Vec<f64> { rows.iter().map(pick).collect() };
    column::<Int64Type>(&mut group, &vec![step as i64; rows.len()])?;
    column::<ByteArrayType>(&mut group, &texts(|row| &row.problem))?;
    column::<ByteArrayType>(&mut group, &texts(|row| &row.prompt))?;
    column::<ByteArrayType>(&mut group, &texts(|row| &row.gold))?;
    column::<ByteArrayType>(&mut group, &texts(|row| &row.completion))?;
    column::<DoubleType>(&mut group, &floats(|row| row.reward))?;
    column::<DoubleType>(&mut group, &floats(|row| row.advantage))?;
    column::<ByteArrayType>(&mut group, &texts(|row| &row.verdict))?;
    column::<Int64Type>(&mut group, &integers(|row| i64::from(row.is_finished)))?;
    column::<Int64Type>(&mut group, &integers(|row| row.tokens as i64))?;
    group.close()?;
    writer.close()?;
    Ok(bytes)
}

fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    values: &[T::T],
) -> parquet::errors::Result<()> {
    if let Some(mut column) = group.next_column()? {
        column.typed::<T>().write_batch(values, None, None)?;
        column.close()?;
    }
    Ok(())
}
