//! Whether a question needs a picture: in a column, in a part of a message, or in its text.

use serde_json::Value;

use super::chat::CONTENTS;
use super::{Row, json_array};

/// Columns of a picture, without which the question cannot be answered.
const PICTURES: [&str; 6] = ["image", "images", "Image", "Picture", "decoded_image", "image_1"];

/// The column of a row's picture.
pub(super) fn column(row: &Row) -> Option<&'static str> {
    PICTURES.into_iter().find(|name| is_picture(row.values.get(*name)))
}

/// Whether a message of a chat holds a picture.
pub(super) fn is_in_chat(value: &Value) -> bool {
    let is_picture = |part: &Value| {
        let kind = part.get("type").and_then(Value::as_str);
        kind.is_some_and(|kind| ["image", "image_url", "input_image"].contains(&kind))
    };
    let holds = |item: &Value| {
        let content = CONTENTS.iter().find_map(|name| item.get(name));
        content.and_then(Value::as_array).is_some_and(|parts| parts.iter().any(is_picture))
    };
    let parsed = value.as_str().and_then(json_array);
    let items = parsed.as_ref().or(value.as_array());
    items.is_some_and(|items| items.iter().any(holds))
}

/// Whether a text holds a picture's place: `<image>`, `<image 1>`, or Markdown's `![..](..)`.
pub(super) fn is_shown(text: &str) -> bool {
    let is_place = |rest: &str| {
        let end = rest.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ' ' | '_'));
        end.starts_with('>')
    };
    let has_place = text.split("<image").skip(1).any(is_place);
    let is_link =
        |rest: &str| rest.split_once("](").is_some_and(|(name, _)| !name.contains(['\n', ']']));
    has_place || text.split("![").skip(1).any(is_link)
}

fn is_picture(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(_) => true,
    }
}
