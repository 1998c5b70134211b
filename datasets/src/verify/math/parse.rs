//! Tokens to an [`Answer`]: a recursive descent whose depth and work are bounded.

use super::lex::{Token, tokens};
use super::names::are_of_others;
use super::qualifiers::{qualifier, tidy, without_variables};
use super::structures::same_modulus;
use super::tree::{Answer, Expr, Relation};

/// Deepest nesting that is read.
const MAX_DEPTH: usize = 48;

/// Groups that may be begun for each token: plain answers begin two or three.
const STEPS: usize = 40;

/// Most tokens that are read.
const MAX_TOKENS: usize = 1024;

/// The answer that the grammar reads a text as; [`super::read::parse`] reads more.
pub(super) fn structure(text: &str) -> Option<Answer> {
    let mut tokens = tidy(tokens(text)?);
    (!tokens.is_empty() && tokens.len() <= MAX_TOKENS).then_some(())?;
    without_variables(&mut tokens);
    let domain = qualifier(&tokens).and_then(|(end, domain)| {
        let letter = runs_over(&tokens[end..]);
        tokens.truncate(end);
        Some((domain?, letter))
    });
    let steps = STEPS * (tokens.len() + 2);
    let has_matrix = tokens.iter().any(|token| matches!(token, Token::Matrix(true)));
    let mut parser = Parser {
        tokens,
        at: 0,
        depth: 0,
        steps,
        in_bars: false,
        has_matrix,
        in_function: false,
        bound: Vec::new(),
    };
    let answer = parser.list(&[])?;
    // A sentence may end with a point; `1, 2, 3...` goes on.
    parser.accept('.');
    let is_whole = parser.at == parser.tokens.len();
    is_whole.then(|| match domain {
        Some((domain, letter)) => Answer::Qualified(Box::new(answer), domain, letter),
        None => answer,
    })
}

/// The letter that a qualifier is about: k of `k in Z` and "where k is an integer".
fn runs_over(qualifier: &[Token]) -> Option<String> {
    let is_letter = |word: &&str| matches!(word.as_bytes(), [b'a'..=b'z']);
    let is_capital = |word: &&str| matches!(*word, "A" | "B" | "C" | "K");
    let words = || {
        qualifier.iter().flat_map(|token| match token {
            Token::Name(name) => vec![name.as_str()],
            Token::Text(words) => words.split(' ').filter(|word| *word != "a").collect(),
            _ => vec![],
        })
    };
    words().find(is_capital).or_else(|| words().find(is_letter)).map(str::to_owned)
}

/// A cursor over tokens: structures here, expressions in `expression`.
pub(super) struct Parser {
    pub(super) tokens: Vec<Token>,
    pub(super) at: usize,
    depth: usize,
    /// Groups that may still be begun: text that fits several readings, group in group, is else read exponentially
    /// often.
    steps: usize,
    /// Between bars, a bar ends the absolute value.
    pub(super) in_bars: bool,
    /// Matrices are still to come: an item may be a sum or a product of them.
    pub(super) has_matrix: bool,
    /// Inside a function, degrees are an angle.
    pub(super) in_function: bool,
    /// The names that sums and products run over, outermost first.
    pub(super) bound: Vec<String>,
}

impl Parser {
    pub(super) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    pub(super) fn peek_is(&self, symbol: char) -> bool {
        self.peek() == Some(&Token::Symbol(symbol))
    }

    pub(super) fn accept(&mut self, symbol: char) -> bool {
        let is_there = self.peek_is(symbol);
        self.at += usize::from(is_there);
        is_there
    }

    /// A comma, also one that may stand between thousands.
    pub(super) fn accept_comma(&mut self) -> bool {
        let is_tight = self.peek() == Some(&Token::TightComma);
        self.at += usize::from(is_tight);
        is_tight || self.accept(',')
    }

    pub(super) fn expect(&mut self, symbol: char) -> Option<()> {
        self.accept(symbol).then_some(())
    }

