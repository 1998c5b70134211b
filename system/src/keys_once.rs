//! JSON whose objects name each key once: of two tensors, or two tokens, under one name, parsers keep one and say
//! nothing.

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Refuses JSON in which an object has a key twice.
pub fn check(bytes: &[u8]) -> serde_json::Result<()> {
    serde_json::from_slice(bytes).map(|KeysOnce| ())
}

/// Any value, of which nothing is kept.
struct KeysOnce;

impl<'de> Deserialize<'de> for KeysOnce {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for KeysOnce {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self, A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            entries.next_value::<Self>()?;
            if let Some(key) = seen.replace(key) {
                return Err(A::Error::custom(format_args!("`{key}` twice")));
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_twice_is_refused_at_any_depth_and_elsewhere_the_same_key_is_not() {
        check(br#"{"a": {"b": [1, -1, 1.5, "x", null, true]}, "b": {"a": {}}}"#).unwrap();
        let message = check(br#"{"a": [{"b": 1, "b": 2}]}"#).unwrap_err().to_string();
        assert!(message.contains("`b` twice at line 1"), "{message}");
        assert!(check(b"{").is_err());
    }
}
