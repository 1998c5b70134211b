//! Programs that judge, and those that fail to.

use std::process::Command;
use std::time::Duration;

use tealight_datasets::verify::Program;
use tealight_datasets::{CompletionText, Verdict, Verifier};

use super::{problem, unjudged};

const GRADER: &str = r#"while read -r line; do n=${line#*\"request\":}; n=${n%%,*}; case "$line" in
    *boom*) exit 3 ;;
    *sleep*) sleep 30 ;;
    *twice*) for i in 1 2; do echo "{\"request\":$n,\"verdict\":\"wrong\"}"; done ;;
    *mute*) echo '{"verdict":"correct"}' ;;
    *long*) head -c 2000000 /dev/zero; echo ;;
    *half*) echo "{\"request\":$n,\"reward\":0.5}" ;;
    *two*) echo "{\"request\":$n,\"reward\":2}" ;;
    *minus*) echo "{\"request\":$n,\"verdict\":\"correct\",\"reward\":-0.1}" ;;
    *huge*) echo "{\"request\":$n,\"reward\":1e999}" ;;
    *nan*) echo "{\"request\":$n,\"reward\":NaN}" ;;
    *neither*) echo "{\"request\":$n}" ;;
    *'"completion":"7"'*) echo "{\"request\":$n,\"verdict\":\"correct\",\"class\":\"seven\"}" ;;
    *) echo "{\"request\":$n,\"verdict\":\"wrong\",\"why\":\"not 7\"}" ;; esac; done"#;

#[test]
fn program_failures_are_unjudged_not_zero() {
    let program = Program::new(&format!("timeout=1:{GRADER}")).unwrap();
    assert_eq!(program.verify(&problem("7"), "7"), Verdict::correct("seven", "7"));
    assert_eq!(program.verify(&problem("7"), "8"), Verdict::because("not 7".into()));
    assert_eq!(program.complaint(), None);
    for (completion, why) in [
        ("boom", "ended"),
        ("sleep", "longer than 1 s"),
        ("mute", "repeats no `\"request\":"),
        ("long", "more than"),
    ] {
        let reason = unjudged(program.verify(&problem("7"), completion));
        assert!(reason.contains(why), "{completion}: {reason}");
    }
    assert!(program.verify(&problem("7"), "7").is_correct(), "it is started again");
}

#[test]
fn the_trial_call_warns_of_a_gold_answer_that_is_incorrect() {
    let program = Program::new(&format!("timeout=1:{GRADER}")).unwrap();
    let probed = |gold: &str| program.probe(&problem(gold));
    assert_eq!(probed("7"), Ok(None));
    let warning = probed("9").unwrap().unwrap();
    for words in ["gold answer `9`", "problem `p`", "incorrect (not 7)"] {
        assert!(warning.contains(words), "{warning}");
    }
    // A program that fails is started again.
    assert_eq!(probed("boom"), Ok(None));
    assert_eq!(probed("half"), Ok(None));
}

#[test]
fn extra_output_lines_are_reported() {
    let program = Program::new(GRADER).unwrap();
    for _ in 0..5 {
        assert!(!program.verify(&problem("7"), "twice").is_correct());
        assert!(program.verify(&problem("7"), "7").is_correct());
        assert!(!program.verify(&problem("7"), "8").is_correct());
    }
    assert!(program.complaint().unwrap().contains("repeats no"));
}

#[test]
fn program_that_reads_nothing_times_out() {
    let program = Program::new("timeout=1:sleep 30").unwrap();
    let long = "x".repeat(1 << 20);
    unjudged(program.verify(&problem("7"), &long));
}

/// Whether a process with `mark` among its arguments runs.
fn runs(mark: &str) -> bool {
    // Where there is /proc there need not be `ps`.
    let Ok(processes) = std::fs::read_dir("/proc") else {
        let list = Command::new("ps").args(["-A", "-o", "args"]).output().unwrap();
        return String::from_utf8_lossy(&list.stdout).contains(mark);
    };
    let lines = processes.flatten().flat_map(|entry| std::fs::read(entry.path().join("cmdline")));
    let words = |line: Vec<u8>| String::from_utf8_lossy(&line).replace('\0', " ");
    lines.map(words).any(|line| line.contains(mark))
}

#[test]
fn timed_out_program_is_killed_with_its_children() {
    let mark = format!("{}", 86_000 + std::process::id() % 1000);
    // The command itself, a child of it in the background, and a busy one.
    let command = format!("timeout=0.2:sleep {mark}.5 & while :; do sleep {mark}.25; done");
    let program = Program::new(&command).unwrap();
    unjudged(program.verify(&problem("7"), "7"));
    drop(program);
    std::thread::sleep(Duration::from_millis(300));
    assert!(!runs(&format!("sleep {mark}")), "something goes on");
}

#[test]
fn many_threads_get_their_own_answers() {
    let program = Program::new(GRADER).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let program = &program;
            scope.spawn(move || {
                for round in 0..50 {
                    let right = (thread + round) % 2 == 0;
                    let answer = if right { "7" } else { "8" };
                    assert_eq!(program.verify(&problem("7"), answer).is_correct(), right);
                }
            });
        }
    });
}

#[test]
fn invalid_commands_and_outputs_are_refused() {
    assert!(Program::new("timeout=1e19:cat").is_err());
    assert!(Program::new(" ").is_err() && Program::new("timeout=x:cat").is_err());
    let cat = Program::new("cat").unwrap();
    unjudged(cat.verify(&problem("7"), "7"));
}

#[test]
fn program_rewards_outside_0_to_1_are_unjudged() {
    let grade = |program: &Program, completion: &str| {
        program.grade(&problem("7"), CompletionText { full: completion, answer: None })
    };
    let program = Program::new(GRADER).unwrap();
    let half = grade(&program, "half");
    assert_eq!((half.reward, half.verdict.is_correct()), (0.5, false));
    assert_eq!(grade(&program, "7").reward, 1.0);
    for (completion, why) in [
        ("two", "gave the reward 2, which is not between 0 and 1"),
        ("minus", "gave the reward -0.1"),
        ("huge", "number out of range"),
        ("nan", "expected value"),
        ("neither", "neither a verdict nor a reward"),
    ] {
        let grade = grade(&program, completion);
        assert_eq!(grade.reward, 0.0, "{completion}");
        let reason = unjudged(grade.verdict);
        assert!(reason.contains(why) && reason.contains("while read"), "{completion}: {reason}");
    }
    let loose = program.from_reward(Some(0.5));
    assert!(grade(&loose, "half").verdict.is_correct());
}
