//! What follows a mark and takes its value back: that is said, or doubted before another value is asserted.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::super::answer::{
    Found, Rule, by_marks, is_value, last_sentence, offset_in, says_how, unmarked,
};
use super::super::languages::{BEFORE_CHECKS, CHECKS, no_solution, revocation};
use super::super::scan::{
    begins, behind_last, has_digits, head, holds, is_digit, lowered, past, without,
};
use super::super::words::is_choice;
use super::super::{Outcome, equality};
use super::{COUNTERFACTUAL, Group, MAX_BEHIND, denies, is_foreign, sentence};

tables! {
    /// Says that a value is one on the way.
    INTERMEDIATE: "\\b(?:first|initially|intermediate|to begin|subtotal|partial|step [0-9])\\b";
    CONCLUDES: "\\b(?:so|thus|hence|therefore|now|then|finally|next|altogether|in total)\\b";
    /// Takes back what stands before it.
    REVOCATION: "scratch (?:that|this)|strike (?:that|this)|disregard|ignore (?:the above|this|that|my)|take (?:that|\
    it|this) back|forget (?:that|this|it)\\b|\\b(?:withdraw|retract)\\b|\\b(?:i|we)(?:['’]ve)?(?: have)?(?: just| \
    now| also)* (?:ma[dk]e|found|find|spot(?:ted)?|notice|see) (?:an?|the|my|some)(?: \\w+)? (?:mistake|error|slip)|\
    \\b(?:i|we)(?: have)? (?:forgot|miscounted|misread|misunderstood|miscalculated|misapplied|overlooked|left out|\
    double[- ]counted|now replace|mixed up|used the wrong|should have|meant)\\b|\\b(?:that|this|it) (?:was|is) for \
    (?:the|a|an) (?:wrong|other|different)\\b|(?:^|[.!?\\n] *)(?:edit|update|erratum)s?:[^.\\n]*\\b(?:meant|should|is|\
    was|wrong|instead|not|replace[ds]?)\\b|\\b(?:so|thus|hence|therefore),? (?:the|this|that|my|our) (?:answer|\
    result|value) (?:is|\
    was|must be) (?:wrong|incorrect|not (?:right|correct))\\b|\\n[a-z]+ *: *(?:no\\b|wrong|incorrect|not (?:quite|\
    right|correct)|nein\\b|non\\b)|\
    \\boops|\\b(?:that|this|the above) (?:was|is) (?:just |only |merely )?(?:an?|the) (?:\\w+ )?(?:example|\
    illustration|placeholder|template|format)[.,;:!]|\\bthis is how (?:one|an?|you|the) [^.]*(?:typeset|box|format|\
    looks?|write)\\b|\\bi (?:(?:was lying|lied)\\b|give up[.!])|(?:^|[.!?\\n] *)(?:this|that|it) \
    (?:is a contradiction|makes no sense)[.!]|\\b(?:wait|hmm?|no)[,.!]* let me (?:redo|start over|\
    try again)\\b|\
    (?:^|[.!?\\n] *)(?:not true|false|untrue|wrong|incorrect|nonsense)[.!]|\\boh \
    no\\b|(?:^|[(.!?\\n] *)(?:correction:|my mistake|my bad|wait,? no|hm+,? no|no,? wait)|\\b(?:a|an|the) (?:sign|\
    arithmetic|calculation) (?:error|slip|mistake)|\\b(?:counts?|counted) (?:\\w+ ){1,4}twice|double[- ]counts|is \
    (?:a|only a|just a) (?:guess|placeholder)|\\n+ *or [$]?[0-9]|\\b(?:just )?kidding\\b|\\bi made \
    (?:it|this|that) up\\b|\\b(?:i|we) (?:do not|don['’]t) know the answer(?: here)?(?:[.!\\n]|$)|\\b(?:it|this) \
    (?:might|may|\
    could) (?:also |well |instead )?be [$]?[0-9]";
    /// The same, as the next that is said of the value before it.
    REVOCATION_OF_IT: "^[^0-9]*?(?:^[ }$*]*|[.!?,;:(\\n] *)(?:(?:wait|hm+|no|but|however|sorry|oh|actually|and)[,.!]? \
    )*(?:that|this|it|the above|everything above|the (?:previous |above )?CLAIM)(?: (?:answer|result|value|number|\
    solution|one|CLAIM))?(?: above)?(?:(?:['’]s| is| was| seems| must be| has been(?: shown to be)?| turn(?:s|ed) \
    out(?: to be)?)(?: all| clearly)? (?:wrong|incorrect|false|untrue|invalid|nonsense|rejected|a (?:false )?(?:lie|\
    CLAIM)|disproved|refuted|not (?:right|correct|true|allowed|possible|valid|among|one of|(?:the|a|an) (?:\\w+ \
    )?(?:answer|solution|option))|a mistake|mistaken|too (?:large|small|big|low|high)|impossible|an error)| can(?:not|\
    ['’]t) be(?: right| correct| true)?| violates| fail(?:s|ed)| does(?: not|n['’]t) (?:work|satisfy|fit|hold)| \
    contradicts)(?:[^a-z ]|$| (?:because|since|as|so|and|the|all|an?|our|your|above|by|already)\\b)";
    /// Begins a sentence that may do so.
    DOUBT: DOUBTING;
    /// The same; but behind `####` a contrast may begin another problem.
    CONTRAST: "(?:^|[.!?\\n] *)(?:but|however|yet|unfortunately|instead)\\b";
    /// Says that it stands all the same.
    AFFIRMATION: "\\b(?:stands?|stays)(?:$|[^a-z ]| [^c])|after all|forgot to (?:mention|say)|\\bis (?:indeed |also |still \
    )?(?:correct|right|fine|ok)\\b|(?:was|were) (?:correct|right|fine)|\\bconfirm|\\bgood\\b|\\bgreat\\b|✓|(?:^|\
    [.!?\\n] *)(?:yes|right|correct|indeed)\\b|match|\\bas (?:required|wanted|desired|expected|needed)|\\bholds\\b|\
    consistent|checks out|verified|found none|\\bno (?:error|mistake)|\\bnone\\b|works";
    /// Begins a check of what stands before it.
    CHECK: &format!("^{BEFORE_CHECKS}(?:{CHECKS}|substitut|plug|代入)");
    /// Says that it does not come out.
    FAILURE: "\\b(?:does|do|did)(?: not|n['’]t) (?:satisfy|check|work|hold|fit|match|agree|solve|add up|verify|\
    balance|meet|equal|come out)\\b|\\bfail(?:s|ed)\\b|\\bviolates\\b|\\bcontradict(?:s|ion)\\b|\\b(?:is|are)(?: not|\
    n['’]t) (?:an? |the )?(?:valid |correct |actual )?(?:solution|root|answer|equal|satisfied)\\b|[✗✘❌✖]|(?:≠|\
    \\\\neq?\\b|\\\\not ?=) *[$]?-?[1-9]|矛盾|不成立|不符|不满足|stimmt nicht|geht nicht auf|ne (?:convient|vérifie) pas|\
    no (?:se )?cumple|non (?:soddisfa|verifica)|não (?:satisfaz|confere)|не (?:подходит|удовлетворяет)|満たさない|成り立たない|\
    만족하지|성립하지";
    /// What it may say so of: the value before, or the check.
    CHECKED: "(?:^|[^a-z])(?:this|that|it|which|(?:the|our|my|this|that) (?:\\w+ )?(?:answer|value|result|number|solution|check|verification|candidate|equation|equality|condition|test|sides?)|[lr]hs|(?:both|two) sides|check|verification)[ :*]*$";
    SIDES: "(?:[lr]hs|\\bsides?|substitut(?:ing|e)|plug(?:ging)?)(?: it)?(?: back)?(?: in)?,? *(?:=|is\\b|gives|yields|equals|:|we get)";
    CONDITION: "^ (?:the|our|this|that|a|any|both|all) (?:\\w+ ){0,2}(?:conditions?|constraints?|equations?|\
    requirements?|inequality|inequalities|problem|restrictions?|domain|hypothes[ie]s|fact)\\b|^ (?:any|\
    one) of the (?:\\w+ )?(?:options|choices)\\b";
    /// Says that there is nothing of the kind.
    NOTHING: "\\bno such \\w+(?: \\w+)?(?: exists?| is possible)?$|\\b(?:the|this|that|such an?) (?:\\w+ )?\\w+ (?:does not|doesn['’]t|cannot|can['’]t|can not) (?:actually |even |possibly )?exist$|\\bno (?:solution|answer)s?$";
    /// Says what the result is.
    ASSERTION: "\\bshould (?:be|read)\\b|\\b(?:we )?need \\W?[0-9]|\\b(?:correct|right|true|new|revised) \\w+:|\\bround(?:s|ed|ing)?\\b|\\b(?:it|that|there)['’]s |\\b(?:answer|value|result|total|number|probability|count|sum|product|area|volume|length|perimeter|remainder|solution|ratio|price|age|it|there|which)s?\
    (?: [\\w']+){0,6}? (?:is|are|becomes?|be|equals?|gives?|takes|costs|to)\\b|\\b(?:so|thus|hence|therefore|giving|leaving|i\\.e|a total of|namely|we (?:get|pay|have))\\b";
}

