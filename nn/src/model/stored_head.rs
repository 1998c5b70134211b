//! Checkpoints that hold an output layer although their configuration ties it to the embedding.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use super::weights::{EMBEDDING, HEAD, Shard, files};
use super::{Architecture, text_part};

/// Unties an architecture whose checkpoint in `directory` has an output layer that differs from the embedding: the
/// stored layer is the model's, as transformers 5 has it. Whether it did.
///
/// # Errors
/// A truncated or malformed file.
pub fn untie(directory: &Path, architecture: &mut Architecture) -> Result<bool> {
    if !architecture.tied_embeddings {
        return Ok(false);
    }
    let mut bytes: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    let paths = files(directory)?;
    let shards = paths.iter().map(|path| Shard::open(path)).collect::<Result<Vec<_>>>()?;
    let is_named = |stored: &str, name: &str| {
        let renamed = text_part::name(stored);
        let stored = renamed.as_deref().unwrap_or(stored);
        stored == name || name.strip_prefix("model.") == Some(stored)
    };
    let has_head = |shard: &Shard| shard.infos().iter().any(|(stored, _)| is_named(stored, HEAD));
    if !shards.iter().any(has_head) {
        return Ok(false);
    }
    for mut shard in shards {
        for (stored, info) in shard.infos() {
            let name = [HEAD, EMBEDDING].into_iter().find(|name| is_named(&stored, name));
            let shape = [architecture.vocab_size, architecture.hidden_size];
            let Some(name) = name.filter(|_| info.shape == shape) else { continue };
            shard.check(name, &info)?;
            bytes.insert(name, shard.bytes(&info)?);
        }
    }
    let differs = matches!((bytes.get(HEAD), bytes.get(EMBEDDING)), (Some(a), Some(b)) if a != b);
    if differs {
        architecture.tied_embeddings = false;
        tracing::warn!(
            "{}: `{HEAD}` is stored and differs from the embedding, although tie_word_embeddings is true: the stored \
             layer is used, and saved",
            directory.display()
        );
    }
    Ok(differs)
}
