//! An audit as a page: the answers in a sentence each, then what they rest on, then every sample.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use tealight_core::display::one_spaced;
use tealight_core::names::list;

use super::audit_answers::{
    QUESTIONS, better, lost, narrower, strategies, templates, trusted, verdict,
};
use super::audit_plain;
use super::contrast::shown_ks;
use super::evaluation::top;
use super::page;
use super::samples::{Sampled, Source, place};
use super::titles;
use super::view::{Cell, Document, Recipe, Section, Table};
use crate::audit::{Audit, CANDIDATES, LostProblem, SHOWN_LOST, SecondRule, TunedAudit, ending};
use crate::inference::{Effect, Tested, in_words};
use crate::number::{counted, signed};
use crate::planner::{MOST_PROBLEMS, POWER, Plan};
use crate::results::Results;
use crate::store::{self, Index};
use crate::transition::Aligned;

/// What a page shows beside the audit.
pub struct AuditPage<'a> {
    /// The audit.
    pub audit: &'a Audit,
    /// The counts that it is of.
    pub set: &'a Aligned<'a>,
    /// The results of each file.
    pub results: &'a [&'a Results],
    /// The samples of each file.
    pub samples: &'a [Arc<Index>],
    /// The command that makes the page again.
    pub command: String,
}

/// Writes `report.html` into `output`.
///
/// # Errors
/// Samples that cannot be read, a directory that cannot be written.
pub fn write(page: &AuditPage<'_>, output: &Path) -> Result<()> {
    let AuditPage { audit, set, results, samples, .. } = page;
    let sources = samples.iter().map(|index| Source::indexed(index.clone(), output, None));
    let sampled = Sampled {
        name: set.name.clone(),
        split: "",
        questions: &set.questions,
        counts: set.runs.iter().map(AsRef::as_ref).collect(),
        sources: sources.collect::<Result<_>>()?,
    };
    let placed = place(&audit.models, &[sampled], output)?;
    let several = audit.tuned.len() > 1;
    let mut sections = Vec::new();
    for tuned in &audit.tuned {
        let of_model = if several { format!(", {}", tuned.model) } else { String::new() };
        for (number, mut section) in questions(tuned, &audit.models[0]).into_iter().enumerate() {
            section.heading = format!("{}. {}{of_model}", number + 1, section.heading);
            sections.push(section);
        }
    }
    sections.push(counts(page));
    let names: Vec<&str> = audit.models.iter().map(String::as_str).collect();
    // With the name of the model, where there are several.
    let all_of = |said: &dyn Fn(&TunedAudit) -> Vec<String>| -> Vec<String> {
        let of = |tuned: &TunedAudit| {
            let prefix = if several { format!("{}: ", tuned.model) } else { String::new() };
            said(tuned).into_iter().map(move |text| format!("{prefix}{text}")).collect::<Vec<_>>()
        };
        audit.tuned.iter().flat_map(of).collect()
    };
    let document = Document {
        title: match &audit.models[..] {
            [base, tuned] => format!("Audit: {tuned} against {base}"),
            _ => format!("Audit against {}", audit.models[0]),
        },
        made: titles::made(output, "audit"),
        lead: vec![format!(
            "{} that all files have; the first file, {}, is the base; k is at most {}.",
            counted(audit.problems, "problem"),
            audit.models[0],
            set.most(),
        )],
        verdict: all_of(&|tuned| audit_plain::plain(tuned)),
        statistics: all_of(&|tuned| verdict(tuned).to_vec()),
        warnings: audit.warnings.clone(),
        models: audit.models.clone(),
        // The set is called after the base's file, and the charts are of all models.
        top: top(set, &names).into_iter().map(|chart| chart.untitled(&set.name)).collect(),
        sections,
        reproduce: vec![Recipe {
            command: page.command.clone(),
            version: results[0].tealight.clone(),
            ..Recipe::default()
        }],
        footer: vec![
            "Intervals are 95 %, over problems, of these samples of these models: the spread of training runs is not in \
             them. The page Words explains the terms."
                .into(),
            placed.note.clone(),
        ],
        samples: placed.placement.clone(),
        steps: Vec::new(),
    };
    let page = page::html(&document, &placed)?;
    store::write_whole(&output.join("report.html"), page.as_bytes())
}

fn chance(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}

