//! Kinds of exact numbers: roots, multiples of pi, complex numbers, counts, bases, and floats as they are printed.

use crate::item::{Item, Random, gcd, grouped, signed};

pub(crate) fn repeating(r: &mut Random) -> Item {
    let n = r.other(12, 98, &[22, 33, 44, 55, 66, 77, 88]);
    let divisor = gcd(n, 99);
    let (p, q) = (n / divisor, 99 / divisor);
    Item::default()
        .gold([format!("\\frac{{{p}}}{{{q}}}"), format!("0.\\overline{{{n}}}")])
        .math([
            format!("0.\\overline{{{n}}}"),
            format!(".\\overline{{{n}}}"),
            format!("0.({n})"),
            format!("0.{n}{n}{n}\\ldots"),
            format!("\\frac{{{p}}}{{{q}}}"),
        ])
        .plain([format!("0.({n})"), format!("0.{n}{n}{n}..."), format!("{p}/{q}")])
        .wrong([
            format!("0.{n}"),
            format!("0.\\overline{{{}}}", n + 1),
            format!("0.0\\overline{{{n}}}"),
        ])
        .wrong_plain([format!("0.{n}"), format!("0.({})", n - 1)])
}

pub(crate) fn based(r: &mut Random) -> Item {
    let base = r.int(3, 9);
    let digits: String = (0..r.int(3, 5)).map(|_| r.int(1, base - 1).to_string()).collect();
    let mut changed = digits.clone();
    let last = changed.pop();
    changed.push(if last == Some('1') { '2' } else { '1' });
    let word = ["three", "four", "five", "six", "seven", "eight", "nine"][base as usize - 3];
    Item::default()
        .gold([format!("{digits}_{base}"), format!("{digits}_{{{base}}}")])
        .math([
            format!("{digits}_{base}"),
            format!("{digits}_{{{base}}}"),
            format!("({digits})_{{{base}}}"),
            format!("{digits}_{{\\text{{{word}}}}}"),
            digits.clone(),
        ])
        .plain([format!("{digits} base {base}"), format!("{digits} in base {word}")])
        .wrong([format!("{changed}_{base}"), format!("{digits}_{{{}}}", base + 1), changed.clone()])
        .wrong_plain([format!("{changed} base {base}"), format!("{digits}1 base {base}")])
}

pub(crate) fn surd(r: &mut Random) -> Item {
    let (a, b) = (r.int(2, 9), *r.pick(&[2, 3, 5, 6, 7, 10, 11, 13]));
    let c = r.int(1, 9);
    let pair = r.one_in(2);
    if pair {
        return Item::default()
            .gold([format!("{c}+{a}\\sqrt{{{b}}}")])
            .math([
                format!("{c}+{a}\\sqrt{{{b}}}"),
                format!("{a}\\sqrt{{{b}}}+{c}"),
                format!("{c}+\\sqrt{{{}}}", a * a * b),
            ])
            .plain([format!("{c} + {a}√{b}"), format!("{c} + {a}*sqrt({b})")])
            .wrong([
                format!("{c}-{a}\\sqrt{{{b}}}"),
                format!("{c}\\pm{a}\\sqrt{{{b}}}"),
                format!("{c}+{a}\\sqrt{{{}}}", b + 1),
                format!("{}\\sqrt{{{b}}}", c + a),
            ])
            .wrong_plain([format!("{c} - {a}√{b}"), format!("{} + {a}*sqrt({b})", c + 1)]);
    }
    Item::default()
        .gold([format!("{a}\\sqrt{{{b}}}"), format!("\\sqrt{{{}}}", a * a * b)])
        .math([
            format!("{a}\\sqrt{{{b}}}"),
            format!("{a} \\cdot \\sqrt{{{b}}}"),
            format!("\\sqrt{{{}}}", a * a * b),
            format!("{a}\\cdot {b}^{{1/2}}"),
            format!("\\frac{{{}}}{{\\sqrt{{{b}}}}}", a * b),
            format!("{a}\\sqrt{{{b}}} \\approx {:.3}", a as f64 * (b as f64).sqrt()),
            format!("{a}\\sqrt{{{b}}}\\text{{ cm}}"),
        ])
        .plain([format!("{a}√{b}"), format!("{a}*sqrt({b})"), format!("{a}sqrt({b})")])
        .wrong([
            format!("-{a}\\sqrt{{{b}}}"),
            format!("{a}\\sqrt{{{}}}", b + 1),
            format!("{a}\\sqrt[3]{{{b}}}"),
            format!("\\pm {a}\\sqrt{{{b}}}"),
            format!("\\sqrt{{{}}}", a * a * b + 1),
        ])
        .wrong_plain([format!("{}√{b}", a + 1), format!("{a}*sqrt({})", b + 4)])
}

