//! Functions of Python that judge.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tealight_core::Prompt;
use tealight_datasets::{CompletionText, Problem, Verdict, Verifier, verify};

use super::{problem, unjudged};

/// Opens `FILE:FUNCTION`; an error is its message.
fn open(argument: &str) -> Result<Arc<dyn Verifier>, String> {
    verify::open(&format!("python:{argument}")).map_err(|error| error.to_string())
}

const JUDGE: &str = r#"
import os, sys, time

def judge(gold, completion, prompt=None):
    if "hang" in completion:
        while True:
            pass
    if "sleep" in completion:
        time.sleep(60)
    if "raise" in completion:
        raise ValueError("no idea")
    if "exit" in completion:
        sys.exit(3)
    if "die" in completion:
        os._exit(3)
    if "deep" in completion:
        return judge(gold, completion, prompt)
    if "print" in completion:
        print('{"request": 0, "verdict": "correct"}')
        sys.stdout.write("x" * 1000)
        os.write(1, b"y" * 10)
    if "read" in completion:
        return len(sys.stdin.read()) > 0
    if "fork" in completion:
        os.fork()
    if "half" in completion:
        return 0.5
    if "more" in completion:
        return 1.5
    if "infinite" in completion:
        return {"reward": -float("inf")}
    if "word" in completion:
        return {"reward": "0.5"}
    if "both" in completion:
        return {"verdict": "no_answer", "reward": 0.25}
    if "class" in completion:
        return {"reward": 0.75, "class": "c"}
    if "nan" in completion:
        return float("nan")
    if "none" in completion:
        return None
    if "prompt" in completion:
        return prompt == "?"
    if "many" in completion:
        return {"verdict": "correct", "class": "c" * 2_000_000}
    if "object" in completion:
        return {"verdict": "wrong", "why": "so it is", "class": "8"}
    return gold in completion

judge_not = 7
"#;

