//! What worked solutions compute, and why answers differ, in words.

use tealight_datasets::verify::math::{Mode, check, kind_of, solution, why};
use tealight_datasets::{Verdict, verify};

use super::problem;

/// Without equations the answer's value is the class: a phrase more is no other solution.
#[test]
fn words_without_equations_are_one_solution_for_each_value() {
    let class = |verifier: &str, gold: &str, text: &str| match verify::open(verifier)
        .unwrap()
        .verify(&problem(gold), text)
    {
        Verdict::Correct { class, .. } => class,
        other => panic!("{text}: {other:?}"),
    };
    for (gold, texts) in [
        (
            "287",
            &["The answer is 287.", "the answer is 287.", "#### 287", "\\boxed{287}", "It is 287"]
                [..],
        ),
        ("1/2", &["\\boxed{\\frac{1}{2}}", "The answer is 0.5", "so x = 0.5, \\boxed{1/2}"]),
        ("3/4", &["\\boxed{0.75}", "\\boxed{\\frac34}"]),
    ] {
        for verifier in ["math", "math:strict", "numeric"] {
            let texts =
                texts.iter().filter(|text| verifier != "math:strict" || !text.starts_with("It"));
            let classes: std::collections::BTreeSet<String> =
                texts.map(|text| class(verifier, gold, text)).collect();
            assert_eq!(classes.len(), 1, "{verifier}: {classes:?}");
        }
    }
    assert_eq!(class("math", "287", "The answer is 287."), "287");
    assert_ne!(
        class("math", "72", "48 + 24 = 72"),
        class("math", "72", "2 * 48 = 96 and 96 - 24 = 72")
    );
}

#[test]
fn solutions_are_told_apart_by_what_they_compute() {
    let one = "Natalia sold 48/2 = <<48/2=24>>24 clips in May.\nAltogether 48+24 = 72.\n#### 72";
    let same = "In May: $48 \\div 2 = 24$. So 48 + 24 = 72.00 in all.";
    let other = "Twice 48 is 48*2 = 96, and 96 - 24 = 72.";
    let computed = |text: &str| solution(text, "72");
    assert_eq!(computed(one), "24,72");
    assert_eq!(computed(same), "24,72");
    assert_eq!(computed(other), "96,72");
    assert_eq!(computed("2 - 3.5 = -1.50"), "-1.5");
    let many: String = (0..80).map(|i| format!("{i} + 1 = {}\n", i + 1)).collect();
    assert!(computed(&many).starts_with("1,2,3,") && computed(&many).contains("16 more"));
    assert_ne!(computed(&many), computed(&format!("{many}1 + 1 = 2")));
}

#[test]
fn kinds_of_gold_answers_are_named() {
    for (gold, kind) in [
        ("#### 72", "a number"),
        ("x^2+1", "an expression"),
        ("\\{1,2\\}", "a set"),
        ("(1,2)", "a tuple or open interval"),
        ("5\\text{ cm}", "a number with a unit"),
        ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "a matrix"),
        ("52_8", "a number in another base"),
        ("Evelyn", "words"),
        ("3 + +", "not readable"),
    ] {
        assert_eq!(kind_of(gold), kind, "{gold}");
    }
}

#[test]
fn verdicts_have_reasons() {
    for (gold, completion, words) in [
        ("\\frac{1}{2}", "\\boxed{0.5}", "the values are equal"),
        ("7", "\\boxed{7}", "the texts are the same"),
        ("work\n#### -3", "\\boxed{3}", "-3 is expected, 3 was found"),
        ("(3,4)", "\\boxed{(4,3)}", "a tuple or open interval of 2 members, with different"),
        ("(3,4)", "\\boxed{\\{3\\}}", "members is expected, a set of 1 members was found"),
        ("x+1", "\\boxed{2}", "an expression in x is expected, a number was found"),
        ("3", "", "holds no answer"),
        ("3", "\\boxed{3 + }", "`3 +` is neither mathematics"),
        (
            "100000000000000000000000000000000000000001",
            "\\boxed{100000000000000000000000000000000000000000}",
            "beyond the digits",
        ),
    ] {
        let reason = why(gold, &check(gold, completion, Mode::Flexible));
        assert!(reason.contains(words), "{gold} {completion}: {reason}");
    }
}