pub(crate) fn pi(r: &mut Random) -> Item {
    let (p, q) = (r.int(2, 15), *r.pick(&[1, 1, 4, 7, 11, 13]));
    let divisor = gcd(p, q);
    let (p, q) = (p / divisor, q / divisor);
    if q == 1 {
        return Item::default()
            .gold([format!("{p}\\pi")])
            .math([
                format!("{p}\\pi"),
                format!("{p}\\cdot\\pi"),
                format!("\\pi\\cdot {p}"),
                format!("{p} \\pi\\text{{ cm}}^2"),
            ])
            .plain([format!("{p}π"), format!("{p}*pi"), format!("{p} pi")])
            .wrong([
                p.to_string(),
                format!("{}\\pi", p + 1),
                format!("{p}\\pi^2"),
                format!("-{p}\\pi"),
            ])
            .wrong_plain([format!("{}π", p + 1), format!("{p}"), format!("{p}*pi^2")]);
    }
    Item::default()
        .gold([format!("\\frac{{{p}\\pi}}{{{q}}}")])
        .math([
            format!("\\frac{{{p}\\pi}}{{{q}}}"),
            format!("\\frac{{{p}}}{{{q}}}\\pi"),
            format!("{p}\\pi/{q}"),
            format!("\\frac{{{p}}}{{{q}}} \\cdot \\pi"),
        ])
        .plain([format!("{p}π/{q}"), format!("{p}*pi/{q}"), format!("({p}/{q})π")])
        .wrong([
            format!("\\frac{{{q}\\pi}}{{{p}}}1"),
            format!("\\frac{{{p}}}{{{q}}}"),
            format!("\\frac{{{p}\\pi}}{{{}}}", q + 1),
        ])
        .wrong_plain([format!("{p}/{q}"), format!("{}π/{q}", p + 1)])
}

pub(crate) fn complex(r: &mut Random) -> Item {
    let (a, b) = (r.other(-9, 9, &[0]), r.int(2, 9));
    Item::default()
        .gold([format!("{a}+{b}i"), format!("{a} + {b}i")])
        .math([
            format!("{a}+{b}i"),
            format!("{b}i{}", signed(a)),
            format!("{a}+{b}\\mathrm{{i}}"),
            format!("{a}+{b}\\cdot i"),
            format!("z = {a}+{b}i"),
            format!("{a} + i{b}"),
        ])
        .plain([format!("{a} + {b}i"), format!("{a}+{b}*i")])
        .wrong([
            format!("{a}-{b}i"),
            format!("{}+{b}i", -a),
            format!("{a}+{}i", b + 1),
            format!("{a}{b}i"),
        ])
        .wrong_plain([format!("{a} - {b}i"), format!("{} + {b}i", a + 1)])
}

