//! A Hub that tells the truth and keeps breaking off: bytes decide what each of its answers is, and whatever is
//! downloaded in the end is one version of the file, whole.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::formats::hub;

/// Downloads that are tried before the server gives up breaking off.
const TRIES: usize = 3;

/// The rest of the bytes that decide, and the file's two versions.
#[derive(Default)]
struct Script {
    left: Vec<u8>,
    versions: [Vec<u8>; 2],
    /// Whether versions are known by their SHA-256.
    is_hashed: bool,
}

impl Script {
    /// The first three bytes are the kind of ETag and the two lengths.
    fn new(data: &[u8]) -> Self {
        let [kind, first, second] = [0, 1, 2].map(|at| data.get(at).copied().unwrap_or_default());
        let content = |salt: usize, length: u8| -> Vec<u8> {
            (0..usize::from(length) * 3).map(|at| (at * 31 + salt) as u8).collect()
        };
        let mut left = data.get(3..).unwrap_or_default().to_vec();
        left.reverse();
        Self { left, versions: [content(1, first), content(2, second)], is_hashed: kind % 2 == 1 }
    }

    fn next(&mut self) -> u8 {
        self.left.pop().unwrap_or_default()
    }

    /// The answer to a request for what is behind byte `from`.
    fn answer(&mut self, path: &str, from: usize) -> Vec<u8> {
        let choice = self.next();
        let is = |bit: u8| choice & 1 << bit != 0;
        let version = usize::from(is(0));
        let whole = self.versions[version].clone();
        let etag = if self.is_hashed { hub::sha256(&whole) } else { format!("version-{version}") };
        let mut head =
            format!("X-Repo-Commit: {}\r\nConnection: close\r\n", ["a", "b"][version].repeat(40));
        head += &match self.is_hashed {
            true => format!("X-Linked-Etag: \"{etag}\"\r\nX-Linked-Size: {}\r\n", whole.len()),
            false => format!("ETag: \"{etag}\"\r\n"),
        };
        if is(5) || is(7) {
            let status = if is(5) { "503 Busy" } else { "416 Range" };
            return format!("HTTP/1.1 {status}\r\n{head}Content-Length: 0\r\n\r\n").into_bytes();
        }
        if is(6) && !path.contains('?') {
            let to = format!("Location: {path}?again\r\nContent-Length: 0\r\n\r\n");
            return format!("HTTP/1.1 302 Found\r\n{head}{to}").into_bytes();
        }
        // A range is ignored, heeded, or begun one byte too early.
        let start =
            if from >= whole.len() || is(2) { 0 } else { from - usize::from(is(3)).min(from) };
        let body = &whole[start..];
        let status = match start {
            0 => "200 OK".to_owned(),
            _ => format!(
                "206 Partial Content\r\nContent-Range: bytes {start}-{}/{}",
                whole.len() - 1,
                whole.len()
            ),
        };
        let cut = if is(1) { usize::from(self.next()) % (body.len() + 1) } else { body.len() };
        let mut out = format!("HTTP/1.1 {status}\r\n{head}");
        let (before, after) = match is(4) {
            true if cut == body.len() => (format!("{:x}\r\n", cut.max(1)), "\r\n0\r\n\r\n"),
            true => (format!("{:x}\r\n", body.len()), ""),
            false => (String::new(), ""),
        };
        out += &match is(4) && !body.is_empty() {
            true => "Transfer-Encoding: chunked\r\n\r\n".to_owned(),
            false => format!("Content-Length: {}\r\n\r\n", body.len()),
        };
        match is(4) && !body.is_empty() {
            true => [out.as_bytes(), before.as_bytes(), &body[..cut], after.as_bytes()].concat(),
            false => [out.as_bytes(), &body[..cut]].concat(),
        }
    }
}

/// Reads a request and answers it.
fn serve(stream: TcpStream, script: &Mutex<Script>) -> std::io::Result<()> {
    let mut lines = BufReader::new(&stream).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut from = 0;
    while let Some(line) = lines.next().transpose()?.filter(|line| !line.is_empty()) {
        if let Some(range) = line.to_lowercase().strip_prefix("range: bytes=") {
            from = range.trim_end_matches('-').parse().unwrap_or_default();
        }
    }
    let answer = script.lock().unwrap_or_else(PoisonError::into_inner).answer(&path, from);
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
    let held = || script.lock().unwrap_or_else(PoisonError::into_inner);
    *held() = Script::new(data);
    let versions = held().versions.clone();
    let folder = tempfile::tempdir().expect("a temporary folder");
    for attempt in 0..=TRIES {
        if attempt == TRIES {
            held().left.clear();
        }
        match hub::fetch_from(address, folder.path(), "model.safetensors") {
            Ok(path) => {
                let bytes = std::fs::read(path).expect("the file");
                assert!(versions.contains(&bytes), "{} bytes, of no version", bytes.len());
            }
            Err(error) => assert!(attempt < TRIES, "a good server is refused: {error:#}"),
        }
    }
}
