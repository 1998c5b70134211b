//! What a key is by the words of its name, whatever their case and what stands between them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::Value;
use tealight_datasets::read::words;

/// Words of which one says that a key holds the gold answer, alone or beside [`NEUTRAL`] ones.
const GOLD: &str = "\
    gold golden golds groundtruth groundtruths truth gt gts reference references ref refs expected ideal";
/// Those that say it beside another word only.
const GOLD_BESIDE: &str = "correct true standard std key target oracle right label labels";
/// Words that stand beside them.
const NEUTRAL: &str = "\
    ground truth truths answer answers ans output outputs solution solutions value text str response completion \
    option choice letter result label labels";
/// Names that may be the gold answer, or what a model said, or something else.
const MAYBE_GOLD: [&[&str]; 3] = [&["final", "answer"], &["labels"], &["key"]];

/// Words of what a question is about.
const PARTS: &str = "\
    choices choice options option endings passage passages context contexts image images picture figure diagram \
    audio video table tables premise premises hypothesis article document documents paragraph paragraphs story \
    background body facts evidence knowledge dialogue dialog conversation history code snippet schema sentence \
    sentence1 sentence2 tools functions hint numbers nums grid graph claim abstract constraints rules transcript \
    chart screenshot page statement statements email review";
/// Those that may also hold what a model wrote.
const SAID: &str = "code history conversation dialogue dialog";
/// Words of what a problem belongs to.
const SUBSETS: &str = "\
    lang language locale task dataset source subset category split subject benchmark domain suite testset topic \
    year exam contest competition collection corpus";
/// Words of how a sample was made.
const CONDITIONS: &str = "\
    config temperature effort shot shots fewshot template penalty quantization decoding dtype backend beams budget \
    engine deployment revision epoch policy agent variant method experiment";
/// Words of a model, and those that may stand beside them.
const MODEL: &str =
    "model models checkpoint checkpoints ckpt generator generators llm llms adapter adapters";
const MODEL_NAMES: &str =
    "name names id ids path paths version used source generation checkpoint ckpt adapter model";
/// Words of a text that a model wrote; of all of it; of who wrote it; of the working.
const WRITTEN: &str = "\
    output outputs response responses prediction predictions completion completions generation generations \
    solution solutions reply";
const ALL: &str = "raw full whole complete unparsed all";
const WRITER: &str = "model llm generated assistant text decoded predicted";
const WORKING: &str = "cot rationale reasoning trace chain of thought working";
/// Names that say whether a completion ended by itself, also by a number, and those of which yes or no alone says it.
const ENDED: &str =
    "is_finished finished is_complete completed is_reasoning_complete has_eos ended_with_eos";
const MAY_BE_ENDED: &str = "eos_reached hit_eos finished_naturally";
/// The same of one that was cut off.
const CUT: &str = "\
    is_truncated truncated was_truncated stopped_limit hit_limit hit_max_tokens hit_length_limit reached_max_tokens \
    cut_off clipped is_clipped";
const MAY_BE_CUT: &str =
    "cutoff incomplete is_incomplete unfinished overlong is_overlong over_length no_eos";
/// A key with a word of `PASSED` and one of `LIMIT` says that the completion was truncated (`length_exceeded`). Its
/// other words must be in `LIMITED`: prompts, tools, turns and costs have limits too.
const PASSED: &str = "exceeded exceeds exceed reached reaches hit";
const LIMIT: &str = "limit length max tokens";
const LIMITED: &str = "is was has the token new seq sequence completion output response generation";
/// Words of the name of a question, or of what holds one; names of other things have them as well.
const ASKING: &str = "\
    prompt question query problem task user human instruction input inputs message messages doc document item example \
    row request context chat data metadata info extra";
/// Words of what a program says of a problem or a sample.
const OTHER: &str = "\
    id ids idx index hash uid uuid num n count len length size tokens score scores time date model generated pred \
    predicted prediction extracted parsed output outputs response completion file path url description judge";

/// What a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The gold answer, and what may be.
    Gold,
    MaybeGold,
    /// A part of the question beside its text, and one that may as well be what a model wrote.
    Part,
    PartOrSaid,
    /// What the problem belongs to.
    Subset,
    /// How a sample was made, and the system's prompt, which may belong to the question.
    Condition,
    System,
    /// The model.
    Model,
    /// All of what the model wrote; what it wrote, of which other keys may have the answer; its working.
    Whole,
    Written,
    Working,
    /// Whether it ended by itself; whether it was cut off.
    Ended,
    Cut,
    Other,
}

/// What a key is by its name.
pub(super) fn kind(name: &str) -> Kind {
    /// Most names that are remembered, and bytes of one: records of a file share theirs.
    const MOST: (usize, usize) = (1024, 64);
    thread_local! {
        static KNOWN: RefCell<BTreeMap<String, Kind>> = RefCell::default();
    }
    KNOWN.with_borrow_mut(|known| {
        if let Some(kind) = known.get(name) {
            return *kind;
        }
        let kind = by_words(name);
        if known.len() < MOST.0 && name.len() <= MOST.1 {
            known.insert(name.to_owned(), kind);
        }
        kind
    })
}

