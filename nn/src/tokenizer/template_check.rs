//! Limits of chat templates, checked before they are parsed: parsing, compiling and printing recurse, and a stack that
//! overflows ends the process.
//!
//! A tag is `{{ ... }}` or `{% ... %}`, as minijinja's own lexer finds it. Its length bounds how deep one expression
//! nests, the number of tags how deep blocks do. A value that holds itself has no end: `namespace` makes the only
//! values that a template can change, so a namespace is used by its attributes alone.

use std::borrow::Cow;
use std::ops::Range;

use anyhow::{Result, bail};
use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;

/// Longest tag, in bytes. The longest of the templates that models come with have some 2,000.
pub(super) const MAX_TAG: usize = 16 << 10;
/// Most tags of a template.
pub(super) const MAX_TAGS: usize = 10_000;

/// A token of a tag, as far as namespaces and slices are concerned.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Word<'a> {
    Name(&'a str),
    Dot,
    Assign,
    Open,
    Close,
    /// A bracket or a brace of either side, or a sign between their members.
    Sign(char),
    /// A number from 1.
    Count,
    Other,
}

/// A block statement that transformers adds to Jinja, and one of minijinja's that does the same: run what is inside,
/// whose variables end with it. (transformers notes where the text inside is, for losses on assistant turns alone.)
const STATEMENTS: [(&str, &str); 2] = [("generation", "with"), ("endgeneration", "endwith")];

/// A tag: whether it is a statement, its words, and where the first of them is.
struct Tag<'a> {
    is_statement: bool,
    words: Vec<Word<'a>>,
    first: Range<usize>,
}

/// Refuses templates that could recurse without end; the others as minijinja reads them. A statement that it does not
/// know is replaced by one of the same length, so that white space and positions stay as they are.
pub(super) fn check<'a>(source: &'a str, syntax: &SyntaxConfig) -> Result<Cow<'a, str>> {
    let tags = tags(source, syntax)?;
    refuse_endless(&tags)?;
    tags.iter().try_for_each(|tag| refuse_backward_stop(&tag.words))?;
    let mut source = Cow::Borrowed(source);
    for tag in tags.iter().filter(|tag| tag.is_statement) {
        let known = STATEMENTS.iter().find(|(name, _)| tag.words == [Word::Name(name)]);
        if let Some((name, other)) = known {
            let width = name.len();
            source.to_mut().replace_range(tag.first.clone(), &format!("{other:width$}"));
        }
    }
    Ok(source)
}

