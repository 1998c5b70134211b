//! The layers of every backend against the same decoder as a graph in f64, in value and gradient, and the promise that
//! a token's numbers do not depend on its batch.

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use serde_json::{Value, json};
use tealight::nn::model::weights::{self, Weights};
use tealight::nn::model::{Architecture, PackedSequences};
use tealight::nn::policy::{self, Policy, Sequence, by_row, token_logp};

use crate::support::{TestBackend, backends, extend, flat, gradients, graph, tiny};

/// One of every kind of layer: biases, norms of queries and keys, a head of its own; norms after and around blocks,
/// windows that reach into a prompt and not beyond, layers without positions, fused weights, multipliers.
fn architectures() -> Vec<Architecture> {
    let with = |family: &str, tied: bool, more: Value| {
        let mut config = json!({"intermediate_size": 40, "head_dim": 12, "tie_word_embeddings": tied,
            "initializer_range": 0.3, "rope_theta": 10000.0, "rms_norm_eps": 1e-6});
        extend(&mut config, &more);
        tiny(family, &config)
    };
    vec![
        with("qwen2", true, json!({})),
        with("qwen3", false, json!({})),
        with("llama", true, json!({})),
        with("gemma3_text", true, json!({"sliding_window": 4, "sliding_window_pattern": 2})),
        with(
            "olmo3",
            false,
            json!({"sliding_window": 3, "layer_types": ["sliding_attention", "full_attention"]}),
        ),
        with("phi3", true, json!({"partial_rotary_factor": 0.5, "sliding_window": 5})),
        with(
            "granite",
            true,
            json!({"embedding_multiplier": 3.0, "attention_multiplier": 0.1,
            "residual_multiplier": 0.4, "logits_scaling": 2.0}),
        ),
        with("smollm3", false, json!({"no_rope_layers": [1, 0]})),
        with(
            "qwen3_5_text",
            false,
            json!({"full_attention_interval": 2, "partial_rotary_factor": 0.5,
            "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 6,
            "linear_value_head_dim": 5, "linear_conv_kernel_dim": 3}),
        ),
        // Two tiles of a state's columns, and every layer with a state.
        with(
            "qwen3_5_text",
            true,
            json!({"full_attention_interval": 3, "partial_rotary_factor": 0.5, "initializer_range": 0.1,
            "linear_num_key_heads": 1, "linear_num_value_heads": 2, "linear_key_head_dim": 12,
            "linear_value_head_dim": 70}),
        ),
    ]
}

/// Each of them on every backend.
fn everywhere() -> impl Iterator<Item = (Architecture, TestBackend)> {
    let on = |one: Architecture| backends().into_iter().map(move |backend| (one.clone(), backend));
    architectures().into_iter().flat_map(on)
}

/// Random weights, norms and biases included.
fn random(architecture: &Architecture) -> Weights {
    let noise = |(index, (name, x)): (usize, (String, Tensor))| {
        let wave = Tensor::arange(0f32, x.elem_count() as f32, &Device::Cpu);
        let wave = wave.and_then(|i| ((i + index as f64)? * 1.7)?.sin()?.reshape(x.shape()));
        (name, (x + (wave.expect("wave") * 0.2).expect("wave")).expect("sum"))
    };
    let fresh = weights::random(architecture, 3, &Device::Cpu).expect("weights");
    fresh.into_iter().enumerate().map(noise).collect()
}

#[track_caller]
fn close(ours: &[f64], exact: &[f64], what: &str) {
    within(2e-5, ours, exact, what);
}

#[track_caller]
fn within(share: f64, ours: &[f64], exact: &[f64], what: &str) {
    assert_eq!(ours.len(), exact.len(), "{what}");
    let largest = exact.iter().fold(1e-3_f64, |most, x| most.max(x.abs()));
    for (ours, exact) in ours.iter().zip(exact) {
        assert!((ours - exact).abs() < share * largest, "{what}: {ours} is not {exact}");
    }
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|x| f64::from(*x)).collect()
}

/// A weighted sum of squares: every token counts differently.
fn loss(logp: &Tensor) -> candle_core::Result<Tensor> {
    let count = logp.elem_count() as i64;
    let weight = Tensor::arange(0i64, count, logp.device())?.to_dtype(logp.dtype())?;
    (logp.sqr()? * (weight * 0.61)?.cos()?)?.sum_all()
}

