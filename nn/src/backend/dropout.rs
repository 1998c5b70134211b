//! Dropout whose mask is a value of its key, the same on every device.

/// The effect of dropout on the values of an array.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Dropout {
    /// Keys the mask.
    pub(crate) key: u64,
    /// Hashes of 32 bits below which a value is dropped.
    pub(crate) limit: u32,
    /// The factor of the values that are kept.
    pub(crate) scale: f32,
}

impl Dropout {
    /// Dropping this share of values.
    pub(crate) fn new(key: u64, share: f64) -> Self {
        // Kept values are divided by 1 - share, so that the expectation of a value stays what it is without dropout.
        let limit = (share * 4_294_967_296.0) as u32;
        Self { key, limit, scale: (1.0 / (1.0 - share)) as f32 }
    }

    /// The factor of value `index`.
    pub(crate) fn factor(&self, index: usize) -> f32 {
        // The upper 32 bits of a hash of the index: the mask is computed again in the backward pass instead of kept.
        let is_dropped = hashed(self.key.wrapping_add(index as u64)) >> 32 < u64::from(self.limit);
        if is_dropped { 0.0 } else { self.scale }
    }
}

/// A well-mixed number for each `x` (the finaliser of SplitMix64).
pub(crate) fn hashed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
