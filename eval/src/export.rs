//! Results in the forms that other tools read: CSV, Markdown.

use std::borrow::Cow;

use tealight_core::display;

use crate::Estimate;
use crate::number::fixed;
use crate::results::{Results, SetResult};

/// One row a number: set, measure, k, value, interval.
pub fn csv(results: &Results) -> String {
    const HEADER: [&str; 9] =
        ["model", "set", "domain", "temperature", "measure", "k", "value", "low", "high"];
    let mut writer = csv::Writer::from_writer(Vec::new());
    let into_memory = "memory takes what is written";
    writer.write_record(HEADER).expect(into_memory);
    for set in &results.sets {
        let temperature = set.temperature.map(|t| t.to_string()).unwrap_or_default();
        let domain = set.domain.clone().unwrap_or_default();
        for (measure, k, estimate) in measures(set) {
            let [value, low, high] =
                [estimate.value, estimate.low, estimate.high].map(|x| x.to_string());
            let of_set = [&results.model, &set.name, &domain, &temperature];
            let of_number = [&measure, &k, &value, &low, &high];
            let row = of_set.into_iter().chain(of_number).map(|cell| display::csv_text(cell));
            writer.write_record(row.map(Cow::into_owned)).expect(into_memory);
        }
    }
    let bytes = writer.into_inner().expect(into_memory);
    String::from_utf8(bytes).expect("what went in was text")
}

/// Every estimate of a set: its measure, its k or tau, its value.
pub(crate) fn measures(set: &SetResult) -> Vec<(String, String, Estimate)> {
    let summary = &set.summary;
    let mut rows = Vec::new();
    for (name, by_k) in [
        ("pass@k", &summary.pass_at_k),
        ("pass^k", &summary.pass_all_k),
        ("maj@k", &summary.majority),
        ("unique_correct@k", &summary.unique_correct),
        ("coverage@k", &summary.coverage),
    ] {
        rows.extend(by_k.iter().map(|(k, value)| (name.to_owned(), k.to_string(), *value)));
    }
    for (level, by_k) in &summary.unique_by_level {
        let name = format!("unique_{level}@k");
        rows.extend(by_k.iter().map(|(k, value)| (name.clone(), k.to_string(), *value)));
    }
    rows.extend(
        summary.cover.iter().map(|(tau, value)| ("cover@tau".to_owned(), tau.clone(), *value)),
    );
    if let Some(exact) = &summary.exact {
        for (name, by_k) in [
            ("exact_pass@k", &exact.pass_at_k),
            ("exact_unique_correct@k", &exact.unique_correct),
            ("exact_coverage@k", &exact.coverage),
        ] {
            rows.extend(by_k.iter().map(|(k, value)| (name.to_owned(), k.to_string(), *value)));
        }
    }
    let mut one = |name: &str, value: Option<Estimate>| {
        rows.extend(value.map(|value| (name.to_owned(), String::new(), value)));
    };
    one("mean_reward", summary.mean_reward);
    one("greedy_pass@1", summary.greedy);
    one("sequence_entropy", summary.sequence_entropy);
    one("kl_pstar", summary.kl_pstar);
    if let Some(richness) = &summary.richness {
        one("hill_1", Some(richness.hill_1));
        one("hill_2", Some(richness.hill_2));
        one("chao_1", Some(richness.chao_1));
        one("unseen", Some(richness.unseen));
    }
    rows
}

/// A table a person pastes into a document: a row a set.
pub fn markdown(results: &Results) -> String {
    let mut ks: Vec<usize> =
        results.sets.iter().flat_map(|set| set.summary.pass_at_k.keys().copied()).collect();
    ks.sort_unstable();
    ks.dedup();
    let is_graded = results.sets.iter().any(|set| set.summary.mean_reward.is_some());
    let mut header = vec!["set".to_owned()];
    header.extend(is_graded.then(|| "mean reward".to_owned()));
    header.push("greedy".into());
    header.extend(ks.iter().map(|k| format!("pass@{k}")));
    header.extend(["distinct correct".into(), "hill 1".into(), "n".into(), "problems".into()]);
    let mut lines = vec![header.join(" | ")];
    lines.push(vec!["---"; header.len()].join(" | "));
    for set in &results.sets {
        let summary = &set.summary;
        let cell = |estimate: Option<&Estimate>| estimate.map_or(String::new(), with_interval);
        let mut row = vec![display::markdown(&set.name)];
        row.extend(is_graded.then(|| cell(summary.mean_reward.as_ref())));
        row.push(cell(summary.greedy.as_ref()));
        row.extend(ks.iter().map(|k| cell(summary.pass_at_k.get(k))));
        row.push(cell(summary.unique_correct.values().next_back()));
        row.push(cell(summary.richness.as_ref().map(|richness| &richness.hill_1)));
        row.extend([summary.samples_each(), summary.problems.to_string()]);
        lines.push(row.join(" | "));
    }
    let table =
        |lines: &[String]| lines.iter().map(|line| format!("| {line} |\n")).collect::<String>();
    let model = display::markdown(&results.model);
    format!("{model}: Pass@k with 95 % intervals\n\n{}", table(&lines))
}

/// An estimate with its interval, three decimals each.
fn with_interval(estimate: &Estimate) -> String {
    let [value, low, high] = [estimate.value, estimate.low, estimate.high].map(|x| fixed(x, 3));
    format!("{value} [{low}, {high}]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{self, tally};

    fn results() -> Results {
        let problems = vec![tally("a", 4, 2), tally("b", 4, 0)];
        let set = SetResult {
            domain: Some("in".into()),
            temperature: Some(1.0),
            ..fixtures::set("countdown/test", problems, &[1, 4])
        };
        fixtures::results("m, 1", set)
    }

    #[test]
    fn every_form_holds_the_same_numbers() {
        let results = results();
        let csv = csv(&results);
        assert!(csv.contains("\"m, 1\",countdown/test,in,1,pass@k,4,0.5,"), "{csv}");
        assert!(csv.lines().all(|line| line.matches(',').count() >= 8));
        assert!(markdown(&results).contains("| countdown/test |  | 0.250 ["));
    }

    #[test]
    fn results_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let text = serde_json::to_string(&results()).unwrap();
        std::fs::write(folder.path().join("results.json"), text).unwrap();
        assert_eq!(Results::load(folder.path()).unwrap(), results());
    }
}
