//! The check of an objective's gradient at the start of every run: it refuses no objective that a user can write.

use tealight::lab::self_check;
use tealight::learn::objective::Objective;

#[test]
fn no_possible_objective_is_refused_as_a_bug() {
    let mut checked = 0;
    for name in Objective::names() {
        for key in ["gate=gain", "entropy=0.001", "max-reward=2"] {
            let text = format!("{name}:{key}");
            // Keys that an objective does not have are refused when it is read.
            let Ok(objective) = text.parse::<Objective>() else { continue };
            match self_check(&objective.plan, &text) {
                Ok(_) => checked += 1,
                Err(error) => panic!("{text}: {error:#}"),
            }
        }
    }
    assert!(checked > 50, "only {checked} were checked");
}

#[test]
fn self_check_reports_that_it_omits_the_max_reward_clip() {
    let report = |text: &str| {
        let objective: Objective = text.parse().expect("possible");
        self_check(&objective.plan, text).expect("no bug")
    };
    assert!(report("kl-dpg:max-reward=2").contains("without max-reward"));
    assert!(!report("grpo").contains("without max-reward"));
}
