//! What rows and messages say besides texts: thoughts, calls of tools, variables of the template, turns not learned.

use serde_json::json;

use crate::support::binary::{Folder, ok, refusal};
use crate::support::chat_model::{CHATML, ChatModel};
use crate::support::runs::json as read_json;

/// ChatML with the traits of Qwen3's: thoughts, a closed thought where thinking is off, tools and their calls.
const THINKING: &str = "{% if tools %}{{ '<|im_start|>system\\n' + tools|tojson + '<|im_end|>\\n' }}{% endif %}\
     {% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}\
     {% if m.reasoning_content %}{{ '<think>\\n' + m.reasoning_content + '\\n</think>\\n\\n' }}\
     {% elif loop.last and m.role == 'assistant' %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}\
     {% if m.content is not none %}{{ m.content }}{% endif %}\
     {% for call in m.tool_calls %}{{ call.function|tojson }}{% endfor %}{{ '<|im_end|>\\n' }}{% endfor %}\
     {% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}\
     {% if enable_thinking is defined and enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}";

/// The loss of one step on rows that may have `more` options; what was said on standard error.
fn loss(folder: &Folder, name: &str, template: &str, row: &str, more: &[&str]) -> (f64, String) {
    let model = ChatModel::new(folder, &format!("{name}-model"));
    model.write("chat_template.jinja", template);
    let rows = folder.path(&format!("{name}.jsonl"));
    std::fs::write(&rows, row).expect("written");
    let out = folder.path(name);
    let steps = ["--batch-size", "1", "--max-steps", "1", "--output", &out];
    let base = ["sft", "--model", &model.path, "--dataset", &rows];
    let stderr = ok(&[&base[..], &steps, more].concat());
    (read_json(format!("{out}/metrics.jsonl"))["loss"].as_f64().expect("a loss"), stderr)
}

fn row(reply: &str, more: &str) -> String {
    format!(
        r#"{{"messages": [{{"role": "user", "content": "A"}}, {{"role": "assistant", {reply}}}]{more}}}"#
    )
}

#[test]
fn what_a_message_or_row_says_is_learned_and_read() {
    let folder = Folder::new();
    let loss = |name: &str, reply: &str, more: &str, options: &[&str]| {
        loss(&folder, name, THINKING, &row(reply, more), options).0
    };
    // The same text with the thought in a key or written out.
    let plain = loss("plain", r#""content": "B""#, "", &[]);
    let thought = loss("thought", r#""content": "B", "reasoning_content": "first""#, "", &[]);
    let written = loss("written", r#""content": "<think>\nfirst\n</think>\n\nB""#, "", &[]);
    assert!((thought - plain).abs() > 1e-3, "{thought} {plain}");
    // The template closes an empty thought before a text without the key, so that the written one is longer.
    assert!((thought - written).abs() > 1e-3, "{thought} {written}");
    // A variable of the row, and the same for all rows.
    let off = r#", "chat_template_kwargs": {"enable_thinking": false}"#;
    let by_row = loss("row", r#""content": "B""#, off, &[]);
    let by_option =
        loss("option", r#""content": "B""#, "", &["--template-kwargs", "enable_thinking=False"]);
    assert_eq!(by_row, by_option);
    assert!((by_row - plain).abs() > 1e-3, "{by_row} {plain}");
    let on = loss("on", r#""content": "B""#, off, &["--template-kwargs", "enable_thinking=true"]);
    assert_eq!(on, plain, "the option is of all rows");
    // Tools are in the prompt, and calls are learned without a text.
    let call = r#""tool_calls": [{"function": {"name": "add"}}]"#;
    let calls = loss("calls", call, "", &[]);
    let with_tools = loss("tools", call, r#", "tools": [{"name": "add"}]"#, &[]);
    assert!((calls - with_tools).abs() > 1e-3, "{calls} {with_tools}");
}

#[test]
fn what_cannot_be_honoured_is_refused_by_its_name() {
    let folder = Folder::new();
    let model = ChatModel::new(&folder, "model");
    model.write("chat_template.jinja", CHATML);
    let plain = r#""content": "B""#;
    for (reply, more, name) in [
        (r#""content": "B", "reasoning_content": "first""#, "", "`reasoning_content`"),
        (r#""tool_calls": [{"function": {"name": "add"}}]"#, "", "`tool_calls`"),
        (plain, r#", "tools": [{"name": "add"}]"#, "`tools`"),
        (plain, r#", "chat_template_kwargs": {"enable_thinking": false}"#, "`enable_thinking`"),
        (plain, r#", "chat_template_kwargs": 3"#, "`chat_template_kwargs`"),
        (r#""content": "B", "weight": 0"#, "", "no turn of the assistant is trained"),
        (r#""content": "B", "weight": 0.5"#, "", "`weight`"),
    ] {
        let rows = folder.path("rows.jsonl");
        std::fs::write(&rows, row(reply, more)).expect("written");
        let out = folder.path("out");
        let error = refusal(&["sft", "--model", &model.path, "--dataset", &rows, "--output", &out]);
        assert!(error.contains(name), "{name}: {error}");
    }
    for (given, name) in [
        ("enable_thinking=false", "`enable_thinking`"),
        ("messages=[]", "`messages`"),
        ("thinking", "KEY=VALUE"),
    ] {
        let error = refusal(&["generate", "A", "--model", &model.path, "--template-kwargs", given]);
        assert!(error.contains(name), "{name}: {error}");
    }
}

#[test]
fn a_config_key_that_is_not_honoured_ends_the_load() {
    let folder = Folder::new();
    for (key, value, name) in [
        ("rope_scaling", json!(3), "rope_scaling"),
        ("quantization_config", json!("awq"), "quantization_config"),
        ("a_key_of_next_year", json!(2), "a_key_of_next_year"),
    ] {
        let model = ChatModel::new(&folder, name);
        model.change("config.json", |config| config[key] = value);
        let error = refusal(&["generate", "A", "--model", &model.path]);
        assert!(error.contains(name), "{name}: {error}");
    }
    // Quantised weights are named with their method, plain ones beside the same key are read.
    let model = ChatModel::new(&folder, "quantised");
    model.change("config.json", |config| {
        config["quantization_config"] = json!({"quant_method": "bitsandbytes"});
    });
    let out = folder.path("plain");
    ok(&["export", "--model", &model.path, "--output", &out]);
    let saved = read_json(format!("{out}/config.json"));
    assert!(saved.get("quantization_config").is_none() && saved["head_dim"].is_u64(), "{saved}");
    model.change("config.json", |config| config["intermediate_size"] = json!(7));
    let error = refusal(&["generate", "A", "--model", &model.path]);
    assert!(error.contains("quant_method bitsandbytes"), "{error}");
    let bin = model.file("pytorch_model.bin");
    std::fs::rename(model.file("model.safetensors"), bin).expect("renamed");
    let error = refusal(&["generate", "A", "--model", &model.path]);
    assert!(error.contains("pytorch_model.bin") && error.contains("save_pretrained"), "{error}");
}