    /// What `read` reads; where it reads nothing, the cursor stays.
    pub(super) fn attempt<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let start = self.at;
        let found = read(self);
        if found.is_none() {
            self.at = start;
        }
        found
    }

    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.steps = self.steps.checked_sub(1)?;
        (self.depth != MAX_DEPTH).then_some(())?;
        self.depth += 1;
        let parsed = read(self);
        self.depth -= 1;
        parsed
    }

    /// `a, b, c`, where a comma between digits may stand for thousands.
    pub(super) fn list(&mut self, ends: &[char]) -> Option<Answer> {
        self.nested(|parser| {
            let mut items = vec![parser.chain()?];
            let mut are_all_or = true;
            // `x=2, y=3 or x=3, y=2`: where the alternatives begin.
            let mut starts = vec![0];
            loop {
                let is_or = parser.accept('∨');
                if is_or || parser.accept(',') || parser.accept(';') {
                    are_all_or &= is_or;
                    if is_or {
                        starts.push(items.len());
                    }
                    // A comma before the end: `x, ` or `a, and b`.
                    while parser.accept(',') || parser.accept('∨') {
                        are_all_or = false;
                    }
                    // "7 or" leaves open what it is.
                    if is_or && parser.peek().is_none() {
                        return None;
                    }
                    let is_end = |end: &char| *end != '[' && parser.peek_is(*end);
                    if parser.peek().is_none() || ends.iter().any(is_end) {
                        break;
                    }
                    parser.member(&mut items)?;
                } else if parser.peek() == Some(&Token::TightComma) {
                    are_all_or = false;
                    parser.at += 1;
                    parser.member(&mut items)?;
                } else {
                    break;
                }
            }
            if items.len() == 1 {
                return Some(items.remove(0));
            }
            if let Some(cases) = cases_of(&items) {
                return Some(cases);
            }
            let is_equals = |token: &&Token| **token == Token::Symbol('=');
            same_modulus(&mut items, parser.tokens.iter().filter(is_equals).count());
            // `x \ne 1, 2`
            if let [Answer::Chain(sides, relations), others @ ..] = &mut items[..]
                && relations.as_slice() == [Relation::Unequal]
                && others.iter().all(|other| matches!(other, Answer::Value(_)))
            {
                for other in others {
                    let sides = vec![sides[0].clone(), other.clone()];
                    *other = Answer::Chain(sides, vec![Relation::Unequal]);
                }
            }
            // `x < 1 or x > 2` is a union, `x = 1 or x = 2` a list of values.
            if are_all_or {
                let is_union = (items.iter().any(is_inequality) || are_of_others(&items))
                    && items.iter().all(|item| matches!(item, Answer::Chain(..)));
                return Some(if is_union { Answer::Union(items) } else { Answer::Set(items) });
            }
            Some(alternatives(&items, &starts).unwrap_or(Answer::List(items)))
        })
    }

    /// `a = b`, `a < b <= c`, `x in S`, `a : b`, `a = b (mod m)`.
    pub(super) fn chain(&mut self) -> Option<Answer> {
        let answer = self.with_signs()?;
        if let Some(congruence) = self.congruence(&answer) {
            return Some(congruence);
        }
        self.case(answer)
    }

    pub(super) fn relation(&mut self) -> Option<Answer> {
        let mut sides = vec![self.ratio()?];
        let mut relations = Vec::new();
        while let Some(Token::Symbol(sign)) = self.peek() {
            if *sign == '∈' && relations.is_empty() {
                self.at += 1;
                let set = self.union()?;
                return Some(Answer::Member(Box::new(sides.remove(0)), Box::new(set)));
            }
            let Some(relation) = Relation::from_sign(*sign) else { break };
            self.at += 1;
            relations.push(relation);
            sides.push(self.ratio()?);
        }
        Some(if relations.is_empty() { sides.remove(0) } else { Answer::Chain(sides, relations) })
    }

    fn ratio(&mut self) -> Option<Answer> {
        let mut parts = vec![self.union()?];
        while self.accept(':') {
            parts.push(self.union()?);
        }
        Some(if parts.len() == 1 { parts.remove(0) } else { Answer::Ratio(parts) })
    }

    pub(super) fn union(&mut self) -> Option<Answer> {
        let mut parts = vec![self.item()?];
        while self.accept('∪') {
            parts.push(self.item()?);
        }
        // `\{1, 3\} \cup \{2, 4\}` is one set.
        if parts.len() > 1 && parts.iter().all(|part| matches!(part, Answer::Set(_))) {
            let members = parts.into_iter().flat_map(|part| match part {
                Answer::Set(items) => items,
                _ => vec![],
            });
            parts = vec![Answer::Set(members.collect())];
        }
        let union = if parts.len() == 1 { parts.remove(0) } else { Answer::Union(parts) };
        // `\mathbb{R}-\{2\}`
        let is_set = match self.tokens.get(self.at + 1) {
            Some(Token::Symbol('⦃')) => true,
            Some(Token::Symbol('[' | '(')) => union == Answer::line(),
            _ => false,
        };
        let is_minus = self.peek_is('-') && is_set;
        self.at += usize::from(is_minus);
        if is_minus || self.accept('∖') {
            return Some(Answer::Without(Box::new(union), Box::new(self.item()?)));
        }
        Some(union)
    }

    /// A structure or a value, with its mark.
    fn item(&mut self) -> Option<Answer> {
        if self.has_matrix
            && let Some(matrix) = self.attempt(|parser| parser.nested(Self::matrices))
        {
            return Some(match matrix {
                // Equations under each other all hold.
                Answer::Matrix(rows) if are_equations(&rows) => {
                    Answer::List(rows.into_iter().flatten().collect())
                }
                matrix => matrix,
            });
        }
        if let Token::Currency(unit) = *self.peek()? {
            self.at += 1;
            let value = Answer::Value(self.sum()?);
            return self.money(value, unit);
        }
        if let Some(structure) = self.attempt(Self::structure) {
            return self.transposed(structure);
        }
        if let Some(based) = self.attempt(Self::based) {
            return Some(based);
        }
        if let Token::Text(_) = self.peek()? {
            return self.words();
        }
        let value = Answer::Value(self.sum()?);
        self.marked(value)
    }

    /// A set, a tuple, the pieces of a function.
    fn structure(&mut self) -> Option<Answer> {
        match self.peek()? {
            Token::Symbol('ℝ') => self.reals(),
            Token::Cases(true) => self.cases(),
            Token::Name(name) if is_point(&self.tokens, self.at) => {
                let point = Answer::Value(Expr::Variable(name.clone()));
                self.at += 1;
                // `A(4, -1)`: a point with its name.
                let tuple = self.tuple().filter(|tuple| matches!(tuple, Answer::Tuple(..)))?;
                Some(Answer::Chain(vec![point, tuple], vec![Relation::Equal]))
            }
            Token::Symbol('⦃') => self.set(),
            Token::Symbol('∅') => {
                self.at += 1;
                Some(Answer::Set(vec![]))
            }
            Token::Symbol('(' | '[' | ']' | '⟨') => self.tuple(),
            Token::Symbol('{') => self.plain_set(),
            _ => None,
        }
    }

    fn words(&mut self) -> Option<Answer> {
        let mut words = Vec::new();
        while let Some(token) = self.peek() {
            words.push(match token {
                Token::Text(word) => word.clone(),
                Token::Name(name) => name.clone(),
                Token::Number { digits, .. } => digits.clone(),
                Token::Symbol(symbol @ ('-' | '\'' | '(' | ')' | '.' | '?' | '!' | ':' | '±')) => {
                    symbol.to_string()
                }
                _ => break,
            });
            self.at += 1;
        }
        Some(Answer::Words(words.join(" ")))
    }

    /// A matrix between its marks. Matrices inside of matrices are not read.
    pub(super) fn matrix(&mut self) -> Option<Vec<Vec<Answer>>> {
        (self.peek() == Some(&Token::Matrix(true))).then_some(())?;
        let outer = std::mem::replace(&mut self.has_matrix, false);
        let rows = self.rows(&Token::Matrix(false), |token| *token == Token::Symbol('&'));
        self.has_matrix = outer;
        rows
    }

    /// The cells of rows from an opening mark to its end, without what stands between them.
    pub(super) fn rows(
        &mut self,
        end: &Token,
        is_between: impl Fn(&Token) -> bool,
    ) -> Option<Vec<Vec<Answer>>> {
        self.at += 1;
        let mut rows = vec![vec![]];
        loop {
            let token = self.peek()?;
            if is_between(token) {
                self.at += 1;
            } else if *token == Token::Symbol('⏎') {
                self.at += 1;
                rows.push(vec![]);
            } else if token == end {
                self.at += 1;
                rows.retain(|row: &Vec<Answer>| !row.is_empty());
                return Some(rows);
            } else {
                let cell = self.nested(|parser| parser.parity().or_else(|| parser.chain()))?;
                rows.last_mut()?.push(cell);
            }
        }
    }
}

