//! Functions of Python that give the advantages of a group.

use serde_json::json;
use tealight_datasets::verify::group_function;

const FUNCTIONS: &str = r#"
import math

def centred(r, n):
    return [one - sum(r) / n for one in r]

def everything(**values):
    assert values["correct"] == [1, 0] and values["step"] == 7, values
    return values["logp"]

def short(r):
    return r[1:]

def undefined(r):
    return [math.nan for _ in r]

def infinite(r):
    return [0.0, -math.inf]

def word(r):
    return ["0.5", 1.0]

def one(r):
    return 0.5

def broken(r):
    return [one / 0 for one in r]

def hangs(r):
    while True:
        pass

def unknown(rewards):
    return rewards
"#;

#[test]
fn a_function_gives_one_finite_number_a_sample_or_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rule.py");
    std::fs::write(&file, FUNCTIONS).unwrap();
    let open = |name: &str| group_function(&format!("timeout=1:{}:{name}", file.display()));
    let centred = match open("centred") {
        Err(why) if why.contains("not found") || why.contains("ended while") => {
            return eprintln!("no python3, not tested: {why}");
        }
        opened => opened.unwrap(),
    };
    assert_eq!(centred.reads(), ["r", "n"]);
    let values = json!({"r": [1.0, 0.1], "n": 2});
    assert_eq!(centred.advantages(2, &values), Ok(vec![1.0 - 1.1 / 2.0, 0.1 - 1.1 / 2.0]));
    let all = json!({"r": [1.0, 0.0], "correct": [1, 0], "logp": [-0.1, -1.0 / 3.0], "step": 7});
    let everything = open("everything").unwrap();
    assert_eq!(everything.reads().len(), 12);
    assert_eq!(everything.advantages(2, &all), Ok(vec![-0.1, -1.0 / 3.0]));
    for (name, why) in [
        ("short", "returned 1 numbers for 2 samples"),
        ("undefined", "returned nan for sample 0, which is no finite number"),
        ("infinite", "returned -inf for sample 1"),
        ("word", "returned '0.5' for sample 0"),
        ("one", "returned 0.5, which is no list"),
        ("broken", "ZeroDivisionError: float division by zero (rule.py, line"),
        ("hangs", "took longer than 1 s"),
    ] {
        let message = open(name).expect(name).advantages(2, &json!({"r": [1.0, 0.0]})).unwrap_err();
        let place = format!("rule.py:{name}`");
        assert!(message.contains(why) && message.contains(&place), "{name}: {message}");
    }
    let message = open("unknown").err().expect("refused");
    assert!(message.contains("needs `rewards`, and can be given r, correct"), "{message}");
}
