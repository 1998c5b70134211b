//! The laboratory against the numbers of the field notes.

use tealight::lab::{Class, Descent, Measures, Point, Search, Setting, Table, World};
use tealight::learn::objective::{Divergence, Objective};

fn world(name: &str) -> World {
    World::named(name).expect("known")
}

/// The measures of a point's optimum, and its distributions.
fn optimum(world: &World, class: Class, point: Point) -> (Measures, Vec<Vec<f64>>) {
    let found = Search::new(world, class).expect("memory").optimum(point).expect("possible");
    (Measures::new(world, &found.distributions), found.distributions)
}

fn alpha(alpha: f64) -> Point {
    Point::Filtered(Divergence::alpha(alpha))
}

pub(crate) fn close(ours: f64, exact: f64, relative: f64, what: &str) {
    assert!((ours - exact).abs() <= relative * exact.abs(), "{what}: {ours}, not {exact}");
}

/// T3: forward KL keeps coverage, and is the normalised expected counts of p*.
#[test]
fn forward_kl_covers_and_equals_moment_matching() {
    let ends = world("ends");
    let (measures, distributions) = optimum(&ends, Class::Bigram, alpha(0.0));
    assert!(measures.effective_valid > 0.8 * 61.9293);
    close(measures.kl_pstar_q, 1.0446, 1e-4, "KL(p*||q)");
    let matched = Table::project(&ends, Class::Bigram, &[ends.filtered(0)]).expect("memory");
    let matched = matched.distributions(&ends).expect("memory").remove(0);
    for (ours, exact) in distributions[0].iter().zip(matched) {
        assert!((ours - exact).abs() < 1e-4 * exact.max(1e-3), "{ours} {exact}");
    }
}

/// T6: Dyck has two branches, and the base's outlives its optimality: there the search from the base is said to end at
/// a local optimum.
#[test]
fn dyck_optimum_jumps_and_the_branch_of_the_base_is_said_to_be_local() {
    let dyck = world("dyck");
    let search = Search::new(&dyck, Class::Bigram).expect("memory");
    let at = |beta: f64| search.optimum(Point::Beta(beta)).expect("possible");
    for (beta, value, validity, effective) in [
        (0.15, 0.07291, 0.0840, 13.547),
        (0.1, 0.07854, 0.0959, 13.939),
        (0.08, 0.08310, 0.1078, 13.910),
    ] {
        let found = at(beta);
        let (broad, measures) = found
            .from_base
            .unwrap_or_else(|| (found.value, Measures::new(&dyck, &found.distributions)));
        close(broad, value, 1e-3, "broad J");
        close(measures.validity, validity, 1e-3, "broad m");
        close(measures.effective_valid, effective, 1e-3, "broad N_eff");
    }
    close(at(0.125).value, 0.19825, 1e-3, "narrow J");
    assert!(at(0.06).from_base.is_none(), "the broad branch has ended");
    // The branches have equal value at beta_c.
    assert!(at(0.1444 + 0.001).from_base.is_none() && at(0.1444 - 0.001).from_base.is_some());
    let covered = optimum(&dyck, Class::Bigram, alpha(0.0)).0;
    close(covered.kl_pstar_q, 2.2236, 1e-3, "forward KL");
}

#[test]
fn strategies_have_pass_at_k_curves_that_cross() {
    let strategies = world("strategies");
    for (point, known) in [
        (Point::Beta(0.3), [0.4030, 0.5708, 0.7136, 0.8275, 0.9159, 0.9927, 1.0]),
        (Point::Beta(0.05), [0.4969, 0.5058, 0.5116, 0.5227, 0.5432, 0.6319, 0.7497]),
        (alpha(0.0), [0.3514, 0.5495, 0.7512, 0.8988, 0.9735, 0.9999, 1.0]),
    ] {
        let (measures, ..) = optimum(&strategies, Class::Unigram, point);
        for (ours, exact) in measures.pass_at_k.values().zip(known) {
            assert!((ours - exact).abs() < 6e-4, "{point:?}: {ours} {exact}");
        }
    }
}

/// The KL penalty prefers the base's likelier answers however right the rarer ones are; MARA's rewards undo that.
#[test]
fn mara_ends_at_the_uniform_policy_over_correct_answers() {
    let world = World::ends(3);
    let correct = |text: &str| {
        let plan = text.parse::<Objective>().expect("possible").plan;
        let table = Table::base(&world, Class::Full).expect("memory");
        let setting = Setting::new(&world, &plan).expect("it has an exact optimum");
        let descent = Descent { iterations: 4000, learning_rate: 0.05 };
        descent.run(&table, |table| setting.gradient(table)).expect("memory");
        let q = table.distributions(&world).expect("memory").remove(0);
        let right = q.iter().zip(&world.is_right[0]).filter(|(_, right)| **right);
        right.map(|(q, _)| *q).collect::<Vec<f64>>()
    };
    let beta = 0.2;
    let base = world.base.iter().zip(&world.is_right[0]);
    let highest = base.clone().filter(|(_, right)| **right).map(|(a, _)| *a).fold(0.0, f64::max);
    let wrong: f64 = base.filter(|(_, right)| !**right).map(|(a, _)| a).sum();
    let tilted = highest * (1.0_f64 / beta).exp();
    let exact = tilted / (9.0 * tilted + wrong);
    let recipe = include_str!("../../recipes/objectives/mara.toml");
    let text =
        recipe.split('"').nth(1).expect("an objective").replace("kl-reward", "kl-reward:0.2");
    for q in correct(&text) {
        assert!((q - exact).abs() < 1e-3 * exact, "{q}, not {exact}");
    }
    let probabilities = correct("kl-reward:0.2");
    assert!(
        probabilities.iter().any(|q| (q - exact).abs() > 0.1 * exact),
        "p_beta is uniform: {probabilities:?}"
    );
}
