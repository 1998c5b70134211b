//! The launches of a graph: what they are compared by, and how they are launched again.

use candle_core::{DType, Device, Result, Storage, Tensor, bail};

use crate::{Call, Params, counts};

/// A launch as it is compared with another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// As [`counts`] has it.
    pub(crate) name: String,
    groups: usize,
    numbers: [i32; 8],
    /// Bits, of which two that are no numbers are equal.
    shares: [u32; 12],
    places: Vec<Place>,
}

/// The memory of a tensor.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    address: usize,
    count: usize,
    dtype: DType,
}

impl Place {
    fn of(tensor: &Tensor) -> Result<Self> {
        let (storage, layout) = tensor.storage_and_layout();
        let dtype = tensor.dtype();
        let first = match &*storage {
            Storage::Cpu(storage) => match dtype {
                DType::F32 => storage.as_slice::<f32>()?.as_ptr() as usize,
                DType::BF16 => storage.as_slice::<half::bf16>()?.as_ptr() as usize,
                DType::U32 => storage.as_slice::<u32>()?.as_ptr() as usize,
                other => bail!("kernels know no {other:?}"),
            },
            #[cfg(feature = "cuda")]
            Storage::Cuda(storage) => crate::cuda::graph::address(storage)?,
            _ => bail!("this device has no graphs"),
        };
        let address = first + layout.start_offset() * dtype.size_in_bytes();
        Ok(Self { address, count: tensor.elem_count(), dtype })
    }
}

impl Identity {
    /// Of a kernel.
    pub(crate) fn of(call: &Call<'_>) -> Result<Self> {
        let Params { n, f } = call.params;
        Ok(Self {
            name: call.name.clone(),
            groups: call.groups,
            numbers: n,
            shares: f.map(f32::to_bits),
            places: call.tensors.iter().map(|tensor| Place::of(tensor)).collect::<Result<_>>()?,
        })
    }

    /// Of a product of matrices.
    pub(crate) fn of_product(tensors: [&Tensor; 3]) -> Result<Self> {
        let mut numbers = [0; 8];
        let sizes = tensors.iter().flat_map(|tensor| tensor.dims());
        numbers.iter_mut().zip(sizes).for_each(|(to, size)| *to = *size as i32);
        Ok(Self {
            name: counts::OF_CANDLE.to_owned(),
            groups: 1,
            numbers,
            shares: [0; 12],
            places: tensors.map(Place::of).into_iter().collect::<Result<_>>()?,
        })
    }
}

/// Launches that can be launched again.
#[derive(Debug)]
pub(crate) enum Replay {
    /// On a CPU: each, with the tensors that it is of.
    Held(Vec<Held>),
    #[cfg(feature = "cuda")]
    Cuda(crate::cuda::graph::Graph),
}

/// A launch with its tensors.
#[derive(Debug)]
pub(crate) enum Held {
    Kernel { name: String, groups: usize, params: Params, tensors: Vec<Tensor> },
    Product([Tensor; 3]),
}

impl Replay {
    pub(crate) fn new() -> Self {
        Self::Held(Vec::new())
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn of_cuda(graph: crate::cuda::graph::Graph) -> Self {
        Self::Cuda(graph)
    }

    /// Adds a kernel's launch.
    pub(crate) fn add(&mut self, call: &Call<'_>, device: &Device) -> Result<()> {
        match (self, device) {
            // The capture of the stream that kernels are launched on meanwhile has it.
            (_, Device::Cuda(_)) => call.launch(device),
            (Self::Held(all), _) => {
                let Call { name, groups, tensors, params } = call;
                let tensors = tensors.iter().map(|tensor| (*tensor).clone()).collect();
                let (name, groups, params) = (name.clone(), *groups, *params);
                all.push(Held::Kernel { name, groups, params, tensors });
                Ok(())
            }
            #[cfg(feature = "cuda")]
            _ => bail!("{}: a graph of another device", call.name),
        }
    }

    /// Adds a product of matrices to `out`.
    pub(crate) fn add_product(&mut self, [x, w, out]: [&Tensor; 3]) -> Result<()> {
        match (self, x.device()) {
            (_, Device::Cuda(_)) => crate::products::multiply([x, w, out]),
            (Self::Held(all), _) => {
                all.push(Held::Product([x, w, out].map(Tensor::clone)));
                Ok(())
            }
            #[cfg(feature = "cuda")]
            _ => bail!("a graph of another device"),
        }
    }

    /// Launches all of them.
    pub(crate) fn launch(&self, of: &[Identity], device: &Device) -> Result<()> {
        counts::replayed(of.iter().map(|launch| launch.name.as_str()));
        match self {
            Self::Held(all) => {
                let all = if crate::is_faulty("graph") { &all[1..] } else { &all[..] };
                all.iter().try_for_each(|held| held.launch(device))
            }
            #[cfg(feature = "cuda")]
            Self::Cuda(graph) => graph.launch(),
        }
    }
}

impl Held {
    fn launch(&self, device: &Device) -> Result<()> {
        match self {
            Self::Kernel { name, groups, params, tensors } => {
                let tensors: Vec<&Tensor> = tensors.iter().collect();
                let (name, groups, params) = (name.clone(), *groups, *params);
                Call { name, groups, tensors: &tensors, params }.launch(device)
            }
            Self::Product(tensors) => crate::products::multiply(tensors.each_ref()),
        }
    }
}
