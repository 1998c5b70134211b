//! Arithmetic expressions: values, normal forms.

use dashu_ratio::RBig;
use tealight_datasets::verify::Expression;

fn canonical(text: &str) -> String {
    Expression::parse(text).unwrap().canonical()
}

#[test]
fn values_are_exact() {
    let value = |text: &str| Expression::parse(text).unwrap().value();
    assert_eq!(value("8/(3-8/3)"), Some(RBig::from(24)));
    assert_eq!(value("1/3+1/3+1/3"), Some(RBig::from(1)));
    assert_eq!(value("8-4-2"), Some(RBig::from(2)));
    assert_eq!(value("5/(2-2)"), None);
}

#[test]
fn spellings_of_one_answer_share_a_form_and_different_answers_do_not() {
    assert_eq!(canonical("3+9"), canonical("9+3"));
    assert_eq!(canonical("(1+2)+3"), canonical("3+(2+1)"));
    assert_eq!(canonical("9-(3-1)"), canonical("1+9-3"));
    assert_eq!(canonical("8/(4/2)"), canonical("2*8/4"));
    assert_ne!(canonical("3*8"), canonical("3*(2*4)"));
    assert_ne!(canonical("(1+2)*3"), canonical("1+2*3"));
    assert_ne!(canonical("9-3"), canonical("3-9"));
}

#[test]
fn printing_keeps_the_tree() {
    for text in ["1-(2-3)", "1-2-3", "(1+2)*3", "8/(3-8/3)", "8/(4*2)", "2*(8/4)", "1+(2+3)"] {
        let tree = Expression::parse(text).unwrap();
        let again = Expression::parse(&tree.to_string()).unwrap();
        assert_eq!(tree.value(), again.value(), "{text} printed as {tree}");
        assert_eq!(tree.canonical(), again.canonical());
    }
}

#[test]
fn hostile_text_is_refused() {
    for text in ["", "1+", "(1", "1)", "--1", "1 1x", "9999999999", "²", "1+é"] {
        assert!(Expression::parse(text).is_none(), "{text}");
    }
    assert!(Expression::parse(&"(".repeat(1_000_000)).is_none());
    let long = vec!["1"; 2_000].join("+");
    assert!(Expression::parse(&long).unwrap().value().is_some());
}
