//! The kinds of number that divergences are computed of: f64 for exact values and the laboratory, f32 for rows of a
//! vocabulary in wide registers (its arithmetic is the CPU backend's), tensors where they are.

use std::ops::{Add, Mul, Neg, Sub};
use std::sync::Arc;

use candle_core::{Error, Result, Tensor};

use super::MIN_LOG_RATIO;
use super::elementary::Elementwise::{Exp, Log, Tanh};

/// A number, or many. Functions have no branches: of two forms both are computed, and one is taken.
pub trait Number:
    Clone + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Neg<Output = Self>
{
    /// Below this size a power series replaces what would cancel.
    const SERIES: f64;
    /// Whether it has the digits of f64.
    const IS_DOUBLE: bool;

    /// `self * by + plus`.
    fn affine(self, by: f64, plus: f64) -> Self;
    /// `e^self`.
    fn exp(self) -> Self;
    /// `e^self - 1`, exact near 0.
    fn exp_m1(self) -> Self;
    /// `log(1 + e^self)` without overflow.
    fn softplus(self) -> Self;
    /// Absolute value.
    fn abs(self) -> Self;
    /// -1, 0 or 1.
    fn sign(self) -> Self;
    /// `self * other`, 0 where `self` is 0 whatever the other; of kinds that are never infinite the product.
    fn times(self, other: Self) -> Self {
        self * other
    }
    /// `near` where the size of `self` is below the limit, else `far`.
    fn below(self, limit: f64, near: Self, far: Self) -> Self;
    /// No smaller and no larger than these.
    fn within(self, low: f64, high: f64) -> Self;
    /// The larger of both.
    fn larger(self, other: Self) -> Self;
    /// `self / other`.
    fn over(self, other: Self) -> Self;
    /// The natural logarithm.
    fn log(self) -> Self;
    /// `log(1 + self)`.
    fn log_1p(self) -> Self;
    /// The square root.
    fn root(self) -> Self;
    /// The hyperbolic tangent.
    fn tangent(self) -> Self;
}

/// The operators of a kind that has `with`, for pairs, and `map`.
macro_rules! operators {
    ($kind:ty: $($operator:ident $method:ident),*) => {
        $(impl $operator for $kind {
            type Output = Self;

            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                self.with(other, |x, y| x.$method(y))
            }
        })*

        impl Neg for $kind {
            type Output = Self;

            #[inline(always)]
            fn neg(self) -> Self {
                self.map(|x| x.neg())
            }
        }
    };
}
pub(crate) use operators;

impl Number for f64 {
    const SERIES: f64 = 1e-2;
    const IS_DOUBLE: bool = true;

    fn affine(self, by: f64, plus: f64) -> Self {
        self * by + plus
    }

    fn exp(self) -> Self {
        libm::exp(self)
    }

    fn exp_m1(self) -> Self {
        libm::expm1(self)
    }

    fn softplus(self) -> Self {
        // max(x, 0) + log(1 + e^-|x|): the exponential never overflows.
        self.max(0.0) + libm::log1p(libm::exp(-self.abs()))
    }

    fn abs(self) -> Self {
        self.abs()
    }

    fn sign(self) -> Self {
        if self == 0.0 { 0.0 } else { self.signum() }
    }

    fn times(self, other: Self) -> Self {
        if self == 0.0 { 0.0 } else { self * other }
    }

    fn below(self, limit: f64, near: Self, far: Self) -> Self {
        if self.abs() < limit { near } else { far }
    }

    fn within(self, low: f64, high: f64) -> Self {
        self.clamp(low, high)
    }

    fn larger(self, other: Self) -> Self {
        if self < other { other } else { self }
    }

    fn over(self, other: Self) -> Self {
        self / other
    }

    fn log(self) -> Self {
        libm::log(self)
    }

    fn log_1p(self) -> Self {
        libm::log1p(self)
    }

    fn root(self) -> Self {
        self.sqrt()
    }

