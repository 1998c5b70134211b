//! Real numbers of two precisions behind one trait: f64, and 256 bits.

use std::cell::RefCell;

use astro_float::{BigFloat, Consts, RoundingMode};
use dashu_ratio::RBig;

/// Bits of the confirming evaluation.
const PRECISION: usize = 256;
/// Bits that rounding may take of it.
const SLACK: i64 = 56;
const ROUND: RoundingMode = RoundingMode::None;

thread_local! {
    static CONSTANTS: RefCell<Option<Consts>> = RefCell::new(Consts::new().ok());
}

/// Real numbers of some precision.
pub(super) trait Real: Clone {
    fn of_rational(value: &RBig) -> Option<Self>;
    fn of_f64(value: f64) -> Self;
    fn pi() -> Option<Self>;
    fn add(&self, other: &Self) -> Self;
    fn sub(&self, other: &Self) -> Self;
    fn mul(&self, other: &Self) -> Self;
    fn div(&self, other: &Self) -> Self;
    fn sqrt(&self) -> Self;
    fn exp(&self) -> Option<Self>;
    fn ln(&self) -> Option<Self>;
    fn sin(&self) -> Option<Self>;
    fn cos(&self) -> Option<Self>;
    fn atan(&self) -> Option<Self>;
    fn is_negative(&self) -> bool;
    fn is_zero(&self) -> bool;
    fn is_finite(&self) -> bool;
    /// The exponent of two of its size; very small for 0.
    fn exponent(&self) -> i64;
    /// Bits that can be trusted.
    fn trusted_bits() -> i64;
}

impl Real for f64 {
    fn of_rational(value: &RBig) -> Option<Self> {
        Some(value.to_f64().value()).filter(|x| x.is_finite())
    }
    fn of_f64(value: f64) -> Self {
        value
    }
    fn pi() -> Option<Self> {
        Some(std::f64::consts::PI)
    }
    fn add(&self, other: &Self) -> Self {
        self + other
    }
    fn sub(&self, other: &Self) -> Self {
        self - other
    }
    fn mul(&self, other: &Self) -> Self {
        self * other
    }
    fn div(&self, other: &Self) -> Self {
        self / other
    }
    fn sqrt(&self) -> Self {
        f64::sqrt(*self)
    }
    fn exp(&self) -> Option<Self> {
        Some(f64::exp(*self))
    }
    fn ln(&self) -> Option<Self> {
        Some(f64::ln(*self))
    }
    fn sin(&self) -> Option<Self> {
        Some(f64::sin(*self))
    }
    fn cos(&self) -> Option<Self> {
        Some(f64::cos(*self))
    }
    fn atan(&self) -> Option<Self> {
        Some(f64::atan(*self))
    }
    fn is_negative(&self) -> bool {
        *self < 0.0
    }
    fn is_zero(&self) -> bool {
        *self == 0.0
    }
    fn is_finite(&self) -> bool {
        f64::is_finite(*self)
    }
    fn exponent(&self) -> i64 {
        if *self == 0.0 { i64::MIN / 4 } else { self.abs().log2().floor() as i64 + 1 }
    }
    fn trusted_bits() -> i64 {
        32
    }
}

fn with_constants<T>(run: impl FnOnce(&mut Consts) -> T) -> Option<T> {
    CONSTANTS.with(|cell| cell.borrow_mut().as_mut().map(run))
}

impl Real for BigFloat {
    fn of_rational(value: &RBig) -> Option<Self> {
        let of = |text: String| {
            with_constants(|constants| {
                BigFloat::parse(&text, astro_float::Radix::Dec, PRECISION, ROUND, constants)
            })
        };
        let (above, below) =
            (of(value.numerator().to_string())?, of(value.denominator().to_string())?);
        Some(above.div(&below, PRECISION, ROUND))
    }
    fn of_f64(value: f64) -> Self {
        BigFloat::from_f64(value, PRECISION)
    }
    fn pi() -> Option<Self> {
        with_constants(|constants| constants.pi(PRECISION, ROUND))
    }
    fn add(&self, other: &Self) -> Self {
        BigFloat::add(self, other, PRECISION, ROUND)
    }
    fn sub(&self, other: &Self) -> Self {
        BigFloat::sub(self, other, PRECISION, ROUND)
    }
    fn mul(&self, other: &Self) -> Self {
        BigFloat::mul(self, other, PRECISION, ROUND)
    }
    fn div(&self, other: &Self) -> Self {
        BigFloat::div(self, other, PRECISION, ROUND)
    }
    fn sqrt(&self) -> Self {
        BigFloat::sqrt(self, PRECISION, ROUND)
    }
    fn exp(&self) -> Option<Self> {
        // A large exponent costs without bound.
        if Real::exponent(self) > 14 {
            return None;
        }
        with_constants(|constants| BigFloat::exp(self, PRECISION, ROUND, constants))
    }
    fn ln(&self) -> Option<Self> {
        with_constants(|constants| BigFloat::ln(self, PRECISION, ROUND, constants))
    }
    fn sin(&self) -> Option<Self> {
        if Real::exponent(self) > 24 {
            return None;
        }
        with_constants(|constants| BigFloat::sin(self, PRECISION, ROUND, constants))
    }
    fn cos(&self) -> Option<Self> {
        if Real::exponent(self) > 24 {
            return None;
        }
        with_constants(|constants| BigFloat::cos(self, PRECISION, ROUND, constants))
    }
    fn atan(&self) -> Option<Self> {
        with_constants(|constants| BigFloat::atan(self, PRECISION, ROUND, constants))
    }
    fn is_negative(&self) -> bool {
        BigFloat::is_negative(self) && !BigFloat::is_zero(self)
    }
    fn is_zero(&self) -> bool {
        BigFloat::is_zero(self)
    }
    fn is_finite(&self) -> bool {
        !self.is_nan() && !self.is_inf()
    }
    fn exponent(&self) -> i64 {
        match (BigFloat::is_zero(self), BigFloat::exponent(self)) {
            (true, _) | (_, None) => i64::MIN / 4,
            (false, Some(exponent)) => i64::from(exponent),
        }
    }
    fn trusted_bits() -> i64 {
        PRECISION as i64 - SLACK
    }
}
