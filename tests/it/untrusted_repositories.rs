//! Malicious repositories, adapters, datasets and servers: no file is overwritten, memory and time are bounded, text is
//! shown escaped.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::binary::{Folder, command, ended, has, on_hub, refusal, refused, words};
use crate::support::embedded;
use crate::support::hub::{FakeHub, Files, Repository};
use crate::support::server::serve;
use serde_json::{Value, json};

fn own_file(name: &str) -> Vec<u8> {
    embedded::files().remove(name).expect("a file of the embedded model")
}

/// A Hub with these repositories, each a list of files, whose ETags would be paths.
fn hub(repositories: Vec<(&str, Files)>) -> FakeHub {
    let models = repositories.into_iter().map(|(id, files)| Repository::new("models", id, files));
    FakeHub::with_fault(models.collect(), |_, (status, headers, body)| {
        let etag =
            "ETag: \"../../../../../escaped\"\r\nX-Linked-Etag: \"../../../../../escaped\"\r\n";
        (status, etag.to_owned() + &headers, body)
    })
}

fn with_hub(endpoint: &str, home: &Folder, line: &str) -> (bool, String) {
    ended(on_hub(endpoint, Path::new(&home.path("home"))).args(words(line)))
}

/// A configuration of an adapter, and what stands for its weights.
fn adapter(base: &str) -> Files {
    let config =
        json!({"peft_type": "LORA", "base_model_name_or_path": base, "r": 4, "lora_alpha": 8});
    Files::from([
        ("adapter_config.json".to_owned(), config.to_string().into_bytes()),
        ("adapter_model.safetensors".to_owned(), own_file("model.safetensors")),
    ])
}

fn files_of(names: &[&str], index: &Value) -> Files {
    let mut files: Files = names.iter().map(|name| ((*name).to_owned(), own_file(name))).collect();
    files.insert("model.safetensors.index.json".to_owned(), index.to_string().into_bytes());
    files
}

#[test]
fn a_repository_overwrites_no_file_whatever_its_index_names() {
    let folder = Folder::new();
    let victim = folder.write("victim", "precious");
    let home = folder.path("home/hub/models--evil--model/snapshots");
    let small =
        ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"];
    for name in [victim.as_str(), "../../../../../../victim", "..\\victim", "a/../../victim"] {
        let evil = files_of(&small, &json!({"weight_map": {"lm_head.weight": name}}));
        let hub = hub(vec![("evil/model", evil), ("evil/adapter", adapter("evil/model"))]);
        let output = folder.path("out");
        for line in [
            format!("eval --model evil/model --output {output}"),
            "train --model evil/model --dry-run".into(),
            format!("eval --model evil/adapter --output {output}"),
        ] {
            let (is_ok, stderr) = with_hub(&hub.endpoint, &folder, &line);
            assert!(!is_ok, "{name}");
            has(&stderr, &["is not a plain relative file name"]);
            assert_eq!(std::fs::read(&victim).expect("there"), b"precious");
            assert!(!std::fs::symlink_metadata(&victim).expect("there").is_symlink());
        }
        // Nothing was written outside the cache either, for all the ETag says.
        let stray = std::fs::read_dir(folder.0.path()).expect("readable").flatten();
        for name in stray.map(|entry| entry.file_name().into_string().expect("text")) {
            assert!(["victim", "home", "out"].contains(&name.as_str()), "{name}");
        }
        std::fs::remove_dir_all(folder.path("home")).expect("removed");
    }
    assert!(!Path::new(&home).exists());
    // The same on disk, where nothing is downloaded.
    let place = embedded::copied(&folder, "local", &[]);
    std::fs::remove_file(format!("{place}/model.safetensors")).expect("removed");
    let index = json!({"weight_map": {"x": victim}}).to_string();
    folder.write("local/model.safetensors.index.json", index);
    refused!("eval --model {place} --output {}", folder.path("o") => "plain relative");
}

