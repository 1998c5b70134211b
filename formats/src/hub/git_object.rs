//! Git's object ids: what a downloaded file is checked against.
//!
//! The Hub is a git repository. An object id is the SHA-1 of the content; a large file stands in git as an LFS pointer,
//! a text that follows from the SHA-256 and the size of the file. So one id checks every file, small ones too.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// A file at a commit, as the Hub's git describes it.
#[derive(Debug, Clone)]
pub(super) struct FileMetadata {
    /// The file's name in the repository.
    pub(super) name: String,
    pub(super) commit: String,
    pub(super) bytes: u64,
    /// The object id in git: of the content, or of the LFS pointer that stands for it.
    pub(super) oid: String,
    pub(super) is_lfs: bool,
}

impl FileMetadata {
    /// The name of the file's content in the cache, as the Python client names it: the SHA-256 of a large file, the
    /// object id of any other.
    pub(super) fn verify(&self, part: &mut File) -> std::io::Result<Result<String, String>> {
        part.seek(SeekFrom::Start(0))?;
        let (mut sha256, mut object) = (Sha256::new(), Sha1::new());
        object.update(format!("blob {}\0", part.metadata()?.len()));
        let mut buffer = vec![0; 1 << 20];
        loop {
            match part.read(&mut buffer)? {
                0 => break,
                count => {
                    sha256.update(&buffer[..count]);
                    object.update(&buffer[..count]);
                }
            }
        }
        let (sha256, object) = (hexadecimal(&sha256.finalize()), hexadecimal(&object.finalize()));
        let (oid, name) = match self.is_lfs {
            true => (pointer_oid(&sha256, self.bytes), sha256),
            false => (object, self.oid.clone()),
        };
        Ok(match oid == self.oid {
            true => Ok(name),
            false => Err(format!("its git object is {oid}, the Hub describes {}", self.oid)),
        })
    }

    /// Whether the content called `blob` in a cache, of the size of this file, is this file's by its name.
    pub(super) fn is_named(&self, blob: &str) -> bool {
        match self.is_lfs {
            true => is_hexadecimal(blob, 64) && pointer_oid(blob, self.bytes) == self.oid,
            false => blob == self.oid,
        }
    }
}

/// The object id of the LFS pointer to a content.
fn pointer_oid(sha256: &str, bytes: u64) -> String {
    let pointer =
        format!("version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {bytes}\n");
    let object = format!("blob {}\0{pointer}", pointer.len());
    hexadecimal(&Sha1::digest(object))
}

/// Whether `text` is a hash of `length` digits, as git and the Hub write them.
pub(super) fn is_hexadecimal(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn verified(content: &[u8], oid: &str, is_lfs: bool) -> Result<String, String> {
        let mut part = tempfile::tempfile().unwrap();
        part.write_all(content).unwrap();
        let bytes = content.len() as u64;
        let (name, commit) = ("f".to_owned(), "0".repeat(40));
        FileMetadata { name, commit, bytes, oid: oid.into(), is_lfs }.verify(&mut part).unwrap()
    }

    #[test]
    fn object_ids_equal_gits() {
        // `printf 'hello\n' | git hash-object --stdin`, and the same of its LFS pointer.
        let (plain, pointer) = (
            "ce013625030ba8dba906f756967f9e9ca394464a",
            "fa61e1ef71c9908c0926776a4aa3504b3a27f159",
        );
        let sha256 = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        assert_eq!(verified(b"hello\n", plain, false), Ok(plain.to_owned()));
        assert_eq!(verified(b"hello\n", pointer, true), Ok(sha256.to_owned()));
        for other in [&b"hellp\n"[..], b"hello", b""] {
            assert!(verified(other, plain, false).is_err());
            assert!(verified(other, pointer, true).unwrap_err().contains("describes fa61"));
        }
    }
}
