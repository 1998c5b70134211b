//! A device held against the CPU before it is used: every kernel that a model needs, launched at the model's sizes on a
//! few tokens and once more as C on the CPU, with the same inputs.
//!
//! The C is what the tests hold against formulas in f64, so that a device which agrees with it computes those. A
//! verdict is cached by the kernels' text, the device, its driver and the model's sizes: see [`crate::disk_cache`].

mod cases;
pub(crate) mod comparison;

use candle_core::{DType, Device, Result, bail};

use crate::disk_cache::{Key, cached};

/// How far one launch of a kernel is from the same on the CPU.
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

/// The shapes of a model that the kernels are checked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shapes {
    /// Of activations: f32 or bf16.
    pub dtype: DType,
    /// Values of a token between layers.
    pub hidden: usize,
    /// Values of a token inside the feed-forward network.
    pub inner: usize,
    /// Tokens that there are.
    pub vocabulary: usize,
    /// Query heads, key-value heads, values a head.
    pub heads: [usize; 3],
    /// Other heads that attention alone is checked with.
    pub other_heads: Vec<[usize; 3]>,
    /// Pairs of a head that the rotary embedding turns.
    pub pairs: usize,
    /// Tokens that a layer with a window sees.
    pub window: Option<usize>,
    /// Where layers have a delta rule.
    pub delta: Option<DeltaShapes>,
}

/// The shapes of a delta rule that the kernels are checked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeltaShapes {
    /// Heads of keys and of values.
    pub heads: [usize; 2],
    /// Values of a key and of a value.
    pub dims: [usize; 2],
    /// Taps of the convolution.
    pub taps: usize,
}

impl Shapes {
    /// Sizes that are quick to compute anywhere and reach every branch of every kernel: rows that are no multiple of a
    /// group of threads, heads that share keys, a window.
    pub fn small(dtype: DType) -> Self {
        Self {
            dtype,
            hidden: 20,
            inner: 300,
            vocabulary: 300,
            heads: [4, 2, 6],
            // Those that there are kernels on tensor cores for.
            other_heads: crate::kernels::MMA_DIMS.map(|dim| [2, 1, dim]).to_vec(),
            pairs: 2,
            window: Some(3),
            delta: Some(DeltaShapes { heads: [1, 2], dims: [3, 5], taps: 4 }),
        }
    }
}

/// Launches every kernel that a model of these sizes needs, and says of each launch how far it is from the CPU.
///
/// # Errors
/// The device's; sizes that kernels do not know.
pub fn run(device: &Device, shapes: &Shapes) -> Result<Vec<Outcome>> {
    comparison::watch(|| cases::all(device, shapes))
}

/// The launches in order of kernels, of each kernel the worst.
pub fn by_kernel(outcomes: Vec<Outcome>) -> Vec<Outcome> {
    let mut worst: Vec<Outcome> = Vec::new();
    for outcome in outcomes {
        match worst.iter_mut().find(|other| other.kernel == outcome.kernel) {
            None => worst.push(outcome),
            Some(other) => {
                let is_worse = outcome.error / outcome.most > other.error / other.most;
                if is_worse || outcome.error.is_nan() {
                    *other = outcome;
                }
            }
        }
    }
    worst.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    worst
}

/// Refuses a device on which a kernel is not what it is on the CPU.
pub fn judged(outcomes: Vec<Outcome>) -> Result<Vec<Outcome>> {
    let outcomes = by_kernel(outcomes);
    let failures: Vec<String> = outcomes
        .iter()
        .filter(|outcome| !outcome.is_well())
        .map(|Outcome { kernel, error, most }| {
            format!("kernel {kernel} is off by {error:.1e} of its largest value, where {most:.0e} is allowed")
        })
        .collect();
    if !failures.is_empty() {
        bail!(
            "this GPU does not compute what the CPU does: {}; run `tealight doctor` with --device for all kernels, report \
             this with the driver's version, and until then use --kernels candle, which is slower, or --device cpu",
            failures.join("; ")
        );
    }
    Ok(outcomes)
}

/// Checks a device at a model's sizes, unless a verdict on these kernels, this device and this driver is cached, or
/// Candle computes in their place.
pub fn first_use(device: &Device, shapes: &Shapes) -> Result<()> {
    if crate::is_by_candle() {
        return Ok(());
    }
    let text = crate::program(crate::Dialect::for_device(device));
    let (identity, sizes) = (identity(device)?, format!("{shapes:?}"));
    let key = Key { what: "checked", text: &text, parts: &[&identity, &sizes] };
    cached(&key, || {
        judged(run(device, shapes)?)?;
        Ok("every kernel is that of the CPU".to_owned())
    })?;
    Ok(())
}

/// The device and driver that a verdict holds for.
fn identity(device: &Device) -> Result<String> {
    match device {
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => crate::cuda::identity(device),
        // A rehearsal's way to compute, and its fault, are its device.
        Device::Cpu => Ok(["TEALIGHT_EMULATION", "TEALIGHT_EMULATED_FAULT"]
            .map(|name| std::env::var(name).unwrap_or_default())
            .join(", ")),
        _ => Ok(format!("{:?}", device.location())),
    }
}
