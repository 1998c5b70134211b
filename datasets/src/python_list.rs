//! A list as Python shows it, `['3', "it's", 3.0]`, to the texts of its items.

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
    use super::read;

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
