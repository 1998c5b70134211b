//! The pieces that `train`, `eval` and `study` are made of: a base model with a solver for each of its decoders, and
//! the base's samples. `fine_tune` has the rest.

use std::path::Path;

use anyhow::{Result, bail};
use candle_core::Device;
use tealight_datasets::Dataset;

use crate::app::directory;
use crate::app::evaluate::p_star::Scorer;
use crate::solvers::local::LocalSolver;
use tealight_core::ranks::Ranks;
use tealight_formats::pretrained::Pretrained;
use tealight_learn::objective::Plan;
use tealight_learn::presample::{self, Presamples, presample};
use tealight_learn::rollout::{Collector, Encoded, RewardUse};
use tealight_learn::train::rlvr::RlvrConfig;
use tealight_nn::generate::{Filters, LocalSampler, SamplingParams};
use tealight_nn::model::Decoder;
use tealight_nn::policy::Policy;
use tealight_nn::tokenizer::{HubTokenizer, Tokenizer};
use tealight_system::claim::Claim;
use tealight_system::stop::Stop;
use tealight_system::telemetry::Progress;

/// The error of graded rewards where verdicts are stored.
const VERDICTS_ALONE: &str = "stored samples of the base need verdicts, and this reward is between 0 and 1: set \
                              --correct-threshold, the smallest reward of a correct completion";

/// The treatment of graded rewards of the base's samples, which are stored with their verdicts alone.
pub(crate) fn stored_use(dataset: &Dataset) -> Result<RewardUse<'static>> {
    let grading = dataset.verifier.grading();
    match grading.threshold {
        Some(_) => Ok(RewardUse::Binary),
        None if grading.names.is_empty() => Ok(RewardUse::Refused(VERDICTS_ALONE)),
        None => bail!("{VERDICTS_ALONE}"),
    }
}

/// Refuses a directory of `--presamples` that holds something else.
fn refuse_other_files(directory: &Path) -> Result<()> {
    if presample::is_begun(directory) || directory::is_free(directory) {
        return Ok(());
    }
    bail!(
        "--presamples {}: holds files that are no samples of the base; choose another directory",
        directory.display()
    )
}

/// A base model, where it runs, and who may stop it.
pub(crate) struct Session<'a> {
    pub(crate) base: &'a Pretrained,
    pub(crate) base_decoder: Decoder,
    /// The policy that took the base's weights over, where nothing reads the base once it is trained; `base_decoder`
    /// is then its decoder, and the base's only until the first step.
    pub(crate) taken: Option<Policy>,
    pub(crate) device: Device,
    pub(crate) stop: &'a Stop,
    /// The processes that do it together.
    pub(crate) ranks: Ranks,
}

/// How many completions of each problem are sampled, and how.
#[derive(Clone, Copy)]
pub(crate) struct SamplingRequest<'a> {
    pub(crate) n: usize,
    pub(crate) params: &'a SamplingParams,
    pub(crate) seed: u64,
    pub(crate) max_num_seqs: usize,
}

impl SamplingRequest<'_> {
    /// A solver of problems by a decoder.
    pub(crate) fn solver<'m>(
        &self,
        decoder: &'m Decoder,
        tokenizer: &'m HubTokenizer,
    ) -> LocalSolver<'m> {
        LocalSolver {
            sampler: Box::new(LocalSampler { decoder, max_rows: self.max_num_seqs }),
            context: decoder.architecture().max_positions,
            tokenizer,
            params: SamplingParams { eos: tokenizer.eos().to_vec(), ..self.params.clone() },
            rng_key: LocalSolver::rng_key(self.seed),
        }
    }
}

impl<'a> Session<'a> {
    pub(crate) fn new(base: &'a Pretrained, device: Device, stop: &'a Stop) -> Result<Self> {
        let base_decoder = base.decoder()?;
        Ok(Self { base, base_decoder, taken: None, device, stop, ranks: Ranks::alone() })
    }

    /// One of a single run in which nothing reads the base once it is trained: no second copy of its weights is held.
    pub(crate) fn without_base(
        base: &'a mut Pretrained,
        device: Device,
        stop: &'a Stop,
    ) -> Result<Self> {
        let policy = base.take_policy()?;
        let base_decoder = policy.decoder().clone();
        Ok(Self { base, base_decoder, taken: Some(policy), device, stop, ranks: Ranks::alone() })
    }