pub(crate) fn counts(r: &mut Random) -> Item {
    let n = r.int(4, 9);
    let k = r.int(2, n - 2);
    let product = |from: i64, to: i64| (from..=to).product::<i64>();
    let binomial = product(n - k + 1, n) / product(1, k);
    let arranged = product(n - k + 1, n);
    match r.int(1, 4) {
        1 => Item::default()
            .gold([binomial.to_string(), format!("\\binom{{{n}}}{{{k}}}")])
            .math([
                format!("\\binom{{{n}}}{{{k}}}"),
                format!("{{}}_{{{n}}}C_{{{k}}}"),
                format!("{{}}^{n}C_{k}"),
                format!("C_{n}^{k}"),
                format!("\\mathrm{{C}}_{{{n}}}^{{{k}}}"),
                format!("{{{n} \\choose {k}}}"),
                format!("C({n},{k})"),
                format!("\\dbinom{{{n}}}{{{k}}} = {binomial}"),
                format!("\\frac{{{n}!}}{{{k}!{}!}}", n - k),
            ])
            .plain([binomial.to_string(), format!("C({n}, {k})"), format!("{n}C{k}")])
            .wrong([
                format!("\\binom{{{n}}}{{{}}}", if 2 * k == n + 1 { k + 1 } else { k - 1 }),
                arranged.to_string(),
            ])
            .wrong_plain([(binomial + 1).to_string(), arranged.to_string()]),
        2 => Item::default()
            .gold([arranged.to_string()])
            .math([
                format!("{{}}^{{{n}}}P_{{{k}}}"),
                format!("A_{n}^{k}"),
                format!("P({n},{k})"),
                format!("\\frac{{{n}!}}{{{}!}}", n - k),
            ])
            .plain([arranged.to_string(), format!("{n}P{k}")])
            .wrong([binomial.to_string(), format!("{n}!+1")])
            .wrong_plain([(arranged - 1).to_string()]),
        3 => Item::default()
            .gold([product(1, n).to_string(), format!("{n}!")])
            .math([
                format!("{n}!"),
                format!("{n} \\cdot {}!", n - 1),
                format!("{n}! = {}", product(1, n)),
                grouped(product(1, n), ","),
            ])
            .plain([format!("{}", product(1, n)), format!("{n}! ways")])
            .wrong([format!("{}!", n + 1), format!("{n}!!"), n.to_string()])
            .wrong_plain([format!("{}", product(1, n) + 1)]),
        _ => {
            let double: i64 = (1..=n).rev().step_by(2).product();
            Item::default()
                .gold([double.to_string(), format!("{n}!!")])
                .math([format!("{n}!!"), double.to_string()])
                .plain([double.to_string()])
                .wrong([format!("({n}!)!"), format!("{n}!"), format!("{}!!", n + 1)])
                .wrong_plain([(double + 2).to_string()])
        }
    }
}

/// Golds as Python prints 64-bit numbers.
pub(crate) fn float(r: &mut Random) -> Item {
    let (p, q) = (r.int(1, 40), *r.pick(&[3, 7, 9, 11]));
    if r.one_in(2) || gcd(p, q) > 1 {
        let tenths = r.int(11, 99);
        let printed = (tenths as f64 / 10.0) * (1.0 + f64::EPSILON);
        return Item::default()
            .gold([format!("{printed}")])
            .math([format!("{}.{}", tenths / 10, tenths % 10), format!("\\frac{{{tenths}}}{{10}}")])
            .plain([format!("{}.{}", tenths / 10, tenths % 10)])
            .wrong([format!("{}.{}", tenths / 10, (tenths + 1) % 10)])
            .wrong_plain([format!("{}.{}", tenths / 10 + 1, tenths % 10)]);
    }
    Item::default()
        .gold([format!("{}", p as f64 / q as f64)])
        .math([format!("\\frac{{{p}}}{{{q}}}")])
        .plain([format!("{p}/{q}")])
        .wrong([format!("\\frac{{{}}}{{{q}}}", p + 1), format!("{}", p / q)])
        .wrong_plain([format!("{}/{q}", p + 2)])
}
