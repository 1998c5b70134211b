//! `tealight lab --paper NUMBER`: the claims of a paper on a world -> a page, results.json, tables for the terminal.

use std::path::PathBuf;

use anyhow::{Result, bail};
use serde_json::{Value, json};
use tealight_eval::report::document_page;
use tealight_eval::report::view::{Chart, Document, Line, Section, Table};

use super::{LabOptions, number, world_and_class};
use crate::app::directory::{self, Existing};
use tealight_lab::World;
use tealight_lab::fixed_mu::{FixedMu, Series};
use tealight_lab::paper::{Claims, Request, Row, claims};
use tealight_system::files::write_atomic;

/// The paper whose claims are shown.
const PAPER: &str = "2605.02375";
/// Its title.
const TITLE: &str =
    "Binary Rewards and Reinforcement Learning: Fundamental Challenges (Marc Dymetman, 2026)";

/// One claim for the terminal and the page.
pub struct ClaimTable {
    /// Its letter and what it is about.
    pub heading: &'static str,
    /// What the paper says, and where the numbers show it.
    pub claim: &'static str,
    /// The numbers, the header first.
    pub cells: Vec<Vec<String>>,
}

/// The numbers of the claims of a paper.
pub struct PaperReport {
    /// What the numbers come to.
    pub summary: String,
    /// Claim by claim.
    pub tables: [ClaimTable; 6],
    /// What results.json holds.
    pub json: Value,
}

/// Computes the claims of the paper `number`, and writes `paper.html` and `results.json`.
///
/// # Errors
/// A number that is not known, a world of several prompts, a folder that holds files.
pub fn run(options: &LabOptions, number: &str) -> Result<PaperReport> {
    if number != PAPER {
        bail!("--paper `{number}`: unknown paper; available: {PAPER}, {TITLE}");
    }
    let (world, class) = world_and_class(options)?;
    let default = PathBuf::from(format!("paper-{number}"));
    let output = options.output.as_ref().unwrap_or(&default);
    let existing = Existing::from_flag(options.overwrite);
    directory::refuse_run(output, existing)?;
    directory::check(output, existing)?;
    let found = claims(&Request {
        world: &world,
        class,
        seed: options.seed,
        target_validity: options.target_validity,
    })?;
    let report = PaperReport {
        summary: summary(&found, &world),
        tables: tables(&found),
        json: json!({
            "paper": number,
            "title": TITLE,
            "world": world.name,
            "class": class,
            "base_validity": world.base_validity(0),
            "target_validity": options.target_validity,
            "seed": options.seed,
            "version": env!("CARGO_PKG_VERSION"),
            "claims": found,
        }),
    };
    let claim = directory::fresh(output, existing)?;
    directory::begin(Some(&claim), output, existing)?;
    let page = output.join("paper.html");
    let document = document(&report, &found, (&world, options));
    write_atomic(&page, document_page(&document)?.as_bytes())?;
    let text = serde_json::to_string_pretty(&report.json)?;
    write_atomic(&output.join("results.json"), text.as_bytes())?;
    tracing::info!("open {}", page.display());
    Ok(report)
}

fn summary(claims: &Claims, world: &World) -> String {
    let collapse = &claims.collapse;
    let all = || collapse.along_beta().map(|(_, row)| row.measures.effective_valid);
    let (_, forward) = collapse.along_alpha().next().expect("alpha 0 is the first");
    format!(
        "On the toy world `{}`, as beta falls, the best {} policy under a KL penalty goes from {:.0} effective correct \
         answers to {:.0}; aimed at p* by forward KL it keeps {:.0} of {:.0}, at a validity of only {:.2} (the base's: \
         {:.2}).",
        world.name,
        collapse.class,
        all().fold(0.0, f64::max),
        all().fold(f64::INFINITY, f64::min),
        forward.measures.effective_valid,
        collapse.effective_pstar,
        forward.measures.validity,
        world.base_validity(0)
    )
}

fn tables(claims: &Claims) -> [ClaimTable; 6] {
    let table = |heading, claim, cells| ClaimTable { heading, claim, cells };
    [
        table(
            "(a) Many policies maximise the reward",
            "Every policy that is always correct has the largest expected reward, however few answers it keeps (N_eff). \
             Of these policies p* is the nearest to the base in KL(q || a).",
            degeneracy_cells(claims),
        ),
        table(
            "(b) p_beta tends to p* in forward KL",
            "KL(p* || p_beta), summed over outputs, falls to 0 with beta. In closed form it is -log mu, mu being the \
             validity of p_beta.",
            limit_cells(claims),
        ),
        table(
            "(c) KL(q || p*) is infinite",
            "For every policy q that gives mass to all outputs KL(q || p*) is infinite, so that p* is no target of reverse \
             KL. With a share of the base mixed into p* it grows by (1 - m) log 10 for each tenfold smaller share: a \
             growth of 1.",
            direction_cells(claims),
        ),
        table(
            "(d) beta and the target validity",
            "1 / beta = logit mu - logit A: beta and the target validity mu determine each other. The KL cost of mu is \
             kl(mu, A), and its slope in mu is 1 / beta.",
            link_cells(claims),
        ),
        table(
            "(e) Weaker bases at one target validity",
            "A weaker base needs a smaller beta. With the same p* that costs no answers; a class that cannot represent \
             p_beta reaches the target validity (at its own beta, in the last columns) only with few of them.",
            fixed_mu_cells(&claims.fixed_target),
        ),
        table(
            "(f) Collapse as beta falls, beside divergences to p*",
            "In a class that cannot represent p_beta, a falling beta leads to ever fewer correct outputs and not to p*. \
             Forward KL to p* (alpha 0) keeps the coverage that reverse KL gives up. Rows at equal validity compare both.",
            collapse_cells(claims),
        ),
    ]
}

