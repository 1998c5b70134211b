//! A small HTTP server for tests: a function from requests to answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

/// A request that the server received.
pub(crate) struct ReceivedRequest {
    /// The path, without its query.
    pub(crate) path: String,
    /// The request line and all headers.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// Status, further header lines each ended by CRLF, and body.
pub(crate) type Answer = (u16, String, Vec<u8>);

/// Serves on a free port until the process ends; returns the address.
pub(crate) fn serve(answer: impl Fn(&ReceivedRequest) -> Answer + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("bound"));
    let answer = std::sync::Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            // The client may have gone; that is its right.
            std::thread::spawn(move || drop(one(&stream, &*answer)));
        }
    });
    address
}

fn one(mut stream: &TcpStream, answer: &dyn Fn(&ReceivedRequest) -> Answer) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let (mut length, mut head) = (0, first.clone());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        head.push_str(&line);
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut sent = Vec::new();
    reader.by_ref().take(length).read_to_end(&mut sent)?;
    let target = first.split(' ').nth(1).unwrap_or_default();
    let path = target.split('?').next().unwrap_or_default().to_owned();
    let (status, headers, body) = answer(&ReceivedRequest { path, head, body: sent });
    write!(stream, "HTTP/1.1 {status} x\r\nConnection: close\r\n{headers}")?;
    if !headers.to_lowercase().contains("content-length") {
        write!(stream, "Content-Length: {}\r\n", body.len())?;
    }
    write!(stream, "\r\n")?;
    stream.write_all(&body)
}
