//! The derivative of a tree in `x = log t`: `t f'(t)`, the slope of a loss in its log-ratio.

use super::tree::{
    Function, Node, Tree, apply, constant, power, product, quotient, raise, scaled, sum,
};

/// `d tree / dx`. At a kink it is halfway between both sides.
pub(super) fn derivative(tree: &Tree) -> Tree {
    match &**tree {
        Node::X => constant(1.0),
        Node::Power(exponent) => scaled(*exponent, power(*exponent)),
        Node::Sum(_, terms) => sum(terms.iter().map(|(by, term)| (*by, derivative(term)))),
        Node::Product(a, b) => {
            let (left, right) =
                (product(derivative(a), b.clone()), product(a.clone(), derivative(b)));
            sum([(1.0, left), (1.0, right)])
        }
        Node::Quotient(a, b) => {
            // (a' - (a / b) b') / b
            let less = product(tree.clone(), derivative(b));
            quotient(sum([(1.0, derivative(a)), (-1.0, less)]), b.clone())
        }
        Node::Raise(a, exponent) => {
            scaled(*exponent, product(raise(a.clone(), exponent - 1.0), derivative(a)))
        }
        Node::Apply(function, a) => {
            let inner = derivative(a);
            match function {
                Function::Exp => product(tree.clone(), inner),
                Function::ExpM1 => product(apply(Function::Exp, a.clone()), inner),
                Function::Log => quotient(inner, a.clone()),
                Function::Log1p => quotient(inner, sum([(1.0, a.clone()), (1.0, constant(1.0))])),
                Function::Root => scaled(0.5, quotient(inner, tree.clone())),
                Function::Abs => product(apply(Function::Sign, a.clone()), inner),
                Function::Sign => constant(0.0),
                Function::Tanh => {
                    let rest = sum([(1.0, constant(1.0)), (-1.0, raise(tree.clone(), 2.0))]);
                    product(rest, inner)
                }
            }
        }
        Node::Larger(a, b) => {
            // The share of a: 1 where it is larger, 1/2 where both are equal.
            let above = apply(Function::Sign, sum([(1.0, a.clone()), (-1.0, b.clone())]));
            let share = sum([(0.5, above), (0.5, constant(1.0))]);
            let rest = sum([(1.0, constant(1.0)), (-1.0, share.clone())]);
            sum([(1.0, product(share, derivative(a))), (1.0, product(rest, derivative(b)))])
        }
    }
}
