//! Expressions: sums, products, powers, functions, as plain text and LaTeX write them.

use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

use super::alphabet::is_function;
use super::lex::Token;
use super::parse::Parser;
use super::tree::{Constant, Expr, is_proper, times};

impl Parser {
    pub(super) fn sum(&mut self) -> Option<Expr> {
        self.nested(|parser| {
            let mut terms = vec![];
            if parser.accept('±') {
                terms.push(Expr::PlusMinus(Box::new(parser.product()?)));
            } else {
                terms.push(parser.product()?);
            }
            loop {
                if parser.accept('+') {
                    terms.push(parser.product()?);
                } else if parser.accept('-') {
                    terms.push(Expr::Negative(Box::new(parser.product()?)));
                } else if parser.accept('±') {
                    terms.push(Expr::PlusMinus(Box::new(parser.product()?)));
                } else {
                    break;
                }
            }
            Some(if terms.len() == 1 { terms.remove(0) } else { Expr::Sum(terms) })
        })
    }

    fn product(&mut self) -> Option<Expr> {
        if self.accept('-') {
            return self.nested(|parser| Some(Expr::Negative(Box::new(parser.product()?))));
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
                value = Expr::Quotient(Box::new(value), Box::new(next));
            } else if self.starts_factor() {
                let is_whole = matches!(&value, Expr::Number(_, None));
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
                        Expr::Sum(vec![value, Expr::Quotient(Box::new(next), Box::new(below))])
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
            return self.nested(|parser| Some(Expr::Negative(Box::new(parser.signed_power()?))));
        }
        self.power()
    }

    fn starts_factor(&self) -> bool {
        match self.peek() {
            Some(Token::Number { .. } | Token::Name(_)) => true,
            Some(Token::Symbol('(' | '{' | '⌊' | '⌈')) => true,
            Some(Token::Symbol('|')) => !self.in_bars,
            Some(Token::Symbol('∞')) => true,
            _ => false,
        }
    }

    fn power(&mut self) -> Option<Expr> {
        let base = self.postfix()?;
        if !self.accept('^') {
            return Some(base);
        }
        // `90^\circ`: the mark is left for the item.
        if self.peek_is('°') {
            return Some(base);
        }
        if self.peek_is('{') && self.tokens.get(self.at + 1) == Some(&Token::Symbol('°')) {
            self.at += 1;
            self.tokens.remove(self.at + 1);
            return Some(base);
        }
        let exponent = self.nested(|parser| {
            if parser.accept('-') {
                return Some(Expr::Negative(Box::new(parser.power()?)));
            }
            parser.power()
        })?;
        Some(Expr::Power(Box::new(base), Box::new(exponent)))
    }

