//! Answers in words that have a meaning of their own: yes and no in other languages, what converges, what there is no
//! end of, formulas of chemistry, and numbers with the words that they belong to.

use tealight_core::display::one_spaced;

use super::answer::numbers::only_value;
use super::answer::offset_in;
use super::languages::polar;
use super::read::parse;
use super::scan::{
    are_digits, before_end, each, has_digits, holds, is_digit, is_one_of, past, pattern, without,
};
use super::spelled::{number_word, ordinal};
use super::standing;
use super::tree::Answer;
use super::units::is_unit;
use super::wording::bare;
use super::{Outcome, equality};

/// Whether folded words say the same of what is asked.
pub(super) fn same_statement(a: &str, b: &str) -> bool {
    says_in_any(a).is_some_and(|a| says_in_any(b) == Some(a))
        || converges(a).is_some_and(|a| converges(b) == Some(a))
        || is_infinite(a) && is_infinite(b)
}

/// Yes or no in the languages that are read, true and false too.
fn says_in_any(words: &str) -> Option<bool> {
    const TRUE: &str = "jawohl|có|對|हां|wahr|richtig|verdadero|vrai|vero|verdadeiro|верно|истина|waar|prawda|doğru|benar|đúng|真";
    const FALSE: &str = "falsch|falso|faux|неверно|ложь|onwaar|fałsz|yanlış|salah|sai|假";
    let word = words.trim_end_matches(['。', '！']);
    let is_true = is_one_of(word, TRUE);
    polar(word).or_else(|| (is_true || is_one_of(word, FALSE)).then_some(is_true))
}

/// Whether folded words say that something converges, and how: "the series converges absolutely".
fn converges(words: &str) -> Option<(bool, &str)> {
    const SUBJECTS: &str = "yes |no |series |integral |improper integral |sequence |sum |it |this series |this \
        integral |given series |infinite series |die reihe |reihe |das integral |die folge |folge |la serie |serie |\
        la série |série |la suite |l integrale |l intégrale |integrale |ряд |интеграл |级数|该级数|积分|数列|is |are |ist ";
    let mut rest = words;
    while let Some(next) = past(rest, SUBJECTS) {
        rest = next;
    }
    const FORMS: [(&str, bool); 4] = [
        (
            "does not converge|not convergent|doesn't converge|konvergiert nicht|no converge|ne converge pas|не сходится|不收敛",
            false,
        ),
        ("converges|convergente|convergent|converge|konvergiert|konvergent|сходится|收敛", true),
        ("diverges|divergente|divergent|diverge|divergiert|расходится|发散", false),
        ("does not diverge", true),
    ];
    const HOW: &str = "absolutely|conditionally|uniformly|pointwise";
    let before = rest.split(' ').next().filter(|word| is_one_of(word, HOW));
    let rest = before.map_or(rest, |word| rest[word.len()..].trim_start());
    FORMS.iter().find_map(|(forms, is_so)| {
        let how = past(rest, forms)?.trim();
        let reason = how.is_empty()
            || how == "的"
            || how.starts_with("by ")
            || !is_so && how == "to infinity";
        let how = if reason { "" } else { how };
        (how.is_empty() || is_one_of(how, HOW)).then_some((*is_so, before.unwrap_or(how)))
    })
}

/// Whether folded words say that there is no end of something: "there are infinitely many solutions".
pub(super) fn is_infinite(words: &str) -> bool {
    const INFINITE: &str = "infinitely many|infinite number of|infinity|infinite|unendlich viele|unendlich|infinitos|infinitas|\
        une infinité|infinité|infiniti|бесконечно много|无数个|无数|无穷多个|无穷多|無限に多い|無数|무수히 많다|oneindig \
        veel|nieskończenie wiele|sonsuz|tak hingga|vô số";
    let subject = words.split_once(" has ").or(words.split_once(" have "));
    let subject = subject.filter(|(before, _)| {
        let before = format!(" {before} ");
        !standing::has_word(&before, standing::SENTENCE)
            && !holds(&before, " no | false | hardly | impossible | never ")
    });
    let words = subject.map_or(words, |(_, rest)| rest);
    let words =
        without(words, "there are |there is |it has |has |es gibt |hay |il y a |ci sono |há |有");
    let rest = past(words, INFINITE);
    rest.is_some_and(|rest| {
        rest.is_empty()
            || rest.starts_with(' ')
                && rest.split(' ').count() <= 3
                && !standing::has_word(rest, standing::SENTENCE)
    })
}

