//! Optima against training, from several starts, and where there are none.

use super::super::{Descent, Setting, Table};
use super::*;
use tealight_learn::objective::Objective;

/// The objective code of training, followed from the base by Adam, ends at the same policies.
#[test]
fn optima_are_those_of_the_objective_that_training_uses() {
    let world = World::named("ends").unwrap();
    let search = Search::new(&world, Class::Bigram).unwrap();
    for (point, objective) in [
        (Point::Beta(0.3), "reinforce:divergence=reverse-kl:beta=0.3"),
        (Point::Filtered(Divergence::alpha(0.5)), "match:p-star:alpha:alpha=0.5"),
        (Point::Tilted(Divergence::Js, 0.4), "match:p-beta:js:beta=0.4"),
    ] {
        let plan = objective.parse::<Objective>().unwrap().plan;
        let setting = Setting::new(&world, &plan).unwrap();
        let table = Table::base(&world, Class::Bigram).unwrap();
        let descent = Descent { iterations: 3000, ..Descent::default() };
        descent.run(&table, |table| setting.gradient(table)).unwrap();
        let trained = Measures::new(&world, &table.distributions(&world).unwrap());
        let found = Measures::new(&world, &search.optimum(point).unwrap().distributions);
        for (trained, found) in [
            (trained.validity, found.validity),
            (trained.effective_valid, found.effective_valid),
            (trained.kl_pstar_q, found.kl_pstar_q),
        ] {
            assert!((trained / found - 1.0).abs() < 1e-4, "{objective}: {trained} {found}");
        }
    }
}

/// No start has an optimum of its own: those that lead to one value lead to one policy.
#[test]
fn equal_values_are_equal_policies() {
    let mut compared = 0;
    for (name, class, betas) in [
        ("ends", Class::Bigram, vec![1.0, 0.25, 0.1, 0.04]),
        ("ends", Class::Full, vec![0.3]),
        ("dyck", Class::Bigram, vec![0.25, 0.1, 0.05]),
    ] {
        let world = World::named(name).unwrap();
        let search = Search::new(&world, class).unwrap();
        for beta in betas {
            let log_p = log_target(&world, beta);
            let starts = vec![search.member.start(), search.collapsed.clone()];
            let ends = ends(&search.member, starts, (Divergence::ReverseKl, &log_p));
            let measures =
                |at: &[f64]| Measures::new(&world, &search.member.policy(at).distributions(&world));
            let [End { at: a, value: one, .. }, End { at: b, value: two, .. }] = ends.as_slice()
            else {
                unreachable!()
            };
            if (one - two).abs() < EQUAL * (1.0 + one.abs()) {
                let (a, b) = (measures(a).kl_pstar_q, measures(b).kl_pstar_q);
                assert!((a / b - 1.0).abs() < 1e-5, "{name}, beta {beta}: {a} {b}");
                compared += 1;
            }
        }
    }
    assert!(compared > 2, "{compared} of 8 betas lead to one value");
}

#[test]
fn points_without_a_finite_optimum_are_refused() {
    for beta in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(Point::Beta(beta).target().is_err(), "{beta}");
    }
    let error = Point::Filtered(Divergence::ReverseKl).target().unwrap_err();
    assert!(error.to_string().contains("infinite"), "{error}");
    assert!(Point::Tilted(Divergence::ReverseKl, 0.1).target().is_ok());
}

/// e^(1 / beta) overflows at 0.001: where the class holds p_beta the optimum is found, elsewhere the beta refused.
#[test]
fn small_betas_are_computed_or_refused() {
    let world = World::named("ends").unwrap();
    let full = Search::new(&world, Class::Full).unwrap().optimum(Point::Beta(0.001)).unwrap();
    assert!((full.value / full.closed_form - 1.0).abs() < 1e-6, "{full:?}");
    let bigram = Search::new(&world, Class::Bigram).unwrap();
    for beta in [0.001, 0.002] {
        let error = bigram.optimum(Point::Beta(beta)).unwrap_err().to_string();
        assert!(error.contains("choose a larger beta"), "{beta}: {error}");
    }
    let found = bigram.optimum(Point::Beta(0.005)).unwrap();
    assert!(Measures::new(&world, &found.distributions).kl_pstar_q.is_finite());
}

/// Total variation, whose slope has a jump at the optimum, does not settle from the base.
#[test]
fn a_search_that_was_stopped_is_not_called_an_optimum() {
    let world = World::named("ends").unwrap();
    let search = Search::new(&world, Class::Full).unwrap();
    let found = search.optimum(Point::Filtered(Divergence::TotalVariation)).unwrap();
    assert!(found.value < 1e-6 && !found.is_from_base_settled, "{}", found.value);
    let dyck = World::named("dyck").unwrap();
    let jump = Search::new(&dyck, Class::Bigram).unwrap().optimum(Point::Beta(0.1)).unwrap();
    assert!(jump.from_base.is_some() && jump.is_from_base_settled);
}
