//! The commands: for each its options, what `--help` says of it, and what runs it.

use anyhow::Result;
use clap::Args;

use super::commands::{Entry, Work};
use super::config_merge::resolve;
use super::evaluation::{audit, compare, eval, generate, report, verify};
use super::theory::{gap, lab};
use super::tools::{bench, doctor, objectives, tasks};
use super::training::{resume, sft, study, train};
use crate::app::audit::AuditOptions;
use crate::app::bench::BenchOptions;
use crate::app::compare::CompareOptions;
use crate::app::evaluate::EvalOptions;
use crate::app::export::{self, ExportOptions};
use crate::app::gap::GapOptions;
use crate::app::lab::LabOptions;
use crate::app::study::StudyOptions;
use tealight_system::process::Process;

/// What a command does with its options.
fn work<'m, T: 'm>(
    options: T,
    run: impl FnOnce(T, &Process) -> Result<()> + 'm,
) -> Result<Work<'m>> {
    Ok(Box::new(move |process| run(options, process)))
}

/// All commands, in the order of the help.
pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "study",
        options: |command| study::Flags::augment_args(StudyOptions::augment_args(command)),
        about: "Compare objectives: evaluate the base, fine-tune under each, evaluate, report",
        more: "\
`tealight objectives` describes the objectives. Without a model, a dataset or a task, the task colouring is studied with
the embedded model `tasks` and the values of recipes/default-study.toml (--dry-run prints them), which --task
reads for every task but countdown; the model `countdown` (--task countdown) has those of
recipes/countdown-study.toml. Flags and --config files take precedence.

