//! What is no answer: courtesies and programs at the end of a text, and a refusal.

use super::super::super::tail;
use super::super::languages::{is_courtesy, is_undecided};
use super::super::scan::{
    before_end, begins, each, has_digits, holds, is_one_of, pattern, without,
};
use super::last_sentence;

/// A text without the courtesies behind its answer: "Let me know if you have 3 more questions!"
pub(super) fn without_courtesy(text: &str) -> &str {
    let mut text = text.trim();
    // What ends a proof.
    for mark in ["$\\blacksquare$", "$\\square$", "∎", "■", "□", "QED"] {
        text = text.strip_suffix(mark).map_or(text, str::trim_end);
    }
    // A last paragraph may be one of several sentences.
    let footer = pattern!(
        r"(?i)^(?:\(time taken\b|references?: ?\[)[^\n]*$|^[(*_]*(?:word count|tokens? used|difficulty|reasoning steps|key concepts?|confidence|(?:verified|checked) (?:in|by)|this took [0-9]+ steps|please rate|was this helpful)(?:[.:?*]| [0-9]| my\b)[^\n]*$|^(?:-{3,}\n)?[(_*](?:generated|completed|processed|answered|elapsed|time|latency|duration|runtime)\b[^\n]* (?:ms|s|secs?|seconds?|tokens?)[.)*_]*$"
    );
    if let Some((before, last)) = text.rsplit_once("\n\n")
        && has_digits(before)
        && footer.is_match(last)
    {
        text = before.trim();
    }
    if let Some((before, last)) = text.rsplit_once("\n\n")
        && has_digits(before)
        && begins(&last.to_lowercase(), "p.s|ps:|note:|*note|remark:|let me know")
    {
        text = before.trim();
    }
    for _ in 0..3 {
        let end = text.trim_end_matches(['.', '!', '?', ' ', '\n', '*', '。', '！', '？']);
        let mut ends = end.rmatch_indices(['.', '!', '?', '\n', '。', '！']);
        let is_end = |(at, mark): &(usize, &str)| {
            !matches!(*mark, "." | "!" | "?") || end[at + 1..].starts_with(' ')
        };
        let Some(start) = ends.find(is_end).map(|(at, mark)| at + mark.len()) else { break };
        if !is_courtesy(&text[start..].to_lowercase()) {
            break;
        }
        text = text[..start].trim_end();
    }
    text
}

/// A text without the lines at its end that say why the other choices are wrong, behind one that names the right one.
pub(super) fn without_choices(text: &str) -> &str {
    let is_of_choice = |line: &str| {
        let line = line.trim_start_matches(['-', '*', '•', ' ', '(']);
        line.starts_with(|c: char| ('A'..='J').contains(&c))
            && line.get(1..).is_some_and(|rest| rest.starts_with([' ', ')', ':']))
    };
    let mut before = text;
    while let Some((rest, _)) =
        before.trim_end().rsplit_once('\n').filter(|(_, line)| is_of_choice(line))
    {
        before = rest.trim_end();
    }
    if before.len() < text.len()
        && before.ends_with([' ', '.', '*'])
        && holds(before, " is correct| is right| answer")
    {
        before
    } else {
        text
    }
}

/// A text without a program at its end, whose numbers are no answer.
pub(super) fn without_program(text: &str) -> &str {
    let Some(inner) = text.strip_suffix("```") else { return text };
    let Some(start) = inner.rfind("```") else { return text };
    let is_program = begins(&inner[start + 3..], "python|py\n|cpp|java|js\n");
    if is_program { text[..start].trim_end() } else { text }
}

/// Whether a text ends in a group that does not close: `\frac{7}{`.
pub(super) fn is_broken(text: &str) -> bool {
    let line = text.lines().next_back().unwrap_or(text);
    let open = |part: &str| part.matches('{').count() > part.matches('}').count();
    let start = line.rfind("\\frac").or_else(|| line.rfind("\\sqrt"));
    line.ends_with(['{', '^']) || start.is_some_and(|start| open(&line[start..]))
}

