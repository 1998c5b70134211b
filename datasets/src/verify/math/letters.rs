//! Runs of letters in plain text: which of them are words or units, and which are products of letters.

use super::alphabet::{NOUNS, SHORT_WORDS, UNITS, is_formula};
use super::lex::{Lexer, Token};
use super::scan::{before_end, is_digit, is_one_of, pattern};
use super::units::is_known;

impl Lexer<'_> {
    /// Whether the run of letters that ends at the cursor is a word or a unit; `is_last` where no factor follows.
    pub(super) fn is_text(&self, run: &str) -> bool {
        let (length, lower) = (run.len(), run.to_ascii_lowercase());
        // `5 cm` is a length, `cm` alone a product.
        let is_spaced = self.text[..self.at - length].ends_with(' ');
        // `\sin(2\pi ft)` has a product.
        let is_product = run == "ft" && matches!(self.out.last(), Some(Token::Name(_)));
        // `\pi hr` is a product, as other letters that may be variables.
        const LENGTHS: &str = "cm|mm|km|ft|in|yd|mi|lb|oz|Hz|min|sec|mph";
        let is_sure = length > 3 || is_one_of(run, LENGTHS);
        let is_behind_part = is_spaced && is_sure && !is_product && self.is_behind_part();
        let is_behind_number = self.is_behind_number() || is_behind_part;
        let is_unit = is_behind_number
            && (is_one_of(&lower, UNITS)
                || is_one_of(run, UNITS)
                || self.is_last() && is_spaced && (2..=3).contains(&length) && is_known(run));
        // Longer runs of letters are words; shorter ones products of variables, as in `xy`.
        let is_formula = !(self.is_behind_number() && is_spaced) && is_formula(run);
        let is_letters = run.bytes().all(|b| b"abcnxyzpqrstuvw".contains(&b)) || is_formula;
        let is_per =
            matches!(self.out.last(), Some(Token::Text(_))) && is_one_of(run, "par|por|pro");
        let is_noun = is_spaced && (is_per || is_behind_number && is_one_of(&lower, NOUNS));
        let is_factor = self.is_in_formula(run);
        let is_word = length > 2 && (!(length == 3 && is_letters || is_factor) || is_noun);
        // Points of geometry are capitals: `NO` is a segment.
        let is_lower = run[1..].bytes().all(|b| b.is_ascii_lowercase());
        let is_short_word = length == 2 && is_lower && !is_factor && is_one_of(&lower, SHORT_WORDS);
        // `5th`
        let is_ordinal = matches!(lower.as_str(), "st" | "nd" | "rd" | "th")
            && self.text[..self.at - length].ends_with(is_digit);
        is_word || is_unit || is_short_word || is_ordinal
    }

    /// Whether a short run of letters touches a sign of a formula, as no word does: `an^2`, `\frac{xyzt}{2}`.
    fn is_in_formula(&self, run: &str) -> bool {
        let is_short = (2..=4).contains(&run.len())
            && !run.bytes().skip(1).all(|byte| byte.is_ascii_uppercase());
        if !is_short {
            return false;
        }
        let (before, rest) = (&self.text[..self.at - run.len()], self.rest());
        // A word stands between blanks.
        if before.ends_with([' ', ',']) && rest.starts_with([' ', ',']) {
            return false;
        }
        // The group of `x_{max}` or `\mathbf{no}` holds a word.
        let group = before.strip_suffix('{');
        let is_group = group.is_some_and(|group| {
            group.ends_with(['}', '^']) || before_end(group, "frac|sqrt").is_some()
        });
        if before.ends_with('_') || group.is_some() && !is_group {
            return false;
        }
        let is_unit = is_known(run) && (run.len() > 2 || self.is_behind_number());
        let is_followed =
            pattern!(r"^(?:[\^+*}]|[-/][0-9]|\\(?:frac|sqrt|cdot|pi|sin|cos|ln))").is_match(rest);
        let is_part = before.ends_with(|c: char| c == '}' || is_digit(c));
        let is_sure = is_followed || is_group || before.ends_with(['+', '*']);
        let is_sign = before.ends_with(['-', '=', '|']) || rest.starts_with(['-', '/', '=', '|']);
        let has_vowel = run.contains(['a', 'e', 'i', 'o', 'u']);
        match run.len() {
            2 => is_followed || !is_unit && (is_sure || is_part || is_sign),
            _ => !is_unit && (is_sure || is_part && !has_vowel),
        }
    }

    /// A currency's code, or a country's before its dollar: `US$29`. Whether it was one.
    pub(super) fn money(&mut self, run: &str) -> bool {
        let next = self.rest().trim_start();
        let rest = if run == "US" { next } else { self.rest() };
        let money = rest.strip_prefix('\\').unwrap_or(rest);
        let is_country =
            matches!(run, "US" | "USD" | "AU" | "CA" | "HK" | "NZ" | "C" | "A" | "S" | "R");
        let code = match run {
            "USD" => Some("dollar"),
            "EUR" => Some("€"),
            "GBP" => Some("£"),
            _ => None,
        };
        if let Some(code) = code.filter(|_| next.starts_with(is_digit)) {
            self.out.push(Token::Currency(code));
            return true;
        }
        if is_country
            && let Some(amount) = money.strip_prefix('$')
            && amount.starts_with(is_digit)
        {
            self.at = self.text.len() - amount.len();
            self.out.push(Token::Currency("dollar"));
            return true;
        }
        false
    }
}
