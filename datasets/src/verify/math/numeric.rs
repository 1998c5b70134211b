//! Complex values of expressions with roots, functions and constants, at 256 bits.

use std::collections::BTreeMap;

use super::complex::Complex;
use super::exact::{is_series, rational, series};
use super::fuel::Fuel;
use super::real::{Real, TRUSTED_BITS};
use super::tree::{Constant, Expr};

/// An evaluation: the values of variables, and the largest size that was added, below which
/// differences are rounding.
struct Evaluation<'a> {
    values: &'a BTreeMap<String, f64>,
    fuel: &'a mut Fuel,
    scale: i64,
}

impl Evaluation<'_> {
    fn evaluate(&mut self, expr: &Expr) -> Option<Complex> {
        self.fuel.spend(4)?;
        let value = match expr {
            Expr::Number(value, _) => Complex::real(Real::of_rational(value)),
            Expr::Constant(Constant::Pi) => Complex::real(Real::pi()),
            Expr::Constant(Constant::E) => Complex::of_f64(1.0).exp()?,
            Expr::Constant(Constant::I) => Complex::i(),
            Expr::Variable(name) => Complex::of_f64(*self.values.get(name)?),
            Expr::Sum(terms) => {
                let mut sum = Complex::of_f64(0.0);
                for term in terms {
                    let term = self.evaluate(term)?;
                    self.scale = self.scale.max(term.exponent());
                    sum = sum.add(&term);
                }
                sum
            }
            Expr::Product(factors) => {
                factors.iter().try_fold(Complex::of_f64(1.0), |product, factor| {
                    Some(product.mul(&self.evaluate(factor)?))
                })?
            }
            Expr::Quotient(above, below) => self.evaluate(above)?.div(&self.evaluate(below)?)?,
            Expr::Negative(inner) => Complex::of_f64(0.0).sub(&self.evaluate(inner)?),
            Expr::Power(base, exponent) => self.power(base, exponent)?,
            Expr::Call(name, arguments) => self.call(name, arguments)?,
            Expr::Factorial(_) => Complex::real(Real::of_rational(&rational(expr, self.fuel)?)),
            Expr::PlusMinus(_) | Expr::Infinity => return None,
        };
        value.is_finite().then_some(value)
    }

    fn power(&mut self, base: &Expr, exponent: &Expr) -> Option<Complex> {
        let base = self.evaluate(base)?;
        if let Some(whole) = rational(exponent, self.fuel)
            && whole.is_int()
            && let Ok(count) = i64::try_from(whole.numerator().clone())
            && count.unsigned_abs() <= 4096
        {
            self.fuel.spend(64)?;
            // By squaring: whole powers of negative numbers stay real, which e^(n ln b) does not keep.
            let mut result = Complex::of_f64(1.0);
            let (mut square, mut left) = (base, count.unsigned_abs());
            while left > 0 {
                if left & 1 == 1 {
                    result = result.mul(&square);
                }
                square = square.mul(&square);
                left >>= 1;
            }
            return if count < 0 { Complex::of_f64(1.0).div(&result) } else { Some(result) };
        }
        let exponent = self.evaluate(exponent)?;
        if base.is_zero() {
            return (!exponent.re.is_negative()).then(|| base.clone());
        }
        self.fuel.spend(400)?;
        exponent.mul(&base.ln()?).exp()
    }

    fn call(&mut self, name: &str, arguments: &[Expr]) -> Option<Complex> {
        if is_series(name) {
            let written = series(name, arguments, self.fuel)?;
            return self.evaluate(&written);
        }
        self.fuel.spend(400)?;
        let first = self.evaluate(arguments.first()?)?;
        match (name, arguments) {
            ("root", [degree, inner]) => self.root(degree, inner),
            ("abs", [_]) => Some(Complex::real(first.size())),
            ("exp", [_]) => first.exp(),
            ("ln", [_]) => first.ln(),
            ("log", [_]) => first.ln()?.div(&Complex::of_f64(10.0).ln()?),
            ("log", [_, inner]) => {
                let inner = self.evaluate(inner)?;
                inner.ln()?.over(&first.ln()?)
            }
            // Beside an integer rounding would decide.
            ("floor" | "ceil", [inner]) => {
                let value = approximate(inner, self.fuel).filter(|value| {
                    value.abs() < 1e12
                        && (value - value.round()).abs() > 1e-9 * value.abs().max(1.0)
                })?;
                let whole = if name == "floor" { value.floor() } else { value.ceil() };
                Some(Complex::of_f64(whole))
            }
            ("conj", [_]) => Some(first.conjugate()),
            (name, arguments) => {
                let value = if arguments.len() == 1 { circular(name, &first) } else { None };
                value.or_else(|| {
                    let call = Expr::call(name, arguments.to_vec());
                    Some(Complex::real(Real::of_rational(&rational(&call, self.fuel)?)))
                })
            }
        }
    }

    fn root(&mut self, degree: &Expr, inner: &Expr) -> Option<Complex> {
        let degree = rational(degree, self.fuel)?;
        let count: i64 =
            i64::try_from(degree.numerator().clone()).ok().filter(|_| degree.is_int())?;
        let inner = self.evaluate(inner)?;
        if inner.is_zero() {
            return Some(inner);
        }
        if count == 2 && inner.im.is_zero() && !inner.re.is_negative() {
            return Some(Complex::real(inner.re.sqrt()));
        }
        // Odd roots of negative numbers under a root sign are real.
        if inner.im.is_zero() && inner.re.is_negative() && count % 2 == 1 {
            let logarithm = inner.times(-1.0).ln()?.times(-1.0);
            let root = logarithm.div(&Complex::of_f64(-(count as f64)))?.exp()?;
            return Some(root.times(-1.0));
        }
        inner.ln()?.div(&Complex::of_f64(count as f64))?.exp()
    }
}

