//! Formulas against values of 200 digits, against the named divergences, and what is refused.

use super::*;
use crate::MAX_LOG_RATIO;
use exact::EXACT;

mod exact;

#[test]
fn values_and_slopes_have_all_digits_near_one_and_far_from_it() {
    for (text, rows) in EXACT {
        let formula = Formula::parse(text).unwrap();
        for (x, value, slope) in rows {
            let close = |ours: f64, exact: f64, precision: f64, what: &str| {
                let error = (ours - exact).abs() / exact.abs();
                assert!(
                    error <= precision,
                    "{text} at {x}: {what} {ours}, not {exact}: {error:.1e}"
                );
            };
            close(formula.f(x), value, 2e-14, "f");
            close(formula.slope(x), slope, 2e-14, "slope");
            close(formula.f_prime(x), slope / x.exp(), 4e-14, "f'");
            let narrow = x as f32;
            // An x that f32 rounds has another value: the slope at most times what was rounded away.
            let moved = (f64::from(narrow) - x).abs() * slope.abs();
            let single = |ours: f32, exact: f64, what: &str| {
                let error = (f64::from(ours) - exact).abs() - 2.0 * moved * (1.0 + 1.0 / x.abs());
                assert!(
                    error <= 5e-6 * exact.abs(),
                    "{text} at {x}: f32 {what} {ours}, not {exact}"
                );
            };
            single(formula.f(narrow), value, "f");
            single(formula.slope(narrow), slope, "slope");
            let tiles = formula.tile(&Tile([narrow; TILE]), &mut Vec::new());
            assert_eq!(tiles[0].0[TILE - 1].to_bits(), formula.f(narrow).to_bits());
            assert_eq!(tiles[1].0[0].to_bits(), formula.slope(narrow).to_bits());
        }
    }
}

#[test]
fn named_divergences_are_their_formulas() {
    let alphas = [0.5, -0.7, 1.6].map(Divergence::Alpha);
    for named in Divergence::all().chain(alphas) {
        let formula = Formula::parse(&named.formula()).unwrap();
        let facts = formula.facts();
        let twin = facts.twin.unwrap_or_else(|| panic!("{named} is not recognised"));
        let is_same = match twin.1 {
            // 1/2 is four times Hellinger.
            Divergence::Hellinger => {
                [Divergence::Hellinger, Divergence::Alpha(0.5)].contains(&named)
            }
            other => other == named,
        };
        assert!(is_same, "{named}: {twin:?}");
        let (ours, limit) = (facts.at_infinity, named.at_infinity());
        assert!(ours == limit || (ours - limit).abs() < 1e-12 * limit, "{named}: {ours}");
        assert_eq!(Divergence::Formula(formula).power().is_some(), named.power().is_some());
        for step in -400..=200 {
            let x = f64::from(step) / 10.0 + 0.003;
            let pairs = [
                (formula.f(x), named.f(x)),
                (formula.slope(x), named.slope(x)),
                (formula.f_prime(x), named.f_prime(x)),
                (formula.matching(x), named.matching(x)),
                (formula.matching_slope(x), named.matching_slope(x)),
            ];
            for (number, (ours, exact)) in pairs.into_iter().enumerate() {
                // Matching takes f'(inf) (t - 1) off, which is large on the right.
                let lost = if number > 2 { 3e-16 * x.max(1.0) * x.exp() } else { 0.0 };
                let error = (ours - exact).abs();
                assert!(
                    error <= 1e-12 * exact.abs() + lost + 1e-15,
                    "{named} {number} at {x}: {ours}, not {exact}"
                );
            }
        }
        assert!(
            !formula.f(f64::NEG_INFINITY).is_nan() && !formula.slope(f64::NEG_INFINITY).is_nan()
        );
        assert_eq!(
            formula.f(f64::NEG_INFINITY).is_finite(),
            named.f(f64::NEG_INFINITY).is_finite()
        );
    }
}

#[test]
fn tensors_agree_with_numbers() {
    use candle_core::{Device, Tensor};
    for (text, rows) in EXACT {
        let formula = Formula::parse(text).unwrap();
        let at: Vec<f32> = rows.iter().map(|row| row.0 as f32).collect();
        let x = Tensor::from_slice(&at, at.len(), &Device::Cpu).unwrap();
        let on = |x| crate::OnDevice::log_ratios(x, MAX_LOG_RATIO);
        let values: Vec<f32> = formula.f(on(&x)).tensor().unwrap().to_vec1().unwrap();
        let slopes: Vec<f32> = formula.slope(on(&x)).tensor().unwrap().to_vec1().unwrap();
        for (index, x) in at.iter().enumerate() {
            for (ours, exact) in [
                (values[index], formula.f(f64::from(*x))),
                (slopes[index], formula.slope(f64::from(*x))),
            ] {
                let error = (f64::from(ours) - exact).abs();
                assert!(error <= 1e-5 * exact.abs(), "{text} at {x}: {ours}, not {exact}");
            }
        }
    }
}

