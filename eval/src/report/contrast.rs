//! The change of a base, as a piece of a page.

use super::view::{Cell, Section, Table};
use crate::audit::{Lost, Moved};
use crate::contrast::{Contrast, Matched};
use crate::inference::{Effect, Family, Finding, Tested, TestedFamily, in_words};
use crate::number::{counted, fixed, signed};
use crate::transition::{Aligned, Change};

/// Everything that a contrast says, and where the base was drawn again, what was lost beyond chance.
pub(super) fn section(contrast: &Contrast, lost: Option<&Lost>, name: &str) -> Section {
    let beyond = lost.map(|lost| beyond_chance(lost) + " ").unwrap_or_default();
    let summary = format!(
        "Of {} that the base solved, the model retains {}; {} others are gained. {beyond}{}.",
        counted(contrast.base_solved, "problem"),
        number(contrast.retained),
        number(contrast.newly_solved),
        sentence(&contrast.crossing.to_string())
    );
    let mut section =
        Section::new(format!("Problems retained, lost and gained: {name}")).text(summary);
    section.is_folded = true;
    section.table(matched(contrast))
}

/// The k whose Pass@k a table shows: powers of four and the largest.
pub fn shown_ks(ks: &[usize]) -> Vec<usize> {
    let is_shown = |k: &usize| k.is_power_of_two() && k.trailing_zeros().is_multiple_of(2);
    ks.iter().copied().filter(|k| is_shown(k) || ks.last() == Some(k)).collect()
}

/// What the tables of compared models show, tested together: the change of each model from the first, of Pass@k and of
/// distinct correct answers at the largest k, and where there are more than two, each model from each other.
pub fn tested(set: &Aligned<'_>, changes: &[Change]) -> TestedFamily {
    let ks = shown_ks(&set.ks);
    let mut family = Family::new(true);
    for (index, Change { contrast, .. }) in changes.iter().enumerate() {
        let at = |effects: &[(usize, Effect)], k: usize| {
            effects.iter().find(|(at, _)| *at == k).map(|(_, effect)| *effect)
        };
        for k in &ks {
            family.add((index + 1, 0), &format!("pass@{k}"), at(&contrast.pass, *k));
        }
        let last = ks.last().copied().unwrap_or(1);
        family.add((index + 1, 0), &format!("distinct@{last}"), at(&contrast.distinct, last));
    }
    if changes.len() > 1 {
        for (row, column) in (0..=changes.len()).flat_map(|row| (0..row).map(move |c| (row, c))) {
            for k in [1, set.most()] {
                family.add(
                    (row, column),
                    &format!("pass@{k}"),
                    Some(set.difference((row, column), k)),
                );
            }
        }
    }
    family.tested()
}

/// Every run against every other: row minus column, Pass@1 below the diagonal and Pass@k at the largest k above it.
pub fn matrix(set: &Aligned<'_>, tested: &TestedFamily) -> Vec<Vec<Option<Tested>>> {
    let cell = |row: usize, column: usize| {
        let k = if row > column { 1 } else { set.most() };
        tested.get((row, column), &format!("pass@{k}"))
    };
    let runs = 0..set.runs.len();
    runs.clone().map(|row| runs.clone().map(|column| cell(row, column)).collect()).collect()
}

/// The change of accuracy, of coverage and of distinct answers under each model, in a sentence each.
pub fn verdicts(ks: &[usize], changes: &[Change], tested: &TestedFamily) -> Vec<String> {
    let ks = shown_ks(ks);
    let (Some(first), Some(last)) = (ks.first(), ks.last()) else { return Vec::new() };
    let mut measures = vec![format!("pass@{first}"), format!("pass@{last}")];
    measures.dedup();
    measures.push(format!("distinct@{last}"));
    let sentence = |(index, change): (usize, &Change)| {
        let phrase =
            |measure: &String| Some(tested.get((index + 1, 0), measure)?.sentence(measure));
        let phrases: Vec<String> = measures.iter().filter_map(phrase).collect();
        format!("{}; {}.", phrases.join("; "), change.contrast.crossing)
    };
    changes.iter().enumerate().map(sentence).collect()
}