/// Circular and hyperbolic functions and their inverses; `None` where there is no value.
fn circular(name: &str, z: &Complex) -> Option<Complex> {
    let one = || Complex::of_f64(1.0);
    let quarter = || Complex::real(Real::pi().div(&Real::of_f64(2.0)));
    match name {
        "sin" => sine(z),
        "cos" => cosine(z),
        "cis" => Some(cosine(z)?.add(&Complex::i().mul(&sine(z)?))),
        "tan" => sine(z)?.over(&cosine(z)?),
        "cot" => cosine(z)?.over(&sine(z)?),
        "sec" => one().over(&cosine(z)?),
        "csc" => one().over(&sine(z)?),
        "sinh" => Some(z.exp()?.sub(&z.times(-1.0).exp()?).times(0.5)),
        "cosh" => Some(z.exp()?.add(&z.times(-1.0).exp()?).times(0.5)),
        "tanh" => {
            let (a, b) = (z.exp()?, z.times(-1.0).exp()?);
            a.sub(&b).div(&a.add(&b))
        }
        "coth" => one().over(&circular("tanh", z)?),
        "sech" => one().over(&circular("cosh", z)?),
        "csch" => one().over(&circular("sinh", z)?),
        "arcsinh" => Some(Complex::i().mul(&arcsine(&Complex::i().mul(z))?).times(-1.0)),
        "arccosh" => z.add(&root(&z.mul(z).sub(&one()))?).ln(),
        "arctanh" => Some(one().add(z).over(&one().sub(z))?.ln()?.times(0.5)),
        "arccot" => Some(quarter().sub(&circular("arctan", z)?)),
        "arcsec" => circular("arccos", &one().over(z)?),
        "arccsc" => arcsine(&one().over(z)?),
        "arctan" => z.im.is_zero().then(|| z.re.atan())?.map(Complex::real),
        "arcsin" => arcsine(z),
        "arccos" => Some(quarter().sub(&arcsine(z)?)),
        _ => None,
    }
}

