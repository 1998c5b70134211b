//! The pieces that `train`, `eval` and `study` are made of: sample the base, evaluate once. `fine_tune` has
//! the rest.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;
use candle_core::Device;
use tealight_datasets::Dataset;
use tealight_eval::evaluate::{DrawPart, DrawnSink, Team, evaluate};
use tealight_eval::{Sample, Solver, Tally, store};

use crate::generate::{Filters, LocalSampler, RngKey, Sampler, SamplingParams};
use crate::model::Decoder;
use crate::objective::Plan;
use crate::policy::Policy;
use crate::presample::{self, Presamples, presample};
use crate::pretrained::Pretrained;
use crate::ranks::Ranks;
use crate::rollout::{Collector, Encoded};
use crate::sampled::Sampled;
use crate::solver::LocalSolver;
use crate::telemetry::{JsonLines, Progress};
use crate::tokenizer::Tokenizer;
use crate::train::Stop;
use crate::train::rlvr::{RlvrConfig, wants_extra_check, wants_presamples};

/// Keys the randomness of evaluations apart from that of training.
const EVALUATION: u64 = u64::MAX - 2;

/// The seed of a base's second draw, whose samples are independent of those that `seed` gives and of those of any other
/// small number.
pub(crate) fn seed_of_second_draw(seed: u64) -> u64 {
    !seed
}

/// A base model, where it runs, and who may stop it.
pub(crate) struct Session<'a> {
    pub(crate) base: &'a Pretrained,
    pub(crate) reference: Decoder,
    /// The policy that took the base's weights over, where nothing reads the base once it is trained; `reference` is
    /// then its decoder, and the base's only until the first step.
    pub(crate) taken: Option<Policy>,
    pub(crate) device: Device,
    pub(crate) stop: &'a Stop,
    /// The processes that do it together.
    pub(crate) ranks: Ranks,
}

/// How an evaluation is drawn.
#[derive(Clone, Copy)]
pub(crate) struct Draw<'a> {
    pub(crate) n: usize,
    pub(crate) params: &'a SamplingParams,
    pub(crate) seed: u64,
    pub(crate) max_num_seqs: usize,
}

impl Draw<'_> {
    /// What answers problems by a model that is only sampled from.
    pub(crate) fn solver<'m>(&self, model: &'m Sampled) -> LocalSolver<'m> {
        let eos = model.tokenizer.eos().to_vec();
        LocalSolver {
            sampler: model.sampler(self.max_num_seqs),
            context: model.context,
            tokenizer: &model.tokenizer,
            params: SamplingParams { eos, ..self.params.clone() },
            rng_key: RngKey { seed: self.seed, step: EVALUATION },
        }
    }
}

impl<'a> Session<'a> {
    pub(crate) fn new(base: &'a Pretrained, device: Device, stop: &'a Stop) -> Result<Self> {
        let reference = base.decoder()?;
        Ok(Self { base, reference, taken: None, device, stop, ranks: Ranks::alone() })
    }

    /// One of a single run in which nothing reads the base once it is trained: no second copy of its weights is held.
    pub(crate) fn without_base(
        base: &'a mut Pretrained,
        device: Device,
        stop: &'a Stop,
    ) -> Result<Self> {
        let policy = base.take_policy()?;
        let reference = policy.decoder().clone();
        Ok(Self { base, reference, taken: Some(policy), device, stop, ranks: Ranks::alone() })
    }

    /// One in which nothing is trained: the weights are packed for sampling and in memory once.
    pub(crate) fn sampling(
        base: &'a mut Pretrained,
        device: Device,
        stop: &'a Stop,
    ) -> Result<Self> {
        let reference = base.take_sampling_decoder()?;
        Ok(Self { base, reference, taken: None, device, stop, ranks: Ranks::alone() })
    }

    /// The same, with the others of `ranks`.
    pub(crate) fn among(self, ranks: &Ranks) -> Self {
        Self { ranks: ranks.clone(), ..self }
    }

