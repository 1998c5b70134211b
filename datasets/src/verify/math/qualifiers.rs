//! Tokens that are no part of an answer's value: labels before it, qualifiers after it, raised marks.

use dashu_ratio::RBig;

use super::lex::Token;
use super::scan::{begins, is_one_of};
use super::standing::is_doubted;

/// Words before a value that say what it is, without a colon.
const LABELS: &str = "i think|number|the number|value|the value|at|about|approximately|approx|approx.|around|roughly|\
    exactly|equals|is|the answer is|therefore|thus|so|hence|point|the point|interval|the interval";

/// Tokens without labels, and with degrees and ordinals as marks of their own.
pub(super) fn tidy(tokens: Vec<Token>) -> Vec<Token> {
    let is_small_o = |token: &Token| match token {
        Token::Name(name) | Token::Text(name) => name == "o",
        _ => false,
    };
    let needs_none = |token: &Token| {
        !matches!(token, Token::Text(_) | Token::Symbol('°' | '\'')) && !is_small_o(token)
    };
    if tokens.iter().all(needs_none) {
        return tokens;
    }
    let mut out: Vec<Token> = Vec::with_capacity(tokens.len());
    let mut at = label(&tokens);
    // `\text{negative } 3`
    if let (Some(Token::Text(word)), Some(Token::Number { .. })) =
        (tokens.get(at), tokens.get(at + 1))
        && is_one_of(&word.to_lowercase(), "negative|minus|menos|moins|meno|минус|负|負")
    {
        out.push(Token::Symbol('-'));
        at += 1;
    }
    while let Some(token) = tokens.get(at) {
        let is_behind = matches!(out.last(), Some(Token::Number { .. }));
        let raised = if *token == Token::Symbol('^') { group(&tokens[at + 1..]) } else { &[] };
        let marks = match raised {
            // `90^\circ`, `30^{\prime\prime}`
            [Token::Symbol('°' | '\'')] | [Token::Symbol('\''), Token::Symbol('\'')] => {
                raised.to_vec()
            }
            // `90^{o}`
            [mark] if is_behind && is_small_o(mark) => vec![Token::Symbol('°')],
            // `5^{\text{th}}`
            [Token::Text(word)] if is_ordinal(word) => vec![],
            _ => {
                let is_last = !matches!(tokens.get(at + 1), Some(Token::Text(_)));
                let is_suffix =
                    is_behind && is_last && matches!(token, Token::Text(word) if is_ordinal(word));
                if !is_suffix {
                    out.push(token.clone());
                }
                at += 1;
                continue;
            }
        };
        let is_braced = tokens[at + 1] == Token::Symbol('{');
        at += 1 + raised.len() + 2 * usize::from(is_braced);
        out.extend(marks);
    }
    // `(3,-2)\text{ in Cartesian coordinates}`
    let is_remark = |token: &Token| match token {
        Token::Text(word) => begins(word, "in |as |on "),
        _ => false,
    };
    let is_closed = matches!(out.iter().rev().nth(1), Some(Token::Symbol(')' | ']' | '⦄')));
    if is_closed && out.last().is_some_and(is_remark) {
        out.pop();
    }
    out
}

/// The token that a text begins with, or those in its braces.
fn group(tokens: &[Token]) -> &[Token] {
    match tokens {
        [Token::Symbol('{'), inner @ ..] => {
            let end = inner.iter().position(|token| *token == Token::Symbol('}'));
            &inner[..end.unwrap_or(0)]
        }
        [] => &[],
        [one, ..] => std::slice::from_ref(one),
    }
}

fn is_ordinal(word: &str) -> bool {
    matches!(word, "st" | "nd" | "rd" | "th")
}

/// How many tokens before an answer only say what it is: `Total:`, `The answer is`, `about`.
fn label(tokens: &[Token]) -> usize {
    let is_value = |token: &Token| match token {
        Token::Number { .. } | Token::Name(_) | Token::Currency(_) | Token::Matrix(true) => true,
        Token::Symbol(symbol) => "-+([{⦃|∞".contains(*symbol),
        _ => false,
    };
    let words = tokens.iter().take_while(|token| matches!(token, Token::Text(_))).count();
    let Some(Token::Text(last)) = words.checked_sub(1).and_then(|last| tokens.get(last)) else {
        return 0;
    };
    let has_colon = tokens.get(words) == Some(&Token::Symbol(':'));
    let lower = last.trim().to_lowercase();
    let is_label = !is_doubted(&lower)
        && (has_colon
            || lower.ends_with(':')
            || lower.ends_with(" is")
            || lower.ends_with(" are")
            || is_one_of(lower.trim_end_matches(','), LABELS) && (words == 1 || lower != "at"));
    let length = words + usize::from(has_colon);
    if is_label && tokens.get(length).is_some_and(is_value) { length } else { 0 }
}

