//! The embedded model with a longer context: prompts of questions do not fit its own.

use super::binary::Folder;

/// A copy of it in `folder`, with a context of 1024 tokens.
pub(crate) fn roomy_model(folder: &Folder) -> String {
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("models/countdown");
    let place = folder.path("roomy");
    std::fs::create_dir_all(&place).expect("a folder");
    for entry in std::fs::read_dir(source).expect("the embedded model").flatten() {
        let to = format!("{place}/{}", entry.file_name().to_string_lossy());
        std::fs::copy(entry.path(), to).expect("copied");
    }
    let file = format!("{place}/config.json");
    let text = std::fs::read_to_string(&file).expect("there");
    let mut config: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    config["max_position_embeddings"] = 1024.into();
    std::fs::write(&file, config.to_string()).expect("written");
    place
}
