//! f-divergences `D_f(pi || p) = E_p[f(pi / p)]`, each defined once, in log-ratio form.
//!
//! With `x = log u`, `u = pi / p`, a divergence is its generator `f`, its derivative `f'` and its
//! value at infinity; every estimator follows from them:
//!
//! - samples of `p`: `f(u)`, differentiated through (its slope in `x` is `u f'(u)`);
//! - samples of `pi`: the pseudo-reward `-f'(u)` (f-DPG, arXiv 2302.08215);
//! - the whole vocabulary: `sum_v p_v f(u_v)` at every position.
//!
//! Here `p` is the anchor: the base, or the target p*. Forward KL is `KL(p || pi)` (p's mass must not
//! be lost), reverse KL is `KL(pi || p)` (what RLVR calls "the KL"). Generators are normalised to
//! `f(1) = f'(1) = 0`. A divergence without a name is a formula ([`Formula`]): `f=(t-1)^2/(t+1)`.
//! `generators` has the functions that losses apply, once for every kind of number.

#![warn(missing_docs)]

pub mod elementary;
pub mod expression;
pub mod formula;
mod generators;
mod number;
pub mod single;

use std::f64::consts::LN_2;
use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};

pub use formula::Formula;
pub use number::{Number, OnDevice};

/// How far the policy is from an anchor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Divergence {
    /// `KL(p || pi)`: `f = u - 1 - log u`.
    ForwardKl,
    /// `KL(pi || p)`: `f = u log u - u + 1`.
    ReverseKl,
    /// Jensen-Shannon at its true scale, 0 to log 2: `f = (u log u - (u + 1) log((u + 1) / 2)) / 2`.
    /// DPH-RL's generator is twice this, so its coefficient 0.2 is 0.4 here.
    Js,
    /// Amari's alpha in alpha-DPG's direction (arXiv 2512.05962): 0 is forward KL, 1 reverse KL,
    /// 1/2 four times the squared Hellinger distance. DPH-RL's alpha is one minus this.
    Alpha(f64),
    /// Total variation: `f = |u - 1| / 2`.
    TotalVariation,
    /// `chi2(p || pi)`: `f = (u - 1)^2 / u`.
    ForwardChiSquared,
    /// `chi2(pi || p)`: `f = (u - 1)^2`.
    ReverseChiSquared,
    /// Squared Hellinger, `1 - sum sqrt(p pi)`, 0 to 1: `f = (sqrt(u) - 1)^2 / 2`.
    Hellinger,
    /// Any other, by its generator.
    Formula(Formula),
}

/// Largest log-ratio that is exponentiated; beyond it losses are flat. Only growth is bounded: a forgotten token (a
/// very negative ratio) keeps its pull.
pub const MAX_LOG_RATIO: f64 = 20.0;

/// In f32 log-ratios are no lower than this: `e^x` is nothing to it well before.
pub const MIN_LOG_RATIO: f32 = -100.0;

/// Alphas this close to 0 and 1 are the KL divergences.
const ALPHA_IS_KL: f64 = 1e-6;

impl Divergence {
    /// The names that need no number; `alpha:A` is the other one.
    const NAMED: [(&str, Divergence); 7] = [
        ("forward-kl", Divergence::ForwardKl),
        ("reverse-kl", Divergence::ReverseKl),
        ("js", Divergence::Js),
        ("tv", Divergence::TotalVariation),
        ("forward-chi2", Divergence::ForwardChiSquared),
        ("reverse-chi2", Divergence::ReverseChiSquared),
        ("hellinger", Divergence::Hellinger),
    ];

    /// Every divergence, with one alpha that is none of the others.
    pub fn all() -> impl Iterator<Item = Divergence> {
        Self::NAMED.into_iter().map(|(_, one)| one).chain([Divergence::Alpha(0.3)])
    }

