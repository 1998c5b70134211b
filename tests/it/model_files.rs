//! Models and adapters as people publish them: templates in every place, an output layer that differs from tied
//! embeddings, adapters with a tokenizer of their own or a changed base, rows that are too long.

use std::path::Path;

use serde_json::json;
use tealight::nn::model::weights;
use tealight::nn::tokenizer::{HubTokenizer, TemplateDate, Tokenizer};
use tealight_core::{Message, Prompt};

use crate::support::binary::{Folder, command, has, ok, printed, refusal, refused};
use crate::support::chat_model::ChatModel;
use crate::support::runs::json;
use crate::support::{apart, load, root};

fn rendered(path: &str) -> String {
    let tokenizer = HubTokenizer::load(Path::new(path)).expect("a tokenizer");
    tokenizer.render(&Prompt::chat([Message::user("Hi")])).expect("a chat")
}

/// What a model writes, with its log-probability.
fn written(model: &ChatModel) -> String {
    let how = "--raw --temperature 0 --max-completion-length 8 --json Hi";
    printed(command!("generate --model {} {how}", model.path))
}

/// A dataset of one question.
pub(crate) fn question(folder: &Folder) -> String {
    folder.write("q.jsonl", "{\"question\":\"1+1\",\"answer\":\"2\",\"solution\":\"2\"}\n")
}

#[test]
fn templates_are_found_where_transformers_finds_them() {
    let folder = Folder::new();
    let model = ChatModel::new(&folder, "model");
    std::fs::remove_file(model.file("chat_template.jinja")).expect("removed");
    assert_eq!(rendered(&model.path), "Hi\n\n");
    let old = json!({"chat_template": "old {{ messages[0].content }}"});
    model.write("chat_template.json", &old.to_string());
    assert_eq!(rendered(&model.path), "old Hi");
    model.change("tokenizer_config.json", |config| config["chat_template"] = json!("config"));
    assert_eq!(rendered(&model.path), "config");
    let several = json!([{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "default"}]);
    model.change("tokenizer_config.json", |config| config["chat_template"] = several);
    assert_eq!(rendered(&model.path), "default");
    model.change("tokenizer_config.json", |config| {
        config["chat_template"] = json!({"tool_use": "{{ tools[0].name }}", "default": "default"});
    });
    assert_eq!(rendered(&model.path), "default");
    let row = r#"{"prompt":[{"role":"user","content":"1"}],"answer":"2","tools":[{"name":"add"}]}"#;
    let tools = folder.write("tools.jsonl", row);
    let more = format!("--dataset {tools} --instruction= --device cpu --max-completion-length 4");
    let shown = printed(command!("train --dry-run --model {} {more}", model.path));
    assert!(shown.contains("add"), "{shown}");
    std::fs::create_dir(model.file("additional_chat_templates")).expect("a folder");
    model.write("additional_chat_templates/rag.jinja", "rag");
    assert_eq!(rendered(&model.path), "default");
    model.write("additional_chat_templates/default.jinja", "additional");
    assert_eq!(rendered(&model.path), "additional");
    model.write("chat_template.jinja", "file");
    assert_eq!(rendered(&model.path), "file");
    let out = folder.path("out");
    ok(command!("export --model {} --device cpu --output {out}", model.path));
    assert_eq!(rendered(&out), "file");
    let rag = std::fs::read_to_string(format!("{out}/additional_chat_templates/rag.jinja"));
    assert_eq!(rag.expect("saved too"), "rag");
}

