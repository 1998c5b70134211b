//! Numbers of choices and arrangements as people write them, `C(5, 2)`, `{}_5C_2`, `C_5^2`, `5C2`, and `\\sum` and
//! `\\prod` with bounds.

use super::lex::Token;
use super::parse::Parser;
use super::tree::Expr;

impl Parser {
    /// `5C3` and `5P3` between integers.
    pub(super) fn infix_count(&mut self, n: &Expr) -> Option<Expr> {
        let Expr::Number(_, None) = n else { return None };
        let Some(Token::Name(name)) = self.peek() else { return None };
        let call = if name == "A" { None } else { count_of(name) }?;
        let Some(Token::Number { value, decimals: None, .. }) = self.tokens.get(self.at + 1) else {
            return None;
        };
        let k = Expr::Number(value.clone(), None);
        self.at += 2;
        Some(Expr::Call(call.into(), vec![n.clone(), k]))
    }

    /// `C(n, k)` and `P(n, k)`: how many choices and arrangements.
    pub(super) fn counted(&mut self, name: &str) -> Option<Expr> {
        self.at += 1;
        let n = self.sum()?;
        self.accept_comma().then_some(())?;
        let k = self.sum()?;
        self.expect(')')?;
        let call = if name == "C" { "binom" } else { "perm" };
        Some(Expr::Call(call.into(), vec![n, k]))
    }

    /// `_5C_3` and `^5P_3`, at the first mark.
    pub(super) fn prefixed_count(&mut self) -> Option<Expr> {
        self.accept('_').then_some(()).or_else(|| self.expect('^'))?;
        let n = self.argument()?;
        let (Token::Name(name) | Token::Text(name)) = self.peek()?.clone() else { return None };
        let call = count_of(&name)?;
        self.at += 1;
        self.accept('_').then_some(()).or_else(|| self.expect('^'))?;
        Some(Expr::Call(call.into(), vec![n, self.argument()?]))
    }

    /// `C_5^3`, `A_5^2`, `C^3_5` of numbers, behind the letter: the larger one is chosen from.
    pub(super) fn scripted_count(&mut self, name: &str) -> Option<Expr> {
        let is_below = self.accept('_');
        (is_below || self.accept('^')).then_some(())?;
        let first = self.argument()?;
        self.expect(if is_below { '^' } else { '_' })?;
        let second = self.argument()?;
        let (Expr::Number(a, None), Expr::Number(b, None)) = (&first, &second) else {
            return None;
        };
        let arguments = if a >= b { vec![first, second] } else { vec![second, first] };
        Some(Expr::Call(count_of(name)?.into(), arguments))
    }

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
        Some(Expr::call(name, vec![Expr::Variable(canonical), from, to, body?]))
    }

    /// The variable of an enclosing sum, by its depth.
    pub(super) fn bound_variable(&self, name: &str) -> Option<Expr> {
        let depth = self.bound.iter().rposition(|bound| bound == name)?;
        Some(Expr::Variable(format!("#{depth}")))
    }
}

/// The function that a letter stands for where choices or arrangements are counted.
fn count_of(letter: &str) -> Option<&'static str> {
    match letter {
        "C" => Some("binom"),
        "P" | "A" => Some("perm"),
        _ => None,
    }
}