/// Refuses namespaces that are used as a whole.
fn refuse_endless(tags: &[Tag<'_>]) -> Result<()> {
    use Word::{Assign, Dot, Name, Open};

    let mut namespaces = Vec::new();
    for tag in tags.iter().map(|tag| &tag.words) {
        match tag.as_slice() {
            // A template could import itself, and find its namespaces under other names.
            [Name(word @ ("import" | "from" | "include" | "extends")), ..] => {
                bail!("`{word}`: there is no other template");
            }
            [Name("set"), Name(name), Assign, Name("namespace"), Open, rest @ ..]
                if ends_with_call(rest) && !rest.contains(&Name("namespace")) =>
            {
                namespaces.push(*name);
            }
            tag if tag.contains(&Name("namespace")) => {
                bail!("`namespace` is for `set NAME = namespace(...)` alone");
            }
            _ => {}
        }
    }
    for tag in tags.iter().map(|tag| &tag.words) {
        let is_definition = matches!(tag.as_slice(), [_, _, Assign, Name("namespace"), ..]);
        for (index, word) in tag.iter().enumerate() {
            let Name(name) = word else { continue };
            let follows_dot = index > 0 && tag[index - 1] == Dot;
            let is_attribute = tag.get(index + 1) == Some(&Dot);
            let is_target = is_definition && index == 1;
            if namespaces.contains(name) && !is_attribute && !is_target && !follows_dot {
                bail!("the namespace `{name}` is used without an attribute");
            }
        }
    }
    Ok(())
}

/// Refuses slices that go backwards to a place that may be the first, `[3:0:-1]`: minijinja takes the first too.
fn refuse_backward_stop(words: &[Word<'_>]) -> Result<()> {
    for (end, pair) in words.windows(2).enumerate() {
        // The stop stands behind another colon of the same bracket.
        let mut depth = 0;
        let is_edge = |word: &Word<'_>| {
            depth += match word {
                Word::Close | Word::Sign(']') => 1,
                Word::Open | Word::Sign('[') => -1,
                _ => 0,
            };
            depth < 0 || depth == 0 && matches!(word, Word::Sign(':' | ','))
        };
        if *pair == [Word::Sign(':'), Word::Sign('-')]
            && let Some(start) = words[..end].iter().rposition(is_edge)
            && words[start] == Word::Sign(':')
            && !matches!(words[start + 1..end], [] | [Word::Count])
        {
            bail!(
                "a slice that goes backwards, such as `[3:0:-1]`, needs a number from 1 where it stops, or none: write it \
                 in another way, such as `[1:4] | reverse`"
            );
        }
    }
    Ok(())
}

/// Whether the parenthesis that is open before these words is closed by the last of them.
fn ends_with_call(words: &[Word<'_>]) -> bool {
    let mut open = 1;
    for (index, word) in words.iter().enumerate() {
        match word {
            Word::Open => open += 1,
            Word::Close => open -= 1,
            _ => {}
        }
        if open == 0 {
            return index + 1 == words.len();
        }
    }
    false
}

/// The words of all tags, up to the first error of the lexer, where the parser stops too.
fn tags<'a>(source: &'a str, syntax: &SyntaxConfig) -> Result<Vec<Tag<'a>>> {
    let mut tags: Vec<Tag<'a>> = Vec::new();
    let mut start = 0;
    for token in tokenize(source, false, syntax.clone()) {
        let Ok((token, span)) = token else { break };
        // Comments have no token: the next tag is measured from its own start.
        let is_outside =
            matches!(token, Token::TemplateData(_) | Token::VariableStart | Token::BlockStart);
        if span.end_offset as usize > start + MAX_TAG && !is_outside {
            bail!("it has a tag of more than {MAX_TAG} bytes, the limit");
        }
        match token {
            Token::VariableStart | Token::BlockStart => {
                start = span.start_offset as usize;
                let is_statement = matches!(token, Token::BlockStart);
                tags.push(Tag { is_statement, words: Vec::new(), first: start..start });
                if tags.len() > MAX_TAGS {
                    bail!("it has more than {MAX_TAGS} tags, the limit");
                }
            }
            Token::TemplateData(_) | Token::VariableEnd | Token::BlockEnd => {
                start = span.end_offset as usize;
            }
            token => {
                let word = match token {
                    Token::Ident(name) => Word::Name(name),
                    Token::Dot => Word::Dot,
                    Token::Assign => Word::Assign,
                    Token::ParenOpen => Word::Open,
                    Token::ParenClose => Word::Close,
                    Token::BracketOpen | Token::BraceOpen => Word::Sign('['),
                    Token::BracketClose | Token::BraceClose => Word::Sign(']'),
                    Token::Comma => Word::Sign(','),
                    Token::Colon => Word::Sign(':'),
                    Token::Minus => Word::Sign('-'),
                    Token::Int(1..) => Word::Count,
                    _ => Word::Other,
                };
                let tag = tags.last_mut().expect("text outside tags is one token");
                if tag.words.is_empty() {
                    tag.first = span.start_offset as usize..span.end_offset as usize;
                }
                tag.words.push(word);
            }
        }
    }
    Ok(tags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_tags_are_replaced_in_tags_alone() {
        let syntax = SyntaxConfig::default();
        for (source, read) in [
            (
                "a {%- generation -%} b {% endgeneration %}",
                "a {%- with       -%} b {% endwith       %}",
            ),
            (
                "{{ generation }}{% set generation = 1 %}",
                "{{ generation }}{% set generation = 1 %}",
            ),
            (
                "{% raw %}{% generation %}{% endraw %}{# {% generation %} #}",
                "{% raw %}{% generation %}{% endraw %}{# {% generation %} #}",
            ),
            ("{{ '{% generation %}' }} generation", "{{ '{% generation %}' }} generation"),
        ] {
            assert_eq!(check(source, &syntax).expect(source), read);
        }
    }

    #[test]
    fn honest_templates_pass_and_endless_ones_are_refused() {
        let syntax = SyntaxConfig::default();
        for honest in [
            "{% for m in messages %}{{ m['content'] }}{% endfor %}",
            "{%- set ns = namespace(found=false, x='namespace') -%}{% set ns.found = true %}{{ ns.found }}",
            "{{ x[::-1] }}{{ x[3::-1] }}{{ x[:1:-1] }}{{ x[0:n:1] }}{{ {'a': -1, 'b': {'c': -x[:-1]}} }}",
            "{# namespace #}plain {{ '}} namespace ns' }} text",
            "{% set ns = namespace() %}{% if not ns.a and messages|length > 1 %}{{- ns.b.c }}{% endif %}",
        ] {
            check(honest, &syntax).unwrap_or_else(|error| panic!("{honest}: {error}"));
        }
        let commented = format!("{{{{ a }}}}{{# {} #}}{{{{ b }}}}", "x".repeat(20_000));
        check(&commented, &syntax).expect("a long comment");
        for (endless, words) in [
            ("{% set ns=namespace(x=1) %}{% set ns.x=ns %}{{ ns }}", "without an attribute"),
            (
                "{% set a=namespace() %}{% set b = [a] %}{% set a.x = b %}{{ a.x }}",
                "without an attribute",
            ),
            // Characters that hide a tag from a reader other than the parser itself.
            (
                "{% raw %}{{ ' {% endraw %}{% set ns=namespace(x=1) %}{% set ns.x=ns %}{{ ns }}{% raw %} ' }}{% endraw %}",
                "without an attribute",
            ),
            (
                "{{ {'a':{}}['{#'] }}{% set ns=namespace(x=1) %}{% set ns.x=ns %}{{ ns }}{{ '#}' }}",
                "without an attribute",
            ),
            ("{% set b=namespace(x=1), 2 %}{% set m=b.0 %}{% set m.x=m %}{{ m }}", "alone"),
            (
                "{% if not i %}{% set i=true %}{% import 'chat' as c %}{% set m=c.ns %}{% set m.x=m %}{{ m }}{% else %}{% set ns=namespace() %}{% endif %}",
                "no other template",
            ),
            ("{{ [1, 2, 3][2:0:-1] }}", "needs a number from 1"),
            ("{% for m in messages[-1:-n:-1] %}{% endfor %}", "needs a number from 1"),
            ("{{ {'a': x[y:z[0]:-2]} }}", "needs a number from 1"),
            ("{% set f = namespace %}{% set a = f() %}", "alone"),
            ("{% set a = [namespace()] %}", "alone"),
            ("{% set a = namespace(x=namespace()) %}", "alone"),
        ] {
            let message = check(endless, &syntax).expect_err(endless).to_string();
            assert!(message.contains(words), "{endless}: {message}");
        }
        for long in [
            format!("{{{{ 1{} }}}}", "+1".repeat(300_000)),
            format!("{{% raw %}}{{# {{% endraw %}}{{{{ 1{} }}}}", "+1".repeat(300_000)),
            "{% elif x %}".repeat(60_000),
            "{% raw %}{# {% endraw %}".to_owned() + &"{% elif x %}".repeat(60_000),
        ] {
            assert!(check(&long, &syntax).is_err(), "{}", &long[..40]);
        }
    }
}
