//! The YAML at the top of a dataset's README to the configurations that it declares: which files are which split.
//!
//! The text is untrusted: aliases are not followed, nesting is bounded, and nothing but `configs` is kept.

use anyhow::{Context, Result, bail};
use saphyr_parser::{Event, Parser};
use serde_json::{Map, Value};

/// Deepest nesting of lists and maps.
const MAX_DEPTH: usize = 64;
/// Longest front matter, in bytes; those of datasets with thousands of configurations have about a million.
const MAX_BYTES: usize = 4 << 20;

/// A configuration: a part of a dataset with splits of its own.
#[derive(Debug, PartialEq)]
pub(super) struct Config {
    pub(super) name: String,
    /// Whether it is the one that is meant where none is named.
    pub(super) is_default: bool,
    /// The names of its splits, and the glob patterns of their files.
    pub(super) splits: Vec<(String, Vec<String>)>,
}

/// The configurations that a README declares; none where it declares none.
pub(super) fn configs(readme: &str) -> Result<Vec<Config>> {
    let Some(yaml) = front_matter(readme) else { return Ok(Vec::new()) };
    if yaml.len() > MAX_BYTES {
        bail!(
            "README.md: its front matter has {} bytes, and at most {MAX_BYTES} are read",
            yaml.len()
        );
    }
    let read = || -> Result<Vec<Config>> {
        match &parsed(yaml)?["configs"] {
            Value::Null => Ok(Vec::new()),
            Value::Array(configs) => configs.iter().map(config).collect(),
            _ => bail!("`configs` is not a list"),
        }
    };
    read().context("README.md: its front matter cannot be read; name a file, hub:OWNER/NAME:FILE")
}

/// The text between the first two lines `---`.
fn front_matter(readme: &str) -> Option<&str> {
    let text = readme.trim_start_matches('\u{feff}');
    let text = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n"))?;
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some(&text[..end]);
        }
        end += line.len();
    }
    None
}

/// A list or a map that has not ended yet, the latter with the key whose value comes next.
enum Open {
    List(Vec<Value>),
    Map(Map<String, Value>, Option<String>),
}

/// The first document of `yaml`, of which only `configs` is kept. Every scalar is a text.
fn parsed(yaml: &str) -> Result<Value> {
    let mut open: Vec<Open> = Vec::new();
    for event in Parser::new_from_str(yaml) {
        let value = match event?.0 {
            Event::Scalar(text, ..) => Value::String(text.into_owned()),
            Event::Alias(_) => Value::Null,
            Event::SequenceStart(..) | Event::MappingStart(..) if open.len() == MAX_DEPTH => {
                bail!("it is nested more than {MAX_DEPTH} deep")
            }
            Event::SequenceStart(..) => {
                open.push(Open::List(Vec::new()));
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Open::Map(Map::new(), None));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::List(items)) => Value::Array(items),
                Some(Open::Map(entries, _)) => Value::Object(entries),
                None => bail!("a list or map ends that never began"),
            },
            _ => continue,
        };
        let is_top = open.len() == 1;
        match open.last_mut() {
            None => return Ok(value),
            Some(Open::List(items)) => items.push(value),
            Some(Open::Map(entries, key)) => match key.take() {
                None => *key = Some(value.as_str().context("a key that is no text")?.to_owned()),
                Some(name) if is_top && name != "configs" => {}
                Some(name) => drop(entries.insert(name, value)),
            },
        }
    }
    Ok(Value::Null)
}