    /// The base's samples, where the plan needs them: those of `--presamples`, or drawn into the run.
    pub(crate) fn presamples(
        &self,
        dataset: &Dataset,
        problems: &[Encoded<'_>],
        config: &RlvrConfig,
        plan: &Plan,
        output: &Path,
    ) -> Result<Option<Presamples>> {
        if !wants_presamples(config, plan) {
            return Ok(None);
        }
        let settings = &config.settings;
        let request = self.request(dataset, config, wants_extra_check(plan));
        if let Some(directory) = &settings.presamples {
            return Ok(Some(presample::load(directory, problems, &request)?));
        }
        let directory = output.join("presamples");
        Ok(Some(self.draw_presamples(
            dataset,
            problems,
            &request,
            settings.max_num_seqs,
            &directory,
        )?))
    }

    /// The samples of `--presamples` that a run reads for its log alone.
    pub(crate) fn presamples_to_log(
        &self,
        dataset: &Dataset,
        problems: &[Encoded<'_>],
        config: &RlvrConfig,
    ) -> Result<Option<Presamples>> {
        let settings = &config.settings;
        let Some(directory) = settings.presamples.as_ref().filter(|_| settings.log_divergences > 0)
        else {
            return Ok(None);
        };
        let request = self.request(dataset, config, false);
        Ok(Some(presample::load(directory, problems, &request)?))
    }

    /// Samples the base for runs of `config` into `directory`.
    pub(crate) fn presample(
        &self,
        dataset: &Dataset,
        config: &RlvrConfig,
        extra_check: bool,
        directory: &Path,
    ) -> Result<Presamples> {
        let settings = &config.settings;
        let context = self.base.architecture.max_positions;
        let room = settings.length();
        let problems = Encoded::all(&dataset.problems, &self.base.tokenizer, context, room)?;
        let request = self.request(dataset, config, extra_check);
        self.draw_presamples(dataset, &problems, &request, settings.max_num_seqs, directory)
    }

    fn request(
        &self,
        dataset: &Dataset,
        config: &RlvrConfig,
        extra_check: bool,
    ) -> presample::PresampleSpec {
        presample::PresampleSpec {
            model: self.base.name.clone(),
            dataset: dataset.name.clone(),
            num_presamples: config.settings.num_presamples,
            extra_check,
            temperature: config.settings.temperature,
            max_completion_length: config.settings.length(),
            seed: config.seed,
            precision: self.base.precision.of_model(),
        }
    }

    /// Samples the base into `directory`, or continues what is there.
    pub(crate) fn draw_presamples(
        &self,
        dataset: &Dataset,
        problems: &[Encoded<'_>],
        request: &presample::PresampleSpec,
        max_num_seqs: usize,
        directory: &Path,
    ) -> Result<Presamples> {
        let sampler = LocalSampler { decoder: &self.reference, max_rows: max_num_seqs };
        self.draw_presamples_from(&sampler, dataset, problems, request, directory)
    }

    /// The same from any sampler.
    pub(crate) fn draw_presamples_from(
        &self,
        sampler: &dyn Sampler,
        dataset: &Dataset,
        problems: &[Encoded<'_>],
        request: &presample::PresampleSpec,
        directory: &Path,
    ) -> Result<Presamples> {
        let params = self.presampling(request);
        let collector = Collector::new(sampler, &self.base.tokenizer, &*dataset.verifier, &params);
        let collector = collector.among(&self.ranks);
        let mut progress = Progress::new("sampling the base", problems.len());
        presample(&collector, problems, request, directory, &self.ranks, &mut || {
            progress.advance(String::new);
            self.stop.check()
        })
    }

    /// Draws completions in this process until each of some prompts has as many as `wanted` says of its place.
    pub(crate) fn draw_more_presamples(
        &self,
        dataset: &Dataset,
        problems: &[Encoded<'_>],
        presamples: &mut Presamples,
        wanted: &[(usize, usize)],
        max_num_seqs: usize,
        directory: &Path,
    ) -> Result<()> {
        let sampler = LocalSampler { decoder: &self.reference, max_rows: max_num_seqs };
        let params = self.presampling(&presamples.request);
        let collector = Collector::new(&sampler, &self.base.tokenizer, &*dataset.verifier, &params);
        let mut progress = Progress::new("sampling further", wanted.len());
        presample::draw_more(&collector, problems, presamples, wanted, directory, &mut || {
            progress.advance(String::new);
            self.stop.check()
        })
    }

    fn presampling(&self, request: &presample::PresampleSpec) -> SamplingParams {
        SamplingParams {
            temperature: request.temperature,
            filters: Filters::default(),
            max_new_tokens: request.max_completion_length,
            eos: self.eos().to_vec(),
        }
    }

    /// The same, but for what `samples` holds already, whole problems of it; what it holds in the end is in the
    /// dataset's order.
    pub(crate) fn evaluate_the_rest(
        &self,
        decoder: &Decoder,
        dataset: &Dataset,
        draw: &Draw<'_>,
        label: &str,
        samples: &Path,
    ) -> Result<Vec<Tally>> {
        let mut known = HashMap::new();
        if self.ranks.first(|| Ok(samples.exists()))? {
            known = store::read(samples)?.problems;
            self.ranks.wait()?;
            self.ranks.first(|| store::write_in_order(samples, dataset, &known))?;
        }
        let tallies = self.evaluate(decoder, dataset, draw, label, samples, &mut known)?;
        self.ranks.first(|| store::write_in_order(samples, dataset, &known))?;
        Ok(tallies)
    }

    /// The same, kept nowhere.
    pub(crate) fn tallies(
        &self,
        decoder: &Decoder,
        dataset: &Dataset,
        draw: &Draw<'_>,
        evaluating: &Evaluating<'_>,
    ) -> Result<Vec<Tally>> {
        let solver = self.solver(decoder, draw);
        let mut known = HashMap::new();
        let asked = (&solver as &dyn Solver, &Dealt(&self.ranks, draw.n) as &dyn Team);
        evaluate(dataset, asked, draw.n, &mut known, &mut |_| evaluating.stop.check())
    }

    /// What answers problems by a decoder.
    pub(crate) fn solver<'d>(&'d self, decoder: &'d Decoder, draw: &Draw<'_>) -> LocalSolver<'d> {
        LocalSolver {
            sampler: Box::new(LocalSampler { decoder, max_rows: draw.max_num_seqs }),
            context: decoder.architecture().max_positions,
            tokenizer: &self.base.tokenizer,
            params: draw.params.clone(),
            rng_key: RngKey { seed: draw.seed, step: EVALUATION },
        }
    }

    /// Draws and judges samples of `decoder`; they go to `samples` as they come, after those that are known from an
    /// earlier call.
    pub(crate) fn evaluate(
        &self,
        decoder: &Decoder,
        dataset: &Dataset,
        draw: &Draw<'_>,
        label: &str,
        samples: &Path,
        known: &mut HashMap<String, Vec<Sample>>,
    ) -> Result<Vec<Tally>> {
        let solver = self.solver(decoder, draw);
        let ranks = &self.ranks;
        let progress = Evaluating { label, is_silent: false, stop: self.stop, ranks };
        progress.run(dataset, &solver, draw.n, samples, known)
    }

    /// The tokens that end a completion.
    pub(crate) fn eos(&self) -> &[u32] {
        self.base.tokenizer.eos()
    }
}

/// An evaluation under way, whoever samples.
pub(crate) struct Evaluating<'a> {
    pub(crate) label: &'a str,
    pub(crate) is_silent: bool,
    pub(crate) stop: &'a Stop,
    pub(crate) ranks: &'a Ranks,
}

/// Problems dealt to ranks, with so many answers each.
pub(crate) struct Dealt<'a>(pub(crate) &'a Ranks, pub(crate) usize);

impl Team for Dealt<'_> {
    fn divide(
        &self,
        places: &[usize],
        draw: &mut DrawPart<'_>,
        sink: &mut DrawnSink<'_>,
    ) -> Result<()> {
        self.0.divide(places, self.1, draw, sink)
    }
}

