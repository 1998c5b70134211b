//! JSON that somebody else wrote, to values: every number keeps its digits, and a key stands once in its object.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use tealight_core::display::shortened;

pub use crate::read::with_long_numbers;

/// Reads a text. A number with more digits than a 64-bit number holds becomes a text of those digits.
///
/// # Errors
/// Text that is not JSON, an object that has a key twice.
///
/// ```
/// let value = tealight_datasets::json::parse(r#"{"id": 123456789012345678901}"#).unwrap();
/// assert_eq!(value["id"], "123456789012345678901");
/// assert!(tealight_datasets::json::parse(r#"{"id": 1, "id": 2}"#).is_err());
/// ```
pub fn parse(text: &str) -> serde_json::Result<Value> {
    let text = with_long_numbers(text);
    let read = |text: &str| serde_json::from_str(text).map(|Unique(value)| value);
    read(&text).or_else(|error| without_half_pairs(&text).map_or(Err(error), |whole| read(&whole)))
}

/// The text with U+FFFD for halves of surrogate pairs: programs in Python write them where a model's token is a part of
/// a character, and no text here can hold them. None where there are none.
fn without_half_pairs(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let unit = |at: usize| -> Option<u16> {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let (mut whole, mut copied, mut at) = (String::new(), 0, 0);
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        let pair = (unit(at), unit(at + 6));
        at = match pair {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => at + 12,
            (Some(0xd800..=0xdfff), _) => {
                whole.push_str(&text[copied..at]);
                whole.push_str("\\ufffd");
                copied = at + 6;
                copied
            }
            // The letter behind a stroke is no stroke itself.
            _ => at + 2,
        };
    }
    whole.push_str(&text[copied..]);
    (copied > 0).then_some(whole)
}

/// A value whose objects have each key once.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                let key = shortened(&key, 64);
                return Err(A::Error::custom(format!("the key `{key}` occurs twice")));
            }
            let Unique(value) = entries.next_value()?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_serde_json_where_numbers_are_short() {
        for text in [
            r#"{"a": [1, -2, 0.5, 1e-7, true, null, "x\n"], "b": {"c": {}}}"#,
            "18446744073709551615",
            "-9223372036854775808",
            "-0.12345678901234567",
            "[]",
        ] {
            let plain: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse(text).unwrap(), plain, "{text}");
        }
        assert_eq!(parse("18446744073709551616").unwrap(), "18446744073709551616");
        assert_eq!(parse("-9223372036854775809").unwrap(), "-9223372036854775809");
        assert_eq!(parse("0.1234567890123456789").unwrap(), "0.1234567890123456789");
    }

    #[test]
    fn halves_of_pairs_become_replacement_characters() {
        for (text, expected) in [
            (r#""a\ud83d""#, "a\u{fffd}"),
            (r#""\ud83d\ude00\ude00b""#, "\u{1f600}\u{fffd}b"),
            (r#""\\ud83d""#, "\\ud83d"),
            (r#""\ud83d\n\ud83d\ude00""#, "\u{fffd}\n\u{1f600}"),
        ] {
            assert_eq!(parse(text).unwrap(), expected, "{text}");
        }
        assert!(parse(r#""\ud83d"#).is_err());
    }

    #[test]
    fn duplicate_keys_are_refused_at_every_depth() {
        for text in [r#"{"a": 1, "a": 1}"#, r#"[{"b": {"a": 1, "c": 2, "\u0061": 3}}]"#] {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.contains("the key `a` occurs twice"), "{message}");
        }
        assert!(parse(r#"{"a": 1} x"#).is_err());
        assert!(parse(&"[".repeat(1000)).is_err(), "the depth is limited");
    }
}
