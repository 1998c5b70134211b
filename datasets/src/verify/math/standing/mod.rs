//! Whether an answer stands: the one place for what takes it back. The words around it may deny it (`denial`) or state
//! another in contrast (`contrast`); its sentence may give it to somebody else, to another case, or show it as a
//! form; and what follows may retract it.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use regex::{Captures, Regex, RegexSet, SetMatches};
use regex_syntax::hir::{Hir, HirKind};

use super::super::tail;
use super::languages::{are_opposite, is_case};
use super::scan::{head, holds, is_one_of, lowered};

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
mod withdrawal;

pub(super) use contrast::{altered, is_bound, stated};
pub(super) use denial::*;
pub(super) use withdrawal::{corrects, withdrawn};

/// Longest part of a sentence, and of the text behind a mark, that is looked at.
const MAX_SENTENCE: usize = 240;
const MAX_BEHIND: usize = 4000;

/// What is put into the tables for the words in capitals: what may stand behind a verdict on a value; from what
/// somebody says to a value; people.
const PARTS: [(&str, &str); 7] = [
    (
        "TRIED",
        "(?:naive|previous|earlier|older|old|quick|hasty|common|typical|tempting|careless|simple|other|alternative|\
        obvious|official|published|wrong|flawed|incorrect|standard|usual|direct)",
    ),
    (
        "INTO",
        "(?:in|into|inside|within|using|with|between|like|by|innerhalb|als|dans|sous|entre|en|dentro de|em|tra)(?: the (?:format|form))?[ \"“'`*$]*$",
    ),
    (
        "CLAIM",
        "(?:claim|statement|assertion|conjecture|proposition|hypothesis|conclusion|sentence)",
    ),
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
    даёт|podaje))VALUE|\\b(?:selon|d['’]après|laut|según|secondo|segundo|согласно) (?:\\w+ ){0,2}?(?:manuel|\
    corrigé|livre|\
    solucionario|libro|gabarito|lehrbuch|buch|учебник\\w*),?(?: [\\p{L}]+){0,4}VALUE|(?:课本|課本|教材|书上|书后|参考答案|标准答案|\
    网上|教科書|解答欄)[^。,，]{0,10}[$ ]*$|\
    (?:^|[，。；：\n ])(?:小.|他|她|他们|同学|老师|学生|有人|网友|朋友|某人|甲|乙|丙).{0,2}(?:说|認為|认为|觉得|以为|写道|声称|算得)[^，。,]{0,12}$";
    /// Of what somebody "gets" or "writes", and of what is in a book, only a contrast behind it says that it is not the answer.
    OF_OTHERS: "(?-i)(?:\\b(?:PEOPLE|[A-Z]\\w+|[Hh]e|[Ss]he|[Tt]hey)(?: app| else)? (?:would |will |often )?(?:gets?|got|shows?|found|finds|obtain(?:s|ed)?|printed|gave|gives?|writes?|wrote|answer(?:s|ed)?)|\
    \\b(?:PEOPLE)(?:['’]s (?:\\w+ )?(?:answer|result|solution|value))? (?:is|was))VALUE";
    /// The same of a solution that another one may improve on.
    OF_ATTEMPTS: "\\b(?:(?:one|another|some) (?:TRIED )*|(?:TRIED )+)(?:solution|attempt|approach|method|argument|calculation|count|answer|reasoning|analysis)s? (?:gave|gives?|yields?|yielded|got|gets|obtain(?:s|ed)|arrives? at|produces?d?)VALUE|\\b(?:TRIED )+(?:solution|answer|guess|result)s? (?:is|was)VALUE";
    /// Says what is wrong with it.
    FLAWS: "(?:^|[.,;!—] *)(?:(?:but|however|and|yet),? )?(?:i (?:think|believe|suspect|fear)(?: that)? )?(?:it|he|she|they|this|that|which|(?:this|that|their|his|her|its|the) (?:attempt|model|solver|solution|reasoning|argument|approach|method|work|answer|count|student))(?: \\w+ly)? (?:(?:made|makes|commits|committed|contains|contained|has|had) (?:an?|some|the same) (?:\\w+ )?(?:error|mistake|slip|flaw|gap|bug)|(?:is|was|seems|looks) (?:\\w+ly )?(?:flawed|faulty|unsound|sloppy|invalid|unjustified|wrong|incorrect|mistaken|based on an? (?:false|wrong|error|mis\\w+))(?: *$|[.,;!—]| (?:because|since|as|assum)\\w*)|err(?:s|ed)\\b|(?:neglect|ignore|omit|overlook|overcount|double-?count|miscount|misread|disregard)(?:s|ed)?\\b|miss(?:es|ed) (?:the|an?|some|that|two|one|out|cases?|symmetr)\\w*\\b|forg[eo]ts?\\b|fail(?:s|ed) to\\b)";
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
    could) look like(?: this| that)?[ :,]*[$*]*$|^[^a-z]*(?:for example|for instance|e\\.?g\\.?)[, :]*[$*]*$";
    /// An instruction, or what the question is said to want: "Put your final answer in".
    INSTRUCTION: "\\b(?:your|deine|ihre|ta|votre|tu|su|sua|tua) (?:final |own |complete |numeric(?:al)? |finale |endgültige )*(?:answers?|results?|solutions?|response|reply|antwort|réponse|respuesta|resposta|risposta)(?: final[e]?)?\\b[^.:]{0,24} INTO|\\b(?:please|remember to|make sure to|be sure to|(?:asks?|wants?|tells?|told) (?:me|us|you)(?: to)?|says? to|you (?:should|must|have to|need to)|^) *(?:put|write|give|place|enclose|present|state|provide|report|box|return|enter|wrap|submit|output|type|format|express|respond with|reply with)\\b[^.:]{0,16}\\b(?:answer|result|response)\\b[^.:]{0,16}(?: INTO| as[ $]*$)|\\b(?:problem|question|task|prompt|instructions?|format|user|template)s? (?:wants?|asks? for|requires?|demands?|expects?|calls? for)\\b[^.:]{0,12}\\banswer\\b[^.:]{0,16}(?: INTO| as[ $]*$)|^[^a-z]*(?:finish|end|conclude|close|reply|respond)\\b[^.:]{0,24}\\bwith(?: the)?(?: words?| line| sentence| phrase)? ?[\"“'`]+(?:the (?:final )?answer(?: is|:) ?)?[*$# ]*$|请[^。,，]{0,16}(?:答案|结果)[^。,，]{0,8}[在用于入到成为][ $]*$|\\b(?:свой|ваш) (?:окончательный )?ответ в[ $]*$";
    /// Supposes another case.
    SUPPOSITION: "\\b(?:wäre|würden?|serait|sería|seria|sarebbe|был[оа]? бы|if|had|were|without|only if|assum(?:ing|ption)|suppos(?:e|ing)|would (?:expect|think|guess|be|have been|get|give))\\b|如果|假如|若";
    /// Supposes an answer, or names that of the graders.
    PREMISE: "\\b(?:suppose|assume|imagine|pretend|if|unless|whether|(?:must|have to|need to) (?:show|prove))(?: that)? (?:the |my |our )?(?:\\w+ )?(?:answer|result|value|solution)\\b[^,;.:\\n]*$|\
    (?:^|[ ,;:(])(?:si|wenn|falls|ob|se|если|jeśli|eğer|jika|nếu) [^,;.:\\n]{0,24}(?:resp|antwort|risp|rép|ответ|odpow|cevap|jawaban|đáp)[^,;.:\\n]*$|(?:如果|假设|假如|要是|倘若|是否|若)[^，。,]{0,12}$|\\b(?:reference|gold(?:en)?|ground[-_ ]truth)(?:['’]s)?[ _](?:answer|solution)\\b[^.\\n]*$|\\bexpected_answer[^.\\n]*$";
    /// What follows an equation that is solved in the same sentence.
    SOLVED: "^[$ ]*,? *(?:and )?(?:so|thus|hence|therefore|then|which (?:means|gives|yields)|giving|i\\.e)[^.\\n]* ?=";
    /// A box that is a part of what a sentence calculates: "the probability is $1 - \boxed{x} =".
    OPERAND: "\\b(?:is|are|be|equals)\\b [$\\\\(]*[^=$]*(?:[-+*/×·]|\\\\cdot|\\\\times) *[$]?$";
    /// Names the place where an extreme value is attained.
    ATTAINED: "\\b(?:attained|achieved|reached|occurs?|occurring|equality)(?: only)? (?:at|when|for|if)\\b[^.;]*$";
    /// A sentence behind an answer about something else.
    ASIDE: "\\b(?:without|if|had|otherwise)\\b[^.]*\\bwould\\b|\\b(?:common|typical) (?:error|mistake)|\\b(?:first|earlier|previous) attempt|\\b(?:old|original|previous) \\w+ was\\b|^[^a-z]*(?:similarly|likewise|for comparison|analogously|by contrast|as an aside)\\b";
    /// Supposes what is not so by its order of words: "had the order mattered, it would be".
    INVERSION: "^[^a-z]*(?:had|were) [^.]*\\bwould (?:be|have been)\\b";
    /// Says that it is not the case.
    CONTRARIES: "(?:^|[.;,:!] *|\\n+)[)}$ *]*(?:but|however|yet|in (?:fact|reality|our case|this case)|unfortunately|here(?:, however)?),? [^.\\n]*|[.;,:!] *(?:and )?(?:it|this|that|they|he|she|there) (?:is|are|was|were|do|does|did|has|had)(?: not|n['’]t)\\b[^.\\n]*|\
    [.;,] *(?:but )?(?:i|we)(?:['’]m| am| are)? (?:can(?:no|['’])t|could(?: not|n['’]t)|do(?: not|n['’]t) know|\
    not sure|unable to)\\b[^.\\n]*|\
    [.;] *[^.\\n]*\\b(?:(?:is|are) (?:unknown|missing|not (?:given|known|specified))|does(?: not|n['’]t) (?:say|tell|\
    specify)|can(?:no|['’])t be (?:determined|known))\\b[^.\\n]*|[.,;，。] *(?:pero|aber|mais|mas|ma|но|sie|er|es|但|可是|\
    然而)[^.。\\n]*(?: no |nicht|n['’]| pas|não|non| не |不)[^.。\\n]*";
    /// Counterfactual: "the answer would be".
    COUNTERFACTUAL: "\\b(?:would|were|had)\\b";
    /// Says that another is wrong.
    MISTAKES: "\\b(?:but|however|wrong|incorrect|mistaken?|cannot be|can['’]t be|misprint|overlook(?:s|ed)?|forgets?|forgot|yet)\\b";
}
/// A table as one expression, made at its first use. One for small letters is made in half the time of one for both
/// cases, so the text that it is looked for in is made small.
pub(super) struct Table {
    pattern: String,
    expression: OnceLock<Regex>,
    /// Whether capitals count, in a table that begins with `(?-i)`.
    is_cased: bool,
}

