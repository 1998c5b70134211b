//! A model, its tokenizer and sampling settings as the solver that evaluations ask.

use anyhow::Result;
use tealight_eval::{AnswerSink, Completion, ProblemRequest, Solver};

use super::sampled::Sampled;
use tealight_learn::rollout::{Encoded, thinking};
use tealight_nn::generate::{Finish, RngKey, SampleRequest, Sampler, SamplingParams};
use tealight_nn::tokenizer::Tokenizer;

/// Keys the randomness of evaluations apart from that of training.
const EVALUATION: u64 = u64::MAX - 2;

/// Answers problems by sampling.
pub struct LocalSolver<'a> {
    /// The model.
    pub sampler: Box<dyn Sampler + 'a>,
    /// Most tokens of a prompt and its completion together.
    pub context: usize,
    /// Writes prompts and reads completions.
    pub tokenizer: &'a dyn Tokenizer,
    /// How tokens are drawn.
    pub params: SamplingParams,
    /// Keys the randomness; a sample also depends on its problem's key and its number.
    pub rng_key: RngKey,
}

impl<'a> LocalSolver<'a> {
    /// Samples from `model`, at most `max_rows` sequences at a time. The completions end at its end-of-sequence tokens.
    ///
    /// ```no_run
    /// use tealight_nn::device::{self, Precision};
    /// use tealight_nn::generate::{Filters, SamplingParams};
    /// use tealight_formats::pretrained::Pretrained;
    /// use tealight::solvers::sampled::Sampled;
    /// use tealight::solvers::local::LocalSolver;
    /// use tealight_datasets::read::Columns;
    /// use tealight_eval::evaluate::EvalJob;
    ///
    /// let (device, _) = device::open("cpu")?;
    /// let model = Sampled::ours(Pretrained::load("countdown", Precision::default(), &device)?)?;
    /// let (filters, eos) = (Filters::default(), Vec::new());
    /// let params = SamplingParams { temperature: 1.0, filters, max_new_tokens: 32, eos };
    /// let solver = LocalSolver::new(&model, params, 0, 256);
    /// let dataset = tealight_datasets::open("countdown/test", &Columns::default(), Some(8))?;
    /// let tallies = EvalJob::new(&dataset, 4, &solver).run()?;
    /// # anyhow::Ok(())
    /// ```
    pub fn new(model: &'a Sampled, params: SamplingParams, seed: u64, max_rows: usize) -> Self {
        Self {
            sampler: model.sampler(max_rows),
            context: model.context,
            tokenizer: &model.tokenizer,
            params: SamplingParams { eos: model.tokenizer.eos().to_vec(), ..params },
            rng_key: Self::rng_key(seed),
        }
    }

    /// Keys the randomness of an evaluation with this seed.
    pub fn rng_key(seed: u64) -> RngKey {
        RngKey { seed, step: EVALUATION }
    }
}

impl Solver for LocalSolver<'_> {
    fn solve(
        &self,
        problems: &[ProblemRequest<'_>],
        n: usize,
        sink: &mut AnswerSink<'_>,
    ) -> Result<()> {
        let encoded = Encoded::all(
            problems.iter().map(|request| request.problem),
            self.tokenizer,
            self.context,
            self.params.max_new_tokens,
        )?;
        let opens: Vec<bool> = encoded.iter().map(|problem| problem.opens_thought).collect();
        let requests: Vec<SampleRequest> = encoded
            .into_iter()
            .zip(problems)
            .map(|(problem, request)| SampleRequest {
                prompt: problem.prompt,
                first: request.known,
                count: n.saturating_sub(request.known),
                key: request.key,
            })
            .collect();
        self.sampler.generate(&requests, &self.params, self.rng_key, &mut |index, completions| {
            let answers = completions
                .into_iter()
                .map(|completion| {
                    let text = self.tokenizer.decode(&completion.tokens)?;
                    let starts_inside = opens[index];
                    let thought =
                        thinking::tokens(self.tokenizer, &completion.tokens, &text, starts_inside);
                    Ok(Completion {
                        text,
                        starts_inside,
                        thought_tokens: thought?,
                        is_finished: completion.finish == Finish::Stop,
                        tokens: completion.tokens.len(),
                        logp: Some(completion.logp.iter().map(|logp| f64::from(*logp)).sum()),
                        ..Completion::default()
                    })
                })
                .collect::<Result<_>>()?;
            sink(index, answers)
        })
    }
}
