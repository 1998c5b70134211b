//! The names of columns that well-known datasets have, by what they hold.

/// Columns that hold the question, in order of preference.
pub(super) const QUESTIONS: [&str; 17] = list(
    "prompt|context_messages|problem|Problem|question|Question|question_stem|sQuestion|query|Query|messages|\
    conversations|conversation|dialogue|instruction|input|inputs",
);
/// Columns of whole conversations: their last turn, if it is the assistant's, is the answer and no part of the prompt.
pub(super) const CONVERSATIONS: [&str; 4] =
    ["messages", "conversations", "conversation", "dialogue"];
/// Columns with a text that the question is about.
pub(super) const CONTEXTS: [&str; 18] = list(
    "context|passage|article|Context|Passage|paragraph|paragraphs|story|background|document|table|body|Body|\
    puzzle|theory|premise|situation|para",
);
/// Columns with a system message.
pub(super) const SYSTEMS: [&str; 3] = ["system", "system_prompt", "system_message"];
/// Columns that hold answers, the most exact first.
pub const ANSWERS: [&str; 34] = list(
    "final_answer|expected_answer|ground_truth|reward_model.ground_truth|reward_spec.ground_truth|\
    verification_info.ground_truth|verification_info.answer|info.ground_truth|info.answer|answer_number|\
    reference_answer|ref_answer|short_answer|numerical_answer|groundtruth|gold_answer|gt_answer|\
    correct_answer|answer|Answer|final_ans|gold|lSolutions|result|answers.text|answers_spans.spans|answers|\
    target|Target|targets|label|Final Answer|Correct Answer|extra_info.answer",
);
/// Columns that hold worked solutions, which end in an answer.
pub const SOLUTIONS: [&str; 10] = list(
    "solution|Solution|completion|generated_solution|gold_standard_solution|response|output|rationale|\
    Rationale|explanation",
);

/// Those of them that hold a model's completion, which may be incorrect.
pub(super) const COMPLETIONS: [&str; 4] =
    ["completion", "generated_solution", "response", "output"];

/// The names of a list `a|b|c`.
pub(crate) const fn list<const N: usize>(list: &'static str) -> [&'static str; N] {
    let (mut names, mut at, mut rest) = ([""; N], 0, list);
    while at < N {
        let mut end = 0;
        while end < rest.len() && rest.as_bytes()[end] != b'|' {
            end += 1;
        }
        let (name, behind) = rest.split_at(end);
        names[at] = name;
        at += 1;
        assert!(behind.is_empty() == (at == N), "as many names as the type says");
        rest = if behind.is_empty() { behind } else { behind.split_at(1).1 };
    }
    names
}
