//! The claims of arXiv 2605.02375: their numbers against closed forms.

use std::sync::OnceLock;

use tealight::lab::fixed_mu::{Series, fixed_mu};
use tealight::lab::paper::{Claims, Request, claims};
use tealight::lab::{Class, World};

use crate::lab::close;
use crate::support::binary::{Folder, command, ok, printed};
use crate::support::runs::json;

/// The base's validity on `ends`, in the notes of the field.
const A: f64 = 0.342057;

fn checked(world: &World, class: Class) -> Claims {
    claims(&Request { world, class, seed: 0, target_validity: 0.9 }).expect("possible")
}

/// The claims on `ends` with bigram policies, computed once.
fn ends() -> &'static Claims {
    static CLAIMS: OnceLock<Claims> = OnceLock::new();
    CLAIMS.get_or_init(|| checked(&World::named("ends").expect("known"), Class::Bigram))
}

#[test]
fn maximisers_differ_and_pstar_is_the_nearest_to_the_base() {
    let found = &ends().degeneracy;
    let [pstar, uniform, one, ascents @ ..] = found.maximisers.as_slice() else {
        panic!("{found:?}")
    };
    close(pstar.kl_q_base, -A.ln(), 1e-5, "KL(p* || a) = -log A");
    close(pstar.effective_valid, 61.9293, 1e-5, "exp H(p*)");
    close(uniform.effective_valid, 81.0, 1e-9, "81 correct outputs");
    close(one.kl_q_base, -0.03125_f64.ln(), 1e-9, "minus the log of the base's likeliest output");
    assert_eq!((pstar.distance, ascents.len()), (0.0, 3));
    for ascent in ascents {
        assert!(ascent.validity > 0.999 && ascent.distance > 0.1, "{ascent:?}");
        assert!(ascent.kl_q_base > pstar.kl_q_base);
    }
    assert!(found.nearest_random > pstar.kl_q_base && found.error < 1e-12, "{found:?}");
}

#[test]
fn p_beta_tends_to_pstar_and_is_infinitely_far_the_other_way() {
    let claims = ends();
    for row in &claims.limit {
        let odds = (1.0 - A) / A * (-1.0 / row.beta).exp();
        close(row.forward_kl, odds.ln_1p(), 1e-4, "KL(p* || p_beta) = log(1 + odds)");
        close(row.distance, odds / (1.0 + odds), 1e-4, "total variation is 1 - mu");
    }
    assert!(claims.limit[8].forward_kl < 1e-6, "{:?}", claims.limit);
    for model in &claims.direction {
        assert_eq!((model.support, model.reverse_kl), ([243, 243], None), "{}", model.policy);
        close(model.growth(), 1.0, 1e-6, &model.policy);
    }
    let nearest = &claims.direction[2];
    close(nearest.forward_kl, 1.0446, 1e-4, "the limit of the class, in the notes");
    close(nearest.incorrect, 1.0 - 0.3638, 1e-3, "its validity, in the notes");
}

#[test]
fn beta_and_validity_are_linked_by_enumeration() {
    let link = &ends().link;
    assert_eq!(link.len(), 24);
    let logit = |p: f64| (p / (1.0 - p)).ln();
    for row in link {
        close(1.0 / row.beta, logit(row.target) - logit(row.base_validity), 1e-9, "1 / beta");
        assert!((row.validity - row.target).abs() < 1e-12, "{row:?}");
        assert!((row.kl_cost - row.kl_cost_closed).abs() < 1e-12, "{row:?}");
        close(row.slope, 1.0 / row.beta, 1e-3, "the slope of the cost");
    }
}

#[test]
fn a_smaller_beta_alone_loses_nothing_and_a_high_target_does() {
    let fixed = &ends().fixed_target;
    let same: Vec<_> = fixed.iter().filter(|row| row.series == Series::SameTarget).collect();
    close(same[0].beta, 0.351, 2e-3, "the docs' first beta");
    close(same[0].class_beta.expect("found"), 0.131, 1e-2, "the class's own beta");
    for row in &same {
        close(row.validity[1], 0.410, 2e-3, "the bigram's validity");
        close(row.effective_valid[1] / row.effective_pstar, 0.57, 1e-2, "the bigram's share");
    }
}

