//! Brackets around several values: tuples, intervals, sets without backslashes, and rows that are transposed.

use super::lex::Token;
use super::parse::Parser;
use super::tree::Answer;

impl Parser {
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

    /// `{1, 2}` without backslashes; braces around one value are a group.
    pub(super) fn plain_set(&mut self) -> Option<Answer> {
        self.expect('{')?;
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
            Some(Token::Symbol(c)) => ",;)]}⦄∪∨∖=∈.⏎&:⟩^".contains(*c),
            _ => false,
        };
        match inner {
            Answer::List(items) if ends => Some(Answer::Tuple(open, items, close)),
            structure @ (Answer::Tuple(..)
            | Answer::Set(_)
            | Answer::Chain(..)
            | Answer::Words(_)
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
