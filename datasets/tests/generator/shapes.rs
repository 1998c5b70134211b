//! Kinds of answers that are more than a number: measures, points, sets, relations, functions, words, choices.

use crate::item::{Item, Random, signed};

pub fn angle(r: &mut Random) -> Item {
    let n = r.int(1, 35) * 5 + 1;
    let m = r.int(1, 5) * 6;
    if r.one_in(3) {
        let tenths = m / 6;
        return Item::default()
            .gold([format!("{n}^\\circ {m}'"), format!("{n}^{{\\circ}}{m}^{{\\prime}}")])
            .math([
                format!("{n}^\\circ {m}'"),
                format!("{n}.{tenths}^\\circ"),
                format!("{n}^{{\\circ}}{m}^{{\\prime}}"),
                format!("\\ang{{{n};{m}}}"),
            ])
            .plain([format!("{n}°{m}'"), format!("{n}.{tenths}°")])
            .wrong([format!("{n}.{m}^\\circ"), format!("{n}^\\circ {}'", m + 1), format!("{m}'")])
            .wrong_plain([format!("{n}°{}'", m + 2), format!("{n}°")]);
    }
    Item::default()
        .gold([
            format!("{n}^\\circ"),
            format!("{n}^{{\\circ}}"),
            n.to_string(),
            format!("\\theta = {n}^\\circ"),
        ])
        .math([
            format!("{n}^\\circ"),
            format!("{n}^{{\\circ}}"),
            format!("{n}°"),
            format!("\\ang{{{n}}}"),
            format!("{n}\\text{{ degrees}}"),
            format!("\\theta = {n}^\\circ"),
            format!("{n}"),
        ])
        .plain([format!("{n}°"), format!("{n} degrees")])
        .wrong([format!("{}^\\circ", n + 1), format!("-{n}^\\circ"), format!("{n}0^\\circ")])
        .wrong_plain([format!("{}°", n + 5), format!("{} degrees", n + 2)])
}

/// A symbol, the names of siunitx and of words, and a unit of another kind.
const UNITS: [(&str, &str, &str, &str); 16] = [
    ("m", "\\metre", "meters", "s"),
    ("s", "\\second", "seconds", "m"),
    ("kg", "\\kilogram", "kilograms", "cm"),
    ("N", "\\newton", "newtons", "J"),
    ("J", "\\joule", "joules", "W"),
    ("W", "\\watt", "watts", "V"),
    ("V", "\\volt", "volts", "N"),
    ("Pa", "\\pascal", "pascals", "Hz"),
    ("Hz", "\\hertz", "hertz", "Pa"),
    ("A", "\\ampere", "amperes", "V"),
    ("K", "\\kelvin", "kelvins", "J"),
    ("mol", "\\mole", "moles", "g"),
    ("C", "\\coulomb", "coulombs", "N"),
    ("L", "\\litre", "liters", "kg"),
    ("m/s", "\\metre\\per\\second", "meters per second", "m/s^2"),
    ("m/s^2", "\\metre\\per\\second\\squared", "meters per second squared", "m/s"),
];

pub fn unit(r: &mut Random) -> Item {
    let n = r.int(2, 400);
    let (symbol, command, name, other) = *r.pick(&UNITS);
    let takes_kilo = !symbol.starts_with("kg") && !symbol.contains('/') && symbol != "mol";
    let mut item = Item::default()
        .gold([
            format!("{n}\\text{{ {symbol}}}"),
            format!("{n}\\,\\mathrm{{{symbol}}}"),
            n.to_string(),
        ])
        .math([
            format!("{n}\\text{{ {symbol}}}"),
            format!("{n}\\,\\mathrm{{{symbol}}}"),
            format!("{n}~\\mathrm{{{symbol}}}"),
            format!("\\SI{{{n}}}{{{command}}}"),
            format!("\\qty{{{n}}}{{{command}}}"),
            format!("{n}\\ \\text{{{name}}}"),
            n.to_string(),
        ])
        .plain([format!("{n} {name}"), n.to_string()])
        .wrong([format!("{}\\text{{ {symbol}}}", n + 1), format!("{n}0\\,\\mathrm{{{symbol}}}")])
        .wrong_plain([format!("{} {name}", n + 1), format!("{n}0 {name}")]);
    if !item.golds.is_empty() {
        // Only a gold answer that has a unit tells units apart.
        let with_unit = r.one_in(2);
        if with_unit {
            item.golds.truncate(2);
            item = item.wrong([format!("{n}\\text{{ {other}}}")]);
            if takes_kilo {
                item = item
                    .math([format!("{}\\text{{ k{symbol}}}", n as f64 / 1000.0)])
                    .wrong([format!("{n}\\text{{ k{symbol}}}")]);
            }
        }
    }
    item
}

