//! Kinds of relations and functions: inequalities, equations, lines, polynomials, families, congruences.

use crate::item::{Item, Random, signed};

pub(crate) fn inequality(r: &mut Random) -> Item {
    let a = r.int(-9, 20);
    let k = r.int(2, 5);
    let c = r.int(1, 9);
    if r.one_in(3) && a > 0 {
        return Item::default()
            .gold([format!("|x|<{a}"), format!("-{a}<x<{a}")])
            .math([
                format!("-{a}<x<{a}"),
                format!("|x|<{a}"),
                format!("(-{a},{a})"),
                format!("\\left|x\\right|<{a}"),
            ])
            .plain([format!("-{a} < x < {a}"), format!("|x| < {a}")])
            .wrong([format!("x<{a}"), format!("|x|>{a}"), format!("-{a}\\le x\\le {a}")])
            .wrong_plain([format!("x < {a}"), format!("|x| <= {a}")]);
    }
    Item::default()
        .gold([format!("x>{a}"), format!("x > {a}")])
        .math([
            format!("x>{a}"),
            format!("{a}<x"),
            format!("({a},\\infty)"),
            format!("x \\in ({a}, +\\infty)"),
            format!("\\{{x : x>{a}\\}}"),
        ])
        .plain([format!("x > {a}"), format!("{a} < x"), format!("({a}, ∞)")])
        .wrong([
            format!("x\\ge {a}"),
            format!("x<{a}"),
            format!("{k}x+{c}>{}", k * a + c),
            format!("x-{c}>{}", a - c),
            format!("x>{}", a + 1),
            a.to_string(),
        ])
        .wrong_plain([format!("x >= {a}"), format!("x < {a}"), format!("{k}x > {}", k * a)])
}

pub(crate) fn solution(r: &mut Random) -> Item {
    let a = r.int(-20, 20);
    let (k, c) = (r.int(2, 9), r.int(1, 9));
    let name = *r.pick(&["x", "n", "t", "k"]);
    Item::default()
        .gold([format!("{name}={a}"), format!("{name} = {a}")])
        .math([
            format!("{name}={a}"),
            a.to_string(),
            format!("{a}={name}"),
            format!("{name} = {a}.0"),
        ])
        .plain([format!("{name} = {a}"), a.to_string(), format!("{name} is {a}")])
        .wrong([
            format!("{k}{name}+{c}={}", k * a + c),
            format!("{k}{name}={}", k * a),
            format!("{name}-{c}={}", a - c),
            format!("{name}={}", a + 1),
            format!("{name} \\neq {a}"),
            format!("{name}={a}={}", a + 1),
        ])
        .wrong_plain([
            format!("{k}{name} + {c} = {}", k * a + c),
            format!("{name} = {}", a + 2),
            format!("{name} > {a}"),
        ])
}

pub(crate) fn line(r: &mut Random) -> Item {
    let (m, b) = (r.int(2, 9), r.int(1, 9));
    Item::default()
        .gold([format!("y={m}x+{b}"), format!("{m}x-y+{b}=0")])
        .math([
            format!("y={m}x+{b}"),
            format!("y = {b}+{m}x"),
            format!("{m}x-y+{b}=0"),
            format!("{m}x - y = -{b}"),
            format!("{}x-2y+{}=0", 2 * m, 2 * b),
        ])
        .plain([format!("y = {m}x + {b}")])
        .wrong([
            format!("y={m}x-{b}"),
            format!("y=-{m}x+{b}"),
            format!("y={}x+{b}", m + 1),
            format!("{m}x+{b}=0"),
        ])
        .wrong_plain([format!("y = {m}x - {b}"), format!("y = {b}x + {}", m + 10)])
}

pub(crate) fn polynomial(r: &mut Random) -> Item {
    let (a, b) = (r.int(1, 9), r.int(1, 9));
    let (s, p) = (a + b, a * b);
    Item::default()
        .gold([format!("x^2+{s}x+{p}"), format!("(x+{a})(x+{b})")])
        .math([
            format!("x^2+{s}x+{p}"),
            format!("(x+{a})(x+{b})"),
            format!("(x+{b})(x+{a})"),
            format!("{p}+{s}x+x^{{2}}"),
            format!("x(x+{s})+{p}"),
            format!("f(x)=x^2+{s}x+{p}"),
        ])
        .plain([
            format!("x^2 + {s}x + {p}"),
            format!("x**2 + {s}*x + {p}"),
            format!("(x + {a})(x + {b})"),
        ])
        .wrong([
            format!("x^2-{s}x+{p}"),
            format!("x^2+{s}x-{p}"),
            format!("(x-{a})(x-{b})"),
            format!("x^3+{s}x+{p}"),
            format!("{s}x+{p}"),
        ])
        .wrong_plain([format!("x^2 + {}x + {p}", s + 1), format!("(x + {a})(x - {b})")])
}

