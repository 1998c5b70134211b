//! The samples that evaluation harnesses and trainers write.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tealight_core::Prompt;
use tealight_datasets::python_list;

use super::fields::{self, first, first_golds, first_id, get, golds, id_of, prompt_of, text_of};
use super::lists::refuse_columns;
use super::{Format, Line, MAX_ANSWERS, PartialVerdict, hash};
use crate::completion::{Completion, Content, Ending, Reading, last_answer, reason, role_of};

/// What tells problems with one id apart: the prompt.
fn variant_of(prompt: Option<&Prompt>) -> Option<u64> {
    prompt.map(|prompt| hash([prompt.plain().trim()]))
}

/// A record of `format`, but for its completions.
fn record(id: Option<String>, golds: Vec<String>, prompt: Option<Prompt>) -> Line {
    Line { id, golds, variant: variant_of(prompt.as_ref()), prompt, ..Line::default() }
}

/// A completion of which nothing is said but its text.
fn text(text: Option<String>) -> Reading {
    Reading::from_text(text, Ending::Unknown)
}

/// lm-evaluation-harness, `samples_*.jsonl`: one line for each filter, each with all responses.
pub(super) fn lm_eval(value: &Value) -> Result<Line> {
    let name = Format::LmEval.name();
    let id = first_id(value, &["doc_id"]).with_context(|| format!("{name} without `doc_id`"))?;
    let responses = value["resps"].as_array().with_context(|| format!("{name} without `resps`"))?;
    // With a chat template the argument is a list with the messages as JSON.
    let argument = &value["arguments"]["gen_args_0"]["arg_0"];
    let argument = argument.get(0).filter(|one| one.is_string()).unwrap_or(argument);
    let messages = argument.as_str().filter(|text| text.starts_with("[{\"role\""));
    let messages = messages.and_then(|text| tealight_datasets::json::parse(text).ok());
    let prompt = messages.as_ref().and_then(prompt_of).or_else(|| prompt_of(argument));
    let mut line = record(Some(id), lm_eval_golds(value), prompt);
    line.variant = match (value["doc_hash"].as_str(), value.get("doc")) {
        (Some(of_document), _) => Some(hash([of_document])),
        (None, Some(document)) => Some(hash([document.to_string().as_str()])),
        (None, None) => line.variant,
    };
    line.filter = first(value, &["filter"]);
    line.sampling = sampling(&value["arguments"]["gen_args_0"]["arg_1"]);
    // Lines have no number: which runs they are of, `runs` says.
    line.run_text = Some(hash([value.to_string().as_str()]));
    let lists = responses.iter().flat_map(|item| match item {
        Value::Array(items) => items.as_slice(),
        other => std::slice::from_ref(other),
    });
    let call = &value["arguments"]["gen_args_0"];
    let is_rolling = call.get("arg_0").is_some() && call.get("arg_1").is_none();
    for response in lists.take(MAX_ANSWERS + 1) {
        let number = response.as_str().and_then(|text| text.parse::<f64>().ok());
        if is_rolling && number.is_some_and(|number| number <= 0.0) {
            bail!("{name} of log-likelihoods: a task of perplexity has no completions to judge");
        }
        if response.is_array() {
            bail!(
                "{name} of log-likelihoods: a task of multiple choice has no completions to judge"
            );
        }
        if !response.is_null() && !response.is_string() {
            bail!("{name} whose `resps` hold no text");
        }
        line.push(text(text_of(response)));
    }
    Ok(line)
}

/// How a harness asked for completions.
pub(super) fn sampling(settings: &Value) -> Vec<(&'static str, String)> {
    let number = |keys: &[&str]| keys.iter().find_map(|key| get(settings, key)?.as_f64());
    let greedy = get(settings, "do_sample").and_then(|one| (*one == false).then_some(0.0));
    let found = [
        ("temperature", greedy.or_else(|| number(&["temperature"]))),
        ("max_completion_length", number(&["max_gen_toks", "max_new_tokens", "max_tokens"])),
        ("top_p", number(&["top_p"])),
        ("top_k", number(&["top_k"])),
        ("min_p", number(&["min_p"])),
    ];
    found.into_iter().filter_map(|(key, value)| Some((key, value?.to_string()))).collect()
}

