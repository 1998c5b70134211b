//! Real numbers of two precisions behind one trait: f64, and 256 bits.

use std::cell::RefCell;

use dashu_base::Sign;
use dashu_float::round::mode::HalfEven;
use dashu_float::{ConstCache, Context, FBig, FpResult, Repr};
use dashu_ratio::RBig;

/// Bits of the confirming evaluation.
const PRECISION: usize = 256;
/// Bits that rounding may take of it.
const SLACK: i64 = 56;
/// The largest exponent of two, of either sign, that a number may have.
const MAX_EXPONENT: u64 = 1 << 31;
/// Rounds to the nearest: one that rounds to one side needs any number of bits for values beside a representable one.
const CONTEXT: Context<HalfEven> = Context::new(PRECISION);

thread_local! {
    /// Digits of pi and of logarithms, computed once a thread.
    static CONSTANTS: RefCell<ConstCache> = const { RefCell::new(ConstCache::new()) };
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

/// Functions of f64 by their own names.
macro_rules! native {
    ($($name:ident)*) => { $(fn $name(&self) -> Option<Self> { Some(f64::$name(*self)) })* };
}
/// Operations on two numbers.
macro_rules! operations {
    ($($name:ident $sign:tt)*) => { $(fn $name(&self, other: &Self) -> Self { self $sign other })* };
}

impl Real for f64 {
    native! { exp ln sin cos atan }
    operations! { add + sub - mul * div / }
    fn of_rational(value: &RBig) -> Option<Self> {
        Some(value.to_f64().value()).filter(|x| x.is_finite())
    }
    fn of_f64(value: f64) -> Self {
        value
    }
    fn pi() -> Option<Self> {
        Some(std::f64::consts::PI)
    }
    fn sqrt(&self) -> Self {
        f64::sqrt(*self)
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
        match *self {
            0.0 => i64::MIN / 4,
            size => (size.abs().log2().floor() as i64).saturating_add(1),
        }
    }
    fn trusted_bits() -> i64 {
        32
    }
}

/// A number of 256 bits; `None` where a calculation left the real numbers or the range of exponents.
#[derive(Clone)]
pub(super) struct Real256(Option<Repr<2>>);

type Rounded = FpResult<FBig<HalfEven, 2>>;

impl Real256 {
    fn from_rounded(result: Rounded) -> Self {
        let repr = result.ok().map(|rounded| rounded.value().into_repr());
        Self(repr.filter(|repr| repr.is_finite() && exponent(repr).unsigned_abs() <= MAX_EXPONENT))
    }
    fn unary(&self, function: impl FnOnce(&Repr<2>) -> Rounded) -> Self {
        self.0.as_ref().map_or(Self(None), |repr| Self::from_rounded(function(repr)))
    }
    fn binary(&self, other: &Self, function: impl FnOnce(&Repr<2>, &Repr<2>) -> Rounded) -> Self {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Self::from_rounded(function(a, b)),
            _ => Self(None),
        }
    }
    /// The number, where its exponent is at most that.
    fn below(&self, exponent: i64) -> Option<&Self> {
        (self.exponent() <= exponent).then_some(self)
    }
    /// A function that needs constants.
    fn transcendental(
        &self,
        function: impl FnOnce(&Repr<2>, Option<&mut ConstCache>) -> Rounded,
    ) -> Option<Self> {
        let value = CONSTANTS
            .with_borrow_mut(|constants| self.unary(|repr| function(repr, Some(constants))));
        value.is_finite().then_some(value)
    }
}

/// The exponent of a size that is written as 0.1... in binary.
fn exponent(repr: &Repr<2>) -> i64 {
    (repr.exponent() as i64).saturating_add(repr.digits() as i64)
}

macro_rules! wide {
    ($($name:ident)*) => { $(fn $name(&self, other: &Self) -> Self {
        self.binary(other, |a, b| CONTEXT.$name(a, b))
    })* };
}

impl Real for Real256 {
    fn of_rational(value: &RBig) -> Option<Self> {
        let above = CONTEXT.convert_int::<2>(value.numerator().clone()).value();
        let below = CONTEXT.convert_int::<2>(value.denominator().clone().into()).value();
        Some(Self::from_rounded(CONTEXT.div(above.repr(), below.repr())))
    }
    fn of_f64(value: f64) -> Self {
        Self(Repr::try_from(value).ok().filter(Repr::is_finite))
    }
    fn pi() -> Option<Self> {
        Some(Self::from_rounded(Ok(CONSTANTS.with_borrow_mut(|constants| constants.pi(PRECISION)))))
    }
    wide! { add sub mul div }
    fn sqrt(&self) -> Self {
        self.unary(|x| CONTEXT.sqrt(x))
    }
    // A large exponent costs without bound.
    fn exp(&self) -> Option<Self> {
        self.below(14)?.transcendental(|x, constants| CONTEXT.exp(x, constants))
    }
    fn ln(&self) -> Option<Self> {
        self.transcendental(|x, constants| CONTEXT.ln(x, constants))
    }
    fn sin(&self) -> Option<Self> {
        self.below(24)?.transcendental(|x, constants| CONTEXT.sin(x, constants))
    }
    fn cos(&self) -> Option<Self> {
        self.below(24)?.transcendental(|x, constants| CONTEXT.cos(x, constants))
    }
    fn atan(&self) -> Option<Self> {
        self.transcendental(|x, constants| CONTEXT.atan(x, constants))
    }
    fn is_negative(&self) -> bool {
        self.0.as_ref().is_some_and(|x| x.sign() == Sign::Negative && !x.significand().is_zero())
    }
    fn is_zero(&self) -> bool {
        self.0.as_ref().is_some_and(|x| x.significand().is_zero())
    }
    fn is_finite(&self) -> bool {
        self.0.is_some()
    }
    fn exponent(&self) -> i64 {
        match &self.0 {
            Some(x) if !x.significand().is_zero() => exponent(x),
            _ => i64::MIN / 4,
        }
    }
    fn trusted_bits() -> i64 {
        PRECISION as i64 - SLACK
    }
}
