//! Expressions: sums, products, powers, functions, as plain text and LaTeX write them.

use super::scan::{are_digits, each, is_one_of};
use dashu_int::IBig;
use dashu_ratio::RBig;

use super::alphabet::{is_function, is_sign};
use super::lex::Token;
use super::parse::Parser;
use super::tree::{BESIDE, Constant, Expr, cross, fraction, is_proper, radians, times};

impl Parser {
    pub(super) fn sum(&mut self) -> Option<Expr> {
        self.nested(|parser| {
            let mut terms = vec![];
            let mut sign = Some(if parser.accept('±') { '±' } else { '+' });
            while let Some(mark) = sign {
                let term = parser.product()?;
                terms.push(match mark {
                    '-' => Expr::negative(term),
                    '±' => Expr::PlusMinus(Box::new(term)),
                    _ => term,
                });
                sign = "+-±".chars().find(|sign| parser.accept(*sign));
            }
            let above = if terms.len() == 1 { terms.remove(0) } else { Expr::Sum(terms) };
            // TeX's infix forms take all that stands in their group.
            if parser.accept('⌿') {
                return Some(Expr::quotient(above, parser.sum()?));
            }
            if parser.accept('⑂') {
                return Some(Expr::call("binom", vec![above, parser.sum()?]));
            }
            Some(above)
        })
    }

    pub(super) fn product(&mut self) -> Option<Expr> {
        if self.accept('-') {
            return self.nested(|parser| Some(Expr::negative(parser.product()?)));
        }
        if self.accept('+') {
            return self.nested(Self::product);
        }
        let mut value = self.power()?;
        loop {
            if self.accept('*') {
                let next = self.signed_power()?;
                value = times(value, next);
            } else if self.accept('/') {
                let next = self.signed_power()?;
                value = Expr::quotient(value, next);
            } else if self.accept('⨯') {
                value = cross(value, &self.signed_power()?);
            } else if let Some(counted) = self.infix_count(&value) {
                value = counted;
            } else if self.starts_factor() {
                let is_whole = matches!(&value, Expr::Number(_, None));
                let are_numerals = matches!(
                    self.tokens.get(self.at.saturating_sub(1)..=self.at),
                    Some([Token::Number { .. }, Token::Number { .. }])
                );
                let next = self.power()?;
                // `2\frac{1}{2}` and `3 1/2` are mixed numbers.
                value = match (&value, &next) {
                    (Expr::Number(whole, None), Expr::Quotient(a, b))
                        if is_whole && is_proper(a, b) && whole.is_int() =>
                    {
                        Expr::Sum(vec![value, next])
                    }
                    (Expr::Number(whole, None), Expr::Number(above, None))
                        if is_whole && whole.is_int() && above.is_int() && self.peek_is('/') =>
                    {
                        self.at += 1;
                        let below = self.power()?;
                        Expr::Sum(vec![value, Expr::quotient(next, below)])
                    }
                    // `5\;7` leaves out what joins them: it is read, and has no value.
                    (Expr::Number(..), Expr::Number(..)) if are_numerals => {
                        Expr::call(BESIDE, vec![value, next])
                    }
                    _ => times(value, next),
                };
            } else {
                return Some(value);
            }
        }
    }

    fn signed_power(&mut self) -> Option<Expr> {
        if self.accept('-') {
            return self.nested(|parser| Some(Expr::negative(parser.signed_power()?)));
        }
        self.power()
    }

    pub(super) fn starts_factor(&self) -> bool {
        match self.peek() {
            Some(Token::Name(name)) => name != "mod" && !is_sign(name),
            Some(Token::Number { .. }) => true,
            // Words in brackets are a remark or a modulus.
            Some(Token::Symbol('(')) => match self.tokens.get(self.at + 1) {
                Some(Token::Text(_)) => false,
                Some(Token::Name(name)) => name != "mod",
                _ => true,
            },
            Some(Token::Symbol('{' | '⌊' | '⌈')) => true,
            Some(Token::Symbol('|')) => !self.in_bars,
            Some(Token::Symbol('∞')) => true,
            _ => false,
        }
    }

    pub(super) fn power(&mut self) -> Option<Expr> {
        let base = self.postfix()?;
        if !self.accept('^') {
            return Some(base);
        }
        let exponent = self.nested(|parser| {
            if parser.accept('-') {
                return Some(Expr::negative(parser.power()?));
            }
            parser.power()
        })?;
        Some(Expr::power(base, exponent))
    }

    fn postfix(&mut self) -> Option<Expr> {
        let mut value = self.atom()?;
        loop {
            if self.accept('!') {
                // `5!!` is 5 times 3 times 1.
                value = match self.accept('!') {
                    true => Expr::call("semifactorial", vec![value]),
                    false => Expr::Factorial(Box::new(value)),
                };
                (!self.peek_is('!')).then_some(())?;
            } else if self.in_function && self.accept('°') {
                value = radians(value);
            } else {
                return Some(value);
            }
        }
    }

