//! `tealight lab --paper NUMBER`: the claims of a paper on a world -> a page, results.json, tables for the terminal.

use std::path::PathBuf;

use anyhow::{Result, bail};
use serde_json::{Value, json};
use tealight_eval::report::document_page;
use tealight_eval::report::view::{Claim, Document, Section, Table};

use super::paper_figures::{effective_along_beta, figures};
use super::{LabOptions, number, world_and_class};
use crate::app::directory::{self, Existing};
use crate::lab::World;
use crate::lab::fixed_mu::{FixedMu, Series};
use crate::lab::paper::{Claims, Request, Rules, Verdict, claims};
use crate::system::files::write_atomic;

/// The papers whose claims are checked, with their titles.
const PAPERS: [(&str, &str); 1] = [(
    "2605.02375",
    "Binary Rewards and Reinforcement Learning: Fundamental Challenges (Marc Dymetman, 2026)",
)];

/// One claim for the terminal and the page.
pub struct ClaimTable {
    /// Its letter and what it is about.
    pub heading: &'static str,
    /// The claims with the sentences of their verdicts.
    pub sentences: Vec<String>,
    /// The numbers, the header first.
    pub cells: Vec<Vec<String>>,
}

/// The verdicts on the claims of a paper.
pub struct PaperReport {
    /// A sentence on how many claims hold.
    pub summary: String,
    /// Claim by claim.
    pub tables: Vec<ClaimTable>,
    /// What results.json holds.
    pub json: Value,
    /// Path of the report page.
    pub page: PathBuf,
}

/// Checks the claims of the paper `number`, and writes `paper.html` and `results.json`.
///
/// # Errors
/// A number that is not known, a world of several prompts, a folder that holds files.
pub fn run(options: &LabOptions, number: &str) -> Result<PaperReport> {
    let Some((number, title)) = PAPERS.iter().find(|(known, _)| *known == number) else {
        let known: Vec<String> =
            PAPERS.iter().map(|(number, title)| format!("{number}, {title}")).collect();
        bail!("--paper `{number}` is not known; choose one of: {}", known.join("; "))
    };
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
        rules: Rules::default(),
    })?;
    let setup = json!({
        "paper": number,
        "title": title,
        "world": world.name,
        "class": class,
        "base_validity": world.base_validity(0),
        "target_validity": options.target_validity,
        "seed": options.seed,
        "version": env!("CARGO_PKG_VERSION"),
        "rules": Rules::default(),
        "claims": serde_json::to_value(&found)?,
    });
    let report = PaperReport {
        summary: summary(&found, &world),
        tables: tables(&found),
        json: setup,
        page: output.join("paper.html"),
    };
    let claim = directory::fresh(output, existing)?;
    directory::begin(Some(&claim), output, existing)?;
    let document = document(&report, &found, (&world, options), (number, title));
    write_atomic(&report.page, document_page(&document)?.as_bytes())?;
    let text = serde_json::to_string_pretty(&report.json)?;
    write_atomic(&output.join("results.json"), text.as_bytes())?;
    tracing::info!("open {}", report.page.display());
    Ok(report)
}

