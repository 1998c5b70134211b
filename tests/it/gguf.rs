//! GGUF files: written from models in Hub layout and read back as the same bits, token ids and chats; hostile ones
//! refused with the reason. `scripts/llama-round-trip` holds the same against a real llama-server.

use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor};
use serde_json::{Value as Json, json};
use tealight::formats::gguf::{Gguf, GgufType, Value};
use tealight::formats::pretrained::Pretrained;
use tealight::nn::device::Precision;
use tealight::nn::model::Architecture;
use tealight::nn::policy::{Sequence, token_logp};
use tealight::nn::tokenizer::Tokenizer;
use tealight::solvers::sampled::Sampled;
use tealight_core::{Message, Prompt};

use crate::support::binary::{Folder, command, ok, refused};
use crate::support::runs::json as read_json;
use crate::support::{apart, conformance as fixture, extend, flat, load, remade};

fn bits(model: &Pretrained, name: &str) -> Vec<u32> {
    let values = model.weights[name].flatten_all().and_then(|x| x.to_vec1::<f32>()).expect("f32");
    values.into_iter().map(f32::to_bits).collect()
}

/// Every family that is written, with stretched positions and a head of its own among them.
const MODELS: [&str; 4] = ["micro-llama", "micro-llama-rope3", "micro-qwen2", "micro-qwen3"];

#[test]
fn a_model_that_is_written_and_read_is_the_same_model() {
    for name in MODELS {
        let folder = tempfile::tempdir().expect("a folder");
        let model = load(&fixture(name).display().to_string());
        let path = model.save_gguf(&model.weights, GgufType::F32, folder.path()).expect("written");
        let back = load(&path.display().to_string());
        for weight in model.weights.keys() {
            assert_eq!(bits(&model, weight), bits(&back, weight), "{name}: {weight}");
        }
        let prompt = Prompt::chat([Message::user("What is 12 * 7?\n  Think, don't guess.")]);
        for prompt in [prompt, Prompt::Text("2024 ducks, 3 geese".into())] {
            let ids = model.tokenizer.encode_prompt(&prompt).expect("ids");
            assert_eq!(ids, back.tokenizer.encode_prompt(&prompt).expect("ids"), "{name}");
        }
        assert_eq!(model.tokenizer.eos()[0], back.tokenizer.eos()[0]);
        let row = [Sequence { prompt: vec![7, 8], completion: vec![9, 10, 11] }];
        let logp = |model: &Pretrained| {
            let decoder = model.decoder().expect("a decoder");
            token_logp(&decoder, &row, 1.0).expect("a pass").logp.to_vec1::<f32>().expect("f32")
        };
        assert_eq!(logp(&model), logp(&back), "{name}");
        // Read, write, read: the same file.
        let again = tempfile::tempdir().expect("a folder");
        let second = back.save_gguf(&back.weights, GgufType::F32, again.path()).expect("written");
        let bytes = |path: &Path| std::fs::read(path).expect("a file");
        assert_eq!(bytes(&path), bytes(&second), "{name}");
        let ollama = std::fs::read_to_string(folder.path().join("Modelfile")).expect("a Modelfile");
        assert!(ollama.starts_with("FROM ./model-f32.gguf\nPARAMETER stop "), "{ollama}");
    }
}

