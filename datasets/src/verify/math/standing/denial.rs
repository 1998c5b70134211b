//! Words that deny, doubt or change the value beside them.

use std::ops::Range;

use super::super::super::tail;
use super::super::languages::{is_alternative, is_denied_ahead};
use super::super::scan::{
    before_end, begins, ends_with, first, head, holds, is_digit, is_one_of, lowered, past, without,
};
use super::contrast::{altered, is_hedged};

/// Leaves open what its sentence says.
pub(in super::super) const SENTENCE: u16 = 1;
/// Makes a value behind it none.
pub(in super::super) const VALUE: u16 = 2;
/// Is part of no unit.
pub(in super::super) const UNIT: u16 = 4;

/// Words between alternatives.
pub(in super::super) const OR: &str = "or|oder|ou|oppure";

/// Single words, by what they do.
const WORDS: [(u16, &str); 6] = [
    (SENTENCE | VALUE | UNIT, "not|cannot|isn't|maybe|perhaps|unclear|unknown|or|oder|ou|oppure"),
    (SENTENCE | VALUE, "neither|either|whether|never|unlikely|possibly"),
    (SENTENCE, "if|may|might|could|unless|nor|can't|nobody"),
    (VALUE, "hardly|but|except|anything|than|between|least|most"),
    (VALUE | UNIT, "false"),
    (
        UNIT,
        "never|can't|wrong|incorrect|rejected|extraneous|spurious|impossible|fails|is|are|was|were|does|do|did|works|point|divided|multiplied|increased|decreased|\
        reduced|raised|choose|modulo|geteilt|dividido|dividida|divisé|diviso|multiplicado|multiplié|\
        no|não|nicht|niet|nie|не|pas|olamaz|değil|아니다|tidak|không",
    ),
];

/// Whether a text has a word with one of those effects.
pub(in super::super) fn has_word(text: &str, effects: u16) -> bool {
    let small = lowered(text);
    let mut words = small.split(|c: char| !c.is_alphanumeric() && c != '\'');
    words.any(|word| WORDS.iter().any(|(of, table)| of & effects != 0 && is_one_of(word, table)))
}

