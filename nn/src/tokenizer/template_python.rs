//! What chat templates use of Python and Jinja that minijinja has otherwise, or not at all.

use minijinja::value::{Kwargs, Tuple, ValueKind, from_args};
use minijinja::{Environment, Error, ErrorKind, State, Value, escape_formatter};

use super::{template_filters, template_json};

/// Adds tests, filters and methods, and writes values as Python does.
pub(super) fn add(environment: &mut Environment<'_>) {
    // Python does not iterate over None, and texts and dictionaries have a length and items.
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    environment.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::String | ValueKind::Map | ValueKind::Seq)
    });
    environment.add_test("callable", |value: &Value| value.kind() == ValueKind::Plain);
    environment.add_filter("tojson", template_json::tojson);
    template_filters::add(environment);
    environment.add_filter("string", |value: &Value| match value.kind() {
        ValueKind::String => Ok::<Value, Error>(value.clone()),
        _ => Ok(shown(value)?.into()),
    });
    // Python's breaks lines by rules of its own.
    environment.remove_filter("pprint");
    environment.add_filter("wordcount", |text: &str| {
        let words = text.split(|one: char| !one.is_alphanumeric() && one != '_');
        words.filter(|word| !word.is_empty()).count()
    });
    environment.add_filter("center", |text: &str, width: Option<usize>| {
        padded(text, width.unwrap_or(80), ' ', Side::Both)
    });
    environment.set_formatter(|out, state, value| match holds_float(value)? {
        true => Ok(out.write_str(&shown(value)?)?),
        false => escape_formatter(out, state, value),
    });
    environment.set_unknown_method_callback(method);
}

fn is_float(value: &Value) -> bool {
    value.kind() == ValueKind::Number && !value.is_integer()
}

/// Most parts of a value that is written, each as often as it stands there: more are more text than a template may
/// write. A list that holds one list twice, sixty deep, is small in memory.
const MAX_PARTS: usize = 1 << 21;

/// Whether a number of this value is written otherwise in Python: a float, or one in a list or dictionary.
fn holds_float(value: &Value) -> Result<bool, Error> {
    fn holds(value: &Value, left: &mut usize) -> Result<bool, Error> {
        *left = left.checked_sub(1).ok_or_else(|| {
            invalid(&format!("a value of more than {MAX_PARTS} parts is written, the limit"))
        })?;
        let is_map = match value.kind() {
            ValueKind::Seq => false,
            ValueKind::Map => true,
            _ => return Ok(is_float(value)),
        };
        for item in value.try_iter().into_iter().flatten() {
            let found = match is_map {
                true => is_float(&item) || holds(&value.get_item(&item).unwrap_or_default(), left)?,
                false => holds(&item, left)?,
            };
            if found {
                return Ok(true);
            }
        }
        Ok(false)
    }
    holds(value, &mut { MAX_PARTS })
}

/// A value as Python's `str` writes it.
pub(super) fn shown(value: &Value) -> Result<String, Error> {
    if !holds_float(value)? {
        return Ok(value.to_string());
    }
    // What stands in a list is written as Python's `repr`.
    let item = |value: &Value| match value.as_str() {
        Some(_) => Ok(format!("{value:?}")),
        None => shown(value),
    };
    let items = || value.try_iter().into_iter().flatten();
    Ok(match value.kind() {
        ValueKind::Seq => {
            let items: Vec<String> = items().map(|one| item(&one)).collect::<Result<_, _>>()?;
            match (value.is_tuple(), items.as_slice()) {
                (true, [one]) => format!("({one},)"),
                (true, items) => format!("({})", items.join(", ")),
                (false, items) => format!("[{}]", items.join(", ")),
            }
        }
        ValueKind::Map => {
            let entry = |key: Value| {
                let value = value.get_item(&key).unwrap_or_default();
                Ok(format!("{}: {}", item(&key)?, item(&value)?))
            };
            let entries: Vec<String> = items().map(entry).collect::<Result<_, Error>>()?;
            format!("{{{}}}", entries.join(", "))
        }
        _ => f64::try_from(value.clone()).map_or_else(|_| value.to_string(), python_float),
    })
}

/// A 64-bit number as Python writes it: `1e-05`, `1e+16`, `0.0001`, `2.0`.
pub(super) fn python_float(number: f64) -> String {
    if !number.is_finite() {
        return if number.is_nan() {
            "nan"
        } else if number > 0.0 {
            "inf"
        } else {
            "-inf"
        }
        .into();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or(0) {
        exponent @ -4..16 => {
            let plain = format!("{number}");
            let is_whole = exponent >= 0 && !plain.contains('.');
            if is_whole { format!("{plain}.0") } else { plain }
        }
        exponent => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
    }
}

/// Where a text stands in a wider one.
#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
    Both,
}

