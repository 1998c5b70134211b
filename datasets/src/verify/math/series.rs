//! `\sum` and `\prod` with bounds: read here, and written out term by term when they are evaluated.

use super::exact::{Fuel, rational};
use super::lex::Token;
use super::parse::Parser;
use super::tree::Expr;

/// Most terms that are written out.
const MAX_TERMS: i64 = 1000;

/// Whether a call by this name holds a name, two bounds and the terms.
pub(super) fn is_series(name: &str) -> bool {
    matches!(name, "sum" | "prod")
}

/// The sum or product with its terms written out; `None` without integer bounds, or with too many
/// terms.
pub(super) fn series(name: &str, arguments: &[Expr], fuel: &mut Fuel) -> Option<Expr> {
    let [Expr::Variable(index), from, to, body] = arguments else { return None };
    let bound = |expr: &Expr, fuel: &mut Fuel| -> Option<i64> {
        let value = rational(expr, fuel)?;
        value.is_int().then(|| i64::try_from(value.numerator().clone()).ok()).flatten()
    };
    let (from, to) = (bound(from, fuel)?, bound(to, fuel)?);
    let count = to.checked_sub(from)?.checked_add(1)?.max(0);
    if count > MAX_TERMS {
        return None;
    }
    fuel.spend(u32::try_from(count as usize * body.size()).ok()?)?;
    let terms = (from..=to).map(|value| body.with(index, &Expr::integer(value))).collect();
    Some(if name == "sum" { Expr::Sum(terms) } else { Expr::Product(terms) })
}

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