/// Whether each of several rows is one equation: all of them hold.
pub(super) fn are_equations(rows: &[Vec<Answer>]) -> bool {
    rows.len() > 1 && rows.iter().all(|row| matches!(row.as_slice(), [Answer::Chain(..)]))
}

/// Lists of assignments with "or" between them, as a set: `x=2, y=3 or x=3, y=2`.
fn alternatives(items: &[Answer], starts: &[usize]) -> Option<Answer> {
    let are_assignments = items.iter().all(|item| matches!(item, Answer::Chain(..)));
    (are_assignments && starts.len() > 1).then_some(())?;
    let ends = starts[1..].iter().copied().chain([items.len()]);
    let lists = starts.iter().zip(ends).map(|(from, to)| Answer::List(items[*from..to].to_vec()));
    Some(Answer::Set(lists.collect()))
}

/// Whether the name at `at` stands before the coordinates of a point; `C(5, 2)` is a count but among points.
fn is_point(tokens: &[Token], at: usize) -> bool {
    let letter = |at: usize| match tokens.get(at..at + 2)? {
        [Token::Name(name), Token::Symbol('(')] if name.len() == 1 => name.chars().next(),
        _ => None,
    };
    let is_other = |at| letter(at).is_some_and(|c| c.is_ascii_uppercase() && c != 'C' && c != 'P');
    match letter(at) {
        Some('C' | 'P') => (0..tokens.len()).any(is_other),
        _ => is_other(at),
    }
}

fn is_inequality(answer: &Answer) -> bool {
    matches!(answer, Answer::Chain(_, relations) if relations.iter().all(|r| *r != Relation::Equal))
}

/// The pieces of a list all of whose members are pieces: `x + 1 for x < 0, x - 1 otherwise`.
pub(super) fn cases_of(items: &[Answer]) -> Option<Answer> {
    let pieces = items.iter().map(|item| match item {
        Answer::Cases(pieces) if pieces.len() == 1 => pieces.first().cloned(),
        _ => None,
    });
    Some(Answer::Cases(pieces.collect::<Option<_>>()?))
}
