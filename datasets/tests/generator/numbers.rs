//! Kinds of numbers: integers, decimals, fractions, percent, money, powers of ten, roots, complex numbers.

use crate::item::{Item, Random, gcd, grouped, in_script};

const SMALL: &str = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen \
                     sixteen seventeen eighteen nineteen";
const TENS: &str = "twenty thirty forty fifty sixty seventy eighty ninety";

fn in_words(n: i64) -> String {
    let word = |list: &'static str, at: i64| list.split(' ').nth(at as usize).unwrap();
    match n {
        0..=19 => word(SMALL, n).into(),
        20..=99 if n % 10 == 0 => word(TENS, n / 10 - 2).into(),
        20..=99 => format!("{}-{}", word(TENS, n / 10 - 2), word(SMALL, n % 10)),
        _ if n % 100 == 0 => format!("{} hundred", word(SMALL, n / 100)),
        _ => format!("{} hundred {}", word(SMALL, n / 100), in_words(n % 100)),
    }
}

fn in_chinese(n: i64) -> String {
    let digits: Vec<char> = "零一二三四五六七八九".chars().collect();
    match n {
        0..=9 => digits[n as usize].to_string(),
        10..=19 if n == 10 => "十".into(),
        10..=19 => format!("十{}", digits[(n % 10) as usize]),
        _ if n % 10 == 0 => format!("{}十", digits[(n / 10) as usize]),
        _ => format!("{}十{}", digits[(n / 10) as usize], digits[(n % 10) as usize]),
    }
}

pub(crate) fn integer(r: &mut Random) -> Item {
    let n = r.int(3, 980);
    Item::default()
        .gold([n.to_string(), format!("{n}.0"), format!("n = {n}"), format!("\\boxed{{{n}}}")])
        .math([
            n.to_string(),
            format!("{n}.00"),
            format!("n = {n}"),
            format!("\\text{{{n}}}"),
            format!("\\mathbf{{{n}}}"),
            format!("0{n}"),
            format!("={n}"),
            format!("\\num{{{n}}}"),
            format!("\\frac{{{}}}{{2}}", 2 * n),
            format!("{} + {}", n - 2, 2),
            format!("\\text{{The answer is {n}}}"),
            format!("{n}\\text{{ apples}}"),
        ])
        .plain([
            n.to_string(),
            in_words(n),
            format!("{n} apples"),
            format!("**{n}**"),
            format!("{n}.0"),
            format!("exactly {n}"),
        ])
        .wrong([
            (n + 1).to_string(),
            format!("-{n}"),
            format!("{n}0"),
            format!("7{n}"),
            format!("{n}.5"),
            format!("{n}, {}", n + 1),
            format!("{n} \\text{{ or }} {}", n + 2),
            format!("\\neq {n}"),
            format!("\\text{{not }} {n}"),
            format!("{n}^2"),
        ])
        .wrong_plain([
            (n - 1).to_string(),
            format!("not {n}"),
            format!("7{n}"),
            format!("{n} or {}", n + 1),
            format!("between {n} and {}", n + 3),
            format!("{n}abc"),
            format!("less than {n}"),
        ])
}

pub(crate) fn script_digits(r: &mut Random) -> Item {
    let n = r.int(11, 99);
    let other = if n % 11 == 0 { n + 1 } else { n % 10 * 10 + n / 10 };
    let zero = *r.pick(&['\u{ff10}', '\u{660}', '\u{966}', '\u{9e6}', '\u{e50}']);
    Item::default()
        .gold([n.to_string()])
        .math([in_script(&n.to_string(), zero)])
        .plain([in_script(&n.to_string(), zero), in_chinese(n)])
        .wrong([in_script(&other.to_string(), zero)])
        .wrong_plain([in_script(&other.to_string(), zero), in_chinese(n % 90 + 1)])
}

pub(crate) fn thousands(r: &mut Random) -> Item {
    let n = r.int(1_000_000, 99_999_999);
    let ways = |n: i64| {
        vec![
            grouped(n, ","),
            grouped(n, "{,}"),
            grouped(n, "\\,"),
            grouped(n, ",\\!"),
            grouped(n, " "),
            grouped(n, "."),
            n.to_string(),
        ]
    };
    Item::default()
        .gold([n.to_string(), grouped(n, ",")])
        .math(ways(n))
        .plain([grouped(n, ","), grouped(n, " "), grouped(n, "'"), grouped(n, ".")])
        .wrong(ways(n + 1000))
        .wrong_plain([grouped(n * 10, ","), grouped(n + 1, " "), (n / 1000).to_string()])
}

