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
    let upper = match family.windows {
        Windows::Upper if keys.flag("use_sliding_window", false)? => {
            Some(keys.number_or("max_window_layers", 0.0)?)
        }
        _ => None,
    };
    let pattern = match family.windows {
        Windows::Pattern(usual) => {
            let key = ["sliding_window_pattern", "_sliding_window_pattern"]
                .into_iter()
                .find(|key| keys.present(key).is_some());
            key.map_or(Ok(usual), |key| keys.size(key))?
        }
        _ => 1,
    };
    let window = match keys.present("sliding_window") {
        Some(_) => Some(keys.size("sliding_window")?),
        None => None,
    };
    let interval = keys.size_or("full_attention_interval", 4)?;
    let has_delta = family.windows == Windows::Delta;
    let slides = |layer: usize| -> bool {
        match (&types, family.windows) {
            (Some(types), _) => types[layer] == "sliding_attention",
            (None, Windows::No | Windows::Delta) => false,
            (None, Windows::All) => true,
            (None, Windows::Upper) => upper.is_some_and(|first| layer as f64 >= first),
            (None, Windows::Pattern(_)) => !(layer + 1).is_multiple_of(pattern),
        }
    };
    let kind = |layer: usize| {
        let is_delta = match types.as_ref().map(|types| types[layer]) {
            None => has_delta && !(layer + 1).is_multiple_of(interval),
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
