//! `tealight launch`.

use std::net::{Ipv6Addr, SocketAddr};

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::app::launch::{self, Launch};
use crate::system::stop::Stop;

#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(in crate::cli) struct LaunchOptions {
    /// Number of processes (ranks) on this node. Each gets an equal share of the CPU cores; GPUs are assigned in turn.
    #[arg(short = 'n', long, default_value_t = 1)]
    nproc_per_node: usize,
    /// Number of nodes; run the same command on each, with the same TEALIGHT_LAUNCH_KEY.
    #[arg(long, default_value_t = 1)]
    nnodes: usize,
    /// Which node this one is; 0 is the first.
    #[arg(long, default_value_t = 0)]
    node_rank: usize,
    /// Name or address of the first node, as the other nodes reach it. The first node listens on that address; given
    /// a name, on all of its addresses.
    #[arg(long, default_value = "127.0.0.1")]
    master_addr: String,
    /// Port on which the first node waits for the others.
    #[arg(long, default_value_t = 29500)]
    master_port: u16,
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
    let LaunchOptions { nproc_per_node, nnodes, node_rank, master_addr, master_port, command } =
        options.clone();
    let first_node = match master_addr.parse::<Ipv6Addr>() {
        Ok(address) => SocketAddr::from((address, master_port)).to_string(),
        Err(_) => format!("{master_addr}:{master_port}"),
    };
    let (processes, nodes, node) = (nproc_per_node, nnodes, node_rank);
    launch::run(&Launch { processes, nodes, node, first_node, command }, stop)
}