impl Evaluating<'_> {
    /// Draws samples until there are `n` a problem, those in `known` included, and appends them to a file.
    pub(crate) fn run(
        &self,
        dataset: &Dataset,
        solver: &dyn Solver,
        n: usize,
        samples: &Path,
        known: &mut HashMap<String, Vec<Sample>>,
    ) -> Result<Vec<Tally>> {
        // One writes: the others have the same.
        let mut lines = match (self.ranks.is_first(), known.is_empty()) {
            (false, _) => None,
            (true, false) => Some(JsonLines::append(samples)?),
            (true, true) => Some(JsonLines::create(samples)?),
        };
        let is_whole = |id: &String| known.get(id).is_some_and(|samples| samples.len() >= n);
        let open = dataset.problems.iter().filter(|problem| !is_whole(&problem.id)).count();
        let mut progress = match self.is_silent {
            true => Progress::silent(self.label, open),
            false => Progress::new(self.label, open),
        };
        let (mut right, mut all) = (0, 0);
        let team = Dealt(self.ranks, n);
        evaluate(dataset, (solver, &team), n, known, &mut |batch| {
            // One write a problem: what a crash leaves is whole problems and at most one broken one.
            lines.as_mut().map_or(Ok(()), |lines| lines.write_all(batch))?;
            right += batch.iter().filter(|sample| sample.is_correct()).count();
            all += batch.len();
            progress.advance(|| format!("pass@1 {:.3}", right as f64 / all as f64));
            self.stop.check()
        })
    }
}