/// Whether a folded sentence judges a statement: "the claim is not true", "statement is incorrect".
pub(super) fn judged(sentence: &str) -> Option<bool> {
    const STATEMENTS: &str =
        "statement |claim |assertion |proposition |conjecture |this statement |this claim ";
    let judgement =
        past(without(sentence, "so |thus |hence |therefore "), STATEMENTS)?.strip_prefix("is ")?;
    let (is_so, word) =
        judgement.strip_prefix("not ").map_or((true, judgement), |word| (false, word));
    let is_true = is_one_of(word, "true|correct|right|valid");
    (is_true || is_one_of(word, "false|incorrect|wrong|invalid|untrue")).then_some(is_true == is_so)
}

/// Whether an answer judges a statement as the gold does, `√` or `×`: 应填 √, 这个说法是正确的.
pub(super) fn same_judgement(gold: &str, answer: &str) -> Option<bool> {
    const TRUE: &str = "√|✓|✔|☑|对|正确|\\checkmark|\\surd";
    const FALSE: &str = "×|✗|✘|✕|✖|错|错误|不对|不正确|\\times";
    let inner = |text: &str| {
        bare(text)
            .trim_matches([' ', '.', '。', '$', '!', '！', '的', '(', ')', '（', '）'])
            .to_owned()
    };
    let exact = |text: &str| {
        let is_true = is_one_of(text, TRUE);
        (is_true || is_one_of(text, FALSE)).then_some(is_true)
    };
    let gold = inner(gold);
    let of_gold = exact(&gold).or_else(|| polar(&gold.to_lowercase()))?;
    let answer = inner(answer);
    let last = answer.rsplit(['，', ',', '。', ' ', '：', ':', '填']).next().unwrap_or(&answer);
    let is_open = holds(&answer, "不能|不一定|无法|是否|并非|没有|难|吗|?|？|或");
    let in_words = || {
        let no = before_end(last, "不正确|不对|错误").map(|subject| (subject, false));
        let (subject, is_true) = no.or_else(|| Some((last.strip_suffix("正确")?, true)))?;
        (exact(&gold).is_some() && !subject.contains(['不', '非', '无'])).then_some(is_true)
    };
    // Of a gold answer in letters only a mark is another way to say it.
    let is_known = exact(&gold).is_some() || last.chars().count() == 1 && !last.is_ascii();
    let of_answer = exact(last).filter(|_| is_known).or_else(in_words)?;
    (!is_open).then_some(of_gold == of_answer)
}

/// Whether both are a rank, `5th`, "the fifth place", "fünfte", and the same; against the gold's word also `5`.
pub(super) fn same_rank(gold: &str, answer: &str) -> Option<bool> {
    let (gold, answer) = (bare(gold).to_lowercase(), bare(answer).to_lowercase());
    // `3-й`; of `2e` no rank is sure.
    let is_worded = !has_digits(&gold) || gold.contains('-');
    let number = || answer.parse().ok().filter(|_| is_worded);
    Some(rank(&gold)? == rank(&answer).or_else(number)?)
}

