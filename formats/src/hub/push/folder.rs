//! The files of a folder that are pushed. The folder may be a stranger's: a link out of it would publish a file of the
//! user's, so such a link is refused by name, whatever it leads to.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tealight_core::regular;

use super::sha256;
use crate::adapter;
use tealight_nn::tokenizer::is_tokenizers;
use tealight_system::files::own_file;

/// A file to push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderFile {
    /// Its name in the folder and in the repository.
    pub name: String,
    /// Where its contents are, links followed.
    pub path: PathBuf,
    /// Size of the file in bytes.
    pub bytes: u64,
}

/// A file to push, and what identifies its contents.
pub(super) struct Item {
    pub(super) file: FolderFile,
    pub(super) sha256: String,
}

impl FolderFile {
    /// What the file is, by its name.
    pub fn kind(&self) -> &'static str {
        match self.name.as_str() {
            "README.md" => "model card",
            "config.json" | "generation_config.json" | "Modelfile" | adapter::CONFIG => "settings",
            name if is_tokenizers(name) => "tokenizer",
            name if name.ends_with(".safetensors.index.json") => "weights",
            name if name.ends_with(".safetensors") || name.ends_with(".gguf") => "weights",
            _ => "other",
        }
    }
}

/// The files of a folder, in the order of names. Hidden files and folders are left out.
///
/// # Errors
/// A folder that cannot be read or holds no file; a link out of it, a pipe or a device.
pub fn files(folder: &Path) -> Result<Vec<FolderFile>> {
    let describe = || format!("{}: cannot be read", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(describe)? {
        let entry = entry.with_context(describe)?;
        let (place, name) = (entry.path(), entry.file_name());
        let name = name.to_str().with_context(|| format!("{}: not UTF-8", place.display()))?;
        if name.starts_with('.') {
            continue;
        }
        let path = own_file(folder, &place)?;
        let kind = path.metadata().with_context(|| place.display().to_string())?;
        if kind.is_dir() {
            continue;
        }
        if !kind.is_file() {
            bail!("{}: {}: remove it", place.display(), regular::NOT_REGULAR);
        }
        files.push(FolderFile { name: name.to_owned(), path, bytes: kind.len() });
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    if files.is_empty() { bail!("{}: nothing to push", folder.display()) } else { Ok(files) }
}

/// The same with the checksums of their contents.
pub(super) fn items(folder: &Path) -> Result<Vec<Item>> {
    let item = |file: FolderFile| {
        let at = || file.path.display().to_string();
        let (sha256, bytes) =
            sha256(&mut regular::open(&file.path).with_context(at)?).with_context(at)?;
        Ok(Item { file: FolderFile { bytes, ..file }, sha256 })
    };
    files(folder)?.into_iter().map(item).collect()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_out_of_a_folder_are_refused_whatever_they_lead_to() {
        let all = tempfile::tempdir().unwrap();
        let run = all.path().join("run");
        std::fs::create_dir_all(run.join("sub")).unwrap();
        std::fs::write(all.path().join("secret"), "token").unwrap();
        std::fs::write(run.join("config.json"), "{}").unwrap();
        std::fs::write(run.join(".hidden"), "x").unwrap();
        symlink("config.json", run.join("copy.json")).unwrap();
        // What is not sent may lead anywhere.
        symlink("../../secret", run.join("sub/notes.txt")).unwrap();
        symlink("../secret", run.join(".link")).unwrap();
        let found = files(&run).unwrap();
        let shown: Vec<_> =
            found.iter().map(|file| (file.name.as_str(), file.bytes, file.kind())).collect();
        assert_eq!(shown, [("config.json", 2, "settings"), ("copy.json", 2, "other")]);
        for target in ["../secret", "..", "../nowhere", "sub/notes.txt", "/dev/zero"] {
            let link = run.join("notes.txt");
            symlink(target, &link).unwrap();
            let message = format!("{:#}", files(&run).unwrap_err());
            assert!(message.contains("notes.txt"), "{target}: {message}");
            assert!(items(&run).is_err(), "{target}");
            std::fs::remove_file(&link).unwrap();
        }
        assert_eq!(items(&run).unwrap().len(), 2);
    }
}
