//! Arithmetic of matrices: sums, multiples, products, transposes and determinants, worked out cell by
//! cell while an answer is read.

use super::lex::Token;
use super::parse::Parser;
use super::tree::{Answer, Expr, times};

/// Most rows and columns of matrices that are calculated with.
const MAX_SIDE: usize = 8;
/// Most multiplications of one answer.
const MAX_PRODUCTS: usize = 8;

/// A value on the way to a matrix.
enum Value {
    Scalar(Expr),
    Matrix(Vec<Vec<Expr>>),
}

impl Parser {
    /// A matrix, or an expression whose value is one or the determinant of one; `None` for what has
    /// nothing to do with matrices.
    pub(super) fn matrices(&mut self) -> Option<Answer> {
        if self.peek() == Some(&Token::Matrix(true)) {
            let start = self.at;
            let rows = self.matrix()?;
            if !self.goes_on() {
                return Some(Answer::Matrix(rows));
            }
            self.at = start;
        }
        let start = self.at;
        let mut products = 0;
        let value = self.matrix_sum(&mut products)?;
        let has_matrix = self.tokens[start..self.at].contains(&Token::Matrix(true));
        match value {
            Value::Scalar(expr) if has_matrix => Some(Answer::Value(expr)),
            Value::Scalar(_) => None,
            Value::Matrix(rows) => Some(Answer::Matrix(
                rows.into_iter().map(|row| row.into_iter().map(Answer::Value).collect()).collect(),
            )),
        }
    }

    /// Whether an operator or a factor follows.
    fn goes_on(&self) -> bool {
        self.starts_matrix_factor()
            || matches!(self.peek(), Some(Token::Symbol('+' | '-' | '*' | '/' | '^' | '\'')))
    }

    fn starts_matrix_factor(&self) -> bool {
        matches!(self.peek(), Some(Token::Matrix(true) | Token::Determinant))
            || self.starts_factor()
    }

    fn matrix_sum(&mut self, products: &mut usize) -> Option<Value> {
        self.nested(|parser| {
            let mut total = parser.matrix_product(products)?;
            loop {
                let is_minus = parser.peek_is('-');
                if !is_minus && !parser.peek_is('+') {
                    return Some(total);
                }
                parser.at += 1;
                let next = parser.matrix_product(products)?;
                let next = if is_minus { scaled(&Expr::integer(-1), next) } else { next };
                total = added(total, next)?;
            }
        })
    }

    fn matrix_product(&mut self, products: &mut usize) -> Option<Value> {
        let is_negative = self.accept('-');
        let mut value = self.matrix_factor(products)?;
        loop {
            if self.accept('/') {
                let Value::Scalar(below) = self.matrix_factor(products)? else { return None };
                let inverse = Expr::quotient(Expr::integer(1), below);
                value = scaled(&inverse, value);
            } else if self.accept('*') || self.starts_matrix_factor() {
                let next = self.matrix_factor(products)?;
                value = multiplied(value, next, products)?;
            } else {
                return Some(if is_negative { scaled(&Expr::integer(-1), value) } else { value });
            }
        }
    }

    fn matrix_factor(&mut self, products: &mut usize) -> Option<Value> {
        let value = match self.peek()? {
            Token::Determinant => {
                self.at += 1;
                Value::Scalar(determinant(&cells(self.matrix()?)?)?)
            }
            Token::Matrix(true) => Value::Matrix(cells(self.matrix()?)?),
            Token::Symbol('(') => {
                self.at += 1;
                let inner = self.matrix_sum(products)?;
                self.expect(')')?;
                inner
            }
            _ => return Some(Value::Scalar(self.power()?)),
        };
        match value {
            value if !self.peek_is('^') => Some(value),
            Value::Scalar(base) => {
                self.at += 1;
                Some(Value::Scalar(Expr::power(base, self.argument()?)))
            }
            Value::Matrix(rows) => {
                self.transpose()?;
                Some(Value::Matrix(transposed(&rows)))
            }
        }
    }
}

/// Cells that are values, in rows of one length.
fn cells(rows: Vec<Vec<Answer>>) -> Option<Vec<Vec<Expr>>> {
    let columns = rows.first()?.len();
    if rows.len() > MAX_SIDE || columns > MAX_SIDE || rows.iter().any(|row| row.len() != columns) {
        return None;
    }
    let value = |cell| match cell {
        Answer::Value(expr) => Some(expr),
        _ => None,
    };
    rows.into_iter().map(|row| row.into_iter().map(value).collect()).collect()
}

fn transposed(rows: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    (0..rows[0].len()).map(|column| rows.iter().map(|row| row[column].clone()).collect()).collect()
}

fn added(a: Value, b: Value) -> Option<Value> {
    match (a, b) {
        (Value::Scalar(a), Value::Scalar(b)) => Some(Value::Scalar(Expr::Sum(vec![a, b]))),
        (Value::Matrix(a), Value::Matrix(b)) => {
            (a.len() == b.len() && a[0].len() == b[0].len()).then_some(())?;
            let row = |(a, b): (Vec<Expr>, Vec<Expr>)| {
                a.into_iter().zip(b).map(|(a, b)| Expr::Sum(vec![a, b])).collect()
            };
            Some(Value::Matrix(a.into_iter().zip(b).map(row).collect()))
        }
        _ => None,
    }
}

fn scaled(factor: &Expr, value: Value) -> Value {
    match value {
        Value::Scalar(value) => Value::Scalar(times(factor.clone(), value)),
        Value::Matrix(rows) => {
            let row =
                |row: Vec<Expr>| row.into_iter().map(|cell| times(factor.clone(), cell)).collect();
            Value::Matrix(rows.into_iter().map(row).collect())
        }
    }
}

fn multiplied(a: Value, b: Value, products: &mut usize) -> Option<Value> {
    match (a, b) {
        (Value::Scalar(a), b) => Some(scaled(&a, b)),
        (a, Value::Scalar(b)) => Some(scaled(&b, a)),
        (Value::Matrix(a), Value::Matrix(b)) => {
            *products += 1;
            // Cells grow with every product, so their size is bounded too.
            let is_small = a.iter().flatten().map(Expr::size).max()? <= 512;
            (*products <= MAX_PRODUCTS && a[0].len() == b.len() && is_small).then_some(())?;
            let columns = transposed(&b);
            let cell = |row: &[Expr], column: &[Expr]| {
                let terms = row.iter().zip(column).map(|(a, b)| times(a.clone(), b.clone()));
                Expr::Sum(terms.collect())
            };
            let row = |row: &Vec<Expr>| columns.iter().map(|column| cell(row, column)).collect();
            Some(Value::Matrix(a.iter().map(row).collect()))
        }
    }
}

/// By the first row; up to four rows, since the terms grow factorially.
fn determinant(rows: &[Vec<Expr>]) -> Option<Expr> {
    (rows.len() == rows[0].len() && rows.len() <= 4).then_some(())?;
    if let [row] = rows {
        return Some(row[0].clone());
    }
    let term = |column: usize| -> Option<Expr> {
        let rest: Vec<Vec<Expr>> =
            rows[1..].iter().map(|row| [&row[..column], &row[column + 1..]].concat()).collect();
        let term = times(rows[0][column].clone(), determinant(&rest)?);
        Some(if column % 2 == 1 { Expr::negative(term) } else { term })
    };
    Some(Expr::Sum((0..rows.len()).map(term).collect::<Option<_>>()?))
}
