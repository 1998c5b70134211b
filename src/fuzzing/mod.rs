//! Readers of untrusted bytes, one function a kind, that `fuzz/` and `tests/it/fuzz.rs` call with whatever they make
//! up. Each may refuse its input, and must neither panic nor take more than a moment.

mod completions;
mod run_folder;
mod sql;
mod verifiers;

use std::path::Path;
use std::sync::OnceLock;

use candle_core::Device;
use serde_json::Value;
use tealight_core::{Message, Prompt, names};
use tealight_datasets::read::Columns;
use tealight_models::COUNTDOWN_FILES;

use crate::app::verdicts::Judge;
use tealight_formats::gguf::Gguf;
use tealight_formats::pretrained::Pretrained;
use tealight_nn::device::{Placement, Precision};
use tealight_nn::model::{Architecture, weights};
use tealight_nn::tokenizer::{HubTokenizer, Tokenizer};

/// A kind of input: its name, what reads it, and an input to begin from.
pub type Target = (&'static str, fn(&[u8]), &'static [u8]);

/// Every kind.
pub const TARGETS: [Target; 21] = [
    ("weights", weights, b"\x60\0\0\0\0\0\0\0{\"model.norm.weight\":{\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[0,32]}}                        "),
    ("index", index, br#"{"metadata":{"total_size":1},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"x.safetensors"}}"#),
    ("config", config, COUNTDOWN_FILES[tealight_models::CONFIG].1),
    ("tokenizer", tokenizer, COUNTDOWN_FILES[tealight_models::TOKENIZER].1),
    ("template", template, b"{{ bos_token }}{% for m in messages %}{% set x = m.role ~ m.content|trim %}{{ x.replace('a', 'bb')|indent(2) }}{% endfor %}{{ 'a' * 3 }}"),
    ("rows", rows, b"j{\"question\":\"1+1?\",\"answer\":12345678901234567890.5,\"id\":\"a\"}\n{\"prompt\":[{\"role\":\"user\",\"content\":\"x\"}],\"answer\":\"2\"}\n"),
    ("engine", engine, br#"{"choices":[{"text":"a","finish_reason":"stop","token_ids":[1,2],"logprobs":{"token_logprobs":[-1.0,null]}},{"message":{"content":null},"logprobs":{"content":[{"id":3,"logprob":-1}]}}],"usage":{"completion_tokens":5}}"#),
    ("gguf", gguf, b"GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x14\0\0\0\0\0\0\0general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0llama\x15\0\0\0\0\0\0\0tokenizer.ggml.tokens\x09\0\0\0\x08\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0a\x01\0\0\0\0\0\0\0b\x12\0\0\0\0\0\0\0output_norm.weight\x01\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    ("parquet", parquet, include_bytes!("../../tests/fixtures/rows.parquet")),
    ("completions", completions::try_file, b"[{\"doc_id\":0,\"doc\":{},\"target\":[\"7\",8],\"resps\":[[\"7\"]],\"filter\":\"a\"},\n{\"custom_id\":\"b\",\"response\":{\"body\":{\"choices\":[{\"message\":{\"content\":null},\"finish_reason\":\"length\"}]}}},\n{\"id\":1,\"gold\":7,\"completions\":[{\"text\":\"7\"},[{\"role\":\"assistant\",\"content\":\"7\"}]],\"sample\":0,\"tokens\":3}]"),
    ("archive", completions::try_file, include_bytes!("../../tests/fixtures/grade/inspect.eval")),
    ("pairs", pairs, b"{\"gold\":\"1/2\",\"answer\":0.5}\n{\"gold\":3,\"answer\":\"\\\\boxed{3}\"}\n"),
    ("depth", template, include_bytes!("../../tests/fixtures/nested.jinja")),
    ("metadata", gguf, include_bytes!("../../tests/fixtures/kinds.gguf")),
    ("sql", sql::try_lines, b"CREATE TABLE t(x); INSERT INTO t VALUES (1); ATTACH 'VICTIM' AS v; CREATE TABLE v.y(x)\nSELECT x FROM t\nSELECT 1"),
    ("folder", run_folder::try_changed, b"\x00\x40\x00\x01\x029\x30\x01\x00\x00\x00"),
    ("readme", tealight_formats::hub::dataset::try_readme, b"---\nlicense: mit\nconfigs:\n- config_name: a\n  default: true\n  data_files:\n  - split: train\n    path: ['a/[!x]*.csv', \"**/t?.jsonl\"]\n- {config_name: b, data_dir: data}\n---\n\0a/b.csv\nt1.jsonl\ndata/train-00000-of-00001.parquet\na/test/0000.parquet\n"),
    ("math", verifiers::math, b"\\frac{1}{2}\0so \\boxed{0.5} or (1, 2]"),
    ("verifiers", verifiers::verifiers, b"1,2,3=6\0<answer>(1 + 2) * 3 - 3 / 1</answer>"),
    ("tasks", verifiers::tasks, b"0-1 1-2 2-0\0Answer: 0, 1, 2"),
    ("query", verifiers::query, b"COUNT(*), SUM(age) FROM pets WHERE kind IN ('dog', 'cat') GROUP BY name"),
];

/// Gives an input to the kind called `name`.
pub fn try_input(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|(target, ..)| *target == name);
    target.unwrap_or_else(|| panic!("no kind of input is called {name}")).1(data);
}

/// A file called `name` with these bytes, in a folder of its own.
fn with_file(name: &str, bytes: &[u8], work: impl FnOnce(&Path)) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join(name), bytes).expect("written");
    work(folder.path());
}