/// Most bytes of a table's automaton; it is built anew where it grows beyond, which takes longer than a search.
const DFA: usize = 4 << 20;

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
        Self { pattern: format!("(?{flags}:{table})"), expression: OnceLock::new(), is_cased }
    }

    fn expression(&self) -> &Regex {
        self.expression.get_or_init(|| {
            let mut builder = regex::RegexBuilder::new(&self.pattern);
            builder.dfa_size_limit(DFA).build().expect("a table of expressions")
        })
    }

    fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_cased { Cow::Borrowed(text) } else { lowered(text) }
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.expression().is_match(&self.text(text))
    }

    /// Where it stands first.
    pub(super) fn find(&self, text: &str) -> Option<Range<usize>> {
        self.expression().find(&self.text(text)).map(|found| found.range())
    }

    /// The same, in a text in small letters.
    fn find_small(&self, text: &str) -> Option<Range<usize>> {
        self.expression().find(text).map(|found| found.range())
    }

    /// Where it stands last.
    pub(super) fn last(&self, text: &str) -> Option<Range<usize>> {
        self.expression().find_iter(&self.text(text)).last().map(|found| found.range())
    }
}

/// Tables that are looked for in the same texts. What each of them cannot match without is looked for at once, so most
/// are not searched at all.
struct Group {
    needed: RegexSet,
    tables: Vec<&'static Table>,
}

