//! The parts of a query: its clauses, joins, subqueries, aggregates and set operations.
//!
//! Each is listed once, however often it stands in the query. To add a feature, add a line to a method of
//! [`FeatureVisitor`].

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, FunctionArguments, GroupByExpr, JoinOperator, Query, Select, SetExpr, SetOperator,
    SetQuantifier, TableFactor, Visit, Visitor,
};

use super::query::parsed;
use crate::Features;

/// SQLite's aggregate functions.
const AGGREGATES: [&str; 8] =
    ["avg", "count", "group_concat", "max", "min", "string_agg", "sum", "total"];

/// The features of a query; none of one that the parser does not read.
pub(super) fn features(query: &str) -> Features {
    let Some(query) = parsed(query) else { return Features::default() };
    let mut features = FeatureVisitor::default();
    let ControlFlow::Continue(()) = query.visit(&mut features);
    Features::bounded(features.0)
}

/// The features so far.
#[derive(Default)]
struct FeatureVisitor(BTreeSet<String>);

impl FeatureVisitor {
    fn add(&mut self, is_there: bool, feature: &str) {
        if is_there {
            self.0.insert(feature.to_owned());
        }
    }

    fn set_operations(&mut self, body: &SetExpr) {
        if let SetExpr::SetOperation { left, op, set_quantifier, right } = body {
            let all = matches!(set_quantifier, SetQuantifier::All | SetQuantifier::AllByName);
            self.add(
                true,
                match op {
                    SetOperator::Union if all => "set:union all",
                    SetOperator::Union => "set:union",
                    SetOperator::Except | SetOperator::Minus => "set:except",
                    SetOperator::Intersect => "set:intersect",
                },
            );
            self.set_operations(left);
            self.set_operations(right);
        }
    }
}

impl Visitor for FeatureVisitor {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Self::Break> {
        self.add(query.with.is_some(), "clause:with");
        self.add(query.order_by.is_some(), "clause:order by");
        self.add(query.limit_clause.is_some(), "clause:limit");
        self.set_operations(&query.body);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Self::Break> {
        let groups = match &select.group_by {
            GroupByExpr::All(_) => true,
            GroupByExpr::Expressions(all, _) => !all.is_empty(),
        };
        self.add(select.distinct.is_some(), "clause:distinct");
        self.add(select.selection.is_some(), "clause:where");
        self.add(groups, "clause:group by");
        self.add(select.having.is_some(), "clause:having");
        self.add(select.from.len() > 1, "join:comma");
        for join in select.from.iter().flat_map(|from| &from.joins) {
            self.add(
                true,
                match &join.join_operator {
                    JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => "join:left",
                    JoinOperator::Right(_) | JoinOperator::RightOuter(_) => "join:right",
                    JoinOperator::FullOuter(_) => "join:full",
                    JoinOperator::CrossJoin(_) => "join:cross",
                    _ => "join:inner",
                },
            );
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<Self::Break> {
        self.add(matches!(table, TableFactor::Derived { .. }), "subquery:from");
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
        match expr {
            Expr::Subquery(_) => self.add(true, "subquery:scalar"),
            Expr::InSubquery { .. } => self.add(true, "subquery:in"),
            Expr::Exists { .. } => self.add(true, "subquery:exists"),
            Expr::Function(function) => {
                let name = function.name.to_string().to_lowercase();
                // Of several arguments, `max` and `min` are no aggregates.
                let arguments = match &function.args {
                    FunctionArguments::List(list) => list.args.len(),
                    _ => 0,
                };
                let is_aggregate = AGGREGATES.contains(&name.as_str())
                    && !(arguments > 1 && matches!(name.as_str(), "max" | "min"));
                self.add(function.over.is_some(), "clause:over");
                self.add(is_aggregate, &format!("aggregate:{name}"));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_features_are_its_clauses() {
        let joined = |query: &str| -> String {
            let all: Vec<String> = features(query).into();
            all.join(", ")
        };
        for (query, expected) in [
            ("SELECT 1", ""),
            (
                "SELECT a FROM t WHERE b > 3 ORDER BY a LIMIT 2",
                "clause:limit, clause:order by, clause:where",
            ),
            (
                "SELECT kind, COUNT(*), count(a) FROM t GROUP BY kind HAVING max(a, 2) > 1",
                "aggregate:count, clause:group by, clause:having",
            ),
            (
                "SELECT DISTINCT t.a FROM t JOIN u ON t.a = u.a LEFT JOIN v ON v.a = u.a, w",
                "clause:distinct, join:comma, join:inner, join:left",
            ),
            (
                "SELECT a FROM (SELECT a FROM t) WHERE a IN (SELECT a FROM u) AND a = (SELECT max(a) FROM t) \
                 AND EXISTS (SELECT 1 FROM v)",
                "aggregate:max, clause:where, subquery:exists, subquery:from, subquery:in, subquery:scalar",
            ),
            (
                "WITH c AS (SELECT 1) SELECT * FROM c UNION ALL SELECT 2 EXCEPT SELECT 3",
                "clause:with, set:except, set:union all",
            ),
            ("SELECT sum(a) OVER (ORDER BY b) FROM t", "aggregate:sum, clause:over"),
            ("this is no query", ""),
        ] {
            assert_eq!(joined(query), expected, "{query}");
        }
    }
}