/// The verdicts of lm-eval where `found` is not one for each completion: its metric saw what the filter left of them.
/// That is the first completion (`take_first`), the first several, of which the metric is then the mean, or an answer
/// of no completion.
pub(super) fn lm_eval_verdicts(
    value: &Value,
    found: &Value,
    key: &str,
    line: &mut Line,
) -> Vec<Option<f64>> {
    let left = &value["filtered_resps"][0];
    let several = left.as_array().map_or(0, Vec::len).min(line.answers.len());
    let first = line.answers.first().map_or("", |answer| answer.text.as_str()).to_lowercase();
    let is_majority = line.filter.as_deref().is_some_and(|filter| filter.contains("maj"));
    // A pattern that finds nothing leaves `[invalid]` or another text in brackets.
    let is_of_first = left.as_str().map(str::trim).is_some_and(|left| {
        !is_majority && (left.starts_with('[') || first.contains(&left.to_lowercase()))
    });
    let is_mean = key.rsplit_once('@').is_none_or(|(_, k)| k == "1");
    let (partial, verdicts) = match found {
        Value::Array(all) if several > 0 && all.len() == several => {
            return fields::verdicts(found, several);
        }
        Value::Number(mean) if several > 0 => {
            let mean = mean.as_f64().filter(|mean| {
                let correct = mean * several as f64;
                is_mean && (0.0..=1.0).contains(mean) && (correct - correct.round()).abs() < 1e-6
            });
            let partial =
                if mean.is_some() { PartialVerdict::Mean } else { PartialVerdict::OfNone };
            (partial, vec![mean; several])
        }
        Value::Array(_) | Value::Object(_) => return Vec::new(),
        one if is_of_first => (PartialVerdict::OfFirst, fields::verdicts(one, 1)),
        _ => (PartialVerdict::OfNone, Vec::new()),
    };
    line.partial_verdict = Some(partial);
    verdicts
}

/// The gold answers of lm-eval, which writes a list as Python shows it: `['3', '3.0']`. A text that stands in the
/// document as it is, such as the interval `[0, 1]`, is one answer.
fn lm_eval_golds(value: &Value) -> Vec<String> {
    let golds = first_golds(value, &["target"]);
    if let [one] = golds.as_slice()
        && let Some(letter) = letter_of(one, &value["doc"])
    {
        return vec![letter];
    }
    let [one] = golds.as_slice() else { return golds };
    let is_text = |field: &Value| field.as_str().is_some_and(|text| text.contains(one.as_str()));
    let is_of_document = value["doc"].as_object().is_some_and(|doc| doc.values().any(is_text));
    match python_list::read(one) {
        Some(items) if !is_of_document && !items.is_empty() => items,
        _ => golds,
    }
}

/// The letter of the choice whose place, from 0, is `gold`, as prompts show the choices: where the document names the
/// choice too, or no choice reads as `gold` does.
fn letter_of(gold: &str, document: &Value) -> Option<String> {
    let lists = ["choices", "options", "endings"].iter().map(|key| &document[*key]);
    let mut lists = lists.filter_map(|list| list.as_array().or(list["text"].as_array()));
    let choices = lists.next()?;
    let place = gold.trim().parse::<u8>().ok()?;
    if usize::from(place) >= choices.len().min(26) {
        return None;
    }
    let labels = &document["choices"]["label"];
    let letter = labels[usize::from(place)].as_str().map(str::to_owned);
    let letter = letter.unwrap_or_else(|| char::from(b'A' + place).to_string());
    let names = ["answer", "answerKey", "answer_key", "answer_index", "gold", "label"];
    let is_named =
        names.iter().any(|key| document[*key] == place || document[*key] == letter.as_str());
    let is_text = choices.iter().any(|choice| choice.as_str() == Some(gold.trim()));
    (is_named || !is_text).then_some(letter)
}