pub(crate) fn decimal(r: &mut Random) -> Item {
    let (whole, part) = (r.int(0, 400), r.other(1, 99, &[10, 20, 30, 40, 50, 60, 70, 80, 90]));
    let hundredths = 100 * whole + part;
    let divisor = gcd(hundredths, 100);
    let text = format!("{whole}.{part:02}");
    let minor = (part + 1) % 100;
    Item::default()
        .gold([text.clone(), format!("x={text}")])
        .math([
            text.clone(),
            format!("{text}0"),
            format!("{whole}{{,}}{part:02}"),
            format!("\\frac{{{}}}{{{}}}", hundredths / divisor, 100 / divisor),
            format!("\\num{{{text}}}"),
            format!("x \\approx {text}"),
            if whole == 0 { format!(".{part:02}") } else { text.clone() },
        ])
        .plain([text.clone(), format!("{whole},{part:02}"), format!("{text} liters")])
        .wrong([
            format!("{whole}.{minor:02}"),
            format!("-{text}"),
            format!("{whole}{part:02}"),
            format!("3{text}"),
        ])
        .wrong_plain([format!("{}.{part:02}", whole + 1), format!("{whole}{part:02}")])
}

pub(crate) fn fraction(r: &mut Random) -> Item {
    let q = r.int(3, 29);
    let p = loop {
        let p = r.int(1, 60);
        if gcd(p, q) == 1 {
            break p;
        }
    };
    let k = r.int(2, 5);
    let mut item = Item::default()
        .gold([
            format!("\\frac{{{p}}}{{{q}}}"),
            format!("{p}/{q}"),
            format!("\\dfrac{{{p}}}{{{q}}}"),
        ])
        .math([
            format!("\\frac{{{p}}}{{{q}}}"),
            format!("\\tfrac{{{p}}}{{{q}}}"),
            format!("\\nicefrac{{{p}}}{{{q}}}"),
            format!("\\sfrac{{{p}}}{{{q}}}"),
            format!("{p}/{q}"),
            format!("\\frac{{{}}}{{{}}}", k * p, k * q),
            format!("{{{p} \\over {q}}}"),
            format!("{p} \\div {q}"),
            format!("\\left(\\frac{{{q}}}{{{p}}}\\right)^{{-1}}"),
        ])
        .plain([format!("{p}/{q}"), format!("{p} / {q}"), format!("{}/{}", k * p, k * q)])
        .wrong([
            format!("-\\frac{{{p}}}{{{q}}}"),
            format!("\\frac{{{}}}{{{q}}}", p + 1),
            format!("\\frac{{{p}}}{{{}}}", q + 1),
            p.to_string(),
        ])
        .wrong_plain([format!("{}/{q}", p + 1), format!("{p}/{}", q + 2), q.to_string()]);
    if p != 1 {
        item = item.wrong([format!("\\frac{{{q}}}{{{p}}}")]);
    }
    if p < 10 && q < 10 {
        item = item.math([format!("\\frac{p}{q}")]);
    }
    if (2..20).contains(&p) && q == 8 {
        item = item.plain([format!("{} eighths", in_words(p))]);
    }
    item
}

