//! `tealight audit`.

use anyhow::Result;
use tealight_eval::number::counted;
use tealight_eval::report::audit_answers::{QUESTIONS, verdict};

use crate::app::audit::{self, AuditOptions, Audited};
use tealight_system::process::Process;
use tealight_system::telemetry::print;

/// Below the answers.
const EXPLAINED: &str = "\nDifferences are tuned model minus base; the main ones are tested together (Holm). pass@k: \
                         share of problems solved within k samples. docs/how-to/audit.md says how each answer is \
                         found.";

pub(in crate::cli) fn run(options: &AuditOptions, process: &Process) -> Result<()> {
    let Audited { audit, doubt } = audit::run(options, process)?;
    let text = match options.json {
        true => serde_json::to_string_pretty(&audit)?,
        false => {
            let answers = audit.tuned.iter().map(|tuned| {
                let answers = QUESTIONS.iter().zip(verdict(tuned)).zip(1..);
                let line = |((question, text), i)| format!("{i}. {question}\n   {text}");
                let lines: Vec<String> = answers.map(line).collect();
                format!("\n{} against {}\n{}", tuned.model, audit.models[0], lines.join("\n"))
            });
            let head =
                format!("{}, 95 % intervals over problems", counted(audit.problems, "problem"));
            std::iter::once(head)
                .chain(answers)
                .chain([EXPLAINED.into()])
                .collect::<Vec<_>>()
                .join("\n")
        }
    };
    print(text)?;
    doubt.map_or(Ok(()), |doubt| Err(doubt.into()))
}
