//! Metrics to a Python package while a run goes: a process of `to_wandb.py` that follows `metrics.jsonl`.
//!
//! The package is the user's own, in the interpreter `$TEALIGHT_PYTHON` or `python3`; nothing of it is in this program.
//! The process ends when its standard input does, however this program ends, once it has told the package all rows.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use tealight_core::display::shortened;
use tealight_core::interpreter;

/// The script that the interpreter runs.
const SCRIPT: &str = include_str!("to_wandb.py");
/// How long the package may take to be imported and to begin a run.
const BEGIN: Duration = Duration::from_secs(120);
/// How long it may take to end one.
const END: Duration = Duration::from_secs(120);
/// Longest first line of the script.
const MAX_LINE: u64 = 1 << 16;

/// A running reporter.
pub struct Reporter {
    package: &'static str,
    child: Child,
    /// Held open for as long as the run goes.
    stdin: Option<ChildStdin>,
    /// Whether the package has begun a run.
    is_begun: bool,
}

impl Reporter {
    /// Whether a package can be imported, before there is a run to report.
    ///
    /// # Errors
    /// No interpreter, no such package in it.
    pub fn check(package: &'static str) -> Result<()> {
        let python = interpreter::name();
        let mut command = Command::new(&python);
        command.args(["-c", &interpreter::script(SCRIPT), ".", "--to", package, "--check"]);
        interpreter::guard(&mut command);
        let done = command.stdin(Stdio::null()).output();
        let done =
            done.with_context(|| format!("--report-to {package}: `{python}` does not start"))?;
        if done.status.success() {
            return Ok(());
        }
        let errors = String::from_utf8_lossy(&done.stderr);
        let last = errors.lines().rev().map(str::trim).find(|line| !line.is_empty());
        Err(not_usable(package, &python, &shortened(last.unwrap_or_default(), 300)))
    }

    /// Begins to report the run in `directory` to a package: `wandb` or `trackio`.
    ///
    /// # Errors
    /// No interpreter, no such package in it, a run that the package does not begin.
    pub fn start(package: &'static str, directory: &Path) -> Result<Self> {
        let python = interpreter::name();
        let mut command = Command::new(&python);
        command.args(["-c", &interpreter::script(SCRIPT)]).arg(directory);
        command.args(["--to", package, "--follow"]);
        interpreter::guard(&mut command);
        // An interrupt of the terminal is for the run, which ends the reporter in order.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("--report-to {package}: `{python}` does not start"))?;
        let stdin = child.stdin.take();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut reporter = Self { package, child, stdin, is_begun: false };
        let (send, first) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let Some(stdout) = stdout else { return };
            let mut stdout = BufReader::new(stdout);
            if stdout.by_ref().take(MAX_LINE).read_line(&mut line).is_ok() {
                // Whoever waits may have given up.
                let _ = send.send(line);
            }
            drop(std::io::copy(&mut stdout, &mut std::io::sink()));
        });
        let (send, errors) = channel();
        std::thread::spawn(move || {
            let Some(stderr) = stderr else { return };
            let mut last = String::new();
            for line in BufReader::new(stderr.take(1 << 30)).split(b'\n').map_while(Result::ok) {
                let line = shortened(String::from_utf8_lossy(&line).trim(), 300);
                if !line.is_empty() {
                    last = line;
                }
            }
            // The same.
            let _ = send.send(last);
        });
        match first.recv_timeout(BEGIN) {
            Ok(line) if line.trim() == "ready" => {
                reporter.is_begun = true;
                Ok(reporter)
            }
            Ok(_) | Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
                let why = errors.recv_timeout(Duration::from_secs(5)).unwrap_or_default();
                Err(not_usable(package, &python, &why))
            }
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                bail!("--report-to {package}: no run was begun within {} s", BEGIN.as_secs())
            }
        }
    }
}

fn not_usable(package: &str, python: &str, why: &str) -> anyhow::Error {
    anyhow!(
        "--report-to {package}: {why}; `{python}` must have the package (pip install {package}), or TEALIGHT_PYTHON name one \
         that has"
    )
}

impl Drop for Reporter {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let ended = Instant::now();
        while self.is_begun && ended.elapsed() < END {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(50)),
                Ok(Some(status)) if status.success() => return,
                _ => break,
            }
        }
        if self.is_begun {
            tracing::warn!(
                "--report-to {}: the reporter did not end in order; the metrics are in metrics.jsonl, and scripts/to-wandb \
             reports them again",
                self.package
            );
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