/// What became of each model of a set, in words and levels: the tests and intervals are in [`verdicts`].
pub(super) fn plain(set: &Aligned<'_>, tested: &TestedFamily, names: &[&str]) -> Vec<String> {
    let most = set.most();
    let pass = |run: usize, k: usize| set.summaries[run].pass_at_k.get(&k).map(|e| e.value);
    let distinct = |run: usize| set.summaries[run].unique_correct.get(&most).map(|e| e.value);
    let phrase = |what: String, measure: &str, run: usize, [base, model]: [Option<f64>; 2]| {
        let moved = tested.get((run, 0), measure)?;
        let [base, model] = [base?, model?].map(|value| fixed(value, 3));
        if base == model {
            return Some(format!("{what} stays {base}"));
        }
        let direction = if moved.effect.value > 0.0 { "rises" } else { "falls" };
        let moves = match moved.finding {
            Finding::Change => direction.to_owned(),
            Finding::NotAfterAdjustment => format!("{direction}, not significantly"),
            _ => "does not change significantly".to_owned(),
        };
        Some(format!("{what} {moves} ({base} to {model})"))
    };
    let sentence = |(run, name): (usize, &&str)| {
        let accuracy = phrase("accuracy".into(), "pass@1", run, [pass(0, 1), pass(run, 1)]);
        let coverage = phrase(
            format!("the share of problems solved within {}", counted(most, "sample")),
            &format!("pass@{most}"),
            run,
            [pass(0, most), pass(run, most)],
        );
        let answers = phrase(
            format!("the number of distinct correct answers among {}", counted(most, "sample")),
            &format!("distinct@{most}"),
            run,
            [distinct(0), distinct(run)],
        );
        let coverage = coverage.filter(|_| most > 1);
        let all: Vec<String> = [accuracy, coverage, answers].into_iter().flatten().collect();
        format!("{name} on {}: {}.", set.name, all.join("; "))
    };
    let mut all: Vec<String> = names.iter().enumerate().skip(1).map(sentence).collect();
    all.extend(between(tested, names));
    all
}

/// Whose accuracy differs, among the models beside the base.
fn between(tested: &TestedFamily, names: &[&str]) -> Option<String> {
    let pairs = (1..names.len()).flat_map(|row| (1..row).map(move |column| (row, column)));
    let found: Vec<_> =
        pairs.filter_map(|pair| Some((pair, tested.get(pair, "pass@1")?))).collect();
    let differ = |((row, column), one): &((usize, usize), Tested)| {
        let (high, low) = if one.effect.value > 0.0 { (row, column) } else { (column, row) };
        let differs = one.finding == Finding::Change;
        differs.then(|| format!("{} has a higher accuracy than {}", names[*high], names[*low]))
    };
    let differences: Vec<String> = found.iter().filter_map(differ).collect();
    match (found.is_empty(), differences.is_empty()) {
        (true, _) => None,
        (_, true) => Some("No difference in accuracy between these models is significant.".into()),
        _ => Some(format!("{}.", differences.join("; "))),
    }
}

/// How many problems were lost and gained, beside what the base itself, drawn again, would lose and gain.
pub fn beyond_chance(lost: &Lost) -> String {
    let phrase = |name: &str, moved: &Moved| {
        format!(
            "{name} in {}: {:.1}{}, by chance alone {:.1}; difference a problem {}",
            counted(lost.tries, "attempt"),
            moved.all,
            if lost.has_second_draw { " (against the second draw)" } else { "" },
            moved.by_chance,
            in_words(&moved.beyond)
        )
    };
    format!("{}. {}.", phrase("Lost", &lost.lost), phrase("Gained", &lost.gained))
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn number(x: f64) -> String {
    if x.fract() == 0.0 { format!("{x:.0}") } else { format!("{x:.1}") }
}

fn matched(contrast: &Contrast) -> Table {
    let row = |at: &Matched| {
        let [change, base, model] =
            [signed(at.change.value, 2), fixed(at.base, 2), fixed(at.model, 2)];
        let [right, problems] = [at.right, at.problems].map(|count| Cell::Plain(count.to_string()));
        let change = Cell::Hinted(format!("{change} ({base} to {model})"), in_words(&at.change));
        [right, problems, change]
    };
    let header = ["correct answers", "problems", "distinct"];
    Table::of(header, contrast.matched.iter().map(row)).titled(
        "Distinct answers at equal numbers of correct answers",
        "Change from base (base to model), on the problems where the base and every model of this page have at least that number of correct answers.",
    )
}
