//! A chat template to the same one with the newlines that jinja2 reads: minijinja reads some others.

/// The template with `\n` for every newline, and with a sign that keeps the one behind `{% raw %}`, which jinja2 does
/// not trim.
pub(super) fn as_in_jinja2(template: &str) -> String {
    let template = template.replace("\r\n", "\n").replace('\r', "\n");
    let (mut read, mut rest) = (String::with_capacity(template.len()), &*template);
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at + 2);
        read.push_str(before);
        rest = tag;
        let Some(width) = raw_width(tag) else { continue };
        // What stands within is text, whatever it looks like.
        let end = tag.find("endraw").unwrap_or(tag.len());
        read.push_str(&tag[..width]);
        read.push('+');
        read.push_str(&tag[width..end]);
        rest = &tag[end..];
    }
    read + rest
}

/// The bytes of a tag `raw` up to its end `%}`, where no sign stands before it.
fn raw_width(tag: &str) -> Option<usize> {
    let name = tag.strip_prefix(['-', '+']).unwrap_or(tag).trim_start();
    let end = name.strip_prefix("raw")?.trim_start();
    end.starts_with("%}").then_some(tag.len() - end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newlines_are_those_of_jinja2() {
        for (template, expected) in [
            ("a\r\nb\rc\n", "a\nb\nc\n"),
            ("{% raw %}\nx{% endraw %}", "{% raw +%}\nx{% endraw %}"),
            (
                "{%- raw%}{% raw %}{%endraw%}{% raw -%} {% endraw %}",
                "{%- raw+%}{% raw %}{%endraw%}{% raw -%} {% endraw %}",
            ),
            ("{% set raw = 1 %}{{ raw }} {%", "{% set raw = 1 %}{{ raw }} {%"),
        ] {
            assert_eq!(as_in_jinja2(template), expected);
        }
    }
}
