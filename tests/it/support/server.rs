//! A small HTTP server for tests: a function from requests to answers.

use std::io::{BufRead, BufReader, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

/// A request that the server received.
#[derive(Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: String,
    /// The path, without its query.
    pub(crate) path: String,
    /// The request line and all headers.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl ReceivedRequest {
    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

/// Status, further header lines each ended by CRLF, and body.
pub(crate) type Answer = (u16, String, Vec<u8>);

/// Serves on a free port until the process ends; returns the address.
pub(crate) fn serve(answer: impl Fn(&ReceivedRequest) -> Answer + Send + Sync + 'static) -> String {
    serve_streams(move |request, stream| write_answer(request, &answer(request), stream))
}

/// The same with answers that are written step by step.
pub(crate) fn serve_streams(
    answer: impl Fn(&ReceivedRequest, &TcpStream) -> Result<()> + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("bound"));
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            // The client may have gone; that is its right.
            std::thread::spawn(move || drop(received(&stream).and_then(|r| answer(&r, &stream))));
        }
    });
    address
}

/// Reads a request whole.
fn received(stream: &TcpStream) -> Result<ReceivedRequest> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut request = ReceivedRequest {
        method: first.split(' ').next().unwrap_or_default().to_owned(),
        path: first.split([' ', '?']).nth(1).unwrap_or_default().to_owned(),
        head: first.clone(),
        body: Vec::new(),
    };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        request.head.push_str(&line);
        if line.trim().is_empty() {
            break;
        }
    }
    let length = request.header("content-length").and_then(|length| length.parse().ok());
    reader.take(length.unwrap_or(0)).read_to_end(&mut request.body)?;
    Ok(request)
}

/// Writes an answer, with the length of its body unless it says another; a question for headers gets no body. Status 0
/// closes the connection without an answer.
pub(crate) fn write_answer(
    request: &ReceivedRequest,
    (status, headers, body): &Answer,
    mut stream: &TcpStream,
) -> Result<()> {
    if *status == 0 {
        return Ok(());
    }
    let mut head = format!("HTTP/1.1 {status} x\r\nConnection: close\r\n{headers}");
    if !headers.to_lowercase().contains("content-length") {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    stream.write_all(head.as_bytes())?;
    stream.write_all(b"\r\n")?;
    if request.method == "HEAD" { Ok(()) } else { stream.write_all(body) }
}