tables! {
    /// Right before a value: it is not the answer.
    DENIAL: "(?:没有|不[会可能应该]*[是为等于]*|并非|[绝并]不是|不选|而非|ليس|لا يساوي|(?:^|[^a-z0-9à-ɏа-я])(?:not(?: quite| exactly)?|(?:is|was)n['’]?t|never|except|any of|(?:wrong|incorrect|false|naive|tempting|(?:a|one|another) possible) (?:answer|\
    guess|value|result|solution) (?:is|was|would be|might be)|(?:first|old|initial|previous|original|earlier) \
    (?:answer|guess|value|result|attempt) (?:was|had been)|if (?:you|one|anybody|someone|they) (?:gets?|got|has|have|\
    wrote|answers?|answered)|(?:cannot|can['’]?t|couldn['’]?t|not) be|not equal(?: to)?|neither|nor|rather than|\
    instead of|other than|(?:do|does|did|has|is|was)(?:n['’]?t| not) (?:have|equal|get|give|make|cost|need)|\
    fail(?:s|ed)? to (?:be|equal|reach|give|get|have|make)|never (?:be|equals?|reach(?:es)?|gives?|makes?)|\
    (?:by no means|in no way|under no circumstances)(?: \\w+){0,5}|\\\\neq?|≠|statt|anstatt|au \
    lieu de|en lugar de|en vez de|em vez de|invece di|вместо|in plaats van|zamiast|(?:et )?non(?: pas)?|(?:y|e) \
    n[oã]o?|pas(?: du tout| [a-zà-ÿ]+ment)?|n[aã]o|as opposed to|nicht(?: gleich)?|kein[a-z]*|keineswegs|niemals|\
    niet|geen|nooit|\
    nie|не|bukan|không phải(?: là)?|no (?:es|son|vale|equivale|hay|puede|tienen?|da|debe)(?: [^ 0-9.,;:!?$]+){0,3}|\
    (?:nunca|jamás|jamais|non|não|nie|не|tidak|bukan|không)(?: [^ 0-9.,;:!?$]+){1,3}|alles andere als|ไม่ใช่|\
    siy?o|jibu (?:\\w+ )?si|ha(?:li|i)wezi kuwa|inte|\
    ikke|n['’]est en aucun cas|n['’][^ 0-9.,;:!?$]+(?: [^ 0-9.,;:!?$]+)? pas(?: égale? à)?|unmöglich|\
    (?:impossible que|imposible que|impossibile che|impossível que)(?: [^ 0-9.,;:!?$]+){1,2}|\
    ne [^ 0-9.,;:!?$]+ (?:pas|jamais)(?: [^ 0-9.,;:!?$]+)?))$";
    /// Whoever says so states nothing of what its clause says behind it.
    DOUBT: "\\b(?:do(?:n['’]?t| not) (?:think|believe)|(?:i(?:['’]d)?|we|would|really|highly|seriously|strongly) \
    doubt|doubtful (?:that|if|whether)|unlikely (?:that|to)|(?:false|untrue|incorrect|wrong|not true) (?:that|to \
    (?:say|think|believe|assume|answer|write|conclude))|mistake (?:is )?(?:to|that)|trap is (?:to|that)|tempt(?:ed|\
    ing) to|(?:wrong|mistaken|incorrect|erroneous)ly (?:say|think|conclude|assume|claim|answer|get)s?|not the case|\
    no way|no (?:reason|evidence|proof|sign|chance|grounds) (?:\\w+ ){0,4}that|\
    (?:one|you|they|many|some|people|he|she) (?:might|may|could|would) (?:think|guess|believe|assume)|might say|\
    (?:one|they|many|some|people|he|she|fool|idiot) would say|(?:would(?:n['’]?t| not)|won['’]t|will not) say|\
    not (?:saying|claiming|suggesting)|(?:cannot|can['’]t|could not|couldn['’]t) (?:confirm|say|prove|verify|claim)|no \
    (?:reason|grounds) to (?:think|believe|say|suppose)|^(?:prove|show|verify) that|\
    (?:must|to be|(?:need|have|want|remains) to) \
    (?:prove|show|verify|shown|proved|proven|verified) that|^(?:(?:the|an?|my|his|her|their|our|this) \
    )?(?:wrong|incorrect|sample|example|dummy|(?:PEOPLE)['’]s)(?: answer(?: is)?)?$|some say|(?:nobody|no one) \
    (?:would )?(?:think|say|believe)s?|not sure|unsure|impossible (?:that|for)|not convinced|refuse to (?:believe|\
    accept|say)|(?:must|should|can|could|may|do|did)(?:n['’]?t| ?not) (?:conclude|answer|say|claim|write|choose)|\
    (?:rumou?red|alleged|claimed|said|believed)(?:ly)? (?:that|to be)|(?:i|we) (?:first|initially|originally|at \
    first) (?:wrote|got|thought|had|answered|guessed|said))\\b";
    /// Right before a value or words that only name it: it is not stated.
    REFUSAL: "\\b(?:(?:i(?:['’]d)?|we|must|can|to|they|be) (?:\\w+ly )?(?:rule[ds]? out|reject(?:ed)?|refused?(?: \
    to)?|exclude[ds]?|discard(?:ed)?|eliminate[ds]?|ignore)|c(?:an|ould)(?:not|n?['’]?t| \
    not) (?:possibly |ever )?(?:be|\
    equal)|unlikely|hardly|no longer|any(?:thing|one) but|(?:nobody|no one|no(?: \\w+){1,2})(?: \\w+){0,6} (?:would|\
    should|could|will|can) (?:answer|say|write|get|give|claim|pick|choose|accept)|every(?:thing|one) (?:except|but)|\
    differ(?:s|ent) from|none of|avoid(?: (?:answering|saying|writing|giving))?|beware(?: of)?|(?:do(?:n['’]t| not)|\
    never|to) fall (?:for|into)|fooled by|(?:never|not to|temptation to) \
    (?:answer|say|write))(?:[^a-z0-9]+(?:(?:that|it|is|to|be|say|the|an?|final|correct|right|answer|value|\
    option|choice|equals?|of|total|result|solution|number|sum|tempting|obvious|usual|wrong|trap|answering|\
    [a-z])\\b)?)*$";
    /// Right behind a value: it comes from a mistake, or is the answer of another case.
    MISTAKE: "^,? ?\\(?(?:failed|rejected|extraneous)\\b[),.]|^ if (?:(?:we|you|one) (?:ignore|neglect|\
    forget|omit|disregard)|[^.\n]*\\bwere\\b)|^ \\([^)\n]*\\?\\)|^ (?:did(?: not|n['’]t) (?:pass|check|work)|failed \
    (?:the|our|this|\
    to|verification)\\b|would (?:be|have been)\\b[^.]*\\b(?:if|had|were|but)\\b|is what [^.]*\\b(?:if|would|mistake|\
    wrong|forgets?|forgot)\\b|(?:violates|contradicts (?:the|our)|lies outside|falls outside|(?:must|has to|should|\
    can) be (?:rejected|discarded|excluded|(?:ruled|thrown|left) out|ignored|dropped)|is (?:only |just |merely \
    )?(?:an? )?(?:upper|lower) bound|is not (?:a |the )?(?:final |correct )?(?:answer|solution)|is what (?:most|you|\
    one|people|some|many)\\b|\
    is what (?:the|an?) (?:\\w+ )?(?:template|format|box|answer)|is how (?:one|an?|you|the) |(?:is|was) (?:just|only|\
    merely) an? (?:\\w+ )?(?:example|template|placeholder|format|illustration|sample)|is (?:the|\
    an?) (?:\\w+ )?(?:format|template|placeholder|sample)|is out \
    of the question|would only be|(?:as|is) only (?:half|part|a third)|is (?:half|a part) of the answer|squared is|as \
    (?:wrong|incorrect|false))\\b|is (?:the|a) (?:result of (?:an? |the )?)?(?:common |typical |usual )?(?:mistake|\
    error|trap|misprint|guess)\\b)|^[^.\n]*\\b(?:so|hence|therefore|thus) (?:it|this|that) (?:is|must be) (?:wrong|\
    incorrect|false|rejected|discarded|excluded|not (?:right|correct|valid))\\b|^ is an? (?:mere )?example[.,;:]|\
    ^, which is (?:a misprint|a mistake|\
    an error|wrong|absurd)";
    /// The same in languages whose verb is last.
    DENIED: "^['’]?[a-zçğıöşü]{0,3} ?(?:は不|は適さ|是错|是錯|错误|錯誤|不正确|不正確|不对|不對|では?な|じゃな|ではあり|번?[이가은는] 아[니닙]|일 수 없|değil|olamaz|नहीं|নয়)";
    /// The same of a verb: "7 kann es nicht sein".
    DENIED_VERB: "^ (?:(?:kann|ist|darf)(?: es| das)? nicht|ne (?:peut|convient) pas|n['’]est pas|no (?:puede|es|sirve|cumple)|non (?:può|è|va)|\
    não (?:pode|é|serve)|(?:kan|is)(?: het)? niet|не (?:может|подходит|является)|nie (?:może|jest|pasuje))\\b";
    /// At the beginning of a remark, up to its end: the value before it is none. Behind a verdict may follow a reason.
    REVOKED: "^(?:(?:which|but (?:that|this|it)|that|this|it) (?:is|was|turn(?:s|ed) out(?: to be)?|would be|seems) \
    (?:clearly |obviously )?(?:wrong|incorrect|false|impossible|absurd|invalid|not (?:right|correct|possible)|a \
    mistake|too (?:small|large|big|low|high|many|few|much))END|(?:which|but (?:that|this|it)) fail(?:s|ed)\\b|\
    (?:which|but (?:that|this|it)) (?:do(?:es)?|did|can)(?: ?not|n?['’]t) (?:(?:be|work|fit|hold|check)END|be \
    (?:right|correct|true|possible|it|the)\\b|(?:satisfy|fit (?:the|our|all|this|any) (?:\\w+ )?(?:condition|\
    constraint|equation|requirement|statement))s?\\b)|no,|nein,|non,|não,|нет,|nee,|scratch that)";
    /// A property that the value is said not to have, as it should: ` is not even, as required`.
    PROPERTY: "^ (?:is|was|are) not (?:\\w+ ){0,4}[a-z0-9]+, as (?:required|wanted|needed|desired|expected|asked)(?:[^a-z ]|$)";
    /// Says that a value is only tried.
    TRIED: "\\b(?:(?:let['’]?s|let us|we|i) (?:try|test|guess|suppose|assume)|suppose|try(?:ing)?)\\b";
    /// Leads from what is tried to what it gives.
    LINKED: "\\b(?:so|then|thus|hence|therefore|gives?|get|yields?|have|find|conclude|answer is)\\b";

    /// Right before a value: it is only a part of what is meant, as in "twice 7", "one more than 7".
    CHANGE: "(?:^|[^a-z])(?:twice|half(?: of)?|double|triple|thrice|square of|cube of|root of|near|far from|third of|\
    quarter of|reciprocal of|opposite of|negative of|multiple of|minus|multiply|divide|square|halve|(?:multiply|divid|\
    doubl|squar|halv)ing|(?:add|subtract|tak)(?:e|ing)? [$]?[0-9]+[$]? (?:to|from)|(?:[0-9]|one|two|three|four|five|\
    six|ten|half) (?:more|less|fewer|greater|larger|smaller|bigger) than|(?:twice|half|double|triple|times|of|than|\
    plus|minus|(?:bounds?|digits?|limit|estimate|hint) (?:on|in|for|to)) (?:the|this|our|my) (?:final |correct )?\
    answer (?:is|was|equals)|answer (?:and|plus|minus|times) \
    [^.,;]* (?:is|equals|makes?)|(?:two|three|four|five|six|ten) times|(?:la )?moitié de|hälfte von|mitad de|dobl?e \
    de|double \
    de|doppelte von|metà di|doppio di|metade de|dobro de|половин[ау] от)$";
    /// A value that an operation in words goes on with: "18 divided by 3", "20% of 300", "7, plus 1 for the driver".
    OPERATION: "^[$\\\\(]*-?[0-9][0-9.,/]*(?:[$\\\\)%°]*(?: percent| per cent| [a-z]+)?(?: (?:[×*·÷+x/-]) [$]?[0-9]| point [0-9]|[^.]*(?:and so on|\\betc\\b)|,? (?:(?:divided|multiplied|increased|decreased|reduced|diminished|raised) |\
    (?:choose|modulo|mod|times|plus|minus|over) [$\\\\]*[0-9]|(?:doubled|tripled|halved)\\b|(?:more|less|fewer|older|\
    younger|taller|longer|shorter|heavier) than |(?:geteilt|dividido|dividida|divisé|diviso|multiplicado|multiplié|\
    mal|fois|por|entre) )|\
    (?:(?:\\\\?%[$]?|[$]?\\\\?%| percent| per cent) of [$]?[0-9]))| ?的| - make that | or rather )";
    /// A remark that states another value for another case: "and if they differ it is 6".
    OTHER_CASE: "^[,; ]*(?:(?:and|but) )?(?:if|when|for|in case|in the case|assuming|with) [^.]*(?: and (?:\\w = \
    )?[$]?[0-9]+[$]? (?:if|when|for|otherwise)\\b|(?:it|answer) is [$]?-?[0-9]|, [$]?-?[0-9]+[$]?[.]?$)";
    /// The case before, in a sentence of several: "when n is even the answer is 12, when n is odd the answer is".
    CASES: "\\b(?:if|when|assuming|for)\\b[^,;.]* (?:is|be) [$]?-?[0-9]+[$]?[^,;.]*[,;] (?:and |but )?(?:if|when|assuming|for)\\b[^.;]*$";
}

