//! What a formula must be to be a divergence, and what kind of divergence it is.

use anyhow::{Result, bail};

use super::{Formula, Law, one};
use crate::{Divergence, Number};

/// Points from [`LEAST`] to its inverse, evenly in `log t`, on which convexity is checked.
const POINTS: usize = 10_000;
const LEAST: f64 = 1e-9;

impl Law {
    /// Finds the range, the limits and the named twin; `cubic` is the ratio of the third coefficient of the series to
    /// the second.
    pub(super) fn check(&mut self, cubic: f64) -> Result<()> {
        self.bound_series();
        let grid: Vec<f64> = (0..POINTS)
            .map(|i| LEAST.ln() * (1.0 - 2.0 * i as f64 / (POINTS - 1) as f64))
            .collect();
        for x in &grid {
            let t = x.exp();
            let all = [&self.value, &self.slope, &self.f_prime].map(|program| one(program, x));
            // f32 is read where losses are not cut: up to e^20.
            let narrow = if *x > 20.0 { 0.0 } else { self.narrow(*x as f32) };
            if let Some(odd) = all.iter().find(|one| !one.is_finite()) {
                bail!("f is not finite at t = {t:.3e}: f, t f' or f' is {odd}");
            }
            if !narrow.is_finite() {
                bail!("f is beyond the range of f32 at t = {t:.3e}");
            }
        }
        self.range = [
            [self.reach(-100.0, |x| self.narrow(x as f32)), 20.0],
            [self.reach(-700.0, |x| self.wide(x)), self.reach(700.0, |x| self.wide(x))],
        ];
        self.check_convexity(&grid)?;
        self.facts.at_zero = limit(|x| self.at(x), -1.0);
        self.facts.at_infinity = limit(|x| self.prime_at(x), 1.0);
        self.facts.twin = self.twin(cubic);
        Ok(())
    }

    /// Takes the series back to where the formula agrees with it: another kink may lie within.
    fn bound_series(&mut self) {
        for index in 0..self.near.len() {
            let mut limit = self.near[index].limit;
            while limit > 0.0 && !self.agrees(index, limit) {
                limit = if limit < 0.04 { 0.0 } else { limit / 2.0 };
            }
            self.near[index].limit = limit;
        }
    }

    /// Whether series and formula agree where neither has lost many digits.
    fn agrees(&self, index: usize, limit: f64) -> bool {
        let near = &self.near[index];
        let agrees_at = |x: &f64| {
            let pairs =
                [(near.value(x), one(&self.value, x)), (near.slope(x), one(&self.slope, x))];
            pairs.iter().all(|(a, b)| (a - b).abs() <= 1e-6 * a.abs().max(b.abs()))
        };
        (1..=64).all(|i| {
            let size = 0.02 + (limit - 0.02) * f64::from(i) / 64.0;
            [-size, size].iter().all(agrees_at)
        })
    }

    /// Value and slope in f32, added: finite where both are.
    fn narrow(&self, x: f32) -> f64 {
        f64::from(one(&self.value, &x).abs() + one(&self.slope, &x).abs())
    }

    fn wide(&self, x: f64) -> f64 {
        one(&self.value, &x).abs() + one(&self.slope, &x).abs() + one(&self.f_prime, &x).abs()
    }

    /// How far towards `end` everything is finite, in 140 steps.
    fn reach(&self, end: f64, size: impl Fn(f64) -> f64) -> f64 {
        let steps = (1..=140).map(|i| end * f64::from(i) / 140.0);
        steps.take_while(|x| size(*x).is_finite()).last().unwrap_or(0.0)
    }

    fn at(&self, x: f64) -> f64 {
        let at = self.inside(&x);
        let near = self.near_of::<f64>();
        if at.abs() < near.limit { near.value(&at) } else { one(&self.value, &at) }
    }

    fn prime_at(&self, x: f64) -> f64 {
        let at = self.inside(&x);
        let near = self.near_of::<f64>();
        match at.abs() < near.limit {
            true => near.slope(&at) * Number::exp(-at),
            false => one(&self.f_prime, &at),
        }
    }

    /// A convex f has a slope that never falls.
    fn check_convexity(&self, grid: &[f64]) -> Result<()> {
        let primes: Vec<f64> = grid.iter().map(|x| self.prime_at(*x)).collect();
        let bend = if self.facts.curvature.is_finite() { self.facts.curvature } else { 1.0 };
        for (xs, slopes) in grid.windows(2).zip(primes.windows(2)) {
            let rounding = 1e-11 * (slopes[0].abs() + slopes[1].abs()) + 1e-14 * bend.abs();
            if slopes[1] < slopes[0] - rounding {
                // As many digits as show the difference.
                let shown = |digits: usize| [0, 1].map(|i| format!("{:.digits$e}", slopes[i]));
                let mut both = (4..17).map(shown);
                let [from, to] = both.find(|[a, b]| a != b).unwrap_or_else(|| shown(17));
                bail!(
                    "f is not convex at t = {:.4e}: its slope falls from {from} to {to}; a divergence needs a convex f",
                    xs[0].exp()
                );
            }
        }
        if primes.iter().all(|slope| slope.abs() < 1e-12) {
            bail!(
                "f is linear, or no slope is above 1e-12: the divergence is 0 for every policy; f must curve at some t"
            );
        }
        Ok(())
    }

