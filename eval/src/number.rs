//! Numbers as text: digits without a negative zero, and counts with their noun.

/// A number with `digits` after the point; what rounds to 0 has no sign.
pub fn fixed(value: f64, digits: usize) -> String {
    format!("{:.digits$}", without_negative_zero(value, digits))
}

/// The same with a sign; what rounds to 0 has a plus.
pub fn signed(value: f64, digits: usize) -> String {
    format!("{:+.digits$}", without_negative_zero(value, digits))
}

fn without_negative_zero(value: f64, digits: usize) -> f64 {
    let is_zero = value.is_sign_negative()
        && format!("{value:.digits$}").chars().all(|c| matches!(c, '-' | '0' | '.'));
    if is_zero { 0.0 } else { value }
}

/// A count with its noun: `1 problem`, `2 problems`.
pub fn counted(count: usize, noun: &str) -> String {
    with_noun(&count.to_string(), noun)
}

/// The same of a count or a range as text: `1 sample`, `2 to 4 samples`.
pub fn with_noun(count: &str, noun: &str) -> String {
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// The same with a verb, which is named in its form for several: `1 line is`, `2 lines are`.
pub fn with_verb(count: usize, noun: &str, verb: &str) -> String {
    let of_one = match verb {
        "are" => "is".to_owned(),
        "were" => "was".to_owned(),
        "have" => "has".to_owned(),
        verb => format!("{verb}s"),
    };
    let verb = if count == 1 { &of_one } else { verb };
    format!("{} {verb}", counted(count, noun))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounded_zero_has_no_sign() {
        assert_eq!((fixed(-0.0, 4), fixed(-0.000_04, 4)), ("0.0000".into(), "0.0000".into()));
        assert_eq!((fixed(-0.000_06, 4), fixed(0.25, 2)), ("-0.0001".into(), "0.25".into()));
        assert_eq!((signed(-0.000_4, 3), signed(-0.5, 3)), ("+0.000".into(), "-0.500".into()));
        assert_eq!((fixed(-0.4, 0), fixed(f64::NEG_INFINITY, 2)), ("0".into(), "-inf".into()));
    }

    #[test]
    fn one_is_singular() {
        let counts = [0, 1, 2].map(|count| counted(count, "problem"));
        assert_eq!(counts, ["0 problems", "1 problem", "2 problems"]);
        assert_eq!(with_noun("2 to 4", "sample"), "2 to 4 samples");
    }
}
