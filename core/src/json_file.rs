//! JSON files that a folder brings, which may be a stranger's, to values of a type: the one reader of such files.
//!
//! Some bytes of JSON can take many times as much memory: `0,` is a number of two bytes in a file and of some thirty in
//! memory. A file of more than a few megabytes is therefore read under the guard of the process (see [`guard`]).

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::{guard, regular};

/// Largest file that is read without a guard, in bytes: it takes some 300 MB at most.
const SMALL: u64 = 4 << 20;
/// How long reading a file may take.
const TIME: Duration = Duration::from_secs(600);

/// Why a JSON file is not read.
#[derive(Debug, thiserror::Error)]
pub enum JsonFileError {
    /// It cannot be opened, is no regular file, or is larger than such a file may be.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It is not JSON, or not of the type.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// It takes more memory or time than it may.
    #[error(transparent)]
    Refused(#[from] guard::Refused),
}

/// The memory that a file of `size` bytes may take.
fn memory_for(size: u64) -> u64 {
    const LEAST: u64 = 1 << 30;
    const BYTES_A_BYTE: u64 = 4;
    LEAST.saturating_add(size.saturating_mul(BYTES_A_BYTE))
}

/// Reads a file of at most `limit` bytes; links are followed.
///
/// # Errors
/// See [`JsonFileError`].
pub fn read<T: DeserializeOwned + Send + 'static>(
    path: &Path,
    limit: u64,
) -> Result<T, JsonFileError> {
    let file = regular::open(path)?;
    let size = file.metadata()?.len();
    if size > limit {
        let why = format!("larger than {limit} bytes, the limit for such a file");
        return Err(std::io::Error::other(why).into());
    }
    if size <= SMALL {
        return Ok(parse(file, SMALL)?);
    }
    let what = path.display().to_string();
    Ok(guard::guarded(&what, memory_for(size), TIME, move || parse(file, limit))??)
}

/// The same for a file of an untrusted `folder`, by the rule of [`regular::own`].
///
/// # Errors
/// See [`JsonFileError`].
pub fn read_own<T: DeserializeOwned + Send + 'static>(
    folder: &Path,
    path: &Path,
    limit: u64,
) -> Result<T, JsonFileError> {
    read(&regular::own(folder, path)?, limit)
}

fn parse<T: DeserializeOwned>(file: File, limit: u64) -> serde_json::Result<T> {
    const MARK: [u8; 3] = [0xef, 0xbb, 0xbf];
    let mut reader = BufReader::with_capacity(1 << 16, file.take(limit));
    // A mark of the order of bytes stands before JSON that some editors wrote.
    if reader.fill_buf().map_err(serde_json::Error::io)?.starts_with(&MARK) {
        reader.consume(MARK.len());
    }
    serde_json::from_reader(reader)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn files_are_read_up_to_their_limit_and_large_ones_under_the_guard() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let write = |text: &[u8]| std::fs::write(&path, text).unwrap();
        let read = |limit| read_own::<Value>(folder.path(), &path, limit);
        write(b"\xef\xbb\xbf{\"a\": 1}");
        assert_eq!(read(100).unwrap()["a"], 1);
        assert!(read(5).unwrap_err().to_string().contains("larger than 5 bytes"));
        write(b"[1");
        assert!(matches!(read(100), Err(JsonFileError::Json(_))));
        write(b"1 2");
        assert!(read(100).unwrap_err().to_string().contains("trailing characters"));
        let large = format!("[{}0]", "0,".repeat(SMALL as usize));
        write(large.as_bytes());
        assert_eq!(read(1 << 30).unwrap().as_array().unwrap().len(), SMALL as usize + 1);
        write(&large.as_bytes()[1..]);
        assert!(matches!(read(1 << 30), Err(JsonFileError::Json(_))));
        assert!(matches!(
            read_own::<Value>(&folder.path().join("b"), &path, 9),
            Err(JsonFileError::Io(_))
        ));
    }
}
