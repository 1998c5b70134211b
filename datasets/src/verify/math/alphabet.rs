//! Meanings of commands and characters.

use unicode_normalization_alignments::UnicodeNormalization;

use super::scan::{is_digit, is_one_of};
use super::units::is_known;

/// Styles and spacing that mean nothing.
pub(super) const IGNORED: &str = "therefore|left|right|displaystyle|textstyle|scriptstyle|limits|big|Big|bigl|bigr|Bigl|Bigr|bigg|Bigg|biggl|biggr|\
    Biggl|Biggr|rm|bf|it|sf|mathstrut|nonumber|hfill|noindent|hline|middle|nolimits|normalsize|small|large|Large|\
    smallskip|checkmark|blacksquare|square|qed|angle|measuredangle";
/// Wrappers of mathematics: their braces stay as a group.
pub(super) const STYLES: &str = "mathbin|mathrel|mathpunct|framebox|ul|mathbf|mathit|mathsf|mathcal|boldsymbol|bm|vec|boxed|fbox|ensuremath|\
    overrightarrow|underline";
/// Wrappers of words.
pub(super) const WORDS: &str = "text|textbf|textit|textrm|mathrm|mbox|hbox|operatorname|textnormal|emph|texttt|textsf|textsc|textup|textmd|\
    mathtt|uline";

/// Units of one to three letters that are written right after numbers.
pub(super) const UNITS: &str = "bps|eV|dB|Pa|GW|TW|mV|mW|nF|pF|sq|cu|mol|bar|atm|kJ|kN|kW|Hz|kV|MW|mA|dm|cm|mm|km|kg|ft|lb|lbs|oz|mph|\
    deg|pct|ml|mi|hr|hrs|sec";

/// Things that are counted, of letters that are often variables.
pub(super) const NOUNS: &str =
    "cup|cat|car|cap|cab|cub|ant|bat|bun|bus|nut|pan|pup|rat|tub|van|ray|tap";

/// Words of three letters without a vowel.
const SHORTENED: &str = "rpm|fps|psi|mph|kph|mpg|pts|yrs|hrs|pcs|lbs|yds|cts|tbs|tsp|ppm|ppb|bpm|wpm|\
    gms|kms|cms|mls|std|nth|mth|kth|min|sec|mod|max|gcd|lcm|log|sgn|cot|sqr|img|ker|det|mrs|jpg|png";

/// Words that are no products of variables.
pub(super) const SHORT_WORDS: &str =
    "it|is|in|to|of|so|we|as|at|be|by|if|no|on|up|do|he|am|an|us|my|me";

/// Commands that stand for one symbol, and the symbol.
const SYMBOLS: &str = "cdot times ast bullet *;div /;pm mp ±;le leq leqslant ≤;ge geq geqslant ≥;lt <;gt >;ne neq \
    ≠;equiv =;cup bigcup ∪;cap bigcap ∩;in isin ∈;setminus backslash ∖;emptyset varnothing ∅;infty ∞;circ degree \
    °;lbrace ⦃;rbrace ⦄;lbrack [;rbrack ];vert lvert rvert mid |;Vert lVert rVert Vvert parallel ‖;colon :;prime \
    ';lfloor ⌊;rfloor ⌋;lceil ⌈;rceil ⌉;langle ⟨;rangle ⟩;ldots dots cdots dotsc …;over \
    ⌿;choose ⑂;top intercal ⊤;R reals ℝ;to rightarrow implies Rightarrow longrightarrow \
    Longrightarrow →;gets leftarrow Leftarrow ←;iff leftrightarrow Leftrightarrow ↔;land wedge ∧;lor vee ⋁;\
    neg lnot not ¬";

/// A command that stands for one symbol.
pub(super) fn symbol(command: &str) -> Option<char> {
    let entry = SYMBOLS.split(';').find(|entry| entry.split(' ').any(|name| name == command))?;
    entry.chars().next_back().filter(|_| !command.is_empty())
}

/// Characters outside ASCII, and what they stand for.
const FOLDED: &str = "−–—﹣－=-|×=\\times |·⋅∙∗=*|÷∕⁄=/|＋=+|．=.|＝==|（=(|）=)|，、=,|½=(1/2)|⅓=(1/3)|⅔=(2/3)|¼=(1/4)|¾=(3/4)|⅕=(1/5)|\
    ⅖=(2/5)|⅗=(3/5)|⅘=(4/5)|⅙=(1/6)|⅚=(5/6)|⅐=(1/7)|⅑=(1/9)|⅒=(1/10)|⅛=(1/8)|⅜=(3/8)|⅝=(5/8)|⅞=(7/8)|≡=\\equiv |\
    ‖=\\Vert |；=;|：=:|Ω=\\Omega |ℤ=\\mathbb{Z}|ℕ=\\mathbb{N}|πΠ=\\pi |√=\\sqrt |∛=\\sqrt[3]|∜=\\sqrt[4]|º=°|′='|’='|\
    “”‘= |％=%|\u{a0}\u{2009}\u{202f}\u{3000}\u{2061}= |∶=:|＜=<|＞=>|α=\\alpha |β=\\beta |θ=\\theta |φϕ=\\phi |\
    γ=\\gamma |δ=\\delta |ε=\\epsilon |λ=\\lambda |μµ=\\mu |ρ=\\rho |σ=\\sigma |τ=\\tau |ω=\\omega |∑=\\sum |∏=\\prod \
    |∨=\\lor |∧=\\land |∀=\\forall |∃=\\exists |⊂=\\subset |⊆=\\subseteq |∉=\\notin |⇒⟹=→|⇔⟺=↔|⊥=\\perp |≅=\\cong ";

