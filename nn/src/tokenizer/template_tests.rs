//! Chat templates beside transformers' rendering of them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use tealight_core::Message;

use super::template::ChatTemplate;

/// A template, a conversation, and what transformers makes of them; none where it refuses the conversation.
#[derive(Deserialize)]
struct Case {
    name: String,
    kind: String,
    /// The template, where that is not in a file of this name.
    source: Option<String>,
    tokens: BTreeMap<String, String>,
    date: String,
    messages: Vec<Message>,
    expected: Option<String>,
}

/// Checks all cases in a file; how many there are.
fn check(file: &Path) -> usize {
    let text = std::fs::read_to_string(file).expect("cases of scripts/check-templates");
    let cases: Vec<Case> = serde_json::from_str(&text).expect("cases");
    let mut wrong = Vec::new();
    for case in &cases {
        let file = file.with_file_name(format!("{}.jinja", case.name));
        let read = || std::fs::read_to_string(&file).expect("a template");
        let source = case.source.clone().unwrap_or_else(read).as_str().into();
        let date = case.date.parse().expect("a date");
        let template = ChatTemplate { source, tokens: case.tokens.clone(), date };
        let rendered = template.prompt(&case.messages.clone().into());
        if rendered.as_ref().ok() != case.expected.as_ref() {
            let (name, kind, expected) = (&case.name, &case.kind, &case.expected);
            wrong.push(format!("{name}, {kind}: {rendered:?}, in transformers {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    cases.len()
}

#[test]
fn templates_with_the_traits_of_real_families_render_as_in_transformers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/templates");
    assert_eq!(check(&folder.join("expected.json")), 12 * 4);
}

#[test]
#[ignore = "needs $TEALIGHT_TEMPLATE_CASES, which scripts/check-templates makes"]
fn templates_from_outside_render_as_in_transformers() {
    let file = std::env::var_os("TEALIGHT_TEMPLATE_CASES").expect("a file of cases");
    let count = check(Path::new(&file));
    println!("{count} chats are rendered as in transformers");
}

/// Expressions with what Jinja2 3.1 makes of them, in transformers' environment.
#[test]
fn expressions_are_written_as_in_jinja2() {
    for (expression, expected) in [
        (
            "(1e20, 1e16, 123456.5, 1e-5, 0.0001, -0.0, 2.0 ** 0.5)",
            "(1e+20, 1e+16, 123456.5, 1e-05, 0.0001, -0.0, 1.4142135623730951)",
        ),
        ("[1e-7, {'a': 1e16}, 'x']", "[1e-07, {'a': 1e+16}, 'x']"),
        ("1e-5 | string ~ 1", "1e-051"),
        (
            "{'step': 1e-05, 'most': 1e+16, 'n': 3, 'half': 0.5} | tojson",
            r#"{"step": 1e-05, "most": 1e+16, "n": 3, "half": 0.5}"#,
        ),
        ("missing | length", "0"),
        ("messages[0].tool_calls | length > 0", "False"),
        ("false | default(4, boolean=true)", "4"),
        ("missing | d(default_value=3)", "3"),
        ("none | default('d')", "None"),
        ("'x' | float", "0.0"),
        ("true | float", "1.0"),
        ("'x' | float(2.5)", "2.5"),
        ("'abcabc' | replace('a', 'x', 1)", "xbcabc"),
        ("'hello world foo' | truncate(9)", "hello..."),
        ("'hello world foo' | truncate(9, true)", "hello ..."),
        ("'hello world foo' | truncate(14)", "hello world foo"),
        ("'a b_c, d' | wordcount", "3"),
        ("'[' ~ 'ab' | center(5) ~ ']'", "[  ab ]"),
        ("'hello'.center(10, '*')", "**hello***"),
        ("'ab'.ljust(4, '.') ~ 'ab'.rjust(4)", "ab..  ab"),
        ("'42'.zfill(5) ~ '-42'.zfill(5)", "00042-0042"),
        ("'Hello'.swapcase()", "hELLO"),
        ("'hello'.startswith('l', 2)", "True"),
        ("'hello'.endswith('l', 0, -1)", "True"),
        ("' a  b c '.split(none, 1)", "['a', 'b c ']"),
        ("' a  b c '.rsplit(none, 1)", "[' a  b', 'c']"),
        ("' a  b c '.split(maxsplit=9)", "['a', 'b', 'c']"),
        ("[1, 2, 3].index(2)", "1"),
        ("'a.b.c'.partition('.')", "('a', '.', 'b.c')"),
        ("'a.b.c'.rpartition('.')", "('a.b', '.', 'c')"),
        ("'abc'.partition('.')", "('abc', '', '')"),
        ("'x' | int ~ '3.7' | int ~ none | int ~ 'x' | int(5) ~ 'x' | int(default=6)", "03056"),
        ("'0x1f' | int(0, 16)", "31"),
        ("'a b/c&d=\u{e9}' | urlencode", "a%20b/c%26d%3D%C3%A9"),
        ("{'q': 'my search/x', 'l': 1} | urlencode", "q=my+search%2Fx&l=1"),
        ("'%s: %d, %.2f|%-3s|%05d' | format('a', 3, 1.239, 'b', 42)", "a: 3, 1.24|b  |00042"),
        ("(raise_exception is callable, 'x' is callable)", "(True, False)"),
    ] {
        let date = "2026-02-05".parse().expect("a date");
        let source = format!("{{{{ {expression} }}}}").as_str().into();
        let template = ChatTemplate { source, tokens: BTreeMap::new(), date };
        let chat = vec![Message::user("1 + 1?")];
        assert_eq!(template.prompt(&chat.into()).unwrap(), expected, "{expression}");
    }
}

/// What would be written otherwise than in Jinja2 is refused by its name.
#[test]
fn expressions_that_are_not_supported_are_refused() {
    for (expression, words) in [
        ("'%s' % 'a'", "`'...' | format(...)`"),
        ("'%s %d' % ('a', 1)", "`'...' | format(...)`"),
        ("[('a', 1)] | urlencode", "`urlencode` is for"),
        ("'a b' | wordwrap(1)", "wordwrap"),
        ("{'a': 1} | xmlattr", "xmlattr"),
        ("{'a': 1} | pprint", "pprint"),
        ("'%r' | format('a')", "'r'"),
        ("'{!r}'.format('a')", "'!'"),
        ("'a'.expandtabs()", "expandtabs"),
        ("cycler('a', 'b').next()", "iterable"),
        ("f(1, 2)", "too many arguments"),
        ("f(1, b=2)", "`b`"),
    ] {
        let source = format!(
            "{{% macro f(a) %}}{{{{ a }}}}{{{{ varargs }}}}{{% endmacro %}}{{{{ {expression} }}}}"
        );
        let date = "2026-02-05".parse().expect("a date");
        let template =
            ChatTemplate { source: source.as_str().into(), tokens: BTreeMap::new(), date };
        let error = template.prompt(&vec![Message::user("1 + 1?")].into()).expect_err(&source);
        assert!(format!("{error:#}").contains(words), "{source}: {error:#}");
    }
}