/// Most sentences behind a mark that are looked at.
const MAX_SENTENCES: usize = 12;
/// Signs of what is worked out.
const OPERATORS: [char; 10] = ['=', '+', '-', '−', '*', '·', '×', '/', '^', '\\'];

const DOUBTING: &str = "(?:^|[.!?)}$\\n] *|[-–—] *)(?:(?:re)?start(?:ing)? (?:over|again|afresh|fresh|from scratch)|\
    (?:try|redo|recomput|retry)ing|wait|hm+|hold on|actually|sorry|i(?:['’]m| am) sorry|on second thought|i (?:now \
    )?reali[sz]e|i see now|let me (?:correct|fix|redo|reconsider|recount|recompute|recalculate|start over|try again|\
    re-?read)|nope\\b|(?:i|my) apolog(?:ize|ies)|(?:or rather|make that|i mean)|on (?:closer|second|further|\
    reflection)[a-z ]*|looking back|reading (?:it again|the (?:problem|question))|check:[^.\\n]*≠|\\n+ *or [$]?[0-9]|\
    i (?:missed|overlooked|swapped|see)|(?:the above|this|that|it) (?:seems|looks|is) (?:off|wrong|too (?:few|many))|\
    final (?:result|value|total|count)|with [^.]{0,20}the final)\\b|\\( ?(?:should be|typo|correct(?:ion)?:|actually|\
    rather)|(?:^|[.!?)}$\\n] *|[-–—→] *)(?:no[,!]|(?:edit|update|correct(?:ed|ion)):) |[,;] *(?:no,? )?wait\\b|\
    \\b(?:so|hence|thus|therefore) (?:this|that|it)(?: \\w+)? (?:(?:is|was|must be) (?:wrong|incorrect|not (?:right|\
    correct))|(?:cannot|can['’]t) be (?:right|correct)|(?:does not|doesn['’]t) (?:work|fit|check))\\b|\\b(?:must|have \
    to|has to|needs? to) (?:also |still |now )?(?:add|subtract|double|halve|round|exclude|include|remove|be \
    (?:doubled|tripled|halved|squared|added|multiplied|divided|subtracted))\\b|\\b(?:over|under|double|mis)[- ]?count|\
    \\b(?:check|verification)(?: has)? fail(?:s|ed)|\\b(?:mine|my (?:(?:own|actual|real|final) )*(?:answer|result|\
    value|solution|total|choice))(?: is\\b|:)|\\b(?:added|subtracted|multiplied|divided) instead|\\b(?:correct|\
    right|true|new|revised) (?:value|answer|result|total|count):|\\b(?:the|corrected|final|revised) (?:final |\
    corrected |revised )?answer(?: to the (?:problem|question))?(?:\\*\\*)? ?(?:is|should be|must be|:)|\\bthe \
    (?:question|problem) (?:asks|asked|wants)\\b|\\bwe (?:need|want) the\\b|\\badding the\\b|\\b(?:the|a) (?:correct|\
    right|true|actual|proper) (?:\\w+ ){0,3}(?:is|was|are|should be|would be)|(?:^|[.;!?)}$\\n] *)\
    (?:alternatively[,:]?|another possible (?:answer|value) is) (?:(?:it|the answer) (?:could|may|might) (?:also )?be \
    )?[$]?-?[0-9]+[$]?[.!\\n]*$";

