//! Functions that are letters: what `f(2x)` is, beside the product `k(x + 1)`; the operators of vector fields; the gamma
//! function.

use dashu_ratio::RBig;

use super::exact::rational;
use super::fuel::Fuel;
use super::lex::Token;
use super::parse::Parser;
use super::scan::is_one_of;
use super::tree::{Constant, Expr, OF, times};
use super::values::values;

impl Parser {
    /// The argument of a letter that is a function: f, g and h before brackets, but not `h(a + b)`, and every other
    /// letter before a variable in brackets, as `a(n)`. Other brackets are factors: `a(b + c)`, `k(x + 1)`.
    pub(super) fn applied_to(&mut self, name: &str) -> Option<Expr> {
        const VARIABLES: &str = "x|y|z|t|n";
        let is_likely = self.peek_is('(') && self.starts_factor() && name.len() == 1;
        is_likely.then_some(())?;
        if is_one_of(name, "f|g|h") {
            // `mg(l - x)`, `\rho g(h - y)`
            let before = self.at.checked_sub(2).and_then(|at| self.tokens.get(at));
            let is_weight = name != "f"
                && matches!(before, Some(Token::Name(mass)) if is_one_of(mass, "m|M|rho"));
            let argument = self.bracketed(')')?;
            let is_factor = name != "f"
                && matches!(argument, Expr::Sum(_))
                && !argument
                    .holds(&|part| matches!(part, Expr::Variable(x) if is_one_of(x, VARIABLES)));
            return (!is_weight && !is_factor).then_some(argument);
        }
        let [_, Token::Name(x), Token::Symbol(')'), ..] = &self.tokens[self.at..] else {
            return None;
        };
        let are_factors = is_one_of(name, "x|y|z") && is_one_of(x, "x|y|z");
        (is_one_of(x, VARIABLES) && x != name && !are_factors).then(|| self.bracketed(')'))?
    }

    /// A gradient, `\nabla f`, a divergence or a rotation, behind the operator.
    pub(super) fn operator(&mut self) -> Option<Expr> {
        let signs = [('*', "nabla*"), ('⨯', "nabla⨯")];
        let sign = signs.into_iter().find(|(sign, _)| self.accept(*sign));
        let operator = Expr::Variable(sign.map_or("nabla", |(_, name)| name).to_owned());
        if !self.starts_factor() {
            return Some(operator);
        }
        Some(Expr::call(OF, vec![operator, self.nested(Self::power)?]))
    }

    /// The gamma function: a factorial, of halves a multiple of the root of pi.
    pub(super) fn gamma(&mut self) -> Option<Expr> {
        const MAX_HALF: i64 = 40;
        let argument = self.nested(|parser| parser.bracketed(')'))?;
        let below = Expr::difference(&argument, &Expr::integer(1));
        let two = Expr::integer(2);
        let double = rational(&times(two.clone(), argument), &mut Fuel::new(100));
        let double =
            double.filter(RBig::is_int).and_then(|n| i64::try_from(n.numerator().clone()).ok());
        let Some(half) = double.filter(|n| n % 2 == 1 && (1..MAX_HALF).contains(n)) else {
            return Some(Expr::Factorial(Box::new(below)));
        };
        let root = Expr::call("root", vec![two, Expr::Constant(Constant::Pi)]);
        let factor = |odd: i64| Expr::quotient(Expr::integer(odd), Expr::integer(2));
        Some((1..half).step_by(2).map(factor).fold(root, times))
    }

    /// The zeta function, of 2, 4 and 6 a multiple of a power of pi.
    pub(super) fn zeta(&mut self) -> Option<Expr> {
        let argument = self.nested(|parser| parser.bracketed(')'))?;
        let known = [(2, 6), (4, 90), (6, 945)];
        let known = known.into_iter().find(|(even, _)| argument.as_integer() == Some(*even));
        Some(match known {
            Some((_, below)) => {
                let power = Expr::power(Expr::Constant(Constant::Pi), argument);
                Expr::quotient(power, Expr::integer(below))
            }
            None => Expr::call(OF, vec![Expr::Variable("zeta".into()), argument]),
        })
    }
}

/// Whether they are equal where a letter that also stands without brackets, `fm + f`, is a factor before them: `f(m + 1)`.
pub(super) fn as_factors(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> bool {
    fn is_bare(expr: &Expr, name: &str) -> bool {
        match expr {
            Expr::Variable(known) => known == name,
            Expr::Call(call, parts) if call == OF => is_bare(&parts[1], name),
            other => other.children().into_iter().any(|part| is_bare(part, name)),
        }
    }
    fn product(expr: &Expr, is_factor: &dyn Fn(&str) -> bool) -> Expr {
        match (expr, expr.application()) {
            (Expr::Call(..), Some((name, argument @ Expr::Sum(_)))) if is_factor(name) => {
                times(Expr::Variable(name.to_owned()), product(argument, is_factor))
            }
            _ => expr.with_children(|part| product(part, is_factor)),
        }
    }
    let is_applied = |part: &Expr| matches!(part, Expr::Call(name, _) if name == OF);
    let both = [gold, answer];
    let is_factor = |name: &str| both.iter().any(|expr| is_bare(expr, name));
    both.iter().any(|expr| expr.holds(&is_applied)) && {
        let [a, b] = both.map(|expr| product(expr, &is_factor));
        [&a, &b] != both && values(&a, &b, fuel)
    }
}
