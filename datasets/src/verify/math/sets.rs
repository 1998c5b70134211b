//! Sets of numbers in words: `all real numbers except 2`, `the integers from 1 to 5`, `x is less than 2 or at least 3`.

use tealight_core::display::one_spaced;

use super::parse::structure;
use super::scan::{begins, each, holds, is_one_of, past, without};
use super::spelled::spelled;
use super::tree::{Answer, Expr, Relation};
use super::values::{signs, variables};

/// Longest text that is read as a set, in bytes.
const MAX_BYTES: usize = 160;
/// Most integers of a set that is written out.
const MAX_MEMBERS: i64 = 64;
/// Largest integer of a set that is written out.
const MAX_INTEGER: u64 = 1_000_000_000;

/// Sets of numbers by name: the sign of the half of the line, or the letter of the set.
const NUMBERS: &str = "nonnegative real=≥|nonpositive real=≤|nonzero real=≠|positive real=>|negative real=<|real=R|\
    nonnegative integer=W|positive integer=N|negative integer=M|even integer=E|odd integer=O|integer=Z|whole=W|\
    natural=N|rational=Q|complex=C|prime=P|even=E|odd=O|nonnegative=≥|nonpositive=≤|nonzero=≠|positive=>|negative=<";
/// Words between a set and the bound of its numbers.
const BOUNDS: &str = "greater than or equal to=≥|larger than or equal to=≥|not less than=≥|no less than=≥|not smaller \
    than=≥|at least=≥|less than or equal to=≤|smaller than or equal to=≤|not greater than=≤|not more than=≤|no more \
    than=≤|no greater than=≤|at most=≤|up to=≤|strictly greater than=>|greater than=>|more than=>|larger than=>|bigger \
    than=>|above=>|exceeding=>|over=>|strictly less than=<|less than=<|smaller than=<|below=<|under=<|except for=∖|\
    except=∖|other than=∖|but not=∖|but=∖|excluding=∖|not equal to=∖|different from=∖|apart from=∖|>==≥|<==≤|≥=≥|≤=≤|\
    \\geq=≥|\\leq=≤|\\ge=≥|\\le=≤|>=>|<=<|\\neq=∖|\\ne=∖|≠=∖";
/// Sets by their letters.
const LETTERS: &str = "\\mathbb{r}=real numbers|\\mathbb{z}^+=positive integers|\\mathbb{z}^{+}=positive integers|\
    \\mathbb{z}_{>0}=positive integers|\\mathbb{n}=positive integers|\\mathbb{z}=integers";
/// The same in other languages.
const ABROAD: &str = "alle reellen zahlen=all real numbers|todos los números reales=all real numbers|tous les nombres \
    réels=all real numbers|tous les réels=all real numbers|tutti i numeri reali=all real numbers|todos os números \
    reais=all real numbers|все действительные числа=all real numbers|所有实数=all real numbers |全体实数=all real numbers |\
    alle ganzen zahlen=all integers|todos los enteros=all integers|tous les entiers=all integers|所有整数=all integers |\
    größer oder gleich=at least|größer als=greater than|kleiner oder gleich=at most|kleiner als=less than|außer=except|\
    mayores o iguales que=at least|mayores que=greater than|menores o iguales que=at most|menores que=less than|\
    excepto=\
    except|salvo=except|menos=except|supérieurs ou égaux à=at least|supérieurs à=greater than|inférieurs ou égaux à=at \
    most|inférieurs à=less than|sauf=except|maggiori o uguali a=at least|maggiori di=greater than|minori o uguali a=at \
    most|minori di=less than|eccetto=except|tranne=except|maiores ou iguais a=at least|maiores que=greater \
    than|menores ou iguais a=at most|exceto=except|кроме=except|больше=greater than|меньше=less than| von = from | bis = to | de = from | à = to | a = to ";

