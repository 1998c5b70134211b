//! Queries as text: where one stands in a completion, whether it orders its rows, its normal form.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, Ident, OrderByExpr, OrderBySort, Query, Select, SelectItem, SetExpr,
    Statement, TableFactor, Value, VisitMut, VisitorMut,
};
use sqlparser::dialect::SQLiteDialect;
use sqlparser::parser::Parser;
use tealight_core::display::one_spaced;

use super::super::tail;

/// Longest part of a completion that is searched.
const MAX_SEARCHED: usize = 64 << 10;

/// The query that a completion gives, outside thoughts: the last fenced block, the last
/// `<answer>`, else from the first line or sentence that starts with SELECT or WITH to its semicolon.
pub fn extract(completion: &str) -> Option<&str> {
    let text = tail(completion, MAX_SEARCHED);
    let text = crate::thinking::answer(text);
    if let Some(block) = fenced(text) {
        return whole(block);
    }
    if let Some((_, rest)) = text.rsplit_once("<answer>") {
        return whole(rest.split("</answer>").next().unwrap_or(rest));
    }
    let trimmed = text.trim();
    if starts_statement(trimmed) {
        return whole(trimmed);
    }
    // Bytes outside ASCII do not change their places here.
    let lower = text.to_ascii_lowercase();
    let at = ["select ", "with ", "select\n"]
        .iter()
        .filter_map(|word| {
            lower
                .match_indices(word)
                .map(|(at, _)| at)
                .find(|at| *at == 0 || text[..*at].ends_with(['\n', ':', '`', '(', ' ']))
        })
        .min()?;
    // A word of a sentence is no query: "we select the rows with ...".
    let rest = &text[at..];
    let end = rest.find([';', '`']).unwrap_or(rest.len());
    let query = &rest[..end];
    let is_query = Parser::parse_sql(&SQLiteDialect {}, query).is_ok()
        || rest.starts_with(|c: char| c.is_ascii_uppercase());
    if is_query { whole(query) } else { None }
}

fn whole(text: &str) -> Option<&str> {
    let text = text.trim().trim_end_matches(';').trim_end();
    (!text.is_empty()).then_some(text)
}

/// Any statement, so that a forbidden one is judged and not overlooked.
fn starts_statement(text: &str) -> bool {
    let word: String = text.chars().take_while(char::is_ascii_alphabetic).collect();
    const STATEMENTS: &str = "select with values insert update delete drop create alter attach detach pragma vacuum begin \
        explain replace reindex";
    STATEMENTS.split(' ').any(|known| word.eq_ignore_ascii_case(known))
}

/// The inside of the last fenced block.
fn fenced(text: &str) -> Option<&str> {
    let parts: Vec<&str> = text.split("```").collect();
    // Fences alternate: outside, inside, outside. An unclosed last one counts as inside.
    let inside =
        if parts.len().is_multiple_of(2) { parts.len() - 1 } else { parts.len().checked_sub(2)? };
    let block = parts.get(inside).filter(|_| parts.len() > 1)?;
    let first = block.split_once('\n').map_or("", |(first, _)| first).trim();
    let is_language = first.len() <= 10 && first.chars().all(|c| c.is_ascii_alphanumeric());
    Some(if is_language { &block[block.find('\n').map_or(0, |at| at + 1)..] } else { block })
}

/// The tree of a lone query.
pub(super) fn parsed(query: &str) -> Option<Box<Query>> {
    let mut statements = Parser::parse_sql(&SQLiteDialect {}, query).ok()?;
    match (statements.pop()?, statements.is_empty()) {
        (Statement::Query(query), true) => Some(query),
        _ => None,
    }
}

/// Whether a query orders the rows of its result.
pub fn orders(query: &str) -> bool {
    match parsed(query) {
        Some(query) => query.order_by.is_some(),
        None => query.to_ascii_lowercase().contains("order by"),
    }
}

/// The normal form of a query: keywords and names in one case, no aliases of columns, none of a lone
/// table, no needless parentheses, `a > b` as `b < a`, members of AND, OR, `=`, `+` and `*` in order. Two
/// queries that differ in nothing else share it. What the parser does not read keeps its words.
pub fn canonical(query: &str) -> String {
    let Some(mut query) = parsed(query) else {
        return one_spaced(query).to_lowercase();
    };
    let ControlFlow::Continue(()) = query.visit(&mut Normal);
    query.to_string()
}