/// The text of the choice that has this letter.
fn choice_of(letter: &str, choices: &Value) -> Option<String> {
    let [letter @ b'A'..=b'Z'] = letter.as_bytes() else { return None };
    choices.get(usize::from(letter - b'A')).and_then(text_of)
}

/// A sample of Inspect's log.
pub(super) fn inspect(value: &Value) -> Result<Line> {
    let name = Format::Inspect.name();
    let id =
        first_id(value, &["id"]).with_context(|| format!("{name} whose sample has no `id`"))?;
    let attached = |text: String| match text.strip_prefix("attachment://") {
        Some(key) => value["attachments"][key].as_str().map_or(text.clone(), str::to_owned),
        None => text,
    };
    let prompt = match prompt_of(&value["input"]) {
        Some(Prompt::Text(text)) => Some(Prompt::Text(attached(text))),
        other => other,
    };
    let mut line = record(Some(id), first_golds(value, &["target"]), prompt);
    line.sample = text_of(&value["epoch"]).map(|epoch| hash([epoch.as_str()]));
    // Shuffled for each log where the task says so.
    line.choice = line.golds.first().and_then(|gold| choice_of(gold, &value["choices"]));
    let has_error = !value["error"].is_null() && value["error"] != "";
    if value.get("output").is_none() && !has_error {
        bail!(
            "{name} whose sample has no `output` (an exported table of samples?): give the log itself"
        );
    }
    let errors = [&value["error"], &value["output"]["error"]];
    let error = errors.into_iter().find(|error| !error.is_null());
    let choices = value["output"]["choices"].as_array().map(Vec::as_slice).unwrap_or_default();
    match (choices, error) {
        (_, Some(error)) => line.answers.push(Completion::failed(reason(error))),
        ([], None) => {
            match value["output"]["completion"].as_str().filter(|text| !text.is_empty()) {
                Some(completion) => line.push(text(Some(completion.to_owned()))),
                None => line.answers.push(Completion::failed("the sample has no output".into())),
            }
        }
        // Several with `num_choices`, each of them a sample.
        (choices, None) => {
            for choice in choices.iter().take(MAX_ANSWERS + 1) {
                let mut reading = Reading::from_choice(choice).map_err(anyhow::Error::msg)?;
                reading.completion.text = attached(reading.completion.text);
                line.push(reading);
            }
            // An agent that submits its answer by a tool has more there, which scorers read.
            let whole = value["output"]["completion"].as_str().map(str::trim).unwrap_or_default();
            if let ([one], [choice]) = (line.answers.as_mut_slice(), choices)
                && !whole.is_empty()
                && whole != one.text.trim()
                && !choice["message"]["tool_calls"].is_null()
            {
                (one.text, one.failure) = (attached(whole.to_owned()), None);
            }
        }
    }
    Ok(line)
}

