//! The claims of arXiv 2605.02375: their numbers against closed forms, and verdicts that follow from numbers and rules.

use std::sync::OnceLock;

use tealight::lab::fixed_mu::{Series, fixed_mu};
use tealight::lab::paper::{Claims, Request, Rules, Verdict, claims};
use tealight::lab::{Class, World};

use crate::support::binary::{Folder, succeeded};
use crate::support::runs::json;

/// The base's validity on `ends`, in the notes of the field.
const A: f64 = 0.342057;

fn checked(world: &World, class: Class) -> Claims {
    let rules = Rules::default();
    claims(&Request { world, class, seed: 0, target_validity: 0.9, rules }).expect("possible")
}

/// The claims on `ends` with bigram policies, computed once.
fn ends() -> &'static Claims {
    static CLAIMS: OnceLock<Claims> = OnceLock::new();
    CLAIMS.get_or_init(|| checked(&World::named("ends").expect("known"), Class::Bigram))
}

fn close(ours: f64, exact: f64, relative: f64, what: &str) {
    assert!((ours - exact).abs() <= relative * exact.abs(), "{what}: {ours}, not {exact}");
}

fn outcomes(verdicts: &[Verdict]) -> Vec<bool> {
    verdicts.iter().map(|verdict| verdict.holds).collect()
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
    assert_eq!(outcomes(&found.verdicts), [true, true]);
    // Where one output alone is correct there is one maximiser, and no policy is farther than it.
    let only =
        World::new("only", 1, &[0.2, 0.8], &[vec![0.5; 2], vec![0.5; 2]], 1, |_, y| y[0] == 0);
    assert_eq!(outcomes(&checked(&only, Class::Full).degeneracy.verdicts), [false, false]);
}

#[test]
fn p_beta_tends_to_pstar_and_is_infinitely_far_the_other_way() {
    let claims = ends();
    for row in &claims.limit.rows {
        let odds = (1.0 - A) / A * (-1.0 / row.beta).exp();
        close(row.forward_kl, odds.ln_1p(), 1e-4, "KL(p* || p_beta) = log(1 + odds)");
        close(row.distance, odds / (1.0 + odds), 1e-4, "total variation is 1 - mu");
    }
    assert!(claims.limit.verdicts[0].holds, "{:?}", claims.limit.verdicts);
    let direction = &claims.direction;
    for model in &direction.models {
        assert_eq!((model.support, model.reverse_kl), ([243, 243], None), "{}", model.policy);
        close(model.growth(), 1.0, 1e-6, &model.policy);
    }
    let nearest = &direction.models[2];
    close(nearest.forward_kl, 1.0446, 1e-4, "the limit of the class, in the notes");
    close(nearest.incorrect, 1.0 - 0.3638, 1e-3, "its validity, in the notes");
    assert!(direction.verdicts[0].holds, "{:?}", direction.verdicts);
}

#[test]
fn beta_and_validity_are_linked_by_enumeration() {
    let link = &ends().link;
    assert_eq!(link.rows.len(), 24);
    let logit = |p: f64| (p / (1.0 - p)).ln();
    for row in &link.rows {
        close(1.0 / row.beta, logit(row.target) - logit(row.base_validity), 1e-9, "1 / beta");
        assert!((row.validity - row.target).abs() < 1e-12, "{row:?}");
        assert!((row.kl_cost - row.kl_cost_closed).abs() < 1e-12, "{row:?}");
        close(row.slope, 1.0 / row.beta, 1e-3, "the slope of the cost");
    }
    assert!(link.verdicts[0].holds);
}

#[test]
fn a_smaller_beta_alone_loses_nothing_and_a_high_target_does() {
    let fixed = &ends().fixed_target;
    let same: Vec<_> = fixed.rows.iter().filter(|row| row.series == Series::SameTarget).collect();
    close(same[0].beta, 0.351, 2e-3, "the docs' first beta");
    close(same[0].class_beta.expect("found"), 0.131, 1e-2, "the class's own beta");
    for row in &same {
        close(row.validity[1], 0.410, 2e-3, "the bigram's validity");
        close(row.effective_valid[1] / row.effective_pstar, 0.57, 1e-2, "the bigram's share");
    }
    assert_eq!(outcomes(&fixed.verdicts), [true, false, true]);
    let sentence = &fixed.verdicts[1].sentence;
    assert!(sentence.starts_with("does not hold here: while beta goes from 0.351"), "{sentence}");
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
    close(half.ratio(), 1.0, 0.03, "one frontier");
    assert_eq!(outcomes(&collapse.verdicts), [true, true, false]);
    assert!(collapse.verdicts[2].sentence.starts_with("does not hold here: alpha"));
}