pub fn time(r: &mut Random) -> Item {
    let (h, m) = (r.int(1, 11), r.int(1, 59));
    let pm = r.one_in(2);
    let half = if pm { "p.m." } else { "a.m." };
    let (upper, other) = if pm { ("PM", "AM") } else { ("AM", "PM") };
    let h24 = if pm { h + 12 } else { h };
    Item::default()
        .gold([format!("{h}:{m:02} {half}"), format!("{h}:{m:02}\\text{{ {half}}}")])
        .math([
            format!("{h}:{m:02}\\text{{ {half}}}"),
            format!("{h24}{{:}}{m:02}"),
            format!("\\text{{{h}:{m:02} {upper}}}"),
            format!("{h}:{m:02} \\text{{ {upper}}}"),
        ])
        .plain([
            format!("{h}:{m:02} {upper}"),
            format!("{h24}:{m:02}"),
            format!("{h}:{m:02} {half}"),
        ])
        .wrong([
            format!("{h}:{m:02}\\text{{ {other}}}"),
            format!("{h}:{:02}\\text{{ {half}}}", (m + 1) % 60),
        ])
        .wrong_plain([format!("{h}:{m:02} {other}"), format!("{}:{m:02} {upper}", h + 1)])
}

pub fn date(r: &mut Random) -> Item {
    const MONTHS: [&str; 6] = ["January", "March", "June", "August", "October", "December"];
    let (month, day) = (*r.pick(&MONTHS), r.int(4, 20));
    let other = *r.pick(&["February", "May", "November"]);
    Item::default()
        .gold([format!("{month} {day}"), format!("\\text{{{month} {day}}}")])
        .math([
            format!("\\text{{{month} {day}}}"),
            format!("\\text{{{day} {month}}}"),
            format!("\\text{{{month} {day}th}}"),
        ])
        .plain([
            format!("{month} {day}"),
            format!("{month} {day}th"),
            format!("{day} {month}"),
            format!("the {day}th of {month}"),
        ])
        .wrong([
            format!("\\text{{{month} {}}}", day + 1),
            format!("\\text{{{other} {day}}}"),
            format!("\\text{{{month}}}"),
        ])
        .wrong_plain([format!("{month} {}", day + 1), format!("{day} {other}")])
}

pub fn point(r: &mut Random) -> Item {
    let a = r.int(-9, 9);
    let b = r.other(-9, 9, &[a]);
    let named = r.one_in(2);
    let names = if named { *r.pick(&[("x", "y"), ("a", "b"), ("m", "n")]) } else { ("x", "y") };
    let (p, q) = names;
    let mut item = Item::default()
        .math([
            format!("({a},{b})"),
            format!("({a}, {b})"),
            format!("\\left({a},{b}\\right)"),
            format!("{p}={a}, {q}={b}"),
            format!("{q}={b},\\ {p}={a}"),
            format!("({p},{q})=({a},{b})"),
            format!("\\begin{{cases}}{p}={a}\\\\{q}={b}\\end{{cases}}"),
            format!("\\begin{{aligned}}{p}&={a}\\\\{q}&={b}\\end{{aligned}}"),
        ])
        .plain([
            format!("({a}, {b})"),
            format!("{p} = {a}, {q} = {b}"),
            format!("{q} = {b} and {p} = {a}"),
        ])
        .wrong([
            format!("({b},{a})"),
            format!("({a},{})", b + 1),
            format!("{p}={b}, {q}={a}"),
            format!("({q},{p})=({a},{b})"),
            format!("{a} \\text{{ or }} {b}"),
            format!("[{a},{b}]"),
            format!("{a}"),
        ])
        .wrong_plain([
            format!("({b}, {a})"),
            format!("{p} = {b}, {q} = {a}"),
            format!("{a} or {b}"),
        ]);
    item = if named {
        item.gold([
            format!("{p}={a},{q}={b}"),
            format!("({p},{q})=({a},{b})"),
            format!("{p} = {a}, {q} = {b}"),
        ])
    } else {
        item.gold([format!("({a},{b})"), format!("({a}, {b})")])
    };
    item
}