#[test]
fn an_adapter_from_the_hub_names_no_directory_and_never_itself() {
    let folder = Folder::new();
    let inside = embedded::copied(&folder, "private", &[]);
    let hub = hub(vec![("evil/local", adapter(&inside)), ("evil/self", adapter("evil/self"))]);
    let output = folder.path("out");
    for (model, why) in [("local", "no model of the Hub's"), ("self", "names itself")] {
        let line = format!("eval --model evil/{model} --output {output}");
        let (is_ok, stderr) = with_hub(&hub.endpoint, &folder, &line);
        assert!(!is_ok && stderr.contains(why), "{stderr}");
    }
    // On disk: itself by another spelling, and two that name each other.
    let (one, two) = (folder.path("one"), folder.path("two"));
    for (own, base) in [(&one, format!("{two}/../two")), (&two, one.clone())] {
        std::fs::create_dir_all(own).expect("a folder");
        let config = adapter(&base).remove("adapter_config.json").expect("a file");
        std::fs::write(format!("{own}/adapter_config.json"), config).expect("written");
    }
    refused!("eval --model {one} --output {output}" => "is an adapter itself");
}

#[test]
fn declared_sizes_are_checked_before_allocation() {
    let folder = Folder::new();
    // A header that promises more than the file holds, and one that is too long itself.
    let tensor = json!({"model.embed_tokens.weight": {"dtype": "F32", "shape": [1u64 << 40, 1u64 << 20], "data_offsets": [0, 1u64 << 62]}});
    let header = tensor.to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    let place = embedded::copied(&folder, "header", &[("model.safetensors", bytes)]);
    refusal(command!("eval --model {place} --output {}", folder.path("o")));
    let long = ("model.safetensors", u64::MAX.to_le_bytes().to_vec());
    let place = embedded::copied(&folder, "long", &[long]);
    refused!("eval --model {place} --output {}", folder.path("o") => "safetensors");
}

#[test]
fn a_chat_template_neither_eats_memory_nor_goes_on_for_ever() {
    let folder = Folder::new();
    let question = folder.write("q.jsonl", "{\"question\":\"1+1?\",\"answer\":\"2\"}\n");
    let grow = |step: &str| {
        format!(
            "{{% set ns = namespace(x='aaaaaaaa') %}}{{% for i in range(60) %}}{{% set ns.x = {step} %}}{{% endfor %}}{{{{ ns.x|length }}}}"
        )
    };
    for source in [
        grow("ns.x ~ ns.x"),
        grow("ns.x|replace('a', 'aa')"),
        grow("ns.x.replace('a', 'aaaa')"),
        grow("(ns.x ~ '\\n' ~ ns.x)|indent(1000)"),
        grow("ns.x|tojson ~ ns.x|tojson"),
        grow("'%s%s' % (ns.x, ns.x)"),
        grow("'%s%s'|format(ns.x, ns.x)"),
        grow("[ns.x, ns.x]|join('x')"),
        "{% for i in range(100) %}{{ 'x' * 90000000 }}{% endfor %}".into(),
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}".into(),
    ] {
        let template = ("chat_template.jinja", source.clone().into_bytes());
        let place = embedded::copied(&folder, "template", &[template]);
        let started = Instant::now();
        refused!("eval --model {place} --dataset {question} --output {}", folder.path("o") => "chat template");
        assert!(started.elapsed() < Duration::from_secs(60), "{source}");
    }
}

#[test]
fn an_engines_answer_has_a_limit() {
    let folder = Folder::new();
    // 64 MB where some kilobytes were asked for.
    let endless = serve(|asked| match asked.path.as_str() {
        "/v1/models" => (200, String::new(), b"{\"data\":[]}".to_vec()),
        _ => (200, String::new(), vec![b'x'; 64 << 20]),
    });
    refused!(
        "eval --engine {endless} --model m -n 1 -k 1 --max-samples 1 --engine-kwargs retries=0 --max-completion-length 16 --output {}", folder.path("o")
        => "larger than", "the limit"
    );
}
