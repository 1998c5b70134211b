//! The Hub client against a local server that answers as the Hub does.
//!
//! Every test runs the real binary with its own cache and endpoint, as a user's shell would set them.

use std::path::Path;

use crate::support::binary::{ended, evaluation, has};
use crate::support::embedded;
use crate::support::hub::{COMMIT, FakeHub, Repository, TOKEN, blob_id, files, sha256};

/// A Hub with `team/model`, which is also at a tag, and `team/data`.
fn repositories() -> Vec<Repository> {
    let row = b"{\"prompt\":[{\"role\":\"user\",\"content\":\"1+1\"}],\"answer\":\"2\"}\n";
    vec![
        Repository::new("models", "team/model", embedded::files()).with(
            "v1",
            COMMIT,
            embedded::files(),
        ),
        Repository::new("datasets", "team/data", files(&[("test.jsonl", row)])),
    ]
}

fn hub() -> FakeHub {
    FakeHub::new(repositories())
}

struct Shell {
    home: tempfile::TempDir,
    endpoint: String,
}

impl Shell {
    fn new(hub: &FakeHub) -> Self {
        Self { home: tempfile::tempdir().expect("a directory"), endpoint: hub.endpoint.clone() }
    }

    /// Evaluates `model` on two problems; the exit status and what was said on stderr.
    fn eval(&self, model: &str, set: &[(&str, &str)]) -> (bool, String) {
        self.eval_on(model, "countdown", set)
    }

    fn eval_on(&self, model: &str, dataset: &str, set: &[(&str, &str)]) -> (bool, String) {
        let output = self.home.path().join("out");
        let _ = std::fs::remove_dir_all(&output);
        let line = format!(
            "--model {model} --dataset {dataset} --max-samples 2 --output {}",
            output.display()
        );
        ended(evaluation(&self.endpoint, self.home.path(), &line).envs(set.iter().copied()))
    }
}

#[test]
fn a_first_use_downloads_and_the_next_makes_no_call() {
    let hub = hub();
    let shell = Shell::new(&hub);
    let (is_ok, stderr) = shell.eval("team/model", &[]);
    assert!(is_ok, "{stderr}");
    assert!(stderr.contains("downloading team/model/model.safetensors"), "{stderr}");
    // One request brings a file.
    assert!(!hub.log().iter().any(|line| line.starts_with("HEAD")), "{:?}", hub.log());
    let after_first = hub.log().len();
    assert!(after_first > 0);
    let (is_ok, stderr) = shell.eval("team/model", &[]);
    assert!(is_ok, "{stderr}");
    let (is_ok, stderr) = shell.eval("team/model", &[("HF_HUB_OFFLINE", "1")]);
    assert!(is_ok, "{stderr}");
    assert_eq!(hub.log().len(), after_first, "{:?}", hub.log());
}

#[test]
fn a_dataset_is_fetched_once_and_a_missing_file_named() {
    let hub = hub();
    let shell = Shell::new(&hub);
    let spec = "hub:team/data:test.jsonl";
    let (is_ok, stderr) = shell.eval_on("countdown", spec, &[]);
    assert!(is_ok && stderr.contains("1 problem, checked by `math`"), "{stderr}");
    let after_first = hub.log().len();
    assert!(after_first > 0);
    let (is_ok, stderr) = shell.eval_on("countdown", spec, &[("HF_HUB_OFFLINE", "1")]);
    assert!(is_ok, "{stderr}");
    assert_eq!(hub.log().len(), after_first);
    let (is_ok, stderr) = shell.eval_on("countdown", "hub:team/data:train.jsonl", &[]);
    assert!(!is_ok && stderr.contains("no such file"), "{stderr}");
    let (is_ok, stderr) = shell.eval_on("countdown", "hub:team", &[]);
    assert!(!is_ok && stderr.contains("hub:OWNER/NAME"), "{stderr}");
}

