//! What rows and messages say besides texts: thoughts, calls of tools, variables of the template, turns not learned.

use serde_json::json;

use crate::support::binary::{Folder, command, ok, refused};
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
fn loss(folder: &Folder, name: &str, template: &str, row: &str, more: &str) -> (f64, String) {
    let model = ChatModel::new(folder, &format!("{name}-model"));
    model.write("chat_template.jinja", template);
    let rows = folder.write(&format!("{name}.jsonl"), row);
    let out = folder.path(name);
    let line = format!("sft --model {} --dataset {rows} --batch-size 1 --max-steps 1", model.path);
    let stderr = ok(command!("{line} --output {out} {more}"));
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
    let loss = |name: &str, reply: &str, more: &str, options: &str| {
        loss(&folder, name, THINKING, &row(reply, more), options).0
    };
    // The same text with the thought in a key or written out.
    let plain = loss("plain", r#""content": "B""#, "", "");
    let thought = loss("thought", r#""content": "B", "reasoning_content": "first""#, "", "");
    let written = loss("written", r#""content": "<think>\nfirst\n</think>\n\nB""#, "", "");
    assert!((thought - plain).abs() > 1e-3, "{thought} {plain}");
    // The template closes an empty thought before a text without the key, so that the written one is longer.
    assert!((thought - written).abs() > 1e-3, "{thought} {written}");
    // A variable of the row, and the same for all rows.
    let off = r#", "chat_template_kwargs": {"enable_thinking": false}"#;
    let by_row = loss("row", r#""content": "B""#, off, "");
    let thinking = |value: &str| format!("--template-kwargs enable_thinking={value}");
    let by_option = loss("option", r#""content": "B""#, "", &thinking("False"));
    assert_eq!(by_row, by_option);
    assert!((by_row - plain).abs() > 1e-3, "{by_row} {plain}");
    let on = loss("on", r#""content": "B""#, off, &thinking("true"));
    assert_eq!(on, plain, "the option is of all rows");
    // Tools are in the prompt, and calls are learned without a text.
    let call = r#""tool_calls": [{"function": {"name": "add"}}]"#;
    let calls = loss("calls", call, "", "");
    let with_tools = loss("tools", call, r#", "tools": [{"name": "add"}]"#, "");
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
        let rows = folder.write("rows.jsonl", row(reply, more));
        let out = folder.path("out");
        refused!("sft --model {} --dataset {rows} --output {out}", model.path => name);
    }
    for (given, name) in [
        ("enable_thinking=false", "`enable_thinking`"),
        ("messages=[]", "`messages`"),
        ("thinking", "KEY=VALUE"),
    ] {
        refused!("generate A --model {} --template-kwargs {given}", model.path => name);
    }
}

#[test]
fn quantised_weights_are_named_with_their_method_and_plain_ones_read() {
    let folder = Folder::new();
    let model = ChatModel::new(&folder, "quantised");
    model.change("config.json", |config| {
        config["quantization_config"] = json!({"quant_method": "bitsandbytes"});
    });
    let out = folder.path("plain");
    ok(command!("export --model {} --output {out}", model.path));
    let saved = read_json(format!("{out}/config.json"));
    assert!(saved.get("quantization_config").is_none() && saved["head_dim"].is_u64(), "{saved}");
    model.change("config.json", |config| config["intermediate_size"] = json!(7));
    refused!("generate A --model {}", model.path => "quant_method bitsandbytes");
    let bin = model.file("pytorch_model.bin");
    std::fs::rename(model.file("model.safetensors"), bin).expect("renamed");
    refused!("generate A --model {}", model.path => "pytorch_model.bin", "save_pretrained");
}
