//! The known name that a mistyped one resembles.

/// Jaro-Winkler similarity from which on a known name may be meant.
const LEAST: f64 = 0.8;

/// The known name that is most similar, where one is similar enough to be meant.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let all = known.into_iter().map(|known| (strsim::jaro_winkler(name, known), known));
    let best = all.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > LEAST).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_resembles_none_has_no_nearest() {
        let known = ["colouring", "orders", "regex"];
        for (name, meant) in [
            ("coloring", Some("colouring")),
            ("order", Some("orders")),
            ("regexp", Some("regex")),
            ("gsm8k", None),
        ] {
            assert_eq!(nearest(name, known), meant, "{name}");
        }
    }
}