/// e^(iz) and e^(-iz), from which every circular function follows.
fn waves(z: &Complex) -> Option<(Complex, Complex)> {
    let turned = Complex::i().mul(z);
    Some((turned.exp()?, turned.times(-1.0).exp()?))
}

/// A sine or cosine, 0 where it is nothing but the rounding of its argument: that of pi, of 90 degrees.
fn beside_zero(value: Real, argument: &Real) -> Real {
    let is_rounding = value.exponent() <= argument.exponent().saturating_sub(TRUSTED_BITS);
    if is_rounding { Real::of_f64(0.0) } else { value }
}

fn sine(z: &Complex) -> Option<Complex> {
    if z.im.is_zero() {
        return Some(Complex::real(beside_zero(z.re.sin()?, &z.re)));
    }
    let (a, b) = waves(z)?;
    a.sub(&b).div(&Complex::i().times(2.0))
}

fn cosine(z: &Complex) -> Option<Complex> {
    if z.im.is_zero() {
        return Some(Complex::real(beside_zero(z.re.cos()?, &z.re)));
    }
    let (a, b) = waves(z)?;
    Some(a.add(&b).times(0.5))
}

/// A square root, of nothing but rounding 0.
fn root(square: &Complex) -> Option<Complex> {
    if square.is_rounding() { Some(square.times(0.0)) } else { square.ln()?.times(0.5).exp() }
}

/// -i ln(iz + sqrt(1 - z^2))
fn arcsine(z: &Complex) -> Option<Complex> {
    let root = root(&Complex::of_f64(1.0).sub(&z.mul(z)))?;
    Some(Complex::i().times(-1.0).mul(&Complex::i().mul(z).add(&root).ln()?))
}

/// Whether two expressions agree at these values of their variables; `None` where one has no value.
pub(super) fn agree(
    a: &Expr,
    b: &Expr,
    values: &BTreeMap<String, f64>,
    fuel: &mut Fuel,
) -> Option<bool> {
    let mut evaluation = Evaluation { values, fuel, scale: i64::MIN / 4 };
    let (a, b) = (evaluation.evaluate(a)?, evaluation.evaluate(b)?);
    // Sums cancel: a difference below the rounding of the largest summand is none.
    let scale = evaluation.scale.max(a.exponent()).max(b.exponent());
    let difference = a.sub(&b);
    Some(difference.is_zero() || difference.exponent() <= scale.saturating_sub(TRUSTED_BITS))
}

/// Whether every root, power and logarithm of the expression is real at these values.
pub(super) fn is_real(expr: &Expr, values: &BTreeMap<String, f64>, fuel: &mut Fuel) -> bool {
    let real = |expr: &Expr, fuel: &mut Fuel| {
        let mut evaluation = Evaluation { values, fuel, scale: i64::MIN / 4 };
        evaluation.evaluate(expr).is_some_and(|value| value.im.is_zero())
    };
    let mut open = vec![expr];
    while let Some(expr) = open.pop() {
        if fuel.spend(1).is_none() {
            return false;
        }
        match expr {
            Expr::Constant(Constant::I) => return false,
            Expr::Power(..) | Expr::Call(..) if !real(expr, fuel) => return false,
            Expr::Power(..) | Expr::Call(..) => {}
            other => open.extend(other.children()),
        }
    }
    true
}

/// The value in f64, where it is real.
pub(super) fn approximate(expr: &Expr, fuel: &mut Fuel) -> Option<f64> {
    let values = BTreeMap::new();
    let mut evaluation = Evaluation { values: &values, fuel, scale: i64::MIN / 4 };
    let value = evaluation.evaluate(expr)?;
    let (re, im) = (value.re.to_f64()?, value.im.to_f64()?);
    (im.abs() <= 1e-9 * re.abs().max(1e-9)).then_some(re)
}
