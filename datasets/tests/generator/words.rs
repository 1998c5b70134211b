//! Kinds of answers in words: choices, names, yes and no, sets by their names.

use crate::item::{Item, Random};

pub(crate) fn choice(r: &mut Random) -> Item {
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

pub(crate) fn word(r: &mut Random) -> Item {
    const WORDS: &str = "Evelyn~circle~Tuesday~hyperbola~Karim~red~isosceles~Saturday~parabola";
    let w = r.pick_of(WORDS);
    let o = loop {
        let o = r.pick_of(WORDS);
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

pub(crate) fn yes_no(r: &mut Random) -> Item {
    let (w, o) = if r.one_in(2) { ("Yes", "No") } else { ("No", "Yes") };
    let n = r.int(2, 9);
    Item::default()
        .gold([w.to_owned(), format!("\\text{{{w}}}")])
        .math([format!("\\text{{{w}}}"), format!("\\textbf{{{w}}}")])
        .plain([w.to_owned(), w.to_uppercase(), format!("{w}, because {n} > 1"), w.to_lowercase()])
        .wrong([format!("\\text{{{o}}}"), n.to_string()])
        .wrong_plain([o.to_owned(), format!("{o}, because {n} > 1"), "yes or no".into()])
}

pub(crate) fn words_for_sets(r: &mut Random) -> Item {
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
