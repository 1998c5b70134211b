//! The controlled family `divergence:MEMBER[:WEIGHT]`: objectives that differ in their divergence alone.
//!
//! All members share the advantage, the average over tokens, the prompts and one update on each batch, which the
//! preset's row says; a member adds its divergence. `rehearsal` says whose samples a forward divergence is estimated
//! on: the same quantity by two estimators, or the divergence from the base's correct answers.

use anyhow::{Result, bail};

use tealight_divergence::{Divergence, Formula};

use super::Keys;
use crate::objective::Objective;

/// A member: its name, the key that its weight sets, the weight it has, the keys it stands for, and whether `rehearsal`
/// says how it is estimated.
type Member = (&'static str, Option<(&'static str, &'static str)>, &'static str, bool);

/// The members. The weights of divergences from the base are alike: small changes of the base cost as much under each,
/// JS and Hellinger having a quarter of the curvature of either KL.
const MEMBERS: [Member; 6] = [
    ("none", None, "", false),
    ("reverse-kl", Some(("beta", "0.1")), "divergence=reverse-kl estimator=full", false),
    ("forward-kl", Some(("beta", "0.1")), "divergence=forward-kl", true),
    ("js", Some(("beta", "0.4")), "divergence=js", true),
    ("hellinger", Some(("beta", "0.4")), "divergence=hellinger", true),
    ("alpha-dpg", Some(("alpha", "0.5")), "target=p-star divergence=alpha max-reward=10", false),
];

/// The samples that a forward divergence is estimated on.
const REHEARSALS: [(&str, &str); 4] = [
    ("stored", "sampler=stored estimator=generator"),
    ("correct", "sampler=filtered estimator=generator"),
    ("importance", "sampler=policy estimator=score"),
    ("full", "sampler=policy estimator=full"),
];

/// A formula as the member, with the weight `1 / (10 f''(1))`: small changes cost what they cost under the others.
fn formula(text: &str) -> Result<(String, String)> {
    let divergence: Divergence = text.parse()?;
    let curvature = divergence.facts()?.curvature;
    let weight = if curvature.is_finite() && curvature > 1e-9 { 0.1 / curvature } else { 0.1 };
    // As many digits as a reader wants to see.
    Ok((format!("divergence={divergence}"), format!("{}", (weight * 1e6).round() / 1e6)))
}

/// The names of the members.
pub(in crate::objective::naming) fn names() -> Vec<&'static str> {
    MEMBERS.iter().map(|one| one.0).collect()
}

/// Of those that have a rehearsal.
pub(in crate::objective::naming) fn rehearsed() -> Vec<&'static str> {
    MEMBERS.iter().filter(|one| one.3).map(|one| one.0).collect()
}

impl Objective {
    /// The members of the controlled family, with every rehearsal.
    pub fn members() -> impl Iterator<Item = String> {
        let texts = |(name, .., is_rehearsed): &Member| match is_rehearsed {
            true => REHEARSALS.map(|row| format!("divergence:{name}:rehearsal={}", row.0)).to_vec(),
            false => vec![format!("divergence:{name}")],
        };
        MEMBERS.iter().flat_map(texts)
    }
}

impl Keys {
    /// Replaces `member`, `weight` and `rehearsal` by the keys that they stand for; a key that the user gave keeps its
    /// value. A weight or rehearsal that the member does not have stays, to be refused as a key without effect.
    pub(in crate::objective::naming) fn expand(&mut self) -> Result<()> {
        let Some(name) = self.take("member") else { return Ok(()) };
        let known = name.replace('_', "-");
        let formula = if Formula::is_meant_by(&name) { Some(formula(&name)?) } else { None };
        let (weight, keys, is_rehearsed) = match &formula {
            Some((keys, weight)) => (Some(("beta", &**weight)), &**keys, true),
            None => match MEMBERS.iter().find(|one| one.0 == known) {
                Some((_, weight, keys, is_rehearsed)) => (*weight, *keys, *is_rehearsed),
                None => bail!(
                    "`member`: `{name}` is not known; choose one of {}, or a formula such as f=(t-1)^2/(t+1)",
                    names().join(", ")
                ),
            },
        };
        self.add(keys);
        if let Some((key, default)) = weight
            && !self.values.contains_key(key)
        {
            let own = self.values.remove("weight").unwrap_or((default.to_owned(), false));
            self.values.insert(key.to_owned(), own);
        }
        if is_rehearsed {
            let given = self.take("rehearsal").unwrap_or_else(|| REHEARSALS[0].0.to_owned());
            let Some((_, keys)) = REHEARSALS.iter().find(|(known, _)| *known == given) else {
                bail!(
                    "`rehearsal`: `{given}` is not known; choose one of {}",
                    REHEARSALS.map(|row| row.0).join(", ")
                );
            };
            self.add(keys);
        }
        Ok(())
    }