/// Takes out a set before a condition on its numbers, `x \in \mathbb{R}, x > 0`, and "for all x" behind functions where
/// more follow.
pub(super) fn without_variables(tokens: &mut Vec<Token>) {
    if let [name @ Token::Name(_), Token::Symbol('∈'), Token::Symbol('ℝ'), link, rest @ ..] =
        tokens.as_slice()
        && match link {
            Token::Symbol(mark) => ",;:|".contains(*mark),
            Token::Text(word) => is_one_of(word.trim(), "with|where|such that"),
            _ => false,
        }
        && rest.contains(name)
        && rest.iter().any(|token| matches!(token, Token::Symbol('<' | '>' | '≤' | '≥' | '≠')))
    {
        tokens.drain(..4);
    }
    const FOR_ALL: &str = "for all|for every|for any|for each|for all real|for every real|for all integers|for all real numbers";
    let mut at = 0;
    while at < tokens.len() {
        let is_begin = match &tokens[at] {
            Token::Text(words) => is_one_of(words.trim(), FOR_ALL),
            Token::Name(name) => name == "forall",
            _ => false,
        };
        let end = match &tokens[at + 1..] {
            [Token::Name(_), Token::Symbol('∈'), Token::Symbol('ℝ') | Token::Name(_), ..] => {
                at + 4
            }
            [Token::Name(_), ..] => at + 2,
            _ => at,
        };
        if is_begin && matches!(tokens.get(end), Some(Token::Symbol(',' | ';' | '∨'))) {
            tokens.drain(at..end);
        }
        at += 1;
    }
}

/// Where a qualifier begins that only says what a letter stands for, and its domain: `k in Z`, `for all real x`.
pub(super) fn qualifier(tokens: &[Token]) -> Option<(usize, Option<char>)> {
    let is_plain = |token: &Token| {
        !matches!(token, Token::Text(_) | Token::Symbol('∈' | '≥' | '≤' | '>' | '<' | '…' | '≠'))
            && *token != Token::Name("forall".into())
    };
    (!tokens.iter().all(is_plain)).then_some(())?;
    let found = in_words(tokens).or_else(|| in_symbols(tokens)).or_else(|| listed(tokens));
    let (start, domain) = found.or_else(|| from_bound(tokens))?;
    let mut end = start;
    while end > 0 && matches!(tokens[end - 1], Token::Symbol(',' | ';' | '(')) {
        end -= 1;
    }
    let depth = |open: char, close: char| {
        let count = |symbol| tokens[..end].iter().filter(|t| **t == Token::Symbol(symbol)).count();
        count(open) == count(close)
    };
    (end > 0 && depth('⦃', '⦄') && depth('(', ')') && depth('{', '}')).then_some((end, domain))
}

/// `for all x in R`, `where k is an integer`, `for any constant c`.
fn in_words(tokens: &[Token]) -> Option<(usize, Option<char>)> {
    let start = tokens.iter().position(|token| match token {
        Token::Text(word) => {
            let word = word.trim().to_lowercase();
            ["for", "where", "with"].iter().any(|begin| {
                word.strip_prefix(begin)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            })
        }
        Token::Name(name) => name == "forall",
        _ => false,
    })?;
    // `5 for every 2` is a ratio.
    let has_name = tokens[start..].iter().any(|token| matches!(token, Token::Name(_)));
    let counts = !has_name && matches!(tokens.last(), Some(Token::Number { .. }));
    (!counts).then_some(())?;
    let words: Vec<String> = tokens[start..]
        .iter()
        .filter_map(|token| match token {
            Token::Text(word) => Some(word.trim().to_lowercase()),
            _ => None,
        })
        .collect();
    let words = words.join(" ");
    let has = |word: &str| words.contains(word);
    let is_general =
        words.is_empty() || begins(&words, "for all|for any|for every|for each|for some");
    let symbolic = symbol(&tokens[start..]);
    let domain = match () {
        () if has("positive") || has("natural") => Some('N'),
        () if has("nonneg") || has("non-neg") || has("negative") => Some('W'),
        () if has("integer") => Some('Z'),
        () if has("real") || has("constant") || has("arbitrary") => Some('R'),
        () => symbolic,
    };
    // `for n \ge 1` behind an expression in n says which integers it is for.
    if let [.., name @ Token::Name(_), Token::Symbol(relation), Token::Number { value, .. }] =
        tokens
        && tokens[..start].contains(name)
        && (*relation == '≠' || matches!(name, Token::Name(name) if is_one_of(name, "n|k|m")))
        && let Some(domain) = bound_domain(*relation, value)
    {
        return Some((start, Some(domain)));
    }
    // `x for x > 0` is a restriction, not a qualifier.
    let is_restricted = tokens[start..].iter().any(|token| match token {
        Token::Symbol('≠') => !is_general,
        token => matches!(token, Token::Symbol('<' | '>' | '≤' | '≥' | '=')),
    });
    let says_kind = domain.is_some() || has("constant") || has("arbitrary");
    ((is_general || says_kind) && !is_restricted).then_some((start, domain))
}