impl Group {
    fn new(tables: Vec<&'static Table>) -> Self {
        let needed = tables.iter().map(|table| {
            let tree = regex_syntax::parse(&table.pattern).expect("a table of expressions");
            let literals = literals(&tree).unwrap_or_default();
            let literals = literals.iter().map(|literal| regex::escape(&lowered(literal)));
            literals.collect::<Vec<_>>().join("|")
        });
        Self { needed: RegexSet::new(needed).expect("literals"), tables }
    }

    /// A text, which is given in small letters too, with those of the tables that may match it.
    fn searched<'a>(&'a self, text: &'a str, small: &'a str) -> Searched<'a> {
        Searched { tables: &self.tables, may_match: self.needed.matches(small), text, small }
    }
}

/// A text that the tables of a group are looked for in.
struct Searched<'a> {
    tables: &'a [&'static Table],
    may_match: SetMatches,
    text: &'a str,
    small: &'a str,
}

impl<'a> Searched<'a> {
    fn search<T>(&self, table: &Table, search: fn(&Regex, &'a str) -> Option<T>) -> Option<T> {
        let at = self.tables.iter().position(|known| std::ptr::eq(*known, table));
        let may_match = self.may_match.matched(at.expect("a table of the group"));
        let text = if table.is_cased { self.text } else { self.small };
        if may_match { search(table.expression(), text) } else { None }
    }

    fn has(&self, table: &Table) -> bool {
        self.search(table, |table, text| table.is_match(text).then_some(())).is_some()
    }

    /// Where a table matches first.
    fn find(&self, table: &Table) -> Option<usize> {
        self.search(table, Regex::find).map(|found| found.start())
    }
}

/// Texts of which one stands in whatever an expression matches; none where it may match without.
fn literals(tree: &Hir) -> Option<Vec<String>> {
    match tree.kind() {
        HirKind::Literal(text) => Some(vec![String::from_utf8(text.0.to_vec()).ok()?]),
        HirKind::Capture(part) => literals(&part.sub),
        HirKind::Repetition(part) if part.min > 0 => literals(&part.sub),
        HirKind::Alternation(parts) => {
            parts.iter().map(literals).collect::<Option<Vec<_>>>().map(|all| all.concat())
        }
        HirKind::Concat(parts) => {
            let shortest = |all: &Vec<String>| all.iter().map(String::len).min();
            parts.iter().filter_map(literals).max_by_key(shortest)
        }
        _ => None,
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
        || memchr::memmem::find(before.as_bytes(), b"\\boxed").is_some()
            && if sentence.contains("\\boxed") { &ATTAINED } else { &ASIDE }.is_match(sentence)
}

/// Tables for the sentence of a mark.
static FOREIGN: LazyLock<Group> = LazyLock::new(|| {
    Group::new(vec![
        &BY_OTHERS,
        &QUOTED,
        &OF_SOURCES,
        &PREMISE,
        &OF_OTHERS,
        &OF_ATTEMPTS,
        &FORM,
        &INSTRUCTION,
        &INVERSION,
        &SUPPOSITION,
        &COUNTERFACTUAL,
    ])
});

/// Whether the sentence of a mark gives its value to somebody else ("Tom says the answer is 7"), to another case ("if x
/// were 3, it would be 7, but x is 2"), or shows it as a form ("end with a line such as").
pub(super) fn is_foreign(before: &str, after: &str) -> bool {
    let sentence = sentence(before).trim_end_matches("\\boxed{").trim_end_matches("<answer>");
    // Made small once, for all the tables.
    let small = &*lowered(sentence);
    let searched = FOREIGN.searched(sentence, small);
    let has = |table: &Table| searched.has(table);
    let behind = head(after, MAX_SENTENCE);
    let has_quote = sentence.contains(['"', '“']);
    let is_said = || {
        let found = searched.search(&BY_OTHERS, Regex::captures);
        let found = found.or_else(|| searched.search(&QUOTED, Regex::captures));
        let is_somebody = |found: Captures<'_>| {
            found.get(1).is_none_or(|subject| !is_one_of(subject.as_str(), NOBODY))
        };
        let is_quote = has_quote && SAID_BEHIND.is_match(behind);
        (is_quote || found.is_some_and(is_somebody)) && !AGREEMENT.is_match(behind)
    };
    let is_listed = || has(&OF_SOURCES) && !AGREEMENT.is_match(behind);
    let is_supposed = || {
        let contrary = CONTRARIES.find(behind);
        contrary.is_some_and(|found| {
            let is_near = !behind[..found.start].contains(". ");
            let text = &behind[found];
            is_near
                && (has(&COUNTERFACTUAL)
                    || !text.is_ascii()
                    || holds(text, " not|n't|=| so | no | nicht| pas|non "))
        })
    };
    let is_flawed = || FLAWS.is_match(behind);
    is_said()
        || is_listed()
        || has(&PREMISE)
        || has(&OF_OTHERS) && (MISTAKES.is_match(behind) || is_flawed())
        || has(&OF_ATTEMPTS) && is_flawed()
        || has(&FORM)
        || has(&INSTRUCTION)
        || has(&INVERSION)
        || has(&SUPPOSITION) && is_supposed()
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
    let line = memchr::memrchr(b'\n', near.as_bytes()).map_or(near, |at| &near[at + 1..]);
    let bytes = line.as_bytes();
    let is_end = |at: &usize| matches!(bytes.get(at + 1), Some(b' ' | b'"'));
    let end = memchr::memrchr3_iter(b'.', b'!', b'?', bytes).find(is_end);
    &line[end.map_or(0, |at| at + 1)..]
}

/// Whether somebody else obtains the value behind a text: "my friend got".
pub(super) fn is_of_others(before: &str) -> bool {
    OF_OTHERS.is_match(sentence(before))
}

/// Whether the words around a value, or those of its sentence, say that it is not the answer.
pub(super) fn is_unstated(before: &str, after: &str) -> bool {
    // "infinitely many, 3 of which are below 100"
    let is_part =
        || after.starts_with(" of ") && holds(tail(before, MAX_SENTENCE), "nfinitely many");
    is_denied(before, after)
        || is_changed(before)
        || contrast::is_bound_of_mark(before, after)
        || is_part()
        || is_foreign(before, after)
}