/// Whether the words around a value deny it: "it cannot be 7", "7 is wrong", "I doubt it is 7", "7? No".
pub(in super::super) fn is_denied(before: &str, after: &str) -> bool {
    let unboxed = before.trim_end_matches("\\boxed{");
    let is_boxed = unboxed.len() < before.len();
    let before = unboxed.trim_end_matches([' ', '*', '$', '(', '"', '\\', '{', '}']);
    let near = tail(before, 80);
    let small = &*lowered(near);
    let is_word = near.ends_with(|c: char| !c.is_ascii_digit() && !",.:=".contains(c));
    before_end(near, " !=|/=|\\not=|\\not =|<>|∉|≯|≮|\\notin").is_some()
        || is_word && DENIAL.is_match(small)
        || near.contains([',', ';']) && CASES.is_match(small)
        || is_doubted(small)
        || is_denied_ahead(small)
        || !is_boxed
            && before_end(near, " is| are| be").is_some()
            && !ends_with(near, "answer is")
            && is_relative(after)
        || is_taken_back(after)
        || is_asked(after)
        || is_tried(small, after)
}

/// Whether the words behind a number compare something else with it: 7 of "7 more than the first number". Beside a name or
/// a time, "7 more than Jim", the number is what is asked for.
pub(in super::super) fn is_relative(after: &str) -> bool {
    let mut words = after.split_whitespace();
    let first = words.next().unwrap_or_default();
    let is_comparative = is_one_of(first, "more|less") || first.ends_with("er");
    const QUANTITIES: &str = "the|a|an|another|that|this|twice|half|double|its|his|her|their|one";
    let is_quantity = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        word.len() < 2
            || word.ends_with("'s")
            || is_one_of(word, QUANTITIES)
            || word.starts_with(is_digit)
    };
    first == "than"
        || is_comparative
            && words.next() == Some("than")
            && is_quantity(words.next().unwrap_or_default())
}

