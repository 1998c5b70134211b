//! Running the binary, and a folder to run it in.

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;

/// The words of a command line, which blanks part.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// The words of a command line that is formatted like a text.
macro_rules! command {
    ($($line:tt)*) => { &$crate::support::binary::words(&format!($($line)*))[..] };
}
pub(crate) use command;

pub(crate) fn tealight(arguments: &[&str]) -> Output {
    let mut command = Command::cargo_bin("tealight").expect("the binary");
    // No run of the tests is remembered as the user's own.
    command.env("RUST_BACKTRACE", "0").env("XDG_STATE_HOME", "/dev/null");
    command.args(arguments).output().expect("runs")
}

/// Its standard error.
pub(crate) fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Its standard output.
pub(crate) fn stdout_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The output of a command that must succeed.
pub(crate) fn succeeded(arguments: &[&str]) -> Output {
    let done = tealight(arguments);
    assert!(done.status.success(), "{arguments:?}: {}", stderr_of(&done));
    done
}

/// The messages of a command that must succeed.
pub(crate) fn ok(arguments: &[&str]) -> String {
    stderr_of(&succeeded(arguments))
}

/// The standard output of a command that must succeed.
pub(crate) fn printed(arguments: &[&str]) -> String {
    stdout_of(&succeeded(arguments))
}

/// The binary with a Hub of the tests and a cache of its own, without a token; a client that hangs is killed.
pub(crate) fn on_hub(endpoint: &str, home: &Path) -> Command {
    let mut command = Command::cargo_bin("tealight").expect("the binary");
    for name in ["HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE"] {
        command.env_remove(name);
    }
    command.env("HF_HOME", home).env("HF_ENDPOINT", endpoint).env("RUST_BACKTRACE", "0");
    command.timeout(std::time::Duration::from_secs(120));
    command
}

/// Whether a command succeeds, and its messages.
pub(crate) fn ended(command: &mut Command) -> (bool, String) {
    let done = command.output().expect("runs");
    (done.status.success(), stderr_of(&done))
}

/// The message of a command that must fail: one line that starts with `error:` besides announcements.
pub(crate) fn refusal(arguments: &[&str]) -> String {
    let output = tealight(arguments);
    let stderr = stderr_of(&output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(output.stdout.is_empty());
    let errors: Vec<&str> = stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{stderr}");
    assert_eq!(stderr.lines().last(), Some(errors[0]), "{stderr}");
    errors[0].to_owned()
}

/// A command, formatted like a text, that must fail with a message that has these parts: `refused!("eval -n {n}" =>
/// "part", "another")`.
macro_rules! refused {
    ($line:literal $(, $arg:expr)* => $($part:expr),+) => {{
        let error = $crate::support::binary::refusal(
            $crate::support::binary::command!($line $(, $arg)*)
        );
        $crate::support::binary::has(&error, &[$(AsRef::<str>::as_ref(&$part)),+]);
    }};
}
pub(crate) use refused;

/// A text must have all of these parts.
#[track_caller]
pub(crate) fn has<Part: AsRef<str>>(text: &str, parts: &[Part]) {
    for part in parts.iter().map(AsRef::as_ref) {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
}

pub(crate) struct Folder(pub(crate) tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.path().join(name), contents).expect("written");
        self.path(name)
    }
}