    /// The names that need no number.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMED.iter().map(|(name, _)| *name)
    }

    /// Amari's alpha; at 0 and 1 the KL divergences themselves.
    pub fn alpha(alpha: f64) -> Self {
        if alpha.abs() < ALPHA_IS_KL {
            Divergence::ForwardKl
        } else if (alpha - 1.0).abs() < ALPHA_IS_KL {
            Divergence::ReverseKl
        } else {
            Divergence::Alpha(alpha)
        }
    }

    /// `f'(e^x)`: the cost of a sample of the policy.
    pub fn f_prime(self, x: f64) -> f64 {
        match self {
            // 1 - 1/u
            Divergence::ForwardKl => -(-x).exp_m1(),
            Divergence::ReverseKl => x,
            // log(2u / (1 + u)) / 2
            Divergence::Js => 0.5 * generators::js_slope(x),
            // (u^(alpha - 1) - 1) / (alpha - 1)
            Divergence::Alpha(alpha) => ((alpha - 1.0) * x).exp_m1() / (alpha - 1.0),
            Divergence::TotalVariation => 0.5 * x.sign(),
            // 1 - 1/u^2
            Divergence::ForwardChiSquared => -(-2.0 * x).exp_m1(),
            Divergence::ReverseChiSquared => 2.0 * x.exp_m1(),
            // (1 - 1/sqrt(u)) / 2
            Divergence::Hellinger => -0.5 * (-0.5 * x).exp_m1(),
            Divergence::Formula(formula) => formula.f_prime(x),
        }
    }

    /// Calls `work` with the divergence as a constant, so that a loop in it is compiled for each; alphas share one.
    #[inline(always)]
    pub fn constant<R>(self, work: impl FnOnce(Self) -> R) -> R {
        match self {
            Divergence::ForwardKl => work(Divergence::ForwardKl),
            Divergence::ReverseKl => work(Divergence::ReverseKl),
            Divergence::Js => work(Divergence::Js),
            Divergence::Alpha(alpha) => work(Divergence::Alpha(alpha)),
            Divergence::TotalVariation => work(Divergence::TotalVariation),
            Divergence::ForwardChiSquared => work(Divergence::ForwardChiSquared),
            Divergence::ReverseChiSquared => work(Divergence::ReverseChiSquared),
            Divergence::Hellinger => work(Divergence::Hellinger),
            Divergence::Formula(_) => work(self),
        }
    }

    /// The power `p` with which the pseudo-reward follows the density of its target, `1 - f'(u) / f'(inf) = u^-p`,
    /// where it is one: then a constant factor of the target is a constant factor of it.
    pub fn power(self) -> Option<f64> {
        match self {
            Divergence::ForwardKl => Some(1.0),
            Divergence::Hellinger => Some(0.5),
            Divergence::ForwardChiSquared => Some(2.0),
            Divergence::Alpha(alpha) if alpha < 1.0 => Some(1.0 - alpha),
            // A factor changes neither f' / f'(inf) nor its power.
            Divergence::Formula(formula) => formula.facts().twin.and_then(|(_, twin)| twin.power()),
            Divergence::Js
            | Divergence::TotalVariation
            | Divergence::ReverseKl
            | Divergence::ReverseChiSquared
            | Divergence::Alpha(_) => None,
        }
    }

    /// `f'` at infinity: the cost of mass where the anchor has none, infinite for the divergences
    /// that cannot aim at p*.
    pub fn at_infinity(self) -> f64 {
        match self {
            Divergence::ForwardKl | Divergence::ForwardChiSquared => 1.0,
            Divergence::Js => 0.5 * LN_2,
            Divergence::TotalVariation | Divergence::Hellinger => 0.5,
            Divergence::Alpha(alpha) if alpha < 1.0 => 1.0 / (1.0 - alpha),
            Divergence::Alpha(_) | Divergence::ReverseKl | Divergence::ReverseChiSquared => {
                f64::INFINITY
            }
            Divergence::Formula(formula) => formula.facts().at_infinity,
        }
    }

    /// Whether it is this named divergence, by its name or by a formula.
    pub fn equals(self, named: Divergence) -> bool {
        let twin = match self {
            Divergence::Formula(formula) => formula.facts().twin,
            _ => None,
        };
        self == named || twin == Some((1.0, named))
    }
}

