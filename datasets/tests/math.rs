//! The math verifier on the field's hard pairs, on hostile text, and on real datasets where they lie.

use tealight_datasets::verify::math::{Mode, Outcome, check};

fn outcome(gold: &str, answer: &str) -> Outcome {
    check(gold, answer, Mode::Flexible).outcome
}

/// A gold answer, an answer, and whether it is correct: the forms of `math.jsonl`.
#[derive(serde::Deserialize)]
struct Case {
    correct: bool,
    gold: String,
    answer: String,
}

fn cases() -> Vec<Case> {
    let lines = include_str!("math.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).expect("a case a line")).collect()
}

#[test]
fn every_form_is_judged_as_the_table_says() {
    let cases = cases();
    assert!(cases.len() > 700);
    let others: Vec<_> = cases
        .iter()
        .filter(|case| (outcome(&case.gold, &case.answer) == Outcome::Correct) != case.correct)
        .map(|case| (case.correct, &case.gold, &case.answer))
        .collect();
    assert!(others.is_empty(), "{others:#?}");
}

#[test]
fn every_gold_equals_itself_in_any_wrapping() {
    for Case { gold, .. } in cases() {
        assert_eq!(outcome(&gold, &gold), Outcome::Correct, "{gold}");
        if gold.contains("box") || gold.contains(" the ") {
            continue;
        }
        let boxed = format!("so it is $\\boxed{{{}}}$, as wanted", gold.trim_matches('$'));
        assert_eq!(outcome(&gold, &boxed), Outcome::Correct, "{gold}");
    }
}

#[test]
fn outcomes_name_the_unreadable_side() {
    assert_eq!(outcome("3", ""), Outcome::NoAnswer);
    assert_eq!(outcome("3", "\\boxed{3 + }"), Outcome::UnparsableAnswer);
    assert_eq!(outcome("3 + +", "\\boxed{3}"), Outcome::UnparsableGold);
    // A name is compared as a text, also where it is no word of mathematics.
    for gold in ["J. K. Rowling", "O'Brien", "U.S.", "C++", "AT&T", "1984 (novel)"] {
        let said = |name: &str| outcome(gold, &format!("The answer is {name}."));
        assert_eq!((said(gold), said("London")), (Outcome::Correct, Outcome::Wrong), "{gold}");
    }
    assert_eq!(check("3", "it is 3", Mode::Strict).outcome, Outcome::NoAnswer);
}

#[test]
fn hostile_text_gets_a_verdict() {
    let million = 1_000_000;
    for text in [
        "\\boxed{".repeat(million / 7),
        "<answer>".repeat(million / 8),
        "<answer>7 ".repeat(million / 10),
        "\\boxed{\\gcd(0,0)}".into(),
        "\\boxed{0^{2^{63}}}".into(),
        "\\boxed{\\arcsin(10^{200})}".into(),
        "9".repeat(million),
        "{".repeat(million),
        "(".repeat(4000),
        "\\frac{".repeat(600),
        "-".repeat(4000),
        // Brackets that fit several readings, one in another: counts, products, points.
        format!("{}8", "C(".repeat(45)),
        format!("\\boxed{{{}8}}", "P(".repeat(45)),
        format!("\\begin{{pmatrix}}1\\end{{pmatrix}}{}8", "(".repeat(40)),
        format!("{}8{}x", "((".repeat(20), ")".repeat(30)),
        format!("|{}8", "[(".repeat(20)),
        format!("{}8", "\\left(\\{".repeat(20)),
        "2^".repeat(2000),
        "\\sqrt".repeat(600),
        format!("\\boxed{{{}8}}", "2(=".repeat(1000)),
        "$\\boxed{8}+(".repeat(million / 12),
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
        "é3½".into(),
        "我不认为这是对的。答案是 \\boxed{5}".into(),
        "\\boxed{primes from 999999999999999700 to 999999999999999950}".into(),
        "\\boxed{integers greater than 9223372036854775807}".into(),
        "\\boxed{integers less than -9223372036854775808 and greater than 1}".into(),
        "\\boxed{integers from -9223372036854775808 to 9223372036854775807}".into(),
        "\\boxed{9223372036854775807半小时}".into(),
        "\\boxed{5 m^-2147483648}".into(),
        "~~a~~".repeat(million / 5),
        "3, i.e. ".repeat(million / 8),
    ] {
        for gold in ["1", "x^2", "9^{9^{9^{9}}}+1", "(a+b+c+d+e+f)^{60}", "\\{1,2\\}"] {
            assert_ne!(outcome(gold, &text), Outcome::Correct, "{gold}");
        }
    }
    // Nor does a gold answer cost more for being long.
    let started = std::time::Instant::now();
    let gold = "x".repeat(100 * million);
    assert_ne!(outcome(&gold, "1"), Outcome::Correct);
    assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
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

/// A pair of a kind that people reported.
#[derive(serde::Deserialize)]
struct Probe {
    kind: String,
    gold: String,
    answer: String,
    correct: bool,
    /// Whether the strict mode has the same verdict.
    #[serde(default)]
    strict: bool,
}

#[test]
fn reported_kinds_are_judged_as_the_table_says() {
    let texts = [include_str!("reported.jsonl"), include_str!("siblings.jsonl")];
    let probes: Vec<Probe> = texts
        .iter()
        .flat_map(|text| text.lines())
        .map(|line| serde_json::from_str(line).expect("a probe a line"))
        .collect();
    assert!(probes.len() > 3500);
    let others: Vec<String> = probes
        .iter()
        .flat_map(|probe| [(probe, Mode::Flexible), (probe, Mode::Strict)])
        .filter(|(probe, mode)| *mode == Mode::Flexible || probe.strict)
        .filter_map(|(probe, mode)| {
            let checked = check(&probe.gold, &probe.answer, mode);
            let is_other = (checked.outcome == Outcome::Correct) != probe.correct;
            is_other.then(|| {
                format!(
                    "{} ({mode:?}): gold {:?} answer {:?}: expected {}, {:?} found {:?}",
                    probe.kind,
                    probe.gold,
                    probe.answer,
                    probe.correct,
                    checked.outcome,
                    checked.found.map(|found| (found.text.into_owned(), found.rule.name())),
                )
            })
        })
        .collect();
    assert!(others.is_empty(), "{} of {}:\n{}", others.len(), probes.len(), others.join("\n"));
}
