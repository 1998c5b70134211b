//! Which settings of a run that is resumed are the folder's, which may be a stranger's, and not the user's.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Result, bail};
use clap::{ArgMatches, Args, FromArgMatches};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::app::{folder_settings, own_settings};
use crate::cli::config_merge;
use crate::cli::recipes;
use tealight_system::files::own_file;

/// Most links that are followed on the way to a file, as in Linux.
const MAX_LINKS: usize = 40;

/// Refuses settings that come from the folder that is resumed, and from nowhere else, where they could start a
/// program, read a file elsewhere, ask a server or send data: the folder may be a stranger's. A file that `--config`
/// names counts as the folder's where it, or a link on the way to it, lies there, and wherever it sets `output`: the
/// user alone says on the command line which folder is guarded. Settings that a command of this user wrote there are
/// the user's. `recorded` is the folder's own file with its text, where it was read.
pub(super) fn refuse_foreign<T>(
    matches: &ArgMatches,
    files: &[(&str, String)],
    folder: &Path,
    recorded: Option<(&str, &str)>,
    merged: &T,
) -> Result<()>
where
    T: Args + FromArgMatches + Serialize + DeserializeOwned,
{
    // A folder that is not there holds nothing.
    let home = folder.canonicalize().ok();
    let (mut own, mut foreign) = (Vec::new(), Vec::new());
    for (file, text) in files {
        let is_recipe = recipes::named(file)?.is_some();
        let is_inside = home.as_ref().is_some_and(|home| is_of(home, Path::new(file)));
        if !is_recipe && is_inside {
            own_file(folder, Path::new(file))?;
        }
        let is_own = is_recipe || (is_inside && own_settings::is_own(folder, text));
        if is_own || !(is_inside || config_merge::sets::<T>(file, text, "output")?) {
            own.push((*file, text.clone()));
        } else {
            foreign.push((*file).to_owned());
        }
    }
    let recorded = recorded.filter(|(_, text)| own_settings::is_own(folder, text));
    let own: T = config_merge::resolve_with(matches, recorded, &own)?;
    let flags = folder_settings::to_repeat(&own, merged)?;
    if flags.is_empty() {
        return Ok(());
    }
    if foreign.is_empty() {
        foreign.push(folder.join("config.toml").display().to_string());
    }
    let missing = flags.iter().find_map(|flag| missing_path(flag)).map_or(String::new(), |path| {
        format!(" (paths are relative to the folder where the run began: there is no {path} here)")
    });
    bail!(
        "{}: somebody else may have written this file, and it names programs, files, servers or data. If you mean these \
         settings, repeat them: {}{missing}",
        foreign.join(", "),
        flags.join(" ")
    )
}

/// The relative path that the value of a flag is, where nothing is there.
fn missing_path(flag: &str) -> Option<&str> {
    let value = flag.split_once(' ')?.1.trim_matches('\'');
    let function = value.strip_prefix("python:").and_then(|rest| rest.rsplit_once(':'));
    let path = function.map_or(value, |(file, _)| file.rsplit(':').next().unwrap_or(file));
    let is_path = Path::new(path).extension().is_some() || path.contains('/');
    let is_missing = Path::new(path).is_relative() && !path.contains([':', ' ']);
    (is_path && is_missing && !Path::new(path).exists()).then_some(path)
}

/// Whether `file` lies in the folder `home`, a path without links, or is reached over a link that does.
fn is_of(home: &Path, file: &Path) -> bool {
    if file.canonicalize().is_ok_and(|target| target.starts_with(home)) {
        return true;
    }
    let Ok(mut here) = Path::new(".").canonicalize() else { return true };
    let parts = |path: &Path| -> Vec<OsString> {
        path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
    };
    let (mut rest, mut links) = (parts(file), 0);
    while let Some(part) = rest.pop() {
        if part == ".." {
            here.pop();
            continue;
        }
        if part == "." {
            continue;
        }
        let next = here.join(&part);
        let Ok(target) = next.read_link() else {
            here = next;
            continue;
        };
        links += 1;
        if here.starts_with(home) || links > MAX_LINKS {
            return true;
        }
        rest.extend(parts(&target));
    }
    false
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_file_is_of_a_folder_where_it_or_a_link_on_the_way_lies() {
        let all = tempfile::tempdir().unwrap();
        let root = all.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        for folder in ["run", "other"] {
            std::fs::create_dir(at(folder)).unwrap();
        }
        for file in ["run/own.toml", "other/mine.toml"] {
            std::fs::write(at(file), "").unwrap();
        }
        for (target, link) in [
            ("../other/mine.toml", "run/out.toml"),
            ("../other", "run/folder"),
            ("nowhere", "run/nowhere.toml"),
            ("own.toml", "run/again.toml"),
            ("../run/own.toml", "other/in.toml"),
            ("../run/out.toml", "other/over.toml"),
            ("mine.toml", "other/apart.toml"),
        ] {
            symlink(target, at(link)).unwrap();
        }
        for (file, expected) in [
            ("run/own.toml", true),
            ("run/out.toml", true),
            ("run/folder/mine.toml", true),
            ("run/nowhere.toml", true),
            ("run/again.toml", true),
            ("other/in.toml", true),
            ("other/over.toml", true),
            ("other/mine.toml", false),
            ("other/apart.toml", false),
            ("run/../other/mine.toml", false),
        ] {
            assert_eq!(is_of(&at("run"), &at(file)), expected, "{file}");
        }
    }
}
