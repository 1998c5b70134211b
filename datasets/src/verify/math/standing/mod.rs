//! Whether an answer stands: the one place for what takes it back. The words around it may deny it (`denial`) or state
//! another in contrast (`contrast`); its sentence may give it to somebody else, to another case, or show it as a
//! form; and what follows may retract it.

use std::borrow::Cow;
use std::ops::Range;

use regex::{Captures, Regex};

use super::super::tail;
use super::answer::{Found, Rule, by_marks, is_value, last_sentence, offset_in, unmarked};
use super::languages::{are_opposite, is_case, revocation};
use super::scan::{begins, head, holds, is_one_of, lowered, past};
use super::text::is_choice;
use super::{Outcome, texts};

/// Expressions with their names, each made at its first use.
macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident: $table:expr;)*) => {$(
        $(#[$doc])*
        static $name: std::sync::LazyLock<$crate::verify::math::standing::Table> =
            std::sync::LazyLock::new(|| $crate::verify::math::standing::Table::new($table));
    )*};
}

mod contrast;
mod denial;
mod hints;

pub(super) use contrast::{is_bound, stated};
pub(super) use denial::*;
use hints::{ASSUMES, CHANGES, DENIES, ERRS, LISTS, SAYS, SHOWS, WITHDRAWS, hints};

/// Longest part of a sentence, and of the text behind a mark, that is looked at.
const MAX_SENTENCE: usize = 240;
const MAX_BEHIND: usize = 4000;
/// The same, right before a value.
const MAX_NEAR: usize = 96;

/// What is put into the tables for the words in capitals: what may stand behind a verdict on a value; from what
/// somebody says to a value; people.
const PARTS: [(&str, &str); 4] = [
    ("ANYBODY", "PEOPLE|\\w+(?:er|or|mate|ist)s?"),
    ("END", "[ *$]*(?:$|[^a-z0-9 *$]| (?:because|since|as|so|and|here|to be)\\b)"),
    (
        "VALUE",
        "(?: that|:|,)?(?:[ \"“$*]*(?:(?:(?:que|qu|dass|che) )?(?:it|the|there|his|her|their|la|il|die|das|le|lo|a|son)(?: \\w+){0,3}[ :]*)?| *[\"“]The(?: \\w+){1,3} )[ \"“$*]*$",
    ),
    (
        "PEOPLE",
        "students?|solver|worker|candidate|pupil|poster|commenter|post|note|margin|hint|friend|teacher|classmate|colleague|brother|sister|somebody|someone|people|book|textbook|key|manual|\
    calculator|internet|website|forum|model|assistant|article|paper|blog|boy|girl|sign|rumou?r|him|her|them",
    ),
];
/// Subjects of a verb of saying that are nobody.
const NOBODY: &str = "We|It|This|That|Theorem|Lemma|Formula|Problem|Question|Which|What|So|Thus|Hence|Then|One|You|Now|And|\
    answer|order|number|remainder|factor|vector|divisor|error|other|whether|either|neither|paper|calculator|computer";

