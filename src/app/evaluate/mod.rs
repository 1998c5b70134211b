//! Evaluation: sample a model on sets of problems and report accuracy and diversity.
//!
//! Samples are appended problem by problem, so a run that was killed goes on where it was; a run that is
//! done is judged again when the same command names another verifier or other k, without sampling.

mod engine;
mod eval_sets;
mod evaluation;
mod options;
pub(crate) mod outcome;
pub(crate) mod p_star;
pub(crate) mod progress;
mod request;

use anyhow::Result;

use crate::app::directory::Existing;
use evaluation::Evaluation;
pub use options::EvalOptions;
pub use outcome::{Doubtful, Judged};
use tealight_system::process::Process;

/// Evaluates a model, or a server's, and writes results, report and samples.
///
/// ```no_run
/// use tealight::app::directory::Existing;
/// use tealight::app::evaluate::{self, EvalOptions};
/// use tealight::app::settings::defaults;
/// use tealight::system::process::Process;
///
/// let mut options: EvalOptions = defaults();
/// options.data.dataset = "countdown/test".into();
/// (options.n, options.k) = (16, vec![1, 16]);
/// let judged = evaluate::run(&options, Existing::Keep, &Process::alone())?;
/// println!("pass@16: {}", judged.results.sets[0].summary.pass_at_k[&16].value);
/// # anyhow::Ok(())
/// ```
pub fn run(options: &EvalOptions, existing: Existing, process: &Process) -> Result<Judged> {
    Evaluation::open(options, existing, process)?.run()
}
