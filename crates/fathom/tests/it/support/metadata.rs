//! A metadata service on loopback, run by the test itself, which remembers what it was asked.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Instant, SystemTime};

/// One question.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) at: Instant,
    pub(crate) utc: SystemTime,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// What to do with a question.
pub(crate) enum Reply {
    /// Answer with a status, further header lines and a body.
    Answer(u16, &'static str, String),
    /// Close the connection without a word.
    Close,
    /// Say nothing, and keep the connection open until the test ends.
    Hold,
}

/// The service.
pub(crate) struct Metadata {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Request>>>,
}

impl Metadata {
    /// Starts one. The script gets each question, and how many for the same path (what follows `?` aside) came before.
    pub(crate) fn start(script: impl Fn(&Request, usize) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        let asked: Arc<Mutex<Vec<Request>>> = Arc::default();
        let log = Arc::clone(&asked);
        // It serves one question at a time, and ends with the test's process.
        thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.expect("accepted");
                // Someone who only looks whether anybody is there asks nothing.
                let Some(request) = read(&stream) else { continue };
                let before = {
                    let mut log = log.lock().expect("log");
                    let before = log.iter().filter(|r| bare(&r.path) == bare(&request.path)).count();
                    log.push(request.clone());
                    before
                };
                match script(&request, before) {
                    Reply::Answer(status, headers, body) => {
                        let length = body.len();
                        let text = format!(
                            "HTTP/1.1 {status} Said\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                        );
                        // The probe may have ended meanwhile.
                        let _ = stream.write_all(text.as_bytes());
                    }
                    Reply::Close => {}
                    Reply::Hold => held.push(stream),
                }
            }
        });
        Self { address, asked }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every question so far, in order.
    pub(crate) fn asked(&self) -> Vec<Request> {
        self.asked.lock().expect("log").clone()
    }

    /// The questions for this path.
    pub(crate) fn asked_for(&self, path: &str) -> Vec<Request> {
        self.asked().into_iter().filter(|r| bare(&r.path) == path).collect()
    }
}

fn bare(path: &str) -> &str {
    path.split('?').next().unwrap_or(path)
}

fn read(stream: &TcpStream) -> Option<Request> {
    let (at, utc) = (Instant::now(), SystemTime::now());
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    let first = lines.next()?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let header = |line: String| {
        let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no header: {line:?}"));
        (name.to_ascii_lowercase(), value.trim().to_owned())
    };
    Some(Request { method, path, headers: lines.map(header).collect(), at, utc })
}
