//! A study as the paragraph of methods in a paper, with the references of the objectives, measures and tool that it
//! used.

use tealight_eval::curve::Measure;
use tealight_eval::number::counted;
use tealight_eval::report::Study;

use crate::learn::objective;

/// The paragraph, and a line of references.
pub fn methods(study: &Study) -> String {
    let objective = |label: &&str| {
        let name = label.split([':', '@', ' ']).next().unwrap_or(label);
        let papers = objective::describe(name).map(|one| one.papers).unwrap_or_default();
        let cited: Vec<&str> =
            papers.iter().map(|url| url.rsplit('/').next().unwrap_or(url)).collect();
        match cited.is_empty() {
            true => (*label).to_owned(),
            false => format!("{label} (arXiv {})", cited.join(", ")),
        }
    };
    let objectives: Vec<String> = study.labels().iter().map(objective).collect();
    let seeds = study.seeds().len();
    let mut text = format!(
        "We fine-tuned {} on {} under {}, from {} each, with {} of {} completions a step and a learning rate of {:e}, \
         matched in {}.",
        study.model,
        counted(study.prompts, "prompt"),
        objectives.join(", "),
        counted(seeds, "seed"),
        counted(study.prompts_per_step, "prompt"),
        study.num_generations,
        study.learning_rate,
        study.matched.split(';').next().unwrap_or_default()
    );
    if let Some(set) = study.reported() {
        let (problems, samples) =
            (counted(set.base.summary.problems, "problem"), counted(study.n, "sample"));
        text.push_str(&format!(
            " Every model drew {samples} to each of {problems} of {} at temperature {}; pass@k is the unbiased \
             estimate (Chen et al. 2021, arXiv 2107.03374), and the number of distinct correct answers among k samples \
             is rarefied from all of them (Hurlbert 1971).",
            set.name, set.temperature
        ));
    }
    if let Some(curves) = study.curves.first() {
        let measure = match curves.measure {
            Measure::PassAtK(k) => format!("pass@{k}"),
            Measure::Distinct(k) => format!("distinct correct answers among {k} samples"),
        };
        text.push_str(&format!(
            " Objectives are compared by {measure} at equal pass@1 along training, with {:.0} % intervals over seeds and \
             problems{}.",
            curves.confidence * 100.0,
            if curves.is_tested { "; p-values are adjusted by Holm's method (Holm 1979)" } else { "" }
        ));
    }
    format!("{text} Training and evaluation: Tealight {}.", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_cited_by_their_papers() {
        let run = |objective: &str| {
            serde_json::json!({
                "objective": objective, "seed": 1, "steps": 1, "updates": 1, "completions": 1,
                "tokens": 1, "gradients": 1, "rehearsed": 0, "seconds": 1.0, "points": [],
            })
        };
        let training = ["grpo", "divergence:none"].map(run);
        let study = serde_json::json!({
            "model": "tasks", "n": 4, "ks": [1], "grid": [1], "temperature": 1.0, "prompts": 480,
            "prompts_per_step": 16, "num_generations": 8, "learning_rate": 7e-5,
            "matched": "optimizer steps; samples of the base come on top",
            "objectives": [["grpo", ""], ["divergence:none", ""]], "datasets": [], "seconds": 1.0,
            "training": training,
        });
        let text = methods(&serde_json::from_value(study).unwrap());
        assert!(
            text.contains("under grpo (arXiv 2402.03300), divergence:none, from 1 seed"),
            "{text}"
        );
        assert!(text.contains("7e-5, matched in optimizer steps. Training"), "{text}");
    }
}