    /// Adds keys that the user did not give.
    fn add(&mut self, keys: &str) {
        for (key, value) in Keys::of_preset(keys).values {
            self.values.entry(key).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Divergence, Objective};
    use crate::objective::{Estimator, Plan, SampleSource};

    fn plan(text: &str) -> Plan {
        text.parse::<Objective>().unwrap_or_else(|error| panic!("{text}: {error:#}")).plan
    }

    #[test]
    fn members_differ_in_the_divergence_alone() {
        let none = plan("divergence:none");
        assert_eq!(plan("divergence"), none);
        for text in [
            "divergence:reverse-kl:0.03",
            "divergence:forward-kl",
            "divergence:forward-kl:0.3:rehearsal=importance",
            "divergence:js:1.2:rehearsal=correct",
            "divergence:hellinger",
            "divergence:f=(t-1)^2/(t+1):0.1",
            "divergence:alpha-dpg:0.25",
        ] {
            let member = plan(text);
            assert_ne!(member.anchor, none.anchor, "{text}");
            assert_eq!(Plan { anchor: none.anchor.clone(), ..member }, none, "{text}");
        }
    }

    #[test]
    fn weights_and_rehearsal_reach_the_plan() {
        let forward = plan("divergence:forward-kl:0.3").regulariser().unwrap().clone();
        assert_eq!((forward.beta, forward.divergence), (0.3, Divergence::ForwardKl));
        assert_eq!(
            (forward.sampler, forward.estimator),
            (SampleSource::Stored, Estimator::Generator)
        );
        let weighed = plan("divergence:forward-kl:0.3:rehearsal=importance");
        let weighed = weighed.regulariser().unwrap();
        assert_eq!((weighed.sampler, weighed.estimator), (SampleSource::Policy, Estimator::Score));
        assert_eq!(plan("divergence:alpha-dpg:0.25").matching(), plan("alpha-dpg:0.25").matching());
        assert_eq!(plan("divergence:reverse-kl").beta(), 0.1);
        assert_eq!(plan("divergence:js:beta=0.7").beta(), 0.7);
        let objective: Objective = "divergence:reverse-kl".parse().unwrap();
        assert_eq!(objective.coefficient(), Some("weight"));
        let weighed = objective.with(&[("weight", "0.01".to_owned())]).unwrap();
        assert_eq!(weighed.to_string(), "divergence:reverse-kl:0.01");
        assert_eq!(weighed.plan.beta(), 0.01);
        let words = weighed.choices();
        assert!(words.contains("beta=0.01") && words.contains("estimator=full"), "{words}");
    }

    #[test]
    fn formulas_are_members_wherever_a_divergence_is_named() {
        let vincze = plan("divergence:f=(t-1)^2/(t+1):0.3");
        let regulariser = vincze.regulariser().unwrap();
        assert_eq!((regulariser.beta, regulariser.sampler), (0.3, SampleSource::Stored));
        assert_eq!(regulariser.divergence.to_string(), "f=(t-1)^2/(t+1)");
        // Weights are alike in what small changes cost: .1 over the curvature.
        assert_eq!(plan("divergence:f=(t-1)^2/(t+1)").beta(), 0.1);
        assert_eq!(
            plan("divergence:f=(sqrt(t)-1)^2/2").beta(),
            plan("divergence:hellinger").beta()
        );
        let full = plan("divergence:f=t*log(t):0.1:rehearsal=full");
        assert_eq!(full.regulariser().unwrap().estimator, Estimator::Full);
        for (text, printed) in [
            ("divergence:f=(t - 1)^2/t:0.1", "divergence:f=(t - 1)^2/t:0.1"),
            ("f-dpg:f=(t-1)^2/t", "f-dpg:f=(t-1)^2/t"),
            ("match:p-beta:f=t*log(t):stored:beta=0.2", "match:p-beta:f=t*log(t):stored:beta=0.2"),
            ("js:f=t-1-log(t):0.2", "js:f=t-1-log(t):beta=0.2"),
        ] {
            let objective: Objective = text.parse().unwrap();
            assert_eq!(objective.to_string().parse::<Objective>().unwrap(), objective, "{text}");
            assert_eq!(objective.to_string().replace(' ', ""), printed.replace(' ', ""));
        }
        // A key that the preset sets otherwise is replaced: js:f=.. is forward KL on the same samples.
        let replaced = plan("js:f=t-1-log(t):0.2");
        assert!(replaced.regulariser().unwrap().divergence.equals(Divergence::ForwardKl));
        let named = plan("f-dpg:forward-chi2");
        assert_eq!(
            plan("f-dpg:f=(t-1)^2/t").matching().unwrap().max_reward,
            named.matching().unwrap().max_reward
        );
        for (text, reason) in [
            ("f-dpg:f=t*log(t)", "infinite"),
            ("divergence:f=log(t)", "f is not convex at t = "),
            ("divergence:f=(t-1)^2/(q+1)", "`q` is not a variable"),
            ("kl-k2:f=(t-1)^2", "estimators of reverse-kl"),
        ] {
            let error = text.parse::<Objective>().expect_err(text);
            assert!(format!("{error:#}").contains(reason), "{text}: {error:#}");
        }
    }

    #[test]
    fn keys_of_other_members_are_refused() {
        for (text, reason) in [
            ("divergence:none:0.1", "`weight` has no effect"),
            ("divergence:reverse-kl:rehearsal=stored", "`rehearsal` has no effect"),
            ("divergence:alpha-dpg:rehearsal=stored", "`rehearsal` has no effect"),
            ("divergence:js:0.1:beta=0.2", "`weight` has no effect"),
            ("divergence:forward-kl:rehearsal=replay", "stored, correct, importance, full"),
            ("divergence:tv", "choose one of none, reverse-kl"),
            ("grpo:member=js", "`member`"),
        ] {
            let error = text.parse::<Objective>().expect_err(text);
            assert!(format!("{error:#}").contains(reason), "{text}: {error:#}");
        }
    }
}
