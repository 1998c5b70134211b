//! The keys of rules: how rewards become advantages.

use anyhow::{Result, bail};

use super::Keys;
use crate::objective::rule::{ROWS, Rule};

impl Keys {
    /// The rule of the advantage; none is the reward less the baseline.
    pub(super) fn rule(&mut self) -> Result<Option<Rule>> {
        let text = match self.take("advantage") {
            Some(text) => {
                for key in ["rule", "baseline"] {
                    // Those of a preset went when the rule was set.
                    if self.values.contains_key(key) {
                        bail!(
                            "`advantage` is a rule of its own and replaces `{key}`: leave it out"
                        );
                    }
                }
                text
            }
            None => match self.take("rule").as_deref() {
                None | Some("plain") => return Ok(None),
                Some(name) => match ROWS.iter().find(|row| row.name == name) {
                    Some(row) => row.text.to_owned(),
                    None => {
                        let known = ROWS.map(|row| row.name).join(", ");
                        bail!("`rule`: `{name}` is not one of plain, {known}")
                    }
                },
            },
        };
        Rule::parse(&text, |name, default| self.number(name, default)).map(Some)
    }
}
