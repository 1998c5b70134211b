//! `tealight lab WORLD`.

use std::io::Write;

use anyhow::Result;

use crate::app::lab::{self, LabOptions};
use crate::cli::table;
use crate::system::telemetry::out;

pub(in crate::cli) fn run(options: &LabOptions) -> Result<()> {
    let printed = lab::run(options)?;
    let mut stdout = out();
    if options.json {
        return Ok(printed.json.iter().try_for_each(|row| writeln!(stdout, "{row}"))?);
    }
    Ok(writeln!(stdout, "{}\n{}", table::plain(&printed.cells), printed.note)?)
}