tables! {
    /// Somebody else says what follows: "Tom claims that", "according to the textbook"; or it is quoted from somebody.
    BY_OTHERS: "(?-i)(?:[Aa]ccording to (?:\\w+ ){0,3}?(?:PEOPLE)|\\b(ANYBODY|[A-Z][A-Za-z0-9'-]+|[Hh]e|[Ss]he|[Tt]hey)(?: app| \
    key| manual)? (?:\\w+ly )?(?:would |will |might )?(?:say|says|said|claim(?:s|ed)?|thinks?|thought|believe[sd]?|\
    insist(?:s|ed)?|suggest(?:s|ed)?|told (?:me|us)|guess(?:es|ed)?|goes|has it|shout(?:s|ed)?|reports?|states?)|\
    (?:has|have|is|was|are|were) (?:been )?(?:\\w+ly )?(?:claimed|said|believed|reported|rumou?red|alleged))VALUE";
    QUOTED: "(?-i)\\b(?:ANYBODY|[Ss]he|[Hh]e|[Tt]hey|[A-Z]\\w+)(?:['’]s \\w+)?(?: \\w+){0,2}? (?:wrote|writes?|\
    written|ends?|reads?|replie[sd]|answer(?:s|ed)|concludes?|states?|stated|texted|said|says)(?: me| that|:|,)* \
    *[\"“][^\"”]*$|(?-i)^(?:[A-Z]\\w+|ANYBODY): *[\"“][^\"”]*$";
    /// A book or a key gives what follows.
    OF_SOURCES: "\\b(?:text ?book|answer (?:key|sheet)|solutions? (?:key|manual)|(?:back|end) of the book|\
    website|internet|online solution|forum|manuel|corrigé|solucionario|libro(?: de texto| di testo)?|gabarito|\
    lehrbuch|im buch|lösungsheft|buch|учебник\\w*|podręcznik\\w*)(?:(?:['’]s)? answer is|(?: app)? (?:gives?|\
    says?|lists?|states?|claims?|prints?|donne|indique|dit|da|dice|dá|diz|gibt|sagt|steht|nennt|дает|\
    даёт|podaje))VALUE|(?:课本|課本|教材|书上|书后|参考答案|标准答案|网上|教科書|解答欄)[^。,，]{0,10}[$ ]*$|\
    (?:^|[，。；：\n ])(?:小.|他|她|他们|同学|老师|学生|有人|网友|朋友|某人|甲|乙|丙).{0,2}(?:说|認為|认为|觉得|以为|写道|声称|算得)[^，。,]{0,12}$";
    /// Of what somebody "gets" or "writes", and of what is in a book, only a contrast behind it says that it is not the answer.
    OF_OTHERS: "(?-i)(?:\\b(?:PEOPLE|[A-Z]\\w+|[Hh]e|[Ss]he|[Tt]hey)(?: app)? (?:would |will |often )?(?:gets?|got|shows?|found|finds|obtain(?:s|ed)?|printed|gave|gives?|writes?|wrote|answer(?:s|ed)?)|\
    \\b(?:PEOPLE)(?:['’]s (?:\\w+ )?(?:answer|result|solution|value))? (?:is|was))VALUE";
    /// Somebody said what stands in quotation marks before: `"The answer is 9," said Tom.`
    SAID_BEHIND: "(?-i)^[^\"”\\n]{0,12}[\"”],? (?:said|says|wrote|writes|claim|thought|(?:he|she|they|[A-Z]\\w+|the \\w+) (?:said|says|wrote|writes|claim|thought|insist))";
    /// Agrees with what somebody else says.
    AGREEMENT: "^[^\\n]{0,40}\\b(?:agree|confirm|indeed|as well|too|same|match|is (?:right|correct)|are (?:right|correct))";
    /// An instruction that shows the form of an answer, or a form in quotation marks.
    FORM: "\\b(?:please|write|put|end|finish|conclude|state|give|present|type|respond|reply|instructions?|format|\
    prompt)\\b.*\\b(?:such as|like|as in|(?:in this way|like this|as follows)|in the form|format|e\\.g\\.|for example|\
    with (?:a|the|this) (?:line|words|sentence))[ :,]*(?:(?:the |final |my )*answer(?: is|:)? ?)?[$*]*$|\\b(?:example|\
    such as|like|prompt|instructions?|task|question|problem|format|form|ending|lines?|words?|sentence|phrase|template|\
    with)\\b[^\"“”]{0,24}[ :][\"“'`]+(?:(?:the |final |my )*answer(?: is|:)? ?)?[*$]*$|\\b(?:should|would|must|might|\
    could) look like(?: this| that)?[ :,]*[$*]*$";
    /// Supposes another case.
    SUPPOSITION: "\\b(?:wäre|würden?|serait|sería|seria|sarebbe|был[оа]? бы|if|had|were|without|only if|assum(?:ing|ption)|suppos(?:e|ing)|would (?:expect|think|guess|be|have been|get|give))\\b|如果|假如|若";
    /// Supposes an answer, or names that of the graders.
    PREMISE: "\\b(?:suppose|assume|imagine|pretend|if|unless|whether|(?:must|have to|need to) (?:show|prove))(?: that)? (?:the |my |our )?(?:\\w+ )?(?:answer|result|value|solution)\\b[^,;.:\\n]*$|\
    (?:^|[ ,;:(])(?:si|wenn|falls|ob|se|если|jeśli|eğer|jika|nếu) [^,;.:\\n]{0,24}(?:resp|antwort|risp|rép|ответ|odpow|cevap|jawaban|đáp)[^,;.:\\n]*$|(?:如果|假设|假如|要是|倘若|是否|若)[^，。,]{0,12}$|\\b(?:reference|gold(?:en)?|ground[- ]truth)(?:['’]s)? (?:answer|solution)\\b[^.\\n]*$";
    /// What follows an equation that is solved in the same sentence.
    SOLVED: "^[$ ]*,? *(?:and )?(?:so|thus|hence|therefore|then|which (?:means|gives|yields)|giving|i\\.e)[^.\\n]* ?=";
    /// A box that is a part of what a sentence calculates: "the probability is $1 - \boxed{x} =".
    OPERAND: "\\b(?:is|are|be|equals)\\b [$\\\\(]*[^=$]*(?:[-+*/×·]|\\\\cdot|\\\\times) *[$]?$";
    /// Names the place where an extreme value is attained.
    ATTAINED: "\\b(?:attained|achieved|reached|occurs?|occurring|equality)(?: only)? (?:at|when|for|if)\\b[^.;]*$";
    /// A sentence behind an answer about something else.
    ASIDE: "\\b(?:without|if|had|otherwise)\\b[^.]*\\bwould\\b|\\b(?:common|typical) (?:error|mistake)|\\b(?:first|earlier|previous) attempt|\\b(?:old|original|previous) \\w+ was\\b|^[^a-z]*(?:similarly|likewise|for comparison|analogously|by contrast|as an aside)\\b";
    /// Says that a value is one on the way.
    INTERMEDIATE: "\\b(?:first|initially|intermediate|to begin|subtotal|partial|step [0-9])\\b";
    CONCLUDES: "\\b(?:so|thus|hence|therefore|now|then|finally|next|altogether|in total)\\b";
    /// Supposes what is not so by its order of words: "had the order mattered, it would be".
    INVERSION: "^[^a-z]*(?:had|were) [^.]*\\bwould (?:be|have been)\\b";
    /// Says that it is not the case.
    CONTRARIES: "(?:^|[.;,:!] *|\\n+)[)}$ *]*(?:but|however|yet|in (?:fact|reality|our case|this case)|unfortunately|here(?:, however)?),? [^.\\n]*|[.;,:!] *(?:and )?(?:it|this|that|they|he|she|there) (?:is|are|was|were|do|does|did|has|had)(?: not|n['’]t)\\b[^.\\n]*|\
    [.,;，。] *(?:pero|aber|mais|mas|ma|но|sie|er|es|但|可是|然而)[^.。\\n]*(?: no |nicht|n['’]| pas|não|non| не |不)[^.。\\n]*";
    /// Counterfactual: "the answer would be".
    COUNTERFACTUAL: "\\b(?:would|were|had)\\b";
    /// Says that another is wrong.
    MISTAKES: "\\b(?:but|however|wrong|incorrect|mistaken?|cannot be|can['’]t be|misprint|overlook(?:s|ed)?|forgets?|forgot|yet)\\b";
    /// Takes back what stands before it.
    REVOCATION: "scratch (?:that|this)|strike (?:that|this)|disregard|ignore (?:the above|this|that|my)|take (?:that|it|this) back|forget (?:that|this|it)\\b|\\b(?:withdraw|retract)\\b|\
    \\b(?:i|we)(?:['’]ve)?(?: have)?(?: just| now| also)* (?:ma[dk]e|found|find|spot(?:ted)?|notice|see) (?:an?|the|\
    my|some)(?: \\w+)? (?:mistake|error|slip)|\
    \\b(?:i|we)(?: have)? (?:forgot|miscounted|misread|misunderstood|miscalculated|misapplied|overlooked|left out|\
    double[- ]counted|now replace|mixed up|used the wrong|should have|meant)\\b|\
    \\b(?:that|this|it) (?:was|is) for (?:the|a|an) (?:wrong|other|different)\\b|\
    (?:^|[.!?\\n] *)(?:edit|update|erratum)s?:[^.\\n]*\\b(?:meant|should|is|was|wrong|instead|not)\\b|\
    \\n[a-z]+ *: *(?:no\\b|wrong|incorrect|not (?:quite|right|correct)|nein\\b|non\\b)|\
    \\boops|\\boh no\\b|(?:^|[(.!?\\n] *)(?:correction:|my mistake|my bad|wait,? no|hm+,? no|no,? wait)|\\b(?:a|an|the) (?:sign|\
    arithmetic|calculation) (?:error|slip|mistake)|\
    \\b(?:counts?|counted) (?:\\w+ ){1,4}twice|double[- ]counts|is (?:a|only a|just a) (?:guess|placeholder)|\\b(?:just )?kidding\\b|\\b(?:it|this) (?:might|may|could) (?:also |well |instead )?be [$]?[0-9]";
    /// The same, as the next that is said of the value before it.
    REVOCATION_OF_IT: "^[^0-9]*?(?:^|[.!?,;:\\n] *)(?:(?:wait|hm+|no|but|however|sorry|oh|actually|and)[,.!]? \
    )*(?:that|this|it)(?: (?:answer|result|value|number|solution|one))?(?:(?:['’]s| is| was| seems| must be)(?: all| \
    clearly)? (?:wrong|incorrect|not (?:right|correct|allowed|possible|valid|among|one of|(?:the|a|an) (?:\\w+ )?(?:answer|solution|option))|a mistake|mistaken|\
    too (?:large|small|big|low|high)|impossible|an error)| can(?:not|['’]t) be(?: right| correct)?| violates| fails| \
    does(?: not|n['’]t) (?:work|satisfy|fit|hold)| contradicts)(?:[^a-z ]|$| \
    (?:because|since|as|so|and|the|all|an?|our|your)\\b)";
    /// Begins a sentence that may do so.
    DOUBT: DOUBTING;
    /// The same; but behind `####` a contrast may begin another problem.
    CONTRAST: "(?:^|[.!?\\n] *)(?:but|however|yet|unfortunately|instead)\\b";
    /// Says that it stands all the same.
    AFFIRMATION: "\\bstands?\\b|after all|forgot to (?:mention|say)|\\bis (?:indeed |also |still )?(?:correct|right|fine|ok)\\b|(?:was|were) \
    (?:correct|right|fine)|\\bconfirm|\\bgood\\b|\\bgreat\\b|✓|(?:^|[.!?\\n] *)(?:yes|right|correct|indeed)\\b|match|\
    \\bas (?:required|wanted|desired|expected|needed)|\\bholds?\\b|consistent|checks out|verified|found none|\\bno \
    (?:error|mistake)|\\bnone\\b|works";
    /// Says what the result is.
    ASSERTION: "\\bshould (?:be|read)\\b|\\b(?:we )?need \\W?[0-9]|\\b(?:correct|right|true|new|revised) \\w+:|\\bround(?:s|ed|ing)?\\b|\\b(?:it|that|there)['’]s |\\b(?:answer|value|result|total|number|probability|count|sum|product|area|volume|length|perimeter|remainder|solution|ratio|price|age|it|there|which)s?\
    (?: [\\w']+){0,6}? (?:is|are|becomes?|be|equals?|gives?|takes|costs|to)\\b|\\b(?:so|thus|hence|therefore|giving|leaving|i\\.e|a total of|namely|we (?:get|pay|have))\\b";
}
const DOUBTING: &str = "(?:^|[.!?)}$\\n] *|[-–—] *)(?:wait|hm+|hold on|actually|sorry|i(?:['’]m| am) sorry|on second \
    thought|i (?:now )?reali[sz]e|i see now|let me (?:correct|fix|redo|reconsider|recount|recompute|recalculate|start over|try again|re-?read)|nope\\b|(?:i|my) apolog(?:ize|ies)|(?:or rather|make that|i mean)|on (?:closer|second|further|reflection)[a-z ]*|looking back|reading (?:it again|the (?:problem|question))|check:[^.\\n]*≠|\\n+ *or [$]?[0-9]|\
    i (?:missed|overlooked|swapped|see)|(?:the above|this|that|it) (?:seems|looks|is) (?:off|wrong|too (?:few|many))|final (?:result|value|total|count)|with [^.]{0,20}the final)\\b|\
    \\( ?(?:should be|typo|correct(?:ion)?:|actually|rather)|(?:^|[.!?)}$\\n] *|[-–—→] *)(?:no[,!]|(?:edit|update|correct(?:ed|ion)):) |[,;] \
    *(?:no,? )?wait\\b|\\b(?:so|hence|thus|therefore) (?:this|that|it)(?: \\w+)? \
    (?:(?:is|was|must be) (?:wrong|incorrect|not (?:right|correct))|(?:cannot|can['’]t) be (?:right|correct)|(?:does \
    not|doesn['’]t) (?:work|fit|check))\\b|\\b(?:must|have to|has to|needs? to) (?:also |still |now )?(?:add|subtract|double|halve|round|exclude|include|remove|be (?:doubled|tripled|\
    halved|squared|added|multiplied|divided|subtracted))\\b|\\b(?:over|under|double|mis)[- ]?count|\\b(?:check|verification) fails|\\b(?:added|subtracted|multiplied|divided) instead|\
    \\b(?:correct|right|true|new|revised) (?:value|answer|result|total|count):|\\b(?:the|corrected|final|revised) (?:final |corrected |revised )?answer(?: to the (?:problem|question))?(?:\\*\\*)? ?(?:is|should be|must be|:)|\\bthe (?:question|problem) (?:asks|asked|wants)\\b|\\bwe \
    (?:need|want) the\\b|\\badding the\\b|\\b(?:the|a) (?:correct|right|true|actual|proper) (?:\\w+ ){0,3}(?:is|was|\
    are|should be|would be)";