#[test]
fn a_template_that_is_given_replaces_all_others_and_is_saved() {
    let folder = Folder::new();
    let model = ChatModel::new(&folder, "model");
    model.change("tokenizer_config.json", |config| config["chat_template"] = json!("config"));
    model.write("chat_template.json", "{\"chat_template\": \"old\"}");
    let template = folder.write(
        "t.jinja",
        "Q: {{ messages[0].content }} A: {% generation %}{{ messages[1].content if messages[1] is defined }}<|im_end|>\
         {% endgeneration %}",
    );
    let data = question(&folder);
    let more =
        format!("--model {} --dataset {data} --chat-template {template} --device cpu", model.path);
    let shown = printed(command!("train --dry-run {more} --max-completion-length 4"));
    assert!(shown.contains("Q: 1+1") && shown.contains("chat_template = "), "{shown}");
    let run = folder.path("run");
    ok(command!("sft {more} --max-steps 1 --batch-size 1 --output {run}"));
    ok(command!(
        "eval {more} -n 2 -k 1 --max-completion-length 4 --no-greedy --output {}",
        folder.path("eval")
    ));
    let request = json(format!("{}/request.json", folder.path("eval")));
    assert!(request["chat_template"].as_str().is_some_and(|text| text.starts_with("Q: ")));
    let exported = folder.path("exported");
    ok(command!(
        "export --model {} --chat-template {template} --device cpu --output {exported}",
        model.path
    ));
    for saved in [format!("{run}/final"), exported] {
        assert!(rendered(&saved).starts_with("Q: Hi A: "), "{saved}");
        assert!(!Path::new(&saved).join("chat_template.json").exists());
        assert!(json(format!("{saved}/tokenizer_config.json")).get("chat_template").is_none());
    }
    // A run goes on with its own template alone.
    let other =
        folder.write("other.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}<|im_end|>");
    let more = format!("--chat-template {other} --device cpu --max-steps 2 --batch-size 1");
    let message = refusal(command!(
        "sft --model {} --dataset {data} {more} --output {run} --resume --save-steps 1",
        model.path
    ));
    assert!(message.contains("no checkpoint") || message.contains("chat_template"), "{message}");
    refused!(
        "eval --engine http://127.0.0.1:9 --model {} --dataset {data} --chat-template {template}", model.path
        => "--chat-template"
    );
}

#[test]
fn a_run_has_one_date_which_is_recorded_and_kept() {
    let folder = Folder::new();
    let model = ChatModel::new(&folder, "model");
    model.write(
        "chat_template.jinja",
        "{{ strftime_now('%Y-%m-%d') }} {% for m in messages %}{{ m.content }}{% endfor %}<|im_end|>",
    );
    let data = question(&folder);
    let run = folder.path("run");
    let more = "--max-steps 1 --batch-size 1 --save-steps 1 --device cpu";
    ok(command!(
        "sft --model {} --dataset {data} {more} --template-kwargs strftime_now=2024-02-29 --output {run}",
        model.path
    ));
    let settings =
        |run: &str| std::fs::read_to_string(format!("{run}/config.toml")).expect("settings");
    let date = |day: &str| format!("template_kwargs = [\"strftime_now={day}\"]");
    has(&settings(&run), &[date("2024-02-29")]);
    // By the run's folder, and by its name in --output: another day does not change it.
    ok(command!("sft --resume {run} --model {} --dataset {data} --max-steps 2", model.path));
    ok(command!(
        "sft --model {} --dataset {data} --max-steps 3 --batch-size 1 --save-steps 1 --device cpu --output {run} \
         --resume",
        model.path
    ));
    has(&settings(&run), &[date("2024-02-29")]);
    refused!(
        "sft --resume {run} --model {} --dataset {data} --max-steps 4 --template-kwargs strftime_now=2024-03-01", model.path
        => "--template-kwargs strftime_now was"
    );
    // Today, unless another is given.
    let fresh = folder.path("fresh");
    let before = TemplateDate::today();
    ok(command!("sft --model {} --dataset {data} {more} --output {fresh}", model.path));
    let days = [before, TemplateDate::today()].map(|day| date(&day.to_string()));
    assert!(days.iter().any(|day| settings(&fresh).contains(day)), "{}", settings(&fresh));
    refused!(
        "generate --model {} --template-kwargs strftime_now=2024-02-30 Hi", model.path
        => "YYYY-MM-DD"
    );
}

#[test]
fn a_stored_output_layer_that_differs_from_tied_embeddings_is_used_and_saved() {
    let folder = Folder::new();
    let model = ChatModel::new(&folder, "model");
    let tied = load(&model.path);
    let mut stored = tied.weights.clone();
    let embedding = stored["model.embed_tokens.weight"].clone();
    let file = Path::new(&model.path).join("model.safetensors");
    // Stored as it is tied: nothing changes.
    stored.insert("lm_head.weight".into(), embedding.clone());
    weights::save(&stored, &file).expect("saved");
    assert!(load(&model.path).architecture.tied_embeddings);
    let head = embedding.affine(0.5, 0.01).expect("another layer");
    stored.insert("lm_head.weight".into(), head.clone());
    weights::save(&stored, &file).expect("saved");
    let untied = load(&model.path);
    assert!(!untied.architecture.tied_embeddings);
    assert_eq!(apart(&untied.weights["lm_head.weight"], &head), 0.0);
    let out = folder.path("out");
    let stderr = ok(command!("export --model {} --device cpu --output {out}", model.path));
    assert!(stderr.contains("differs from the embedding"), "{stderr}");
    assert_eq!(json(format!("{out}/config.json"))["tie_word_embeddings"], json!(false));
    assert_eq!(apart(&load(&out).weights["lm_head.weight"], &head), 0.0);
}