    fn atom(&mut self) -> Option<Expr> {
        match self.peek()?.clone() {
            Token::Number { value, decimals, digits } => {
                self.at += 1;
                self.thousands_or_repeating(value, decimals, &digits)
            }
            Token::Name(name) => {
                self.at += 1;
                self.named(&name)
            }
            Token::Symbol('(') => self.bracketed(')'),
            Token::Symbol('[') => self.bracketed(']'),
            // `{}_5C_3`
            Token::Symbol('{') if self.tokens.get(self.at + 1) == Some(&Token::Symbol('}')) => {
                self.at += 2;
                self.prefixed_count()
            }
            Token::Symbol('{') => self.bracketed('}'),
            Token::Symbol(open @ ('⌊' | '⌈')) => {
                let (close, name) = if open == '⌊' { ('⌋', "floor") } else { ('⌉', "ceil") };
                Some(Expr::call(name, vec![self.bracketed(close)?]))
            }
            Token::Symbol('|') => {
                self.at += 1;
                let outer = std::mem::replace(&mut self.in_bars, true);
                let inner = self.sum();
                self.in_bars = outer;
                let inner = inner?;
                self.expect('|')?;
                Some(Expr::call("abs", vec![inner]))
            }
            Token::Symbol('‖') => {
                self.at += 1;
                let inner = self.sum()?;
                self.expect('‖')?;
                let has_name = inner.holds(&|part| matches!(part, Expr::Variable(_)));
                let name = if has_name { "norm" } else { "abs" };
                Some(Expr::Call(name.into(), vec![inner]))
            }
            Token::Symbol('^' | '_') => self.prefixed_count(),
            Token::Symbol('∞') => {
                self.at += 1;
                Some(Expr::Infinity)
            }
            // `-\$5`: the value counts, where the sign of a currency stands inside of it.
            Token::Currency(_) => {
                self.at += 1;
                self.nested(Self::atom)
            }
            _ => None,
        }
    }

    pub(super) fn bracketed(&mut self, close: char) -> Option<Expr> {
        self.at += 1;
        let outer = std::mem::replace(&mut self.in_bars, false);
        let inner = self.sum();
        self.in_bars = outer;
        let inner = inner?;
        self.expect(close)?;
        Some(inner)
    }

    fn named(&mut self, name: &str) -> Option<Expr> {
        if let Some(variable) = self.bound_variable(name) {
            return Some(variable);
        }
        match name {
            "pi" => return Some(Expr::Constant(Constant::Pi)),
            "e" => return Some(Expr::Constant(Constant::E)),
            "i" => return Some(Expr::Constant(Constant::I)),
            "frac" => {
                let (above, below) = (self.argument()?, self.argument()?);
                return Some(fraction(above, below));
            }
            "binom" => {
                let (above, below) = (self.argument()?, self.argument()?);
                return Some(Expr::call("binom", vec![above, below]));
            }
            "sqrt" => {
                let degree = if self.accept('[') {
                    let degree = self.sum()?;
                    self.expect(']')?;
                    degree
                } else {
                    Expr::integer(2)
                };
                // `\sqrt13` is meant as the root of 13, whatever TeX makes of it.
                let is_number = matches!(self.peek(), Some(Token::Number { .. }));
                let inner = if is_number { self.nested(Self::atom)? } else { self.argument()? };
                return Some(Expr::call("root", vec![degree, inner]));
            }
            "sum" | "prod" => return self.series(name),
            "Gamma" | "zeta" if self.peek_is('(') => {
                if let Some(value) = self.attempt(|parser| parser.special(name)) {
                    return Some(value);
                }
            }
            // Of a complex number, its conjugate; of a letter, a name; of points, a segment, which stays text.
            "overline" | "bar" | "hat" | "widehat" | "tilde" | "widetilde" => {
                let mark = if name == "overline" { "bar" } else { name.trim_start_matches("wide") };
                let is_i = |part: &Expr| *part == Expr::Constant(Constant::I);
                return match self.argument()? {
                    Expr::Variable(letter) => Some(Expr::Variable(format!("{mark} {letter}"))),
                    number @ Expr::Number(_, None) if mark == "bar" => Some(number),
                    inner if mark == "bar" && inner.holds(&is_i) => {
                        Some(Expr::call("conj", vec![inner]))
                    }
                    _ => None,
                };
            }
            name if is_sign(name) => return None,
            "C" | "P" if self.peek_is('(') => {
                if let Some(counted) = self.attempt(|parser| parser.counted(name)) {
                    return Some(counted);
                }
            }
            "C" | "P" | "A" if matches!(self.peek(), Some(Token::Symbol('^' | '_'))) => {
                if let Some(counted) = self.attempt(|parser| parser.scripted_count(name)) {
                    return Some(counted);
                }
            }
            _ => {}
        }
        if is_function(name) || matches!(name, "tg" | "ctg") {
            return self.function(name);
        }
        let mut variable = name.to_owned();
        if self.accept('_') {
            // A subscript is part of the name.
            let is_braced = self.peek_is('{');
            let start = self.at;
            self.subscript()?;
            let inside = start + usize::from(is_braced)..self.at - usize::from(is_braced);
            variable.push_str(&format!("_{:?}", &self.tokens[inside]));
        }
        while self.accept('\'') {
            variable.push('\'');
        }
        // A factor in brackets after a single letter is a product; `f(x)` is a name in relations.
        Some(Expr::Variable(variable))
    }