/// Sequences of their own, one of them longer than a chunk of the delta rule, and some that share their prompts with
/// neighbours.
fn batches() -> [Vec<Sequence>; 2] {
    let completion = |from: u32, count: u32| (0..count).map(|t| (t * 9 + from) % 50).collect();
    let row = |prompt: &[u32], from, count| Sequence {
        prompt: prompt.to_vec(),
        completion: completion(from, count),
    };
    [
        vec![row(&[7], 1, 8), row(&[9, 2, 4], 5, 20), row(&[3], 0, 1)],
        vec![
            row(&[7, 3, 9, 1, 1, 2], 4, 5),
            row(&[7, 3, 9, 1, 1, 2], 8, 9),
            row(&[7, 3, 9, 1, 1, 2], 8, 0),
            row(&[1], 2, 1),
            row(&[5, 5], 4, 6),
            row(&[5, 5], 4, 2),
        ],
    ]
}

#[test]
fn layers_agree_with_the_graph_in_f64() {
    for (architecture, rows) in architectures().iter().flat_map(|a| batches().map(|rows| (a, rows)))
    {
        let weights = random(architecture);
        let variables = graph::variables(&weights);
        let tracked = graph::tracked(&variables);
        let (exact, exact_grads) =
            graph::gradients(architecture, &tracked, &variables, (&rows, 0.8), loss);
        for backend in backends() {
            let policy = backend.policy(architecture, &weights);
            let again = backend.policy(architecture, &weights).recomputing();
            let (ours, found) = gradients(&policy, (&rows, 0.8), loss);
            close(&wide(&ours), &exact, "log-probabilities");
            assert_eq!(found.len(), weights.len());
            for (name, exact) in &exact_grads {
                close(&flat(&found[name]), &flat(exact), name);
            }
            // Computing layers again gives the same bits.
            let (repeated, twice) = gradients(&again, (&rows, 0.8), loss);
            assert_eq!(ours, repeated);
            for (name, gradient) in &found {
                assert!(flat(gradient) == flat(&twice[name]), "{name} is not the same");
            }
            // And so does a pass without a gradient.
            let computed = token_logp(policy.decoder(), &rows, 0.8).expect("a pass").logp;
            assert_eq!(ours, computed.to_vec1::<f32>().expect("values"));
        }
    }
}

#[test]
fn hidden_states_agree_with_the_graph_and_what_a_cache_continues_with_both() {
    let ids: Vec<u32> = (0..11).map(|i| i * 7 % 50).collect();
    for architecture in architectures() {
        let weights = random(&architecture);
        let exact_weights = graph::tracked(&graph::variables(&weights));
        let exact = graph::hidden(&architecture, &exact_weights, &ids).expect("a graph");
        for backend in backends() {
            let policy = backend.policy(&architecture, &weights);
            for decoder in
                [policy.decoder().clone(), policy.decoder().prepacked(None).expect("packed")]
            {
                let whole = decoder.hidden(&ids, &PackedSequences::from_start([11]), None);
                close(&flat(&whole.expect("hidden")), &flat(&exact), "whole");
                // Seven tokens, then one at a time, beside another sequence.
                let mut cache = decoder.cache(2, 12).expect("a cache");
                let both = [&ids[..7], &ids[..3]].concat();
                let first = PackedSequences::from_start([7, 3]);
                let hidden = decoder.hidden(&both, &first, Some(&mut cache)).expect("hidden");
                let rows = |x: &Tensor, from, count| flat(&x.narrow(0, from, count).expect("rows"));
                close(&rows(&hidden, 0, 7), &rows(&exact, 0, 7), "prefill");
                close(&rows(&hidden, 7, 3), &rows(&exact, 0, 3), "its neighbour");
                for step in 7..11 {
                    let next = [ids[step], ids[step - 4]];
                    let packed = PackedSequences::after([step, step - 4]);
                    let hidden = decoder.hidden(&next, &packed, Some(&mut cache)).expect("hidden");
                    close(&rows(&hidden, 0, 1), &rows(&exact, step, 1), "decoded");
                    close(&rows(&hidden, 1, 1), &rows(&exact, step - 4, 1), "its neighbour");
                }
            }
        }
    }
}