/// Whether a text refuses to answer.
pub(in super::super) fn is_refusal(text: &str) -> bool {
    // How a question begins that asks whether a value is the answer.
    const ASKING: &str = "is |are |could |would |can ";
    const ANYWHERE: &str = "i can't help|i cannot help|i can't assist|i cannot assist|i can't answer|i cannot answer|\
        i'm unable to|i am unable to|i'm not able to|\\boxed{?}";
    // At the beginning of the last sentence, where no value follows as its consequence.
    const LAST: &str = "i will not answer|i have no idea|i have 0 idea|i give up|i refuse|i can't do|i am not able to|\
        i won't|i was unable to|i am stuck|i'm stuck|i have no solution|i got nowhere";
    // Unless a link follows: "I can't determine a, but b = 5".
    const UNABLE: &str = "i cannot solve|i can't solve|i could not solve|i cannot determine|i can't determine|i don't \
        know|i do not know|please provide|not enough information to|as an ai|beyond my ability";
    const LINKS: &str = ", so |, but |, yet |, thus |, hence |, leaving ";
    // In the last sentence: nothing is concluded.
    const OPEN: &str = "no answer yet|no final answer|have no answer|no conclusion|out of time|time is up|be \
        continued|not finish|n't finish|stop here|can't be deduced|cannot be deduced|can't be determined|cannot be determined";
    const MAX_REFUSAL: usize = 400;
    if text.len() > MAX_REFUSAL {
        return gives_up(&tail(text, MAX_REFUSAL).to_lowercase());
    }
    let lower = text.to_lowercase().replace('’', "'");
    let bare = lower.trim_matches(|c: char| !c.is_alphanumeric());
    let is_blank = is_one_of(bare, "no idea|no answer|no clue|no comment");
    let ends = ['.', '!', '?', '\n', '。', '！', '？', '।'];
    let sentences = || lower.split(ends).filter(|part| !part.trim().is_empty());
    let is_question = lower.ends_with('?') && sentences().count() == 1 && begins(&lower, ASKING);
    let last = sentences().next_back().unwrap_or_default().trim();
    let last = without(last, "sorry, |sorry but |no, ");
    let refuses = begins(last, LAST) && !holds(last, LINKS);
    // "D is correct because there is not enough information to tell."
    let is_choice = |before: &str| {
        let mut words = before.split(|c: char| !c.is_alphanumeric() && c != '\'');
        words.any(|word| matches!(word.as_bytes(), [b'b'..=b'h' | b'j']))
    };
    // Before the last sentence only what refuses all of the problem: "I don't know p yet. The sum is 28."
    let is_all = |rest: &str| {
        let object = rest.split(['.', '!', '?', '\n', ',']).next().unwrap_or(rest);
        object.trim().is_empty() || holds(object, "answer|this|problem|question|result|value")
    };
    let is_unable = holds(&lower, UNABLE)
        && each(UNABLE).any(|words| {
            let is_last = last.contains(words);
            let text = if is_last { last } else { lower.as_str() };
            text.split_once(words).is_some_and(|(before, rest)| {
                !before.ends_with(char::is_alphanumeric)
                    && !rest.starts_with(char::is_alphanumeric)
                    && (is_last || is_all(rest) || is_one_of(words, "please provide|as an ai"))
                    && !is_choice(before)
                    && (rest.starts_with(", but ") || !holds(rest, LINKS))
                    && !holds(rest, "therefore| = ")
            })
        });
    is_blank
        || is_question
        || refuses
        || is_unable
        || holds(last, OPEN)
        || is_undecided(last)
        || holds(&lower, ANYWHERE)
        || gives_up(&lower)
}

/// Whether the last sentence of a text in small letters says that something is not found or known: "I could not determine
/// the number of boys." No other value, and no error, may be found all the same.
fn gives_up(lower: &str) -> bool {
    let last = last_sentence(lower.trim_end()).replace('’', "'");
    let unable = pattern!(
        r"(^|[^a-z])(?:i|we)(?:'m| am| was| are| were)?(?: still| just| simply| really| also)*(?:(?: could(?: not|n't)| can(?: ?not|'t))| (?:not |un)able to| failed to| did(?: not|n't) manage to)(?: \w+ly)? (?:find|determine|solve|compute|calculate|figure|work|obtain|give|derive|deduce|evaluate|complete|finish|decide|provide)\b(.*)$"
    );
    let unknown = pattern!(
        r"(?:^|;)[^0-9;]*\b(?:(?:is|are|remains?) (?:still )?(?:unknown|not known|undetermined)|can(?:not|'t) be (?:found|determined|computed|calculated|known|solved|worked out))$"
    );
    const FOUND: &str = " other|another| more| smaller| larger| greater| fewer| less| better| shorter| simpler| error| mistake| further| \
        additional| counter| any |, so |, but |, hence |, thus |, therefore ";
    const REASONS: &str = "because |since |as |for |that |if |where |which |when |and ";
    unknown.is_match(&last)
        || unable.captures(&last).is_some_and(|found| {
            let object = found[2].split(" although ").next().unwrap_or_default();
            let start = found.get(1).map_or(0, |end| end.end());
            !holds(object, FOUND)
                && !has_digits(object)
                && before_end(&last[..start], REASONS).is_none()
        })
}