/// Most characters of a text that is filled up.
const MAX_WIDTH: usize = 1 << 16;

fn padded(text: &str, width: usize, fill: char, side: Side) -> String {
    let missing = width.min(MAX_WIDTH).saturating_sub(text.chars().count());
    let before = match side {
        Side::Left => 0,
        Side::Right => missing,
        // CPython's: of an odd number the one more is before a text in an odd width.
        Side::Both => missing / 2 + (missing & width & 1),
    };
    let fill = |count: usize| std::iter::repeat_n(fill, count);
    fill(before).chain(text.chars()).chain(fill(missing - before)).collect()
}

/// A method of a text, else one that minijinja's own collection has.
fn method(
    state: &mut State<'_, '_>,
    value: &Value,
    name: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let found = match (value.kind(), name) {
        (ValueKind::String, _) => of_text(value.as_str().unwrap_or_default(), name, args)?,
        (ValueKind::Seq | ValueKind::Map, "copy") => Some(value.clone()),
        (ValueKind::Seq, "index") => {
            let (wanted,): (Value,) = from_args(args)?;
            let at = value.try_iter()?.position(|item| item == wanted);
            Some(at.ok_or_else(|| invalid("the list does not have the item"))?.into())
        }
        _ => None,
    };
    match found {
        Some(result) => Ok(result),
        None => minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args),
    }
}

/// The result of a method that is written here.
fn of_text(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let list = |parts: Vec<&str>| Some(Value::from_iter(parts));
    let triple = |parts: [&str; 3]| Some(Value::from(Tuple::from(parts.map(Value::from))));
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
            triple([before, found, after])
        }
        "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            let (before, after) = text.rsplit_once(separator).unwrap_or(("", text));
            let found = if text.contains(separator) { separator } else { "" };
            triple([before, found, after])
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
                (None, Some(most)) => list(words(text, most, name == "rsplit")),
            }
        }
        _ => return of_characters(text, name, args),
    })
}

/// The result of a method of the places and letters of characters.
fn of_characters(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(match name {
        "startswith" | "endswith" if args.len() > 1 => {
            let (part, start, end): (&str, i64, Option<i64>) = from_args(args)?;
            let count = text.chars().count() as i64;
            let place = |at: i64| (if at < 0 { count + at } else { at }).clamp(0, count) as usize;
            let (start, end) = (place(start), place(end.unwrap_or(count)));
            let part_of: String =
                text.chars().skip(start).take(end.saturating_sub(start)).collect();
            let is_so = if name == "startswith" {
                part_of.starts_with(part)
            } else {
                part_of.ends_with(part)
            };
            Some(is_so.into())
        }
        "ljust" | "rjust" | "center" => {
            let (width, fill): (usize, Option<char>) = from_args(args)?;
            let side = match name {
                "ljust" => Side::Left,
                "rjust" => Side::Right,
                _ => Side::Both,
            };
            Some(padded(text, width, fill.unwrap_or(' '), side).into())
        }
        "zfill" => {
            let (width,): (usize,) = from_args(args)?;
            let digits = text.trim_start_matches(['-', '+']);
            let (sign, digits) = match text.len() - digits.len() {
                1 => text.split_at(1),
                _ => ("", text),
            };
            let rest = width.saturating_sub(sign.len());
            Some(format!("{sign}{}", padded(digits, rest, '0', Side::Right)).into())
        }
        "swapcase" => {
            let swapped = text.chars().flat_map(|one| -> Vec<char> {
                match one.is_uppercase() {
                    true => one.to_lowercase().collect(),
                    false => one.to_uppercase().collect(),
                }
            });
            Some(swapped.collect::<String>().into())
        }
        "casefold" => Some(text.to_lowercase().replace('ß', "ss").into()),
        _ => None,
    })
}

/// The first `most` words of a text and what remains, or the last ones.
fn words(text: &str, most: usize, from_end: bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        rest = if from_end { rest.trim_end() } else { rest.trim_start() };
        let at =
            if from_end { rest.rfind(char::is_whitespace) } else { rest.find(char::is_whitespace) };
        match at.filter(|_| parts.len() < most) {
            Some(at) if from_end => {
                let (before, word) = rest.split_at(at);
                // The white space that ends `before` may take several bytes.
                let word = word.trim_start();
                parts.push(word);
                rest = before;
            }
            Some(at) => {
                parts.push(&rest[..at]);
                rest = &rest[at..];
            }
            None => break,
        }
    }
    if !rest.is_empty() {
        parts.push(rest);
    }
    if from_end {
        parts.reverse();
    }
    parts
}

pub(super) fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.to_owned())
}