pub(crate) fn identity(r: &mut Random) -> Item {
    let k = r.int(2, 9);
    let rows: [(&str, &[&str], &[&str]); 6] = [
        (
            "K\\sin^2 x",
            &["K(1-\\cos^2 x)", "K\\sin^{2}(x)", "K\\left(\\sin x\\right)^2"],
            &["K\\cos^2 x", "K\\sin x^2", "K\\sin x"],
        ),
        ("K\\sin 2x", &["2\\cdot K\\sin x\\cos x", "K\\sin(2x)"], &["K\\sin x", "K\\cos 2x"]),
        ("\\frac{K}{\\cos x}", &["K\\sec x", "K/\\cos(x)"], &["K\\csc x", "K\\cos x"]),
        ("K\\ln 8", &["3\\cdot K\\ln 2", "K\\ln(8)", "K\\log_e 8"], &["K\\ln 2", "K\\log_{2} 8"]),
        ("K e^{2x}", &["K(e^x)^2", "K\\exp(2x)"], &["K e^{x}", "K e^{-2x}"]),
        ("K\\log_2 3", &["\\frac{K\\ln 3}{\\ln 2}", "K\\log_{2}{3}"], &["K\\log_3 2", "K\\log 3"]),
    ];
    let (gold, right, wrong) = *r.pick(&rows);
    let fill = |text: &&str| text.replace('K', &k.to_string());
    Item::default()
        .gold([fill(&gold)])
        .math(right.iter().map(fill))
        .math([fill(&gold)])
        .wrong(wrong.iter().map(fill))
}

pub(crate) fn family(r: &mut Random) -> Item {
    let (a, m) = (r.int(1, 6), r.int(2, 9));
    if r.one_in(2) {
        return Item::default()
            .gold([format!("a_n={m}n+{a}"), format!("{m}n+{a}")])
            .math([
                format!("a_n={m}n+{a}"),
                format!("{m}n+{a}"),
                format!("a_n={m}n+{a}\\ (n\\in\\mathbb{{N}}^*)"),
                format!("a_n={m}n+{a},\\ n\\ge 1"),
                format!("{a}+{m}n \\quad (n \\ge 1)"),
                format!("a_n = {m}n + {a}, n \\in \\mathbb{{N}}^{{*}}"),
            ])
            .plain([format!("{m}n + {a}"), format!("a_n = {m}n + {a}")])
            .wrong([
                format!("a_n={m}n-{a}\\ (n\\in\\mathbb{{N}}^*)"),
                format!("{}n+{a}", m + 1),
                m.to_string(),
            ])
            .wrong_plain([format!("{m}n - {a}"), format!("{}n", m)]);
    }
    // -pi + 2k pi runs through the same values as pi + 2k pi.
    let a = a.max(2);
    Item::default()
        .gold([
            format!("\\frac{{\\pi}}{{{a}}}+2k\\pi"),
            format!("\\frac{{\\pi}}{{{a}}}+2k\\pi, k\\in\\mathbb{{Z}}"),
        ])
        .math([
            format!("\\frac{{\\pi}}{{{a}}}+2k\\pi"),
            format!("2k\\pi+\\frac{{\\pi}}{{{a}}}\\ (k\\in\\mathbb{{Z}})"),
            format!("x=\\frac{{\\pi}}{{{a}}}+2\\pi k,\\ k \\in \\mathbb{{Z}}"),
        ])
        .wrong([
            format!("\\frac{{\\pi}}{{{a}}}+k\\pi"),
            format!("-\\frac{{\\pi}}{{{a}}}+2k\\pi"),
            format!("\\frac{{\\pi}}{{{a}}}"),
        ])
}

pub(crate) fn congruence(r: &mut Random) -> Item {
    let m = r.int(3, 12);
    let a = r.int(1, m - 1);
    Item::default()
        .gold([format!("x\\equiv {a}\\pmod{{{m}}}"), format!("{a}\\pmod{{{m}}}")])
        .math([
            format!("x\\equiv {a}\\pmod{{{m}}}"),
            format!("x \\equiv {} \\pmod {{{m}}}", a + m),
            format!("{a} \\pmod{{{m}}}"),
            format!("x={m}k+{a}"),
        ])
        .plain([format!("x ≡ {a} (mod {m})")])
        .wrong([
            format!("x\\equiv {}\\pmod{{{m}}}", a + 1),
            format!("x\\equiv {a}\\pmod{{{}}}", m + 1),
        ])
        .wrong_plain([format!("x ≡ {} (mod {m})", a + 1)])
}

pub(crate) fn combination(r: &mut Random) -> Item {
    let (a, b) = (r.int(2, 9), r.int(2, 9));
    let (m, n) = (signed(a), signed(b));
    Item::default()
        .gold([format!("\\frac{{x{m}}}{{x{n}}}"), format!("(x{m})/(x{n})")])
        .math([
            format!("\\frac{{x{m}}}{{x{n}}}"),
            format!("\\frac{{{a}+x}}{{{b}+x}}"),
            format!("1+\\frac{{{}}}{{x+{b}}}", a - b),
            format!("\\dfrac{{2x+{}}}{{2x+{}}}", 2 * a, 2 * b),
        ])
        .plain([format!("(x + {a})/(x + {b})")])
        .wrong([
            format!("\\frac{{x{m}}}{{x-{b}}}"),
            format!("\\frac{{x-{a}}}{{x{n}}}"),
            format!("\\frac{{x{m}}}{{{n}x}}"),
        ])
        .wrong_plain([format!("(x + {a})/(x + {})", b + 10)])
}
