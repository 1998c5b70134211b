//! The part of the tests' Hub that takes files: repositories, large files by git LFS, commits.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::hub::{Files, Repository, Shelf, error_answer, is_large, json_answer, sha256};
use super::server::{Answer, ReceivedRequest};

impl Shelf {
    /// A request that writes, by somebody who may.
    pub(super) fn write(&mut self, request: &ReceivedRequest, path: &str, own: &str) -> Answer {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        if path == "/api/repos/create" {
            return self.create(&body);
        }
        if let Some(oid) = path.strip_prefix("/objects/") {
            if self.cuts > 0 {
                self.cuts -= 1;
                return (0, String::new(), Vec::new());
            }
            if sha256(&request.body) != oid {
                return (400, String::new(), b"another content".to_vec());
            }
            self.objects.insert(oid.to_owned(), request.body.clone());
            return json_answer(&json!({}));
        }
        if let Some(id) = path.strip_suffix(".git/info/lfs/objects/batch") {
            return match self.is_there(&format!("models{id}")) {
                true => self.batch(&body, own),
                false => error_answer(404, "RepoNotFound", "Repository not found"),
            };
        }
        let Some((address, what)) = path
            .trim_start_matches("/api/")
            .rsplit_once("/main")
            .and_then(|(path, _)| path.rsplit_once('/'))
        else {
            return (404, String::new(), b"{}".to_vec());
        };
        if !self.is_there(address) {
            return error_answer(404, "RepoNotFound", "Repository not found");
        }
        match what {
            "preupload" => {
                let files = body["files"].as_array().into_iter().flatten().map(|file| {
                    let is_lfs = is_large(file["path"].as_str().expect("a path"));
                    let mode = if is_lfs { "lfs" } else { "regular" };
                    json!({"path": file["path"], "uploadMode": mode, "shouldIgnore": false})
                });
                json_answer(
                    &json!({"files": files.collect::<Vec<_>>(), "commitOid": "0".repeat(40)}),
                )
            }
            _ => self.commit(address, &request.body, own),
        }
    }

    fn is_there(&self, address: &str) -> bool {
        self.repositories.iter().any(|r| format!("{}/{}", r.address.0, r.address.1) == address)
    }

    fn create(&mut self, body: &Value) -> Answer {
        let name = body["name"].as_str().expect("a name");
        // `me` is an account, not an organisation.
        if body["organization"] == "me" {
            return error_answer(403, "", "no such organisation");
        }
        let owner = body["organization"].as_str().unwrap_or("me");
        let id = if name.contains('/') { name.to_owned() } else { format!("{owner}/{name}") };
        let url = json!({"url": format!("https://huggingface.co/{id}"), "name": id, "id": "1"});
        if self.is_there(&format!("models/{id}")) {
            return (409, String::new(), url.to_string().into_bytes());
        }
        self.repositories.push(Repository::new("models", &id, Files::new()));
        json_answer(&url)
    }

    /// Where large files that are not here yet may be sent to.
    fn batch(&self, body: &Value, own: &str) -> Answer {
        let objects = body["objects"].as_array().into_iter().flatten().map(|object| {
            let oid = object["oid"].as_str().expect("an id");
            let mut answer = object.clone();
            if !self.objects.contains_key(oid) {
                answer["actions"]["upload"] =
                    json!({"href": format!("{own}/objects/{oid}?X-Amz-Signature=1"), "header": {"X-Upload": "granted"}});
            }
            answer
        });
        json_answer(&json!({"transfer": "basic", "objects": objects.collect::<Vec<_>>()}))
    }

    fn commit(&mut self, address: &str, body: &[u8], own: &str) -> Answer {
        let found = self.repositories.iter_mut();
        let mut found = found.filter(|r| format!("{}/{}", r.address.0, r.address.1) == address);
        let repository = found.next().expect("a repository");
        let mut files = repository.commits[&repository.branches["main"]].clone();
        let lines = std::str::from_utf8(body).expect("text").lines();
        for line in lines.map(|line| serde_json::from_str::<Value>(line).expect("JSON")) {
            let value = &line["value"];
            let text = |key: &str| value[key].as_str().expect("text");
            match line["key"].as_str() {
                Some("file") => {
                    let bytes = STANDARD.decode(text("content")).expect("base64");
                    files.insert(text("path").to_owned(), bytes);
                }
                Some("lfsFile") => {
                    let Some(bytes) = self.objects.get(text("oid")) else {
                        return (400, String::new(), b"an object is missing".to_vec());
                    };
                    files.insert(text("path").to_owned(), bytes.clone());
                }
                _ => {}
            }
        }
        let commit = sha256(body)[..40].to_owned();
        repository.branches.insert("main".into(), commit.clone());
        repository.commits.insert(commit.clone(), files);
        let url = format!("{own}/{}/commit/{commit}", repository.address.1);
        json_answer(
            &json!({"success": true, "commitOid": commit, "commitUrl": url, "hookOutput": ""}),
        )
    }
}