/// Nothing where there is no interpreter.
fn judge() -> Option<(tempfile::TempDir, Arc<dyn Verifier>)> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("it's mine.py");
    std::fs::write(&file, JUDGE).unwrap();
    match open(&format!("timeout=1:{}:judge", file.display())) {
        Ok(program) => Some((folder, program)),
        Err(why) if why.contains("not found") || why.contains("ended while") => {
            eprintln!("no python3, not tested: {why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}

fn verdict(program: &Arc<dyn Verifier>, completion: &str) -> Verdict {
    program.verify(&problem("7"), completion)
}

#[test]
fn function_failures_are_unjudged_not_zero() {
    let Some((_folder, program)) = judge() else { return };
    assert_eq!(program.name(), "python");
    for right in ["7", "print 7", "7 fork", "prompt"] {
        assert!(verdict(&program, right).is_correct(), "{right}: {:?}", verdict(&program, right));
    }
    for wrong in ["8", "print 8", "read", "8 fork"] {
        assert_eq!(verdict(&program, wrong), Verdict::wrong(), "{wrong}");
    }
    let expected = Verdict::Wrong { why: Some("so it is".into()), answer: Some("8".into()) };
    assert_eq!(verdict(&program, "object"), expected);
    for (completion, why) in [
        ("hang", "longer than 1 s"),
        ("sleep", "longer than 1 s"),
        ("raise", "ValueError: no idea (it's mine.py, line 11)"),
        ("exit", "SystemExit: 3"),
        ("die", "ended without an answer"),
        ("deep", "RecursionError"),
        ("nan", "returned nan"),
        ("more", "returned 1.5"),
        ("infinite", "reward -inf is not"),
        ("word", "reward '0.5' is not"),
        ("none", "returned None"),
        ("many", "more than"),
    ] {
        let reason = unjudged(verdict(&program, completion));
        assert!(reason.contains(why), "{completion}: {reason}");
        assert!(verdict(&program, "7").is_correct(), "after {completion}");
    }
}

#[test]
fn a_function_grades_and_the_threshold_decides() {
    let Some((folder, program)) = judge() else { return };
    let judged = |completion: &str| {
        let answer = CompletionText { full: completion, answer: Some(completion) };
        (verdict(&program, completion), program.grade(&problem("7"), answer).reward)
    };
    assert_eq!(judged("7"), (verdict(&program, "7"), 1.0));
    assert_eq!(judged("8"), (Verdict::wrong(), 0.0));
    assert_eq!(judged("half"), (Verdict::wrong(), 0.5), "the threshold is 1 unless given");
    assert_eq!(judged("both"), (Verdict::NoAnswer, 0.25), "a verdict beside it stands");
    assert_eq!(judged("nan").1, 0.0);
    let spec = format!("python:{}:judge", folder.path().join("it's mine.py").display());
    let loose = verify::open_graded(&spec, Some(0.5)).unwrap();
    assert!(loose.verify(&problem("7"), "half").is_correct());
    let class = loose.verify(&problem("7"), "class");
    assert_eq!(class, Verdict::correct("c", "7"));
    assert_eq!(loose.grading().threshold, Some(0.5));
}

#[test]
fn unloadable_functions_are_refused_before_judging() {
    let Some((folder, _)) = judge() else { return };
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("broken.py"), "def judge(:").unwrap();
    std::fs::write(path("gone.py"), "import a_module_that_is_not_there").unwrap();
    std::fs::write(path("quits.py"), "import sys; sys.exit(0)").unwrap();
    for (spec, why) in [
        (format!("{}:judge", path("none.py")), "no such file"),
        (format!("{}:other", path("it's mine.py")), "no function `other`"),
        (format!("{}:judge_not", path("it's mine.py")), "no function `judge_not`"),
        (format!("{}:judge", path("broken.py")), "SyntaxError"),
        (format!("{}:judge", path("gone.py")), "a_module_that_is_not_there"),
        (format!("{}:judge", path("quits.py")), "SystemExit"),
        (path("it's mine.py"), "as in python:"),
        ("timeout=x:a.py:f".into(), "no number of seconds"),
    ] {
        match open(&spec) {
            Err(error) => {
                assert!(error.contains(why), "{spec}: {error}");
                let says_line = spec.contains("broken.py");
                let places = error.matches("broken.py, line 1").count();
                assert_eq!(places, usize::from(says_line), "{error}");
            }
            Ok(_) => panic!("{spec}: opened"),
        }
    }
}

const TRL: &str = r#"
async def waits(completions, **kwargs):
    return [0.5]

def texts(completions, answer, **kwargs):
    assert sorted(kwargs) == ["gold", "ground_truth", "id", "label", "prompts", "solution", "target"], kwargs
    assert kwargs["prompts"] == ["?"]
    return [float(right in text) for right, text in zip(answer, completions)]

def conversations(prompts, completions, solution):
    found = [right in completion[0]["content"] for right, completion in zip(solution, completions)]
    assert prompts[0][-1] == {"role": "user", "content": "?"}
    return found

def two(completions):
    return [1, 1]

def broken(completions, **kwargs):
    return [len(completions[0]) / 0]

def difficult(completions, difficulty, label, gold, **kwargs):
    assert (label, gold, kwargs["answer"]) == (["easy"], ["7"], ["so 7"]) and "prompt" not in kwargs, (label, gold, kwargs)
    return [float(difficulty == [3])]

def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    assert (data_source, extra_info) == ("gsm8k", {"index": 3}), (data_source, extra_info)
    return {"score": float(ground_truth in solution_str), "acc": True}

def plain_score(solution_str, ground_truth, method="strict"):
    return ground_truth in solution_str and method == "strict"

def swapped(completion, gold):
    return gold in completion and completion != gold

def beside(completion, reference):
    return reference in completion and completion != reference

def predicted(predict_str, ground_truth):
    return ground_truth in predict_str and ground_truth != predict_str

def generated(model_output, expected):
    return expected in model_output and expected != model_output

def second(x, target):
    return target in x and target != x

def unnamed(a, b):
    return a in b and a != b

def doubled(output, prediction):
    return True

def unfit(gold, completion, question):
    return True

def both(gold, completion, prompt, messages):
    return [prompt, messages] == ["?", [{"role": "user", "content": "?"}]]
"#;

/// A file with the reward functions, where Python is there.
fn rewards() -> Option<(tempfile::TempDir, std::path::PathBuf)> {
    judge()?;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rewards.py");
    std::fs::write(&file, TRL).unwrap();
    Some((folder, file))
}

#[test]
fn functions_of_trl_are_called_with_lists() {
    let Some((_folder, file)) = rewards() else { return };
    let named = |name: &str| open(&format!("{}:{name}", file.display()));
    for name in ["texts", "conversations"] {
        let program = named(name).unwrap();
        assert_eq!(program.probe(&problem("7")), Ok(None), "{name}");
        assert!(verdict(&program, "it is 7").is_correct(), "{name}");
        assert_eq!(verdict(&program, "it is 8"), Verdict::wrong(), "{name}");
        assert_eq!(program.complaint(), None);
    }
    assert!(named("waits").unwrap().probe(&problem("7")).is_ok());
    let message = named("unfit").err().expect("refused");
    assert!(message.contains("needs `question`"), "{message}");
    let message = named("doubled").err().expect("refused");
    assert!(message.contains("`output` and `prediction` may both be the completion"), "{message}");
    // Columns have their rows' values, also those with the name of a gold answer.
    let difficult = named("difficult").unwrap();
    let message = difficult.probe(&problem("7")).unwrap_err();
    assert!(message.contains("needs `difficulty`"), "{message}");
    let row = json!({"prompt": "?", "answer": "so 7", "label": "easy", "difficulty": 3});
    let columns = row.as_object().cloned().map(Arc::new);
    assert!(difficult.verify(&Problem { columns, ..problem("7") }, "7").is_correct());
    for (name, why) in [
        ("two", "returned 2 rewards for one completion"),
        ("broken", "ZeroDivisionError: division by zero (rewards.py, line 19)"),
    ] {
        let program = named(name).unwrap();
        let message = program.probe(&problem("7")).unwrap_err();
        assert!(message.contains(why) && message.contains("gold answer `7`"), "{message}");
        assert!(program.complaint().is_some_and(|complaint| complaint.contains(why)));
    }
}

#[test]
fn parameters_are_given_by_their_names_where_a_name_is_that_of_a_completion() {
    let Some((_folder, file)) = rewards() else { return };
    for (name, row) in [
        ("compute_score", json!({"data_source": "gsm8k", "extra_info": {"index": 3}})),
        (
            "compute_score",
            json!({"data_source": "gsm8k", "extra_info": {"index": 3}, "reward_model": {"ground_truth": "7"}}),
        ),
        ("plain_score", json!({})),
        ("swapped", json!({})),
        ("beside", json!({})),
        ("predicted", json!({})),
        ("generated", json!({})),
        ("second", json!({})),
        ("unnamed", json!({})),
    ] {
        let program = open(&format!("{}:{name}", file.display())).unwrap();
        let columns = row.as_object().cloned().map(Arc::new);
        let asked = Problem { columns, ..problem("7") };
        assert!(
            program.verify(&asked, "it is 7").is_correct(),
            "{name}: {:?}",
            program.complaint()
        );
        assert_eq!(program.verify(&asked, "it is 8"), Verdict::wrong(), "{name}");
    }
}

#[test]
fn the_trial_call_warns_of_a_gold_answer_that_is_incorrect() {
    let Some((_folder, program)) = judge() else { return };
    let probed = |gold: &str| program.probe(&problem(gold)).unwrap().unwrap_or_default();
    for quiet in ["7", "half", "none"] {
        assert_eq!(probed(quiet), "", "{quiet}");
    }
    let warning = probed("object");
    for words in ["mine.py:judge`", "gold answer `object`", "problem `p`", "incorrect (so it is)"] {
        assert!(warning.contains(words), "{warning}");
    }
}

#[test]
fn prompts_and_golds_are_the_same_however_a_command_holds_them() {
    let Some((_folder, file)) = rewards() else { return };
    let program = open(&format!("{}:both", file.display())).unwrap();
    for prompt in [Prompt::Text("?".into()), Prompt::question("?"), Prompt::Text("?\n".into())] {
        let problem = Problem::new("p", prompt, "so \\boxed{7}");
        assert!(program.verify(&problem, "7").is_correct(), "{problem:?}");
    }
    let (_folder, by_gold) = judge().unwrap();
    assert!(by_gold.verify(&problem("3 + 4 = 7\n#### 7"), "it is 7").is_correct());
}

#[test]
fn hanging_function_costs_one_timeout() {
    let Some((_folder, program)) = judge() else { return };
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| unjudged(verdict(&program, "hang")));
        }
    });
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}
