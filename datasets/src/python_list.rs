//! A list as Python shows it, `['3', "it's", 3.0]`, to the texts of its items.

use serde_json::Value;

/// Most items of a list.
const MAX_ITEMS: usize = 1024;

/// The items; none of a text that is no such list.
///
/// ```
/// assert_eq!(tealight_datasets::python_list::read("['3', 4]").unwrap(), ["3", "4"]);
/// ```
pub fn read(text: &str) -> Option<Vec<String>> {
    let mut rest = text.trim().strip_prefix(['[', '('])?.trim_start();
    let mut items = Vec::new();
    while !matches!(rest, "]" | ")") {
        let (item, after) = item(rest)?;
        items.push(item);
        if items.len() > MAX_ITEMS {
            return None;
        }
        rest = after.trim_start();
        rest = match rest.strip_prefix(',') {
            Some(after) => after.trim_start(),
            None if matches!(rest, "]" | ")") => rest,
            None => return None,
        };
    }
    Some(items)
}

/// A list or an object of lists, objects, texts, numbers, `True`, `False` and `None` as Python shows it, as JSON.
///
/// ```
/// let value = tealight_datasets::python_list::value("[{'role': 'user', 'n': None}]").unwrap();
/// assert_eq!(value, serde_json::json!([{"role": "user", "n": null}]));
/// ```
pub fn value(text: &str) -> Option<Value> {
    let mut rest = text.trim();
    let mut json = String::new();
    while let Some(letter) = rest.chars().next() {
        let words = [("True", "true"), ("False", "false"), ("None", "null")];
        if matches!(letter, '\'' | '"') {
            let (item, after) = item(rest)?;
            json.push_str(&Value::String(item).to_string());
            rest = after;
        } else if let Some((word, other)) = words.iter().find(|(word, _)| rest.starts_with(word)) {
            json.push_str(other);
            rest = &rest[word.len()..];
        } else {
            // `(1,)` is a tuple of one.
            if matches!(letter, ')' | ']' | '}') && json.ends_with(',') {
                json.pop();
            }
            json.push(match letter {
                '(' => '[',
                ')' => ']',
                other => other,
            });
            rest = &rest[letter.len_utf8()..];
        }
    }
    // Its own limit of depth holds.
    crate::json::parse(&json).ok()
}

/// The first item, and what stands behind it.
fn item(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next()?;
    if !matches!(quote, '\'' | '"') {
        let end = text.find([',', ']', ')'])?;
        let number = text[..end].trim();
        return number.parse::<f64>().ok().map(|_| (number.to_owned(), &text[end..]));
    }
    let (mut item, mut letters) = (String::new(), text[1..].char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => match letters.next()?.1 {
                'n' => item.push('\n'),
                't' => item.push('\t'),
                'r' => item.push('\r'),
                code @ ('x' | 'u' | 'U') => {
                    let digits = match code {
                        'x' => 2,
                        'u' => 4,
                        _ => 8,
                    };
                    let digits: String = letters.by_ref().take(digits).map(|one| one.1).collect();
                    item.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
                }
                other => item.push(other),
            },
            letter if letter == quote => return Some((item, &text[at + 2..])),
            letter => item.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{read, value};

    #[test]
    fn values_are_read_as_python_shows_them() {
        let text = r#"{'a': "it's", 'b': [True, (1, -2.5), ('x',)], 'None': 'None', "c": '\n'}"#;
        let json = serde_json::json!({"a": "it's", "b": [true, [1, -2.5], ["x"]], "None": "None", "c": "\n"});
        assert_eq!(value(text).unwrap(), json);
        for text in ["{'a': array([1])}", "{'a'", "['a' 'b']", &"[".repeat(100_000), ""] {
            assert!(value(text).is_none());
        }
    }

    #[test]
    fn lists_are_read_as_python_shows_them() {
        for (text, items) in [
            ("['3', '3.0']", &["3", "3.0"][..]),
            ("[3, 3.0]", &["3", "3.0"]),
            ("['\\\\frac{1}{2}']", &["\\frac{1}{2}"]),
            ("[\"it's\", 'caf\\xe9, \\u00e9']", &["it's", "caf\u{e9}, \u{e9}"]),
            ("('a',)", &["a"]),
            ("[]", &[]),
        ] {
            assert_eq!(read(text).unwrap(), items, "{text}");
        }
        for text in
            ["[0, 1", "[x, y]", "(0, 1]x", "3", "['a' 'b']", "['a", "['\\", "['\\xzz']", "[1,,2]"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