/// The rank that words are, in the languages with tables.
fn rank(text: &str) -> Option<u64> {
    const SUFFIXES: &str = "st|nd|rd|th|º|ª|ème|ère|er|e|-й|-я|-е|番目|번째|位|名";
    // Stems with their endings: "quarter" and "none" are no ranks.
    const STEMS: [(&str, &str); 6] = [
        ("primer|segund|tercer|cuart|quint|sext|séptim|octav|noven|décim", "o|a"),
        ("premi|deuxi|troisi|quatri|cinqui|sixi|septi|huiti|neuvi|dixi", "er|ère|ème"),
        ("erst|zweit|dritt|viert|fünft|sechst|siebt|acht|neunt|zehnt", "er|es|e|en"),
        ("prim|second|terz|quart|quint|sest|settim|ottav|non|decim", "o|a"),
        ("primeir|segund|terceir|quart|quint|sext|sétim|oitav|non|décim", "o|a"),
        ("перв|втор|трет|четвёрт|пят|шест|седьм|восьм|девят|десят", "ый|ий|ой|ая|ое|ье|ья|ого|ом"),
    ];
    (text.len() <= 40).then_some(())?;
    // "a third" is a part, "a terceira" a rank.
    let is_part = text.trim().starts_with("a ");
    let text = without(text.trim(), "in |the |der |die |das |el |la |le |il |o |a ");
    let text = before_end(text, " place| position| platz| puesto| lugar").unwrap_or(text);
    if let Some(number) = text.strip_prefix('第') {
        let number = before_end(number, "名|位").unwrap_or(number);
        return number.parse().ok().or_else(|| u64::try_from(number_word(number)?).ok());
    }
    let plain = text.replace(['^', '{', '}', ' '], "");
    let digits = before_end(&plain, SUFFIXES).and_then(|number| number.parse().ok());
    let stem = |(stems, endings): (&'static str, &'static str)| {
        let at = each(stems)
            .position(|stem| text.strip_prefix(stem).is_some_and(|end| is_one_of(end, endings)))?;
        Some(at as u64 + 1)
    };
    let in_english = || ordinal(&text.replace(' ', "-")).filter(|_| !is_part);
    digits.or_else(in_english).or_else(|| STEMS.into_iter().find_map(stem))
}

/// Symbols of elements.
const ELEMENTS: &str = "H|He|Li|Be|B|C|N|O|F|Ne|Na|Mg|Al|Si|P|S|Cl|Ar|K|Ca|Ti|V|Cr|Mn|Fe|Co|Ni|Cu|Zn|Ga|Ge|As|Se|Br|Kr|\
    Rb|Sr|Zr|Ag|Cd|Sn|Sb|I|Xe|Cs|Ba|W|Pt|Au|Hg|Pb|Bi|U";

/// Whether both are one formula of chemistry, `H_2O` and `\mathrm{H2O}`; none where one is none.
pub(super) fn same_formula(gold: &str, answer: &str) -> Option<bool> {
    if let Some((a, b)) = reaction(gold).zip(reaction(answer)) {
        return Some(a == b);
    }
    Some(formula(gold)? == formula(answer)?)
}

/// A reaction without its marks, `2H2+O2→2H2O`.
fn reaction(text: &str) -> Option<String> {
    const MARKS: &str = "\\mathrm|\\text|\\ce|\\,|\\;|$|{|}|_|^| ";
    const ARROWS: &str = "\\longrightarrow|\\rightarrow|\\to|->";
    let text = each(ARROWS).fold(text.to_owned(), |text, arrow| text.replace(arrow, "→"));
    let text = each(MARKS).fold(text, |text, mark| text.replace(mark, ""));
    (text.contains('→') && !text.contains('\\')).then_some(text)
}

