//! `--report-to wandb`: a process of Python follows the metrics, ends with the run, and an untrusted run does not
//! start it. The packages themselves are tested in `python/tests/test_report_to.py`.

use std::process::Output;

use crate::support::binary::{Folder, program, stderr_of, words};
use crate::support::runs::SHORT;

/// A stand-in for the package, which writes what it is told to `told.txt`.
const WANDB: &str = r#"
import os
class Run:
    def __init__(self, **options):
        print("noise on standard output")
        assert not os.listdir("."), "not in an empty folder"
        self.file = open(os.environ["TOLD"], "a")
        self.file.write("init %s %s\n" % (options["project"], options["config"]["max_steps"]))
    def define_metric(self, *a, **b):
        pass
    def log(self, row):
        if os.environ.get("BREAK"):
            raise RuntimeError("no room")
        self.file.write("step %d reward %s\n" % (row["step"], "train/reward" in row))
    def finish(self):
        self.file.write("finish\n")
        self.file.close()
def init(**options):
    return Run(**options)
"#;

/// Runs the binary in a folder, with Python's search path.
fn run(folder: &Folder, place: &str, path: &str, set: &[(&str, &str)], line: &[&str]) -> Output {
    let mut command = program();
    command.current_dir(folder.path(place)).env("PYTHONPATH", path).envs(set.iter().copied());
    command.env("TOLD", folder.path("told.txt")).env("OWNED", folder.path("owned.txt"));
    command.timeout(std::time::Duration::from_secs(240)).args(line).output().expect("runs")
}

fn train(folder: &Folder, name: &str, to: &str, set: &[(&str, &str)]) -> Output {
    let line = format!("train --output {} {SHORT} --report-to {to}", folder.path(name));
    run(folder, "", &folder.path("packages"), set, &words(&line))
}

#[test]
fn rows_reach_the_package_and_its_failures_stop_no_step() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("packages")).expect("a folder");
    folder.write("packages/wandb.py", WANDB);
    let done = train(&folder, "told", "tensorboard,wandb", &[]);
    assert!(done.status.success(), "{}", stderr_of(&done));
    let told = std::fs::read_to_string(folder.path("told.txt")).expect("told");
    assert_eq!(told, "init tealight 2\nstep 1 reward True\nstep 2 reward True\nfinish\n");
    assert!(std::fs::read_dir(folder.path("told/tensorboard")).expect("events").count() > 0);
    let broken = train(&folder, "broken", "wandb", &[("BREAK", "1")]);
    assert!(broken.status.success(), "{}", stderr_of(&broken));
    assert!(stderr_of(&broken).contains("did not end in order"), "{}", stderr_of(&broken));
    // A run without the package does not begin.
    let missing = train(&folder, "missing", "wandb", &[("PYTHONPATH", "")]);
    if !missing.status.success() {
        assert!(stderr_of(&missing).contains("pip install wandb"), "{}", stderr_of(&missing));
        assert!(!folder.0.path().join("missing").exists(), "nothing is begun");
    }
    let set = [("TEALIGHT_PYTHON", "/nowhere/python")];
    let nobody = train(&folder, "nobody", "trackio", &set);
    assert!(stderr_of(&nobody).contains("does not start"), "{}", stderr_of(&nobody));
    assert!(!folder.0.path().join("nobody").exists(), "nothing is begun");
    // Continuing an untrusted run asks for it again (`resumed_runs`).
    let config = std::fs::read_to_string(folder.path("told/config.toml")).expect("settings");
    assert!(config.contains("report_to = [\"tensorboard\", \"wandb\"]"), "{config}");
}

/// Modules that say that they ran.
const PLANTED: &str = "import os; open(os.environ['OWNED'], 'a').write(__name__ + '\\n')\n";

#[cfg(unix)]
#[test]
fn no_child_interpreter_imports_from_the_current_folder() {
    let folder = Folder::new();
    for name in ["packages", "stranger", "stranger/wandb", "mine"] {
        std::fs::create_dir(folder.path(name)).expect("a folder");
    }
    folder.write("packages/wandb.py", WANDB);
    for module in ["json", "inspect", "re", "tempfile", "sitecustomize", "usercustomize", "trackio"]
    {
        folder.write(&format!("stranger/{module}.py"), PLANTED);
    }
    folder.write("stranger/wandb/__init__.py", PLANTED);
    folder.write("mine/helper.py", "def same(a, b):\n    return a in b\n");
    folder.write("mine/judge.py", "import json, helper\ndef judge(gold, completion):\n    return helper.same(gold, completion)\n");
    let judge = format!("python:{}:judge", folder.path("mine/judge.py"));
    let packages = folder.path("packages");
    let verify = ["verify", "--gold", "7", "--answer", "it is 7", "--verifier", &judge].to_vec();
    // Empty and relative entries of the search path, before and behind others, mean the current folder too.
    for (number, path) in [
        packages.clone(),
        format!(":{packages}"),
        format!("{packages}:"),
        format!(".:{packages}:./."),
        String::new(),
    ]
    .into_iter()
    .enumerate()
    {
        let output = folder.path(&format!("run{number}"));
        let train = format!("train --output {output} {SHORT} --report-to wandb");
        // Reporters and verifiers start Python alike: with the last two paths both are started.
        let lines = [words(&train), verify.clone()].into_iter().skip(usize::from(number < 3));
        for line in lines {
            let done = run(&folder, "stranger", &path, &[], &line);
            // Without the folder of packages there is no wandb.
            let is_missing = path.is_empty()
                && line[0] == "train"
                && stderr_of(&done).contains("pip install wandb");
            assert!(done.status.success() || is_missing, "{path}: {}", stderr_of(&done));
            let owned = std::fs::read_to_string(folder.path("owned.txt")).unwrap_or_default();
            assert!(owned.is_empty(), "{line:?} with PYTHONPATH={path} ran {owned}");
        }
    }
    let told = std::fs::read_to_string(folder.path("told.txt")).expect("the user's package ran");
    assert!(told.contains("finish"), "{told}");
}