/// The set that words name.
pub(super) fn set_in_words(text: &str) -> Option<Answer> {
    const OPENINGS: &str = "all|any|every|each|the|set|real|non|positive|negative|integer|whole|natural|rational|complex|\
        even|odd|prime|number|for all|tod|tous|tutti|все|所有|全体|\\text";
    let text = text.trim_matches(['$', ' ', '.']);
    let first = text.chars().next()?;
    let is_short = (3..=MAX_BYTES).contains(&text.len());
    let is_chinese = !text.is_ascii() && text.ends_with('数');
    (is_short && (first.is_alphabetic() || first == '\\' || is_chinese)).then_some(())?;
    let lower = text.to_lowercase();
    if holds(&lower, "odd|even")
        && let Some(parity) = parity(&super::wording::bare(&lower).replace('$', ""))
    {
        return Some(parity);
    }
    (is_chinese || begins(&lower, OPENINGS)).then_some(())?;
    let words = super::wording::bare(&lower).replace('$', "");
    let mut words = pairs(LETTERS).fold(words, |words, (set, name)| words.replace(set, name));
    if !words.is_ascii() || begins(&words, "alle|tod|tous|tutti") {
        words = pairs(ABROAD).fold(words, |words, (word, english)| words.replace(word, english));
    }
    if let Some(english) = chinese(&words) {
        words = english;
    }
    let words = one_spaced(&words);
    let words = words.replace("non-negative", "nonnegative").replace("non negative", "nonnegative");
    let words = words.replace("non-positive", "nonpositive").replace("non-zero", "nonzero");
    let words = without(&words, "the set of |set of |the ");
    let words = without(words, "for all |all of the |all the |all |any |every |each |the ");
    // "all n ≥ 3", "all n in the positive integers"
    let is_letter = words.starts_with(|c: char| c.is_ascii_lowercase());
    let letter = words.get(..1).filter(|_| is_letter)?;
    let behind = words[1..].trim_start();
    if let Some((sign, bound)) = relation(behind) {
        let sign = if sign == "∖" { "≠" } else { sign };
        let set = structure(&format!("{letter} {sign} {bound}"));
        return set.filter(|set| matches!(set, Answer::Chain(..)));
    }
    let member = past(behind, "\\in |in the |in ");
    let (name, rest) = named(member.unwrap_or(words))?;
    let named = past(rest, " x| n| y| t| k| m")
        .filter(|behind| !behind.starts_with(char::is_alphanumeric))
        .map(|behind| (&rest[1..2], behind));
    let (letter, rest) = named.unwrap_or((if member.is_some() { letter } else { "n" }, rest));
    let rest = rest.trim_start_matches(' ');
    match name {
        "R" | "≥" | "≤" | "≠" | ">" | "<" => reals(name, rest),
        set => integers(set, letter, rest),
    }
}

/// The odd or even integers: "n is odd", "all even n"; of a letter without a set, whatever its integers are.
fn parity(words: &str) -> Option<Answer> {
    const FILLERS: &str = "all|any|every|each|the|is|are|must|be|an|a|for|exactly|precisely|when|if|iff|and|only|numbers|\
        number|values|value|of|integer|integers|natural|positive|odd|even|n|m|k|x|b|p";
    (words.len() <= 60).then_some(())?;
    let words = words.split([' ', ',']).filter(|word| !word.is_empty());
    words.clone().all(|word| is_one_of(word, FILLERS)).then_some(())?;
    let has = |table| words.clone().any(|word| is_one_of(word, table));
    let (is_odd, is_set) = (has("odd"), has("integers|integer|natural|numbers"));
    (is_odd != has("even") && (is_set || has("n|m|k|x|a|b|p"))).then_some(())?;
    // By residues that no number is given for.
    let residue = if is_odd { -1 } else { -2 };
    let parity = Answer::Congruence(Expr::integer(residue), Expr::integer(2));
    let domain = match has("positive|natural") {
        true => 'N',
        false if has("integers|numbers") => 'Z',
        false => return Some(parity),
    };
    Some(Answer::Qualified(Box::new(parity), domain, None))
}

/// `所有大于等于4的实数`, `1到5的整数` in English.
fn chinese(text: &str) -> Option<String> {
    const RELATIONS: &str = "大于等于=at least |大于或等于=at least |不小于=at least |小于等于=at most |小于或等于=at most |不大于=at most |\
        大于=greater than |小于=less than |除了=except |不等于=except ";
    let (bound, noun) = ["的所有实数", "的全体实数", "的实数", "的所有整数", "的整数"]
        .iter()
        .find_map(|noun| Some((text.strip_suffix(noun)?, noun)))?;
    let noun = if noun.ends_with("整数") { "integers" } else { "real numbers" };
    let bound = without(bound, "所有|全体|从");
    let bound = pairs(RELATIONS)
        .fold(bound.to_owned(), |bound, (word, english)| bound.replace(word, english));
    Some(format!("{noun} {}", bound.replace(['到', '至'], " to ").trim_end_matches("以外")))
}

/// The entries of a table, `a=b|c=d`, where `>=` and the like may stand before their sign.
fn pairs(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    each(table).filter_map(|entry| entry.rsplit_once('=')).filter(|(word, _)| !word.is_empty())
}