    fn postfix(&mut self) -> Option<Expr> {
        let mut value = self.atom()?;
        loop {
            if self.accept('!') {
                value = Expr::Factorial(Box::new(value));
            } else if self.peek_is('\'') {
                return None;
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
            Token::Symbol('{') => self.bracketed('}'),
            Token::Symbol('⌊') => {
                let inner = self.bracketed('⌋')?;
                Some(Expr::Call("floor".into(), vec![inner]))
            }
            Token::Symbol('⌈') => {
                let inner = self.bracketed('⌉')?;
                Some(Expr::Call("ceil".into(), vec![inner]))
            }
            Token::Symbol('|') => {
                self.at += 1;
                let outer = std::mem::replace(&mut self.in_bars, true);
                let inner = self.sum();
                self.in_bars = outer;
                let inner = inner?;
                self.expect('|')?;
                Some(Expr::Call("abs".into(), vec![inner]))
            }
            Token::Symbol('∞') => {
                self.at += 1;
                Some(Expr::Infinity)
            }
            _ => None,
        }
    }

    fn bracketed(&mut self, close: char) -> Option<Expr> {
        self.at += 1;
        let outer = std::mem::replace(&mut self.in_bars, false);
        let inner = self.sum();
        self.in_bars = outer;
        let inner = inner?;
        self.expect(close)?;
        Some(inner)
    }

    /// `1,000,000`; `0.\overline{3}`.
    fn thousands_or_repeating(
        &mut self,
        value: RBig,
        decimals: Option<u32>,
        digits: &str,
    ) -> Option<Expr> {
        let mut all = digits.to_owned();
        let starts_group = !digits.contains('.') && digits.len() <= 3 && !digits.starts_with('0');
        if starts_group {
            while let Some(group) = self.next_group() {
                self.at += group.1;
                all.push_str(&group.0);
            }
        }
        if let Some(Token::Name(name)) = self.peek()
            && name == "overline"
        {
            self.at += 1;
            let repeating = self.digit_group()?;
            let count = repeating.len();
            let cycle = IBig::from_str_radix(&repeating, 10).ok()?;
            let places = digits.split_once('.').map_or(0, |(_, part)| part.len());
            let below = (UBig::from(10_u8).pow(count) - UBig::ONE) * UBig::from(10_u8).pow(places);
            return Some(Expr::Number(value + RBig::from_parts(cycle, below), None));
        }
        if all == digits {
            return Some(Expr::Number(value, decimals));
        }
        let (whole, part) = all.split_once('.').unwrap_or((&all, ""));
        let above = IBig::from_str_radix(&format!("{whole}{part}"), 10).ok()?;
        let decimals = (!part.is_empty()).then_some(part.len() as u32);
        Some(Expr::Number(RBig::from_parts(above, UBig::from(10_u8).pow(part.len())), decimals))
    }

    /// The next group of thousands and how many tokens it takes; decimals end it.
    fn next_group(&self) -> Option<(String, usize)> {
        let (skip, is_braced) =
            match (self.peek()?, self.tokens.get(self.at + 1), self.tokens.get(self.at + 2)) {
                (Token::TightComma, _, _) => (1, false),
                // `1{,}000`
                (Token::Symbol('{'), Some(Token::Symbol(',')), Some(Token::Symbol('}'))) => {
                    (3, true)
                }
                _ => return None,
            };
        let Token::Number { digits, .. } = self.tokens.get(self.at + skip)? else { return None };
        let whole = digits.split('.').next().unwrap_or_default();
        // Of a bare list, `1,234` is one number; `(1,234)` and `1,23` are not for this to join.
        (whole.len() == 3 && (is_braced || !self.in_tuple())).then(|| (digits.clone(), skip + 1))
    }

    /// Whether an open bracket makes commas separators: `(1,234)` is ambiguous, `(1,000,000)` too.
    fn in_tuple(&self) -> bool {
        let mut depth = 0;
        for token in &self.tokens[..self.at] {
            match token {
                Token::Symbol('(' | '[' | '⦃') => depth += 1,
                Token::Symbol(')' | ']' | '⦄') => depth -= 1,
                _ => {}
            }
        }
        depth > 0
    }

    fn digit_group(&mut self) -> Option<String> {
        let is_braced = self.accept('{');
        let Some(Token::Number { digits, decimals: None, .. }) = self.peek().cloned() else {
            return None;
        };
        self.at += 1;
        if is_braced {
            self.expect('}')?;
        }
        Some(digits)
    }

    fn named(&mut self, name: &str) -> Option<Expr> {
        match name {
            "pi" => return Some(Expr::Constant(Constant::Pi)),
            "e" => return Some(Expr::Constant(Constant::E)),
            "i" => return Some(Expr::Constant(Constant::I)),
            "frac" => {
                let (above, below) = (self.argument()?, self.argument()?);
                return Some(Expr::Quotient(Box::new(above), Box::new(below)));
            }
            "binom" => {
                let (above, below) = (self.argument()?, self.argument()?);
                return Some(Expr::Call("binom".into(), vec![above, below]));
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
                return Some(Expr::Call("root".into(), vec![degree, inner]));
            }
            "overline" | "bar" | "hat" | "tilde" => return None,
            _ => {}
        }
        if is_function(name) {
            return self.function(name);
        }
        let mut variable = name.to_owned();
        if self.accept('_') {
            // A subscript is part of the name.
            let start = self.at;
            self.subscript()?;
            variable.push_str(&format!("_{:?}", &self.tokens[start..self.at]));
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
        self.nested(|parser| {
            let mut arguments = vec![];
            if name == "log" && parser.accept('_') {
                arguments.push(parser.argument()?);
            }
            let power = if parser.accept('^') { Some(parser.argument()?) } else { None };
            let inner = if parser.peek_is('(') {
                parser.at += 1;
                let mut inner = vec![parser.sum()?];
                while parser.accept(',')
                    || parser.peek() == Some(&Token::TightComma) && {
                        parser.at += 1;
                        true
                    }
                {
                    inner.push(parser.sum()?);
                }
                parser.expect(')')?;
                inner
            } else {
                vec![parser.function_argument()?]
            };
            arguments.extend(inner);
            let name = match name {
                "asin" => "arcsin",
                "acos" => "arccos",
                "atan" => "arctan",
                "lg" => "log",
                other => other,
            };
            let call = Expr::Call(name.to_owned(), arguments);
            Some(match power {
                None => call,
                // `sin^{-1}` is the inverse.
                Some(Expr::Negative(one))
                    if *one == Expr::integer(1) && matches!(name, "sin" | "cos" | "tan") =>
                {
                    let Expr::Call(_, arguments) = call else { return None };
                    Expr::Call(format!("arc{name}"), arguments)
                }
                Some(power) => Expr::Power(Box::new(call), Box::new(power)),
            })
        })
    }

    /// The argument of a function without brackets: a product without signs, `sin 2x`.
    fn function_argument(&mut self) -> Option<Expr> {
        let mut value = self.power()?;
        while matches!(self.peek(), Some(Token::Name(name)) if !is_function(name))
            || matches!(self.peek(), Some(Token::Number { .. }))
        {
            let next = self.power()?;
            value = times(value, next);
        }
        if self.peek_is('°') {
            // Degrees inside a function.
            self.at += 1;
            let half_turn = Expr::Quotient(
                Box::new(Expr::Constant(Constant::Pi)),
                Box::new(Expr::integer(180)),
            );
            value = times(value, half_turn);
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
            && digits.bytes().all(|byte| byte.is_ascii_digit())
        {
            let (first, rest) = digits.split_at(1);
            let (first, rest) = (first.to_owned(), rest.to_owned());
            let value = RBig::from(IBig::from_str_radix(&rest, 10).ok()?);
            self.tokens[self.at] = Token::Number { value, decimals: None, digits: rest };
            return Some(Expr::Number(RBig::from(IBig::from_str_radix(&first, 10).ok()?), None));
        }
        self.nested(Self::atom)
    }
}
