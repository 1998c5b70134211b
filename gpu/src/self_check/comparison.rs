//! Holds every launch of a self-check against the kernels as C: the same tensors, copied to the CPU before.

use std::cell::RefCell;

use candle_core::{DType, Device, Result, Tensor};

use super::Outcome;
use crate::Call;

thread_local! {
    /// The recorded launches, while a recording runs.
    static SEEN: RefCell<Option<Vec<Outcome>>> = const { RefCell::new(None) };
}

/// Most error of values that were computed in f32 in another order, relative to the largest.
const SINGLE: f64 = 1e-4;
/// The same of values that are stored in bf16, a few of whose steps lie between.
const HALF: f64 = 2e-2;

/// The same of whole numbers, of which none may differ.
const WHOLE: f64 = 1e-12;
/// The kernel with memory that nobody reads afterwards, and that memory's place among its tensors.
const SCRATCH: (&str, usize) = ("delta_back", 6);

/// Does `work`, and says of every kernel that it launched how far its results were from those of the kernel as C.
pub(crate) fn watch(work: impl FnOnce() -> Result<()>) -> Result<Vec<Outcome>> {
    SEEN.set(Some(Vec::new()));
    let done = work();
    let seen = SEEN.take().unwrap_or_default();
    done.map(|()| seen)
}

/// Whether this thread's launches are watched.
pub(crate) fn is_watching() -> bool {
    SEEN.with_borrow(Option::is_some)
}

/// Adds a finding, where somebody looks: `ours` is held against `reference`.
pub(crate) fn compare(kernel: &str, ours: &Tensor, reference: &Tensor) -> Result<()> {
    let outcome = outcome(kernel, &[(ours.clone(), reference.clone())])?;
    SEEN.with_borrow_mut(|seen| seen.as_mut().map(|seen| seen.push(outcome)));
    Ok(())
}

/// Launches a call, and where somebody looks holds what it did against the same as C. An error names the kernel: of a
/// launch, and of reading its results, which is where a device says what went wrong in it.
pub(crate) fn seen(call: &Call<'_>, launch: impl FnOnce() -> Result<()>) -> Result<()> {
    let seen = if is_watching() { compared(call, launch) } else { launch() };
    seen.map_err(|error| candle_core::Error::Msg(format!("kernel {}: {error}", call.name)))
}

fn compared(call: &Call<'_>, launch: impl FnOnce() -> Result<()>) -> Result<()> {
    // A tensor that is named twice is one piece of memory there too.
    let mut copies: Vec<Tensor> = Vec::new();
    for (index, tensor) in call.tensors.iter().enumerate() {
        let same = call.tensors[..index].iter().position(|other| other.id() == tensor.id());
        copies.push(match same {
            Some(same) => copies[same].clone(),
            None => on_cpu(tensor)?,
        });
    }
    launch()?;
    let tensors: Vec<&Tensor> = copies.iter().collect();
    let Call { name, groups, params, .. } = call;
    reference(&Call { name: name.clone(), groups: *groups, tensors: &tensors, params: *params })?;
    let is_read = |at: usize| !(call.name.starts_with(SCRATCH.0) && at == SCRATCH.1);
    let pairs = call.tensors.iter().map(|ours| (*ours).clone()).zip(copies).enumerate();
    let pairs: Vec<(Tensor, Tensor)> =
        pairs.filter_map(|(at, pair)| is_read(at).then_some(pair)).collect();
    let outcome = outcome(name, &pairs)?;
    SEEN.with_borrow_mut(|seen| seen.as_mut().map(|seen| seen.push(outcome)));
    Ok(())
}

#[cfg(any(feature = "emulated", feature = "cuda", feature = "metal"))]
fn reference(call: &Call<'_>) -> Result<()> {
    crate::emulated::reference(call)
}

#[cfg(not(any(feature = "emulated", feature = "cuda", feature = "metal")))]
fn reference(_: &Call<'_>) -> Result<()> {
    candle_core::bail!("this build has no kernels as C")
}

/// A copy in memory of its own.
fn on_cpu(tensor: &Tensor) -> Result<Tensor> {
    if tensor.device().is_cpu() { tensor.copy() } else { tensor.to_device(&Device::Cpu) }
}

/// The largest difference of pairs of tensors, as a share of what is allowed for their type.
fn outcome(kernel: &str, pairs: &[(Tensor, Tensor)]) -> Result<Outcome> {
    let mut worst = Outcome { kernel: kernel.to_owned(), error: 0.0, most: SINGLE };
    for (ours, reference) in pairs {
        let most = match ours.dtype() {
            DType::BF16 => HALF,
            DType::U32 => WHOLE,
            _ => SINGLE,
        };
        let values = |x: &Tensor| -> Result<Vec<f64>> {
            x.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1()
        };
        let error = error(&values(ours)?, &values(reference)?, ours.dtype() == DType::U32);
        // NaN is the worst error.
        if error.is_nan() || error / most > worst.error / worst.most {
            worst = Outcome { kernel: kernel.to_owned(), error, most };
        }
    }
    Ok(worst)
}

/// The largest difference over the largest value; of whole numbers the share of those that differ.
fn error(ours: &[f64], reference: &[f64], are_whole: bool) -> f64 {
    let pairs = || ours.iter().zip(reference);
    if are_whole {
        let different = pairs().filter(|(x, y)| x != y).count();
        return different as f64 / ours.len().max(1) as f64;
    }
    let largest = reference.iter().fold(1e-2f64, |most, x| most.max(x.abs()));
    let mut worst = 0f64;
    for (x, y) in pairs().filter(|(x, y)| x != y && !(x.is_nan() && y.is_nan())) {
        let apart = (x - y).abs() / largest;
        if apart.is_nan() {
            return f64::NAN;
        }
        worst = worst.max(apart);
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Params;

    #[test]
    fn an_error_of_a_launch_names_its_kernel() {
        let x = Tensor::zeros(4, DType::F32, &Device::Cpu).expect("memory");
        let call =
            Call { name: "add_f32".into(), groups: 1, tensors: &[&x], params: Params::default() };
        let launch = || -> Result<()> { candle_core::bail!("CUDA_ERROR_ILLEGAL_ADDRESS") };
        // A backtrace follows where the environment asks for one.
        let first_line =
            |error: candle_core::Error| error.to_string().lines().next().map(str::to_owned);
        let message = Some("kernel add_f32: CUDA_ERROR_ILLEGAL_ADDRESS".to_owned());
        assert_eq!(first_line(seen(&call, launch).expect_err("a fault")), message);
        assert_eq!(first_line(watch(|| seen(&call, launch)).expect_err("a fault")), message);
        // Its results cannot be compared with those of no kernel.
        let unknown = Call { name: "none_f32".into(), ..call };
        let error = watch(|| seen(&unknown, || Ok(()))).expect_err("a fault").to_string();
        let names = ["no kernel of this name", "no kernels as C"];
        assert!(
            error.starts_with("kernel none_f32: ") && names.iter().any(|name| error.contains(name))
        );
    }
}