/// The set of numbers that a text begins with, and what follows.
fn named(text: &str) -> Option<(&'static str, &str)> {
    let found = pairs(NUMBERS).find_map(|(name, sign)| Some((sign, text.strip_prefix(name)?)));
    let (sign, rest) = found.or_else(|| Some(("R", text.strip_prefix("number")?)))?;
    let plural = past(rest, " numbers| number| values| value| integers|s");
    let plural = plural.or_else(|| Some(rest).filter(|rest| begins(rest, " x| n")))?;
    // "even integers" are no reals, "positive numbers" may be.
    let sign = if rest.starts_with(" integers") && sign == ">" { "N" } else { sign };
    (plural.is_empty() || plural.starts_with([' ', ','])).then_some((sign, plural))
}

/// The real numbers of a name with bounds behind it.
fn reals(name: &str, rest: &str) -> Option<Answer> {
    let zero = || Answer::integer(0);
    let whole = match name {
        "R" => Answer::line(),
        "≠" => Answer::Without(Box::new(Answer::line()), Box::new(Answer::Set(vec![zero()]))),
        sign => Answer::half_line(sign.chars().next()?, Expr::integer(0))?,
    };
    if rest.is_empty() {
        return Some(whole);
    }
    (name == "R").then_some(())?;
    let rest = without_lead(rest);
    if let Some(range) = range(rest) {
        let (low, high, ends) = range;
        let (open, close) = ends?;
        return Some(Answer::Tuple(open, vec![Answer::Value(low), Answer::Value(high)], close));
    }
    let (relation, bound) = relation(rest)?;
    if relation == "∖" {
        return without_points(whole, bound);
    }
    let (parts, is_or) = bounds(rest)?;
    if let [(sign, bound)] = parts.as_slice() {
        return Answer::half_line(*sign, bound.clone());
    }
    let chain = |(sign, bound)| {
        let sides = vec![Answer::Value(Expr::Variable("x".into())), Answer::Value(bound)];
        Some(Answer::Chain(sides, vec![Relation::from_sign(sign)?]))
    };
    let parts = parts.into_iter().map(chain).collect::<Option<_>>()?;
    let parts = if is_or { Answer::Union(parts) } else { Answer::List(parts) };
    Some(Answer::Condition(Box::new(parts)))
}

/// Bounds with a link between them, "less than 2 or greater than 3", and whether this is "or".
fn bounds(text: &str) -> Option<(Vec<(char, Expr)>, bool)> {
    let (mut parts, mut is_or, mut next) = (vec![], None, Some(text));
    while let Some(part) = next {
        let (relation, bound) = relation(without_lead(part))?;
        let is_second = |(_, rest): &(&str, &str)| self::relation(without_lead(rest)).is_some();
        let links = [" or ", " and "].into_iter();
        let link = { links }.find(|link| bound.split_once(*link).as_ref().is_some_and(is_second));
        let (bound, after) = match link.and_then(|link| bound.split_once(link)) {
            Some((bound, after)) => (bound, Some(after)),
            None => (bound, None),
        };
        if let Some(link) = link {
            (*is_or.get_or_insert(link == " or ") == (link == " or ")).then_some(())?;
        }
        parts.push((relation.chars().next()?, value(bound.trim_end_matches([',', ' ']))?));
        next = after;
    }
    Some((parts, is_or == Some(true)))
}

/// A set without the points that a text lists.
fn without_points(whole: Answer, bound: &str) -> Option<Answer> {
    let bound =
        past(bound, "x = |x=|n = |n=|zero and ").filter(|_| bound.contains('=')).unwrap_or(bound);
    let bound = structure(bound).or_else(|| value(bound).map(Answer::Value))?;
    let points = match bound {
        Answer::List(items) | Answer::Set(items) => items.into_iter().map(unnamed).collect(),
        Answer::Words(words) => vec![Answer::number(spelled(&words)?)],
        Answer::Value(one) => signs(&one).into_iter().map(Answer::Value).collect(),
        one @ (Answer::Tuple(..) | Answer::Union(_)) => {
            return Some(Answer::Without(Box::new(whole), Box::new(one)));
        }
        one => vec![unnamed(one)],
    };
    Some(Answer::Without(Box::new(whole), Box::new(Answer::Set(points))))
}

/// The value of `x = 2`.
fn unnamed(answer: Answer) -> Answer {
    match answer {
        Answer::Chain(mut sides, _) => sides.pop().unwrap_or(Answer::Words(String::new())),
        other => other,
    }
}

/// Words between a set and what holds for its members.
fn without_lead(rest: &str) -> &str {
    let rest = without(
        rest,
        "that are |which are |that is |such that |with |for which |where |satisfying ",
    );
    let rest = without(rest, "x is |they are |it is |x are |n is |x |n ");
    let named = past(rest, "x|n|k|m").filter(|rest| relation(rest).is_some());
    named.unwrap_or(rest).trim_start_matches([',', ' '])
}

