//! The gamma function of halves and of counts, and the zeta function of even numbers.

use super::exact::rational;
use super::fuel::Fuel;
use super::parse::Parser;
use super::scan::is_one_of;
use super::tree::{Constant, Expr, times};
use super::values::variables;

impl Parser {
    /// The value of a function behind its name, where it is known: `\Gamma(n)` is a factorial, of halves a multiple of
    /// the root of pi, `\zeta(2)` a multiple of a power of pi.
    pub(super) fn special(&mut self, name: &str) -> Option<Expr> {
        const MAX_HALF: i64 = 40;
        let argument = self.nested(|parser| parser.bracketed(')'))?;
        if name == "zeta" {
            let known = [(2, 6), (4, 90), (6, 945)];
            let (_, below) =
                known.into_iter().find(|(even, _)| argument.as_integer() == Some(*even))?;
            let power = Expr::power(Expr::Constant(Constant::Pi), argument);
            return Some(Expr::quotient(power, Expr::integer(below)));
        }
        let factorial = Expr::Factorial(Box::new(Expr::difference(&argument, &Expr::integer(1))));
        let letters = variables(&argument);
        if !letters.is_empty() {
            return letters.iter().all(|name| is_one_of(name, "k|m|n")).then_some(factorial);
        }
        let two = Expr::integer(2);
        let double = rational(&times(two.clone(), argument), &mut Fuel::new(100))?;
        let half = i64::try_from(double.numerator().clone()).ok();
        let half = half.filter(|n| double.is_int() && (1..MAX_HALF).contains(n))?;
        if half % 2 == 0 {
            return Some(factorial);
        }
        let root = Expr::call("root", vec![two, Expr::Constant(Constant::Pi)]);
        let factor = |odd: i64| Expr::quotient(Expr::integer(odd), Expr::integer(2));
        Some((1..half).step_by(2).map(factor).fold(root, times))
    }
}