/// Whether a value ends a question that is not answered with yes: "Is it 7?"
pub(in super::super) fn is_asked(after: &str) -> bool {
    let rest = after.trim_start_matches(['*', '$', ')', '}', '"', '\\', ' ']);
    let is_particle = rest.starts_with(['吗', '嗎']);
    let rest = rest.trim_start_matches(['吗', '嗎', 'か']);
    let next = rest.strip_prefix(['?', '？']).or(is_particle.then_some(rest));
    let next = next.map(|next| next.trim_start().to_lowercase());
    next.is_some_and(|next| {
        // "Teacher: Yes."
        let said = next.split_once(": ").filter(|(name, _)| !name.contains(' '));
        let said = said.map_or(&*next, |(_, said)| said);
        let said = without(said, "that is |that's |it is ");
        !begins(said, "yes|right|correct|indeed|exactly|sure|of course|✓")
    })
}

/// Whether the clause that a text ends with doubts what follows: "I don't think it is".
pub(in super::super) fn is_doubted(before: &str) -> bool {
    let near = tail(before, 80).trim_end_matches([':', ' ', '*', '$', '\\', '(']);
    let clause =
        near.rsplit(['.', '\n', ';', ',', '?', '!', ':']).next().unwrap_or(near).trim_start();
    // What is said behind a link is stated.
    const LINKS: &str =
        " but | so | hence | therefore | and | then | thus | gives | leaving | we get | we have ";
    let link = |end: usize| holds(&clause[end..], LINKS);
    clause.len() >= 6
        // "the number that it cannot be is 7"
        && (REFUSAL.find(clause).is_some_and(|found| !clause[found].contains(" be is "))
            || DOUBT
                .last(clause)
                .is_some_and(|found| !link(found.end) && !describes(clause, found)))
}

