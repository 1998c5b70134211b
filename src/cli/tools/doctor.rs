//! `tealight doctor`.

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::app::doctor;
use tealight_system::telemetry::print;

#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(in crate::cli) struct DoctorOptions {
    /// Device to test: auto, cpu, cuda, cuda:N or metal. On a GPU every kernel is compared with the CPU.
    #[arg(long, default_value = "auto")]
    device: String,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) fn run(options: &DoctorOptions) -> Result<()> {
    let findings = doctor::run(&options.device);
    if options.json {
        print(serde_json::to_string_pretty(&findings)?)?;
    } else {
        for finding in &findings {
            let mark = if finding.is_well { "ok  " } else { "FAIL" };
            print(format_args!("{mark} {:<10} {}", finding.name, finding.detail))?;
        }
    }
    match findings.iter().find(|finding| !finding.is_well) {
        None => Ok(()),
        Some(finding) => bail!("{}: {}", finding.name, finding.detail),
    }
}
