//! Answers that are found, and those that are equal.

use tealight_datasets::verify::math::{Math, Mode, answer};
use tealight_datasets::{Verdict, Verifier};

use super::problem;

fn verdict(gold: &str, completion: &str) -> Verdict {
    Math::default().verify(&problem(gold), completion)
}

#[test]
fn answers_are_found_where_the_rules_say() {
    for (text, span, rule) in [
        ("so \\boxed{\\frac{1}{2}} it is, 7", "\\frac{1}{2}", "box"),
        ("\\boxed{1} then \\boxed{2", "1", "box"),
        ("\\boxed{\\{1,2\\}}.", "\\{1,2\\}", "box"),
        ("\\boxed 5.", "5", "box"),
        ("<answer> 12 </answer>", "12", "tag"),
        ("The answer is $x+1$.", "$x+1$", "phrase"),
        ("**Final Answer:** 12", "12", "phrase"),
        ("The final answer is 3. I hope it is correct.", "3", "phrase"),
        ("work 5\n#### 1,234\n", "1,234", "hashes"),
        ("it costs $1,234.50.", "$1,234.50", "number"),
        ("from 3 to -4.", "-4", "number"),
        ("page 3-4 of it", "4", "number"),
        ("<think>\\boxed{1}</think> It is 2", "2", "conclusion"),
        ("\\frac{1}{2}", "\\frac{1}{2}", "whole"),
    ] {
        let found = answer::find(text, Mode::Flexible).expect(text);
        assert_eq!(text[found.span.clone()], found.text, "{text}");
        assert_eq!((&*found.text, found.rule.name()), (span, rule), "{text}");
    }
    assert_eq!(answer::find("from 3 to 4", Mode::Strict), None);
    assert_eq!(answer::find("", Mode::Flexible), None);
}

#[test]
fn verdicts_say_what_was_found() {
    assert_eq!(verdict("3", ""), Verdict::NoAnswer);
    assert!(matches!(verdict("3", "\\boxed{3 + }"), Verdict::Unparsable { .. }));
    assert_eq!(
        verdict("(3,4)", "\\boxed{(4,3)}"),
        Verdict::Wrong { why: Some("found `(4,3)`".into()), answer: Some("(4,3)".into()) }
    );
}

#[test]
fn the_class_is_what_was_computed_or_else_the_answer() {
    let (a, b) = (verdict("2", "1+1 = 2"), verdict("2", "1+1 =\n 2 "));
    assert_eq!(a, b);
    assert_ne!(a, verdict("2", "4-1 = 3 and 3-1 = 2"));
    assert_eq!(verdict("2", "2"), verdict("2", "It is \\boxed{2}."));
}

/// Answers that agree with the gold modulo the verifier's own primes, whose source anyone can read.
#[test]
fn answers_made_for_the_fixed_primes_are_incorrect() {
    // Those of `modular`.
    let primes =
        [2_305_843_009_213_693_951, 2_305_843_009_213_693_921, 2_305_843_009_213_693_907_u64];
    let product = primes.iter().fold(dashu_int::UBig::ONE, |product, prime| product * prime);
    // 1 more than a multiple of every p - 1.
    let exponent = "18575703525647137032596693281862724081278898011594401";
    for (gold, answer) in [
        ("x", format!("x + {product} x")),
        ("x", format!("x (1 + {product})")),
        ("x", format!("x^{{{exponent}}}")),
        ("2", format!("2^{{{exponent}}}")),
        ("x", "(x^{4294967296})^{4294967296}".to_owned()),
    ] {
        let text = format!("\\boxed{{{answer}}}");
        assert!(!verdict(gold, &text).is_correct(), "{gold} {text}");
    }
    for (gold, text) in [
        ("x^{100}(x+1)", "\\boxed{x^{101}+x^{100}}"),
        ("x", format!("\\boxed{{x + 0 \\cdot {product}}}").as_str()),
        ("2^{1000001}", "\\boxed{2 \\cdot 2^{1000000}}"),
        ("\\frac{1}{x^{64}}", "\\boxed{x^{-64}}"),
    ] {
        assert!(verdict(gold, text).is_correct(), "{gold} {text}");
    }
}