fn config(value: &Value) -> Result<Config> {
    let name = value["config_name"].as_str().context("a configuration without `config_name`")?;
    let folder = value["data_dir"].as_str().unwrap_or_default();
    let folder = folder.trim_start_matches("./").trim_matches('/');
    let pattern = |value: &Value| -> Result<String> {
        let text = value.as_str().context("a path of `data_files` that is no text")?;
        let text = text.trim_start_matches("./");
        Ok(if folder.is_empty() { text.into() } else { format!("{folder}/{text}") })
    };
    let patterns = |value: &Value| match value {
        Value::Array(paths) => paths.iter().map(pattern).collect::<Result<Vec<_>>>(),
        path => Ok(vec![pattern(path)?]),
    };
    let splits = match &value["data_files"] {
        Value::Null => Vec::new(),
        Value::Array(items) if items.iter().any(Value::is_object) => {
            let split = |item: &Value| {
                let split =
                    item["split"].as_str().context("a part of `data_files` without `split`")?;
                Ok((split.to_owned(), patterns(&item["path"])?))
            };
            items.iter().map(split).collect::<Result<_>>()?
        }
        paths => vec![("train".into(), patterns(paths)?)],
    };
    let is_default =
        value["default"].as_str().is_some_and(|text| text.eq_ignore_ascii_case("true"));
    Ok(Config { name: name.into(), is_default, splits })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(yaml: &str) -> Result<Vec<Config>> {
        configs(&format!("---\n{yaml}\n---\n# Card\n---\nconfigs: no\n"))
    }

    #[test]
    fn every_form_of_data_files_is_read() {
        let yaml = "license: mit\ndataset_info:\n- &a {features: [x, 'y']}\n- *a\nconfigs:\n\
            - config_name: main\n  default: true\n  data_files:\n  - split: train\n    path: main/train-*\n\
            \x20 - split: test\n    path: [./a.jsonl, \"b*.jsonl\"]\n\
            - config_name: 2024\n  data_files: x.csv\n- config_name: l\n  data_dir: ./d/\n  data_files: [a, b]\n\
            - config_name: f\n  data_dir: d\n";
        let found = parse(yaml).unwrap();
        type Splits = Vec<(String, Vec<String>)>;
        let patterns = |splits: &[(&str, &[&str])]| -> Splits {
            let texts = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
            splits.iter().map(|(split, paths)| ((*split).to_owned(), texts(paths))).collect()
        };
        let expected = [
            (
                "main",
                true,
                patterns(&[("train", &["main/train-*"]), ("test", &["a.jsonl", "b*.jsonl"])]),
            ),
            ("2024", false, patterns(&[("train", &["x.csv"])])),
            ("l", false, patterns(&[("train", &["d/a", "d/b"])])),
            ("f", false, Vec::new()),
        ];
        for (config, (name, is_default, splits)) in found.iter().zip(&expected) {
            assert_eq!((config.name.as_str(), config.is_default), (*name, *is_default));
            assert_eq!(&config.splits, splits);
        }
        assert_eq!(found.len(), expected.len());
        for none in ["", "# Card\n", "---\nconfigs:\n- config_name: a\n", "text\n---\na: b\n---\n"]
        {
            assert_eq!(configs(none).unwrap(), [], "{none}");
        }
        assert_eq!(parse("license: mit").unwrap(), []);
        assert_eq!(configs("---\r\nconfigs:\r\n- config_name: a\r\n---\r\n").unwrap().len(), 1);
    }

    #[test]
    fn hostile_front_matter_is_refused_and_costs_little() {
        let deep = |depth| format!("configs: {}{}", "[".repeat(depth), "]".repeat(depth));
        let many = format!("a: {}", "x".repeat(MAX_BYTES));
        for (yaml, what) in [
            (deep(MAX_DEPTH).as_str(), "nested"),
            (&deep(MAX_DEPTH * 1000), "recursion limit"),
            (&"- ".repeat(MAX_DEPTH * 1000), "nested"),
            (&many, "bytes"),
            ("configs: [", "front matter"),
            ("configs: {}", "not a list"),
            ("configs: [a]", "config_name"),
            ("configs: [{config_name: a, data_files: {}}]", "no text"),
            ("configs: [{config_name: a, data_files: [{path: x}]}]", "split"),
            ("configs: [{config_name: a, data_files: [{split: x}]}]", "no text"),
            ("x: &a [q, q]\nconfigs: *a\n? [k]\n: v", "no text"),
        ] {
            let message = format!("{:#}", parse(yaml).unwrap_err());
            assert!(message.contains(what) && message.contains("README.md"), "{message}");
        }
        // Each alias would be ten times the one before.
        let laughs: String = (1..20)
            .map(|n| format!("a{n}: &a{n} [{}]\n", format!("*a{}, ", n - 1).repeat(10)))
            .collect();
        assert_eq!(parse(&format!("a0: &a0 [x]\n{laughs}")).unwrap(), []);
    }
}
