//! What chat templates use of Python and Jinja that minijinja has otherwise, or not at all.

use minijinja::value::{Kwargs, ValueKind, from_args};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use super::template_json;

/// Adds tests, filters and methods.
pub(super) fn add(environment: &mut Environment<'_>) {
    // Python does not iterate over None, and texts and dictionaries have a length and items.
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    environment.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::String | ValueKind::Map | ValueKind::Seq)
    });
    environment.add_filter("tojson", template_json::tojson);
    environment.set_unknown_method_callback(method);
}

/// A method of a text, else one that minijinja's own collection has.
fn method(
    state: &mut State<'_, '_>,
    value: &Value,
    name: &str,
    args: &[Value],
) -> Result<Value, Error> {
    match value.as_str().map(|text| of_text(text, name, args)).transpose()?.flatten() {
        Some(result) => Ok(result),
        None => minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args),
    }
}

/// The result of a method that is written here.
fn of_text(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let list = |parts: Vec<&str>| Some(Value::from_iter(parts));
    Ok(match name {
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Some(text.strip_prefix(prefix).unwrap_or(text).into())
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Some(text.strip_suffix(suffix).unwrap_or(text).into())
        }
        "partition" => {
            let (separator,): (&str,) = from_args(args)?;
            let (before, after) = text.split_once(separator).unwrap_or((text, ""));
            let found = if text.contains(separator) { separator } else { "" };
            list(vec![before, found, after])
        }
        "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            let (before, after) = text.rsplit_once(separator).unwrap_or(("", text));
            let found = if text.contains(separator) { separator } else { "" };
            list(vec![before, found, after])
        }
        "index" => {
            let (part,): (&str,) = from_args(args)?;
            let at = text.find(part).ok_or_else(|| invalid("substring not found"))?;
            Some(text[..at].chars().count().into())
        }
        "split" | "rsplit" => {
            let (separator, most, options): (Option<&str>, Option<i64>, Kwargs) = from_args(args)?;
            let most = match most {
                Some(most) => Some(most),
                None => options.get::<Option<i64>>("maxsplit")?,
            };
            options.assert_all_used()?;
            let most = most.and_then(|most| usize::try_from(most).ok());
            match (separator, most) {
                (Some(""), _) => return Err(invalid("empty separator")),
                (Some(separator), Some(most)) if name == "rsplit" => {
                    let mut parts: Vec<&str> = text.rsplitn(most + 1, separator).collect();
                    parts.reverse();
                    list(parts)
                }
                (Some(separator), Some(most)) => list(text.splitn(most + 1, separator).collect()),
                (Some(separator), None) => list(text.split(separator).collect()),
                (None, None) => list(text.split_whitespace().collect()),
                (None, Some(_)) => return Err(invalid("split by white space has no maxsplit")),
            }
        }
        _ => None,
    })
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.to_owned())
}
