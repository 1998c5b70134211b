//! The Hub's cache on disk, in the layout of the Python client, so that both share it:
//! `models--owner--name/{blobs/HASH, snapshots/COMMIT/FILE -> blob, refs/REVISION holding COMMIT}`. Nothing else here
//! makes a file, a link or a folder of it.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hf_hub::Repo;
use tealight_core::{names, output};

use super::client::repository_type;
use super::git_object::{FileMetadata, is_hexadecimal};
use tealight_system::files;
use tealight_system::hf_home::cache_directory;

/// Largest list of the names of a repository's files, in bytes.
const MAX_LISTING: u64 = 64 << 20;
/// Folders in folders of a snapshot that are looked into.
const MAX_FOLDERS: usize = 16;

/// A revision of a repository: its commit and the names of its files, which nobody has checked.
#[derive(Clone)]
pub(super) struct Listing {
    pub(super) commit: String,
    pub(super) files: Vec<String>,
    /// Whether they are all that the commit has, or those that are downloaded.
    pub(super) is_whole: bool,
}

/// One repository's folder.
#[derive(Clone)]
pub(super) struct Folder {
    path: PathBuf,
    revision: String,
}

impl Folder {
    /// The folder of `id` (of `kind`, `models` or `datasets`) at `revision`.
    pub(super) fn new(kind: &str, id: &str, revision: &str) -> Result<Self> {
        let repository = Repo::new(id.into(), repository_type(kind));
        let path = cache_directory().join(repository.folder_name());
        names::inside(&path, revision).context("a revision is a branch, a tag or a commit")?;
        Ok(Self { path, revision: revision.into() })
    }

    /// The path of `file` in the snapshot of `commit`, if it is there.
    pub(super) fn get(&self, commit: &str, file: &str) -> Option<PathBuf> {
        let path = names::inside(&self.snapshot(commit).ok()?, file).ok()?;
        path.is_file().then_some(path)
    }

    /// The commit that this revision is here.
    pub(super) fn commit(&self) -> Option<String> {
        if is_commit(&self.revision) {
            return Some(self.revision.clone());
        }
        let branch = names::inside(&self.path.join("refs"), &self.revision).ok()?;
        Some(std::fs::read_to_string(branch).ok()?.trim().to_owned())
    }

    fn snapshot(&self, commit: &str) -> Result<PathBuf> {
        Ok(names::inside(&self.path.join("snapshots"), commit)?)
    }

    /// Where the names of the files of `commit` are kept. The Python client has no such file and leaves it alone.
    fn listing_file(&self, commit: &str) -> Result<PathBuf> {
        Ok(names::inside(&self.path.join("listings"), &format!("{commit}.json"))?)
    }

    /// The names of all files of this revision, where it was listed before.
    pub(super) fn listing(&self) -> Option<Listing> {
        let commit = self.commit()?;
        let value = files::read_json(&self.listing_file(&commit).ok()?, MAX_LISTING).ok()?;
        let files = serde_json::from_value(value).ok()?;
        Some(Listing { commit, files, is_whole: true })
    }

    /// Keeps a listing, whose commit this revision now is.
    pub(super) fn keep(&self, listing: &Listing) -> Result<()> {
        if !is_commit(&listing.commit) {
            bail!("invalid commit hash from the Hub");
        }
        let path = self.listing_file(&listing.commit)?;
        std::fs::create_dir_all(path.parent().unwrap_or(&self.path))
            .with_context(|| format!("{}: cannot be written", path.display()))?;
        files::write_atomic(&path, &serde_json::to_vec(&listing.files)?)?;
        self.name_commit(&listing.commit)
    }

    /// The names of the files of this revision that are here, by whatever client.
    pub(super) fn downloaded(&self) -> Option<Listing> {
        let commit = self.commit()?;
        let snapshot = self.snapshot(&commit).ok()?;
        let mut files = Vec::new();
        let mut folders = vec![(snapshot, String::new(), 0)];
        while let Some((folder, prefix, depth)) = folders.pop() {
            for entry in std::fs::read_dir(folder).ok()?.flatten() {
                let name = format!("{prefix}{}", entry.file_name().to_str()?);
                match entry.file_type().ok()?.is_dir() {
                    true if depth < MAX_FOLDERS => {
                        folders.push((entry.path(), format!("{name}/"), depth + 1));
                    }
                    true => {}
                    false => files.push(name),
                }
            }
        }
        files.sort();
        Some(Listing { commit, files, is_whole: false })
    }