/// The verdicts, claim by claim.
fn verdicts(claims: &Claims) -> [(&'static str, &[Verdict]); 6] {
    [
        ("(a) Many policies maximise the reward", &claims.degeneracy.verdicts),
        ("(b) p_beta tends to p* in forward KL", &claims.limit.verdicts),
        ("(c) KL(q || p*) is infinite", &claims.direction.verdicts),
        ("(d) beta and the target validity", &claims.link.verdicts),
        ("(e) Weaker bases at one target validity", &claims.fixed_target.verdicts),
        ("(f) Collapse as beta falls, beside divergences to p*", &claims.collapse.verdicts),
    ]
}

fn summary(claims: &Claims, world: &World) -> String {
    let all: Vec<&Verdict> = verdicts(claims).iter().flat_map(|(_, verdicts)| *verdicts).collect();
    let (readings, own): (Vec<&Verdict>, Vec<&Verdict>) =
        all.into_iter().partition(|verdict| verdict.is_reading);
    let held = |verdicts: &[&Verdict]| verdicts.iter().filter(|verdict| verdict.holds).count();
    format!(
        "On the toy world `{}`, {} of {} claims hold, and {} of {} that we read into the paper.",
        world.name,
        held(&own),
        own.len(),
        held(&readings),
        readings.len()
    )
}

fn sentences(verdicts: &[Verdict]) -> Vec<String> {
    verdicts
        .iter()
        .map(|verdict| format!("{} It {} Rule: {}.", verdict.claim, verdict.sentence, verdict.rule))
        .collect()
}

fn tables(claims: &Claims) -> Vec<ClaimTable> {
    let cells = [
        degeneracy_cells(claims),
        limit_cells(claims),
        direction_cells(claims),
        link_cells(claims),
        fixed_mu_cells(&claims.fixed_target.rows),
        collapse_cells(claims),
    ];
    let table = |((heading, verdicts), cells): ((&'static str, &[Verdict]), Vec<Vec<String>>)| {
        ClaimTable { heading, sentences: sentences(verdicts), cells }
    };
    verdicts(claims).into_iter().zip(cells).map(table).collect()
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
    let rows = claims.limit.rows.iter().map(|row| {
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
    let rows = claims.direction.models.iter().map(|model| {
        let reverse = model.reverse_kl.unwrap_or(f64::INFINITY);
        let values = vec![model.incorrect, model.forward_kl, reverse, model.growth()];
        (model.policy.clone(), values)
    });
    let header = ["policy", "incorrect", "KL(p*||q)", "KL(q||p*)", "growth / (1 - m) log 10"];
    let mut cells = named(header, rows);
    cells[0].push("outputs with mass".to_owned());
    for (row, model) in cells[1..].iter_mut().zip(&claims.direction.models) {
        row.push(format!("{} of {}", model.support[0], model.support[1]));
    }
    cells
}

fn link_cells(claims: &Claims) -> Vec<Vec<String>> {
    let rows = claims.link.rows.iter().map(|row| {
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

/// A sentence from its beginning on.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn document(
    report: &PaperReport,
    claims: &Claims,
    (world, options): (&World, &LabOptions),
    (number, title): (&str, &str),
) -> Document {
    let class = &claims.collapse.class;
    let cards = verdicts(claims).into_iter().zip(&report.tables).zip(figures(claims, world));
    let sections = cards.map(|(((heading, verdicts), table), charts)| {
        let card = |section: Section, verdict: &Verdict| {
            let found = verdict.sentence.split_once(": ").map_or("", |(_, numbers)| numbers);
            section.claim(Claim {
                text: verdict.claim.clone(),
                holds: verdict.holds,
                found: capital(found),
                rule: capital(&format!("{}.", verdict.rule)),
            })
        };
        let section = verdicts.iter().fold(Section::new(heading), card);
        let numbers = Table::new(table.cells.clone()).titled("Numbers", "").folded();
        section.charts(charts).table(numbers)
    });
    let collapse = &claims.collapse;
    let all = || collapse.along_beta().map(|(_, row)| row.measures.effective_valid);
    let (_, forward) = collapse.along_alpha().next().expect("alpha 0 is the first");
    let idea = format!(
        "As beta falls, the best {class} policy under a KL penalty goes from {:.0} effective correct answers to {:.0}; \
         aimed at p* by forward KL it keeps {:.0} of {:.0}, at a validity of only {:.2} (the base's: {:.2}).",
        all().fold(0.0, f64::max),
        all().fold(f64::INFINITY, f64::min),
        forward.measures.effective_valid,
        collapse.effective_pstar,
        forward.measures.validity,
        world.base_validity(0)
    );
    let failed: Vec<String> = verdicts(claims)
        .iter()
        .flat_map(|(_, verdicts)| *verdicts)
        .filter(|verdict| !verdict.holds)
        .map(|verdict| format!("Does not hold here: {}", verdict.claim))
        .collect();
    Document {
        title: title.to_owned(),
        made: format!("arXiv {number}, its claims on the toy world `{}`, tealight lab --paper {number}", world.name),
        verdict: [vec![idea, report.summary.clone()], failed].concat(),
        top: vec![effective_along_beta(claims)],
        lead: vec![
            format!(
                "The toy world `{}` has {} outputs, of which {} are correct; the base is correct with \
                 chance {:.4}. The restricted class is {class}. Random policies have seed {}. Every other number is \
                 exact: outputs are enumerated, and an optimum is the best of where three starts lead.",
                world.name,
                world.outputs.len(),
                world.total(0),
                world.base_validity(0),
                options.seed
            ),
            "The paper's own toy is not public; world, grids and rules are Tealight's. v is 1 for a correct output and 0 \
             otherwise, a the base, A its validity, p* the base given a correct output, p_beta proportional to \
             a e^(v / beta), q1 a policy given a correct output, N_eff the exponential of the entropy of q1."
                .to_owned(),
        ],
        sections: sections.collect(),
        ..Document::default()
    }
}
