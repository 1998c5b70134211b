//! Complex values of expressions with roots, functions and constants: fast in f64 to tell apart what
//! differs, at 256 bits to confirm what agrees.

use std::collections::BTreeMap;

use super::complex::Complex;
use super::exact::{is_series, rational, series};
use super::fuel::Fuel;
use super::real::{Real, Real256};
use super::tree::{Constant, Expr};

/// An evaluation: the values of variables, and the largest size that was added, below which
/// differences are rounding.
struct Evaluation<'a> {
    values: &'a BTreeMap<String, f64>,
    fuel: &'a mut Fuel,
    scale: i64,
}

impl Evaluation<'_> {
    fn evaluate<R: Real>(&mut self, expr: &Expr) -> Option<Complex<R>> {
        self.fuel.spend(4)?;
        let value = match expr {
            Expr::Number(value, _) => Complex::real(R::of_rational(value)?),
            Expr::Constant(Constant::Pi) => Complex::real(R::pi()?),
            Expr::Constant(Constant::E) => Complex::real(R::of_f64(1.0)).exp()?,
            Expr::Constant(Constant::I) => Complex { re: R::of_f64(0.0), im: R::of_f64(1.0) },
            Expr::Variable(name) => Complex::real(R::of_f64(*self.values.get(name)?)),
            Expr::Sum(terms) => {
                let mut sum = Complex::real(R::of_f64(0.0));
                for term in terms {
                    let term = self.evaluate::<R>(term)?;
                    self.scale = self.scale.max(term.exponent());
                    sum = sum.add(&term);
                }
                sum
            }
            Expr::Product(factors) => {
                let mut product = Complex::real(R::of_f64(1.0));
                for factor in factors {
                    product = product.mul(&self.evaluate(factor)?);
                }
                product
            }
            Expr::Quotient(above, below) => {
                self.evaluate::<R>(above)?.div(&self.evaluate(below)?)?
            }
            Expr::Negative(inner) => Complex::real(R::of_f64(0.0)).sub(&self.evaluate(inner)?),
            Expr::Power(base, exponent) => self.power::<R>(base, exponent)?,
            Expr::Call(name, arguments) => self.call::<R>(name, arguments)?,
            Expr::Factorial(_) => Complex::real(R::of_rational(&rational(expr, self.fuel)?)?),
            Expr::PlusMinus(_) | Expr::Infinity => return None,
        };
        value.is_finite().then_some(value)
    }

    fn power<R: Real>(&mut self, base: &Expr, exponent: &Expr) -> Option<Complex<R>> {
        let base = self.evaluate::<R>(base)?;
        if let Some(whole) = rational(exponent, self.fuel)
            && whole.is_int()
            && let Ok(count) = i64::try_from(whole.numerator().clone())
            && count.unsigned_abs() <= 4096
        {
            self.fuel.spend(64)?;
            // By squaring: whole powers of negative numbers stay real, which e^(n ln b) does not keep.
            let mut result = Complex::real(R::of_f64(1.0));
            let (mut square, mut left) = (base, count.unsigned_abs());
            while left > 0 {
                if left & 1 == 1 {
                    result = result.mul(&square);
                }
                square = square.mul(&square);
                left >>= 1;
            }
            return if count < 0 {
                Complex::real(R::of_f64(1.0)).div(&result)
            } else {
                Some(result)
            };
        }
        let exponent = self.evaluate::<R>(exponent)?;
        if base.re.is_zero() && base.im.is_zero() {
            return (!exponent.re.is_negative()).then(|| base.clone());
        }
        self.fuel.spend(400)?;
        exponent.mul(&base.ln()?).exp()
    }

    fn call<R: Real>(&mut self, name: &str, arguments: &[Expr]) -> Option<Complex<R>> {
        if is_series(name) {
            let written = series(name, arguments, self.fuel)?;
            return self.evaluate::<R>(&written);
        }
        self.fuel.spend(400)?;
        let first = self.evaluate::<R>(arguments.first()?)?;
        match (name, arguments) {
            ("root", [degree, inner]) => self.root(degree, inner),
            ("abs", [_]) => Some(Complex::real(first.size())),
            ("exp", [_]) => first.exp(),
            ("ln", [_]) => first.ln(),
            ("log", [_]) => first.ln()?.div(&Complex::real(R::of_f64(10.0)).ln()?),
            ("log", [_, inner]) => {
                let inner = self.evaluate::<R>(inner)?;
                inner.ln()?.over(&first.ln()?)
            }
            // Beside an integer rounding would decide.
            ("floor" | "ceil", [inner]) => {
                let value = approximate(inner, self.fuel).filter(|value| {
                    value.abs() < 1e12
                        && (value - value.round()).abs() > 1e-9 * value.abs().max(1.0)
                })?;
                let whole = if name == "floor" { value.floor() } else { value.ceil() };
                Some(Complex::real(R::of_f64(whole)))
            }
            ("conj", [_]) => Some(Complex { im: R::of_f64(0.0).sub(&first.im), re: first.re }),
            (name, arguments) => {
                let value = if arguments.len() == 1 { circular(name, &first) } else { None };
                value.or_else(|| {
                    let call = Expr::call(name, arguments.to_vec());
                    Some(Complex::real(R::of_rational(&rational(&call, self.fuel)?)?))
                })
            }
        }
    }

    fn root<R: Real>(&mut self, degree: &Expr, inner: &Expr) -> Option<Complex<R>> {
        let degree = rational(degree, self.fuel)?;
        let count: i64 =
            i64::try_from(degree.numerator().clone()).ok().filter(|_| degree.is_int())?;
        let inner = self.evaluate::<R>(inner)?;
        if inner.re.is_zero() && inner.im.is_zero() {
            return Some(inner);
        }
        if count == 2 && inner.im.is_zero() && !inner.re.is_negative() {
            return Some(Complex::real(inner.re.sqrt()));
        }
        // Odd roots of negative numbers under a root sign are real.
        if inner.im.is_zero() && inner.re.is_negative() && count % 2 == 1 {
            let logarithm = inner.times(-1.0).ln()?.times(-1.0);
            let root = logarithm.div(&Complex::real(R::of_f64(-(count as f64))))?.exp()?;
            return Some(root.times(-1.0));
        }
        inner.ln()?.div(&Complex::real(R::of_f64(count as f64)))?.exp()
    }
}