/// Begin a sentence that is another value.
const GUESSES: &str = "Alternatively, |Alternatively: |Alternatively |Another possible answer is |\
    Another possible value is ";

/// Tables for what follows a mark.
static BEHIND: LazyLock<Group> =
    LazyLock::new(|| Group::new(vec![&REVOCATION_OF_IT, &CONTRAST, &DOUBT, &REVOCATION]));

/// Whether a text says that what stands before it is wrong, or may be.
pub(in super::super) fn corrects(text: &str) -> bool {
    !text.is_empty() && (REVOCATION.is_match(text) || DOUBT.is_match(text))
}

/// What says of the value in front that it is wrong: "So 18 is wrong."
const FALSE: &str = " is wrong| is too | is incorrect| is not correct| is not right| is false| is extraneous| is invalid| \
    is impossible|cannot be right| can't be right| does not work| doesn't work| must be rejected";

/// Where a text goes on behind a check of the value before it that fails, or says that there is no solution: "Check: 15 · 2
/// = 30 ≠ 32", "However, no solution exists". Of another candidate it may say so.
fn refuted(small: &str, lead: &str, mark: &str) -> Option<usize> {
    const CONTRASTS: &str = "but |but, |however|though |although |yet |unfortunately|alas|aber |leider |mais |pero |ma |\
        mas |но |jednak |ama |但|しかし|그러나|하지만";
    const OTHERS: &str =
        " if | for | when | other| another| over | larger| smaller| general| then|closed| real";
    // What is asked for may be what fails.
    let is_of_failure = holds(lead, " not |n't |n’t |fail|ontradict|ounterexample|no sol");
    let value = mark.rsplit('=').next().unwrap_or(mark).trim_matches(['$', ' ']).to_lowercase();
    if is_of_failure || value.is_empty() {
        return None;
    }
    let is_own = |clause: &str| {
        let mut places = clause.match_indices(&*value);
        places.any(|(at, _)| {
            let (before, after) = (&clause[..at], &clause[at + value.len()..]);
            (value.starts_with('\\')
                || !before.ends_with(|c: char| c.is_alphanumeric() || "-−.".contains(c)))
                && !after.starts_with(|c: char| c.is_alphanumeric())
                && !after.strip_prefix('.').is_some_and(|rest| rest.starts_with(is_digit))
        })
    };
    let is_nothing = matches!(&*value, "0" | "\\emptyset" | "\\varnothing") || !is_value(&value);
    let mut is_check = false;
    let mut sentences =
        small.split(['\n', ';', '。']).flat_map(|line| line.split(". ")).take(MAX_SENTENCES);
    sentences.find_map(|sentence| {
        let (at, end) = (offset_in(small, sentence), offset_in(small, sentence) + sentence.len());
        let bare = sentence.trim_matches(|c: char| !c.is_alphanumeric());
        is_check |= CHECK.find_small(bare).is_some();
        let is_contrast = begins(bare, CONTRASTS);
        if is_contrast
            && !is_nothing
            && !has_digits(bare)
            && !holds(bare, OTHERS)
            && (NOTHING.find_small(bare).is_some() || no_solution(bare).is_some())
        {
            return Some(at);
        }
        let fails = FAILURE.expression().find_iter(sentence).any(|found| {
            let lead = sentence[..found.start()].trim_end_matches([' ', ',', '*', '$', '(']);
            let start = behind_last(lead, ", |: |,|：|✓| but | whereas | while ").unwrap_or(0);
            let (clause, word) = (&lead[start..], found.as_str());
            let is_word =
                word.ends_with(char::is_alphabetic) && word.is_ascii() && word != "contradiction";
            // The numbers of a check are those of the value, or of its two sides.
            let is_bare = !has_digits(clause);
            let is_about = || {
                !holds(lead, "other")
                    && (SIDES.find_small(clause).is_some()
                        || is_bare
                            && (!has_digits(lead)
                                || is_own(lead)
                                || SIDES.find_small(lead).is_some()))
            };
            let is_of_it = match (is_own(clause), is_word) {
                (true, true) => clause.ends_with(&*value) && word != "failed",
                (true, false) => {
                    (is_check || is_contrast) && clause.replace("**", "").contains(OPERATORS)
                }
                (false, false) => is_check && is_about(),
                (false, true) => {
                    let is_known = || CONDITION.find_small(&sentence[found.end()..]).is_some();
                    is_bare
                        && CHECKED.find_small(clause).is_some()
                        && (holds(clause, "check|verification")
                            || (is_check || is_known()) && is_about())
                }
            };
            is_of_it && !AFFIRMATION.is_match(&small[at + found.end()..])
        });
        fails.then_some(end)
    })
}

