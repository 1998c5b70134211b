//! What ends a turn: the stop tokens of a model, the text without them, and what supervised fine-tuning learns to end
//! with.

use std::path::Path;

use serde_json::json;
use tealight::formats::gguf::GgufType;
use tealight::formats::pretrained::Pretrained;
use tealight::nn::tokenizer::{HubTokenizer, Tokenizer};
use tealight_core::{Message, Prompt};

use crate::model_files::question;
use crate::support::binary::{Folder, command, has, ok, printed, refused, words};
use crate::support::chat_model::{CHATML, ChatModel, END_OF_TEXT, END_OF_TURN};
use crate::support::load;

fn tokenizer(model: &ChatModel) -> HubTokenizer {
    HubTokenizer::load(Path::new(&model.path)).expect("a tokenizer")
}

fn chat(turns: &[(&str, &str)]) -> Prompt {
    Prompt::Chat(turns.iter().map(|(role, text)| Message::new(role, *text)).collect())
}

#[test]
fn stop_tokens_come_from_all_model_files() {
    let folder = Folder::new();
    let model = ChatModel::new(&folder, "model");
    assert_eq!(tokenizer(&model).eos(), [END_OF_TEXT, END_OF_TURN]);
    assert_eq!(tokenizer(&model).turn_end(), END_OF_TURN);
    // The template alone ends with it.
    model.change("tokenizer_config.json", |config| config["eos_token"] = json!("<|endoftext|>"));
    assert_eq!(tokenizer(&model).eos(), [END_OF_TEXT, END_OF_TURN]);
    assert_eq!(tokenizer(&model).end_of_text(), END_OF_TEXT);
    let data = question(&folder);
    let shown = printed(command!(
        "train --dry-run --model {} --dataset {data} --device cpu --max-completion-length 4",
        model.path
    ));
    let line = "a completion ends at: <|endoftext|> (1, by generation_config.json and eos_token), <|im_end|> (3, by \
                the chat template)";
    assert!(shown.contains(line), "{shown}");
    // A template that writes no token after a turn adds none, and one that cannot be rendered neither.
    for template in
        ["{% for m in messages %}{{ m.content }}\n{% endfor %}", "{{ raise_exception('no') }}"]
    {
        model.write("chat_template.jinja", template);
        assert_eq!(tokenizer(&model).eos(), [END_OF_TEXT]);
        assert_eq!(tokenizer(&model).turn_end(), END_OF_TEXT);
    }
}

#[test]
fn stop_tokens_leave_the_text_and_other_special_tokens_stay() {
    let folder = Folder::new();
    let model = ChatModel::new(&folder, "model");
    model.add_tokens(&[
        (101, "<answer>", true),
        (102, "</answer>", true),
        (103, "<think>", true),
        (104, "<|plain_end|>", false),
    ]);
    model.change("generation_config.json", |config| config["eos_token_id"] = json!([1, 104]));
    let tokenizer = tokenizer(&model);
    assert_eq!(tokenizer.eos(), [1, 104, 3]);
    let ids = tokenizer.encode_completion("<think>hm<answer>7</answer>").expect("ids");
    assert_eq!((ids[0], ids.len()), (103, 6));
    for end in [1, 3, 104] {
        let text = tokenizer.decode(&[&ids[..], &[end]].concat()).expect("a text");
        assert_eq!(text, "<think>hm<answer>7</answer>");
    }
    assert_eq!(tokenizer.decode_all(&[2, 3]).expect("a text"), "<|im_start|><|im_end|>");
}

