//! Real numbers of 256 bits.

use std::cell::RefCell;

use dashu_base::Sign;
use dashu_float::round::mode::HalfEven;
use dashu_float::{ConstCache, Context, FBig, FpResult, Repr};
use dashu_ratio::RBig;

const PRECISION: usize = 256;
/// Bits that rounding may take of it.
const SLACK: i64 = 56;
/// Bits that can be trusted.
pub(super) const TRUSTED_BITS: i64 = PRECISION as i64 - SLACK;
/// The largest exponent of two, of either sign, that a number may have.
const MAX_EXPONENT: u64 = 1 << 31;
/// Rounds to the nearest: one that rounds to one side needs any number of bits for values beside a representable one.
const CONTEXT: Context<HalfEven> = Context::new(PRECISION);

thread_local! {
    /// Digits of pi and of logarithms, computed once a thread.
    static CONSTANTS: RefCell<ConstCache> = const { RefCell::new(ConstCache::new()) };
}

/// A real number; `None` where a calculation left the real numbers or the range of exponents.
#[derive(Clone)]
pub(super) struct Real(Option<Repr<2>>);

type Rounded = FpResult<FBig<HalfEven, 2>>;

/// Operations on two numbers.
macro_rules! operations {
    ($($name:ident)*) => { $(pub(super) fn $name(&self, other: &Self) -> Self {
        self.binary(other, |a, b| CONTEXT.$name(a, b))
    })* };
}

/// Functions that need constants.
macro_rules! functions {
    ($($name:ident)*) => { $(pub(super) fn $name(&self) -> Option<Self> {
        self.transcendental(|x, constants| CONTEXT.$name(x, constants))
    })* };
}

/// The same, of numbers up to an exponent: a large one costs without bound.
macro_rules! bounded {
    ($($name:ident $exponent:literal)*) => { $(pub(super) fn $name(&self) -> Option<Self> {
        let is_small = self.exponent() <= $exponent;
        is_small.then(|| self.transcendental(|x, constants| CONTEXT.$name(x, constants)))?
    })* };
}

impl Real {
    operations! { add sub mul div }
    functions! { ln atan }
    bounded! { exp 14 sin 24 cos 24 }

    pub(super) fn of_rational(value: &RBig) -> Self {
        let above = CONTEXT.convert_int::<2>(value.numerator().clone()).value();
        let below = CONTEXT.convert_int::<2>(value.denominator().clone().into()).value();
        Self::from_rounded(CONTEXT.div(above.repr(), below.repr()))
    }

    pub(super) fn of_f64(value: f64) -> Self {
        Self(Repr::try_from(value).ok().filter(Repr::is_finite))
    }

    /// The nearest number of 64 bits, where it is finite.
    pub(super) fn to_f64(&self) -> Option<f64> {
        Some(self.0.as_ref()?.to_f64().value()).filter(|value| value.is_finite())
    }

    pub(super) fn pi() -> Self {
        Self::from_rounded(Ok(CONSTANTS.with_borrow_mut(|constants| constants.pi(PRECISION))))
    }

    pub(super) fn sqrt(&self) -> Self {
        self.unary(|x| CONTEXT.sqrt(x))
    }

    pub(super) fn negated(&self) -> Self {
        Self::of_f64(0.0).sub(self)
    }

    pub(super) fn is_negative(&self) -> bool {
        self.0.as_ref().is_some_and(|x| x.sign() == Sign::Negative && !x.significand().is_zero())
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.as_ref().is_some_and(|x| x.significand().is_zero())
    }

    pub(super) fn is_finite(&self) -> bool {
        self.0.is_some()
    }

    /// The exponent of two of its size; very small for 0.
    pub(super) fn exponent(&self) -> i64 {
        match &self.0 {
            Some(x) if !x.significand().is_zero() => exponent(x),
            _ => i64::MIN / 4,
        }
    }

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