impl FromStr for Divergence {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = text.replace('_', "-");
        if let Some((_, divergence)) = Self::NAMED.iter().find(|(name, _)| *name == known) {
            return Ok(*divergence);
        }
        let rest = known.strip_prefix("alpha");
        let alpha = rest.map(|rest| rest.strip_prefix([':', '-']).unwrap_or(rest));
        match alpha.map(str::parse::<f64>) {
            Some(Ok(alpha)) if alpha < 0.0 => {
                bail!("divergence `{text}`: alpha must be at least 0, which is forward KL")
            }
            Some(Ok(alpha)) if alpha.is_finite() => Ok(Divergence::alpha(alpha)),
            _ if Formula::is_meant_by(text) => Ok(Divergence::Formula(Formula::parse(text)?)),
            _ => {
                let names: Vec<_> = Self::names().collect();
                bail!(
                    "divergence `{text}` is not known; choose one of {}, alpha:A, or a formula such as f=(t-1)^2/(t+1)",
                    names.join(", ")
                )
            }
        }
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, Self::NAMED.iter().find(|(_, divergence)| divergence == self)) {
            (_, Some((name, _))) => f.write_str(name),
            (Divergence::Alpha(alpha), None) => write!(f, "alpha:{alpha}"),
            (Divergence::Formula(formula), None) => write!(f, "f={}", formula.text()),
            (_, None) => unreachable!("every other divergence has a name"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Textbook definitions for `pi = [u / 2, 1 - u / 2]` against `p = [1/2, 1/2]`.
    fn textbook(divergence: Divergence, policy: [f64; 2]) -> f64 {
        let anchor = [0.5_f64, 0.5];
        let sum = |term: &dyn Fn(f64, f64) -> f64| {
            term(anchor[0], policy[0]) + term(anchor[1], policy[1])
        };
        match divergence {
            Divergence::ForwardKl => sum(&|p, q| p * (p / q).ln()),
            Divergence::ReverseKl => sum(&|p, q| q * (q / p).ln()),
            Divergence::Js => {
                let middle = |p: f64, q: f64| (p + q) / 2.0;
                sum(&|p, q| p * (p / middle(p, q)).ln() / 2.0 + q * (q / middle(p, q)).ln() / 2.0)
            }
            Divergence::Alpha(a) => {
                (sum(&|p, q| q.powf(a) * p.powf(1.0 - a)) - 1.0) / (a * (a - 1.0))
            }
            Divergence::TotalVariation => sum(&|p, q| (p - q).abs() / 2.0),
            Divergence::ForwardChiSquared => sum(&|p, q| (p - q) * (p - q) / q),
            Divergence::ReverseChiSquared => sum(&|p, q| (p - q) * (p - q) / p),
            Divergence::Hellinger => 1.0 - sum(&|p, q| (p * q).sqrt()),
            Divergence::Formula(_) => unreachable!("its definition is the formula itself"),
        }
    }

    #[test]
    fn generators_are_the_textbook_divergences() {
        for divergence in Divergence::all().chain([0.5, -0.7, 1.6, 2.0].map(Divergence::Alpha)) {
            for share in [1e-3, 0.2, 0.499, 0.5, 0.501, 0.9, 0.999] {
                let policy: [f64; 2] = [share, 1.0 - share];
                let ours: f64 = policy.iter().map(|q| 0.5 * divergence.f((q / 0.5).ln())).sum();
                let exact = textbook(divergence, policy);
                assert!(
                    (ours - exact).abs() < 1e-12 * (1.0 + exact),
                    "{divergence} at {share}: {ours} {exact}"
                );
            }
        }
        let quarter = Divergence::Alpha(0.5).f(0.3) / 4.0;
        assert!((quarter - Divergence::Hellinger.f(0.3)).abs() < 1e-15);
    }

    #[test]
    fn derivative_and_slope_are_those_of_the_generator() {
        for divergence in Divergence::all() {
            for x in [-6.0, -1.0, -0.02, -0.003, 0.004, 0.5, 3.0] {
                let step = 1e-6;
                let numeric = (divergence.f(x + step) - divergence.f(x - step)) / (2.0 * step);
                let slope = divergence.slope(x);
                assert!(
                    (numeric - slope).abs() < 1e-7 * (1.0 + slope.abs()),
                    "{divergence} at {x}: {slope} {numeric}"
                );
                let chain = x.exp() * divergence.f_prime(x);
                assert!((chain - slope).abs() < 1e-12 * (1.0 + slope.abs()), "{divergence} at {x}");
            }
            let far = divergence.f_prime(200.0);
            let limit = divergence.at_infinity();
            assert!(
                if limit.is_finite() { (far - limit).abs() < 1e-12 } else { far > 100.0 },
                "{divergence}"
            );
        }
    }

    #[test]
    fn extreme_log_ratios_are_finite_and_small_ones_do_not_cancel() {
        for divergence in Divergence::all() {
            assert_eq!(divergence.f(0.0), 0.0);
            assert!(!divergence.f(f64::NEG_INFINITY).is_nan(), "{divergence}");
            assert!(!divergence.slope(f64::NEG_INFINITY).is_nan(), "{divergence}");
            for x in [-800.0, -60.0, -1e-9, 1e-9, 60.0] {
                assert!(
                    divergence.f(x) >= 0.0 && !divergence.f_prime(x).is_nan(),
                    "{divergence} at {x}"
                );
            }
            // f''(1), which every generator but total variation's starts with.
            let curvature = match divergence {
                Divergence::Js | Divergence::Hellinger => 0.25,
                Divergence::ForwardChiSquared | Divergence::ReverseChiSquared => 2.0,
                _ => 1.0,
            };
            if divergence != Divergence::TotalVariation {
                let ratio = divergence.f(1e-7) / (0.5 * curvature * 1e-14);
                assert!((ratio - 1.0).abs() < 1e-6, "{divergence}: {ratio}");
            }
        }
    }

    #[test]
    fn alpha_near_its_ends_is_the_kl() {
        for (alpha, kl) in [(1e-5, Divergence::ForwardKl), (1.0 - 1e-5, Divergence::ReverseKl)] {
            for x in [-3.0, -0.005, 0.7] {
                assert!((Divergence::Alpha(alpha).f(x) - kl.f(x)).abs() < 1e-3);
            }
        }
        assert_eq!(Divergence::alpha(1e-9), Divergence::ForwardKl);
        assert_eq!(Divergence::alpha(1.0), Divergence::ReverseKl);
    }

    #[test]
    fn names_are_read_and_printed_back() {
        for divergence in Divergence::all() {
            assert_eq!(divergence.to_string().parse::<Divergence>().unwrap(), divergence);
        }
        for text in ["alpha:0.5", "alpha-0.5", "alpha_0.5"] {
            assert_eq!(text.parse::<Divergence>().unwrap(), Divergence::Alpha(0.5), "{text}");
        }
        for text in ["alpha:-0.5", "alpha--0.5"] {
            let error = text.parse::<Divergence>().unwrap_err().to_string();
            assert!(error.contains("at least 0"), "{text}: {error}");
        }
        assert!("kl".parse::<Divergence>().unwrap_err().to_string().contains("reverse-kl"));
    }
}