/// `, k in Z` and `(k in Z)` at the end.
fn in_symbols(tokens: &[Token]) -> Option<(usize, Option<char>)> {
    let mut end = tokens.len();
    let has_bracket = end > 0 && tokens[end - 1] == Token::Symbol(')');
    end -= usize::from(has_bracket);
    let member = tokens[..end].iter().rposition(|token| *token == Token::Symbol('∈'))?;
    let start = member.checked_sub(1)?;
    let domain = membership(&tokens[start..end])?;
    let is_apart = is_apart(tokens, start, has_bracket)?;
    is_apart.then_some((start, Some(domain)))
}

/// The set of `k \in \mathbb{Z}`, with its marks: `\mathbb{N}^*`, `\mathbb{Z}_{>0}`.
pub(super) fn membership(tokens: &[Token]) -> Option<char> {
    let [Token::Name(_), Token::Symbol('∈'), set, marks @ ..] = tokens else { return None };
    // `\in {Z}`
    let marks = if *set == Token::Symbol('{') { &[] } else { marks };
    let are_marks = marks.len() <= 5
        && marks.iter().all(|token| match token {
            Token::Symbol(c) => "^_*+{}>≥".contains(*c),
            Token::Number { digits, .. } => digits == "0",
            Token::Name(name) => matches!(name.as_str(), "Z" | "N"),
            _ => false,
        });
    let domain = symbol(tokens).filter(|_| are_marks)?;
    Some(if domain == 'Z' && !marks.is_empty() { 'N' } else { domain })
}

/// Whether a part of tokens stands in brackets of its own, or behind a comma.
fn is_apart(tokens: &[Token], start: usize, has_bracket: bool) -> Option<bool> {
    Some(match tokens.get(start.checked_sub(1)?)? {
        Token::Symbol('(') => has_bracket,
        Token::Symbol(',' | ';') => !has_bracket,
        _ => false,
    })
}

/// `(n = 1, 2, 3, \ldots)` behind an expression in n.
fn listed(tokens: &[Token]) -> Option<(usize, Option<char>)> {
    let start = tokens.iter().rposition(|token| *token == Token::Symbol('('))?;
    let [Token::Name(_), Token::Symbol('='), Token::Number { value, .. }, rest @ ..] =
        &tokens[start + 1..]
    else {
        return None;
    };
    let ends = matches!(rest, [.., Token::Symbol('…' | ','), Token::Symbol(')')])
        || matches!(rest, [.., Token::Symbol('…'), _, Token::Symbol(')')]);
    ends.then(|| (start, Some(if value.is_zero() { 'W' } else { 'N' })))
}

/// `(n \ge 1)` and `, n \ge 1` behind an expression in n.
fn from_bound(tokens: &[Token]) -> Option<(usize, Option<char>)> {
    let has_bracket = tokens.last() == Some(&Token::Symbol(')'));
    let end = tokens.len() - usize::from(has_bracket);
    let start = end.checked_sub(3)?;
    let [name @ Token::Name(_), Token::Symbol(relation), Token::Number { value, .. }] =
        &tokens[start..end]
    else {
        return None;
    };
    let is_apart = is_apart(tokens, start, has_bracket)?;
    // `x > 2, x < 5` is a condition as a whole.
    let main = &tokens[..start];
    let is_relation = |token: &Token| matches!(token, Token::Symbol('<' | '>' | '≤' | '≥' | '≠'));
    let is_definition = main.contains(name) && !main.iter().any(is_relation) && main.len() > 2;
    let domain = bound_domain(*relation, value)?;
    (is_apart && is_definition).then_some((start, Some(domain)))
}

/// The integers from a bound on, as a domain of their own.
fn bound_domain(relation: char, value: &RBig) -> Option<char> {
    match relation {
        '≥' if *value == RBig::ONE => Some('N'),
        '>' if value.is_zero() => Some('N'),
        '≥' if value.is_zero() => Some('W'),
        '≥' | '>' | '≠' if value.is_int() => {
            let number = u32::try_from(value.numerator().clone()).ok()?;
            let kind = "≥>≠".chars().position(|known| known == relation)? as u32;
            char::from_u32(0xe000 + number.min(999) + 1000 * kind)
        }
        _ => None,
    }
}

/// The set that a membership names.
fn symbol(tokens: &[Token]) -> Option<char> {
    let at = tokens.iter().position(|token| *token == Token::Symbol('∈'))?;
    let is_braced = tokens.get(at + 1) == Some(&Token::Symbol('{'));
    match tokens.get(at + 1 + usize::from(is_braced))? {
        Token::Symbol('ℝ') => Some('R'),
        Token::Name(name) if matches!(name.as_str(), "Z" | "N" | "Q" | "R" | "C") => {
            name.chars().next()
        }
        _ => None,
    }
}