#[test]
fn sliding_windows_free_old_keys_without_changing_outputs() {
    let count = 230;
    let ids: Vec<u32> = (0..count as u32).map(|i| i * 7 % 50).collect();
    for mut architecture in architectures() {
        if architecture.layers.iter().all(|layer| layer.window().is_none()) {
            continue;
        }
        architecture.max_positions = 256;
        let weights = random(&architecture);
        let decoders = backends().into_iter().flat_map(|backend| {
            let decoders = backend.decoders(&architecture, &weights).into_iter();
            decoders.map(move |decoder| (backend.is_exact, decoder))
        });
        for (is_exact, decoder) in decoders {
            let whole = decoder.hidden(&ids, &PackedSequences::from_start([count]), None);
            let whole = flat(&whole.expect("hidden"));
            // Prompts that end before, at and long after what a layer holds.
            let prompts = [7, 66, 67, 68, 150];
            let full: Vec<_> = prompts
                .iter()
                .map(|prompt| {
                    let mut cache = decoder.cache(1, 160).expect("a cache");
                    let packed = PackedSequences::from_start([*prompt]);
                    decoder.hidden(&ids[..*prompt], &packed, Some(&mut cache)).expect("hidden");
                    Arc::new(cache)
                })
                .collect();
            let mut cache =
                decoder.decoding_cache(prompts.len() + 1, count, count).expect("a cache");
            for (row, (prompt, from)) in prompts.iter().zip(&full).enumerate() {
                cache.continue_from(from, 0, *prompt, row + 1).expect("copied");
                cache.move_row(row + 1, row, *prompt).expect("moved");
            }
            let width = architecture.hidden_size;
            for step in 0..count - 150 {
                let pasts = prompts.map(|prompt| prompt + step);
                let packed = PackedSequences::after(pasts);
                let next = pasts.map(|past| ids[past]);
                let hidden = decoder.hidden(&next, &packed, Some(&mut cache)).expect("hidden");
                let hidden = flat(&hidden);
                for (row, past) in pasts.into_iter().enumerate() {
                    let ours = &hidden[row * width..][..width];
                    let exact = &whole[past * width..][..width];
                    if is_exact {
                        assert_eq!(ours, exact, "token {past} of row {row}");
                    } else {
                        close(ours, exact, "a decoded token");
                    }
                }
            }
        }
    }
}

#[test]
fn rows_that_continue_one_prompt_decode_as_if_each_had_its_own() {
    // Completions of several prompts, of less than a block of keys and of more, in no order; one prompt's leave first.
    let prompts: [usize; 3] = [37, 5, 32];
    let of_rows = [0, 2, 1, 0, 2, 0, 1];
    let ids = |prompt: usize, sample: usize| -> Vec<u32> {
        let token_id =
            |t: usize| t * 7 + prompt * 11 + if t < prompts[prompt] { 0 } else { sample * 3 };
        (0..prompts[prompt] + 20).map(|t| token_id(t) as u32 % 50).collect()
    };
    for (architecture, backend) in everywhere() {
        for decoder in backend.decoders(&architecture, &random(&architecture)) {
            let starts: Vec<u32> =
                (0..3).flat_map(|prompt| ids(prompt, 0)[..prompts[prompt]].to_vec()).collect();
            let mut full = decoder.cache(3, 37).expect("a cache");
            let packed = PackedSequences::from_start(prompts);
            decoder.hidden(&starts, &packed, Some(&mut full)).expect("hidden");
            let full = Arc::new(full);
            let mut cache = decoder.decoding_cache(of_rows.len(), 57, 20).expect("a cache");
            let mut rows: Vec<(usize, usize)> = of_rows.into_iter().zip(0..).collect();
            for (row, (prompt, _)) in rows.iter().enumerate() {
                cache.continue_from(&full, *prompt, prompts[*prompt], row).expect("continued");
            }
            // Of causal layers the pass over all tokens has the states of every shorter one.
            let whole = |(prompt, sample): &(usize, usize)| {
                let ids = ids(*prompt, *sample);
                let packed = PackedSequences::from_start([ids.len()]);
                flat(&decoder.hidden(&ids, &packed, None).expect("hidden"))
            };
            let wholes: Vec<Vec<f64>> = rows.iter().map(whole).collect();
            for step in 0..20 {
                if step == 8 {
                    let last = rows.len() - 1;
                    rows.swap_remove(1);
                    cache.move_row(last, 1, prompts[rows[1].0] + step).expect("moved");
                }
                let pasts: Vec<usize> =
                    rows.iter().map(|(prompt, _)| prompts[*prompt] + step).collect();
                let next: Vec<u32> = rows
                    .iter()
                    .zip(&pasts)
                    .map(|((prompt, sample), past)| ids(*prompt, *sample)[*past])
                    .collect();
                let packed = PackedSequences::after(pasts.iter().copied());
                let hidden = decoder.hidden(&next, &packed, Some(&mut cache)).expect("hidden");
                let hidden = flat(&hidden);
                for (row, ((_, sample), past)) in rows.iter().zip(&pasts).enumerate() {
                    let width = architecture.hidden_size;
                    let ours = &hidden[row * width..][..width];
                    let exact = &wholes[*sample][past * width..][..width];
                    match backend.is_exact {
                        true => assert_eq!(ours, exact, "token {past} of row {row}"),
                        false => close(ours, exact, "a decoded token"),
                    }
                }
            }
        }
    }
}

