//! A first user's session: commands without `--output`, names from other tools, runs that stop, results as they look.

use crate::support::binary::{
    Folder, command, has, ok, printed, stderr_of, stdout_of, tealight, tealight_in, words,
};
use crate::support::processes::weights;
use crate::support::runs::{SMALL, trained};

#[test]
fn eval_and_grade_print_a_table_and_keep_nothing_without_output() {
    let folder = Folder::new();
    let temporary = folder.path("tmp");
    std::fs::create_dir_all(&temporary).expect("a folder");
    let run = |line: &str| {
        let done = tealight_in(temporary.as_ref(), &[("TMPDIR", &temporary)], line);
        assert!(done.status.success(), "{}", stderr_of(&done));
        assert_eq!(std::fs::read_dir(&temporary).expect("there").count(), 0, "{line}");
        assert!(stderr_of(&done).contains("nothing was saved"), "{}", stderr_of(&done));
        done
    };
    let done = run("eval --max-samples 4 -n 2");
    let table = stdout_of(&done);
    // Of two samples, Pass@1 and Pass@2 without being asked.
    assert!(table.contains("\n 1 ") && table.contains("\n 2 "), "{table}");
    assert!(table.contains("greedy pass@1") && table.contains("0.0 % truncated"), "{table}");
    let saved = folder.path("kept");
    let again = tealight(command!("eval --max-samples 4 -n 2 --output {saved}"));
    assert_eq!(table, stdout_of(&again), "the same numbers, kept or not");
    // Other programs' samples do not say how completions ended nor how long they are.
    let lines = folder
        .write("lm-eval.jsonl", "{\"doc_id\":1,\"target\":\"7\",\"resps\":[[\"7\",\"8\"]]}\n");
    let table = stdout_of(&run(&format!("grade {lines}")));
    has(&table, &["0.5000", "number of truncated completions unknown"]);
    assert!(table.contains("lengths unknown"), "{table}");
}

#[test]
fn prompts_of_letters_that_the_embedded_model_does_not_know_are_reported() {
    let folder = Folder::new();
    let rows = folder.write("rows.jsonl", "{\"prompt\": \"What is 1+1\", \"answer\": \"2\"}\n");
    let eval = |dataset: &str| {
        let set = format!("--dataset {dataset} --verifier exact --max-samples 2");
        ok(command!("eval {set} -n 1 -k 1 --no-greedy --device cpu"))
    };
    let text = eval(&rows);
    let line = text.lines().find(|line| line.contains("unknown to this model")).expect("a warning");
    assert!(line.contains(" % of the tokens") && line.contains("use a pretrained model"), "{text}");
    assert!(!eval("countdown").contains("unknown to this model"));
}

#[test]
fn objectives_lists_the_common_ones_and_all_on_request() {
    let (some, all) = (printed("objectives"), printed("objectives --all"));
    assert!(some.contains("  grpo\n") && !some.contains("  unlikeliness"), "{some}");
    for name in ["divergence", "reverse-kl", "kl-full", "forward-kl", "js"] {
        assert!(some.contains(&format!("\n  {name}[:")), "{name}: {some}");
    }
    for symbol in ["v is", "pi the", "a the base", "k1 ="] {
        assert!(some.starts_with("Symbols: ") && some.contains(symbol), "{symbol}: {some}");
    }
    let count = tealight::learn::objective::Objective::names().count();
    let count = format!("--all lists all {count}");
    assert!(some.lines().count() < 60 && some.contains(&count), "{some}");
    has(&all, &["  unlikeliness", "entropy-target", "Keys, for any"]);
}

#[test]
fn generate_says_what_the_embedded_model_can_do() {
    let ask =
        |prompt: &str| stderr_of(&tealight(&["generate", prompt, "--max-completion-length", "4"]));
    let words = "the embedded model `countdown` only plays Countdown";
    let answer = ask("What is 12 * 7?");
    assert!(answer.contains(words) && answer.contains("--model"), "{answer}");
    assert!(!ask("3,7,8,9=24:").contains(words));
}

#[test]
fn verify_explains_itself_and_fails_on_request() {
    let text = printed(&["verify", "--explain", "--gold", "so\n#### -3", "--answer", "\\boxed{3}"]);
    has(
        &text,
        &["verdict    incorrect", "gold       -3", "found      3", "rule       box, at byte 7"],
    );
    assert!(text.contains("at         \\boxed{3}\n                  ^\n"), "{text}");
    assert!(text.contains("why        the values differ: -3 is expected, 3 was found"), "{text}");
    let text = printed("verify --explain --verifier numeric --gold 3 --answer 4");
    has(&text, &["verdict    incorrect", "the verifier `numeric`"]);
    for (more, status) in [("4", 0), ("4 --check", 1), ("3 --check", 0)] {
        let done = tealight(command!("verify --gold 3 --answer {more}"));
        assert_eq!(done.status.code(), Some(status), "{more}");
    }
    let folder = Folder::new();
    let pairs = "{\"gold\":1,\"answer\":1}\n{\"gold\":1,\"answer\":2}\n";
    let done = tealight(command!("verify --check --jsonl {}", folder.write("p.jsonl", pairs)));
    assert_eq!(done.status.code(), Some(1));
    assert!(stderr_of(&done).contains("1 of 2 answers are not correct"), "{}", stderr_of(&done));
    assert_eq!(stdout_of(&done).lines().count(), 2, "every verdict is printed first");
}

#[test]
fn a_run_is_continued_by_its_directory_alone() {
    let folder = Folder::new();
    let (short, whole) = (folder.path("a run"), folder.path("whole"));
    let settings = "--max-samples 8 --save-steps 1 --objective js:0.4 --num-presamples 4";
    let line = format!("train --output @ {SMALL} {settings} --max-steps 1");
    let line: Vec<&str> =
        words(&line).into_iter().map(|word| if word == "@" { &short } else { word }).collect();
    let stderr = ok(&line);
    assert!(
        stderr.contains(&format!("tealight train --resume '{short}' --max-steps 2")),
        "{stderr}"
    );
    let text = ok(&["train", "--resume", &short, "--max-steps", "2", "--device", "cpu"]);
    assert!(text.contains("resumed from") && text.contains("checkpoint-1"), "{text}");
    trained(&whole, &format!("{settings} --max-steps 2"));
    assert!(weights(&short) == weights(&whole), "the run's own settings were taken");
    // A checkpoint is named by its path, and --output still names the run.
    let checkpoint = format!("{short}/checkpoint-1");
    let text = ok(&["train", "--resume", &checkpoint, "--max-steps", "2", "--device", "cpu"]);
    assert!(text.contains("checkpoint-1"), "{text}");
    // A schedule that ends cannot be taken further, and nothing says that it can.
    let falling = folder.path("falling");
    let stderr =
        stderr_of(&trained(&falling, "--max-steps 1 --save-steps 1 --lr-scheduler-type linear"));
    assert!(!stderr.contains("--resume"), "{stderr}");
}
