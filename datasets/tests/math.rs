//! The math verifier on the field's hard pairs, on hostile text, and on real datasets where they lie.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tealight_datasets::verify::math::{Mode, Outcome, check};

fn outcome(gold: &str, answer: &str) -> Outcome {
    check(gold, answer, Mode::Flexible).outcome
}

/// Gold and an answer that is right.
const RIGHT: &[(&str, &str)] = &[
    (r"\frac{1}{2}", r"0.5"),
    (r"\frac12", r"1/2"),
    (r"0.\overline{3}", r"1/3"),
    (r"1.5e-3", r"0.0015"),
    (r"½", r"0.5"),
    (r"√2", r"\sqrt{2}"),
    (r"90°", r"90"),
    (r"5", r"5."),
    (r"1\,000", r"1000"),
    (r"3 1/2", r"3.5"),
    (r"18", r"18 dollars"),
    (r"3\sqrt{13}", r"3\sqrt13"),
    (r"\varnothing", r"\emptyset"),
    (r"1<x<2", r"2>x>1"),
    (r"\sqrt{1/n}", r"\frac{1}{\sqrt{n}}"),
    (r"\frac{1}{1+i}", r"\frac{1-i}{2}"),
    (r"-1", r"e^{i\pi}"),
    (r"12", r"\text{(C) } 12"),
    (r"C", r"(C) 12"),
    (r"10,000", r"10000"),
    (r"1,234,567", r"1{,}234{,}567"),
    (r"(1,2)", r"1,2"),
    (r"\{1,2\}", r"\{2,1\}"),
    (r"[0,1)", r"[0,1)"),
    (r"(-\infty,2)\cup(3,\infty)", r"(3,\infty)\cup(-\infty,2)"),
    (r"2\le x<5", r"[2,5)"),
    (r"x=5", r"5"),
    (r"5", r"x=5"),
    (r"5", r"2+3=5"),
    (r"y=2x+3", r"2x+3"),
    (r"2x+4y=6", r"x+2y=3"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"(1,2)"),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{bmatrix}1&2\\3&4\end{bmatrix}"),
    (r"50\%", r"0.5"),
    (r"50\%", r"50"),
    (r"\sin^2 x+\cos^2 x", r"1"),
    (r"(x+1)^2", r"x^2+2x+1"),
    (r"\frac{x^2-1}{x-1}", r"x+1"),
    (r"10^{10^{10}}", r"10^{10^{10}}"),
    (r"2^{100}", r"1267650600228229401496703205376"),
    (r"\binom{10}{3}", r"120"),
    (r"1\pm\sqrt{2}", r"1+\sqrt2, 1-\sqrt2"),
    (r"\pi", r"3.14159"),
    (r"3.14", r"\pi"),
    (r"\ln 2", r"\log_e 2"),
    (r"\text{Evelyn}", r"Evelyn"),
    (r"\text{even}", r"even"),
    (r"(3,\frac{\pi}{2})", r"\left( 3, \dfrac{\pi}{2} \right)"),
    (r"\frac{14}{3}", r"4.6667"),
    (r"1:2", r"2:4"),
    (r"6 - 5i", r"6-5i"),
    (r"\sqrt[3]{-8}", r"-2"),
    (r"\frac{\pi}{2}", r"\frac{1}{2}\pi"),
    (r"x \in [-2,7]", r"[-2,7]"),
    (r"5\text{ cm}", r"5"),
    (r"\$32.50", r"32.5"),
    (r"-\frac{1}{2}", r"\frac{-1}{2}"),
    (r"2\frac{1}{2}", r"5/2"),
    (r"11\sqrt2", r"11\sqrt{2}"),
    (r"\frac{3\sqrt{3}}{4}", r"\frac34\sqrt3"),
    (r"120^\circ", r"120"),
    (r"f(x)=x^2", r"x^2"),
    (r"p - q", r"p-q"),
    (r"\cot x", r"\frac{\cos x}{\sin x}"),
    (r"1,2,3", r"3,2,1"),
    (r"1", r"1.0"),
    (r"x>5", r"(5,\infty)"),
    (r"\text{Monday}", r"monday"),
    (r"1.23", r"1.23\times 10^0"),
    (r"11,\! 111,\! 111,\! 100", r"11111111100"),
    (r"\frac{NO}{BO}=\frac{1}{\sqrt{6}}", r"\frac{1}{\sqrt{6}}"),
    (r"1 000", r"1000"),
    (r"5,\!866,\!608", r"5, \!866, \!608"),
    (r"61,328", r"61, 328"),
    (r"\text{4:30 p.m.}", r"\boxed{\text{4:30p.m.}}"),
    (r"2.74", r"2,74"),
    (r"28\%", r"28 pct"),
    (r"$x >= 5$", r"Therefore $x \geq 5$ is the solution."),
    (r"\{1,2,3\}", r"\boxed{1} and \boxed{2} and \boxed{3}"),
    (r"\sqrt{2}", r"\sqrt2 \approx 1.414"),
    (r"|AB|=1", r"1"),
    (r"11:21", r"V_1:V_2 = 11:21"),
    (r"7", r"the answer is **7**."),
    (r"025", r"25"),
    (r"\frac{3}{4}", r"0.75"),
    (r"x^2+2x+1", r"(x+1)^2"),
    (r"(-\infty, 3]", r"(-\infty,3]"),
    (r"\frac{\sqrt{3}}{2}", r"\sin 60^\circ"),
    (r"1011_2", r"11"),
    (r"12", r"12.0"),
    (r"\log_2 8", r"3"),
    (r"\{-1, 1\}", r"\pm 1"),
    (r"3!", r"6"),
    (r"5 \text{ square units}", r"5"),
    (r"\text{(B)}", r"B"),
];

