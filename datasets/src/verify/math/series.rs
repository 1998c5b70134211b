//! `\sum` and `\prod` with bounds, read.

use super::lex::Token;
use super::parse::Parser;
use super::tree::Expr;

impl Parser {
    /// `_{i=1}^{n} term`, after the sign. The name it runs over is replaced by its depth, so that two
    /// sums that differ in it alone are the same.
    pub(super) fn series(&mut self, name: &str) -> Option<Expr> {
        self.expect('_')?;
        self.expect('{')?;
        let Some(Token::Name(index)) = self.peek().cloned() else { return None };
        self.at += 1;
        self.expect('=')?;
        let from = self.sum()?;
        self.expect('}')?;
        self.expect('^')?;
        let to = self.argument()?;
        let canonical = format!("#{}", self.bound.len());
        self.bound.push(index);
        let body = self.nested(Self::product);
        self.bound.pop();
        Some(Expr::Call(name.to_owned(), vec![Expr::Variable(canonical), from, to, body?]))
    }

    /// The variable of an enclosing sum, by its depth.
    pub(super) fn bound_variable(&self, name: &str) -> Option<Expr> {
        let depth = self.bound.iter().rposition(|bound| bound == name)?;
        Some(Expr::Variable(format!("#{depth}")))
    }
}