/// Brings a tree into its normal form, from the leaves up.
struct Normal;

impl VisitorMut for Normal {
    type Break = std::convert::Infallible;

    fn post_visit_ident(&mut self, name: &mut Ident) -> ControlFlow<Self::Break> {
        *name = Ident::new(name.value.to_lowercase());
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        for item in &mut select.projection {
            if let SelectItem::ExprWithAlias { expr, .. } = item {
                *item = SelectItem::UnnamedExpr(expr.clone());
            }
        }
        // `FROM pets AS p` alone: `p.age` is `age`.
        if let [from] = select.from.as_mut_slice()
            && from.joins.is_empty()
            && let TableFactor::Table { name, alias, .. } = &mut from.relation
        {
            let names = [alias.take().map(|alias| alias.name.value), Some(name.to_string())];
            let names = names.into_iter().flatten().map(|name| name.to_lowercase()).collect();
            let _: ControlFlow<()> = select.visit(&mut Unqualify { names });
        }
        ControlFlow::Continue(())
    }

    fn post_visit_order_by_expr(&mut self, order: &mut OrderByExpr) -> ControlFlow<Self::Break> {
        if matches!(order.options.sort, Some(OrderBySort::Asc)) {
            order.options.sort = None;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        // `(SELECT 1)` is `SELECT 1`.
        if let SetExpr::Query(inner) = &*query.body
            && query.order_by.is_none()
            && query.limit_clause.is_none()
            && query.with.is_none()
        {
            *query = (**inner).clone();
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if let Expr::Nested(inner) = expr {
            *expr = (**inner).clone();
        }
        let Expr::BinaryOp { left, op, right } = expr else { return ControlFlow::Continue(()) };
        match op {
            BinaryOperator::Gt | BinaryOperator::GtEq => {
                std::mem::swap(left, right);
                *op = if *op == BinaryOperator::Gt {
                    BinaryOperator::Lt
                } else {
                    BinaryOperator::LtEq
                };
            }
            _ => {}
        }
        let is_chain = matches!(
            op,
            BinaryOperator::And
                | BinaryOperator::Or
                | BinaryOperator::Plus
                | BinaryOperator::Multiply
        );
        let is_symmetric = is_chain || matches!(op, BinaryOperator::Eq | BinaryOperator::NotEq);
        let op = op.clone();
        let mut members = Vec::new();
        for side in [left, right] {
            match &**side {
                Expr::BinaryOp { op: inner, .. } if is_chain && *inner == op => {
                    chain(side, &op, &mut members);
                }
                _ => members.push(grouped(side)),
            }
        }
        if is_symmetric {
            members.sort_by_cached_key(ToString::to_string);
        }
        let mut members = members.into_iter();
        if let Some(first) = members.next() {
            *expr = members.fold(first, |left, right| Expr::BinaryOp {
                left: Box::new(left),
                op: op.clone(),
                right: Box::new(right),
            });
        }
        ControlFlow::Continue(())
    }
}

/// The members of a chain of one operator.
fn chain(expr: &Expr, op: &BinaryOperator, members: &mut Vec<Expr>) {
    match expr {
        Expr::BinaryOp { left, op: inner, right } if inner == op => {
            chain(left, op, members);
            chain(right, op, members);
        }
        other => members.push(other.clone()),
    }
}

/// In parentheses where it is an operation itself, so that trees that differ print differently.
fn grouped(expr: &Expr) -> Expr {
    match expr {
        Expr::BinaryOp { .. } | Expr::Between { .. } | Expr::UnaryOp { .. } => {
            Expr::Nested(Box::new(expr.clone()))
        }
        other => other.clone(),
    }
}

/// Takes the name of the only table off its columns.
struct Unqualify {
    names: Vec<String>,
}

impl VisitorMut for Unqualify {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [table, column] = parts.as_slice()
            && self.names.contains(&table.value.to_lowercase())
        {
            *expr = Expr::Identifier(column.clone());
        }
        if let Expr::Value(value) = expr
            && let Value::DoubleQuotedString(text) = &value.value
        {
            value.value = Value::SingleQuotedString(text.clone());
        }
        ControlFlow::Continue(())
    }
}
