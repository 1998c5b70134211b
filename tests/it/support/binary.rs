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

/// Words of a command: a list of them, or a text that blanks part.
pub(crate) trait Words {
    fn words(&self) -> Vec<&str>;
}

impl Words for [&str] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl<const N: usize> Words for [&str; N] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Words for Vec<&str> {
    fn words(&self) -> Vec<&str> {
        self.clone()
    }
}

impl Words for str {
    fn words(&self) -> Vec<&str> {
        words(self)
    }
}

impl Words for String {
    fn words(&self) -> Vec<&str> {
        words(self)
    }
}

/// The binary; no run of the tests is remembered as the user's own.
pub(crate) fn program() -> Command {
    let mut command = Command::cargo_bin("tealight").expect("the binary");
    command.env("RUST_BACKTRACE", "0").env("XDG_STATE_HOME", "/dev/null");
    command
}

pub(crate) fn tealight(arguments: &(impl Words + ?Sized)) -> Output {
    program().args(arguments.words()).output().expect("runs")
}

/// The binary in a folder, with variables set.
pub(crate) fn tealight_in(folder: &Path, set: &[(&str, &str)], line: &str) -> Output {
    program()
        .current_dir(folder)
        .envs(set.iter().copied())
        .args(words(line))
        .output()
        .expect("runs")
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
#[track_caller]
pub(crate) fn succeeded(arguments: &(impl Words + ?Sized)) -> Output {
    let done = tealight(arguments);
    assert!(done.status.success(), "{:?}: {}", arguments.words(), stderr_of(&done));
    done
}

/// The messages of a command that must succeed.
#[track_caller]
pub(crate) fn ok(arguments: &(impl Words + ?Sized)) -> String {
    stderr_of(&succeeded(arguments))
}

/// The standard output of a command that must succeed.
#[track_caller]
pub(crate) fn printed(arguments: &(impl Words + ?Sized)) -> String {
    stdout_of(&succeeded(arguments))
}

/// The binary with a Hub of the tests and a cache of its own, without a token; a client that hangs is killed.
pub(crate) fn on_hub(endpoint: &str, home: &Path) -> Command {
    let mut command = program();
    for name in ["HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE"] {
        command.env_remove(name);
    }
    command.env("HF_HOME", home).env("HF_ENDPOINT", endpoint);
    command.timeout(std::time::Duration::from_secs(120));
    command
}

/// A brief evaluation with a Hub of the tests.
pub(crate) fn evaluation(endpoint: &str, home: &Path, line: &str) -> Command {
    let mut command = on_hub(endpoint, home);
    command.args(words("eval -n 2 -k 1 --max-completion-length 4 --device cpu"));
    command.args(words(line));
    command
}

/// Whether a command succeeds, and its messages.
pub(crate) fn ended(command: &mut Command) -> (bool, String) {
    let done = command.output().expect("runs");
    (done.status.success(), stderr_of(&done))
}

/// The message of a command that must fail: one line that starts with `error:` besides announcements.
#[track_caller]
pub(crate) fn refusal(arguments: &(impl Words + ?Sized)) -> String {
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
