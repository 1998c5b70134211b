//! Kinds of collections: points, vectors, matrices, sets, lists, intervals.

use crate::item::{Item, Random};

pub(crate) fn point(r: &mut Random) -> Item {
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

pub(crate) fn vector(r: &mut Random) -> Item {
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

pub(crate) fn matrix(r: &mut Random) -> Item {
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

pub(crate) fn set(r: &mut Random) -> Item {
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

pub(crate) fn points(r: &mut Random) -> Item {
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

pub(crate) fn interval(r: &mut Random) -> Item {
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

pub(crate) fn union(r: &mut Random) -> Item {
    let a = r.int(-9, 4);
    let b = a + r.int(1, 9);
    Item::default()
        .gold([format!("(-\\infty,{a})\\cup({b},\\infty)"), format!("x<{a} \\text{{ or }} x>{b}")])
        .math([
            format!("(-\\infty,{a})\\cup({b},\\infty)"),
            format!("({b},+\\infty) \\cup (-\\infty, {a})"),
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