/// Gold and an answer that is not.
const WRONG: &[(&str, &str)] = &[
    (r"\frac{1}{2004!}", r"\frac{1}{2006!}"),
    (r"2^{-99}", r"2^{-98}"),
    (r"204_5", r"204_6"),
    (r"0.001", r"0.0010001"),
    (r"3*x-1*y+13=0", r"3x + 4y + 14=0"),
    (r"$4$", r"$4\sqrt(2)$"),
    (r"(1,2)", r"(2,1)"),
    (r"[0,1)", r"(0,1)"),
    (r"[2,5)", r"2\le x<5"),
    (r"5", r"2+3=6=5"),
    (r"2", r"200"),
    (r"9^{9^{9^9}}", r"1"),
    (r"14/3", r"4.67"),
    (r"5\text{ cm}", r"5\text{ m}"),
    (r"72", r"73"),
    (r"10", r"10.0000001"),
    (r"(5,\infty)", r"x>5"),
    (r"b=0", r"(-\infty,0)"),
    (r"0,1", r"\frac{1}{8}"),
    (r"0.1", r"\frac{1}{8}"),
    (r"12:00", r"1:00"),
    (r"2", r"AZYUK2A"),
    (r"3", r"3, 4"),
    (r"41", r"41 or 42"),
    (r"x=3", r"x=4"),
    (r"x+y=3", r"x+y=4"),
    (r"x<3", r"x>3"),
    (r"x<3", r"x\le 3"),
    (r"(1,2)", r"(1,2,3)"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}2\\1\end{pmatrix}"),
    (r"even", r"odd"),
    (r"A", r"B"),
    (r"1/3", r"0.33"),
    (r"0", r"1e-30"),
    (r"e^{-100}", r"0"),
    (r"1", r"1+e^{-100}"),
    (r"\sqrt{2}", r"1.41"),
    (r"2x+z=1", r"1"),
    (r"5", r"-5"),
    (r"\frac{1}{3}", r"3"),
    (r"0.5", r"5"),
    (r"50", r"0.5"),
    (r"x^2", r"x^3"),
    (r"\infty", r"-\infty"),
];