/// A table as one expression. One for small letters is made in half the time of one for both cases, so the text that it
/// is looked for in is made small.
pub(super) struct Table {
    expression: Regex,
    /// Whether capitals count, in a table that begins with `(?-i)`.
    is_cased: bool,
}

impl Table {
    pub(super) fn new(table: &str) -> Self {
        let table =
            PARTS.iter().fold(table.to_owned(), |table, (name, part)| table.replace(name, part));
        let is_latin = !table.contains(|c: char| c.is_alphabetic() && !c.is_ascii());
        let table = if is_latin { table.replace("\\b", "(?-u:\\b)") } else { table };
        let is_cased = table.starts_with("(?-i)");
        let table = table.replace("\\w", if is_cased { "[A-Za-z']" } else { "[a-z']" });
        // What matches no other characters is made of bytes, which takes a tenth of the time.
        let is_plain = table.is_ascii() && !table.contains("[^") && !table.contains('.');
        let flags = if is_plain { "-u" } else { "u" };
        let expression =
            Regex::new(&format!("(?{flags}:{table})")).expect("a table of expressions");
        Self { expression, is_cased }
    }

    fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_cased { Cow::Borrowed(text) } else { lowered(text) }
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.expression.is_match(&self.text(text))
    }

    /// Where it stands first.
    pub(super) fn find(&self, text: &str) -> Option<Range<usize>> {
        self.expression.find(&self.text(text)).map(|found| found.range())
    }

    /// Where it stands last.
    pub(super) fn last(&self, text: &str) -> Option<Range<usize>> {
        self.expression.find_iter(&self.text(text)).last().map(|found| found.range())
    }
}

