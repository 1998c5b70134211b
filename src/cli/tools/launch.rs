//! `tealight launch`.

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::app::launch::{self, Launch};
use crate::system::range::at_least;
use crate::system::stop::Stop;

#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(in crate::cli) struct LaunchOptions {
    /// Number of processes (ranks). Each gets an equal share of the CPU cores; GPUs are assigned in turn.
    #[arg(short = 'n', long, default_value_t = 1, add = at_least(1.0).at_most(1024.0))]
    nproc_per_node: usize,
    /// The command and its options: train, study, eval, presample or grade.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "COMMAND"
    )]
    command: Vec<String>,
}

/// Refuses commands that one process does.
pub(in crate::cli) fn check(options: &LaunchOptions) -> Result<()> {
    let name = &options.command[0];
    if !crate::cli::commands::entry(name).is_some_and(crate::cli::commands::Entry::is_shared) {
        bail!(
            "`{name}` is not one of train, study, eval, presample, grade, which several processes can do"
        );
    }
    let words: Vec<String> =
        std::iter::once("tealight".to_owned()).chain(options.command.iter().cloned()).collect();
    crate::cli::check(&words)
}

pub(in crate::cli) fn run(options: &LaunchOptions, stop: &Stop) -> Result<()> {
    check(options)?;
    let LaunchOptions { nproc_per_node, command } = options.clone();
    launch::run(&Launch { processes: nproc_per_node, command }, stop)
}
