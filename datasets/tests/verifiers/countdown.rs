//! Expressions that use each number once.

use tealight_core::Prompt;
use tealight_datasets::verify::countdown::Countdown;
use tealight_datasets::verify::math::Mode;
use tealight_datasets::{Problem, Verdict, Verifier};

fn verdict_of(gold: &str, completion: &str, mode: Mode) -> Verdict {
    let problem = Problem::new("p", Prompt::Text(format!("{gold}:")), gold);
    Countdown { mode }.verify(&problem, completion)
}

fn verdict(completion: &str) -> Verdict {
    verdict_of("3,3,8,8=24", completion, Mode::Flexible)
}

#[test]
fn each_number_must_be_used_exactly_once() {
    assert!(verdict("8/(3-8/3)").is_correct());
    for (text, why) in [
        ("8*3", "other numbers"),
        ("8*3+3-3", "other numbers"),
        ("8*3+8-8", "other numbers"),
        ("3+3+8+8", "comes to 22"),
        ("8/(3-3)+8", "divides by zero"),
        ("8/(3-8/3)=25", "said to come to 25"),
        ("3+3+8+8=24", "comes to 22"),
    ] {
        match verdict(text) {
            Verdict::Wrong { why: Some(reason), .. } => {
                assert!(reason.contains(why), "{text}: {reason}")
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    assert_eq!(verdict("  "), Verdict::NoAnswer);
    assert!(matches!(verdict("8/(3-8/3"), Verdict::Unparsable { .. }));
    assert!(matches!(verdict(&"8+".repeat(500_000)), Verdict::Unparsable { .. }));
}

#[test]
fn the_expression_is_found_where_an_answer_is_named() {
    let texts = "\
        3*8*1~3 * 8 * 1 = 24~24 = 3*8*1~<answer>3*8*1</answer>~\
        I try 3+8 first. <answer> (3 * 8) * 1 = 24 </answer>~So \\boxed{3*8*1}~\
        Thus $\\boxed{3 \\times 8 \\cdot 1 = 24}$.~<answer>\\boxed{\\frac{3}{1}\\times 8}</answer>~\
        <answer>$\\left(3 \\div 1\\right) \\times 8$</answer>~Let me think.\nThe answer is 3*8*1.~\
        **Answer:** 3 × 8 × 1 = 24~3*8=24 and 24*1=24\n#### 3*8*1~<answer>The expression is 3*8*1</answer>";
    for text in texts.split('~') {
        for mode in [Mode::Strict, Mode::Flexible] {
            let verdict = verdict_of("3,8,1=24", text, mode);
            assert!(verdict.is_correct(), "{text} ({mode:?}): {verdict:?}");
        }
    }
    // Only the flexible form reads a text for its last expression.
    for text in [
        "First I multiply. So 3*8*1=24",
        "We have three numbers:\n\n3*8*1 = 24",
        "Let me try.\n1. 3+8+1 = 12\n2. 3*8*1 = 24",
    ] {
        assert!(verdict_of("3,8,1=24", text, Mode::Flexible).is_correct(), "{text}");
        assert_eq!(verdict_of("3,8,1=24", text, Mode::Strict), Verdict::NoAnswer, "{text}");
    }
}

#[test]
fn an_attempt_that_is_not_the_named_answer_earns_nothing() {
    let texts = "\
        3*8*1 = 24 works, but <answer>3+8+1</answer>~\\boxed{24}~The answer is 24.~3*8*1=24=24~3*8=24*1=24~\
        <answer>3+8+1 or 3*8*1</answer>~It cannot be done.~3*8=24, 24*1=24";
    for text in texts.split('~') {
        for mode in [Mode::Strict, Mode::Flexible] {
            assert!(!verdict_of("3,8,1=24", text, mode).is_correct(), "{text} ({mode:?})");
        }
    }
    let deep = format!("<answer>{}</answer>", "\\frac{".repeat(50_000));
    assert!(!verdict(&deep).is_correct());
}