/// Leads to what a question is said to want.
const ASKED: &str =
    "question asks|problem asks|question asked|problem asked|question wants|problem wants";

/// Whether a place is in a sentence that gives another value to others: "One might say 12, but this counts each edge twice."
fn is_aside(behind: &str, at: usize) -> bool {
    const OTHERS: &str = "One might |One could |You might |Some might |Some would ";
    let lead = sentence(&behind[..at]).trim_start();
    begins(lead, OTHERS) && has_digits(lead)
}

/// The value that a sentence gives behind what the question asks for, if it says that: "The product is 12, but the
/// question asks for the sum" gives none.
fn asked(sentence: &str) -> Option<Option<&str>> {
    let behind = &sentence[behind_last(sentence, ASKED)?..];
    let end = behind.rsplit([',', ':']).next().unwrap_or_default().trim_matches([' ', '$', '*']);
    let is_end = is_value(end) && !has_digits(&behind[..behind.rfind(end)?]);
    (is_end || !has_digits(behind)).then(|| is_end.then_some(end))
}

/// What follows a mark from where its value is taken back: that is said, or doubted before another value is asserted.
pub(in super::super) fn withdrawn<'a>(text: &'a str, mark: &Found<'_>) -> Option<&'a str> {
    let behind = head(&text[mark.span.end..], MAX_BEHIND);
    // Most solutions end with their box.
    behind.contains(char::is_alphanumeric).then_some(())?;
    let abroad = revocation(behind);
    let first = sentence(&text[..mark.span.start]);
    let is_first =
        holds(first, "irst|ntermediate|egin|ubtotal|artial|tep ") && INTERMEDIATE.is_match(first);
    let small = lowered(behind);
    if let Some(at) = refuted(&small, first, &mark.text) {
        let rest = &behind[at..];
        let is_same =
            |other: Found<'_>| equality::compared(&mark.text, &other.text).0 == Outcome::Correct;
        return (!by_marks(rest).is_some_and(is_same)).then_some(rest);
    }
    let searched = BEHIND.searched(behind, &small);
    let of_it = searched.find(&REVOCATION_OF_IT);
    // "3 is valid, -3 is extraneous" says nothing of the 3.
    let is_other = |c: char| c.is_alphanumeric() || ".-−".contains(c);
    let mut again =
        behind.match_indices(&*mark.text).take(8).map(|(at, text)| (at, at + text.len()));
    let denied = again
        .find(|(at, end)| begins(&behind[*end..], FALSE) && !behind[..*at].ends_with(is_other));
    let denied = denied.map(|(at, _)| at);
    let of_it = of_it.into_iter().chain(denied).min();
    let restated = |at: usize| {
        let sentence = behind[at..].trim_start_matches(|c: char| !c.is_alphabetic());
        let rest =
            sentence.split_once(' ').map_or("", |(_, rest)| rest).trim_start_matches(['$', '*']);
        rest.strip_prefix(&*mark.text).is_some_and(denies)
    };
    let contrast = searched.find(&CONTRAST).filter(|_| mark.rule != Rule::Hashes);
    let doubting = searched.find(&DOUBT);
    let is_doubting = doubting.is_some();
    let doubt = doubting.into_iter().chain(contrast).min();
    let contrary = doubt.filter(|at| restated(*at));
    let of_it = of_it.or(contrary);
    let revoked = searched.find(&REVOCATION).filter(|at| !is_aside(behind, *at));
    let revoked = revoked.into_iter().chain(of_it).chain(abroad).min();
    let doubted = doubt.filter(|at| {
        let sentence = behind[*at..]
            .trim_start_matches(|c: char| !c.is_alphanumeric())
            .split_inclusive(['.', '?', '\n'])
            .next()
            .unwrap_or_default();
        let asks = sentence.ends_with('?') && holds(sentence, "ut |owever");
        !asks && !holds(sentence, " if ")
    });
    let concluded = if is_first { CONCLUDES.find(behind).map(|found| found.start) } else { None };
    let at = revoked.into_iter().chain(doubted).chain(concluded).min()?;
    // All of the sentence: "Many write "the answer is 9"" takes nothing back.
    let at = at - sentence(&behind[..at]).len();
    let rest = &behind[at..];
    let last = || {
        let end = rest.trim_end().trim_end_matches(['.', '!']);
        let line = end.rsplit('\n').next().unwrap_or(end);
        last_sentence(line)
    };
    let stated = || {
        // "no, 45", "Edit: 16", "Actually 13"
        let lead = DOUBT.find(last()).map_or(0, |lead| lead.end);
        let value = last()[lead..].trim_matches([' ', ',', ':', '$', ')', '!', '*']);
        let value = without(value, "be |read |should read ");
        let value = past(last(), GUESSES).unwrap_or(value);
        let given = is_value(value).then_some(Some(value));
        if let Some(given) = given.or_else(|| asked(last())) {
            return given;
        }
        // Behind a contrast alone an equation may be a part of another way.
        let is_strong = || revoked.is_some() || is_doubting;
        let is_said = (ASSERTION.is_match(last()) || last().contains('=') && is_strong())
            && !COUNTERFACTUAL.is_match(last());
        let (found, _) = unmarked(last()).filter(|_| !AFFIRMATION.is_match(last()))?;
        let is_own = !is_foreign(&last()[..offset_in(last(), found)], "");
        (is_own && !says_how(last()) && (is_said || is_choice(found) && is_choice(&mark.text)))
            .then_some(found)
    };
    let marked = by_marks(rest).map(|found| found.text);
    let is_answer = |text: &Cow<'_, str>| is_value(text) || is_choice(text);
    let other = marked.or_else(|| stated().map(Cow::Borrowed)).filter(is_answer);
    let is_other = match other {
        Some(other) => equality::compared(&mark.text, &other).0 != Outcome::Correct,
        None => revoked.is_some() && !AFFIRMATION.is_match(rest),
    };
    is_other.then_some(rest)
}