#[test]
fn completions_that_share_their_prompt_are_computed_as_if_they_did_not() {
    let row =
        |completion: &[u32]| Sequence { prompt: vec![7, 3, 9], completion: completion.into() };
    let other = Sequence { prompt: vec![1], completion: vec![2] };
    // A neighbour with another prompt in between keeps the last two apart.
    let shared = [row(&[4, 5, 6]), row(&[8]), row(&[]), row(&[4, 4])];
    let apart = [row(&[4, 5, 6]), other.clone(), row(&[8]), other.clone(), row(&[4, 4])];
    for (architecture, backend) in everywhere() {
        let policy = backend.policy(&architecture, &random(&architecture));
        let run = |rows: &[Sequence]| {
            let mask: Vec<f32> = rows
                .iter()
                .flat_map(|row| vec![f32::from(u8::from(*row != other)); row.completion.len()])
                .collect();
            let counted = Tensor::from_slice(&mask, mask.len(), &backend.device).expect("a mask");
            let loss = |logp: &Tensor| (logp.sqr()? * &counted)?.sum_all();
            let (logp, found) = gradients(&policy, (rows, 0.8), loss);
            let mut logp = logp.into_iter();
            let rows = rows.iter().map(|row| logp.by_ref().take(row.completion.len()).collect());
            (rows.collect::<Vec<Vec<f32>>>(), found)
        };
        let ((one, found), (each, singly)) = (run(&shared), run(&apart));
        for (some, others) in [0, 1, 3].map(|i| &one[i]).iter().zip([0, 2, 4].map(|i| &each[i])) {
            for (some, other) in some.iter().zip(others) {
                assert!(some == other || !backend.is_exact && (some - other).abs() < 1e-5);
            }
        }
        // Sums over the prompt are in another order; of states they round more.
        let share = if architecture.delta.is_some() { 1e-4 } else { 2e-5 };
        for (name, gradient) in &found {
            within(share, &flat(&singly[name]), &flat(gradient), name);
        }
    }
}

/// The same bits alone and in company, where the processor has our products.
#[test]
fn a_sequence_has_the_same_bits_in_every_batch() {
    let rows: Vec<Sequence> = (0..9_u32)
        .map(|i| Sequence {
            prompt: vec![i, 1, 2],
            completion: (0..3 + i).map(|t| t * 5 % 50).collect(),
        })
        .collect();
    for (architecture, backend) in everywhere() {
        let policy = backend.policy(&architecture, &random(&architecture));
        let logp = |rows: &[Sequence]| {
            let result = token_logp(policy.decoder(), rows, 1.0).expect("logp");
            by_row(&result.logp, rows).expect("rows")
        };
        let all = logp(&rows);
        for (row, all) in rows.iter().zip(&all) {
            for (alone, all) in logp(std::slice::from_ref(row))[0].iter().zip(all) {
                assert!(alone == all || !backend.is_exact && (alone - all).abs() < 1e-5);
            }
        }
    }
}

#[test]
fn invalid_model_inputs_are_refused() {
    let architecture = &architectures()[0];
    let weights = random(architecture);
    let policy = Policy::new(architecture, &weights).expect("policy");
    let hidden = |packed| policy.decoder().hidden(&[1, 50], &packed, None);
    let error = hidden(PackedSequences::from_start([3])).expect_err("too few").to_string();
    assert!(error.contains("2 tokens where the segments have 3"), "{error}");
    let error = hidden(PackedSequences::from_start([2])).expect_err("beyond").to_string();
    assert!(error.contains("token 50 is beyond the vocabulary of 50"), "{error}");
    let row = [Sequence { prompt: vec![1], completion: vec![50] }];
    let error = token_logp(policy.decoder(), &row, 1.0).err().expect("beyond").to_string();
    assert!(error.contains("token 50"), "{error}");
    let mut cache = policy.decoder().cache(1, 2).expect("a cache");
    let packed = PackedSequences::from_start([3]);
    let error =
        policy.decoder().hidden(&[1, 2, 3], &packed, Some(&mut cache)).expect_err("too long");
    assert!(error.to_string().contains("3 tokens do not fit a cache of 2 slots"), "{error}");
    let mut cache = policy.decoder().decoding_cache(1, 64, 1).expect("a cache");
    let result =
        policy.decoder().hidden(&[1; 40], &PackedSequences::from_start([40]), Some(&mut cache));
    assert!(result.expect_err("no room").to_string().contains("has no room for what is added"));
    let mut fewer = weights.clone();
    fewer.remove("model.norm.weight");
    let error = policy::frozen_decoder(architecture, &fewer).expect_err("missing").to_string();
    assert!(error.contains("there is no weight `model.norm.weight`"), "{error}");
    let half =
        weights.iter().map(|(name, x)| (name.clone(), x.to_dtype(DType::BF16).expect("bf16")));
    let error =
        policy::frozen_decoder(architecture, &half.collect()).expect_err("bf16").to_string();
    assert!(error.contains("float32, not BF16"), "{error}");
}
