//! One connection of a client as it is written down: what is out on it, what came back, its rows, and its end. What moves
//! the bytes (a socket, or TCP in virtual time) is the driver's.

use crate::cause::{ClosingCause, is_local};
use crate::event::{EventKind, Evidence, TcpInfo};
use crate::sample::{Flags, Sample};
use fathom_wire::{Checker, HEADER_LEN, Integrity, Key, Secret};
use std::net::SocketAddr;

/// What waits for its answer.
#[derive(Debug, Clone, Copy)]
pub struct Out {
    /// Its ordinal on the connection.
    pub ask: u64,
    due_ns: Option<u64>,
    sent_ns: u64,
    size: u32,
}

/// What came.
#[derive(Debug, Clone, Copy)]
pub enum Came {
    /// Not all of it yet.
    Part,
    /// The whole answer to this.
    Answer(Out),
    /// What was not asked for, or not what was sent.
    Foreign,
}

/// Where a connection leads, and which place of the pool it fills.
#[derive(Debug, Clone)]
pub struct Place {
    /// The target as the user named it.
    pub target: String,
    /// Its address and port.
    pub remote: SocketAddr,
    /// The place in the pool.
    pub lane: u32,
}

/// What broke a connection, in the system's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The system's number, where there is one.
    pub errno: Option<i32>,
    /// What went wrong.
    pub error: String,
}

/// See the module. Moments are ns of the driver's monotonic clock.
#[derive(Debug)]
pub struct Link {
    place: Place,
    key: Key,
    begun_ns: u64,
    established_ns: Option<u64>,
    checker: Checker,
    out: Option<Out>,
    /// Rows so far, those of requests only.
    rows: u64,
    answered: u64,
    last_answered: Option<u64>,
    heard_ns: Option<u64>,
    corrupted: bool,
    info: Option<TcpInfo>,
}

impl Link {
    /// One that is begun now. `key` tells its requests from any other connection's.
    pub fn new(place: Place, key: Key, now: u64) -> Self {
        Self {
            place,
            key,
            begun_ns: now,
            established_ns: None,
            checker: Checker::default(),
            out: None,
            rows: 0,
            answered: 0,
            last_answered: None,
            heard_ns: None,
            corrupted: false,
            info: None,
        }
    }

    /// Where it leads.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Whether it was established.
    pub fn is_established(&self) -> bool {
        self.established_ns.is_some()
    }

    /// What is to be recorded when it is begun.
    pub fn opening(&self) -> EventKind {
        EventKind::ConnectionOpening {
            target: self.place.target.clone(),
            remote: self.place.remote.to_string(),
            attempt: 1,
            lane: Some(self.place.lane),
        }
    }

    /// It is established, from this address here; what is to be recorded of that.
    pub fn opened(&mut self, now: u64, local: String) -> EventKind {
        self.established_ns = Some(now);
        EventKind::ConnectionOpened {
            target: self.place.target.clone(),
            local,
            remote: self.place.remote.to_string(),
            connect_ns: now.saturating_sub(self.begun_ns) as i64,
            tls_ns: None,
            interface: None,
            lane: Some(self.place.lane),
        }
    }

    /// The bytes of a request that was due then, or (without) of one that only asks whether the connection works.
    pub fn ask(
        &mut self,
        now: u64,
        ask: u64,
        due_ns: Option<u64>,
        size: u32,
        secret: Option<&Secret>,
    ) -> Vec<u8> {
        let size = if due_ns.is_some() { size } else { HEADER_LEN as u32 };
        let mut bytes = vec![0; size as usize];
        self.key.fill_sealed(secret, ask, size, 0, &mut bytes);
        self.out = Some(Out { ask, due_ns, sent_ns: now, size });
        bytes
    }

    /// Takes bytes that came.
    pub fn receive(&mut self, now: u64, mut bytes: &[u8]) -> Came {
        self.heard_ns = Some(now);
        let mut came = Came::Part;
        while !bytes.is_empty() {
            let Some(out) = self.out else {
                // Whatever follows an answer makes the answer itself doubtful: its row says that none came.
                if let Came::Answer(out) = came {
                    self.out = Some(out);
                }
                return Came::Foreign;
            };
            let (taken, whole) = self.checker.feed(self.key, out.ask, out.size, bytes);
            bytes = &bytes[taken..];
            match whole {
                Some(Integrity::Intact(_)) => {
                    self.out = None;
                    came = Came::Answer(out);
                }
                Some(Integrity::Corrupted) => {
                    self.corrupted = true;
                    return Came::Foreign;
                }
                None => {}
            }
        }
        came
    }