/// At one target validity, bases that differ in the mass of correct answers alone have the same optimum in every class,
/// though beta falls; answers are lost where the class cannot represent p_beta.
#[test]
fn equal_targets_have_equal_optima_whatever_beta() {
    let world = World::ends(4);
    let own = world.base_validity(0);
    let rows = fixed_mu(&world, Class::Bigram, 0.9, &[own, own / 30.0]).expect("possible");
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
    assert!(fixed_mu(&world, Class::Bigram, 0.2, &[0.3]).is_err());
}

#[test]
fn reverse_kl_collapses_and_shares_its_frontier_with_alpha() {
    let collapse = &ends().collapse;
    for (beta, validity, effective) in
        [(1.0, 0.3502, 57.91), (0.25, 0.6308, 11.83), (0.1, 0.9467, 2.07)]
    {
        let (_, row) = collapse.along_beta().find(|(own, _)| *own == beta).expect("swept");
        close(row.measures.validity, validity, 1e-3, "validity, in the notes");
        close(row.measures.effective_valid, effective, 5e-3, "N_eff, in the notes");
    }
    for (alpha, validity, effective) in
        [(0.0, 0.3638, 51.89), (0.5, 0.4797, 23.35), (0.9, 0.9717, 1.56)]
    {
        let (_, row) = collapse.along_alpha().find(|(own, _)| *own == alpha).expect("swept");
        close(row.measures.validity, validity, 1e-3, "validity, in the notes");
        close(row.measures.effective_valid, effective, 5e-3, "N_eff, in the notes");
    }
    let half = collapse.equal_validity.iter().find(|pair| pair.alpha == 0.5).expect("reached");
    assert!((half.validity[0] - half.validity[1]).abs() <= 1e-4);
    close(half.effective_valid[0] / half.effective_valid[1], 1.0, 0.03, "one frontier");
}

#[test]
fn a_class_that_represents_p_beta_does_not_collapse() {
    let claims = checked(&World::ends(3), Class::Full);
    assert!(claims.direction.iter().all(|model| model.reverse_kl.is_none()));
    // Nothing is lost that forward KL could keep.
    assert!(claims.collapse.rows.iter().all(|row| (row.share - 1.0).abs() < 0.01));
}

#[test]
fn the_page_has_six_claims_with_their_numbers() {
    let folder = Folder::new();
    let output = folder.path("page");
    let command = format!("lab --paper 2605.02375 --output {output}");
    let shown = printed(&command);
    let page = std::fs::read_to_string(format!("{output}/paper.html")).expect("a page");
    let results = json(format!("{output}/results.json"));
    let data =
        page.split("id=\"document\">").nth(1).and_then(|rest| rest.split("</script>").next());
    let document: serde_json::Value =
        serde_json::from_str(data.expect("a document")).expect("JSON");
    let sections = document["sections"].as_array().expect("sections");
    assert_eq!(sections.len(), 6);
    for (section, letter) in sections.iter().zip(["(a)", "(b)", "(c)", "(d)", "(e)", "(f)"]) {
        let heading = section["heading"].as_str().expect("a heading");
        assert!(heading.starts_with(letter) && shown.contains(heading), "{heading}");
        let blocks = section["blocks"].as_array().expect("blocks");
        assert!(blocks[0]["text"].is_string() && blocks[1]["table"].is_object(), "{heading}");
    }
    assert_eq!(results["paper"], "2605.02375");
    assert_eq!(results["claims"].as_object().expect("claims").len(), 6);
    // The page is written again; the same seed gives the same numbers, and another seed other policies.
    ok(command!("{command} --overwrite"));
    assert_eq!(json(format!("{output}/results.json")), results);
    let other = printed(command!("{command} --seed 7 --json --overwrite"));
    let other: serde_json::Value = other.parse().expect("JSON");
    assert_ne!(other["claims"]["degeneracy"], results["claims"]["degeneracy"]);
    assert_eq!(other["claims"]["limit"], results["claims"]["limit"]);
}
