//! The collapse taken apart: the parts add up and are 0 where they must be; a falling beta alone changes nothing.

use tealight::lab::decompose::{Parts, Request, Training, decompose};
use tealight::lab::fixed_mu::{Series, fixed_mu};
use tealight::lab::{Class, Descent, Family, World};
use tealight::learn::objective::Divergence;

/// Training that goes on until nothing changes.
fn converged(iterations: usize) -> Training {
    let descent = Descent { iterations, learning_rate: 0.03 };
    Training { descent, group: 8, groups: 2, runs: 1, seed: 0 }
}

fn taken_apart(
    world: &World,
    families: &[Family],
    (betas, alphas): (&[f64], &[f64]),
    training: Training,
) -> Vec<Parts> {
    let search = Descent { iterations: 1500, learning_rate: 0.03 };
    let distances = [Divergence::ForwardKl, Divergence::TotalVariation];
    let request = Request { families, betas, alphas, distances: &distances, search, training };
    decompose(world, &request).expect("possible")
}

const FULL: Family = Family::Class(Class::Full);
const BIGRAM: Family = Family::Class(Class::Bigram);

#[test]
fn the_parts_add_up_and_the_first_two_are_never_negative() {
    let descent = Descent { iterations: 40, learning_rate: 0.03 };
    let training = Training { descent, group: 4, groups: 2, runs: 3, seed: 5 };
    let world = World::ends(3);
    let families = [BIGRAM, Family::Rank(1), FULL];
    let rows = taken_apart(&world, &families, (&[0.1, 0.0], &[0.0, 0.5, 1.0]), training);
    // Three classes, five aims (alpha 1 needs a beta), two distances.
    assert_eq!(rows.len(), 3 * 5 * 2);
    for row in &rows {
        let sum = row.class + row.objective + row.estimator + row.steps + row.samples;
        assert!((sum - row.total).abs() < 1e-12, "{row:?}");
        assert!(row.class >= 0.0 && row.objective >= 0.0, "{row:?}");
        assert!(
            row.samples != 0.0 && row.samples_error > Some(0.0),
            "sampling leaves something: {row:?}"
        );
        // Total variation is a share.
        assert!(row.distance != "tv" || row.total <= 1.0, "{row:?}");
    }
    // The class's limit belongs to the class and not to the aim, and smaller classes are farther.
    let limit = |policies: &str| -> f64 {
        let own =
            rows.iter().filter(|row| row.policies == policies && row.distance == "forward-kl");
        let limits: Vec<f64> = own.map(|row| row.class).collect();
        assert!(limits.windows(2).all(|pair| pair[0] == pair[1]), "{policies}: {limits:?}");
        limits[0]
    };
    assert!(limit("full") < 1e-12 && limit("bigram") > 0.1 && limit("rank 1") > 1e-3);
}

/// In the class of every policy the optimum is p_beta whatever alpha, at -log mu from p* in KL and 1 - mu in total
/// variation; exact gradients that are followed to the end leave nothing.
#[test]
fn every_policy_has_no_limit_and_converged_training_leaves_nothing() {
    let world = World::ends(3);
    let (beta, validity) = (0.5_f64, world.solve_rate(0));
    let mu = validity * (1.0 / beta).exp() / (validity * (1.0 / beta).exp() + 1.0 - validity);
    let rows = taken_apart(&world, &[FULL], (&[beta], &[0.0, 0.5]), converged(3000));
    for row in &rows {
        let known = if row.distance == "tv" { 1.0 - mu } else { -mu.ln() };
        assert!(row.class.abs() < 1e-12, "{row:?}");
        assert!((row.objective - known).abs() < 1e-6, "{known}: {row:?}");
        assert!(row.residual < 1e-6, "{row:?}");
        // Nothing is cut near the target, and the expected update is the objective's gradient.
        assert!(row.estimator.abs() < 1e-5, "{row:?}");
        assert!(row.steps.abs() < 1e-4, "{row:?}");
    }
    // Where p_beta is correct so often that it has less than a tenth of the base's mass on wrong outputs, alpha-DPG's
    // cut at 10 takes their pull away: training ends near p* instead.
    let rows = taken_apart(&world, &[FULL], (&[0.25], &[0.0]), converged(1500));
    assert!(rows[0].estimator < -0.5 * rows[0].objective, "{:?}", rows[0]);
}

