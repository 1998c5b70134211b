//! Where kernels run in tests, values to run them on, and how close their results must be.

use candle_core::{DType, Device, Result, Tensor, Var};
use tealight_gpu::workspace::Array;

pub(crate) fn device() -> Device {
    #[cfg(feature = "cuda")]
    return tealight_gpu::open_cuda(0).expect("a GPU");
    #[cfg(not(feature = "cuda"))]
    if cfg!(feature = "metal") { Device::new_metal(0).expect("a GPU") } else { Device::Cpu }
}

/// Types of activations, and how close results must be to the largest of them.
pub(crate) const TYPES: [(DType, f64); 2] = [(DType::F32, 1e-5), (DType::BF16, 1e-2)];

/// Values of no meaning, as `dtype` rounds them, on the device and in f64 on the CPU.
pub(crate) fn values(shape: &[usize], by: f64, dtype: DType) -> (Tensor, Tensor) {
    let count: usize = shape.iter().product();
    let wave: Vec<f32> = (0..count).map(|i| (1.3 * (i as f64 * by + by).sin()) as f32).collect();
    let tensor = Tensor::from_vec(wave, shape, &Device::Cpu).and_then(|x| x.to_dtype(dtype));
    let tensor = tensor.expect("values");
    let wide = tensor.to_dtype(DType::F64).expect("f64");
    (tensor.to_device(&device()).expect("there"), wide)
}

pub(crate) fn numbers(values: Vec<u32>) -> Tensor {
    let count = values.len();
    Tensor::from_vec(values, count, &device()).expect("numbers")
}

/// A tensor, or an array.
pub(crate) trait Values {
    fn tensor(&self) -> Tensor;
}

impl Values for Tensor {
    fn tensor(&self) -> Tensor {
        self.clone()
    }
}

impl Values for Array {
    fn tensor(&self) -> Tensor {
        self.clone().into_tensor()
    }
}

pub(crate) fn flat(x: &impl Values) -> Vec<f64> {
    let x = x.tensor().to_device(&Device::Cpu).and_then(|x| x.to_dtype(DType::F64));
    x.and_then(|x| x.flatten_all()?.to_vec1()).expect("values")
}

#[track_caller]
pub(crate) fn close(ours: &impl Values, exact: &impl Values, most: f64) {
    let (ours, exact) = (flat(ours), flat(exact));
    assert_eq!(ours.len(), exact.len());
    let largest = exact.iter().fold(1e-2_f64, |most, x| most.max(x.abs()));
    for (ours, exact) in ours.iter().zip(&exact) {
        assert!((ours - exact).abs() <= most * largest, "{ours} is not {exact}");
    }
}

/// The gradients of `sum(f(vars) * grad)`.
pub(crate) fn gradients(
    inputs: &[&Tensor],
    grad: &Tensor,
    f: impl Fn(&[Tensor]) -> Result<Tensor>,
) -> Vec<Tensor> {
    let vars: Vec<Var> = inputs.iter().map(|x| Var::from_tensor(x).expect("var")).collect();
    let tensors: Vec<Tensor> = vars.iter().map(|var| var.as_tensor().clone()).collect();
    let loss = f(&tensors).and_then(|out| (out * grad)?.sum_all()).expect("loss");
    let grads = loss.backward().expect("gradients");
    vars.iter().map(|var| grads.get(var).expect("a gradient").clone()).collect()
}
