//! Optima of small worlds, exactly.

pub mod paper;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tealight_eval::number::fixed;

use tealight_lab::{Class, KS, Measures, Optimum, Point, Search, WORLDS, World};
use tealight_learn::objective::{Divergence, Objective};
use tealight_system::range::{SEED, above, at_least};

fn worlds() -> String {
    let worlds = WORLDS.map(|(name, shows, _)| format!("{name} ({shows})"));
    format!("{}: docs/how-to/collapse.md", worlds.join(", "))
}

/// Options of `tealight lab`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct LabOptions {
    /// The toy task.
    #[arg(default_value = "ends", help = worlds())]
    pub world: String,
    /// Class of policies. Default: bigram; unigram for the world strategies.
    #[arg(long, value_enum, ignore_case = true)]
    pub class: Option<Class>,
    /// Maximise mean reward - beta KL(q || base) for each of these betas. With --divergence the target is p_beta
    /// instead.
    #[arg(long, value_delimiter = ',', add = above(0.0).at_most(1e6))]
    pub beta: Vec<f64>,
    /// Minimise the alpha divergence to p* for each of these alphas: 0 is forward KL; towards 1 it tends to reverse KL.
    #[arg(long, value_delimiter = ',', add = at_least(0.0).below(1.0))]
    pub alpha: Vec<f64>,
    /// Minimise these divergences to p*, or with --beta to p_beta: names, or formulas such as f=(t-1)^2/(t+1), in which
    /// `;` separates the arguments of max and min.
    #[arg(long, value_delimiter = ',')]
    pub divergence: Vec<String>,
    /// Compute the claims of a paper on a world of one prompt, and write a page: 2605.02375 (Dymetman, binary rewards).
    /// WORLD, --class, --seed and --target-validity count.
    #[arg(long, value_name = "NUMBER")]
    pub paper: Option<String>,
    /// Target validity mu of --paper.
    #[arg(long, default_value_t = 0.9, add = above(0.0).below(1.0))]
    pub target_validity: f64,
    /// Seed of the random policies of --paper.
    #[arg(long, default_value_t = 0, add = SEED)]
    pub seed: u64,
    /// Directory for paper.html and results.json of --paper, by default paper-NUMBER.
    #[arg(long)]
    pub output: Option<PathBuf>,
    /// Replace an earlier result in --output: only files that Tealight wrote are removed.
    #[arg(long)]
    pub overwrite: bool,
    /// Compare an objective's exact expected gradient with that of its claim: `rloo`,
    /// `divergence:f=(t-1)^2/(t+1):0.1`, `grpo:advantage=r-mean(r)`.
    #[arg(long, value_name = "OBJECTIVE")]
    pub prove: Option<Objective>,
    /// The function that --prove compares with: --prove checks whether the objective's expected gradient is this
    /// function's. A sum of `E[v]`, pass@K, distinct@K, KL(pi||a), NAME(pi||a) and `D[FORMULA](pi||a)`, with p* or
    /// p_beta(BETA) in place of the base a. Default: the objective's own definition.
    #[arg(long, value_name = "CLAIM", allow_hyphen_values = true)]
    pub claim: Option<String>,
    /// Samples per prompt (group size) of --prove, at most 5. All possible groups of this size are enumerated. Default:
    /// 4, or as many as the objective needs.
    #[arg(long, add = at_least(1.0).at_most(5.0))]
    pub num_generations: Option<usize>,
    /// Print one JSON object a line instead of text.
    #[arg(long)]
    pub json: bool,
}

/// What the columns of a table are.
const COLUMNS: &str = "a: the base. q: the policy of the row, the optimum of its objective. q1: q conditioned on a \
correct output. p*: a conditioned on a correct output.\nvalidity: probability of a correct output. N_eff: exp H(q1), \
the effective number of correct outputs. max mass: largest probability of one output. U_256: expected distinct correct \
outputs among 256 samples. objective: its value at q; closed form: the best value of all policies, also of those that the class lacks. KL in nats. alpha 0 is forward KL.";

/// Rows to print: as cells with a header, and as JSON objects.
pub struct Printed {
    /// The header and the rows.
    pub cells: Vec<Vec<String>>,
    /// One object a row.
    pub json: Vec<serde_json::Value>,
    /// The note below the table.
    pub note: String,
}