/// A character outside ASCII as what it stands for.
fn folded(c: char) -> Option<&'static str> {
    (!c.is_ascii()).then_some(())?;
    let mut entries = FOLDED.split('|').filter_map(|entry| entry.split_once('='));
    entries.find_map(|(from, to)| from.contains(c).then_some(to))
}

/// A raised or lowered character: its mark and the plain one.
fn shifted(c: char) -> Option<(char, char)> {
    const RAISED: &str = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ";
    const LOWERED: &str = "₀₁₂₃₄₅₆₇₈₉₊₋ₙ";
    matches!(c, '²' | '³' | '¹' | '\u{2070}'..='\u{209f}').then_some(())?;
    let plain = |table: &str| {
        table.chars().zip("0123456789+-n".chars()).find(|(shifted, _)| *shifted == c).map(|p| p.1)
    };
    plain(RAISED).map(|plain| ('^', plain)).or_else(|| plain(LOWERED).map(|plain| ('_', plain)))
}

/// Whether a character is not seen: joiners, marks of direction.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}' | '\u{feff}')
}

/// Replaces what is outside ASCII and has a spelling inside it. Fractions written as one character
/// after a digit are mixed numbers.
pub(super) fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 8);
    // The mark of a run of raised or lowered characters, which is one group: `x¹⁰`.
    let mut run = None;
    for c in text.chars().filter(|c| !is_invisible(*c)) {
        if let Some((mark, plain)) = shifted(c) {
            if run == Some(mark) {
                out.pop();
            } else {
                out.extend([mark, '{']);
            }
            out.extend([plain, '}']);
            run = Some(mark);
            continue;
        }
        run = None;
        match folded(c) {
            // The sign of a mixed number covers both parts; the parser sees `-(a+b)`.
            Some(part) if part.len() > 1 && part.starts_with('(') && out.ends_with(is_digit) => {
                let start = out.trim_end_matches(is_digit).len();
                out.insert(start, '(');
                out.push_str(&format!("+{part})"));
            }
            Some(plain) => out.push_str(plain),
            None => out.push(digit(c).unwrap_or(c)),
        }
    }
    out
}

/// The zeros of other scripts.
const ZEROS: &str = "\u{660}\u{6f0}\u{966}\u{9e6}\u{a66}\u{ae6}\u{b66}\u{be6}\u{c66}\u{ce6}\u{d66}\u{e50}\u{ed0}\u{f20}\u{1040}\u{17e0}\u{ff10}\u{1d7ce}\u{1d7d8}\u{1d7ec}";

/// A digit of another script as one of ASCII, and the marks between such digits.
pub(super) fn digit(c: char) -> Option<char> {
    (!c.is_ascii()).then_some(())?;
    if matches!(c, '٫' | '٬' | '،') {
        return Some(if c == '٫' { '.' } else { ',' });
    }
    if let Some(at) = "＝－＋".chars().position(|known| known == c) {
        return "=-+".chars().nth(at);
    }
    let value = |zero: char| (c as u32).checked_sub(zero as u32).filter(|value| *value < 10);
    char::from_digit(ZEROS.chars().find_map(value)?, 10)
}

/// Whether three letters are factors: `GMm` and `mgh` are no words.
pub(super) fn is_formula(run: &str) -> bool {
    run.len() == 3
        && run.bytes().all(|b| b.is_ascii_alphabetic())
        && run.bytes().any(|b| b.is_ascii_lowercase())
        && !run.bytes().any(|b| b"aeiouyAEIOUY".contains(&b))
        && !is_known(run)
        && !is_one_of(&run.to_ascii_lowercase(), SHORTENED)
}

/// Commands of signs between values or statements, which are compared as they stand.
const RELATIONS: &str = "subset|subseteq|subsetneq|subsetneqq|nsubseteq|supset|supseteq|supsetneq|nsupseteq|sqsubset|\
    sqsubseteq|ni|notin|forall|exists|nexists|veebar|impliedby|mapsto|longmapsto|longleftarrow|longleftrightarrow|\
    Longleftarrow|Longleftrightarrow|hookrightarrow|twoheadrightarrow|uparrow|downarrow|rightleftharpoons|perp|\
    nparallel|cong|ncong|nequiv|propto|asymp|nmid|ll|gg|prec|succ|preceq|succeq|models|vdash|vDash|oplus|ominus|\
    otimes|odot|triangleleft|triangleright|trianglelefteq|unlhd|lhd|rhd";

/// Signs between statements.
pub(super) const SIGNS: &str = "→←↔∧⋁¬";

/// Whether a name is a sign that is compared as it stands: `\subset`, `\forall`, an arrow.
pub(super) fn is_sign(name: &str) -> bool {
    is_one_of(name, RELATIONS) || SIGNS.contains(name)
}

/// Functions by name, plain or as a command.
pub(super) fn is_function(name: &str) -> bool {
    const FUNCTIONS: &str = "sin|cos|tan|cot|sec|csc|arcsin|arccos|arctan|arctg|arcctg|ctan|cotg|asin|acos|atan|sinh|\
        cosh|tanh|ln|log|lg|exp|abs|max|min|gcd|lcm|floor|ceil|cis|arccot|acot|arcsec|arccsc|coth|sech|csch|arcsinh|\
        arccosh|arctanh|arsinh|arcosh|artanh|asinh|acosh|atanh";
    is_one_of(name, FUNCTIONS)
}

/// A text with letters and their marks as one character each, `e\u{301}` as `é`; none where it has no such marks.
pub(super) fn composed(text: &str) -> Option<String> {
    let is_mark = |c: char| matches!(c, '\u{300}'..='\u{36f}' | '\u{1161}'..='\u{11ff}' | '\u{3099}' | '\u{309a}');
    let has_marks = !text.is_ascii() && text.contains(is_mark);
    has_marks.then(|| text.nfc().map(|(c, _)| c).collect())
}
