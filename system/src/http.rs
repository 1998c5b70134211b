//! The one way to speak HTTP: to the Hub, and to servers that sample. ureq follows no redirect; the loop in
//! [`Client::send`] does, and it alone decides who sees the user's token: the origin (scheme, host and port) that the
//! user named, wherever a server points.

use std::io::Read;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ureq::http::{HeaderMap, Request as HttpRequest, Uri};
pub use ureq::http::{Method, StatusCode};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, AsSendBody, Body};

use crate::address::{Origin, followed, origin_of};
pub use crate::address::{encoded_name, origin};
use crate::proxy::Proxies;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(30);
/// What every server sees of us.
const USER_AGENT: &str = concat!("tealight/", env!("CARGO_PKG_VERSION"));
/// The fix where no certificate can be checked.
const CERTIFICATES: &str = "where the certificates of this machine are missing, install them (Debian: \
     ca-certificates) or name a file of them in SSL_CERT_FILE";

/// Why a request brought nothing.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It may work the next time.
    #[error("{0}")]
    OnTheWay(String),
    /// It will not.
    #[error("{0}")]
    ForGood(String),
}

impl Failure {
    fn timeout() -> Self {
        Self::OnTheWay("no answer in time".into())
    }
}

impl From<ureq::Error> for Failure {
    fn from(error: ureq::Error) -> Self {
        match error {
            ureq::Error::Timeout(_) => Self::timeout(),
            ureq::Error::Rustls(error) => Self::ForGood(format!("{error}; {CERTIFICATES}")),
            ureq::Error::Io(error) => Self::OnTheWay(error.to_string()),
            ureq::Error::Http(_) | ureq::Error::BadUri(_) => Self::ForGood(error.to_string()),
            error => Self::OnTheWay(error.to_string()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        // Where the body's reader fails, ureq's own error is inside.
        ureq::Error::from(error).into()
    }
}

/// One request.
pub struct Request<'a> {
    /// How it is asked.
    pub method: Method,
    /// Where.
    pub url: &'a str,
    /// Names and values.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body, if any.
    pub content: Option<&'a str>,
    /// How many redirects are followed. With none, a redirect is an answer like others.
    pub redirects: usize,
}

/// An answer, whose body has not been read.
pub struct Response {
    /// Its status, which is no error.
    pub status: StatusCode,
    headers: HeaderMap,
    body: Body,
}

impl Response {
    /// A header's value, where it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The bytes of the body, where they are announced.
    pub fn announced_bytes(&self) -> Option<u64> {
        self.body.content_length()
    }

    /// The body as it comes.
    pub fn into_reader(self) -> impl Read {
        self.body.into_reader()
    }

    /// The whole body, at most `limit` bytes.
    ///
    /// # Errors
    /// It breaks off, takes too long or is larger.
    pub fn body(self, limit: u64) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        self.body.into_reader().take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            let text = format!("its answer is larger than {limit} bytes, the limit");
            return Err(Failure::ForGood(text));
        }
        Ok(bytes)
    }
}

/// Who asks, and how long a server may take.
pub struct Client {
    direct: Agent,
    proxies: Proxies<Agent>,
    /// The user's token, and who may see it.
    token: Option<(Origin, String)>,
    time: Option<Duration>,
}

impl Client {
    /// A client that may give the user's `token` to the server of `home`. Each read, write and wait for headers may
    /// take `silence`; with `time` the whole request may take no longer.
    ///
    /// # Errors
    /// `home` is no address; a proxy of the environment is none.
    pub fn new(
        home: &str,
        token: Option<&str>,
        silence: Duration,
        time: Option<Duration>,
    ) -> Result<Self> {
        let origin = origin(home).with_context(|| {
            format!(
                "`{home}` is not a server URL: use https://host:port without user name or password"
            )
        })?;
        let agent = |proxy| {
            let connect = time.unwrap_or(CONNECT).min(CONNECT);
            let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier);
            let config = Agent::config_builder()
                .http_status_as_error(false)
                .max_redirects(0)
                .user_agent(USER_AGENT)
                .accept_encoding("identity")
                .proxy(proxy)
                .tls_config(tls.build())
                .timeout_resolve(Some(connect))
                .timeout_connect(Some(connect))
                .timeout_recv_response(Some(silence))
                .timeout_per_read(Some(silence))
                .timeout_per_write(Some(silence))
                .timeout_global(time);
            Agent::from(config.build())
        };
        Ok(Self {
            direct: agent(None),
            proxies: Proxies::from_environment(|proxy| agent(Some(proxy)))?,
            token: token.map(|token| (origin, format!("Bearer {token}"))),
            time,
        })
    }

    /// Sends a request, and follows as many redirects as it allows, never from https to http.
    ///
    /// # Errors
    /// The network; an address that is none; a redirect too many, to nowhere, away from https, or of what is sent
    /// other than by 307 and 308.
    pub fn send(&self, request: &Request<'_>) -> Result<Response, Failure> {
        let malformed = || Failure::ForGood(format!("`{}` is not a URL", request.url));
        let mut address: Uri = request.url.parse().map_err(|_| malformed())?;
        let started = Instant::now();
        let mut redirects = 0;
        loop {
            // The agent's own limit is that of the first request.
            let time = self.time.filter(|_| redirects > 0);
            let left = time.map(|time| time.saturating_sub(started.elapsed()));
            let response = self.ask(request, &address, left)?;
            let status = response.status.as_u16();
            if request.redirects == 0 || !matches!(status, 301 | 302 | 303 | 307 | 308) {
                return Ok(response);
            }
            let refused = |why: &str| Failure::ForGood(format!("{why} ({})", response.status));
            if redirects == request.redirects {
                return Err(refused(&format!("more than {redirects} redirects")));
            }
            if request.method != Method::GET && status < 307 {
                return Err(refused("a redirect of what was sent"));
            }
            let location = response.headers.get("location").map(|value| value.as_bytes());
            let next = followed(&address, location).map_err(refused)?;
            if self.time.is_some_and(|time| started.elapsed() > time) {
                return Err(Failure::timeout());
            }
            address = next;
            redirects += 1;
        }
    }

    /// One request to one address, with the token where that is the user's own server; it may take the client's time,
    /// or what is `left` of it.
    fn ask(
        &self,
        request: &Request<'_>,
        address: &Uri,
        left: Option<Duration>,
    ) -> Result<Response, Failure> {
        let nowhere = || Failure::ForGood(format!("`{address}` is not an http or https URL"));
        let target = origin_of(address).ok_or_else(nowhere)?;
        let mut built = HttpRequest::builder().method(&request.method).uri(address);
        for (name, value) in request.headers {
            built = built.header(*name, *value);
        }
        if let Some((_, token)) = self.token.as_ref().filter(|(home, _)| *home == target)
            && !request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
        {
            built = built.header("Authorization", token);
        }
        let agent = self.proxies.get(target.is_encrypted, &target.host).unwrap_or(&self.direct);
        let response = match request.content {
            None => answered(agent, built.body(()), left),
            Some(text) => answered(agent, built.body(text), left),
        };
        let (parts, body) = response?.into_parts();
        Ok(Response { status: parts.status, headers: parts.headers, body })
    }
}