#[test]
fn facts_are_those_of_the_formula() {
    let facts = |text: &str| Formula::parse(text).unwrap().facts();
    let vincze = facts("(t-1)^2/(t+1)");
    assert!((vincze.at_zero - 1.0).abs() < 1e-12 && (vincze.at_infinity - 1.0).abs() < 1e-12);
    assert!((vincze.curvature - 1.0).abs() < 1e-12 && vincze.twin.is_none());
    let plain = facts("3*t*log(t)+5");
    assert_eq!(plain.removed, [5.0, 3.0]);
    assert_eq!(
        (plain.twin, plain.at_infinity),
        (Some((3.0, Divergence::ReverseKl)), f64::INFINITY)
    );
    assert!((plain.at_zero - 3.0).abs() < 1e-12);
    // Converges as slowly as 1 / log t.
    assert!((facts("t*(1-1/(3+log1p(t)))").at_infinity - (1.0 - facts_slope())).abs() < 1e-3);
    assert_eq!(facts("abs(t-1)").curvature, f64::INFINITY);
    assert_eq!(facts("abs(t-1)").twin, Some((2.0, Divergence::TotalVariation)));
    assert_eq!(facts("max(t-1,0)").twin, Some((1.0, Divergence::TotalVariation)));
    let hinge = Formula::parse("max(t-1.3,0)").unwrap();
    assert_eq!((hinge.f(0.2), hinge.facts().curvature), (0.0, 0.0));
    assert!((hinge.f(0.4) - (0.4_f64.exp() - 1.3)).abs() < 1e-15);
    let lines = Divergence::Formula(Formula::parse("t * log(t)").unwrap()).described().unwrap();
    assert!(
        lines[2].starts_with("Mode-seeking") && lines[4] == "It equals reverse-kl.",
        "{lines:?}"
    );
    let named = Divergence::ForwardKl.described().unwrap();
    assert!(named[2].starts_with("Mass-covering") && named.len() == 3, "{named:?}");
}

/// f'(1) of `t (1 - 1 / (3 + log(1 + t)))`, which is taken off.
fn facts_slope() -> f64 {
    let below = 3.0 + 2.0_f64.ln();
    1.0 - 1.0 / below + 0.5 / (below * below)
}

#[test]
fn what_is_no_divergence_is_refused_with_the_point() {
    for (text, reason) in [
        ("t-1", "f is linear"),
        ("3", "f is linear"),
        ("-(t-1)^2", "not convex at t = "),
        ("log(t)", "not convex at t = 1.0000e-9"),
        ("(t-1)^2-(t-1)^4/100", "not convex at t = 5.08"),
        ("1/(t-1)", "divides by 0 at t = 1"),
        ("log(t-1)", "logarithm of 0 at t = 1"),
        ("log(t-2)^2", "logarithm of -1 at t = 1"),
        ("sqrt(abs(t-1))", "no power series at t = 1"),
        ("1/(2-t)", "not convex at t = "),
        ("(t-1)^2/abs(t-0.5)", "not convex at t = 4.99"),
        ("exp(t)", "beyond the range of f32 at t = 8.4"),
        ("t^-40", "not finite at t = 1.000e-9"),
        ("1e-7*log1p(t)", "its slope falls from 4.9999999"),
        ("t log t", "`log t` at character 3 of `t log t` does not belong there"),
        ("t*ln(t)", "`ln` is not a function, did you mean `log`?"),
        ("r-1", "`r` is not a variable"),
        ("loq(t)", "did you mean `log`?"),
        ("max(t)", "two arguments"),
        ("log(t,2)", "one argument"),
        ("t>1", "no comparisons"),
        ("(t-1", "`)` is missing"),
    ] {
        let error = Formula::parse(text).expect_err(text).to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }
    let deep = format!("{}t{}", "log1p(".repeat(30), ")".repeat(30));
    assert!(Formula::parse(&deep).is_err());
    let error = "f=(t-1)^3".parse::<Divergence>().unwrap_err().to_string();
    assert!(error.contains("divergence `f=(t-1)^3`: f is not convex"), "{error}");
    let error = "forward-k".parse::<Divergence>().unwrap_err().to_string();
    assert!(error.contains("choose one of") && error.contains("f=(t-1)^2/(t+1)"), "{error}");
    let known: Divergence = "f=(t - 1)^2 / t".parse().unwrap();
    assert_eq!(known.to_string(), "f=(t-1)^2/t");
    assert_eq!(known.to_string().parse::<Divergence>().unwrap(), known);
    assert!(known.equals(Divergence::ForwardChiSquared) && !known.equals(Divergence::Js));
}

#[test]
fn random_texts_never_panic() {
    let parts = [
        "t", "x", "1", "2.5", "1e-9", "1e300", "+", "-", "*", "/", "^", "(", ")", ",", "log(",
        "exp(", "sqrt(", "abs(", "max(", "min(", "tanh(", "log1p(", "expm1(", "t-1", "(t-1)", "^2",
        "t*",
    ];
    let mut state = 1_u64;
    let mut next = |most: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % most
    };
    let mut accepted = 0;
    for _ in 0..4000 {
        let mut text: String = (0..1 + next(9)).map(|_| parts[next(parts.len())]).collect();
        let open = text.matches('(').count().saturating_sub(text.matches(')').count());
        text.push_str(&")".repeat(open));
        if let Ok(formula) = Formula::parse(&text) {
            accepted += 1;
            for x in [-800.0, -3.0, 0.0, 1e-8, 19.0] {
                assert!(
                    formula.f(x) >= -1e-9 * (1.0 + formula.slope(x).abs()),
                    "{text} at {x}: {}",
                    formula.f(x)
                );
                assert!(formula.f(x as f32).is_finite(), "{text} at {x}");
            }
        }
    }
    assert!(accepted > 5, "{accepted}");
}