/// A header and rows of a name and numbers.
fn named<const N: usize>(
    header: [&str; N],
    rows: impl Iterator<Item = (String, Vec<f64>)>,
) -> Vec<Vec<String>> {
    let row = |(name, values): (String, Vec<f64>)| {
        std::iter::once(name).chain(values.into_iter().map(cell)).collect()
    };
    std::iter::once(header.map(str::to_owned).to_vec()).chain(rows.map(row)).collect()
}

/// A number of a table: small ones are shown by their size, and what is no number by its name.
fn cell(x: f64) -> String {
    match x {
        x if x.is_infinite() => "infinite".to_owned(),
        0.0 => "0".to_owned(),
        x if x.abs() < 1e-3 => format!("{x:.1e}"),
        x => number(x),
    }
}

fn degeneracy_cells(claims: &Claims) -> Vec<Vec<String>> {
    let rows = claims.degeneracy.maximisers.iter().map(|one| {
        let values = vec![one.validity, one.effective_valid, one.kl_q_base, one.distance];
        (one.policy.clone(), values)
    });
    named(["policy", "E[v]", "N_eff", "KL(q||a)", "TV from p*"], rows)
}

fn limit_cells(claims: &Claims) -> Vec<Vec<String>> {
    let rows = claims.limit.iter().map(|row| {
        let closed = row.forward_kl_closed;
        let values = vec![row.validity, row.forward_kl, closed, row.distance, row.pointwise];
        (row.beta.to_string(), values)
    });
    let header = [
        "beta",
        "validity",
        "KL(p*||p_beta)",
        "-log mu",
        "TV",
        "largest difference of a probability",
    ];
    named(header, rows)
}

fn direction_cells(claims: &Claims) -> Vec<Vec<String>> {
    let rows = claims.direction.iter().map(|model| {
        let reverse = model.reverse_kl.unwrap_or(f64::INFINITY);
        let values = vec![model.incorrect, model.forward_kl, reverse, model.growth()];
        (model.policy.clone(), values)
    });
    let header = ["policy", "incorrect", "KL(p*||q)", "KL(q||p*)", "growth / (1 - m) log 10"];
    let mut cells = named(header, rows);
    cells[0].push("outputs with mass".to_owned());
    for (row, model) in cells[1..].iter_mut().zip(&claims.direction) {
        row.push(format!("{} of {}", model.support[0], model.support[1]));
    }
    cells
}

fn link_cells(claims: &Claims) -> Vec<Vec<String>> {
    let rows = claims.link.iter().map(|row| {
        let values = vec![
            row.target,
            row.beta,
            row.validity,
            row.kl_cost,
            row.kl_cost_closed,
            row.slope,
            1.0 / row.beta,
        ];
        (cell(row.base_validity), values)
    });
    let header = ["A", "mu", "beta", "validity", "KL cost", "kl(mu, A)", "its slope", "1 / beta"];
    named(header, rows)
}

fn collapse_cells(claims: &Claims) -> Vec<Vec<String>> {
    let collapse = &claims.collapse;
    let rows = collapse.rows.iter().map(|row| {
        let m = &row.measures;
        let values =
            vec![m.validity, m.effective_valid, row.share, m.max_mass, m.kl_pstar_q, m.kl_q1_pstar];
        (row.objective.clone(), values)
    });
    let equal = collapse.equal_validity.iter().flat_map(|pair| {
        let [aimed, reverse] = [0, 1].map(|place| {
            vec![
                pair.validity[place],
                pair.effective_valid[place],
                pair.effective_valid[place] / collapse.effective_pstar,
            ]
        });
        let name = format!("at equal validity: alpha {}", pair.alpha);
        [(name, aimed), (format!("and reverse KL, beta {:.4}", pair.beta), reverse)]
    });
    let header =
        ["objective", "validity", "N_eff", "share of p*'s", "max mass", "KL(p*||q)", "KL(q1||p*)"];
    let width = header.len();
    let mut cells = named(header, rows.chain(equal));
    cells.iter_mut().for_each(|row| row.resize(width, String::new()));
    cells
}

