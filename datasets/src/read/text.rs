//! The bytes of a text file that a stranger may have made, packed with gzip or Zstandard or not; a file that is no
//! data, whatever its name, is refused by what it is.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use tealight_core::regular;

use crate::unpack::{no_text, opened};
use crate::{DataError, Result};

/// Opens a regular file: a pipe or a device may have no end.
pub(super) fn file(path: &Path) -> Result<File> {
    regular::open(path).map_err(|source| match source.raw_os_error() {
        Some(_) => DataError::Io { path: path.into(), source },
        None => DataError::File { path: path.into(), what: source.to_string() },
    })
}

/// The same as text of any length, unpacked, without a byte-order mark.
pub(super) fn text(path: &Path) -> Result<Box<dyn BufRead>> {
    let refused = |what: &str| DataError::File { path: path.into(), what: what.into() };
    let opened = opened(BufReader::new(file(path)?));
    let opened = opened.map_err(|source| DataError::Io { path: path.into(), source })?;
    let (start, reader) = opened.map_err(refused)?;
    no_text(&start).map_or(Ok(reader), |what| Err(refused(what)))
}

#[cfg(test)]
mod tests {

    use crate::read::Columns;
    use crate::unpack::tests::gzip;

    #[test]
    fn packed_texts_are_read_whatever_their_names_say() {
        let folder = tempfile::tempdir().unwrap();
        let json = r#"{"question": "1+1?", "answer": "2"}"#;
        let gzip = |text: &str| gzip(text.as_bytes());
        let zstandard = |text: &str| zstd::encode_all(text.as_bytes(), 1).unwrap();
        let lines = format!("\u{feff}{json}\n{}\n", json.replace("1+1", "2+0"));
        let table = "question;answer\n1+1?;2\n2+0?;2\n";
        let open = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            crate::open(path.to_str().unwrap(), &Columns::default(), None)
        };
        for (name, bytes) in [
            ("a.jsonl.gz", gzip(&lines)),
            ("A.JSONL.GZ", gzip(&lines)),
            ("a.jsonl", gzip(&lines)),
            ("a.jsonl.gz", lines.clone().into()),
            ("a.jsonl.gz", [gzip(&lines[..9]), gzip(&lines[9..])].concat()),
            ("a.jsonl.zst", zstandard(&lines)),
            ("a.ndjson.zst", zstandard(&lines)),
            ("a.json.zst", zstandard(&format!("[{}]", lines[3..].trim().replace('\n', ",")))),
            ("a.json.gz", gzip(&lines)),
            ("a.csv.gz", gzip(table)),
            ("a.tsv.zst", zstandard(&table.replace(';', "\t"))),
        ] {
            let set = open(name, &bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(set.problems.len(), 2, "{name}");
        }
        let whole = gzip(&lines[3..].repeat(99));
        for (name, bytes, words) in [
            ("a.jsonl.gz", &whole[..whole.len() - 9], "damaged or was cut off"),
            ("a.json.gz", &whole[..whole.len() - 9], "damaged or was cut off"),
            ("a.csv.gz", &gzip(table)[..30], "damaged or was cut off"),
            ("a.jsonl.gz", &zstd::encode_all(&*whole, 1).unwrap(), "packed twice"),
            ("a.jsonl.gz", &gzip("PAR1"), "a Parquet file"),
            ("a.jsonl.gz", &gzip("<html>"), "an HTML or XML page"),
        ] {
            let error = open(name, bytes).err().expect(name).to_string();
            assert!(error.contains(words), "{name}: {error}");
        }
    }
}