/// A section a question.
fn questions(tuned: &TunedAudit, base: &str) -> Vec<Section> {
    let row = |(name, found): &(String, Tested)| {
        [name.clone(), found.cell_with_interval(), chance(found.p_holm)]
    };
    let rows = tuned.findings.iter().map(row);
    let tested = Table::of(["measure", "change", "p (Holm)"], rows).titled(
        "Findings",
        format!(
            "* p < .05 after Holm's adjustment for {}.",
            counted(tuned.findings.first().map_or(0, |(_, found)| found.tests), "test")
        ),
    );
    let [better_on_one, what_lost, is_narrower, how_many, is_template, is_trusted] =
        QUESTIONS.map(Section::new);
    vec![
        better_on_one
            .text(better(tuned))
            .table(pass_table(tuned))
            .table(plan_table(&tuned.plans))
            .table(tested),
        what_lost.text(lost(tuned)).text(lost_method(tuned)).table(lost_table(tuned, base)),
        is_narrower.text(narrower(tuned)).table(parts_table(tuned)),
        how_many.text(strategies(tuned)).table(ways_table(tuned)),
        template_section(is_template, tuned),
        trust_section(is_trusted, tuned),
    ]
}

fn template_section(section: Section, tuned: &TunedAudit) -> Section {
    section.text(templates(tuned)).text(format!(
        "Each completion is compared with its own prompt and {} others by the words that both have, rare ones counting \
         most. A model that answers from a template retrieves its prompt less often, while the entropy of its words may \
         stay. Files have no log-probabilities of completions under other prompts: this is a proxy of mutual information.",
        CANDIDATES - 1
    ))
}

fn pass_table(tuned: &TunedAudit) -> Table {
    let pass = &tuned.change.contrast.pass;
    let ks: Vec<usize> = pass.iter().map(|(k, _)| *k).collect();
    let shown = shown_ks(&ks);
    let some = pass.iter().filter(|(k, _)| shown.contains(k));
    let rows = some.map(|(k, effect)| [k.to_string(), in_words(effect)]);
    Table::of(["k", "change of pass@k"], rows)
}

fn plan_table(plans: &[Plan]) -> Table {
    let header = ["settles", "difference seen", "samples each", "problems"];
    let rows = plans.iter().map(|plan| {
        let problems = plan
            .problems
            .map_or_else(|| format!("more than {MOST_PROBLEMS}"), |all| all.to_string());
        let seen = signed(plan.difference, 3);
        [format!("pass@{}", plan.k), seen, plan.samples.to_string(), problems]
    });
    Table::of(header, rows).titled(
        "What would settle it",
        format!(
            "Further problems are drawn from the pass rates that the data suggest, and tested as here, until {:.0} % \
             of the simulated evaluations find the difference. The observed difference is uncertain, and so is the \
             plan.",
            100.0 * POWER
        ),
    )
}

fn lost_method(tuned: &TunedAudit) -> String {
    match tuned.lost.as_ref().map(|lost| lost.has_second_draw) {
        Some(true) => "Chance is the base's own second draw.".into(),
        Some(false) => "Chance is the base against itself, over all halves of its samples, with as many tries for the \
                        tuned model; a second draw of the base (--second-draw FILE) needs no assumption."
            .into(),
        None => String::new(),
    }
}

fn lost_table(tuned: &TunedAudit, base: &str) -> Table {
    let Some(lost) = &tuned.lost else { return Table::default() };
    let header = [
        "problem",
        "chance if both models solve it equally often",
        "a correct answer of the base",
        "an answer of the tuned model",
    ];
    let row = |one: &LostProblem| {
        let [correct, samples, others] = one.counts;
        let text = |count: String, text: &String| {
            // A cell that begins with a number is shown as a number.
            Cell::Hinted(format!("{} ({count} correct)", brief(text)), text.clone())
        };
        [
            Cell::Plain(one.problem.clone()),
            Cell::Plain(chance(one.chance)),
            text(format!("{correct} of {samples}"), &one.texts[0]),
            text(format!("0 of {others}"), &one.texts[1]),
        ]
    };
    Table::of(header, lost.listed.iter().take(SHOWN_LOST).map(row)).titled(
        format!("Problems that {base} solved and {} never did", tuned.model),
        format!(
            "{}, the least likely by chance first, each with an answer of both models; all answers are in the list of \
             problems.",
            counted(lost.listed.len(), "problem")
        ),
    )
}

fn brief(text: &str) -> String {
    ending(&one_spaced(text), 120)
}