/// Whether a box is on the way to the answer: the right side of an equation that its sentence goes on to solve,
/// `2x = \boxed{18}, so x = 9`, or the place where the value in the box before it is attained.
pub(super) fn is_step(before: &str, after: &str) -> bool {
    let sentence = sentence(before);
    let equation = sentence
        .trim_end_matches([' ', '$'])
        .strip_suffix('=')
        .map(|side| side.trim_end().as_bytes());
    let is_multiple = matches!(equation, Some([.., b'0'..=b'9', b'a'..=b'z']));
    is_multiple && SOLVED.is_match(head(after, MAX_SENTENCE))
        || equation.is_none()
            && after.trim_start_matches(['$', ' ']).starts_with('=')
            && OPERAND.is_match(sentence)
        || before.contains("\\boxed")
            && if sentence.contains("\\boxed") { &*ATTAINED } else { &*ASIDE }.is_match(sentence)
}

/// Whether the sentence of a mark gives its value to somebody else ("Tom says the answer is 7"), to another case ("if x
/// were 3, it would be 7, but x is 2"), or shows it as a form ("end with a line such as").
pub(super) fn is_foreign(before: &str, after: &str) -> bool {
    foreign(before, after, hints(sentence(before)))
}

/// The same, of words before the mark that have these hints.
fn foreign(before: &str, after: &str, found: u16) -> bool {
    let sentence = sentence(before);
    let behind = head(after, MAX_SENTENCE);
    let has_quote = sentence.contains(['"', '“']);
    let is_said = || {
        let found = BY_OTHERS.expression.captures(sentence);
        let found = found.or_else(|| QUOTED.expression.captures(sentence));
        let is_somebody = |found: Captures<'_>| {
            found.get(1).is_none_or(|subject| !is_one_of(subject.as_str(), NOBODY))
        };
        let is_quote = has_quote && SAID_BEHIND.is_match(behind);
        (is_quote || found.is_some_and(is_somebody)) && !AGREEMENT.is_match(behind)
    };
    let is_listed = || OF_SOURCES.is_match(sentence) && !AGREEMENT.is_match(behind);
    let is_supposed = || {
        let contrary = CONTRARIES.find(behind);
        contrary.is_some_and(|found| {
            let is_near = !behind[..found.start].contains(". ");
            let text = &behind[found];
            is_near
                && (COUNTERFACTUAL.is_match(sentence)
                    || !text.is_ascii()
                    || holds(text, " not|n't|=| so | no | nicht| pas|non "))
        })
    };
    (has_quote || found & SAYS != 0) && is_said()
        || found & LISTS != 0 && is_listed()
        || found & ASSUMES != 0 && PREMISE.is_match(sentence)
        || hints(behind) & ERRS != 0 && OF_OTHERS.is_match(sentence) && MISTAKES.is_match(behind)
        || (has_quote || found & SHOWS != 0)
            && (FORM.is_match(sentence)
                || INVERSION.is_match(sentence)
                || SUPPOSITION.is_match(sentence) && is_supposed())
        || is_one_of_cases(before, after)
}