#[test]
fn first_token_and_biases_of_llama_are_written_and_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let [mut config, mut tokenizer] =
        ["config.json", "tokenizer.json"].map(|name| read_json(fixture("micro-llama").join(name)));
    config["attention_bias"] = true.into();
    let begin = "<|im_start|>";
    tokenizer["post_processor"] = json!({"type": "Sequence", "processors": [
        {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true},
        {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": begin, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {begin: {"id": begin, "ids": [2], "tokens": [begin]}}}]});
    let settings = json!({"bos_token": begin, "eos_token": "<|endoftext|>"});
    let write = |name: &str, value: &Json| {
        std::fs::write(folder.path().join(name), value.to_string()).expect("written");
    };
    write("config.json", &config);
    write("tokenizer.json", &tokenizer);
    write("tokenizer_config.json", &settings);
    let (config, precision) = (folder.path().join("config.json"), Precision::default());
    let model = Pretrained::from_scratch(&config, folder.path(), 3, precision, &Device::Cpu);
    let model = model.expect("a model");
    let file = model.save_gguf(&model.weights, GgufType::F32, folder.path()).expect("written");
    let back = load(&file.display().to_string());
    let prompt = Prompt::Text("2024 ducks".into());
    let ids = model.tokenizer.encode_prompt(&prompt).expect("ids");
    assert_eq!((ids[0], &ids), (2, &back.tokenizer.encode_prompt(&prompt).expect("ids")));
    assert!(back.architecture.qkv_bias && back.architecture.output_bias);
}

/// Gemma's kind of tokenizer, with a few merges, in the fields that matter.
fn pieces() -> Json {
    let letters = "abcdehilnorstuw.,?!'0123456789".chars().map(String::from);
    let special = ["<pad>", "<eos>", "<bos>", "<unk>", "<end_of_turn>"].map(String::from);
    let bytes = (0..256).map(|byte| format!("<0x{byte:02X}>"));
    let merges =
        [["t", "h"], ["th", "e"], ["\u{2581}", "the"], ["1", "2"], ["i", "n"], ["\u{2581}", "in"]];
    let made = merges.map(|parts| parts.concat());
    let mut tokens: Vec<String> = special.to_vec();
    tokens.extend(bytes.chain(["\u{2581}".to_owned()]).chain(letters).chain(made));
    let vocab: serde_json::Map<_, _> =
        tokens.iter().enumerate().map(|(id, token)| (token.clone(), id.into())).collect();
    let added = |(id, token): (usize, &String)| {
        json!({"id": id, "content": token, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": true})
    };
    let added: Vec<_> = special.iter().enumerate().map(added).collect();
    let bos = json!({"SpecialToken": {"id": "<bos>", "type_id": 0}});
    let text = |id: &str, kind: u32| json!({"Sequence": {"id": id, "type_id": kind}});
    let space = "\u{2581}";
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": space},
        "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
            "invert": false},
        "post_processor": {"type": "TemplateProcessing", "single": [bos, text("A", 0)],
            "pair": [bos, text("A", 0), text("B", 1)],
            "special_tokens": {"<bos>": {"id": "<bos>", "ids": [2], "tokens": ["<bos>"]}}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": space}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
            "vocab": vocab, "merges": merges},
    })
}

/// A small Gemma 3 with that tokenizer, stretched as the larger ones are.
fn gemma(folder: &Path, more: &Json) -> Pretrained {
    let mut config = json!({"model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"],
        "vocab_size": 310, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 7,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "query_pre_attn_scalar": 16,
        "sliding_window": 6, "sliding_window_pattern": 6, "max_position_embeddings": 64,
        "rope_theta": 1e6, "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "rms_norm_eps": 1e-6,
        "bos_token_id": 2, "eos_token_id": 4, "pad_token_id": 0, "tie_word_embeddings": true});
    extend(&mut config, more);
    let settings = json!({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<bos>",
        "eos_token": "<end_of_turn>", "pad_token": "<pad>"});
    for (name, value) in [
        ("config.json", &config),
        ("tokenizer.json", &pieces()),
        ("tokenizer_config.json", &settings),
    ] {
        std::fs::write(folder.join(name), value.to_string()).expect("written");
    }
    let config = folder.join("config.json");
    let model = Pretrained::from_scratch(&config, folder, 3, Precision::default(), &Device::Cpu);
    model.expect("a model")
}

#[test]
fn gemma_is_written_and_read_with_its_pieces_windows_and_norms() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut model = gemma(folder.path(), &json!({}));
    // Norms that are not all alike; files hold them with 1 added, which rounds.
    for (index, (name, weight)) in model.weights.iter_mut().enumerate() {
        if name.ends_with("norm.weight") {
            let count = weight.elem_count() as f32;
            let wave =
                Tensor::arange(0f32, count, &Device::Cpu).and_then(|x| (x + index as f64)?.sin());
            *weight = wave.and_then(|x| x * 0.3).expect("a wave");
        }
    }
    let path = model.save_gguf(&model.weights, GgufType::F32, folder.path()).expect("written");
    let back = load(&path.display().to_string());
    // Files hold numbers in f32.
    let rms_norm_eps = f64::from(1e-6_f32);
    assert_eq!(Architecture { rms_norm_eps, ..model.architecture.clone() }, back.architecture);
    for (name, weight) in &model.weights {
        let apart = apart(weight, &back.weights[name]);
        assert!(apart <= if name.ends_with("norm.weight") { 1e-7 } else { 0.0 }, "{name}: {apart}");
    }
    for text in [
        "the thin owl in 12 nests",
        "  na\u{ef}ve, isn't it?\n<bos>the end<end_of_turn>",
        "in121 \u{2615}",
    ] {
        let prompt = Prompt::Text(text.into());
        let ids = model.tokenizer.encode_prompt(&prompt).expect("ids");
        assert_eq!(ids, back.tokenizer.encode_prompt(&prompt).expect("ids"), "{text}");
        assert_eq!(ids[0], 2);
        let shown = |model: &Pretrained| model.tokenizer.decode(&ids[1..]).expect("text");
        assert_eq!(shown(&model), shown(&back));
    }
    let again = tempfile::tempdir().expect("a folder");
    let second = back.save_gguf(&back.weights, GgufType::F32, again.path()).expect("written");
    let bytes = |path: &Path| std::fs::read(path).expect("a file");
    assert!(bytes(&path) == bytes(&second), "read, write, read");

    for (more, reason) in [
        (json!({"query_pre_attn_scalar": 24}), "scaled by the head dimension"),
        (json!({"sliding_window_pattern": 3}), "every sixth layer"),
        (json!({"rope_local_base_freq": 5e3}), "rope_local_base_freq"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let model = gemma(folder.path(), &more);
        let result = model.save_gguf(&model.weights, GgufType::F32, folder.path());
        let error = format!("{:#}", result.expect_err("another model"));
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn smaller_types_round_as_they_should() {
    let model = load(&fixture("micro-qwen3").display().to_string());
    for (kind, most) in [(GgufType::F16, 1e-3), (GgufType::Bf16, 5e-3), (GgufType::Q8_0, 8e-3)] {
        let folder = tempfile::tempdir().expect("a folder");
        let written = model.save_gguf(&model.weights, kind, folder.path());
        let path = match written {
            Ok(path) => path,
            // Rows that do not divide into blocks.
            Err(error) => {
                assert!(kind == GgufType::Q8_0 && format!("{error:#}").contains("blocks of 32"));
                continue;
            }
        };
        let back = load(&path.display().to_string());
        for (name, weight) in &model.weights {
            let largest = flat(weight).into_iter().map(f64::abs).fold(0.0, f64::max);
            let most = if weight.rank() == 1 { 0.0 } else { most * largest };
            assert!(apart(weight, &back.weights[name]) <= most, "{kind:?} {name}");
        }
    }
}

#[test]
fn unrepresentable_models_are_not_written_as_gguf() {
    let yarn = json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64});
    let windows = json!({"use_sliding_window": true, "max_window_layers": 0, "sliding_window": 8});
    for (more, reason) in [
        (json!({"rope_scaling": yarn}), "`rope_scaling` of type `llama3`"),
        (windows, "a sliding window"),
        (json!({"hidden_act": "gelu_pytorch_tanh"}), "`hidden_act`"),
        (json!({"model_type": "qwen3", "attention_bias": true}), "`attention_bias`"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let model = remade("micro-qwen2", 0, |config| extend(config, &more));
        let written = model.save_gguf(&model.weights, GgufType::F32, folder.path());
        let error = format!("{:#}", written.expect_err("another model"));
        assert!(error.contains(reason), "{error}");
        assert!(!folder.path().join("model-f32.gguf").exists());
    }
}

#[test]
fn a_file_is_evaluated_and_exported_like_any_model() {
    let folder = Folder::new();
    let output = folder.path("gguf");
    let model = fixture("micro-qwen2").display().to_string();
    ok(command!("export --model {model} --gguf f16 --output {output}"));
    let file = format!("{output}/model-f16.gguf");
    let out = folder.path("eval");
    ok(command!(
        "eval --model {file} --dataset countdown --max-samples 2 -n 2 -k 1 --max-completion-length 4 --output {out}"
    ));
    refused!("eval --model {} --output {out}", folder.path("none.gguf") => "none.gguf", "no such file");
    // Words, not bytes: a tokenizer that files have no name for.
    refused!("export --gguf f16 --output {}", folder.path("countdown") => "its tokenizer has no name in GGUF");
}

/// A file that tests change: its folder, the model, where it is and what it holds.
struct GoodFile {
    folder: tempfile::TempDir,
    model: Pretrained,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl GoodFile {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let model = load(&fixture("micro-qwen2").display().to_string());
        let path = model.save_gguf(&model.weights, GgufType::F16, folder.path()).expect("written");
        let bytes = std::fs::read(&path).expect("a file");
        Self { folder, model, path, bytes }
    }
}

#[test]
fn hostile_files_are_refused_before_memory_is_taken() {
    let GoodFile { folder, path, bytes: whole, .. } = GoodFile::new();
    let refused = |bytes: &[u8]| {
        let path = folder.path().join("hostile.gguf");
        std::fs::write(&path, bytes).expect("written");
        let opened = Gguf::open(&path);
        format!("{:#}", opened.expect_err("refused"))
    };
    assert!(refused(b"PK\x03\x04 and more").contains("does not begin with GGUF"));
    let with = |at: usize, value: u64| {
        let mut bytes = whole.clone();
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        bytes
    };
    // Counts of tensors and keys, and the length of the first key.
    assert!(refused(&with(8, u64::MAX)).contains("tensors"));
    assert!(refused(&with(16, 60_000_000_000)).contains("keys"));
    assert!(refused(&with(24, 1 << 40)).contains("bytes of text"));
    // The offset of a vector, behind the number of its dimensions, its length and its type.
    let name = b"blk.1.attn_norm.weight";
    let at = whole.windows(name.len()).position(|text| text == name).expect("a name");
    assert!(refused(&with(at + name.len() + 16, 0)).contains("overlap: the file is damaged"));
    let mut version = whole.clone();
    version[4] = 1;
    assert!(refused(&version).contains("version 1"));
    for cut in [3, 23, 60, whole.len() / 2, whole.len() - 4096] {
        refused(&whole[..cut]);
    }
    let opened = Gguf::open(&path).expect("whole");
    assert_eq!(opened.get("general.architecture"), Some(&Value::Text("qwen2".into())));
}

#[test]
fn settings_of_a_wrong_kind_and_tokens_twice_are_refused_and_not_replaced() {
    let GoodFile { folder, model: good, path, bytes: whole } = GoodFile::new();
    // The bytes from the first `text` on that are `old`, as `new`.
    let refused = |text: &str, old: &[u8], new: &[u8]| {
        let find = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).position(|x| x == part);
        let at = find(&whole, text.as_bytes()).expect("the key");
        let at = at + find(&whole[at..], old).expect("the value");
        let mut bytes = whole.clone();
        bytes[at..at + new.len()].copy_from_slice(new);
        let path = folder.path().join("hostile.gguf");
        std::fs::write(&path, bytes).expect("written");
        let found = Gguf::open(&path).and_then(|file| file.to_hub().map(|_| ()));
        format!("{:#}", found.expect_err(text))
    };
    let (base, kind) = ("qwen2.rope.freq_base", 6u32.to_le_bytes());
    let nan = [&kind[..], &f32::NAN.to_le_bytes()].concat();
    assert!(refused(base, &kind, &nan).contains("is the number NaN, not a finite number"));
    let yes = [7u8, 0, 0, 0, 1];
    assert!(refused("qwen2.block_count", &4u32.to_le_bytes(), &kind).contains("a whole number"));
    assert!(refused("tokenizer.ggml.add_bos_token", &yes[..4], &[0]).contains("a yes or no"));
    let tokens = match Gguf::open(&path).expect("whole").get("tokenizer.ggml.tokens") {
        Some(Value::Texts(tokens)) => tokens.clone(),
        other => panic!("{other:?}"),
    };
    let pair = tokens.windows(2).find(|pair| pair.iter().all(|token| token.len() == 1));
    let stored = |token: &str| [&1u64.to_le_bytes(), token.as_bytes()].concat();
    let pair = pair.expect("letters");
    let [a, b] = [stored(&pair[0]), stored(&pair[1])];
    let (once, twice) = ([&a[..], &b].concat(), [&a[..], &a].concat());
    assert!(refused("tokenizer.ggml.tokens", &once, &twice).contains("are the same text"));
    assert!(refused("tokenizer.ggml.merges", b"merges", b"tokens").contains("tokens` twice"));
    let (heads, more) = ("qwen2.rope.dimension_count", (1u32 << 30).to_le_bytes());
    let dim = good.architecture.head_dim as u32;
    assert!(refused(heads, &dim.to_le_bytes(), &more).contains("is not supported: heads have"));
}

#[test]
fn a_quantised_file_whose_sizes_are_not_those_of_its_tensors_is_refused() {
    let GoodFile { folder, bytes: whole, .. } = GoodFile::new();
    let find = |part: &[u8]| whole.windows(part.len()).position(|bytes| bytes == part);
    for (key, size) in
        [("feed_forward_length", 1u32 << 16), ("block_count", 1 << 24), ("block_count", 512)]
    {
        let key = format!("qwen2.{key}");
        let at = find(key.as_bytes()).expect("the key") + key.len() + 4;
        let mut bytes = whole.clone();
        bytes[at..at + 4].copy_from_slice(&size.to_le_bytes());
        let path = folder.path().join("hostile.gguf");
        std::fs::write(&path, bytes).expect("written");
        let found =
            Sampled::quantized(&path.display().to_string(), Precision::default(), &Device::Cpu);
        let message = format!("{:#}", found.map(|_| ()).expect_err(&key));
        let words = ["has shape", "is missing", "the limit", "layers"];
        assert!(words.iter().any(|word| message.contains(word)), "{message}");
    }
}
