//! Structures: sets, tuples, intervals, piecewise functions, congruences, half-lines, rows that are transposed.

use super::alphabet::is_sign;
use super::lex::Token;
use super::parse::{Parser, are_equations};
use super::qualifiers::membership;
use super::scan::is_one_of;
use super::sets::set_in_words;
use super::tree::{Answer, Expr};

/// Words between a piece and its condition.
const IF: &str = "if|for|when|where|whenever";

impl Parser {
    /// `{1, 2}`, `{x | x > 5}`, `{x in R : x > 5}`.
    pub(super) fn set(&mut self) -> Option<Answer> {
        self.expect('⦃')?;
        if self.accept('⦄') {
            return Some(Answer::Set(vec![]));
        }
        let condition = self.attempt(|parser| parser.condition('⦄'));
        if let Some(set) = condition.or_else(|| self.attempt(|parser| parser.image('⦄'))) {
            return Some(set);
        }
        let inner = self.list(&['⦄'])?;
        self.expect('⦄')?;
        Some(Answer::Set(match inner {
            Answer::List(items) => items,
            one => vec![one],
        }))
    }

    /// The rest of a set by a condition on a real number.
    fn condition(&mut self, close: char) -> Option<Answer> {
        let Token::Name(name) = self.peek()?.clone() else { return None };
        self.at += 1;
        if self.accept('∈') && !self.accept('ℝ') {
            (self.peek() == Some(&Token::Name("R".into()))).then_some(())?;
            self.at += 1;
        }
        if !self.accept(':') {
            self.expect('|')?;
        }
        let inner = self.list(&[close])?;
        self.expect(close)?;
        // `\{x \mid x = k\pi, k \in \mathbb{Z}\}`
        if let Answer::List(parts) = &inner
            && let [equation, Answer::Member(k, set)] = parts.as_slice()
            && let Some((x, form)) = equation.equation()
            && *x == Answer::Value(Expr::Variable(name))
            && let Answer::Value(Expr::Variable(k)) = &**k
            && let Answer::Value(Expr::Variable(set)) = &**set
            && matches!(set.as_str(), "Z" | "N")
        {
            let set = set.chars().next()?;
            return Some(Answer::Qualified(Box::new(form.clone()), set, Some(k.clone())));
        }
        let is_relation = |answer: &Answer| matches!(answer, Answer::Chain(..));
        let is_condition = match &inner {
            Answer::Union(parts) | Answer::List(parts) => parts.iter().all(is_relation),
            other => is_relation(other),
        };
        is_condition.then(|| Answer::Condition(Box::new(inner)))
    }

    /// The rest of a set of values, `{2k + 1 : k \in Z}`: as the values with the set that their letter is from.
    fn image(&mut self, close: char) -> Option<Answer> {
        // A bar ends the values.
        let outer = std::mem::replace(&mut self.in_bars, true);
        let values = self.union();
        self.in_bars = outer;
        let values = values?;
        if !self.accept(':') {
            self.expect('|')?;
        }
        let Token::Name(letter) = self.peek()?.clone() else { return None };
        let rest = &self.tokens[self.at..];
        let end = rest.iter().position(|token| *token == Token::Symbol(close))?;
        let set = membership(&rest[..end])?;
        // `{k : k \in Z}` is the set, `{5 : k \in Z}` one value.
        let is_value = values != Answer::Value(Expr::Variable(letter.clone()));
        (is_value && values.renamed(&letter, &Expr::integer(0)) != values).then_some(())?;
        self.at += end + 1;
        Some(Answer::Qualified(Box::new(values), set, Some(letter)))
    }