/// The optimum of each point in a class of policies.
///
/// # Errors
/// Options that do not go together, a world that cannot be read, a point without a finite optimum.
pub fn run(options: &LabOptions) -> Result<Printed> {
    let (world, class) = world_and_class(options)?;
    let points = points(options)?;
    let search = Search::new(&world, class)?;
    let optima: Vec<Optimum> =
        points.par_iter().map(|point| search.optimum(*point)).collect::<Result<_>>()?;
    let prompts = world.is_right.len();
    let base = Measures::new(&world, &vec![world.base.clone(); prompts]);
    let filtered: Vec<Vec<f64>> = (0..prompts).map(|prompt| world.filtered(prompt)).collect();
    let pstar = Measures::new(&world, &filtered);
    let header = [
        "",
        "validity",
        "N_eff",
        "max mass",
        "U_256",
        "objective",
        "closed form",
        "KL(p*||q)",
        "KL(q1||p*)",
        "KL(q||a)",
        "pass@1",
        "pass@8",
        "pass@64",
    ];
    let mut cells = vec![header.map(str::to_owned).to_vec()];
    cells.push(line("base".into(), &base, [String::new(), String::new()]));
    cells.push(line("p*".into(), &pstar, [String::new(), String::new()]));
    let (mut json, mut local, mut stopped) = (Vec::new(), Vec::new(), Vec::new());
    for (point, optimum) in points.iter().zip(&optima) {
        let measures = Measures::new(&world, &optimum.distributions);
        let values = [optimum.value, optimum.closed_form].map(number);
        cells.push(line(point.label(), &measures, values));
        json.push(object(&world, class, *point, optimum, [&measures, &base, &pstar])?);
        if let Some((value, measures)) = &optimum.from_base {
            let worse = if optimum.is_from_base_settled { &mut local } else { &mut stopped };
            worse.push(format!(
                "{}: objective {}, validity {}, N_eff {}",
                point.label(),
                number(*value),
                number(measures.validity),
                number(measures.effective_valid)
            ));
        }
    }
    let mut note = format!(
        "{} with {class} policies. The numbers are exact, without sampling.\n{COLUMNS}",
        world.name
    );
    for (worse, how) in [(local, "ends at local optima"), (stopped, "did not converge")] {
        if !worse.is_empty() {
            let worse = worse.join("; ");
            note.push_str(&format!(
                " From the base, as training starts, the search {how}: {worse}."
            ));
        }
    }
    Ok(Printed { cells, json, note })
}

fn object(
    world: &World,
    class: Class,
    point: Point,
    optimum: &Optimum,
    [measures, base, pstar]: [&Measures; 3],
) -> Result<serde_json::Value> {
    let mut value = serde_json::to_value(measures)?;
    let (beta, divergence) = match point {
        Point::Beta(beta) => (Some(beta), None),
        Point::Filtered(divergence) => (None, Some(divergence)),
        Point::Tilted(divergence, beta) => (Some(beta), Some(divergence)),
    };
    let alpha = match divergence {
        Some(Divergence::Alpha(alpha)) => Some(alpha),
        Some(Divergence::ForwardKl) => Some(0.0),
        _ => None,
    };
    let own = json!({
        "world": world.name,
        "class": class,
        "beta": beta,
        "alpha": alpha,
        "divergence": divergence.map(|divergence| divergence.to_string()),
        "objective": optimum.value,
        "objective_closed_form": optimum.closed_form,
        "objective_from_base": optimum.from_base.as_ref().map(|(value, _)| value),
        "is_from_base_converged": optimum.from_base.as_ref().map(|_| optimum.is_from_base_settled),
        "base": base,
        "pstar": pstar,
    });
    let entries = own.as_object().into_iter().flatten().filter(|(_, one)| !one.is_null());
    entries.for_each(|(key, one)| value[key] = one.clone());
    Ok(value)
}

/// The world and the class of policies that are asked for.
fn world_and_class(options: &LabOptions) -> Result<(World, Class)> {
    let world = World::named(&options.world)?;
    let default = if world.name == "strategies" { Class::Unigram } else { Class::Bigram };
    Ok((world, options.class.unwrap_or(default)))
}

fn points(options: &LabOptions) -> Result<Vec<Point>> {
    let divergences: Vec<Divergence> =
        options.divergence.iter().map(|name| name.parse()).collect::<Result<_>>()?;
    let mut points = Vec::new();
    if divergences.is_empty() {
        points.extend(options.beta.iter().map(|beta| Point::Beta(*beta)));
    } else if options.beta.is_empty() {
        points.extend(divergences.iter().map(|divergence| Point::Filtered(*divergence)));
    } else {
        let tilted =
            |beta: &f64| divergences.iter().map(|d| Point::Tilted(*d, *beta)).collect::<Vec<_>>();
        points.extend(options.beta.iter().flat_map(tilted));
    }
    points.extend(options.alpha.iter().map(|alpha| Point::Filtered(Divergence::alpha(*alpha))));
    if points.is_empty() {
        points.extend([2.0, 1.0, 0.5, 0.25, 0.2, 0.1, 0.08, 0.04, 0.02].map(Point::Beta));
        points.extend([0.0, 0.1, 0.5, 0.9].map(|a| Point::Filtered(Divergence::alpha(a))));
    }
    // Impossible ones are refused before any work.
    points.iter().try_for_each(|point| point.target().map(drop))?;
    Ok(points)
}

fn line(name: String, m: &Measures, [objective, closed]: [String; 2]) -> Vec<String> {
    let mut row = vec![name];
    let values = [m.validity, m.effective_valid, m.max_mass, m.unique_valid_256];
    row.extend(values.iter().map(|x| number(*x)));
    row.extend([objective, closed]);
    row.extend([m.kl_pstar_q, m.kl_q1_pstar, m.kl_q_base].iter().map(|x| number(*x)));
    row.extend([KS[0], KS[3], KS[5]].iter().map(|k| number(m.pass_at_k[k])));
    row
}

fn number(x: f64) -> String {
    fixed(x, if x.abs() >= 10.0 { 2 } else { 4 })
}
