//! Filters of Jinja that minijinja has otherwise, as Python writes them.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, State, Value, filters};

use super::template_python::{invalid, shown};

/// Adds the filters.
pub(super) fn add(environment: &mut Environment<'_>) {
    environment.add_filter("default", default);
    environment.add_filter("d", default);
    environment.add_filter("length", length);
    environment.add_filter("count", length);
    environment.add_filter("float", float);
    environment.add_filter("int", int);
    environment.add_filter("replace", replace);
    environment.add_filter("truncate", truncate);
    environment.add_filter("urlencode", urlencode);
}

/// The filter `default`, whose second argument has a name too.
fn default(
    value: &Value,
    other: Option<Value>,
    boolean: Option<bool>,
    options: Kwargs,
) -> Result<Value, Error> {
    let other = match other {
        Some(other) => other,
        None => options.get::<Option<Value>>("default_value")?.unwrap_or_else(|| "".into()),
    };
    let boolean = match boolean {
        Some(boolean) => boolean,
        None => options.get::<Option<bool>>("boolean")?.unwrap_or(false),
    };
    options.assert_all_used()?;
    let is_absent = value.is_undefined() || (boolean && !value.is_true());
    Ok(if is_absent { other } else { value.clone() })
}

/// The length of a value; of an undefined one 0, as of Jinja's.
fn length(value: &Value) -> Result<usize, Error> {
    match value.is_undefined() {
        true => Ok(0),
        false => value.len().ok_or_else(|| invalid("a value of this kind has no length")),
    }
}

/// A number; what is none is `other`.
fn float(value: &Value, other: Option<f64>, options: Kwargs) -> Result<f64, Error> {
    let other = match other {
        Some(other) => other,
        None => options.get::<Option<f64>>("default")?.unwrap_or(0.0),
    };
    options.assert_all_used()?;
    Ok(match value.as_str() {
        Some(text) => text.trim().parse().unwrap_or(other),
        None if value.kind() == ValueKind::Bool => f64::from(value.is_true()),
        None => f64::try_from(value.clone()).unwrap_or(other),
    })
}

/// A whole number; what is none is `other`.
fn int(
    state: &State<'_, '_>,
    value: &Value,
    other: Option<Value>,
    base: Option<u32>,
    options: Kwargs,
) -> Result<Value, Error> {
    let other = other.or(options.get("default")?).unwrap_or_else(|| 0.into());
    filters::int(state, value, Some(other), base, options)
}

/// Percent-encoded text; of a dictionary, the part of an address after its `?`.
fn urlencode(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::String | ValueKind::Number => filters::urlencode(value),
        ValueKind::Map => {
            let quoted = |part: &Value| -> Result<String, Error> {
                let text = filters::urlencode(&shown(part)?.into())?;
                Ok(text.replace("%20", "+").replace('/', "%2F"))
            };
            let pair =
                |key: Value| Ok(format!("{}={}", quoted(&key)?, quoted(&value.get_item(&key)?)?));
            Ok(value.try_iter()?.map(pair).collect::<Result<Vec<_>, Error>>()?.join("&"))
        }
        _ => Err(invalid("`urlencode` is for texts and dictionaries")),
    }
}

/// Replaces a part of a text, everywhere or so often.
fn replace(value: &Value, from: &str, to: &str, most: Option<usize>) -> Result<String, Error> {
    let text = value.as_str().map_or_else(|| shown(value), |text| Ok(text.to_owned()))?;
    Ok(match most {
        Some(most) => text.replacen(from, to, most),
        None => text.replace(from, to),
    })
}

/// The first `length` characters of a text, between words unless `killwords`, with an end that says so.
fn truncate(
    text: &str,
    length: Option<usize>,
    killwords: Option<bool>,
    end: Option<String>,
    options: Kwargs,
) -> Result<String, Error> {
    let length = length.or(options.get("length")?).unwrap_or(255);
    let killwords = killwords.or(options.get("killwords")?).unwrap_or(false);
    let end = end.or(options.get("end")?).unwrap_or_else(|| "...".into());
    let leeway = options.get::<Option<usize>>("leeway")?.unwrap_or(5);
    options.assert_all_used()?;
    let Some(kept) = length.checked_sub(end.chars().count()) else {
        return Err(invalid("`truncate` to fewer characters than its end has"));
    };
    if text.chars().count() <= length.saturating_add(leeway) {
        return Ok(text.to_owned());
    }
    let kept: String = text.chars().take(kept).collect();
    let kept =
        if killwords { &kept } else { kept.rsplit_once(' ').map_or(&*kept, |(kept, _)| kept) };
    Ok(format!("{kept}{end}"))
}
