//! `python:FILE.py:FUNCTION`: a function of the user's judges, `FUNCTION(gold, completion)`, or with these two in any
//! order where their names say which is which. It may also take `prompt`, `messages` and `id` by name, or be a function
//! of lists as TRL's trainers call it, `FUNCTION(completions, ...)`.
//!
//! Interpreters run as processes, as many as threads ask, by the protocol of `program:`; nothing is embedded. What the
//! function prints goes to standard error. A function that hangs is ended with its process and children; the
//! completion is then not judged, and a new process goes on. The folder of the file is searched for modules, the
//! current folder is not.

use std::path::Path;
use std::time::Duration;

use super::program::{Program, limited};
use tealight_core::{fnv, interpreter};

/// The script that the interpreter runs.
const DRIVER: &str = include_str!("python.py");
/// How long the file may take to be imported: libraries of tensors take their time.
const LOADING: Duration = Duration::from_secs(120);

/// The function of the advantages of a group of samples that `FILE.py:FUNCTION` names.
///
/// Its parameters are names of the rule language (docs/how-to/objective.md): arrays with one number for each sample, or
/// numbers. It returns one number for each sample.
///
/// # Errors
/// No such file or function, one that cannot be loaded, or one that needs a parameter of another name.
pub fn group_function(argument: &str) -> Result<Program, String> {
    open(argument, "advantages")
}

/// Opens `FILE.py:FUNCTION` or `timeout=SECONDS:FILE.py:FUNCTION`, which gives `what`: `verdicts`, `classes` (of
/// completions) or `advantages`. The interpreter is `$TEALIGHT_PYTHON`, or `python3`.
pub(super) fn open(argument: &str, what: &str) -> Result<Program, String> {
    let (timeout, rest) = limited(argument)?;
    let (file, function) = rest
        .rsplit_once(':')
        .filter(|(file, function)| !file.is_empty() && !function.is_empty())
        .ok_or("give the file and its function, as in python:grade.py:is_right")?;
    if !Path::new(file).is_file() {
        return Err(format!("{file}: no such file"));
    }
    let text = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    let name = Path::new(file).file_name().unwrap_or_default().display();
    let source = format!("{name} with the digest {:016x}", fnv(text));
    let (python, driver) = (interpreter::name(), interpreter::script(DRIVER));
    let arguments = [&python, "-u", "-c", &driver, file, function, what].map(str::to_owned);
    let shown = format!("{file}:{function}");
    Program::interpreter("python", &shown, arguments.into(), (timeout, LOADING), source)
}
