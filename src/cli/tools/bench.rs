//! `tealight bench`.

use anyhow::Result;
use serde_json::Value;

use crate::app::bench::{self, BenchOptions};
use tealight_system::telemetry::print;

pub(in crate::cli) fn run(options: &BenchOptions) -> Result<()> {
    let report = bench::run(options)?;
    print(if options.json { serde_json::to_string_pretty(&report)? } else { table(&report) })?;
    Ok(())
}

fn table(report: &Value) -> String {
    let number = |value: &Value, digits: usize| match value.as_f64() {
        Some(value) => format!("{value:.digits$}"),
        None => "-".into(),
    };
    let megabytes = |bytes: &Value| match bytes.as_f64() {
        Some(bytes) => format!("{:.0}", bytes / 1e6),
        None => "-".into(),
    };
    let parts = &report["step_parts"];
    format!(
        "device    {}\n\
         rollout   {} new tokens/s, {} s (median of {})\n\
         step      {} tokens/s, {} s (median of {})\n\
         of which  reference {} s, forward {} s, backward {} s, optimizer {} s\n\
         start-up  {} s\n\
         memory    {} MB at most, {} MB planned",
        report["device"].as_str().unwrap_or_default(),
        number(&report["rollout_new_tokens_per_s"], 0),
        number(&report["rollout_s"], 3),
        report["rollout_reps"],
        number(&report["step_tokens_per_s"], 0),
        number(&report["step_s"], 3),
        number(&report["step_reps"], 0),
        number(&parts["reference"], 3),
        number(&parts["forward"], 3),
        number(&parts["backward"], 3),
        number(&parts["optimizer"], 3),
        number(&report["startup_s"], 3),
        megabytes(&report["peak_rss_bytes"]),
        megabytes(&report["memory_plan_peak_bytes"]),
    )
}
