//! Whether a question needs a picture, video or sound: in a column, in a part of a message, or in its text.

use serde_json::Value;

use super::Row;
use super::chat::{CONTENTS, items};
use super::choice_columns::is_empty;
use super::known_columns::list;

/// Columns of a picture, without which the question cannot be answered.
const PICTURES: [&str; 6] = ["image", "images", "Image", "Picture", "decoded_image", "image_1"];

/// Columns that may hold the name of a file with a picture, video or sound.
const MEDIA: [&str; 12] =
    list("figure|figures|img|imgs|picture|pictures|video|videos|audio|audios|sound|Video");
/// Parts of messages that are no text.
const PARTS: [&str; 9] =
    list("image|image_url|input_image|video|video_url|input_video|audio|audio_url|input_audio");
/// Ends of the names of such files.
const ENDS: [&str; 14] =
    list(".png|.jpg|.jpeg|.gif|.webp|.bmp|.svg|.mp4|.webm|.avi|.mov|.wav|.mp3|.flac");

/// The column of a row's picture, video or sound.
pub(super) fn column(row: &Row) -> Option<&str> {
    let is_one = |(name, value): &(&String, &Value)| {
        PICTURES.contains(&name.as_str()) && is_picture(Some(value))
            || is_stored(value)
            || MEDIA.contains(&name.as_str()) && is_file(value)
    };
    row.values.iter().find(is_one).map(|(name, _)| name.as_str())
}

/// Whether a value is one of datasets' pictures, videos or sounds, or a list of them: bytes, or a path.
fn is_stored(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            let is_set = |name: &str| fields.get(name).is_some_and(|value| !value.is_null());
            let is_known = |name: &String| ["bytes", "path"].contains(&name.as_str());
            fields.len() == 2 && fields.keys().all(is_known) && (is_set("bytes") || is_set("path"))
        }
        Value::Array(items) => items.first().is_some_and(is_stored),
        _ => false,
    }
}

/// Whether a value names a file of a picture, video or sound, or holds one; or is a list of such.
fn is_file(value: &Value) -> bool {
    match value {
        Value::String(text) => {
            let name = text.trim().to_lowercase();
            ENDS.iter().any(|end| name.ends_with(end)) || name.starts_with("data:")
        }
        Value::Array(items) => items.first().is_some_and(is_file),
        Value::Object(fields) => !fields.is_empty(),
        _ => false,
    }
}

/// Whether a message of a chat holds a picture.
pub(super) fn is_in_chat(value: &Value) -> bool {
    let is_picture = |part: &Value| {
        let kind = part.get("type").and_then(Value::as_str);
        kind.is_some_and(|kind| PARTS.contains(&kind))
    };
    let holds = |item: &Value| {
        let content = CONTENTS.iter().find_map(|name| item.get(name));
        content.and_then(Value::as_array).is_some_and(|parts| parts.iter().any(is_picture))
    };
    items(value).is_some_and(|items| items.iter().any(holds))
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
    value.is_some_and(|value| !is_empty(value))
}
