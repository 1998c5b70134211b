//! A Hub that tells the truth and keeps breaking off: bytes decide what each of its answers is, and whatever is
//! downloaded in the end is one version of the file, whole.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::json;

use crate::formats::hub;

/// The one file of the repository.
const FILE: &str = "model.safetensors";

/// Downloads that are tried before the server gives up breaking off.
const TRIES: usize = 3;

/// The rest of the bytes that decide, and the file's two versions.
#[derive(Default)]
struct Script {
    left: Vec<u8>,
    versions: [Vec<u8>; 2],
    /// Whether git has an LFS pointer in place of the file.
    is_lfs: bool,
}

impl Script {
    /// The first three bytes are the kind of file and the two lengths.
    fn new(data: &[u8]) -> Self {
        let [kind, first, second] = [0, 1, 2].map(|at| data.get(at).copied().unwrap_or_default());
        let content = |salt: usize, length: u8| -> Vec<u8> {
            (0..usize::from(length) * 3).map(|at| (at * 31 + salt) as u8).collect()
        };
        let mut left = data.get(3..).unwrap_or_default().to_vec();
        left.reverse();
        Self { left, versions: [content(1, first), content(2, second)], is_lfs: kind % 2 == 1 }
    }

    fn next(&mut self) -> u8 {
        self.left.pop().unwrap_or_default()
    }

    /// The answer to a request, for a file's bytes from `from` on.
    fn answer(&mut self, request: &str, from: usize) -> Vec<u8> {
        let choice = self.next();
        let is = |bit: u8| choice & 1 << bit != 0;
        if is(5) || is(7) {
            let status = if is(5) { "503 Busy" } else { "416 Range" };
            let head = "Connection: close\r\nContent-Length: 0";
            return format!("HTTP/1.1 {status}\r\n{head}\r\n\r\n").into_bytes();
        }
        let path = request.split(' ').nth(1).unwrap_or_default();
        if is(6) && !path.contains('?') {
            let head = format!("Location: {path}?again\r\nConnection: close\r\nContent-Length: 0");
            return format!("HTTP/1.1 307 Elsewhere\r\n{head}\r\n\r\n").into_bytes();
        }
        // The branch is at either commit, and a commit stays what it is.
        let commit = |version: usize| ["a", "b"][version].repeat(40);
        let version = match path.contains("/revision/main") {
            true => usize::from(is(0)),
            false => usize::from(path.contains(&commit(1))),
        };
        let whole = match path.contains("/api/") {
            true => self.description(path, &commit(version), version),
            false => self.versions[version].clone(),
        };
        // A range is ignored, heeded, or begun one byte too early.
        let start =
            if from >= whole.len() || is(2) { 0 } else { from - usize::from(is(3)).min(from) };
        let body = &whole[start..];
        let (status, range) = match start {
            0 => ("200 OK", String::new()),
            _ => {
                let (last, total) = (whole.len() - 1, whole.len());
                ("206 Part", format!("Content-Range: bytes {start}-{last}/{total}\r\n"))
            }
        };
        let cut = if is(1) { usize::from(self.next()) % (body.len() + 1) } else { body.len() };
        let sent = if request.starts_with("HEAD") { &[] } else { &body[..cut] };
        let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n{range}");
        if !is(4) || body.is_empty() {
            let length = format!("{head}Content-Length: {}\r\n\r\n", body.len());
            return [length.as_bytes(), sent].concat();
        }
        let chunk = format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", body.len());
        let end = if cut == body.len() { "\r\n0\r\n\r\n" } else { "" };
        [chunk.as_bytes(), sent, end.as_bytes()].concat()
    }

    /// What the API says of the branch, or of the file at a commit.
    fn description(&self, path: &str, commit: &str, version: usize) -> Vec<u8> {
        let content = &self.versions[version];
        let oid = hub::git_object::object_id(content, self.is_lfs);
        let lfs = self.is_lfs.then(|| json!({"size": content.len()}));
        let file =
            json!({"type": "file", "path": FILE, "size": content.len(), "oid": oid, "lfs": lfs});
        let branch = json!({"id": "a/b", "sha": commit, "siblings": [{"rfilename": FILE}]});
        let body = if path.contains("/paths-info/") { json!([file]) } else { branch };
        body.to_string().into_bytes()
    }
}

/// Reads a request and answers it.
fn serve(stream: TcpStream, script: &Mutex<Script>) -> std::io::Result<()> {
    let mut reader = BufReader::new(&stream);
    let mut lines = reader.by_ref().lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let (mut from, mut length) = (0, 0);
    while let Some(line) = lines.next().transpose()?.filter(|line| !line.is_empty()) {
        let line = line.to_lowercase();
        if let Some(range) = line.strip_prefix("range: bytes=") {
            from = range.split('-').next().unwrap_or_default().parse().unwrap_or_default();
        } else if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().unwrap_or_default();
        }
    }
    std::io::copy(&mut reader.take(length), &mut std::io::sink())?;
    let answer = script.lock().unwrap_or_else(PoisonError::into_inner).answer(&first, from);
    (&stream).write_all(&answer)
}

/// The address of the one server, and what decides its answers.
fn server() -> &'static (String, Arc<Mutex<Script>>) {
    static SERVER: OnceLock<(String, Arc<Mutex<Script>>)> = OnceLock::new();
    SERVER.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let script = Arc::new(Mutex::new(Script::default()));
        let served = Arc::clone(&script);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                drop(serve(stream, &served));
            }
        });
        (address, script)
    })
}

/// Downloads a file again and again, and at last from a server that does not break off.
pub(super) fn try_downloads(data: &[u8]) {
    let (address, script) = server();
    let lock = || script.lock().unwrap_or_else(PoisonError::into_inner);
    *lock() = Script::new(data);
    let versions = lock().versions.clone();
    let folder = tempfile::tempdir().expect("a temporary folder");
    for attempt in 0..=TRIES {
        if attempt == TRIES {
            lock().left.clear();
        }
        match hub::fetch_from(address, folder.path(), FILE) {
            Ok(path) => {
                let bytes = std::fs::read(path).expect("the file");
                assert!(versions.contains(&bytes), "{} bytes, of no version", bytes.len());
            }
            Err(error) => assert!(attempt < TRIES, "a good server is refused: {error:#}"),
        }
    }
}
