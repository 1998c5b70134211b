//! The tests' Hub held against Hugging Face's own client, and one cache read by both.
//!
//! `.ci/nightly hub` runs it: TEALIGHT_HF_PYTHON is a Python with the package huggingface_hub.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::support::hub::{COMMIT, FakeHub, Files, Repository, TOKEN, files, sha256};
use crate::support::processes::binary;
use crate::support::{embedded, root};

fn model() -> Files {
    let mut model = embedded::files();
    model.insert("more/nested file.json".into(), b"[1]".to_vec());
    model
}

struct Bench {
    python: PathBuf,
    hub: FakeHub,
    folder: tempfile::TempDir,
}

impl Bench {
    /// Runs a part of the script with the cache called `cache`.
    fn python(&self, part: &str, cache: &str) {
        let sizes = model().into_iter().map(|(name, bytes)| (name, bytes.len()));
        let hashes = model().into_iter().map(|(name, bytes)| (name, sha256(&bytes)));
        let expected = json!({
            "commit": COMMIT, "token": TOKEN, "files": hashes.collect::<std::collections::BTreeMap<_, _>>(),
            "sizes": sizes.collect::<std::collections::BTreeMap<_, _>>(),
            "folder": root().join("models/countdown"),
            "tealight": ["config.json", "tokenizer.json", "model.safetensors"],
        });
        let file = self.folder.path().join("expected.json");
        std::fs::write(&file, expected.to_string()).expect("written");
        let mut command = Command::new(&self.python);
        let script = root().join("tests/it/hub_official.py");
        let done = self.run(command.arg(script).arg(part).arg(&file), cache);
        assert!(done.status.success(), "{part}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn tealight(&self, cache: &str, set: &[(&str, &str)]) {
        let out = self.folder.path().join(format!("out-{cache}")).display().to_string();
        let few = "--max-samples 2 -n 2 -k 1 --max-completion-length 4 --device cpu";
        let mut command = binary(&format!("eval --model team/model {few} --output {out}"));
        let done = self.run(command.envs(set.iter().copied()), cache);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    fn run(&self, command: &mut Command, cache: &str) -> Output {
        let home = self.folder.path().join(cache);
        for name in ["HF_TOKEN", "HF_HUB_OFFLINE"] {
            command.env_remove(name);
        }
        command.env("HF_ENDPOINT", &self.hub.endpoint).env("HF_HUB_CACHE", home.join("hub"));
        // Its storage is not played here: large files come from the CDN.
        command.env("HF_HOME", home).env("HF_HUB_DISABLE_XET", "1");
        command.env("HF_HUB_DISABLE_TELEMETRY", "1").output().expect("runs")
    }

    fn transfers(&self) -> usize {
        let shelf = self.hub.shelf.lock().expect("shelf");
        shelf.cdn_log.iter().filter(|request| request.method == "GET").count()
    }
}

#[test]
#[ignore = "needs TEALIGHT_HF_PYTHON, a Python with huggingface_hub"]
fn the_official_client_and_tealight_share_a_hub_and_a_cache() {
    let python = std::env::var_os("TEALIGHT_HF_PYTHON").expect("TEALIGHT_HF_PYTHON").into();
    let is_cut = AtomicBool::new(false);
    let mut gated = Repository::new("models", "team/gated", files(&[("config.json", b"{}")]));
    gated.is_gated = true;
    let data = files(&[("README.md", b"# Data"), ("data/train-00000-of-00001.jsonl", b"{}\n")]);
    let repositories = vec![
        Repository::new("models", "team/model", model()),
        Repository::new("datasets", "team/data", data),
        gated,
    ];
    let hub = FakeHub::with_fault(repositories, move |request, (status, headers, mut body)| {
        let is_transfer = request.method == "GET" && request.path.starts_with("/repos/");
        if is_transfer && !is_cut.swap(true, Ordering::SeqCst) {
            let length = format!("{headers}Content-Length: {}\r\n", body.len());
            body.truncate(body.len() / 2);
            return (status, length, body);
        }
        (status, headers, body)
    });
    let renamed = ("old/name".to_owned(), "team/model".to_owned());
    hub.shelf.lock().expect("shelf").renamed.extend([renamed]);
    let bench = Bench { python, hub, folder: tempfile::tempdir().expect("a folder") };

    bench.python("questions", "official");
    bench.python("downloads", "official");
    let ranges = |bench: &Bench| {
        let shelf = bench.hub.shelf.lock().expect("shelf");
        let ranges = shelf.cdn_log.iter().filter_map(|request| request.header("range"));
        ranges.map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(ranges(&bench).iter().any(|range| !range.starts_with("bytes=0-")));
    bench.tealight("official", &[("HF_HUB_OFFLINE", "1")]);

    bench.tealight("ours", &[]);
    bench.python("reads", "ours");
    let before = bench.transfers();
    bench.python("continues", "ours");
    assert_eq!(bench.transfers(), before, "what Tealight brought is fetched again");
}