/// A formula of at least two elements, or with the number of its atoms, without its marks.
fn formula(text: &str) -> Option<String> {
    const MAX_BYTES: usize = 60;
    let is_likely = text.len() <= MAX_BYTES && text.contains(|c: char| c.is_ascii_uppercase());
    is_likely.then_some(())?;
    let mut text = text.to_owned();
    for mark in ["\\mathrm", "\\text", "\\ce", "$", "{", "}", "_", " "] {
        text = text.replace(mark, "");
    }
    let lowered = |c: char| "₀₁₂₃₄₅₆₇₈₉".chars().position(|known| known == c);
    let (text, charge) = text.split_once('^').unwrap_or((&text, ""));
    are_digits(charge.trim_end_matches(['+', '-'])).then_some(())?;
    let text: String = text
        .chars()
        .map(|c| lowered(c).and_then(|digit| char::from_digit(digit as u32, 10)).unwrap_or(c))
        .collect();
    let atoms = text.bytes().filter(u8::is_ascii_uppercase).count();
    let is_known =
        pattern!(&format!("^[()]*(?:{ELEMENTS})(?:{ELEMENTS}|[0-9()])*$")).is_match(&text);
    // Two letters may be points, `CO`; small letters or numbers among them are none.
    let is_plain = text.bytes().all(|byte| byte.is_ascii_uppercase() || b"()".contains(&byte));
    let is_formula = atoms > 1 && !is_plain || is_one_of(&text, "H2|N2|O2|O3|F2|Cl2|Br2|I2|P4|S8");
    (is_known && is_formula).then(|| format!("{text}^{charge}"))
}

/// Whether numbers with words are the same: `3 boys and 5 girls`, `Alice has 12 and Bob has 5`, in any order; none
/// where the words differ.
pub(super) fn same_counts(gold: &str, answer: &str) -> Option<bool> {
    let (gold, answer) = (counts(gold)?, counts(answer)?);
    let words = |counts: &[(String, String)]| {
        counts.iter().map(|(words, _)| words.clone()).collect::<Vec<_>>()
    };
    (words(&gold) == words(&answer)).then_some(())?;
    let is_same = |(a, b): (&(String, String), &(String, String))| {
        equality::compared(&a.1, &b.1).0 == Outcome::Correct
    };
    Some(gold.iter().zip(&answer).all(is_same))
}

/// Numbers by the words beside them, in the order of these words.
fn counts(text: &str) -> Option<Vec<(String, String)>> {
    const MAX_BYTES: usize = 160;
    const VERBS: &str = "has|have|had|gets|get|got|is|are|was|with|for|scored|there|the|a|an|of|needs|buys|bought|sold|made|=|:|-|→";
    let is_likely =
        (6..=MAX_BYTES).contains(&text.len()) && text.contains([',', ';', '&', 'a', 'y', 'u', 'e']);
    (is_likely && text.bytes().filter(u8::is_ascii_digit).count() >= 2).then_some(())?;
    let mut text = bare(text).into_owned();
    for link in [" and ", " und ", " y ", " et ", "; ", " & "] {
        text = text.replace(link, ", ");
    }
    let parts: Vec<&str> =
        text.split(", ").map(str::trim).filter(|part| !part.is_empty()).collect();
    (2..=8).contains(&parts.len()).then_some(())?;
    let mut counts = Vec::new();
    for part in parts {
        let is_number = |word: &&str| word.contains(is_digit);
        let words: Vec<&str> = part.split([' ', ':']).filter(|word| !word.is_empty()).collect();
        let mut numbers = words.iter().filter(|word| is_number(word));
        let number = numbers.next().filter(|_| numbers.next().is_none())?;
        let is_plain = number.chars().all(|c| c.is_ascii_digit() || "$.,/%-".contains(c));
        let label: Vec<String> = words
            .iter()
            .filter(|word| !is_number(word))
            .map(|word| word.to_lowercase().trim_matches(|c: char| !c.is_alphanumeric()).to_owned())
            .filter(|word| !word.is_empty() && !is_one_of(word, VERBS))
            .collect();
        let label = label.join(" ");
        let is_label = label.chars().filter(|c| c.is_alphabetic()).count() >= 2 && !is_unit(&label);
        let is_plain_label =
            label.chars().all(|c| c.is_alphabetic() || c == ' ') && label.split(' ').count() <= 3;
        let is_denied =
            standing::has_word(&label, standing::SENTENCE) || standing::is_relative(&label);
        (is_plain && is_label && is_plain_label && !is_denied).then_some(())?;
        counts.push((
            label.trim_end_matches('s').to_owned(),
            number.trim_start_matches('$').to_owned(),
        ));
    }
    counts.sort();
    counts.windows(2).all(|pair| pair[0].0 != pair[1].0).then_some(counts)
}