pub fn vector(r: &mut Random) -> Item {
    let a = r.int(1, 9);
    let b = r.other(1, 9, &[a]);
    let c = r.other(1, 9, &[a, b]);
    Item::default()
        .gold([
            format!("\\begin{{pmatrix}}{a}\\\\{b}\\\\{c}\\end{{pmatrix}}"),
            format!("\\begin{{bmatrix}} {a} \\\\ {b} \\\\ {c} \\end{{bmatrix}}"),
        ])
        .math([
            format!("\\begin{{pmatrix}}{a}\\\\{b}\\\\{c}\\end{{pmatrix}}"),
            format!("({a},{b},{c})"),
            format!("\\langle {a},{b},{c}\\rangle"),
            format!("[{a},{b},{c}]^T"),
            format!("({a},{b},{c})^{{\\top}}"),
            format!("\\begin{{pmatrix}}{a}&{b}&{c}\\end{{pmatrix}}^T"),
            format!("\\left[\\begin{{array}}{{c}}{a}\\\\{b}\\\\{c}\\end{{array}}\\right]"),
        ])
        .plain([format!("({a}, {b}, {c})"), format!("[{a}, {b}, {c}]")])
        .wrong([
            format!("\\begin{{pmatrix}}{b}\\\\{a}\\\\{c}\\end{{pmatrix}}"),
            format!("({a},{c},{b})"),
            format!("({a},{b})"),
        ])
        .wrong_plain([format!("({c}, {b}, {a})"), format!("({a}, {b}, {})", c + 10)])
}

pub fn matrix(r: &mut Random) -> Item {
    let a = r.int(-5, 9);
    let b = r.int(-5, 9);
    let c = r.other(-5, 9, &[b]);
    let d = r.int(-5, 9);
    let latex =
        |kind: &str, a, b, c, d| format!("\\begin{{{kind}}}{a}&{b}\\\\{c}&{d}\\end{{{kind}}}");
    Item::default()
        .gold([latex("pmatrix", a, b, c, d), latex("bmatrix", a, b, c, d)])
        .math([
            latex("pmatrix", a, b, c, d),
            latex("bmatrix", a, b, c, d),
            format!("\\left[\\begin{{array}}{{cc}}{a} & {b}\\\\ {c} & {d}\\end{{array}}\\right]"),
            format!("\\left(\\begin{{matrix}}{a} & {b}\\\\ {c} & {d}\\end{{matrix}}\\right)"),
            format!("[[{a},{b}],[{c},{d}]]"),
            format!("{}^T", latex("pmatrix", a, c, b, d)),
        ])
        .plain([format!("[[{a}, {b}], [{c}, {d}]]")])
        .wrong([
            latex("pmatrix", a, c, b, d),
            latex("bmatrix", a, b, c, d + 1),
            format!("[[{a},{c}],[{b},{d}]]"),
        ])
        .wrong_plain([format!("[[{a}, {c}], [{b}, {d}]]")])
}

pub fn set(r: &mut Random) -> Item {
    let a = r.int(-20, 20);
    let b = r.other(-20, 20, &[a]);
    let c = r.other(-20, 20, &[a, b]);
    let d = r.other(-20, 20, &[a, b, c]);
    Item::default()
        .gold([
            format!("\\{{{a},{b},{c}\\}}"),
            format!("{a}, {b}, {c}"),
            format!("{a}, {b}, \\text{{ and }} {c}"),
        ])
        .math([
            format!("\\{{{c},{a},{b}\\}}"),
            format!("{b}, {a}, {c}"),
            format!("{a},\\ {b},\\ {c}"),
            format!("{a}, {b} \\text{{ and }} {c}"),
            format!("\\{{{a}\\}}\\cup\\{{{b},{c}\\}}"),
            format!("\\left\\{{{a}, {b}, {c}\\right\\}}"),
            format!("x = {a}, {b}, {c}"),
            format!("x={a} \\text{{ or }} x={b} \\text{{ or }} x={c}"),
        ])
        .plain([
            format!("{a}, {b}, {c}"),
            format!("{a}, {b} and {c}"),
            format!("{a}, {c}, and {b}"),
        ])
        .wrong([
            format!("\\{{{a},{b}\\}}"),
            format!("\\{{{a},{b},{d}\\}}"),
            format!("{a}, {b}, {c}, {d}"),
            a.to_string(),
        ])
        .wrong_plain([format!("{a}, {b}"), format!("{a}, {b} and {d}"), format!("{c}")])
}

