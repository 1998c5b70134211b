//! The bytes of a text file that a stranger may have made, packed with gzip or Zstandard or not; a file that is no
//! data, whatever its name, is refused by what it is.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read, Result as IoResult};
use std::path::Path;

use tealight_core::regular;

use crate::unpack::{Packing, TWICE};
use crate::{DataError, Result};

/// Bytes of the start of a file that say what it is.
const START: u64 = 512;
/// The first bytes of files that are no text, what they are, and how they become readable.
const NO_TEXT: [(&[u8], &str); 5] = [
    (b"BZh", "compressed: unpack it with bunzip2"),
    (b"PK\x03\x04", "an archive: unpack it, or export a sheet as CSV"),
    (b"PAR1", "a Parquet file: name it .parquet"),
    (b"\xff\xfe", "UTF-16: save it as UTF-8"),
    (b"\xfe\xff", "UTF-16: save it as UTF-8"),
];
/// How a page of the web begins.
const PAGES: [&str; 3] = ["<!doctype html", "<html", "<?xml"];

/// Opens a regular file: a pipe or a device may have no end.
pub(super) fn file(path: &Path) -> Result<File> {
    regular::open(path).map_err(|source| match source.raw_os_error() {
        Some(_) => DataError::Io { path: path.into(), source },
        None => DataError::File { path: path.into(), what: source.to_string() },
    })
}

/// The same as text of any length, unpacked, without a byte-order mark.
pub(super) fn text(path: &Path) -> Result<impl BufRead> {
    let unreadable = |source| DataError::Io { path: path.into(), source };
    let refused = |what: &str| Err(DataError::File { path: path.into(), what: what.into() });
    let (mut start, mut rest) = peeked(file(path)?).map_err(unreadable)?;
    if let Some(packing) = Packing::detect(&start) {
        let packed = Cursor::new(start).chain(rest);
        (start, rest) = packing.unpack(packed).and_then(peeked).map_err(unreadable)?;
        if Packing::detect(&start).is_some() {
            return refused(TWICE);
        }
    }
    if let Some((_, what)) = NO_TEXT.iter().find(|(magic, _)| start.starts_with(magic)) {
        return refused(what);
    }
    if start.starts_with(b"\xef\xbb\xbf") {
        start.drain(..3);
    }
    let shown = String::from_utf8_lossy(&start).trim_start().to_ascii_lowercase();
    if PAGES.iter().any(|page| shown.starts_with(page)) {
        return refused(
            "a page of the web (HTML or XML), as a server sends it for an error or a login: fetch the file itself",
        );
    }
    Ok(Cursor::new(start).chain(rest))
}

/// The start of a file, and what follows it.
fn peeked<'a>(mut reader: impl Read + 'a) -> IoResult<(Vec<u8>, Box<dyn BufRead + 'a>)> {
    let mut start = Vec::new();
    reader.by_ref().take(START).read_to_end(&mut start)?;
    Ok((start, Box::new(BufReader::new(reader))))
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
            ("a.jsonl.gz", &gzip("<html>"), "a page of the web"),
        ] {
            let error = open(name, bytes).err().expect(name).to_string();
            assert!(error.contains(words), "{name}: {error}");
        }
    }
}