    /// The row of a request that was answered now; none of what was no request. `info`: the kernel's view, where there is one.
    pub fn answered(
        &mut self,
        now: u64,
        out: Out,
        info: Option<TcpInfo>,
        utc_of: impl Fn(u64) -> i64,
    ) -> Option<Sample> {
        self.row(out, Some(now), info, utc_of)
    }

    /// The row of the request that waits and will never be answered.
    pub fn given_up(&mut self, info: Option<TcpInfo>, utc_of: impl Fn(u64) -> i64) -> Option<Sample> {
        let out = self.out.take()?;
        self.row(out, None, info, utc_of)
    }

    fn row(
        &mut self,
        out: Out,
        answered_ns: Option<u64>,
        info: Option<TcpInfo>,
        utc_of: impl Fn(u64) -> i64,
    ) -> Option<Sample> {
        let due_ns = out.due_ns?;
        let seq = self.rows;
        self.rows += 1;
        let mut flags = Flags::default();
        if seq == 0 {
            flags |= Flags::FIRST_ON_CONNECTION;
        }
        let before = self.info.map_or(0, |info| info.total_retrans);
        self.info = info.or(self.info);
        match answered_ns {
            Some(_) => {
                self.answered += 1;
                self.last_answered = Some(seq);
            }
            None => flags |= Flags::UNANSWERED,
        }
        if self.corrupted {
            flags |= Flags::CORRUPTED;
        }
        let resent = self.info.map(|info| info.total_retrans.saturating_sub(before));
        Some(Sample {
            connection: self.key.connection,
            seq,
            size: out.size,
            sent_ns: utc_of(out.sent_ns),
            lateness_ns: out.sent_ns as i64 - due_ns as i64,
            rtt_ns: answered_ns.map(|at| at.saturating_sub(out.sent_ns) as i64),
            srtt_us: self.info.map(|info| info.srtt_us),
            retransmits: resent.map(|n| u16::try_from(n).unwrap_or(u16::MAX)),
            flags,
            ..Sample::default()
        })
    }

    /// What is to be recorded of its end, when all its rows have been made.
    pub fn ended(&self, now: u64, cause: ClosingCause, broken: Option<Broken>) -> EventKind {
        let (errno, error) = broken.map_or((None, None), |broken| (broken.errno, Some(broken.error)));
        let Some(established_ns) = self.established_ns else {
            let given_up = match cause {
                ClosingCause::Abandoned => "it was not established in time",
                _ => "the run ended before it was established",
            };
            return EventKind::ConnectionRefused {
                target: self.place.target.clone(),
                remote: Some(self.place.remote.to_string()),
                errno,
                error: error.unwrap_or_else(|| given_up.to_owned()),
                // A pool tries again as soon as somebody wants a connection.
                retry_in_ns: (cause != ClosingCause::Finished).then_some(0),
                waited_ns: None,
                local: errno.is_some_and(is_local),
                lane: Some(self.place.lane),
            };
        };
        let evidence = Evidence {
            sent: self.rows,
            answered: self.answered,
            last_answered_seq: self.last_answered,
            outstanding: self.rows - self.answered,
            silent_ns: self.heard_ns.map(|at| now.saturating_sub(at)),
            error,
            tcp: self.info.map(Box::new),
        };
        let age_ns = now.saturating_sub(established_ns);
        EventKind::ConnectionClosed { cause, verdict: None, errno, age_ns, evidence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes behind an answer took the answer's row with them: a try that was sent had none.
    #[test]
    fn sent_try_always_has_a_row() {
        let key = Key { session: 1, connection: 0 };
        let place = Place { target: "there".to_owned(), remote: ([127, 0, 0, 1], 7).into(), lane: 0 };
        for more in [&b""[..], b"x"] {
            let mut link = Link::new(place.clone(), key, 0);
            let frame = link.ask(6, 0, Some(5), HEADER_LEN as u32, None);
            let came = link.receive(9, &[&frame, more].concat());
            let row = link.given_up(None, |at| at as i64);
            match (came, row) {
                (Came::Answer(_), None) => assert!(more.is_empty()),
                (Came::Foreign, Some(row)) => {
                    assert!(
                        !more.is_empty() && row.rtt_ns.is_none() && row.flags.contains(Flags::UNANSWERED)
                    );
                }
                other => panic!("{other:?} {more:?}"),
            }
        }
    }
}