/// Whether a text breaks off behind an operator, "which gives 18 +", in a fraction, or behind the number of a step.
pub(super) fn is_unfinished(text: &str) -> bool {
    if is_broken(text) {
        return true;
    }
    // "So it is 12. Next we need to"
    const STEPS: &str = "Next|Then we|Then the|Now we|Now the|We still|It remains|Still to";
    let last = text.rsplit_once(". ").map_or("", |(_, last)| last);
    if begins(last, STEPS)
        && !last.ends_with(['.', '!', '?', '*'])
        && !last.contains(|c: char| c.is_ascii_digit() || c == '$' || c == '\\')
    {
        return true;
    }
    // What is supposed, and nothing that follows from it; a question.
    const ASSUMED: &str = "Let |Suppose |Assume |Try |Consider |We are told |where |Now substitute |Substitute |\
        For example, take |For example, let ";
    const LINKS: &str = ": |, so|, then|, th|, we|, h|; | so | then | gives |herefore|thus|hence|→|⇒|=>|Let me|Let us| is the | to get | to find | to obtain |giving|impl|which |leav|yield|equals";
    let sentence = last_sentence(text.lines().next_back().unwrap_or(text));
    let said = pattern!(r"(?i)\b(?:left|there|total|answer|remaining) (?:is|are) [$]?-?[0-9]");
    let concludes =
        |text: &str| holds(text, LINKS) || text.contains("the ") && text.contains(" is ");
    if begins(sentence, ASSUMED) && !concludes(sentence)
        || begins(sentence, "How many |How much |What is ")
            && text.ends_with('?')
            && !text.contains('=')
            && !said.is_match(sentence)
    {
        return true;
    }
    // What is to be found, at the end: the numbers before are the question's.
    const TASKS: &str = "We need to find|We need to determine|We want to find|We are asked|We have to find|Let me think|\
        Let's think|I need to find|The question asks";
    if begins(last, TASKS) && !has_digits(last) {
        return true;
    }
    // "the number of arrangements is", but not "Yes, it is".
    const OPEN: &str = "is|are|equals|be|gives";
    // "which means that the", "and then add", but not "I think so".
    let open = pattern!(
        r"(?:^| )(?:the|of|to|and|by|with|from|our|but|because|since|which|(?:[^ ]*,|that|next|then) (?:so|we|that|i)|have that|(?:then|to|we|now|next) (?:add|subtract|multiply|divide|compute|calculate|evaluate))$"
    );
    // The last box is one without an answer.
    let blank = pattern!(r"\\boxed\{(?:\\[lc]?dots|[^\p{L}\p{N}\\])*\}[.$ ]*$");
    if text.contains(' ') && (open.is_match(text) || blank.is_match(text)) {
        return true;
    }
    const SUBJECTS: &str = "it|they|there|he|she|that|this|we|you|what";
    let mut words = text.rsplit(' ');
    let (last, before) = (words.next().unwrap_or(text), words.next());
    if before.is_some_and(|word| is_one_of(last, OPEN) && !is_one_of(word, SUBJECTS)) {
        return true;
    }
    let (steps, last) = text.rsplit_once('\n').unwrap_or(("", text));
    let step = last.trim_end_matches(['.', ')', ' ']);
    if step.len() < last.len()
        && let Some(before) = step.parse::<u32>().ok().and_then(|number| number.checked_sub(1))
    {
        let begin = format!("{before}{}", &last[step.len()..]);
        return steps.lines().any(|line| line.starts_with(begin.trim_end()));
    }
    let before = text.trim_end_matches(['+', '-', '*', '/', '=', '×', '·', '÷', '−']);
    before.len() < text.len()
        && before.ends_with(' ')
        && before.contains(' ')
        && !text.ends_with("**")
}