/// GRPO divides the reward by its deviation in the group and the KL not: it ends beyond p_beta, where
/// docs/objectives.md says that it does.
#[test]
fn grpo_fixed_point_lies_beyond_its_optimum() {
    let world = World::ends(3).tilted(0.22);
    let rows = taken_apart(&world, &[FULL], (&[0.5], &[1.0]), converged(1500));
    let row = &rows[0];
    assert_eq!(row.distance, "forward-kl");
    let (p_beta, grpo) = ((-row.objective).exp(), (-(row.objective + row.estimator)).exp());
    // KL(p*||q) of a policy that keeps the proportions of correct answers is -log of its validity.
    assert!((p_beta - 0.676).abs() < 1e-3, "{p_beta}");
    assert!((grpo - 0.971).abs() < 2e-3, "{grpo}");
}

/// alpha 0 aims at what the class's limit is: nothing is added by the objective.
#[test]
fn forward_kl_to_p_star_adds_nothing_to_the_limit() {
    let rows = taken_apart(&World::ends(4), &[BIGRAM], (&[0.0], &[0.0, 0.5]), converged(10));
    let row_at = |alpha: f64| rows.iter().find(|row| row.alpha == alpha).expect("taken apart");
    assert!(row_at(0.0).objective < 1e-8, "{:?}", row_at(0.0));
    assert!(row_at(0.5).objective > 1e-3, "{:?}", row_at(0.5));
}

#[test]
fn impossible_decompositions_are_refused() {
    let world = World::ends(3);
    let refused = |betas: &[f64], alphas: &[f64], distance: Divergence| -> String {
        let search = Descent { iterations: 2, learning_rate: 0.03 };
        let distances = [distance];
        let families = [BIGRAM];
        let training = converged(2);
        let request =
            Request { families: &families, betas, alphas, distances: &distances, search, training };
        format!("{:#}", decompose(&world, &request).expect_err("refused"))
    };
    assert!(refused(&[0.0], &[1.0], Divergence::ForwardKl).contains("reward alone"));
    assert!(refused(&[0.1], &[1.5], Divergence::ForwardKl).contains("from 0 to 1"));
    assert!(refused(&[0.1], &[0.5], Divergence::ReverseKl).contains("infinite"));
}

/// At one target validity, bases that differ in the mass of correct answers alone have the same optimum in every class,
/// though beta falls; answers are lost where the class cannot represent p_beta.
#[test]
fn equal_targets_have_equal_optima_whatever_beta() {
    let world = World::ends(4);
    let search = Descent { iterations: 1500, learning_rate: 0.03 };
    let own = world.solve_rate(0);
    let rows = fixed_mu(&world, BIGRAM, 0.9, &[own, own / 30.0], search).expect("possible");
    assert_eq!(rows.len(), 4);
    let (first, last) = (&rows[0], &rows[1]);
    assert!(first.series == Series::SameTarget && last.series == Series::SameTarget);
    assert!(last.beta < 0.6 * first.beta, "{} {}", first.beta, last.beta);
    for row in [first, last] {
        // Every policy: mu is reached, and all answers of p* are kept.
        assert!((row.validity[0] - 0.9).abs() < 1e-9);
        assert!((row.effective_valid[0] - row.effective_pstar).abs() < 1e-6);
        // A bigram reaches less, with fewer answers.
        assert!(row.validity[1] < 0.9 && row.effective_valid[1] < row.effective_pstar);
        let class_beta = row.class_beta.expect("a smaller beta reaches the target");
        assert!(class_beta < row.beta);
        assert!(row.class_validity.expect("found") >= 0.9);
        let effective_valid = row.class_effective_valid.expect("found");
        assert!(effective_valid < row.effective_valid[1], "{row:?}");
    }
    assert!((first.validity[1] - last.validity[1]).abs() < 1e-3, "{first:?} {last:?}");
    let apart = (first.effective_valid[1] / last.effective_valid[1]).ln().abs();
    assert!(apart < 1e-2, "{first:?} {last:?}");
    // With rarer answers p* has fewer of them, and every policy keeps those.
    let rarer = &rows[3];
    assert!(rarer.series == Series::RarerAnswers && rarer.effective_pstar < last.effective_pstar);
    assert!((rarer.effective_valid[0] / rarer.effective_pstar - 1.0).abs() < 1e-6);
    assert!(fixed_mu(&world, BIGRAM, 0.2, &[0.3], search).is_err());
}