#[test]
fn weights_are_read_under_every_name_that_they_are_saved_under() {
    let folder = Folder::new();
    let model = ChatModel::new(&folder, "model");
    let (whole, expected) = (load(&model.path).weights, written(&model));
    let file = Path::new(&model.path).join("model.safetensors");
    let head = |name: &str| name.replace("model.embed_tokens", "lm_head");
    for rename in [&head as &dyn Fn(&str) -> String, &|name| name.replace("model.", "")] {
        let renamed = whole.iter().map(|(name, weight)| (rename(name), weight.clone()));
        weights::save(&renamed.collect(), &file).expect("saved");
        assert_eq!(written(&model), expected);
    }
    let refused = |part: &str| {
        refused!("export --model {} --device cpu --output {}", model.path, folder.path("out") => part);
    };
    let wrapped = whole.iter().map(|(name, weight)| (format!("_orig_mod.{name}"), weight.clone()));
    weights::save(&wrapped.collect(), &file).expect("saved");
    refused("torch.compile");
    weights::save(&whole, &file).expect("saved");
    model.change("tokenizer_config.json", |config| {
        config["add_prefix_space"] = json!(false);
        config["tokenizer_class"] = json!("LlamaTokenizer");
    });
    assert_eq!(written(&model), expected);
    model.change("tokenizer.json", |file| {
        file["normalizer"] = json!({"type": "Prepend", "prepend": "_"});
    });
    refused("add_prefix_space is false");
    std::fs::remove_file(Path::new(&model.path).join("tokenizer.json")).expect("removed");
    refused("save_pretrained");
    std::fs::rename(&file, file.with_file_name("model-2.safetensors")).expect("renamed");
    let index =
        "{\"weight_map\": {\"a\": \"model-1.safetensors\", \"b\": \"model-2.safetensors\"}}";
    model.write("model.safetensors.index.json", index);
    refused("model-1.safetensors is missing");
}

#[test]
fn numbers_that_16_bits_do_not_hold_are_refused_by_name() {
    let folder = Folder::new();
    let model = ChatModel::new(&folder, "model");
    let mut weights = load(&model.path).weights;
    let name = "model.layers.1.mlp.down_proj.weight";
    let large = weights[name].affine(1.0, 70_000.0).expect("large numbers");
    weights.insert(name.into(), large);
    weights::save(&weights, &Path::new(&model.path).join("model.safetensors")).expect("saved");
    let export = format!("export --model {} --device cpu --output", model.path);
    for kind in ["--save-dtype float16", "--gguf f16"] {
        refused!("{export} {} {kind}", folder.path("half") => name, "65504");
    }
    ok(command!("{export} {} --save-dtype bfloat16", folder.path("other")));
}

#[test]
fn a_model_from_scratch_names_the_defaults_that_it_was_made_with() {
    let folder = Folder::new();
    let model = ChatModel::new(&folder, "model");
    let left_out = ["num_key_value_heads", "rms_norm_eps", "hidden_act", "tie_word_embeddings"];
    model.change("config.json", |config| {
        let config = config.as_object_mut().expect("an object");
        left_out.iter().for_each(|key| drop(config.shift_remove(*key)));
    });
    let (data, out) = (question(&folder), folder.path("out"));
    let line =
        format!("sft --from-scratch {} --tokenizer {}", model.file("config.json"), model.path);
    ok(command!(
        "{line} --dataset {data} --max-steps 1 --batch-size 1 --output {out} --device cpu"
    ));
    let saved = json(format!("{out}/final/config.json"));
    for key in left_out {
        assert!(!saved[key].is_null(), "{key}: {saved}");
    }
}

#[test]
fn a_step_with_fewer_prompts_than_asked_says_so() {
    let folder = Folder::new();
    let model = ChatModel::new(&folder, "model");
    let (data, out) = (question(&folder), folder.path("out"));
    let how = "--prompts-per-step 3 --num-generations 2 --max-steps 1 --max-completion-length 2";
    let line = format!("train --model {} --dataset {data} {how}", model.path);
    let messages = ok(command!("{line} --output {out} --device cpu"));
    has(&messages, &["each step uses the whole dataset, 1 prompt, fewer than"]);
}

