//! A folder with a dataset -> its files.

use std::path::{Path, PathBuf};

use tealight_core::names::{FORMATS, extension, is_of_dataset};

use crate::{DataError, Result};

/// The files of the dataset that lies in a folder, by name: those of one split; and a note on files in folders of it.
pub(crate) fn files_in(folder: &Path) -> Result<(Vec<PathBuf>, Option<String>)> {
    let io = |source| DataError::Io { path: folder.into(), source };
    let wrong = |what: String| DataError::File { path: folder.into(), what };
    let (mut names, mut folders) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        let name = entry.file_name().into_string().unwrap_or_default();
        if ["state.json", "dataset_dict.json"].contains(&name.as_str()) {
            return Err(wrong(
                "a folder that `save_to_disk` of datasets wrote: write Parquet with `to_parquet`"
                    .into(),
            ));
        }
        if is_of_dataset(&name) && !name.starts_with('.') && !BESIDE.contains(&name.as_str()) {
            names.push(name);
        } else if entry.path().is_dir() && !name.starts_with('.') {
            folders.push(name);
        }
    }
    names.sort_unstable();
    folders.sort_unstable();
    let Some(first) = names.first() else {
        let inner = match folders.is_empty() {
            true => String::new(),
            false => format!("; name a folder or a file in it: {}", shown(&folders)),
        };
        return Err(wrong(format!("a folder without a file {FORMATS}{inner}")));
    };
    // `train-00000-of-00002.parquet` and its like belong together; `train.jsonl` and `test.jsonl` do not, nor
    // `gsm8k_train.jsonl` and `gsm8k_test.jsonl`.
    let split = |name: &str| -> Vec<String> {
        let name = name.to_lowercase();
        let start = name.chars().take_while(|c| c.is_alphabetic()).collect();
        let words = name.split(|c: char| !c.is_alphabetic()).filter(|word| SPLITS.contains(word));
        std::iter::once(start).chain(words.map(str::to_owned)).collect()
    };
    whole_set(&names).map_err(wrong)?;
    if let Some((name, of)) = names.iter().find_map(|name| Some((name, original(name, &names)?))) {
        return Err(wrong(format!(
            "`{name}` may be a copy of `{of}`, whose rows would be read twice: remove it, or name one of the two"
        )));
    }
    // `train.jsonl.gz` is `train.jsonl` once more.
    let format = |name: &str| {
        let packing = name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
        (extension(Path::new(name)), packing)
    };
    match names.iter().find(|name| split(name) != split(first) || format(name) != format(first)) {
        None => Ok((names.iter().map(|name| folder.join(name)).collect(), note(folder, &folders))),
        Some(other) => Err(wrong(format!(
            "a folder with `{first}` and `{other}`, which may be several splits: name one of its files"
        ))),
    }
}

/// The file that a browser or a file manager copied, by the copy's name: `train (1).jsonl`, `train copy.jsonl`.
fn original<'n>(name: &str, names: &'n [String]) -> Option<&'n String> {
    let numbered = name.split_once(" (").and_then(|(start, rest)| {
        let (number, end) = rest.split_once(')')?;
        // `aime (2024).jsonl` is another file.
        (number.len() < 3 && number.parse::<u8>().is_ok()).then_some((start, end))
    });
    let worded = [" copy", " - Copy"].into_iter().find_map(|word| name.split_once(word));
    let (start, end) = numbered.or(worded)?;
    names.iter().find(|other| **other == format!("{start}{end}"))
}

/// Names of folders, for a message.
fn shown(folders: &[String]) -> String {
    let quoted = folders.iter().map(|name| format!("`{}`", name.escape_debug()));
    quoted.take(SHOWN).collect::<Vec<_>>().join(", ")
}

/// That folders have files of a dataset too, which are not read.
fn note(folder: &Path, folders: &[String]) -> Option<String> {
    let has_data = |name: &&String| {
        let entries = std::fs::read_dir(folder.join(name)).into_iter().flatten().flatten();
        entries.take(MOST).any(|entry| {
            let name = entry.file_name().into_string().unwrap_or_default();
            is_of_dataset(&name) && !BESIDE.contains(&name.as_str())
        })
    };
    let with_data: Vec<String> = folders.iter().take(MOST).filter(has_data).cloned().collect();
    let (at, shown) = (folder.display(), shown(&with_data));
    (!with_data.is_empty()).then(|| format!("{at}: the files in its folders are not read: {shown}"))
}

/// Folders, and entries of each, that are looked at.
const MOST: usize = 100;

/// Words of files' names that say which split they are.
const SPLITS: [&str; 9] =
    ["train", "test", "valid", "validation", "val", "dev", "eval", "heldout", "held"];

/// Names of folders that a message lists, at most.
const SHOWN: usize = 6;
/// Files of a dataset's folder that hold no rows.
const BESIDE: [&str; 3] = ["dataset_info.json", "dataset_infos.json", "stats.json"];

/// Refuses shards such as `train-00000-of-00002.parquet` some of which are missing, or of two ways to divide the rows.
fn whole_set(names: &[String]) -> std::result::Result<(), String> {
    let number = |name: &str| -> Option<(String, usize)> {
        let (start, rest) = name.rsplit_once("-of-")?;
        let count =
            rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()?;
        Some((start.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned(), count))
    };
    let Some((first, (start, count))) = names.iter().find_map(|name| Some((name, number(name)?)))
    else {
        return Ok(());
    };
    if let Some(other) =
        names.iter().find(|name| number(name).is_some_and(|(of, n)| of == start && n != count))
    {
        return Err(format!(
            "`{first}` and `{other}` divide the same rows in two ways: name the files of one"
        ));
    }
    let found = names.iter().filter(|name| number(name).is_some_and(|(of, _)| of == start)).count();
    match found < count {
        true => Err(format!(
            "{found} of the {count} parts that `{first}` belongs to: fetch the others, or name a file"
        )),
        false => Ok(()),
    }
}