/// Whether a doubt in a clause describes what the value is of: "those who wrongly say yes are", "the least n for which
/// it is impossible for her to win is".
fn describes(clause: &str, doubt: Range<usize>) -> bool {
    let rest = &clause[doubt.end..];
    let Some(subject) = before_end(rest, " is| are| equals| =") else { return false };
    let last = subject.rsplit(' ').next().unwrap_or(subject);
    let is_weak = begins(&clause[doubt.start..], "impossible for|mistake |tempt");
    let is_relative = || holds(&clause[..clause.len() - rest.len()], " who | whom |number of ");
    !is_one_of(last, "it|he|she|answer|this|that|result") && (is_weak || is_relative())
}

/// Whether the words right behind a value deny it.
fn is_taken_back(after: &str) -> bool {
    let after = after.trim_start_matches(['*', '$', ')', '}', '"', '\\']);
    match after.bytes().next() {
        _ if altered(after).is_some() => true,
        Some(b' ' | b',' | b'.' | b';') if is_hedged(after) => true,
        Some(b' ' | b',') if MISTAKE.is_match(head(after, 160)) => true,
        Some(b' ') if is_crossed(after) => true,
        Some(b' ') if DENIED_VERB.is_match(after) => true,
        Some(b' ') if denies(after) => {
            let property = PROPERTY.find(after).map(|found| &after[found]);
            property.is_none_or(|said| {
                holds(said, "correct|right|valid|possible|solution|answer|true|root|what")
            })
        }
        Some(b' ') if begins(after, " -| but ") => is_revoked(after),
        Some(b' ') if !after.is_ascii() => DENIED.is_match(after),
        Some(b' ') if begins(after, " or something| or another| or some other") => true,
        Some(b',' | b';') => is_revoked(after) || OTHER_CASE.is_match(after),
        Some(byte) if !byte.is_ascii() => DENIED.is_match(after),
        _ => false,
    }
}

