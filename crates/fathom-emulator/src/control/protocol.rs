//! What is said over the control socket: one JSON object a line, a question and its answer.

use crate::directory::{FabricDir, names, not_up};
use crate::error::Error;
use fathom_os::peer;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;

/// No answer is longer: the status of thousands of hosts.
const LONGEST: usize = 64 << 20;

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Request {
    /// How it is.
    Status,
    /// Make this happen now: what an `[[event]]` says, as TOML, without `at`.
    Event {
        /// The event.
        toml: String,
    },
    /// The namespaces of a host; the network comes with the answer, and the users where the fabric has its own.
    Enter {
        /// Which host.
        host: String,
    },
    /// Take everything away.
    Down,
}

/// An answer: what was asked for, or why not.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    /// What it is depends on the question: [`Entry`] for `enter`, [`crate::processes::Cleanup`] for `down`.
    Ok(Value),
    /// One line.
    Error(String),
}

/// What a process needs to become a host's.
#[derive(Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The fabric's mark for what it starts.
    pub marker: String,
    /// Whether the second file that comes along is the fabric's user namespace.
    pub users: bool,
}

impl Answer {
    pub(super) fn of(value: &impl Serialize) -> Self {
        match serde_json::to_value(value) {
            Ok(value) => Self::Ok(value),
            Err(e) => Self::Error(e.to_string()),
        }
    }
}

/// Asks the daemon and waits for its answer, and the files that came with it.
pub fn ask<T: DeserializeOwned>(fabric: &FabricDir, request: &Request) -> Result<(T, Vec<File>), Error> {
    let name = fabric.name();
    let socket = UnixStream::connect(fabric.control()).map_err(|e| not_there(name, &e))?;
    let broken = |e: io::Error| {
        let log = fabric.file("log");
        Error::run(format!(
            "fabric {name} gave no answer: {e}; see {}, then: fathom fabric down {name}",
            log.display()
        ))
    };
    let mut question = serde_json::to_vec(request).map_err(|e| Error::run(e.to_string()))?;
    question.push(b'\n');
    peer::send_with_files(&socket, &question, &[]).map_err(broken)?;
    let (line, files) = read_line(&socket).map_err(broken)?;
    let answer: Answer = serde_json::from_slice(&line).map_err(|e| broken(io::Error::other(e)))?;
    match answer {
        Answer::Ok(value) => {
            let value = serde_json::from_value(value).map_err(|e| broken(io::Error::other(e)))?;
            Ok((value, files))
        }
        Answer::Error(line) => Err(Error::run(line)),
    }
}

/// Why nobody listens.
fn not_there(name: &str, cause: &io::Error) -> Error {
    match cause.kind() {
        ErrorKind::NotFound => not_up(name, &names()),
        ErrorKind::ConnectionRefused => Error::run(format!(
            "the daemon of fabric {name} has gone without a word; remove what it left with: fathom fabric down {name}"
        )),
        _ => Error::run(format!("cannot reach fabric {name}: {cause}; be the user who made it, or root")),
    }
}

/// One line and the files that came with any part of it.
pub(super) fn read_line(socket: &UnixStream) -> io::Result<(Vec<u8>, Vec<File>)> {
    let (mut line, mut files) = (Vec::new(), Vec::new());
    let mut part = vec![0; 64 << 10];
    loop {
        let (length, came) = peer::receive_with_files(socket, &mut part)?;
        files.extend(came);
        line.extend_from_slice(&part[..length]);
        if line.last() == Some(&b'\n') {
            return Ok((line, files));
        }
        if length == 0 {
            return Err(io::Error::new(ErrorKind::UnexpectedEof, "the other end closed"));
        }
        if line.len() > LONGEST {
            return Err(io::Error::new(ErrorKind::InvalidData, "the line is too long"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_are_one_json_object_each() {
        let line = serde_json::to_string(&Request::Enter { host: "client".into() }).unwrap();
        assert_eq!(line, r#"{"do":"enter","host":"client"}"#);
        assert_eq!(serde_json::from_str::<Request>(r#"{"do":"down"}"#).unwrap(), Request::Down);
        let refused = serde_json::to_string(&Answer::Error("no host x".into())).unwrap();
        assert_eq!(refused, r#"{"error":"no host x"}"#);
    }

    #[test]
    fn read_line_is_complete_and_reports_eof() {
        let (here, there) = UnixStream::pair().unwrap();
        let long = [b"x".repeat(100_000), b"\n".to_vec()].concat();
        let sender = std::thread::spawn(move || peer::send_with_files(&here, &long, &[]));
        assert_eq!(read_line(&there).unwrap().0.len(), 100_001);
        sender.join().unwrap().unwrap();
        assert_eq!(read_line(&there).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
}
