//! Embeddings padded beyond the tokenizer: ids without a token are never sampled and have no probability, in training
//! as in sampling. And tokenizers with more ids than there are embeddings.

use candle_core::{Device, Tensor};
use serde_json::json;
use tealight::nn::generate::{
    Completion, Filters, LocalSampler, RngKey, SampleRequest, SamplingParams,
};
use tealight::nn::model::weights::{self, Weights};
use tealight::nn::model::{Architecture, Decoder};
use tealight::nn::policy::{Policy, Sequence};
use tealight::nn::tokenizer::Tokenizer;
use tealight_core::Prompt;

use crate::model_files::question;
use crate::support;
use crate::support::binary::{Folder, command, ok, refusal};
use crate::support::chat_model::ChatModel;

const ROWS: usize = 40;
const IDS: usize = 29;

/// A random model with padded embeddings, tied or not, and the same without the padding.
fn models(tied: bool) -> [(Architecture, Weights); 2] {
    let config = |vocab_size: usize| {
        let more = json!({"vocab_size": vocab_size, "tie_word_embeddings": tied, "initializer_range": 0.3});
        support::tiny("qwen2", &more)
    };
    let mut padded = config(ROWS);
    let weights = weights::random(&padded, 5, &Device::Cpu).expect("memory");
    padded.output_size = IDS;
    let plain = weights.iter().map(|(name, x)| {
        let is_by_token = x.dims() == [ROWS, 32];
        (name.clone(), if is_by_token { used(x) } else { x.clone() })
    });
    let plain = plain.collect();
    [(padded, weights), (config(IDS), plain)]
}

/// The rows of ids that have a token.
fn used(x: &Tensor) -> Tensor {
    x.narrow(0, 0, IDS).and_then(|x| x.contiguous()).expect("rows")
}

fn sampled(decoder: &Decoder, filters: Filters, temperature: f64) -> Vec<Completion> {
    let params = SamplingParams { filters, ..support::sampling(temperature, 24, &[0]) };
    let sampler = LocalSampler { decoder, max_rows: 16 };
    let request = SampleRequest { prompt: vec![3, 7, 11], first: 0, count: 40, key: 1 };
    support::sampled(&sampler, &[request], &params, RngKey { seed: 2, step: 0 }).concat()
}

#[test]
fn padding_changes_no_sample_no_probability_and_no_gradient() {
    for tied in [true, false] {
        for backend in support::backends() {
            let [(padded, padded_weights), (plain, plain_weights)] = models(tied);
            let padded = backend.policy(&padded, &padded_weights);
            let plain = backend.policy(&plain, &plain_weights);
            for (temperature, filters) in [
                (1.0, Filters::default()),
                (8.0, Filters::default()),
                (8.0, Filters { top_p: 0.9, ..Filters::default() }),
            ] {
                let rows = sampled(padded.decoder(), filters, temperature);
                let ids = || rows.iter().flat_map(|row| &row.tokens).map(|id| *id as usize);
                assert!(ids().all(|id| id < IDS), "an id without a token");
                assert!(ids().any(|id| id > IDS / 2));
                let others = sampled(plain.decoder(), filters, temperature);
                assert!(
                    rows.iter().map(|row| &row.tokens).eq(others.iter().map(|row| &row.tokens))
                );
            }
            let drawn = sampled(padded.decoder(), Filters::default(), 1.0);
            let row = |one: &Completion| Sequence {
                prompt: vec![3, 7, 11],
                completion: one.tokens.clone(),
            };
            let rows: Vec<Sequence> = drawn.iter().map(row).collect();
            let sum = |policy: &Policy| support::gradients(policy, (&rows, 1.0), Tensor::sum_all);
            let ((logp, grads), (plain_logp, plain_grads)) = (sum(&padded), sum(&plain));
            let most = if backend.is_exact { 0.0 } else { 1e-4 };
            let close = |(a, b): (&f32, &f32)| (a - b).abs() <= most;
            assert!(logp.iter().zip(&plain_logp).all(close));
            // The importance ratio begins at one.
            let own: Vec<f32> = drawn.iter().flat_map(|one| one.logp.clone()).collect();
            assert!(own.len() == logp.len() && own.iter().zip(&logp).all(close));
            for (name, grad) in &grads {
                let by_token = grad.dims() == [ROWS, 32];
                let own = if by_token { used(grad) } else { grad.clone() };
                assert!(support::apart(&own, &plain_grads[name]) <= most.into(), "{name}");
                if by_token {
                    let padding = grad.narrow(0, IDS, ROWS - IDS).expect("rows");
                    assert!(support::flat(&padding).iter().all(|x| *x == 0.0), "{name}");
                }
            }
        }
    }
}

#[test]
fn a_model_is_loaded_with_its_padding_known() {
    let folder = Folder::new();
    let model = ChatModel::new(&folder, "model");
    let loaded = support::load(&model.path);
    assert_eq!((loaded.architecture.vocab_size, loaded.architecture.output_size), (128, 101));
    assert_eq!(loaded.weights["model.embed_tokens.weight"].dims(), [128, 64]);
    let (data, run) = (question(&folder), folder.path("run"));
    ok(command!(
        "train --model {} --dataset {data} --max-steps 2 --num-generations 4 --temperature 3 --max-completion-length 8 \
         --device cpu --output {run}",
        model.path
    ));
    // The run's own check of the ratio would have warned.
    let metrics = std::fs::read_to_string(format!("{run}/metrics.jsonl")).expect("metrics");
    assert_eq!(metrics.lines().count(), 2);
}

#[test]
fn a_token_beyond_the_embeddings_is_refused_where_it_occurs() {
    let folder = Folder::new();
    let model = ChatModel::new(&folder, "model");
    // The tokenizer has 101 ids; up to the last embedding are further ones, and one is beyond.
    let names: Vec<String> = (101..128).map(|id| format!("<unused{id}>")).collect();
    let mut tokens: Vec<(u32, &str, bool)> =
        (101..128).zip(&names).map(|(id, name)| (id, name.as_str(), true)).collect();
    tokens.push((128, "<image_soft_token>", true));
    model.add_tokens(&tokens);
    let loaded = support::load(&model.path);
    assert_eq!(loaded.architecture.output_size, 128);
    assert!(loaded.tokenizer.encode_prompt(&Prompt::Text("1 + 1".into())).is_ok());
    let error = loaded.tokenizer.encode_prompt(&Prompt::Text("see <image_soft_token>".into()));
    let message = format!("{:#}", error.expect_err("refused"));
    assert!(message.contains("`<image_soft_token>` (128)") && message.contains("128"), "{message}");
    let stderr =
        ok(command!("generate --model {} --device cpu --max-completion-length 2 1+1", model.path));
    assert!(stderr.contains("ids up to 128, the model embeddings up to 127"), "{stderr}");
    let message =
        refusal(&["generate", "--model", &model.path, "--device", "cpu", "a <image_soft_token>"]);
    assert!(message.contains("beyond the model's vocabulary"), "{message}");
    ok(command!("export --model {} --gguf f32 --output {}", model.path, folder.path("gguf")));
}