    fn tangent(self) -> Self {
        libm::tanh(self)
    }
}

/// A tensor of f32 in a formula, or why there is none.
#[derive(Clone)]
pub struct OnDevice(std::result::Result<Tensor, Arc<Error>>);

impl OnDevice {
    /// Values as they are.
    pub fn new(x: Tensor) -> Self {
        Self(Ok(x))
    }

    /// Log-ratios, none of them so low that a product with their exponential would be undefined.
    pub fn log_ratios(x: &Tensor, highest: f64) -> Self {
        Self::from_result(x.clamp(f64::from(MIN_LOG_RATIO), highest))
    }

    /// The values.
    ///
    /// # Errors
    /// The first operation that failed.
    pub fn tensor(self) -> Result<Tensor> {
        self.0.map_err(|error| Error::Msg(error.to_string()))
    }

    fn from_result(result: Result<Tensor>) -> Self {
        Self(result.map_err(Arc::new))
    }

    fn map(self, by: impl FnOnce(&Tensor) -> Result<Tensor>) -> Self {
        Self(self.0.and_then(|x| by(&x).map_err(Arc::new)))
    }

    fn with(self, other: Self, by: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor>) -> Self {
        let other = match other.0 {
            Ok(other) => other,
            Err(error) => return Self(Err(error)),
        };
        self.map(|x| by(x, &other))
    }
}

operators!(OnDevice: Add add, Sub sub, Mul mul);

impl Number for OnDevice {
    const SERIES: f64 = 0.1;
    const IS_DOUBLE: bool = false;

    fn affine(self, by: f64, plus: f64) -> Self {
        self.map(|x| x.affine(by, plus))
    }

    fn exp(self) -> Self {
        self.map(|x| Exp.apply(x))
    }

    /// The hyperbolic tangent keeps it exact near 0.
    fn exp_m1(self) -> Self {
        // e^x - 1 = tanh(x / 2) (e^x + 1)
        self.map(|x| Tanh.apply(&(x * 0.5)?)? * Exp.apply(x)?.affine(1.0, 1.0)?)
    }

    fn softplus(self) -> Self {
        self.map(|x| {
            let y = Exp.apply(&x.abs()?.neg()?)?;
            // log(1 + y) = y - y^2 / 2 + y^3 / 3 for small y, where 1 + y would round y away.
            let series = (&y * ((&y * ((&y / 3.0)? - 0.5)?)? + 1.0)?)?;
            let log = y.lt(1e-2)?.where_cond(&series, &Log.apply(&y.affine(1.0, 1.0)?)?)?;
            x.relu()? + log
        })
    }

    fn abs(self) -> Self {
        self.map(Tensor::abs)
    }

    fn sign(self) -> Self {
        self.map(Tensor::sign)
    }

    fn below(self, limit: f64, near: Self, far: Self) -> Self {
        // A condition multiplied in would turn the form that is not taken into NaN where it is infinite.
        let chosen = near.with(far, |near, far| Tensor::stack(&[near, far], 0));
        self.with(chosen, |x, both| x.abs()?.lt(limit)?.where_cond(&both.get(0)?, &both.get(1)?))
    }

    fn within(self, low: f64, high: f64) -> Self {
        self.map(|x| x.clamp(low, high))
    }

    fn larger(self, other: Self) -> Self {
        self.with(other, |x, y| x.maximum(y))
    }

    fn over(self, other: Self) -> Self {
        self.with(other, |x, y| x / y)
    }

    fn log(self) -> Self {
        self.map(|x| Log.apply(x))
    }

    fn log_1p(self) -> Self {
        self.map(|x| {
            let above = x.affine(1.0, 1.0)?;
            // What 1 + x rounded away comes back by the slope of the logarithm.
            Log.apply(&above)? + ((x - (&above - 1.0)?)? / above)?
        })
    }

    fn root(self) -> Self {
        self.map(Tensor::sqrt)
    }

    fn tangent(self) -> Self {
        self.map(|x| Tanh.apply(x))
    }
}
