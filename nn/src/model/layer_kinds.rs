//! The differences between layers of a model: windows, positions, and token mixers.

use anyhow::{Result, bail};

use super::architecture::LayerKind;
use super::family::{Family, Windows};
use super::keys::Keys;

/// The kinds of all layers.
pub(super) fn layers(
    keys: &Keys<'_>,
    family: &Family,
    count: usize,
    ropes: usize,
) -> Result<Vec<LayerKind>> {
    let types = keys.texts("layer_types", count)?;
    let turns = keys.numbers("no_rope_layers", count)?;
    let turns_at_all = match keys.present("position_embedding_type") {
        Some(_) => keys.text("position_embedding_type")? == "rope",
        None => !family.asks_for_rope,
    };
    let sees_window = match family.windows {
        Windows::Chosen => keys.flag("use_sliding_window")?,
        _ => true,
    };
    let slides = |layer: usize| match (&types, family.windows) {
        (Some(types), _) => types[layer] == "sliding_attention",
        (None, windows) => windows == Windows::All,
    };
    let has_window = keys.present("sliding_window").is_some() && sees_window;
    let window = match has_window && (0..count).any(slides) {
        true => Some(keys.size("sliding_window")?),
        false => None,
    };
    let has_delta = family.windows == Windows::Delta;
    let kind = |layer: usize| {
        let is_delta = match types.as_ref().map(|types| types[layer]) {
            None => false,
            Some("linear_attention") if has_delta => true,
            Some("full_attention" | "attention" | "sliding_attention") => false,
            Some(other) => bail!("layers of the type `{other}` are not supported"),
        };
        if is_delta {
            return Ok(LayerKind::Delta);
        }
        let slides = slides(layer);
        // Layers with a window have the second rotation where there are two.
        let rope = if slides { ropes - 1 } else { 0 };
        let knows_positions =
            turns_at_all && turns.as_ref().is_none_or(|turns| turns[layer] != 0.0);
        Ok(LayerKind::Attention {
            window: window.filter(|_| slides),
            rope: knows_positions.then_some(rope),
        })
    };
    (0..count).map(kind).collect()
}