    /// The named divergence that this is a multiple of.
    fn twin(&self, cubic: f64) -> Option<(f64, Divergence)> {
        let alpha = 3.0 * cubic - 1.0;
        let round = (alpha * 1e6).round() / 1e6;
        let alpha = if (alpha - round).abs() < 1e-9 { round } else { alpha };
        let named = Divergence::all().filter(|one| !matches!(one, Divergence::Alpha(_)));
        let alphas = alpha.is_finite().then(|| Divergence::alpha(alpha));
        named.chain(alphas).find_map(|named| {
            let scale = self.at(0.7) / named.f(0.7);
            let is_same = (-18..=18).filter(|x| *x != 0).all(|x| {
                let (ours, theirs) = (self.at(f64::from(x)), scale * named.f(f64::from(x)));
                (ours - theirs).abs() <= 1e-9 * ours.abs().max(theirs.abs())
            });
            let whole = (scale * 1e6).round() / 1e6;
            is_same.then_some((if (scale - whole).abs() < 1e-9 { whole } else { scale }, named))
        })
    }
}

/// The limit of a monotone function far out on one side: infinite where it does not slow down.
fn limit(value: impl Fn(f64) -> f64, side: f64) -> f64 {
    let far = [175.0, 350.0, 700.0].map(|x| value(side * x));
    if far.iter().any(|one| !one.is_finite() || *one > 1e100) {
        return f64::INFINITY;
    }
    let (first, last) = (far[1] - far[0], far[2] - far[1]);
    if last.abs() <= 1e-12 * far[2].abs().max(1e-300) {
        return far[2];
    }
    // Twice as far, log t grows twice as much, and what converges less.
    if last >= 0.9 * first { f64::INFINITY } else { far[2] + last * last / (first - last) }
}

impl Divergence {
    /// The divergence as a formula for the reader, in `t` and its logarithm `x`.
    pub fn formula(self) -> String {
        match self {
            Divergence::ForwardKl => "t-1-log(t)".to_owned(),
            Divergence::ReverseKl => "t*log(t)-t+1".to_owned(),
            Divergence::Js => "(t*log(t)-(t+1)*log((t+1)/2))/2".to_owned(),
            Divergence::Alpha(a) => format!("(t^{a}-{a}*t-{})/{}", 1.0 - a, a * (a - 1.0)),
            Divergence::TotalVariation => "abs(t-1)/2".to_owned(),
            Divergence::ForwardChiSquared => "(t-1)^2/t".to_owned(),
            Divergence::ReverseChiSquared => "(t-1)^2".to_owned(),
            Divergence::Hellinger => "(sqrt(t)-1)^2/2".to_owned(),
            Divergence::Formula(formula) => formula.text().to_owned(),
        }
    }

    /// Its properties.
    ///
    /// # Errors
    /// An alpha whose formula is none: at very large numbers.
    pub fn facts(self) -> Result<&'static super::Facts> {
        Ok(match self {
            Divergence::Formula(formula) => formula,
            named => Formula::parse(&named.formula())?,
        }
        .facts())
    }

    /// What a reader should know of it, line by line.
    ///
    /// # Errors
    /// As [`Divergence::facts`].
    pub fn described(self) -> Result<Vec<String>> {
        let facts = self.facts()?;
        let aim = match facts.at_infinity.is_finite() {
            true => "finite, so p* can be the target",
            false => {
                "infinite, so p* cannot be the target: p* gives incorrect answers probability 0"
            }
        };
        let mut lines = vec![
            format!("f(t) = {}, t = pi / anchor", self.formula()),
            format!(
                "f(0) = {:.6}, f'(inf) = {:.6} ({aim}), curvature f''(1) = {:.6}",
                facts.at_zero, facts.at_infinity, facts.curvature
            ),
            match (facts.at_zero.is_finite(), facts.at_infinity.is_finite()) {
                (false, true) => "Mass-covering: the penalty is unbounded if pi loses an answer of the anchor, and \
                                  bounded if pi adds one.".to_owned(),
                (true, false) => "Mode-seeking: the penalty is unbounded if pi gives an answer that the anchor \
                                  never gives, and bounded by f(0) if pi loses one.".to_owned(),
                (false, false) => "Unbounded on both sides.".to_owned(),
                (true, true) => format!(
                    "Bounded on both sides: at most f(0) for a lost answer, f'(inf) for a new one ({}).",
                    if facts.at_zero > facts.at_infinity * (1.0 + 1e-9) { "more mass-covering" }
                    else if facts.at_zero < facts.at_infinity * (1.0 - 1e-9) { "more mode-seeking" }
                    else { "symmetric" }
                ),
            },
        ];
        let [value, slope] = facts.removed.map(|one| if one.abs() < 1e-12 { 0.0 } else { one });
        if value != 0.0 || slope != 0.0 {
            lines.push(format!(
                "Subtracted (no gradient depends on it): f(1) = {value:.6} and the line {slope:.6} (t - 1)."
            ));
        }
        match facts.twin {
            Some((1.0, twin)) if twin != self => lines.push(format!("It equals {twin}.")),
            Some((scale, twin)) if twin != self => {
                lines.push(format!("It equals {scale} times {twin}."));
            }
            _ => {}
        }
        Ok(lines)
    }
}
