//! The user's Python as a child process that imports nothing from the current folder, which may be a stranger's.

use std::env;
use std::ffi::OsString;
use std::process::Command;

/// Begins every script. `python -c` puts the current folder first on the module search path, where a planted `json.py`
/// would run; `sys` is part of the interpreter. (`-P` does the same from Python 3.11 on alone, and `-I` hides packages
/// that `pip install --user` or `PYTHONPATH` provide.)
const SAFE_PATH: &str =
    "import sys; sys.path[:] = [folder for folder in sys.path if folder not in ('', '.')]\n";

/// The interpreter: `$TEALIGHT_PYTHON`, or `python3`.
pub fn name() -> String {
    let default = if cfg!(windows) { "python" } else { "python3" };
    env::var("TEALIGHT_PYTHON").unwrap_or_else(|_| default.into())
}

/// A script for `-c` that imports from the interpreter's own packages and from `PYTHONPATH`.
pub fn script(text: &str) -> String {
    format!("{SAFE_PATH}{text}")
}

/// Leaves the current folder out of the `PYTHONPATH` of a child: an empty or relative entry means a folder below
/// whatever folder the user is in, and Python imports `sitecustomize` from there before any script begins.
pub fn guard(command: &mut Command) {
    let Some(folders) = env::var_os("PYTHONPATH") else { return };
    match absolute(&folders) {
        Some(folders) => command.env("PYTHONPATH", folders),
        None => command.env_remove("PYTHONPATH"),
    };
}

/// The absolute entries of a search path; none where it has no such entry.
fn absolute(folders: &OsString) -> Option<OsString> {
    let folders: Vec<_> = env::split_paths(folders).filter(|folder| folder.is_absolute()).collect();
    // Entries of a search path hold no separator.
    env::join_paths(&folders).ok().filter(|_| !folders.is_empty())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn relative_entries_of_a_search_path_are_left_out() {
        for (given, left) in [
            (":/a:b::/c/d:.", Some("/a:/c/d")),
            ("/a", Some("/a")),
            ("", None),
            (":", None),
            ("src:./lib:..", None),
        ] {
            assert_eq!(absolute(&given.into()), left.map(OsString::from), "{given}");
        }
    }
}
