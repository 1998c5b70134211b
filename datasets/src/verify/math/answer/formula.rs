//! The formula that a box is a part of: between dollars, `2\cdot` and `+1` of `$x = 2\cdot\boxed{7}+1$`, and in running
//! text a sign, a factor or an operator before the box.

use super::super::super::tail;
use super::super::scan::{are_digits, each, head, holds, is_digit};
use super::Found;

/// Longest part of a formula on one side of a box.
const MAX_SIDE: usize = 300;

/// Signs and commands that part a formula, so that a box is the value of one part.
const BREAKS: &str = "=|,|;|&|≈|→|⇒|∴|\\approx|\\equiv|\\cong|\\to|\\implies|\\iff|\\Rightarrow|\\Longrightarrow|\\rightarrow|\
    \\longrightarrow|\\therefore|\\quad|\\qquad|\\\\|\\text|\\mathrm|\\tag|\\blacksquare|\\square|\
    \\displaystyle|\\large|\\Large|\\begin|\\end|\\color";

/// Relations that make what stands before them a bound.
const BOUNDS: &str = "<|>|≤|≥|\\leqslant|\\geqslant|\\leq|\\geq|\\le|\\ge|\\lt|\\gt";

/// The parts of a formula right before and behind a box in it; `None` where the box is in no formula.
pub(super) fn around<'a>(before: &'a str, after: &'a str) -> Option<(&'a str, &'a str)> {
    let (left, right) = delimited(tail(before, MAX_SIDE), head(after, MAX_SIDE))?;
    let (start, depth) = last_break(left);
    Some((&left[start..], &right[..first_break(right, depth)]))
}

/// The left side of the equation whose last value is in a box: `m + n` of `$m + n = 12 + 7 = \boxed{19}$`. A list,
/// words or another relation before the box make it the end of another statement: `2x = 10, x = \boxed{5}`.
pub(in super::super) fn left_side<'a>(text: &'a str, found: &Found<'_>) -> Option<&'a str> {
    const OTHERS: &str = ",|;|<|>|&|\\\\|\n|≈|→|⇒|\\approx|\\to |\\implies|\\iff|arrow|\\text|\\mathrm|\\le |\
        \\leq|\\ge |\\geq|\\ne";
    (text.get(found.span.clone())? == found.text && !found.text.contains(',')).then_some(())?;
    let before = text[..found.span.start].trim_end().strip_suffix("\\boxed{")?;
    let chain = tail(before.trim_end().strip_suffix('=')?, MAX_SIDE);
    let opened = ["$", "\\(", "\\["].iter();
    let start = opened.filter_map(|open| Some(chain.rfind(open)? + open.len())).max()?;
    let chain = &chain[start..];
    if holds(chain, OTHERS) { None } else { chain.split('=').next() }
}

/// What stands around a box between the marks of its formula.
fn delimited<'a>(before: &'a str, after: &'a str) -> Option<(&'a str, &'a str)> {
    memchr::memrchr2(b'$', b'\\', before.as_bytes())?;
    let brackets = [("\\(", "\\)"), ("\\[", "\\]")];
    let has_command = before.contains('\\');
    for (open, close) in brackets.into_iter().filter(|_| has_command) {
        if let Some(at) = before.rfind(open)
            && !before[at..].contains(close)
            && !before[..at].ends_with('\\')
        {
            return Some((&before[at + 2..], &after[..after.find(close)?]));
        }
    }
    let paragraph = before.rsplit("\n\n").next().unwrap_or(before);
    let marks = paragraph.match_indices('$').map(|(at, _)| at);
    let marks = marks.filter(|at| !paragraph[..*at].ends_with(['$', '\\']));
    let (count, last) = marks.fold((0, 0), |(count, _), at| (count + 1, at));
    let left = paragraph[last..].trim_start_matches('$');
    (count % 2 == 1).then_some(())?;
    let right = &after[..after.find('$')?];
    // `It costs $5, so it is \boxed{7}$`: words are no formula.
    let is_word =
        |word: &str| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    let has_words = [left, right].iter().any(|side| side.split([' ', ',']).any(is_word));
    (!has_words).then_some((left, right))
}