#[test]
fn an_example_is_the_whole_chat_cut_where_the_answer_begins() {
    let folder = Folder::new();
    let model = ChatModel::new(&folder, "model");
    let encoder = tokenizer(&model);
    let prompt = chat(&[("system", "Add."), ("user", "7 + 7?")]);
    let example = encoder.encode_example(&prompt, "14", None).expect("an example");
    assert_eq!(example.prompt, encoder.encode_prompt(&prompt).expect("ids"));
    assert_eq!(encoder.decode_all(&example.completion).expect("a text"), "14<|im_end|>");
    // What the template writes before an answer belongs to the answer; its end of turn comes after white space.
    model.write(
        "chat_template.jinja",
        &CHATML.replace(
            "m.content + '<|im_end|>",
            "('<think>\\n\\n</think>\\n' if m.role == 'assistant' else '') + m.content|trim + '\\n<|im_end|>",
        ),
    );
    let example = tokenizer(&model).encode_example(&prompt, " 14 ", None).expect("an example");
    let text = tokenizer(&model).decode_all(&example.completion).expect("a text");
    assert_eq!(text, "<think>\n\n</think>\n14\n<|im_end|>");
    // A begun turn goes on.
    let begun = chat(&[("user", "7 + 7?"), ("assistant", "It is ")]);
    model.write("chat_template.jinja", CHATML);
    let example = tokenizer(&model).encode_example(&begun, "14.", None).expect("an example");
    let whole = [example.prompt, example.completion.clone()].concat();
    assert!(
        encoder.decode_all(&whole).expect("a text").ends_with("assistant\nIt is 14.<|im_end|>")
    );
    assert_eq!(encoder.decode_all(&example.completion).expect("a text"), "14.<|im_end|>");
    // A template that opens a thought for the next turn, but has none in one that is over.
    model.write(
        "chat_template.jinja",
        &CHATML.replace("'<|im_start|>assistant\\n'", "'<|im_start|>assistant\\n<think>\\n'"),
    );
    let example =
        tokenizer(&model).encode_example(&prompt, "hm</think>14", None).expect("an example");
    let text = encoder.decode_all(&example.completion).expect("a text");
    assert_eq!(text, "hm</think>14<|im_end|>");
    // Text that is no chat ends with the tokenizer's own end of sequence.
    let of_text = |encoder: &HubTokenizer| {
        let example = encoder.encode_example(&Prompt::Text("7+7=".into()), "14", None);
        encoder.decode_all(&example.expect("an example").completion).expect("a text")
    };
    assert_eq!(of_text(&encoder), "14<|im_end|>");
    model.change("tokenizer_config.json", |config| config["eos_token"] = json!("<|endoftext|>"));
    assert_eq!(of_text(&tokenizer(&model)), "14<|endoftext|>");
}

/// What is learned is what the template writes for the whole chat, wherever its generation prompt begins the turn.
#[test]
fn templates_that_begin_a_thought_are_learned_as_they_write_whole_chats() {
    const THOUGHT: &str = "<think>\nhm\n</think>\n\n14";
    let folder = Folder::new();
    let model = ChatModel::new(&folder, "model");
    let begun = CHATML.replace("assistant\\n'", "assistant\\n<think>\\n'");
    assert_ne!(begun, CHATML);
    let answer = |text: &str| {
        begun.replace("m.content", &format!("({text} if m.role == 'assistant' else m.content)"))
    };
    let thought = "(m.content.split('</think>')[0].split('<think>')[-1].strip() if '</think>' in m.content else '')";
    let last = "m.content.split('</think>')[-1]";
    // Qwen3.5 and GLM write the thought anew, an empty one for a plain answer; nemotron has no line feed in an empty
    // one; DeepSeek-R1 leaves it out.
    let anew = answer(&format!("'<think>\\n' ~ {thought} ~ '\\n</think>\\n\\n' ~ {last}.strip()"));
    let short = answer("('' if '</think>' in m.content else '<think></think>') ~ m.content");
    let without = answer(last);
    for (template, solution, start, learned) in [
        (&anew, THOUGHT, "<think>\n", "hm\n</think>\n\n14<|im_end|>"),
        (&anew, "14", "<think>\n", "\n</think>\n\n14<|im_end|>"),
        (&short, THOUGHT, "<think>\n", "hm\n</think>\n\n14<|im_end|>"),
        (&short, "14", "<think>", "</think>14<|im_end|>"),
        (&without, THOUGHT, "assistant\n", "\n\n14<|im_end|>"),
        (&without, "14", "assistant\n", "14<|im_end|>"),
        (&begun, "14", "assistant\n", "14<|im_end|>"),
    ] {
        model.write("chat_template.jinja", template);
        let tokenizer = tokenizer(&model);
        let prompt = chat(&[("user", "7 + 7?")]);
        let example = tokenizer.encode_example(&prompt, solution, None).expect("an example");
        let text = |ids: &[u32]| tokenizer.decode_all(ids).expect("a text");
        assert!(text(&example.prompt).ends_with(start), "{template}: {}", text(&example.prompt));
        assert_eq!(text(&example.completion), learned, "{template}");
        let lost = tokenizer.left_out(&prompt, solution, None).map_or(String::new(), |(it, _)| it);
        let expected = match start {
            "assistant\n" if solution == THOUGHT => "leaves out the thought of the answer",
            // A model is asked behind it.
            "assistant\n" => "writes `<think>` where it asks for an answer",
            _ => "",
        };
        assert!(lost.starts_with(expected) && lost.is_empty() == expected.is_empty(), "{lost}");
    }
    // A turn after another one of the assistant's is one of its own.
    model.write("chat_template.jinja", CHATML);
    let tokenizer = tokenizer(&model);
    let prompt = chat(&[("user", "7 + 7?"), ("assistant", "Well.")]);
    let turn = Message::new("assistant", "14");
    let example = tokenizer.encode_example(&prompt, "14", Some(&turn)).expect("an example");
    let text = tokenizer.decode_all(&example.prompt).expect("a text");
    assert!(text.ends_with("Well.<|im_end|>\n<|im_start|>assistant\n"), "{text}");
}