/// A small architecture, which hostile weights will rarely fit.
fn small() -> Architecture {
    let config = serde_json::json!({"model_type": "llama", "vocab_size": 4, "hidden_size": 8, "intermediate_size": 8,
        "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 8, "tie_word_embeddings": true});
    Architecture::from_config(&config).expect("a fitting configuration")
}

fn weights(data: &[u8]) {
    with_file(weights::WHOLE, data, |folder| {
        drop(weights::load(folder, &small(), Placement::F32));
        drop(weights::read_all(&folder.join(weights::WHOLE), &Device::Cpu));
    });
}

/// Lines of pairs.
fn pairs(data: &[u8]) {
    let Ok(judge) = Judge::open(None, None) else { return };
    for line in data.split(|byte| *byte == b'\n') {
        drop(judge.judge_line(line));
    }
}

fn gguf(data: &[u8]) {
    with_file("model.gguf", data, |folder| {
        let Ok(file) = Gguf::open(&folder.join("model.gguf")) else { return };
        if let Ok(model) = file.to_hub()
            && let Ok(architecture) = Architecture::from_config(&model.config)
        {
            drop(file.weights(&architecture, Placement::F32));
        }
        drop(file.weights(&small(), Placement::F32));
    });
}

fn index(data: &[u8]) {
    with_file(weights::INDEX, data, |folder| {
        for name in weights::shard_names(&folder.join(weights::INDEX)).unwrap_or_default() {
            let path = names::inside(folder, &name).expect("only plain names come through");
            let is_inside = !path.components().any(|part| part == std::path::Component::ParentDir);
            assert!(path.starts_with(folder) && is_inside, "{name}");
        }
        drop(weights::load(folder, &small(), Placement::F32));
    });
}

fn config(data: &[u8]) {
    if let Ok(value) = serde_json::from_slice::<Value>(data)
        && let Ok(architecture) = Architecture::from_config(&value)
    {
        assert!(architecture.tensors().len() < 1 << 16 && architecture.parameters() < 1 << 41);
    }
    with_file(tealight_formats::adapter::CONFIG, data, |folder| {
        drop(tealight_formats::adapter::Adapter::base_of(folder));
        drop(tealight_formats::adapter::Adapter::load(folder, &small(), &Device::Cpu));
    });
}

fn tokenizer(data: &[u8]) {
    with_file("tokenizer.json", data, |folder| {
        std::fs::write(folder.join("generation_config.json"), "{\"eos_token_id\":1}")
            .expect("written");
        let Ok(tokenizer) = HubTokenizer::load(folder) else { return };
        drop(tokenizer.encode_prompt(&Prompt::Text("3,7,8,9=24: é \u{1f600}".into())));
        drop(tokenizer.decode(&[0, 1, 2, 3, 20, 4_000_000_000]));
    });
}

fn template(data: &[u8]) {
    with_file("chat_template.jinja", data, |folder| {
        let embedded = COUNTDOWN_FILES[tealight_models::TOKENIZER].1;
        std::fs::write(folder.join("tokenizer.json"), embedded).expect("written");
        std::fs::write(folder.join("generation_config.json"), "{\"eos_token_id\":1}")
            .expect("written");
        let Ok(tokenizer) = HubTokenizer::load(folder) else { return };
        drop(
            tokenizer.encode_prompt(&Prompt::chat([
                Message::user("3,7"),
                Message::new("assistant", "x"),
            ])),
        );
    });
}

/// The first byte chooses the format.
fn rows(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    let name = match kind % 4 {
        0 => "a.json",
        1 => "a.csv",
        2 => "a.jsonl",
        _ => "a.parquet",
    };
    with_file(name, data, |folder| {
        let path = folder.join(name).display().to_string();
        drop(tealight_datasets::open(&path, &Columns::default(), Some(1000)));
        drop(tealight_eval::store::read(&folder.join(name)));
    });
}

/// A file as it is, and a good one with some of its bytes replaced.
fn parquet(data: &[u8]) {
    const GOOD: &[u8] = include_bytes!("../../tests/fixtures/rows.parquet");
    for bytes in [data.to_vec(), run_folder::spliced(GOOD.to_vec(), data)] {
        with_file("a.parquet", &bytes, |folder| {
            let path = folder.join("a.parquet").display().to_string();
            crate::app::data_file::install_guard();
            let file = std::fs::File::open(&path).expect("the file");
            if let Ok(rows) = tealight_datasets::read::parquet_records(file) {
                rows.take(1000).for_each(drop);
            }
            // A panic of the library is an error there, as in `app::data_file`.
            drop(tealight_system::budget::caught("parquet", || {
                tealight_datasets::open(&path, &Columns::default(), Some(1000))
            }));
        });
    }
}

fn embedded() -> &'static Pretrained {
    static MODEL: OnceLock<Pretrained> = OnceLock::new();
    MODEL.get_or_init(|| {
        Pretrained::load(tealight_formats::hub::EMBEDDED, Precision::default(), &Device::Cpu)
            .expect("the embedded model")
    })
}

fn engine(data: &[u8]) {
    crate::solvers::remote::read_answer(data);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmutated_inputs_are_accepted() {
        with_file("model.gguf", include_bytes!("../../tests/fixtures/kinds.gguf"), |folder| {
            let file = Gguf::open(&folder.join("model.gguf")).expect("a header");
            Architecture::from_config(&file.to_hub().expect("all entries").config)
                .expect("a model");
        });
        let parquet = include_bytes!("../../tests/fixtures/rows.parquet");
        with_file("a.parquet", parquet, |folder| {
            let path = folder.join("a.parquet").display().to_string();
            tealight_datasets::open(&path, &Columns::default(), None).expect("rows");
        });
        try_input("folder", b"");
    }
}
