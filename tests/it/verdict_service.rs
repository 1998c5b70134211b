//! `tealight verify --serve`: verdicts by HTTP, and what a hostile client can do to the service.

#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

struct Service {
    child: Child,
    address: String,
}

impl Service {
    fn start(arguments: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", arguments)
    }

    fn start_at(address: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(assert_cmd::cargo::cargo_bin("tealight"))
            .args(["verify", "--serve", address, "--quiet"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("an address");
        let address = line.trim().strip_prefix("http://").expect("an address").to_owned();
        Self { child, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        stream
    }

    /// All that the service answers to some bytes, until it closes the connection.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // The service may refuse before all was sent.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn request(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, String) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: {kind}\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        let answer = self.raw(&[head.as_bytes(), body].concat());
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        (status, body.to_owned())
    }

    fn json(&self, body: &str) -> (u16, String) {
        self.request("POST", "/verify", "application/json", body.as_bytes())
    }

    fn metric(&self, name: &str) -> f64 {
        let (status, text) = self.request("GET", "/metrics", "", b"");
        assert_eq!(status, 200);
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or("x 0");
        line.rsplit_once(' ').expect("a value").1.parse().expect("a number")
    }

    /// Asks for an end, and says how the process ended.
    fn interrupt(&mut self) -> std::process::ExitStatus {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(status) = self.child.try_wait().expect("waited") {
                return status;
            }
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const TWO: &str = r#"[{"gold": "1/2", "answer": "0.5"}, {"gold": 3, "answer": "it is 4"}]"#;

#[test]
fn batches_are_judged_in_order_and_counted() {
    let service = Service::start(&[]);
    let (status, body) = service.json(TWO);
    assert_eq!(status, 200, "{body}");
    let verdicts: Vec<serde_json::Value> = serde_json::from_str(&body).expect("JSON");
    assert_eq!(verdicts[0]["verdict"], "correct");
    assert_eq!(
        (&verdicts[1]["verdict"], &verdicts[1]["extracted"]),
        (&"wrong".into(), &"4".into())
    );
    let (_, one) = service.json(r#"{"gold": "2", "answer": "2"}"#);
    assert!(one.starts_with("{\"verdict\":\"correct\""), "{one}");
    assert_eq!(service.json("[]"), (200, "[]".into()));
    let lines = "{\"gold\":\"2\",\"answer\":\"2\"}\n\n{oops}\n{\"gold\":\"2\",\"answer\":\"3\"}";
    let (status, body) =
        service.request("POST", "/verify", "application/x-ndjson", lines.as_bytes());
    assert_eq!(status, 200);
    for part in ["\"correct\"", "\"error\":\"not a JSON object", "\"wrong\""] {
        assert!(body.contains(part), "{body}");
    }
    assert_eq!(service.metric("tealight_verify_pairs_total{verdict=\"correct\"}"), 3.0);
    assert_eq!(service.metric("tealight_verify_pairs_total{verdict=\"wrong\"}"), 2.0);
    assert_eq!(service.metric("tealight_verify_bad_lines_total"), 1.0);
    assert_eq!(service.metric("tealight_verify_bytes_in_flight"), 0.0);
    let (status, health) = service.request("GET", "/health", "", b"");
    assert_eq!((status, health.as_str()), (200, r#"{"status":"ok","verifier":"math"}"#));
}

#[test]
fn lines_are_answered_while_more_are_sent() {
    let service = Service::start(&["--verifier", "exact"]);
    let mut stream = service.connect();
    let head = "POST /verify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("sent");
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    let mut answered = 0;
    for round in 0..5 {
        let line = format!("{{\"gold\":\"{round}\",\"answer\":\"{round}\"}}\n");
        stream.write_all(format!("{:x}\r\n{line}\r\n", line.len()).as_bytes()).expect("sent");
        let mut reply = String::new();
        while !reply.contains("\"verdict\":\"correct\"") {
            reply.clear();
            assert!(reader.read_line(&mut reply).expect("an answer") > 0, "the connection ended");
        }
        answered += 1;
    }
    assert_eq!(answered, 5);
}

#[test]
fn hostile_requests_are_refused_and_the_service_goes_on() {
    let mut service = Service::start(&[]);
    let post = |kind: &str, body: &[u8]| service.request("POST", "/verify", kind, body);
    for (kind, body, status) in [
        ("application/json", &b"[{\"gold\": 1}]"[..], 400),
        ("application/json", b"", 400),
        ("application/json", b"[1, 2", 400),
        ("application/json", b"\xff\xfe", 400),
        ("application/json", b"[{\"gold\": \"1\", \"answer\": [1]}]", 400),
        ("application/json", &[b'['; 100_000], 400),
        ("text/plain", b"[]", 415),
        ("", b"[]", 415),
    ] {
        let (found, reply) = post(kind, body);
        assert_eq!(
            found,
            status,
            "{kind} {:?}: {reply}",
            String::from_utf8_lossy(&body[..body.len().min(40)])
        );
    }
    let (_, reply) = post("application/json", b"[{\"gold\": 1}]");
    assert!(reply.contains("missing field `answer`") && reply.contains("send ["), "{reply}");
    assert_eq!(service.request("GET", "/verify", "", b"").0, 405);
    assert_eq!(service.request("GET", "/../../etc/passwd", "", b"").0, 404);
    // Longer than it may be: by what it says, and by what it sends.
    let says = b"POST /verify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n";
    assert!(service.raw(says).contains(" 413 "));
    let mut sends =
        b"POST /verify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
        Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
            .to_vec();
    for _ in 0..17 {
        sends.extend_from_slice(b"100000\r\n");
        sends.resize(sends.len() + (1 << 20), b' ');
        sends.extend_from_slice(b"\r\n");
    }
    assert!(service.raw(&sends).contains(" 413 "));
    let line = [b"{\"gold\":\"1\",\"answer\":\"1\"}\n".to_vec(), vec![b'x'; 3 << 20]].concat();
    let (_, reply) = post("application/x-ndjson", &line);
    assert!(reply.contains("\"correct\"") && reply.contains("line 2 has more than"), "{reply}");
    assert!(
        service
            .raw(&[&b"GET / HTTP/1.1\r\nX: "[..], &vec![b'a'; 1 << 20]].concat())
            .contains(" 431 ")
    );
    // A page elsewhere that gives its name this address.
    assert!(
        service
            .raw(b"GET /health HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
            .contains(" 421 ")
    );
    // Random bytes, in the body and in place of HTTP.
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for round in 0..200 {
        let mut bytes = vec![0; rng.next_u64() as usize % 300];
        rng.fill_bytes(&mut bytes);
        match round % 4 {
            0 => drop(service.raw(&bytes)),
            1 => assert_eq!(service.request("POST", "/verify", "application/json", &bytes).0, 400),
            2 => assert_eq!(
                service.request("POST", "/verify", "application/x-ndjson", &bytes).0,
                200
            ),
            // Connections that are cut off in the middle.
            _ => drop(service.connect().write_all(&says[..bytes.len() % says.len()])),
        }
    }
    let answer = r"\boxed{9^{9^{9^{9}}}}".repeat(1000);
    let costly = serde_json::json!([{"gold": "9^{9^{9^{9}}}+1", "answer": answer}]);
    assert_eq!(service.json(&costly.to_string()).0, 200);
    assert_eq!(service.json(TWO).0, 200, "it goes on");
    let status = service.interrupt();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn many_connections_are_served_and_slow_ones_hold_nobody_up() {
    let service = Service::start(&[]);
    // Clients that never finish what they began.
    let slow: Vec<TcpStream> = (0..100)
        .map(|index| {
            let mut stream = service.connect();
            let head: &[u8] = match index % 3 {
                0 => b"POST /ver",
                1 => b"",
                _ => b"POST /verify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n[",
            };
            stream.write_all(head).expect("sent");
            stream
        })
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                for _ in 0..10 {
                    assert_eq!(service.json(TWO).0, 200);
                }
            });
        }
    });
    assert_eq!(service.metric("tealight_verify_requests_total{code=\"200\"}"), 200.0);
    // They are left after ten seconds.
    let started = Instant::now();
    for mut stream in slow {
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.is_empty() || answer.contains(" 408 "), "{answer}");
    }
    assert!(started.elapsed() < Duration::from_secs(40), "{:?}", started.elapsed());
}

#[test]
fn slow_bodies_take_no_memory_ahead_and_end() {
    let service = Service::start(&[]);
    let head = |kind: &str| {
        format!(
            "POST /verify HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
    };
    // More than would be served if each took what it may come to.
    let mut slow: Vec<TcpStream> = (0..80)
        .map(|index| {
            let kind = if index % 2 == 0 { "application/x-ndjson" } else { "application/json" };
            let mut stream = service.connect();
            stream.write_all(head(kind).as_bytes()).expect("sent");
            stream
        })
        .collect();
    let started = Instant::now();
    let mut ended = None;
    while ended.is_none() {
        assert!(started.elapsed() < Duration::from_secs(60), "they go on");
        for stream in &mut slow {
            // One that was ended takes nothing.
            let _ = stream.write_all(b"1\r\n{\r\n");
        }
        let lines = b"{\"gold\":\"2\",\"answer\":\"2\"}\n";
        let (status, body) = service.request("POST", "/verify", "application/x-ndjson", lines);
        assert!(status == 200 && body.contains("\"correct\""), "{status} {body}");
        assert_eq!(service.json(TWO).0, 200);
        if service.metric("tealight_verify_connections") < 10.0 {
            ended = Some(started.elapsed());
        } else {
            assert!(service.metric("tealight_verify_bytes_in_flight") < f64::from(32 << 20));
        }
        std::thread::sleep(Duration::from_secs(2));
    }
    // They sent something all the time, but too little in the ten seconds that a client has.
    assert!(ended.is_some_and(|time| time > Duration::from_secs(8)), "{ended:?}");
    assert!(service.metric("tealight_verify_bytes_in_flight") < f64::from(2 << 20));
}

#[cfg(target_os = "linux")]
#[test]
fn loopback_service_checks_the_host_header() {
    for address in ["127.0.0.2:0", "[::ffff:127.0.0.1]:0"] {
        if std::net::TcpListener::bind(address).is_err() {
            eprintln!("{address}: no such address here, not tested");
            continue;
        }
        let service = Service::start_at(address, &[]);
        let status = |host: &str| {
            let request =
                format!("GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            let answer = service.raw(request.as_bytes());
            answer.split(' ').nth(1).unwrap_or_default().to_owned()
        };
        assert_eq!(status(&service.address), "200", "{address}");
        assert_eq!(status("localhost"), "200", "{address}");
        assert_eq!(status("evil.example"), "421", "{address}");
    }
}

#[test]
fn shutdown_finishes_requests_in_progress() {
    let grader = r#"while read -r line; do n=${line#*\"request\":}; n=${n%%,*}; sleep 1; echo "{\"request\":$n,\"verdict\":\"correct\"}"; done"#;
    let mut service = Service::start(&["--verifier", &format!("program:{grader}")]);
    let answered = std::thread::scope(|scope| {
        let asked = scope.spawn(|| service.json(r#"[{"gold":"1","answer":"1"}]"#));
        std::thread::sleep(Duration::from_millis(400));
        let pid = service.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().expect("kill");
        asked.join().expect("asked")
    });
    assert!(answered.1.contains("\"correct\""), "{answered:?}");
    assert_eq!(service.child.wait().expect("waited").code(), Some(0));
    drop(service);
}

#[test]
fn invalid_addresses_are_refused() {
    for address in ["nowhere", "127.0.0.1", "127.0.0.1:99999"] {
        let refusal = crate::support::binary::refusal(&["verify", "--serve", address]);
        assert!(refusal.contains("such as 127.0.0.1:8080"), "{refusal}");
    }
    let refusal =
        crate::support::binary::refusal(&["verify", "--serve", "127.0.0.1:0", "--gold", "1"]);
    assert!(refusal.contains("leave out --gold"), "{refusal}");
}