#[test]
fn adapters_on_a_base_that_was_changed_are_refused_with_the_way_out() {
    let folder = Folder::new();
    let source = root().join("tests/fixtures/peft/lora");
    let adapter = folder.path("adapter");
    std::fs::create_dir(&adapter).expect("a folder");
    for file in ["adapter_config.json", "adapter_model.safetensors"] {
        std::fs::copy(source.join(file), format!("{adapter}/{file}")).expect("copied");
    }
    let with = |value: serde_json::Value| {
        let mut config = json(source.join("adapter_config.json"));
        config["init_lora_weights"] = value;
        folder.write("adapter/adapter_config.json", config.to_string());
        let out = folder.path("out");
        format!(
            "export --model countdown --adapter {adapter} --merge --device cpu --overwrite --output {out}"
        )
    };
    for method in ["pissa", "pissa_niter_16", "olora", "corda", "loftq", "lora_ga", "PiSSA"] {
        let message = refusal(&with(json!(method)));
        has(&message, &[&*format!("\"{method}\""), "path_initial_model_for_weight_conversion"]);
    }
    for plain in [json!(true), json!(false), json!("gaussian"), json!("eva"), json!(null)] {
        ok(&with(plain));
    }
}

#[test]
fn an_adapters_tokenizer_and_template_win_and_are_merged() {
    let folder = Folder::new();
    let model = ChatModel::new(&folder, "model");
    let data = question(&folder);
    let run = folder.path("run");
    ok(command!(
        "sft --model {} --dataset {data} --use-peft --lora-r 2 --max-steps 1 --batch-size 1 --device cpu \
         --output {run}",
        model.path
    ));
    let adapter = format!("{run}/final");
    folder.write(
        "run/final/chat_template.jinja",
        "adapter: {{ messages[0].content }}<|unk|>{{ messages[1].content if messages[1] is defined }}<|unk|>",
    );
    let mut config = json(format!("{adapter}/tokenizer_config.json"));
    config["eos_token"] = json!("<|unk|>");
    folder.write("run/final/tokenizer_config.json", config.to_string());
    let loaded = load(&adapter);
    assert_eq!(loaded.tokenizer.eos(), [1, 4]);
    let merged = folder.path("merged");
    ok(command!("export --model {adapter} --merge --device cpu --output {merged}"));
    assert!(rendered(&merged).starts_with("adapter: Hi"), "{}", rendered(&merged));
    assert_eq!(json(format!("{merged}/tokenizer_config.json"))["eos_token"], json!("<|unk|>"));
    // A template alone goes with the base's tokenizer.
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::remove_file(format!("{adapter}/{file}")).expect("removed");
    }
    let loaded = load(&adapter);
    assert_eq!(loaded.tokenizer.eos(), [1, 3, 4]);
    let text = loaded.tokenizer.render(&Prompt::chat([Message::user("Hi")])).expect("a chat");
    assert!(text.starts_with("adapter: Hi"), "{text}");
}

#[test]
fn rows_that_are_too_long_are_left_out_where_that_is_asked_for() {
    let folder = Folder::new();
    let model = ChatModel::new(&folder, "model");
    let row =
        |question: &str| json!({"question": question, "answer": "2", "solution": "2"}).to_string();
    let long = "1 + ".repeat(400);
    let rows = [row("1 + 1"), row(&long), row("2 + 0"), row(&long)].join("\n");
    let data = folder.write("rows.jsonl", rows);
    let base = format!("--model {} --dataset {data} --device cpu", model.path);
    let commands = [
        (
            "train",
            "--max-completion-length 8 --max-steps 1 --num-generations 2 --prompts-per-step 2",
        ),
        ("eval", "-n 2 -k 1 --no-greedy --max-completion-length 8"),
        ("eval", "-n 2 -k 1 --no-greedy"),
        ("sft", "--max-steps 1 --batch-size 2"),
    ];
    for (index, (name, more)) in commands.into_iter().enumerate() {
        let output = folder.path(&format!("out{index}"));
        let line = format!("{name} {base} {more} --output {output}");
        refused!("{line}" => "fit the model's context of 512", "--filter-overlong-prompts");
        has(&ok(command!("{line} --filter-overlong-prompts")), &["2 of 4 rows left out"]);
    }
    let study = folder.path("study");
    let stderr = ok(command!(
        "study {base} --test-dataset {} --objectives grpo --max-steps 1 --prompts-per-step 2 --num-generations 2 -n 2 \
         -k 1 --max-completion-length 8 --filter-overlong-prompts --output {study}",
        folder.write("test.jsonl", [row("3 + 1"), row(&(long.clone() + "9"))].join("\n"))
    ));
    assert!(stderr.contains("2 of 4 rows") && stderr.contains("1 of 2 rows"), "{stderr}");
    let all = folder.write("all.jsonl", row(&long));
    refused!(
        "eval --model {} --dataset {all} -n 1 -k 1 --device cpu --filter-overlong-prompts", model.path
        => "no row is short enough"
    );
}