    /// The same session as a rank for itself.
    pub(crate) fn alone(&self) -> Self {
        let (base_decoder, device) = (self.base_decoder.clone(), self.device.clone());
        Self { base_decoder, taken: None, device, ranks: Ranks::alone(), ..*self }
    }

    /// The same session as one of several ranks.
    pub(crate) fn with_ranks(self, ranks: &Ranks) -> Self {
        Self { ranks: ranks.clone(), ..self }
    }

    /// The base's samples of `--presamples`, where the plan needs them and all are there.
    pub(crate) fn stored_presamples(
        &self,
        dataset: &Dataset,
        problems: &[Encoded<'_>],
        config: &RlvrConfig,
        plan: &Plan,
    ) -> Result<Option<Presamples>> {
        let directory = config.settings.presamples.as_ref();
        let Some(directory) = directory.filter(|_| plan.needs_presamples()) else {
            return Ok(None);
        };
        refuse_other_files(directory)?;
        presample::load(
            directory,
            problems,
            &self.request(dataset, config, plan.wants_extra_check()),
        )
    }

    /// The base's samples that a run draws for itself, where it needs some.
    pub(crate) fn new_presamples(
        &self,
        dataset: &Dataset,
        problems: &[Encoded<'_>],
        config: &RlvrConfig,
        plan: &Plan,
        output: &Path,
    ) -> Result<Option<Presamples>> {
        if !plan.needs_presamples() {
            return Ok(None);
        }
        let settings = &config.settings;
        let request = self.request(dataset, config, plan.wants_extra_check());
        let named = settings.presamples.as_deref();
        let (own, is_named) = (output.join("presamples"), named.is_some());
        let place = (named.unwrap_or(&own), is_named);
        self.draw_presamples(dataset, problems, &request, settings.max_num_seqs, place).map(Some)
    }

    /// Samples the base for runs of `config` into a directory, which the user may have named.
    pub(crate) fn presample(
        &self,
        dataset: &Dataset,
        config: &RlvrConfig,
        extra_check: bool,
        place: (&Path, bool),
    ) -> Result<Presamples> {
        let settings = &config.settings;
        let context = self.base.architecture.max_positions;
        let max_new_tokens = settings.length();
        let problems =
            Encoded::all(&dataset.problems, &self.base.tokenizer, context, max_new_tokens)?;
        let request = self.request(dataset, config, extra_check);
        self.draw_presamples(dataset, &problems, &request, settings.max_num_seqs, place)
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

    /// Samples the base into `directory`, or continues what is there; one that the user named is claimed for the time.
    fn draw_presamples(
        &self,
        dataset: &Dataset,
        problems: &[Encoded<'_>],
        request: &presample::PresampleSpec,
        max_num_seqs: usize,
        (directory, is_named): (&Path, bool),
    ) -> Result<Presamples> {
        let mut claim = None;
        let request = &self.ranks.first(|| {
            if !is_named {
                return Ok(request.clone());
            }
            refuse_other_files(directory)?;
            claim.insert(Claim::take(directory)?).accept()?;
            presample::continued(directory, request)
        })?;
        let sampler = LocalSampler { decoder: &self.base_decoder, max_rows: max_num_seqs };
        let params = SamplingParams {
            temperature: request.temperature,
            filters: Filters::default(),
            max_new_tokens: request.max_completion_length,
            eos: self.base.tokenizer.eos().to_vec(),
        };
        let collector = Collector::new(&sampler, &self.base.tokenizer, &*dataset.verifier, &params);
        let collector = collector.using(stored_use(dataset)?).with_ranks(&self.ranks);
        let mut progress = Progress::new("sampling the base", problems.len());
        presample(&collector, problems, request, directory, &self.ranks, &mut || {
            progress.advance(String::new);
            self.stop.check()
        })
    }

    /// The base as a model whose log-probabilities are asked.
    pub(crate) fn scorer(&self) -> Scorer<'_> {
        Scorer { decoder: &self.base_decoder, tokenizer: &self.base.tokenizer }
    }
}