fn parts_table(tuned: &TunedAudit) -> Table {
    let Some(change) = &tuned.diversity else { return Table::default() };
    let row = |name: &str, effect: &Effect| [name.to_owned(), in_words(effect)];
    let rows = [
        row("incorrect answers", &change.incorrect),
        row("- through their number", &change.incorrect_gone),
        row("- through how alike they are", &change.incorrect_alike),
        row("correct answers: through how alike they are", &change.correct_alike),
        row("sum: the chance that two answers differ", &change.change),
    ];
    Table::of(["part", "change"], rows).titled(
        "The change of diversity in its parts",
        format!(
            "Correct answers are told apart by {}; {} problems have two correct answers of both models, which alone say \
             whether these became alike. A fall is a loss of diversity. The parts add up exactly.",
            change.by, change.comparable
        ),
    )
}

fn ways_table(tuned: &TunedAudit) -> Table {
    let found = &tuned.strategies;
    let ways = found.ways.iter().map(|way| {
        let [base, tuned] = way.distinct.map(|value| format!("{value:.2}"));
        let name = format!("{}{}", way.by, if way.is_surface { " (surface)" } else { "" });
        [name, base, tuned, in_words(&way.change)]
    });
    let entropy = found.word_entropy.iter().map(|(base, tuned, change)| {
        let name = "entropy of words, in nats (surface)".to_owned();
        [name, format!("{base:.2}"), format!("{tuned:.2}"), in_words(change)]
    });
    Table::of(["told apart by", "base", "tuned", "change"], ways.chain(entropy)).titled(
        "Distinct correct answers at equal numbers of them",
        format!(
            "Distinct by what the first column names, among {} on {} where both models have as many. Entropy is of the first \
             completions, correct or not.",
            counted(found.correct, "correct answer"),
            counted(found.problems, "problem")
        ),
    )
}

fn trust_section(section: Section, tuned: &TunedAudit) -> Section {
    let section = section.text(trusted(tuned));
    let Some(second) = &tuned.second_rule else { return section };
    section.table(rules_table(second)).table(disputed_table(second))
}

fn rules_table(second: &SecondRule) -> Table {
    let [one, other] = [0, 1].map(|rule| format!("by {}", second.rules[rule]));
    let changes = second.changes.iter().map(|change| {
        let [first, other] = change.effects.map(|effect| in_words(&effect));
        let same = if change.is_other { "another" } else { "the same" };
        [change.measure.clone(), first, other, same.into()]
    });
    let [base, tuned] = second.counts.map(|[all, first, other]| {
        let [one, two] = &second.rules;
        format!("of {all}, {one} alone accepts {first}, {two} alone {other}")
    });
    let disagreements = [
        "disagreements".into(),
        format!("base: {base}"),
        format!("tuned: {tuned}"),
        in_words(&second.disagreement),
    ];
    let header = ["change of", &one, &other, "conclusion"];
    Table::of(header, changes.chain([disagreements])).titled(
        "The same answers by two rules",
        "The last row shows how much more often the rules disagree on the tuned model: errors that both models share \
         cancel in a difference.",
    )
}

fn disputed_table(second: &SecondRule) -> Table {
    let rows = second.examples.iter().map(|one| {
        let by = &second.rules[usize::from(!one.is_first)];
        let problem =
            format!("{} (gold {}), accepted by {by} alone", one.problem, brief(&one.gold));
        let text = Cell::Hinted(brief(&one.text), one.text.clone());
        [Cell::Plain(one.model.clone()), Cell::Plain(problem), text]
    });
    Table::of(["model", "problem", "end of the completion"], rows)
        .titled("Completions that the rules disagree on", "")
}

/// What was read, and what is missing.
fn counts(page: &AuditPage<'_>) -> Section {
    let header: [&str; 8] =
        list("model|judged|correct|truncated|end unknown|no answer|failed|not judged");
    let rows = page.audit.models.iter().zip(&page.audit.counts).map(|(name, count)| {
        let known = [count.judged, count.correct, count.truncated, count.unknown_ends];
        let [judged, correct, truncated, unknown_ends] = known.map(|count| count.to_string());
        let others = [count.no_answer, count.failed, count.unjudged];
        let [no_answer, failed, unjudged] = others.map(|count| count.to_string());
        [name.clone(), judged, correct, truncated, unknown_ends, no_answer, failed, unjudged]
    });
    let table =
        Table::of(header, rows).titled("Completions of the problems that all files have", "");
    let section = Section::new("What was read").table(table);
    page.audit.notes.iter().fold(section, |section, note| section.text(note.clone()))
}
