//! Complex numbers over any [`Real`].

use super::real::Real;

#[derive(Clone)]
pub(super) struct Complex<R> {
    pub(super) re: R,
    pub(super) im: R,
}

impl<R: Real> Complex<R> {
    pub(super) fn real(re: R) -> Self {
        Self { re, im: R::of_f64(0.0) }
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
        if o.re.is_zero() && o.im.is_zero() {
            return None;
        }
        if o.im.is_zero() {
            return Some(Self { re: self.re.div(&o.re), im: self.im.div(&o.re) });
        }
        // a / b = a conj(b) / |b|^2.
        let size = o.re.mul(&o.re).add(&o.im.mul(&o.im));
        let conjugate = Self { re: o.re.clone(), im: R::of_f64(0.0).sub(&o.im) };
        let above = self.mul(&conjugate);
        Some(Self { re: above.re.div(&size), im: above.im.div(&size) })
    }
    /// The quotient, where the divisor is more than rounding.
    pub(super) fn over(&self, divisor: &Self) -> Option<Self> {
        if divisor.is_rounding() { None } else { self.div(divisor) }
    }
    /// Whether no bit of it can be trusted.
    pub(super) fn is_rounding(&self) -> bool {
        self.exponent() < -R::trusted_bits()
    }
    pub(super) fn size(&self) -> R {
        if self.im.is_zero() {
            let is_negative = self.re.is_negative();
            return if is_negative { R::of_f64(0.0).sub(&self.re) } else { self.re.clone() };
        }
        self.re.mul(&self.re).add(&self.im.mul(&self.im)).sqrt()
    }
    /// The angle in (-pi, pi].
    pub(super) fn angle(&self) -> Option<R> {
        let (x, y) = (&self.re, &self.im);
        if y.is_zero() {
            return if x.is_negative() { R::pi() } else { Some(R::of_f64(0.0)) };
        }
        if x.is_zero() {
            let half = R::pi()?.div(&R::of_f64(2.0));
            return Some(if y.is_negative() { R::of_f64(0.0).sub(&half) } else { half });
        }
        let angle = y.div(x).atan()?;
        Some(match (x.is_negative(), y.is_negative()) {
            (false, _) => angle,
            (true, false) => angle.add(&R::pi()?),
            (true, true) => angle.sub(&R::pi()?),
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
        if size.is_zero() {
            return None;
        }
        // ln z = ln |z| + i arg z, the principal branch.
        Some(Self { re: size.ln()?, im: self.angle()? })
    }
    pub(super) fn times(&self, factor: f64) -> Self {
        let factor = R::of_f64(factor);
        Self { re: self.re.mul(&factor), im: self.im.mul(&factor) }
    }
    pub(super) fn exponent(&self) -> i64 {
        self.re.exponent().max(self.im.exponent())
    }
    pub(super) fn is_finite(&self) -> bool {
        self.re.is_finite() && self.im.is_finite()
    }
}