#[test]
fn right_answers_are_accepted_in_every_spelling() {
    let refused: Vec<_> = RIGHT.iter().filter(|(g, a)| outcome(g, a) != Outcome::Correct).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

#[test]
fn wrong_answers_are_refused() {
    let accepted: Vec<_> =
        WRONG.iter().filter(|(g, a)| outcome(g, a) == Outcome::Correct).collect();
    assert!(accepted.is_empty(), "{accepted:#?}");
}

#[test]
fn every_answer_equals_itself_in_any_wrapping() {
    for answer in RIGHT.iter().flat_map(|(gold, answer)| [gold, answer]) {
        if answer.contains("box") || answer.contains("the ") {
            continue;
        }
        let boxed = format!("so it is $\\boxed{{{}}}$, as wanted", answer.trim_matches('$'));
        assert_eq!(outcome(answer, &boxed), Outcome::Correct, "{answer}");
    }
}

#[test]
fn outcomes_say_what_was_missing() {
    assert_eq!(outcome("3", ""), Outcome::NoAnswer);
    assert_eq!(outcome("3", "\\boxed{3 + }"), Outcome::UnparsableAnswer);
    assert_eq!(outcome("3 + +", "\\boxed{3}"), Outcome::UnparsableGold);
    assert_eq!(check("3", "it is 3", Mode::Strict).outcome, Outcome::NoAnswer);
}

#[test]
fn hostile_text_gets_a_verdict() {
    let million = 1_000_000;
    for text in [
        "\\boxed{".repeat(million / 7),
        "9".repeat(million),
        "{".repeat(million),
        "(".repeat(4000),
        "\\frac{".repeat(600),
        "-".repeat(4000),
        "2^".repeat(2000),
        "\\sqrt".repeat(600),
        "answer is ".repeat(million / 10),
        "\\boxed{9^{9^{9^{9}}}}".into(),
        "\\boxed{100000!}".into(),
        "\\boxed{\\binom{99999}{50000}}".into(),
        "\\boxed{(a+b+c+d+e+f)^{60}+1}".into(),
        "\\boxed{10^{10^{12}}}".into(),
        "\\boxed{\\sin(10^{300})}".into(),
        "\\boxed{e^{e^{e^{e^{9}}}}}".into(),
        "é".repeat(million / 2),
        "\u{0}\u{1}\\boxed{\u{202e}7}".into(),
    ] {
        for gold in ["1", "x^2", "9^{9^{9^{9}}}+1", "(a+b+c+d+e+f)^{60}", "\\{1,2\\}"] {
            assert_ne!(outcome(gold, &text), Outcome::Correct, "{gold}");
        }
    }
}

/// Random mathematics, most of it nonsense: nothing may panic, and what parses equals itself.
#[test]
fn soup_never_panics() {
    const PIECES: &str = "1 2 10 0.5 x y n \\pi e i + - * / ^ _ ! ( ) [ ] { } \\{ \\} \\frac \\sqrt \
         \\sqrt[3] , ; = < \\le \\pm \\cup \\in \\infty % ^\\circ \\text{cm} \\begin{pmatrix} \
         \\end{pmatrix} & \\\\ \\sin \\log_2 | \\overline{3}";
    let pieces: Vec<&str> = PIECES.split(' ').collect();
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut soup = |length: usize| -> String {
        (0..length).map(|_| pieces[rng.next_u64() as usize % pieces.len()]).collect()
    };
    let mut parsed = 0;
    for number in 0..20_000 {
        let (text, other) = (soup(1 + number % 14), soup(1 + number % 14));
        outcome(&text, &other);
        if outcome(&text, &format!("\\boxed{{ {text} }}")) == Outcome::Correct {
            parsed += 1;
        }
    }
    assert!(parsed > 1000, "only {parsed} were read");
}

fn rows(name: &str) -> Vec<serde_json::Value> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("../../shared/data").join(name);
    match std::fs::read_to_string(&path) {
        Ok(text) => text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect(),
        Err(_) => {
            eprintln!("{}: not here, not checked", path.display());
            vec![]
        }
    }
}

#[test]
fn reference_solutions_of_real_datasets_are_right() {
    for (file, gold, solution) in
        [("math500/test.jsonl", "answer", "solution"), ("gsm8k/test.jsonl", "answer", "answer")]
    {
        for row in &rows(file) {
            let text = |field: &str| row[field].as_str().expect("text");
            assert_eq!(outcome(text(gold), text(solution)), Outcome::Correct, "{file}: {row}");
        }
    }
}

#[test]
fn other_problems_answers_are_wrong() {
    let rows = rows("math500/test.jsonl");
    let text = |index: usize, field: &str| {
        rows[index % rows.len()][field].as_str().expect("text").to_owned()
    };
    let accepted: Vec<(String, String)> = (0..rows.len())
        .map(|index| (text(index + 1, "answer"), text(index, "answer")))
        .filter(|(gold, answer)| gold != answer && outcome(gold, answer) == Outcome::Correct)
        .collect();
    // One pair of neighbours is equal: `x=5` and `5`.
    assert!(accepted.len() <= 1, "{accepted:?}");
}