pub(crate) fn mixed(r: &mut Random) -> Item {
    let (w, q) = (r.int(1, 30), *r.pick(&[3, 4, 5, 6, 7, 8, 9, 11, 12]));
    let p = loop {
        let p = r.int(1, q - 1);
        if gcd(p, q) == 1 {
            break p;
        }
    };
    let improper = w * q + p;
    Item::default()
        .gold([format!("{w}\\frac{{{p}}}{{{q}}}"), format!("\\frac{{{improper}}}{{{q}}}")])
        .math([
            format!("{w}\\frac{{{p}}}{{{q}}}"),
            format!("{w}\\ \\frac{{{p}}}{{{q}}}"),
            format!("\\frac{{{improper}}}{{{q}}}"),
            format!("{w}+\\frac{{{p}}}{{{q}}}"),
            format!("{w} \\text{{ and }} \\frac{{{p}}}{{{q}}}"),
            format!("{w}\\dfrac{{{p}}}{{{q}}}\\text{{ hours}}"),
        ])
        .plain([format!("{w} {p}/{q}"), format!("{improper}/{q}"), format!("{w} and {p}/{q}")])
        .wrong([
            format!("\\frac{{{}}}{{{q}}}", w * p + q * improper),
            format!("{}\\frac{{{p}}}{{{q}}}", w + 1),
            format!("\\frac{{{p}}}{{{q}}}"),
            format!("{w}"),
        ])
        .wrong_plain([format!("{} {p}/{q}", w + 1), format!("{w}{p}/{q}")])
}

pub(crate) fn percent(r: &mut Random) -> Item {
    let n = r.int(1, 99);
    Item::default()
        .gold([format!("{n}\\%"), format!("{n}%")])
        .math([
            format!("{n}\\%"),
            n.to_string(),
            format!("{}", n as f64 / 100.0),
            format!("\\frac{{{n}}}{{100}}"),
            format!("{n}\\text{{ percent}}"),
            format!("{n}\\ \\%"),
        ])
        .plain([format!("{n}%"), format!("{n} percent"), format!("{n} per cent")])
        .wrong([format!("{}\\%", n + 1), format!("{n}00\\%"), format!("-{n}\\%")])
        .wrong_plain([format!("{}%", n + 10), format!("0.{n:02}%")])
}

pub(crate) fn money(r: &mut Random) -> Item {
    let (d, c) = (r.int(2, 4000), r.int(1, 99));
    let whole = grouped(d, ",");
    Item::default()
        .gold([format!("\\${d}.{c:02}"), format!("{d}.{c:02}"), format!("\\${whole}.{c:02}")])
        .math([
            format!("\\${d}.{c:02}"),
            format!("{d}.{c:02}"),
            format!("\\${whole}.{c:02}"),
            format!("{d}.{c:02}\\text{{ dollars}}"),
            format!("\\text{{\\${d}.{c:02}}}"),
        ])
        .plain([
            format!("${d}.{c:02}"),
            format!("${whole}.{c:02}"),
            format!("{d}.{c:02} dollars"),
            format!("US${d}.{c:02}"),
            format!("USD {d}.{c:02}"),
            format!("\\${d}.{c:02}"),
        ])
        .wrong([format!("\\${}.{c:02}", d + 1), format!("\\${d}{c:02}"), format!("\\${d}")])
        .wrong_plain([format!("${}.{c:02}", d + 10), format!("${d}"), format!("${c}.{d}")])
}

pub(crate) fn scientific(r: &mut Random) -> Item {
    let (a, b, e) = (r.int(1, 9), r.int(1, 9), r.int(3, 12) * if r.one_in(2) { 1 } else { -1 });
    Item::default()
        .gold([format!("{a}.{b}\\times 10^{{{e}}}"), format!("{a}.{b} \\cdot 10^{{{e}}}")])
        .math([
            format!("{a}.{b}\\times 10^{{{e}}}"),
            format!("{a}.{b} \\cdot 10^{{{e}}}"),
            format!("{a}.{b}\\times10^{{{e}}}\\text{{ m}}"),
            format!("\\num{{{a}.{b}e{e}}}"),
            format!("{a}{b}\\times 10^{{{}}}", e - 1),
            format!("{a}.{b} x 10^{{{e}}}"),
            format!("{a}.{b} * 10^({e})"),
        ])
        .plain([
            format!("{a}.{b} x 10^{e}"),
            format!("{a}.{b}e{e}"),
            format!("{a}.{b} × 10^{e}"),
            format!("{a}.{b}x10^{e}"),
            format!("{a}.{b}E{e}"),
        ])
        .wrong([
            format!("{a}.{b}\\times 10^{{{}}}", e + 1),
            format!("{b}.{a}1\\times 10^{{{e}}}"),
            format!("{a}.{b}\\times 10^{{{}}}", -e),
            format!("{a}.{b}"),
        ])
        .wrong_plain([format!("{a}.{b} x 10^{}", e - 1), format!("{a}.{b}e{}", e + 2)])
}
