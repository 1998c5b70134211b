//! Model files: sharded, in half precision, written and read back.

use crate::support::{self, flat};
use std::collections::{BTreeMap, HashMap};

use candle_core::{DType, Device, Tensor};
use tealight::nn::device::Placement;
use tealight::nn::model::weights;

#[test]
fn shards_in_half_precision_load_as_the_values_they_hold() {
    let policy = support::policy(12, 1);
    let architecture = policy.decoder().architecture();
    for dtype in [DType::BF16, DType::F16] {
        let folder = tempfile::tempdir().expect("a directory");
        let mut shards: [HashMap<String, Tensor>; 2] = Default::default();
        let mut map = BTreeMap::new();
        for (index, (name, tensor)) in policy.tensors().into_iter().enumerate() {
            map.insert(name.clone(), format!("model-{}-of-2.safetensors", index % 2));
            shards[index % 2].insert(name, tensor.to_dtype(dtype).expect("converted"));
        }
        for (index, shard) in shards.iter().enumerate() {
            let path = folder.path().join(format!("model-{index}-of-2.safetensors"));
            candle_core::safetensors::save(shard, path).expect("saved");
        }
        let index = serde_json::json!({"weight_map": map}).to_string();
        std::fs::write(folder.path().join(weights::INDEX), index).expect("written");
        let loaded = weights::load(folder.path(), architecture, Placement::F32);
        for (name, tensor) in loaded.expect("loads") {
            let converted =
                policy.tensors()[&name].to_dtype(dtype).and_then(|x| x.to_dtype(DType::F32));
            assert_eq!(flat(&tensor), flat(&converted.expect("converted")), "{name}");
        }
    }
}

#[test]
fn large_weights_are_read_in_parts_to_the_values_they_hold() {
    // Several parts of a file, the last of which is no whole number of a thread's pieces.
    let count = (2 << 20) + 70_001;
    let values: Vec<f32> = (0..count).map(|i| (i as f32 * 0.37).sin() * 3.0).collect();
    let values = Tensor::from_vec(values, count, &Device::Cpu).expect("a tensor");
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("model.safetensors");
    for dtype in [DType::F32, DType::BF16, DType::F16, DType::F64] {
        let stored = values.to_dtype(dtype).expect("converted");
        let both = HashMap::from([("a", stored.clone()), ("b", stored.neg().expect("negated"))]);
        candle_core::safetensors::save(&both, &path).expect("saved");
        let exact = flat(&stored.to_dtype(DType::F32).expect("widened"));
        for (name, read) in weights::read_all(&path, &Device::Cpu).expect("read") {
            let read = flat(&read.to_dtype(DType::F32).expect("f32"));
            let sign = if name == "a" { 1.0 } else { -1.0 };
            assert!(read.len() == count && read.iter().zip(&exact).all(|(x, y)| *x == sign * y));
        }
    }
}