    /// The real line, or a half of it: `R^+`, `R_{>0}`, `R_{\\ge 0}`.
    pub(super) fn reals(&mut self) -> Option<Answer> {
        self.expect('ℝ')?;
        let is_below = self.accept('_');
        if !is_below && !self.accept('^') {
            return Some(Answer::line());
        }
        let is_braced = self.accept('{');
        let sign = match self.peek()? {
            Token::Symbol(sign) => *sign,
            _ => return None,
        };
        self.at += 1;
        if !matches!(sign, '+' | '-') {
            let zero = self.sum()?;
            (zero == Expr::integer(0)).then_some(())?;
        }
        if is_braced {
            self.expect('}')?;
        }
        // `\mathbb{R}_+^*`, `\mathbb{R}_{+}^{*}`: without zero.
        if self.accept('^') || self.accept('_') {
            let is_braced = self.accept('{');
            self.expect('*')?;
            if is_braced {
                self.expect('}')?;
            }
        }
        Answer::half_line(sign, Expr::integer(0))
    }

    /// A piecewise function between its marks: pieces and conditions, row by row.
    pub(super) fn cases(&mut self) -> Option<Answer> {
        // Cells end with commas, conditions begin with words.
        let rows = self.rows(&Token::Cases(false), |token| match token {
            Token::Symbol(mark) => "&,;.".contains(*mark),
            Token::Text(word) => is_if(word),
            _ => false,
        })?;
        if are_equations(&rows) {
            return Some(Answer::List(rows.into_iter().flatten().collect()));
        }
        let mut pieces = Vec::new();
        for mut row in rows {
            let piece = match (row.pop(), row.pop(), row.is_empty()) {
                (Some(condition), Some(value), true) => (value, condition),
                // The value and its condition may stand in one cell.
                (Some(Answer::Cases(mut inner)), None, true) if inner.len() == 1 => inner.pop()?,
                _ => return None,
            };
            pieces.push(piece);
        }
        (!pieces.is_empty()).then_some(Answer::Cases(pieces))
    }

    /// `x + 1 if x < 0`: a piece of a function in words.
    pub(super) fn case(&mut self, value: Answer) -> Option<Answer> {
        let condition = self.attempt(|parser| {
            let Token::Text(word) = parser.peek()? else { return None };
            is_if(word).then(|| parser.at += 1)?;
            let parity = parser.parity();
            let condition = parity.or_else(|| parser.nested(Self::chain))?;
            (!matches!(condition, Answer::Words(_) | Answer::Value(_))).then_some(condition)
        });
        Some(match condition {
            Some(condition) => Answer::Cases(vec![(value, condition)]),
            None => value,
        })
    }

    /// Relations with signs between them whose meaning is not known, which are compared as they stand.
    pub(super) fn with_signs(&mut self) -> Option<Answer> {
        let mut parts = vec![self.operand()?];
        while let Some(sign) = self.sign() {
            parts.extend([sign, self.operand()?]);
        }
        let is_worded = parts.iter().step_by(2).any(|part| matches!(part, Answer::Words(_)));
        if parts.len() == 1 { parts.pop() } else { (!is_worded).then_some(Answer::Signs(parts)) }
    }

    /// A relation, with the signs before it: `\neg p`.
    fn operand(&mut self) -> Option<Answer> {
        match self.sign() {
            Some(sign) => Some(Answer::Signs(vec![sign, self.nested(Self::operand)?])),
            None => self.relation(),
        }
    }

    fn sign(&mut self) -> Option<Answer> {
        let Token::Name(name) = self.peek()? else { return None };
        let sign = is_sign(name).then(|| Answer::Words(name.clone()))?;
        self.at += 1;
        Some(sign)
    }

    /// `n \text{ even}`, "if n is odd", as a congruence.
    pub(super) fn parity(&mut self) -> Option<Answer> {
        self.attempt(|parser| {
            let mut words = String::new();
            while let Some(Token::Text(word) | Token::Name(word)) = parser.peek() {
                words.extend([word, " "]);
                parser.at += 1;
            }
            set_in_words(&words).filter(|set| matches!(set, Answer::Congruence(..)))
        })
    }

    /// `a = b (mod m)` behind its left part.
    pub(super) fn congruence(&mut self, answer: &Answer) -> Option<Answer> {
        let modulus = self.attempt(Self::modulus)?;
        let residue = answer.equation().map_or(answer, |(_, residue)| residue);
        let Answer::Value(residue) = residue else { return None };
        Some(Answer::Congruence(residue.clone(), modulus))
    }