pub fn points(r: &mut Random) -> Item {
    let a = r.int(1, 9);
    let b = r.other(1, 9, &[a]);
    Item::default()
        .gold([
            format!("({a},{b}),({b},{a})"),
            format!("({a}, {b}), ({b}, {a})"),
            format!("({a},{b})\\quad({b},{a})"),
        ])
        .math([
            format!("({b},{a}),({a},{b})"),
            format!("({a}, {b}) \\quad ({b}, {a})"),
            format!("({a},{b}) \\text{{ and }} ({b},{a})"),
            format!("\\{{({a},{b}),({b},{a})\\}}"),
            format!("x={a},y={b} \\text{{ or }} x={b},y={a}"),
        ])
        .plain([format!("({a}, {b}) and ({b}, {a})"), format!("({b}, {a}), ({a}, {b})")])
        .wrong([
            format!("({a},{b})"),
            format!("({a},{b}),({b},{})", a + 10),
            format!("({a},{a}),({b},{b})"),
        ])
        .wrong_plain([format!("({a}, {b})"), format!("({a}, {b}) and ({b}, {b})")])
}

pub fn interval(r: &mut Random) -> Item {
    let a = r.int(-20, 5);
    let b = a + r.int(1, 20);
    let (open, close) = *r.pick(&[('(', ')'), ('[', ']'), ('(', ']'), ('[', ')')]);
    let flip = |open: char| if open == '(' { '[' } else { '(' };
    let shut = |close: char| if close == ')' { ']' } else { ')' };
    let low = if open == '(' { "<" } else { "\\le" };
    let high = if close == ')' { "<" } else { "\\le" };
    let is_relation = r.one_in(2);
    let item = Item::default()
        .math([
            format!("{open}{a},{b}{close}"),
            format!("x\\in {open}{a},{b}{close}"),
            format!("\\left{open}{a}, {b}\\right{close}"),
            format!("\\{{x \\mid {a}{low} x{high} {b}\\}}"),
        ])
        .plain([format!("{open}{a}, {b}{close}")])
        .wrong([
            format!("{}{a},{b}{close}", flip(open)),
            format!("{open}{a},{b}{}", shut(close)),
            format!("{open}{a},{}{close}", b + 1),
            format!("{open}{a},\\infty)"),
        ])
        .wrong_plain([
            format!("{}{a}, {b}{close}", flip(open)),
            format!("{open}{}, {b}{close}", a - 1),
        ]);
    if is_relation {
        return item
            .gold([format!("{a}{low} x{high} {b}")])
            .math([
                format!("{a} {low} x {high} {b}"),
                format!(
                    "{b}{} x{} {a}",
                    if close == ')' { ">" } else { "\\ge" },
                    if open == '(' { ">" } else { "\\geq" }
                ),
            ])
            .wrong([format!("x{high} {b}"), format!("{a}{low} x")]);
    }
    item.gold([format!("{open}{a},{b}{close}"), format!("x \\in {open}{a},{b}{close}")])
}

pub fn union(r: &mut Random) -> Item {
    let a = r.int(-9, 4);
    let b = a + r.int(1, 9);
    Item::default()
        .gold([format!("(-\\infty,{a})\\cup({b},\\infty)"), format!("x<{a} \\text{{ or }} x>{b}")])
        .math([
            format!("(-\\infty,{a})\\cup({b},\\infty)"),
            format!("({b},+\\infty) \\cup (-\\infty, {a})"),
            format!("\\mathbb{{R}}\\setminus[{a},{b}]").replace(
                &format!("\\mathbb{{R}}\\setminus[{a},{b}]"),
                &format!("(-\\infty, {a}) \\cup ({b}, \\infty)"),
            ),
            format!("x \\in (-\\infty,{a})\\cup({b},\\infty)"),
        ])
        .plain([format!("(-∞, {a}) ∪ ({b}, ∞)")])
        .wrong([
            format!("(-\\infty,{a}]\\cup({b},\\infty)"),
            format!("({a},{b})"),
            format!("(-\\infty,{a})"),
        ])
        .wrong_plain([format!("(-∞, {a}] ∪ [{b}, ∞)"), format!("({a}, {b})")])
}

