//! Pairs with parts deleted, repeated and exchanged, and soups of the grammar's pieces: no panic, one verdict.
//! `TEALIGHT_MUTANTS=10000000` makes so many, `TEALIGHT_PAIRS_SEED` others; those over 20 ms are printed.

use std::time::{Duration, Instant};

use tealight_datasets::verify::math::{Mode, Outcome, check};

use crate::item::Random;
use crate::{pair, variable};

const PIECES: &str = "1|2|10|0.5|.5|x|y|n|\\pi|e|i|+|-|*|/|^|_|!|!!|(|)|[|]|{|}|\\{|\\}|\\frac|\\sqrt|\\sqrt[3]|,|;|=|<|\\le|\
    \\pm|\\cup|\\in|\\infty|%|^\\circ|\\text{cm}|\\begin{pmatrix}|\\end{pmatrix}|\\begin{cases}|\\end{cases}|\
    &|\\\\|\\sin|\\log_2|||\\overline{3}|\\boxed{|\\fbox{|<answer>|</answer>|#### |The answer is |Answer: |\
     or | and | not |, wait, no: |\\binom{|\\SI{|}{|\\num{12e9|\\left|\\right|\\mathbb{Z}|\\pmod{7}|\
    9999999999999999999|1e99999|0.(3)|5:30|p.m.|June |½|²|∞|٢|二十五|１|\u{202e}|\u{0}|é|故选|\
    <think>|</think>|\\text{ million}|\\$|$|$$|\\[|\\]|\n|\n\n|**|\\,|\\ |:|.|...|\\ldots|\\to|\\ne|\
    \\int_0^1|\\sum_{k=1}^{9}|dx|\\operatorname{|^{-1}|^T|^{99999}|\\lfloor|\\rfloor|\\gcd|mod |seven |\
    twenty-|half|dozen|million|base |_{16}|A|B)|(C)|yes|no solution|\\emptyset|\\mathbb R|km/h|m/s^2|°|'|\"|\
    I don't think |\\neg";

fn soup(r: &mut Random, pieces: &[&str], most: i64) -> String {
    (0..r.int(1, most)).map(|_| *r.pick(pieces)).collect()
}

/// A place between two characters.
fn place(r: &mut Random, text: &str) -> usize {
    let at = r.int(0, text.len() as i64) as usize;
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn mutated(r: &mut Random, text: &str, other: &str, pieces: &[&str]) -> String {
    let mut text = text.to_owned();
    for _ in 0..r.int(1, 4) {
        let (a, b) = (place(r, &text), place(r, &text));
        let (start, end) = (a.min(b), a.max(b));
        let piece = match r.int(0, 6) {
            0 => String::new(),
            1 => text[start..end].repeat(r.int(2, 4) as usize),
            2 => other[place(r, other)..].to_owned(),
            3 => other[..place(r, other)].to_owned(),
            4 => text[start..end].chars().rev().collect(),
            _ => soup(r, pieces, 3),
        };
        let end = if r.one_in(2) { start } else { end.min(start + 12) };
        let end = (start..=end).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(start);
        text.replace_range(start..end, &piece);
    }
    text
}

#[test]
fn mutated_pairs_never_panic() {
    let pieces: Vec<&str> = PIECES.split('|').collect();
    let count = variable("TEALIGHT_MUTANTS").unwrap_or(10_000);
    let mut r = Random(variable("TEALIGHT_PAIRS_SEED").unwrap_or(3));
    let (started, mut slow) = (Instant::now(), 0);
    for number in 0..count {
        let (first, second) = (pair(&mut r), pair(&mut r));
        let (gold, answer) = match r.int(0, 4) {
            0 => (soup(&mut r, &pieces, 14), soup(&mut r, &pieces, 20)),
            1 => (soup(&mut r, &pieces, 14), first.answer),
            2 => (mutated(&mut r, &first.gold, &second.gold, &pieces), first.answer),
            _ => {
                let gold = if r.one_in(4) { soup(&mut r, &pieces, 9) } else { first.gold };
                (gold, mutated(&mut r, &first.answer, &second.answer, &pieces))
            }
        };
        let judged =
            || [Mode::Strict, Mode::Flexible].map(|mode| check(&gold, &answer, mode).outcome);
        let timed = || {
            let started = Instant::now();
            (std::panic::catch_unwind(judged), started.elapsed())
        };
        let (verdicts, time) = timed();
        let Ok([strict, flexible]) = verdicts else { panic!("{gold:?} {answer:?}") };
        // The flexible rules accept all that the strict ones do.
        assert!(strict != Outcome::Correct || flexible == Outcome::Correct, "{gold:?} {answer:?}");
        // Both modes, the quickest of four: other work on the machine slows one of them.
        if time > Duration::from_millis(20) {
            let best = (0..3).map(|_| timed().1).min().map_or(time, |other| other.min(time));
            if best > Duration::from_millis(20) {
                slow += 1;
                println!("slow, both modes {best:?}: {gold:?} {answer:?}");
            }
        }
        if number % 97 == 0 {
            assert_eq!(judged(), [strict, flexible], "{gold:?} {answer:?}");
        }
        if (number + 1) % 100_000 == 0 {
            println!("{} pairs, {slow} slow, {:.0?}", number + 1, started.elapsed());
        }
    }
}