/// Whether a sentence gives the answer of one case, and the one beside it that of another: "If it is fair, the answer is
/// 6. If it is not, the answer is 8."
pub(super) fn is_one_of_cases(before: &str, after: &str) -> bool {
    let gives = |sentence: &str| is_case(sentence) && holds(sentence, "nswer is|\\boxed");
    let own = sentence(before);
    if !is_case(own) {
        return false;
    }
    let previous =
        before[..before.len() - own.len()].trim_end_matches(['.', ' ', '\n', ';', '$', '。']);
    let previous = self::sentence(previous);
    let mut sentences = after.split_inclusive(['.', ';', '。']);
    let end = sentences.next().unwrap_or_default();
    let next = sentences.next().unwrap_or_default();
    // The value itself, which is not shown here.
    let whole = || format!("{own}0{end}");
    own.trim_start().starts_with("Otherwise")
        || gives(previous)
        || gives(next)
        || are_opposite(&whole(), next)
        || are_opposite(previous, &whole())
}

/// The sentence that a text ends in.
fn sentence(before: &str) -> &str {
    let near = tail(before, MAX_SENTENCE);
    let near = if near.is_ascii() { near } else { near.rsplit('。').next().unwrap_or(near) };
    let bytes = near.as_bytes();
    let is_end = |at: usize| match bytes[at] {
        b'\n' => true,
        b'.' | b'!' | b'?' => matches!(bytes.get(at + 1), Some(b' ' | b'"')),
        _ => false,
    };
    &near[(0..bytes.len()).rev().find(|at| is_end(*at)).map_or(0, |at| at + 1)..]
}

