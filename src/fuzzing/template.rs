//! Chat templates by depth: bytes choose what encloses what, and how often.

/// Text around an expression, which is `@`.
const EXPRESSIONS: [&str; 12] = [
    "(@)",
    "[@]",
    "{'a': @}",
    "(@ ~ 'b')",
    "(not @)",
    "(-@)",
    "(@)|trim",
    "(@ if bos_token else 1)",
    "range(@)",
    "(@)[0]",
    "(@ and @)",
    "namespace(a=@).a",
];
/// Text around a statement.
const STATEMENTS: [&str; 8] = [
    "{% if bos_token %}@{% endif %}",
    "{% for m in messages %}@{% endfor %}",
    "{% set x %}@{% endset %}{{ x }}",
    "{% filter upper %}@{% endfilter %}",
    "{% macro f() %}@{% endmacro %}{{ f() }}",
    "{% with y = 1 %}@{% endwith %}",
    "{% if x %}{% elif y %}@{% else %}@{% endif %}",
    "{{ x }}@",
];
/// Largest template that is made: what doubles ends there.
const LARGEST: usize = 1 << 20;

/// A template: pairs of bytes choose what encloses all so far and how often, expressions inside statements.
pub(super) fn nested(data: &[u8]) -> String {
    let (mut expression, mut statement) = ("messages[0].content".to_owned(), None);
    for pair in data.chunks_exact(2) {
        for _ in 0..pair[1] {
            let kind = usize::from(pair[0]) % (EXPRESSIONS.len() + STATEMENTS.len());
            let (inner, around) = match EXPRESSIONS.get(kind) {
                Some(around) if statement.is_none() => (&mut expression, *around),
                _ => {
                    let wrapped =
                        statement.get_or_insert_with(|| format!("{{{{ {expression} }}}}"));
                    (wrapped, STATEMENTS[kind % STATEMENTS.len()])
                }
            };
            if inner.len() > LARGEST {
                break;
            }
            *inner = around.replace('@', inner);
        }
    }
    statement.unwrap_or_else(|| format!("{{{{ {expression} }}}}"))
}