/// evalscope's review of a sample.
pub(super) fn evalscope_review(value: &Value) -> Result<Line> {
    let (name, scored) = (Format::EvalscopeReview.name(), &value["sample_score"]);
    let id = first_id(scored, &["group_id"]).or_else(|| first_id(value, &["index"]));
    let id = id.with_context(|| format!("{name} without `index`"))?;
    let messages = value["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let prompt = prompt_of(&value["messages"]).or_else(|| prompt_of(&value["input"]));
    let mut line = record(Some(id), first_golds(value, &["target"]), prompt);
    let index = first_id(scored, &["generation_index"]).or_else(|| first_id(value, &["index"]));
    line.sample = index.map(|index| hash([index.as_str()]));
    line.model = messages.last().and_then(|message| id_of(&message["model"]));
    let prediction = scored["score"]["prediction"].as_str().map(str::to_owned);
    line.push(text(last_answer(messages).text.or(prediction)));
    Ok(line)
}

/// evalscope's prediction, which has no gold answer.
pub(super) fn evalscope_prediction(value: &Value) -> Result<Line> {
    let id = first_id(value, &["index"]).context("`index` is no number")?;
    let mut line = record(Some(id), Vec::new(), prompt_of(&value["messages"]));
    line.model = id_of(&value["model_output"]["model"]);
    match value["model_output"]["choices"].as_array().map(Vec::as_slice) {
        Some([_, ..]) => line.push_response(&value["model_output"])?,
        _ => line.answers.push(Completion::failed(match &value["model_output"]["error"] {
            Value::Null => "the prediction has no output".into(),
            error => reason(error),
        })),
    }
    Ok(line)
}

/// A row of lighteval's details.
pub(super) fn lighteval(value: &Value) -> Result<Line> {
    let (name, document) = (Format::Lighteval.name(), &value["doc"]);
    let texts = value["model_response"]["text"].as_array().filter(|texts| !texts.is_empty());
    let texts = texts.with_context(|| {
        format!("{name} without `text` in `model_response`: only generated text is judged")
    })?;
    let indices: Vec<&Value> = match &document["gold_index"] {
        Value::Array(indices) => indices.iter().collect(),
        index => vec![index],
    };
    let choice = |index: &Value| {
        Some(golds(document["choices"].get(usize::try_from(index.as_u64()?).ok()?)?))
    };
    let golds: Vec<String> = indices.into_iter().filter_map(choice).flatten().collect();
    let mut line = record(first_id(document, &["id"]), golds, prompt_of(&document["query"]));
    if line.id.is_none() && line.prompt.is_none() {
        bail!("{name} without `id` and `query` in `doc`");
    }
    let task = document["task_name"].as_str().unwrap_or_default();
    let query = document["query"].as_str().unwrap_or_default();
    line.variant = Some(hash([task, query.trim()]));
    for one in texts.iter().take(MAX_ANSWERS + 1) {
        line.push(text(text_of(one)));
    }
    Ok(line)
}

/// OpenCompass: `key` is the number of the problem.
pub(super) fn opencompass(value: &Value, key: Option<&str>) -> Result<Line> {
    let id = key.map(str::to_owned).or_else(|| first_id(value, &["idx", "id"]));
    let prompt = prompt_of(&value["origin_prompt"]);
    let mut line = record(id, first_golds(value, &["gold"]), prompt);
    if line.id.is_none() && line.prompt.is_none() {
        bail!("{} without a number of its problem", Format::OpenCompass.name());
    }
    match &value["prediction"] {
        Value::Array(several) => {
            refuse_columns(value, several.len())?;
            several.iter().take(MAX_ANSWERS + 1).for_each(|one| line.push(text(text_of(one))))
        }
        one => line.push(text(text_of(one))),
    }
    Ok(line)
}

/// simple-evals: a conversation with its gold answer.
pub(super) fn simple_evals(value: &Value) -> Result<Line> {
    let messages = value["convo"].as_array();
    let messages = messages
        .with_context(|| format!("{} whose `convo` is no list", Format::SimpleEvals.name()))?;
    let mut line = conversation(messages)?;
    line.id = first_id(value, &["id", "example_id"]);
    line.golds = first_golds(value, &["correct_answer", "gold", "target"]);
    Ok(line)
}

/// A conversation alone: its prompt says which problem it is.
pub(super) fn conversation(messages: &[Value]) -> Result<Line> {
    let prompt = prompt_of(&Value::Array(messages.to_vec()));
    let prompt =
        prompt.context("a list that is no conversation: messages have `role` and `content`")?;
    let mut line = record(None, Vec::new(), Some(prompt));
    line.format = Format::SimpleEvals;
    line.push(Reading::new(last_answer(messages), Ending::Unknown));
    Ok(line)
}

/// Qwen2.5-Math's evaluation: `code` has the completions, `answer` is the dataset's.
pub(super) fn qwen_math(value: &Value) -> Result<Line> {
    let id = id_of(&value["idx"])
        .with_context(|| format!("{} without `idx`", Format::QwenMath.name()))?;
    let mut line =
        record(Some(id), first_golds(value, &["gt", "answer"]), prompt_of(&value["question"]));
    let reasons = &value["finish_reason"];
    for (index, one) in
        value["code"].as_array().into_iter().flatten().take(MAX_ANSWERS + 1).enumerate()
    {
        let ending = Ending::from_reason(reasons.get(index).unwrap_or(reasons));
        line.push(Reading::new(Content::read(one), ending));
    }
    Ok(line)
}

/// A rollout of verl's: the prompt says which problem it is.
pub(super) fn verl(value: &Value) -> Result<Line> {
    let prompt = prompt_of(&value["input"])
        .with_context(|| format!("{} without `input`", Format::Verl.name()))?;
    let mut line = record(None, first_golds(value, &["gts"]), Some(prompt));
    line.model = id_of(&value["step"]).map(|step| format!("step {step}"));
    line.push(text(text_of(&value["output"])));
    Ok(line)
}

/// An episode of the library `verifiers`, from its version 0.4 on: a task and what the agent did.
pub(super) fn verifiers_episode(value: &Value) -> Result<Line> {
    let (name, task) = (Format::VerifiersEpisode.name(), &value["task"]["data"]);
    let id = first_id(&value["task"], &["key"]).or_else(|| first_id(task, &["idx", "name"]));
    let golds = first_golds(task, &["answer", "info.answer", "info.ground_truth"]);
    let mut line = record(id, golds, prompt_of(&task["prompt"]));
    if line.id.is_none() && line.prompt.is_none() {
        bail!("{name} whose task has neither `key` nor `prompt`");
    }
    line.sample = text_of(&value["id"]).map(|id| hash([id.as_str()]));
    let traces = value["traces"].as_array().map(Vec::as_slice).unwrap_or_default();
    let trace = match traces {
        [] => &Value::Null,
        [one] => one,
        several => bail!(
            "{name} with {} agents: which of them answers is not known; give the completions as a file of your own",
            several.len()
        ),
    };
    line.model = id_of(&trace["agent"]["config"]["model"]);
    line.sampling = sampling(&trace["agent"]["config"]["sampling"]);
    // Those of earlier attempts stay where a later one succeeded.
    let errors = [&value["errors"], &trace["errors"]].into_iter().filter(|_| value["ok"] != true);
    let error = errors.into_iter().find_map(|errors| errors.get(0));
    let nodes = trace["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let answers = || {
        let sampled = nodes.iter().enumerate().filter(|(_, node)| node["sampled"] == true);
        sampled.filter(|(_, node)| role_of(&node["message"]) == Some("assistant")).rev()
    };
    // Branches of other agents may stand behind the root's.
    let root = &trace["root_reply"];
    let is_root =
        |(_, node): &(usize, &Value)| root.is_string() && node["message"]["content"] == *root;
    match (error, answers().find(is_root).or_else(|| answers().next())) {
        (Some(error), _) => line.answers.push(Completion::failed(reason(error))),
        (None, None) => line.answers.push(Completion::failed("nothing was sampled".into())),
        (None, Some((number, node))) => {
            let calls = trace["calls"].as_array().map(Vec::as_slice).unwrap_or_default();
            let call = calls.iter().find(|call| call["node"] == number).or(calls.last());
            let reason = call.map_or(&Value::Null, |call| &call["finish_reason"]);
            line.push(Reading::new(
                Content::of_message(&node["message"]),
                Ending::from_reason(reason),
            ));
        }
    }
    Ok(line)
}