/// Behind which break of the left side the box's part begins, and how many brackets are open there.
fn last_break(left: &str) -> (usize, usize) {
    let (mut start, mut depth, mut at) = (0, 0_usize, 0);
    while let Some(c) = left[at..].chars().next() {
        let rest = &left[at..];
        let length = match depth {
            0 => command(BREAKS, rest).or_else(|| {
                let bound = command(BOUNDS, rest)?;
                // Of `x > 7` the relation is the answer, of `f(x) \ge 7` the bound.
                let operand = left[start..at].trim();
                let is_name = operand.chars().count() == 1 || operand.starts_with(['|', '\\']);
                let is_number = are_digits(operand);
                (!is_name && !is_number && !operand.contains(['<', '>', '≤', '≥'])).then_some(bound)
            }),
            _ => None,
        };
        if let Some(length) = length {
            at += length;
            // The words of `\text{so }`, the name of `\begin{aligned}`.
            let next = &left[at..];
            if rest.starts_with("\\") && next.starts_with('{') {
                at += next.find('}').map_or(next.len(), |end| end + 1);
            }
            start = at;
            continue;
        }
        depth = depth_behind(depth, c);
        at += c.len_utf8();
    }
    (start, depth)
}

/// Where the box's part ends on the right side, of which `depth` brackets close those of the left one.
fn first_break(right: &str, depth: usize) -> usize {
    let mut depth = depth;
    for (at, c) in right.char_indices() {
        let rest = &right[at..];
        let is_point = c == '.' && !rest[1..].starts_with(is_digit);
        if depth == 0
            && !right[..at].ends_with('\\')
            && (is_point || command(BREAKS, rest).is_some())
        {
            return at;
        }
        if ")]}".contains(c) && depth == 0 {
            return at;
        }
        depth = depth_behind(depth, c);
    }
    right.len()
}

/// How many brackets are open behind a character.
fn depth_behind(depth: usize, c: char) -> usize {
    (depth + usize::from("([{".contains(c))).saturating_sub(usize::from(")]}".contains(c)))
}

/// The length of the sign or command of a table that a text begins with.
fn command(table: &'static str, text: &str) -> Option<usize> {
    if text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == ' ') {
        return None;
    }
    let is_it = |name: &&str| {
        text.strip_prefix(*name).is_some_and(|rest| {
            !name.ends_with(|c: char| c.is_ascii_alphabetic())
                || !rest.starts_with(|c: char| c.is_ascii_alphabetic())
        })
    };
    each(table).find(is_it).map(str::len)
}

/// Where the sign or factor begins that a text ends with; at its end where it ends with none.
pub(super) fn factor(before: &str) -> usize {
    let prefix = before.trim_end_matches(|c: char| c.is_ascii_digit() || "-−+*/".contains(c));
    let run = &before[prefix.len()..];
    let sign = run.strip_prefix("**").unwrap_or(run);
    let prefix = &before[..before.len() - sign.len()];
    // `**3.**` ends bold text.
    let line = || before.lines().next_back().unwrap_or_default();
    let is_bold = sign.ends_with("**") && line().matches("**").count() % 2 == 0 || sign == "*";
    let is_sign = sign.starts_with(['-', '−', '+', '*', '/']);
    // `x-\boxed{3}` and `1.\boxed{3}` are no signs or factors.
    let is_apart = prefix.ends_with("**")
        || !prefix.ends_with(|c: char| c.is_alphanumeric() || ".}])*/#".contains(c));
    let is_factor = !is_bold && (is_apart || !is_sign && prefix.ends_with(' '));
    if is_factor { prefix.len() } else { before.len() }
}

