//! Chunks that are read, judged, counted and written at once: the results of one after the other, in any order of the
//! file, with few problems in memory.

use std::sync::Mutex;

use serde_json::json;
use tealight_datasets::verify;

use super::*;

const PROBLEMS: usize = 700;
const EACH: usize = 20;

/// Lines of completions, ordered by problem; every third is correct, in a few words of its own.
fn lines() -> Vec<String> {
    let mut lines = Vec::new();
    for problem in 0..PROBLEMS {
        for number in 0..EACH {
            let answer = if number % 3 == 0 { 7 } else { number % 5 };
            let words = ["so", "then", "thus", "hence"].map(|word| format!("{word}{}", number % 4));
            let text = format!("{} {} it is \\boxed{{{answer}}}", words.join(" "), problem % 11);
            let logp = -0.1 * (number + 1) as f64 / (problem + 1) as f64;
            lines.push(
                json!({"id": format!("p{problem}"), "gold": "7", "completion": text, "logp": logp})
                    .to_string(),
            );
        }
    }
    lines
}

/// The same in another order, which keeps that of each problem's completions.
fn scattered() -> Vec<String> {
    let lines = lines();
    let places =
        (0..EACH).flat_map(|number| (0..PROBLEMS).map(move |p| (p * 389 % PROBLEMS, number)));
    places.map(|(problem, number)| lines[problem * EACH + number].clone()).collect()
}

/// The samples and tallies of one record after the other.
fn one_by_one(lines: &[String]) -> (Vec<Sample>, Vec<Tally>) {
    let verifier = verify::open("math").unwrap();
    let job = GradeJob::new(&*verifier);
    let mut reader = Lines::new(&job, "f").unwrap();
    let (mut samples, mut tallies) = (Vec::new(), Vec::new());
    for line in lines {
        let mut source = Source::new(line.as_bytes(), "f").unwrap();
        let record = source.next().unwrap().unwrap();
        let Work { new, tasks } = reader.work(vec![parsed(record, Keys::default())]).unwrap();
        tallies.extend(new);
        for task in tasks {
            let problem = task.problem;
            let target = task.target.clone();
            let sample = Sample::judged(&target.problem, &*verifier, task.number, task.answer);
            let tally: &mut Tally = &mut tallies[problem];
            tally.add(&sample);
            samples.push(sample);
        }
    }
    (samples, tallies)
}

/// What is graded, the samples that the sink was given and their lines.
fn graded(
    text: &str,
    files: Option<[&File; 2]>,
    max_open: usize,
) -> (Result<Graded>, Vec<Sample>, Vec<u8>) {
    let verifier = verify::open("math").unwrap();
    let job = GradeJob { encodes: true, files, max_open, ..GradeJob::new(&*verifier) };
    let mut source = Source::new(text.as_bytes(), "f.jsonl").unwrap();
    let (mut samples, mut bytes) = (Vec::new(), Vec::new());
    let graded = job.run(&mut source, &mut |chunk| {
        samples.extend(chunk.samples.iter().cloned());
        bytes.extend(chunk.lines.concat());
        Ok(())
    });
    (graded, samples, bytes)
}