/// Circular and hyperbolic functions and their inverses; `None` where there is no value.
fn circular<R: Real>(name: &str, z: &Complex<R>) -> Option<Complex<R>> {
    let one = || Complex::real(R::of_f64(1.0));
    match name {
        "sin" => sine(z),
        "cos" => cosine(z),
        "cis" => Some(cosine(z)?.add(&i().mul(&sine(z)?))),
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
        "arctan" => z.im.is_zero().then(|| z.re.atan())?.map(Complex::real),
        "arcsin" => arcsine(z),
        "arccos" => Some(Complex::real(R::pi()?.div(&R::of_f64(2.0))).sub(&arcsine(z)?)),
        _ => None,
    }
}

fn i<R: Real>() -> Complex<R> {
    Complex { re: R::of_f64(0.0), im: R::of_f64(1.0) }
}

/// e^(iz) and e^(-iz), from which every circular function follows.
fn waves<R: Real>(z: &Complex<R>) -> Option<(Complex<R>, Complex<R>)> {
    let turned = i().mul(z);
    Some((turned.exp()?, turned.times(-1.0).exp()?))
}

fn sine<R: Real>(z: &Complex<R>) -> Option<Complex<R>> {
    if z.im.is_zero() {
        return Some(Complex::real(z.re.sin()?));
    }
    let (a, b) = waves(z)?;
    a.sub(&b).div(&i().times(2.0))
}

fn cosine<R: Real>(z: &Complex<R>) -> Option<Complex<R>> {
    if z.im.is_zero() {
        return Some(Complex::real(z.re.cos()?));
    }
    let (a, b) = waves(z)?;
    Some(a.add(&b).times(0.5))
}

/// -i ln(iz + sqrt(1 - z^2))
fn arcsine<R: Real>(z: &Complex<R>) -> Option<Complex<R>> {
    let square = Complex::real(R::of_f64(1.0)).sub(&z.mul(z));
    let root = match square.is_rounding() {
        true => square.times(0.0),
        false => square.ln()?.times(0.5).exp()?,
    };
    Some(i().times(-1.0).mul(&i().mul(z).add(&root).ln()?))
}

/// Whether two expressions agree at these values of their variables; `None` where one has no value.
pub(super) fn agree(
    a: &Expr,
    b: &Expr,
    values: &BTreeMap<String, f64>,
    fuel: &mut Fuel,
) -> Option<bool> {
    // What differs in f64 differs; only what agrees there is worth 256 bits.
    if !agree_in::<f64>(a, b, values, fuel)? {
        return Some(false);
    }
    agree_in::<Real256>(a, b, values, fuel)
}

/// Whether every root, power and logarithm of the expression is real at these values.
pub(super) fn is_real(expr: &Expr, values: &BTreeMap<String, f64>, fuel: &mut Fuel) -> bool {
    let real = |expr: &Expr, fuel: &mut Fuel| {
        let mut evaluation = Evaluation { values, fuel, scale: i64::MIN / 4 };
        evaluation.evaluate::<f64>(expr).is_some_and(|value| value.im == 0.0)
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
    let value = evaluation.evaluate::<f64>(expr)?;
    (value.im.abs() <= 1e-9 * value.re.abs().max(1e-9)).then_some(value.re)
}

fn agree_in<R: Real>(
    a: &Expr,
    b: &Expr,
    values: &BTreeMap<String, f64>,
    fuel: &mut Fuel,
) -> Option<bool> {
    let mut evaluation = Evaluation { values, fuel, scale: i64::MIN / 4 };
    let (a, b) = (evaluation.evaluate::<R>(a)?, evaluation.evaluate::<R>(b)?);
    // Sums cancel: a difference below the rounding of the largest summand is none.
    let scale = evaluation.scale.max(a.exponent()).max(b.exponent());
    let difference = a.sub(&b);
    let is_zero = difference.re.is_zero() && difference.im.is_zero();
    Some(is_zero || difference.exponent() <= scale.saturating_sub(R::trusted_bits()))
}
