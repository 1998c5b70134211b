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

/// Characters that `\\f` and the like are in JSON and in Python, the letter of the command that lost its stroke, what
/// follows in commands that are no words of a text (`{`: only before one), and in those of formulas alone.
const LOST: [(char, char, &str, &str); 7] = [
    ('\u{7}', 'a', "lpha pprox ngle rctan rccos rcsin st symp leph malg cute{", "nd"),
    (
        '\u{8}',
        'b',
        "oxed{ eta inom{ ullet igl igr igg igcup igcap igoplus egin{ mod ackslash oldsymbol{ m{ ecause f{ ar{",
        "ar ot ig",
    ),
    (
        '\t',
        't',
        "imes heta herefore riangle riangleq ext{ extbf{ extit{ extrm{ exttt{ extnormal{ frac{ binom{ ilde{ ag{",
        "o an anh au op ext frac ilde",
    ),
    ('\n', 'n', "abla otin ot", "eq e u"),
    ('\u{b}', 'v', "ec{ arphi arepsilon artheta dots", "ec ee ert"),
    ('\u{c}', 'f', "rac orall rown lat box{ ootnote{", "box"),
    ('\r', 'r', "ho ight ightarrow vert", "angle brace brack floor ceil oot m eal"),
];
/// Longest text that is a formula by itself, in bytes.
const SHORT: usize = 48;

/// Puts back the stroke of commands of LaTeX that were written with one stroke in JSON, or in a text of Python's that
/// is not raw: `"\\frac"` is a form feed and `rac`. Whether there were any.
///
/// ```
/// let mut row = serde_json::json!({"gold": "\u{c}rac{1}{2}", "text": "a\tb\nc"});
/// assert!(tealight_datasets::json::restore_commands(&mut row));
/// assert_eq!(row, serde_json::json!({"gold": "\\frac{1}{2}", "text": "a\tb\nc"}));
/// ```
pub fn restore_commands(value: &mut Value) -> bool {
    match value {
        Value::String(text) => {
            let sure = restored(text, false);
            let known = sure.as_deref().unwrap_or(text);
            let all = restored(known, true).or(sure);
            all.map(|all| *text = all).is_some()
        }
        Value::Array(items) => {
            items.iter_mut().fold(false, |found, item| restore_commands(item) | found)
        }
        Value::Object(fields) => {
            fields.values_mut().fold(false, |found, field| restore_commands(field) | found)
        }
        _ => false,
    }
}

/// A text with these strokes: those of certain commands, or those in formulas, whose commands may be words elsewhere.
fn restored(text: &str, in_formulas: bool) -> Option<String> {
    if !text.bytes().any(|byte| byte < b' ') {
        return None;
    }
    let is_command =
        |text: &str| text.split('\\').skip(1).any(|rest| rest.starts_with(char::is_alphabetic));
    let is_formula = !text.contains('\n') && is_command(text);
    let (mut whole, mut copied, mut dollars, mut counted) = (String::new(), 0, 0, 0);
    for (at, lost) in text.match_indices(|c: char| c < ' ') {
        let Some(row) = LOST.iter().find(|row| lost.starts_with(row.0)) else { continue };
        let (control, letter, sure, likely) = *row;
        let (before, rest) = (&text[..at], &text[at + 1..]);
        let name = &rest[..rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len())];
        let after = &rest[name.len()..];
        let is_it = |known: &str| match known.strip_suffix('{') {
            Some(known) => known == name && after.starts_with('{'),
            None => known == name,
        };
        if !(if in_formulas { likely } else { sure }).split(' ').any(is_it) {
            continue;
        }
        dollars += before[counted..].matches('$').count();
        counted = at;
        let is_inside = dollars % 2 == 1;
        // Lines begin with words, and lines of programs with names.
        let is_likely = match control {
            '\n' => {
                (is_inside || text.len() <= SHORT)
                    && (before.ends_with(' ') || name == "eq")
                    && !after.trim_start().starts_with('=')
            }
            _ => is_inside || is_formula,
        };
        if !in_formulas || is_likely {
            whole.push_str(&text[copied..at]);
            whole.extend(['\\', letter]);
            copied = at + 1;
        }
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
    fn commands_that_lost_their_stroke_get_it_back() {
        for (text, expected) in [
            ("\u{c}rac{1}{2}", "\\frac{1}{2}"),
            ("So $\u{8}oxed{\u{c}rac{1}{2}}$.", "So $\\boxed{\\frac{1}{2}}$."),
            ("3 \times 10^5", "3 \\times 10^5"),
            ("2\theta", "2\\theta"),
            ("2\u{8}eta", "2\\beta"),
            ("3\rho", "3\\rho"),
            ("x \neq 2", "x \\neq 2"),
            ("x\neq 2", "x\\neq 2"),
            ("$x \ne 2$ for\nall", "$x \\ne 2$ for\nall"),
            ("\text{yes}", "\\text{yes}"),
            ("\\sin x + \tan x", "\\sin x + \\tan x"),
            ("\\lim_{x \to 0}", "\\lim_{x \\to 0}"),
            ("\\langle 1 \rangle", "\\langle 1 \\rangle"),
            ("\tfrac{1}{2} \tau", "\\tfrac{1}{2} \\tau"),
            ("\u{7}lpha + \u{b}arphi", "\\alpha + \\varphi"),
            ("\\left(2\right)", "\\left(2\\right)"),
        ] {
            let mut value = Value::from(text);
            assert!(restore_commands(&mut value), "{text:?}");
            assert_eq!(value, expected, "{text:?}");
        }
        let texts = "\
            a\tb\nc\r\nd~X\to\tX~he\tan apple~import sympy\nx = 2\neq = sympy.Eq(x, 2)\nprint(eq)~\
            func f() {\n\text := 2\n\tfrac := 3\n}~$$\nu + v = 5\n$$~it is\rright\rangle ABC~\
            page 1\u{c}Page 2\u{c}or~N\u{8}NA\u{8}A~\\frac{1}{2}\n\\theta";
        for text in texts.split('~') {
            let mut value = Value::from(text);
            assert!(!restore_commands(&mut value) && value == text, "{text:?}: {value:?}");
        }
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