/// The relation that a text begins with, and what follows.
pub(super) fn relation(text: &str) -> Option<(&'static str, &str)> {
    let (sign, rest) =
        pairs(BOUNDS).find_map(|(word, sign)| Some((sign, text.strip_prefix(word)?)))?;
    Some((sign, rest.trim_start()))
}

/// A number without variables.
fn value(text: &str) -> Option<Expr> {
    let number = match structure(text)? {
        Answer::Value(value) => value,
        Answer::Words(words) => Expr::Number(spelled(&words)?, None),
        _ => return None,
    };
    variables(&number).is_empty().then_some(number)
}

/// The ends of an interval, and its brackets, where the words say whether the ends are in.
type Range = (Expr, Expr, Option<(char, char)>);

/// `from 1 to 5`, `between 2 and 6, inclusive`, `3 through 6`.
fn range(text: &str) -> Option<Range> {
    let (text, mut ends) = match text.trim_end_matches(',') {
        text if text.ends_with("inclusive") || text.ends_with("included") => {
            let text = text.trim_end_matches("inclusive").trim_end_matches("included");
            (text, Some(('[', ']')))
        }
        text if text.ends_with("exclusive") => {
            (text.trim_end_matches("exclusive"), Some(('(', ')')))
        }
        text => (text, None),
    };
    let text = text.trim_end_matches([',', ' ', '(']);
    let (low, high) = if let Some(rest) = past(text, "strictly between ") {
        ends = Some(('(', ')'));
        rest.split_once(" and ")?
    } else if let Some(rest) = text.strip_prefix("between ") {
        rest.split_once(" and ")?
    } else {
        let pair = each(" through | to | thru ").find_map(|link| text.split_once(link))?;
        ends = ends.or(Some(('[', ']')));
        (without(pair.0, "from "), pair.1)
    };
    Some((value(low)?, value(high)?, ends))
}

/// The integers of a kind with bounds behind it, written out, or of a name with a bound on one side; all of them by
/// their letter.
fn integers(letter: &str, name: &str, rest: &str) -> Option<Answer> {
    if rest.is_empty() {
        let is_set = matches!(letter, "Z" | "N" | "Q" | "C");
        return is_set.then(|| Answer::Value(Expr::Variable(letter.to_owned())));
    }
    (!matches!(letter, "Q" | "C")).then_some(())?;
    let whole =
        |value: &Expr| value.as_integer().filter(|number| number.unsigned_abs() <= MAX_INTEGER);
    let (mut low, mut high) = match letter {
        "N" => (Some(1), None),
        "W" => (Some(0), None),
        "P" => (Some(2), None),
        "M" => (None, Some(-1)),
        _ => (None, None),
    };
    let rest = without_lead(rest);
    if let Some((from, to, ends)) = range(rest) {
        let inner = i64::from(ends? == ('(', ')'));
        (low, high) = (Some(whole(&from)? + inner), Some(whole(&to)? - inner));
    } else {
        if let Some(("∖", points)) = relation(rest) {
            let set = Answer::Value(Expr::Variable(letter.to_owned()));
            return without_points(set, points).filter(|_| is_one_of(letter, "Z|N|W"));
        }
        let (parts, is_or) = bounds(rest)?;
        for (sign, bound) in parts {
            let bound = whole(&bound)?;
            match sign {
                '>' => low = Some(bound + 1),
                '≥' => low = Some(bound),
                '<' => high = Some(bound - 1),
                '≤' => high = Some(bound),
                _ => return None,
            }
        }
        (!is_or).then_some(())?;
    }
    // "all integers n ≥ 4"
    if is_one_of(letter, "Z|N|W") && low.is_none() != high.is_none() {
        let relation = if low.is_some() { Relation::AtLeast } else { Relation::AtMost };
        let sides = [Expr::Variable(name.to_owned()), Expr::integer(low.or(high)?)];
        let bound = Answer::Chain(sides.map(Answer::Value).into(), vec![relation]);
        return Some(Answer::Qualified(Box::new(bound), 'Z', None));
    }
    let (low, high) = (low?, high?);
    (low <= high && high - low < 4 * MAX_MEMBERS).then_some(())?;
    let is_prime = |n: i64| n > 1 && (2..n).take_while(|d| d * d <= n).all(|d| n % d != 0);
    let is_in = |n: &i64| match letter {
        "E" => n % 2 == 0,
        "O" => n % 2 != 0,
        "P" => is_prime(*n),
        _ => true,
    };
    let members: Vec<Answer> = (low..=high).filter(is_in).map(Answer::integer).collect();
    (members.len() <= MAX_MEMBERS as usize).then_some(Answer::Set(members))
}
