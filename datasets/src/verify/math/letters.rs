//! Runs of letters in plain text: which of them are words or units, and which are products of letters.

use super::alphabet::{NOUNS, SHORT_WORDS, UNITS, is_formula};
use super::lex::{Lexer, Token};
use super::scan::{is_digit, is_one_of};
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
        let is_word = length > 2 && (!(length == 3 && is_letters) || is_noun);
        // Points of geometry are capitals: `NO` is a segment.
        let is_lower = run[1..].bytes().all(|b| b.is_ascii_lowercase());
        let is_short_word = length == 2 && is_lower && is_one_of(&lower, SHORT_WORDS);
        // `5th`
        let is_ordinal = matches!(lower.as_str(), "st" | "nd" | "rd" | "th")
            && self.text[..self.at - length].ends_with(is_digit);
        is_word || is_unit || is_short_word || is_ordinal
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
