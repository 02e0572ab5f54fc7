//! Questions to a metadata service over plain HTTP.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, RequestBuilder};

/// A service that does not accept a connection in this time is taken not to be there.
const CONNECT_LIMIT: Duration = Duration::from_millis(300);
/// The longest answer read. Azure's metadata with every tag it allows (50, of 768 characters) stays below half of it.
const MAX_ANSWER: u64 = 256 << 10;

/// Asks one metadata service.
#[derive(Debug, Clone)]
pub(super) struct Client {
    agent: Agent,
    url: String,
}

/// Resolves names where the question is asked, in the thread of the watch: ureq's own resolver makes a thread for each question with
/// a time limit, an address in figures too, and panics where the system has no room for one (`ulimit -v`).
#[derive(Debug)]
struct InThisThread;

impl Resolver for InThisThread {
    fn resolve(&self, uri: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut found = self.empty();
        addresses(uri).take(2).for_each(|address| found.push(address));
        if found.is_empty() { Err(ureq::Error::HostNotFound) } else { Ok(found) }
    }
}

/// Where the host of this URL is; none, where nobody knows.
fn addresses(uri: &Uri) -> impl Iterator<Item = SocketAddr> {
    let named = uri.host().map(|host| format!("{host}:{}", uri.port_u16().unwrap_or(80)));
    named.and_then(|named| named.to_socket_addrs().ok()).into_iter().flatten()
}

/// What it answered, whatever the status.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    headers: ureq::http::HeaderMap,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body of a success.
    pub(super) fn ok(self) -> Result<Vec<u8>, String> {
        if self.status == 200 {
            Ok(self.body)
        } else {
            Err(format!("it answered with HTTP status {}", self.status))
        }
    }
}

impl Client {
    pub(super) fn new(url: &str) -> Self {
        let config = Agent::config_builder()
            // A proxy would answer for the machine it runs on, so the environment's is left aside.
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            // A connection that was kept while this machine stood still may be dead without a sign; questions are rare.
            .max_idle_connections(0)
            .timeout_connect(Some(CONNECT_LIMIT.max(Duration::from_secs(2))))
            .user_agent(concat!("fathom/", env!("CARGO_PKG_VERSION")))
            .build();
        let agent = Agent::with_parts(config, DefaultConnector::default(), InThisThread);
        Self { agent, url: url.to_owned() }
    }

    /// Whether anything accepts a connection there, quickly.
    pub(super) fn reachable(&self) -> bool {
        let Ok(uri) = self.url.parse::<Uri>() else { return false };
        addresses(&uri).take(2).any(|address| TcpStream::connect_timeout(&address, CONNECT_LIMIT).is_ok())
    }

    /// Reads a path, with these headers, within this time.
    pub(super) fn get(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        limit: Duration,
    ) -> Result<Answer, String> {
        let request = self.agent.get(format!("{}{path}", self.url));
        told("GET", path, taken(prepared(request, headers, limit).call()))
    }

    /// Sends an empty PUT, with which AWS hands out its tokens.
    pub(super) fn put(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        limit: Duration,
    ) -> Result<Answer, String> {
        let request = self.agent.put(format!("{}{path}", self.url));
        told("PUT", path, taken(prepared(request, headers, limit).send_empty()))
    }
}

/// Logs what was asked and how it was answered.
fn told(method: &str, path: &str, answer: Result<Answer, String>) -> Result<Answer, String> {
    match &answer {
        Ok(answer) => tracing::debug!(method, path, status = answer.status, bytes = answer.body.len()),
        Err(error) => tracing::debug!(method, path, error),
    }
    answer
}

fn prepared<Body>(
    request: RequestBuilder<Body>,
    headers: &[(&str, &str)],
    limit: Duration,
) -> RequestBuilder<Body> {
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.config().timeout_global(Some(limit)).build()
}

fn taken(result: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Answer, String> {
    let mut response = result.map_err(|e| e.to_string())?;
    let body =
        response.body_mut().with_config().limit(MAX_ANSWER).read_to_vec().map_err(|e| e.to_string())?;
    let (parts, _) = response.into_parts();
    Ok(Answer { status: parts.status.as_u16(), body, headers: parts.headers })
}