#[test]
fn chunks_at_once_give_the_bits_of_one_record_after_the_other_in_any_order() {
    for (lines, is_ordered) in [(lines(), true), (scattered(), false)] {
        let text = lines.join("\n") + "\n";
        let (samples, tallies) = one_by_one(&lines);
        assert_eq!((tallies.len(), tallies[0].samples), (PROBLEMS, EACH));
        let json = |tallies: &[Tally]| serde_json::to_string(tallies).unwrap();
        let expected = json(&tallies);
        let orders: Vec<Vec<usize>> = tallies
            .iter()
            .map(|tally| tally.classes.at(crate::Level::Text).multiplicities())
            .collect();
        for max_open in [usize::MAX, 10_000] {
            let files = [tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()];
            let (graded, handed, bytes) = graded(&text, Some(files.each_ref()), max_open);
            let graded = graded.unwrap();
            assert_eq!(handed, samples);
            let encoded: String =
                samples.iter().map(|one| serde_json::to_string(one).unwrap() + "\n").collect();
            assert_eq!(String::from_utf8(bytes).unwrap(), encoded);
            assert_eq!(json(&graded.tallies), expected, "max_open {max_open}");
            // Also in the order in which sums over classes are taken.
            let order = |tally: &Tally| tally.classes.at(crate::Level::Text).multiplicities();
            assert!(graded.tallies.iter().map(order).eq(orders.iter().cloned()));
            // A chunk has the completions of some 205 problems in order, and of all of them in no order.
            let is_few = graded.most_open < 420;
            assert_eq!(is_few, is_ordered && max_open < usize::MAX, "{}", graded.most_open);
        }
    }
}

#[test]
fn names_that_were_in_the_file_count_as_those_in_memory() {
    // Nine correct ones of each problem, the last long after the first.
    let line = |problem: usize, number: usize| {
        json!({"id": problem, "gold": "7", "completion": format!("w{number} x{problem} is \\boxed{{7}}")})
            .to_string()
    };
    let numbers = (0..9).flat_map(|number| (0..6000).map(move |problem| line(problem, number)));
    let text = numbers.collect::<Vec<_>>().join("\n");
    let (file, other) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    let [stored, in_memory] =
        [Some([&file, &other]), None].map(|files| graded(&text, files, 1000).0.unwrap());
    assert!(file.metadata().unwrap().len() > 0);
    assert_eq!(stored.tallies, in_memory.tallies);
    // Slots are used again: the file does not grow with the completions.
    assert!(file.metadata().unwrap().len() < 6000 * 2048, "{:?}", file.metadata());
}

#[test]
fn a_malformed_line_in_the_middle_ends_grading_after_what_comes_before_it() {
    let mut all = lines();
    all[9000] = "{oops}".into();
    all[9001] = "{worse}".into();
    all[13_000] = "{later}".into();
    let (graded, handed, _) = graded(&all.join("\n"), None, usize::MAX);
    let message = format!("{:#}", graded.err().unwrap());
    assert!(message.starts_with("f.jsonl:9001: not JSON"), "{message}");
    assert_eq!(handed.len(), 2 * CHUNK, "all whole chunks before it, in order");
    assert_eq!((handed[8191].problem.as_str(), handed[8191].sample), ("p409", 11));
}

#[test]
fn the_first_error_counts_and_the_sink_ends_grading() {
    let verifier = verify::open("math").unwrap();
    let job = GradeJob::new(&*verifier);
    // A line that is too long cannot be read; one before it is malformed.
    let mut all = lines();
    all.truncate(CHUNK + 10);
    all[CHUNK + 3] = "{oops}".into();
    let long = "x".repeat(tealight_core::lines::MAX_LINE + 1);
    // Lines of nothing at all are no records, and would not part the two.
    let text = format!("{}\n{}{long}", all.join("\n"), " \n".repeat(CHUNK));
    let message = |text: &str| {
        let mut source = Source::new(text.as_bytes(), "f.jsonl").unwrap();
        format!("{:#}", job.run(&mut source, &mut |_| Ok(())).err().unwrap())
    };
    let error = message(&text);
    assert!(error.starts_with(&format!("f.jsonl:{}: not JSON", CHUNK + 4)), "{error}");
    let error = message(&text.replace("{oops}", ""));
    assert!(error.contains("a line of more than"), "{error}");
    let calls = Mutex::new(0);
    let text = lines().join("\n");
    let mut source = Source::new(text.as_bytes(), "f.jsonl").unwrap();
    let ended = job.run(&mut source, &mut |_| {
        *calls.lock().unwrap() += 1;
        anyhow::bail!("stop")
    });
    assert_eq!(ended.err().unwrap().to_string(), "stop");
    assert_eq!(*calls.lock().unwrap(), 1);
}
