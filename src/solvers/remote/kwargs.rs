//! The values of `--engine-kwargs`, as texts KEY=VALUE, to how a server is asked.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use tealight_system::range::{Range, at_least};
use tealight_system::{choices::names, key_values};

use super::Dialect;

/// All keys, for a message.
const KEYS: &str = "model, dialect, concurrency, timeout, retries and folder";

/// One of them, for messages.
const EXAMPLE: &str = "timeout=60";

/// The kind of number that a count is.
const COUNT: &str = "a whole number";

/// How a server is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EngineKwargs {
    /// The model's name on the server; --model where there is none.
    pub(crate) model: Option<String>,
    /// The kind of server; it is asked where there is none.
    pub(super) dialect: Option<Dialect>,
    /// Most requests at a time.
    pub(super) concurrency: usize,
    /// The time that one request may take.
    pub(super) timeout: Duration,
    /// Number of retries of a failed request before the run ends.
    pub(super) retries: usize,
    /// The directory from which servers load the weights of a run; one in --output where there is none.
    pub(crate) folder: Option<PathBuf>,
}

impl EngineKwargs {
    pub(super) fn new(texts: &[String]) -> Result<Self> {
        let mut kwargs = Self {
            model: None,
            dialect: None,
            concurrency: 32,
            timeout: Duration::from_secs(600),
            retries: 8,
            folder: None,
        };
        for (key, value) in key_values::read("--engine-kwargs", EXAMPLE, texts)? {
            let shown = || format!("--engine-kwargs {key}={value}");
            kwargs.set(key, value).with_context(shown)?;
        }
        Ok(kwargs)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            _ if value.is_empty() => bail!("a value is missing behind `{key}=`, as in {EXAMPLE}"),
            "model" => self.model = Some(value.into()),
            "dialect" => {
                let dialect = Dialect::from_str(value, false).ok();
                let refusal = || format!("the dialect must be one of {}", names::<Dialect>());
                self.dialect = Some(dialect.with_context(refusal)?);
            }
            "concurrency" => {
                self.concurrency = number(value, COUNT, at_least(1.0).at_most(4096.0))?
            }
            "timeout" => {
                let seconds = number(value, "a number", at_least(0.001).at_most(1e6))?;
                self.timeout = Duration::try_from_secs_f64(seconds)?;
            }
            "retries" => self.retries = number(value, COUNT, at_least(0.0).at_most(1000.0))?,
            "folder" => self.folder = Some(value.into()),
            _ => bail!("there is no key `{key}`; the keys are {KEYS}"),
        }
        Ok(())
    }
}

/// A number of a kind, in a range.
fn number<T: FromStr>(text: &str, kind: &str, range: Range) -> Result<T> {
    let is_inside = text.parse::<f64>().is_ok_and(|number| range.contains(number));
    let number = text.parse().ok().filter(|_| is_inside);
    number.with_context(|| format!("the value must be {kind}, {range}, not {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<EngineKwargs> {
        EngineKwargs::new(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn every_key_is_read_and_nothing_else() {
        let plain = read("").unwrap();
        assert_eq!((plain.concurrency, plain.timeout.as_secs(), plain.retries), (32, 600, 8));
        assert_eq!((&plain.model, plain.dialect, &plain.folder), (&None, None, &None));
        let all = "model=a=b dialect=llama.cpp concurrency=2 timeout=0.5 retries=0 folder=/x,y";
        let all = read(all).unwrap();
        assert_eq!((all.model.as_deref(), all.dialect), (Some("a=b"), Some(Dialect::LlamaCpp)));
        assert_eq!((all.concurrency, all.retries), (2, 0));
        assert_eq!((all.timeout.as_millis(), all.folder), (500, Some("/x,y".into())));
        for (wrong, part) in [
            ("timeout", "must be KEY=VALUE"),
            ("model=", "a value is missing"),
            ("retries=1 retries=1", "sets `retries` twice"),
            ("retry=1", "the keys are model, dialect, concurrency, timeout, retries and folder"),
            ("dialect=vLLM", "must be one of vllm, sglang, llama.cpp, openai"),
            ("timeout=nan", "not nan"),
            ("timeout=0", "must be a number, at least 0.001 and at most 1000000, not 0"),
            ("timeout=1e7", "not 1e7"),
            ("concurrency=0", "must be a whole number, at least 1"),
            ("concurrency=1.5", "must be a whole number"),
            ("retries=-1", "not -1"),
        ] {
            let error = format!("{:#}", read(wrong).unwrap_err());
            assert!(error.contains(part), "{wrong}: {error}");
        }
    }
}