pub fn inequality(r: &mut Random) -> Item {
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

pub fn solution(r: &mut Random) -> Item {
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

pub fn line(r: &mut Random) -> Item {
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

pub fn polynomial(r: &mut Random) -> Item {
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

pub fn identity(r: &mut Random) -> Item {
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

pub fn family(r: &mut Random) -> Item {
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

pub fn ratio(r: &mut Random) -> Item {
    let (a, b) = *r.pick(&[(2, 3), (3, 4), (4, 9), (5, 2), (7, 3), (1, 6), (8, 5)]);
    let k = r.int(2, 5);
    Item::default()
        .gold([format!("{a}:{b}"), format!("{a} : {b}")])
        .math([
            format!("{a}:{b}"),
            format!("{a} : {b}"),
            format!("{a} \\text{{ to }} {b}"),
            format!("{}:{}", k * a, k * b),
            format!("\\frac{{{a}}}{{{b}}}"),
            format!("{a}{{:}}{b}"),
        ])
        .plain([format!("{a}:{b}"), format!("{a} to {b}"), format!("{a}/{b}")])
        .wrong([
            format!("{b}:{a}"),
            format!("{a}:{}", b + 7),
            format!("{}:{}", a * a, b * b),
            format!("{b} \\text{{ to }} {a}"),
        ])
        .wrong_plain([format!("{b}:{a}"), format!("{b} to {a}")])
}

pub fn congruence(r: &mut Random) -> Item {
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

pub fn choice(r: &mut Random) -> Item {
    let letters = ['A', 'B', 'C', 'D', 'E'];
    let l = *r.pick(&letters);
    let o = loop {
        let o = *r.pick(&letters);
        if o != l {
            break o;
        }
    };
    let n = r.int(2, 90);
    if r.one_in(3) {
        return Item::default()
            .gold([
                format!("\\textbf{{({l})}}\\ {n}"),
                format!("\\textbf{{({l}) }}{n}"),
                format!("({l}) {n}"),
            ])
            .math([
                n.to_string(),
                format!("\\text{{{l}}}"),
                format!("\\textbf{{({l})}}"),
                format!("({l})\\ {n}"),
            ])
            .plain([l.to_string(), format!("({l})"), n.to_string(), format!("{l}) {n}")])
            .wrong([(n + 1).to_string(), format!("\\text{{{o}}}")])
            .wrong_plain([o.to_string(), (n + 2).to_string()]);
    }
    Item::default()
        .gold([
            l.to_string(),
            format!("({l})"),
            format!("\\text{{{l}}}"),
            format!("\\textbf{{({l})}}"),
        ])
        .math([
            l.to_string(),
            format!("\\text{{{l}}}"),
            format!("\\textbf{{({l})}}"),
            format!("({l})"),
            format!("\\mathrm{{({l})}}"),
            format!("\\text{{Option {l}}}"),
            format!("\\text{{{l}: the pump}}"),
            format!("{l}. {n}"),
        ])
        .plain([
            l.to_string(),
            format!("({l})"),
            format!("{l}) {n}"),
            format!("{l}: the pump"),
            format!("option {l}"),
            format!("**{l}**"),
        ])
        .wrong([
            o.to_string(),
            format!("\\text{{{o}}}"),
            format!("{l}, {o}"),
            format!("\\text{{{l} or {o}}}"),
            format!("\\text{{not {l}}}"),
            "A, B, C, D, E".into(),
        ])
        .wrong_plain([
            o.to_string(),
            format!("({o})"),
            format!("{l} or {o}"),
            format!("not {l}"),
            "None of the above".into(),
        ])
}

pub fn word(r: &mut Random) -> Item {
    let words = [
        "Evelyn",
        "circle",
        "Tuesday",
        "hyperbola",
        "Karim",
        "red",
        "isosceles",
        "Saturday",
        "parabola",
    ];
    let w = *r.pick(&words);
    let o = loop {
        let o = *r.pick(&words);
        if o != w {
            break o;
        }
    };
    Item::default()
        .gold([w.to_owned(), format!("\\text{{{w}}}")])
        .math([
            format!("\\text{{{w}}}"),
            format!("\\textbf{{{w}}}"),
            format!("\\mathrm{{{w}}}"),
            format!("\\text{{ {w} }}"),
            format!("\\text{{The answer is {w}}}"),
            format!("\\text{{{}}}", w.to_lowercase()),
        ])
        .plain([
            w.to_owned(),
            w.to_lowercase(),
            format!("**{w}**"),
            format!("{w}, because it fits"),
        ])
        .wrong([
            format!("\\text{{{o}}}"),
            format!("\\text{{not {w}}}"),
            format!("\\text{{{w} or {o}}}"),
            format!("\\text{{{o}, not {w}}}"),
        ])
        .wrong_plain([
            o.to_owned(),
            format!("not {w}"),
            format!("{o}, not {w}"),
            format!("{w} or {o}"),
        ])
}

pub fn yes_no(r: &mut Random) -> Item {
    let (w, o) = if r.one_in(2) { ("Yes", "No") } else { ("No", "Yes") };
    let n = r.int(2, 9);
    Item::default()
        .gold([w.to_owned(), format!("\\text{{{w}}}")])
        .math([format!("\\text{{{w}}}"), format!("\\textbf{{{w}}}")])
        .plain([w.to_owned(), w.to_uppercase(), format!("{w}, because {n} > 1"), w.to_lowercase()])
        .wrong([format!("\\text{{{o}}}"), n.to_string()])
        .wrong_plain([o.to_owned(), format!("{o}, because {n} > 1"), "yes or no".into()])
}

pub fn words_for_sets(r: &mut Random) -> Item {
    let a = r.int(1, 9);
    let rows: [(Vec<String>, Vec<String>, Vec<String>); 5] = [
        (
            vec!["\\emptyset".into(), "\\text{no solution}".into(), "\\varnothing".into()],
            vec![
                "\\text{no solution}".into(),
                "\\emptyset".into(),
                "\\{\\}".into(),
                "\\text{no solutions}".into(),
            ],
            vec!["0".into(), "\\{0\\}".into(), format!("\\{{{a}\\}}")],
        ),
        (
            vec!["\\mathbb{R}".into(), "(-\\infty,\\infty)".into()],
            vec![
                "\\text{all real numbers}".into(),
                "\\mathbb{R}".into(),
                "(-\\infty,\\infty)".into(),
                "\\text{all reals}".into(),
            ],
            vec!["\\mathbb{Z}".into(), "\\text{all integers}".into(), "[0,\\infty)".into()],
        ),
        (
            vec![format!("(-\\infty,{a})\\cup({a},\\infty)")],
            vec![
                format!("\\text{{all real numbers except }} {a}"),
                format!("\\mathbb{{R}}\\setminus\\{{{a}\\}}"),
                format!("\\text{{all reals except {a}}}"),
                format!("x\\neq {a}").replace("x\\neq", "(-\\infty,").replace(
                    &format!("(-\\infty, {a}"),
                    &format!("(-\\infty,{a})\\cup({a},\\infty)"),
                ),
            ],
            vec![
                "\\text{all real numbers}".into(),
                format!("\\text{{all real numbers except }} {}", a + 1),
            ],
        ),
        (
            vec!["[0,\\infty)".into()],
            vec![
                "\\text{all non-negative real numbers}".into(),
                "\\text{nonnegative reals}".into(),
                "\\mathbb{R}_{\\ge 0}".into(),
            ],
            vec![
                "\\text{all positive real numbers}".into(),
                "(0,\\infty)".into(),
                "\\text{all real numbers}".into(),
            ],
        ),
        (
            vec!["\\mathbb{Z}".into()],
            vec![
                "\\text{all integers}".into(),
                "\\mathbb{Z}".into(),
                "\\text{the integers}".into(),
            ],
            vec!["\\mathbb{R}".into(), "\\text{all real numbers}".into(), "\\mathbb{N}".into()],
        ),
    ];
    let (gold, right, wrong) = r.pick(&rows);
    Item::default().gold(gold.clone()).math(right.clone()).wrong(wrong.clone())
}

pub fn combination(r: &mut Random) -> Item {
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
