//! A trained model or adapter to the Hub, with a model card that says how it was made and what
//! it measures.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::app::directory::FINAL;
use crate::app::model_card::Card;
use crate::formats::adapter;
use crate::formats::hub::push::Push;
use crate::formats::hub::push::folder::{self, FolderFile};
use crate::system::files::{MAX_SMALL, own_file, read_text, write_atomic};

/// The file that the Hub shows.
const CARD: &str = "README.md";

/// Options of `tealight push`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct PushOptions {
    /// The branch.
    #[arg(long, default_value = "main")]
    pub revision: String,
    /// Make the repository private.
    #[arg(long)]
    pub private: bool,
    /// Directories of evaluations or of a study whose results.md the card shows; a study that contains the run is
    /// found automatically.
    #[arg(long, value_delimiter = ',')]
    pub results: Vec<PathBuf>,
    /// The commit's title.
    #[arg(long, default_value = "Upload by tealight", alias = "commit-message")]
    pub message: String,
}

/// Sends the model or adapter in `run`, a run's directory whose final/ is sent or a folder of its own, to `repository`
/// (owner/name), with a model card, which is written where there is none. Returns the address.
///
/// # Errors
/// A folder without a model, a Hub that refuses.
pub fn run(options: &PushOptions, run: &Path, repository: &str) -> Result<String> {
    let push = Push {
        repository,
        revision: &options.revision,
        private: options.private,
        message: &options.message,
    };
    push.check()?;
    let folder = folder(options, run, repository)?;
    push.run(&folder, &mut |text| tracing::info!("{}", text))
}

/// Writes the model card where there is none; returns the files that would be sent.
///
/// # Errors
/// A folder without a model, a link out of the folder.
pub fn dry_run(options: &PushOptions, run: &Path, repository: &str) -> Result<Vec<FolderFile>> {
    folder::files(&folder(options, run, repository)?)
}

/// The folder that is sent, with its card.
fn folder(options: &PushOptions, run: &Path, repository: &str) -> Result<PathBuf> {
    let folder = match run.join(FINAL) {
        folder if folder.is_dir() => own_file(run, &folder).map(|_| folder)?,
        _ => run.to_owned(),
    };
    let is_model = folder.join("config.json").exists();
    if !is_model && !folder.join(adapter::CONFIG).exists() {
        bail!("{}: no model and no adapter here", folder.display());
    }
    if !folder.join(CARD).exists() {
        let card = Card { place: run, folder: &folder, is_model, repository };
        let card = card.text(&tables(options, run)?)?;
        write_atomic(&folder.join(CARD), card.as_bytes())?;
        tracing::info!(
            "card in {}: edit it and push again to change it",
            folder.join(CARD).display()
        );
    }
    Ok(folder)
}

/// The tables of the evaluations named, or of the study that the run is part of.
fn tables(options: &PushOptions, place: &Path) -> Result<Vec<String>> {
    let mut tables = Vec::new();
    for directory in &options.results {
        let file = directory.join("results.md");
        let text = own_text(directory, "results.md")
            .with_context(|| format!("{}: no results to show", file.display()))?;
        tables.push(text.trim().to_owned());
    }
    // Only a study that wrote its settings beside its results, as `study` does.
    let study = place.parent().filter(|parent| {
        let settings = own_text(parent, "config.toml");
        settings
            .is_ok_and(|text| text.starts_with("# tealight ") && text.contains("\nobjectives = "))
            && parent.join("results.json").is_file()
            && parent.join("results.md").symlink_metadata().is_ok()
    });
    if let (true, Some(study)) = (options.results.is_empty(), study) {
        tables.push(own_text(study, "results.md")?.trim().to_owned());
    }
    Ok(tables)
}

/// The text of a file of an untrusted folder, which a card shows.
fn own_text(folder: &Path, name: &str) -> Result<String> {
    read_text(&own_file(folder, &folder.join(name))?, MAX_SMALL)
}
