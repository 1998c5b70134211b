//! The filter `tojson` of chat templates, which writes what Python's `json.dumps` writes.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use super::template_python::python_float;

/// Keyword arguments of `json.dumps` that transformers lets templates set.
struct Style {
    ensure_ascii: bool,
    sort_keys: bool,
    /// What each level of nesting begins its lines with.
    indent: Option<String>,
    separators: (String, String),
}

/// The filter.
pub(super) fn tojson(
    value: &Value,
    ensure_ascii: Option<bool>,
    indent: Option<Value>,
    options: Kwargs,
) -> Result<Value, Error> {
    let given = |name: &str| options.get::<Option<Value>>(name);
    let indent = match indent.or(given("indent")?).filter(|indent| !indent.is_none()) {
        None => None,
        Some(indent) => Some(match indent.as_str() {
            Some(text) => text.to_owned(),
            None => " ".repeat(usize::try_from(indent)?.min(64)),
        }),
    };
    let separators = match given("separators")?.filter(|pair| !pair.is_none()) {
        None => ((if indent.is_some() { "," } else { ", " }).to_owned(), ": ".to_owned()),
        Some(separators) => pair(&separators)?,
    };
    let is_set = |name: &str| Ok::<_, Error>(given(name)?.is_some_and(|value| value.is_true()));
    let ensure_ascii = match ensure_ascii {
        Some(given) => given,
        None => is_set("ensure_ascii")?,
    };
    let style = Style { ensure_ascii, sort_keys: is_set("sort_keys")?, indent, separators };
    options.assert_all_used()?;
    let mut text = String::new();
    write(value, &style, 0, &mut text)?;
    Ok(Value::from(text))
}

/// Two texts.
fn pair(value: &Value) -> Result<(String, String), Error> {
    let parts: Vec<Value> = value.try_iter()?.take(3).collect();
    match parts.as_slice() {
        [first, second] => match (first.as_str(), second.as_str()) {
            (Some(first), Some(second)) => Ok((first.to_owned(), second.to_owned())),
            _ => Err(invalid("`separators` of tojson are two texts")),
        },
        _ => Err(invalid("`separators` of tojson are two texts")),
    }
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.to_owned())
}

fn write(value: &Value, style: &Style, depth: usize, out: &mut String) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Undefined => return Err(invalid("an undefined value is not JSON")),
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number if value.is_integer() => out.push_str(&value.to_string()),
        ValueKind::Number => match f64::try_from(value.clone()) {
            Ok(number) if number.is_nan() => out.push_str("NaN"),
            Ok(number) if number.is_infinite() => {
                out.push_str(if number > 0.0 { "Infinity" } else { "-Infinity" });
            }
            Ok(number) => out.push_str(&python_float(number)),
            Err(_) => out.push_str(&value.to_string()),
        },
        ValueKind::String => quote(value.as_str().unwrap_or_default(), style, out),
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if style.sort_keys {
                keys.sort_by_key(ToString::to_string);
            }
            enclosed(('{', '}'), &keys, style, depth, out, |key, out| {
                match key.kind() {
                    ValueKind::String => quote(key.as_str().unwrap_or_default(), style, out),
                    ValueKind::None => out.push_str("\"null\""),
                    ValueKind::Bool => {
                        out.push_str(if key.is_true() { "\"true\"" } else { "\"false\"" });
                    }
                    _ => quote(&key.to_string(), style, out),
                }
                out.push_str(&style.separators.1);
                write(&value.get_item(key)?, style, depth + 1, out)
            })?;
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            enclosed(('[', ']'), &items, style, depth, out, |item, out| {
                write(item, style, depth + 1, out)
            })?;
        }
        _ => return Err(invalid("a value of this kind is not JSON")),
    }
    Ok(())
}

fn enclosed(
    (open, close): (char, char),
    items: &[Value],
    style: &Style,
    depth: usize,
    out: &mut String,
    mut item: impl FnMut(&Value, &mut String) -> Result<(), Error>,
) -> Result<(), Error> {
    let line = |depth: usize, out: &mut String| {
        if let Some(indent) = style.indent.as_ref().filter(|_| !items.is_empty()) {
            out.push('\n');
            (0..depth).for_each(|_| out.push_str(indent));
        }
    };
    out.push(open);
    for (index, value) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(&style.separators.0);
        }
        line(depth + 1, out);
        item(value, out)?;
    }
    line(depth, out);
    out.push(close);
    Ok(())
}

fn quote(text: &str, style: &Style, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            character if character < ' ' || (style.ensure_ascii && !character.is_ascii()) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            character => out.push(character),
        }
    }
    out.push('"');
}