fn by_words(name: &str) -> Kind {
    if let [b'A'..=b'J'] = name.as_bytes() {
        return Kind::Part;
    }
    let is_in = |word: &str, known: &str| known.split(' ').any(|one| one == word);
    if is_in(name, ENDED) || is_in(name, MAY_BE_ENDED) {
        return Kind::Ended;
    }
    if is_in(name, CUT) || is_in(name, MAY_BE_CUT) {
        return Kind::Cut;
    }
    let words = words(name);
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    // `gold_list`; but a `label_list` has the names of classes, and a `correct_list` verdicts.
    if words.iter().any(|word| is_in(word, GOLD)) {
        words.pop_if(|last| *last == "list");
    }
    let any = |known: &str| words.iter().any(|word| is_in(word, known));
    let has = |word: &str| words.contains(&word);
    let is_gold = any(GOLD) || has("ground") && has("truth") || words.len() > 1 && any(GOLD_BESIDE);
    let known = [GOLD, GOLD_BESIDE, NEUTRAL];
    if MAYBE_GOLD.contains(&words.as_slice()) {
        Kind::MaybeGold
    } else if any(PASSED)
        && any(LIMIT)
        && words.iter().all(|word| [PASSED, LIMIT, LIMITED].iter().any(|all| is_in(word, all)))
    {
        Kind::Cut
    } else if is_gold && words.iter().all(|word| known.iter().any(|words| is_in(word, words))) {
        Kind::Gold
    } else if any(MODEL)
        && words.iter().all(|word| is_in(word, MODEL) || is_in(word, MODEL_NAMES))
        // `model_generation` is a text.
        && words.last() != Some(&"generation")
    {
        Kind::Model
    } else if any(WRITTEN)
        && words.iter().all(|word| [WRITTEN, ALL, WRITER].iter().any(|all| is_in(word, all)))
        // The solution of a dataset has no writer.
        && (!any("solution solutions") || any("model llm generated assistant"))
        && words.len() > 1
    {
        if any(ALL) { Kind::Whole } else { Kind::Written }
    } else if words.iter().all(|word| is_in(word, WORKING))
        && any("cot rationale reasoning thought working")
    {
        Kind::Working
    } else if has("system") && (words.len() == 1 || has("prompt")) {
        Kind::System
    } else if any(CONDITIONS) || is_condition(&words) {
        Kind::Condition
    } else if words == ["text"] {
        Kind::PartOrSaid
    } else if any(OTHER) && !any("image images audio video") {
        Kind::Other
    } else if any(PARTS) {
        if any(SAID) { Kind::PartOrSaid } else { Kind::Part }
    } else if any(SUBSETS) {
        Kind::Subset
    } else {
        Kind::Other
    }
}

fn is_condition(words: &[&str]) -> bool {
    let has = |word: &str| words.contains(&word);
    matches!(words, ["top", "p" | "k"] | ["min", "p"] | ["topp" | "topk"] | ["run", "name"])
        || has("max") && (has("tokens") || has("length"))
        || matches!(words, ["prompt", "version" | "name" | "style" | "type" | "variant" | "format"])
}

/// Whether a name of an end can mean nothing else.
pub(super) fn is_sure_end(name: &str) -> bool {
    [ENDED, CUT].iter().any(|names| names.split(' ').any(|one| one == name))
}

/// Whether a name says that a model wrote what it holds.
pub(super) fn is_written(name: &str) -> bool {
    matches!(kind(name), Kind::Whole | Kind::Written)
}

/// Whether a name may be that of a question, or of what holds one.
pub(super) fn may_ask(name: &str) -> bool {
    words(name).iter().any(|word| ASKING.split(' ').any(|one| one == word))
}

/// Whether a value is a text, a number, or yes or no.
pub(super) fn is_scalar(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_what_its_words_say() {
        for (names, expected) in [
            (
                "gold_answer groundtruth Ground_Truth expectedOutput ideal ref-answer std_answer true_answer gold_label \
                 references correct_option answer_key target_text ref_answer_list gold_list",
                Kind::Gold,
            ),
            ("final_answer labels key", Kind::MaybeGold),
            ("choices option_a A passage image_path table premise schema", Kind::Part),
            ("code history text", Kind::PartOrSaid),
            ("lang task_name data_source dataset subset split", Kind::Subset),
            (
                "temperature top_p max_new_tokens reasoning_effort few_shot prompt_template",
                Kind::Condition,
            ),
            ("system_prompt system", Kind::System),
            (
                "model modelName generation_model ckpt checkpoint_path llm source_model generator",
                Kind::Model,
            ),
            ("raw_response full_output fullCompletion unparsed_completion", Kind::Whole),
            (
                "model_output llm_output generated_solution response_text model_generation",
                Kind::Written,
            ),
            ("cot reasoning_trace chain_of_thought", Kind::Working),
            ("engine run_name policy max_length", Kind::Condition),
            (
                "truncated length_exceeded reached_max_length max_tokens_reached overlong no_eos",
                Kind::Cut,
            ),
            ("finished has_eos eos_reached", Kind::Ended),
            (
                "correct true std is_correct reference_length gold_index generated_code task_id dataset_index judge_model \
                 answer target label final_output num_choices n reward_model output trace label_list correct_list \
                 full_solution solution_text terminated stopped timed_out prompt_length_exceeded tool_limit_reached",
                Kind::Other,
            ),
        ] {
            for name in names.split_whitespace() {
                assert_eq!(kind(name), expected, "{name}");
            }
        }
    }
}
