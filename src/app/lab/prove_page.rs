//! `tealight prove --html FILE`: a proof as a page with its sentences and three charts.

use anyhow::Result;
use tealight_eval::report::document_page;
use tealight_eval::report::view::{Chart, Document, Kind, Line, Section};

use crate::lab::Measures;
use crate::lab::prove::{Frontier, Proof, world};

/// The page of a proof.
///
/// # Errors
/// A document that cannot be written as JSON.
pub fn page(proof: &Proof, frontier: &Frontier) -> Result<String> {
    // The finding and its causes, then numbers.
    let mut verdict = proof.sentences();
    let lead = verdict.iter().position(|line| line.starts_with("Variance"));
    let lead = verdict.split_off(lead.unwrap_or(verdict.len()));
    let charts = [gradients(proof), along_weight(frontier), equal_validity(proof, frontier)];
    let document = Document {
        title: proof.objective.clone(),
        made: format!("tealight {} prove", env!("CARGO_PKG_VERSION")),
        verdict,
        lead,
        sections: vec![
            Section::new("Expected gradient and claim").charts(vec![charts[0].clone()]),
            Section::new("Optima on the toy task `ends`").charts(charts[1..].to_vec()),
        ],
        ..Document::default()
    };
    document_page(&document)
}

/// Each parameter's expected gradient over that of the claim, prompt by prompt.
fn gradients(proof: &Proof) -> Chart {
    let [claim, found] = &proof.gradients;
    let world = world();
    let prompts = world.is_right.len();
    let cells = claim.len() / prompts;
    let pairs = |prompt: usize| {
        let part = prompt * cells..(prompt + 1) * cells;
        claim[part.clone()].iter().copied().zip(found[part].iter().copied()).collect()
    };
    let name =
        |prompt: usize| format!("prompt of base accuracy {:.2}", world.base_validity(prompt));
    let mut lines: Vec<Line> =
        (0..prompts).map(|prompt| Line::new(name(prompt), pairs(prompt))).collect();
    let mut diagonal: Vec<(f64, f64)> = claim.iter().map(|one| (*one, *one)).collect();
    diagonal.sort_by(|a, b| a.0.total_cmp(&b.0));
    lines.push(Line::new("unbiased", diagonal));
    let axes = ("gradient of the claim", "expected gradient");
    Chart::new("Gradient of each parameter", axes, lines).kind(Kind::Points).caption(format!(
        "Claim: {}. An unbiased objective has all points on the diagonal; another slope is another weight.",
        proof.claim
    ))
}

fn along_weight(frontier: &Frontier) -> Chart {
    // A single policy is no line: the other chart has it.
    let rows = if frontier.along_weight.len() > 1 { &frontier.along_weight[..] } else { &[] };
    let line = |name: &str, value: fn(&Measures) -> f64| {
        Line::new(name, rows.iter().map(|(weight, found)| (*weight, value(found))).collect())
    };
    let most = rows.iter().map(|(_, found)| found.effective_valid).fold(1.0, f64::max);
    let mut share = line("effective correct answers, share of the most", |m| m.effective_valid);
    share.points.iter_mut().for_each(|point| point.1 /= most);
    let lines = vec![line("accuracy", |m| m.validity), share];
    Chart::new("As the weight falls", ("weight", "share"), lines).log().from_to(0.0, 1.0).caption(
        format!("The policy at each weight; the most effective correct answers are {most:.1}."),
    )
}

fn equal_validity(proof: &Proof, frontier: &Frontier) -> Chart {
    let line = |name: &str, all: &mut dyn Iterator<Item = &Measures>| {
        let mut points: Vec<(f64, f64)> =
            all.map(|found| (found.validity, found.effective_valid)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Line::new(name, points)
    };
    let own = &mut frontier.along_weight.iter().map(|(_, found)| found);
    let lines = vec![
        line(&proof.objective, own),
        line("reverse KL to p_beta", &mut frontier.reverse_kl.iter()),
        line("forward KL to p_beta", &mut frontier.forward_kl.iter()),
    ];
    let axes = ("accuracy", "effective correct answers");
    Chart::new("Correct answers at equal accuracy", axes, lines).caption(
        "Higher at the same accuracy is more diverse. The points of a line differ in the weight.",
    )
}
