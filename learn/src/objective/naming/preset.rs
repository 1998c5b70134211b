//! The objectives of the field by name: each row a combination of choices with its paper's defaults.
//!
//! `docs/objectives.md` gives the mathematics of each and where it differs from its paper. To add one, add a row to the
//! list of its kind. `catalogue` says when each kind is the right one.

/// A named objective.
#[derive(Debug, PartialEq)]
pub(super) struct Preset {
    /// The name that users write.
    pub(super) name: &'static str,
    /// The keys that values without a name are for, in order.
    pub(super) positional: &'static [&'static str],
    /// The choices, in the language of `keys`.
    pub(super) keys: &'static str,
    /// The quantity that it optimises, on one line.
    pub(super) about: &'static str,
}

const fn row(
    name: &'static str,
    positional: &'static [&'static str],
    keys: &'static str,
    about: &'static str,
) -> Preset {
    Preset { name, positional, keys, about }
}

/// Controlled comparison.
pub(super) const CONTROLLED: &[Preset] = &[row(
    "divergence",
    &["member", "weight"],
    "member=none baseline=loo loss-type=dr_grpo",
    "the controlled family: its members differ in the divergence alone, all else is equal",
)];

/// Reward alone.
pub(super) const REWARD: &[Preset] = &[
    row(
        "grpo",
        &[],
        "baseline=group-std trust-region=ppo epsilon=0.2 loss-type=grpo",
        "group-normalised rewards, no KL (2402.03300; TRL's default beta 0)",
    ),
    row(
        "none",
        &[],
        "baseline=group-std trust-region=ppo loss-type=dapo",
        "GRPO without a divergence, token mean",
    ),
    row(
        "dr-grpo",
        &[],
        "baseline=group-mean trust-region=ppo epsilon=0.2 loss-type=dr_grpo",
        "GRPO without its length and difficulty biases (2503.20783)",
    ),
    row(
        "dapo",
        &[],
        "baseline=group-std trust-region=ppo epsilon=0.2 epsilon-high=0.28 loss-type=dapo \
         dynamic-sampling=true overlong-buffer=0.2 steps-per-generation=4",
        "clip-higher, dynamic sampling, overlong penalty, token mean (2503.14476)",
    ),
    row(
        "gspo",
        &[],
        "baseline=group-std trust-region=gspo epsilon=3e-4 epsilon-high=4e-4 loss-type=grpo steps-per-generation=4",
        "GRPO with importance ratios of whole sequences (2507.18071)",
    ),
    row(
        "cispo",
        &[],
        "baseline=group-std trust-region=cispo epsilon-high=5 loss-type=dapo steps-per-generation=4",
        "truncated importance weights, which keep the gradient of every token (2506.13585)",
    ),
    row(
        "gpg",
        &[],
        "baseline=valid-mean loss-type=dapo",
        "reward minus the group mean, without standard deviation or ratio; mean over groups with nonzero variance (2504.02546)",
    ),
    row(
        "reinforce",
        &[],
        "loss-type=dr_grpo",
        "policy gradient with the plain reward, without a baseline",
    ),
    row("rloo", &[], "baseline=loo loss-type=dr_grpo", "leave-one-out baseline (2402.14740)"),
    row(
        "remax",
        &[],
        "baseline=greedy loss-type=dr_grpo",
        "the greedy completion's reward as baseline (2310.10505)",
    ),
    row("maxrl", &[], "rule=maxrl loss-type=dapo", "the gradient of truncated log p (2602.02710)"),
];

/// KL penalty to the base.
pub(super) const KL_PENALTY: &[Preset] = &[
    row(
        "kl-reward",
        &["beta"],
        "divergence=reverse-kl beta=0.04 baseline=loo trust-region=ppo loss-type=dr_grpo",
        "exactly E[v] - beta KL(pi||a), with the KL (k1) subtracted from the reward; the optimum is p_beta",
    ),
    row(
        "reverse-kl",
        &["beta"],
        "divergence=reverse-kl beta=0.04 baseline=loo trust-region=ppo loss-type=dr_grpo",
        "another name of kl-reward, with the KL of samples (k1) in the reward; divergence:reverse-kl sums over the vocabulary",
    ),
    row(
        "kl-full",
        &["beta"],
        "divergence=reverse-kl estimator=full beta=0.04 baseline=loo trust-region=ppo loss-type=dr_grpo",
        "E[v] - beta KL(pi||a) with the KL summed over the vocabulary: less variance than kl-reward",
    ),
    row(
        "kl-k2",
        &["beta"],
        "divergence=reverse-kl estimator=k2 beta=0.04 baseline=loo trust-region=ppo loss-type=dr_grpo",
        "E[v] - beta KL(pi||a) with k2 in the loss, log-ratios of later tokens included in earlier tokens' penalty",
    ),
    row(
        "kl-k3",
        &["beta"],
        "divergence=reverse-kl estimator=k3 beta=0.04 baseline=group-std trust-region=ppo loss-type=grpo",
        "GRPO with the KL term of its paper: k3 in the loss, whose gradient is that of FORWARD KL",
    ),
];