#[test]
fn what_a_template_leaves_out_is_named_with_its_file() {
    let folder = Folder::new();
    let model = ChatModel::new(&folder, "model");
    let deaf = CHATML.replace("m.content", "(m.content if m.role == 'user' else '')");
    model.write("chat_template.jinja", &deaf);
    let encoder = tokenizer(&model);
    let error = encoder.encode_example(&chat(&[("user", "7 + 7?")]), "14", None);
    let error = error.expect_err("is refused").to_string();
    assert!(error.contains("leaves `content` out of the turn"), "{error}");
    let asked = chat(&[("system", "Add."), ("user", "7 + 7?")]);
    let (what, file) = encoder.left_out(&asked, "", None).expect("a loss");
    assert_eq!((&*what, file), ("leaves out a message of the system", "chat_template.jinja"));
    // What is asked is never learned.
    let other =
        CHATML.replace("m.content", "((m.content if add_generation_prompt else 'x' ~ m.content))");
    model.write("chat_template.jinja", &other);
    let error = tokenizer(&model).encode_example(&chat(&[("user", "7 + 7?")]), "14", None);
    let error = error.expect_err("is refused").to_string();
    assert!(error.contains("a part of the question would be learned"), "{error}");
    let failing = folder.write("failing.jinja", "{{ raise_exception('no') }}");
    let data = question(&folder);
    refused!(
        "sft --dry-run --model {} --dataset {data} --chat-template {failing}", model.path
        => "failing.jinja:1"
    );
}

