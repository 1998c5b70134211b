//! The launches of a graph: what they are compared by, and how they are launched again.

use candle_core::{DType, Device, Result, Storage, Tensor, bail};

use crate::{Call, Params, counts};

/// A launch as it is compared with another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// As [`counts`] has it.
    pub(crate) name: String,
    groups: usize,
    integers: [i32; 8],
    /// As bits, so that NaN equals NaN.
    floats: [u32; 12],
    buffers: Vec<BufferAddress>,
}

/// The memory of a tensor.
#[derive(Debug, PartialEq, Eq)]
struct BufferAddress {
    address: usize,
    count: usize,
    dtype: DType,
}

impl BufferAddress {
    fn from_tensor(tensor: &Tensor) -> Result<Self> {
        let (storage, layout) = tensor.storage_and_layout();
        let dtype = tensor.dtype();
        let address = match &*storage {
            Storage::Cpu(storage) => {
                let first = match dtype {
                    DType::F32 => storage.as_slice::<f32>()?.as_ptr() as usize,
                    DType::BF16 => storage.as_slice::<half::bf16>()?.as_ptr() as usize,
                    DType::U32 => storage.as_slice::<u32>()?.as_ptr() as usize,
                    other => bail!("kernels know no {other:?}"),
                };
                first + layout.start_offset() * dtype.size_in_bytes()
            }
            #[cfg(feature = "cuda")]
            Storage::Cuda(storage) => crate::cuda::place(storage, layout)?,
            _ => bail!("this device has no graphs"),
        };
        Ok(Self { address, count: tensor.elem_count(), dtype })
    }
}

impl Identity {
    /// The identity of a kernel's launch.
    pub(crate) fn from_call(call: &Call<'_>) -> Result<Self> {
        let Params { n, f } = call.params;
        Ok(Self {
            name: call.name.clone(),
            groups: call.groups,
            integers: n,
            floats: f.map(f32::to_bits),
            buffers: call
                .tensors
                .iter()
                .map(|tensor| BufferAddress::from_tensor(tensor))
                .collect::<Result<_>>()?,
        })
    }

    /// Of a product of matrices.
    pub(crate) fn of_product(tensors: [&Tensor; 3]) -> Result<Self> {
        let mut integers = [0; 8];
        let sizes = tensors.iter().flat_map(|tensor| tensor.dims());
        integers.iter_mut().zip(sizes).for_each(|(to, size)| *to = *size as i32);
        Ok(Self {
            name: counts::OF_CANDLE.to_owned(),
            groups: 1,
            integers,
            floats: [0; 12],
            buffers: tensors.map(BufferAddress::from_tensor).into_iter().collect::<Result<_>>()?,
        })
    }
}

/// Launches that can be launched again.
#[derive(Debug)]
pub(crate) enum Replay {
    /// On a CPU: each, with the tensors that it is of.
    Stored(Vec<StoredLaunch>),
    #[cfg(feature = "cuda")]
    Cuda(crate::cuda::graph::Graph),
}

/// A launch with its tensors.
#[derive(Debug)]
pub(crate) enum StoredLaunch {
    Kernel { name: String, groups: usize, params: Params, tensors: Vec<Tensor> },
    Product([Tensor; 3]),
}

impl Replay {
    pub(crate) fn new() -> Self {
        Self::Stored(Vec::new())
    }

    /// Adds a kernel's launch.
    pub(crate) fn add(&mut self, call: &Call<'_>, device: &Device) -> Result<()> {
        match (self, device) {
            // The stream is being captured, so a launch adds itself to the graph.
            (_, Device::Cuda(_)) => call.launch(device),
            (Self::Stored(all), _) => {
                let Call { name, groups, tensors, params } = call;
                let tensors = tensors.iter().map(|tensor| (*tensor).clone()).collect();
                let (name, groups, params) = (name.clone(), *groups, *params);
                all.push(StoredLaunch::Kernel { name, groups, params, tensors });
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
            (Self::Stored(all), _) => {
                all.push(StoredLaunch::Product([x, w, out].map(Tensor::clone)));
                Ok(())
            }
            #[cfg(feature = "cuda")]
            _ => bail!("a graph of another device"),
        }
    }

    pub(crate) fn launch(&self, identities: &[Identity], device: &Device) -> Result<()> {
        counts::replayed(identities.iter().map(|launch| launch.name.as_str()));
        match self {
            Self::Stored(all) => {
                #[cfg(feature = "emulated")]
                let all = if crate::emulators::is_faulty("graph") { &all[1..] } else { all };
                all.iter().try_for_each(|launch| launch.launch(device))
            }
            #[cfg(feature = "cuda")]
            Self::Cuda(graph) => graph.launch(),
        }
    }
}

impl StoredLaunch {
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
