//! The embedded model as files, and copies of it that tests change.

use std::path::Path;

use super::binary::Folder;
use super::hub::Files;
use super::runs::json;

/// Its files by name.
pub(crate) fn files() -> Files {
    files_of("countdown")
}

fn files_of(model: &str) -> Files {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("models").join(model);
    let entries = std::fs::read_dir(folder).expect("the model").flatten();
    let name = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    entries.map(|one| (name(&one), std::fs::read(one.path()).expect("readable"))).collect()
}

/// A copy of it in `folder`, with some files in another form.
pub(crate) fn copied(folder: &Folder, name: &str, changed: &[(&str, Vec<u8>)]) -> String {
    copy_of("countdown", folder, name, changed)
}

/// The same of another embedded model.
pub(crate) fn copy_of(
    model: &str,
    folder: &Folder,
    name: &str,
    changed: &[(&str, Vec<u8>)],
) -> String {
    std::fs::create_dir_all(folder.path(name)).expect("a folder");
    let changed = changed.iter().map(|(file, bytes)| ((*file).to_owned(), bytes.clone()));
    for (file, bytes) in files_of(model).into_iter().chain(changed) {
        folder.write(&format!("{name}/{file}"), bytes);
    }
    folder.path(name)
}

/// A copy with a context of 1024 tokens: prompts of questions do not fit its own.
pub(crate) fn roomy_model(folder: &Folder) -> String {
    let place = copied(folder, "roomy", &[]);
    let mut config = json(format!("{place}/config.json"));
    config["max_position_embeddings"] = 1024.into();
    folder.write("roomy/config.json", config.to_string());
    place
}