Examples:
  tealight study --objectives 'grpo@{learning-rate=5e-5,1e-4},js@{1.2,2.4}' \\
      --tuning-pass-at-1 0.4 --seeds 0..3 --output study
  tealight study --task queens
  tealight study --task countdown
  tealight study --seeds 0..9 --plan",
        open: |m| work(study::resolve(m)?, |options, process| study::run(&options, m, process)),
    },
    Entry {
        name: "train",
        options: |command| train::Flags::augment_args(train::Settings::augment_args(command)),
        about: "Fine-tune a model with verifiable rewards under one objective",
        more: "\
`tealight objectives` describes the objectives.

Examples:
  tealight train --model Qwen/Qwen2.5-0.5B-Instruct --dataset openai/gsm8k/main:train \\
      --objective dph-js --output runs/js
  tealight train --use-peft --lora-r 16 --output runs/lora
  tealight train --config recipe:countdown --output runs/countdown
  tealight train --resume runs/js",
        open: |m| work(resume::resolve(m)?, |run, process| train::run(run, m, process)),
    },
    Entry {
        name: "eval",
        options: |command| {
            let command = eval::Flags::augment_args(EvalOptions::augment_args(command));
            // Training has the problems of the split `train` by default.
            command.mut_arg("dataset", |option| option.default_value("countdown/test"))
        },
        about: "Sample n completions of each problem and report Pass@k and distinct correct answers",
        more: "\
Example:
  tealight eval --model runs/js/final --dataset gsm8k/test.jsonl -n 64 -k 1,4,16,64 \\
      --output runs/js/test",
        open: |m| work(eval::resolve(m)?, |options, process| eval::run(&options, m, process)),
    },
    Entry {
        name: "generate",
        options: generate::GenerateOptions::augment_args,
        about: "Stream a completion, or chat",
        more: "\
The prompt is rendered by the model's chat template, unless --raw is given.

Examples:
  tealight generate --model Qwen/Qwen2.5-0.5B-Instruct 'What is 12 * 7?'
  tealight generate '3,7,8,9=24:' --raw -n 4
  tealight generate --model runs/js/final --file question.txt --json",
        open: |m| work(resolve(m)?, |options, _| generate::run(&options)),
    },
    Entry {
        name: "grade",
        options: |command| eval::Flags::augment_args(eval::GradeSettings::augment_args(command)),
        about: "Grade completions that another program sampled, with the numbers and report of eval",
        more: "\
Examples:
  tealight grade completions.jsonl --output graded
  tealight grade batch-output.jsonl --dataset gsm8k/test.jsonl --output graded",
        open: |m| work(resolve(m)?, |settings, process| eval::grade(settings, m, process)),
    },
    Entry {
        name: "compare",
        options: CompareOptions::augment_args,
        about: "Compare evaluations: differences, problems lost and gained",
        more: "\
Example:
  tealight compare runs/base/test runs/js/test --output runs/comparison",
        open: |m| work(resolve(m)?, |options, _| compare::run(&options)),
    },
    Entry {
        name: "audit",
        options: AuditOptions::augment_args,
        about: "Compare completions of a base and a tuned model: accuracy, losses, diversity",
        more: "\
Reads every file that grade reads, grades, pairs the problems, and writes one page and one JSON.
docs/how-to/audit.md says what each answer means.

Examples:
  tealight audit base.jsonl tuned.jsonl --output audit
  tealight audit samples_gsm8k.jsonl vllm.jsonl --dataset gsm8k/test.jsonl --output audit
  tealight audit base.jsonl tuned.jsonl --second-draw base-seed2.jsonl --output audit",
        open: |m| work(resolve(m)?, |options, process| audit::run(&options, process)),
    },
    Entry {
        name: "report",
        options: report::ReportOptions::augment_args,
        about: "Write the report of a run again, also while the run goes on",
        more: "\
Example:
  tealight report runs/js",
        open: |m| work(resolve(m)?, |options, _| report::run(&options)),
    },
    Entry {
        name: "sft",
        options: |command| sft::Flags::augment_args(sft::Settings::augment_args(command)),
        about: "Fine-tune a model on worked solutions, or train one from scratch",
        more: "\
Example:
  tealight sft --model Qwen/Qwen2.5-0.5B --dataset gsm8k/train.jsonl --learning-rate 1e-5 \\
      --output runs/sft",
        open: |m| work(resume::resolve(m)?, |run, process| sft::run(run, m, &process.stop)),
    },
    Entry {
        name: "export",
        options: ExportOptions::augment_args,
        about: "Export a model: merge an adapter, convert weights, write GGUF, average runs",
        more: "\
--model reads:
  a directory in Hub layout (config.json, *.safetensors, tokenizer.json), also RUN/final, RUN/best
  and RUN/checkpoint-N of a run; a directory with a LoRA adapter in PEFT's format, with --merge;
  a .gguf file; a Hub id (OWNER/NAME, OWNER/NAME@REVISION, OWNER/NAME:FILE.gguf);
  countdown or tasks, the embedded models.
--output receives a directory in Hub layout, or with --gguf one GGUF file and a Modelfile.

Example:
  tealight export --model runs/lora/final --merge --save-dtype bfloat16 --output merged",
        open: |m| work(resolve(m)?, |options, _| export::run(&options)),
    },
    Entry {
        name: "gap",
        options: GapOptions::augment_args,
        about: "Measure how far a run is from its objective's optimum, and why: network or training",
        more: "\
The objective is J = E[v] - beta KL(pi || a), v being 1 for a correct output and a the base. Of all distributions
p_beta, the base reweighted by exp(v / beta), has the largest J. RUN is a run of `tealight train` on some problems of a
task whose outputs can be listed, such as --dataset colouring/train --max-samples 16.

Examples:
  tealight gap runs/kl
  tealight gap runs/kl --ascent-from projection,base --output runs/kl-gap",
        open: |m| work(resolve(m)?, |options, process| gap::run(&options, &process.stop)),
    },
    Entry {
        name: "lab",
        options: LabOptions::augment_args,
        about: "Compute exact optima of objectives on toy tasks, and whether an estimator is biased",
        more: "\
--prove computes the exact expected gradient on a toy task (three prompts, 27 outputs) and compares it
with the gradient of the claim. If they differ, the estimator is biased: --prove prints by how much.

Examples:
  tealight lab ends --beta 0.5,0.25,0.1,0.04 --alpha 0,0.5,0.9
  tealight lab ends --class bigram --beta 0.1 --json
  tealight lab dyck --beta 0.2,0.1
  tealight lab --paper 2605.02375
  tealight lab --prove rloo
  tealight lab --prove 'grpo:advantage=r-mean(r)' --claim 'E[v]'
  tealight lab --prove kl-k3:0.1 --claim 'E[v] - 0.1 KL(pi||a)'
  tealight lab --prove 'rloo:divergence=f=(t-1)^2/(t+1):beta=0.1'",
        open: |m| work(lab::resolve(m)?, |options, _| lab::run(&options)),
    },
    Entry {
        name: "verify",
        options: verify::VerifyOptions::augment_args,
        about: "Check answers against gold answers",
        more: "\
Examples:
  tealight verify --gold '\\frac{1}{2}' --answer 'The answer is \\boxed{0.5}' --explain
  tealight verify --jsonl answers.jsonl > verdicts.jsonl",
        open: |m| work(resolve(m)?, |options, _| verify::run(&options)),
    },
    Entry {
        name: "bench",
        options: BenchOptions::augment_args,
        about: "Measure the speed of sampling and of a training step, and its parts",
        more: "\
Examples:
  tealight bench --model Qwen/Qwen2.5-0.5B --prompts 2 --group 8 --prompt-len 64 --new-tokens 32
  tealight bench --model config.json --dtype bfloat16 --json   # random weights",
        open: |m| work(resolve(m)?, |options, _| bench::run(&options)),
    },
    Entry {
        name: "objectives",
        options: objectives::ObjectivesOptions::augment_args,
        about: "Describe the objectives: what each optimises, its keys, its paper, when to use it",
        more: "\
Examples:
  tealight objectives
  tealight objectives --all
  tealight objectives dph-js",
        open: |m| work(resolve(m)?, |options, _| objectives::run(&options)),
    },
    Entry {
        name: "tasks",
        options: tasks::TasksOptions::augment_args,
        about: "List the generated tasks whose answers can be counted, or print instances of one",
        more: "\
Examples:
  tealight tasks
  tealight tasks colouring -n 3
  tealight tasks paths/test-n7-m10 -n 100 --format reasoning-gym > paths.jsonl",
        open: |m| work(resolve(m)?, |options, _| tasks::run(&options)),
    },
    Entry {
        name: "doctor",
        options: doctor::DoctorOptions::augment_args,
        about: "Check this machine and this build",
        more: "\
Exits with status 1 where a check fails. The checks make no network requests.",
        open: |m| work(resolve(m)?, |options, _| doctor::run(&options)),
    },
];
