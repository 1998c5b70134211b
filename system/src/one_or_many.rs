//! A list that settings files write as its one item where it has one, and leave out where it is empty: an option that
//! once took one value takes several, and files of before are read.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Deserialize)]
#[serde(untagged, expecting = "a value, or a list of values, of those that --help names")]
enum Form<T> {
    One(T),
    Many(Vec<T>),
}

/// Writes a list.
pub fn serialize<T: Serialize, S: Serializer>(items: &[T], to: S) -> Result<S::Ok, S::Error> {
    match items {
        [] => to.serialize_none(),
        [one] => one.serialize(to),
        many => many.serialize(to),
    }
}

/// Reads a list.
pub fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    Ok(match Option::<Form<T>>::deserialize(from)? {
        None => Vec::new(),
        Some(Form::One(one)) => vec![one],
        Some(Form::Many(many)) => many,
    })
}