/// The answer to a request, in the time that is `left` where that is not the agent's.
fn answered(
    agent: &Agent,
    request: ureq::http::Result<HttpRequest<impl AsSendBody>>,
    left: Option<Duration>,
) -> Result<ureq::http::Response<Body>, ureq::Error> {
    let request = request?;
    match left {
        Some(_) => agent.run(agent.configure_request(request).timeout_global(left).build()),
        None => agent.run(request),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};

    /// What a server was asked, and whether the token came along.
    type Log = Arc<Mutex<Vec<(String, bool)>>>;

    /// A server that redirects a path to what `answer` names, and ends where that is nothing.
    fn server(answer: impl Fn(&str) -> Option<String> + Send + 'static) -> (String, Log) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let log = Log::default();
        let seen = log.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let lines = lines.map_while(std::io::Result::ok);
                let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let path = head[0].split(' ').nth(1).unwrap().to_owned();
                let has_token = head.iter().any(|line| line.ends_with("Bearer secret"));
                let answer = match answer(&path) {
                    Some(to) => format!("302 x\r\nLocation: {to}"),
                    None => "200 x".into(),
                };
                seen.lock().unwrap().push((path, has_token));
                let end = "Connection: close\r\nContent-Length: 0\r\n\r\n";
                write!(stream, "HTTP/1.1 {answer}\r\n{end}").unwrap();
            }
        });
        (address, log)
    }

    fn get(home: &str, path: &str, redirects: usize) -> Result<u16, Failure> {
        let time = Duration::from_secs(20);
        let client = Client::new(home, Some("secret"), time, Some(time)).unwrap();
        let url = &format!("{home}{path}");
        let (method, content) = (Method::GET, None);
        let request = Request { method, url, headers: &[], content, redirects };
        client.send(&request).map(|answer| answer.status.as_u16())
    }

    #[test]
    fn only_the_users_own_server_ever_sees_the_token() {
        let home = Arc::new(Mutex::new(String::new()));
        let own = home.clone();
        let (foreign, foreign_log) = server(move |path| match path {
            "/one" => Some("/two".into()),
            "/two" => Some("three?x=1".into()),
            _ => Some(format!("{}/back", own.lock().unwrap())),
        });
        let own = home.clone();
        let (address, home_log) = server(move |path| match path {
            "/away" => Some(format!("{foreign}/one")),
            "/alias" => Some(own.lock().unwrap().replace("127.0.0.1", "localhost") + "/end"),
            "/user" => Some(own.lock().unwrap().replace("//", "//someone@") + "/end"),
            "/round" => Some("/round".into()),
            _ => None,
        });
        home.lock().unwrap().clone_from(&address);
        let log = |log: &Log| std::mem::take(&mut *log.lock().unwrap());
        let asked = |path: &str, has_token| (path.to_owned(), has_token);
        assert_eq!(get(&address, "/away", 5).unwrap(), 200);
        let away = ["/one", "/two", "/three?x=1"].map(|path| asked(path, false));
        assert_eq!(log(&foreign_log), away);
        assert_eq!(log(&home_log), [asked("/away", true), asked("/back", true)]);
        assert_eq!(get(&address, "/alias", 5).unwrap(), 200);
        assert_eq!(log(&home_log), [asked("/alias", true), asked("/end", false)]);
        for (path, redirects) in [("/user", 5), ("/away", 3), ("/round", 5)] {
            let answer = get(&address, path, redirects);
            assert!(matches!(answer, Err(Failure::ForGood(_))), "{path}: {answer:?}");
        }
        assert!(log(&foreign_log).iter().all(|(_, has_token)| !has_token));
        assert_eq!(get(&address, "/away", 0).unwrap(), 302, "an answer like others");
    }
}