#[test]
fn tokenizer_prefix_space_is_not_trained_on() {
    let folder = Folder::new();
    let model = ChatModel::new(&folder, "model");
    // SentencePiece's: a blank before every text, and pieces that begin with one.
    model.change("tokenizer.json", |tokenizer| {
        let vocabulary = tokenizer["model"]["vocab"].as_object_mut().expect("a map");
        for (id, piece) in (101..).zip(["\u{2581}", "14", "\u{2581}14"]) {
            vocabulary.insert(piece.into(), json!(id));
        }
        tokenizer["model"]["merges"] = json!(["1 4", "\u{2581} 14"]);
        tokenizer["normalizer"] = json!({"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u{2581}"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"}]});
        tokenizer["pre_tokenizer"] = json!(null);
        tokenizer["post_processor"] = json!(null);
        tokenizer["decoder"] = json!(null);
    });
    model.write(
        "chat_template.jinja",
        "{% for m in messages %}{% if m.role == 'user' %}[{{ m.content }}]{% else %}{{ m.content + eos_token }}{% endif %}\
         {% endfor %}",
    );
    let tokenizer = tokenizer(&model);
    assert_eq!(tokenizer.encode_completion("14").expect("ids"), [103], "alone it has the blank");
    let example =
        tokenizer.encode_example(&chat(&[("user", "7+7")]), "14", None).expect("an example");
    assert_eq!(example.completion, [102, END_OF_TURN]);
    assert_eq!(example.prompt, tokenizer.encode_prompt(&chat(&[("user", "7+7")])).expect("ids"));
}

/// Trains a model to answer one question with these words; the dataset and the run.
fn tuned_to_say(words: &str, folder: &Folder, model: &ChatModel) -> (String, String) {
    let row = json!({"question": "7 + 7?", "answer": "14", "solution": words});
    let (data, run) = (folder.write("one.jsonl", format!("{row}\n")), folder.path("tuned"));
    ok(command!(
        "sft --model {} --dataset {data} --instruction= --max-steps 100 --warmup-steps 0 --batch-size 1 --learning-rate 0.01 \
         --device cpu --output {run}",
        model.path
    ));
    (data, run)
}

#[test]
fn a_model_learns_to_end_its_turn_and_stops_there() {
    let folder = Folder::new();
    let model = ChatModel::new(&folder, "model");
    let (_, tuned) = tuned_to_say("14", &folder, &model);
    let line = format!(
        "generate --model {tuned}/final --json --temperature 0 --max-completion-length 8 --device cpu"
    );
    let shown = printed(&[&words(&line)[..], &["7 + 7?"]].concat());
    let row: serde_json::Value = shown.parse().expect("JSON");
    assert_eq!((&row["text"], &row["finish_reason"]), (&json!("14"), &json!("stop")));
    // What is saved names both ends, for programs that read one file alone.
    let saved = crate::support::runs::json(format!("{tuned}/final/generation_config.json"));
    assert_eq!(saved["eos_token_id"], json!([END_OF_TEXT, END_OF_TURN]));
}

#[test]
fn gguf_files_hold_every_stop_token() {
    let folder = Folder::new();
    let model = ChatModel::new(&folder, "model");
    let ids = |model: &Pretrained| {
        let mut ids = model.tokenizer.eos().to_vec();
        ids.sort_unstable();
        ids
    };
    for stops in [vec![1u32], vec![1, 4], vec![1, 4, 0]] {
        model.change("generation_config.json", |config| config["eos_token_id"] = json!(stops));
        let whole = load(&model.path);
        let place = folder.path("gguf");
        let path =
            whole.save_gguf(&whole.weights, GgufType::F32, Path::new(&place)).expect("a file");
        let file = tealight::formats::gguf::Gguf::open(&path).expect("a file");
        let int = |key: &str| match file.get(&format!("tokenizer.ggml.{key}_token_id")) {
            Some(tealight::formats::gguf::Value::Int(id)) => Some(*id),
            _ => None,
        };
        // The turn ends as the sequence does.
        let eot = stops.get(1).map(|id| i64::from(*id));
        assert_eq!((int("eos"), int("eot"), int("eom")), (Some(3), eot, Some(1)));
        let back = load(&path.display().to_string());
        assert_eq!(ids(&back), ids(&whole));
        // Padding has no text there, and none when it is read again.
        assert_eq!(back.architecture.output_size, 101);
    }
    model.change("tokenizer_config.json", |config| config["eos_token"] = json!("<|endoftext|>"));
    model.change("generation_config.json", |config| config["eos_token_id"] = json!(1));
    let whole = load(&model.path);
    let place = folder.path("gguf");
    let path = whole.save_gguf(&whole.weights, GgufType::F32, Path::new(&place)).expect("a file");
    let back = load(&path.display().to_string());
    assert_eq!(ids(&back), [1, 3], "the end of a turn is a key of its own");
    let modelfile = std::fs::read_to_string(format!("{place}/Modelfile")).expect("a Modelfile");
    has(&modelfile, &["stop \"<|im_end|>\"", "stop \"<|endoftext|>\""]);
}

#[test]
fn a_warning_names_an_end_of_turn_that_nothing_stops_at() {
    let folder = Folder::new();
    let model = ChatModel::new(&folder, "model");
    model.change("tokenizer_config.json", |config| config["eos_token"] = json!("<|endoftext|>"));
    model.write("chat_template.jinja", "{% for m in messages %}{{ m.content }}\n{% endfor %}");
    let (data, tuned) = tuned_to_say("14<|im_end|>", &folder, &model);
    // Cut before the end of sequence, after the end of turn.
    let short = "--instruction= --max-completion-length 3 --device cpu --temperature 0.1";
    let stderr =
        ok(command!("eval --model {tuned}/final --dataset {data} -n 4 -k 1 --no-greedy {short}"));
    has(&stderr, &["went on after an end of turn, `<|im_end|>`: add the token to eos_token_id"]);
    let stderr = ok(command!(
        "train --model {tuned}/final --dataset {data} --max-steps 1 --num-generations 4 {short} --output {}",
        folder.path("run")
    ));
    assert!(stderr.contains("went on after an end of turn, `<|im_end|>`"), "{stderr}");
}
