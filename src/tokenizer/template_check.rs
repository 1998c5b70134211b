//! What a chat template may look like, checked before it is parsed: parsing, compiling and printing recurse, and a
//! stack that overflows ends the process.
//!
//! A tag is `{{ ... }}` or `{% ... %}`. Its length bounds how deep one expression nests, the number of tags how deep
//! blocks do. A value that holds itself has no end: `namespace` makes the only values that a template can change, so
//! a namespace is used by its attributes alone.

use anyhow::{Result, bail};

/// Longest tag, in bytes. The longest of the templates that models come with have some 2,000.
pub(super) const MAX_TAG: usize = 16 << 10;
/// Most tags.
pub(super) const MAX_TAGS: usize = 10_000;

/// Refuses templates that could recurse without end.
///
/// # Errors
/// A tag that is too long, too many of them, a namespace that is used as a whole.
pub(super) fn check(source: &str) -> Result<()> {
    let tags: Vec<&str> = tags(source).collect();
    if tags.len() > MAX_TAGS {
        bail!("it has more than {MAX_TAGS} tags, the limit");
    }
    if tags.iter().any(|tag| tag.len() > MAX_TAG) {
        bail!("it has a tag of more than {MAX_TAG} bytes, the limit");
    }
    let words: Vec<Vec<&str>> = tags.iter().map(|tag| words(tag)).collect();
    let mut namespaces = Vec::new();
    for tag in &words {
        match tag.as_slice() {
            ["set", name, "=", "namespace", "(", rest @ ..] if !rest.contains(&"namespace") => {
                namespaces.push(*name);
            }
            tag if tag.contains(&"namespace") => {
                bail!("`namespace` is for `set NAME = namespace(...)` alone");
            }
            _ => {}
        }
    }
    for tag in &words {
        let is_definition = matches!(tag.as_slice(), ["set", _, "=", "namespace", ..]);
        for (index, word) in tag.iter().enumerate() {
            let follows = |other: &str| index > 0 && tag[index - 1] == other;
            let is_attribute = tag.get(index + 1) == Some(&".");
            let is_target = is_definition && index == 1;
            if namespaces.contains(word) && !is_attribute && !is_target && !follows(".") {
                bail!("the namespace `{word}` is used without an attribute");
            }
        }
    }
    Ok(())
}

/// The insides of all tags; one that is not closed goes to the end.
fn tags(source: &str) -> impl Iterator<Item = &str> {
    let mut rest = source;
    std::iter::from_fn(move || {
        loop {
            let at =
                rest.find("{{").into_iter().chain(rest.find("{%")).chain(rest.find("{#")).min()?;
            let (kind, inside) = (rest.as_bytes()[at + 1], &rest[at + 2..]);
            if kind == b'#' {
                rest = inside.find("#}").map_or("", |end| &inside[end + 2..]);
                continue;
            }
            let close = if kind == b'{' { "}}" } else { "%}" };
            let end = closing(inside, close);
            rest = inside.get(end + 2..).unwrap_or_default();
            return Some(&inside[..end]);
        }
    })
}

/// Where a tag ends: the first closing mark outside a string.
fn closing(inside: &str, close: &str) -> usize {
    let mut quote = None;
    let mut is_escaped = false;
    for (at, c) in inside.char_indices() {
        match quote {
            _ if is_escaped => is_escaped = false,
            Some(_) if c == '\\' => is_escaped = true,
            Some(mark) if c == mark => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None if inside[at..].starts_with(close) => return at,
            None => {}
        }
    }
    inside.len()
}

/// Names and marks of a tag; strings are left out.
fn words(tag: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut words = Vec::new();
    let mut rest = tag.trim_start_matches(['-', '+']);
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '"' | '\'' => {
                let mut is_escaped = false;
                let end = rest[1..].find(|x| {
                    let ends = x == c && !is_escaped;
                    is_escaped = x == '\\' && !is_escaped;
                    ends
                });
                end.map_or(rest.len(), |end| end + 2)
            }
            c if is_name(c) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (word, others) = rest.split_at(length);
        if !c.is_whitespace() && c != '"' && c != '\'' {
            words.push(word);
        }
        rest = others;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn honest_templates_pass_and_endless_ones_do_not() {
        for honest in [
            "{% for m in messages %}{{ m['content'] }}{% endfor %}",
            "{%- set ns = namespace(found=false, x='namespace') -%}{% set ns.found = true %}{{ ns.found }}",
            "{# namespace #}plain {{ '}} namespace ns' }} text",
            "{% set ns = namespace() %}{% if not ns.a and messages|length > 1 %}{{- ns.b.c }}{% endif %}",
        ] {
            check(honest).unwrap_or_else(|error| panic!("{honest}: {error}"));
        }
        for (endless, words) in [
            ("{% set ns=namespace(x=1) %}{% set ns.x=ns %}{{ ns }}", "without an attribute"),
            (
                "{% set a=namespace() %}{% set b = [a] %}{% set a.x = b %}{{ a.x }}",
                "without an attribute",
            ),
            ("{% set f = namespace %}{% set a = f() %}", "alone"),
            ("{% set a = [namespace()] %}", "alone"),
            ("{% set a = namespace(x=namespace()) %}", "alone"),
        ] {
            let message = check(endless).expect_err(endless).to_string();
            assert!(message.contains(words), "{endless}: {message}");
        }
        assert!(check(&format!("{{{{ 1{} }}}}", "+1".repeat(300_000))).is_err());
        assert!(check(&"{% elif x %}".repeat(60_000)).is_err());
    }
}