fn fixed_mu_cells(rows: &[FixedMu]) -> Vec<Vec<String>> {
    let header = [
        "series",
        "policies",
        "A",
        "beta",
        "N_eff p*",
        "validity full",
        "share full",
        "U_256 full",
        "validity class",
        "share class",
        "U_256 class",
        "own beta",
        "validity",
        "share",
    ];
    let mut cells = vec![header.map(str::to_owned).to_vec()];
    for row in rows {
        let series = match row.series {
            Series::SameTarget => "same target",
            Series::RarerAnswers => "rarer answers",
        };
        let share = |effective: f64| number(row.share(effective));
        let or_none = |value: Option<f64>| value.map_or("none".to_owned(), number);
        let mut line = vec![series.to_owned(), row.policies.clone()];
        line.extend([row.base_validity, row.beta, row.effective_pstar].map(number));
        for class in [0, 1] {
            line.push(number(row.validity[class]));
            line.push(share(row.effective_valid[class]));
            line.push(number(row.distinct[class]));
        }
        line.push(or_none(row.class_beta));
        line.push(or_none(row.class_validity));
        line.push(row.class_effective_valid.map_or("none".to_owned(), share));
        cells.push(line);
    }
    cells
}

/// The paper's idea in one chart: how many correct outputs are left as beta falls, beside divergences that aim at p*.
fn effective_along_beta(claims: &Claims) -> Chart {
    let collapse = &claims.collapse;
    let mut points: Vec<(f64, f64)> =
        collapse.along_beta().map(|(beta, row)| (beta, row.measures.effective_valid)).collect();
    points.reverse();
    let (low, high) = (points[0].0, points[points.len() - 1].0);
    let level = |name: String, value: f64| Line::new(name, vec![(low, value), (high, value)]);
    let mut lines = vec![
        level("p*".into(), collapse.effective_pstar),
        Line::new("KL penalty with this beta", points),
    ];
    lines.extend(
        collapse
            .along_alpha()
            .filter(|(alpha, _)| [0.0, 0.5, 0.9].contains(alpha))
            .map(|(_, row)| level(row.objective.clone(), row.measures.effective_valid)),
    );
    let title = format!("Effective number of correct answers, {} policies", collapse.class);
    Chart::new(&title, ("beta", "effective correct answers"), lines).log().caption(
        "Left is less penalty. The KL penalty loses correct answers as beta falls; a divergence to p* has no beta, and keeps \
         the number of its line. p* is the base given a correct answer.",
    )
}

/// Reverse KL to p* as the base's share in p* falls.
fn direction(claims: &Claims) -> Chart {
    let lines = claims
        .direction
        .iter()
        .map(|model| Line::new(&model.policy, model.smoothed.iter().rev().copied().collect()));
    let axes = ("share of the base in p*", "KL(q || smoothed p*), nats");
    Chart::new("Reverse KL to p*", axes, lines.collect()).log().caption(
        "KL(q || (1 - share) p* + share a): finite while the base has a share, without a bound as the share falls to 0. \
         The slope is the chance of an incorrect output.",
    )
}

fn frontier(claims: &Claims) -> Chart {
    let collapse = &claims.collapse;
    let at = |row: &Row| (row.measures.validity, row.measures.effective_valid);
    let mut reverse: Vec<(f64, f64)> = collapse.along_beta().map(|(_, row)| at(row)).collect();
    reverse.sort_by(|a, b| a.0.total_cmp(&b.0));
    let aimed = collapse.along_alpha().map(|(_, row)| at(row)).collect();
    let lines = vec![
        Line::new(format!("{}, reverse KL", collapse.class), reverse),
        Line::new(format!("{}, divergences to p*", collapse.class), aimed),
    ];
    Chart::new("Frontier", ("validity", "effective correct outputs"), lines).caption(
        "Correctness against coverage: reverse KL along beta, divergences to p* along alpha. Points are optima; the lines \
         only join them.",
    )
}

fn document(
    report: &PaperReport,
    claims: &Claims,
    (world, options): (&World, &LabOptions),
) -> Document {
    let mut sections = report.tables.each_ref().map(|table| {
        let numbers = Table::new(table.cells.clone()).titled("Numbers", "");
        Section::new(table.heading).text(table.claim).table(numbers)
    });
    for (place, chart) in [(2, direction(claims)), (5, frontier(claims))] {
        sections[place] = std::mem::take(&mut sections[place]).charts(vec![chart]);
    }
    Document {
        title: TITLE.to_owned(),
        made: format!("arXiv {PAPER}, its claims on the toy world `{}`, tealight lab --paper {PAPER}", world.name),
        verdict: vec![report.summary.clone()],
        top: vec![effective_along_beta(claims)],
        lead: vec![
            format!(
                "The toy world `{}` has {} outputs, of which {} are correct; the base is correct with \
                 chance {:.4}. The restricted class is {}. Random policies have seed {}. Every other number is \
                 exact: outputs are enumerated, and an optimum is the best of where three starts lead.",
                world.name,
                world.outputs.len(),
                world.total(0),
                world.base_validity(0),
                claims.collapse.class,
                options.seed
            ),
            "The paper's own toy is not public; world and grids are Tealight's. v is 1 for a correct output and 0 \
             otherwise, a the base, A its validity, p* the base given a correct output, p_beta proportional to \
             a e^(v / beta), q1 a policy given a correct output, N_eff the exponential of the entropy of q1."
                .to_owned(),
        ],
        sections: sections.into(),
        ..Document::default()
    }
}