#[test]
fn a_class_that_represents_p_beta_does_not_collapse() {
    let claims = checked(&World::ends(3), Class::Full);
    let [collapses, covers, _] = claims.collapse.verdicts.as_slice() else { panic!("three") };
    assert!(!collapses.holds && collapses.sentence.starts_with("does not hold here"));
    assert!(claims.direction.verdicts[0].holds, "{:?}", claims.direction.verdicts);
    // Nothing is lost that forward KL could keep.
    assert!(claims.collapse.rows.iter().all(|row| (row.share - 1.0).abs() < 0.01));
    assert!(covers.sentence.contains("(1.00)"), "{covers:?}");
    assert_eq!(outcomes(&claims.fixed_target.verdicts), [true, false, false]);
}

/// No sentence is written beforehand: each follows its rule.
#[test]
fn every_verdict_changes_with_its_rule() {
    let claims = ends();
    let flipped = |before: &Verdict, after: &Verdict| {
        assert_eq!(before.claim, after.claim);
        assert_ne!(before.holds, after.holds, "{after:?}");
        let begins = if after.holds { "holds: " } else { "does not hold here: " };
        assert!(after.sentence.starts_with(begins), "{after:?}");
    };
    let rules = Rules::default();
    let all = |before: &[Verdict], after: &[Verdict], places: &[usize]| {
        places.iter().for_each(|place| flipped(&before[*place], &after[*place]));
    };
    let strict = Rules { different: 1.1, rounding: 0.0, limit: 0.0, ..rules };
    all(&claims.degeneracy.verdicts, &claims.degeneracy.judge(&strict), &[0, 1]);
    flipped(&claims.limit.verdicts[0], &claims.limit.judge(&strict));
    flipped(&claims.link.verdicts[0], &claims.link.judge(&strict));
    let strict = Rules { collapsed: 1e-6, covered: 1.0, relative: -1.0, ..rules };
    flipped(&claims.direction.verdicts[0], &claims.direction.judge(&strict));
    all(&claims.fixed_target.verdicts, &claims.fixed_target.judge(&strict), &[1, 2]);
    all(&claims.collapse.verdicts, &claims.collapse.judge(&strict), &[0, 1, 2]);
    // The betas of weaker bases rise where the rows are in another order.
    let mut other = claims.fixed_target.clone();
    other.rows.reverse();
    flipped(&claims.fixed_target.verdicts[0], &other.judge(&rules)[0]);
}

#[test]
fn the_page_has_pictures_of_six_claims() {
    let folder = Folder::new();
    let output = folder.path("page");
    let command = ["lab", "--paper", "2605.02375", "--output", &output];
    let done = succeeded(&command);
    let shown = String::from_utf8_lossy(&done.stdout).into_owned();
    let page = std::fs::read_to_string(format!("{output}/paper.html")).expect("a page");
    let results = json(format!("{output}/results.json"));
    assert_eq!(page.matches("<script>").count(), 1);
    assert!(!page.contains("src=\"") && !page.contains("<link"), "nothing is loaded");
    let data =
        page.split("id=\"document\">").nth(1).and_then(|rest| rest.split("</script>").next());
    let document: serde_json::Value =
        serde_json::from_str(data.expect("a document")).expect("JSON");
    let sections = document["sections"].as_array().expect("sections");
    assert_eq!(sections.len(), 6);
    let mut verdicts = 0;
    for (section, letter) in sections.iter().zip(["(a)", "(b)", "(c)", "(d)", "(e)", "(f)"]) {
        let heading = section["heading"].as_str().expect("a heading");
        assert!(heading.starts_with(letter) && shown.contains(heading), "{heading}");
        let blocks = section["blocks"].as_array().expect("blocks");
        let kinds = |kind: &str| blocks.iter().filter(|block| !block[kind].is_null()).count();
        assert!(kinds("charts") == 1 && kinds("table") == 1, "{heading}");
        for claim in blocks.iter().map(|block| &block["claim"]).filter(|claim| claim.is_object()) {
            let text = claim["text"].as_str().expect("a claim");
            let is_stated = ["found", "rule"]
                .iter()
                .all(|key| claim[key].as_str().is_some_and(|t| t.len() > 9));
            assert!(claim["holds"].is_boolean() && is_stated && shown.contains(text), "{claim}");
            verdicts += 1;
        }
    }
    assert_eq!((verdicts, results["paper"].as_str()), (11, Some("2605.02375")));
    let claims = results["claims"].as_object().expect("claims");
    assert_eq!(claims.len(), 6);
    for (name, claim) in claims {
        let verdict = &claim["verdicts"][0];
        assert!(verdict["sentence"].is_string() && verdict["rule"].is_string(), "{name}");
    }
    // The page is written again; the same seed gives the same numbers, and another seed other policies.
    succeeded(&[&command[..], &["--overwrite"]].concat());
    assert_eq!(json(format!("{output}/results.json")), results);
    let other = succeeded(&[&command[..], &["--seed", "7", "--json", "--overwrite"]].concat());
    let other: serde_json::Value = serde_json::from_slice(&other.stdout).expect("JSON");
    assert_ne!(other["claims"]["degeneracy"], results["claims"]["degeneracy"]);
    assert_eq!(other["claims"]["limit"], results["claims"]["limit"]);
}