    fn modulus(&mut self) -> Option<Expr> {
        let has_bracket = self.accept('(');
        let is_mod = match self.peek()? {
            Token::Name(name) => name == "mod",
            Token::Text(word) => word.eq_ignore_ascii_case("mod"),
            _ => false,
        };
        is_mod.then_some(())?;
        self.at += 1;
        let modulus = self.sum()?;
        if has_bracket {
            self.expect(')')?;
        }
        Some(modulus)
    }

    /// A row of numbers with the mark of a transpose is a column.
    pub(super) fn transposed(&mut self, structure: Answer) -> Option<Answer> {
        if !self.peek_is('^') {
            return Some(structure);
        }
        let Answer::Tuple(_, items, _) = structure else { return None };
        self.transpose()?;
        Some(Answer::Matrix(items.into_iter().map(|item| vec![item]).collect()))
    }

    /// The mark of a transpose: `^T`, `^{\top}`.
    pub(super) fn transpose(&mut self) -> Option<()> {
        self.expect('^')?;
        let braces = (0..2).take_while(|_| self.accept('{')).count();
        match self.peek()? {
            Token::Symbol('⊤' | '\'') => {}
            Token::Name(name) if name == "T" || name == "t" => {}
            _ => return None,
        }
        self.at += 1;
        (0..braces).try_for_each(|_| self.expect('}'))
    }

    /// `{1, 2}` and `{x | x > 5}` without backslashes; braces around one value are a group.
    pub(super) fn plain_set(&mut self) -> Option<Answer> {
        self.expect('{')?;
        let condition = self.attempt(|parser| parser.condition('}'));
        if let Some(set) = condition.or_else(|| self.attempt(|parser| parser.image('}'))) {
            return self.peek().is_none().then_some(set);
        }
        let Answer::List(items) = self.list(&['}'])? else { return None };
        self.expect('}')?;
        self.peek().is_none().then_some(Answer::Set(items))
    }

    /// Brackets around a list, or around one structure; brackets around a value are part of an
    /// expression and are left to it.
    pub(super) fn tuple(&mut self) -> Option<Answer> {
        let Token::Symbol(open) = self.peek()?.clone() else { return None };
        self.at += 1;
        let inner = self.list(&[')', ']', '[', '⟩'])?;
        let Token::Symbol(close @ (')' | ']' | '[' | '⟩')) = self.peek()?.clone() else {
            return None;
        };
        self.at += 1;
        let ends = match self.peek() {
            None => true,
            Some(Token::TightComma | Token::Matrix(false)) => true,
            Some(Token::Name(name)) => is_sign(name),
            Some(Token::Symbol(c)) => ",;)]}⦄∪∨∖=∈.⏎&:|⟩^".contains(*c),
            _ => false,
        };
        match inner {
            Answer::List(items) if ends => Some(Answer::Tuple(open, items, close)),
            structure @ (Answer::Tuple(..)
            | Answer::Set(_)
            | Answer::Chain(..)
            | Answer::Words(_)
            | Answer::Signs(_)
            | Answer::Matrix(_)
            | Answer::Union(_))
                if ends =>
            {
                Some(structure)
            }
            _ => None,
        }
    }
}

fn is_if(word: &str) -> bool {
    is_one_of(&word.trim().trim_end_matches('.').to_lowercase(), IF)
}

/// Residues before a last one with a modulus have it as well, `n \equiv 1, 5 \pmod 6`, but no other name where so many
/// equations show that the last has its own: `x = 3, y \equiv 1 \pmod 5`.
pub(super) fn same_modulus(items: &mut [Answer], equations: usize) {
    let Some(Answer::Congruence(_, modulus)) = items.last().cloned() else { return };
    let is_named = |item: &Answer| item.equation().is_some();
    let has_own = equations > items.iter().filter(|item| is_named(item)).count();
    for item in items.iter_mut().filter(|item| !has_own || !is_named(item)) {
        if let Answer::Value(residue) = item.equation().map_or(&*item, |(_, residue)| residue) {
            *item = Answer::Congruence(residue.clone(), modulus.clone());
        }
    }
}
