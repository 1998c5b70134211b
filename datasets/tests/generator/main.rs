//! Pairs of gold answers and completions whose labels are known by construction, and how often the math verifier gives
//! them. `TEALIGHT_PAIRS=100000` makes so many (the nightly run), `TEALIGHT_PAIRS_SEED` another sequence,
//! `TEALIGHT_PAIRS_OUT=FILE` writes them as JSON lines, for `scripts/compare-generated`.

mod collections;
mod exact;
mod item;
mod measures;
mod mutants;
mod numbers;
mod relations;
mod words;
mod wrap;

use std::collections::BTreeMap;
use std::io::Write;

use item::{Item, Random};
use tealight_datasets::verify::math::{Mode, Outcome, check};

/// A kind of value.
type Kind = (&'static str, fn(&mut Random) -> Item);

const KINDS: [Kind; 40] = [
    ("integers", numbers::integer),
    ("digits of other scripts", numbers::script_digits),
    ("thousands", numbers::thousands),
    ("decimals", numbers::decimal),
    ("fractions", numbers::fraction),
    ("mixed numbers", numbers::mixed),
    ("percent", numbers::percent),
    ("money", numbers::money),
    ("powers of ten", numbers::scientific),
    ("repeating decimals", exact::repeating),
    ("bases", exact::based),
    ("roots", exact::surd),
    ("multiples of pi", exact::pi),
    ("complex numbers", exact::complex),
    ("factorials and combinations", exact::counts),
    ("printed floats", exact::float),
    ("angles", measures::angle),
    ("units", measures::unit),
    ("times", measures::time),
    ("dates", measures::date),
    ("points and named values", collections::point),
    ("vectors", collections::vector),
    ("matrices", collections::matrix),
    ("sets", collections::set),
    ("lists of points", collections::points),
    ("intervals", collections::interval),
    ("unions of intervals", collections::union),
    ("inequalities", relations::inequality),
    ("solved equations", relations::solution),
    ("lines", relations::line),
    ("polynomials", relations::polynomial),
    ("identities", relations::identity),
    ("families", relations::family),
    ("ratios", measures::ratio),
    ("congruences", relations::congruence),
    ("choices", words::choice),
    ("words", words::word),
    ("yes and no", words::yes_no),
    ("sets in words", words::words_for_sets),
    ("rational functions", relations::combination),
];

struct Pair {
    kind: &'static str,
    gold: String,
    answer: String,
    is_correct: bool,
    is_marked: bool,
}

fn pair(r: &mut Random) -> Pair {
    if r.one_in(12) {
        let (gold, answer) = wrap::hacks(r);
        return Pair {
            kind: "no solution at all",
            gold,
            answer,
            is_correct: false,
            is_marked: true,
        };
    }
    let (kind, make) = *r.pick(&KINDS);
    let item = make(r);
    let gold = r.pick(&item.golds).clone();
    let is_correct = r.one_in(2);
    let (math, plain) = match is_correct {
        true => (&item.math, &item.plain),
        false => (&item.wrong_math, &item.wrong_plain),
    };
    let is_math = plain.is_empty() || r.one_in(2);
    let answer = r.pick(if is_math { math } else { plain });
    let wrapped = if is_math { wrap::math(r, answer) } else { wrap::plain(r, answer) };
    let gold = if is_math && r.one_in(20) { around_gold(r, &gold) } else { gold };
    Pair { kind, gold, answer: wrapped.text, is_correct, is_marked: wrapped.is_marked }
}

/// A gold answer as some datasets write it.
fn around_gold(r: &mut Random, gold: &str) -> String {
    if gold.contains("box") {
        return gold.to_owned();
    }
    let patterns = "\
        ['V']~$V$~We add them.\n\nAnswer: $V$~So it is $\\boxed{V}$.~The steps are clear.\n#### V";
    r.pick_of(patterns).replace('V', gold)
}

/// How often a mode is wrong about one kind.
#[derive(Default, Clone, Copy)]
struct Count {
    right: u32,
    refused: u32,
    wrong: u32,
    accepted: u32,
}

impl Count {
    fn add(&mut self, is_correct: bool, is_accepted: bool) {
        match is_correct {
            true => (self.right += 1, self.refused += u32::from(!is_accepted)),
            false => (self.wrong += 1, self.accepted += u32::from(is_accepted)),
        };
    }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn generated_pairs_get_their_labels() {
    let count = variable("TEALIGHT_PAIRS").unwrap_or(6_000);
    let mut r = Random(variable("TEALIGHT_PAIRS_SEED").unwrap_or(1));
    let mut out = std::env::var("TEALIGHT_PAIRS_OUT")
        .ok()
        .map(|path| std::fs::File::create(path).expect("a file"));
    let mut kinds: BTreeMap<&str, [Count; 2]> = BTreeMap::new();
    let (mut total, mut failures) = ([Count::default(); 2], Vec::new());
    for _ in 0..count {
        let pair = pair(&mut r);
        let mut verdicts = [false; 2];
        for (at, mode) in [Mode::Strict, Mode::Flexible].into_iter().enumerate() {
            let checked = check(&pair.gold, &pair.answer, mode);
            let is_accepted = checked.outcome == Outcome::Correct;
            verdicts[at] = is_accepted;
            if at == 0 && !pair.is_marked {
                continue;
            }
            total[at].add(pair.is_correct, is_accepted);
            kinds.entry(pair.kind).or_default()[at].add(pair.is_correct, is_accepted);
            if is_accepted != pair.is_correct && failures.len() < 4000 {
                let word = if is_accepted { "accepted" } else { "refused" };
                let found = checked.found.map(|found| (found.text.into_owned(), found.rule.name()));
                failures.push(format!(
                    "{word} {mode:?} {}: gold {:?}, answer {:?}: {:?} {found:?}",
                    pair.kind, pair.gold, pair.answer, checked.outcome
                ));
            }
        }
        if let Some(out) = &mut out {
            let row = serde_json::json!({"kind": pair.kind, "gold": pair.gold, "answer": pair.answer,
                "correct": pair.is_correct, "marked": pair.is_marked,
                "strict": verdicts[0], "lenient": verdicts[1]});
            writeln!(out, "{row}").expect("a file");
        }
    }
    let share = |part: u32, all: u32| 100.0 * f64::from(part) / f64::from(all.max(1));
    let mut rows: Vec<_> = kinds.into_iter().collect();
    let worst = |counts: &[Count; 2]| {
        counts
            .iter()
            .map(|c| 10.0 * share(c.accepted, c.wrong) + share(c.refused, c.right))
            .fold(0.0, f64::max)
    };
    rows.sort_by(|a, b| worst(&b.1).total_cmp(&worst(&a.1)));
    rows.push(("all", total));
    println!(
        "| kind | pairs | strict accepts % | strict refuses % | lenient accepts % | lenient refuses % |"
    );
    for (kind, [strict, lenient]) in &rows {
        let n = lenient.right + lenient.wrong;
        let cells = [strict, lenient].map(|c| {
            format!("{:.2} | {:.2}", share(c.accepted, c.wrong), share(c.refused, c.right))
        });
        println!("| {kind} | {n} | {} |", cells.join(" | "));
    }
    failures.sort();
    failures.iter().for_each(|failure| println!("{failure}"));
    for (counts, most) in total.iter().zip([0.1, 0.2]) {
        assert!(
            share(counts.accepted, counts.wrong) <= most,
            "{} of {} wrong answers accepted",
            counts.accepted,
            counts.wrong
        );
        assert!(
            share(counts.refused, counts.right) <= 2.0,
            "{} of {} right answers refused",
            counts.refused,
            counts.right
        );
    }
}