    /// Whatever stands below a name, as it is.
    fn subscript(&mut self) -> Option<()> {
        if !self.accept('{') {
            self.at += 1;
            return (self.at <= self.tokens.len()).then_some(());
        }
        let mut depth = 1;
        while depth > 0 {
            match self.peek()? {
                Token::Symbol('{') => depth += 1,
                Token::Symbol('}') => depth -= 1,
                _ => {}
            }
            self.at += 1;
        }
        Some(())
    }

    fn function(&mut self, name: &str) -> Option<Expr> {
        let outer = std::mem::replace(&mut self.in_function, true);
        let call = self.nested(|parser| parser.call(name));
        self.in_function = outer;
        call
    }

    /// A function, after its name.
    fn call(&mut self, name: &str) -> Option<Expr> {
        let mut arguments = vec![];
        if name == "log" && self.accept('_') {
            arguments.push(self.argument()?);
        }
        let power = if self.accept('^') { Some(self.argument()?) } else { None };
        // `\min\{2, 5\}`
        let close = if self.peek_is('⦃') { '⦄' } else { ')' };
        let inner = if self.peek_is('(') || self.peek_is('⦃') {
            self.at += 1;
            let mut inner = vec![self.sum()?];
            while self.accept_comma() {
                inner.push(self.sum()?);
            }
            self.expect(close)?;
            inner
        } else {
            vec![self.function_argument()?]
        };
        arguments.extend(inner);
        const SAME: &str = "asin=arcsin|acos=arccos|atan=arctan|acot=arccot|arcctg=arccot|asinh=arcsinh|arsinh=arcsinh|\
            acosh=arccosh|arcosh=arccosh|atanh=arctanh|artanh=arctanh|lg=log|tg=tan|ctg=cot|cotg=cot|ctan=cot|arctg=arctan";
        let mut names = each(SAME).filter_map(|same| same.split_once('='));
        let name = names.find(|(other, _)| *other == name).map_or(name, |(_, name)| name);
        let call = Expr::call(name, arguments);
        Some(match power {
            None => call,
            // `sin^{-1}` is the inverse.
            Some(Expr::Negative(one))
                if *one == Expr::integer(1)
                    && is_one_of(name, "sin|cos|tan|cot|sec|csc|sinh|cosh|tanh") =>
            {
                let Expr::Call(_, arguments) = call else { return None };
                Expr::Call(format!("arc{name}"), arguments)
            }
            Some(power) => Expr::power(call, power),
        })
    }

    /// The argument of a function without brackets: a product without signs, `sin 2x`.
    fn function_argument(&mut self) -> Option<Expr> {
        let mut value = self.power()?;
        while matches!(self.peek(), Some(Token::Name(name)) if !is_function(name) && !is_sign(name))
            || matches!(self.peek(), Some(Token::Number { .. }))
        {
            let next = self.power()?;
            value = times(value, next);
        }
        Some(value)
    }

    /// A braced argument, or a single token; of several digits only the first.
    pub(super) fn argument(&mut self) -> Option<Expr> {
        if self.peek_is('{') {
            return self.nested(|parser| parser.bracketed('}'));
        }
        if let Some(Token::Number { digits, .. }) = self.peek()
            && digits.len() > 1
            && are_digits(digits)
        {
            let (first, rest) = digits.split_at(1);
            let (first, rest) = (first.to_owned(), rest.to_owned());
            let number = |digits: String| {
                let value = RBig::from(IBig::from_str_radix(&digits, 10).ok()?);
                Some(Token::Number { value, decimals: None, digits })
            };
            // Two tokens for one: a parser that comes back here reads the same.
            self.tokens[self.at] = number(rest)?;
            self.tokens.insert(self.at, number(first)?);
        }
        self.nested(Self::atom)
    }
}