/// Whether a remark takes back the value before it: ", which is wrong", "; no, 9", ", but that turned out to be too small".
fn is_revoked(remark: &str) -> bool {
    REVOKED.is_match(head(remark.trim_start_matches([',', ';', ' ', '-']), 80))
}

/// Says in the same sentence that it does not do.
const FAILED: &str = "does not |doesn't |doesn’t |did not |didn't |didn’t |contradict|fails";

/// Whether a value is tried out and does not do: "Let's try 7: 14, which does not work".
fn is_tried(before: &str, after: &str) -> bool {
    let clause = before.rsplit(['.', '\n', ';', '?', '!', ':']).next().unwrap_or(before);
    let after = head(after, 160);
    let end = after.find(['.', '\n']).unwrap_or(after.len());
    // "Let us try 5. It fails."
    let next = past(&after[end..], ". It |. This |. That ").unwrap_or_default();
    let sentence = if next.is_empty() { &after[..end] } else { next };
    let Some(failed) = first(sentence, FAILED).map(|failed| failed.start) else { return false };
    // "since 6 fails": something else does.
    let words = sentence[..failed].trim_end();
    let subject = words.rsplit(' ').next().unwrap_or(words);
    let is_other = words.contains(|c: char| c.is_ascii_digit() || c == '\\' || c.is_alphabetic())
        && !is_one_of(subject, "which|it|that|this|but|and|also|clearly");
    let tried = || TRIED.last(clause);
    !is_other && tried().is_some_and(|tried| !LINKED.is_match(&clause[tried.end..]))
}