#[test]
fn what_cannot_be_fetched_is_named_with_the_fix() {
    let hub = hub();
    let secure = hub.endpoint.replace("http:", "https:");
    let certificates = [("SSL_CERT_FILE", "/nonexistent"), ("SSL_CERT_DIR", "/nonexistent")];
    let none: [(&str, &str); 0] = [];
    for (endpoint, model, set, parts) in [
        (&*hub.endpoint, "team/model", &[("HF_HUB_OFFLINE", "1")][..], &["HF_HUB_OFFLINE"][..]),
        (&secure, "team/model", &certificates, &["SSL_CERT_FILE"]),
        ("http://127.0.0.1:9", "team/model", &none, &["the network failed", "127.0.0.1:9"]),
        (&hub.endpoint, "team/nothing", &none, &["team/nothing", "no such repository"]),
        (&hub.endpoint, "team/model@v9", &none, &["v9", "revision"]),
    ] {
        let mut shell = Shell::new(&hub);
        shell.endpoint = endpoint.into();
        let (is_ok, stderr) = shell.eval(model, set);
        assert!(!is_ok, "{stderr}");
        has(&stderr, parts);
        assert!(set != [("HF_HUB_OFFLINE", "1")] || hub.log().is_empty());
    }
    // A tag, and a name that the Hub has redirected.
    let renamed = ("old/name".to_owned(), "team/model".to_owned());
    hub.shelf.lock().expect("shelf").renamed.extend([renamed]);
    for model in ["team/model@v1", "old/name"] {
        let (is_ok, stderr) = Shell::new(&hub).eval(model, &[]);
        assert!(is_ok, "{stderr}");
    }
    assert!(hub.log().contains(&"GET /api/models/old/name/revision/main".to_owned()));
}

#[test]
fn a_gated_repository_asks_for_a_token_and_opens_with_it() {
    let mut gated = Repository::new("models", "team/model", embedded::files());
    gated.is_gated = true;
    let hub = FakeHub::new(vec![gated]);
    let shell = Shell::new(&hub);
    let (is_ok, stderr) = shell.eval("team/model", &[]);
    let words = ["HF_TOKEN", "401", "Access to model team/model is restricted."];
    assert!(!is_ok && words.iter().all(|word| stderr.contains(word)), "{stderr}");
    let (is_ok, stderr) = shell.eval("team/model", &[("HF_TOKEN", TOKEN)]);
    assert!(is_ok, "{stderr}");
    let shelf = hub.shelf.lock().expect("shelf");
    assert!(!shelf.cdn_log.is_empty() && !shelf.log.is_empty());
    let has_token = |request: &crate::support::server::ReceivedRequest| {
        request.header("authorization").is_some()
    };
    assert!(shelf.log.iter().any(has_token));
    assert!(!shelf.cdn_log.iter().any(has_token), "the token is the Hub's alone");
}

#[test]
fn a_refused_account_is_sent_to_the_page_of_the_repository() {
    let hub = FakeHub::with_fault(repositories(), |request, answer| {
        match request.path.contains("/resolve/") {
            true => {
                let headers = "X-Error-Code: GatedRepo\r\nX-Error-Message: Your request to access model team/model \
                               is awaiting a review from the repo authors.\r\n";
                (403, headers.into(), b"{}".to_vec())
            }
            false => answer,
        }
    });
    let (is_ok, stderr) = Shell::new(&hub).eval("team/model", &[("HF_TOKEN", TOKEN)]);
    assert!(
        !is_ok && stderr.contains("ask for access") && stderr.contains("awaiting a review"),
        "{stderr}"
    );
}

#[test]
fn the_cache_is_laid_out_as_the_python_clients_and_content_is_fetched_once() {
    let hub = hub();
    let shell = Shell::new(&hub);
    let (is_ok, stderr) = shell.eval("team/model", &[]);
    assert!(is_ok, "{stderr}");
    let place = shell.home.path().join("hub/models--team--model");
    assert_eq!(std::fs::read_to_string(place.join("refs/main")).expect("a ref"), COMMIT);
    for (name, bytes) in embedded::files().iter().filter(|(name, _)| !name.ends_with(".md")) {
        let path = place.join("snapshots").join(COMMIT).join(name);
        let is_large = name.ends_with("safetensors");
        let blob = if is_large { sha256(bytes) } else { blob_id(bytes) };
        assert_eq!(&std::fs::read(&path).expect("a file"), bytes, "{name}");
        #[cfg(unix)]
        assert_eq!(
            std::fs::read_link(&path).expect("a link"),
            Path::new("../../blobs").join(&blob)
        );
        assert!(place.join("blobs").join(blob).is_file(), "{name}");
    }
    let left = std::fs::read_dir(place.join("blobs")).expect("blobs").flatten();
    assert!(left.into_iter().all(|e| !e.file_name().to_string_lossy().contains("incomplete")));

    // Content that has not changed is not fetched again for a new commit.
    let transfers = hub.shelf.lock().expect("shelf").cdn_log.len();
    let commit = "f".repeat(40);
    {
        let mut shelf = hub.shelf.lock().expect("shelf");
        let repository = shelf.repositories.remove(0).with("next", &commit, embedded::files());
        shelf.repositories.push(repository);
    }
    let (is_ok, stderr) = shell.eval("team/model@next", &[]);
    assert!(is_ok, "{stderr}");
    assert_eq!(hub.shelf.lock().expect("shelf").cdn_log.len(), transfers);
    assert!(place.join("snapshots").join(commit).is_dir());
}