/// The number of a choice, `④` or `4번`, and whether it is written as one.
pub(super) fn choice_number(text: &str) -> Option<(u32, bool)> {
    let text = text.trim().trim_matches(['(', ')']);
    let bare = before_end(text, "번|番").unwrap_or(text);
    let mut letters = bare.chars();
    match (letters.next()?, letters.next()) {
        (c @ '①'..='⑳', None) => Some((c as u32 - '①' as u32 + 1, true)),
        _ => Some((bare.parse().ok()?, bare.len() < text.len())),
    }
}

/// The only number of a sentence in `\text`, where no word leaves it open.
pub(super) fn sentence_value(answer: &str) -> Option<Answer> {
    const MAX_SENTENCE: usize = 400;
    (answer.contains("\\text{") && answer.len() <= MAX_SENTENCE).then_some(())?;
    let words = answer.replace("\\text{", " ").replace('}', " ").replace("\\$", "");
    let words = one_spaced(&words);
    // `\text{Mean: 2.6}`
    let is_label = |name: &str| {
        name.chars().all(|c| c.is_alphabetic() || c == ' ')
            && !standing::has_word(name, standing::SENTENCE | standing::UNIT)
    };
    if let Some((_, value)) = words.split_once([':', '=']).filter(|(name, _)| is_label(name)) {
        return parse(value.trim());
    }
    let is_sentence = words.split_whitespace().filter(|word| word.len() > 1).count() > 2;
    let is_denied = standing::has_word(&words, standing::SENTENCE)
        || standing::denies(words.trim_start_matches(|c: char| !c.is_alphabetic()))
        || words.split(' ').any(|word| matches!(word, "wrong" | "incorrect" | "impossible"));
    if words.contains(['\\', '{', '=', '<', '>']) || !is_sentence || is_denied {
        return None;
    }
    let value = only_value(&words)?;
    let after = &words[offset_in(&words, value) + value.len()..];
    (!standing::denies(after) && standing::altered(after).is_none()).then(|| parse(value))?
}

/// Whether a gold answer that is no mathematics is a name or words, with marks that no formula has, and at most
/// one number: "7 times 47 is 329" is a working.
pub(super) fn is_name(gold: &str) -> bool {
    let is_formula = |c: char| "\\=^_<>{}[]|*≤≥≠≈∞∪∩√×÷±−→∈".contains(c);
    let letters = gold.chars().filter(|c| c.is_alphabetic()).count();
    let digits = gold.chars().filter(|c| c.is_numeric()).count();
    let numbers = gold.split(|c: char| !c.is_numeric()).filter(|run| !run.is_empty()).count();
    letters > 0
        && letters >= digits
        && (letters > 1 || digits == 0)
        && numbers <= 1
        && !gold.contains(is_formula)
}

/// Whether a gold answer is a sentence with formulas whose commas part no list.
pub(super) fn is_sentence(gold: &str, read: Option<&Answer>) -> bool {
    let is_clause = |item: &Answer| matches!(item, Answer::Words(words) if words.contains(' '));
    let is_list = matches!(read, Some(Answer::List(items)) if items.iter().any(is_clause));
    let words = gold.split(|c: char| !c.is_alphabetic()).filter(|word| word.len() > 1);
    is_list && gold.contains(['=', '<', '>', '^', '≤', '≥']) && words.count() > 3
}
