//! Kinds of measures: angles, units, times, dates, ratios.

use crate::item::{Item, Random};

pub(crate) fn angle(r: &mut Random) -> Item {
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

pub(crate) fn unit(r: &mut Random) -> Item {
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

pub(crate) fn time(r: &mut Random) -> Item {
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

pub(crate) fn date(r: &mut Random) -> Item {
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

pub(crate) fn ratio(r: &mut Random) -> Item {
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
