//! How far a launch of a kernel on a device is from the same on the CPU.

/// The record of one launch of a kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The kernel, as `logp_f32`.
    pub kernel: String,
    /// Its largest difference from the CPU's result, over the largest value; not a number where a value is none.
    pub error: f64,
    /// Most that it may be.
    pub most: f64,
}

impl Outcome {
    /// Whether the device computes what the CPU does.
    pub fn is_well(&self) -> bool {
        self.error <= self.most
    }
}
