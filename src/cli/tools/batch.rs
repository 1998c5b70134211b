//! `tealight batch`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::app::batch::{self, BatchOptions};
use crate::system::stop::Stop;

/// The settings of this command, and the files that a settings file may name too.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(in crate::cli) struct Settings {
    /// Requests, one JSON object a line: custom_id, url (/v1/chat/completions or /v1/completions), body.
    #[arg(short, long)]
    input: Option<PathBuf>,
    /// Responses, in any order; an existing file is continued.
    #[arg(short, long)]
    output: Option<PathBuf>,
    #[command(flatten)]
    #[serde(flatten)]
    batch: BatchOptions,
}

pub(in crate::cli) fn run(settings: Settings, stop: &Stop) -> Result<()> {
    const NO_FILES: &str = "--input FILE and --output FILE are needed";
    let (input, output) = (settings.input.context(NO_FILES)?, settings.output.context(NO_FILES)?);
    batch::run(&settings.batch, &input, &output, stop)
}