/// Whether what stands before is denied by the words behind it: `is wrong`, `is not correct`, `cannot be it`.
pub(in super::super) fn denies(rest: &str) -> bool {
    let end = rest.char_indices().nth(60).map_or(rest.len(), |(at, _)| at);
    let rest = rest[..end].trim_start_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let mut words = rest.split(|c: char| !c.is_alphanumeric() && c != '\'');
    let verb = words.next().unwrap_or_default();
    // "is clearly not the answer"
    let is_filler =
        |word: &str| is_one_of(word, "the|a|an|be|of|course|also|just") || word.ends_with("ly");
    let next = words.find(|word| !is_filler(word)).unwrap_or_default();
    const VERBS: &str = "is|was|are|has|can|must|cannot|does|would|should|could|were";
    const FALSE: &str = "extraneous|spurious|not|wrong|incorrect|false|eliminated|excluded|ruled|impossible|too|my|mistaken|misguided|\
        inadmissible|invalid|absurd|nonsense|untrue|unacceptable|refuted|rejected|discarded|disproved|lie|decoy|\
        distractor";
    const ALONE: &str =
        "isn't|cannot|can't|wasn't|doesn't|eliminated|wrong|fails|错误|incorrect|olamaz|değil";
    is_one_of(verb, ALONE)
        || is_one_of(verb, VERBS) && is_one_of(next, FALSE)
        || verb == "not" && is_one_of(next, "|correct|right|true|valid|possible")
}

/// Whether a cross stands behind a value: `12 ❌`.
pub(in super::super) fn is_crossed(after: &str) -> bool {
    after.trim_start_matches(['$', ' ', '*', ')', '}']).starts_with(['❌', '✗', '✘', '✖'])
}

/// Whether a value is only a part of what is meant.
pub(in super::super) fn is_changed(before: &str) -> bool {
    let near = tail(before, 80).trim_end_matches("\\boxed{");
    CHANGE.is_match(near.trim_end_matches([' ', '*', '$']))
}

/// Whether a clause begins with a value that an operation in words goes on with.
pub(in super::super) fn is_operation(clause: &str) -> bool {
    clause.contains(' ') && OPERATION.is_match(head(clause, 80))
        || clause.contains('的') && OPERATION.is_match(clause)
}

/// Words behind "or" that say the same value again: "or about 1,300".
pub(in super::super) const RESTATED: &str = "approximately|about|roughly|equivalently|simply|in|so";

/// Words that begin the offer of another value: "7, maybe 42".
const OFFERS: &str = "or|maybe|perhaps|possibly|alternatively|unless|versus|vs|also|could|might|either|if not|not sure|as well as|\
    along with|followed by";

/// Whether a remark offers another value: "or 42", "but it could be 42", "if x > 0, otherwise 42".
pub(in super::super) fn offers(remark: &str) -> bool {
    let words = remark.trim_start_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let words = without(without(&words, "but "), "it ");
    if begins(words, "and so on|etc") || OTHER_CASE.is_match(words) {
        return true;
    }
    let is_offer = OFFERS.split('|').any(|offer| {
        words.strip_prefix(offer).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    });
    let mut each = words.split(|c: char| !c.is_alphanumeric());
    let has_other_case = each.any(|word| matches!(word, "otherwise" | "else"));
    let is_same = words.strip_prefix("or ").is_some_and(|rest| begins(rest, RESTATED));
    let has_value = words.contains(|c: char| c.is_ascii_digit() || c == '$' || c == '\\');
    has_value && !is_same && (is_offer || has_other_case || is_alternative(words))
}

/// What begins a reason or contrast behind an answer.
const REASONS: &str = " because | since |, as |, which |, who |, whose |, not | and not |, whereas |, although | rather than | instead of |\
    , given |, unlike |, while |, a bit |, a little |, slightly |, just over |, just under |, well over |, well under |\
    , weil |, denn |, da |, nämlich | car |, puisque |, parce que |, porque |, ya que |, puesto que |, pois |, já que |\
    , perché |, poiché |, потому что|, так как |, ведь |, ponieważ |, bo |, omdat |, want ";

/// A text without the reason behind it: Evelyn of "Evelyn, because it fits".
pub(in super::super) fn without_reason(text: &str) -> &str {
    let cut = first(text, REASONS).map(|found| found.start).filter(|at| !is_revoked(&text[*at..]));
    cut.map_or(text, |at| text[..at].trim_end_matches([',', ' ', ';', '—', '-']))
}