/// Where the formula begins that an operator or relation joins to a box behind it: `2\cdot\boxed{8}`, `x > \boxed{8}`.
pub(super) fn operation(before: &str, after: &str) -> Option<(usize, usize)> {
    const OPERATORS: &str =
        "\\cdot|\\times|\\le|\\ge|\\leq|\\geq|\\lt|\\gt|\\leqslant|\\geqslant|<|>|≤|≥|^{|^|- |+ ";
    let last = before.trim_end_matches(' ').chars().next_back()?;
    if !last.is_ascii_lowercase() && !"<>≤≥{^-+".contains(last) {
        return None;
    }
    let (head, sign) = each(OPERATORS).find_map(|sign| {
        let text = if sign.ends_with(' ') { before } else { before.trim_end_matches(' ') };
        Some((text.strip_suffix(sign)?, sign))
    })?;
    let is_operand = |c: char| c.is_alphanumeric() || "\\.{}()^_".contains(c);
    let operand = head.trim_end_matches(' ');
    let start = operand.trim_end_matches(is_operand).len();
    let is_line = operand[..start].trim_end_matches(' ').ends_with(['\n', '$', '=', '(', '['])
        || operand[..start].trim().is_empty();
    // A dash behind words or a label, or before a box at the start of a line, is none of a formula.
    let word = &operand[start..];
    let letters = word.trim_matches(['(', ')']);
    let is_label = !word.contains('\\')
        && (letters.len() > 1 && letters.starts_with(|c: char| c.is_ascii_uppercase())
            || word.ends_with(['.', ')']) && (letters.len() < 4 || letters.ends_with('.'))
            || letters.len() > 1 && letters.bytes().all(|byte| byte.is_ascii_alphabetic()));
    (!is_label).then_some(())?;
    let is_formula = start < operand.len() && is_line;
    let is_relation = "<>≤≥".contains(sign) || sign.starts_with("\\l") || sign.starts_with("\\g");
    // `<b>`, arrows, and the mark of a quotation at the start of a line.
    let tag = head.rfind('<').map(|at| &head[at + 1..]);
    let is_mark = sign == ">"
        && (tag.is_some_and(|tag| tag.chars().all(|c| c.is_alphanumeric() || c == '/'))
            || head.ends_with(['=', '-'])
            || start == operand.len() && !operand.ends_with(['$', '(', '[']));
    let is_open = sign == "^{" && !after.starts_with('}');
    let is_part = !is_open && (is_formula || is_relation && !is_mark);
    is_part.then_some((start, usize::from(sign == "^{")))
}

/// The command whose argument the box is, `\sqrt{\boxed{25}}`: where it begins, and how much behind the box it takes.
pub(super) fn enclosing(before: &str, after: &str) -> Option<(usize, usize)> {
    let head = before.strip_suffix('{')?;
    let rest = after.strip_prefix('}')?;
    for (command, is_fraction) in
        [("\\sqrt", false), ("\\frac", true), ("\\dfrac", true), ("\\tfrac", true)]
    {
        if let Some(start) = head.strip_suffix(command) {
            let second = rest.strip_prefix('{').filter(|_| is_fraction);
            let second = second.and_then(closing).map_or(0, |close| close + 2);
            return Some((start.len(), 1 + second));
        }
    }
    // The denominator of a fraction, or a power.
    let start = head.rfind("\\frac").filter(|_| head.ends_with('}'))?;
    (!head[start..].contains(['$', '\n', ' '])).then_some((start, 1))
}

/// Where the brace that was open before `inner` closes; escaped braces do not count.
pub(crate) fn closing(inner: &str) -> Option<usize> {
    let mut depth = 1_usize;
    let mut closing = braces(inner).filter(|(_, brace)| {
        depth = if *brace == b'{' { depth + 1 } else { depth - 1 };
        depth == 0
    });
    closing.next().map(|(at, _)| at)
}

/// The braces of a text that are not escaped.
pub(super) fn braces(text: &str) -> impl Iterator<Item = (usize, u8)> + '_ {
    let mut is_escaped = false;
    text.bytes().enumerate().filter(move |(_, byte)| {
        let is_brace = matches!(byte, b'{' | b'}') && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_brace
    })
}