/// Rehearsal of the base's correct answers.
pub(super) const REHEARSAL: &[Preset] = &[
    row(
        "dph-f",
        &["beta"],
        "divergence=forward-kl sampler=filtered pef-threshold=1 pef-samples=4 extra-check=true explore=rest rehearsal-samples=one rehearsal-mean=joint beta=0.01 baseline=group-std trust-region=ppo epsilon-high=0.28 dual-clip=3 loss-type=dapo steps-per-generation=2",
        "DPH-F as in the paper's repository: forward KL on one correct answer of each prompt that the base always solves, in one mean with the rollouts (2509.07430)",
    ),
    row(
        "dph-js",
        &["beta", "estimator"],
        "divergence=js sampler=filtered pef-threshold=1 pef-samples=4 extra-check=true explore=rest rehearsal-samples=one rehearsal-mean=joint beta=0.4 baseline=group-std trust-region=ppo epsilon-high=0.28 dual-clip=3 loss-type=dapo steps-per-generation=2",
        "dph-f with the Jensen-Shannon divergence at its true scale (the paper's 0.2 is 0.4); or :definition (2509.07430)",
    ),
    row(
        "dph-alpha",
        &["alpha", "beta"],
        "divergence=alpha alpha=0.8 sampler=filtered pef-threshold=1 pef-samples=4 extra-check=true explore=rest rehearsal-samples=one rehearsal-mean=joint beta=0.01 baseline=group-std trust-region=ppo epsilon-high=0.28 dual-clip=3 loss-type=dapo steps-per-generation=2",
        "dph-f with an alpha divergence; alpha 0 is forward KL, so the paper's 0.2 is 0.8 (2509.07430)",
    ),
    row(
        "forward-kl",
        &["beta"],
        "divergence=forward-kl sampler=filtered beta=0.3 baseline=group-std trust-region=ppo loss-type=dapo",
        "forward-KL generator f(pi/a) on all stored correct answers of the base, beside rollouts: holds pi at a there, not at p*",
    ),
    row(
        "js",
        &["beta"],
        "divergence=js sampler=filtered beta=2.4 baseline=group-std trust-region=ppo loss-type=dapo",
        "forward-kl with the Jensen-Shannon generator on the stored correct answers",
    ),
];

/// Distribution matching.
pub(super) const MATCHING: &[Preset] = &[
    row(
        "alpha-dpg",
        &["alpha"],
        "target=p-star divergence=alpha alpha=0.5 max-reward=10 baseline=loo loss-type=dr_grpo",
        "alpha divergence to p*, the base conditioned on a correct answer; alpha 0 is forward KL (2512.05962)",
    ),
    row(
        "f-dpg",
        &["divergence", "alpha"],
        "target=p-star divergence=js max-reward=10 baseline=loo loss-type=dr_grpo",
        "any divergence to p*, or target=p-beta:beta=B (2302.08215)",
    ),
    row(
        "match",
        &["target", "divergence", "sampler"],
        "target=p-star divergence=js",
        "free choice of target, divergence and sampler",
    ),
];

/// Supervised on the base's samples.
pub(super) const SUPERVISED: &[Preset] = &[row(
    "rft",
    &[],
    "target=p-star divergence=forward-kl sampler=filtered",
    "supervised on the base's correct answers: forward KL to p*",
)];

/// Pass@k and rare correct answers.
pub(super) const PASS_AT_K: &[Preset] = &[
    row(
        "pass-at-k",
        &["k"],
        "rule=pass-at-k k=4 trust-region=ppo loss-type=dapo",
        "analytical Pass@k advantage (2508.10751)",
    ),
    row(
        "pkpo",
        &["k"],
        "rule=pkpo k=4 loss-type=dr_grpo",
        "unbiased gradient of Pass@k (2505.15201)",
    ),
    row(
        "unlikeliness",
        &["strength"],
        "rule=unlikeliness strength=0.25 trust-region=ppo loss-type=grpo num-iterations=2 divergence=reverse-kl estimator=k3 beta=0.1",
        "GRPO with larger rewards for rare correct answers (2506.02355)",
    ),
    row(
        "unique-at-k",
        &["k"],
        "rule=unique k=4 loss-type=dr_grpo",
        "the number of distinct correct answers among k samples",
    ),
];

/// Entropy control.
pub(super) const ENTROPY: &[Preset] = &[
    row(
        "entropy-bonus",
        &["entropy"],
        "entropy=0.001 baseline=group-std trust-region=ppo loss-type=dapo",
        "GRPO with a bonus for the entropy at every position",
    ),
    row(
        "entropy-target",
        &["target-entropy"],
        "target-entropy=0.2 baseline=group-std trust-region=ppo loss-type=dapo",
        "GRPO with an entropy bonus that adapts to keep entropy above a target (Skywork-OR1)",
    ),
];