/// Whether somebody else obtains the value behind a text: "my friend got".
pub(super) fn is_of_others(before: &str) -> bool {
    OF_OTHERS.is_match(sentence(before))
}

/// Whether a text says that what stands before it is wrong, or may be.
pub(super) fn corrects(text: &str) -> bool {
    !text.is_empty() && (REVOCATION.is_match(text) || DOUBT.is_match(text))
}

/// Whether the words around a value, or those of its sentence, say that it is not the answer.
pub(super) fn is_unstated(before: &str, after: &str) -> bool {
    // "infinitely many, 3 of which are below 100"
    let is_part =
        || after.starts_with(" of ") && holds(tail(before, MAX_SENTENCE), "nfinitely many");
    // Its sentence, and as much before a value as other rules look at.
    let found = hints(tail(before, sentence(before).len().max(MAX_NEAR)));
    denial::denied(before, after, found)
        || found & CHANGES != 0 && is_changed(before)
        || found & DENIES != 0 && contrast::is_bound_of_mark(before, after)
        || is_part()
        || foreign(before, after, found)
}

/// What follows a mark from where its value is taken back: that is said, or doubted before another value is asserted.
pub(super) fn withdrawn<'a>(text: &'a str, mark: &Found<'_>) -> Option<&'a str> {
    let behind = head(&text[mark.span.end..], MAX_BEHIND);
    let abroad = revocation(behind);
    let first = sentence(&text[..mark.span.start]);
    let is_first =
        holds(first, "irst|ntermediate|egin|ubtotal|artial|tep ") && INTERMEDIATE.is_match(first);
    if abroad.is_none() && !is_first && hints(behind) & WITHDRAWS == 0 {
        return None;
    }
    let of_it = REVOCATION_OF_IT.find(behind).map(|found| found.start);
    // "So 18 is wrong."
    const FALSE: &str = " is wrong| is too | is incorrect| is not correct| is not right| is false| is extraneous| is invalid| is impossible|\
        cannot be right| can't be right| does not work| doesn't work| must be rejected";
    let mut again = behind.match_indices(&*mark.text).take(8);
    let denied =
        again.find(|(at, text)| begins(&behind[at + text.len()..], FALSE)).map(|(at, _)| at);
    let of_it = of_it.into_iter().chain(denied).min();
    let restated = |at: usize| {
        let sentence = behind[at..].trim_start_matches(|c: char| !c.is_alphabetic());
        let rest =
            sentence.split_once(' ').map_or("", |(_, rest)| rest).trim_start_matches(['$', '*']);
        rest.strip_prefix(&*mark.text).is_some_and(denies)
    };
    let contrast = CONTRAST.find(behind).filter(|_| mark.rule != Rule::Hashes);
    let doubt = DOUBT.find(behind).into_iter().chain(contrast).map(|found| found.start).min();
    let contrary = doubt.filter(|at| restated(*at));
    let of_it = of_it.or(contrary);
    let revoked = REVOCATION.find(behind).map(|found| found.start);
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
        let value = past(value, "be |read |should read ").unwrap_or(value);
        if is_value(value) {
            return Some(value);
        }
        // Behind a contrast alone an equation may be a part of another way.
        let is_strong = || revoked.is_some() || DOUBT.find(behind).is_some();
        let is_said = (ASSERTION.is_match(last()) || last().contains('=') && is_strong())
            && !COUNTERFACTUAL.is_match(last());
        let (found, _) = unmarked(last()).filter(|_| !AFFIRMATION.is_match(last()))?;
        let is_own = !is_foreign(&last()[..offset_in(last(), found)], "");
        (is_own && (is_said || is_choice(found) && is_choice(&mark.text))).then_some(found)
    };
    let marked = by_marks(rest).map(|found| found.text);
    let is_answer = |text: &Cow<'_, str>| is_value(text) || is_choice(text);
    let other = marked.or_else(|| stated().map(Cow::Borrowed)).filter(is_answer);
    let is_other = match other {
        Some(other) => texts::compared(&mark.text, &other).0 != Outcome::Correct,
        None => revoked.is_some() && !AFFIRMATION.is_match(rest),
    };
    is_other.then_some(rest)
}
