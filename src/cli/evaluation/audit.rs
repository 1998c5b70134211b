//! `tealight audit`.

use anyhow::Result;
use tealight_eval::number::counted;
use tealight_eval::report::audit_answers::verdict;

use crate::app::audit::{self, AuditOptions, Audited};
use crate::system::process::Process;
use crate::system::telemetry::print;

pub(in crate::cli) fn run(options: &AuditOptions, process: &Process) -> Result<()> {
    let Audited { audit, doubt } = audit::run(options, process)?;
    let text = match options.json {
        true => serde_json::to_string_pretty(&audit)?,
        false => {
            let answers = audit.tuned.iter().map(|tuned| {
                let answers = verdict(tuned).into_iter().zip(1..);
                let lines: Vec<String> = answers.map(|(text, i)| format!("{i}. {text}")).collect();
                format!("\n{} against {}\n{}", tuned.model, audit.models[0], lines.join("\n"))
            });
            let head =
                format!("{}, 95 % intervals over problems", counted(audit.problems, "problem"));
            std::iter::once(head).chain(answers).collect::<Vec<_>>().join("\n")
        }
    };
    print(text)?;
    doubt.map_or(Ok(()), |doubt| Err(doubt.into()))
}
