//! Parquet files where their C libraries do not compile: in WebAssembly. None is read.

use std::path::Path;

use super::Row;
use crate::{DataError, Result};

/// Why none is read.
pub(super) const ABSENT: &str = "this build does not read Parquet files";

pub(super) fn rows(path: &Path, _: usize) -> Result<Vec<Row>> {
    Err(DataError::File { path: path.into(), what: ABSENT.into() })
}
