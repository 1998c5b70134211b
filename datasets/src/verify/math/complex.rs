//! Complex numbers of 256 bits.

use super::real::{Real, TRUSTED_BITS};

#[derive(Clone)]
pub(super) struct Complex {
    pub(super) re: Real,
    pub(super) im: Real,
}

impl Complex {
    pub(super) fn real(re: Real) -> Self {
        Self { re, im: Real::of_f64(0.0) }
    }
    pub(super) fn of_f64(re: f64) -> Self {
        Self::real(Real::of_f64(re))
    }
    /// The square root of -1.
    pub(super) fn i() -> Self {
        Self { re: Real::of_f64(0.0), im: Real::of_f64(1.0) }
    }
    pub(super) fn add(&self, o: &Self) -> Self {
        Self { re: self.re.add(&o.re), im: self.im.add(&o.im) }
    }
    pub(super) fn sub(&self, o: &Self) -> Self {
        Self { re: self.re.sub(&o.re), im: self.im.sub(&o.im) }
    }
    pub(super) fn mul(&self, o: &Self) -> Self {
        if self.im.is_zero() && o.im.is_zero() {
            return Self::real(self.re.mul(&o.re));
        }
        Self {
            re: self.re.mul(&o.re).sub(&self.im.mul(&o.im)),
            im: self.re.mul(&o.im).add(&self.im.mul(&o.re)),
        }
    }
    pub(super) fn div(&self, o: &Self) -> Option<Self> {
        (!o.is_zero()).then_some(())?;
        if o.im.is_zero() {
            return Some(Self { re: self.re.div(&o.re), im: self.im.div(&o.re) });
        }
        // a / b = a conj(b) / |b|^2.
        let size = o.re.mul(&o.re).add(&o.im.mul(&o.im));
        let above = self.mul(&o.conjugate());
        Some(Self { re: above.re.div(&size), im: above.im.div(&size) })
    }
    pub(super) fn conjugate(&self) -> Self {
        Self { re: self.re.clone(), im: self.im.negated() }
    }
    /// The quotient, where the divisor is more than rounding.
    pub(super) fn over(&self, divisor: &Self) -> Option<Self> {
        if divisor.is_rounding() { None } else { self.div(divisor) }
    }
    /// Whether no bit of it can be trusted.
    pub(super) fn is_rounding(&self) -> bool {
        self.exponent() < -TRUSTED_BITS
    }
    pub(super) fn is_zero(&self) -> bool {
        self.re.is_zero() && self.im.is_zero()
    }
    pub(super) fn size(&self) -> Real {
        if self.im.is_zero() {
            return if self.re.is_negative() { self.re.negated() } else { self.re.clone() };
        }
        self.re.mul(&self.re).add(&self.im.mul(&self.im)).sqrt()
    }
    /// The angle in (-pi, pi].
    pub(super) fn angle(&self) -> Option<Real> {
        let (x, y) = (&self.re, &self.im);
        if y.is_zero() {
            return Some(if x.is_negative() { Real::pi() } else { Real::of_f64(0.0) });
        }
        if x.is_zero() {
            let half = Real::pi().div(&Real::of_f64(2.0));
            return Some(if y.is_negative() { half.negated() } else { half });
        }
        let angle = y.div(x).atan()?;
        Some(match (x.is_negative(), y.is_negative()) {
            (false, _) => angle,
            (true, false) => angle.add(&Real::pi()),
            (true, true) => angle.sub(&Real::pi()),
        })
    }
    pub(super) fn exp(&self) -> Option<Self> {
        let size = self.re.exp()?;
        if self.im.is_zero() {
            return Some(Self::real(size));
        }
        // e^(x + iy) = e^x (cos y + i sin y).
        Some(Self { re: size.mul(&self.im.cos()?), im: size.mul(&self.im.sin()?) })
    }
    pub(super) fn ln(&self) -> Option<Self> {
        let size = self.size();
        (!size.is_zero()).then_some(())?;
        // ln z = ln |z| + i arg z, the principal branch.
        Some(Self { re: size.ln()?, im: self.angle()? })
    }
    pub(super) fn times(&self, factor: f64) -> Self {
        let factor = Real::of_f64(factor);
        Self { re: self.re.mul(&factor), im: self.im.mul(&factor) }
    }
    pub(super) fn exponent(&self) -> i64 {
        self.re.exponent().max(self.im.exponent())
    }
    pub(super) fn is_finite(&self) -> bool {
        self.re.is_finite() && self.im.is_finite()
    }
}