    /// The file that holds what is downloaded so far of the git object `oid`, for this process alone.
    pub(super) fn incomplete(&self, oid: &str) -> Result<File> {
        let path = self.blob(&format!("{oid}.incomplete"))?;
        let blobs = self.path.join("blobs");
        std::fs::create_dir_all(&blobs).with_context(|| blobs.display().to_string())?;
        let describe = || format!("{}: cannot be written", path.display());
        let mut options = File::options();
        let file = output::open(options.create(true).truncate(false).read(true).write(true), &path);
        let file = file.with_context(describe)?;
        // Two processes that want one model: the second waits, and finds it there.
        file.lock().with_context(describe)?;
        Ok(file)
    }

    /// Makes what was downloaded of `oid` the content `blob`.
    pub(super) fn complete(&self, oid: &str, blob: &str) -> Result<()> {
        let (from, to) = (self.blob(&format!("{oid}.incomplete"))?, self.blob(blob)?);
        std::fs::rename(&from, &to).with_context(|| format!("{}: cannot be written", to.display()))
    }

    /// The name of a file's content, where some client has brought it.
    pub(super) fn find(&self, file: &FileMetadata) -> Option<String> {
        let is_whole = |blob: &str| {
            let path = self.blob(blob).ok();
            let size = path.and_then(|path| Some(path.metadata().ok()?.len()));
            size == Some(file.bytes) && file.is_named(blob)
        };
        if !file.is_lfs {
            return is_whole(&file.oid).then(|| file.oid.clone());
        }
        // Of a large file the Hub's git tells the pointer, and each content here the pointer that it would have.
        let blobs = std::fs::read_dir(self.path.join("blobs")).ok()?.flatten();
        blobs.filter_map(|entry| entry.file_name().into_string().ok()).find(|blob| is_whole(blob))
    }

    fn blob(&self, name: &str) -> Result<PathBuf> {
        Ok(names::inside(&self.path.join("blobs"), name)?)
    }

    /// Names the content `blob` as `file` of `commit`, which this revision now is.
    pub(super) fn link(&self, file: &str, blob: &str, commit: &str) -> Result<PathBuf> {
        if !is_commit(commit) {
            bail!("invalid commit hash from the Hub");
        }
        let path = names::inside(&self.snapshot(commit)?, file)?;
        let describe = || format!("{}: cannot be written", path.display());
        let parent = path.parent().unwrap_or(&self.path);
        std::fs::create_dir_all(parent).with_context(describe)?;
        let blob = self.blob(blob)?;
        let names_it = || {
            let to = std::fs::read_link(&path);
            path.is_file() && to.is_ok_and(|to| to.file_name() == blob.file_name())
        };
        if !names_it() {
            // In one step, since other processes may do the same.
            let depth = file.split('/').count() + 1;
            let made = tempfile::Builder::new().make_in(parent, |at| point(at, &blob, depth));
            let made = made.and_then(|made| Ok(made.into_temp_path().persist(&path)?));
            made.with_context(describe)?;
        }
        self.name_commit(commit)?;
        Ok(path)
    }

    /// This revision, where it is a branch or a tag, is `commit` from now on.
    fn name_commit(&self, commit: &str) -> Result<()> {
        if is_commit(&self.revision) {
            return Ok(());
        }
        let branch = names::inside(&self.path.join("refs"), &self.revision)?;
        std::fs::create_dir_all(branch.parent().unwrap_or(&self.path))
            .with_context(|| format!("{}: cannot be written", branch.display()))?;
        files::write_atomic(&branch, commit.as_bytes())
    }
}

/// `path` stands for `blob`, `depth` folders below the repository's.
#[cfg(unix)]
fn point(path: &Path, blob: &Path, depth: usize) -> std::io::Result<()> {
    let name = blob.file_name().unwrap_or_default();
    std::os::unix::fs::symlink(Path::new(&"../".repeat(depth)).join("blobs").join(name), path)
}

/// Links need a privilege there.
#[cfg(not(unix))]
fn point(path: &Path, blob: &Path, _depth: usize) -> std::io::Result<()> {
    std::fs::hard_link(blob, path).or_else(|_| std::fs::copy(blob, path).map(drop))
}

fn is_commit(text: &str) -> bool {
    is_hexadecimal(text, 40)
}
